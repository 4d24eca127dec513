#!/usr/bin/env python3
"""Writes torch_zoo.json: what PyTorch computes with torchvision's nets, for torch_zoo_test.cpp.

Weights and pictures come from a hash of (name, index) that the test repeats, so the file holds results only: outputs in
evaluation and training, the loss, and of every parameter's gradient its norm and its product with a hashed direction.
Computed in double. usage: torch_zoo.py [--check | --search | --names] [NET ...]

A gradient jumps where a ReLU's input is near zero or two entries of a pooling window are near each other: there rounding
would decide which elements count. So nets with BatchNorm are "gated" for the gradient (shifts raised by 4, ends of
residual branches damped), and the pictures' salt is one that keeps clear of such places. --search prints, for some salts,
how near the nearest is; --check prints how far off single precision is. Of the nets in FOLLOWED it also keeps the losses of
100 steps of SGD. --names writes torchvision_names.json: of torchvision's nets the number of parameters and a hash of all names
and shapes. torch_zoo.py --train FOLDER NET trains the net for 100 steps, and writes its first weights (start.pth), the batches
(batches.pth) and the losses (losses.json), for the test that trains from the files; --rounding NET... prints how far
PyTorch's own losses of these steps are from one another.
"""
import collections
import json
import math
import pathlib
import re
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torchvision.models.resnet import BasicBlock

CLASSES = 10
VOCABULARY = 50  # of nets that read tokens
GATE = 4.0


def noise(name, shape):
    """Element i is uniform in [-1, 1): 24 bits of a hash (murmur3's last steps) of i and the name."""
    key = 0x811C9DC5
    for byte in name.encode():
        key = ((key ^ byte) * 0x01000193) & 0xFFFFFFFF
    h = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(key)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return torch.from_numpy(((h >> np.uint32(8)).astype(np.float64) / 2**23 - 1).reshape(shape))


def last_of_branch(name, names):
    """Whether this is the last BatchNorm before the sum of a residual block."""
    block = name.split(".bn")[0]
    if ".bn3." in name or (".bn2." in name and block + ".bn3.weight" not in names):
        return True
    if re.search(r"features\.\d+\.conv\.[23]\.|\.f\.c\.1\.", name):
        return True
    inside = re.match(r"(.*\.block\.)(\d)\.1\.", name)
    return bool(inside) and not any(n.startswith(f"{inside[1]}{int(inside[2]) + 1}.") for n in names)


def weight(name, shape, names, gated):
    norm = name.rsplit(".", 1)[0] + ".running_var" in names
    branch_end = last_of_branch(name, names)
    u = noise(name, shape)
    if name.endswith("layer_scale"):
        return 0.1 + 0.02 * u
    if len(shape) > 1:
        return u * math.sqrt(6 * shape[0] / math.prod(shape))
    if name.endswith("running_var"):
        return 1 + 0.2 * u
    if name.endswith("weight"):
        return (1 + 0.2 * u) * (0.1 if gated and branch_end else 1)
    shift = GATE if gated and norm and not branch_end and name.endswith("bias") else 0
    return shift + 0.1 * u


def fill(model, gated):
    state = model.state_dict()
    for name, t in state.items():
        if not name.endswith("num_batches_tracked"):
            t.copy_(weight(name, tuple(t.shape), state, gated).float())


