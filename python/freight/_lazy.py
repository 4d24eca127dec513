"""Layers whose number of inputs follows from their first call, as PyTorch's: they become the layers that they are named after."""
from . import _array_api as xp
from ._module import Module, _calls, _changed, _unmade
from ._parameter import recording


class _Lazy(Module):
    _kind, _axis = "", 1  # the layer that it becomes, and the axis of inputs

    def __init__(self, *arguments, **keywords):
        super().__init__()
        self.__dict__["_given"] = arguments, keywords
        _unmade.add(self)

    def _built(self):
        refuse(self)

    def _make_lazy(self, arguments, keywords):
        if recording():
            self._built()
        from . import nn

        (given, settings), axis = self.__dict__.pop("_given"), self._axis
        _unmade.discard(self)
        self.__class__ = getattr(nn, self._kind)
        self.__init__(arguments[0].shape[axis], *given, **settings)
        self._built().training = False  # while make calls it
        _changed(self)

    def extra_repr(self):
        given, settings = self.__dict__["_given"]
        return ", ".join([*map(repr, given), *(f"{k}={v!r}" for k, v in settings.items())])

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)
        _unmade.add(self)


def _lazies():
    # Axes of channels count from the end where a sample may come without a batch.
    named = {"Linear": -1, **{f"BatchNorm{n}d": 1 for n in (1, 2, 3)},
             **{f"{kind}{n}d": -n - 1 for kind in ("Conv", "ConvTranspose", "InstanceNorm") for n in (1, 2, 3)}}
    for kind, axis in named.items():
        doc = f"{kind} without its first argument, the number of inputs, which follows from the first call."
        yield type(f"Lazy{kind}", (_Lazy,), {"_kind": kind, "_axis": axis, "__doc__": doc, "__module__": "freight.nn"})


CLASSES = {cls.__name__: cls for cls in _lazies()}


def refuse(model):
    """Raises the error of a use for which the lazy layers of a model must have been made."""
    (path, layer), *others = [(path, m) for path, m in model.named_modules() if m in _unmade]
    named = f"{path} ({type(layer).__name__})" if path else type(layer).__name__
    more = f" and {len(others)} other{'s' * (len(others) > 1)}" if others else ""
    raise RuntimeError(f"{named}{more}: the number of its inputs is not known yet: call the network with a batch first, net(x), outside of jit and "
                       f"grad, or give the number: nn.{layer._kind}")


def make(model, arguments, keywords):
    """Makes the lazy layers of a model by a call of it in evaluation mode, which changes no running statistics."""
    if _calls.making:
        return model._make_lazy(arguments, keywords)
    lazy = [m for m in model.modules() if m in _unmade]
    modes = [(m._built(), m.training) for m in model.modules() if not m._modules and m not in _unmade]
    _calls.making = True
    try:
        for node, _ in modes:
            node.training = False
        model._make_lazy(arguments, keywords)
    finally:
        _calls.making = False
        for node, mode in [*modes, *((m._built(), True) for m in lazy if m not in _unmade)]:
            node.training = mode
        for m in lazy:
            if m not in _unmade and (trained := m.__dict__.pop("_asked_grad", None)) is not None:
                m.requires_grad_(trained)
        if not model._is_unmade():
            for m in list(model.modules()):  # outer ones first
                m.__dict__.pop("_asked_grad", None)
                if (mode := m.__dict__.pop("_asked_mode", None)) is not None:
                    m.train(mode)


def settle(model, x):
    """Makes the lazy layers of a model that is to take such samples."""
    if _unmade and model._is_unmade():
        model(xp.zeros((1, *x.shape[1:]), dtype=xp.float32 if x.dtype == xp.uint8 else x.dtype))
