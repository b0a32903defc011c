"""Masks, positions and steps of sequences, and what measures their classification."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import dtypes, tree
from mgefn import numpy as mnp
from mgefn.control.scan import scan
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted

__all__ = [
    "combine_masks",
    "make_attention_mask",
    "make_causal_mask",
    "rope",
    "scan_rnn",
    "sinusoidal_encoding",
    "topk_accuracy",
]


@api_boundary
def make_attention_mask(
    query_input: ArrayLike,
    key_input: ArrayLike,
    pairwise_fn: Callable[[Any, Any], Any] = mnp.multiply,
    extra_batch_dims: int = 0,
    dtype: DTypeLike = "float32",
) -> Array:
    """Which query may look at which key, from what is known of each position.

    Args:
        query_input: shape (..., T).
        key_input: shape (..., S).
        pairwise_fn: (queries (..., T, 1), keys (..., 1, S)) -> (..., T, S).
        extra_batch_dims: dimensions of 1 put in front.
        dtype: of the result.

    Returns:
        Array of shape (..., 1, T, S), the 1 for heads.

    Example:
        >>> mgefn.nn.make_attention_mask(mnp.array([1, 1]), mnp.array([1, 0]), dtype=bool)
        Array([[[ True, False],
                [ True, False]]], dtype=bool)
    """
    q, k = mnp.asarray(query_input), mnp.asarray(key_input)
    mask = pairwise_fn(mnp.expand_dims(q, -1), mnp.expand_dims(k, -2))
    mask = mnp.expand_dims(mask, -3)
    mask = mnp.expand_dims(mask, tuple(range(operator.index(extra_batch_dims))))
    return mask.astype(dtype)


@api_boundary
def make_causal_mask(
    x: ArrayLike, extra_batch_dims: int = 0, dtype: DTypeLike = "float32"
) -> Array:
    """The mask by which position t looks at positions 0 to t.

    Args:
        x: shape (..., T); only its shape counts.
        extra_batch_dims: dimensions of 1 put in front.
        dtype: of the result.

    Returns:
        Array of shape (..., 1, T, T).
    """
    a = mnp.asarray(x)
    if not a.ndim:
        raise ShapeError(f"make_causal_mask: needs a dimension of time, got {a.aval}.")
    at = mnp.broadcast_to(mnp.arange(a.shape[-1]), a.shape)
    return make_attention_mask(at, at, mnp.greater_equal, extra_batch_dims, dtype)


@api_boundary
def combine_masks(*masks: ArrayLike | None, dtype: DTypeLike = "float32") -> Array | None:
    """Where all masks allow it. None are left out; with nothing left the result is None.

    Example:
        >>> mgefn.nn.combine_masks(mnp.array([1, 1]), None, mnp.array([0, 1]))
        Array([0., 1.], dtype=float32)
    """
    given = [mnp.asarray(m) for m in masks if m is not None]
    if not given:
        return None
    if any(m.ndim != given[0].ndim for m in given):
        raise ShapeError(
            f"combine_masks: needs masks of one rank, got {', '.join(str(m.aval) for m in given)}."
        )
    return functools.reduce(mnp.logical_and, given).astype(dtype)


@api_boundary
def rope(
    x: ArrayLike,
    dims: int | None = None,
    *,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    offset: ArrayLike = 0,
    freqs: ArrayLike | None = None,
) -> Array:
    """Rotate pairs of features by angles in proportion to the position (rotary embedding).

    Pair i of n is turned by position * scale * base**(-i / n).

    Args:
        x: real, shape (..., T, features); positions count along T.
        dims: how many of the first features take part, an even number; None: all.
        traditional: pairs are (0, 1), (2, 3), ...; otherwise (0, n), (1, n + 1), ...
        base: of the frequencies; None: use freqs.
        scale: factor of positions.
        offset: position of the first element, one number or one that broadcasts to x.shape[:-2]
            plus (1,).
        freqs: shape (dims / 2,): lengths of the waves instead of base**(i / n).

    Source: Su et al. (2021), arXiv:2104.09864.
    """
    (a,) = promoted("rope", (x,), inexact=True)
    if a.ndim < 2:
        raise ShapeError(f"rope: needs (..., T, features), got {a.aval}.")
    n = a.shape[-1] if dims is None else operator.index(dims)
    if n % 2 or not 0 <= n <= a.shape[-1]:
        raise ArgumentError(
            f"rope: dims must be even and no more than the features, got {n} for {a.aval}."
        )
    wide = dtypes.promote_types(a.dtype, "float32")
    half = n // 2
    if freqs is not None:
        slow = 1 / mnp.asarray(freqs, wide)
    elif base is not None:
        slow = mnp.exp(mnp.arange(half, dtype=wide) * (-math.log(base) / max(half, 1)))
    else:
        raise ArgumentError("rope: needs base or freqs, got None for both.")
    at = (mnp.arange(a.shape[-2], dtype=wide) + mnp.asarray(offset)).astype(wide) * scale
    angles = mnp.expand_dims(at, -1) * slow
    cos, sin = mnp.cos(angles), mnp.sin(angles)
    turned, rest = a[..., :n], a[..., n:]
    if traditional:
        first, second = turned[..., ::2], turned[..., 1::2]
        pairs = mnp.stack([first * cos - second * sin, first * sin + second * cos], -1)
        out = pairs.reshape(turned.shape)
    else:
        first, second = turned[..., :half], turned[..., half:]
        out = mnp.concatenate([first * cos - second * sin, first * sin + second * cos], -1)
    return mnp.concatenate([out.astype(a.dtype), rest], -1)


@api_boundary
def sinusoidal_encoding(
    x: ArrayLike,
    dims: int,
    min_freq: float = 0.0001,
    max_freq: float = 1.0,
    scale: float | None = None,
    cos_first: bool = False,
    full_turns: bool = False,
) -> Array:
    """Positions as sines and cosines of frequencies in geometric progression.

    Args:
        x: positions, any shape.
        dims: how many features, an even number.
        min_freq, max_freq: ends of the progression.
        scale: factor of the result; None: sqrt(2 / dims).
        cos_first: cosines in front of sines.
        full_turns: frequencies count turns, not radians.

    Returns:
        Array of shape (*x.shape, dims).

    Source: Vaswani et al. (2017), arXiv:1706.03762, section 3.5.
    """
    (a,) = promoted("sinusoidal_encoding", (x,), inexact=True)
    n = operator.index(dims)
    if n % 2 or n < 2:
        raise ArgumentError(f"sinusoidal_encoding: dims must be even and positive, got {n}.")
    half = n // 2
    fraction = 1 - mnp.arange(half, dtype=a.dtype) / max(half - 1, 1)
    low, high = math.log(min_freq), math.log(max_freq)
    frequencies = mnp.exp(fraction * (high - low) + low)
    if full_turns:
        frequencies = frequencies * (2 * math.pi)
    angles = mnp.expand_dims(a, -1) * frequencies
    parts = [mnp.sin(angles), mnp.cos(angles)]
    out = mnp.concatenate(parts[::-1] if cos_first else parts, -1)
    return out * (math.sqrt(2 / n) if scale is None else scale)


@api_boundary
def scan_rnn(
    core: Callable[[Any, Any], tuple[Any, Any]],
    input_sequence: Any,
    initial_state: Any,
    time_major: bool = True,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run a recurrent function over time, as one `lax.scan`.

    Args:
        core: (input, state) -> (output, state).
        input_sequence: tree of arrays (T, batch, ...), or (batch, T, ...).
        initial_state: tree of arrays.
        time_major: whether time comes before the batch, in inputs and outputs.
        reverse: run from the last step to the first; outputs stay in the order of time.

    Returns:
        (outputs, state after the last step).

    Example:
        >>> core = lambda x, total: (total + x, total + x)
        >>> mgefn.nn.scan_rnn(core, mnp.array([1.0, 2.0, 3.0]), mnp.array(0.0))
        (Array([1., 3., 6.], dtype=float32), Array(6., dtype=float32))
    """
    if not callable(core):
        raise ArgumentError(f"scan_rnn: core must be a function, got {core!r}.")

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        y, state = core(x, state)
        return state, y

    def swapped(xs: Any) -> Any:
        return xs if time_major else tree.map(lambda x: mnp.swapaxes(x, 0, 1), xs)

    state, ys = scan(step, initial_state, swapped(input_sequence), reverse=reverse)
    return swapped(ys), state


