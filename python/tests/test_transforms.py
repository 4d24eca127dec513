"""jit, grad, plans, random numbers."""
import numpy as np
import pytest

import freight as f


def test_jit_takes_and_returns_nested_values_and_traces_once_per_signature():
    calls = []

    @f.jit
    def step(parameters, x, scale=2.0):
        calls.append(1)
        return {"y": f.relu(x @ parameters["w"]) * scale, "pair": (x.sum(0), x[::-1])}

    w, x = f.ones((3, 2)), f.asarray([[1.0, 2.0, 3.0], [-4.0, -5.0, -6.0]])
    for _ in range(3):
        out = step({"w": w}, x)
    assert out["y"].tolist() == [[12, 12], [0, 0]] and out["pair"][1].tolist()[0] == [-4, -5, -6]
    assert len(calls) == 1 and step.recompilations == []
    step({"w": w}, x[:1])
    step({"w": w}, x, scale=3.0)
    assert len(calls) == 3 and len(step.recompilations) == 2


def test_gradients_of_nested_arguments():
    def loss(p, x):
        return f.mean((x @ p["w"] + p["b"]) ** 2)

    p, x = {"w": f.ones((3, 1)), "b": f.zeros(1)}, f.asarray([[1.0, 2.0, 3.0]])
    value, g = f.value_and_grad(loss)(p, x)
    assert value.item() == 36 and g["w"].tolist() == [[12], [24], [36]] and g["b"].tolist() == [12]
    assert f.jit(f.grad(loss))(p, x)["w"].tolist() == g["w"].tolist()
    assert f.grad(f.grad(lambda w: f.sum(w**3)))(f.asarray(2.0)).item() == 12
    assert f.grad(lambda a, b: f.sum(a * b), argnums=(0, 1))(f.asarray([2.0]), f.asarray([3.0]))[1].tolist() == [2]


def test_compiled_functions_are_part_of_those_that_call_them():
    square = f.jit(lambda x: x * x)
    assert f.jit(lambda x: f.sum(square(x)))(f.asarray([1.0, 2.0])).item() == 5
    assert f.grad(lambda x: f.sum(square(x)))(f.asarray([1.0, 2.0])).tolist() == [2, 4]


def test_gradients_use_the_elements_that_the_function_saw():
    factor = f.ones(3)

    def loss(x):
        y = f.sum(x * factor * x)
        factor[...] = 100.0
        return y

    assert f.grad(loss)(f.ones(3)).tolist() == [2, 2, 2]


def test_functions_that_are_dropped_leave_no_memory():
    import gc
    import weakref

    def make():
        step = f.jit(lambda x: x + 1)
        step(f.ones(2))
        return weakref.ref(step)

    kept = [make() for _ in range(20)]
    gc.collect()
    assert not any(k() for k in kept)


def test_a_loop_of_descent_reaches_the_minimum():
    f.random.seed(0)
    x, true = f.random.normal((64, 3)), f.asarray([1.0, -2.0, 0.5])
    y, w = x @ true, f.zeros(3)
    step = f.jit(lambda w: w - 0.1 * f.grad(lambda w: f.mean((x @ w - y) ** 2))(w))
    for _ in range(200):
        w = step(w)
    assert f.max(abs(w - true)).item() < 1e-3


@pytest.mark.parametrize("function, error", [
    (lambda x: f.fft.fft(x), TypeError), (lambda x: f.unique_values(x), ValueError), (lambda x: float(f.sum(x)), ValueError),
    (lambda x: x * 1j, TypeError), (lambda x: x[x > 0], TypeError),
])
def test_host_functions_are_refused_in_jit_with_an_error(function, error):
    with pytest.raises(error):
        f.jit(function)(f.ones(4))
    assert f.jit(lambda x: x + 1)(f.ones(4)).tolist() == [2] * 4  # a failed trace leaves nothing behind


