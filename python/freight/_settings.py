"""Settings of the process."""
from . import _core


def set_threads(count):
    """The number of threads that this thread's work is spread over from now on; OMP_NUM_THREADS sets it for all."""
    _core.set_threads(count)


def show_config():
    """Prints the version, the number of threads, the LAPACK that is used and the cache of prepared calls; returns the same
    as a dict."""
    config = _core.config()
    for name, value in config.items():
        print(f"{name}: {value}")
    return config
