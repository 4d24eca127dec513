#!/usr/bin/env python3
"""Quality of `freight train TABLE --model auto` beside the defaults of the Python package xgboost, on ten tables.

    bench/compare_tables.py DIR [--program build/bin/freight] [--seeds 5] [--time-budget 60s] [--tables adult,...]
                                [--tune N] [--out FILE.json] [--again]

DIR holds the tables (adult, agaricus, california_housing, casp, ccpp, concrete, energy, titanic, wine_quality, yacht)
as their makers publish them. Needs pandas, scikit-learn and xgboost; XGBoost of the same Python is what Freight loads.
For each seed a fifth of the rows (of every class its share) becomes a test part that neither side sees before it is
measured here. Both sides are measured by one function, on answers to the same rows: log loss of classes, root of the
mean squared error of values, and AUC and accuracy beside them. `difference` is Freight's mean minus XGBoost's, below 0
where Freight is better; a table is `not worse` where it is at most one standard error of the differences of the seeds.
With --out each comparison is kept when it is made, and the same command goes on where one was cut. All ten tables by five
seeds take up to 50 times the budget and its sixth: an hour for 60 s. What is left is told on standard error."""
import argparse
import gzip
import hashlib
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


def settings_of(args):
    """What a result depends on: results of other settings are not put beside these."""
    from xgboost import __version__ as version

    with open(args.program, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return {"program": digest, "time_budget": args.time_budget, "tune": args.tune, "xgboost": version}


def kept(args, settings):
    """Results of a run that was cut, by table and seed."""
    if not args.out or args.again or not os.path.exists(args.out):
        return {}
    with open(args.out) as f:
        before = json.load(f)
    differs = [k for k in settings if before.get("settings", {}).get(k) != settings[k]]
    if differs:
        raise SystemExit(f"{args.out} has results of another {', '.join(differs)}: name another file, or begin anew by --again")
    return {name: {int(seed): result for seed, result in seeds.items()} for name, seeds in before["seeds"].items()}


def keep(args, settings, done, more=None):
    """Writes all results so far; a file that is there is replaced at once."""
    if not args.out:
        return
    part = args.out + ".part"
    with open(part, "w") as f:
        json.dump({"settings": settings, "seeds": done, **(more or {})}, f, indent=1)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, args.out)


class Table:
    """A table with the division of each seed."""

    def __init__(self, name, at):
        self.rows, self.target, tells_classes = read(name, at)
        for column in self.rows.columns:
            if column != self.target and not pd.api.types.is_numeric_dtype(self.rows[column]):
                self.rows[column] = self.rows[column].astype("category")
        told = self.rows[self.target]
        self.classes = sorted(told.unique()) if tells_classes else []
        self.truth = np.array([self.classes.index(v) for v in told]) if self.classes else told.to_numpy("f8")

    def compared(self, args, seed):
        from sklearn.model_selection import train_test_split

        start = time.time()
        in_train, in_test = train_test_split(np.arange(len(self.rows)), test_size=0.2, random_state=seed,
                                             stratify=self.truth if self.classes else None)
        train, test, truth = self.rows.iloc[in_train], self.rows.iloc[in_test], self.truth[in_test]
        told, fitted = ours(args, train, test, self.target, seed)
        other, made = theirs(train, test, self.target, self.truth[in_train], self.classes, seed)
        return {"freight": {**measured(truth, told if self.classes else told.reshape(-1), self.classes), **fitted},
                "xgboost": {**measured(truth, other, self.classes), **made}, "seconds": time.time() - start}


def judged(name, seeds):
    """The line of a table, and whether Freight is not worse, and better."""
    metric = "rmse" if "rmse" in seeds[0]["freight"] else "log_loss"
    difference = np.array([s["freight"][metric] - s["xgboost"][metric] for s in seeds])
    error = float(difference.std(ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else 0.0
    mean = lambda side, key: float(np.mean([s[side][key] for s in seeds]))
    beside = "".join(f"  {m} {mean('freight', m):.4f} | {mean('xgboost', m):.4f}" for m in ("auc", "accuracy")
                     if m in seeds[0]["freight"])
    not_worse = bool(difference.mean() <= error)
    line = (f"{name:20s} {metric:8s} {mean('freight', metric):.5g} | {mean('xgboost', metric):.5g}"
            f"  ({difference.mean():+.3g} +- {error:.2g})  {'not worse' if not_worse else 'WORSE'}"
            f"  {', '.join(s['freight']['learner'] for s in seeds)}  {mean('freight', 'seconds'):.1f} s{beside}")
    return line, {"metric": metric, "difference": float(difference.mean()), "standard_error": error,
                  "not_worse": not_worse, "better": bool(difference.mean() < 0)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--program", default="build/bin/freight")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--time-budget", default="60s")
    p.add_argument("--tune", type=int, default=0)
    p.add_argument("--tables", default="adult,agaricus,california_housing,casp,ccpp,concrete,energy,titanic,wine_quality,yacht")
    p.add_argument("--out", help="a file for the results; where it has some of these settings, the others are made")
    p.add_argument("--again", action="store_true", help="pass over what --out has")
    return p.parse_args()


def in_minutes(seconds):
    return f"{seconds / 60:.0f} min"


def main():
    args = arguments()
    from xgboost.libpath import find_lib_path

    os.environ["FREIGHT_XGBOOST"] = find_lib_path()[0]
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    settings, names, verdicts = settings_of(args), args.tables.split(","), {}
    done = kept(args, settings)
    left = sum(seed not in done.get(name, {}) for name in names for seed in range(args.seeds))
    total = len(names) * args.seeds
    print(f"{left} of {total} comparisons are to be made", file=sys.stderr, flush=True)
    began, made = time.time(), 0
    for name in names:
        table, seeds = None, done.setdefault(name, {})
        for seed in range(args.seeds):
            if seed in seeds:
                continue
            table = table or Table(name, os.path.join(args.dir, name))
            seeds[seed] = table.compared(args, seed)
            made += 1
            keep(args, settings, done)
            each = (time.time() - began) / made
            print(f"{name} seed {seed}: {seeds[seed]['seconds']:.0f} s; {left - made} are left, about "
                  f"{in_minutes((left - made) * each)}", file=sys.stderr, flush=True)
        line, verdicts[name] = judged(name, [seeds[seed] for seed in range(args.seeds)])
        print(line, flush=True)
    not_worse, better = (sum(v[key] for v in verdicts.values()) for key in ("not_worse", "better"))
    took = sum(done[name][seed]["seconds"] for name in names for seed in range(args.seeds))
    print(f"not worse by more than one standard error: {not_worse} of {len(names)}; better: {better} of {len(names)}; "
          f"{in_minutes(took)}")
    keep(args, settings, done, {"tables": verdicts})
    sys.exit(0 if not_worse == len(names) else 1)


if __name__ == "__main__":
    main()
