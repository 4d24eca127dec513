"""Manipulation, indexing, assignment, creation."""
import numpy as np

import freight as f
from compare import equal, family, function, need, numpy_of
from draw import ALL, NUMERIC

# Manipulation: equal elements in other places.

@family("concat", "stack")
def joined(d, name):
    dtype, shape = d.choice(ALL), d.shape(0 if name == "stack" else 1, 3)
    axis = d.axis(len(shape) + (name == "stack"))
    parts = []
    for _ in range(int(d.random.integers(1, 4))):
        s = list(shape)
        if name == "concat":
            s[axis] = int(d.random.integers(0, 4))
        parts.append(d.view(dtype, tuple(s)))
    plain = np.concatenate if name == "concat" else np.stack
    equal(function(name)([f.asarray(p) for p in parts], axis=axis), plain(parts, axis=axis))


@family("flip", "roll", "permute_dims", "moveaxis", "expand_dims", "squeeze", "unstack", "tile", "repeat", "reshape",
        "broadcast_to", "broadcast_arrays", "tril", "triu", "matrix_transpose", "take", "take_along_axis", "meshgrid",
        "linalg.diagonal", "linalg.matrix_transpose")
def moved(d, name):
    short = name.split(".")[-1]
    least = {"tril": 2, "triu": 2, "matrix_transpose": 2, "diagonal": 2, "moveaxis": 1, "unstack": 1, "take": 1,
             "take_along_axis": 1}.get(short, 0)
    x = d.view(d.choice(ALL), d.shape(least))
    r, xp, call = d.random, f.asarray(x), function(name)
    if short == "flip":
        axis = d.axes(x.ndim)
        return equal(call(xp, axis=axis), np.flip(x, axis))
    if short == "roll":
        axis, shift = (d.axis(x.ndim) if x.ndim else None), int(r.integers(-9, 10))
        return equal(call(xp, shift, axis=axis), np.roll(x, shift, axis))
    if short == "permute_dims":
        order = tuple(int(a) for a in r.permutation(x.ndim))
        return equal(call(xp, order), x.transpose(order))
    if short == "moveaxis":
        a, b = d.axis(x.ndim), d.axis(x.ndim)
        return equal(call(xp, a, b), np.moveaxis(x, a, b))
    if short == "expand_dims":
        a = int(r.integers(-x.ndim - 1, x.ndim + 1))
        return equal(call(xp, axis=a), np.expand_dims(x, a))
    if short == "squeeze":
        a = int(r.integers(0, x.ndim + 1))
        return equal(call(f.expand_dims(xp, axis=a), axis=a), x)
    if short == "unstack":
        axis = d.axis(x.ndim)
        for g, e in zip(call(xp, axis=axis), np.moveaxis(x, axis, 0)):
            equal(g, e)
        return
    if short == "tile":
        times = tuple(int(n) for n in r.integers(0, 4, r.integers(0, 4)))
        return equal(call(xp, times), np.tile(x, times))
    if short == "repeat":
        axis, n = (d.axis(x.ndim) if x.ndim else None), int(r.integers(0, 4))
        return equal(call(xp, n, axis=axis), np.repeat(x, n, axis))
    if short == "reshape":
        sizes = [1] * int(r.integers(0, 3))
        sizes.insert(int(r.integers(0, len(sizes) + 1)), x.size)
        if x.ndim > 1 and r.random() < 0.5:
            sizes = [x.shape[0], x.size // max(1, x.shape[0])] if x.size else sizes
        return equal(call(xp, tuple(sizes)), np.reshape(x, sizes))
    if short == "broadcast_to":
        shape = d.shape(0, 2) + tuple(3 if n == 1 else n for n in x.shape)
        return equal(call(xp, shape), np.broadcast_to(x, shape))
    if short == "broadcast_arrays":
        a, b = (d.view("float32", s) for s in d.broadcast_pair())
        for g, e in zip(call(f.asarray(a), f.asarray(b)), np.broadcast_arrays(a, b)):
            equal(g, e)
        return
    if short in ("tril", "triu"):
        k = int(r.integers(-4, 5))
        return equal(call(xp, k=k), getattr(np, short)(x, k))
    if short == "matrix_transpose":
        return equal(call(xp), x.swapaxes(-1, -2))
    if short == "diagonal":
        k = int(r.integers(-4, 5))
        return equal(call(xp, offset=k), np.diagonal(x, k, -2, -1))
    if short == "take":
        axis = d.axis(x.ndim)
        n = x.shape[axis]
        index = r.integers(-n, n, r.integers(0, 6)) if n else np.zeros(0, "int64")
        return equal(call(xp, f.asarray(index), axis=axis), np.take(x, index, axis))
    if short == "take_along_axis":
        axis = d.axis(x.ndim)
        shape = list(x.shape)
        shape[axis] = int(r.integers(0, 4)) if x.shape[axis] else 0
        index = r.integers(0, max(1, x.shape[axis]), shape)
        return equal(call(xp, f.asarray(index), axis=axis), np.take_along_axis(x, index, axis))
    vectors = [d.view(x.dtype, (int(r.integers(0, 5)),)) for _ in range(int(r.integers(1, 4)))]
    how = d.choice(("xy", "ij"))
    for g, e in zip(call(*map(f.asarray, vectors), indexing=how), np.meshgrid(*vectors, indexing=how)):
        equal(g, e)


@family("indexing", "assignment")
def indexed(d, name):
    """x[key], with slices, integers, arrays and masks; and x[key] = v."""
    x = d.view(d.choice(ALL), tuple(max(1, n) for n in d.shape(1))).copy()
    r, key, masked = d.random, [], False
    for n in x.shape[: int(r.integers(1, x.ndim + 1))]:
        how = r.random()
        if how < 0.3:
            key.append(int(r.integers(-n, n)))
        elif how < 0.65:
            ends = [None if r.random() < 0.3 else int(r.integers(-n - 1, n + 2)) for _ in range(2)]
            key.append(slice(*ends, int(r.choice([-2, -1, 1, 2, 3]))))
        elif how < 0.8:
            key.append(r.integers(-n, n, 3))
        elif how < 0.9 and not masked:
            masked = True
            key.append(r.random(n) < 0.5)
        else:
            key.append(slice(None))
    arrays = [k for k in key if isinstance(k, np.ndarray)]
    if masked and len(arrays) > 1:
        return
    if r.random() < 0.3:
        key.insert(int(r.integers(0, len(key) + 1)), None)
    own = tuple(f.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    key = tuple(key)
    if name == "indexing":
        return equal(f.asarray(x)[own], x[key])
    if any(np.unique(k % n).size < k.size for k, n in zip((k for k in key if k is not None), x.shape)
           if isinstance(k, np.ndarray) and k.dtype != bool):
        return
    mine, other = f.asarray(x.copy()), x.copy()
    value = d.view(x.dtype, x[key].shape)
    mine[own] = f.asarray(value)
    other[key] = value
    equal(mine, other)


# Creation.

@family("arange", "linspace", "eye", "full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "empty", "empty_like",
        "asarray", "from_dlpack")
def created(d, name):
    r, dtype = d.random, d.choice(NUMERIC)
    t, shape = getattr(f, dtype), d.shape()
    x = d.view(dtype, shape)
    if name == "arange":
        start, stop, step = int(r.integers(-20, 20)), int(r.integers(-20, 20)), int(r.choice([-3, -1, 1, 2, 7]))
        if r.random() < 0.5:
            return equal(f.arange(start, stop, step), np.arange(start, stop, step))
        return equal(f.arange(start + 0.25, stop, step / 4, dtype=f.float64), np.arange(start + 0.25, stop, step / 4))
    if name == "linspace":
        a, b, n, end = *r.normal(size=2).tolist(), int(r.integers(0, 9)), bool(r.integers(2))
        exact = np.linspace(np.longdouble(a), np.longdouble(b), n, endpoint=end, dtype=np.longdouble)
        y = numpy_of(f.linspace(a, b, n, endpoint=end, dtype=f.float64))
        need(np.all(np.abs(y - exact) <= 4 * np.spacing(max(abs(a), abs(b)))), y, exact)
        return
    if name == "eye":
        n, m, k = (int(v) for v in r.integers(0, 6, 3))
        return equal(f.eye(n, m, k=k - 3, dtype=t), np.eye(n, m, k - 3, dtype))
    if name in ("full", "full_like"):
        v = d.values(dtype, ()).item()
        return equal(f.full(shape, v, dtype=t) if name == "full" else f.full_like(f.asarray(x), v), np.full(shape, v, dtype))
    if name in ("zeros", "ones"):
        return equal(function(name)(shape, dtype=t), getattr(np, name)(shape, dtype))
    if name in ("zeros_like", "ones_like"):
        return equal(function(name)(f.asarray(x)), getattr(np, name)(x))
    if name in ("empty", "empty_like"):
        y = f.empty(shape, dtype=t) if name == "empty" else f.empty_like(f.asarray(x))
        return need(y.shape == shape and y.dtype == t, y.shape, y.dtype)
    equal(f.asarray(x.tolist(), dtype=t).reshape(shape) if name == "asarray" else f.from_dlpack(x.copy()), x)
