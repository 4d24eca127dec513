"""Further figures of fit and evaluate: lists of metrics, losses of single outputs with weights, and weights of validation samples."""
import json

import numpy as np
import pytest
import test_fit as t
import test_fit_targets as targets

import freight as fr
from freight import callbacks, nn

X, Y = t.X, t.Y
VAL = (X[:90], Y[:90])
WEIGHTS = np.random.default_rng(5).uniform(0, 3, 90).astype("f4")


def confidence(outputs, classes):
    """The mean over a batch."""
    assert classes.dtype == fr.int64 and classes.ndim == 1
    return fr.mean(fr.max(fr.softmax(outputs, axis=1), axis=1))


def margin(outputs, classes):
    """A number per sample."""
    assert classes.dtype == fr.int64 and classes.ndim == 1
    return fr.max(outputs, axis=1) - fr.min(outputs, axis=1)


margin.higher_is_better = True


def by_hand(net, x=VAL[0], y=VAL[1], w=None):
    """The figures of the module, as NumPy computes them; those that are means by these weights."""
    o = net.predict(x).numpy().astype("f8")
    p = np.exp(o - o.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    each = {"loss": -np.log(p[np.arange(len(y)), y]), "accuracy": o.argmax(1) == y, "confidence": p.max(1), "margin": o.max(1) - o.min(1)}
    return {name: np.average(v, weights=w) for name, v in each.items()}


def macro_f1(net):
    found = net.predict(VAL[0]).numpy().argmax(1)
    scores = [2 * np.sum((found == c) & (VAL[1] == c)) / max(np.sum(found == c) + np.sum(VAL[1] == c), 1) for c in range(3)]
    return np.mean(scores)


@pytest.mark.parametrize("settings", [{}, {"shards": 4, "devices": 2}, {"grad_accum": 3}, {"sample_weight": np.ones(600)}, {"label_smoothing": 0.1},
                                      {"class_weight": {0: 2.0}}, {"loss": nn.CrossEntropyLoss()}], ids=lambda s: next(iter(s), "plain"))
def test_every_metric_of_the_list_is_a_figure(settings):
    net = t.made()
    names = ["macro_f1", "log_loss"] if "loss" not in settings else []
    history = t.fit(net, metrics=[confidence, *names, margin], validation_data=VAL, epochs=3, **settings)
    found = by_hand(net)
    assert set(history.history) == {"loss", "accuracy", "confidence", "margin", "val_loss", "val_accuracy", "val_confidence", "val_margin", "lr",
                                    *("val_" + n for n in names)} and all(len(v) == 3 for v in history.history.values())
    for name in ("confidence", "margin", "accuracy"):
        assert history.history["val_" + name][-1] == pytest.approx(found[name], rel=1e-5)
    if names:
        assert history.history["val_macro_f1"][-1] == pytest.approx(macro_f1(net)) and history.history["val_log_loss"][-1] == pytest.approx(found["loss"], rel=1e-4)
    again = net.evaluate(*VAL)
    assert set(again) == {"loss", "accuracy", "confidence", "margin", *names} and again["margin"] == pytest.approx(found["margin"], rel=1e-5)
    assert set(net.evaluate(*VAL, metrics=[margin])) == {"loss", "accuracy", "margin"}


def test_figures_of_training_are_means_over_the_samples_of_the_epoch():
    class Still(callbacks.Callback):  # without learning they are those of an evaluation
        def on_train_batch_end(self, batch, logs):
            self.seen = logs["margin"]

    net, still = nn.Linear(10, 3), Still()
    history = t.fit(net, metrics=[margin, confidence], epochs=2, lr=0.0, batch_size=100, callbacks=still).history
    found = by_hand(net, X, Y)
    assert history["margin"] == pytest.approx([found["margin"]] * 2, rel=1e-5) and "val_margin" not in history
    assert history["confidence"] == pytest.approx([found["confidence"]] * 2, rel=1e-5) and still.seen == pytest.approx(history["margin"][-1], rel=1e-5)


def test_metrics_change_nothing_of_the_training():
    plain, with_metrics = t.made(), t.made()
    t.fit(plain, validation_data=VAL, epochs=2)
    t.fit(with_metrics, validation_data=VAL, epochs=2, metrics=["macro_f1", margin])
    assert t.weights(plain) == t.weights(with_metrics)


def test_values_have_mse_and_mae_by_keras_names():
    x, y = X[:200], X[:200, :1] * 2
    net = nn.Linear(10, 1)
    history = net.fit(x, y, metrics=["mae", "mse", "r2"], validation_data=(x, y), epochs=3, batch_size=200, lr=0.01, verbose=0).history
    error = net.predict(x).numpy().astype("f8") - y
    assert history["val_mae"][-1] == pytest.approx(np.abs(error).mean(), rel=1e-5) and history["mse"] == pytest.approx(history["loss"], rel=1e-5)
    assert history["val_mse"][-1] == pytest.approx((error ** 2).mean(), rel=1e-5) == history["val_loss"][-1]
    assert history["val_r2"][-1] == pytest.approx(1 - (error ** 2).sum() / ((y - y.mean()) ** 2).sum(), rel=1e-4)


@pytest.mark.parametrize("kept, stopped", [("val_margin", "val_loss"), ("val_macro_f1", "val_margin"), ("val_loss", "val_macro_f1"), ("val_loss", "val_confidence")])
def test_metrics_of_the_list_are_monitors(tmp_path, kept, stopped):
    settings = {**t_noisy(), "metrics": [margin, "macro_f1", confidence], "epochs": 12}
    plain = t.fit(t.made(), **settings).history
    heard = [callbacks.Checkpoint(tmp_path / "run", monitor=kept, mode="min" if kept == "val_loss" else "max"),
             callbacks.EarlyStopping(stopped, patience=2, mode="min" if stopped == "val_loss" else "max")]
    history = t.fit(t.made(), callbacks=heard, **settings)
    sign = -1 if stopped == "val_loss" else 1
    best, end = stop_of([sign * v for v in plain[stopped]])
    assert (history.best_epoch, history.epoch[-1]) == (best, end)
    assert {name: pytest.approx(values[:end], rel=1e-6) for name, values in plain.items()} == history.history
    values = [(-1 if kept == "val_loss" else 1) * v for v in history.history[kept]]
    until = t.made()
    t.fit(until, **{**settings, "epochs": int(np.argmax(values)) + 1})
    assert t.weights(t.made(seed=4).load_weights(tmp_path / "run/best/model.safetensors")) == t.weights(until)


def t_noisy():
    return {"validation_data": (X[:60], np.where(np.arange(60) % 3 == 0, (Y[:60] + 1) % 3, Y[:60])), "lr": 0.4}


def stop_of(scores, patience=2):
    best, at, stale = -np.inf, 0, 0
    for epoch, score in enumerate(scores, 1):
        at, best, stale = (epoch, score, 0) if score > best else (at, best, stale + 1)
        if stale == patience:
            return at, epoch
    return at, len(scores)


def test_a_resumed_run_has_the_figures_of_the_epochs_before(tmp_path):
    settings = {"metrics": [margin, "macro_f1"], "validation_data": VAL}
    whole = t.fit(t.made(), output_dir=tmp_path / "whole", epochs=4, **settings)
    t.fit(t.made(), output_dir=tmp_path / "part", epochs=2, **settings)
    rest = t.fit(t.made(seed=3), output_dir=tmp_path / "part", resume=True, epochs=4, **settings)
    assert rest.history == whole.history and rest.epoch == whole.epoch
    rows = [json.loads(line) for line in (tmp_path / "part/figures/metrics.jsonl").read_text().splitlines()]
    assert [r["margin"] for r in rows if r["split"] == "val" and "margin" in r] == whole.history["val_margin"]
    assert list((tmp_path / "part/figures").glob("events.out.tfevents.*"))


def test_lines_of_epochs_show_every_figure(capsys):
    t.fit(t.made(), metrics=[margin, "macro_f1"], validation_data=VAL, epochs=1, verbose=2)
    shown = capsys.readouterr().out
    assert all(word in shown for word in (" margin ", " val_margin ", " val_macro_f1 "))


def test_folders_have_functions_as_metrics(tmp_path):
    import os
    import subprocess
    command = os.path.join(os.path.dirname(fr.__file__), "bin", "freight")
    subprocess.run([command, "data", "sample", "photos"], cwd=tmp_path, check=True, capture_output=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 3))
    history = net.fit(tmp_path / "photos", input_shape=(3, 32, 32), val_split=0.2, metrics=[margin, confidence], lr=0.001, epochs=2, verbose=0)
    assert len(history.history["val_margin"]) == len(history.history["confidence"]) == 2
    with pytest.raises(ValueError, match="metrics: macro_f1 compares all predictions"):
        net.fit(tmp_path / "photos", input_shape=(3, 32, 32), val_split=0.2, metrics=["macro_f1"], verbose=0)


