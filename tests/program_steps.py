"""The operations of the random programs in tests/programs.py, and how each is drawn.

Every operation runs on mgefn's functions and on NumPy's: it takes its names from a namespace, MGEFN
or NUMPY, which tests/programs.py completes with `call`, to run the program inside a loop or branch.
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
from mgefn import lax
from mgefn.numpy import assembling as a
from mgefn.numpy import linalg
from mgefn.ops import contractions as c
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import indexing as i
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as o
from mgefn.ops import special

MAX_SIZE = 36  # elements of a value: a Jacobian takes one pass for each


def is_numpy(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def _at(xp: Any, x: Any, index: Any, values: Any, how: str) -> Any:
    if how == "multiply":
        values = 1.2 * xp.tanh(values)
    elif how in ("min", "max"):
        values = values + 0.057
    if not is_numpy(x):
        return getattr(x.at[index], how)(values)
    out = np.array(x)
    if how == "set":
        out[index] = values
    else:
        UFUNCS[how].at(out, index, values)
    return out


def _slope(x: Any, y: Any) -> Any:
    """The gradient of sum(sin(x) * y): a derivative inside the program, closing over y."""
    if is_numpy(x):
        return np.cos(x) * y
    return mgefn.grad(lambda v: (e.sin(v) * y).sum())(x)


def _push(x: Any, y: Any) -> Any:
    """The derivative of sin(x) * y in the direction y, y being closed over."""
    if is_numpy(x):
        return np.cos(x) * y * y
    return mgefn.jvp(lambda v: e.sin(v) * y, (x,), (y,))[1]


def _contract(x: Any, y: Any, kx: int, ky: int) -> Any:
    if is_numpy(x):
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
    cumsum=u.cumsum_along, cumprod=u.cumprod_along, cummax=u.cummax_along,
    cummin=u.cummin_along, cumlogsumexp=u.cumlogsumexp_along,
    sort=o.sort, argsort=o.argsort, median=o.median, quantile=o.quantile, top_k=o.top_k,
    take_along_axis=i.take_along_axis, matmul=c.matmul, einsum=c.einsum, swapaxes=s.swapaxes,
    linalg=linalg, triangular_solve=lax.linalg.triangular_solve,
    dynamic_slice=lax.dynamic_slice, dynamic_update_slice=lax.dynamic_update_slice,
    cond=lax.cond, switch=lax.switch, scan=lax.scan, map=lax.map, fori_loop=lax.fori_loop,
    while_loop=lax.while_loop, associative_scan=lax.associative_scan,
)  # fmt: skip


# -- NumPy's counterparts of what only mgefn has --------------------------------------------------


def _accumulated(ufunc: Any) -> Callable[..., Any]:
    def cumulative(x: Any, axis: int, reverse: bool) -> Any:
        x = np.flip(x, axis) if reverse else x
        y = ufunc.accumulate(x, axis=axis)
        return np.flip(y, axis) if reverse else y

    return cumulative


def _top_k(x: Any, k: int) -> Any:
    places = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, places, -1), places


def _triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        eye = np.eye(a.shape[-1])
        a = a * (1 - eye) + eye
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    if left_side:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def _window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Where dynamic slices lie: negative starts count from the end, then all are clamped."""
    out = []
    for d, start, size in zip(shape, starts, sizes, strict=True):
        start = int(start) + d if start < 0 else int(start)
        start = min(max(start, 0), d - size)
        out.append(slice(start, start + size))
    return tuple(out)


def _dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    out = np.array(x)
    out[_window(x.shape, starts, update.shape)] = update
    return out


def _scan(
    step: Any, carry: Any, xs: Any, *, reverse: bool = False, unroll: int = 1, length: None = None
) -> Any:
    rows = list(xs)
    ys = []
    for row in rows[::-1] if reverse else rows:
        carry, y = step(carry, row)
        ys.append(y)
    if not ys:
        y = step(carry, np.zeros(xs.shape[1:]))[1]
        return carry, np.zeros((0, *np.shape(y)))
    return carry, np.stack(ys[::-1] if reverse else ys)


