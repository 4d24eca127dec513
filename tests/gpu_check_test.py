#!/usr/bin/env python3
"""tools/gpu_check: its table, on made-up results; what it says where something is missing; and, with arguments, both halves in small on a
device of this machine.

usage: gpu_check_test.py [BUILD_DIR DEVICE HALF]   (exit 77: skipped, there is no such device)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = [sys.executable, str(ROOT / "tools/gpu_check")]
MADE_UP = ROOT / "tests/gpu_check"


def run(*args):
    return subprocess.run([*CHECK, *map(str, args)], capture_output=True, text=True, check=False)


def expect(condition, what):
    if not condition:
        sys.exit(f"gpu_check_test: {what}")


def tables():
    text = run("table", MADE_UP / "made-up-speed.json").stdout
    for line in ("Made-up GPU (cuda:0), 2000-01-01, freight 0.0.0, PyTorch 0.0; `tools/gpu_check speed --device cuda:0`.",
                 "Reached: matmul 50 TFLOP/s in f32, 500 in bf16; copy 4,000 GB/s; a launch 2 us.",
                 "| `mlp` b64 | bf16 | 0.03 | 0.06 (graph) | 2 | 0.3 | 10 % |",
                 "| `lenet` b64 | fp32 | 1,500 | SKIP | - | - | - |",
                 "| mnist to 99 % | cuda:0 | 99.12 % | 0.5 | - |",
                 "Not measured: step vgg16 b64 bf16 (SKIP: no time left)."):
        expect(line in text.splitlines(), f"the table lacks the line\n{line}\nit is\n{text}")
    text = run("table", MADE_UP / "made-up-correctness.json").stdout
    expect("| zoo | FAIL | 1 failed: a / b |" in text.splitlines(), text)
    with tempfile.TemporaryDirectory() as folder:
        document = pathlib.Path(folder) / "page.md"
        document.write_text("before\n<!-- gpu_check: begin -->\nold\n<!-- gpu_check: end -->\nafter\n")
        for _ in range(2):  # again: the same
            run("table", "--write", "--document", document, MADE_UP / "made-up-correctness.json")
        expect(document.read_text() == f"before\n<!-- gpu_check: begin -->\n{text}<!-- gpu_check: end -->\nafter\n", document.read_text())
    # The page in the repository holds what the committed results say.
    page = (ROOT / "bench/results/gpu/table.md").read_text()
    inside = page.split("<!-- gpu_check: begin -->\n")[1].split("<!-- gpu_check: end -->")[0]
    expect(inside == run("table").stdout, "bench/results/gpu/table.md is not what tools/gpu_check table --write makes of bench/results/gpu")


def refusals():
    with tempfile.TemporaryDirectory() as folder:
        bundle = shutil.make_archive(str(pathlib.Path(folder) / "empty"), "gztar", folder)
        done = run("speed", "--bundle", bundle)
        expect(done.returncode == 1 and "need one: make it with tools/bundle --gpu-check" in done.stderr, done.stderr)


def on_device(build, device, half):
    with tempfile.TemporaryDirectory() as folder:
        done = run(half, "--build", build, "--device", device, "--quick", "--out", folder)
        print(done.stdout, done.stderr, sep="")
        if re.search(r"^FAIL device .*: not there: ", done.stdout, re.M):
            expect(done.returncode == 1, "a device that is not there must end with exit code 1")
            sys.exit(77)
        expect(done.returncode == 0, f"exit code {done.returncode}")
        files = list(pathlib.Path(folder).glob("*.json"))
        expect(len(files) == 1, f"{len(files)} result files, need one")
        of = {r["check"]: r for r in json.loads(files[0].read_text())["results"]}
        must = {"correctness": ("ops", "zoo", "nets", "rerun", "resume"), "speed": ("rates", "step mlp b64 fp32")}[half]
        if half == "correctness" and device.startswith("cuda"):
            must += ("two ranks by NCCL",)
        for name in (f"device {device}", *must):
            expect(of[name]["status"] == "ok", f"{name}: {of[name]}")
        if half == "correctness":
            expect(of["zoo"]["passed"] >= 2 and "mlp" in of["zoo"]["largest_difference_of_losses"], of["zoo"])
        expect(all(r["detail"] for r in of.values()), "a check says nothing")
        print(run("table", files[0]).stdout)


if len(sys.argv) > 1:
    on_device(*sys.argv[1:])
else:
    os.environ.pop("FREIGHT_TEST_DEVICE", None)
    tables()
    refusals()