BAD = [
    ({"metrics": "mae"}, TypeError, r"fit: metrics: expected a list of names and functions of \(outputs, targets\), got 'mae'"),
    ({"metrics": [3]}, TypeError, "got 3 in it"),
    ({"metrics": [margin, margin]}, ValueError, "expected a name for each, got 'margin' twice"),
    ({"metrics": ["f2"]}, ValueError, "fit: metrics: there is no figure 'f2'; there are"),
    ({"metrics": ["mae"]}, ValueError, r"metrics: mae: expected values of the shape of the outputs, .*got y int64"),
    ({"metrics": ["rmse"]}, ValueError, "rmse is for values"),
    ({"metrics": [lambda o, t: fr.ones(7)]}, ValueError, r"metrics: metric: expected a number per sample, \(\d+,\), or a number of all, got an array of shape \(7,\)"),
    ({"metrics": ["macro_f1"], "validation_data": None}, ValueError, "macro_f1 compares all predictions"),
    ({"loss_weights": [1, 2]}, TypeError, "loss_weights is for several targets"),
]


@pytest.mark.parametrize("settings, kind, text", BAD, ids=range(len(BAD)))
def test_metrics_that_cannot_be_are_named(settings, kind, text):
    settings = {"validation_data": VAL, "epochs": 1, **settings}
    with pytest.raises(kind, match=text):
        t.fit(t.made(), **settings)


