"""The stubs say what the package has (mypy's stubtest)."""
import os
import subprocess
import sys

import pytest

import freight

# Types of the extension have nanobind's metaclass and no constructor.
ALLOWED = r"freight\.(Array|dtype)(\.__init__)?"


def test_stubs_agree_with_the_package(tmp_path):
    pytest.importorskip("mypy.stubtest")
    allowed = tmp_path / "allowed.txt"
    # The module of estimators is not imported without scikit-learn; tracers need torch; operators of parameters and of masked
    # elements are made by loops; the stub of nn has those of parameters written out. What Upsample takes stands in its __init__.
    allowed.write_text(ALLOWED + "\nfreight\\._estimators\nfreight\\._torch_tracer\nfreight\\._from_torch\\.Tracer.*\n"
                       "freight\\._parameter\\.Parameter\\.__.*\n"
                       "freight\\._traced\\.MaskedElements\\.__.*\nfreight\\.(nn|_layers)\\.Upsample\\.__new__\n")
    folder = os.path.dirname(os.path.dirname(freight.__file__))
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "freight", "--concise", "--ignore-unused-allowlist", "--allowlist",
                           str(allowed)], cwd=tmp_path, env={**os.environ, "MYPYPATH": folder, "PYTHONPATH": folder}, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAM = """
import freight as fr
from freight import callbacks, nn, optim


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, padding=(1, 1))
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.scale = nn.Parameter(fr.ones(3))

    def forward(self, x: fr.Array) -> fr.Array:
        return fr.relu(self.conv(x)) * self.scale


def loss_of(net: Net, x: fr.Array) -> fr.Array:
    return fr.mean(net(x))


net = Net(4)
optimizer = optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99))
loss, grads = fr.value_and_grad(loss_of)(net, fr.ones((1, 1, 4, 4)))
optimizer.update(grads)
optimizer.lr = optim.cosine(0.1, 10)(3)
history: fr.History = net.fit([[1.0]], [0], epochs=2, callbacks=[callbacks.EarlyStopping(patience=2)], weight_decay=1e-4)
print(history.history["loss"][0] + 1, net.eval().state_dict()["scale"].shape, fr.load("x").predict([[1.0]]))
"""


def test_programs_check_strictly(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    folder = os.path.dirname(os.path.dirname(freight.__file__))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "program.py"], cwd=tmp_path,
                          env={**os.environ, "MYPYPATH": folder, "PYTHONPATH": folder}, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "program.py").write_text(PROGRAM.replace("nn.Linear(width, width)", "nn.Linear(width)"))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "program.py"], cwd=tmp_path,
                          env={**os.environ, "MYPYPATH": folder, "PYTHONPATH": folder}, text=True, capture_output=True)
    assert "Missing positional argument" in done.stdout
