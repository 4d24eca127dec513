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


def best_and_end(values, higher, patience, min_delta=0.0):
    """(the best epoch, the last epoch) of Keras's EarlyStopping over these values of epochs."""
    best = improved = -np.inf
    at = stale = 0
    for epoch, value in enumerate(values, 1):
        score = value if higher else -value
        at, best = (epoch, score) if score > best else (at, best)
        stale, improved = (0, score) if score > improved + min_delta else (stale + 1, improved)
        if stale == patience:
            return at, epoch
    return at, len(values)


@pytest.mark.parametrize("stop, higher, keep, best", [("val_accuracy", True, "val_loss", min), ("val_loss", False, "val_accuracy", max),
                                                      (None, False, "val_macro_f1", max)])
@pytest.mark.parametrize("settings", [{}, {"devices": 2, "shards": 4}], ids=["one", "ranks"])
def test_early_stopping_and_checkpoint_follow_a_figure_each(tmp_path, stop, higher, keep, best, settings):
    long = {**NOISY, "epochs": 30, **settings}
    plain = t.fit(t.made(), **long).history
    net = t.made()
    heard = [callbacks.Checkpoint(tmp_path / "run", monitor=keep), callbacks.EarlyStopping(stop, patience=3, min_delta=1e-3)]
    history = t.fit(net, callbacks=heard, **long)
    at, end = best_and_end(plain[stop or "val_loss"], higher, 3, 1e-3)
    assert (history.best_epoch, history.epoch[-1], history.ended) == (at, end, "early") and end < 30
    assert history.history["val_loss"] == plain["val_loss"][:end]
    until = t.made()  # the weights behind the best epoch
    t.fit(until, lr_scheduler="constant", **{**long, "epochs": at})
    assert t.weights(net) == t.weights(until)
    values = history.history[keep]
    kept = t.made(seed=4).load_weights(tmp_path / "run/best/model.safetensors")
    t.fit(until := t.made(), **{**long, "epochs": values.index(best(values)) + 1})
    assert t.weights(kept) == t.weights(until) == t.weights(t.made(seed=5).load_weights(history.model_path))


def test_several_early_stoppings_compare_each_by_its_own_figure():
    plain = t.fit(t.made(), **{**NOISY, "epochs": 30}).history
    for loss, accuracy in ((2, 9), (9, 2)):
        heard = [callbacks.EarlyStopping("val_loss", patience=loss), callbacks.EarlyStopping("val_accuracy", patience=accuracy)]
        history = t.fit(t.made(), callbacks=heard, **{**NOISY, "epochs": 30})
        assert history.epoch[-1] == min(best_and_end(plain["val_loss"], False, loss)[1], best_and_end(plain["val_accuracy"], True, accuracy)[1])


def test_a_resumed_run_goes_on_with_the_count_of_each(tmp_path):
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            if logs["total_step"] == 41:
                raise KeyError("within an epoch")

    def trained(name, *others, seed=1, **settings):
        net = t.made(seed=seed)
        heard = [callbacks.Checkpoint(tmp_path / name, monitor="val_loss"), callbacks.EarlyStopping("val_accuracy", patience=4), *others]
        return t.fit(net, callbacks=heard, **{**NOISY, "epochs": 30}, **settings), t.weights(net)

    whole = trained("whole")
    with pytest.raises(KeyError):
        trained("part", Stop())
    rest = trained("part", seed=3, resume=True)
    assert rest[1] == whole[1] and rest[0].best_epoch == whole[0].best_epoch and rest[0].epoch == whole[0].epoch


def test_accuracy_is_watched_beside_a_loss_of_the_program(tmp_path):
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    history = checked(tmp_path, "val_accuracy", "val_accuracy", max, loss=loss)[0]
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy", "lr"]
    early = t.fit(t.made(), callbacks=callbacks.EarlyStopping("val_accuracy", patience=2), loss=loss, **{**NOISY, "epochs": 40})
    values = early.history["val_accuracy"]
    assert early.best_epoch == values.index(max(values)) + 1 == len(values) - 2
    early = t.fit(t.made(), callbacks=callbacks.EarlyStopping("val_macro_f1", patience=2), loss=loss, **{**NOISY, "epochs": 40})
    values = early.history["val_macro_f1"]
    assert early.best_epoch == values.index(max(values)) + 1 == len(values) - 2


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
    ({"monitor": "val_loss"}, {"callbacks": [callbacks.EarlyStopping("val_accuracy")], "model_ema": 0.9}, "fit: model_ema: expected one figure"),
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


@pytest.mark.parametrize("places", ["same", "apart", "apart from output_dir"])
def test_two_checkpoints_keep_the_best_by_two_figures(tmp_path, places):
    """The run is that of the first alone; each file has the weights of its best epoch, also of a resumed run."""
    run, other = tmp_path / "run", tmp_path / ("run" if places == "same" else "other")
    first = [] if "output_dir" in places else [callbacks.Checkpoint(run, monitor="val_loss")]
    heard = [*first, callbacks.Checkpoint(other, monitor="val_accuracy", keep=1), callbacks.Checkpoint(tmp_path / "third", monitor="val_macro_f1")]
    settings = {**NOISY, "epochs": 12, "lr": 0.4}
    if "output_dir" in places:
        settings["output_dir"] = run
    net, plain = t.made(), t.made()
    t.fit(net, callbacks=heard, **{**settings, "epochs": 5})
    history = t.fit(net, callbacks=heard, output_dir=run, resume=True, **{k: v for k, v in settings.items() if k != "output_dir"})
    alone = callbacks.Checkpoint(tmp_path / "plain", monitor=heard[0].monitor)
    t.fit(plain, **{**settings, "output_dir": tmp_path / "plain", "callbacks": [alone]})
    assert t.weights(net) == t.weights(plain)
    paths = {"val_accuracy": other / ("best_accuracy" if places == "same" else "best"), "val_macro_f1": tmp_path / "third/best"}
    if first:
        paths["val_loss"] = run / "best"
    for name, path in paths.items():
        values = [-v if name == "val_loss" else v for v in history.history[name]]
        until = t.made()
        t.fit(until, **{**settings, "output_dir": tmp_path / f"until {name}", "epochs": values.index(max(values)) + 1})
        assert t.weights(fr.load(path / "model.safetensors")) == t.weights(until), name
    assert len(set(map(str, paths.values()))) == len(paths)


def test_a_second_checkpoint_keeps_the_best_alone(tmp_path):
    two = [callbacks.Checkpoint(tmp_path / "a", every=5), callbacks.Checkpoint(tmp_path / "b", monitor="val_loss")]
    history = t.fit(t.made(), callbacks=two, **NOISY)
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["best"] and history.output_dir == str(tmp_path / "a")
    with pytest.raises(ValueError, match="Checkpoint: every: expected it for the Checkpoint without a monitor, or the first"):
        t.fit(t.made(), callbacks=[callbacks.Checkpoint(tmp_path / "c", monitor="val_loss"), callbacks.Checkpoint(tmp_path / "d", every=9, monitor="val_accuracy")],
              **NOISY)
    with pytest.raises(ValueError, match="Checkpoint and output_dir name two run directories"):
        t.fit(t.made(), callbacks=[callbacks.Checkpoint(tmp_path / "e"), callbacks.Checkpoint(tmp_path / "f")], **NOISY)
