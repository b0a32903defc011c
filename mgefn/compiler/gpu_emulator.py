"""Runs GPU kernels on the CPU, thread by thread, and finds what a GPU would only sometimes show.

What runs is the text that becomes PTX. Its loads and stores, its intrinsics of `llvm.nvvm` and its
atomics are rewritten line by line, all else is left as it stands, and the kernel becomes a
coroutine (of LLVM's), one for each thread. A thread runs until it needs others: at a barrier, until
all threads of the block are there; at a shuffle, until those of its warp are.

Every access to memory is checked to lie within what the launch may touch and to be aligned, and is
written down. From that record, once the launch is done, come races: two threads at the same bytes,
one of them writing and not both by atomics, with no barrier between. Threads of different blocks
never have one between them. Barriers and shuffles that only some threads reach are found too, and
reads of shared memory that nobody has written.

Not modelled: the order within a warp (threads run one after the other, which is one of the orders
allowed), caches, the memory model of atomics beyond that they are atomic, and time.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen import engine
from mgefn.compiler.codegen.builder import width_of
from mgefn.compiler.gpu_launch import NAME, Launch, text_of
from mgefn.compiler.steps import Fixed, NativeStep, Scratch
from mgefn.errors import ArgumentError

WARP = 32  # threads
MOST_THREADS = 1024  # threads of a block
FRAME_BYTES = 1 << 25  # bytes for the variables of a block's threads
LOGGED = 1 << 21  # accesses of a launch that are written down
FILL = 0xA5  # the byte that shared memory holds before it is written

READ, WRITE, ATOMIC = 0, 1, 2
DONE, BARRIER, SHUFFLE = 0, 1, 2

# Words of the context, which the rewritten text and the scheduler share.
_WORDS = (
    "thread", "block", "threads", "blocks", "frame", "frame_end", "states", "slots", "counts",
    "ranges", "range_count", "log", "logged", "log_size", "faults", "fault_address", "fault_bytes",
    "fault_kind", "fault_thread", "fault_block", "dummy", "epoch", "arguments", "handles",
    "frame_faults",
)  # fmt: skip
_WORD = {name: i for i, name in enumerate(_WORDS)}


class Record(NamedTuple):
    """An access that was written down, column by column."""

    address: np.ndarray
    nbytes: np.ndarray
    kind: np.ndarray
    line: np.ndarray  # of the text
    thread: np.ndarray
    block: np.ndarray
    epoch: np.ndarray  # barriers that the block had passed


# -- the text -------------------------------------------------------------------------------------


def _word(name: str, result: str, ty: str = "i64") -> list[str]:
    """Instructions that load a word of the context."""
    return [
        f"  {result}.c = load ptr, ptr @gpu.context",
        f"  {result}.p = getelementptr i64, ptr {result}.c, i64 {_WORD[name]}",
        f"  {result} = load {ty}, ptr {result}.p",
    ]


def _set_word(name: str, value: str, temporary: str) -> list[str]:
    return [
        f"  {temporary}.c = load ptr, ptr @gpu.context",
        f"  {temporary}.p = getelementptr i64, ptr {temporary}.c, i64 {_WORD[name]}",
        f"  store i64 {value}, ptr {temporary}.p",
    ]


def _support(shared: int, arguments: Sequence[str]) -> str:
    """The functions that rewritten kernels call, and those that the scheduler calls."""
    lines = ["@gpu.context = internal global ptr null"]
    for register, name in (
        ("tid.x", "thread"), ("ctaid.x", "block"), ("ntid.x", "threads"), ("nctaid.x", "blocks"),
    ):  # fmt: skip
        lines += [f"define internal i32 @gpu.{register}() {{", *_word(name, "%w")]
        lines += ["  %x = trunc i64 %w to i32", "  ret i32 %x", "}"]
    # Memory for a coroutine's variables.
    lines += [
        "define internal ptr @gpu.frame(i64 %size) {",
        *_word("frame", "%at"),
        *_word("frame_end", "%end"),
        "  %more = add i64 %size, 63",
        "  %whole = and i64 %more, -64",
        "  %after = add i64 %at, %whole",
        "  %fits = icmp ule i64 %after, %end",
        "  br i1 %fits, label %yes, label %no",
        "yes:",
        *_set_word("frame", "%after", "%s"),
        "  %p = inttoptr i64 %at to ptr",
        "  ret ptr %p",
        "no:",
        *_set_word("frame_faults", "1", "%t"),
        "  ret ptr null",
        "}",
    ]
    # An address, checked: where it may not be touched, memory that does not matter instead.
    lines += [
        "define internal ptr @gpu.check(ptr %p, i64 %bytes, i64 %align, i64 %what) noinline {",
        "entry:",
        "  %a = ptrtoint ptr %p to i64",
        "  %end = add i64 %a, %bytes",
        "  %odd = urem i64 %a, %align",
        "  %straight = icmp eq i64 %odd, 0",
        *_word("ranges", "%ranges", "ptr"),
        *_word("range_count", "%n"),
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %on ]",
        "  %left = icmp ult i64 %i, %n",
        "  br i1 %left, label %look, label %bad",
        "look:",
        "  %lo.p = getelementptr [2 x i64], ptr %ranges, i64 %i, i64 0",
        "  %hi.p = getelementptr [2 x i64], ptr %ranges, i64 %i, i64 1",
        "  %lo = load i64, ptr %lo.p",
        "  %hi = load i64, ptr %hi.p",
        "  %above = icmp uge i64 %a, %lo",
        "  %below = icmp ule i64 %end, %hi",
        "  %within = and i1 %above, %below",
        "  br i1 %within, label %found, label %on",
        "on:",
        "  %next = add i64 %i, 1",
        "  br label %loop",
        "found:",
        "  br i1 %straight, label %good, label %bad",
        "bad:",
        *_word("faults", "%faults"),
        "  %faults.1 = add i64 %faults, 1",
        *_set_word("faults", "%faults.1", "%s1"),
        "  %first = icmp eq i64 %faults, 0",
        "  br i1 %first, label %tell, label %refuse",
        "tell:",
        *_word("thread", "%thread.f"),
        *_word("block", "%block.f"),
        *_set_word("fault_address", "%a", "%s2"),
        *_set_word("fault_bytes", "%bytes", "%s3"),
        *_set_word("fault_kind", "%what", "%s4"),
        *_set_word("fault_thread", "%thread.f", "%s5"),
        *_set_word("fault_block", "%block.f", "%s6"),
        "  br label %refuse",
        "refuse:",
        *_word("dummy", "%dummy", "ptr"),
        "  ret ptr %dummy",
        "good:",
        *_word("logged", "%logged"),
        *_word("log_size", "%size"),
        "  %more = add i64 %logged, 1",
        *_set_word("logged", "%more", "%s7"),
        "  %fits = icmp ult i64 %logged, %size",
        "  br i1 %fits, label %write, label %done",
        "write:",
        *_word("log", "%log", "ptr"),
        *_word("thread", "%thread"),
        *_word("block", "%block"),
        *_word("epoch", "%epoch"),
        "  %r = getelementptr [4 x i64], ptr %log, i64 %logged",
        "  store i64 %a, ptr %r",
        "  %r1 = getelementptr i64, ptr %r, i64 1",
        "  %high = shl i64 %what, 8",
        "  %both = or i64 %high, %bytes",
        "  store i64 %both, ptr %r1",
        "  %r2 = getelementptr i64, ptr %r, i64 2",
        "  %block.h = shl i64 %block, 12",
        "  %who = or i64 %block.h, %thread",
        "  store i64 %who, ptr %r2",
        "  %r3 = getelementptr i64, ptr %r, i64 3",
        "  store i64 %epoch, ptr %r3",
        "  br label %done",
        "done:",
        "  ret ptr %p",
        "}",
    ]
    # For the scheduler: the context, where shared memory is, starting and resuming threads.
    lines += [
        "define void @gpu_setup(ptr %context) {",
        "  store ptr %context, ptr @gpu.context",
        "  ret void",
        "}",
        "define ptr @gpu_shared() {",
        f"  ret ptr {'@shared' if shared else 'null'}",
        "}",
        "define void @gpu_begin() {",
        "entry:",
        *_word("arguments", "%args", "ptr"),
        *_word("handles", "%handles", "ptr"),
        *_word("threads", "%n"),
        "  br label %loop",
        "loop:",
        "  %t = phi i64 [ 0, %entry ], [ %next, %body ]",
        "  %left = icmp ult i64 %t, %n",
        "  br i1 %left, label %body, label %done",
        "body:",
        *_set_word("thread", "%t", "%s"),
    ]
    for i, t in enumerate(arguments):
        lines.append(f"  %p{i} = getelementptr i64, ptr %args, i64 {i}")
        lines.append(f"  %a{i} = load {t}, ptr %p{i}")
    given = ", ".join(f"{t} %a{i}" for i, t in enumerate(arguments))
    lines += [
        f"  %h = call ptr @{NAME}({given})",
        "  %hp = getelementptr ptr, ptr %handles, i64 %t",
        "  store ptr %h, ptr %hp",
        "  %next = add i64 %t, 1",
        "  br label %loop",
        "done:",
        "  ret void",
        "}",
        "define void @gpu_resume(i64 %first, i64 %end) {",
        "entry:",
        *_word("handles", "%handles", "ptr"),
        "  br label %loop",
        "loop:",
        "  %t = phi i64 [ %first, %entry ], [ %next, %body ]",
        "  %left = icmp ult i64 %t, %end",
        "  br i1 %left, label %body, label %done",
        "body:",
        *_set_word("thread", "%t", "%s"),
        "  %hp = getelementptr ptr, ptr %handles, i64 %t",
        "  %h = load ptr, ptr %hp",
        "  call void @llvm.coro.resume(ptr %h)",
        "  %next = add i64 %t, 1",
        "  br label %loop",
        "done:",
        "  ret void",
        "}",
        "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
        "declare i64 @llvm.coro.size.i64()",
        "declare ptr @llvm.coro.begin(token, ptr)",
        "declare i8 @llvm.coro.suspend(token, i1)",
        "declare void @llvm.coro.end(ptr, i1, token)",
        "declare void @llvm.coro.resume(ptr)",
    ]
    return "\n".join(lines) + "\n"


_HEAD = re.compile(rf"^define ptx_kernel void @{NAME}\((.*)\) .*\{{$")
_LOAD = re.compile(r"^  (%\S+) = load (<.*?>|\S+), ptr (.+?)(?:, align (\d+))?$")
_STORE = re.compile(r"^  store (<.*?>|\S+) (.+), ptr (%\S+?)(?:, align (\d+))?$")
_ATOMIC = re.compile(r"^  (%\S+) = atomicrmw (\w+) ptr (%\S+), (\S+) (\S+) (.*)$")
_SPECIAL = re.compile(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\S+)\(\)")
_SHUFFLE = re.compile(
    r"^  (%\S+) = call i32 @llvm\.nvvm\.shfl\.sync\.bfly\.i32"
    r"\(i32 -1, i32 (\S+), i32 (\d+), i32 31\)"
)
_ALLOCA = re.compile(r"^  (%\S+) = alloca ")
_SHARED = re.compile(r"^@shared = internal addrspace\(3\) global \[(\d+) x i8\] undef", re.M)
_IN_SHARED = "addrspacecast (ptr addrspace(3) @shared to ptr)"
_PREDECESSOR = re.compile(r"(\[ [^\]]+?, %)([\w.]+)( \])")


def _bytes_of(t: str) -> int:
    scalar = t.split(" x ")[1][:-1] if t[0] == "<" else t
    bits = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}.get(scalar)
    return width_of(t) * ((bits or int(scalar[1:])) // 8)


class _Rewriter:
    """The kernel's function as a coroutine, line by line."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.private: set[str] = set()  # pointers of allocas
        self.block = "entry"  # the label under which the text knows the block being written
        self.actual = "entry"  # and the one it has here, once it has been divided
        self.ends: dict[str, str] = {}
        self.number = 0

    def rewritten(self, lines: Sequence[tuple[int, str]]) -> list[str]:
        for line, text in lines:
            self._line(line, text)
        self.ends[self.block] = self.actual
        return [self._phi(text) if " = phi " in text else text for text in self.out]

    def _phi(self, text: str) -> str:
        return _PREDECESSOR.sub(lambda m: f"{m[1]}{self.ends.get(m[2], m[2])}{m[3]}", text)

    def _line(self, line: int, text: str) -> None:
        out = self.out
        if text.endswith(":") and not text.startswith(" "):
            self.ends[self.block] = self.actual
            self.block = self.actual = text[:-1]
            out.append(text)
            return
        found = _ALLOCA.match(text)
        if found:
            self.private.add(found[1])
            out.append(text)
            return
        text = _SPECIAL.sub(r"call i32 @gpu.\1()", text)
        found = _LOAD.match(text)
        if found and found[3] not in self.private:
            pointer = self._checked(found[3], found[2], found[4], READ, line)
            out.append(f"  {found[1]} = load {found[2]}, ptr {pointer}, align 1")
            return
        found = _STORE.match(text)
        if found and found[3] not in self.private:
            pointer = self._checked(found[3], found[1], found[4], WRITE, line)
            out.append(f"  store {found[1]} {found[2]}, ptr {pointer}, align 1")
            return
        found = _ATOMIC.match(text)
        if found:
            pointer = self._checked(found[3], found[4], None, ATOMIC, line)
            rest = " ".join(found[i] for i in (4, 5, 6))
            out.append(f"  {found[1]} = atomicrmw {found[2]} ptr {pointer}, {rest}")
            return
        if "@llvm.nvvm.barrier0()" in text:
            self._suspend(BARRIER, line)
            return
        found = _SHUFFLE.match(text)
        if found:
            self._shuffle(found[1], found[2], int(found[3]), line)
            return
        if text == "  ret void":
            out.append("  br label %gpu.final")
            return
        if "@llvm.nvvm." in text:
            raise ArgumentError(f"gpu_emulator: no replacement for {text.strip()!r}. Add one.")
        out.append(text)

    def _checked(self, pointer: str, t: str, align: str | None, kind: int, line: int) -> str:
        self.number += 1
        name, nbytes = f"%gpu.a{self.number}", _bytes_of(t)
        self.out.append(
            f"  {name} = call ptr @gpu.check(ptr {pointer}, i64 {nbytes}, "
            f"i64 {align or nbytes}, i64 {kind + 4 * line})"
        )
        return name

    def _suspend(self, state: int, line: int) -> None:
        """Let other threads run; the state says what for, and where in the text."""
        self.number += 1
        n = self.number
        self.out += [
            *_word("thread", f"%gpu.t{n}"),
            *_word("states", f"%gpu.s{n}", "ptr"),
            f"  %gpu.sp{n} = getelementptr i64, ptr %gpu.s{n}, i64 %gpu.t{n}",
            f"  store i64 {state + 4 * line}, ptr %gpu.sp{n}",
            f"  %gpu.r{n} = call i8 @llvm.coro.suspend(token none, i1 false)",
            f"  switch i8 %gpu.r{n}, label %gpu.leave [i8 0, label %gpu.on{n}",
            "    i8 1, label %gpu.leave]",
            f"gpu.on{n}:",
        ]
        self.actual = f"gpu.on{n}"

    def _shuffle(self, result: str, x: str, distance: int, line: int) -> None:
        """Put the value where the others find it; of two places by turns, as some are slower."""
        self.number += 1
        n = self.number
        self.out += [
            *_word("thread", f"%gpu.m{n}"),
            *_word("counts", f"%gpu.k{n}", "ptr"),
            *_word("slots", f"%gpu.l{n}", "ptr"),
            f"  %gpu.kp{n} = getelementptr i64, ptr %gpu.k{n}, i64 %gpu.m{n}",
            f"  %gpu.n{n} = load i64, ptr %gpu.kp{n}",
            f"  %gpu.more{n} = add i64 %gpu.n{n}, 1",
            f"  store i64 %gpu.more{n}, ptr %gpu.kp{n}",
            f"  %gpu.odd{n} = and i64 %gpu.n{n}, 1",
            f"  %gpu.half{n} = mul i64 %gpu.odd{n}, {MOST_THREADS}",
            f"  %gpu.own{n} = add i64 %gpu.half{n}, %gpu.m{n}",
            f"  %gpu.ownp{n} = getelementptr i32, ptr %gpu.l{n}, i64 %gpu.own{n}",
            f"  store i32 {x}, ptr %gpu.ownp{n}",
        ]
        self._suspend(SHUFFLE, line)
        self.out += [
            f"  %gpu.other{n} = xor i64 %gpu.own{n}, {distance}",
            f"  %gpu.otherp{n} = getelementptr i32, ptr %gpu.l{n}, i64 %gpu.other{n}",
            f"  {result} = load i32, ptr %gpu.otherp{n}",
        ]


