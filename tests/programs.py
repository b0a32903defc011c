"""Random well-typed programs of mgefn operations, as data.

A `Program` lists steps over numbered values: its inputs come first, each step adds one value, and
the values that no step uses are its outputs. `run` interprets one with mgefn and `reference` with
NumPy; `programs()` is the hypothesis strategy that draws them. Printing a program gives the
expression that makes it again.

Values stay within about [-4, 4] and functions are smooth almost everywhere, with kinks (max, sort,
clip, where) only where drawn inputs do not come close, so that numerical derivatives mean
something. Conditions compare with an odd constant, never with another value: two values equal in
exact arithmetic may differ in rounding between two ways to compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special
from hypothesis import strategies as st

import mgefn
from mgefn.control.checkpoint import checkpoint
from mgefn.control.custom_rules import custom_jvp, custom_vjp
from mgefn.numpy import assembling as a
from mgefn.numpy.creation import asarray
from mgefn.ops import contractions as c
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import indexing as i
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as o
from mgefn.ops import special

MAX_SIZE = 36  # elements of a value: a Jacobian takes one pass for each
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
    _run(program, values, 0, len(program.steps), MGEFN, wraps, None)
    return [values[n] for n in program.outs]


def reference(program: Program, *arrays: np.ndarray) -> list[np.ndarray]:
    """The same by NumPy."""
    values: list[Any] = list(arrays)
    with np.errstate(all="ignore"):
        _run(program, values, 0, len(program.steps), NUMPY, False, None)
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
    wraps: bool,
    inside: int | None,
) -> None:
    """Append the values of steps start to stop; the wrapping of step `inside` is already there."""
    n = start
    while n < stop:
        step = program.steps[n]
        if wraps and step.wrap is not None and n != inside:
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
        _run(program, inner, start, stop, MGEFN, True, start)
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
        return tuple(y[0] for y in outs)

    return first


WRAPS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": mgefn.jit,
    "inlined jit": lambda fun: mgefn.jit(fun, inline=True),
    "checkpoint": checkpoint,
    "custom_jvp": _by_custom_jvp,
    "custom_vjp": _by_custom_vjp,
    "vmap": _by_vmap,
}

# -- operations -----------------------------------------------------------------------------------


def _at(x: Any, index: Any, values: Any, how: str) -> Any:
    if not isinstance(x, np.ndarray | np.generic):
        return x.at[index].add(values) if how == "add" else x.at[index].set(values)
    out = np.array(x)
    if how == "add":
        np.add.at(out, index, values)
    else:
        out[index] = values
    return out


def _slope(x: Any, y: Any) -> Any:
    """The gradient of sum(sin(x) * y): a derivative inside the program, closing over y."""
    if isinstance(x, np.ndarray | np.generic):
        return np.cos(x) * y
    return mgefn.grad(lambda v: (e.sin(v) * y).sum())(x)


def _push(x: Any, y: Any) -> Any:
    """The derivative of sin(x) * y in the direction y, y being closed over."""
    if isinstance(x, np.ndarray | np.generic):
        return np.cos(x) * y * y
    return mgefn.jvp(lambda v: e.sin(v) * y, (x,), (y,))[1]


def _contract(x: Any, y: Any, kx: int, ky: int) -> Any:
    if isinstance(x, np.ndarray | np.generic):
        return np.tensordot(x, y, ((kx,), (ky,)))
    return c.dot_general(x, y, (((kx,), (ky,)), ((), ())))


MGEFN = SimpleNamespace(
    sin=e.sin, cos=e.cos, tanh=e.tanh, exp=e.exp, log=e.log, log1p=e.log1p, expm1=e.expm1,
    sqrt=e.sqrt, arctan=e.arctan, arcsinh=e.arcsinh, cbrt=e.cbrt, logistic=e.logistic,
    erf=special.erf,
    abs=e.abs, square=e.square, sinc=special.sinc, reciprocal=e.reciprocal, floor=e.floor,
    maximum=e.maximum, minimum=e.minimum, hypot=e.hypot, arctan2=e.arctan2, power=e.power,
    logaddexp=e.logaddexp, where=e.where, clip=e.clip, astype=e.astype,
    sum=r.sum, mean=r.mean, max=r.max, min=r.min, prod=r.prod, var=r.var, std=r.std,
    logsumexp=r.logsumexp, reshape=s.reshape, transpose=s.transpose, flip=s.flip,
    broadcast_to=s.broadcast_to, concatenate=a.concatenate, stack=a.stack, pad=a.pad,
    cumsum=u.cumsum, cumprod=u.cumprod, cummax=u.cummax_along, sort=o.sort,
    take_along_axis=i.take_along_axis, matmul=c.matmul, einsum=c.einsum,
)  # fmt: skip

NUMPY = SimpleNamespace(
    **{name: getattr(np, name) for name in vars(MGEFN) if hasattr(np, name)},
    logistic=scipy.special.expit,
    erf=scipy.special.erf,
    logsumexp=lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
    cummax=lambda x, axis: np.maximum.accumulate(x, axis=axis),
)

UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda xp, x: xp.sin(x),
    "tanh": lambda xp, x: xp.tanh(1.5 * x),
    "gauss": lambda xp, x: xp.exp(-x * x),
    "log": lambda xp, x: xp.log(1.5 + xp.tanh(x)),
    "log1p": lambda xp, x: xp.log1p(x * x),
    "expm1": lambda xp, x: xp.expm1(0.5 * xp.sin(x)),
    "sqrt": lambda xp, x: xp.sqrt(1 + x * x),
    "arctan": lambda xp, x: xp.arctan(x),
    "arcsinh": lambda xp, x: xp.arcsinh(x),
    "cbrt": lambda xp, x: xp.cbrt(2 + xp.cos(x)),
    "logistic": lambda xp, x: xp.logistic(2 * x),
    "erf": lambda xp, x: xp.erf(x),
    "abs": lambda xp, x: xp.abs(x - 0.123),
    "square": lambda xp, x: xp.square(xp.sin(x)),
    "cube": lambda xp, x: xp.sin(x) ** 3,
    "sinc": lambda xp, x: xp.sinc(x),
    "reciprocal": lambda xp, x: xp.reciprocal(1.5 + xp.square(xp.sin(x))),
    "flat": lambda xp, x: x - xp.floor(x - 0.123) * 0.5,
    "negative": lambda xp, x: -x,
    "guarded": lambda xp, x: xp.where(x > 0.123, xp.sqrt(x), 0.25),
}

BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, y: 0.7 * x + y * 0.5,
    "sub": lambda xp, x, y: (x - y) * 0.6,
    "mul": lambda xp, x, y: xp.sin(x) * y,
    "div": lambda xp, x, y: x / (1.5 + y * y),
    "maximum": lambda xp, x, y: xp.maximum(x, y + 0.123),
    "minimum": lambda xp, x, y: xp.minimum(x + 0.057, y),
    "hypot": lambda xp, x, y: xp.hypot(xp.sin(x), 1 + xp.square(xp.tanh(y))),
    "arctan2": lambda xp, x, y: xp.arctan2(x, 2 + xp.tanh(y)),
    "power": lambda xp, x, y: xp.power(1.5 + xp.tanh(x), xp.tanh(y)),
    "logaddexp": lambda xp, x, y: xp.logaddexp(x, y) - 1,
    "where": lambda xp, x, y: xp.where(xp.sin(3 * x) > 0.123, x, y),
    "slope": lambda xp, x, y: _slope(x, xp.tanh(y) + 0 * x) if x.shape == (x + y).shape else x,
    "push": lambda xp, x, y: _push(x, xp.tanh(y) + 0 * x) if x.shape == (x + y).shape else x,
}

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda xp, x, axis, keep: xp.sin(xp.sum(x, axis=axis, keepdims=keep)),
    "mean": lambda xp, x, axis, keep: xp.mean(x, axis=axis, keepdims=keep),
    "max": lambda xp, x, axis, keep: xp.max(x, axis=axis, keepdims=keep),
    "min": lambda xp, x, axis, keep: xp.min(x, axis=axis, keepdims=keep),
    "prod": lambda xp, x, axis, keep: xp.prod(1 + 0.4 * xp.sin(x), axis=axis, keepdims=keep),
    "var": lambda xp, x, axis, keep: xp.var(x, axis=axis, keepdims=keep),
    "std": lambda xp, x, axis, keep: xp.sqrt(0.5 + xp.var(x, axis=axis, keepdims=keep)),
    "logsumexp": lambda xp, x, axis, keep: xp.logsumexp(x, axis=axis, keepdims=keep),
}
NEED_ELEMENTS = ("mean", "max", "min", "var", "std", "logsumexp")

SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": lambda xp, x, axis: xp.tanh(xp.cumsum(x, axis=axis)),
    "cumprod": lambda xp, x, axis: xp.cumprod(1 + 0.4 * xp.sin(x), axis=axis),
    "cummax": lambda xp, x, axis: xp.cummax(x, axis=axis),
    "sort": lambda xp, x, axis: xp.sort(x, axis=axis),
    "flip": lambda xp, x, axis: xp.flip(x, axis=axis),
}


@dataclass(frozen=True)
class Op:
    """How a kind of step runs, and how it is drawn: (draw, shapes) -> (args, params) or None."""

    apply: Callable[..., Any]
    draw: Callable[[Any, list[tuple[int, ...]]], tuple[tuple[int, ...], tuple[Any, ...]] | None]


def _any(draw: Any, shapes: list, fits: Callable[[tuple[int, ...]], bool]) -> int | None:
    """The number of a value whose shape fits; late ones shrink first, which keeps chains."""
    found = [n for n, shape in enumerate(shapes) if fits(shape)]
    return draw(st.sampled_from(found[::-1])) if found else None


def _together(*shapes: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(*shapes)) <= MAX_SIZE
    except ValueError:
        return False


def _draw_unary(draw, shapes):
    return (_any(draw, shapes, lambda s: True),), (draw(st.sampled_from(list(UNARY))),)


def _draw_binary(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    y = _any(draw, shapes, lambda s: _together(s, shapes[x]))
    return (x, y), (draw(st.sampled_from(list(BINARY))),)


def _draw_select(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    y = _any(draw, shapes, lambda s: _together(s, shapes[x]))
    z = _any(draw, shapes, lambda s: _together(s, shapes[x], shapes[y]))
    return (x, y, z), ()


def _draw_clip(draw, shapes):
    return (_any(draw, shapes, lambda s: True),), (draw(st.sampled_from([0.3, 0.9])),)


def _draw_reduction(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    axes = range(len(shapes[x]))
    axis = draw(st.none() | st.lists(st.sampled_from(axes), unique=True, max_size=2).map(tuple))
    reduced = axes if axis is None else axis
    empty = any(shapes[x][k] == 0 for k in reduced)
    if axis is not None:
        axis = tuple(k - len(axes) if draw(st.booleans()) else k for k in axis)
    names = [n for n in REDUCTIONS if not (empty and n in NEED_ELEMENTS)]
    return (x,), (draw(st.sampled_from(names)), axis, draw(st.booleans()))


def _draw_scan(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    axis = draw(st.integers(-len(shapes[x]), len(shapes[x]) - 1))
    return (x,), (draw(st.sampled_from(list(SCANS))), axis)


def _draw_reshape(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    size = math.prod(shapes[x])
    if size == 0:
        new = draw(st.permutations(shapes[x]))
    else:
        new, rest = [], size
        for _ in range(draw(st.integers(0, 2))):
            d = draw(st.sampled_from([k for k in range(1, rest + 1) if rest % k == 0]))
            new.append(d)
            rest //= d
        if rest > 1 or draw(st.booleans()):
            new.append(rest)
    return (x,), (tuple(new),)


def _draw_transpose(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    return (x,), (tuple(draw(st.permutations(range(len(shapes[x]))))),)


def _draw_broadcast(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) < 3)
    if x is None:
        return None
    lead = draw(st.sampled_from([1, 2, 3, 0]))
    new = (lead, *(draw(st.sampled_from([1, 2, 3])) if d == 1 else d for d in shapes[x]))
    return (x,), (new,)


def _draw_concatenate(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    axis = draw(st.integers(0, len(shapes[x]) - 1))
    rest = _without(shapes[x], axis)
    y = _any(draw, shapes, lambda s: len(s) == len(shapes[x]) and _without(s, axis) == rest)
    return (x, y, x)[: draw(st.integers(2, 3))], (axis,)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _draw_stack(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) < 3)
    if x is None:
        return None
    y = _any(draw, shapes, lambda s: s == shapes[x])
    return (x, y), (draw(st.integers(0, len(shapes[x]))),)


def _draw_pad(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    width = st.integers(0, 2)
    return (x,), (tuple((draw(width), draw(width)) for _ in shapes[x]),)


# An index as data: entries ("int", i), ("slice", start, stop, step), ("new",), ("rest",) and
# ("array", nested tuples of ints).
def _index(entries: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    out: list[Any] = []
    for kind, *values in entries:
        if kind == "int":
            out.append(values[0])
        elif kind == "slice":
            out.append(slice(*values))
        elif kind == "new":
            out.append(None)
        elif kind == "rest":
            out.append(Ellipsis)
        else:
            out.append(np.array(values[0], dtype=np.int64))
    return tuple(out)


def _draw_entries(draw, shape: tuple[int, ...], arrays: bool, unique: bool = False):
    entries: list[tuple[Any, ...]] = []
    n_array = draw(st.integers(1, 3))
    for d in shape:
        kinds = ["slice"]
        if d:
            kinds += ["int"] + (["array"] if arrays else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "int":
            entries.append(("int", draw(st.integers(-d, d - 1))))
        elif kind == "array":
            if unique:
                chosen = draw(st.permutations(range(d)))[: min(n_array, d)]
                entries.append(("array", tuple(chosen)))
                arrays = False  # one index array whose elements differ: no element is met twice
            else:
                one = st.integers(-d, d - 1)
                entries.append(("array", tuple(draw(one) for _ in range(n_array))))
        else:
            edge = st.none() | st.integers(-d - 1, d + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            entries.append(("slice", draw(edge), draw(edge), step))
    if draw(st.booleans()):
        entries = entries[: draw(st.integers(0, len(entries)))]
        entries.append(("rest",))
    if draw(st.integers(0, 3)) == 3:
        entries.insert(draw(st.integers(0, len(entries))), ("new",))
    return tuple(entries)


def _draw_getitem(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    return (x,), (_draw_entries(draw, shapes[x], draw(st.booleans())),)


def _draw_update(draw, shapes):
    x = _any(draw, shapes, lambda s: True)
    how = draw(st.sampled_from(["add", "set"]))
    entries = _draw_entries(draw, shapes[x], draw(st.booleans()), unique=how == "set")
    target = np.zeros(shapes[x])[_index(entries)].shape
    y = _any(
        draw, shapes, lambda s: _together(s, target) and np.broadcast_shapes(s, target) == target
    )
    return None if y is None else ((x, y), (entries, how))


def _draw_take(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0 and 0 not in s)
    if x is None:
        return None
    axis = draw(st.integers(0, len(shapes[x]) - 1))
    n = draw(st.integers(1, 3))
    shape = (*shapes[x][:axis], n, *shapes[x][axis + 1 :])
    return (x,), (axis, shape, draw(st.integers(0, 1000)))


def _take(xp, params, x):
    axis, shape, seed = params
    rows = np.random.default_rng(seed).integers(0, x.shape[axis], shape)
    return xp.take_along_axis(x, rows, axis=axis)


def _draw_matmul(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    k = shapes[x][-1]
    y = _any(
        draw,
        shapes,
        lambda s: bool(s) and s[-2 if len(s) > 1 else 0] == k
        and _together(s[:-2], shapes[x][:-2])
        and math.prod(np.broadcast_shapes(s[:-2], shapes[x][:-2])) * 9 <= MAX_SIZE,
    )  # fmt: skip
    return None if y is None else ((x, y), ())


def _draw_contract(draw, shapes):
    x = _any(draw, shapes, lambda s: 0 < len(s) < 3)
    if x is None:
        return None
    kx = draw(st.integers(0, len(shapes[x]) - 1))
    d = shapes[x][kx]
    y = _any(draw, shapes, lambda s: 0 < len(s) < 3 and d in s)
    return None if y is None else ((x, y), (kx, shapes[y].index(d)))


# spec -> shapes it takes, a letter standing for one size
EINSUMS = (
    "ij->ji",
    "ij->i",
    "ii->i",
    "i,i->",
    "i,j->ij",
    "ij,j->i",
    "ij,kj->ik",
    "ij,ij->j",
    "bij,bj->bi",
)


def _draw_einsum(draw, shapes):
    spec = draw(st.sampled_from(EINSUMS))
    sizes: dict[str, int] = {}
    args = []
    for term in spec.split("->")[0].split(","):

        def fits(shape: tuple[int, ...], term: str = term) -> bool:
            if len(shape) != len(term):
                return False
            seen = dict(sizes)
            return all(seen.setdefault(t, d) == d for t, d in zip(term, shape, strict=True))

        x = _any(draw, shapes, fits)
        if x is None:
            return None
        args.append(x)
        sizes.update(zip(term, shapes[x], strict=True))
    return tuple(args), (spec,)


def _draw_narrow(draw, shapes):
    return (_any(draw, shapes, lambda s: True),), ()


OPS: dict[str, Op] = {
    "unary": Op(lambda xp, p, x: UNARY[p[0]](xp, x), _draw_unary),
    "binary": Op(lambda xp, p, x, y: BINARY[p[0]](xp, x, y), _draw_binary),
    "select": Op(lambda xp, p, x, y, z: xp.where(xp.sin(3 * x) > 0.123, y, z), _draw_select),
    "clip": Op(lambda xp, p, x: xp.clip(x, -p[0], p[0] + 0.1), _draw_clip),
    "reduction": Op(lambda xp, p, x: REDUCTIONS[p[0]](xp, x, *p[1:]), _draw_reduction),
    "scan": Op(lambda xp, p, x: SCANS[p[0]](xp, x, *p[1:]), _draw_scan),
    "reshape": Op(lambda xp, p, x: xp.reshape(x, p[0]), _draw_reshape),
    "transpose": Op(lambda xp, p, x: xp.transpose(x, p[0]), _draw_transpose),
    "broadcast": Op(lambda xp, p, x: xp.broadcast_to(x, p[0]), _draw_broadcast),
    "concatenate": Op(lambda xp, p, *xs: xp.concatenate(list(xs), axis=p[0]), _draw_concatenate),
    "stack": Op(lambda xp, p, *xs: xp.stack(list(xs), axis=p[0]), _draw_stack),
    "pad": Op(lambda xp, p, x: xp.pad(x, p[0], constant_values=0.31), _draw_pad),
    "getitem": Op(lambda xp, p, x: x[_index(p[0])], _draw_getitem),
    "update": Op(lambda xp, p, x, y: _at(x, _index(p[0]), y, p[1]), _draw_update),
    "take_along_axis": Op(_take, _draw_take),
    "matmul": Op(lambda xp, p, x, y: xp.tanh(xp.matmul(x, y)), _draw_matmul),
    "dot_general": Op(lambda xp, p, x, y: xp.sin(_contract(x, y, *p)), _draw_contract),
    "einsum": Op(lambda xp, p, *xs: xp.sin(xp.einsum(p[0], *xs)), _draw_einsum),
    "narrow": Op(lambda xp, p, x: xp.astype(xp.astype(x, np.float32), np.float64), _draw_narrow),
}

# -- the strategy ---------------------------------------------------------------------------------

_dims = st.sampled_from([2, 3, 1, 0])


@st.composite
def programs(
    draw: Any,
    *,
    wraps: Sequence[str] = tuple(WRAPS),
    narrow: bool = False,
    max_steps: int = MAX_STEPS,
) -> Program:
    """Programs of up to max_steps steps on one to three inputs of rank 0 to 3.

    Args:
        wraps: the kinds of wrapping that may occur.
        narrow: values may pass through float32, which is too coarse for derivatives.
    """
    shapes = [tuple(draw(st.lists(_dims, max_size=3))) for _ in range(draw(st.integers(1, 3)))]
    inputs = tuple(shapes)
    names = [name for name in OPS if narrow or name != "narrow"]
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, max_steps))):
        name = draw(st.sampled_from(names))
        drawn = OPS[name].draw(draw, shapes)
        if drawn is None:
            continue
        args, params = drawn
        # The type of a step is what NumPy makes of zeros.
        operands = [np.zeros(shapes[k]) for k in args]
        with np.errstate(all="ignore"):
            shape = np.shape(OPS[name].apply(NUMPY, params, *operands))
        if math.prod(shape) > MAX_SIZE or len(shape) > 4:
            continue
        wrap = draw(st.sampled_from([None, None, None, *wraps])) if wraps else None
        span = draw(st.integers(1, 4)) if wrap is not None else 1
        steps.append(Step(name, args, params, wrap, span))
        shapes.append(shape)
    return Program(inputs, tuple(steps), draw(st.integers(0, 2**32 - 1)))
