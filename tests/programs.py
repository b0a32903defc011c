"""Random well-typed programs of mgefn operations, as data.

A `Program` lists steps over numbered values: its inputs come first, each step adds one value, and
the values that no step uses are its outputs. `run` interprets one with mgefn and `reference` with
NumPy; `programs()` is the hypothesis strategy that draws them. Printing a program gives the
expression that makes it again. What a step can be stands in tests/program_steps.py; branches and
bodies of loops are programs themselves, whose last value counts.

Values stay within about [-4, 4] and functions are smooth almost everywhere, with kinks (max, sort,
clip, where) only where drawn inputs do not come close, so that numerical derivatives mean
something. Conditions compare with an odd constant, never with another value: two values equal in
exact arithmetic may differ in rounding between two ways to compute them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import mgefn
from mgefn import lax
from mgefn.control.checkpoint import checkpoint
from mgefn.control.custom_rules import custom_jvp, custom_vjp
from mgefn.numpy.creation import asarray
from tests import program_steps
from tests.program_steps import CONTROL, MAX_SIZE, OFTEN, OPS

MAX_STEPS = 12

# -- programs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """value = op(*args; params), the args being numbers of earlier values.

    `wrap` names a transformation that holds this step and the `span - 1` after it.
    """

    op: str
    args: tuple[int, ...]
    params: tuple[Any, ...] = ()
    wrap: str | None = None
    span: int = 1


@dataclass(frozen=True)
class Program:
    """Inputs of `shapes` and the steps on them; `seed` gives the inputs' values."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    seed: int = 0

    @property
    def outs(self) -> tuple[int, ...]:
        """Numbers of the values that nothing uses."""
        used = {n for step in self.steps for n in step.args}
        last = len(self.shapes) + len(self.steps)
        return tuple(n for n in range(last) if n not in used)

    def arrays(self, batch: int | None = None) -> list[np.ndarray]:
        """float64 inputs, with a leading batch axis if asked for."""
        rng = np.random.default_rng(self.seed)
        lead = () if batch is None else (batch,)
        # asarray: a NumPy scalar would count as a weak Python number.
        return [np.asarray(rng.uniform(-1.3, 1.3, (*lead, *shape))) for shape in self.shapes]


def run(program: Program, *arrays: Any, wraps: bool = True) -> list[Any]:
    """The outputs of a program on arrays or tracers; wraps=False leaves the wrappings out."""
    # asarray: NumPy's own arithmetic on rank 0 would give NumPy scalars.
    values = [asarray(x) for x in arrays]
    _run(program, values, 0, len(program.steps), WRAPPED if wraps else PLAIN, None)
    return [values[n] for n in program.outs]


def reference(program: Program, *arrays: np.ndarray) -> list[np.ndarray]:
    """The same by NumPy."""
    values: list[Any] = list(arrays)
    with np.errstate(all="ignore"):
        _run(program, values, 0, len(program.steps), NUMPY, None)
    return [values[n] for n in program.outs]


def loss(program: Program, *arrays: Any, wraps: bool = True) -> Any:
    """A weighted sum of all outputs, of rank 0."""
    return weighted(run(program, *arrays, wraps=wraps))


def weighted(outs: Sequence[Any]) -> Any:
    """sum(w * out), with fixed weights that are all different."""
    total: Any = 0.0
    for k, out in enumerate(outs):
        w = np.cos(np.arange(math.prod(out.shape)) + 2.0 * k).reshape(out.shape)
        total = total + (out * w).sum()
    return total


def _run(
    program: Program,
    values: list[Any],
    start: int,
    stop: int,
    xp: Any,
    inside: int | None,
) -> None:
    """Append the values of steps start to stop; the wrapping of step `inside` is already there."""
    n = start
    while n < stop:
        step = program.steps[n]
        if xp.wraps and step.wrap is not None and n != inside:
            end = min(n + step.span, stop)
            values.extend(_wrapped(program, values, n, end, step.wrap))
            n = end
        else:
            operands = [values[k] for k in step.args]
            values.append(OPS[step.op].apply(xp, step.params, *operands))
            n += 1


def _wrapped(program: Program, values: list[Any], start: int, stop: int, kind: str) -> Any:
    """Steps start to stop inside a transformation that does not change their meaning."""
    values = list(values)  # as they are now: rules run when the caller's list has grown
    known = len(values)
    needed = sorted({k for step in program.steps[start:stop] for k in step.args if k < known})
    # Every second value comes in as an argument and the others by closure. A custom_vjp's rule
    # gives the derivative in its arguments only, so it gets all.
    given = needed if kind == "custom_vjp" else needed[::2]

    def fun(*args: Any) -> tuple[Any, ...]:
        inner = list(values)
        for k, x in zip(given, args, strict=True):
            inner[k] = x
        _run(program, inner, start, stop, WRAPPED, start)
        return tuple(inner[known:])

    return WRAPS[kind](fun)(*[values[k] for k in given])


