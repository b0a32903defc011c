"""Orthogonal and spectral decompositions as native code: LAPACK, a matrix at a time.

A kernel copies each matrix into Fortran's order, calls LAPACK, and copies what it made into the
order of rows. All memory for that belongs to the chunk that the kernel works on. LAPACK computes
in a kernel's `inner` dtype, which may be wider than that of the matrices. Where it says that it
failed, all of that matrix's results are NaN.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.builder import Builder, number
from mgefn.compiler.codegen.linalg import copy, full_name, routine
from mgefn.compiler.codegen.parts import Numbers, Writer, pointers
from mgefn.compiler.codegen.values import COMPLEX, LLVM_TYPES, alignment, itemsize, ty

BLOCK = 16  # columns that are copied into the other order together

# In front of each kernel's own numbers: units of a chunk, bytes of its memory.
HEADER = ("chunk", "each")


def unitary(dtype: str) -> str:
    """The routine that makes a matrix of reflectors, without its first letter."""
    return "ungqr" if dtype in COMPLEX else "orgqr"


def hermitian(dtype: str) -> str:
    """The routine for eigenvalues of Hermitian matrices, without its first letter."""
    return "heevd" if dtype in COMPLEX else "syevd"


@functools.lru_cache(maxsize=512)
def workspace(dtype: str, name: str, arguments: tuple[Any, ...]) -> dict[str, int]:
    """Elements of memory that a routine of LAPACK wants, as it says itself.

    Args:
        arguments: letters, integers, None for matrices, and "work", "rwork", "iwork", whose sizes
            come out.
    """
    function = ctypes.CFUNCTYPE(None)(routine(full_name(dtype, name)))
    memory = np.zeros((len(arguments), 2), np.int64)
    for words, x in zip(memory, arguments, strict=True):
        if isinstance(x, int):
            words[0] = x
        elif x is not None and len(x) == 1:
            words[0] = ord(x)
    function(*(ctypes.c_void_p(words.ctypes.data) for words in memory))
    real = np.dtype(COMPLEX.get(dtype, dtype))
    sizes: dict[str, int] = {}
    for words, x in zip(memory, arguments, strict=True):
        if x == "iwork":
            sizes[x] = int(words.view(np.int32)[0])
        elif x in ("work", "rwork"):
            # A float32 may have lost the last digits of a large size.
            size = float(words.view(real)[0])
            sizes[x] = int(size * (1 + float(np.finfo(real).eps)))
    return {x: max(1, size) for x, size in sizes.items()}


class _Calls(Writer):
    """A kernel that calls LAPACK: numbers by name, its chunk's memory, matrices in two orders."""

    def __init__(self, dtype: str, inner: str, names: Sequence[str], count: int):
        """count: pointers, the last of which is the memory of all chunks."""
        super().__init__()
        self.dtype, self.size, self.real = dtype, itemsize(dtype), COMPLEX.get(dtype, dtype)
        self.inner, self.inner_size = inner, itemsize(inner)
        self.inner_real = COMPLEX.get(inner, inner)
        self.more = ["rwork"] if inner in COMPLEX else []  # parts that real numbers do not need
        b = self.b
        self.numbers = dict(zip(names, Numbers(b).take(len(names)), strict=True))
        *self.ends, memory = pointers(b, count)
        place = b.emit(f"udiv i64 %begin, {self.numbers['chunk']}")
        self.memory = b.offset(memory, self.mul(place, self.numbers["each"]))
        self.info = self.integer("0")

    def __getitem__(self, name: str) -> str:
        return self.numbers[name]

    def part(self, name: str) -> str:
        """A part of the chunk's memory, whose offset has this name."""
        return self.b.offset(self.memory, self.numbers[name])

    def at(self, start: str, i: str, stride: str | int) -> str:
        """start + i * stride, in bytes."""
        return self.b.offset(start, self.mul(i, stride))

    # -- arguments ------------------------------------------------------------------------------

    def integer(self, x: str) -> str:
        """Memory with an i64 as Fortran's integer, of which it may read and write the lower half.

        That is where its first 32 bits are, on machines of little endian.
        """
        at = self.alloca("i64")
        self.b.store("i64", x, at)
        return at

    def letter(self, x: str) -> str:
        at = self.alloca("i8")
        self.b.store("i8", str(ord(x)), at)
        return at

    def call(self, name: str, *arguments: str) -> None:
        """A routine; the last of its arguments, not given here, says whether it failed."""
        full = full_name(self.inner, name)
        self.b.module.declare(full, "void", ["ptr"] * (len(arguments) + 1))
        self.b.do(f"call void @{full}({', '.join(f'ptr {a}' for a in (*arguments, self.info))})")

    def failed(self) -> str:
        return self.b.icmp("ne", "i32", self.b.load("i32", self.info, 8), "0")

    # -- matrices -------------------------------------------------------------------------------

    def load(self, dtype: str, at: str) -> str:
        return self.b.load(ty(dtype, 1), at, alignment(dtype))

    def store(self, dtype: str, x: str, at: str) -> None:
        self.b.store(ty(dtype, 1), x, at, alignment(dtype))

    def converted(self, x: str, source: str, target: str) -> str:
        op = "fpext" if itemsize(target) > itemsize(source) else "fptrunc"
        return self.b.cast(op, x, ty(source, 1), ty(target, 1))

    @contextmanager
    def elements(self, m: str, n: str) -> Iterator[tuple[str, str]]:
        """(i, j) of all elements, in an order that is near in memory by rows and by columns."""
        with self.loop("0", n, BLOCK) as first:
            last = self.b.call_intrinsic("smin", "i64", self.add(first, BLOCK), n)
            with self.loop("0", m) as i, self.loop(first, last) as j:
                yield i, j

    def by_columns(self, source: str, m: str, n: str, target: str) -> None:
        """LAPACK's target[i + j * m] = source[i * n + j]"""
        with self.elements(m, n) as (i, j):
            x = self.load(self.dtype, self.at(source, self.add(self.mul(i, n), j), self.size))
            x = self.converted(x, self.dtype, self.inner)
            at = self.at(target, self.add(i, self.mul(j, m)), self.inner_size)
            self.store(self.inner, x, at)

    def by_rows(self, source: str, m: str, n: str, target: str) -> None:
        """target[i * n + j] = LAPACK's source[i + j * m]"""
        with self.elements(m, n) as (i, j):
            x = self.load(self.inner, self.at(source, self.add(i, self.mul(j, m)), self.inner_size))
            x = self.converted(x, self.inner, self.dtype)
            self.store(self.dtype, x, self.at(target, self.add(self.mul(i, n), j), self.size))

    def triangle(self, source: str, m: str, n: str, target: str, leading: str) -> None:
        """target[i * n + j] = LAPACK's source[i + j * leading] where j >= i, else 0."""
        b, t = self.b, ty(self.dtype, 1)
        with self.elements(m, n) as (i, j):
            at = self.at(source, self.add(i, self.mul(j, leading)), self.inner_size)
            x = self.converted(self.load(self.inner, at), self.inner, self.dtype)
            kept = b.icmp("sle", "i64", i, j)
            x = b.emit(f"select i1 {kept}, {t} {x}, {t} zeroinitializer")
            self.store(self.dtype, x, self.at(target, self.add(self.mul(i, n), j), self.size))

    def line(self, source: str, count: str, target: str, inner: str, outer: str) -> None:
        """LAPACK's numbers in a row, of one dtype, as another."""
        with self.loop("0", count) as i:
            x = self.load(inner, self.at(source, i, itemsize(inner)))
            x = self.converted(x, inner, outer)
            self.store(outer, x, self.at(target, i, itemsize(outer)))

    def nan(self, dtype: str) -> str:
        """NaN, of a complex number in the real part."""
        real = LLVM_TYPES[COMPLEX.get(dtype, dtype)]
        nan = number(real, math.nan)
        return f"<{real} {nan}, {real} {number(real, 0)}>" if dtype in COMPLEX else nan

    def fill(self, outs: Sequence[tuple[str, str, str]]) -> None:
        """NaN in all elements of (place, number of elements, dtype)."""
        for place, count, dtype in outs:
            with self.loop("0", count) as i:
                self.store(dtype, self.nan(dtype), self.at(place, i, itemsize(dtype)))

    def finite(self, source: str, count: str) -> str:
        """Are all elements of a matrix finite?"""
        b, t = self.b, LLVM_TYPES[self.real]
        total = self.alloca(t)
        zero = b.const(t, 0)
        b.store(t, zero, total)
        parts = count if self.dtype == self.real else self.mul(count, 2)
        with self.loop("0", parts) as i:
            x = self.load(self.real, self.at(source, i, itemsize(self.real)))
            # 0 for what is finite, else NaN
            b.store(t, b.fadd(t, b.load(t, total), b.fmul(t, x, zero)), total)
        end = b.load(t, total)
        return b.fcmp("ord", t, end, end)


