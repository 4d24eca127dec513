"""nn.RNN, beside PyTorch's."""
import numpy as np
import pytest

import freight as fr
from freight import nn

torch = pytest.importorskip("torch")
T = torch.nn
SETTINGS = [{}, {"num_layers": 2, "nonlinearity": "relu"}, {"bidirectional": True, "bias": False}, {"num_layers": 3, "bidirectional": True},
            {"batch_first": False, "num_layers": 2}]


def made(settings):
    torch.manual_seed(0)
    theirs = T.RNN(4, 5, **{"batch_first": True, **settings})
    ours = fr.from_torch(theirs)
    assert isinstance(ours, nn.RNN)
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    return theirs, ours


def close(got, expected):
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_outputs_states_and_gradients_are_pytorchs(settings, compiled, begins):
    theirs, ours = made(settings)
    x = torch.randn(3, 6, 4, requires_grad=True)
    count = 6 if settings.get("batch_first") is False else 3
    h = torch.randn(theirs.num_layers * (1 + theirs.bidirectional), count, 5, requires_grad=True) if begins else None
    y, last = theirs(x, h)
    weights = torch.randn(y.shape), torch.randn(last.shape)
    ((y * weights[0]).sum() + (last * weights[1]).sum()).backward()

    def loss(net, x, h, a, b):
        y, last = net(x) if h is None else net(x, h)
        return fr.sum(y * a) + fr.sum(last * b)

    given = [None if t is None else fr.asarray(t.detach().numpy()) for t in (x, h, *weights)]
    output, state = ours(given[0], given[1])
    close(output, y)
    close(state, last)
    gradients = fr.grad(loss, argnums=(0, 1, 2) if begins else (0, 1))
    grads, dx, *dh = (fr.jit(lambda *a: gradients(ours, *a)) if compiled else lambda *a: gradients(ours, *a))(*given)
    close(dx, x.grad)
    if begins:
        close(dh[0], h.grad)
    for name, p in theirs.named_parameters():
        close(grads[name], p.grad)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_lengths_are_those_of_packed_sequences(settings):
    theirs, ours = made(settings)
    first = theirs.batch_first
    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    x = x if first else x.transpose(0, 1).contiguous()
    packed = T.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    y, last = theirs(packed)
    y, _ = T.utils.rnn.pad_packed_sequence(y, batch_first=first)
    output, state = ours(x.numpy(), lengths=lengths.numpy())
    close(output, y)
    close(state, last)


def test_a_sample_without_a_batch_and_dropout_between_layers():
    theirs, ours = made({"num_layers": 2})
    x, h = torch.randn(6, 4), torch.randn(2, 5)
    y, last = theirs(x, h)
    output, state = ours(x.numpy(), h.numpy())
    close(output, y)
    close(state, last)
    net = nn.RNN(4, 5, 2, dropout=1.0)
    fixed = net(fr.ones((2, 3, 4)))[0].numpy()
    assert not np.allclose(fixed, net.eval()(fr.ones((2, 3, 4)))[0].numpy())
    np.testing.assert_array_equal(fixed, net.train()(fr.ones((2, 3, 4)) * 2)[0].numpy())  # nothing comes from the first layer


class Text(T.Module):
    def __init__(self):
        super().__init__()
        self.words, self.states, self.classes = T.Embedding(20, 4), T.RNN(4, 5), T.Linear(5, 3)

    def forward(self, tokens):
        y, h = self.states(self.words(tokens).transpose(0, 1))
        return self.classes(y[-1] + h[0])


def test_networks_with_it_are_converted_and_trained():
    torch.manual_seed(0)
    theirs, tokens = Text(), torch.randint(0, 20, (8, 7))
    ours = fr.from_torch(theirs)
    close(ours.eval()(tokens.numpy()), theirs(tokens))
    x = np.random.default_rng(0).integers(0, 20, (256, 7))
    history = ours.fit(x, (x[:, -1] > 9).astype("i8"), epochs=15, lr=0.01, optimizer="adamw", verbose=0)
    assert history.history["accuracy"][-1] > 0.9


@pytest.mark.parametrize("arguments, text", [
    ({"nonlinearity": "sigmoid"}, 'RNN: nonlinearity: expected "tanh" or "relu"'), ({"num_layers": 0}, "RNN: num_layers: expected a number of at least 1"),
    ({"dropout": 1.5}, "RNN: dropout: expected a probability, got 1.5")])
def test_settings_that_cannot_be_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        nn.RNN(4, 5, **arguments)


def test_states_and_lengths_that_do_not_fit_are_refused():
    net = nn.RNN(4, 5)
    with pytest.raises(ValueError, match=r"RNN: expected a state of shape \(1, 2, 5\), got \(2, 5\)"):
        net(fr.ones((2, 3, 4)), fr.ones((2, 5)))
    with pytest.raises(ValueError, match=r"RNN: lengths: expected integers of shape \(2,\)"):
        net(fr.ones((2, 3, 4)), lengths=fr.ones(2))
