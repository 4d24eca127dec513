"""freight.nn.functional, and the layers and losses made of it, next to PyTorch's."""
import pickle

import numpy as np
import pytest

import freight as fr
import freight.nn.functional as F
from freight import nn, optim

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 8, 6, 4)).astype("f4")  # (N, C, H, W)
V, W = RNG.normal(size=(2, 5, 6)).astype("f4")
P, Q = RNG.uniform(0.01, 0.99, size=(2, 5, 6)).astype("f4")
SIGNS = np.asarray([1, -1, -1, 1, 1], "f4")
CLASSES = np.asarray([0, 3, 5, -100, 2])
PERCLASS = RNG.uniform(0.5, 2, size=6).astype("f4")
BITS = (RNG.random((5, 6)) < 0.5).astype("f4")
COUNTS = RNG.integers(0, 6, size=(5, 6)).astype("f4")
# Masks of attention on X: a query of some sees no key.
SHOWN = [RNG.random(shape) < 0.6 for shape in ((6, 6), (3, 1, 1, 6), (3, 1, 6, 6), (1, 8, 6, 6), (3, 8, 6, 6))]
for shown in SHOWN:
    shown[..., -1, :] = shown.ndim == 4 and shown.shape[0] == 1

GRID = RNG.uniform(-1.6, 1.6, size=(3, 5, 7, 2)).astype("f4")
VOLUME, VOLUME_GRID = RNG.normal(size=(2, 3, 4, 5, 6)).astype("f4"), RNG.uniform(-1.6, 1.6, size=(2, 3, 6, 4, 3)).astype("f4")
TOKENS, BAGS = RNG.integers(0, 5, (4, 7)), RNG.integers(0, 5, 12)

