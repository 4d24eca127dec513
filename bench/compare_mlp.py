#!/usr/bin/env python3
"""The net for tables (`--model mlp`) beside boosted trees (`--model gbdt`) on five tables: the same split for both, a
split for each seed.

    bench/compare_mlp.py --data DIR [--program build/bin/freight] [--seeds 0,1,2] [--tables adult,...] [--out FILE.json]
                         [-- FLAG ...]

DIR has the tables as UCI and others give them: adult/adult.data.gz and adult.test.gz, agaricus/agaricus.txt.train.gz and
.test, california_housing/housing.csv.gz, casp/CASP.csv.gz, ccpp/CCPP.csv. All rows of a table are one file here, of which
a fifth is held out. Trees need XGBoost (docs/tables.md), and choose their round by the held-out part, which the net does
not look at but for its figures. FLAGs behind -- are given to the net. `ratio` is the net's metric divided by the trees'
where more is better, and the other way round: above 1 the net is better. Only the standard library is needed."""
import argparse
import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

ADULT = ("age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
         "capital-loss,hours-per-week,native-country,income")
AGARICUS_COLUMNS = 127
# name -> the column that is told, and the score by which the two are compared
TABLES = {
    "adult": ("income", "auc"),
    "casp": ("RMSD", "rmse"),
    "california_housing": ("median_house_value", "rmse"),
    "ccpp": ("PE", "rmse"),
    "agaricus": ("poisonous", "auc"),
}
MORE_IS_BETTER = {"auc"}


def lines_of(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as f:
        return [line.strip() for line in f if line.strip()]


def rows_of(name, folder):
    """The header and all rows of a table, as lists of cells."""
    at = lambda *parts: os.path.join(folder, name, *parts)
    if name == "adult":
        rows = [line.rstrip(".").split(", ") for part in ("data", "test") for line in lines_of(at(f"adult.{part}.gz"))
                if not line.startswith("|")]
        return ADULT.split(","), rows
    if name == "agaricus":
        rows = []
        for line in lines_of(at("agaricus.txt.train.gz")) + lines_of(at("agaricus.txt.test")):
            label, *ones = line.split()
            there = {int(one.split(":")[0]) for one in ones}
            rows.append([str(int(i in there)) for i in range(AGARICUS_COLUMNS)] + ["yes" if label == "1" else "no"])
        return [f"f{i}" for i in range(AGARICUS_COLUMNS)] + ["poisonous"], rows
    file = {"california_housing": "housing.csv.gz", "casp": "CASP.csv.gz", "ccpp": "CCPP.csv"}[name]
    header, *rows = csv.reader(line.lstrip("# ") for line in lines_of(at(file)))
    return header, rows


def run(program, model, path, target, score, seed, folder, flags):
    """The score of the held-out rows, and the seconds of fitting."""
    directory = os.path.join(folder, f"{model}-{os.path.basename(path)}-{seed}")
    subprocess.run([program, "train", path, "--model", model, "--target", target, "--seed", str(seed), "-o",
                    directory, "--overwrite", "-q", "--json", *flags], check=True, stdout=subprocess.PIPE)
    told = json.load(open(os.path.join(directory, "run.json"), encoding="utf-8"))
    answer = subprocess.run([program, "eval", "--weights", os.path.join(directory, "model.safetensors"), "--json", "-q"],
                            check=True, stdout=subprocess.PIPE)
    return json.loads(answer.stdout)["scores"][score]["value"], told["result"]["train_seconds"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, metavar="DIR")
    p.add_argument("--program", default="build/bin/freight")
    p.add_argument("--seeds", default="0,1,2")
    p.add_argument("--tables", default=",".join(TABLES))
    p.add_argument("--out", help="a file for the results as JSON")
    p.add_argument("flags", nargs="*", help="flags for the net, behind --")
    return p.parse_args()


def main():
    a = arguments()
    results = []
    print(f"{'table':20} {'score':5} {'trees':>10} {'net':>10} {'ratio':>7} {'trees s':>8} {'net s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in a.tables.split(","):
            target, score = TABLES[name]
            path = os.path.join(folder, name + ".csv")
            header, rows = rows_of(name, a.data)
            with open(path, "w", newline="", encoding="utf-8") as f:
                csv.writer(f).writerows([header, *rows])
            found = {"gbdt": [], "mlp": []}
            for seed in a.seeds.split(","):
                for model, values in found.items():
                    values.append(run(a.program, model, path, target, score, seed, folder, a.flags if model == "mlp" else []))
            trees, net = (statistics.mean(v for v, _ in found[m]) for m in ("gbdt", "mlp"))
            ratio = net / trees if score in MORE_IS_BETTER else trees / net
            seconds = [statistics.mean(s for _, s in found[m]) for m in ("gbdt", "mlp")]
            print(f"{name:20} {score:5} {trees:10.5g} {net:10.5g} {ratio:7.4f} {seconds[0]:8.1f} {seconds[1]:8.1f}", flush=True)
            results.append({"table": name, "rows": len(rows), "score": score, "ratio": ratio,
                            "runs": {m: [{"value": v, "seconds": s} for v, s in r] for m, r in found.items()}})
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
