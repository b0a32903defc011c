"""Making arrays: against NumPy, and the promises about dtype, weakness and copies."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors

DTYPES = ["bool", "int8", "uint64", "int64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (1, "int32", True),
        (1.0, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        ([1, 2], "int32", False),
        ([1, 2.0], "float32", False),
        ([[True], [2]], "int32", False),
        ([], "float32", False),
        ([np.float16(1), 2.0], "float16", False),
        (np.arange(2), "int64", False),
        (range(3), "int32", False),
    ],
)
def test_asarray_dtype_and_weakness(value: object, dtype: str, weak: bool) -> None:
    x = mnp.asarray(value)
    assert (x.dtype.name, x.weak_type) == (dtype, weak)
    np.testing.assert_array_equal(x, np.asarray(value))
    assert mnp.array(value).weak_type == weak


def test_input_is_copied() -> None:
    data = np.ones(3)
    x = mnp.array(data)
    data[:] = 7
    np.testing.assert_array_equal(x, np.ones(3))


def test_asked_dtype_loses_nothing_on_the_way() -> None:
    assert mnp.array(2**40 + 1, "int64").item() == 2**40 + 1
    assert mnp.array([2**40 + 1], "int64").tolist() == [2**40 + 1]
    assert mnp.array(0.1, "float64").item() == 0.1
    assert mnp.array(np.float64(0.1), "float64").item() == 0.1
    assert mnp.array([0.1], "float64").tolist() == [0.1]
    assert mnp.array([np.nan, -1.5], "int32").tolist() == [0, -1]
    assert mnp.array([1 + 2j], "float32").tolist() == [1.0]


def test_lists_hold_tracers() -> None:
    jac = mgefn.jacrev(lambda x: mnp.array([[x[0], 2.0], [x[1] * x[0], 0]]))(mnp.array([2.0, 3.0]))
    np.testing.assert_array_equal(jac, [[[1, 0], [0, 0]], [[3, 2], [0, 0]]])
    np.testing.assert_array_equal(
        mgefn.jit(lambda x: mnp.array([x, x]))(np.arange(2)), [[0, 1]] * 2
    )


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: mnp.array([[1], [1, 2]]), errors.ShapeError, "equal lengths"),
        (lambda: mnp.array([1, [2]]), errors.ShapeError, "array"),
        (lambda: mnp.array(["a"]), errors.ArgumentError, "needs an array or a number"),
        (lambda: mnp.array([300], "uint8"), errors.OverflowDTypeError, "300"),
        (lambda: mnp.array([2**40]), errors.OverflowDTypeError, "int32"),
        (lambda: mnp.zeros(2, device="tpu"), errors.ArgumentError, "device"),
        (lambda: mnp.full((2,), [1, 2, 3]), errors.ShapeError, "broadcast"),
        (lambda: mnp.arange(1, 2, 0), errors.ArgumentError, "step"),
        (lambda: mgefn.jit(mnp.arange)(3), errors.ConcretizationTypeError, "static_argnums"),
    ],
)
def test_refusals(call: object, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_filled(shape: tuple, dtype: str) -> None:
    for name in ("zeros", "ones"):
        want = getattr(np, name)(shape, dtype)
        for fn in (getattr(mnp, name), mgefn.jit(lambda n=name: getattr(mnp, n)(shape, dtype))):
            got = fn(shape, dtype) if fn is getattr(mnp, name) else fn()
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, want)
        like = getattr(mnp, f"{name}_like")(want)
        assert like.dtype == dtype
        np.testing.assert_array_equal(like, want)
    np.testing.assert_array_equal(mnp.full(shape, 1, dtype), np.full(shape, 1, dtype))


CASES = [
    ("arange", (5,), {}),
    ("arange", (1, 10, 3), {}),
    ("arange", (10, 1, -3), {}),
    ("arange", (0.0, 1.0, 0.25), {}),
    ("arange", (-3,), {}),
    ("linspace", (0, 10, 7), {}),
    ("linspace", (0, 10, 7), {"endpoint": False}),
    ("linspace", ([1, 2], [3, 4], 5), {"axis": 1}),
    ("linspace", (-5, 5, 4), {"dtype": "int32"}),
    ("linspace", (0, 1, 1), {}),
    ("linspace", (0, 1, 0), {}),
    ("logspace", (0, 3, 5), {}),
    ("geomspace", (-1, -8, 4), {}),
    ("eye", (3, 4, 1), {}),
    ("eye", (0,), {}),
    ("tri", (3, 5, -1), {}),
    ("identity", (2,), {}),
    ("vander", ([1, 2, 3], 2), {"increasing": True}),
    ("kaiser", (5, 3.0), {}),
    ("hanning", (1,), {}),
    ("indices", ((2, 3),), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_against_numpy(name: str, args: tuple, kwargs: dict) -> None:
    want = getattr(np, name)(*args, **kwargs)
    for got in (
        getattr(mnp, name)(*args, **kwargs),
        mgefn.jit(lambda: getattr(mnp, name)(*args, **kwargs))(),
    ):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_linspace_ends_exactly_and_has_a_derivative() -> None:
    assert mnp.linspace(0, 0.3, 7)[-1].item() == np.float32(0.3)
    slope = mgefn.jacfwd(lambda stop: mnp.linspace(0.0, stop, 3))(1.0)
    np.testing.assert_array_equal(slope, [0, 0.5, 1])


def test_grids_and_joining_indices() -> None:
    for got, want in zip(
        mnp.meshgrid([1, 2, 3], [4, 5], indexing="xy"), np.meshgrid([1, 2, 3], [4, 5]), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(mnp.mgrid[0:3, 0:2], np.mgrid[0:3, 0:2])
    np.testing.assert_allclose(mnp.ogrid[0:1:5j], np.ogrid[0:1:5j])
    np.testing.assert_array_equal(mnp.r_[1:4, 0, [5, 6]], np.r_[1:4, 0, [5, 6]])
    np.testing.assert_array_equal(mnp.c_[[1, 2], [3, 4]], np.c_[[1, 2], [3, 4]])
    np.testing.assert_array_equal(mnp.r_["0,2", [1, 2], [3, 4]], np.r_["0,2", [1, 2], [3, 4]])


def test_from_other_memory() -> None:
    np.testing.assert_array_equal(mnp.frombuffer(b"\1\2", "uint8"), [1, 2])
    np.testing.assert_array_equal(mnp.from_dlpack(np.arange(3)), [0, 1, 2])
    np.testing.assert_array_equal(mnp.array(memoryview(b"ab")), [97, 98])