@contextmanager
def when(b: Builder, condition: str, likely: bool) -> Iterator[None]:
    """What is written inside runs where the condition, an i1, is true."""
    yes, done = b.label("yes"), b.label("done")
    b.cond_br(condition, yes, done, likely)
    b.place(yes)
    yield
    b.br(done)
    b.place(done)


def _symbols(dtype: str, *names: str) -> dict[str, int]:
    return {full: routine(full) for full in (full_name(dtype, name) for name in names)}


# -- orthogonal -----------------------------------------------------------------------------------


class Qr(NamedTuple):
    """a = q r, q of k columns; with pivoting a[:, order] = q r.

    Pointers: a, q, r, (order,) memory. Domain: matrices. Descriptor: `names`; steps is the smaller
    of m and n; a, tau and work, and the two that pivoting has, are parts of the memory. The order
    has integers of 32 bits: geqp3 is not among the routines of which they may have more.
    """

    dtype: str
    inner: str
    pivoting: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "m", "n", "k", "steps", "lwork", "a", "tau", "work", "order", "rwork")

    @property
    def symbols(self) -> dict[str, int]:
        first = "geqp3" if self.pivoting else "geqrf"
        return _symbols(self.inner, first, unitary(self.inner))

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.inner, self.names, 5 if self.pivoting else 4)
        b, m, n, k = e.b, e["m"], e["n"], e["k"]
        rows, columns, wide, steps, lwork = (
            e.integer(e[x]) for x in ("m", "n", "k", "steps", "lwork")
        )
        a, tau, work, jpvt = (e.part(x) for x in ("a", "tau", "work", "order"))
        with e.loop("%begin", "%end") as u:
            source = e.at(e.ends[0], u, e.mul(e.mul(m, n), e.size))
            q = e.at(e.ends[1], u, e.mul(e.mul(m, k), e.size))
            r = e.at(e.ends[2], u, e.mul(e.mul(k, n), e.size))
            e.by_columns(source, m, n, a)
            if self.pivoting:
                with e.loop("0", n) as j:
                    b.store("i32", "0", e.at(jpvt, j, 4), 4)
                more = [e.part(x) for x in e.more]
                e.call("geqp3", rows, columns, a, rows, jpvt, tau, work, lwork, *more)
                order = e.at(e.ends[3], u, e.mul(n, 4))
                with e.loop("0", n) as j:
                    x = b.load("i32", e.at(jpvt, j, 4), 4)
                    b.store("i32", b.emit(f"sub i32 {x}, 1"), e.at(order, j, 4), 4)
            else:
                e.call("geqrf", rows, columns, a, rows, tau, work, lwork)
            e.triangle(a, k, n, r, m)
            e.call(unitary(self.inner), rows, wide, steps, a, rows, tau, work, lwork)
            e.by_rows(a, m, k, q)
        return e.finished(name)


