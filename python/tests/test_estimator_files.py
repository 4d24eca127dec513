"""Estimators of model files, decision_function, and tables of very few rows."""
import csv
import pickle

import numpy as np
import pytest

import freight as fr
from freight import nn

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.model_selection import cross_val_score  # noqa: E402

from freight import FreightClassifier, FreightRegressor  # noqa: E402

R = np.random.default_rng(0)
X = R.normal(size=(200, 4))
X[:, 2] = 1.0
TWO = (X[:, 0] + 0.3 * R.normal(size=200) > 0).astype(int)
THREE = np.digitize(X[:, 0] + 0.3 * R.normal(size=200), [-0.5, 0.5])
FRAME = pd.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "u", "v"), "b": X[:, 3]})


def network(n_features, n_outputs):
    return nn.Linear(n_features, n_outputs)


@pytest.mark.parametrize("kind, model, x, y", [
    (FreightClassifier, "gbdt", X, TWO), (FreightClassifier, "linear", X, TWO + 2.0), (FreightClassifier, "forest", FRAME, np.array(["b", "a"])[TWO]),
    (FreightClassifier, "gbdt", FRAME, THREE * 3), (FreightRegressor, "gbdt", FRAME, X[:, 0]), (FreightRegressor, "linear", X, X[:, 0]),
    (FreightClassifier, network, X.astype("f4"), np.array(["b", "a"])[TWO]), (FreightRegressor, network, X.astype("f4"), X[:, 0])], ids=str)
def test_a_file_becomes_the_estimator_that_wrote_it(tmp_path, kind, model, x, y):
    path = tmp_path / "model.safetensors"
    fitted = kind(model, random_state=0).fit(x, y)
    fitted.save(path)
    loaded = kind.load(path)
    again = x[["b", "c", "a"]] if x is FRAME else x
    assert np.array_equal(loaded.predict(again), fitted.predict(x)) and loaded.score(again, y) == fitted.score(x, y)
    if kind is FreightClassifier:
        assert loaded.classes_.tolist() == fitted.classes_.tolist() and np.array_equal(loaded.predict_proba(again), fitted.predict_proba(x))
    if model == "gbdt":
        assert loaded.feature_importances_.max() == fitted.feature_importances_.max()
    loaded.save(tmp_path / "second.safetensors")
    assert np.array_equal(kind.load(tmp_path / "second.safetensors").predict(again), fitted.predict(x))
    assert np.array_equal(clone(loaded).fit(x, y).predict(x).shape, (200,))
    other = FreightRegressor if kind is FreightClassifier else FreightClassifier
    with pytest.raises(ValueError, match=f"{other.__name__}.load: .* predicts .*: expected {kind.__name__}"):
        other.load(path)


def test_a_model_of_the_command_becomes_an_estimator(tmp_path):
    with open(tmp_path / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "c", "label"], *zip(X[:, 0], FRAME["c"], np.array(["no", "yes"])[TWO])])
    run = fr.train(str(tmp_path / "table.csv"), model="gbdt", target="label", output_dir=str(tmp_path / "run"), progress=False)
    loaded = FreightClassifier.load(run["model"])
    assert loaded.classes_.tolist() == ["no", "yes"] and loaded.score(FRAME, np.array(["no", "yes"])[TWO]) > 0.8
    with pytest.raises(ValueError, match="a"):
        loaded.predict(FRAME[["c"]])


@pytest.mark.parametrize("names", [(0, 1), ("b", "a"), (0, 1, 2), ("z", "m", "a")], ids=str)
@pytest.mark.parametrize("model", ["gbdt", "linear"])
def test_decision_function_is_the_sum_behind_the_probabilities(model, names):
    y = np.array(names)[TWO if len(names) == 2 else THREE]
    fitted = FreightClassifier(model, random_state=0).fit(X, y)
    found, chances = fitted.decision_function(X), fitted.predict_proba(X)
    if len(names) == 2:
        assert found.shape == (200,) and found.dtype == np.float64
        assert np.allclose(1 / (1 + np.exp(-found)), chances[:, 1], atol=1e-6)
        assert np.array_equal(fitted.classes_[(found > 0).astype(int)], fitted.predict(X))
    else:
        powers = np.exp(found - found.max(axis=1, keepdims=True))
        assert found.shape == (200, 3) and np.allclose(powers / powers.sum(axis=1, keepdims=True), chances, atol=1e-6)
        assert np.array_equal(fitted.classes_[found.argmax(axis=1)], fitted.predict(X))


