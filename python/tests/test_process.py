"""The package in a process: threads, forks, memory, import. FREIGHT_LONG=1 counts further."""
import os
import subprocess
import sys
import threading

import pytest

import freight as f

LONG = os.environ.get("FREIGHT_LONG") == "1"


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
        for _ in range(5000 if LONG else 20):
            if step(x, x).item() != 32**3 * k * k or (x + x).sum().item() != 2048 * k:
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


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


def resident():
    """Bytes of this process that are in memory now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_long_loop_keeps_its_memory():
    total, loss, count = f.zeros(()), f.ones(()), 1_000_000 if LONG else 100_000

    def round(count):
        nonlocal total
        for _ in range(count):
            total = total + loss
            total += loss

    round(1000)
    before = resident()
    round(count)
    assert total.item() == 2 * count + 2000
    assert resident() - before < 1 << 20


def test_functions_that_are_traced_and_dropped_keep_the_memory():
    x = f.ones((16, 16))

    def round(count):
        for k in range(count):
            step = f.jit(lambda x: f.sum(f.exp(x) @ x * k))
            step(x), f.jit(f.grad(lambda x: f.sum((x @ x) ** 2)))(x)

    round(100)
    before = resident()
    round(5000 if LONG else 200)
    assert resident() - before < 8 << 20


def test_gradients_outside_of_jit_keep_the_memory():
    relu = f.custom_gradient(lambda x: (f.maximum(x, 0.0), lambda dy: f.where(x > 0, dy, 0.0)))
    x = f.ones((64, 64))

    def round(count):
        for _ in range(count):
            f.grad(lambda x: f.sum(relu(x @ x)))(x)

    round(200)
    before = resident()
    round(1000)
    assert resident() - before < 8 << 20


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_a_program_ends_while_its_threads_compute():
    program = """
import threading, time
import freight as f

def work(step, x):
    while True:
        step(x), (x + x).sum().item(), f.fft.fft(x), f.grad(lambda x: f.sum(x * x))(x)

for _ in range(3):
    threading.Thread(target=work, args=(f.jit(lambda x: f.exp(x @ x)), f.ones((64, 64))), daemon=True).start()
time.sleep(0.5)
"""
    for _ in range(20 if LONG else 3):
        ended = run(program)
        assert ended.returncode == 0 and not ended.stderr, ended.stderr


def test_children_of_a_program_whose_threads_compute_do_not_hang():
    program = """
import os, signal, threading, time
import freight as f

x, step = f.ones((64, 64)), f.jit(lambda x: f.exp(x @ x / 64))
step(x)

def work():
    own = f.jit(lambda x: f.sum(x @ x))
    while True:
        step(x), own(x), (x @ x).sum().item(), f.softmax(x), f.grad(lambda x: f.sum(x * x))(x)

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(CHILDREN):
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        good = (x + x).sum().item() == 2 * 64 * 64 and f.softmax(x).sum().item() > 63
        good = good and f.jit(lambda x: f.sum(x @ x))(x).item() == 64**3 and f.grad(lambda x: f.sum(x * x))(x)[0, 0].item() == 2
        os._exit(0 if good else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status
print("done")
"""
    ended = run(program.replace("CHILDREN", "300" if LONG else "30"))
    assert ended.stdout == "done\n", ended.stderr


def test_an_interrupt_ends_a_loop_of_compiled_calls():
    program = """
import os, signal, threading
import freight as f

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
step, x = f.jit(lambda x: f.tanh(x @ x)), f.ones((256, 256))
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        x = step(x)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program).stdout == "interrupted\n"
