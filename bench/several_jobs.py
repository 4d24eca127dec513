#!/usr/bin/env python3
"""Several jobs on one machine: docs/troubleshooting.md, "Slow".

usage: bench/several_jobs.py [--freight build/bin/freight] [--out FILE.json] [--steps 1500] [--jobs 2,3,4] [--quotas 0.5,1,1.5]

Trainings of made-up digits, 1 to 4 at once: the sum of their rates against the rate of one alone, which is measured before and
after. The same with FREIGHT_SHARE_CPUS=0, as it was before programs gave way. Trainings under a quota of the processor
(a control group of version 1 or 2; needs root). The 99th percentile of a server's answers alone and beside one training. Run
it on a machine that is idle otherwise.
"""
import argparse
import datetime
import http.client
import json
import os
import pathlib
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


def percentile_99(port, seconds):
    body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0.5] * 784}]})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        connection.request("POST", "/v2/models/digits/infer", body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        times.append(time.monotonic() - began)
        time.sleep(0.005)
    return sorted(times)[len(times) * 99 // 100] * 1e3


def serve(freight, folder, steps):
    out = folder / "served"
    subprocess.run([freight, "train", "digits", "--model", "lenet", "--max-steps", "50", "-o", out, "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    port = 18473
    server = subprocess.Popen([freight, "serve", f"digits={out}/model.safetensors", "--port", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                http.client.HTTPConnection("127.0.0.1", port).request("GET", "/v2/health/ready")
                break
            except OSError:
                time.sleep(0.1)
        percentile_99(port, 1)
        alone = percentile_99(port, 4)
        job = start(freight, folder, "lenet", 10 * steps)
        time.sleep(2)
        beside = percentile_99(port, 4)
        job.terminate()
        job.wait()
        return {"p99_ms_alone": alone, "p99_ms_beside_a_training": beside}
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
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
        result["server"] = serve(o.freight, folder, o.steps)
        print(result["server"], flush=True)
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
