#!/usr/bin/env python3
"""Whether the memory that `freight train` plans is what a run takes, over recipes and random runs on the CPU.

usage: tests/planned_memory.py BUILD_DIR [DEVICE]

Every recipe of recipes/ is trained at three batch sizes on a small set of its kind: on small samples, or with FREIGHT_LONG=1
(./test --long) at the recipe's own sizes. Nets, sets, crops, batches, threads and options of random runs are drawn from a fixed
seed: four of them, or 100 with FREIGHT_LONG=1. No run may take more than its plan; of plans of 200 MiB and more half must leave
no more than a twentieth unused. FREIGHT_RESULTS=DIR keeps the figures there, as planned-memory.json.

With DEVICE (opencl:0) the plan is of that device's memory, and so is what is measured. There are fewer runs, of small nets, and
none of recipes: PoCL takes long to compile.
"""
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

MIB = 1 << 20
LARGE, SLACK = 200 * MIB, 0.05
LONG = bool(os.environ.get("FREIGHT_LONG"))
RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
IMAGE_NETS = ["convnet", "resnet20", "resnet18", "resnet34", "vgg11", "googlenet", "alexnet", "resnet50"]
SMALL_IMAGE_NETS = ["convnet", "resnet20"]
DIGIT_NETS = ["mlp", "lenet", "convnet", "logistic_regression"]


def write_photographs(folder, count, rng, sides=(48, 80, 120, 160)):
    """A folder of classes with PPM files of different sizes, three quarters of them to learn from."""
    for i in range(count):
        part, side = ("val" if i % 4 == 3 else "train"), rng.choice(sides)
        path = folder / part / f"class{i % 3}"
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + rng.randbytes(3 * side * side))


