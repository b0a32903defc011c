"""Kernels for NVIDIA GPUs: the loop nests of `Kernel` shared out among blocks and threads.

The text is LLVM's for nvptx64, in the same Builder, mathematics and rows of the table as the CPU's;
what differs is who computes which element. A `DeviceKernel` names one of these mappings:

- ELEMENTS: nothing is reduced. Threads walk over all elements with the stride of the whole grid,
  `lanes` elements at a time.
- WARPS, BLOCKS: a warp or a block takes rows, its threads the elements of a row by turns.
  Reductions go over the lanes of a thread, then over the warp by shuffles, then over warps by
  shared memory. Sums over rows lie in memory for each block; a thread always has the same elements
  of a row.
- COLUMNS: sums over rows and nothing reduced within a row. A block has `columns` of them (times
  `lanes`), its threads take rows by turns; their sums meet in shared memory.
- TILES: nothing is reduced, and some of what is read lies transposed. Those accesses go through
  tiles of 32 x 32 in shared memory, so that a warp reads neighbours in memory.

What is read of an array that is padded is read in a branch: a thread touches no memory where there
is none. Of several lanes all are read together where all are inside, else each by itself.

Sizes are run-time numbers, the arguments of the function behind its pointers: how many units there
are (elements of a FLAT kernel, else rows or pieces), how many a block or warp takes, then the
descriptor as codegen.loops has it. `indirect` kernels, with more numbers than arguments may be,
read them from memory, the last pointer.

Pointers are generic in the text; LLVM infers from where they come whether they are of global or
shared memory. The text has no other trace of its target than intrinsics of `llvm.nvvm`, which
gpu_emulator.py replaces to run it on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any, NamedTuple

from mgefn.compiler.codegen.builder import METADATA, Builder, Module, bits_of, vector
from mgefn.compiler.codegen.loops import (
    Loops,
    combine,
    fold,
    from_memory,
    neutral,
    stored,
    to_memory,
)
from mgefn.compiler.codegen.parts import Loop
from mgefn.compiler.codegen.values import itemsize, rounded, ty
from mgefn.compiler.kernel import (
    FLAT,
    GATHERED,
    INDEX,
    KEEP,
    RAGGED,
    STRIDED,
    UNIT,
    ZERO,
    Kernel,
)

ELEMENTS, WARPS, BLOCKS, COLUMNS, TILES = "elements", "warps", "blocks", "columns", "tiles"

WARP = 32  # threads
TILE = 32  # elements of the edge of a tile of TILES
THREADS = 256  # threads of a block, but for BLOCKS
MOST_THREADS = 512  # threads of a block of BLOCKS
CELL = 8  # bytes that a value takes in shared memory where types mix


class DeviceKernel(NamedTuple):
    """A kernel with the way its work is shared out; hashable, without sizes.

    Attributes:
        lanes: elements that a thread has at once, where they lie side by side.
        aligned: are these at addresses that are multiples of their size together?
        wide: do numbers of elements need 64 bits?
        columns: of COLUMNS, a power of two.
        staged: loads of TILES that go through shared memory.
        once: stores that several elements of the domain share: the first writes.
        indirect: do the numbers come in memory?
    """

    kernel: Kernel
    mapping: str
    lanes: int = 1
    aligned: bool = True
    wide: bool = False
    columns: int = WARP
    staged: tuple[int, ...] = ()
    once: tuple[int, ...] = ()
    indirect: bool = False

    @property
    def most_threads(self) -> int:
        return MOST_THREADS if self.mapping == BLOCKS else THREADS

    def text(self, name: str) -> str:
        """A module of its own; see the module's docstring."""
        return _Device(self, Module()).write_module(name)


