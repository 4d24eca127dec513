"""freight.from_torch: networks of PyTorch's layers, with their outputs and gradients."""
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


def test_embeddings_and_layers_with_states():
    tokens = torch.tensor([[1, 2, 0], [3, 0, 0]])
    theirs = T.Embedding(5, 3, padding_idx=0)
    np.testing.assert_array_equal(fr.from_torch(theirs)(tokens.numpy()).numpy(), theirs(tokens).detach().numpy())
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


class Own(T.Module):
    def forward(self, x):
        return x


BAD = [
    (lambda: T.Sequential(T.ReLU(), Own()), TypeError, r"from_torch: 1 \(Own\) has a forward of its own"),
    (lambda: T.Sequential(T.Sequential(T.ReLU(), T.CELU())), TypeError, r"from_torch: 0.1 \(CELU\) is no layer of freight.nn"),
    (lambda: T.LSTM(2, 2), ValueError, r"the module \(LSTM\): expected batch_first=True, got False"),
    (lambda: T.BatchNorm1d(2, affine=False), ValueError, "expected affine=True, got False"),
    (lambda: T.Conv2d(1, 1, 3, padding_mode="reflect"), ValueError, "expected padding_mode='zeros', got 'reflect'"),
    (lambda: T.Conv2d(1, 1, 3, padding="same"), ValueError, "expected a number for padding, got 'same'"),
    (lambda: T.LayerNorm(3, bias=False), RuntimeError, "bias"),
]


@pytest.mark.parametrize("make, kind, text", BAD, ids=range(len(BAD)))
def test_what_is_missing_is_named(make, kind, text):
    with pytest.raises(kind, match=text):
        fr.from_torch(make())


def test_the_layers_are_those_of_freight():
    net = fr.from_torch(T.Sequential(T.Linear(2, 3), T.ReLU()))
    assert isinstance(net, nn.Sequential) and isinstance(net[0], nn.Linear) and net[0].in_features == 2
