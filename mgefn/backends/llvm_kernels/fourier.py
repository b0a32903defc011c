"""Fourier transforms: the calls of native kernels that they are made of, and their tables.

A transform along lines of an array takes a vector of lines at a time, or, where lines are few and
long, divides each as n = n1 n2. Prime factors above MOST_PRIME are parted from the others; a length
of nothing else is a convolution of a length without (Bluestein). Transforms of real numbers go
through complex ones of half the length; those along axes that are not the last one take columns
side by side.
"""

from __future__ import annotations

import functools
import math
import struct
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import forks
from mgefn.compiler.codegen.fourier import (
    COLUMNS,
    GENERIC,
    HEADER,
    MIDDLE,
    PART,
    PASS,
    REAL,
    ROWS,
    SOURCE,
    STAGE,
    TARGET,
    TWISTED,
    WHOLE,
    WIDEN,
    Halves,
    Lanes,
    Products,
    Rows,
)
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import (
    Call,
    Fixed,
    Lowered,
    Moving,
    NativeStep,
    Place,
    Repeat,
    Scratch,
    Spot,
    chunk_of,
    roots_of,
)
from mgefn.core.jaxpr import Eqn, Var
from mgefn.ops.fft import FftType

MOST_PRIME = 127  # largest prime factor that has passes of its own; they cost its square
NEAR = 3 << 14  # bytes of two buffers of a block that the nearest cache holds
BUFFERS = 1 << 20  # and that the next one holds
CACHED = 1 << 18  # bytes of a line that is divided within a worker's memory
WORKERS = 8  # with memory of their own
MOST_CHUNKS = 32  # that have memory where there are more workers
ROOTS = 1 << 13  # roots of unity that are computed at a time
TABLE_BYTES = 1 << 25  # of tables that are kept for other programs
MOST_CONVOLVED = 1 << 22  # longest convolved line: tables of some three times its length stay
PARTED = 8  # least factor of a line that is parted from the large primes
PARTED_FROM = 1 << 14  # and the least length
GROUP = 1 << 17  # complex numbers of lines that go through memory of a step together

# Nanoseconds of a pass for each vector of complex numbers, roughly; those of an odd radix beside
# these grow with it. Then those of loading and storing one.
_COSTS = {2: 1.0, 3: 1.6, 4: 1.3, 5: 2.6, 7: 4.0, 8: 2.2}
_MOVES = 7.0

_PI_2 = math.pi / 2
_PI_2_REST = 6.123233995736766e-17  # pi / 2 - _PI_2


# -- roots of unity -------------------------------------------------------------------------------


def roots(k: np.ndarray, n: int, exact: bool = True) -> np.ndarray:
    """exp(-2 pi i k / n) for integers k, complex128.

    Args:
        k: of magnitude below 2**50.
        exact: is an error below 1 ulp wanted? Else it is some 3.
    """
    out = np.empty(k.size, np.complex128)
    flat = k.ravel()
    for start in range(0, k.size, ROOTS):  # so many at a time, which stay in a cache
        _roots(flat[start : start + ROOTS], n, exact, out[start : start + ROOTS])
    return out.reshape(k.shape)


def _roots(k: np.ndarray, n: int, exact: bool, out: np.ndarray) -> None:
    whole = k.astype(np.float64)
    quarters = np.rint(whole * (4.0 / n))
    rest = 4.0 * whole - quarters * n  # exact, and about n / 2 at most
    ratio = rest / n
    x = _PI_2 * ratio
    cosine, sine = np.cos(x), np.sin(x)
    if exact:
        # The angle's error: of the quotient, of the product, and of pi.
        missing = ((rest - ratio * n) - _product_error(ratio, float(n))) / n
        dx = _product_error(np.full_like(ratio, _PI_2), ratio) + _PI_2_REST * ratio
        dx += _PI_2 * missing
        cosine, sine = cosine - sine * dx, sine + cosine * dx
    quarters = quarters.astype(np.int64) & 3
    a, b = np.take([1.0, 0.0, -1.0, 0.0], quarters), np.take([0.0, -1.0, 0.0, 1.0], quarters)
    out.real = a * cosine + b * sine
    out.imag = b * cosine - a * sine


