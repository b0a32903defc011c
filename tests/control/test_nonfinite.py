"""debug_nans and debug_infs: which operation is named, and that nothing is left behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.config import config
from mgefn.core.interpreter import state
from mgefn.errors import NonFiniteError


@mgefn.jit
def inner(x):
    y = mnp.sin(x)
    return mnp.log(y - 2) * 2


def body(c, x):
    return c + mnp.log(x), c


@mgefn.custom_jvp
def custom(x):
    return mnp.log(x)


custom.defjvp(lambda p, t: (custom(*p), t[0] / p[0]))

x = mnp.array([1.0, 0.0])
FAULTS = {
    "eager": (lambda: mnp.log(x - 2), "log", "<lambda>"),
    "jit": (lambda: inner(x), "log", "inner"),
    "jit in jit": (lambda: mgefn.jit(lambda x: inner(x) + 1)(x), "log", "inner"),
    "grad of jit": (lambda: mgefn.grad(lambda x: inner(x).sum())(x), "log", "inner"),
    "vmap": (lambda: mgefn.vmap(lambda v: mnp.sqrt(v - 1))(x), "sqrt", "<lambda>"),
    "scan": (lambda: lax.scan(body, 0.0, x - 0.5), "log", "body"),
    "while": (
        lambda: mgefn.jit(lambda v: lax.while_loop(lambda c: c > -5, lambda c: mnp.sqrt(c - 1), v))(
            3.0
        ),
        "sqrt",
        "<lambda>",
    ),
    "cond": (
        lambda: mgefn.jit(lambda v: lax.cond(v > 0, lambda v: mnp.log(-v), lambda v: v, v))(3.0),
        "log",
        "<lambda>",
    ),
    "custom": (lambda: custom(-1.0), "log", "custom"),
    "custom in jit": (lambda: mgefn.jit(custom)(-1.0), "log", "custom"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_operation_and_its_line_are_named(name):
    call, primitive, function = FAULTS[name]
    call()  # off: nothing happens
    with mgefn.debug_nans(), pytest.raises(NonFiniteError) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(f"{primitive}: ")
    assert "test_nonfinite.py:" in text
    assert f"({function})" in text
    assert isinstance(caught.value, FloatingPointError)
    assert state.current is None


def test_what_is_finite_passes():
    with mgefn.debug_nans():
        want = np.array([0.5, 0.0])
        got = mgefn.grad(lambda v: mnp.where(v > 0, mnp.sqrt(v), 0.0).sum())(x)
        np.testing.assert_allclose(got, want)
        np.testing.assert_array_equal(mnp.array([np.nan]) + 1, [np.nan])  # it was in the data
        assert np.isinf(1 / x).any()
        assert mgefn.jit(lambda v: v * 2)(x).shape == (2,)


def test_infinities():
    with mgefn.debug_infs(), pytest.raises(NonFiniteError, match="made an infinity"):
        1 / x
    with mgefn.debug_infs(), mgefn.debug_nans(), pytest.raises(NonFiniteError, match="a NaN"):
        mnp.log(x - 2)


def test_the_setting_nests_and_ends():
    with mgefn.debug_nans():
        with mgefn.debug_nans(False):
            assert np.isnan(mnp.log(-1.0))
        with pytest.raises(NonFiniteError):
            mnp.log(-1.0)
    assert np.isnan(mnp.log(-1.0))

    def traced(v):
        with mgefn.debug_nans():
            return mnp.log(v)

    assert np.isnan(mgefn.jit(traced)(-1.0))
    assert state.current is None


def test_the_setting_for_all_threads():
    def in_thread(f):
        found = []
        thread = threading.Thread(target=lambda: found.append(f()))
        thread.start()
        thread.join()
        return found[0]

    def raises():
        try:
            mnp.log(-1.0)
        except NonFiniteError:
            return True
        return False

    config.update("jax_debug_nans", True)
    try:
        assert raises()
        assert in_thread(raises)
    finally:
        config.update("debug_nans", False)
    assert not raises()
    assert not in_thread(raises)