# A name, and a function of torch.nn or freight.nn and of arrays, of which the first has a gradient.
CASES = [
    *[(f"pad_{mode}", lambda nn, x, m=mode: nn.functional.pad(x, (2, 1, 0, 3), mode=m), X) for mode in ("constant", "reflect", "replicate", "circular")],
    ("pad_crops", lambda nn, x: nn.functional.pad(x, (-1, 2, 1, -2), value=3.0), X),
    *[(name, lambda nn, x, name=name, s=settings: getattr(nn, name)(*s)(x), X) for name, *settings in [
        ("ZeroPad2d", 2), ("ConstantPad2d", (1, 0, 2, 1), 7.0), ("ReflectionPad2d", 2), ("ReplicationPad2d", (1, 2, 0, 3)), ("CircularPad2d", (1, 2, 3, 0)),
        ("PixelShuffle", 2), ("PixelUnshuffle", 2), ("ChannelShuffle", 4), ("Unfold", (3, 2), 1, (1, 0), 2), ("Unfold", 2, 2), ("LocalResponseNorm", 3),
        ("LocalResponseNorm", 4, 0.1, 0.5, 2.0), ("Softmax2d",), ("UpsamplingNearest2d", None, 2), ("UpsamplingBilinear2d", (9, 7)), ("Dropout2d", 0.0)]],
    ("rms_norm", lambda nn, x: nn.functional.rms_norm(x, x.shape[-2:], eps=1e-3), X), ("rms_norm_1", lambda nn, x: nn.functional.rms_norm(x, x.shape[-1:]), X),
    ("interpolate_size", lambda nn, x: nn.functional.interpolate(x, size=(5, 9)), X),
    ("interpolate_bilinear", lambda nn, x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), X),
    *[(f"interpolate_{'_'.join(map(str, kw.values()))}", lambda nn, x, kw=kw: nn.functional.interpolate(x, **kw), X) for kw in (
        {"scale_factor": 0.4, "mode": "area"}, {"size": (4, 9), "mode": "area"}, {"scale_factor": (1.7, 0.6), "mode": "nearest-exact"},
        {"size": (9, 3), "mode": "nearest-exact"}, {"size": (2, 7), "mode": "bilinear", "antialias": True},
        {"scale_factor": (0.4, 0.7), "mode": "bicubic", "antialias": True}, {"size": (3, 3), "mode": "bilinear", "antialias": True, "align_corners": True},
        {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}, {"scale_factor": (1.7, 0.6), "mode": "nearest"},
        {"scale_factor": (0.6, 2.3), "mode": "bilinear"}, {"scale_factor": (2, 3), "mode": "bilinear", "align_corners": True},
        {"scale_factor": (1.7, 0.6), "mode": "bicubic"}, {"scale_factor": (0.6, 2), "mode": "bicubic", "align_corners": True})],
    *[(f"Upsample_{mode}_{factor}", lambda nn, x, m=mode, f=factor: nn.Upsample(scale_factor=f, mode=m)(x), X)
      for mode in ("nearest", "bilinear", "area") for factor in (2, (1.7, 0.6))],
    *[(f"interpolate_trilinear_{'_'.join(map(str, kw.values()))}", lambda nn, x, kw=kw: nn.functional.interpolate(x, mode="trilinear", **kw), X.reshape(3, 2, 4, 6, 4))
      for kw in ({"scale_factor": (1.7, 0.6, 2.3)}, {"size": (7, 3, 1), "align_corners": True})],
    *[(f"grid_sample_{mode}_{padding}_{corners}_{'of_grid' if swapped else 'of_input'}",
       lambda nn, a, b, m=mode, p=padding, c=corners, s=swapped: nn.functional.grid_sample(*((b, a) if s else (a, b)), m, p, c), *((GRID, X) if swapped else (X, GRID)))
      for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (False, True)
      for swapped in (False, True) if mode != "nearest" or not swapped],
    *[(f"grid_sample_3d_{mode}", lambda nn, x, g, m=mode: nn.functional.grid_sample(x, g, m, "reflection", False), VOLUME, VOLUME_GRID)
      for mode in ("bilinear", "nearest")],
    *[(f"affine_grid_{len(size)}_{corners}", lambda nn, t, size=size, c=corners: nn.functional.affine_grid(t, size, c), V.reshape(-1)[:count].reshape(shape))
      for size, shape, count in (((2, 3, 5, 4), (2, 2, 3), 12), ((2, 3, 5, 4, 6), (2, 3, 4), 24)) for corners in (False, True)],
    ("fold", lambda nn, x: nn.functional.fold(x, (5, 7), (3, 2), 1, 1, 2), RNG.normal(size=(2, 18, 12)).astype("f4")),
    ("Fold", lambda nn, x: nn.Fold((5, 7), 2, dilation=2, stride=(1, 2))(x), RNG.normal(size=(2, 12, 9)).astype("f4")),
    *[(f"embedding_bag_{mode}_{padding}_{form}", lambda nn, w, *given, m=mode, p=padding: nn.functional.embedding_bag(*given[:1], w, *given[1:], mode=m, padding_idx=p), V, *given)
      for mode in ("mean", "sum", "max") for padding in (None, 2, -1) for form, *given in (("samples", TOKENS), ("offsets", BAGS, np.asarray([0, 3, 3, 9])))],
    ("embedding_bag_weighted", lambda nn, w, i, s: nn.functional.embedding_bag(i, w, mode="sum", per_sample_weights=s), V, TOKENS, (TOKENS / 3).astype("f4")),
    *[(f"pdist_{p}", lambda nn, x, p=p: nn.functional.pdist(x, p), V) for p in (1.0, 2.0, 3.0)],
    ("rrelu", lambda nn, x: nn.RReLU().eval()(x), X),
    ("triplet_by_distance", lambda nn, a, b, c: nn.TripletMarginWithDistanceLoss(swap=True)(a, b, c), V, W, P),
    ("cosine_similarity_broadcast", lambda nn, x, y: nn.functional.cosine_similarity(x, y, dim=-1), V, W[0]),
    ("rms_norm", lambda nn, x, w: nn.functional.rms_norm(x, (6,), w), V, PERCLASS),
    ("prelu", lambda nn, x, w: nn.functional.prelu(x, w), X, np.linspace(0.1, 0.8, 8, dtype="f4")),
    *[(name, lambda nn, x, name=name: getattr(nn.functional, name)(x), V) for name in (
        "relu6", "silu", "gelu", "elu", "celu", "selu", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink",
        "softplus", "softsign", "mish", "sigmoid", "logsigmoid", "tanh", "glu")],
    ("softmin", lambda nn, x: nn.functional.softmin(x, dim=1), V),
    ("softplus_beta", lambda nn, x: nn.functional.softplus(x, 2.0, 1.0), V),
    ("cosine_similarity", lambda nn, x, y: nn.CosineSimilarity()(x, y), V, W),
    ("pairwise_distance", lambda nn, x, y: nn.PairwiseDistance()(x, y), V, W),
    ("pairwise_distance_1", lambda nn, x, y: nn.functional.pairwise_distance(x, y, 1.0, keepdim=True), V, W),
    *[(f"pairwise_distance_{p}", lambda nn, x, y, p=p: nn.functional.pairwise_distance(x, y, p), V, W) for p in (3.0, float("inf"))],
    *[(f"normalize_{p}", lambda nn, x, p=p: nn.functional.normalize(x, p), V) for p in (1.0, 2.0, 3.0, float("inf"))],
    ("normalize_of_zeros", lambda nn, x: nn.functional.normalize(x), np.zeros((2, 3), "f4")),
    ("embedding_padded_at_the_end", lambda nn, w, i: nn.functional.embedding(i, w, padding_idx=-1), V, np.asarray([0, 4, 4, 2])),
    ("attention_without_heads", lambda nn, q, k: nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True), X[0], X[1]),
    ("attention_without_batch", lambda nn, q, k: nn.functional.scaled_dot_product_attention(q, k, k), V, W),
    ("attention_scale_0", lambda nn, q, k: nn.functional.scaled_dot_product_attention(q, k, k, scale=0.0), X, X[::-1].copy()),
    *[(f"attention_values_of_width_{n}", lambda nn, q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), X, X[::-1].copy(),
       RNG.normal(size=(3, 8, 6, n)).astype("f4")) for n in (2, 7)],
    *[(f"attention_{'_'.join(map(str, m.shape))}_{kind}", lambda nn, x, m: nn.functional.scaled_dot_product_attention(x, x * 0.5, x - 1, m), X, m)
      for shown in SHOWN for kind, m in (("shown", shown), ("added", np.where(shown, RNG.normal(size=shown.shape), -np.inf).astype("f4")))],
    ("attention_learned_mask", lambda nn, m, x: nn.functional.scaled_dot_product_attention(x, x, x, m), RNG.normal(size=(8, 6, 6)).astype("f4"), X),
    ("attention_of_grouped_heads", lambda nn, q, k: nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True), X, X[:, :2].copy()),
    *[(f"batch_norm_{len(shape)}", lambda nn, x, w, b: nn.functional.batch_norm(x, None, None, w, b, True), X.reshape(shape), PERCLASS, PERCLASS - 1)
      for shape in [(96, 6), (4, 6, 24), (4, 6, 8, 3)]],
    ("batch_norm_running", lambda nn, x, m, v: nn.functional.batch_norm(x, m, v, eps=0.1), V, PERCLASS - 1, PERCLASS),
    ("batch_norm_without_elements", lambda nn, x: nn.functional.batch_norm(x, None, None, training=True), np.zeros(0, "f4")),
    ("instance_norm", lambda nn, x, w: nn.functional.instance_norm(x, weight=w, bias=-w), X, np.linspace(0.1, 0.8, 8, dtype="f4")),
    *[(f"conv2d_same_{d}", lambda nn, x, w, d=d: nn.functional.conv2d(x, w, padding="same", dilation=d), X, X[:, :, :3, :2].copy()) for d in (1, (2, 3))],
    ("conv1d_valid", lambda nn, x, w: nn.functional.conv1d(x, w, padding="valid", stride=2), X[0], X[0, :4, :, :3].copy()),
    ("unfold_of_one_sample", lambda nn, x: nn.functional.unfold(x, (3, 2)), X[0]),
    ("CrossEntropyLoss", lambda nn, x, y: nn.CrossEntropyLoss()(x, y), V, CLASSES),
    ("CrossEntropyLoss_weight", lambda nn, x, y, w: nn.functional.cross_entropy(x, y, w, label_smoothing=0.1), V, CLASSES, PERCLASS),
    ("CrossEntropyLoss_shares", lambda nn, x, y: nn.CrossEntropyLoss()(x, y), V, P),
    ("NLLLoss", lambda nn, x, y: nn.NLLLoss(reduction="sum")(nn.functional.log_softmax(x, dim=1), y), V, CLASSES),
    *[(f"{name}_{reduction}", lambda nn, x, y, name=name, r=reduction: getattr(nn, name)(reduction=r)(x, y), V, W)
      for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss") for reduction in ("none", "mean", "sum")],
    *[(f"KLDivLoss_{r}", lambda nn, x, y, r=r: nn.KLDivLoss(reduction=r)(x, y), V, P) for r in ("batchmean", "sum", "mean")],
    *[(f"BCELoss_{r}", lambda nn, x, y, r=r: nn.BCELoss(reduction=r)(x, y), P, Q) for r in ("none", "mean", "sum")],
    ("BCELoss_weight", lambda nn, x, y, w: nn.functional.binary_cross_entropy(x, y, w), P, BITS, PERCLASS),
    ("BCELoss_edges", lambda nn, x, y: nn.BCELoss()(x, y), np.asarray([0, 1, 1e-30, 1], "f4"), np.asarray([0, 1, 1, 0], "f4")),
    ("BCEWithLogitsLoss", lambda nn, x, y, w: nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=w), V, BITS, PERCLASS),
    ("PoissonNLLLoss", lambda nn, x, y: nn.PoissonNLLLoss(full=True)(x, y), V, COUNTS),
    ("PoissonNLLLoss_rates", lambda nn, x, y: nn.PoissonNLLLoss(log_input=False)(x, y), P, COUNTS),
    ("GaussianNLLLoss", lambda nn, x, y, v: nn.GaussianNLLLoss(full=True)(x, y, v), V, W, P),
    ("SoftMarginLoss", lambda nn, x, y: nn.SoftMarginLoss()(x, y), V, 2 * BITS - 1),
    ("HingeEmbeddingLoss", lambda nn, x, y: nn.HingeEmbeddingLoss()(x, y), V, 2 * BITS - 1),
    ("MarginRankingLoss", lambda nn, x, y, t: nn.MarginRankingLoss(0.3)(x, y, t), V[:, 0], W[:, 0], SIGNS),
    ("CosineEmbeddingLoss", lambda nn, x, y, t: nn.CosineEmbeddingLoss(0.2)(x, y, t), V, W, SIGNS),
    ("TripletMarginLoss", lambda nn, x, y, z: nn.TripletMarginLoss(swap=True)(x, y, z), V, W, P),
    ("MultiLabelSoftMarginLoss", lambda nn, x, y: nn.MultiLabelSoftMarginLoss()(x, y), V, BITS),
    ("MultiMarginLoss", lambda nn, x, y: nn.MultiMarginLoss(p=2)(x, y), V, np.abs(CLASSES % 6)),
]


