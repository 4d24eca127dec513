"""Losses by target, weights with losses of the program, forms of inputs, lists of metrics, and directories of callbacks."""
import os

import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(64, 4)).astype("f4"), RNG.normal(size=(64, 3)).astype("f4")
CLASSES, VALUES = (X[:, 0] > 0).astype("i8"), X[:, :1] * 2


class Net(nn.Module):
    def __init__(self, names=None):
        super().__init__()
        self.a, self.b, self.names = nn.Linear(4, 2), nn.Linear(4, 1), names

    def forward(self, x):
        outputs = self.a(x), self.b(x)
        return dict(zip(self.names, outputs)) if self.names else outputs


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(7, 2)

    def forward(self, p, q):
        return self.a(fr.concat([p, q], axis=1))


def by_hand(a, b):
    a = a.astype("f8")
    return float(np.mean(np.log(np.exp(a).sum(axis=1)) - a[np.arange(64), CLASSES]) + np.mean((b - VALUES) ** 2))


@pytest.mark.parametrize("form", ["tuple", "list", "dict", "vector", "function", "weights", "pairs"])
def test_each_target_has_a_loss(form):
    names = ("c", "v") if form == "dict" else None
    y = {"c": CLASSES, "v": VALUES} if names else [CLASSES, VALUES] if form == "list" else (CLASSES, VALUES[:, 0] if form == "vector" else VALUES)
    losses = ("cross_entropy", (lambda o, t: (o - t) ** 2) if form == "function" else "mse")
    losses = dict(zip(names, losses)) if names else list(losses) if form == "list" else losses
    settings = {"sample_weight": np.ones(64)} if form == "weights" else {}
    net = Net(names)
    data = (X, y) if form != "pairs" else ((X, y),)
    history = net.fit(*data, loss=losses, validation_data=(X, y), epochs=3, lr=0.1, batch_size=16, verbose=0, **settings).history
    outputs = net.predict(X)
    a, b = (np.asarray(o) for o in (outputs.values() if names else outputs))
    assert history["loss"][-1] < history["loss"][0] and history["val_loss"][-1] == pytest.approx(by_hand(a, b), rel=1e-4)
    assert net.evaluate(X, y)["loss"] == pytest.approx(by_hand(a, b), rel=1e-4)


def test_losses_that_do_not_fit_the_targets_are_named():
    y = CLASSES, VALUES
    for losses, text in (("mse", "expected one per target"), (("cross_entropy", "nope"), r"loss\[1\]: expected a function or one of cross_entropy"),
                         (("mse",), "expected outputs for the losses 0, got 2"), ({"c": "mse", "v": "mse", "w": "mse"}, "expected outputs for the losses c, v, w, got 2")):
        with pytest.raises(ValueError, match=text):
            Net().fit(X, y, loss=losses, verbose=0)
    with pytest.raises(TypeError, match="expected a name or a function for one array y, got 2 losses"):
        nn.Linear(4, 2).fit(X, CLASSES, loss=("mse", "mse"), verbose=0)


