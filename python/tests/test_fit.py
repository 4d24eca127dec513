"""Module.fit, evaluate, predict, save and freight.load: runs of the library's trainer on arrays."""
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn, optim

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 10)).astype("f4")
Y = (X @ RNG.normal(size=(10, 3))).argmax(1)
VALUES = X[:, 0] * 2 - X[:, 1]
TEST = (X[:150], Y[:150])


class Net(nn.Module):
    def __init__(self, outputs=3):
        super().__init__()
        self.a, self.b = nn.Linear(10, 32), nn.Linear(32, outputs)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.b(self.drop(fr.relu(self.a(x))))


def chain(outputs=3):
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, outputs))


def made(make=Net, seed=1, **keywords):
    fr.random.seed(seed)
    return make(**keywords)


def fit(net, x=X, y=Y, **keywords):
    return net.fit(x, y, **{"epochs": 3, "lr": 0.1, "verbose": False, **keywords})


def weights(net):
    return b"".join(v.numpy().tobytes() for v in net.state_dict().values())


def test_a_fit_learns_and_its_history_has_a_number_per_epoch():
    net = made()
    history = fit(net, validation_data=TEST, epochs=4)
    assert history.ended == "complete" and history.epoch == [1, 2, 3, 4] and history.steps == 4 * (600 // 64)
    assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy", "lr"}
    assert history.history["val_accuracy"][-1] > 0.9 and history.history["loss"][-1] < history.history["loss"][0]
    figures = net.evaluate(*TEST)
    assert figures["accuracy"] == pytest.approx(history.history["val_accuracy"][-1])
    assert figures["loss"] == pytest.approx(history.history["val_loss"][-1], rel=1e-5)
    outputs = net.predict(TEST[0]).numpy()
    assert outputs.shape == (150, 3) and (outputs.argmax(1) == TEST[1]).mean() == pytest.approx(figures["accuracy"])
    net.eval()
    np.testing.assert_allclose(net(TEST[0]).numpy(), outputs, rtol=1e-5, atol=1e-6)


def test_equal_seeds_give_equal_results_and_others_do_not():
    first, second, third = made(), made(), made()
    fit(first, seed=5)
    fit(second, seed=5)
    fit(third, seed=6)
    assert weights(first) == weights(second) != weights(third)


def test_without_validation_data_nothing_is_evaluated():
    history = fit(made())
    assert set(history.history) == {"loss", "accuracy", "lr"}


def test_the_step_equals_a_loop_over_a_jitted_one():
    fitted, looped = made(chain), made(chain)
    fit(fitted, X[:64], Y[:64], epochs=5, momentum=0.9)
    optimizer = optim.SGD(looped, lr=0.1, momentum=0.9)

    @fr.jit
    def step(x, y):
        value, grads = fr.value_and_grad(lambda net, x, y: fr.cross_entropy(net(x), y))(looped, x, y)
        optimizer.update(grads)
        return value

    for _ in range(5):
        step(fr.asarray(X[:64]), fr.asarray(Y[:64]))
    for name, value in fitted.state_dict().items():
        np.testing.assert_allclose(value.numpy(), looped.state_dict()[name].numpy(), rtol=1e-4, atol=1e-6)


def test_values_labels_and_texts_are_targets():
    history = fit(made(outputs=1), y=VALUES[:, None], lr=0.02, epochs=10)
    assert history.history["loss"][-1] < 0.3 and "accuracy" not in history.history
    labels = np.stack([Y == 0, Y == 1, VALUES > 0], axis=1)
    history = fit(made(), y=labels, epochs=5)
    assert history.history["loss"][-1] < history.history["loss"][0]
    names = np.asarray(["cat", "dog", "owl"])[Y]
    net = made()
    fit(net, y=names, validation_data=(X[:50], names[:50]))
    assert net.evaluate(X, names)["accuracy"] > 0.9
    with pytest.raises(ValueError, match="'fox', expected one of the classes cat, dog, owl"):
        net.evaluate(X[:1], ["fox"])


def test_a_loss_and_a_metric_of_the_program():
    def worst(outputs, targets):
        return fr.max(fr.abs(outputs - targets), axis=1)

    worst.higher_is_better = False
    net = made(outputs=1)
    history = fit(net, y=VALUES[:, None], loss=lambda o, t: fr.mean(fr.abs(o - t)), metric=worst, lr=0.02,
                  validation_data=(X[:50], VALUES[:50, None]), epochs=5)
    assert history.history["val_worst"][-1] < history.history["val_worst"][0]
    assert net.evaluate(X, VALUES[:, None])["loss"] == pytest.approx(
        float(np.abs(net.predict(X).numpy() - VALUES[:, None]).mean()), rel=1e-4)


def test_sample_weights_equal_repeated_samples():
    x, y = X[:40], Y[:40]
    twice = np.concatenate([x, x[:20]]), np.concatenate([y, y[:20]])
    weighted, repeated = made(chain), made(chain)
    # One batch of all. Only the ratios of weights count.
    fit(weighted, x, y, batch_size=40, epochs=4, momentum=0.0, sample_weight=[6.0] * 20 + [3.0] * 20)
    fit(repeated, *twice, batch_size=60, epochs=4, momentum=0.0)
    for name, value in weighted.state_dict().items():
        np.testing.assert_allclose(value.numpy(), repeated.state_dict()[name].numpy(), rtol=1e-4, atol=1e-6)
    values, repeated = made(chain, outputs=1), made(chain, outputs=1)
    fit(values, x, VALUES[:40], batch_size=40, epochs=4, momentum=0.0, lr=0.01, sample_weight=[2.0] * 20 + [1.0] * 20)
    fit(repeated, twice[0], np.concatenate([VALUES[:40], VALUES[:20]])[:, None], batch_size=60, epochs=4, momentum=0.0, lr=0.01)
    for name, value in values.state_dict().items():
        np.testing.assert_allclose(value.numpy(), repeated.state_dict()[name].numpy(), rtol=1e-4, atol=1e-6)


def test_sample_weights_leave_the_evaluation_alone():
    plain, weighted = fit(made(), validation_data=TEST), fit(made(), validation_data=TEST, sample_weight=np.ones(600))
    for name in ("val_loss", "val_accuracy"):
        np.testing.assert_allclose(plain.history[name], weighted.history[name], rtol=1e-4)


def test_class_weights_prefer_a_class():
    counts = []
    for class_weight in (None, {0: 1.0, 1: 1.0, 2: 50.0}):
        net = made()
        fit(net, class_weight=class_weight, epochs=1, lr=0.01)
        counts.append(int((net.predict(X).numpy().argmax(1) == 2).sum()))
    assert counts[1] > counts[0]
    fit(made(), class_weight="balanced")


@pytest.mark.parametrize("shape, dtype", [((600,), "f4"), ((600, 1), "f8"), ((600,), "bool"), ((600, 1), "i8")])
def test_bce_takes_a_network_of_one_output(shape, dtype):
    y = (X[:, 0] > 0).reshape(shape)
    net = nn.Sequential(nn.Linear(10, 1))
    net.fit(X, y.astype(dtype), loss="bce", optimizer="adam", lr=0.1, epochs=8, verbose=0)
    assert ((np.asarray(net(X))[:, 0] > 0) == (X[:, 0] > 0)).mean() > 0.97
    assert net.evaluate(X, y.astype(dtype), loss="bce")["loss"] < 0.3
    with pytest.raises(ValueError, match="y: expected 0 and 1 for the loss bce"):
        net.fit(X, y.astype(dtype) * 2.0, loss="bce", verbose=0)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 4.0}])
