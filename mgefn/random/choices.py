"""Permutations, and choices from elements or categories."""

from __future__ import annotations

import math
import operator
from typing import Any

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import broadcast_shapes
from mgefn.numpy.creation import arange, asarray, zeros
from mgefn.ops import reductions
from mgefn.ops.cumulative import cumsum
from mgefn.ops.elementwise import (
    convert,
    promoted,
)
from mgefn.ops.indexing.select import take
from mgefn.ops.random_bits import sampling_log_p
from mgefn.ops.shaping import (
    canonical_shape,
    moveaxis,
    normalize_axis,
    reshape,
    slice_in_dim,
)
from mgefn.ops.sorting import searchsorted, sort_key_val, top_k
from mgefn.random.continuous import gumbel
from mgefn.random.keys import row, split, words
from mgefn.random.uniforms import (
    randint,
    random_bits,
    uniform,
)


def _known_int(name: str, x: Any) -> int:
    if isinstance(x, Tracer) and x.concrete() is None:
        raise ConcretizationTypeError(
            f"{name}: needs a known integer, because it decides the result's shape, got the traced "
            f"{x.aval}. Mark the argument it comes from with static_argnums."
        )
    try:
        return operator.index(x)
    except TypeError:
        raise DTypeError(
            f"{name}: needs an integer or an array of rank 1 or more, got {x!r}."
        ) from None


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    # Sorting by random keys of 32 bits; enough rounds make equal keys harmless.
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = split(key)
        key, subkey = (row(keys, i) for i in range(2))
        _, x = sort_key_val(random_bits("permutation", subkey, 32, x.shape), x, axis)
    return x


@api_boundary
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """A random order of the elements along an axis, or of the numbers below an integer.

    Args:
        key: a key.
        x: an array, or an integer n for arange(n).
        axis: the axis to shuffle.
        independent: shuffle each vector along the axis in its own way.
    """
    a = x if isinstance(x, Array) else asarray(x)
    if not a.ndim:
        return _shuffled(key, arange(_known_int("permutation", x)), 0)
    i = normalize_axis("permutation", axis, a.ndim)
    if independent or a.ndim == 1:
        return _shuffled(key, a, i)
    words("permutation", key)
    return take(a, _shuffled(key, arange(a.shape[i]), 0), i)


@api_boundary
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Elements drawn from an array along an axis, or numbers below an integer.

    Args:
        key: a key.
        a: an array, or an integer n for arange(n).
        shape: how many to draw; these dimensions replace `axis`.
        replace: may an element be drawn more than once?
        p: the probability of each, of rank 1; None: all alike.
        axis: the axis to draw along.
        mode: as for `gumbel`, used without replacement by p.

    Raises:
        ArgumentError: more draws than elements without replacement.
    """
    sizes = canonical_shape("choice", shape)
    x = a if isinstance(a, Array) else asarray(a)
    if x.ndim:
        i = normalize_axis("choice", axis, x.ndim)
        n = x.shape[i]
    else:
        i, n = 0, _known_int("choice", a)
    draws = math.prod(sizes)
    if draws == 0:
        return zeros(sizes, x.dtype)
    if n <= 0:
        raise ArgumentError(f"choice: needs at least one element to draw from, got {n}.")
    if not replace and draws > n:
        raise ArgumentError(
            f"choice: can't draw {draws} of {n} elements without replacement. Pass replace=True."
        )
    if p is None and not replace:
        whole = permutation(key, n if not x.ndim else x, i)
        result = slice_in_dim(whole, 0, draws, axis=i)
    else:
        if p is None:
            index: Any = randint(key, sizes, 0, n)
        else:
            (weights,) = promoted("choice", (p,), inexact=True)
            if weights.shape != (n,):
                raise ShapeError(f"choice: p must have shape ({n},), got {weights.aval}.")
            if replace:
                total = cumsum(weights)
                last = reshape(slice_in_dim(total, n - 1, n), ())
                r = last * (1 - uniform(key, sizes, total.dtype))
                index = convert(searchsorted(total, r), dtypes.default_int())
            else:
                score = gumbel(key, (n,), weights.dtype, mode) + sampling_log_p.bind1(weights)
                index = convert(top_k(score, draws)[1], dtypes.default_int())
        result = index if not x.ndim else take(x, index, i)
    return reshape(result, sizes if not x.ndim else x.shape[:i] + sizes + x.shape[i + 1 :])


@api_boundary
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Draw from categories by the logarithms of their probabilities, which need no normalisation.

    Args:
        key: a key.
        logits: one row of logarithms along `axis` for each draw.
        axis: the dimension of the categories.
        shape: of the result: it must end in the shape of logits without axis; None: just that.
        replace: if not, the leading dimensions of shape are drawn without repetition.
        mode: as for `gumbel`.

    Returns:
        Indices of categories.
    """
    (x,) = promoted("categorical", (logits,), inexact=True)
    i = normalize_axis("categorical", axis, x.ndim)
    rest = x.shape[:i] + x.shape[i + 1 :]
    sizes = rest if shape is None else canonical_shape("categorical", shape)
    if len(sizes) < len(rest) or broadcast_shapes(sizes, rest) != sizes:
        raise ShapeError(f"categorical: shape {sizes} must end in {rest}, that of the logits.")
    lead = sizes[: len(sizes) - len(rest)]
    if replace:
        own = list(sizes[len(lead) :])
        own.insert(i, x.shape[i])
        noise = gumbel(key, (*lead, *own), x.dtype, mode)
        return reductions.argmax(noise + x, axis=len(lead) + i)
    draws = math.prod(lead)
    if draws > x.shape[i]:
        raise ArgumentError(
            f"categorical: can't draw {draws} of {x.shape[i]} categories without replacement."
        )
    noisy = x + gumbel(key, x.shape, x.dtype, mode)
    found = top_k(moveaxis(noisy, i, -1), draws)[1]
    return reshape(moveaxis(found, -1, 0), sizes)


__all__ = [
    "categorical",
    "choice",
    "permutation",
]
