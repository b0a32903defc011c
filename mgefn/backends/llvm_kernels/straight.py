"""Loops over few numbers: which are written as one straight piece of code, and how.

A step of a loop of kernels costs some ten nanoseconds for each of them, whatever little it does.
Where the body (and the condition) is a few operations on a few numbers, the whole loop is one
kernel of codegen/straight.py. What moves elements is a table of their numbers, which NumPy works
out from the shapes. Large constants and carries stay in memory, where windows of them are read and
written (stored.py).
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.backends.llvm_kernels import stored as stored_arrays
from mgefn.backends.llvm_kernels.elementwise import Elementwise, convert
from mgefn.backends.llvm_kernels.stored import Stored, stored
from mgefn.compiler.codegen.builder import Builder
from mgefn.compiler.codegen.loops import combine
from mgefn.compiler.codegen.straight import Unfit, Value, Writer, at_least
from mgefn.compiler.codegen.values import (
    ALL,
    FLOATS,
    HALVES,
    INTEGERS,
    Operand,
    held,
    rounded,
    ty,
)
from mgefn.compiler.native import dtype_name, row_of, vector_bytes
from mgefn.compiler.passes import optimized
from mgefn.compiler.reductions import REDUCTIONS
from mgefn.compiler.steps import Fixed
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal
from mgefn.ops.indexing.gather import GatherScatterMode

DTYPES = ALL | HALVES.keys()
ELEMENTS = 64  # of a value, at most
CARRIED = 128  # elements of the carry, at most
EQUATIONS = 400  # at most, those of inner programs included
INSTRUCTIONS = 2200  # of the text, by which compiling takes no longer than that of several kernels
PLACES = 8  # where a slice may begin, at most
UNROLLED = 16  # rounds of a loop inside of the loop, at most
BOTH = 200  # instructions of all branches of a cond, of which only one is wanted

Rule = Callable[["_Whole", Eqn, Sequence[Value]], list[Value]]


class ManyPlaces(Unfit):
    """An array in registers is read or written where only the round knows."""


class Target(NamedTuple):
    """What loops are written for.

    Attributes:
        writer: makes a writer of it.
        finish: gives the kernel of what one has written.
        fits: may carries of these types lie in registers?
    """

    writer: Callable[[], Any]
    finish: Callable[[Any], Any]
    fits: Callable[[Sequence[Any]], bool]


CPU = Target(
    lambda: Writer(vector_bytes(), INSTRUCTIONS),
    Writer.finish,
    lambda carry: sum(a.size for a in carry) <= CARRIED,
)


class Loop(NamedTuple):
    """A kernel with what its pointers point to.

    Attributes:
        kernel: of the target's kind; a Straight on the CPU.
        slots: ("const", i), ("carry", i), ("out", i), ("x", i), ("y", i), ("more", 0), or an array
            that belongs to the code.
        numbers: the descriptor.
        instructions: of the text, roughly.
        work: arithmetic operations of a round.
        in_place: carries that lie in the outputs from the beginning; no pointer is their "carry".
    """

    kernel: Any
    slots: list[Any]
    numbers: tuple[int, ...]
    instructions: int
    work: float
    in_place: tuple[int, ...]


def scan_loop(params: dict[str, Any], target: Target = CPU) -> Loop | None:
    """The loop of a scan; rounds are counted from the first slices of xs and ys that it is given.

    None where the old way is the better or the only one.
    """
    closed, n, k = params["jaxpr"], params["num_consts"], params["num_carry"]
    sign = -1 if params["reverse"] else 1
    return _made(target, lambda w, most: _scan(w, most, closed, n, k, sign), [closed], n, k)


def while_loop(params: dict[str, Any], target: Target = CPU) -> Loop | None:
    """The loop of a `while`: it ends where the condition does not hold, and leaves it in memory."""
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    k = len(body.in_avals) - m
    return _made(target, lambda w, most: _while(w, most, test, body, n, m), [test, body], m, k)


def _made(
    target: Target, write: Callable[[Writer, int], None], programs: Sequence[ClosedJaxpr],
    n: int, k: int,
) -> Loop | None:  # fmt: skip
    """What `write` writes; `n` and `k` count constants and carries of the last program."""
    body = programs[-1]
    carry = body.in_avals[n : n + k]
    if not all(_small(a) for a in (*body.in_avals[n + k :], *body.out_avals[k:])):
        return None
    if any(dtype_name(a) not in DTYPES for a in carry):
        return None
    if sum(len(p.jaxpr.eqns) for p in programs) > EQUATIONS:
        return None
    for most in (ELEMENTS, PLACES):  # elements of a carry or a constant that is in registers
        if not target.fits([a for a in carry if a.size <= most]):
            continue
        w = target.writer()
        try:
            write(w, most)
        except ManyPlaces:
            continue
        except Unfit:
            return None
        lines = len(w.b.lines)
        in_place = tuple(i for i, a in enumerate(carry) if a.size > most)
        return Loop(target.finish(w), w.slots, tuple(w.numbers), lines, w.work, in_place)
    return None


def _small(aval: Any) -> bool:
    return 0 < aval.size <= ELEMENTS and dtype_name(aval) in DTYPES


def _kept(w: Writer, slot: Any, aval: Any, most: int, buffer: int = -1) -> Value | Stored:
    """What is there before the loop: in registers, or in memory where it is large."""
    name = dtype_name(aval)
    if name not in DTYPES or aval.size == 0:
        raise Unfit
    pointer = w.pointer(slot)
    if aval.size <= most:
        return w.load(pointer, name, aval.size, fixed=True)
    return stored(pointer, aval, buffer)


def _constants(w: Writer, avals: Sequence[Any], most: int) -> list[Value | Stored]:
    return [_kept(w, ("const", i), a, most) for i, a in enumerate(avals)]


def _begun(w: Writer, avals: Sequence[Any], most: int) -> list[Value | Stored]:
    """The loop is begun: the carry of a round."""
    first = [
        _kept(w, ("carry" if a.size <= most else "out", i), a, most, i) for i, a in enumerate(avals)
    ]
    values = iter(w.begin([x for x in first if isinstance(x, Value)]))
    return [x if isinstance(x, Stored) else next(values) for x in first]


def _next(
    reader: _Whole, carry: Sequence[Value | Stored], outs: Sequence[Value | Stored]
) -> list[Value]:
    """What follows the carry that is in registers; what is in memory must be there already."""
    values: list[Value] = []
    for i, (x, y) in enumerate(zip(carry, outs, strict=True)):
        if isinstance(x, Value):
            values.append(reader.registers(y))
        elif not (isinstance(y, Stored) and y.buffer == i and y.is_whole and reader.is_new(y)):
            raise Unfit
    return values


def _scan(w: Writer, most: int, closed: ClosedJaxpr, n: int, k: int, sign: int) -> None:
    avals = closed.in_avals
    reader = _Whole(w, most)
    consts = _constants(w, avals[:n], most)
    carry = _begun(w, avals[n : n + k], most)
    xs = [
        w.load(_slice(w, ("x", i), sign * a.nbytes), a.dtype.name, a.size)
        for i, a in enumerate(avals[n + k :])
    ]
    outs = reader.read(closed, [*consts, *carry, *xs])
    for i, (a, y) in enumerate(zip(closed.out_avals[k:], outs[k:], strict=True)):
        w.store(_slice(w, ("y", i), sign * a.nbytes), reader.registers(y))
    b = w.b
    left = _next(reader, carry, outs[:k])
    following = w.follow(left)
    more = b.icmp("slt", "i64", following[0], "%end")
    block, done = b.block, b.label("done")
    b.cond_br(more, w.head, done)
    w.end(following, block)
    b.place(done)
    _leave(w, carry, left)


def _while(w: Writer, most: int, test: ClosedJaxpr, body: ClosedJaxpr, n: int, m: int) -> None:
    b, reader = w.b, _Whole(w, most)
    consts = _constants(w, [*test.in_avals[:n], *body.in_avals[:m]], most)
    carry = _begun(w, body.in_avals[m:], most)
    more = reader.registers(reader.read(test, [*consts[:n], *carry])[0])
    holds = w.scalar(more.dtype, more.refs[0])
    on = b.emit(f"and i1 {holds}, {b.icmp('slt', 'i64', '%round', '%end')}")
    inside, done = b.label("round"), b.label("done")
    b.cond_br(on, inside, done)
    b.place(inside)
    with w.branch():
        outs = reader.read(body, [*consts[n:], *carry])
        following = w.follow(_next(reader, carry, outs))
        block = b.block
        b.br(w.head)
        w.end(following, block)
    b.place(done)
    _leave(w, carry, [x for x in carry if isinstance(x, Value)])
    w.store(w.pointer(("more", 0)), more)


def _slice(w: Writer, slot: tuple[str, int], stride: int) -> str:
    """The pointer to this round's slice."""
    return w.b.offset(w.pointer(slot), w.b.emit(f"mul i64 %round, {stride}"))


