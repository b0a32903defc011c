"""Checking derivatives against differences, under the names of jax.test_util.

Central differences of step eps have an error of about eps**2 and a rounding error of about the
machine's epsilon / eps; the default tolerances fit the dtype. Functions must be smooth around the
point. For tight checks use float64 arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.api.derivatives import float0_zeros, jvp, vjp
from mgefn.api.flat import checked_function
from mgefn.core.array import as_array
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, api_boundary

_EPS = {"float16": 5e-2, "bfloat16": 1e-1, "float32": 1e-3, "complex64": 1e-3}
_EPS64 = 1e-6
_TOLERANCES = {"float16": 5e-2, "bfloat16": 2e-1, "float32": 2e-2, "complex64": 2e-2}
_TOLERANCE64 = 1e-5


def _arrays(xs: Any) -> list[Any]:
    return [as_array(x, "check_grads") for x in tree.leaves(xs)]


def _least_precise(xs: Any, table: dict[str, float], default: float) -> float:
    """The largest entry of the table for a floating dtype of the tree."""
    kinds = [a.dtype.name for a in _arrays(xs) if dtypes.is_inexact(a.dtype)]
    return max((table.get(k, default) for k in kinds), default=default)


def _direction(rng: np.random.Generator, xs: Any) -> Any:
    """A random tangent of a tree."""

    def draw(x: Any) -> Any:
        a = as_array(x, "check_grads")
        if not dtypes.is_inexact(a.dtype):
            return float0_zeros(a.shape)
        d = rng.standard_normal(a.shape)
        if a.dtype.kind == "c":
            d = d + 1j * rng.standard_normal(a.shape)
        return np.asarray(d, a.dtype)

    return tree.map(draw, xs)


def _moved(xs: Any, ds: Any, step: float) -> Any:
    def move(x: Any, d: Any) -> Any:
        a = np.asarray(x) if not isinstance(x, (int, float, complex)) else x
        a = np.asarray(as_array(a, "check_grads"))
        return a if getattr(d, "dtype", None) == dtypes.float0 else (a + step * d).astype(a.dtype)

    return tree.map(move, xs, ds)


@api_boundary
def numerical_jvp(f: Callable[..., Any], args: Any, tangents: Any, eps: float | None = None) -> Any:
    """The derivative of f in a direction by central differences.

    Args:
        f: a function of pytrees of arrays.
        args: its arguments, a tuple.
        tangents: the direction, like args.
        eps: the step; None chooses one for the dtype.

    Returns:
        A pytree like the output of f, of NumPy arrays.
    """
    step = _least_precise(args, _EPS, _EPS64) if eps is None else eps
    plus = f(*_moved(args, tangents, step))
    minus = f(*_moved(args, tangents, -step))

    def difference(a: Any, b: Any) -> Any:
        a, b = np.asarray(as_array(a, "check_grads")), np.asarray(as_array(b, "check_grads"))
        if not dtypes.is_inexact(a.dtype):
            return float0_zeros(a.shape)
        wide = np.result_type(a.dtype if a.dtype.kind == "c" else np.float64, np.float64)
        return ((a.astype(wide) - b.astype(wide)) / (2 * step)).astype(a.dtype)

    return tree.map(difference, plus, minus)


def _compare(about: str, got: Any, want: Any, atol: float, rtol: float, err_msg: str) -> None:
    """Raise AssertionError where two trees differ; it names the leaf."""
    if tree.structure(got) != tree.structure(want):
        difference = tree.structure_difference(
            tree.structure(want), tree.structure(got), ("the expected", "the one that came")
        )
        raise AssertionError(f"{about}: {difference}. {err_msg}")
    paths = tree.key_paths(want)
    for path, g, w in zip(paths, tree.leaves(got), tree.leaves(want), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        if w.dtype == dtypes.float0 or g.dtype == dtypes.float0:
            continue
        wide = np.complex128 if "c" in (g.dtype.kind, w.dtype.kind) else np.float64
        np.testing.assert_allclose(
            g.astype(wide), w.astype(wide), rtol, atol, err_msg=f"{about}{path} {err_msg}".rstrip()
        )


def _tolerances(args: Any, atol: float | None, rtol: float | None) -> tuple[float, float]:
    default = _least_precise(args, _TOLERANCES, _TOLERANCE64)
    return default if atol is None else atol, default if rtol is None else rtol


@api_boundary
def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare a function's forward derivative with differences, in a random direction.

    Args:
        f: a function of pytrees of arrays.
        f_jvp: f_jvp(args, tangents) -> (output, output's tangent), such as partial(mgefn.jvp, f).
        args: where to look, a tuple of arguments.
        atol, rtol: allowed differences; None chooses by the dtype.
        eps: the step of the differences; None chooses by the dtype.
        err_msg: said where they differ.

    Raises:
        AssertionError: value or derivative differ.
    """
    atol, rtol = _tolerances(args, atol, rtol)
    tangents = _direction(np.random.default_rng(0), tuple(args))
    out, dot = f_jvp(tuple(args), tangents)
    _compare("check_jvp: the value", out, f(*args), atol, rtol, err_msg)
    want = numerical_jvp(f, tuple(args), tangents, eps)
    _compare("check_jvp: the derivative", dot, want, atol, rtol, err_msg)


