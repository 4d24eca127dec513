"""Parts of networks that freight.from_torch has traced: called alone, replaced, made longer and shorter, as in PyTorch."""
import copy

import numpy as np
import pytest

import freight as fr
from freight import nn

torch = pytest.importorskip("torch")
T = torch.nn


class Block(T.Module):
    """A block with a forward of its own, a parameter of its own and a layer that works in place."""

    def __init__(self, width=6):
        super().__init__()
        self.fc, self.act, self.drop = T.Linear(width, width), T.ReLU(inplace=True), T.Dropout(0.0)
        self.scale = T.Parameter(torch.randn(width))
        self.register_buffer("shift", torch.randn(width))

    def forward(self, x):
        return x + self.drop(self.act(self.fc(x) * self.scale + self.shift))


class Path(T.Module):
    """Gives its input in evaluation."""

    def forward(self, x):
        return x * 2 if self.training else x


class Net(T.Module):
    def __init__(self):
        super().__init__()
        self.features = T.Sequential(T.Linear(4, 6), T.BatchNorm1d(6), T.ReLU(inplace=True))
        self.blocks = T.Sequential(Block(), Path(), Block())
        self.shared = Block()
        self.path = Path()
        self.classifier = T.Sequential(T.Linear(6, 8), T.Hardswish(), T.Linear(8, 5))

    def forward(self, x):
        x = self.blocks(self.features(x))
        return self.classifier(self.path(self.shared(self.shared(x))))


def longer(net, k):
    net.classifier = k.Sequential(k.Linear(6, 8), k.Hardswish(), k.Linear(8, 6), k.Tanh(), k.Linear(6, 5), k.Linear(5, 3))


def shorter(net, k):
    net.classifier = k.Sequential(k.Linear(6, 3))


def one_layer(net, k):
    net.classifier = k.Linear(6, 3)


def nothing(net, k):
    net.classifier, net.path = k.Identity(), k.Tanh()


def appended(net, k):
    net.features.append(k.Linear(6, 6))
    net.classifier.append(k.Tanh())


def inside(net, k):
    net.classifier[2] = k.Sequential(k.Linear(8, 4), k.Sigmoid())
    del net.features[2]


def blocks(net, k):
    net.blocks[0] = k.Sequential(k.Linear(6, 6), k.Tanh())
    net.blocks[1] = k.Softplus()
    net.blocks.append(net.shared)


def cut(net, k):
    net.blocks = net.blocks[:1]
    net.shared = k.Identity()


def layer_of_block(net, k):
    net.shared.act = k.Sequential(k.Tanh(), k.Linear(6, 6))
    net.blocks[2].drop = k.Linear(6, 6)


def taken_over(theirs, ours):
    """The same values in both."""
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()}, strict=False)


