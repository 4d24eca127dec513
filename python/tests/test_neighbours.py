"""PyTorch, XGBoost and Freight in turn in one process: right results, and no library slows another down.

For the times each library also works alone in a process of its own; all processes take turns, so that what else the machine does
meets all of them, and the shortest times are compared.
"""
import json
import os
import subprocess
import sys

import pytest

LIBRARIES = ("torch", "xgboost", "freight")

WORKER = """
import json, sys, time

def torch():
    import torch
    x, w = torch.rand(256, 512), torch.rand(512, 512, requires_grad=True)
    def work():
        w.grad = None
        torch.relu(x @ w).sum().backward()
        return w.grad.sum().item() / (512 * x.double().sum().item())
    return work

def xgboost():
    import numpy, xgboost
    x = numpy.random.default_rng(0).random((20_000, 10), dtype="float32")
    table = xgboost.DMatrix(x, x[:, 0] > 0.5)
    def work():
        trees = xgboost.train({"objective": "binary:logistic", "max_depth": 4}, table, 3)
        return float(((trees.predict(table) > 0.5) == (x[:, 0] > 0.5)).mean())
    return work

def freight():
    import freight as f
    x, w = f.random.uniform((256, 512)), f.random.uniform((512, 512))
    step, total = f.jit(f.grad(lambda w: f.sum(f.relu(x @ w)))), 512 * x.sum().item()
    def work():
        return step(w).sum().item() / total
    return work

works = {name: globals()[name]() for name in sys.argv[1:]}
for line in sys.stdin:
    answer = {}
    for name, work in works.items():
        work()
        begin = time.perf_counter()
        results = [work() for _ in range(int(line))]
        answer[name] = [time.perf_counter() - begin, results]
    print(json.dumps(answer), flush=True)
"""


class Worker:
    def __init__(self, *libraries):
        # The same path of packages, to which a test's run may have added folders.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, *libraries], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def round(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def test_torch_xgboost_and_freight_take_turns_in_one_process():
    for name in ("torch", "xgboost"):
        pytest.importorskip(name)
    together = Worker(*LIBRARIES)
    for _ in range(3):
        for name, (_, results) in together.round(2).items():
            assert results == pytest.approx([1.0, 1.0], abs=1e-3), name
    together.end()


@pytest.mark.skipif(os.environ.get("FREIGHT_LONG") != "1", reason="needs FREIGHT_LONG=1 and a machine that does nothing else")
def test_none_slows_another_down():
    for name in ("torch", "xgboost"):
        pytest.importorskip(name)
    # On some processors a process keeps the speed at which it began, up to 25 % apart: hence several of each.
    seconds = {name: ([], []) for name in LIBRARIES}
    for _ in range(6):
        together, alone = Worker(*LIBRARIES), {name: Worker(name) for name in LIBRARIES}
        for _ in range(5):
            beside = together.round(40)
            for name in LIBRARIES:
                seconds[name][0].append(alone[name].round(40)[name][0])
                seconds[name][1].append(beside[name][0])
        for worker in (together, *alone.values()):
            worker.end()
    slower = {name: min(b) / min(a) for name, (a, b) in seconds.items()}
    print(*(f"{name}: {100 * (factor - 1):+.1f} %" for name, factor in slower.items()))
    assert max(slower.values()) < 1.1, slower
