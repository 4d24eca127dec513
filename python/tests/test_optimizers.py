"""Optimizers: PyTorch's values step by step, and parameters that have no gradient."""
import numpy as np
import pytest
from test_fit import chain, fit

import freight as f
from freight import nn, optim

# Parameters behind steps 1, 2 and 5 by PyTorch 2.15 in f64, with the gradients that `gradient` gives.
PYTORCH = [
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.5),
     [[0.54, -1.02, 1.995, 0.2475, -0.5925, 1.41], [0.5808, -1.0379, 1.983025, 0.2440125, -0.4227875, 1.30945], [0.563072434, -0.985383611, 1.865196279, 0.228750746, -0.334349095, 1.196552903]]),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
     [[0.535, -1.01, 1.975, 0.245, -0.585, 1.395], [0.56994, -1.01084, 1.9249, 0.23658, -0.38714, 1.25818], [0.443177515, -0.816936322, 1.581808614, 0.195556742, -0.413123458, 1.086567068]]),
    ("SGD", dict(lr=0.1, momentum=0.5, maximize=True, nesterov=True),
     [[0.44, -0.97, 2.0075, 0.25375, -0.98625, 1.635], [0.4141, -0.96455, 2.0313625, 0.25818125, -1.11541875, 1.719525], [0.643119439, -1.157553401, 2.218592694, 0.273302666, -0.498194305, 1.478959148]]),
    ("Adagrad", dict(lr=0.1),
     [[0.6, -1.1, 1.9, 0.15, -0.65, 1.4], [0.621951219, -1.095006238, 1.805825809, 0.098550425, -0.616233887, 1.360239256], [0.426094164, -0.864800993, 1.575662318, 0.031127672, -0.778846283, 1.493501323]]),
    ("Adagrad", dict(lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.3),
     [[0.553846154, -1.01796053, 1.95847726, 0.240909091, -0.655092444, 1.411337931], [0.558866604, -1.00271738, 1.917345786, 0.233636668, -0.626660645, 1.377175826], [0.455183176, -0.895165407, 1.815746615, 0.218062596, -0.717138709, 1.429157391]]),
    ("NAdam", dict(lr=0.1),
     [[0.605645176, -1.105645174, 1.894354842, 0.144354863, -0.644354822, 1.394354822], [0.634612605, -1.106428563, 1.793856212, 0.086620304, -0.603148494, 1.347050802], [0.394661443, -0.818457797, 1.48733584, -0.004066876, -0.797625033, 1.50192735]]),
    ("NAdam", dict(lr=0.05, betas=(0.8, 0.9), weight_decay=0.1, momentum_decay=0.1),
     [[0.554811839, -1.054811835, 1.945188162, 0.195188171, -0.69518816, 1.44518816], [0.566241475, -1.016243468, 1.897193972, 0.156318408, -0.669719124, 1.41455981], [0.421742118, -0.845249578, 1.744309519, 0.061193028, -0.768829792, 1.470512076]]),
    ("NAdam", dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
     [[0.550322588, -1.047822587, 1.937177421, 0.195927432, -0.693427411, 1.439677411], [0.562714298, -1.044486513, 1.877105283, 0.160226607, -0.669224408, 1.408629456], [0.435716959, -0.885946008, 1.696341147, 0.076646222, -0.755858899, 1.464203786]]),
    ("Adam", dict(lr=0.1, betas=(0.5, 0.6), amsgrad=True, weight_decay=0.1),
     [[0.599999997, -1.09999999, 1.900000004, 0.15000002, -0.650000001, 1.400000001], [0.649391761, -1.0586713, 1.799721101, 0.057239892, -0.575638563, 1.315271039], [0.432600657, -0.781775768, 1.495558942, -0.037890711, -0.703395785, 1.365853548]]),
    ("AdamW", dict(lr=0.1, betas=(0.5, 0.6), amsgrad=True, weight_decay=0.1),
     [[0.594999998, -1.089999995, 1.88000002, 0.14750004, -0.642500001, 1.385000001], [0.650292773, -1.117468962, 1.765301082, 0.054108202, -0.563700672, 1.292584971], [0.450855504, -0.850114531, 1.417622076, -0.037386788, -0.684505445, 1.352647032]]),
    ("Adam", dict(lr=0.1, maximize=True, weight_decay=0.1),
     [[0.400000002, -0.900000003, 1.900000007, 0.25, -0.849999999, 1.599999999], [0.31289361, -0.812893612, 1.812893619, 0.25, -0.937106394, 1.687106392], [0.327012793, -0.827012796, 1.827012803, 0.25, -0.92298721, 1.672987209]]),
    ("RMSprop", dict(lr=0.01, momentum=0.5, centered=True, maximize=True, weight_decay=0.1),
     [[0.399496241, -0.899496252, 1.899496286, 0.25, -0.850503775, 1.600503768], [0.317222664, -0.817222684, 1.817222745, 0.25, -0.932777365, 1.682777353], [0.475217353, -0.975217364, 1.975217398, 0.25, -0.774782663, 1.524782656]]),
    ("Adagrad", dict(lr=0.1, maximize=True, weight_decay=0.1),
     [[0.4, -0.9, 1.9, 0.25, -0.85, 1.6], [0.368377223, -0.868377223, 1.868377223, 0.25, -0.881622777, 1.631622777], [0.540145996, -1.040145996, 2.040145996, 0.25, -0.709854004, 1.459854004]]),
]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(f.asarray([[0.5, -1.0, 2.0], [0.25, -0.75, 1.5]]))

    def forward(self, x):
        return x @ self.w


