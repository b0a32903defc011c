"""custom_jvp and custom_vjp under every order of the other transformations."""

from functools import partial

import numpy as np
import pytest

import mgefn
from mgefn import grad, jit, vmap
from mgefn.control.custom_rules import (
    SymbolicZero,
    closes_over_tracers,
    closure_convert,
    custom_jvp,
    custom_vjp,
)
from mgefn.core.interpreter import state
from mgefn.errors import ArgumentError, CustomRuleError
from mgefn.ops.elementwise import cos, sin

X = np.linspace(0.1, 1.0, 4).astype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    yield
    assert state.current is None


@custom_jvp
def by_jvp(x):
    return sin(x)


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    """Ten times the true derivative, so that it shows which rule ran."""
    return by_jvp(primals[0]), 10 * cos(primals[0]) * tangents[0]


@custom_vjp
def by_vjp(x):
    return sin(x)


by_vjp.defvjp(lambda x: (sin(x), x), lambda x, ct: (10 * cos(x) * ct,))

FIRST_ORDER = {
    "vmap grad": lambda f: vmap(grad(f)),
    "jit vmap grad": lambda f: jit(vmap(grad(f))),
    "vmap jit grad": lambda f: vmap(jit(grad(f))),
    "vmap grad jit": lambda f: vmap(grad(jit(f))),
    "grad vmap": lambda f: grad(lambda x: vmap(f)(x).sum()),
    "grad jit vmap": lambda f: grad(lambda x: jit(vmap(f))(x).sum()),
    "grad vmap jit": lambda f: grad(lambda x: vmap(jit(f))(x).sum()),
    "jit grad jit vmap jit": lambda f: jit(grad(lambda x: jit(vmap(jit(f)))(x).sum())),
    "jacrev vmap": lambda f: lambda x: np.diag(mgefn.jacrev(vmap(f))(x)),
    "vmap vmap grad": lambda f: lambda x: vmap(vmap(grad(f)))(x[None])[0],
    "grad of an inner grad": lambda f: vmap(grad(lambda x: grad(lambda y: f(x) * y)(2.0))),
    "grad of an inner jvp": lambda f: vmap(
        grad(lambda x: mgefn.jvp(lambda y: f(x) * y, (2.0,), (1.0,))[1])
    ),
    "grad of an inner vmap": lambda f: vmap(
        grad(lambda x: vmap(lambda y: f(x) * y)(np.float32([0.25, 0.75])).sum())
    ),
}
FORWARD = {
    "jvp vmap": lambda f: lambda x: mgefn.jvp(vmap(f), (x,), (np.ones_like(x),))[1],
    "vmap jvp": lambda f: vmap(lambda x: mgefn.jvp(f, (x,), (1.0,))[1]),
    "jvp jit vmap jit": lambda f: (
        lambda x: mgefn.jvp(jit(vmap(jit(f))), (x,), (np.ones_like(x),))[1]
    ),
    "jacfwd": lambda f: lambda x: np.diag(mgefn.jacfwd(vmap(f))(x)),
    "linearize": lambda f: lambda x: mgefn.linearize(vmap(f), x)[1](np.ones_like(x)),
}
SECOND_ORDER = {
    "grad grad": lambda f: grad(grad(f)),
    "grad jit grad": lambda f: grad(jit(grad(f))),
    "jit grad jit grad jit": lambda f: jit(grad(jit(grad(jit(f))))),
    "hessian": mgefn.hessian,
    "jacfwd jacrev jit": lambda f: mgefn.jacfwd(mgefn.jacrev(jit(f))),
    "jacrev jacrev": lambda f: mgefn.jacrev(mgefn.jacrev(f)),
}


