"""The programs of examples/python run on a part of the real data (build/data, or FREIGHT_TEST_DATA), which they learn."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import freight

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("FREIGHT_TEST_DATA", ROOT / "build/data"))
# The program, its data, further arguments, modules that it needs, and what it prints last: a number above a bound.
PROGRAMS = [
    ("mnist_fit.py", "mnist", ["--epochs", "2", "--samples", "4000"], [], r"'accuracy': ([\d.]+)", 0.9),
    ("mnist_loop.py", "mnist", ["--epochs", "2", "--samples", "4000"], [], r"'accuracy': ([\d.]+)", 0.9),
    ("text_lstm.py", "sst2", ["--epochs", "2", "--samples", "6000"], [], r"([\d.]+)  a gripping", 0.5),
    ("fine_tune.py", "cifar-10-batches-bin", ["--epochs", "1", "--samples", "2000", "--each", "40"], [], r"all layers: accuracy ([\d.]+)", 0.5),
    ("boosted_trees.py", None, [], ["sklearn", "pandas", "xgboost"], r"test accuracy ([\d.]+)", 0.7),
]


@pytest.mark.parametrize("name, data, arguments, modules, pattern, least", PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_a_program_learns(name, data, arguments, modules, pattern, least, tmp_path):
    for module in modules:
        pytest.importorskip(module)
    if data and not (DATA / data).is_dir():
        pytest.skip(f"no {DATA / data}: tests/unpack_data.sh makes it")
    given = [str(DATA / data)] if data else []
    done = subprocess.run([sys.executable, ROOT / "examples/python" / name, *given, *arguments], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = re.search(pattern, done.stdout)
    assert found and float(found[1]) > least, done.stdout


def test_every_program_is_listed():
    assert {p[0] for p in PROGRAMS} == {p.name for p in (ROOT / "examples/python").glob("*.py")}


def test_the_loop_runs_as_several_processes(tmp_path):
    if not (DATA / "mnist").is_dir():
        pytest.skip(f"no {DATA / 'mnist'}: tests/unpack_data.sh makes it")
    command = pathlib.Path(freight.__file__).parent / "bin" / "freight"
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    arguments = ["launch", "-n", "2", ROOT / "examples/python/mnist_loop.py", DATA / "mnist", "--epochs", "2", "--samples", "2000"]
    done = subprocess.run([command, *arguments], cwd=tmp_path, text=True, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 2") == 1 and "'accuracy'" in done.stdout.splitlines()[-1]