class Reflectors(NamedTuple):
    """LAPACK's own form of a QR decomposition: r with the reflectors below it, and their factors.

    Pointers: a, out, factors, memory. Domain: matrices. Descriptor: `names`.
    """

    dtype: str
    inner: str

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "m", "n", "steps", "lwork", "a", "tau", "work")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.inner, "geqrf")

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.inner, self.names, 4)
        m, n = e["m"], e["n"]
        rows, columns, lwork = (e.integer(e[x]) for x in ("m", "n", "lwork"))
        a, tau, work = e.part("a"), e.part("tau"), e.part("work")
        nbytes = e.mul(e.mul(m, n), e.size)
        with e.loop("%begin", "%end") as u:
            e.by_columns(e.at(e.ends[0], u, nbytes), m, n, a)
            e.call("geqrf", rows, columns, a, rows, tau, work, lwork)
            factors = e.at(e.ends[2], u, e.mul(e["steps"], e.size))
            e.line(tau, e["steps"], factors, self.inner, self.dtype)
            e.by_rows(a, m, n, e.at(e.ends[1], u, nbytes))
        return e.finished(name)


class FromReflectors(NamedTuple):
    """The first n columns of the product of k reflectors.

    Pointers: a, factors, out, memory. Domain: matrices. Descriptor: `names`.
    """

    dtype: str

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "m", "n", "steps", "lwork", "a", "work")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.dtype, unitary(self.dtype))

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.dtype, self.names, 4)
        m, n = e["m"], e["n"]
        rows, columns, steps, lwork = (e.integer(e[x]) for x in ("m", "n", "steps", "lwork"))
        a, work = e.part("a"), e.part("work")
        nbytes = e.mul(e.mul(m, n), e.size)
        with e.loop("%begin", "%end") as u:
            e.by_columns(e.at(e.ends[0], u, nbytes), m, n, a)
            factors = e.at(e.ends[1], u, e.mul(e["steps"], e.size))
            e.call(unitary(self.dtype), rows, columns, steps, a, rows, factors, work, lwork)
            e.by_rows(a, m, n, e.at(e.ends[2], u, nbytes))
        return e.finished(name)


