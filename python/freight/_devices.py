"""fit(devices=): ranks on the CPU of this host. The program is rank 0; the others are forked from it, with its model and data."""
import contextlib
import os
import re
import secrets
import signal
import sys
import threading
import time
import warnings

from . import _core, distributed

_MOST, _GRACE = 64, 10  # processes; seconds that the others have to end behind rank 0


def count_of(devices, device, model):
    """The number of ranks that devices= asks for; 0 where this process trains alone."""
    if devices is None:
        return 0
    text = ",".join(devices) if isinstance(devices, (list, tuple)) else str(devices)
    parts = [re.fullmatch(r"cpu(?:\*([1-9]\d*))?", part.strip()) for part in text.split(",")]
    if re.fullmatch(r"[1-9]\d*", text):
        count, on_cpu = int(text), device == "cpu" or (device == "auto" and _core.config()[3] == "cpu")
    else:
        count, on_cpu = sum(int(p[1] or 1) if p else 0 for p in parts), all(parts) and device in ("auto", "cpu")
    if not on_cpu or any(p.device != "cpu" for p in model.parameters()):
        raise ValueError(f"fit: devices: expected devices of the CPU (2, \"cpu*2\"), got {devices!r}, device {device!r}: for others "
                         "start the program as ranks (freight launch -n 2 script.py, torchrun), or use freight.train(devices=)")
    if count > _MOST:
        raise ValueError(f"fit: devices: expected at most {_MOST}, got {count}")
    world = distributed.get_world_size()
    if world > 1:
        raise ValueError(f"fit: devices: this process is rank {distributed.get_rank()} of {world}, which a launcher started: leave "
                         "devices out")
    return count if count > 1 else 0


def run(count, output_dir, train):
    """train(True) in this process and train(False) in count - 1 forked ones, as ranks of one job; the result of the first."""
    name, threads = f"fit-{os.getpid()}-{secrets.token_hex(4)}", _core.config()[1]
    share = max(1, threads // count)
    others = [_forked(rank, count, name, share, output_dir, train) for rank in range(1, count)]
    with contextlib.ExitStack() as ends:  # each runs, also when a second Ctrl-C breaks another off
        ends.callback(_end, others)
        ends.callback(_core.set_threads, threads)
        ends.callback(distributed._leave)
        distributed._join(name, 0, count)
        _core.set_threads(share)
        return train(True)


def _forked(rank, count, name, share, output_dir, train):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: those of the pool are not used in the child
        process = os.fork()
    if process:
        return process
    done = []

    def work():
        _core.set_threads(share)
        distributed._join(name, rank, count)
        train(False)
        done.append(True)

    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 gets it, too, and all stop together
        _redirect(os.path.join(output_dir, "ranks", f"rank-{rank}.log") if output_dir else os.devnull)
        # The pool of OpenMP belongs to the thread that forked, and has no threads here; a new thread gets a pool of its own.
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if done else 1)


def _redirect(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _end(processes):
    until = time.monotonic() + _GRACE
    for process in processes:
        try:
            while os.waitpid(process, os.WNOHANG) == (0, 0):
                if time.monotonic() > until:
                    os.kill(process, signal.SIGKILL)
                time.sleep(0.005)
        except ChildProcessError:  # SIGCHLD is ignored: the system has taken it
            pass
