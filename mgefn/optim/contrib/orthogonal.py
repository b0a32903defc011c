"""Muon: matrices of averaged gradients made orthogonal by Newton and Schulz's iteration."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mgefn import tree
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError
from mgefn.numpy import linalg
from mgefn.numpy.creation import asarray
from mgefn.ops import reductions
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import sqrt, where
from mgefn.ops.shaping import moveaxis, reshape, swapaxes
from mgefn.optim.adam_optimizers import adamw
from mgefn.optim.adding import add_decayed_weights
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    MaskOrFn,
    Params,
    ScalarOrSchedule,
    Updates,
    named,
    stateless,
)
from mgefn.optim.combining import MaskedNode, chain, partition
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    bias_correction,
    cast,
    cast_as,
    safe_increment,
    update_moment,
    zero_count,
    zeros_of,
)
from mgefn.optim.scaling import scale_by_learning_rate

_PRESETS: dict[str, Any] = {
    "muon": (3.4445, -4.7750, 2.0315),
    "dion": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
}


class MuonDimensionNumbers(NamedTuple):
    """Which dimensions of a parameter are a matrix's; the others are batches of matrices.

    Args:
        reduction_axis: dimension or dimensions of the input.
        output_axis: dimension or dimensions of the output.
    """

    reduction_axis: int | tuple[int, ...] = 0
    output_axis: int | tuple[int, ...] = 1


class MuonState(NamedTuple):
    """Steps taken, the averaged gradients, and the coefficients of the iteration."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    ns_coeffs: Array


