"""Attributes of modules that forward reads: what keeps a trace follows their changes."""
import dataclasses
import types

import numpy as np
import pytest

import freight as fr
from freight import nn


TRACES = []


@dataclasses.dataclass
class Options:
    power: float = 1.0


class Scaled(nn.Module):
    level = 0.0

    def __init__(self):
        super().__init__()
        self.fc, self.inner = nn.Linear(4, 2), Inner()
        self.temperature, self.shift, self.of_numpy, self.heads = 1.0, fr.zeros(2), np.zeros(2), [1.0, 2.0]
        self._by_name, self.options, self.space, self.activation = {"a": (1.0,)}, Options(), types.SimpleNamespace(x=0.0), fr.tanh
        self.large = fr.zeros((600, 600))
        self.mask = None

    def forward(self, x):
        TRACES.append(1)  # and once per call of the module itself
        if self.mask is None:
            self.mask = fr.ones(2)
        y = self.activation(self.inner(self.fc(x)) ** self.options.power / self.temperature * self.heads[0] * self._by_name["a"][0])
        return (y + self.shift * 2 + fr.astype(fr.asarray(self.of_numpy), fr.float32) + self.space.x + self.level + self.large[0, :2]) * self.mask


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = 1.0

    def forward(self, x):
        return fr.abs(x) + self.offset


def replace_large(net):
    net.large = net.large + 1


CHANGES = {
    "number": lambda n: setattr(n, "temperature", 4.0), "array": lambda n: setattr(n, "shift", fr.asarray([5.0, 0.0])),
    "array in place": lambda n: n.shift.__setitem__(0, 3.0), "NumPy": lambda n: setattr(n, "of_numpy", np.array([5.0, 0.0])),
    "NumPy in place": lambda n: n.of_numpy.__setitem__(0, 5.0), "list": lambda n: n.heads.__setitem__(0, 9.0),
    "dict": lambda n: n._by_name.update(a=(3.0,)), "dataclass": lambda n: setattr(n.options, "power", 2.0),
    "namespace": lambda n: setattr(n.space, "x", 7.0), "function": lambda n: setattr(n, "activation", fr.exp),
    "class": lambda n: setattr(type(n), "level", n.level + 2.0), "module below": lambda n: setattr(n.inner, "offset", 3.0), "large array": replace_large,
}
X = np.random.default_rng(0).normal(size=(8, 4)).astype("f4")


@pytest.mark.parametrize("how", ["predict", "jit", "jit of a closure", "jit of a part", "jit of a gradient"])
def test_an_assignment_to_a_module_of_plain_attributes_is_seen(how):
    net, x = Inner(), fr.asarray(X)
    whole = nn.Sequential(nn.Flatten(), net)
    compiled, closing, of_part = fr.jit(lambda net, x: net(x)), fr.jit(lambda x: net(x)), fr.jit(lambda x: whole(x))
    of_gradient = fr.jit(lambda x: fr.grad(lambda factor: fr.sum(net(x) * factor))(fr.ones(X.shape)))
    call = {"jit": lambda: compiled(net, x), "jit of a closure": lambda: closing(x), "jit of a part": lambda: of_part(x),
            "jit of a gradient": lambda: of_gradient(x)}.get(how, lambda: net.predict(X))
    for offset in (1.0, 3.0, 3.0, 5.0, 1.0):
        net.offset = offset
        np.testing.assert_allclose(call().numpy(), np.abs(X) + offset, rtol=1e-6)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["predict", "predict after fit", "jit", "jit in a list", "jit of a closure"])
def test_a_change_of_an_attribute_is_seen(change, how):
    net = Scaled()
    if how == "predict after fit":
        net.fit(X, np.arange(8) % 2, epochs=1, verbose=0)
    compiled = fr.jit({"jit in a list": lambda x, parts: parts[0](x), "jit of a closure": lambda x: net(x)}.get(how, lambda x, net: net(x)))
    modules = {"jit": [net], "jit in a list": [[net]]}.get(how, [])
    call = (lambda: compiled(fr.asarray(X), *modules)) if "jit" in how else lambda: net.predict(X)
    before = call().numpy()
    net.eval()
    np.testing.assert_allclose(before, net(X).numpy(), rtol=1e-5, atol=1e-6)
    calls = len(TRACES)
    assert call().shape == call().shape == before.shape
    assert len(TRACES) == calls  # nothing has changed, and nothing is traced
    CHANGES[change](net)
    expected = net(X).numpy()
    assert np.abs(expected - before).max() > 1e-2
    np.testing.assert_allclose(call().numpy(), expected, rtol=1e-5, atol=1e-6)
    calls = len(TRACES)
    call()
    assert len(TRACES) == calls
    if "jit" in how:
        assert compiled.recompilations == ["other attributes of a module"]


class Annealed(fr.callbacks.Callback):
    def __init__(self, change, each_step):
        self.change, self.each_step = change, each_step

    def on_train_batch_end(self, step, logs):
        if self.each_step:
            self.change(self.model, logs["total_step"])

    def on_epoch_end(self, epoch, logs):
        if not self.each_step:
            self.change(self.model, epoch)


class Weighed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.factor, self.factors, self.array = nn.Linear(4, 1, bias=False), 1.0, {"a": [1.0]}, fr.ones(1)

    def forward(self, x, y=None):
        return self.fc(x if y is None else x + y) * self.factor * self.factors["a"][0] * self.array


