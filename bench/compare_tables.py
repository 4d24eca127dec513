#!/usr/bin/env python3
"""Quality of `freight train TABLE --model auto` beside the defaults of the Python package xgboost, on ten tables.

    bench/compare_tables.py DIR [--program build/bin/freight] [--seeds 5] [--time-budget 60s] [--tables adult,...]
                                [--tune N] [--out FILE.json]

DIR holds the tables (adult, agaricus, california_housing, casp, ccpp, concrete, energy, titanic, wine_quality, yacht)
as their makers publish them. Needs pandas, scikit-learn and xgboost; XGBoost of the same Python is what Freight loads.
For each seed a fifth of the rows (of every class its share) becomes a test part that neither side sees before it is
measured here. Both sides are measured by one function, on answers to the same rows: log loss of classes, root of the
mean squared error of values, and AUC and accuracy beside them. `difference` is Freight's mean minus XGBoost's, below 0
where Freight is better; a table is `not worse` where it is at most one standard error of the differences of the seeds."""
import argparse
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd


def libsvm(path):
    labels, rows = [], []
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as f:
        for line in f:
            label, *cells = line.split()
            labels.append(int(label))
            rows.append([int(c.split(":")[0]) for c in cells])
    return labels, rows


def headed(path, sep=","):
    """A file whose first line is '#' and the names."""
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as f:
        names = pd.read_csv(io.StringIO(f.readline().lstrip("# ")), sep=sep).columns
    return pd.read_csv(path, sep=sep, skiprows=1, header=None, names=[n.strip() for n in names], skipinitialspace=True)


def read(name, at):
    """The table, its target, and whether that is a class."""
    if name == "adult":
        names = ("age workclass fnlwgt education education_num marital_status occupation relationship race sex "
                 "capital_gain capital_loss hours_per_week native_country income").split()
        parts = [pd.read_csv(f"{at}/adult.{part}.gz", names=names, skipinitialspace=True, comment="|", na_values="?")
                 for part in ("data", "test")]
        table = pd.concat(parts, ignore_index=True)
        table["income"] = table["income"].str.rstrip(".")
        return table, "income", True
    if name == "agaricus":
        parts = [libsvm(f"{at}/agaricus.txt.{part}") for part in ("train.gz", "test")]
        labels, rows = sum((p[0] for p in parts), []), sum((p[1] for p in parts), [])
        cells = np.zeros((len(rows), max(max(r) for r in rows) + 1), dtype=int)
        for i, row in enumerate(rows):
            cells[i, row] = 1
        table = pd.DataFrame(cells, columns=[f"f{i}" for i in range(cells.shape[1])])
        table["edible"] = np.where(np.array(labels) == 1, "poisonous", "edible")
        return table, "edible", True
    if name == "california_housing":
        return pd.read_csv(f"{at}/housing.csv.gz"), "median_house_value", False
    if name == "casp":
        return headed(f"{at}/CASP.csv.gz"), "RMSD", False
    if name == "ccpp":
        return headed(f"{at}/CCPP.csv"), "PE", False
    if name == "concrete":
        table = headed(f"{at}/Concrete_Data.csv")
        return table, table.columns[-1], False
    if name == "energy":
        table = headed(f"{at}/ENB2012_data.txt", "\t").dropna(axis=1, how="all").dropna()
        return table.drop(columns="Y2"), "Y1", False  # the heating load; the cooling load tells it
    if name == "titanic":
        return pd.read_csv(f"{at}/train.csv").drop(columns=["PassengerId", "Name", "Ticket"]), "Survived", True
    if name == "wine_quality":
        parts = [pd.read_csv(f"{at}/winequality-{kind}.csv", sep=";").assign(kind=kind) for kind in ("red", "white")]
        return pd.concat(parts, ignore_index=True), "quality", True
    if name == "yacht":
        names = ["position", "prismatic", "displacement", "beam_draught", "length_beam", "froude", "resistance"]
        return pd.read_csv(f"{at}/yacht_hydrodynamics.data", sep=r"\s+", names=names).dropna(), "resistance", False
    raise SystemExit(f"unknown table: {name}")


def measured(truth, answers, classes):
    """truth: class numbers or values; answers: (N, classes) or (N)."""
    from sklearn import metrics

    if not classes:
        return {"rmse": float(np.sqrt(np.mean((truth - answers) ** 2)))}
    p = np.clip(answers / answers.sum(axis=1, keepdims=True), np.finfo("f4").tiny, 1)
    out = {"log_loss": float(-np.mean(np.log(p[np.arange(len(truth)), truth]))),
           "accuracy": float(np.mean(p.argmax(1) == truth))}
    if len(classes) == 2:
        out["auc"] = float(metrics.roc_auc_score(truth, p[:, 1]))
    return out


