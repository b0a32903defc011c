"""lax: the functions that differ from NumPy's of the same name, and those that are the same."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, lax


@pytest.mark.parametrize(
    ("lax_name", "numpy_name"),
    [("sin", "sin"), ("mul", "multiply"), ("max", "maximum"), ("bitwise_not", "invert")],
)
def test_one_function_under_two_names(lax_name: str, numpy_name: str) -> None:
    assert getattr(lax, lax_name) is getattr(mnp, numpy_name)


def test_all_names_exist() -> None:
    assert [n for n in lax.__all__ if not hasattr(lax, n)] == []


def test_integer_division() -> None:
    x, y = np.array([-7, 7, 5, -8], np.int32), np.array([2, -2, 0, 4], np.int32)
    np.testing.assert_array_equal(lax.div(x, y), [-3, -3, -1, -2])
    np.testing.assert_array_equal(lax.rem(x, y), [-1, 1, 5, 0])
    assert lax.div(1.0, 4.0).item() == 0.25


def test_round() -> None:
    x = np.array([0.5, 1.5, -2.5, 0.49999997, 8388609.0, -0.3], np.float32)
    np.testing.assert_array_equal(lax.round(x), [1, 2, -3, 0, 8388609, 0])
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    np.testing.assert_array_equal(lax.round(x, even), [0, 2, -2, 0, 8388609, 0])


def test_shifts() -> None:
    x = np.array([-8], np.int8)
    assert lax.shift_right_logical(x, np.int8(1)).tolist() == [124]
    assert lax.shift_right_arithmetic(x, np.int8(1)).tolist() == [-4]


def test_shapes() -> None:
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(lax.reshape(x, (6,), (1, 0)), x.T.ravel())
    np.testing.assert_array_equal(lax.transpose(x, (1, 0)), x.T)
    assert lax.broadcast(x, (4,)).shape == (4, 2, 3)
    assert lax.broadcast_to_rank(x, 4).shape == (1, 1, 2, 3)
    assert lax.expand_dims(x, (0, -1)).shape == (1, 2, 3, 1)
    assert lax.squeeze(np.ones((1, 2, 1)), (0,)).shape == (2, 1)
    assert lax.collapse(np.ones((2, 3, 4)), 1).shape == (2, 12)
    assert lax.collapse(np.ones((2, 3, 4)), 0, 2).shape == (6, 4)
    assert [p.shape for p in lax.split(x, (1, 0, 2), axis=1)] == [(2, 1), (2, 0), (2, 2)]
    with pytest.raises(errors.ShapeError, match="add up to 3"):
        lax.split(x, (1, 1), axis=1)


def test_pad() -> None:
    x = np.array([1, 2, 3])
    np.testing.assert_array_equal(lax.pad(x, 0, [(1, -1, 1)]), [0, 1, 0, 2, 0])
    with pytest.raises(errors.ShapeError, match="1 entries"):
        lax.pad(x, 0, [(0, 0, 0), (0, 0, 0)])


def test_reduce() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_allclose(lax.reduce(x, 0.0, lax.add, (0,)), x.sum(0))
    np.testing.assert_allclose(lax.reduce(x, 1.0, lambda a, b: a * b, (0, 1)), 720.0)


def test_stop_gradient_on_pytrees() -> None:
    def fun(x):
        kept = lax.stop_gradient({"x": x, "n": 3, "s": "text"})
        return x * kept["x"] * kept["n"]

    assert mgefn.grad(fun)(2.0).item() == 6.0


def test_sort_and_top_k() -> None:
    keys, values = lax.sort_key_val(np.array([3, 1, 2]), np.array([30, 10, 20]))
    assert (keys.tolist(), values.tolist()) == ([1, 2, 3], [10, 20, 30])
    assert lax.top_k(np.array([1.0, 3.0, 2.0]), 2)[1].tolist() == [1, 2]
    assert lax.approx_min_k(np.array([1.0, 3.0, 2.0]), 1)[0].tolist() == [1.0]


def test_argmax_takes_the_index_dtype() -> None:
    got = lax.argmax(np.array([[1, 5], [7, 2]]), 1, np.int8)
    assert (got.dtype, got.tolist()) == (np.int8, [1, 0])


def test_operands_by_name() -> None:
    assert lax.add(x=1, y=2).item() == 3
    assert lax.atan2(x=0.0, y=1.0).item() == 0.0
    assert lax.nextafter(x1=np.float32(1), x2=np.float32(2)).item() > 1
    assert lax.polygamma(m=1, x=2.0).item() == pytest.approx(np.pi**2 / 6 - 1, rel=1e-6)
    assert lax.stack(operands=[1, 2]).tolist() == [1, 2]
    assert [p.item() for p in lax.unstack(np.arange(3), 0)] == [0, 1, 2]
    assert lax.tile(operand=np.arange(2), reps=(2,)).tolist() == [0, 1, 0, 1]
    assert lax.full_like(x=np.ones(2, np.int8), fill_value=3, sharding=None).dtype == np.int8


def test_scatter_apply() -> None:
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, places = np.arange(1.0, 5.0), np.array([[0], [2], [2], [7]])

    def apply(x, places):
        return lax.scatter_apply(x, places, lambda v: 2 * v + 1, dims, update_shape=(4,))

    np.testing.assert_array_equal(apply(x, places), [3, 2, 15, 4])
    np.testing.assert_array_equal(mgefn.jit(apply)(x, places), [3, 2, 15, 4])
    slope = mgefn.grad(lambda x: apply(x, places).sum())(x)
    np.testing.assert_array_equal(slope, [2, 1, 4, 1])
    # The square root's derivative is infinite at the 0 that is left alone.
    one = np.array([[1]])
    root = mgefn.grad(
        lambda x: lax.scatter_apply(
            x, one, lax.sqrt, dims, update_shape=(1,), unique_indices=True
        ).sum()
    )
    np.testing.assert_allclose(root(np.array([0.0, 4.0])), [1, 0.25])
