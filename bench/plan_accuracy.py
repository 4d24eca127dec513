#!/usr/bin/env python3
"""Predicted against measured training steps on this machine, as a Markdown table: docs/planner.md.

usage: bench/plan_accuracy.py [--freight build/bin/freight] [--seconds 1.5]

Calibrate first (`freight calibrate`), on an otherwise idle machine. Each row is `freight plan`'s middle against the median
of `freight bench step`. The last rows compute activations again: the slowdown that was predicted and the one measured.
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
        took = ask([options.freight, "bench", "step", *net, "--seconds", options.seconds])["ms_median"] / 1e3
        return (ends[0] * ends[1]) ** 0.5, took

    print("| net, batch | planned ms | measured ms | |")
    print("|---|---|---|---|")
    errors = []
    for model, batch, optimizer in STEPS:
        planned, took = both(model, batch, optimizer)
        errors.append(abs(planned / took - 1))
        print(f"| {model}, {batch} | {planned * 1e3:.2f} | {took * 1e3:.2f} | {100 * (planned / took - 1):+.0f} % |",
              flush=True)
    print(f"\nmedian error {100 * statistics.median(errors):.0f} %, worst {100 * max(errors):.0f} %\n")
    print("| net, batch, recompute | slowdown planned | measured |")
    print("|---|---|---|")
    for model, batch, optimizer in RECOMPUTED:
        planned, took = both(model, batch, optimizer)
        for recompute in ("auto", "all"):
            more, longer = both(model, batch, optimizer, recompute)
            print(f"| {model}, {batch}, {recompute} | {100 * (more / planned - 1):+.0f} % | "
                  f"{100 * (longer / took - 1):+.0f} % |", flush=True)


if __name__ == "__main__":
    main()
