#!/usr/bin/env python3
"""Several jobs on one machine: docs/troubleshooting.md, "Slow".

usage: bench/several_jobs.py [--freight build/bin/freight] [--load build/bench/bench_serve_load] [--out FILE.json]
                             [--parts together,quotas,server] [--jobs 2,3,4] [--quotas 0.5,1,1.5] [--seconds 4] [--limit 350]

A job is a training of made-up digits, a `bench step`, or a server under load; each runs for --seconds.
together  all choices of 2, 3 and 4 of these at once: the sum of each one's rate over its rate alone (0.85 is asked for), which is
          measured before and after
quotas    jobs in one control group (version 1 or 2; needs root) that grants so many processors: the same sums, over the rate of one
          job alone in the group; and that rate over the one without a quota. Trainings and a server: a `bench step` gives the
          median of its steps, which the pauses of a quota do not move
server    the 99th percentile of a server's answers to 100 requests a second alone and beside one training, in alternation
nets      (only where --parts names it) trainings of three nets; of two also with FREIGHT_SHARE_CPUS=0, as it was before programs
          gave way

Run it on a machine that is idle otherwise. It takes 6 minutes as it stands, and begins nothing after --limit seconds: what is left
out is listed.
"""
import argparse
import collections
import datetime
import http.client
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ASKED = 0.85
NETS = ("mlp", "lenet", "convnet")
KINDS = ("train", "bench", "serve")
UNDER_QUOTA = ("train", "serve")


def environment(more=None):
    return {k: v for k, v in os.environ.items() if not k.startswith("OMP_")} | (more or {})


