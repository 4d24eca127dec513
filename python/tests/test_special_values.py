"""Pointwise functions of zeros, infinities, NaN and subnormal numbers: on the host, compiled, and NumPy's."""
import math

import numpy as np
import pytest

import freight as f

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 7.0, -7.0, 0.1, 1e-3, 300.0, -300.0, math.inf, -math.inf, math.nan]
OF_TYPE = {
    "float64": [5e-324, -5e-324, 1e-310, 2.3e-308, 1.7e308, -1.7e308, 1e17, 2.0**53 + 2],
    "float32": [1e-45, -1e-45, 1e-40, 1.2e-38, 3e38, -3e38, 1e10],
    "float16": [6e-8, -6e-8, 1e-5, 6.2e-5, 65504, -65504, 3000.0],
    "bfloat16": [1e-40, -1e-40, 1.2e-38, 3e38, -3e38, 1e10],
}
NORMAL = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}  # the least number
# Where NumPy's are computed, to be rounded once.
WIDE = {"float64": np.longdouble, "float32": np.float64, "float16": np.float32, "bfloat16": np.float32}
PLACES = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def floor_of_quotient(a, b):
    """Python has NaN and -1 where an operand is infinite, the standard prefers the floor of the quotient."""
    return np.where(np.isinf(a) | np.isinf(b), a / b, np.floor_divide(a, b))


UNARY = {
    "abs": np.abs, "sign": np.sign, "negative": np.negative, "positive": np.positive, "square": np.square,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "reciprocal": np.reciprocal, "rsqrt": lambda v: 1 / np.sqrt(v), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf, "signbit": np.signbit,
    "relu": lambda v: np.maximum(v, 0), "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "erf": lambda v: np.vectorize(math.erf)(v),
}
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "floor_divide": floor_of_quotient,
    "remainder": np.remainder, "fmod": np.fmod, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    "copysign": np.copysign, "nextafter": np.nextafter, "logaddexp": np.logaddexp, "maximum": np.maximum, "minimum": np.minimum,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal,
}
# The library computes these on the host, too, and it counts subnormal numbers as 0.
WITHOUT_SUBNORMALS = {"relu", "sigmoid", "erf", "fmod"}


def numbers(dtype):
    """The values, as an array of the package and in NumPy's wide type."""
    x = f.asarray(np.array(VALUES + OF_TYPE[dtype])).astype(getattr(f, dtype))
    return x, np.asarray(x.astype(f.float64)).astype(WIDE[dtype])


def compare(name, dtype, function, operands, plain, wide):
    with np.errstate(all="ignore"):
        if name == "nextafter":
            wide = [v.astype(dtype) for v in wide]
        exact = np.asarray(plain(*wide))
        if exact.dtype != bool:  # rounded once
            near = f.asarray(exact.astype("float64" if dtype == "float64" else WIDE[dtype]))
            exact = np.asarray(near.astype(getattr(f, dtype)).astype(f.float64))
    # Compiled functions count what is subnormal in the type that they compute in as 0: f32 of 16 bits.
    normal = NORMAL["float64"] if dtype == "float64" else NORMAL["float32"]
    tiny = np.zeros(exact.shape, bool)
    for v in (*wide, exact):
        tiny |= (np.abs(v) < normal) & (v != 0)

    def compiled(*xs):
        y = function(*xs)
        return y, f.where(xs[0] == xs[0], y, y)

    results = [("host", function(*operands)), ("jit", f.jit(function)(*operands)), ("fused", f.jit(compiled)(*operands)[1])]
    for how, result in results:
        got = np.asarray(result.astype(f.float64))
        want = exact.astype("float64")
        same = (np.isnan(want) & np.isnan(got)) | ((want == got) & (np.signbit(want) == np.signbit(got)))
        with np.errstate(all="ignore"):
            same |= np.abs(want - got) <= 8 * 2.0**-PLACES[dtype] * np.abs(want)
        if how != "host" or name in WITHOUT_SUBNORMALS:
            same |= tiny
        wrong = [(*(float(v[i]) for v in wide), float(got[i]), float(want[i])) for i in np.flatnonzero(~same)]
        assert not wrong, f"{name} of {dtype} {how}: operands, result, NumPy's: {wrong[:5]} and {max(0, len(wrong) - 5)} more"


@pytest.mark.parametrize("dtype", list(OF_TYPE))
@pytest.mark.parametrize("name", list(UNARY))
def test_function_of_one_operand_gives_numpys_special_values(name, dtype):
    x, wide = numbers(dtype)
    compare(name, dtype, getattr(f, name), [x], UNARY[name], [wide])


@pytest.mark.parametrize("dtype", list(OF_TYPE))
@pytest.mark.parametrize("name", list(BINARY))
def test_function_of_two_operands_gives_numpys_special_values(name, dtype):
    if name == "nextafter" and dtype in ("float16", "bfloat16"):
        pytest.skip("nextafter is for float32 and float64")
    x, wide = numbers(dtype)
    n = x.shape[0]
    a, b = f.repeat(x, n), f.concat([x] * n)
    compare(name, dtype, getattr(f, name), [a, b], BINARY[name], [np.repeat(wide, n), np.tile(wide, n)])


def test_sign_of_nan_has_no_gradient():
    x = f.asarray([math.nan, -2.0, 0.0, 3.0])
    assert f.grad(lambda v: f.sum(f.sign(v) * 2 + v))(x).tolist() == [1, 1, 1, 1]
    assert f.jit(f.sign)(x).tolist()[1:] == [-1, 0, 1]