@pytest.mark.parametrize("change", [lambda n, t: setattr(n, "factor", t + 1.0), lambda n, t: n.factors["a"].__setitem__(0, t + 1.0),
                                    lambda n, t: setattr(n, "array", fr.asarray([t + 1.0]))], ids=["number", "nested", "array"])
@pytest.mark.parametrize("each_step", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_fit_sees_what_a_callback_has_changed(change, each_step, several):
    net, y = Weighed(), np.zeros((8, 1), "f4")
    net.fc.weight = fr.ones((1, 4))
    x, once = (X, X * 0) if several else X, (X.sum(1) ** 2).mean()
    history = net.fit(x, y, epochs=3, batch_size=8, lr=0.0, verbose=0, validation_data=(x, y), callbacks=[Annealed(change, each_step)]).history
    np.testing.assert_allclose(history["loss"], [once, 4 * once, 9 * once], rtol=1e-4)
    # An epoch is validated behind its last step, and in front of on_epoch_end.
    np.testing.assert_allclose(history["val_loss"], [k * k * once for k in ((2, 3, 4) if each_step else (1, 2, 3))], rtol=1e-4)


def test_a_callback_that_changes_attributes_in_many_steps_is_warned():
    with pytest.warns(UserWarning, match="have changed attributes of the module 64 times, and the step was compiled anew each time: nn.Buffer"):
        Weighed().fit(X, np.zeros((8, 1), "f4"), epochs=70, batch_size=8, verbose=0,
                      callbacks=[Annealed(lambda n, t: setattr(n, "factor", 1.0 / t), False)])


class Holding(nn.Module):
    """Layers and parameters that forward takes from containers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4)})
        self.scales, self.shifts = nn.ParameterList([nn.Parameter(fr.ones(4))]), nn.ParameterDict({"a": nn.Parameter(fr.zeros(4))})

    def forward(self, x):
        for layer in (*self.layers, *self.named.values()):
            x = fr.tanh(layer(x))
        for scale in self.scales:
            x = x * scale
        return x + sum(self.shifts.values())


PARTS = {
    "an item of a list": lambda n: n.layers.__setitem__(1, nn.Linear(4, 4)), "one more": lambda n: n.layers.append(nn.Linear(4, 4)),
    "one less": lambda n: n.layers.__delitem__(0), "an item of a dict": lambda n: n.named.__setitem__("a", nn.Linear(4, 4)),
    "a new key": lambda n: n.named.__setitem__("b", nn.Linear(4, 4)), "one more parameter": lambda n: n.scales.append(nn.Parameter(fr.full(4, 2.0))),
    "a parameter": lambda n: n.scales.__setitem__(0, nn.Parameter(fr.full(4, 3.0))),
    "a parameter by name": lambda n: n.shifts.__setitem__("b", nn.Parameter(fr.full(4, 3.0))),
    "the list": lambda n: setattr(n, "layers", nn.ModuleList([nn.Linear(4, 4)])),
}


@pytest.mark.parametrize("change", PARTS)
@pytest.mark.parametrize("how", ["predict", "jit", "jit of a closure", "jit of a gradient"])
def test_a_change_of_what_containers_hold_is_seen(change, how):
    net, x = Holding(), fr.asarray(X)
    compiled, closing = fr.jit(lambda net, x: net(x)), fr.jit(lambda x: net(x))
    of_gradient = fr.jit(lambda x: fr.value_and_grad(lambda net: fr.sum(net(x) ** 2))(net)[0])
    call, expected = {"predict": (lambda: net.predict(X), lambda: net(x)), "jit": (lambda: compiled(net, x), lambda: net(x)),
                      "jit of a closure": (lambda: closing(x), lambda: net(x)),
                      "jit of a gradient": (lambda: of_gradient(x), lambda: fr.sum(net(x) ** 2))}[how]
    for _ in range(2):
        before = call().numpy()
        np.testing.assert_allclose(before, expected().numpy(), rtol=1e-5, atol=1e-6)
    PARTS[change](net)
    assert np.abs(expected().numpy() - before).max() > 1e-2
    for _ in range(2):
        np.testing.assert_allclose(call().numpy(), expected().numpy(), rtol=1e-5, atol=1e-6)


def test_parts_that_are_frozen_or_trained_again_are_seen():
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), fr.asarray(X)
    by_argument = fr.jit(fr.value_and_grad(lambda net, x: fr.sum(net(x) ** 2)))
    by_closure = fr.jit(lambda x: fr.value_and_grad(lambda net: fr.sum(net(x) ** 2))(net))
    for frozen in (0, 2, None, 0):
        net.requires_grad_(True)
        if frozen is not None:
            net[frozen].requires_grad_(False)
        for gradients in (by_argument(net, x)[1], by_closure(x)[1]):
            assert list(gradients) == [f"{i}.{name}" for i in (0, 2) if i != frozen for name in ("weight", "bias")]


class Sets(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {1, 2}

    def forward(self, x):
        return x * len(self.known)


def test_a_change_inside_of_a_set_is_seen():
    net, x = Sets(), fr.asarray(X)
    compiled = fr.jit(lambda x: net(x))
    for count in (2, 3, 4):
        np.testing.assert_array_equal(compiled(x).numpy(), X * count)
        net.known.add(count + 1)
