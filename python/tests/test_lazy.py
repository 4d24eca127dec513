"""Layers whose number of inputs follows from their first call."""
import copy
import pickle

import numpy as np
import pytest

import freight as fr
from freight import nn, optim

RNG = np.random.default_rng(0)
X = RNG.integers(0, 255, (32, 3, 8, 8)).astype("u1")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.5)
        self.fc = nn.LazyLinear(5, bias=False)

    def forward(self, x):
        return self.fc(fr.reshape(self.drop(self.conv(x)), (x.shape[0], -1)))


@pytest.mark.parametrize("use", ["call", "fit", "evaluate", "predict", "save", "summary"])
def test_the_first_use_makes_them(use, tmp_path):
    net = Net()
    assert "LazyLinear(5, bias=False)" in repr(net)
    {"call": lambda: net(X.astype("f4")), "fit": lambda: net.fit(X, np.arange(32) % 5, verbose=0), "evaluate": lambda: net.evaluate(X, np.arange(32) % 5),
     "predict": lambda: net.predict(X), "save": lambda: net.save(tmp_path / "m.safetensors", input_shape=(3, 8, 8)),
     "summary": lambda: net.summary((3, 8, 8))}[use]()
    assert type(net.fc) is nn.Linear and net.fc.weight.shape == (5, 64) and net.fc.bias is None and type(net.conv[0]) is nn.Conv2d
    assert net.fc.training == net.drop.training == net.conv[1].training == net.training
    assert net.predict(X).shape == (32, 5) and len(list(net.parameters())) == 5


def test_statistics_are_those_of_one_call():
    fr.random.seed(1)
    net = nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyLinear(2), nn.BatchNorm1d(2))
    x = fr.random.normal((16, 3), mean=2.0)
    net(x)
    np.testing.assert_allclose(np.asarray(net[0].running_mean), 0.1 * np.asarray(fr.mean(x, axis=0)), rtol=1e-5)
    assert np.abs(np.asarray(net[2].running_mean)).max() > 0


def test_before_that_they_say_what_to_do():
    net = Net()
    for call in (lambda: optim.Adam(net), lambda: net.state_dict(), lambda: list(net.parameters()), lambda: net.load_state_dict({}), lambda: net.to("cpu"), lambda: fr.value_and_grad(lambda n, x: fr.mean(n(x)))(net, X.astype("f4")),
                 lambda: fr.jit(lambda x: net(x))(X.astype("f4"))):
        with pytest.raises(RuntimeError, match=r"the number of its inputs is not known yet: call the network with a batch first, net\(x\), outside of jit"):
            call()
    with pytest.raises(RuntimeError, match=r"^conv.0 \(LazyConv2d\) and 2 others: .*, or give the number: nn.Conv2d$"):
        net.state_dict()
    again, twin = pickle.loads(pickle.dumps(net)), copy.deepcopy(net)
    assert again(X.astype("f4")).shape == twin(X.astype("f4")).shape == (32, 5) and type(net.fc) is nn.LazyLinear


@pytest.mark.parametrize("kind, shape, made", [
    ("LazyConv1d", (2, 3, 9), (4, 3)), ("LazyConv3d", (2, 3, 5, 5, 5), (4, 3)), ("LazyConvTranspose1d", (2, 3, 9), (4, 3)), ("LazyConvTranspose2d", (2, 3, 9, 9), (4, 3)),
    ("LazyConvTranspose3d", (2, 3, 5, 5, 5), (4, 3)), ("LazyInstanceNorm2d", (2, 3, 5, 5), ()), ("LazyBatchNorm3d", (2, 3, 4, 4, 4), ())])
def test_each_becomes_the_layer_of_its_name(kind, shape, made):
    layer = getattr(nn, kind)(*made)
    same = getattr(nn, kind[4:])(shape[1], *made)
    assert layer(fr.ones(shape)).shape == same(fr.ones(shape)).shape and repr(layer) == repr(same)


def test_the_summary_has_what_is_known():
    net = nn.Sequential(nn.Linear(4, 2), nn.LazyLinear(3))
    assert net.summary().splitlines()[1:] == ["0      Linear              10", "1      LazyLinear           ?",
                                              "10 parameters and those of 1 lazy layer, which the first call makes"]
    assert "LazyLinear" in net._repr_html_()
    net(fr.ones((2, 4)))
    assert net.summary().splitlines()[1:] == ["0      Linear          10", "1      Linear           9", "19 parameters"]


def test_they_may_be_frozen_before_their_first_call():
    net = nn.Sequential(nn.Linear(4, 2), nn.LazyBatchNorm1d(), nn.LazyLinear(3), nn.LazyLinear(3))
    assert net.requires_grad_(False) is net and not any(p.requires_grad for p in net[0].parameters())
    net[3].requires_grad_()
    before = net.summary()
    net(fr.ones((2, 4)))
    assert [name for name, p in net.named_parameters() if p.requires_grad] == ["3.weight", "3.bias"] and before != net.summary()
    net.fit(RNG.normal(size=(8, 4)).astype("f4"), np.arange(8) % 3, verbose=0)


def test_layers_of_padding_keep_their_modes_beside_them():
    net = nn.Sequential(nn.ReflectionPad2d(1), nn.CircularPad2d(1), nn.Flatten(), nn.LazyLinear(3)).eval()
    x = RNG.normal(size=(2, 3, 4, 4)).astype("f4")
    y = net(fr.asarray(x))
    padded = np.pad(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect"), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="wrap")
    np.testing.assert_allclose(y.numpy(), padded.reshape(2, -1) @ net[3].weight.numpy().T + net[3].bias.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("modes", [("eval",), ("train",), ("eval", "train"), ("train", "conv eval"), ("eval", "conv train")])
def test_modes_may_be_set_before_they_are_made(modes):
    net, made = Net(), Net()
    made(X.astype("f4"))
    for n in (net, made):
        for mode in modes:
            getattr(n.conv if mode.startswith("conv") else n, mode.rpartition(" ")[2])()
    expected = [m.training for m in made.modules()]
    assert net.training == made.training
    net(X.astype("f4"))
    assert [m.training for m in net.modules()] == expected
