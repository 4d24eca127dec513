"""freight.from_torch: networks of PyTorch, with their outputs and gradients."""
import pickle

import numpy as np
import pytest

import freight as fr
from freight import nn

torch = pytest.importorskip("torch")
T = torch.nn


def image_net():
    return T.Sequential(
        T.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), T.BatchNorm2d(8), T.ReLU(), T.MaxPool2d(2),
        T.Sequential(T.Conv2d(8, 8, (3, 1), padding=(1, 0), groups=2), T.GroupNorm(2, 8), T.GELU(), T.AvgPool2d(2)),
        T.AdaptiveAvgPool2d((1, 1)), T.Flatten(), T.Dropout(0.0), T.Linear(8, 5), T.LeakyReLU(0.2), T.LayerNorm(5), T.Softmax(dim=1))


NETS = {
    "images": (image_net, (4, 3, 16, 16)),
    "rows": (lambda: T.Sequential(T.Linear(6, 7), T.BatchNorm1d(7), T.ELU(0.5), T.Hardswish(), T.SiLU(), T.Linear(7, 2)), (9, 6)),
    "sequences": (lambda: T.Sequential(T.Conv1d(4, 6, 3, dilation=2), T.Tanh(), T.Sigmoid(), T.Softplus()), (3, 4, 12)),
    "layer": (lambda: T.Linear(4, 4, bias=False), (2, 4)),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_are_pytorchs(name, training):
    make, shape = NETS[name]
    torch.manual_seed(0)
    theirs = make().train(training)
    ours = fr.from_torch(theirs)
    assert ours.training == training
    x = torch.randn(shape)
    weights = torch.randn(theirs(x).shape)
    y = theirs(x)
    (y * weights).sum().backward()
    np.testing.assert_allclose(ours(x.numpy()).numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-5)
    _, grads = fr.value_and_grad(lambda net, x, w: fr.sum(net(x) * w))(ours, fr.asarray(x.numpy()), fr.asarray(weights.numpy()))
    for path, p in theirs.named_parameters():
        np.testing.assert_allclose(grads[path].numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-5)


LAYERS = [
    *[(make, (3, 6)) for make in (T.SELU, T.CELU, lambda: T.CELU(0.5), T.Mish, T.LogSigmoid, T.Tanhshrink, T.Hardtanh, T.ReLU6,
                                  lambda: T.Hardtanh(-0.3, 0.7), T.Hardshrink, T.Softshrink, lambda: T.Softshrink(0.2), T.Hardsigmoid,
                                  lambda: T.Threshold(0.1, -2.0), lambda: T.Softplus(3.0, 2.0), T.GLU, lambda: T.LogSoftmax(dim=0),
                                  lambda: T.Softmin(dim=1), T.PReLU, lambda: T.PReLU(6, 0.1), lambda: T.RMSNorm(6), T.Softsign,
                                  lambda: T.RMSNorm((3, 6), eps=0.01, elementwise_affine=False), lambda: T.LayerNorm(6, bias=False),
                                  lambda: T.LayerNorm((3, 6), elementwise_affine=False), lambda: T.BatchNorm1d(6, affine=False),
                                  lambda: T.BatchNorm1d(6, bias=False), lambda: T.Unflatten(1, (2, -1)))],
    *[(make, (2, 4, 9)) for make in (lambda: T.InstanceNorm1d(4), lambda: T.GroupNorm(2, 4, affine=False), lambda: T.MaxPool1d(3, 2),
                                     lambda: T.GroupNorm(2, 4, bias=False),
                                     lambda: T.AvgPool1d(3, padding=1), lambda: T.AdaptiveAvgPool1d(4), lambda: T.AdaptiveMaxPool1d(4),
                                     lambda: T.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), lambda: T.Upsample(scale_factor=2.5),
                                     lambda: T.Conv1d(4, 2, 4, padding="same"), lambda: T.Conv1d(4, 2, 3, padding="valid"),
                                     lambda: T.Upsample(scale_factor=1.7, mode="linear"), lambda: T.Upsample(5, mode="linear"),
                                     lambda: T.Conv1d(4, 4, 3, 2, 2, padding_mode="circular"), lambda: T.GLU(dim=1))],
    *[(make, (2, 3, 7, 5)) for make in (lambda: T.InstanceNorm2d(3, affine=True), lambda: T.BatchNorm2d(3, affine=False),
                                        lambda: T.BatchNorm2d(3, momentum=None), lambda: T.BatchNorm2d(3, track_running_stats=False),
                                        lambda: T.AdaptiveMaxPool2d((3, 2)), lambda: T.AdaptiveAvgPool2d((None, 2)),
                                        lambda: T.AdaptiveMaxPool2d((3, None)),
                                        lambda: T.ConvTranspose2d(3, 2, 3), lambda: T.ConvTranspose2d(3, 2, 3, output_padding=1, dilation=2),
                                        lambda: T.ConvTranspose2d(3, 2, 3, (2, 1), (1, 3), (2, 2), dilation=3), lambda: T.Dropout(1.0),
                                        lambda: T.ConvTranspose2d(3, 6, (3, 2), (2, 1), (0, 1), (1, 0), 3, False, (1, 2)),
                                        lambda: T.Conv2d(3, 2, 3, padding="same", dilation=2, padding_mode="reflect"),
                                        lambda: T.Conv2d(3, 2, (2, 3), padding="same"), lambda: T.Conv2d(3, 2, 3, 2, 2, padding_mode="replicate"),
                                        lambda: T.Upsample(scale_factor=3), lambda: T.Upsample((4, 11)), lambda: T.Upsample(scale_factor=(2.0, 3.0)),
                                        *[lambda mode=mode, align=align, size=size: T.Upsample(mode=mode, align_corners=align, **size)
                                          for mode in ("bilinear", "bicubic") for align in (False, True)
                                          for size in ({"scale_factor": 2.0}, {"size": (4, 11)}, {"scale_factor": 0.6})])],
    *[(make, (2, 4, 6, 7, 5)) for make in (
        lambda: T.Conv3d(4, 6, 3), lambda: T.Conv3d(4, 6, (3, 2, 1), (1, 2, 3), (2, 0, 1), (2, 1, 1), 2, False), lambda: T.Conv3d(4, 2, (1, 3, 2)),
        lambda: T.Conv3d(4, 2, (3, 5, 3), padding="same", dilation=(1, 1, 2), padding_mode="circular"), lambda: T.Conv3d(4, 2, 3, padding="same"),
        lambda: T.Conv3d(4, 2, 3, padding=(1, 2, 0), padding_mode="replicate"), lambda: T.BatchNorm3d(4), lambda: T.MaxPool3d(2),
        lambda: T.MaxPool3d((3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 2), ceil_mode=True), lambda: T.AvgPool3d((2, 3, 2), 2, 1, True, False),
        lambda: T.AvgPool3d(3, 2, 1, True), lambda: T.AvgPool3d(2, divisor_override=3), lambda: T.AdaptiveAvgPool3d((4, None, 2)),
        lambda: T.AdaptiveMaxPool3d((4, 3, None)), lambda: T.ConvTranspose3d(4, 6, 3), lambda: T.InstanceNorm3d(4),
        lambda: T.ConvTranspose3d(4, 6, (3, 2, 1), (2, 1, 3), (1, 0, 0), (1, 1, 2), 2, False, (1, 2, 1)),
        lambda: T.ConvTranspose3d(4, 2, (2, 3, 3), (3, 2, 1), (2, 1, 0), (0, 1, 0), dilation=(2, 1, 1)), lambda: T.InstanceNorm3d(4, affine=True),
        lambda: T.LPPool3d(2, (2, 3, 2)), lambda: T.LPPool3d(2.0, 2, 1, True))],
    *[(make, (4, 6, 7, 5)) for make in (lambda: T.Conv3d(4, 6, 3, stride=2, padding=1), lambda: T.MaxPool3d(2), lambda: T.AvgPool3d(2),
                                        lambda: T.ConvTranspose3d(4, 6, 3, stride=2), lambda: T.InstanceNorm3d(4))],
    (lambda: T.LPPool1d(2, 3, 2), (2, 4, 9)), (lambda: T.LPPool2d(2, (2, 3), ceil_mode=True), (2, 3, 7, 5)),
    *[(make, shape) for shape in ((3, 4), (4,)) for make in (lambda: T.RNNCell(4, 5), lambda: T.RNNCell(4, 5, False, "relu"), lambda: T.GRUCell(4, 5),
                                                            lambda: T.GRUCell(4, 5, bias=False))],
]


