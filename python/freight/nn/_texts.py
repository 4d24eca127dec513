"""Texts for help() of the functions of nn.functional that are a layer's, or the package's under PyTorch's name: those of these."""
import types

_LAYERS = {"binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "cross_entropy": "CrossEntropyLoss", "kl_div": "KLDivLoss"}
_OWN = {"normalize": "x divided by its p-norm along dim, which counts as eps where it is less."}


def give(functional, names, functions):
    """Gives each function of functional without a text that of its layer in `names`, those of nn, or of the function in `functions`."""
    layers = {name.lower(): value for name, value in names.items() if isinstance(value, type)}
    for name, function in vars(functional).items():
        if not isinstance(function, types.FunctionType) or name.startswith("_") or function.__doc__:
            continue
        layer = layers.get(_LAYERS.get(name, name).replace("_", "").lower())
        same = getattr(functions, name, None)
        text = layer.__doc__.strip().split("\n")[0] if layer else same.__doc__ if same else _OWN.get(name)
        function.__doc__ = f"{text} As nn.{layer.__name__}." if layer else text
