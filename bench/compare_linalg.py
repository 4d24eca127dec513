#!/usr/bin/env python3
"""Times of Freight's factorizations and solves beside those of NumPy and SciPy on OpenBLAS, in turns in one run.

    bench/compare_linalg.py [--program build/bench/bench_linalg] [--threads 1,2] [--mkl [FILE]] [--rounds 3] [--out FILE.json]

Needs numpy and scipy. Of each it keeps the best time of all rounds; `ratio` is theirs divided by ours, so that above 1
Freight is faster. Rates are in GFLOP/s, by the op's count of additions and multiplications, the same for all sides. One
matrix goes to LAPACK's routines as SciPy calls them, a batch to numpy.linalg. With several numbers of threads each side
has its best one: two threads hurt small matrices. --mkl adds Intel's library by ctypes (PyPI: mkl), of one matrix, where
the time of the call from Python, a few microseconds, counts. On other makers' processors MKL takes slow code unless
MKL_ENABLE_INSTRUCTIONS=AVX512 says otherwise, which is read when it is loaded."""
import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import time

OPS = ["product", "lu", "cholesky", "qr", "triangular", "solve"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/bench/bench_linalg")
    p.add_argument("--threads", default="1", help="numbers of threads, of which each side takes its best")
    p.add_argument("--mkl", nargs="?", const="", metavar="FILE", help="beside MKL (default: libmkl_rt of this Python)")
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
    work, right = np.array(x, order="F"), np.array(b, order="F")
    n = x.shape[0]

    def fresh():
        work[...] = x
        right[...] = b

    def routine(name):
        return getattr(blas if name == "trsm" else lapack, letter + name)

    if op == "product":
        product = np.zeros_like(work)
        gemm = getattr(blas, letter + "gemm")
        return timed(lambda: gemm(1.0, work, right, c=product, overwrite_c=1), fresh)
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


class Mkl:
    """LAPACK's routines of libmkl_rt.so, by Fortran's interface: every argument by address, integers of 32 bits."""

    def __init__(self, path):
        found = [path] if path else sorted(glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*")))
        if not found:
            sys.exit(f"compare_linalg.py: no libmkl_rt.so in {sys.prefix}/lib: install mkl with pip, or name it: --mkl FILE")
        self.library = ctypes.CDLL(found[-1])

    def set_threads(self, count):
        self.library.MKL_Set_Num_Threads(count)

    def version(self):
        text = ctypes.create_string_buffer(256)
        self.library.MKL_Get_Version_String(text, len(text))
        return text.value.decode().strip()

    def single(self, op, x, b):
        import numpy as np

        letter = "d" if x.dtype == np.float64 else "s"
        work, right = np.array(x, order="F"), np.array(b, order="F")
        n, columns = (ctypes.c_int(v) for v in b.shape)
        info, size = ctypes.c_int(0), ctypes.c_int(64 * n.value)
        pivots, tau, space = np.zeros(n.value, np.int32), np.zeros(n.value, x.dtype), np.zeros(size.value, x.dtype)
        one, zero = np.ones(1, x.dtype), np.zeros(1, x.dtype)
        product = np.zeros_like(work) if op == "product" else None

        def at(v):
            return v.ctypes.data_as(ctypes.c_void_p) if isinstance(v, np.ndarray) else v if isinstance(v, bytes) else ctypes.byref(v)

        def routine(name, *arguments):
            function, addresses = getattr(self.library, letter + name + "_"), [at(v) for v in arguments]
            return lambda: function(*addresses)

        if op == "qr":
            factor = routine("geqrf", n, n, work, n, tau, space, size, info)
            make_q = routine("orgqr", n, n, n, work, n, tau, space, size, info)
            calls = [factor, make_q]
        else:
            calls = [{"product": lambda: routine("gemm", b"N", b"N", n, n, n, one, work, n, right, n, zero, product, n),
                      "lu": lambda: routine("getrf", n, n, work, n, pivots, info),
                      "cholesky": lambda: routine("potrf", b"L", n, work, n, info),
                      "triangular": lambda: routine("trsm", b"L", b"L", b"N", b"N", n, columns, one, work, n, right, n),
                      "solve": lambda: routine("gesv", n, columns, work, n, pivots, right, n, info)}[op]()]

        def fresh():
            if info.value != 0:
                sys.exit(f"compare_linalg.py: MKL's {op} of n = {n.value} reports {info.value}")
            work[...] = x
            right[...] = b

        return timed(lambda: [call() for call in calls], fresh)


def set_openblas_threads(count):
    """OpenBLAS reads its variable when it is loaded; afterwards its own function says how many."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "openblas" in line}
    for file in files:
        library = ctypes.CDLL(file)
        for prefix in ("scipy_", ""):
            for suffix in ("", "64_"):
                setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                if setter:
                    setter(ctypes.c_int(count))


def batched(op, x, b):
    import numpy as np

    calls = {"cholesky": lambda: np.linalg.cholesky(x), "qr": lambda: np.linalg.qr(x),
             "solve": lambda: np.linalg.solve(x, b)}
    return timed(calls[op]) if op in calls else None


def theirs(args, op, dtype, n, mkl=None):
    import numpy as np

    kind = np.float64 if dtype == "f64" else np.float32
    random = np.random.default_rng(1)
    x = random.uniform(-0.5, 0.5, (args.batch, n, n)).astype(kind)
    x = np.tril(x) + np.tril(x, -1).transpose(0, 2, 1)
    x[:, range(n), range(n)] = n
    b = random.uniform(-0.5, 0.5, (args.batch, n, 1 if op == "solve" else n)).astype(kind)
    if mkl:
        run = mkl.single(op, x[0], b[0])
    else:
        run = single(op, x[0], b[0]) if args.batch == 1 else batched(op, x, b)
    return best(run, args.repeat) if run else None


def ours(args, op, dtype, n, threads):
    answer = subprocess.run(
        [args.program, "--op", op, "--dtype", dtype, "--n", str(n), "--batch", str(args.batch), "--repeat", str(args.repeat)],
        check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)}).stdout
    return json.loads(answer)


def measured(args, op, dtype, n, mkl):
    """The best of all rounds and numbers of threads, of each side by itself. None where theirs has no such routine."""
    row, product = {}, 0
    sides = [("theirs", None)] + ([("mkl", mkl)] if mkl else [])
    for _ in range(args.rounds):
        for threads in map(int, args.threads.split(",")):
            mine = ours(args, op, dtype, n, threads)
            product = max(product, mine["gflops"] / mine["share_of_product"], mine["gflops"] if op == "product" else 0)
            if mine["seconds"] < row.get("seconds", float("inf")):
                row.update(mine)
            set_openblas_threads(threads)
            if mkl:
                mkl.set_threads(threads)
            for name, library in sides:
                seconds = theirs(args, op, dtype, n, library)
                if seconds is None:
                    return None
                if seconds < row.get(f"{name}_seconds", float("inf")):
                    row.update({f"{name}_seconds": seconds, f"{name}_threads": threads})
    row["share_of_product"] = round(row["gflops"] / product, 3)
    flops = row["gflops"] * row["seconds"]
    for name, library in sides:
        row["ratio" if library is None else "mkl_ratio"] = round(row[f"{name}_seconds"] / row["seconds"], 3)
        row[f"{name}_gflops"] = round(flops / row[f"{name}_seconds"], 3)
    return row


def line(row):
    def side(name, seconds, rate):
        return f"{name} {row[seconds] * 1e6:10.1f} us {row[rate]:6.1f} GFLOP/s"

    text = f'{row["op"]:10} {row["dtype"]} n {row["n"]:5} batch {row["batch"]:6}  {side("ours", "seconds", "gflops")}  '
    text += f'{side("theirs", "theirs_seconds", "theirs_gflops")} ratio {row["ratio"]:5.2f}'
    if "mkl_ratio" in row:
        text += f'  {side("MKL", "mkl_seconds", "mkl_gflops")} ratio {row["mkl_ratio"]:5.2f}'
    return f'{text}  of product {row["share_of_product"]:5.2f}  {row["kernel"]}'


def main():
    args = arguments()
    most = max(map(int, args.threads.split(",")))
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(most)
    if args.mkl is not None and args.batch != 1:
        sys.exit("compare_linalg.py: --mkl times single matrices: need --batch 1")
    mkl = None if args.mkl is None else Mkl(args.mkl)
    if mkl:
        print(mkl.version())
    results = []
    for dtype in args.dtype.split(","):
        for n in map(int, args.n.split(",")):
            for op in args.op.split(","):
                row = measured(args, op, dtype, n, mkl)
                if row is None:
                    continue
                results.append(row)
                print(line(row), flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
