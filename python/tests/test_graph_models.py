"""Networks whose forward is code, in files: the command uses them as it uses networks of layers, and freight.load without the class."""
import json
import pathlib
import pickle
import socket
import subprocess
import time
import urllib.request
import warnings

import numpy as np
import pytest
from test_fit import OwnGradient

import freight as fr
from freight import nn

RNG = np.random.default_rng(0)
COMMAND = pathlib.Path(fr.__file__).parent / "bin/freight"
TABLE = RNG.normal(size=(16, 8)).astype("f4")  # a constant of a forward


class Mixed(nn.Module):
    """Convolution, BatchNorm, residuals, attention with a table of positions, dropout."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.3)
        self.attention, self.head = nn.MultiheadAttention(8, 2), nn.Linear(8, 3)
        self.scale = nn.Parameter(fr.ones((8,)))

    def forward(self, x):
        y = fr.relu(self.norm(self.conv(x)))
        y = y[:, :, ::2, ::2] + y[:, :, 1::2, 1::2]
        y = fr.permute_dims(fr.reshape(y, (x.shape[0], 8, 16)), (0, 2, 1)) + fr.asarray(TABLE)
        y = y + self.attention(self.drop(y), need_weights=False)[0] * self.scale
        return self.head(fr.mean(y, axis=1))


class Recurrent(nn.Module):
    """An LSTM from a state of zeros, and the mean of its output weighed by time."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        zeros = fr.zeros((1, x.shape[0], 6))
        y, _ = self.lstm(x, (zeros, zeros))
        weights = fr.softmax(fr.arange(x.shape[1], dtype=fr.float32), axis=0)
        return self.head(fr.sum(y * fr.reshape(weights, (1, -1, 1)), axis=1))