class Quota:
    """A control group that grants so many processors; None of all."""

    def __init__(self, processors):
        self.processors = processors
        one = pathlib.Path("/sys/fs/cgroup/cpu")
        self.group = (one if one.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"freight-{os.getpid()}"
        self.group.mkdir()
        period = 100000
        if one.is_dir():
            (self.group / "cpu.cfs_quota_us").write_text(str(int(processors * period)))
        else:
            (self.group / "cpu.max").write_text(f"{int(processors * period)} {period}")

    def enter(self):
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        for _ in range(50):
            try:
                return self.group.rmdir()
            except OSError:  # its last process has not ended yet
                time.sleep(0.1)
        sys.exit(f"several_jobs: {self.group} still has processes")


class Server:
    """A net that answers, and generators of requests, which stay outside of a control group."""

    def __init__(self, tools, port, before=None):
        self.load, self.port = tools.load, port
        self.server = subprocess.Popen([tools.freight, "serve", f"digits={tools.model}", "--port", str(port)], env=environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=before)
        for _ in range(100):
            try:
                http.client.HTTPConnection("127.0.0.1", port).request("GET", "/v2/health/ready")
                return
            except OSError:
                time.sleep(0.1)
        self.close()
        sys.exit("several_jobs: the server did not become ready within 10 s")

    def start(self, seconds, connections=8, rate_per_s=None):
        command = [self.load, str(self.port), "digits", "1,28,28", "--connections", str(connections), "--seconds", str(seconds)]
        if rate_per_s:
            command += ["--rate", str(rate_per_s)]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    @staticmethod
    def said(generator):
        out = json.loads(generator.communicate()[0])
        if generator.returncode != 0:
            sys.exit(f"several_jobs: the generator of requests ended with {generator.returncode}: {out}")
        return out

    def percentile_99(self, seconds):
        return self.said(self.start(seconds, connections=1, rate_per_s=100))["us"]["p99"] / 1e3

    def close(self):
        self.server.terminate()
        self.server.wait()


class Tools:
    """The programs, a place for what they write, and a net to serve."""

    def __init__(self, options, folder):
        self.freight, self.load, self.seconds, self.folder = options.freight, options.load, options.seconds, folder
        self.made = itertools.count()
        self.limit = time.monotonic() + options.limit
        out = self.folder / "served"
        subprocess.run([self.freight, "train", "digits", "--model", "lenet", "--max-steps", "50", "-o", out, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        self.model = out / "model.safetensors"

    def late(self):
        return time.monotonic() > self.limit

    def train(self, net="lenet", more=None, before=None):
        out = self.folder / f"run-{next(self.made)}"
        command = [self.freight, "train", "digits", "--model", net, "--max-steps", str(10**6), "-o", str(out), "--json",
                   "--no-progress"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(more), preexec_fn=before)

    def bench(self, before=None):
        command = [self.freight, "bench", "step", "--model", "lenet", "-b", "64", "--seconds", str(self.seconds), "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), preexec_fn=before)


def steps_per_s(job):
    """Of a training that is told to stop."""
    job.terminate()
    said = json.loads(job.communicate()[0].splitlines()[-1])
    return said["steps"] / said["train_seconds"]


def rates(tools, kinds, group=None):
    """Runs the jobs at once and gives the rate of each: steps or answers per second."""
    before = group.enter if group else None
    served = kinds.count("serve")
    servers = [Server(tools, 18473 + i, before) for i in range(served)]
    try:
        for server in servers:
            Server.said(server.start(0.3))  # the net is compiled for its batches
        jobs, waiting = [], iter(servers)
        for kind in kinds:
            if kind == "train":
                jobs.append(tools.train(before=before))
            elif kind == "bench":
                jobs.append(tools.bench(before))
            else:
                jobs.append(next(waiting).start(tools.seconds))
        time.sleep(tools.seconds)
        result = [steps_per_s(job) if kind == "train" else None for kind, job in zip(kinds, jobs)]
        for i, (kind, job) in enumerate(zip(kinds, jobs)):
            if kind == "bench":
                result[i] = 1e3 / json.loads(job.communicate()[0])["ms_median"]
            elif kind == "serve":
                result[i] = Server.said(job)["requests_per_s"]
        return result
    finally:
        for server in servers:
            server.close()


def rates_alone(tools, kinds=KINDS, group=None):
    return {kind: rates(tools, [kind], group)[0] for kind in kinds}


def row_of(kinds, found, alone):
    shares = [rate / alone[kind] for kind, rate in zip(kinds, found)]
    name = " + ".join(f"{n} {kind}" for kind, n in collections.Counter(kinds).items())
    return {"jobs": name, "count": len(kinds), "shares": [round(s, 3) for s in shares], "sum_of_rates": round(sum(shares), 3)}


def together(tools, counts):
    """All choices of jobs. One job's rate alone is the mean of before and after."""
    alone = rates_alone(tools)
    found, left_out = [], []
    for count in counts:
        for kinds in itertools.combinations_with_replacement(KINDS, count):
            if tools.late():
                left_out.append(" + ".join(kinds))
                continue
            found.append((kinds, rates(tools, kinds)))
            print(row_of(*found[-1], alone), flush=True)
    after = rates_alone(tools)
    mean = {kind: (alone[kind] + after[kind]) / 2 for kind in KINDS}
    rows = [row_of(kinds, got, mean) for kinds, got in found]
    least = {count: min(r["sum_of_rates"] for r in rows if r["count"] == count) for count in sorted({r["count"] for r in rows})}
    below = [r["jobs"] for r in rows if r["sum_of_rates"] < ASKED]
    print({"least_sum_of_rates": least, "below": below, "left_out": left_out}, flush=True)
    return {"alone_before": alone, "alone_after": after, "rows": rows, "least_sum_of_rates": least, "below": below,
            "left_out": left_out}


def quotas(tools, processors, counts):
    """Trainings, and a training beside a server, in a group; alone: in the same group."""
    free = rates_alone(tools, UNDER_QUOTA)
    rows, left_out = [], []
    choices = [["train"] * count for count in counts] + [list(UNDER_QUOTA)]
    for granted in processors:
        if tools.late():
            left_out.append(granted)
            continue
        try:
            group = Quota(granted)
        except OSError as error:
            print(f"no control group: {error}", file=sys.stderr)
            return {"no_control_group": str(error)}
        try:
            alone = rates_alone(tools, UNDER_QUOTA, group)
            of_free = {kind: round(alone[kind] / free[kind], 3) for kind in UNDER_QUOTA}
            sums = [row_of(kinds, rates(tools, kinds, group), alone) for kinds in choices if not tools.late()]
        finally:
            group.close()
        rows.append({"processors": granted, "alone_of_free": of_free, "rows": sums})
        print(rows[-1], flush=True)
    below = [f"{r['processors']}: {s['jobs']}" for r in rows for s in r["rows"] if s["sum_of_rates"] < ASKED]
    print({"below": below, "left_out": left_out}, flush=True)
    return {"free": free, "rows": rows, "below": below, "left_out": left_out}


def answers(tools, rounds=3):
    server = Server(tools, 18473)
    try:
        server.percentile_99(1)
        rows = []
        for _ in range(rounds):
            if rows and tools.late():
                break
            alone = server.percentile_99(tools.seconds)
            job = tools.train()
            time.sleep(2)
            beside = server.percentile_99(tools.seconds)
            steps_per_s(job)
            rows.append({"p99_ms_alone": alone, "p99_ms_beside_a_training": beside, "ratio": beside / alone})
        result = {"rounds": rows, "ratio": statistics.median(r["ratio"] for r in rows)}
        print(result, flush=True)
        return result
    finally:
        server.close()


def nets(tools, counts):
    def at_once(net, count, more=None):
        jobs = [tools.train(net, more) for _ in range(count)]
        time.sleep(tools.seconds)
        return [steps_per_s(job) for job in jobs]

    rows = []
    for net in NETS:
        at_once(net, 1)  # kernels are measured once
        for count in counts:
            if tools.late():
                break
            before = at_once(net, 1)[0]
            sum_of_rates = sum(at_once(net, count))
            keeping = sum(at_once(net, count, {"FREIGHT_SHARE_CPUS": "0"})) if count == 2 else None
            alone = (before + at_once(net, 1)[0]) / 2
            row = {"net": net, "jobs": count, "steps_per_s_alone": alone, "sum_of_rates": sum_of_rates / alone}
            if keeping:
                row["sum_of_rates_without_giving_way"] = keeping / alone
            rows.append(row)
            print(row, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--load", default="build/bench/bench_serve_load")
    parser.add_argument("--out")
    parser.add_argument("--parts", default="together,quotas,server")
    parser.add_argument("--jobs", default="2,3,4")
    parser.add_argument("--quotas", default="0.5,1,1.5")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--limit", type=float, default=350)
    o = parser.parse_args()
    counts, processors = [int(n) for n in o.jobs.split(",")], [float(p) for p in o.quotas.split(",")]
    began = time.monotonic()
    result = {"date": datetime.date.today().isoformat(), "command": " ".join(["bench/several_jobs.py"] + sys.argv[1:]),
              "processors": len(os.sched_getaffinity(0)), "asked": ASKED}
    with tempfile.TemporaryDirectory() as name:
        tools = Tools(o, pathlib.Path(name))
        run = {"together": lambda: together(tools, counts), "quotas": lambda: quotas(tools, processors, counts),
               "server": lambda: answers(tools), "nets": lambda: nets(tools, counts)}
        for part in o.parts.split(","):
            result[part] = run[part]()
    result["seconds"] = round(time.monotonic() - began)
    print({"seconds": result["seconds"]})
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