def test_class_weights_are_weights_of_samples(class_weight):
    x, y = X[Y < 2], Y[Y < 2]
    share = {c: (len(y) / (2 * (y == c).sum()) if class_weight == "balanced" else class_weight[c]) for c in (0, 1)}
    by_class, by_sample = made(chain, outputs=2), made(chain, outputs=2)
    with warnings.catch_warnings(action="error"):  # none of a validation set, since there is none
        fit(by_class, x, y, class_weight=class_weight, seed=1)
    fit(by_sample, x, y, sample_weight=[share[c] for c in y], seed=1)
    for name, value in by_class.state_dict().items():
        np.testing.assert_allclose(value.numpy(), by_sample.state_dict()[name].numpy(), rtol=1e-3, atol=1e-5)


def test_the_last_samples_are_the_validation_data():
    split, given = made(), made()
    a = fit(split, validation_split=0.25, sample_weight=np.linspace(1, 2, 600))
    b = fit(given, X[:450], Y[:450], validation_data=(X[450:], Y[450:]), sample_weight=np.linspace(1, 2, 600)[:450])
    assert weights(split) == weights(given) and a.history == b.history


def test_class_weights_by_name_count_beside_sample_weights():
    names, ones = [f"class {c}" for c in Y], np.ones(600)
    by_number = fit(made(), class_weight={2: 50.0}, sample_weight=ones)
    by_name = made().fit(X, names, class_weight={"class 2": 50.0}, sample_weight=ones, epochs=3, lr=0.1, verbose=0)
    assert by_name.history["loss"] == by_number.history["loss"]
    with pytest.raises(ValueError, match="class_weight: unknown class 'class 9'; the data has class 0, class 1, class 2"):
        made().fit(X, names, class_weight={"class 9": 2.0}, sample_weight=ones, verbose=0)
    with pytest.raises(ValueError, match="class_weight: expected a class per sample, got y float32.600, 3."):
        made().fit(X, np.zeros((600, 3)), class_weight="balanced", sample_weight=ones, verbose=0)


