"""scan, map, associative_scan: Python's loop, its derivatives, and what they say when misused."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import grad, jit, lax, vmap
from mgefn.control import programs
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError, TreeError
from tests import checks

RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 3)) / 2
H = RNG.standard_normal(3)
XS = RNG.standard_normal((5, 3))


def cell(w):
    def step(c, x):
        n = mnp.tanh(c @ mnp.exp(w) + x * c[0])
        return n, (n * x, c.sum())

    return step


def by_scan(reverse=False, wrap=lambda f: f):
    def run(w, h, xs):
        c, (ys, s) = lax.scan(wrap(cell(w)), h, xs, reverse=reverse)
        return c, ys, s

    return run


def by_python(reverse=False):
    def run(w, h, xs):
        step, c, ys = cell(w), h, []
        for i in reversed(range(len(xs))) if reverse else range(len(xs)):
            c, y = step(c, xs[i])
            ys.append(y)
        if reverse:
            ys.reverse()
        return c, mnp.stack([y for y, _ in ys]), mnp.stack([s for _, s in ys])

    return run


def loss(run):
    def f(w, h, xs):
        c, ys, s = run(w, h, xs)
        return (c**2).sum() + (ys * mnp.cos(xs)).sum() + (s**3).sum()

    return f


def same(got, want, rtol=1e-9):
    got, want = mgefn.tree.leaves(got), mgefn.tree.leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=rtol, atol=1e-12)


BATCH = tuple(np.stack([a, -a, a / 2]) for a in (W, H, XS))
TRANSFORMS = {
    "value": lambda f: f(*mgefn.device_put((W, H, XS))),
    "jit": lambda f: jit(f)(W, H, XS),
    "grad": lambda f: grad(f, (0, 1, 2))(W, H, XS),
    "jit grad": lambda f: jit(grad(f, (0, 1, 2)))(W, H, XS),
    "grad jit": lambda f: grad(jit(f), (0, 1, 2))(W, H, XS),
    "jvp": lambda f: mgefn.jvp(f, (W, H, XS), (W + 1, H + 1, XS + 1)),
    "jvp of one": lambda f: mgefn.jvp(lambda h: f(W, h, XS), (H,), (H + 1,)),
    "linearize": lambda f: mgefn.linearize(f, W, H, XS)[1](W, H, XS),
    "vmap": lambda f: vmap(f)(*BATCH),
    "vmap of one": lambda f: vmap(f, (None, 0, None))(W, BATCH[1], XS),
    "vmap of xs": lambda f: vmap(f, (None, None, 2))(W, H, np.moveaxis(BATCH[2], 0, 2)),
    "vmap grad": lambda f: vmap(grad(f, (0, 1, 2)))(*BATCH),
    "grad vmap": lambda f: grad(lambda *a: vmap(f)(*a).sum(), (0, 1, 2))(*BATCH),
    "jit vmap jit grad": lambda f: jit(vmap(jit(grad(f))))(*BATCH),
    "grad grad": lambda f: grad(lambda *a: (grad(f)(*a) ** 2).sum(), (0, 1, 2))(W, H, XS),
    "hessian": lambda f: mgefn.hessian(lambda h: f(W, h, XS))(H),
    "jacrev grad": lambda f: mgefn.jacrev(grad(lambda h: f(W, h, XS)))(H),
    "checkpoint": lambda f: grad(mgefn.checkpoint(f), (0, 1, 2))(W, H, XS),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_agrees_with_the_loop_in_python(transform, reverse):
    run = TRANSFORMS[transform]
    same(run(loss(by_scan(reverse))), run(loss(by_python(reverse))))


@pytest.mark.parametrize("transform", ["grad", "jit grad", "vmap grad", "grad grad"])
def test_checkpoint_inside(transform):
    run = TRANSFORMS[transform]
    same(run(loss(by_scan(wrap=mgefn.checkpoint))), run(loss(by_python())))


def test_derivatives_agree_with_differences():
    f, rng = by_scan(), np.random.default_rng(1)
    args = [W, H, XS]
    checks.check_jvp(f, args, rng)
    checks.check_vjp_transpose(f, args, rng)
    checks.check_second_order(f, args, rng)


def test_structures_without_xs_and_without_ys():
    def step(c, x):
        assert x is None
        return {"n": c["n"] + 1, "v": c["v"] * 2}, None

    c, ys = lax.scan(step, {"v": 1.0, "n": 0}, None, length=3)
    assert ys is None and c["n"] == 3 and c["v"] == 8
    assert lax.scan(lambda c, x: (c, c), (), None, length=2) == ((), ())


def test_no_steps():
    def f(a):
        return lax.scan(lambda c, x: (c * a, c + x.sum()), a, np.zeros((0, 2), np.float32))

    c, ys = f(2.0)
    assert c == 2 and ys.shape == (0,)
    assert grad(lambda a: f(a)[0])(2.0) == 1
    assert jit(lambda a: f(a)[0])(2.0) == 2
    assert vmap(lambda a: f(a)[1])(np.ones(3)).shape == (3, 0)


def test_integer_carry_and_xs():
    def f(x):
        step = lambda c, k: ((c[0] + k, c[1] * k), (c[0], c[1]))
        (n, y), (ns, ys) = lax.scan(step, (0, x), np.arange(1, 5))
        return y + ys.sum(), (n, ns)

    g, (n, ns) = grad(f, has_aux=True)(1.0)
    assert g == 24 + 1 + 1 + 2 + 6 and n == 10
    np.testing.assert_array_equal(ns, [0, 1, 3, 6])


def test_weak_carries_widen_until_they_settle():
    def step(c, x):
        return [c[0] + x, c[1] + c[0], c[2] + c[1]], c[2]

    c, ys = lax.scan(step, [0.0, 0.0, 0.0], np.ones(4, np.float16))
    assert [x.dtype for x in c] == [np.float16] * 3 and ys.dtype == np.float16
    assert lax.scan(lambda c, x: (c * 1.5, None), 1, None, length=2)[0].dtype == np.float32
    c, ys = lax.scan(lambda c, x: (c + x, c), 0, np.arange(3, dtype=np.int32))
    assert not c.weak_type and ys.weak_type


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: lax.scan(
                lambda c, x: ((c[0] + x["w"], c[1]), None),
                (np.float32(1), 2),
                {"w": np.ones(3)},
            ),
            DTypeError,
            r"c\[0\] is f32\[\] and comes back as f64\[\]: xs\['w'\] f64\[\] brings",
        ),
        (
            lambda: lax.scan(lambda s, _: (s.astype("float64"), None), np.float32(1), length=2),
            DTypeError,
            r"s is f32\[\] .* convert_element_type at test_scan.py:\d+ brings",
        ),
        (
            lambda: jit(lambda w: lax.scan(lambda s, _: (s * w, None), np.float32(1), length=2)[0])(
                np.ones(())
            ),
            DTypeError,
            r"a value it closes over f64\[\] brings",
        ),
        (
            lambda: lax.scan(lambda c, _: (mnp.stack([c, c]), None), 1.0, length=2),
            ShapeError,
            r"c is f32\[\] and comes back as f32\[2\]",
        ),
        (
            lambda: lax.scan(lambda c, _: ((c, c), None), 1.0, length=2),
            TreeError,
            "carry of the structure",
        ),
        (lambda: lax.scan(lambda c, _: c, 1.0, length=2), TreeError, "a pair"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, length=None), ArgumentError, "Pass length"),
        (
            lambda: lax.scan(lambda c, x: (c, x), 0, (np.ones(2), np.ones(3))),
            ShapeError,
            r"xs\[0\] with 2, xs\[1\] with 3",
        ),
        (lambda: lax.scan(lambda c, x: (c, x), 0, np.ones(2), 3), ShapeError, "length=3"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, 1.0), ShapeError, "leading axis"),
        (lambda: lax.scan(lambda c, x: (c, x), "a", np.ones(2)), ArgumentError, "init"),
        (lambda: lax.scan(lambda c, x: (c, "a"), 0, np.ones(2)), ArgumentError, "return arrays"),
        (lambda: lax.scan(1, 0, np.ones(2)), ArgumentError, "f must be a function"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, None, 1.5), ArgumentError, "length must be"),
    ],
)
def test_messages(call, error, match):
    with pytest.raises(error, match=match):
        call()


def counted(f):
    def g(*args):
        g.n += 1
        return f(*args)

    g.n = 0
    return g


def test_the_body_is_traced_a_few_times():
    step = counted(lambda s, x: (s * 0.9 + x, s))
    jit(grad(lambda x: lax.scan(step, x, np.ones(1000, np.float32))[0]))(1.0)
    assert step.n <= 4


def test_repeated_eager_calls_do_not_trace(monkeypatch):
    traced = counted(programs.trace)
    monkeypatch.setattr(programs, "trace", traced)

    def run(x, factor=2.0):
        def step(c, _):
            return c * factor, None

        return lax.scan(step, x, None, length=3)[0], lax.fori_loop(0, 3, lambda i, v: v + i, x)

    assert run(1.0) == (8, 4) and traced.n == 2
    assert run(2.0) == (16, 5) and traced.n == 2
    assert run(1.0, 3.0) == (27, 4) and traced.n == 3
    assert run(np.ones(2))[0].shape == (2,) and traced.n == 5


def test_what_a_body_closes_over_may_change():
    table = {"w": mnp.array(2.0)}
    array = np.array([2.0], np.float32)

    def step(c, _):
        return c * table["w"] * array[0], None

    def run():
        return float(lax.scan(step, 1.0, None, length=2)[0])

    assert run() == 16
    table["w"] = mnp.array(3.0)
    assert run() == 36
    array[0] = 1
    assert run() == 9


def test_kept_programs_are_bounded():
    for i in range(programs._KEPT + 5):
        names = {"lax": lax}
        exec(f"f = lambda c, x: (c * {i + 2}, None)", names)
        assert lax.scan(names["f"], 1, None, length=2)[0] == (i + 2) ** 2
    assert len(programs._kept) <= programs._KEPT
    large = mnp.ones((1 << 18) + 1, "float32")
    f = lambda c, x: (c + large[0], None)
    lax.scan(f, 0.0, None, length=2)
    assert not programs._kept.get(f.__code__)


def test_effects_keep_their_order_and_number():
    log = []

    def step(c, x):
        mgefn.debug.callback(lambda c, x: log.append((float(c), float(x))), c, x)
        return c + x, None

    def f(c):
        return lax.scan(step, c, np.float32([1, 2, 3]))[0]

    want = [(0, 1), (1, 2), (3, 3)]
    for run in (f, jit(f), grad(f), jit(grad(f)), jit(lambda c: (f(c), c)[1])):
        log.clear()
        run(0.0)
        assert log == want
    log.clear()
    jit(lambda c: (f(c), f(c)))(0.0)
    assert log == want * 2


def test_custom_rules_inside():
    @mgefn.custom_vjp
    def by_vjp(x):
        return mnp.sin(x)

    by_vjp.defvjp(lambda x: (mnp.sin(x), x), lambda x, ct: (7 * ct * mnp.cos(x),))

    @mgefn.custom_jvp
    def by_jvp(x):
        return mnp.sin(x)

    by_jvp.defjvp(lambda p, t: (by_jvp(*p), 3 * mnp.cos(p[0]) * t[0]))
    slope = np.cos(np.sin(0.5)) * np.cos(0.5)
    for fun, factor in ((by_vjp, 49), (by_jvp, 9)):
        f = lambda x, fun=fun: lax.scan(lambda c, _: (fun(c), None), x, None, length=2)[0]
        for run in (grad(f), jit(grad(f)), grad(jit(f))):
            np.testing.assert_allclose(run(0.5), factor * slope, rtol=1e-5)


def test_linear_loops_that_carry_a_counter_are_transposed():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, s: s * 2.0 + x * (i + 1), mnp.float32(0))

    (ct,) = mgefn.linear_transpose(f, np.float32(1))(np.float32(1))
    assert ct == f(np.float32(1)) == 11

    @mgefn.custom_jvp
    def cube(x):
        return x**3

    @cube.defjvp
    def _(p, t):
        return cube(*p), lax.fori_loop(0, 3, lambda i, s: s + t[0] * p[0] ** 2 * (i + 1) / 2, 0.0)

    assert grad(cube)(2.0) == jit(grad(cube))(2.0) == 12
    assert grad(grad(cube))(2.0) == 12


def test_what_no_step_changes_is_not_saved_for_each():
    def f(w, xs):
        return lax.scan(lambda c, x: (c @ mnp.exp(w) + x, None), mnp.zeros(3, "float64"), xs)[
            0
        ].sum()

    text = str(mgefn.make_jaxpr(grad(f, (0, 1)))(W, XS))
    assert "[5,3,3]" not in text  # exp(w) once, not stacked


def test_memory_of_a_long_loop_is_bounded():
    def f(x):
        return lax.scan(lambda c, _: (mnp.sin(c) * 2, None), x, None, length=1000)[0]

    x = np.zeros(100_000, np.float32)
    memory = jit(f).lower(x).compile().memory_analysis()
    assert x.nbytes <= memory.peak_memory_in_bytes <= 5 * x.nbytes


def test_large_carries_are_updated_in_place():
    x = mnp.zeros(1 << 19, "float32")
    got = lax.fori_loop(0, 6, lambda i, v: v.at[i].set(i + 1.0) * 1, x)
    np.testing.assert_array_equal(got[:8], [1, 2, 3, 4, 5, 6, 0, 0])
    assert not np.asarray(x).any()
    swapped = lax.scan(lambda c, _: ((c[1], c[0] + 1), c[0]), (x, x + 1), None, length=3)
    np.testing.assert_array_equal(swapped[0][0][:2], [2, 2])
    np.testing.assert_array_equal(swapped[1][:, 0], [0, 1, 1])
    both, _ = lax.scan(lambda c, _: ((c[0] + 1, c[0] + 1), None), (x, x), None, length=3)
    np.testing.assert_array_equal(both[1][:2], [3, 3])


@pytest.mark.parametrize("transform", ["value", "grad", "vmap", "jit"])
def test_without_jit(transform):
    want = TRANSFORMS[transform](loss(by_python()))
    with mgefn.disable_jit():
        same(TRANSFORMS[transform](loss(by_scan())), want)


def test_jaxprs_are_well_formed():
    with mgefn.config.override(check_jaxprs=True):
        f = loss(by_scan())
        check_jaxpr(mgefn.make_jaxpr(f)(W, H, XS))
        check_jaxpr(mgefn.make_jaxpr(grad(f, (0, 1, 2)))(W, H, XS))
        check_jaxpr(mgefn.make_jaxpr(vmap(grad(f)))(*BATCH))
        jit(grad(f, (0, 1, 2)))(W, H, XS)


# -- map ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 7])
def test_map(batch_size):
    f = lambda x: {"a": mnp.sin(x) @ W, "n": x.sum()}
    run = lambda xs: lax.map(f, xs, batch_size=batch_size)
    same(run(XS), vmap(f)(XS))
    same(jit(run)(XS), vmap(f)(XS))
    got = grad(lambda xs: run(xs)["a"].sum() + run(xs)["n"].sum())(XS)
    same(got, grad(lambda xs: vmap(f)(xs)["a"].sum() + vmap(f)(xs)["n"].sum())(XS))


def test_map_of_nothing():
    assert lax.map(lambda x: x * 2, np.ones((0, 3))).shape == (0, 3)
    assert lax.map(lambda x: x * 2, np.ones((0, 3)), batch_size=2).shape == (0, 3)
    with pytest.raises(ArgumentError, match="batch_size must be an int of 1 or more"):
        lax.map(lambda x: x, np.ones(3), batch_size=0)


# -- associative_scan -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_associative_scan(size, reverse):
    x = RNG.standard_normal((2, size))
    want = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    for run in (lambda f: f, jit):
        got = run(lambda x: lax.associative_scan(mnp.add, x, reverse=reverse, axis=-1))(x)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_associative_scan_of_a_linear_recurrence():
    """y[t] = a[t] y[t-1] + b[t], which is not commutative."""
    a, b = RNG.standard_normal((2, 7))

    def combine(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]

    def loop(a, b):
        return lax.scan(lambda y, ab: (ab[0] * y + ab[1],) * 2, mnp.float64(0), (a, b))[1]

    tree_scan = lambda a, b: lax.associative_scan(combine, (a, b))[1]
    same(tree_scan(a, b), loop(a, b))
    same(jit(mgefn.jacrev(tree_scan, (0, 1)))(a, b), mgefn.jacrev(loop, (0, 1))(a, b))
    pair = np.stack([a, b]), np.stack([b, a])
    same(vmap(tree_scan)(*pair), vmap(loop)(*pair))


def test_associative_scan_messages():
    with pytest.raises(AxisError):
        lax.associative_scan(mnp.add, np.ones(3), axis=1)
    with pytest.raises(ShapeError, match="one size"):
        lax.associative_scan(lambda a, b: a, (np.ones(3), np.ones(4)))
    with pytest.raises(TreeError, match="must return the structure"):
        lax.associative_scan(lambda a, b: (a, b), np.ones(3))


# -- loops in the hands of a derivative rule ------------------------------------------------------


def _by_rule(f):
    """f as a custom_jvp function whose rule is f's own jvp: values and tangents go through f."""

    @mgefn.custom_jvp
    def g(x):
        return f(x)

    @g.defjvp
    def _(primals, tangents):
        y, dot = mgefn.jvp(f, primals, tangents)
        return y, dot * y / y  # the value must come out as a value

    return g


