"""The standard's linalg extension: real matrices by the library's ops, complex ones on the host."""
from . import _core, _functions, _results
from . import _array_api as xp
from ._functions import _call, abs, conj, log, sqrt
from ._array_api import matmul, matrix_transpose, tensordot, vecdot, inf  # noqa: F401


class LinAlgError(ValueError):
    """A matrix that cannot be factorized: singular, or not positive definite."""


def _matrix(x, function, square=False):
    xp._array(x, function)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise LinAlgError(f"{function}: expected {'square ' if square else ''}matrices, got shape {x.shape}")
    if _is_complex(x) and not x._on_host:
        raise TypeError(f"{function}: complex matrices work neither in jit and grad nor on other devices")
    return xp.astype(x, xp.float32) if xp.isdtype(x.dtype, ("bool", "integral")) else x


def _is_complex(x):
    return xp.isdtype(x.dtype, "complex floating")


def _real(x):
    return {xp.complex64: xp.float32, xp.complex128: xp.float64}.get(x.dtype, x.dtype)


def _complex(x):
    return {xp.float64: xp.complex128, xp.complex128: xp.complex128}.get(x.dtype, xp.complex64)


def _factorized(name, *arguments):
    try:
        return _call(name, *arguments)
    except ValueError as error:
        raise LinAlgError(str(error)) from None


def cholesky(x, /, *, upper=False):
    """L with L L^H = x, or upper U with U^H U = x; LinAlgError where x is not positive definite."""
    x = _matrix(x, "cholesky", square=True)
    if not _is_complex(x):
        return _factorized("cholesky", x, upper)
    try:
        y = _core.complex_cholesky(conj(matrix_transpose(x)) if upper else x)
    except ValueError as error:
        raise LinAlgError(str(error)) from None
    return xp.astype(conj(matrix_transpose(y)) if upper else y, x.dtype)


_ORDERS = {None: "two", 2: "two", -2: "minus_two", 1: "one", -1: "minus_one", inf: "inf", -inf: "minus_inf"}


def cond(x, p=None):
    """The norm of x times that of its inverse: the norm is 2 (None), -2, 1, -1, inf, -inf, "fro" or "nuc"."""
    x = _matrix(x, "cond")
    if not _is_complex(x):
        return _call("cond", x, _ORDERS.get(p, p))
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    try:
        return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
    except LinAlgError:  # a singular matrix, of which there may be others beside it
        return xp.stack([cond(m, p) for m in x]) if x.ndim > 2 else xp.asarray(inf, dtype=_real(x))


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of 3 numbers along an axis; the others broadcast."""
    x1, x2 = xp._taken(x1, "cross"), xp._taken(x2, "cross")
    n = xp._max_of(x1.ndim, x2.ndim)
    if x1.ndim == 0 or x2.ndim == 0 or x1.shape[xp._axis(axis, x1.ndim)] != 3 or x2.shape[xp._axis(axis, x2.ndim)] != 3:
        raise ValueError(f"cross: expected 3 numbers along axis {axis}, got shapes {x1.shape} and {x2.shape}")
    x1, x2 = xp.broadcast_arrays(x1, x2)
    a = xp._axis(axis, n)
    (a0, a1, a2), (b0, b1, b2) = xp.unstack(x1, axis=a), xp.unstack(x2, axis=a)
    return xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=a)


def det(x, /):
    """The determinant."""
    x = _matrix(x, "det", square=True)
    if not _is_complex(x):
        return _call("det", x)
    return xp.astype(xp.prod(_core.complex_pivots(x), axis=-1), x.dtype)


def diagonal(x, /, *, offset=0):
    """(..., M, N) -> (..., elements at (i, i + offset)), a view."""
    return _core.diagonal(x, offset)


def eigh(x, /):
    """Eigenvalues, ascending, and eigenvectors in columns, of symmetric or Hermitian matrices."""
    x = _matrix(x, "eigh", square=True)
    if not _is_complex(x):
        return _results.EighResult(*_call("eigh", x, False))
    values, vectors = _core.complex_eigh(x)
    return _results.EighResult(xp.astype(values, _real(x)), xp.astype(vectors, x.dtype))


def eigvalsh(x, /):
    """The eigenvalues of eigh."""
    x = _matrix(x, "eigvalsh", square=True)
    return eigh(x).eigenvalues if _is_complex(x) else _call("eigvalsh", x, False)


def _joined(re, im):
    y = xp.empty(re.shape, dtype=_complex(re))
    y.real[...] = re
    y.imag[...] = im
    return y


def eig(x, /):
    """Eigenvalues and eigenvectors in columns, complex, of any square matrices."""
    x = _matrix(x, "eig", square=True)
    if not _is_complex(x):
        values_re, values_im, vectors_re, vectors_im = _call("eig", x)
        return _results.EigResult(_joined(values_re, values_im), _joined(vectors_re, vectors_im))
    values, vectors = _core.complex_eig(x)
    return _results.EigResult(xp.astype(values, x.dtype), xp.astype(vectors, x.dtype))


def eigvals(x, /):
    """The eigenvalues of eig."""
    x = _matrix(x, "eigvals", square=True)
    return eig(x).eigenvalues if _is_complex(x) else _joined(*_call("eigvals", x))


def expm(x, max_squarings=16):
    """The matrix exponential; NaN for norms beyond what max_squarings reach."""
    if not (isinstance(x, _core.Array) and _is_complex(x)):
        return _call("expm", x, max_squarings)
    re, im = xp.real(_matrix(x, "expm", square=True)), xp.imag(x)
    # Complex numbers are as real matrices of two rows and two columns, and so are their products.
    y = _call("expm", xp.concat([xp.concat([re, -im], axis=-1), xp.concat([im, re], axis=-1)], axis=-2), max_squarings)
    n = x.shape[-1]
    return _joined(y[..., :n, :n], y[..., n:, :n])


def inv(x, /):
    """The inverse; LinAlgError where x is singular."""
    x = _matrix(x, "inv", square=True)
    if not _is_complex(x):
        return _factorized("inv", x)
    unit = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return solve(x, unit)


def lstsq(a, b, rcond=None, full_rank=False):
    """Least-squares solution x of minimum norm, sums of squared residuals, the rank."""
    if not any(isinstance(v, _core.Array) and _is_complex(v) for v in (a, b)):
        return _call("lstsq", a, b, rcond, full_rank)
    a, b = _matrix(a, "lstsq"), xp.asarray(b)
    if b.ndim == 0 or a.shape[-2] != b.shape[-1 if b.ndim == 1 else -2]:
        raise ValueError(f"lstsq: expected a (..., M, N) and b (..., M, K) or (M), got shapes {a.shape} and {b.shape}")
    x = matmul(pinv(a, rtol=rcond), b)
    squares = abs(b - matmul(a, x)) ** 2
    return x, xp.sum(squares, axis=-1 if b.ndim == 1 else -2), matrix_rank(a, rtol=rcond)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of each matrix: "fro", "nuc", 1, 2, inf or their negatives."""
    x = _matrix(x, "matrix_norm")
    if ord == "fro":
        y = vector_norm(x, axis=(-2, -1), keepdims=True)
    elif ord == "nuc":
        y = xp.expand_dims(xp.sum(svdvals(x), axis=-1), (-2, -1))
    elif ord in (2, -2):
        y = xp.expand_dims((xp.max if ord > 0 else xp.min)(svdvals(x), axis=-1), (-2, -1))
    elif ord in (1, -1, inf, -inf):
        sums = xp.sum(abs(x), axis=-2 if ord in (1, -1) else -1, keepdims=True)
        y = (xp.max if ord > 0 else xp.min)(sums, axis=(-2, -1), keepdims=True)
    else:
        raise ValueError(f"matrix_norm: ord must be 'fro', 'nuc', 1, 2, inf or a negative of these, got {ord!r}")
    return y if keepdims else xp.squeeze(y, (-2, -1))