# -- singular values ------------------------------------------------------------------------------


class Svd(NamedTuple):
    """a = u diag(s) vh; job as LAPACK has it: "A" all columns, "S" the first ones, "N" s alone.

    Pointers: a, (u,) s, (vh,) memory. Domain: matrices. Descriptor: `names`; u has k columns and vh
    l rows, and there are `steps` singular values.
    """

    dtype: str
    inner: str
    job: str

    @property
    def names(self) -> tuple[str, ...]:
        return (
            *HEADER, "m", "n", "k", "l", "steps", "lwork", "a", "u", "s", "vh", "work", "rwork",
            "iwork",
        )  # fmt: skip

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.inner, "gesdd")

    def text(self, name: str) -> str:
        vectors = self.job != "N"
        e = _Calls(self.dtype, self.inner, self.names, 5 if vectors else 3)
        m, n, k, many = (e[x] for x in ("m", "n", "k", "l"))
        job = e.letter(self.job)
        rows, columns, leading, lwork = (e.integer(e[x]) for x in ("m", "n", "l", "lwork"))
        a, u_part, s_part, vh_part = (e.part(x) for x in ("a", "u", "s", "vh"))
        work, iwork = e.part("work"), e.part("iwork")
        more = [e.part(x) for x in e.more]
        with e.loop("%begin", "%end") as unit:
            e.by_columns(e.at(e.ends[0], unit, e.mul(e.mul(m, n), e.size)), m, n, a)
            s = e.at(e.ends[1 + vectors], unit, e.mul(e["steps"], itemsize(e.real)))
            e.call(
                "gesdd", job, rows, columns, a, rows, s_part, u_part, rows, vh_part, leading, work,
                lwork, *more, iwork,
            )  # fmt: skip
            e.line(s_part, e["steps"], s, e.inner_real, e.real)
            outs = [(s, e["steps"], e.real)]
            if vectors:
                u = e.at(e.ends[1], unit, e.mul(e.mul(m, k), e.size))
                vh = e.at(e.ends[3], unit, e.mul(e.mul(many, n), e.size))
                e.by_rows(u_part, m, k, u)
                e.by_rows(vh_part, many, n, vh)
                outs += [(u, e.mul(m, k), self.dtype), (vh, e.mul(many, n), self.dtype)]
            with when(e.b, e.failed(), likely=False):
                e.fill(outs)
        return e.finished(name)


# -- eigenvalues ----------------------------------------------------------------------------------


class Eigh(NamedTuple):
    """Eigenvalues, and vectors, of Hermitian matrices of which one triangle is read.

    Pointers: a, (v,) w, memory. Domain: matrices. Descriptor: `names`.
    """

    dtype: str
    inner: str
    lower: bool
    vectors: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "n", "lwork", "lrwork", "liwork", "a", "w", "work", "rwork", "iwork")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.inner, hermitian(self.inner))

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.inner, self.names, 4 if self.vectors else 3)
        n = e["n"]
        job, uplo = e.letter("V" if self.vectors else "N"), e.letter("L" if self.lower else "U")
        order, lwork, lrwork, liwork = (e.integer(e[x]) for x in ("n", "lwork", "lrwork", "liwork"))
        a, w_part, work, iwork = (e.part(x) for x in ("a", "w", "work", "iwork"))
        more = [e.part(x) for x in e.more] + [lrwork] * len(e.more)
        square = e.mul(n, n)
        nbytes = e.mul(square, e.size)
        with e.loop("%begin", "%end") as u:
            e.by_columns(e.at(e.ends[0], u, nbytes), n, n, a)
            w = e.at(e.ends[1 + self.vectors], u, e.mul(n, itemsize(e.real)))
            e.call(
                hermitian(self.inner), job, uplo, order, a, order, w_part, work, lwork, *more,
                iwork, liwork,
            )  # fmt: skip
            e.line(w_part, n, w, e.inner_real, e.real)
            outs = [(w, n, e.real)]
            if self.vectors:
                v = e.at(e.ends[1], u, nbytes)
                e.by_rows(a, n, n, v)
                outs.append((v, square, self.dtype))
            with when(e.b, e.failed(), likely=False):
                e.fill(outs)
        return e.finished(name)


