#!/usr/bin/env python3
"""Training within a part of the memory that a run would take: docs/plan.md, "Models larger than the memory".

usage: bench/offload.py [--freight build/bin/freight] [--out FILE.json] [--steps 5] [NET ...]

Each net trains some steps on made-up data, as it is and with `--fit auto --device-memory` at 80, 60 and 40 % of its planned
peak: by what means it fits, whether the loss is the same to the bit, the slowdown that was predicted and the one measured,
against runs without a limit in alternation (best of --rounds each). Calibrate first (`freight calibrate`), on an otherwise
idle machine.
"""
import argparse
import datetime
import json
import pathlib
import random
import re
import subprocess
import tempfile

import numpy

NETS = {"resnet50": ["-b", "4", "--optimizer", "sgd", "--lr", "0.01"],
        "vgg16": ["-b", "4", "--optimizer", "sgd", "--lr", "0.001"],
        "gpt_char": ["-b", "8", "--optimizer", "adamw", "--lr", "0.0003"]}


def made_up(folder):
    rng = numpy.random.default_rng(1)
    pictures, corpus = folder / "pictures", folder / "corpus.txt"
    pictures.mkdir()
    for part, count in (("train", 24), ("test", 4)):
        numpy.save(pictures / f"x_{part}.npy", rng.standard_normal((count, 3, 224, 224), dtype=numpy.float32))
        numpy.save(pictures / f"y_{part}.npy", numpy.arange(count) % 4)
    words = random.Random(1)
    corpus.write_text("".join(words.choice("abcdefgh klmnop\n") for _ in range(60000)))
    return {"resnet50": pictures, "vgg16": pictures, "gpt_char": corpus}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--out")
    parser.add_argument("--steps", default="5")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("nets", nargs="*", metavar="NET")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = made_up(folder)

        def train(net, more):
            ran = subprocess.run([options.freight, "train", str(data[net]), "--model", net, *NETS[net], "--max-steps",
                                  options.steps, "--deterministic", "--json", "--overwrite", "-o", str(folder / "run"), *more],
                                 capture_output=True, text=True)
            if ran.returncode != 0:
                return {"refused": ran.returncode, "said": ran.stderr.strip().splitlines()[-1]}
            now = json.loads(ran.stdout)
            now["flags"] = " then ".join(re.findall(r"going on with (.*)", ran.stderr))
            now["offload"] = "".join(re.findall(r"^offload (.*)", ran.stderr, re.M))
            return now

        def faster(a, b):
            return a if "refused" in a or a["measured_step_seconds"] <= b["measured_step_seconds"] else b

        print("| net | memory | by | loss | predicted | measured |\n|---|---|---|---|---|---|")
        for net in options.nets or NETS:
            whole = train(net, [])
            if "refused" in whole:
                raise SystemExit(f"{net}: {whole['said']}")
            for share in (80, 60, 40):
                limit = share * whole["planned_bytes"] // 100
                within = ["--fit", "auto", "--device-memory", f"{limit}B"]
                now = train(net, within)
                for _ in range(0 if "refused" in now else options.rounds):
                    whole = faster(whole, train(net, []))
                    now = faster(now, train(net, within))
                row = {"net": net, "share_percent": share, "limit_bytes": limit, "whole_bytes": whole["planned_bytes"]}
                if "refused" in now:
                    row.update(now)
                    text = f"refused, exit {now['refused']} | - | - | -"
                else:
                    row.update({"flags": now["flags"], "offload": now["offload"], "loss": now["train_loss"],
                                "loss_equal": now["train_loss"] == whole["train_loss"],
                                "step_seconds": now["measured_step_seconds"],
                                "whole_step_seconds": whole["measured_step_seconds"],
                                "measured_slowdown": now["measured_step_seconds"] / whole["measured_step_seconds"] - 1})
                    predicted = "-"
                    if now["planned_step_seconds"]:
                        row["predicted_slowdown"] = now["planned_step_seconds"] / whole["planned_step_seconds"] - 1
                        predicted = f"{100 * row['predicted_slowdown']:+.0f} %"
                    text = (f"`{now['flags']}` | {'equal' if row['loss_equal'] else now['train_loss']} | {predicted} | "
                            f"{100 * row['measured_slowdown']:+.0f} %")
                results.append(row)
                print(f"| {net} | {share} % of {whole['planned_bytes'] / 2**20:.0f} MiB | {text} |", flush=True)
    if options.out:
        devices = json.loads(subprocess.run([options.freight, "devices", "--json"], check=True, capture_output=True,
                                            text=True).stdout)
        pathlib.Path(options.out).write_text(json.dumps(
            {"format": "freight-offload-1", "date": str(datetime.date.today()), "devices": devices,
             "command": "bench/offload.py", "rows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
