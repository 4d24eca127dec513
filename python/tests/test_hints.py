"""Names of PyTorch, NumPy and Keras that are missing here, and other first mistakes, have messages that say what to use."""
import inspect
import pickle
import re

import numpy as np
import pytest

import freight as fr
from freight import _hints, callbacks, nn, optim

NET = nn.Sequential(nn.Linear(3, 2))
OWNERS = [(fr, _hints.PACKAGE, {"freight": fr, "module": NET, "x": fr.ones((2, 2))}), (fr.ones((2, 2)), _hints.ARRAY, {"freight": fr, "x": fr.ones((2, 2))}),
          (NET, _hints.MODULE, {"freight": fr, "module": NET}), (nn, _hints.NN, {"freight": fr, "nn": nn}),
          (optim.SGD(NET), _hints.OPTIMIZER, {"freight": fr, "optimizer": optim.SGD(NET)}), (optim, _hints.OPTIM, {"freight": fr, "optim": optim, "optimizer": optim.SGD(NET)}),
          (callbacks, _hints.CALLBACKS, {"freight": fr, "callbacks": callbacks}), (fr.random, _hints.RANDOM, {"freight": fr, "random": fr.random})]


@pytest.mark.parametrize("owner, name, hint, names", [(o, n, h, names) for o, hints, names in OWNERS for n, h in hints.items()])
def test_what_a_hint_names_exists(owner, name, hint, names):
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute {name!r}: {'' if hint.startswith('not needed') else 'use '}{hint}")):
        getattr(owner, name)
    for root, path in re.findall(r"(?<!\.)\b(freight|x|module|nn|optimizer|optim|callbacks|random)((?:\.\w+)+)", hint):
        value = names[root]
        for part in path[1:].split("."):
            value = getattr(value, part)


def test_every_function_of_the_library_is_here_or_has_a_hint():
    assert [s["name"] for s in fr._core.signatures() if not hasattr(fr, s["name"]) and s["name"] not in _hints.PACKAGE] == []
    with pytest.raises(AttributeError, match="module 'freight.linalg' has no attribute 'lu': use freight.lu$"):
        fr.linalg.lu  # noqa: B018


def test_other_names_are_missing_without_a_hint():
    for owner, text in ((fr, "module 'freight'"), (fr.ones(2), "Array"), (NET, "Sequential"), (nn, "module 'freight.nn'"), (optim.SGD(NET), "SGD")):
        with pytest.raises(AttributeError, match=f"{text} has no attribute 'nowhere'$"):
            owner.nowhere  # noqa: B018
        assert not hasattr(owner, "nowhere")


def test_one_sample_is_refused_with_the_way_to_predict_it():
    net = nn.Sequential(nn.Linear(4, 2))
    x = np.ones((8, 4), "f4")
    net.fit(x, np.zeros(8, "i8"), verbose=0)
    with pytest.raises(ValueError, match=r"of one sample: x\[None\]"):
        net.predict(x[0])
    image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    image.fit(np.ones((8, 1, 4, 4), "f4"), np.zeros(8, "i8"), verbose=0)
    with pytest.raises(ValueError, match=r"forward takes no samples of shape \(4, 4\), fit had \(1, 4, 4\); of one sample: x\[None\]"):
        image.predict(np.ones((1, 4, 4), "f4"))


def test_networks_take_arrays_of_doubles():
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(np.asarray(NET(x)), np.asarray(NET(x.astype("f4"))))
    assert nn.MSELoss()(fr.asarray(x), fr.asarray(x)).dtype == fr.float64  # no parameters, no conversion
    with pytest.raises(ValueError, match="element types differ: .*; cast one of them"):
        fr.jit(lambda x: NET(x))(x)


def test_parameters_are_counted_in_the_summary_of_a_class_that_has_them():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.inside = nn.Parameter(fr.ones(3)), nn.Linear(3, 3)
            self.register_buffer("count", fr.zeros(1))

    net = nn.Sequential(Scaled())
    rows = [line.split() for line in net.summary().splitlines()]
    assert rows[1:] == [["0", "Scaled", "3"], ["0.inside", "Linear", "12"], ["15", "parameters"]]
    assert sum(p.numel() for p in net.parameters()) == 15


