"""Functions and methods of PyTorch by name, with PyTorch's parameters, on Freight's arrays: what networks that from_torch has
traced call. Those of torch.nn.functional are nn/functional.py's. Nothing here needs torch."""
import math
import operator
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from . import _beyond_standard, _core, _functions, xp
from . import random as _random
from ._array_api import _axis
from ._manipulation import _joined_axes
from .nn import functional

# Parameters that must have this value, by function: Freight has nothing for the others.
FIXED: dict[str, dict[str, Any]] = {
    "embedding": {"sparse": False},
    "normalize": {"out": None}, "nan_to_num": {"out": None}, "gather": {"sparse_grad": False},
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: f for name, f in vars(functional).items() if name[0] != "_" and callable(f)}
# Python's operators, which arrays and numbers have.
OPERATORS: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "matmul", "getitem", "eq", "ne", "lt", "le", "gt", "ge",
    "and_", "or_", "xor", "invert", "abs")}
# Names that a method, a function of torch and one of torch.nn.functional have with different parameters.
_DIFFERENT = {("embedding", "torch"), ("batch_norm", "torch"), ("instance_norm", "torch"), ("kl_div", "torch"),
              ("binary_cross_entropy_with_logits", "torch"), ("poisson_nll_loss", "torch")}
# What to use where Freight has no function of the name.
INSTEAD = {
    **dict.fromkeys(("item", "tolist", "numpy", "__bool__"), "functions of whole tensors: their values are not known before a call"),
    **dict.fromkeys(("nonzero", "masked_select", "unique"), "torch.where: the size of the result would depend on values"),
    "multinomial": "random numbers outside of forward", "randperm": "random numbers outside of forward",
    "pad_packed_sequence": "total_length=x.size(1): the largest length is a value", "stft": "a spectrogram as the input", "checkpoint": "the function itself",
}


class Spread(tuple):
    """Arguments from a tuple, as *x gives them."""

    __slots__ = ()


def known_as(name, is_method, source):
    """The name of the function here; None where there is none. In-place functions are those of the name without its last line."""
    if (name, source) in _DIFFERENT:
        return None
    names = [f"Tensor.{name}"] if is_method else []
    if source == "torch._C._linalg" or source.startswith("torch.linalg"):
        names.append("linalg." + name.removeprefix("linalg_"))
    names.append(name.removeprefix("special_"))
    if name[-1:] == "_" and name[-2:] != "__":
        names += [f"Tensor.{name[:-1]}", name[:-1]]
    return next((n for n in names if n in FUNCTIONS), None)


def _named(*names):
    def keep(function):
        FUNCTIONS.update(dict.fromkeys(names or (function.__name__.strip("_"),), function))
        return function
    return keep


def _unary(name, function):
    FUNCTIONS[name] = lambda input: function(input)


for _name in ("abs", "ceil", "cos", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "sign", "sin", "sqrt", "square", "tan",
              "trunc", "reciprocal", "logical_not", "isnan", "isinf", "isfinite", "acos", "acosh", "asin", "asinh", "atan", "atanh",
              "cosh", "sinh"):
    _unary(_name, getattr(xp, _name))
_unary("rsqrt", _beyond_standard.rsqrt)
_unary("erf", _functions.erf)
_unary("neg", xp.negative)
_unary("negative", xp.negative)
_unary("absolute", xp.abs)
_unary("bitwise_not", xp.bitwise_invert)
_unary("expit", _functions.sigmoid)
_BINARY = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_BINARY.update((_name, _name) for _name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor", "pow", "floor_divide",
                                               "remainder", "atan2", "hypot", "logaddexp", "bitwise_and", "bitwise_or"))
_BINARY.update({"greater": "greater", "less": "less", "greater_equal": "greater_equal", "less_equal": "less_equal", "not_equal": "not_equal"})
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
def _div(input, other, *, rounding_mode=None):
    return input // other if rounding_mode == "floor" else input / other if rounding_mode is None else xp.trunc(input / other)


@_named("rsub")
def _rsub(input, other, *, alpha=1):
    return other - input * alpha


@_named("addcmul")
def _addcmul(input, tensor1, tensor2, *, value=1):
    return input + value * tensor1 * tensor2


@_named("lerp")
def _lerp(input, end, weight):
    return input + weight * (end - input)


@_named("baddbmm")
def _baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    return alpha * (batch1 @ batch2) + beta * input if beta else alpha * (batch1 @ batch2)


