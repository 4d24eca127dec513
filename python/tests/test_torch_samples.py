"""PyTorch's samples of its modules (`module_db`) with freight.nn: values, gradients, and what is refused. What has another form by
intent is in DIFFERS; bench/results/torch-samples.md has the reasons, and the modules that freight.nn lacks."""
import inspect
import pathlib
import re
import sys
import types
import unittest
import warnings

import numpy as np
import pytest

import freight as fr
from freight import nn

torch = pytest.importorskip("torch")
try:
    import expecttest  # noqa: F401
except ImportError:  # the samples do not need it, the module that they stand in imports it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
warnings.simplefilter("ignore")
db = pytest.importorskip("torch.testing._internal.common_modules")

REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)
OPTIONS = {"device": "cpu", "dtype": torch.float32, "requires_grad": False}
INFOS = {info.module_cls.__name__: info for info in db.module_db if isinstance(getattr(nn, info.module_cls.__name__, None), type)}
# Refused by one of the two alone, or of another shape, by intent: module -> parts of the messages.
RANK_0 = ["a tensor of rank 0 has no axes", "dim must be an int or None, got <class 'bool'>"]
DIFFERS = {"HuberLoss": ["delta must be a float or int, got: <class 'complex'>"],
           "MultiheadAttention": ["expected bias_k=None", "expected add_zero_attn=False, got True"], "PReLU": ["result 0: shape (1,), PyTorch's ()"],
           "CircularPad1d": ["expected 2D or 3D input (got 4D input)"], "Softmax": RANK_0, "LogSoftmax": RANK_0, "Softmin": RANK_0,
           **{name: ["batch_first should be of type bool", "bias should be of type bool"] for name in ("LSTM", "GRU")},
           **{f"Transformer{part}Layer": ["activation: expected"] for part in ("Encoder", "Decoder")}}
# Layers that are compared as from_torch gives them: with the time first, or made of other layers.
CONVERTED = ("MultiheadAttention", "LSTM", "GRU", "RNN", "TransformerEncoder", "TransformerDecoder", "Transformer")
# Of sums over many steps in f32.
TOLERANCES = {"CTCLoss": 1e-4}


def ours_of(x):
    if isinstance(x, torch.Tensor):
        return fr.asarray(x.detach().numpy().copy())
    if isinstance(x, (tuple, list)):
        return type(x)(ours_of(v) for v in x)
    return x


def tensors_of(x):
    return [x] if isinstance(x, torch.Tensor) else [t for v in x for t in tensors_of(v)] if isinstance(x, (tuple, list)) else []


def arrays_of(x):
    return [x] if isinstance(x, fr.Array) else [a for v in x for a in arrays_of(v)] if isinstance(x, (tuple, list)) else []


def doubled(x):
    if isinstance(x, torch.Tensor):
        return x.detach().double().requires_grad_() if x.is_floating_point() else x
    return type(x)(doubled(v) for v in x) if isinstance(x, (tuple, list)) else x


def normalized(info, inputs):
    """PyTorch's gradient of CTCLoss takes its input for a result of log_softmax."""
    if info.module_cls is not torch.nn.CTCLoss or not inputs:
        return inputs
    function = torch.log_softmax if isinstance(inputs[0], torch.Tensor) else fr.log_softmax
    return [function(inputs[0], -1), *inputs[1:]]


def close(got, expected, what, tolerance):
    got, expected = got.numpy().astype("f8"), expected.detach().double().numpy()
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, PyTorch's {expected.shape}"
    finite = expected[np.isfinite(expected)]
    largest = max(1.0, np.abs(finite).max()) if finite.size else 1.0
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest, err_msg=what)


