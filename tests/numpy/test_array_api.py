"""mgefn.numpy as a namespace of the array API standard, 2024.12."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors

CONSTANTS = "e inf nan newaxis pi"
DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
"""
FUNCTIONS = """
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
    tril triu zeros zeros_like astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype
    result_type abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
    bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
    divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
    less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor
    maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
    round sign signbit sin sinh square sqrt subtract tan tanh trunc take take_along_axis matmul
    matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape
    roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
    unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod
    cumulative_sum max mean min prod std sum var all any diff __array_namespace_info__
"""
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift"

X = mnp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])


def test_every_name_of_the_standard() -> None:
    xp: Any = X.__array_namespace__()
    assert xp is mnp and xp.__array_api_version__ == "2024.12"
    for name in (CONSTANTS + " " + DTYPES).split():
        assert hasattr(xp, name), name
    for module, names in ((xp, FUNCTIONS), (xp.linalg, LINALG), (xp.fft, FFT)):
        assert [n for n in names.split() if not callable(getattr(module, n, None))] == []


def test_versions() -> None:
    assert X.__array_namespace__(api_version=None) is mnp
    assert X.__array_namespace__(api_version="2023.12") is mnp
    with pytest.raises(errors.ArgumentError, match=r"api_version.*2024\.12"):
        X.__array_namespace__(api_version="1999.01")
    assert mgefn.jit(lambda v: v.__array_namespace__().sum(v))(X) == 21.0


def test_namespace_info() -> None:
    info = mnp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == mnp.zeros(1).dtype
    assert info.default_dtypes()["integral"] == mnp.arange(1).dtype
    assert info.default_dtypes()["indexing"] == mnp.argmax(X).dtype
    with mgefn.config.override(enable_x64=True):
        assert info.default_dtypes(device="cpu")["real floating"] == np.float64
    assert list(info.dtypes()) == DTYPES.split()
    assert list(info.dtypes(kind="complex floating")) == ["complex64", "complex128"]
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }
    for name, dtype in info.dtypes().items():
        assert mnp.zeros(2, dtype=dtype).dtype == dtype == getattr(mnp, name)
    with pytest.raises(errors.ArgumentError, match="device"):
        info.dtypes(device="tpu")


def test_devices() -> None:
    assert X.device == mnp.__array_namespace_info__().default_device()
    assert X.to_device(X.device) is X
    assert mgefn.jit(lambda v: v.to_device(v.device) * 2)(X).device == X.device
    with pytest.raises(errors.ArgumentError, match="to_device: device must be"):
        X.to_device("tpu")
    with pytest.raises(errors.ArgumentError, match="stream"):
        X.to_device("cpu", stream=1)
    for make in (
        lambda d: mnp.asarray(X, device=d),
        lambda d: mnp.zeros((2,), device=d),
        lambda d: mnp.ones_like(X, device=d),
        lambda d: mnp.arange(3, device=d),
        lambda d: mnp.linspace(0, 1, 3, device=d),
        lambda d: mnp.eye(2, device=d),
        lambda d: mnp.full_like(X, 1, device=d),
        lambda d: mnp.astype(X, mnp.float64, device=d),
        lambda d: mnp.fft.fftfreq(4, device=d),
        lambda d: mnp.from_dlpack(X, device=d),
    ):
        assert make(X.device).device == X.device


def standardized(x: Any) -> Any:
    """A function for any library of the standard."""
    xp = x.__array_namespace__()
    mean = xp.mean(x, axis=-1, keepdims=True)
    spread = xp.std(x, axis=-1, keepdims=True, correction=1)
    ranks = xp.take_along_axis(x, xp.argsort(x, axis=-1), axis=-1)
    total = xp.cumulative_sum(ranks, axis=-1, include_initial=True)
    joined = xp.concat([(x - mean) / spread, xp.astype(total, x.dtype)], axis=-1)
    return xp.permute_dims(joined, (1, 0)) @ xp.matrix_transpose(joined).mT


def test_a_function_for_any_library() -> None:
    want = standardized(np.asarray(X))
    np.testing.assert_allclose(standardized(X), want, rtol=1e-5)
    np.testing.assert_allclose(mgefn.jit(standardized)(X), want, rtol=1e-5)
    slopes = mgefn.grad(lambda v: mnp.sum(standardized(v) ** 2))(X)
    assert slopes.shape == X.shape and np.isfinite(slopes).all()


def test_results_with_names() -> None:
    x = mnp.array([3, 1, 3, 2])
    assert mnp.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert mnp.unique_counts(x).counts.tolist() == [1, 1, 2]
    assert mnp.unique_inverse(x).inverse_indices.tolist() == [2, 0, 2, 1]
    assert mnp.unique_values(x).tolist() == [1, 2, 3]
    assert mnp.linalg.slogdet(mnp.eye(2))._fields == ("sign", "logabsdet")
    assert mnp.linalg.eigh(mnp.eye(2))._fields == ("eigenvalues", "eigenvectors")
    assert mnp.linalg.qr(mnp.eye(2))._fields == ("Q", "R")
    assert mnp.linalg.svd(mnp.eye(2))._fields == ("U", "S", "Vh")


def test_methods() -> None:
    assert X.mT.shape == (3, 2)
    assert X.argpartition(1).shape == X.shape
    assert X.take(mnp.array([0, 9]), axis=1, mode="fill", fill_value=-1.0).tolist() == [
        [3.0, -1.0],
        [6.0, -1.0],
    ]
    assert X.view("int32").dtype == np.int32
    assert X.numpy().flags.writeable is False
    assert X.copy_to_host_async() is None
    with pytest.raises(errors.ArgumentError, match="type must be None"):
        X.view("int32", np.matrix)  # type: ignore[arg-type]  # refused
    with pytest.raises(errors.TracerArrayConversionError, match=r"numpy\.asarray"):
        mgefn.jit(lambda v: v.numpy())(X)
