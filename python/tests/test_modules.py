"""freight.nn and freight.optim: modules as PyTorch has them, gradients by them, optimizers and files."""
import copy
import pickle

import numpy as np
import pytest

import freight as fr
from freight import nn, optim


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width * 16, 5)
        self.scale = nn.Parameter(fr.ones(5))
        self.register_buffer("offset", fr.zeros(5))

    def forward(self, x):
        x = fr.max_pool2d(fr.relu(self.norm(self.conv(x))), 2)
        return self.fc(fr.reshape(x, (x.shape[0], -1))) * self.scale + self.offset


def samples(count=12):
    rng = np.random.default_rng(0)
    return fr.asarray(rng.normal(size=(count, 1, 8, 8)).astype("f4")), fr.asarray(rng.integers(0, 5, count))


def loss_of(net, x, y):
    return fr.cross_entropy(net(x), y)


def test_names_shapes_and_order_are_pytorchs():
    net = Net()
    assert {name: x.shape for name, x in net.state_dict().items()} == {
        "scale": (5,), "offset": (5,), "conv.weight": (8, 1, 3, 3), "conv.bias": (8,), "norm.weight": (8,), "norm.bias": (8,),
        "norm.running_mean": (8,), "norm.running_var": (8,), "fc.weight": (5, 128), "fc.bias": (5,)}
    assert [name for name, _ in net.named_parameters()] == ["scale", "conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                                            "fc.weight", "fc.bias"]
    assert [name for name, _ in net.named_buffers()] == ["offset", "norm.running_mean", "norm.running_var"]
    assert [name for name, _ in net.named_modules()] == ["", "conv", "norm", "fc"]


def test_layers_have_pytorchs_parameters_and_defaults():
    conv = nn.Conv2d(3, 4, (3, 5), 2, padding=(1, 2), groups=1, bias=False)
    assert (conv.in_channels, conv.kernel_size, conv.stride, conv.padding, conv.bias) == (3, (3, 5), 2, (1, 2), None)
    layer = nn.Linear(3, 2)
    assert layer.bias.shape == (2,) and layer.in_features == 3
    layer.bias = fr.ones(2)
    assert layer.state_dict()["bias"].tolist() == [1, 1]
    with pytest.raises(AttributeError, match="Linear: in_features cannot be set"):
        layer.in_features = 4
    assert repr(nn.Linear(3, 2)) == "Linear(in_features=3, out_features=2)"
    assert nn.MaxPool2d(2)(fr.ones((1, 1, 4, 4))).shape == (1, 1, 2, 2)
    assert nn.Embedding(7, 3)(fr.asarray([[1, 2]])).shape == (1, 2, 3)
    with pytest.raises(ValueError, match="Linear: out must be positive"):
        nn.Linear(3, 0)
    with pytest.raises(TypeError, match="Linear, in: expected an integer"):
        nn.Linear("3", 2)
    with pytest.raises(ValueError, match="GELU, approximate: expected one of none, tanh"):
        nn.GELU("erf")


def test_every_declared_layer_has_a_class():
    from freight import _core

    for layer in _core.layer_types():
        if layer["name"] != "Sequential":  # written by hand
            assert set(getattr(nn, layer["name"])._keys.values()) == {f["key"] for f in layer["fields"]}


def test_outputs_and_gradients_are_those_of_the_formula():
    fr.random.seed(0)
    layer = nn.Linear(3, 2)
    x = fr.asarray([[1.0, -2.0, 3.0]])
    w, b = layer.weight.numpy(), layer.state_dict()["bias"].numpy()
    np.testing.assert_allclose(layer(x).numpy(), x.numpy() @ w.T + b, rtol=1e-6)
    value, grads = fr.value_and_grad(lambda m, x: fr.sum(m(x) ** 2))(layer, x)
    y = x.numpy() @ w.T + b
    np.testing.assert_allclose(value.numpy(), (y**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(grads["weight"].numpy(), 2 * y.T @ x.numpy(), rtol=1e-5)
    np.testing.assert_allclose(grads["bias"].numpy(), 2 * y[0], rtol=1e-5)


def test_gradients_inside_jit_equal_those_outside():
    net, (x, y) = Net().eval(), samples()
    value, grads = fr.value_and_grad(loss_of)(net, x, y)
    compiled_value, compiled = fr.jit(lambda x, y: fr.value_and_grad(loss_of)(net, x, y))(x, y)
    np.testing.assert_allclose(value.numpy(), compiled_value.numpy(), rtol=1e-5)
    assert list(grads) == list(compiled) == [name for name, _ in net.named_parameters()]
    for name, g in grads.items():
        np.testing.assert_allclose(g.numpy(), compiled[name].numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [
    lambda net: optim.SGD(net, lr=0.1, momentum=0.9, nesterov=True), lambda net: optim.Adam(net.parameters(), lr=1e-2),
    lambda net: optim.AdamW(net, lr=1e-2, betas=(0.8, 0.9)), lambda net: optim.Lion(net, lr=1e-2), lambda net: optim.RMSprop(net, lr=1e-2, momentum=0.5), lambda net: optim.Muon(net, lr=0.1)])
def test_a_compiled_step_trains_and_the_optimizer_goes_on_bitwise(make):
    x, y = samples()

    def trained(steps, resume_at=None):
        fr.random.seed(0)
        net = Net()
        optimizer = make(net)

        @fr.jit
        def step(x, y):
            value, grads = fr.value_and_grad(loss_of)(net, x, y)
            optimizer.update(grads)
            return value

        losses = []
        for i in range(steps):
            if i == resume_at:
                saved = net.state_dict(), optimizer.state_dict()
                net = Net()
                net.load_state_dict(saved[0])
                optimizer = make(net)
                optimizer.load_state_dict(saved[1])
                step = fr.jit(step._function)
            losses.append(step(x, y).item())
        return losses

    whole = trained(12)
    assert whole[-1] < 0.6 * whole[0]
    assert trained(12, resume_at=5) == whole


def test_steps_outside_of_jit_equal_compiled_ones():
    x, y = samples()
    results = []
    for compiled in (True, False):
        fr.random.seed(3)
        net = Net()
        optimizer = optim.SGD(net, lr=0.05, momentum=0.9)

        def step(x, y):
            value, grads = fr.value_and_grad(loss_of)(net, x, y)  # noqa: B023
            optimizer.update(grads)  # noqa: B023
            return value

        step = fr.jit(step) if compiled else step
        results.append([step(x, y).item() for _ in range(4)])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-3)


def test_frozen_parameters_keep_their_values():
    net, (x, y) = Net(), samples()
    net.conv.requires_grad_(False)
    optimizer = optim.SGD(net, lr=0.1)
    before = net.state_dict()
    _, grads = fr.value_and_grad(loss_of)(net, x, y)
    assert "conv.weight" not in grads and "fc.weight" in grads
    optimizer.update(grads)
    after = net.state_dict()
    assert fr.all(before["conv.weight"] == after["conv.weight"]) and not fr.all(before["fc.weight"] == after["fc.weight"])


def test_training_and_evaluation_differ_and_a_compiled_function_follows_the_mode():
    net, (x, _) = Net(), samples()
    compiled = fr.jit(lambda x: net(x))
    trained = compiled(x).numpy()
    assert net.training and net.norm.training
    net.eval()
    assert not net.norm.training
    assert not np.allclose(trained, compiled(x).numpy())
    np.testing.assert_allclose(net(x).numpy(), compiled(x).numpy(), rtol=1e-5, atol=1e-6)
    assert net.train().norm.training


def test_state_dicts_load_and_refusals_name_what_differs():
    net, other, (x, _) = Net().eval(), Net().eval(), samples()
    other.load_state_dict(net.state_dict())
    assert fr.all(other(x) == net(x))
    state = net.state_dict()
    del state["fc.bias"]
    with pytest.raises(RuntimeError, match="fc.bias"):
        other.load_state_dict(state)
    assert other.load_state_dict(state, strict=False) == (["fc.bias"], [])
    with pytest.raises(RuntimeError, match="fc.weight"):
        other.load_state_dict({**net.state_dict(), "fc.weight": fr.zeros((2, 2))})


def test_parts_may_be_replaced():
    net, (x, _) = Net(), samples()
    net(x)
    net.fc = nn.Linear(128, 2)
    net.scale = nn.Parameter(fr.ones(2))
    net.register_buffer("offset", None)
    net.forward = lambda x: net.fc(fr.reshape(fr.max_pool2d(net.conv(x), 2), (x.shape[0], -1))) * net.scale
    assert net(x).shape == (12, 2)
    assert net.state_dict()["fc.weight"].shape == (2, 128) and "offset" not in net.state_dict()
    net.scale = fr.full(2, 3.0)  # the value alone
    np.testing.assert_array_equal(net.scale.numpy(), [3, 3])
    with pytest.raises(ValueError, match=r"expected shape \(2,\), got \(3,\)"):
        net.scale = fr.ones(3)


def test_compiled_functions_follow_parts_that_are_replaced():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.chain = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 3)))

        def forward(self, x):
            return self.chain(x)

    net, x = Outer(), fr.ones((2, 4))
    compiled = fr.jit(lambda x: net(x))
    assert compiled(x).shape == (2, 3) and net.predict(x).shape == (2, 3)
    net.chain[1].add_module("1", nn.Linear(4, 5))
    assert compiled(x).shape == (2, 5) and net.predict(x).shape == (2, 5)
    np.testing.assert_allclose(compiled(x).numpy(), net(x).numpy(), rtol=1e-6)
    net.chain = nn.Linear(4, 2)
    assert compiled(x).shape == (2, 2)
    traces = len(compiled.recompilations)
    compiled(x)
    assert len(compiled.recompilations) == traces


