#!/usr/bin/env python3
"""Estimators and metrics of random tables beside scikit-learn's and XGBoost's, over the command as it is built.

usage: tests/tables_random_peers.py BUILD_DIR [--tables 24] [--seed 1] [--first 0] [--jobs 1] [--keep DIR]

Each table is drawn by its number: columns of numbers, ties, integers, categories and yes/no, with missing cells; a target of two or more
classes, values, counts or amounts with zeros; weights (none, whole numbers with zeros among them, or fractions); an estimator with an
objective; a metric; a test set that may be of one class. What is compared:

predictions  of the fitted model for the test set with those of the peer with the same sample_weight, to 1e-4 of the larger of 1 and the
             prediction (linear models: the encoding is made here, from the table alone)
metrics      every one that `eval` prints with scikit-learn's of the same predictions and sample_weight, to 1e-6; one that eval leaves out
             needs a note, and so does one that scikit-learn warns about
train        the metric that `train` prints with eval's
zero         a table without its rows of weight 0 gives the same model: equal predictions, to the bit
repeated     a table whose rows stand as often as their weight says gives the same predictions, to 1e-4 (linear models and the baseline)

A command that is refused must name the column, the flag or the file. Ends with 77 where the packages are not there.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

SKIPPED = 77
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1")
PREDICTION, METRIC = 1e-4, 1e-6
OBJECTIVES = {"auto": "reg:squarederror", "squarederror": "reg:squarederror", "absoluteerror": "reg:absoluteerror",
              "quantile": "reg:quantileerror", "poisson": "count:poisson", "tweedie": "reg:tweedie"}


class Refused(Exception):
    pass


class Faults(list):
    def add(self, what):
        self.append(what)


class Table:
    """A random table, what is fitted to it, and the peer's view of it."""

    def __init__(self, seed, number, folder, program):
        import numpy
        import pandas

        self.n, self.p = numpy, pandas
        self.random = numpy.random.default_rng([seed, number])
        self.folder, self.program = pathlib.Path(folder), program
        self.faults = Faults()
        self.draw()

    # The table.

    def column(self, kind, rows):
        r, n = self.random, self.n
        if kind == "real":
            return r.normal(r.choice([0, 5, 1000]), r.choice([0.01, 1, 50]), rows).round(4)
        if kind == "ties":
            return r.choice(r.normal(0, 2, r.integers(2, 6)).round(2), rows)
        if kind == "integer":
            return r.integers(0, r.integers(3, 40), rows)
        if kind == "skewed":
            return n.exp(r.normal(0, 2, rows)).round(3)
        if kind == "yesno":
            return n.where(r.random(rows) < 0.4, "yes", "no")
        levels = [f"{chr(97 + i)}{'x' * int(i % 3)}" for i in range(int(r.integers(2, 9)))]
        return r.choice(levels, rows, p=r.dirichlet(n.ones(len(levels))))

    def draw(self):
        r, n = self.random, self.n
        rows = int(r.integers(40, 220))
        frame = {}
        signal = n.zeros(rows)
        for c in range(int(r.integers(1, 6))):
            kind = str(r.choice(["real", "ties", "integer", "skewed", "yesno", "category"]))
            cells = self.column(kind, rows)
            if cells.dtype.kind in "fi":
                numbers = cells.astype(float)
            else:
                numbers = n.unique(cells, return_inverse=True)[1].astype(float)
            spread = numbers.std()
            if spread > 0:
                signal += r.normal(0, 1) * (numbers - numbers.mean()) / spread
            cells = self.p.Series(cells, dtype=object)
            if r.random() < 0.3:
                cells[r.random(rows) < r.choice([0.02, 0.2])] = None
            frame[f"{kind}_{c}"] = cells
        self.task = str(r.choice(["two", "more", "values", "counts", "amounts"]))
        noise = signal + r.normal(0, 1, rows)
        if self.task == "two":
            truth = n.where(noise > n.quantile(noise, r.choice([0.2, 0.5, 0.9])), "pos", "neg")
        elif self.task == "more":
            truth = n.array(["red", "green", "blue", "odd"])[n.searchsorted(n.quantile(noise, [0.3, 0.6, 0.9]), noise)]
        elif self.task == "values":
            truth = (noise * r.choice([1, 30]) + r.choice([0, 100])).round(3)
        elif self.task == "counts":
            truth = r.poisson(n.exp(n.clip(signal / 2, -3, 3)))
        else:
            truth = n.where(r.random(rows) < 0.4, 0, n.exp(n.clip(noise, -4, 4))).round(3)
        frame["y"] = truth
        self.weighed = str(r.choice(["none", "whole", "fractions"]))
        if self.weighed == "whole":
            frame["w"] = r.integers(0, 4, rows)
        elif self.weighed == "fractions":
            frame["w"] = n.where(r.random(rows) < 0.1, 0, r.uniform(0.01, 3, rows)).round(3)
        table = self.p.DataFrame(frame)
        cut = int(rows * 0.7)
        self.train, self.test = table.iloc[:cut].reset_index(drop=True), table.iloc[cut:].reset_index(drop=True)
        if r.random() < 0.1 and self.task in ("two", "more"):
            self.test = self.test[self.test.y == self.test.y.iloc[0]].reset_index(drop=True)
        if r.random() < 0.1 and self.task == "values":
            self.test = self.test.assign(y=1.5)
        self.choose()

    def choose(self):
        r = self.random
        classes = self.task in ("two", "more")
        models = ["baseline", "gbdt", "gbdt", "forest", *(["logistic"] * 2 if classes else ["linear", "ridge"])]
        if self.task == "counts":
            models.append("poisson")
        self.model = str(r.choice(models))
        self.flags, self.objective, self.parameter = [], "auto", None
        self.penalty = None
        if self.model in ("ridge", "logistic", "poisson"):
            self.penalty = float(r.choice([0.1, 1, 7]))
            self.flags += ["--lambda", str(self.penalty)]
        if self.model in ("gbdt", "forest"):
            self.rounds, self.depth = int(r.integers(1, 25)), int(r.integers(1, 6))
            self.flags += ["--max-depth", str(self.depth), "--deterministic"]
            self.flags += ["--rounds", str(self.rounds)] if self.model == "gbdt" else ["--trees", str(self.rounds)]
            objectives = {"values": ["auto", "absoluteerror", "quantile"], "counts": ["auto", "poisson", "quantile"],
                          "amounts": ["auto", "tweedie", "poisson", "quantile"]}.get(self.task, ["auto"])
            self.objective = str(r.choice(objectives))
            if self.objective != "auto":
                self.flags += ["--objective", self.objective]
            if self.objective == "quantile":
                self.parameter = float(r.choice([0.05, 0.5, 0.9]))
                self.flags += ["--quantile", str(self.parameter)]
            if self.objective == "tweedie":
                self.parameter = float(r.choice([1.1, 1.5, 1.9]))
                self.flags += ["--tweedie-power", str(self.parameter)]
            self.balanced = classes and r.random() < 0.3
            if self.balanced:
                self.flags += ["--class-weight", "balanced"]
        metrics = {"two": ["auto", "auc", "f1", "accuracy", "log_loss"], "more": ["auto", "macro_f1", "accuracy", "log_loss"]}.get(
            self.task, ["auto", "rmse", "mae", "r2"])
        if self.task in ("counts", "amounts"):
            metrics = [*metrics, "poisson_deviance", "tweedie_deviance"]
        self.metric = str(r.choice(metrics))
        if self.metric != "auto":
            self.flags += ["--metric", self.metric]
        task = {"two": "classes", "more": "classes", "counts": "counts"}.get(self.task, "values")
        if self.model in ("linear", "ridge") and task == "counts":
            task = "values"
        if self.model in ("gbdt", "forest", "baseline") and task == "counts" and self.objective in ("auto", "quantile"):
            task = "values"
        self.flags += ["--task", task]
        if self.metric in ("f1", "accuracy", "auto") and self.task == "two" and r.random() < 0.3:
            self.flags += ["--threshold", "0.3"]

    def write(self, name, frame):
        path = self.folder / name
        frame.to_csv(path, index=False)
        return path

    # The command.

    def freight(self, *arguments):
        done = subprocess.run([str(self.program), *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        if done.returncode == 0:
            return done
        message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        named = any(word in message for word in ("column ", "--", ".csv", "row"))
        if done.returncode not in (2, 3) or not named:
            self.faults.add(f"freight {' '.join(map(str, arguments))}: exit {done.returncode}: {message}")
        raise Refused(message)

    def fit(self, name, frame):
        out = self.folder / f"{name}-model"
        table, test = self.write(f"{name}.csv", frame), self.write("test.csv", self.test)
        weights = ["--weight-column", "w"] if "w" in frame else []
        done = self.freight("train", table, "--model", self.model, "--target", "y", "--test", test, "--val-split", "0", "-o", out, "--json",
                            *weights, *self.flags)
        return out / "model.safetensors", json.loads(done.stdout)

    def predict(self, bundle, table):
        told = self.folder / "told.npy"
        self.freight("predict", bundle, table, "--npy", told, "-q")
        return self.n.load(told)

    # The peers.

    def cells(self, columns, frame):
        """f64 (N, columns): numbers, the number of a word among its levels (-1: none), NaN where a cell is missing."""
        n = self.n
        out = n.empty((len(frame), len(columns)))
        for c, column in enumerate(columns):
            cells = frame[column["name"]]
            if column["kind"] == "categories":
                levels = {word: i for i, word in enumerate(column["levels"])}
                out[:, c] = [n.nan if v is None or v != v else levels.get(str(v), -1) for v in cells]
            else:
                yes = {"yes": 1.0, "no": 0.0}
                out[:, c] = [n.nan if v is None or v != v else yes.get(v) if v in yes else float(v) for v in cells]
        return out

    def encoded(self, columns, fitted, weight, asked):
        """What linear models multiply: standardized numbers, indicators of all words but the first and of missing cells."""
        n = self.n
        sides = ([], [])

        def add(values, scaled):
            there = ~n.isnan(values[0])
            if not there.any():
                return False
            mean = n.average(values[0][there], weights=weight[there])
            variance = n.average((values[0][there] - mean) ** 2, weights=weight[there])
            if variance <= 0:
                return False
            for side, v in zip(sides, values):
                side.append(n.nan_to_num((v - mean) / (math.sqrt(variance) if scaled else 1)))
            return True

        for c, column in enumerate(columns):
            pair = (fitted[:, c], asked[:, c])
            if column["kind"] == "categories":
                for level in range(1, len(column["levels"])):
                    values = [n.where(n.isnan(v), n.nan, v == level) for v in pair]
                    if add(values, False):  # a word that training did not see counts as the mean
                        sides[1][-1] = n.where(pair[1] == -1, 0, sides[1][-1])
            else:
                add(pair, True)
            if add([n.isnan(v).astype(float) for v in pair], False) and column["kind"] == "categories":
                sides[1][-1] = n.where(pair[1] == -1, 0, sides[1][-1])
        shape = [n.column_stack(side) if side else n.zeros((len(v), 0)) for side, v in zip(sides, (fitted, asked))]
        return shape

    def peer(self, columns, classes, frame):
        """The peer's predictions for the test set, f64 (N, outputs)."""
        n = self.n
        frame = frame[frame.w > 0].reset_index(drop=True) if "w" in frame else frame
        weight = frame.w.to_numpy().astype("f4").astype("f8") if "w" in frame else n.ones(len(frame))
        truth = n.array([classes.index(str(v)) for v in frame.y]) if classes else frame.y.to_numpy().astype("f4").astype("f8")
        rows = len(self.asked)
        if self.model == "baseline":
            answer = [weight[truth == k].sum() / weight.sum() for k in range(len(classes))] if classes else [n.average(truth, weights=weight)]
            return n.tile(answer, (rows, 1))
        fitted, asked = self.cells(columns, frame), self.cells(columns, self.asked)
        if self.model in ("gbdt", "forest"):
            return self.trees(columns, classes, fitted, truth, weight, asked)
        x, z = self.encoded(columns, fitted, weight, asked)
        from sklearn import linear_model

        if self.model == "linear":
            if n.linalg.matrix_rank(n.column_stack([n.ones(len(x)), x]), tol=1e-8 * max(1, len(x))) < x.shape[1] + 1:
                return None  # any solution is as good
            model = linear_model.LinearRegression()
        elif self.model == "ridge":
            model = linear_model.Ridge(alpha=self.penalty, solver="svd")
        elif self.model == "poisson":
            model = linear_model.PoissonRegressor(alpha=self.penalty / weight.sum(), solver="newton-cholesky", tol=1e-10, max_iter=1000)
        else:
            model = linear_model.LogisticRegression(C=1 / self.penalty, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        if x.shape[1] == 0:
            return None
        model.fit(x, truth, sample_weight=weight)
        return model.predict_proba(z) if self.model == "logistic" else model.predict(z).reshape(-1, 1)

    def trees(self, columns, classes, fitted, truth, weight, asked):
        import xgboost

        n = self.n
        kinds = []
        for c, column in enumerate(columns):
            if column["kind"] == "categories":
                seen = n.zeros(len(column["levels"]))
                for v, w in zip(fitted[:, c], weight):
                    if v >= 0:
                        seen[int(v)] += max(w, 1)
                kept = {level: i for i, level in enumerate(n.flatnonzero(seen >= 5))}
                for side in (fitted, asked):
                    side[:, c] = [kept.get(v, n.nan) if v == v else n.nan for v in side[:, c]]
                kinds.append("c" if kept else "q")
            else:
                kinds.append("q")
        if classes and getattr(self, "balanced", False):
            sums = n.array([weight[truth == k].sum() for k in range(len(classes))])
            weight = weight * (weight.sum() / (len(classes) * sums))[truth].astype("f4")
        forest = self.model == "forest"
        objective = "multi:softprob" if len(classes) > 2 else "binary:logistic" if classes else OBJECTIVES[self.objective]
        if not classes and self.objective == "auto" and self.flags[self.flags.index("--task") + 1] == "counts":
            objective = "count:poisson"
        parameters = {"nthread": 1, "seed": 0, "objective": objective, "tree_method": "hist", "max_cat_to_onehot": 50,
                      "eta": 1.0 if forest else 0.1, "max_depth": self.depth, "subsample": 0.8 if forest else 1,
                      "colsample_bynode" if forest else "colsample_bytree": 0.8 if forest else 1, "lambda": 1e-5 if forest else 1,
                      "min_child_weight": 1, "verbosity": 0}
        if forest:
            parameters["num_parallel_tree"] = self.rounds
        if self.objective == "quantile":
            parameters["quantile_alpha"] = self.parameter
        if self.objective == "tweedie":
            parameters["tweedie_variance_power"] = self.parameter
        if len(classes) > 2:
            parameters["num_class"] = len(classes)
        weighed = weight.astype("f4") if self.weighed != "none" or getattr(self, "balanced", False) else None
        data = xgboost.QuantileDMatrix(fitted.astype("f4"), truth.astype("f4"), weight=weighed, feature_types=kinds, nthread=1,
                                       enable_categorical=True, max_bin=256)
        booster = xgboost.train(parameters, data, 1 if forest else self.rounds)
        found = booster.predict(xgboost.DMatrix(asked.astype("f4"), feature_types=kinds, enable_categorical=True))
        if objective == "binary:logistic":
            return n.column_stack([1 - found, found])
        return found.reshape(len(asked), -1)

    def peer_metrics(self, predictions, classes, frame, threshold, name):
        """scikit-learn's figures by Freight's names; NaN where it warns or refuses."""
        from sklearn import metrics

        n = self.n
        weight = frame.w.to_numpy().astype("f4").astype("f8") if "w" in frame else None
        p = predictions.astype("f8")
        known = {}

        def figure(key, make):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    known[key] = float(make())
                except (ValueError, Warning):
                    known[key] = math.nan

        if classes:
            truth = n.array([classes.index(str(v)) for v in frame.y])
            told = p.argmax(1)
            if len(classes) == 2:
                told = (predictions[:, 1] > n.float32(0.5 if threshold is None else threshold)).astype(int)
                if threshold is not None:
                    told = (p[:, 1] > threshold).astype(int)
                figure("auc", lambda: metrics.roc_auc_score(truth, p[:, 1], sample_weight=weight))
                figure("f1", lambda: metrics.f1_score(truth, told, sample_weight=weight))
            else:
                present = sorted(set(truth) | set(told))
                figure("macro_f1", lambda: metrics.f1_score(truth, told, labels=present, average="macro", sample_weight=weight, zero_division=0))
            figure("accuracy", lambda: metrics.accuracy_score(truth, told, sample_weight=weight))
            chosen = n.maximum(p[n.arange(len(p)), truth], n.finfo("f4").tiny)
            figure("log_loss", lambda: n.average(-n.log(chosen), weights=weight))
        else:
            truth, y = frame.y.to_numpy().astype("f4").astype("f8"), p[:, 0]
            figure("rmse", lambda: math.sqrt(metrics.mean_squared_error(truth, y, sample_weight=weight)))
            figure("mae", lambda: metrics.mean_absolute_error(truth, y, sample_weight=weight))
            figure("r2", lambda: metrics.r2_score(truth, y, sample_weight=weight) if n.ptp(truth) > 0 else math.nan)
            if name == "quantile_loss":
                figure(name, lambda: metrics.mean_pinball_loss(truth, y, alpha=self.parameter, sample_weight=weight))
            if name == "poisson_deviance":
                figure(name, lambda: metrics.mean_poisson_deviance(truth, y, sample_weight=weight))
            if name == "tweedie_deviance":
                power = self.parameter if self.objective == "tweedie" else 1.5
                figure(name, lambda: metrics.mean_tweedie_deviance(truth, y, power=power, sample_weight=weight))
        return known

    def own_metric(self):
        if self.metric != "auto":
            return self.metric
        return {"quantile": "quantile_loss", "poisson": "poisson_deviance", "tweedie": "tweedie_deviance", "absoluteerror": "mae"}.get(
            self.objective, "rmse" if self.task in ("values", "counts", "amounts") else "log_loss")

    def differs(self, ours, theirs, limit):
        off = self.n.abs(ours - theirs) / self.n.maximum(1, self.n.abs(theirs))
        return None if off.size == 0 or off.max() <= limit else float(off.max())

    # What is checked.

    def run(self):
        try:
            bundle, trained = self.fit("train", self.train)
        except Refused:
            return "refused"
        shown = json.loads(self.freight("models", "show", bundle, "--json").stdout)
        columns, classes = shown["columns"], shown["classes"]
        counted = self.test[self.test.w > 0].reset_index(drop=True) if "w" in self.test else self.test
        self.asked = counted
        test = self.write("counted.csv", counted)
        ours = self.predict(bundle, test)
        theirs = self.peer(columns, classes, self.train)
        if theirs is not None and (off := self.differs(ours.astype("f8"), theirs, PREDICTION)):
            self.faults.add(f"predictions differ from the peer's by {off:.2g}")
        try:
            done = self.freight("eval", bundle, "--data", self.folder / "test.csv", "--json")
        except Refused:
            return "eval refused"
        self.compare_metrics(done, trained, ours, classes, counted)
        if self.weighed != "none" and (self.train.w == 0).any():
            again = self.fit("absent", self.train[self.train.w > 0])[0]
            if (self.predict(again, test) != ours).any():
                self.faults.add("rows of weight 0 change the model")
        if self.weighed == "whole" and self.model not in ("gbdt", "forest"):
            repeated = self.train.loc[self.train.index.repeat(self.train.w)].drop(columns="w").reset_index(drop=True)
            again = self.fit("repeated", repeated)[0]
            if (theirs is not None) and (off := self.differs(self.predict(again, test).astype("f8"), ours.astype("f8"), PREDICTION)):
                self.faults.add(f"repeated rows give other predictions, by {off:.2g}")
        return "compared"

    def compare_metrics(self, done, trained, ours, classes, counted):
        scores = {name: s["value"] for name, s in json.loads(done.stdout).get("scores", {}).items()}
        threshold = 0.3 if "--threshold" in self.flags else None
        name = self.own_metric()
        known = self.peer_metrics(ours, classes, counted, threshold, name)
        for key, value in known.items():
            if key in scores and math.isfinite(value):
                if off := self.differs(self.n.float64(scores[key]), self.n.float64(value), METRIC):
                    self.faults.add(f"{key} is {scores[key]:.8g}, scikit-learn's {value:.8g} (off by {off:.2g})")
            elif key in scores and not math.isfinite(value) and key not in ("f1", "macro_f1") and key not in done.stderr:
                self.faults.add(f"{key} is {scores[key]:.8g} without a note, scikit-learn warns")
            elif key not in scores and key not in done.stderr:
                self.faults.add(f"eval has no {key}, and no note says why")
        reported = {key.partition("_")[2]: value for key, value in trained.items() if key.startswith(("test_", "val_"))}
        if not reported:
            self.faults.add(f"train reports no metric of the rows held out: {', '.join(trained)}")
        for mine, value in reported.items():
            if mine not in ("top1", "loss") and mine in scores and self.differs(self.n.float64(value), self.n.float64(scores[mine]), METRIC):
                self.faults.add(f"train reports {mine} {value:.8g}, eval {scores[mine]:.8g}")

    def __str__(self):
        return f"{self.model} {self.task}, weights {self.weighed}, {' '.join(self.flags)}"


def one(job):
    seed, number, program, keep = job
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(keep) / str(number) if keep else pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        table = Table(seed, number, folder, program)
        try:
            how = table.run()
        except Refused as e:
            table.faults.add(f"refused: {e}")
            how = "refused"
        return number, how, str(table), list(table.faults)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--tables", type=int, default=1000 if os.environ.get("FREIGHT_LONG") else 24)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--keep", help="a folder for the files of each table")
    a = p.parse_args()
    try:
        import pandas  # noqa: F401
        import sklearn  # noqa: F401
        import xgboost

        ENVIRONMENT["FREIGHT_XGBOOST"] = xgboost.libpath.find_lib_path()[0]  # both fit by the same library
    except ImportError as e:
        print(f"skipped: {e}")
        return SKIPPED
    program = pathlib.Path(a.build) / "bin" / "freight"
    jobs = [(a.seed, number, program, a.keep) for number in range(a.first, a.first + a.tables)]
    counts, failed = {}, 0
    with concurrent.futures.ProcessPoolExecutor(a.jobs) as pool:
        for number, how, what, faults in pool.map(one, jobs):
            counts[how] = counts.get(how, 0) + 1
            failed += bool(faults)
            for fault in faults:
                print(f"table {number} ({what}): {fault}", flush=True)
    print(f"{len(jobs)} tables: {', '.join(f'{count} {how}' for how, count in sorted(counts.items()))}; {failed} with differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