def _leave(w: Writer, carry: Sequence[Value | Stored], values: Sequence[Value]) -> None:
    """Store what is in registers of the carry."""
    numbers = [i for i, x in enumerate(carry) if isinstance(x, Value)]
    for i, v in zip(numbers, values, strict=True):
        w.store(w.pointer(("out", i)), v)


def applied(w: Writer, row: Elementwise, eqn: Eqn, output: int, ins: Sequence[Value]) -> Value:
    """An output of an elementwise equation, of its operands."""
    params = eqn.params if row.outputs == 1 else {**eqn.params, "output": output}
    dtype = eqn.out_binders[output].aval.dtype.name
    sources = [held(x.dtype) for x in ins]

    def emit(b: Builder, width: int, names: Sequence[str]) -> str:
        operands = [Operand(n, d) for n, d in zip(names, sources, strict=True)]
        return rounded(b, dtype, width, row.emit(b, held(dtype), width, operands, params))

    return w.apply(emit, dtype, ins, row.cost)


# -- programs -------------------------------------------------------------------------------------


class Reader:
    """What those that write programs, an equation after the other, have in common."""

    def __init__(self, w: Writer):
        self.w = w
        self.equations = 0

    def held_by(self, eqn: Eqn) -> ClosedJaxpr | None:
        """Count an equation; the program in its place where it is a call."""
        self.equations += 1
        if self.equations > EQUATIONS:
            raise Unfit
        if eqn.primitive.inlined is None:
            return None
        closed = eqn.primitive.inlined(eqn.params)
        if closed is None:
            raise Unfit
        return closed

    def literal(self, a: Literal) -> Value:
        name = dtype_name(a.aval)
        if name not in DTYPES:
            raise Unfit
        return Value(name, [self.w.constant(name, a.value._data.item())])


