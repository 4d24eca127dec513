"""NumPy's functions that the array API standard lacks, and NumPy's forms of calls."""
import numpy as np
import pytest

import freight as fr
from freight import nn

X = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")


@pytest.mark.parametrize("call", [
    lambda m, x: m.median(x), lambda m, x: m.median(x, axis=0), lambda m, x: m.median(x, axis=1, keepdims=True), lambda m, x: m.median(x, keepdims=True),
    lambda m, x: m.diag(x[0]), lambda m, x: m.diag(x[0], 1), lambda m, x: m.diag(x[0], -2), lambda m, x: m.diag(x), lambda m, x: m.diag(x, 1),
    lambda m, x: m.pad(x, ((1, 2), (0, 3))), lambda m, x: m.pad(x, 1), lambda m, x: m.pad(x, (1, 2)), lambda m, x: m.squeeze(x[None, :, None]),
    lambda m, x: m.where(x > 0), lambda m, x: m.where(x > 0, x, 0), lambda m, x: m.isclose(x, x + 1e-6), lambda m, x: m.isclose(x / 0, x / 0),
    lambda m, x: m.isclose(x * m.nan, x, equal_nan=True), lambda m, x: m.isclose(x * m.nan, x * m.nan, equal_nan=True), lambda m, x: round(x.mean(), 3)])
def test_values_are_numpys(call):
    with np.errstate(all="ignore"):
        expected = call(np, X)
    found = call(fr, fr.asarray(X))
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
    for a, b in zip(found, expected) if isinstance(expected, tuple) else ((found, expected),):
        assert np.asarray(a).shape == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)


def test_arrays_are_compared_as_a_whole():
    x = fr.asarray(X)
    assert fr.allclose(x, X + 1e-7) and not fr.allclose(x, X + 1) and fr.allclose([1.0, fr.nan], [1.0, fr.nan], equal_nan=True)
    assert not fr.allclose([fr.inf], [1.0]) and fr.allclose([fr.inf], [fr.inf])
    assert fr.array_equal(x, X) and not fr.array_equal(x, X[:2]) and not fr.array_equal([1, 2], [1, 3])


def test_the_shape_behind_the_numbers_is_refused():
    for call, name in ((lambda: fr.random.uniform(0, 1, (2, 3)), "uniform"), (lambda: fr.random.normal(0, 1, (2, 3)), "normal")):
        with pytest.raises(TypeError, match=rf"^{name}: expected the shape first, {name}\(\(2, 3\), ...\), got (high|std)=\(2, 3\)"):
            call()
    with pytest.raises(TypeError, match="where: expected x2 with x1"):
        fr.where(fr.ones(2) > 0, fr.ones(2))


def test_a_number_has_a_derivative():
    assert float(fr.grad(lambda w: w**2)(3.0)) == 6.0
    value, (a, b) = fr.value_and_grad(lambda a, b: a * b, argnums=(0, 1))(2.0, 5.0)
    assert (float(value), float(a), float(b)) == (10.0, 5.0, 2.0)


def test_parameters_in_lists_and_dicts_are_trained():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterList([nn.Parameter(fr.ones(3)), fr.full((3,), 2.0)])
            self.named = nn.ParameterDict({"bias": fr.zeros(3)})

        def forward(self, x):
            for scale in self.scales:
                x = x * scale
            return x + self.named["bias"]

    net, x = Net(), fr.ones((2, 3))
    assert list(net.state_dict()) == ["scales.0", "scales.1", "named.bias"] and len(net.scales) == 2 and "bias" in net.named and list(net.named) == ["bias"]
    grads = fr.grad(lambda n, x: fr.sum(n(x)))(net, x)
    assert {name: g.tolist() for name, g in grads.items()} == {"scales.0": [4.0] * 3, "scales.1": [2.0] * 3, "named.bias": [2.0] * 3}
    net.scales[-1], net.named["bias"] = fr.ones(3), fr.ones(3)
    net.scales.append(fr.full((3,), 3.0))
    assert net(x)[0].tolist() == [4.0] * 3 and [v.tolist() for v in net.named.values()] == [[1.0] * 3]
    with pytest.raises(IndexError):
        net.scales[3]
