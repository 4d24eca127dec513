"""Lists of numbers: nested ones as a flat list, and words among them as numbers."""
from itertools import chain


def flattened(obj):
    """The numbers in order, and the shape; ValueError where rows differ in length or depth."""
    level, shape = [obj], []
    while level and isinstance(level[0], (list, tuple)):
        n = len(level[0])
        if not all(isinstance(o, (list, tuple)) and len(o) == n for o in level):
            raise ValueError("setting an array element with a sequence: the nested lists have an inhomogeneous shape after "
                             f"{len(shape)} dimensions")
        shape.append(n)
        if len(shape) > 64:
            raise ValueError("an array has at most 64 axes")
        level = list(chain.from_iterable(level))
    return level, shape


def replaced(value, numbers, what):
    """A number, or several, in which those words stand for numbers; ValueError at another word."""
    if isinstance(value, (tuple, list)):
        return tuple(replaced(v, numbers, what) for v in value)
    if isinstance(value, str) and value not in numbers:
        raise ValueError(f"{what}: expected numbers or one of {', '.join(map(str, numbers))}, got {value}")
    return numbers.get(value) if value is None or isinstance(value, str) else value
