"""Interpolation under scipy.interpolate's names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted, where
from mgefn.ops.indexing.select.common import known
from mgefn.ops.shaping import normalize_axis

__all__ = ["CubicSpline", "RegularGridInterpolator"]


class RegularGridInterpolator:
    """Interpolate values on a rectangular grid, whose lines need not be evenly spaced.

    Args:
        points: the grid's coordinates: one increasing vector for each dimension.
        values: shape (n_1, ..., n_d, ...): the values on the grid.
        method: "linear" or "nearest".
        bounds_error: must be False: values outside cannot raise while a program is traced.
        fill_value: the value outside the grid; None: extrapolate.

    Raises:
        ArgumentError: another method, or coordinates that do not increase.
        ShapeError: points and values do not fit.

    Example:
        >>> f = mgefn.scipy.interpolate.RegularGridInterpolator(
        ...     (mnp.array([0.0, 1.0]), mnp.array([0.0, 2.0])), mnp.array([[0.0, 2.0], [1.0, 3.0]])
        ... )
        >>> f(mnp.array([[0.5, 1.0]]))
        Array([1.5], dtype=float32)
    """

    @api_boundary
    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ) -> None:
        name = "RegularGridInterpolator"
        if method not in ("linear", "nearest"):
            raise ArgumentError(f"{name}: method must be 'linear' or 'nearest', got {method!r}.")
        if bounds_error:
            raise ArgumentError(
                f"{name}: bounds_error must be False. Pass fill_value=nan and test for it."
            )
        table, *grid = promoted(name, (values, *points), inexact=True)
        if len(grid) > table.ndim:
            raise ShapeError(
                f"{name}: needs values of rank {len(grid)} or more for {len(grid)} vectors of "
                f"points, got {table.aval}."
            )
        for i, g in enumerate(grid):
            if g.ndim != 1 or g.shape[0] != table.shape[i]:
                raise ShapeError(
                    f"{name}: points[{i}] must be a vector of length {table.shape[i]}, got "
                    f"{g.aval}."
                )
            at = known(g)
            if at is not None and not np.all(np.diff(at) > 0):
                raise ArgumentError(f"{name}: points[{i}] must increase.")
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(grid)
        self.values = table

    @api_boundary
    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The interpolated values.

        Args:
            xi: places, shape (..., d); or a tuple of d arrays that broadcast.
            method: instead of the one given before.

        Returns:
            Array of the places' batch shape, then the rest of the values' shape.
        """
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ArgumentError(
                f"RegularGridInterpolator: method must be 'linear' or 'nearest', got {method!r}."
            )
        d = len(self.grid)
        if isinstance(xi, tuple):
            at = mnp.stack(mnp.broadcast_arrays(*(mnp.asarray(x) for x in xi)), axis=-1)
        else:
            at = mnp.asarray(xi)
        if at.ndim < 1 or at.shape[-1] != d:
            if d == 1 and at.ndim <= 1:
                at = at[..., None]
            else:
                raise ShapeError(
                    f"RegularGridInterpolator: places must have shape (..., {d}), got {at.aval}."
                )
        (at,) = promoted("RegularGridInterpolator", (at,), inexact=True)
        batch = at.shape[:-1]
        x = mnp.reshape(at, (-1, d))
        indices, fractions, outside = [], [], mnp.zeros(x.shape[:1], bool)
        for i, g in enumerate(self.grid):
            p = x[:, i]
            if g.shape[0] == 1:
                low = mnp.zeros(p.shape, dtypes.default_int())
                fraction = mnp.zeros_like(p)
            else:
                low = mnp.clip(mnp.searchsorted(g, p, side="right") - 1, 0, g.shape[0] - 2)
                fraction = (p - g[low]) / (g[low + 1] - g[low])
            indices.append(low)
            fractions.append(fraction)
            outside = outside | (p < g[0]) | (p > g[-1])
        if method == "nearest":
            chosen = [
                where(f > 0.5, i + (g.shape[0] > 1), i)
                for i, f, g in zip(indices, fractions, self.grid, strict=True)
            ]
            result = self.values[tuple(chosen)]
        else:
            trailing = (1,) * (self.values.ndim - d)
            result = None
            for corner in itertools.product((0, 1), repeat=d):
                if any(c and g.shape[0] == 1 for c, g in zip(corner, self.grid, strict=True)):
                    continue
                weight = None
                for c, f in zip(corner, fractions, strict=True):
                    w = f if c else 1 - f
                    weight = w if weight is None else weight * w
                at_corner = tuple(i + c for i, c in zip(indices, corner, strict=True))
                part = self.values[at_corner] * mnp.reshape(weight, (-1, *trailing))
                result = part if result is None else result + part
        shape = (-1,) + (1,) * (self.values.ndim - d)
        if self.fill_value is not None:
            result = where(mnp.reshape(outside, shape), self.fill_value, result)
        unknown = mnp.reshape(mnp.any(mnp.isnan(x), axis=-1), shape)
        result = where(unknown, np.nan, result)
        return mnp.reshape(result, (*batch, *self.values.shape[d:]))


