"""What callbacks return: True stops, a number is the learning rate, None and False change nothing, all else is an error."""
import contextlib
import hashlib
import signal

import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn

X = np.random.default_rng(0).normal(size=(320, 4)).astype("f4")
Y = (X[:, 0] > 0).astype(int)


class Returns(callbacks.Callback):
    def __init__(self, answer):
        self.answer, self.rates, self.ends, self.steps = answer, [], [], 0

    def on_train_batch_end(self, batch, logs):
        self.steps += 1
        self.rates.append(logs["lr"])

    def on_epoch_end(self, epoch, logs):
        self.ends.append(epoch)
        return self.answer(epoch)


class Steps(callbacks.Callback):
    def __init__(self, answer):
        self.answer = answer

    def on_train_batch_end(self, batch, logs):
        return self.answer


def made(seed=1):
    fr.random.seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def fitted(answer, net=None, **settings):
    net, heard = net or made(), Returns(answer)
    history = net.fit(X, Y, epochs=4, batch_size=80, lr=0.1, verbose=0, callbacks=[heard], **settings)
    return net, heard, history


def weights(net):
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in net.state_dict().values())).hexdigest()


@pytest.mark.parametrize("nothing", [None, False, np.False_, fr.asarray(False)], ids=repr)
def test_none_and_false_change_nothing(nothing):
    net, heard, history = fitted(lambda epoch: nothing)
    assert heard.rates == [pytest.approx(0.1)] * 16 and history.ended == "complete" and history.epoch == [1, 2, 3, 4]
    assert weights(net) == weights(fitted(lambda epoch: None)[0])


@pytest.mark.parametrize("stop", [True, np.True_, fr.asarray(True), np.asarray(True)], ids=repr)
def test_true_ends_the_run_with_the_epoch(stop):
    net, heard, history = fitted(lambda epoch: stop if epoch == 2 else None, validation_data=(X[:80], Y[:80]))
    assert history.epoch == [1, 2] == heard.ends and heard.steps == history.steps == 8 and history.ended == "stopped"
    assert len(history.history["val_loss"]) == 2
    two = made()
    two.fit(X, Y, epochs=2, batch_size=80, lr=0.1, verbose=0)
    assert weights(net) == weights(two)


def test_true_after_the_last_epoch_changes_nothing():
    assert fitted(lambda epoch: epoch == 4)[2].ended == "complete"


@pytest.mark.parametrize("settings", [{}, {"shards": 4}, {"shards": 4, "devices": 2}], ids=str)
def test_a_run_that_was_ended_by_a_callback_is_resumed_bitwise(tmp_path, settings):
    rates = {"lr_scheduler": "cosine", **settings}
    whole = fitted(lambda epoch: None, output_dir=tmp_path / "whole", **rates)[0]
    _, heard, history = fitted(lambda epoch: epoch == 2, output_dir=tmp_path / "run", **rates)
    assert history.epoch == [1, 2] == heard.ends and history.ended == "stopped"
    rest, heard, history = fitted(lambda epoch: None, net=made(seed=5), output_dir=tmp_path / "run", resume=True, **rates)
    assert heard.ends == [3, 4] and history.epoch == [1, 2, 3, 4] and history.ended == "complete"
    assert weights(rest) == weights(whole)


@pytest.mark.parametrize("rate", [0.5, np.float32(0.5), np.float64(0.5), np.asarray(0.5), fr.asarray(0.5)], ids=repr)
def test_a_number_is_the_learning_rate(rate):
    rates = fitted(lambda epoch: rate if epoch == 1 else None)[1].rates
    assert rates[:4] == [pytest.approx(0.1)] * 4 and rates[4:] == [pytest.approx(0.5)] * 12
    heard = Returns(lambda epoch: None)
    made().fit(X, Y, epochs=1, batch_size=80, lr=0.1, verbose=0, callbacks=[Steps(1), heard])
    assert heard.rates[2:] == [1.0, 1.0]