def _product_error(x: np.ndarray, y: Any) -> np.ndarray:
    """x * y less its rounding, by Dekker's splitting."""
    y = np.asarray(y, np.float64)

    def halves(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = z * 134217729.0  # 2**27 + 1
        high = high - (high - z)
        return high, z - high

    (a, b), (c, d) = halves(x), halves(y)
    p = x * y
    return ((a * c - p) + a * d + b * c) + b * d


# -- plans ----------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def radices(n: int) -> tuple[int, ...] | None:
    """Radices of the passes, in order; None where a prime factor is too large."""
    found: list[int] = []
    rest, p = n, 2
    while p <= MOST_PRIME and rest > 1:
        if rest % p:
            p += 1
        else:
            rest //= p
            found.append(p)
    if rest > 1:
        return None
    twos = found.count(2)
    eights, left = divmod(twos, 3)
    fours = (0, 2, 1)[left]
    if left == 1:
        eights -= 1
    if eights < 0:
        return 2, *found[1:]
    return (*[8] * eights, *found[twos:], *[4] * fours)


@functools.lru_cache(1024)
def large_part(n: int) -> int:
    """The product of the prime factors above MOST_PRIME."""
    for p in range(2, MOST_PRIME + 1):
        while n % p == 0:
            n //= p
    return n


@functools.lru_cache(1024)
def _cost(n: int) -> float:
    """Nanoseconds for a block of lines."""
    some = radices(n)
    assert some is not None
    passes = sum(_COSTS.get(r, 2.0 + 0.7 * r) for r in some)
    nbytes = 4 * vector_bytes() * n
    slower = 1.0 if nbytes <= NEAR else 1.8 if nbytes <= BUFFERS else 6.0
    return n * (_MOVES + slower * passes)


@functools.lru_cache(1024)
def divided(n: int, width: int) -> tuple[float, int]:
    """Nanoseconds for one line as n1 n2, and n1; infinite where it cannot be divided."""
    divisors = {1}
    for r in radices(n) or ():
        steps = (1, 2, 4, 8) if r == 8 else (1, 2, 4) if r == 4 else (1, r)
        divisors |= {d * s for d in divisors for s in steps}
    best = (math.inf, 0)
    for n1 in sorted(divisors - {1, n}):
        n2 = n // n1
        cost = -(-n1 // width) * (_cost(n2) + n2) + -(-n2 // width) * _cost(n1)
        best = min(best, (cost, n1))
    return best


@functools.lru_cache(256)
def convolved(n: int, width: int) -> int:
    """A length for the convolution that makes a transform of n: the fastest of those that do."""
    least = 2 * n - 1
    lengths = set()
    five = 1
    while five < 2 * least:
        three = five
        while three < 2 * least:
            lengths.add(three << max(0, (-(-least // three) - 1).bit_length()))
            three *= 3
        five *= 5
    return min(
        sorted(lengths), key=lambda m: m * 12.0 if m < 64 else min(divided(m, width)[0], 12.0 * m)
    )


# -- tables ---------------------------------------------------------------------------------------


class Tables:
    """Arrays one after the other, each on a cache line."""

    def __init__(self, dtype: str):
        self.dtype = np.dtype(dtype)
        self.parts: list[np.ndarray] = []
        self.nbytes = 0

    def add(self, x: np.ndarray) -> int:
        """The offset of an array; complex numbers as pairs."""
        if x.dtype.kind == "c":
            x = x.view(np.float64)
        part = x.astype(self.dtype).ravel()
        filled = -part.nbytes % 64 // part.itemsize
        offset = self.nbytes
        self.parts += [part, np.zeros(filled, self.dtype)]
        self.nbytes += part.nbytes + filled * part.itemsize
        return offset

    def roots(self, k: np.ndarray, n: int) -> np.ndarray:
        return roots(k, n, self.dtype.itemsize == 8)

    def fixed(self) -> Fixed:
        return Fixed(np.concatenate(self.parts) if self.parts else np.zeros(1, self.dtype))


class _Kept:
    """Tables that several programs share: those in use, and those used last up to TABLE_BYTES."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._items: dict[Any, Any] = {}
        # What was made, with weak references in the place of tables: a program may have them still.
        self._used: dict[Any, tuple] = {}

    def get(self, key: Any, make: Any) -> Any:
        """What `make` gave for the key, a tuple."""
        with self._lock:
            found = self._items.pop(key, None) or self._still_used(key)
            if found is not None:
                self._keep(key, found)
                return found
        made = make()
        with self._lock:
            for old in [k for k in self._used if self._still_used(k) is None]:
                del self._used[old]
            self._used[key] = tuple(weakref.ref(x) if type(x) is Fixed else x for x in made)
            self._keep(key, made)
        return made

    def _still_used(self, key: Any) -> tuple | None:
        weak = self._used.get(key)
        if weak is None:
            return None
        found = tuple(x() if type(x) is weakref.ref else x for x in weak)
        lost = any(f is None for f, x in zip(found, weak, strict=True) if type(x) is weakref.ref)
        return None if lost else found

    def _keep(self, key: Any, made: tuple) -> None:
        self._items[key] = made
        total = sum(map(_table_bytes, self._items.values()))
        for old in list(self._items):
            if total <= TABLE_BYTES:
                break
            total -= _table_bytes(self._items.pop(old))


def _table_bytes(kept: tuple) -> int:
    return sum(x.array.nbytes for x in kept if isinstance(x, Fixed))


_kept = _Kept()


class Passes(NamedTuple):
    """The passes of a length: numbers of the descriptor, for offsets in some tables."""

    numbers: tuple[tuple[int, ...], ...]
    generic: int  # the largest radix without code of its own


def _passes(tables: Tables, n: int) -> Passes:
    some = radices(n)
    assert some is not None
    out = []
    s, m, generic = 1, n, 0
    for r in some:
        m //= r
        p, j = np.arange(m)[:, None], np.arange(1, r)
        twiddles, coefficients = tables.add(tables.roots(p * j * s, n)), 0
        if r not in _COSTS:
            j = np.arange(1, r // 2 + 1)
            coefficients = tables.add(tables.roots(j[:, None] * j, r).conj())
            generic = max(generic, r)
        code = r if r in _COSTS else GENERIC
        out.append(dict(zip(PASS, (code, m, s, twiddles, r, coefficients), strict=True)))
        s *= r
    return Passes(tuple(tuple(x[name] for name in PASS) for x in out), generic)


def _whole_tables(dtype: str, n: int) -> Any:
    def make() -> Any:
        tables = Tables(dtype)
        passes = _passes(tables, n)
        return tables.fixed(), passes

    return _kept.get(("whole", dtype, n), make)


def _divided_tables(dtype: str, n1: int, n2: int, width: int) -> Any:
    """Tables of the stages that are passes, and what the first one multiplies by."""

    def make() -> Any:
        tables = Tables(dtype)
        first = _passes(tables, n2)
        second: Passes | None = None
        if radices(n1) is not None:
            second = first if n1 == n2 else _passes(tables, n1)
        n = n1 * n2
        k = np.arange(n2)
        lanes = tables.roots(k[:, None] * np.arange(width), n)
        of_lanes = tables.add(np.concatenate([np.real(lanes), np.imag(lanes)], 1))
        starts = np.arange(0, n1, width)
        of_blocks = tables.add(tables.roots(starts[:, None] * k, n))
        return tables.fixed(), first, second, of_lanes, of_blocks

    return _kept.get(("divided", dtype, n1, n2, width), make)


def _halves_table(dtype: str, h: int, width: int, back: bool) -> Any:
    def make() -> Any:
        tables = Tables(dtype)
        few, n, sign = width // 2, 2 * h, -1 if back else 1
        lanes = np.repeat(tables.roots(sign * np.arange(few), n), 2)
        signs = np.tile([-1.0, 1.0], few)
        real, imaginary = np.real(lanes), np.imag(lanes)
        rows = [real, imaginary, real * signs, imaginary * signs]
        # The kernel reads the factors right behind these.
        k = np.arange(1, h // 2 + 1, few)
        factors = tables.roots(sign * k, n) * (1j if back else -0.5j)
        tables.add(np.concatenate([*rows, factors.view(np.float64)]))
        return (tables.fixed(),)

    return _kept.get(("halves", dtype, h, width, back), make)


def _chirp_tables(dtype: str, n: int, m: int, inverse: bool) -> Any:
    """exp(-pi i k^2 / n), and the transform of its conjugate, taken around a circle of m."""

    def make() -> Any:
        if inverse:  # what goes around the circle is even, so its transform is conjugate too
            return tuple(_conjugate(t) for t in _chirp_tables(dtype, n, m, False))
        k = np.arange(n, dtype=np.int64)
        chirp = roots(k * k % (2 * n), 2 * n)
        around = np.zeros(m, np.complex128)
        around[:n] = chirp.conj()
        around[m - n + 1 :] = around[1:n][::-1]
        first, second = Tables(dtype), Tables(dtype)
        first.add(chirp)
        second.add(np.fft.fft(around))
        return first.fixed(), second.fixed()

    return _kept.get(("chirp", dtype, n, m, inverse), make)


def _conjugate(table: Fixed) -> Fixed:
    out = table.array.copy()
    out[1::2] *= -1
    return Fixed(out)


# -- calls ----------------------------------------------------------------------------------------


def _bits(x: float) -> int:
    return struct.unpack("<q", struct.pack("<d", x))[0]


def _stage(**given: Any) -> dict[str, Any]:
    """The numbers of a stage; places and steps that are not given are 0."""
    plain = {"passes": None, "blocks": 1, "scale": 1.0}
    return {**dict.fromkeys(STAGE, 0), **plain, **given}


class _Calls:
    """The instructions of one equation, and the scratch memory that they need."""

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.size = np.dtype(dtype).itemsize
        self.pair = 2 * self.size
        self.width = vector_bytes() // self.size
        self.code: list[Any] = []
        self.scratch: list[int] = []

    def memory(self, nbytes: int) -> Spot:
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1), 0

    def lanes(
        self, source: Spot, target: Spot, tables: Fixed, stages: Sequence[dict[str, Any]],
        outer: int, per: int, nanoseconds: float, middle: int = 0,
    ) -> None:  # fmt: skip
        """A call of Lanes.

        Args:
            stages: numbers by name; `passes` a Passes or None, swaps bools, scale a float.
            nanoseconds: for all of it.
            middle: bytes of a worker's memory between stages.
        """
        kernel = Lanes(
            self.dtype, self.width,
            tuple(sorted({p[0] for s in stages if s["passes"] for p in s["passes"].numbers})),
            tuple(sorted({s["load"] for s in stages})),
            tuple(sorted({s["store"] for s in stages})),
        )  # fmt: skip
        count = outer * per
        whole = self.width * self.pair
        longest = max(s["length"] for s in stages)
        generic = max([s["passes"].generic for s in stages if s["passes"]], default=0)
        # Not a power of two, so that the two buffers' lines do not meet in the first cache.
        buffer = (longest + self.width // 2) * whole + 17 * 64
        middle = -(-middle // 64) * 64
        worker = middle + 2 * buffer + generic * whole
        most = MOST_CHUNKS if worker <= CACHED else MOST_CHUNKS // 2
        chunk = chunk_of(count, nanoseconds, most)
        shared = WORKERS if chunk else 0
        work = self.memory(worker * (shared + (-(-count // chunk) if chunk else 1)))
        head = (per, chunk or count, shared, worker, middle, buffer, len(stages))
        assert len(head) == len(HEADER)
        numbers = list(head)
        at = len(HEADER) + len(stages) * len(STAGE)
        passes: list[int] = []
        for s in stages:
            some = s["passes"].numbers if s["passes"] else ()
            half = self.width * self.size
            given = {
                **s,
                "source_swap": half * s["source_swap"],
                "target_swap": half * s["target_swap"],
                "scale": _bits(s["scale"]),
                "passes": len(some),
                "passes_at": at + len(passes),
            }
            numbers += [given[name] for name in STAGE]
            passes += [x for p in some for x in p]
        slots = (source, target, (tables, 0), work)
        self.code.append(Call(kernel, slots, (*numbers, *passes), count, chunk))

    def rows(
        self, kernel: Rows | Products, count: int, n: int, given: int, source: Spot,
        source_step: int, target: Spot, target_step: int, tables: Sequence[Fixed] = (),
    ) -> None:  # fmt: skip
        """Rows of n numbers, of which so many are given; see Rows."""
        pieces = -(-n // (1 << 13))
        length = -(-n // pieces)
        slots = (source, target, *((t, 0) for t in tables))
        units = count * pieces
        numbers = (pieces, length, n, given, source_step, target_step)
        chunk = chunk_of(units, count * n * (1.5 if isinstance(kernel, Rows) else 0.5))
        self.code.append(Call(kernel, slots, numbers, units, chunk))

    def halves(
        self, count: int, h: int, back: bool, source: Spot, source_step: int, target: Spot,
        target_step: int,
    ) -> None:  # fmt: skip
        (table,) = _halves_table(self.dtype, h, self.width, back)
        vectors = max(1, -(-(h // 2) // (self.width // 2)))
        length = min(vectors, 256)
        pieces = -(-vectors // length)
        units = count * pieces
        chunk = chunk_of(units, units * length * 5.0)
        numbers = (pieces, length, h, source_step, target_step)
        kernel = Halves(self.dtype, self.width, back)
        self.code.append(Call(kernel, (source, target, (table, 0)), numbers, units, chunk))

    # -- complex transforms ---------------------------------------------------------------------

    def lines(
        self, n: int, count: int, source: Spot, source_step: int, target: Spot, target_step: int,
        inverse: bool = False, scale: float = 1.0,
    ) -> None:  # fmt: skip
        """Transforms of lines; the target may be the source, with the same step."""
        if radices(n) is None:
            line = source, source_step, target, target_step, inverse, scale
            if _is_parted(n):
                self._parted(n, count, *line)
            else:
                self._convolved(n, count, *line)
            return
        blocks = -(-count // self.width)
        whole = blocks * _cost(n)
        each, n1 = divided(n, self.width)
        if whole <= count * each:
            table, passes = _whole_tables(self.dtype, n)
            stage = _stage(
                target=TARGET, lanes=count, source_step=source_step, target_step=target_step,
                load=ROWS, store=ROWS, length=n, source_swap=inverse, target_swap=inverse,
                scale=scale, passes=passes,
            )  # fmt: skip
            self.lanes(source, target, table, [stage], 1, blocks, whole)
            return
        self._divided(n, n1, each, count, source, source_step, target, target_step, inverse, scale)

    def _divided(
        self, n: int, n1: int, nanoseconds: float, count: int, source: Spot, source_step: int,
        target: Spot, target_step: int, inverse: bool, scale: float,
    ) -> None:  # fmt: skip
        n2, pair, width = n // n1, self.pair, self.width
        table, first, second, of_lanes, of_blocks = _divided_tables(self.dtype, n1, n2, width)
        units = -(-n1 // width), -(-n2 // width)
        stages = [
            _stage(
                source=SOURCE, target=MIDDLE, source_outer=source_step, blocks=units[0], lanes=n1,
                source_step=n1 * pair, target_step=n1 * pair, load=COLUMNS, store=TWISTED,
                length=n2, source_swap=inverse, lane_table=of_lanes, block_table=of_blocks,
                passes=first,
            ),
            _stage(
                source=MIDDLE, target=TARGET, target_outer=target_step, blocks=units[1], lanes=n2,
                source_step=n1 * pair, target_step=n2 * pair, load=ROWS, store=COLUMNS, length=n1,
                target_swap=inverse, scale=scale, passes=second,
            ),
        ]  # fmt: skip
        within = n * pair <= CACHED and (count >= WORKERS or not chunk_of(64, count * nanoseconds))
        if within:
            self.lanes(source, target, table, stages, count, 1, count * nanoseconds, n * pair)
            return
        between = self.memory(n * pair)
        stages[0] |= {"target": TARGET, "source_outer": 0, "blocks": 1}
        stages[1] |= {"source": SOURCE, "target_outer": 0, "blocks": 1}

        def line(source: Spot, target: Spot) -> None:
            share = nanoseconds / 2
            self._both(stages, source, between, target, table, units, share)

        self._repeated(count, source, source_step, target, target_step, line)

    def _parted(
        self, n: int, count: int, source: Spot, source_step: int, target: Spot, target_step: int,
        inverse: bool, scale: float,
    ) -> None:  # fmt: skip
        """Lines of n1 n2 numbers, where n1 has the large primes: n1 transforms, then n2."""
        n1, pair, width = large_part(n), self.pair, self.width
        n2 = n // n1
        table, passes, _, of_lanes, of_blocks = _divided_tables(self.dtype, n1, n2, width)
        stage = _stage(
            target=TARGET, lanes=n1, source_step=n1 * pair, target_step=n1 * pair, load=COLUMNS,
            store=TWISTED, length=n2, source_swap=inverse, lane_table=of_lanes,
            block_table=of_blocks, passes=passes,
        )  # fmt: skip
        blocks = -(-n1 // width)
        between = self.memory(n * pair)

        def line(source: Spot, target: Spot) -> None:
            self.lanes(source, between, table, [stage], 1, blocks, blocks * (_cost(n2) + n2))
            self.lines(n1, n2, between, n1 * pair, between, n1 * pair, False, scale)
            self._transposed(1, n2, n1, between, target, inverse)

        self._repeated(count, source, source_step, target, target_step, line)

    def _both(
        self, stages: list[dict[str, Any]], source: Spot, between: Spot, target: Spot,
        table: Fixed, units: tuple[int, int], nanoseconds: float,
    ) -> None:  # fmt: skip
        """The two stages of a line, by the same code, as two calls."""
        start = len(self.code)
        self.lanes(source, between, table, stages[:1], 1, units[0], nanoseconds)
        self.lanes(between, target, table, stages[1:], 1, units[1], nanoseconds)
        kernels = [c.kernel for c in self.code[start:]]
        shared = kernels[0]._replace(
            radices=tuple(sorted({*kernels[0].radices, *kernels[1].radices})),
            loads=(COLUMNS, ROWS), stores=(COLUMNS, TWISTED),
        )  # fmt: skip
        # One is done with the workers' memory before the other needs it.
        self.scratch[-2:] = [max(self.scratch[-2:])]
        work: Spot = (Scratch(len(self.scratch) - 1), 0)
        self.code[start:] = [
            c._replace(kernel=shared, slots=(*c.slots[:-1], work)) for c in self.code[start:]
        ]

    def _repeated(
        self, count: int, source: Spot, source_step: int, target: Spot, target_step: int,
        write: Any,
    ) -> None:  # fmt: skip
        """What `write` writes for a source and a target, for `count` of them."""
        if count == 1:
            write(source, target)
            return
        moving = [Moving(source, source_step), Moving(target, target_step)]
        outside = self.code
        turns: list[list[Any]] = []
        scratch = len(self.scratch)
        for _ in range(2):
            self.code = []
            del self.scratch[scratch:]  # both turns use the same memory
            write(*((m, 0) for m in moving))
            turns.append(self.code)
        self.code = outside
        self.code.append(Repeat(count, turns[0], turns[1], moving))

    def _convolved(
        self, n: int, count: int, source: Spot, source_step: int, target: Spot, target_step: int,
        inverse: bool, scale: float,
    ) -> None:  # fmt: skip
        m = convolved(n, self.width)
        chirp, other = _chirp_tables(self.dtype, n, m, inverse)
        step = m * self.pair
        group = max(1, min(count, GROUP // m))
        first, second = self.memory(group * step), self.memory(group * step)

        times = Products(self.dtype, self.width)

        def write(some: int, source: Spot, target: Spot) -> None:
            self.rows(times, some, m, n, source, source_step, first, step, [chirp])
            self.lines(m, some, first, step, second, step)
            self.rows(times, some, m, m, second, step, first, step, [other])
            self.lines(m, some, first, step, second, step, True, scale / m)
            self.rows(times, some, n, n, second, step, target, target_step, [chirp])

        self._grouped(group, count, source, source_step, target, target_step, write)

    def _grouped(
        self, group: int, count: int, source: Spot, source_step: int, target: Spot,
        target_step: int, write: Any,
    ) -> None:  # fmt: skip
        """What `write` writes for some lines: groups of them one after the other, then the rest."""
        groups, rest = divmod(count, group)
        self._repeated(
            groups, source, group * source_step, target, group * target_step,
            lambda x, y: write(group, x, y),
        )  # fmt: skip
        if rest:
            done = groups * group
            x = source[0], source[1] + done * source_step
            write(rest, x, (target[0], target[1] + done * target_step))

    def columns(
        self, outer: int, n: int, inner: int, source: Spot, target: Spot, inverse: bool,
        scale: float,
    ) -> None:  # fmt: skip
        """Transforms along the middle axis; the target may be the source."""
        pair, nbytes = self.pair, outer * n * inner * self.pair
        fits = radices(n) is not None and 4 * vector_bytes() * n <= 2 * BUFFERS
        if inner == 1:
            self.lines(n, outer, source, n * pair, target, n * pair, inverse, scale)
        elif fits and (inner * 4 >= self.width or n <= 2 * self.width):
            table, passes = _whole_tables(self.dtype, n)
            stage = _stage(
                target=TARGET, source_outer=n * inner * pair, target_outer=n * inner * pair,
                lanes=inner, source_step=inner * pair, target_step=inner * pair, load=COLUMNS,
                store=COLUMNS, length=n, source_swap=inverse, target_swap=inverse, scale=scale,
                passes=passes,
            )  # fmt: skip
            blocks = -(-inner // self.width)
            self.lanes(source, target, table, [stage], outer, blocks, outer * blocks * _cost(n))
        else:
            turned = self.memory(nbytes)
            self._transposed(outer, n, inner, source, turned)
            self.lines(n, outer * inner, turned, n * pair, turned, n * pair, inverse, scale)
            self._transposed(outer, inner, n, turned, target)

    def _transposed(
        self, outer: int, rows: int, columns: int, source: Spot, target: Spot, swap: bool = False
    ) -> None:
        """Rows and columns exchanged; the shorter ones are whole in memory.

        swap: exchange real and imaginary parts too.
        """
        pair = self.pair
        by_rows = columns <= rows
        lanes, length = (rows, columns) if by_rows else (columns, rows)
        stage = _stage(
            target=TARGET, source_outer=rows * columns * pair, target_outer=rows * columns * pair,
            lanes=lanes, length=length, source_step=columns * pair, target_step=rows * pair,
            load=ROWS if by_rows else COLUMNS, store=COLUMNS if by_rows else ROWS,
            target_swap=swap,
        )  # fmt: skip
        blocks = -(-lanes // self.width)
        nanoseconds = outer * blocks * length * _MOVES
        nothing, _ = _whole_tables(self.dtype, 1)
        self.lanes(source, target, nothing, [stage], outer, blocks, nanoseconds)

    # -- real transforms ------------------------------------------------------------------------

    def forward(self, n: int, count: int, source: Spot, target: Spot) -> None:
        """From real lines to the half that is kept."""
        h, pair, kept = n // 2, self.pair, (n // 2 + 1) * self.pair
        if n % 2 == 0:
            self.lines(h, count, source, h * pair, target, kept)
            self.halves(count, h, False, target, kept, target, kept)
            return
        group = max(1, min(count, GROUP // n))
        wide = self.memory(group * n * pair)

        def write(some: int, source: Spot, target: Spot) -> None:
            self.rows(Rows(self.dtype, WIDEN), some, n, n, source, n * self.size, wide, n * pair)
            self.lines(n, some, wide, n * pair, wide, n * pair)
            self.rows(Rows(self.dtype, PART), some, h + 1, h + 1, wide, n * pair, target, kept)

        self._grouped(group, count, source, n * self.size, target, kept, write)

    def backward(self, n: int, count: int, source: Spot, target: Spot) -> None:
        """From the half that is kept to real lines."""
        h, pair, kept = n // 2, self.pair, (n // 2 + 1) * self.pair
        if n % 2 == 0:
            self.halves(count, h, True, source, kept, target, h * pair)
            self.lines(h, count, target, h * pair, target, h * pair, True, 1 / n)
            return
        group = max(1, min(count, GROUP // n))
        wide = self.memory(group * n * pair)

        def write(some: int, source: Spot, target: Spot) -> None:
            self.rows(Rows(self.dtype, WHOLE), some, n, h + 1, source, kept, wide, n * pair)
            self.lines(n, some, wide, n * pair, wide, n * pair, True, 1 / n)
            self.rows(Rows(self.dtype, REAL), some, n, n, wide, n * pair, target, n * self.size)

        self._grouped(group, count, source, kept, target, n * self.size, write)


def _is_parted(n: int) -> bool:
    """Is a line with large prime factors done in two steps? One is as good where all is near."""
    return n >= PARTED_FROM and n // large_part(n) >= PARTED


def _is_native(n: int) -> bool:
    if n >= 2**30:
        return False
    large = large_part(n)
    return large == 1 or (large if _is_parted(n) else n) <= MOST_CONVOLVED


def _fft(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, (out,) = eqn.inputs[0].aval, eqn.out_binders
    kind, lengths = eqn.params["fft_type"], eqn.params["fft_lengths"]
    dtype = {8: "float32", 16: "float64"}.get(
        np.dtype(x.dtype).itemsize * (1 + (kind == FftType.RFFT))
    )
    if not lengths or dtype is None or not dtype_name(x) or not all(map(_is_native, lengths)):
        return None
    calls = _Calls(dtype)
    source, target = (places[0].root, places[0].offset), (out, 0)
    real = kind in (FftType.RFFT, FftType.IRFFT)
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    spectrum = x.shape if kind == FftType.IRFFT else out.aval.shape
    axes = range(len(spectrum) - len(lengths), len(spectrum) - 1)
    last, count = lengths[-1], math.prod(spectrum[:-1])
    if kind == FftType.RFFT:
        calls.forward(last, count, source, target)
        source = target
    elif kind != FftType.IRFFT:
        step = last * calls.pair
        scale = 1 / last if inverse else 1.0
        calls.lines(last, count, source, step, target, step, inverse, scale)
        source = target
    middle: Spot = target
    if kind == FftType.IRFFT and axes:
        middle = calls.memory(x.nbytes)
    for axis in reversed(axes):
        n, outer = spectrum[axis], math.prod(spectrum[:axis])
        inner = math.prod(spectrum[axis + 1 :])
        calls.columns(outer, n, inner, source, middle, inverse, 1 / n if inverse else 1.0)
        source = middle
    if kind == FftType.IRFFT:
        calls.backward(last, count, source, target)
    root = places[0].root
    own = not real and isinstance(root, Var) and root.aval.nbytes == out.aval.nbytes
    flops = eqn.primitive.flops
    return NativeStep(
        calls.code, roots_of(places), [out], eqn.primitive.name, scratch=calls.scratch,
        in_place={0: (0,)} if own else None,
        flops=flops([x], eqn.params) if flops else 0.0, moved=2 * (x.nbytes + out.aval.nbytes),
    )  # fmt: skip


fft = Lowered(_fft)