@pytest.mark.parametrize("make, shape", LAYERS, ids=[f"{i}-{type(make()).__name__}" for i, (make, _) in enumerate(LAYERS)])
def test_each_layer_computes_what_pytorchs_does(make, shape):
    torch.manual_seed(0)
    theirs = make()
    ours = fr.from_torch(theirs)
    assert {n: tuple(v.shape) for n, v in ours.state_dict().items()} == {
        n: tuple(v.shape) for n, v in theirs.state_dict().items() if n != "num_batches_tracked" or theirs.momentum is None}
    x = torch.randn(shape, requires_grad=True)
    y = theirs(x)
    weights = torch.randn(y.shape)
    (y * weights).sum().backward()
    _, (grads, dx) = fr.value_and_grad(lambda net, x, w: fr.sum(net(x) * w), argnums=(0, 1))(
        ours, fr.asarray(x.detach().numpy()), fr.asarray(weights.numpy()))
    pairs = [(ours(x.detach().numpy()), y.detach()), (dx, x.grad), *[(grads[name], p.grad) for name, p in theirs.named_parameters()]]
    for got, expected in pairs:
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5 * max(1, expected.abs().max().item()))


PLACES = [
    *[(make, (2, 3, 9)) for make in (lambda: T.AdaptiveMaxPool1d(4, True), lambda: T.MaxPool1d(2, return_indices=True))],
    *[(make, shape) for shape in ((2, 3, 7, 5), (3, 7, 5)) for make in (
        lambda: T.AdaptiveMaxPool2d((3, 2), True), lambda: T.AdaptiveMaxPool2d((None, 4), True), lambda: T.AdaptiveMaxPool2d(1, True))],
    *[(make, shape) for shape in ((2, 3, 6, 7, 5), (3, 6, 7, 5)) for make in (
        lambda: T.MaxPool3d(2, return_indices=True), lambda: T.AdaptiveMaxPool3d((4, 3, None), True),
        lambda: T.MaxPool3d((3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 2), True, True))],
]


