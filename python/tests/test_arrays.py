"""Arrays: views, writes, types, indexing, errors."""
import copy
import fractions
import math
import pickle
import random

import pytest

import freight as f


def test_views_share_memory_and_writes_are_seen_in_all_of_them():
    x = f.arange(12.0).reshape(3, 4)
    row, column, reverse, flat = x[1], x[:, 2], x[::-1, ::-1], x.reshape(-1)
    x.T[2, 1] = 60
    assert row[2].item() == column[1].item() == reverse[1, 1].item() == flat[6].item() == 60
    row += 1
    assert x[1].tolist() == [5, 6, 61, 8]
    reverse[0] = [1, 2, 3, 4]
    assert x[2].tolist() == [4, 3, 2, 1]


def test_a_write_that_overlaps_its_source_reads_old_elements():
    x = f.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[:-1] += x[1:]
    assert x.tolist() == [0, 1, 3, 5, 7, 4]


@pytest.mark.parametrize("make", [lambda x: x.T, lambda x: x[::-2], lambda x: f.expand_dims(x, axis=1),
                                  lambda x: f.broadcast_to(x[0], (5, 4)), lambda x: x.reshape(2, 6), lambda x: x[..., None]])
def test_views_copy_nothing(make):
    x = f.arange(12).reshape(3, 4)
    assert x._share_memory(make(x))


def test_reshape_copies_only_where_the_layout_needs_it():
    x = f.arange(12).reshape(3, 4)
    assert x.reshape(4, 3)._share_memory(x)
    assert not x.T.reshape(12)._share_memory(x)
    with pytest.raises(ValueError, match="copy"):
        x.T.reshape(12, copy=False)


def test_promotion_and_python_numbers():
    assert (f.ones(2, dtype=f.int8) + f.ones(2, dtype=f.uint8)).dtype == f.int16
    assert (f.ones(2, dtype=f.int8) * 2).dtype == f.int8
    assert (f.ones(2, dtype=f.float64) * 2.5).dtype == f.float64
    assert (f.ones(2) + 1j).dtype == f.complex64
    assert f.sum(f.ones(3, dtype=f.uint8)).dtype == f.uint64
    assert f.sum(f.ones(3, dtype=f.int8)).dtype == f.int64
    assert f.full((), 3).dtype == f.int64 and f.full((), 3.0).dtype == f.float32
    with pytest.raises(OverflowError, match="300"):
        f.ones(2, dtype=f.uint8) + 300
    with pytest.raises(TypeError, match="int64 and uint64|uint64 and int64"):
        f.ones(2, dtype=f.uint64) + f.ones(2, dtype=f.int64)
    assert (f.float32 == None) is False  # noqa: E711


