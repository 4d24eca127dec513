"""Parameters as operands, and nn.init: what PyTorch's programs do with `net.parameters()` and `layer.weight`."""
import math

import numpy as np
import pytest

import freight as fr
from freight import nn


def made():
    fr.random.seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_operators_and_functions_take_the_value():
    net = made()
    p, w = next(net.parameters()), np.asarray(net[0].weight)
    for got, expected in ((p**2, w**2), (2 * p, 2 * w), (-p, -w), (p - 1, w - 1), (1 - p, 1 - w), (p @ p.T, w @ w.T), (p[0], w[0]), (abs(p), abs(w)),
                          (fr.sum(p, axis=0), w.sum(0)), (fr.exp(p), np.exp(w)), (fr.mean(p), w.mean()), (fr.linalg.norm(p), np.linalg.norm(w)),
                          (fr.reshape(p, (-1,)), w.reshape(-1)), (fr.concat([p, p]), np.concatenate([w, w])), (p > 0, w > 0), (fr.where(p > 0, p, 0), np.where(w > 0, w, 0))):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-6)
    assert len(p) == 4 and bool(fr.all(p == net[0].weight)) and len({p, p}) == 1 and [float(v) for v in p[0]] == w[0].tolist()


def test_a_penalty_on_parameters_has_a_gradient():
    net = made()
    for penalty in (lambda n: sum(fr.sum(p**2) for p in n.parameters()), lambda n: sum((p * p).sum() for _, p in n.named_parameters())):
        for grads in (fr.grad(penalty)(net), fr.jit(lambda: fr.grad(penalty)(net))()):
            for name, p in net.named_parameters():
                np.testing.assert_allclose(np.asarray(grads[name]), 2 * np.asarray(p), rtol=1e-6)


def test_parameters_are_frozen_one_by_one():
    net = made()
    for p in net[0].parameters():
        assert p.requires_grad_(False) is p
    assert [name for name, p in net.named_parameters() if p.requires_grad] == ["2.weight", "2.bias"]


def test_assignments_change_the_parameter():
    net, x = made(), fr.ones((5, 3))
    before = {name: np.asarray(p) for name, p in net.named_parameters()}
    grads = fr.grad(lambda n: fr.mean(n(x) ** 2))(net)
    for name, p in net.named_parameters():
        p -= 0.5 * grads[name]
    for name, v in net.state_dict().items():
        np.testing.assert_allclose(np.asarray(v), before[name] - 0.5 * np.asarray(grads[name]), rtol=1e-5, atol=1e-7)
    bias = dict(net.named_parameters())["0.bias"]
    bias[1] = 7.0
    bias *= 2
    assert float(net[0].bias[1]) == 14.0
    step = fr.jit(lambda: [p.__isub__(p) for p in net.parameters()] and None)
    step()
    assert not any(np.any(np.asarray(v)) for v in net.state_dict().values())


# PyTorch's formulas: the bound of uniform numbers, or their standard deviation, of a weight (300, 200) and a convolution.
@pytest.mark.parametrize("function, settings, bound, std", [
    ("uniform_", {"a": -0.5, "b": 0.5}, 0.5, None), ("normal_", {"std": 0.02}, None, 0.02), ("xavier_uniform_", {}, math.sqrt(6 / 500), None),
    ("xavier_normal_", {"gain": 2.0}, None, 2 * math.sqrt(2 / 500)), ("kaiming_uniform_", {"nonlinearity": "relu"}, math.sqrt(6 / 200), None),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, None, math.sqrt(2 / 300)), ("kaiming_uniform_", {"a": math.sqrt(5)}, math.sqrt(1 / 200), None),
    ("trunc_normal_", {"std": 0.02, "a": -0.03, "b": 0.03}, 0.03, None)])
def test_initial_values_are_distributed_as_pytorchs(function, settings, bound, std):
    fr.random.seed(1)
    layer = nn.Linear(200, 300)
    given = getattr(nn.init, function)(layer.weight, **settings)
    w = np.asarray(layer.weight)
    np.testing.assert_array_equal(np.asarray(given), w)
    assert abs(w.mean()) < 0.02 * w.std() + 1e-3
    if bound:
        assert 0.98 * bound < np.abs(w).max() <= bound * (1 + 1e-6)
    else:
        assert w.std() == pytest.approx(std, rel=0.02)


