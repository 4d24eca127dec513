#!/usr/bin/env python3
"""Steps of data-parallel training on one machine: Freight's ranks beside PyTorch's DistributedDataParallel over Gloo, in alternation.

usage: bench/compare_ddp.py [lenet resnet20] [--freight build/bin/freight] [--ranks 2] [--rounds 3] [--seconds 4] [--out FILE.json]

The batch is that of all ranks. In each round Freight and PyTorch have one process with all threads, then --ranks processes that
share them. PyTorch has its best mode, over a resident batch, with buckets that gradients lie in; Freight trains on its data set,
whose batches it reads, decodes and lays out beside. `ratio` is PyTorch's time over Freight's. Needs a Python with torch; run it
on an otherwise idle machine."""
import argparse
import datetime
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import compare_torch

# workload: (data set, batch of all ranks, steps of Freight's run)
WORKLOADS = {"lenet": ("mnist", 64, 600), "resnet20": ("cifar10", 128, 30)}
MODES = ("eager", "channels_last", "compile")


def torch_rank(model, mode, rank, ranks, port, seconds):
    """One rank's median milliseconds of a step, printed."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    torch.manual_seed(0)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    net, shape = compare_torch.torch_net(model)
    batch = WORKLOADS[model][1] // ranks
    x, y = torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    if mode != "eager":
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
        net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, static_graph=True)
    forward = torch.compile(net) if mode == "compile" else net
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)

    def step():
        loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()  # as whoever trains looks at it, and as Freight does

    for _ in range(5):
        step()
    start = time.perf_counter()
    for _ in range(5):
        step()
    count = torch.tensor([max(5.0, seconds * 5 / (time.perf_counter() - start))])
    if ranks > 1:
        dist.broadcast(count, 0)
    times = []
    for _ in range(int(count.item())):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"ms": statistics.median(times) * 1e3}), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def time_torch(model, mode, ranks, seconds):
    """Milliseconds of a step, of the slowest rank; None where the mode does not run."""
    port = free_port()
    started = [subprocess.Popen([sys.executable, __file__, "--rank", model, mode, str(rank), str(ranks), str(port), "--seconds", str(seconds)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for rank in range(ranks)]
    said = [p.communicate()[0] for p in started]
    if any(p.returncode for p in started):
        return None
    return max(json.loads(s.strip().splitlines()[-1])["ms"] for s in said)


def time_freight(program, model, ranks):
    """Milliseconds of a step: the mean over a run's steps but the first, without waiting for data."""
    data, batch, steps = WORKLOADS[model]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "train", data, "--model", model, "-b", str(batch), "--max-steps", str(steps), "--epochs", "0", "--json",
                   "-o", folder + "/run", "--devices", str(ranks), "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])["measured_step_seconds"] * 1e3


def one_round(model, a):
    row = {}
    for ranks in (1, a.ranks):
        row[f"freight {ranks}"] = time_freight(a.freight, model, ranks)
        for mode in MODES:
            row[f"torch {mode} {ranks}"] = time_torch(model, mode, ranks, a.seconds)
    return row


def best_torch(row, ranks):
    return min((row[f"torch {m} {ranks}"], m) for m in MODES if row[f"torch {m} {ranks}"])


def compare(model, a):
    rounds = [one_round(model, a) for _ in range(a.rounds)]
    result = {"rounds": rounds}
    for ranks in (1, a.ranks):
        ratios = [best_torch(row, ranks)[0] / row[f"freight {ranks}"] for row in rounds]
        freight = statistics.median(row[f"freight {ranks}"] for row in rounds)
        theirs, mode = statistics.median_low([best_torch(row, ranks) for row in rounds])
        result[str(ranks)] = {"freight_ms": freight, "torch_ms": theirs, "mode": mode, "ratio": statistics.median(ratios), "ratios": ratios}
        print(f"{model:9s} {ranks} process{'es' if ranks > 1 else '  '}  freight {freight:8.3f} ms   best torch {theirs:8.3f} ms ({mode})"
              f"   ratio {statistics.median(ratios):.2f}  [{', '.join(f'{r:.2f}' for r in ratios)}]", flush=True)
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("workloads", nargs="*")
    p.add_argument("--freight", default="build/bin/freight")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--out")
    p.add_argument("--rank", nargs=5, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.rank:
        model, mode, *numbers = a.rank
        return torch_rank(model, mode, *map(int, numbers), a.seconds)
    if unknown := set(a.workloads) - set(WORKLOADS):
        p.error(f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    if a.ranks < 2:
        p.error("--ranks: need 2 or more")
    result = {"date": datetime.date.today().isoformat(), "machine": compare_torch.machine(), "command": " ".join(sys.argv), "ranks": a.ranks,
              "workloads": {model: compare(model, a) for model in a.workloads or WORKLOADS}}
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
