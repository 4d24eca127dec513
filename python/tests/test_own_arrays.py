"""Traced values in arrays of the host that the traced function has made itself."""
import numpy as np
import pytest

import freight as fr
from freight import nn

X = np.array([0.5, -1.0, 2.0, 3.0], "f4")


def by_elements(x):
    out = fr.zeros(4)
    for i in range(4):
        out[i] = x[i] * (i + 1)
    return out


def by_slices(x):
    out = fr.ones((2, 4))
    out[1, 1:] = x[1:] * 2
    out[:, 0] += x[0]
    return out


def in_place(x):
    out = fr.full(4, 2.0)
    out *= x
    out[::2] -= 1
    out[fr.asarray([True, False, False, True])] = 7
    return out


def by_places(x):
    out = fr.zeros_like(x)
    out[fr.argsort(x)] = fr.arange(4) * x
    view = out[1:3]
    view *= 2
    return out


def added_at_places(x):
    out = fr.ones(4)
    out[fr.asarray([3, 0, 2, 1])] += x
    return out


def by_mask(x):
    out = fr.empty(4)
    out[:] = x
    out[x > 0] = 5
    return out


def by_numpy(function, x):
    """The same with NumPy's arrays."""
    if function is by_elements:
        return x * np.arange(1, 5)
    if function is by_slices:
        out = np.ones((2, 4))
        out[1, 1:], out[:, 0] = x[1:] * 2, 1 + x[0]
        return out
    if function is in_place:
        out = 2 * x
        out[::2] -= 1
        out[[0, 3]] = 7
        return out
    if function is by_places:
        out = np.zeros(4)
        out[np.argsort(x)] = np.arange(4) * x
        out[1:3] *= 2
        return out
    if function is added_at_places:
        return 1 + x[[1, 3, 2, 0]]
    return np.where(x > 0, 5, x)


FUNCTIONS = [by_elements, by_slices, in_place, by_places, added_at_places, by_mask]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_an_array_that_the_function_has_made_takes_traced_values(function):
    expected = by_numpy(function, X)
    compiled = fr.jit(function)
    for x in (X, X[::-1].copy(), X):  # replayed with other values
        np.testing.assert_allclose(compiled(fr.asarray(x)).numpy(), by_numpy(function, x), rtol=1e-6)
    np.testing.assert_allclose(function(fr.asarray(X)).numpy(), expected, rtol=1e-6)
    step = 1e-2
    numeric = [(by_numpy(function, X + step * (np.arange(4) == k)).astype("f8").sum() - by_numpy(function, X - step * (np.arange(4) == k)).astype("f8").sum())
               / (2 * step) for k in range(4)]
    for gradient in (fr.grad(lambda x: fr.sum(function(x))), fr.jit(fr.grad(lambda x: fr.sum(function(x)))), fr.grad(lambda x: fr.sum(compiled(x)))):
        np.testing.assert_allclose(gradient(fr.asarray(X)).numpy(), numeric, rtol=1e-3, atol=1e-3)


OUTSIDE = fr.zeros(4)


def outer(x):
    made = fr.zeros(4)

    def inner(y):
        made[0] = y[0]
        return fr.sum(made)

    return fr.grad(inner)(x)


def leaked(kept=[]):
    def function(x):
        kept.append(fr.zeros(4))
        kept[0][0] = x[0]
        return kept[0]

    return function


def of_numpy(x):
    out = fr.asarray(np.zeros(4, "f4"))
    out[0] = x[0]
    return out