def test_initial_values_of_every_kind_of_weight():
    conv = nn.Conv2d(3, 8, 3)
    nn.init.kaiming_uniform_(conv.weight, nonlinearity="relu")
    assert np.abs(np.asarray(conv.weight)).max() <= math.sqrt(6 / 27)
    nn.init.constant_(conv.bias, 0.5)
    assert np.all(np.asarray(conv.bias) == 0.5)
    net = made()
    net.apply(lambda m: (nn.init.orthogonal_(m.weight), nn.init.zeros_(m.bias)) if isinstance(m, nn.Linear) else None)
    w = np.asarray(net[2].weight)
    np.testing.assert_allclose(w @ w.T, np.eye(2), atol=1e-5)
    assert not np.any(np.asarray(net[0].bias))
    for p in net.parameters():
        nn.init.ones_(p)
    assert all(np.all(np.asarray(v) == 1) for v in net.state_dict().values())
    x = fr.zeros((2, 2))
    assert nn.init.eye_(x) is x and float(x[1, 1]) == 1
    with pytest.raises(ValueError, match=r"nn.init: expected a weight of at least two axes, got shape \(3,\)"):
        nn.init.xavier_uniform_(fr.ones(3))
    with pytest.raises(TypeError, match="nn.init: expected a parameter such as layer.weight, or an array, got Linear"):
        nn.init.zeros_(nn.Linear(1, 1))


def test_flatten_joins_the_axes_that_it_is_told():
    x = fr.reshape(fr.arange(24), (2, 3, 4))
    assert x.flatten().shape == (24,) and x.flatten(1).shape == (2, 12) and x.flatten(0, 1).shape == (6, 4) and x.flatten(start_dim=-2).shape == (2, 12)
    np.testing.assert_array_equal(np.asarray(x.flatten(1)), np.asarray(x).reshape(2, 12))
    assert fr.zeros((0, 3, 2)).flatten(1).shape == (0, 6) and fr.asarray(3.0).flatten().shape == (1,)
    assert fr.jit(lambda x: x.flatten(1))(x).shape == (2, 12)


def test_gradients_of_several_modules_have_the_structure_of_the_argument():
    a, b, x = made(), nn.Linear(2, 1), fr.ones((5, 3))
    loss = lambda a, b, x: fr.mean(b(a(x)) ** 2)  # noqa: E731
    value, expected = fr.value_and_grad(loss, argnums=(0, 1))(a, b, x)
    for nested, function in (((a, b), lambda m, x: loss(*m, x)), ([a, b], lambda m, x: loss(*m, x)), ({"a": a, "b": b}, lambda m, x: loss(m["a"], m["b"], x))):
        for call in (fr.value_and_grad(function), lambda m, x, f=function: fr.jit(lambda x: fr.value_and_grad(f)(m, x))(x)):
            found, grads = call(nested, x)
            assert type(grads) is type(nested) and float(found) == pytest.approx(float(value))
            for g, e in zip(grads.values() if isinstance(grads, dict) else grads, expected):
                assert list(g) == list(e)
                for name in e:
                    np.testing.assert_allclose(np.asarray(g[name]), np.asarray(e[name]), rtol=1e-5, atol=1e-7)
    with pytest.raises(TypeError, match="expected modules and arrays as separate arguments"):
        fr.grad(lambda m: fr.sum(m[0](m[1])))((a, x))


def test_draws_follow_the_probabilities_that_are_given():
    fr.random.seed(1)
    p = [0.1, 0.0, 0.6, 0.3]
    found = np.bincount(np.asarray(fr.random.choice(4, (20000,), p=p)), minlength=4) / 20000
    np.testing.assert_allclose(found, p, atol=0.01)
    key = fr.random.key(3)
    np.testing.assert_array_equal(np.asarray(fr.random.choice(4, (9,), p=p, key=key)), np.asarray(fr.jit(lambda p, k: fr.random.choice(4, (9,), p=p, key=k))(fr.asarray(p), key)))
    firsts = np.asarray([int(fr.random.choice(4, (2,), p=p, replace=False)[0]) for _ in range(3000)])
    np.testing.assert_allclose(np.bincount(firsts, minlength=4) / 3000, p, atol=0.03)
    assert fr.random.choice(fr.asarray([[1.0], [2.0]]), p=[0.0, 1.0]).tolist() == [2.0]
    with pytest.raises(ValueError, match=r"choice: p: expected a probability for each of 4, got shape \(2,\)"):
        fr.random.choice(4, p=[0.5, 0.5])


def test_writes_to_what_a_module_gives_change_the_parameter():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = net[0].weight
    net[0].weight = fr.zeros((3, 2))
    weight[0] = 9.0  # of the elements that the parameter has by then
    net[0].weight[1, 1] = 5
    net[0].bias.fill(2)
    net[1].running_mean[1:] = 4
    assert net[0].weight.tolist() == [[9, 9], [0, 5], [0, 0]] and weight.tolist() == [[9, 9], [0, 0], [0, 0]]
    assert net[0].bias.tolist() == [2, 2, 2] and net[1].running_mean.tolist() == [0, 4, 4]
    assert net(fr.zeros((2, 2))).shape == (2, 3) and net.state_dict()["0.weight"].tolist() == net[0].weight.tolist()
    with pytest.raises(IndexError):
        net[0].weight[3] = 1
