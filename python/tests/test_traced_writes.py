"""Writes to parts of arrays within jit and grad, which are those of NumPy: x[key] += y, x[key] = y, and writes to views."""
import numpy as np
import pytest

import freight as f

START = np.arange(24, dtype="float32").reshape(4, 6) / 4 - 2


def add_to_column(u, xp):
    u[:, 2] += 1
    return u


def several_operators(u, xp):
    u[1] -= 2
    u[:, ::2] *= 3
    u[1:3, -1] /= 4
    u[::-1, 4] //= 0.5
    u[..., 0] %= 0.75
    u[0, 1] **= 2
    return u


def rows_of_arrays(u, xp):
    u[:, 3:5] += u[:, :2]
    u[2] += xp.asarray([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=xp.float32)
    u[:, 1:2] *= xp.asarray([[1.0], [2.0], [3.0], [4.0]], dtype=xp.float32)
    return u


def masks_and_index_arrays(u, xp):
    u[xp.asarray([True, False, True, True])] += 1
    u[xp.asarray([2, 0]), xp.asarray([1, 5])] -= 3
    u[:, xp.asarray([4, 1])] *= 2
    u[[0, 3]] /= 2
    return u


def masks_of_values(u, xp):
    u[u > 1] *= 10
    u[u < -1] = 0
    low = u < 0
    u[low] -= u[low] * 3
    u[xp.sum(u, axis=1) > 5] += xp.asarray([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=xp.float32)
    return u


def index_arrays_of_values(u, xp):
    u[xp.argmax(u, axis=0), xp.asarray([0, 1, 2, 3, 4, 5])] += 5
    u[xp.argmin(u[:, 0])] *= -1
    return u


def views_share_elements(u, xp):
    row, column = u[1], u[:, 2]
    row += 10  # also the view, and the other views
    column *= 2
    u[0] = 7
    inner = row[1:4]
    inner[0] = -1
    copy = u[[0, 1]]
    copy += 100
    return xp.concat([row, column, inner, xp.sum(u, axis=1), copy[0]])


def views_of_functions(u, xp):
    t = u.T
    t[0] += 1
    flat = xp.reshape(u, (-1,))
    flat[::5] -= 2
    copied = xp.reshape(t, (-1,))  # NumPy copies here
    copied *= 0
    deep = xp.permute_dims(xp.reshape(u, (2, 2, 6)), (2, 0, 1))
    deep[5] += 3
    squeezed = xp.squeeze(u[:, None])
    squeezed[3] = 0
    return xp.concat([xp.reshape(u, (-1,)), xp.reshape(t, (-1,)), flat])


def loops(u, xp):
    for i in range(1, 4):
        u[i] += u[i - 1] * 0.5
        u[i, :i] = 0
    return u


def boxes(u, xp):
    u[1:3, ::-1] += u[:2]
    u[::-1, 2:4] *= xp.reshape(xp.arange(8, dtype=xp.float32), (4, 2))
    u[-3:, -1] = u[:3, 0]
    u[2, 5:2:-1] -= u[0, :3]
    u[4:, :] += 1
    u[..., 3:3] = 5
    u[1:4:2, ::2] /= 2
    u[-1] = xp.asarray([5.0], dtype=xp.float32)
    inner = u[1:][:, 1:][::-1]
    inner[0] += 10
    inner[1:, 2:] *= 3
    cube = xp.reshape(u, (2, 2, 6))
    cube[:, 1, 1:3] -= cube[:, 0, 3:5]
    cube[0, ..., 0] = 0
    return u


def whole_arrays(u, xp):
    part = u[2:]
    u += 1
    u *= u
    u[...] -= part[0, 0]
    part[()] += 1
    return u


CASES = [add_to_column, several_operators, rows_of_arrays, masks_and_index_arrays, masks_of_values, index_arrays_of_values, views_share_elements,
         views_of_functions, loops, boxes, whole_arrays]


class _NumPy:
    """NumPy under the names of the standard that the cases use."""

    def __getattr__(self, name):
        return getattr(np, {"permute_dims": "transpose", "concat": "concatenate"}.get(name, name))


def by_numpy(case, u):
    return case(u.copy(), _NumPy())


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_writes_to_parts_of_traced_arrays_are_those_of_numpy(case):
    want = by_numpy(case, START)
    assert np.array_equal(case(f.asarray(START, copy=True), f), want)
    compiled = f.jit(lambda u: case(u + 0, f))
    for _ in range(2):
        assert np.allclose(compiled(f.asarray(START)), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_gradients_go_through_writes(case):
    weight = np.cos(np.arange(by_numpy(case, START).size)).reshape(by_numpy(case, START).shape)

    def loss(u):
        return f.sum(f.asarray(weight.astype("float32")) * case(u, f))

    start = START + 0.03  # no element lies at a step of // or %, or at a bound of a mask
    found = f.grad(loss)(f.asarray(start)).numpy()
    want = np.zeros_like(start)
    for at in np.ndindex(*start.shape):
        ends = []
        for step in (-1e-4, 1e-4):
            moved = start.astype("float64")
            moved[at] += step
            ends.append(np.sum(weight * by_numpy(case, moved)))
        want[at] = (ends[1] - ends[0]) / 2e-4
    assert np.allclose(found, want, rtol=2e-3, atol=2e-3)
    assert np.allclose(f.jit(f.grad(loss))(f.asarray(start)), found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [add_to_column, several_operators, views_share_elements, views_of_functions, loops, whole_arrays], ids=lambda c: c.__name__)
def test_writes_to_arrays_on_other_devices_are_those_of_numpy(case):
    found = case(f.asarray(START).to_device("ref") + 0, f)
    assert found.device == "ref" and np.allclose(found.numpy(), by_numpy(case, START), rtol=1e-6, atol=1e-6)
    u, want = f.asarray(START).to_device("ref"), START.copy()
    for x in (u, want):
        x[[1, 2], 3:] = np.ones(3, "f4")
        x[x > 1] = 9
    assert np.array_equal(u[np.array([2, 1])], want[[2, 1]])


def test_writes_leave_the_callers_array_alone():
    u = f.asarray(START)
    f.jit(lambda u: add_to_column(u, f))(u)
    f.grad(lambda u: f.sum(add_to_column(u, f)))(u)
    assert np.array_equal(u, START)


@pytest.mark.parametrize("body, error, text", [
    (lambda u: f.sum(u[u > 0]), TypeError, "number of elements is unknown"),
    (lambda u: u[u > 0].shape, TypeError, "number of elements is unknown"),
    (lambda u: u[u > 0] + u[u > 1], TypeError, "number of elements is unknown"),
    (lambda u: u[f.sum(u, axis=0) > 0], IndexError, "the mask has shape"),
    (lambda u: u.__setitem__(u > 0, f.ones(3)), TypeError, "expected a value of 0 axes"),
    (lambda u: u[1].__iadd__(f.ones((4, 6))), ValueError, "in place: the result has shape"),
    (lambda u: u[1].__iadd__(1j), TypeError, "in place: the result is"),
    (lambda u: f.broadcast_to(u[0], (3, 6)).__iadd__(1), ValueError, "read-only")], ids=str)
def test_writes_that_cannot_be_are_refused(body, error, text):
    with pytest.raises(error, match=text):
        f.jit(lambda u: (body(u + 0), u)[1])(f.asarray(START))


def test_writes_change_buffers_and_parameters_of_modules():
    class Net(f.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.count = f.nn.Linear(3, 2), f.nn.Buffer(f.zeros(3))

        def forward(self, x):
            self.count[1] += 1
            self.count[2:] += 2
            self.count *= 2
            return self.fc(x)

    net = Net()
    before = net.fc.weight.numpy()

    @f.jit
    def step(x):
        net.fc.weight[0, :2] += 1
        return net(x)

    assert np.allclose(step(f.ones((1, 3))).numpy(), before.sum(axis=1) + [2, 0] + net.fc.bias.numpy(), rtol=1e-6)
    assert np.allclose(net.fc.weight.numpy() - before, [[1, 1, 0], [0, 0, 0]]) and net.count.tolist() == [0, 2, 4]
    net(f.ones((1, 3)))
    assert net.count.tolist() == [0, 6, 12]


def test_views_that_are_gone_leave_nothing_behind():
    from freight import _views

    f.jit(lambda u: views_of_functions(u + 0, f))(f.asarray(START))
    f.grad(lambda u: f.sum(views_share_elements(u, f)))(f.asarray(START))
    assert not _views._views and not _views._taken