def test_integers_wrap_around_and_division_rounds_down():
    x = f.asarray([-7, 7, -128], dtype=f.int8)
    assert (x // 2).tolist() == [-4, 3, -64]
    assert (x % 3).tolist() == [2, 1, 1]
    assert (-x).tolist() == [7, -7, -128]
    assert (x // 0).tolist() == [0, 0, 0]


def test_index_arrays_masks_and_assignment():
    x = f.arange(24).reshape(2, 3, 4)
    rows, columns = f.asarray([0, 2, 2]), f.asarray([3, 0, -1])
    assert x[:, rows, columns].tolist() == [[3, 8, 11], [15, 20, 23]]
    assert x[0, :, columns].shape == (3, 3)
    assert x[x % 5 == 0].tolist() == [0, 5, 10, 15, 20]
    x[:, rows, 0] = -1
    assert x[:, 2, 0].tolist() == [-1, -1]
    x[x < 0] = 0
    assert f.min(x).item() == 0
    assert f.ones(1)[f.zeros(0, dtype=f.bool)].shape == (0,) and f.sum(f.eye(2, k=2**63)).item() == 0
    with pytest.raises(IndexError, match="out of bounds"):
        x[:, f.asarray([3])]
    with pytest.raises(IndexError, match="mask"):
        x[f.asarray([True])]
    with pytest.raises(IndexError, match="too many"):
        x[0, 0, 0, 0]


def test_an_empty_array_may_have_extents_whose_product_no_integer_holds():
    x = f.zeros((0, 2**40, 2**40))
    assert x.size == 0 and (x + 1).shape == (0, 2**40, 2**40) and x.T.shape == (2**40, 2**40, 0)


@pytest.mark.parametrize("call, error", [
    (lambda: f.ones(3) + f.ones(4), ValueError), (lambda: f.ones((2, 3)) @ f.ones((2, 3)), ValueError),
    (lambda: f.ones(3) + "a", TypeError), (lambda: f.asarray([[1], [2, 3]]), ValueError), (lambda: f.asarray("abc"), TypeError),
    (lambda: f.ones(-1), ValueError), (lambda: f.ones((2**40, 2**40)), ValueError), (lambda: f.empty((2**44,)), MemoryError),
    (lambda: f.broadcast_to(f.ones(1), (2**40, 1)) + f.broadcast_to(f.ones(1), (1, 2**40)), ValueError),
    (lambda: f.ones(3)[3], IndexError), (lambda: bool(f.ones(3)), ValueError), (lambda: float(f.ones(3)), TypeError),
    (lambda: f.sum(f.ones(3), axis=1), IndexError), (lambda: f.ones(4).reshape(3), ValueError), (lambda: len(f.ones(())), TypeError),
    (lambda: f.linalg.inv(f.zeros((2, 2))), f.LinAlgError), (lambda: f.max(f.ones((0,))), ValueError),
    (lambda: f.ones(3).to("cuda:99"), RuntimeError), (lambda: f.asarray(2**70), OverflowError), (lambda: {f.ones(1): 1}, TypeError),
])
def test_bad_input_is_an_exception_of_the_type_that_users_of_numpy_expect(call, error):
    with pytest.raises(error):
        call()


def test_sums_of_float32_are_as_exact_as_those_of_float64():
    x = f.full((1_000_001,), 0.1)
    assert abs(f.sum(x).item() - 100000.1) < 0.01
    assert abs(f.mean(x).item() - 0.1) < 1e-7
    assert f.var(f.asarray([1e4, 1e4 + 1])).item() == 0.25


def test_sorting_puts_nan_last_and_is_stable():
    nan = float("nan")
    x = f.asarray([3.0, nan, 1.0, 2.0])
    assert f.sort(x).tolist()[:3] == [1, 2, 3]
    assert f.argsort(x, descending=True).tolist() == [1, 0, 3, 2]
    assert f.argsort(f.asarray([1, 0, 1, 0]), descending=True).tolist() == [0, 2, 1, 3]
    assert f.unique_counts(f.asarray([nan, nan, 1.0])).counts.tolist() == [1, 1, 1]
    assert f.argmax(x).item() == 1


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool", "complex64"])
def test_unique_is_that_of_numpy(axis, dtype):
    np = pytest.importorskip("numpy")
    x = np.random.default_rng(0).integers(0, 2, (7, 3, 2)).astype(dtype)
    expected = np.unique(x, True, True, True, axis)
    got = f.unique(f.asarray(x), return_index=True, return_inverse=True, return_counts=True, axis=axis)
    assert got[0].dtype == f.asarray(x).dtype and all(y.dtype == f.int64 for y in got[1:])
    for ours, theirs in zip(got, expected):
        np.testing.assert_array_equal(ours.numpy().reshape(-1), theirs.reshape(-1))
    assert got[0].shape == expected[0].shape
    np.testing.assert_array_equal(f.unique(f.asarray(x), axis=axis).numpy(), expected[0])


def test_unique_of_slices_has_a_gradient_and_is_refused_where_it_cannot_be():
    x = f.asarray([[2.0, 1.0], [2.0, 1.0], [0.0, 3.0]])
    assert f.grad(lambda x: f.sum(f.unique(x, axis=0) ** 2))(x).tolist() == [[4, 2], [0, 0], [0, 6]]
    with pytest.raises(IndexError, match="axis 2 is out of bounds"):
        f.unique(x, axis=2)
    with pytest.raises(ValueError, match="gives tensors of unknown shape"):
        f.jit(lambda x: f.unique(x, axis=0))(x)
    assert not hasattr(f.xp, "unique")


def test_index_put_takes_masks_and_accumulates():
    x, rows = f.zeros((3, 2)), f.asarray([2, 0, 2])
    assert f.index_put(x, [rows], f.asarray([[1.0, 2], [3, 4], [5, 6]]), accumulate=True).tolist() == [[3, 4], [0, 0], [6, 8]]
    assert f.index_put(x, [f.asarray([True, False, True])], 7).tolist() == [[7, 7], [0, 0], [7, 7]]
    with pytest.raises(ValueError, match="a mask must have the sizes of the axes"):
        f.index_put(x, [f.asarray([True])], 7)


def test_averages_of_integers_are_rounded_toward_zero():
    x = f.asarray([[[-7, 3, -5, 8, 2, 1, -9]]])
    y = f.avg_pool1d(x, 3, 2, 1)
    assert y.dtype == f.int64 and y.tolist() == [[[-1, 2, 3, -2]]]


def test_embeddings_scale_long_rows_and_gradients_by_frequency():
    table, index = f.asarray([[3.0, 4.0], [0.0, 0.5]]), f.asarray([0, 0, 1])
    y = f.embedding(index, table, max_norm=2.5)
    assert f.max(f.abs(y - f.asarray([[1.5, 2], [1.5, 2], [0, 0.5]]))).item() < 1e-6
    assert f.grad(lambda t: f.sum(f.embedding(index, t, max_norm=2.5)))(table).tolist() == [[2, 2], [1, 1]]
    assert f.grad(lambda t: f.sum(f.embedding(index, t, scale_grad_by_freq=True)))(table).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="max_norm must not be negative"):
        f.embedding(index, table, max_norm=-1.0)


def test_pickle_copy_and_text():
    x = f.arange(6.0).reshape(2, 3).T
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert y.tolist() == x.tolist() and y.dtype == x.dtype and not y._share_memory(x)
    assert pickle.loads(pickle.dumps(f.float32)) is f.float32
    assert repr(x) == "Array([[0., 3.],\n       [1., 4.],\n       [2., 5.]], dtype=float32)"
    assert str(f.asarray([1, 20])) == "[ 1 20]"
    assert "..." in str(f.arange(2000))


def test_svd_of_a_complex_matrix_of_rank_one_has_orthonormal_vectors():
    """Rotations by phases of subnormal numbers were not unitary: the error was 8e-9."""
    for x in (f.full((7, 4), 0.3 - 0.5j, dtype=f.complex128), f.asarray([[1, 1j], [1e-155, 1e-155j], [2, 2j]], dtype=f.complex128)):
        u, s, vh = f.linalg.svd(x, full_matrices=False)
        assert f.max(abs((u * f.astype(s, x.dtype)) @ vh - x)).item() < 1e-14
        unit = f.eye(x.shape[1], dtype=x.dtype)
        assert f.max(abs(vh @ f.linalg.matrix_transpose(f.conj(vh)) - unit)).item() < 1e-14


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_factorizations_give_the_matrix_again(dtype):
    f.random.seed(1)
    n, t = 6, getattr(f, dtype)
    real = f.random.normal((2, n, n), dtype=f.float64)
    x = f.astype(real + 1j * f.random.normal((2, n, n), dtype=f.float64), t)
    tolerance = 1e-4 if dtype == "complex64" else 1e-12

    def near(a, b):
        return f.max(abs(a - b)).item() < tolerance

    adjoint = f.linalg.matrix_transpose(f.conj(x))
    unit = f.eye(n, dtype=t)
    q, r = f.linalg.qr(x)
    assert near(q @ r, x) and near(f.linalg.matrix_transpose(f.conj(q)) @ q, unit)
    u, s, vh = f.linalg.svd(x)
    assert near((u * f.astype(s, t)[:, None, :]) @ vh, x) and near(f.linalg.matrix_transpose(f.conj(u)) @ u, unit)
    w, v = f.linalg.eigh(x + adjoint)
    assert near((x + adjoint) @ v, v * f.astype(w, t)[:, None, :])
    w, v = f.linalg.eig(x)
    assert near(x @ v, v * w[:, None, :])
    assert near(f.linalg.inv(x) @ x, unit)
    positive = x @ adjoint + unit
    low = f.linalg.cholesky(positive)
    assert near(low @ f.linalg.matrix_transpose(f.conj(low)), positive)
    sign, log = f.linalg.slogdet(x)
    assert near(f.astype(sign, t) * f.astype(f.exp(log), t), f.linalg.det(x))


def test_arrays_have_up_to_64_axes():
    x = f.reshape(f.arange(6), (1,) * 30 + (2, 3) + (1,) * 32)
    assert x.ndim == 64 and (x.T + 1).shape == (1,) * 32 + (3, 2) + (1,) * 30
    assert f.sum(x, axis=30).shape == (1,) * 30 + (3,) + (1,) * 32 and f.max(x).item() == 5
    assert (x + f.ones((3,) + (1,) * 32)).sum().item() == 21 and x[(0,) * 30].shape == (2, 3) + (1,) * 32
    assert f.concat([x, x], axis=31).shape[31] == 6 and f.sort(x, axis=31)[(0,) * 30 + (1,)].ravel().tolist() == [3, 4, 5]
    deep = f.reshape(f.arange(2.0**12), (2,) * 12)
    assert (deep @ deep).shape == (2,) * 12 and deep.mT[(1,) * 10].tolist() == [[4092, 4094], [4093, 4095]]
    with pytest.raises(ValueError, match="64"):
        x[None]
    with pytest.raises(ValueError, match=r"at most 8 axes: got shape \(1, 1"):
        f.softmax(f.reshape(f.ones(3), (1,) * 8 + (3,)))


def test_shapes_in_errors_are_those_of_python():
    with pytest.raises(ValueError, match=r"shapes \(3, 4\) \(5,\)"):
        f.ones((3, 4)) + f.ones(5)


def test_the_namespace_has_functions_types_and_constants_alone():
    import types

    expected = {f.Array, f.dtype, f.Jit, f.Plan, f.autocast, f.LinAlgError, f.CommandError, f.Server, f.History}
    for name in dir(f):
        value = getattr(f, name)
        if not name.startswith("_") and not isinstance(value, (types.FunctionType, types.ModuleType, f.dtype)):
            assert value in expected or name in ("e", "inf", "nan", "newaxis", "pi"), name


def test_text_is_that_of_numpy():
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(5)

    def draw(dtype, shape):
        kind = numpy.dtype(dtype).kind
        if kind == "b":
            return random.integers(0, 2, shape).astype(dtype)
        if kind in "iu":
            top = [3, 100, int(numpy.iinfo(dtype).max)][random.integers(3)]
            x = random.integers(0, top, shape, dtype=dtype)
            return -x if kind == "i" and random.random() < 0.5 else x
        x = random.normal(size=shape) * 10.0 ** random.integers(-3, 4)
        x = random.choice([numpy.round(x), numpy.round(x, 2), x, x * 10.0 ** random.integers(-4, 4, shape)])
        x = numpy.where(random.random(shape) < 0.1, random.choice([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan]), x)
        if kind == "c":
            x = x + 1j * random.permutation(x.ravel()).reshape(shape)
        with numpy.errstate(all="ignore"):
            return x.astype(dtype)

    types = ["bool", "int8", "int64", "uint16", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
    for i in range(3000):
        shape = tuple(random.integers(0, 6, random.integers(0, 4))) if i % 10 else (int(random.integers(900, 1100)),)
        a = numpy.asarray(draw(types[i % len(types)], shape))
        x = f.asarray(a)
        assert str(x) == str(a)
        lines = repr(a).split("\n")  # of an `array(`, which is as long as `Array(`
        assert repr(x) == "Array" + "\n".join(lines)[5:], repr(a)


def test_results_are_those_of_exact_arithmetic():
    draw = random.Random(0)
    for dtype in (f.float32, f.float64):
        b = f.asarray([draw.uniform(0.1, 100) * draw.choice((-1, 1)) for _ in range(2000)], dtype=dtype)
        n = f.asarray([float(draw.randrange(-1000, 1000)) for _ in range(2000)], dtype=dtype)
        a = f.nextafter(n * b, f.asarray([draw.uniform(-1e9, 1e9) for _ in range(2000)], dtype=dtype))
        exact = [math.floor(fractions.Fraction(x) / fractions.Fraction(y)) for x, y in zip(a.tolist(), b.tolist())]
        assert f.floor_divide(a, b).tolist() == exact
        assert f.floor_divide(f.asarray([5.0, -5.0, 5.0], dtype=dtype), f.asarray([2.0, 2.0, -math.inf], dtype=dtype)).tolist() == [2, -3, 0]
    numbers = [draw.gauss(0, 1) for _ in range(10_001)]
    assert abs(f.sum(f.asarray(numbers, dtype=f.float64)).item() - math.fsum(numbers)) <= math.ulp(math.fsum(numbers)) / 2
    z = [[complex(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(2000)] for _ in range(2)]
    for a, b, y in zip(*z, f.multiply(*(f.asarray(v, dtype=f.complex128) for v in z)).tolist()):
        (p, q), (r, s) = ((fractions.Fraction(v.real), fractions.Fraction(v.imag)) for v in (a, b))
        unit = math.ulp(max(abs(y.real), abs(y.imag)))
        assert math.hypot(p * r - q * s - fractions.Fraction(y.real), p * s + q * r - fractions.Fraction(y.imag)) <= unit


def test_numbers_are_operands_on_other_devices():
    try:
        x = f.asarray([1.0, -2.0]).to("opencl:0")
    except (RuntimeError, ValueError):
        pytest.skip("no OpenCL device")
    for y, expected in ((x * 0.5, [0.5, -1.0]), (3 - x, [2.0, 5.0]), (x * f.asarray(2.0), [2.0, -4.0]), (f.where(x > 0, x, 0.0), [1.0, 0.0]),
                        (x**2, [1.0, 4.0]), (f.maximum(x, 0.0), [1.0, 0.0])):
        assert y.device == "opencl:0" and y.to("cpu").tolist() == expected
    with pytest.raises(ValueError, match="two devices"):
        x + f.asarray([1.0, 2.0])


REAL = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"]
FLOATS = REAL[-4:]
COMPLEX = {"complex64", "complex128", "fft", "ifft", "fftn", "ifftn", "rfft", "rfftn", "ihfft", "eig", "eigvals"}  # by their meaning
ELEMENTWISE = sorted(n for n in vars(f._core.elementwise) if not n.startswith("_"))


def dtypes_of(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [x.dtype for x in parts if isinstance(x, f.Array)]


def attempt(function, *arguments):
    """The element types of what a function returns; None where it refuses these arguments."""
    try:
        return dtypes_of(function(*arguments))
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError, AttributeError):
        return None


@pytest.mark.parametrize("t", REAL)
def test_no_function_of_real_numbers_gives_complex_ones(t):
    matrix = f.astype(f.asarray([[1, 1], [0, 1]]), getattr(f, t))
    ran = 0
    for space in (f, f.linalg, f.fft):
        for name, function in vars(space).items():
            if name.startswith("_") or name in COMPLEX or not callable(function) or isinstance(function, (type, f.dtype)):
                continue
            if getattr(function, "__module__", "") == "freight._command_functions":
                continue
            for x in (matrix, matrix[0]):
                for arguments in ((x,), (x, x), (x, x, x), (x, 2), (x, 0.5), ([x, x],), ([x, x], 0)):
                    found = attempt(function, *arguments)
                    ran += found is not None and found != []
                    assert not any(f.isdtype(d, "complex floating") for d in found or []), (name, arguments)
    assert ran > 150


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_have_the_same_types_in_jit_and_of_integers_the_default_float(name):
    function, operands = getattr(f, name), f._core.elementwise_operands(name)
    results = {}
    for t in REAL:
        x = f.ones(3, dtype=getattr(f, t))
        results[t] = attempt(function, *[x] * operands)
        if results[t] is not None:
            assert attempt(f.jit(function), *[x] * operands) in (results[t], None), t
            assert results[t][0] in ((x.dtype, f.bool) if t in FLOATS else (x.dtype, f.bool, f.float32)), t
    assert any(results.values())


def test_quotients_and_roots_of_integers_are_floats_and_bool_counts_as_in_numpy():
    x, b = f.asarray([1, 2]), f.asarray([True, False])
    for made in (x / 4, 4 / x, x / x, f.divide(x, x), f.sqrt(x), f.astype(x, f.uint8) / 255, b / 2, f.sum(b) / 3, f.mean(x)):
        assert made.dtype == f.float32
    assert (x / 4).tolist() == [0.25, 0.5] and float(f.sum(b) / 2) == 0.5
    with pytest.raises(TypeError, match="divide in place: the result is float32, the array int64"):
        x /= 2
    for function, expected in ((f.multiply, [True, False, False]), (f.add, [True, True, False])):
        p, q = f.asarray([True, True, False]), f.asarray([True, False, False])
        for made in (function(p, q), f.jit(function)(p, q)):
            assert made.dtype == f.bool and made.tolist() == expected
    assert f.linalg.outer(b, b).tolist() == [[True, False], [False, False]]
    p = f.asarray([True, True])
    p *= b
    assert p.tolist() == [True, False]
    with pytest.raises(TypeError, match="subtract is not defined for bool"):
        b - b


def test_parts_of_arrays_are_views():
    x = f.reshape(f.arange(12), (3, 4))
    assert [v.tolist() for v in f.split(x, [1, 3], axis=1)] == [[[0], [4], [8]], [[1, 2, 3], [5, 6, 7], [9, 10, 11]]]
    assert [v.tolist() for v in f.chunk(x, 3)] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11]]]
    assert f.narrow(x, -1, -2, 2).tolist() == [[2, 3], [6, 7], [10, 11]] and f.select(x, 1, -1).tolist() == [3, 7, 11]
    f.chunk(x, 2, axis=1)[1][0] = 7
    assert x[0].tolist() == [0, 1, 7, 7] and x._share_memory(f.select(x, 0, 1))
    assert f.jit(lambda x: f.split(x, [1, 2])[1] + f.chunk(f.narrow(x, 0, 0, 2), 2)[0])(x).tolist() == [[4, 6, 13, 14], [8, 10, 17, 18]]
    for call, error, message in ((lambda: f.split(x, 2), TypeError, r"split: expected the sizes of the parts, got 2: chunk\(x, n\) makes n equal parts"),
                                 (lambda: f.split(x, [1, 1]), ValueError, r"sizes whose sum is 3, as axis 0 of shape \(3, 4\) has it, got \[1, 1\]"),
                                 (lambda: f.chunk(x, 2), ValueError, r"axis 0 of shape \(3, 4\) has no 2 equal parts"),
                                 (lambda: f.narrow(x, 0, 2, 2), IndexError, "2 elements from 2 are not within axis 0"),
                                 (lambda: f.select(x, 2, 0), IndexError, "axis 2 is out of bounds"), (lambda: f.chunk(1, 1), TypeError, "asarray")):
        with pytest.raises(error, match=message):
            call()


