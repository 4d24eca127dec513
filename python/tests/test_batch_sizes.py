"""Forwards that use the size of the batch: their models work for batches of any size, in Python, in the command and in onnxruntime."""
import json
import pathlib
import subprocess
import warnings

import numpy as np
import pytest

import freight as fr
from freight import nn

F = nn.functional
RNG = np.random.default_rng(0)
COMMAND = pathlib.Path(fr.__file__).parent / "bin/freight"
ROW, THETA = RNG.normal(size=4).astype("f4"), np.array([[0.9, 0.2, 0.1], [-0.2, 0.8, 0]], "f4")


class Net(nn.Module):
    """head(f(x)), of which f may use the parts."""

    def __init__(self, f, width, **parts):
        super().__init__()
        self.f, self.head = f, nn.Linear(width, 3)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        y = self.f(self, x)
        return self.head(fr.reshape(y, (x.shape[0], -1)))


def last_step(net, x):
    lengths = fr.sum(x[:, :, 0] > -1, axis=1)
    return x[fr.arange(x.shape[0]), fr.maximum(lengths, 1) - 1]


def written(net, x):
    x = x + 0
    x[fr.arange(x.shape[0]), 1] = 5.0
    return x


def moved(net, x):
    theta = fr.broadcast_to(fr.asarray(THETA), (x.shape[0], 2, 3))
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)


# name -> (f, shape of a sample, numbers that the head takes, parts)
FORMS = {
    "the last step": (last_step, (3, 4), 4),
    "NumPy's arange": (lambda net, x: x[np.arange(x.shape[0]), 1], (3, 4), 4),
    "rows in a flat array": (lambda net, x: fr.take(fr.reshape(x, (-1,)), fr.arange(x.shape[0]) * 4 + 1), (4,), 1),
    "rows in reverse": (lambda net, x: x[fr.arange(x.shape[0] - 1, -1, -1)], (4,), 4),
    "elements that are written": (written, (4,), 4),
    "broadcast_to": (lambda net, x: x + fr.broadcast_to(fr.asarray(ROW), (x.shape[0], 4)), (4,), 4),
    "tile": (lambda net, x: x + fr.tile(fr.asarray(ROW)[None], (x.shape[0], 1)), (4,), 4),
    "tile of a flat array": (lambda net, x: x + fr.reshape(fr.tile(fr.asarray(ROW), x.shape[0]), (-1, 4)), (4,), 4),
    "repeat": (lambda net, x: x + fr.repeat(fr.asarray(ROW)[None], x.shape[0], axis=0), (4,), 4),
    "repeat of each": (lambda net, x: x + fr.reshape(fr.repeat(fr.asarray(ROW), x.shape[0]), (4, -1)).T, (4,), 4),
    "a token in front": (lambda net, x: fr.concat([fr.broadcast_to(fr.asarray(ROW)[None, None], (x.shape[0], 1, 4)), x], axis=1), (3, 4), 16),
    "zeros and ones": (lambda net, x: x * fr.concat([fr.zeros((x.shape[0], 1)), fr.ones((x.shape[0], 3))], axis=1), (4,), 4),
    "affine_grid": (moved, (2, 4, 4), 32),
    "affine_grid of many places": (moved, (1, 12, 12), 144),
    "mean of the batch": (lambda net, x: x - fr.mean(x, axis=0), (4,), 4),
    "a share of the batch": (lambda net, x: x + fr.sum(x, axis=0) * (1 / x.shape[0]), (4,), 4),
    "a root of the size": (lambda net, x: x / np.sqrt(x.shape[0]), (4,), 4),
    "places from 0 to 1": (lambda net, x: x * fr.linspace(0, 1, x.shape[0])[:, None], (4,), 4),
    "the other samples": (lambda net, x: (x @ x.T * (1 - fr.eye(x.shape[0]))) @ x, (4,), 4),
    "the samples before": (lambda net, x: fr.tril(fr.ones((x.shape[0], x.shape[0]))) @ x, (4,), 4),
    "medians": (lambda net, x: x - fr.median(x, axis=1, keepdims=True), (4,), 4),
    "medians of odd numbers": (lambda net, x: x - fr.median(x, axis=1, keepdims=True), (5,), 5),
    "statistics of the batch": (lambda net, x: net.norm(x), (4,), 4, {"norm": nn.BatchNorm1d(4, track_running_stats=False)}),
    "statistics of images": (lambda net, x: net.norm(x), (2, 3, 3), 18, {"norm": nn.BatchNorm2d(2, track_running_stats=False)}),
}


def made(name):
    f, shape, width, *parts = FORMS[name]
    fr.random.seed(1)
    return Net(f, width, **(parts[0] if parts else {})).eval(), RNG.normal(size=(7, *shape)).astype("f4")


