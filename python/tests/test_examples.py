"""The programs of examples/python run, on a few images in MNIST's files."""
import gzip
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

import freight

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


@pytest.fixture
def mnist(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 256), ("t10k", 64)):
        labels = rng.integers(0, 10, count).astype("u1")
        images = rng.integers(0, 60, (count, 28, 28)).astype("u1")
        for i, label in enumerate(labels):
            images[i, 2 + 2 * label:5 + 2 * label] = 250  # a bar at a height by class
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(struct.pack(">4i", 2051, count, 28, 28) + images.tobytes()))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">2i", 2049, count) + labels.tobytes()))
    return tmp_path


@pytest.mark.parametrize("name", ["mnist_fit.py", "mnist_loop.py"])
def test_a_program_runs(name, mnist):
    done = subprocess.run([sys.executable, EXAMPLES / name, mnist], cwd=mnist, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "'accuracy'" in done.stdout.splitlines()[-1]


def test_the_loop_runs_as_several_processes(mnist):
    command = pathlib.Path(freight.__file__).parent / "bin" / "freight"
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([command, "launch", "-n", "2", EXAMPLES / "mnist_loop.py", mnist], cwd=mnist, text=True, capture_output=True,
                          env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 4") == 1 and "'accuracy'" in done.stdout.splitlines()[-1]