@_named("outer")
def _outer(input, vec2):
    return input[:, None] * vec2[None]


@_named("dot")
def _dot(input, tensor):
    return xp.sum(input * tensor)


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


@_named("hstack")
def _hstack(tensors):
    return xp.concat(list(tensors), axis=0 if tensors[0].ndim == 1 else 1)


@_named("vstack")
def _vstack(tensors):
    return xp.concat([t[None] if t.ndim == 1 else t for t in tensors], axis=0)


@_named("broadcast_to")
def _broadcast_to(input, size):
    return _expand(input, size)


@_named("roll")
def _roll(input, shifts, dims=None):
    return xp.roll(input, tuple(shifts) if isinstance(shifts, list) else shifts, axis=tuple(dims) if isinstance(dims, list) else dims)


@_named("flip")
def _flip(input, *dims):
    return xp.flip(input, axis=_sizes(dims))


@_named("repeat_interleave")
def _repeat_interleave(input, repeats, dim=None):
    return xp.repeat(input, repeats, axis=dim)


@_named("diagonal")
def _diagonal(input, offset=0, dim1=0, dim2=1):
    return xp.linalg.diagonal(xp.moveaxis(input, (dim1, dim2), (-2, -1)), offset=offset)


@_named("tile")
def _tile(input, *dims):
    return xp.tile(input, _sizes(dims))


@_named("Tensor.unfold")
def _unfolded(input, dimension, size, step):
    axis = _axis(dimension, input.ndim)
    windows = xp.arange((input.shape[axis] - size) // step + 1)[:, None] * step + xp.arange(size)
    taken = xp.reshape(xp.take(input, xp.reshape(windows, (-1,)), axis=axis), (*input.shape[:axis], *windows.shape, *input.shape[axis + 1:]))
    return xp.moveaxis(taken, axis + 1, -1)


@_named("contiguous", "clone", "cpu", "cuda", "requires_grad")
def _unchanged(input, *others, **settings):
    return input


@_named("to", "type")
def _to(input, *others, dtype=None, **settings):
    for other in (*others, dtype):
        if isinstance(other, _core.Array):
            other = other.dtype
        if isinstance(other, _core.dtype):
            input = xp.astype(input, other, copy=False)
    return input


@_named("type_as")
def _type_as(input, other):
    return xp.astype(input, other.dtype, copy=False)


for _name, _dtype in (("half", xp.float16), ("bfloat16", xp.bfloat16), ("double", xp.float64), ("bool", xp.bool), ("long", xp.int64),
                      ("short", xp.int16), ("byte", xp.uint8)):
    FUNCTIONS[_name] = lambda input, *, memory_format=None, _dtype=_dtype: xp.astype(input, _dtype, copy=False)


@_named("float")
def _float(input, *, memory_format=None):
    return xp.astype(input, xp.float32, copy=False) if isinstance(input, _core.Array) else float(input)


@_named("int")
def _int(input, *, memory_format=None):
    return xp.astype(input, xp.int32, copy=False) if isinstance(input, _core.Array) else int(input)


@_named("len")
def _len(obj, /):
    return len(obj) if isinstance(obj, tuple) else obj.shape[0]


@_named("spread")
def _spread(x):
    return Spread(x)


@_named("detach")
def _detach(input):
    return _functions.stop_gradient(input)


@_named("no_gradient")
def _no_gradient(x):
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(_no_gradient(part) for part in x)
    return _functions.stop_gradient(x) if isinstance(x, _core.Array) and xp.isdtype(x.dtype, "real floating") else x


# New tensors. Where they lie is decided by the network.

def _made(make):
    def of_sizes(*size, dtype=None, **settings):
        return make(_sizes(size) if size else tuple(settings["size"]), dtype=dtype)
    return of_sizes


def _made_like(make):
    def like(input, *, dtype=None, memory_format=None, **settings):
        return make(tuple(input.shape), dtype=input.dtype if dtype is None else dtype)
    return like


def _new(make):
    def new(self, *size, dtype=None, **settings):
        return make(_sizes(size) if size else tuple(settings["size"]), dtype=self.dtype if dtype is None else dtype)
    return new


for _name, _make in (("zeros", xp.zeros), ("ones", xp.ones), ("empty", xp.zeros)):
    FUNCTIONS.update({_name: _made(_make), f"{_name}_like": _made_like(_make), f"new_{_name}": _new(_make)})


@_named("rand")
def _rand(*size, dtype=None):
    return _random.uniform(_sizes(size))


@_named("randn")
def _randn(*size, dtype=None):
    return _random.normal(_sizes(size))


@_named("rand_like")
def _rand_like(input, *, dtype=None):
    return _random.uniform(input.shape)


@_named("randn_like")
def _randn_like(input, *, dtype=None):
    return _random.normal(input.shape)


@_named("bernoulli")
def _bernoulli(input, p=None):
    return xp.astype(_random.bernoulli(input if p is None else p, input.shape), input.dtype)


def _full_type(value, dtype):
    if dtype is None and isinstance(value, (bool, int)):
        return xp.bool if isinstance(value, bool) else xp.int64
    return dtype


@_named("full")
def _full(size, fill_value, *, dtype=None):
    return xp.full(tuple(size), fill_value, dtype=_full_type(fill_value, dtype))


@_named("full_like")
def _full_like(input, fill_value, *, dtype=None, memory_format=None):
    return xp.full(tuple(input.shape), fill_value, dtype=input.dtype if dtype is None else dtype)


@_named("new_full")
def _new_full(self, size, fill_value, *, dtype=None):
    return xp.full(tuple(size), fill_value, dtype=self.dtype if dtype is None else dtype)


@_named("arange")
def _arange(*limits, start=0, end=None, step=1, dtype=None):
    if len(limits) == 1:
        end = limits[0]
    elif limits:
        start, end, step = (*limits, step)[:3]
    return xp.arange(start, end, step, dtype=dtype)


@_named("linspace")
def _linspace(start, end, steps, *, dtype=None):
    return xp.linspace(start, end, steps, dtype=dtype)


@_named("eye")
def _eye(n, m=None, *, dtype=None):
    return xp.eye(n, m, dtype=dtype)


@_named("tensor", "as_tensor")
def _tensor(data, *, dtype=None):
    return xp.asarray(data, dtype=dtype)


@_named("new_tensor")
def _new_tensor(self, data, *, dtype=None):
    return xp.asarray(data, dtype=self.dtype if dtype is None else dtype)


@_named("meshgrid")
def _meshgrid(*tensors, indexing="ij"):
    return xp.meshgrid(*_sizes(tensors), indexing=indexing)


@_named("tril")
def _tril(input, diagonal=0):
    return xp.tril(input, k=diagonal)


@_named("triu")
def _triu(input, diagonal=0):
    return xp.triu(input, k=diagonal)


# Reductions.

def _over(function):
    def reduced(input, dim=None, keepdim=False, *, dtype=None):
        input = input if dtype is None else xp.astype(input, dtype, copy=False)
        return function(input, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)
    return reduced


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": xp.mean, "sum": xp.sum, "prod": xp.prod, "amax": xp.max, "amin": xp.min, "any": xp.any, "all": xp.all,
    "argmax": xp.argmax, "argmin": xp.argmin, "logsumexp": _functions.logsumexp}
