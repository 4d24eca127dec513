"""Functions and methods of PyTorch by name, with PyTorch's parameters, on Freight's arrays: what networks that from_torch has
traced call. Those of torch.nn.functional are nn/functional.py's. Nothing here needs torch."""
import operator
from collections.abc import Callable
from typing import Any

from . import _beyond_standard, _core, _functions, xp
from ._array_api import _axis
from ._manipulation import _joined_axes
from .nn import functional

# Parameters that must have this value, by function: Freight has nothing for the others.
FIXED: dict[str, dict[str, Any]] = {
    "embedding": {"sparse": False},
    "scaled_dot_product_attention": {"dropout_p": 0.0, "enable_gqa": False}, "normalize": {"out": None},
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: f for name, f in vars(functional).items() if name[0] != "_" and callable(f)}
# Python's operators, which arrays and numbers have.
OPERATORS = {name: getattr(operator, name) for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "matmul", "getitem", "eq", "ne", "lt", "le", "gt", "ge",
    "and_", "or_", "xor", "invert", "abs")}


def _named(*names):
    def keep(function):
        FUNCTIONS.update(dict.fromkeys(names or (function.__name__.strip("_"),), function))
        return function
    return keep


def _unary(name, function):
    FUNCTIONS[name] = lambda input: function(input)


for _name in ("abs", "ceil", "cos", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "round", "sign", "sin", "sqrt",
              "square", "tan", "trunc", "reciprocal", "logical_not"):
    _unary(_name, getattr(xp, _name))
for _name in ("rsqrt", "erf"):
    _unary(_name, getattr(_functions, _name))
_unary("neg", xp.negative)
_BINARY = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_BINARY.update((_name, _name) for _name in ("maximum", "minimum", "logical_and", "logical_or", "pow", "floor_divide", "remainder"))
for _name, _standard in _BINARY.items():
    FUNCTIONS[_name] = lambda input, other, _function=getattr(xp, _standard): _function(input, other)
for _name in ("matmul", "bmm", "mm", "mv"):
    FUNCTIONS[_name] = lambda input, other: input @ other


@_named("add")
def _add(input, other, *, alpha=1):
    return input + (other if alpha == 1 else other * alpha)


@_named("sub", "subtract")
def _sub(input, other, *, alpha=1):
    return input - (other if alpha == 1 else other * alpha)


@_named("mul", "multiply")
def _mul(input, other):
    return input * other


@_named("div", "divide", "true_divide")
def _div(input, other):
    return input / other


@_named("addmm")
def _addmm(input, mat1, mat2, *, beta=1, alpha=1):
    return beta * input + alpha * (mat1 @ mat2)


FUNCTIONS["einsum"] = _beyond_standard.einsum


# Shapes.

def _sizes(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes


@_named("size")
def _size(input, dim=None):
    return input.shape if dim is None else input.shape[dim]


@_named("dim")
def _dim(input):
    return input.ndim


@_named("numel")
def _numel(input):
    return input.size


@_named("view", "reshape")
def _view(input, *shape):
    return xp.reshape(input, _sizes(shape))


@_named("view_as", "reshape_as")
def _view_as(input, other):
    return xp.reshape(input, other.shape)


@_named("flatten")
def _flatten(input, start_dim=0, end_dim=-1):
    return _joined_axes(input, start_dim, end_dim)


@_named("unflatten")
def _unflatten(input, dim, sizes):
    dim = _axis(dim, input.ndim)
    return xp.reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1:]))


@_named("permute")
def _permute(input, *dims):
    return xp.permute_dims(input, _sizes(dims))


@_named("transpose", "swapaxes", "swapdims")
def _transpose(input, dim0, dim1):
    return input.swapaxes(dim0, dim1)


@_named("t")
def _t(input):
    return input.T


@_named("movedim", "moveaxis")
def _movedim(input, source, destination):
    return xp.moveaxis(input, source, destination)


@_named("unsqueeze")
def _unsqueeze(input, dim):
    return xp.expand_dims(input, axis=dim)


