"""Orthogonal and spectral decompositions, by LAPACK's routines that the NumPy backend calls too.

NumPy computes those of float32 and complex64 in double precision, SciPy in single. What a kernel of
`numpy_kernels/linalg.py` does by either is done here in the same one: signs and the order of
vectors, which rounding may turn around, then agree.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mgefn.compiler.codegen.decompositions import (
    HEADER,
    Eig,
    Eigh,
    FromReflectors,
    Qr,
    Reflectors,
    Schur,
    Spread,
    Svd,
    TridiagonalSolve,
    hermitian,
    unitary,
    workspace,
)
from mgefn.compiler.codegen.values import COMPLEX, FLOATS, itemsize
from mgefn.compiler.native import dtype_name
from mgefn.compiler.steps import (
    Call,
    Expanded,
    Lowered,
    NativeStep,
    Place,
    Scratch,
    Spot,
    chunk_of,
    roots_of,
)
from mgefn.control.branching import cond
from mgefn.control.linalg.eigen import eigh_p
from mgefn.control.linalg.lu import det_p, solve_matrices
from mgefn.control.linalg.matrices import adjoint, eye, matmul
from mgefn.control.linalg.svd import svd_p
from mgefn.core.array import scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Eqn, Var
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.cumulative import cumprod_along
from mgefn.ops.elementwise import abs_p, conj, convert, where
from mgefn.ops.reductions import reduce_and_p, reduce_max_p, reduce_sum_p
from mgefn.ops.shaping import (
    broadcast_to_shape,
    concatenate_p,
    expand_dims,
    full_like_aval,
    rev,
    slice_in_dim,
)

FLOPS = 2.0  # of LAPACK for each nanosecond, on one thread
CALL = 3000.0  # nanoseconds that a matrix takes at least
MOST_CHUNKS = 16  # each of which has memory of its own
MOST_BYTES = 1 << 26  # of the memory of all chunks, where one of them has less
LINE = 64  # bytes of which parts of that memory begin at multiples


class _Matrices:
    """The matrices of an operand, and the call of a kernel for each of them.

    Attributes:
        dtype: of elements.
        inner, size: in which LAPACK computes, and its bytes; real_size is that of their real parts.
        m, n: rows and columns; `steps` is the smaller of the two, `count` how many matrices.
    """

    def __init__(self, aval: ShapedArray, wide: bool):
        """wide: in double precision?"""
        self.aval = aval
        self.dtype = self.inner = dtype_name(aval)
        self.complex = self.dtype in COMPLEX
        if wide:
            self.inner = "complex128" if self.complex else "float64"
        self.size = itemsize(self.inner)
        self.real_size = itemsize(COMPLEX.get(self.inner, self.inner))
        self.count = math.prod(aval.shape[:-2])
        self.m, self.n = aval.shape[-2:]
        self.steps = min(self.m, self.n)

    @property
    def known(self) -> bool:
        """Has LAPACK routines for this dtype?"""
        return self.dtype in FLOATS or self.complex

    def step(
        self, eqn: Eqn, places: Sequence[Place], kernel: Any, sizes: dict[str, int],
        parts: dict[str, int], flops: float, passes: int | None = None,
    ) -> NativeStep:  # fmt: skip
        """A step that calls a kernel, with the operands, the results and its memory.

        Args:
            sizes: numbers of the kernel's descriptor by name.
            parts: bytes of the parts of a chunk's memory, whose offsets it has as well.
            flops: for each matrix, of real numbers.
            passes: through a matrix; None: one for each of its columns, as where reflectors are
                applied one after the other.
        """
        count = self.count
        flops *= count * (4 if self.complex else 1)
        offsets: dict[str, int] = {}
        each = 0
        for name, nbytes in parts.items():
            offsets[name] = each
            each += -(-nbytes // LINE) * LINE
        each = max(each, LINE)
        most = max(1, min(MOST_CHUNKS, MOST_BYTES // each))
        chunk = chunk_of(count, count * CALL + flops / FLOPS, most)
        values = {**sizes, **offsets, "chunk": chunk or count, "each": each}
        numbers = tuple(values.get(name, 0) for name in kernel.names)
        assert kernel.names[: len(HEADER)] == HEADER
        memory: Spot = (Scratch(0), 0)
        slots = (*((p.root, p.offset) for p in places), *((v, 0) for v in eqn.out_binders), memory)
        avals = [a.aval for a in eqn.inputs] + [v.aval for v in eqn.out_binders]
        passes = self.steps if passes is None else passes
        moved = sum(a.nbytes for a in avals) + passes * self.aval.nbytes
        # A matrix is read before anything is written in its place.
        over = {i: (0,) for i in range(len(eqn.out_binders))} if len(places) == 1 else {}
        return NativeStep(
            [Call(kernel, slots, numbers, count, chunk)], roots_of(places), list(eqn.out_binders),
            eqn.primitive.name, scratch=[each * (-(-count // chunk) if chunk else 1)],
            in_place=over, flops=flops, moved=moved,
        )  # fmt: skip


# -- orthogonal -----------------------------------------------------------------------------------


def _qr(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    pivoting = eqn.params["pivoting"]
    x = _Matrices(eqn.inputs[0].aval, wide=not pivoting)
    if not x.known:
        return None
    dtype, m, n = x.inner, x.m, x.n
    k = m if eqn.params["full_matrices"] else x.steps
    if pivoting:
        more = ("rwork",) if x.complex else ()
        first = workspace(dtype, "geqp3", (m, n, None, m, None, None, "work", -1, *more, None))
    else:
        first = workspace(dtype, "geqrf", (m, n, None, m, None, "work", -1, None))
    second = workspace(dtype, unitary(dtype), (m, k, x.steps, None, m, None, "work", -1, None))
    lwork = max(first["work"], second["work"])
    sizes = {"m": m, "n": n, "k": k, "steps": x.steps, "lwork": lwork}
    parts = {"a": m * max(n, k) * x.size, "tau": x.steps * x.size, "work": lwork * x.size}
    if pivoting:
        parts |= {"order": 4 * n, "rwork": 2 * n * x.real_size}
    flops = 2.0 * x.steps * m * (n + k)
    return x.step(eqn, places, Qr(x.dtype, dtype, pivoting), sizes, parts, flops)


def _geqrf(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x = _Matrices(eqn.inputs[0].aval, wide=True)
    if not x.known:
        return None
    m, n = x.m, x.n
    lwork = workspace(x.inner, "geqrf", (m, n, None, m, None, "work", -1, None))["work"]
    sizes = {"m": m, "n": n, "steps": x.steps, "lwork": lwork}
    parts = {"a": m * n * x.size, "tau": x.steps * x.size, "work": lwork * x.size}
    return x.step(eqn, places, Reflectors(x.dtype, x.inner), sizes, parts, 2.0 * m * n * x.steps)


def _householder_product(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x = _Matrices(eqn.inputs[0].aval, wide=False)
    factors = eqn.inputs[1].aval
    if not x.known or dtype_name(factors) != x.dtype:
        return None
    m, n, k = x.m, x.n, factors.shape[-1]
    lwork = workspace(x.inner, unitary(x.inner), (m, n, k, None, m, None, "work", -1, None))["work"]
    sizes = {"m": m, "n": n, "steps": k, "lwork": lwork}
    parts = {"a": m * n * x.size, "work": lwork * x.size}
    return x.step(eqn, places, FromReflectors(x.dtype), sizes, parts, 2.0 * m * n * k)


# -- singular values ------------------------------------------------------------------------------


def _svd(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x = _Matrices(eqn.inputs[0].aval, wide=True)
    if not x.known:
        return None
    m, n, steps = x.m, x.n, x.steps
    vectors, full = eqn.params["compute_uv"], eqn.params["full_matrices"]
    job = ("A" if full else "S") if vectors else "N"
    k, rows = (m, n) if full else (steps, steps)
    more = ("rwork",) if x.complex else ()
    lwork = workspace(
        x.inner, "gesdd", (job, m, n, None, m, None, None, m, None, rows, "work", -1, *more,
                           None, None),
    )["work"]  # fmt: skip
    parts = {"a": m * n * x.size, "work": lwork * x.size, "iwork": 8 * 8 * steps}
    parts["s"] = steps * x.real_size
    if vectors:
        parts |= {"u": m * k * x.size, "vh": rows * n * x.size}
    if x.complex:
        # As gesdd's own text has it; it answers no question about this one.
        most = max(5 * steps * (steps + 1), 2 * steps * (max(m, n) + steps) + steps)
        parts["rwork"] = x.real_size * (most if vectors else 7 * steps)
    sizes = {"m": m, "n": n, "k": k, "l": rows, "steps": steps, "lwork": lwork}
    flops = (20.0 if vectors else 4.0) * m * n * steps
    return x.step(eqn, places, Svd(x.dtype, x.inner, job), sizes, parts, flops)


# -- eigenvalues ----------------------------------------------------------------------------------


def _eigh(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x = _Matrices(eqn.inputs[0].aval, wide=True)
    if not x.known:
        return None
    n, lower, vectors = x.n, eqn.params["lower"], eqn.params["vectors"]
    more = ("rwork", -1) if x.complex else ()
    found = workspace(
        x.inner, hermitian(x.inner),
        ("V" if vectors else "N", "L" if lower else "U", n, None, n, None, "work", -1, *more,
         "iwork", -1, None),
    )  # fmt: skip
    rwork = found.get("rwork", 0)
    sizes = {"n": n, "lwork": found["work"], "lrwork": rwork, "liwork": found["iwork"]}
    parts = {
        "a": n * n * x.size, "w": n * x.real_size, "work": found["work"] * x.size,
        "rwork": rwork * x.real_size, "iwork": 8 * found["iwork"],
    }  # fmt: skip
    flops = (9.0 if vectors else 1.4) * n**3
    return x.step(eqn, places, Eigh(x.dtype, x.inner, lower, vectors), sizes, parts, flops)


def _eig(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    left, right = eqn.params["left"], eqn.params["right"]
    x = _Matrices(eqn.inputs[0].aval, wide=not left)
    if not x.known:
        return None
    n = x.n
    jobs = ["V" if wanted else "N" for wanted in (left, right)]
    values, more = ((None,), (None,)) if x.complex else ((None, None), ())
    lwork = workspace(
        x.inner, "geev",
        (*jobs, n, None, n, *values, None, n, None, n, "work", -1, *more, None),
    )["work"]  # fmt: skip
    square, line = n * n * x.size, n * x.size
    parts = {"a": square, "w": line, "wi": line, "work": lwork * x.size}
    parts |= {name: square for name, wanted in (("vl", left), ("vr", right)) if wanted}
    if x.complex:
        parts["rwork"] = 2 * n * x.real_size
    flops = (25.0 if left or right else 10.0) * n**3
    return x.step(
        eqn, places, Eig(x.dtype, x.inner, left, right), {"n": n, "lwork": lwork}, parts, flops
    )


def _schur(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x = _Matrices(eqn.inputs[0].aval, wide=False)
    if not x.known:
        return None
    n, vectors = x.n, eqn.params["vectors"]
    values, more = ((None,), (None,)) if x.complex else ((None, None), ())
    lwork = workspace(
        x.inner, "gees",
        ("V" if vectors else "N", "N", None, n, None, n, None, *values, None, n, "work", -1, *more,
         None, None),
    )["work"]  # fmt: skip
    square, line = n * n * x.size, n * x.size
    parts = {"a": square, "w": line, "wi": line, "work": lwork * x.size}
    if vectors:
        parts["q"] = square
    if x.complex:
        parts["rwork"] = n * x.real_size
    flops = (25.0 if vectors else 10.0) * n**3
    return x.step(eqn, places, Schur(x.dtype, vectors), {"n": n, "lwork": lwork}, parts, flops)


# -- tridiagonal ----------------------------------------------------------------------------------


def _tridiagonal_solve(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    *diagonals, b = (a.aval for a in eqn.inputs)
    x = _Matrices(b, wide=False)
    n, k = x.m, x.n
    # A single row is a division, whose quotient by 0 is no NaN.
    if not x.known or n == 1 or any(dtype_name(d) != x.dtype for d in diagonals):
        return None
    line = n * x.size
    parts = {"lower": line, "main": line, "upper": line, "b": k * line}
    kernel = TridiagonalSolve(x.dtype)
    return x.step(eqn, places, kernel, {"n": n, "k": k}, parts, n * (4.0 + 5.0 * k), 2)


# -- equal values ---------------------------------------------------------------------------------


def _spread(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    w = eqn.inputs[0].aval
    dtype = dtype_name(w)
    if dtype not in FLOATS:
        return None
    n, count = w.shape[-1], math.prod(w.shape[:-1])
    factor = 4 * math.sqrt(n) * float(np.finfo(w.dtype).eps)
    (bits,) = struct.unpack("<q", struct.pack("<d", factor))
    slots = (*((p.root, p.offset) for p in places), *((v, 0) for v in eqn.out_binders))
    chunk = chunk_of(count, count * n * (5.0 + n / 16))
    moved = w.nbytes + sum(v.aval.nbytes for v in eqn.out_binders)
    return NativeStep(
        [Call(Spread(dtype), slots, (n, bits), count, chunk)], roots_of(places),
        list(eqn.out_binders), eqn.primitive.name, flops=6.0 * count * n, moved=moved,
    )  # fmt: skip


# -- what is made of them -------------------------------------------------------------------------


def _pinv(a: Any, rtol: Any, hermitian: bool) -> tuple[Any, ...]:
    """The pseudoinverse, as in numpy_kernels/linalg.py."""
    if hermitian:
        left, values = eigh_p.bind(a, lower=True, vectors=True)
        right = adjoint(left)
    else:
        u, values, vh = svd_p.bind(a, full_matrices=False, compute_uv=True)
        left, right = adjoint(vh), adjoint(u)
    sizes = abs_p.bind1(values)
    largest = reduce_max_p.bind1(sizes, axes=(sizes.ndim - 1,))
    kept = sizes > expand_dims(rtol * largest, -1)
    kept = kept | (sizes != sizes)  # a matrix of NaN has no inverse, not the inverse 0
    one, zero = scalar(1, sizes.dtype), scalar(0, sizes.dtype)
    inverse = where(kept, one / where(kept, values, one), zero)
    factors = broadcast_to_shape(expand_dims(inverse, -2), left.shape)
    return (matmul(left * convert(factors, left.dtype), right),)


def _cofactor(a: Any) -> tuple[Any, ...]:
    """The derivatives of the determinant by the elements, as in numpy_kernels/linalg.py."""
    n, lead = a.shape[-1], a.shape[:-2]
    if n < 2:
        return (full_like_aval(1, a.aval),)
    inverse = solve_matrices(a, eye(n, a.dtype, lead))

    def size(x: Any) -> Any:
        return reduce_max_p.bind1(
            reduce_sum_p.bind1(abs_p.bind1(x), axes=(x.ndim - 2,)), axes=(x.ndim - 2,)
        )

    # Far from singular the inverse gives them in a fraction of the time.
    limit = 0.01 / math.sqrt(float(np.finfo(a.dtype).eps))
    product = size(a) * size(inverse)
    far = product < scalar(limit, product.dtype)
    far = reduce_and_p.bind1(far, axes=tuple(range(far.ndim)))

    def by_inverse(a: Any, inverse: Any) -> Any:
        return inverse.mT * broadcast_to_shape(expand_dims(det_p.bind1(a), (-2, -1)), a.shape)

    def by_vectors(a: Any, inverse: Any) -> Any:
        u, s, vh = svd_p.bind(a, full_matrices=True, compute_uv=True)
        axis = s.ndim - 1
        ones = full_like_aval(1, s.aval.update(shape=(*lead, 1)))

        def before(x: Any) -> Any:
            """The products of all earlier elements."""
            earlier = slice_in_dim(cumprod_along(x, axis), 0, n - 1, axis=-1)
            return concatenate_p.bind1(ones, earlier, dimension=axis)

        others = before(s) * rev(before(rev(s, (axis,))), (axis,))
        phase = expand_dims(det_p.bind1(u) * det_p.bind1(vh), -1)
        factors = broadcast_to_shape(expand_dims(convert(others, a.dtype) * phase, -2), a.shape)
        return matmul(conj(u) * factors, conj(vh))

    return (cond(far, by_inverse, by_vectors, a, inverse),)


def _as_program(program: Callable[..., tuple[Any, ...]], eqn: Eqn) -> list[Eqn] | None:
    """The equations of a function that does the same."""
    avals = [a.aval for a in eqn.inputs]
    if any(a.size == 0 for a in avals):
        return None
    closed = trace_closed(partial(program, **eqn.params), avals, eqn.primitive.name)
    given: dict[Any, Any] = dict(zip(closed.jaxpr.in_binders, eqn.inputs, strict=True))
    made: dict[Any, Var] = dict(zip(closed.jaxpr.outs, eqn.out_binders, strict=True))
    return [
        Eqn(
            e.primitive, [given.get(a, a) for a in e.inputs], e.params,
            [made.get(v, v) for v in e.out_binders], eqn.source,
        )
        for e in closed.jaxpr.eqns
    ]  # fmt: skip


qr = Lowered(_qr)
geqrf = Lowered(_geqrf)
householder_product = Lowered(_householder_product)
svd = Lowered(_svd)
eigh = Lowered(_eigh)
eig = Lowered(_eig)
schur = Lowered(_schur)
tridiagonal_solve = Lowered(_tridiagonal_solve)
spread = Lowered(_spread)
pinv = Expanded(partial(_as_program, _pinv))
cofactor = Expanded(partial(_as_program, _cofactor))