@pytest.mark.parametrize("make, shape", PLACES, ids=[f"{i}-{type(make()).__name__}" for i, (make, _) in enumerate(PLACES)])
@pytest.mark.parametrize("ties", [False, True])
def test_places_of_maxima_are_pytorchs(make, shape, ties):
    theirs = make()
    ours = fr.from_torch(theirs)
    torch.manual_seed(0)
    x = (torch.randint(0, 3, shape).float() if ties else torch.randn(shape)).requires_grad_()
    y, places = theirs(x)
    weights = torch.randn(y.shape)
    (y * weights).sum().backward()
    given = fr.asarray(x.detach().numpy())
    values, found = ours(given)
    np.testing.assert_array_equal(values.numpy(), y.detach().numpy())
    np.testing.assert_array_equal(found.numpy(), places.numpy())
    assert found.dtype == fr.int64
    for got in (fr.grad(lambda x, w: fr.sum(ours(x)[0] * w))(given, fr.asarray(weights.numpy())),
                fr.jit(fr.grad(lambda x, w: fr.sum(ours(x)[0] * w)))(given, fr.asarray(weights.numpy()))):
        np.testing.assert_allclose(got.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes, sizes, given_size", [(1, (8,), False), (2, (6, 4), False), (3, (4, 6, 8), False), (1, (9,), True), (2, (7, 5), True),
                                                     (3, (6, 7, 5), True)])