def test_a_write_in_jit_and_grad_is_a_part_of_the_function():
    def write(x, y):
        x[1:] = y * 2
        x[f.asarray([0, 0])] = 5.0
        x += 1
        return x

    x, y = f.asarray([1.0, 2.0, 3.0]), f.asarray([4.0, 5.0])
    assert f.jit(write)(x, y).tolist() == [6, 9, 11] and x.tolist() == [1, 2, 3]
    g = f.grad(lambda x, y: f.sum(write(x, y) ** 2), argnums=(0, 1))(x, y)
    assert g[0].tolist() == [0, 0, 0] and g[1].tolist() == [36, 44]


def test_a_host_array_takes_no_traced_elements():
    total = f.zeros(3)

    def leak(x):
        total[...] = x
        return x

    with pytest.raises(TypeError, match="host array"):
        f.jit(leak)(f.ones(3))


def test_exceptions_of_a_traced_function_reach_the_caller():
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f.jit(fails)(f.ones(1))


def test_errors_name_the_line_of_the_program():
    with pytest.raises(ValueError, match=r"test_transforms\.py:\d+"):
        f.jit(lambda x: f.softmax(x, axis=5))(f.ones((2, 2)))


def test_plan_tells_memory_and_steps_before_anything_runs():
    plan = f.plan(lambda a, b: f.relu(a @ b), f.ones((64, 32)), f.ones((32, 16)))
    assert plan.flops >= 2 * 64 * 32 * 16 and any("matmul" in s for s in plan.steps) and "steps" in repr(plan)


def test_a_fit_leaves_the_seed_and_the_draws_of_the_program():
    def drawn(between):
        f.random.seed(3)
        first, numbers = f.nn.Linear(4, 2), f.random.normal((2,)).tolist()
        between(first)
        second = f.nn.Linear(4, 2)
        second(np.zeros((1, 4), "f4"))
        return second.weight.tolist(), numbers, f.random.normal((2,)).tolist()

    x, y = np.ones((6, 4), "f4"), np.arange(6) % 2
    assert drawn(lambda net: net(x)) == drawn(lambda net: net.fit(x, y, epochs=2, seed=9, verbose=0))


def test_random_numbers_follow_from_seeds_and_keys():
    f.random.seed(5)
    a = f.random.normal((100,))
    f.random.seed(5)
    assert f.random.normal((100,)).tolist() == a.tolist() != f.random.normal((100,)).tolist()
    key = f.random.key(3)
    drawn = f.random.uniform((4,), key=key)
    assert drawn.tolist() == f.random.uniform((4,), key=key).tolist()
    assert f.jit(lambda k: f.random.uniform((4,), key=k))(key).tolist() == drawn.tolist()
    one, two = f.random.split(key)
    assert f.random.uniform((4,), key=one).tolist() != f.random.uniform((4,), key=two).tolist()
    assert sorted(f.random.permutation(50).tolist()) == list(range(50))
    x = f.random.randint(3, 7, (1000,))
    assert x.dtype == f.int64 and f.min(x).item() == 3 and f.max(x).item() == 6


def test_functions_of_the_library_are_there_with_their_options():
    x = f.asarray([[1.0, 5.0, 3.0]])
    values, indices = f.topk(x, 2)
    assert values.tolist() == [[5, 3]] and indices.tolist() == [[1, 2]] and indices.dtype == f.int64
    assert abs(f.sum(f.softmax(x)).item() - 1) < 1e-6
    assert f.conv2d(f.ones((1, 1, 4, 4)), f.ones((1, 1, 3, 3)), padding=1).shape == (1, 1, 4, 4)
    assert f.softmax.__doc__


def test_a_custom_gradient_takes_the_place_of_the_functions_own():
    @f.custom_gradient
    def clipped(x):
        return x * 1.0, lambda dy: f.clip(dy, -1.0, 1.0)

    x = f.asarray([1.0, -2.0, 3.0])
    assert clipped(x).tolist() == x.tolist()
    assert f.grad(lambda x: f.sum(clipped(x) * f.asarray([5.0, 0.5, -7.0])))(x).tolist() == [1, 0.5, -1]
    assert f.jit(f.grad(lambda x: f.sum(clipped(x) ** 2)))(x).tolist() == [1, -1, 1]
    assert f.jit(clipped)(f.asarray([-0.0, float("inf"), float("nan")])).tolist()[:2] == [0, float("inf")]
    assert f.signbit(f.grad(lambda x: (f.sum(x), clipped(f.asarray([-0.0]) * x[0])), has_aux=True)(x)[1]).tolist() == [True]


