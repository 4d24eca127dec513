"""Modules of PyTorch as Freight's. Layers that both have become layers; of a class with a forward of its own, torch.fx gives the
operations, which are run by _torch_functions.py's table. Only the conversion needs torch."""
import inspect
import warnings

from . import _array_api as xp
from . import _torch_vision  # noqa: F401 (its functions are in FUNCTIONS)
from . import _traced_parts, nn
from ._containers import Wrapper
from ._layer_kinds import AttentionLayer, RecurrentLayer
from ._module import Layer, Module
from ._torch_functions import FIXED, FUNCTIONS, INSTEAD, OPERATORS, Packed, Spread, known_as
from ._transformer import ACTIVATIONS
from .nn._written_layers import WrittenLayer

# Settings of PyTorch's layers that Freight's may lack, with the value that means what these do.
_FIXED = {"padding_mode": "zeros", "return_indices": False, "recompute_scale_factor": None, "max_norm": None,
          "scale_grad_by_freq": False, "sparse": False, "bias_k": None, "bias_v": None, "add_zero_attn": False, "include_last_offset": False}

# Functions and methods whose results may share the memory of their first argument.
_VIEWS = ("view", "reshape", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "select", "narrow", "expand", "getitem", "t", "chunk",
          "split", "unbind", "view_as", "expand_as", "unflatten", "swapaxes", "movedim", "detach", "contiguous")


def from_torch(module, *, inputs=None):
    """The torch module with its weights, modes and frozen parameters, and the names of its state_dict. A class with a forward of
    its own is traced by torch.fx, in training and in evaluation. inputs: the names of forward's parameters that a call gives, by
    default those without a default; the others keep theirs. Sizes of inputs stay variable. Branches on values and on sizes of
    tensors are refused with the line that has them, but for checks (`assert`, an `if` that raises), which are left out; `x += y`
    counts as x = x + y. torch.compile and DataParallel around the module are taken off, and weights that weight_norm or another
    parametrization computes become plain ones."""
    if isinstance(module, type) or not hasattr(module, "named_parameters"):
        raise TypeError(f"from_torch: expected a torch.nn.Module, got {type(module).__name__}")
    from . import _torch_tracer

    if type(module).__module__.startswith("torch.jit"):
        raise TypeError("from_torch: expected the module itself, got one that torch.jit has compiled: it has no forward in Python")
    module, folded = _torch_tracer.unwrapped(module)
    if folded:
        warnings.warn(f"from_torch: {', '.join(folded)}: computed by a parametrization, from here on a weight that is trained itself", stacklevel=2)
    hooked = _torch_tracer.hooked(module)
    if hooked:
        warnings.warn(f"from_torch: {', '.join(hooked)}: hooks may be left out, with what they change", stacklevel=2)
    converted = _Conversion(module, inputs).root
    others = sorted({str(p.dtype) for p in module.parameters() if p.is_floating_point()} - {"torch.float32"})
    if others:
        warnings.warn(f"from_torch: parameters of {', '.join(others)} become float32, in which networks are trained", stacklevel=2)
    names = {name for name, _, _ in converted._node().state()}
    unusual = {name for name, value in module.state_dict().items() if not value.is_floating_point()}
    converted.load_state_dict({k: v for k, v in module.state_dict().items() if k in names or k not in unusual})
    frozen = {name for name, p in module.named_parameters() if not p.requires_grad}
    for name, p in converted.named_parameters():
        if name in frozen:
            p.requires_grad = False
    ours = dict(converted.named_modules())
    for path, part in module.named_modules():  # outer ones first
        if path in ours:
            ours[path].train(part.training)
    return converted


class TimeFirst(Wrapper):
    """A layer of (T, N, C), as PyTorch's recurrent layers and attention are without batch_first. Its parameters are the layer's."""

    def forward(self, x, *others, **keywords):
        if x.ndim == 2:  # a sample without a batch axis
            return self._inside(x, *others, **keywords)
        if isinstance(self._inside, AttentionLayer):
            others = [o.swapaxes(0, 1) for o in others[:2]] + list(others[2:])
            keywords = {k: v.swapaxes(0, 1) if k in ("key", "value") else v for k, v in keywords.items()}
        y, more = self._inside(x.swapaxes(0, 1), *others, **keywords)
        return y.swapaxes(0, 1), more

    def extra_repr(self):
        return repr(self._inside)


