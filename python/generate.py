#!/usr/bin/env python3
"""Writes the modules and stubs of the package that follow from the library's signatures: usage: generate.py PACKAGE_DIR.

PACKAGE_DIR has the extension module, which is asked for the signatures of public_functions() (src/freight/ops/signature.h)
and the elementwise functions, and the command, which is asked for its options: a new function or flag needs nothing here.
The tables below are the only names that differ between the library and the package.
"""
import ast
import importlib.util
import json
import keyword
import pathlib
import re
import subprocess
import sys

import generate_nn

# Functions of the library that the package has under another name, the standard's, and with the standard's semantics; those
# that have the standard's name are recognized by it. freight/_hints.py has what each is called.
REPLACED = set("""
    shift_left shift_right is_finite is_inf is_nan clamp cast stddev cumsum cumprod transpose permute unsqueeze iota
    matrix_trace slice norm random_uniform random_normal randn randint
""".split())
# Names of parameters in Python.
PARAMETERS = {"axes": "axis", "keep": "keepdims"}
# The standard's elementwise functions: what their documents say where the library has another function or none.
DOCS = {
    "conj": "The complex conjugate.",
    "divide": "x1 / x2; of integers in float32.",
    "floor_divide": "x1 / x2 rounded down.",
    "pow": "x1 to the power x2.",
    "remainder": "What a division leaves, with the sign of x2.",
}
TYPES = {
    "tensor": "Array", "list of tensors": "Sequence[Array]", "integer": "int", "list of integers": "Sequence[int]",
    "integer or list of integers": "int | Sequence[int]", "number": "float", "true or false": "bool", "choice": "str",
    "element type": "dtype", "text": "str",
}


def load(package):
    [path] = package.glob("_core*.so")
    spec = importlib.util.spec_from_file_location("_core", path)
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


def python_name(name):
    name = PARAMETERS.get(name, name)
    return name + "_" if keyword.iskeyword(name) else name


def default_of(p):
    value = p["default"]
    if hasattr(value, "itemsize"):  # an element type
        return f"_core.{value.name}"
    return repr(value)


def sentence(text, usual=None):
    """Text with a capital letter and a full stop. In the help of an option, whose usual value is given, values keep their letters: the
    first word of a list ("sgd, adam or muon"), one that is explained ("mixup: ...") or is the usual value."""
    value = usual is not None and (re.match(r"[\w.+-]+( or |[,|=;:])|\w*[\d_.]", text) or text.split(" ")[0] == usual)
    text = text[0].upper() + text[1:] if text[:1].islower() and text[1:2] not in " (_" and not value else text
    return text.replace("\\", "\\\\").replace('"""', "'''") + ("" if text.endswith(".") else ".")


def parameter_text(p):
    return python_name(p["name"]) + ("" if p["required"] else f"={default_of(p)}")


def parameter_stub(p):
    kind = TYPES[p["kind"]] + (" | float" if p["takes_number"] else "")
    if p["choices"]:
        kind = "Literal[" + ", ".join(repr(c) for c in p["choices"]) + "]"
    optional = not p["required"] and p["default"] is None
    return f"{python_name(p['name'])}: {kind}{' | None' if optional else ''}{'' if p['required'] else ' = ...'}"


def elementwise(core):
    documented = {s["name"]: s["doc"] for s in core.signatures()}
    library = {"isfinite": "is_finite", "isinf": "is_inf", "isnan": "is_nan", "bitwise_left_shift": "shift_left",
               "bitwise_right_shift": "shift_right"}
    for name in sorted(n for n in vars(core.elementwise) if not n.startswith("_")):
        operands = "x1, x2" if core.elementwise_operands(name) == 2 else "x"
        doc = DOCS.get(name) or sentence(documented[library.get(name, name)])
        yield name, operands, doc


def own_functions(core, package):
    """The library's functions that the package has as they are, with their numbers."""
    taken = REPLACED | {n for n in vars(core.elementwise)}
    taken |= {f.name for name in ("_dtypes", "_manipulation", "_array_api", "_beyond_standard", "_linalg") for f in functions_of(package / f"{name}.py")}
    found = {}
    for index, s in enumerate(core.signatures()):
        if s["name"] in taken:
            continue
        if s["name"] in found:
            raise SystemExit(f"generate.py: overloads of {s['name']}: write one of them by hand in freight/_array_api.py")
        found[s["name"]] = (index, s)
    return list(found.values())


