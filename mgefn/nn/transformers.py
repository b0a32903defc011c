"""Attention with its projections, and the layers of transformers: (..., T, features).

Sizes and names of the transformer layers are MLX's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from mgefn import numpy as mnp
from mgefn.errors import ArgumentError, ShapeError
from mgefn.nn import functions
from mgefn.nn.attention import dot_product_attention
from mgefn.nn.basic_layers import Dropout, Linear, known
from mgefn.nn.module import Module, Remat, Run
from mgefn.nn.norm_layers import LayerNorm
from mgefn.nn.sequences import rope, sinusoidal_encoding
from mgefn.ops.elementwise import promoted

__all__ = [
    "ALiBi",
    "MultiHeadAttention",
    "RotaryPositionalEmbedding",
    "SinusoidalPositionalEncoding",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


@dataclasses.dataclass(frozen=True)
class RotaryPositionalEmbedding(Module):
    """`nn.rope` as a module, for arrays (..., T, features).

    Args:
        embedding_size: features that take part; None: all.
        theta: base of the frequencies.
        traditional: pairs are neighbours.
    """

    embedding_size: int | None = None
    theta: float = 10000.0
    traditional: bool = False

    def forward(self, run: Run, x: Any, offset: Any = 0) -> Any:
        """An array of the same shape; offset is the position of the first element."""
        return rope(
            x, self.embedding_size, traditional=self.traditional, base=self.theta, offset=offset
        )


@dataclasses.dataclass(frozen=True)
class SinusoidalPositionalEncoding(Module):
    """`nn.sinusoidal_encoding` as a module, from positions to features."""

    dims: int
    min_freq: float = 0.0001
    max_freq: float = 1.0
    scale: float | None = None
    cos_first: bool = False
    full_turns: bool = False

    def forward(self, run: Run, x: Any) -> Any:
        """Positions of any shape to (..., dims)."""
        return sinusoidal_encoding(x, **dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class ALiBi(Module):
    """Scores of attention lowered in proportion to the distance, a slope for each head.

    Source: Press, Smith, Lewis (2021), arXiv:2108.12409.
    """

    num_heads: int | None = None

    def forward(self, run: Run, scores: Any, offset: int = 0) -> Any:
        """Scores (..., heads, T, S), and the position of the first query, to such."""
        scores = mnp.asarray(scores)
        heads, t, s = scores.shape[-3:]
        known(run, "ALiBi", "num_heads", self.num_heads, scores, -3)
        slopes = mnp.exp2(-8.0 * mnp.arange(1, heads + 1) / heads).astype(scores.dtype)
        distance = mnp.abs(mnp.arange(offset, offset + t)[:, None] - mnp.arange(s))
        return scores - slopes[:, None, None] * distance.astype(scores.dtype)


@dataclasses.dataclass(frozen=True)
class MultiHeadAttention(Module):
    """Attention between projections of queries, keys and values.

    Args:
        embed_dim: features of the query; None: those of the input.
        num_heads: into how many parts the projections are split.
        num_key_heads: how many of keys and values, a divisor of num_heads; None: as many.
        head_dim: None: features / num_heads.
        out_dim: None: features of the query.
        bias: whether the projections have one.
        dropout: probability, for the weights of attention when training.
        causal: a query looks at no key after its own position.
        rotary: turn queries and keys by `nn.rope`.
        block_size: queries at a time, so that memory grows by T + S, not by T * S; None: all.

    Parameters: query, key, value, out, each those of `Linear`.

    Source: Vaswani et al. (2017), arXiv:1706.03762.
    """

    embed_dim: int | None
    num_heads: int
    num_key_heads: int | None = None
    head_dim: int | None = None
    out_dim: int | None = None
    bias: bool = True
    dropout: float = 0.0
    causal: bool = False
    rotary: bool = False
    block_size: int | None = None

    def forward(
        self, run: Run, query: Any, key: Any = None, value: Any = None, mask: Any = None
    ) -> Any:
        """(..., T, features) to such.

        key is query where None, value is key. mask: booleans that broadcast to (..., heads, T, S),
        or numbers added to the scores.
        """
        query = mnp.asarray(query)
        key = query if key is None else mnp.asarray(key)
        value = key if value is None else mnp.asarray(value)
        if query.ndim < 2:
            raise ShapeError(f"MultiHeadAttention: needs (..., T, features), got {query.aval}.")
        name, held = "MultiHeadAttention", ("query", "weight")
        n = known(run, name, "embed_dim", self.embed_dim, query, -1, held, 1)
        heads, shared = self.num_heads, self.num_key_heads or self.num_heads
        if self.head_dim is None and n % heads:
            raise ArgumentError(
                f"MultiHeadAttention: num_heads must divide the {n} features, got {heads}. "
                "Give head_dim otherwise."
            )
        size = self.head_dim or n // heads

        def projected(name: str, x: Any, count: int) -> Any:
            y = run(name, Linear(None, count * size, self.bias), x)
            return y.reshape((-1, x.shape[-2], count, size))

        q = projected("query", query, heads)
        k = projected("key", key, shared)
        v = projected("value", value, shared)
        # Queries and keys may come in different dtypes.
        q, k, v = promoted("MultiHeadAttention", (q, k, v))
        if self.rotary:
            q, k = (mnp.swapaxes(rope(mnp.swapaxes(a, 1, 2)), 1, 2) for a in (q, k))
        masks = self._masks(mask, query.shape[:-2], (heads, q.shape[1], k.shape[1]))
        if run.train and self.dropout:
            y = self._with_dropout(run, q, k, v, **masks)
        else:
            y = dot_product_attention(
                q,
                k,
                v,
                masks.get("bias"),
                masks.get("mask"),
                is_causal=self.causal,
                block_size=self.block_size,
            )
        y = y.reshape((*query.shape[:-1], heads * size))
        return run("out", Linear(None, self.out_dim or n, self.bias), y)

    def _masks(
        self, mask: Any, batch: tuple[int, ...], sizes: tuple[int, int, int]
    ) -> dict[str, Any]:
        if mask is None:
            return {}
        m = mnp.asarray(mask)
        if m.ndim > 4:
            m = mnp.broadcast_to(m, (*batch, *m.shape[-3:])).reshape((-1, *m.shape[-3:]))
        elif m.ndim == len(batch) + 3 and len(batch) != 1:
            m = m.reshape((-1, *m.shape[-3:]))
        return {"mask": m} if m.dtype == bool else {"bias": m}

    def _with_dropout(
        self, run: Run, q: Any, k: Any, v: Any, mask: Any = None, bias: Any = None
    ) -> Any:
        groups = q.shape[2] // k.shape[2]
        k, v = (mnp.repeat(a, groups, 2) for a in (k, v))
        scores = mnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        scores = scores if bias is None else scores + bias
        allowed = mask
        if self.causal:
            ahead = mnp.arange(k.shape[1]) <= mnp.arange(q.shape[1])[:, None]
            allowed = ahead if mask is None else mnp.logical_and(mask, ahead)
        if allowed is not None:
            scores = mnp.where(allowed, scores, mnp.asarray(-1e30, scores.dtype)
                               if scores.dtype.itemsize > 2 else -1e4)  # fmt: skip
        weights = run("dropout", Dropout(self.dropout), functions.softmax(scores, -1))
        return mnp.einsum("bhts,bshd->bthd", weights, v)


@dataclasses.dataclass(frozen=True)
class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, then two linear layers, each added to its input.

    Args:
        dims: features; None: those of the input.
        num_heads: of the attention.
        mlp_dims: width between the linear layers; None: 4 * dims.
        dropout: probability, when training.
        activation: between the linear layers.
        norm_first: normalise the inputs of both parts; otherwise the sums.
        causal: a position looks at none after it.

    Parameters: attention, ln1, ln2, linear1, linear2.
    """

    dims: int | None
    num_heads: int
    mlp_dims: int | None = None
    dropout: float = 0.0
    activation: Callable[[Any], Any] = functions.relu
    norm_first: bool = True
    causal: bool = False

    def forward(self, run: Run, x: Any, mask: Any = None) -> Any:
        """(..., T, features) to such; mask as for `MultiHeadAttention`."""
        x = mnp.asarray(x)
        n = known(run, type(self).__name__, "dims", self.dims, x, -1, ("ln1", "weight"))
        attend = MultiHeadAttention(n, self.num_heads, causal=self.causal)

        def attention(y: Any) -> Any:
            return run("attention", attend, y, mask=mask)

        x = _added(run, self, "1", x, attention)
        return _added(run, self, "2", x, _mlp(run, self, n))


