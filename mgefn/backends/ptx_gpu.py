"""The table of our own kernels for a GPU, beside those of fused groups: primitive -> launches.

Elementwise operations and reductions have the rows of the native table (llvm_cpu.py). What has no
row in either becomes no kernel of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mgefn.backends.numpy_kernels.shaping import places_of_padding
from mgefn.backends.ptx_convolution import convolution
from mgefn.backends.ptx_copies import BITS, copied
from mgefn.backends.ptx_loops import scan, while_
from mgefn.compiler.codegen.ptx import THREADS
from mgefn.compiler.codegen.ptx_indexing import GatherCopy, ScatterAtomic
from mgefn.compiler.codegen.values import ALL, FLOATS, HALVES, INTEGERS, itemsize
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.gpu_lowering import DEVICE_ROWS, MOST_BLOCKS
from mgefn.compiler.native import dtype_name
from mgefn.compiler.steps import Fixed, Lowered, NativeStep, Place, Scratch, Spot, roots_of
from mgefn.control import loops
from mgefn.control import scan as scan_
from mgefn.core.avals import contiguous_strides
from mgefn.core.jaxpr import Eqn
from mgefn.ops import convolution as v
from mgefn.ops import indexing as i
from mgefn.ops import shaping as s
from mgefn.ops.indexing.gather import CLIP, FILL, window_sizes

WIDE = 1 << 31  # elements from which numbers of them need 64 bits
MOST_JOINED = 8  # arrays that are joined by a launch for each


def _moved(eqn: Eqn, code: list[Launch], places: Sequence[Place]) -> NativeStep:
    (out,) = eqn.out_binders
    return NativeStep(
        code, roots_of(places), [out], eqn.primitive.name,
        moved=2 * out.aval.nbytes, sources=[eqn.source],
    )  # fmt: skip


def _reshape(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    """Elements in row-major order, wherever they lie; a copy is one too."""
    (x,), (out,), (at,) = eqn.inputs, eqn.out_binders, places
    bits = BITS.get(x.aval.dtype.itemsize)
    if bits is None:
        return None
    source = at.root, at.offset
    return _moved(eqn, [copied(x.aval.shape, at.strides, source, bits, (out, 0), bits)], places)


def _concatenate(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (out,), d = eqn.out_binders, eqn.params["dimension"]
    bits = BITS.get(out.aval.dtype.itemsize)
    if bits is None or len(places) > MOST_JOINED:
        return None
    strides = contiguous_strides(out.aval.shape, itemsize(bits))
    code, start = [], 0
    for x, at in zip(eqn.inputs, places, strict=True):
        target = out, start * strides[d]
        source = at.root, at.offset
        code.append(copied(x.aval.shape, at.strides, source, bits, target, bits, strides))
        start += x.aval.shape[d]
    return _moved(eqn, code, places)


def _pad(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, _), (out,), (at, value) = eqn.inputs, eqn.out_binders, places
    bits = BITS.get(out.aval.dtype.itemsize)
    if bits is None:
        return None
    shape, source, target = places_of_padding(x.aval.shape, eqn.params["padding_config"])
    kept = tuple(s.stop - s.start for s in source)
    code = []
    if math.prod(kept) < math.prod(shape):
        spot = value.root, value.offset
        code.append(copied(shape, (0,) * len(shape), spot, bits, (out, 0), bits))
    if math.prod(kept):
        strides = contiguous_strides(shape, itemsize(bits))
        begin = at.offset + sum(s.start * n for s, n in zip(source, at.strides, strict=True))
        there = sum(s.start * n for s, n in zip(target, strides, strict=True))
        steps = [n * (s.step or 1) for s, n in zip(target, strides, strict=True)]
        code.append(copied(kept, at.strides, (at.root, begin), bits, (out, there), bits, steps))
    return _moved(eqn, code, places)


def _takes(op: str, dtype: str) -> bool:
    """Are there atomics for it? Floats of 16 bits are added up as float32."""
    return dtype in (ALL | HALVES.keys() if op == "sum" else ALL - FLOATS)


def _grid(elements: int) -> int:
    return min(-(-elements // THREADS), MOST_BLOCKS)


def _finish(numbers: list[int], rank: int, indices: Place, mapped: Sequence[int],
            shape: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> int:  # fmt: skip
    """Add what the columns need to a kernel's numbers; its rank, which is at least 1."""
    if not rank:
        numbers += [1, 0, 0, 0]
    for k, d in enumerate(mapped):
        numbers += [k * indices.strides[-1], shape[d] - sizes[d], strides[d]]
    return max(rank, 1)