def write_functions(core, package):
    lines = ['"""Functions that are generated from the library\'s signatures by generate.py."""',
             "from . import _core", "", "_elementwise = _core.elementwise", "_function = _core.call_function",
             "_names = {s['name']: i for i, s in reversed(list(enumerate(_core.signatures())))}", "", "",
             "def _call(name, *values):",
             '    """Calls a function of the library by name, with values in the order of its parameters."""',
             "    return _function(_names[name], values)", ""]
    for name, operands, doc in elementwise(core):
        lines += ["", f"def {name}({operands}, /):", f'    """{doc}"""', f"    return _elementwise.{name}({operands})", ""]
    for index, s in own_functions(core, package):
        parameters = s["parameters"]
        names = [python_name(p["name"]) for p in parameters]
        values = "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"
        lines += ["", f"def {s['name']}({', '.join(parameter_text(p) for p in parameters)}):",
                  f'    """{sentence(s["doc"])}"""', f"    return _function({index}, {values})", ""]
    lines.append("")
    (package / "_functions.py").write_text("\n".join(lines))


HEADER = '''# Written by generate.py.
import builtins
import os
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

from typing_extensions import Never, Self

'''


def annotation(name, default):
    """The type of a parameter of the hand-written functions, by its name."""
    known = {
        "x": "Array", "x1": "Array | complex", "x2": "Array | complex", "arrays": "Any", "shape": "int | Sequence[int]",
        "axis": "Any", "axes": "Any", "dtype": "Any", "device": "str | None", "keepdims": "bool", "copy": "bool | None",
        "correction": "float", "k": "int", "offset": "int", "obj": "Any", "n": "Any", "norm": "str", "d": "float",
        "indexing": "Literal['xy', 'ij']", "side": "Literal['left', 'right']", "descending": "bool", "stable": "bool",
        "a": "Array", "b": "Array", "rcond": "float | None", "full_rank": "bool", "max_squarings": "int",
    }
    missing = isinstance(default, ast.Constant) and default.value is None and name in ("x1", "x2")  # of where
    return known.get(name, "Any") + " | None" * missing


# What hand-written functions return; the others return an array.
RETURNS = {
    "isdtype": "bool", "can_cast": "bool", "result_type": "dtype", "finfo": "_FloatInfo", "iinfo": "_IntegerInfo",
    "meshgrid": "tuple[Array, ...]", "broadcast_arrays": "tuple[Array, ...]", "broadcast_shapes": "tuple[int, ...]",
    "unstack": "tuple[Array, ...]", "nonzero": "tuple[Array, ...]", "unique_all": "_UniqueAllResult",
    "unique_counts": "_UniqueCountsResult", "unique_inverse": "_UniqueInverseResult", "eigh": "_EighResult",
    "eig": "_EigResult", "qr": "_QRResult", "slogdet": "_SlogdetResult", "lstsq": "tuple[Array, Array, Array]", "svd": "_SVDResult",
    "__array_namespace_info__": "Any",
}


def stub_of(function, indent=""):
    """The stub of a function of a hand-written module."""
    a = function.args
    parts = []
    positional = a.posonlyargs + a.args
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    for i, (p, d) in enumerate(zip(positional, defaults)):
        parts.append(f"{p.arg}: {annotation(p.arg, d)}" + (" = ..." if d is not None else ""))
        if a.posonlyargs and i + 1 == len(a.posonlyargs):
            parts.append("/")
    if a.vararg:  # underlined where they are refused
        parts.append(f"*{a.vararg.arg}: {'Never' if a.vararg.arg.startswith('_') else 'Any'}")
    elif a.kwonlyargs:
        parts.append("*")
    for p, d in zip(a.kwonlyargs, a.kw_defaults):
        parts.append(f"{p.arg}: {annotation(p.arg, d)}" + (" = ..." if d is not None else ""))
    return f"{indent}def {function.name}({', '.join(parts)}) -> {RETURNS.get(function.name, 'Array')}: ..."


def functions_of(path):
    tree = ast.parse(path.read_text())
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and (not n.name.startswith("_") or n.name == "__array_namespace_info__")]


# The commands that are functions of the package.
COMMANDS = "train eval predict generate plan advise explain profile serve export verify report runs launch".split()
# Those of a group, which are functions of a module: freight.data.info, freight.models.show.
GROUPED = {"data": "list info verify check preview get sample".split(), "models": ["show"]}
PROGRESS = {"name": "--progress", "type": "flag", "required": False, "default": "true",
            "help": "show progress and notes on stderr; False: nothing but warnings and errors"}
