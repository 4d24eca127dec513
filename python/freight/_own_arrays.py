"""Arrays of the host that a function has made which is traced or differentiated: it may write traced values to them, by which they
become traced ones. Others are of the program, where such a write would have no effect."""
import contextlib
import threading

from . import _core


class _Functions(threading.local):
    def __init__(self):
        self.began = []  # for each function in progress, the outermost first, the number of an array that was made before it


_functions = _Functions()


@contextlib.contextmanager
def function():
    """A function that is traced or differentiated is called within this: it may write traced values to the arrays that it makes."""
    _functions.began.append(_core.empty((0,), _core.float32)._number)
    try:
        yield
    finally:
        _functions.began.pop()


def need_own(x):
    """Refuses to write a traced value to an array of the host, unless its memory is new since the function began that is traced, and has
    no other view that would not see the write."""
    number = x._number  # 0 where the memory is another library's, and below where views share it
    if not _functions.began or abs(number) < _functions.began[-1]:
        raise TypeError("a host array cannot take a traced value, unless the function has made it: return the value instead")
    if number < 0:
        raise TypeError("a host array cannot take a traced value while there are views of it: expected them to be made after the write; instead of "
                        "a view write to the array itself, x[1:] = x[1:] * y")
