"""Arrays do not change with the caller's memory, copies are copies, and what is let go is freed."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax

SIZES = [1, 3, 100, 5000, 100_000]


def aligned(n: int, offset: int = 0) -> np.ndarray:
    """Writable float32 on a boundary of 64 bytes, where memory could be shared, or beside it."""
    raw = np.empty(4 * n + 128, np.uint8)
    at = -raw.ctypes.data % 64 + offset
    return raw[at : at + 4 * n].view(np.float32)


MAKERS = {
    "device_put": mgefn.device_put,
    "asarray": mnp.asarray,
    "array": mnp.array,
    "asarray of a dtype": lambda x: mnp.asarray(x, "float32"),
    "from an operation": lambda x: mnp.reshape(x, (-1,)),
    "identity": mgefn.jit(lambda x: x),
    "compiled view": mgefn.jit(lambda x: x[::-1][::-1]),
    "tree": lambda x: mgefn.tree.leaves(mgefn.device_put({"a": (x,)}))[0],
    "zero added": lambda x: x + mnp.zeros((), "float32"),
    "vmap": mgefn.vmap(lambda v: v),
    "value of a gradient": lambda x: mgefn.vjp(lambda v: v, x)[0],
    "scan": lambda x: lax.scan(lambda c, v: (c, v), 0.0, x)[1],
    "dlpack": lambda x: mnp.from_dlpack(x, copy=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_written_later_is_not_seen(name):
    for n in SIZES[: 3 if name == "scan" else None]:
        for offset in (0, 4):
            source = aligned(n, offset)
            source[:] = np.arange(n)
            x = MAKERS[name](source)
            source[:] = -1
            np.testing.assert_array_equal(x, np.arange(n))


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-1], np.flip])
def test_views_are_taken_as_they_are(view):
    source = np.arange(20000, dtype=np.float32).reshape(100, 200)
    want = view(source).copy()
    kept = [mnp.array(view(source)), mnp.asarray(view(source)), mgefn.jit(mnp.sin)(view(source))]
    source[:] = -1
    for x, w in zip(kept, (want, want, np.sin(want)), strict=True):
        np.testing.assert_allclose(x, w, rtol=1e-5, atol=1e-6)


def test_a_buffer_that_is_filled_again_for_each_call():
    f = mgefn.jit(lambda x: (mnp.sin(x).sum() * 0 + x[-1], x.reshape(2, -1), x.T, x[5:]))
    source = aligned(60_000)
    outs = []
    for k in range(10):
        source[:] = k
        outs.append(f(source))
    source[:] = -1
    for k, parts in enumerate(outs):
        for part in parts:
            assert float(np.min(part)) == float(np.max(part)) == k


def test_numpy_can_not_write_into_an_array():
    x = mnp.arange(5.0)
    for view in (np.asarray(x), np.asarray(x.reshape(5, 1)), x.__array__()):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    mine = np.array(x)
    mine[0] = 9
    assert x[0] == 0


KINDS = {
    "rank 0": lambda: mnp.asarray(1.5, "float32"),
    "weak": lambda: mnp.asarray(2.0),
    "empty": lambda: mnp.zeros((0, 2)),
    "bool": lambda: mnp.asarray([True]),
    "complex": lambda: mnp.asarray([1j]),
    "bfloat16": lambda: mnp.asarray([1.5, 3], "bfloat16"),
    "int8": lambda: mnp.arange(3, dtype="int8"),
    "view": lambda: mnp.arange(6.0).reshape(2, 3).T,
}


@pytest.mark.parametrize("name", KINDS)
def test_copies_keep_class_dtype_and_value(name):
    x = KINDS[name]()
    for y in (
        copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy(),
        copy.deepcopy({"k": [x]})["k"][0], pickle.loads(pickle.dumps((x,), protocol=2))[0],
    ):  # fmt: skip
        assert type(y) is type(x) and y.dtype == x.dtype and y.weak_type == x.weak_type
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: x.copy()])
def test_traced_values_can_be_copied(copied):
    assert float(mgefn.jit(lambda x: copied(x) * 2)(3.0)) == 6.0
    for f in (lambda x: copied(x) ** 2, lambda x: copied(x) * x):
        assert float(mgefn.grad(f)(3.0)) == 6.0
    assert mgefn.vmap(lambda x: copied(x) + 1)(mnp.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("wrap", [mgefn.jit, mgefn.checkpoint, mgefn.grad, mgefn.vmap])
def test_transformed_functions_in_settings_can_be_copied(wrap):
    settings = {"f": wrap(lambda x: x * x)}
    for s in (copy.copy(settings), copy.deepcopy(settings)):
        x = mnp.ones(1) * 3 if wrap is mgefn.vmap else 3.0
        assert np.asarray(s["f"](x)).sum() in (9.0, 6.0)


class Held:
    """What a function closes over; it has a large array."""

    def __init__(self):
        self.x = mnp.ones(1000)


USES = {
    "jit": lambda h: mgefn.jit(lambda y: (y * h.x).sum())(2.0),
    "grad": lambda h: mgefn.grad(lambda v: (v * h.x).sum())(1.0),
    "jit of grad": lambda h: mgefn.jit(mgefn.grad(lambda v: (v * h.x).sum()))(1.0),
    "vjp": lambda h: mgefn.vjp(lambda v: v * h.x, 1.0)[1](mnp.ones(1000)),
    "vmap": lambda h: mgefn.vmap(lambda v: v * h.x)(mnp.ones(3)),
    "cond": lambda h: lax.cond(True, lambda v: v * h.x[0], lambda v: v, 1.0),
    "scan": lambda h: lax.scan(lambda c, _: (c * h.x[0], None), 1.0, None, length=3),
    "while_loop": lambda h: lax.while_loop(lambda c: c < 2, lambda c: c + h.x[0], 0.0),
    "checkpoint": lambda h: mgefn.grad(mgefn.checkpoint(lambda v: (v * h.x).sum()))(1.0),
    "custom_jvp": lambda h: mgefn.grad(_with_a_rule(lambda v: (v * h.x).sum()))(1.0),
    "make_jaxpr": lambda h: mgefn.make_jaxpr(lambda v: v * h.x)(1.0),
    "error": lambda h: _fails(lambda v: v * h.x @ mnp.ones(3)),
}


def _with_a_rule(f):
    wrapped = mgefn.custom_jvp(f)
    wrapped.defjvp(lambda p, t: (f(p[0]), f(t[0])))
    return wrapped


def _fails(f):
    try:
        mgefn.jit(f)(1.0)
    except ValueError:
        pass


@pytest.mark.parametrize("name", USES)
def test_what_a_function_closed_over_goes_with_it(name):
    def turn():
        held = Held()
        USES[name](held)
        return weakref.ref(held)

    refs = [turn() for _ in range(4)]
    gc.collect()
    # One may be kept as the last that was looked up.
    assert sum(r() is not None for r in refs) <= 1
