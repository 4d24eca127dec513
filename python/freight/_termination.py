"""SIGTERM while fit runs, as Slurm, Kubernetes and `timeout` send it: the run saves its state first."""
import contextlib
import signal
import sys
import threading

from . import _core


@contextlib.contextmanager
def saved_first(wanted, message):
    """While it lasts, SIGTERM asks the trainer to save and stop after its step. Behind it the handler from before is back and gets
    the signal, after `message()` is written; one that returns lets the program go on. Other threads than the main one, and programs
    that ignore SIGTERM, leave it as it is."""
    in_main = threading.current_thread() is threading.main_thread()
    held = wanted and in_main and signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
    if held:
        _core.hold_termination()
    try:
        yield
    finally:
        if held and (number := _core.release_termination()):
            print(message(), end="", file=sys.stderr, flush=True)
            signal.raise_signal(number)
