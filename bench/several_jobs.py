#!/usr/bin/env python3
"""Several jobs on one machine: docs/troubleshooting.md, "Slow".

usage: bench/several_jobs.py [--freight build/bin/freight] [--load build/bench/bench_serve_load] [--out FILE.json] [--steps 1500]
                             [--jobs 2,3,4] [--quotas 0.5,1,1.5]

Trainings of made-up digits, 1 to 4 at once: the sum of their rates against the rate of one alone, which is measured before and
after. The same with FREIGHT_SHARE_CPUS=0, as it was before programs gave way. Trainings under a quota of the processor
(a control group of version 1 or 2; needs root). A training, a `bench step` and a server under load in all pairs: the sum of
each one's rate over its rate alone. The 99th percentile of a server's answers to 100 requests a second alone and beside one
training, five times in alternation. Run it on a machine that is idle otherwise.
"""
import argparse
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

NETS = {"mlp": 1.0, "lenet": 0.25, "convnet": 0.25}  # shares of --steps


def start(freight, folder, net, steps, more=None, before=None):
    out = folder / f"run-{time.monotonic_ns()}"
    command = [freight, "train", "digits", "--model", net, "--max-steps", str(steps), "-o", str(out), "--json", "--no-progress"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")} | (more or {})
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, preexec_fn=before)


def rate(job):
    said = json.loads(job.communicate()[0].splitlines()[-1])
    return said["steps"] / said["train_seconds"]


def together(freight, folder, net, steps, count, more=None):
    return [rate(job) for job in [start(freight, folder, net, steps, more) for _ in range(count)]]


class Quota:
    """A control group that grants so many processors."""

    def __init__(self, processors):
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
        time.sleep(0.2)
        self.group.rmdir()


class Server:
    """A net that answers, and a generator of requests."""

    port = 18473

    def __init__(self, freight, load, folder):
        self.load = load
        out = folder / "served"
        subprocess.run([freight, "train", "digits", "--model", "lenet", "--max-steps", "50", "-o", out, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        self.server = subprocess.Popen([freight, "serve", f"digits={out}/model.safetensors", "--port", str(self.port)],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                http.client.HTTPConnection("127.0.0.1", self.port).request("GET", "/v2/health/ready")
                return
            except OSError:
                time.sleep(0.1)
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


def answers(freight, load, folder, steps):
    server = Server(freight, load, folder)
    try:
        server.percentile_99(1)
        rows = []
        for _ in range(5):
            alone = server.percentile_99(4)
            job = start(freight, folder, "lenet", 10 * steps)
            time.sleep(2)
            beside = server.percentile_99(4)
            job.terminate()
            job.wait()
            rows.append({"p99_ms_alone": alone, "p99_ms_beside_a_training": beside, "ratio": beside / alone})
        return {"rounds": rows, "ratio": statistics.median(r["ratio"] for r in rows)}
    finally:
        server.close()


def pairs(freight, load, folder, seconds=6):
    """Each kind of job runs for `seconds`: a training is stopped by SIGTERM, the others stop by themselves."""
    server = Server(freight, load, folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}

    def train():
        job = start(freight, folder, "lenet", 10**6)
        job.end = time.monotonic() + seconds
        return job

    def stopped(job):
        time.sleep(max(0, job.end - time.monotonic()))
        job.terminate()
        return rate(job)

    def bench():
        command = [freight, "bench", "step", "--model", "lenet", "-b", "64", "--seconds", str(seconds), "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

    kinds = {"train": (train, stopped),
             "bench": (bench, lambda job: 1e3 / json.loads(job.communicate()[0])["ms_median"]),
             "serve": (lambda: server.start(seconds), lambda job: server.said(job)["requests_per_s"])}
    try:
        rows = []
        for names in itertools.combinations_with_replacement(kinds, 2):
            alone = {name: kinds[name][1](kinds[name][0]()) for name in dict.fromkeys(names)}
            jobs = [kinds[name][0]() for name in names]
            shares = [kinds[name][1](job) / alone[name] for name, job in zip(names, jobs)]
            rows.append({"pair": names, "shares": shares, "sum_of_rates": sum(shares)})
            print(rows[-1], flush=True)
        return rows
    finally:
        server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    parser.add_argument("--load", default="build/bench/bench_serve_load")
    parser.add_argument("--out")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--jobs", default="2,3,4")
    parser.add_argument("--quotas", default="0.5,1,1.5")
    o = parser.parse_args()
    result = {"date": datetime.date.today().isoformat(), "processors": len(os.sched_getaffinity(0)), "jobs": [], "quotas": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for net, share in NETS.items():
            steps = int(o.steps * share)
            together(o.freight, folder, net, 50, 1)  # kernels are measured once
            for count in map(int, o.jobs.split(",")):
                before = together(o.freight, folder, net, steps, 1)[0]
                rates = together(o.freight, folder, net, steps, count)
                keeping = together(o.freight, folder, net, steps // 10, count, {"FREIGHT_SHARE_CPUS": "0"}) if count == 2 else []
                alone = (before + together(o.freight, folder, net, steps, 1)[0]) / 2
                row = {"net": net, "jobs": count, "steps_per_s_alone": alone, "sum_of_rates": sum(rates) / alone}
                if keeping:
                    row["sum_of_rates_without_giving_way"] = sum(keeping) / alone
                result["jobs"].append(row)
                print(row, flush=True)
        for processors in map(float, filter(None, o.quotas.split(","))):
            steps = int(o.steps * NETS["lenet"])
            try:
                quota = Quota(processors)
            except OSError as error:
                print(f"no control group: {error}", file=sys.stderr)
                break
            alone = together(o.freight, folder, "lenet", steps, 1)[0]
            within = rate(start(o.freight, folder, "lenet", steps, before=quota.enter))
            quota.close()
            row = {"quota": processors, "rate_of_alone": within / alone}
            result["quotas"].append(row)
            print(row, flush=True)
        result["pairs"] = pairs(o.freight, o.load, folder)
        result["server"] = answers(o.freight, o.load, folder, o.steps)
        print(result["server"], flush=True)
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
