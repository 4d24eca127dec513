#!/usr/bin/env python3
"""Writes torch_ops.json: small cases computed by PyTorch in double precision, which torch_ops_test.cpp compares with.

Run by hand when a case is added: python3 torch_ops.py. A case is a graph in text form, its inputs and states, the
outputs, and the gradients of sum(first output * weights) with respect to the floating inputs named in "gradients".
"""
import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def draw(*shape):
    return torch.round(torch.randn(*shape) * 1000) / 1000


def digits(t):
    return [float(f"{v:.12g}") for v in t.detach().reshape(-1).tolist()]


def text(t):
    kind = {torch.float64: "f32", torch.int64: "i64"}[t.dtype]
    return f"{kind}[{','.join(map(str, t.shape))}]"


def array(t):
    return {"type": text(t), "data": digits(t) if t.is_floating_point() else t.reshape(-1).tolist()}


def case(name, node, inputs, function, outputs=1):
    """`node`: "op(%0, %1) {attributes}" over the inputs in order; `function` gives the outputs' tensors."""
    for t in inputs:
        t.requires_grad_(t.is_floating_point())
    results = function(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    weights = draw(*results[0].shape)
    (results[0] * weights).sum().backward()
    lines = [f'  %{i} = input "x{i}" : {text(t)}' for i, t in enumerate(inputs)]
    n = len(inputs)
    types = [text(r) for r in results]
    if len(types) < outputs:  # max_pool's index, which is not compared
        types.append(types[0].replace("f32", "i32"))
    ids = [f"%{n + i}" for i in range(len(types))]
    lines.append(f"  {', '.join(ids)} = {node} : {', '.join(types)}")
    lines.append("  return " + ", ".join(ids[:len(results)]))
    cases.append({
        "name": name,
        "graph": "graph {\n" + "\n".join(lines) + "\n}\n",
        "inputs": [array(t) for t in inputs],
        "outputs": [digits(r) for r in results],
        "weights": digits(weights),
        "gradients": {str(i): digits(t.grad) for i, t in enumerate(inputs) if t.is_floating_point()},
    })


def shape(*v):
    return "[" + ",".join(map(str, v)) + "]"


def conv(name, x, w, stride, pad, dilation, groups):
    f = F.conv1d if x.dim() == 3 else F.conv2d
    node = (f"conv(%0, %1) {{stride={shape(*stride)}, pad_low={shape(*pad)}, pad_high={shape(*pad)}, "
            f"dilation={shape(*dilation)}, groups={groups}}}")
    case(name, node, [x, w], lambda a, b: f(a, b, None, stride, pad, dilation, groups))


conv("conv1d", draw(2, 3, 9), draw(4, 3, 3), [2], [1], [1], 1)
conv("conv2d", draw(2, 3, 5, 6), draw(4, 3, 3, 3), [1, 1], [1, 1], [1, 1], 1)
conv("conv2d_stride_dilation", draw(1, 2, 9, 8), draw(3, 2, 3, 2), [2, 1], [2, 0], [2, 3], 1)
conv("conv2d_groups", draw(2, 4, 5, 5), draw(6, 2, 3, 3), [2, 2], [1, 1], [1, 1], 2)
conv("conv2d_depthwise", draw(1, 3, 6, 6), draw(3, 1, 3, 3), [1, 1], [1, 1], [1, 1], 3)

window = "{kernel=[3,2], stride=[2,2], pad_low=[1,1], pad_high=[1,1]%s}"
case("max_pool", "max_pool(%0) " + window % "", [draw(2, 2, 6, 5)],
     lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 1)), outputs=2)
case("avg_pool", "avg_pool(%0) " + window % "", [draw(2, 2, 6, 5)],
     lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=True))
case("avg_pool_inside", "avg_pool(%0) " + window % ", count_include_pad=false", [draw(2, 2, 6, 5)],
     lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=False))
case("adaptive_avg_pool", "adaptive_avg_pool(%0) {output=[3,2]}", [draw(2, 2, 7, 4)],
     lambda x: F.adaptive_avg_pool2d(x, (3, 2)))

labels = torch.tensor([1, 0, 3, 2, 3])
case("cross_entropy", "cross_entropy(%0, %1)", [draw(5, 4), labels],
     lambda x, y: F.cross_entropy(x, y, reduction="none"))
case("cross_entropy_smoothed", "cross_entropy(%0, %1) {label_smoothing=0.1}", [draw(5, 4), labels],
     lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1))
case("cross_entropy_probabilities", "cross_entropy(%0, %1) {label_smoothing=0.1}",
     [draw(5, 4), torch.softmax(draw(5, 4), 1).detach()],
     lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1))