def test_einsum_takes_operands_one_by_one_or_as_a_list():
    a, b = f.ones((2, 3)), f.reshape(f.arange(12.0), (3, 4))
    for function in (f.einsum, f.jit(f.einsum)):
        assert function("ij,jk->ik", a, b).tolist() == function("ij,jk->ik", [a, b]).tolist() == (a @ b).tolist()


def test_linalg_has_numpys_norms_and_condition_numbers():
    np = pytest.importorskip("numpy")
    x = np.random.default_rng(0).normal(size=(2, 4, 4))
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        assert f.linalg.cond(f.asarray(x), order).numpy() == pytest.approx(np.linalg.cond(x, order), rel=1e-9)
        for axis in ((1, 2), (0, -1)):
            for keepdims in (False, True):
                got, expected = (linalg.norm(x, order, axis, keepdims) for linalg, x in ((f.linalg, f.asarray(x)), (np.linalg, x)))
                assert got.shape == expected.shape and got.numpy() == pytest.approx(expected, rel=1e-9)
    assert f.linalg.norm(f.asarray(x)).item() == pytest.approx(np.linalg.norm(x)) and f.linalg.norm(f.asarray([3, 4]), 1).item() == 7
    assert f.linalg.norm(f.asarray(x), axis=1).numpy() == pytest.approx(np.linalg.norm(x, axis=1))
    for arguments, message in (((f.asarray(x), 2), "expected a vector, a matrix or axis="), ((f.asarray(x), None, (0, 1, 2)), "one axis, or two")):
        with pytest.raises(ValueError, match=message):
            f.linalg.norm(*arguments)
    assert f.cond is f.linalg.cond and f.linalg.kron(f.ones((1, 2)), f.ones((2, 1))).shape == (2, 2)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_condition_numbers_exponentials_and_least_squares_are_numpys(dtype):
    np = pytest.importorskip("numpy")
    random, near = np.random.default_rng(0), {"rel": 1e-4 if dtype == "complex64" else 1e-9, "abs": 1e-5 if dtype == "complex64" else 1e-12}

    def numbers(*shape):
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)

    x = numbers(2, 4, 4)
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        got = f.linalg.cond(f.asarray(x), order)
        assert got.numpy() == pytest.approx(np.linalg.cond(x, order), **near) and got.dtype == {"complex64": f.float32, "complex128": f.float64}[dtype]
    singular = np.stack([x[0], np.outer([1, 2, 3, 4], [1, 1j, 0, 1]).astype(dtype)])
    assert f.linalg.cond(f.asarray(singular), 1).numpy() == pytest.approx([np.linalg.cond(x[0], 1), np.inf], **near)
    values, vectors = np.linalg.eig(x.astype("complex128"))
    exponential = f.linalg.expm(f.asarray(x))
    assert exponential.numpy() == pytest.approx((vectors * np.exp(values)[:, None]) @ np.linalg.inv(vectors), **near) and str(exponential.dtype).endswith(dtype)
    for a, b in ((numbers(5, 3), numbers(5, 2)), (numbers(5, 3), numbers(5)), (numbers(3, 5), numbers(3, 2)), (numbers(5, 2)[:, [0, 1, 0]], numbers(5, 2))):
        solution, residuals, rank = f.linalg.lstsq(f.asarray(a), f.asarray(b))
        want, _, want_rank, _ = np.linalg.lstsq(a, b, rcond=None)
        assert solution.numpy() == pytest.approx(want, **near) and rank.item() == want_rank
        assert residuals.numpy() == pytest.approx((np.abs(b - a @ want) ** 2).sum(axis=0), **near)
    with pytest.raises(ValueError, match=r"lstsq: expected a \(..., M, N\) and b"):
        f.linalg.lstsq(f.asarray(x), f.asarray(numbers(3, 1)))
    with pytest.raises(ValueError, match="expm: expected square matrices"):
        f.linalg.expm(f.asarray(numbers(3, 2)))
    with pytest.raises(TypeError, match="cond: complex matrices work neither in jit"):
        f.jit(f.linalg.cond)(f.asarray(x))


