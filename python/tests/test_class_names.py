"""The names of a module's outputs: over several fits, with missing classes and with another head, and in files."""
import numpy as np
import pytest

import freight as fr
from freight import nn

R = np.random.default_rng(0)
CODES = np.arange(90) % 3
X = R.normal(size=(90, 4)).astype("f4")
X[:, 0] += 5 * CODES
NAMES = np.array(["cat", "dog", "owl"])[CODES]
SOME = CODES != 1


def fitted(net, x=X, y=NAMES):
    net.fit(x, y, epochs=60, lr=0.1, verbose=0)
    return net


def test_names_of_outputs_stay_where_a_class_is_missing_in_further_data(tmp_path):
    net = fitted(nn.Linear(4, 3))
    right = net.evaluate(X[SOME], NAMES[SOME])["accuracy"]
    history = net.fit(X[SOME], NAMES[SOME], epochs=1, batch_size=60, lr=1e-12, verbose=0, validation_data=(X, NAMES)).history
    assert net.classes == ["cat", "dog", "owl"] and right > 0.9
    np.testing.assert_allclose([history["accuracy"][0], net.evaluate(X[SOME], NAMES[SOME])["accuracy"]], right, rtol=1e-6)
    net.fit(X, CODES, lr=1e-12, verbose=0)
    assert net.classes == ["cat", "dog", "owl"]
    net.save(tmp_path / "net.safetensors")
    assert fr.load(tmp_path / "net.safetensors").classes == net.classes
    assert fitted(net, y=np.array(["x", "y", "z"])[CODES]).classes == ["x", "y", "z"]


def test_fewer_classes_than_outputs_are_refused_or_named_by_the_program(tmp_path):
    net = nn.Linear(4, 3)
    with pytest.raises(ValueError, match="fit: y: expected as many classes as outputs, 3, got 2, cat, owl: of more outputs assign Linear.classes"):
        net.fit(X[SOME], NAMES[SOME], verbose=0)
    net.classes = ["cat", "dog", "owl"]
    assert fitted(net, X[SOME], NAMES[SOME]).classes == ["cat", "dog", "owl"]
    assert set(np.array(net.classes)[net.predict(X[SOME]).numpy().argmax(1)]) == {"cat", "owl"}


def test_names_of_another_head_are_dropped(tmp_path):
    net = fitted(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)))
    net[1] = nn.Linear(8, 2)
    with pytest.warns(UserWarning, match="save: the file has no names of classes: there are 3, and another number of outputs"):
        assert net.save(tmp_path / "net.safetensors")
    assert fr.load(tmp_path / "net.safetensors").classes == []
    net = fitted(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)))
    net[1] = nn.Linear(8, 2)
    assert fitted(net, X[SOME], NAMES[SOME]).classes == ["cat", "owl"]
    assert net.evaluate(X[SOME], NAMES[SOME])["accuracy"] > 0.9


class OfTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x, z):
        return self.a(x) * z


@pytest.mark.parametrize("form", [tuple, lambda pair: dict(zip("xz", pair))], ids=["tuple", "dict"])
def test_networks_of_several_inputs_have_names_of_classes(tmp_path, form):
    x, z = np.random.default_rng(0).normal(size=(64, 3)).astype("f4"), np.ones((64, 1), "f4")
    y = np.array(["ham", "spam"])[(x[:, 0] > 0).astype(int)]
    net = OfTwo()
    net.fit(form((x, z)), y, verbose=0, epochs=5, lr=0.1)
    assert net.classes == ["ham", "spam"]
    part = y == "spam"
    right = net.evaluate(form((x[part], z[part])), y[part])["accuracy"]
    assert right == pytest.approx((np.asarray(net.predict(form((x[part], z[part])))).argmax(1) == 1).mean())
    net.save(tmp_path / "net.safetensors")
    again = fr.load(tmp_path / "net.safetensors")
    assert again.classes == ["ham", "spam"]
    again.classes = ["good", "bad"]
    assert again.classes == ["good", "bad"] and net.classes == ["ham", "spam"]
    with pytest.raises(AttributeError, match="has no attribute 'classes'|has no 'classes'"):
        OfTwo().classes