# What the functions return: the keys that programs use, of those that --json prints.
RESULTS = {
    "train": "a dict: model (path of the file), output_dir, test_loss, test_top1 (percent; None without classes; without a test set None, "
             "beside val_loss and val_top1; tables have each metric behind test_ or val_: val_rmse), train_loss, steps, epochs, train_seconds, samples_per_second, parameters, interrupted.",
    "eval": "a dict: loss, top1 (percent; None without classes), count, split, data, seconds (and the other metrics by name: rmse, accuracy, macro_f1), "
            "scores (value, low and high of each metric: its interval).",
    "predict": "a list with a dict per sample: path (of texts: text), values (of classes, in its place: class, index, probability and probabilities, a dict by name).",
    "plan": "a dict: total_bytes, memory (bytes by use), flops, parameters, batch_size, largest_batch (by memory).",
    "advise": "a dict: answer, cheapest (each has hardware, devices, fits, run_hours, dollars).",
    "export": "a dict: file, input, output (texts of name, type and shape), nodes, bytes, weight_bytes, notes.",
    "verify": "a dict: model, passed, checks (each has name, check, state: pass, fail or not checked, note).",
    "runs": "a list with a dict per run: path, status, model, data, metric, best, epoch, steps, hours, settings.",
    "data info": "a dict: name, classes, train, test (each has count, shape, dtype, per_class); of a table: rows, columns.",
    "models show": "a dict: parameters, flops, layers, spec.",
    "serve": "a Server: url, models, close(); also a context manager.",
}
OPTION_TYPES = {"flag": "bool | None", "integer": "int | None", "number": "float | None", "text": "_Text", "list": "_Text | dict[str, Any]"}


def commands(package):
    """Arguments and flags of the commands, as the command lists them."""
    for name in COMMANDS + [f"{group} {name}" for group, names in GROUPED.items() for name in names]:
        text = subprocess.run([package / "bin/freight", *name.split(), "--help", "json"], check=True, text=True, stdout=subprocess.PIPE).stdout
        found = json.loads(text)
        arguments = {a["name"].split(" ")[0].lower(): a for a in found["arguments"]}  # of NAME or PATH
        options = {o["name"][2:].replace("-", "_"): o for o in found["options"] if o["name"] not in ("--help", "--json", "--progress")}
        options["progress"] = PROGRESS
        options = {n + "_" if keyword.iskeyword(n) else n: o for n, o in options.items()}
        yield name, found, arguments, {n: o for n, o in options.items() if n not in arguments}


def command_parameters(arguments, options, types):
    """The parameters of a command's function; `types` says if they have the types of a stub."""
    default = "..." if types else "None"
    parts = []
    for name, a in arguments.items():
        many = a["type"] == "list"
        parts.append(("*" if many else "") + name + (": Any" if many and types else ": _Text" if types else "")
                     + ("" if many or a["required"] else f" = {default}" if types else "=None"))
    if not any(a["type"] == "list" for a in arguments.values()):
        parts.append("*")
    return ", ".join(parts + [f"{n}: {OPTION_TYPES[o['type']]} = ..." if types else f"{n}=None" for n, o in options.items()])


def write_commands(package):
    """Writes the functions of the commands, and the stub of freight.data, and returns the stubs of the package's own."""
    lines = ['"""The commands as functions, generated from their options by generate.py."""', "from ._commands import run, serve as _serve", ""]
    stubs = ["_Text = str | float | os.PathLike[str] | Sequence[Any] | None", ""]
    of_data = list(stubs)
    for name, found, arguments, options in commands(package):
        doc = [sentence(found["summary"]), ""] + [f"{n}: {sentence(o['help'], o.get('default', ''))}" for n, o in {**arguments, **options}.items()]
        kinds = {o["name"]: o["type"] for o in [*found["options"], PROGRESS]}
        usual = "what the command prints as JSON." if "--json" in kinds else "the text that the command prints."
        doc += ["", f"Returns {RESULTS.get(name, usual)}"]
        values = ", ".join(f'"{o["name"]}": {n}' for n, o in options.items())
        plain = "[" + ", ".join(arguments) + "]"
        # A traceback shows the first line of a call: it stays short.
        call = "_serve(\n        " if name == "serve" else f'run(\n        "{name}", '
        result = f"{call}{plain},\n        {{{values}}},\n        {kinds}, others)"
        group, _, own = name.rpartition(" ")
        lines += ["", f"def {name.replace(' ', '_')}({command_parameters(arguments, options, False)}, **others):", '    """' + "\n    ".join(doc).rstrip() + '\n    """',
                  f"    return {result}", ""]
        stub = f"def {own}({command_parameters(arguments, options, True)}, **others: Never) -> {'Server' if name == 'serve' else 'Any'}: ..."
        if name == "plan":  # also of functions: _transforms.plan
            stub = f"@overload\ndef plan(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Plan: ...\n@overload\n{stub}"
        if group != "models":  # whose module is written by hand
            (of_data if group else stubs).append(stub)
    write_stub(package / "data.pyi", "\n".join(of_data) + "\n")
    (package / "_command_functions.py").write_text("\n".join(lines))
    return "\n".join(stubs) + "\n"