class Traced(Module):
    """A network that from_torch has traced, or a part of one: `programs` has its inputs, the steps (kind, name, target, arguments,
    keywords, place) and the result, for training and for evaluation; of a part that is traced with what is around it nothing.
    guards: path -> [kind, names of the parts or None] of what must stay as it was."""

    guards: dict[str, list] = {}  # of files of earlier versions

    def __init__(self, kind):
        super().__init__()
        self.kind, self.programs, self.constants, self.guards = kind, {}, {}, {}

    def _check(self):
        """Refuses parts that have been replaced although their steps are in this program, and lists that have other parts."""
        for path, (kind, names) in self.guards.items():
            part = self
            for name in filter(None, path.split(".")):
                part = part._modules.get(name) if isinstance(part, Module) else None
            place = f"{self.kind}: {path}" if path else self.kind
            if names is None and path and not (isinstance(part, Traced) and part.kind == kind and not part.programs):
                raise ValueError(f"{place} ({kind}) cannot be replaced: from_torch has traced it together with what is around it: expected "
                                 "layers inside of it to be replaced one by one, or the change in torch, before from_torch")
            if names is not None and (part is None or list(part._modules) != names):
                got = "another module" if part is None or not part._modules else f"{len(part._modules)} ({', '.join(part._modules)})"
                raise ValueError(f"{place} ({kind}) was traced with {len(names)} modules ({', '.join(names)}), which forward calls one by one: "
                                 f"got {got}: expected each replaced in its place, or the change in torch, before from_torch")

    @property
    def _input_names(self):
        return list(next(iter(self.programs.values()), ((),))[0])

    def forward(self, *arguments, **named):
        self._check()
        if not self.programs:
            raise TypeError(f"{self.kind}: from_torch has traced this part together with what is around it: expected a call of that")
        if self.training not in self.programs:
            raise TypeError(f"{self.kind}: the network does not call this part in {'training' if self.training else 'evaluation'}")
        inputs, steps, result = self.programs[self.training]
        if named and [*inputs[:len(arguments)], *sorted(named, key=lambda n: inputs.index(n) if n in inputs else -1)] == list(inputs):
            arguments, named = (*arguments, *(named[n] for n in inputs[len(arguments):])), {}
        if named:
            raise TypeError(f"{self.kind}: expected the inputs {', '.join(inputs)}, got {len(arguments)} and {', '.join(named)}")
        if len(arguments) != len(inputs):
            raise TypeError(f"{self.kind}: expected {len(inputs)} inputs ({', '.join(inputs)}), got {len(arguments)}: from_torch(module, "
                            "inputs=[...]) names others")
        values = dict(zip(inputs, arguments))
        for kind, name, target, given, keywords, place in steps:
            given, keywords = replaced(values, given), replaced(values, keywords)
            try:
                if kind == "module":
                    layer = self.get_submodule(target)
                    values[name] = packed_call(layer, *given) if given and isinstance(given[0], Packed) else layer(*given, **keywords)
                elif kind == "state":
                    values[name] = self._state(target)
                elif kind == "operator":
                    values[name] = OPERATORS[target](*given)
                else:
                    values[name] = (target if kind == "python" else FUNCTIONS[target])(*given, **keywords)
            except (TypeError, ValueError, IndexError) as error:
                raise type(error)(f"{place}: {target}: {error}") from error
        return replaced(values, result)

    def _state(self, path):
        if path in self.constants:
            return self.constants[path]
        owner, _, name = path.rpartition(".")
        return getattr(self.get_submodule(owner), name)

    def extra_repr(self):
        return self.kind


def packed_call(layer, packed, state=None):
    """What a recurrent layer gives for samples of several lengths."""
    y, states = (layer._inside if isinstance(layer, TimeFirst) else layer)(packed.data, state, lengths=packed.lengths)
    return Packed(y, packed.lengths), states


class Value(str):
    """The name of a value in a program."""


