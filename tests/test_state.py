"""What is left behind: nothing after an exception, nothing between threads, nothing in memory."""

from __future__ import annotations

import gc
import linecache
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn.control.callbacks import pure_callback
from mgefn.control.checkpoint import checkpoint
from mgefn.control.custom_rules import custom_jvp, custom_vjp
from mgefn.core import array
from mgefn.core.collector import collector_paused
from mgefn.core.interpreter import state
from mgefn.ops import elementwise as e
from mgefn.ops import shaping as s
from tests.checks import run_side_by_side
from tests.kinds.interrupts import AGAIN, LOST

X = np.ones(3)


class Boom(Exception):
    pass


def _jvp_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_jvp(lambda x: x * 2.0)
    held.defjvp(lambda primals, tangents: (primals[0] * 2.0, f(tangents[0])))
    return held


def _fwd_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_vjp(lambda x: x * 2.0)
    held.defvjp(lambda x: (f(x), None), lambda res, ct: (ct * 2.0,))
    return held


def _bwd_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_vjp(lambda x: x * 2.0)
    held.defvjp(lambda x: (x * 2.0, None), lambda res, ct: (f(ct),))
    return held


def _held(f: Callable[..., Any]) -> Callable[..., Any]:
    held = custom_jvp(f)
    held.defjvp(lambda primals, tangents: mgefn.jvp(f, primals, tangents))
    return held


def _total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: f(x).sum()


def _pushed(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: mgefn.jvp(f, (x,), (x,))[1]


# name -> (a function of x) -> something that computes it within a transformation
WITHIN: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "grad": lambda f: mgefn.grad(_total(f)),
    "value_and_grad": lambda f: mgefn.value_and_grad(_total(f)),
    "vjp": lambda f: lambda x: mgefn.vjp(f, x)[1](x),
    "jvp": _pushed,
    "linearize": lambda f: lambda x: mgefn.linearize(f, x)[1](x),
    "linear_transpose": lambda f: lambda x: mgefn.linear_transpose(mgefn.linearize(f, x)[1], x)(x),
    "jacfwd": lambda f: mgefn.jacfwd(f),
    "jacrev": lambda f: mgefn.jacrev(f),
    "hessian": lambda f: mgefn.hessian(_total(f)),
    "vmap": lambda f: mgefn.vmap(f),
    "jit": lambda f: mgefn.jit(f),
    "make_jaxpr": lambda f: mgefn.make_jaxpr(f),
    "eval_shape": lambda f: lambda x: mgefn.eval_shape(f, x),
    "checkpoint": lambda f: checkpoint(f),
    "grad of checkpoint": lambda f: mgefn.grad(_total(checkpoint(f))),
    "custom_jvp": lambda f: mgefn.grad(_total(_held(f))),
    "jvp rule": lambda f: _pushed(_jvp_rule(f)),
    "grad of a jvp rule": lambda f: mgefn.grad(_total(_jvp_rule(f))),
    "fwd rule": lambda f: mgefn.grad(_total(_fwd_rule(f))),
    "bwd rule": lambda f: mgefn.grad(_total(_bwd_rule(f))),
    "grad of jit": lambda f: mgefn.grad(_total(mgefn.jit(f))),
    "jit of grad": lambda f: mgefn.jit(mgefn.grad(_total(f))),
    "vmap of grad": lambda f: mgefn.vmap(mgefn.grad(f)),
    "jit of vmap of grad of checkpoint": lambda f: mgefn.jit(mgefn.vmap(mgefn.grad(checkpoint(f)))),
    "grad of vmap of jit of a rule": lambda f: mgefn.grad(
        _total(mgefn.vmap(mgefn.jit(_bwd_rule(f))))
    ),
    "jvp of grad of custom_jvp": lambda f: _pushed(mgefn.grad(_total(_held(f)))),
    "jit of jvp of vmap": lambda f: mgefn.jit(_pushed(mgefn.vmap(f))),
}
# Transformations that run no kernel, or do not reach the place that fails.
ABSTRACT = ("make_jaxpr", "eval_shape")


def check_clean() -> None:
    """No interpreter is active, the collector is on, and computations are right."""
    assert state.current is None
    assert gc.isenabled()
    f = lambda x: (e.sin(x) * x).sum()
    want = np.sin(X) + X * np.cos(X)
    np.testing.assert_allclose(mgefn.grad(f)(X), want)
    np.testing.assert_allclose(mgefn.jit(mgefn.grad(f))(X), want)
    np.testing.assert_allclose(mgefn.vmap(mgefn.grad(lambda x: e.sin(x) * x))(X), want)
    np.testing.assert_allclose(mgefn.jvp(f, (X,), (X,))[1], want @ X)


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit, RecursionError])
@pytest.mark.parametrize("name", WITHIN)
def test_raised_by_the_function(name: str, error: type[BaseException]) -> None:
    def f(x: Any) -> Any:
        y = e.sin(x) * x
        raise error("here")
        return y

    with pytest.raises(error, match="here"):
        WITHIN[name](f)(X)
    check_clean()


