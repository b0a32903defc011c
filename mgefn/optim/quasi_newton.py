"""Limited memory BFGS: the inverse Hessian from the last changes of params and of gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgefn import tree
from mgefn.control.scan import scan
from mgefn.core.array_methods import Array
from mgefn.numpy.creation import arange, zeros
from mgefn.ops.elementwise import minimum, real, where
from mgefn.optim import tree as trees
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    ScalarOrSchedule,
    Updates,
    identity,
    named,
    needs_params,
)
from mgefn.optim.combining import chain
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast_as, check_positive, safe_increment, zero_count, zeros_of
from mgefn.optim.scaling import scale, scale_by_learning_rate
from mgefn.optim.zoom import scale_by_zoom_linesearch


class ScaleByLBFGSState(NamedTuple):
    """Params and gradients before, and the last changes of both.

    Args:
        count: steps taken.
        params, updates: of the step before.
        diff_params_memory, diff_updates_memory: their changes, along dimension 0.
        weights_memory: 1 / <change of params, change of gradients>.
    """

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    params: Params
    updates: Updates
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Array


@maker
def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """Gradients times an estimate of the inverse Hessian.

    Args:
        memory_size: how many changes are kept.
        scale_init_precond: whether the estimate begins with a multiple of the identity that fits
            the last change, instead of with the identity.

    Source: Nocedal, Wright (2006), Numerical Optimization, algorithm 7.4.
    """
    check_positive("scale_by_lbfgs", "memory_size", memory_size)

    def init(params: Params) -> ScaleByLBFGSState:
        def memory() -> Any:
            return tree.map(lambda z: zeros((memory_size, *z.shape), z.dtype), zeros_of(params))

        return ScaleByLBFGSState(
            zero_count(),
            zeros_of(params),
            zeros_of(params),
            memory(),
            memory(),
            zeros((memory_size,), trees.real(trees.zeros_like(_first(params))).dtype),
        )

    def update(
        updates: Updates, state: ScaleByLBFGSState, params: Params | None = None
    ) -> tuple[Updates, ScaleByLBFGSState]:
        needs_params("scale_by_lbfgs", params)
        begun = state.count > 0
        place = (state.count - 1) % memory_size
        dx = tree.map(lambda p, o: where(begun, p - o, 0).astype(o.dtype), params, state.params)
        dg = tree.map(lambda g, o: where(begun, g - o, 0).astype(o.dtype), updates, state.updates)
        product = real(trees.vdot(dg, dx))
        weight = where(product == 0, 0, 1 / where(product == 0, 1, product))

        def put(memory: Any, value: Any) -> Any:
            return where(begun, memory.at[place].set(cast_as(value, memory)), memory)

        dxs = tree.map(put, state.diff_params_memory, dx)
        dgs = tree.map(put, state.diff_updates_memory, dg)
        weights = put(state.weights_memory, weight)

        if scale_init_precond:
            square = trees.norm(dg, squared=True)
            fit = where(square > 0, product / where(square > 0, square, 1), 1)
            size = trees.norm(updates)
            first = minimum(1, 1 / where(size > 0, size, 1))
            start = where(begun, fit, first)
        else:
            start = 1.0

        order = (arange(memory_size) + state.count) % memory_size  # from the oldest change on

        def backward(q: Any, i: Any) -> tuple[Any, Any]:
            alpha = weights[i] * real(trees.vdot(tree.map(lambda m: m[i], dxs), q))
            return tree.map(lambda x, m: x - cast_as(alpha, x) * m[i], q, dgs), alpha

        def forward(q: Any, step: tuple[Any, Any]) -> tuple[Any, None]:
            i, alpha = step
            beta = weights[i] * real(trees.vdot(tree.map(lambda m: m[i], dgs), q))
            return tree.map(lambda x, m: x + cast_as(alpha - beta, x) * m[i], q, dxs), None

        q, alphas = scan(backward, updates, order, reverse=True)
        q = tree.map(lambda x: cast_as(start, x) * x, q)
        q, _ = scan(forward, q, (order, alphas))
        return q, ScaleByLBFGSState(safe_increment(state.count), params, updates, dxs, dgs, weights)

    return GradientTransformation(init, update)


_ZOOM = scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")


def _first(params: Params) -> Any:
    leaves = tree.leaves(params)
    return leaves[0] if leaves else zeros(())


@maker
def lbfgs(
    learning_rate: ScalarOrSchedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: GradientTransformation | None = _ZOOM,
) -> GradientTransformationExtraArgs:
    """L-BFGS with a line search, for losses without noise.

    update takes the keyword arguments value, grad and value_fn, as the line search needs them.

    Args:
        learning_rate: factor of the direction, a number or a schedule; None: 1.
        memory_size, scale_init_precond: as for `scale_by_lbfgs`.
        linesearch: finds how far to go; None: as far as the learning rate says.

    Example:
        >>> from mgefn import optim
        >>> def f(x):
        ...     return mnp.sum((x - mnp.array([1.0, 2.0])) ** 2)
        >>> opt = optim.lbfgs()
        >>> x = mnp.zeros(2)
        >>> state, value_and_grad = opt.init(x), optim.value_and_grad_from_state(f)
        >>> for _ in range(3):
        ...     value, grad = value_and_grad(x, state=state)
        ...     updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=f)
        ...     x = optim.apply_updates(x, updates)
        >>> bool(f(x) < 1e-10)
        True

    Source: Nocedal, Wright (2006), Numerical Optimization, algorithm 7.5.
    """
    return named(
        "lbfgs",
        chain(
            scale_by_lbfgs(memory_size, scale_init_precond),
            scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate),
            identity() if linesearch is None else linesearch,
        ),
    )
