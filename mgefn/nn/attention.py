"""Attention: averages of values, weighted by how well keys answer queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.control.checkpoint import checkpoint
from mgefn.control.scan import scan
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.nn.functions import softmax
from mgefn.numpy import pad
from mgefn.numpy.creation import arange, asarray
from mgefn.ops.contractions import einsum
from mgefn.ops.elementwise import stop_gradient_leaf, where
from mgefn.ops.reductions import logsumexp
from mgefn.ops.shaping import expand_dims, moveaxis, reshape, transpose

__all__ = ["dot_product_attention"]

_NAME = "dot_product_attention"


def _of_rank_4(name: str, x: ArrayLike) -> Any:
    a = asarray(x)
    if a.ndim > 4:
        raise ShapeError(f"{_NAME}: {name} must have rank 4 or less, got {a.aval}.")
    return reshape(a, (1,) * (4 - a.ndim) + a.shape)


def _lengths(name: str, x: ArrayLike | None, batch: int) -> Any:
    if x is None:
        return None
    a = asarray(x)
    if a.shape != (batch,) or not dtypes.is_integer(a.dtype):
        raise ShapeError(f"{_NAME}: {name} must be {batch} integers, got {a.aval}.")
    return a


def _grouped(name: str, x: Any, full: tuple[int, int, int, int], key_heads: int) -> Any:
    """(B, N, T, S) as (B, K, G, T, S); where a size is 1 it stays 1."""
    if any(n not in (1, m) for n, m in zip(x.shape, full, strict=True)):
        raise ShapeError(f"{_NAME}: {name} must broadcast to {full}, got {x.aval}.")
    heads = (1, 1) if x.shape[1] == 1 else (key_heads, x.shape[1] // key_heads)
    return reshape(x, (x.shape[0], *heads, *x.shape[2:]))


def _allowed(
    query_at: Any,
    s: int,
    is_causal: bool,
    window: tuple[int, int] | None,
    query_lengths: Any,
    key_lengths: Any,
) -> list[Any]:
    """Masks of which query may look at which key, each to broadcast with (B, K, G, T, S).

    Positions of queries are a column, in NumPy where they are known, so that a program holds the
    masks as constants.
    """
    key_at = np.arange(s)[None, :]
    masks: list[Any] = []
    if is_causal:
        masks.append(key_at <= query_at)
    if window is not None:
        left, right = window
        masks.append((query_at <= key_at + left) & (query_at >= key_at - right))
    if query_lengths is not None:
        masks.append(query_at < reshape(query_lengths, (-1, 1, 1, 1, 1)))
    if key_lengths is not None:
        masks.append(arange(s) < reshape(key_lengths, (-1, 1, 1, 1, 1)))
    return masks


def _attend(
    grouped: Any, k: Any, v: Any, scale: Any, bias: Any, masks: list[Any]
) -> tuple[Any, Any]:
    """Values (B, T, K, G, H) for queries of that shape, and the scores (B, K, G, T, S)."""
    wide = dtypes.promote_types(grouped.dtype, "float32")
    scores = einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide)
    scores = scores * asarray(scale, wide)
    if bias is not None:
        scores = (scores + bias).astype(wide)
    if masks:
        allowed = masks[0]
        for m in masks[1:]:
            allowed = allowed & m
        # Finite, so that a row without any key has weights, and no NaN.
        scores = where(allowed, scores, asarray(-0.7 * float(np.finfo(np.float32).max), wide))
    weights = softmax(scores, axis=-1).astype(k.dtype)
    return einsum("bkgts,bskh->btkgh", weights, v), scores


def _in_blocks(x: Any, axis: int, size: int, count: int, t: int) -> Any:
    """Blocks (count, ..., size, ...) of an array with T along an axis; None where it has none."""
    if x is None or x.shape[axis] != t or t == 1:
        return None
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, size * count - t)
    x = pad(x, widths)
    x = reshape(x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    return moveaxis(x, axis, 0)


@api_boundary
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
    block_size: int | None = None,
) -> Any:
    """softmax(scale * query key^T + bias) value, for each head.

    B is the number of examples, T and S those of queries and keys, N and K the numbers of heads of
    queries and keys, H the size of a head. N is a multiple of K; with K less than N, N / K heads of
    queries share one of keys (grouped-query attention). Scores and their softmax are computed in
    float32 or more; in each row at least one key should be allowed: where none is, the weights
    are equal.

    Args:
        query: shape (B, T, N, H) or (T, N, H).
        key, value: shape (B, S, K, H) or (S, K, H), of the dtype of query.
        bias: added to the scores; it broadcasts to (B, N, T, S) or (N, T, S).
        mask: booleans that broadcast so: which query may look at which key.
        scale: None: 1 / sqrt(H).
        is_causal: query t looks at no key after t.
        query_seq_lengths: shape (B,): how many queries of an example count; the rest give 0.
        key_value_seq_lengths: shape (B,): how many keys of an example count.
        local_window_size: (left, right), or one number for both: query t looks at keys from
            t - left to t + right.
        implementation: None or "xla", which name the one there is.
        block_size: so many queries at a time, whose scores the backward pass computes again: memory
            grows by T + S instead of T * S. None: all at once.
        return_residual: return also the logarithms of the sums of exponentials, shape (B, T, N) or
            (T, N), through which no derivative flows.

    Returns:
        Array of the shape and dtype of query, or (array, residual).

    Raises:
        ShapeError: the shapes do not fit. DTypeError: the dtypes differ, or mask is not bool.
        ArgumentError: another implementation.

    Source: Vaswani et al. (2017), arXiv:1706.03762; Ainslie et al. (2023), arXiv:2305.13245.
    """
    if implementation not in (None, "xla"):
        raise ArgumentError(
            f"{_NAME}: implementation must be None or 'xla', got {implementation!r}."
        )
    shape = asarray(query).shape
    q, k, v = (_of_rank_4(n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    if not q.dtype == k.dtype == v.dtype or not dtypes.is_float(q.dtype):
        raise DTypeError(
            f"{_NAME}: needs query, key and value of one floating dtype, got {q.aval}, {k.aval} "
            f"and {v.aval}. Cast them."
        )
    b, t, n, h = q.shape
    s, heads = k.shape[1:3]
    if v.shape != k.shape or k.shape[0] != b or k.shape[3] != h or not heads or n % heads:
        raise ShapeError(
            f"{_NAME}: needs query (B, T, N, H), key and value (B, S, K, H), N a multiple of K, "
            f"got {q.aval}, {k.aval} and {v.aval}."
        )
    if isinstance(local_window_size, int):
        local_window_size = (local_window_size, local_window_size)
    query_lengths = _lengths("query_seq_lengths", query_seq_lengths, b)
    key_lengths = _lengths("key_value_seq_lengths", key_value_seq_lengths, b)

    grouped = reshape(q, (b, t, heads, n // heads, h))
    factor = 1 / math.sqrt(h) if scale is None else scale
    added = given = None
    if bias is not None:
        added = _grouped("bias", _of_rank_4("bias", bias), (b, n, t, s), heads)
    if mask is not None:
        given = _of_rank_4("mask", mask)
        if not dtypes.is_bool(given.dtype):
            raise DTypeError(f"{_NAME}: mask must be bool, got {given.aval}. Add it as a bias.")
        given = _grouped("mask", given, (b, n, t, s), heads)

    def rows(queries: Any, query_at: Any, own_bias: Any, own_mask: Any) -> tuple[Any, Any]:
        masks = _allowed(query_at, s, is_causal, local_window_size, query_lengths, key_lengths)
        if own_mask is not None:
            masks.append(own_mask)
        out, scores = _attend(queries, k, v, factor, own_bias, masks)
        if not return_residual:
            return out, None
        return out, logsumexp(stop_gradient_leaf(scores), axis=-1)

    if block_size is not None and block_size < 1:
        raise ArgumentError(f"{_NAME}: block_size must be 1 or more, got {block_size}.")
    if block_size is None or t <= block_size:
        out, residual = rows(grouped, np.arange(t)[:, None], added, given)
    else:
        count = -(-t // block_size)
        blocks = [_in_blocks(x, i, block_size, count, t)
                  for x, i in ((grouped, 1), (added, 3), (given, 3))]  # fmt: skip
        at = reshape(arange(count * block_size), (count, block_size, 1))

        @checkpoint
        def step(carry: Any, one: Any) -> tuple[Any, Any]:
            queries, query_at, own_bias, own_mask = one
            own_bias = added if own_bias is None else own_bias
            return carry, rows(queries, query_at, own_bias, given if own_mask is None else own_mask)

        _, (out, residual) = scan(step, None, (blocks[0], at, blocks[1], blocks[2]))
        out = moveaxis(out, 0, 1)
        out = reshape(out, (b, count * block_size, heads, n // heads, h))[:, :t]
        if residual is not None:
            residual = moveaxis(residual, 0, 3)
            residual = reshape(residual, (b, heads, n // heads, count * block_size))[..., :t]
    out = reshape(out, (b, t, n, h))
    if query_lengths is not None:
        counts = arange(t) < expand_dims(query_lengths, 1)
        out = where(expand_dims(counts, (2, 3)), out, 0).astype(out.dtype)
    out = reshape(out, shape)
    if not return_residual:
        return out
    residual = transpose(reshape(residual, (b, n, t)), (0, 2, 1))
    return out, reshape(residual.astype(k.dtype), shape[:-1])