class Shared(nn.Module):
    """One layer twice, a tied weight, and arithmetic of a network that is no layer."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.c(fr.tanh(self.a(x)) * self.b(self.a(x)) - fr.maximum(x, 0.5))


NETS = {"mixed": (Mixed, (1, 8, 8)), "recurrent": (Recurrent, (7, 5)), "shared": (Shared, (6,))}


def trained(name):
    make, shape = NETS[name]
    fr.random.seed(1)
    net = make()
    x, y = RNG.normal(size=(96, *shape)).astype("f4"), RNG.integers(0, 3, 96)
    net.fit(x, np.asarray(["cat", "dog", "owl"])[y], epochs=2, batch_size=16, verbose=0)
    return net, x


def run(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def probabilities(net, x):
    logits = net.predict(x).numpy().astype("f8")
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("name", NETS)
def test_the_command_predicts_what_python_predicts(name, tmp_path):
    net, x = trained(name)
    path, x = tmp_path / "net.safetensors", x[:11]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net.save(path)
    expected = probabilities(net, x)
    for i, sample in enumerate(x):
        np.save(tmp_path / f"{i}.npy", sample)
    files = [tmp_path / f"{i}.npy" for i in range(len(x))]
    for size in (1, 4, 64):
        got = [json.loads(line) for line in run("predict", path, *files, "--json", "--top-k", 3, "--batch-size", size).splitlines()]
        assert len(got) == len(x)
        for row, p in zip(got, expected):
            found = row["probabilities"]
            np.testing.assert_allclose([found[c] for c in ("cat", "dog", "owl")], p, atol=2e-6)
    shown = run("models", "show", path)
    assert {"mixed": "\nconv ", "recurrent": "\nlstm ", "shared": "\na "}[name] in shown, shown
    run("verify", path)


@pytest.mark.parametrize("name", NETS)
def test_load_makes_the_network_without_its_class(name, tmp_path):
    net, x = trained(name)
    net.save(tmp_path / "net.safetensors")
    again = fr.load(tmp_path / "net.safetensors")
    assert isinstance(again, nn.GraphModule) and again.classes == ["cat", "dog", "owl"] and len(repr(again)) < 500
    assert {k: v.shape for k, v in net.state_dict().items()}.items() <= {k: v.shape for k, v in again.state_dict().items()}.items()
    for n in (1, 2, 5, 96):
        np.testing.assert_allclose(again.predict(x[:n]).numpy(), net.predict(x[:n]).numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again(x[:n]).numpy(), net.eval()(x[:n]).numpy(), rtol=1e-5, atol=1e-6)
    copies = [pickle.loads(pickle.dumps(again)), type(net)().load_weights(tmp_path / "net.safetensors").eval()]
    again.save(tmp_path / "again.safetensors")
    for copy in (*copies, fr.load(tmp_path / "again.safetensors")):
        np.testing.assert_allclose(copy(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_a_loaded_network_trains_as_its_class_does(tmp_path):
    """Dropout, the statistics of BatchNorm and the gradients are those of the forward in training."""
    x, y = RNG.normal(size=(64, 1, 8, 8)).astype("f4"), RNG.integers(0, 3, 64)
    net = Mixed()
    net.save(tmp_path / "net.safetensors", input_shape=(1, 8, 8))
    again = fr.load(tmp_path / "net.safetensors")
    histories = [n.fit(x, y, epochs=3, batch_size=16, verbose=0, seed=3) for n in (net, again)]
    np.testing.assert_allclose(histories[0].history["loss"], histories[1].history["loss"], rtol=1e-5)
    theirs = again.state_dict()
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(theirs[key].numpy(), value.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)
    run("models", "show", tmp_path / "net.safetensors", "--spec")


def test_a_run_with_a_directory_stores_the_network_for_the_command(tmp_path):
    net, (x, y) = Mixed(), (RNG.normal(size=(64, 1, 8, 8)).astype("f4"), RNG.integers(0, 3, 64))
    net.fit(x, y, epochs=2, verbose=0, output_dir=tmp_path / "run", validation_data=(x, y))
    net.fit(x, y, epochs=3, verbose=0, output_dir=tmp_path / "run", validation_data=(x, y), resume=True)
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    path = tmp_path / "run/model.safetensors"
    assert json.loads(run("eval", "--weights", path, "--data", tmp_path / "data.npz", "--json"))["top1"] == pytest.approx(
        100 * net.evaluate(x, y)["accuracy"])
    np.testing.assert_allclose(fr.load(path).predict(x).numpy(), net.predict(x).numpy(), rtol=1e-5, atol=1e-6)
    run("report", tmp_path / "run")


def test_the_command_trains_the_network_further(tmp_path):
    net, (x, y) = Mixed(), (RNG.normal(size=(64, 1, 8, 8)).astype("f4"), RNG.integers(0, 3, 64))
    net.save(tmp_path / "net.safetensors", input_shape=(1, 8, 8))
    (tmp_path / "net.json").write_text(run("models", "show", tmp_path / "net.safetensors", "--spec"))
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    run("train", "--model", tmp_path / "net.json", "--weights", tmp_path / "net.safetensors", "--data", tmp_path / "data.npz", "--epochs", 2, "-o",
        tmp_path / "run")
    again = Mixed().load_weights(tmp_path / "run/model.safetensors")
    assert not np.array_equal(again.norm.running_mean.numpy(), net.norm.running_mean.numpy())
    assert not np.array_equal(again.conv.weight.numpy(), net.conv.weight.numpy())
    run("plan", "--model", tmp_path / "net.json", "--batch-size", 8)


def test_serve_answers_what_python_predicts(tmp_path):
    net, x = trained("mixed")
    net.save(tmp_path / "net.safetensors")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([COMMAND, "serve", tmp_path / "net.safetensors", "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(200):
            try:
                names = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/Mixed"))
                break
            except OSError:
                time.sleep(0.1)
        body = {"inputs": [{"name": names["inputs"][0]["name"], "datatype": "FP32", "shape": [5, 1, 8, 8], "data": x[:5].ravel().tolist()}]}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/Mixed/infer", json.dumps(body).encode())
        answer = json.load(urllib.request.urlopen(request))
    finally:
        server.terminate()
        server.wait()
    found = next(o for o in answer["outputs"] if o["datatype"] == "FP32")
    np.testing.assert_allclose(np.reshape(found["data"], found["shape"]), probabilities(net, x[:5]), atol=2e-6)


@pytest.mark.parametrize("name", NETS)
def test_onnx_runs_in_onnxruntime(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net, x = trained(name)
    net.save(tmp_path / "net.safetensors")
    run("export", tmp_path / "net.safetensors", "--output", tmp_path / "net.onnx", "--no-softmax")
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for n in (1, 6):
        (got,) = session.run(None, {session.get_inputs()[0].name: x[:n]})
        np.testing.assert_allclose(got, net.predict(x[:n]).numpy(), rtol=1e-4, atol=1e-5)


class Counting(nn.Module):
    """The number of samples, and a mean over them."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x - fr.mean(x, axis=0)) / x.shape[0] + fr.std(x)