class Eig(NamedTuple):
    """Eigenvalues, and vectors, of general matrices: complex, NaN where not all of a is finite.

    Pointers: a, w, (left,) (right,) memory. Domain: matrices. Descriptor: `names`.
    """

    dtype: str
    inner: str
    left: bool
    right: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "n", "lwork", "a", "w", "wi", "vl", "vr", "work", "rwork")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.inner, "geev")

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.inner, self.names, 3 + self.left + self.right)
        b, n = e.b, e["n"]
        made = next(c for c, real in COMPLEX.items() if real == e.real)
        size = itemsize(made)
        jobs = [e.letter("V" if wanted else "N") for wanted in (self.left, self.right)]
        order, lwork = e.integer(n), e.integer(e["lwork"])
        a, w_part, wi, vl, vr, work = (e.part(x) for x in ("a", "w", "wi", "vl", "vr", "work"))
        square = e.mul(n, n)
        values = [w_part] if self.dtype in COMPLEX else [w_part, wi]
        more = [e.part(x) for x in e.more]
        with e.loop("%begin", "%end") as u:
            source = e.at(e.ends[0], u, e.mul(square, e.size))
            w = e.at(e.ends[1], u, e.mul(n, size))
            vectors = [e.at(p, u, e.mul(square, size)) for p in e.ends[2:]]
            outs = [(w, n, made), *((v, square, made) for v in vectors)]
            finite = e.finite(source, square)
            b.store("i64", "1", e.info)
            with when(b, finite, likely=True):
                b.store("i64", "0", e.info)
                e.by_columns(source, n, n, a)
                e.call(
                    "geev", *jobs, order, a, order, *values, vl, order, vr, order, work, lwork,
                    *more,
                )  # fmt: skip
                wanted = [p for p, given in ((vl, self.left), (vr, self.right)) if given]
                if self.dtype in COMPLEX:
                    e.line(w_part, n, w, self.inner, self.dtype)
                    for part, v in zip(wanted, vectors, strict=True):
                        e.by_rows(part, n, n, v)
                else:
                    self._complex(e, made, w_part, wi, wanted, w, vectors)
            with when(e.b, e.failed(), likely=False):
                e.fill(outs)
        return e.finished(name)

    def _complex(
        self, e: _Calls, made: str, wr: str, wi: str, parts: list[str], w: str, vectors: list[str]
    ) -> None:
        """Complex numbers of real ones: two columns are a pair of conjugate vectors."""
        b, n, t, size = e.b, e["n"], ty(made, 1), itemsize(made)
        real, inner = LLVM_TYPES[e.real], LLVM_TYPES[self.inner]
        zero = b.const(inner, 0)

        def load(start: str, i: str) -> str:
            return e.load(self.inner, e.at(start, i, e.inner_size))

        def store(re: str, im: str, at: str) -> None:
            re, im = (e.converted(x, self.inner, self.dtype) for x in (re, im))
            x = b.emit(f"insertelement {t} poison, {real} {re}, i64 0")
            e.store(made, b.emit(f"insertelement {t} {x}, {real} {im}, i64 1"), at)

        with e.loop("0", n) as j:
            value = load(wi, j)
            store(load(wr, j), value, e.at(w, j, size))
            first, second = (b.fcmp(way, inner, value, zero) for way in ("ogt", "olt"))
            paired = b.emit(f"or i1 {first}, {second}")
            # The columns with the real and with the imaginary part of the first vector of a pair.
            columns = (
                b.select("i64", second, e.sub(j, 1), j), b.select("i64", first, e.add(j, 1), j)
            )  # fmt: skip
            for part, v in zip(parts, vectors, strict=True):
                with e.loop("0", n) as i:
                    re, im = (load(part, e.add(i, e.mul(c, n))) for c in columns)
                    im = b.select(inner, second, b.fneg(inner, im), im)
                    im = b.select(inner, paired, im, zero)
                    store(re, im, e.at(v, e.add(e.mul(i, n), j), size))


