#!/usr/bin/env python3
"""What shapes cost that a training step has not seen before: Freight and PyTorch's eager mode, in alternation in one run.

usage: bench/varying_shapes.py [--program build/bench/bench_varying_shapes] [--rounds 5] [--passes 4] [--out FILE.json]

mlp: 784-128-10 at the 100 batch sizes 1 to 100; lstm: 64 -> 128 at 30 lengths, 5 to 150, batch 32. Both in a mixed order, one step
(forward, loss, backward, SGD with momentum, the loss read) per shape and pass. Each round has three processes: Freight with an
empty cache of measured kernels (cold), Freight with the cache that this one left (warm), and PyTorch. In seconds:

  first    the first pass, which meets every shape for the first time
  again    the fastest later pass
  process  the whole process up to the end of the first pass, the libraries' start and the batches included

Run it on an otherwise idle machine, with a Python that has torch. OMP_WAIT_POLICY=passive keeps waiting threads off the cores.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

NETS = ("mlp", "lstm")


def mixed(count, prime, stride):
    return [i * stride % prime for i in range(1, prime) if i * stride % prime <= count]


def run_torch(name, passes):
    import torch
    import torch.nn as nn

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.fc = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.fc(self.rnn(x)[0][:, -1])

    torch.set_num_threads(os.cpu_count() or 1)
    if name == "mlp":
        net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        shapes = [(n, 784) for n in mixed(100, 101, 37)]
    else:
        net = Lstm()
        shapes = [(32, 5 * t, 64) for t in mixed(30, 31, 12)]
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(s), torch.zeros(s[0], dtype=torch.int64)) for s in shapes]
    seconds = []
    for _ in range(passes):
        start = time.perf_counter()
        for x, y in batches:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            loss.item()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "shapes": len(shapes)}))


def child(command, **more):
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | more)
    whole = time.perf_counter() - start
    first, *later = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    return {"first": first, "again": min(later), "process": whole - sum(later)}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/bench/bench_varying_shapes")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--passes", type=int, default=4)
    p.add_argument("--out")
    p.add_argument("--torch", choices=NETS, help="run PyTorch's half alone")
    a = p.parse_args()
    if a.torch:
        return run_torch(a.torch, a.passes)
    result = {"date": datetime.date.today().isoformat(), "machine": f"{processor()}, {os.cpu_count()} cores",
              "command": " ".join(sys.argv), "nets": {}}
    for net in NETS:
        rounds = {"cold": [], "warm": [], "torch": []}
        for _ in range(a.rounds):
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    rounds[state].append(child([a.program, net, str(a.passes)], FREIGHT_CACHE=cache))
            rounds["torch"].append(child([sys.executable, __file__, "--torch", net, "--passes", str(a.passes)]))
        row = {who: {key: [round(r[key], 4) for r in runs] for key in runs[0]} for who, runs in rounds.items()}
        # PyTorch's time over Freight's, round by round.
        row["ratio"] = {state: {key: round(statistics.median(t / f for t, f in zip(row["torch"][key], row[state][key])), 2)
                                for key in row[state]} for state in ("cold", "warm")}
        result["nets"][net] = row
        print(net, json.dumps(row))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
