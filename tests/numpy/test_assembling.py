"""Joining, splitting and padding against NumPy."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors

A = np.arange(12, dtype=np.float32).reshape(3, 4) ** 1.5
V = np.arange(7)

CASES = [
    ("concatenate", ([A, A],), {"axis": -1}),
    ("concatenate", ([A, V],), {"axis": None}),
    ("concatenate", (A,), {}),
    ("concatenate", (np.zeros((2, 0, 3)),), {}),
    ("stack", ([A, A],), {"axis": -1}),
    ("stack", ([1, 2.5],), {}),
    ("vstack", ([V, V],), {}),
    ("hstack", ([A, A],), {}),
    ("dstack", ([V, V],), {}),
    ("column_stack", ([V, V],), {}),
    ("block", ([[A, A], [A, A]],), {}),
    ("block", ([1, V],), {}),
    ("split", (V[:6], 3), {}),
    ("split", (V, [2, 9]), {}),
    ("array_split", (V, 3), {}),
    ("hsplit", (A, 2), {}),
    ("atleast_2d", (3, V), {}),
    ("atleast_3d", (A,), {}),
    ("broadcast_arrays", (V, np.ones((2, 1))), {}),
    ("rollaxis", (np.ones((2, 3, 4)), 2), {}),
    ("rot90", (A, 3), {}),
    ("fliplr", (A,), {}),
    ("resize", (V, (3, 5)), {}),
    ("trim_zeros", (np.array([0, 1, 0, 2, 0]),), {"trim": "f"}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_against_numpy(name: str, args: tuple, kwargs: dict) -> None:
    want, got = getattr(np, name)(*args, **kwargs), getattr(mnp, name)(*args, **kwargs)
    if not isinstance(want, (list, tuple)):
        want, got = [want], [got]
    for w, g in zip(want, got, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-6)


MODES = ["edge", "wrap", "reflect", "symmetric", "maximum", "minimum", "mean", "median"]


@pytest.mark.parametrize("mode", [*MODES, "constant", "linear_ramp"])
@pytest.mark.parametrize(("x", "width"), [(A, ((2, 3), (1, 9))), (V[:3], (8, 7)), (V[:1], 2)])
def test_pad(x: np.ndarray, width: object, mode: str) -> None:
    want = np.pad(x, width, mode=mode)  # type: ignore[call-overload]  # the mode is a variable
    np.testing.assert_allclose(mnp.pad(x, width, mode=mode), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "kwargs"),
    [
        ("reflect", {"reflect_type": "odd"}),
        ("symmetric", {"reflect_type": "odd"}),
        ("constant", {"constant_values": ((1, 2), (3, 4))}),
        ("constant", {"constant_values": 5}),
        ("mean", {"stat_length": 2}),
        ("linear_ramp", {"end_values": (5, -4)}),
    ],
)
def test_pad_arguments(mode: str, kwargs: dict) -> None:
    want = np.pad(A, 2, mode=mode, **kwargs)  # type: ignore[call-overload]
    np.testing.assert_allclose(mnp.pad(A, 2, mode=mode, **kwargs), want, rtol=1e-5)


def test_pad_has_a_derivative() -> None:
    g = mgefn.grad(lambda x: mnp.pad(x, (3, 0), mode="reflect").sum())(mnp.ones(3))
    np.testing.assert_array_equal(g, [1, 3, 2])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: mnp.concatenate([]), errors.ArgumentError, "at least one"),
        (lambda: mnp.concatenate([1, 2]), errors.AxisError, "rank 0"),
        (lambda: mnp.stack([V, A]), errors.ShapeError, "one shape"),
        (lambda: mnp.split(V, 3), errors.ArgumentError, "array_split"),
        (lambda: mnp.pad(V, 1, mode="mirror"), errors.ArgumentError, "mode"),
        (lambda: mnp.pad(V, 1, stat_length=1), errors.ArgumentError, "stat_length"),
        (lambda: mnp.pad(V, -1), errors.ArgumentError, "0 or more"),
        (lambda: mnp.concatenate(iter([V])), errors.ArgumentError, "sequence"),
    ],
)
def test_refusals(call: object, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()  # type: ignore[operator]
