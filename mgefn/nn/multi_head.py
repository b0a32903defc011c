"""Multi-head attention as one function with MegEngine's arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mgefn import dtypes, random
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.nn.functions import softmax
from mgefn.nn.linear_maps import dropout
from mgefn.ops.elementwise import promoted

__all__ = ["multi_head_attention"]

_NAME = "multi_head_attention"


def _added(mask: ArrayLike | None, what: str, ndims: tuple[int, ...], wide: Any) -> Any:
    """A mask as numbers to add: booleans that are True forbid."""
    if mask is None:
        return None
    m = mnp.asarray(mask)
    if m.ndim not in ndims:
        ranks = " or ".join(map(str, ndims))
        raise ShapeError(f"{_NAME}: {what} must have rank {ranks}, got {m.aval}.")
    if dtypes.is_bool(m.dtype):
        return mnp.where(m, mnp.asarray(-0.7 * float(np.finfo(np.float32).max), wide), 0)
    return m.astype(wide)


@api_boundary
def multi_head_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    embed_dim: int,
    num_heads: int,
    attn_drop: float = 0.0,
    out_drop: float = 0.0,
    io_weight_bias: ArrayLike | None = None,
    qproj_size: int | None = None,
    kproj_size: int | None = None,
    vproj_size: int | None = None,
    oproj_size: int | None = None,
    qbias: bool = False,
    kbias: bool = False,
    vbias: bool = False,
    obias: bool = False,
    bias_k: ArrayLike | None = None,
    bias_v: ArrayLike | None = None,
    add_zero_attn: bool = False,
    key_padding_mask: ArrayLike | None = None,
    attn_mask: ArrayLike | None = None,
    need_weights: bool = False,
    average_attn_weights: bool = False,
    is_causal: bool = False,
    training: bool = True,
    *,
    rng: ArrayLike | None = None,
) -> tuple[Array, Array | None]:
    """Attention between projections, all of whose weights stand in one vector.

    Args:
        query: shape (batch, T, features) or (T, features); features are as many as it has.
        key, value: shape (batch, S, features) or (S, features).
        embed_dim: total size of the heads; scores are divided by sqrt(embed_dim // num_heads).
        num_heads: into how many parts the projections are split.
        attn_drop, out_drop: probabilities, for weights of attention and for the output.
        io_weight_bias: a vector: weights of query, key, value and output, each (in, out) in
            row-major order, as y = x @ weight + bias has them, then the biases that there are.
        qproj_size, kproj_size, vproj_size, oproj_size: sizes of the projections, positive; None:
            embed_dim. (MegEngine has 0 for a projection that is left out; give its identity.)
        qbias, kbias, vbias, obias: whether there are biases.
        bias_k, bias_v: one more key and value after projection, of as many elements as these have.
        add_zero_attn: one more key and value of zeros.
        key_padding_mask: shape (batch, S) or (S,): True where a key is not to be looked at, or
            numbers added to the scores.
        attn_mask: likewise, shape (T, S) or (batch * num_heads, T, S).
        need_weights: return the weights of attention too.
        average_attn_weights: average them over the heads.
        is_causal: query t looks at no key after t.
        training: whether anything is dropped.
        rng: random key, needed where something can be.

    Returns:
        (output (batch, T, oproj_size), weights or None). Weights are (batch * num_heads, T, S), or
        (batch, T, S) if averaged; without a batch (num_heads, T, S) or (T, S).

    Raises:
        ShapeError: shapes do not fit. ArgumentError: sizes are no multiples of num_heads, or
            io_weight_bias is missing.
    """
    q, k, v = promoted(_NAME, (query, key, value), inexact=True)
    batched = q.ndim == 3
    if q.ndim not in (2, 3) or k.ndim != q.ndim or v.ndim != q.ndim:
        raise ShapeError(
            f"{_NAME}: needs query, key and value (batch, length, features), or all without a "
            f"batch, got {q.aval}, {k.aval} and {v.aval}."
        )
    if io_weight_bias is None:
        raise ArgumentError(f"{_NAME}: needs io_weight_bias, got None.")
    if not batched:
        q, k, v = q[None], k[None], v[None]
    heads, total = operator.index(num_heads), operator.index(embed_dim)
    sizes = [
        total if size is None else operator.index(size)
        for size in (qproj_size, kproj_size, vproj_size, oproj_size)
    ]
    if heads < 1 or min(sizes) < 1 or any(s % heads for s in sizes[:3]) or sizes[0] != sizes[1]:
        raise ArgumentError(
            f"{_NAME}: projections must be multiples of num_heads, those of query and key equal, "
            f"got {sizes} and {heads}."
        )
    weights = mnp.asarray(io_weight_bias).ravel()
    inner = (q.shape[-1], k.shape[-1], v.shape[-1], sizes[2])
    counts = [a * b for a, b in zip(inner, sizes, strict=True)]
    counts += [s if b else 0 for s, b in zip(sizes, (qbias, kbias, vbias, obias), strict=True)]
    if weights.size != sum(counts):
        raise ShapeError(
            f"{_NAME}: io_weight_bias must have {sum(counts)} elements, got {weights.aval}."
        )
    parts = mnp.split(weights, list(np.cumsum(counts)[:-1]))

    def projected(x: Any, i: int) -> Any:
        y = mnp.matmul(x, parts[i].reshape((inner[i], sizes[i])))
        return y + parts[4 + i] if counts[4 + i] else y

    q, k, v = projected(q, 0), projected(k, 1), projected(v, 2)
    n, t = q.shape[:2]
    more = 0
    if (bias_k is None) != (bias_v is None):
        raise ArgumentError(f"{_NAME}: needs bias_k and bias_v, or neither.")
    if bias_k is not None and bias_v is not None:
        k, v = _longer(k, bias_k), _longer(v, bias_v)
        more += 1
    if add_zero_attn:
        k, v = _longer(k, mnp.zeros(k.shape[-1])), _longer(v, mnp.zeros(v.shape[-1]))
        more += 1
    s = k.shape[1]
    q, k, v = (x.reshape((*x.shape[:2], heads, x.shape[2] // heads)) for x in (q, k, v))
    wide = dtypes.promote_types(q.dtype, "float32")
    scores = mnp.einsum("bthd,bshd->bhts", q, k).astype(wide) * (total // heads) ** -0.5

    masks = []
    padding = _added(key_padding_mask, "key_padding_mask", (1, 2), wide)
    if padding is not None:
        padding = padding[None] if padding.ndim == 1 else padding
        masks.append(padding[:, None, None, :])
    given = _added(attn_mask, "attn_mask", (2, 3), wide)
    if given is not None:
        masks.append(given if given.ndim == 2 else given.reshape((n, heads, *given.shape[1:])))
    if is_causal:
        masks.append(_added(~np.tri(t, s - more, dtype=bool), "is_causal", (2,), wide))
    for m in masks:
        # Keys that were put at the end are seen by all.
        scores = scores + mnp.pad(m, [(0, 0)] * (m.ndim - 1) + [(0, more)])
    attention = softmax(scores, -1).astype(v.dtype)
    first = second = None
    if training and rng is not None:
        first, second = random.split(rng)
    attention = dropout(attention, attn_drop, training, key=first)
    y = mnp.einsum("bhts,bshd->bthd", attention, v).reshape((n, t, sizes[2]))
    y = dropout(projected(y, 3), out_drop, training, key=second)
    shown: Any = None
    if need_weights:
        shown = mnp.mean(attention, 1) if average_attn_weights else attention
        if batched and not average_attn_weights:
            shown = shown.reshape((n * heads, t, s))
        elif not batched:
            shown = shown[0]
    return (y if batched else y[0]), shown


def _longer(x: Any, last: ArrayLike) -> Any:
    """Keys or values (batch, S, size) with one more at the end."""
    row = mnp.asarray(last, x.dtype)
    if row.size != x.shape[-1]:
        raise ShapeError(
            f"{_NAME}: one more key or value must have {x.shape[-1]} elements, got {row.aval}."
        )
    rows = mnp.broadcast_to(row.reshape((1, 1, -1)), (x.shape[0], 1, row.size))
    return mnp.concatenate([x, rows], 1)