def test_early_stopping_monitors_what_it_is_told():
    x = np.random.default_rng(0).normal(size=(200, 3)).astype("f4")
    y = (x[:, 0] > 0).astype("i8")
    for monitor in ("val_loss", "val_accuracy"):
        net = nn.Sequential(nn.Linear(3, 2))
        history = net.fit(x, y, validation_data=(x, y), epochs=50, lr=0.3, verbose=0, callbacks=callbacks.EarlyStopping(monitor, patience=2))
        values = history.history[monitor]
        best = min(values) if monitor == "val_loss" else max(values)
        assert values[history.best_epoch - 1] == best
        assert net.evaluate(x, y)[monitor.removeprefix("val_")] == pytest.approx(best, rel=1e-5)
    with pytest.raises(ValueError, match="restore_best_weights: the best weights are always restored"):
        callbacks.EarlyStopping(restore_best_weights=False)
    with pytest.raises(ValueError, match='monitor: expected "val_loss", "val_accuracy" or another metric of the validation data, got .loss.'):
        callbacks.EarlyStopping(monitor="loss")
    with pytest.raises(ValueError, match="metric"):
        net.fit(x, y, validation_data=(x, y), verbose=0, callbacks=callbacks.EarlyStopping(monitor="val_acc"))


def test_weights_alone_are_refused_by_load_with_the_way_to_read_them(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(x) if float(x[0, 0]) > 0 else x

    with pytest.warns(UserWarning, match="the file has the weights alone, for load_weights"):
        assert not Own().save(tmp_path / "own.safetensors", input_shape=(3,))
    with pytest.raises(RuntimeError, match=r"make the module, and call module.load_weights\(path\)"):
        fr.load(tmp_path / "own.safetensors")
    assert Own().load_weights(tmp_path / "own.safetensors").fc.weight.shape == (2, 3)


def test_the_zoo_has_the_commands_networks():
    assert {"resnet18", "lenet", "lstm_text"} <= set(fr.models.list_models())
    net = fr.models.get_model("resnet20", num_classes=4, input_shape=(3, 24, 24))
    assert net.fc.weight.shape == (4, 64) and net.training
    assert net(fr.ones((2, 3, 24, 24))).shape == (2, 4)
    x = np.random.default_rng(0).integers(0, 255, (8, 3, 24, 24)).astype("u1")
    assert net.fit(x, np.arange(8) % 4, epochs=1, batch_size=4, verbose=0).steps == 2
    text = fr.models.get_model("textcnn", num_classes=3, vocabulary=50, length=12)
    assert text.predict(np.ones((2, 12), "i4")).shape == (2, 3)
    with pytest.raises(ValueError, match="resnet20"):
        fr.models.get_model("resnet21")


def test_a_new_head_is_trained_on_frozen_layers_with_batchnorm(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (16, 3, 32, 32)).astype("u1")
    net = fr.models.get_model("resnet20", num_classes=4)
    net.save(tmp_path / "m.safetensors", input_shape=(3, 32, 32))
    net = fr.load(tmp_path / "m.safetensors")
    net.fc = nn.Linear(net.fc.in_features, 2)
    net.requires_grad_(False)
    net.fc.requires_grad_(True)
    before = {k: np.asarray(v) for k, v in net.state_dict().items()}
    net.fit(x, np.arange(16) % 2, epochs=2, batch_size=8, verbose=0)
    changed = {k for k, v in net.state_dict().items() if not np.array_equal(before[k], np.asarray(v))}
    assert changed == {"fc.weight", "fc.bias"}


def test_settings_of_other_packages_are_named_for_estimators():
    pytest.importorskip("sklearn", minversion="1.6")
    known = set(fr.FreightClassifier().get_params())
    for name, hint in _hints.ESTIMATOR.items():
        with pytest.raises(TypeError, match=re.escape(f"FreightClassifier has no setting {name!r}: ") + "(use|not needed)"):
            fr.FreightClassifier("gbdt", **{name: 1})
        if not hint.startswith(("not needed", "freight.")):
            assert {part.split(" of ")[0].split("=")[0] for part in hint.split(", ")} <= known
    with pytest.raises(TypeError, match="FreightRegressor has no setting 'max_dept': use max_depth$"):
        fr.FreightRegressor(max_dept=3)
    with pytest.raises(TypeError, match=r"a function of n_features and n_outputs, by these names, got <lambda>\(n, k\)"):
        fr.FreightClassifier(lambda n, k: nn.Linear(n, k)).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_network_with_a_number_per_sample_is_a_regression(weighted):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 1)

        def forward(self, x):
            return self.fc(x)[:, 0]

    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 3)).astype("f4")
    y = x @ np.asarray([1.0, 2.0, 3.0], "f4")
    net = Net()
    history = net.fit(x, y, validation_data=(x[:32], y[:32]), epochs=30, lr=0.1, momentum=0.0, weight_decay=0.0, verbose=0,
                      sample_weight=np.ones(128) if weighted else None)
    assert history.history["val_loss"][-1] < 1e-3 and net.predict(x).shape == (128,)
    assert net.evaluate(x, y)["loss"] < 1e-3


