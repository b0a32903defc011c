"""Integrals of sampled functions under scipy.integrate's names."""

from __future__ import annotations

from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.ops.shaping import normalize_axis

__all__ = ["cumulative_trapezoid", "simpson", "trapezoid"]


@api_boundary
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integral of samples by the trapezoid rule.

    Args:
        y: the samples.
        x: where they were taken: a vector of the axis' length, or of y's shape.
        dx: the distance between them, without x.
        axis: the dimension along which to integrate.

    Example:
        >>> mgefn.scipy.integrate.trapezoid(mnp.array([1.0, 2.0, 3.0]))
        Array(4., dtype=float32)
    """
    return mnp.trapezoid(y, x, dx, axis)


def _samples(name: str, y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any, int]:
    """Samples with the axis last, and the widths of the intervals between them."""
    given = (y, dx) if x is None else (y, x)
    values, places = promoted(name, given, inexact=True)
    axis = normalize_axis(name, axis, values.ndim)
    values = mnp.moveaxis(values, axis, -1)
    n = values.shape[-1]
    if x is None:
        return values, mnp.broadcast_to(places, (max(n - 1, 0),)), axis
    if places.ndim > 1:
        places = mnp.moveaxis(places, axis, -1)
    if places.shape[-1:] != (n,):
        raise ShapeError(f"{name}: x must have the length {n} of the axis, got {places.aval}.")
    return values, mnp.diff(places, axis=-1), axis


@api_boundary
def cumulative_trapezoid(
    y: ArrayLike,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Array:
    """Integrals from the first sample to each other one, by the trapezoid rule.

    Args:
        y, x, dx, axis: as for `trapezoid`.
        initial: put before the result, which has one element less than y otherwise; 0 or None.
    """
    values, widths, axis = _samples("cumulative_trapezoid", y, x, dx, axis)
    parts = 0.5 * widths * (values[..., 1:] + values[..., :-1])
    total = mnp.cumsum(parts, axis=-1)
    if initial is not None:
        if mnp.ndim(initial):
            raise ShapeError("cumulative_trapezoid: initial must be a scalar.")
        first = mnp.full_like(values[..., :1], initial)
        total = mnp.concatenate([first, total], axis=-1)
    return mnp.moveaxis(total, -1, axis)


@api_boundary
def simpson(
    y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integral of samples by Simpson's rule, exact for cubics on equal intervals.

    With an even number of samples the last interval is integrated under the parabola through the
    last three. Two samples are joined by a line.

    Args:
        y, x, dx, axis: as for `trapezoid`.

    Raises:
        ArgumentError: there are no samples.

    Source: Cartwright (2017), J. Math. Sci. Math. Educ. 12(2), 1-9 (the last interval).
    """
    values, h, _ = _samples("simpson", y, x, dx, axis)
    n = values.shape[-1]
    if not n:
        raise ArgumentError("simpson: needs one sample at least, got none.")
    if n == 1:
        return mnp.zeros_like(values[..., 0])
    if n == 2:
        return 0.5 * h[..., 0] * (values[..., 0] + values[..., 1])
    end = n if n % 2 else n - 1
    a, b, c = values[..., 0 : end - 2 : 2], values[..., 1 : end - 1 : 2], values[..., 2:end:2]
    h0, h1 = h[..., 0 : end - 2 : 2], h[..., 1 : end - 1 : 2]
    total, product, ratio = h0 + h1, h0 * h1, h0 / h1
    parts = total / 6 * (a * (2 - 1 / ratio) + b * total * total / product + c * (2 - ratio))
    result = mnp.sum(parts, axis=-1)
    if n % 2:
        return result
    h0, h1 = h[..., -2], h[..., -1]
    last = (2 * h1 * h1 + 3 * h0 * h1) / (6 * (h1 + h0)) * values[..., -1]
    middle = (h1 * h1 + 3 * h0 * h1) / (6 * h0) * values[..., -2]
    first = h1**3 / (6 * h0 * (h0 + h1)) * values[..., -3]
    return result + last + middle - first