@pytest.mark.parametrize("name", FORMS)
def test_the_model_works_for_every_size_of_the_batch(name, tmp_path):
    net, x = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    again = fr.load(tmp_path / "net.safetensors")
    for n in (1, 2, 7):
        if n == 1 and name == "statistics of the batch":
            continue  # one value per channel has none
        np.testing.assert_allclose(again.predict(x[:n]).numpy(), net(fr.asarray(x[:n])).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_onnxruntime_computes_the_same(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net, x = made(name)
    net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    fr.export(tmp_path / "net.safetensors", output=tmp_path / "net.onnx", softmax=False, progress=False)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for n in (2, 7):
        (got,) = session.run(None, {session.get_inputs()[0].name: x[:n]})
        np.testing.assert_allclose(got, net(fr.asarray(x[:n])).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["the last step", "broadcast_to", "affine_grid", "repeat of each"])
def test_the_command_predicts_the_same(name, tmp_path):
    net, x = made(name)
    net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    files = [tmp_path / f"{i}.npy" for i in range(len(x))]
    for file, sample in zip(files, x):
        np.save(file, sample)
    want = fr.softmax(net(fr.asarray(x)), axis=1).numpy()
    for size in (1, 3, 64):
        command = [COMMAND, "predict", tmp_path / "net.safetensors", *files, "--json", "--top-k", "3", "--batch-size", str(size)]
        done = subprocess.run(command, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        found = [sorted(json.loads(line)["probabilities"].items()) for line in done.stdout.splitlines()]
        np.testing.assert_allclose([[p for _, p in row] for row in found], want, atol=2e-6)


def test_values_are_those_of_torch(tmp_path):
    torch = pytest.importorskip("torch")

    def moved_there(x):
        theta = torch.tensor(THETA).expand(x.shape[0], 2, 3)
        return torch.nn.functional.grid_sample(x, torch.nn.functional.affine_grid(theta, x.shape, align_corners=False), align_corners=False)

    theirs = {
        "the last step": lambda x: x[torch.arange(x.shape[0]), (x[:, :, 0] > -1).sum(1).clamp(min=1) - 1],
        "tile": lambda x: x + torch.tensor(ROW).repeat(x.shape[0], 1),
        "repeat of each": lambda x: x + torch.tensor(ROW).repeat_interleave(x.shape[0]).reshape(4, -1).T,
        "affine_grid": moved_there,
        "mean of the batch": lambda x: x - x.mean(0),
        "statistics of the batch": torch.nn.BatchNorm1d(4, track_running_stats=False),
        "the other samples": lambda x: (x @ x.T * (1 - torch.eye(x.shape[0]))) @ x,
    }
    for name, f in theirs.items():
        net, x = made(name)
        net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
        weight, bias = (torch.tensor(a.numpy()) for a in (net.head.weight, net.head.bias))
        want = f(torch.tensor(x)).reshape(7, -1) @ weight.T + bias
        np.testing.assert_allclose(fr.load(tmp_path / "net.safetensors").predict(x).numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_such_a_network_is_trained_further_from_its_file(tmp_path):
    net, x = made("the last step")
    y = RNG.integers(0, 3, 7)
    net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    again = fr.load(tmp_path / "net.safetensors")
    losses = [m.fit(x, y, epochs=3, batch_size=4, seed=3, verbose=0).history["loss"] for m in (net, again)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


UNKNOWN = {
    "it computes reshape for 1009 samples": lambda net, x: fr.stack([x[i] for i in range(min(x.shape[0], 1015))])[:1] + x,
    "expected the same operations for all sizes": lambda net, x: x * 2 if x.shape[0] % 2 else x,
    "an array, i64[1009] for 1009 samples": lambda net, x: x[fr.asarray(np.random.default_rng(0).permutation(x.shape[0]))],
    "a number follows the size": lambda net, x: x * float(np.log(x.shape[0])),
    "slice has the number 504": lambda net, x: fr.concat([x[:x.shape[0] // 2], x[x.shape[0] // 2:] * 2]),
    "reshape has the number 1018081": lambda net, x: x + fr.mean(fr.reshape(x[:, None] - x[None], (x.shape[0] ** 2, 4)), axis=0),
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_cannot_be_saved_is_named_by_its_line(text, tmp_path):
    net = Net(UNKNOWN[text], 4)
    with pytest.warns(UserWarning) as caught:
        assert not net.save(tmp_path / "net.safetensors", input_shape=(4,))
    message = str(caught[0].message)
    line = UNKNOWN[text].__code__.co_firstlineno
    assert text in message and "something else for another size of the batch" in message and "expected" in message
    assert f"(test_batch_sizes.py:{line})" in message
    assert "%" not in message and ".cpp" not in message and "constant {" not in message and len(message) < 600


def test_the_line_inside_of_a_part_is_named_too(tmp_path):
    class Inner(nn.Module):
        def forward(self, x):
            y = x + 1
            return y * float(np.log(x.shape[0]))

    net = nn.Sequential(nn.Linear(4, 4), Inner())
    with pytest.warns(UserWarning, match=rf"\(1, test_batch_sizes.py:{Inner.forward.__code__.co_firstlineno + 2}\)"):
        net.save(tmp_path / "net.safetensors", input_shape=(4,))


def test_large_products_of_constants_may_stand_in_compiled_functions():
    a = fr.asarray(RNG.normal(size=(300, 300)).astype("f4"))
    np.testing.assert_allclose(fr.jit(lambda x: x + a @ a)(fr.ones((300, 300))).numpy(), 1 + (a @ a).numpy(), rtol=1e-5)
