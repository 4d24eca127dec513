#!/usr/bin/env python3
"""Makes the files of this folder: forests of LightGBM and scikit-learn, and what these answer.

    tests/tables/other_makers/make.py [FOLDER]

Needs lightgbm, scikit-learn, treelite and pandas; made by lightgbm 4.7.0, scikit-learn 1.9.1 and treelite 4.8.1 on
2026-11-27. NAME.txt or NAME.json is the model, NAME.csv a row per line: its cells as the columns of the model, the
answers by `predict_proba` or `predict` (p0, p1, ...), and, of LightGBM, what each column adds (s0, s1, ..., the base
last)."""
import pathlib
import sys

import lightgbm
import numpy
import pandas
import treelite
from sklearn.ensemble import (GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier,
                              RandomForestRegressor)

HERE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
ROWS, SHOWN = 400, 40
TOWNS = ["Ypsilanti", "Berne", "Cork", "Delft", "Essen", "Fez"]


def write(name, cells, answers, added=None):
    table = cells.reset_index(drop=True).copy()
    answers = numpy.asarray(answers).reshape(len(table), -1)
    for k in range(answers.shape[1]):
        table[f"p{k}"] = [repr(float(v)) for v in answers[:, k]]
    for k in range(0 if added is None else added.shape[1]):
        table[f"s{k}"] = [repr(float(v)) for v in added[:, k]]
    table.to_csv(HERE / f"{name}.csv", index=False)


def lightgbm_models():
    random = numpy.random.default_rng(34)
    rows = pandas.DataFrame({
        "size": numpy.round(random.normal(size=ROWS), 2),
        "many_zeros": numpy.where(random.random(ROWS) < 0.5, 0, numpy.round(random.normal(size=ROWS), 1)),
        "town": pandas.Categorical(random.choice(TOWNS, ROWS), categories=TOWNS),
        "floor": pandas.Categorical(random.integers(0, 5, ROWS)),
    })
    rows.loc[::7, "size"] = numpy.nan
    rows.loc[::11, "town"] = numpy.nan
    told = rows["size"].fillna(2) + rows["town"].cat.codes % 3 + rows["many_zeros"] ** 2 + random.normal(size=ROWS) / 4
    positive = numpy.exp(told / 3)
    plain = {"num_leaves": 7, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "seed": 1, "min_data_per_group": 5,
             "cat_smooth": 1, "max_cat_to_onehot": 1, "deterministic": True}
    settings = {
        "binary": (told > 1, {"objective": "binary", "sigmoid": 1.7}),
        "multiclass": (numpy.digitize(told, [1, 2]), {"objective": "multiclass", "num_class": 3}),
        "regression": (told, {"objective": "regression"}),
        "poisson": (positive, {"objective": "poisson"}),
        "zero_missing": (told, {"objective": "regression", "zero_as_missing": True}),
        "no_missing": (told, {"objective": "regression_l1", "use_missing": False}),
        "rf": (told > 1, {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
        "lambdarank": (numpy.digitize(told, [0, 1, 2]), {"objective": "lambdarank"}),
    }
    shown = rows.iloc[:SHOWN].copy()
    shown["many_zeros"] = numpy.where(numpy.arange(SHOWN) % 9 == 5, numpy.nan, shown["many_zeros"])
    for name, (target, own) in settings.items():
        group = [ROWS // 8] * 8 if name == "lambdarank" else None
        data = lightgbm.Dataset(rows, numpy.asarray(target, dtype=float), group=group)
        model = lightgbm.train({**plain, **own}, data, 6)
        model.save_model(HERE / f"{name}.txt")
        answers = model.predict(shown)
        if own["objective"] == "binary":
            answers = numpy.stack([1 - answers, answers], 1)
        write(name, shown, answers, model.predict(shown, pred_contrib=True))


def treelite_models():
    random = numpy.random.default_rng(35)
    cells = numpy.round(random.normal(size=(ROWS, 3)), 2).astype("f4").astype("f8")
    told = cells[:, 0] + cells[:, 1] * cells[:, 2]
    kind = numpy.digitize(told, [-0.5, 0.7])
    models = {
        "forest_of_two": RandomForestClassifier(5, max_depth=4, random_state=0).fit(cells, told > 0),
        "forest_of_three": RandomForestClassifier(4, max_depth=4, random_state=0).fit(cells, kind),
        "forest_of_values": RandomForestRegressor(5, max_depth=4, random_state=0).fit(cells, told),
        "boosted_of_two": GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0).fit(cells, told > 0),
        "boosted_of_three": HistGradientBoostingClassifier(max_iter=4, max_depth=3, random_state=0).fit(cells, kind),
    }
    for name, model in models.items():
        (HERE / f"{name}.json").write_text(treelite.sklearn.import_model(model).dump_as_json(pretty_print=False) + "\n")
        table = pandas.DataFrame(cells[:SHOWN], columns=[f"f{i}" for i in range(3)])
        answers = model.predict_proba(cells[:SHOWN]) if hasattr(model, "predict_proba") else model.predict(cells[:SHOWN])
        write(name, table, answers)


if __name__ == "__main__":
    lightgbm_models()
    treelite_models()
