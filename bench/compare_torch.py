#!/usr/bin/env python3
"""Training-step times and peak memory of Freight and PyTorch, in alternation in one run.

usage: bench/compare_torch.py [workload ...] [--freight build/bin/freight] [--rounds 3] [--seconds 3] [--out FILE.json]

A step is forward, loss, backward and optimizer update on a resident batch. Each round runs `freight bench step` and then
PyTorch in every mode, each in a process of its own; the ratio is the best PyTorch median over Freight's median, round by
round. peak_rss_bytes is the largest resident set of each process; its ratio is that of PyTorch's leanest mode over
Freight's. With `--precision fp32,bf16` a round has both of Freight and of each mode, and Freight in bf16 is compared with the
best mode of any precision. Needs a Python with torch and torchvision; run it on an otherwise idle machine.

`--serve MODEL BATCH OPTIMIZER` is PyTorch's half of tools/gpu_check: it prepares all modes, says so, and times the mode that each line
of its input names.
"""
import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

# Specs of networks that Freight does not have built in, with random weights.
SPECS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
# workload: (freight model, batch, optimizer)
WORKLOADS = {
    "mlp_b64": ("mlp", 64, "sgd"),
    "mlp_wide_b256": ("mlp_wide", 256, "adam"),
    "lenet_b64": ("lenet", 64, "sgd"),
    "resnet20_b128": ("resnet20", 128, "sgd"),
    "alexnet_b32": ("alexnet", 32, "sgd"),
    "googlenet_b16": ("googlenet", 16, "sgd"),
    "resnet50_b16": ("resnet50", 16, "sgd"),
    "vgg16_b8": ("vgg16", 8, "sgd"),
    "lstm_b64_T200": ("lstm_text", 64, "adam"),
    "gpt_char_b16_T256": ("gpt_char", 16, "adam"),
    "mobilenet_v2_b16": ("mobilenet_v2", 16, "sgd"),
    "efficientnet_b0_b16": ("efficientnet_b0", 16, "sgd"),
    "convnext_tiny_b8": ("convnext_tiny", 8, "adam"),
    "vit_b_16_b8": ("vit_b_16", 8, "adam"),
    "bert_base_b16_T128": (f"{SPECS}/bert_base.json", 16, "adam"),
    "attention_b8_T512": (f"{SPECS}/attention_512.json", 8, "adam"),
    "attention_b4_T1024": (f"{SPECS}/attention_1024.json", 4, "adam"),
}
# eager: in PyTorch's own layout (N, C, H, W); channels_last: eager in (N, H, W, C); compile: torch.compile, channels last.
MODES = ("eager", "channels_last", "compile")
# On a GPU, all channels last: reduce-overhead is torch.compile with CUDA graphs of its own; graph is a compiled forward and backward
# with a fused, capturable optimizer, the whole step captured by hand as one CUDA graph.
GPU_MODES = ("channels_last", "compile", "reduce-overhead", "graph")
# torchvision's, on 1000 classes of 224 x 224
ZOO = ("alexnet", "convnext_tiny", "efficientnet_b0", "googlenet", "mobilenet_v2", "resnet18", "resnet50", "vgg16", "vit_b_16")
# Transformers of pre-norm blocks on tokens; with `classes` the first token is classified, else each predicts one.
TRANSFORMERS = {
    "gpt_char": {"tokens": 65, "width": 384, "layers": 6, "heads": 6, "length": 256, "causal": True},
    "bert_base": {"tokens": 30522, "width": 768, "layers": 12, "heads": 12, "length": 128, "causal": False, "classes": 2},
    "attention_512": {"tokens": 256, "width": 512, "layers": 2, "heads": 8, "length": 512, "causal": True},
    "attention_1024": {"tokens": 256, "width": 512, "layers": 2, "heads": 8, "length": 1024, "causal": True},
}


def name_of(model):
    """A built-in model, or the name of a spec's file."""
    return os.path.splitext(os.path.basename(model))[0]