def _map(f: Any, xs: Any, *, batch_size: int | None = None) -> Any:
    return _scan(lambda carry, row: (carry, f(row)), None, xs)[1]


def _fori_loop(lower: int, upper: int, body: Any, x: Any) -> Any:
    for n in range(lower, upper):
        x = body(np.asarray(n), x)
    return x


def _while_loop(condition: Any, body: Any, x: Any) -> Any:
    while condition(x):
        x = body(x)
    return x


def _associative_scan(fn: Any, elems: tuple, *, reverse: bool, axis: int) -> tuple:
    parts = [np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in elems]
    rows = list(zip(*parts, strict=True))
    for n in range(1, len(rows)):
        rows[n] = fn(rows[n - 1], rows[n])
    outs = [np.stack(column) for column in zip(*rows, strict=True)] if rows else parts
    outs = [np.moveaxis(y, 0, axis) for y in outs]
    return tuple(np.flip(y, axis) for y in outs) if reverse else tuple(outs)


NUMPY = SimpleNamespace(
    **{name: getattr(np, name) for name in vars(MGEFN) if hasattr(np, name)}
    | {"cumsum": _accumulated(np.add), "cumprod": _accumulated(np.multiply)},
    logistic=scipy.special.expit,
    erf=scipy.special.erf,
    logsumexp=lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
    cummax=_accumulated(np.maximum),
    cummin=_accumulated(np.minimum),
    cumlogsumexp=_accumulated(np.logaddexp),
    top_k=_top_k,
    triangular_solve=_triangular_solve,
    dynamic_slice=lambda x, starts, sizes: x[_window(x.shape, starts, sizes)],
    dynamic_update_slice=_dynamic_update_slice,
    cond=lambda p, true_fun, false_fun, *xs: true_fun(*xs) if p else false_fun(*xs),
    switch=lambda k, branches, *xs: branches[min(max(int(k), 0), len(branches) - 1)](*xs),
    scan=_scan,
    map=_map,
    fori_loop=_fori_loop,
    while_loop=_while_loop,
    associative_scan=_associative_scan,
)

# -- one operand or two ---------------------------------------------------------------------------

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