def _by_custom_jvp(fun: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_jvp(fun)
    held.defjvp(lambda primals, tangents: mgefn.jvp(fun, primals, tangents))
    return held


def _by_custom_vjp(fun: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_vjp(fun)
    held.defvjp(lambda *xs: (fun(*xs), xs), lambda xs, cts: mgefn.vjp(fun, *xs)[1](cts))
    return held


def _by_vmap(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The first of a batch of two equal examples."""

    def first(*xs: Any) -> tuple[Any, ...]:
        outs = mgefn.vmap(fun, in_axes=tuple([None] * len(xs)), axis_size=2)(*xs)
        return mgefn.tree.map(lambda y: y[0], outs)

    return first


def _by_scan(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A loop of one step."""

    def only(*xs: Any) -> Any:
        outs = lax.scan(lambda carry, rows: (carry, fun(*rows)), (), [x[None] for x in xs])[1]
        return mgefn.tree.map(lambda y: y[0], outs)

    return only


def _by_cond(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The branch that is taken, though a program can't know it."""

    def taken(*xs: Any) -> Any:
        no = lambda *xs: mgefn.tree.map(lambda y: 0.5 * y, fun(*xs))
        return lax.cond((xs[0] < 1e9).all(), fun, no, *xs)

    return taken


WRAPS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": mgefn.jit,
    "inlined jit": lambda fun: mgefn.jit(fun, inline=True),
    "checkpoint": checkpoint,
    "custom_jvp": _by_custom_jvp,
    "custom_vjp": _by_custom_vjp,
    "vmap": _by_vmap,
    "scan": _by_scan,
    "cond": _by_cond,
}


def _call(xp: Any, program: Program, *operands: Any) -> list[Any]:
    """All values of a program inside a loop or branch."""
    values = list(operands)
    _run(program, values, 0, len(program.steps), xp, None)
    return values


def _namespace(names: SimpleNamespace, wraps: bool) -> SimpleNamespace:
    xp = SimpleNamespace(**vars(names), wraps=wraps)
    xp.call = partial(_call, xp)
    return xp


WRAPPED = _namespace(program_steps.MGEFN, wraps=True)
PLAIN = _namespace(program_steps.MGEFN, wraps=False)
NUMPY = _namespace(program_steps.NUMPY, wraps=False)

# -- the strategy ---------------------------------------------------------------------------------

_dims = st.sampled_from([2, 3, 1, 0])


@dataclass(frozen=True)
class Drawing:
    """What may be drawn where: hypothesis' draw function, and the settings of `programs`."""

    draw: Callable[[Any], Any]
    wraps: Sequence[str]
    narrow: bool
    reverse: bool
    depth: int = 0

    def __call__(self, strategy: Any) -> Any:
        return self.draw(strategy)

    def body(self, *shapes: tuple[int, ...]) -> Program:
        """A short program on values of these shapes."""
        inner = dataclasses.replace(self, depth=self.depth + 1)
        return Program(shapes, tuple(inner.steps(list(shapes), 3)))

    def steps(self, shapes: list[tuple[int, ...]], most: int) -> list[Step]:
        """Up to `most` steps; their shapes are appended to `shapes`."""
        left_out = set(CONTROL) if self.depth > 1 else set()
        left_out |= set() if self.narrow else {"narrow"}
        left_out |= {"while_loop"} if self.reverse else set()
        names = [n for n in OPS if n not in left_out for _ in range(OFTEN.get(n, 1))]
        steps: list[Step] = []
        for _ in range(self(st.integers(1, most))):
            name = self(st.sampled_from(names))
            drawn = OPS[name].draw(self, shapes)
            if drawn is None:
                continue
            args, params = drawn
            # The type of a step is what NumPy makes of zeros.
            operands = [np.zeros(shapes[k]) for k in args]
            with np.errstate(all="ignore"):
                shape = np.shape(OPS[name].apply(NUMPY, params, *operands))
            if math.prod(shape) > MAX_SIZE or len(shape) > 4:
                continue
            wrap = self(st.sampled_from([None] * 5 + list(self.wraps))) if self.wraps else None
            span = self(st.integers(1, 4)) if wrap is not None else 1
            steps.append(Step(name, args, params, wrap, span))
            shapes.append(shape)
        return steps


@st.composite
def programs(
    draw: Any,
    *,
    wraps: Sequence[str] = tuple(WRAPS),
    narrow: bool = False,
    reverse: bool = True,
    max_steps: int = MAX_STEPS,
) -> Program:
    """Programs of up to max_steps steps on one to three inputs of rank 0 to 3.

    Args:
        wraps: the kinds of wrapping that may occur.
        narrow: values may pass through float32, which is too coarse for derivatives.
        reverse: the program must have reverse derivatives; else it may hold while loops.
    """
    inputs = [tuple(draw(st.lists(_dims, max_size=3))) for _ in range(draw(st.integers(1, 3)))]
    steps = Drawing(draw, wraps, narrow, reverse).steps(list(inputs), max_steps)
    return Program(tuple(inputs), tuple(steps), draw(st.integers(0, 2**32 - 1)))