def test_decision_function_is_scikit_learns_where_that_has_one():
    fitted, other = FreightClassifier("linear", reg_lambda=1.0).fit(X, TWO), LogisticRegression(C=1.0, tol=1e-8).fit(X, TWO)
    assert np.allclose(fitted.decision_function(X), X @ fitted.coef_[0] + fitted.intercept_, atol=1e-12)
    assert np.allclose(fitted.decision_function(X), other.decision_function(X), rtol=0.05, atol=0.01)  # which scales no columns
    for model in ("gbdt", "linear"):
        fitted = FreightClassifier(model, random_state=0)
        assert cross_val_score(fitted, X, TWO, scoring="roc_auc", cv=3).min() > 0.8
        calibrated = CalibratedClassifierCV(fitted, cv=3).fit(X, TWO).predict_proba(X)[:, 1]
        assert roc_auc_score(TWO, calibrated) > 0.8 and np.isfinite(calibrated).all()
    assert not hasattr(FreightClassifier("forest"), "decision_function") and not hasattr(FreightClassifier("mlp"), "decision_function")


@pytest.mark.parametrize("rows", [2, 3, 4, 7, 10])
@pytest.mark.parametrize("kind", [FreightRegressor, FreightClassifier])
def test_very_few_rows_give_finite_predictions(kind, rows):
    r = np.random.default_rng(rows)
    some = np.where(r.random((rows, 2)) < 0.5, np.nan, r.normal(size=(rows, 2)))
    some[0], some[1] = (0.1, 0.2), (0.3, np.nan)  # each column varies, and may have no value in the rows that are fitted
    y = r.normal(size=rows) if kind is FreightRegressor else np.arange(rows) % 2
    for x in (np.c_[np.full(rows, np.nan), np.arange(rows)], some):
        for arguments in ({}, {"sample_weight": r.uniform(0.1, 2, rows)}, {"eval_set": (x, y)}):
            fitted = kind("gbdt", random_state=0, rounds=20).fit(x, y, **arguments)
            for at in (x, np.full((2, 2), np.nan), r.normal(size=(3, 2)) * 100):
                found = fitted.predict(at) if kind is FreightRegressor else fitted.predict_proba(at)
                assert np.isfinite(found).all() and np.abs(found).max() <= 3 * max(np.abs(y).max(), 1)


@pytest.mark.parametrize("rows", [3, 4])
def test_a_column_without_a_value_in_the_fitted_rows_is_missing(rows):
    seen = set()
    for at in range(rows):  # of which one is held out
        x = np.c_[np.arange(rows, dtype=float), np.arange(rows, dtype=float)]
        x[:, 0] = np.nan
        x[at, 0], x[(at + 1) % rows, 0] = 0.1, 0.3
        fitted = FreightRegressor("gbdt", random_state=0, rounds=20, val_split=0.5).fit(x, np.arange(rows, dtype=float))
        assert np.isfinite(fitted.predict(x)).all()
        seen.add(len(fitted.predict(x)))
    assert seen == {rows}


