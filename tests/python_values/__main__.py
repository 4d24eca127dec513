"""Random calls of the Python package beside NumPy: every function of the standard, element types, views, empty arrays,
infinities, -0.0 and NaN. usage: python tests/python_values [--calls N] [--seed S] [--only NAME].

Pointwise results are held against long double: at most 4 units in the last place from the exact value, 1 for + - * / and
sqrt. Of sums, products and transforms the error of a call in float32 or complex64 may be twice NumPy's on the same input, or half
a unit in the last place, and so may that of sums and means in float64 and complex128. Other single calls in these are luck for
both, and may have four times NumPy's error or three units.
The mean error over all calls of a function may be 1.25 times NumPy's, or half a unit.
Residuals and orthogonality of factorizations may be ten times those of LAPACK, which NumPy calls. Everything else is equal.
"""
import argparse
import collections
import sys
import warnings

import numpy as np

import elements  # noqa: F401 (it adds to FAMILIES, as the next two)
import linear  # noqa: F401
import places  # noqa: F401
import freight as f
from compare import FAMILIES, Fault
from draw import Draw

# Functions whose results are no elements.
WITHOUT_VALUES = {"broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type", "__array_namespace_info__"}
# Functions of the library that the standard lacks: its own tests check their values.
OF_THE_LIBRARY = {"linalg.cond", "linalg.expm", "linalg.kron", "linalg.lstsq"}


def uncovered():
    """Functions of the standard that no family calls."""
    names = [n for n in dir(f.xp) if callable(getattr(f.xp, n)) and not isinstance(getattr(f.xp, n), (type, f.dtype))]
    names += ["linalg." + n for n in dir(f.linalg) if not n.startswith("_") and n != "LinAlgError"]
    names += ["fft." + n for n in dir(f.fft) if not n.startswith("_")]
    return sorted(set(names) - set(FAMILIES) - WITHOUT_VALUES - OF_THE_LIBRARY)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a function's name")
    parser.add_argument("-v", action="store_true", help="the largest error of each function")
    given = parser.parse_args()
    missing = uncovered()
    if missing:
        sys.exit(f"functions without random calls: {', '.join(missing)}")
    names = [n for n in FAMILIES if given.only in (None, n)]
    worst, faults, beside = collections.defaultdict(float), collections.Counter(), collections.defaultdict(list)
    warnings.simplefilter("ignore")
    for i in range(given.calls):
        name = names[i % len(names)]
        try:
            with np.errstate(all="ignore"):
                error = FAMILIES[name](Draw([given.seed, i]), name)
            if isinstance(error, tuple):
                beside[name].append(error)
            else:
                worst[name] = max(worst[name], error or 0.0)
        except Exception as fault:
            faults[name] += 1
            if faults[name] <= 3:
                text = f"{type(fault).__name__}: {fault}" if not isinstance(fault, Fault) else str(fault)
                print(f"call {i}, {name}: {text[:600]}")
    for name, errors in beside.items():
        mine, other = np.mean(errors, axis=0)
        worst[name] = mine / max(other, 0.4)
        if not worst[name] <= 1.25:
            faults[name] += 1
            print(f"{name}: mean error {mine:.3f} units, NumPy's {other:.3f}")
    if given.v:
        for name in names:
            note = f"of {np.mean(beside[name], axis=0)[1]:.3f} units" if name in beside else ""
            print(f"{name:24} {worst[name]:.3f}  {note}  {faults[name] or ''}")
    print(f"{given.calls:,} calls of {len(names)} functions, {sum(faults.values())} faults in {len(faults)}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