def host_text(text: str) -> tuple[str, list[str], int]:
    """A kernel's module for the CPU, the types of its arguments, bytes of its shared memory."""
    lines = text.replace(_IN_SHARED, "@shared").split("\n")
    found = _SHARED.search(text)
    shared = int(found[1]) if found else 0
    out: list[str] = []
    arguments: list[str] = []
    inside: list[tuple[int, str]] | None = None
    for i, line in enumerate(lines, 1):
        head = _HEAD.match(line)
        if head:
            arguments = [a.split()[0] for a in head[1].split(", ")]
            out += [
                f"define internal ptr @{NAME}({head[1]}) nounwind presplitcoroutine {{",
                "entry:",
                "  %gpu.id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)",
                "  %gpu.size = call i64 @llvm.coro.size.i64()",
                "  %gpu.memory = call ptr @gpu.frame(i64 %gpu.size)",
                "  %gpu.handle = call ptr @llvm.coro.begin(token %gpu.id, ptr %gpu.memory)",
            ]
            inside = []
        elif inside is not None and line == "}":
            out += _Rewriter().rewritten(inside)
            out += [
                "gpu.final:",
                *_word("thread", "%gpu.tf"),
                *_word("states", "%gpu.sf", "ptr"),
                "  %gpu.spf = getelementptr i64, ptr %gpu.sf, i64 %gpu.tf",
                f"  store i64 {DONE}, ptr %gpu.spf",
                "  %gpu.rf = call i8 @llvm.coro.suspend(token none, i1 true)",
                "  switch i8 %gpu.rf, label %gpu.leave [i8 0, label %gpu.never",
                "    i8 1, label %gpu.leave]",
                "gpu.never:",
                "  unreachable",
                "gpu.leave:",
                "  call void @llvm.coro.end(ptr %gpu.handle, i1 false, token none)",
                "  ret ptr %gpu.handle",
                "}",
            ]
            inside = None
        elif inside is not None:
            if line != "entry:" and line:
                inside.append((i, line))
        elif line.startswith("declare") and "llvm.nvvm" in line:
            continue
        elif line.startswith("@shared"):
            out.append(f"@shared = internal global [{shared} x i8] zeroinitializer, align 16")
        else:
            out.append(line)
    return "\n".join(out) + _support(shared, arguments), arguments, shared


