"""Optimizers and parameters that have no gradient."""
import numpy as np
import pytest

import freight as f
from freight import nn, optim


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x), self.b(x)


X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = X[:, :2] * 2


@pytest.mark.parametrize("settings", [
    {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1, "clip_grad_norm": 1.0}, {"grad_accum": 2, "weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "model_ema": 0.9}, {"precision": "fp16", "weight_decay": 0.1}, {"devices": 2, "weight_decay": 0.1}], ids=str)
def test_fit_leaves_alone_what_the_loss_does_not_use(settings, tmp_path):
    f.random.seed(1)
    net, other = TwoHeads(), nn.Linear(3, 2)
    other.load_state_dict(net.a.state_dict())
    before = net.b.weight.numpy(), net.b.bias.numpy()
    with pytest.warns(UserWarning, match="fit: the loss does not use, and training does not change: b.weight, b.bias"):
        history = net.fit(X, Y, loss=lambda o, t: f.mse_loss(o[0], t), batch_size=4, epochs=3, lr=0.05, seed=2, verbose=0, **settings)
    assert np.array_equal(net.b.weight, before[0]) and np.array_equal(net.b.bias, before[1])
    assert history.history["loss"][-1] < history.history["loss"][0] and all(p.requires_grad for p in net.parameters())
    other.fit(X, Y, loss=lambda o, t: f.mse_loss(o, t), batch_size=4, epochs=3, lr=0.05, seed=2, verbose=0, **settings)
    assert np.allclose(net.a.weight, other.weight, rtol=1e-5, atol=1e-6)


def test_fit_of_a_loss_that_uses_no_parameter_is_an_error():
    with pytest.raises(ValueError, match="the loss does not depend on parameter 'a.weight'"):
        TwoHeads().fit(X, Y, loss=lambda o, t: f.mean(t) + 0 * f.mean(f.stop_gradient(o[0])), verbose=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_update_leaves_alone_what_has_no_gradient(compiled):
    net = TwoHeads()
    before = net.b.weight.numpy()
    optimizer = optim.AdamW(net, lr=0.1, weight_decay=0.5)

    def step(x, y):
        loss, grads = f.value_and_grad(lambda net: f.mse_loss(net(x)[0], y))(net)
        assert grads["b.weight"] is None and grads["a.weight"] is not None
        optimizer.update(grads)
        return loss

    step = f.jit(step) if compiled else step
    losses = [step(f.asarray(X), f.asarray(Y)).item() for _ in range(20)]
    assert losses[-1] < losses[0] and np.array_equal(net.b.weight, before) and not np.array_equal(net.a.weight, before)
    unused = f.grad(lambda x, y: f.sum(x), argnums=(0, 1))(f.ones(2), f.ones(3))
    assert unused[1].tolist() == [0, 0, 0]  # of arrays
    with pytest.raises(TypeError, match="update: expected gradients as freight.Array, or None, got str"):
        optimizer.update({"a.weight": "x", "a.bias": None, "b.weight": None, "b.bias": None})


def test_gradients_of_a_frozen_network_are_an_error_that_says_so():
    net = nn.Linear(3, 2).requires_grad_(False)
    with pytest.raises(ValueError, match=r"grad: Linear has no trained parameters: .*requires_grad_\(True\)"):
        f.value_and_grad(lambda net: f.sum(net(f.ones((1, 3)))))(net)
