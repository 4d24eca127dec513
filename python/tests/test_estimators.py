"""FreightClassifier and FreightRegressor: scikit-learn's own checks, frames of several libraries beside their CSV files,
weights, validation rows, processes and errors."""
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import warnings

os.environ["SCIPY_ARRAY_API"] = "1"  # read when scipy is imported: a check of scikit-learn needs it

import pytest

import freight

numpy = pytest.importorskip("numpy")
pytest.importorskip("sklearn", minversion="1.9")
pandas = pytest.importorskip("pandas")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_blobs, make_regression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from freight import FreightClassifier, FreightRegressor, callbacks, nn  # noqa: E402

MODELS = ["gbdt", "forest", "linear", "mlp", "auto"]


@pytest.mark.parametrize("kind", [FreightClassifier, FreightRegressor])
@pytest.mark.parametrize("model", MODELS)
def test_scikit_learns_checks_pass(kind, model):
    if model == "auto" and os.environ.get("FREIGHT_LONG") != "1":
        pytest.skip("takes minutes: FREIGHT_LONG=1")
    # auto: a budget that never ends a fit, so that two fits are equal, and few folds.
    settings = {"epochs": 20} if model == "mlp" else {"time_budget": "600s", "folds": 2} if model == "auto" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(model, **settings), on_fail=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] != "passed"]
    assert not failed, "\n".join(failed)


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.a, self.b = nn.Linear(n_features, 32), nn.Linear(32, n_outputs)

    def forward(self, x):
        return self.b(freight.relu(self.a(x)))


NET = {"epochs": 100, "lr": 0.05, "batch_size": 16, "clip_grad_norm": 1.0, "random_state": 0}


@pytest.mark.parametrize("kind", [FreightClassifier, FreightRegressor])
def test_scikit_learns_checks_pass_for_a_network(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(Net, **NET), on_fail=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] != "passed"]
    assert not failed, "\n".join(failed)


def test_networks_are_copied_and_give_probabilities_of_their_loss():
    x, y = make_blobs(300, centers=2, random_state=1)
    labels = numpy.array(["no", "yes"])[y]
    for outputs in (1, 2):  # sigmoid and softmax
        network = Net(2, outputs)
        before = network.state_dict()["a.weight"].numpy()
        fitted = FreightClassifier(network, epochs=20, lr=0.05).fit(x, labels)
        assert numpy.array_equal(network.state_dict()["a.weight"].numpy(), before)
        chances = fitted.predict_proba(x)
        assert chances.shape == (300, 2) and numpy.allclose(chances.sum(1), 1, atol=1e-5)
        assert fitted.score(x, labels) > 0.95 and list(fitted.classes_) == ["no", "yes"]
        logits = fitted.module_.predict(x.astype("float32")).numpy()
        expected = 1 / (1 + numpy.exp(-(logits[:, 0] if outputs == 1 else logits[:, 1] - logits[:, 0])))
        assert numpy.allclose(chances[:, 1], expected, atol=1e-5)
    assert not hasattr(fitted, "feature_importances_")


def test_networks_fit_frames_images_and_weights_and_stop_early(tmp_path):
    x, y = make_regression(200, 4, random_state=0)
    y = (y - y.mean()) / y.std()
    frame_of = pandas.DataFrame(x, columns=list("abcd"))
    fitted = FreightRegressor(Net, epochs=200, lr=0.05, early_stop=3, random_state=0)
    fitted.fit(frame_of[:150], y[:150], sample_weight=numpy.linspace(1, 2, 150), eval_set=(frame_of[150:], y[150:]))
    assert fitted.n_iter_ < 200 and "val_loss" in fitted.history_.history and fitted.score(frame_of, y) > 0.8
    assert list(fitted.feature_names_in_) == list("abcd")
    images = numpy.random.default_rng(0).random((80, 1, 4, 4))
    dark = images.mean((1, 2, 3)) < 0.5
    small = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    fitted = FreightClassifier(small, epochs=60, lr=0.5, batch_size=16).fit(images, dark)
    assert fitted.score(images, dark) > 0.9
    fitted.save(tmp_path / "net.safetensors")
    assert numpy.array_equal(freight.load(tmp_path / "net.safetensors").predict(images.astype("float32")).numpy().argmax(1),
                             fitted.predict(images).astype(int))


