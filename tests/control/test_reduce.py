"""`reduce` with a function of the user's: values, derivatives, batching, known operations."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn.backends.numpy_cpu  # noqa: F401  # registers the kernels
from mgefn.api.batch import vmap
from mgefn.api.derivatives import grad, hessian, jvp
from mgefn.control.reduce import reduce
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.elementwise import add, bitwise_and, bitwise_or, maximum, minimum, multiply, where

join = lambda x, y: x + y - x * y  # 1 - (1 - x)(1 - y); neutral element 0


def close(got, want, tol=1e-12):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape)


def program(f, *shapes):
    avals = [ShapedArray(s, np.dtype(np.float64)) for s in shapes]
    closed = trace_closed(lambda *xs: [f(*xs)], avals, "test")
    check_jaxpr(closed)
    return closed


@pytest.mark.parametrize("n", range(8))
def test_values(n):
    x = draw(n, 3)
    close(reduce(x, 0.0, join, (0,)), 1 - np.prod(1 - x, 0))
    close(reduce(x, 0.0, join, (1,)), 1 - np.prod(1 - x, 1))
    close(reduce(x, 0.5, join, (0, 1)), 1 - 0.5 * np.prod(1 - x))


def test_order_is_kept():
    """Composition of affine maps does not commute."""
    a, b = draw(2, 7)
    then = lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1])
    slope, offset = reduce((a, b), (1.0, 0.0), then, (0,))
    x = 0.3
    for i in range(7):
        x = a[i] * x + b[i]
    close(slope * 0.3 + offset, x)


def test_argmax_as_a_reduction():
    x = draw(4, 6)
    index = np.broadcast_to(np.arange(6, dtype=np.int32), x.shape)

    def larger(left, right):
        first = left[0] >= right[0]
        return where(first, left[0], right[0]), where(first, left[1], right[1])

    value, found = reduce((x, index), (-np.inf, np.int32(0)), larger, (1,))
    close(value, x.max(1))
    np.testing.assert_array_equal(found, x.argmax(1))
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    "op, init, name",
    [
        (add, 0.0, "reduce_sum"),
        (multiply, 1.0, "reduce_prod"),
        (maximum, -np.inf, "reduce_max"),
        (minimum, np.inf, "reduce_min"),
        (lambda x, y: y + x, 2.0, "reduce_sum"),
    ],
)
def test_plain_operations_have_their_primitive(op, init, name):
    x = draw(3, 4)
    want = {"reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max}.get(name, np.min)
    close(reduce(x, init, op, (1,)), want(x, 1) + (init if init == 2.0 else 0))
    used = [e.primitive.name for e in program(lambda v: reduce(v, init, op, (1,)), (3, 4)).eqns]
    assert name in used and "reduce" not in used


def test_booleans():
    x = np.array([[True, False], [True, True]])
    for op, init, want in [(bitwise_and, True, x.all(1)), (bitwise_or, False, x.any(1)),
                           (add, False, x.any(1)), (multiply, True, x.all(1))]:  # fmt: skip
        np.testing.assert_array_equal(reduce(x, init, op, (1,)), want)


def test_derivatives():
    x, dx = draw(5, 3), draw(5, 3)[::-1]
    f = lambda v: reduce(v, 0.0, join, (0,))
    y, dy = jvp(f, (x,), (dx,))
    h = 1e-6
    close(y, 1 - np.prod(1 - x, 0))
    close(dy, (np.asarray(f(x + h * dx)) - np.asarray(f(x - h * dx))) / (2 * h), 1e-7)
    g = grad(lambda v: f(v).sum())(x)
    want = [[np.prod(np.delete(1 - x[:, j], i)) for j in range(3)] for i in range(5)]
    close(g, want)
    # At 1, 1, 1 only one factor may be left out twice over: the Hessian is that of a product at 0.
    close(hessian(lambda v: reduce(v, 0.0, join, (0,)))(np.array([1.0, 1, -6])),
          [[0, -7, 0], [-7, 0, 0], [0, 0, 0]])  # fmt: skip
    close(grad(lambda i: reduce(x[:, 0], i, join, (0,)))(0.5), np.prod(1 - x[:, 0]), 1e-6)


def test_batching_and_staging():
    x = draw(4, 5, 3)
    f = lambda v: reduce(v, 0.0, join, (0,))
    want = np.stack([1 - np.prod(1 - x[:, i], 0) for i in range(5)])
    close(vmap(f, in_axes=1)(x), want)
    starts = np.array([0.0, 0.5, 1.0])
    got = vmap(lambda i: reduce(x[:, 0, 0], i, join, (0,)))(starts)
    close(got, 1 - (1 - starts) * np.prod(1 - x[:, 0, 0]))
    closed = program(f, (4, 3))
    assert [e.primitive.name for e in closed.eqns] == ["reduce"]
    close(eval_jaxpr(closed.jaxpr, closed.consts, [as_array(x[:, 0])])[0], want[0])


def test_errors():
    x = np.ones((2, 3))
    with pytest.raises(ArgumentError, match="init_values must have the structure"):
        reduce((x, x), 0.0, join, (0,))
    with pytest.raises(ShapeError, match="operands of one shape and scalar init_values"):
        reduce((x, x[0]), (0.0, 0.0), lambda a, b: a, (0,))
    with pytest.raises(DTypeError, match="must return f64"):
        reduce(x, 0.0, lambda a, b: a > b, (0,))
    with pytest.raises(UnsupportedError, match="closes over the traced"):
        grad(lambda s: reduce(x, 0.0, lambda a, b: a + b * s, (0, 1)))(1.0)
