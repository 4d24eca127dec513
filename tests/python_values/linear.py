"""Products, Fourier transforms, factorizations."""
import numpy as np

import freight as f
from compare import LONG, accumulated, equal, family, function, need, numpy_of
from draw import COMPLEX, FLOATS, INTEGERS, NUMERIC, SIGNED

# Products and transforms.

def matrices(d, dtype, most):
    m, k, n = (int(v) for v in d.random.integers(1, most, 3))
    batch = d.shape(0, 2, 3)
    return d.view(dtype, batch + (m, k), special=False, scale=1.0), d.view(dtype, batch + (k, n), special=False, scale=1.0)


@family("matmul", "vecdot", "tensordot", "linalg.outer", "linalg.matmul", "linalg.vecdot", "linalg.tensordot",
        "linalg.matrix_power", "linalg.cross", "linalg.trace")
def product(d, name):
    short = name.split(".")[-1]
    dtype = d.choice(NUMERIC if short not in ("cross",) else FLOATS)
    a, b = matrices(d, dtype, 70 if d.random.random() < 0.2 else 8)
    if short == "matmul":
        plain, given = np.matmul, (a, b)
    elif short == "vecdot":
        a = d.view(dtype, a.shape, special=False, scale=1.0)
        plain, given = (lambda a, b: np.sum(np.conj(a) * b, axis=-1)), (a, d.view(dtype, a.shape, special=False, scale=1.0))
    elif short == "tensordot":
        a, b = a.reshape((-1,) + a.shape[-1:])[:9], b.reshape(b.shape[-2:] if b.ndim == 2 else (-1,) + b.shape[-2:])
        b = b if b.ndim == 2 else b[0] if len(b) else np.zeros(b.shape[1:], dtype)
        plain, given = (lambda a, b: np.tensordot(a, b, 1)), (a, b)
    elif short == "outer":
        plain, given = np.outer, (a.ravel()[:9], b.ravel()[:7])
    elif short == "matrix_power":
        n = int(d.random.integers(0, 5))
        a = d.view(dtype, a.shape[:-2] + (3, 3), special=False, scale=1.0)
        got = f.linalg.matrix_power(f.asarray(a), n)
        plain = np.linalg.matrix_power(a, n)
        if dtype in INTEGERS:
            return equal(got, plain)
        return accumulated(got, plain, matrix_power(a.astype(LONG[dtype]), n), dtype)
    elif short == "cross":
        a, b = (d.view(dtype, a.shape[:-2] + (3,), special=False, scale=1.0) for _ in range(2))
        plain, given = np.cross, (a, b)
    else:
        k = int(d.random.integers(-2, 3))
        plain, given = (lambda a: np.trace(a, k, -2, -1)), (a,)
        got = f.linalg.trace(f.asarray(a), offset=k)
        if dtype in INTEGERS:
            return equal(got, plain(a).astype("int64" if dtype in SIGNED else "uint64"))
        return accumulated(got, plain(a), np.asarray(plain(a.astype(LONG[dtype]))), dtype)
    got = function(name)(*map(f.asarray, given), **({"axes": 1} if short == "tensordot" else {}))
    if dtype in INTEGERS:
        expected = plain(*given)
        return equal(got, expected.astype(dtype))
    return accumulated(got, plain(*given), np.asarray(plain(*(g.astype(LONG[dtype]) for g in given))), dtype)


def matrix_power(a, n):
    y = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    for _ in range(n):
        y = y @ a
    return y


FFT = ("fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft")


@family(*("fft." + n for n in FFT))
def transform(d, name):
    short = name.split(".")[1]
    real = short in ("rfft", "rfftn", "ihfft")
    dtype = d.choice(FLOATS if real else COMPLEX)
    shape = tuple(max(1, n) for n in d.shape(1, 3, 30 if d.random.random() < 0.3 else 9))
    if short in ("irfft", "irfftn", "hfft"):
        shape = shape[:-1] + (shape[-1] + 1,)
    x = d.view(dtype, shape, special=False, scale=1.0)
    norm = d.choice(("backward", "ortho", "forward"))
    options = {"norm": norm}
    if short.endswith("n"):
        options["axes"] = tuple(range(x.ndim))
        plain = getattr(np.fft, short)
    else:
        options["axis"] = -1 if short in ("irfft", "hfft") else d.axis(x.ndim)
        plain = getattr(np.fft, short)
    got = function(name)(f.asarray(x), **options)
    out = np.dtype({"complex64": "float32", "complex128": "float64"}[dtype] if short in ("irfft", "irfftn", "hfft")
                   else dtype if not real else {"float32": "complex64", "float64": "complex128"}[dtype])
    exact = exact_transform(short, x.astype(LONG[dtype]), options)
    return accumulated(got, plain(x, **options).astype(out), exact, out.name)


