"""Native kernels in LLVM text, for tests of the pool and of the virtual machine.

All have the one signature of kernels: (ptrs, desc, begin, end, worker).
"""

from __future__ import annotations

import numpy as np

from mgefn.compiler.codegen.engine import compile_module

_HEAD = "define void @{name}(ptr %ptrs, ptr %desc, i64 %begin, i64 %end, i64 %worker) nounwind {{\n"


def _pointers(*names: str) -> str:
    return "".join(
        f"  %{n}.at = getelementptr ptr, ptr %ptrs, i64 {i}\n  %{n} = load ptr, ptr %{n}.at\n"
        for i, n in enumerate(names)
    )


def _each(body: str) -> str:
    """For %i in [begin, end)."""
    return f"""
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %i1, %loop ]
{body}
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def _kernel(name: str, pointers: tuple[str, ...], rest: str) -> str:
    return _HEAD.format(name=name) + "entry:\n" + _pointers(*pointers) + rest


# out[i] = x[i] + y[i], float32
ADD = _kernel(
    "add",
    ("x", "y", "out"),
    _each("""
  %xp = getelementptr float, ptr %x, i64 %i
  %yp = getelementptr float, ptr %y, i64 %i
  %op = getelementptr float, ptr %out, i64 %i
  %xv = load float, ptr %xp
  %yv = load float, ptr %yp
  %s = fadd float %xv, %yv
  store float %s, ptr %op
"""),
)

# out[i] += desc[0], int64
ADD_NUMBER = _kernel(
    "add_number",
    ("out",),
    "  %number = load i64, ptr %desc\n"
    + _each("""
  %p = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %p
  %new = add i64 %old, %number
  store i64 %new, ptr %p
"""),
)

# ends[begin] = end; workers[begin] = worker; counts[i] += 1 for each i; int64
TRACE = _kernel(
    "trace",
    ("ends", "workers", "counts"),
    """
  %e = getelementptr i64, ptr %ends, i64 %begin
  store i64 %end, ptr %e
  %w = getelementptr i64, ptr %workers, i64 %begin
  store i64 %worker, ptr %w
"""
    + _each("""
  %p = getelementptr i64, ptr %counts, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
"""),
)

# partial[begin / desc[0]] = sum of x[begin:end] from left to right, float32
SUM = (
    _HEAD.format(name="sum")
    + "entry:\n"
    + _pointers("x", "partial")
    + """
  %chunk = load i64, ptr %desc
  %k = sdiv i64 %begin, %chunk
  %out = getelementptr float, ptr %partial, i64 %k
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i1, %loop ]
  %s = phi float [ 0.0, %entry ], [ %s1, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %s1 = fadd float %s, %v
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %end
  br i1 %more, label %loop, label %done
done:
  store float %s1, ptr %out
  ret void
}
"""
)

# Chunks meet: each counts itself in cell[0] and waits, with a bound of desc[0] looks, until desc[1]
# are there; cell[1] counts those that waited in vain.
MEET = (
    _HEAD.format(name="meet")
    + "entry:\n"
    + _pointers("cell")
    + """
  %bound = load i64, ptr %desc
  %all.at = getelementptr i64, ptr %desc, i64 1
  %all = load i64, ptr %all.at
  %before = atomicrmw add ptr %cell, i64 1 seq_cst
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %there = load atomic i64, ptr %cell seq_cst, align 8
  %met = icmp sge i64 %there, %all
  br i1 %met, label %done, label %again
again:
  %n1 = add i64 %n, 1
  %late = icmp sge i64 %n1, %bound
  br i1 %late, label %vain, label %look
vain:
  %failed = getelementptr i64, ptr %cell, i64 1
  %f = atomicrmw add ptr %failed, i64 1 seq_cst
  br label %done
done:
  ret void
}
"""
)

# A region inside a region: mgefn_parallel_for(TRACE's code in desc[0], ptrs, ., desc[1], desc[2])
# once for each begin.
NESTED = (
    "declare void @mgefn_parallel_for(ptr, ptr, ptr, i64, i64)\n"
    + _HEAD.format(name="nested")
    + """
entry:
  %kernel = load ptr, ptr %desc
  %count.at = getelementptr i64, ptr %desc, i64 1
  %count = load i64, ptr %count.at
  %chunk.at = getelementptr i64, ptr %desc, i64 2
  %chunk = load i64, ptr %chunk.at
  call void @mgefn_parallel_for(ptr %kernel, ptr %ptrs, ptr %desc, i64 %count, i64 %chunk)
  ret void
}
"""
)

# x[0] = x[0] + 1, int64; flag byte: out[0] = x[0] < desc[0]
COUNT_BELOW = _kernel(
    "count_below",
    ("x", "flag"),
    """
  %limit = load i64, ptr %desc
  %old = load i64, ptr %x
  %new = add i64 %old, 1
  store i64 %new, ptr %x
  %less = icmp slt i64 %new, %limit
  %byte = zext i1 %less to i8
  store i8 %byte, ptr %flag
  ret void
}
""",
)


def kernel(text: str, name: str, **extra: int) -> int:
    """Address of a kernel."""
    return compile_module(text, [name], extra=extra)[name]


_cells: list[np.ndarray] = []  # for as long as the process, as the code is


def cell(text: str, name: str, **extra: int) -> int:
    """Address of a word that holds the address of a kernel."""
    _cells.append(np.array([kernel(text, name, **extra)], np.int64))
    return _cells[-1].ctypes.data