@pytest.mark.parametrize("loss", ["auto", nn.CrossEntropyLoss(label_smoothing=0.0)], ids=["name", "module"])
def test_weights_of_validation_samples_weigh_its_figures(loss):
    net = t.made()
    history = t.fit(net, validation_data=(*VAL, WEIGHTS), metrics=[margin], loss=loss, epochs=2)
    found = by_hand(net, w=WEIGHTS)
    for name in ("loss", "accuracy", "margin"):
        assert history.history["val_" + name][-1] == pytest.approx(found[name], rel=1e-5)
    plain = t.made()
    assert t.fit(plain, validation_data=VAL, loss=loss, epochs=2).history["loss"] == pytest.approx(history.history["loss"], rel=1e-5)
    assert np.allclose(plain.predict(X), net.predict(X), rtol=1e-4, atol=1e-5)
    again = net.evaluate(*VAL, sample_weight=WEIGHTS, metrics=[margin])
    assert again == {name: pytest.approx(found[name], rel=1e-5) for name in ("loss", "accuracy", "margin")}
    assert net.evaluate(*VAL, sample_weight=WEIGHTS * 7)["loss"] == pytest.approx(found["loss"], rel=1e-5)
    with pytest.raises(ValueError, match=r"confidence: with weights of samples expected a number per sample, \(90,\), got a number of all"):
        net.evaluate(*VAL, sample_weight=WEIGHTS, metrics=[confidence])


@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_weights_of_values_are_those_of_scikit_learn(loss):
    y, w = X[:, :1] * 2, WEIGHTS
    net = nn.Linear(10, 1)
    history = net.fit(X, y, loss=loss, validation_data=(X[:90], y[:90], w), sample_weight=np.ones(600), metrics=["mae"], epochs=2, verbose=0).history
    error = np.abs(net.predict(X[:90]).numpy().astype("f8") - y[:90])[:, 0]
    each = {"mse": error ** 2, "mae": error, "huber": np.where(error < 1, error ** 2 / 2, error - 0.5)}[loss]
    assert history["val_loss"][-1] == pytest.approx(np.average(each, weights=w), rel=1e-4)
    assert history["val_mae"][-1] == pytest.approx(np.average(error, weights=w), rel=1e-4)
    assert net.evaluate(X[:90], y[:90], sample_weight=w)["loss"] == pytest.approx(np.average(each, weights=w), rel=1e-4)


def test_early_stopping_compares_weighted_losses():
    x, y = t_noisy()["validation_data"]
    plain = t.fit(t.made(), validation_data=(x, y, WEIGHTS[:60]), lr=0.4, epochs=20).history
    early = t.fit(t.made(), validation_data=(x, y, WEIGHTS[:60]), lr=0.4, epochs=20, callbacks=callbacks.EarlyStopping(patience=2))
    assert (early.best_epoch, early.epoch[-1]) == stop_of([-v for v in plain["val_loss"]]) and early.epoch[-1] < 20


@pytest.mark.parametrize("weights, text", [(WEIGHTS[:9], r"validation_data: expected one weight per sample, \(90,\), got shape \(9,\)"),
                                           (-WEIGHTS, "validation_data: expected finite weights"), (0 * WEIGHTS, "a sample whose weight is not 0")])
def test_weights_of_validation_samples_are_checked(weights, text):
    with pytest.raises(ValueError, match=text):
        t.fit(t.made(), validation_data=(*VAL, weights))
    with pytest.raises(ValueError, match=text.replace("validation_data", "evaluate: sample_weight")):
        t.made().evaluate(*VAL, sample_weight=weights)


def test_a_file_of_a_model_with_weights_and_metrics_has_probabilities(tmp_path):
    net = t.made()
    t.fit(net, validation_data=(*VAL, WEIGHTS), sample_weight=np.ones(600), metrics=[margin, "accuracy"], output_dir=tmp_path / "run", epochs=1)
    net.save(tmp_path / "net.safetensors")
    for path in (tmp_path / "net.safetensors", tmp_path / "run/model.safetensors"):
        again = fr.load(path)
        assert again.evaluate(*VAL) == {name: pytest.approx(by_hand(net)[name], rel=1e-5) for name in ("loss", "accuracy")}


def heads(y, losses, **settings):
    return targets.trained(targets.Heads, targets.X, y, loss=losses, validation_data=(targets.X, y), epochs=3, **settings)


def losses_by_hand(net):
    o = net.predict(targets.X)
    kind = o["kind"].numpy().astype("f8")
    chances = np.exp(kind) / np.exp(kind).sum(1, keepdims=True)
    return {"value": ((o["value"].numpy() - targets.VALUES) ** 2).mean(), "kind": -np.log(chances[np.arange(40), targets.KINDS]).mean()}


@pytest.mark.parametrize("weights", [None, {"value": 0.25, "kind": 3.0}, [0.25, 3.0]], ids=["none", "dict", "list"])
def test_each_output_has_its_loss_and_weight(weights):
    y = {"value": targets.VALUES, "kind": targets.KINDS}
    net, history = heads(y, {"value": "mse", "kind": "cross_entropy"}, loss_weights=weights)
    a, b = (1, 1) if weights is None else (0.25, 3.0)
    h, found = history.history, losses_by_hand(net)
    assert set(h) == {"loss", "value_loss", "kind_loss", "val_loss", "val_value_loss", "val_kind_loss", "lr"}
    for part in ("value", "kind"):
        assert h[f"val_{part}_loss"][-1] == pytest.approx(found[part], rel=1e-4)
    assert h["val_loss"] == pytest.approx([a * v + b * k for v, k in zip(h["val_value_loss"], h["val_kind_loss"])], rel=1e-4)
    assert h["loss"] == pytest.approx([a * v + b * k for v, k in zip(h["value_loss"], h["kind_loss"])], rel=1e-4)
    figures = net.evaluate(targets.X, y)
    assert figures == {"loss": pytest.approx(a * found["value"] + b * found["kind"], rel=1e-4), "value_loss": pytest.approx(found["value"], rel=1e-4),
                       "kind_loss": pytest.approx(found["kind"], rel=1e-4)}
    _, same = targets.trained(targets.Heads, targets.X, y, epochs=3, loss=lambda o, t: a * fr.mean((o["value"] - t["value"]) ** 2, axis=1) +
                              b * nn.functional.cross_entropy(o["kind"], t["kind"], reduction="none"))
    assert same.history["loss"] == pytest.approx(h["loss"], rel=1e-5)
    early = heads(y, {"value": "mse", "kind": "cross_entropy"}, callbacks=callbacks.EarlyStopping("val_kind_loss", patience=1))[1]
    assert early.best_epoch == int(np.argmin(early.history["val_kind_loss"])) + 1


