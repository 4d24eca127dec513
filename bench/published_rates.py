#!/usr/bin/env python3
"""Predicted against published training rates of others' software on GPUs, as a Markdown table: docs/tour/time.md.

usage: bench/published_rates.py [--freight build/bin/freight]

Each row asks `freight plan` for the model at the batch and precision of the publication and compares the middle of its
range (the geometric mean) with what was published. Nothing is run but the planner.
"""
import argparse
import json
import statistics
import subprocess

CNN = "jcjohnson/cnn-benchmarks, Torch with cuDNN 5.1, forward and backward"
SOUMITH = "soumith/convnet-benchmarks, cuDNN R4, forward and backward"
RERUN = "guolinke/deep-learning-benchmarks, best of six tools"
NVIDIA = "NVIDIA DeepLearningExamples"
A100, TITAN_X, GTX_1080, MAXWELL = "A100 SXM4 80GB", "Titan X (Pascal)", "GeForce GTX 1080", "Titan X (Maxwell)"
# (model, batch, precision, device, number of devices, published samples/s, source). Publications that name no batch are
# planned with 256 for each device.
ROWS = [
    ("resnet50", 256, "fp16", "H200 SXM", 8, 63500, "MLPerf Training v4.0, MXNet, fused cuDNN engines"),
    ("resnet50", 256, "fp16", A100, 1, 2470, NVIDIA + ", PyTorch, AMP"),
    ("resnet50", 256, "fp16", A100, 8, 16621, NVIDIA + ", PyTorch, AMP"),
    ("resnet50", 256, "tf32", A100, 1, 938, NVIDIA + ", PyTorch, TF32"),
    ("resnet50", 512, "fp16", A100, 1, 3410, NVIDIA + ", MXNet, AMP, fused"),
    ("resnet50", 256, "fp16", A100, 1, 2897, NVIDIA + ", Paddle, AMP"),
    ("resnet50", 256, "fp16", A100, 1, 2600, "timm, AMP, channels-last, synthetic data"),
]
for net, titan, gtx in (("vgg16", 128.62, 182.79), ("vgg19", 147.32, 210.39), ("resnet18", 31.54, 43.94),
                        ("resnet34", 51.59, 72.09), ("resnet50", 103.58, 149.82), ("resnet101", 156.44, 225.80),
                        ("resnet152", 217.91, 314.30), ("alexnet", 14.56, 20.74), ("googlenet", 39.14, 56.16)):
    for device, milliseconds in ((TITAN_X, titan), (GTX_1080, gtx)):
        ROWS.append((net, 16, "fp32", device, 1, 16e3 / milliseconds, CNN))
ROWS += [
    ("alexnet", 16, "fp32", MAXWELL, 1, 16 / 0.026, RERUN),
    ("resnet50", 16, "fp32", MAXWELL, 1, 16 / 0.153, RERUN),
    ("alexnet", 128, "fp32", MAXWELL, 1, 128e3 / 81, SOUMITH),
    ("googlenet", 128, "fp32", MAXWELL, 1, 128e3 / 470, SOUMITH),
    ("vgg11", 64, "fp32", MAXWELL, 1, 64e3 / 529, SOUMITH),
]
# Freight has no tf32: such a row describes the device with its tf32 peak. GiB, GB/s, TFLOP/s of the catalogue.
TF32 = {A100: ("80", "2039", "156")}


def predicted(freight, model, batch, precision, device, count):
    command = [freight, "plan", "--model", model, "--batch-size", str(batch * count), "--json"]
    if precision == "tf32":
        memory, bandwidth, tflops = TF32[device]
        device = "described"
        command += ["--device-memory", memory, "--device-bandwidth", bandwidth, "--device-tflops", tflops]
    else:
        command += ["--precision", precision]
    if count > 1:
        command += ["--devices", str(count)]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rate = next(d for d in plan["devices"] if d["device"] == device)["samples_per_second"]
    return rate["low"], rate["high"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freight", default="build/bin/freight")
    freight = parser.parse_args().freight
    print("| net, batch, type | device | published /s | predicted /s | middle | within | source |")
    print("|---|---|---|---|---|---|---|")
    errors, within = [], 0
    for model, batch, precision, device, count, published, source in ROWS:
        low, high = predicted(freight, model, batch, precision, device, count)
        error = (low * high) ** 0.5 / published - 1
        errors.append(abs(error))
        inside = low <= published <= high
        within += inside
        where = f"{count} x {device}" if count > 1 else device
        print(f"| {model}, {batch}{' each' if count > 1 else ''}, {precision} | {where} | {published:,.0f} | "
              f"{low:,.0f} to {high:,.0f} | {100 * error:+.0f} % | {'yes' if inside else 'no'} | {source} |")
    print()
    print(f"{len(errors)} rows: the middle is off by {100 * statistics.median(errors):.0f} % in the median, "
          f"{100 * max(errors):.0f} % at the worst; {within} lie within the range.")


if __name__ == "__main__":
    main()