class DeviceBuilder(Builder):
    """Instructions that only a GPU has, and blocks of text with a condition."""

    def special(self, register: str) -> str:
        """tid.x, ntid.x, ctaid.x or nctaid.x, as an i64."""
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.module.declare(name, "i32", [])
        return self.emit(f"zext i32 {self.emit(f'call i32 @{name}()')} to i64")

    def barrier(self) -> None:
        self.module.declare("llvm.nvvm.barrier0", "void", [])
        self.do("call void @llvm.nvvm.barrier0()")

    def reserve(self, nbytes: int) -> None:
        """Let the module have so much shared memory."""
        self.module.definitions["shared"] = (
            f"@shared = internal addrspace(3) global [{nbytes} x i8] undef, align 16\n"
        )

    def in_shared(self, offset: str) -> str:
        """A pointer `offset` bytes, an i64, into shared memory."""
        return self.offset("addrspacecast (ptr addrspace(3) @shared to ptr)", offset)

    def exchanged(self, t: str, x: str, distance: int) -> str:
        """The value of the thread of this warp whose number differs in the bit `distance`."""
        if t in ("float", "double"):
            word = f"i{bits_of(t)}"
            y = self.exchanged(word, self.cast("bitcast", x, t, word), distance)
            return self.cast("bitcast", y, word, t)
        if t == "i64":
            low = self.emit(f"trunc i64 {x} to i32")
            high = self.emit(f"trunc i64 {self.emit(f'lshr i64 {x}, 32')} to i32")
            low, high = (self.exchanged("i32", v, distance) for v in (low, high))
            low, high = (self.emit(f"zext i32 {v} to i64") for v in (low, high))
            return self.emit(f"or i64 {low}, {self.emit(f'shl i64 {high}, 32')}")
        if t != "i32":
            word = self.exchanged("i32", self.emit(f"zext {t} {x} to i32"), distance)
            return self.emit(f"trunc i32 {word} to {t}")
        name = "llvm.nvvm.shfl.sync.bfly.i32"
        self.module.declare(name, "i32", ["i32"] * 4)
        return self.emit(f"call i32 @{name}(i32 -1, i32 {x}, i32 {distance}, i32 31)")

    def divided(self, x: str, by: str, wide: bool) -> tuple[str, str]:
        """Quotient and rest of numbers of elements, i64s; in 32 bits unless they may be `wide`."""
        if wide:
            return self.emit(f"udiv i64 {x}, {by}"), self.emit(f"urem i64 {x}, {by}")
        x, by = (self.emit(f"trunc i64 {v} to i32") for v in (x, by))
        q = self.emit(f"udiv i32 {x}, {by}")
        rest = self.emit(f"sub i32 {x}, {self.emit(f'mul i32 {q}, {by}')}")
        return self.emit(f"zext i32 {q} to i64"), self.emit(f"zext i32 {rest} to i64")

    def coordinates(self, unit: str, sizes: Sequence[str], wide: bool) -> list[str]:
        """A number taken apart by the sizes of all loops but the first."""
        out = [unit]
        for size in reversed(sizes):
            out[:1] = self.divided(out[0], size, wide)
        return out

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside runs where the i1 is true."""
        yes, after = self.label("then"), self.label("after")
        self.cond_br(condition, yes, after)
        self.place(yes)
        yield
        self.br(after)
        self.place(after)

    def either(self, condition: str, t: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """One of two values by an i1; the other one's code does not run."""
        first, second, after = self.label("yes"), self.label("no"), self.label("either")
        self.cond_br(condition, first, second)
        incoming: list[tuple[str, str]] = []
        for label, make in ((first, yes), (second, no)):
            self.place(label)
            value = make()
            incoming.append((value, self.block))
            self.br(after)
        self.place(after)
        return self.phi(t, *incoming)

    def finished(self, name: str, pointers: int, numbers: int, indirect: bool, most: int) -> str:
        """The text of the module, whose kernel ends here."""
        self.do("ret void")
        arguments = [("ptr", f"p{i}") for i in range(pointers)]
        if indirect:
            arguments.append(("ptr", "desc"))
        else:
            arguments += [("i64", f"n{i}") for i in range(numbers)]
        self.function(name, "void", arguments, f'nounwind "nvvm.maxntid"="{most}"', "ptx_kernel")
        return self.module.text() + "\n" + METADATA