def test_containers_hold_modules():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})

        def forward(self, x, head="a"):
            for layer in self.layers:
                x = fr.tanh(layer(x))
            return self.heads[head](x)

    net = Mixed()
    assert list(net.state_dict())[:2] == ["layers.0.weight", "layers.0.bias"] and "heads.b.bias" in net.state_dict()
    assert net(fr.ones((3, 4))).shape == (3, 1) and net(fr.ones((3, 4)), head="b").shape == (3, 2)
    chain = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert len(chain) == 4 and isinstance(chain[2], nn.ReLU) and len(chain[1:3]) == 2
    assert chain(fr.ones((5, 2, 2))).shape == (5, 2)
    block = nn.Residual(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), activation=nn.Tanh())
    assert block(fr.ones((2, 4))).shape == (2, 4)
    assert list(nn.Sequential({"block": block}).state_dict()) == ["block.0.weight", "block.0.bias"]


def test_layers_of_python_within_layers_of_the_library():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    net = nn.Sequential(nn.Linear(3, 3), Double())
    x = fr.ones((2, 3))
    np.testing.assert_allclose(net(x).numpy(), 2 * net[0](x).numpy(), rtol=1e-6)


def test_recurrent_layers_and_attention_return_what_pytorchs_do():
    x = fr.ones((2, 5, 3))
    output, (h, c) = nn.LSTM(3, 4, num_layers=2)(x)
    assert output.shape == (2, 5, 4) and h.shape == c.shape == (2, 2, 4)
    more, _ = nn.LSTM(3, 4, 2)(x, (h, c))
    assert more.shape == output.shape
    output, h = nn.GRU(3, 4)(x, lengths=fr.asarray([5, 2]))
    assert fr.all(output[1, 2:] == 0)
    output, weights = nn.MultiheadAttention(4, 2)(fr.ones((2, 5, 4)))
    assert output.shape == (2, 5, 4) and weights.shape == (2, 5, 5)
    assert nn.MultiheadAttention(4, 2)(fr.ones((2, 5, 4)), need_weights=False)[1] is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_and_pickles_have_values_modes_and_freezing_of_their_own(copied):
    net, (x, _) = Net(), samples()
    net.conv.requires_grad_(False)
    net(x)
    net.eval()
    twin = copied(net)
    assert not twin.training and not twin.norm.training
    assert fr.all(twin(x) == net(x))
    assert not twin.get_parameter("conv.weight").requires_grad and twin.get_parameter("fc.weight").requires_grad
    twin.scale = fr.zeros(5)
    assert not fr.all(twin(x) == net(x))