def test_integers_are_rounded_to_tens_exactly():
    x = [123456789, -987654321, 5, 15, 2**40 + 7]
    for decimals in (-1, -2, 1):
        assert f.asarray(x).round(decimals).tolist() == [round(v, decimals) for v in x]


@pytest.mark.parametrize("call, error, message", [
    (lambda x: f.fft.hfft(x, axis=5), IndexError, "axis 5 is out of bounds"),
    (lambda x: f.linalg.cross(x, x, axis=4), IndexError, "axis 4 is out of bounds"),
    (lambda x: f.take(1, [0]), TypeError, "asarray"), (lambda x: f.repeat(1, 2), TypeError, "asarray"),
    (lambda x: f.diff(1), TypeError, "asarray"), (lambda x: f.cumulative_sum(x), ValueError, "cumulative_sum: axis must be given"),
    (lambda x: f.expand_dims(x, (0, 0)), ValueError, r"expand_dims: expected different axes, got \(0, 0\)"),
    (lambda x: f.moveaxis(x, (0, 1), 0), ValueError, "moveaxis: expected as many destinations as sources, got 2 and 1"),
    (lambda x: f.roll(x, (1, 2), 0), ValueError, "roll: expected one shift per axis, got 2 shifts for 1 axes"),
    (lambda x: f.squeeze(x, 0), ValueError, r"squeeze: expected size 1 on axis 0, got shape \(2, 3\)")])
