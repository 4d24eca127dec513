#!/bin/bash
# deploy/freight.sbatch on a cluster of one node: Debian's slurm-wlm with daemons of its own, in a folder of its own.
# usage: slurm_test.sh BUILD_DIR; exits 77 where Slurm is missing or does not start here.
set -u
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
skip() { echo "skipped: $1"; exit 77; }
fail() { echo "FAIL: $1"; exit 1; }
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch; do command -v $program >/dev/null || skip "there is no $program (slurm-wlm)"; done
[ "$(id -u)" = 0 ] || skip "needs root to start the daemons"

dir=$(mktemp -d /tmp/freight-slurm-XXXXXX)
chmod 755 "$dir"
clean() {
  for daemon in slurmd slurmctld munged; do
    [ -s "$dir/$daemon.pid" ] && kill "$(cat "$dir/$daemon.pid")" 2>/dev/null
  done
  for _ in $(seq 50); do [ -s "$dir/slurmctld.pid" ] || break; sleep 0.1; done
  rm -rf "$dir"
}
trap clean EXIT

mkdir -p "$dir/munge" "$dir/state" "$dir/spool"
chmod 755 "$dir/munge"
head -c 32 /dev/urandom > "$dir/key"
chmod 400 "$dir/key"
munged --force --socket="$dir/munge/socket" --key-file="$dir/key" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" \
  --seed-file="$dir/seed" || skip "munged does not start"
node=$(hostname -s)
port() { echo $((20000 + RANDOM % 5000 * 2 + $1)); }
cat > "$dir/slurm.conf" <<CONF
ClusterName=freight
SlurmctldHost=$node(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$(port 0)
SlurmdPort=$(port 1)
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
CONF
export SLURM_CONF=$dir/slurm.conf
slurmctld && slurmd || skip "Slurm does not start: $(tail -n 1 "$dir"/slurm*.log)"
for _ in $(seq 100); do sinfo -h -o %t 2>/dev/null | grep -q idle && break; sleep 0.1; done
sinfo -h -o %t | grep -q idle || skip "the node does not come up: $(sinfo -h; tail -n 2 "$dir/slurmd.log")"

export FREIGHT=$build/bin/freight
cd "$dir"
# Prints what a job prints, with the exit code of the job behind.
job() {
  rm -f out
  timeout 120 sbatch --wait --quiet --output=out --nodes=1 --ntasks-per-node=2 --oversubscribe "$root/deploy/freight.sbatch" "$@"
  echo "exit $?" >> out
}
for engine in shared gloo; do
  job bench comm --json --engine $engine --bytes 4k,1M --seconds 0.05
  grep -q '"world": 2' out && grep -q '^exit 0$' out || fail "two ranks by $engine: $(cat out)"
  [ "$(grep -c '"worlds"' out)" = 1 ] || fail "rank 0 alone prints: $(cat out)"
done
# Each task is told its place by Slurm: another number of ranks than it started is refused, and not tried again.
job bench comm --world 3
grep -q 'Slurm started 2 processes' out && grep -q '^exit 2$' out && ! grep -q 'lost a process' out ||
  fail "another number of ranks: $(cat out)"

# A program that ends with an error in one task only.
printf '#!/bin/sh\n[ "$SLURM_PROCID" = 1 ] || exec sleep 60\nexit 3\n' > one_fails
chmod 755 one_fails
FREIGHT=$dir/one_fails job
grep -q '^exit 3$' out && ! grep -q 'lost a process' out || fail "an error of one task: $(cat out)"

# A process that is killed: the job runs again.
printf '#!/bin/sh\n[ "$SLURM_PROCID" = 1 ] || exec sleep 60\n[ -e again ] && exit 3\ntouch again\nkill -9 $$\n' > one_is_killed
chmod 755 one_is_killed
FREIGHT=$dir/one_is_killed job
grep -q '^exit 3$' out && [ "$(grep -c 'lost a process' out)" = 1 ] || fail "a process that is killed: $(cat out)"

# scancel lets the command save what it has.
printf '#!/bin/sh\ntrap "touch saved.$SLURM_PROCID; exit 0" TERM\ntouch up.$SLURM_PROCID\nwhile :; do sleep 0.1; done\n' > saves
chmod 755 saves
id=$(FREIGHT=$dir/saves sbatch --parsable --output=out --nodes=1 --ntasks-per-node=2 --oversubscribe "$root/deploy/freight.sbatch")
for _ in $(seq 100); do [ -e up.0 ] && [ -e up.1 ] && break; sleep 0.1; done
scancel --signal=TERM "$id"
for _ in $(seq 100); do [ -e saved.0 ] && [ -e saved.1 ] && break; sleep 0.1; done
[ -e saved.0 ] && [ -e saved.1 ] || fail "a signal does not reach the command: $(ls; cat out)"
echo "all is well"