def _inner(a: Any, b: Any) -> float:
    """The real inner product of a tangent and a cotangent, or of two of either."""
    total = 0.0
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype == dtypes.float0 or y.dtype == dtypes.float0:
            continue
        wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
        total += float(np.real(np.sum(x.astype(wide) * y.astype(wide))))
    return total


@api_boundary
def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compare a function's reverse derivative with differences, in random directions.

    Args:
        f: a function of pytrees of arrays.
        f_vjp: f_vjp(*args) -> (output, pullback), such as partial(mgefn.vjp, f).
        args: where to look, a tuple of arguments.
        atol, rtol, eps, err_msg: as for `check_jvp`.

    Raises:
        AssertionError: value or derivative differ.
    """
    atol, rtol = _tolerances(args, atol, rtol)
    rng = np.random.default_rng(0)
    out, pullback = f_vjp(*args)
    _compare("check_vjp: the value", out, f(*args), atol, rtol, err_msg)
    tangents = _direction(rng, tuple(args))
    want = numerical_jvp(f, tuple(args), tangents, eps)
    ct = _direction(rng, out)
    pulled = pullback(ct)
    # <ct, J v> = <J^T ct, v>
    np.testing.assert_allclose(
        _inner(pulled, tangents),
        _inner(ct, want),
        rtol,
        atol,
        err_msg=f"check_vjp: the derivative {err_msg}".rstrip(),
    )


@api_boundary
def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare a function's derivatives up to an order with differences.

    Args:
        f: a function of pytrees of arrays, smooth around args.
        args: where to look, a tuple of arguments.
        order: highest order of derivative, 1 or more.
        modes: "fwd" for forward mode, "rev" for reverse mode. Higher orders take every nesting.
        atol, rtol: allowed differences; None chooses by the dtype.
        eps: the step of the differences; None chooses by the dtype.

    Raises:
        AssertionError: a derivative differs; the message names the nesting.
        ArgumentError: a mode or the order is unknown.

    Example:
        >>> mgefn.test_util.check_grads(lambda x: mnp.sin(x) * x, (np.array([0.5, 2.0]),), order=2)
    """
    checked_function("check_grads", f)
    args = tuple(args)
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or any(m not in ("fwd", "rev") for m in modes):
        raise ArgumentError(f"check_grads: modes must be of 'fwd' and 'rev', got {modes}.")
    if not isinstance(order, int) or order < 1:
        raise ArgumentError(f"check_grads: order must be an int of 1 or more, got {order!r}.")
    atol, rtol = _tolerances(args, atol, rtol)
    _check_order(f, args, order, modes, atol, rtol, eps, fun_name(f))


def _check_order(
    f: Callable[..., Any],
    args: tuple,
    order: int,
    modes: tuple[str, ...],
    atol: float,
    rtol: float,
    eps: float | None,
    name: str,
) -> None:
    if "fwd" in modes:
        forward = partial(jvp, f)
        check_jvp(f, forward, args, atol, rtol, eps, f"jvp of {name}")
        if order > 1:
            tangents = _direction(np.random.default_rng(1), args)

            def pushed(*xs: Any) -> Any:
                return jvp(f, xs, tangents)

            _check_order(pushed, args, order - 1, modes, atol, rtol, eps, f"jvp of {name}")
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, atol, rtol, eps, f"vjp of {name}")
        if order > 1:
            out, _ = vjp(f, *args)
            ct = _direction(np.random.default_rng(2), out)

            def pulled(*xs: Any) -> Any:
                y, pullback = vjp(f, *xs)
                return y, pullback(ct)

            _check_order(pulled, args, order - 1, modes, atol, rtol, eps, f"vjp of {name}")


__all__ = ["check_grads", "check_jvp", "check_vjp", "numerical_jvp"]
