"""How far to go along the updates: by backtracking, or by bracketing and zooming.

`update` takes the keyword arguments value, grad and value_fn: the loss at params, its gradient, and
the function that computes it; further keyword arguments that value_fn knows are passed on to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import debug, dtypes, tree
from mgefn.api.derivatives import value_and_grad
from mgefn.control.branching import cond
from mgefn.control.loops import while_loop
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full
from mgefn.ops.elementwise import convert, isfinite, isnan, maximum, minimum, real, where
from mgefn.optim import tree as trees
from mgefn.optim.base import GradientTransformationExtraArgs, Params, Updates
from mgefn.optim.making import maker


class BacktrackingLinesearchInfo(NamedTuple):
    """Values tried, and by how much the last one misses the criterion."""

    num_linesearch_steps: Any
    decrease_error: Any


class ScaleByBacktrackingLinesearchState(NamedTuple):
    """The learning rate found last, and the loss and gradient there."""

    learning_rate: Any
    value: Any
    grad: Any
    info: BacktrackingLinesearchInfo


def known_by(fn: Callable[..., Any], extra_args: dict[str, Any]) -> dict[str, Any]:
    """Those of the further keyword arguments that the function takes."""
    parameters = inspect.signature(fn).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return extra_args
    names = {p.name for p in parameters}
    return {name: value for name, value in extra_args.items() if name in names}


def real_dtype(values: Any) -> np.dtype:
    leaves = [asarray(x).dtype for x in tree.leaves(values)]
    found = dtypes.result_type(*leaves) if leaves else np.dtype(dtypes.default_float())
    return dtypes.real_part_dtype(found)


def slope_along(updates: Any, grad: Any) -> Any:
    """The derivative of the loss along the updates."""
    return real(trees.vdot(updates, trees.conj(grad)))


def number(value: Any, dtype: Any) -> Array:
    return full((), value, dtype)


@maker
def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: float = 1e-4,
    decrease_factor: float = 0.8,
    increase_factor: float = 1.5,
    max_learning_rate: float | None = 1.0,
    atol: float = 0.0,
    rtol: float = 0.0,
    store_grad: bool = False,
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Updates times a learning rate that decreases the loss enough, found by backtracking.

    It is enough where value <= (1 + rtol) * f + slope_rtol * rate * slope + atol, f and slope at
    the start.

    Args:
        max_backtracking_steps: how often the learning rate is decreased at most.
        slope_rtol, atol, rtol: of the criterion.
        decrease_factor: factor of the learning rate where it is not enough.
        increase_factor: factor of the last learning rate, from which on the next search begins.
        max_learning_rate: bound of where a search begins; None: no bound.
        store_grad: whether to keep the gradient at the end, for `value_and_grad_from_state`.
        verbose: whether to print searches that failed.

    Example:
        >>> from mgefn import optim
        >>> f = lambda x: mnp.sum(x**2)
        >>> opt = optim.chain(optim.sgd(1.0), optim.scale_by_backtracking_linesearch(15))
        >>> x = mnp.array([1.0, 2.0])
        >>> value, grad = mgefn.value_and_grad(f)(x)
        >>> updates, state = opt.update(
        ...     grad, opt.init(x), x, value=value, grad=grad, value_fn=f
        ... )
        >>> bool(f(optim.apply_updates(x, updates)) < value)
        True

    Source: Armijo (1966), doi:10.2140/pjm.1966.16.1; Nocedal, Wright (1999), algorithm 3.1.
    """

    def init(params: Params) -> ScaleByBacktrackingLinesearchState:
        dtype = real_dtype(params)
        first = 1.0 if max_learning_rate is None else max_learning_rate
        return ScaleByBacktrackingLinesearchState(
            number(first, dtype),
            number(np.inf, dtype),
            trees.zeros_like(params) if store_grad else None,
            BacktrackingLinesearchInfo(asarray(0), number(np.inf, dtype)),
        )

    def update(
        updates: Updates,
        state: ScaleByBacktrackingLinesearchState,
        params: Params,
        *,
        value: Any,
        grad: Any,
        value_fn: Callable[..., Any],
        **extra_args: Any,
    ) -> tuple[Updates, ScaleByBacktrackingLinesearchState]:
        known = known_by(value_fn, extra_args)
        dtype = state.learning_rate.dtype
        slope = slope_along(updates, grad)

        def at(rate: Any) -> Any:
            return trees.cast_like(trees.add_scale(params, rate, updates), params)

        def attempt(rate: Any) -> tuple[Any, Any]:
            new = value_fn(at(rate), **known)
            miss = new - (1 + rtol) * value - slope_rtol * rate * slope - atol
            miss = where(isnan(miss), np.inf, maximum(miss, 0))
            return convert(asarray(new), dtype), convert(asarray(miss), dtype)

        def go_on(carry: tuple[Any, ...]) -> Any:
            count, _, _, miss = carry
            return (miss > 0) & (count <= max_backtracking_steps)

        def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            count, rate, _, _ = carry
            rate = where(count > 0, decrease_factor * rate, rate).astype(dtype)
            return count + 1, rate, *attempt(rate)

        start = increase_factor * state.learning_rate
        if max_learning_rate is not None:
            start = minimum(start, max_learning_rate)
        count, rate, new_value, miss = while_loop(
            go_on,
            body,
            (asarray(0), convert(asarray(start), dtype), state.value, number(np.inf, dtype)),
        )
        if verbose:
            cond(
                miss > 0,
                lambda r, m: debug.print(
                    "scale_by_backtracking_linesearch: no decrease at rate {}, short by {}", r, m
                ),
                lambda r, m: None,
                rate,
                miss,
            )
        new_grad = None
        if store_grad:
            new_grad = trees.cast_like(value_and_grad(value_fn)(at(rate), **known)[1], state.grad)
        return trees.scale(rate, updates), ScaleByBacktrackingLinesearchState(
            rate, new_value, new_grad, BacktrackingLinesearchInfo(count, miss)
        )

    return GradientTransformationExtraArgs(init, update)


@maker
def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """As value_and_grad, taking both from the state of a line search where they are there.

    Returns:
        A function (params, *args, state=..., **kwargs) -> (value, gradient).

    Example:
        >>> from mgefn import optim
        >>> f = lambda x: mnp.sum(x**2)
        >>> opt, x = optim.lbfgs(), mnp.array([1.0, 2.0])
        >>> value, grad = optim.value_and_grad_from_state(f)(x, state=opt.init(x))
        >>> float(value), grad
        (5.0, Array([2., 4.], dtype=float32))
    """

    def from_state(params: Params, *args: Any, state: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, grad = trees.get(state, "value"), trees.get(state, "grad")
        if value is None or grad is None:
            raise ArgumentError(
                "value_and_grad_from_state: the state must hold value and grad, got one without. "
                "Use a line search with store_grad=True, or value_and_grad."
            )
        known = isfinite(value)

        def compute() -> tuple[Any, Any]:
            new, slope = value_and_grad(value_fn)(params, *args, **kwargs)
            return convert(asarray(new), value.dtype), trees.cast_like(slope, grad)

        return cond(known, lambda: (value, grad), compute)

    return from_state
