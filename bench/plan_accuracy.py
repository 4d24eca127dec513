#!/usr/bin/env python3
"""Predicted against measured training steps on this machine, as a Markdown table: docs/planner.md.

usage: bench/plan_accuracy.py [--freight build/bin/freight] [--seconds 1.5]

Calibrate first (`freight calibrate`), on an otherwise idle machine. Each row is `freight plan`'s middle against the median
and the best time of `freight bench step`; where these differ much the machine was not idle. The last rows compute
activations again: the slowdown that was predicted and the one of the best times.
"""
import argparse
import json
import statistics
import subprocess

STEPS = [("mlp", 1, "sgd"), ("mlp", 128, "sgd"), ("lenet", 1, "sgd"), ("lenet", 64, "sgd"), ("convnet", 64, "sgd"),
         ("resnet20", 8, "sgd"), ("resnet20", 128, "sgd"), ("resnet18", 8, "sgd"), ("alexnet", 16, "sgd"),
         ("googlenet", 8, "sgd"), ("vgg11", 2, "sgd"), ("resnet50", 4, "sgd"), ("textcnn", 32, "adam"),
         ("lstm_text", 32, "adam"), ("gpt_char", 4, "adamw")]
RECOMPUTED = [("resnet20", 64, "sgd"), ("gpt_char", 4, "adamw")]


def ask(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--seconds", default="1.5")
    options = parser.parse_args()

    def both(model, batch, optimizer, recompute="none"):
        net = ["--model", model, "-b", str(batch), "--optimizer", optimizer, "--recompute", recompute, "--json"]
        here = ask([options.freight, "plan", *net])["devices"][0]
        ends = [here["step_seconds"][k] - here["data_seconds"][k] for k in ("low", "high")]  # the batch is resident
        took = ask([options.freight, "bench", "step", *net, "--seconds", options.seconds])
        return 1e3 * (ends[0] * ends[1]) ** 0.5, took["ms_median"], took["ms_min"]

    print("| net, batch | planned ms | median ms | | best ms | |")
    print("|---|---|---|---|---|---|")
    errors = {"median": [], "best": []}
    for model, batch, optimizer in STEPS:
        planned, median, best = both(model, batch, optimizer)
        errors["median"].append(abs(planned / median - 1))
        errors["best"].append(abs(planned / best - 1))
        print(f"| {model}, {batch} | {planned:.2f} | {median:.2f} | {100 * (planned / median - 1):+.0f} % | "
              f"{best:.2f} | {100 * (planned / best - 1):+.0f} % |", flush=True)
    print()
    for name, all_of in errors.items():
        print(f"against the {name} times: median error {100 * statistics.median(all_of):.0f} %, "
              f"worst {100 * max(all_of):.0f} %")
    print("\n| net, batch, recompute | slowdown planned | measured |")
    print("|---|---|---|")
    for model, batch, optimizer in RECOMPUTED:
        planned, _, best = both(model, batch, optimizer)
        for recompute in ("auto", "all"):
            more, _, longer = both(model, batch, optimizer, recompute)
            print(f"| {model}, {batch}, {recompute} | {100 * (more / planned - 1):+.0f} % | "
                  f"{100 * (longer / best - 1):+.0f} % |", flush=True)


if __name__ == "__main__":
    main()
