"""Reductions of sliding windows: sum, maximum, minimum, and the derivative of the extrema.

A window has `window_dimensions` places on each axis, `window_dilation` apart. Windows start
`window_strides` apart on the operand, whose elements stand `base_dilation` apart with padding
around. Padding and what lies between elements count as the identity of the reduction. All of these
are params of the primitives, with one entry for each axis; paddings are (low, high), and may be
negative.

The tangent of a maximum is the tangent at the first element that attains it (a NaN counts as
largest): `select_and_gather_add_p`, whose transpose `select_and_scatter_add_p` adds each cotangent
at that element. Padding is never selected.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, MgefnError, ShapeError, UnsupportedError
from mgefn.ops.reductions import checked, operand_of
from mgefn.ops.shaping import broadcast_in_dim, moveaxis, zeros

Padding = str | Sequence[tuple[int, int]]
Pairs = tuple[tuple[int, int], ...]

# -- sizes ----------------------------------------------------------------------------------------


def dilated(size: int, dilation: int) -> int:
    """The length of an axis whose elements stand `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def out_sizes(
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> tuple[int, ...]:
    """How many windows fit on each axis."""
    sizes = []
    columns = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    for n, k, stride, (low, high), base, window in zip(shape, *columns, strict=True):
        room = dilated(n, base) + low + high - dilated(k, window)
        sizes.append(0 if room < 0 else room // stride + 1)
    return tuple(sizes)


def integers(name: str, what: str, values: Any) -> tuple[int, ...]:
    """A tuple of ints, from a sequence of them."""
    try:
        return tuple([operator.index(v) for v in values])
    except TypeError as e:
        if isinstance(e, MgefnError):
            raise  # a traced value, which says so
        raise ArgumentError(
            f"{name}: {what} must be a sequence of ints, got {values!r}. Write (n,) for one axis."
        ) from None


def per_axis(name: str, what: str, values: Any, ndim: int, least: int = 1) -> tuple[int, ...]:
    """A tuple of ndim ints, from a sequence of them; None stands for ones."""
    if values is None:
        return (1,) * ndim
    out = integers(name, what, values)
    if len(out) != ndim:
        raise ShapeError(f"{name}: {what} needs {ndim} entries, one for each axis, got {out}.")
    if any(n < least for n in out):
        raise ShapeError(f"{name}: {what} must be {least} or more, got {out}.")
    return out


def padding_pairs(
    name: str,
    padding: Any,
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
) -> Pairs:
    """(low, high) for each axis.

    Args:
        name: the operation's, for errors.
        padding: pairs; "VALID" for none; "SAME" for as much as makes one output of each stride's
            worth of elements, an odd one at the end, or with "SAME_LOWER" at the start.
        shape: of the operand's axes, dilated.
        window: sizes of the window, dilated.
        strides: distances of windows.
    """
    if isinstance(padding, str):
        kind = padding.upper()
        if kind == "VALID":
            return ((0, 0),) * len(shape)
        if kind not in ("SAME", "SAME_LOWER"):
            raise ArgumentError(
                f"{name}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or (low, high) pairs, got "
                f"{padding!r}."
            )
        pairs = []
        for n, k, s in zip(shape, window, strides, strict=True):
            total = max((-(-n // s) - 1) * s + k - n, 0)
            less = total // 2
            pairs.append((less, total - less) if kind == "SAME" else (total - less, less))
        return tuple(pairs)
    try:
        given = tuple([(operator.index(low), operator.index(high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or (low, high) pairs of ints, "
            f"got {padding!r}."
        ) from None
    if len(given) != len(shape):
        raise ShapeError(f"{name}: padding needs {len(shape)} pairs, got {given}.")
    return given


def window_params(
    name: str,
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The params of the primitives from what a user gives."""
    n = len(shape)
    dimensions = per_axis(name, "window_dimensions", window_dimensions, n)
    strides = per_axis(name, "window_strides", window_strides, n)
    base = per_axis(name, "base_dilation", base_dilation, n)
    window = per_axis(name, "window_dilation", window_dilation, n)
    pairs = padding_pairs(
        name,
        padding,
        [dilated(size, d) for size, d in zip(shape, base, strict=True)],
        [dilated(size, d) for size, d in zip(dimensions, window, strict=True)],
        strides,
    )
    return {
        "window_dimensions": dimensions,
        "window_strides": strides,
        "padding": pairs,
        "base_dilation": base,
        "window_dilation": window,
    }


def _check(name: str, x: ShapedArray, params: dict[str, Any]) -> None:
    for what, values in params.items():
        if len(values) != x.ndim:
            raise ShapeError(f"{name}: {what} needs {x.ndim} entries for {x}, got {values}.")


def _with_batch(params: dict[str, Any], bdim: int) -> dict[str, Any]:
    """The params with a window of one element along a batch dimension."""

    def put(values: tuple, value: Any) -> tuple:
        return (*values[:bdim], value, *values[bdim:])

    return {k: put(v, (0, 0) if k == "padding" else 1) for k, v in params.items()}


# -- sum, max, min --------------------------------------------------------------------------------


def window_reduction(
    name: str, accepts: Callable[[np.dtype], bool], needs: str, **kinds: Any
) -> Primitive:
    """A primitive that reduces each window to one element and keeps the dtype."""
    primitive = Primitive(name, weak_result=False, **kinds)

    @primitive.def_abstract_eval
    def abstract_eval(x: ShapedArray, **params: Any):
        _check(name, x, params)
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: needs {needs}, got {x}. Cast it with astype.")
        return (ShapedArray(out_sizes(x.shape, **params), x.dtype),)

    @primitive.def_batch
    def batch(args, bdims, **params: Any):
        (x,), (bdim,) = args, bdims
        return primitive.bind(x, **_with_batch(params, bdim)), (bdim,)

    return primitive


def _is_number(dtype: np.dtype) -> bool:
    return not dtypes.is_bool(dtype)


# params of all: window_dimensions, window_strides, padding, base_dilation, window_dilation
reduce_window_sum_p = window_reduction("reduce_window_sum", _is_number, "numbers", linear=True)
reduce_window_max_p = window_reduction("reduce_window_max", lambda dtype: True, "any dtype")
reduce_window_min_p = window_reduction("reduce_window_min", lambda dtype: True, "any dtype")


@reduce_window_sum_p.def_transpose
def _reduce_window_sum_transpose(
    cts, x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    (ct,) = cts
    # Element j is read by output i at place k where i * stride + k * window_dilation - low = j *
    # base_dilation: sums over windows of the cotangent with strides and dilations exchanged.
    pairs = []
    columns = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    for n, m, k, stride, (low, _), base, window in zip(
        x.aval.shape, ct.shape, *columns, strict=True
    ):
        before = dilated(k, window) - 1 - low
        after = dilated(n, base) + dilated(k, window) - 1 - dilated(m, stride) - before
        pairs.append((before, after))
    if 0 in ct.shape or 0 in x.aval.shape:
        return (zeros(x.aval),)
    return reduce_window_sum_p.bind(
        ct,
        window_dimensions=window_dimensions,
        window_strides=base_dilation,
        padding=tuple(pairs),
        base_dilation=window_strides,
        window_dilation=window_dilation,
    )


def _def_extremum_jvp(primitive: Primitive, select: str) -> None:
    primitive.no_rule("transpose", "not linear")

    @primitive.def_jvp
    def rule(primals, tangents, **params: Any):
        (x,), (t,) = primals, tangents
        return primitive.bind(x, **params), select_and_gather_add_p.bind(
            t, x, select=select, **params
        )


_def_extremum_jvp(reduce_window_max_p, "max")
_def_extremum_jvp(reduce_window_min_p, "min")

# -- the element that a window selects ------------------------------------------------------------

# Operands: what to read of each window, and the array that selects the place, both of one shape.
# params: select, "max" or "min"; those of a reduction
select_and_gather_add_p = Primitive("select_and_gather_add", weak_result=False)
# Operands: one number for each window, and the array that selects the place where it goes.
select_and_scatter_add_p = Primitive("select_and_scatter_add", weak_result=False)


@select_and_gather_add_p.def_abstract_eval
def _select_and_gather_add_abstract_eval(t: ShapedArray, x: ShapedArray, *, select, **params):
    _check_select("select_and_gather_add", t, x, select, params)
    if t.shape != x.shape:
        raise ShapeError(f"select_and_gather_add: operands must have one shape, got {t} and {x}.")
    return (ShapedArray(out_sizes(x.shape, **params), t.dtype),)


@select_and_scatter_add_p.def_abstract_eval
def _select_and_scatter_add_abstract_eval(source: ShapedArray, x: ShapedArray, *, select, **params):
    _check_select("select_and_scatter_add", source, x, select, params)
    windows = out_sizes(x.shape, **params)
    if source.shape != windows:
        raise ShapeError(
            f"select_and_scatter_add: the source needs one element for each of the {windows} "
            f"windows of {x}, got {source}."
        )
    return (ShapedArray(x.shape, source.dtype),)


def _check_select(
    name: str, source: ShapedArray, x: ShapedArray, select: str, params: dict[str, Any]
) -> None:
    _check(name, x, params)
    if select not in ("max", "min"):
        raise ArgumentError(f"{name}: select must be 'max' or 'min', got {select!r}.")
    if not _is_number(source.dtype):
        raise DTypeError(f"{name}: needs numbers to add, got {source}. Cast it with astype.")


def _def_selection_rules(primitive: Primitive, adjoint: Primitive) -> None:
    """Rules of a primitive that is linear in its first operand and constant along the second."""

    @primitive.def_jvp(symbolic_zeros=True)
    def jvp(primals, tangents, **params: Any):
        (t, x), (t_dot, _) = primals, tangents
        y = primitive.bind1(t, x, **params)
        if isinstance(t_dot, Zero):
            return (y,), (Zero(y.aval),)
        # Which element is selected changes nowhere but at ties.
        return (y,), primitive.bind(t_dot, x, **params)

    @primitive.def_transpose
    def transpose(cts, t, x, **params: Any):
        if not is_undefined(t):
            raise UnsupportedError(f"{primitive.name}: is not linear in what selects.")
        return adjoint.bind1(cts[0], x, **params), None

    @primitive.def_batch
    def batch(args, bdims, *, select, **params: Any):
        (t, x), (t_bdim, x_bdim) = args, bdims
        size = t.shape[t_bdim] if t_bdim is not None else x.shape[x_bdim]

        def front(a: Any, bdim: int | None) -> Any:
            if bdim is not None:
                return moveaxis(a, bdim, 0)
            return broadcast_in_dim(a, (size, *a.shape), tuple(range(1, a.ndim + 1)))

        outs = primitive.bind(
            front(t, t_bdim), front(x, x_bdim), select=select, **_with_batch(params, 0)
        )
        return outs, (0,)


_def_selection_rules(select_and_gather_add_p, select_and_scatter_add_p)
_def_selection_rules(select_and_scatter_add_p, select_and_gather_add_p)

# -- functions ------------------------------------------------------------------------------------


def reduced_windows(
    name: str,
    primitive: Primitive,
    operand: ArrayLike,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Bind one of the three reductions for the operation `name`; see `lax.reduce_window`."""
    x = operand_of(name, operand)
    params = window_params(
        name,
        x.shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    return checked(primitive, x, **params)