class SmallResNet(nn.Module):
    """He et al. 2016, section 4.2, with projection shortcuts."""

    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        c = 16
        for s, width in enumerate((16, 32, 64)):
            stage = []
            for k in range(blocks):
                stride = 2 if k == 0 and s > 0 else 1
                change = stride > 1 or c != width
                down = nn.Sequential(nn.Conv2d(c, width, 1, stride, bias=False), nn.BatchNorm2d(width)) if change else None
                stage.append(BasicBlock(c, width, stride, down))
                c = width
            setattr(self, f"layer{s + 1}", nn.Sequential(*stage))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TextCNN(nn.Module):
    """Kim 2014."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 128, padding_idx=0)
        self.widths = nn.ModuleDict({f"conv{k}": nn.Sequential(nn.Conv1d(128, 100, k)) for k in (3, 4, 5)})
        self.fc = nn.Linear(300, CLASSES)

    def forward(self, x):
        x = self.embedding(x).transpose(1, 2)
        return self.fc(torch.cat([F.relu(w(x)).amax(2) for w in self.widths.values()], 1))


class TextBow(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCABULARY, 64, mode="mean", padding_idx=0)
        self.fc = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.fc(self.embedding(x))


class RecurrentText(nn.Module):
    """The state of the last real token."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 128, padding_idx=0)
        self.rnn = layer(128, 128, batch_first=True)
        self.fc = nn.Linear(128, CLASSES)

    def forward(self, x):
        lengths = (torch.arange(1, x.shape[1] + 1) * (x != 0)).amax(1).clamp(min=1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        h = self.rnn(packed)[1]
        return self.fc((h[0] if isinstance(h, tuple) else h)[-1])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h, t = self.norm1(x), x.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool).triu(1)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class GptChar(nn.Module):
    """Radford et al. 2019, pre-norm blocks, an output layer of its own."""

    def __init__(self, length=8, width=384, heads=6, depth=6):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embedding(x) + self.positions.weight[:x.shape[1]])))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES))


def cifarnet():
    layers, c = [nn.Conv2d(3, 24, 2, bias=False).requires_grad_(False), nn.GELU()], 24
    for width in (64, 128, 256):
        layers += [nn.Conv2d(c, width, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.GELU()]
        layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.GELU()]
        c = width
    return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, CLASSES))


def affine(inputs):
    return nn.Sequential(collections.OrderedDict(flatten=nn.Flatten(), fc=nn.Linear(inputs, CLASSES)))


def vision(name, **options):
    return lambda: getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **options)


SMALL, LARGE = (4, 3, 32, 32), (4, 3, 64, 64)
# name: (net, shape of the batch, salt of its pictures)
NETS = {
    "linear_regression": (lambda: affine(8), (16, 8), 0),
    "logistic_regression": (lambda: affine(784), (16, 1, 28, 28), 0),
    "lenet": (lenet, (16, 1, 28, 28), 39),
    "cifarnet": (cifarnet, SMALL, 1),
    "resnet20": (lambda: SmallResNet(3), SMALL, 22),
    "resnet32": (lambda: SmallResNet(5), SMALL, 21),
    "resnet56": (lambda: SmallResNet(9), SMALL, 27),
    "alexnet": (vision("alexnet"), LARGE, 19),
    "vgg11": (vision("vgg11"), SMALL, 28),
    "vgg13": (vision("vgg13"), SMALL, 38),
    "vgg16": (vision("vgg16"), SMALL, 38),
    "vgg19": (vision("vgg19"), SMALL, 38),
    "vgg11_bn": (vision("vgg11_bn"), SMALL, 37),
    "vgg13_bn": (vision("vgg13_bn"), SMALL, 33),
    "vgg16_bn": (vision("vgg16_bn"), SMALL, 33),
    "vgg19_bn": (vision("vgg19_bn"), SMALL, 262),
    "googlenet": (vision("googlenet", aux_logits=True, init_weights=False), (12, 3, 32, 32), 102),
    "resnet18": (vision("resnet18"), LARGE, 31),
    "resnet34": (vision("resnet34"), LARGE, 31),
    "resnet50": (vision("resnet50"), LARGE, 31),
    "resnet101": (vision("resnet101"), (2, 3, 64, 64), 31),
    "resnet152": (vision("resnet152"), (2, 3, 64, 64), 31),
    "resnext50_32x4d": (vision("resnext50_32x4d"), (2, 3, 64, 64), 31),
    "wide_resnet50_2": (vision("wide_resnet50_2"), (2, 3, 64, 64), 31),
    "densenet121": (vision("densenet121"), (2, 3, 64, 64), 0),
    "squeezenet1_0": (vision("squeezenet1_0"), (2, 3, 64, 64), 0),
    "squeezenet1_1": (vision("squeezenet1_1"), (2, 3, 64, 64), 0),
    "mobilenet_v2": (vision("mobilenet_v2"), LARGE, 0),
    "mobilenet_v3_small": (vision("mobilenet_v3_small"), LARGE, 0),
    "mobilenet_v3_large": (vision("mobilenet_v3_large"), LARGE, 0),
    "efficientnet_b0": (vision("efficientnet_b0"), LARGE, 0),
    "efficientnet_b1": (vision("efficientnet_b1"), LARGE, 0),
    "efficientnet_b2": (vision("efficientnet_b2"), LARGE, 0),
    "efficientnet_b3": (vision("efficientnet_b3"), LARGE, 0),
    "regnet_y_400mf": (vision("regnet_y_400mf"), LARGE, 0),
    "convnext_tiny": (vision("convnext_tiny"), (2, 3, 64, 64), 0),
    "vit_b_16": (vision("vit_b_16", image_size=32), (2, 3, 32, 32), 0),
    "textcnn": (TextCNN, (4, 24), 0),
    "text_bow": (TextBow, (4, 24), 0),
    "lstm_text": (lambda: RecurrentText(nn.LSTM), (4, 24), 0),
    "gru_text": (lambda: RecurrentText(nn.GRU), (4, 24), 0),
    "gpt_char": (GptChar, (2, 8), 0),
}
FOLLOWED = {"lenet": (16, 0.01), "resnet20": (32, 0.005), "lstm_text": (16, 0.05)}  # batch and learning rate
# Training from a file: a batch that BatchNorm can take the statistics of, and a learning rate, a tenth of it with BatchNorm, and
# a tenth in a VGG, whose linear layers are wide. Nearly equal entries of a pooling window amplify rounding. So steps are compared as long as PyTorch's own losses differ by less than CALM, also from weights that
# differ by CHANGE: kernels round a part of that, but in every layer and step.
LEAST_BATCH, RATE, CALM, CHANGE = 8, 1e-3, 2e-4, 1e-5
TOKENS = ("textcnn", "text_bow", "lstm_text", "gru_text", "gpt_char")  # shape is (N, T)


