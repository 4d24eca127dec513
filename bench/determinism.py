#!/usr/bin/env python3
"""What --deterministic costs: docs/performance.md.

usage: bench/determinism.py [--freight build/bin/freight] [--out FILE.json] [--rounds 5] [--seconds 1]

Times training steps with and without it, in turns, so that both meet the same machine; the ratio is that of the least times of a
round, its median over the rounds. Without it kernels are chosen by measurement, once and before the rounds; with it they are fixed, and long
sums of weight gradients are not cut by the number of threads. Run it on a machine that is idle otherwise.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

STEPS = [("mlp", 64), ("lenet", 64), ("convnet", 64), ("resnet20", 32), ("resnet18", 4), ("vgg11", 4), ("gpt_char", 16)]


def step(freight, net, batch, seconds, environment, deterministic):
    command = [freight, "bench", "step", "--model", net, "--batch-size", str(batch), "--seconds", str(seconds), "--json"]
    done = subprocess.run(command + ["--deterministic"] * deterministic, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def compared(freight, net, batch, rounds, seconds, environment):
    step(freight, net, batch, 0.01, environment, False)  # measures the kernels
    fixed, free = [], []
    for _ in range(rounds):
        free.append(step(freight, net, batch, seconds, environment, False)["ms_min"])
        fixed.append(step(freight, net, batch, seconds, environment, True)["ms_min"])
    return {"net": net, "batch_size": batch, "ms": min(free), "ms_deterministic": min(fixed),
            "ratio": statistics.median(a / b for a, b in zip(fixed, free)), "ratios": [a / b for a, b in zip(fixed, free)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--out")
    parser.add_argument("--nets", help="some of the nets, with commas between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    a = parser.parse_args()
    wanted = a.nets.split(",") if a.nets else [net for net, _ in STEPS]
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, XDG_CACHE_HOME=cache)
        for net, batch in STEPS:
            if net not in wanted:
                continue
            rows.append(compared(a.freight, net, batch, a.rounds, a.seconds, environment))
            r = rows[-1]
            print(f"{net:10} batch {batch:3}  {r['ms']:9.3f} ms, deterministic {r['ms_deterministic']:9.3f} ms, "
                  f"ratio {r['ratio']:.3f}", flush=True)
    if a.out:
        text = json.dumps({"date": str(datetime.date.today()), "processors": os.cpu_count(), "steps": rows}, indent=1)
        pathlib.Path(a.out).write_text(text + "\n")


if __name__ == "__main__":
    main()
