"""Programs as ranks: loops over a jitted step and fit, under `freight launch` and torchrun; fit(devices=)."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import freight as fr

COMMAND = str(pathlib.Path(fr.__file__).parent / "bin" / "freight")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]

# All programs: data, a network, and a file per rank with its weights, buffers and what the program has found.
HEAD = """
import os, signal, sys
import numpy as np
import freight as fr
from freight import callbacks, distributed, nn, optim

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 10)).astype("f4")
Y = (X @ rng.normal(size=(10, 3))).argmax(1)
rank, world = distributed.get_rank(), distributed.get_world_size()
assert not distributed.is_initialized()


def network(*layers):
    return nn.Sequential(nn.Linear(10, 600), *layers, nn.ReLU(), nn.Linear(600, 500), nn.Tanh(), nn.Linear(500, 3))


def keep(net, **found):
    values = {"weights." + k: v.numpy() for k, v in net.state_dict().items()}
    np.savez(f"{sys.argv[1]}/{world}-{rank}.npz", **values, **found)


def loss_of(net, x, y):
    return fr.cross_entropy(net(x), y)

"""

LOOP = HEAD + """
fr.random.seed(1 + 10 * rank)  # rank 0's weights are those of all
net = network(*eval(sys.argv[2]))
optimizer = optim.SGD(eval(sys.argv[4]), lr=0.1, momentum=0.9)


def step(x, y):
    loss, grads = fr.value_and_grad(loss_of)(net, x, y)
    optimizer.update(grads)
    return distributed.all_reduce(loss, "avg")


step = fr.jit(step) if sys.argv[3] == "jit" else step
losses = [step(fr.asarray(X[rank::world]), fr.asarray(Y[rank::world])).item() for _ in range(10)]
keep(net, losses=losses)
"""


UNUSED = HEAD + """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 3), nn.Linear(10, 3)

    def forward(self, x, both):
        return self.a(x) + self.b(x) if both else self.a(x)


fr.random.seed(1)
net = Heads()
before = net.b.weight.numpy()
optimizer = optim.SGD(net, lr=0.1)


def step(x, y, both):
    loss, grads = fr.value_and_grad(lambda net: fr.cross_entropy(net(x, both), y))(net)
    assert (grads["b.weight"] is None) is not both
    optimizer.update(grads)


step = fr.jit(step) if sys.argv[2] == "jit" else step
x, y = fr.asarray(X[rank::world]), fr.asarray(Y[rank::world])
for _ in range(3):
    step(x, y, False)
assert np.array_equal(net.b.weight, before)
step(x, y, rank == 0)  # the other rank has no gradient
assert not np.array_equal(net.b.weight, before)
keep(net)
"""


def launched(program, folder, *arguments, starter="launch", processes=2):
    """Runs a program as ranks, or alone; what each rank has kept."""
    path = folder / "program.py"
    path.write_text(program)
    command = [str(path), str(folder), *arguments]
    head = {"launch": [COMMAND, "launch", "-n", "2", "--log-dir", str(folder / "logs")], "torchrun": TORCHRUN}[starter]
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(head + command if processes > 1 else [sys.executable, *command], env=environment, capture_output=True,
                          text=True, timeout=120, start_new_session=True)
    found = [np.load(folder / f"{processes}-{rank}.npz") for rank in range(processes)
             if (folder / f"{processes}-{rank}.npz").exists()]
    return done, found


def weights(found):
    return {k: found[k] for k in found.files if k.startswith("weights.")}


def assert_equal_bits(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name


def assert_like(first, second):
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("starter", ["launch", "torchrun"])
@pytest.mark.parametrize("compiled", ["jit", "eager"])
def test_a_loop_on_two_ranks_equals_one_process_with_the_whole_batch(tmp_path, starter, compiled):
    if starter == "torchrun" and (compiled == "eager" or not importlib.util.find_spec("torch")):
        pytest.skip("no torch, or the same as under launch")
    done, (one,) = launched(LOOP, tmp_path, "()", compiled, "net", processes=1)
    done, (first, second) = launched(LOOP, tmp_path, "()", compiled, "net", starter=starter)
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
    assert_like(weights(first), weights(one))
    assert first["losses"].tobytes() == second["losses"].tobytes()
    np.testing.assert_allclose(first["losses"], one["losses"], rtol=1e-4)


@pytest.mark.parametrize("compiled", ["jit", "eager"])
def test_a_loop_on_other_devices_sums_in_host_memory(tmp_path, compiled):
    if not subprocess.run([COMMAND, "devices"], capture_output=True, text=True).stdout.count("opencl:0"):
        pytest.skip("no OpenCL device")
    done, (one,) = launched(LOOP, tmp_path, "()", compiled, "net", processes=1)
    done, (first, second) = launched(LOOP.replace("[rank::world])", "[rank::world]).to('opencl:0')"), tmp_path, "()", compiled,
                                     "net.to('opencl:0')")
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
    assert_like(weights(first), weights(one))


@pytest.mark.parametrize("compiled, given", [("jit", "net"), ("eager", "net"), ("jit", "net.parameters()")])
def test_running_statistics_are_the_means_over_the_ranks(tmp_path, compiled, given):
    done, (first, second) = launched(LOOP, tmp_path, "(nn.BatchNorm1d(600),)", compiled, given)
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
    assert first["weights.1.running_mean"].any()


FIT = HEAD + """
fr.random.seed(1 + 10 * rank)
net = network()
heard = []