def test_weights_of_losses_are_checked():
    y = {"value": targets.VALUES, "kind": targets.KINDS}
    for weights in ({"value": 1}, [1], {"value": 1, "kind": -1}, 3, [1, float("nan")]):
        with pytest.raises(ValueError, match="fit: loss_weights: expected a finite number that is not negative for each loss, value, kind, got"):
            heads(y, {"value": "mse", "kind": "cross_entropy"}, loss_weights=weights)
    with pytest.raises(TypeError, match="loss_weights is for a loss per target"):
        heads(y, lambda o, t: fr.mean(o["value"]), loss_weights=[1, 2])


def rmse(outputs, y):
    return fr.sqrt(fr.mean((outputs - y) ** 2))


def largest(outputs, y):
    """By NumPy, which the trainer cannot trace."""
    return np.abs(np.asarray(outputs) - np.asarray(y)).max()


largest.higher_is_better = False


@pytest.mark.parametrize("settings", [{}, {"shards": 4, "devices": 2}, {"model_ema": 0.9}], ids=["plain", "ranks", "averages"])
def test_a_function_is_called_for_all_samples_of_an_evaluation(settings):
    x, y = X, X[:, :1] * 2
    net = nn.Linear(10, 1)
    history = net.fit(x, y, metrics=[rmse, largest], validation_data=(x, y), epochs=3, verbose=0, **settings).history
    error = net.predict(x).numpy().astype("f8") - y
    assert history["val_rmse"][-1] == pytest.approx(np.sqrt((error ** 2).mean()), rel=1e-5)
    assert history["val_largest"][-1] == pytest.approx(np.abs(error).max(), rel=1e-5) and "largest" not in history and len(history["rmse"]) == 3
    for size in (64, 256, 600):
        figures = net.evaluate(x, y, batch_size=size)
        assert figures["rmse"] == pytest.approx(np.sqrt((error ** 2).mean()), rel=1e-5) and figures["largest"] == pytest.approx(np.abs(error).max(), rel=1e-5)


@pytest.mark.parametrize("metric", [rmse, largest])
def test_early_stopping_and_checkpoint_compare_the_figure_of_all_samples(tmp_path, metric):
    lower = lambda o, t: metric(o, t)  # noqa: E731
    lower.__name__, lower.higher_is_better = "lower", False
    x, y = X, X[:, :1] * 2 + np.random.default_rng(0).normal(size=(600, 1))
    given = {"validation_data": (x[:300], y[:300]), "epochs": 12, "lr": 0.3, "batch_size": 30, "verbose": 0, "metric": lower, "seed": 1}
    fr.random.seed(0)
    plain = (net := nn.Linear(10, 1)).fit(x, y, **given).history["val_lower"]
    assert plain[-1] == pytest.approx(float(metric(net.predict(x[:300]), fr.asarray(y[:300].astype("f4")))), rel=1e-5)
    fr.random.seed(0)
    net = nn.Linear(10, 1)
    heard = [callbacks.Checkpoint(tmp_path / "run", monitor="val_lower"), callbacks.EarlyStopping(patience=3)]
    history = net.fit(x, y, callbacks=heard, **given)
    assert (history.best_epoch, history.epoch[-1]) == stop_of([-v for v in plain], 3)
    assert float(metric(net.predict(x[:300]), fr.asarray(y[:300].astype("f4")))) == pytest.approx(min(plain[:len(history.epoch)]), rel=1e-5)


def test_a_function_that_needs_values_needs_validation_data():
    def absolute(outputs, classes):
        return np.abs(np.asarray(outputs) - 1).mean()

    for settings, kind in (({"metrics": [absolute]}, "metric"), ({"metric": absolute}, "metric"), ({"loss": absolute}, "loss")):
        with pytest.raises(ValueError, match=f"{kind} absolute: it is traced for a batch, when arrays have no values: expected functions of freight"):
            t.fit(t.made(), **settings)


@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_a_precision_that_the_device_lacks_is_named(precision):
    net = t.made()
    for call in (lambda: t.fit(net, precision=precision), lambda: net.evaluate(X, Y, precision=precision)):
        with pytest.warns(UserWarning, match=f"precision: no {precision} on this device.*: computing in f32") as found:
            call()
        assert found[0].filename.endswith(".py") and "freight/_" not in found[0].filename


def test_class_weights_without_validation_data_warn_of_nothing(recwarn):
    nn.Linear(10, 3).fit(X[:64], Y[:64], class_weight={0: 1.0, 1: 5.0}, verbose=0)
    assert not recwarn.list


