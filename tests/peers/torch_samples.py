"""Writes PyTorch's own sample inputs with its answers, for torch_samples_test.cpp: python torch_samples.py SAMPLES.json.

PyTorch tests its functions on the samples of `op_db`, its modules on those of `module_db`, and their refusals on error
inputs; all are part of the wheel (torch.testing._internal). Each becomes one sample: the call of Freight that says the
same, the inputs, and PyTorch's values, gradients or refusal. A call is {"call": FUNCTION, ARGUMENT: VALUE, ...} with
the names of docs/functions.md, and may stand for a value itself; a layer is {"layer": TYPE, "settings": ..., ...}. The
gradients are those of sum(first result * weights), weights being ((i * 37) % 11 - 5) / 4 at flat place i.

torch_calls.py says how each function and module of PyTorch is called in Freight.
"""
import inspect
import json
import math
import random
import sys
import types
import unittest
import warnings

import torch

warnings.simplefilter("ignore")
try:
    import expecttest  # noqa: F401
except ImportError:  # the samples do not need it, the module that they stand in imports it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from torch_calls import DTYPES, FUNCTIONS, LOSSES, MODULES, SETTLED, Missing, loss_module, need, without_gradient  # noqa: E402

REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError, OverflowError)


def numbers(t):
    if t.is_complex():
        return [list(pair) for pair in zip(numbers(t.real), numbers(t.imag))]
    return [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in t.detach().reshape(-1).tolist()]


def exact(values):
    """Floating tensors in double, so that what single precision loses is no difference; a tensor met twice stays one."""
    made = {}

    def one(t):
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in made:
            copy = t.detach().clone()
            made[id(t)] = copy.double() if t.is_floating_point() else copy
        return made[id(t)]
    return [one(t) for t in values]


