"""torch.fx's tracing of the forward of a module of PyTorch, with what networks as people write them need beyond it: buffers and
new tensors whose sizes follow those of the inputs, writes to parts of tensors, `assert`s, and errors that name the line. Only
_from_torch.py uses this; it needs torch."""
import ast
import contextlib
import copy
import dis
import inspect
import linecache
import operator
import os
import sys
import types

import torch  # type: ignore[import-not-found]

# Functions of torch whose result is recorded even where no argument comes from an input: what they make may be written to.
_CREATED = ("arange", "empty", "eye", "full", "linspace", "ones", "zeros")
# Those that give other numbers in every call.
_DRAWN = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like", "randint_like", "multinomial")
# Those that do not look for traced values themselves.
_OTHERS = ("tensor", "as_tensor", "meshgrid", "broadcast_shapes")
_METHODS = ("__getitem__", "to", "expand", "repeat", "view", "reshape", "type_as", "new_zeros", "new_ones", "new_full", "new_empty")
# Functions of Python that read values; what they give stays among recorded values.
_PACKS = (torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence)
_SIZES = ("size", "dim", "numel", "len", "shape", "ndim", "int")


_STAYS = "expected buffers that stay as they are, or a result of forward"


class _Proxy(torch.fx.Proxy):
    def __setitem__(self, key, value):
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})


def spread(x):
    """What stands for *x among arguments: how many it is shows when the network runs."""
    return x


class _Call:
    """A call of a module that is entered: its path, the names of its parameters, its inputs and its result, which are None where they
    are more than distinct values."""

    def __init__(self, path, module, arguments, keywords):
        self.path, self.names, self.inputs, self.result = path, list(inspect.signature(module.forward).parameters), None, None
        nodes = [a.node for a in arguments if isinstance(a, torch.fx.Proxy) and not is_size(a.node)]
        if not keywords and 0 < len(nodes) == len(arguments) == len(set(nodes)):
            self.inputs = nodes


class Tracer(torch.fx.Tracer):
    """Traces forward; modules whose id is in `leaves` are called, not entered. inputs: the names of forward's inputs, by default
    those without a default. records: whether buffers and new tensors are recorded, too; else they are constants. marks: whether a part
    that returns its input is a step, too, which `marked` has."""

    def __init__(self, leaves, inputs, records, place, marks=False):
        super().__init__()
        self.leaves, self.inputs, self.place, self.records = leaves, inputs, place, records
        self.marks, self.marked, self.calls, self.called = marks, [], [], set()
        self.proxy_buffer_attributes = records
        self.failed = None  # the innermost module whose call failed, and its path

    def is_leaf_module(self, m, module_qualified_name):
        return id(m) in self.leaves

    def proxy(self, node):
        return _Proxy(node, self)

    def create_arg(self, a):
        if type(a).__module__ == "numpy" and hasattr(a, "item") and not getattr(a, "ndim", 1):
            a = a.item()
        elif type(a).__name__ == "ndarray":
            a = torch.from_numpy(a)
        return super().create_arg(a)

    def create_node(self, kind, *arguments, **keywords):
        node = super().create_node(kind, *arguments, **keywords)
        frame = _users_frame(sys._getframe(1))
        node.meta["line"] = frame and (frame.f_code.co_filename, frame.f_lineno)
        node.meta["calls"] = tuple(self.calls)
        node.meta["no_grad"] = kind.startswith("call_") and not torch.is_grad_enabled()
        return node

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        parameters = list(inspect.signature(root_fn).parameters.values())[1:]
        if self.inputs is not None:
            unknown = [name for name in self.inputs if name not in [p.name for p in parameters]]
            if unknown:
                raise TypeError(f"{self.place}: inputs: forward has no parameter {unknown[0]!r}: expected some of "
                                f"{', '.join(p.name for p in parameters)}")
        given = []
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TypeError(f"{self.place}: expected named parameters of forward, got {p}: give it one per input")
            if p.name in self.inputs if self.inputs is not None else p.default is p.empty:
                given.append(self.create_proxy("placeholder", p.name, (), {}))
            elif p.default is p.empty:
                raise TypeError(f"{self.place}: inputs: {p.name} has no default: expected it among the inputs")
            else:
                given.append(p.default)
        return root_fn, [self.root, *given]

    def call_module(self, m, forward, args, kwargs):
        if (inside := _inside(m)) is not None:
            return inside(*args, **kwargs)
        try:
            if self.is_leaf_module(m, ""):
                return super().call_module(m, forward, args, kwargs)
            call = _Call(self.path_of_module(m), m, args, kwargs)
            self.called.add(call.path)
            self.calls.append(call)
            try:
                found = super().call_module(m, forward, args, kwargs)
                if self.marks and call.inputs and isinstance(found, torch.fx.Proxy) and found.node in call.inputs:
                    found = self.create_proxy("call_method", "contiguous", (found,), {})
                    self.marked.append(found.node)
            finally:
                self.calls.pop()
            call.result = found.node if isinstance(found, torch.fx.Proxy) else None
            return found
        except Exception:
            self.failed = self.failed or (m, self.path_of_module(m))
            raise

    def to_bool(self, obj):
        wanted = _of_check(_users_frame(sys._getframe(1)))
        return super().to_bool(obj) if wanted is None else wanted

    def iter(self, obj):
        frame = sys._getframe(2)
        code = frame.f_code.co_code
        if dis.opname[code[frame.f_lasti]] in ("LIST_EXTEND", "CALL_FUNCTION_EX"):  # [*x], f(*x)
            return iter([self.create_proxy("call_function", spread, (obj,), {})])
        node = obj.node
        name = getattr(node.target, "__name__", node.target)
        argument = node.args[1] if len(node.args) > 1 else node.kwargs.get("chunks", node.kwargs.get("split_size_or_sections"))
        if name in ("chunk", "tensor_split") and isinstance(argument, int):
            return iter([obj[i] for i in range(argument)])
        if name == "split" and isinstance(argument, (list, tuple)):
            return iter([obj[i] for i in range(len(argument))])
        return super().iter(obj)

    def traced(self, module):
        """The graph of the module's forward. What forward assigns to attributes stays there until `kept` ends."""
        with torch.enable_grad(), _patched(self, module):
            graph = self.trace(module)
        for m in module.modules():
            for name, value in m._buffers.items():
                if isinstance(value, torch.fx.Proxy):
                    line = value.node.meta.get("line")
                    raise TypeError(f"{self.place}: {shown(*line) + ' ' if line else ''}changes the buffer {name}: {_STAYS}")
        return graph


