#!/usr/bin/env python3
"""Flags of training on several devices, drawn at random: what 2 or 3 devices store is what one device stores, or they refuse and name the flag.

usage: tests/device_flags.py BUILD_DIR [--runs N] [--first SEED] [-v]

A case is a tiny data set (rows, arrays of images, image files, texts, a corpus), a net, and a random choice of the flags of `freight train`. It runs on one
device and on 2 or 3, some of them interrupted and resumed on another number. Compared are the exit code, the numbers of the models, the rows of metrics.csv, the
samples left out, and the checkpoints:
  with --shards            the models have the same bytes on any number of devices
  without                  they are equal to rounding, but where the documents name an exception: dropout draws other numbers, and BatchNorm
                           without --sync-batch-norm has the statistics of each part
The suite runs a few cases; 300 of them: tests/device_flags.py build --runs 300
"""
import argparse
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

FREIGHT, WORK = "", pathlib.Path()
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def npy(descr, shape, data):
    h = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({''.join(f'{s},' for s in shape)}), }}"
    h += " " * (-(len(h) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + data


def write_npz(path, rng, sample, values):
    """43 and 19 samples of the shape `sample`: f32 rows, or u8 images; classes, or regression target."""
    size = math.prod(sample)
    with zipfile.ZipFile(path, "w") as z:
        for part, n in (("train", 43), ("test", 19)):
            y = [i % 3 for i in range(n)]
            if len(sample) == 1:
                x = [rng.gauss(c, 1) for c in y for _ in range(size)]
                z.writestr(f"x_{part}.npy", npy("<f4", (n, *sample), struct.pack(f"<{len(x)}f", *x)))
            else:
                x = bytes(min(255, max(0, int(rng.gauss(60 + 60 * c, 40)))) for c in y for _ in range(size))
                z.writestr(f"x_{part}.npy", npy("|u1", (n, *sample), x))
            if values:
                z.writestr(f"y_{part}.npy", npy("<f4", (n, 1), struct.pack(f"<{n}f", *(c + rng.gauss(0, 0.3) for c in y))))
            else:
                z.writestr(f"y_{part}.npy", npy("<i8", (n,), struct.pack(f"<{n}q", *y)))


def write_folder(path, rng):
    """Class folders of pictures of unlike sizes; four of them cannot be read."""
    for part, n in (("train", 12), ("val", 5)):
        for c in range(3):
            (path / part / f"class{c}").mkdir(parents=True)
            for i in range(n):
                w, h = rng.randint(14, 24), rng.randint(14, 24)
                pixels = bytes(min(255, max(0, int(rng.gauss(60 + 60 * c, 30)))) for _ in range(3 * w * h))
                (path / part / f"class{c}" / f"{i}.ppm").write_bytes(b"P6\n%d %d\n255\n" % (w, h) + pixels)


def damage(path):
    for bad in ("train/class0/1.ppm", "train/class1/5.ppm", "train/class2/9.ppm", "val/class1/2.ppm"):
        (path / bad).write_bytes(b"P6\n20 20\n255\njunk")


def write_texts(path, rng):
    words = {"good": ["fine", "great", "kind", "bright"], "bad": ["poor", "dull", "harsh", "grim"]}
    rows = [["text", "label"]]
    for i in range(50):
        label = rng.choice(list(words))
        rows.append([" ".join(rng.choice(words[label] + ["the", "a", "film", "book"]) for _ in range(rng.randint(2, 12))), label])
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows(rows)


def layer(kind, **settings):
    return {"type": kind, **settings}


def nets(kind, rng):
    """The layers of a net for this kind of data, its input, and whether its parts depend on how a batch is cut."""
    norm, drop = rng.random() < 0.3, rng.random() < 0.2
    if kind in ("rows", "values"):
        layers = [layer("Linear", out=8), layer("BatchNorm1d")] if norm else [layer("Linear", out=8)]
        layers += [layer("Tanh")] + [layer("Dropout", p=0.3)] * drop + [layer("Linear", out=1 if kind == "values" else 3)]
        shape = [6]
    else:
        shape = [1, 10, 10] if kind == "images" else [3, 12, 12]
        layers = [layer("Conv2d", out=4, kernel=3)] + [layer("BatchNorm2d")] * norm
        layers += [layer("Tanh"), layer("AvgPool2d", kernel=2), layer("Flatten")] + [layer("Dropout", p=0.3)] * drop + [layer("Linear", out=3)]
    spec = {"format": "freight-model-1", "name": "net", "input": shape, "net": layers}
    if kind == "values":
        spec["loss"] = "mse"
    return spec, norm, drop


class Case:
    """Arguments that go to one device and to several, those for several alone, and what may differ."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.dir = WORK / f"case{seed}"
        self.dir.mkdir()
        self.kind = rng.choice(["rows", "rows", "values", "images", "images", "folder", "folder", "texts", "corpus"])
        self.norm = self.drop = False
        maybe = lambda p, *words: [str(w) for w in words] if rng.random() < p else []
        args = self.data_and_net(rng, maybe)
        self.batch = rng.choice([4, 6, 7, 10, 16])
        self.optimizer = rng.choice(["sgd", "sgd", "adam", "adamw", "lion", "rmsprop", "muon", "adagrad", "nadam"])
        self.precision = rng.choice(["fp32"] * 6 + ["bf16", "fp16", "tf32"])
        self.shards = rng.choice([0, 0, 0, 2, 3, 4, min(self.batch, 6), 8 if rng.random() < 0.2 else 3])
        self.sync = rng.random() < (0.5 if self.norm else 0.1)
        accum = rng.choice([1, 1, 1, 2, 3])
        args += ["-b", self.batch, "--optimizer", self.optimizer, "--lr", {"sgd": 0.05, "muon": 0.01}.get(self.optimizer, 0.002)]
        args += rng.choice([["--epochs", 1], ["--epochs", 2], ["--epochs", 3, "--max-steps", rng.randint(3, 12)]])
        args += maybe(0.5, "--precision", self.precision) if self.precision == "fp32" else ["--precision", self.precision]
        args += ["--shards", self.shards] * (self.shards > 0) + ["--sync-batch-norm"] * self.sync
        args += ["--grad-accum", accum] * (accum > 1 and (self.shards == 0 or rng.random() < 0.05))
        args += maybe(0.3, "--momentum", rng.choice([0, 0.5, 0.9])) + maybe(0.2, "--no-nesterov") + maybe(0.4, "--weight-decay", 0.01)
        args += maybe(0.2, "--decay-norm-bias") + maybe(0.4, "--clip-grad-norm", rng.choice([0.1, 1.0]))
        args += rng.choice([[], ["--lr-scheduler", "constant"], ["--lr-scheduler", "cosine"],
                            ["--lr-scheduler", "step", "--lr-step-size", "1", "--lr-gamma", "0.5"], ["--lr-scheduler", "onecycle", "--onecycle-pct-start", "0.5"]])
        args += maybe(0.2, "--lr-warmup-epochs", 0.5) + maybe(0.3, "--model-ema", 0.9) + maybe(0.3, "--seed", rng.randint(1, 99))
        args += maybe(0.15, "--label-smoothing", 0.1) * (self.kind != "values" or rng.random() < 0.1)
        args += maybe(0.15, "--recompute", rng.choice(["auto", "all"])) + maybe(0.15, "--offload", rng.choice(["optimizer", "activations", "all", "auto"]))
        args += maybe(0.2, "--workers", rng.choice([0, 1, 3])) + maybe(0.3, "--save-every", rng.choice([1, 3])) + maybe(0.2, "--keep", rng.choice([0, 1]))
        args += maybe(0.2, "--save-in-place") + maybe(0.2, "--eval-every", 2) + maybe(0.1, "--device-data", "no") + maybe(0.02, "--device-data", "yes")
        args += maybe(0.1, "--fit", rng.choice(["refuse", "auto", "off"])) + maybe(0.1, "--device-memory", "2GiB") + maybe(0.05, "--steps-per-launch", 4)
        args += maybe(0.7, "--deterministic")
        self.args = [str(a) for a in args]
        self.world = rng.choice([2, 2, 3])
        several = ["--devices", f"cpu*{self.world}"]
        several += maybe(0.15, "--device-weights", ",".join(str(rng.randint(1, 3)) for _ in range(self.world))) + maybe(0.3, "--shard-optimizer")
        several += maybe(0.15, "--overlap", rng.choice(["yes", "no", "auto"])) + maybe(0.1, "--comm", rng.choice(["shared", "gloo"]))
        several += maybe(0.1, "--elastic", f"1:{self.world}")
        self.several = [str(a) for a in several]
        # Some runs are cut into two, of which the second goes on with another number of devices.
        self.resumed_on = rng.choice([None, None, None, 1, 2, 3])

    def data_and_net(self, rng, maybe):
        kind = self.kind
        if kind in ("rows", "values", "images"):
            data = self.dir / "data.npz"
            write_npz(data, rng, [1, 10, 10] if kind == "images" else [6], kind == "values")
        elif kind == "folder":
            data = self.dir / "pictures"
            write_folder(data, rng)
        elif kind == "texts":
            data = self.dir / "texts.csv"
            write_texts(data, rng)
        else:
            data = self.dir / "corpus.txt"
            data.write_text("".join(rng.choice("abcde \n") for _ in range(700)))
        args = [data]
        if kind == "texts":
            args += ["--model", rng.choice(["textcnn", "text_bow", "lstm_text", "gru_text"]), "--width", 8, "--max-length", rng.choice([8, 16])]
            args += maybe(0.3, "--tokenizer", rng.choice(["word", "bpe"])) + maybe(0.3, "--vocabulary", 300) + maybe(0.5, "--min-count", 1)
            args += maybe(0.3, "--truncation-side", "left") + maybe(0.3, "--text-column", "text", "--label-column", "label")
            args += maybe(0.3, "--val-split", 0.3)
            if "textcnn" not in args and rng.random() < 0.3:
                args += ["--bidirectional"] * ("text_bow" not in args)
            drop = maybe(0.2, "--dropout", 0.2)
            self.drop = bool(drop) or "textcnn" in args
            return args + drop
        if kind == "corpus":
            self.drop = rng.random() < 0.2
            return args + ["--model", "gpt_char", "--layers", 1, "--width", 64, "--max-length", rng.choice([8, 12]), "--dropout", 0.2 if self.drop else 0]
        spec, self.norm, self.drop = nets(kind, rng)
        (self.dir / "net.json").write_text(json.dumps(spec))
        args += ["--model", self.dir / "net.json"]
        if kind == "values":
            return args
        classes = maybe(0.25, "--mixup-alpha", rng.choice([0.2, 1.0]))
        if kind == "rows":
            return args + classes
        args += classes + maybe(0.25, "--cutmix-alpha", 1.0) + maybe(0.3, "--flip") + maybe(0.2, "--tta", rng.choice(["flip", "shift"]))
        args += maybe(0.2, "--random-erase", 0.5)
        if kind == "images":
            if not self.norm and not self.drop and rng.random() < 0.2:
                args[2:3] = ["mlp", "--input-size", 8]
            return args + maybe(0.2, "--shift", 1) + maybe(0.2, "--crop-padding", 2) + maybe(0.1, "--layout", "nchw")
        args += maybe(0.3, "--crop-min-area", 0.5) + maybe(0.2, "--color-jitter", 0.4) + maybe(0.2, "--hue-jitter", 0.1)
        args += maybe(0.2, "--rand-augment", 2, "--rand-augment-magnitude", 5) + maybe(0.2, "--val-resize-size", 14) + maybe(0.1, "--val-crop-size", 12) + maybe(0.2, "--orientation", "ignore")
        if rng.random() < 0.4:
            damage(self.dir / "pictures")
            args += maybe(0.9, "--on-bad-sample", rng.choice(["skip", "report", "report"]))
        return args

    def without_gradient(self, name, size):
        """The places of a tensor whose exact gradient is 0, so that what these optimizers make of it is rounding alone: a bias
        before BatchNorm, which subtracts it again with the mean, and that of attention's keys, by which softmax shifts all scores of a query."""
        if self.optimizer == "sgd":
            return range(0)
        if name.endswith("in_proj_bias"):
            return range(size // 3, 2 * size // 3)
        return range(size if self.norm and name in ("0.bias", "1.running_mean") else 0)

    def same_numbers(self):
        return not self.drop and (not self.norm or self.sync)

    # Rounding grows with the optimizer: signs of lion and quotients of adam make much of a last bit.
    def tolerance(self):
        if self.precision in ("bf16", "fp16"):
            return 0.05
        return {"sgd": 2e-4, "muon": 2e-3}.get(self.optimizer, 1e-2)


def train(args, out):
    words = [FREIGHT, "train", *args, "-q", "--json", "--no-progress", "-o", str(out)]
    try:
        r = subprocess.run(words, env=ENVIRONMENT, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, "did not end", {}
    lines = r.stdout.decode().splitlines()
    return r.returncode, r.stderr.decode(errors="replace"), json.loads(lines[-1]) if r.returncode == 0 and lines else {}


def tensors(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            out[name] = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + n + begin:8 + n + end])
    return out


def metrics(out):
    with open(out / "metrics.csv", newline="") as f:
        return [(r["step"], r["epoch"], r["split"], r["loss"], r.get("top1", "")) for r in csv.DictReader(f)]


def bad_samples(out):
    path = out / "bad_samples.tsv"
    return sorted(line.split("\t")[0] for line in path.read_text().splitlines()) if path.exists() else []


def checkpoints(out):
    return sorted((p.name for p in (out / "checkpoints").glob("step-*")), key=lambda name: int(name[5:]))


def difference(case, a, b, result_a, result_b, exact):
    """What differs between two runs of one case, or nothing."""
    for key in ("steps", "epochs", "bad_samples", "parameters", "interrupted"):
        if result_a.get(key) != result_b.get(key):
            return f"{key}: {result_a.get(key)} and {result_b.get(key)}"
    if bad_samples(a) != bad_samples(b):
        return f"bad_samples.tsv: {bad_samples(a)} and {bad_samples(b)}"
    if len(set(bad_samples(a))) != len(bad_samples(a)):
        return f"bad_samples.tsv lists one twice: {bad_samples(a)}"
    if checkpoints(a)[-1:] != checkpoints(b)[-1:] or (exact and checkpoints(a) != checkpoints(b)):  # rounding decides which older one is the best
        return f"checkpoints: {checkpoints(a)} and {checkpoints(b)}"
    if exact:
        if (a / "model.safetensors").read_bytes() != (b / "model.safetensors").read_bytes():
            return "the models' bytes differ"
        return "" if metrics(a) == metrics(b) else f"metrics differ: {metrics(a)} and {metrics(b)}"
    rows_a, rows_b = metrics(a), metrics(b)
    if [r[:3] for r in rows_a] != [r[:3] for r in rows_b]:
        return f"rows of metrics.csv: {[r[:3] for r in rows_a]} and {[r[:3] for r in rows_b]}"
    if not case.same_numbers():
        return ""
    tolerance = case.tolerance()
    for ra, rb in zip(rows_a, rows_b):
        if abs(float(ra[3]) - float(rb[3])) > tolerance * max(1.0, abs(float(ra[3]))):
            return f"{ra[2]} loss of epoch {ra[1]}: {ra[3]} and {rb[3]}"
    ta, tb = tensors(a / "model.safetensors"), tensors(b / "model.safetensors")
    if ta.keys() != tb.keys():
        return "the models have other tensors"
    for name, va in ta.items():
        largest = max(map(abs, va), default=0)
        skipped = case.without_gradient(name, len(va))
        far = [i for i, (x, y) in enumerate(zip(va, tb[name])) if i not in skipped and not abs(x - y) <= tolerance * max(largest, 0.05)]
        if len(far) > len(va) * (0.05 if case.optimizer == "lion" else 0):
            return f"{name}: {len(far)} of {len(va)} numbers differ, such as {va[far[0]]} and {tb[name][far[0]]}"
    return ""


def run(case, devices, out, then=()):
    """Trains, whole or in two parts of which the second goes on with the flags `then`."""
    if case.resumed_on is None or "--elastic" in case.several:
        return train(case.args + devices, out)
    first = train(case.args + devices + ["--max-steps", "2"], out)
    if first[0] != 0:
        return first
    steps = case.args[case.args.index("--max-steps") + 1] if "--max-steps" in case.args else "0"
    return train(case.args + [*then, "--max-steps", steps, "--resume", "auto"], out)


def check(case):
    """(what is wrong or "", what became of it: equal, refused)."""
    one, several = case.dir / "one", case.dir / "several"
    alone = ["--devices", "1"] if case.shards else []
    go_on = case.resumed_on or 1
    code1, err1, result1 = run(case, alone, one, alone)
    code, err, result = run(case, case.several, several, ["--devices", f"cpu*{go_on}"] if go_on > 1 else alone)
    if code1 is None or code is None or code1 < 0 or code < 0 or "internal" in err + err1:
        return f"ended with {code1} and {code}: {err1[-300:]} {err[-300:]}", ""
    flags = {w for w in case.args + case.several if w.startswith("--")}
    if "-b" in case.args:
        flags.add("--batch-size")
    if code1 != 0:
        if code == code1 and err.strip():
            return "", "refused alike"
        return f"one device ends with {code1}, several with {code}: {err1[-300:]} | {err[-300:]}", ""
    if code != 0:
        named = [f for f in flags if f in err]
        if code in (2, 4) and named:
            return "", "refused by " + re.search(r"--[a-z-]+", err).group()
        return f"one device trains, several end with {code}: {err[-400:]}", ""
    if "--elastic" in case.several and not case.shards:
        shards = case.dir / "shards"  # a supervised run has 8 shards by default, fewer where a batch has fewer samples
        code8, err8, result8 = train(case.args + ["--shards", str(min(8, case.batch)), "--devices", "1"], shards)
        if code8 != 0:
            return f"8 shards on one device end with {code8}: {err8[-300:]}", ""
        return difference(case, shards, several, result8, result, True), "equal to the byte"
    wrong = difference(case, one, several, result1, result, bool(case.shards))
    if not wrong and case.shards and case.same_numbers():
        # Shards are a cut of the batch alone: without them one device comes to the same numbers, but for rounding.
        at = case.args.index("--shards")
        whole = case.dir / "whole"
        case.args = case.args[:at] + case.args[at + 2:]
        code, err, result = run(case, [], whole)
        wrong = difference(case, whole, one, result, result1, False) if code == 0 else f"without --shards one device ends with {code}: {err[-300:]}"
    return wrong, "equal to the byte" if case.shards else "equal to rounding" if case.same_numbers() else "ran"


def main():
    global FREIGHT, WORK
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--runs", type=int, default=8)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("-v", action="store_true")
    a = p.parse_args()
    FREIGHT = str(pathlib.Path(a.build).resolve() / "bin" / "freight")
    start, kinds, wrong = time.time(), {}, 0
    with tempfile.TemporaryDirectory() as work:
        WORK = pathlib.Path(work)
        for seed in range(a.first, a.first + a.runs):
            case = Case(seed)
            fault, kind = check(case)
            kind = "wrong" if fault else kind
            kinds[kind] = kinds.get(kind, 0) + 1
            wrong += bool(fault)
            if fault or a.v:
                print(f"case {seed}: {fault or kind}\n  {case.kind}: {' '.join(case.args)} | {' '.join(case.several)} | resumed on {case.resumed_on}", flush=True)
            shutil.rmtree(case.dir)
    print(f"{a.runs} runs, {wrong} wrong, {time.time() - start:.0f} s: {', '.join(f'{n} {k}' for k, n in sorted(kinds.items()))}")
    sys.exit(wrong > 0)


main()