CUMULATIVE: dict[str, Callable[..., Any]] = {
    "cumsum": lambda xp, x, axis, back: xp.tanh(xp.cumsum(x, axis, back)),
    "cumprod": lambda xp, x, axis, back: xp.cumprod(1 + 0.4 * xp.sin(x), axis, back),
    "cummax": lambda xp, x, axis, back: xp.cummax(x, axis, back),
    "cummin": lambda xp, x, axis, back: xp.cummin(x, axis, back),
    "cumlogsumexp": lambda xp, x, axis, back: xp.cumlogsumexp(x, axis, back),
    "sort": lambda xp, x, axis, back: xp.sort(x, axis=axis),
    "flip": lambda xp, x, axis, back: xp.flip(x, axis=axis),
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


def _draw_cumulative(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    axis = draw(st.integers(0, len(shapes[x]) - 1))
    return (x,), (draw(st.sampled_from(list(CUMULATIVE))), axis, draw(st.booleans()))


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


# An index as data: entries ("int", i), ("slice", start, stop, step), ("new",), ("rest",),
# ("array", nested tuples of ints) and ("mask", tuple of bools).
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
            out.append(np.array(values[0], dtype=np.int64 if kind == "array" else np.bool_))
    return tuple(out)


def _draw_entries(draw, shape: tuple[int, ...], arrays: bool, unique: bool = False):
    entries: list[tuple[Any, ...]] = []
    n_array = draw(st.integers(1, 3))
    for d in shape:
        kinds = ["slice"]
        if d:
            kinds += ["int"] + (["array"] if arrays else [])
            # A mask stands for as many places as it has True: it meets no other array.
            kinds += ["mask"] if arrays and all(k != "array" for k, *_ in entries) else []
        kind = draw(st.sampled_from(kinds))
        if kind == "int":
            entries.append(("int", draw(st.integers(-d, d - 1))))
        elif kind == "mask":
            entries.append(("mask", tuple(draw(st.booleans()) for _ in range(d))))
            arrays = False
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
    how = draw(st.sampled_from(["set", *UFUNCS]))
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


# -- linear algebra -------------------------------------------------------------------------------


def _matrix(xp: Any, x: Any, spread: float = 0.0) -> Any:
    """Matrices far from singular; a spread keeps the singular values 1 or more apart (Weyl)."""
    m, n = x.shape[-2:]
    return xp.tanh(x) / max(m, n, 1) + np.eye(m, n) * (1.5 + spread * np.arange(n))


def _gram(xp: Any, x: Any, spread: float = 0.0) -> Any:
    """Positive definite matrices; a spread keeps the eigenvalues 2 or more apart."""
    m, n = x.shape[-2:]
    t = xp.tanh(x)
    return xp.matmul(t, xp.swapaxes(t, -1, -2)) / max(m * n, 1) + np.diag(1 + spread * np.arange(m))


def _signed_qr(xp: Any, x: Any) -> tuple[Any, Any]:
    """The decomposition with a positive diagonal, which is unique."""
    q, r = xp.linalg.qr(_matrix(xp, x))
    k = np.arange(min(x.shape[-2:]))
    signs = xp.where(r[..., k, k] > 0, 1.0, -1.0)
    return q * signs[..., None, :], r * signs[..., :, None]


def _eigen_function(xp: Any, x: Any) -> Any:
    w, v = xp.linalg.eigh(_gram(xp, x, 3.0))
    return xp.einsum("...ij,...j,...kj->...ik", v, xp.tanh(0.3 * w), v)


def _singular_function(xp: Any, x: Any) -> Any:
    u, s, vt = xp.linalg.svd(_matrix(xp, x, 3.0), full_matrices=False)
    return xp.matmul(u * xp.tanh(0.3 * s)[..., None, :], vt)


# Decompositions only by functions that no choice of signs or phases changes.
LINALG: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda xp, x: xp.linalg.cholesky(_gram(xp, x)),
    "qr q": lambda xp, x: _signed_qr(xp, x)[0],
    "qr r": lambda xp, x: _signed_qr(xp, x)[1],
    "eigvalsh": lambda xp, x: 0.2 * xp.linalg.eigvalsh(_gram(xp, x, 3.0)),
    "eigh": _eigen_function,
    "svdvals": lambda xp, x: 0.2 * xp.linalg.svd(_matrix(xp, x, 3.0), compute_uv=False),
    "svd": _singular_function,
    "pinv": lambda xp, x: xp.linalg.pinv(_matrix(xp, x)),
    "inv": lambda xp, x: xp.linalg.inv(_matrix(xp, x)),
    "det": lambda xp, x: xp.tanh(0.3 * xp.linalg.det(_matrix(xp, x))),
    "slogdet": lambda xp, x: xp.linalg.slogdet(_matrix(xp, x))[1],
    "matrix_power": lambda xp, x: xp.tanh(xp.linalg.matrix_power(_matrix(xp, x), 3)),
}
NEED_SQUARE = ("inv", "det", "slogdet", "matrix_power")


def _draw_linalg(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 1)
    if x is None:
        return None
    m, n = shapes[x][-2:]
    return (x,), (draw(st.sampled_from([k for k in LINALG if m == n or k not in NEED_SQUARE])),)


def _norm(xp: Any, params: tuple, x: Any) -> Any:
    order, axis, keep = params
    x = 1.5 + xp.tanh(x) if not isinstance(axis, tuple) else _matrix(xp, x, 3.0)
    return 0.3 * xp.linalg.norm(x, ord=order, axis=axis, keepdims=keep)


def _draw_norm(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0 and 0 not in s)
    if x is None:
        return None
    rank = len(shapes[x])
    if rank > 1 and draw(st.booleans()):
        axis, orders = (-2, -1), ["fro", "nuc", 2]
    else:
        axis, orders = draw(st.integers(-rank, rank - 1)), [None, 1, 2, 3]
    return (x,), (draw(st.sampled_from(orders)), axis, draw(st.booleans()))


def _square(s: tuple[int, ...]) -> bool:
    return len(s) > 1 and s[-1] == s[-2]


def _draw_solve(draw, shapes):
    x = _any(draw, shapes, _square)
    if x is None:
        return None
    m = shapes[x][-1]
    y = _any(
        draw,
        shapes,
        lambda s: (
            s == (m,)
            or (
                len(s) > 1
                and s[-2] == m
                and _together((*shapes[x][:-2], 1, 1), (*s[:-2], m, s[-1]))
            )
        ),
    )
    return None if y is None else ((x, y), ())


def _solve(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    return xp.linalg.solve(_matrix(xp, x), y)


def _draw_triangular(draw, shapes):
    x = _any(draw, shapes, _square)
    if x is None:
        return None
    left = draw(st.booleans())
    *lead, m = shapes[x][:-1]
    y = _any(
        draw,
        shapes,
        lambda s: len(s) > 1 and list(s[:-2]) == lead and s[-2 if left else -1] == m,
    )
    flags = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return None if y is None else ((x, y), (left, *flags))


def _solve_triangular(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    left, lower, transpose, unit = params
    return xp.triangular_solve(
        _matrix(xp, x), y, left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )


# -- computed indices -----------------------------------------------------------------------------


def _total(xp: Any, x: Any) -> Any:
    return xp.sum(xp.sin(x))


def _places(xp: Any, y: Any, size: int, negative: bool = False) -> Any:
    """Integers in [0, size) or [-size, 0) computed from y."""
    part = 0.498 + 0.49 * xp.sin(2.3 * y)
    places = xp.astype(xp.floor(size * part), np.int32)
    return places - size if negative else places


def _spread_out(xp: Any, x: Any) -> Any:
    """x without ties, for an order that rounding does not decide."""
    return x + 0.0137 * np.cos(1 + np.arange(math.prod(x.shape))).reshape(x.shape)


def _draw_gather(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0 and 0 not in s)
    if x is None:
        return None
    axis = draw(st.integers(0, len(shapes[x]) - 1))
    y = _any(draw, shapes, lambda s: len(s) < 3)
    return None if y is None else ((x, y), (axis, draw(st.booleans())))


def _gather(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    axis, negative = params
    return x[(*[slice(None)] * axis, _places(xp, y, x.shape[axis], negative))]


def _draw_scatter(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0 and 0 not in s)
    if x is None:
        return None
    d, *rest = shapes[x]
    how = draw(st.sampled_from(["set", *UFUNCS]))
    # Equal places would leave open which of two values is set, so then they come from an order.
    y = _any(draw, shapes, lambda s: s == (d,) if how == "set" else len(s) < 3)
    if y is None:
        return None
    target = (*shapes[y], *rest)
    v = _any(draw, shapes, lambda s: _together(s, target) and _fits(s, target))
    return None if v is None else ((x, y, v), (how, draw(st.booleans())))


def _scatter(xp: Any, params: tuple, x: Any, y: Any, v: Any) -> Any:
    how, negative = params
    if how == "set":
        places = xp.argsort(_spread_out(xp, y), axis=0, stable=True)
    else:
        places = _places(xp, y, x.shape[0], negative)
    return _at(xp, x, places, v, how)


def _starts(xp: Any, y: Any, rank: int) -> list[Any]:
    """Integers from -2 to 3, which dynamic slices clamp."""
    total = _total(xp, y)
    return [xp.astype(xp.floor(2.6 * xp.sin(total + k) + 0.623), np.int32) for k in range(rank)]


def _draw_slice(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    y = _any(draw, shapes, lambda s: True)
    return (x, y), (tuple(draw(st.integers(0, d)) for d in shapes[x]),)


def _slice(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    return xp.dynamic_slice(x, _starts(xp, y, len(x.shape)), params[0])


def _draw_update_slice(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    y = _any(draw, shapes, lambda s: True)
    u = _any(
        draw,
        shapes,
        lambda s: (
            len(s) == len(shapes[x]) and all(n <= d for n, d in zip(s, shapes[x], strict=True))
        ),
    )
    return (x, y, u), ()


def _update_slice(xp: Any, params: tuple, x: Any, y: Any, u: Any) -> Any:
    return xp.dynamic_update_slice(x, u, _starts(xp, y, len(x.shape)))


# -- order ----------------------------------------------------------------------------------------


def _by_argsort(xp: Any, x: Any, y: Any, axis: int) -> Any:
    places = xp.argsort(_spread_out(xp, x), axis=axis, stable=True)
    return xp.take_along_axis(y, places, axis=axis)


def _by_top_k(xp: Any, x: Any, y: Any, axis: int) -> Any:
    most, places = xp.top_k(_spread_out(xp, x), (x.shape[-1] + 1) // 2)
    return 0.5 * most + xp.take_along_axis(y, places, axis=-1)


def _by_places(xp: Any, x: Any, y: Any, axis: int) -> Any:
    places = _places(xp, x, y.shape[axis])
    return xp.take_along_axis(y, places, axis=axis)


ORDERS: dict[str, Callable[..., Any]] = {
    "argsort": _by_argsort,
    "top_k": _by_top_k,
    "places": _by_places,
    "median": lambda xp, x, y, axis: xp.median(_spread_out(xp, x), axis=axis) + 0 * xp.sum(y),
    "quantile": lambda xp, x, y, axis: xp.quantile(_spread_out(xp, x + y), 0.3, axis=axis),
}


def _draw_order(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0 and 0 not in s)
    if x is None:
        return None
    y = _any(draw, shapes, lambda s: s == shapes[x])
    axis = draw(st.integers(-len(shapes[x]), len(shapes[x]) - 1))
    return (x, y), (draw(st.sampled_from(list(ORDERS))), axis)


# -- control flow ---------------------------------------------------------------------------------


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == tuple(target)
    except ValueError:
        return False


def _fit(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """x, or where its shape does not fit a number from it, in this shape."""
    if x.shape == shape:
        return x
    return xp.broadcast_to(x if _fits(x.shape, shape) else xp.sin(xp.sum(x)), shape)


ASSOCIATIVE: dict[str, Callable[..., Any]] = {
    "add": lambda xp, f, g: (f[0] + g[0], f[1] + g[1]),
    "multiply": lambda xp, f, g: (f[0] * g[0], f[1] * g[1]),
    "maximum": lambda xp, f, g: (xp.maximum(f[0], g[0]), f[1] + g[1]),
    # x -> a x + b, one function after the other
    "affine": lambda xp, f, g: (f[0] * g[0], g[0] * f[1] + g[1]),
}


def _draw_associative(draw, shapes):
    x = _any(draw, shapes, lambda s: len(s) > 0)
    if x is None:
        return None
    y = _any(draw, shapes, lambda s: s == shapes[x])
    axis = draw(st.integers(0, len(shapes[x]) - 1))
    return (x, y), (draw(st.sampled_from(list(ASSOCIATIVE))), draw(st.booleans()), axis)


def _scan_associative(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    name, reverse, axis = params
    fn = lambda f, g: ASSOCIATIVE[name](xp, f, g)
    elems = (xp.tanh(x), y)
    first, second = xp.associative_scan(fn, elems, reverse=reverse, axis=axis)
    return 0.5 * first + xp.tanh(second)


def _draw_cond(draw, shapes):
    p, x, y = (_any(draw, shapes, lambda s: True) for _ in range(3))
    bodies = tuple(draw.body(shapes[x], shapes[y]) for _ in range(2))
    return (p, x, y), (bodies, draw(st.booleans()))


def _cond(xp: Any, params: tuple, p: Any, x: Any, y: Any) -> Any:
    bodies, closed = params
    return xp.cond(_total(xp, 3 * p) > 0.123, *_branches(xp, bodies, closed, x, y))


def _branches(xp: Any, bodies: Sequence[Any], closed: bool, x: Any, y: Any) -> list[Any]:
    """Functions of x's shape and the operands to call them with; y by closure if `closed`."""

    def branch(body: Any) -> Callable[..., Any]:
        def on(x: Any, *rest: Any) -> Any:
            return _fit(xp, xp.call(body, x, *(rest or (y,)))[-1], x.shape)

        return on

    return [*(branch(body) for body in bodies), x, *(() if closed else (y,))]


def _draw_switch(draw, shapes):
    p, x, y = (_any(draw, shapes, lambda s: True) for _ in range(3))
    bodies = tuple(draw.body(shapes[x], shapes[y]) for _ in range(draw(st.integers(1, 3))))
    return (p, x, y), (bodies, draw(st.booleans()))


def _switch(xp: Any, params: tuple, p: Any, x: Any, y: Any) -> Any:
    bodies, closed = params
    index = xp.astype(xp.floor(2.3 * xp.sin(_total(xp, p)) + 1.123), np.int32)
    made = _branches(xp, bodies, closed, x, y)
    return xp.switch(index, made[: len(bodies)], *made[len(bodies) :])


def _draw_scan_rows(draw, shapes):
    xs = _any(draw, shapes, lambda s: 0 < len(s) and s[0] < 4)
    if xs is None:
        return None
    carry, y = (_any(draw, shapes, lambda s: True) for _ in range(2))
    body = draw.body(shapes[carry], shapes[xs][1:], shapes[y])
    out = draw(st.integers(0, len(body.shapes) + len(body.steps) - 1))
    kept = draw(st.sampled_from(["both", "carry", "ys"]))
    return (carry, xs, y), (body, out, kept, draw(st.booleans()), draw(st.sampled_from([1, 2])))


def _scan_rows(xp: Any, params: tuple, carry: Any, xs: Any, y: Any) -> Any:
    body, out, kept, reverse, unroll = params

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        values = xp.call(body, carry, row, y)
        return _fit(xp, values[-1], carry.shape), values[out]

    last, ys = xp.scan(step, carry, xs, reverse=reverse, unroll=unroll)
    if kept == "both":
        return 0.5 * ys + 0.5 * _fit(xp, last, ys.shape)
    return last if kept == "carry" else ys


def _draw_map(draw, shapes):
    xs = _any(draw, shapes, lambda s: 0 < len(s) and s[0] < 4)
    if xs is None:
        return None
    y = _any(draw, shapes, lambda s: True)
    return (xs, y), (draw.body(shapes[xs][1:], shapes[y]), draw(st.sampled_from([None, 1, 2])))


def _map_rows(xp: Any, params: tuple, xs: Any, y: Any) -> Any:
    body, size = params
    return xp.map(lambda row: xp.call(body, row, y)[-1], xs, batch_size=size)


def _draw_fori(draw, shapes):
    x, y = (_any(draw, shapes, lambda s: True) for _ in range(2))
    return (x, y), (draw.body(shapes[x], (), shapes[y]), draw(st.integers(0, 3)))


def _fori(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    body, trips = params

    def step(n: Any, x: Any) -> Any:
        return _fit(xp, xp.call(body, x, xp.cos(xp.astype(n, np.float64)), y)[-1], x.shape)

    return xp.fori_loop(1, 1 + trips, step, x)


def _draw_while(draw, shapes):
    x, y = (_any(draw, shapes, lambda s: True) for _ in range(2))
    return (x, y), (draw.body(shapes[x], shapes[y]), draw(st.integers(0, 3)))


def _while(xp: Any, params: tuple, x: Any, y: Any) -> Any:
    body, most = params

    def goes_on(state: tuple[Any, Any]) -> Any:
        n, x = state
        return (n < most) & (_total(xp, x) > -0.523)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        n, x = state
        return n + 1, _fit(xp, xp.call(body, x, y)[-1], x.shape)

    return xp.while_loop(goes_on, step, (0, x))[1]


OPS: dict[str, Op] = {
    "unary": Op(lambda xp, p, x: UNARY[p[0]](xp, x), _draw_unary),
    "binary": Op(lambda xp, p, x, y: BINARY[p[0]](xp, x, y), _draw_binary),
    "select": Op(lambda xp, p, x, y, z: xp.where(xp.sin(3 * x) > 0.123, y, z), _draw_select),
    "clip": Op(lambda xp, p, x: xp.clip(x, -p[0], p[0] + 0.1), _draw_clip),
    "reduction": Op(lambda xp, p, x: REDUCTIONS[p[0]](xp, x, *p[1:]), _draw_reduction),
    "cumulative": Op(lambda xp, p, x: CUMULATIVE[p[0]](xp, x, *p[1:]), _draw_cumulative),
    "reshape": Op(lambda xp, p, x: xp.reshape(x, p[0]), _draw_reshape),
    "transpose": Op(lambda xp, p, x: xp.transpose(x, p[0]), _draw_transpose),
    "broadcast": Op(lambda xp, p, x: xp.broadcast_to(x, p[0]), _draw_broadcast),
    "concatenate": Op(lambda xp, p, *xs: xp.concatenate(list(xs), axis=p[0]), _draw_concatenate),
    "stack": Op(lambda xp, p, *xs: xp.stack(list(xs), axis=p[0]), _draw_stack),
    "pad": Op(lambda xp, p, x: xp.pad(x, p[0], constant_values=0.31), _draw_pad),
    "getitem": Op(lambda xp, p, x: x[_index(p[0])], _draw_getitem),
    "update": Op(lambda xp, p, x, y: _at(xp, x, _index(p[0]), y, p[1]), _draw_update),
    "take_along_axis": Op(_take, _draw_take),
    "matmul": Op(lambda xp, p, x, y: xp.tanh(xp.matmul(x, y)), _draw_matmul),
    "dot_general": Op(lambda xp, p, x, y: xp.sin(_contract(x, y, *p)), _draw_contract),
    "einsum": Op(lambda xp, p, *xs: xp.sin(xp.einsum(p[0], *xs)), _draw_einsum),
    "linalg": Op(lambda xp, p, x: LINALG[p[0]](xp, x), _draw_linalg),
    "norm": Op(_norm, _draw_norm),
    "solve": Op(_solve, _draw_solve),
    "triangular_solve": Op(_solve_triangular, _draw_triangular),
    "gather": Op(_gather, _draw_gather),
    "scatter": Op(_scatter, _draw_scatter),
    "dynamic_slice": Op(_slice, _draw_slice),
    "dynamic_update_slice": Op(_update_slice, _draw_update_slice),
    "order": Op(lambda xp, p, x, y: ORDERS[p[0]](xp, x, y, p[1]), _draw_order),
    "associative_scan": Op(_scan_associative, _draw_associative),
    "cond": Op(_cond, _draw_cond),
    "switch": Op(_switch, _draw_switch),
    "scan": Op(_scan_rows, _draw_scan_rows),
    "map": Op(_map_rows, _draw_map),
    "fori_loop": Op(_fori, _draw_fori),
    "while_loop": Op(_while, _draw_while),
    "narrow": Op(lambda xp, p, x: xp.astype(xp.astype(x, np.float32), np.float64), _draw_narrow),
}

# What holds programs of its own: a program inside one of these may hold the others once more.
CONTROL = ("cond", "switch", "scan", "map", "fori_loop", "while_loop")
# How many times as often as the others to try what few shapes fit.
OFTEN = {
    "linalg": 3, "solve": 4, "triangular_solve": 3, "einsum": 4, "norm": 2, "scan": 2, "order": 3,
}  # fmt: skip
