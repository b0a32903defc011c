"""Activations: values and two derivatives that jax.nn gave, kept in recorded_functions.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import nn

RECORDED = json.loads(Path(__file__).with_name("recorded_functions.json").read_text())


def decoded(x: Any) -> Any:
    return np.array(x["data"], x["dtype"]).reshape(x["shape"]) if isinstance(x, dict) else x


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("title", RECORDED["cases"])
def test_values_and_derivatives(title: str, jitted: bool) -> None:
    case = RECORDED["cases"][title]
    (x,) = (decoded(a) for a in case["args"])
    kwargs = {k: decoded(v) for k, v in case["kwargs"].items()}
    fun = getattr(nn, case["name"])
    want = decoded(case["value"])
    weights = np.cos(np.arange(want.size)).reshape(want.shape)
    wrap = mgefn.jit if jitted else lambda f: f

    def total(x: Any) -> Any:
        return mnp.sum(fun(x, **kwargs) * weights)

    def check(got: Any, want: Any) -> None:
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)

    check(wrap(lambda x: fun(x, **kwargs))(x), want)
    check(wrap(mgefn.grad(total))(x), decoded(case["grad"]))
    _, second = wrap(lambda x, v: mgefn.jvp(mgefn.grad(total), (x,), (v,)))(x, np.ones_like(x))
    check(second, decoded(case["second"]))