class Heard(callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        heard.append(epoch)


settings = eval(sys.argv[2])
history = net.fit(X, Y, validation_data=(X[:30], Y[:30]), batch_size=32, epochs=3, lr=0.1, callbacks=Heard(), **settings)
keep(net, losses=history.history["loss"], tests=history.history["val_loss"], heard=heard, path=history.model_path)
"""


@pytest.mark.parametrize("settings", ["{}", "{'shards': 4}", "{'sample_weight': np.linspace(0.5, 1.5, 64)}", "{'early_stop': 2}",
                                      "{'grad_accum': 2, 'momentum': 0.9}"])
def test_fit_on_two_ranks_equals_one_process(tmp_path, settings):
    done, (one,) = launched(FIT, tmp_path, settings, processes=1)
    done, (first, second) = launched(FIT, tmp_path, settings)
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
    (assert_equal_bits if "shards" in settings else assert_like)(weights(first), weights(one))
    for name in ("losses", "tests"):
        assert first[name].tobytes() == second[name].tobytes()
        np.testing.assert_allclose(first[name], one[name], rtol=1e-4)


def test_rank_0_alone_prints_writes_and_calls_callbacks(tmp_path):
    out = tmp_path / "run"
    done, (first, second) = launched(FIT, tmp_path, repr({"output_dir": str(out)}), starter="launch")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 3/3") + done.stdout.count("epoch 3/3") == 1
    assert (tmp_path / "logs" / "rank-1.log").read_text() == ""
    assert list(first["heard"]) == [1, 2, 3] and list(second["heard"]) == []
    assert str(first["path"]) == str(out / "model.safetensors") and not str(second["path"])


def test_a_run_of_two_ranks_resumes_bitwise(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done, (one, _) = launched(FIT, tmp_path, repr({"output_dir": str(whole)}))
    launched(FIT, tmp_path, repr({"output_dir": str(parts), "max_steps": 3}))
    done, (first, second) = launched(FIT, tmp_path, repr({"output_dir": str(parts), "resume": True}))
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
    assert_equal_bits(weights(first), weights(one))


RESTARTS = HEAD + """
import threading, time
out, first = sys.argv[1] + "/run", os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"


def kill():
    while not os.path.exists(out + "/last"):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


if first and rank == 1:
    threading.Thread(target=kill, daemon=True).start()
fr.random.seed(1)
net = network()
recorded = {"output_dir": out, "resume": True} if world == 2 else {}
history = net.fit(X, Y, batch_size=32, epochs=100, lr=0.01, shards=4, verbose=0, **recorded)
keep(net, undisturbed=first)
"""


def test_a_job_that_torchrun_restarts_equals_an_undisturbed_run(tmp_path):
    pytest.importorskip("torch")
    done, (one,) = launched(RESTARTS, tmp_path, processes=1)
    done, (first, second) = launched(RESTARTS, tmp_path, starter="torchrun")
    assert done.returncode == 0 and not first["undisturbed"], done.stderr
    assert_equal_bits(weights(first), weights(second))
    assert_equal_bits(weights(first), weights(one))


DIES = HEAD + """
net = network()
optimizer = optim.SGD(net, lr=0.1)


@fr.jit
def step(x, y):
    loss, grads = fr.value_and_grad(loss_of)(net, x, y)
    optimizer.update(grads)
    return loss


for i in range(6):
    if i == 3 and rank == 1:
        exec(sys.argv[2])
    step(X, Y)
"""


@pytest.mark.parametrize("how, code, text", [
    ("os.kill(os.getpid(), signal.SIGKILL)", 7, "rank 1 was killed by signal 9"),
    ("raise KeyError('a reason')", 1, "rank 1 ended with exit code 1"),
    ("sys.exit(5)", 5, "rank 1 ended with exit code 5"),
])
def test_a_rank_that_dies_ends_the_job_and_is_named(tmp_path, how, code, text):
    done, _ = launched(DIES, tmp_path, how)
    assert done.returncode == code and text in done.stderr, done.stderr
    assert "ConnectionError" in done.stderr and "rank 1" in done.stderr
    if "reason" in how:
        assert "a reason" in done.stderr.split("freight: error:")[0]


MOVES = HEAD + """
import subprocess
ours = fr.asarray([1.0, 2.0]) * (rank + 1)
assert distributed.all_reduce(ours).tolist() == [3.0, 6.0] and ours.tolist() == [rank + 1.0, 2.0 * (rank + 1)]
assert distributed.is_initialized()
assert distributed.all_reduce(ours, "avg").tolist() == [1.5, 3.0]
total = distributed.all_reduce(fr.asarray([2, 3], dtype=fr.int32))
assert total.tolist() == [4, 6] and total.dtype == fr.int32
assert fr.jit(lambda x: distributed.all_reduce(x))(ours).tolist() == [3.0, 6.0]
assert distributed.all_reduce(fr.asarray([1.0], dtype=fr.float16)).dtype == fr.float16
assert distributed.broadcast(ours, src=1).tolist() == [2.0, 4.0]
assert distributed.broadcast(fr.asarray([rank == 1]), src=1).tolist() == [True]
for call, text in ((lambda: distributed.all_reduce(ours, "max"), "op"), (lambda: distributed.broadcast(ours, 2), "src"),
                   (lambda: distributed.all_reduce(fr.asarray([True])), "expected numbers"),
                   (lambda: distributed.init_process_group(), "already")):
    try:
        call()
        raise SystemExit("no error: " + text)
    except (ValueError, TypeError, RuntimeError) as error:
        assert text in str(error), error
distributed.barrier()

child = "import freight as fr; from freight import distributed as d, nn, optim; optim.SGD(nn.Linear(2, 1), lr=1.0); print(d.get_world_size())"
assert subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout == "1\\n"
run = fr.train("digits", model="mlp", max_steps=2, output_dir=f"{sys.argv[1]}/command-{rank}")  # each rank for itself
assert run["steps"] == 2 and fr.eval(run["model"])["top1"] > 0
pid = os.fork()
if pid == 0:
    os._exit(0 if distributed.get_world_size() == 1 and optim.SGD(nn.Linear(2, 1), lr=1.0) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

net = network()
with fr.autocast():
    optimizer = optim.SGD(net, lr=0.1)
    step = fr.jit(lambda x, y: optimizer.update(fr.value_and_grad(loss_of)(net, x, y)[1]))
    step(X[rank::2], Y[rank::2])
keep(net)
distributed.destroy_process_group()
assert distributed.get_world_size() == 1 and distributed.all_reduce(ours) is ours
"""


def test_sums_and_copies_over_ranks(tmp_path):
    done, (first, second) = launched(MOVES, tmp_path)
    assert done.returncode == 0, done.stderr + (tmp_path / "logs" / "rank-1.log").read_text()
    assert_equal_bits(weights(first), weights(second))


ALONE = HEAD + """
distributed.init_process_group(world_size=1)
assert distributed.get_world_size() == 1
net = network()
net.fit(X + rank, Y, epochs=1, verbose=0)
keep(net)
"""


def test_a_program_may_train_alone_under_a_launcher(tmp_path):
    done, found = launched(ALONE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(found) == 2 and found[0]["weights.0.weight"].tobytes() != found[1]["weights.0.weight"].tobytes()


DIFFER = HEAD + """
class Sampler:
    num_replicas = 2


class Shuffled:
    def __len__(self):
        return 1

    def __iter__(self):
        return iter([(X * (rank + 1), Y)])


class Divided(Shuffled):
    sampler = Sampler()


data = {"sampler": (Divided(),), "shuffled": (Shuffled(),), "arrays": (X + rank, Y), "settings": (X, Y)}[sys.argv[2]]
network().fit(*data, epochs=1 + (sys.argv[2] == "settings") * rank)
"""


@pytest.mark.parametrize("what, text", [("sampler", "its sampler divides the samples among 2 processes"),
                                        ("shuffled", "give it a generator with a seed"), ("arrays", "rank 1 has version and data"),
                                        ("settings", "rank 1 has the settings")])
def test_ranks_that_would_train_on_different_things_are_refused(tmp_path, what, text):
    done, _ = launched(DIFFER, tmp_path, what)
    assert done.returncode == 1 and text in done.stderr, done.stderr


DEVICES = HEAD + """
import time
fr.set_threads(4)  # two of each of two ranks


def fitted(plain=False, **settings):
    fr.random.seed(3)
    net = network() if plain else network(nn.BatchNorm1d(600), nn.Dropout(0.1))
    history = net.fit(X, Y, validation_data=(X[:30], Y[:30]), batch_size=32, epochs=3, lr=0.1, verbose=0, **settings)
    return {**{k: v.numpy().tobytes() for k, v in net.state_dict().items()}, "losses": history.history["loss"]}


class Raises(callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        raise KeyError("why")


class Interrupts(callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        os.kill(0, signal.SIGINT)  # as a terminal does: all processes of the group
        time.sleep(0.1)


def raised(**settings):
    try:
        return fitted(**settings)
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)


alone = fitted(shards=4)
for devices in (2, "cpu*3", ["cpu"] * 4):
    assert fitted(shards=4, devices=devices) == alone
two = fitted(devices=2, deterministic=True)
np.testing.assert_allclose(fitted(plain=True, devices=2)["losses"], fitted(plain=True)["losses"], rtol=1e-4)
out = sys.argv[1] + "/run"
assert fitted(devices=2, shards=4, output_dir=out) == alone and os.path.exists(out + "/ranks/rank-1.log")
assert fitted(shards=4, output_dir=out, max_steps=3, overwrite=True) != alone
assert {**fitted(shards=4, devices=3, output_dir=out, resume=True), "losses": 0} == {**alone, "losses": 0}
assert raised(devices=2, callbacks=Raises()) == "KeyError: 'why'"
assert raised(devices=2, callbacks=Interrupts()).startswith("KeyboardInterrupt")
assert "8 devices for 4 shards" in raised(devices=8, shards=4)

pids, fork = [], os.fork


def forked():
    pids.append(fork())
    return pids[-1]


class Kills(callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        os.kill(pids[-1], signal.SIGKILL)


os.fork = forked
assert raised(devices=2, callbacks=Kills()).startswith("ConnectionError") and "rank 1" in raised(devices=2, callbacks=Kills())
assert fitted(devices=2, deterministic=True) == two and fr.show_config()["threads"] == 4
try:
    os.waitpid(-1, os.WNOHANG)
    raise SystemExit("a process is left")
except ChildProcessError:
    pass
"""


def test_fit_on_devices_starts_ranks_and_ends_them(tmp_path):
    done, _ = launched(DEVICES, tmp_path, processes=1)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("settings, text", [
    ({"devices": "cuda:0,cuda:1"}, "expected devices of the CPU"), ({"devices": 0}, "expected devices of the CPU"),
    ({"devices": "cpu*x"}, "expected devices of the CPU"), ({"devices": 2, "device": "cuda"}, "expected devices of the CPU"),
    ({"devices": 65}, "at most 64"), ({"devices": 3, "batch_size": 2}, "3 devices"), ({"shards": 65}, "shards"),
])
def test_devices_that_cannot_work_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        fr.nn.Linear(10, 3).fit(np.zeros((64, 10), "f4"), np.zeros(64, "i8"), verbose=0, **settings)


def test_devices_are_refused_in_a_rank(tmp_path):
    done, _ = launched(FIT, tmp_path, "{'devices': 2}")
    assert done.returncode == 1 and "devices: this process is rank" in done.stderr


@pytest.mark.parametrize("way", ["jit", "eager"])
def test_a_parameter_without_gradient_counts_as_zeros_beside_other_ranks(tmp_path, way):
    done, (first, second) = launched(UNUSED, tmp_path, way)
    assert done.returncode == 0, done.stderr
    assert_equal_bits(weights(first), weights(second))
