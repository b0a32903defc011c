"""Segments against loops over their rows."""

from functools import reduce

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, ops

DATA = np.array([[1, -2], [3, 4], [5, 6], [-7, 8], [2, 2]], np.float32)
IDS = np.array([0, 2, -1, 2, 9], np.int32)
FOLDS = {
    "segment_sum": (np.add, 0.0),
    "segment_prod": (np.multiply, 1.0),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}


def rows_folded(name: str, ids: np.ndarray, n: int) -> np.ndarray:
    ufunc, neutral = FOLDS[name]
    start = np.full(2, neutral, np.float32)
    return np.stack([reduce(ufunc, DATA[ids == i], start) for i in range(n)])


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("bucket_size", [None, 1, 2, 9])
def test_each_segment_by_itself(name: str, bucket_size: int | None) -> None:
    want = rows_folded(name, IDS, 4)

    def fun(data, ids):
        return getattr(ops, name)(data, ids, 4, bucket_size=bucket_size)

    for f in (fun, mgefn.jit(fun)):
        got = f(DATA, IDS)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want)


def test_clipped_and_counted() -> None:
    got = ops.segment_sum(DATA, IDS, 3, mode="clip")
    np.testing.assert_array_equal(got, rows_folded("segment_sum", np.clip(IDS, 0, 2), 3))
    assert ops.segment_sum(DATA, IDS).shape == (10, 2)
    assert ops.segment_sum(np.zeros(0), np.zeros(0, int)).shape == (0,)
    assert ops.segment_max(np.array([1], np.int8), np.array([1])).tolist() == [-128, 1]
    # A rank 2 of numbers, and more segments than the dtype of the numbers can count.
    both = ops.segment_sum(DATA, np.array([[0, 300]] * 5, np.uint16), 301)
    assert (both[0].item(), both[300].item()) == (4.0, 18.0)
    assert ops.segment_sum(DATA[:, 0], IDS.astype(np.int8), 300)[2].item() == -4.0


def test_under_transformations() -> None:
    slope = mgefn.grad(lambda d: (ops.segment_sum(d, mnp.array([0, 1, 0]), 2) ** 2).sum())
    np.testing.assert_array_equal(slope(np.array([0.0, 1.0, 2.0])), [4, 2, 4])
    each = mgefn.vmap(lambda i: ops.segment_sum(mnp.ones(3), i, 3))
    np.testing.assert_array_equal(each(np.array([[0, 1, 1], [2, 2, 2]])), [[1, 2, 0], [0, 0, 3]])


def test_errors() -> None:
    with pytest.raises(errors.ConcretizationTypeError, match="Pass num_segments"):
        mgefn.jit(ops.segment_sum)(DATA, IDS)
    with pytest.raises(errors.DTypeError, match="integers"):
        ops.segment_sum(DATA, np.ones(5))
    with pytest.raises(errors.ShapeError, match="must begin with"):
        ops.segment_sum(DATA, IDS[:3])
    with pytest.raises(errors.ArgumentError, match="0 or more"):
        ops.segment_sum(DATA, IDS, -1)
    with pytest.raises(errors.ArgumentError, match="bucket_size"):
        ops.segment_sum(DATA, IDS, 3, bucket_size=0)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = ops.nothing_such  # type: ignore[attr-defined]
    assert "segment_sum" in dir(ops)