def test_settings_that_cannot_count_are_refused():
    with pytest.raises(ValueError, match="class_weight: expected a dict of weights by class for batches, got 'balanced'"):
        made().fit(iter([(X[:50], Y[:50])]), steps_per_epoch=1, class_weight="balanced", verbose=0)
    with pytest.raises(ValueError, match="lr: expected a rate that is not negative, got -0.1"):
        fit(made(), lr=-0.1)
    with pytest.raises(ValueError, match="fit: Net has no parameters to train: a list of modules must be an nn.ModuleList"):
        fit(made().requires_grad_(False))


def test_accumulated_gradients_equal_those_of_the_batch():
    whole, parts = made(chain), made(chain)
    fit(whole)
    fit(parts, grad_accum=4)
    for name, value in whole.state_dict().items():
        np.testing.assert_allclose(value.numpy(), parts.state_dict()[name].numpy(), rtol=1e-3, atol=1e-5)


def test_tokens_are_inputs():
    tokens = RNG.integers(1, 20, (300, 6))
    y = (tokens == 3).any(1)

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.fc = nn.Embedding(20, 16), nn.Linear(16, 2)

        def forward(self, x):
            return self.fc(fr.max(self.embed(x), axis=1))

    net = made(Text)
    history = fit(net, tokens, y, validation_data=(tokens[:50], y[:50]), optimizer="adamw", lr=0.01, epochs=30)
    assert history.history["val_accuracy"][-1] > 0.9 and net.predict(tokens).shape == (300, 2)


def test_early_stopping_ends_the_run_with_the_best_weights():
    net = made()
    history = fit(net, validation_data=(X[:50], np.roll(Y[:50], 1)), epochs=50, callbacks=callbacks.EarlyStopping(patience=2))
    assert history.ended == "early" and len(history.epoch) < 50 and history.output_dir == ""
    best = min(history.history["val_loss"])
    assert history.history["val_loss"].index(best) + 1 == history.best_epoch
    assert net.evaluate(X[:50], np.roll(Y[:50], 1))["loss"] == pytest.approx(best, rel=1e-5)


