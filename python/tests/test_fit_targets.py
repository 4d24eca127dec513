"""Targets, weights and data of fit, evaluate and predict that new users hand over: one-hot rows, pixels, Series, folders."""
import os
import subprocess
import warnings

import numpy as np
import pytest

import freight as fr
from freight import nn

X = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
Y = (X[:, 0] > 0).astype("i8")
IMAGES = np.random.default_rng(1).normal(size=(10, 1, 5, 5)).astype("f4")
MASKS = (IMAGES > 0).astype("f4")


def trained(net, *data, **settings):
    fr.random.seed(0)
    model = net()
    return model, model.fit(*data, **{"verbose": 0, "seed": 1, "epochs": 2, "lr": 0.1, "batch_size": 5, **settings})


def line():
    return nn.Linear(3, 1)


def conv():
    return nn.Conv2d(1, 1, 3, padding=1)


def test_one_hot_rows_are_named_where_no_loss_is():
    hot = np.eye(2, dtype="f4")[Y]
    with pytest.warns(UserWarning, match='a 1 in each row, and is trained with the loss mse.*loss="cross_entropy" takes them as classes'):
        nn.Linear(3, 2).fit(X, hot, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        soft, codes = trained(lambda: nn.Linear(3, 2), X, hot, loss="cross_entropy")[0], trained(lambda: nn.Linear(3, 2), X, Y)[0]
        nn.Linear(3, 2).fit(X, hot, loss="mse", verbose=0)
        nn.Linear(3, 2).fit(X, hot * 2, verbose=0)
    assert np.allclose(soft.weight, codes.weight, rtol=1e-5, atol=1e-6)


def test_pixels_as_targets_of_values_are_named():
    pixels = np.full((10, 1, 5, 5), 200, "u1")
    with pytest.warns(UserWarning, match="pixels from 0 to 255 are targets of the loss mse as they are.*y / 255"):
        conv().fit(pixels, pixels, loss="mse", verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conv().fit(pixels, pixels / 255, loss="mse", verbose=0)
        conv().fit(pixels, pixels // 255, loss="mse", verbose=0)  # a mask


@pytest.mark.parametrize("net, y, loss", [
    (line, X[:, 1], "mse"), (line, X[:, 1], "mae"), (line, X[:, 1], "huber"), (lambda: nn.Linear(3, 2), X[:, :2], "huber"),
    (conv, IMAGES, "auto"), (conv, IMAGES, "mae"), (conv, IMAGES, "huber"), (conv, MASKS, "bce")], ids=str)
def test_a_weight_of_two_counts_as_two_samples(net, y, loss):
    x = X if net is not conv else IMAGES
    weights = np.arange(len(x)) % 3 + 1.0
    metric = {"metric": lambda o, t: fr.mean(abs(fr.reshape(o, t.shape) - t)), "validation_data": (x, y)}
    model, history = trained(net, x, y, loss=loss, sample_weight=weights, batch_size=len(x), **metric)
    rows = np.repeat(np.arange(len(x)), weights.astype(int))
    twice, _ = trained(net, x[rows], y[rows], loss=loss, batch_size=len(rows))
    assert np.allclose(model.weight, twice.weight, rtol=1e-4, atol=1e-5)
    last = np.abs(model.predict(x).numpy().reshape(y.shape) - y).mean()
    assert history.history["val_metric"][-1] == pytest.approx(last, rel=1e-4)


def test_one_output_of_two_classes_has_an_accuracy(tmp_path):
    for data in ((X, Y), ([(X[:20], Y[:20]), (X[20:], Y[20:])],)):
        settings = {} if len(data) == 2 else {"batch_size": None}
        model, history = trained(line, *data, loss="bce", validation_data=(X, Y), **settings)
        right = ((model.predict(X).numpy()[:, 0] > 0) == Y).mean()
        assert history.history["val_accuracy"][-1] == pytest.approx(right)
        assert model.evaluate(X, Y)["accuracy"] == pytest.approx(right)
        assert model.evaluate(X, Y[:, None])["accuracy"] == pytest.approx(right)
    model, history = trained(line, X, Y, loss="bce", metric="accuracy", early_stop=1, validation_data=(X, Y))
    assert "val_accuracy" in history.history and "accuracy" in model.evaluate(X, Y)
    model.save(tmp_path / "net.safetensors")
    assert fr.load(tmp_path / "net.safetensors").evaluate(X, Y) == model.evaluate(X, Y)
    assert "accuracy" not in trained(lambda: nn.Linear(3, 2), X, np.stack([Y, 1 - Y], 1), loss="bce")[1].history  # labels


def test_predict_of_no_samples_has_the_shape_of_the_outputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(3)

        def forward(self, x):
            x = self.norm(x)
            return {"a": self.a(x), "pair": (x, fr.argmax(x, axis=1))}

    found = Two().predict(X[:0])
    assert found["a"].shape == (0, 2) and found["pair"][0].shape == (0, 3) and found["pair"][1].shape == (0,)
    assert found["pair"][1].dtype == fr.int64
    assert nn.Sequential(nn.Embedding(5, 4), nn.Flatten()).predict(np.zeros((0, 3), "i8")).shape == (0, 12)


def test_series_of_pandas_are_columns():
    pd = pytest.importorskip("pandas")
    series = pd.Series(Y, index=range(100, 140))
    for y in (series, series.map({0: "no", 1: "yes"}), series.map({0: "no", 1: "yes"}).astype("category"), series.astype("Int64"), series > 0):
        model, _ = trained(lambda: nn.Linear(3, 2), pd.DataFrame(X), y)
        assert np.allclose(model.weight, trained(lambda: nn.Linear(3, 2), X, Y)[0].weight)
    assert np.allclose(trained(line, pd.DataFrame(X), pd.Series(X[:, 1]), sample_weight=pd.Series(np.ones(40)))[0].weight,
                       trained(line, X, X[:, 1], sample_weight=np.ones(40))[0].weight)
    with pytest.raises(ValueError, match=r"fit: x: .*got shape \(40,\); use series.to_frame\(\)"):
        nn.Linear(1, 1).fit(pd.Series(X[:, 0]), pd.Series(X[:, 1]), verbose=0)
    with pytest.raises(ValueError, match=r"predict: x: .*of one number per sample: x\[:, None\]"):
        nn.Linear(1, 1).predict(X[:, 0])
    pytest.importorskip("sklearn")
    for model in ("gbdt", "linear"):
        with pytest.raises(ValueError, match=r"Expected 2D array, got 1D Series 'a' instead: .*to_frame\(\)"):
            fr.FreightRegressor(model=model).fit(pd.Series(X[:, 0], name="a"), Y)


def test_a_folder_of_images_is_evaluated_and_predicted(tmp_path):
    command = os.path.join(os.path.dirname(fr.__file__), "bin", "freight")
    subprocess.run([command, "data", "sample", "photos"], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "photos"

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 4, 3, stride=4), nn.Linear(256, 3)

        def forward(self, x):
            return self.fc(fr.reshape(self.conv(x), (x.shape[0], -1)))

    net = Net()
    for call in (net.evaluate, net.predict):
        with pytest.raises(ValueError, match="x: images are read for a model that fit or freight.load has given a size and classes"):
            call(folder)
    net.fit(folder, input_shape=(3, 32, 32), lr=0.01, epochs=2, verbose=0)
    outputs, figures = net.predict(str(folder)).numpy(), net.evaluate(folder, metric="macro_f1")
    classes = np.repeat(np.arange(3), 100)  # by the order of paths
    assert outputs.shape == (300, 3) and figures["accuracy"] == pytest.approx((outputs.argmax(axis=1) == classes).mean())
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(300), classes]
    assert figures["loss"] == pytest.approx(losses.mean(), rel=1e-4) and 0 < figures["macro_f1"] <= 1
    with pytest.raises(ValueError, match="expected one of macro_f1, accuracy.*, got 'rmse'"):
        net.evaluate(folder, metric="rmse")
    with pytest.raises(ValueError, match="on a folder expected the loss of fit by its name"):
        net.evaluate(folder, loss=lambda o, t: fr.mean(o))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.kind = nn.Linear(3, 2), nn.Linear(3, 4)

    def forward(self, x):
        return {"value": self.value(x), "kind": self.kind(x)}


VALUES, KINDS, FLAGS = X[:, :2] * 2, np.arange(40) % 4, X[:, 0] > 0


def of_heads(outputs, targets):
    value, kind, flag = targets.values() if isinstance(targets, dict) else targets
    assert kind.dtype == fr.int64 and flag.dtype == fr.bool and value.shape[1:] == (2,) and kind.ndim == 1
    weight = fr.where(flag, 1.0, 0.5)
    return fr.mean((outputs["value"] - value) ** 2, axis=1) * weight + nn.functional.cross_entropy(outputs["kind"], kind, reduction="none")


def right(outputs, targets):
    kind = targets["kind"] if isinstance(targets, dict) else targets[1]
    return fr.astype(fr.argmax(outputs["kind"], axis=1) == kind, fr.float32)


def by_hand(model):
    """The loss and the metric of all samples."""
    outputs = model.predict(X)
    value, kind = outputs["value"].numpy(), outputs["kind"].numpy().astype("f8")
    chances = np.exp(kind) / np.exp(kind).sum(axis=1, keepdims=True)
    losses = ((value - VALUES) ** 2).mean(axis=1) * np.where(FLAGS, 1, 0.5) - np.log(chances[np.arange(40), KINDS])
    return losses.mean(), (kind.argmax(axis=1) == KINDS).mean()


@pytest.mark.parametrize("form", ["dict", "tuple", "batches", "list in batches", "weights"])
def test_several_targets_are_for_a_loss_of_the_program(form):
    y = {"value": VALUES, "kind": KINDS, "flag": FLAGS} if form in ("dict", "weights") else (VALUES, KINDS, FLAGS)
    data = (X, y)
    if "batches" in form:
        kind = list if "list" in form else tuple
        data = ([(X[i:i + 10], kind(part[i:i + 10] for part in y)) for i in range(0, 40, 10)],)
    settings = {"sample_weight": np.ones(40)} if form == "weights" else {}
    model, history = trained(Heads, *data, loss=of_heads, metric=right, validation_data=(X, y), epochs=20, batch_size=10, **settings)
    loss, share = by_hand(model)
    assert history.history["loss"][-1] < history.history["loss"][0] / 1.5
    assert history.history["val_loss"][-1] == pytest.approx(loss, rel=1e-4) and history.history["val_right"][-1] == pytest.approx(share)
    figures = model.evaluate(*data)
    assert figures["loss"] == pytest.approx(loss, rel=1e-4) and figures["right"] == pytest.approx(share)
    assert model.evaluate(*data, loss=lambda o, t: fr.mean(o["value"]))["loss"] == pytest.approx(model.predict(X)["value"].numpy().mean(), rel=1e-3)


def test_several_targets_without_a_loss_function_or_of_other_shapes_are_refused():
    y = {"value": VALUES, "kind": KINDS}
    for given in (y, (VALUES, KINDS)):
        with pytest.raises(ValueError, match="fit: loss: expected one per target.* or a function of .outputs, targets., for several targets; got 'auto'"):
            Heads().fit(X, given, verbose=0)
    loss = lambda o, t: fr.mean(o["value"])  # noqa: E731
    for given, text in (({"value": VALUES, "kind": KINDS[:9]}, r"fit: y\['kind'\]: expected 40 samples"),
                        ({"value": VALUES * 1j}, r"fit: y\['value'\]: expected real numbers"), ((KINDS * 10**8, FLAGS), "expected integers up to 16777216")):
        with pytest.raises((ValueError, TypeError), match=text):
            Heads().fit(X, given, loss=loss, verbose=0)
    with pytest.raises(ValueError, match=r"fit: validation_data: y: expected targets value float32\[2\], kind int64\[\], got value float32\[2\]"):
        Heads().fit(X, y, loss=loss, validation_data=(X, {"value": VALUES}), verbose=0)


class Difference(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(fr.ones(1))

    def forward(self, price, cost):
        return (price - 3 * cost) * self.scale


def test_inputs_by_name_are_in_the_order_of_forward_whatever_that_of_the_dict(tmp_path):
    """A file takes tuples, which were read in the order of the last dict."""
    price, cost = np.arange(20.0, dtype="f4")[:, None], np.arange(20.0, 40.0, dtype="f4")[:, None]
    y, expected = price - cost, price - 3 * cost
    given = {"cost": cost, "price": price}
    for data, last in ((given, None), ((price, cost), given), ([(given, y), ({"price": price, "cost": cost}, y)], None)):
        net = Difference()
        net.fit(data, **({"y": y} if not isinstance(data, list) else {}), epochs=1, lr=0.0, verbose=0,
                validation_data=((price, cost) if isinstance(data, tuple) else {"price": price, "cost": cost}, y))
        if last is not None:
            net.predict(last)
        net.save(tmp_path / "net.safetensors")
        for made in (net, fr.load(tmp_path / "net.safetensors")):
            for x in ((price, cost), given, {"price": price, "cost": cost}):
                np.testing.assert_allclose(made.predict(x), expected, rtol=1e-6)
            assert made.evaluate((price, cost), y)["loss"] == pytest.approx(np.mean((expected - y) ** 2), rel=1e-5)
        np.testing.assert_allclose(fr.load(tmp_path / "net.safetensors")(price, cost), expected, rtol=1e-6)


def test_the_accuracy_of_several_targets_is_refused():
    y = {"value": VALUES, "kind": KINDS}
    with pytest.raises(ValueError, match="fit: metrics: accuracy is for one target, got several: expected a function of"):
        trained(Heads, X, y, loss={"value": "mse", "kind": "cross_entropy"}, metrics=["accuracy"])


@pytest.mark.parametrize("by_name", [False, True])
def test_networks_of_several_inputs_from_torch_are_saved(tmp_path, by_name):
    torch = pytest.importorskip("torch")

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(8, 2)

        def forward(self, x, lens):
            mask = torch.arange(x.shape[1])[None] < lens[:, None]
            return self.out((x * mask[..., None]).sum(1) / lens[:, None])

    theirs = Masked().eval()
    x, lens = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("f4"), np.array([5, 2, 3])
    expected = theirs(torch.from_numpy(x), torch.from_numpy(lens)).detach().numpy()
    net = fr.from_torch(theirs)
    named = {"lens": lens, "x": x}
    np.testing.assert_allclose(net.predict(named if by_name else (x, lens)), expected, rtol=1e-5, atol=1e-6)
    assert net.save(tmp_path / "net.safetensors")
    for made in (net, fr.load(tmp_path / "net.safetensors")):
        for given in (named, (x, lens)):
            np.testing.assert_allclose(made.predict(given), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="Masked: expected the inputs x, lens, got 1 and size"):
        net(fr.asarray(x), size=fr.asarray(lens))


@pytest.mark.parametrize("weights", ["sample_weight", "class_weight", "both"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_weights_are_factors_of_losses_of_smoothed_targets(weights, smoothing):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(64, 6)).astype("f4"), random.integers(0, 3, 64)
    of_samples, of_classes = random.uniform(0, 3, 64).astype("f4"), np.array([1.0, 2.0, 5.0])
    net = nn.Linear(6, 3)
    outputs = x @ net.weight.numpy().T + net.bias.numpy()
    logs = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    each = -(1 - smoothing) * logs[np.arange(64), y] - smoothing * logs.mean(1)
    w = (of_samples if weights != "class_weight" else 1) * (of_classes[y] if weights != "sample_weight" else 1)
    given = {} if weights == "class_weight" else {"sample_weight": of_samples}
    if weights != "sample_weight":
        given["class_weight"] = dict(enumerate(of_classes))
    found = net.fit(x, y, batch_size=64, label_smoothing=smoothing, lr=0.0, verbose=0, **given).history["loss"]
    assert found[0] == pytest.approx((w / w.mean() * each).mean(), rel=1e-5)


@pytest.mark.parametrize("weights", ["none", "class_weight", "sample_weight", "of the validation data"])
def test_evaluations_are_by_the_loss_without_smoothing(weights):
    x, y = X, np.arange(40) % 3
    settings = {"class_weight": {"class_weight": {0: 2.0}}, "sample_weight": {"sample_weight": np.ones(40)}}.get(weights, {})
    validation = (x[:8], y[:8], np.ones(8)) if weights == "of the validation data" else (x[:8], y[:8])
    model, history = trained(lambda: nn.Linear(3, 3), x, y, validation_data=validation, label_smoothing=0.3, **settings)
    logs = np.asarray(fr.log_softmax(model.predict(x[:8]), axis=1))
    assert history.history["val_loss"][-1] == pytest.approx(-logs[np.arange(8), y[:8]].mean(), abs=1e-6)


def padded(kind):
    """(network, x, y) of which the later samples have more targets that are ignored."""
    rng = np.random.default_rng(0)
    if kind == "tokens":
        x, y = rng.integers(0, 5, (8, 6)), rng.integers(0, 5, (8, 6))
        y[4:, 1:] = -1
        return lambda: nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5)), x, y
    x, y = rng.normal(size=(8, 2, 4, 4)).astype("f4"), rng.integers(0, 3, (8, 4, 4))
    y[4:, 1:] = -100
    return lambda: nn.Conv2d(2, 3, 1), x, y


@pytest.mark.parametrize("kind", ["tokens", "places"])
def test_ignored_targets_count_alike_however_a_batch_is_divided(kind):
    net, x, y = padded(kind)
    settings = {"batch_size": 8, "epochs": 1, "lr": 1.0, "momentum": 0.0, "shuffle": False}
    whole, history = trained(net, x, y, **settings)
    batches = [(x[:4], y[:4]), (x[4:], y[4:])]
    of_batches = trained(net, batches, batch_size=4, epochs=1, lr=0.0)[1].history["loss"][0]
    of_arrays = trained(net, x, y, **{**settings, "batch_size": 4, "lr": 0.0})[1].history["loss"][0]
    assert of_batches == pytest.approx(of_arrays, rel=1e-6)
    for divided in ({"grad_accum": 2}, {"grad_accum": 3}, {"devices": ["cpu", "cpu"]}, {"shards": 2}):
        model, found = trained(net, x, y, **settings, **divided)
        assert found.history["loss"][0] == pytest.approx(history.history["loss"][0], rel=1e-6), divided
        for name, value in whole.state_dict().items():
            np.testing.assert_allclose(model.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=str(divided))


@pytest.mark.parametrize("kind", ["tokens", "places"])
def test_an_evaluation_with_ignored_targets_does_not_depend_on_the_batch_size(kind):
    net, x, y = padded(kind)
    fr.random.seed(0)
    model, counted = net(), y >= 0
    outputs = np.asarray(model.predict(x))
    outputs = outputs if kind == "tokens" else np.moveaxis(outputs, 1, -1)
    logs = np.asarray(fr.log_softmax(fr.asarray(outputs), axis=-1))
    loss = -np.take_along_axis(logs, np.maximum(y, 0)[..., None], axis=-1)[..., 0][counted].mean()
    for size in (1, 2, 3, 8):
        figures = model.evaluate(x, y, batch_size=size, loss="cross_entropy")
        assert figures["loss"] == pytest.approx(loss, rel=1e-5)
        assert figures["accuracy"] == pytest.approx((outputs.argmax(-1) == y)[counted].mean(), rel=1e-5)


class Constant(nn.Module):
    """The same logits for every image, so that mixed images do not matter and mixed classes do."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(fr.asarray(logits))

    def forward(self, x):
        return fr.broadcast_to(self.logits, (x.shape[0], 3)) + 0 * fr.mean(x)


@pytest.mark.parametrize("mixing", [{}, {"mixup_alpha": 5.0}, {"cutmix_alpha": 5.0}], ids=str)
def test_mixed_classes_count_by_their_own_weights_as_in_torch(mixing):
    torch = pytest.importorskip("torch")
    logits, rng = [1.0, -1.0, 0.5], np.random.default_rng(0)
    x, y = rng.random((64, 3, 8, 8)).astype("f4"), rng.integers(0, 3, 64)
    w = np.asarray([5.0, 1.0, 1.0])
    w /= w[y].mean()
    # Samples are mixed with each other, so that each class has the same share of the batch as without.
    shares = torch.nn.functional.one_hot(torch.tensor(y), 3).float()
    shares = 0.7 * shares + 0.3 * shares.roll(1, 0)
    expected = torch.nn.functional.cross_entropy(torch.tensor([logits] * 64), shares, weight=torch.tensor(w).float()).item()
    for seed in range(3):
        history = Constant(logits).fit(x, y, batch_size=64, lr=1e-9, class_weight={0: 5.0}, seed=seed, verbose=0, **mixing).history
        assert history["loss"][0] == pytest.approx(expected, rel=1e-5)
