"""Networks of Python's layers, and of those that from_torch has traced, in files: freight.load makes them again, without torch."""
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import freight as fr
from freight import nn

RNG = np.random.default_rng(0)

NETS = {
    "volumes": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3, padding="same"), nn.BatchNorm3d(4), nn.MaxPool3d(2), nn.ConvTranspose3d(4, 2, 2, bias=False),
                                      nn.AdaptiveAvgPool3d((2, None, 1)), nn.Flatten(), nn.Linear(12, 3)), (2, 4, 4, 6)),
    "settings": (lambda: nn.Sequential({"pad": nn.ReflectionPad1d((1, 2)), "conv": nn.Conv1d(2, 3, 3, padding="same"),
                                        "norm": nn.LocalResponseNorm(3), "more": nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Dropout1d(0.3)),
                                        "last": nn.LPPool1d(2, 3), "sum": nn.Residual(nn.Sequential(nn.PReLU(), nn.ZeroPad1d(0)))}), (2, 8)),
    "transformer": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True), 2, nn.LayerNorm(8)), (5, 8)),
    "states": (lambda: nn.RNN(3, 4, 2, bidirectional=True), (5, 3)),
}


def same(first, second, x):
    a, b = first.eval()(x), second(x)
    for u, v in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,)):
        np.testing.assert_array_equal(u.numpy(), v.numpy())


@pytest.mark.parametrize("name", NETS)
def test_networks_of_layers_in_python_load(name, tmp_path):
    make, shape = NETS[name]
    net, x = make(), RNG.normal(size=(3, *shape)).astype("f4")
    assert net.save(tmp_path / "net.safetensors", input_shape=shape)
    again = fr.load(tmp_path / "net.safetensors")
    assert type(again) is type(net) and not again.training and repr(again) == repr(net)
    assert {k: v.shape for k, v in again.state_dict().items()} == {k: v.shape for k, v in net.state_dict().items()}
    same(net, again, x)
    assert again.save(tmp_path / "again.safetensors")
    same(again, fr.load(tmp_path / "again.safetensors"), x)
    same(again, pickle.loads(pickle.dumps(again)), x)


def test_what_training_has_found_is_stored(tmp_path):
    x, names = RNG.integers(0, 256, (60, 2, 6, 6)).astype("u1"), np.asarray(["cat", "dog", "owl"])[RNG.integers(0, 3, 60)]
    net = nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.Linear(8, 3))
    net[4].requires_grad_(False)
    net.fit(x, names, epochs=2, verbose=0)
    net.save(tmp_path / "net.safetensors")
    again = fr.load(tmp_path / "net.safetensors")
    assert again.classes == ["cat", "dog", "owl"] and again.evaluate(x, names) == net.evaluate(x, names)
    np.testing.assert_array_equal(again.predict(x).numpy(), net.predict(x).numpy())
    assert [n for n, p in again.named_parameters() if not p.requires_grad] == ["4.weight", "4.bias"]
    assert again.fit(x, names, epochs=1, verbose=0).ended == "complete"


def test_parts_and_parameters_that_are_shared_stay_so(tmp_path):
    block = nn.Sequential(nn.Linear(4, 4), nn.ZeroPad1d(0))
    net = nn.Sequential(block, nn.ReLU(), block, nn.Linear(4, 4))
    net[3].weight = block[0].weight
    net.save(tmp_path / "net.safetensors", input_shape=(4,))
    again = fr.load(tmp_path / "net.safetensors")
    assert len(list(again.parameters())) == len(list(net.parameters())) == 3
    again[0][0].weight = fr.zeros((4, 4))
    assert not again[2][0].weight.numpy().any() and not again[3].weight.numpy().any()


def test_a_class_of_the_program_is_stored_as_its_graph(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv3d(1, 2, 1)

        def forward(self, x):
            return self.conv(x)

    x = RNG.normal(size=(3, 1, 2, 2, 2)).astype("f4")
    for net in (Own(), nn.Sequential(nn.ZeroPad1d(1), Own())):
        assert net.save(tmp_path / "own.safetensors", input_shape=(1, 2, 2, 2))
        again = fr.load(tmp_path / "own.safetensors")
        assert isinstance(again, nn.GraphModule)
        same(net, again, x)


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.classes_of, self.value_of = nn.BatchNorm1d(4), nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, x):
        x = self.norm(x)
        return {"classes": self.classes_of(x), "more": {"value": self.value_of(x), "both": (x, x * 2)}}


