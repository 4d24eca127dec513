"""Encoders of transformers with PyTorch's parameters and names, over attention, linear layers and normalization."""
import copy

from . import _functions, _layers
from ._containers import ModuleList
from ._module import Module

ACTIVATIONS = {"relu": _functions.relu, "gelu": _functions.gelu}


class TransformerEncoderLayer(Module):
    """Attention and two linear layers, each with a residual and a norm: (N, T, C), or (T, N, C) with batch_first=False.
    Vaswani et al. 2017."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"TransformerEncoderLayer: activation: expected \"relu\" or \"gelu\", got {activation!r}")
        self.activation, self.batch_first, self.norm_first = activation, batch_first, norm_first
        self.self_attn = _layers.MultiheadAttention(d_model, nhead, dropout)
        self.linear1, self.linear2 = _layers.Linear(d_model, dim_feedforward), _layers.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = _layers.LayerNorm(d_model, layer_norm_eps), _layers.LayerNorm(d_model, layer_norm_eps)
        self.dropout, self.dropout1, self.dropout2 = _layers.Dropout(dropout), _layers.Dropout(dropout), _layers.Dropout(dropout)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """A mask's True or -inf hides a position. is_causal says in PyTorch that src_mask is the causal one: alone it is refused."""
        if is_causal and src_mask is None:
            raise ValueError("TransformerEncoderLayer: is_causal: expected src_mask with it, as PyTorch does")

        def attended(x):
            y, _ = self.self_attn(x, key_padding_mask=src_key_padding_mask, need_weights=False, attn_mask=src_mask)
            return self.dropout1(y)

        def transformed(x):
            return self.dropout2(self.linear2(self.dropout(ACTIVATIONS[self.activation](self.linear1(x)))))

        x = src if self.batch_first else src.swapaxes(0, 1)
        if self.norm_first:
            x = x + attended(self.norm1(x))
            x = x + transformed(self.norm2(x))
        else:
            x = self.norm1(x + attended(x))
            x = self.norm2(x + transformed(x))
        return x if self.batch_first else x.swapaxes(0, 1)


class TransformerEncoder(Module):
    """Copies of a layer one after the other, and a norm behind them."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.norm = norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
