"""Random arguments: element types, shapes, values and layouts."""
import numpy as np

FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
REAL, ALL = FLOATS + INTEGERS, ("bool",) + INTEGERS + FLOATS + COMPLEX
NUMERIC = INTEGERS + FLOATS + COMPLEX


class Draw:
    """Random arguments."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def choice(self, options):
        return options[int(self.random.integers(len(options)))]

    def shape(self, least=0, most=4, size=5):
        n = int(self.random.integers(least, most + 1))
        return tuple(int(self.random.integers(0 if self.random.random() < 0.05 else 1, size + 1)) for _ in range(n))

    def values(self, dtype, shape, special=True, scale=None):
        """Elements of all sizes; in one of three arrays special ones too."""
        r = self.random
        kind = np.dtype(dtype).kind
        if kind == "b":
            return r.integers(0, 2, shape).astype(dtype)
        if kind in "iu":
            info = np.iinfo(dtype)
            if r.random() < 0.3:
                return r.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
            return r.integers(max(info.min, -20), 21, shape).astype(dtype)
        if kind == "c":
            part = "float32" if dtype == "complex64" else "float64"
            x = np.empty(shape, dtype)
            x.real, x.imag = self.values(part, shape, special, scale), self.values(part, shape, special, scale)
            return x
        if scale is None:
            x = r.normal(size=shape) * 10.0 ** r.uniform(-3, 3, shape) if r.random() < 0.5 else r.normal(size=shape)
        else:
            x = r.normal(size=shape) * scale
        x = np.asarray(x).astype(dtype)
        if special and r.random() < 0.33:
            info = np.finfo(dtype)
            odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, info.max, info.min, info.tiny, info.eps,
                            info.smallest_subnormal], dtype)
            x = np.where(r.random(shape) < 0.3, r.choice(odd, shape), x).astype(dtype)
        return x

    def view(self, dtype, shape, **options):
        """An array of the shape in a random layout: reversed, strided, transposed, repeated, or plain."""
        r = self.random
        how = r.random()
        if how < 0.4 or not shape:
            return self.values(dtype, shape, **options)
        if how < 0.55:
            order = r.permutation(len(shape))
            return self.values(dtype, tuple(shape[a] for a in order), **options).transpose(np.argsort(order))
        if how < 0.65:
            base = self.values(dtype, tuple(1 if r.random() < 0.5 else n for n in shape), **options)
            return np.broadcast_to(base, shape)
        steps = [int(r.choice([1, 2, 3, -1, -2])) for _ in shape]
        base = self.values(dtype, tuple(n * abs(s) + 1 for n, s in zip(shape, steps)), **options)
        return base[tuple(slice(1, None, s) if s > 0 else slice(-1, 0, s) for s in steps)][tuple(slice(0, n) for n in shape)]

    def axis(self, ndim):
        return int(self.random.integers(-ndim, ndim))

    def axes(self, ndim):
        """None, an axis, or a tuple of axes."""
        how = self.random.random()
        if how < 0.3 or ndim == 0:
            return None
        if how < 0.7:
            return self.axis(ndim)
        chosen = self.random.permutation(ndim)[: int(self.random.integers(0, ndim + 1))]
        return tuple(int(a) for a in chosen)

    def broadcast_pair(self):
        """Two shapes that broadcast."""
        whole = self.shape()

        def part():
            n = int(self.random.integers(0, len(whole) + 1))
            return tuple(1 if self.random.random() < 0.25 else s for s in whole[len(whole) - n:])
        return (whole, part()) if self.random.random() < 0.5 else (part(), whole)