def pictures(shape, salt):
    return (noise(f"x{salt}", shape) * math.sqrt(3)).float()


def tokens(shape, salt):
    return ((noise(f"x{salt}", shape) + 1) / 2 * VOCABULARY).long()


def losses(name, dtype=torch.float64):
    """100 steps of SGD with momentum 0.9 from the gated weights (from plain ones a resnet's rounding grows to 0.08); each
    step has a batch of its own."""
    make, shape, _ = NETS[name]
    batch, lr = FOLLOWED[name]
    shape = (batch, *shape[1:])
    model = make()
    with torch.no_grad():
        fill(model, True)
    optimizer = torch.optim.SGD(model.to(dtype).train().parameters(), lr, momentum=0.9)
    out = []
    for step in range(100):
        x = tokens(shape, f".{step}") if name in TOKENS else pictures(shape, f".{step}").to(dtype)
        y = torch.tensor([(3 * i + step) % CLASSES for i in range(shape[0])])
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


def without_dropout(model):
    for m in model.modules():
        if isinstance(m, (nn.Dropout, torchvision.ops.StochasticDepth)):
            m.p = 0.0
    return model


def language_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def loss_with_heads(name, y_hat, y, criterion):
    """The loss, with those of auxiliary heads, and the outputs of the last head."""
    if name != "googlenet":
        return criterion(y_hat, y), y_hat
    heads = (y_hat.aux_logits1, y_hat.aux_logits2)
    return criterion(y_hat.logits, y) + sum(0.3 * criterion(h, y) for h in heads), y_hat.logits


def trainable_batches(name, shape):
    """100 batches whose classes can be learned: noise around an image, or a token, of each class."""
    draw = torch.Generator().manual_seed(1)
    for _ in range(100):
        y = torch.randint(0, CLASSES, shape[:1], generator=draw)
        if name in TOKENS:
            x = torch.randint(1, VOCABULARY, shape, generator=draw)
            typical = torch.rand(shape, generator=draw) < 0.3
            x = torch.where(typical, 1 + y[:, None].expand(shape), x)
            yield x, x.roll(-1, 1) if name == "gpt_char" else y
        else:
            of_class = torch.stack([pictures(shape[1:], f"class {c}") for c in y.tolist()])
            x = torch.randn(shape, generator=draw) + of_class
            yield x, x @ pictures((shape[1], CLASSES), "targets") if name == "linear_regression" else y


