#!/usr/bin/env python3
"""Times of functions of arrays on the host, outside of jit, beside NumPy's: ms per call, the least of several.

usage: host_arrays.py [--numbers N,N,...] [--only NAME,...]. PYTHONPATH has the package.
"""
import argparse
import sys
import time

import numpy as np

import freight as f



def least(call, seconds=0.25):
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    rounds, lasts = 1, 0.0
    while lasts < 2e-5 and rounds < 4096:  # calls that the clock can tell
        rounds *= 2
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        lasts = time.perf_counter() - start
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        best = min(best, (time.perf_counter() - start) / rounds)
    return best * 1e3


UNARY = {"tanh": "tanh", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10",
         "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh",
         "cosh": "cosh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "sqrt": "sqrt", "square": "square",
         "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "abs": "abs"}
BINARY = {"add": "add", "pow": "power", "atan2": "arctan2", "hypot": "hypot", "logaddexp": "logaddexp",
          "maximum": "maximum", "remainder": "remainder"}


def calls(n, dtype):
    """Name -> the call here and NumPy's."""
    draw = np.random.default_rng(0)
    x, y = (draw.random(n).astype(dtype) * dtype(0.98) + dtype(0.01) for _ in range(2))
    z = draw.standard_normal(n).astype(dtype)
    m, whole = z > 0, draw.integers(0, 1000, n)
    above = x + dtype(1)
    g = {id(a): f.asarray(a) for a in (x, y, z, m, whole, above)}
    made = {}
    for name, theirs in UNARY.items():
        a = above if name == "acosh" else x
        made[name] = (lambda h=getattr(f, name), b=g[id(a)]: h(b), lambda h=getattr(np, theirs), a=a: h(a))
    for name, theirs in BINARY.items():
        made[name] = (lambda h=getattr(f, name): h(g[id(x)], g[id(y)]), lambda h=getattr(np, theirs): h(x, y))
    of_z = g[id(z)]
    made["sort"] = lambda: f.sort(of_z), lambda: np.sort(z)
    made["argsort"] = lambda: f.argsort(of_z), lambda: np.argsort(z)
    made["median"] = lambda: f.median(of_z), lambda: np.median(z)
    made["unique int64"] = lambda: f.unique(g[id(whole)]), lambda: np.unique(whole)
    made["unique_values"] = lambda: f.xp.unique_values(of_z), lambda: np.unique(z)
    made["sort int64"] = lambda: f.sort(g[id(whole)]), lambda: np.sort(whole)
    k = min(10, n)
    made["topk 10"] = lambda: f.topk(of_z, k, 0), lambda: np.sort(np.partition(z, n - k)[n - k:])
    made["x[mask]"] = lambda: of_z[g[id(m)]], lambda: z[m]
    made["nonzero"] = lambda: f.nonzero(g[id(m)]), lambda: np.nonzero(m)
    made["sum"] = lambda: f.sum(of_z), lambda: np.sum(z)
    made["mean"] = lambda: f.mean(of_z), lambda: np.mean(z)
    made["var"] = lambda: f.var(of_z), lambda: np.var(z)
    made["std"] = lambda: f.std(of_z), lambda: np.std(z)
    if n % 100 == 0:
        rows, theirs = f.reshape(of_z, (-1, 100)), z.reshape(-1, 100)
        made["std axis 0"] = lambda: f.std(rows, axis=0), lambda: np.std(theirs, axis=0)
        made["std axis 1"] = lambda: f.std(rows, axis=1), lambda: np.std(theirs, axis=1)
        made["sort axis 1"] = lambda: f.sort(rows, axis=1), lambda: np.sort(theirs, axis=1)
    if dtype == np.float32:
        made["random.normal"] = (lambda: f.random.normal((n,)).item if n == 1 else f.asarray(f.random.normal((n,))),
                                 lambda: draw.standard_normal(n, dtype=np.float32))
        made["random.permutation"] = lambda: f.random.permutation(n), lambda: draw.permutation(n)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", default="10,10000,262144,1000000")
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default="float32,float64")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    for dtype in given.types.split(","):
        for n in map(int, given.numbers.split(",")):
            print(f"{dtype}, {n:,} numbers{'Freight':>26}{'NumPy':>12}{'ratio':>9}")
            for name, (ours, theirs) in calls(n, getattr(np, dtype)).items():
                if only and name not in only:
                    continue
                a, b = least(ours), least(theirs)
                print(f"  {name:20}{a:20.4f}{b:16.4f}{a / b:9.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
