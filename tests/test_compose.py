"""Transformations composed with each other, on random programs and on the points where NaNs lurk.

    MGEFN_COMPOSE_EXAMPLES=2000 python -m pytest tests/test_compose.py

runs every property on that many programs (those in SLOW on fewer) instead of the few that fit a
normal run. The programs are new every day; MGEFN_TEST_SEED=... repeats those of a failure, whose
output names it.
"""

from __future__ import annotations

import datetime
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

import mgefn
from mgefn.config import config
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.jaxpr import check_jaxpr
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from tests import programs as programs_module
from tests.programs import WRAPS, Program, Step, loss, programs, reference, run

EXAMPLES = int(os.environ.get("MGEFN_COMPOSE_EXAMPLES", "40"))
SEED = int(os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d"))
print(f"MGEFN_TEST_SEED={SEED}")

# A custom_vjp function has no forward mode, which the rules of the custom_jvp wrapping use.
FORWARD = programs(wraps=[w for w in WRAPS if w != "custom_vjp"])
REVERSE = programs(wraps=[w for w in WRAPS if w != "custom_jvp"])
ANY = programs(wraps=[w for w in WRAPS if w != "custom_vjp"], reverse=False)
SHORT = programs(wraps=[w for w in WRAPS if w != "custom_vjp"], max_steps=8)


class Derivatives:
    """Numerical derivatives, and how many of them were too rough to judge by."""

    def __init__(self) -> None:
        self.taken = self.rough = 0

    def directional(
        self, fun: Callable[..., Sequence[Any]], xs: Sequence[Any], dxs: Sequence[Any]
    ) -> tuple[list[np.ndarray], float] | None:
        """d/dt fun(xs + t dxs) at 0 and a bound of its error, or None where that is too wide.

        Central differences of two step sizes, extrapolated; their disagreement is the bound.
        """
        differences = []
        for h in (1e-4, 2e-4):
            above = fun(*[np.asarray(x + h * d) for x, d in zip(xs, dxs, strict=True)])
            below = fun(*[np.asarray(x - h * d) for x, d in zip(xs, dxs, strict=True)])
            differences.append(
                [
                    (np.asarray(p) - np.asarray(m)) / (2 * h)
                    for p, m in zip(above, below, strict=True)
                ]
            )
        fine, coarse = differences
        best = [(4 * f - k) / 3 for f, k in zip(fine, coarse, strict=True)]
        size = max([1.0, *(np.abs(b).max(initial=0.0) for b in best)])
        spread = max(
            [0.0, *(np.abs(f - k).max(initial=0.0) for f, k in zip(fine, coarse, strict=True))]
        )
        self.taken += 1
        if not spread < 1e-3 * size:
            self.rough += 1
            return None
        return best, spread + 1e-8 * size

    def conclude(self) -> None:
        """Fail if more than a fifth of the draws could not be judged."""
        assert self.rough <= 0.2 * self.taken, f"{self.rough} of {self.taken} were too rough"


def close(got: Any, want: Any, what: str = "", tolerance: float = 1e-9) -> None:
    """Equal up to rounding, with the largest element as the scale; shapes too."""
    got, want = flat(got), flat(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, f"{what}: {g.shape} for {w.shape}"
        assert g.dtype == w.dtype, f"{what}: {g.dtype} for {w.dtype}"
        scale = max(1.0, float(np.abs(w).max(initial=0.0)))
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * scale, err_msg=what)


def flat(x: Any) -> list[np.ndarray]:
    """The leaves of a pytree as NumPy arrays."""
    return [np.asarray(leaf) for leaf in mgefn.tree.leaves(x)]


def directions(xs: Sequence[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    return [np.asarray(rng.uniform(-1, 1, np.shape(x))) for x in xs]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return math.fsum(float(np.vdot(x, y)) for x, y in zip(flat(xs), flat(ys), strict=True))


def every(xs: Sequence[Any]) -> tuple[int, ...]:
    return tuple(range(len(xs)))


# -- the checks: (program, inputs, rng, derivatives) ----------------------------------------------


def check_values(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """Eager, jitted, and NumPy's values agree, and so do shapes and dtypes."""
    fun = partial(run, program)
    eager = fun(*xs)
    close(eager, reference(program, *xs), "eager against NumPy", 1e-6)
    jitted = mgefn.jit(fun)
    close(jitted(*xs), eager, "jit")
    close(jitted(*xs), eager, "jit, second call")
    shapes = mgefn.eval_shape(fun, *xs)
    assert [(z.shape, z.dtype) for z in shapes] == [(y.shape, y.dtype) for y in eager]


def check_wraps(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """Nested jit, checkpoint and custom rules change neither value nor gradient."""
    close(run(program, *xs), run(program, *xs, wraps=False), "value")
    wrapped = mgefn.value_and_grad(partial(loss, program), every(xs))
    plain = mgefn.value_and_grad(partial(loss, program, wraps=False), every(xs))
    close(wrapped(*xs), plain(*xs), "gradient")
    close(mgefn.jit(wrapped)(*xs), plain(*xs), "jitted gradient")


def check_jvp(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """jvp gives the numerical derivative, eager and jitted."""
    fun = partial(run, program)
    dxs = directions(xs, rng)
    ys, dys = mgefn.jvp(fun, xs, dxs)
    close(ys, fun(*xs), "value of jvp")
    close(mgefn.jit(lambda x, d: mgefn.jvp(fun, x, d))(xs, dxs), (ys, dys), "jit of jvp")
    close(mgefn.jvp(mgefn.jit(fun), xs, dxs), (ys, dys), "jvp of jit")
    found = derivatives.directional(partial(reference, program), xs, dxs)
    if found is not None:
        want, error = found
        for dy, w in zip(dys, want, strict=True):
            np.testing.assert_allclose(dy, w, rtol=0, atol=error)


def check_transpose(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """<ct, J dx> = <J^T ct, dx>."""
    fun = partial(run, program)
    dxs = directions(xs, rng)
    dys = mgefn.jvp(fun, xs, dxs)[1]
    ys, pullback = mgefn.vjp(fun, *xs)
    cts = directions(ys, rng)
    a, b = inner(cts, dys), inner(pullback([e.astype(ct, ct.dtype) for ct in cts]), dxs)
    assert abs(a - b) <= 1e-9 * max(1.0, abs(a)), (a, b)


def check_linearize(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """linearize gives jvp, and its transpose vjp."""
    fun = partial(run, program)
    dxs = directions(xs, rng)
    ys, dys = mgefn.jvp(fun, xs, dxs)
    out, f_jvp = mgefn.linearize(fun, *xs)
    close(out, ys, "value of linearize")
    close(f_jvp(*dxs), dys, "linearize")
    cts = directions(ys, rng)
    pulled = mgefn.vjp(fun, *xs)[1](cts)
    close(mgefn.linear_transpose(f_jvp, *xs)(cts), pulled, "linear_transpose")
    close(mgefn.jit(mgefn.linear_transpose(f_jvp, *xs))(cts), pulled, "jit of linear_transpose")


def check_grad_of_jit(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """grad and jit commute, and grad is the numerical derivative."""
    fun = partial(loss, program)
    value, eager = mgefn.value_and_grad(fun, every(xs))(*xs)
    close(value, fun(*xs), "value")
    close(mgefn.grad(mgefn.jit(fun), every(xs))(*xs), eager, "grad of jit")
    close(mgefn.jit(mgefn.grad(fun, every(xs)))(*xs), eager, "jit of grad")
    close(mgefn.jit(mgefn.grad(mgefn.jit(fun), every(xs)))(*xs), eager, "jit of grad of jit")
    dxs = directions(xs, rng)
    found = derivatives.directional(lambda *v: [loss_of(program, v)], xs, dxs)
    if found is not None:
        (want,), error = found
        np.testing.assert_allclose(inner(eager, dxs), want, rtol=0, atol=error)


def loss_of(program: Program, xs: Sequence[Any]) -> float:
    """The loss by NumPy."""
    total = 0.0
    for k, out in enumerate(reference(program, *xs)):
        total += float(np.ravel(out) @ np.cos(np.arange(out.size) + 2.0 * k))
    return total


def check_vmap(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """vmap is a loop, with some inputs shared and the axes anywhere; also of grad, also jitted."""
    size = int(rng.integers(1, 4))
    batch = program.arrays(size)
    axes = [int(rng.integers(-1, x.ndim)) for x in xs]  # -1: shared
    axes[int(rng.integers(len(xs)))] = 0
    moved = [x if a < 0 else np.moveaxis(b, 0, a) for x, b, a in zip(xs, batch, axes, strict=True)]
    in_axes = tuple(None if a < 0 else a for a in axes)
    examples = [
        [x if a < 0 else np.asarray(b[k]) for x, b, a in zip(xs, batch, axes, strict=True)]
        for k in range(size)
    ]

    def loop(fun: Callable[..., Any]) -> list[np.ndarray]:
        found = [flat(fun(*example)) for example in examples]
        return [np.stack(column) for column in zip(*found, strict=True)]

    fun = partial(run, program)
    want = loop(fun)
    close(mgefn.vmap(fun, in_axes)(*moved), want, "vmap")
    close(mgefn.jit(mgefn.vmap(fun, in_axes))(*moved), want, "jit of vmap")
    close(mgefn.vmap(mgefn.jit(fun), in_axes)(*moved), want, "vmap of jit")
    gradient = mgefn.grad(partial(loss, program), every(xs))
    slopes = loop(gradient)
    close(mgefn.vmap(gradient, in_axes)(*moved), slopes, "vmap of grad")
    close(mgefn.jit(mgefn.vmap(gradient, in_axes))(*moved), slopes, "jit of vmap of grad")

    def total(*vs: Any) -> Any:
        return mgefn.vmap(partial(loss, program), in_axes)(*vs).sum()

    got = mgefn.grad(total, every(xs))(*moved)
    summed = [
        g.sum(0) if a < 0 else np.moveaxis(g, 0, a) for g, a in zip(slopes, axes, strict=True)
    ]
    close(got, summed, "grad of vmap")


def check_forward(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """Forward derivatives of batches and of derivatives, which loops of unknown length have too."""
    fun = partial(run, program)
    dxs = directions(xs, rng)
    batch, dbatch = program.arrays(2), [np.stack([d, -d]) for d in dxs]
    examples = [[np.asarray(b[k]) for b in batch] for k in range(2)]
    pairs = [mgefn.jvp(fun, x, d) for x, d in zip(examples, (dxs, [-d for d in dxs]), strict=True)]
    want = [np.stack(column) for column in zip(*map(flat, pairs), strict=True)]
    pushed = lambda x, d: mgefn.jvp(fun, x, d)
    close(mgefn.vmap(pushed)(batch, dbatch), want, "vmap of jvp")
    close(mgefn.jvp(mgefn.vmap(fun), batch, dbatch), want, "jvp of vmap")
    close(mgefn.jit(mgefn.vmap(pushed))(batch, dbatch), want, "jit of vmap of jvp")
    slope = lambda *vs: mgefn.jvp(partial(loss, program), vs, dxs)[1]
    second = mgefn.jvp(slope, xs, dxs)
    close(mgefn.jit(lambda *vs: mgefn.jvp(slope, vs, dxs))(*xs), second, "jit of jvp of jvp")
    columns = mgefn.jacfwd(slope, every(xs))(*xs)
    close(inner(columns, dxs), second[1], "jacfwd of jvp", 1e-8)


def check_hessian(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """The Hessian is symmetric and the same by all four orders; its product is numerical too."""
    x, rest = xs[0], xs[1:]

    def fun(v: Any) -> Any:
        return loss(program, v, *rest)

    hessian = np.asarray(mgefn.hessian(fun)(x))
    n = x.size
    close(hessian.reshape(n, n).T, hessian.reshape(n, n), "symmetry")
    close(mgefn.jacfwd(mgefn.grad(fun))(x), hessian, "jacfwd(grad)")
    close(mgefn.jacrev(mgefn.grad(fun))(x), hessian, "jacrev(grad)")
    close(mgefn.jit(mgefn.hessian(fun))(x), hessian, "jit of hessian")
    close(mgefn.hessian(mgefn.jit(fun))(x), hessian, "hessian of jit")
    close(mgefn.vmap(mgefn.hessian(fun))(x[None]), hessian[None], "vmap of hessian")


def check_reverse_twice(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """Reverse over reverse is forward over reverse of the program without wrappings."""
    x, rest = xs[0], xs[1:]
    want = mgefn.hessian(lambda v: loss(program, v, *rest, wraps=False))(x)
    fun = lambda v: loss(program, v, *rest)
    close(mgefn.jacrev(mgefn.grad(fun))(x), want, "jacrev(grad)")
    close(mgefn.jit(mgefn.jacrev(mgefn.grad(fun)))(x), want, "jit of jacrev(grad)")
    close(mgefn.jacrev(mgefn.grad(mgefn.jit(fun)))(x), want, "jacrev(grad) of jit")


def check_second_order(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """Forward over reverse = reverse over forward = reverse over reverse = numerical."""
    gradient = mgefn.grad(partial(loss, program), every(xs))
    dxs = directions(xs, rng)
    want = mgefn.jvp(gradient, xs, dxs)[1]
    slope = lambda *vs: mgefn.jvp(partial(loss, program), vs, dxs)[1]
    close(mgefn.grad(slope, every(xs))(*xs), want, "reverse over forward")
    twice = lambda *vs: sum((g * d).sum() for g, d in zip(gradient(*vs), dxs, strict=True))
    close(mgefn.grad(twice, every(xs))(*xs), want, "reverse over reverse")
    third = mgefn.jvp(lambda *vs: mgefn.jvp(gradient, vs, dxs)[1], xs, dxs)[1]
    close(mgefn.jvp(mgefn.grad(slope, every(xs)), xs, dxs)[1], third, "third order", 1e-8)
    found = derivatives.directional(gradient, xs, dxs)
    if found is not None:
        for g, w in zip(want, found[0], strict=True):
            np.testing.assert_allclose(g, w, rtol=0, atol=found[1])


def check_jaxpr_of(program: Program, xs: list, rng: Any, derivatives: Derivatives) -> None:
    """make_jaxpr's program gives the function's values and is well formed after each pass."""
    fun = partial(run, program)
    with config.override(check_jaxprs=True):
        for f in (fun, mgefn.grad(partial(loss, program), every(xs))):
            want = flat(f(*xs))
            closed = mgefn.make_jaxpr(f)(*xs)
            check_jaxpr(closed)
            got = eval_jaxpr(closed.jaxpr, closed.consts, [e.astype(x, x.dtype) for x in xs])
            close(got, want, "evaluated jaxpr")
            close(mgefn.jit(f)(*xs), want, "jit with checks")
        mgefn.make_jaxpr(mgefn.vmap(fun))(*[x[None] for x in xs])


# check -> what programs it is for
CHECKS: dict[Callable[..., None], Any] = {
    check_values: programs(wraps=["jit", "checkpoint", "custom_vjp", "vmap"], narrow=True) | ANY,
    check_wraps: FORWARD | REVERSE,
    check_jvp: FORWARD | ANY,
    check_forward: ANY,
    check_transpose: FORWARD,
    check_linearize: FORWARD,
    check_grad_of_jit: FORWARD | REVERSE,
    check_vmap: FORWARD | REVERSE,
    check_hessian: SHORT,
    check_reverse_twice: SHORT | programs(wraps=["jit", "checkpoint", "custom_vjp"], max_steps=8),
    check_second_order: SHORT,
    check_jaxpr_of: FORWARD | REVERSE,
}


SLOW = {check_jaxpr_of: 4}  # checks that take so many times longer see fewer programs


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_property(check: Callable[..., None]) -> None:
    derivatives = Derivatives()

    @hypothesis_seed(SEED)
    @settings(
        max_examples=-(-EXAMPLES // SLOW.get(check, 1)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(CHECKS[check], st.integers(0, 2**32 - 1))
    def holds(program: Program, seed: int) -> None:
        note(f"MGEFN_TEST_SEED={SEED}")
        check(program, program.arrays(), np.random.default_rng(seed), derivatives)

    holds()
    derivatives.conclude()


@pytest.mark.parametrize("wrap", [w for w in WRAPS if w not in ("custom_vjp", "vmap")])
def test_a_rule_that_calls_the_jvp_of_a_program(wrap: str) -> None:
    """The call takes values and tangents together; only what depends on tangents is linear."""

    def f(x: Any) -> Any:
        held = custom_jvp(lambda v: WRAPS[wrap](lambda u: e.sin(u) * v)(v))
        held.defjvp(lambda p, t: mgefn.jvp(lambda v: WRAPS[wrap](lambda u: e.sin(u) * v)(v), p, t))
        return held(x)

    x = np.asarray(0.5)
    want = np.sin(0.5) + 0.5 * np.cos(0.5)
    for g in (f, mgefn.jit(f)):
        value, slope = mgefn.value_and_grad(g)(x)
        np.testing.assert_allclose([float(value), float(slope)], [0.5 * np.sin(0.5), want])
        np.testing.assert_allclose(mgefn.linearize(g, x)[1](x), 0.5 * want)
        np.testing.assert_allclose(mgefn.grad(mgefn.grad(g))(x), mgefn.jacfwd(mgefn.grad(g))(x))


def test_a_rule_within_a_rule_closes_over_its_tangents() -> None:
    def held(fun: Callable[..., Any]) -> Callable[..., Any]:
        g = custom_jvp(fun)
        g.defjvp(lambda primals, tangents: mgefn.jvp(fun, primals, tangents))
        return g

    def f(x: Any) -> Any:
        a, b = e.sin(x), e.cos(x)
        return held(lambda v: held(lambda u: u * e.sin(v))(a))(b)

    x = np.asarray(0.5)
    want = mgefn.jvp(lambda v: e.sin(v) * e.sin(e.cos(v)), (x,), (np.ones(()),))[1]
    for derivative in (mgefn.grad, mgefn.jacfwd):
        for g in (derivative(f), derivative(mgefn.jit(f)), mgefn.jit(derivative(f))):
            np.testing.assert_allclose(g(x), want)


def test_branches_within_branches_of_a_batched_rule() -> None:
    """Their program of tangents is filled up for the examples that take the other branch."""

    def nested(v: Any) -> Any:
        small = lambda u: mgefn.lax.cond((u < 9).all(), e.sin, e.cos, u).sum()
        return mgefn.lax.cond(v.sum() > 0.1, small, lambda u: (u * u).sum(), v)

    x = np.array([[0.5, -0.2], [-1.0, 0.3]])
    want = np.stack([np.cos(x[0]), 2 * x[1]])
    held = custom_jvp(nested)
    held.defjvp(lambda primals, tangents: mgefn.jvp(nested, primals, tangents))
    for f in (held, mgefn.jit(held)):
        np.testing.assert_allclose(mgefn.vmap(mgefn.grad(f))(x), want)
        np.testing.assert_allclose(mgefn.grad(lambda v: mgefn.vmap(f)(v).sum())(x), want)  # noqa: B023


# -- the checks reject what is wrong --------------------------------------------------------------

SUSPECT = Program(
    ((3,), (2, 3)),
    (
        Step("binary", (0, 1), ("mul",)),
        Step("cumulative", (2,), ("cumsum", 1, False), "jit", 2),
        Step("reduction", (3,), ("sum", (0,), False)),
        Step("unary", (4,), ("sin",)),
    ),
    7,
)


# The same operations inside of branches and loops, with a decomposition and computed places.
_BODY = Program(
    ((3,), (), (2, 3)),
    (
        Step("unary", (2,), ("sin",)),
        Step("reduction", (3,), ("sum", (0,), False)),
        Step("binary", (4, 0), ("mul",)),
    ),
)
_BRANCH = Program(((3,), (2, 3)), (Step("unary", (0,), ("sin",)),))
_OTHER = Program(((3,), (2, 3)), (Step("cumulative", (0,), ("cumsum", 0, True)),))
LOOPED = Program(
    ((3,), (2, 3)),
    (
        Step("scan", (0, 0, 1), (_BODY, 5, "both", True, 1)),
        Step("cond", (0, 2, 1), ((_BRANCH, _OTHER), False)),
        Step("linalg", (1,), ("cholesky",)),
        Step("gather", (1, 0), (1, False)),
        Step("order", (5, 5), ("argsort", 1)),
    ),
    7,
)


def _rejected(check: Callable[..., None], program: Program = SUSPECT) -> bool:
    try:
        check(program, program.arrays(), np.random.default_rng(2), Derivatives())
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("program", [SUSPECT, LOOPED], ids=["plain", "looped"])
def test_right_rules_pass(check: Callable[..., None], program: Program) -> None:
    assert not _rejected(check, program)


def test_a_wrong_slope_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e.sin_p, "slopes", (lambda y, x: 1.001 * e.cos(x),))
    for check in (check_jvp, check_grad_of_jit):
        for program in (SUSPECT, LOOPED):
            assert _rejected(check, program), check


def test_a_wrong_second_derivative_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e.cos_p, "slopes", (lambda y, x: -1.001 * e.sin(x),))
    assert _rejected(check_second_order)
    assert not _rejected(check_jvp)  # cos is met in second derivatives only


def test_a_wrong_transpose_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = r.reduce_sum_p.transpose
    assert right is not None
    monkeypatch.setattr(
        r.reduce_sum_p, "transpose", lambda *a, **k: tuple(1.001 * ct for ct in right(*a, **k))
    )
    for check in (check_transpose, check_grad_of_jit, check_hessian):
        for program in (SUSPECT, LOOPED):
            assert _rejected(check, program), check


def test_a_wrong_loop_or_branch_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {name: getattr(programs_module.NUMPY, name) for name in ("scan", "cond")}
    wrong = {
        "scan": lambda *a, reverse, **k: right["scan"](*a, reverse=not reverse, **k),
        "cond": lambda p, *a: right["cond"](not p, *a),
    }
    for name, replacement in wrong.items():
        with monkeypatch.context() as patch:
            patch.setattr(programs_module.NUMPY, name, replacement)
            assert _rejected(check_values, LOOPED), name
    assert not _rejected(check_values, LOOPED)


def test_a_wrong_batch_rule_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = u.cumsum_p.batch
    assert right is not None

    def wrong(args: Any, bdims: Any, **params: Any) -> Any:
        outs, out_bdims = right(args, bdims, **params)
        return tuple(s.rev(y, (d,)) for y, d in zip(outs, out_bdims, strict=True)), out_bdims

    monkeypatch.setattr(u.cumsum_p, "batch", wrong)
    # The batch has one to three examples, and one example reversed is right.
    assert any(
        _raises(lambda k=k: check_vmap(SUSPECT, SUSPECT.arrays(), np.random.default_rng(k), None))
        for k in range(4)
    )


def _raises(run_it: Callable[[], None]) -> bool:
    try:
        run_it()
    except AssertionError:
        return True
    return False


def test_a_wrong_simplification_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled only: an identity that is none."""
    monkeypatch.setattr(e.sin_p, "simplify", lambda inputs, params, avals: [inputs[0]])
    assert _rejected(check_values)
    assert _rejected(check_jaxpr_of)


def test_wraps_that_change_the_meaning_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WRAPS, "jit", lambda fun: lambda *xs: tuple(2 * y for y in fun(*xs)))
    assert _rejected(check_wraps)


def test_rough_numerical_derivatives_are_counted() -> None:
    derivatives = Derivatives()
    step = lambda x: [np.floor(x)]
    assert derivatives.directional(step, [np.asarray(1.0)], [np.asarray(1.0)]) is None
    assert derivatives.directional(lambda x: [x * x], [np.asarray(1.0)], [np.asarray(1.0)])
    with pytest.raises(AssertionError, match="1 of 2 were too rough"):
        derivatives.conclude()


# -- where a derivative is 0 times something that is not finite -----------------------------------

inf = math.inf


def _softmax(x: Any) -> Any:
    y = e.exp(x - r.max(x))
    return y / y.sum()


# name -> (function of a scalar or vector, point, gradient, second derivatives or None where they
# have no finite limit; a derivative of a vector function is that of the sum of its outputs)
GUARDED: dict[str, tuple[Callable[..., Any], Any, Any, Any]] = {
    "sin(x)**2 at 0": (lambda x: e.sin(x) ** 2, 0.0, 0.0, 2.0),
    "sin(x)*sin(x) at 0": (lambda x: e.sin(x) * e.sin(x), 0.0, 0.0, 2.0),
    "x*x at 0": (lambda x: x * x, 0.0, 0.0, 2.0),
    "x*x at -0": (lambda x: x * x, -0.0, 0.0, 2.0),
    "x**3 at 0": (lambda x: x**3, 0.0, 0.0, 0.0),
    "x*exp(x) at 0": (lambda x: x * e.exp(x), 0.0, 1.0, 2.0),
    "log at -1": (lambda x: e.where(x > 0, e.log(x), 0), -1.0, 0.0, 0.0),
    "log at 0": (lambda x: e.where(x > 0, e.log(x), 0), 0.0, 0.0, 0.0),
    "log at -0": (lambda x: e.where(x > 0, e.log(x), 0), -0.0, 0.0, 0.0),
    "log at 2": (lambda x: e.where(x > 0, e.log(x), 0), 2.0, 0.5, -0.25),
    "log1p at -1": (lambda x: e.where(x > -1, e.log1p(x), 0), -1.0, 0.0, 0.0),
    "sqrt at -1": (lambda x: e.where(x > 0, e.sqrt(x), 0), -1.0, 0.0, 0.0),
    "sqrt at 0": (lambda x: e.where(x > 0, e.sqrt(x), 0), 0.0, 0.0, 0.0),
    "sqrt of a square, guarded, at 0": (lambda x: e.where(x != 0, e.sqrt(x * x), 0), 0.0, 0.0, 0.0),
    "division at 0": (lambda x: e.where(x != 0, 1 / x, 0), 0.0, 0.0, 0.0),
    "sin(x)/x at 0": (lambda x: e.where(x != 0, e.sin(x) / x, 1), 0.0, 0.0, 0.0),
    "0/0 at 0": (lambda x: e.where(x != 0, x / x, 1), 0.0, 0.0, 0.0),
    "x**0.5 at -1": (lambda x: e.where(x > 0, x**0.5, 0), -1.0, 0.0, 0.0),
    "x**-1.5 at 0": (lambda x: e.where(x > 0, x**-1.5, 0), 0.0, 0.0, 0.0),
    "x**x at 0": (lambda x: e.where(x > 0, e.power(x, x), 1), 0.0, 0.0, 0.0),
    "arcsin at 1": (lambda x: e.where(x < 1, e.arcsin(x), 0), 1.0, 0.0, 0.0),
    "arccosh at 0": (lambda x: e.where(x > 1, e.arccosh(x), 0), 0.0, 0.0, 0.0),
    "exp overflow": (lambda x: e.where(x < 5, e.exp(x), 1), 1000.0, 0.0, 0.0),
    "rsqrt at 0": (lambda x: e.where(x > 0, e.rsqrt(x), 0), 0.0, 0.0, 0.0),
    "arctan2 at 0": (lambda x: e.where(x > 0, e.arctan2(x, x), 0), 0.0, 0.0, 0.0),
    "hypot at 0": (lambda x: e.where(x > 0, e.hypot(x, x), 0), 0.0, 0.0, 0.0),
    "cbrt at 0": (lambda x: e.where(x > 0, e.cbrt(x), 0), 0.0, 0.0, 0.0),
    "nested guards": (
        lambda x: e.where(x > 0, e.sqrt(e.where(x > 1, e.log(x - 1), 4)), x), -1.0, 1.0, 0.0,
    ),
    "x**0 at 0": (lambda x: e.power(x, 0.0), 0.0, 0.0, 0.0),
    "x**1 at 0": (lambda x: e.power(x, 1.0), 0.0, 1.0, 0.0),
    "x**2 at 0": (lambda x: e.power(x, 2.0), 0.0, 0.0, 2.0),
    "x**3. at 0": (lambda x: e.power(x, 3.0), 0.0, 0.0, 0.0),
    "0**x at 2": (lambda x: e.power(0.0, x), 2.0, 0.0, 0.0),
    "prod with a zero": (r.prod, [2.0, 0.0, 3.0], [0, 6, 0], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
    "prod with two zeros": (r.prod, [0.0, 5.0, 0.0], [0.0] * 3, [[0, 0, 5], [0, 0, 0], [5, 0, 0]]),
    "norm at 0": (lambda x: e.sqrt((x * x).sum()), [0.0, 0.0], [0.0, 0.0], None),
    "norm**2 at 0": (lambda x: e.sqrt((x * x).sum()) ** 2, [0.0, 0.0], [0.0, 0.0], None),
    "std of a constant": (r.std, [3.0, 3.0, 3.0], [0.0] * 3, None),
    "logsumexp with -inf": (r.logsumexp, [0.0, -inf], [1.0, 0.0], [[0, 0], [0, 0]]),
    "logsumexp of -inf": (
        lambda x: e.where(x[0] > -inf, r.logsumexp(x), 0), [-inf, -inf], [0, 0], None,
    ),
    "softmax with -inf": (lambda x: _softmax(x)[0], [0.0, -inf, 0.0], [0.25, 0, -0.25], None),
    "cumprod with a zero": (lambda x: u.cumprod(x), [2.0, 0.0, 3.0], [1.0, 8.0, 0.0], None),
    "complex abs at 0": (lambda x: e.abs(x + 0j), 0.0, 0.0, None),
    "complex log, guarded": (
        lambda x: e.real(e.where(x > 0, e.log(x + 0j), 0)), 0.0, 0.0, 0.0,
    ),
}  # fmt: skip


def _as_point(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("name", GUARDED)
def test_no_nan_from_what_was_not_taken(name: str) -> None:
    fun, point, gradient, second = GUARDED[name]
    x = _as_point(point)
    total = lambda v: fun(v).sum()
    for f in (total, mgefn.jit(total)):
        np.testing.assert_allclose(mgefn.grad(f)(x), gradient, rtol=1e-12, err_msg="grad")
        for jacobian in (mgefn.jacfwd, mgefn.jacrev):
            np.testing.assert_allclose(jacobian(f)(x), gradient, rtol=1e-12, err_msg=str(jacobian))
            np.testing.assert_allclose(mgefn.jit(jacobian(f))(x), gradient, rtol=1e-12)
        np.testing.assert_allclose(mgefn.vmap(mgefn.grad(f))(x[None])[0], gradient, rtol=1e-12)
        batched = mgefn.grad(lambda v, f=f: mgefn.vmap(f)(v).sum())(np.stack([x, x]))
        np.testing.assert_allclose(
            batched, [gradient, gradient], rtol=1e-12, err_msg="grad of vmap"
        )
        if second is None:
            continue
        orders = {
            "hessian": mgefn.hessian(f),
            "jacfwd(jacfwd)": mgefn.jacfwd(mgefn.jacfwd(f)),
            "jacrev(jacfwd)": mgefn.jacrev(mgefn.jacfwd(f)),
            "jacrev(jacrev)": mgefn.jacrev(mgefn.jacrev(f)),
        }
        for order, h in orders.items():
            np.testing.assert_allclose(h(x), second, rtol=1e-12, err_msg=order)
            np.testing.assert_allclose(mgefn.jit(h)(x), second, rtol=1e-12, err_msg=f"jit {order}")
        pushed = mgefn.jvp(mgefn.grad(f), (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(pushed, np.asarray(second).sum(-1) if x.ndim else second)


def test_a_nan_of_the_value_shows_in_the_gradient() -> None:
    for f, x in [
        (lambda v: e.sqrt(v), -1.0),
        (lambda v: e.log(v) * v, -1.0),
        (lambda v: v * math.nan, 1.0),
        (lambda v: e.where(v > 0, e.sqrt(v - 2), v), 1.0),
        (lambda v: e.sin(v), inf),
    ]:
        x = _as_point(x)
        assert np.isnan(f(e.astype(x, x.dtype)))
        for g in (f, mgefn.jit(f)):
            assert np.isnan(mgefn.grad(g)(x))
            assert np.isnan(mgefn.jvp(g, (x,), (_as_point(1.0),))[1])
            assert np.isnan(mgefn.jit(mgefn.grad(g))(x))


def test_an_infinite_slope_that_counts_is_infinite() -> None:
    for g in (e.sqrt, mgefn.jit(e.sqrt)):
        assert np.isposinf(mgefn.grad(g)(_as_point(0.0)))
        assert np.isposinf(mgefn.jacfwd(g)(_as_point(0.0)))


def test_plain_products_give_the_nan() -> None:
    # Forward, a select drops the infinite tangent; here the zero comes before the infinite slope.
    f = lambda v: e.sqrt(v * v)
    x = _as_point(0.0)
    with config.override(zero_annihilates=False):
        for g in (f, mgefn.jit(f)):
            assert np.isnan(mgefn.grad(g)(x))
            assert np.isnan(mgefn.jacfwd(g)(x))
            assert np.isnan(mgefn.jit(mgefn.grad(g))(x))
    jitted = mgefn.jit(f)
    assert mgefn.grad(jitted)(x) == 0
    with config.override(zero_annihilates=False):
        assert np.isnan(mgefn.grad(jitted)(x))
    assert mgefn.grad(jitted)(x) == 0


def test_signed_zeros_annihilate_too() -> None:
    x = _as_point(0.0)
    for tangent in (0.0, -0.0):
        for f in (e.sqrt, e.log, mgefn.jit(e.sqrt), e.cbrt):
            assert mgefn.jvp(f, (x,), (_as_point(tangent),))[1] == 0
            assert mgefn.vjp(f, x)[1](_as_point(tangent))[0] == 0
            assert mgefn.linearize(f, x)[1](_as_point(tangent)) == 0


# -- depth ----------------------------------------------------------------------------------------

DEPTH = 20_000


def chain(x: Any, n: int = DEPTH) -> Any:
    """n operations in a row: 0.9 x + 0.1, which tends to 1."""
    for _ in range(n // 2):
        x = x * 0.9 + 0.1
    return x


def test_deep_programs_need_no_deep_stack() -> None:
    assert DEPTH > 5 * sys.getrecursionlimit()
    x = _as_point(0.5)
    with np.errstate(under="ignore"):
        closed = mgefn.make_jaxpr(chain)(x)
        assert len(closed.eqns) == DEPTH
        assert len(str(closed).splitlines()) >= DEPTH
        check_jaxpr(closed)
        np.testing.assert_allclose(mgefn.jit(chain)(x), 1.0)
        for f in (chain, mgefn.jit(chain)):
            gradient = mgefn.grad(f)(x)
            assert 0 <= gradient < 1e-300
            np.testing.assert_allclose(mgefn.jvp(f, (x,), (x,))[0], 1.0)
            np.testing.assert_allclose(mgefn.vmap(f)(np.ones(2)), [1.0, 1.0])
        assert 0 <= mgefn.jit(mgefn.grad(chain))(x) < 1e-300


def test_deep_nesting_of_calls() -> None:
    """As deep as Python itself lets functions that call each other nest."""
    f: Callable[..., Any] = e.sin
    for _ in range(20):
        f = mgefn.jit(partial(lambda g, x: g(x) * 1.0, f))
    x = _as_point(0.5)
    np.testing.assert_allclose(f(x), np.sin(0.5))
    np.testing.assert_allclose(mgefn.grad(f)(x), np.cos(0.5))
    np.testing.assert_allclose(mgefn.jit(mgefn.grad(f))(x), np.cos(0.5))


def test_calls_that_double_stay_small() -> None:
    """f_k calls f_(k-1) twice: the program is as long as what was written, not 2**k."""
    f: Callable[..., Any] = e.sin
    for _ in range(24):
        f = mgefn.jit(partial(lambda g, x: g(g(x)) * 1.0, f))
    compiled = f.lower(_as_point(0.5)).compile()
    assert len(compiled.as_text().splitlines()) < 5_000