def test_custom_gradients_of_nested_arguments_and_results():
    @f.custom_gradient
    def layer(parameters, x, scale):
        y = {"sum": x @ parameters["w"] + parameters["b"], "double": x * 2}

        def backward(dy):
            return {"w": f.ones((3, 2)) * 7, "b": f.sum(dy["sum"], axis=0)}, dy["double"] * 10, None

        return y, backward

    p, x = {"w": f.ones((3, 2)), "b": f.zeros(2)}, f.ones((4, 3))

    def loss(p, x):
        y = layer(p, x, 3)
        return f.sum(y["sum"] * 2) + f.sum(y["double"])

    for transform in (lambda g: g, f.jit):
        g = transform(f.grad(loss, argnums=(0, 1)))(p, x)
        assert g[0]["w"].tolist() == [[7, 7]] * 3 and g[0]["b"].tolist() == [8, 8] and g[1].tolist() == [[10] * 3] * 4
    g = f.grad(lambda p, x: f.sum(layer(p, x, 3)["sum"]), argnums=1)(p, x)  # nothing arrives at the other result
    assert g.tolist() == [[0] * 3] * 4


def test_custom_gradients_have_gradients():
    @f.custom_gradient
    def cube(x):
        return x**3, lambda dy: dy * 3 * x**2

    x = f.asarray([2.0])
    first = f.grad(lambda x: f.sum(cube(x)))
    assert first(x).tolist() == [12] and f.grad(lambda x: f.sum(first(x)))(x).tolist() == [12]
    assert f.grad(lambda x: f.sum(f.grad(lambda x: f.sum(first(x)))(x)))(x).tolist() == [6]
    assert f.grad(lambda x: f.sum(cube(cube(x))))(f.asarray([1.5])).item() == pytest.approx(9 * 1.5**8)


@pytest.mark.parametrize("backward, error, message", [
    (lambda dy: (dy, dy), TypeError, "one entry per positional argument"), (lambda dy: dy[:1], ValueError, r"\(1,\), expected \(2,\)"),
])
def test_wrong_custom_gradients_are_errors(backward, error, message):
    scaled = f.custom_gradient(lambda x: (x * 2, backward))
    with pytest.raises(error, match=message):
        f.grad(lambda x: f.sum(scaled(x)))(f.ones(2))
    with pytest.raises(TypeError, match="must return its value and a function"):
        f.custom_gradient(lambda x: x)(f.ones(2))


def test_custom_gradients_leave_no_memory():
    import gc
    import weakref

    kept = []

    def loss(x):
        big = x * 2
        kept.append(weakref.ref(big))
        return f.sum(f.custom_gradient(lambda x: (x * 3, lambda dy: dy * big))(x))

    for _ in range(5):
        f.grad(loss)(f.ones(10))
        f.jit(f.grad(loss))(f.ones(10))
    gc.collect()
    assert not any(k() for k in kept)


def test_autocast_computes_products_of_compiled_functions_in_16_bits():
    f.random.seed(3)
    a, b = f.random.normal((64, 64)), f.random.normal((64, 64))
    step = f.jit(lambda a, b: f.sum(a @ b, axis=0))
    exact = step(a, b)
    with f.autocast(f.bfloat16):
        rounded = step(a, b)
        with f.autocast(enabled=False):
            assert step(a, b).tolist() == exact.tolist()
    assert rounded.dtype == f.float32 and rounded.tolist() != exact.tolist()
    assert f.max(abs(rounded - exact)).item() < 2
    assert f.autocast(f.bfloat16)(step)(a, b).tolist() == rounded.tolist() != step(a, b).tolist()
    assert "bf16" in f.autocast(f.bfloat16)(f.plan)(step, a, b).text
    with f.autocast(f.float16):
        g = f.jit(f.grad(lambda a: f.sum((a @ b) ** 2)))(a)
    assert g.dtype == f.float32 and f.max(abs(g - 2 * (a @ b) @ b.T)).item() < 5
    with pytest.raises(ValueError, match="int8"):
        f.autocast(f.int8)

    @f.jit
    def inside(a):
        with f.autocast():
            return a @ b

    with pytest.raises(TypeError, match="around the call"):
        inside(a)


