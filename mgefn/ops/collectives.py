"""Collectives: operations across the examples of a map whose axis has a name.

    vmap(lambda x: x / psum(x, "i"), axis_name="i")

Inside the function an array is one example; a collective reads the examples of the whole axis. A
primitive here names one axis and carries its size, so a program that holds one can be read again
where the axis is not at hand. The map of that name resolves it into ordinary operations
(`batch_call`); every other interpreter treats it as a linear operation and passes it outward.
Functions that take several names are compositions, the first name varying slowest.

Derivatives inside the map are those of all examples together: the transpose of psum is psum, since
each example's operand enters every example's output, and the cotangents of all outputs add up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import Interpreter, bound_axes, interpreter_set_to
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    UnboundAxisError,
    UnsupportedError,
    api_boundary,
)
from mgefn.ops.elementwise import convert, equal, mul_p, scale, where
from mgefn.ops.indexing.select import take
from mgefn.ops.reductions import reduce_max_p, reduce_min_p, reduce_sum_p
from mgefn.ops.shaping import (
    broadcast_in_dim,
    expand_dims,
    iota,
    moveaxis,
    normalize_axes,
    normalize_axis,
    reshape,
    squeeze,
)

AxisName = Hashable  # a name, or a tuple of names

# -- names ----------------------------------------------------------------------------------------


def _size_of(op: str, name: Hashable) -> int:
    """The size of a named axis, from the innermost map of this name."""
    axes = bound_axes()
    for bound, size in axes:
        if bound == name:
            return size
    raise _unbound(op, name, axes)


def _unbound(op: str, name: Hashable, axes: tuple) -> UnboundAxisError:
    known = ", ".join(repr(n) for n, _ in axes)
    have = f"the bound ones are {known}" if known else "no axis is bound"
    return UnboundAxisError(
        f"{op}: needs a map with the axis name {name!r}, but {have}. Call it inside "
        f"vmap(..., axis_name={name!r})."
    )


def _names(op: str, axis_name: Any, groups: Any = None) -> tuple[Hashable, ...]:
    """The names one by one, each of them bound."""
    _no_groups(op, groups)
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        _size_of(op, name)
    return names


def _no_groups(op: str, groups: Any) -> None:
    if groups is not None:
        raise UnsupportedError(
            f"{op}: axis_index_groups must be None under vmap, got {groups!r:.60}. Split the axis "
            "into two nested maps, and name the inner one."
        )


def _array(op: str, x: Any) -> Any:
    return as_array(x, op)


# -- primitives -----------------------------------------------------------------------------------


def _collective(
    name: str,
    resolve: Callable[..., Any],
    pass_on: Any = None,
    linear: bool = False,
    constant: bool = False,
    moves: bool = False,
) -> Any:
    """A primitive with params axis_name and axis_size.

    Args:
        name: what the IR prints.
        resolve: (x, bdim, size, **params) -> (out, out bdim), for the map that has the name; x has
            bdim None where all its examples are the same.
        pass_on: params -> params for the primitive on x with another map's dimension in front;
            None: no param counts dimensions.
        linear, constant, moves: fields of the primitive.
    """
    # Opaque: the axis is unknown to the compiler, so it must leave the equation alone.
    primitive = Primitive(
        name,
        opaque=True,
        collective=True,
        weak_result=False,
        linear=linear,
        constant=constant,
        moves=moves,
    )

    @primitive.def_batch_call
    def batch_collective(interpreter: Interpreter, values, bdims, params):
        if interpreter.axis_name == params["axis_name"]:
            size = interpreter.axis_size  # type: ignore[attr-defined]  # it has a name, so it has a size
            x, bdim = (values[0], bdims[0]) if values else (None, None)
            out, out_bdim = resolve(x, bdim, size, **params)
            return (out,), (out_bdim,)
        if not values or bdims[0] is None:
            return primitive.bind(*values, **params), (None,)
        x = moveaxis(values[0], bdims[0], 0)
        return primitive.bind(x, **(params if pass_on is None else pass_on(params))), (0,)

    @primitive.def_evaluate
    def evaluate_collective(args, params):
        raise _unbound(name, params["axis_name"], ())

    return primitive


def _shift(*counted: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Step params that count dimensions over a new leading one."""
    return lambda params: params | {k: params[k] + 1 for k in counted}


