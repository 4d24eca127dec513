"""Module.fit, evaluate, predict and save refuse what does not fit, and name it."""
import numpy as np
import pytest
from test_fit import X, Y, batches_of, fit, made

import freight as fr
from freight import callbacks, nn, optim


def step_of(net):
    return lambda x, y: fr.value_and_grad(lambda net, x, y: fr.cross_entropy(net(x), y))(net, fr.asarray(x), fr.asarray(y))


BAD = [
    (lambda n: fit(n, X[:10], Y[:9]), ValueError, "fit: expected as many samples in y as in x, 10, got 9"),
    (lambda n: fit(n, X[:0], Y[:0]), ValueError, r"fit: x: there are no samples: expected at least one, got shape \(0, 10\)"),
    (lambda n: n.evaluate(X[:0], Y[:0]), ValueError, r"evaluate: x: there are no samples: .* got shape \(0, 10\)"),
    (lambda n: n.evaluate(batches_of([])), ValueError, "evaluate: x: there are no samples: expected at least one batch"),
    (lambda n: fit(n, batches_of([(X[:0], Y[:0])]), None), ValueError, r"fit: batch 0 of x: there are no samples: .* got shape \(0, 10\)"),
    (lambda n: fit(n, batches_of([(X[:9], Y[:9]), (X[:0], Y[:0])]), None), ValueError, r"fit: batch 1 of x: there are no samples: .* got shape \(0, 10\)"),
    (lambda n: fit(n, X[:, :0], Y), ValueError, r"fit: x: expected samples with elements, got shape \(600, 0\)"),
    (lambda n: fit(n, y=np.zeros((600, 0), "f4")), ValueError, r"fit: y: expected targets with elements, got shape \(600, 0\)"),
    (lambda n: step_of(n)(X[:0], Y[:0]), ValueError, r"value_and_grad: x: expected a batch of at least one sample, got shape \(0, 10\)"),
    (lambda n: fr.jit(step_of(n))(X[:0], Y[:0]), ValueError, r"value_and_grad: x: expected a batch of at least one sample, got shape \(0, 10\)"),
    (lambda n: fit(n, X[:, 0], Y), ValueError, "expected samples of at least one axis"),
    (lambda n: fit(n, validation_data=(X[:0], Y[:0])), ValueError, "validation_data: there are no samples"),
    (lambda n: fit(n, validation_data=X), TypeError, r"validation_data: expected \(x, y\)"),
    (lambda n: fit(n, validation_data=(X[:, :5], Y)), ValueError, "validation_data: samples have shape"),
    (lambda n: fit(n, np.where(X > 3, np.nan, X)), ValueError, "nan|NaN"),
    (lambda n: fit(n, y=Y - 1), ValueError, "fit: y: expected classes from 0, got -1: samples without a class have to be left out"),
    (lambda n: fit(n, y=Y + 7), ValueError, "classes"),
    (lambda n: fit(n, X[:, :5]), ValueError, "10"),
    (lambda n: fit(n, (X * 10).astype("i8"), Y), ValueError, "fit: x: expected floats, got integers, which are tokens: use x.astype"),
    (lambda n: fit(n, batch_size=0), ValueError, "batch_size"),
    (lambda n: n.predict(X, batch_size=0), ValueError, "predict: batch_size: expected a whole number of at least 1, got 0"),
    (lambda n: n.predict(X, batch_size=-1), ValueError, "predict: batch_size: expected a whole number of at least 1, got -1"),
    (lambda n: fit(n, class_weight=[1.0, 2.0, 3.0]), TypeError, r'class_weight: expected "balanced", a file of weights or a dict'),
    (lambda n: fit(n, class_weight="balance", sample_weight=np.ones(600)), ValueError, 'class_weight: expected "balanced" or a dict .*\'balance\''),
    (lambda n: fit(n, batch_sise=3), ValueError, "unknown setting 'batch_sise'; did you mean batch_size"),
    (lambda n: fit(n, momentum="much"), TypeError, "momentum: expected a number, got 'much'"),
    (lambda n: fit(n, epochs=1.5), TypeError, "epochs: expected a whole number, got 1.5"),
    (lambda n: fit(n, optimizer="adm"), ValueError, "adam"),
    (lambda n: fit(n, optimizer=optim.SGD), TypeError, r'optimizer: expected a name \("adamw"\), with lr= beside it, or an optimizer of the module'),
    (lambda n: fit(n, loss="crossentropy"), ValueError, "loss: .*cross_entropy"),
    (lambda n: fit(n, callbacks=[3]), TypeError, "callbacks: expected freight.callbacks.Callback, got int"),
    (lambda n: fit(n, metric="macro_f1"), ValueError, "fit: metric 'macro_f1' compares evaluations: expected validation_data"),
    (lambda n: n.evaluate(X, Y, metric="prec"), ValueError, "evaluate: metric: there is no figure 'prec': use 'precision'"),
    (lambda n: fit(n, callbacks=callbacks.EarlyStopping()), ValueError, "expected validation_data"),
    (lambda n: fit(n, resume=True), ValueError, "resume: expected an output_dir"),
    (lambda n: fit(n, sample_weight=[1.0]), ValueError, r"sample_weight: expected one weight per sample, \(600,\)"),
    (lambda n: fit(n, sample_weight=[-1.0] * 600), ValueError, "sample_weight: expected finite weights"),
    (lambda n: fit(n, sample_weight=[0.0] * 600), ValueError, "expected a sample whose weight is not 0"),
    (lambda n: fit(n, validation_split=1.0), ValueError, "validation_split: expected a share between 0 and 1 of 600 samples.*, got 1.0"),
    (lambda n: fit(n, validation_split=0.1, validation_data=(X, Y)), ValueError, "validation_split: expected arrays and no validation_data"),
    (lambda n: n.fit(iter([(X[:50], Y[:50])] * 2), steps_per_epoch=2, batch_size=25), ValueError, "batch_size: expected 50, as the batches of x have it, or none, got 25"),
    (lambda n: fit(n, y=np.eye(3, dtype=int)[Y]), ValueError,
     r'y: integers of shape \(600, 3\) are no targets of outputs \(600, 3\): expected classes \(N\), y.argmax\(axis=1\), or floats with loss="cross_entropy"'),
    (lambda n: n.evaluate(X, np.eye(3, dtype=int)[Y]), ValueError, "expected classes .N., y.argmax"),
    (lambda n: fit(n, y=np.eye(3, dtype=int)[Y] | np.eye(3, dtype=int)[Y[::-1]]), ValueError, 'expected labels, loss="bce"'),
    (lambda n: fit(n, y=np.stack([Y, Y + 3], 1)), ValueError, r'expected classes \(N\), or values, y.astype\("float32"\)'),
    (lambda n: fit(n, y=np.where(Y == 0, -100, Y)), ValueError, r"fit: y: expected classes from 0, got -100: .* left out, x\[y >= 0\].*PyTorch's -100"),
    (lambda n: fit(n, validation_data=(X, Y - 1)), ValueError, "validation_data: y: expected classes from 0, got -1"),
    (lambda n: n.evaluate(X, Y - 1), ValueError, "evaluate: y: expected classes from 0, got -1"),
    (lambda n: n.save("/nowhere/x"), ValueError, "save: expected input_shape"),
]


