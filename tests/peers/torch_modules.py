#!/usr/bin/env python3
"""Writes torch_modules.json: attention and transformer blocks with masks, recurrent layers with states and lengths, optimizers
with groups, and nets with hooks on their gradients, computed by PyTorch in double precision, which torch_modules_test.cpp compares with.

Run by hand when a case is added: python3 torch_modules.py. "gradients" are those of the sum of all outputs times "weights".
"""
import json
import pathlib

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def draw(*shape):
    return torch.round(torch.randn(*shape) * 1000) / 1000


def array(t):
    t = t.detach()
    kind = {torch.float64: "f32", torch.int64: "i64", torch.bool: "bool"}[t.dtype]
    values = [float(f"{v:.7g}") for v in t.reshape(-1).tolist()] if kind == "f32" else [int(v) for v in t.reshape(-1).tolist()]
    # JSON has no infinities.
    values = [v if v not in (float("inf"), float("-inf")) else "-inf" for v in values]
    return {"type": kind, "shape": list(t.shape), "data": values}


def arrays(named):
    return {name: array(t) for name, t in named.items()}


def round_parameters(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.round(p * 1000) / 1000)


def finished(module, inputs, outputs):
    """What all cases have: parameters, outputs, weights and gradients."""
    weights = {name: draw(*t.shape) for name, t in outputs.items()}
    sum((outputs[name] * w).sum() for name, w in weights.items()).backward()
    gradients = {name: t.grad for name, t in inputs.items() if t.is_floating_point() and t.grad is not None}
    gradients |= {name: p.grad for name, p in module.named_parameters()}
    return {"parameters": arrays(dict(module.named_parameters())), "inputs": arrays(inputs), "outputs": arrays(outputs),
            "weights": arrays(weights), "gradients": arrays(gradients)}


def attention(name, heads=2, width=6, key_width=0, value_width=0, bias=True, queries=3, keys=4, own=False, weights=None, masks=None, **call):
    module = torch.nn.MultiheadAttention(width, heads, bias=bias, kdim=key_width or None, vdim=value_width or None, batch_first=True)
    round_parameters(module)
    if bias:
        with torch.no_grad():
            module.in_proj_bias.copy_(draw(3 * width) * 0.3)
            module.out_proj.bias.copy_(draw(width) * 0.3)
    inputs = {"query": draw(2, queries, width)}
    if not own:
        inputs |= {"key": draw(2, keys, key_width or width), "value": draw(2, keys, value_width or width)}
    for t in inputs.values():
        t.requires_grad_()
    masks = masks or {}
    q = inputs["query"]
    k, v = (q, q) if own else (inputs["key"], inputs["value"])
    given = dict(masks)
    if call.get("is_causal"):  # PyTorch wants the mask beside the flag
        given["attn_mask"] = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(1)
        if "key_padding_mask" in given and given["key_padding_mask"].is_floating_point():
            given["attn_mask"] = torch.zeros(given["attn_mask"].shape).masked_fill(given["attn_mask"], float("-inf"))
    y, w = module(q, k, v, need_weights=weights is not None, average_attn_weights=weights == "average", **given)
    outputs = {"output": y} if weights is None else {"output": y, "weights": w}
    return {"name": name, "width": width, "heads": heads, "key_width": key_width, "value_width": value_width, "bias": bias,
            "weights_of": weights, "is_causal": bool(call.get("is_causal")), "masks": arrays(masks), **finished(module, inputs, outputs)}


def padding(counts, keys, floating=False):
    mask = torch.arange(keys)[None, :] >= torch.tensor(counts)[:, None]
    return torch.zeros(mask.shape).masked_fill(mask, float("-inf")) if floating else mask


def sliding(queries, keys):
    return (torch.arange(queries)[:, None] - torch.arange(keys)[None, :]).abs() > 1


