"""Transformers with PyTorch's parameters and names, over attention, linear layers and normalization. In masks True or -inf hides a
position. `is_causal` says in PyTorch that the mask is the causal one: without a mask it is refused."""
import copy
import math

from . import _array_api as xp
from . import _functions, _layers, random
from ._containers import ModuleList
from ._module import Module

ACTIVATIONS = {"relu": _functions.relu, "gelu": _functions.gelu}


def _rows(mask):
    """A mask of keys (N, T), also of one sample (T)."""
    return mask if mask is None or mask.ndim != 1 else mask[None]


class _TransformerLayer(Module):
    """What encoder and decoder layers share: attention and two linear layers, each with a residual and a norm."""

    def _make(self, attentions, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias):
        Module.__init__(self)
        if activation not in ACTIVATIONS:
            raise ValueError(f"{type(self).__name__}: activation: expected \"relu\" or \"gelu\", got {activation!r}")
        self.activation, self.batch_first, self.norm_first = activation, batch_first, norm_first
        for name in attentions:  # parameters in PyTorch's order
            setattr(self, name, _layers.MultiheadAttention(d_model, nhead, dropout, bias))
        self.linear1, self.linear2 = _layers.Linear(d_model, dim_feedforward, bias), _layers.Linear(dim_feedforward, d_model, bias)
        for i in range(1, len(attentions) + 2):
            setattr(self, f"norm{i}", _layers.LayerNorm(d_model, layer_norm_eps, bias=bias))
            setattr(self, f"dropout{i}", _layers.Dropout(dropout))
        self.dropout = _layers.Dropout(dropout)

    def _need_masks(self, **given):
        for name, (is_causal, mask) in given.items():
            if is_causal and mask is None:
                raise ValueError(f"{type(self).__name__}: is_causal: expected {name} with it, as PyTorch does")

    def _batch_first(self, x):
        """(N, T, C) of an input in the layer's order, or of one sample (T, C)."""
        return x[None] if x.ndim == 2 else x if self.batch_first else x.swapaxes(0, 1)

    def _in_order(self, y, given):
        """A result (N, T, C) in the order of what was given."""
        return y[0] if given.ndim == 2 else y if self.batch_first else y.swapaxes(0, 1)

    def _through(self, x, parts):
        """x after each of the parts with its norm."""
        for norm, part in parts:
            x = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return x

    def _transformed(self, x, dropout):
        return dropout(self.linear2(self.dropout(ACTIVATIONS[self.activation](self.linear1(x)))))


class TransformerEncoderLayer(_TransformerLayer):
    """Attention of a sequence to itself, and two linear layers: (N, T, C), or (T, N, C) with batch_first=False. Vaswani et al. 2017."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True):
        self._make(["self_attn"], d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        self._need_masks(src_mask=(is_causal, src_mask))

        hidden = _rows(src_key_padding_mask)

        def attended(x):
            y, _ = self.self_attn(x, key_padding_mask=hidden, need_weights=False, attn_mask=src_mask)
            return self.dropout1(y)

        y = self._through(self._batch_first(src), [(self.norm1, attended), (self.norm2, lambda x: self._transformed(x, self.dropout2))])
        return self._in_order(y, src)


class TransformerDecoderLayer(_TransformerLayer):
    """Attention of a sequence to itself and to the encoder's, and two linear layers: (N, T, C), or (T, N, C) with batch_first=False.
    Vaswani et al. 2017."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True):
        self._make(["self_attn", "multihead_attn"], d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                   norm_first, bias)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        self._need_masks(tgt_mask=(tgt_is_causal, tgt_mask), memory_mask=(memory_is_causal, memory_mask))
        memory, hidden, hidden_memory = self._batch_first(memory), _rows(tgt_key_padding_mask), _rows(memory_key_padding_mask)

        def attended(x):
            y, _ = self.self_attn(x, key_padding_mask=hidden, need_weights=False, attn_mask=tgt_mask)
            return self.dropout1(y)

        def attended_to_memory(x):
            y, _ = self.multihead_attn(x, memory, memory, hidden_memory, False, memory_mask)
            return self.dropout2(y)

        y = self._through(self._batch_first(tgt), [(self.norm1, attended), (self.norm2, attended_to_memory),
                                                   (self.norm3, lambda x: self._transformed(x, self.dropout3))])
        return self._in_order(y, tgt)


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


class TransformerDecoder(Module):
    """Copies of a layer one after the other, and a norm behind them."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.norm = norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                        memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that attends to its result: (N, S, C) and (N, T, C) to (N, T, C), or with N and the tokens swapped where
    batch_first=False. Vaswani et al. 2017."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation="relu", custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False,
                 bias=True):
        super().__init__()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        given = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*given), num_encoder_layers, _layers.LayerNorm(d_model, layer_norm_eps, bias=bias))
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*given), num_decoder_layers, _layers.LayerNorm(d_model, layer_norm_eps, bias=bias))
        for p in self.parameters():
            if len(p.shape) == 2:  # Glorot and Bengio 2010
                bound = math.sqrt(6 / sum(p.shape))
                p.value = random.uniform(p.shape, -bound, bound)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, src_is_causal=False, tgt_is_causal=False, memory_is_causal=False):
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                            memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz):
        """(sz, sz): -inf where a position is behind that of its row, else 0."""
        return xp.where(xp.expand_dims(xp.arange(sz), axis=1) < xp.arange(sz), -math.inf, xp.zeros((sz, sz)))