class CubicSpline:
    """The twice continuously differentiable piecewise cubic through given points.

    Args:
        x: shape (n,), increasing, n at least 2.
        y: values; n of them along the axis.
        axis: the dimension of y along which x runs.
        bc_type: at the ends: "not-a-knot": the first two pieces are one polynomial, and the last
            two; "natural": second derivative 0; "clamped": first derivative 0; "periodic"; or a
            pair of such words or of (order 1 or 2, value of that derivative), one for each end.
        extrapolate: outside, continue the first and last piece; False: NaN; "periodic".

    Attributes:
        c: coefficients, shape (4, n - 1, ...): of (t - x[i])**(3 - k) in piece i.

    Raises:
        ArgumentError: another condition, or x does not increase. ShapeError: x and y do not fit.

    Example:
        >>> f = mgefn.scipy.interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])
        >>> f(1.5), f(1.5, 1)
        (Array(3.375, dtype=float32), Array(6.75, dtype=float32))
    """

    @api_boundary
    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: Any = "not-a-knot",
        extrapolate: bool | str | None = None,
    ) -> None:
        at, values = promoted("CubicSpline", (x, y), inexact=True)
        if at.ndim != 1 or at.shape[0] < 2 or not values.ndim:
            raise ShapeError(
                f"CubicSpline: x must be a vector of two elements at least, got {at.aval}."
            )
        self.axis = normalize_axis("CubicSpline", axis, values.ndim)
        n = at.shape[0]
        if values.shape[self.axis] != n:
            raise ShapeError(
                f"CubicSpline: y must have {n} elements along axis {self.axis}, got {values.aval}."
            )
        numbers = known(at)
        if numbers is not None and not np.all(np.diff(numbers) > 0):
            raise ArgumentError("CubicSpline: x must increase.")
        ends = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
        periodic = "periodic" in ends
        if len(ends) != 2 or (periodic and ends != ("periodic", "periodic")):
            raise ArgumentError(
                f"CubicSpline: bc_type must be a condition or two, got {bc_type!r}."
            )
        self.extrapolate = (
            ("periodic" if periodic else True) if extrapolate is None else extrapolate
        )
        self.x = at
        v = mnp.moveaxis(values, self.axis, 0)
        h = mnp.diff(at)
        columns = mnp.reshape(v, (n, -1))
        slope = mnp.diff(columns, axis=0) / h[:, None]
        m = _spline_slopes(h, slope, ends)
        wide = h[:, None]
        t = (m[:-1] + m[1:] - 2 * slope) / wide
        c = mnp.stack([t / wide, (slope - m[:-1]) / wide - t, m[:-1], columns[:-1]])
        self.c = mnp.reshape(c, (4, n - 1, *v.shape[1:]))

    @api_boundary
    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None) -> Array:
        """The value at x, or its nu-th derivative."""
        if nu < 0:
            raise ArgumentError(f"CubicSpline: nu must not be negative, got {nu}.")
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        t, _ = promoted("CubicSpline", (x, self.x), inexact=True)
        if extrapolate == "periodic":
            t = self.x[0] + (t - self.x[0]) % (self.x[-1] - self.x[0])
        shape = t.shape
        flat = mnp.ravel(t)
        i = mnp.clip(mnp.searchsorted(self.x, flat, side="right") - 1, 0, self.x.shape[0] - 2)
        trailing = (1,) * (self.c.ndim - 2)
        s = mnp.reshape(flat - self.x[i], (-1, *trailing))
        result = mnp.zeros_like(self.c[0][i])
        for k in range(4 - nu):
            factor = 1
            for j in range(nu):
                factor *= 3 - k - j
            result = result * s + factor * self.c[k][i]
        if extrapolate is False:
            outside = (flat < self.x[0]) | (flat > self.x[-1])
            result = where(mnp.reshape(outside, (-1, *trailing)), np.nan, result)
        result = mnp.reshape(result, (*shape, *self.c.shape[2:]))
        places = range(len(shape))
        return mnp.moveaxis(result, list(places), [self.axis + p for p in places])