@contextlib.contextmanager
def kept(module, place):
    """Gives the module and its parts the attributes again that they have now: forward may assign to them, and torch.fx does.
    Refuses a forward that has changed a buffer."""
    before = [(m, dict(vars(m)), [(name, b, b if b is None else (b._version, b.clone())) for name, b in m._buffers.items()]) for m in module.modules()]
    changed = ""
    try:
        yield
    finally:
        for m, own, buffers in before:
            for name, value, state in buffers:
                if m._buffers[name] is not value or state is not None and value._version != state[0]:
                    changed = changed or name
                    m._buffers[name] = value
                    if state is not None and value._version != state[0]:
                        value.copy_(state[1])
            vars(m).clear()
            vars(m).update(own)
    if changed:
        raise TypeError(f"{place}: forward changes the buffer {changed}: {_STAYS}")


# Functions that do not notice traced values.

def _has_proxy(*values):
    for x in values:
        if isinstance(x, torch.fx.Proxy):
            return True
        if isinstance(x, (list, tuple)) and _has_proxy(*x):
            return True
        if isinstance(x, slice) and _has_proxy(x.start, x.stop, x.step):
            return True
        if isinstance(x, dict) and _has_proxy(*x.values()):
            return True
    return False


def is_size(node):
    """Whether the value is a size of a tensor, several, or computed from such ones."""
    name = getattr(node.target, "__name__", node.target)
    if name == "getattr":
        return node.args[1] in _SIZES
    if node.op in ("call_method", "call_function") and name in _SIZES:
        return True
    parts = node.all_input_nodes
    return node.op == "call_function" and bool(parts) and all(is_size(part) for part in parts)


def _replacements(tracer):
    """Builtins in the modules of the network's classes, where fx cannot see their calls."""

    def recorded(function, name=None):
        def call(*arguments, **keywords):
            if _has_proxy(arguments, keywords):
                return tracer.create_proxy("call_function", function, arguments, keywords)
            return function(*arguments, **keywords)
        return call

    def is_instance(x, kinds):
        if isinstance(x, torch.fx.Proxy) and not is_size(x.node):
            return any(k is torch.Tensor for k in (kinds if isinstance(kinds, tuple) else (kinds,)))
        return isinstance(x, kinds)

    return {"len": recorded(len), "isinstance": is_instance}


