#!/usr/bin/env python3
"""Writes astype_rows.inc: what NumPy's astype makes of elements, as bytes, for every pair of types of which one at
least is new to Freight. Floating numbers out of an integer type's range are left out, since NumPy leaves them to the
processor, and complex numbers as real ones, which Freight refuses."""
import numpy as np

TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i32": "i4", "i64": "i8", "u8": "u1", "bool": "?", "i8": "i1",
         "i16": "i2", "u16": "u2", "u32": "u4", "u64": "u8", "c64": "c8", "c128": "c16"}
OLD = {"f32", "f64", "f16", "i32", "i64", "u8", "bool"}


def values(dtype, target):
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.array([low, high, 0, 1, high // 3, low // 2 + 1, high - 64], dtype)
    numbers = np.array([0, -0.0, 1, 2.5, -1.75, 99.99, 255, 300.7, -40000, 3e9, 1.5e18], np.float64)
    if target.kind in "iu":
        info = np.iinfo(target)
        numbers = numbers[(np.trunc(numbers) >= info.min) & (numbers < float(info.max))]
    if dtype == np.float16 or target == np.float16:
        numbers = numbers[abs(numbers) < 65000]
    if dtype.kind == "c":
        return (numbers + 1j * numbers[::-1]).astype(dtype)
    return np.append(numbers, [np.nan, np.inf] if target.kind in "fc?" else []).astype(dtype)


print("// Made by astype_rows.py with NumPy %s. {from, to, elements, NumPy's elements}, bytes in hexadecimal." % np.__version__)
for a, da in TYPES.items():
    for b, db in TYPES.items():
        source, target = np.dtype(da), np.dtype(db)
        if a == b or (a in OLD and b in OLD) or (source.kind == "c" and target.kind not in "c?"):
            continue
        x = values(source, target)
        with np.errstate(all="ignore"):
            y = x.astype(target)
        print('{"%s", "%s", "%s", "%s"},' % (a, b, x.tobytes().hex(), y.tobytes().hex()))
