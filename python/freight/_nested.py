"""Nested lists of numbers as a flat list."""
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