def compare(theirs, ours, x):
    """Values and gradients."""
    theirs.zero_grad()
    y = theirs(x)
    np.testing.assert_allclose(ours(x.numpy()).numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-5)
    weights = torch.randn(y.shape)
    (y * weights).sum().backward()
    _, grads = fr.value_and_grad(lambda net, x, w: fr.sum(net(x) * w))(ours, fr.asarray(x.numpy()), fr.asarray(weights.numpy()))
    found = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    assert found and set(found) <= set(grads)
    for name, grad in found.items():
        np.testing.assert_allclose(grads[name].numpy(), grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("change", [longer, shorter, one_layer, nothing, appended, inside, blocks, cut, layer_of_block])
def test_replaced_parts_run_as_in_pytorch(change, training, tmp_path):
    torch.manual_seed(0)
    theirs = Net()
    ours = fr.from_torch(theirs)
    assert set(ours.state_dict()) == {name for name in theirs.state_dict() if "num_batches" not in name}
    change(theirs, T)
    change(ours, nn)
    taken_over(theirs, ours)
    theirs.train(training)
    ours.train(training)
    x = torch.randn(7, 4)
    compare(theirs, ours, x)
    again = copy.deepcopy(ours)
    np.testing.assert_array_equal(again(x.numpy()).numpy(), ours(x.numpy()).numpy())
    assert ours.save(tmp_path / "net.safetensors", input_shape=(4,))
    read = fr.load(tmp_path / "net.safetensors")
    taken_over(theirs, read)  # running statistics have moved
    np.testing.assert_allclose(read(x.numpy()).numpy(), theirs.eval()(x).detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_parts_are_called_alone(training):
    theirs = Net().train(training)
    ours = fr.from_torch(theirs)
    for path, width in (("features", 4), ("blocks", 6), ("blocks.0", 6), ("blocks.1", 6), ("shared", 6), ("path", 6), ("classifier", 6),
                        ("blocks.2.fc", 6)):
        x = torch.randn(7, width)
        np.testing.assert_allclose(ours.get_submodule(path)(x.numpy()).numpy(), theirs.get_submodule(path)(x).detach().numpy(), rtol=1e-5,
                                   atol=1e-5, err_msg=path)
    compare(T.Sequential(theirs.features, theirs.blocks), nn.Sequential(ours.features, ours.blocks), torch.randn(7, 4))
    with pytest.raises(TypeError, match=r"Block: expected 1 inputs \(x\), got 2"):
        ours.shared(np.ones((2, 6), "f4"), 1)


def test_a_part_has_its_own_mode():
    theirs = Net()
    theirs.path.eval()
    theirs.blocks[1].eval()
    ours = fr.from_torch(theirs)
    compare(theirs, ours, torch.randn(7, 4))


class Listed(T.Module):
    """Goes through its parts one by one, and gives one of them a number."""

    def __init__(self):
        super().__init__()
        self.layers = T.ModuleList([T.Linear(4, 4), T.Linear(4, 4)])
        self.body = T.Sequential(T.Linear(4, 4), T.Tanh())
        self.scaled, self.pair = Scaled(), Pair()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for layer in self.body:
            x = layer(x)
        a, b = self.pair(x)
        return self.scaled(a, 3) - b


class Scaled(T.Module):
    def forward(self, x, by):
        return x * by


class Pair(T.Module):
    def __init__(self):
        super().__init__()
        self.fc = T.Linear(4, 4)

    def forward(self, x):
        return self.fc(x), x


class Children(T.ModuleDict):
    def forward(self, x):
        for layer in self.values():
            x = layer(x)
        return x


def put(path, make):
    def change(net):
        owner, _, name = path.rpartition(".")
        setattr(net.get_submodule(owner), name, make())
    return change


@pytest.mark.parametrize("change, text", [
    (lambda net: net.layers.append(nn.Linear(4, 4)), "Listed: layers (ModuleList) was traced with 2 modules (0, 1), which forward calls one by "
     "one: got 3 (0, 1, 2): expected each replaced in its place, or the change in torch, before from_torch"),
    (lambda net: net.layers.pop(), "layers (ModuleList) was traced with 2 modules"),
    (lambda net: net.body.append(nn.Tanh()), "body (Sequential) was traced with 2 modules (0, 1), which forward calls one by one: got 3"),
    (put("body", lambda: nn.Linear(4, 4)), "body (Sequential) was traced with 2 modules (0, 1), which forward calls one by one: got another"),
    (put("scaled", nn.Identity), "Listed: scaled (Scaled) cannot be replaced: from_torch has traced it together with what is around it: "),
    (put("pair", nn.Identity), "Listed: pair (Pair) cannot be replaced"),
])
def test_changes_that_cannot_be_followed_are_refused(change, text):
    theirs = Listed()
    ours = fr.from_torch(theirs)
    compare(theirs, ours, torch.randn(3, 4))
    change(ours)
    with pytest.raises(ValueError) as error:
        ours(np.ones((3, 4), "f4"))
    assert text in str(error.value)


def test_parts_of_lists_are_replaced_in_their_places():
    theirs = Listed()
    ours = fr.from_torch(theirs)
    for net, k in ((theirs, T), (ours, nn)):
        net.layers[1] = k.Sequential(k.Linear(4, 4), k.Tanh())
        net.body[1] = k.Sigmoid()
        net.pair.fc = k.Linear(4, 4)
    taken_over(theirs, ours)
    compare(theirs, ours, torch.randn(3, 4))
    with pytest.raises(TypeError, match="Pair: from_torch has traced this part together with what is around it: expected a call of that"):
        ours.pair(np.ones((3, 4), "f4"))


def test_a_class_that_is_a_list_refuses_more_parts():
    theirs = T.Sequential(Children({"a": T.Linear(4, 4)}), T.Tanh())
    ours = fr.from_torch(theirs)
    compare(theirs, ours, torch.randn(3, 4))
    ours.get_submodule("0").add_module("b", nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"Children.* was traced with 1 modules \(a\)"):
        ours(np.ones((3, 4), "f4"))


class InPlace(T.Module):
    """What a part changes or hands on is read again outside."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.act, self.path, self.fc = kind, T.Sequential(T.ReLU(inplace=True), T.Linear(4, 4)), Path(), T.Linear(4, 4)

    def forward(self, x):
        x = self.fc(x)
        if self.kind == "part":
            return self.act(x) + x
        y = self.path(x)
        torch.relu_(y if self.kind == "result" else x)
        return y + x


@pytest.mark.parametrize("kind", ["part", "result", "input"])
def test_changes_in_place_are_seen_outside_of_a_part(kind):
    theirs = InPlace(kind).eval()
    compare(theirs, fr.from_torch(theirs), torch.randn(3, 4))


class Auxiliary(T.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.aux = T.Linear(4, 4), Block(4)

    def forward(self, x):
        x = self.fc(x)
        return self.aux(x) if self.training else x


def test_a_part_of_training_alone():
    theirs = Auxiliary()
    ours = fr.from_torch(theirs)
    theirs.aux, ours.aux = T.Sequential(T.Linear(4, 4), T.Tanh()), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    taken_over(theirs, ours)
    compare(theirs, ours, torch.randn(3, 4))
    compare(theirs.eval(), ours.eval(), torch.randn(3, 4))
    with pytest.raises(TypeError, match="the network does not call this part in evaluation"):
        fr.from_torch(Auxiliary().eval()).aux(np.ones((2, 4), "f4"))
