"""Bits of bytes, NumPy's files, and functions that write in place under NumPy."""

from pathlib import Path

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import dlpack, errors

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize(("shape", "axis"), [((17,), None), ((3, 16), 0), ((2, 9, 3), 1)])
def test_bits(shape: tuple, axis: int | None, bitorder: str) -> None:
    x = RNG.integers(-1, 2, shape)
    packed = mnp.packbits(x, axis, bitorder)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed, np.packbits(x != 0, axis, bitorder))
    u = RNG.integers(0, 256, shape).astype(np.uint8)
    for count in (None, 5, 100, -3):
        want = np.unpackbits(u, axis, count, bitorder)  # type: ignore[call-overload]  # a variable
        np.testing.assert_array_equal(mnp.unpackbits(u, axis, count, bitorder), want)
    jitted = mgefn.jit(lambda v: mnp.unpackbits(mnp.packbits(v)))
    np.testing.assert_array_equal(jitted(x), np.unpackbits(np.packbits(x != 0)))


def test_bits_errors() -> None:
    with pytest.raises(errors.DTypeError, match="booleans or integers"):
        mnp.packbits(np.ones(3))
    with pytest.raises(errors.DTypeError, match="uint8"):
        mnp.unpackbits(np.ones(3, int))
    with pytest.raises(errors.ArgumentError, match="bitorder"):
        mnp.packbits(np.ones(3, int), bitorder="middle")


def test_files(tmp_path: Path) -> None:
    for dtype in ("float32", "int8", "bool", "complex64", "bfloat16"):
        x = mnp.arange(6).reshape(2, 3).astype(dtype)
        mnp.save(tmp_path / "x.npy", x)
        got = mnp.load(tmp_path / "x.npy")
        assert isinstance(got, mgefn.Array) and got.dtype == x.dtype
        np.testing.assert_array_equal(got, x)
    mnp.savez(tmp_path / "two.npz", mnp.ones(2), named=mnp.zeros(3))
    with mnp.load(tmp_path / "two.npz") as both:
        assert sorted(both) == ["arr_0", "named"]
        assert isinstance(both["named"], np.ndarray)
    np.save(tmp_path / "text.npy", np.array(["a"]))
    assert mnp.load(tmp_path / "text.npy").tolist() == ["a"]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (3, 7), (3, 3, 3), (0, 3)])
def test_fill_diagonal(shape: tuple, wrap: bool) -> None:
    for value in (5.0, [1.0, 2.0], np.arange(9.0).reshape(3, 3)):
        want = np.zeros(shape)
        np.fill_diagonal(want, value, wrap)
        got = mnp.fill_diagonal(np.zeros(shape), value, wrap, inplace=False)
        np.testing.assert_array_equal(got, want)


def test_place() -> None:
    x, mask = np.zeros((4, 5)), RNG.random((4, 5)) > 0.5
    want = x.copy()
    np.place(want, mask, [1, 2, 3])
    place = mgefn.jit(lambda a, m: mnp.place(a, m, mnp.array([1, 2, 3]), inplace=False))
    np.testing.assert_array_equal(place(x, mask), want)
    with pytest.raises(errors.ArgumentError, match="at least one"):
        mnp.place(x, mask, [], inplace=False)
    with pytest.raises(errors.ShapeError, match="mask"):
        mnp.place(x, mask[:2], 1, inplace=False)


def test_nothing_is_written_in_place() -> None:
    with pytest.raises(errors.ArgumentError, match="inplace=False"):
        mnp.fill_diagonal(np.ones((2, 2)), 0)
    with pytest.raises(errors.ArgumentError, match="inplace=False"):
        mnp.place(np.ones(2), np.ones(2, bool), 0)
    with pytest.raises(errors.ShapeError, match="needs a matrix"):
        mnp.fill_diagonal(np.ones(2), 0, inplace=False)


def test_dlpack() -> None:
    x = np.arange(3.0)
    got = dlpack.from_dlpack(external_array=x)
    x[0] = 9
    assert isinstance(got, mgefn.Array) and got.tolist() == [0, 1, 2]
