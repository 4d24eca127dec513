#!/usr/bin/env python3
"""`freight predict` of a large table beside XGBoost's own prediction, in alternation, on all cores.

usage: bench/compare_predict.py [--freight build/bin/freight] [--program build/bench/bench_predict_table] [--rows 10000000]
                                [--other FREIGHT] [--repeat 3] [--out FILE.json]

The table is made here: 28 columns of rounded normal numbers; the model: 100 rounds of depth 6 for two classes. Told are rows per second
of the whole command (--csv into a file), of reading alone, of answering alone, and of XGBoost's inplace_predict of f32 in memory;
`whole_of_slower` is the whole over the slower of reading and answering. --other: another build, in turns. Needs NumPy, pandas and xgboost.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

PEER = """
import sys, time
import numpy, pandas, xgboost
x = pandas.read_csv(sys.argv[2]).to_numpy(numpy.float32)
x = numpy.concatenate([x] * max(1, 1000000 // len(x)))
trees = xgboost.Booster({"nthread": int(sys.argv[3])}, model_file=sys.argv[1])
best = 0
for _ in range(5):
    start = time.perf_counter()
    trees.inplace_predict(x)
    best = max(best, len(x) / (time.perf_counter() - start))
print(best)
"""


def write_tables(folder, rows):
    import numpy
    import pandas

    random = numpy.random.default_rng(1)
    x = random.normal(size=(200000, 28)).round(4)
    table = pandas.DataFrame(x, columns=[f"x{i}" for i in range(28)])
    asked = table.to_csv(index=False).split("\n", 1)
    with open(folder / "asked.csv", "w", encoding="utf-8") as file:
        file.write(asked[0] + "\n")
        for _ in range(max(1, rows // len(table))):
            file.write(asked[1])
    (folder / "few.csv").write_text("\n".join(asked), encoding="utf-8")
    table["y"] = (x[:, 0] * x[:, 1] + numpy.sin(2 * x[:, 2]) + x[:, 3] + random.normal(size=len(x)) > 0).astype(int)
    table.to_csv(folder / "train.csv", index=False)


def output(command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def whole(program, model, table, rows):
    start = time.perf_counter()
    output([program, "predict", model, table, "--csv", "-o", table.parent / "answers.csv"])
    return rows / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--program", default="build/bench/bench_predict_table")
    parser.add_argument("--rows", type=int, default=10000000)
    parser.add_argument("--other")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out")
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tables(folder, args.rows)
        model, table = folder / "run" / "model.safetensors", folder / "asked.csv"
        output([args.freight, "train", folder / "train.csv", "--target", "y", "--rounds", 100, "--early-stop", 0, "-o", folder / "run"])
        output([args.freight, "export", model, "--format", "xgboost", "-o", folder / "trees.ubj"])
        runs = []
        for _ in range(args.repeat):
            run = json.loads(output([args.program, model, table]))
            run["whole_rows_per_s"] = whole(args.freight, model, table, run["rows"])
            if args.other:
                run["other_whole_rows_per_s"] = whole(args.other, model, table, run["rows"])
            run["xgboost_rows_per_s"] = float(output([sys.executable, "-c", PEER, folder / "trees.ubj", folder / "few.csv", os.cpu_count()]))
            run["whole_of_slower"] = run["whole_rows_per_s"] / min(run["reading_rows_per_s"], run["answering_rows_per_s"])
            run["answering_of_xgboost"] = run["answering_rows_per_s"] / run["xgboost_rows_per_s"]
            runs.append(run)
            print(json.dumps(run), flush=True)
    if args.out:
        results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(), "runs": runs}
        pathlib.Path(args.out).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