LOOPS = {
    "scan": lambda x: lax.scan(lambda c, k: (mnp.sin(c * x) + k, c), x, np.arange(3.0))[0],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: mnp.sin(c * x) + i, x),
    "cond": jit(lambda x: lax.cond(x > 0, lambda x: mnp.sin(x) * x, lambda x: x**3, x)),
    "cond-other": jit(lambda x: lax.cond(x < 0, lambda x: 1.0 + 0 * x, mnp.exp, x)),
    "jit in scan": lambda x: lax.scan(
        lambda c, _: (jit(lambda c: mnp.sin(c) * c)(c) * x, None), x, None, length=3
    )[0],
    "cond in scan": lambda x: lax.scan(
        lambda c, k: (lax.cond(k > 1, mnp.sin, lambda c: c * x, c), None), x, np.arange(3)
    )[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_in_a_derivative_rule(name):
    f = LOOPS[name]
    x = mnp.asarray(0.7, "float64")
    for run in (grad, lambda f: jit(grad(f)), mgefn.jacfwd, lambda f: grad(grad(f))):
        same(run(_by_rule(f))(x), run(f)(x))
    same(vmap(grad(_by_rule(f)))(x * np.ones(2)), vmap(grad(f))(x * np.ones(2)))


def test_while_loop_in_a_derivative_rule():
    f = lambda x: lax.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1] * x), (0, x))[1]
    x = mnp.asarray(0.7, "float64")
    same(mgefn.jvp(_by_rule(f), (x,), (x,)), mgefn.jvp(f, (x,), (x,)))
    linear = mgefn.linearize(_by_rule(f), x)[1]
    same(linear(x), mgefn.jvp(f, (x,), (x,))[1])
    with pytest.raises(ArgumentError, match="reverse mode"):
        grad(_by_rule(f))(x)


def test_an_associative_function_must_keep_shapes():
    x = mnp.ones(4)
    with pytest.raises(ShapeError, match=r"associative_scan: .* must return the shapes of its arg"):
        lax.associative_scan(lambda a, b: (a + b).sum(), x)
    with pytest.raises(ShapeError, match=r"got f32\[1,2\] for f32\[2\]"):
        lax.associative_scan(lambda a, b: (a + b)[None], x)
