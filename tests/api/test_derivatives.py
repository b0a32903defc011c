"""grad, vjp, jvp, linearize and the Jacobians as users call them."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.core.interpreter import state


def close(a, b, rtol=1e-6):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-6)


def test_grad_of_a_number():
    assert float(mgefn.grad(lambda x: x**3)(2.0)) == 12
    assert mgefn.grad(lambda x: x**3)(2.0).dtype == np.float32


def test_grad_keeps_the_dtype_of_its_argument():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        g = mgefn.grad(lambda x: (x * x).sum())(mnp.ones(3, dtype))
        assert g.dtype == mnp.ones(3, dtype).dtype
        close(np.asarray(g).astype("float32"), [2, 2, 2])


def test_argnums():
    f = lambda x, y, z: x * y + z
    assert float(mgefn.grad(f, 1)(2.0, 3.0, 4.0)) == 2
    a, b = mgefn.grad(f, (0, -1))(2.0, 3.0, 4.0)
    assert (float(a), float(b)) == (3, 1)
    (only,) = mgefn.grad(f, (0,))(mnp.asarray(2.0), 3.0, 4.0)
    assert float(only) == 3


def test_pytrees_aux_and_keywords():
    def loss(params, *, scale):
        y = (params["w"] * scale + params["b"][0]).sum()
        return y, {"y": y, "note": "kept"}

    params = {"w": mnp.ones(3), "b": (mnp.zeros(3), None)}
    (value, aux), g = mgefn.value_and_grad(loss, has_aux=True)(params, scale=2.0)
    close(value, 6)
    close(aux["y"], 6)
    assert aux["note"] == "kept"
    close(g["w"], [2, 2, 2])
    assert g["b"][1] is None
    g2, aux2 = mgefn.grad(loss, has_aux=True)(params, scale=2.0)
    close(g2["b"][0], [1, 1, 1])
    assert float(aux2["y"]) == 6 and not isinstance(aux2["y"], mgefn.core.tracer.Tracer)


def test_unused_argument_has_gradient_zero():
    a, b = mgefn.grad(lambda x, y: x * 2.0, (0, 1))(1.0, mnp.asarray(3.0))
    assert float(a) == 2 and float(b) == 0


def test_integers_only_when_allowed():
    with pytest.raises(mgefn.errors.DTypeError, match=r"needs floating arguments, got i32\[\]"):
        mgefn.grad(lambda n: n * 2.0)(3)
    g = mgefn.grad(lambda n: n * 2.0, allow_int=True)(mnp.asarray(3))
    assert g.dtype == mgefn.float0


def test_holomorphic():
    g = mgefn.grad(lambda z: z**3, holomorphic=True)(1 + 2j)
    close(g, 3 * (1 + 2j) ** 2)
    with pytest.raises(mgefn.errors.DTypeError, match="holomorphic=True"):
        mgefn.grad(lambda z: z**3)(1 + 2j)
    with pytest.raises(mgefn.errors.DTypeError, match="arguments must be complex"):
        mgefn.grad(lambda z: z**3, holomorphic=True)(1.0)


def test_real_function_of_a_complex_argument():
    # As in JAX the gradient of |z|**2 is 2 x - 2 y i: the conjugate of the direction of ascent.
    f = lambda z: abs(z) ** 2
    close(mgefn.grad(f)(1 + 2j), 2 - 4j)
    close(mgefn.jit(mgefn.grad(f))(1 + 2j), 2 - 4j)
    close(mgefn.jacrev(f)(1 + 2j), 2 - 4j)
    with pytest.raises(mgefn.errors.DTypeError, match="real floating arguments"):
        mgefn.jacfwd(f)(1 + 2j)


def test_non_scalar_output_names_function_and_line():
    def loss_fn(x):
        return x * 2

    with pytest.raises(
        mgefn.errors.ShapeError,
        match=r"grad\(loss_fn\): loss_fn \(test_derivatives.py:\d+\) must return a real scalar, "
        r"got f32\[3\]",
    ):
        mgefn.grad(loss_fn)(mnp.ones(3))


def test_grad_of_a_pair_suggests_has_aux():
    with pytest.raises(mgefn.errors.ShapeError, match="has_aux=True"):
        mgefn.grad(lambda x: (x, x))(1.0)


def test_argnums_out_of_range():
    with pytest.raises(mgefn.errors.ArgumentError, match="1 positional argument"):
        mgefn.grad(lambda x: x, 3)(1.0)


def test_perturbation_confusion_in_every_nesting():
    fwd = lambda f: lambda x: mgefn.jvp(f, (x,), (1.0,))[1]
    for outer in (mgefn.grad, fwd):
        for inner in (mgefn.grad, fwd):
            for wrap in (lambda f: f, mgefn.jit):
                f = lambda x, inner=inner, wrap=wrap: x * inner(wrap(lambda y: x + y))(x)
                assert float(outer(f)(2.0)) == 1
                assert float(outer(wrap(f))(2.0)) == 1
                assert float(wrap(outer(f))(2.0)) == 1


def test_nine_nested_derivatives():
    f = lambda x: mnp.exp(x * 0.5)
    for i in range(9):
        f = (mgefn.grad if i % 2 else mgefn.jacfwd)(f)
    close(f(0.0), 0.5**9)


def test_vjp():
    f = lambda x, n: {"a": x * n, "b": (x.sum(), n)}
    out, pullback = mgefn.vjp(f, mnp.arange(3.0), 2)
    close(out["a"], [0, 2, 4])
    ct = {"a": mnp.ones(3), "b": (mnp.asarray(1.0), np.zeros((), mgefn.float0))}
    x_ct, n_ct = pullback(ct)
    close(x_ct, [3, 3, 3])
    assert n_ct.dtype == mgefn.float0
    close(pullback(ct)[0], [3, 3, 3])  # again
    with pytest.raises(mgefn.errors.TreeError, match="structure of the output"):
        pullback((1.0,))
    with pytest.raises(mgefn.errors.ShapeError, match=r"f32\[3\], got f32\[2\]"):
        pullback({"a": mnp.ones(2), "b": (1.0, np.zeros((), mgefn.float0))})
    y, pull, aux = mgefn.vjp(lambda x: (x * 2, x + 1), 3.0, has_aux=True)
    assert float(y) == 6 and float(aux) == 4 and float(pull(1.0)[0]) == 2


def test_jvp_checks_its_arguments():
    y, dy = mgefn.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 10.0))
    assert float(y) == 6 and float(dy) == 23
    with pytest.raises(mgefn.errors.ArgumentError, match=r"Write \(x,\)"):
        mgefn.jvp(lambda x: x, 2.0, 1.0)
    with pytest.raises(mgefn.errors.TreeError, match="one structure"):
        mgefn.jvp(lambda x: x, (2.0,), ((1.0, 2.0),))
    with pytest.raises(mgefn.errors.ShapeError, match=r"got f32\[2\] for f32\[3\]"):
        mgefn.jvp(lambda x: x, (mnp.ones(3),), (mnp.ones(2),))
    with pytest.raises(mgefn.errors.DTypeError, match="float0"):
        mgefn.jvp(lambda n: n, (mnp.arange(3),), (mnp.arange(3),))
    _, dn = mgefn.jvp(lambda n: n + 1, (mnp.arange(3),), (np.zeros(3, mgefn.float0),))
    assert dn.dtype == mgefn.float0
    y, dy, aux = mgefn.jvp(lambda x: (x * 2, x), (3.0,), (1.0,), has_aux=True)
    assert (float(y), float(dy), float(aux)) == (6, 2, 3)


def test_linearize_evaluates_once():
    calls = []

    def f(x):
        calls.append(1)
        return mnp.sin(x) * x

    _, f_jvp = mgefn.linearize(f, mnp.asarray(0.7))
    for t in (1.0, 2.0):
        close(f_jvp(t), mgefn.jvp(lambda x: mnp.sin(x) * x, (0.7,), (t,))[1])
    assert len(calls) == 1
    close(mgefn.vmap(f_jvp)(mnp.ones(3)), [float(f_jvp(1.0))] * 3)
    close(mgefn.jit(f_jvp)(1.0), f_jvp(1.0))


def test_linear_transpose():
    a = np.arange(6.0, dtype="float32").reshape(2, 3)
    t = mgefn.linear_transpose(lambda x: mnp.dot(a, x), mgefn.ShapeDtypeStruct((3,), "float32"))
    close(t(mnp.ones(2))[0], a.sum(0))
    with pytest.raises(mgefn.errors.UnsupportedError, match="sin: has no transpose rule"):
        mgefn.linear_transpose(mnp.sin, 1.0)(1.0)


def test_jacobians_agree_over_trees():
    def f(p):
        return {"u": mnp.sin(p["x"]) * p["y"], "v": (p["x"].sum() * p["y"][:2],)}

    p = {"x": mnp.arange(3.0), "y": mnp.asarray([1.0, 2.0, 3.0])}
    fwd, rev = mgefn.jacfwd(f)(p), mgefn.jacrev(f)(p)
    assert mgefn.tree.structure(fwd) == mgefn.tree.structure(rev)
    for a, b in zip(mgefn.tree.leaves(fwd), mgefn.tree.leaves(rev), strict=True):
        close(a, b)
    assert fwd["u"]["x"].shape == (3, 3) and fwd["v"][0]["y"].shape == (2, 3)
    jac, aux = mgefn.jacrev(lambda x: (x * x, x.sum()), has_aux=True)(mnp.arange(3.0))
    close(jac, np.diag([0, 2, 4]))
    close(aux, 3)
    jac, aux = mgefn.jacfwd(lambda x: (x * x, x.sum()), has_aux=True)(mnp.arange(3.0))
    close(jac, np.diag([0, 2, 4]))
    close(aux, 3)
    a, b = mgefn.jacfwd(lambda x, y: x * y, (0, 1))(mnp.arange(2.0), mnp.ones(2))
    close(a, np.eye(2))
    close(b, np.diag([0, 1]))


def test_hessian():
    x = mnp.asarray([1.0, 2.0])
    close(mgefn.hessian(lambda x: (x**3).sum() + x[0] * x[1])(x), [[6, 1], [1, 12]])
    close(mgefn.jit(mgefn.hessian(lambda x: mnp.prod(x)))(mnp.asarray([0.0, 0.0, 7.0])),
          [[0, 7, 0], [7, 0, 0], [0, 0, 0]])  # fmt: skip


def test_python_control_flow_on_known_values():
    def f(x):
        return x * x if x > 0 else -x

    assert float(mgefn.grad(f)(3.0)) == 6
    assert float(mgefn.grad(f)(-3.0)) == -1
    assert float(mgefn.jvp(f, (3.0,), (1.0,))[1]) == 6


def test_leaked_tracer_is_named():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x.sum()

    mgefn.grad(f)(mnp.ones(3))
    with pytest.raises(mgefn.errors.UnexpectedTracerError, match=r"grad\(f\): a value f32\[3\]"):
        kept[0] + 1
    with pytest.raises(mgefn.errors.UnexpectedTracerError, match=r"grad\(f\)"):
        mgefn.jit(lambda y: y + kept[0])(1.0)
    assert state.current is None


def test_first_pass_without_the_annihilation_rule_is_repeated_where_it_matters():
    x = mnp.asarray([4.0, -1.0, 0.0])
    g = mgefn.grad(lambda x: mnp.where(x > 0, mnp.sqrt(x), 0.0).sum())(x)
    close(g, [0.25, 0, 0])
    with mgefn.config.override(zero_annihilates=False):
        g = mgefn.grad(lambda x: mnp.where(x > 0, mnp.sqrt(x), 0.0).sum())(x)
        assert np.isnan(np.asarray(g)[1])