def test_networks_are_selected_and_move_between_processes(tmp_path):
    joblib = pytest.importorskip("joblib")
    x, y = make_blobs(120, centers=3, random_state=2)
    estimator = FreightClassifier(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), epochs=10, lr=0.1)
    assert type(clone(estimator).model) is nn.Sequential and clone(estimator).model is not estimator.model
    assert cross_val_score(estimator, x, y, cv=3).min() > 0.5
    search = GridSearchCV(estimator, {"lr": [0.01, 0.1]}, cv=2, n_jobs=2).fit(x, y)
    alone = clone(estimator).set_params(**search.best_params_).fit(x, y)
    assert numpy.array_equal(search.predict_proba(x), alone.predict_proba(x))
    joblib.dump((alone, x), tmp_path / "model.joblib")
    program = "import sys, joblib\nfitted, x = joblib.load(sys.argv[1])\nsys.stdout.buffer.write(fitted.predict_proba(x).tobytes())"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "model.joblib"], capture_output=True, check=True)
    assert done.stdout == alone.predict_proba(x).tobytes()


def test_networks_take_further_settings_of_fit():
    x, y = make_blobs(120, centers=3, random_state=2)
    epochs = []

    class Counts(callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            epochs.append(logs["lr"])

    make = {"epochs": 3, "lr": 0.01, "random_state": 0}
    network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    adam = FreightClassifier(network, **make, fit_settings={"optimizer": "adam", "callbacks": Counts()}).fit(x, y)
    assert len(epochs) == 3
    assert not numpy.array_equal(adam.predict_proba(x), FreightClassifier(network, **make).fit(x, y).predict_proba(x))
    focal = FreightClassifier(network, **make, fit_settings={"loss": "focal"}).fit(x, y)
    assert focal.history_.history["loss"][0] < FreightClassifier(network, **make).fit(x, y).history_.history["loss"][0]
    with pytest.raises(ValueError, match="fit_settings: expected None for a model of tables"):
        FreightClassifier("gbdt", fit_settings={"optimizer": "adam"}).fit(x, y)
    with pytest.raises(TypeError, match=r'no setting \'optimizer\': use fit_settings=\{"optimizer": ...\}'):
        FreightClassifier(network, optimizer="adam")


@pytest.mark.parametrize("model, change, error, text", [
    (lambda: Net(3, 2), lambda x, y: (x, y), ValueError, "expected an output for each of 3 classes, got"),
    (lambda: Net, lambda x, y: (x[:-1], y), ValueError, "inconsistent numbers of samples"),
    (lambda: Net, lambda x, y: (numpy.where(x > 0, numpy.nan, x), y), ValueError, "X contains NaN"),
    (lambda: Net, lambda x, y: (pandas.DataFrame({"a": ["cat"] * len(y)}), y), ValueError, "cat"),
    (lambda: dict, lambda x, y: (x, y), TypeError, "model: expected a freight.nn.Module from dict, got dict"),
])
def test_wrong_networks_and_data_are_named(model, change, error, text):
    x, y = make_blobs(60, centers=3, n_features=3, random_state=0)
    with pytest.raises(error, match=text):
        FreightClassifier(model(), epochs=1).fit(*change(x, y))


def frame(rows=600, seed=0):
    random = numpy.random.default_rng(seed)
    area = random.uniform(20, 200, rows).round(3)
    city = random.choice(["Oslo", "Malmö", "Turku", "Aarhus"], rows)
    sold = numpy.datetime64("2019-01-01") + random.integers(0, 1500, rows).astype("timedelta64[D]")
    area[random.random(rows) < 0.1] = numpy.nan
    x = pandas.DataFrame({
        "area": area, "rooms": random.integers(1, 7, rows), "city": city, "balcony": random.random(rows) < 0.4,
        "sold": sold.astype("datetime64[s]"), "heating": pandas.Categorical(random.choice(["gas", "wood", "none at all"], rows)),
    })
    x.loc[random.random(rows) < 0.05, "city"] = None
    price = numpy.nan_to_num(area, nan=90.0) * 3 + x["rooms"] * 11 + (city == "Oslo") * 90 + random.normal(0, 5, rows)
    return x, price.to_numpy().round(2)


def content(model):
    """Tensors and metadata of a saved model, without what it says about the data's name and the time."""
    size = struct.unpack("<Q", model[:8])[0]
    header = json.loads(model[8:8 + size])
    told = header.pop("__metadata__")
    return header, {k: v for k, v in told.items() if k not in ("provenance", "xxh3_128")}, model[8 + size:]


def frames(x):
    yield "pandas", x
    if polars := _module("polars"):
        yield "polars", polars.from_pandas(x) if _module("pyarrow") else polars.DataFrame({c: x[c].astype(object).where(x[c].notna(), None).tolist() for c in x})
    if arrow := _module("pyarrow"):
        yield "pyarrow", arrow.Table.from_pandas(x, preserve_index=False)
        yield "chunks", arrow.concat_tables([arrow.Table.from_pandas(x[:123], preserve_index=False),
                                             arrow.Table.from_pandas(x[123:].reset_index(drop=True), preserve_index=False)])
        yield "slice", arrow.concat_tables([arrow.Table.from_pandas(x[:5], preserve_index=False),
                                            arrow.Table.from_pandas(x, preserve_index=False)]).combine_chunks().slice(5)
        if duckdb := _module("duckdb"):
            yield "duckdb", duckdb.from_arrow(arrow.Table.from_pandas(x, preserve_index=False))


def _module(name):
    try:
        return __import__(name)
    except ImportError:
        return None


@pytest.mark.parametrize("model", ["gbdt", "linear", "mlp"])
def test_a_frame_gives_the_model_of_its_csv_file(tmp_path, model):
    x, price = frame()
    when = numpy.datetime64("1969-12-01T00:00:00", "us") + numpy.random.default_rng(1).integers(0, 10**13, len(x)).astype("timedelta64[us]")
    when[::50] = "NaT"
    x = x.assign(when=when, key=2**60 + numpy.arange(len(x)) % 3, small=(numpy.arange(len(x)) % 100).astype("int8"))
    x.assign(price=price).to_csv(tmp_path / "houses.csv", index=False)
    settings = {"mlp": {"epochs": 3}}.get(model, {})
    split = {} if model == "gbdt" else {"val_split": 0.0}
    trained = freight.train(tmp_path / "houses.csv", target="price", model=model, task="values", output_dir=tmp_path / "run",
                            quiet=True, **settings, **split)
    expected = content(pathlib.Path(trained["model"]).read_bytes())
    found = {}
    for name, x_of in frames(x):
        found[name] = FreightRegressor(model, **settings).fit(x_of, pandas.Series(price, name="price"))
        assert content(found[name].model_bytes_) == expected, name
        told = freight.predict(trained["model"], tmp_path / "houses.csv", csv=True, columns="price")
        command = numpy.array(told.split()[1:], "float32")
        assert numpy.array_equal(found[name].predict(x_of), command), name


def test_arrays_and_frames_of_them_give_the_same_model():
    x, y = make_regression(200, 5, random_state=0)
    as_frame = pandas.DataFrame(x, columns=[f"x{k}" for k in range(5)])
    a, b = FreightRegressor("gbdt").fit(x, y), FreightRegressor("gbdt").fit(as_frame, y)
    assert content(a.model_bytes_) == content(b.model_bytes_)
    c = FreightRegressor("gbdt").fit(numpy.asfortranarray(x[::-1])[::-1], y)
    assert content(a.model_bytes_) == content(c.model_bytes_)


def test_saved_models_are_the_commands(tmp_path):
    x, price = frame(300)
    fitted = FreightRegressor("linear").fit(x, price)
    fitted.save(tmp_path / "model.safetensors")
    x.to_csv(tmp_path / "new.csv", index=False)
    told = freight.predict(tmp_path / "model.safetensors", tmp_path / "new.csv", csv=True, columns="target")
    assert numpy.array_equal(numpy.array(told.split()[1:], "float32"), fitted.predict(x))
    assert freight.verify(tmp_path / "model.safetensors")["passed"]


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1, 7], [0.0, 2.0], [False, True], ["1", "02", "NA"], [" a", "a"]])
def test_labels_come_back_as_they_are(labels):
    x, y = make_blobs(300, centers=len(labels), random_state=1)
    named = numpy.array(labels)[y]
    fitted = FreightClassifier("linear").fit(x, named)
    assert list(fitted.classes_) == sorted(labels) and fitted.classes_.dtype == named.dtype
    assert fitted.predict(x).dtype == named.dtype and fitted.score(x, named) > 0.9
    assert numpy.allclose(fitted.predict_proba(x).sum(1), 1, atol=1e-5)


