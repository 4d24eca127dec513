#!/usr/bin/env python3
"""Reading a table beside pandas.read_csv, in alternation: CPU time of one core, and the most memory of each process.

usage: bench/compare_pandas.py [--program build/bench/bench_read_table] [--megabytes 200,1000] [--repeat 5] [--out FILE.json]

The file is made here: six columns of rounded normal numbers, three of whole numbers, one of numbers with 16 digits, and three
of words (6, 1,000 and 2 different ones). Needs NumPy and pandas.
"""
import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

READ = """
import resource, sys
import pandas
def cpu():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime
start = cpu()
table = pandas.read_csv(sys.argv[1], engine="c")
seconds = cpu() - start
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print('{"rows": %d, "cpu_seconds": %.4f, "peak_bytes": %d}' % (len(table), seconds, peak))
"""


def block(seed, rows):
    import numpy
    import pandas

    random = numpy.random.default_rng(seed)
    columns = {f"x{i}": numpy.round(random.normal(0, 100, rows), 4) for i in range(6)}
    columns |= {f"n{i}": random.integers(0, 100000, rows) for i in range(3)}
    columns["share"] = random.random(rows)
    columns["city"] = random.choice(["Berlin", "Hamburg", "Munich", "Cologne", "Frankfurt am Main", "Stuttgart"], rows)
    columns["kind"] = random.choice([f"kind_{k}" for k in range(1000)], rows)
    columns["yes"] = random.choice(["yes", "no"], rows)
    return pandas.DataFrame(columns)


def write_table(path, megabytes):
    blocks = [block(seed, 100000).to_csv(index=False).split("\n", 1) for seed in range(4)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(blocks[0][0] + "\n")
        written = 0
        while written < megabytes * 1e6:
            written += file.write(blocks[written % 4][1])


def measured(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bench/bench_read_table")
    parser.add_argument("--megabytes", default="200,1000")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out")
    args = parser.parse_args()
    import pandas

    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "pandas": pandas.__version__, "command": " ".join(sys.argv), "tables": []}
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in map(float, args.megabytes.split(",")):
            path = pathlib.Path(folder) / "table.csv"
            write_table(path, megabytes)
            ours, theirs = [], []
            for _ in range(args.repeat):
                ours.append(measured([args.program, path]))
                theirs.append(measured([sys.executable, "-c", READ, path]))
            size = path.stat().st_size
            best, other = (min(runs, key=lambda r: r["cpu_seconds"]) for runs in (ours, theirs))
            results["tables"].append({
                "bytes": size, "rows": best["rows"],
                "freight_mb_per_s": size / 1e6 / best["cpu_seconds"], "pandas_mb_per_s": size / 1e6 / other["cpu_seconds"],
                "times_faster": other["cpu_seconds"] / best["cpu_seconds"],
                "peak_per_table": max(r["peak_bytes"] for r in ours) / best["table_bytes"],
                "pandas_peak_per_table": max(r["peak_bytes"] for r in theirs) / best["table_bytes"]})
            print(json.dumps(results["tables"][-1]), flush=True)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
