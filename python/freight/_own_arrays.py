"""Arrays of the host that a function has made which is traced or differentiated: it may write traced values to them, by which they
become traced ones. Others are of the program, where such a write would have no effect."""
import contextlib
import itertools
import threading
import weakref


class _Functions(threading.local):
    def __init__(self):
        self.began = []  # numbers of the functions that are being traced or differentiated, the outermost first


_functions = _Functions()
_numbers = itertools.count(1)
_made: dict = {}  # by the id of an array of the host that such a function has made: a reference to it, and a number that is larger


@contextlib.contextmanager
def function():
    """A function that is traced or differentiated is called within this: it may write traced values to the arrays that it makes."""
    _functions.began.append(next(_numbers))
    try:
        yield
    finally:
        _functions.began.pop()


def made(x):
    """x, a new array of its own memory."""
    if _functions.began and x._on_host:
        key = id(x)
        _made[key] = weakref.ref(x, lambda _: _made.pop(key, None)), next(_numbers)
    return x


def need_own(x):
    """Refuses to write a traced value to an array of the host, unless the function that is traced has made it, and has no view of it
    that would not see the write."""
    _, number = _made.get(id(x), (None, 0))
    if not _functions.began or number < _functions.began[-1]:
        raise TypeError("a host array cannot take a traced value, unless the function has made it: return the value instead, or for a view write "
                        "to the array itself, x[1:] = x[1:] * y")
    if x._is_shared:
        raise TypeError("a host array cannot take a traced value while there are views of it: expected them to be made after the write")