def _squares(outputs, targets):
    return fr.mean((outputs - targets) ** 2)


@pytest.mark.parametrize("own, name, outputs, names", [
    (_squares, "mse", 1, ["rmse", "r2"]), (nn.CrossEntropyLoss(), "cross_entropy", 2, ["f1", "auc", "mcc"])])
def test_named_metrics_of_a_loss_function_are_those_of_the_loss_by_its_name(own, name, outputs, names):
    x = np.random.default_rng(1).normal(size=(120, 4)).astype("f4")
    values = x.sum(1, keepdims=True)
    y = values if name == "mse" else (values[:, 0] > 0).astype("i8")
    found = []
    for loss in (own, name):
        fr.random.seed(0)
        net = nn.Sequential(nn.Linear(4, outputs))
        history = net.fit(x, y, validation_data=(x, y), epochs=2, loss=loss, metrics=names, verbose=0).history
        figures = net.evaluate(x, y, metrics=names)
        found.append([*(history[f"val_{n}"][-1] for n in names), *(figures[n] for n in names)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0][:len(names)] == pytest.approx(found[0][len(names):], rel=1e-5)


def test_named_metrics_of_a_loss_function_need_outputs_for_the_targets():
    x, y = np.zeros((8, 4), "f4"), np.arange(8, dtype="f4")[:, None]
    of_one = lambda o, t: fr.mean((o[:, :1] - t) ** 2)  # noqa: E731
    for targets, count, name in ((y, 2, "r2"), (y[:, 0].astype("i8") % 2, 1, "f1")):
        with pytest.raises(ValueError, match=rf"metrics: {name}: expected y with a .*got outputs \(N, {count}\) and y .*or a function"):
            nn.Sequential(nn.Linear(4, count)).fit(x, targets, validation_data=(x, targets), loss=of_one, metrics=[name], epochs=1, verbose=0)


def of_named_loss(name, classes=3):
    """(x, y, outputs, the loss as a function) of a loss by its name, with targets that are not met."""
    rng = np.random.default_rng(3)
    if classes == 2:
        return X, np.where(rng.uniform(size=600) < 0.2, Y == 2, Y != 2).astype("i8"), 2, nn.CrossEntropyLoss()
    if name == "mse":
        return X, (X[:, :1] * 2 + rng.normal(size=(600, 1))).astype("f4"), 1, nn.MSELoss()
    return X, np.where(rng.uniform(size=600) < 0.2, 2 - Y, Y), 3, lambda o, t: nn.functional.cross_entropy(o, t)


def scores_by_scikit_learn(y, outputs):
    m = pytest.importorskip("sklearn.metrics")
    if y.ndim == 2:
        return {"r2": m.r2_score(y, outputs), "mae": m.mean_absolute_error(y, outputs), "rmse": m.mean_squared_error(y, outputs) ** 0.5}
    p = np.exp(outputs - outputs.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    if outputs.shape[1] == 2:
        return {"f1": m.f1_score(y, p.argmax(1)), "auc": m.roc_auc_score(y, p[:, 1])}
    return {"macro_f1": m.f1_score(y, p.argmax(1), average="macro"), "log_loss": m.log_loss(y, p),
            "balanced_accuracy": m.balanced_accuracy_score(y, p.argmax(1))}


@pytest.mark.parametrize("given", ["metric", "stop", "keep", "plateau", "both"])
@pytest.mark.parametrize("loss, metric", [("mse", "r2"), ("mse", "mae"), ("cross_entropy", "macro_f1"), ("cross_entropy", "log_loss"), ("cross_entropy", "f1"),
                                          ("cross_entropy", "auc"), ("cross_entropy", "balanced_accuracy")])
def test_a_named_metric_compares_evaluations_where_the_loss_is_a_function(tmp_path, loss, metric, given):
    """The run is that with the loss of this name."""
    def run(loss, directory):
        asked = {"metric": {"metric": metric}, "stop": {"callbacks": callbacks.EarlyStopping("val_" + metric, patience=2)},
                 "keep": {"callbacks": callbacks.Checkpoint(directory, monitor="val_" + metric)},
                 "plateau": {"metric": metric, "lr_scheduler": "plateau", "lr_patience": 1},
                 "both": {"metric": metric, "callbacks": [callbacks.EarlyStopping("val_loss", patience=3), callbacks.EarlyStopping("val_" + metric, patience=2)]}}
        fr.random.seed(4)
        net = nn.Linear(10, outputs)
        settings = {"epochs": 8, "lr": 0.3, "batch_size": 50, "verbose": 0, **asked[given]}
        return net, net.fit(x, y, loss=loss, validation_data=(x[:90], y[:90]), **settings)

    x, y, outputs, function = of_named_loss(loss, 2 if metric in ("f1", "auc") else 3)
    (plain, named), (net, own) = run(loss, tmp_path / "named"), run(function, tmp_path / "own")
    assert {k: pytest.approx(v, rel=1e-4, abs=1e-6) for k, v in named.history.items()} == own.history and f"val_{metric}" in own.history
    assert (own.best_epoch, own.ended) == (named.best_epoch, named.ended)
    np.testing.assert_allclose(net.predict(x), plain.predict(x), rtol=1e-3, atol=1e-5)
    if given == "keep":
        np.testing.assert_allclose(fr.load(tmp_path / "own/best/model.safetensors").predict(x), plain.predict(x), rtol=1e-3, atol=1e-5)
    scores = scores_by_scikit_learn(y[:90], net.predict(x[:90]).numpy().astype("f8"))
    assert net.evaluate(x[:90], y[:90], metric=metric)[metric] == pytest.approx(scores[metric], rel=1e-4)
    if given == "metric":
        assert own.history["val_" + metric][own.best_epoch - 1] == pytest.approx(scores[metric], rel=1e-4)
        assert net.evaluate(x[:90], y[:90])[metric] == pytest.approx(scores[metric], rel=1e-4)


def test_a_resumed_run_remembers_a_named_metric_of_a_loss_function(tmp_path):
    x, y, outputs, loss = of_named_loss("mse")
    settings = {"loss": loss, "metric": "r2", "validation_data": (x[:90], y[:90]), "verbose": 0, "lr": 0.05}

    def run(directory, epochs, **more):
        fr.random.seed(4)
        return nn.Linear(10, outputs).fit(x, y, epochs=epochs, output_dir=directory, **settings, **more)

    whole = run(tmp_path / "whole", 4)
    run(tmp_path / "part", 2)
    rest = run(tmp_path / "part", 4, resume=True)
    assert rest.history == whole.history and rest.best_epoch == whole.best_epoch


@pytest.mark.parametrize("settings, text", [({"metric": "rmse"}, "^metric: rmse is for values"), ({"metric": "f1"}, "^metric: f1 is for two classes"),
                                            ({"metric": "macro_f1", "validation_data": None}, "macro_f1 compares all predictions"),
                                            ({"callbacks": callbacks.EarlyStopping("val_r2")}, "^metric: r2 is for values")], ids=range(4))
def test_a_metric_that_is_not_for_the_targets_of_a_loss_function_is_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        t.fit(t.made(), loss=nn.CrossEntropyLoss(), **{"validation_data": VAL, "epochs": 1, **settings})


def test_losses_of_outputs_have_the_weights_of_their_samples():
    """Without learning they are those of NumPy, and their sum is the loss."""
    w = np.random.default_rng(8).uniform(0, 3, 40)
    y, losses = {"value": targets.VALUES, "kind": targets.KINDS}, {"value": "mse", "kind": "cross_entropy"}
    for settings in ({"batch_size": 40}, {"batch_size": 10}, {"batch_size": 20, "shards": 2, "devices": 2}):
        fr.random.seed(2)
        net = targets.Heads()
        h = net.fit(targets.X, y, loss=losses, loss_weights=[1.0, 0.5], sample_weight=w, validation_data=(targets.X, y, w), lr=0.0, epochs=1, verbose=0,
                    **settings).history
        o = net.predict(targets.X)
        kind = o["kind"].numpy().astype("f8")
        chances = np.exp(kind) / np.exp(kind).sum(1, keepdims=True)
        each = {"value": ((o["value"].numpy() - targets.VALUES.reshape(o["value"].shape)) ** 2).reshape(40, -1).mean(1),
                "kind": -np.log(chances[np.arange(40), targets.KINDS])}
        for name, found in each.items():
            assert h[f"{name}_loss"][0] == pytest.approx(np.average(found, weights=w), rel=1e-4) == h[f"val_{name}_loss"][0]
        assert h["loss"][0] == pytest.approx(h["value_loss"][0] + 0.5 * h["kind_loss"][0], rel=1e-5)


def binary(o, t):
    assert t.dtype == fr.float32
    return nn.functional.binary_cross_entropy_with_logits(o, t)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4"])
@pytest.mark.parametrize("loss", ["bce", "function", "BCEWithLogitsLoss", "BCELoss"])
@pytest.mark.parametrize("columns", [1, 3])
def test_labels_train_by_any_loss_with_the_metrics_of_labels(loss, dtype, columns):
    """As by the loss bce; figures are scikit-learn's."""
    m = pytest.importorskip("sklearn.metrics")
    if loss == "function" and dtype in ("i8", "f4"):  # integers and values, of which nothing says that they are labels
        pytest.skip("no labels")
    y = (X[:, :columns] + np.random.default_rng(1).normal(size=(600, columns)) > 0).astype(dtype)
    names = ["f1", "auc", "accuracy", "log_loss"] if columns == 1 else ["macro_f1", "log_loss"]
    for metric in names:
        fr.random.seed(1)
        net = nn.Sequential(nn.Linear(10, columns), nn.Sigmoid() if loss == "BCELoss" else nn.Identity())
        given = {"bce": "bce", "function": binary}.get(loss) or getattr(nn, loss)()
        history = net.fit(X, y, loss=given, metric=metric, validation_data=(X[:90], y[:90]), epochs=4, lr=0.2, verbose=0)
        o = net.predict(X[:90]).numpy().astype("f8")
        p, t = o if loss == "BCELoss" else 1 / (1 + np.exp(-o)), y[:90].astype("i8")
        by_name = {"f1": lambda: m.f1_score(t, p > 0.5), "auc": lambda: m.roc_auc_score(t, p), "accuracy": lambda: m.accuracy_score(t, p > 0.5),
                   "macro_f1": lambda: m.f1_score(t, p > 0.5, average="macro"),
                   "log_loss": lambda: -np.mean(np.where(t, np.log(p), np.log(1 - p)))}
        if metric != "macro_f1" or loss != "bce":  # by the loss bce the run chooses thresholds for it
            assert history.history["val_" + metric][history.best_epoch - 1] == pytest.approx(by_name[metric](), rel=1e-4)
            assert net.evaluate(X[:90], y[:90])[metric] == pytest.approx(by_name[metric](), rel=1e-4)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "i8", "u2"])