class Training:
    """SGD on one net, from weights that differ by the relative `change`. Nets with BatchNorm start from gated weights, since
    statistics of a small batch and the kinks of ReLU amplify rounding: from PyTorch's first weights its own losses of a resnet34 in
    f32, with and without oneDNN, differ by 2e-4 after two steps. The others start from PyTorch's first weights."""

    def __init__(self, name, dtype=torch.float32, change=0.0):
        torch.manual_seed(0)
        self.name, self.dtype = name, dtype
        self.model = without_dropout(NETS[name][0]())
        normalized = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in self.model.modules())
        if normalized:
            with torch.no_grad():
                fill(self.model, True)
        if change:
            with torch.no_grad():
                for n, p in self.model.named_parameters():
                    p *= 1 + change * noise("change of " + n, tuple(p.shape)).float()
        self.model.to(dtype).train()
        self.criterion = {"linear_regression": F.mse_loss, "gpt_char": language_loss}.get(name, F.cross_entropy)
        self.rate = RATE / 10 ** (normalized + name.startswith("vgg"))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(parameters, self.rate, momentum=0.9)

    def step(self, x, y):
        x, y = (t.to(self.dtype) if t.is_floating_point() else t for t in (x, y))
        loss, _ = loss_with_heads(self.name, self.model(x), y, self.criterion)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def train(name):
    """100 steps of SGD: the state dict before them, the batches, the learning rate, and losses by step in f32, in f64 and from
    weights that differ by CHANGE, up to the step where two of them differ by more than CALM."""
    _, shape, _ = NETS[name]
    batches = list(trainable_batches(name, (max(shape[0], LEAST_BATCH), *shape[1:])))
    trainings = Training(name), Training(name, torch.float64), Training(name, change=CHANGE)
    start = {n: t.clone() for n, t in trainings[0].model.state_dict().items()}
    losses = []
    for x, y in batches:
        of_step = [t.step(x, y) for t in trainings]
        if max(of_step) - min(of_step) > CALM:
            break
        losses.append(of_step)
    return start, batches, trainings[0].rate, losses


def save_training(name, folder):
    """The nets take turns in what torch.save writes: a state dict, the same in the older format, a checkpoint that contains it."""
    folder = pathlib.Path(folder)
    start, batches, rate, losses = train(name)
    form = list(NETS).index(name) % 3
    content = {"epoch": 1, "state_dict": {"module." + n: t for n, t in start.items()}} if form == 2 else start
    torch.save(content, folder / "start.pth", _use_new_zipfile_serialization=form != 1)
    torch.save({f"{part}{step}": t for step, pair in enumerate(batches) for part, t in zip("xy", pair)}, folder / "batches.pth")
    (folder / "losses.json").write_text(json.dumps({"rate": rate, "losses": [of_step[0] for of_step in losses]}))