@pytest.mark.parametrize("settings", [{}, {"shards": 4}, {"shards": 4, "devices": 2}], ids=str)
def test_the_rate_of_an_epoch_is_in_the_checkpoint_before_it(tmp_path, settings):
    class Killed(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            if logs["epoch"] == 3:
                raise KeyError("within the epoch")

    rate = {1: 0.3, 2: 0.02, 3: 0.2}.get
    whole = fitted(rate, output_dir=tmp_path / "whole", **settings)[0]
    with pytest.raises(KeyError):
        made().fit(X, Y, epochs=4, batch_size=80, lr=0.1, verbose=0, callbacks=[Returns(rate), Killed()], output_dir=tmp_path / "run", **settings)
    rest, heard, _ = fitted(rate, net=made(seed=5), output_dir=tmp_path / "run", resume=True, **settings)
    assert heard.ends == [3, 4] and weights(rest) == weights(whole)


@pytest.mark.parametrize("answer, kind, message", [
    ("stop", TypeError, "or a number, the new learning rate, got 'stop'"), (1j, TypeError, "got 1j"),
    (np.ones(2), TypeError, r"got array\(\[1., 1.\]\)"), (-1, ValueError, "finite and not negative, got -1"), (float("nan"), ValueError, "got nan")])
def test_other_results_are_errors_that_name_the_callback(answer, kind, message):
    with pytest.raises(kind, match=r"Returns.on_epoch_end: expected .*" + message):
        fitted(lambda epoch: answer)
    with pytest.raises(kind, match=r"Steps.on_train_batch_end: expected .*" + message):
        made().fit(X, Y, verbose=0, callbacks=[Steps(answer)])


def rate(step):
    return 0.1 / (1 + step)


class Ends(callbacks.Callback):
    """Ends the run behind a step, and keeps the rates of all."""

    def __init__(self, step=0, how=None):
        self.step, self.how, self.rates = step, how, []

    def on_train_batch_end(self, batch, logs):
        self.rates.append(logs["lr"])
        if logs["total_step"] == self.step and self.how == "stops":
            return True
        if logs["total_step"] == self.step and self.how == "Ctrl-C":
            signal.raise_signal(signal.SIGINT)
        if logs["total_step"] == self.step:
            raise ArithmeticError("the end")
        return None


@pytest.mark.parametrize("how", ["stops", "raises", "Ctrl-C"])
@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_a_callback_ends_goes_on_with_the_rate_of_the_next_step(tmp_path, how, first):
    def run(ends, folder, **settings):
        fr.random.seed(0)
        net, schedule = nn.Linear(4, 2), callbacks.LearningRate(rate)
        with contextlib.suppress(ArithmeticError, KeyboardInterrupt):
            net.fit(X[:40], Y[:40], batch_size=8, epochs=2, verbose=0, output_dir=tmp_path / folder,
                    callbacks=[ends, schedule] if first else [schedule, ends], **settings)
        return net.weight.numpy()

    whole, begun, resumed = Ends(), Ends(3, how), Ends()
    expected = run(whole, "whole")
    run(begun, "parts")
    np.testing.assert_array_equal(run(resumed, "parts", resume=True), expected)
    assert begun.rates[:3] + resumed.rates == whole.rates


@pytest.mark.parametrize("settings", [{"metric": "loss"}, {"early_stop": 3}, {"callbacks": [callbacks.EarlyStopping(patience=3)]}])
@pytest.mark.parametrize("recorded", [True, False])
def test_averaged_weights_are_those_of_the_best_epoch(tmp_path, settings, recorded):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(24, 5)).astype("f4"), random.integers(0, 3, 24)
    held = x[:9], 1 - y[:9].clip(0, 1)
    fr.random.seed(1)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    history = net.fit(x, y, batch_size=4, epochs=8, lr=0.5, validation_data=held, verbose=0, model_ema=0.9, **settings,
                      **({"output_dir": tmp_path / "run"} if recorded else {}))
    losses = history.history["val_loss"]
    assert history.best_epoch == 1 + int(np.argmin(losses)) < len(losses)
    assert net.evaluate(*held)["loss"] == pytest.approx(min(losses), abs=1e-5)
    if recorded:
        assert fr.load(tmp_path / "run/model.safetensors").evaluate(*held)["loss"] == pytest.approx(min(losses), abs=1e-5)


HELD = np.random.default_rng(0).normal(size=(24, 5)).astype("f4"), np.random.default_rng(1).integers(0, 3, 24)
VALIDATION = HELD[0][:9], (HELD[1][:9] + 1) % 3


def one_layer():
    fr.random.seed(0)
    return nn.Linear(5, 3)


def test_a_checkpoint_beside_another_run_directory_ends_with_the_best_weights(tmp_path):
    for settings in ({}, {"output_dir": tmp_path / "run"}):
        net = one_layer()
        history = net.fit(*HELD, epochs=5, batch_size=8, lr=0.3, verbose=0, validation_data=VALIDATION,
                          callbacks=[callbacks.Checkpoint(tmp_path / "kept", monitor="val_loss")], **settings)
        losses = history.history["val_loss"]
        assert history.best_epoch == 1 + int(np.argmin(losses)) < 5 and net.evaluate(*VALIDATION)["loss"] == pytest.approx(min(losses), abs=1e-5)
        assert fr.load(tmp_path / "kept/best/model.safetensors").evaluate(*VALIDATION)["loss"] == pytest.approx(min(losses), abs=1e-5)


@pytest.mark.parametrize("monitor, kept", [("val_loss", "val_loss"), ("val_loss", "val_accuracy"), ("val_macro_f1", "val_loss"), ("val_loss", None)])
def test_a_run_that_early_stopping_has_ended_stays_so(tmp_path, monitor, kept):
    def run(**settings):
        net = one_layer()
        ends = [callbacks.EarlyStopping(monitor=monitor, patience=1), callbacks.Checkpoint(tmp_path, monitor=kept)]
        history = net.fit(*HELD, epochs=20, batch_size=8, lr=0.3, verbose=0, validation_data=VALIDATION, callbacks=ends, **settings)
        return history.ended, history.epoch, history.best_epoch, net.weight.numpy()

    ended, epochs, best, weight = run()
    assert ended == "early" and len(epochs) < 20
    for _ in range(2):
        again = run(resume=True)
        assert again[:3] == ("nothing_left", epochs, best)
        np.testing.assert_array_equal(again[3], weight)


class Sets(callbacks.Callback):
    def __init__(self, optimizer):
        self.optimizer, self.rates = optimizer, []

    def on_train_batch_end(self, batch, logs):
        self.rates.append(logs["lr"])

    def on_epoch_end(self, epoch, logs):
        self.optimizer.lr *= 0.1


def test_the_rate_of_the_programs_optimizer_may_be_set_by_a_callback():
    net = one_layer()
    sets = Sets(fr.optim.SGD(net, lr=0.1))
    net.fit(*HELD, epochs=3, batch_size=12, optimizer=sets.optimizer, verbose=0, callbacks=[sets])
    assert sets.rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