def theirs(train, test, target, truth_of_train, classes, seed):
    import xgboost as xgb

    kind = xgb.XGBClassifier if classes else xgb.XGBRegressor
    start = time.time()
    model = kind(random_state=seed, enable_categorical=True).fit(train.drop(columns=target), truth_of_train)
    rows = test.drop(columns=target)
    answers = model.predict_proba(rows) if classes else model.predict(rows)
    return answers, {"seconds": time.time() - start}


def ours(args, train, test, target, seed):
    with tempfile.TemporaryDirectory() as folder:
        train.to_csv(f"{folder}/train.csv", index=False)
        test.to_csv(f"{folder}/test.csv", index=False)
        command = [args.program, "train", f"{folder}/train.csv", "--model", "auto", "--seed", str(seed), "--json",
                   "--time-budget", args.time_budget, "-o", f"{folder}/run", "--target", target,
                   "--val-split", "0.01"]  # the test part is apart; what auto chooses it chooses without a held-out part
        command += ["--tune", str(args.tune)] if args.tune else []
        start = time.time()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        result = json.loads(done.stdout)
        seconds = time.time() - start
        subprocess.run([args.program, "predict", f"{folder}/run/model.safetensors", f"{folder}/test.csv", "--csv", "-q",
                        "-o", f"{folder}/told.csv", "--npy", f"{folder}/told.npy"], check=True, capture_output=True)
        answers = np.load(f"{folder}/told.npy").astype("f8")
        board = result["leaderboard"]
        return answers, {"seconds": seconds, "learner": board["standings"][0]["learner"],
                         "settings": board["standings"][0]["settings"], "left_out": board["left_out"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--program", default="build/bin/freight")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--time-budget", default="60s")
    p.add_argument("--tune", type=int, default=0)
    p.add_argument("--tables", default="adult,agaricus,california_housing,casp,ccpp,concrete,energy,titanic,wine_quality,yacht")
    p.add_argument("--out")
    args = p.parse_args()
    from sklearn.model_selection import train_test_split
    from xgboost.libpath import find_lib_path

    os.environ["FREIGHT_XGBOOST"] = find_lib_path()[0]
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    results, not_worse, better = {}, 0, 0
    for name in args.tables.split(","):
        table, target, tells_classes = read(name, os.path.join(args.dir, name))
        for column in table.columns:
            if column != target and not pd.api.types.is_numeric_dtype(table[column]):
                table[column] = table[column].astype("category")
        classes = sorted(table[target].unique()) if tells_classes else []
        truth = np.array([classes.index(v) for v in table[target]]) if classes else table[target].to_numpy("f8")
        seeds = []
        for seed in range(args.seeds):
            rows = np.arange(len(table))
            in_train, in_test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=truth if classes else None)
            train, test = table.iloc[in_train], table.iloc[in_test]
            told, fitted = ours(args, train, test, target, seed)
            other, made = theirs(train, test, target, truth[in_train], classes, seed)
            seeds.append({"freight": {**measured(truth[in_test], told if classes else told.reshape(-1), classes), **fitted},
                          "xgboost": {**measured(truth[in_test], other, classes), **made}})
        metric = "log_loss" if classes else "rmse"
        difference = np.array([s["freight"][metric] - s["xgboost"][metric] for s in seeds])
        error = float(difference.std(ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else 0.0
        not_worse += int(difference.mean() <= error)
        better += int(difference.mean() < 0)
        mean = lambda side, key: float(np.mean([s[side][key] for s in seeds]))
        results[name] = {"metric": metric, "difference": float(difference.mean()), "standard_error": error, "seeds": seeds}
        beside = "".join(f"  {m} {mean('freight', m):.4f} | {mean('xgboost', m):.4f}" for m in ("auc", "accuracy")
                         if m in seeds[0]["freight"])
        print(f"{name:20s} {metric:8s} {mean('freight', metric):.5g} | {mean('xgboost', metric):.5g}"
              f"  ({difference.mean():+.3g} +- {error:.2g})  {'not worse' if difference.mean() <= error else 'WORSE'}"
              f"  {', '.join(s['freight']['learner'] for s in seeds)}  {mean('freight', 'seconds'):.1f} s{beside}", flush=True)
    count = len(results)
    print(f"not worse by more than one standard error: {not_worse} of {count}; better: {better} of {count}")
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"program": args.program, "time_budget": args.time_budget, "tune": args.tune, "tables": results}, f, indent=1)
    sys.exit(0 if not_worse == count else 1)


if __name__ == "__main__":
    main()