def _added(run: Run, layer: Any, i: str, x: Any, part: Callable[[Any], Any]) -> Any:
    """One part with its normalisation and dropout, added to its input."""
    norm, drop = LayerNorm(), Dropout(layer.dropout)
    if layer.norm_first:
        return x + run(f"dropout{i}", drop, part(run(f"ln{i}", norm, x)))
    return run(f"ln{i}", norm, x + run(f"dropout{i}", drop, part(x)))


def _mlp(run: Run, layer: Any, n: int) -> Callable[[Any], Any]:
    def part(y: Any) -> Any:
        y = layer.activation(run("linear1", Linear(n, layer.mlp_dims or 4 * n), y))
        y = run("dropout", Dropout(layer.dropout), y)
        return run("linear2", Linear(None, n), y)

    return part


@dataclasses.dataclass(frozen=True)
class TransformerDecoderLayer(Module):
    """Attention to itself, which is causal, then to a memory, then two linear layers.

    Arguments as for `TransformerEncoderLayer`.

    Parameters: self_attention, cross_attention, ln1, ln2, ln3, linear1, linear2.
    """

    dims: int | None
    num_heads: int
    mlp_dims: int | None = None
    dropout: float = 0.0
    activation: Callable[[Any], Any] = functions.relu
    norm_first: bool = True
    causal: bool = True

    def forward(
        self, run: Run, x: Any, memory: Any, x_mask: Any = None, memory_mask: Any = None
    ) -> Any:
        """(..., T, features) and a memory (..., S, any) to (..., T, features)."""
        x = mnp.asarray(x)
        n = known(run, type(self).__name__, "dims", self.dims, x, -1, ("ln1", "weight"))

        def to_itself(y: Any) -> Any:
            attend = MultiHeadAttention(n, self.num_heads, causal=self.causal)
            return run("self_attention", attend, y, mask=x_mask)

        def to_memory(y: Any) -> Any:
            attend = MultiHeadAttention(n, self.num_heads)
            return run("cross_attention", attend, y, memory, mask=memory_mask)

        x = _added(run, self, "1", x, to_itself)
        x = _added(run, self, "2", x, to_memory)
        return _added(run, self, "3", x, _mlp(run, self, n))