def batch_norm(x, w, b):
    axes = [i for i in range(x.dim()) if i != 1]
    return F.batch_norm(x, None, None, w, b, training=True), x.mean(axes), x.var(axes, unbiased=False)


case("batch_norm", "batch_norm(%0, %1, %2)", [draw(3, 2, 4, 3), draw(2), draw(2)], batch_norm)
case("batch_norm_flat", "batch_norm(%0, %1, %2)", [draw(7, 3), draw(3), draw(3)], batch_norm)
case("layer_norm", "layer_norm(%0, %1, %2)", [draw(5, 7), draw(7), draw(7)],
     lambda x, w, b: F.layer_norm(x, (7,), w, b))
case("group_norm", "group_norm(%0, %1, %2) {groups=2}", [draw(2, 4, 3, 3), draw(4), draw(4)],
     lambda x, w, b: F.group_norm(x, 2, w, b))
case("gelu", "gelu(%0)", [draw(9)], F.gelu)
case("gelu_tanh", "gelu(%0) {tanh=true}", [draw(9)], lambda x: F.gelu(x, approximate="tanh"))
case("silu", "silu(%0)", [draw(9)], F.silu)
case("softmax", "softmax(%0) {axis=1}", [draw(3, 5)], lambda x: F.softmax(x, 1))
case("log_softmax", "log_softmax(%0) {axis=0}", [draw(3, 5)], lambda x: F.log_softmax(x, 0))
case("embedding", "embedding(%0, %1) {padding_idx=2}", [torch.tensor([[1, 2, 0], [2, 4, 1]]), draw(5, 3)],
     lambda i, w: F.embedding(i, w, padding_idx=2))
case("gather", "gather(%0, %1) {axis=1}", [draw(2, 5, 2), torch.tensor([4, 0, 0])],
     lambda x, i: torch.index_select(x, 1, i))
case("gather_elements", "gather_elements(%0, %1) {axis=1}", [draw(2, 5), torch.tensor([[4, 0, 0], [1, 1, 3]])],
     lambda x, i: torch.gather(x, 1, i))
case("matmul_batched", "matmul(%0, %1) {trans_b=true}", [draw(2, 3, 4), draw(2, 5, 4)],
     lambda a, b: a @ b.transpose(1, 2))


def optimizer(name, node, make, names):
    """Three steps after a first one, which fills the optimizer's state."""
    p = draw(2, 3).requires_grad_()
    steps = make([p])
    p.grad = draw(2, 3)
    steps.step()
    state = [p] + [steps.state[p][n] for n in names]
    start = [t.detach().clone() for t in state]
    g = draw(2, 3)
    p.grad = g
    for _ in range(3):
        steps.step()
    count = len(start)
    lines = [f'  %{i} = state "s{i}" : {text(t)}' for i, t in enumerate(start)]
    lines += [f'  %{count} = input "g" : {text(g)}', f'  %{count + 1} = input "lr" : f32[]',
              f'  %{count + 2} = input "step" : f32[]']
    operands = [0, count, count + 1] + ([count + 2] if "adam" in node else []) + list(range(1, count))
    ids = [f"%{count + 3 + i}" for i in range(count)]
    lines.append(f"  {', '.join(ids)} = {node.format(', '.join(f'%{i}' for i in operands))} : "
                 + ", ".join(text(t) for t in start))
    lines += [f"  update %{i} = {ids[i]}" for i in range(count)]
    cases.append({
        "name": name,
        "graph": "graph {\n" + "\n".join(lines) + "\n}\n",
        "inputs": [array(g)],
        "states": [digits(t) for t in start],
        "lr": steps.param_groups[0]["lr"],
        "after_three_steps": [digits(t) for t in [p] + [steps.state[p][n] for n in names]],
    })


optimizer("sgd", "sgd_update({}) {{weight_decay=0.01}}", lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01), [])
optimizer("sgd_momentum", "sgd_update({}) {{momentum=0.9, dampening=0.2, weight_decay=0.01}}",
          lambda p: torch.optim.SGD(p, 0.1, 0.9, dampening=0.2, weight_decay=0.01), ["momentum_buffer"])
optimizer("sgd_nesterov", "sgd_update({}) {{momentum=0.9, nesterov=true}}",
          lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), ["momentum_buffer"])
optimizer("adam", "adam_update({}) {{weight_decay=0.01}}",
          lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01), ["exp_avg", "exp_avg_sq"])
optimizer("adamw", "adam_update({}) {{beta2=0.99, weight_decay=0.01, decoupled=true}}",
          lambda p: torch.optim.AdamW(p, 0.01, betas=(0.9, 0.99), weight_decay=0.01), ["exp_avg", "exp_avg_sq"])

path = pathlib.Path(__file__).with_suffix(".json")
path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases")