def test_gradients_by_name_reach_their_parameters_in_groups_of_any_order():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))  # shapes alone do not tell the two apart
    plain = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    plain.load_state_dict(net.state_dict())
    named = dict(net.named_parameters())
    groups = optim.SGD([{"params": [named["1.weight"], named["0.weight"]]}, {"params": [named["1.bias"], named["0.bias"]]}], lr=0.1)
    whole = optim.SGD(plain, lr=0.1)
    x = fr.asarray(np.random.default_rng(0).normal(size=(8, 3)).astype("f4"))
    loss_of = lambda net, x: fr.mean(net(x) ** 2)  # noqa: E731
    for module, optimizer in ((net, groups), (plain, whole)):
        step = fr.jit(lambda x, m=module, o=optimizer: o.update(fr.grad(loss_of)(m, x)))
        for _ in range(3):
            step(x)
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(np.asarray(net.state_dict()[name]), np.asarray(value), rtol=1e-6)


def test_a_network_knows_the_names_of_its_classes(tmp_path):
    net = nn.Sequential(nn.Linear(2, 2))
    assert not hasattr(net, "classes")
    net.fit(np.eye(2, dtype="f4"), ["no", "yes"], verbose=0)
    net.save(tmp_path / "m.safetensors")
    assert net.classes == fr.load(tmp_path / "m.safetensors").classes == ["no", "yes"]


def test_a_network_that_a_compiled_loop_trained_is_saved_without_the_shape(tmp_path):
    net = nn.Sequential(nn.Linear(5, 1))
    optimizer = optim.SGD(net, lr=0.1)
    step = fr.jit(lambda x: optimizer.update(fr.grad(lambda n: fr.mean(n(x) ** 2))(net)))
    step(fr.ones((4, 5)))
    assert net.save(tmp_path / "m.safetensors", loss="mse")
    np.testing.assert_array_equal(np.asarray(fr.load(tmp_path / "m.safetensors").predict(np.ones((2, 5)))), np.asarray(net.eval()(fr.ones((2, 5)))))


def test_sequences_of_batches_are_data():
    class Sequence:  # as Keras has them: neither an iterator nor an array
        def __len__(self):
            return 5

        def __getitem__(self, i):
            if i >= 5:
                raise IndexError(i)
            return np.full((8, 2), i, "f4"), np.arange(8) % 2

    net = nn.Sequential(nn.Linear(2, 2))
    assert net.fit(Sequence(), epochs=2, verbose=0).steps == 10
    assert 0 < net.evaluate(Sequence())["accuracy"] < 1


def test_the_order_of_axes_may_be_stated_as_pytorch_does():
    for make in (lambda **k: nn.LSTM(4, 8, **k), lambda **k: nn.GRU(4, 8, **k), lambda **k: nn.MultiheadAttention(8, 2, **k)):
        assert repr(make(batch_first=True)) == repr(make())
        with pytest.raises(ValueError, match=r"batch_first: samples are \(N, T, C\): expected True, got False"):
            make(batch_first=False)


def test_axes_are_taken_by_place_where_numpy_has_them_there():
    x = fr.asarray([[3.0, 1.0], [2.0, 4.0], [6.0, 5.0]])
    n = np.asarray(x)
    for name in ("sum", "prod", "max", "min", "any", "all", "mean", "std", "var", "argmax", "argmin", "sort", "argsort", "count_nonzero", "flip"):
        for axis in (0, 1, -1):
            np.testing.assert_allclose(np.asarray(getattr(fr, name)(x, axis)), getattr(np, name)(n, axis), rtol=1e-6)
    for got, expected in ((fr.cumulative_sum(x, 1), n.cumsum(1)), (fr.stack([x, x], 1), np.stack([n, n], 1)), (fr.concat([x, x], 1), np.concatenate([n, n], 1)),
                          (fr.roll(x, 1, 0), np.roll(n, 1, 0)), (fr.take(x, fr.asarray([1]), 0), n[[1]]), (fr.repeat(x, 2, 1), n.repeat(2, 1)), (x.round(0), n)):
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_arrays_are_rounded_to_decimals():
    for values in (np.asarray([1.005, -2.675, 123.456, 0.5]), np.asarray([1.25, 2.5], "f4"), np.asarray([15, 25])):
        for decimals in (0, 2, -1):
            np.testing.assert_array_equal(np.asarray(fr.asarray(values).round(decimals)), values.round(decimals))


