"""Writes torch_expected.json: what PyTorch gives for schedules, optimizers and 20 training steps of two nets.
Weights and batches come from a formula that tests/peers/peers_test.cpp repeats, so the file holds results only.
usage: python torch_expected.py > torch_expected.json   (PyTorch 2.x, CPU)
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler as S

torch.set_num_threads(1)


def wave(shape, phase, scale):
    """Element i is scale * sin(phase + 0.7 i + 0.01 (i mod 97)), computed in double, stored as f32."""
    n = math.prod(shape)
    i = torch.arange(n, dtype=torch.float64)
    return (scale * torch.sin(phase + 0.7 * i + 0.01 * (i % 97))).to(torch.float32).reshape(shape)


def set_weights(model):
    for k, p in enumerate(model.parameters()):
        fan = p[0].numel() if p.dim() > 1 else 16
        p.data = wave(p.shape, 0.3 * k, 1 / math.sqrt(fan))


def batch(step, n=16, classes=10):
    y = torch.tensor([(3 * i + step) % classes for i in range(n)])
    x = torch.stack([wave((1, 28, 28), 0.6 * y[i].item() + 0.02 * step + 0.01 * i, 1.0) for i in range(n)])
    return x, y


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def convnet():
    def block(c, o, k, stride, padding):
        return [nn.Conv2d(c, o, k, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*block(1, 8, 5, 2, 2), *block(8, 32, 3, 2, 1), *block(32, 32, 3, 1, 0), nn.AdaptiveAvgPool2d(5),
                         nn.Flatten(), nn.Linear(800, 10))


def losses(make, make_opt, clip=0.0, steps=20):
    model = make()
    set_weights(model)
    opt = make_opt(model.parameters())
    out = []
    for s in range(steps):
        x, y = batch(s)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        out.append(loss.item())
    model.eval()
    with torch.no_grad():
        out.append(F.cross_entropy(model(batch(0)[0]), batch(0)[1]).item())
    return out


def rates(make, steps=25):
    p = nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([p], lr=0.4)
    sched = make(opt)
    out = []
    for _ in range(steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return out


def quadratic(make):
    """Ten steps on three parameters with gradient p * wave: the optimizer alone."""
    p = nn.Parameter(wave((7,), 0.5, 1.0))
    opt = make([p])
    for s in range(10):
        p.grad = p.data * wave((7,), 2.0 + s, 1.0)
        opt.step()
    return p.data.tolist()


sgd = lambda lr, **k: lambda ps: torch.optim.SGD(ps, lr=lr, **k)
adam = lambda **k: lambda ps: torch.optim.Adam(ps, **k)
adamw = lambda **k: lambda ps: torch.optim.AdamW(ps, **k)

print(json.dumps({
    "torch": torch.__version__,
    "losses": {
        "mlp sgd": losses(mlp, sgd(0.01, momentum=0.9, weight_decay=5e-4)),
        "mlp adam": losses(mlp, adam(lr=1e-3)),
        "lenet sgd nesterov": losses(lenet, sgd(0.02, momentum=0.9, nesterov=True)),
        "lenet adamw clip": losses(lenet, adamw(lr=2e-3, weight_decay=0.05), clip=0.5),
        "convnet sgd": losses(convnet, sgd(0.02, momentum=0.9)),  # at 0.05 one flipped ReLU grows a thousandfold
    },
    "optimizers": {
        "sgd": quadratic(sgd(0.1)),
        "sgd decay": quadratic(sgd(0.1, weight_decay=0.1)),
        "sgd momentum": quadratic(sgd(0.1, momentum=0.9, weight_decay=0.01)),
        "sgd nesterov": quadratic(sgd(0.1, momentum=0.9, nesterov=True)),
        "adam": quadratic(adam(lr=0.05)),
        "adam decay": quadratic(adam(lr=0.05, betas=(0.8, 0.99), weight_decay=0.1)),
        "adamw": quadratic(adamw(lr=0.05, weight_decay=0.1)),
    },
    "schedules": {
        "step": rates(lambda o: S.StepLR(o, 5, 0.3)),
        "multi_step": rates(lambda o: S.MultiStepLR(o, [4, 9, 17], 0.1)),
        "cosine": rates(lambda o: S.CosineAnnealingLR(o, 20, 0.01), 21),
        "linear": rates(lambda o: S.LinearLR(o, 1.0, 0.1, 12)),
        "one_cycle": rates(lambda o: S.OneCycleLR(o, 0.4, 25)),
        "one_cycle linear": rates(lambda o: S.OneCycleLR(o, 0.4, 20, pct_start=0.4, div_factor=10, final_div_factor=100, anneal_strategy="linear"), 20),
        "warmup cosine": rates(lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 5), S.CosineAnnealingLR(o, 15)], [5]), 20),
    },
    "counts": {"mlp": sum(p.numel() for p in mlp().parameters()), "lenet": sum(p.numel() for p in lenet().parameters())},
}, indent=1))