def exact_transform(short, x, options):
    """By the definition, in long double."""
    axes = options.get("axes") or (options["axis"],)
    inverse = short.startswith("i") and short != "ihfft" or short == "hfft"
    x = x.astype(np.clongdouble)
    half = short in ("irfft", "irfftn", "hfft")
    if short == "hfft":
        x = np.conj(x)
    for a in axes:
        n = x.shape[a]
        last = half and a == axes[-1]
        size = 2 * (n - 1) if last else n
        if last:
            x = np.moveaxis(x, a, -1)
            ends = x.copy()
            ends[..., 0] = x[..., 0].real
            ends[..., -1] = x[..., -1].real
            x = np.moveaxis(np.concatenate([ends, np.conj(ends[..., -2:0:-1])], axis=-1), -1, a)
        k = np.arange(size, dtype=np.longdouble)
        angle = 8 * np.arctan(np.longdouble(1)) * (np.outer(k, k) % size) / size
        w = np.cos(angle) + (1j if inverse else -1j) * np.sin(angle)
        x = np.moveaxis(np.tensordot(w, x, (1, a)), 0, a)
        norm = options["norm"]
        backward = {"backward": inverse, "forward": not inverse}
        if short == "hfft":
            backward = {"backward": False, "forward": True}
        if short == "ihfft":
            backward = {"backward": True, "forward": False}
        x = x / (np.sqrt(np.longdouble(size)) if norm == "ortho" else size if backward[norm] else 1)
        if short in ("rfft", "rfftn", "ihfft") and a == axes[-1]:
            x = np.take(x, range(size // 2 + 1), axis=a)
    if short == "ihfft":
        x = np.conj(x)
    return x.real if half else x


@family("fft.fftshift", "fft.ifftshift", "fft.fftfreq", "fft.rfftfreq")
def shifted(d, name):
    short = name.split(".")[1]
    if short.endswith("shift"):
        x = d.view(d.choice(FLOATS + COMPLEX), d.shape(1))
        return equal(function(name)(f.asarray(x)), getattr(np.fft, short)(x))
    n, step = int(d.random.integers(1, 20)), float(d.random.uniform(0.1, 3))
    y = numpy_of(function(name)(n, d=step, dtype=f.float64))
    need(np.allclose(y, getattr(np.fft, short)(n, step), rtol=1e-15, atol=0), y)


# Factorizations.

def size(a):
    return float(np.sqrt(np.sum(np.abs(a.astype("complex128")) ** 2)))


def compared(mine, other, scale, dtype):
    """Residuals, or departures from orthogonality, beside LAPACK's."""
    eps = float(np.finfo(np.dtype(dtype)).eps)
    need(mine <= max(10 * other, 10 * eps * scale), f"{mine:.3g}, LAPACK's {other:.3g}")
    return mine / max(other, eps * scale)


def adjoint(a):
    return np.conj(a).swapaxes(-1, -2)


def wide(a):
    return numpy_of(a).astype("complex128" if numpy_of(a).dtype.kind == "c" else "float64")


@family("linalg.qr", "linalg.svd", "linalg.svdvals", "linalg.eigh", "linalg.eigvalsh", "linalg.eig", "linalg.eigvals",
        "linalg.cholesky", "linalg.inv", "linalg.solve", "linalg.det", "linalg.slogdet", "linalg.pinv")
def factorized(d, name):
    short = name.split(".")[1]
    dtype = d.choice(FLOATS + COMPLEX)
    n = int(d.random.integers(1, 12 if d.random.random() < 0.8 else 40))
    m = int(d.random.integers(1, 12)) if short in ("qr", "svd", "svdvals", "pinv") else n
    x = d.view(dtype, d.shape(0, 1, 3) + (m, n), special=False, scale=1.0)
    if short in ("eigh", "eigvalsh"):
        x = x + adjoint(x)
    if short == "cholesky":
        x = x @ adjoint(x) + np.eye(n, dtype=dtype) * 0.1
    a, mine = x.astype("complex128" if dtype in COMPLEX else "float64"), f.asarray(x)
    scale = max(size(a), 1e-30) * max(m, n)
    unit = np.eye

    def orthogonal(q):
        return size(adjoint(wide(q)) @ wide(q) - unit(q.shape[-1]))

    def check(residual, got, plain, *orthogonals):
        worst = compared(residual(*got), residual(*plain), scale, dtype)
        for i in orthogonals:
            q, p = (wide(g[i] if not callable(i) else i(g)) for g in (got, plain))
            worst = max(worst, compared(orthogonal(q), orthogonal(p), max(m, n), dtype))
        return worst

    if x.size == 0 or (short in ("inv", "solve") and np.linalg.cond(a).max() > 1e5):
        return
    if short == "qr":
        return check(lambda q, r: size(wide(q) @ wide(r) - a), f.linalg.qr(mine), np.linalg.qr(x), 0)
    if short == "svd":
        return check(lambda u, s, v: size((wide(u) * wide(s)[..., None, :]) @ wide(v) - a),
                     f.linalg.svd(mine, full_matrices=False), np.linalg.svd(x, full_matrices=False), 0,
                     lambda g: adjoint(wide(g[2])))
    if short == "eigh":
        return check(lambda w, v: size(a @ wide(v) - wide(v) * wide(w)[..., None, :]), f.linalg.eigh(mine), np.linalg.eigh(x), 1)
    if short == "eig":
        return check(lambda w, v: size(a @ wide(v) - wide(v) * wide(w)[..., None, :]), f.linalg.eig(mine), np.linalg.eig(x))
    if short in ("svdvals", "eigvalsh"):
        plain = {"svdvals": lambda a: np.linalg.svd(a, compute_uv=False), "eigvalsh": np.linalg.eigvalsh}[short]
        exact = plain(a)
        return compared(size(wide(function(name)(mine)) - exact), size(wide(plain(x)) - exact), scale, dtype)
    if short == "eigvals":  # each is the eigenvalue of a matrix near by
        w = wide(f.linalg.eigvals(mine)).astype("complex128")
        worst = 0.0
        for b, values in zip(a.reshape((-1, n, n)), w.reshape((-1, n))):
            for value in values:
                worst = max(worst, float(np.linalg.svd(b - value * unit(n), compute_uv=False)[-1]))
        return compared(worst, 0.0, scale, dtype)
    if short == "cholesky":
        return check(lambda low: size(wide(low) @ adjoint(wide(low)) - a), (f.linalg.cholesky(mine),), (np.linalg.cholesky(x),))
    if short in ("inv", "pinv"):
        inverse = getattr(np.linalg, short)
        if short == "pinv" and min(m, n) and np.linalg.cond(a).max() > 1e3:
            return
        return check(lambda y: size(a @ wide(y) @ a - a), (function(name)(mine),), (inverse(x),))
    if short == "solve":
        b = d.view(dtype, x.shape[:-1] + (2,), special=False, scale=1.0)
        return compared(size(a @ wide(f.linalg.solve(mine, f.asarray(b))) - b), size(a @ wide(np.linalg.solve(x, b)) - b),
                        scale * max(1.0, size(np.linalg.solve(a, b.astype(a.dtype)))), dtype)
    if short == "det":
        exact, bound = np.linalg.det(a), np.prod(np.sqrt(np.sum(np.abs(a) ** 2, -1)), -1)
        return compared(float(np.max(np.abs(wide(f.linalg.det(mine)) - exact))),
                        float(np.max(np.abs(wide(np.linalg.det(x)) - exact))), float(np.max(bound)) * n, dtype)
    sign, log = f.linalg.slogdet(mine)
    exact_sign, exact = np.linalg.slogdet(a)
    condition = float(np.max(np.linalg.cond(a)))
    if condition > 1e12:
        return 0.0
    need(float(np.max(np.abs(wide(log) - exact))) <= 10 * n * condition * np.finfo(dtype).eps, wide(log), exact)
    need(condition > 1e4 or np.allclose(wide(sign), exact_sign, atol=1e-2), wide(sign), exact_sign)


@family("linalg.matrix_norm", "linalg.vector_norm", "linalg.norm", "linalg.matrix_rank")
def norm(d, name):
    dtype = d.choice(FLOATS)
    x = d.view(dtype, d.shape(0, 1, 3) + tuple(int(n) for n in d.random.integers(1, 7, 2)), special=False)
    if x.size == 0:
        return
    if name == "linalg.matrix_rank":
        return equal(f.linalg.matrix_rank(f.asarray(x)), np.asarray(np.linalg.matrix_rank(x)))
    if name == "linalg.vector_norm":
        order = d.choice((0, 1, 2, 3, np.inf, -np.inf))
        y, exact = f.linalg.vector_norm(f.asarray(x), ord=order), np.linalg.norm(x.ravel().astype("longdouble"), order)
    elif name == "linalg.norm":
        given = d.choice(({}, {"axis": -1, "ord": 1}, {"axis": -2}, {"axis": (-1, -2), "ord": 1, "keepdims": True}, {"axis": (-2, -1)}))
        y, exact = f.linalg.norm(f.asarray(x), **given), np.linalg.norm(x.astype("float64"), **given)
        need(y.shape == exact.shape, y.shape, exact.shape)
    else:
        order = d.choice(("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf))
        y, exact = f.linalg.matrix_norm(f.asarray(x), ord=order), np.linalg.norm(x.astype("float64"), order, axis=(-2, -1))
    bound = 20 * np.finfo(dtype).eps * max(x.shape) * float(np.max(np.abs(x)))
    need(np.all(np.abs(wide(y) - exact) <= np.maximum(bound, 4 * np.finfo(dtype).eps * np.abs(exact))), wide(y), exact)
