#!/usr/bin/env python3
"""Models of the ten tables beside what others make of them, over the command as it is built.

usage: tests/tables_peers.py BUILD_DIR [--data DIR] [--tables NAME,...] [onnx] [weights]

onnx       trees (gbdt and forest) of each table, exported: ONNX Runtime answers every row as `freight predict` does, to 1e-5
weights    a column of random weights in each table (--weight-column): linear, ridge and logistic models have the coefficients of
           scikit-learn's with that sample_weight, on the same encoded matrix with equal penalties, to 1e-5

A difference is told of the larger of 1 and what it is compared with. DIR: where adult, agaricus, ... lie, by default tabular/ of
FREIGHT_DATA or of what tests/unpack_data.sh unpacked. Ends with 77 where the data, or pandas, scikit-learn, onnxruntime or XGBoost, are not there. A short part of the tables
is checked in every suite, all of them with FREIGHT_LONG=1 (./test --long).
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
TABLES = ("adult", "agaricus", "california_housing", "casp", "ccpp", "concrete", "energy", "titanic", "wine_quality", "yacht")
SHORT = ("concrete", "energy", "titanic", "yacht")
MISSING = ("", "?", "NA", "NaN", "nan")
SKIPPED = 77
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive")
LIMIT = 1e-5


def freight(program, *arguments):
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"freight {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}")
    return done.stdout


def tensors(path, numpy):
    """The tensors of a stored model, by name."""
    raw = pathlib.Path(path).read_bytes()
    (head,) = struct.unpack("<Q", raw[:8])
    kinds = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}
    found = {}
    for name, at in json.loads(raw[8:8 + head]).items():
        if name == "__metadata__" or at["dtype"] not in kinds:
            continue
        begin, end = at["data_offsets"]
        found[name] = numpy.frombuffer(raw[8 + head + begin:8 + head + end], kinds[at["dtype"]]).reshape(at["shape"])
    return found


def numbers_of(texts, columns, numpy, pandas):
    """Cells as numbers: the number of a word among its column's levels, -1 of others, NaN of a missing cell. f64 (N, columns)."""
    cells = numpy.empty((len(texts), len(columns)))
    for c, column in enumerate(columns):
        said = texts[column["name"]].str.strip()
        gone = said.isin(MISSING)
        if column["kind"] == "categories":
            levels = {word: float(i) for i, word in enumerate(column["levels"])}
            cells[:, c] = [levels.get(word, -1.0) for word in said]
        else:
            cells[:, c] = pandas.to_numeric(said.where(~gone))
        cells[gone.to_numpy(), c] = numpy.nan
    return cells


def difference(ours, theirs, numpy):
    return float((numpy.abs(ours - theirs) / numpy.maximum(1, numpy.abs(theirs))).max())