def gradient(step, w):
    return f.asarray([[0.3, -0.2, 0.1], [0.0, 1.0, -0.5]]) * (step - 1.5) + w * 0.1


@pytest.mark.parametrize("kind, settings, wanted", PYTORCH, ids=lambda v: str(v) if not isinstance(v, list) else "")
def test_steps_are_those_of_pytorch(kind, settings, wanted):
    for compiled in (False, True):
        net = Net()
        optimizer = getattr(optim, kind)(net, **settings)

        def update(step):
            optimizer.update({"w": gradient(step, net.w)})

        if compiled:
            update = f.jit(update)
        found = []
        for step in range(5):
            update(f.asarray(float(step)))
            found.append(net.w.numpy().ravel())
        assert np.allclose([found[0], found[1], found[4]], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind, settings", [(kind, settings) for kind, settings, _ in PYTORCH], ids=str)
def test_states_that_are_taken_back_lead_to_the_same_bits(kind, settings):
    whole, parts = Net(), Net()
    of_whole, of_parts = (getattr(optim, kind)(net, **settings) for net in (whole, parts))
    for step in range(6):
        of_whole.update([gradient(step, whole.w)])
        if step == 3:
            states = of_parts.state_dict()
            of_parts = getattr(optim, kind)(parts, **settings)
            of_parts.load_state_dict(states)
        of_parts.update([gradient(step, parts.w)])
    assert np.array_equal(whole.w, parts.w)


def test_positions_of_settings_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    import inspect

    for kind in ("SGD", "Adam", "AdamW", "NAdam", "Adagrad", "RMSprop"):
        theirs = [p.name for p in inspect.signature(getattr(torch.optim, kind)).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        ours = list(inspect.signature(getattr(optim, kind)).parameters)
        ours = ours[:ours.index("clip_grad_norm")]  # the others are Freight's, or say how PyTorch computes
        assert ours == theirs[:len(ours)]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x), self.b(x)


X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = X[:, :2] * 2


@pytest.mark.parametrize("settings", [
    {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1, "clip_grad_norm": 1.0}, {"grad_accum": 2, "weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "model_ema": 0.9}, {"precision": "fp16", "weight_decay": 0.1}, {"devices": 2, "weight_decay": 0.1}], ids=str)
def test_fit_leaves_alone_what_the_loss_does_not_use(settings, tmp_path):
    f.random.seed(1)
    net, other = TwoHeads(), nn.Linear(3, 2)
    other.load_state_dict(net.a.state_dict())
    before = net.b.weight.numpy(), net.b.bias.numpy()
    with pytest.warns(UserWarning, match="fit: the loss does not use, and training does not change: b.weight, b.bias"):
        history = net.fit(X, Y, loss=lambda o, t: f.mse_loss(o[0], t), batch_size=4, epochs=3, lr=0.05, seed=2, verbose=0, **settings)
    assert np.array_equal(net.b.weight, before[0]) and np.array_equal(net.b.bias, before[1])
    assert history.history["loss"][-1] < history.history["loss"][0] and all(p.requires_grad for p in net.parameters())
    other.fit(X, Y, loss=lambda o, t: f.mse_loss(o, t), batch_size=4, epochs=3, lr=0.05, seed=2, verbose=0, **settings)
    assert np.allclose(net.a.weight, other.weight, rtol=1e-5, atol=1e-6)


def test_fit_of_a_loss_that_uses_no_parameter_is_an_error():
    with pytest.raises(ValueError, match="the loss does not depend on parameter 'a.weight'"):
        TwoHeads().fit(X, Y, loss=lambda o, t: f.mean(t) + 0 * f.mean(f.stop_gradient(o[0])), verbose=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_update_leaves_alone_what_has_no_gradient(compiled):
    net = TwoHeads()
    before = net.b.weight.numpy()
    optimizer = optim.AdamW(net, lr=0.1, weight_decay=0.5)

    def step(x, y):
        loss, grads = f.value_and_grad(lambda net: f.mse_loss(net(x)[0], y))(net)
        assert grads["b.weight"] is None and grads["a.weight"] is not None
        optimizer.update(grads)
        return loss

    step = f.jit(step) if compiled else step
    losses = [step(f.asarray(X), f.asarray(Y)).item() for _ in range(20)]
    assert losses[-1] < losses[0] and np.array_equal(net.b.weight, before) and not np.array_equal(net.a.weight, before)
    unused = f.grad(lambda x, y: f.sum(x), argnums=(0, 1))(f.ones(2), f.ones(3))
    assert unused[1].tolist() == [0, 0, 0]  # of arrays
    with pytest.raises(TypeError, match="update: expected gradients as freight.Array, or None, got str"):
        optimizer.update({"a.weight": "x", "a.bias": None, "b.weight": None, "b.bias": None})


def test_gradients_of_a_frozen_network_are_an_error_that_says_so():
    net = nn.Linear(3, 2).requires_grad_(False)
    with pytest.raises(ValueError, match=r"grad: Linear has no trained parameters: .*requires_grad_\(True\)"):
        f.value_and_grad(lambda net: f.sum(net(f.ones((1, 3)))))(net)


def autoencoder():
    f.random.seed(3)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            self.dec = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

        def forward(self, x):
            return self.dec(self.enc(x))

    return Net()


def codes(net, x):
    return nn.Sequential(net.enc)(x)  # a second module of the same layers, under names of its own


@pytest.mark.parametrize("look", [lambda net, x: None, codes, lambda net, x: net.enc[1:].requires_grad_(True)])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_reach_their_parameters_where_another_module_shares_the_layers(look, compiled):
    x = f.asarray(np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3))
    expected, net = autoencoder(), autoencoder()
    net.load_state_dict(expected.state_dict())  # drawn before another module of the same layers draws in its order
    whole = optim.SGD([{"params": expected.enc.parameters(), "lr": 0.01}, {"params": expected.dec.parameters()}], lr=0.1)
    parts = optim.SGD([{"params": net.dec.parameters()}, {"params": net.enc.parameters(), "lr": 0.01}], lr=0.1)

    def step(optimizer, net):
        def loss(net):
            return f.mean((net(x) - x) ** 2)

        value, grads = f.value_and_grad(loss)(net)
        optimizer.update(grads)
        return value

    run = f.jit(lambda: step(parts, net)) if compiled else lambda: step(parts, net)
    for _ in range(3):
        look(net, x)
        assert float(step(whole, expected)) == pytest.approx(float(run()), rel=1e-5)
        look(net, x)
    for name, value in expected.state_dict().items():
        np.testing.assert_allclose(net.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_two_optimizers_take_their_parameters_of_the_same_gradients():
    x = f.asarray(np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3))
    one, two = autoencoder(), autoencoder()
    whole, dec, enc = optim.SGD(one, lr=0.1), optim.SGD(two.dec, lr=0.1), optim.SGD(two.enc, lr=0.1)
    for _ in range(2):
        whole.update(f.grad(lambda net: f.mean(net(x) ** 2))(one))
        grads = f.grad(lambda net: f.mean(net(x) ** 2))(two)
        dec.update(grads)
        enc.update(grads)
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(two.state_dict()[name].numpy(), value.numpy(), err_msg=name)
    with pytest.raises(ValueError, match="expected a gradient for each of 4 parameters, got 8"):
        dec.update([*grads.values()])


def test_groups_without_a_rate_of_their_own_can_get_one():
    def made(**more):
        f.random.seed(3)
        net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
        groups = [{"params": net[0].parameters(), "name": "body", **more}, {"params": net[1].parameters(), "name": "head"}]
        return net, optim.SGD(groups, lr=0.1, momentum=0.9)

    def trained(net, optimizer, steps=3):
        for _ in range(steps):
            optimizer.update(f.grad(lambda net: f.mean(net(f.ones((3, 4))) ** 2))(net))
        return [v.numpy() for v in net.state_dict().values()]

    net, optimizer = made()
    optimizer.group_lr("body", 0.02)
    assert (optimizer.group_lr("body"), optimizer.group_lr("head"), optimizer.lr) == (pytest.approx(0.02), 0.1, 0.1)
    for ours, own in zip(trained(net, optimizer), trained(*made(lr=0.02))):
        np.testing.assert_allclose(ours, own, rtol=1e-6)
    optimizer.lr = 0.2
    assert optimizer.group_lr("body") == pytest.approx(0.04)
    again = made()[1]
    again.load_state_dict({k: v for k, v in made()[1].state_dict().items() if not k.startswith("lr_ratio.")})  # as earlier versions had it
    assert again.group_lr("body") == 0.1


def test_parameters_may_be_given_by_the_attributes_of_modules():
    """As PyTorch's groups are written."""
    def trained(groups):
        f.random.seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        net(np.zeros((1, 3), "f4"))
        optimizer = optim.SGD(groups(net), lr=0.1)
        x = np.arange(6, dtype="f4").reshape(2, 3)
        optimizer.update(f.value_and_grad(lambda net: f.mean(net(x) ** 2))(net)[1])
        return {name: value.tolist() for name, value in net.state_dict().items()}

    def by_attributes(net):
        return [{"params": [net[0].weight, net[1].weight], "weight_decay": 0.5}, {"params": (net[0].bias, net[1].bias), "lr": 0.01}]

    def by_parameters(net):
        parts = dict(net.named_parameters())
        return [{"params": [parts["0.weight"], parts["1.weight"]], "weight_decay": 0.5}, {"params": [parts["0.bias"], parts["1.bias"]], "lr": 0.01}]

    assert trained(by_attributes) == trained(by_parameters)
    with pytest.raises(TypeError, match="SGD: expected modules or their parameters"):
        optim.SGD([f.zeros(3)], lr=0.1)


def test_parts_that_one_fit_freezes_are_trained_by_the_next():
    net = chain()
    net.get_parameter("0.bias").requires_grad = False
    before = {name: p.requires_grad for name, p in net.named_parameters()}
    fit(net, freeze="backbone", epochs=1)
    assert {name: p.requires_grad for name, p in net.named_parameters()} == before
    first = net[0].weight.numpy().copy()
    fit(net, epochs=1)
    assert np.abs(net[0].weight.numpy() - first).max() > 1e-4


@pytest.mark.parametrize("names, text", [(["foo", "bar"], "expected gradients of weight, bias, got foo, bar: 'weight' has none"),
                                         (["Weight", "bias"], "'weight' has none"), (["weight"], "'bias' has none"),
                                         (["weight", "bias", "other"], "they are of another module")])
def test_gradients_of_other_names_are_refused(names, text):
    net = nn.Linear(3, 3)
    before = net.weight.numpy()
    with pytest.raises(ValueError, match=text):
        optim.SGD(net, lr=1.0).update({name: f.ones(3) if "b" in name else f.ones((3, 3)) for name in names})
    np.testing.assert_array_equal(net.weight.numpy(), before)
    optim.SGD(net, lr=1.0).update([f.ones((3, 3)), f.ones(3)])
    np.testing.assert_allclose(net.weight.numpy(), before - 1, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make, name", [(optim.SGD, "weight_decay"), (optim.SGD, "momentum"), (optim.AdamW, "betas"), (optim.Adam, "eps")])
def test_settings_of_an_optimizer_cannot_be_set_behind_its_back(make, name):
    optimizer = make(nn.Linear(3, 3), lr=0.1)
    with pytest.raises(AttributeError, match=f"{make.__name__}: {name} cannot be set: make another optimizer"):
        setattr(optimizer, name, 0.5)
    optimizer.lr = 0.2
    assert optimizer.lr == 0.2


def test_a_parameter_of_a_layer_cannot_be_removed():
    with pytest.raises(AttributeError, match="Linear: bias cannot be removed: make another layer without it"):
        nn.Linear(3, 3).bias = None
