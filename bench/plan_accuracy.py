#!/usr/bin/env python3
"""Predicted against measured training steps on this machine, as a Markdown table: docs/tour/time.md.

usage: bench/plan_accuracy.py [--freight build/bin/freight] [--seconds 0.7] [--keep-rates] [--patience 10] [--out FILE.json]

Calibrates the machine first (`freight calibrate`), unless --keep-rates; nothing else should run. Each row is the sum of
the times that `freight profile` plans for the steps of a net against the time of the whole that it measures; `freight
plan` adds the counting of right answers and the loading of data. Shared hosts change their speed within seconds, so that a
reference step, which is in no row, is timed before and after the calibration and each row: the calibration waits for the
machine's best, a row for the speed of the calibration. "speed" is how fast the machine was in the row, and the error in
brackets is against the time at the speed of the calibration. A row is the median of three such windows during which that
speed was off by less than 10 %; of --patience windows at most, if none was, the least disturbed one. Every net in f32, and in
bf16 where the processor has it. The last rows compute activations again: the slowdown
that was predicted and the one that was measured.
"""
import argparse
import itertools
import json
import statistics
import subprocess

STEPS = [("mlp", 1, "sgd"), ("mlp", 128, "sgd"), ("lenet", 1, "sgd"), ("lenet", 64, "sgd"), ("convnet", 64, "sgd"),
         ("resnet20", 8, "sgd"), ("resnet20", 128, "sgd"), ("resnet18", 8, "sgd"), ("alexnet", 16, "sgd"),
         ("googlenet", 8, "sgd"), ("vgg11", 2, "sgd"), ("resnet50", 4, "sgd"), ("textcnn", 32, "adam"),
         ("lstm_text", 32, "adam"), ("gpt_char", 4, "adamw"), ("resnet18", 1, "sgd"), ("alexnet", 1, "sgd"),
         ("alexnet", 64, "sgd"), ("gru_text", 8, "adam"), ("resnet56", 32, "sgd"), ("googlenet", 1, "sgd")]
RECOMPUTED = [("resnet20", 64, "sgd"), ("gpt_char", 4, "adamw")]


# How far the reference may be off, of the calibration's and of itself before and after, for a row to count at once.
UNQUIET = 0.1
WINDOWS = 3  # that make a row
POLLS = 30  # of the reference, half a second each, for the machine to come back to a speed
CALIBRATIONS = 5
REFERENCE = ["--model", "lenet", "-b", "16", "--optimizer", "sgd", "--json", "--seconds", "0.4"]


def ask(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--seconds", default="0.7", help="of a window")
    parser.add_argument("--keep-rates", action="store_true")
    parser.add_argument("--patience", type=int, default=10, help="windows of a row, until three were quiet")
    parser.add_argument("--out")
    options = parser.parse_args()

    def reference():
        return ask([options.freight, "bench", "step", *REFERENCE])["ms_min"]

    def quiet(target):
        """The reference once it is near `target` milliseconds, or as it is after a while."""
        for _ in range(POLLS):
            now = reference()
            if abs(now / target - 1) < UNQUIET:
                break
        return now

    reference()  # its kernels are chosen once
    best = min(reference() for _ in range(POLLS))
    at_calibration = quiet(best)
    for _ in range(0 if options.keep_rates else CALIBRATIONS):
        subprocess.run([options.freight, "calibrate", "-q"], check=True)
        after = reference()
        if max(abs(at_calibration / best - 1), abs(after / at_calibration - 1)) < UNQUIET:
            break
        best = min(best, after)
        at_calibration = quiet(best)

    def both(model, batch, optimizer, precision, recompute="none"):
        """Planned and measured milliseconds, and the machine's speed then against that of the calibration."""
        net = ["--model", model, "-b", str(batch), "--optimizer", optimizer, "--precision", precision, "--recompute",
               recompute, "--json"]
        windows = []  # how far off the speed was, milliseconds, speed
        while len(windows) < options.patience:
            before = quiet(at_calibration)
            profile = ask([options.freight, "profile", *net, "--seconds", options.seconds])
            after = reference()
            speed = at_calibration / ((before + after) / 2)
            windows.append((max(abs(speed - 1), abs(before / after - 1)), profile["ms"], speed))
            counted = [w for w in windows if w[0] < UNQUIET]
            if len(counted) == WINDOWS:
                break
        if not counted:
            counted = [min(windows)]
        planned = sum(s["planned_ms"] for s in profile["steps"])
        return planned, statistics.median(w[1] for w in counted), statistics.median(w[2] for w in counted)

    cpu = next(d for d in ask([options.freight, "devices", "--json"])["devices"] if d["name"] == "cpu")
    precisions = ["fp32"] + ["bf16"] * any("bf16" in i for i in cpu["instructions"])
    rows = []
    print("| net, batch, precision | planned ms | measured ms | | speed | |")
    print("|---|---|---|---|---|---|")
    for (model, batch, optimizer), precision in itertools.product(STEPS, precisions):
        planned, took, speed = both(model, batch, optimizer, precision)
        row = {"model": model, "batch": batch, "precision": precision, "planned_ms": planned, "measured_ms": took, "speed": speed,
               "error": planned / took - 1, "error_at_speed": planned / (took * speed) - 1}
        rows.append(row)
        print(f"| {model}, {batch}, {precision} | {planned:.2f} | {took:.2f} | {100 * row['error']:+.0f} % | {speed:.2f} | "
              f"({100 * row['error_at_speed']:+.0f} %) |", flush=True)
    print()
    for precision, (key, name) in itertools.product(
            precisions, (("error", "as measured"), ("error_at_speed", "at the calibration's speed"))):
        all_of = [abs(r[key]) for r in rows if r["precision"] == precision]
        print(f"{precision}, {name}: median error {100 * statistics.median(all_of):.0f} %, worst {100 * max(all_of):.0f} %")
    print("\n| net, batch, recompute | slowdown planned | measured |")
    print("|---|---|---|")
    slowdowns = []
    for model, batch, optimizer in RECOMPUTED:
        planned, took, speed = both(model, batch, optimizer, "fp32")
        for recompute in ("auto", "all"):
            more, longer, then = both(model, batch, optimizer, "fp32", recompute)
            slowdowns.append({"model": model, "batch": batch, "recompute": recompute, "planned": more / planned - 1,
                              "measured": longer * then / (took * speed) - 1})
            print(f"| {model}, {batch}, {recompute} | {100 * slowdowns[-1]['planned']:+.0f} % | "
                  f"{100 * slowdowns[-1]['measured']:+.0f} % |", flush=True)
    if options.out:
        with open(options.out, "w") as f:
            json.dump({"reference_ms_at_calibration": at_calibration, "steps": rows, "recompute": slowdowns}, f, indent=1)


if __name__ == "__main__":
    main()