@pytest.mark.parametrize("weights", [None, "some"])
@pytest.mark.parametrize("model", ["gbdt", "linear", "forest", "mlp", "auto"])
def test_a_target_of_one_value_is_learned_with_a_warning(model, weights):
    y = np.full(200, 2.5)
    if weights:  # only rows of one value count
        y[:9], weights = 4.0, np.repeat([0.0, 1.0], [9, 191])
    with pytest.warns(UserWarning, match=r"y has one value, .*2\.5.*, in all rows: the model predicts it"):
        fitted = FreightRegressor(model, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(fitted.predict(X), 2.5, rtol=1e-5)


@pytest.mark.parametrize("words", [["1", "2", "3"], ["10", "9"], ["007", "3"], ["1.0", "2.0"], [" a", "b "], ["NA", "yes"], ["-1", "x"],
                                   [str(k) for k in range(12)]], ids=str)
@pytest.mark.parametrize("model", ["linear", "gbdt", "mlp"])
def test_classes_that_are_no_plain_words_are_in_the_file(tmp_path, model, words):
    """Their places in classes_ were there, which other programs then predicted."""
    y = np.array(words)[np.arange(240) % len(words)]
    x = np.c_[np.arange(240) % len(words), np.zeros(240)].astype("f8")
    weights = {"class_weight": {words[0]: 3.0}} if model == "gbdt" else {}
    fitted = FreightClassifier(model, random_state=0, **weights, **({"rounds": 60, "val_split": 0.0} if model == "gbdt" else {})).fit(x, y)
    found = fitted.predict(x)
    assert fitted.classes_.tolist() == sorted(words) and (found == y).mean() > (0.9 if model != "linear" or len(words) < 4 else 0.3)
    fitted.save(tmp_path / "model.safetensors")
    loaded = FreightClassifier.load(tmp_path / "model.safetensors")
    same = loaded.predict(x)
    assert same.tolist() == found.tolist() and np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    assert pickle.loads(pickle.dumps(fitted)).predict(x).tolist() == found.tolist()
    np.savetxt(tmp_path / "x.csv", x[:12], delimiter=",", header="x0,x1", comments="")
    rows = fr.predict(tmp_path / "model.safetensors", tmp_path / "x.csv", progress=False)
    assert [row["class"] for row in rows] == found[:12].tolist()


LABELS = [  # what a CSV file would have as other numbers, as missing or as other texts; and types of NumPy
    ["1", "2", "3"], ["1.0", "1", "01"], ["NA", "EU", "nan"], ["", " a", "a"], ["1e3", "1000", "1_0"], np.array(["1", "22", "3"], object),
    np.array([-1, 5, 7], "i4"), np.array([2**53, 2**53 + 1, 5]), np.array([1, 2**60, 3], "u8"), [1.0, 2.0, 4.0], [True, False]]


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("model", ["gbdt", "forest", "linear", network])
def test_classes_of_a_file_have_the_names_and_the_type_of_fit(tmp_path, monkeypatch, labels, model):
    monkeypatch.chdir(tmp_path)
    labels = np.asarray(labels)
    which = np.arange(10 * len(labels)) % len(labels)
    x = np.c_[which + 0.1 * R.normal(size=len(which)), which == 0].astype("f4")
    settings = {"gbdt": {"rounds": 5, "val_split": 0.0}, network: {"fit_settings": {"epochs": 3}}}.get(model, {})
    fitted = FreightClassifier(model, random_state=0, **settings).fit(x, labels[which])
    fitted.save("model.safetensors")
    for path in ("model.safetensors", "again.safetensors"):
        loaded = FreightClassifier.load(path)
        assert loaded.classes_.dtype == fitted.classes_.dtype and loaded.classes_.tolist() == sorted(set(labels.tolist()))
        assert loaded.predict(x).tolist() == fitted.predict(x).tolist() and np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
        loaded.save("again.safetensors")
    if model is network:
        assert fr.load("again.safetensors").classes == [str(k) for k in fitted.classes_]
    else:
        texts = {k: str(int(k)) if labels.dtype.kind == "f" else str(k) for k in labels.tolist()}
        np.savetxt("x.csv", x, delimiter=",", header="x0,x1", comments="", fmt="%.9g")
        assert [row["class"] for row in fr.predict("again.safetensors", "x.csv", progress=False)] == [texts[k] for k in fitted.predict(x).tolist()]


@pytest.mark.parametrize("labels, expected", [
    (["1", "2"], [1, 2]), (["1_0", "2_0"], ["1_0", "2_0"]), (["0.5", "1.5"], [0.5, 1.5]), (["True", "False"], ["False", "True"])], ids=str)
def test_classes_of_the_command_are_numbers_where_all_of_their_names_are(tmp_path, labels, expected):
    with open(tmp_path / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "label"], *zip(X[:, 0], np.array(labels)[TWO])])
    run = fr.train(str(tmp_path / "table.csv"), model="logistic", target="label", task="classes", output_dir=str(tmp_path / "run"), progress=False)
    assert FreightClassifier.load(run["model"]).classes_.tolist() == expected


