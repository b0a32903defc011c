"""Arrays on a GPU: placing, dispatch, transforms, guards, errors; on the stand-in and on a GPU."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.core.array import ConcreteArray
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray
from mgefn.errors import (
    ArgumentError,
    DeviceError,
    DonatedBufferError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from tests.gpu.standin import CUDARuntimeError

pytestmark = pytest.mark.usefixtures("jit_device")


def put(x: Any) -> Any:
    return mgefn.device_put(x, "gpu")


def same(got: Any, want: Any, rtol: float = 1e-6) -> None:
    assert isinstance(got, DeviceArray), type(got)
    np.testing.assert_allclose(mgefn.device_get(got), np.asarray(want), rtol=rtol, atol=rtol)


# -- devices --------------------------------------------------------------------------------------


def test_devices() -> None:
    gpu, *others = mgefn.devices("gpu")
    assert repr(gpu) == "Device(platform='gpu', id=0)" and str(gpu) == "gpu:0"
    assert isinstance(gpu.device_kind, str) and gpu.device_kind
    assert mgefn.devices("cuda") == [gpu, *others]
    assert mgefn.device_count("gpu") == 1 + len(others)
    assert mgefn.devices() == mgefn.devices("cpu") != [gpu]
    assert pickle.loads(pickle.dumps(gpu)) is gpu


def test_placing() -> None:
    gpu = mgefn.devices("gpu")[0]
    for place in (gpu, "gpu", "gpu:0", "cuda:0", "GPU"):
        x = mgefn.device_put(np.arange(3.0), place)
        assert isinstance(x, DeviceArray) and x.device is gpu and x.devices() == {gpu}
        assert x.sharding.device_set == {gpu} and x.dtype == np.float64 and x.shape == (3,)
        assert x.addressable_shards[0].device is gpu
    back = mgefn.device_put(x, "cpu")
    assert isinstance(back, ConcreteArray) and back.device.platform == "cpu"
    np.testing.assert_array_equal(back, np.arange(3.0))
    tree_ = mgefn.device_put({"a": 1.0, "b": [np.ones(2)]}, gpu)
    assert tree_["a"].weak_type and tree_["b"][0].device is gpu
    assert mgefn.device_put(x).device is gpu  # no place: it stays
    assert x.to_device("cpu").device.platform == "cpu"
    assert back.to_device("gpu").device is gpu
    assert mnp.zeros(3, device="gpu").device is gpu
    assert mnp.asarray([1, 2], device=gpu).device is gpu
    assert mnp.arange(3, device=gpu).device is gpu
    assert mnp.ones_like(x).device is gpu


def test_what_is_not_there() -> None:
    with pytest.raises(DeviceError, match="no gpu:99, only gpu:0"):
        mgefn.device_put(1.0, "gpu:99")
    with pytest.raises(ArgumentError, match="device"):
        mgefn.device_put(1.0, "tpu")
    with pytest.raises(ArgumentError, match="backend 'tpu'"):
        mgefn.devices("tpu")
    with pytest.raises(DTypeError, match="gpu:0 can't hold f8"):
        put(mnp.ones(2, "float8_e4m3fn"))


# -- operations -----------------------------------------------------------------------------------


def test_operations_run_where_operands_are() -> None:
    x, host = put(np.arange(6, dtype=np.float32).reshape(2, 3)), np.arange(3, dtype=np.float32)
    for got, want in (
        (x + 1, x.__array__() + 1),
        (2 * x - host, 2 * x.__array__() - host),
        (host + x, x.__array__() + host),
        (mnp.sin(x) @ host, np.sin(x.__array__()) @ host),
        (x[1, 1:], x.__array__()[1, 1:]),
        (x[mnp.array([1, 0])], x.__array__()[[1, 0]]),
        (x.at[0].set(7.0), np.array([[7, 7, 7], [3, 4, 5]])),
        (x.T.reshape(-1), x.__array__().T.reshape(-1)),
        (mnp.where(x > 2, x, 0), np.where(x.__array__() > 2, x.__array__(), 0)),
        (x.sum(), 15.0),
        (x.mean(0), x.__array__().mean(0)),
        (mnp.max(x), 5.0),
        (mnp.concatenate([x, x]), np.concatenate([x.__array__()] * 2)),
        (mnp.einsum("ij,kj->ik", x, x), x.__array__() @ x.__array__().T),
        (np.exp(x), np.exp(x.__array__())),
        (mnp.linalg.norm(x), np.linalg.norm(x.__array__())),
    ):
        same(got, want)
    assert (x + 1).dtype == np.float32 and (x + 1).device is x.device


def test_no_operation_copies_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    x = put(np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4))

    def read(*args: Any) -> Any:
        raise AssertionError("an array was copied to the host")

    xp.asnumpy  # noqa: B018  # looked up, so that it can be put back
    monkeypatch.setitem(xp.__dict__, "asnumpy", read)
    y = mnp.tanh(x @ x.T) + x.sum(1)
    z = mgefn.grad(lambda v: (mnp.log(v) ** 2).sum())(x)
    w = mgefn.jit(lambda v: mgefn.nn.softmax(v).cumsum(1))(x)
    v = mgefn.vmap(lambda r: mnp.sort(r)[::-1])(x)
    for out in (y, z, w, v):
        assert isinstance(out, DeviceArray)


def test_weak_types() -> None:
    x = put(2.0)
    assert x.weak_type and (x * mnp.ones(2, np.float16)).dtype == np.float16
    assert not (x + put(np.float32([1.0]))).weak_type


def test_committed_host_arrays_stay() -> None:
    x = put(np.ones(3, np.float32))
    stays = mgefn.device_put(np.ones(3, np.float32), "cpu")
    with pytest.raises(DeviceError, match="add: needs operands on one device, got gpu:0 and cpu:0"):
        x + stays
    same(x + np.ones(3, np.float32), np.full(3, 2.0))


def test_bad_operands_are_explained() -> None:
    with pytest.raises(ShapeError):
        put(np.ones((2, 3))) @ put(np.ones((2, 3)))
    with pytest.raises(DTypeError, match="random keys"):
        put(mgefn.random.key(0)) + 1


def test_random_numbers_are_those_of_the_cpu() -> None:
    key = mgefn.random.key(3)
    there = put(key)
    assert there.dtype == key.dtype
    for draw in (
        lambda k: mgefn.random.uniform(k, (5,)),
        lambda k: mgefn.random.normal(k, (5,)),
        lambda k: mgefn.random.randint(k, (5,), 0, 100),
        lambda k: mgefn.random.permutation(k, 7),
        lambda k: mgefn.random.key_data(mgefn.random.split(k)[1]),
    ):
        got = draw(there)
        assert isinstance(got, DeviceArray)
        np.testing.assert_array_equal(mgefn.device_get(got), np.asarray(draw(key)))


# -- transforms and programs ----------------------------------------------------------------------


def loss(w: Any, x: Any) -> Any:
    return mnp.mean((mnp.tanh(x @ w) - 1) ** 2)


def test_transforms() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    for fun in (
        mgefn.grad(loss),
        mgefn.jit(mgefn.grad(loss)),
        mgefn.grad(mgefn.jit(loss)),
        mgefn.hessian(loss),
        mgefn.jacfwd(loss),
        lambda w, x: mgefn.vmap(mgefn.grad(loss), (None, 0))(w, x),
        lambda w, x: mgefn.jvp(lambda w: loss(w, x), (w,), (w,))[1],
        mgefn.checkpoint(loss),
    ):
        same(fun(put(w), put(x)), fun(w, x), 1e-12)


def test_no_nan_from_branches_not_taken() -> None:
    x = np.array([0.0, 4.0], np.float32)
    fun = mgefn.grad(lambda v: mnp.where(v > 0, mnp.sqrt(v), 0.0).sum())
    same(fun(put(x)), [0.0, 0.25])


def test_control_flow() -> None:
    def total(x: Any) -> Any:
        y = lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x)
        z, steps = lax.scan(lambda c, s: (c + s, c * s), y, mnp.arange(4.0))
        w = lax.while_loop(lambda c: c.sum() < 500, lambda c: c * 2, z + steps.sum(0))
        return lax.cond(w.sum() > 0, mnp.sin, mnp.cos, w)

    x = np.array([1.0, 2.0], np.float32)
    for fun in (total, mgefn.jit(total)):
        same(fun(put(x)), fun(x), 1e-4)
    scanned = lambda v: lax.scan(lambda c, s: (mnp.sin(c) * s, c), v, mnp.arange(1.0, 4.0))[0].sum()
    same(mgefn.grad(scanned)(put(x)), mgefn.grad(scanned)(x), 1e-5)


def test_jit_dispatches_by_its_arguments_and_by_backend() -> None:
    f = mgefn.jit(lambda x: mnp.sin(x) * 2)
    x = np.arange(3, dtype=np.float32)
    same(f(put(x)), f(x))
    assert isinstance(f(x), ConcreteArray)
    for name in ("cupy", "gpu", "cuda"):
        same(mgefn.jit(lambda x: mnp.sin(x) * 2, backend=name)(x), f(x))
    assert isinstance(mgefn.jit(lambda: mnp.ones(3), backend="cupy")(), DeviceArray)
    assert "on gpu:0" in f.explain_miss() or "f32[3]" in f.explain_miss()
    with pytest.raises(ArgumentError, match="'cupy'"):
        mgefn.jit(f, backend="tpu")


def test_jit_closes_over_device_arrays() -> None:
    w = put(np.ones(3, np.float32))
    same(mgefn.jit(lambda x: x * w)(np.arange(3, dtype=np.float32)), [0, 1, 2])
    same(mgefn.grad(mgefn.jit(lambda x: (x * w).sum()))(put(np.ones(3, np.float32))), [1, 1, 1])


def test_donation() -> None:
    f = mgefn.jit(lambda x: x + 1, donate_argnums=0)
    x = put(np.ones(3, np.float32))
    same(f(x), [2, 2, 2])
    assert x.is_deleted()
    for use in (lambda: x + 1, lambda: np.asarray(x)):
        with pytest.raises(DonatedBufferError):
            use()
    assert repr(x) == "Array(<donated or deleted>)"


def test_custom_rules_and_callbacks() -> None:
    @mgefn.custom_vjp
    def f(x: Any) -> Any:
        return mnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 3,))
    x = np.array([1.0, 2.0], np.float32)
    same(mgefn.grad(lambda v: f(v).sum())(put(x)), [3, 3])
    same(mgefn.jit(f)(put(x)), np.sin(x))
    seen = []

    def call(v: Any) -> Any:
        seen.append(type(v))
        return np.asarray(v) + 1

    shape = mgefn.ShapeDtypeStruct((2,), np.float32)
    same(mgefn.jit(lambda v: mgefn.pure_callback(call, shape, v))(put(x)), x + 1)
    assert DeviceArray not in seen


def test_default_device() -> None:
    with mgefn.default_device("gpu"):
        assert mgefn.default_backend() == "gpu" and mgefn.devices()[0].platform == "gpu"
        x = mnp.ones(3) + mnp.arange(3)
        assert isinstance(x, DeviceArray)
        assert isinstance(mgefn.device_put(np.ones(2)), DeviceArray)
        assert isinstance(mgefn.jit(lambda v: v + 1)(np.ones(2)), DeviceArray)
        assert isinstance(mgefn.grad(lambda v: v**2)(2.0), DeviceArray)
        with mgefn.default_device("cpu"):
            assert isinstance(mnp.ones(3) + 1, ConcreteArray)
        assert isinstance(mnp.linspace(0, 1, 5), DeviceArray)
    assert mgefn.default_backend() == "cpu" and isinstance(mnp.ones(3), ConcreteArray)


# -- leaving the device ---------------------------------------------------------------------------


def test_leaving() -> None:
    x = put(np.array([1.5, 2.5], np.float32))
    assert repr(x) == "Array([1.5, 2.5], dtype=float32, device='gpu:0')"
    assert str(x) == "[1.5 2.5]" and f"{x[0]:.2f}" == "1.50"
    assert float(x[0]) == 1.5 and int(x[1]) == 2 and bool(x[0]) and x[0].item() == 1.5
    assert complex(x[0]) == 1.5 and x.tolist() == [1.5, 2.5] and len(x) == 2
    assert [1, 2, 3][put(1)] == 2 and x.tobytes() == np.asarray(x).tobytes()
    host = np.asarray(x)
    assert not host.flags.writeable and host.dtype == np.float32
    assert np.asarray(x, np.float64).dtype == np.float64
    assert isinstance(pickle.loads(pickle.dumps(x)), ConcreteArray)
    assert copy.deepcopy(x).tolist() == [1.5, 2.5]
    with pytest.raises(ArgumentError, match="on gpu:0"):
        np.array(x, copy=False)
    x.block_until_ready()
    x.delete()
    assert x.is_deleted()


def test_transfer_guard(capsys: pytest.CaptureFixture[str]) -> None:
    x = put(np.ones(3, np.float32))
    with mgefn.transfer_guard("disallow"):
        y = x + 1  # a number is an argument
        for use in (lambda: np.asarray(y), lambda: bool(y[0] > 0), lambda: str(y), y.tolist):
            with pytest.raises(DeviceError, match="from gpu:0 to the host, and transfer_guard"):
                use()
        with pytest.raises(DeviceError, match="from the host to gpu:0"):
            x + np.ones(3, np.float32)
        assert repr(y) == "Array(<f32[3] on gpu:0>)"
        assert mgefn.device_get(y).tolist() == [2, 2, 2]  # asked for by name
        put(np.ones(2))
    with mgefn.transfer_guard("disallow_explicit"), pytest.raises(DeviceError, match="device_get"):
        mgefn.device_get(y)
    with mgefn.transfer_guard_device_to_host("disallow"):
        same(x + np.ones(3, np.float32), [2, 2, 2])
    with mgefn.transfer_guard_host_to_device("log"):
        x + np.ones(3, np.float32)
    assert "add: copies f32[3] from the host to gpu:0." in capsys.readouterr().err
    np.asarray(y)
    with pytest.raises(ArgumentError, match="needs one of 'allow'"):
        with mgefn.transfer_guard("never"):
            pass


# -- failures -------------------------------------------------------------------------------------


def test_errors_name_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = put(np.ones(3, np.float32))
    with pytest.raises(UnsupportedError, match=r"spence: gpu:0 has no kernel: .*\. Compute it"):
        mgefn.scipy.special.spence(x)

    def full(*args: Any, **kwargs: Any) -> Any:
        raise MemoryError("out of memory allocating 12 bytes")

    xp.cumsum  # noqa: B018  # looked up, so that it can be put back
    monkeypatch.setitem(xp.__dict__, "cumsum", full)
    for fun in (mnp.cumsum, mgefn.jit(mnp.cumsum)):
        with pytest.raises(DeviceError, match="cumsum: the memory of gpu:0 does not suffice: out"):
            fun(x)

    def broken(*args: Any) -> Any:
        raise CUDARuntimeError("cudaErrorIllegalAddress: bad")

    xp.sin  # noqa: B018  # as above
    monkeypatch.setitem(xp.__dict__, "sin", broken)
    with pytest.raises(DeviceError, match="sin: gpu:0 failed: cudaErrorIllegalAddress"):
        mnp.sin(x)


def test_live_arrays() -> None:
    x = put(np.ones(3))
    assert any(a is x for a in mgefn.live_arrays("gpu"))
    assert not any(a is x for a in mgefn.live_arrays("cpu"))


def test_nan_is_found_where_it_is_made() -> None:
    x = put(np.array([-1.0, 1.0], np.float32))
    with mgefn.debug_nans(), pytest.raises(mgefn.errors.NonFiniteError, match="log"):
        mnp.log(x) + 1


def test_arrays_of_other_libraries() -> None:
    theirs = xp.array(np.arange(3, dtype=np.float32))
    if not hasattr(theirs, "__cuda_array_interface__"):
        theirs = put(np.arange(3, dtype=np.float32))  # the stand-in has no such memory
    same(mnp.asarray(theirs), [0, 1, 2])
    same(mnp.sin(mnp.from_dlpack(theirs)), np.sin(np.arange(3)))


def test_a_program_tells_its_steps() -> None:
    compiled = mgefn.jit(lambda x: mnp.sort(x).sum(), backend="cupy").lower(np.ones(3)).compile()
    same(compiled(np.ones(3)), 3.0)
    assert "sort" in compiled.as_text() and "gpu:0" in compiled.as_text()
    report = compiled.report()
    assert report.steps[0].kind == "cupy" and "sort" in str(report)
    assert compiled.cost_analysis()["bytes accessed"] > 0
    assert compiled.memory_analysis().not_counted[0] == "sort"