class _Whole(Reader):
    """Writes programs of small arrays, all elements of each."""

    def __init__(self, w: Writer, most: int):
        super().__init__(w)
        self.most = most  # elements of what is in registers from the beginning
        self.versions: dict[int, int] = {}  # how often a carry in memory has been written

    def is_new(self, x: Stored) -> bool:
        """Is an array in memory still what it was when it was made?"""
        return x.buffer < 0 or self.versions.get(x.buffer, 0) == x.version

    def registers(self, x: Value | Stored) -> Value:
        """All elements of a small array."""
        if isinstance(x, Value):
            return x
        if x.size > ELEMENTS or not self.is_new(x):
            raise Unfit
        return stored_arrays.read(self.w, x, x.shape)

    def read(self, closed: ClosedJaxpr, args: Sequence[Value | Stored]) -> list[Value | Stored]:
        plain = optimized(closed)
        jaxpr = plain.jaxpr
        env: dict[Any, Value | Stored] = dict(zip(jaxpr.in_binders, args, strict=True))
        for v, c in zip(jaxpr.const_binders, plain.consts, strict=True):
            if dtype_name(v.aval) in INTEGERS and _small(v.aval):  # places, mostly
                env[v] = self.w.index(v.aval.dtype.name, c._data.reshape(-1).tolist())
            else:
                env[v] = _kept(self.w, Fixed(c._data), v.aval, self.most)
        for eqn in _writes_late(jaxpr.eqns):
            outs = self.outputs(eqn, [self.value(env, a) for a in eqn.inputs])
            env.update(zip(eqn.out_binders, outs, strict=True))
        return [self.value(env, a) for a in jaxpr.outs]

    def value(self, env: dict[Any, Value | Stored], a: Atom) -> Value | Stored:
        return self.literal(a) if isinstance(a, Literal) else env[a]

    def outputs(self, eqn: Eqn, ins: Sequence[Value | Stored]) -> Sequence[Value | Stored]:
        p, called = eqn.primitive, self.held_by(eqn)
        if called is not None:
            return self.read(called, ins)
        if ins and isinstance(ins[0], Stored):
            found = self.in_memory(eqn, ins[0], ins[1:])
            if found is not None:
                return [found]
        elif p.name in _WRITES and p.name not in _RULES:
            raise ManyPlaces
        values = [self.registers(x) for x in ins]
        if not all(_small(v.aval) for v in eqn.out_binders):
            raise Unfit
        rule = _RULES.get(p.name)
        if rule is not None:
            return rule(self, eqn, values)
        row = row_of(eqn)
        if row.__class__ is frozenset:
            return [self.reduced(eqn, values[0])]
        if not isinstance(row, Elementwise):
            raise Unfit
        return [self.elementwise(row, eqn, i, values) for i in range(row.outputs)]

    def in_memory(
        self, eqn: Eqn, x: Stored, others: Sequence[Value | Stored]
    ) -> Value | Stored | None:
        """A view of an array in memory, a window of it, or the array with one written."""
        name, p = eqn.primitive.name, eqn.params
        if name in stored_arrays.VIEWS:
            return stored_arrays.VIEWS[name](x, p, eqn.out_binders[0].aval.shape)
        if name == "dynamic_slice" and math.prod(p["slice_sizes"]) <= ELEMENTS:
            starts = [self.registers(i) for i in others]
            if not self.is_new(x):
                raise Unfit
            return stored_arrays.read(self.w, x, p["slice_sizes"], starts)
        if name not in _WRITES or x.buffer < 0:
            return None
        window = _window(eqn, [self.registers(i) for i in others])
        if window is None or not (x.is_whole and self.is_new(x)):
            raise Unfit
        written = stored_arrays.write(self.w, x, *window, _WRITES[name])
        self.versions[x.buffer] = written.version
        return written

    def elementwise(self, row: Elementwise, eqn: Eqn, output: int, ins: Sequence[Value]) -> Value:
        value = applied(self.w, row, eqn, output, ins)
        return _whole(value, eqn.out_binders[output].aval.size)

    def reduced(self, eqn: Eqn, x: Value) -> Value:
        """Halves upon halves; floats of 16 bits are rounded at the end."""
        kind, axes = REDUCTIONS[eqn.primitive.name], eqn.params["axes"]
        at = _numbers(eqn.inputs[0].aval.shape)
        kept = [i for i in range(at.ndim) if i not in axes]
        at = at.transpose(*axes, *kept).reshape(-1, eqn.out_binders[0].aval.size)
        left = [Value(x.dtype, [x.refs[i] for i in row]) for row in at]
        return self.folded(kind, x.dtype, left)

    def folded(self, kind: str, dtype: str, left: list[Value]) -> Value:
        def emit(b: Builder, width: int, names: Sequence[str]) -> str:
            return combine(b, kind, held(dtype), width, *names)

        if len(left) == 1:
            return left[0]
        wide, size = held(dtype), len(left[0].refs)
        left = [Value(wide, v.refs) for v in left]
        while len(left) > 1:
            half = len(left) // 2
            pairs = left[:half], left[len(left) - half :]
            x, y = (Value(wide, [r for v in vs for r in v.refs]) for vs in pairs)
            sums = self.w.apply(emit, wide, [x, y]).refs
            folded = [Value(wide, sums[i : i + size]) for i in range(0, len(sums), size)]
            left = [*folded, *left[half : len(left) - half]]
        return self.as_dtype(left[0], dtype)

    def as_dtype(self, x: Value, dtype: str) -> Value:
        """A value in another dtype."""
        if x.dtype == dtype:
            return x

        def emit(b: Builder, width: int, names: Sequence[str]) -> str:
            y = convert(b, names[0], held(x.dtype), held(dtype), width)
            return rounded(b, dtype, width, y)

        return self.w.apply(emit, dtype, [x])