def test_cells_step_through_sequences():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.fc = nn.LSTMCell(3, 8), nn.Linear(8, 2)

        def forward(self, x):
            state = None
            for i in range(x.shape[1]):
                state = self.cell(x[:, i], state)
            return self.fc(state[0])

    x = np.random.default_rng(0).normal(size=(128, 6, 3)).astype("f4")
    net = Net()
    history = net.fit(x, x[:, :, 0].sum(1) > 0, epochs=8, lr=0.05, optimizer="adam", verbose=0)
    assert history.history["accuracy"][-1] > 0.8
    layer = nn.LSTM(3, 8)
    layer.load_state_dict({f"{name}_l0": value for name, value in net.cell.state_dict().items()})
    h, c = net.cell(x[:, 0])
    h, c = net.cell(x[:, 1], (h, c))
    _, (last, memory) = layer(x[:, :2])
    np.testing.assert_allclose(h.numpy(), last[0].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c.numpy(), memory[0].numpy(), rtol=1e-5, atol=1e-6)
    for call, text in [(lambda: net.cell(fr.ones((2, 4))), r"LSTMCell: expected \(N, 3\) or \(3,\), got shape \(2, 4\)"),
                       (lambda: nn.GRUCell(3, 8)(fr.ones((2, 3)), fr.ones((2, 3))), r"GRUCell: expected a state of shape \(2, 8\), got \(2, 3\)"),
                       (lambda: nn.RNNCell(3, 8, nonlinearity="gelu"), "RNNCell: nonlinearity: expected .tanh. or .relu., got 'gelu'"),
                       (lambda: nn.LSTMCell(0, 8), "LSTMCell: expected sizes of at least 1"),
                       (lambda: nn.Conv3d(4, 6, 3, groups=4), "Conv3d: expected channels that are multiples of groups=4, got 4 and 6"),
                       (lambda: nn.Conv3d(4, 6, 3, padding_mode="wrap"), "Conv3d: padding_mode: expected"),
                       (lambda: nn.Conv3d(4, 6, 3, 2, "same"), "Conv3d: padding .same. keeps the sizes: expected stride 1, got 2"),
                       (lambda: nn.Conv3d(4, 6, 3)(fr.ones((2, 4, 2, 5, 5))), "conv3d: weight .* does not fit input"),
                       (lambda: nn.MaxPool3d(2)(fr.ones((2, 3))), r"max_pool3d: expected \(N, C, D, H, W\) or \(C, D, H, W\), got shape \(2, 3\)"),
                       (lambda: nn.MaxPool3d(2, return_indices=True)(fr.ones((2, 3))), r"max_pool3d: expected \(N, C, D, H, W\)")]:
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("settings", [{"momentum": None}, {"track_running_stats": False}, {"momentum": None, "affine": False}])
@pytest.mark.parametrize("name, shape", [("BatchNorm1d", (6, 3)), ("BatchNorm1d", (6, 3, 4)), ("BatchNorm2d", (2, 3, 4, 5))])
def test_running_statistics_are_means_or_missing(name, shape, settings, tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name)(3, **settings), getattr(torch.nn, name)(3, **settings)
    rng = np.random.default_rng(0)
    compiled = fr.jit(lambda x: ours(x))
    for step in range(4):
        x = rng.normal(size=shape).astype("f4")
        y = (compiled if step % 2 else ours)(fr.asarray(x))
        np.testing.assert_allclose(np.asarray(y), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(np.asarray(ours.state_dict()[key]), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)
    ours.save(tmp_path / "model", input_shape=shape[1:])
    loaded = getattr(nn, name)(3, **settings)
    loaded.load_state_dict(theirs.state_dict())
    x = rng.normal(size=shape).astype("f4")
    expected = theirs.eval()(torch.tensor(x)).detach().numpy()
    for net in (ours.eval(), loaded.eval(), fr.load(tmp_path / "model"), pickle.loads(pickle.dumps(ours))):
        np.testing.assert_allclose(np.asarray(net(fr.asarray(x))), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="momentum is out of range: expected 0 to 1, or -1 for the mean of all batches, got -0.5"):
        getattr(nn, name)(3, momentum=-0.5)


@pytest.mark.parametrize("settings", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, {"kernel_size": 2, "dilation": 2}])
def test_pools_give_the_places_of_maxima(settings):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 9)).astype("f4")
    for name, sample in ("MaxPool1d", x[0]), ("MaxPool2d", x):
        ours, theirs = getattr(nn, name)(**settings, return_indices=True), getattr(torch.nn, name)(**settings, return_indices=True)
        expected = theirs(torch.tensor(sample))
        for y in ours(fr.asarray(sample)), nn.Sequential(ours)(fr.asarray(sample)), fr.jit(lambda x: ours(x))(fr.asarray(sample)):
            assert y[1].dtype == fr.int64
            for a, b in zip(y, expected):
                np.testing.assert_array_equal(np.asarray(a), b.numpy())
    for pool in nn.MaxPool2d(2, return_indices=True), nn.AdaptiveMaxPool2d(3, return_indices=True):
        again = pickle.loads(pickle.dumps(pool))
        for a, b in zip(nn.Sequential(pool)(fr.asarray(x)), again(fr.asarray(x))):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        with pytest.raises(ValueError, match="the number of inputs differs: expected 1, got 2"):
            nn.Sequential(pool, nn.ReLU())(fr.asarray(x))


