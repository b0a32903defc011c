"""Minimisation under scipy.optimize's names.

Source: Nocedal, Wright, Numerical Optimization, Springer 2006, algorithms 3.5, 3.6 and 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mgefn import dtypes, lax
from mgefn import numpy as mnp
from mgefn.api.derivatives import value_and_grad
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted, where

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    Attributes:
        x: the argument.
        success: the gradient became small enough.
        status: 0: success; 1: maxiter steps; 3: the line search failed.
        fun, jac: value and gradient at x.
        hess_inv: approximate inverse of the Hessian.
        nfev, njev: numbers of evaluations.
        nit: number of steps.
    """

    x: Array
    success: Any
    status: Any
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Any
    njev: Any
    nit: Any


class _Point(NamedTuple):
    """A point of the line search: step length, value, slope along the line, gradient."""

    a: Any
    value: Any
    slope: Any
    gradient: Any


class _Search(NamedTuple):
    previous: _Point  # while bracketing; then the end with the lower value
    other: _Point  # the other end, while zooming
    trial: Any  # the next step length
    zooming: Any
    done: Any
    count: Any
    accepted: _Point


class _Bfgs(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    inverse: Any
    step: Any
    evaluations: Any
    failed: Any
    last: Any  # the value before


def _chosen(condition: Any, x: _Point, y: _Point) -> _Point:
    return _Point(*(where(condition, p, q) for p, q in zip(x, y, strict=True)))


def _cubic(low: _Point, high: _Point) -> Any:
    """The minimum of the cubic through both ends, or the middle where it lies near an end."""
    width = high.a - low.a
    safe = where(width == 0, 1, width)
    d1 = low.slope + high.slope - 3 * (high.value - low.value) / safe
    square = d1 * d1 - low.slope * high.slope
    d2 = mnp.sign(width) * mnp.sqrt(where(square > 0, square, 0))
    bottom = high.slope - low.slope + 2 * d2
    part = 1 - (high.slope + d2 - d1) / where(bottom == 0, 1, bottom)
    good = (square >= 0) & (bottom != 0) & (part > 0.05) & (part < 0.95)
    return low.a + width * where(good, part, 0.5)


def _line_search(
    evaluate: Callable[[Any], _Point], start: _Point, first: Any, limit: int
) -> tuple[_Point, Any, Any]:
    """A point that satisfies the strong Wolfe conditions, whether it does, evaluations used."""
    c1, c2 = 1e-4, 0.9

    def step(state: _Search) -> _Search:
        point = evaluate(state.trial)
        base = state.previous
        # A NaN compares false, so it counts as too high.
        low_enough = point.value <= start.value + c1 * point.a * start.slope
        high = ~low_enough | ((point.value >= base.value) & (state.zooming | (state.count > 0)))
        flat = ~high & (abs(point.slope) <= -c2 * start.slope)
        # The minimum lies between the base and the point, if it is high or rises away from the
        # base; then the lower of the two is the new base.
        width = where(state.zooming, state.other.a - base.a, point.a - base.a)
        rises = ~high & (point.slope * width >= 0)
        zooming = state.zooming | high | rises
        other = _chosen(high, point, _chosen(rises, base, state.other))
        new_base = _chosen(high, base, point)
        trial = where(zooming, _cubic(new_base, other), 2 * point.a)
        return _Search(
            new_base, other, trial, zooming, flat, state.count + 1,
            _chosen(flat, point, state.accepted),
        )  # fmt: skip

    def going(state: _Search) -> Any:
        return ~state.done & (state.count < limit)

    false, zero = mnp.asarray(False), mnp.asarray(0)
    end = lax.while_loop(going, step, _Search(start, start, first, false, false, zero, start))
    # Without a point of small slope the lowest one found still serves, if it is lower.
    lower = end.previous.value < start.value
    return _chosen(end.done, end.accepted, end.previous), end.done | lower, end.count


def _bfgs(
    fun: Callable[[Any], Any], x0: Any, gtol: Any, norm: Any, maxiter: int, line_limit: int
) -> OptimizeResults:
    with_gradient = value_and_grad(fun)
    n = x0.shape[0]
    identity = mnp.eye(n, dtype=x0.dtype)
    value, gradient = with_gradient(x0)
    value, gradient = value.astype(x0.dtype), gradient.astype(x0.dtype)

    def small(g: Any) -> Any:
        return mnp.linalg.norm(g, ord=norm) < gtol

    def going(s: _Bfgs) -> Any:
        return ~small(s.gradient) & ~s.failed & (s.step < maxiter)

    def step(s: _Bfgs) -> _Bfgs:
        direction = -mnp.matmul(s.inverse, s.gradient)

        def evaluate(a: Any) -> _Point:
            v, g = with_gradient(s.x + a * direction)
            v, g = v.astype(x0.dtype), g.astype(x0.dtype)
            return _Point(a, v, mnp.dot(g, direction), g)

        slope = mnp.dot(s.gradient, direction)
        start = _Point(mnp.zeros((), x0.dtype), s.value, slope, s.gradient)
        # The first step is scaled by the gradient, as in SciPy; later ones try 1.
        guess = mnp.minimum(1, 1.01 * 2 * (s.value - s.last) / slope)
        first = where(guess > 0, guess, 1).astype(x0.dtype)
        point, found, used = _line_search(evaluate, start, first, line_limit)
        dx = point.a * direction
        dg = point.gradient - s.gradient
        curvature = mnp.dot(dx, dg)
        positive = curvature > 0
        rho = 1 / where(positive, curvature, 1)
        left = identity - rho * mnp.outer(dx, dg)
        updated = mnp.matmul(left, mnp.matmul(s.inverse, left.T)) + rho * mnp.outer(dx, dx)
        return _Bfgs(
            s.x + dx,
            point.value,
            point.gradient,
            where(positive, updated, s.inverse),
            s.step + 1,
            s.evaluations + used,
            ~found,
            s.value,
        )

    zero = mnp.asarray(0)
    last = value + mnp.sqrt(mnp.sum(gradient * gradient)) / 2
    start = _Bfgs(x0, value, gradient, identity, zero, zero + 1, mnp.asarray(False), last)
    end = lax.while_loop(going, step, start)
    success = small(end.gradient)
    status = where(success, 0, where(end.failed, 3, 1))
    return OptimizeResults(
        end.x, success, status, end.value, end.gradient, end.inverse, end.evaluations,
        end.evaluations, end.step,
    )  # fmt: skip


@api_boundary
def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Find a local minimum of a function of a vector. It may be used in jit and vmap.

    Args:
        fun: (x, *args) -> a real scalar, differentiable.
        x0: where to begin, a real vector.
        args: more arguments.
        method: "BFGS".
        tol: instead of the option gtol.
        options: gtol (1e-5): the gradient's norm to reach; norm (inf): which norm; maxiter: of
            steps, 200 for each unknown by default; line_search_maxiter (10): evaluations that find
            a bracket, twice that many in all.

    Returns:
        OptimizeResults.

    Raises:
        ArgumentError: another method or option. ShapeError: x0 is no vector. DTypeError: it is
        complex.

    Example:
        >>> fun = lambda x: mnp.sum((x - mnp.array([1.0, 2.0])) ** 2)
        >>> found = mgefn.scipy.optimize.minimize(fun, mnp.zeros(2), method="BFGS")
        >>> found.x.round(3)
        Array([1., 2.], dtype=float32)
    """
    if not isinstance(method, str) or method.lower() != "bfgs":
        raise ArgumentError(f"minimize: method must be 'BFGS', got {method!r}.")
    if not isinstance(args, tuple):
        raise ArgumentError(f"minimize: args must be a tuple, got {type(args).__name__}.")
    given = dict(options or {})
    defaults = {"gtol": 1e-5, "norm": math.inf, "maxiter": None, "line_search_maxiter": 10}
    for key in given:
        if key not in defaults:
            raise ArgumentError(f"minimize: options may be {', '.join(defaults)}, got {key!r}.")
    settings = defaults | given
    if tol is not None:
        settings["gtol"] = tol
    (x,) = promoted("minimize", (x0,), inexact=True)
    if x.ndim != 1:
        raise ShapeError(f"minimize: x0 must be a vector, got {x.aval}. Ravel it.")
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"minimize: x0 must be real, got {x.aval}.")
    x = x.astype(x.dtype)
    limit = 200 * x.shape[0] if settings["maxiter"] is None else settings["maxiter"]
    line_limit = 2 * settings["line_search_maxiter"]
    return _bfgs(lambda p: fun(p, *args), x, settings["gtol"], settings["norm"], limit, line_limit)
