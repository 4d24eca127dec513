"""Settings of the process."""
import atexit
import functools
import os

from . import _core

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_core.before_fork, after_in_parent=functools.partial(_core.after_fork, False),
                        after_in_child=functools.partial(_core.after_fork, True))
atexit.register(_core.before_fork)  # threads that are left must compute nothing while the process ends


def set_threads(count):
    """The number of threads that this thread's work is spread over from now on; OMP_NUM_THREADS sets it for all."""
    _core.set_threads(count)


def show_config():
    """Prints the version, the number of threads, the LAPACK that is used and the cache of prepared calls; returns the same
    as a dict."""
    version, threads, lapack, device, *calls = _core.config()
    config = {"version": version, "threads": threads, "lapack": lapack, "device": device,
              "prepared_calls": dict(zip(("hits", "misses", "evictions", "size", "held_bytes"), calls))}
    for name, value in config.items():
        print(f"{name}: {value}")
    return config
