"""Windows that slide over arrays, by NumPy's function and by ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.numpy.stride_tricks import sliding_window_view

X = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 3), None),
        (3, 1),
        (3, -1),
        ((2, 2), (1, 1)),
        ((3, 2), (1, 0)),
        ([2], [0]),
        (0, 0),
        ((4, 6), None),
    ],
)
def test_windows_are_numpys(shape: Any, axis: Any) -> None:
    def windows(x: Any) -> Any:
        return np.lib.stride_tricks.sliding_window_view(x, shape, axis=axis)

    expected = windows(X)
    np.testing.assert_array_equal(sliding_window_view(X, shape, axis), expected)
    np.testing.assert_array_equal(mgefn.jit(windows)(X), expected)
    batch = mgefn.vmap(windows)(np.stack([X, -X]))
    np.testing.assert_array_equal(batch, np.stack([expected, -expected]))


def test_slopes_of_overlapping_windows_add_up() -> None:
    def total(x: Any) -> Any:
        return np.sum(
            np.lib.stride_tricks.sliding_window_view(x, 3) * mnp.array([1.0, 10.0, 100.0])
        )

    np.testing.assert_array_equal(mgefn.grad(total)(mnp.ones(5)), [1, 11, 111, 110, 100])


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((7, 0), errors.ShapeError, "a window of 7 must fit into dimension 0"),
        ((2, None), errors.ArgumentError, "a window size for each of 2 axes, got 1"),
        ((-1, 0), errors.ArgumentError, "0 or more, got -1"),
        ((2, 2), errors.AxisError, "axis"),
    ],
)
def test_bad_windows(args: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        sliding_window_view(X, *args)


def test_windows_can_not_be_written() -> None:
    with pytest.raises(errors.ArgumentError, match="writeable must be False"):
        sliding_window_view(X, (1, 1), writeable=True)