@pytest.mark.parametrize("settings", [{"max_norm": 1.0}, {"max_norm": 0.5, "norm_type": 1.0, "scale_grad_by_freq": True, "padding_idx": 1}])
def test_embeddings_read_rows_of_a_largest_norm(settings):
    torch = pytest.importorskip("torch")
    ours, theirs = nn.Embedding(5, 3, **settings), torch.nn.Embedding(5, 3, **settings)
    ours.load_state_dict(theirs.state_dict())
    index = np.asarray([0, 1, 1, 4, 4, 4])
    y = theirs(torch.tensor(index))
    y.square().sum().backward()
    np.testing.assert_allclose(np.asarray(ours(fr.asarray(index))), y.detach().numpy(), rtol=1e-5)
    grads = fr.grad(lambda net: fr.sum(net(fr.asarray(index)) ** 2))(ours)
    np.testing.assert_allclose(np.asarray(grads["weight"]), theirs.weight.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_infinite_rows_of_embeddings_stay_infinite():
    table = fr.asarray([[np.inf, 1.0], [-np.inf, 3.0]])
    read = lambda w: fr.nn.functional.embedding(fr.asarray([0, 1, 1]), w, scale_grad_by_freq=True)  # noqa: E731
    assert np.asarray(read(table)).tolist() == [[np.inf, 1], [-np.inf, 3], [-np.inf, 3]]
    assert np.asarray(fr.grad(lambda w: fr.sum(read(w)))(table)).tolist() == [[1, 1], [1, 1]]


def test_a_dropout_of_all_gives_zeros():
    layer, x = nn.Dropout(1.0), fr.ones(3)
    assert np.asarray(layer(x)).tolist() == [0, 0, 0] and np.asarray(layer.eval()(x)).tolist() == [1, 1, 1]
    assert np.asarray(fr.grad(lambda x: fr.sum(fr.nn.functional.dropout(x, 1.0)))(x)).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="Dropout: p is out of range: expected 0 <= p <= 1, got 1.5"):
        nn.Dropout(1.5)
    assert repr(nn.BatchNorm1d(3, momentum=None)) == "BatchNorm1d(num_features=3, momentum=None)"


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.c(fr.relu(self.b(fr.relu(self.a(x)))))