def test_maxima_go_back_to_their_places(axes, sizes, given_size):
    torch.manual_seed(0)
    pool, back = getattr(T, f"MaxPool{axes}d")(2, return_indices=True), getattr(T, f"MaxUnpool{axes}d")(2)
    y, places = pool(torch.randn(2, 3, *sizes))
    y.requires_grad_()
    size = (2, 3, *sizes) if given_size else None
    expected = back(y, places, output_size=size)
    weights = torch.randn(expected.shape)
    (gradient,) = torch.autograd.grad((expected * weights).sum(), y)
    ours, given, index = fr.from_torch(back), fr.asarray(y.detach().numpy()), fr.asarray(places.numpy())
    np.testing.assert_array_equal(ours(given, index, output_size=size).numpy(), expected.detach().numpy())
    got = fr.grad(lambda x: fr.sum(ours(x, index, output_size=size) * fr.asarray(weights.numpy())))(given)
    np.testing.assert_allclose(got.numpy(), gradient.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match=f"max_unpool{axes}d: output_size: expected sizes nearer to"):
        ours(given, index, output_size=[n + 9 for n in sizes])


FORWARD = [
    (lambda: nn.ConvTranspose3d(2, 2, 3, output_padding=1), (1, 2, 4, 4, 4), "output_padding must be smaller than stride or dilation"),
    (lambda: nn.ConvTranspose3d(2, 2, 1, padding=2), (1, 2, 4, 4, 4), "leaves nothing of"),
    (lambda: nn.InstanceNorm3d(3), (1, 2, 4, 4, 4), r"InstanceNorm3d: expected \(N, 3, D, H, W\)"),
    (lambda: nn.RNN(3, 2), (1, 2, 4), r"RNN: expected \(N, T, 3\), got shape \(1, 2, 4\)"),
    (lambda: nn.AdaptiveMaxPool2d(2, return_indices=True), (2, 4), "adaptive_max_pool2d: expected"),
    (lambda: nn.ConvTranspose1d(2, 2, 3, output_padding=1), (1, 2, 4), "output_padding must be smaller than stride or dilation"),
    (lambda: nn.Upsample(), (1, 2, 4), "expected either a size or a factor"),
    (lambda: nn.Upsample(scale_factor=2, align_corners=True), (1, 2, 4), "align_corners needs a mode that interpolates"),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4), r"expected \(N, C, H, W\)"),
    (lambda: nn.Conv1d(2, 2, 3, padding=4, padding_mode="reflect"), (1, 2, 4), "at most 3 elements of axis 2, got 4"),
    (lambda: nn.PReLU(3), (1, 2, 4), r"expected \(N, 3, ...\)"),
    (lambda: nn.RMSNorm(3), (1, 2, 4), "expected the last sizes"),
    (lambda: nn.Unflatten(1, (3, -1)), (1, 4), "reshape"),
]


@pytest.mark.parametrize("make, shape, text", FORWARD, ids=range(len(FORWARD)))
def test_inputs_that_do_not_fit_are_refused_by_the_layer(make, shape, text):
    with pytest.raises(ValueError, match=text):
        make()(fr.ones(shape))