def _spline_slopes(h: Any, slope: Any, ends: tuple[Any, Any]) -> Any:
    """The derivatives at the knots, shape (n, columns)."""
    n = h.shape[0] + 1
    if ends[0] == "periodic":
        return _periodic_slopes(h, slope)
    if n == 3 and ends == ("not-a-knot", "not-a-knot"):
        # One parabola through all three.
        second = (slope[1] - slope[0]) / (h[0] + h[1])
        first = slope[0] - second * h[0]
        return mnp.stack([first, first + 2 * second * h[0], first + 2 * second * (h[0] + h[1])])
    zero = mnp.zeros((1,), h.dtype)
    lower = mnp.concatenate([h[1:], zero])
    upper = mnp.concatenate([zero, h[:-1]])
    inner = 2 * (h[:-1] + h[1:])
    right = 3 * (h[1:, None] * slope[:-1] + h[:-1, None] * slope[1:])
    rows = [_end_row(h, slope, ends[0]), _end_row(h[::-1], slope[::-1], ends[1], last=True)]
    matrix = mnp.zeros((n, n), h.dtype)
    k = np.arange(1, n - 1)
    matrix = matrix.at[k, k].set(inner).at[k, k - 1].set(lower[:-1]).at[k, k + 1].set(upper[1:])
    (first, first_right), (last, last_right) = rows
    for j, value in enumerate(first):
        matrix = matrix.at[0, j].set(value)
    for j, value in enumerate(last):
        matrix = matrix.at[n - 1, n - 1 - j].set(value)
    rights = mnp.concatenate([first_right[None], right, last_right[None]])
    return mnp.linalg.solve(matrix, rights)


def _end_row(h: Any, slope: Any, condition: Any, last: bool = False) -> tuple[list[Any], Any]:
    """Coefficients of the derivatives at the first knots, and the right side; h counts inwards."""
    n = h.shape[0] + 1
    words = {"natural": (2, 0.0), "clamped": (1, 0.0)}
    if isinstance(condition, str):
        if condition == "not-a-knot":
            if n < 3:
                return [1.0], slope[0]
            wide = h[0] + h[1]
            right = ((h[0] + 2 * wide) * h[1] * slope[0] + h[0] ** 2 * slope[1]) / wide
            return [h[1], wide], right
        if condition not in words:
            raise ArgumentError(
                "CubicSpline: bc_type must be 'not-a-knot', 'natural', 'clamped' or 'periodic', "
                f"got {condition!r}."
            )
        condition = words[condition]
    order, value = condition
    value = mnp.zeros_like(slope[0]) + mnp.ravel(mnp.asarray(value, dtype=slope.dtype))
    if order == 1:
        return [1.0], value
    if order == 2:
        sign = 1 if last else -1
        return [2 * h[0], h[0]], 3 * h[0] * slope[0] + sign * 0.5 * value * h[0] ** 2
    raise ArgumentError(
        f"CubicSpline: the order of an end's derivative must be 1 or 2, got {order}."
    )


def _periodic_slopes(h: Any, slope: Any) -> Any:
    m = h.shape[0]
    if m == 1:
        return mnp.zeros((2, slope.shape[1]), h.dtype)
    before, slope_before = mnp.roll(h, 1), mnp.roll(slope, 1, axis=0)
    k = np.arange(m)
    matrix = mnp.zeros((m, m), h.dtype)
    matrix = matrix.at[k, k].add(2 * (before + h))
    matrix = matrix.at[k, (k - 1) % m].add(h).at[k, (k + 1) % m].add(before)
    right = 3 * (h[:, None] * slope_before + before[:, None] * slope)
    s = mnp.linalg.solve(matrix, right)
    return mnp.concatenate([s, s[:1]])