def test_errors_of_axes_name_the_function(call, error, message):
    with pytest.raises(error, match=message):
        call(f.ones((2, 3)))


def test_medians_know_nan_and_several_axes():
    np = pytest.importorskip("numpy")
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    x[1, 2, 3] = np.nan
    for axis in (None, 0, -1, (0, 2), (2, 0, 1)):
        for keepdims in (False, True):
            np.testing.assert_array_equal(np.asarray(f.median(f.asarray(x), axis, keepdims=keepdims)), np.median(x, axis, keepdims=keepdims))
    assert f.median(f.asarray([3, 1, 2])).item() == 2


def test_round_takes_decimals_and_divmod_is_that_of_numpy():
    np = pytest.importorskip("numpy")
    x = np.asarray([1.25, -2.345, 1234.5], "f4")
    for decimals in (0, 1, 2, -2):
        np.testing.assert_allclose(np.asarray(f.round(f.asarray(x), decimals)), np.round(x, decimals), rtol=1e-6)
    for found, expected in zip((divmod(f.asarray([7, -7]), 5), divmod(9, f.asarray([2, 4]))), (np.divmod([7, -7], 5), np.divmod(9, [2, 4]))):
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    with pytest.raises(TypeError, match="argmax: axis: expected one axis, or None for all"):
        f.argmax(f.asarray(x), axis=(0, 1))


