"""Interrupts a first call after any number of lines, and compares what the process does next.

Every draw is a forked child in which nothing that is lazy was loaded yet. The second call must give
the results and the steps of a process that was never interrupted.

    python -m tests.kinds.interrupts [SEED [DRAWS]]
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import traceback
import warnings
from types import FrameType
from typing import Any

import numpy as np

import mgefn
import mgefn.numpy as mnp
from mgefn import lax

# An interrupt that falls into a destructor or a callback of the garbage collector (hypothesis has
# one) is lost, which is Python's way: timers of tests go on, so that another one ends the loop. Of
# one between `open` and the `with` around it the file is left to the collector.
AGAIN = 1.0  # seconds
LOST = (
    "ignore:(?s).*(KeyboardInterrupt|unclosed file|_io.FileIO)"
    ":pytest.PytestUnraisableExceptionWarning"
)

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)


def loss(w: Any, x: Any) -> Any:
    h = mnp.tanh(x @ w)
    h = h - h.mean(1, keepdims=True)
    carry, _ = lax.scan(lambda c, row: (c * 0.5 + mnp.sin(row).sum(), None), 0.0, h)
    return (h**2).sum() + carry + mnp.linalg.det(w.T @ w + mnp.eye(5)) + mnp.fft.rfft(h[0]).real[1]


def first_call() -> Any:
    f = mgefn.jit(mgefn.value_and_grad(loss))
    value, slope = f(W, X)
    steps = [s.kind for s in f.lower(W, X).compile().report().steps]
    return float(value), np.asarray(slope).tolist(), steps


def interrupted_after(lines: int) -> tuple[int, Any]:
    """How many lines were left when the call ended, and what a call after it gives."""
    left = lines

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return line

    sys.settrace(lambda *_: line)
    try:
        first_call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    result = first_call()
    mgefn.compilation_barrier()
    return left, result


def in_child(lines: int) -> Any:
    """`interrupted_after` in a forked child; a text that says what went wrong, where it did."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            text = repr(interrupted_after(lines))
        except BaseException:
            text = repr(traceback.format_exc())
        with open(write, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"the process ended with {status}" if status else eval(text)


def main(seed: int = 0, draws: int = 100) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
    never = 1 << 40
    left, want = in_child(never)
    draw = random.Random(seed)
    wrong = 0
    for _ in range(draws):
        lines = draw.randrange(1, never - left)
        found = in_child(lines)
        if isinstance(found, str) or found[1] != want:
            wrong += 1
            print(f"after {lines} of {never - left} lines: {found}", flush=True)
    print(f"{draws} interrupts, seed {seed}: {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
