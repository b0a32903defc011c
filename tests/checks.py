"""Checkers: each takes a function and arguments, and raises AssertionError where a rule is wrong.

They judge by something that is not the rule itself: NumPy, differences, a loop, an identity. Where
two sides may differ by rounding only, the tolerance is tight; where they are differences, it comes
from differences with two step sizes.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mgefn
from mgefn import dtypes, tree
from mgefn.compiler.native import calls_in, native_p
from mgefn.config import config
from mgefn.core import backends
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import check_jaxpr as check_types
from mgefn.core.primitive import Primitive
from mgefn.interpreters.evaluate import eval_jaxpr

Fun = Callable[..., Any]

STEP = 1e-4
LINEAR_RTOL = 1e-12  # an identity between sums of a few hundred products, up to rounding
BATCH = 3


# -- values ---------------------------------------------------------------------------------------


def leaves(x: Any) -> list[Any]:
    return tree.leaves(x)


def is_inexact(x: Any) -> bool:
    return dtypes.is_inexact(x.dtype)


def wide(x: np.ndarray) -> np.ndarray:
    """Floats as float64 and complex numbers as complex128, the rest as it is."""
    if dtypes.is_complex(x.dtype):
        return x.astype(np.complex128)
    return x.astype(np.float64) if dtypes.is_float(x.dtype) else x


def rounding(dtype: np.dtype) -> float:
    """The relative rounding error of a dtype; 0 for integers and bool."""
    if not dtypes.is_inexact(dtype):
        return 0.0
    return float(dtypes.finfo(dtypes.real_part_dtype(dtype)).eps)


def assert_close(got: Any, want: Any, rtol: float, what: str, atol: float | None = None) -> None:
    """Equal shapes, and values within rtol of the largest finite one in reach of each."""
    got, want = wide(np.asarray(got)), wide(np.asarray(want))
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    np.testing.assert_allclose(
        got, want, rtol=rtol, atol=rtol if atol is None else atol, err_msg=what
    )


def arrays(args: Sequence[np.ndarray]) -> list[Any]:
    return [mgefn.device_put(a) for a in args]


def check_values(
    fun: Fun, reference: Fun, args: Sequence[np.ndarray], ulps: float = 4, own_dtype: bool = False
) -> None:
    """fun gives what NumPy gives, and what abstract evaluation says: same shapes and dtypes.

    Args:
        fun: of arrays.
        reference: of NumPy arrays; gets floats as float64 unless own_dtype.
        args: the arguments.
        ulps: largest error in units of the rounding of the result's dtype.
        own_dtype: the reference gets the arguments as they are.
    """
    outs = leaves(fun(*arrays(args)))
    with np.errstate(all="ignore"):
        wants = leaves(reference(*(args if own_dtype else [wide(a) for a in args])))
    said = leaves(mgefn.eval_shape(fun, *arrays(args)))
    assert len(outs) == len(wants) == len(said)
    for k, (got, want, shape) in enumerate(zip(outs, wants, said, strict=True)):
        assert got.shape == shape.shape and got.dtype == shape.dtype, (
            f"output {k} is {got.dtype}{got.shape}, abstract evaluation says "
            f"{shape.dtype}{shape.shape}"
        )
        want = np.asarray(want)
        with np.errstate(all="ignore"):
            # The exact result, rounded once: overflow to inf and underflow to 0 are right.
            want = want.astype(got.dtype) if want.dtype != got.dtype else want
        assert_close(got, want, ulps * rounding(got.dtype), f"output {k}")


# -- derivatives ----------------------------------------------------------------------------------


def active(args: Sequence[np.ndarray], differentiable: Sequence[int] | None) -> tuple[int, ...]:
    """Positions of the arguments to differentiate by."""
    found = [k for k, a in enumerate(args) if is_inexact(a)]
    return tuple(k for k in found if differentiable is None or k in differentiable)


def partial_at(fun: Fun, args: Sequence[Any], at: Sequence[int]) -> Fun:
    """fun as a function of the arguments at some positions, with a list of inexact outputs."""
    fixed = arrays(args)

    def of_some(*some: Any) -> list[Any]:
        full = list(fixed)
        for k, a in zip(at, some, strict=True):
            full[k] = a
        return [y for y in leaves(fun(*full)) if is_inexact(y)]

    return of_some


def direction(rng: np.random.Generator, like: Any, part: str = "any") -> np.ndarray:
    """A random tangent; of complex arrays along the real or the imaginary axis, or any."""
    x = rng.uniform(-1, 1, like.shape)
    if dtypes.is_complex(like.dtype):
        if part == "imaginary":
            x = 1j * x
        elif part == "any":
            x = x + 1j * rng.uniform(-1, 1, like.shape)
    return np.asarray(x).astype(like.dtype)


def differences(fun: Fun, xs: Sequence[np.ndarray], dxs: Sequence[np.ndarray]) -> list[tuple]:
    """For each output the derivative along dxs by central differences, and its error's estimate."""

    def at(t: float) -> list[np.ndarray]:
        moved = [np.asarray(x + t * dx).astype(x.dtype) for x, dx in zip(xs, dxs, strict=True)]
        return [np.asarray(y) for y in fun(*arrays(moved))]

    def slope(h: float) -> list[np.ndarray]:
        return [(a - b) / (2 * h) for a, b in zip(at(h), at(-h), strict=True)]

    coarse, fine = slope(STEP), slope(STEP / 2)
    out = []
    for big, small, y in zip(coarse, fine, at(0.0), strict=True):
        # The two errors stand like 4 to 1, so one extrapolation leaves far less than their
        # difference; what rounding leaves is the value's rounding over the step.
        best = (4 * small - big) / 3
        size = float(np.max(np.abs(y), initial=1.0))
        bound = np.max(np.abs(big - small), initial=0.0) + 100 * np.finfo(float).eps * size / STEP
        largest = np.max(np.abs(best), initial=1.0)
        assert bound <= 1e-3 * largest, (
            f"differences do not settle (error {bound:.1e} of {largest:.1e}): the point is near a "
            "kink, or the function is not smooth"
        )
        out.append((best, float(bound)))
    return out