def test_squares_have_the_type_and_the_elements_of_products():
    for dtype in (f.float32, f.float16, f.int8, f.uint8, f.complex64):
        x = f.asarray([1, 3, 20], dtype=dtype)
        for y in (x**2, f.jit(lambda x: x**2)(x)) if dtype != f.complex64 else (x**2,):
            assert y.dtype == dtype and y.tolist() == (x * x).tolist()
    x = f.asarray([1.5, -3.0])
    assert (x**2.0).tolist() == [2.25, 9] and (x ** f.asarray(2.0)).tolist() == [2.25, 9] and (x ** (2 + 0j)).dtype == f.complex64
    assert f.grad(lambda x: f.sum(x**2))(x).tolist() == [3, -6] and (f.asarray([1.5]) ** 10**30).tolist() == [float("inf")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log2", "sin", "tanh", "sqrt", "floor", "atanh"])
def test_functions_have_the_same_bits_for_any_layout_and_in_jit(name, dtype):
    np = pytest.importorskip("numpy")
    numbers = np.concatenate([np.linspace(0.001, 0.999, 700), [0.0, -0.0, 0.5]]).astype(dtype)
    function, x = getattr(f, name), f.asarray(numbers)
    whole = np.asarray(function(x))
    apart = f.asarray(np.repeat(numbers, 3))[::3]
    np.testing.assert_array_equal(np.asarray(function(apart)), whole)
    np.testing.assert_array_equal([function(x[i]).item() for i in range(len(numbers))], whole)
    if (name, dtype) != ("log2", "float32"):  # in jit a multiple of log
        np.testing.assert_array_equal(np.asarray(f.jit(function)(x)), whole)
    with np.errstate(divide="ignore"):
        expected = getattr(np, {"atanh": "arctanh"}.get(name, name))(numbers[-3:])
    np.testing.assert_array_equal(np.signbit(whole[-3:]), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 200, 257, 5000])
def test_sorting_is_stable_with_nan_last_and_keeps_the_bits_of_elements(dtype, n):
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(n)
    x = (draw.standard_normal(n) * 10).astype(dtype) if dtype.startswith("float") else draw.integers(0, 50, n).astype(dtype)
    if dtype.startswith("float"):
        for special in (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf):
            x[draw.random(n) < 0.1] = special
    a, order = f.asarray(x), np.argsort(x, kind="stable")
    np.testing.assert_array_equal(np.asarray(f.argsort(a)), order)
    assert np.asarray(f.sort(a)).tobytes() == x[order].tobytes()
    nan = x != x
    last = np.lexsort((np.arange(n), -np.where(nan, 0, x.astype("longdouble")), ~nan))
    np.testing.assert_array_equal(np.asarray(f.argsort(a, descending=True)), last)
    assert np.asarray(f.sort(a, descending=True)).tobytes() == x[last].tobytes()
    np.testing.assert_array_equal(np.asarray(f.jit(f.argsort)(a)), order)