def torch_net(model):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Basic(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            plain = stride == 1 and i == o
            self.s = nn.Sequential() if plain else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            y = F.relu(self.b1(self.c1(x)))
            return F.relu(self.b2(self.c2(y)) + self.s(x))

    class LstmText(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.fc = nn.Embedding(20000, 128), nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 4)

        def forward(self, x):
            return self.fc(self.rnn(self.embedding(x))[0][:, -1])

    class TextCnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.fc = nn.Embedding(20000, 128), nn.Linear(300, 2)
            self.convs = nn.ModuleList(nn.Conv1d(128, 100, k) for k in (3, 4, 5))

        def forward(self, x):
            y = self.embedding(x).transpose(1, 2)
            return self.fc(torch.cat([F.relu(conv(y)).amax(2) for conv in self.convs], 1))

    class Block(nn.Module):
        def __init__(self, width, heads, causal):
            super().__init__()
            self.causal = causal
            self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
            return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))

    class Transformer(nn.Module):
        def __init__(self, tokens, width, layers, heads, length, causal, classes=None):
            super().__init__()
            self.classifies = classes is not None
            self.embedding, self.places = nn.Embedding(tokens, width), nn.Parameter(torch.zeros(length, width))
            self.blocks = nn.Sequential(*[Block(width, heads, causal) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes or tokens)

        def forward(self, x):
            y = self.norm(self.blocks(self.embedding(x) + self.places[:x.shape[1]]))
            return self.head(y[:, 0] if self.classifies else y)

    if model in ZOO:
        import torchvision
        options = {"aux_logits": True, "init_weights": False} if model == "googlenet" else {}
        return getattr(torchvision.models, model)(**options), (3, 224, 224)
    if model == "lstm_text":
        return LstmText(), (200,)
    if model == "textcnn":
        return TextCnn(), (64,)
    if model in TRANSFORMERS:
        return Transformer(**TRANSFORMERS[model]), (TRANSFORMERS[model]["length"],)
    if model == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28)
    if model == "mlp_wide":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                             nn.Linear(1024, 10)), (1, 28, 28)
    if model == "lenet":
        return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                             nn.Linear(84, 10)), (1, 28, 28)
    layers, i = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for o, stride in ((16, 1), (32, 2), (64, 2)):
        for k in range(3):
            layers.append(Basic(i, o, stride if k == 0 else 1))
            i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), (3, 32, 32)


def torch_step(model, batch, optimizer, mode, device="cpu", precision="fp32"):
    """A function that makes one training step of the net, and one that waits for the device."""
    import torch
    import torch.nn.functional as F
    torch.manual_seed(0)
    model = name_of(model)
    net, shape = torch_net(model)
    net.train()
    if model == "lstm_text":
        x, y = torch.randint(1, 20000, (batch, *shape)), torch.randint(0, 4, (batch,))
    elif model in TRANSFORMERS:
        settings = TRANSFORMERS[model]
        x = y = torch.randint(1, settings["tokens"], (batch, *shape))
        if "classes" in settings:
            y = torch.randint(0, settings["classes"], (batch,))
    else:
        x, y = torch.randn(batch, *shape), torch.randint(0, 1000 if model in ZOO else 10, (batch,))
    if mode != "eager" and x.dim() == 4:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    net, x, y = net.to(device), x.to(device), y.to(device)
    fused = {"fused": True} if mode == "graph" else {}
    if optimizer == "sgd":
        opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, **fused)
    else:
        opt = torch.optim.Adam(net.parameters(), 1e-3, **fused, **({"capturable": True} if fused else {}))
    forward = net
    if mode in ("compile", "graph"):
        forward = torch.compile(net)
    elif mode == "reduce-overhead":
        forward = torch.compile(net, mode="reduce-overhead")
    kind = torch.device(device).type
    if kind == "cuda":  # f32 means f32 on both sides
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)

    def step():
        with torch.autocast(kind, dtype=half) if half else contextlib.nullcontext():
            z = forward(x)
        if model == "googlenet":  # (main, auxiliary 2, auxiliary 1), weighted as Freight's heads are
            loss = sum(w * F.cross_entropy(head.float(), y) for w, head in zip((1, 0.3, 0.3), z))
        else:
            loss = F.cross_entropy(z.reshape(-1, z.shape[-1]).float(), y.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    wait = torch.cuda.synchronize if kind == "cuda" else lambda: None
    if mode != "graph":
        for _ in range(5):
            step()
        wait()
        return step, wait
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    wait()
    return graph.replay, wait


def time_torch(step, wait, seconds):
    import torch
    start = time.perf_counter()
    step()
    wait()
    per = max(1, int(0.05 / max(time.perf_counter() - start, 1e-5)))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(per):
            step()
        wait()
        times.append((time.perf_counter() - start) / per)
    return {"ms_median": statistics.median(times) * 1e3, "ms_min": min(times) * 1e3, "peak_rss_bytes": peak_rss_bytes(),
            "torch": torch.__version__}


def run_torch(workload, mode, precision, seconds):
    print(json.dumps(time_torch(*torch_step(*WORKLOADS[workload], mode, precision=precision), seconds)))


def serve(model, batch, optimizer, a):
    """One line {"mode", "ready" or "error"} per mode, then one line of times per line of standard input."""
    steps = {}
    for mode in a.modes.split(","):
        try:
            steps[mode] = torch_step(model, batch, optimizer, mode, a.device, a.precision)
            print(json.dumps({"mode": mode, "ready": True}), flush=True)
        except Exception as e:  # pylint: disable=broad-except
            print(json.dumps({"mode": mode, "error": f"{type(e).__name__}: {e}".splitlines()[0][:300]}), flush=True)
    for line in sys.stdin:
        print(json.dumps(time_torch(*steps[line.strip()], a.seconds)), flush=True)


def peak_rss_bytes():
    # Not getrusage: its maximum is inherited from the process that started this one.
    with open("/proc/self/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:"))


