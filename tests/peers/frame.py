"""How a function of mgefn is compared with its namesake in JAX.

A `Spec` draws `Case`s. A case is a call: arrays (NumPy's; each library gets its own), keyword
arguments, and where the bare call will not do, a small program around it. `findings` runs a case
in both libraries and says where they differ: in what they return (structure, shape, dtype, value),
in their jvp, in their vjp, or in that mgefn refuses what JAX does.

Which width a case runs in follows from its arrays. JAX knows 64 bits only with `jax_enable_x64`,
so what has a 64-bit array runs with 64-bit defaults in both libraries, floats and complex numbers
of 32 bits or less run with 32-bit defaults, and all else runs in both.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from mgefn.config import config

bfloat16 = np.dtype(ml_dtypes.bfloat16)
NARROW, WIDE = "narrow", "wide"


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        label: names the case in a failure and in `deviations.py`.
        arrays: positional arguments; NumPy arrays in them, also inside of tuples, lists and dicts,
            become arrays of the library. What else is in them stays.
        kwargs: keyword arguments; NumPy arrays likewise.
        call: (library, function, *arrays, **kwargs) -> result. None: function(*arrays, **kwargs).
        diff: positions in `arrays` to differentiate; None: every one that is a 64-bit float or
            complex array.
        modes: in which widths it runs; None: as the module's docstring says.
    """

    label: str
    arrays: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    diff: Sequence[int] | None = None
    modes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Spec:
    """How to draw the arguments of a function, and how close the results must be.

    Args:
        draw: of a generator, the cases.
        ulps: largest difference in units of the rounding of the result's dtype.
        scale: "each": relative to each element; "all": to the largest of the array, for results
            that are sums of terms of either sign.
        share: the part of the elements that must be so close. Below 1 only for samplers with
            rejection, where one rounding decides about a sample.
        slope_ulps: the same as ulps, for derivatives; they are always relative to the largest.
    """

    draw: Callable[[np.random.Generator], Iterable[Case]]
    ulps: float = 8
    scale: str = "each"
    share: float = 1.0
    slope_ulps: float = 64


@dataclass(frozen=True)
class Finding:
    label: str  # the case's, with the width it ran in
    facet: str  # structure, list or tuple, shape, dtype, value, jvp, grad, raises, slope raises
    text: str

    def __str__(self) -> str:
        return f"[{self.label}] {self.facet}: {self.text}"


@dataclass(frozen=True)
class Deviation:
    """Where mgefn means to differ.

    Args:
        item: the function, such as "numpy.sin".
        where: a regular expression for "label facet".
        reason: why it differs, in words for a reader who ports a program.
    """

    item: str
    where: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        return re.search(self.where, f"{finding.label} {finding.facet}") is not None


# -- the two libraries ----------------------------------------------------------------------------


