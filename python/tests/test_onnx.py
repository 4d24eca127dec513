"""Forwards of functions as ONNX files, which ONNX Runtime runs for any number of samples; what has no form there is named by its line."""
import inspect
import re

import numpy as np
import pytest

import freight as fr
from freight import nn
from freight.nn import functional as F

RNG = np.random.default_rng(0)


class Forward(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def export(function, shape, folder):
    net = Forward(function).eval()
    net.save(folder / "net.safetensors", input_shape=shape)
    fr.export(folder / "net.safetensors", output=folder / "net.onnx", softmax=False, progress=False)
    return net


FORMS = {
    "maxima put back to their places": (lambda m, x: F.max_unpool2d(*fr.max_pool2d_with_indices(x, 2), 2), (2, 4, 6)),
    "overlapping windows of sequences": (lambda m, x: F.max_unpool1d(*fr.max_pool1d_with_indices(x, 3, 2), 3, 2), (2, 9)),
    "places of maxima": (lambda m, x: F.max_pool2d(x, 2, return_indices=True)[1].astype(fr.float32), (2, 4, 6)),
    "order": (lambda m, x: fr.sort(x, axis=1, descending=True) + fr.argsort(fr.round(x), axis=1).astype(fr.float32), (5,)),
    "largest": (lambda m, x: fr.concat([fr.topk(x, 2, axis=1)[0], fr.median(x, axis=1)[:, None]], axis=1), (5,)),
    "quotients rounded down": (lambda m, x: x // 0.5 + fr.copysign(x, -x) + x % 0.3, (5,)),
    "inverse functions": (lambda m, x: fr.asinh(x) + fr.acosh(fr.abs(x) + 1) + fr.atanh(x / 10) + fr.acos(x / 10), (5,)),
    "functions of two": (lambda m, x: fr.atan2(x, x - 1) + fr.hypot(x, x + 1) + fr.logaddexp(x, x * 2), (5,)),
    "bases of logarithms": (lambda m, x: fr.log2(fr.abs(x)) + fr.log10(fr.abs(x)), (5,)),
    "casts of what is beyond int8": (lambda m, x: fr.where(x > 1, fr.nan, x * 100).astype(fr.int8).astype(fr.float32), (5,)),
    "casts of what is beyond int32": (lambda m, x: (x * 1e10).astype(fr.int32).astype(fr.float32) * 1e-10, (5,)),
    "elements that are set": (lambda m, x: fr.scatter_elements(x, fr.argmax(x, axis=1, keepdims=True), x[:, :1] * 0 + 7, 1), (5,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_onnx_runtime_computes_the_same(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    function, shape = FORMS[name]
    net = export(function, shape, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for n in (1, 6):
        x = RNG.normal(size=(n, *shape)).astype("f4")
        (got,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_allclose(got, net(fr.asarray(x)).numpy(), rtol=1e-5, atol=1e-5)


REFUSED = {
    "nextafter": lambda m, x: fr.nextafter(x, x * 2),
    "bitwise_and": lambda m, x: ((x * 10).astype(fr.int32) & 3).astype(fr.float32),
    "svd": lambda m, x: fr.linalg.svdvals(fr.expand_dims(x, axis=2)),
    "random_uniform": lambda m, x: x + fr.random.uniform(shape=(5,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused_with_the_line_that_computes_it(name, tmp_path):
    line = inspect.getsourcelines(REFUSED[name])[1]
    with pytest.raises(fr.CommandError, match=rf"ONNX has no form of {name} \(test_onnx.py:{line}\)"):
        export(REFUSED[name], (5,), tmp_path)


def test_what_has_no_form_is_refused_with_its_layer(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return fr.nextafter(x, x * 2)

    net = nn.Sequential(nn.Linear(5, 5), Odd())
    net.save(tmp_path / "net.safetensors", input_shape=(5,))
    with pytest.raises(fr.CommandError, match=r"ONNX has no form of nextafter \(1\)"):
        fr.export(tmp_path / "net.safetensors", output=tmp_path / "net.onnx", progress=False)


def test_columns_go_into_the_file_of_a_linear_model_as_they_are_where_f32_has_them(tmp_path):
    random = np.random.default_rng(0)
    table = np.stack([np.round(random.normal(1013.26, 5.9, 500), 2), random.integers(2000, 2020, 500), 1.7e9 + random.uniform(0, 500, 500)], axis=1)
    pytest.importorskip("sklearn")
    fr.FreightRegressor("linear").fit(table, table[:, 0] * 2 + table[:, 1]).save(tmp_path / "rows.safetensors")
    notes = fr.export(tmp_path / "rows.safetensors", output=tmp_path / "rows.onnx", progress=False)["notes"]
    assert len(notes) == 1 and re.fullmatch(r"column x2: f32 is too coarse for its values; the file expects them minus 17\d+", notes[0]), notes
