"""Triangular systems, Cholesky and LU decompositions, and what is made of them.

Small matrices go through kernels of their own, many at a time; larger ones, and complex numbers,
through LAPACK.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgefn.backends.llvm_kernels.contractions import chunk_of
from mgefn.compiler.codegen.linalg import (
    SMALL,
    Cholesky,
    Conjugate,
    Determinant,
    LapackCholesky,
    LapackLu,
    LapackSolve,
    Lu,
    Permutation,
    Reorder,
    Substitute,
)
from mgefn.compiler.codegen.values import COMPLEX, FLOATS, INTEGERS
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import Call, Copy, Lowered, NativeStep, Place, Scratch, Spot, roots_of
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Eqn

DTYPES = FLOATS | frozenset(COMPLEX)
FLOPS = 2.0  # a thread's, for each nanosecond, of the loops of small matrices
CALL = 200.0  # nanoseconds that a small matrix takes at least


def _spots(places: Sequence[Place]) -> list[Spot]:
    return [(p.root, p.offset) for p in places]


def _times(dtype: str) -> int:
    """Operations for one of this dtype."""
    return 4 if dtype in COMPLEX else 1


def _width(size: int, columns: int) -> int:
    """Elements of a vector along rows of so many."""
    full = vector_bytes() // size
    return min(full, max(4, 1 << (columns - 1).bit_length()))


def _step(
    eqn: Eqn, places: Sequence[Place], code: list[Call | Copy], flops: float,
    scratch: Sequence[int] = (), in_place: dict[int, tuple[int, ...]] | None = None,
) -> NativeStep:  # fmt: skip
    avals = [a.aval for a in eqn.inputs] + [v.aval for v in eqn.out_binders]
    return NativeStep(
        code, roots_of(places), list(eqn.out_binders), eqn.primitive.name, scratch=scratch,
        in_place=in_place, flops=flops, moved=sum(a.nbytes for a in avals),
    )  # fmt: skip


def _cholesky(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    a, out = eqn.inputs[0].aval, eqn.out_binders[0]
    dtype = dtype_name(a)
    if dtype not in DTYPES:
        return None
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    flops = _times(dtype) * count * n**3 / 3
    if dtype in COMPLEX:
        width = _width(a.dtype.itemsize // 2, 2 * n)
    else:
        width = _width(a.dtype.itemsize, n)
    small = dtype in FLOATS and n <= SMALL
    kernel = Cholesky(dtype, width) if small else LapackCholesky(dtype, width)
    chunk = chunk_of(count, count * CALL + flops / FLOPS)
    call = Call(kernel, (*_spots(places), (out, 0)), (n,), count, chunk)
    return _step(eqn, places, [call], flops)


class _System:
    """Calls that solve op(a) x = b, or x op(a) = b, for triangles of a contiguous matrix."""

    def __init__(self, dtype: str, size: int, n: int, k: int, count: int):
        self.dtype, self.size, self.n, self.k, self.count = dtype, size, n, k, count

    def solve(
        self, a: Spot, b: Spot, x: Spot, *, left: bool, lower: bool, transposed: bool, unit: bool,
        conjugate: bool = False,
    ) -> list[Call | Copy]:  # fmt: skip
        n, k, size, count = self.n, self.k, self.size, self.count
        flops = float(count) * n * n * k * _times(self.dtype)
        if self.dtype in COMPLEX or n > SMALL:
            code: list[Call | Copy] = [] if b == x else [Copy(x, b, count * n * k * size)]
            op = ("C" if conjugate else "T") if transposed else "N"
            kernel = LapackSolve(self.dtype, left, lower, op, unit)
            chunk = chunk_of(count, count * CALL + flops / 10 if count > 1 else 0)
            solved = Call(kernel, (a, x), (n, k), count, chunk)
            if conjugate and not transposed:
                # conj(a) x = b is a conj(x) = conj(b).
                elements = count * n * k
                turned = Call(Conjugate(self.dtype), (x, x), (), elements,
                              chunk_of(elements, float(elements)))  # fmt: skip
                return [*code, turned, solved, turned]
            return [*code, solved]
        # As a system from the left whose matrix is lower triangular.
        a_steps, b_steps = (n * size, size), (k * size, size)
        if not left:
            transposed = not transposed
            b_steps = (size, n * size)
        if transposed:
            a_steps = a_steps[::-1]
            lower = not lower
        a_start = b_start = 0
        if not lower:
            # The last row first.
            a_start, b_start = (n - 1) * sum(a_steps), (n - 1) * b_steps[0]
            a_steps, b_steps = (-a_steps[0], -a_steps[1]), (-b_steps[0], b_steps[1])
        width = _width(size, k)
        vectors = min(4, -(-k // width))
        panels = -(-k // (width * vectors))
        steps = (n * k * size, *b_steps)
        numbers = (n, k, panels, n * n * size, *a_steps, *steps, *steps)
        strided = k > 1 and b_steps[1] != size
        kernel = Substitute(self.dtype, width, vectors, unit, strided)

        def moved(spot: Spot, offset: int) -> Spot:
            return spot[0], spot[1] + offset

        slots = (moved(a, a_start), moved(b, b_start), moved(x, b_start))
        units = count * panels
        chunk = chunk_of(units, units * CALL + flops / FLOPS)
        return [Call(kernel, slots, numbers, units, chunk)]


def _triangular_solve(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    a, b = (x.aval for x in eqn.inputs)
    out = eqn.out_binders[0]
    dtype = dtype_name(b)
    if dtype not in DTYPES or dtype_name(a) != dtype:
        return None
    p = eqn.params
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    k = b.shape[-1] if p["left_side"] else b.shape[-2]
    system = _System(dtype, a.dtype.itemsize, n, k, count)
    matrix, right = _spots(places)
    code = system.solve(
        matrix, right, (out, 0), left=p["left_side"], lower=p["lower"],
        transposed=p["transpose_a"], unit=p["unit_diagonal"],
        conjugate=p["conjugate_a"] and dtype in COMPLEX,
    )  # fmt: skip
    return _step(eqn, places, code, float(count) * n * n * k * _times(dtype))


def _factored(
    a: ShapedArray, matrix: Spot, factors: Spot, pivots: Spot, order: Spot, scratch: list[int]
) -> list[Call | Copy]:
    """Calls that decompose matrices; more memory is added to `scratch`."""
    dtype, size = dtype_name(a), a.dtype.itemsize
    m, n = a.shape[-2:]
    count, steps = math.prod(a.shape[:-2]), min(m, n)
    flops = _lu_flops(a)
    if dtype in FLOATS and steps <= SMALL and m * n <= 4 * SMALL * SMALL:
        kernel = Lu(dtype, _width(size, n))
        chunk = chunk_of(count, count * CALL + flops / FLOPS)
        return [Call(kernel, (matrix, factors, pivots, order), (m, n, steps), count, chunk)]
    scratch.append(count * m * n * size)
    memory: Spot = (Scratch(len(scratch) - 1), 0)
    chunk = chunk_of(count, flops / 10 if count > 1 else 0)
    return [
        Call(LapackLu(dtype), (matrix, factors, pivots, memory), (m, n, steps), count, chunk),
        _permuted("int32", pivots, order, count, steps, m),
    ]


def _lu_flops(a: ShapedArray) -> float:
    m, n = a.shape[-2:]
    return math.prod(a.shape[:-2]) * m * n * min(m, n) * 2 / 3 * _times(dtype_name(a))


def _permuted(dtype: str, pivots: Spot, order: Spot, count: int, steps: int, rows: int) -> Call:
    chunk = chunk_of(count, count * (rows + 3.0 * steps))
    return Call(Permutation(dtype), (pivots, order), (steps, rows), count, chunk)


def _lu(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    a = eqn.inputs[0].aval
    if dtype_name(a) not in DTYPES:
        return None
    scratch: list[int] = []
    outs: list[Spot] = [(v, 0) for v in eqn.out_binders]
    factors, pivots, order = outs
    code = _factored(a, _spots(places)[0], factors, pivots, order, scratch)
    return _step(eqn, places, code, _lu_flops(a), scratch)


def _lu_pivots_to_permutation(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    pivots, out = eqn.inputs[0].aval, eqn.out_binders[0]
    dtype = dtype_name(pivots)
    if dtype not in INTEGERS or dtype_name(out.aval) != dtype:
        return None
    count, steps = math.prod(pivots.shape[:-1]), pivots.shape[-1]
    rows = eqn.params["permutation_size"]
    call = _permuted(dtype, _spots(places)[0], (out, 0), count, steps, rows)
    return _step(eqn, places, [call], 0.0)


def _solve(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    a, *factors, b = (x.aval for x in eqn.inputs)
    out = eqn.out_binders[0]
    dtype = dtype_name(a)
    if dtype not in DTYPES or dtype_name(b) != dtype:
        return None
    transposed = eqn.params["transpose_a"]
    n, k, size, count = a.shape[-1], b.shape[-1], a.dtype.itemsize, math.prod(a.shape[:-2])
    matrix, *given, right = _spots(places)
    scratch = [count * n * 4]
    order: Spot = (Scratch(0), 0)
    if factors:
        if dtype_name(factors[0]) != dtype or dtype_name(factors[1]) != "int32":
            return None
        packed, pivots = given
        code: list[Call | Copy] = [_permuted("int32", pivots, order, count, n, n)]
    else:
        scratch += [count * n * n * size, count * n * 4]
        packed, pivots = (Scratch(1), 0), (Scratch(2), 0)
        code = _factored(a, matrix, packed, pivots, order, scratch)
    system = _System(dtype, size, n, k, count)
    chunk = chunk_of(count, count * n * (20.0 + k * size / 8))
    if not transposed:
        # a[order] = L U
        target: Spot = (out, 0)
        reorder = Call(Reorder(False), (right, order, target), (n, k * size), count, chunk)
        code.append(reorder)
        for lower in (True, False):
            code += system.solve(
                packed, target, target, left=True, lower=lower, transposed=False, unit=lower
            )
    else:
        scratch.append(count * n * k * size)
        target = (Scratch(len(scratch) - 1), 0)
        for lower in (False, True):
            code += system.solve(
                packed, target if lower else right, target, left=True, lower=lower,
                transposed=True, unit=lower,
            )  # fmt: skip
        code.append(Call(Reorder(True), (target, order, (out, 0)), (n, k * size), count, chunk))
    flops = 2.0 * count * n * n * k * _times(dtype) + (0.0 if factors else _lu_flops(a))
    return _step(eqn, places, code, flops, scratch)


def _det(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    a, out = eqn.inputs[0].aval, eqn.out_binders[0]
    dtype = dtype_name(a)
    if dtype not in DTYPES:
        return None
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    scratch = [a.nbytes, count * n * 4, count * n * 4]
    packed, pivots, order = [(Scratch(i), 0) for i in range(3)]
    code = _factored(a, _spots(places)[0], packed, pivots, order, scratch)
    chunk = chunk_of(count, count * n * 2.0)
    code.append(Call(Determinant(dtype), (packed, pivots, (out, 0)), (n,), count, chunk))
    return _step(eqn, places, code, _lu_flops(a), scratch)


cholesky = Lowered(_cholesky)
triangular_solve = Lowered(_triangular_solve)
lu = Lowered(_lu)
lu_pivots_to_permutation = Lowered(_lu_pivots_to_permutation)
solve = Lowered(_solve)
det = Lowered(_det)