def estimators(core, stub):
    """The stub of the estimators, whose constructors have the settings of the learners of tables."""
    names = {"seed": "random_state", "lambda": "reg_lambda"}  # as in freight/_estimators.py
    settings = [names.get(n, n) for n in (flag[2:].replace("-", "_") for flag, _ in core.table_settings())]
    return stub.replace("SETTINGS", ", ".join(f"{n}: Any = ..." for n in settings))


def write_stub(path, text):
    """Writes a stub in which the type of Python is meant by `bool`: a module with the standard's names has another one."""
    path.write_text(HEADER + re.sub(r"(?<=[:>|,] )bool\b", "builtins.bool", text))


def main():
    package = pathlib.Path(sys.argv[1])
    core = load(package)
    write_functions(core, package)
    stubs = pathlib.Path(__file__).parent / "stubs"  # of what is written by hand and has no signature to read
    namedtuples = []
    for node in ast.parse((package / "_results.py").read_text()).body:
        if isinstance(node, ast.Assign):
            title, fields = (c.value for c in node.value.args)
            kind = "Array" if title.endswith("Result") else "Any"
            namedtuples += [f"class _{title}(NamedTuple):"] + [f"    {f}: {kind}" for f in fields.split()] + [""]
    types = [t for t in vars(core) if type(vars(core)[t]).__name__ == "dtype"]
    standard = [stub_of(f) for name in ("_dtypes", "_manipulation", "_array_api") for f in functions_of(package / f"{name}.py")]
    pointwise = [f"def {name}({', '.join(f'{o}: Array | complex' if ',' in operands else f'{o}: Array' for o in operands.split(', '))}, /) -> Array: ..."
                 for name, operands, _ in elementwise(core)]
    beyond = {f.name for f in functions_of(package / "_beyond_standard.py")}  # in package.pyi
    own_pointwise = [text for text, (name, _, _) in zip(pointwise, elementwise(core)) if name not in beyond]
    library = []
    for _, s in own_functions(core, package):
        result = "Array" if len(s["results"]) == 1 else "tuple[Array, ...]"
        library.append(f"def {s['name']}({', '.join(parameter_stub(p) for p in s['parameters'])}) -> {result}: ...")
    constants = ["e: float", "inf: float", "nan: float", "pi: float", "newaxis: None", ""] + [f"{t}: dtype" for t in types]
    array = (stubs / "array.pyi").read_text()
    package_stub = (stubs / "package.pyi").read_text()
    extensions = {}
    for name in ("linalg", "fft"):
        extensions[name] = [stub_of(f) for f in functions_of(package / f"_{name}.py")]
    write_stub(
        package / "__init__.pyi",
        "from . import callbacks as callbacks, data as data, distributed as distributed, fft as fft, linalg as linalg, models as models, nn as nn, optim as optim, random as random, xp as xp\n\n" + array + "\n" + "\n".join(namedtuples)
        + "\n".join(constants + [""] + [f for f in standard if "__array_namespace_info__" not in f] + own_pointwise + library) + "\n" + package_stub + write_commands(package)
        + "\n" + estimators(core, (stubs / "estimators.pyi").read_text()))
    write_stub(
        package / "xp.pyi",
        "from . import fft as fft, linalg as linalg\nfrom . import Array, dtype\n\n" + "\n".join(namedtuples)
        + "\n".join(["__array_api_version__: str"] + constants + [""] + standard + pointwise) + "\n")
    # The extension module, for the package's own modules alone.
    write_stub(package / "_core.pyi", "".join(f"{name}: Any\n" for name in vars(core) if not name.startswith("_")))
    generate_nn.write(core, package, write_stub, stubs)
    write_stub(package / "random.pyi", "from . import Array\n\n" + (stubs / "random.pyi").read_text())
    for name, stub in extensions.items():
        more = ["kron", "matmul", "matrix_transpose", "tensordot", "vecdot"] if name == "linalg" else []
        results = ["_EighResult", "_EigResult", "_QRResult", "_SlogdetResult", "_SVDResult"] if name == "linalg" else []
        names = ", ".join([f"{n} as {n}" for n in ["Array", *more]] + results)
        extra = "\nclass LinAlgError(ValueError): ...\n" if name == "linalg" else ""
        write_stub(package / f"{name}.pyi", f"from . import {names}\n\n" + "\n".join(stub) + "\n" + extra)


if __name__ == "__main__":
    main()