def both_losses(outputs, targets):
    return fr.cross_entropy(outputs["classes"], targets) + fr.mean(outputs["more"]["value"] ** 2)


def test_names_of_results_stay_with_a_class_of_the_program(tmp_path):
    net, x, y = Named(), RNG.normal(size=(64, 4)).astype("f4"), np.arange(64) % 3
    net.fit(x, y, loss=both_losses, verbose=0)
    assert net.training and net.save(tmp_path / "net.safetensors") and net.training and "forward" not in vars(net)
    again = fr.load(tmp_path / "net.safetensors")
    assert again.save(tmp_path / "again.safetensors")
    for loaded in (again, fr.load(tmp_path / "again.safetensors"), pickle.loads(pickle.dumps(again))):
        found, expected = loaded.predict(x), net.predict(x)
        assert list(found) == ["classes", "more"] and list(found["more"]) == ["value", "both"] and not loaded.training
        for a, b in ((found["classes"], expected["classes"]), (found["more"]["both"][1], expected["more"]["both"][1])):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
        assert set(loaded.state_dict()) == set(net.state_dict())
    assert loaded.evaluate(x, y, loss=both_losses)["loss"] == pytest.approx(net.evaluate(x, y, loss=both_losses)["loss"], rel=1e-5)
    before = loaded.evaluate(x, y, loss=both_losses)["loss"]
    assert loaded.fit(x, y, loss=both_losses, epochs=3, lr=0.1, verbose=0).history["loss"][-1] < before


def test_networks_of_the_zoo_within_others_load(tmp_path):
    net, x = nn.Sequential(nn.ZeroPad2d(2), fr.models.get_model("resnet20", num_classes=3)), RNG.normal(size=(2, 3, 28, 28)).astype("f4")
    net.save(tmp_path / "net.safetensors", input_shape=(3, 28, 28))
    same(net, fr.load(tmp_path / "net.safetensors"), x)


def test_files_of_later_versions_and_damaged_ones_are_named(tmp_path):
    path = tmp_path / "net.safetensors"
    nn.Conv3d(1, 2, 1).save(path, input_shape=(1, 2, 2, 2))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    assert "Conv3d" in header["__metadata__"]["freight.module"]

    def changed(old, new):
        text = json.dumps({**header, "__metadata__": {"freight.module": header["__metadata__"]["freight.module"].replace(old, new)}}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])

    changed("freight-module-1", "freight-module-9")
    with pytest.raises(ValueError, match="expected a module of format freight-module-1, got 'freight-module-9'"):
        fr.load(path)
    changed("Conv3d", "Conv9d")
    with pytest.raises(ValueError, match="there is no freight.nn.Conv9d"):
        fr.load(path)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RuntimeError, match="differs from what was saved"):
        fr.load(path)


WITHOUT_TORCH = """
import sys
import numpy as np
sys.modules["torch"] = None
import freight as fr
net = fr.load(sys.argv[1])
np.save(sys.argv[3], net(np.load(sys.argv[2])).numpy())
"""


def network(name):
    models = pytest.importorskip("torchvision").models
    return getattr(models, name)(weights=None)


@pytest.mark.parametrize("name", ["text", "encoder, norm first", "mixed", "resnet18", "googlenet", "mobilenet_v2", "recurrent", "shufflenet_v2_x0_5"])
def test_a_traced_network_loads_without_torch(name, tmp_path):
    torch = pytest.importorskip("torch")
    import test_from_torch
    import test_recurrent

    makes = {"recurrent": (test_recurrent.Text, lambda: torch.randint(0, 20, (4, 7))),
             "shufflenet_v2_x0_5": (lambda: network("shufflenet_v2_x0_5"), lambda: torch.randn(2, 3, 64, 64)), **test_from_torch.OWN}
    make, inputs = makes[name]
    torch.manual_seed(0)
    theirs = make().eval()
    ours, x = fr.from_torch(theirs), inputs()
    assert ours.save(tmp_path / "net.safetensors", input_shape=tuple(x.shape[1:]))
    np.save(tmp_path / "x.npy", x.numpy())
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, tmp_path / "net.safetensors", tmp_path / "x.npy", tmp_path / "y.npy"], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    got, expected = np.load(tmp_path / "y.npy"), theirs(x).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert fr.load(tmp_path / "net.safetensors").kind == type(theirs).__name__