@pytest.mark.parametrize("call, message", [
    (lambda: fr.zeros(3, 4), r"zeros: expected the shape as one tuple, and dtype= by name: zeros\(\(3, 4\)\), got 2 arguments"),
    (lambda: fr.ones(3, 4), r"ones: expected the shape as one tuple"), (lambda: fr.empty(3, 4), r"empty: expected the shape as one tuple"),
    (lambda: fr.ones(2).std(ddof=1), "std: ddof=1 is NumPy's: use correction"), (lambda: fr.ones(2).var(ddof=1), "var: ddof=1 is NumPy's: use correction"),
    (lambda: fr.sum(fr.ones((2, 2)), dim=1), r"^sum\(\) got an unexpected keyword argument 'dim': use axis$"),
    (lambda: fr.mean(fr.ones((2, 2)), axis=1, keepdim=True), r"^mean\(\) .* 'keepdim': use keepdims$"), (lambda: fr.softmax(fr.ones(2), dim=0), "'dim': use axis$"),
    (lambda: fr.concat([fr.ones(2)], dim=0), "'dim': use axis$"), (lambda: fr.linalg.norm(fr.ones(2), dim=0), "'dim': use axis$"),
    (lambda: fr.fft.fft(fr.ones(4), dim=0), "'dim': use axis$"), (lambda: fr.random.normal(size=(2,)), "'size': use shape$"),
    (lambda: fr.random.normal((2,), loc=1.0), "'loc': use mean$"), (lambda: fr.clip(fr.ones(2), a_min=0), "'a_min': use min$"),
    (lambda: fr.std(fr.ones(2), ddof=1), "'ddof': use correction$"), (lambda: nn.functional.softmax(fr.ones(2), axis=0), "'axis': use dim$"),
    (lambda: fr.sum(fr.ones(2), nowhere=1), r"^sum\(\) got an unexpected keyword argument 'nowhere': expected axis, dtype, keepdims$"),
    (lambda: fr.ones(2).mean(dim=0), r"^Array.mean\(\) .* 'dim': use axis$"), (lambda: fr.ones(2).sum(dim=0), r"^Array.sum\(\) .* 'dim': use axis$")])
def test_numpys_and_pytorchs_other_arguments_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("method", ["sum", "prod", "max", "min", "any", "all"])
def test_methods_have_their_names_in_errors(method):
    with pytest.raises(TypeError, match=rf"^Array\.{method}\(\) got an unexpected keyword argument 'dim'"):
        getattr(fr.ones(3), method)(dim=0)


def test_functions_keep_their_names_and_are_pickled():
    for function in (fr.sum, fr.softmax, fr.linalg.norm, fr.fft.fft, fr.random.normal, nn.functional.softmax):
        assert pickle.loads(pickle.dumps(function)) is function and list(inspect.signature(function).parameters)[0] in ("x", "input", "shape")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        fr.reshape(fr.ones(2))


def test_fft_in_compiled_functions_says_what_to_do():
    x = fr.arange(6.0)
    a = 2 * fr.pi / 6 * fr.outer(fr.arange(6.0), fr.arange(6.0))
    found = fr.fft.fft(x)  # the products that the error names
    np.testing.assert_allclose(np.asarray(found.real), np.asarray(x @ fr.cos(a)), atol=1e-4)
    np.testing.assert_allclose(np.asarray(found.imag), np.asarray(-(x @ fr.sin(a))), atol=1e-4)
    for call in (fr.jit(lambda x: fr.fft.rfft(x)), fr.grad(lambda x: fr.sum(fr.fft.fft(x).real))):
        with pytest.raises(TypeError, match=r"fft: is computed on the host, outside of jit and grad.* re, im = x @ cos\(a\), -\(x @ sin\(a\)\)"):
            call(x)


def test_layers_of_sequences_say_what_they_take():
    x = fr.ones((2, 5, 4))
    for layer, name in ((nn.LSTM(4, 3), "RecurrentLayer"), (nn.GRU(4, 3), "RecurrentLayer"), (nn.MultiheadAttention(4, 2), "AttentionLayer")):
        with pytest.raises(TypeError, match=rf"^{name}\.forward\(\) got an unexpected keyword argument 'mask'"):
            layer(x, mask=x)
        assert "Returns (output" in type(layer).forward.__doc__
    output, (h, c) = nn.LSTM(4, 3).forward(x, lengths=[5, 2])
    assert not np.any(np.asarray(output)[1, 2:]) and np.all(np.asarray(output)[1, :2] != 0) and h.shape == c.shape == (1, 2, 3)


def test_arguments_of_wrong_types_are_named_without_the_extensions_signatures():
    with pytest.raises(TypeError, match=r"sort\(\): an argument has a type that it does not take: got Array, axis=tuple; help\(freight.sort\)"):
        fr.sort(fr.ones(3), axis=(0, 1))
    with pytest.raises(TypeError, match='to: expected a device such as "cpu"'):
        nn.Linear(2, 2).to(fr.float64)
    assert nn.ReLU(inplace=True)(fr.asarray([-1.0, 2])).tolist() == [0, 2] and nn.LeakyReLU(0.5, True)(fr.asarray([-1.0])).tolist() == [-0.5]