def _compare_jvp(fun: Fun, xs: Sequence[np.ndarray], rng: np.random.Generator, what: str) -> None:
    """The jvp of a function with a list of inexact outputs against differences."""
    parts = ("real", "imaginary") if any(dtypes.is_complex(x.dtype) for x in xs) else ("any",)
    for part in parts:
        dxs = [direction(rng, x, part) for x in xs]
        ys, dys = mgefn.jvp(fun, tuple(arrays(xs)), tuple(arrays(dxs)))
        for k, (y, dy, (want, bound)) in enumerate(
            zip(ys, dys, differences(fun, xs, dxs), strict=True)
        ):
            assert dy.dtype == y.dtype and dy.shape == y.shape
            assert_close(dy, want, 0, f"{what}, output {k}, {part} direction", atol=bound)


def check_jvp(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator,
    differentiable: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """The jvp agrees with differences: by all arguments at once and by each alone."""
    at = active(args, differentiable)
    for some in (at, *((k,) for k in at if len(at) > 1)):
        of_some = partial_at(fun, args, some)
        _compare_jvp(of_some, [args[k] for k in some], rng, f"jvp in arguments {some}")


def check_narrow_derivatives(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator,
    differentiable: Sequence[int] | None = None, roundings: float = 64,
) -> None:  # fmt: skip
    """Derivatives in a narrow dtype have that dtype, and nearly the values of the wide ones.

    Args:
        fun, args, rng, differentiable: as for the other checkers; args are of a narrow dtype.
        roundings: largest error in units of the dtype's rounding of the largest element.
    """
    at = active(args, differentiable)
    if not at:
        return
    some, wide_some = partial_at(fun, args, at), partial_at(fun, [wide(a) for a in args], at)
    xs = [args[k] for k in at]
    dxs = [direction(rng, x) for x in xs]
    ys, dys = mgefn.jvp(some, tuple(arrays(xs)), tuple(arrays(dxs)))
    cts = [direction(rng, y) for y in ys]
    back = mgefn.vjp(some, *arrays(xs))[1](arrays(cts))
    wide_xs = arrays([wide(x) for x in xs])
    wide_ys, wants = mgefn.jvp(wide_some, tuple(wide_xs), tuple(arrays([wide(d) for d in dxs])))
    wide_cts = [wide(ct) if y.dtype != ct.dtype else ct for ct, y in zip(cts, wide_ys, strict=True)]
    wide_back = mgefn.vjp(wide_some, *wide_xs)[1](arrays(wide_cts))
    for what, likes, gots, ends in (("jvp", ys, dys, wants), ("vjp", xs, back, wide_back)):
        for like, got, want in zip(likes, gots, ends, strict=True):
            assert got.dtype == like.dtype and got.shape == like.shape, f"{what} is {got.aval}"
            largest = float(np.max(np.abs(np.asarray(want)), initial=1.0))
            bound = roundings * max(rounding(x.dtype) for x in (*xs, *cts)) * largest
            assert_close(got, want, 0, f"{what} in {like.dtype}", atol=bound)


def pairing(cts: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The real part of the sum of ct * y, without conjugation, and the sum of its terms' sizes."""
    total = size = 0.0
    for ct, y in zip(cts, ys, strict=True):
        products = wide(np.asarray(ct)) * wide(np.asarray(y))
        total += float(np.sum(products.real))
        size += float(np.sum(np.abs(products)))
    return total, size


def _compare_pairing(left: tuple[float, float], right: tuple[float, float], what: str) -> None:
    (a, a_size), (b, b_size) = left, right
    bound = LINEAR_RTOL * max(a_size, b_size, 1e-3)
    assert abs(a - b) <= bound, f"{what}: <ct, J dx> = {a!r}, <J^T ct, dx> = {b!r}"


def check_vjp_transpose(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator,
    differentiable: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """<ct, J dx> = <J^T ct, dx> up to rounding: reverse mode is the transpose of forward mode."""
    at = active(args, differentiable)
    for some in (at, *((k,) for k in at if len(at) > 1)):
        of_some = partial_at(fun, args, some)
        xs = arrays([args[k] for k in some])
        dxs = arrays([direction(rng, x) for x in xs])
        ys, dys = mgefn.jvp(of_some, tuple(xs), tuple(dxs))
        cts = arrays([direction(rng, y) for y in ys])
        zs, pullback = mgefn.vjp(of_some, *xs)
        for y, z in zip(ys, zs, strict=True):
            assert_close(z, y, 0, "the value under vjp", atol=1e-14)
        back = pullback(cts)
        for x, x_ct in zip(xs, back, strict=True):
            assert x_ct.shape == x.shape and x_ct.dtype == x.dtype
        _compare_pairing(pairing(cts, dys), pairing(back, dxs), f"vjp in arguments {some}")
        _, push = mgefn.linearize(of_some, *xs)
        for dy, again in zip(dys, push(*dxs), strict=True):
            assert_close(again, dy, LINEAR_RTOL, "linearize against jvp")


def check_vjp_differences(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator,
    differentiable: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """The vjp against differences, for functions without a forward mode."""
    at = active(args, differentiable)
    of_some = partial_at(fun, args, at)
    xs = [args[k] for k in at]
    dxs = [direction(rng, x) for x in xs]
    slopes = differences(of_some, xs, dxs)
    cts = [direction(rng, y) for y in of_some(*arrays(xs))]
    back = mgefn.vjp(of_some, *arrays(xs))[1](arrays(cts))
    want, _ = pairing(cts, [best for best, _ in slopes])
    bound = sum(
        error * float(np.sum(np.abs(ct))) for ct, (_, error) in zip(cts, slopes, strict=True)
    )
    got, _ = pairing(back, dxs)
    assert abs(got - want) <= bound, f"<J^T ct, dx> = {got!r}, by differences {want!r} +- {bound!r}"


def check_second_order(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator,
    differentiable: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Forward over forward, forward over reverse and reverse over reverse mode.

    The derivatives of the jvp and of the vjp are compared with their differences, and their own
    transpose with them.
    """
    at = active(args, differentiable)
    if not at:
        return
    of_some = partial_at(fun, args, at)
    xs = [args[k] for k in at]
    fixed = arrays([direction(rng, x) for x in xs])
    cts = arrays([direction(rng, y) for y in of_some(*arrays(xs))])
    if not cts:
        return

    def tangent(*some: Any) -> list[Any]:
        return mgefn.jvp(of_some, some, tuple(fixed))[1]

    def gradient(*some: Any) -> list[Any]:
        return list(mgefn.vjp(of_some, *some)[1](cts))

    _compare_jvp(tangent, xs, rng, "jvp of jvp")
    _compare_jvp(gradient, xs, rng, "jvp of vjp")
    for name, first in (("vjp of jvp", tangent), ("vjp of vjp", gradient)):
        dxs = arrays([direction(rng, x) for x in xs])
        ys, dys = mgefn.jvp(first, tuple(arrays(xs)), tuple(dxs))
        second = arrays([direction(rng, y) for y in ys])
        back = mgefn.vjp(first, *arrays(xs))[1](second)
        _compare_pairing(pairing(second, dys), pairing(back, dxs), name)


def check_linear_transpose(
    fun: Fun, args: Sequence[np.ndarray], rng: np.random.Generator, linear: Sequence[int]
) -> None:
    """linear_transpose in the arguments at `linear` is the transpose: <ct, A x> = <A^T ct, x>."""
    of_some = partial_at(fun, args, linear)
    xs = arrays([args[k] for k in linear])
    ys = of_some(*xs)
    cts = arrays([direction(rng, y) for y in ys])
    back = mgefn.linear_transpose(of_some, *xs)(cts)
    for x, x_ct in zip(xs, back, strict=True):
        assert x_ct.shape == x.shape and x_ct.dtype == x.dtype
    # An affine function would fail here.
    double = of_some(*[x * 2 for x in xs])
    for y, d in zip(ys, double, strict=True):
        assert_close(d, np.asarray(y) * 2, LINEAR_RTOL, "homogeneity")
    _compare_pairing(pairing(cts, ys), pairing(back, xs), f"linear transpose in {tuple(linear)}")


# -- batches --------------------------------------------------------------------------------------


def mapped_subsets(n: int) -> list[tuple[int, ...]]:
    """Which arguments are mapped: all subsets for a few, else all, one, and all but one."""
    if n <= 3:
        return [c for k in range(1, n + 1) for c in itertools.combinations(range(n), k)]
    everything = tuple(range(n))
    rest = [tuple(k for k in everything if k != one) for one in everything]
    return [everything, *((k,) for k in everything), *rest]


def check_vmap(
    fun: Fun, draws: Sequence[Sequence[np.ndarray]], rtol: float = 1e-12, nested: bool = True
) -> None:
    """vmap equals a loop: for the mapped arguments, in_axes and out_axes of all kinds.

    Args:
        fun: of arrays.
        draws: the arguments of each example; those that are not mapped come from the first.
        rtol: for kernels whose rounding depends on the layout.
        nested: also map the mapped function again.
    """
    n = len(draws[0])
    for mapped in mapped_subsets(n):
        examples = [[d[k] if k in mapped else draws[0][k] for k in range(n)] for d in draws]
        loop = [[np.asarray(y) for y in leaves(fun(*arrays(args)))] for args in examples]
        for in_axis, out_axis in ((0, 0), (-1, 0), (0, -1), (-1, -1)):
            stacked = [
                np.stack([args[k] for args in examples], in_axis) if k in mapped else draws[0][k]
                for k in range(n)
            ]
            in_axes = tuple(in_axis if k in mapped else None for k in range(n))
            what = f"vmap in_axes={in_axes} out_axes={out_axis}"
            batched = leaves(mgefn.vmap(fun, in_axes, out_axis)(*arrays(stacked)))
            for k, got in enumerate(batched):
                want = np.stack([one[k] for one in loop], out_axis)
                assert got.dtype == want.dtype, f"{what}: {got.dtype}, wanted {want.dtype}"
                assert_close(got, want, rtol if is_inexact(want) else 0, f"{what}, output {k}")
    mapped = tuple(range(n))
    empty = [np.stack([d[k] for d in draws])[:0] for k in mapped]
    for got, one in zip(leaves(mgefn.vmap(fun)(*arrays(empty))), loop[0], strict=True):
        assert got.shape == (0, *one.shape) and got.dtype == one.dtype, "a batch of no examples"
    if not nested:
        return
    twice = [np.stack([np.stack([d[k] for d in draws])] * 2, 1) for k in mapped]
    got = leaves(mgefn.vmap(mgefn.vmap(fun))(*arrays(twice)))
    want = leaves(mgefn.vmap(fun)(*arrays([t[:, 0] for t in twice])))
    for a, b in zip(got, want, strict=True):
        for k in range(2):
            assert_close(np.asarray(a)[:, k], b, rtol if is_inexact(b) else 0, "vmap of vmap")


# -- programs -------------------------------------------------------------------------------------


# Those that need no GPU; tests/gpu has the rest.
HOST = ("numpy", "llvm")


def check_jit(
    fun: Fun, args: Sequence[np.ndarray], differentiable: Sequence[int] | None = (),
    rtol: float | None = None,
) -> None:  # fmt: skip
    """A compiled call gives what an eager one gives, on every backend: values and types.

    With `differentiable` also the compiled vjp, and the vjp of the compiled function.
    """
    given = arrays(args)
    eager = leaves(fun(*given))
    at = active(args, differentiable)
    some = partial_at(fun, args, at)
    xs = [given[k] for k in at]
    rng = np.random.default_rng(len(args))
    cts = arrays([direction(rng, y) for y in some(*xs)]) if at else []

    def pulled(inner: Fun) -> Fun:
        return lambda *inputs: mgefn.vjp(inner, *inputs)[1](cts)

    flipped = arrays([np.transpose(a) for a in args])
    for backend in HOST:
        compiled = mgefn.jit(fun, backend=backend)
        inside = mgefn.jit(lambda *xs: _in_blocks(fun, xs), backend=backend)
        of_views = mgefn.jit(
            lambda *xs: _in_blocks(fun, xs, mgefn.Array.transpose), backend=backend
        )
        for what, outs in (("in blocks", inside(*given)), ("of transposes", of_views(*flipped))):
            for k, (got, want) in enumerate(zip(outs, eager, strict=True)):
                _same_array(got, want, rtol, f"jit on {backend} {what}, output {k}")
        # The second call finds the program and the frame of the first.
        for outs in (leaves(compiled(*given)), leaves(compiled(*given))):
            assert len(outs) == len(eager)
            for k, (got, want) in enumerate(zip(outs, eager, strict=True)):
                _same_array(got, want, rtol, f"jit on {backend}, output {k}")
        if not cts:
            continue
        back = pulled(some)(*xs)
        inner = mgefn.jit(lambda *inputs: some(*inputs), backend=backend)
        for name, again in (
            ("jit of vjp", mgefn.jit(pulled(some), backend=backend)(*xs)),
            ("vjp of jit", pulled(inner)(*xs)),
        ):
            for got, want in zip(again, back, strict=True):
                _same_array(got, want, rtol, f"{name} on {backend}")


def _copy_kernel(x: np.ndarray, *, outs: tuple = (None,)) -> tuple:
    if outs[0] is None:
        return (np.array(x),)
    outs[0][...] = x
    return (outs[0],)


# A copy that no pass sees through: its output is a block of the arena, or the program's.
copy_p = Primitive("copy_for_tests")
copy_p.def_abstract_eval(lambda x: (ShapedArray(x.shape, x.dtype),))
copy_p.kernels["numpy"] = _copy_kernel


def _in_blocks(fun: Fun, xs: Sequence[Any], view: Fun | None = None) -> list[Any]:
    """fun between two copies: what it reads and writes are blocks of the arena, perhaps shared.

    With `view` it reads views of blocks.
    """
    copies = [copy_p.bind1(x) for x in xs]
    copies = copies if view is None else [view(x) for x in copies]
    return [copy_p.bind1(y) for y in leaves(fun(*copies))]


def _same_array(got: Any, want: Any, rtol: float | None, what: str) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype, (
        f"{what}: {got.dtype}{got.shape}, eager gives {want.dtype}{want.shape}"
    )
    assert got.weak_type == want.weak_type, f"{what}: weak_type {got.weak_type}"
    # A few roundings where the compiler joins operations.
    bound = 8 * rounding(want.dtype) if rtol is None else rtol
    assert_close(got, want, bound, what)


def check_jaxpr(fun: Fun, args: Sequence[np.ndarray], differentiable: Any = ()) -> None:
    """The jaxprs of a function and of its derivatives are well typed, before and after each pass.

    The jaxpr evaluated gives the values.
    """
    given = arrays(args)
    closed = mgefn.make_jaxpr(fun)(*given)
    check_types(closed)
    outs = eval_jaxpr(closed.jaxpr, closed.consts, given)
    for got, want, aval in zip(outs, leaves(fun(*given)), closed.out_avals, strict=True):
        _same_array(got, want, None, "the evaluated jaxpr")
        assert got.aval.same_type(aval), f"a value of type {got.aval} where the jaxpr says {aval}"
    programs: list[tuple[Fun, list[Any]]] = [(fun, given)]
    at = active(args, differentiable)
    if at:
        some = partial_at(fun, args, at)
        xs = [given[k] for k in at]
        ones = [mgefn.device_put(np.ones(y.shape, y.dtype)) for y in some(*xs)]
        programs.append((lambda *xs: mgefn.jvp(some, xs, xs), xs))
        programs.append((lambda *xs: mgefn.vjp(some, *xs)[1](ones), xs))
    with config.override(check_jaxprs=True):
        for program, inputs in programs:
            closed = mgefn.make_jaxpr(program)(*inputs)
            check_types(closed)
            backends.executable_of(closed)


# -- compiled programs and threads -----------------------------------------------------------------


def native_kernels(fun: Fun, *arguments: Any) -> list[Any]:
    """The kernels of the native program for these arguments, in order."""
    executable = mgefn.jit(fun, backend="llvm").lower(*arguments).compile()._entry.compiled()
    steps = [e.params["step"] for e in executable.closed.jaxpr.eqns if e.primitive is native_p]
    return [call.kernel for step in steps for call in calls_in(step.code)]


def layouts(fun: Fun, *arguments: Any) -> set[str]:
    """Those of the fused kernels of the native program; "" stands for kernels of other kinds."""
    return {getattr(kernel, "layout", "") for kernel in native_kernels(fun, *arguments)}


def run_side_by_side(work: Callable[[int], None], count: int) -> None:
    """work(k) in a thread for each k below count, which change over all the time."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