@_named("squeeze")
def _squeeze(input, dim=None):
    dims = range(input.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    return xp.squeeze(input, tuple(d for d in dims if input.shape[d] == 1))


@_named("expand")
def _expand(input, *sizes):
    sizes = _sizes(sizes)
    own = (1,) * (len(sizes) - input.ndim) + tuple(input.shape)
    return xp.broadcast_to(input, tuple(o if s == -1 else s for o, s in zip(own, sizes)))


@_named("expand_as")
def _expand_as(input, other):
    return xp.broadcast_to(input, other.shape)


@_named("repeat")
def _repeat(input, *sizes):
    return xp.tile(input, _sizes(sizes))


@_named("cat", "concat", "concatenate")
def _cat(tensors, dim=0):
    return xp.concat(list(tensors), axis=dim)


@_named("stack")
def _stack(tensors, dim=0):
    return xp.stack(list(tensors), axis=dim)


@_named("split")
def _split(input, split_size_or_sections, dim=0):
    count, sizes = input.shape[dim], split_size_or_sections
    if isinstance(sizes, int):
        sizes = [min(sizes, count - at) for at in range(0, count, sizes)]
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    before = (slice(None),) * _axis(dim, input.ndim)
    return tuple(input[(*before, slice(end - size, end))] for size, end in zip(sizes, ends))


@_named("chunk")
def _chunk(input, chunks, dim=0):
    return _split(input, -(-input.shape[dim] // chunks), dim)


@_named("unbind")
def _unbind(input, dim=0):
    return tuple(xp.unstack(input, axis=dim))


@_named("select")
def _select(input, dim, index):
    return _beyond_standard.select(input, dim, index)


@_named("narrow")
def _narrow(input, dim, start, length):
    return _beyond_standard.narrow(input, dim, start, length)


@_named("contiguous", "clone")
def _same(input, *, memory_format=None):
    return input


@_named("float")
def _float(input):
    return xp.astype(input, xp.float32, copy=False)


@_named("type_as")
def _type_as(input, other):
    return xp.astype(input, other.dtype, copy=False)


@_named("detach")
def _detach(input):
    return _functions.stop_gradient(input)


# Reductions.

def _over(function):
    def reduced(input, dim=None, keepdim=False):
        return function(input, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)
    return reduced


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": xp.mean, "sum": xp.sum, "prod": xp.prod, "amax": xp.max, "amin": xp.min, "any": xp.any, "all": xp.all,
    "argmax": xp.argmax, "argmin": xp.argmin, "logsumexp": _functions.logsumexp}
for _name, _function in _REDUCTIONS.items():
    FUNCTIONS[_name] = _over(_function)


@_named("cumsum")
def _cumsum(input, dim):
    return xp.cumulative_sum(input, axis=dim)


@_named("var")
def _var(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    dim = tuple(dim) if isinstance(dim, list) else dim
    return xp.var(input, axis=dim, correction=float(unbiased if correction is None else correction), keepdims=keepdim)


@_named("std")
def _std(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return xp.sqrt(_var(input, dim, unbiased, keepdim, correction=correction))


@_named("max")
def _max(input, dim=None, keepdim=False):
    return _extreme(input, dim, keepdim, xp.max, xp.argmax, xp.maximum)


@_named("min")
def _min(input, dim=None, keepdim=False):
    return _extreme(input, dim, keepdim, xp.min, xp.argmin, xp.minimum)


def _extreme(input, dim, keepdim, value, place, both):
    if dim is None:
        return value(input)
    if isinstance(dim, _core.Array):  # the other operand
        return both(input, dim)
    return value(input, axis=dim, keepdims=keepdim), place(input, axis=dim, keepdims=keepdim)


# Elements.

@_named("clamp", "clip")
def _clamp(input, min=None, max=None):
    return xp.clip(input, min, max)


@_named("where")
def _where(condition, input, other):
    return xp.where(condition, input, other)


@_named("masked_fill")
def _masked_fill(input, mask, value):
    return xp.where(mask, value, input)


@_named("tril")
def _tril(input, diagonal=0):
    return xp.tril(input, k=diagonal)


@_named("triu")
def _triu(input, diagonal=0):
    return xp.triu(input, k=diagonal)


@_named("stochastic_depth")  # torchvision's
def _stochastic_depth(input, p, mode, training=True):
    if not training or not p:
        return input
    count = input.shape[0] if mode == "row" else 1
    return input * _functions.dropout(xp.ones((count, *(1,) * (input.ndim - 1))), p)


@_named("getattr")
def _getattr(input, name):
    if name not in ("shape", "ndim", "dtype", "device", "T", "mT"):
        raise AttributeError(f"from_torch: tensors have {name!r}, Freight's arrays do not")
    return getattr(input, name)