def test_the_second_class_is_predicted_above_the_threshold_alone():
    x, y = make_blobs(200, centers=2, cluster_std=6, random_state=1)
    probabilities = FreightClassifier("linear").fit(x, y).predict_proba(x)[:, 1].astype("float64")
    threshold = float(numpy.sort(probabilities)[120])
    fitted = FreightClassifier("linear", threshold=threshold).fit(x, y)
    assert numpy.array_equal(fitted.predict_proba(x)[:, 1], probabilities) and (probabilities == threshold).any()
    assert numpy.array_equal(fitted.predict(x), (probabilities > threshold).astype(int))  # as freight predict does


@pytest.mark.parametrize("model", ["gbdt", "linear"])
def test_weights_are_the_commands_weight_column(tmp_path, model):
    x, price = frame(300)
    weights = numpy.random.default_rng(3).uniform(0.5, 4, 300).round(2)
    x.assign(price=price, w=weights).to_csv(tmp_path / "t.csv", index=False)
    split = {} if model == "gbdt" else {"val_split": 0.0}
    trained = freight.train(tmp_path / "t.csv", target="price", model=model, weight_column="w", task="values",
                            output_dir=tmp_path / "run", quiet=True, **split)
    fitted = FreightRegressor(model).fit(x, price, sample_weight=weights)
    assert content(fitted.model_bytes_)[2] == content(pathlib.Path(trained["model"]).read_bytes())[2]


