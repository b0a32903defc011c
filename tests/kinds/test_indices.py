"""Reading and writing at places that are outside, repeated, of small types, or not there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.errors import MgefnError

X = np.array([1.0, 2.0, 3.0, 4.0])
OURS = mnp.asarray(X)


@pytest.mark.parametrize("start", [-9, -1, 0, 1, 2, 3, 50])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_windows_move_inside_and_their_slopes_with_them(start, size):
    first = min(max(start + (4 if start < 0 else 0), 0), 4 - size)
    read = lambda v, i: lax.dynamic_slice(v, (i,), (size,))
    want = np.zeros(4)
    want[first : first + size] = 1
    for f in (read, mgefn.jit(read)):
        np.testing.assert_array_equal(f(X, start), X[first : first + size])
        np.testing.assert_array_equal(mgefn.grad(lambda v, f=f: f(v, start).sum())(X), want)
        rows = mgefn.vmap(f, (None, 0))(X, mnp.asarray([start, 0]))
        np.testing.assert_array_equal(rows, [X[first : first + size], X[:size]])
    batched = lambda v: mgefn.vmap(read, (None, 0))(v, mnp.asarray([start, 0])).sum(1)
    np.testing.assert_array_equal(mgefn.jacrev(batched)(X)[0], want)
    np.testing.assert_array_equal(mgefn.jacfwd(batched)(X)[0], want)

    u = np.arange(10.0, 10 + size)
    write = lambda v, u, i: lax.dynamic_update_slice(v, u, (i,))
    wanted = X.copy()
    wanted[first : first + size] = u
    for f in (write, mgefn.jit(write)):
        np.testing.assert_array_equal(f(X, u, start), wanted)
        weighed = lambda v, u, f=f: (mnp.asarray(X) * f(v, u, start)).sum()
        gv, gu = mgefn.grad(weighed, (0, 1))(X, u)
        np.testing.assert_array_equal(gv, X * (want == 0))
        np.testing.assert_array_equal(gu, X[first : first + size])
        many = mgefn.vmap(f, (None, None, 0))(X, u, mnp.asarray([start, start]))
        np.testing.assert_array_equal(many, [wanted, wanted])


PLACES = [[0, 3, -1, -4], [4, 9, -5, -99], [2, 2, 7, 2]]


@pytest.mark.parametrize("places", PLACES, ids=str)
def test_each_mode_outside_of_the_array(places):
    i = np.array(places)
    inside = (i >= -4) & (i < 4)
    read = X[np.clip(np.where(i < 0, i + 4, i), 0, 3)]
    j = mnp.asarray(places)
    for wrap in (lambda f: f, mgefn.jit):
        fill = wrap(lambda v, j: v.at[j].get(mode="fill", fill_value=-7.0))
        clip = wrap(lambda v, j: v.at[j].get(mode="clip"))
        drop = wrap(lambda v, j, u: v.at[j].add(u, mode="drop"))
        np.testing.assert_array_equal(fill(OURS, j), np.where(inside, read, -7))
        np.testing.assert_array_equal(clip(OURS, j), read)
        added, counts = X.copy(), np.zeros(4)
        np.add.at(added, i[inside], 10.0)
        np.add.at(counts, i[inside], 1.0)
        np.testing.assert_array_equal(drop(OURS, j, mnp.full(4, 10.0)), added)
        # What was filled or dropped has slope 0; what was clipped has that of the place it took.
        np.testing.assert_array_equal(mgefn.grad(lambda v, f=fill: f(v, j).sum())(X), counts)
        np.testing.assert_array_equal(
            mgefn.grad(lambda u, f=drop: f(mnp.zeros(4), j, u).sum())(X), inside.astype(float)
        )
        clipped = np.zeros(4)
        np.add.at(clipped, np.clip(np.where(i < 0, i + 4, i), 0, 3), 1.0)
        np.testing.assert_array_equal(mgefn.grad(lambda v, f=clip: f(v, j).sum())(X), clipped)
        each = mgefn.vmap(lambda v, k, f=clip: f(v, k), (None, 0))
        np.testing.assert_array_equal(
            mgefn.jacrev(lambda v, each=each: each(v, j))(X).sum(0), clipped
        )


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
def test_writing_into_an_array_without_elements(method):
    f = lambda u: getattr(mnp.zeros(0).at[mnp.arange(2)], method)(u, mode="drop")
    u = mnp.ones(2)
    assert f(u).shape == (0,)
    assert mgefn.jacfwd(f)(u).shape == mgefn.jacrev(f)(u).shape == (0, 2)
    assert mgefn.grad(lambda v: f(v).sum())(u).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint64"])
@pytest.mark.parametrize("size", [100, 200, 300, 40000])
def test_indices_of_small_types_reach_everywhere_their_values_do(dtype, size):
    """Adding 300 to an int8 for a negative index must not wrap."""
    info = np.iinfo(dtype)
    candidates = [0, 1, size - 1, size // 2, 99, 127, 255, -1, -100, -128, -size]
    i = [k for k in candidates if info.min <= k <= info.max and -size <= k < size]
    x = np.arange(size)
    j = mnp.asarray(np.array(i, dtype))
    for f in (lambda v, j: v[j], mgefn.jit(lambda v, j: v[j]), mnp.take):
        np.testing.assert_array_equal(f(mnp.asarray(x), j), x[i])
    y = np.stack([x, x + size])
    along = mnp.take_along_axis(mnp.asarray(y), mnp.stack([j, j]), axis=1)
    np.testing.assert_array_equal(along, y[:, i])
    np.testing.assert_array_equal(
        mnp.zeros(size).at[j].add(1.0), np.bincount(np.array(i) % size, minlength=size)
    )
    got = mgefn.vmap(lambda k: lax.dynamic_index_in_dim(mnp.asarray(x), k, keepdims=False))(j)
    np.testing.assert_array_equal(got, x[i])


Y = np.arange(24.0).reshape(2, 3, 4)
M = np.array([[True, False, True], [False, False, True]])
MASKS = {
    "all": (Y > 5,),
    "leading": (M,),
    "one": (M[:, 0],),
    "none and mask": (None, M),
    "mask and none": (M, None),
    "ellipsis, mask": (..., np.array([True, False, True, False])),
    "ellipsis, mask, slice": (..., M[0], slice(None)),
    "mask, ellipsis, slice": (M[:, 0], ..., slice(None, None, -1)),
    "mask and int": (0, M[0]),
    "int, slice, mask": (1, slice(None), np.array([True, False, True, False])),
    "nothing": (np.zeros((2, 3), bool),),
    "nothing along": (slice(None), np.zeros(3, bool)),
    "rank 0": (np.bool_(True),),
    "rank 0, false": (False, ...),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_have_numpys_shapes(name):
    index = MASKS[name]
    ours = tuple(mnp.asarray(k) if isinstance(k, np.ndarray) else k for k in index)
    want = Y[index]
    np.testing.assert_array_equal(mnp.asarray(Y)[ours], want)
    assert mnp.asarray(Y)[ours].shape == want.shape
    written = Y.copy()
    written[index] = -1
    np.testing.assert_array_equal(mnp.asarray(Y).at[ours].set(-1), written)
    slope = np.zeros_like(Y)
    slope[index] = 1
    np.testing.assert_array_equal(mgefn.grad(lambda v: v[ours].sum())(Y), slope)


@pytest.mark.parametrize(
    "shape, mask",
    [((3,), (2,)), ((3,), (4,)), ((2, 3), (3,)), ((2, 3), (2, 2)), ((2, 3), (2, 3, 1)), ((), (1,))],
)
def test_masks_of_another_size_are_refused(shape, mask):
    x, m = mnp.zeros(shape), mnp.ones(mask, bool)
    for f in (lambda: x[m], lambda: x.at[m].set(1.0)):
        with pytest.raises((MgefnError, IndexError)):
            f()


def test_masks_in_compiled_programs():
    for fill, m in itertools.product((5.0, -1.0), (Y > 5, np.zeros(Y.shape, bool))):
        f = mgefn.jit(lambda v, m, fill=fill: mnp.where(m, fill, v))
        np.testing.assert_array_equal(f(Y, m), np.where(m, fill, Y))
        np.testing.assert_array_equal(mgefn.grad(lambda v, m=m, f=f: f(v, m).sum())(Y), ~m * 1.0)
    with pytest.raises(MgefnError):
        mgefn.jit(lambda v, m: v[m])(Y, M)