@pytest.mark.parametrize("batches", [False, True], ids=["arrays", "batches"])
def test_integers_are_integers_to_a_loss_function(dtype, batches):
    """Classes at places, and rows of one: the function gets them as they are."""
    def at_places(o, t):
        assert t.dtype == fr.int32
        return nn.functional.cross_entropy(o, t)

    def of_rows(o, t):
        assert t.dtype == fr.int32 and t.shape[1:] == (1,)
        return nn.functional.cross_entropy(o, t[:, 0])

    classes = np.random.default_rng(2).integers(0, 5, (600, 3))
    for net, y, loss in ((nn.Sequential(nn.Linear(10, 15), nn.Unflatten(1, (5, 3))), classes, at_places), (nn.Linear(10, 5), classes[:, :1], of_rows)):
        y = y.astype(dtype)
        data = ([(X[i:i + 60], y[i:i + 60]) for i in range(0, 600, 60)],) if batches else (X, y)
        h = net.fit(*data, loss=loss, validation_data=(X, y), epochs=2, lr=0.0, verbose=0, **({} if batches else {"batch_size": 60})).history
        o = net.predict(X).numpy().astype("f8").reshape(600, 5, -1)
        logs = o - np.log(np.exp(o).sum(1, keepdims=True))
        expected = -np.mean(np.take_along_axis(logs, y.reshape(600, 1, -1).astype("i8"), axis=1))
        assert h["loss"][0] == pytest.approx(expected, rel=1e-4) == h["val_loss"][0] and net.evaluate(X, y)["loss"] == pytest.approx(expected, rel=1e-4)


