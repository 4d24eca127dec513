#!/usr/bin/env python3
"""Inference times and peak memory of Freight, ONNX Runtime and PyTorch, in alternation in one run.

usage: bench/compare_onnxruntime.py [MODEL ...] [--freight build/bin/freight] [--batch 1,16] [--precision fp32] [--rounds 3]
                                    [--seconds 3] [--others onnxruntime,channels_last,compile] [--threads 2] [--packages DIR]
                                    [--out FILE.json]

A step is the forward pass on a resident f32 batch, softmax included, weights frozen. With `--precision fp32,bf16` a round has both of
Freight and of PyTorch, whose bf16 networks have weights and images in bf16, and Freight in bf16 is compared with the fastest other of
any precision; ONNX Runtime has f32 alone. PyTorch's networks are those of
compare_torch.py with random weights: eager in (N, H, W, C), and torch.compile with Inductor's freezing, which folds BatchNorm and
packs weights. ONNX Runtime gets the same networks from PyTorch's exporter, with a dynamic batch. In each round every side runs in a
process of its own with the same number of threads; a ratio is the fastest other median over Freight's, round by round. p99 is that of
single steps; peak_rss_bytes, the largest resident set of each process, contains the compiler in `compile`. Needs a Python with torch,
torchvision, onnx and onnxruntime; --packages names a folder with those of them that it lacks, such as
build/python/lib/python3.11/site-packages. Run it on an otherwise idle machine.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import sys
import tempfile
import time
import warnings

from compare_torch import ZOO, child, machine, peak_rss_bytes, torch_net

MODELS = ("lenet", "resnet18", "resnet50", "vgg16", "googlenet", "mobilenet_v2", "efficientnet_b0", "gpt_char", "lstm_text", "textcnn")
TOKENS = {"lstm_text": 20000, "textcnn": 20000, "gpt_char": 65}
OTHERS = ("onnxruntime", "channels_last", "compile")  # the last two are PyTorch's


def answering_net(model):
    """The network behind its softmax, in inference, and the shape of a sample."""
    import torch

    class Answers(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return torch.softmax(self.net(x), -1)

    torch.manual_seed(0)
    net, shape = torch_net(model)
    return Answers(net).eval(), shape


def random_batch(model, shape, batch):
    import torch
    if model in TOKENS:
        return torch.randint(1, TOKENS[model], (batch, *shape))
    return torch.randn(batch, *shape)


def write_onnx(model, path):
    import torch
    warnings.filterwarnings("ignore")  # the exporter's own deprecations
    net, shape = answering_net(model)
    torch.onnx.export(net, (random_batch(model, shape, 2),), path, dynamo=False, opset_version=17, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
    print("{}")


def time_steps(step, seconds):
    """Times of single steps after warm-up."""
    for _ in range(5):
        step()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    times.sort()
    return {"ms_median": statistics.median(times) * 1e3, "ms_min": times[0] * 1e3, "ms_p99": times[len(times) * 99 // 100] * 1e3,
            "peak_rss_bytes": peak_rss_bytes()}


def run_onnxruntime(path, batch, a):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = a.threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    random = numpy.random.default_rng(1)
    tokens = TOKENS.get(os.path.splitext(os.path.basename(path))[0])
    x = random.integers(1, tokens, (batch, *shape)) if tokens else random.standard_normal((batch, *shape), "f4")
    return {**time_steps(lambda: session.run(None, {"x": x}), a.seconds), "onnxruntime": onnxruntime.__version__}


def run_torch(mode, precision, model, batch, a):
    import torch
    torch.set_num_threads(a.threads)
    net, shape = answering_net(model)
    x = random_batch(model, shape, batch)
    if x.dim() == 4:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if precision == "bf16":
        net, x = net.to(torch.bfloat16), x.to(torch.bfloat16) if x.is_floating_point() else x
    if mode == "compile":
        import torch._inductor.config
        torch._inductor.config.freezing = True
        net = torch.compile(net)
    with torch.no_grad():  # freezing is not allowed in inference mode
        return {**time_steps(lambda: net(x), a.seconds), "torch": torch.__version__}


def run_child(side, model_or_path, batch, a):
    if side == "export":
        return write_onnx(os.path.splitext(os.path.basename(model_or_path))[0], model_or_path)
    run = run_onnxruntime(model_or_path, batch, a) if side == "onnxruntime" else run_torch(*side.split(), model_or_path, batch, a)
    print(json.dumps(run))
    return None


def names_of(known):
    """The type of an argument: some of the known names, with commas between."""
    def names(text):
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {unknown[0]}")
        return text
    return names


def sides(a):
    """Freight's and the others', by precision where they have several."""
    mine = [f"freight {p}" for p in a.precision.split(",")]
    others = [[side] if side == "onnxruntime" else [f"{side} {p}" for p in a.precision.split(",")] for side in a.others.split(",")]
    return mine, sum(others, [])


def compare(model, batch, path, a):
    """The rounds of one row, and their medians."""
    script = [sys.executable, __file__, "--seconds", str(a.seconds), "--threads", str(a.threads), "--packages", a.packages, "--child"]
    infer = [a.freight, "bench", "infer", "--model", model, "--batch-size", str(batch), "--seconds", str(a.seconds), "--json"]
    mine, others = sides(a)
    rounds = []
    for _ in range(a.rounds):
        row = {side: child([*infer, "--precision", side.split()[1]]) for side in mine}
        for side in others:
            row[side] = child([*script, side, path if side == "onnxruntime" else model, str(batch)])
        for side, got in row.items():
            if "error" in got:
                sys.exit(f"{model} batch {batch}, {side}: {got['error']}")
        rounds.append(row)
    result = {side: {k: statistics.median(r[side][k] for r in rounds) for k in ("ms_median", "ms_p99", "peak_rss_bytes")}
              for side in (*mine, *others)}
    result["rounds"] = rounds
    for side in mine:  # f32 beside f32, 16 bits beside all
        allowed = [o for o in others if not (side.endswith("fp32") and o.endswith("bf16"))]
        fastest = [min(allowed, key=lambda o: r[o]["ms_median"]) for r in rounds]  # pylint: disable=cell-var-from-loop
        ratios = [r[o]["ms_median"] / r[side]["ms_median"] for r, o in zip(rounds, fastest)]
        result[side] |= {"ratio": statistics.median(ratios), "ratios": ratios, "fastest": fastest}
    return result


def line(model, batch, row, a):
    mine, others = sides(a)
    ratios = "   ".join(f"{side} ratio {row[side]['ratio']:.2f}" for side in mine)
    times = "   ".join(f"{side} {row[side]['ms_median']:.3f} (p99 {row[side]['ms_p99']:.3f}) ms {row[side]['peak_rss_bytes'] / 2**20:.0f} MiB"
                       for side in (*mine, *others))
    return f"{model:16s} b{batch:<3d} {ratios}   {times}"


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    a.add_argument("--freight", default="build/bin/freight")
    a.add_argument("--batch", default="1,16")
    a.add_argument("--precision", type=names_of(("fp32", "bf16")), default="fp32", help="fp32, bf16, or both with a comma between")
    a.add_argument("--others", type=names_of(OTHERS), default=",".join(OTHERS), help="that Freight is compared with")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--packages", default="", help="a folder of Python packages that this Python lacks")
    a.add_argument("--out")
    a.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser, a = a, a.parse_args()
    if a.packages:
        sys.path.append(a.packages)
    if a.child:
        return run_child(a.child[0], a.child[1], int(a.child[2]), a)
    unknown = set(a.models) - {*MODELS, *ZOO}
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv), "threads": a.threads,
              "rows": {}}
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models or MODELS:
            path = os.path.join(folder, model + ".onnx")
            exported = child([sys.executable, __file__, "--packages", a.packages, "--child", "export", path, "0"])
            if "error" in exported:
                sys.exit(f"{model}, export: {exported['error']}")
            for batch in map(int, a.batch.split(",")):
                row = result["rows"][f"{model}_b{batch}"] = compare(model, batch, path, a)
                print(line(model, batch, row, a), flush=True)
                result["ratio_geometric_mean"] = {side: math.exp(statistics.fmean(math.log(r[side]["ratio"]) for r in result["rows"].values()))
                                                  for side in sides(a)[0]}
                if a.out:  # what there is so far
                    with open(a.out, "w", encoding="utf-8") as f:
                        json.dump(result, f, indent=1)
                        f.write("\n")
    for side, mean in result["ratio_geometric_mean"].items():
        print(f"{side}: geometric mean {mean:.2f}")
    return None


if __name__ == "__main__":
    main()