def _recorded(tracer, function, always):
    def call(*arguments, **keywords):
        if always or _has_proxy(arguments, keywords):
            return tracer.create_proxy("call_function", function, arguments, keywords)
        return function(*arguments, **keywords)

    call.__name__ = function.__name__
    return call


@contextlib.contextmanager
def _patched(tracer, module):
    undo = []

    def put(owner, name, value):
        names = owner if isinstance(owner, dict) else vars(owner)
        had, old = name in names, names.get(name)
        if isinstance(owner, dict):
            undo.append(lambda: owner.__setitem__(name, old) if had else owner.pop(name, None))
            owner[name] = value
        else:
            undo.append(lambda: setattr(owner, name, old) if had else delattr(owner, name))
            setattr(owner, name, value)

    def method(name):
        original = getattr(torch.Tensor, name)

        def call(self, *arguments, **keywords):
            if _has_proxy(arguments, keywords):
                if name == "__getitem__":
                    return tracer.create_proxy("call_function", operator.getitem, (self, *arguments), keywords)
                return tracer.create_proxy("call_method", name, (self, *arguments), keywords)
            return original(self, *arguments, **keywords)
        return call

    def number_type(dtype=None):
        return finfo(torch.float32 if isinstance(dtype, torch.fx.Proxy) else dtype or torch.get_default_dtype())

    def no_length(self):
        raise TypeError("'len' is not supported")  # no other error lets [*x] go on without it

    finfo, same = torch.finfo, {}
    for name in (*_CREATED, *_DRAWN, *_OTHERS):
        function = getattr(torch, name)
        same[function] = _recorded(tracer, function, name in _DRAWN or name in _CREATED and tracer.records)
    same.update({function: _recorded(tracer, function, False) for function in _PACKS})
    try:
        for function, call in same.items():
            put(torch.nn.utils.rnn if function in _PACKS else torch, function.__name__, call)
        put(torch, "finfo", number_type)
        put(torch.fx.Proxy, "__len__", no_length)
        for name in _METHODS:
            put(torch.Tensor, name, method(name))
        seen = set()
        for m in module.modules():
            names = getattr(sys.modules.get(type(m).__module__), "__dict__", {})
            for names in (names, getattr(type(m).forward, "__globals__", {})):
                _patch_globals(names, same, tracer, put, seen)
        yield
    finally:
        for action in reversed(undo):
            action()


def _patch_globals(names, same, tracer, put, seen):
    if id(names) in seen or str(names.get("__name__", "")).split(".")[0] in ("torch", "builtins"):
        return
    seen.add(id(names))
    for name, value in list(names.items()):
        if isinstance(value, (types.BuiltinFunctionType, types.FunctionType)) and value in same:  # from torch import zeros
            put(names, name, same[value])
        elif isinstance(value, types.FunctionType) and value.__module__ != names.get("__name__") and _is_users(value.__code__.co_filename):
            _patch_globals(value.__globals__, same, tracer, put, seen)
    for name, value in _replacements(tracer).items():
        if name not in names:
            put(names, name, value)


# Lines of the program.

_OWN = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def _is_users(file):
    return not file.startswith(_OWN) and not file.startswith("<frozen") and (not file.startswith(_LIBRARY) or "site-packages" in file)


def _users_frame(frame):
    while not _is_users(frame.f_code.co_filename):
        if frame.f_code is Tracer.traced.__code__ or frame.f_back is None:
            return None
        frame = frame.f_back
    return frame


def _of_check(frame):
    """What a condition must be for the program to go on, where it is that of an `assert`, or of an `if` that raises; else None."""
    if frame is None:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except SyntaxError:
        return None
    line = frame.f_lineno
    for node in ast.walk(tree):
        is_check = isinstance(node, ast.Assert)
        raises = isinstance(node, ast.If) and not node.orelse and all(isinstance(s, ast.Raise) for s in node.body)
        if (is_check or raises) and node.test.lineno <= line <= (node.test.end_lineno or node.test.lineno):
            is_negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            return is_check != is_negated
    return None


