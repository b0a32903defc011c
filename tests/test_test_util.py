"""The derivative checkers accept right derivatives and find wrong ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.errors import ArgumentError
from mgefn.test_util import check_grads, check_jvp, check_vjp

x = np.random.default_rng(0).standard_normal((2, 3))


@pytest.mark.parametrize(
    ("f", "args", "order"),
    [
        (lambda x, y: {"a": mnp.sin(x) @ y}, (x, x.T.copy()), 3),
        (mnp.exp, (x.astype(np.float32),), 2),
        (lambda z: mnp.exp(z) * mnp.conj(z), (x + 1j * x[::-1],), 2),
        (lambda v, i: v[i] ** 2, (x[0], np.array([1, 2])), 2),
        (lambda v: v**2, (3.0,), 2),
        (mnp.tanh, (x.astype(np.float16),), 1),
        (lambda t: t["a"] * t["b"], ({"a": x, "b": 2.0},), 2),
    ],
)
def test_right_derivatives_pass(f, args, order):
    check_grads(f, args, order)


@mgefn.custom_jvp
def wrong(x):
    return mnp.sin(x)


wrong.defjvp(lambda primals, dots: (wrong(*primals), dots[0] * 2 * mnp.cos(primals[0])))


@mgefn.custom_jvp
def wrong_twice(x):
    return mnp.sin(x)


wrong_twice.defjvp(
    lambda primals, dots: (
        wrong_twice(*primals),
        dots[0] * (mnp.cos(primals[0]) + mgefn.lax.stop_gradient(primals[0]) - primals[0]),
    )
)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_wrong_derivatives_are_found(mode):
    with pytest.raises(AssertionError, match="of wrong"):
        check_grads(wrong, (x,), 1, [mode])
    check_grads(wrong_twice, (x,), 1, [mode])
    with pytest.raises(AssertionError, match="of wrong_twice"):
        check_grads(wrong_twice, (x,), 2, [mode])


def test_wrong_values_are_found():
    with pytest.raises(AssertionError, match="check_jvp: the value"):
        check_jvp(mnp.sin, lambda primals, dots: mgefn.jvp(mnp.cos, primals, dots), (x,))
    with pytest.raises(AssertionError, match="check_vjp: the value"):
        check_vjp(mnp.sin, partial(mgefn.vjp, mnp.cos), (x,))


def test_faults_are_named():
    with pytest.raises(ArgumentError, match="modes must be of 'fwd' and 'rev'"):
        check_grads(mnp.sin, (x,), 1, ["both"])
    with pytest.raises(ArgumentError, match="order must be an int"):
        check_grads(mnp.sin, (x,), 0)