# -- running --------------------------------------------------------------------------------------


class _Program:
    """A kernel compiled for the CPU."""

    def __init__(self, text: str):
        host, self.arguments, self.shared = host_text(text)
        names = ["gpu_setup", "gpu_shared", "gpu_begin", "gpu_resume"]
        code = engine.compile_module(host, names, passes="full")
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        self.setup = ctypes.CFUNCTYPE(None, pointer)(code["gpu_setup"])
        self.begin = ctypes.CFUNCTYPE(None)(code["gpu_begin"])
        self.resume = ctypes.CFUNCTYPE(None, word, word)(code["gpu_resume"])
        self.shared_at = ctypes.CFUNCTYPE(pointer)(code["gpu_shared"])() or 0


@functools.lru_cache(maxsize=512)
def _program(text: str) -> _Program:
    return _Program(text)


@functools.cache
def _buffers() -> dict[str, np.ndarray]:
    """Memory that launches use one after the other."""
    return {
        "context": np.zeros(len(_WORDS), np.int64),
        "frame": np.empty(FRAME_BYTES + 64, np.uint8),
        "states": np.zeros(MOST_THREADS, np.int64),
        "slots": np.zeros(2 * MOST_THREADS, np.int32),
        "counts": np.zeros(MOST_THREADS, np.int64),
        "handles": np.zeros(MOST_THREADS, np.int64),
        "dummy": np.zeros(64, np.uint8),
        "log": np.empty((LOGGED, 4), np.int64),
    }