for _name, _function in _REDUCTIONS.items():
    FUNCTIONS[_name] = _over(_function)


@_named("cumsum")
def _cumsum(input, dim, *, dtype=None):
    return xp.cumulative_sum(input if dtype is None else xp.astype(input, dtype), axis=dim)


@_named("cumprod")
def _cumprod(input, dim):
    return xp.cumulative_prod(input, axis=dim)


@_named("norm", "vector_norm", "linalg.vector_norm")
def _norm(input, p=2, dim=None, keepdim=False, *, ord=None, dtype=None):
    p = ord if ord is not None else 2 if p is None or p == "fro" else p
    return xp.linalg.vector_norm(input, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim, ord=p)


@_named("linalg.norm")
def _linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    if ord is None:
        return _norm(A, 2, dim, keepdim)
    return xp.linalg.norm(A, ord, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)


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


Places = namedtuple("Places", ["values", "indices"])


def _extreme(input, dim, keepdim, value, place, both):
    if dim is None:
        return value(input)
    if isinstance(dim, _core.Array):  # the other operand
        return both(input, dim)
    return Places(value(input, axis=dim, keepdims=keepdim), place(input, axis=dim, keepdims=keepdim))


@_named("topk")
def _topk(input, k, dim=-1, largest=True, sorted=True):
    values, places = _functions.topk(input, k, axis=dim, order="descending" if largest else "ascending")
    return Places(values, xp.astype(places, xp.int64))


@_named("sort")
def _sort(input, dim=-1, descending=False, stable=False):
    places = xp.argsort(input, axis=dim, descending=descending)
    return Places(xp.take_along_axis(input, places, axis=dim), places)