# What writes a window, and how that is combined with what is there.
_WRITES = {
    "dynamic_update_slice": "",
    "scatter": "",
    "scatter_add": "sum",
    "scatter_mul": "prod",
    "scatter_min": "min",
    "scatter_max": "max",
}


def _writes_late(eqns: Sequence[Eqn]) -> Sequence[Eqn]:
    """An order in which what reads an array comes before what writes it, where it can."""
    if not any(e.primitive.name in _WRITES for e in eqns):
        return eqns
    users: dict[Any, list[int]] = {}
    waits = [0] * len(eqns)  # operands that are not made yet
    made = {v for e in eqns for v in e.out_binders}
    for i, e in enumerate(eqns):
        for a in e.inputs:
            if a in made:
                users.setdefault(a, []).append(i)
                waits[i] += 1
    # Of each kind what is ready: first all that writes nothing.
    ready = [collections.deque[Eqn](), collections.deque[Eqn]()]
    for e, n in zip(eqns, waits, strict=True):
        if n == 0:
            ready[e.primitive.name in _WRITES].append(e)
    out: list[Eqn] = []
    while ready[0] or ready[1]:
        e = (ready[0] or ready[1]).popleft()
        out.append(e)
        for i in (i for v in e.out_binders for i in users.get(v, ())):
            waits[i] -= 1
            if waits[i] == 0:
                ready[eqns[i].primitive.name in _WRITES].append(eqns[i])
    return out


