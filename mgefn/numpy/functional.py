"""Functions applied along dimensions: `vectorize` and its kin, on top of `vmap`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mgefn.api.batch import vmap
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.numpy.assembling import broadcast_shapes
from mgefn.numpy.creation import asarray
from mgefn.ops.shaping import expand_dims, normalize_axis, squeeze

_NAME = r"\w+"
_CORE = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_SIGNATURE = re.compile(rf"^{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*$")


def _parsed(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text) and not re.match(rf"^->{_CORE}", text):
        raise ArgumentError(
            f"vectorize: signature must look like '(m,n),(n)->(m)', got {signature!r}."
        )
    sides = []
    for side in text.split("->"):
        cores = re.findall(_CORE, side)
        sides.append([tuple(n for n in core[1:-1].split(",") if n) for core in cores])
    return sides[0], sides[1]


@api_boundary
def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Iterable[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function of scalars, or of small arrays, made to broadcast over leading dimensions.

    It maps by `vmap`, so pyfunc is called once with tracers and not for every element.

    Args:
        pyfunc: a function of arrays of the ranks in `signature`.
        excluded: positions and names of arguments to pass on as they are.
        signature: core dimensions such as "(m,n),(n)->(m)"; None: all arguments are scalars.

    Example:
        >>> dot = mnp.vectorize(mnp.dot, signature="(n),(n)->()")
        >>> dot(mnp.ones((3, 1, 2)), mnp.ones((4, 2))).shape
        (3, 4)
    """
    if not callable(pyfunc):
        raise ArgumentError(f"vectorize: needs a function, got {type(pyfunc).__name__}.")
    left_out = frozenset(excluded)
    if any(isinstance(i, int) and i < 0 for i in left_out):
        raise ArgumentError(f"vectorize: excluded positions must be 0 or more, got {excluded}.")
    cores = None if signature is None else _parsed(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mapped = [i for i in range(len(args)) if i not in left_out]
        named = [k for k in kwargs if k not in left_out]
        if named and cores is not None:
            raise ArgumentError(
                "vectorize: with a signature arguments go by position, got "
                f"{', '.join(named)}. Name them in excluded to pass them on."
            )
        arrays = [asarray(args[i]) for i in mapped] + [asarray(kwargs[k]) for k in named]
        if cores is None:
            dims: list[tuple[str, ...]] = [()] * len(arrays)
            outs = None
        else:
            dims, outs = cores
            if len(dims) != len(arrays):
                raise ArgumentError(
                    f"vectorize: signature {signature!r} has {len(dims)} arguments, got "
                    f"{len(arrays)}."
                )
        leads = _leading_shapes(arrays, dims)
        lead = broadcast_shapes(*leads)

        def call(*values: Any) -> Any:
            full = list(args)
            for i, v in zip(mapped, values, strict=False):
                full[i] = v
            keywords = {**kwargs, **dict(zip(named, values[len(mapped) :], strict=True))}
            out = pyfunc(*full, **keywords)
            if outs is not None:
                _check_outputs(out, outs, arrays, dims)
            return out

        fun: Callable[..., Any] = call
        # The last leading dimension is mapped innermost. A dimension of size 1 or none is not
        # mapped, which is what broadcasting means.
        values = list(arrays)
        for j in range(len(lead)):
            from_end = j + 1
            axes = []
            for k, own in enumerate(leads):
                if len(own) < from_end:
                    axes.append(None)
                elif own[-from_end] == 1 and lead[-from_end] != 1:
                    values[k] = squeeze(values[k], len(own) - from_end)
                    axes.append(None)
                else:
                    axes.append(0)
            if all(a is None for a in axes):
                fun = vmap(fun, in_axes=tuple(axes), axis_size=lead[-from_end])
            else:
                fun = vmap(fun, in_axes=tuple(axes))
        return fun(*values)

    return wrapped


def _leading_shapes(arrays: Sequence[Any], dims: Sequence[tuple[str, ...]]) -> list[tuple]:
    sizes: dict[str, int] = {}
    leads = []
    for x, names in zip(arrays, dims, strict=True):
        if x.ndim < len(names):
            raise ShapeError(
                f"vectorize: an argument with the core dimensions {names} needs rank {len(names)} "
                f"or more, got {x.aval}."
            )
        split = x.ndim - len(names)
        for name, n in zip(names, x.shape[split:], strict=True):
            if name.isdigit():
                if int(name) != n:
                    raise ShapeError(f"vectorize: a core dimension must be {name}, got {n}.")
            elif sizes.setdefault(name, n) != n:
                raise ShapeError(
                    f"vectorize: the core dimension {name} must have one size, got {sizes[name]} "
                    f"and {n}."
                )
        leads.append(x.shape[:split])
    return leads


def _check_outputs(
    out: Any,
    outs: Sequence[tuple[str, ...]],
    arrays: Sequence[Any],
    dims: Sequence[tuple[str, ...]],
) -> None:
    results = out if isinstance(out, tuple) else (out,)
    if len(results) != len(outs):
        raise ArgumentError(
            f"vectorize: the function must return {len(outs)} arrays, got {len(results)}."
        )
    sizes = {}
    for x, names in zip(arrays, dims, strict=True):
        sizes.update(zip(names, x.shape[x.ndim - len(names) :], strict=True))
    for r, names in zip(results, outs, strict=True):
        shape = asarray(r).shape
        if len(shape) != len(names) or any(
            sizes.setdefault(name, n) != n for name, n in zip(names, shape, strict=True)
        ):
            raise ShapeError(
                f"vectorize: an output with the core dimensions {names} came with shape {shape}."
            )


@api_boundary
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Any:
    """A function of vectors applied to each vector along an axis.

    Args:
        func1d: (vector, *args, **kwargs) -> array of any rank.
        axis: the axis of the vectors; the result's dimensions take its place.
        arr: an array.
        args, kwargs: passed on.
    """
    x = asarray(arr)
    i = normalize_axis("apply_along_axis", axis, x.ndim)

    def fun(v: Any) -> Any:
        return func1d(v, *args, **kwargs)

    # First the dimensions after the axis, from the last, then those before it.
    for _ in range(x.ndim - i - 1):
        fun = vmap(fun, in_axes=1, out_axes=-1)
    for _ in range(i):
        fun = vmap(fun, in_axes=0, out_axes=0)
    return fun(x)


@api_boundary
def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: int | Sequence[int]
) -> Array:
    """A function (array, axis) applied for one axis after the other; dropped ones are put back."""
    x = asarray(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        i = normalize_axis("apply_over_axes", axis, x.ndim)
        y = func(x, i)
        if y.ndim == x.ndim - 1:
            y = expand_dims(y, i)
        if y.ndim != x.ndim:
            raise ShapeError(
                f"apply_over_axes: the function must keep the rank or drop the axis, got {y.aval} "
                f"for {x.aval}."
            )
        x = y
    return x
