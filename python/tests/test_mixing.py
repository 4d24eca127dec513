"""Freight's arrays beside those of NumPy and torch, lists and parameters: the result is Freight's, or an error says what to do."""
import inspect
import operator
import types

import numpy as np
import pytest

import freight as fr
from freight import nn

A = np.asarray([[1.0, 2.0], [3.0, 4.0]], "f4")
B = np.asarray([[2.0, 2.0], [2.0, 5.0]], "f4")
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.matmul, operator.lt,
             operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_operators_take_numpys_arrays_and_lists_on_both_sides(function):
    expected = function(A, B)
    for other in (lambda a: a, lambda a: a.tolist(), lambda a: tuple(a.tolist())):
        for got in (function(fr.asarray(A), other(B)), function(other(A), fr.asarray(B))):
            assert isinstance(got, fr.Array)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)
    traced = fr.jit(lambda x: (function(x, B), function(A, x)))
    for got, numbers in zip(traced(fr.asarray(A)), (expected, function(A, A))):
        np.testing.assert_allclose(np.asarray(got), numbers, rtol=1e-6)


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift], ids=lambda f: f.__name__)
def test_operators_of_integers_do_too(function):
    a, b = np.asarray([1, 2, 3]), np.asarray([3, 1, 2])
    for got in (function(fr.asarray(a), b), function(a, fr.asarray(b)), function(fr.asarray(a), b.tolist())):
        assert isinstance(got, fr.Array)
        np.testing.assert_array_equal(np.asarray(got), function(a, b))


def test_types_are_the_standards():
    x = fr.ones(2)
    assert (x + np.ones(2)).dtype == fr.float64 == (np.ones(2) * x).dtype  # NumPy's default type is the wider one
    assert (x + np.ones(2, "i4")).dtype == fr.float32 == (x + [1, 2]).dtype
    assert (x * np.float64(2)).dtype == fr.float32 == (np.float32(2) * x).dtype  # numbers take the array's type
    assert (np.float64(2) < x).tolist() == [False, False]
    with pytest.raises(TypeError, match="no common type|uint64"):
        fr.asarray(np.ones(2, "u8")) + np.ones(2, "i8")


def test_an_accuracy_of_numpys_classes_is_right():
    classes = np.asarray([0, 1, 2, 1])
    found = fr.asarray([0, 1, 1, 1])
    assert float(np.mean(found == classes)) == 0.75 == float(fr.mean(classes == found))
    assert (found != classes).tolist() == [False, False, True, False] == (found != [0, 1, 2, 1]).tolist()
    assert (found == "a") is False and (found == None) is False  # noqa: E711
    with pytest.raises(TypeError, match="asarray"):
        found == ["a", "b"]  # noqa: B015


def test_in_place_operators_take_them():
    x = fr.ones(2)
    y = x
    x += np.asarray([1, 2])
    x *= [2, 2]
    assert x is y and x.tolist() == [4, 6]
    n = np.ones(2, "f4")
    m = n
    n += x
    assert m is n and type(n) is np.ndarray and n.tolist() == [5, 7]
    with pytest.raises(TypeError, match="the result is float64, the array float32"):
        x += np.ones(2)