@pytest.mark.parametrize("name, function, arrays", [(name, function, arrays) for name, function, *arrays in CASES])
def test_values_and_gradients_are_pytorchs(name, function, arrays):
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(a) for a in arrays]
    theirs[0].requires_grad_(True)
    y = function(torch.nn, *theirs)
    seed = np.random.default_rng(1).normal(size=y.shape).astype("f4")
    (y * torch.tensor(seed)).sum().backward()
    ours = [fr.asarray(a) for a in arrays]
    np.testing.assert_allclose(np.asarray(function(nn, *ours)), y.detach().numpy(), rtol=2e-5, atol=1e-5)
    slope = fr.grad(lambda x: fr.sum(function(nn, x, *ours[1:]) * fr.asarray(seed)))(ours[0])
    np.testing.assert_allclose(np.asarray(slope), theirs[0].grad.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_is_pytorchs(reduction):
    torch = pytest.importorskip("torch")
    logits = RNG.normal(size=(12, 4, 5)).astype("f4")
    targets = np.asarray([[1, 2, 2, 4], [3, 3, 3, 0], [1, 0, 0, 0], [4, 3, 2, 1]])
    inputs, lengths = np.asarray([12, 9, 5, 10]), np.asarray([4, 3, 1, 4])
    theirs = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.CTCLoss(reduction=reduction)(theirs.log_softmax(2), torch.tensor(targets), torch.tensor(inputs), torch.tensor(lengths))
    expected.sum().backward()

    def loss(x):
        return nn.CTCLoss(reduction=reduction)(F.log_softmax(x, 2), fr.asarray(targets), fr.asarray(inputs), fr.asarray(lengths))

    np.testing.assert_allclose(np.asarray(loss(fr.asarray(logits))), expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(fr.grad(lambda x: fr.sum(loss(x)))(fr.asarray(logits))), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_ctc_of_impossible_targets_is_infinite_or_zero():
    x = fr.log_softmax(fr.zeros((2, 1, 3)), 2)  # two steps cannot have two equal classes, which need a blank in between
    values = [fr.sum(nn.CTCLoss(zero_infinity=z)(x, fr.asarray([[1, 1]]), fr.asarray([2]), fr.asarray([2]))).item() for z in (False, True)]
    assert values == [np.inf, 0]


def test_batch_norm_moves_the_running_statistics_of_arrays_and_buffers():
    torch = pytest.importorskip("torch")
    theirs, ours = [torch.zeros(6), torch.ones(6)], [fr.zeros(6), nn.Buffer(fr.ones(6))]
    for _ in range(2):
        torch.nn.functional.batch_norm(torch.tensor(V), *theirs, training=True, momentum=0.3)
        F.batch_norm(fr.asarray(V), *ours, training=True, momentum=0.3)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-5)
    with pytest.raises(TypeError, match="a host array cannot take a traced value"):
        fr.grad(lambda x: fr.sum(F.batch_norm(x, *ours, training=True)))(fr.asarray(V))


def test_dropout_of_attention_drops_weights():
    q = fr.asarray(X)
    y = np.asarray(F.scaled_dot_product_attention(q, q, fr.ones((3, 8, 6, 2)), dropout_p=0.5))
    assert y.shape == (3, 8, 6, 2) and (y[..., 0] == y[..., 1]).all() and y.std() > 0.1 and abs(y.mean() - 1) < 0.2


@pytest.mark.parametrize("p", [2, 3, 1.5, 0.5, 1, -1])
def test_the_norm_of_zeros_has_a_gradient_of_0(p):
    torch = pytest.importorskip("torch")
    x = np.asarray([[0, 0, 0], [3, 4, 0], [1, -2, 2]], "f4")
    theirs = torch.tensor(x, requires_grad=True)
    y = torch.linalg.vector_norm(theirs, p, dim=1)
    y.sum().backward()
    norm = lambda x: fr.linalg.vector_norm(x, axis=1, ord=p)  # noqa: E731
    for found in norm(fr.asarray(x)), fr.jit(norm)(fr.asarray(x)):
        np.testing.assert_allclose(np.asarray(found), y.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(fr.grad(lambda x: fr.sum(norm(x)))(fr.asarray(x))), theirs.grad.numpy(), rtol=1e-5)


def test_dropout_of_channels_drops_whole_channels_in_training_alone():
    layer, x = nn.Dropout2d(0.5), fr.ones((16, 32, 3, 3))
    y = np.asarray(layer(x))
    kept = y[:, :, 0, 0] != 0
    assert (y == np.where(kept, 2.0, 0.0)[:, :, None, None]).all() and 150 < kept.sum() < 360
    assert np.asarray(layer.eval()(x)).tolist() == np.asarray(x).tolist()
    with pytest.raises(ValueError, match="dropout2d: expected .N, C, .... with 2 axes behind the channels, got shape .3,."):
        layer.train()(fr.ones(3))


def test_errors_name_the_function_and_the_setting():
    x = fr.ones((1, 4, 3, 3))
    for call, message in [
            (lambda: F.pad(x, (3, 0), mode="reflect"), "axis 3 with 3 elements takes widths from 0 to 2, got .3, 0."),
            (lambda: F.pad(x, (1, 1), mode="reflect", value=3.0), "pad with mode 'reflect': expected value=None, got 3.0"),
            (lambda: F.embedding(fr.asarray([1]), fr.ones((3, 2)), sparse=True), "embedding: expected sparse=False, got True"),
            (lambda: F.embedding(fr.asarray([1]), fr.ones((3, 2)), padding_idx=3), "embedding: padding_idx: expected a row from -3 to 2, got 3"),
            (lambda: F.conv2d(x, x, padding="same", stride=2), "conv2d: padding .same. keeps the sizes: expected stride 1, got 2"),
            (lambda: F.gelu(x, "erf"), "gelu: approximate: expected .none. or .tanh., got .erf."),
            (lambda: F.max_pool2d(x, 2, stride=0), "max_pool2d: stride: expected numbers of at least 1, got 0"),
            (lambda: F.avg_pool2d(x, 2, divisor_override=0), "avg_pool2d: divisor_override: expected a number other than 0"),
            (lambda: F.unfold(x[0, 0], 2), "unfold: expected .N, C, H, W. or .C, H, W., got shape .3, 3."),
            (lambda: F.adaptive_max_pool2d(x[0, 0], 1, return_indices=True), "adaptive_max_pool2d: expected .* with 2 axes behind the channels"),
            (lambda: F.one_hot(fr.asarray([1]), 0), "one_hot: expected num_classes of at least 1, got 0"),
            (lambda: fr.jit(F.one_hot)(fr.asarray([1])), "one_hot: expected num_classes of at least 1, got -1"),
            (lambda: F.batch_norm(x, None, None), "batch_norm: expected running_mean and running_var with training=False, got None"),
            (lambda: F.batch_norm(x[0, 0, 0], None, None, training=True), "batch_norm: expected .N, C, ...., got shape .3,."),
            (lambda: F.instance_norm(x, use_input_stats=False), "instance_norm: expected running_mean and running_var with use_input_stats=False, got None"),
            (lambda: F.grid_sample(x, fr.ones((1, 2, 2, 3))), r"grid_sample: expected input \(N, C, H, W\) and grid"),
            (lambda: F.fold(fr.ones((1, 8, 5)), 3, 2), r"fold: expected \(N, C 4, 4\), got shape \(1, 8, 5\)"),
            (lambda: F.alpha_dropout(x, 1.0), "alpha_dropout: p: expected a probability"),
            (lambda: F.embedding_bag(fr.asarray([1]), x[0, 0]), r"embedding_bag: expected tokens \(N, T\) alone, or \(T,\) with offsets"),
            (lambda: F.interpolate(x, scale_factor=2, antialias=True), "interpolate: antialias: expected mode bilinear or bicubic, got 'nearest'"),
            (lambda: F.interpolate(x, 2, mode="trilinear"), "interpolate: mode 'trilinear': expected \\(N, C, ...\\) with 3 spatial axes"),
            (lambda: F.pad(x, (1,)), "pad: expected a pair of widths for each of at most 4 axes"),
            (lambda: F.pad(x, (1, 1), mode="wrap"), "pad: mode: expected"),
            (lambda: nn.ReflectionPad2d((1, 2))(x), "ReflectionPad2d: padding: expected a width or 4 of them, got .1, 2."),
            (lambda: F.pixel_shuffle(x, 3), "pixel_shuffle: expected channels that are a multiple of 9, got shape .1, 4, 3, 3."),
            (lambda: nn.BCELoss()(fr.ones(3), fr.ones((3, 1))), "binary_cross_entropy: expected targets of shape .3,., got .3, 1."),
            (lambda: nn.SoftMarginLoss(reduction="average")(x, x), "soft_margin_loss: reduction: expected .none., .mean. or .sum., got .average."),
            (lambda: F.unfold(x, 2, stride=0), "unfold: expected stride and dilation of at least 1, got 0 and 1"),
            (lambda: F.ctc_loss(x[0], fr.asarray([[1], [1], [2]]), [4, 5, 3], [1, 1, 1]), "ctc_loss: input_lengths: expected at most 4, got 5"),
            (lambda: F.ctc_loss(x[0], fr.asarray([[1], [1], [2]]), [4, 3, 3], [1, 2, 1]), "ctc_loss: target_lengths: expected at most 1, got 2"),
            (lambda: F.ctc_loss(x[0], fr.ones(3), 1, 1), "ctc_loss: expected log_probs .T, N, C. and targets .N, S.")]:
        with pytest.raises(ValueError, match=message):
            call()


def test_softmax_computes_in_the_type_that_is_given():
    x = fr.asarray([[1.0, 2.0]])
    assert {f(x, 1, dtype=fr.float64).dtype for f in (F.softmax, F.log_softmax, F.softmin)} == {fr.float64}


def test_layers_of_functions_train_pickle_and_print_like_others():
    net = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 8, 3), nn.PixelShuffle(2), nn.Dropout2d(0.1), nn.Flatten(), nn.Linear(128, 1), nn.Sigmoid())
    assert "(2): PixelShuffle(upscale_factor=2)" in repr(net) and "ReflectionPad2d(1)" in repr(net)
    x, y = fr.random.normal((8, 1, 4, 4)), fr.asarray([0.0, 1.0] * 4)
    optimizer = optim.Adam(net, lr=0.01)
    loss_of = nn.BCELoss()

    @fr.jit
    def step(x, y):
        loss, grads = fr.value_and_grad(lambda net, x, y: loss_of(net(x)[:, 0], y))(net, x, y)
        optimizer.update(grads)
        return loss

    losses = [step(x, y).item() for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    again = pickle.loads(pickle.dumps(net)).eval()
    np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(net.eval()(x)))
    history = net.fit(x, np.asarray(y)[:, None], loss=nn.BCELoss(), epochs=2, verbose=0)
    assert history.ended == "complete" and net.predict(x).shape == (8, 1)


