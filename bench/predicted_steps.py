#!/usr/bin/env python3
"""Steps of two hosts over a line of limited rate, as `freight plan` predicts them and as they are measured.

usage: bench/predicted_steps.py [cifarnet lstm_text] [--freight build/bin/freight] [--rate 1gbit] [--rates FILE] [--rounds 3] [--out FILE.json]

The hosts are network namespaces of this machine (bench/two_hosts.sh), with a rank of one thread each, so that both share its
processors and memory. Before any of the nets is run: freight calibrate with one thread (or --rates FILE, which it wrote), freight bench
comm between the hosts, with sizes far beyond the burst of the line, and freight plan with both. Then each net trains, --rounds times; `off` is the mean measured step over the
middle of the predicted range. Needs root, the data sets, and an otherwise idle machine."""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

# workload: (data set, batch of both ranks, steps)
WORKLOADS = {"cifarnet": ("cifar10", 256, 30), "lstm_text": ("ag_news", 64, 60)}
HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "two_hosts.sh")


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", FREIGHT_SHARE_CPUS="0")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"predicted_steps: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def predicted(options, workload, sums):
    data, batch, _ = WORKLOADS[workload]
    text = run([options.freight, "plan", data, "--model", workload, "-b", str(batch), "--world", "1,2", "--link", sums, "--rates", options.rates,
                "--devices-per-machine", "1", "--json"])
    return json.loads(text)["world"][1]["estimates"][0]["step_seconds"]


def measured(options, workload, folder):
    data, batch, steps = WORKLOADS[workload]
    text = run([HOSTS, options.rate, options.freight, "train", data, "--model", workload, "-b", str(batch), "--comm", "gloo", "--epochs", "0",
                "--max-steps", str(steps), "-o", tempfile.mkdtemp(dir=folder), "--json"])
    return json.loads(text)["measured_step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rates")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.freight = os.path.abspath(options.freight)
    with tempfile.TemporaryDirectory() as folder:
        if not options.rates:
            options.rates = os.path.join(folder, "rates.json")
            print(run([options.freight, "calibrate", "-o", options.rates, "--quiet"]).strip())
        sums = os.path.join(folder, "sums.json")
        text = run([HOSTS, options.rate, options.freight, "bench", "comm", "--comm", "gloo", "--bytes", "1M,4M,8M", "--seconds", "1", "--json"])
        with open(sums, "w") as file:
            file.write(text)
        comm = json.loads(text)["worlds"][0]
        print("sums", json.dumps(comm["cost"]), "beside", json.dumps(comm["beside_compute"]))
        result = {"comm": comm, "workloads": {}}
        plans = {w: predicted(options, w, sums) for w in options.workloads}
        for workload, plan in plans.items():
            middle = math.sqrt(plan["low"] * plan["high"])
            times = [measured(options, workload, folder) for _ in range(options.rounds)]
            off = [t / middle - 1 for t in times]
            result["workloads"][workload] = {"predicted": plan, "middle": middle, "measured": times}
            print(f"{workload:10} predicted {1e3 * plan['low']:.1f} to {1e3 * plan['high']:.1f} ms, middle {1e3 * middle:.1f}; measured "
                  f"{', '.join(f'{1e3 * t:.1f}' for t in times)}; off {', '.join(f'{100 * o:+.1f} %' for o in off)}")
        if options.out:
            with open(options.out, "w") as file:
                json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
