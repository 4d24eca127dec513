"""Writes freight/_layers.py and the stubs of nn from the library's declarations of layers (src/freight/nn/layer_type.h), and optim.pyi
from its optimizers: called by generate.py. A new layer of the library needs nothing here.
"""
import ast
import re

# PyTorch's parameters in its order, for layers that it has: "parameter=field" where it has another name than the library's
# declaration. Those behind * and fields that are not listed are keywords alone.
TORCH = {
    "Linear": "in_features=in out_features=out bias",
    "Conv1d": "in_channels=in out_channels=out kernel_size=kernel stride padding dilation groups bias padding_mode",
    "Conv2d": "in_channels=in out_channels=out kernel_size=kernel stride padding dilation groups bias padding_mode",
    "ConvTranspose1d": "in_channels=in out_channels=out kernel_size=kernel stride padding output_padding groups bias dilation",
    "ConvTranspose2d": "in_channels=in out_channels=out kernel_size=kernel stride padding output_padding groups bias dilation",
    "MaxPool1d": "kernel_size=kernel stride padding dilation return_indices ceil_mode",
    "MaxPool2d": "kernel_size=kernel stride padding dilation return_indices ceil_mode",
    "AvgPool1d": "kernel_size=kernel stride padding ceil_mode count_include_pad",
    "AvgPool2d": "kernel_size=kernel stride padding ceil_mode count_include_pad divisor_override=divisor",
    "AdaptiveAvgPool1d": "output_size=output",
    "AdaptiveAvgPool2d": "output_size=output",
    "AdaptiveMaxPool1d": "output_size=output",
    "AdaptiveMaxPool2d": "output_size=output",
    "Upsample": "size scale_factor=factor mode align_corners",
    "Unflatten": "dim=axis unflattened_size=sizes",
    "BatchNorm1d": "num_features=channels eps momentum affine track_running_stats=running",
    "BatchNorm2d": "num_features=channels eps momentum affine track_running_stats=running",
    "InstanceNorm1d": "num_features=channels eps momentum affine track_running_stats=running",
    "InstanceNorm2d": "num_features=channels eps momentum affine track_running_stats=running",
    "LayerNorm": "normalized_shape=shape eps elementwise_affine=affine bias",
    "RMSNorm": "normalized_shape=shape eps elementwise_affine=affine",
    "LayerNorm2d": "num_channels=channels eps",
    "GroupNorm": "num_groups=groups num_channels=channels eps affine",
    "Dropout": "p",
    "Flatten": "start_dim=start end_dim=end",
    "Embedding": "num_embeddings=rows embedding_dim=width padding_idx max_norm norm_type scale_grad_by_freq",
    "EmbeddingBag": "num_embeddings=rows embedding_dim=width * mode padding_idx",
    "LeakyReLU": "negative_slope=slope",
    "Softmax": "dim=axis",
    "LogSoftmax": "dim=axis",
    "Softmin": "dim=axis",
    "GLU": "dim=axis",
    "Hardshrink": "lambd=lambda",
    "Softshrink": "lambd=lambda",
    "PReLU": "num_parameters=channels init=value",
    "LSTM": "input_size=in hidden_size=hidden num_layers=layers bias * proj_size=projection",
    "GRU": "input_size=in hidden_size=hidden num_layers=layers bias",
    "MultiheadAttention": "embed_dim=width num_heads=heads dropout bias kdim=key_width vdim=value_width",
    "TransformerBlock": "embed_dim=width num_heads=heads",
    "Permute": "dims=axes",
}
# Settings for which PyTorch says None: the value of the library's declaration that means the same.
NONE = {("MaxPool1d", "stride"): 0, ("AvgPool1d", "stride"): 0, ("MaxPool2d", "stride"): 0, ("AvgPool2d", "stride"): 0,
        ("AvgPool1d", "divisor"): 0, ("AvgPool2d", "divisor"): 0, ("Upsample", "size"): 0, ("Upsample", "factor"): 0,
        ("Upsample", "align_corners"): False, ("Embedding", "padding_idx"): -1,
        ("Embedding", "max_norm"): -1, ("EmbeddingBag", "padding_idx"): -1, ("MultiheadAttention", "key_width"): 0, ("MultiheadAttention", "value_width"): 0,
        ("RMSNorm", "eps"): 1.1920928955078125e-07}
# Settings of Python that are words, or None for one of several numbers: the values of the library's declaration that mean the same.
WORDS = {("Conv1d", "padding"): {"same": -1, "valid": 0}, ("Conv2d", "padding"): {"same": -1, "valid": 0}}
WORDS |= {("EmbeddingBag", "padding_idx"): {None: -1}}
WORDS |= {("BatchNorm1d", "momentum"): {None: -1}, ("BatchNorm2d", "momentum"): {None: -1}}
WORDS |= {(f"Adaptive{kind}Pool{n}d", "output"): {None: 0} for kind in ("Avg", "Max") for n in (1, 2)}
# Layers whose calls take and return more than arrays: their classes are in freight/_layer_kinds.py.
BASES = {"Embedding": "EmbeddingLayer", "EmbeddingBag": "BagLayer", "LSTM": "RecurrentLayer", "GRU": "RecurrentLayer", "MultiheadAttention": "AttentionLayer"}
# PyTorch's layers that may change their input: they take `inplace`, which means nothing here.
INPLACE = ("Dropout", "ELU", "CELU", "SELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish", "ReLU", "ReLU6", "SiLU", "Threshold")
WRITTEN = ("Sequential",)  # by hand, in freight/_containers.py
TYPES = {"integer": "int", "number": "float", "flag": "bool", "text": "str", "extents": "int | Sequence[int]", "layer": "Module",
         "layers": "Sequence[Module] | dict[str, Module]"}