def _at(a: np.ndarray) -> int:
    return a.ctypes.data


def run(text: str, grid: int, block: int, arguments: Sequence[int],
        memory: Sequence[np.ndarray]) -> list[str]:  # fmt: skip
    """Run a kernel's text on the CPU and tell what is wrong with it.

    Args:
        text: LLVM text with a kernel named gpu_launch.NAME.
        grid, block: numbers of blocks and of threads in each.
        arguments: addresses and integers, in the kernel's order.
        memory: the arrays that it may read and write, contiguous.
    Returns:
        The faults, in words; none for a kernel that is right.
    """
    program = _program(text)
    if len(arguments) != len(program.arguments) or not 0 < block <= MOST_THREADS:
        raise ArgumentError(
            f"gpu_emulator.run: need {len(program.arguments)} arguments and at most "
            f"{MOST_THREADS} threads, got {len(arguments)} and {block}. Pass what the text takes."
        )
    buffers = _buffers()
    context, states = buffers["context"], buffers["states"]
    context[:] = 0
    spans = [(_at(a), _at(a) + a.nbytes) for a in memory if a.nbytes]
    if program.shared:
        spans.append((program.shared_at, program.shared_at + program.shared))
    ranges = np.array(spans or [(0, 0)], np.int64)
    given = np.array([a & (1 << 64) - 1 for a in arguments], np.uint64)
    for name, value in {
        "threads": block, "blocks": grid, "states": _at(states), "slots": _at(buffers["slots"]),
        "counts": _at(buffers["counts"]), "handles": _at(buffers["handles"]),
        "ranges": _at(ranges), "range_count": len(ranges), "log": _at(buffers["log"]),
        "log_size": LOGGED, "dummy": _at(buffers["dummy"]), "arguments": _at(given),
    }.items():  # fmt: skip
        context[_WORD[name]] = value
    frame = -(-_at(buffers["frame"]) // 64) * 64
    context[_WORD["frame_end"]] = frame + FRAME_BYTES
    program.setup(_at(context))
    faults: list[str] = []
    for number in range(grid):
        context[_WORD["block"]] = number
        context[_WORD["frame"]] = frame
        buffers["counts"][:] = 0
        if program.shared:
            ctypes.memset(program.shared_at, FILL, program.shared)
        program.begin()
        fault = _scheduled(program, context, states[:block])
        if fault:
            faults.append(f"block {number}: {fault}")
        if fault or context[_WORD["frame_faults"]]:
            break
    if context[_WORD["frame_faults"]]:
        faults.append(f"the variables of {block} threads take more than {FRAME_BYTES} bytes")
    if context[_WORD["faults"]]:
        faults.append(_bad_access(context, text))
    logged = int(context[_WORD["logged"]])
    if logged > LOGGED:
        faults.append(f"{logged} accesses are more than the {LOGGED} that are looked at")
    faults += _races(_record(buffers["log"][: min(logged, LOGGED)]), program, text)
    return faults


def _scheduled(program: _Program, context: np.ndarray, states: np.ndarray) -> str:
    """Run the threads of a block to their ends; the fault that stops them, or nothing."""
    n = len(states)
    while states.any():
        what = states & 3
        moved = False
        for first in range(0, n, WARP):
            warp = states[first : first + WARP]
            if not (what[first : first + WARP] == SHUFFLE).any():
                continue
            if (warp != warp[0]).any() or len(warp) < WARP:
                return f"not all threads of a warp reach the shuffle at line {warp.max() >> 2}"
            program.resume(first, first + WARP)
            moved = True
        if moved:
            continue
        if (states != states[0]).any():
            return f"not all threads reach the barrier at line {states.max() >> 2}"
        context[_WORD["epoch"]] += 1
        program.resume(0, n)
    # The next block's accesses come after these for themselves only.
    context[_WORD["epoch"]] += 1
    return ""


def _line(text: str, number: int) -> str:
    return f"line {number}: {text.splitlines()[number - 1].strip()}"


def _bad_access(context: np.ndarray, text: str) -> str:
    word = {name: int(context[i]) for name, i in _WORD.items()}
    kind = ("reads", "writes", "updates")[word["fault_kind"] & 3]
    return (
        f"out of bounds or misaligned, {word['faults']} times; first thread "
        f"{word['fault_thread']} of block {word['fault_block']} {kind} {word['fault_bytes']} bytes "
        f"at {word['fault_address']:#x} ({_line(text, word['fault_kind'] >> 2)})"
    )


def _record(log: np.ndarray) -> Record:
    what, who = log[:, 1], log[:, 2]
    return Record(
        log[:, 0], what & 255, (what >> 8) & 3, what >> 10, who & 4095, who >> 12, log[:, 3]
    )


def _pieces(r: Record) -> Record:
    """The record in accesses of one size each, the smallest there is."""
    size = int(r.nbytes.min())
    times = r.nbytes // size
    which = np.repeat(np.arange(len(times)), times)
    within = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    address = r.address[which] + within * size
    return Record(address, *(column[which] for column in r[1:]))


def _races(r: Record, program: _Program, text: str) -> list[str]:
    """Threads that meet at the same bytes with nothing between them, and reads of nothing."""
    if not len(r.address):
        return []
    r = _pieces(r)
    shared = (r.address >= program.shared_at) & (r.address < program.shared_at + program.shared)
    # Each block has a shared memory of its own. Epochs are numbered through all blocks.
    memory = np.where(shared, r.block, -1)
    thread = r.block * 4096 + r.thread
    faults = _meetings(r, (memory, r.address, r.epoch), thread, "", text)
    rest = Record(*(column[~shared] for column in r))
    # Between blocks there are no barriers.
    faults += _meetings(rest, (rest.address,), rest.block, " between blocks", text)
    return faults + _unwritten(r, shared, memory, text)


def _groups(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """An order in which rows with equal columns stand together, and where each group starts."""
    order = np.lexsort(columns[::-1])
    first = np.zeros(len(order), bool)
    first[:1] = True
    for c in columns:
        first[1:] |= c[order][1:] != c[order][:-1]
    return order, np.flatnonzero(first)


def _meetings(r: Record, same: Sequence[np.ndarray], who: np.ndarray, how: str,
              text: str) -> list[str]:  # fmt: skip
    """Accesses equal in `same` by different ones, where one writes and not all are atomic."""
    if not len(who):
        return []
    order, starts = _groups(same)
    who, kind = who[order], r.kind[order]
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    changes = np.maximum.reduceat(kind, starts) != READ
    atomic = np.minimum.reduceat(kind, starts) == ATOMIC
    bad = np.flatnonzero(several & changes & ~atomic)
    if not len(bad):
        return []
    stop = [*starts[1:], len(order)][bad[0]]
    lines = np.unique(r.line[order][starts[bad[0]] : stop])[:3]
    told = " and ".join(_line(text, int(n)) for n in lines)
    return [f"race{how} at {len(bad)} places in memory; one at {told}"]


def _unwritten(r: Record, shared: np.ndarray, memory: np.ndarray, text: str) -> list[str]:
    """Reads of shared memory that come before any write; the record is in the order of time."""
    address, kind = r.address[shared], r.kind[shared]
    order, starts = _groups((memory[shared], address))  # stable, so in the order of time
    bad = np.flatnonzero(kind[order][starts] == READ)
    if not len(bad):
        return []
    line = int(r.line[shared][order][starts[bad[0]]])
    return [f"shared memory is read before it is written, {_line(text, line)}"]


def run_launch(launch: Launch, addresses: Sequence[int], memory: Sequence[np.ndarray]) -> list[str]:
    """Run a launch whose slots lie at these addresses; the faults."""
    arguments = [*addresses, *launch.numbers]
    memory = list(memory)
    if launch.indirect:
        numbers = np.array(launch.numbers, np.int64)
        arguments = [*addresses, _at(numbers)]
        memory.append(numbers)
    return run(text_of(launch), launch.grid, launch.block, arguments, memory)


def run_step(step: NativeStep, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[str]]:
    """The outputs of a step of launches, and the faults.

    Args:
        step: its code is Launches.
        inputs: values of step.inputs, contiguous.
    """
    held: dict[Any, np.ndarray] = dict(zip(step.inputs, inputs, strict=True))
    for v in step.outputs:
        held[v] = filled(v.aval.shape, v.aval.dtype)
    for i, nbytes in enumerate(step.scratch):
        held[Scratch(i)] = filled((nbytes,), np.uint8)
    faults: list[str] = []
    for launch in step.code:
        for root, _ in launch.slots:
            if isinstance(root, Fixed):
                held[root] = aligned(root.array)
        roots = dict.fromkeys(root for root, _ in launch.slots)
        addresses = [_at(held[root]) + offset for root, offset in launch.slots]
        faults += run_launch(launch, addresses, [held[root] for root in roots])
    return [held[v] for v in step.outputs], faults


def filled(shape: int | Sequence[int], dtype: Any) -> np.ndarray:
    """Memory aligned as a device's is, with values that are not to be read."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.full(nbytes + 256, FILL, np.uint8)
    start = -_at(raw) % 256
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def aligned(a: np.ndarray) -> np.ndarray:
    """A contiguous copy, aligned as a device's memory is."""
    out = filled(a.shape, a.dtype)
    out[...] = a
    return out