FUNCTIONS = {
    "add": lambda a, b: fr.add(a, b), "maximum": lambda a, b: fr.maximum(a, b), "equal": lambda a, b: fr.equal(a, b), "pow": lambda a, b: fr.pow(a, b),
    "where": lambda a, b: fr.where(b > 2, a, b), "where_mask": lambda a, b: fr.where(np.asarray(B) > 2, a, b), "matmul": lambda a, b: fr.matmul(a, b),
    "concat": lambda a, b: fr.concat([a, b]), "stack": lambda a, b: fr.stack([a, b]), "tensordot": lambda a, b: fr.tensordot(a, b),
    "vecdot": lambda a, b: fr.vecdot(a, b), "broadcast": lambda a, b: fr.broadcast_arrays(a, b)[1], "meshgrid": lambda a, b: fr.meshgrid(a[0], b[0])[0],
    "outer": lambda a, b: fr.outer(a[0], b[0]), "solve": lambda a, b: fr.linalg.solve(a, b), "kron": lambda a, b: fr.linalg.kron(a, b),
    "einsum": lambda a, b: fr.einsum("ij,jk->ik", a, b), "isin": lambda a, b: fr.isin(a, b), "searchsorted": lambda a, b: fr.searchsorted(a[0], b),
    "clip": lambda a, b: fr.clip(fr.asarray(a), b, 4.0), "diff": lambda a, b: fr.diff(fr.asarray(a), prepend=b), "mse": lambda a, b: fr.mse_loss(a, b),
    "cross": lambda a, b: fr.cross(fr.reshape(fr.asarray(a), (-1,))[:3], np.asarray(b).reshape(-1)[:3]), "atan2": lambda a, b: fr.atan2(a, b),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_several_arrays_take_them(name):
    call = FUNCTIONS[name]
    expected = np.asarray(call(fr.asarray(A), fr.asarray(B)))
    for a, b in ((fr.asarray(A), B), (A, fr.asarray(B))):
        got = call(a, b)
        assert isinstance(got, fr.Array)
        np.testing.assert_array_equal(np.asarray(got), expected)


# What functions of one array take besides it.
OTHERS = {"reshape": ((4,),), "broadcast_to": ((2, 2, 2),), "astype": (fr.float64,), "expand_dims": (0,), "permute_dims": ((1, 0),), "moveaxis": (0, 1),
          "roll": (1,), "tile": ((2,),), "repeat": (2,), "take": ([0], 1), "split": ([1, 1],), "chunk": (2,), "narrow": (0, 0, 1), "select": (0, 0),
          "pad": ([1, 0], [0, 2]), "topk": (1,), "matrix_power": (2,), "full_like": (1.0,)}


def functions_of_one_array():
    """(module, name) of those whose first argument is x, which may be a matrix."""
    for module in (fr, fr.xp, fr.linalg, fr.fft):
        for name, function in vars(module).items():
            if isinstance(function, types.FunctionType) and name[:1] != "_" and name not in ("asarray", "from_dlpack", "empty_like") and \
                    next(iter(inspect.signature(function).parameters), "") in ("x", "condition"):
                try:
                    function(fr.asarray(A), *OTHERS.get(name, ()))
                except (TypeError, ValueError):  # needs more arguments
                    continue
                yield module, name


def numbers(result):
    return [numbers(r) for r in result] if isinstance(result, (tuple, list)) else str(np.asarray(result).tolist())


def test_functions_of_one_array_take_them():
    torch = pytest.importorskip("torch")
    names = set()
    for module, name in functions_of_one_array():
        function, others = getattr(module, name), OTHERS.get(name, ())
        expected = numbers(function(fr.asarray(A), *others))
        for given in (A, A.tolist(), torch.tensor(A)):
            assert numbers(function(given, *others)) == expected, (module.__name__, name)
        names.add(name)
    assert names >= {"exp", "sum", "mean", "sort", "argmax", "nonzero", "where", "clip", "median", "tril", "inv", "svd", "norm", "rfft", "zeros_like", *OTHERS}
    assert len(names) > 100, len(names)
    assert fr.sum(x := np.arange(6).reshape(2, 3), axis=0).tolist() == x.sum(0).tolist()
    assert fr.jit(lambda x: x + fr.cumulative_sum(np.asarray([1.0, 2.0], "f4")) + fr.exp([0.0, 0.0]))(fr.zeros(2)).tolist() == [2, 4]
    assert sorted(fr.random.permutation(["a" != "b", False]).tolist()) == [False, True] and fr.random.choice(np.asarray([3.0]), (2,)).tolist() == [3, 3]


@pytest.mark.parametrize("call", [fr.exp, fr.sum, fr.mean, fr.sort, fr.linalg.inv])
@pytest.mark.parametrize("value", [1.5, "a", object()], ids=str)
def test_other_values_are_no_arrays(call, value):
    with pytest.raises(TypeError, match="expected a freight.Array, got .*: convert it by asarray"):
        call(value)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.complex128, np.int64])
def test_numbers_of_numpy_are_arrays_of_no_axes(kind):
    for name in ("exp", "sqrt", "sum", "mean", "sin", "square", "expand_dims"):
        value, settings = kind(3), {"axis": 0} if name == "expand_dims" else {}
        if name == "mean" and kind is np.int64:
            continue
        got = getattr(fr, name)(value, **settings)
        np.testing.assert_allclose(np.asarray(got), getattr(np, name)(value, **settings), rtol=1e-6)
        if kind not in (np.int64, np.float32):
            assert got.dtype.name == np.dtype(kind).name


def test_torchs_tensors_are_converted_on_the_host():
    torch = pytest.importorskip("torch")
    x, t = fr.asarray(A), torch.tensor(B)
    for got, expected in ((x - t, A - B), (t - x, B - A), (x == t, A == B), (t == x, A == B), (x @ t, A @ B), (fr.maximum(x, t), np.maximum(A, B))):
        assert isinstance(got, fr.Array)
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_parameters_are_operands_whose_gradients_are_taken():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(fr.asarray([2.0, 3.0]))

        def forward(self, x):
            return x * dict(self.named_parameters())["scale"] + self.scale

    net, x = Scaled(), fr.asarray([1.0, 4.0])
    assert net(x).tolist() == [4, 15]
    grads = fr.grad(lambda net: fr.sum(net(x)))(net)
    assert grads["scale"].tolist() == [2, 5]
    assert fr.jit(fr.grad(lambda net: fr.sum(net(x))))(net)["scale"].tolist() == [2, 5]


