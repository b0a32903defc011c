"""The native virtual machine that runs compiled programs.

A program is data: an array of 64-bit words that one native function reads. Kernels are native
functions `void kernel(ptr ptrs, ptr desc, i64 begin, i64 end, i64 worker)`: `ptrs` the data
pointers of the step's operands, `desc` its numbers (sizes, strides, constants), [begin, end) a part
of its parallel domain. The machine calls them, moves pointers, and jumps; `Assembler` writes its
code and `Frame` binds code to memory and to a Python callable.

The machine's registers are the slots of one array P of 64-bit words, which hold data pointers and
integers alike. `*P[s]` below is what the pointer in slot s points to. Operands are 64-bit words
after the opcode; a pc is an index into the code. Slots keep their values from one run to the next,
except those that fixups set: a program that moves a pointer first sets it.

| op          | operands                        | meaning                                          |
|-------------|---------------------------------|--------------------------------------------------|
| END         |                                 | return to Python                                 |
| CALL        | cell, slot, desc, count, chunk  | the kernel whose address the cell holds, over    |
|             |                                 | [0, count) with &P[slot]; in chunks of           |
|             |                                 | the pool where 0 < chunk < count                 |
| JUMP        | pc                              | go to pc                                         |
| JUMP_UNLESS | slot, pc                        | go to pc if the byte *P[slot] is 0               |
| ADVANCE     | n, n times (slot, stride)       | P[slot] += stride                                |
| SET_PTR     | dst, src, offset                | P[dst] = P[src] + offset                         |
| SWAP        | slot, slot                      | exchange the two                                 |
| SET_INT     | slot, value                     | P[slot] = value                                  |
| LOOP        | slot, pc                        | P[slot] -= 1; go to pc if it is still > 0        |
| SWITCH      | slot, n, n times pc             | go to the pc of index *P[slot], an i32, clamped  |
| PYCALL      | id                              | callback(id), with the GIL; an exception ends it |
| COPY        | dst, src, nbytes                | *P[dst] = *P[src], nbytes of it, may overlap     |
| STORE_I32   | slot, src                       | *P[slot] = P[src], as an i32                     |
| STORE_I64   | slot, src                       | *P[slot] = P[src], as an i64                     |
| TIME        | clock, record                   | add the nanoseconds since *clock, and 1, to the  |
|             |                                 | two words of the record; *clock is the time now  |

The machine is a builtin function of Python (METH_FASTCALL), whose `self` is the frame's header, an
array of words laid out as in `Header`. It reads the data pointers of its arguments, NumPy arrays,
straight from the objects; their dtypes, shapes and strides are the caller's business.

Jumps backward look at the clock now and then. About every hundredth of a second they let other
Python threads have the GIL and run signal handlers, so that Ctrl-C ends a loop.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mgefn import forks
from mgefn.compiler import threads
from mgefn.compiler.codegen import engine
from mgefn.compiler.host import array_data_offset
from mgefn.errors import MgefnError

RESPONSE_NS = 10_000_000  # between two looks for signals; a tenth of what a person notices
_MOST_TICKS = 1 << 14  # jumps backward between two looks at the clock, at most


class Op(enum.IntEnum):
    """Opcodes; the module's table says what each does."""

    END = 0
    CALL = 1
    JUMP = 2
    JUMP_UNLESS = 3
    ADVANCE = 4
    SET_PTR = 5
    SWAP = 6
    SET_INT = 7
    LOOP = 8
    SWITCH = 9
    PYCALL = 10
    COPY = 11
    STORE_I32 = 12
    STORE_I64 = 13
    TIME = 14


class Header(enum.IntEnum):
    """Words of a frame's header."""

    CODE = 0  # address of the code
    P = 1  # address of P
    FIXUPS = 2  # address of triples (argument, slot, offset): P[slot] = its data pointer + offset
    FIXUP_COUNT = 3
    FLAGS = 4
    CALLBACK = 5  # the Python callable of PYCALL
    ARGUMENTS = 6  # how many arguments a call must have
    BUSY = 7  # not 0 while a call runs
    SIZE = 8