def differences(info, given, training):
    """Refusals of one sample: (PyTorch's, Freight's). Raises AssertionError where both answer and the answers differ."""
    name = info.module_cls.__name__
    tolerance = TOLERANCES.get(name, 2e-5)
    made = given.constructor_input
    if given.forward_input is not None and any(t.dtype == torch.float64 for t in tensors_of(given.forward_input.args)):
        return "", ""  # PyTorch is asked in double precision here
    keywords = {k: v for k, v in made.kwargs.items() if k not in ("device", "dtype")}
    theirs, refused = None, ""
    try:
        theirs = info.module_cls(*made.args, **keywords)
        forward = given.forward_input
        args, kwargs = (doubled(forward.args), {k: doubled(v) for k, v in forward.kwargs.items()}) if forward is not None else ((), {})
        for parameter, a in zip(inspect.signature(info.module_cls.forward).parameters.values(), (None, *args)):
            if parameter.name in ("target", "targets") and isinstance(a, torch.Tensor):
                a.requires_grad_(False)
        theirs.double().train(training)
        if name.startswith("Lazy"):  # the first call makes the parameters
            theirs(*args, **kwargs)
        state = {k: v.float() for k, v in theirs.state_dict().items()}
        y = theirs(*normalized(info, args), **kwargs) if forward is not None else None
    except REFUSALS as error:
        refused, y = str(error).split("\n")[0], None
    try:
        if theirs is not None and name in CONVERTED:
            net = fr.from_torch(theirs.float())
            theirs.double()
        else:
            net = getattr(nn, name)(*ours_of(made.args), **{k: ours_of(v) for k, v in keywords.items()})
        if given.forward_input is None:
            return refused, ""
        inputs = [ours_of(a) for a in given.forward_input.args]
        words = {k: ours_of(v) for k, v in given.forward_input.kwargs.items()}
        if name.startswith("Lazy"):
            net(*inputs, **words)
        if theirs is not None:
            names = {n for n, _, _ in net._node().state()}
            # Weights of losses are settings here; batches are counted where the mean of all is wanted.
            state = {k: v for k, v in state.items() if k in names or not isinstance(net, nn.Loss) and not k.endswith("num_batches_tracked")}
            net.load_state_dict(state)
        net.train(training)
        found = net(*normalized(info, inputs), **words)
    except REFUSALS as error:
        return refused, f"{type(error).__name__}: {error}".split("\n")[0]
    if refused:
        return refused, ""
    results, expected = arrays_of(found), tensors_of(y)
    assert len(results) == len(expected), f"{len(results)} results, PyTorch's are {len(expected)}"
    for i, (a, b) in enumerate(zip(results, expected)):
        close(a, b, f"result {i}", tolerance)
    if not expected[0].requires_grad or not expected[0].is_floating_point() or not expected[0].numel():
        return "", ""
    weights = (torch.arange(expected[0].numel()) * 37 % 11 - 5).reshape(expected[0].shape) / 4
    (expected[0] * weights).sum().backward()
    net.train(training)
    net.load_state_dict(state)
    w = ours_of(weights.float())
    floats = [i for i, a in enumerate(inputs) if isinstance(a, fr.Array) and fr.isdtype(a.dtype, "real floating") and args[i].grad is not None]

    def loss(net, *xs):
        given = list(inputs)
        for i, x in zip(floats, xs):
            given[i] = x
        return fr.sum(arrays_of(net(*normalized(info, given), **words))[0] * w)

    trained = any(p.requires_grad for p in net.parameters())
    if not trained and not floats:
        return "", ""
    numbers = tuple(range(0 if trained else 1, 1 + len(floats)))
    got = fr.grad(loss, argnums=numbers)(net, *[inputs[i] for i in floats])
    grads = got[0] if trained else {}
    for i, g in zip(floats, got[1:] if trained else got):
        close(g, args[i].grad, f"gradient of input {i}", tolerance)
    for n, p in theirs.named_parameters():
        if p.grad is not None:
            close(grads[n], p.grad, f"gradient of {n}", tolerance)
    return "", ""


def samples(info):
    for training in ([True, False] if info.train_and_eval_differ else [True]):
        torch.manual_seed(0)
        for given in info.module_inputs_func(info, training=training, **OPTIONS):
            yield given, training
    if info.module_error_inputs_func is not None:
        torch.manual_seed(0)
        for error in info.module_error_inputs_func(info, training=True, **OPTIONS):
            yield error.module_error_input, True


@pytest.mark.parametrize("name", INFOS)
def test_a_module_computes_and_refuses_as_pytorchs(name):
    faults, count = [], 0
    for count, (given, training) in enumerate(samples(INFOS[name]), 1):
        form = f"{name}{given.constructor_input.args}{given.constructor_input.kwargs}".replace("\n", " ")[:200]
        try:
            theirs, ours = differences(INFOS[name], given, training)
        except AssertionError as error:
            theirs, ours = "", str(error).strip()[:300]
        if bool(theirs) != bool(ours) and not any(text in theirs + ours for text in DIFFERS.get(name, ())):
            faults.append(f"{form}: " + (f"PyTorch refuses: {theirs}" if theirs else f"Freight refuses: {ours}"))
    assert count > 0 and not faults, "\n".join([f"{len(faults)} of {count}", *faults])


def test_the_page_lists_the_modules_that_differ_and_those_that_are_missing():
    page = (pathlib.Path(__file__).resolve().parents[2] / "bench/results/torch-samples.md").read_text()
    section = page[page.index("## Modules from Python"):]
    differ, missing = (set(re.findall(r"`nn\.(\w+)`", part)) for part in section.split("freight.nn lacks"))
    assert differ == set(DIFFERS)
    assert missing == {info.module_cls.__name__ for info in db.module_db} - set(INFOS)
