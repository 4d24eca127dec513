"""Functions and methods of PyTorch by name, with PyTorch's parameters, on Freight's arrays: what networks that from_torch has
traced call. Nothing here needs torch."""
import math
import operator
from collections.abc import Callable
from typing import Any

from . import _core, _functions, _layers, xp
from ._array_api import _axis

# Parameters that must have this value, by function: Freight has nothing for the others.
FIXED: dict[str, dict[str, Any]] = {
    "max_pool1d": {"return_indices": False}, "max_pool2d": {"return_indices": False}, "pad": {"mode": "constant"},
    "embedding": {"sparse": False},
    "scaled_dot_product_attention": {"dropout_p": 0.0, "enable_gqa": False}, "normalize": {"out": None},
}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
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
              "square", "tan", "tanh", "trunc", "reciprocal", "logical_not"):
    _unary(_name, getattr(xp, _name))
for _name in ("rsqrt", "sigmoid", "erf", "softsign"):
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


@_named("einsum")
def _einsum(equation, *operands):
    return _functions.einsum(equation, list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands))


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
    first, last = _axis(start_dim, input.ndim), _axis(end_dim, input.ndim)
    shape = input.shape
    return xp.reshape(input, (*shape[:first], math.prod(shape[first:last + 1]), *shape[last + 1:]))


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
    return input[(*(slice(None),) * _axis(dim, input.ndim), index)]


@_named("narrow")
def _narrow(input, dim, start, length):
    return input[(*(slice(None),) * _axis(dim, input.ndim), slice(start, start + length))]


@_named("pad")
def _pad(input, pad, mode="constant", value=None):
    low, high = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return _functions.pad(input, low, high, 0 if value is None else value)


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


@_named("normalize")
def _normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    sums = xp.sum(xp.abs(input) ** p, axis=dim, keepdims=True)
    return input / xp.maximum(xp.sqrt(sums) if p == 2 else sums ** (1 / p), eps)


# Activations.

@_named("relu")
def _relu(input, inplace=False):
    return _functions.relu(input)


@_named("silu")
def _silu(input, inplace=False):
    return _functions.silu(input)


@_named("gelu")
def _gelu(input, approximate="none"):
    return _functions.gelu(input, "tanh" if approximate == "tanh" else "erf")


@_named("elu")
def _elu(input, alpha=1.0, inplace=False):
    return _functions.elu(input, alpha)


@_named("leaky_relu")
def _leaky_relu(input, negative_slope=0.01, inplace=False):
    return _functions.leaky_relu(input, negative_slope)


@_named("hardtanh")
def _hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return _layers.Hardtanh(min_val, max_val)(input)


@_named("relu6")
def _relu6(input, inplace=False):
    return _layers.ReLU6()(input)


@_named("hardsigmoid")
def _hardsigmoid(input, inplace=False):
    return _layers.Hardsigmoid()(input)


@_named("hardswish")
def _hardswish(input, inplace=False):
    return _layers.Hardswish()(input)


@_named("softplus")
def _softplus(input, beta=1, threshold=20):
    return _layers.Softplus(beta=beta, threshold=threshold)(input)


@_named("mish")
def _mish(input, inplace=False):
    return _layers.Mish()(input)


@_named("clamp", "clip")
def _clamp(input, min=None, max=None):
    return xp.clip(input, min, max)


@_named("softmax")
def _softmax(input, dim=-1, _stacklevel=3, dtype=None):
    return _functions.softmax(input, dim)


@_named("log_softmax")
def _log_softmax(input, dim=-1, _stacklevel=3, dtype=None):
    return _functions.log_softmax(input, dim)


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


# Layers as functions.

@_named("linear")
def _linear(input, weight, bias=None):
    y = input @ weight.T
    return y if bias is None else y + bias


@_named("embedding")
def _embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    return _functions.embedding(input, weight, -1 if padding_idx is None else padding_idx, max_norm, norm_type, scale_grad_by_freq)


@_named("conv1d")
def _conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _functions.conv1d(input, weight, bias, stride, padding, dilation, groups)


@_named("conv2d")
def _conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _functions.conv2d(input, weight, bias, stride, padding, dilation, groups)


@_named("max_pool1d")
def _max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _functions.max_pool1d(input, kernel_size, stride or 0, padding, ceil_mode, True, dilation)


@_named("max_pool2d")
def _max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _functions.max_pool2d(input, kernel_size, stride or 0, padding, ceil_mode, True, dilation)


@_named("avg_pool1d")
def _avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    return _functions.avg_pool1d(input, kernel_size, stride or 0, padding, ceil_mode, count_include_pad)


@_named("avg_pool2d")
def _avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _functions.avg_pool2d(input, kernel_size, stride or 0, padding, ceil_mode, count_include_pad, 1, divisor_override or 0)


@_named("adaptive_avg_pool2d")
def _adaptive_avg_pool2d(input, output_size):
    return _layers.AdaptiveAvgPool2d(output_size)(input)


@_named("dropout")
def _dropout(input, p=0.5, training=True, inplace=False):
    return _functions.dropout(input, p) if training and p else input


@_named("stochastic_depth")  # torchvision's
def _stochastic_depth(input, p, mode, training=True):
    if not training or not p:
        return input
    count = input.shape[0] if mode == "row" else 1
    return input * _functions.dropout(xp.ones((count, *(1,) * (input.ndim - 1))), p)


@_named("layer_norm")
def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    scale = xp.ones(tuple(normalized_shape)) if weight is None else weight
    return _functions.layer_norm(input, scale, xp.zeros(tuple(normalized_shape)) if bias is None else bias, eps)


@_named("group_norm")
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    channels = input.shape[1]
    scale = xp.ones(channels) if weight is None else weight
    return _functions.group_norm(input, num_groups, scale, xp.zeros(channels) if bias is None else bias, eps)


@_named("scaled_dot_product_attention")
def _scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return _functions.attention(query, key, value, is_causal, 0.0 if scale is None else scale, mask=attn_mask)


@_named("getattr")
def _getattr(input, name):
    if name not in ("shape", "ndim", "dtype", "device", "T", "mT"):
        raise AttributeError(f"from_torch: tensors have {name!r}, Freight's arrays do not")
    return getattr(input, name)