def test_validation_rows_end_the_boosting():
    x, price = frame(600)
    fitted = FreightRegressor("gbdt", early_stop=5).fit(x[:400], price[:400], eval_set=(x[400:], price[400:]))
    alone = FreightRegressor("gbdt", val_split=0.0, rounds=300).fit(x[:400], price[:400])
    assert fitted.n_iter_ < 300 == alone.n_iter_
    # It counts the rounds that predict, as XGBoost's best_iteration + 1 does, and not those that were fitted to find them.
    as_many = FreightRegressor("gbdt", val_split=0.0, rounds=fitted.n_iter_).fit(x[:400], price[:400])
    assert numpy.array_equal(as_many.predict(x), fitted.predict(x))
    with pytest.raises(ValueError, match="eval_set: ends the boosting of model='gbdt', got model='forest'"):
        FreightRegressor("forest").fit(x, price, eval_set=(x, price))
    with pytest.raises(ValueError, match="rooms"):
        FreightRegressor("gbdt").fit(x[["area", "rooms"]], price, eval_set=(x[["area"]], price))


def test_importances_name_the_columns_that_matter():
    x, price = frame(600)
    fitted = FreightRegressor("gbdt").fit(x, price)
    assert list(fitted.feature_names_in_) == list(x.columns) and fitted.n_features_in_ == 6
    assert fitted.feature_importances_.argmax() == 0 and abs(fitted.feature_importances_.sum() - 1) < 1e-6
    assert not hasattr(FreightRegressor("linear").fit(x, price), "feature_importances_")


def test_model_selection_pipelines_and_output_frames():
    x, y = make_blobs(200, centers=3, random_state=2, cluster_std=3)
    estimator = FreightClassifier("gbdt", rounds=20)
    assert clone(estimator).get_params() == estimator.get_params() and estimator.get_params()["rounds"] == 20
    assert cross_val_score(estimator, x, y, cv=3).min() > 0.5
    search = GridSearchCV(estimator, {"max_depth": [2, 4], "lr": [0.1, 0.3]}, cv=2, n_jobs=2).fit(x, y)
    assert search.best_params_["max_depth"] in (2, 4) and search.predict(x).shape == (200,)
    pipeline = make_pipeline(StandardScaler(), FreightClassifier("linear")).set_output(transform="pandas").fit(x, y)
    assert list(pipeline[-1].feature_names_in_) == ["x0", "x1"] and pipeline.score(x, y) > 0.5


def test_predictions_are_the_same_in_another_process(tmp_path):
    joblib = pytest.importorskip("joblib")
    x, price = frame(300)
    fitted = FreightRegressor("gbdt").fit(x, price)
    joblib.dump((fitted, x), tmp_path / "model.joblib")
    program = """
import sys, joblib
fitted, x = joblib.load(sys.argv[1])
sys.stdout.buffer.write(fitted.predict(x).tobytes())
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "model.joblib"], capture_output=True, check=True)
    assert done.stdout == fitted.predict(x).tobytes() == pickle.loads(pickle.dumps(fitted)).predict(x).tobytes()


@pytest.mark.parametrize("model", ["gbdt", "linear", "mlp"])
def test_a_forked_child_fits_and_predicts(model):
    x, y = make_regression(200, 5, random_state=0)
    estimator = FreightRegressor(model, **({"epochs": 3} if model == "mlp" else {}))
    expected = estimator.fit(x, y).predict(x)
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(100)
        same = numpy.array_equal(estimator.predict(x), expected) and numpy.allclose(clone(estimator).fit(x, y).predict(x), expected, rtol=1e-3)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


MEMORY = """
import sys
import numpy, pandas
from freight import FreightRegressor