def child(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    flags = open("/proc/cpuinfo", encoding="utf-8").read()
    sets = [s for s in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if s in flags]
    return {"cpu": model, "cores": os.cpu_count(), "instruction_sets": sets, "system": platform.platform(),
            "load": os.getloadavg()[0]}


def ratios(row, precision, modes):
    """Of one round: Freight in a precision beside PyTorch's modes of f32, or, where it computes in 16 bits, of any."""
    mine = row["freight"][precision]
    allowed = {m: row[m] for m in modes if precision != "fp32" or m.endswith(" fp32")}
    timed = {m: r for m, r in allowed.items() if "ms_median" in r}
    if not timed or "ms_median" not in mine:
        sys.exit("; ".join(f"{m}: {r['error']}" for m, r in {"freight": mine, **allowed}.items() if "error" in r))
    best = min(timed, key=lambda m: timed[m]["ms_median"])
    leanest = min(timed, key=lambda m: timed[m]["peak_rss_bytes"])
    return {"best_torch": best, "ratio": timed[best]["ms_median"] / mine["ms_median"], "ms": mine["ms_median"],
            "torch_ms": timed[best]["ms_median"], "leanest_torch": leanest, "peak_rss_bytes": mine["peak_rss_bytes"],
            "peak_rss_ratio": timed[leanest]["peak_rss_bytes"] / mine["peak_rss_bytes"]}


def compare(workload, a):
    """The rounds of one workload, and their medians by precision."""
    model, batch, optimizer = WORKLOADS[workload]
    precisions = a.precision.split(",")
    modes = [f"{m} {p}" for p in precisions for m in a.modes.split(",")]
    step = [a.freight, "bench", "step", "--model", model, "--batch-size", str(batch), "--optimizer", optimizer,
            "--seconds", str(a.seconds), "--json"]
    rounds = []
    for _ in range(a.rounds):
        row = {"freight": {p: child([*step, "--precision", p]) for p in precisions}}
        for mode in modes:
            row[mode] = child([sys.executable, __file__, "--child", workload, *mode.split(), "--seconds", str(a.seconds)])
        rounds.append(row)
    result = {"rounds": rounds}
    for p in precisions:
        each = [ratios(row, p, modes) for row in rounds]
        middle = {k: statistics.median(r[k] for r in each) for k in ("ratio", "ms", "torch_ms", "peak_rss_bytes", "peak_rss_ratio")}
        result[p] = {**middle, "ratios": [r["ratio"] for r in each], "best_torch": [r["best_torch"] for r in each],
                     "leanest_torch": [r["leanest_torch"] for r in each]}
        print(f"{workload:17s} {p} freight {middle['ms']:9.4f} ms   best torch {middle['torch_ms']:9.4f} ms ({each[-1]['best_torch']})"
              f"   ratio {middle['ratio']:.2f}   peak {middle['peak_rss_bytes'] / 2**20:.0f} MiB,"
              f" torch {middle['peak_rss_bytes'] * middle['peak_rss_ratio'] / 2**20:.0f} MiB ({each[-1]['leanest_torch']})", flush=True)
    return result


def write(result, path):
    """Writes what there is so far, if a file is asked for."""
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("workloads", nargs="*")
    a.add_argument("--freight", default="build/bin/freight")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--modes", default=",".join(MODES))
    a.add_argument("--out")
    a.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    a.add_argument("--serve", nargs=3, metavar=("MODEL", "BATCH", "OPTIMIZER"), help="PyTorch's half of tools/gpu_check")
    a.add_argument("--device", default="cpu", help="of --serve: cpu, cuda:0")
    a.add_argument("--precision", default="fp32", help="fp32, bf16, fp16; but for --serve also several with commas between")
    parser, a = a, a.parse_args()
    unknown = set(a.modes.split(",")) - {*MODES, *GPU_MODES}
    if unknown:
        parser.error(f"no such mode: {', '.join(unknown)}; there are {', '.join(dict.fromkeys(MODES + GPU_MODES))}")
    unknown = set(a.workloads) - set(WORKLOADS)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    if a.serve:
        return serve(a.serve[0], int(a.serve[1]), a.serve[2], a)
    if a.child:
        return run_torch(*a.child, a.seconds)
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv), "workloads": {}}
    for w in a.workloads or list(WORKLOADS):
        result["workloads"][w] = compare(w, a)
        write(result, a.out)


if __name__ == "__main__":
    main()