def _gather(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, indices), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
    p, at, index = eqn.params, places[0], dtype_name(indices)
    if index not in INTEGERS:
        return None
    dn, check, itemsize_of_x = p["dimension_numbers"], p["mode"] is FILL, x.dtype.itemsize
    along = dict(zip(dn.start_indices_batching_dims, dn.operand_batching_dims, strict=True))
    left_out = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    window = iter([d for d in range(x.ndim) if d not in left_out])
    batch = iter(range(indices.ndim - 1))
    numbers: list[int] = [out.aval.size]
    steps = contiguous_strides(out.aval.shape, itemsize_of_x)
    for d, (n, step) in enumerate(zip(out.aval.shape, steps, strict=True)):
        if d in dn.offset_dims:
            numbers += [n, step, at.strides[next(window)], 0]
        else:
            k = next(batch)
            numbers += [n, step, at.strides[along[k]] if k in along else 0, places[1].strides[k]]
    mapped = dn.start_index_map
    rank = _finish(numbers, out.aval.ndim, places[1], mapped, x.shape, p["slice_sizes"], at.strides)
    wide = out.aval.size >= WIDE
    kernel = GatherCopy(itemsize_of_x, index, rank, len(mapped), check, wide)
    value = np.asarray(p["fill_value"] if check else 0).astype(x.dtype).reshape(1)
    slots = (
        (out, 0), (at.root, at.offset), (places[1].root, places[1].offset), (Fixed(value), 0),
    )  # fmt: skip
    launch = Launch(kernel, slots, tuple(numbers), _grid(out.aval.size), THREADS)
    return NativeStep(
        [launch], roots_of(places), [out], eqn.primitive.name,
        moved=2 * out.aval.nbytes + indices.nbytes, sources=[eqn.source],
    )  # fmt: skip


def _scatter(op: str) -> Callable[[Eqn, Sequence[Place]], NativeStep | None]:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        (x, indices, u), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
        dn, index = eqn.params["dimension_numbers"], dtype_name(indices)
        dtype = x.dtype.name
        if index not in INTEGERS or not _takes(op, dtype):
            return None
        held = "float32" if dtype in HALVES else dtype
        target: Spot = (out, 0) if held == dtype else (Scratch(0), 0)
        strides = contiguous_strides(x.shape, itemsize(held))
        sizes = window_sizes(x.shape, u.shape, dn)
        check = eqn.params["mode"] is not CLIP
        along = dict(zip(dn.scatter_indices_batching_dims, dn.operand_batching_dims, strict=True))
        left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
        window = iter([d for d in range(x.ndim) if d not in left_out])
        batch = iter(range(indices.ndim - 1))
        code: list[Launch] = [
            copied(x.shape, places[0].strides, (places[0].root, places[0].offset), dtype,
                   target, held)
        ]  # fmt: skip
        updates = places[2]
        if held != dtype:
            wide = Scratch(1)
            code.append(
                copied(u.shape, updates.strides, (updates.root, updates.offset), dtype,
                       (wide, 0), held)
            )  # fmt: skip
            updates = Place(wide, 0, contiguous_strides(u.shape, itemsize(held)))
        numbers: list[int] = [u.size]
        for d, (n, step) in enumerate(zip(u.shape, updates.strides, strict=True)):
            if d in dn.update_window_dims:
                numbers += [n, step, strides[next(window)], 0]
            else:
                k = next(batch)
                to = strides[along[k]] if k in along else 0
                numbers += [n, step, to, places[1].strides[k]]
        mapped = dn.scatter_dims_to_operand_dims
        rank = _finish(numbers, u.ndim, places[1], mapped, x.shape, sizes, strides)
        kernel = ScatterAtomic(op, held, index, rank, len(mapped), check, u.size >= WIDE)
        slots = ((updates.root, updates.offset), target, (places[1].root, places[1].offset))
        code.append(Launch(kernel, slots, tuple(numbers), _grid(u.size), THREADS))
        scratch = []
        if held != dtype:
            code.append(copied(x.shape, strides, target, held, (out, 0), dtype))
            scratch = [4 * x.size, 4 * u.size]
        return NativeStep(
            code, roots_of(places), [out], eqn.primitive.name, scratch=scratch,
            moved=2 * (x.nbytes + u.nbytes) + indices.nbytes, sources=[eqn.source],
        )  # fmt: skip

    return lower


ROWS_OF_PTX = {
    s.reshape_p: Lowered(_reshape, dense=False),
    s.concatenate_p: Lowered(_concatenate, dense=False),
    s.pad_p: Lowered(_pad, dense=False),
    i.gather_p: Lowered(_gather, dense=False),
    i.scatter_add_p: Lowered(_scatter("sum"), dense=False),
    i.scatter_min_p: Lowered(_scatter("min"), dense=False),
    i.scatter_max_p: Lowered(_scatter("max"), dense=False),
    v.conv_general_dilated_p: convolution,
    scan_.scan_p: scan,
    loops.while_p: while_,
}

DEVICE_ROWS.update(ROWS_OF_PTX)
