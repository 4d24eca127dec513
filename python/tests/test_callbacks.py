"""The figure by which EarlyStopping and Checkpoint choose the best epoch: `monitor` and `mode`."""
import numpy as np
import pytest
import test_fit as t

import freight as fr
from freight import callbacks, nn

NOISY = {"validation_data": (t.X[:60], np.where(np.arange(60) % 3 == 0, (t.Y[:60] + 1) % 3, t.Y[:60])), "epochs": 8, "lr": 0.4}


def worst(outputs, targets):
    """A figure per sample that says nothing of its direction."""
    return fr.max(outputs, axis=1)


def checked(tmp_path, monitor, figure, best, **settings):
    net = t.made()
    history = t.fit(net, callbacks=callbacks.Checkpoint(tmp_path / "run", monitor=monitor, mode=settings.pop("mode", "auto")), **NOISY, **settings)
    values = history.history[figure]
    assert history.best_epoch == values.index(best(values)) + 1 and history.ended == "complete" and len(values) == 8
    kept = t.made(seed=4).load_weights(tmp_path / "run/best/model.safetensors")
    assert t.weights(kept) == t.weights(net) == t.weights(t.made(seed=5).load_weights(history.model_path))
    return history, t.weights(net)


@pytest.mark.parametrize("monitor, figure, best", [("val_loss", "val_loss", min), ("val_accuracy", "val_accuracy", max),
                                                   ("val_log_loss", "val_log_loss", min), ("val_macro_f1", "val_macro_f1", max)])
def test_a_checkpoint_keeps_the_best_by_its_monitor(tmp_path, monitor, figure, best):
    history, kept = checked(tmp_path, monitor, figure, best)
    again, same = checked(tmp_path / "mode", monitor, figure, best, mode="min" if best is min else "max")
    assert again.history == history.history and same == kept


def test_the_direction_of_a_function_is_its_attribute_or_the_mode(tmp_path):
    with pytest.raises(ValueError, match='Checkpoint: mode: expected "min" or "max" for val_metric, a function without an attribute higher_is_better'):
        checked(tmp_path, "val_metric", "val_metric", min, metric=worst)
    lowest, first = checked(tmp_path / "min", "val_worst", "val_worst", min, metric=worst, mode="min")
    highest, second = checked(tmp_path / "max", "val_metric", "val_worst", max, metric=worst, mode="max")
    assert lowest.history == highest.history and lowest.best_epoch != highest.best_epoch and first != second

    def named(outputs, targets):
        return worst(outputs, targets)

    named.higher_is_better = False
    assert checked(tmp_path / "named", "val_metric", "val_named", min, metric=named)[1] == first
    assert checked(tmp_path / "loss", "val_loss", "val_loss", min, metric=worst)[0].history == lowest.history
    with pytest.raises(ValueError, match='mode: val_metric is better the lower it is: expected "min" or "auto", got .max.'):
        checked(tmp_path, "val_metric", "val_metric", max, metric=named, mode="max")


def test_early_stopping_takes_the_same_names():
    history = t.fit(t.made(), **{**NOISY, "epochs": 40}, metric=worst, callbacks=callbacks.EarlyStopping("val_worst", patience=2, mode="min"))
    values = history.history["val_worst"]
    assert history.ended == "early" and history.best_epoch == values.index(min(values)) + 1 == len(values) - 2
    history = t.fit(t.made(), **{**NOISY, "epochs": 40}, metric=worst, callbacks=callbacks.EarlyStopping("val_loss", patience=2))
    values = history.history["val_loss"]
    assert history.ended == "early" and history.best_epoch == values.index(min(values)) + 1


def test_accuracy_is_watched_beside_a_loss_of_the_program(tmp_path):
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    history = checked(tmp_path, "val_accuracy", "val_accuracy", max, loss=loss)[0]
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy", "lr"]
    early = t.fit(t.made(), callbacks=callbacks.EarlyStopping("val_accuracy", patience=2), loss=loss, **{**NOISY, "epochs": 40})
    values = early.history["val_accuracy"]
    assert early.best_epoch == values.index(max(values)) + 1 == len(values) - 2
    with pytest.raises(ValueError, match="a function as the metric, too"):
        t.fit(t.made(), callbacks=callbacks.EarlyStopping("val_macro_f1"), loss=loss, **NOISY)


def test_figures_have_their_names_once():
    history = t.fit(t.made(), callbacks=callbacks.EarlyStopping("val_accuracy"), **NOISY)
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy", "lr"]
    history = t.fit(t.made(), metric="macro_f1", **NOISY)
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy", "val_macro_f1", "lr"]


