"""Arrays of a straight loop that stay in memory: slices of them are read and written.

A carry that is written lies where the loop's output is and is changed in place; `version` counts
the changes, so that a read of what it was before can be told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.builder import Builder
from mgefn.compiler.codegen.loops import combine
from mgefn.compiler.codegen.straight import Ref, Unfit, Value, Writer
from mgefn.compiler.codegen.values import SIGNED, UNSIGNED, held, itemsize, rounded, ty
from mgefn.compiler.groups import is_contiguous
from mgefn.core.avals import contiguous_strides

Shape = tuple[int, ...]


class Stored(NamedTuple):
    """An array in memory, or a view of one; strides and offset in elements.

    `buffer` is the number of the carry, or -1 for what nobody writes.
    """

    dtype: str
    pointer: str
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    buffer: int = -1
    version: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Is it no view, but for its shape? (Views of all elements in their order are not told.)"""
        return self.offset == 0 and is_contiguous(self.shape, self.strides, 1)


def stored(pointer: str, aval: Any, buffer: int = -1) -> Stored:
    """The array of a type that begins at a pointer."""
    shape = aval.shape
    return Stored(aval.dtype.name, pointer, shape, contiguous_strides(shape, 1), buffer=buffer)


# -- views ----------------------------------------------------------------------------------------


def _slice(x: Stored, params: dict[str, Any], shape: Shape) -> Stored:
    starts, steps = params["start_indices"], params["strides"]
    offset = x.offset + sum(i * s for i, s in zip(starts, x.strides, strict=True))
    strides = tuple(s * k for s, k in zip(x.strides, steps, strict=True))
    return x._replace(shape=shape, strides=strides, offset=offset)


def _rev(x: Stored, params: dict[str, Any], shape: Shape) -> Stored:
    turned = params["dimensions"]
    offset = x.offset + sum(x.strides[d] * (shape[d] - 1) for d in turned)
    strides = tuple(-s if i in turned else s for i, s in enumerate(x.strides))
    return x._replace(strides=strides, offset=offset)


def _transpose(x: Stored, params: dict[str, Any], shape: Shape) -> Stored:
    return x._replace(shape=shape, strides=tuple(x.strides[i] for i in params["permutation"]))


def _reshape(x: Stored, params: dict[str, Any], shape: Shape) -> Stored:
    """Axes of size 1 come and go; any other shape where the elements lie without gaps."""
    long = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    if is_contiguous(x.shape, x.strides, 1):
        strides = contiguous_strides(shape, 1)
    elif [n for n, _ in long] == [n for n in shape if n != 1]:
        left = iter(long)
        strides = tuple(0 if n == 1 else next(left)[1] for n in shape)
    else:
        raise Unfit
    return x._replace(shape=shape, strides=strides)


VIEWS: dict[str, Callable[[Stored, dict[str, Any], Shape], Stored]] = {
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "transpose": _transpose,
}


# -- reading and writing --------------------------------------------------------------------------


def _wide(w: Writer, start: Value) -> str:
    t = ty(start.dtype, 1)
    at = w.scalar(start.dtype, start.refs[0])
    op = "sext" if start.dtype in SIGNED else "zext"
    return at if t == "i64" else w.b.cast(op, at, t, "i64")


def _clamped(w: Writer, start: Value, most: int) -> str:
    at, b = _wide(w, start), w.b
    if start.dtype in UNSIGNED:  # of 64 bits it may look negative
        return b.call_intrinsic("umin", "i64", at, str(most))
    return b.call_intrinsic("smax", "i64", b.call_intrinsic("smin", "i64", at, str(most)), "0")


def _moved(w: Writer, pointer: str, at: str, stride: int) -> str:
    return w.b.offset(pointer, w.b.emit(f"mul i64 {at}, {stride}"))


def _runs(x: Stored, size: Sequence[int]) -> tuple[list[int], int]:
    """Where the runs of neighbours of a window begin, in elements, and how long they are."""
    *outer, run = size or (1,)
    *steps, step = x.strides or (1,)
    if step != 1:
        outer, steps, run = [*outer, run], [*steps, step], 1
    begins = [
        x.offset + sum(i * s for i, s in zip(index, steps, strict=True))
        for index in np.ndindex(*outer)
    ]
    return begins, run


def read(w: Writer, x: Stored, size: Sequence[int], starts: Sequence[Value] = ()) -> Value:
    """A window; starts that reach too far are moved back, none are all 0."""
    item, p = itemsize(x.dtype), x.pointer
    for start, n, m, stride in zip(starts, x.shape, size, x.strides, strict=bool(starts)):
        if n > m:
            p = _moved(w, p, _clamped(w, start, n - m), stride * item)
    begins, run = _runs(x, size)
    fixed = x.buffer < 0 and not starts
    refs: list[Ref] = []
    for at in begins:
        refs += w.load(p, x.dtype, run, fixed, at).refs
    return Value(x.dtype, refs)


def write(
    w: Writer, x: Stored, size: Sequence[int], starts: dict[int, Value], update: Value,
    clamp: bool, kind: str,
) -> Stored:  # fmt: skip
    """Write a window, or combine it with what is there.

    Args:
        x: a whole array.
        size: of the window.
        starts: by axis; 0 for the others.
        update: the window's elements.
        clamp: is a window that reaches too far moved back? Else it is not written.
        kind: "" or a reduction's.
    """
    b, item, p = w.b, itemsize(x.dtype), x.pointer
    inside = ""
    for axis, start in starts.items():
        most = x.shape[axis] - size[axis]
        if clamp:
            at = _clamped(w, start, most)
        else:
            at = _wide(w, start)
            here = b.icmp("ult", "i64", at, str(most + 1))
            inside = b.emit(f"and i1 {inside}, {here}") if inside else here
        p = _moved(w, p, at, x.strides[axis] * item)
    begins, run = _runs(x, size)

    def emit(b: Builder, width: int, names: Sequence[str]) -> str:
        return rounded(b, x.dtype, width, combine(b, kind, held(x.dtype), width, *names))

    on = ""
    with w.branch():
        if inside:
            yes, on = b.label("inside"), b.label("on")
            b.cond_br(inside, yes, on)
            b.place(yes)
        for i, at in enumerate(begins):
            here = b.offset(p, str(at * item))
            new = Value(x.dtype, update.refs[i * run : (i + 1) * run])
            if kind:
                new = w.apply(emit, x.dtype, [w.load(here, x.dtype, run), new])
            w.store(here, new)
        if inside:
            b.br(on)
            b.place(on)
    return x._replace(version=x.version + 1)