def matrix_power(x, n, /):
    """x times itself, n times; of a negative n the inverse."""
    xp._array(x, "matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"matrix_power: expected square matrices, got shape {x.shape}")
    if n < 0:
        x, n = inv(x), -n
    t = x.dtype
    if x._on_host:
        x = xp.astype(x, xp._WIDER.get(t, t), copy=False)  # rounded once
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    if result is None:
        return xp.astype(xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape), t)
    return xp.astype(result, t)


def _tolerance(s, x, rtol):
    if rtol is None:
        rtol = xp.finfo(x.dtype).eps * xp._max_of(x.shape[-1], x.shape[-2])
    largest = xp.max(s, axis=-1, keepdims=True) if s.shape[-1] else xp.zeros(s.shape[:-1] + (1,), dtype=s.dtype)
    if isinstance(rtol, _core.Array):
        rtol = xp.astype(xp.expand_dims(rtol, -1), s.dtype)
    return largest * rtol


def matrix_rank(x, /, *, rtol=None):
    """int64: how many singular values exceed rtol times the largest."""
    x = _matrix(x, "matrix_rank")
    s = svdvals(x)
    return xp.count_nonzero(s > _tolerance(s, x, rtol), axis=-1)


def outer(x1, x2, /):
    """x1 (N), x2 (M) -> (N, M)."""
    x1, x2 = xp._taken(x1, "outer"), xp._taken(x2, "outer")
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: expected two vectors, got shapes {x1.shape} and {x2.shape}")
    return xp.expand_dims(x1, 1) * xp.expand_dims(x2, 0)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse: singular values up to rtol times the largest count as 0."""
    x = _matrix(x, "pinv")
    u, s, vh = svd(x, full_matrices=False)
    counts = s > _tolerance(s, x, rtol)
    inverse = xp.where(counts, 1 / xp.where(counts, s, 1.0), 0.0)
    return matmul(conj(matrix_transpose(vh)) * xp.astype(xp.expand_dims(inverse, -2), x.dtype), conj(matrix_transpose(u)))


def qr(x, /, *, mode="reduced"):
    """Q with orthonormal columns and upper triangular R: x = Q R."""
    x = _matrix(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    if not _is_complex(x):
        return _results.QRResult(*_call("qr", x, mode))
    q, r = _core.complex_qr(x, mode == "complete")
    return _results.QRResult(xp.astype(q, x.dtype), xp.astype(r, x.dtype))


def slogdet(x, /):
    """The determinant as its sign and the logarithm of its absolute value."""
    x = _matrix(x, "slogdet", square=True)
    if not _is_complex(x):
        return _results.SlogdetResult(*_call("slogdet", x))
    pivots = _core.complex_pivots(x)
    s = xp.prod(_functions.sign(pivots), axis=-1)
    return _results.SlogdetResult(xp.astype(s, x.dtype), xp.astype(xp.sum(log(abs(pivots)), axis=-1), _real(x)))


def solve(x1, x2, /):
    """The solution of x1 y = x2, for x2 (N) or (..., N, K); LinAlgError where x1 is singular."""
    x1, x2 = _matrix(xp._taken(x1, "solve"), "solve", square=True), xp._taken(x2, "solve")
    t = xp.result_type(x1, x2)
    vector = x2.ndim == 1
    b = xp.expand_dims(x2, -1) if vector else x2
    if b.shape[-2] != x1.shape[-1]:
        raise ValueError(f"solve: {x1.shape} and {x2.shape} do not match: {x1.shape[-1]} unknowns, {b.shape[-2]} rows")
    batch = xp.broadcast_shapes(x1.shape[:-2], b.shape[:-2])
    a = xp.astype(xp.broadcast_to(x1, batch + x1.shape[-2:]), t)
    b = xp.astype(xp.broadcast_to(b, batch + b.shape[-2:]), t)
    if _is_complex(a):
        try:
            y = xp.astype(_core.complex_solve(a, b), t)
        except ValueError as error:
            raise LinAlgError(str(error)) from None
    else:
        y = _factorized("solve", a, b)
    return xp.squeeze(y, -1) if vector else y


def svd(x, /, *, full_matrices=True):
    """x = U diag(S) Vh, with S descending."""
    x = _matrix(x, "svd")
    if not _is_complex(x):
        return _results.SVDResult(*_call("svd", x, full_matrices))
    u, s, vh = _core.complex_svd(x, full_matrices)
    return _results.SVDResult(xp.astype(u, x.dtype), xp.astype(s, _real(x)), xp.astype(vh, x.dtype))


def svdvals(x, /):
    """The singular values, descending."""
    x = _matrix(x, "svdvals")
    return svd(x, full_matrices=False).S if _is_complex(x) else _call("svdvals", x)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal."""
    return xp.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def norm(x, ord=None, axis=None, keepdims=False):
    """NumPy's norm: of vectors along one axis, of matrices along two; without an axis of x as it is, and without `ord` too the root
    of the sum of squares of all elements."""
    xp._array(x, "norm")
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    if axis is None and x.ndim not in (1, 2):
        raise ValueError(f"norm: expected a vector, a matrix or axis=, got shape {x.shape}")
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"norm: axis: expected one axis, or two for matrices, got {axis!r}")
    y = matrix_norm(xp.moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return xp.expand_dims(y, tuple(xp._axis(a, x.ndim) for a in axes)) if keepdims else y


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """sum(|x|^ord)^(1/ord) over axes; 0 counts what differs from 0, infinities are the extremes."""
    xp._array(x, "vector_norm")
    if xp.isdtype(x.dtype, ("bool", "integral")):
        x = xp.astype(x, xp.float32)
    size = abs(x)
    if ord == inf:
        return xp.max(size, axis=axis, keepdims=keepdims)
    if ord == -inf:
        return xp.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return xp.astype(xp.count_nonzero(size, axis=axis, keepdims=keepdims), size.dtype)
    if ord == 1:
        return xp.sum(size, axis=axis, keepdims=keepdims)
    t = size.dtype
    if size._on_host and t != xp.float64:  # squares neither overflow nor vanish
        size = xp.astype(size, xp.float64)
    if size._on_host:
        sums = xp.sum(size * size if ord == 2 else size**ord, axis=axis, keepdims=keepdims)
        return xp.astype(sqrt(sums) if ord == 2 else sums ** (1 / ord), t)
    return _norm_with_gradient(size, ord, axis, keepdims)


def _norm_with_gradient(size, ord, axis, keepdims):
    """The norm where a gradient may be asked for: that of a vector of zeros is 0, and that of a zero for orders below 1."""
    if ord == 2:
        powers = size * size
    else:
        zero = size == 0
        powers = xp.where(zero, 0.0 if ord > 0 else inf, xp.where(zero, 1.0, size) ** ord)
    sums = xp.sum(powers, axis=axis, keepdims=keepdims)
    zero = sums == 0
    some = xp.where(zero, 1.0, sums)
    return xp.where(zero, 0.0 if ord > 0 else inf, sqrt(some) if ord == 2 else some ** (1 / ord))
