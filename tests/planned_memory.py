#!/usr/bin/env python3
"""Whether the memory that `freight train` plans is what a run takes, over random runs on the CPU.

usage: tests/planned_memory.py BUILD_DIR [DEVICE]

Nets, sets, crops, batches, threads and options are drawn from a fixed seed: four of them, or 100 with FREIGHT_LONG=1 (./test --long).
No run may take more than 16 MiB beyond its plan; of plans of 200 MiB and more none may take more than planned, and half of them
must leave no more than a twentieth unused. FREIGHT_RESULTS=DIR keeps the figures there, as planned-memory.json.

With DEVICE (opencl:0) the plan is of that device's memory, and so is what is measured. There are fewer runs, of small nets: PoCL
takes long to compile.
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

MIB = 1 << 20
BLUR, LARGE, SLACK = 16 * MIB, 200 * MIB, 0.05
IMAGE_NETS = ["convnet", "resnet20", "resnet18", "resnet34", "vgg11", "googlenet", "alexnet", "resnet50"]
SMALL_IMAGE_NETS = ["convnet", "resnet20"]
DIGIT_NETS = ["mlp", "lenet", "convnet", "logistic_regression"]


def write_photographs(folder, count, rng):
    """A folder of classes with PPM files of different sizes, three quarters of them to learn from."""
    for i in range(count):
        part, side = ("val" if i % 4 == 3 else "train"), rng.choice([48, 80, 120, 160])
        path = folder / part / f"class{i % 3}"
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + rng.randbytes(3 * side * side))


def configuration(rng, number, device):
    """Options of a run, and the environment beside it."""
    photographs = number % 2 == 0
    image_nets = SMALL_IMAGE_NETS if device else IMAGE_NETS
    image_batches = [8, 32, 96] if device else [4, 8, 16, 32]
    options = ["--model", rng.choice(image_nets if photographs else DIGIT_NETS), "--epochs", "2", "--max-steps",
               str(rng.choice([3, 5, 8])), "--batch-size", str(rng.choice(image_batches if photographs else [1, 16, 64, 256]))]
    if photographs:
        crop = "224" if options[1] == "alexnet" else str(rng.choice([48, 64, 96]))
        options += ["--train-crop-size", crop, "--val-crop-size", crop, "--val-resize-size", crop]
    options += ["--optimizer", rng.choice(["sgd", "adam", "adamw"]), "--lr", "0.0001"]
    for flag, values in [("--model-ema", ["0.9"]), ("--grad-accum", ["2"]), ("--precision", ["bf16"]),
                         ("--recompute", ["auto", "all"]), ("--workers", ["0", "1", "2"]), ("--save-in-place", [None])]:
        if rng.random() < 0.2:
            value = rng.choice(values)
            options += [flag] if value is None else [flag, value]
    if "--batch-size" in options and options[options.index("--batch-size") + 1] == "1" and "--grad-accum" in options:
        at = options.index("--grad-accum")
        del options[at:at + 2]
    return photographs, options, str(rng.choice([1, 2, os.cpu_count() or 1]))


def measured(freight, number, folder, device):
    rng = random.Random(number)
    photographs, options, threads = configuration(rng, number, device)
    if device:
        options += ["--device", device]
    data = "digits"
    if photographs:
        data = str(folder / "photographs")
        # A set that is smaller than a batch is planned as a whole batch: the slack would be that of the set.
        write_photographs(folder / "photographs", 192 if device else rng.choice([40, 96, 192]), rng)
    command = [freight, "train", "--data", data, *options, "-o", str(folder / "run")]
    environment = dict(os.environ, OMP_NUM_THREADS=threads, OMP_WAIT_POLICY="passive")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"planned_memory: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    figures = json.loads((folder / "run" / "run.json").read_text())["plan"]
    return {"options": " ".join(options), "data": "photographs" if photographs else data, "threads": int(threads),
            "planned": int(figures["planned_bytes"]), "measured": int(figures["measured_bytes"])}


def main():
    build, device = pathlib.Path(sys.argv[1]), "".join(sys.argv[2:3])
    runs = (24, 2) if device else (100, 4)
    count = runs[0] if os.environ.get("FREIGHT_LONG") else runs[1]
    rows = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(str(build / "bin" / "freight"), number, pathlib.Path(folder), device))
        r = rows[-1]
        print(f"{r['planned'] / MIB:8.1f} MiB planned, {r['measured'] / MIB:8.1f} measured: {r['data']} {r['options']}, "
              f"{r['threads']} threads", flush=True)
    large = [r for r in rows if r["planned"] >= LARGE]
    faults = [r for r in rows if r["measured"] > r["planned"] + BLUR]
    faults += [r for r in large if r["measured"] > r["planned"] and r not in faults]
    slack = statistics.median((r["planned"] - r["measured"]) / r["planned"] for r in large) if large else 0.0
    print(f"{count} runs, {len(faults)} beyond their plan; {len(large)} plans of {LARGE // MIB} MiB and more, "
          f"median slack {100 * slack:.1f} %")
    if folder := os.environ.get("FREIGHT_RESULTS"):
        text = json.dumps({"runs": rows, "beyond": len(faults), "large": len(large), "median_slack": slack}, indent=1)
        name = "planned-memory-" + device.replace(":", "-") if device else "planned-memory"
        (pathlib.Path(folder) / (name + ".json")).write_text(text + "\n")
    for r in faults:
        print(f"beyond its plan: {r}")
    sys.exit(1 if faults or (count == runs[0] and slack > SLACK) else 0)


if __name__ == "__main__":
    main()