class Schur(NamedTuple):
    """a = q t q^H; NaN where not all of a is finite.

    Pointers: a, t, (q,) memory. Domain: matrices. Descriptor: `names`.
    """

    dtype: str
    vectors: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "n", "lwork", "a", "w", "wi", "q", "work", "rwork")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.dtype, "gees")

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.dtype, self.names, 4 if self.vectors else 3)
        b, n = e.b, e["n"]
        job, sort = e.letter("V" if self.vectors else "N"), e.letter("N")
        order, lwork, chosen = e.integer(n), e.integer(e["lwork"]), e.integer("0")
        a, w, wi, q, work = (e.part(x) for x in ("a", "w", "wi", "q", "work"))
        square = e.mul(n, n)
        nbytes = e.mul(square, e.size)
        values = [w] if self.dtype in COMPLEX else [w, wi]
        more = [e.part(x) for x in e.more]
        with e.loop("%begin", "%end") as u:
            source = e.at(e.ends[0], u, nbytes)
            outs = [e.at(p, u, nbytes) for p in e.ends[1:]]
            finite = e.finite(source, square)
            b.store("i64", "1", e.info)
            with when(b, finite, likely=True):
                b.store("i64", "0", e.info)
                e.by_columns(source, n, n, a)
                # Nothing is sorted, so the function that would choose is not called.
                e.call(
                    "gees", job, sort, "null", order, a, order, chosen, *values, q, order, work,
                    lwork, *more, "null",
                )  # fmt: skip
                for part, out in zip((a, q), outs, strict=False):
                    e.by_rows(part, n, n, out)
            with when(e.b, e.failed(), likely=False):
                e.fill([(out, square, self.dtype) for out in outs])
        return e.finished(name)


# -- tridiagonal ----------------------------------------------------------------------------------


class TridiagonalSolve(NamedTuple):
    """x with a x = b for matrices of three diagonals and two rows or more; NaN for singular ones.

    Pointers: lower, main, upper diagonal, b, out, memory. Domain: systems. Descriptor: `names`.
    """

    dtype: str

    @property
    def names(self) -> tuple[str, ...]:
        return (*HEADER, "n", "k", "lower", "main", "upper", "b")

    @property
    def symbols(self) -> dict[str, int]:
        return _symbols(self.dtype, "gtsv")

    def text(self, name: str) -> str:
        e = _Calls(self.dtype, self.dtype, self.names, 6)
        n, k = e["n"], e["k"]
        order, many = e.integer(n), e.integer(k)
        parts = [e.part(x) for x in ("lower", "main", "upper")]
        right = e.part("b")
        line, nbytes = e.mul(n, e.size), e.mul(e.mul(n, k), e.size)
        with e.loop("%begin", "%end") as u:
            for part, diagonal in zip(parts, e.ends, strict=False):
                copy(e.b, part, e.at(diagonal, u, line), line)
            out = e.at(e.ends[4], u, nbytes)
            e.by_columns(e.at(e.ends[3], u, nbytes), n, k, right)
            # The first element of the lower diagonal is not in the matrix.
            lower = e.b.offset(parts[0], str(e.size))
            e.call("gtsv", order, many, lower, parts[1], parts[2], right, order)
            e.by_rows(right, n, k, out)
            with when(e.b, e.failed(), likely=False):
                e.fill([(out, e.mul(n, k), self.dtype)])
        return e.finished(name)


# -- equal values ---------------------------------------------------------------------------------


