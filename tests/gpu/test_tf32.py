"""config.tf32: products of float32 that the stand-in computes with operands of 11 bits."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.backends.cupy_kernels import contractions
from mgefn.errors import ArgumentError, DeviceError
from tests.gpu.standin import StandIn, tf32

RNG = np.random.default_rng(3)
X, W = (RNG.standard_normal(s).astype("float32") for s in ((5, 40), (40, 7)))
EXACT, SHORT = X @ W, tf32(X) @ tf32(W)


def on(*arrays: Any) -> list[mgefn.Array]:
    return [mgefn.device_put(a, "gpu") for a in arrays]


def assert_is(found: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(mgefn.device_get(found), want, rtol=0, atol=1e-5)


def test_the_two_can_be_told_apart() -> None:
    assert np.abs(EXACT - SHORT).max() > 1e-4


def test_products_alone_and_in_programs(emulator: StandIn) -> None:
    x, w = on(X, W)
    jitted = mgefn.jit(lambda x, w: mnp.tanh(x @ w * 0.1))
    with mgefn.config.override(tf32=True):
        assert_is(x @ w, SHORT)
        assert_is(mnp.einsum("ik,kj->ji", x, w), SHORT.T)
        assert_is(mnp.stack([x, x]) @ w, np.stack([SHORT, SHORT]))
        assert_is(jitted(x, w), np.tanh(SHORT * 0.1))
    assert emulator.compute_type == 1
    # It counts when a product runs, not when a program is made.
    assert_is(x @ w, EXACT)
    assert_is(jitted(x, w), np.tanh(EXACT * 0.1))
    with mgefn.config.override(tf32=True):
        assert_is(jitted(x, w), np.tanh(SHORT * 0.1))


def test_complex_numbers_and_other_dtypes(emulator: StandIn) -> None:
    z = X + 1j * X[::-1]
    with mgefn.config.override(tf32=True):
        assert_is(on(z)[0] @ on(W.astype("complex64"))[0], tf32(z) @ tf32(W.astype("complex64")))
        for dtype in ("float64", "int32", "float16"):
            x, w = (a.astype(dtype) for a in (X, W))
            got = on(x)[0] @ on(w)[0]
            np.testing.assert_array_equal(mgefn.device_get(got), mnp.array(x) @ mnp.array(w))


def test_older_devices_have_none(standin: StandIn) -> None:
    assert int(standin.capability) < contractions.TF32_FROM
    x, w = on(X, W)
    with mgefn.config.override(tf32=True):
        assert_is(x @ w, EXACT)


def test_what_fails_leaves_no_trace(emulator: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(a: Any, b: Any) -> Any:
        assert emulator.compute_type == contractions.TF32
        raise MemoryError("no")

    monkeypatch.setattr(emulator, "_matmul", fails)
    x, w = on(X, W)
    with mgefn.config.override(tf32=True), pytest.raises(DeviceError):
        x @ w
    assert emulator.compute_type == 1


def test_another_thread_has_its_own_setting(
    emulator: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, begun = emulator._matmul, threading.Event()
    inside: list[int] = []

    def slow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        begun.set()
        inside.append(1)
        assert len(inside) == 1
        threading.Event().wait(0.05)
        inside.pop()
        return plain(a, b)

    monkeypatch.setattr(emulator, "_matmul", slow)
    x, w = on(X, W)
    made: list[Any] = []

    def short() -> None:
        with mgefn.config.override(tf32=True):
            made.append(x @ w)

    thread = threading.Thread(target=short)
    thread.start()
    begun.wait(10)
    exact = x @ w
    thread.join()
    assert_is(exact, EXACT)
    assert_is(made[0], SHORT)


def test_bad_values() -> None:
    with pytest.raises(ArgumentError, match="tf32 must be False or True, got 'high'"):
        mgefn.config.update("tf32", "high")