def attentions():
    return [
        attention("plain", weights="average"),
        attention("self", own=True, keys=3),
        attention("self_causal", own=True, keys=3, is_causal=True, weights="each"),
        attention("widths", key_width=5, value_width=7, weights="each"),
        attention("key_width", key_width=4, bias=False),
        attention("causal_longer_keys", is_causal=True),
        attention("causal_longer_queries", is_causal=True, queries=5, keys=2, weights="average"),
        attention("padding", masks={"key_padding_mask": padding([4, 2], 4)}, weights="average"),
        attention("padding_added", masks={"key_padding_mask": padding([3, 1], 4, True)}),
        attention("padding_causal", masks={"key_padding_mask": padding([4, 2], 4)}, is_causal=True, queries=4),
        attention("window", masks={"attn_mask": sliding(3, 4)}, weights="each"),
        attention("bias_of_scores", masks={"attn_mask": draw(3, 4)}, weights="average"),
        attention("each_head", masks={"attn_mask": draw(4, 3, 4)}),
        attention("each_head_hidden", heads=3, masks={"attn_mask": torch.stack([sliding(3, 4)] * 5 + [torch.zeros(3, 4, dtype=torch.bool)])}),
        attention("both_bool", masks={"attn_mask": sliding(3, 4), "key_padding_mask": padding([4, 3], 4)}, weights="each"),
        attention("both_added", masks={"attn_mask": draw(3, 4), "key_padding_mask": padding([4, 2], 4, True)}, weights="average"),
    ]


def recurrent(name, cell, layers=1, bidirectional=False, state=True, lengths=None, steps=5):
    kind = torch.nn.LSTM if cell == "lstm" else torch.nn.GRU
    module = kind(3, 4, num_layers=layers, bidirectional=bidirectional, batch_first=True)
    round_parameters(module)
    samples = 3
    inputs = {"x": draw(samples, steps, 3)}
    if state:
        inputs["h"] = draw(layers * (1 + bidirectional), samples, 4) * 0.5
        if cell == "lstm":
            inputs["c"] = draw(layers * (1 + bidirectional), samples, 4)
    inputs = {k: t.clone().requires_grad_() for k, t in inputs.items()}
    x = inputs["x"]
    begin = None if not state else (inputs["h"], inputs["c"]) if cell == "lstm" else inputs["h"]
    if lengths:
        x = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    y, end = module(x, begin)
    if lengths:
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=steps)
    outputs = {"y": y, "h": end[0], "c": end[1]} if cell == "lstm" else {"y": y, "h": end}
    return {"name": name, "cell": cell, "layers": layers, "bidirectional": bidirectional, "lengths": lengths, **finished(module, inputs, outputs)}


def recurrents():
    out = []
    for cell in ("lstm", "gru"):
        out += [
            recurrent(cell + "_zeros", cell, state=False),
            recurrent(cell + "_state", cell),
            recurrent(cell + "_one_step", cell, steps=1),
            recurrent(cell + "_lengths", cell, state=False, lengths=[5, 2, 4]),
            recurrent(cell + "_state_lengths_both", cell, layers=2, bidirectional=True, lengths=[2, 5, 1]),
            recurrent(cell + "_lengths_both", cell, layers=2, bidirectional=True, state=False, lengths=[3, 1, 5]),
        ]
    return out


OPTIMIZERS = {"sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), "adam": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
              "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1})}


def groups(name):
    """Three groups over 8 steps: the first has the optimizer's settings, the second rate and decay of its own, the third is frozen until
    step 3. All gradients are clipped together, a scheduler halves the rates from step 5 on."""
    kind, settings = OPTIMIZERS[name]
    p = [draw(2, 2).requires_grad_() for _ in range(3)]
    begin = [array(t) for t in p]
    opt = kind([{"params": [p[0]]}, {"params": [p[1]], "lr": settings["lr"] / 4, "weight_decay": 0.3}, {"params": [p[2]]}], **settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 0.5 if step >= 5 else 1.0)
    targets, norms, values = [draw(2, 2) for _ in range(3)], [], []
    for step in range(8):
        p[2].requires_grad_(step >= 3)
        opt.zero_grad(set_to_none=True)
        sum(((a - t) ** 2).sum() for a, t in zip(p, targets)).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([t for t in p if t.requires_grad], 1.0)))
        opt.step()
        schedule.step()
        values.append([array(t) for t in p])
    return {"name": name, "settings": settings, "begin": begin, "targets": [array(t) for t in targets], "norms": norms, "values": values}