@pytest.mark.parametrize("loss, named", [
    (lambda o, t: nn.functional.cross_entropy(o, t, reduction="none"), "auto"), (nn.CrossEntropyLoss(), "auto"), (nn.MSELoss(), "mse"),
    (nn.HuberLoss(), "huber"), (nn.BCEWithLogitsLoss(), "bce")], ids=["function", "CrossEntropyLoss", "MSELoss", "HuberLoss", "BCEWithLogitsLoss"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_weights_of_a_loss_that_is_a_function_are_those_of_its_name(loss, named, shuffle):
    width = 3 if named == "auto" else 1
    y = CLASSES if named == "auto" else VALUES if named != "bce" else CLASSES[:, None].astype("f4")
    weights = RNG.uniform(0.1, 3, 64)
    nets, histories = [nn.Linear(4, width) for _ in range(2)], []
    nets[1].load_state_dict(nets[0].state_dict())
    for net, given in zip(nets, (loss, named)):
        histories.append(net.fit(X, y, loss=given, sample_weight=weights, validation_data=(X, y), epochs=2, lr=0.1, seed=1, batch_size=16,
                                 shuffle=shuffle, verbose=0).history)
    assert np.allclose(nets[0].weight, nets[1].weight, rtol=1e-5, atol=1e-6)
    assert np.allclose(histories[0]["val_loss"], histories[1]["val_loss"], rtol=1e-5)
    if named == "auto":
        assert histories[0]["val_accuracy"] == histories[1]["val_accuracy"]


def test_evaluate_has_the_loss_of_fit_whatever_form_inputs_have():
    loss = lambda o, t: 10 * fr.mean(fr.abs(o - t))  # noqa: E731
    target = np.concatenate([VALUES, VALUES], axis=1)
    forms = [(X, Z), [X, Z], {"p": X, "q": Z}, {"q": Z, "p": X}]
    for first in forms:
        net = Two()
        net.fit(first, target, loss=loss, metric=lambda o, t: fr.mean(o), verbose=0)
        expected = float(np.mean(np.abs(np.asarray(net.predict(first)) - target))) * 10
        for form in forms:
            figures = net.evaluate(form, target)
            assert figures["loss"] == pytest.approx(expected, rel=1e-4) and "metric" in figures
            net.predict(form)
    net = nn.Linear(4, 2)
    for form in (X, (X,)):
        net.fit(form, target, loss=loss, verbose=0)
        assert net.evaluate((X,), target) == net.evaluate(X, target)


@pytest.mark.parametrize("metric, names", [
    (["accuracy"], ["accuracy"]), (("loss", "accuracy", "f1"), ["accuracy", "f1"]), (["f1"], ["accuracy", "f1"])], ids=str)
def test_a_list_of_metrics_has_one_besides_the_usual(metric, names):
    net = nn.Linear(4, 2)
    history = net.fit(X, CLASSES, validation_data=(X, CLASSES), metric=metric, verbose=0).history
    assert [k for k in history if k.startswith("val_")] == ["val_loss", *(f"val_{n}" for n in names)]
    assert list(net.evaluate(X, CLASSES, metric=metric)) == ["loss", *names]


@pytest.mark.parametrize("metric, error, text", [
    (["f1", "auc"], ValueError, "expected one figure besides loss and accuracy, got f1, auc"), (["accuracy", "nonsense"], ValueError, "no figure 'nonsense'"),
    (5, TypeError, "metric: expected a name .* got 5")], ids=str)
def test_other_metrics_are_refused(metric, error, text):
    for call in (lambda net: net.fit(X, CLASSES, validation_data=(X, CLASSES), metric=metric, verbose=0), lambda net: net.evaluate(X, CLASSES, metric=metric)):
        with pytest.raises(error, match=text):
            call(nn.Linear(4, 2))


def test_tensorboard_and_checkpoints_have_directories_of_their_own(tmp_path):
    both = [callbacks.TensorBoard(tmp_path / "logs"), callbacks.Checkpoint(tmp_path / "run")]
    for order in (both, both[::-1]):
        nn.Linear(4, 2).fit(X, CLASSES, validation_data=(X, CLASSES), callbacks=order, verbose=0, overwrite=True)
        assert os.path.exists(tmp_path / "run" / "model.safetensors")
        events = [name for name in os.listdir(tmp_path / "logs") if "tfevents" in name and os.path.exists(tmp_path / "logs" / name)]
        assert events and set(os.listdir(tmp_path / "logs")) >= set(events)
        assert any((tmp_path / "logs" / name).read_bytes().count(b"loss/val") for name in events)
    with pytest.raises(ValueError, match="Checkpoint and output_dir name two run directories"):
        nn.Linear(4, 2).fit(X, CLASSES, callbacks=both, output_dir=tmp_path / "other", verbose=0)


def test_a_run_on_batches_that_start_again_is_resumed(tmp_path):
    batches = [(X[i:i + 16], CLASSES[i:i + 16]) for i in range(0, 64, 16)]

    def trained(epochs, directory, **settings):
        fr.random.seed(3)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
        return net, net.fit(batches, epochs=epochs, output_dir=tmp_path / directory, lr=0.1, verbose=0, **settings).history["loss"]

    whole, losses = trained(4, "whole")
    trained(2, "part")
    part, continued = trained(4, "part", resume=True)
    assert losses == continued
    for name, value in whole.state_dict().items():
        assert np.array_equal(value, part.state_dict()[name]), name
    with pytest.raises(ValueError, match="resume: expected batches that start again.* got an iterator"):
        nn.Linear(4, 2).fit(iter(batches), steps_per_epoch=2, output_dir=tmp_path / "part", resume=True, verbose=0)


class Counted:
    """Batches that note how often they are iterated, as loaders that shuffle by a generator of their own depend on it."""

    def __init__(self, inputs):
        self.inputs, self.drawn, self.ended = inputs, [], 0

    def __len__(self):
        return 3

    def __iter__(self):
        epoch = 1 + (self.drawn[-1][0] if self.drawn else 0)
        for i in range(3):
            self.drawn.append((epoch, i))
            yield self.inputs(slice(16 * i, 16 * (i + 1))), CLASSES[16 * i:16 * (i + 1)]
        self.ended += 1


@pytest.mark.parametrize("net, inputs", [(lambda: nn.Linear(4, 2), lambda rows: X[rows]), (Two, lambda rows: (X[rows], Z[rows])),
                                         (Two, lambda rows: {"p": X[rows], "q": Z[rows]})])
def test_an_epoch_iterates_over_the_batches_once(net, inputs):
    batches = Counted(inputs)
    net = net()
    net.fit(batches, epochs=3, verbose=0)
    assert batches.drawn == [(epoch, i) for epoch in (1, 2, 3) for i in range(3)]
    assert batches.ended == 3
    net.evaluate(batches)
    assert batches.drawn[9:] == [(4, i) for i in range(3)]


@pytest.mark.parametrize("metrics", [["top5"], [lambda outputs, targets: fr.mean(outputs)]])
def test_evaluate_has_the_metrics_of_fit_beside_that_of_a_monitor(metrics):
    targets = np.arange(64) % 10
    net = nn.Linear(4, 10)
    stop = callbacks.EarlyStopping(monitor="val_accuracy", patience=5)
    history = net.fit(X, targets, validation_data=(X, targets), metrics=metrics, callbacks=[stop], verbose=0).history
    found = net.evaluate(X, targets)
    assert set(found) == {name.removeprefix("val_") for name in history if name.startswith("val_")} and len(found) == 3
    for name, value in found.items():
        assert value == pytest.approx(history[f"val_{name}"][-1], rel=1e-6)


class Tokens(nn.Module):
    """Tokens and numbers, and numbers that may be left out."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(11, 4), nn.Linear(7, 2)

    def forward(self, tokens, values, scale=None):
        y = self.head(fr.concat([fr.mean(self.table(tokens), axis=1), values], axis=1))
        return y if scale is None else y * scale


@pytest.mark.parametrize("shapes", [[(5,), (3,)], {"values": (3,), "tokens": (5,)}, ((5,), (3,), (2,))])
def test_a_network_of_several_inputs_is_saved_by_their_shapes(shapes, tmp_path):
    net = Tokens().eval()
    x = RNG.integers(0, 11, (6, 5)), Z[:6], RNG.normal(size=(6, 2)).astype("f4")
    x = x[:len(shapes)]
    assert net.save(tmp_path / "net.safetensors", input_shape=shapes)
    again, want = fr.load(tmp_path / "net.safetensors"), np.asarray(net(*x))
    np.testing.assert_allclose(np.asarray(again(*x)), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(again.predict(dict(zip(("tokens", "values", "scale"), x)))), want, rtol=1e-5, atol=1e-6)
    assert again.predict(tuple(a[:1] for a in x)).shape == (1, 2)


def test_without_shapes_those_of_the_last_call_count(tmp_path):
    net, x = Tokens().eval(), (RNG.integers(0, 11, (6, 5)), Z[:6])
    net(*x)
    assert net.save(tmp_path / "net.safetensors")
    np.testing.assert_allclose(np.asarray(fr.load(tmp_path / "net.safetensors")(*x)), np.asarray(net(*x)), rtol=1e-5, atol=1e-6)
    net = Two().eval()
    net(X[:6], q=Z[:6])
    assert net.save(tmp_path / "net.safetensors")
    np.testing.assert_allclose(np.asarray(fr.load(tmp_path / "net.safetensors")(X, Z)), np.asarray(net(X, Z)), rtol=1e-5, atol=1e-6)


def test_shapes_of_inputs_that_do_not_fit_are_named(tmp_path):
    for shapes, text in (([(4,), (3,), (2,)], "expected a shape for each input of forward, p, q, got 3"), ({"p": (4,), "r": (3,)}, "p, q, got p, r"),
                         ([(4,), 3], r"input_shape\[1\]: expected the shape of one sample"), ([(4,), (0,)], r"input_shape\[1\]")):
        with pytest.raises(ValueError, match=text):
            Two().save(tmp_path / "net.safetensors", input_shape=shapes)
    with pytest.raises(ValueError, match="expected a shape for each input of forward"):
        nn.Linear(3, 2).save(tmp_path / "net.safetensors", input_shape=[(4,), (3,)])
    with pytest.warns(UserWarning, match=r"weights alone.*inner dimensions differ.*test_fit_several.py:\d+\)"):
        assert not Two().save(tmp_path / "net.safetensors", input_shape=[(4,), (4,)])
    with pytest.warns(UserWarning, match="input_shape is a list of shapes"):
        assert not Two().save(tmp_path / "net.safetensors", input_shape=(4,))


def test_errors_of_forward_are_named_by_their_line(tmp_path):
    class Raises(nn.Module):
        def forward(self, x):
            raise ArithmeticError("something of the program")

    with pytest.warns(UserWarning, match=rf"ArithmeticError: something of the program \(test_fit_several.py:{Raises.forward.__code__.co_firstlineno + 1}\)$"):
        Raises().save(tmp_path / "net.safetensors", input_shape=(4,))


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 1)

    def forward(self, u, v):
        return {"r": self.a(fr.concat([u, v], axis=1))}


@pytest.mark.parametrize("loss", [{"r": "mse"}, lambda outputs, targets: fr.mean((outputs["r"] - targets["r"]) ** 2, axis=1)])
def test_models_that_a_run_has_written_keep_the_names_of_inputs_and_results(tmp_path, loss):
    x = np.random.default_rng(0).normal(size=(100, 5)).astype("f4")
    data = {"u": x[:, :2], "v": x[:, 2:]}, {"r": x[:, :1]}
    net = Named()
    net.fit(*data, epochs=1, output_dir=tmp_path, verbose=0, loss=loss, validation_data=data,
            callbacks=[callbacks.Checkpoint(tmp_path, monitor="val_loss")])
    net.save(tmp_path / "saved.safetensors")
    expected = net.predict(data[0])["r"].numpy()
    for file in ("saved.safetensors", "model.safetensors", "best/model.safetensors", "last/model.safetensors"):
        again = fr.load(tmp_path / file)
        for given in (data[0], tuple(data[0].values())):
            found = again.predict(given)
            assert list(found) == ["r"]
            np.testing.assert_allclose(found["r"].numpy(), expected, rtol=1e-6, atol=1e-6, err_msg=file)


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)

    def forward(self, u, v=None):
        return self.a(u if v is None else u - v)


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("size", [2, 4])
def test_batches_of_several_inputs_are_those_of_optional_parameters_too(kind, size):
    random = np.random.default_rng(0)
    u, v, y = random.normal(size=(12, 4)).astype("f4"), random.normal(size=(12, 4)).astype("f4"), random.integers(0, 3, 12)
    batches = [(kind([u[i:i + size], v[i:i + size]]), y[i:i + size]) for i in range(0, 12, size)]
    fr.random.seed(0)
    net = Optional()
    expected = net.evaluate((u, v), y, loss="cross_entropy")
    assert net.evaluate(batches, loss="cross_entropy") == pytest.approx(expected, rel=1e-5)
    history = net.fit(batches, validation_data=batches, verbose=0, lr=0.0).history
    assert history["val_loss"][0] == pytest.approx(expected["loss"], rel=1e-5) == history["loss"][0]


class OfNumbersAndTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.o = nn.Linear(3, 4), nn.Embedding(7, 4), nn.Linear(4, 2)

    def forward(self, x, k):
        return self.o(fr.relu(self.a(x)) + self.b(k))


def test_a_network_with_tokens_among_numbers_is_verified(tmp_path):
    random = np.random.default_rng(0)
    x, k = random.normal(size=(64, 3)).astype("f4"), random.integers(0, 7, 64)
    net = OfNumbersAndTokens()
    net.fit((x, k), np.arange(64) % 2, verbose=0)
    net.save(tmp_path / "net.safetensors")
    found = fr.verify(tmp_path / "net.safetensors", quiet=True)
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert found["passed"] and states["forward"] == states["batch"] == "pass", states


def test_names_of_classes_among_several_targets_are_refused_by_target():
    x, names = np.zeros((8, 4), "f4"), np.array(["a", "b"] * 4)
    for given in (names, names.astype(object)):
        with pytest.raises(TypeError, match=r"fit: y\['kind'\]: expected numbers, got texts: names of classes are for one target"):
            nn.Linear(4, 2).fit(x, {"kind": given, "v": x[:, :1]}, loss={"kind": "cross_entropy", "v": "mse"}, verbose=0)


def test_weights_of_an_evaluation_leave_figures_of_fit_that_are_without_weights():
    random = np.random.default_rng(0)
    x, y, w = random.normal(size=(40, 3)).astype("f4"), np.arange(40) % 2, random.uniform(size=40)
    net = nn.Linear(3, 2)
    net.fit(x, y, validation_data=(x, y), metric="f1", metrics=["mcc"], verbose=0)
    assert {"mcc", "f1", "accuracy"} <= set(net.evaluate(x, y))
    found = net.evaluate(x, y, sample_weight=w)
    assert set(found) == {"loss", "accuracy"}
    right = np.asarray(net.predict(x)).argmax(1) == y
    assert found["accuracy"] == pytest.approx(np.average(right, weights=w), rel=1e-5)
    with pytest.raises(ValueError, match="mcc compares all predictions without weights"):
        net.evaluate(x, y, sample_weight=w, metrics=["mcc"])
