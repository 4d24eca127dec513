"""Networks of classes of this package in files: what Layer has no declaration for, such as layers written in Python and networks that
from_torch has traced. The file of their weights says in its metadata what they are made of, as JSON."""
import collections
import functools
import json
import math
import os

from . import _array_api as xp
from . import _core, _several, nn
from ._containers import OF_LIBRARY, wrapped, Wrapper
from ._from_torch import TimeFirst, Traced, Value
from ._module import Layer, Module, _modes_kept
from ._outputs import Returned
from ._parameter import Buffer, Parameter

KEY, NOTES, FORMAT = "freight.module", "freight.python", "freight-module-1"
_OWN = {"Module": Module, "Traced": Traced, "TimeFirst": TimeFirst}
_PASSING = ("_modules", "_held", "_cached", "_compiled", "_seen", "_seen_inputs", "_task", "_layer", "_inside", "_inner")  # attributes that are stored otherwise, or not


class _Unknown(Exception):
    """Something that only the program has."""


def _class_of(name):
    found = _OWN.get(name) or getattr(nn, name, None)
    if not (isinstance(found, type) and issubclass(found, Module)):
        raise ValueError(f"there is no freight.nn.{name}: expected a file of this version or an earlier one")
    return found


# Values.

def _encoded(x):
    if isinstance(x, Value):
        return {"value": str(x)}
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, list):
        return [_encoded(v) for v in x]
    if type(x) is tuple:
        return {"tuple": [_encoded(v) for v in x]}
    if isinstance(x, dict):
        return {"dict": [[_encoded(k), _encoded(v)] for k, v in x.items()]}
    if isinstance(x, slice):
        return {"slice": [_encoded(v) for v in (x.start, x.stop, x.step)]}
    if x is Ellipsis:
        return {"ellipsis": None}
    if isinstance(x, _core.Array):
        return {"array": [x.dtype.name, list(x.shape), xp.reshape(x, (-1,)).tolist()]}
    if isinstance(x, _core.dtype):
        return {"dtype": x.name}
    if hasattr(x, "_fields"):
        return {"namedtuple": [x.__name__, list(x._fields)]}
    if getattr(math, getattr(x, "__name__", ""), None) is x:
        return {"math": x.__name__}
    raise _Unknown(repr(x))


def _decoded(x):
    if isinstance(x, list):
        return [_decoded(v) for v in x]
    if not isinstance(x, dict):
        return x
    ((kind, content),) = x.items()
    if kind == "array":
        dtype, shape, values = content
        return xp.reshape(xp.asarray(values, dtype=_core.as_dtype(dtype)), tuple(shape))
    return {
        "value": lambda: Value(content), "tuple": lambda: tuple(_decoded(content)), "slice": lambda: slice(*_decoded(content)),
        "dict": lambda: {_decoded(k): _decoded(v) for k, v in content}, "ellipsis": lambda: Ellipsis, "dtype": lambda: _core.as_dtype(content),
        "namedtuple": lambda: collections.namedtuple(*content), "math": lambda: getattr(math, content),
    }[kind]()


# Modules.

def _description(module, known):
    """What the module is made of; a module that was described before by its number."""
    if id(module) in known:
        return {"again": known[id(module)]}
    number = known[id(module)] = len(known)
    name = type(module).__name__
    if (_OWN.get(name) or getattr(nn, name, None)) is not type(module):
        raise _Unknown(name)
    attributes = {k: _encoded(v) for k, v in vars(module).items() if k not in _PASSING}
    held = {k: [isinstance(v, Buffer), list(v.shape), v.dtype.name] for k, v in module._held.items()}
    parts = {"": module._inside} if isinstance(module, TimeFirst) else module._modules
    return {"class": name, "number": number, "attributes": attributes, "held": held,
            "parts": [[k, _description(v, known)] for k, v in parts.items()]}


def _made(described, known):
    if "again" in described:
        return known[described["again"]]
    cls = _class_of(described["class"])
    attributes = {k: _decoded(v) for k, v in described["attributes"].items()}
    parts = {k: _made(v, known) for k, v in described["parts"]}
    if issubclass(cls, Layer) and not parts:
        module = cls._wrapped(_core.make_layer(cls._type, attributes["_settings"]), attributes["_settings"], wrapped)
    else:
        module = cls.__new__(cls)
        Module.__init__(module)
    vars(module).update(attributes)
    for name, (is_buffer, shape, dtype) in described["held"].items():
        setattr(module, name, (Buffer if is_buffer else Parameter)(xp.zeros(tuple(shape), dtype=_core.as_dtype(dtype))))
    if cls is TimeFirst:
        vars(module)["_inside"] = parts[""]
    else:
        module._modules.update(parts)
    known[described["number"]] = module
    return module


def described(module, task):
    """The module as a text; None where it has a part of the program's own."""
    ties, first = [], {}
    for name, variable, _ in module._node().state():
        if first.setdefault(variable.identity, name) != name:
            ties.append([name, first[variable.identity]])
    try:
        return json.dumps({"format": FORMAT, "task": {k: _encoded(v) for k, v in task.items()}, "module": _description(module, {}),
                           "ties": ties, "frozen": [name for name, p in module.named_parameters() if not p.requires_grad]})
    except _Unknown:
        return None


