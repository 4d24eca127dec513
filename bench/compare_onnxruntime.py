#!/usr/bin/env python3
"""Inference times of Freight and ONNX Runtime, in alternation in one run.

usage: bench/compare_onnxruntime.py [MODEL ...] [--freight build/bin/freight] [--batch 1,64] [--rounds 3] [--seconds 3]
                                    [--threads 2] [--out FILE.json]

A step is the forward pass on a resident f32 batch, softmax included, weights frozen. The nets of ONNX Runtime are written here with
the layers of Freight's (torchvision's resnet50 and vgg16, the LeNet of `freight models show lenet`), random weights, dynamic batch,
BatchNorm as nodes of its own, which ONNX Runtime folds when it loads them. Each round runs `freight bench infer` and then ONNX
Runtime, each in a process of its own with the same number of threads; the ratio is ONNX Runtime's median over Freight's, round by
round. Needs a Python with numpy, onnx and onnxruntime (tests/requirements.txt: build/python); run it on an otherwise idle machine.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compare_torch import child, machine, peak_rss_bytes

MODELS = ("lenet", "resnet50", "vgg16")


class Net:
    """Grows an ONNX graph; `at` is the last tensor, `c` its channels or width."""

    def __init__(self, channels):
        import numpy
        self.rng, self.nodes, self.weights, self.at, self.c = numpy.random.default_rng(0), [], [], "x", channels

    def node(self, op, inputs, **attributes):
        from onnx import helper
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def weight(self, shape, scale):
        """Normal values, or positive ones where the scale is 0."""
        from onnx import numpy_helper
        name = f"w{len(self.weights)}"
        values = self.rng.standard_normal(shape, "f4") * scale if scale else self.rng.random(shape, "f4") + 0.5
        self.weights.append(numpy_helper.from_array(values.astype("f4"), name))
        return name

    def conv(self, out, kernel, stride=1, pad=0, norm=False, relu=True):
        inputs = [self.at, self.weight((out, self.c, kernel, kernel), math.sqrt(2 / (self.c * kernel * kernel)))]
        if not norm:
            inputs.append(self.weight((out,), 0.01))
        self.at = self.node("Conv", inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        self.c = out
        if norm:  # scale, shift, mean, variance
            self.at = self.node("BatchNormalization", [self.at, *(self.weight((out,), s) for s in (0, 0.1, 0.1, 0))])
        if relu:
            self.relu()
        return self

    def relu(self):
        self.at = self.node("Relu", [self.at])

    def pool(self, kernel, stride, pad=0):
        self.at = self.node("MaxPool", [self.at], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        return self

    def flatten(self, width):
        self.at, self.c = self.node("Flatten", [self.at]), width
        return self

    def linear(self, out, relu=True):
        inputs = [self.at, self.weight((out, self.c), math.sqrt(2 / self.c)), self.weight((out,), 0.01)]
        self.at, self.c = self.node("Gemm", inputs, transB=1), out
        if relu:
            self.relu()
        return self

    def bottleneck(self, width, stride):
        x, c = self.at, self.c
        self.conv(width, 1, norm=True).conv(width, 3, stride, 1, norm=True).conv(4 * width, 1, norm=True, relu=False)
        y = self.at
        if stride != 1 or c != 4 * width:
            self.at, self.c = x, c
            self.conv(4 * width, 1, stride, norm=True, relu=False)
            x = self.at
        self.at = self.node("Add", [y, x])
        self.relu()


def write_onnx(model, path):
    import onnx
    from onnx import helper
    shape = (1, 28, 28) if model == "lenet" else (3, 224, 224)
    net = Net(shape[0])
    if model == "lenet":
        net.conv(6, 5, 1, 2).pool(2, 2).conv(16, 5).pool(2, 2).flatten(400).linear(120).linear(84).linear(10, relu=False)
    elif model == "vgg16":
        for out, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                net.conv(out, 3, 1, 1)
            net.pool(2, 2)
        net.flatten(25088).linear(4096).linear(4096).linear(1000, relu=False)
    else:
        net.conv(64, 7, 2, 3, norm=True).pool(3, 2, 1)
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                net.bottleneck(width, stride if i == 0 else 1)
        net.at = net.node("GlobalAveragePool", [net.at])
        net.flatten(2048).linear(1000, relu=False)
    y = net.node("Softmax", [net.at], axis=-1)
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", *s]) for n, s in (("x", shape), (y, (net.c,)))]
    graph = helper.make_graph(net.nodes, model, info[:1], info[1:], net.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run_onnxruntime(path, batch, seconds, threads):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    feed = {"x": numpy.random.default_rng(1).standard_normal((batch, *shape), "f4")}
    for _ in range(3):
        session.run(None, feed)
    start = time.perf_counter()
    session.run(None, feed)
    per = max(1, int(0.05 / max(time.perf_counter() - start, 1e-6)))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(per):
            session.run(None, feed)
        times.append((time.perf_counter() - start) / per)
    print(json.dumps({"ms_median": statistics.median(times) * 1e3, "ms_min": min(times) * 1e3,
                      "peak_rss_bytes": peak_rss_bytes(), "onnxruntime": onnxruntime.__version__}))


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("models", nargs="*")
    a.add_argument("--freight", default="build/bin/freight")
    a.add_argument("--batch", default="1,64")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--out")
    a.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    a = a.parse_args()
    if a.child:
        return run_onnxruntime(a.child[0], int(a.child[1]), a.seconds, a.threads)
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv), "threads": a.threads,
              "workloads": {}}
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models or MODELS:
            path = os.path.join(folder, model + ".onnx")
            write_onnx(model, path)
            for batch in a.batch.split(","):
                rounds = []
                for _ in range(a.rounds):
                    row = {"freight": child([a.freight, "bench", "infer", "--model", model, "--batch-size", batch, "--seconds",
                                             str(a.seconds), "--json"]),
                           "onnxruntime": child([sys.executable, __file__, "--child", path, batch, "--seconds", str(a.seconds),
                                                 "--threads", str(a.threads)])}
                    for side, got in row.items():
                        if "error" in got:
                            sys.exit(f"{side}: {got['error']}")
                    row["ratio"] = row["onnxruntime"]["ms_median"] / row["freight"]["ms_median"]
                    rounds.append(row)
                ratio = statistics.median(r["ratio"] for r in rounds)
                ms = [statistics.median(r[side]["ms_median"] for r in rounds) for side in ("freight", "onnxruntime")]
                result["workloads"][f"{model}_b{batch}"] = {"ratio_median": ratio, "ratios": [r["ratio"] for r in rounds],
                                                            "rounds": rounds}
                print(f"{model} b{batch:3s} freight {ms[0]:9.4f} ms   onnxruntime {ms[1]:9.4f} ms   ratio {ratio:.2f}", flush=True)
    ratios = [w["ratio_median"] for w in result["workloads"].values()]
    result["ratio_geometric_mean"] = math.exp(statistics.fmean(math.log(r) for r in ratios))
    print(f"geometric mean {result['ratio_geometric_mean']:.2f}")
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
