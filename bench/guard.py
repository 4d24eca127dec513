#!/usr/bin/env python3
"""Guards step times: two builds of Freight on every workload of compare_torch.py, in f32 and in bf16.

usage: bench/guard.py OLD NEW [workload ...] [--precision fp32,bf16] [--steps 200] [--seconds 2] [--limit 180] [--out FILE.json]

OLD and NEW are two `freight` commands. Each row is measured as by compare_builds.py: old, new and the old one again, in alternation.
A row fails if the new build is more than 3 % slower and its ratio lies above the 95 % interval of the old build against itself; then
both builds are profiled, and the steps of the plan that became slower are named. The exit code is 1 if a row failed. Run it on an
otherwise idle machine.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

from compare_builds import compared, processor
from compare_torch import WORKLOADS

SLOWER = 1.03
PROFILES = 3  # of each build; the fastest time of a step counts


def profile(freight, workload, options):
    """The milliseconds of each step of the plan by its name; equal names are added."""
    model, batch, optimizer = WORKLOADS[workload]
    command = [freight, "profile", "--model", model, "-b", str(batch), "--optimizer", optimizer, "--precision", options.precision,
               "--seconds", str(options.seconds), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"guard: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    steps = {}
    for step in json.loads(done.stdout)["steps"]:
        steps[step["name"]] = steps.get(step["name"], 0) + step["ms"]
    return steps


def slower_steps(old, new, workload, options, count=5):
    """The steps that lost most: (name, old ms, new ms); steps that only one plan has have 0 in the other."""
    least = {old: {}, new: {}}
    for _ in range(PROFILES):
        for freight, steps in least.items():
            for name, ms in profile(freight, workload, options).items():
                steps[name] = min(ms, steps.get(name, ms))
    names = least[old].keys() | least[new].keys()
    rows = [(name, least[old].get(name, 0), least[new].get(name, 0)) for name in names]
    return sorted((r for r in rows if r[2] > r[1]), key=lambda r: r[1] - r[2])[:count]


def fails(row):
    ratio = row["new_over_old"]["median"]
    return ratio > SLOWER and ratio > row["old_over_old"]["high"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--precision", dest="precisions", default="fp32,bf16", type=lambda text: text.split(","))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--limit", type=float, default=180)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.ranks = 1
    unknown = set(options.workloads) - WORKLOADS.keys()
    if unknown:
        parser.error(f"workloads: expected some of {', '.join(WORKLOADS)}, got {', '.join(sorted(unknown))}")
    rows, failed = [], 0
    for workload in options.workloads or WORKLOADS:
        for options.precision in options.precisions:
            row = {"precision": options.precision, **compared(options.old, options.new, workload, options)}
            rows.append(row)
            bad = fails(row)
            failed += bad
            print("%-18s %s %9.3f -> %9.3f ms   new/old %.3f [%.3f, %.3f]   old/old %.3f [%.3f, %.3f]%s"
                  % (workload, options.precision, row["old_ms"], row["new_ms"], *row["new_over_old"].values(),
                     *row["old_over_old"].values(), "   SLOWER" if bad else ""), flush=True)
            if bad:
                row["slower_steps"] = slower_steps(options.old, options.new, workload, options)
                for name, before, after in row["slower_steps"]:
                    print(f"    {before:9.3f} -> {after:9.3f} ms  {name}", flush=True)
            if options.out:
                with open(options.out, "w") as f:
                    json.dump({"date": str(datetime.date.today()), "command": "bench/guard.py " + " ".join(sys.argv[1:]),
                               "machine": processor(), "cores": os.cpu_count(), "rows": rows}, f, indent=1)
    print(f"{len(rows) - failed} of {len(rows)} rows are not slower")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