@pytest.mark.parametrize("name", "sum prod max min mean std var argmax argmin any all cumsum cumprod round".split())
def test_numpys_reductions_call_the_methods(name):
    got = getattr(np, name)(fr.asarray(A))
    np.testing.assert_allclose(np.asarray(got), getattr(np, name)(A), rtol=1e-6)
    if name != "round":
        np.testing.assert_allclose(np.asarray(getattr(np, name)(fr.asarray(A), axis=0)), getattr(np, name)(A, axis=0), rtol=1e-6)


def test_keywords_that_are_numpys_alone_are_refused_with_what_to_use():
    x = fr.asarray(A)
    for call, message in ((lambda: np.mean(x, dtype="f8"), r"mean: dtype='f8' is NumPy's: use freight.mean\(x.astype\(dtype\)\), or numpy.asarray\(x\)"),
                          (lambda: np.sum(x, out=np.empty(())), r"sum: out=array\(.*\) is NumPy's: use freight.sum\(x\), which makes a new array"),
                          (lambda: np.max(x, out=np.empty(())), "max: out="),
                          (lambda: x.std(ddof=1), "std: ddof=1 is NumPy's: use correction, or")):
        with pytest.raises(TypeError, match=message):
            call()


def test_numpys_elementwise_functions_are_freights():
    x, y = fr.asarray(A) + 2, np.asarray(A) + 1
    a = np.asarray(x)
    names = "exp log sqrt absolute sin arctan2 power maximum multiply add true_divide mod greater equal isfinite logaddexp hypot square rint floor_divide matmul".split()
    for name in names:
        ufunc = getattr(np, name)
        for inputs in ((x,),) if ufunc.nin == 1 else ((x, 2.0), (2.0, x), (x, y), (y, x)) if name != "matmul" else ((x, y.T), (y, x.T)):
            found = ufunc(*inputs)
            assert type(found) is fr.Array
            np.testing.assert_allclose(np.asarray(found), ufunc(*(np.asarray(i) if isinstance(i, fr.Array) else i for i in inputs)), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(fr.jit(lambda x: np.tanh(x) * np.float32(2))(x)), np.tanh(a) * 2, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(fr.grad(lambda x: np.exp(x).sum())(x)), np.exp(a), rtol=1e-5)
    for call, message in ((lambda: np.add.reduce(x), r"numpy.add.reduce: expected arrays alone"), (lambda: np.frexp(x), r"numpy.frexp: .* numpy.asarray\(x\)"),
                          (lambda: np.exp(x, where=[True]), "numpy.exp: expected arrays alone")):
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize("scalar, wanted", [
    (np.int8(3), "int16"), (np.int32(3), "int32"), (np.int64(3), "int64"), (np.uint8(3), "uint8"), (np.uint16(3), "uint16"), (np.float32(3), "float32"),
    (np.bool_(True), "uint8"), (np.array(3), "int64"), (3, "uint8"), (np.complex64(3), "complex64")], ids=lambda v: f"{type(v).__name__} {v}")
def test_scalars_of_numpy_have_a_type_of_their_own(scalar, wanted):
    """NEP 50, which NumPy 2 has: only Python's numbers take the array's type. numpy.float64 is one, a float of Python."""
    x = fr.asarray([1, 2, 250], dtype=fr.uint8)
    for y in (x * scalar, scalar * x, fr.multiply(x, scalar)):
        assert y.dtype.name == wanted == fr.result_type(x, scalar).name
        assert np.array_equal(y, np.array([1, 2, 250], wanted) * np.asarray(scalar, wanted))
    if wanted != "complex64":
        assert fr.jit(lambda x: x * scalar)(x).dtype.name == wanted
    halves = fr.ones(2, dtype=fr.float16)
    assert (halves * np.float32(2)).dtype == fr.float32 and (halves * np.float64(2)).dtype == (halves * 2.0).dtype == fr.float16
    x += np.uint8(3)
    counts = fr.asarray([1, 2], dtype=fr.int32)
    counts += np.int64(3)  # in place the array keeps its type, as in NumPy
    assert x.dtype == fr.uint8 and counts.dtype == fr.int32 and counts.tolist() == [4, 5]