class _Device(Loops):
    """Writes one kernel for the GPU."""

    b: DeviceBuilder

    def __init__(self, device: DeviceKernel, module: Module):
        super().__init__(device.kernel, module)
        self.b = DeviceBuilder(module)
        self.d = device

    # -- the arguments --------------------------------------------------------------------------

    def number(self) -> str:
        out = f"%n{self.at}"
        if self.d.indirect:
            out = self.b.load("i64", self.b.offset("%desc", str(8 * self.at)), 8)
        self.at += 1
        return out

    def _pointer(self, slot: int) -> str:
        return f"%p{slot}"

    # -- the whole ------------------------------------------------------------------------------

    def write_module(self, name: str) -> str:
        k, b, d = self.k, self.b, self.d
        self.count, self.chunk = self.number(), self.number()
        self.outer_sizes, self.whole = self._read_descriptor()
        for i, node in enumerate(k.nodes):
            if node.op == "const":
                self.scalars[i] = self._constant(node)
        self.fixed = dict(self.scalars)
        self.thread = b.special("tid.x")
        self.block = b.special("ctaid.x")
        self.threads = b.special("ntid.x")
        self.row_size = self.count
        if k.layout != FLAT:
            self.row_size = self.inner_sizes[0]
            for n in self.inner_sizes[1:]:
                self.row_size = b.emit(f"mul i64 {self.row_size}, {n}")
        {
            ELEMENTS: self._elements,
            WARPS: self._teams,
            BLOCKS: self._teams,
            COLUMNS: self._columns,
            TILES: self._tiles,
        }[d.mapping]()
        return b.finished(name, self.n_pointers, self.at, d.indirect, d.most_threads)

    # -- numbers --------------------------------------------------------------------------------

    def _divided(self, x: str, by: str) -> tuple[str, str]:
        return self.b.divided(x, by, self.d.wide)

    def _coordinates(self, unit: str, sizes: Sequence[str]) -> list[str]:
        return self.b.coordinates(unit, sizes, self.d.wide)

    def _row_indices(self, row: str) -> list[str]:
        return self._coordinates(row, self.outer_sizes) if self.k.outer else []

    def _tiles_of(self, size: str) -> str:
        return self.b.emit(f"lshr i64 {self.b.emit(f'add i64 {size}, {TILE - 1}')}, 5")

    # -- memory ---------------------------------------------------------------------------------

    def _in_row(self, i: int, base: str, j: str, indices: Sequence[str]) -> str:
        """Where it is at element j of the row, whose indices by loop are these."""
        a, b = self.k.accesses[i], self.b
        if a.kind in (KEEP, GATHERED):
            return b.offset(base, b.emit(f"mul i64 {j}, {itemsize(a.dtype)}"))
        strides = self.inner_strides[i]
        for index, stride in zip(indices[:-1], strides, strict=False):
            base = self._moved(a, base, b.emit(f"mul i64 {index}, {stride}"))
        if a.inner != ZERO:
            unit = 1 if a.kind == INDEX else itemsize(a.dtype)
            step = strides[-1] if a.inner == STRIDED else str(unit)
            base = self._moved(a, base, b.emit(f"mul i64 {indices[-1]}, {step}"))
        return base

    def _row_of(self, bases: Callable[[int], str], j: str) -> Callable[[int], str]:
        """The place of each access at element j of a row; each is computed once."""
        indices = self._coordinates(j, self.inner_sizes[1:])
        found: dict[int, str] = {}

        def at(i: int) -> str:
            if i not in found:
                found[i] = self._in_row(i, bases(i), j, indices)
            return found[i]

        return at

    def _get(self, i: int, pointer: str, width: int) -> str:
        """`width` elements from memory."""
        b, a = self.b, self.k.accesses[i]
        size, t = itemsize(a.dtype), stored(a.dtype, width)
        if a.inner == ZERO or width == 1:
            x = b.splat(t, b.load(stored(a.dtype, 1), pointer, size))
        elif a.inner == UNIT:
            x = b.load(t, pointer, size * width if self.d.aligned else size)
        else:
            x = "poison"
            for lane in range(width):
                one = b.load(stored(a.dtype, 1), pointer, size)
                x = b.emit(f"insertelement {t} {x}, {stored(a.dtype, 1)} {one}, i64 {lane}")
                pointer = b.offset(pointer, self.inner_strides[i][-1])
        return from_memory(b, a.dtype, width, x)

    def _put(self, x: str, i: int, pointer: str, width: int) -> None:
        b, a = self.b, self.k.accesses[i]
        size, t = itemsize(a.dtype), stored(a.dtype, width)
        x = to_memory(b, a.dtype, width, x)
        if a.inner == UNIT or width == 1:
            b.store(t, x, pointer, size * width if self.d.aligned else size)
            return
        for lane in range(width):
            one = b.emit(f"extractelement {t} {x}, i64 {lane}")
            b.store(stored(a.dtype, 1), one, pointer, size)
            pointer = b.offset(pointer, self.inner_strides[i][-1])

    def _counted(self, node: Any, start: str, width: int) -> str:
        """The numbers of `width` positions."""
        return self._as_number(self._counted_from(node.data, start, width), node.dtype, width)

    def _counted_from(self, i: int, start: str, width: int) -> str:
        """`width` positions from one on, as i64s."""
        b, a = self.b, self.k.accesses[i]
        if width == 1:
            return start
        t = vector("i64", width)
        x = b.splat(t, start)
        if a.inner != ZERO:
            step = self.inner_strides[i][-1] if a.inner == STRIDED else "1"
            lanes = "<" + ", ".join(f"i64 {n}" for n in range(width)) + ">"
            x = b.emit(f"add {t} {x}, {b.emit(f'mul {t} {lanes}, {b.splat(t, step)}')}")
        return x

    # -- values ---------------------------------------------------------------------------------

    def _begin_row(self, bases: Callable[[int], str]) -> None:
        """Forget the values of the row before, and load what does not vary within this one."""
        self.scalars = dict(self.fixed)
        self.row_bases = bases
        for i, node in enumerate(self.k.nodes):
            # What is padded waits for its padding, which may be computed.
            if not node.in_row and node.op in ("load", "index", "inside") and not node.ins:
                self.scalars[i] = self._load_scalar(node)

    def _load_scalar(self, node: Any) -> str:
        return self._found(node, self.scalars, 1, self.row_bases)

    def _values(
        self, needed: Sequence[int], width: int, at: Callable[[int], str]
    ) -> dict[int, str]:
        """Nodes at `width` elements of a row, by where the accesses are there."""
        env: dict[int, str] = {}
        for i in needed:
            node = self.k.nodes[i]
            if not node.in_row:
                env[i] = self.b.splat(ty(node.dtype, width), self.scalars[i])
            elif node.op == "apply":
                env[i] = self._apply(node, env, width)
            else:
                env[i] = self._found(node, env, width, at)
        return env

    def _found(self, node: Any, env: dict[int, str], width: int, at: Callable[[int], str]) -> str:
        """What is loaded or counted at `width` elements, or whether these are inside."""
        if node.op == "index":
            return self._counted(node, at(node.data), width)
        if node.op == "inside":
            return self._lies_inside(node, at(node.data[0]), width)
        pointer = at(node.data)  # before a branch, as others may use what is computed for it
        if not node.ins:
            return self._get(node.data, pointer, width)
        return self._get_padded(node, env, pointer, width)

    def _lies_inside(self, node: Any, start: str, width: int) -> str:
        """Are `width` positions inside of an array? They and its size need 32 bits at most."""
        b, t = self.b, vector("i32", width)
        access, size = node.data
        positions = self._counted_from(access, start, width)
        positions = b.cast("trunc", positions, vector("i64", width), t)
        size = b.cast("trunc", self.constants[size], "i64", "i32")
        return b.icmp("ult", t, positions, b.splat(t, size))

    def _get_padded(self, node: Any, env: dict[int, str], pointer: str, width: int) -> str:
        """`width` elements of an array that is padded."""
        b, t, other = self.b, ty(node.dtype, width), env[node.ins[0]]
        conditions = [self.scalars[i] for i in node.ins[1:] if not self.k.nodes[i].in_row]
        varying = [env[i] for i in node.ins[1:] if self.k.nodes[i].in_row]
        lanes: list[str] = []
        if varying:
            inside = self._all_of(varying, width)
            lanes = self._lanes_of(vector("i1", width), inside, width)

        def whole() -> str:
            return self._get(node.data, pointer, width)

        def apart() -> str:
            x, one, here = other, ty(node.dtype, 1), pointer
            step = str(itemsize(node.dtype))
            if self.k.accesses[node.data].inner == STRIDED:
                step = self.inner_strides[node.data][-1]
            for lane, inside in enumerate(lanes):
                get = partial(self._get, node.data, here, 1)
                holds = self._all_of([*conditions, inside], 1)
                y = b.either(holds, one, get, lambda: self.scalars[node.ins[0]])
                x = b.emit(f"insertelement {t} {x}, {one} {y}, i64 {lane}")
                here = b.offset(here, step)
            return x

        every = self._all_of([*conditions, *lanes], 1)
        return b.either(every, t, whole, apart if len(lanes) > 1 else lambda: other)

    def _may_write(self, i: int, outer: Sequence[str], inner: Sequence[str]) -> str:
        """Is this the first of the elements that share a place in memory?"""
        b = self.b
        strides = [*self.outer_strides[i], *self.inner_strides[i]]
        may = "true"
        for n, index in enumerate((*outer, *inner)):
            stride = strides[n] if n < len(strides) else ""
            first = b.icmp("eq", "i64", index, "0")
            if stride:
                first = b.emit(f"or i1 {first}, {b.icmp('ne', 'i64', stride, '0')}")
            elif self.k.accesses[i].inner != ZERO:
                continue
            may = b.emit(f"and i1 {may}, {first}")
        return may

    def _write_out(self, x: str, i: int, pointer: str, width: int, outer: Sequence[str],
                   inner: Sequence[str]) -> None:  # fmt: skip
        if i in self.d.once:
            with self.b.when(self._may_write(i, outer, inner)):
                self._put(x, i, pointer, width)
        else:
            self._put(x, i, pointer, width)

    # -- elements -------------------------------------------------------------------------------

    def _elements(self) -> None:
        k, b, lanes = self.k, self.b, self.d.lanes
        counters = [self.alloca("i64") for _ in range(2)]
        vectors = self.row_size
        if lanes > 1:
            more = b.emit(f"add i64 {vectors}, {lanes - 1}")
            vectors = b.emit(f"lshr i64 {more}, {lanes.bit_length() - 1}")
        total = vectors if k.layout == FLAT else b.emit(f"mul i64 {self.count}, {vectors}")
        first = b.emit(f"add i64 {b.emit(f'mul i64 {self.block}, {self.threads}')}, {self.thread}")
        step = b.emit(f"mul i64 {self.threads}, {b.special('nctaid.x')}")
        with Loop(b, counters[0], first, total, step) as v:
            outer: list[str] = []
            if k.layout == FLAT or not k.outer:
                q = v
            else:
                row, q = self._divided(v, vectors)
                outer = self._row_indices(row)
            if lanes == 1:
                self._elements_at(outer, q, 1)
            else:
                j = b.emit(f"shl i64 {q}, {lanes.bit_length() - 1}")
                if k.layout != FLAT:  # rows are whole vectors
                    self._elements_at(outer, j, lanes)
                else:
                    self._whole_or_rest(j, counters[1])

    def _whole_or_rest(self, j: str, counter: str) -> None:
        """A vector, or what is left at the end one by one."""
        b, lanes = self.b, self.d.lanes
        whole, rest, after = b.label("whole"), b.label("rest"), b.label("after")
        end = b.emit(f"add i64 {j}, {lanes}")
        b.cond_br(b.icmp("sle", "i64", end, self.row_size), whole, rest)
        b.place(whole)
        self._elements_at([], j, lanes)
        b.br(after)
        b.place(rest)
        with Loop(b, counter, j, self.row_size) as i:
            self._elements_at([], i, 1)
        b.br(after)
        b.place(after)

    def _elements_at(self, outer: Sequence[str], j: str, width: int) -> dict[int, str]:
        """What is loaded, computed and stored at `width` elements of a row from j; the values."""
        k = self.k
        base = cache(partial(self._row_base, indices=outer))
        self._begin_row(base)
        self._scalar_work(0)
        at = self._row_of(base, j)
        needed, _, stores = self._needed(0)
        env = self._values(needed, width, at)
        inner = self._coordinates(j, self.inner_sizes[1:])
        for n, a in stores:
            self._write_out(env[n], a, at(a), width, outer, inner)
        for n, a in k.stores:
            if not k.accesses[a].varies:
                self._write_out(self.scalars[n], a, base(a), 1, outer, inner)
        return env

    # -- rows -----------------------------------------------------------------------------------

    def _teams(self) -> None:
        k, b, lanes = self.k, self.b, self.d.lanes
        warps = self.d.mapping == WARPS
        reductions = [i for i, n in enumerate(k.nodes) if n.op == "reduce"]
        for i in reductions:
            self.slots[i] = self.alloca(ty(k.nodes[i].dtype, lanes))
        self.cells = {i: n * WARP * CELL for n, i in enumerate(reductions)}
        if reductions and not warps:
            b.reserve(len(reductions) * WARP * CELL)
        row_counter, self.counter = self.alloca("i64"), self.alloca("i64")
        self.lane = b.emit(f"and i64 {self.thread}, {WARP - 1}")
        if warps:
            linear = b.emit(f"mul i64 {self.block}, {self.threads}")
            team = b.emit(f"lshr i64 {b.emit(f'add i64 {linear}, {self.thread}')}, 5")
            self.member, self.size = self.lane, str(WARP)
        else:
            team, self.member, self.size = self.block, self.thread, self.threads
        begin = b.emit(f"mul i64 {team}, {self.chunk}")
        end = b.emit(f"add i64 {begin}, {self.chunk}")
        end = b.call_intrinsic("smin", "i64", end, self.count)
        row_size = self.row_size
        with Loop(b, row_counter, begin, end) as row:
            outer = self._row_indices(row)
            first = "0"
            if k.layout == RAGGED:
                piece = self.inner_sizes[0]
                first = b.emit(f"mul i64 {row}, {piece}")
                left = b.emit(f"sub i64 {self.whole}, {first}")
                self.row_size = b.call_intrinsic("smin", "i64", piece, left)
            bases = self._bases_of_row(row, begin, outer, first, row_size)
            if k.sums:
                start = b.emit(f"urem i64 {row}, {self.rows}") if k.led else row
                self.fresh = b.icmp("eq", "i64", start, "0" if k.led else begin)
            self._begin_row(bases.__getitem__)
            stages = 1 + max([0, *(n.stage for n in k.nodes)])
            for stage in range(stages):
                self._scalar_work(stage)
                self._team_loop(stage, bases.__getitem__)
            for n, a in k.stores:
                if not k.accesses[a].varies:
                    leads = b.icmp("eq", "i64", self.member, "0")
                    if a in self.d.once:
                        may = self._may_write(a, outer, [])
                        leads = b.emit(f"and i1 {leads}, {may}")
                    with b.when(leads):
                        self._put(self.scalars[n], a, bases[a], 1)
            if reductions and not warps and stages == 2:
                # The cells are written anew for the next row; with more stages than one another
                # stage's barrier lies between.
                b.barrier()

    def _bases_of_row(self, row: str, begin: str, outer: Sequence[str], first: str,
                      row_size: str) -> dict[int, str]:  # fmt: skip
        k, b = self.k, self.b
        bases: dict[int, str] = {}
        for i, a in enumerate(k.accesses):
            if a.kind in (KEEP, GATHERED):
                which, _ = self._divided(row if k.led else begin, self.rows)
                nbytes = b.emit(f"mul i64 {row_size}, {itemsize(a.dtype)}")
                bases[i] = b.offset(self.bases[i], b.emit(f"mul i64 {which}, {nbytes}"))
                continue
            bases[i] = self._from_element(i, self._row_base(i, outer), first)
        return bases

    def _team_loop(self, stage: int, bases: Callable[[int], str]) -> None:
        k, b, lanes = self.k, self.b, self.d.lanes
        needed, reductions, stores = self._needed(stage)
        sums = [(kind, n, a) for kind, n, a in k.sums if self._when(n) == stage]
        if not (reductions or stores or sums):
            return
        for i in reductions:
            t = ty(k.nodes[i].dtype, lanes)
            b.store(t, b.const(t, neutral(k.nodes[i].data, k.nodes[i].dtype)), self.slots[i])
        shift = lanes.bit_length() - 1
        first = b.emit(f"shl i64 {self.member}, {shift}")
        step = b.emit(f"shl i64 {self.size}, {shift}")
        with Loop(b, self.counter, first, self.row_size, step) as j:
            at = self._row_of(bases, j)
            env = self._values(needed, lanes, at)
            for n, a in stores:
                self._put(env[n], a, at(a), lanes)
            for kind, n, a in sums:
                dtype = k.accesses[a].dtype
                t = ty(dtype, lanes)
                fresh = b.splat(vector("i1", lanes), self.fresh)
                old = b.select(t, fresh, b.const(t, neutral(kind, dtype)), self._old(a, at, lanes))
                self._put(combine(b, kind, dtype, lanes, old, env[n]), a, at(a), lanes)
            for i in reductions:
                node = k.nodes[i]
                t = ty(node.dtype, lanes)
                acc = b.load(t, self.slots[i])
                new = combine(b, node.data, node.dtype, lanes, acc, env[node.ins[0]])
                b.store(t, new, self.slots[i])
        self._reduce(reductions)

    def _old(self, a: int, at: Callable[[int], str], lanes: int) -> str:
        """A sum over the rows before, or what does not matter where there was none."""
        b, dtype = self.b, self.k.accesses[a].dtype
        t, pointer = ty(dtype, lanes), at(a)
        nothing = b.const(t, 0)
        return b.either(self.fresh, t, lambda: nothing, lambda: self._get(a, pointer, lanes))

    def _reduce(self, reductions: Sequence[int]) -> None:
        """The results of a stage, known to every thread of the team."""
        k, b, lanes = self.k, self.b, self.d.lanes
        results: dict[int, str] = {}
        for i in reductions:
            node = k.nodes[i]
            x = b.load(ty(node.dtype, lanes), self.slots[i])
            x = fold(b, node.data, node.dtype, lanes, x)
            results[i] = self._over_warp(node.data, node.dtype, x)
        if reductions and self.d.mapping == BLOCKS:
            warp = b.emit(f"lshr i64 {self.thread}, 5")
            with b.when(b.icmp("eq", "i64", self.lane, "0")):
                for i in reductions:
                    self._put_cell(k.nodes[i].dtype, results[i], self.cells[i], warp)
            b.barrier()
            warps = b.emit(f"lshr i64 {self.threads}, 5")
            inside = b.icmp("slt", "i64", self.lane, warps)
            last = b.emit(f"sub i64 {warps}, 1")
            which = b.call_intrinsic("smin", "i64", self.lane, last)
            for i in reductions:
                node = k.nodes[i]
                t = ty(node.dtype, 1)
                x = self._get_cell(node.dtype, self.cells[i], which)
                x = b.select(t, inside, x, b.const(t, neutral(node.data, node.dtype)))
                results[i] = self._over_warp(node.data, node.dtype, x)
        for i in reductions:
            self.scalars[i] = rounded(b, k.nodes[i].dtype, 1, results[i])

    def _over_warp(self, kind: str, dtype: str, x: str) -> str:
        distance = WARP // 2
        while distance:
            y = self.b.exchanged(ty(dtype, 1), x, distance)
            x = combine(self.b, kind, dtype, 1, x, y)
            distance //= 2
        return x

    def _cell(self, start: int, number: str) -> str:
        b = self.b
        return b.in_shared(b.emit(f"add i64 {b.emit(f'mul i64 {number}, {CELL}')}, {start}"))

    def _put_cell(self, dtype: str, x: str, start: int, number: str) -> None:
        """A value from a register to shared memory; a bool takes a byte."""
        b, t = self.b, ty(dtype, 1)
        if t == "i1":
            x, t = b.emit(f"zext i1 {x} to i8"), "i8"
        b.store(t, x, self._cell(start, number), max(bits_of(t) // 8, 1))

    def _get_cell(self, dtype: str, start: int, number: str) -> str:
        b, t = self.b, ty(dtype, 1)
        if t == "i1":
            return b.icmp("ne", "i8", b.load("i8", self._cell(start, number), 1), "0")
        return b.load(t, self._cell(start, number), bits_of(t) // 8)

    # -- columns --------------------------------------------------------------------------------

    def _columns(self) -> None:
        k, b, lanes = self.k, self.b, self.d.lanes
        slots = [self.alloca(ty(k.accesses[a].dtype, lanes)) for _, _, a in k.sums]
        total = [self.alloca(ty(k.accesses[a].dtype, 1)) for _, _, a in k.sums]
        counter = self.alloca("i64")
        b.reserve(len(k.sums) * THREADS * lanes * CELL)
        columns = self.d.columns
        rows = THREADS // columns
        shift = (columns * lanes).bit_length() - 1
        more = b.emit(f"add i64 {self.row_size}, {columns * lanes - 1}")
        chunk, tile = self._divided(self.block, b.emit(f"lshr i64 {more}, {shift}"))
        x = b.emit(f"and i64 {self.thread}, {columns - 1}")
        y = b.emit(f"lshr i64 {self.thread}, {columns.bit_length() - 1}")
        first = b.emit(f"mul i64 {x}, {lanes}")
        column = b.emit(f"add i64 {b.emit(f'shl i64 {tile}, {shift}')}, {first}")
        inside = b.icmp("slt", "i64", column, self.row_size)
        begin = b.emit(f"mul i64 {chunk}, {self.chunk}")
        end = b.emit(f"add i64 {begin}, {self.chunk}")
        end = b.call_intrinsic("smin", "i64", end, self.count)
        for (kind, _, a), slot in zip(k.sums, slots, strict=True):
            t = ty(k.accesses[a].dtype, lanes)
            b.store(t, b.const(t, neutral(kind, k.accesses[a].dtype)), slot)
        start = b.select("i64", inside, b.emit(f"add i64 {begin}, {y}"), end)
        with Loop(b, counter, start, end, str(rows)) as row:
            env = self._elements_at(self._row_indices(row), column, lanes)
            for (kind, n, a), slot in zip(k.sums, slots, strict=True):
                dtype = k.accesses[a].dtype
                t = ty(dtype, lanes)
                b.store(t, combine(b, kind, dtype, lanes, b.load(t, slot), env[n]), slot)
        for s, ((_, _, a), slot) in enumerate(zip(k.sums, slots, strict=True)):
            dtype = k.accesses[a].dtype
            value = b.load(ty(dtype, lanes), slot)
            for lane, one in enumerate(self._lanes_of(ty(dtype, lanes), value, lanes)):
                self._put_cell(dtype, one, (s * lanes + lane) * THREADS * CELL, self.thread)
        b.barrier()
        leads = b.emit(f"and i1 {inside}, {b.icmp('eq', 'i64', y, '0')}")
        which, _ = self._divided(begin, self.rows)
        with b.when(leads):
            at = b.emit(f"add i64 {b.emit(f'mul i64 {which}, {self.row_size}')}, {column}")
            for s, (kind, _, a) in enumerate(k.sums):
                dtype = k.accesses[a].dtype
                base = b.offset(self.bases[a], b.emit(f"mul i64 {at}, {itemsize(dtype)}"))
                for lane in range(lanes):
                    cells = (s * lanes + lane) * THREADS * CELL
                    b.store(ty(dtype, 1), self._get_cell(dtype, cells, x), total[s])
                    with Loop(b, counter, b.emit(f"add i64 {x}, {columns}"), str(THREADS),
                              str(columns)) as cell:  # fmt: skip
                        other = self._get_cell(dtype, cells, cell)
                        new = combine(b, kind, dtype, 1, b.load(ty(dtype, 1), total[s]), other)
                        b.store(ty(dtype, 1), new, total[s])
                    value = b.load(ty(dtype, 1), total[s])
                    self._put(value, a, b.offset(base, str(lane * itemsize(dtype))), 1)

    def _lanes_of(self, t: str, x: str, width: int) -> list[str]:
        """The lanes of a value."""
        if width == 1:
            return [x]
        return [self.b.emit(f"extractelement {t} {x}, i64 {lane}") for lane in range(width)]

    # -- tiles ----------------------------------------------------------------------------------

    def _conditions(self, access: int) -> list[Any]:
        """The nodes "inside" that must hold where this access may read."""
        nodes = self.k.nodes
        (load,) = [n for n in nodes if n.op == "load" and n.data == access]
        return [nodes[i] for i in load.ins[1:]]

    def _tiles(self) -> None:
        k, b = self.k, self.b
        counter = self.alloca("i64")
        starts: dict[int, int] = {}
        total = 0
        for i in self.d.staged:
            starts[i] = total
            total += TILE * (TILE + 1) * itemsize(k.accesses[i].dtype)
            total = -(-total // 8) * 8
        b.reserve(total)
        height = self.outer_sizes[-1] if k.outer > 1 else self.count
        width = self.row_size
        unit, tile_x = self._divided(self.block, self._tiles_of(width))
        tile_y = unit
        others: list[str] = []
        if k.outer > 1:
            unit, tile_y = self._divided(unit, self._tiles_of(height))
            others = self._coordinates(unit, self.outer_sizes[:-1])
        left, top = b.emit(f"shl i64 {tile_x}, 5"), b.emit(f"shl i64 {tile_y}, 5")
        x = b.emit(f"and i64 {self.thread}, {TILE - 1}")
        y = b.emit(f"lshr i64 {self.thread}, 5")
        warps = str(THREADS // WARP)

        def cell(i: int, row: str, column: str) -> str:
            number = b.emit(f"add i64 {b.emit(f'mul i64 {row}, {TILE + 1}')}, {column}")
            offset = b.emit(f"mul i64 {number}, {itemsize(k.accesses[i].dtype)}")
            return b.in_shared(b.emit(f"add i64 {offset}, {starts[i]}"))

        # Neighbouring threads read along the last outer loop,
        with Loop(b, counter, y, str(TILE), warps) as s:
            row, column = b.emit(f"add i64 {top}, {x}"), b.emit(f"add i64 {left}, {s}")
            inside = b.emit(
                f"and i1 {b.icmp('slt', 'i64', row, height)}, {b.icmp('slt', 'i64', column, width)}"
            )
            with b.when(inside):

                def there(i: int) -> str:
                    return self._in_row(i, self._row_base(i, [*others, row]), column, [column])

                for i in self.d.staged:
                    t, size = stored(k.accesses[i].dtype, 1), itemsize(k.accesses[i].dtype)
                    holds = [self._lies_inside(c, there(c.data[0]), 1) for c in self._conditions(i)]
                    with b.when(self._all_of(holds, 1)) if holds else nullcontext():
                        b.store(t, b.load(t, there(i), size), cell(i, s, x), size)
        b.barrier()
        # and compute along the row.
        with Loop(b, counter, y, str(TILE), warps) as s:
            row, column = b.emit(f"add i64 {top}, {s}"), b.emit(f"add i64 {left}, {x}")
            inside = b.emit(
                f"and i1 {b.icmp('slt', 'i64', row, height)}, {b.icmp('slt', 'i64', column, width)}"
            )
            with b.when(inside):
                outer = [*others, row]
                base = cache(partial(self._row_base, indices=outer))
                self._begin_row(base)
                self._scalar_work(0)
                in_row = self._row_of(base, column)

                def at(i: int) -> str:
                    return cell(i, x, s) if i in starts else in_row(i)

                needed, _, stores = self._needed(0)
                env = self._values(needed, 1, at)
                for n, a in stores:
                    self._write_out(env[n], a, at(a), 1, outer, [column])
                for n, a in k.stores:
                    if not k.accesses[a].varies:
                        self._write_out(self.scalars[n], a, base(a), 1, outer, [column])
