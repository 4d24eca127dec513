"""The Python of the documents runs as printed: blocks, the right-hand sides of the tables of equivalents, and the tutorial."""
import contextlib
import io
import itertools
import json
import pathlib
import re

import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn, optim

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCKS = [(name, block) for name in ("python.md", "python-training.md")
          for block in re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), re.M | re.S)]


@pytest.mark.parametrize("name, block", BLOCKS)
def test_the_programs_of_the_page_run(name, block):
    try:
        exec(compile(block, name, "exec"), {})  # noqa: S102 (a page of this repository)
    except ModuleNotFoundError as error:  # pandas, or scikit-learn
        pytest.skip(str(error))


def test_the_tutorial_prints_what_it_shows(tmp_path, monkeypatch):
    for module in ("pandas", "sklearn", "xgboost"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads((ROOT / "examples/python/tutorial.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102 (a file of this repository)
            shown = "".join("".join(o["text"]) for o in cell["outputs"])
            # Numbers depend on the machine in their last digits: the words between them do not.
            assert re.sub(r"[-\d.e]+", "0", printed.getvalue()) == re.sub(r"[-\d.e]+", "0", shown)
    assert names["accuracy"] > 0.95 and names["history"].history["val_accuracy"][-1] > 0.95 and names["score"] > 0.9


class Batches:
    """Batches with a length, as torch's DataLoader has."""

    def __init__(self, *batch):
        self.batch = batch

    def __len__(self):
        return 2

    def __iter__(self):
        return iter([self.batch] * 2)


def names_of_the_tables(folder):
    """What the rows of python-from.md are about."""
    rng = np.random.default_rng(0)
    x, y, t = (fr.asarray(a) for a in (rng.normal(size=(8, 4)).astype("f4"), np.arange(8) % 3, rng.normal(size=(8, 3)).astype("f4")))
    net = nn.Sequential(nn.Linear(4, 3))
    names = {"fr": fr, "nn": nn, "optim": optim, "callbacks": callbacks, "x": x, "y": y, "t": t, "a": np.ones(3), "net": net, "fc": nn.Linear(4, 3),
             "optimizer": optim.SGD(net), "loss_of": lambda net, x, y: fr.cross_entropy(net(x), y), "step": 3, "f": str(folder / "m.safetensors"),
             "d": str(folder), "batches": Batches(x, y), "make": lambda n_features, n_outputs: nn.Linear(n_features, n_outputs), "generator": itertools.cycle([(x, y)])}
    net.fit(x, y, epochs=1, verbose=0)
    with contextlib.suppress(ModuleNotFoundError):
        import torch
        names["module"] = torch.nn.Linear(4, 3)
    with contextlib.suppress(ModuleNotFoundError):
        import sklearn  # noqa: F401
        names["FreightClassifier"], names["FreightRegressor"] = fr.FreightClassifier, fr.FreightRegressor
        names["model"] = fr.FreightRegressor("linear").fit(np.ones((9, 2)) * np.arange(9)[:, None], np.arange(9.0))
    return names


ROWS = [(row.split("|")[1].strip(), code) for row in re.findall(r"^\|.*\|$", (DOCS / "python-from.md").read_text(), re.M)
        for code in re.findall(r"`([^`]+)`", row.split("|")[2])]


@pytest.mark.parametrize("theirs, code", ROWS)
def test_the_right_hand_side_of_a_row_runs(theirs, code, tmp_path):
    names = names_of_the_tables(tmp_path)
    if any(part in code for part in ("fr.load(", "load_weights", "fr.export(")):
        names["net"].save(names["f"])
    if "FreightRegressor.load(" in code and "model" in names:
        names["model"].save(names["f"])
    missing = [name for name in ("module", "model", "FreightClassifier", "FreightRegressor") if re.search(rf"\b{name}\b", code) and name not in names]
    if missing:
        pytest.skip(f"{missing[0]}: torch or scikit-learn is missing")
    try:
        value = eval(compile(code, theirs, "eval"), names)  # noqa: S307 (a page of this repository)
    except SyntaxError:
        exec(compile(code, theirs, "exec"), names)  # noqa: S102
        return
    if hasattr(value, "get_params") and "fit" not in code:  # an estimator is fitted
        pytest.importorskip("xgboost")
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 4))
        y = x[:, 0] if isinstance(value, names["FreightRegressor"]) else (x[:, 0] > 0).astype(int)
        value.fit(x, y, **({"eval_set": (x, y)} if "early_stop" in code else {}))
        assert value.score(x, y) > 0.5


def test_the_tables_have_rows_of_all_three():
    assert len(ROWS) > 50 and {"`HistGradientBoostingClassifier()`", "`model.save(f)`, `load_model(f)`"} <= {theirs for theirs, _ in ROWS}