@api_boundary
def topk_accuracy(
    logits: ArrayLike, target: ArrayLike, topk: int | Sequence[int] = 1
) -> Array | list[Array]:
    """The share of rows whose class is among those with the k largest scores.

    Args:
        logits: shape (batch, classes).
        target: the right classes, shape (batch,). One that is no class is never found.
        topk: k, or several.

    Returns:
        Array of rank 0, or a list of them. Among equal scores a class counts as the later one,
        so that a model without an opinion is not right.

    Example:
        >>> mgefn.nn.topk_accuracy(mnp.array([[0.1, 0.9], [0.8, 0.2]]), mnp.array([1, 1]))
        Array(0.5, dtype=float32)
    """
    (scores,) = promoted("topk_accuracy", (logits,))
    classes = mnp.asarray(target)
    if scores.ndim != 2 or classes.shape != scores.shape[:1]:
        raise ShapeError(
            f"topk_accuracy: needs scores (batch, classes) and classes (batch,), got {scores.aval} "
            f"and {classes.aval}."
        )
    right = mnp.take_along_axis(scores, mnp.expand_dims(classes, 1), 1)
    # The class itself is counted too. A NaN is no opinion, and never among the largest.
    rank = mnp.sum(~(scores < right), 1)
    ks = [topk] if isinstance(topk, int) else [operator.index(k) for k in topk]
    known = ~mnp.isnan(right[:, 0])
    shares = [mnp.mean((known & (rank <= k)).astype(dtypes.default_float())) for k in ks]
    return shares[0] if isinstance(topk, int) else shares