class Loader:
    """Batches (x, y, weights), each time anew, as a DataLoader has them."""

    def __init__(self, *arrays, size=60):
        self.arrays, self.size = arrays, size

    def __len__(self):
        return len(self.arrays[0]) // self.size

    def __iter__(self):
        return (tuple(a[i:i + self.size] for a in self.arrays) for i in range(0, len(self) * self.size, self.size))


SHARES = np.random.default_rng(6).uniform(0, 2, 600)
SHARES /= SHARES.mean()


def loaders():
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y), torch.from_numpy(SHARES))
    return {"list": list(Loader(X, Y, SHARES)), "iterable": Loader(X, Y, SHARES), "DataLoader": torch.utils.data.DataLoader(data, batch_size=60),
            "iterator": (b for _ in range(3) for b in Loader(X, Y, SHARES))}


@pytest.mark.parametrize("kind", ["list", "iterable", "DataLoader", "iterator"])
@pytest.mark.parametrize("loss", ["auto", "module"])
def test_batches_have_weights(kind, loss):
    """As arrays in the same order, whose weights are 1 in the mean already."""
    settings = {"loss": nn.CrossEntropyLoss() if loss == "module" else "auto", "epochs": 3, "validation_data": VAL}
    plain, net = t.made(t.chain), t.made(t.chain)
    expected = t.fit(plain, sample_weight=SHARES, shuffle=False, batch_size=60, **settings).history
    found = t.fit(net, loaders()[kind], None, **settings, **({"steps_per_epoch": 10} if kind == "iterator" else {})).history
    assert {k: pytest.approx(v, rel=1e-4) for k, v in expected.items()} == found
    np.testing.assert_allclose(net.predict(X), plain.predict(X), rtol=1e-3, atol=1e-4)
    other = t.made(t.chain)
    t.fit(other, Loader(X, Y), None, **settings)
    assert np.abs(other.predict(X).numpy() - net.predict(X).numpy()).max() > 1e-3


def test_evaluations_of_batches_have_their_weights():
    net = t.made(t.chain)
    found = by_hand(net, X, Y, SHARES)
    for loader in (Loader(X, Y, SHARES), list(Loader(X, Y, SHARES))):
        assert net.evaluate(loader) == {name: pytest.approx(found[name], rel=1e-4) for name in ("loss", "accuracy")}
        history = t.fit(net, Loader(X, Y, SHARES), None, validation_data=loader, lr=0.0, epochs=1).history
        assert history["val_loss"][0] == pytest.approx(found["loss"], rel=1e-4) == history["loss"][0]


@pytest.mark.parametrize("weights", [None, SHARES], ids=["alone", "with weights"])
def test_weights_of_classes_count_in_batches(weights):
    """Divided by their mean in the batch: alone as PyTorch's CrossEntropyLoss(weight=) counts them."""
    net, by_class = t.made(t.chain), {0: 1.0, 1: 3.0}
    factors = np.where(Y == 1, 3.0, 1.0)
    w = factors / np.repeat(factors.reshape(10, 60).mean(1), 60) * (1 if weights is None else weights)
    loader = Loader(X, Y) if weights is None else Loader(X, Y, weights)
    history = t.fit(net, loader, None, class_weight=by_class, lr=0.0, epochs=1).history
    o = net.predict(X).numpy().astype("f8")
    each = np.log(np.exp(o).sum(1)) - o[np.arange(600), Y]
    assert history["loss"][0] == pytest.approx(np.mean(each * w), rel=1e-4)
    if weights is None and (torch := pytest.importorskip("torch")):
        of_torch = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 1.0]))
        batches = [of_torch(torch.tensor(o[i:i + 60], dtype=torch.float32), torch.from_numpy(Y[i:i + 60])).item() for i in range(0, 600, 60)]
        assert history["loss"][0] == pytest.approx(np.mean(batches), rel=1e-4)
    plain, other = t.made(t.chain), t.made(t.chain)
    t.fit(plain, Loader(X, Y, w), None, lr=0.1, epochs=2)
    t.fit(other, loader, None, class_weight=by_class, lr=0.1, epochs=2)
    np.testing.assert_allclose(other.predict(X), plain.predict(X), rtol=1e-3, atol=1e-4)


