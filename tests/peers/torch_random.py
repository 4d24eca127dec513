"""Answers torch_random_test.cpp: reads cases (JSON) and writes PyTorch's results, gradients or refusals.

python torch_random.py CASES.json ANSWERS.json. A case is {"op", "inputs": [{"dtype", "shape", "data"}], "options"}; the
gradients are those of sum(result * weights), weights being ((i * 37) % 11 - 5) / 4 at flat place i.
"""
import json
import math
import sys
import warnings

import torch
import torch.nn.functional as F

# In double: what single precision loses, as in the normalisation of few and nearly equal numbers, is no difference.
NAMES = {"f32": torch.float64, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8}


def pool(function):
    def run(x, kernel, stride, padding, ceil_mode, count_include_pad=None):
        more = {} if count_include_pad is None else {"count_include_pad": count_include_pad}
        return function(x, kernel, stride, padding, ceil_mode=ceil_mode, **more)
    return run


def ordered(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def largest(x, k, axis, descending):
    if k > x.shape[axis]:
        raise ValueError("k is too large")
    return ordered(x, axis, descending)[0].narrow(axis, 0, k)


warnings.simplefilter("ignore")
OPS = {
    "max_pool1d": pool(F.max_pool1d), "max_pool2d": pool(F.max_pool2d),
    "avg_pool1d": pool(F.avg_pool1d), "avg_pool2d": pool(F.avg_pool2d),
    "adaptive_avg_pool2d": lambda x, output: F.adaptive_avg_pool2d(x, output),
    "batch_norm": lambda x, w, b, eps: F.batch_norm(x, None, None, w, b, training=True, eps=eps),
    "layer_norm": lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps=eps),
    "group_norm": lambda x, w, b, groups, eps: F.group_norm(x, groups, w, b, eps=eps),
    "cross_entropy": lambda x, y, **o: F.cross_entropy(x, y.long() if not y.is_floating_point() else y, **o),
    "nll_loss": lambda x, y, reduction: F.nll_loss(x, y.long(), reduction=reduction, ignore_index=-10 ** 6),
    "mse_loss": lambda a, b, reduction: F.mse_loss(a, b, reduction=reduction),
    "l1_loss": lambda a, b, reduction: F.l1_loss(a, b, reduction=reduction),
    "smooth_l1_loss": lambda a, b, beta, reduction: F.smooth_l1_loss(a, b, beta=beta, reduction=reduction),
    "huber_loss": lambda a, b, delta, reduction: F.huber_loss(a, b, delta=delta, reduction=reduction),
    "kl_div": lambda a, b, reduction: F.kl_div(a, b, reduction=reduction),
    "bce_with_logits": lambda a, b, reduction: F.binary_cross_entropy_with_logits(a, b, reduction=reduction),
    "softmax": lambda x, axis: F.softmax(x, axis), "log_softmax": lambda x, axis: F.log_softmax(x, axis),
    "softplus": F.softplus, "elu": lambda x, alpha: F.elu(x, alpha),
    "leaky_relu": lambda x, slope: F.leaky_relu(x, slope), "gelu": lambda x, tanh: F.gelu(x, approximate="tanh" if tanh else "none"),
    "silu": F.silu, "clamp": lambda x, lo, hi: torch.clamp(x, lo, hi),
    "remainder": torch.remainder, "fmod": torch.fmod, "pow": torch.pow,
    "gather": lambda x, i, axis: torch.index_select(x, axis, i.long()),
    "gather_elements": lambda x, i, axis: torch.gather(x, axis, i.long()),
    "scatter_add": lambda i, u, size, axis: torch.zeros(
        [size if a == axis else n for a, n in enumerate(u.shape)], dtype=u.dtype).index_add(axis, i.long(), u),
    "embedding": lambda i, w, padding_idx: F.embedding(i.long(), w, padding_idx if padding_idx >= 0 else None),
    "one_hot": lambda i, depth: F.one_hot(i.long(), depth).float(),
    "bincount": lambda i, size: torch.zeros(size, dtype=torch.int64).index_add(
        0, i.long().flatten(), torch.ones(i.numel(), dtype=torch.int64)),
    "sort": lambda x, axis, descending: ordered(x, axis, descending)[0],
    "argsort": lambda x, axis, descending: ordered(x, axis, descending)[1],
    "topk": largest,
    "cumsum": lambda x, axis: torch.cumsum(x, axis),
    "sum": lambda x, axes, keep: torch.sum(x, axes, keepdim=keep),
    "max": lambda x, axes, keep: torch.amax(x, axes, keepdim=keep),
    "min": lambda x, axes, keep: torch.amin(x, axes, keepdim=keep),
    "prod": lambda x, axis, keep: torch.prod(x, axis, keepdim=keep),
    "any": lambda x, axis, keep: torch.any(x, axis, keepdim=keep),
    "all": lambda x, axis, keep: torch.all(x, axis, keepdim=keep),
    "norm": lambda x, p, axes, keep: torch.linalg.vector_norm(x, math.inf if p == "inf" else p, axes, keepdim=keep),
    "var": lambda x, axes, correction, keep: torch.var(x, axes, correction=correction, keepdim=keep),
    "stddev": lambda x, axes, correction, keep: torch.std(x, axes, correction=correction, keepdim=keep),
    "logsumexp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
    "einsum": lambda *x, equation: torch.einsum(equation, *x),
}


def numbers(t):
    return [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in t.detach().reshape(-1).tolist()]


def tensor(entry):
    data = [float(v) if isinstance(v, str) else v for v in entry["data"]]
    t = torch.tensor(data, dtype=NAMES[entry["dtype"]]).reshape(entry["shape"])
    return t.requires_grad_(t.is_floating_point())


def answer(case):
    inputs = [tensor(i) for i in case["inputs"]]
    try:
        y = OPS[case["op"]](*inputs, **case["options"])
        if y.is_floating_point() and y.requires_grad:
            weights = (torch.arange(y.numel()) * 37 % 11 - 5).to(y.dtype).reshape(y.shape) / 4
            (y * weights).sum().backward()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return {"refused": str(error)}
    gradients = [numbers(i.grad) if i.grad is not None else None for i in inputs]
    return {"shape": list(y.shape), "values": numbers(y), "gradients": gradients}


with open(sys.argv[1]) as file:
    cases = json.load(file)
with open(sys.argv[2], "w") as file:
    json.dump([answer(c) for c in cases], file)
