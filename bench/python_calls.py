#!/usr/bin/env python3
"""Calls from Python: eager operations on small arrays, compiled functions, cached calls and the import, beside NumPy and
torch, in alternating rounds; the medians of nine. Needs a quiet machine and the package on PYTHONPATH.
usage: bench/python_calls.py [--rounds 9] [--threads N] [--only eager|jit|cached|import]
"""
import argparse
import os
import statistics
import subprocess
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=["eager", "jit", "cached", "import"])
    return parser.parse_args()


GIVEN = arguments()
os.environ.setdefault("OMP_NUM_THREADS", str(GIVEN.threads))

import numpy as np  # noqa: E402

import freight as f  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def seconds(call, least=0.02):
    """Of one call: as many are made as take `least` seconds."""
    count = 1
    while True:
        begun = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - begun
        if took >= least:
            return took / count
        count = max(2 * count, int(count * least / max(took, 1e-9)))


def medians(calls, least=0.02):
    """Of alternating rounds, in microseconds; `calls` by name."""
    taken = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(GIVEN.rounds):
        for name, call in calls.items():
            taken[name].append(seconds(call, least))
    return {name: 1e6 * statistics.median(t) for name, t in taken.items()}


def line(title, found, bars):
    """The medians, and the ratio to each library that a bar names: at most this much of its time."""
    texts, met = [], True
    for name, most in bars.items():
        if name in found:
            ratio = found["freight"] / found[name]
            met = met and ratio <= most
            texts.append(f"{ratio:.2f}x {name}, at most {most:.2f}")
    times = "  ".join(f"{name} {t:10.2f}" for name, t in found.items())
    print(f"{'ok' if met else 'MISSED':6}  {title:34}  {times} us  {'; '.join(texts)}", flush=True)


def changing(call):
    """A call with another number each time."""
    state = [0.0]

    def step():
        state[0] += 1e-6
        return call(state[0])
    return step


def eager():
    x, y = np.random.rand(1000).astype("f4"), np.random.rand(1000).astype("f4")
    m, n = np.random.rand(32, 32).astype("f4"), np.random.rand(32, 32).astype("f4")
    rows = np.random.rand(32, 32).astype("f4")
    libraries = {"freight": f.asarray, "numpy": lambda a: a}
    if torch:
        libraries["torch"] = torch.from_numpy
    cases = {
        "x + y": lambda a: (lambda x=a(x), y=a(y): x + y),
        "x + 1": lambda a: (lambda x=a(x): x + 1),
        "x * k, a new k each time": lambda a: changing(lambda k, x=a(x): x * k),
        "x[1:] - x[:-1]": lambda a: (lambda x=a(x): x[1:] - x[:-1]),
        "x.T @ y, 32 x 32": lambda a: (lambda m=a(m), n=a(n): m.T @ n),
        "x.sum(0), 32 x 32": lambda a: (lambda x=a(rows): x.sum(0)),
        "x.sum(0), 1,000": lambda a: (lambda x=a(x): x.sum(0)),
    }
    for title, make in cases.items():
        line(title, medians({name: make(a) for name, a in libraries.items()}), {"numpy": 2.0, "torch": 1.0})


def chain(m, x):
    """Eight functions."""
    return m.sqrt(m.exp(m.sin(x) * m.cos(x)) + x * x + 1.0)


def compiled():
    x = np.random.rand(4_000_000).astype("f4")
    a, w, b = (np.random.rand(*s).astype("f4") for s in ((1024, 1024), (1024, 1024), (1024,)))

    def layer(m, a, w, b):
        return m.tanh(a @ w + b)

    calls = {"freight": (f.jit(lambda x: chain(f, x)), f.jit(lambda a, w, b: layer(f, a, w, b)), f.asarray),
             "numpy": (lambda x: chain(np, x), lambda a, w, b: layer(np, a, w, b), lambda a: a)}
    if torch:
        torch.set_num_threads(GIVEN.threads)
        try:
            pair = (torch.compile(lambda x: chain(torch, x)), torch.compile(lambda a, w, b: layer(torch, a, w, b)))
            pair[0](torch.from_numpy(x[:10]))
            calls["torch.compile"] = (*pair, torch.from_numpy)
        except Exception as error:  # it needs a C++ compiler
            print(f"torch.compile does not run here: {type(error).__name__}", flush=True)
            calls["torch"] = (lambda x: chain(torch, x), lambda a, w, b: layer(torch, a, w, b), torch.from_numpy)
    first = {n: (lambda c=c[0], x=c[2](x): c(x)) for n, c in calls.items()}
    line("jit: chain of eight, 4,000,000", medians(first, 0.1), {"numpy": 1 / 3, "torch.compile": 1 / 1.2})
    second = {n: (lambda c=c[1], g=tuple(map(c[2], (a, w, b))): c(*g)) for n, c in calls.items()}
    line("jit: matmul + bias + tanh, 1024", medians(second, 0.1), {"numpy": 1 / 1.1, "torch.compile": 1.0})


def cached():
    ten = [f.ones(4) for _ in range(10)]
    step = f.jit(lambda *a: a[0] + a[9])
    found = medians({"freight": lambda: step(*ten)})["freight"]
    print(f"{'ok' if found <= 10 else 'MISSED':6}  cached jit call, ten small arguments: {found:.2f} us, at most 10")
    parameters = {f"layer{i}": {"w": f.ones((2, 2)), "b": f.ones(2)} for i in range(100)}
    loss = f.jit(lambda p: p["layer0"]["w"].sum() + p["layer99"]["b"].sum())
    found = medians({"freight": lambda: loss(parameters)})["freight"]
    print(f"{'ok' if found <= 40 else 'MISSED':6}  cached jit call, 200 parameters in a nested dict: {found:.2f} us, at most 40")


def imported():
    taken = []
    for _ in range(GIVEN.rounds):
        code = "import time; t = time.perf_counter(); import freight; print(time.perf_counter() - t)"
        taken.append(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout))
    found = 1e3 * statistics.median(taken)
    print(f"{'ok' if found < 80 else 'MISSED':6}  import freight: {found:.1f} ms, less than 80")


def main():
    parts = {"eager": eager, "jit": compiled, "cached": cached, "import": imported}
    for name, part in parts.items():
        if GIVEN.only in (None, name):
            part()


if __name__ == "__main__":
    main()