def test_from_torch_knows_them():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.ReflectionPad2d(1), torch.nn.Conv2d(8, 16, 3), torch.nn.PixelShuffle(2), torch.nn.LocalResponseNorm(2),
                                 torch.nn.ConstantPad2d((1, 0, 0, 2), 3.0), torch.nn.Dropout2d(0.3), torch.nn.UpsamplingNearest2d(scale_factor=2)).eval()
    np.testing.assert_allclose(np.asarray(fr.from_torch(theirs)(fr.asarray(X))), theirs(torch.tensor(X)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_draws_have_their_distribution():
    fr.random.seed(0)
    chosen = np.asarray(F.gumbel_softmax(fr.asarray(np.tile(np.log([0.2, 0.3, 0.5]), (20000, 1)).astype("f4")), hard=True))
    np.testing.assert_allclose(chosen.mean(0), [0.2, 0.3, 0.5], atol=0.02)
    assert set(np.round(chosen.ravel(), 5)) == {0, 1}
    slope = fr.grad(lambda x: fr.sum(F.gumbel_softmax(x, hard=True) * fr.asarray([1.0, 2, 3])))(fr.zeros((4, 3)))
    assert np.asarray(slope).any(1).all()
    for dropped in (F.alpha_dropout(fr.random.normal((100000,)), 0.3), nn.FeatureAlphaDropout(0.3)(fr.random.normal((1000, 10, 10)))):
        assert abs(float(dropped.mean())) < 0.03 and abs(float(dropped.std()) - 1) < 0.03
    x = fr.random.normal((10, 3))
    assert nn.AlphaDropout(0.5).eval()(x).tolist() == x.tolist()
    slopes = np.asarray(nn.RReLU(0.1, 0.4)(-fr.ones(10000)))
    assert -0.4 <= slopes.min() < -0.39 and -0.11 < slopes.max() <= -0.1


def test_one_hot_has_as_many_classes_as_the_largest_names():
    assert F.one_hot(fr.asarray([[0, 2]])).tolist() == [[[1, 0, 0], [0, 0, 1]]]


def _foreign_cases():
    rng = np.random.default_rng(5)
    z, w, p = (rng.uniform(0.1, 0.9, (6, 3)).astype("f4") for _ in range(3))
    y, signs, image = np.array([0, 1, -100, 1, 0, 2]), np.where(w > 0.5, 1, -1).astype("f4"), rng.normal(size=(1, 1, 4, 4)).astype("f4")
    places = np.array([[[[0, 2], [8, 15]]]])
    return [
        ("cross_entropy", (z, y), {}), ("cross_entropy", (z, abs(y) % 3), {"ignore_index": 2, "weight": p[0]}), ("nll_loss", (-z, y), {}),
        ("cross_entropy", (z, p / p.sum(1, keepdims=True)), {}), ("binary_cross_entropy", (p, signs / 2 + 0.5, w), {}), ("mse_loss", (z, w), {}),
        ("kl_div", (z, w), {"reduction": "batchmean"}), ("poisson_nll_loss", (z, 4 * p), {"full": True}), ("gaussian_nll_loss", (z, w, p), {}),
        ("soft_margin_loss", (z, signs), {}), ("hinge_embedding_loss", (z, signs), {}), ("margin_ranking_loss", (z, w, signs), {}),
        ("cosine_embedding_loss", (z, w, signs[:, 0]), {}), ("triplet_margin_loss", (z, w, p), {}), ("multilabel_soft_margin_loss", (z, abs(signs)), {}),
        ("multilabel_margin_loss", (z, np.array([[0, 2, -1]] * 6)), {}), ("multi_margin_loss", (z, abs(y) % 3), {"weight": p[0]}),
        ("ctc_loss", (image[0].transpose(1, 0, 2), np.array([[1, 2]]), np.array([4]), np.array([2])), {}), ("one_hot", (abs(y) % 3,), {}),
        ("embedding", (abs(y) % 6, z), {}), ("embedding_bag", (abs(y).reshape(2, 3) % 6, z), {}), ("bilinear", (z, w, image[0, :, :3, :3]), {}),
        ("max_unpool2d", (image[:, :, :2, :2], places, 2), {}), ("linear", (z, w), {}), ("prelu", (z - 0.5, p[0]), {}), ("normalize", (z,), {}),
        ("scaled_dot_product_attention", (z[None], w[None], p[None]), {}), ("grid_sample", (image, np.zeros((1, 2, 2, 2), "f4")), {"align_corners": True}),
    ]


@pytest.mark.parametrize("kind", ["numpy", "torch", "list"])
@pytest.mark.parametrize("name, arguments, keywords", _foreign_cases())
def test_arrays_of_other_libraries_and_lists_are_arguments(name, arguments, keywords, kind):
    torch = pytest.importorskip("torch")
    given = {"numpy": lambda x: x, "torch": torch.from_numpy, "list": lambda x: x.tolist()}[kind]

    def made(function):
        return ([function(a) if isinstance(a, np.ndarray) else a for a in arguments],
                {k: function(a) if isinstance(a, np.ndarray) else a for k, a in keywords.items()})

    inputs, named = made(torch.from_numpy)
    expected = getattr(torch.nn.functional, name)(*inputs, **named).numpy()
    inputs, named = made(given)
    np.testing.assert_allclose(np.asarray(getattr(F, name)(*inputs, **named)), expected, rtol=1e-5, atol=1e-6)
    if np.issubdtype(arguments[0].dtype, np.floating):  # the other arguments are of the function that jit and grad trace
        x = fr.asarray(arguments[0])
        traced = fr.jit(lambda x: getattr(F, name)(x, *inputs[1:], **named))(x)
        np.testing.assert_allclose(np.asarray(traced), expected, rtol=1e-5, atol=1e-6)
        value, _ = fr.value_and_grad(lambda x: fr.sum(getattr(F, name)(x, *inputs[1:], **named)))(x)
        np.testing.assert_allclose(value.item(), expected.sum(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [{"scale_factor": 2, "mode": "trilinear"}, {"size": (8, 7, 9), "mode": "trilinear", "align_corners": True},
                                      {"scale_factor": 1.5, "mode": "nearest-exact"}, {"scale_factor": 2, "mode": "nearest"}], ids=str)
def test_upsample_has_pytorchs_modes_of_volumes(settings, tmp_path):
    torch = pytest.importorskip("torch")
    import copy

    axes = 5 if settings["mode"] != "nearest" else 4
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5, 6)[:axes]).astype("f4")
    theirs, net = torch.nn.Upsample(**settings), fr.nn.Sequential(fr.nn.Upsample(**settings))
    t = torch.tensor(x, requires_grad=True)
    y = theirs(t)
    (y ** 2).sum().backward()
    assert net.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    for ours in (net, fr.from_torch(torch.nn.Sequential(theirs)), copy.deepcopy(net), pickle.loads(pickle.dumps(net)), fr.load(tmp_path / "net.safetensors")):
        np.testing.assert_allclose(ours(x).numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fr.grad(lambda x: fr.sum(ours(x) ** 2))(fr.asarray(x)).numpy(), t.grad.numpy(), rtol=1e-4, atol=1e-4)