class Inputs:
    """The tensors of a sample, by identity."""

    def __init__(self):
        self.list, self.places = [], {}

    def place(self, t):
        if id(t) not in self.places:
            need(t.dtype in DTYPES, f"the element type {t.dtype}")
            self.places[id(t)] = len(self.list)
            self.list.append(t)
        return self.places[id(t)]

    def encode(self, v):
        if isinstance(v, torch.Tensor):
            return {"tensor": self.place(v)}
        if isinstance(v, dict):
            return {k: self.encode(x) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return [self.encode(x) for x in v]
        if isinstance(v, float) and not math.isfinite(v):
            return str(v)
        return {"not compiled": "a complex number"} if isinstance(v, complex) else v

    def entries(self):
        return [{"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data": numbers(t)} for t in self.list]


def answer(function, tensors, places):
    """Values and gradients of function(), whose leaves are `tensors`, the doubles of the sample's inputs `places`."""
    y = function()
    results = [t for t in pytree.tree_leaves(y) if isinstance(t, torch.Tensor)]
    first = results[0]
    if first.is_floating_point() and first.requires_grad and first.numel() > 0:
        weights = (torch.arange(first.numel()) * 37 % 11 - 5).to(first.dtype).reshape(first.shape) / 4
        (first * weights).sum().backward()
    gradients = {}
    for t, place in zip(tensors, places):
        if t.requires_grad and t.grad is not None:
            gradients[str(place)] = numbers(t.grad)
    return {"results": [{"shape": list(t.shape), "values": numbers(t)} for t in results], "gradients": gradients}


def bound(names, args, kwargs):
    need(len(args) <= len(names), "more arguments")
    a = dict(zip(names, args))
    a.update({"x" if k in ("input", "self") else k: v for k, v in kwargs.items()})
    need("out" not in a, "`out`")
    need(set(a) <= set(names), "`" + "`, `".join(sorted(set(a) - set(names))) + "`")
    return a


def function_sample(op, names, adapter, sample, refused):
    args, kwargs = (sample.input, *sample.args), {**sample.kwargs, **SETTLED.get(op.name, {})}
    inputs = Inputs()
    try:
        ours = inputs.encode(adapter(bound(names, args, kwargs)))
    except Missing as missing:
        return {"missing": str(missing)}
    out = {"ours": ours, "inputs": inputs.entries()}
    try:
        if refused:
            op(*args, **kwargs)
            return {"missing": "an error of PyTorch's that depends on its build"}
        flat_args, spec = pytree.tree_flatten((args, kwargs))
        doubles = exact(flat_args)
        given = bound(names, args, kwargs)
        fixed = {id(given[k]) for k in without_gradient(op.name, names) if k in given}
        for before, after in zip(flat_args, doubles):
            if isinstance(after, torch.Tensor) and after.is_floating_point() and id(before) not in fixed:
                after.requires_grad_()
        leaves = [(t, inputs.places[id(b)]) for b, t in zip(flat_args, doubles)
                  if isinstance(b, torch.Tensor) and id(b) in inputs.places]
        a, k = pytree.tree_unflatten(doubles, spec)
        out.update(answer(lambda: op(*a, **k), [t for t, _ in leaves], [p for _, p in leaves]))
    except REFUSALS as error:
        out["refused"] = str(error).split("\n")[0]
    return out


def seed(name):
    torch.manual_seed(sum(name.encode()))
    random.seed(sum(name.encode()))


def function_samples():
    for op in op_db:
        if op.name not in FUNCTIONS or op.variant_test_name == "without_cudnn":
            continue
        names, adapter = FUNCTIONS[op.name]
        dtypes = [t for t in (torch.float32, torch.float64, torch.int64) if op.supports_dtype(t, "cpu")]
        for dtype in dtypes:
            seed(op.name)
            for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                yield {"torch": op.name, "dtype": DTYPES[dtype],
                       **function_sample(op, names, adapter, sample, refused=False)}
        if op.error_inputs_func is not None:
            seed(op.name)
            for error in op.error_inputs("cpu"):
                yield {"torch": op.name, "dtype": "error",
                       **function_sample(op, names, adapter, error.sample_input, refused=True)}


def constructed(info, given):
    arguments = inspect.signature(info.module_cls.__init__).bind(None, *given.args, **given.kwargs)
    arguments.apply_defaults()
    return dict(arguments.arguments)


def module_sample(info, given, training):
    inputs, out = Inputs(), {}
    name = info.module_cls.__name__
    forward = given.forward_input
    args = ()
    if forward is not None:
        args = inspect.signature(info.module_cls.forward).bind_partial(None, *forward.args, **forward.kwargs).args[1:]
    module = None
    try:
        module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
    except REFUSALS as error:
        out["refused"] = str(error).split("\n")[0]
    try:
        a = constructed(info, given.constructor_input)
        if name in LOSSES:
            args = args or (torch.zeros(1), torch.zeros(1))  # of a module that is refused before it is called
            ours = loss_module(LOSSES[name])({k: v for k, v in a.items() if k not in ("self", "device", "dtype")}, args)
        elif "call" in (ours := MODULES[name](a)):
            ours["x"] = args[0]
        else:
            ours["training"] = training
            ours["input"] = args[0] if args else torch.zeros(1)
            counts = getattr(module, "momentum", 0) is None  # the batches: a number of any type in Freight
            state = module.state_dict() if module is not None else {}
            ours["state"] = {k: v.detach().float() for k, v in state.items() if k != "num_batches_tracked" or counts}
        ours = inputs.encode(ours)
    except Missing as missing:
        return {"missing": str(missing)}
    out.update({"ours": ours, "inputs": inputs.entries()})
    if "refused" in out:
        return out
    try:
        module.double().train(training)
        doubles = [t.requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
                   for t in exact(list(args))]
        leaves = [(d, inputs.places[id(t)]) for t, d in zip(args, doubles)
                  if isinstance(t, torch.Tensor) and id(t) in inputs.places]
        for k, p in module.named_parameters():
            if "state" in ours:
                leaves.append((p, ours["state"][k]["tensor"]))
        out.update(answer(lambda: module(*doubles), [t for t, _ in leaves], [p for _, p in leaves]))
        if "state" in ours:
            out["after"] = {k: numbers(v) for k, v in module.state_dict().items() if k.startswith("running")}
    except REFUSALS as error:
        out["refused"] = str(error).split("\n")[0]
    return out


def module_samples():
    for info in module_db:
        name = info.module_cls.__name__
        if name not in MODULES and name not in LOSSES:
            continue
        options = dict(device="cpu", dtype=torch.float32, requires_grad=False)
        for training in ([True, False] if info.train_and_eval_differ else [True]):
            seed(name)
            for given in info.module_inputs_func(info, training=training, **options):
                yield {"torch": "nn." + name, "dtype": "f32", **module_sample(info, given, training)}
        if info.module_error_inputs_func is not None:
            seed(name)
            for error in info.module_error_inputs_func(info, training=True, **options):
                yield {"torch": "nn." + name, "dtype": "error",
                       **module_sample(info, error.module_error_input, True)}


# Names with a word for a subject of this file that are about others: views, random numbers, linear algebra, internals.
OTHERS = ("linalg", "masked.", "_", "native_", "jiterator", "as_strided", "normal", "log_normal", "max_pool2d_with")


def without_counterpart():
    """Pooling, normalisation, losses and indexing that op_db and module_db have and the tables above lack."""
    words = ("pool", "norm", "loss", "entropy", "index_", "scatter", "masked_", "put", "embedding")
    names = {op.name for op in op_db} - set(FUNCTIONS)
    found = {n for n in names if any(w in n.lower() for w in words) and not n.startswith(OTHERS)}
    modules = {i.module_cls.__name__ for i in module_db} - set(MODULES) - set(LOSSES)
    found |= {"nn." + n for n in modules if any(w in n.lower() for w in words) or n.endswith("Loss")}
    return sorted(found)


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = {"torch": torch.__version__.split("+")[0], "samples": [*function_samples(), *module_samples()],
              "without": without_counterpart()}
    with open(sys.argv[1], "w") as file:
        json.dump(result, file)
