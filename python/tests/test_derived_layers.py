"""Classes of a program that are derived from layers and have a forward of their own, which calls the layer's by super()."""
import copy
import pickle

import numpy as np
import pytest

import freight as fr
from freight import nn

X = np.random.default_rng(0).normal(size=(8, 4)).astype("f4")


class Residual(nn.Sequential):
    def __init__(self, *layers):
        super().__init__(*layers)
        self.scale = 1.0

    def forward(self, x):
        return super().forward(x) * self.scale + x


class Scaled(nn.Linear):
    scale = 1.0

    def forward(self, x):
        return super().forward(x) * self.scale + fr.sum(self.weight)


class Last(nn.LSTM):
    def forward(self, x):
        return super().forward(x[:, None])[0][:, -1]


class Attended(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x[:, None], need_weights=False)[0][:, 0]


class Doubled(nn.ReLU):
    def forward(self, x):
        return 2 * super().forward(x)


class Shifted(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x) + 1


def plain(net, x):
    """What the class computes, by layers of the library that have its values."""
    def like(layer):
        layer.load_state_dict(net.state_dict())
        return layer.train(net.training)

    if isinstance(net, Residual):
        return like(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))(x) * net.scale + x
    if isinstance(net, Scaled):
        return like(nn.Linear(4, 3))(x) * net.scale + fr.sum(net.weight)
    if isinstance(net, Last):
        return like(nn.LSTM(4, 3))(x[:, None])[0][:, -1]
    if isinstance(net, Attended):
        return like(nn.MultiheadAttention(4, 2))(x[:, None], need_weights=False)[0][:, 0]
    return 2 * nn.ReLU()(x) if isinstance(net, Doubled) else like(nn.BatchNorm1d(4))(x) + 1


MAKERS = {"Sequential": lambda: Residual(nn.Linear(4, 4), nn.Tanh()), "Linear": lambda: Scaled(4, 3), "LSTM": lambda: Last(4, 3),
          "attention": lambda: Attended(4, 2), "ReLU": Doubled, "BatchNorm": lambda: Shifted(4)}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_forward_of_a_derived_layer_is_called(kind, tmp_path):
    net = MAKERS[kind]().eval()
    x = fr.asarray(X)
    expected = plain(net, x).numpy()
    jitted = fr.jit(lambda net, x: net(x))
    calls = {"call": lambda: net(x), "predict": lambda: net.predict(X), "jit": lambda: jitted(net, x), "part": lambda: nn.Sequential(net).eval()(x),
             "copy": lambda: copy.deepcopy(net)(x), "pickle": lambda: pickle.loads(pickle.dumps(net))(x)}
    for name, call in calls.items():
        np.testing.assert_allclose(call().numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    assert net.save(tmp_path / "net.safetensors", input_shape=(4,))
    np.testing.assert_allclose(fr.load(tmp_path / "net.safetensors").predict(X).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert sorted(net.state_dict()) == sorted(copy.deepcopy(net).state_dict()) and not any(".." in k or k.startswith(".") for k in net.state_dict())


@pytest.mark.parametrize("kind", ["Sequential", "Linear"])
def test_a_derived_layer_is_trained_and_its_attributes_count(kind):
    net = MAKERS[kind]()
    before = net.evaluate(X, X[:, :net.predict(X).shape[1]], loss="mse")["loss"]
    net.fit(X, X[:, :net.predict(X).shape[1]], epochs=30, lr=0.05, batch_size=8, verbose=0)
    assert net.evaluate(X, X[:, :net.predict(X).shape[1]], loss="mse")["loss"] < 0.9 * before
    net.scale = 3.0
    np.testing.assert_allclose(net.predict(X).numpy(), plain(net, fr.asarray(X)).numpy(), rtol=1e-4, atol=1e-5)
    grads = fr.grad(lambda net, x: fr.mean(net(x) ** 2))(net, fr.asarray(X))
    assert all(g is not None and np.abs(g.numpy()).max() > 0 for g in grads.values())