def test_a_schedule_sets_the_rate_of_each_step():
    seen = []

    class Watch(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            seen.append(logs["lr"])

    fit(made(), callbacks=[callbacks.LearningRate(optim.cosine(0.1, 27)), Watch()])
    np.testing.assert_allclose(seen, [optim.cosine(0.1, 27)(i) for i in range(27)], rtol=1e-5, atol=1e-9)


def test_callbacks_hear_of_the_run_and_may_stop_it():
    heard = []

    class Watch(callbacks.Callback):
        def on_train_begin(self, logs):
            heard.append(("begin", logs["steps"], type(self.model).__name__))

        def on_epoch_end(self, epoch, logs):
            heard.append(("epoch", epoch, logs.get("val_accuracy", 0) > 0))
            return epoch == 2

        def on_train_end(self, history):
            heard.append(("end", history.ended))

    history = fit(made(), epochs=9, validation_data=TEST, callbacks=[Watch()])
    assert heard[:3] == [("begin", 81, "Net"), ("epoch", 1, True), ("epoch", 2, True)] and heard[3:] == [("end", "stopped")]
    assert history.steps == 2 * 9


def test_a_stopped_run_resumes_bitwise(tmp_path):
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            if logs["total_step"] == 13:
                raise KeyError("in the middle of an epoch")

    whole = made()
    fit(whole, epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "whole")
    part = made()
    with pytest.raises(KeyError, match="in the middle"):
        fit(part, epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "part", callbacks=[Stop()])
    assert (tmp_path / "part/last").exists()
    again = made(seed=9)
    history = fit(again, epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "part", resume=True)
    assert history.ended == "complete" and weights(again) == weights(whole)
    assert fit(again, epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "part", resume=True).ended == "nothing_left"
    with pytest.raises(ValueError, match="model: cannot change when a run resumes: got Sequential, .* was created with Net"):
        fit(made(chain), epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "part", resume=True)
    with pytest.raises(RuntimeError, match="fingerprint differs"):
        fit(made(), X + 1, epochs=4, lr_scheduler="cosine", output_dir=tmp_path / "part", resume=True)


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import hashlib
import test_fit as t
net = t.made(seed=int(sys.argv[1]))
t.fit(net, epochs=60, lr_scheduler="cosine", output_dir={run!r}, resume=True, save_every=50)
print(hashlib.sha256(t.weights(net)).hexdigest())
"""


def test_a_killed_run_resumes_bitwise(tmp_path):
    def started(name, seed):
        script = KILLED.format(tests=str(pathlib.Path(__file__).parent), run=str(tmp_path / name))
        return subprocess.Popen([sys.executable, "-c", script, str(seed)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    whole, errors = started("whole", 1).communicate()
    assert whole, errors
    seen = set()
    for seed in (1, 2, 3):  # a resumed run takes its weights from the checkpoint
        run = started("part", seed)
        while run.poll() is None and not {p.name for p in tmp_path.glob("part/checkpoints/step-*")} - seen:
            time.sleep(0.005)
        run.kill()
        run.communicate()
        seen |= {p.name for p in tmp_path.glob("part/checkpoints/step-*")}
    resumed, errors = started("part", 4).communicate()
    assert resumed == whole, errors


def test_ctrl_c_stops_a_run_with_its_state_saved(tmp_path):
    def interrupt():
        while not (tmp_path / "run/checkpoints").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fit(made(), epochs=100000, output_dir=tmp_path / "run", save_every=100)
    thread.join()
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] != "complete" and (tmp_path / "run/last").exists()


def test_a_model_of_known_layers_loads_in_python_and_in_the_command(tmp_path):
    net = made(chain)
    fit(net, validation_data=TEST, output_dir=tmp_path / "run")
    assert net.save(tmp_path / "net.safetensors")
    for path in (tmp_path / "net.safetensors", tmp_path / "run/model.safetensors"):
        again = fr.load(path)
        assert isinstance(again, nn.Sequential) and not again.training
        np.testing.assert_array_equal(again.predict(X).numpy(), net.predict(X).numpy())
        assert again.evaluate(*TEST)["accuracy"] == net.evaluate(*TEST)["accuracy"]
    np.savez(tmp_path / "data.npz", x_train=X, y_train=Y, x_test=TEST[0], y_test=TEST[1])
    command = pathlib.Path(fr.__file__).parent / "bin/freight"
    shown = subprocess.run([command, "eval", "--weights", tmp_path / "net.safetensors", "--data", tmp_path / "data.npz", "--json"],
                           text=True, capture_output=True)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["top1"] == pytest.approx(100 * net.evaluate(*TEST)["accuracy"])


def test_a_model_of_the_command_loads_and_predicts_as_there(tmp_path):
    command = pathlib.Path(fr.__file__).parent / "bin/freight"
    done = subprocess.run([command, "train", "--model", "lenet", "--max-steps", "40", "-o", tmp_path / "run", "--json"], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    net = fr.load(tmp_path / "run/model.safetensors")
    written = subprocess.run([command, "data", "sample", "digits", "--output", tmp_path / "digits"], text=True, capture_output=True)
    assert written.returncode == 0, written.stderr
    assert net.predict(np.zeros((2, 1, 28, 28), dtype="u1")).shape == (2, 10)
    assert net.state_dict()["0.weight"].shape[1] == 1 or len(net.state_dict()) > 4


def test_iterables_of_batches_are_data():
    class Loader:
        sampler = None

        def __init__(self, sizes):
            self.sizes = sizes

        def __len__(self):
            return len(self.sizes)

        def __iter__(self):
            at = 0
            for size in self.sizes:
                yield X[at:at + size], Y[at:at + size]
                at += size

    net = made()
    history = net.fit(Loader([50] * 11 + [30]), validation_data=Loader([100, 50]), epochs=4, lr=0.1, verbose=False)
    assert history.steps == 48 and history.history["val_accuracy"][-1] > 0.9
    assert net.evaluate(Loader([100, 50]))["accuracy"] == pytest.approx(history.history["val_accuracy"][-1])
    with pytest.raises(ValueError, match="batch 1 of x: expected samples float32"):
        made().fit(Loader([50, 40, 50]), verbose=False)
    with pytest.raises(ValueError, match="x has no batches"):
        made().fit(Loader([]), verbose=False)


def endless(seen):
    for i in itertools.count():
        seen.append(i)
        yield X[i % 4 * 16:][:16], Y[i % 4 * 16:][:16]


def test_an_iterator_goes_on_where_an_epoch_has_ended():
    for steps, epochs in ((5, 3), (1, 4)):
        seen, net, same = [], made(chain), made(chain)
        history = fit(net, endless(seen), None, steps_per_epoch=steps, epochs=epochs)
        assert seen == list(range(steps * epochs)) and history.steps == steps * epochs
        batches = list(itertools.islice(endless([]), steps * epochs))
        fit(same, batches_of(batches), None, epochs=1)
        assert weights(net) == weights(same)  # each batch once, in its order
    first = fit(made(chain), endless([]), None, steps_per_epoch=8, epochs=2, shards=4)
    second = fit(made(chain), endless([]), None, steps_per_epoch=8, epochs=2, shards=4, devices=2)
    assert first.history == second.history
    assert fit(made(chain), batches_of(batches), None, steps_per_epoch=2, epochs=2).steps == 4


def batches_of(batches):
    return type("Loader", (), {"__len__": lambda self: len(batches), "__iter__": lambda self: iter(batches)})()


def test_an_iterator_needs_its_length_and_must_not_end():
    with pytest.raises(ValueError, match="x has no length: expected steps_per_epoch"):
        fit(made(chain), endless([]), None)
    with pytest.raises(ValueError, match="x has ended after 7 batches: expected 5 in each epoch"):
        fit(made(chain), itertools.islice(endless([]), 7), None, steps_per_epoch=5)
    for steps in (0, 3, "2"):
        with pytest.raises(ValueError, match="steps_per_epoch: expected a whole number from 1 to 2"):
            fit(made(chain), batches_of([(X[:16], Y[:16])] * 2), None, steps_per_epoch=steps)
    with pytest.raises(ValueError, match="steps_per_epoch is for iterables"):
        fit(made(chain), steps_per_epoch=2)


def test_a_folder_of_images_is_data(tmp_path):
    command = os.path.join(os.path.dirname(fr.__file__), "bin", "freight")
    subprocess.run([command, "data", "sample", "photos"], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "photos"

    def net():
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 3))

    def trained(**settings):
        model = made(net)
        return model, fit(model, folder, None, input_shape=(3, 32, 32), lr=0.02, batch_size=16, **settings)

    model, history = trained(output_dir=tmp_path / "run", early_stop=3)
    figures = fr.eval(history.model_path)
    assert figures["split"] == "val" and figures["top1"] / 100 == pytest.approx(max(history.history["val_accuracy"]))
    model.save(tmp_path / "saved.safetensors")
    images = [fr.load(path).__dict__["_task"]["images"] for path in (tmp_path / "saved.safetensors", history.model_path)]
    assert images[0] == images[1] and images[0]["resize"] == 37
    stored = fr.load(tmp_path / "saved.safetensors").__dict__["_task"]
    assert stored["classes"] == ["circle", "square", "triangle"] and len(stored["mean"]) == 3
    first, second = trained(shards=4)[0], trained(shards=4, devices=2)[0]
    assert weights(first) == weights(second)
    for x, settings, text in ((tmp_path / "none", {"input_shape": (3, 32, 32)}, "no such dataset"),
                              (folder, {}, "input_shape: expected the shape of a sample"),
                              (folder, {"input_shape": (1, 32, 32)}, r"expects samples \[1,32,32\], got \[3,32,32\]"),
                              (folder, {"input_shape": (3, 32, 32), "y": Y}, "y: expected none with the folder"),
                              (folder, {"input_shape": (3, 32, 32), "validation_data": TEST}, "validation_data: expected none"),
                              (X, {"y": Y, "input_shape": (3, 32, 32)}, "input_shape is for images of a folder")):
        with pytest.raises(ValueError, match=text):
            made(net).fit(x, **settings)
    subprocess.run([command, "data", "sample", "reviews"], cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(ValueError, match="reviews.csv has texts or a table"):
        made(net).fit(tmp_path / "reviews.csv", input_shape=(3, 32, 32))


def test_a_class_of_ones_own_saves_and_loads_weights(tmp_path):
    net = made()
    fit(net)
    assert net.save(tmp_path / "net.safetensors")
    for again in (made(seed=2).load_weights(tmp_path / "net.safetensors"), fr.load(tmp_path / "net.safetensors")):
        np.testing.assert_array_equal(again.predict(X).numpy(), net.predict(X).numpy())
    with pytest.raises(RuntimeError, match="c.weight|b.weight"):
        made(chain).load_weights(tmp_path / "net.safetensors")


@fr.custom_gradient
def doubled(x):
    return x * 2, lambda g: (g * 0,)


class OwnGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(doubled(self.fc(x)))


@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: nn.Sequential(nn.Identity(), net)])
def test_fit_takes_custom_gradients(wrap):
    own = OwnGradient()
    before = own.state_dict()
    wrap(own).fit(np.random.default_rng(0).normal(size=(32, 4)).astype("f4"), np.random.default_rng(1).integers(0, 3, 32), epochs=1, verbose=0, weight_decay=0.0)
    after = own.state_dict()
    assert [np.array_equal(before[k].numpy(), after[k].numpy()) for k in ("fc.weight", "fc.bias", "head.weight")] == [True, True, False]


def test_exceptions_of_forward_and_of_a_loss_are_raised_again():
    class Broken(Net):
        def forward(self, x):
            raise LookupError("no forward today")

    with pytest.raises(LookupError, match="no forward today"):
        fit(made(Broken))
    with pytest.raises(LookupError, match="no loss"):
        fit(made(), loss=lambda o, t: {}["no loss"])


def test_memory_stays_flat_over_many_fits():
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    for i in range(100):
        if i == 40:
            before = resident()
        fit(made(), X[:64], Y[:64], epochs=1)
    assert resident() - before < 8 << 20


def test_a_run_in_another_process_gives_the_same_bits(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
                      "import test_fit as t\nn = t.made(); t.fit(n, seed=3); import hashlib\n"
                      "print(hashlib.sha256(t.weights(n)).hexdigest())")
    shown = [subprocess.run([sys.executable, script], text=True, capture_output=True) for _ in range(2)]
    assert shown[0].returncode == 0, shown[0].stderr
    assert shown[0].stdout == shown[1].stdout


@pytest.mark.parametrize("samples, validation", [(65, 64), (64, 33), (64, 1)])
@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_kept_features_of_frozen_layers_allow_a_last_batch_of_one_sample(cache, samples, validation, tmp_path):
    def trained(**settings):
        fr.random.seed(0)
        net = made()
        net.a.requires_grad_(False)
        return net.fit(X[:samples], Y[:samples], validation_data=(X[:validation], Y[:validation]), epochs=2, batch_size=32, verbose=0,
                       **settings)

    whole = trained(feature_cache="off")
    kept = trained(feature_cache=cache, output_dir=tmp_path / "run" if cache == "disk" else "")
    for name, values in whole.history.items():
        np.testing.assert_allclose(kept.history[name], values, rtol=1e-5)


def test_a_forward_that_treats_one_sample_otherwise_is_refused_with_the_way_to_train_it():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(10, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.b(fr.relu(self.a(x)) if x.shape[0] > 1 else fr.exp(self.a(x)))

    net = Net()
    net.a.requires_grad_(False)
    with pytest.raises(ValueError, match="feature_cache: Net computes a batch of one sample by other operations .* feature_cache off"):
        fit(net, X[:65], Y[:65], batch_size=64, feature_cache="memory")
    assert fit(net, X[:65], Y[:65], batch_size=64, feature_cache="off").ended == "complete"


def test_the_command_keeps_features_where_the_last_batch_has_one_sample(tmp_path):
    np.savez(tmp_path / "data.npz", x_train=X[:65], y_train=Y[:65], x_test=X[:33], y_test=Y[:33])
    settings = {"model": "mlp", "freeze": "backbone", "epochs": 2, "batch_size": 32, "overwrite": True, "device": "cpu"}
    losses = [fr.train(str(tmp_path / "data.npz"), feature_cache=cache, output_dir=str(tmp_path / cache), **settings)["test_loss"]
              for cache in ("memory", "disk", "off")]
    assert losses[:2] == pytest.approx([losses[2]] * 2, rel=1e-5)


class Two(nn.Module):
    """Numbers and a category, whose order matters."""

    def __init__(self):
        super().__init__()
        self.a, self.kinds, self.drop, self.out = nn.Linear(10, 8), nn.Embedding(5, 8), nn.Dropout(0.1), nn.Linear(8, 3)

    def forward(self, numbers, kind, image=None):
        h = fr.relu(self.a(numbers)) * self.kinds(kind)
        return self.out(self.drop(h if image is None else h + fr.mean(image, axis=(1, 2), keepdims=False)[:, None]))


KIND = RNG.integers(0, 5, 600)
IMAGE = RNG.integers(0, 256, (600, 4, 4)).astype("u1")


@pytest.mark.parametrize("x", [(X, KIND), [X, KIND], {"kind": KIND, "numbers": X}, (X, KIND, IMAGE), {"image": IMAGE, "numbers": X, "kind": KIND}])
def test_a_forward_of_several_inputs_takes_them_as_a_tuple_a_list_or_a_dict(x, tmp_path):
    part = lambda n: {k: v[:n] for k, v in x.items()} if isinstance(x, dict) else type(x)(v[:n] for v in x)  # noqa: E731
    seen = []

    class Watch(callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            seen.append(self.model)

    y = (KIND + (X[:, 0] > 0)) % 3
    net = made(Two)
    history = net.fit(x, y, validation_data=(part(100), y[:100]), epochs=20, lr=0.02, optimizer="adamw", verbose=0, callbacks=Watch(),
                      output_dir=tmp_path / "run")
    assert history.history["val_accuracy"][-1] > 0.8 and seen == [net] * 20
    given = {k: fr.asarray(v) for k, v in x.items()} if isinstance(x, dict) else [fr.asarray(v) for v in x]
    if "image" in given:
        given["image"] = given["image"] / 255
    elif len(given) == 3:
        given[2] = given[2] / 255
    logits = net.eval()(**given) if isinstance(x, dict) else net.eval()(*given)
    np.testing.assert_allclose(net.predict(x).numpy(), logits.numpy(), rtol=2e-5, atol=1e-5)
    assert net.evaluate(part(100), y[:100])["accuracy"] == pytest.approx(history.history["val_accuracy"][-1])
    again = made(Two, seed=2).load_weights(history.model_path)
    assert weights(again) == weights(net)
    with pytest.raises(ValueError, match="fit: validation_data: expected inputs of the same names, shapes and types as x"):
        net.fit(x, y, validation_data=({"kind": KIND, "numbers": X[:, :5]}, y), verbose=0)


def test_several_inputs_that_do_not_fit_are_named():
    net = made(Two)
    with pytest.raises(ValueError, match=r"fit: x\[1\]: expected 600 samples, as the first has, got shape \(599,\)"):
        net.fit((X, KIND[1:]), Y)
    with pytest.raises(ValueError, match="'kind'.: expected integers up to 16777216 beside other arrays, got 100000000"):
        net.predict({"numbers": X[:1], "kind": np.asarray([10**8])})
    with pytest.raises(TypeError, match="expected one array, got a dict: several inputs are for a module whose forward takes as many"):
        nn.Linear(3, 1).fit([({"numbers": X, "kind": KIND}, Y)].__iter__(), steps_per_epoch=1, verbose=0)
    stacked = made(chain)
    assert stacked.predict(tuple(X[:4])).shape == (4, 3)  # samples, not inputs: the forward takes one


def test_a_resumed_history_has_the_epochs_before_it(tmp_path):
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            if logs["total_step"] == 13:
                raise KeyboardInterrupt

    settings = {"validation_data": TEST, "epochs": 4, "lr": 0.1, "output_dir": tmp_path / "run"}
    whole = fit(made(), **{**settings, "output_dir": ""})
    with pytest.raises(KeyboardInterrupt):
        fit(made(), callbacks=Stop(), **settings)
    resumed = fit(made(seed=7), resume=True, **settings)
    assert resumed.epoch == whole.epoch == [1, 2, 3, 4] and resumed.history.keys() == whole.history.keys()
    for name, values in whole.history.items():
        np.testing.assert_allclose(resumed.history[name], values, rtol=1e-12)
    nothing_left = fit(made(seed=8), resume=True, **settings)
    assert nothing_left.ended == "nothing_left" and nothing_left.history == resumed.history


def test_callbacks_with_names_of_other_packages_are_refused_with_the_ones_here():
    for make, message in (
            (lambda: callbacks.EarlyStopping(2), "EarlyStopping: monitor: expected the name of a figure, got 2: use patience=2"),
            (lambda: callbacks.Checkpoint("d", save_best_only=True), "Checkpoint has no argument 'save_best_only': use monitor, with keep=1"),
            (lambda: callbacks.Checkpoint("d", save_freq=10), "Checkpoint has no argument 'save_freq': use every")):
        with pytest.raises(TypeError, match=message):
            make()

    class Watch(callbacks.Callback):
        def on_epoch_begin(self, epoch, logs):
            pass

    with pytest.raises(TypeError, match="Watch.on_epoch_begin is never called: expected on_train_begin, on_train_batch_end, on_epoch_end, on_train_end"):
        fit(made(), callbacks=Watch())


def test_evaluate_has_the_metric_of_fit():
    y = (Y > 0).astype(int)
    net = nn.Sequential(nn.Linear(10, 2))
    history = net.fit(X, y, validation_data=(X, y), metric="f1", epochs=2, verbose=0)
    found = np.asarray(net.predict(X)).argmax(1)
    f1 = 2 * (found * y).sum() / (found.sum() + y.sum())
    assert net.evaluate(X, y)["f1"] == pytest.approx(f1) == pytest.approx(history.history["val_f1"][-1])
    assert set(net.evaluate(X, y, metric="recall")) == {"loss", "accuracy", "recall"}
    net.fit(X, y, metric=lambda outputs, targets: fr.ones(targets.shape) * 3, epochs=1, verbose=0)
    assert net.evaluate(X, y)["metric"] == 3
    net.fit(X, y, metric="accuracy", epochs=1, verbose=0)
    assert set(net.evaluate(X, y)) == {"loss", "accuracy"}


def test_names_of_classes_are_stored(tmp_path):
    net = made()
    net.fit(X, Y, epochs=1, verbose=0)
    net.classes = ["a", "b", "c"]
    net.save(tmp_path / "net.safetensors")
    assert fr.load(tmp_path / "net.safetensors").classes == ["a", "b", "c"]
    with pytest.raises(ValueError, match="classes: expected 3 names, got 2"):
        net.classes = ["a", "b"]
    with pytest.raises(TypeError, match="classes: expected a text per class, got 'abc'"):
        net.classes = "abc"


@pytest.mark.parametrize("kind", [int, bool, "f4"])
def test_two_classes_by_one_output(kind):
    y = (X[:, 0] > 0).astype(kind)
    for loss, targets in (("bce", y), ("bce", y[:, None]), (nn.BCEWithLogitsLoss(), y[:, None])):
        net = nn.Sequential(nn.Linear(10, 1))
        net.fit(X, targets, loss=loss, epochs=5, lr=0.3, verbose=0)
        assert ((np.asarray(net.predict(X))[:, 0] > 0) == (y > 0)).mean() > 0.9
