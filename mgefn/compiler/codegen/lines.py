"""What scans, sorts and searches are written in: types of elements, a writer of functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mgefn.compiler.codegen.builder import vector
from mgefn.compiler.codegen.parts import Writer
from mgefn.compiler.codegen.values import LLVM_TYPES, itemsize, ty

# In memory and in registers: the types of dtypes that differ.
_MEMORY = {"bool": "i8", "float16": "half", "bfloat16": "i16"}
_COMPUTED = {"bool": "uint8", "float16": "float32", "bfloat16": "float32"}

DTYPES = frozenset((*LLVM_TYPES, "float16", "bfloat16"))


def computed(dtype: str) -> str:
    """The dtype in which elements are computed with."""
    return _COMPUTED.get(dtype, dtype)


class LineWriter(Writer):
    """A kernel's function: its numbers, pointers, loops and accesses to memory."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def numbers(self, count: int) -> list[str]:
        """The next numbers of the descriptor."""
        b, first = self.b, self.at
        self.at += count
        return [b.load("i64", b.offset("%desc", str(8 * i)), 8) for i in range(first, self.at)]

    def pointers(self, count: int) -> list[str]:
        b = self.b
        return [b.load("ptr", b.offset("%ptrs", str(8 * i)), 8) for i in range(count)]

    def variable(self, t: str, x: str) -> str:
        """Memory of a value that changes."""
        where = self.alloca(t)
        self.b.store(t, x, where)
        return where

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        b = self.b
        yes, done = b.label("yes"), b.label("done")
        b.cond_br(condition, yes, done)
        b.place(yes)
        yield
        b.br(done)
        b.place(done)

    def taken_apart(self, u: str, n: str) -> tuple[str, str]:
        """u = i * n + j: i and j."""
        return self.b.emit(f"udiv i64 {u}, {n}"), self.b.emit(f"urem i64 {u}, {n}")

    def item(self, base: str, i: str, size: int) -> str:
        """The address of element i."""
        return self.b.offset(base, i if size == 1 else self.mul(i, str(size)))

    # -- vectors --------------------------------------------------------------------------------

    def mask(self, width: int, left: str) -> str:
        """Lanes below `left`, an i64 above 0."""
        b = self.b
        few = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', left, str(width))} to i32")
        return b.icmp(
            "ult", f"<{width} x i32>", lane_numbers(width), b.splat(f"<{width} x i32>", few)
        )

    def masked_load(self, t: str, pointer: str, mask: str, other: str) -> str:
        return self.b.masked_load(t, pointer, mask, 1, other)

    def masked_store(self, t: str, x: str, pointer: str, mask: str) -> None:
        self.b.masked_store(t, x, pointer, mask, 1)

    def loaded(self, dtype: str, width: int, pointer: str, mask: str, other: str) -> str:
        """Elements in the dtype they are computed with; `other`, of that, where there are none."""
        b = self.b
        t = ty(computed(dtype), width)
        if dtype in ("float16", "bfloat16"):
            m = vector(_MEMORY[dtype], width)
            x = self._widened(dtype, width, self.masked_load(m, pointer, mask, "zeroinitializer"))
            return b.select(t, mask, x, other)
        return self.masked_load(t, pointer, mask, other)

    def _widened(self, dtype: str, width: int, x: str) -> str:
        b = self.b
        if dtype == "bfloat16":
            x = b.cast("bitcast", x, vector("i16", width), vector("bfloat", width))
            return b.widen(vector("bfloat", width), x)
        return b.widen(vector("half", width), x)

    def stored(self, dtype: str, width: int, x: str, pointer: str, mask: str) -> None:
        b = self.b
        if dtype == "float16":
            self.masked_store(
                vector("half", width), b.narrow(vector("half", width), x), pointer, mask
            )
        elif dtype == "bfloat16":
            x = b.narrow(vector("bfloat", width), x)
            x = b.cast("bitcast", x, vector("bfloat", width), vector("i16", width))
            self.masked_store(vector("i16", width), x, pointer, mask)
        else:
            self.masked_store(ty(computed(dtype), width), x, pointer, mask)


def lane_numbers(width: int, scalar: str = "i32") -> str:
    return "<" + ", ".join(f"{scalar} {i}" for i in range(width)) + ">"


def index_stored(f: LineWriter, x: str, width: int, dtype: str, pointer: str, mask: str) -> None:
    """Positions, i32, as an integer dtype."""
    b, source, target = f.b, vector("i32", width), ty(dtype, width)
    size = itemsize(dtype)
    if size != 4:
        x = b.cast("trunc" if size < 4 else "zext", x, source, target)
    if width == 1:
        b.store(target, x, pointer, 1)
    else:
        f.masked_store(target, x, pointer, mask)
