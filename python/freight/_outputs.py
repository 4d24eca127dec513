"""Losses and metrics of a program get what forward returned, also where that is several arrays: the trainer has the first."""
import functools

from . import _own_arrays
from ._containers import OF_LIBRARY


class Returned:
    """The forward of a module while fit or evaluate runs; it keeps what it returned last."""

    _of_a_run = True  # copies of the module go without it

    def __init__(self, forward):
        functools.update_wrapper(self, forward)
        self._forward, self.last = forward, None

    def __call__(self, *arguments, **keywords):
        with _own_arrays.function():
            self.last = self._forward(*arguments, **keywords)
        return self.last

    def given_to(self, function):
        """The function of outputs and targets, for the trainer."""

        @functools.wraps(function)
        def call(outputs, targets):
            last = self.last
            found = function(last if isinstance(last, (tuple, list, dict)) else outputs, targets)
            self.last = last  # the function may have called the module
            return found

        return call


def kept(function):
    """fit or evaluate, which then keeps what forward returns."""

    @functools.wraps(function)
    def call(model, *arguments, **settings):
        if type(model).forward in OF_LIBRARY:  # of layers and chains of them
            return function(model, *arguments, **settings)
        before = {k: v for k, v in model.__dict__.items() if k == "forward"}
        model.__dict__["forward"] = Returned(model.forward)
        try:
            return function(model, *arguments, **settings)
        finally:
            del model.__dict__["forward"]
            model.__dict__.update(before)

    return call


class NeedsValues(ValueError):
    """A function of the program that reads elements was traced."""


def whole(model, function, kind="metric"):
    """A loss or metric function of what the module's forward returns, within a call of fit or evaluate."""
    forward = model.__dict__.get("forward")
    called = forward.given_to(function) if isinstance(forward, Returned) else function

    @functools.wraps(function)
    def call(outputs, targets):
        try:
            with _own_arrays.function():
                return called(outputs, targets)
        except Exception as error:
            if "while a step is being traced" not in str(error):
                raise
            name = getattr(function, "__name__", type(function).__name__)
            raise NeedsValues(f"{kind} {name}: it is traced for a batch, when arrays have no values: expected functions of freight and an array as the "
                              "result, not NumPy's or scikit-learn's functions, which are for metrics of validation_data") from error

    return call