@_named("argsort")
def _argsort(input, dim=-1, descending=False, stable=False):
    return xp.argsort(input, axis=dim, descending=descending)


# Samples of several lengths.

Packed = namedtuple("Packed", ["data", "lengths"])  # (N, T, C) and (N)


@_named("pack_padded_sequence")
def _pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    return Packed(input if batch_first else input.swapaxes(0, 1), xp.astype(xp.asarray(lengths), xp.int32))


@_named("pad_packed_sequence")
def _pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    data, lengths = sequence
    if total_length is None and not lengths._on_host:
        raise ValueError(f"pad_packed_sequence: total_length: expected x.size(1) where a compiled function gets the lengths, whose largest is a value: "
                         f"{data.shape[1]} here")
    if total_length is None:
        total_length = int(xp.max(lengths))
        data = data[:, :total_length]
    if total_length != data.shape[1]:
        raise ValueError(f"pad_packed_sequence: expected total_length={data.shape[1]}, the steps of the input, got {total_length}")
    if padding_value:
        data = xp.where((xp.arange(total_length) < lengths[:, None])[..., None], data, padding_value)
    return data if batch_first else data.swapaxes(0, 1), xp.astype(lengths, xp.int64)


# Elements.

@_named("clamp", "clip")
def _clamp(input, min=None, max=None):
    return xp.clip(input, min, max)


@_named("where")
def _where(condition, input, other):
    return xp.where(condition, input, other)


@_named("masked_fill")
def _masked_fill(input, mask, value):
    return xp.where(mask, xp.astype(value, input.dtype) if isinstance(value, _core.Array) else value, input)


@_named("round")
def _round(input, *, decimals=0):
    return _beyond_standard.round(input, decimals)


@_named("nan_to_num")
def _nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    largest = float(xp.finfo(input.dtype).max)
    y = xp.where(xp.isnan(input), 0.0 if nan is None else nan, input)
    y = xp.where(y == math.inf, largest if posinf is None else posinf, y)
    return xp.where(y == -math.inf, -largest if neginf is None else neginf, y)


@_named("gather")
def _gather(input, dim, index, *, sparse_grad=False):
    axis = _axis(dim, input.ndim)
    cut = tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(index.shape))
    return xp.take_along_axis(input[cut], index, axis=axis)


@_named("take_along_dim")
def _take_along_dim(input, indices, dim):
    return xp.take_along_axis(input, indices, axis=dim)


@_named("index_select")
def _index_select(input, dim, index):
    return xp.take(input, index, axis=dim)


@_named("setitem")
def _setitem(input, key, value):
    """input after input[key] = value."""
    if isinstance(key, _core.Array) and key.dtype == xp.bool:
        mask = xp.reshape(key, key.shape + (1,) * (input.ndim - key.ndim))
        if isinstance(value, _core.Array) and value.ndim:
            raise TypeError("x[mask] = value: expected one number as the value")
        return xp.where(mask, xp.astype(value, input.dtype) if isinstance(value, _core.Array) else value, input)
    places = xp.reshape(xp.arange(input.size), input.shape)[key]
    value = xp.astype(value, input.dtype) if isinstance(value, _core.Array) else xp.asarray(value, dtype=input.dtype)
    value = xp.reshape(xp.broadcast_to(xp.reshape(value, value.shape[max(0, value.ndim - places.ndim):]), places.shape), (-1,))
    y = _functions.scatter(xp.reshape(input, (-1,)), xp.reshape(places, (-1,)), value, 0)
    return xp.reshape(y, input.shape)


@_named("fill")
def _fill(input, value):
    return xp.full(tuple(input.shape), value, dtype=input.dtype)


@_named("zero")
def _zero(input):
    return xp.zeros(tuple(input.shape), dtype=input.dtype)


@_named("copy")
def _copy(input, src, non_blocking=False):
    return xp.broadcast_to(xp.astype(src, input.dtype), input.shape)


@_named("getattr")
def _getattr(input, name):
    if name == "data":
        return _detach(input)
    if name in ("is_cuda", "requires_grad"):
        return name == "is_cuda" and not str(input.device).startswith("cpu")
    if name not in ("shape", "ndim", "dtype", "device", "T", "mT", "values", "indices"):
        raise AttributeError(f"from_torch: tensors have {name!r}, Freight's arrays do not")
    return getattr(input, name)