def test_texts_of_a_module_stay_texts_in_its_file(tmp_path):
    net = nn.Linear(4, 3)
    net.fit(X, np.array(["3", "1", "2"])[THREE], verbose=0)
    net.save(tmp_path / "model.safetensors")
    assert FreightClassifier.load(tmp_path / "model.safetensors").classes_.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize("model", ["linear", "gbdt"])
def test_times_of_a_zone_are_utc_in_frames_and_in_their_csv_files(tmp_path, model):
    times = pd.to_datetime(["2024-01-01 23:30", "2024-05-05 12:00", "2023-02-02 01:00", "2024-03-03 22:00"]).tz_localize("America/New_York")
    frame = pd.DataFrame({"t": times[np.arange(240) % 4], "u": np.random.default_rng(0).normal(size=240)})
    y = frame["t"].dt.tz_convert("UTC").dt.hour + 0.0
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.assign(y=y).to_csv(tmp_path / "xy.csv", index=False)
    settings = {"gbdt": {"rounds": 30, "val_split": 0.0}}.get(model, {})
    FreightRegressor(model, **settings).fit(frame, y).save(tmp_path / "model.safetensors")
    of_file = fr.train(str(tmp_path / "xy.csv"), model=model, target="y", task="values", output_dir=str(tmp_path / "run"), progress=False,
                       **{"val_split": 0.0, **settings})["model"]
    for path in (tmp_path / "model.safetensors", of_file):
        predicted = FreightRegressor.load(path).predict(frame)
        assert np.abs(predicted - y).max() < (0.5 if model == "gbdt" else 3)
        rows = fr.predict(str(path), str(tmp_path / "x.csv"), progress=False)
        np.testing.assert_allclose([list(row["values"].values())[0] if isinstance(row["values"], dict) else row["values"][0] for row in rows],
                                   predicted, rtol=1e-5)


def one_output(n_features):
    return nn.Linear(n_features, 1)


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b"], [4, 9], [False, True], ["1", "2"]], ids=str)
@pytest.mark.parametrize("model", [network, one_output])
def test_networks_of_two_classes_follow_the_threshold_also_from_a_file(tmp_path, model, labels):
    y = np.array(labels)[TWO]
    for threshold in (None, 0.2, 0.8):
        fitted = FreightClassifier(model, threshold=threshold, random_state=0, epochs=5, lr=0.1).fit(X.astype("f4"), y)
        p = fitted.predict_proba(X)
        found = fitted.predict(X)
        assert found.tolist() == np.array(labels)[(p[:, 1] > (threshold or 0.5)).astype(int)].tolist()
        fitted.save(tmp_path / "model.safetensors")
        loaded = FreightClassifier.load(tmp_path / "model.safetensors")
        assert loaded.classes_.dtype == fitted.classes_.dtype and loaded.classes_.tolist() == labels and loaded.threshold == threshold
        np.testing.assert_allclose(loaded.predict_proba(X), p, rtol=1e-6)
        assert loaded.predict(X).tolist() == found.tolist()
        assert fr.load(tmp_path / "model.safetensors").classes == [str(c) for c in (labels if model is network else labels[1:])]
    with pytest.raises(ValueError, match="threshold: expected a number for a network, which keeps none that is chosen, got 'recall=0.9'"):
        FreightClassifier(model, threshold="recall=0.9").fit(X.astype("f4"), y)


def test_a_module_with_one_output_becomes_a_classifier_of_0_and_1(tmp_path):
    net = nn.Linear(4, 1)
    net.fit(X.astype("f4"), TWO[:, None].astype(bool), epochs=3, verbose=0)
    net.save(tmp_path / "net.safetensors")
    loaded = FreightClassifier.load(tmp_path / "net.safetensors")
    assert loaded.classes_.tolist() == [0, 1]
    assert loaded.predict(X).tolist() == (net.predict(X.astype("f4")).numpy()[:, 0] > 0).astype(int).tolist()