class Spread(NamedTuple):
    """What moves equal eigenvalues or singular values apart, see control/linalg/spread.py.

    Pointers: w, shift, apart (bool). Domain: lists. Descriptor: values of a list; the bits of the
    double by which the largest is multiplied to give the tolerance.
    """

    dtype: str

    def text(self, name: str) -> str:
        e = Writer()
        b, t, size = e.b, LLVM_TYPES[self.dtype], itemsize(self.dtype)
        n, bits = Numbers(b).take(2)
        bases = pointers(b, 3)
        factor = b.cast("fptrunc", b.emit(f"bitcast i64 {bits} to double"), "double", t)
        largest, start = e.alloca(t), e.alloca("i64")
        square, line = e.mul(n, n), e.mul(n, size)
        b.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1 immarg"])

        def load(w: str, i: str) -> str:
            return b.load(t, b.offset(w, e.mul(i, size)), size)

        with e.loop("%begin", "%end") as u:
            w, shift = (b.offset(p, e.mul(u, line)) for p in bases[:2])
            apart = b.offset(bases[2], e.mul(u, square))
            b.do(f"call void @llvm.memset.p0.i64(ptr {shift}, i8 0, i64 {line}, i1 false)")
            b.do(f"call void @llvm.memset.p0.i64(ptr {apart}, i8 1, i64 {square}, i1 false)")
            with e.loop("0", n) as i:
                b.store("i8", "0", b.offset(apart, e.mul(i, e.add(n, 1))), 1)
            b.store(t, b.const(t, 0), largest)
            with e.loop("0", n) as i:
                x, most = b.call_intrinsic("fabs", t, load(w, i)), b.load(t, largest)
                # Once it is NaN it stays.
                wins = b.emit(
                    f"or i1 {b.fcmp('ogt', t, x, most)}, {b.fcmp('uno', t, x, x)}"
                )  # fmt: skip
                b.store(t, b.select(t, wins, x, most), largest)
            limit = b.fmul(t, factor, b.load(t, largest))
            rising = b.fcmp("oge", t, load(w, e.sub(n, 1)), load(w, "0"))
            b.store("i64", "0", start)
            with e.loop("1", e.add(n, 1)) as stop:
                inside = b.icmp("slt", "i64", stop, n)
                # The last value ends a run whatever it is compared to.
                following = load(w, b.select("i64", inside, stop, e.sub(n, 1)))
                gap = b.fsub(t, following, load(w, e.sub(stop, 1)))
                close = b.fcmp("ole", t, b.call_intrinsic("fabs", t, gap), limit)
                ends = b.emit(f"xor i1 {b.emit(f'and i1 {close}, {inside}')}, true")
                with when(b, ends, likely=True):
                    first = b.load("i64", start)
                    many = e.sub(stop, first)
                    with when(b, b.icmp("sgt", "i64", many, "1"), likely=False):
                        self._run(e, w, shift, apart, n, first, stop, many, limit, rising)
                    b.store("i64", stop, start)
        return e.finished(name)

    def _run(
        self, e: Writer, w: str, shift: str, apart: str, n: str, first: str, stop: str, many: str,
        limit: str, rising: str,
    ) -> None:  # fmt: skip
        """Values that are equal within the limit, each to the next."""
        b, t, size, real = e.b, LLVM_TYPES[self.dtype], itemsize(self.dtype), "double"

        def value(i: str) -> str:
            return b.cast("fpext", b.load(t, b.offset(w, e.mul(i, size)), size), t, real)

        def half(x: str) -> str:
            return b.fmul(real, x, b.const(real, 0.5))

        total = e.alloca(real)
        b.store(real, b.const(real, 0), total)
        with e.loop(first, stop) as i:
            b.store(real, b.fadd(real, b.load(real, total), value(i)), total)
        count = b.cast("sitofp", many, "i64", real)
        mean = b.fdiv(real, b.load(real, total), count)
        root = 2 * math.sqrt(float(np.finfo(self.dtype).eps))
        step = b.fmul(real, b.const(real, root), b.call_intrinsic("fabs", real, mean))
        step = b.fdiv(real, step, count)
        same = b.fcmp("ole", real, step, b.cast("fpext", limit, t, real))
        with when(b, same, likely=False), e.loop(first, stop) as i:
            row = b.offset(apart, e.add(e.mul(i, n), first))
            b.do(f"call void @llvm.memset.p0.i64(ptr {row}, i8 0, i64 {many}, i1 false)")
        with when(b, b.emit(f"xor i1 {same}, true"), likely=True):
            step = b.select(real, rising, step, b.fneg(real, step))
            middle = half(b.cast("sitofp", e.sub(many, 1), "i64", real))
            with e.loop(first, stop) as i:
                k = b.fsub(real, b.cast("sitofp", e.sub(i, first), "i64", real), middle)
                place = b.fadd(real, mean, b.fmul(real, step, k))
                moved = b.cast("fptrunc", b.fsub(real, place, value(i)), real, t)
                b.store(t, moved, b.offset(shift, e.mul(i, size)), size)
