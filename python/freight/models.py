"""The networks that `freight train --model` knows by name, as modules with new weights; show is `freight models show`."""
from collections.abc import Sequence

from . import _core, _fit
from ._command_functions import models_show as show  # noqa: F401
from .nn import Module


def list_models() -> list[str]:
    """The names that get_model takes."""
    return _core.model_names()


def get_model(name: str, *, num_classes: int | None = None, input_shape: Sequence[int] | None = None, vocabulary: int | None = None,
              length: int | None = None) -> Module:
    """A network by name: get_model("resnet20", num_classes=4, input_shape=(3, 32, 32)). What is not given is the network's own
    (`freight models list`); networks of texts have a vocabulary and a length in tokens. The weights follow from
    `freight.random.seed`; load_weights takes those of a file with the same layers, such as torchvision's."""
    return _fit.described(*_core.create_model(name, num_classes or 0, list(input_shape or ()), vocabulary or 0, length or 0)).train()
