#!/bin/sh
# Runs a command on two hosts that are network namespaces of this machine, joined by a line of limited rate: two ranks,
# as torchrun would start them. Needs root. Rank 0's output is shown.
# usage: bench/two_hosts.sh 1gbit build/bin/freight bench comm --bytes 1M,16M,64M
set -eu
rate=$1
shift
a=freight-a-$$ b=freight-b-$$
clean() { ip netns del "$a" 2>/dev/null; ip netns del "$b" 2>/dev/null; true; }
trap clean EXIT
ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add e0 type veth peer name e0 netns "$b"
address=1
for n in "$a" "$b"; do
  ip -n "$n" addr add 10.78.0.$address/24 dev e0
  ip -n "$n" link set e0 up
  ip -n "$n" link set lo up
  tc -n "$n" qdisc add dev e0 root tbf rate "$rate" burst 256kb latency 50ms
  address=$((address + 1))
done
FREIGHT_TOKEN=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
export FREIGHT_TOKEN WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 MASTER_PORT=29500
RANK=1 ip netns exec "$b" "$@" >/dev/null 2>&1 &
other=$!
RANK=0 ip netns exec "$a" "$@"
wait $other
