"""Layers whose calls bring more than one array, or give more: tables of rows, recurrent layers and attention."""
from . import _array_api as xp
from ._module import Layer, _results


class EmbeddingLayer(Layer):
    """Layers of a table whose rows tokens name."""

    def _make(self, given):
        padding, rows = given["padding_idx"], given["num_embeddings"]
        if isinstance(padding, int) and isinstance(rows, int):
            if not -rows <= padding < rows:
                raise ValueError(f"{self._type}, padding_idx: expected a row from {-rows} to {rows - 1}, got {padding}")
            given = {**given, "padding_idx": padding % rows}
        super()._make(given)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, **settings):
        """The layer whose weight is a copy of `embeddings`, (tokens, width); it is trained with freeze=False. The settings are those of
        the class, by name."""
        rows = xp.asarray(embeddings)
        if rows.ndim != 2:
            raise ValueError(f"{cls.__name__}.from_pretrained: embeddings: expected an array (tokens, width), got shape {rows.shape}")
        layer = cls(*rows.shape, padding_idx=padding_idx, **settings)
        layer.weight = rows
        return layer.requires_grad_(not freeze)


class BagLayer(EmbeddingLayer):
    """EmbeddingBag, whose calls may bring more than tokens: layer(tokens, offsets, per_sample_weights=w)."""

    def forward(self, input, offsets=None, per_sample_weights=None):
        """input: tokens (N, T), or (T,) with offsets. offsets: integers (N), where each sample begins. per_sample_weights: factors of the
        rows, of the shape of the tokens, for mode sum. Returns (N, W)."""
        return self._forwarded(input, offsets, per_sample_weights)

    def _run(self, node, arguments, keywords):
        return self._bags(node, *arguments, **keywords)

    def _bags(self, node, input, offsets=None, per_sample_weights=None):
        if offsets is None and per_sample_weights is None:
            return _results(node.call([input]))
        from .nn.functional import embedding_bag

        return embedding_bag(input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights, padding_idx=self.padding_idx)

    _bags.__qualname__ = "BagLayer.forward"  # in errors of keywords


class RecurrentLayer(Layer):
    """Layers with states: layer(x, state, lengths=n) gives the output and the last states, (h, c) of an LSTM."""

    def forward(self, x, state=None, *, lengths=None):
        """x: (N, T, C), or (T, C) of one sample. state: the first h, of an LSTM (h, c), each (layers * directions, N, H), by default
        zeros. lengths: integers (N), the steps of each sample that count; those behind are not read. Returns (output, state):
        output (N, T, directions * H), zero behind a sample's length, and the states behind its last step."""
        return self._forwarded(x, state, lengths=lengths)

    def _run(self, node, arguments, keywords):
        return self._recurrent(node, *arguments, **keywords)

    def _recurrent(self, node, x, state=None, *, lengths=None):
        h, c = state if isinstance(state, tuple) else (state, None)
        if x.ndim == 2:  # a sample without a batch axis
            h, c = (s if s is None else s[:, None] for s in (h, c))
            y, states = self._recurrent(node, x[None], (h, c), lengths=lengths if lengths is None else xp.reshape(xp.asarray(lengths), (1,)))
            return y[0], tuple(s[:, 0] for s in states) if isinstance(states, tuple) else states[:, 0]
        output, *states = node.call_recurrent(x, h, c, lengths if lengths is None else xp.asarray(lengths))
        return output, tuple(states) if len(states) > 1 else states[0]

    _recurrent.__qualname__ = "RecurrentLayer.forward"  # in errors of keywords


class AttentionLayer(Layer):
    """Attention as PyTorch's with batch_first: gives the output and, with need_weights, the weights, else None."""

    def forward(self, query, key=None, value=None, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
                is_causal=False):
        """query: (N, T, E), key and value: (N, S, E), by default query and key; or one sample without N. key_padding_mask: (N, S), bool
        with True for keys that are left out, as in PyTorch, or numbers that are added to scores. attn_mask: the same, (T, S) or
        (N * heads, T, S). is_causal: query t sees keys 0 to t. Returns (output (N, T, E), weights (N, T, S), of each head with
        average_attn_weights=False: (N, heads, T, S); None without need_weights)."""
        return self._forwarded(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)

    def _run(self, node, arguments, keywords):
        return self._attention(node, *arguments, **keywords)

    def _attention(self, node, query, key=None, value=None, key_padding_mask=None, need_weights=True, attn_mask=None,
                   average_attn_weights=True, is_causal=False):
        if query.ndim == 2:  # a sample without a batch axis
            query, key, value, key_padding_mask = (a if a is None else a[None] for a in (query, key, value, key_padding_mask))
            y, weights = self._attention(node, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
            return y[0], weights if weights is None else weights[0]
        key = query if key is None else key
        found = node.call_attention(query, key, key if value is None else value, key_padding_mask, attn_mask, is_causal,
                                    need_weights, average_attn_weights)
        return found if need_weights else (found, None)

    _attention.__qualname__ = "AttentionLayer.forward"  # in errors of keywords