def line_of(error):
    """(file:line: its text) of the program's innermost line in the traceback; "" where torch and this package have all."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if _is_users(trace.tb_frame.f_code.co_filename):
            found = shown(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def shown(file, line, with_text=True):
    """A line of the program, with its text."""
    text = linecache.getline(file, line).strip() if with_text else ""
    return f"{os.path.basename(file)}:{line}" + (f": `{text}`" if text else "")


_REASONS = (
    ("cannot be iterated", "loops over what only a call knows, or takes it apart", "x.chunk(n), names for all parts, or a loop of a fixed number of steps"),
    ("control flow", "decides by a value or a size that only a call knows", "torch.where for values, and settings of the module for the rest"),
    ("cannot be interpreted as an integer", "needs a number that only a call knows, such as a size of the input",
     "a loop of a fixed number of steps, or a function of whole tensors"),
    ("__index__", "needs a number that only a call knows, such as a size of the input", "slices and functions of whole tensors"),
    ("argument must be a string, a bytes-like object or a real number", "makes a Python number of a value that only a call knows",
     "sizes as they are, x.size(1) // 2, and tensors without int() and float()"),
    ("int() argument", "makes a Python number of a value that only a call knows", "sizes as they are, x.size(1) // 2, and tensors without int()"),
    ("'len' is not supported", "asks for the number of entries of a traced value", "x.shape[0]"),
    ("argument of type", "gives a function an object that is neither tensor nor number", "tensors, numbers, texts and their lists"),
    ("cannot assign", "writes a traced tensor to a buffer of the module", "a buffer that stays as it is, or a result of forward"),
    ("__array_", "hands a tensor or a size to a function of NumPy", "functions of torch or math"),
    ("__cuda_array_interface__", "hands a tensor to a function that reads its values", "lengths=, of freight.nn's recurrent layers, or masks"),
)


def reason_of(error):
    """(what the line does that cannot be converted, what to do instead)"""
    text = str(error)
    for part, reason, instead in _REASONS:
        if part in text:
            return reason, instead
    return text, ""


def needed(graph, changes):
    """The nodes on which the results depend, in order. changes: whether a node writes to what others read."""
    found, kept_nodes = set(), []
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output", "call_module") or node in found or changes(node):
            kept_nodes.append(node)
            found.update(node.all_input_nodes)
    return kept_nodes[::-1]


def _inside(module):
    """The module that torch.compile, DataParallel or DistributedDataParallel has wrapped, or None."""
    parts = module._modules
    if type(module).__module__.startswith("torch.nn.parallel"):
        return parts.get("module")
    return parts.get("_orig_mod") if type(module).__module__.startswith("torch._dynamo") else None


def unwrapped(module):
    """(the module itself, without what torch.compile and others have put around it, or a copy where weights were folded: computed by
    parametrizations or hooks; the names of those)"""
    while (inside := _inside(module)) is not None:
        module = inside
    return _folded(module)


def _folded(module):
    from torch.nn.utils import parametrize, remove_spectral_norm, remove_weight_norm  # type: ignore[import-not-found]

    def computed(m):
        """(name, function that removes it) of the weights that are computed by hooks."""
        for hook in m._forward_pre_hooks.values():
            kind = type(hook).__name__
            if kind in ("WeightNorm", "SpectralNorm"):
                yield hook.name, remove_weight_norm if kind == "WeightNorm" else remove_spectral_norm

    names = [f"{path}.{name}".lstrip(".") for path, m in module.named_modules()
             for name in [*(m.parametrizations if parametrize.is_parametrized(m) else ()), *(n for n, _ in computed(m))]]
    if not names:
        return module, names
    values = [vars(m)[n] for m in module.modules() for n, _ in computed(m) if n in vars(m)]  # no leaves, which deepcopy refuses
    module = copy.deepcopy(module, {id(value): value.detach().clone() for value in values})
    with torch.no_grad():
        for m in module.modules():
            for name, remove in list(computed(m)):
                remove(m, name)
            if parametrize.is_parametrized(m):  # the class has the weight as a property, and is the original's, too
                m.__class__ = type(type(m).__name__, type(m).__bases__, dict(vars(type(m))))
                for name in list(m.parametrizations):
                    parametrize.remove_parametrizations(m, name, leave_parametrized=True)
    return module, names


def hooked(module):
    """The paths of the parts whose results forward hooks may change."""
    return [path or "the module" for path, m in module.named_modules() if m._forward_hooks or m._forward_pre_hooks]