@pytest.mark.parametrize("call, kind, text", BAD, ids=range(len(BAD)))
def test_mistakes_are_named(call, kind, text):
    with pytest.raises(kind, match=text):
        call(made())


@pytest.mark.parametrize("settings, beside", [({"shuffle": False}, "shuffle=False"), ({"sample_weight": np.ones(8)}, "weights of samples")])
def test_augmentation_is_refused_where_fit_makes_the_batches(settings, beside):
    x, y = np.zeros((8, 1, 8, 8), "f4"), np.arange(8) % 2
    for flag in ({"flip": True}, {"mixup_alpha": 0.2}):
        with pytest.raises(ValueError, match=f"fit: {next(iter(flag))}: expected none beside {beside}, of which fit makes no augmented samples"):
            nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).fit(x, y, verbose=0, **flag, **settings)


def test_labels_are_for_outputs_of_two_axes():
    net, of_two = nn.Sequential(nn.Linear(10, 1), nn.Flatten(0)), (Y > 0).astype(int)
    for y in (of_two[:40], of_two[:40, None]):
        with pytest.raises(ValueError, match=r"loss: bce is for outputs \(N, K\), got \(N,\): expected a forward that returns one for each label"):
            net.fit(X[:40], y, loss="bce", verbose=0)
    assert len(net.fit(X[:40], of_two[:40].astype("f4"), loss=nn.BCEWithLogitsLoss(), verbose=0).epoch) == 1


@pytest.mark.parametrize("divided", [{"grad_accum": 2}, {"shards": 2}, {"devices": ["cpu", "cpu"]}])
def test_sums_of_losses_are_for_whole_batches(divided):
    with pytest.raises(ValueError, match=r'fit: loss: MSELoss\(reduction="sum"\) is for whole batches: expected "mean"'):
        nn.Linear(10, 1).fit(X, Y[:, None].astype("f4"), loss=nn.MSELoss(reduction="sum"), verbose=0, **divided)
    assert len(nn.Linear(10, 1).fit(X, Y[:, None].astype("f4"), loss=nn.MSELoss(), verbose=0, **divided).epoch) == 1
