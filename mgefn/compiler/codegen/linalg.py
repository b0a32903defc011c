"""Decompositions of small matrices and triangular systems as native code, a matrix at a time.

Matrices are in row order. The loops are the textbook ones, with vectors along rows: of matrices
that fit in the first cache nothing is gained by blocks.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mgefn.compiler.codegen.builder import Builder, Module, number, vector
from mgefn.compiler.codegen.complex_values import joined, parted
from mgefn.compiler.codegen.parts import (
    Loop,
    Memory,
    Numbers,
    coordinates,
    finished,
    pointers,
    walked,
)
from mgefn.compiler.codegen.values import COMPLEX, LLVM_TYPES, alignment, itemsize, ty

SMALL = 64  # rows up to which these kernels are used


def _at(b: Builder, start: str, i: str, stride: str | int) -> str:
    """start + i * stride, in bytes."""
    return walked(b, start, [i], [str(stride)])


def _plus(b: Builder, x: str, y: str | int) -> str:
    return b.emit(f"add i64 {x}, {y}")


class _Matrices:
    """What the emitters below share: the builder, a vector type, loops with counters."""

    def __init__(self, dtype: str, width: int, loops: int):
        self.b = b = Builder(Module())
        self.scalar, self.size, self.width = ty(dtype, 1), itemsize(dtype), width
        self.align = alignment(dtype)
        self.t = vector(self.scalar, width)
        self.memory = Memory(b, self.scalar, width, self.size)
        self.counters = [b.emit("alloca i64") for _ in range(loops)]

    def loop(self, number: int, start: str, stop: str, step: int = 1) -> Loop:
        return Loop(self.b, self.counters[number], start, stop, str(step))

    def load(self, pointer: str) -> str:
        return self.b.load(self.scalar, pointer, self.align)

    def store(self, x: str, pointer: str) -> None:
        self.b.store(self.scalar, x, pointer, self.align)

    def subtract(
        self, number: int, start: str, stop: str, row: str, factor: str, other: str
    ) -> None:
        """row[start:stop] -= factor * other[start:stop]"""
        b, memory = self.b, self.memory
        minus = b.splat(self.t, b.fneg(self.scalar, factor))
        with self.loop(number, start, stop, self.width) as j:
            mask = memory.mask(b.emit(f"sub i64 {stop}, {j}"))
            at = _at(b, row, j, self.size)
            y = memory.load(_at(b, other, j, self.size), mask)
            memory.store(b.fma(self.t, minus, y, memory.load(at, mask)), at, mask)


class Cholesky(NamedTuple):
    """The lower factor of each matrix; all NaN where there is none. At most SMALL rows.

    Pointers: a, out. Domain: matrices. Descriptor: rows.
    """

    dtype: str
    width: int

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, self.width, 5)
        b, memory, size, scalar = e.b, e.memory, e.size, e.scalar
        n = Numbers(b).one()
        source, target = pointers(b, 2)
        column = b.emit(f"alloca [{SMALL} x {scalar}]")
        failed = b.emit("alloca i1")
        row_bytes = b.emit(f"mul i64 {n}, {size}")
        bytes_each = b.emit(f"mul i64 {n}, {row_bytes}")
        with e.loop(0, "%begin", "%end") as u:
            a, out = _at(b, source, u, bytes_each), _at(b, target, u, bytes_each)
            b.store("i1", "false", failed)
            with e.loop(1, "0", n) as i, e.loop(2, "0", n, self.width) as j:
                at = b.emit(f"add i64 {b.emit(f'mul i64 {i}, {row_bytes}')}, "
                            f"{b.emit(f'mul i64 {j}, {size}')}")  # fmt: skip
                kept = memory.mask(b.emit(f"sub i64 {_plus(b, i, 1)}, {j}"))
                whole = memory.mask(b.emit(f"sub i64 {n}, {j}"))
                memory.store(memory.load(b.offset(a, at), kept), b.offset(out, at), whole)
            with e.loop(1, "0", n) as k:
                at = _at(b, _at(b, out, k, row_bytes), k, size)
                pivot = e.load(at)
                bad = b.fcmp("ule", scalar, pivot, b.const(scalar, 0))
                b.store("i1", b.emit(f"or i1 {bad}, {b.load('i1', failed)}"), failed)
                root = b.call_intrinsic("sqrt", scalar, pivot)
                e.store(root, at)
                next_k = _plus(b, k, 1)
                with e.loop(2, next_k, n) as i:
                    below = _at(b, _at(b, out, i, row_bytes), k, size)
                    x = b.fdiv(scalar, e.load(below), root)
                    e.store(x, below)
                    e.store(x, _at(b, column, i, size))
                with e.loop(2, next_k, n) as i:
                    row = _at(b, out, i, row_bytes)
                    factor = e.load(_at(b, row, k, size))
                    e.subtract(3, next_k, _plus(b, i, 1), row, factor, column)
            bad, done = b.label("bad"), b.label("good")
            b.cond_br(b.load("i1", failed), bad, done, likely=False)
            b.place(bad)
            with e.loop(4, "0", b.emit(f"mul i64 {n}, {n}")) as i:
                e.store(b.const(scalar, float("nan")), _at(b, out, i, size))
            b.br(done)
            b.place(done)
        return finished(b, name)


class Lu(NamedTuple):
    """The factors of each matrix with rows exchanged, the exchanges, and the order of rows.

    Pointers: a, factors, pivots, permutation. Domain: matrices. Descriptor: rows, columns, the
    smaller of the two.
    """

    dtype: str
    width: int

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, self.width, 4)
        b, memory, size, scalar = e.b, e.memory, e.size, e.scalar
        m, n, steps = Numbers(b).take(3)
        source, target, pivots, orders = pointers(b, 4)
        largest, where = b.emit(f"alloca {scalar}"), b.emit("alloca i64")
        row_bytes = b.emit(f"mul i64 {n}, {size}")
        bytes_each = b.emit(f"mul i64 {m}, {row_bytes}")
        with e.loop(0, "%begin", "%end") as u:
            a, out = _at(b, source, u, bytes_each), _at(b, target, u, bytes_each)
            pivot = _at(b, pivots, u, b.emit(f"mul i64 {steps}, 4"))
            order = _at(b, orders, u, b.emit(f"mul i64 {m}, 4"))
            copy(b, out, a, bytes_each)
            with e.loop(1, "0", m) as i:
                b.store("i32", b.emit(f"trunc i64 {i} to i32"), _at(b, order, i, 4), 4)
            with e.loop(1, "0", steps) as k:
                row = _at(b, out, k, row_bytes)
                b.store(scalar, b.const(scalar, -1), largest)
                b.store("i64", k, where)
                with e.loop(2, k, m) as i:
                    x = e.load(_at(b, _at(b, out, i, row_bytes), k, size))
                    x = b.call_intrinsic("fabs", scalar, x)
                    best = b.load(scalar, largest)
                    more = b.fcmp("ogt", scalar, x, best)
                    b.store(scalar, b.select(scalar, more, x, best), largest)
                    b.store("i64", b.select("i64", more, i, b.load("i64", where)), where)
                p = b.load("i64", where)
                b.store("i32", b.emit(f"trunc i64 {p} to i32"), _at(b, pivot, k, 4), 4)
                _exchange(b, "i32", 4, _at(b, order, k, 4), _at(b, order, p, 4))
                other = _at(b, out, p, row_bytes)
                with e.loop(2, "0", n, self.width) as j:
                    mask = memory.mask(b.emit(f"sub i64 {n}, {j}"))
                    first, second = _at(b, row, j, size), _at(b, other, j, size)
                    x, y = memory.load(first, mask), memory.load(second, mask)
                    memory.store(y, first, mask)
                    memory.store(x, second, mask)
                divisor = e.load(_at(b, row, k, size))
                # Below a pivot 0 there is nothing but zeros.
                zero = b.fcmp("oeq", scalar, divisor, b.const(scalar, 0))
                divisor = b.select(scalar, zero, b.const(scalar, 1), divisor)
                next_k = _plus(b, k, 1)
                with e.loop(2, next_k, m) as i:
                    here = _at(b, out, i, row_bytes)
                    at = _at(b, here, k, size)
                    factor = b.fdiv(scalar, e.load(at), divisor)
                    e.store(factor, at)
                    e.subtract(3, next_k, n, here, factor, row)
        return finished(b, name)


class Substitute(NamedTuple):
    """x with a x = b for lower triangular a: row i of x needs those before it.

    Strides may be negative, so upper triangles, transposes and systems from the right are lower
    ones too. x may be b. Pointers: a, b, x. Domain: systems x panels of columns. Descriptor: rows,
    columns, panels; strides in bytes of a (system, row, column), of b and of x (system, row,
    column).
    """

    dtype: str
    width: int
    vectors: int
    unit: bool  # is the diagonal of a ones, whatever is there?
    strided: bool  # are columns apart in memory?

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, self.width, 3)
        b, memory, t, w = e.b, e.memory, e.t, self.width
        n, columns, panels, *strides = Numbers(b).take(12)
        a_u, a_i, a_j, b_u, b_i, b_k, x_u, x_i, x_k = strides
        bases = pointers(b, 3)
        sums = [b.emit(f"alloca {t}") for _ in range(self.vectors)]

        def load(start: str, stride: str, v: int) -> str:
            at = _at(b, start, str(v * w), stride)
            if self.strided:
                return memory.gather(memory.spread(at, stride), masks[v])
            return memory.load(at, masks[v])

        with e.loop(0, "%begin", "%end") as unit:
            u, panel = coordinates(b, unit, ["", panels])
            first = b.emit(f"mul i64 {panel}, {w * self.vectors}")
            left = b.emit(f"sub i64 {columns}, {first}")
            masks = [memory.mask(b.emit(f"sub i64 {left}, {v * w}")) for v in range(self.vectors)]
            a = _at(b, bases[0], u, a_u)
            right = walked(b, bases[1], [u, first], [b_u, b_k])
            x = walked(b, bases[2], [u, first], [x_u, x_k])
            with e.loop(1, "0", n) as i:
                row = _at(b, a, i, a_i)
                for v, total in enumerate(sums):
                    b.store(t, load(_at(b, right, i, b_i), b_k, v), total)
                with e.loop(2, "0", i) as j:
                    factor = b.splat(t, b.fneg(e.scalar, e.load(_at(b, row, j, a_j))))
                    known = _at(b, x, j, x_i)
                    for v, total in enumerate(sums):
                        y = load(known, x_k, v)
                        b.store(t, b.fma(t, factor, y, b.load(t, total)), total)
                divisor = "" if self.unit else b.splat(t, e.load(_at(b, row, i, a_j)))
                for v, total in enumerate(sums):
                    y = b.load(t, total)
                    y = y if self.unit else b.fdiv(t, y, divisor)
                    to = walked(b, x, [i, str(v * w)], [x_i, x_k])
                    if self.strided:
                        memory.scatter(y, memory.spread(to, x_k), masks[v])
                    else:
                        memory.store(y, to, masks[v])
        return finished(b, name)


class Reorder(NamedTuple):
    """out[i] = x[order[i]] for the rows of each matrix; backward, out[order[i]] = x[i].

    Pointers: x, order (int32), out. Domain: matrices. Descriptor: rows, bytes of a row.
    """

    backward: bool

    def text(self, name: str) -> str:
        b = Builder(Module())
        n, row_bytes = Numbers(b).take(2)
        source, orders, target = pointers(b, 3)
        counters = [b.emit("alloca i64") for _ in range(2)]
        bytes_each = b.emit(f"mul i64 {n}, {row_bytes}")
        with Loop(b, counters[0], "%begin", "%end") as u:
            x, out = _at(b, source, u, bytes_each), _at(b, target, u, bytes_each)
            order = _at(b, orders, u, b.emit(f"mul i64 {n}, 4"))
            with Loop(b, counters[1], "0", n) as i:
                other = b.load("i32", _at(b, order, i, 4), 4)
                there = b.emit(f"sext i32 {other} to i64")
                to, of = (there, i) if self.backward else (i, there)
                copy(b, _at(b, out, to, row_bytes), _at(b, x, of, row_bytes), row_bytes)
        return finished(b, name)


class Permutation(NamedTuple):
    """The order of rows after exchanging row i with row pivots[i] for each i in turn.

    Pointers: pivots, permutation. Domain: lists. Descriptor: pivots of a list, rows. Pivots outside
    the rows count as the nearest row.
    """

    dtype: str

    def text(self, name: str) -> str:
        b = Builder(Module())
        t, size = LLVM_TYPES[self.dtype], itemsize(self.dtype)
        count, n = Numbers(b).take(2)
        source, target = pointers(b, 2)
        counters = [b.emit("alloca i64") for _ in range(2)]
        last = _plus(b, n, -1)
        with Loop(b, counters[0], "%begin", "%end") as u:
            pivots = _at(b, source, u, b.emit(f"mul i64 {count}, {size}"))
            order = _at(b, target, u, b.emit(f"mul i64 {n}, {size}"))
            with Loop(b, counters[1], "0", n) as i:
                b.store(t, b.cast("trunc", i, "i64", t), _at(b, order, i, size), size)
            with Loop(b, counters[1], "0", count) as i:
                p = b.load(t, _at(b, pivots, i, size), size)
                p = b.cast("zext" if self.dtype[0] == "u" else "sext", p, t, "i64")
                p = b.call_intrinsic("smin", "i64", b.call_intrinsic("smax", "i64", p, "0"), last)
                _exchange(b, t, size, _at(b, order, i, size), _at(b, order, p, size))
        return finished(b, name)


class Determinant(NamedTuple):
    """The product of the diagonal of the factors, with the sign of the exchanges; of any dtype.

    Pointers: factors, pivots (int32), out. Domain: matrices. Descriptor: rows.
    """

    dtype: str

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, 4, 2)
        b, size, scalar = e.b, e.size, e.scalar
        n = Numbers(b).one()
        factors, pivots, target = pointers(b, 3)
        product = b.emit(f"alloca {scalar}")
        row_bytes = b.emit(f"mul i64 {n}, {size}")
        with e.loop(0, "%begin", "%end") as u:
            a = _at(b, factors, u, b.emit(f"mul i64 {n}, {row_bytes}"))
            pivot = _at(b, pivots, u, b.emit(f"mul i64 {n}, 4"))
            b.store(scalar, _one(self.dtype), product)
            with e.loop(1, "0", n) as i:
                x = e.load(_at(b, _at(b, a, i, row_bytes), i, size))
                p = b.emit(f"sext i32 {b.load('i32', _at(b, pivot, i, 4), 4)} to i64")
                same = b.icmp("eq", "i64", p, i)
                x = b.emit(f"select i1 {same}, {scalar} {x}, {scalar} {b.fneg(scalar, x)}")
                b.store(scalar, self._product(b, scalar, x, b.load(scalar, product)), product)
            e.store(b.load(scalar, product), _at(b, target, u, size))
        return finished(b, name)

    def _product(self, b: Builder, t: str, x: str, y: str) -> str:
        if self.dtype not in COMPLEX:
            return b.fmul(t, x, y)
        real = LLVM_TYPES[COMPLEX[self.dtype]]
        (xr, xi), (yr, yi) = (parted(b, self.dtype, 1, z) for z in (x, y))
        re = b.fsub(real, b.fmul(real, xr, yr), b.fmul(real, xi, yi))
        im = b.fadd(real, b.fmul(real, xr, yi), b.fmul(real, xi, yr))
        return joined(b, self.dtype, 1, re, im)


class Conjugate(NamedTuple):
    """out = conj(x), which may be in the same place. Pointers: x, out. Domain: elements."""

    dtype: str

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, 1, 1)
        b = e.b
        source, target = pointers(b, 2)
        with e.loop(0, "%begin", "%end") as i:
            x = e.load(_at(b, source, i, e.size))
            re, im = parted(b, self.dtype, 1, x)
            im = b.fneg(LLVM_TYPES[COMPLEX[self.dtype]], im)
            e.store(joined(b, self.dtype, 1, re, im), _at(b, target, i, e.size))
        return finished(b, name)


def _one(dtype: str) -> str:
    """The constant 1."""
    real = LLVM_TYPES[COMPLEX.get(dtype, dtype)]
    one = number(real, 1)
    return f"<{real} {one}, {real} {number(real, 0)}>" if dtype in COMPLEX else one


def copy(b: Builder, target: str, source: str, nbytes: str) -> None:
    b.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"])
    b.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")


def _exchange(b: Builder, t: str, size: int, first: str, second: str) -> None:
    x, y = b.load(t, first, size), b.load(t, second, size)
    b.store(t, y, first, size)
    b.store(t, x, second, size)


# -- by LAPACK, for larger matrices ---------------------------------------------------------------


def _of_numpy(name: str) -> int | None:
    """The routine in the OpenBLAS that NumPy's wheels bring and that is loaded, or None.

    It saves the import of SciPy, and threads that would stand beside NumPy's.
    """
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    for library in sorted(folder.glob("libscipy_openblas64_*")):
        with contextlib.suppress(OSError, AttributeError):
            function = getattr(ctypes.CDLL(str(library)), f"scipy_{name}_64_")
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


# Routines whose integers may have any width: what they write of them is in memory for 64 bits, of
# which no more than 32 are read, or in memory of their own.
_ANY_INTEGERS = frozenset(
    ("gemm", "trsm", "geqrf", "orgqr", "ungqr", "gesdd", "syevd", "heevd", "geev", "gees", "gtsv")
)


@functools.cache
def routine(name: str) -> int:
    """The address of a function of BLAS or LAPACK, in Fortran's calling convention.

    The integers it reads may have 32 or 64 bits, see `_Routine.integer`; those it writes have 32,
    unless it is one of `_ANY_INTEGERS`.
    """
    address = _of_numpy(name) if name[1:] in _ANY_INTEGERS else None
    if address is not None:
        return address
    # By name, because scipy is a heavy library needed by few programs.
    for module in ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
        capsule = importlib.import_module(module).__pyx_capi__.get(name)
        if capsule is not None:
            break
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, get_name(capsule))


class _Routine:
    """A call of one routine: its arguments go by address."""

    def __init__(self, b: Builder, dtype: str, name: str):
        self.b = b
        self.name = full_name(dtype, name)

    def integer(self, x: str) -> str:
        """Memory with an i64 as Fortran's integer; in the entry block.

        Whoever reads 32 bits of it reads the lower ones, on machines of little endian.
        """
        at = self.b.emit("alloca i64")
        self.b.store("i64", x, at)
        return at

    def letter(self, x: str) -> str:
        at = self.b.emit("alloca i8")
        self.b.store("i8", str(ord(x)), at)
        return at

    def call(self, *arguments: str) -> None:
        self.b.module.declare(self.name, "void", ["ptr"] * len(arguments))
        self.b.do(f"call void @{self.name}({', '.join(f'ptr {a}' for a in arguments)})")


def full_name(dtype: str, name: str) -> str:
    """A routine's name with the letter of its dtype in front."""
    return {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[dtype] + name


class BlasProduct(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, k, n] for large matrices, C's rows contiguous.

    a_along, b_along: are rows of A, and of B, contiguous? Else their columns are.

    Pointers: A, B, C. Domain: batch. Descriptor: inner batch, m, n, k, elements from one contiguous
    line of A to the next, of B and C the same, strides in bytes of A, B and C along the outer and
    the inner batch.
    """

    dtype: str
    a_along: bool
    b_along: bool

    @property
    def symbols(self) -> dict[str, int]:
        name = full_name(self.dtype, "gemm")
        return {name: routine(name)}

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, 4, 1)
        b = e.b
        batch, m, n, k, a_line, b_line, c_line, *strides = Numbers(b).take(13)
        a_base, b_base, c_base = pointers(b, 3)
        gemm = _Routine(b, self.dtype, "gemm")
        # In Fortran's order all matrices are transposed, so the operands change places.
        a_trans = gemm.letter("N" if self.a_along else "T")
        b_trans = gemm.letter("N" if self.b_along else "T")
        rows, columns, inner = gemm.integer(n), gemm.integer(m), gemm.integer(k)
        a_step, b_step, c_step = (gemm.integer(x) for x in (a_line, b_line, c_line))
        one, zero = (b.emit(f"alloca {e.scalar}") for _ in range(2))
        e.store(b.const(e.scalar, 1), one)
        e.store(b.const(e.scalar, 0), zero)
        with e.loop(0, "%begin", "%end") as u:
            at = coordinates(b, u, ["", batch])
            x, y, z = (
                walked(b, base, at, strides[2 * i : 2 * i + 2])
                for i, base in enumerate((a_base, b_base, c_base))
            )
            gemm.call(
                b_trans, a_trans, rows, columns, inner, one, y, b_step, x, a_step, zero, z, c_step
            )
        return finished(b, name)


class LapackCholesky(NamedTuple):
    """As Cholesky, of any size, and of complex numbers; there the width counts their parts."""

    dtype: str
    width: int

    @property
    def symbols(self) -> dict[str, int]:
        name = full_name(self.dtype, "potrf")
        return {name: routine(name)}

    def text(self, name: str) -> str:
        # Copied and filled by parts of numbers.
        real, of_each = COMPLEX.get(self.dtype, self.dtype), 1 + (self.dtype in COMPLEX)
        e = _Matrices(real, self.width, 3)
        b, memory, part, scalar = e.b, e.memory, e.size, e.scalar
        size = part * of_each
        n = Numbers(b).one()
        source, target = pointers(b, 2)
        potrf = _Routine(b, self.dtype, "potrf")
        # A lower triangle in row order is an upper one in Fortran's.
        uplo, order, info = potrf.letter("U"), potrf.integer(n), b.emit("alloca i32")
        row_bytes = b.emit(f"mul i64 {n}, {size}")
        bytes_each = b.emit(f"mul i64 {n}, {row_bytes}")
        last = _at(b, "null", b.emit(f"mul i64 {n}, {n}"), size)
        last = b.emit(f"sub i64 {b.emit(f'ptrtoint ptr {last} to i64')}, {size}")
        with e.loop(0, "%begin", "%end") as u:
            a, out = _at(b, source, u, bytes_each), _at(b, target, u, bytes_each)
            copy(b, out, a, bytes_each)
            potrf.call(uplo, order, out, order, info)
            failed = b.icmp("ne", "i32", b.load("i32", info), "0")
            # Some libraries let a NaN pass; it reaches the last pivot.
            end = e.load(b.offset(out, last))
            failed = b.emit(f"or i1 {failed}, {b.fcmp('uno', scalar, end, end)}")
            nan, zero = number(scalar, float("nan")), number(scalar, 0)
            # NaN in the real parts
            lanes = [nan if i % of_each == 0 else zero for i in range(self.width)]
            many = "<" + ", ".join(f"{scalar} {x}" for x in lanes) + ">"
            other = b.emit(f"select i1 {failed}, {e.t} {many}, {e.t} zeroinitializer")
            columns = b.emit(f"mul i64 {n}, {of_each}")
            with e.loop(1, "0", n) as i:
                row = _at(b, out, i, row_bytes)
                above = b.emit(f"mul i64 {_plus(b, i, 1)}, {of_each}")
                first = b.emit(f"select i1 {failed}, i64 0, i64 {above}")
                with e.loop(2, first, columns, self.width) as j:
                    mask = memory.mask(b.emit(f"sub i64 {columns}, {j}"))
                    memory.store(other, _at(b, row, j, part), mask)
        return finished(b, name)


class LapackSolve(NamedTuple):
    """op(a) x = b or x op(a) = b of any size, with b in x already; op is a letter as BLAS has it.

    Pointers: a, x. Domain: systems. Descriptor: rows of a, systems' other size.
    """

    dtype: str
    left: bool
    lower: bool
    op: str
    unit: bool

    @property
    def symbols(self) -> dict[str, int]:
        name = full_name(self.dtype, "trsm")
        return {name: routine(name)}

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, 4, 1)
        b, size = e.b, e.size
        n, k = Numbers(b).take(2)
        source, target = pointers(b, 2)
        trsm = _Routine(b, self.dtype, "trsm")
        # In Fortran's order all matrices are transposed, so the sides change places.
        side = trsm.letter("R" if self.left else "L")
        uplo = trsm.letter("U" if self.lower else "L")
        trans = trsm.letter(self.op)
        diag = trsm.letter("U" if self.unit else "N")
        order, other = trsm.integer(n), trsm.integer(k)
        one = b.emit(f"alloca {e.scalar}")
        e.store(_one(self.dtype), one)
        rows, columns = (other, order) if self.left else (order, other)
        a_bytes = b.emit(f"mul i64 {n}, {b.emit(f'mul i64 {n}, {size}')}")
        x_bytes = b.emit(f"mul i64 {n}, {b.emit(f'mul i64 {k}, {size}')}")
        with e.loop(0, "%begin", "%end") as u:
            a, x = _at(b, source, u, a_bytes), _at(b, target, u, x_bytes)
            trsm.call(side, uplo, trans, diag, rows, columns, one, a, order, x, rows)
        return finished(b, name)


class LapackLu(NamedTuple):
    """The factors of each matrix with rows exchanged, and the exchanges.

    Pointers: a, factors, pivots, memory for a copy of all matrices. Domain: matrices. Descriptor:
    rows, columns, the smaller of the two.
    """

    dtype: str

    @property
    def symbols(self) -> dict[str, int]:
        name = full_name(self.dtype, "getrf")
        return {name: routine(name)}

    def text(self, name: str) -> str:
        e = _Matrices(self.dtype, 4, 3)
        b, size = e.b, e.size
        m, n, steps = Numbers(b).take(3)
        source, target, pivots, memory = pointers(b, 4)
        getrf = _Routine(b, self.dtype, "getrf")
        rows, columns, info = getrf.integer(m), getrf.integer(n), b.emit("alloca i32")
        row_bytes, column_bytes = b.emit(f"mul i64 {n}, {size}"), b.emit(f"mul i64 {m}, {size}")
        bytes_each = b.emit(f"mul i64 {m}, {row_bytes}")
        with e.loop(0, "%begin", "%end") as u:
            a, out, work = (_at(b, p, u, bytes_each) for p in (source, target, memory))
            pivot = _at(b, pivots, u, b.emit(f"mul i64 {steps}, 4"))
            with e.loop(1, "0", m) as i, e.loop(2, "0", n) as j:
                x = e.load(walked(b, a, [i, j], [row_bytes, str(size)]))
                e.store(x, walked(b, work, [i, j], [str(size), column_bytes]))
            getrf.call(rows, columns, work, rows, pivot, info)
            with e.loop(1, "0", m) as i, e.loop(2, "0", n) as j:
                x = e.load(walked(b, work, [i, j], [str(size), column_bytes]))
                e.store(x, walked(b, out, [i, j], [row_bytes, str(size)]))
            with e.loop(1, "0", steps) as i:
                at = _at(b, pivot, i, 4)
                b.store("i32", b.emit(f"sub i32 {b.load('i32', at, 4)}, 1"), at, 4)
        return finished(b, name)