@pytest.mark.parametrize("model", ["linear", "forest", "mlp", "gbdt"])
@pytest.mark.parametrize("settings", [{"threshold": "recall=0.9"}, {"metric": "f1"}], ids=str)
def test_a_threshold_is_chosen_by_held_out_rows(tmp_path, model, settings):
    """As the command does; without such rows the rule had no effect."""
    r = np.random.default_rng(0)
    x = r.normal(size=(600, 3))
    y = (x[:, 0] + r.normal(size=600) > 1.2).astype(int)
    own = {"forest": {"trees": 20}, "mlp": {"epochs": 5}, "gbdt": {"rounds": 20}}.get(model, {})
    fitted = FreightClassifier(model, random_state=0, **own, **settings).fit(x, y)
    fitted.save(tmp_path / "model.safetensors")
    p = fitted.predict_proba(x)[:, 1]
    pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    run = fr.train(tmp_path / "t.csv", target="y", task="classes", model="logistic" if model == "linear" else model, seed=0, output_dir=tmp_path / "run",
                   progress=False, **own, **settings)
    by_command = FreightClassifier.load(run["model"])
    assert by_command.predict(x).tolist() == fitted.predict(x).tolist() != (p > 0.5).astype(int).tolist()
    if "threshold" in settings:
        assert fitted.predict(x)[y == 1].mean() > 0.8
        with pytest.raises(ValueError, match="threshold: recall=0.9 chooses it by held-out rows: expected val_split above 0"):
            FreightClassifier(model, val_split=0.0, **own, **settings).fit(x, y)


@pytest.mark.parametrize("model", ["gbdt", "linear"])
@pytest.mark.parametrize("kind", [FreightClassifier, FreightRegressor])
def test_an_estimator_from_a_file_knows_the_categories_that_fit_knew(tmp_path, model, kind):
    """Those of the column's type, and of held-out rows."""
    words = np.array(["u", "v"])[np.arange(200) % 2].astype(object)
    words[7] = "rare"  # maybe held out
    frame = pd.DataFrame({"c": pd.Categorical(words, categories=["u", "v", "rare", "never"]), "t": np.where(words == "rare", "rare", "w"), "x": X[:, 0]})
    fitted = kind(model, random_state=0, **({"rounds": 5} if model == "gbdt" else {})).fit(frame, TWO)
    rows = pd.DataFrame({"c": pd.Categorical(["never", "rare", "u"]), "t": ["w", "w", "rare"], "x": [0.0, 1.0, 2.0]})
    fitted.save(tmp_path / "model.safetensors")
    loaded = kind.load(tmp_path / "model.safetensors")
    assert loaded.predict(rows).tolist() == fitted.predict(rows).tolist()
    loaded.save(tmp_path / "again.safetensors")
    assert kind.load(tmp_path / "again.safetensors").predict(rows).tolist() == fitted.predict(rows).tolist()
    rows["c"] = ["other", "u", "v"]
    for estimator in (fitted, loaded):
        with pytest.raises(ValueError, match="column c: expected one of the .* categories of fit, got 'other'"):
            estimator.predict(rows)
    rows.assign(c="u").to_csv(tmp_path / "rows.csv", index=False)
    assert len(fr.predict(tmp_path / "model.safetensors", tmp_path / "rows.csv", progress=False)) == 3


@pytest.mark.parametrize("model", ["gbdt", "linear"])
def test_an_estimator_from_a_file_ignores_unknown_categories_as_the_saved_one_did(tmp_path, model):
    frame = pd.DataFrame({"c": ["u", "v"] * 100, "x": X[:, 0]})
    fitted = FreightClassifier(model, handle_unknown="ignore", random_state=0, **({"rounds": 5} if model == "gbdt" else {})).fit(frame, TWO)
    rows = pd.DataFrame({"c": ["other", "u"], "x": [0.0, 1.0]})
    fitted.save(tmp_path / "model.safetensors")
    loaded = FreightClassifier.load(tmp_path / "model.safetensors")
    loaded.save(tmp_path / "again.safetensors")
    for other in (loaded, FreightClassifier.load(tmp_path / "again.safetensors")):
        assert other.handle_unknown == "ignore"
        assert other.predict_proba(rows).tolist() == fitted.predict_proba(rows).tolist()
    with pytest.raises(ValueError, match="column c: expected one of the .* categories of fit, got 'other'"):
        loaded.set_params(handle_unknown="error").predict(rows)