class Library:
    """mgefn or jax behind one set of names: `lib.numpy`, `lib.lax`, ..., and `lib.array`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._root = importlib.import_module(name)
        for module in MODULES:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(f"{name}.{module}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)

    def resolve(self, item: str) -> Any:
        found = self._root
        for part in item.split("."):
            found = getattr(found, part)
        return found

    def array(self, x: np.ndarray) -> Any:
        return self._root.numpy.array(x)

    @contextlib.contextmanager
    def width(self, mode: str) -> Iterator[None]:
        """64-bit defaults in wide mode, 32-bit ones otherwise."""
        if self.name == "mgefn":
            with config.override(enable_x64=mode == WIDE):
                yield
            return
        with warnings.catch_warnings():
            # JAX warns where it narrows what a case asks for, and where its own code is deprecated.
            warnings.simplefilter("ignore")
            with self._root.enable_x64(mode == WIDE):
                yield


# Modules to be imported, because their parents may not do so.
MODULES = (
    "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "random", "nn", "nn.initializers",
    "scipy", "scipy.cluster.vq", "scipy.fft", "scipy.integrate", "scipy.interpolate",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg",
    "scipy.spatial.transform", "scipy.special", "scipy.stats",
)  # fmt: skip


@cache
def libraries() -> tuple[Library, Library]:
    return Library("mgefn"), Library("jax")


# -- results --------------------------------------------------------------------------------------


def is_inexact(x: Any) -> bool:
    return isinstance(x, np.ndarray) and (x.dtype.kind in "fc" or _is_small_float(x.dtype))


def _is_small_float(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and dtype.name.startswith(("bfloat", "float8", "float4", "float6"))


def map_arrays(f: Callable[[np.ndarray], Any], x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return f(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(map_arrays(f, v) for v in x))
    if isinstance(x, tuple | list):
        return type(x)(map_arrays(f, v) for v in x)
    if isinstance(x, dict):
        return {k: map_arrays(f, v) for k, v in x.items()}
    return x


class Slot:
    """Stands for an array among the leaves of a result."""


SLOT = Slot()


def flat(x: Any) -> tuple[str, list[Any], list[Any]]:
    """The containers of a result as text; its leaves, SLOT where one is an array; the arrays."""
    if isinstance(x, np.generic):
        return "*", [SLOT], [np.asarray(x)]  # before float: np.float64 is one
    if isinstance(x, tuple | list):
        fields = getattr(type(x), "_fields", None)
        kind = "named" if fields else ("(", "[")[isinstance(x, list)]
        parts = [flat(v) for v in x]
        text = f"{kind} {', '.join(p[0] for p in parts)} {fields or ''}"
    elif isinstance(x, dict):
        parts = [flat(x[k]) for k in sorted(x)]
        text = f"{{{sorted(x)} {', '.join(p[0] for p in parts)}}}"
    elif isinstance(x, bool | int | float | complex | str | bytes | type | np.dtype) or x is None:
        return "dtype" if isinstance(x, type | np.dtype) else type(x).__name__, [x], []
    elif hasattr(x, "__array__") or hasattr(x, "aval"):
        return "*", [SLOT], [x]
    else:
        raise TypeError(f"a case returned {type(x)}; let its `call` return arrays")
    return text, [leaf for p in parts for leaf in p[1]], [a for p in parts for a in p[2]]


def rounding(dtype: np.dtype) -> float:
    if dtype.kind == "c":
        return float(np.finfo(dtype).eps)
    if dtype.kind == "f" or _is_small_float(dtype):
        return float(ml_dtypes.finfo(dtype).eps)
    return 0.0


def tiny(dtype: np.dtype) -> float:
    """XLA flushes numbers below the smallest normal one to zero, NumPy keeps them."""
    if dtype.kind == "c":
        return float(np.finfo(dtype).tiny)
    if dtype.kind == "f" or _is_small_float(dtype):
        return float(ml_dtypes.finfo(dtype).smallest_normal)
    return 0.0


def wide(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if is_inexact(x) else x


def far(
    got: np.ndarray,
    want: np.ndarray,
    ulps: float,
    scale: str,
    share: float,
    eps: float,
    least: float,
) -> str:
    """How the values differ by more than they may; empty where they do not."""
    if got.size == 0:
        return ""
    if not eps:
        same = got == want
        if np.mean(same) >= share:
            return ""
        return f"{np.sum(~same)} of {same.size} differ: {_some(got, want, ~same)}"
    got, want = wide(got), wide(want)
    with np.errstate(all="ignore"):
        finite = np.isfinite(want)
        size = np.abs(want)
        if scale == "all":
            size = np.full_like(size, np.max(size, where=finite, initial=0.0))
        error = np.abs(got - want)
        near = np.where(finite, error <= ulps * (eps * size + least), _same_infinite(got, want))
    if np.mean(near) >= share:
        return ""
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.where(near | (size == 0), 0, error / (eps * size)))
    return f"{np.sum(~near)} of {near.size} differ, by {worst:.3g} ulps: {_some(got, want, ~near)}"


def _same_infinite(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(want):
        # Which part of a complex number that is not finite is nan differs between any two
        # libraries of arithmetic; that it is not finite does not.
        return ~np.isfinite(got)
    return (got == want) | (np.isnan(got) & np.isnan(want))


def _some(got: np.ndarray, want: np.ndarray, where: np.ndarray) -> str:
    where = np.broadcast_to(where, np.shape(got))
    index = tuple(int(i) for i in np.argwhere(where)[0]) if where.ndim else ()
    return f"at {index} mgefn {got[index]!r}, JAX {want[index]!r}"


# -- one library ----------------------------------------------------------------------------------

REFUSALS = (TypeError, ValueError, NotImplementedError, IndexError, ArithmeticError)


@dataclass
class Result:
    structure: str
    leaves: list[Any]
    arrays: list[Any]  # one for each SLOT of the leaves


def leaves_of(x: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    map_arrays(found.append, x)
    return found


def modes(case: Case) -> tuple[str, ...]:
    if case.modes is not None:
        return case.modes
    arrays = leaves_of((*case.arrays, case.kwargs))
    if any(a.dtype.itemsize // (1 + (a.dtype.kind == "c")) == 8 for a in arrays):
        return (WIDE,)
    if arrays and all(is_inexact(a) for a in arrays):
        return (NARROW,)
    return (NARROW, WIDE)


def differentiable(case: Case, mode: str) -> list[int]:
    if mode != WIDE:
        return []
    if case.diff is not None:
        return list(case.diff)
    wanted = (np.float64, np.complex128)
    found = [(i, leaves_of(a)) for i, a in enumerate(case.arrays)]
    return [i for i, arrays in found if arrays and all(a.dtype in wanted for a in arrays)]


def call(lib: Library, item: str, case: Case, given: Sequence[Any]) -> Result:
    """Run a case on arrays of the library."""
    rest = iter(given)
    args, kwargs = map_arrays(lambda _: next(rest), (case.arrays, case.kwargs))
    fun = lib.resolve(item)
    if case.call is not None:
        return Result(*flat(case.call(lib, fun, *args, **kwargs)))
    return Result(*flat(fun(*args, **kwargs)))


def slopes(lib: Library, item: str, case: Case, given: Sequence[Any], seed: int) -> Result:
    """The jvp and the vjp of a case: tangents and cotangents are drawn from the seed."""
    rest = iter(given)
    args = map_arrays(lambda _: next(rest), case.arrays)
    chosen = differentiable(case, WIDE)
    rng = np.random.default_rng(seed)

    def of_primals(*primals: Any) -> list[Any]:
        everything = list(args)
        for i, x in zip(chosen, primals, strict=True):
            everything[i] = x
        fun = lib.resolve(item)
        kwargs = map_arrays(lib.array, case.kwargs)
        run = case.call or (lambda lib, f, *a, **k: f(*a, **k))
        arrays = flat(run(lib, fun, *everything, **kwargs))[2]
        return [x for x in arrays if lib.numpy.issubdtype(x.dtype, lib.numpy.inexact)]

    at = tuple(args[i] for i in chosen)
    like = lambda x: lib.array(normal(rng, x.shape, np.dtype(x.dtype)))
    along = map_arrays(like, tuple(case.arrays[i] for i in chosen))
    outs, out_dots = lib.jvp(of_primals, at, along)
    cts = [like(x) for x in outs]
    if not outs:
        return Result("", [], [])
    back = lib.tree_util.tree_leaves(lib.vjp(of_primals, *at)[1](cts))
    # The facet of each array goes in the leaves.
    return Result("", ["jvp"] * len(out_dots) + ["grad"] * len(back), [*out_dots, *back])


Job = tuple[Callable[..., Result], Case, tuple[Any, ...]]


def jax_results(item: str, jobs: Sequence[Job], mode: str) -> list[Result | Exception]:
    """All jobs of a mode. XLA compiles for 40 ms at least: the jobs are one program where they can.

    What cannot be traced, such as functions whose result's shape depends on values, runs by itself.
    """
    _, peer = libraries()
    results: list[Any] = [None] * len(jobs)
    arrays = [leaves_of((case.arrays, case.kwargs)) for _, case, _ in jobs]

    def program(arrays: list[Any]) -> list[list[Any]]:
        outs = []
        for i, ((run, case, more), given) in enumerate(zip(jobs, arrays, strict=True)):
            try:
                results[i] = run(peer, item, case, given, *more)
                outs.append(results[i].arrays)
            except Exception as error:
                results[i] = error
                outs.append([])
        return outs

    with peer.width(mode):
        try:
            for result, outs in zip(results, peer.jit(program)(arrays), strict=True):
                if isinstance(result, Result):
                    result.arrays = [np.asarray(x) for x in outs]
        except Exception:
            results = [None] * len(jobs)
        for i, (run, case, more) in enumerate(jobs):
            if not isinstance(results[i], Result):
                results[i] = _alone(peer, run, item, case, arrays[i], more)
    return results


def _alone(
    lib: Library, run: Callable[..., Result], item: str, case: Case, arrays: Any, more: Any
) -> Result | Exception:
    try:
        result = run(lib, item, case, [lib.array(x) for x in arrays], *more)
        result.arrays = [np.asarray(x) for x in result.arrays]
        return result
    except Exception as error:
        return error


# -- comparing ------------------------------------------------------------------------------------


def findings(
    item: str, spec: Spec, cases: Sequence[Case], rng: np.random.Generator
) -> tuple[list[Finding], int]:
    """Where the libraries differ, and how many results were compared."""
    ours, _ = libraries()
    found: list[Finding] = []
    made = 0
    for mode in (NARROW, WIDE):
        jobs: list[Job] = [(call, case, ()) for case in cases if mode in modes(case)]
        if mode == WIDE:
            jobs += [
                (slopes, case, (int(rng.integers(2**31)),))
                for _, case, _ in tuple(jobs)
                if differentiable(case, mode)
            ]
        if not jobs:
            continue
        for (run, case, more), want in zip(jobs, jax_results(item, jobs, mode), strict=True):
            label = f"{case.label} {mode}"
            if isinstance(want, Exception):
                if not isinstance(want, REFUSALS):
                    raise want
                continue  # mgefn may do more than JAX
            arrays = leaves_of((case.arrays, case.kwargs))
            with ours.width(mode):
                got = _alone(ours, run, item, case, arrays, more)
            made += 1
            if isinstance(got, Exception):
                facet = "raises" if run is call else "slope raises"
                found.append(Finding(label, facet, f"{type(got).__name__}: {got}"))
            elif run is call:
                found += _compare(item, spec, case, label, mode, got, want)
            else:
                found += _compare_slopes(spec, label, got, want)
    return found, made


def _compare(
    item: str, spec: Spec, case: Case, label: str, mode: str, got: Result, want: Result
) -> Iterator[Finding]:
    if got.structure != want.structure:
        # A list or a tuple: said, but no reason not to look into it.
        alike = got.structure.replace("[", "(") == want.structure.replace("[", "(")
        facet = "list or tuple" if alike else "structure"
        yield Finding(label, facet, f"mgefn {got.structure}, JAX {want.structure}")
        if not alike:
            return
    for g, w in zip(got.leaves, want.leaves, strict=True):
        if w is SLOT:
            continue
        if isinstance(w, type | np.dtype):
            same = np.dtype(g) == np.dtype(w)
        else:
            same = g == w or (g != g and w != w)
            if isinstance(w, float) and not same:
                same = abs(g - w) <= spec.ulps * 2.0**-52 * abs(w)
        if not same:
            yield Finding(label, "value", f"mgefn {g!r}, JAX {w!r}")
    referee: list[Any] | None = None
    for k, (g, w) in enumerate(zip(got.arrays, want.arrays, strict=True)):
        name = f"output {k} " if len(got.arrays) > 1 else ""
        if g.shape != w.shape:
            yield Finding(label, "shape", f"{name}mgefn {g.shape}, JAX {w.shape}")
            continue
        if g.dtype != w.dtype:
            yield Finding(label, "dtype", f"{name}mgefn {g.dtype}, JAX {w.dtype}")
            continue
        close = (spec.ulps, spec.scale, spec.share, rounding(w.dtype), tiny(w.dtype))
        text = far(g, w, *close)
        if text and is_inexact(w) and rounding(w.dtype) > 1e-15:
            # XLA's approximations in low precision may be worse than NumPy's. JAX's own result
            # in 64 bits for the same arguments decides.
            if referee is None:
                referee = _in_64_bits(item, case)
            if k < len(referee):
                with np.errstate(all="ignore"):
                    exact = referee[k].astype(w.dtype)
                if exact.shape == g.shape and not far(g, exact, *close):
                    text = ""
        if text:
            yield Finding(label, "value", name + text)


def _in_64_bits(item: str, case: Case) -> list[np.ndarray]:
    _, peer = libraries()
    arrays = [wide(a) for a in leaves_of((case.arrays, case.kwargs))]
    with peer.width(WIDE):
        result = _alone(peer, call, item, case, arrays, ())
    return result.arrays if isinstance(result, Result) else []


def _compare_slopes(spec: Spec, label: str, got: Result, want: Result) -> Iterator[Finding]:
    if got.leaves != want.leaves:
        yield Finding(label, "grad", f"mgefn has {len(got.leaves)} slopes, JAX {len(want.leaves)}")
        return
    for k, (facet, g, w) in enumerate(zip(got.leaves, got.arrays, want.arrays, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            text = f"mgefn {g.dtype}{g.shape}, JAX {w.dtype}{w.shape}"
        else:
            # Absolute too: slopes that cancel leave zero in one library and rounding in the other.
            eps = rounding(w.dtype)
            text = far(g, w, spec.slope_ulps, "all", spec.share, eps, eps)
        if text:
            yield Finding(label, facet, f"{k}: {text}")


# -- drawing --------------------------------------------------------------------------------------


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype)


def drawn(
    rng: np.random.Generator, shape: Any, dtype: Any, low: float = -3.0, high: float = 3.0
) -> np.ndarray:
    """Uniform in [low, high), also each part of a complex number; integers likewise."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.kind in "iu":
        low = max(low, 0) if dtype.kind == "u" else low
        return np.asarray(
            rng.integers(int(np.ceil(low)), max(int(high), int(np.ceil(low)) + 1) + 1, shape)
        ).astype(dtype)
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)