@pytest.mark.parametrize("name", WITHIN)
def test_a_function_that_failed_can_be_called_again(name: str) -> None:
    fail = True
    # Where the function maps tangents or cotangents it has to be linear.
    right = (lambda x: x * 3.0) if "rule" in name else (lambda x: e.sin(x) * x)

    def f(x: Any) -> Any:
        if fail:
            raise Boom("here")
        return right(x)

    g = WITHIN[name](f)
    with pytest.raises(Boom):
        g(X)
    fail = False
    got, want = g(X), WITHIN[name](right)(X)
    if name not in ABSTRACT:
        for a, b in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(want), strict=True):
            np.testing.assert_array_equal(a, b)
    check_clean()


def _raise(*args: Any, **params: Any) -> Any:
    raise Boom("in a rule")


def _rules() -> Iterator[tuple[str, Any, str, Any]]:
    yield "abstract_eval", e.sin_p, "abstract_eval", _raise
    yield "slope", e.sin_p, "slopes", (_raise,)
    yield "batch", e.sin_p, "batch", _raise
    yield "kernel", e.sin_p, "ufunc", None
    yield "transpose", s.reshape_p, "transpose", _raise


@pytest.mark.parametrize("rule", list(_rules()), ids=lambda rule: rule[0])
def test_raised_by_a_rule(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, primitive, attribute, value = rule
    f = lambda x: s.reshape(e.sin(x), (*x.shape, 1))
    met = 0
    for within in WITHIN.values():
        with monkeypatch.context() as m:
            m.setattr(primitive, attribute, value)
            if kind == "kernel":
                m.setitem(primitive.kernels, "numpy", _raise)
            try:
                within(f)(X)
            except (Boom, mgefn.errors.MgefnError):  # vmap of grad needs a scalar, and f gives none
                met += 1
        check_clean()
    assert met >= 5, f"{kind} was met in {met} transformations"


@pytest.mark.parametrize("name", [n for n in WITHIN if n not in ABSTRACT and "rule" not in n])
def test_raised_by_a_callback(name: str) -> None:
    def host(x: np.ndarray) -> np.ndarray:
        raise Boom("in the callback")

    def f(x: Any) -> Any:
        shape = mgefn.ShapeDtypeStruct(x.shape, x.dtype)
        held = custom_jvp(lambda v: pure_callback(host, shape, v, vmap_method="sequential"))
        held.defjvp(lambda primals, tangents: (held(*primals), tangents[0] * held(*primals)))
        return e.sin(x) * held(x)  # derivatives need the callback's value

    with pytest.raises(Boom, match="in the callback"):
        WITHIN[name](f)(X)
    check_clean()


# Python looks for Ctrl-C at calls and backward jumps, the tracer below stops at any line: these
# lines, between a change and the `try` that undoes it or inside that `finally`, are no such place.
UNINTERRUPTED = ("try:", "state.current = previous", "if collecting:", "gc.enable()")
# Functions that clean up, or are called by a finalizer, whose exceptions Python swallows.
HOUSEKEEPING = (
    "__exit__", "__del__", "__init__", "give", "_shrink", "collector_paused", "entered",
    "interpreter_set_to",
)  # fmt: skip


def test_an_interrupt_at_any_moment() -> None:
    """An exception at a line in every 1/60 of those that run leaves nothing behind."""
    f = lambda x: mgefn.vmap(mgefn.jit(lambda v: e.sin(v) * v))(x).sum()

    def work() -> Any:
        return mgefn.jvp(mgefn.grad(f), (X,), (X,))

    def lines_until(stop: int) -> int:
        seen = 0

        def on_line(frame: Any, event: str, arg: Any) -> Any:
            nonlocal seen
            name = frame.f_code.co_filename
            if "mgefn" not in name or frame.f_code.co_name in HOUSEKEEPING:
                return None
            text = linecache.getline(name, frame.f_lineno).strip()
            if event == "line" and text not in UNINTERRUPTED:
                seen += 1
                if seen == stop:
                    raise KeyboardInterrupt
            return on_line

        former = sys.gettrace()
        sys.settrace(on_line)
        try:
            work()
        finally:
            sys.settrace(former)
        return seen

    work()  # loads what is loaded at first use, whose lines are no part of the work
    total = lines_until(-1)
    assert total > 1000
    for stop in range(1, total, max(total // 60, 1)):
        with pytest.raises(KeyboardInterrupt):
            lines_until(stop)
        check_clean()


def test_threads_do_not_meet() -> None:
    """Four threads that trace, differentiate, batch and compile at the same time."""
    shared = mgefn.jit(lambda x: (e.sin(x) * x).sum())
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def work(k: int) -> None:
        try:
            start.wait()
            for n in range(1, 26):
                x = np.linspace(0.1, 1.0 + k, n)
                want = np.sin(x) + x * np.cos(x)
                np.testing.assert_allclose(mgefn.grad(shared)(x), want)
                np.testing.assert_allclose(shared(x), np.sin(x) @ x)
                f = lambda v, k=k: e.sin(v) * v * (k + 1.0)
                np.testing.assert_allclose(mgefn.vmap(mgefn.grad(f))(x), want * (k + 1))
                own = mgefn.jit(mgefn.grad(lambda v, f=f: f(v).sum()))
                np.testing.assert_allclose(own(x), want * (k + 1))
                np.testing.assert_allclose(own(x * 1.0), want * (k + 1))
                with mgefn.config.override(zero_annihilates=k % 2 == 0):
                    slope = mgefn.grad(lambda v: e.sqrt(v * v))(np.zeros(()))
                    assert bool(np.isnan(slope)) == (k % 2 == 1)
                assert state.current is None
        except BaseException as error:
            failures.append(error)

    run_side_by_side(work, 4)
    if failures:
        raise failures[0]
    check_clean()


def test_overlapping_pauses_of_the_collector() -> None:
    """In whatever order two threads come and go, it is on in the end; where it was off, off."""
    for order in ("abAB", "abBA", "aAbB"):
        a, b = (collector_paused() for _ in range(2))
        for step in order:
            {"a": a, "b": b}[step.lower()].__enter__() if step.islower() else (
                {"a": a, "b": b}[step.lower()].__exit__(None, None, None)
            )
        assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.filterwarnings(LOST)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_interrupts_between_any_two_instructions() -> None:
    """A timer that ticks all the time leaves neither an interpreter nor a paused collector."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    # Loads what is loaded at first use, in a thread: Python's own are not safe against interrupts.
    mgefn.grad(e.sin)(0.5)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + 1e-6 * (k % 97), AGAIN)
                while True:
                    mgefn.grad(e.sin)(0.5)
                    with collector_paused():
                        pass
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert state.current is None
            assert gc.isenabled()
    finally:
        signal.signal(signal.SIGALRM, before)
    check_clean()


def test_an_interpreter_is_of_its_thread() -> None:
    """A thread started inside a traced function computes by itself."""
    found: list[Any] = []

    def f(x: Any) -> Any:
        t = threading.Thread(target=lambda: found.append((state.current, e.sin(0.5))))
        t.start()
        t.join()
        return e.cos(x)

    mgefn.jit(f)(0.1)
    ((current, value),) = found
    assert current is None
    np.testing.assert_allclose(value, np.sin(0.5), rtol=1e-6)


def _in_use() -> tuple[int, int]:
    array._SCALARS.clear()  # bounded; how full it happens to be is not the question
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def test_memory_stays_flat() -> None:
    """10,000 calls with new closures, static values, shapes: caches fill, then nothing grows."""
    static = mgefn.jit(lambda x, k: e.sin(x) * k, static_argnums=1)
    shaped = mgefn.jit(lambda x: e.sin(x) * 2)
    mapped = mgefn.jit(lambda x: e.sin(x) * 3)

    def calls(start: int, stop: int) -> None:
        for k in range(start, stop):
            kind = k % 5
            if kind == 0:
                mgefn.jit(lambda x, k=k: e.sin(x) * k)(np.ones(1 + k % 7))
            elif kind == 1:
                static(np.ones(2), float(k))
            elif kind == 2:
                shaped(np.ones((1 + k % 97, k // 97)))
            elif kind == 3:
                mgefn.grad(mgefn.jit(lambda x, k=k: e.sin(x) * k))(np.asarray(0.5 + k))
            else:
                mgefn.vmap(mapped)(np.ones((1 + k % 499, 2)))

    # The caches of `static` and `shaped` take 2048 signatures each; 2000 calls in five are enough
    # only if they are made smaller.
    with pytest.MonkeyPatch.context() as m:
        m.setattr("mgefn.api.jit._CACHE_BOUND", 256)
        calls(0, 5000)
        objects, blocks = _in_use()
        calls(5000, 10_000)
        more_objects, more_blocks = _in_use()
    assert len(static._cache) == len(shaped._cache) == 256
    # Slack for what a garbage collection, a resized table or an interned string may add.
    assert more_objects - objects < 1500
    assert more_blocks - blocks < 6000


def test_scalars_are_kept_within_bounds() -> None:
    for k in range(10_000):
        array.scalar(k, np.dtype("int32"))
    assert len(array._SCALARS) <= 4096