def test_what_is_computed_of_the_number_of_samples_follows_it(tmp_path):
    net = Counting().eval()
    net.save(tmp_path / "net.safetensors", input_shape=(4,))
    again = fr.load(tmp_path / "net.safetensors")
    for n in (1, 2, 7):
        x = RNG.normal(size=(n, 4)).astype("f4")
        np.testing.assert_allclose(again(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.a(x), self.b(x)


def test_of_several_results_the_command_has_the_first(tmp_path):
    net, x = Both().eval(), RNG.normal(size=(5, 4)).astype("f4")
    assert net.save(tmp_path / "net.safetensors", input_shape=(4,))
    for mine, theirs in zip(fr.load(tmp_path / "net.safetensors")(x), net(x)):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)
    np.save(tmp_path / "0.npy", x[0])
    row = json.loads(run("predict", tmp_path / "net.safetensors", tmp_path / "0.npy", "--json", "--top-k", 3))
    logits = net(x)[0].numpy()[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(list(row["probabilities"].values()), expected, atol=1e-6)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(fr.max(self.table(x), axis=1))


class Pixels(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


@pytest.mark.parametrize("make, x, text", [
    (Tokens, RNG.integers(1, 20, (3, 7)), "Tokens: reads i32[7] and has no tokenizer"),
    (Pixels, RNG.normal(size=(3, 1, 8, 8)).astype("f4"), "Pixels: returns f32[1,2,8,8] for one sample, expected (N, K)")])
def test_what_the_command_cannot_predict_loads_in_python_and_is_refused_there(make, x, text, tmp_path):
    net = make()
    net.predict(x)
    assert net.save(tmp_path / "net.safetensors")
    np.testing.assert_allclose(fr.load(tmp_path / "net.safetensors").predict(x).numpy(), net.predict(x).numpy(), rtol=1e-6)
    np.save(tmp_path / "0.npy", x[0])
    done = subprocess.run([COMMAND, "predict", tmp_path / "net.safetensors", tmp_path / "0.npy"], text=True, capture_output=True)
    assert done.returncode == 2 and text in done.stderr, done.stderr
    run("export", tmp_path / "net.safetensors", "--output", tmp_path / "net.onnx", "--no-softmax")


class Branching(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.fc, self.kind = nn.Linear(4, 3), kind

    def forward(self, x):
        if self.kind == "values" and float(fr.sum(x)) > 0:
            return self.fc(-x)
        if self.kind == "batch" and x.shape[0] > 1010:
            return self.fc(-x)
        if self.kind == "rows":
            return self.fc(x) + fr.asarray(np.arange(3 * x.shape[0], dtype="f4").reshape(-1, 3) ** 2)
        if self.kind == "root":
            return self.fc(x) / x.shape[0] ** 0.3
        return self.fc(x)


@pytest.mark.parametrize("kind, text", [
    ("values", "the file has the weights alone"), ("batch", "something else for another size of the batch"),
    ("rows", "something else for another size of the batch"), ("root", "something else for another size of the batch")])
def test_what_cannot_be_traced_has_weights_alone_and_says_why(kind, text, tmp_path):
    net = Branching(kind)
    with pytest.warns(UserWarning, match=text):
        assert not net.save(tmp_path / "net.safetensors", input_shape=(4,))
    with pytest.raises(RuntimeError, match=r"has weights alone.*call module.load_weights\(path\)"):
        fr.load(tmp_path / "net.safetensors")
    again = Branching(kind).load_weights(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(again.fc.weight.numpy(), net.fc.weight.numpy())


def test_a_network_with_gradients_of_its_own_predicts_and_is_not_trained(tmp_path):
    net, x = OwnGradient(), RNG.normal(size=(8, 4)).astype("f4")
    with pytest.warns(UserWarning, match="but not train it: .*custom gradient"):
        assert net.save(tmp_path / "net.safetensors", input_shape=(4,))
    again = fr.load(tmp_path / "net.safetensors")
    np.testing.assert_allclose(again.predict(x).numpy(), net.predict(x).numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="no parameters to train"):
        again.fit(x, np.zeros(8, "i8"), verbose=0)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "net.safetensors"
    Shared().save(path, input_shape=(6,))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])

    def changed(old, new):
        metadata = {k: v.replace(old, new) for k, v in header["__metadata__"].items() if k != "xxh3_128"}
        assert metadata != {k: v for k, v in header["__metadata__"].items() if k != "xxh3_128"}
        text = json.dumps({**header, "__metadata__": metadata}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])

    def refused(*words):
        done = subprocess.run([COMMAND, "models", "show", path], text=True, capture_output=True)
        assert done.returncode not in (0, 134, 139) and all(w in done.stderr for w in ("net.safetensors", *words)), done.stderr
        with pytest.raises((RuntimeError, ValueError), match=words[0]):
            fr.load(path)

    path.write_bytes(data[:-10])
    refused("truncated|end|bytes|size".split("|")[2])
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused("differs from what was saved")
    changed("= tanh(", "= tahn(")
    refused("unknown op `tahn`")
    changed("f32[N,6]", "f32[N,7]")
    refused("graph text|matmul".split("|")[1])
    changed("return ", "# return ")
    refused("the graph returns nothing")


def test_samples_of_another_shape_are_refused(tmp_path):
    Shared().save(tmp_path / "net.safetensors", input_shape=(6,))
    again = fr.load(tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match=r"traced for samples of one shape and type: expected f32\[2,6\].*got f32\[2,5\]"):
        again(np.zeros((2, 5), "f4"))