def replaced(values, x):
    """Arguments with the values that they name, or with other names."""
    if isinstance(x, Value):
        return values[x]
    if isinstance(x, slice):
        return slice(*(replaced(values, part) for part in (x.start, x.stop, x.step)))
    if isinstance(x, (list, tuple)):
        parts = [replaced(values, part) for part in x]
        if any(isinstance(part, Spread) for part in parts):
            parts = [p for part in parts for p in (part if isinstance(part, Spread) else (part,))]
        return type(x)(parts)
    return {k: replaced(values, part) for k, part in x.items()} if isinstance(x, dict) else x


def _viewed(node):
    """The value whose memory a view shares."""
    while getattr(node.target, "__name__", node.target) in _VIEWS and node.args and hasattr(node.args[0], "target"):
        node = node.args[0]
    return node


class _Conversion:
    """The conversion of one module; `root` is the result. Parts that occur twice are converted once."""

    def __init__(self, module, inputs=None):
        self.done, self.constants, self.inputs, self.lists = {}, {}, inputs, set()
        found = self.layer(module, "")
        self.root = self.traced(module) if found is None else found  # an empty container is false
        variables = {name: variable for name, variable, _ in self.root._node().state()}
        first = {}
        for name, p in module.named_parameters(remove_duplicate=False):
            if variables[name].identity != variables[first.setdefault(id(p), name)].identity:
                variables[name].tie(variables[first[id(p)]])

    @staticmethod
    def place(module, path):
        return f"from_torch: {path or 'the module'} ({type(module).__name__})"

    # Layers.

    def layer(self, module, path):
        """What computes as the module does, or None where it must be traced."""
        if id(module) in self.done:
            return self.done[id(module)]
        kind = type(module).__name__
        if not type(module).__module__.startswith("torch.nn."):
            return None
        if kind == "Sequential":
            return self.sequential(module, path)
        if kind in ("TransformerEncoder", "TransformerDecoder"):
            layers = [self.layer(m, f"{path}.layers.{i}".lstrip(".")) for i, m in enumerate(module.layers)]
            norm = module.norm and self.layer(module.norm, f"{path}.norm".lstrip("."))
            found = getattr(nn, kind)(layers[0], 0, norm)
            found.layers.extend(layers)
        elif kind == "Transformer":
            encoder, decoder = (self.layer(getattr(module, part), f"{path}.{part}".lstrip(".")) for part in ("encoder", "decoder"))
            found = nn.Transformer(module.d_model, module.nhead, custom_encoder=encoder, custom_decoder=decoder, batch_first=module.batch_first)
        elif kind in ("TransformerEncoderLayer", "TransformerDecoderLayer"):
            found = self.transformer_layer(getattr(nn, kind), module, path)
        else:
            cls = nn.Upsample if kind.startswith("Upsampling") else getattr(nn, kind, None)
            cls = nn.Interpolate if cls is nn.Upsample and module.mode in nn.Interpolate._modes else cls
            if not (isinstance(cls, type) and issubclass(cls, (Layer, nn.FunctionLayer, WrittenLayer))):
                return None
            found = self.known(cls, module, path) if issubclass(cls, Layer) else self.by_settings(cls, module)
        return self.done.setdefault(id(module), found)

    def sequential(self, module, path):
        parts = {name: self.layer(m, f"{path}.{name}" if path else name) for name, m in module.named_children()}
        if any(p is None or isinstance(p, (TimeFirst, RecurrentLayer, AttentionLayer, nn.RNN)) for p in parts.values()):
            return None
        return nn.Sequential(parts)

    def known(self, cls, module, path):
        place = self.place(module, path)
        names = inspect.signature(cls).parameters
        for name, needed in _FIXED.items():
            if name not in names and getattr(module, name, needed) != needed:
                raise ValueError(f"{place}: expected {name}={needed!r}, got {getattr(module, name)!r}")
        settings = {name: getattr(module, name) for name in names if name not in ("bias", "batch_first") and hasattr(module, name)}
        if "bias" in cls._keys:
            settings["bias"] = any("bias" in name for name, _ in module.named_parameters())
        texts = [name for name, value in settings.items() if isinstance(value, str) and isinstance(cls._usual.get(name), int)
                 and value not in cls._words.get(cls._keys[name], ())]
        if texts:
            raise ValueError(f"{place}: expected a number for {texts[0]}, got {settings[texts[0]]!r}")
        layer = cls(**settings)
        time_first = isinstance(layer, (RecurrentLayer, AttentionLayer)) and not module.batch_first
        return TimeFirst(layer) if time_first else layer

    @staticmethod
    def by_settings(cls, module):
        """Layers whose settings are attributes of PyTorch's."""
        given = {name: getattr(module, "norm" if name == "p" and cls is nn.PairwiseDistance else name)
                 for name in inspect.signature(cls).parameters}
        if "bias" in given:  # a setting, or the parameter
            given["bias"] = given["bias"] is not None and given["bias"] is not False
        return cls(**given)

    def transformer_layer(self, cls, module, path):
        import torch.nn.functional as functional  # type: ignore[import-not-found]

        place = self.place(module, path)
        names = [name for name in ACTIVATIONS if module.activation is getattr(functional, name)]
        if not names:
            raise ValueError(f"{place}: expected the activation \"relu\" or \"gelu\", got {module.activation!r}")
        rates = {m.p for name, m in module.named_children() if name.startswith("dropout")} | {module.self_attn.dropout}
        if len(rates) > 1:
            raise ValueError(f"{place}: expected one rate of dropout, got {sorted(rates)}")
        return cls(
            module.self_attn.embed_dim, module.self_attn.num_heads, module.linear1.out_features, module.dropout.p, names[0],
            module.norm1.eps, batch_first=module.self_attn.batch_first, norm_first=module.norm_first,
            bias=module.linear1.bias is not None)

    # Networks with a forward of their own.

    def traced(self, module):
        found = Traced(type(module).__name__)
        if not list(module.children()) and type(module).__module__.startswith("torch.nn."):
            raise TypeError(f"{self.place(module, '')} is no layer of freight.nn")
        self.copy(module, "", found)
        modes, traces = [(m, m.training) for m in module.modules()], {}
        try:
            for training in (True, False):
                for m, _ in modes:
                    m.training = training
                traces[training] = self.program(module)
        finally:
            for m, mode in modes:
                m.training = mode
        _traced_parts.Division(found, traces, self.constants, self.lists)
        return found

    def copy(self, module, path, into):
        """The tree of modules, with the parameters that own classes have."""
        saved = module.state_dict()
        if isinstance(module, self.containers()) and isinstance(into, Traced):
            self.lists.add(path)
        for name, value in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if name in saved and value.is_floating_point():
                held = nn.Parameter if name in dict(module.named_parameters(recurse=False)) else nn.Buffer
                setattr(into, name, held(xp.zeros(tuple(value.shape))))
        for name, child in module.named_children():
            below = f"{path}.{name}" if path else name
            part = self.layer(child, below)
            if part is None:
                part = self.container(child)
                part = Traced(type(child).__name__) if part is None else part  # an empty container is false
                self.copy(child, below, part)
            into.add_module(name, part)

    def container(self, module):
        """The empty container for a module that is one; None for other classes."""
        sequential, *lists = self.containers()
        if type(module).forward is sequential.forward and type(module).__getitem__ is sequential.__getitem__:
            return nn.Sequential()
        return next((getattr(nn, cls.__name__)() for cls in lists if type(module) is cls), None)

    def program(self, module):
        """The trace of forward in the module's mode. Where it cannot be traced with buffers as values that a call
        knows, they are taken as constants."""
        from . import _torch_tracer

        first, constants = None, dict(self.constants)
        for records, marks in ((True, True), (True, False), (False, True), (False, False)):
            tracer = _torch_tracer.Tracer(self.done, self.inputs, records, self.place(module, ""), marks)
            try:
                with _torch_tracer.kept(module, self.place(module, "")):
                    graph = self.graph(tracer, module)
                    bases = {_viewed(node) for node in tracer.marked}
                    if any(self.changes(node, module) and _viewed(node.args[0] if node.args else node.kwargs["input"]) in bases
                           for node in (graph.nodes if bases else ())):
                        continue  # what is changed has another name
                    trace = self.steps(graph, module)
                    trace.called = tracer.called
                    return trace
            except (TypeError, ValueError) as error:
                first = first or error
                self.constants = dict(constants)
        raise first

    def graph(self, tracer, module):
        from . import _torch_tracer

        try:
            return tracer.traced(module)
        except Exception as error:
            if str(error).startswith("from_torch: "):
                raise
            part, path = tracer.failed or (module, "")
            line = _torch_tracer.line_of(error)
            if type(part).__module__.startswith("torch.nn.") and not isinstance(part, self.containers()):
                raise TypeError(f"{self.place(part, path)} is no layer of freight.nn: torch.fx cannot trace its forward: {error}: write the "
                                "network with freight.nn, and load the state_dict()") from error
            reason, instead = _torch_tracer.reason_of(error)
            raise TypeError(f"{self.place(part, path)}: torch.fx cannot trace its forward: {line + ' ' if line else ''}{reason}: "
                            f"expected {instead + '; or ' if instead else ''}the network written with freight.nn, which loads the state_dict()") from error

    @staticmethod
    def containers():
        import torch  # type: ignore[import-not-found]

        return torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict

    def steps(self, graph, module):
        import torch  # type: ignore[import-not-found]

        from . import _torch_tracer

        inputs, renamed = [], {}
        trace = _traced_parts.Trace(lambda x: self.plain(x, renamed))
        for node in graph.nodes:
            if node.op in ("call_function", "call_method"):  # new tensors lie where the network's values are
                node.kwargs = {k: v for k, v in node.kwargs.items() if k not in ("device", "pin_memory", "layout")}
        for node in _torch_tracer.needed(graph, lambda node: self.changes(node, module)):
            trace.at(node.meta.get("calls", ()))
            arguments = self.plain(node.args, renamed), self.plain(node.kwargs, renamed)
            if node.op == "placeholder":
                inputs.append(node.name)
            elif node.op == "output":
                trace.root.result = arguments[0][0]
            elif node.op == "call_function" and node.target is torch._assert:
                continue
            else:
                if self.changes(node, module):  # from here on the input's name means what the operation has made of it
                    renamed[self.changed(node, module, renamed)] = node.name
                place = self.where(node, module)
                trace.add((*self.step(node, module, *arguments), place))
                if node.meta.get("no_grad") and node.op != "call_module":
                    trace.add(("function", node.name, "no_gradient", (Value(node.name),), {}, place))
        trace.inputs = inputs
        return trace

    def plain(self, x, renamed):
        """Arguments without torch: names of values, numbers, and their lists."""
        import torch  # type: ignore[import-not-found]

        if isinstance(x, torch.fx.Node):
            name = x.name
            while name in renamed:
                name = renamed[name]
            return Value(name)
        if isinstance(x, slice):
            return slice(*(self.plain(part, renamed) for part in (x.start, x.stop, x.step)))
        if isinstance(x, (list, tuple)):
            return (list if isinstance(x, list) else tuple)(self.plain(part, renamed) for part in x)
        if isinstance(x, dict):
            return {k: self.plain(part, renamed) for k, part in x.items()}
        if isinstance(x, torch.dtype):
            return getattr(xp, str(x).removeprefix("torch."))
        return None if isinstance(x, (torch.memory_format, torch.device, torch.layout)) else x

    @staticmethod
    def changes(node, module):
        """Whether the operation writes to its first input."""
        if node.op == "call_module":
            return getattr(module.get_submodule(node.target), "inplace", False)
        if node.op not in ("call_function", "call_method"):
            return False
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        return name == "setitem" or node.kwargs.get("inplace", False) or name[-1:] == "_" and name[-2:] != "__" and name not in OPERATORS

    def changed(self, node, module, renamed):
        """The name of the input that is changed. Another array may share its memory: that is refused if it is read again."""
        first = node.args[0] if node.args else node.kwargs["input"]
        base, shared, following = _viewed(first), [], node.next
        for other in node.graph.nodes:  # those before the change that are views of the same memory
            if other is node:
                break
            if other is not first and (other is base or _viewed(other) is base):
                shared.append(other)
        while following.op != "root":
            read = [other for other in following.all_input_nodes if other in shared]
            if read and not (getattr(following.target, "__name__", "") == "getattr" and following.args[1] in ("shape", "dtype", "device")
                             or following.target in ("size", "dim", "numel")):
                raise TypeError(f"from_torch: {self.where(node, module, True)}: {node.name} changes " + (
                    f"a view of {base.name}" if read[0] is base else f"{first.name}, of which {read[0].name} is a view") +
                    ", which is read again: expected no change in place")
            following = following.next
        if base.op == "get_attr":
            raise TypeError(f"from_torch: {self.where(node, module, True)}: forward changes {base.target}, which stays as it is in the network: "
                            "expected a result of forward")
        return self.plain(first, renamed)

    def where(self, node, module, with_text=False):
        from . import _torch_tracer

        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = stack[-1] if stack else ("", type(module))
        text = f"{path or type(module).__name__} ({getattr(kind, '__name__', kind)})"
        if node.meta.get("line"):
            text += ", " + _torch_tracer.shown(*node.meta["line"], with_text)
        return text

    def step(self, node, module, arguments, keywords):
        """(kind, name, target, arguments, keywords)"""
        if node.op == "call_module":
            return "module", node.name, node.target, arguments, keywords
        if node.op == "get_attr":
            return "state", node.name, self.state_of(module, node.target), arguments, keywords
        target = node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        source = "" if isinstance(target, str) else getattr(target, "__module__", "") or ""
        if hasattr(target, "_fields") or source == "math":  # a named tuple; numbers
            return "python", node.name, target, arguments, keywords
        if source == "_operator" and name in OPERATORS:
            return "operator", node.name, name, arguments, keywords
        known = known_as(name, isinstance(target, str), source)
        if not known or not (isinstance(target, str) or source.split(".")[0] in ("torch", "torchvision", "builtins", "_operator", "freight")):
            self.refuse(node, module, f"{source}.{name}" if source else f"Tensor.{name}")
        self.check(node, module, known, arguments, keywords)
        return "function", node.name, known, arguments, keywords

    def check(self, node, module, name, arguments, keywords):
        for needless in ("memory_format", "out", "requires_grad", "non_blocking", "generator"):
            if keywords.get(needless, "") is None or keywords.get(needless, "") is False:
                del keywords[needless]
        try:
            given = inspect.signature(FUNCTIONS[name]).bind(*arguments, **keywords).arguments
        except TypeError as error:
            instead = f": expected {INSTEAD[name]}" if name in INSTEAD else ""
            raise TypeError(f"from_torch: {self.where(node, module, bool(instead))}: {name}: {error}{instead}") from error
        for key, needed in FIXED.get(name, {}).items():
            if given.get(key, needed) != needed:
                raise ValueError(f"from_torch: {self.where(node, module)}: {name}: expected {key}={needed!r}, got {given[key]!r}")

    def refuse(self, node, module, function):
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = stack[-1] if stack else ("", type(module))
        instead = INSTEAD.get(function.rsplit(".", 1)[-1], "")
        if getattr(kind, "__module__", "").startswith("torch.nn."):
            raise TypeError(f"from_torch: {path or 'the module'} ({kind.__name__}) is no layer of freight.nn, and {function} no function "
                            "of Freight: write the network with freight.nn, and load the state_dict()")
        raise TypeError(f"from_torch: {self.where(node, module, True)}: {function} is no function of Freight: "
                        f"{instead and f'use {instead}, or '}write the network with freight.nn, and load the state_dict()")

    def state_of(self, module, path):
        """The path of a parameter or a buffer; other tensors become constants."""
        value = module
        for part in path.split("."):
            value = getattr(value, part)
        if path in module.state_dict() and value.is_floating_point():
            return path
        if path.startswith("_tensor_constant"):  # torch.fx numbers those of each mode from 0
            path = f"constant{len(self.constants)}"
        value = xp.asarray(value.detach().cpu().numpy(), copy=True)
        self.constants[path] = xp.astype(value, xp.float32) if value.dtype == xp.float64 else value
        return path
