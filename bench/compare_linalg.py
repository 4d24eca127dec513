#!/usr/bin/env python3
"""Times of Freight's factorizations and solves beside those of NumPy and SciPy on OpenBLAS, in turns in one run.

    bench/compare_linalg.py [--program build/bench/bench_linalg] [--threads 1] [--rounds 3] [--out FILE.json]

Needs numpy and scipy. Of each it keeps the best time of all rounds; `ratio` is theirs divided by ours, so that above 1
Freight is faster. One matrix goes to LAPACK's routines as SciPy calls them, a batch to numpy.linalg."""
import argparse
import json
import os
import subprocess
import sys
import time

OPS = ["lu", "cholesky", "qr", "triangular", "solve"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/bench/bench_linalg")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--repeat", type=int, default=20)
    p.add_argument("--n", default="16,32,64,128,200,400,800,1000,2000,4000")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--op", default=",".join(OPS))
    p.add_argument("--dtype", default="f64,f32")
    p.add_argument("--out", help="a file for the results as JSON")
    return p.parse_args()


def best(run, repeat):
    shortest = float("inf")
    for _ in range(repeat):
        shortest = min(shortest, run())
    return shortest


def timed(call, prepare=lambda: None):
    def run():
        prepare()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return run


def single(op, x, b):
    """A function that does `op` once in place and returns the seconds of LAPACK's routine alone."""
    import numpy as np
    from scipy.linalg import blas, lapack

    letter = "d" if x.dtype == np.float64 else "s"
    work, right = np.asfortranarray(x), np.asfortranarray(b)
    n = x.shape[0]

    def fresh():
        work[...] = x
        right[...] = b

    def routine(name):
        return getattr(blas if name == "trsm" else lapack, letter + name)

    if op == "lu":
        return timed(lambda: routine("getrf")(work, overwrite_a=1), fresh)
    if op == "cholesky":
        return timed(lambda: routine("potrf")(work, lower=1, overwrite_a=1), fresh)
    if op == "triangular":
        return timed(lambda: routine("trsm")(1.0, work, right, lower=1, overwrite_b=1), fresh)
    if op == "solve":
        return timed(lambda: routine("gesv")(work, right, overwrite_a=1, overwrite_b=1), fresh)

    def qr():
        q, tau, _, _ = routine("geqrf")(work, lwork=64 * n, overwrite_a=1)
        routine("orgqr")(q, tau, lwork=64 * n, overwrite_a=1)

    return timed(qr, fresh)


def batched(op, x, b):
    import numpy as np

    calls = {"cholesky": lambda: np.linalg.cholesky(x), "qr": lambda: np.linalg.qr(x),
             "solve": lambda: np.linalg.solve(x, b)}
    return timed(calls[op]) if op in calls else None


def theirs(args, op, dtype, n):
    import numpy as np

    kind = np.float64 if dtype == "f64" else np.float32
    random = np.random.default_rng(1)
    x = random.uniform(-0.5, 0.5, (args.batch, n, n)).astype(kind)
    x = np.tril(x) + np.tril(x, -1).transpose(0, 2, 1)
    x[:, range(n), range(n)] = n
    b = random.uniform(-0.5, 0.5, (args.batch, n, 1 if op == "solve" else n)).astype(kind)
    run = single(op, x[0], b[0]) if args.batch == 1 else batched(op, x, b)
    return best(run, args.repeat) if run else None


def main():
    args = arguments()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)
    results = []
    for dtype in args.dtype.split(","):
        for n in map(int, args.n.split(",")):
            for op in args.op.split(","):
                row = None
                for _ in range(args.rounds):
                    answer = subprocess.run(
                        [args.program, "--op", op, "--dtype", dtype, "--n", str(n), "--batch", str(args.batch),
                         "--repeat", str(args.repeat)], check=True, capture_output=True, text=True).stdout
                    ours = json.loads(answer)
                    other = theirs(args, op, dtype, n)
                    if row is None:
                        row = dict(ours, theirs_seconds=other)
                    else:
                        if ours["seconds"] < row["seconds"]:
                            row.update(ours)
                        if other is not None:
                            row["theirs_seconds"] = min(row["theirs_seconds"], other)
                if row["theirs_seconds"] is None:
                    continue
                row["ratio"] = round(row["theirs_seconds"] / row["seconds"], 3)
                results.append(row)
                print(f'{op:10} {dtype} n {n:5} batch {args.batch:6}  ours {row["seconds"] * 1e6:12.1f} us  theirs '
                      f'{row["theirs_seconds"] * 1e6:12.1f} us  ratio {row["ratio"]:6.2f}  of product '
                      f'{row["share_of_product"]:5.2f}  {row["kernel"]}', flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
