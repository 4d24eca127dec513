#!/usr/bin/env python3
"""Training-step times of two builds of Freight, in alternation, beside the older one against itself.

usage: bench/compare_builds.py OLD NEW [workload ...] [--steps 200] [--seconds 2] [--limit 180]
                               [--precision bf16] [--ranks 2] [--out FILE.json]

OLD and NEW are two `freight` commands. Each round runs `bench step` of the old one, the new one and the old one again, in an
order that is turned round by round; rounds go on until each has timed --steps steps, or a net has taken --limit seconds. The
ratio of a round is that of the medians, new over old; old again over old is what the machine does by itself. Each is given as the
median of its rounds with a 95 % interval (bootstrap). With --ranks, `train` with that many processes takes the place of
`bench step`, for the workloads of compare_ddp.py (lenet and resnet20). Run it on an otherwise idle machine.
"""
import argparse
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time

import compare_ddp
from compare_torch import WORKLOADS


def step(freight, workload, options):
    if options.ranks > 1:
        return compare_ddp.time_freight(freight, workload, options.ranks)
    model, batch, optimizer = WORKLOADS[workload]
    command = [freight, "bench", "step", "--model", model, "-b", str(batch), "--optimizer", optimizer,
               "--precision", options.precision, "--seconds", str(options.seconds), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_builds: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    if "other programs used" in done.stderr:
        print(f"  busy: {done.stderr.strip().splitlines()[-1]}", flush=True)
    return json.loads(done.stdout)["ms_median"]


def processor():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.machine()


def interval(ratios):
    """Median of the ratios, and the 2.5th and 97.5th percentile of the medians of 5,000 draws from them."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(5000))
    return {"median": statistics.median(ratios), "low": medians[125], "high": medians[4875]}


def compared(old, new, workload, options):
    rounds, timed, begin = [], 0, time.monotonic()
    while len(rounds) < 3 or (timed < options.steps and time.monotonic() - begin < options.limit):
        order = [("old", old), ("new", new), ("again", old)]
        shift = len(rounds) % 3
        times = {name: step(freight, workload, options) for name, freight in order[shift:] + order[:shift]}
        timed += max(1, int(1000 * options.seconds / max(times.values())))
        rounds.append(times)
    return {"workload": workload, "rounds": len(rounds), "steps_of_each": timed,
            "old_ms": statistics.median(r["old"] for r in rounds), "new_ms": statistics.median(r["new"] for r in rounds),
            "new_over_old": interval([r["new"] / r["old"] for r in rounds]),
            "old_over_old": interval([r["again"] / r["old"] for r in rounds])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--limit", type=float, default=180)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    rows = []
    for workload in options.workloads or (compare_ddp.WORKLOADS if options.ranks > 1 else WORKLOADS):
        rows.append(compared(options.old, options.new, workload, options))
        r = rows[-1]
        print("%-20s %8.2f -> %8.2f ms   new/old %.3f [%.3f, %.3f]   old/old %.3f [%.3f, %.3f]   %d rounds, %d steps"
              % (workload, r["old_ms"], r["new_ms"], *r["new_over_old"].values(), *r["old_over_old"].values(), r["rounds"], r["steps_of_each"]),
              flush=True)
        if options.out:
            versions = [subprocess.run([f, "--version"], capture_output=True, text=True).stdout.strip() for f in (options.old, options.new)]
            with open(options.out, "w") as f:
                json.dump({"date": str(datetime.date.today()), "command": "bench/compare_builds.py " + " ".join(sys.argv[1:]),
                           "machine": processor(), "cores": os.cpu_count(), "old": versions[0],
                           "new": versions[1], "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