def test_a_mask_of_infinities_is_trained_with_stored_and_resumed(tmp_path):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.mask = nn.Linear(4, 3), nn.Buffer(fr.asarray([0.0, -np.inf, 0.0]))

        def forward(self, x):
            return fr.softmax(self.linear(x) + self.mask)

    x, y = RNG.normal(size=(64, 4)).astype("f4"), np.zeros((64, 3), "f4")
    net = Masked()
    history = net.fit(x, y, epochs=2, verbose=0, output_dir=tmp_path / "run")
    assert history.ended == "complete" and np.isfinite(history.history["loss"]).all()
    assert net.fit(x, y, epochs=3, verbose=0, output_dir=tmp_path / "run", resume=True).ended == "complete"
    net.save(tmp_path / "net.safetensors")
    same(net, Masked().load_weights(tmp_path / "net.safetensors").eval(), x)
    for broken in (np.nan, np.inf):
        net.mask = fr.asarray([0.0, broken, 0.0])
        net.save(tmp_path / "broken.safetensors")
        with pytest.raises(RuntimeError, match="tensor mask holds"):
            Masked().load_weights(tmp_path / "broken.safetensors")


def png(pixels):
    """A PNG file of gray pixels u8 (H, W)."""
    import struct
    import zlib

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *pixels.shape[::-1], 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


@pytest.mark.parametrize("kind", ["u8", "0 to 1", "0 to 255", "standardized", "above"])
def test_the_command_reads_pixels_of_files_as_fit_had_them(tmp_path, kind):
    """Or refuses them: it read those of files as 0 to 1 whatever the network was trained on."""
    rng = np.random.default_rng(0)
    pixels, y = rng.integers(0, 256, (60, 1, 6, 6), dtype="u1"), rng.integers(0, 3, 60)
    given = {"u8": pixels, "0 to 1": pixels / 255, "0 to 255": pixels.astype("f4"), "standardized": pixels / 127.5 - 1, "above": pixels * 2.0}[kind]
    fr.random.seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    net.fit(given, y, epochs=1, lr=1e-3, verbose=0)
    net.save(tmp_path / "net.safetensors")
    (tmp_path / "image.png").write_bytes(png(pixels[0, 0]))
    if kind in ("standardized", "above"):
        with pytest.raises(fr.CommandError, match="pixels are bytes from 0 to 255, the model was trained on numbers from"):
            fr.predict(tmp_path / "net.safetensors", tmp_path / "image.png", progress=False)
        return
    row, = fr.predict(tmp_path / "net.safetensors", tmp_path / "image.png", top_k=3, progress=False)
    expected = fr.softmax(net.predict(given[:1]), axis=1).numpy()[0]
    assert [row["probabilities"][str(k)] for k in range(3)] == pytest.approx(expected.tolist(), rel=1e-4)
    assert np.allclose(fr.load(tmp_path / "net.safetensors").predict(given), net.predict(given))


class OfNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(fr.relu(self.norm(self.a(x))))


@pytest.mark.parametrize("frozen", ["a", "norm", "b"])
def test_frozen_parts_are_frozen_in_a_loaded_graph(tmp_path, frozen):
    """It goes on as the module does: BatchNorm that is frozen keeps its statistics, and uses them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 4)).astype("f4") * 2 + 1, rng.integers(0, 3, 64)
    fr.random.seed(0)
    net = OfNorm()
    net.fit(x, y, epochs=2, verbose=0)
    getattr(net, frozen).requires_grad_(False)
    net.save(tmp_path / "net.safetensors")
    loaded = fr.load(tmp_path / "net.safetensors")
    assert {n: p.requires_grad for n, p in loaded.named_parameters()} == {n: p.requires_grad for n, p in net.named_parameters()}
    for module in (net, loaded):
        module.fit(x, y, epochs=2, lr=0.1, seed=3, verbose=0)
    before = dict(net.state_dict())
    for name, value in loaded.state_dict().items():
        np.testing.assert_allclose(value.numpy(), before[name].numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_loss_of_a_file_is_a_name(tmp_path):
    net = nn.Sequential(nn.Linear(3, 2))
    for loss in (lambda outputs, targets: fr.mean(outputs - targets), nn.MSELoss()):
        with pytest.raises(TypeError, match='save: loss: expected the name of a loss, such as "mse".*: files have no functions'):
            net.save(tmp_path / "net.safetensors", input_shape=(3,), loss=loss)
    assert net.save(tmp_path / "net.safetensors", input_shape=(3,), loss="mse")