def write_digits(folder, count, rng):
    folder.mkdir()
    for part, n in (("train", count), ("t10k", count // 4)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, n, 28, 28) + rng.randbytes(n * 784))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))


def write_cifar(folder, count, rng):
    folder.mkdir()
    (folder / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)))
    for name, n in [(f"data_batch_{i}.bin", count // 5) for i in range(1, 6)] + [("test_batch.bin", count // 4)]:
        (folder / name).write_bytes(b"".join(bytes([i % 10]) + rng.randbytes(3072) for i in range(n)))


def words(rng, lengths):
    return " ".join(f"w{min(int(rng.paretovariate(0.4)), 30000)}" for _ in range(rng.choice(lengths)))


def write_reviews(folder, count, rng):
    for part, n in (("train", count), ("test", count // 4)):
        for c in ("pos", "neg"):
            path = folder / part / c
            path.mkdir(parents=True)
            for i in range(n // 2):
                (path / f"{i}_7.txt").write_text(words(rng, [60, 150, 300, 500]))


def write_sentences(folder, count, rng):
    folder.mkdir()
    for name, n in (("train.tsv", count), ("dev.tsv", count // 4)):
        (folder / name).write_text("sentence\tlabel\n" + "".join(f"{words(rng, [5, 12, 50])}\t{i % 2}\n" for i in range(n)))


def write_documents(path, count, rng):
    path.write_text("text,label\n" + "".join(f"{words(rng, [20, 80, 200])},c{i % 4}\n" for i in range(count)))


def write_corpus(path, count, rng):
    path.write_text("".join(rng.choices("abcdefghijklmnopqrstuvwxyz .,\n", k=100 * count)))


def write_npy(path, shape, kind, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_arrays(folder, count, rng):
    folder.mkdir()
    for part, n in (("train", count), ("test", count // 4)):
        write_npy(folder / f"x_{part}.npy", (n, 3, 40, 40), "|u1", rng.randbytes(n * 4800))
        write_npy(folder / f"y_{part}.npy", (n,), "<i8", struct.pack(f"<{n}q", *(i % 7 for i in range(n))))


# What a recipe is "for": how a set of the kind is written and called, and flags that make its samples small.
KINDS = {
    "digits": (None, "digits", []),
    "mnist": (write_digits, "mnist", []),
    "fashion-mnist": (write_digits, "fashion-mnist", []),
    "cifar10": (write_cifar, "cifar10", []),
    "imdb": (write_reviews, "imdb", ["--max-length", "100"]),
    "sst2": (write_sentences, "sst2", []),
    "documents": (write_documents, "documents.csv", ["--max-length", "64"]),
    "corpus": (write_corpus, "corpus.txt", ["--max-length", "64", "--layers", "2"]),
    "pictures": (write_photographs, "photographs", ["--train-crop-size", "48", "--val-resize-size", "80", "--val-crop-size", "64"]),
    "any": (write_arrays, "arrays", []),
}
FOLDERS = {"cifar10": "cifar-10-batches-bin", "imdb": "aclImdb"}
SAMPLES = {"pictures": 200, "imdb": 600, "sst2": 2000, "documents": 1000, "corpus": 2000}


def train(freight, options, folder, data, threads=""):
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    if threads:
        environment["OMP_NUM_THREADS"] = threads
    command = [freight, "train", "--data", data, *options, "-o", str(folder / "run"), "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"planned_memory: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    figures = json.loads((folder / "run" / "run.json").read_text())["plan"]
    row = {"options": " ".join(options), "data": pathlib.Path(data).name, "threads": int(threads or os.cpu_count() or 1),
           "planned": int(figures["planned_bytes"]), "measured": int(figures["measured_bytes"])}
    print(f"{row['planned'] / MIB:8.1f} MiB planned, {row['measured'] / MIB:8.1f} measured: {row['data']} {row['options']}, "
          f"{row['threads']} threads", flush=True)
    return row


def recipes(freight, folder):
    """Every recipe at three batch sizes, two epochs of which the second is short."""
    rng, rows = random.Random(0), []
    for file in sorted(RECIPES.glob("*.json")):
        recipe = json.loads(file.read_text())
        write, name, small = KINDS[recipe["for"]]
        path = folder / FOLDERS.get(name, name)
        batch = recipe["config"]["batch_size"]
        batches = [batch // 4, batch, 2 * batch] if LONG else [batch // 8, batch // 4, batch // 2]
        # A set that is smaller than a batch is planned as a whole batch.
        count = max(SAMPLES.get(recipe["for"], 1000), 2 * max(batches) * 4 // 3 + 1)
        if write and not path.exists():
            write(path, count, rng)
        data = name if not write or name in ("mnist", "fashion-mnist", "cifar10", "imdb", "sst2") else str(path)
        steps = 4 if not LONG or recipe["for"] in ("pictures", "cifar10", "corpus") else 20
        for b in batches:
            options = ["--data-dir", str(folder), "--recipe", recipe["name"], "--batch-size", str(b), "--epochs", "2",
                       "--max-steps", str(steps), *([] if LONG else small)]
            rows.append(dict(train(freight, options, folder, data), recipe=file.stem, batch=b))
    return rows


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
    return train(freight, options, folder, data, threads)


def main():
    build, device = pathlib.Path(sys.argv[1]), "".join(sys.argv[2:3])
    freight = str(build.resolve() / "bin" / "freight")
    runs = (24, 2) if device else (100, 4)
    count = runs[0] if LONG else runs[1]
    rows = []
    if not device:
        with tempfile.TemporaryDirectory() as folder:
            rows = recipes(freight, pathlib.Path(folder))
    drawn = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            drawn.append(measured(freight, number, pathlib.Path(folder), device))
    rows += drawn
    large = [r for r in drawn if r["planned"] >= LARGE]
    faults = [r for r in rows if r["measured"] > r["planned"]]
    slack = statistics.median((r["planned"] - r["measured"]) / r["planned"] for r in large) if large else 0.0
    print(f"{len(rows)} runs, {len(faults)} beyond their plan; {len(large)} plans of random runs of {LARGE // MIB} MiB and more, "
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
