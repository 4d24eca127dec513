"""The package in a process: threads, forks, memory, import."""
import os
import subprocess
import sys
import threading

import pytest

import freight as f


def test_importing_the_package_imports_no_numpy():
    code = "import sys, freight; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_child_computes():
    x = f.ones(1_000_000)
    f.jit(lambda x: f.exp(x).sum())(x), x + x
    child = os.fork()
    if child == 0:
        good = (x + x).sum().item() == 2e6 and abs(f.jit(lambda x: f.relu(x).sum())(x).item() - 1e6) < 1
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_threads_compute_at_once():
    step, failed = f.jit(lambda x, y: (x @ y).sum()), []

    def work(k):
        x = f.full((32, 32), float(k))
        for _ in range(20):
            if step(x, x).item() != 32**3 * k * k or (x + x).sum().item() != 2048 * k:
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_a_long_loop_keeps_its_memory():
    resource = pytest.importorskip("resource")
    total, loss = f.zeros(()), f.ones(())
    for _ in range(1000):
        total += loss
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200_000):
        total = total + loss
        total += loss
    assert total.item() == 401_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


def test_types_are_clean_for_mypy(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text("""
import freight as f
from freight import xp

x = f.asarray([[1.0, 2.0]])
y: f.Array = f.softmax(x + 1, axis=-1) @ x.T
u, s, vh = f.linalg.svd(x, full_matrices=False)


@f.jit
def step(w: f.Array) -> f.Array:
    return w * 2


print(step(x), f.topk(x, 1), f.random.normal((2,)), f.fft.fft(x), xp.sum(y), f.grad(lambda w: f.sum(w**2))(x), u, s, vh)
""")
    folder = os.path.dirname(os.path.dirname(f.__file__))
    os.environ["MYPYPATH"] = folder
    text, errors, status = mypy.run(["--strict", "--cache-dir", str(tmp_path), str(program)])
    assert status == 0, text + errors