def test_a_parameter_of_two_modules_is_trained_saved_and_copied_as_one(tmp_path):
    net = Tied()
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "c.weight", "c.bias"]
    assert list(net.state_dict()) == ["a.weight", "b.weight", "c.weight", "c.bias"]
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("f4")
    compiled = fr.jit(lambda x: net(x))
    compiled(fr.asarray(x))
    optimizer = optim.SGD(net, lr=0.1)
    net.fit(x, (x[:, 0] > 0), epochs=1, lr=0.1, verbose=0)
    loss, grads = fr.value_and_grad(lambda net, x: fr.sum(net(x) ** 2))(net, fr.asarray(x))
    optimizer.update(grads)
    net.save(tmp_path / "weights", input_shape=(4,))
    copies = [net, copy.deepcopy(net), pickle.loads(pickle.dumps(net)), Tied().load_weights(tmp_path / "weights")]
    copies.append(Tied())
    copies[-1].load_state_dict(net.state_dict())
    for other in copies:
        assert np.asarray(other.a.weight).tolist() == np.asarray(other.b.weight).tolist() == np.asarray(net.a.weight).tolist()
        np.testing.assert_allclose(np.asarray(other(x)), np.asarray(compiled(fr.asarray(x))), rtol=1e-5, atol=1e-6)
    copies[1].b.weight = fr.zeros((4, 4))  # of both its modules, and of no other network
    assert not np.asarray(copies[1].a.weight).any() and np.asarray(net.a.weight).any()
    chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    chain[2].weight = chain[0].weight
    chain.save(tmp_path / "model", input_shape=(4,))
    assert len(list(fr.load(tmp_path / "model").parameters())) == 3


def test_values_that_are_no_others_parameter_are_copied():
    a, b, c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 4)
    b.weight = fr.asarray(a.weight, copy=True)
    a.weight += 1
    w = a.weight
    a.weight = fr.zeros((3, 3))
    b.bias = w[0]
    assert np.asarray(b.weight).any() and np.asarray(b.bias).any() and not np.asarray(a.weight).any()
    held = nn.Sequential(b)
    held.scale = nn.Parameter(fr.ones((3, 3)))
    b.weight = held.scale
    assert [name for name, _ in held.named_parameters()] == ["scale", "0.bias"]
    assert [name for name, _ in copy.deepcopy(held).named_parameters()] == ["scale", "0.bias"]
    with pytest.raises(ValueError, match=r"weight: expected shape \(4, 3\), got \(3, 3\) of weight"):
        c.weight = a.weight