def _axes(numbers: MuonDimensionNumbers, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    def one(axis: Any) -> tuple[int, ...]:
        return tuple(a % ndim for a in ((axis,) if isinstance(axis, int) else axis))

    return one(numbers.reduction_axis), one(numbers.output_axis)


def _over(x: Any, size: Any) -> Any:
    """x / size, where x is 0 if size is."""
    return x / where(size == 0, 1, size)


def _normalized(x: Any, kind: str, eps: Any) -> Any:
    """x scaled so that its singular values are at most about 1."""
    if kind == "frobenius":
        return x / (sqrt(reductions.sum(x * x, axis=(-2, -1), keepdims=True)) + eps)
    if kind == "spectral":
        return x / (linalg.norm(x, 2, (-2, -1), True) + eps)
    product = x @ swapaxes(x, -1, -2)
    if kind == "schatten":
        size = sqrt(sqrt(reductions.sum(product * product, axis=(-2, -1), keepdims=True)))
        return _over(x, size)
    return _over(x, sqrt(reductions.sum(absolute(product), axis=-1, keepdims=True)))


def _orthogonal(x: Any, coefficients: Any, steps: int, eps: Any, kind: str) -> Any:
    """The nearest matrix with orthogonal rows or columns, roughly; for batches of matrices."""
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = swapaxes(x, -1, -2)
    x = _normalized(x, kind, eps)
    coefficients = cast_as(coefficients, x)
    for i in range(steps if coefficients.ndim == 1 else coefficients.shape[0]):
        a, b, c = coefficients if coefficients.ndim == 1 else coefficients[i]
        product = x @ swapaxes(x, -1, -2)
        x = a * x + (b * product + c * (product @ product)) @ x
    return swapaxes(x, -1, -2) if tall else x


def _as_matrices(x: Any, numbers: MuonDimensionNumbers, f: Any) -> Any:
    """f of x as a batch of matrices, input by output, put back into the shape of x."""
    ins, outs = _axes(numbers, x.ndim)
    rest = tuple(i for i in range(x.ndim) if i not in ins + outs)
    order = rest + ins + outs
    moved = moveaxis(x, order, tuple(range(x.ndim)))
    rows = math.prod(x.shape[i] for i in ins)
    columns = math.prod(x.shape[i] for i in outs)
    batch = math.prod(x.shape[i] for i in rest)
    done = reshape(f(reshape(moved, (batch, rows, columns))), moved.shape)
    return moveaxis(done, tuple(range(x.ndim)), order)


def _is_numbers(x: Any) -> bool:
    return isinstance(x, MuonDimensionNumbers) or x is None


def _numbers_for(given: Any, values: Any) -> list[MuonDimensionNumbers | None]:
    """For each leaf which of its dimensions are a matrix's."""
    leaves = [asarray(x) for x in tree.leaves(values)]
    if callable(given):
        given = given(values)
    if given is None:
        return [MuonDimensionNumbers() for _ in leaves]
    if isinstance(given, MuonDimensionNumbers):
        return [given for _ in leaves]
    found = tree.leaves(given, is_leaf=_is_numbers)
    found = [x for x in found if not isinstance(x, MaskedNode)]
    if len(found) != len(leaves):
        found = [x for x in found if x is not None]
    return found


@maker
def scale_by_muon(
    ns_coeffs: Any = (3.4445, -4.775, 2.0315),
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: str = "frobenius",
    weight_dimension_numbers: Any = None,
) -> GradientTransformation:
    """Averaged gradients, matrices, made orthogonal.

    Args:
        ns_coeffs: three coefficients of the iteration, or three for each step, or the name of a
            preset, "muon" or "dion".
        ns_steps: steps of the iteration, where the coefficients are three.
        beta: decay of the average.
        eps: added to divisors.
        mu_dtype: dtype of the average; None: that of the params.
        nesterov: whether to look ahead by one step.
        adaptive: whether updates are scaled by their product with the averaged gradients.
        preconditioning: what matrices are divided by first: "frobenius", "spectral" or "schatten"
            (4) norm, or "aol", rows by the root of their sums of products.
        weight_dimension_numbers: tree of `MuonDimensionNumbers`, or a function from params to one;
            None: all leaves are matrices.

    Source: Jordan et al. (2024), Muon: An optimizer for hidden layers in neural networks.
    """
    kinds = ("frobenius", "spectral", "aol", "schatten")
    if preconditioning not in kinds:
        raise ArgumentError(
            f"scale_by_muon: preconditioning must be one of {kinds}, got {preconditioning!r}."
            " Choose one."
        )
    if isinstance(ns_coeffs, str):
        if ns_coeffs not in _PRESETS:
            raise ArgumentError(
                f"scale_by_muon: ns_coeffs must be one of {sorted(_PRESETS)}, got {ns_coeffs!r}. "
                "Choose one, or give the coefficients."
            )
        ns_coeffs = _PRESETS[ns_coeffs]
    coefficients = asarray(ns_coeffs)
    if coefficients.ndim > 2 or coefficients.shape[-1:] != (3,):
        raise ShapeError(
            f"scale_by_muon: ns_coeffs must have the shape (3,) or (steps, 3), got "
            f"{coefficients.shape}. Give three coefficients a step."
        )

    def init(params: Params) -> MuonState:
        return MuonState(zero_count(), zeros_of(params, mu_dtype), coefficients)

    def update(
        updates: Updates, state: MuonState, params: Params | None = None
    ) -> tuple[Updates, MuonState]:
        mu = update_moment(updates, state.mu, beta, 1)
        count = safe_increment(state.count)
        if nesterov:
            mean = tree.map(
                lambda m, g: beta * m + (1 - beta) * g,
                bias_correction(mu, beta, safe_increment(count)),
                bias_correction(updates, beta, count),
            )
        else:
            mean = bias_correction(mu, beta, count)
        leaves, treedef = tree.flatten(mean)
        new = []
        for m, numbers in zip(leaves, _numbers_for(weight_dimension_numbers, mean), strict=True):
            if numbers is None:
                new.append(m)
                continue

            def orthogonal(x: Any) -> Any:
                u = _orthogonal(x, state.ns_coeffs, ns_steps, eps, preconditioning)
                return u * reductions.sum(x * u, axis=(-2, -1), keepdims=True) if adaptive else u

            new.append(_as_matrices(m, numbers, orthogonal))
        return tree.unflatten(treedef, new), MuonState(count, cast(mu, mu_dtype), state.ns_coeffs)

    return GradientTransformation(init, update)


def _scale_by_shape(weight_dimension_numbers: Any, consistent_rms: float | None) -> Any:
    def one(g: Any, numbers: MuonDimensionNumbers | None) -> Any:
        if numbers is None:
            return g
        ins, outs = _axes(numbers, g.ndim)
        fan_in = math.prod(g.shape[i] for i in ins)
        fan_out = math.prod(g.shape[i] for i in outs)
        if consistent_rms is None:
            return math.sqrt(max(1, fan_out / fan_in)) * g
        return math.sqrt(max(fan_in, fan_out)) * consistent_rms * g

    def scale(updates: Updates, params: Params | None) -> Updates:
        leaves, treedef = tree.flatten(updates)
        found = _numbers_for(weight_dimension_numbers, updates)
        return tree.unflatten(
            treedef, [one(asarray(g), n) for g, n in zip(leaves, found, strict=True)]
        )

    return stateless(scale)


@maker
def muon(
    learning_rate: ScalarOrSchedule,
    ns_coeffs: Any = (3.4445, -4.775, 2.0315),
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    weight_decay: ScalarOrSchedule = 0.0,
    weight_decay_mask: MaskOrFn | None = None,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: str = "frobenius",
    adam_b1: float = 0.9,
    adam_b2: float = 0.999,
    adam_eps_root: float = 0.0,
    adam_weight_decay: ScalarOrSchedule = 0.0,
    adam_learning_rate: ScalarOrSchedule | None = None,
    muon_weight_dimension_numbers: Any = None,
    consistent_rms: ArrayLike | None = None,
) -> GradientTransformationExtraArgs:
    """Muon for matrices, AdamW for all other params.

    Args:
        learning_rate: a number or a schedule.
        ns_coeffs, ns_steps, beta, eps, mu_dtype, nesterov, adaptive, preconditioning: as for
            `scale_by_muon`.
        weight_decay, weight_decay_mask: as in `add_decayed_weights`, for the matrices.
        adam_b1, adam_b2, adam_eps_root, adam_weight_decay: as for `adamw`.
        adam_learning_rate: of AdamW; None: learning_rate.
        muon_weight_dimension_numbers: tree of `MuonDimensionNumbers`, and of None for AdamW; or a
            function from params to one; None: leaves of rank 2 are matrices.
        consistent_rms: size of updates, times the root of the larger dimension; None: the root of
            output over input, at least 1.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.contrib.muon(0.1)
        >>> grads = {"w": mnp.eye(2) * 3, "b": mnp.ones(2)}
        >>> updates, _ = opt.update(grads, opt.init(grads), grads)
        >>> updates["w"].shape, updates["b"].round(3)
        ((2, 2), Array([-0.147, -0.147], dtype=float32))

    Source: Jordan et al. (2024), Muon: An optimizer for hidden layers in neural networks; Liu et
    al. (2025), arXiv:2502.16982, for consistent_rms.
    """

    def labels(params: Params) -> Any:
        if muon_weight_dimension_numbers is None:
            return tree.map(lambda p: "muon" if asarray(p).ndim == 2 else "adam", params)
        given = muon_weight_dimension_numbers
        given = given(params) if callable(given) else given
        return tree.map(lambda n: "adam" if n is None else "muon", given, is_leaf=_is_numbers)

    rms: Any = consistent_rms
    return named("muon", partition(
        {
            "muon": chain(
                scale_by_muon(
                    ns_coeffs, ns_steps, beta, eps, mu_dtype,
                    nesterov=nesterov, adaptive=adaptive, preconditioning=preconditioning,
                    weight_dimension_numbers=muon_weight_dimension_numbers,
                ),
                _scale_by_shape(muon_weight_dimension_numbers, rms),
                add_decayed_weights(weight_decay, weight_decay_mask),
                scale_by_learning_rate(learning_rate),
            ),
            "adam": adamw(
                learning_rate if adam_learning_rate is None else adam_learning_rate,
                adam_b1, adam_b2, eps, adam_eps_root,
                weight_decay=adam_weight_decay, nesterov=nesterov,
            ),
        },
        labels,
    ))  # fmt: skip
