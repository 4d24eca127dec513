#!/usr/bin/env python3
"""Writes integer_rows.inc: NumPy's integer arithmetic in every type, as bytes: python integer_rows.py > integer_rows.inc.

The operands of a type, then the results of the functions that integer_types_test.cpp calls by the same names.
"""
import numpy as np

np.seterr(all="ignore")
TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


def row(type_name, what, array):
    array = np.asarray(array)
    name = "bool" if array.dtype == bool else next(k for k, t in TYPES.items() if t == array.dtype)
    shape = ", ".join(str(n) for n in array.shape)
    print('{"%s", "%s", "%s", {%s}, "%s"},' % (type_name, what, name, shape, array.tobytes().hex()))


def wrapped(values, t):
    """Python's integers, cut to the type's bits."""
    bits = np.dtype(t).itemsize * 8
    unsigned = np.array([int(v) % 2**bits for v in values], dtype="u%d" % (bits // 8))
    return unsigned.view(t)


def rows_of(name, t):
    least, most = int(np.iinfo(t).min), int(np.iinfo(t).max)
    ends = [least, most, 0, 1, 3, -1, -7]
    pairs = [(x, y) for x in ends for y in ends]
    a, b = wrapped([x for x, _ in pairs], t), wrapped([y for _, y in pairs], t)
    width = np.dtype(t).itemsize * 8
    counts = wrapped([(0, 1, 2, width - 1, width, width + 1, 70, -1)[i % 8] for i in range(len(pairs))], t)
    powers = np.array([i % 6 for i in range(len(pairs))], dtype=t)
    m, p = a[3:48].reshape(5, 9), b[20:38].reshape(9, 2)
    total = np.uint64 if name == "u64" else np.int64
    for what, operand in {"a": a, "b": b, "counts": counts, "powers": powers, "m": m, "p": p}.items():
        row(name, what, operand)
    results = {
        "add": a + b, "subtract": a - b, "multiply": a * b, "floor_divide": a // b, "remainder": a % b,
        "fmod": np.fmod(a, b), "negative": -a, "abs": np.abs(a), "sign": np.sign(a), "square": np.square(a),
        "pow": a**powers, "maximum": np.maximum(a, b), "minimum": np.minimum(a, b), "less": a < b,
        "less_equal": a <= b, "greater": a > b, "greater_equal": a >= b, "equal": a == b, "not_equal": a != b,
        "bitwise_and": a & b, "bitwise_or": a | b, "bitwise_xor": a ^ b, "bitwise_invert": ~a,
        "shift_left": a << counts, "shift_right": a >> counts, "where": np.where(a < b, a, b),
        "sum": m.sum(1, dtype=total), "prod": m.prod(1, dtype=total), "max": m.max(1), "min": m.min(1),
        "any": m.any(1), "all": m.all(1), "argmax": m.argmax(1).astype(np.int32),
        "argmin": m.argmin(1).astype(np.int32), "matmul": m @ p, "cumsum": m.cumsum(1, dtype=total),
        "sort": np.sort(m, 1), "argsort": np.argsort(m, 1, kind="stable").astype(np.int32),
    }
    for what, result in results.items():
        row(name, what, result)

print("// Made by integer_rows.py with NumPy %s. {operands' type, what, its type, shape, its bytes in hexadecimal}." %
      np.__version__)
for name, t in TYPES.items():
    rows_of(name, t)