@pytest.mark.parametrize("f", [by_jvp, by_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("order", FIRST_ORDER)
def test_first_derivatives_by_the_rule(f, order):
    np.testing.assert_allclose(FIRST_ORDER[order](f)(X), 10 * np.cos(X), rtol=1e-5)


@pytest.mark.parametrize("order", FORWARD)
def test_forward_mode_by_the_rule(order):
    np.testing.assert_allclose(FORWARD[order](by_jvp)(X), 10 * np.cos(X), rtol=1e-5)


@pytest.mark.parametrize("f", [by_jvp, by_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("order", SECOND_ORDER)
def test_second_derivatives_are_those_of_the_rule(f, order):
    np.testing.assert_allclose(SECOND_ORDER[order](f)(1.0), -10 * np.sin(1.0), rtol=1e-5)


@pytest.mark.parametrize("f", [by_jvp, by_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("wrap", [lambda f: f, jit, vmap], ids=["plain", "jit", "vmap"])
def test_the_value_is_the_functions(f, wrap):
    np.testing.assert_allclose(wrap(f)(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("order", FORWARD)
def test_custom_vjp_has_no_forward_mode(order):
    with pytest.raises(CustomRuleError, match="Define it with custom_jvp"):
        FORWARD[order](by_vjp)(X)


def test_shared_operand_collects_its_cotangents():
    @custom_vjp
    def scaled(x, w):
        return x * w

    scaled.defvjp(lambda x, w: (x * w, (x, w)), lambda r, ct: (ct * r[1], ct * r[0]))
    for wrap in (lambda f: f, jit):
        batched = wrap(vmap(wrap(scaled), (0, None)))
        g = grad(lambda w, batched=batched: batched(X, w).sum())
        np.testing.assert_allclose(wrap(g)(2.0), X.sum(), rtol=1e-6)


# -- closures -------------------------------------------------------------------------------------


def closing_vjp(x, y):
    @custom_vjp
    def go(q):
        return x * q

    go.defvjp(lambda q: (x * q, ()), lambda res, ct: (3 * x * ct,))
    return go(y)


def closing_jvp(x, y):
    @custom_jvp
    def go(q):
        return x * q

    go.defjvp(lambda p, t: (x * p[0], 3 * x * t[0]))
    return go(y)


@pytest.mark.parametrize("f", [closing_jvp, closing_vjp])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_closures_over_traced_values(f, wrap):
    batch = np.float32([1, 2])
    np.testing.assert_allclose(vmap(wrap(f), (0, None))(batch, 10.0), [10, 20])
    np.testing.assert_allclose(wrap(vmap(f, (None, 0)))(2.0, batch), [2, 4])
    # By the argument the rule: 3x. By the closure the ordinary derivative: y.
    for g in (grad(wrap(f), (0, 1)), wrap(grad(f, (0, 1)))):
        np.testing.assert_allclose(g(2.0, 5.0), (5, 6))
        np.testing.assert_allclose(vmap(g)(batch, batch), (batch, 3 * batch))
    np.testing.assert_allclose(grad(wrap(f), 0)(2.0, 5.0), 5)
    np.testing.assert_allclose(grad(wrap(f), 1)(2.0, 5.0), 6)
    np.testing.assert_allclose(grad(lambda z: grad(wrap(f), 1)(z, z))(2.0), 3)
    np.testing.assert_allclose(grad(lambda z: grad(wrap(f), 0)(z, z * z))(3.0), 6)


def test_jvp_of_a_closure():
    got = mgefn.jvp(closing_jvp, (2.0, 5.0), (1.0, 1.0))
    np.testing.assert_allclose(got, (10, 5 + 6))


def test_closes_over_tracers_looks_into_functions():
    found = []

    def look(x):
        found.append(closes_over_tracers([lambda: x]))
        found.append(closes_over_tracers([partial(lambda a, b: a, x)]))
        found.append(closes_over_tracers([(lambda: lambda: x)]))
        found.append(closes_over_tracers([lambda: X]))
        return x

    grad(look)(1.0)
    assert found == [True, True, True, False]


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_pytrees_integers_none_and_keywords(wrap):
    @partial(custom_jvp, nondiff_argnums=(0,))
    def f(fn, d, n, z=None):
        return {"o": fn(d["a"]) * n, "i": n}

    @f.defjvp
    def rule(fn, primals, tangents):
        (d, n, z), (d_dot, n_dot, z_dot) = primals, tangents
        assert n_dot.dtype == mgefn.float0
        assert z is None and z_dot is None
        return f(fn, d, n, z), {"o": 2 * d_dot["a"] * n, "i": np.zeros((), mgefn.float0)}

    g = wrap(grad(lambda a: f(sin, n=3, d={"a": a})["o"]))
    np.testing.assert_allclose(g(1.0), 6)
    np.testing.assert_allclose(vmap(g)(X), [6] * 4)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_residuals_may_hold_anything(wrap):
    @custom_vjp
    def f(x, n):
        return sin(x) * n, n

    def bwd(res, ct):
        x, n, tag, nothing = res
        assert tag == "tag" and nothing is None
        assert ct[1].dtype == mgefn.float0
        return ct[0] * 7 * cos(x) * n, None

    f.defvjp(lambda x, n: ((sin(x) * n, n), (x, n, "tag", None)), bwd)
    g = grad(lambda x: f(x, 2)[0])
    np.testing.assert_allclose(wrap(g)(1.0), 14 * np.cos(1), rtol=1e-6)
    np.testing.assert_allclose(vmap(wrap(g))(X), 14 * np.cos(X), rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_nondiff_argnums_takes_functions_strings_and_traced_arrays(wrap):
    @partial(custom_vjp, nondiff_argnums=(0, 2, 3))
    def f(fn, x, tag, m):
        return fn(x) * m

    f.defvjp(
        lambda fn, x, tag, m: (fn(x) * m, x),
        lambda fn, tag, m, x, ct: ((100.0 if tag == "big" else 1.0) * fn(x) * ct * m,),
    )
    g = grad(lambda x, m: f(cos, x, "big", m))
    np.testing.assert_allclose(wrap(g)(0.0, 2.0), 200)
    np.testing.assert_allclose(
        vmap(wrap(g))(np.zeros(2, np.float32), np.float32([1, 2])), [100, 200]
    )
    with pytest.raises(CustomRuleError, match="nondiff_argnums"):
        wrap(grad(lambda m: f(cos, 1.0, "big", m)))(1.0)


def test_nondiff_argnames():
    f = custom_jvp(lambda x, n: x**n, nondiff_argnames="n")
    f.defjvp(lambda n, p, t: (f(p[0], n), t[0] * n))
    np.testing.assert_allclose(grad(f)(2.0, 3), 3)
    with pytest.raises(ArgumentError, match="names 'z', which is no argument"):
        custom_jvp(lambda x: x, nondiff_argnames="z")


def test_defjvps():
    f = custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: t * out, None)
    np.testing.assert_allclose(grad(f, (0, 1))(2.0, 3.0), (6, 0))


def test_symbolic_zeros():
    seen = []
    f = custom_jvp(lambda x, y: x * y)

    def rule(primals, tangents):
        seen.append(type(tangents[1]))
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    assert grad(f)(2.0, 3.0) == 3 == grad(jit(f))(2.0, 3.0)
    assert seen == [SymbolicZero, SymbolicZero]

    g = custom_vjp(lambda x, y: (x * y, x))

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * y.value, x.value), (x.value, y.value)

    def bwd(res, cts):
        seen.append(type(cts[1]))
        return cts[0] * res[1], cts[0] * res[0]

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    assert grad(lambda x: g(x, 2.0)[0])(1.0) == 2
    assert seen[2:] == [(True, False), SymbolicZero]


def test_custom_function_applied_to_a_tangent():
    twice = custom_vjp(lambda x: 2 * x)
    twice.defvjp(lambda x: (2 * x, None), lambda res, ct: (2 * ct,))
    for inner in (twice, jit(twice)):
        f = custom_jvp(lambda x: x)
        f.defjvp(lambda p, t, inner=inner: (p[0], inner(t[0])))
        for g in (grad(f), grad(jit(f)), jit(grad(f))):
            assert g(1.0) == 2


def test_closure_convert():
    def outer(y):
        converted, values = closure_convert(lambda x: x * y, 2.0)
        return converted(3.0, *values)

    assert outer(2.0) == 6
    assert grad(outer)(2.0) == 3
    assert jit(outer)(2.0) == 6


# -- mistakes -------------------------------------------------------------------------------------

BAD_JVP = {
    "no pair": (lambda p, t: p[0], "must return a pair"),
    "structure": (lambda p, t: (p[0], (t[0],)), "tangents of the structure of its outputs"),
    "shape": (lambda p, t: (p[0], np.ones(3, np.float32)), r"got a tangent f32\[3\]"),
    "dtype": (lambda p, t: (p[0], t[0].astype("float16")), r"got a tangent f16\[\]"),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize("kind", BAD_JVP)
def test_bad_jvp_rules(kind, wrap):
    rule, match = BAD_JVP[kind]
    f = custom_jvp(lambda x: x)
    f.defjvp(rule)
    with pytest.raises(CustomRuleError, match=match):
        grad(wrap(f))(np.float32(1))


BAD_BWD = {
    "too few": (lambda res, ct: (ct,), "one cotangent for each of the 2 arguments"),
    "no tuple": (lambda res, ct: ct, "one cotangent for each of the 2 arguments"),
    "structure": (lambda res, ct: (ct, ct), "at \\[0\\]"),
    "shape": (lambda res, ct: ({"a": ct[None]}, ct), r"got f32\[1\] for an argument f32\[\]"),
    "dtype": (lambda res, ct: ({"a": ct.astype("float16")}, ct), r"got f16\[\]"),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize("kind", BAD_BWD)
def test_bad_backward_rules(kind, wrap):
    bwd, match = BAD_BWD[kind]
    f = custom_vjp(lambda d, y: d["a"] * y)
    f.defvjp(lambda d, y: (d["a"] * y, None), bwd)
    with pytest.raises(CustomRuleError, match=match):
        wrap(grad(wrap(lambda x: f({"a": x}, x))))(np.float32(1))


def test_none_and_lists_are_cotangents():
    f = custom_vjp(lambda d, y: d["a"] * y)
    f.defvjp(lambda d, y: (d["a"] * y, None), lambda res, ct: [None, 2.0])
    assert grad(lambda x: f({"a": x}, x))(np.float32(1)) == 2
    f.defvjp(lambda d, y: (d["a"] * y, None), lambda res, ct: ({"a": None}, ct))
    assert grad(lambda x: f({"a": x}, x))(np.float32(1)) == 1


def test_rule_must_agree_with_the_function():
    f = custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (np.ones(2, np.float32), np.ones(2, np.float32)))
    with pytest.raises(CustomRuleError, match=r"function's output \(f32\[\]\), got \(f32\[2\]\)"):
        grad(jit(f))(1.0)


def test_missing_rules():
    with pytest.raises(CustomRuleError, match=r"_named_f\.defjvp"):
        custom_jvp(_named_f)(1.0)
    with pytest.raises(CustomRuleError, match=r"_named_f\.defvjp"):
        custom_vjp(_named_f)(1.0)
    f = custom_vjp(_named_f)
    f.defvjp(lambda x: 3, lambda res, ct: (ct,))
    with pytest.raises(CustomRuleError, match="must return a pair"):
        grad(f)(1.0)


def _named_f(x):
    return x


def test_a_rule_that_takes_other_arguments():
    f, each = custom_jvp(_named_f), custom_jvp(_named_f)
    f.defjvp(lambda p: (p, p))
    each.defjvps(lambda t: t)
    back, fwd = custom_vjp(_named_f), custom_vjp(_named_f)
    back.defvjp(lambda x: (x, None), lambda ct: (ct,))
    fwd.defvjp(lambda: (1, None), lambda res, ct: (ct,))
    some = custom_vjp(lambda x, n: x, nondiff_argnums=(1,))
    some.defvjp(lambda x, n: (x, None), lambda res, ct: (ct,))
    texts = {
        f: r"the rule .* is called with 2 arguments, \(primals, tangents\), but it takes \(p\)",
        each: r"rule 0 of defjvps .* 3 arguments, \(tangent, output, \*primals\), .* \(t\)",
        back: r"the backward rule .* 2 arguments, \(residuals, cotangent\), but it takes \(ct\)",
        fwd: r"the forward rule .* 1 argument, those of the function, but it takes \(\)",
    }
    for h, text in texts.items():
        for call in (grad(h), jit(grad(h)), grad(jit(h))):
            with pytest.raises(CustomRuleError, match=text):
                call(1.0)
    with pytest.raises(CustomRuleError, match=r"3 arguments, \(\*nondiff arguments, residuals"):
        grad(some)(1.0, 2)


def test_a_type_error_in_a_rule_stays_one():
    f = custom_jvp(_named_f)
    f.defjvp(lambda p, t: _named_f())
    with pytest.raises(TypeError, match="missing 1 required positional argument") as info:
        grad(f)(1.0)
    assert not isinstance(info.value, CustomRuleError)
    f.defjvp(len)
    with pytest.raises(CustomRuleError, match=r"takes \(obj\)"):
        grad(f)(1.0)


def test_an_exception_in_a_rule_leaves_nothing_behind():
    f, g = custom_jvp(lambda x: x), custom_vjp(lambda x: x)
    f.defjvp(lambda p, t: 1 / 0)
    g.defvjp(lambda x: (x, None), lambda res, ct: 1 / 0)
    for h in (f, g):
        for call in (grad(h), grad(jit(h)), jit(grad(h)), lambda x, h=h: vmap(grad(h))(x[None])):
            with pytest.raises(ZeroDivisionError):
                call(np.float32(1))
            assert state.current is None


@pytest.mark.parametrize("outer", ["custom_jvp", "custom_vjp"])
def test_inner_call_closes_over_tangents_of_the_outer_rule(outer):
    """Its operands have no tangent, but its function holds a value that has one."""

    def by_jvp(fun):
        held = mgefn.custom_jvp(fun)
        held.defjvp(lambda primals, tangents: mgefn.jvp(fun, primals, tangents))
        return held

    def by_vjp(fun):
        held = mgefn.custom_vjp(fun)
        held.defvjp(lambda *xs: (fun(*xs), xs), lambda xs, ct: mgefn.vjp(fun, *xs)[1](ct))
        return held

    def inside(x):
        s = sin(x)
        return by_jvp(lambda c: sin(s) * c)(1.0)

    fun = by_jvp(inside) if outer == "custom_jvp" else by_vjp(inside)
    plain = lambda x: sin(sin(x))
    x = np.float64(0.3)
    orders = [grad, lambda f: grad(grad(f)), lambda f: jit(grad(f))]
    if outer == "custom_jvp":  # a custom_vjp function has no forward mode
        orders += [mgefn.hessian, mgefn.jacfwd, lambda f: mgefn.jacrev(mgefn.jacfwd(f))]
    for of in orders:
        np.testing.assert_allclose(of(fun)(x), of(plain)(x), rtol=1e-12)
