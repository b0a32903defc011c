"""A line search for the strong Wolfe conditions: bracket a good step, then zoom in on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import debug
from mgefn.api.derivatives import value_and_grad
from mgefn.control.branching import cond
from mgefn.control.loops import while_loop
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import convert, isnan, maximum, minimum, sqrt, where
from mgefn.optim import tree as trees
from mgefn.optim.base import GradientTransformationExtraArgs, Params, Updates
from mgefn.optim.conditions import choose
from mgefn.optim.linesearch import known_by, number, real_dtype, slope_along
from mgefn.optim.making import maker


class ZoomLinesearchInfo(NamedTuple):
    """Values tried, and by how much the last one misses each criterion."""

    num_linesearch_steps: Any
    decrease_error: Any
    curvature_error: Any


class ScaleByZoomLinesearchState(NamedTuple):
    """The learning rate found last, and the loss and gradient there."""

    learning_rate: Any
    value: Any
    grad: Any
    info: ZoomLinesearchInfo


class _Point(NamedTuple):
    rate: Any
    value: Any
    slope: Any


class _Search(NamedTuple):
    """What the search knows.

    Args:
        count: values tried.
        zooming: whether low and high bracket a good step; before that low is the point before.
        rate: to be tried next.
        low: enough decrease, and the smallest value of those.
        high: other end of the bracket.
        third: a point left behind, for the cubic; has_third: whether there is one.
        best: the point to return; grad: the gradient there; errors: what it misses.
    """

    count: Any
    zooming: Any
    done: Any
    rate: Any
    low: _Point
    low_grad: Any
    high: _Point
    third: _Point
    has_third: Any
    best: _Point
    grad: Any
    decrease_error: Any
    curvature_error: Any


def _ratio(x: Any, y: Any) -> Any:
    """x / y, nan where y is 0."""
    zero = y == 0
    return where(zero, np.nan, x / where(zero, 1, y))


def _cubic_minimum(low: _Point, high: _Point, third: _Point) -> Any:
    """Where the cubic of three values and the slope at the first is least; nan if nowhere."""
    db, dc = high.rate - low.rate, third.rate - low.rate
    fb = high.value - low.value - low.slope * db
    fc = third.value - low.value - low.slope * dc
    divisor = (db * dc) ** 2 * (db - dc)
    a = _ratio(dc**2 * fb - db**2 * fc, divisor)
    b = _ratio(db**3 * fc - dc**3 * fb, divisor)
    root = b * b - 3 * a * low.slope
    # Where the root is of a negative number there is no minimum.
    root = where(root >= 0, sqrt(where(root >= 0, root, 0)), np.nan)
    return low.rate + _ratio(root - b, 3 * a)


def _quadratic_minimum(low: _Point, high: _Point) -> Any:
    """Where the parabola of two values and the slope at the first is least; nan if nowhere."""
    db = high.rate - low.rate
    b = _ratio(high.value - low.value - low.slope * db, db**2)
    return low.rate - _ratio(low.slope, 2 * b)


def _between(low: _Point, high: _Point, third: _Point, has_third: Any) -> Any:
    """The rate to try in a bracket: by cubic, else by parabola, else its middle.

    The first two count where they are not too near the ends, by 0.2 and 0.1 of the length.
    """
    left, right = minimum(low.rate, high.rate), maximum(low.rate, high.rate)
    length = right - left

    def inside(x: Any, share: float) -> Any:
        return (x <= right - share * length) & (x >= left + share * length)

    cubic = _cubic_minimum(low, high, third)
    parabola = _quadratic_minimum(low, high)
    middle = low.rate + 0.5 * (high.rate - low.rate)
    return where(
        has_third & inside(cubic, 0.2), cubic, where(inside(parabola, 0.1), parabola, middle)
    )


@maker
def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: float | None = None,
    tol: float = 0.0,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    approx_dec_rtol: float | None = 1e-6,
    stepsize_precision: float = 1e-5,
    initial_guess_strategy: str = "keep",
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Updates times a learning rate that decreases both the loss and its slope enough.

    Args:
        max_linesearch_steps: how many values are tried at most.
        max_learning_rate: bound of the learning rate; None: no bound.
        tol: absolute tolerance of both criteria.
        increase_factor: of the learning rate, until a good one is bracketed.
        slope_rtol: the loss must fall by this share of what the slope promises.
        curv_rtol: the slope must fall to this share of itself.
        approx_dec_rtol: where the loss changes by less than this share, the slope alone tells
            whether it fell; None: never.
        stepsize_precision: length of a bracket where the search ends without the second criterion.
        initial_guess_strategy: "keep", where a search begins with the last learning rate; "one".
        verbose: whether to print searches that failed.

    Source: Nocedal, Wright (1999), Numerical Optimization, algorithms 3.5 and 3.6; Hager, Zhang
    (2006), doi:10.1145/1132973.1132979, for approx_dec_rtol.
    """
    if initial_guess_strategy not in ("keep", "one"):
        raise ArgumentError(
            "scale_by_zoom_linesearch: initial_guess_strategy must be 'keep' or 'one', got "
            f"{initial_guess_strategy!r}. Choose one."
        )

    def init(params: Params) -> ScaleByZoomLinesearchState:
        dtype = real_dtype(params)
        return ScaleByZoomLinesearchState(
            number(1.0, dtype),
            number(np.inf, dtype),
            trees.zeros_like(params),
            ZoomLinesearchInfo(asarray(0), number(np.inf, dtype), number(np.inf, dtype)),
        )

    def errors_at(start: _Point, point: _Point) -> tuple[Any, Any]:
        """By how much a point misses the criteria; 0 where it meets them."""
        gained = point.value - start.value
        decrease = gained - slope_rtol * point.rate * start.slope - tol
        if approx_dec_rtol is not None:
            flat = maximum(
                point.slope - (2 * slope_rtol - 1) * start.slope - tol,
                gained - approx_dec_rtol * absolute(start.value) - tol,
            )
            decrease = minimum(decrease, flat)
        curvature = absolute(point.slope) - curv_rtol * absolute(start.slope) - tol
        return tuple(
            where(isnan(e), np.inf, maximum(e, 0)).astype(e.dtype) for e in (decrease, curvature)
        )

    def bracket(s: _Search, at: _Point, grad: Any, decrease: Any, curvature: Any) -> _Search:
        """After a try with growing rates: a bracket, the end, or a larger rate."""
        too_far = (decrease > 0) | ((at.value >= s.low.value) & (s.count > 1))
        good = ~too_far & (curvature <= 0)
        uphill = ~too_far & ~good & (at.slope >= 0)
        on = ~(too_far | good | uphill)
        at_bound = asarray(False)
        if max_learning_rate is not None:
            at_bound = on & (at.rate >= max_learning_rate)
        larger = at.rate * increase_factor
        if max_learning_rate is not None:
            larger = minimum(larger, max_learning_rate)
        low = choose(too_far, s.low, at)
        high = choose(too_far, at, choose(uphill, s.low, s.high))
        zooming = too_far | uphill
        return s._replace(
            zooming=zooming,
            done=good | at_bound,
            rate=where(zooming, _between(low, high, high, asarray(False)), larger).astype(
                s.rate.dtype
            ),
            low=low,
            low_grad=choose(too_far, s.low_grad, grad),
            high=high,
        )

    def zoom(s: _Search, at: _Point, grad: Any, decrease: Any, curvature: Any) -> _Search:
        """After a try inside a bracket: a smaller one, or the end."""
        too_far = (decrease > 0) | (at.value >= s.low.value)
        good = ~too_far & (curvature <= 0)
        turn = ~too_far & (at.slope * (s.high.rate - s.low.rate) >= 0)
        third = choose(too_far | turn, s.high, s.low)
        high = choose(too_far, at, choose(turn, s.low, s.high))
        low = choose(too_far, s.low, at)
        short = absolute(high.rate - low.rate) <= stepsize_precision
        return s._replace(
            done=good | (short & (low.rate > 0)),
            rate=_between(low, high, third, asarray(True)).astype(s.rate.dtype),
            low=low,
            low_grad=choose(too_far, s.low_grad, grad),
            high=high,
            third=third,
            has_third=asarray(True),
        )

    def update(
        updates: Updates,
        state: ScaleByZoomLinesearchState,
        params: Params,
        *,
        value: Any,
        grad: Any,
        value_fn: Callable[..., Any],
        **extra_args: Any,
    ) -> tuple[Updates, ScaleByZoomLinesearchState]:
        known = known_by(value_fn, extra_args)
        dtype = state.learning_rate.dtype
        slope = convert(asarray(slope_along(updates, grad)), dtype)
        grad = trees.cast_like(grad, state.grad)
        start = _Point(number(0.0, dtype), convert(asarray(value), dtype), slope)
        guess = state.learning_rate if initial_guess_strategy == "keep" else number(1.0, dtype)
        if max_learning_rate is not None:
            guess = minimum(guess, max_learning_rate).astype(dtype)

        def go_on(s: _Search) -> Any:
            return ~s.done & (s.count < max_linesearch_steps)

        def body(s: _Search) -> _Search:
            place = trees.cast_like(trees.add_scale(params, s.rate, updates), params)
            new_value, new_grad = value_and_grad(value_fn)(place, **known)
            new_grad = trees.cast_like(new_grad, s.grad)
            at = _Point(
                s.rate,
                convert(asarray(new_value), dtype),
                convert(asarray(slope_along(updates, new_grad)), dtype),
            )
            decrease, curvature = errors_at(start, at)
            s = s._replace(
                count=s.count + 1,
                best=at,
                grad=new_grad,
                decrease_error=decrease,
                curvature_error=curvature,
            )
            found = (at, new_grad, decrease, curvature)
            return choose(s.zooming, zoom(s, *found), bracket(s, *found))

        infinite = number(np.inf, dtype)
        s = while_loop(
            go_on,
            body,
            _Search(
                asarray(0), asarray(False), asarray(False), guess, start, grad, start, start,
                asarray(False), start, grad, infinite, infinite,
            ),
        )  # fmt: skip
        # Where the last try is not good, the best one with enough decrease is taken, if any.
        missed = (s.decrease_error > 0) | (s.curvature_error > 0)
        back = missed & (s.low.rate > 0)
        at, new_grad = choose(back, s.low, s.best), choose(back, s.low_grad, s.grad)
        low_errors = errors_at(start, s.low)
        decrease, curvature = choose(back, low_errors, (s.decrease_error, s.curvature_error))
        if verbose:
            cond(
                missed,
                lambda r, d, c: debug.print(
                    "scale_by_zoom_linesearch: not found, took rate {}, short by {} and {}",
                    r, d, c,
                ),
                lambda r, d, c: None,
                at.rate, decrease, curvature,
            )  # fmt: skip
        return trees.scale(at.rate, updates), ScaleByZoomLinesearchState(
            at.rate, at.value, new_grad, ZoomLinesearchInfo(s.count, decrease, curvature)
        )

    return GradientTransformationExtraArgs(init, update)
