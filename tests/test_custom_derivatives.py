"""custom_gradient, zero_from_primal, and what a forward pass keeps."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.ad_checkpoint import print_saved_residuals, saved_residuals
from mgefn.custom_derivatives import SymbolicZero, custom_gradient, zero_from_primal
from mgefn.errors import CustomRuleError


def test_custom_gradient():
    @custom_gradient
    def f(x, y):
        z = x * y
        return {"z": z}, lambda ct: (ct["z"] * y * 100, ct["z"] * x + z)

    def loss(x, y):
        return f(x, y)["z"]

    assert f(2.0, 3.0)["z"] == 6.0
    for gradient in (mgefn.grad(loss, (0, 1)), mgefn.jit(mgefn.grad(loss, (0, 1)))):
        assert gradient(2.0, 3.0) == (300.0, 8.0)
    xs = mnp.arange(3.0)
    np.testing.assert_allclose(mgefn.vmap(mgefn.grad(loss), (0, None))(xs, 3.0), np.full(3, 300.0))
    batched = mgefn.grad(lambda v: mgefn.vmap(loss, (0, None))(v, 3.0).sum())
    np.testing.assert_allclose(batched(xs), np.full(3, 300.0))


def test_custom_gradient_of_one_argument():
    f = custom_gradient(lambda x: (mnp.sin(x), lambda ct: ct * 7))
    assert mgefn.grad(f)(0.3) == 7.0
    with pytest.raises(CustomRuleError, match="must return \\(output, pullback\\)"):
        custom_gradient(lambda x: x)(1.0)


def test_zero_from_primal():
    np.testing.assert_array_equal(zero_from_primal(mnp.ones(2)), np.zeros(2))
    assert zero_from_primal(mnp.arange(2)).dtype == mgefn.float0
    symbolic = zero_from_primal(mnp.ones(2), symbolic_zeros=True)
    assert isinstance(symbolic, SymbolicZero)
    assert symbolic.shape == (2,)


def test_saved_residuals(capsys):
    def f(x, y):
        return mnp.sin(mnp.sin(x) * y)

    x, y = mnp.ones(3), mnp.ones(3)
    plain = saved_residuals(f, x, y)
    assert any(where == "from the argument 1" for _, where in plain)
    assert any(
        where.startswith("output of cos at test_custom_derivatives.py") for _, where in plain
    )
    assert [w for _, w in saved_residuals(mgefn.checkpoint(f), x, y)] == [
        "from the argument 0",
        "from the argument 1",
    ]
    print_saved_residuals(mgefn.checkpoint(f), x, y)
    assert capsys.readouterr().out == "f32[3] from the argument 0\nf32[3] from the argument 1\n"
