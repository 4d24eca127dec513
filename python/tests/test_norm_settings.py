"""Settings of BatchNorm together with devices=, shards= and resume=."""
import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 10)).astype("f4")
IMAGES = RNG.normal(size=(96, 2, 6, 5)).astype("f4")
Y = (X @ RNG.normal(size=(10, 3))).argmax(1)
OPTIONS = [{}, {"track_running_stats": False}, {"momentum": None}, {"momentum": None, "affine": False}, {"track_running_stats": False, "affine": False},
           {"momentum": 0.3, "bias": False}]


def rows(options):
    return nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16, **options), nn.ReLU(), nn.Linear(16, 3)), X


def images(options):
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, **options), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)), IMAGES


def trained(make, options, seed=1, **settings):
    """(state by name, losses of training and validation)"""
    fr.random.seed(seed)
    net, x = make(options)
    history = net.fit(x, Y, **{"validation_data": (x[:32], Y[:32]), "batch_size": 32, "epochs": 3, "lr": 0.1, "verbose": 0, **settings})
    return {k: v.numpy().tobytes() for k, v in net.state_dict().items()}, history.history["loss"], history.history["val_loss"]


class Stop(callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        if logs["total_step"] == 5:
            raise KeyError("within an epoch")


@pytest.mark.parametrize("make", [rows, images])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_shards_give_the_same_bits_on_one_device_and_on_two(make, options):
    assert trained(make, options, shards=4) == trained(make, options, shards=4, devices=2)


@pytest.mark.parametrize("make", [rows, images])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("settings", [{}, {"shards": 4}, {"shards": 4, "devices": 2}], ids=str)
def test_a_stopped_run_resumes_with_its_statistics(make, options, settings, tmp_path):
    whole = trained(make, options, **settings)
    with pytest.raises(KeyError):
        trained(make, options, output_dir=tmp_path / "run", callbacks=Stop(), **settings)
    assert trained(make, options, seed=7, output_dir=tmp_path / "run", resume=True, **settings)[0] == whole[0]


@pytest.mark.parametrize("settings", [{}, {"shards": 4}, {"devices": 2}, {"shards": 4, "devices": 2}], ids=str)
def test_statistics_without_a_momentum_are_the_means_of_all_batches(settings):
    fr.random.seed(1)
    net = nn.Sequential(nn.BatchNorm1d(10, momentum=None), nn.Linear(10, 3))
    net.fit(X, Y, batch_size=32, epochs=2, verbose=0, **settings)
    state = {k: v.numpy() for k, v in net.state_dict().items()}
    assert state["0.num_batches_tracked"] == 6  # each epoch has all samples once, so that the mean of its batches is theirs
    np.testing.assert_allclose(state["0.running_mean"], X.mean(axis=0), rtol=1e-4, atol=1e-6)
    assert not np.allclose(state["0.running_var"], 1)


@pytest.mark.parametrize("settings", [{}, {"shards": 4, "devices": 2}], ids=str)
def test_without_statistics_the_batch_counts_in_evaluation_as_well(settings):
    fr.random.seed(1)
    net = nn.Sequential(nn.BatchNorm1d(10, track_running_stats=False), nn.Linear(10, 3))
    net.fit(X, Y, batch_size=32, epochs=2, verbose=0, **settings)
    assert set(net.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    w = {k: v.numpy() for k, v in net.state_dict().items()}
    normed = (X[:20] - X[:20].mean(axis=0)) / np.sqrt(X[:20].var(axis=0) + 1e-5) * w["0.weight"] + w["0.bias"]
    np.testing.assert_allclose(net.predict(X[:20]).numpy(), normed @ w["1.weight"].T + w["1.bias"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"momentum": None}], ids=str)
def test_pytorch_takes_the_state_strictly_and_gives_it_back(options):
    torch = pytest.importorskip("torch")
    ours, x = rows(options)
    ours.fit(x, Y, epochs=1, batch_size=32, verbose=0)
    theirs = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.BatchNorm1d(16, **options), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
    theirs.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in ours.state_dict().items()}, strict=True)
    with torch.no_grad():
        np.testing.assert_allclose(ours.predict(x).numpy(), theirs(torch.from_numpy(x)).numpy(), rtol=1e-4, atol=1e-5)
    missing = {"1.num_batches_tracked"} if not options else set()
    assert set(theirs.state_dict()) - set(ours.state_dict()) == missing
    again = rows(options)[0]
    assert again.load_state_dict(theirs.state_dict()) == ([], [])
    np.testing.assert_array_equal(again.predict(x).numpy(), ours.predict(x).numpy())


@pytest.mark.parametrize("weights", ["balanced", {0: 1.0, 1: 3.0}], ids=str)
def test_class_weights_go_with_statistics_over_all_devices(weights):
    _, *one = trained(rows, {}, class_weight=weights)
    _, *two = trained(rows, {}, class_weight=weights, devices=2, sync_batch_norm=True)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    assert abs(one[0][-1] / trained(rows, {})[1][-1] - 1) > 1e-3