@pytest.mark.parametrize("monitor", ["val_loss", "val_accuracy"])
def test_a_resumed_run_knows_the_best_of_all_epochs(tmp_path, monitor):
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            if logs["total_step"] == 41:
                raise KeyError("within an epoch")

    def trained(name, *others, seed=1, monitor=monitor, **settings):
        net = t.made(seed=seed)
        heard = [callbacks.Checkpoint(tmp_path / name, monitor=monitor), *others]
        return t.fit(net, lr_scheduler="cosine", callbacks=heard, **NOISY, **settings), t.weights(net)

    whole = trained("whole")
    with pytest.raises(KeyError):
        trained("part", Stop())
    with pytest.raises(ValueError, match="metric: cannot change when a run resumes"):
        trained("part", resume=True, monitor="val_log_loss")
    rest = trained("part", seed=3, resume=True)
    assert rest[1] == whole[1] and rest[0].best_epoch == whole[0].best_epoch and rest[0].epoch == whole[0].epoch


@pytest.mark.parametrize("monitor", ["val_loss", "val_macro_f1"])
def test_ranks_agree_on_the_best_epoch(tmp_path, monitor):
    def trained(name, **settings):
        net = t.made()
        history = t.fit(net, callbacks=callbacks.Checkpoint(tmp_path / name, monitor=monitor), shards=4, **NOISY, **settings)
        return history.best_epoch, t.weights(net)

    assert trained("one") == trained("two", devices=2)


BAD = [
    ({"monitor": "val_accuracy", "mode": "min"}, {}, 'mode: val_accuracy is better the higher it is: expected "max" or "auto", got .min.'),
    ({"monitor": "accuracy"}, {}, 'Checkpoint: monitor: expected "val_loss", "val_accuracy"'),
    ({"monitor": "val_loss", "mode": "maximum"}, {}, 'Checkpoint: mode: expected "auto", "min" or "max", got .maximum.'),
    ({"mode": "min"}, {}, "Checkpoint: mode: expected monitor with it"),
    ({"monitor": "val_acc"}, {}, "Checkpoint: monitor: there is no figure 'val_acc': use 'val_accuracy'; there are val_loss, val_"),
    ({"monitor": "val_macrof1"}, {}, "there is no figure 'val_macrof1': use 'val_macro_f1'"),
    ({"monitor": "val_rmse"}, {}, "^metric: rmse is for values"),
    ({}, {"metric": "acc"}, "fit: metric: there is no figure 'acc': use 'accuracy'"),
    ({"monitor": "val_loss"}, {"metric": "accuracy"}, "Checkpoint monitors val_loss, and metric is 'accuracy': expected one figure"),
    ({"monitor": "val_loss"}, {"callbacks": [callbacks.EarlyStopping("val_accuracy")]},
     "EarlyStopping monitors val_accuracy, and Checkpoint monitors val_loss: expected one figure"),
    ({"monitor": "val_loss"}, {"validation_data": None}, "fit: monitor compares evaluations: expected validation_data"),
]


@pytest.mark.parametrize("arguments, settings, text", BAD, ids=range(len(BAD)))
def test_what_cannot_be_compared_is_named(tmp_path, arguments, settings, text):
    with pytest.raises(ValueError, match=text):
        heard = [*settings.pop("callbacks", []), callbacks.Checkpoint(tmp_path / "run", **arguments)]
        t.fit(t.made(), callbacks=heard, **{**NOISY, **settings})


def test_a_schedule_of_losses_is_no_schedule_of_steps():
    with pytest.raises(TypeError, match="LearningRate: schedule: expected a function of the step's number, got Plateau: return its rate"):
        fr.callbacks.LearningRate(fr.optim.Plateau(0.1))
    with pytest.raises(TypeError, match="got float"):
        fr.callbacks.LearningRate(0.1)


def test_probabilities_and_deviations_are_checked():
    with pytest.raises(ValueError, match="choice: p: expected probabilities whose sum is 1, got 0.7"):
        fr.random.choice(3, (5,), p=[0.5, 0.1, 0.1])
    with pytest.raises(ValueError, match="normal: std: expected a number that is not negative, got -1"):
        fr.random.normal((2,), 0, -1)
    assert fr.jit(lambda p: fr.random.choice(3, (5,), p=p))(fr.asarray([0.2, 0.3, 0.5])).shape == (5,)