class Block(torch.nn.Module):
    """A pre-norm block under the names of nn::TransformerBlock."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.linear1, self.linear2 = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, **masks):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False, **masks)[0]
        return x + self.linear2(torch.nn.functional.gelu(self.linear1(self.norm2(x))))


def block(name, masks=None, lengths=None, is_causal=False, tokens=4):
    module = Block(6, 2)
    round_parameters(module)
    inputs = {"x": draw(2, tokens, 6).requires_grad_()}
    given = dict(masks or {})
    if lengths:
        given["key_padding_mask"] = padding(lengths, tokens)
    if is_causal:
        given["attn_mask"] = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    outputs = {"output": module(inputs["x"], **given)}
    return {"name": name, "masks": arrays(masks or {}), "lengths": lengths, "is_causal": is_causal, **finished(module, inputs, outputs)}


def blocks():
    return [
        block("plain"),
        block("causal", is_causal=True),
        block("padding", masks={"key_padding_mask": padding([4, 2], 4)}),
        block("lengths", lengths=[3, 4]),
        block("lengths_causal", lengths=[2, 4], is_causal=True),
        block("hidden", masks={"attn_mask": sliding(4, 4)}),
        block("added", masks={"attn_mask": draw(4, 4), "key_padding_mask": padding([4, 3], 4, True)}),
        block("each_head", masks={"attn_mask": draw(4, 4, 4)}),
    ]


def muon_step(p, lr, decay, state, momentum=0.95, iterations=5):
    """Jordan et al. 2024 with Nesterov's momentum, in double precision; PyTorch's own iterates in bfloat16."""
    state["m"] = state.get("m", torch.zeros_like(p)) * momentum + p.grad * (1 - momentum)
    x = p.grad * (1 - momentum) + state["m"] * momentum
    rows, columns = x.shape
    x = (x.T if rows > columns else x) / (x.norm() + 1e-7)
    for _ in range(iterations):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    with torch.no_grad():
        p.mul_(1 - lr * decay).sub_((x.T if rows > columns else x) * lr * max(1, rows / columns) ** 0.5)


def muon():
    """A group of a matrix and a bias, one with rate and decay of its own, one that AdamW steps at a rate of its own, and one that it
    steps at a share of Muon's."""
    lr, decay, ratio = 0.05, 0.1, 0.15
    p = [draw(*shape).requires_grad_() for shape in ((3, 2), (3,), (2, 3), (2, 2), (2, 2))]
    begin = [array(t) for t in p]
    adam = torch.optim.AdamW([{"params": [p[1]], "lr": lr * ratio}, {"params": [p[3]], "lr": 0.01}, {"params": [p[4]], "lr": lr * ratio}],
                             betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)
    targets, values, states = [draw(*t.shape) for t in p], [], [{}, {}]
    for _ in range(6):
        for t in p:
            t.grad = None
        sum(((a - t) ** 2).sum() for a, t in zip(p, targets)).backward()
        muon_step(p[0], lr, decay, states[0])
        muon_step(p[2], lr / 5, 0.3, states[1])
        adam.step()
        values.append([array(t) for t in p])
    return {"name": "muon", "lr": lr, "weight_decay": decay, "begin": begin, "targets": [array(t) for t in targets], "values": values}


def hooked(name, change):
    """Two layers; the gradient of what is between them, or of a module's inputs or results, is changed."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    round_parameters(net)
    x = draw(3, 3).requires_grad_()
    net.train()
    if name == "results":
        net[1].register_full_backward_pre_hook(lambda m, g: (change(g[0]),))
    if name == "inputs":
        net[2].register_full_backward_hook(lambda m, gi, go: (change(gi[0]),))
    h = net[1](net[0](x))
    if name in ("clip", "scale", "reverse"):
        h.register_hook(change)
    return {"name": name, **finished(net, {"x": x}, {"y": net[2](h)})}


def hooks():
    return [
        hooked("clip", lambda g: g.clamp(-0.2, 0.2)),
        hooked("scale", lambda g: g * 3),
        hooked("reverse", lambda g: -g),
        hooked("results", lambda g: g * g.abs()),
        hooked("inputs", lambda g: g / g.norm()),
    ]


if __name__ == "__main__":
    found = {"torch": torch.__version__, "attention": attentions(), "recurrent": recurrents(), "groups": [groups(n) for n in OPTIMIZERS],
             "blocks": blocks(), "muon": [muon()], "hooks": hooks()}
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: " + ("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in v) + "\n]" if isinstance(v, list) else json.dumps(v))
                                       for k, v in found.items()) + "\n}\n")