def test_results_may_have_another_structure_for_other_shapes():
    rows = f.jit(lambda x: tuple(2 * row for row in x))
    for n in (2, 3, 2):
        assert [r.tolist() for r in rows(f.ones((n, 1)))] == [[2]] * n


def test_numbers_of_other_types_are_other_arguments():
    scaled = f.jit(lambda x, k: x * k)
    assert scaled(f.arange(2), 2).dtype == f.int64 and scaled(f.arange(2), 2.0).dtype == f.float32


def test_operators_of_bits_are_those_of_logic_for_bool_in_jit():
    a, b, n = f.asarray([True, True, False]), f.asarray([True, False, False]), f.asarray([6, 3, 0])
    for operator in (lambda a, b: ~a, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a & True, lambda a, b: f.bitwise_invert(a)):
        for x, y in ((a, b), (n, f.flip(n))):
            assert f.jit(operator)(x, y).tolist() == operator(x, y).tolist()

    @f.jit
    def masked(a, b):
        a &= b
        return a

    assert masked(a, b).tolist() == [True, False, False] and a.tolist() == [True, True, False]


def test_gradients_survive_what_a_loss_evaluates():
    class Two(f.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = f.nn.Parameter(f.asarray([1.0, 2.0, 3.0])), f.nn.Parameter(f.zeros(3))

    net, x = Two(), f.asarray([0.5, -1.0, 2.0])
    share = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()

    def loss(net, x):
        y = net.w * 2
        assert float(f.sum(y)) == 12  # evaluates, as does a function of a host array below
        return f.sum(y * f.softmax(x) + net.w + net.b)

    grads, dx = f.grad(loss, argnums=(0, 1))(net, x)
    np.testing.assert_allclose(np.asarray(grads["w"]), 2 * share + 1, rtol=1e-5)
    assert np.asarray(grads["b"]).tolist() == [1, 1, 1] and np.asarray(dx).any()
    np.testing.assert_allclose(np.asarray(f.grad(lambda net: loss(net, x))(net)["w"]), 2 * share + 1, rtol=1e-5)
    whole = f.nn.Linear(3, 2)
    grads = f.grad(lambda net: f.sum(x @ whole.weight.T + whole.bias))(whole)
    assert np.asarray(grads["bias"]).tolist() == [1, 1]


def test_reductions_of_a_number_have_the_type_of_the_result_in_jit():
    for name, x in (("any", f.asarray(2.0)), ("all", f.asarray(0.5)), ("sum", f.asarray(1, dtype=f.int8)), ("prod", f.asarray(True)), ("max", f.asarray(3))):
        function = getattr(f, name)
        compiled, eager = f.jit(function)(x), function(x)
        assert compiled.dtype == eager.dtype and compiled.tolist() == eager.tolist(), name


@pytest.mark.parametrize("call", [lambda g: g(x=f.asarray(1.0)), lambda g: f.grad(lambda x: x, argnums=2)(f.asarray(1.0))])
def test_gradients_of_arguments_that_are_not_given_are_errors(call):
    with pytest.raises(TypeError, match=r"grad: argnums: expected a positional argument \d, got \d positional arguments"):
        call(f.grad(lambda x: x))


def test_inner_gradients_depend_on_what_an_outer_gradient_is_taken_by():
    w, x = f.asarray(3.0), f.asarray([1.0, 2.0])

    def loss(w, x):
        return f.sum(f.grad(lambda x: f.sum(w * x * x))(x)) + w

    assert float(f.grad(loss)(w, x)) == 7
    assert float(f.grad(lambda w: f.value_and_grad(lambda x: w * x)(f.asarray(5.0))[0] + w)(w)) == 6
    assert float(f.grad(lambda w: f.grad(lambda x: w * x * x)(f.ones(())))(w)) == 2
    a = f.asarray([[1.0, 2.0], [3.0, 4.0]])
    v = f.asarray([1.0, 1.0])
    assert f.grad(lambda a: f.sum(f.grad(lambda x: x @ a @ x)(v)))(a).tolist() == [[2, 2], [2, 2]]
    net = f.nn.Linear(1, 1, bias=False)
    net.weight = f.asarray([[2.0]])

    def penalty(net):  # the square of the slope, 4, and the weight itself
        return f.sum(f.grad(lambda x: f.sum(net(x)))(f.ones((1, 1))) ** 2) + f.sum(net.weight)

    x = np.ones((1, 1))
    assert f.grad(lambda net: f.sum(net(x)))(net)["weight"].tolist() == [[1]] and f.jit(lambda: net(x))().tolist() == [[2]]
    assert [g.tolist() for g in f.grad(penalty)(net).values()] == [[[5.0]]] == [g.tolist() for g in f.jit(f.grad(penalty))(net).values()]


# Keys of an array (4, 5, 6); arrays of integers, and lists, also of negative numbers.
I, J = np.array([-1, 0, 2]), np.array([0, -5, 4])
KEYS = [(I,), (I, J), (slice(None), I, J), (I, slice(None), J), (I, ..., J), (..., I), (None, I, J), (I, None, J), (1, I), (I, 1), (1, slice(None), I),
        (slice(None), 1, I), (J[:, None] // 5, J), (I[:, None], slice(1, 4), I), (I, J, -1), ([0, 1], [1, -1]), (slice(None), [0, 1], None, [1, -1]),
        (np.array([True, False, True, True]),), (slice(None), np.eye(5, 6) > 0), (2,), (-1, ..., 2), (...,)]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_arrays_are_numpys_in_jit_and_grad(key):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 5, 6)).astype("f4")
    want = x[key]
    ours = tuple(f.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(np.asarray(f.jit(lambda x: x[ours])(f.asarray(x))), want, strict=True)
    seed, slope = rng.normal(size=want.shape).astype("f4"), np.zeros_like(x)
    np.add.at(slope, key, seed)
    np.testing.assert_allclose(np.asarray(f.grad(lambda x: f.sum(x[ours] * f.asarray(seed)))(f.asarray(x))), slope, rtol=1e-6)

    def with_traced(indices):
        given = iter(indices)
        return tuple(next(given) if isinstance(k, f.Array) and k.dtype != f.bool else k for k in ours)

    indices = [k for k in ours if isinstance(k, f.Array) and k.dtype != f.bool]
    np.testing.assert_array_equal(np.asarray(f.jit(lambda x, *k: x[with_traced(k)])(f.asarray(x), *indices)), want, strict=True)

    def written(x, *k):
        x = x + 0
        x[with_traced(k)] = 7
        return x

    want = x.copy()
    want[key] = 7
    np.testing.assert_array_equal(np.asarray(f.jit(written)(f.asarray(x), *indices)), want, strict=True)


@pytest.mark.parametrize("key", [([5],), ([0], [5]), ([0], [-6]), ([-5],)], ids=str)
def test_index_arrays_out_of_range_are_errors_in_jit(key):
    x, indices = f.ones((4, 5)), [f.asarray(k) for k in key]
    with pytest.raises(IndexError, match=r"index -?\d is out of bounds for axis \d with size \d"):
        f.jit(lambda x: x[tuple(indices)])(x)
    with pytest.raises(ValueError, match="gather: index out of range"):
        f.jit(lambda x, *k: x[k])(x, *indices)


def test_take_along_axis_broadcasts_and_counts_from_the_end_in_jit():
    x = np.arange(24.0).reshape(2, 3, 4)
    indices = np.asarray([[[-1, 0]]])
    found = f.jit(lambda x, i: f.take_along_axis(x, i, axis=2))(f.asarray(x), f.asarray(indices))
    np.testing.assert_array_equal(np.asarray(found), np.take_along_axis(x, np.broadcast_to(indices, (2, 3, 2)), 2))


@pytest.mark.parametrize("bounds, expected", [({"min": 0.0}, [0, 0, 1, 1]), ({"max": 0}, [0, 1, 0, 0]), ({"min": 0, "max": 1.0}, [0, 0, 1, 0]), ({}, [1, 1, 1, 1])])
def test_elements_between_the_numbers_of_clip_alone_have_a_gradient(bounds, expected):
    """PyTorch's values (2.15, torch.clamp)."""
    x = f.asarray(np.array([0, -1, 0.5, 1], "f4"))
    assert f.grad(lambda x: f.sum(f.clip(x, **bounds)))(x).tolist() == expected
    assert f.jit(lambda x: f.clip(x, **bounds))(x).tolist() == f.clip(x, **bounds).tolist()


@pytest.mark.parametrize("settings", [{}, {"axis": 0}, {"correction": 1}, {"axis": 1, "keepdims": True}], ids=str)
def test_the_gradient_of_a_deviation_of_equal_elements_is_0_as_pytorchs(settings):
    torch = pytest.importorskip("torch")
    x = np.array([[1.0, 2.0], [1.0, 5.0], [1.0, 5.0], [4.0, 4.0]], "f4")
    if settings.get("axis") is None:
        x[:] = 3.0
    t = torch.tensor(x, requires_grad=True)
    torch.std(t, **{"dim": settings.get("axis"), "correction": settings.get("correction", 0), "keepdim": settings.get("keepdims", False)}).sum().backward()
    for gradient in (f.grad(lambda x: f.sum(f.std(x, **settings))), f.jit(f.grad(lambda x: f.sum(x.std(**settings))))):
        np.testing.assert_allclose(gradient(f.asarray(x)), t.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert np.isnan(f.jit(f.std)(f.asarray([1.0, np.nan])).item())


@pytest.mark.parametrize("shapes", [((6, 2, 0), (0, 3)), ((6, 2, 0), (6, 0, 3)), ((2, 0), (4, 0, 3)), ((0, 2, 5), (5, 3)), ((6, 0, 5), (5, 3)), ((2, 3, 4, 0), (0, 1))])
def test_products_without_terms_are_zeros(shapes):
    a, b = (np.zeros(shape, "f4") for shape in shapes)
    want = a @ b
    for device in ("cpu", "ref"):
        got = f.jit(f.matmul, device=device)(f.asarray(a), f.asarray(b))
        assert got.shape == want.shape and not got.numpy().any()
    gradients = f.grad(lambda a, b: f.sum(f.matmul(a, b)), argnums=(0, 1))(f.asarray(a), f.asarray(b))
    assert [g.shape for g in gradients] == [a.shape, b.shape]


@pytest.mark.parametrize("shape", [(3, 4, 5), (7, 257, 32), (64, 64, 3)])
def test_the_largest_sum_is_found_again_where_its_product_is_read_elsewhere(shape):
    random = np.random.default_rng(0)
    a, b = random.normal(size=shape[1:]).astype("f4"), random.normal(size=shape).astype("f4")

    def loss(a, b):
        return f.sum(f.max(a + b * b, axis=(0, 2))) + f.sum(1 / (1.5 + b * b))

    step = {device: f.jit(f.value_and_grad(loss, argnums=(0, 1)), device=device) for device in ("cpu", "ref")}
    (value, gradients), (expected, want) = step["cpu"](f.asarray(a), f.asarray(b)), step["ref"](f.asarray(a), f.asarray(b))
    assert float(value) == pytest.approx(float(expected), rel=1e-5)
    for got, reference in zip(gradients, want):
        np.testing.assert_allclose(got.numpy(), reference.numpy(), rtol=1e-4, atol=1e-5)