class NamedOutputs(Wrapper):
    """A graph whose results have names: those of the dict that the forward it was traced from returns. Its parameters are the
    graph's."""

    def __init__(self, graph, structure):
        super().__init__(graph)
        self.structure = structure

    def forward(self, x):
        found = self._inside(x)
        results = found if isinstance(found, tuple) else (found,)
        # In training forward may return something else.
        return _filled(self.structure, iter(results)) if len(results) == _leaves(self.structure) else found


def _structure(x):
    """What holds arrays, with 0 in place of each."""
    if isinstance(x, dict):
        return {k: _structure(v) for k, v in x.items()}
    return [_structure(v) for v in x] if isinstance(x, (list, tuple)) else 0


def _leaves(structure):
    parts = structure.values() if isinstance(structure, dict) else structure if isinstance(structure, list) else None
    return 1 if parts is None else sum(map(_leaves, parts))


def _filled(structure, arrays):
    if isinstance(structure, dict):
        return {k: _filled(v, arrays) for k, v in structure.items()}
    return tuple(_filled(v, arrays) for v in structure) if isinstance(structure, list) else next(arrays)


def _has_names(structure):
    parts = structure.values() if isinstance(structure, dict) else structure if isinstance(structure, list) else ()
    return isinstance(structure, dict) or any(map(_has_names, parts))


def names_in_results(model, trace):
    """The structure of what forward returns in evaluation where that has names, by a trace of it while fit runs; else None."""
    forward = vars(model).get("forward")
    if not isinstance(forward, Returned):
        return None
    with _modes_kept([m._built() for m in model.modules()]):
        model.eval()
        trace()
    found = _structure(forward.last)
    return found if _has_names(found) else None


def saved_with_names(model, notes, save):
    """What save(notes) returns, which traces forward and writes the file. Where forward returns a dict in evaluation, it is written
    again with the names among the notes."""
    if type(model).forward in OF_LIBRARY:
        return save(notes)
    forward, before, seen = model.forward, {k: v for k, v in vars(model).items() if k == "forward"}, []

    @functools.wraps(forward)
    def watched(*arguments, **keywords):
        found = forward(*arguments, **keywords)
        if not model.training:
            seen.append(_structure(found))
        return found

    vars(model)["forward"] = watched
    try:
        found = save(notes)
    finally:
        del vars(model)["forward"]
        vars(model).update(before)
    return found if found[0] or not seen or not _has_names(seen[-1]) else save({**notes, "outputs": seen[-1]})


def noted(notes):
    """What freight.load needs to know of any model, as a text; None where that is nothing."""
    found = {k: _encoded(v) for k, v in notes.items() if v is not None}
    return json.dumps(found) if found else None


def notes_in(path):
    """What `noted` has written to a file."""
    return {k: _decoded(v) for k, v in json.loads(_text_in(path, NOTES) or "{}").items()}


def with_notes(module, path):
    """The module from the file as its notes say: with parameters that are frozen, names of its results, of several inputs, with a loss of
    its program, and what an estimator knows besides."""
    notes = notes_in(path)
    parameters = dict(module.named_parameters()) if "frozen" in notes else {}
    for name in notes.get("frozen", ()):
        if name in parameters:  # a graph has those that its results depend on
            parameters[name].requires_grad = False
    if "class_type" in notes:
        vars(module)["_task"]["class_type"] = notes["class_type"]
    if "outputs" in notes:
        task, module = vars(module)["_task"], NamedOutputs(module, notes["outputs"]).eval()
        vars(module)["_task"] = task
    if "inputs" in notes:
        task, module = vars(module).pop("_task"), _several.Stored(module, notes["inputs"])
        vars(_several.joined_of(module, notes["inputs"]))["_task"] = task
        module.eval()
    if "estimator" in notes:
        vars(module)["_task"]["estimator"] = notes["estimator"]
    if notes.get("own_loss"):
        (_several.layout_of(module)[0] or module).__dict__["_task"]["own_loss"] = True
    return module


def _text_in(path, key=KEY):
    """The text of a file; None where it has none, or is no such file: the library says what is wrong with it."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(size))["__metadata__"].get(key) if size < os.path.getsize(path) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def load(path):
    """The module of a file that has such a text, with its weights, in evaluation mode; None where the file has none."""
    text = _text_in(path)
    if text is None:
        return None
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise ValueError(f"{path}: expected a module of format {FORMAT}, got {content.get('format')!r}: a later version has written it")
    module = _made(content["module"], {})
    variables = {name: variable for name, variable, _ in module._node().state()}
    for name, other in content["ties"]:
        if variables[name].identity != variables[other].identity:
            variables[name].tie(variables[other])
    module.load_weights(path)
    for name in content["frozen"]:
        module.get_parameter(name).requires_grad = False
    vars(module)["_task"] = {k: _decoded(v) for k, v in content["task"].items()}
    return with_notes(module.eval(), path)