def parameters_of(layer):
    """(name in Python, field, may be positional), in Python's order; those without a default come first."""
    fields = {f["key"]: f for f in layer["fields"]}
    if layer["name"] not in TORCH:
        listed = [(re.sub("^in$", "in_features", re.sub("^out$", "out_features", key)), key) for key in fields]
    else:
        listed = [(part.split("=")[0], part.split("=")[-1]) for part in TORCH[layer["name"]].split()]
    first_keyword = [name for name, _ in [*listed, ("*", "")]].index("*")
    parameters = [(name, fields[key], i < first_keyword) for i, (name, key) in enumerate(listed) if name != "*"]
    parameters += [(key, f, False) for key, f in fields.items() if key not in [k for _, k in listed]]
    required = [p for p in parameters if p[1]["required"]]
    return required + [p for p in parameters if not p[1]["required"]]


def default_of(layer, f):
    if f["kind"] == "layer":
        return "None"
    return "None" if (layer["name"], f["key"]) in NONE else repr(f["default"])


def signature(layer, text, batch_first):
    parts, keywords = [], False
    for name, f, positional in parameters_of(layer):
        if not positional and not keywords:
            parts.append("*")
            keywords = True
        parts.append(text(name, f))
    if layer["name"] in BASES:  # PyTorch's name for the only order of axes here: Layer._make refuses False
        parts += ["*"] * (not keywords) + ["batch_first" + batch_first]
    if layer["name"] in INPLACE:
        parts.insert(parts.index("*") if "*" in parts else len(parts), "inplace" + (": bool = ..." if ":" in batch_first else "=False"))
    return ", ".join(["self", *parts])


def stub_type(layer, f):
    if f["choices"]:
        return "Literal[" + ", ".join(repr(c) for c in f["choices"]) + "]"
    optional = not f["required"] and default_of(layer, f) == "None"
    words = WORDS.get((layer["name"], f["key"]))
    if words and None in words:
        return {"number": "float | None", "integer": "int | None"}.get(f["kind"]) or "int | Sequence[int | None] | None"
    return (f"Literal[{', '.join(repr(w) for w in words)}] | " if words else "") + TYPES[f["kind"]] + (" | None" if optional else "")


def parameters_stub(function):
    """The parameters of a hand-written function, without types."""
    a = function.args
    positional = a.args
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    parts = [f"{p.arg}: Any" + (" = ..." if d is not None else "") if p.arg != "self" else "self" for p, d in zip(positional, defaults)]
    parts += ["*"] * bool(a.kwonlyargs)
    return ", ".join(parts + [f"{p.arg}: Any" + (" = ..." if d is not None else "") for p, d in zip(a.kwonlyargs, a.kw_defaults)])


def function_layers_stub(tree):
    """Stubs of the classes of nn/_functional_layers.py, those that are made by _paddings among them."""
    stub, private = [], {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] == "_"}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name[0] != "_":
            bases = [b.id if isinstance(b, ast.Name) else b.attr for b in node.bases]
            functions = [f for n in (private.get(bases[0]), node) if n for f in n.body if isinstance(f, ast.FunctionDef)]
            called = [f for f in functions if f.name == "forward" and node.name != "FunctionLayer"]
            shown = "Layer" if bases[-1] == node.name else "Module" if called else "FunctionLayer" if bases[0] in private else bases[0]
            stub.append(f"class {node.name}({shown}):")
            inits = [f for f in functions if f.name == "__init__"]
            body = [f"    {p.arg}: Any" for f in inits for p in f.args.args[1:] + f.args.kwonlyargs if "Upsampling" not in node.name]
            body += [f"    def __init__({parameters_stub(f)}) -> None: ..." for f in inits]
            body += [f"    def forward({parameters_stub(f)}) -> Any: ..." for f in called]
            body += ["    def forward(self, *arrays: Array) -> Any: ..."] if node.name == "FunctionLayer" else []
            stub += body or ["    pass"]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            value = ", value: float" if node.value.args[1].id == "_ConstantPadding" else ""
            for name in node.targets[0].elts:
                stub += [f"class {name.id}(FunctionLayer):", "    padding: Any", "    value: float",
                         f"    def __init__(self, padding: int | Sequence[int]{value}) -> None: ..."]
    return stub


def functions_stub(*trees):
    functions = [f for tree in trees for f in tree.body if isinstance(f, ast.FunctionDef) and f.name[0] != "_"]
    return "".join(f"def {f.name}({parameters_stub(f)}) -> Any: ...\n" for f in functions)