def test_batches_of_several_inputs_and_targets_have_weights():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(10, 1), nn.Linear(10, 1)

        def forward(self, x, z):
            return self.a(x), self.b(z)

    values = X[:, :1] - X[:, 1:2]
    batches = [((X[i:i + 60], X[i:i + 60] * 2), (values[i:i + 60], -values[i:i + 60]), SHARES[i:i + 60]) for i in range(0, 600, 60)]
    net = Two()
    a, b = (o.numpy() for o in net.predict((X, X * 2)))
    h = net.fit(batches, loss=("mse", "mse"), lr=0.0, epochs=1, verbose=0).history
    parts = [np.average((a - values)[:, 0] ** 2, weights=SHARES), np.average((b + values)[:, 0] ** 2, weights=SHARES)]
    assert [h["loss_0"][0], h["loss_1"][0], h["loss"][0]] == pytest.approx([*parts, sum(parts)], rel=1e-4)


BATCHES = [
    ([(X[:60], Y[:60], SHARES[:60]), (X[:60], Y[:60])], {}, r"fit: batch 1 of x: expected \(x, y, weights\) as in the first batch"),
    ([(X[:60], Y[:60], SHARES[:50])], {}, r"fit: batch 0 of x: expected one weight per sample, \(60,\), got shape \(50,\)"),
    ([(X[:60], Y[:60], -SHARES[:60])], {}, "fit: batch 0 of x: expected finite weights"),
    ([(X[:60], Y[:60])], {"sample_weight": SHARES[:60]}, r"fit: sample_weight is for arrays: .*: batches \(x, y, weights\) have them"),
    ([(X[:60], Y[:60])], {"class_weight": "balanced"}, "fit: class_weight: expected a dict of weights by class for batches, got 'balanced'"),
    ([(X[:60], Y[:60])], {"class_weight": {7: 1.0}}, "fit: class_weight: unknown class '7'"),
]


@pytest.mark.parametrize("batches, settings, text", BATCHES, ids=range(len(BATCHES)))
def test_weights_of_batches_that_cannot_be_are_named(batches, settings, text):
    with pytest.raises((ValueError, TypeError), match=text):
        t.fit(t.made(), batches, None, **settings)


@pytest.mark.parametrize("kind", ["batches", "ordered", "weights", "labels", "shares"])
def test_a_resumed_run_of_batches_has_the_figures_of_validation_of_the_epochs_before(tmp_path, kind):
    """A run within an epoch of data that the trainer takes as batches."""
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            return logs["total_step"] == 13

    labels = X[:, :3] > 0
    data, validation, settings = {
        "batches": ((Loader(X, Y),), VAL, {}), "ordered": ((X, Y), VAL, {"shuffle": False}), "weights": ((X, Y), (*VAL, WEIGHTS), {"loss": nn.CrossEntropyLoss()}),
        "labels": ((X, labels), (X[:90], labels[:90]), {"loss": binary}), "shares": ((X, Y), VAL, {"sample_weight": SHARES})}[kind]

    def run(directory, *heard, **more):
        return t.fit(t.made(t.chain), *data if len(data) == 2 else (*data, None), validation_data=validation, epochs=4, output_dir=directory,
                     callbacks=heard, **{**({} if kind == "batches" else {"batch_size": 60}), **settings, **more})

    whole = run(tmp_path / "whole")
    run(tmp_path / "part", Stop())
    rest = run(tmp_path / "part", resume=True)
    assert rest.history == whole.history and rest.epoch == whole.epoch and len(rest.history["val_loss"]) == 4


@pytest.mark.parametrize("settings", [{}, {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}, {"label_smoothing": 0.1}], ids=["weights", "and of classes", "smoothed"])
def test_a_named_metric_compares_evaluations_of_batches_with_weights(settings):
    x = np.random.default_rng(0).normal(size=(96, 5)).astype("f4")
    y, w = (x[:, 0] > 0).astype("i8") + (x[:, 1] > 0), np.random.default_rng(1).uniform(0.5, 2, 96).astype("f4")
    batches = [(x[i:i + 32], y[i:i + 32], w[i:i + 32]) for i in range(0, 96, 32)]

    def trained(**how):
        fr.random.seed(1)
        return nn.Sequential(nn.Linear(5, 3)).fit(batches, validation_data=(x, y), epochs=3, verbose=0, **settings, **how).history

    compared, beside = trained(metric="macro_f1"), trained(metrics=["macro_f1"])
    assert compared.keys() == beside.keys() >= {"val_macro_f1", "val_accuracy", "accuracy"}
    for name, values in beside.items():
        np.testing.assert_allclose(compared[name], values, rtol=1e-6, err_msg=name)
