"""Views of arrays that are traced, or on other devices. The library's tensors share no elements, so that a write to an array is
repeated here in the array that it is a view of, and in the other views of that one; NumPy's rules say which functions give views."""
import weakref

from . import _array_api as xp
from . import _core, _parameter
from ._core import Array
from ._functions import _call


class _View:
    """What is known of a view: the array that it is taken from, which it keeps, and how."""

    __slots__ = ("base", "take", "key", "reference")

    def __init__(self, base, take, key, reference):
        self.base, self.take, self.key, self.reference = base, take, key, reference


_views: dict = {}  # by the id of an array: its _View
_taken: dict = {}  # by the id of an array: references to its views


def add(base, view, function, arguments):
    """Notes that a view is _core.FUNCTION(base, *arguments)."""
    take = getattr(_core, function)
    _note(base, view, lambda x: take(x, *arguments), None)


def add_part(base, view, key):
    """Notes that a view is base[key], whose key has no arrays."""
    _note(base, view, lambda x: x[key], key)


def _note(base, view, take, key):
    if not isinstance(base, Array) or base is view:  # of nn.Parameter, which gives an array of its own each time
        return
    number, base_number = id(view), id(base)

    def forget(reference):
        del _views[number]
        siblings = _taken[base_number]
        siblings.remove(reference)
        if not siblings:
            del _taken[base_number]

    reference = weakref.ref(view, forget)
    _views[number] = _View(base, take, key, reference)
    _taken.setdefault(base_number, []).append(reference)


def has_part(x, key, value):
    """Whether a value is x[key] itself, as behind x[key] += y, which has changed x already."""
    view = _views.get(id(value))
    return view is not None and view.base is x and (view.key is key or type(key) is slice and view.key == key)


def write(x, y):
    """Makes the elements of x those of y, which has its shape and type, and changes the arrays that share them, and the buffer or
    parameter of a module whose value they are."""
    if id(x) not in _views and id(x) not in _taken:
        x._take(y)
        _parameter.assigned(x)
        return
    root, places = _source(x)
    if root is not x and places.size != 0 and 0 in places.strides:
        raise ValueError("output array is read-only: a view that broadcast_to has made")
    x._take(y)
    if root is not x:
        flat = _call("scatter", _call("reshape", root, (-1,)), xp.reshape(places, (-1,)), _call("reshape", x, (-1,)), 0)
        root._take(_call("reshape", flat, root.shape))
    _parameter.assigned(root)
    _renew(root, _places_of(root), x)


def _places_of(root):
    return xp.reshape(xp.arange(root.size), root.shape)


def _source(x):
    """(the array whose elements x shows, where in it they are): the places are an array of the host, which is a view itself where x
    is one."""
    view = _views.get(id(x))
    if view is None:
        return x, _places_of(x)
    root, places = _source(view.base)
    part = view.take(places)
    if part.size and not part._share_memory(places):  # as reshape copies some layouts
        return x, _places_of(x)
    return root, part


def _renew(base, places, written):
    """Takes the views of an array anew, and theirs, but for the one that was written to."""
    for reference in list(_taken.get(id(base), ())):
        view = reference()
        if view is None:
            continue
        take = _views[id(view)].take
        part = take(places)
        if part.size and not part._share_memory(places):
            continue
        if view is not written:
            view._take(take(base))
        _renew(view, part, written)