def write(core, package, write_stub, stubs):
    layers = [t for t in core.layer_types() if t["name"] not in WRITTEN]
    lines = ['"""Layers, written by generate_nn.py from the library\'s declarations."""',
             "from ._layer_kinds import AttentionLayer, BagLayer, EmbeddingLayer, RecurrentLayer", "from ._module import Layer", ""]
    lines += ["__all__ = [" + ", ".join(repr(t["name"]) for t in layers) + "]", ""]
    functional, layers_of_functions, ctc, volumes = (ast.parse((package / f"nn/{name}.py").read_text())
                                                     for name in ("functional", "_functional_layers", "_ctc", "_volumes"))
    wider = [n.name for n in layers_of_functions.body if isinstance(n, ast.ClassDef)]  # than the library's layer of that name
    stub = []
    for t in layers:
        parameters = parameters_of(t)
        doc = t["doc"][0].upper() + t["doc"][1:] + "."
        told = [f"    {name}: {f['doc'].replace('-1: none', 'None: none')}" for name, f, _ in parameters]
        base = BASES.get(t["name"], "Layer")
        lines += ["", f"class {t['name']}({base}):"]
        lines += [f'    """{doc}', "", *told, '    """'] if told else [f'    """{doc}"""']
        containers = {name: f["kind"] for name, f, _ in parameters if f["kind"].startswith("layer")}
        usual = {name: f["default"] for name, f, _ in parameters if not f["required"] and f["kind"] not in ("layer", "layers")}
        usual = {name: None if default_of(t, f) == "None" else f["default"] for name, f, _ in parameters if name in usual}
        lines += ["", f"    _type = {t['name']!r}", f"    _keys: dict[str, str] = {({name: f['key'] for name, f, _ in parameters})!r}",
                  f"    _usual: dict[str, object] = {usual!r}", f"    _containers: dict[str, str] = {containers!r}"]
        words = {key: values for (name, key), values in WORDS.items() if name == t["name"]}
        lines += [f"    _words: dict[str, dict[str | None, int]] = {words!r}"] if words else []
        lines += ["", f"    def __init__({signature(t, lambda n, f: n if f['required'] else f'{n}={default_of(t, f)}', '=True')}):",
                  "        self._make(locals())", ""]
        if t["name"] in wider:
            continue
        stub.append(f"class {t['name']}({base}):")
        stub += [f"    {name}: Any" for name, f, _ in parameters if name not in containers]
        stub.append(f"    def __init__({signature(t, lambda n, f: f'{n}: {stub_type(t, f)}' + ('' if f['required'] else ' = ...'), ': Literal[True] = ...')}) -> None: ...")
    (package / "_layers.py").write_text("\n".join(lines))
    stub += function_layers_stub(layers_of_functions)
    head = "from .. import Array, History\nfrom ..callbacks import Callback\nfrom . import functional as functional, init as init\n"
    write_stub(package / "callbacks.pyi", "from . import History\n" + (stubs / "callbacks.pyi").read_text())
    write_stub(package / "distributed.pyi", "from . import Array\n" + (stubs / "distributed.pyi").read_text())
    write_stub(package / "nn/functional.pyi", functions_stub(functional, ctc, volumes) + "upsample = interpolate\n")
    write_stub(package / "nn/init.pyi", functions_stub(ast.parse((package / "nn/init.py").read_text())))
    write_stub(package / "nn/__init__.pyi", head + (stubs / "nn.pyi").read_text() + "\n" + "\n".join(stub) + "\n")
    write_optimizers(core, package, write_stub, "from . import Array\nfrom .nn import Module, Parameter\n", stubs)


def write_optimizers(core, package, write_stub, head, stubs):
    lines = ['"""Optimizers and schedules of learning rates; the optimizers are written by generate_nn.py."""', "from . import _hints",
             "from ._optim import Optimizer, Plateau, Schedule, constant, cosine, cosine_restarts, linear, multi_step, one_cycle, step  # noqa: F401", ""]
    stub = []
    for name, doc, settings in core.optimizers():
        betas = tuple(settings.pop(b) for b in ("beta1", "beta2") if b in settings)
        usual = {}
        for key, value in settings.items():
            usual[key] = value
            if key == "lr" and betas:
                usual["betas"] = betas
        kinds = {key: "tuple[float, float]" if key == "betas" else type(value).__name__ for key, value in usual.items()}
        lines += ["", f"class {name}(Optimizer):", f'    """{doc}."""', "",
                  f"    def __init__(self, params, {', '.join(f'{k}={v!r}' for k, v in usual.items())}):",
                  "        self._make(params, locals())", ""]
        stub += [f"class {name}(Optimizer):",
                 f"    def __init__(self, params: _Parameters, {', '.join(f'{k}: {kinds[k]} = ...' for k in usual)}) -> None: ..."]
    lines += ["", "def __getattr__(name):", '    raise _hints.missing("module \'freight.optim\'", name, _hints.OPTIM)', ""]
    (package / "optim.py").write_text("\n".join(lines))
    write_stub(package / "optim.pyi", head + (stubs / "optim.pyi").read_text() + "\n" + "\n".join(stub) + "\n")