def peak():
    return [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM")][0]

def frame(rows):
    random = numpy.random.default_rng(0)
    x = {f"n{k}": numpy.where(random.random(rows) < 0.05, numpy.nan, random.normal(size=rows)) for k in range(4)}
    x |= {f"i{k}": random.integers(0, 1000, rows) for k in range(2)}
    x |= {f"c{k}": pandas.Categorical.from_codes(random.integers(-1, 20, rows).astype("int8"), [f"c{c}" for c in range(20)]) for k in range(2)}
    x |= {f"t{k}": numpy.datetime64("2015-01-01") + random.integers(0, 10**8, rows).astype("timedelta64[s]") for k in range(2)}
    return pandas.DataFrame(x), random.normal(size=rows)

model, settings = sys.argv[1], eval(sys.argv[2])
fitted = FreightRegressor(model, **settings).fit(*frame(5000))
fitted.predict(frame(5000)[0])
x, y = frame(500000)
size, before = x.memory_usage(index=False).sum(), peak()
fitted = FreightRegressor(model, **settings).fit(x, y)
fit, before = peak() - before, peak()
fitted.predict(x)
print(fit / size, (peak() - before) / size)
"""


# Of trees nearly all is XGBoost's: 4 bytes per bin number where values are missing, and what its rounds need per row.
@pytest.mark.parametrize(("model", "settings", "most"), [("linear", {}, 1.0), ("gbdt", {"rounds": 3}, 3.0)])
def test_a_frame_is_fitted_where_it_is(model, settings, most):
    done = subprocess.run([sys.executable, "-c", MEMORY, model, repr(settings)], capture_output=True, text=True, check=True)
    fit, predict = map(float, done.stdout.split())
    assert fit < most and predict < 0.5


ROUNDS = MEMORY.split("def frame")[0] + """
from freight import FreightClassifier

x = numpy.random.default_rng(0).normal(size=(100000, 10))
y = x[:, 0] + x[:, 1] > 1
FreightClassifier("gbdt", rounds=20).fit(x, y)
before = peak()
FreightClassifier("gbdt", rounds=300).fit(x, y)
print((peak() - before) / 2**20)
"""


def test_memory_does_not_grow_with_the_rounds():
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert float(done.stdout.splitlines()[-1]) < 15  # an untrimmed heap grew by 0.27 MiB per round of 200,000 rows


def test_unknown_categories_are_an_error_unless_they_are_ignored():
    x, price = frame(300)
    fitted = FreightRegressor("linear").fit(x, price)
    new = x[:5].assign(city=["Oslo", "Oslo", "Bergen", "Oslo", None])
    with pytest.raises(ValueError, match="row 2.*column city.*expected one of the 4 categories of fit, got 'Bergen'"):
        fitted.predict(new)
    assert numpy.isfinite(fitted.set_params(handle_unknown="ignore").predict(new)).all()


@pytest.mark.parametrize("change, error, text", [
    (lambda x, y: (x, y[:-1]), ValueError, "inconsistent numbers of samples"),
    (lambda x, y: (x, numpy.where(y > 1e9, y, numpy.nan)), ValueError, "y contains NaN"),
    (lambda x, y: (x.assign(area=numpy.inf), y), ValueError, "area.*inf"),
    (lambda x, y: (x[:0], y[:0]), ValueError, "0 sample"),
    (lambda x, y: (x.assign(rooms=1)[["rooms"]], y), ValueError, "no features"),
    (lambda x, y: (x.assign(rooms=[{}] * len(x))[["rooms"]], y), ValueError, "no features|rooms"),
])
def test_wrong_data_is_named(change, error, text):
    with pytest.raises(error, match=text):
        FreightRegressor("linear").fit(*change(*frame(100)))


@pytest.mark.parametrize("settings, error, text", [
    ({"model": "gdbt"}, ValueError, "gdbt"),
    ({"model": "linear", "rounds": 7}, ValueError, "^rounds is a flag of tree models"),
    ({"model": "gbdt", "rounds": "many"}, TypeError, "rounds: expected a whole number, got 'many'"),
    ({"model": "gbdt", "subsample": 7.0}, ValueError, "subsample"),
    ({"model": "linear", "handle_unknown": "skip"}, ValueError, "handle_unknown: expected error or ignore"),
])
def test_wrong_settings_are_named(settings, error, text):
    x, price = frame(100)
    with pytest.raises(error, match=text):
        FreightRegressor(**settings).fit(x, price).predict(x)
    with pytest.raises(TypeError, match="n_round"):
        FreightRegressor(n_round=3)


def test_big_integers_decimals_and_zones(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import datetime
    import decimal

    rows = 60
    table = arrow.table({
        "key": arrow.array([2**60 + k % 3 for k in range(rows)]),
        "fee": arrow.array([decimal.Decimal(k * 7 % 50).scaleb(-2) for k in range(rows)], arrow.decimal128(9, 2)),
        "when": arrow.array([datetime.datetime(1969, 12, 31, 23, 59, k) for k in range(rows)], arrow.timestamp("us")),
        "day": arrow.array([datetime.date(1960, 1, 1) + datetime.timedelta(days=31 * k) for k in range(rows)]),
        "none": arrow.nulls(rows),
    })
    y = numpy.arange(rows) * 1.5
    fitted = FreightRegressor("linear").fit(table, y)
    table.append_column("target", arrow.array(y)).to_pandas().to_csv(tmp_path / "t.csv", index=False)
    trained = freight.train(tmp_path / "t.csv", target="target", model="linear", val_split=0.0, task="values",
                            output_dir=tmp_path / "run", quiet=True)
    assert content(fitted.model_bytes_) == content(pathlib.Path(trained["model"]).read_bytes())
    with pytest.raises(TypeError, match="column x: expected numbers, .* got Arrow's type"):
        FreightRegressor("linear").fit(arrow.table({"x": [[1], [2, 3]]}), [1.0, 2.0])


@pytest.mark.parametrize("values, dtype, plain", [
    ([1, None, 3], "Int64", [1, numpy.nan, 3]), ([1e20, 2e20, None], "Float64", [1e20, 2e20, numpy.nan])])
def test_nullable_columns_of_pandas_are_numbers(values, dtype, plain):
    pandas = pytest.importorskip("pandas")
    y = numpy.arange(60.0)
    ours, floats = pandas.DataFrame({"a": pandas.array(values * 20, dtype=dtype)}), pandas.DataFrame({"a": plain * 20})
    fitted = FreightRegressor("linear").fit(ours, y)
    assert content(fitted.model_bytes_) == content(FreightRegressor("linear").fit(floats, y).model_bytes_)
    missing = ours[ours["a"].isna()]  # a column without a value
    assert (fitted.predict(missing) == fitted.predict(floats[floats["a"].isna()])).all()


def test_without_scikit_learn_the_estimators_say_what_is_missing():
    program = "import sys; sys.modules['sklearn'] = None; import freight; freight.ones(1)\ntry: freight.FreightClassifier\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install scikit-learn" in done.stdout
    code = "import sys, freight; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_category_that_the_type_of_pandas_declares_is_known_to_predict():
    rng = numpy.random.default_rng(0)
    city = pandas.Categorical(rng.choice(["Oslo", "Turku"], 90), categories=["Oslo", "Turku", "Riga"])
    frame, y = pandas.DataFrame({"city": city, "rooms": rng.integers(1, 5, 90).astype(float)}), rng.normal(size=90)
    rare = pandas.DataFrame({"city": pandas.Categorical(["Riga"], categories=city.categories), "rooms": [2.0]})
    for name in ("gbdt", "linear"):
        model = FreightRegressor(name).fit(frame, y)
        expected = FreightRegressor(name, handle_unknown="ignore").fit(frame, y).predict(rare)
        assert model.predict(rare) == expected == pickle.loads(pickle.dumps(model)).predict(rare)
        with pytest.raises(ValueError, match="expected one of the 2 categories of fit, got 'Paris'"):
            model.predict(rare.assign(city=["Paris"]))


def test_an_estimator_stores_the_names_of_its_classes(tmp_path):
    x, y = numpy.random.default_rng(0).normal(size=(60, 4)), numpy.array(["a", "b", "c"])[numpy.arange(60) % 3]
    FreightClassifier(freight.nn.Sequential(freight.nn.Linear(4, 3)), epochs=1).fit(x, y).save(tmp_path / "net.safetensors")
    assert freight.load(tmp_path / "net.safetensors").classes == ["a", "b", "c"]


def test_linear_models_have_the_coefficients_of_scikit_learn():
    from sklearn.linear_model import LinearRegression, LogisticRegression

    random = numpy.random.default_rng(0)
    x = random.normal(size=(300, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, -3]
    x[:, 3] = 2.0  # a constant column has no part
    y = x[:, 0] - 0.3 * x[:, 1] + 7 + random.normal(size=300) * 0.1
    ours, theirs = FreightRegressor("linear", reg_lambda=0.0).fit(x, y), LinearRegression().fit(x, y)
    assert ours.coef_.shape == theirs.coef_.shape == (4,) and numpy.ndim(ours.intercept_) == numpy.ndim(theirs.intercept_) == 0
    numpy.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-9)
    numpy.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    numpy.testing.assert_allclose(x @ ours.coef_ + ours.intercept_, ours.predict(x), rtol=1e-5, atol=1e-5)
    frame = pandas.DataFrame(x, columns=list("dcba"))
    numpy.testing.assert_allclose(FreightRegressor("linear", reg_lambda=0.0).fit(frame, y).coef_, ours.coef_, rtol=1e-9)
    x[::7, 1] = numpy.nan
    missing = FreightRegressor("linear").fit(x, y)
    whole = ~numpy.isnan(x[:, 1])
    numpy.testing.assert_allclose(x[whole] @ missing.coef_ + missing.intercept_, missing.predict(x[whole]), rtol=1e-5, atol=1e-5)
    x[::7, 1] = 5
    for labels in (numpy.where(y > 5, "yes", "no"), numpy.digitize(y, [4, 7]), numpy.where(y > 5, 0, 7)):
        ours, theirs = FreightClassifier("linear", reg_lambda=1.0).fit(x, labels), LogisticRegression().fit(x, labels)
        assert ours.coef_.shape == theirs.coef_.shape and ours.intercept_.shape == theirs.intercept_.shape
        sums = x @ ours.coef_.T + ours.intercept_
        chances = 1 / (1 + numpy.exp(-sums)) if sums.shape[1] == 1 else numpy.exp(sums) / numpy.exp(sums).sum(axis=1, keepdims=True)
        numpy.testing.assert_allclose(chances[:, -1], ours.predict_proba(x)[:, -1], rtol=1e-4, atol=1e-5)
        assert numpy.sign(ours.coef_[0, 0]) == numpy.sign(theirs.coef_[0, 0])
    frame["city"] = ["Oslo", "Turku", "Kiel"] * 100
    words = FreightRegressor("linear").fit(frame, y)
    for model, text in ((words, "column 'city' has categories"), (FreightRegressor("gbdt").fit(x, y), "model='gbdt' has no coef_ and intercept_: expected linear")):
        assert not hasattr(model, "coef_")
        with pytest.raises(AttributeError, match=text):
            model.intercept_


def test_saved_estimators_are_for_the_commands_that_the_documents_name(tmp_path):
    frame = pandas.DataFrame({"rooms": [3, 5, 4, 6] * 25, "price": [30.0, 52.0, 39.0, 61.0] * 25})
    frame.to_csv(tmp_path / "houses.csv", index=False)
    FreightRegressor("gbdt").fit(frame[["rooms"]], frame["price"]).save(tmp_path / "model.safetensors")
    model, data = str(tmp_path / "model.safetensors"), str(tmp_path / "houses.csv")
    assert len(freight.predict(model, data)) == 100 and freight.eval(model, data=data, target="price")["rmse"] < 10
    assert freight.export(model, output=str(tmp_path / "model.onnx"))["nodes"] > 0
    with pytest.raises(freight.CommandError, match="is a file, expected the directory of a run"):
        freight.report(model)


def test_networks_take_several_values_per_row():
    random = numpy.random.default_rng(0)
    x = random.normal(size=(200, 3))
    y = x @ random.normal(size=(3, 2)) + [1, -2]
    settings = {**NET, "epochs": 40}
    fitted = FreightRegressor(Net, **settings).fit(x, y, sample_weight=numpy.linspace(1, 2, 200), eval_set=(x[:50], y[:50]))
    assert fitted.n_outputs_ == 2 and fitted.predict(x).shape == (200, 2) and fitted.score(x, y) > 0.9
    assert cross_val_score(FreightRegressor(Net, **settings), pandas.DataFrame(x), pandas.DataFrame(y), cv=2).min() > 0.8
    one = FreightRegressor(Net, **settings).fit(x, y[:, 0])
    assert one.n_outputs_ == 1 and one.predict(x).shape == (200,)
    with pytest.raises(ValueError, match="expected an output for each of 2 values per sample, got \\(1,\\)"):
        FreightRegressor(Net(3, 1), **settings).fit(x, y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        FreightRegressor("gbdt").fit(x, y)


def test_logarithms_of_probabilities():
    x, y = make_blobs(60, centers=3, random_state=1)
    fitted = FreightClassifier("linear").fit(x, y)
    assert numpy.allclose(numpy.exp(fitted.predict_log_proba(x)), fitted.predict_proba(x), atol=1e-6)


def test_a_category_of_held_out_rows_alone_is_known_to_predict():
    x, y = pandas.DataFrame({"a": numpy.arange(60) % 7 + 0.5, "c": ["x", "y"] * 30}), numpy.arange(60) % 2
    x.loc[::5, "c"] = [f"rare{k}" for k in range(12)]  # a fifth of the rows is held out, and some of these with it
    model = FreightRegressor("gbdt", rounds=3).fit(x, y)
    expected = FreightRegressor("gbdt", rounds=3, handle_unknown="ignore").fit(x, y).predict(x)
    assert 0 < len(model._declared["c"]) < 12
    assert (model.predict(x) == expected).all() and (pickle.loads(pickle.dumps(model)).predict(x) == expected).all()
    with pytest.raises(ValueError, match="categories of fit, got 'other'"):
        model.predict(x.assign(c="other"))


def frames_of_categories(values):
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame({"zip": pandas.Categorical(values), "u": numpy.arange(len(values)) % 3.0})
    if polars := _module("polars"):
        texts = polars.Series("zip", [str(v) for v in values])
        for dtype in (polars.Categorical, polars.Enum(sorted(set(texts.to_list())))):
            yield polars.DataFrame([texts.cast(dtype), polars.Series("u", [float(k % 3) for k in range(len(values))])])


@pytest.mark.parametrize("values", [[10115, 20095, 50667, 80331, 99084], ["10115", "20095", "50667", "80331", "99084"], [0.5, 1.5, 2.5, 3.5, 4.5]], ids=str)
def test_categories_that_look_like_numbers_are_categories(tmp_path, values):
    codes = numpy.random.default_rng(0).integers(0, 5, 400)
    y = numpy.array([5.0, -3.0, 9.0, 0.0, 4.0])[codes]
    for frame in frames_of_categories(numpy.array(values)[codes]):
        fitted = FreightRegressor("linear").fit(frame, y)
        assert numpy.sqrt(numpy.mean((fitted.predict(frame) - y) ** 2)) < 0.1
        stump = FreightRegressor("gbdt", rounds=1, val_split=0.0, max_depth=1, lr=1.0).fit(frame, y)
        assert abs(stump.predict(frame)[codes == 2] - 9).max() < 0.2  # one category apart from all others
        with_types = FreightRegressor("linear", types={"u": "category"}).fit(frame, y)
        assert numpy.sqrt(numpy.mean((with_types.predict(frame) - y) ** 2)) < 0.1
        as_numbers = FreightRegressor("linear", types={"zip": "number"}).fit(frame, y)
        assert numpy.sqrt(numpy.mean((as_numbers.predict(frame) - y) ** 2)) > 2


def _lazy_network(n_outputs):
    return nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.Dropout(0.2), nn.LazyLinear(n_outputs))


@pytest.mark.parametrize("model", ["mlp", "gbdt", "forest", "linear", "auto", Net, _lazy_network, nn.Sequential(nn.LazyLinear(2))],
                         ids=["mlp", "gbdt", "forest", "linear", "auto", "class", "lazy function", "lazy module"])
def test_a_fit_leaves_the_seed_and_the_draws_of_the_program(model):
    x = numpy.random.default_rng(0).normal(size=(60, 4)).astype("f4")
    y = (x[:, 0] > 0).astype(int)
    settings = {"time_budget": "600s", "folds": 2} if model == "auto" else {} if model in ("gbdt", "forest", "linear") else {"epochs": 2}

    def drawn(work):
        freight.random.seed(5)
        freight.random.normal((3,))
        work()
        return [a.numpy() for a in (freight.random.normal((3,)), nn.Linear(2, 2).weight)]

    fitted = []
    for before, after in zip(drawn(lambda: None), drawn(lambda: fitted.append(FreightClassifier(model, random_state=3, **settings).fit(x, y)))):
        numpy.testing.assert_array_equal(after, before)
    freight.random.seed(9)
    numpy.testing.assert_array_equal(FreightClassifier(model, random_state=3, **settings).fit(x, y).predict_proba(x), fitted[0].predict_proba(x))