def _whole(x: Any, bdim: int | None, size: int) -> Any:
    """The examples along dimension 0, repeated where they are all the same."""
    if bdim is None:
        return broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
    return moveaxis(x, bdim, 0)


def _times(x: Any, size: int) -> Any:
    return mul_p.bind1(x, scalar(size, x.dtype))


def _resolve_psum(x, bdim, size, *, axis_name, axis_size):
    if bdim is None:
        return _times(x, size), None
    return reduce_sum_p.bind1(x, axes=(bdim,)), None


def _same_type(x: ShapedArray, *, axis_name, axis_size):
    return (x.strong(),)


psum_p = _collective("psum", _resolve_psum, linear=True)
psum_p.def_abstract_eval(_same_type)


@psum_p.def_transpose
def _psum_transpose(cts, x, **params):
    return psum_p.bind(*cts, **params)


def _resolve_extreme(reduce: Primitive) -> Callable[..., Any]:
    def resolve(x, bdim, size, *, axis_name, axis_size):
        if bdim is None:
            return x, None
        return reduce.bind1(x, axes=(bdim,)), None

    return resolve


pmax_p = _collective("pmax", _resolve_extreme(reduce_max_p))
pmin_p = _collective("pmin", _resolve_extreme(reduce_min_p))


def _def_extreme(primitive: Primitive) -> None:
    primitive.def_abstract_eval(_same_type)
    primitive.no_rule("transpose", "not linear")

    @primitive.def_jvp
    def extreme_jvp(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        y = primitive.bind1(x, **params)
        # Examples that share the extreme share its derivative evenly, as in a reduction.
        hit = convert(equal(x, y), x.dtype)
        share = hit / psum_p.bind1(hit, **params)
        return (y,), psum_p.bind(scale(t, share), **params)


_def_extreme(pmax_p)
_def_extreme(pmin_p)


# params: dimension, where the examples go in the output
def _resolve_all_gather(x, bdim, size, *, axis_name, axis_size, dimension):
    return moveaxis(_whole(x, bdim, size), 0, dimension), None


all_gather_p = _collective(
    "all_gather", _resolve_all_gather, _shift("dimension"), linear=True, moves=True
)


@all_gather_p.def_abstract_eval
def _all_gather_abstract_eval(x: ShapedArray, *, axis_name, axis_size, dimension):
    shape = (*x.shape[:dimension], axis_size, *x.shape[dimension:])
    return (ShapedArray(shape, x.dtype),)


@all_gather_p.def_transpose
def _all_gather_transpose(cts, x, **params):
    return psum_scatter_p.bind(*cts, **params)


# params: dimension, of the size of the axis: example i keeps entry i of the sum
def _resolve_psum_scatter(x, bdim, size, *, axis_name, axis_size, dimension):
    if bdim is None:
        return _times(x, size), dimension
    return reduce_sum_p.bind1(x, axes=(bdim,)), dimension


psum_scatter_p = _collective(
    "psum_scatter", _resolve_psum_scatter, _shift("dimension"), linear=True
)


@psum_scatter_p.def_abstract_eval
def _psum_scatter_abstract_eval(x: ShapedArray, *, axis_name, axis_size, dimension):
    return (ShapedArray(x.shape[:dimension] + x.shape[dimension + 1 :], x.dtype),)


@psum_scatter_p.def_transpose
def _psum_scatter_transpose(cts, x, **params):
    return all_gather_p.bind(*cts, **params)


# params: split, a dimension cut into one block per example; concat, the dimension along which each
# example joins the blocks it gets
def _resolve_all_to_all(x, bdim, size, *, axis_name, axis_size, split, concat):
    x = _whole(x, bdim, size)  # (from, *shape)
    shape = x.shape[1:]
    x = reshape(x, (size, *shape[:split], size, shape[split] // size, *shape[split + 1 :]))
    x = moveaxis(x, split + 1, 0)  # (to, from, *shape with the split dimension divided)
    x = moveaxis(x, 1, concat + 1)
    joined = (*x.shape[: concat + 1], size * x.shape[concat + 2], *x.shape[concat + 3 :])
    return reshape(x, joined), 0


all_to_all_p = _collective(
    "all_to_all", _resolve_all_to_all, _shift("split", "concat"), linear=True, moves=True
)


@all_to_all_p.def_abstract_eval
def _all_to_all_abstract_eval(x: ShapedArray, *, axis_name, axis_size, split, concat):
    shape = list(x.shape)
    shape[split] //= axis_size
    shape[concat] *= axis_size
    return (ShapedArray(tuple(shape), x.dtype),)


@all_to_all_p.def_transpose
def _all_to_all_transpose(cts, x, *, split, concat, **params):
    return all_to_all_p.bind(*cts, split=concat, concat=split, **params)


# params: perm, pairs (from, to); examples that nobody sends to get zeros
def _resolve_ppermute(x, bdim, size, *, axis_name, axis_size, perm):
    x = _whole(x, bdim, size)
    return _routed(x, size, perm), 0


def _routed(x: Any, size: int, perm: tuple[tuple[int, int], ...]) -> Any:
    """Dimension 0 in the order of a permutation, zeros where there is no source."""
    source = np.zeros(size, np.int32)
    met = np.zeros(size, bool)
    for i, j in perm:
        source[j], met[j] = i, True
    out = take(x, ConcreteArray(source), 0)
    if met.all():
        return out
    mask = broadcast_in_dim(ConcreteArray(met), out.shape, (0,))
    return where(mask, out, scalar(0, x.dtype))


ppermute_p = _collective("ppermute", _resolve_ppermute, linear=True, moves=True)


@ppermute_p.def_abstract_eval
def _ppermute_abstract_eval(x: ShapedArray, *, axis_name, axis_size, perm):
    return (x.strong(),)


@ppermute_p.def_transpose
def _ppermute_transpose(cts, x, *, perm, **params):
    return ppermute_p.bind(*cts, perm=tuple((j, i) for i, j in perm), **params)


# no operands; the dtype is that of the default integer when it was bound
def _resolve_axis_index(x, bdim, size, *, axis_name, axis_size, dtype):
    return iota(dtype, size), 0


axis_index_p = _collective("axis_index", _resolve_axis_index, constant=True)
axis_index_p.no_rule("transpose", "it has no operand")


@axis_index_p.def_abstract_eval
def _axis_index_abstract_eval(*, axis_name, axis_size, dtype):
    return (ShapedArray((), dtype),)


# -- reductions -----------------------------------------------------------------------------------


def _split_axes(op: str, axis_name: Any, groups: Any) -> tuple[tuple[int, ...], tuple]:
    """Dimensions of the operand itself, which are ints, and names."""
    given = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    ints = tuple(a for a in given if isinstance(a, int) and not isinstance(a, bool))
    return ints, _names(op, tuple(a for a in given if a not in ints), groups)


def _reduced(op: str, primitive: Primitive, own: Primitive, x: Any, ints: tuple, names: tuple):
    if ints:
        x = own.bind1(x, axes=normalize_axes(op, ints, x.ndim))
    for name in names:
        x = primitive.bind1(x, axis_name=name, axis_size=_size_of(op, name))
    return x


@api_boundary
def psum(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """Sum over the examples of a named axis; every example gets the sum.

    Args:
        x: an array, or a pytree of them. A leaf that is no tracer is the same for all examples:
            psum(1, name) is the size of the axis, a Python int.
        axis_name: the name that vmap gave the axis, or a tuple of names. Ints among them are
            dimensions of x itself.
        axis_index_groups: must be None.

    Returns:
        A pytree like x; booleans are summed as integers.

    Raises:
        UnboundAxisError: no map around the call has this name.

    Example:
        >>> mgefn.vmap(lambda x: x / mgefn.lax.psum(x, "i"), axis_name="i")(mnp.arange(1.0, 4.0))
        Array([0.16666667, 0.33333334, 0.5       ], dtype=float32)
    """
    ints, names = _split_axes("psum", axis_name, axis_index_groups)
    size = math.prod([_size_of("psum", n) for n in names])

    def one(leaf: Any) -> Any:
        if not ints and isinstance(leaf, (int, float, complex)):
            return leaf * size
        v = _array("psum", leaf)
        if dtypes.is_bool(v.dtype):
            v = convert(v, dtypes.default_int())
        if not ints and not isinstance(v, Tracer):
            with interpreter_set_to(None):
                return _times(v, size)
        return _reduced("psum", psum_p, reduce_sum_p, v, ints, names)

    return tree.map(one, x)


@api_boundary
def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """Mean over the examples of a named axis; arguments as for `psum`."""
    ints, names = _split_axes("pmean", axis_name, axis_index_groups)
    count = math.prod([_size_of("pmean", n) for n in names])

    def one(leaf: Any) -> Any:
        v = _array("pmean", leaf)
        n = count * math.prod([v.shape[i] for i in normalize_axes("pmean", ints, v.ndim)])
        total = _reduced("pmean", psum_p, reduce_sum_p, _summable(v), ints, names)
        return total / n

    return tree.map(one, x)


def _summable(v: Any) -> Any:
    return convert(v, dtypes.default_int()) if dtypes.is_bool(v.dtype) else v


@api_boundary
def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """Maximum over the examples of a named axis; arguments as for `psum`."""
    return _extreme("pmax", pmax_p, reduce_max_p, x, axis_name, axis_index_groups)


@api_boundary
def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """Minimum over the examples of a named axis; arguments as for `psum`."""
    return _extreme("pmin", pmin_p, reduce_min_p, x, axis_name, axis_index_groups)


def _extreme(op: str, primitive: Primitive, own: Primitive, x: Any, axis_name: Any, groups: Any):
    ints, names = _split_axes(op, axis_name, groups)

    def one(leaf: Any) -> Any:
        v = _array(op, leaf)
        if dtypes.is_complex(v.dtype):
            raise DTypeError(f"{op}: complex numbers have no order, got {v.aval}.")
        return _reduced(op, primitive, own, v, ints, names)

    return tree.map(one, x)


# -- gathering and scattering ---------------------------------------------------------------------


@api_boundary
def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Give every example the examples of a whole named axis.

    Args:
        x: an array, or a pytree of them.
        axis_name: a name or a tuple of names; the first varies slowest.
        axis_index_groups: must be None.
        axis: where the examples go in the result.
        tiled: join the examples along `axis` instead of stacking them.
        to: accepted for JAX's programs.

    Returns:
        A pytree like x. The leaves have one more dimension, or with `tiled` a longer one.

    Example:
        >>> mgefn.vmap(lambda x: mgefn.lax.all_gather(x, "i"), axis_name="i")(mnp.arange(2))
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    names = _names("all_gather", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        v = _array("all_gather", leaf)
        d = normalize_axis("all_gather", axis, v.ndim + (not tiled))
        return _gathered("all_gather", v, names, d, tiled)

    return tree.map(one, x)


def _gathered(op: str, v: Any, names: tuple, d: int, tiled: bool) -> Any:
    shape = v.shape
    sizes = [_size_of(op, n) for n in names]
    for name, size in zip(reversed(names), reversed(sizes), strict=True):
        v = all_gather_p.bind1(v, axis_name=name, axis_size=size, dimension=d)
    n = math.prod(sizes)
    if tiled:
        return reshape(v, (*shape[:d], n * shape[d], *shape[d + 1 :]))
    return reshape(v, (*shape[:d], n, *shape[d:]))


@api_boundary
def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Sum over the examples of a named axis and give each example its own part of the sum.

    Args:
        x: an array, or a pytree of them.
        axis_name: a name or a tuple of names; the first varies slowest.
        scatter_dimension: the dimension that is shared out. Its size is that of the axis, or with
            `tiled` a multiple of it.
        axis_index_groups: must be None.
        tiled: each example keeps a block of the dimension; otherwise one entry, without the
            dimension.

    Raises:
        ShapeError: the dimension does not have such a size.
    """
    op = "psum_scatter"
    names = _names(op, axis_name, axis_index_groups)
    sizes = [_size_of(op, n) for n in names]
    n = math.prod(sizes)

    def one(leaf: Any) -> Any:
        v = _summable(_array(op, leaf))
        d = normalize_axis(op, scatter_dimension, v.ndim)
        block = _block(op, v, d, n, tiled)
        v = reshape(v, (*v.shape[:d], *sizes, *((block,) if tiled else ()), *v.shape[d + 1 :]))
        for name, size in zip(names, sizes, strict=True):
            v = psum_scatter_p.bind1(v, axis_name=name, axis_size=size, dimension=d)
        return v

    return tree.map(one, x)


def _block(op: str, v: Any, d: int, n: int, tiled: bool) -> int:
    """How much of dimension d each of n examples gets."""
    if tiled:
        if n and v.shape[d] % n:
            raise ShapeError(
                f"{op}: dimension {d} of {v.aval} must be divisible by the size {n} of the axis. "
                "Pad it."
            )
        return v.shape[d] // n if n else 0
    if v.shape[d] != n:
        raise ShapeError(
            f"{op}: dimension {d} of {v.aval} must have the size {n} of the axis. Reshape it, or "
            "pass tiled=True for a multiple."
        )
    return 1


@api_boundary
def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Transpose a dimension with a named axis: example i sends its entry j to example j.

    Args:
        x: an array, or a pytree of them.
        axis_name: a name or a tuple of names; the first varies slowest.
        split_axis: the dimension whose entries are sent. Its size is that of the axis, or with
            `tiled` a multiple of it.
        concat_axis: where the received entries go, counted without split_axis; with `tiled` the
            dimension along which they are joined.
        axis_index_groups: must be None.
        tiled: send blocks of the dimension and join them, so that all dimensions stay.

    Raises:
        ShapeError: split_axis does not have such a size.
    """
    op = "all_to_all"
    names = _names(op, axis_name, axis_index_groups)
    sizes = [_size_of(op, n) for n in names]
    n = math.prod(sizes)

    def one(leaf: Any) -> Any:
        v = _array(op, leaf)
        split = normalize_axis(op, split_axis, v.ndim)
        concat = normalize_axis(op, concat_axis, v.ndim)
        _block(op, v, split, n, tiled)
        if tiled or split == concat:
            return exchanged(v, split, concat)
        # A dimension of size 1 receives the entries; that of the split is left with size 1.
        at = concat + (split < concat)
        v = exchanged(expand_dims(v, at), split + (at <= split), at)
        return squeeze(v, split + (at <= split))

    def exchanged(v: Any, split: int, concat: int) -> Any:
        if len(names) == 1:
            return all_to_all_p.bind1(
                v, axis_name=names[0], axis_size=n, split=split, concat=concat
            )
        # One name after the other, on a dimension for each.
        k = len(names)
        shape = v.shape
        rest = shape[split] // n if n else 0
        v = reshape(v, (*shape[:split], *sizes, rest, *shape[split + 1 :]))
        for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
            v = all_to_all_p.bind1(
                v, axis_name=name, axis_size=size, split=split + i, concat=split + i
            )
        # These dimensions now tell the senders, which belong in front of the concat dimension.
        v = moveaxis(v, tuple(range(split, split + k)), tuple(range(k)))
        v = moveaxis(v, tuple(range(k)), tuple(range(concat, concat + k)))
        joined = list(shape)
        joined[split] = rest
        joined[concat] *= n
        return reshape(v, tuple(joined))

    return tree.map(one, x)


@api_boundary
def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: None = None) -> Any:
    """Exchange a dimension with a named axis of the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


# -- permutations ---------------------------------------------------------------------------------


@api_boundary
def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send examples of a named axis to each other.

    Args:
        x: an array, or a pytree of them.
        axis_name: a name, or a tuple of names, whose examples are counted with the first name
            varying slowest.
        perm: pairs (from, to) of example numbers; no example occurs twice on one side.

    Returns:
        A pytree like x; examples that nobody sends to get zeros.

    Raises:
        ArgumentError: a number is out of range or occurs twice.

    Example:
        >>> shift = lambda x: mgefn.lax.ppermute(x, "i", [(0, 1), (1, 2)])
        >>> mgefn.vmap(shift, axis_name="i")(mnp.arange(1, 4))
        Array([0, 1, 2], dtype=int32)
    """
    return _permuted("ppermute", x, axis_name, perm)


def _permuted(op: str, x: Any, axis_name: Any, perm: Any) -> Any:
    names = _names(op, axis_name)
    size = math.prod([_size_of(op, n) for n in names])
    try:
        pairs = tuple((operator.index(i), operator.index(j)) for i, j in perm)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{op}: perm must be pairs (from, to) of integers, got {perm!r:.60}."
        ) from None
    for side, what in ((0, "sender"), (1, "receiver")):
        numbers = [p[side] for p in pairs]
        if len(set(numbers)) != len(numbers) or not all(0 <= k < size for k in numbers):
            raise ArgumentError(
                f"{op}: each {what} must occur once and be in [0, {size}), got {pairs}."
            )

    def one(leaf: Any) -> Any:
        v = _array(op, leaf)
        if len(names) == 1:
            return ppermute_p.bind1(v, axis_name=names[0], axis_size=size, perm=pairs)
        everything = _gathered(op, v, names, 0, False)
        return take(_routed(everything, size, pairs), _index_of(op, names), 0)

    return tree.map(one, x)


@api_boundary
def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Reorder the examples of a named axis: example i gets what example perm[i] has.

    Raises:
        ArgumentError: perm is no permutation of the examples' numbers.
    """
    size = math.prod([_size_of("pshuffle", n) for n in _names("pshuffle", axis_name)])
    order = [operator.index(i) for i in perm]
    if sorted(order) != list(range(size)):
        raise ArgumentError(
            f"pshuffle: perm must hold each number of [0, {size}) once, got {order}. Use ppermute "
            "to leave some out."
        )
    return _permuted("pshuffle", x, axis_name, list(zip(order, range(size), strict=True)))


@api_boundary
def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Give every example of a named axis what example number `source` has."""
    op = "pbroadcast"
    names = _names(op, axis_name)
    size = math.prod([_size_of(op, n) for n in names])
    i = operator.index(source)
    if not 0 <= i < size:
        raise ArgumentError(f"{op}: source must be in [0, {size}), got {i}.")
    return tree.map(lambda leaf: take(_gathered(op, _array(op, leaf), names, 0, False), i, 0), x)


@api_boundary
def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """The same values; JAX's programs say with it how they differ between devices."""
    _names("pcast", axis_name)
    if to not in ("varying", "reduced", "unreduced"):
        raise ArgumentError(f"pcast: to must be 'varying', 'reduced' or 'unreduced', got {to!r}.")
    return x


# -- the axis itself ------------------------------------------------------------------------------


@api_boundary
def axis_index(axis_name: AxisName) -> Array:
    """The number of this example along a named axis, or of several with the first slowest.

    Example:
        >>> mgefn.vmap(lambda x: mgefn.lax.axis_index("i"), axis_name="i")(mnp.zeros(3))
        Array([0, 1, 2], dtype=int32)
    """
    return _index_of("axis_index", _names("axis_index", axis_name))


def _index_of(op: str, names: tuple) -> Any:
    dtype = dtypes.default_int()
    total: Any = scalar(0, dtype)
    for k, name in enumerate(names):
        size = _size_of(op, name)
        index = axis_index_p.bind1(axis_name=name, axis_size=size, dtype=dtype)
        total = index if k == 0 else total * size + index
    return total


@api_boundary
def axis_size(axis_name: AxisName) -> int:
    """The size of a named axis, or the product of several, as a Python int."""
    return math.prod([_size_of("axis_size", n) for n in _names("axis_size", axis_name)])


__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]
