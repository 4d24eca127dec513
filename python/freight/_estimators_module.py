# mypy: disable-error-code="import-not-found,import-untyped"
"""Networks in FreightClassifier and FreightRegressor: model= is a module, or a class or function that makes one."""
import copy
import inspect

import numpy

from . import _array_api as xp
from . import _core, _fit, _lazy
from ._module import Module
from ._tables import as_counts

SIZES = ("n_features", "n_outputs")


def is_network(model):
    return isinstance(model, Module) or callable(model)


def made(model, n_features, n_outputs, x, seed):
    """The module to fit on x: a copy of an instance, or what a class or function makes from the sizes that its parameters name. Its
    weights follow from the seed, and the program's own seed and draws stay as they are."""

    def make():
        network = _made(model, n_features, n_outputs)
        _lazy.settle(network, xp.asarray(inputs_of(network, x[:1])))
        return network

    return _core.with_seed(seed, make)


def _made(model, n_features, n_outputs):
    if isinstance(model, Module):
        return copy.deepcopy(model)
    sizes = dict(zip(SIZES, (n_features, n_outputs)))
    try:
        wanted = inspect.signature(model).parameters
    except ValueError:  # written in C
        wanted = {}
    needed = [n for n, p in wanted.items() if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not set(needed) <= set(SIZES):
        raise TypeError(f"model: expected a function of n_features and n_outputs, by these names, got {getattr(model, '__name__', model)}"
                        f"({', '.join(needed)})")
    network = model(**{name: size for name, size in sizes.items() if name in wanted})
    if not isinstance(network, Module):
        raise TypeError(f"model: expected a freight.nn.Module from {getattr(model, '__name__', model)}, got {type(network).__name__}")
    return network


def inputs_of(network, x):
    """float32, but integers for networks of tokens, which have an Embedding."""
    if x.dtype.kind in "iu" and any(type(m).__name__ == "Embedding" for m in network.modules()):
        return numpy.ascontiguousarray(x, "int32")
    return numpy.ascontiguousarray(x, "float32")


def outputs_of(network, x):
    """The shape of what forward returns for a sample."""
    request = {"name": "model", "input": x.shape[1:], "dtype": x.dtype.name, "loss": "mse"}
    return tuple(_core.output_shape(network._node(), request)[1:])


def targets_of(y, outputs, classes):
    """(targets, loss) of codes of classes, or of values, for a network with such outputs."""
    if classes is None and y.ndim == 2:
        if outputs != y.shape[1:]:
            raise ValueError(f"model: expected an output for each of {y.shape[1]} values per sample, got {outputs}")
        return y.astype("float32"), "mse"
    if classes is None:
        if outputs not in ((), (1,)):
            raise ValueError(f"model: expected one output per sample for regression, got {outputs}")
        return y.astype("float32").reshape(-1, *outputs), "mse"
    if outputs == (1,) and classes == 2:
        return (y == 1)[:, None], "multilabel"
    if outputs != (classes,):
        raise ValueError(f"model: expected an output for each of {classes} classes, got {outputs}")
    return y.astype("int64"), "cross_entropy"


MOST_REPEATED = 5  # rows for each distinct one


def repeated(x, y, weights):
    """(x, y, weights) with each row as often as it counts where weights are whole numbers of 2 or more in the mean, or rows repeat as
    often: a row of weight 2 and one that is there twice are then the same. A factor that all weights have is taken out, and weights
    that would make many more rows stay weights."""
    found = as_counts(x, y, weights)
    if found is None:
        return x, y, weights
    rows, targets, counts = found
    times = counts.astype("int64")
    if weights is not None:
        times //= numpy.gcd.reduce(times)
        if times.sum() > MOST_REPEATED * len(times):
            return x, y, weights
        if times.max() == 1:
            return x[weights > 0], y[weights > 0], None
    return numpy.repeat(rows, times, axis=0), numpy.repeat(targets, times), None


def fitted(network, x, y, *, classes, weights, validation, settings):
    """Trains, and returns the history."""
    outputs = outputs_of(network, x)
    targets, loss = targets_of(y, outputs, classes)
    if validation is not None:
        validation = (validation[0], targets_of(validation[1], outputs, classes)[0])
    if weights is not None:
        if loss == "multilabel":
            raise ValueError("sample_weight: expected a network with an output for each of 2 classes, got one with 1 output")
        weights = weights / weights.mean()
    return _fit.fit(network, x, targets, sample_weight=weights, validation_data=validation, **{"loss": loss, "verbose": 0, **settings})


def probabilities(outputs):
    """float32 (rows, classes): softmax of an output per class; of one output sigmoid."""
    if outputs.shape[1] == 1:
        outputs = numpy.concatenate([numpy.zeros_like(outputs), outputs], axis=1)
    shifted = numpy.exp(outputs - outputs.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
