#!/usr/bin/env python3
"""Fine-tuning with few photographs beside training from scratch: docs/fine-tuning.md.

usage: bench/flowers_finetune.py STAGE [--freight build/bin/freight] [--data build/data] [--work /tmp/flowers] [options] [-- FLAGS]

pretrain   trains resnet18 on CIFAR-10, enlarged to the size of the crops: WORK/cifar; FLAGS are added to its command
try        one way of training (--way) on the splits of --seeds with FLAGS added: to choose settings, on other splits than `compare` has
compare    every way of training on the splits of --seeds, means and differences; --out FILE appends the report

A split has 20 images of each class to train with, drawn by its seed, and all others as test set, which only the last epoch is
evaluated on. The ways: `tuned` is recipes/pictures-finetune.json from the pretrained weights, `frozen` trains its head alone on computed
features, `scratch` is recipes/pictures-small.json without weights, for as many steps of as many images as `tuned`, so that both train for
the same time, and `brief` the same for about the time of `frozen`. Seconds are of processor time of a whole run with its evaluation:
they depend little on what else the machine does.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import random
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNED, SMALL = (ROOT / f"recipes/pictures-{name}.json" for name in ("finetune", "small"))
PER_CLASS = 20
# Flags beside the recipes.
PRETRAIN = ["--model", "resnet18", "--epochs", "12", "--batch-size", "64", "--optimizer", "sgd", "--lr", "0.05", "--nesterov",
            "--weight-decay", "0.0005", "--no-decay-norm-bias", "--lr-scheduler", "onecycle", "--label-smoothing", "0.1",
            "--crop-min-area", "0.35", "--color-jitter", "0.2", "--flip", "--tta", "none", "--eval-every", "12"]
WAYS = {
    "tuned": ["--recipe", TUNED],
    "frozen": ["--recipe", TUNED, "--freeze", "backbone", "--augment-views", "8", "--epochs", "100"],
    # The rate of the recipe, 0.1, is for thousands of images: it reaches 28 % here.
    "scratch": ["--recipe", SMALL, "--batch-size", "32", "--lr", "0.03", "--tta", "none"],
    "brief": ["--recipe", SMALL, "--batch-size", "32", "--lr", "0.03", "--tta", "none"],
}
BRIEF_EPOCHS = 10


def freight(a, log, arguments):
    """Runs the command; its result as --json prints it, and the seconds of processor time that it took."""
    command = [a.freight, *map(str, arguments), "--bf16", "--json", "--no-progress", "--overwrite"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    pathlib.Path(log).write_text(" ".join(command) + "\n" + done.stdout + done.stderr)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout.splitlines()[-1]), seconds


def split(a, seed):
    """A folder with train.csv and val.csv, which list the images of a split."""
    folder = a.work / f"split{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": [], "val": []}
    for of_class in sorted(p for p in (a.data / "flowers").iterdir() if p.is_dir()):
        images = sorted(of_class.iterdir())
        random.Random(f"{seed} {of_class.name}").shuffle(images)
        rest = images[PER_CLASS:]
        parts["train"] += [(image.resolve(), of_class.name) for image in images[:PER_CLASS]]
        parts["val"] += [(image.resolve(), of_class.name) for image in (rest[:a.test_per_class] if a.test_per_class else rest)]
    for part, rows in parts.items():
        with open(folder / f"{part}.csv", "w", newline="") as f:
            csv.writer(f).writerows([("path", "label"), *rows])
    return folder


def train(a, way, seed, more):
    flags = [*WAYS[way], "--model", "resnet18", "--train-crop-size", a.size, "--seed", seed, "--eval-every", 1000, "--save-every", 100000]
    if way in ("tuned", "frozen"):
        flags += ["--weights", a.work / "cifar/model.safetensors"]
    if way == "brief":
        flags += ["--epochs", BRIEF_EPOCHS]
    elif way != "frozen":
        flags += ["--epochs", json.loads(TUNED.read_text())["config"]["epochs"]]
    result, seconds = freight(a, a.work / f"{way}-{seed}.log", ["train", split(a, seed), *flags, *more, "-o", a.work / f"run-{way}-{seed}"])
    return result["val_top1"], seconds


def pretrain(a, flags, say):
    result, seconds = freight(a, a.work / "pretrain.log",
                              ["train", "cifar10", "--data-dir", a.data, "--input-size", a.size, *PRETRAIN, *flags, "-o", a.work / "cifar"])
    say(f"pretraining: resnet18 on CIFAR-10 at {a.size} x {a.size}, {result['epochs']} epochs: {result['test_top1']:.2f} % test accuracy, "
        f"{seconds:,.0f} s of processor time, {result['total_seconds']:,.0f} s on the clock")


def try_one(a, flags, say):
    rows = [train(a, a.way, seed, flags) for seed in a.seeds]
    say(f"{a.way} {' '.join(flags)}: " + " ".join(f"{accuracy:.2f}" for accuracy, _ in rows) +
        f", mean {statistics.mean(r[0] for r in rows):.2f} %, {statistics.mean(r[1] for r in rows):.0f} s")


def compare(a, flags, say):
    rows = {way: [] for way in WAYS}
    say(f"{'seed':>6}" + "".join(f"{way:>20}" for way in WAYS))
    for seed in a.seeds:
        for way in WAYS:
            rows[way].append(train(a, way, seed, flags))
        say(f"{seed:>6}" + "".join(f"{rows[way][-1][0]:>10.2f} %{rows[way][-1][1]:>6.0f} s" for way in WAYS))
    means = {way: [statistics.mean(x) for x in zip(*rows[way])] for way in WAYS}
    say(f"{'mean':>6}" + "".join(f"{means[way][0]:>10.2f} %{means[way][1]:>6.0f} s" for way in WAYS))
    for way, other in (("tuned", "scratch"), ("frozen", "scratch"), ("frozen", "brief")):
        gains = [mine[0] - scratch[0] for mine, scratch in zip(rows[way], rows[other])]
        say(f"{way} over {other}: {statistics.mean(gains):+.2f} points in the mean, {min(gains):+.2f} to {max(gains):+.2f}")


def main():
    given = sys.argv[1:]
    flags = given[given.index("--") + 1:] if "--" in given else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("pretrain", "try", "compare"))
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--data", type=pathlib.Path, default="build/data", help="the folder of flowers and cifar-10-batches-bin")
    parser.add_argument("--work", type=pathlib.Path, default="/tmp/flowers")
    parser.add_argument("--size", type=int, default=48, help="side of the crops, and of CIFAR's images")
    parser.add_argument("--way", choices=tuple(WAYS), default="tuned")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS), help="some of them, scratch included, to compare")
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[0, 1, 2, 3, 4])
    parser.add_argument("--test-per-class", type=int, default=0, help="test images of each class, to try settings (0: all)")
    parser.add_argument("--out", type=pathlib.Path)
    a = parser.parse_args(given[:given.index("--")] if "--" in given else given)
    a.work.mkdir(parents=True, exist_ok=True)
    said = []

    def say(line):
        said.append(line)
        print(line, flush=True)

    {"pretrain": pretrain, "try": try_one, "compare": compare}[a.stage](a, flags, say)
    if a.out:
        head = f"{datetime.date.today()}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores: bench/flowers_finetune.py {' '.join(given)}"
        with open(a.out, "a") as f:
            f.write("\n".join([head, *said]) + "\n\n")


if __name__ == "__main__":
    main()