def _window(
    eqn: Eqn, values: Sequence[Value]
) -> tuple[Sequence[int], dict[int, Value], Value, bool] | None:
    """The only window that is written: size, starts, elements, and whether it is moved inside."""
    shape = eqn.inputs[0].aval.shape
    if eqn.primitive.name == "dynamic_update_slice":
        update, *starts = values
        return eqn.inputs[1].aval.shape, dict(enumerate(starts)), update, True
    indices, update = values
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    axes = numbers.scatter_dims_to_operand_dims
    if numbers.operand_batching_dims or len(indices.refs) != len(axes):
        return None
    update_shape = eqn.inputs[2].aval.shape
    sizes = iter([update_shape[i] for i in numbers.update_window_dims])
    size = [1 if i in numbers.inserted_window_dims else next(sizes) for i in range(len(shape))]
    if math.prod(size) != len(update.refs):
        return None
    starts = {axis: Value(indices.dtype, [r]) for axis, r in zip(axes, indices.refs, strict=True)}
    return size, starts, update, mode is GatherScatterMode.CLIP


def _numbers(shape: Sequence[int]) -> np.ndarray:
    """The elements' numbers in row-major order."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _whole(x: Value, size: int) -> Value:
    """A value of one element as one of `size`."""
    return x if len(x.refs) == size else Value(x.dtype, x.refs * size)


def _taken(x: Value, at: np.ndarray) -> Value:
    """The elements with these numbers."""
    return Value(x.dtype, [x.refs[i] for i in at.reshape(-1).tolist()])


def _moves(of: Callable[[np.ndarray, dict[str, Any], Eqn], np.ndarray]) -> Rule:
    """The rule of a primitive that moves the elements of its operand."""

    def rule(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        return [_taken(ins[0], of(_numbers(eqn.inputs[0].aval.shape), eqn.params, eqn))]

    return rule


def _broadcast(at: np.ndarray, params: dict[str, Any], eqn: Eqn) -> np.ndarray:
    shape = eqn.out_binders[0].aval.shape
    whole = [1] * len(shape)
    for n, d in zip(at.shape, params["broadcast_dimensions"], strict=True):
        whole[d] = n
    return np.broadcast_to(at.reshape(whole), shape)


def _slice_of(at: np.ndarray, params: dict[str, Any], eqn: Eqn) -> np.ndarray:
    bounds = (params["start_indices"], params["limit_indices"], params["strides"])
    return at[tuple(slice(i, j, k) for i, j, k in zip(*bounds, strict=True))]


def _concatenate(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    parts, refs = [], []
    for a, x in zip(eqn.inputs, ins, strict=True):
        parts.append(_numbers(a.aval.shape) + len(refs))
        refs += x.refs
    at = np.concatenate(parts, eqn.params["dimension"])
    return [_taken(Value(ins[0].dtype, refs), at)]


def _pad(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    at = _numbers(eqn.inputs[0].aval.shape)
    for axis, (low, high, interior) in enumerate(eqn.params["padding_config"]):
        at = np.moveaxis(at, axis, 0)
        apart = np.full((max(0, len(at) * (interior + 1) - interior), *at.shape[1:]), -1)
        apart[:: interior + 1] = at
        apart = apart[max(0, -low) : len(apart) - max(0, -high)]
        edges = [np.full((max(0, n), *at.shape[1:]), -1) for n in (low, high)]
        at = np.moveaxis(np.concatenate([edges[0], apart, edges[1]]), 0, axis)
    x, fill = ins[0], ins[1].refs[0]
    return [Value(x.dtype, [x.refs[i] if i >= 0 else fill for i in at.reshape(-1).tolist()])]


def _iota(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    aval = eqn.out_binders[0].aval
    at = np.indices(aval.shape)[eqn.params["dimension"]]
    return [reader.w.index(aval.dtype.name, at.reshape(-1).tolist())]


def _dot_general(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """A sum of products in order; floats of 16 bits are rounded at the end."""
    x, y = ins
    (x_sum, y_sum), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    dtype = eqn.out_binders[0].aval.dtype.name
    if (dtype in FLOATS or dtype in HALVES) != (x.dtype in FLOATS or x.dtype in HALVES):
        raise Unfit  # sums of integers are exact before they are converted
    if (dtype == "bool") != (x.dtype == "bool"):
        raise Unfit
    tables = []
    for a, batch, contracted in zip(eqn.inputs, (x_batch, y_batch), (x_sum, y_sum), strict=True):
        at = _numbers(a.aval.shape)
        free = [i for i in range(at.ndim) if i not in batch and i not in contracted]
        at = at.transpose(*contracted, *batch, *free)
        n, m = len(contracted), len(contracted) + len(batch)
        sizes = [int(np.prod(s, dtype=int)) for s in (at.shape[:n], at.shape[n:m], at.shape[m:])]
        tables.append(at.reshape(sizes))
    x_at, y_at = tables
    wide = held(dtype)
    left = reader.as_dtype(Value(held(x.dtype), x.refs), wide)
    right = reader.as_dtype(Value(held(y.dtype), y.refs), wide)

    def fma(b: Builder, width: int, names: Sequence[str]) -> str:
        t = ty(wide, width)
        if wide in FLOATS:
            return b.fma(t, *names)
        product = combine(b, "prod", wide, width, *names[:2])
        return combine(b, "sum", wide, width, product, names[2])

    def multiply(b: Builder, width: int, names: Sequence[str]) -> str:
        return combine(b, "prod", wide, width, *names)

    total: Value | None = None
    for i in range(len(x_at)):
        shape = (x_at.shape[1], x_at.shape[2], y_at.shape[2])
        a = np.broadcast_to(x_at[i][:, :, None], shape)
        c = np.broadcast_to(y_at[i][:, None, :], shape)
        operands = [_taken(left, a), _taken(right, c)]
        if total is None:
            total = reader.w.apply(multiply, wide, operands)
        else:
            total = reader.w.apply(fma, wide, [*operands, total])
    if total is None:
        raise Unfit
    return [reader.as_dtype(total, dtype)]


def _choose(reader: _Whole, where: Value, yes: Value, no: Value) -> Value:
    def emit(b: Builder, width: int, names: Sequence[str]) -> str:
        return b.select(ty(held(yes.dtype), width), *names)

    return reader.w.apply(emit, yes.dtype, [where, yes, no])


def _reached(reader: _Whole, start: Value, most: int) -> tuple[int, list[Value]]:
    """A place, and for each after it up to `most`: does a start lie there or beyond?"""
    name, _ = start.refs[0]
    if name[0] != "%":
        return min(max(int(name), 0), most), []
    if most > PLACES:
        raise ManyPlaces
    w = reader.w
    return 0, [
        w.apply(at_least(start.dtype, place), "bool", [start]) for place in range(1, most + 1)
    ]


def _dynamic_slice(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, *starts = ins
    shape = list(eqn.inputs[0].aval.shape)
    for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
        lines = np.moveaxis(_numbers(shape), axis, 0)
        first, further = _reached(reader, start, shape[axis] - size)
        parts = [
            _taken(x, np.moveaxis(lines[place : place + size], 0, axis))
            for place in range(first, first + len(further) + 1)
        ]
        x = parts[0]
        for there, part in zip(further, parts[1:], strict=True):
            x = _choose(reader, there, part, x)
        shape[axis] = size
    return [x]


def _dynamic_update_slice(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, update, *starts = ins
    shape, size = (eqn.inputs[i].aval.shape for i in (0, 1))
    at = _numbers(shape)
    places = [
        _reached(reader, start, n - m) for start, n, m in zip(starts, shape, size, strict=True)
    ]
    moving = [i for i, (_, further) in enumerate(places) if further]
    if len(moving) > 1:
        raise ManyPlaces  # as many choices as there are pairs

    def written(more: int) -> Value:
        firsts = [n + more * (i in moving) for i, (n, _) in enumerate(places)]
        refs = list(x.refs)
        where = at[tuple(slice(n, n + m) for n, m in zip(firsts, size, strict=True))]
        for i, ref in zip(where.reshape(-1).tolist(), update.refs, strict=True):
            refs[i] = ref
        return Value(x.dtype, refs)

    found = written(0)
    for axis in moving:
        for more, there in enumerate(places[axis][1], 1):
            found = _choose(reader, there, written(more), found)
    return [found]


def _cumulative(kind: str) -> Rule:
    def rule(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        (x,) = ins
        if x.dtype in HALVES or x.dtype == "bool" or row_of(eqn) is None:
            raise Unfit
        axis, backward = eqn.params["axis"], eqn.params["reverse"]
        lines = np.moveaxis(_numbers(eqn.inputs[0].aval.shape), axis, 0)

        def emit(b: Builder, width: int, names: Sequence[str]) -> str:
            return combine(b, kind, x.dtype, width, *names)

        # Sums of the last 1, 2, 4, ... elements, which is few operations, each on all lines.
        order = lines[::-1] if backward else lines
        refs, apart = list(x.refs), 1
        while apart < len(order):
            left, right = (_taken(Value(x.dtype, refs), i) for i in (order[:-apart], order[apart:]))
            sums = reader.w.apply(emit, x.dtype, [left, right]).refs
            refs = list(refs)
            for i, ref in zip(order[apart:].reshape(-1).tolist(), sums, strict=True):
                refs[i] = ref
            apart *= 2
        return [Value(x.dtype, refs)]

    return rule


def _cond(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """All branches, and a choice among what they give."""
    index, *operands = ins
    if index.dtype != "int32":
        raise Unfit
    before = len(reader.w.b.lines)
    results = [
        [reader.registers(x) for x in reader.read(b, operands)] for b in eqn.params["branches"]
    ]
    if len(reader.w.b.lines) - before > BOTH:
        raise Unfit
    first, further = _reached(reader, index, len(results) - 1)
    found = results[first]
    for there, result in zip(further, results[first + 1 :], strict=False):
        found = [_choose(reader, there, y, n) for y, n in zip(result, found, strict=True)]
    return found


def _unrolled(reader: _Whole, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """A loop of few rounds inside of the loop, one round after the other."""
    p = eqn.params
    length, n, k = p["length"], p["num_consts"], p["num_carry"]
    if not 0 < length <= UNROLLED:
        raise Unfit
    consts, carry, xs = ins[:n], list(ins[n : n + k]), ins[n + k :]
    ys: dict[int, list[Value]] = {}
    for i in reversed(range(length)) if p["reverse"] else range(length):
        slices = []
        for x in xs:
            size = len(x.refs) // length
            slices.append(Value(x.dtype, x.refs[i * size : (i + 1) * size]))
        outs = reader.read(p["jaxpr"], [*consts, *carry, *slices])
        outs = [reader.registers(x) for x in outs]
        carry, ys[i] = outs[:k], outs[k:]
    rows = zip(*(ys[i] for i in range(length)), strict=True)
    return [*carry, *(Value(row[0].dtype, [r for y in row for r in y.refs]) for row in rows)]


_RULES: dict[str, Rule] = {
    "broadcast_in_dim": _moves(_broadcast),
    "reshape": _moves(lambda at, params, eqn: at),
    "transpose": _moves(lambda at, params, eqn: at.transpose(params["permutation"])),
    "slice": _moves(_slice_of),
    "rev": _moves(lambda at, params, eqn: np.flip(at, params["dimensions"])),
    "concatenate": _concatenate,
    "pad": _pad,
    "iota": _iota,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "cumsum": _cumulative("sum"),
    "cumprod": _cumulative("prod"),
    "cummax": _cumulative("max"),
    "cummin": _cumulative("min"),
    "cond": _cond,
    "scan": _unrolled,
}