BAD = {
    "item": lambda x: OUTSIDE.__setitem__(0, x[0]), "in place": lambda x: OUTSIDE.__iadd__(x), "view": lambda x: OUTSIDE[1:].__imul__(x[1:]),
    "NumPy": of_numpy, "outer function": outer,
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_of_the_program_stay_as_they_are(name):
    with pytest.raises(TypeError, match="a host array cannot take a traced value, unless the function has made it"):
        fr.jit(BAD[name])(fr.asarray(X))
    assert OUTSIDE.tolist() == [0, 0, 0, 0]


def test_an_array_of_an_earlier_trace_is_of_the_program():
    function = leaked()
    compiled = fr.jit(function)
    assert compiled(fr.asarray(X)).tolist() == [0.5, 0, 0, 0]
    other = fr.jit(lambda x: function(x))
    with pytest.raises((TypeError, ValueError), match="host array|compiled function"):
        other(fr.asarray(X)).tolist()


def test_views_that_would_not_see_the_write_are_named():
    def viewed(x):
        out = fr.zeros(4)
        part = out[1:]
        out[1] = x[0]
        return part

    def exported(x):
        out = fr.zeros(4)
        seen = np.asarray(out)
        out[1] = x[0]
        return fr.asarray(seen)

    def of_view(x):
        out = fr.ones(4)
        part = out[1:]
        part *= x[1:]
        return out

    for function in (viewed, exported, of_view):
        with pytest.raises(TypeError, match=r"while there are views of it.* instead of a view write to the array itself, x\[1:\] = x\[1:\] \* y"):
            fr.jit(function)(fr.asarray(X))
    assert fr.jit(lambda x: fr.ones(4)[1:].__imul__(x[1:]))(fr.asarray(X)).tolist() == X[1:].tolist()


def test_forward_and_losses_of_fit_may_write_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            y = self.fc(x)
            out = fr.zeros((x.shape[0], 2))
            out[:, 0] = y[:, 0] * 2
            out[:, 1] = y[:, 1]
            return out

    def loss(o, t):
        parts = fr.zeros(2)
        parts[0] = fr.mean((o[:, 0] - t[:, 0]) ** 2)
        parts[1] = fr.mean((o[:, 1] - t[:, 1]) ** 2)
        return fr.sum(parts) / 2

    x = np.random.default_rng(0).normal(size=(64, 4)).astype("f4")
    y, histories = x[:, :2] * 2, []
    for given in (loss, "mse"):
        fr.random.seed(0)
        histories.append(Net().fit(x, y, loss=given, epochs=3, batch_size=16, lr=0.1, verbose=0, validation_data=(x, y)).history)
    assert histories[0]["loss"] == pytest.approx(histories[1]["loss"], rel=1e-5) and histories[0]["val_loss"] == pytest.approx(histories[1]["val_loss"], rel=1e-5)


def used_before(x):
    out = fr.ones(4)
    first = out * x
    out[0] = 100.0  # on the host, behind a use
    second = out * x
    out[1:] += 5
    view = out[2:]
    third = view * x[2:]
    view[0] = -1
    return first, second, third, out + x


def used_before_a_traced_write(x):
    out = fr.arange(4) * 1.0
    first = out + x
    made = fr.zeros(4)
    second = made + x
    made[2] = x[0]
    return first, second, made, out


@pytest.mark.parametrize("function", [used_before, used_before_a_traced_write], ids=lambda f: f.__name__)
def test_what_was_computed_before_a_write_does_not_see_it(function):
    """A compiled function read the arrays at its end."""
    expected = [y.numpy() for y in function(fr.asarray(X))]
    for found, values in zip(fr.jit(function)(fr.asarray(X)), expected):
        np.testing.assert_array_equal(found.numpy(), values)


def test_memory_of_other_libraries_is_read_in_each_call():
    scale = np.ones(4, "f4")
    compiled = fr.jit(lambda x: x * fr.asarray(scale))
    assert compiled(fr.asarray(X)).tolist() == X.tolist()
    scale[:] = 2
    assert compiled(fr.asarray(X)).tolist() == (2 * X).tolist()


ZEROS = fr.zeros(4)
MAKES = {"zeros": lambda: fr.zeros(4), "full": lambda: fr.full(4, 0.0), "linspace": lambda: fr.linspace(0, 0, 4), "eye": lambda: fr.eye(5)[4, :4],
         "arange": lambda: fr.arange(4.0) * 0, "places": lambda: ZEROS[fr.arange(4)], "copy": lambda: fr.asarray(ZEROS, copy=True)}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_new_arrays_take_traced_values(make):
    def function(x):
        out = make()
        out[1:3] = x[1:3]
        return out

    assert fr.jit(function)(fr.asarray(X)).tolist() == [0, -1, 2, 0]