RELEASE_GIL = 1  # flag: run without the GIL, except in PYCALL


# -- the machine --------------------------------------------------------------------------------


def _operand(name: str, index: int, type: str = "i64") -> str:
    """Load the operand at a place of the instruction into %name."""
    return (
        f"  %{name}.at = getelementptr i64, ptr %at, i64 {index}\n"
        f"  %{name} = load {type}, ptr %{name}.at\n"
    )


def _slot(name: str, slot: str) -> str:
    """%name = &P[slot]"""
    return f"  %{name} = getelementptr i64, ptr %P, i64 %{slot}\n"


def _then(words: int) -> str:
    """Go on behind an instruction of so many words."""
    return (
        f"  %next.{words} = getelementptr i64, ptr %at, i64 {words}\n"
        f"  store ptr %next.{words}, ptr %pc\n  br label %dispatch\n"
    )


def _handlers() -> dict[Op, str]:
    """The body of each instruction. %at points to its opcode; names are made unique below."""
    return {
        Op.END: "  br label %finish\n",
        Op.CALL: _operand("cell", 1, "ptr") + _operand("slot", 2) + _operand("desc", 3, "ptr")
        + _operand("count", 4) + _operand("chunk", 5) + _slot("ptrs", "slot") + """
  %fn = load atomic ptr, ptr %cell monotonic, align 8
  %split = icmp sgt i64 %chunk, 0
  br i1 %split, label %CALL.cut, label %CALL.whole
CALL.whole:
  call void %fn(ptr %ptrs, ptr %desc, i64 0, i64 %count, i64 0)
  br label %CALL.done
CALL.cut:
  call void @mgefn_parallel_for(ptr %fn, ptr %ptrs, ptr %desc, i64 %count, i64 %chunk)
  br label %CALL.done
CALL.done:
""" + _then(6),
        Op.JUMP: _operand("pc.new", 1) + """
  store i64 %pc.new, ptr %target
  br label %goto
""",
        Op.JUMP_UNLESS: _operand("slot", 1) + _operand("pc.new", 2) + _slot("p", "slot") + """
  %data = load ptr, ptr %p
  %byte = load i8, ptr %data
  %zero = icmp eq i8 %byte, 0
  store i64 %pc.new, ptr %target
  br i1 %zero, label %goto, label %JUMP_UNLESS.on
JUMP_UNLESS.on:
""" + _then(3),
        Op.ADVANCE: _operand("n", 1) + """
  %first = getelementptr i64, ptr %at, i64 2
  %last = getelementptr {i64, i64}, ptr %first, i64 %n
  br label %ADVANCE.test
ADVANCE.test:
  %pair = phi ptr [ %first, %ADVANCE ], [ %pair.next, %ADVANCE.one ]
  %end = icmp eq ptr %pair, %last
  br i1 %end, label %ADVANCE.done, label %ADVANCE.one
ADVANCE.one:
  %slot = load i64, ptr %pair
  %stride.at = getelementptr i64, ptr %pair, i64 1
  %stride = load i64, ptr %stride.at
  %p = getelementptr i64, ptr %P, i64 %slot
  %old = load i64, ptr %p
  %new = add i64 %old, %stride
  store i64 %new, ptr %p
  %pair.next = getelementptr {i64, i64}, ptr %pair, i64 1
  br label %ADVANCE.test
ADVANCE.done:
  store ptr %last, ptr %pc
  br label %dispatch
""",
        Op.SET_PTR: _operand("dst", 1) + _operand("src", 2) + _operand("offset", 3)
        + _slot("to", "dst") + _slot("from", "src") + """
  %base = load i64, ptr %from
  %sum = add i64 %base, %offset
  store i64 %sum, ptr %to
""" + _then(4),
        Op.SWAP: _operand("a", 1) + _operand("b", 2) + _slot("pa", "a") + _slot("pb", "b") + """
  %va = load i64, ptr %pa
  %vb = load i64, ptr %pb
  store i64 %vb, ptr %pa
  store i64 %va, ptr %pb
""" + _then(3),
        Op.SET_INT: _operand("slot", 1) + _operand("value", 2) + _slot("p", "slot") + """
  store i64 %value, ptr %p
""" + _then(3),
        Op.LOOP: _operand("slot", 1) + _operand("pc.new", 2) + _slot("p", "slot") + """
  %old = load i64, ptr %p
  %new = sub i64 %old, 1
  store i64 %new, ptr %p
  %again = icmp sgt i64 %new, 0
  store i64 %pc.new, ptr %target
  br i1 %again, label %goto, label %LOOP.on
LOOP.on:
""" + _then(3),
        Op.SWITCH: _operand("slot", 1) + _operand("n", 2) + _slot("p", "slot") + """
  %data = load ptr, ptr %p
  %raw = load i32, ptr %data
  %wide = sext i32 %raw to i64
  %top = sub i64 %n, 1
  %low = call i64 @llvm.smin.i64(i64 %wide, i64 %top)
  %index = call i64 @llvm.smax.i64(i64 %low, i64 0)
  %word = add i64 %index, 3
  %pc.at = getelementptr i64, ptr %at, i64 %word
  %pc.new = load i64, ptr %pc.at
  store i64 %pc.new, ptr %target
  br label %goto
""",
        Op.PYCALL: _operand("id", 1) + """
  call void @take_gil(ptr %thread)
  %callback.at = getelementptr i64, ptr %head, i64 """ + str(int(Header.CALLBACK)) + """
  %callback = load ptr, ptr %callback.at
  %number = call ptr @PyLong_FromLongLong(i64 %id)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %fail, label %PYCALL.call
PYCALL.call:
  %result = call ptr @PyObject_CallOneArg(ptr %callback, ptr %number)
  call void @Py_DecRef(ptr %number)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %fail, label %PYCALL.on
PYCALL.on:
  call void @Py_DecRef(ptr %result)
  call void @give_gil(ptr %thread, i64 %flags)
""" + _then(2),
        Op.COPY: _operand("dst", 1) + _operand("src", 2) + _operand("n", 3)
        + _slot("to", "dst") + _slot("from", "src") + """
  %target.data = load ptr, ptr %to
  %source.data = load ptr, ptr %from
  call void @llvm.memmove.p0.p0.i64(ptr %target.data, ptr %source.data, i64 %n, i1 false)
""" + _then(4),
        Op.STORE_I32: _operand("dst", 1) + _operand("src", 2) + _slot("to", "dst")
        + _slot("from", "src") + """
  %data = load ptr, ptr %to
  %value = load i64, ptr %from
  %narrow = trunc i64 %value to i32
  store i32 %narrow, ptr %data
""" + _then(3),
        Op.STORE_I64: _operand("dst", 1) + _operand("src", 2) + _slot("to", "dst")
        + _slot("from", "src") + """
  %data = load ptr, ptr %to
  %value = load i64, ptr %from
  store i64 %value, ptr %data
""" + _then(3),
        Op.TIME: _operand("clock", 1, "ptr") + _operand("record", 2, "ptr") + """
  %time = call i64 @now()
  %before = load i64, ptr %clock
  store i64 %time, ptr %clock
  %passed = sub i64 %time, %before
  %total = load i64, ptr %record
  %total.new = add i64 %total, %passed
  store i64 %total.new, ptr %record
  %count.at = getelementptr i64, ptr %record, i64 1
  %count = load i64, ptr %count.at
  %count.new = add i64 %count, 1
  store i64 %count.new, ptr %count.at
""" + _then(3),
    }  # fmt: skip