def test_schedules_are_the_librarys():
    rate = optim.cosine(0.1, 10).warmup(5)
    assert rate(0) == pytest.approx(0.001) and rate(5) == pytest.approx(0.1) and rate(15) == pytest.approx(0)
    assert optim.step(1.0, 3)(3) == pytest.approx(0.1) and optim.multi_step(1.0, [2, 4], 0.5)(4) == 0.25
    restarts = optim.cosine_restarts(1.0, 4, factor=2)
    assert [round(restarts(i), 4) for i in (0, 2, 4, 8, 12)] == [1, 0.5, 1, 0.5, 1]
    plateau = optim.Plateau(1.0, factor=0.5, patience=1)
    assert [plateau(loss) for loss in (3.0, 2.0, 2.0, 2.0, 1.0)] == [1, 1, 1, 0.5, 0.5]
    net = nn.Linear(2, 1)
    optimizer = optim.SGD([{"params": [net.get_parameter("weight")], "lr": 0.2}, {"params": [net.get_parameter("bias")]}], lr=0.1)
    optimizer.lr = 0.05
    assert optimizer.lr == pytest.approx(0.05) and optimizer.group_lr("0") == pytest.approx(0.1)


def test_losses_are_modules():
    logits, classes = fr.asarray([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), fr.asarray([0, 2])
    log = logits.numpy() - np.log(np.exp(logits.numpy()).sum(1, keepdims=True))
    assert nn.CrossEntropyLoss()(logits, classes).item() == pytest.approx(-(log[0, 0] + log[1, 2]) / 2, rel=1e-5)
    weighted = nn.CrossEntropyLoss(weight=[1.0, 1.0, 3.0])(logits, classes).item()
    assert weighted == pytest.approx(-(log[0, 0] + 3 * log[1, 2]) / 4, rel=1e-5)
    assert nn.MSELoss(reduction="sum")(logits, fr.zeros((2, 3))).item() == 6
    assert nn.BCEWithLogitsLoss()(fr.zeros(4), fr.ones(4)).item() == pytest.approx(np.log(2), rel=1e-5)
    net = nn.Sequential(nn.Linear(4, 3))
    x = np.random.default_rng(0).normal(size=(64, 4))
    smoothed = net.fit(x, x[:, :3].argmax(1), loss=nn.CrossEntropyLoss(label_smoothing=0.1), lr=0.1, epochs=5, verbose=False)
    assert smoothed.history["loss"][-1] < smoothed.history["loss"][0]


def test_mistakes_are_named():
    class Early(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\)"):
        Early()
    with pytest.raises(AttributeError, match="Net has no attribute .conv2."):
        Net().conv2
    with pytest.raises(NotImplementedError, match="ModuleList has no forward"):
        nn.ModuleList([nn.ReLU()])(fr.ones(2))
    net, (x, y) = Net(), samples()
    optimizer = optim.SGD(net, lr=0.1)
    with pytest.raises(ValueError, match="expected a gradient for each of 7 parameters, got 1"):
        optimizer.update([fr.zeros(5)])
    with pytest.raises(TypeError, match="expected modules or their parameters"):
        optim.SGD([fr.zeros(3)])
    with pytest.raises(ValueError, match="fc"):
        net(fr.ones((1, 1, 4, 4)))
    with pytest.raises(ZeroDivisionError):  # an exception of forward passes the library
        class Broken(nn.Module):
            def forward(self, x):
                return x / (1 // 0)

        nn.Sequential(nn.ReLU(), Broken())(fr.ones((1, 2)))


def test_the_summary_lists_layers():
    text = Net().summary((1, 8, 8))
    assert "conv   Conv2d" in text and "f32[1,8,8,8]" in text and "645" in text
    assert "645" in Net().summary()


def test_sequential_and_lists_change_as_pytorchs_do():
    x = fr.ones((4, 2))
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    step = fr.jit(lambda x: net(x))
    assert step(x).shape == (4, 2)
    net[2] = nn.Linear(3, 5)
    assert step(x).shape == net(x).shape == (4, 5) and net[-1].out_features == 5
    del net[1]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert net.insert(1, nn.Tanh()) is net and [type(m).__name__ for m in net] == ["Linear", "Tanh", "Linear"]
    net += [nn.Linear(5, 1)]
    assert net(x).shape == (4, 1) and net.pop().out_features == 1 and len(net) == 3
    longer = net + nn.Sequential(nn.Linear(5, 7))
    assert longer(x).shape == (4, 7) and len(net) == 3 and longer[1:3](fr.ones((1, 3))).shape == (1, 5)
    del longer[1:]
    assert longer.extend([nn.ReLU()])(x).shape == (4, 3)
    optimizer = optim.SGD(net, lr=0.1)
    optimizer.update(fr.grad(lambda net: fr.sum(net(x)))(net))

    parts = nn.ModuleList([nn.Linear(1, 1)])
    parts[0] = nn.Linear(2, 2)
    parts.insert(0, nn.ReLU())
    assert [len(parts), len(parts + parts), len(parts[1:]), parts.pop(0).training] == [2, 4, 1, True]
    named = nn.Sequential({"a": nn.Linear(2, 2), "b": nn.ReLU()})
    named[1] = nn.Tanh()
    assert list(dict(named.append(nn.ReLU()).named_children())) == ["a", "b", "0"]
    for change, error, message in ((lambda: net.__setitem__(3, nn.ReLU()), IndexError, "Sequential: index 3 is out of range: it has 3 modules"),
                                   (lambda: net.__delitem__(-4), IndexError, "index -4 is out of range"),
                                   (lambda: net.__setitem__(0, fr.relu), TypeError, "Sequential: expected a module, got function"),
                                   (lambda: nn.Sequential([nn.ReLU(), fr.relu]), TypeError, "Sequential: expected a module, got function"),
                                   (lambda: parts.append(3), TypeError, "ModuleList: expected a module, got int")):
        with pytest.raises(error, match=message):
            change()
    copied = pickle.loads(pickle.dumps(net))
    assert (copied(x) == net(x)).tolist() == [[True] * 5] * 4


def test_the_head_of_a_network_of_the_zoo_is_replaced_by_its_number():
    net = fr.models.get_model("alexnet", num_classes=4)
    last = len(net.classifier) - 1
    net.classifier[last] = nn.Linear(net.classifier[last].in_features, 2)
    assert net.get_parameter(f"classifier.{last}.weight").shape[0] == 2


@pytest.mark.parametrize("kind, settings", [("Embedding", {}), ("Embedding", {"padding_idx": 1}), ("Embedding", {"freeze": False, "max_norm": 1.5}),
                                            ("EmbeddingBag", {"mode": "sum", "freeze": False}), ("EmbeddingBag", {"padding_idx": 0})], ids=str)
def test_embeddings_from_pretrained_rows_are_those_of_pytorch(kind, settings):
    rows = np.arange(12, dtype="f4").reshape(4, 3) / 8
    layer = getattr(nn, kind).from_pretrained(rows, **settings)
    tokens = np.asarray([[1, 0, 3], [2, 1, 1]])
    assert isinstance(layer, getattr(nn, kind)) and np.array_equal(layer.weight, rows) and next(iter(layer.parameters())).requires_grad == (not settings.get("freeze", True))
    rows[...] = 0  # it has a copy
    rows = layer.weight.numpy()
    found = layer(fr.asarray(tokens)).numpy()
    want = rows[tokens]
    if "max_norm" in settings:
        want = want * np.minimum(1, 1.5 / np.maximum(np.linalg.norm(want, axis=2, keepdims=True), 1e-7))
    if kind == "EmbeddingBag":
        kept = (tokens != settings.get("padding_idx", -1))[..., None]
        want = (want * kept).sum(axis=1) / (1 if settings.get("mode") == "sum" else kept.sum(axis=1))
    assert np.allclose(found, want, rtol=1e-5, atol=1e-6)
    torch = pytest.importorskip("torch")
    assert np.allclose(found, getattr(torch.nn, kind).from_pretrained(torch.tensor(rows), **settings)(torch.tensor(tokens)).detach(), rtol=1e-5, atol=1e-6)


def test_bags_of_rows_take_factors_and_offsets_as_pytorchs():
    random = np.random.default_rng(0)
    bag = nn.EmbeddingBag(9, 4, mode="sum", padding_idx=2)
    tokens, factors = fr.asarray([[1, 2, 3], [0, 4, 4]]), fr.asarray(random.normal(size=(2, 3)).astype("f4"))
    rows, kept = bag.weight.numpy(), (tokens.numpy() != 2)[..., None]
    want = (rows[tokens.numpy()] * factors.numpy()[..., None] * kept).sum(axis=1)
    flat, begins = fr.reshape(tokens, (-1,)), fr.asarray([0, 3])
    for got in (bag(tokens, per_sample_weights=factors), bag(tokens, None, factors), fr.jit(lambda t, f: bag(t, None, f))(tokens, factors),
                bag(flat, begins, per_sample_weights=fr.reshape(factors, (-1,)))):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bag(flat, begins).numpy(), bag(tokens).numpy(), rtol=1e-5, atol=1e-6)
    by_factors = fr.grad(lambda f: fr.sum(bag(tokens, per_sample_weights=f)))(factors).numpy()
    np.testing.assert_allclose(by_factors, rows[tokens.numpy()].sum(axis=2) * kept[..., 0], rtol=1e-5, atol=1e-6)
    by_rows = fr.grad(lambda m, f: fr.sum(m(tokens, per_sample_weights=f)))(bag, factors)["weight"].numpy()
    expected = np.zeros((9, 4))
    np.add.at(expected, tokens.numpy(), factors.numpy()[..., None] * kept)
    np.testing.assert_allclose(by_rows, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="per_sample_weights: expected mode sum"):
        nn.EmbeddingBag(9, 4)(tokens, per_sample_weights=factors)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        bag(tokens, weights=factors)
    torch = pytest.importorskip("torch")
    theirs = torch.nn.EmbeddingBag(9, 4, mode="sum", padding_idx=2, _weight=torch.tensor(rows))
    got = theirs(torch.tensor(tokens.numpy()), per_sample_weights=torch.tensor(factors.numpy()))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-5, atol=1e-6)