class Case:
    """A table as a file, and the commands on it."""

    def __init__(self, name, folder, arguments):
        import numpy
        import pandas
        from compare_tables import read

        self.numpy, self.pandas, self.program = numpy, pandas, pathlib.Path(arguments.build) / "bin" / "freight"
        self.name, self.folder = name, pathlib.Path(folder)
        self.table, self.target, self.classes = read(name, os.path.join(arguments.data, name))
        random = numpy.random.default_rng(7)
        self.table["weight "] = random.uniform(0, 3, len(self.table)).round(3)  # no table has this name
        self.table.loc[random.random(len(self.table)) < 0.05, "weight "] = 0.0
        self.table["order "] = numpy.arange(len(self.table))
        self.file = self.folder / f"{name}.csv"
        self.table.rename(columns=str.strip).to_csv(self.file, index=False)
        self.texts = pandas.read_csv(self.file, dtype=str, keep_default_na=False)

    def train(self, model, *flags):
        out = self.folder / f"{self.name}-{model}"
        task = "classes" if self.classes else "values"
        freight(self.program, "train", self.file, "--model", model, "--target", self.target.strip(), "--task", task, "-o", out,
                "-q", "--overwrite", *flags)
        return out / "model.safetensors"

    def columns(self, model):
        return json.loads(freight(self.program, "models", "show", model, "--json"))["columns"]

    def onnx(self):
        import onnxruntime

        for model in ("gbdt", "forest"):
            bundle = self.train(model, "--drop", "weight,order")
            exported, told = self.folder / "m.onnx", self.folder / "told.npy"
            freight(self.program, "export", bundle, "-o", exported)
            freight(self.program, "predict", bundle, self.file, "--csv", "-o", self.folder / "told.csv", "--npy", told)
            session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
            cells = numbers_of(self.texts, self.columns(bundle), self.numpy, self.pandas)
            taken = session.get_modelmeta().custom_metadata_map.get("subtracted")
            if taken:
                cells -= self.numpy.array(json.loads(taken))
            (theirs,) = session.run(None, {"features": cells.astype("f4")})
            ours = self.numpy.load(told)
            if ours.shape != theirs.shape:
                raise SystemExit(f"{self.name}: {model} has {ours.shape}, ONNX Runtime {theirs.shape}")
            yield f"{model} in ONNX Runtime, {len(ours):,} rows", difference(ours, theirs, self.numpy)

    def weights(self):
        from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

        n = self.numpy
        share = 0.2
        held = ("--weight-column", "weight", "--split-by", "order", "--val-split", share, "--drop", "order")
        penalty = 0.7
        for model in ("logistic",) if self.classes else ("linear", "ridge"):
            bundle = self.train(model, *held, *(() if model == "linear" else ("--lambda", penalty)))
            found = tensors(bundle, n)
            terms, centres = found["linear.terms"], found["linear.means"]
            rows = len(self.texts) - round(share * len(self.texts))
            raw = numbers_of(self.texts, self.columns(bundle), n, self.pandas)[:rows]
            encoded = n.empty((rows, len(terms)))
            for t, (column, level) in enumerate(terms):
                cell = raw[:, column]
                value = n.isnan(cell) if level == -2 else cell if level == -1 else n.where(n.isnan(cell), n.nan, cell == level)
                encoded[:, t] = n.nan_to_num((value - centres[t, 0]) / centres[t, 1])
            truth, weight = self.texts[self.target.strip()][:rows], self.table["weight "].to_numpy()[:rows].astype("f4")
            if model == "logistic":
                peer = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-10, max_iter=1000)
            else:
                truth = self.pandas.to_numeric(truth).to_numpy().astype("f4").astype("f8")
                peer = LinearRegression() if model == "linear" else Ridge(alpha=penalty, solver="cholesky")
            peer.fit(encoded, truth, sample_weight=weight.astype("f8"))
            ours = n.column_stack([found["linear.intercepts"].reshape(-1, 1), found["linear.weights"].reshape(-1, len(terms))])
            theirs = n.column_stack([n.reshape(peer.intercept_, (-1, 1)), n.reshape(peer.coef_, (-1, len(terms)))])
            if n.linalg.matrix_rank(encoded) < len(terms) and model == "linear":  # columns depend on each other
                ours, theirs = (n.column_stack([n.ones(rows), encoded]) @ k.T for k in (ours, theirs))
                yield f"{model}, answers to {rows:,} rows", difference(ours, theirs, n)
            else:
                yield f"{model}, {theirs.size} coefficients", difference(ours, theirs, n)


def missing_packages(checks):
    needed = ["numpy", "pandas", *(["onnxruntime"] if "onnx" in checks else []), *(["sklearn"] if "weights" in checks else [])]
    lacking = []
    for name in needed:
        try:
            __import__(name)
        except ImportError:
            lacking.append(name)
    return lacking


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("checks", nargs="*", help="onnx, weights; both")
    p.add_argument("--data")
    p.add_argument("--tables", default=",".join(TABLES if os.environ.get("FREIGHT_LONG") else SHORT))
    arguments = p.parse_args()
    checks = arguments.checks or ["onnx", "weights"]
    arguments.data = arguments.data or os.path.join(os.environ.get("FREIGHT_DATA") or os.path.join(arguments.build, "data"), "tabular")
    lacking = missing_packages(checks)
    if lacking or not os.path.isdir(arguments.data):
        print(f"skipped: there is no {', '.join(lacking) or arguments.data}")
        return SKIPPED
    failed = 0
    for name in arguments.tables.split(","):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(name, folder, arguments)
            for check in checks:
                for what, off in getattr(case, check)():
                    failed += not off <= LIMIT
                    print(f"{name:20s} {what:45s} {off:.2g}{'' if off <= LIMIT else '  FAILS'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
