#!/usr/bin/env python3
"""Training from Python beside the command's, in alternation: steps of networks, and MNIST from the start of the process to its end.

usage: bench/compare_python.py [--rounds 5] [--seconds 2] [--mnist DIRECTORY] [--out FILE.json] [WORKLOAD ...]

A step is that of compare_torch.py: the same network, converted by `from_torch`, whose compiled step makes forward, loss, backward and
update on a resident batch; beside it `freight bench step`. MNIST is trained for four epochs by examples/python/mnist_fit.py, by
mnist_loop.py, and twice by `freight train`, whose two times show how far equal programs are apart. Needs torch, torchvision, the
package on PYTHONPATH and a quiet machine.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compare_torch import WORKLOADS, child, machine, name_of, torch_net, write

SPEED = ("mlp_b64", "mlp_wide_b256", "lenet_b64", "resnet20_b128", "alexnet_b32", "googlenet_b16", "resnet50_b16", "vgg16_b8",
         "lstm_b64_T200", "gpt_char_b16_T256")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "python")


def run_step(workload, seconds):
    import numpy as np

    import freight as fr
    from freight import optim

    model, batch, optimizer = WORKLOADS[workload]
    net, shape = torch_net(name_of(model))
    net = fr.from_torch(net.train()).train()
    random = np.random.default_rng(0)
    if model in ("lstm_text", "gpt_char"):
        tokens = 20000 if model == "lstm_text" else 65
        x = random.integers(1, tokens, (batch, *shape))
        y = random.integers(0, 4, batch) if model == "lstm_text" else x
    else:
        x, y = random.standard_normal((batch, *shape), "f4"), random.integers(0, 1000 if shape[-1] == 224 else 10, batch)
    x, y = fr.asarray(x), fr.asarray(y)
    update = optim.SGD(net, lr=0.01, momentum=0.9) if optimizer == "sgd" else optim.Adam(net, lr=1e-3)

    def loss_of(net, x, y):
        z = net(x)
        heads = z if isinstance(z, tuple) else (z,)  # googlenet: main, auxiliary 2, auxiliary 1
        return sum(w * fr.cross_entropy(fr.reshape(h, (-1, h.shape[-1])), fr.reshape(y, (-1,)))
                   for w, h in zip((1, 0.3, 0.3), heads))

    @fr.jit
    def step(x, y):
        loss, gradients = fr.value_and_grad(loss_of)(net, x, y)
        update.update(gradients)
        return loss

    for _ in range(5):
        step(x, y)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step(x, y)
        times.append(time.perf_counter() - start)
    print(json.dumps({"ms_median": statistics.median(times) * 1e3, "ms_min": min(times) * 1e3}))


def compare_steps(workload, a):
    model, batch, optimizer = WORKLOADS[workload]
    command = [a.freight, "bench", "step", "--model", model, "--batch-size", str(batch), "--optimizer", optimizer,
               "--seconds", str(a.seconds), "--json"]
    python = [sys.executable, __file__, "--child", workload, "--seconds", str(a.seconds)]
    rounds = []
    for _ in range(a.rounds):
        row = {"command": child(command), "python": child(python)}
        for side, got in row.items():
            if "error" in got:
                sys.exit(f"{workload}, {side}: {got['error']}")
        rounds.append({side: got["ms_median"] for side, got in row.items()})
    middle = {side: statistics.median(r[side] for r in rounds) for side in ("command", "python")}
    ratio = statistics.median(r["command"] / r["python"] for r in rounds)
    print(f"{workload:18s} command {middle['command']:9.3f} ms   python {middle['python']:9.3f} ms   python's speed {ratio:.2f} of the"
          " command's", flush=True)
    return {**middle, "ratio": ratio, "rounds": rounds}


def compare_mnist(a):
    data = os.path.abspath(a.mnist)
    train = [os.path.abspath(a.freight), "train", data, "--epochs", "4"]
    sides = {"command": train, "command again": train,
             "fit": [sys.executable, os.path.abspath(f"{EXAMPLES}/mnist_fit.py"), data],
             "loop": [sys.executable, os.path.abspath(f"{EXAMPLES}/mnist_loop.py"), data]}
    rounds = []
    for _ in range(a.rounds):
        row = {}
        for side, command in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                row[side] = time.perf_counter() - began
            if done.returncode:
                sys.exit(f"MNIST, {side}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        rounds.append(row)
    middle = {side: statistics.median(r[side] for r in rounds) for side in sides}
    ratios = {side: statistics.median(r[side] / r["command"] for r in rounds) for side in sides if side != "command"}
    print("MNIST, 4 epochs:", "   ".join(f"{side} {seconds:.2f} s" for side, seconds in middle.items()), "  of the command's time:",
          "   ".join(f"{side} {ratio:.2f}" for side, ratio in ratios.items()))
    return {**middle, "ratios": ratios, "rounds": rounds}


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(SPEED))
    a.add_argument("--freight", default="build/bin/freight")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=2)
    a.add_argument("--mnist", metavar="DIRECTORY", help="the folder of `freight data get mnist`: train on it too")
    a.add_argument("--out")
    a.add_argument("--child", help=argparse.SUPPRESS)
    parser, a = a, a.parse_args()
    if a.child:
        return run_step(a.child, a.seconds)
    unknown = set(a.workloads) - set(SPEED)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(SPEED)}")
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv), "steps": {}}
    if a.mnist:
        result["mnist"] = compare_mnist(a)
    for workload in a.workloads or SPEED:
        result["steps"][workload] = compare_steps(workload, a)
        write(result, a.out)
    return None


if __name__ == "__main__":
    main()