def test_rows_that_are_no_table_are_refused():
    with pytest.raises(ValueError, match=r"Embedding.from_pretrained: embeddings: expected an array \(tokens, width\), got shape \(3,\)"):
        nn.Embedding.from_pretrained(np.zeros(3))


class Counting(nn.Module):
    """Buffers of integers and truth values: positions, a mask, and a count of calls."""

    def __init__(self):
        super().__init__()
        self.fc, self.positions = nn.Linear(4, 4), nn.Embedding(4, 4)
        self.register_buffer("order", fr.asarray([3, 1, 2, 0]))
        self.register_buffer("mask", fr.tril(fr.ones((4, 4), dtype=fr.bool)))
        self.register_buffer("count", fr.zeros((), dtype=fr.int64))

    def forward(self, x):
        self.count = self.count + 1
        h = self.fc(x) + fr.mean(self.positions(self.order), axis=0)
        return fr.sum(fr.where(self.mask, h[:, None, :] * h[:, :, None], 0.0), axis=1)


def test_buffers_of_integers_and_truth_values_keep_their_type(tmp_path):
    net, x = Counting(), fr.asarray(np.random.default_rng(0).normal(size=(8, 4)).astype("f4"))
    kept = {name: array.dtype for name, array in net.state_dict().items() if "." not in name}
    assert kept == {"order": fr.int64, "mask": fr.bool, "count": fr.int64}
    h = (net.fc(x).numpy() + net.positions.weight.numpy().mean(axis=0))
    want = np.where(np.tril(np.ones((4, 4), bool)), h[:, None, :] * h[:, :, None], 0).sum(axis=1)
    step = fr.jit(net)
    for call in (net, step, step):
        np.testing.assert_allclose(call(x).numpy(), want, rtol=1e-5, atol=1e-6)
    assert int(net.count) == 3
    net.count, net.mask[0, 0] = 2**40 + 1, False
    assert step(x).shape == (8, 4) and int(net.count) == 2**40 + 2 and net.mask[0].tolist() == [False] * 4
    other = Counting()
    other.load_state_dict({**net.state_dict(), "order": np.asarray([0, 1, 2, 3], "i4")})
    assert (other.order.dtype, other.order.tolist(), int(other.count)) == (fr.int64, [0, 1, 2, 3], 2**40 + 2)
    copies = [pickle.loads(pickle.dumps(net)), copy.deepcopy(net)]
    net.save(tmp_path / "net.safetensors", input_shape=(4,))
    copies.append(fr.load(tmp_path / "net.safetensors"))
    want = net(x).numpy()
    for again in copies:
        np.testing.assert_array_equal(again(x).numpy(), want)
    assert int(copies[0].count) == int(copies[1].count) == int(net.count) == 2**40 + 3
    net.fit(x, np.zeros((8, 4), "f4"), loss="mse", epochs=2, batch_size=4, verbose=0)
    assert int(net.count) == 2**40 + 7
    with pytest.raises(TypeError, match="Parameter: expected floating numbers, got int64"):
        nn.Parameter(fr.arange(3))
    with pytest.raises(TypeError, match="Buffer: expected real numbers, got complex64"):
        nn.Buffer(fr.zeros(2, dtype=fr.complex64))


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_a_padding_row_counts_from_the_end_as_pytorchs(layer):
    tokens = fr.asarray([[6, 5, 0], [0, 6, 1]])
    for padding, row in ((-1, 6), (-2, 5), (6, 6), (0, 0), (-7, 0)):
        table = layer(7, 4, padding_idx=padding)
        assert table.padding_idx == row
        gradients = fr.grad(lambda n: fr.sum(n(tokens)))(table)["weight"].numpy()
        assert sorted(np.flatnonzero(gradients.any(axis=1))) == sorted({0, 1, 5, 6} - {row})
        assert not table.weight.numpy()[row].any()
    for padding in (7, -8):
        with pytest.raises(ValueError, match=f"padding_idx: expected a row from -7 to 6, got {padding}"):
            layer(7, 4, padding_idx=padding)
