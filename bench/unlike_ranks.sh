#!/bin/bash
# Measures what ranks that are not alike reach together, against the sum of their rates alone and the prediction.
# Usage: unlike_ranks.sh FREIGHT quota|opencl SECONDS_ALONE SECONDS_TOGETHER DATA [train's options]
#   quota: two ranks with a core each, the second with 40 % of it (cpu.cfs_quota_us, cgroup version 1; needs root)
#   opencl: cpu on one core, opencl:0 on another
# Alone: both run at once on their cores, with the whole batch and unconnected. Together: they share each batch.
set -u
freight=$1 kind=$2 alone=$3 together=$4
shift 4
dir=$(mktemp -d)
group=/sys/fs/cgroup/cpu/freight-unlike
trap 'rm -rf "$dir"; [ ! -d $group ] || rmdir $group' EXIT
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
train() {  # core, seconds, then what follows `train`
  local core=$1 seconds=$2
  shift 2
  timeout -s TERM "$seconds" taskset -c "$core" "$freight" train "$@" --epochs 0 --max-steps 1000000 -q --seed 1 > /dev/null 2>&1
}
limited() (
  echo $BASHPID > $group/cgroup.procs
  train 1 "$@"
)
if [ "$kind" = quota ]; then
  mkdir -p $group
  echo 100000 > $group/cpu.cfs_period_us
  echo 40000 > $group/cpu.cfs_quota_us
  train 0 "$alone" "$@" -o "$dir/first" &
  limited "$alone" "$@" -o "$dir/second" &
  wait
  export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 20000))
  RANK=1 LOCAL_RANK=1 limited "$together" "$@" --device-weights auto -o "$dir/both" &
  RANK=0 LOCAL_RANK=0 train 0 "$together" "$@" --device-weights auto -o "$dir/both"
  wait
else
  train 0 "$alone" "$@" --device cpu -o "$dir/first" &
  train 1 "$alone" "$@" --device opencl:0 --device-data no -o "$dir/second" &
  wait
  unset OMP_NUM_THREADS
  train 0,1 "$together" "$@" --devices cpu,opencl:0 -o "$dir/both"
fi
python3 - "$dir" << 'END'
import json, sys
runs = [json.load(open(f"{sys.argv[1]}/{name}/run.json")) for name in ("first", "second", "both")]
first, second, both = [r["plan"]["measured_step_seconds"] for r in runs]
shares = runs[2]["ranks"]
predicted = shares["predicted_step_seconds"]
rates = 1 / first + 1 / second
print(f"alone {1e3 * first:.1f} and {1e3 * second:.1f} ms a step, together {1e3 * both:.1f} ms as {shares['units']}: "
      f"{100 / both / rates:.1f} % of the sum of the rates; predicted {1e3 * predicted:.1f} ms, measured {100 * (both / predicted - 1):+.1f} %")
END