_SHARED = {
    "at",
    "P",
    "pc",
    "target",
    "head",
    "thread",
    "flags",
    "dispatch",
    "goto",
    "finish",
    "fail",
}


def _named_apart(op: Op, body: str) -> str:
    """The body with its own names under the name of its opcode."""

    def rename(match: re.Match[str]) -> str:
        name = match[1]
        own = name in _SHARED or name == op.name or name.startswith(op.name + ".")
        return f"%{name}" if own else f"%{op.name}.{name}"

    return f"{op.name}:\n" + re.sub(r"%([A-Za-z_][\w.]*)", rename, body)


def _clock() -> str:
    """i64 @now(): nanoseconds that only grow."""
    if sys.platform == "win32":
        frequency = ctypes.c_int64()
        ctypes.WinDLL("kernel32").QueryPerformanceFrequency(ctypes.byref(frequency))
        scale = max(1, 1_000_000_000 // frequency.value)
        return f"""
declare i32 @QueryPerformanceCounter(ptr)
define internal i64 @now() nounwind {{
  %time = alloca i64
  call i32 @QueryPerformanceCounter(ptr %time)
  %ticks = load i64, ptr %time
  %nanoseconds = mul i64 %ticks, {scale}
  ret i64 %nanoseconds
}}
"""
    monotonic = 6 if sys.platform == "darwin" else 1
    return f"""
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() nounwind {{
  %time = alloca {{ i64, i64 }}
  call i32 @clock_gettime(i32 {monotonic}, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.at = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction.at
  %scaled = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %scaled, %fraction
  ret i64 %nanoseconds
}}
"""


def _string(name: str, value: str) -> str:
    return f'@{name} = private constant [{len(value) + 1} x i8] c"{value}\\00"'


def _text(offset: int) -> str:
    """The module of the machine, for arrays with their data pointer at this offset."""
    handlers = _handlers()
    cases = " ".join(f"i64 {int(op)}, label %{op.name}" for op in handlers)
    bodies = "".join(_named_apart(op, body) for op, body in handlers.items())

    def header(name: str, word: Header, type: str = "i64") -> str:
        return (
            f"  %{name}.at = getelementptr i64, ptr %head, i64 {int(word)}\n"
            f"  %{name} = load {type}, ptr %{name}.at\n"
        )

    return f"""
@mgefn_calls = external global i64
@mgefn_none = external global i8
@mgefn_type_error = external global i8
@mgefn_runtime_error = external global i8
{_string("wrong_count", "native program: wrong number of arguments")}
{_string("in_use", "native program: this frame runs already")}
declare void @mgefn_parallel_for(ptr, ptr, ptr, i64, i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
{_clock()}
; *thread is the state to restore where the GIL has been released, else null.
define internal void @take_gil(ptr %thread) nounwind noinline {{
entry:
  %state = load ptr, ptr %thread
  %held = icmp eq ptr %state, null
  br i1 %held, label %done, label %restore
restore:
  call void @PyEval_RestoreThread(ptr %state)
  store ptr null, ptr %thread
  br label %done
done:
  ret void
}}

define internal void @give_gil(ptr %thread, i64 %flags) nounwind noinline {{
entry:
  %bit = and i64 %flags, {RELEASE_GIL}
  %keep = icmp eq i64 %bit, 0
  br i1 %keep, label %done, label %save
save:
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %thread
  br label %done
done:
  ret void
}}

; Run signal handlers; other threads may have the GIL before. False: a handler has raised, and the
; GIL is held.
define internal i1 @look_for_signals(ptr %thread, i64 %flags) nounwind noinline {{
entry:
  %state = load ptr, ptr %thread
  %held = icmp eq ptr %state, null
  br i1 %held, label %yield, label %take
yield:
  %mine = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %mine)
  br label %check
take:
  call void @take_gil(ptr %thread)
  br label %check
check:
  %code = call i32 @PyErr_CheckSignals()
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %on, label %done
on:
  call void @give_gil(ptr %thread, i64 %flags)
  br label %done
done:
  ret i1 %fine
}}

define ptr @mgefn_run(ptr %self, ptr %args, i64 %nargs) nounwind {{
entry:
  %pc = alloca ptr        ; the current instruction
  %target = alloca i64    ; where goto jumps to
  %thread = alloca ptr    ; as for take_gil
  %ticks = alloca i64     ; jumps backward until the next look at the clock
  %interval = alloca i64  ; how many that were at first
  %looked = alloca i64    ; the time of the last look for signals
  store ptr null, ptr %thread
  store i64 1, ptr %ticks
  store i64 1, ptr %interval
  store i64 0, ptr %looked
  %head.at = getelementptr i8, ptr %self, i64 {offset}
  %head = load ptr, ptr %head.at
{header("arguments", Header.ARGUMENTS)}
  %fits = icmp eq i64 %nargs, %arguments
  br i1 %fits, label %check, label %misfit
misfit:
  %type.error = load ptr, ptr @mgefn_type_error
  call void @PyErr_SetString(ptr %type.error, ptr @wrong_count)
  ret ptr null
check:
{header("busy", Header.BUSY)}
  %free = icmp eq i64 %busy, 0
  br i1 %free, label %begin, label %taken
taken:
  %runtime.error = load ptr, ptr @mgefn_runtime_error
  call void @PyErr_SetString(ptr %runtime.error, ptr @in_use)
  ret ptr null
begin:
  store i64 1, ptr %busy.at
  %calls = load i64, ptr @mgefn_calls
  %calls.new = add i64 %calls, 1
  store i64 %calls.new, ptr @mgefn_calls
{header("code", Header.CODE, "ptr")}
{header("P", Header.P, "ptr")}
{header("flags", Header.FLAGS)}
{header("fixups", Header.FIXUPS, "ptr")}
{header("fixup.count", Header.FIXUP_COUNT)}
  store ptr %code, ptr %pc
  %fixups.end = getelementptr {{i64, i64, i64}}, ptr %fixups, i64 %fixup.count
  br label %fix
fix:
  %fixup = phi ptr [ %fixups, %begin ], [ %fixup.next, %fix.one ]
  %fixed = icmp eq ptr %fixup, %fixups.end
  br i1 %fixed, label %ready, label %fix.one
fix.one:
  %argument = load i64, ptr %fixup
  %slot.at = getelementptr i64, ptr %fixup, i64 1
  %slot = load i64, ptr %slot.at
  %shift.at = getelementptr i64, ptr %fixup, i64 2
  %shift = load i64, ptr %shift.at
  %array.at = getelementptr ptr, ptr %args, i64 %argument
  %array = load ptr, ptr %array.at
  %data.at = getelementptr i8, ptr %array, i64 {offset}
  %data = load ptr, ptr %data.at
  %moved = getelementptr i8, ptr %data, i64 %shift
  %p = getelementptr ptr, ptr %P, i64 %slot
  store ptr %moved, ptr %p
  %fixup.next = getelementptr {{i64, i64, i64}}, ptr %fixup, i64 1
  br label %fix
ready:
  call void @give_gil(ptr %thread, i64 %flags)
  br label %dispatch

dispatch:
  %at = load ptr, ptr %pc
  %op = load i64, ptr %at
  switch i64 %op, label %unknown [ {cases} ]
unknown:
  unreachable

{bodies}
goto:
  %word = load i64, ptr %target
  %there = getelementptr i64, ptr %code, i64 %word
  store ptr %there, ptr %pc
  %backward = icmp ule ptr %there, %at
  br i1 %backward, label %tick, label %dispatch
tick:
  %ticks.old = load i64, ptr %ticks
  %ticks.new = sub i64 %ticks.old, 1
  store i64 %ticks.new, ptr %ticks
  %late = icmp sle i64 %ticks.new, 0
  br i1 %late, label %clock, label %dispatch
clock:
  ; The interval adapts to what a round of the loop costs: up to {_MOST_TICKS} where it is
  ; nothing, 1 where it takes longer than the response time.
  %time = call i64 @now()
  %before = load i64, ptr %looked
  %passed = sub i64 %time, %before
  %due = icmp sge i64 %passed, {RESPONSE_NS}
  %length = load i64, ptr %interval
  br i1 %due, label %shorter, label %longer
longer:
  %double = shl i64 %length, 1
  %length.up = call i64 @llvm.smin.i64(i64 %double, i64 {_MOST_TICKS})
  store i64 %length.up, ptr %interval
  store i64 %length.up, ptr %ticks
  br label %dispatch
shorter:
  %half = lshr i64 %length, 1
  %length.down = call i64 @llvm.smax.i64(i64 %half, i64 1)
  store i64 %length.down, ptr %interval
  store i64 %length.down, ptr %ticks
  store i64 %time, ptr %looked
  %fine = call i1 @look_for_signals(ptr %thread, i64 %flags)
  br i1 %fine, label %dispatch, label %fail

fail:
  call void @take_gil(ptr %thread)
  store i64 0, ptr %busy.at
  ret ptr null
finish:
  call void @take_gil(ptr %thread)
  store i64 0, ptr %busy.at
  call void @Py_IncRef(ptr @mgefn_none)
  ret ptr @mgefn_none
}}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x0080
_PYTHON_FUNCTIONS = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_CheckSignals",
    "PyErr_SetString",
    "PyLong_FromLongLong",
    "PyObject_CallOneArg",
    "Py_IncRef",
    "Py_DecRef",
)


class _Machine:
    """The machine's native function, and what it shares with Python."""

    def __init__(self) -> None:
        offset = array_data_offset()
        if offset is None:
            raise MgefnError(f"compile: no native code: {engine.why_unavailable()}.")
        self._calls = ctypes.c_int64()
        machine = _text(offset)
        if not threads.is_made():
            # It is linked first, as the machine calls it; most of the time goes into making code.
            engine.compile_ahead([(machine, "function"), (threads.text(), "few")])
        # PyExc_TypeError and its like are variables that hold the class.
        self._classes = (ctypes.c_void_p * 2)(id(TypeError), id(RuntimeError))
        classes = ctypes.addressof(self._classes)
        extra = {
            "mgefn_parallel_for": threads.pool().parallel_for_address,
            "mgefn_calls": ctypes.addressof(self._calls),
            "mgefn_none": id(None),
            "mgefn_type_error": classes,
            "mgefn_runtime_error": classes + 8,
        }
        for name in _PYTHON_FUNCTIONS:
            extra[name] = _address(getattr(ctypes.pythonapi, name))
        if sys.platform == "win32":
            kernel32 = ctypes.WinDLL("kernel32")
            extra["QueryPerformanceCounter"] = _address(kernel32.QueryPerformanceCounter)
        else:
            extra["clock_gettime"] = _address(ctypes.CDLL(None).clock_gettime)
        # "function": the text keeps its state in memory, for LLVM to move into registers.
        code = engine.compile_module(machine, ["mgefn_run"], "function", extra)
        self._method = _MethodDef(
            b"native_program", code["mgefn_run"], _METH_FASTCALL, b"A compiled program."
        )
        # Not pythonapi.PyCFunction_NewEx itself, whose types others may set as well.
        prototype = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        self._new = prototype(("PyCFunction_NewEx", ctypes.pythonapi))

    def function(self, header: np.ndarray) -> Callable[..., None]:
        """The machine as a Python function, bound to a frame's header."""
        return self._new(ctypes.addressof(self._method), header, None)

    @property
    def calls(self) -> int:
        return self._calls.value


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_machine_made: _Machine | None = None
_making = forks.lock()


def _machine() -> _Machine:
    global _machine_made
    if _machine_made is None:
        with _making:
            if _machine_made is None:
                _machine_made = _Machine()
    return _machine_made


def available() -> bool:
    """Do compiled programs run on this machine? Compiles the machine at the first question."""
    return why_unavailable() is None


@functools.cache
def why_unavailable() -> str | None:
    """Why compiled programs do not run here, or None if they do."""
    reason = engine.why_unavailable()
    if reason is None:
        try:
            _machine()
        except (MgefnError, AttributeError, OSError) as error:
            reason = str(error)
    return reason


def native_calls() -> int:
    """How many times compiled programs were called in this process."""
    return _machine_made.calls if _machine_made is not None else 0


# -- programs -----------------------------------------------------------------------------------


class Label:
    """A place in the code that jumps name; `Assembler.place` puts it somewhere."""

    __slots__ = ("pc",)

    def __init__(self) -> None:
        self.pc: int | None = None


class Code:
    """Finished code and what it points to.

    Attributes:
        words: the code, int64.
        slots: how many slots P must have at least.
        uses_callback: is there a PYCALL?
    """

    __slots__ = ("keep", "slots", "uses_callback", "words")

    def __init__(self, words: np.ndarray, slots: int, uses_callback: bool, keep: tuple[Any, ...]):
        self.words = words
        self.slots = slots
        self.uses_callback = uses_callback
        self.keep = keep


class Assembler:
    """Writes code, one instruction a method; the module's table tells their meaning.

    Example:
        >>> from mgefn.compiler.runtime import Assembler
        >>> assembler = Assembler()
        >>> assembler.set_int(0, 3)
        >>> again = assembler.here()
        >>> assembler.loop(0, again)
        >>> assembler.finish().words
        array([7, 0, 3, 8, 0, 3, 0])
    """

    def __init__(self) -> None:
        self._words: list[int] = []
        self._patches: list[tuple[int, Label]] = []
        self._slots = 0
        self._uses_callback = False
        self._keep: list[Any] = []

    def _emit(self, op: Op, *operands: int) -> None:
        self._words.append(op)
        self._words += operands

    def _used(self, *slots: int) -> None:
        assert min(slots, default=0) >= 0, f"slots count from 0, got {slots}"
        self._slots = max(self._slots, *(s + 1 for s in slots)) if slots else self._slots

    def _emit_label(self, label: Label) -> None:
        self._patches.append((len(self._words), label))
        self._words.append(0)

    def label(self) -> Label:
        """A label that is not placed yet."""
        return Label()

    def place(self, label: Label) -> None:
        """The next instruction is the label's."""
        assert label.pc is None, "a label has one place"
        label.pc = len(self._words)

    def here(self) -> Label:
        """A label at the next instruction."""
        label = Label()
        self.place(label)
        return label

    def numbers(self, values: Iterable[int]) -> int:
        """Address of an array of int64 with these values that lives as long as the code."""
        array = np.array(list(values), np.int64)
        self._keep.append(array)
        return array.ctypes.data

    def keep(self, value: Any) -> None:
        """Keep an object alive as long as the code, such as an array that it points to."""
        self._keep.append(value)

    def call(
        self, cell: int, slot: int, desc: int, count: int, chunk: int = 0, operands: int = 1
    ) -> None:
        """A kernel over [0, count), in parallel chunks if 0 < chunk < count.

        Args:
            cell: address of the 64-bit word that holds the kernel's address, read at each call.
            slot: the first of its operands' slots.
            desc: address of its numbers, kept alive by the caller or made by `numbers`.
            count: the size of its parallel domain.
            chunk: how much of it a worker takes at a time; 0 for all at once.
            operands: how many slots from `slot` on it reads.
        """
        self._used(slot + max(operands, 1) - 1)
        self._emit(Op.CALL, cell, slot, desc, count, chunk)

    def jump(self, label: Label) -> None:
        self._emit(Op.JUMP)
        self._emit_label(label)

    def jump_unless(self, slot: int, label: Label) -> None:
        self._used(slot)
        self._emit(Op.JUMP_UNLESS, slot)
        self._emit_label(label)

    def advance(self, strides: Sequence[tuple[int, int]]) -> None:
        """Add to slots: (slot, bytes) of each."""
        self._used(*(slot for slot, _ in strides))
        self._emit(Op.ADVANCE, len(strides), *(n for pair in strides for n in pair))

    def set_ptr(self, dst: int, src: int, offset: int = 0) -> None:
        self._used(dst, src)
        self._emit(Op.SET_PTR, dst, src, offset)

    def swap(self, a: int, b: int) -> None:
        self._used(a, b)
        self._emit(Op.SWAP, a, b)

    def set_int(self, slot: int, value: int) -> None:
        self._used(slot)
        self._emit(Op.SET_INT, slot, value)

    def loop(self, slot: int, label: Label) -> None:
        self._used(slot)
        self._emit(Op.LOOP, slot)
        self._emit_label(label)

    def switch(self, slot: int, labels: Sequence[Label]) -> None:
        assert labels, "a switch has at least one branch"
        self._used(slot)
        self._emit(Op.SWITCH, slot, len(labels))
        for label in labels:
            self._emit_label(label)

    def py_call(self, number: int) -> None:
        self._uses_callback = True
        self._emit(Op.PYCALL, number)

    def copy(self, dst: int, src: int, nbytes: int) -> None:
        self._used(dst, src)
        self._emit(Op.COPY, dst, src, nbytes)

    def store_i32(self, slot: int, src: int) -> None:
        self._used(slot, src)
        self._emit(Op.STORE_I32, slot, src)

    def store_i64(self, slot: int, src: int) -> None:
        self._used(slot, src)
        self._emit(Op.STORE_I64, slot, src)

    def time(self, clock: int, record: int) -> None:
        """Add what has passed since the last time to a record: nanoseconds, and a count.

        Args:
            clock: address of the word that holds the last time.
            record: address of two words.
        """
        self._emit(Op.TIME, clock, record)

    def end(self) -> None:
        self._emit(Op.END)

    def finish(self) -> Code:
        """The code, with an END after it and all jumps resolved."""
        self.end()
        for index, label in self._patches:
            assert label.pc is not None, "a jump goes to a label without a place"
            self._words[index] = label.pc
        words = np.array(self._words, np.int64)
        words.setflags(write=False)
        return Code(words, self._slots, self._uses_callback, tuple(self._keep))


class _HeaderArray(np.ndarray):
    """The header as the `self` of a builtin function; it keeps alive all that it points to."""

    keep: tuple[Any, ...] = ()


class Frame:
    """Code bound to its memory: what is called.

    Args:
        code: from Assembler.finish; many frames may share it.
        pointers: initial values of P: addresses and integers, at least code.slots of them.
        fixups: (argument, slot, offset) triples, done when a call begins.
        arguments: how many arrays a call takes.
        release_gil: run without the GIL. Costs about 0.1 us; for programs of more than that.
        callback: what PYCALL calls with its number.
        keep: objects to keep alive, such as the arrays that `pointers` points into.

    Attributes:
        call: the program as a Python function of `arguments` NumPy arrays; returns None.
        pointers: P, an int64 array that may be written between calls.

    One call at a time: a second one meanwhile raises RuntimeError.
    """

    __slots__ = ("__weakref__", "call", "pointers")

    def __init__(
        self,
        code: Code,
        pointers: Sequence[int] | np.ndarray,
        fixups: Sequence[tuple[int, int, int]] = (),
        arguments: int = 0,
        *,
        release_gil: bool = False,
        callback: Callable[[int], object] | None = None,
        keep: Iterable[Any] = (),
    ):
        self.pointers = np.array(pointers, np.int64).reshape(-1)
        triples = np.array(fixups, np.int64).reshape(-1, 3)
        assert len(self.pointers) >= code.slots, (
            f"the code uses {code.slots} slots, P has {len(self.pointers)}"
        )
        for argument, slot, _ in fixups:
            assert 0 <= argument < arguments and 0 <= slot < len(self.pointers), (argument, slot)
        assert callback is not None or not code.uses_callback, "PYCALL needs a callback"
        header = np.zeros(Header.SIZE, np.int64).view(_HeaderArray)
        header[Header.CODE] = code.words.ctypes.data
        header[Header.P] = self.pointers.ctypes.data
        header[Header.FIXUPS] = triples.ctypes.data
        header[Header.FIXUP_COUNT] = len(triples)
        header[Header.FLAGS] = RELEASE_GIL if release_gil else 0
        header[Header.CALLBACK] = 0 if callback is None else id(callback)
        header[Header.ARGUMENTS] = arguments
        header.keep = (code, self.pointers, triples, callback, *keep)
        self.call = _machine().function(header)