@dataclasses.dataclass(frozen=True)
class TransformerEncoder(Module):
    """`TransformerEncoderLayer`s one after the other.

    Args:
        num_layers: how many.
        dims, num_heads, mlp_dims, dropout, activation, norm_first: of each.
        checkpoint: compute the layers again in the backward pass instead of keeping their values.
        causal: a position looks at none after it.

    Parameters: layers: {"0", "1", ...}; with norm_first ln, the normalisation at the end.
    """

    num_layers: int
    dims: int | None
    num_heads: int
    mlp_dims: int | None = None
    dropout: float = 0.0
    activation: Callable[[Any], Any] = functions.relu
    norm_first: bool = True
    checkpoint: bool = False
    causal: bool = False

    def forward(self, run: Run, x: Any, mask: Any = None) -> Any:
        """(..., T, features) to such."""
        layer = TransformerEncoderLayer(self.dims, self.num_heads, self.mlp_dims, self.dropout,
                                        self.activation, self.norm_first, self.causal)  # fmt: skip
        return _stack(run, self, layer, x, mask=mask)


@dataclasses.dataclass(frozen=True)
class TransformerDecoder(Module):
    """`TransformerDecoderLayer`s one after the other; arguments as for `TransformerEncoder`."""

    num_layers: int
    dims: int | None
    num_heads: int
    mlp_dims: int | None = None
    dropout: float = 0.0
    activation: Callable[[Any], Any] = functions.relu
    norm_first: bool = True
    checkpoint: bool = False

    def forward(
        self, run: Run, x: Any, memory: Any, x_mask: Any = None, memory_mask: Any = None
    ) -> Any:
        """(..., T, features) and a memory (..., S, any) to (..., T, features)."""
        layer = TransformerDecoderLayer(self.dims, self.num_heads, self.mlp_dims, self.dropout,
                                        self.activation, self.norm_first)  # fmt: skip
        return _stack(run, self, layer, x, memory, x_mask=x_mask, memory_mask=memory_mask)


def _stack(run: Run, whole: Any, layer: Module, x: Any, *inputs: Any, **options: Any) -> Any:
    x = run("layers", _Layers(whole.num_layers, layer, whole.checkpoint), x, *inputs, **options)
    return run("ln", LayerNorm(), x) if whole.norm_first else x


@dataclasses.dataclass(frozen=True)
class _Layers(Module):
    count: int
    layer: Module
    checkpoint: bool

    def forward(self, run: Run, x: Any, *inputs: Any, **options: Any) -> Any:
        layer = Remat(self.layer) if self.checkpoint else self.layer
        for i in range(self.count):
            x = run(str(i), layer, x, *inputs, **options)
        return x


@dataclasses.dataclass(frozen=True)
class Transformer(Module):
    """An encoder of a source, and a decoder of a target that attends to it.

    Parameters: encoder, decoder.
    """

    dims: int | None = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    mlp_dims: int | None = None
    dropout: float = 0.0
    activation: Callable[[Any], Any] = functions.relu
    norm_first: bool = True
    checkpoint: bool = False

    def forward(
        self,
        run: Run,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
    ) -> Any:
        """(..., S, features) and (..., T, features) to (..., T, features)."""
        rest = (self.dims, self.num_heads, self.mlp_dims, self.dropout, self.activation,
                self.norm_first, self.checkpoint)  # fmt: skip
        memory = run("encoder", TransformerEncoder(self.num_encoder_layers, *rest), src, src_mask)
        decoder = TransformerDecoder(self.num_decoder_layers, *rest)
        return run("decoder", decoder, tgt, memory, tgt_mask, memory_mask)
