"""Modules: layers with PyTorch's names and defaults, and the class that networks are written with."""
from .. import _hints
from .._containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: F401
from .._layer_kinds import AttentionLayer, BagLayer, EmbeddingLayer, RecurrentLayer  # noqa: F401
from .._layers import *  # noqa: F401,F403
from .._module import Layer, Module  # noqa: F401
from .._parameter import Buffer, Parameter  # noqa: F401
from .._transformer import Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer  # noqa: F401
from . import functional  # noqa: F401
from ._functional_layers import *  # noqa: F401,F403
from ._written_layers import *  # noqa: F401,F403
from .. import _functions, _lazy
from . import _texts, init  # noqa: F401

globals().update(_lazy.CLASSES)
_texts.give(functional, globals(), _functions)


def __getattr__(name):
    raise _hints.missing("module 'freight.nn'", name, _hints.NN)
