"""SIGTERM while fit runs: what is saved, who gets the signal, and the run afterwards."""
import json
import pathlib
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, os, signal, sys
sys.path.insert(0, {tests!r})
import test_fit as t
from freight import callbacks


class Terminates(callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        if logs["total_step"] == 40:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` does: to the process, then to its group


class Ended(callbacks.Callback):
    def on_train_end(self, history):
        print("end", history.ended, flush=True)


if "handler" in sys.argv:
    signal.signal(signal.SIGTERM, lambda number, frame: print("handled", flush=True))
if "exits" in sys.argv:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(9))
if "ignored" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
before = signal.getsignal(signal.SIGTERM)
net = t.made(seed=int(sys.argv[1]))
heard = [Ended()] + [Terminates()] * ("terminated" in sys.argv)
settings = {{"devices": 2, "shards": 4}} if "devices" in sys.argv else {{"shards": 4}} if "shards" in sys.argv else {{}}
if "nowhere" not in sys.argv:
    settings |= {{"output_dir": {run!r}, "resume": True}}
t.fit(net, epochs=10, lr_scheduler="cosine", callbacks=heard, verbose=2, **settings)
assert signal.getsignal(signal.SIGTERM) is before
print(hashlib.sha256(t.weights(net)).hexdigest())
"""


def started(folder, *arguments, seed=1):
    script = PROGRAM.format(tests=str(pathlib.Path(__file__).parent), run=str(folder / "run"))
    done = subprocess.run([sys.executable, "-c", script, str(seed), *arguments], text=True, capture_output=True, timeout=120)
    done.stdout = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("epoch "))
    return done


@pytest.mark.parametrize("kind", ["alone", "shards", "devices"])
def test_the_state_is_saved_and_the_process_ends_by_the_signal(tmp_path, kind):
    whole = started(tmp_path / "whole", kind)
    assert whole.returncode == 0, whole.stderr
    part = started(tmp_path, kind, "terminated")
    assert part.returncode == -signal.SIGTERM and part.stdout == "end stopped\n", part.stderr
    assert f"fit: stopped by SIGTERM, saved in {tmp_path}/run: fit(..., resume=True) continues" in part.stderr
    about = json.loads((tmp_path / "run/run.json").read_text())
    assert about["status"] == "interrupted" and (tmp_path / "run/last").exists()
    rest = started(tmp_path, kind, seed=5)  # a resumed run takes its weights from the checkpoint
    assert rest.stdout == whole.stdout != "", rest.stderr


def test_a_handler_of_the_program_gets_the_signal_behind_the_run(tmp_path):
    done = started(tmp_path, "terminated", "handler")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[:2] == ["end stopped", "handled"] and len(lines) == 3, done.stderr
    assert started(tmp_path, seed=5).stdout.startswith("end complete\n")
    done = started(tmp_path / "exits", "terminated", "exits")
    assert done.returncode == 9 and done.stdout == "end stopped\n" and (tmp_path / "exits/run/last").exists()


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    done = started(tmp_path, "terminated", "ignored")
    assert done.returncode == 0 and done.stdout.startswith("end complete\n"), done.stderr


def test_without_a_directory_there_is_nothing_to_save(tmp_path):
    done = started(tmp_path, "terminated", "nowhere")
    assert done.returncode == -signal.SIGTERM and done.stdout == "", done.stderr