def results(name, dtype=torch.float64):
    make, shape, salt = NETS[name]
    model = without_dropout(make())
    x = tokens(shape, salt) if name in TOKENS else pictures(shape, salt).to(dtype)
    if name == "linear_regression":
        y = noise("y", (shape[0], CLASSES)).float().to(dtype)
        criterion = F.mse_loss
    else:
        y = torch.tensor([(3 * i + 1) % CLASSES for i in range(shape[0])])
        criterion = F.cross_entropy
    if name == "gpt_char":
        y = tokens(shape, "y")
        criterion = language_loss
    out = {"input": shape[1:], "batch": shape[0], "salt": salt}
    if name in TOKENS:
        out["vocabulary"] = VOCABULARY
    with torch.no_grad():
        fill(model, False)
        out["evaluation"] = model.to(dtype).eval()(x)
        fill(model, True)
    loss, y_hat = loss_with_heads(name, model.train()(x), y, criterion)
    loss.backward()
    out["training"], out["loss"] = y_hat.detach(), loss.item()
    out["gradients"] = {n: p.grad.double() for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        out["after"] = model.eval()(x)  # with the statistics that the step has updated
    return out


def shorten(v):
    return [float(f"{e:.7g}") for e in v]


def digest(r):
    d = {k: shorten(v.reshape(-1).tolist()) if torch.is_tensor(v) else v for k, v in r.items() if k != "gradients"}
    d["loss"] = float(f"{d['loss']:.9g}")
    d["gradients"] = {
        n: shorten([g.norm().item(), (g * noise("direction of " + n, tuple(g.shape))).sum().item()])
        for n, g in r["gradients"].items()}
    return d


def off(a, b, scale=0.0):
    return ((a.double() - b.double()).norm() / (a.double().norm() + scale)).item()


def clearance(name, salts):
    """The nearest that any ReLU's input comes to 0, or a window's largest entry to its next, by the tensor's rms."""
    relu, pool = F.relu, F.max_pool2d
    nearest = math.inf

    def note(gap, x):
        nonlocal nearest
        if gap.numel():
            nearest = min(nearest, (gap.min() / x.square().mean().sqrt()).item())

    def seen_relu(x, inplace=False):
        note(x.abs(), x)
        return relu(x)

    def seen_pool(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        y = pool(x, kernel, stride, padding, dilation, ceil_mode)
        wide = F.pad(x, (padding, padding + kernel, padding, padding + kernel), value=-math.inf)
        windows = wide.unfold(2, kernel, stride).unfold(3, kernel, stride)[:, :, :y.shape[2], :y.shape[3]].flatten(4)
        first, second = windows.topk(2, -1).values.unbind(-1)
        gap = first - second  # equal entries stand for one entry further up, or for closed ReLUs
        note(gap[(gap > 0) & (first > 0)], x)
        return y

    make, shape, _ = NETS[name]
    model = make()
    fill(model, True)
    model.double().train()
    F.relu, F.max_pool2d = seen_relu, seen_pool
    for salt in salts:
        nearest = math.inf
        with torch.no_grad():
            model(pictures(shape, salt).double())
        yield nearest, salt
    F.relu, F.max_pool2d = relu, pool


def names_of(name):
    """Parameters of the net for 1000 classes, and FNV-1a of the sorted lines "name [shape]" of its state dict."""
    model = getattr(torchvision.models, name)(weights=None, **({"init_weights": False} if name == "googlenet" else {}))
    lines = [f"{n} [{','.join(map(str, t.shape))}]\n" for n, t in model.state_dict().items()
             if not n.endswith("num_batches_tracked")]
    key = 0xCBF29CE484222325
    for byte in "".join(sorted(lines)).encode():
        key = (key ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return {"parameters": sum(p.numel() for p in model.parameters()), "names": f"{key:016x}"}


names = [a for a in sys.argv[1:] if a[0] != "-"] or list(NETS)
if "--search" in sys.argv:
    for name in names:
        print(name, *(f"{salt}: {gap:.1e}" for gap, salt in sorted(clearance(name, range(40)), reverse=True)[:4]), flush=True)
elif "--names" in sys.argv:
    table = {name: names_of(name) for name in names if hasattr(torchvision.models, name)}
    path = pathlib.Path(__file__).with_name("torchvision_names.json")
    path.write_text("{\n" + ",\n".join(f'"{n}": {json.dumps(v)}' for n, v in table.items()) + "\n}\n")
elif "--train" in sys.argv:
    save_training(names[1], names[0])
elif "--rounding" in sys.argv:
    for name in names:
        for step, (single, double, changed) in enumerate(train(name)[3]):
            print(f"{name} {step} {single:.4f}, off by {single - double:.1e} in f64, {single - changed:.1e} from changed weights", flush=True)
elif "--check" in sys.argv:
    for name in names:
        exact, single = results(name), results(name, torch.float32)
        largest = max(g.norm().item() for g in exact["gradients"].values())
        faults = {n: off(g, single["gradients"][n], 1e-3 * largest) for n, g in exact["gradients"].items()
                  if g.norm() > 1e-5 * largest}
        worst = max(faults, key=faults.get)
        print(name, *(f"{k} {off(exact[k], single[k]):.1e}" for k in ("evaluation", "training", "after")),
              f"gradient {faults[worst]:.1e} at {worst}", flush=True)
        if name in FOLLOWED:
            print(name, "losses", max(abs(a - b) for a, b in zip(losses(name), losses(name, torch.float32))), flush=True)
else:
    path = pathlib.Path(__file__).with_suffix(".json")
    known = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        known[name] = digest(results(name))
        if name in FOLLOWED:
            known[name] |= {"followed": FOLLOWED[name], "losses": shorten(losses(name))}
        print(name, flush=True)
        path.write_text("{\n" + ",\n".join(f'"{n}": {json.dumps(known[n], separators=(",", ":"))}' for n in NETS if n in known) + "\n}\n")