def test_padding_in_words_is_checked():
    with pytest.raises(ValueError, match="Conv2d, padding: expected numbers or one of same, valid, got full"):
        nn.Conv2d(1, 1, 3, padding="full")
    with pytest.raises(ValueError, match="AdaptiveAvgPool2d, output_size: expected numbers or one of None, got same"):
        nn.AdaptiveAvgPool2d((3, "same"))
    with pytest.raises(ValueError, match="Conv2d: padding that keeps the sizes needs stride 1, got 2"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")
    with pytest.raises(ValueError, match="Conv2d: padding must not be negative: got"):
        nn.Conv2d(1, 1, 3, padding=(-1, 0))


def test_weights_begin_within_pytorchs_bounds_and_load_there():
    fr.random.seed(0)
    torch.manual_seed(2)
    for name, arguments in {"ConvTranspose1d": (64, 8, 5), "ConvTranspose2d": (64, 8, 3), "Conv2d": (8, 64, 3)}.items():
        ours, theirs = getattr(nn, name)(*arguments), getattr(T, name)(*arguments)
        for key, value in theirs.state_dict().items():
            got = ours.state_dict()[key].numpy()
            assert got.shape == tuple(value.shape)
            bound = 1 / np.sqrt(np.prod(theirs.weight.shape[1:]))
            assert 0.8 * bound < np.abs(got).max() <= bound and 0.8 * bound < value.abs().max() <= bound
        theirs.load_state_dict({key: torch.from_numpy(v.numpy()) for key, v in ours.state_dict().items()}, strict=True)


class Functions(T.Module):
    """Functions with settings that not every layer has."""

    def __init__(self):
        super().__init__()
        self.table = T.Parameter(3 * torch.randn(5, 4))

    def forward(self, tokens):
        y = T.functional.embedding(tokens, self.table * 1, max_norm=2.0, scale_grad_by_freq=True)
        y = T.functional.softplus(y, beta=2, threshold=1)
        return T.functional.adaptive_avg_pool2d(y, (None, 2))


def test_functions_with_settings():
    theirs, tokens = Functions(), torch.tensor([[[1, 2, 1], [3, 1, 4]]])
    ours, y = fr.from_torch(theirs), theirs(tokens)
    y.sum().backward()
    np.testing.assert_allclose(ours(tokens.numpy()).numpy(), y.detach().numpy(), rtol=1e-5)
    grads = fr.grad(lambda net, x: fr.sum(net(x)))(ours, fr.asarray(tokens.numpy()))
    np.testing.assert_allclose(grads["table"].numpy(), theirs.table.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_by_frequency_are_a_setting_of_the_layer():
    theirs, tokens = T.Embedding(5, 3, scale_grad_by_freq=True), torch.tensor([[1, 1, 0], [1, 2, 2]])
    ours = fr.from_torch(theirs)
    theirs(tokens).sum().backward()
    grads = fr.grad(lambda net, x: fr.sum(net(x)))(ours, fr.asarray(tokens.numpy()))
    np.testing.assert_allclose(grads["weight"].numpy(), theirs.weight.grad.numpy(), rtol=1e-6)


def test_embeddings_and_layers_with_states():
    tokens = torch.tensor([[1, 2, 0], [3, 0, 0]])
    theirs = T.Embedding(5, 3, padding_idx=0)
    np.testing.assert_array_equal(fr.from_torch(theirs)(tokens.numpy()).numpy(), theirs(tokens).detach().numpy())
    for settings in ({}, {"mode": "sum"}, {"mode": "max"}, {"padding_idx": 2}, {"padding_idx": 2, "mode": "max"}):
        theirs = T.EmbeddingBag(5, 3, **settings)  # token 0 is no padding unless it is said to be
        np.testing.assert_allclose(fr.from_torch(theirs)(tokens.numpy()).numpy(), theirs(tokens).detach().numpy(), rtol=1e-6)
    theirs, x = T.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), torch.randn(2, 5, 3)
    (y, (h, c)), (ours, (h2, c2)) = theirs(x), fr.from_torch(theirs)(x.numpy())
    for a, b in ((y, ours), (h, h2), (c, c2)):
        np.testing.assert_allclose(b.numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-6)
    theirs, x = T.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 5, 8)
    (y, w), (ours, w2) = theirs(x, x, x), fr.from_torch(theirs)(x.numpy())
    np.testing.assert_allclose(ours.numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(w2.numpy(), w.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_frozen_parameters_stay_frozen():
    theirs = T.Sequential(T.Linear(2, 2), T.Linear(2, 1))
    theirs[0].weight.requires_grad = False
    assert [name for name, p in fr.from_torch(theirs).named_parameters() if not p.requires_grad] == ["0.weight"]


class Text(T.Module):
    def __init__(self):
        super().__init__()
        self.words, self.states = T.Embedding(20, 8, padding_idx=0), T.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.classes = T.Linear(12, 3)

    def forward(self, x):
        y, (h, _) = self.states(self.words(x))
        return self.classes(torch.cat([h[-2], h[-1]], dim=1) + y.mean(1))


@pytest.mark.parametrize("settings", [{}, {"batch_first": True, "norm_first": True, "activation": "gelu"}])
def test_transformers_with_masks_are_pytorchs(settings):
    torch.manual_seed(0)
    theirs = T.Transformer(8, 2, 2, 2, 16, dropout=0.0, **settings)
    ours = fr.from_torch(theirs)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    src, tgt, mask = torch.randn(3, 5, 8), torch.randn(3, 4, 8), theirs.generate_square_subsequent_mask(4)
    if not settings:
        src, tgt = src.transpose(0, 1), tgt.transpose(0, 1)
    hidden = torch.zeros(3, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    masks = {"tgt_mask": mask, "src_key_padding_mask": hidden, "memory_key_padding_mask": hidden}
    y = theirs(src, tgt, **masks, tgt_is_causal=True)
    y.square().sum().backward()
    given = [fr.asarray(x.numpy().copy()) for x in (src, tgt)]
    masks = {name: fr.asarray(m.numpy()) for name, m in masks.items()}
    np.testing.assert_array_equal(nn.Transformer.generate_square_subsequent_mask(4).numpy(), mask.numpy())
    np.testing.assert_allclose(ours(*given, **masks, tgt_is_causal=True).numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-5)
    grads = fr.grad(lambda net: fr.sum(net(*given, **masks) ** 2))(ours)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(grads[name].numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)
    with pytest.raises(ValueError, match="TransformerDecoderLayer: is_causal: expected tgt_mask with it"):
        ours(*given, tgt_is_causal=True)


class TimeFirst(T.Module):
    def __init__(self):
        super().__init__()
        self.states, self.attention = T.GRU(4, 6), T.MultiheadAttention(6, 2)

    def forward(self, x):
        y, _ = self.states(x)
        return self.attention(y, y, y, need_weights=False)[0][-1]


class Encoder(T.Module):
    def __init__(self, **settings):
        super().__init__()
        self.places = T.Parameter(torch.randn(5, 1, 8))
        self.encoder = T.TransformerEncoder(T.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **settings), 2, T.LayerNorm(8),
                                            enable_nested_tensor=False)
        self.register_buffer("mask", T.Transformer.generate_square_subsequent_mask(5))

    def forward(self, x):
        return self.encoder(x + self.places[:x.size(0)], self.mask).mean(0)


class Mixed(T.Module):
    """Functions, parameters of its own, a part under two names, buffers of two kinds, and another result in training."""

    def __init__(self):
        super().__init__()
        self.blocks = T.ModuleList([T.Sequential(T.Linear(6, 6), T.Tanh()) for _ in range(2)])
        self.again, self.scale = self.blocks[0], T.Parameter(torch.ones(6))
        self.register_buffer("shift", torch.randn(6))
        self.register_buffer("order", torch.tensor([2, 0, 1, 5, 4, 3]))

    def forward(self, x, residual=True):
        y = x
        for block in self.blocks:
            y = y + block(x) if residual else block(x)
        y = self.again(T.functional.normalize(y, dim=-1)) * self.scale + self.shift
        a, b = y.view(x.size(0), 2, 3).permute(1, 0, 2).chunk(2)
        y = torch.cat([a.squeeze(0), b[0]], dim=-1)[:, self.order].masked_fill(x > 2, 0.5)
        y = T.functional.gelu(y.clamp(min=-0.5), approximate="tanh")
        return y * 2 if self.training else T.functional.softmax(y, dim=1)


def network(name):
    models = pytest.importorskip("torchvision").models
    return getattr(models, name)(weights=None, **({"init_weights": False} if name == "googlenet" else {}))


OWN = {
    "text": (Text, lambda: torch.randint(1, 20, (3, 5))), "time first": (TimeFirst, lambda: torch.randn(5, 2, 4)),
    "encoder": (Encoder, lambda: torch.randn(5, 2, 8)),
    "encoder, norm first": (lambda: Encoder(norm_first=True, activation="gelu"), lambda: torch.randn(5, 2, 8)),
    "mixed": (Mixed, lambda: torch.randn(4, 6)),
    **{name: (lambda name=name: network(name), lambda: torch.randn(2, 3, 64, 64))
       for name in ("resnet18", "alexnet", "vgg11_bn", "googlenet", "mobilenet_v2", "squeezenet1_0")},
}


@pytest.mark.parametrize("name", OWN)
def test_networks_with_a_forward_of_their_own(name):
    make, inputs = OWN[name]
    torch.manual_seed(0)
    theirs = make().eval()
    ours, x = fr.from_torch(theirs), inputs()
    assert not ours.training
    y = theirs(x)
    weights = torch.randn(y.shape)
    (y * weights).sum().backward()
    np.testing.assert_allclose(ours(x.numpy()).numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-4 * float(y.detach().abs().max()))
    _, grads = fr.value_and_grad(lambda net, x, w: fr.sum(net(x) * w))(ours, fr.asarray(x.numpy()), fr.asarray(weights.numpy()))
    for path, p in theirs.named_parameters():
        if p.grad is not None:  # GoogLeNet's other classifiers are for training
            off = np.linalg.norm(grads[path].numpy() - p.grad.numpy())
            assert off <= 1e-3 * np.linalg.norm(p.grad.numpy()) + 1e-7, path
    names = {n for n, v in theirs.state_dict().items() if v.is_floating_point()}
    assert set(ours.state_dict()) == names and ours.kind == type(theirs).__name__


def test_training_and_evaluation_are_traced_and_a_traced_network_trains():
    theirs = Mixed()
    ours, x = fr.from_torch(theirs), torch.randn(4, 6)
    for mode in (True, False):
        np.testing.assert_allclose(ours.train(mode)(x.numpy()).numpy(), theirs.train(mode)(x).detach().numpy(), rtol=1e-4, atol=1e-6)
    copied = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(copied(x.numpy()).numpy(), ours(x.numpy()).numpy())
    losses = ours.fit(np.random.default_rng(0).normal(size=(64, 6)), np.arange(64) % 6, epochs=3, verbose=False).history["loss"]
    assert losses[-1] < losses[0]


class InPlace(T.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.relu = kind, T.ReLU(inplace=True)

    def forward(self, x):
        x = x * 1
        if self.kind == "module":
            y = self.relu(x)
        elif self.kind == "method":
            y = x.mul_(3)
        else:
            y = x[:, 0].mul_(3)
        return x + y if self.kind != "view" else x


@pytest.mark.parametrize("kind", ["module", "method"])
def test_changes_in_place_are_seen_by_what_follows(kind):
    x, theirs = torch.randn(3, 4), InPlace(kind)
    np.testing.assert_allclose(fr.from_torch(theirs)(x.numpy()).numpy(), theirs(x).numpy(), rtol=1e-6)


class Own(T.Module):
    def __init__(self, function=torch.special.i0):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Tied(T.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = T.Linear(2, 2), T.Linear(2, 2)
        self.b.weight = self.a.weight


def test_tied_parameters_stay_tied():
    theirs = Tied()
    ours = fr.from_torch(T.Sequential(theirs.a, T.ReLU(), theirs.b))
    assert [name for name, _ in ours.named_parameters()] == ["0.weight", "0.bias", "2.bias"]
    ours[0].weight = fr.zeros((2, 2))
    assert not np.asarray(ours[2].weight).any()


BAD = [
    (lambda: T.Sequential(T.ReLU(), Own()), TypeError, r"from_torch: 1 \(Own\), test_from_torch.py:\d+: `return self.function\(x\)`: \S*i0 is no function of Freight"),
    (lambda: T.Sequential(Own(lambda x: x if x.sum() > 0 else -x)), TypeError, r"from_torch: 0 \(Own\): torch.fx cannot trace its forward"),
    (lambda: Own(lambda x: T.functional.embedding(x, x, sparse=True)), ValueError, "embedding: expected sparse=False, got True"),
    (lambda: Own(lambda x: x.std(nothing=1)), TypeError, "std: got an unexpected keyword argument 'nothing'"),
    (lambda: InPlace("view"), TypeError, "changes a view of mul, which is read again"),
    (lambda: T.TransformerEncoderLayer(4, 2, activation=torch.tanh), ValueError, 'expected the activation "relu" or "gelu"'),
    (lambda: T.Sequential(T.Sequential(T.ReLU(), T.FractionalMaxPool2d(2, 1))), TypeError, r"from_torch: 0.1 \(FractionalMaxPool2d\) is no layer of freight.nn"),
    (lambda: T.Embedding(3, 2, sparse=True), ValueError, "expected sparse=False, got True"),
    (lambda: T.Upsample(scale_factor=2, recompute_scale_factor=True), ValueError, "expected recompute_scale_factor=None, got True"),
    (lambda: Own, TypeError, "from_torch: expected a torch.nn.Module, got type"),
]


@pytest.mark.parametrize("make, kind, text", BAD, ids=range(len(BAD)))
def test_what_is_missing_is_named(make, kind, text):
    with pytest.raises(kind, match=text):
        fr.from_torch(make())


def test_the_layers_are_those_of_freight():
    net = fr.from_torch(T.Sequential(T.Linear(2, 3), T.ReLU()))
    assert isinstance(net, nn.Sequential) and isinstance(net[0], nn.Linear) and net[0].in_features == 2


def test_an_empty_sequence_of_layers_is_the_identity():
    assert fr.from_torch(T.Sequential())(fr.asarray([1.0, 2.0])).tolist() == [1, 2]


class Tail(T.Module):
    def forward(self, x):
        return torch.narrow(x, 1, -2, 2) + torch.select(x, 1, -1)[:, None]


def test_traced_slices_may_start_from_the_end():
    x = torch.arange(12.0).reshape(3, 4)
    assert fr.from_torch(Tail())(fr.asarray(x)).tolist() == Tail()(x).tolist()


def test_parameters_of_other_types_become_float32_with_a_warning():
    with pytest.warns(UserWarning, match="from_torch: parameters of torch.float64 become float32"):
        layer = fr.from_torch(T.Linear(4, 2).double())
    assert layer.weight.dtype == fr.float32


class Classifier(torch.nn.Module):
    """A recurrent layer behind an embedding that knows padding, and one of other numbers."""

    def __init__(self, kind):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 12, padding_idx=0)
        self.layer = getattr(torch.nn, kind)(12, 8, batch_first=True)
        self.other = torch.nn.LSTM(12, 4, batch_first=True)

    def forward(self, x):
        e = self.embedding(x)
        return self.layer(e)[0][:, -1], self.other(torch.sin(e) + 1)[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_padding_of_an_embedding_ends_no_layer_of_a_forward(kind):
    torch.manual_seed(0)
    net, tokens = Classifier(kind), np.random.default_rng(0).integers(1, 20, (5, 7))
    tokens[:, 4:] = 0

    class Own(fr.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.layer = fr.nn.Embedding(20, 12, padding_idx=0), getattr(fr.nn, kind)(12, 8)
            self.other = fr.nn.LSTM(12, 4)

        def forward(self, x):
            e = self.embedding(x)
            return self.layer(e)[0][:, -1], self.other(fr.sin(e) + 1)[0]

    own = Own()
    own.load_state_dict(net.state_dict())
    for ours in (fr.from_torch(net), own):
        for found, expected in zip(ours(tokens), net(torch.tensor(tokens))):
            np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), atol=1e-5)
        for found, expected in zip(ours.predict(tokens), net(torch.tensor(tokens))):
            np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("longest", [6, 4])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_packed_sequences_are_padded_to_the_longest_whose_length_is_known(longest, value):
    class Padded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = torch.nn.GRU(4, 5, batch_first=True)

        def forward(self, x, lengths):
            packed = T.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, n = T.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, padding_value=value)
            return y, n

    theirs, x, lengths = Padded().eval(), torch.randn(3, 6, 4), torch.tensor([2, longest, 3])
    ours = fr.from_torch(theirs)
    y, n = ours(x.numpy(), lengths.numpy())
    expected, counts = theirs(x, lengths)
    assert y.shape == tuple(expected.shape) and n.tolist() == counts.tolist()
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"pad_packed_sequence: total_length: expected x.size\(1\) where a compiled function gets the lengths"):
        fr.jit(lambda x, n: ours(x, n))(fr.asarray(x.numpy()), fr.asarray(lengths.numpy()))
