"""fit(optimizer=optim.AdamW(net, ...)): the run goes on with an optimizer that the program has made."""
import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn, optim

X = np.random.default_rng(0).normal(size=(320, 4)).astype("f4")
Y = (X[:, 0] > 0).astype(int)


def made():
    fr.random.seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def weights(net):
    return b"".join(np.asarray(v).tobytes() for v in net.state_dict().values())


@pytest.mark.parametrize("name, settings", [("sgd", {"momentum": 0.9, "nesterov": True}), ("adam", {}), ("adamw", {"weight_decay": 0.1}), ("lion", {}),
                                            ("rmsprop", {}), ("adam", {"clip_grad_norm": 0.1})])
def test_it_trains_as_the_one_of_its_name(name, settings):
    kinds = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW, "lion": optim.Lion, "rmsprop": optim.RMSprop}
    common = {"epochs": 2, "batch_size": 32, "verbose": 0, "lr_scheduler": "cosine"}
    named, own = made(), made()
    usual = {"weight_decay": 0.0, **({"momentum": 0.9} if name == "sgd" else {})}
    named.fit(X, Y, optimizer=name, lr=0.02, **{**usual, **settings}, **common)
    history = own.fit(X, Y, optimizer=kinds[name](own, lr=0.02, **{k: v for k, v in {**usual, **settings}.items()}), **common)
    assert weights(named) == weights(own) and history.history["lr"][0] < 0.02


def test_its_moments_go_on_from_one_fit_to_the_next_and_into_a_loop():
    net = made()
    optimizer = optim.Adam(net, lr=0.01)
    for _ in range(2):
        net.fit(X, Y, optimizer=optimizer, epochs=1, batch_size=32, verbose=0)
    assert float(optimizer.state_dict()["step"]) == 20 and optimizer.lr == pytest.approx(0.01)
    fr.jit(lambda x, y: optimizer.update(fr.grad(lambda n: fr.cross_entropy(n(x), y))(net)))(fr.asarray(X), fr.asarray(Y))
    assert float(optimizer.state_dict()["step"]) == 21


def test_groups_keep_their_rates_and_frozen_layers_their_weights():
    net = made()
    for p in net[2].parameters():
        p.requires_grad = False
    before = [np.asarray(p.value) for p in net[2].parameters()]
    groups = optim.SGD([{"params": net[0].parameters(), "lr": 0.0}, {"params": net[2].parameters()}], lr=0.1)
    first = np.asarray(net[0].weight)
    net.fit(X, Y, optimizer=groups, epochs=1, verbose=0)
    np.testing.assert_array_equal(first, np.asarray(net[0].weight))
    np.testing.assert_array_equal(before[0], np.asarray(net[2].weight))
    net.requires_grad_(True)
    net.fit(X, Y, optimizer=groups, epochs=1, verbose=0)
    assert np.array_equal(first, np.asarray(net[0].weight)) and not np.array_equal(before[0], np.asarray(net[2].weight))


def test_a_run_is_resumed_bitwise(tmp_path):
    class Stop(callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            return epoch == 2

    def run(net, name, heard=(), **settings):
        net.fit(X, Y, optimizer=optim.Adam(net, lr=0.01, betas=(0.8, 0.9)), epochs=4, verbose=0, output_dir=tmp_path / name, callbacks=heard, **settings)
        return weights(net)

    whole = run(made(), "whole")
    run(made(), "part", [Stop()])
    assert run(made(), "part", resume=True) == whole


def test_what_it_has_itself_is_refused_beside_it():
    net = made()
    with pytest.raises(TypeError, match=r"fit: weight_decay: expected none beside optimizer=Adam\(...\), which has its own, got 0.1"):
        net.fit(X, Y, optimizer=optim.Adam(net), weight_decay=0.1, verbose=0)
    with pytest.raises(TypeError, match="or an optimizer of the module"):
        net.fit(X, Y, optimizer=optim.Adam, verbose=0)
    rates = []

    class Rates(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            rates.append(logs["lr"])

    net.fit(X, Y, optimizer=optim.Adam(net), callbacks=[callbacks.LearningRate(optim.linear(0.1, 10)), Rates()], batch_size=32, verbose=0)
    assert rates == pytest.approx([optim.linear(0.1, 10)(i) for i in range(10)])


class Split(nn.Module):
    """Frozen convolutions, whose results fit keeps, and a head."""

    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten()), nn.Linear(256, 3)

    def forward(self, x):
        return self.head(self.features(x))


@pytest.mark.parametrize("cache", ["memory", "off"])
def test_an_optimizer_may_have_frozen_parameters(cache):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(96, 1, 8, 8)).astype("f4"), rng.integers(0, 3, 96)
    found = []
    for parameters in (lambda net: net, lambda net: net.head):
        fr.random.seed(0)
        net = Split()
        net.features.requires_grad_(False)
        before = net.features[0].weight.tolist()
        history = net.fit(x, y, optimizer=optim.Adam(parameters(net), lr=1e-2), epochs=2, verbose=0, feature_cache=cache)
        assert net.features[0].weight.tolist() == before
        found.append(history.history["loss"])
    assert found[0] == found[1]


def test_an_optimizer_of_another_module_is_an_error():
    with pytest.raises(ValueError, match="fit: optimizer: expected parameters of this Sequential, the Adam has some of another module"):
        made().fit(X, Y, optimizer=optim.Adam(made()), verbose=0)


@pytest.mark.parametrize("schedule", ["cosine", "onecycle", "step"])
def test_a_schedule_begins_anew_with_each_fit(schedule):
    net = made()
    optimizer = optim.SGD(net, lr=0.1)
    rates = [net.fit(X, Y, optimizer=optimizer, lr_scheduler=schedule, epochs=3, batch_size=64, verbose=0).history["lr"] for _ in range(2)]
    assert rates[0] == rates[1] and rates[0][-1] < rates[0][0]
    optimizer.lr = 0.05
    halved = net.fit(X, Y, optimizer=optimizer, lr_scheduler=schedule, epochs=3, batch_size=64, verbose=0).history["lr"]
    np.testing.assert_allclose(halved, np.asarray(rates[0]) / 2, rtol=1e-4)


class Thaws(callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        self.model[0].requires_grad_(True)


def test_parameters_that_a_callback_thaws_are_trained_or_refused():
    net = made()
    net[0].requires_grad_(False)
    before = net[0].weight.numpy()
    with pytest.raises(ValueError, match="a callback has set requires_grad of 0.weight, which was frozen at the start of the run"):
        net.fit(X, Y, lr=0.1, epochs=3, verbose=0, callbacks=[Thaws()])
    np.testing.assert_array_equal(net[0].weight.numpy(), before)
    net[0].requires_grad_(False)
    net.fit(X, Y, optimizer=optim.SGD(net, lr=0.1), epochs=3, verbose=0, callbacks=[Thaws()])
    assert np.abs(net[0].weight.numpy() - before).max() > 1e-3


@pytest.mark.parametrize("moved", [{"flip": True}, {"crop_padding": 2}, {"shift": 1}])
def test_what_moves_pixels_is_refused_beside_targets_of_pixels(moved):
    x = np.random.default_rng(0).normal(size=(8, 1, 8, 8)).astype("f4")
    with pytest.raises(ValueError, match=f"fit: {next(iter(moved))}: moves the pixels of x and not those of y float32"):
        nn.Conv2d(1, 1, 1).fit(x, x, verbose=0, **moved)
    with pytest.raises(ValueError, match="moves the pixels of x and not those of y int32"):
        nn.Conv2d(1, 2, 1).fit(x, np.zeros((8, 8, 8), int), verbose=0, **moved)
