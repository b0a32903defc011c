"""while_loop and fori_loop."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import grad, jit, lax, vmap
from mgefn.errors import ArgumentError, DTypeError, ShapeError, TreeError


def doubled(x, y):
    """x * (2 y)^n as soon as it is 100 or more, and n."""
    return lax.while_loop(lambda v: v[0] < 100, lambda v: (v[0] * 2 * y, v[1] + 1), (x, 0))


def doubled_in_python(x, y):
    n = 0
    while x < 100:
        x, n = x * 2 * y, n + 1
    return x, n


def test_value():
    for run in (doubled, jit(doubled)):
        for x, y in ((3.0, 1.0), (1.0, 1.5), (200.0, 1.0)):
            assert tuple(map(float, run(x, y))) == doubled_in_python(x, y)


def test_forward_mode():
    f = lambda x, y: doubled(x, y)[0]
    # 3 * (2 y)^n, n = 4 at y = 1.3
    want = 2.6**4, 3 * 4 * 2 * 2.6**3
    for run in (lambda f: f, jit):
        for i, w in enumerate(want):
            np.testing.assert_allclose(run(mgefn.jacfwd(f, i))(3.0, 1.3), w, rtol=1e-5)
    linear = mgefn.linearize(f, 3.0, 1.3)[1]
    np.testing.assert_allclose(linear(1.0, 0.0), want[0], rtol=1e-5)
    second = mgefn.jacfwd(mgefn.jacfwd(lambda y: f(3.0, y)))(1.3)
    np.testing.assert_allclose(second, 3 * 4 * 3 * 4 * 2.6**2, rtol=1e-5)


def test_tangents_spread_through_the_carry():
    def f(x):
        shift = lambda v: (v[0] + 1, 0 * v[1] + x, v[1], v[2])
        return lax.while_loop(lambda v: v[0] < 5, shift, (0, 1.0, 1.0, 1.0))

    _, dots = mgefn.jvp(f, (2.0,), (1.0,))
    assert [float(d) for d in dots[1:]] == [1, 1, 1]


def test_reverse_mode_says_what_to_use():
    for f in (lambda x: doubled(x, 1.0)[0], jit(lambda x: doubled(x, 1.0)[0])):
        for run in (grad(f), jit(grad(f))):
            with pytest.raises(ArgumentError, match=r"reverse mode .* Use scan, or fori_loop"):
                run(3.0)
    # A loop that the result does not depend on smoothly is no obstacle.
    assert grad(lambda x: x * doubled(x, 1.0)[1])(3.0) == 6
    assert grad(lambda x: x * lax.stop_gradient(doubled(x, 1.0)[0]))(3.0) == 192


def test_batches():
    xs, ys = np.float32([1, 3, 200]), np.float32([1, 1.5, 1])
    want = np.array([doubled_in_python(x, y) for x, y in zip(xs, ys, strict=True)])
    for run in (vmap(doubled), jit(vmap(doubled)), vmap(jit(doubled))):
        got = run(xs, ys)
        np.testing.assert_allclose(got[0], want[:, 0], rtol=1e-6)
        np.testing.assert_array_equal(got[1], want[:, 1])
    one = vmap(doubled, (None, 0))(1.0, ys)
    np.testing.assert_array_equal(one[1], [doubled_in_python(1.0, y)[1] for y in ys])
    twice = vmap(vmap(doubled, (None, 0)), (0, None))(xs, ys)
    for i, x in enumerate(xs):
        same_x = [doubled_in_python(x, y)[1] for y in ys]
        np.testing.assert_array_equal(twice[1][i], same_x)
    dots = vmap(lambda x: mgefn.jvp(lambda x: doubled(x, 1.0)[0], (x,), (1.0,))[1])(xs)
    np.testing.assert_array_equal(dots, [128, 64, 1])
    assert vmap(doubled)(np.ones(0), np.ones(0))[0].shape == (0,)


def test_a_batch_whose_condition_is_shared():
    f = lambda x: lax.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1] * 2), (0, x))[1]
    np.testing.assert_array_equal(vmap(f)(np.arange(3)), [0, 8, 16])


def test_loops_inside_end_for_examples_that_are_done():
    """The inner loop would not end for -1, which is done before it starts."""
    inner = lambda v: lax.while_loop(lambda u: (u <= 0) | (u > 1.5), lambda u: u * 0.5, v)
    f = lambda x: lax.while_loop(lambda v: v > 1.4, lambda v: inner(v) * 0.9, x)
    xs = np.float32([-1, 5, 100])
    np.testing.assert_allclose(vmap(f)(xs), [f(x) for x in xs], rtol=1e-6)


def test_effects():
    log = []

    def body(v):
        mgefn.debug.callback(lambda v: log.append(float(v)), v)
        return v * 2

    for run in (lambda f: f, jit):
        log.clear()
        run(lambda x: lax.while_loop(lambda v: v < 5, body, x))(1.0)
        assert log == [1, 2, 4]


def test_weak_values_take_the_type_of_the_body():
    assert lax.while_loop(lambda v: v < 10, lambda v: v * 1.5, 1).dtype == np.float32
    assert lax.while_loop(lambda v: v < 10, lambda v: v * np.int16(2), 1).dtype == np.int16


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: lax.while_loop(lambda v: True, lambda v: mnp.stack([v, v]), np.float32(1)),
            ShapeError,
            r"v is f32\[\] and comes back as f32\[2\]",
        ),
        (lambda: lax.while_loop(lambda v: True, lambda v: (v, v), 1.0), TreeError, "structure"),
        (
            lambda: lax.while_loop(
                lambda v: v[0] > 0, lambda v: [v[0] + np.ones(())], [np.int32(1)]
            ),
            DTypeError,
            r"v\[0\] is i32\[\] and comes back as f64\[\]",
        ),
        (lambda: lax.while_loop(lambda v: v, lambda v: v, 1.0), DTypeError, "return a boolean"),
        (
            lambda: lax.while_loop(lambda v: v > 0, lambda v: v, np.ones(2)),
            ShapeError,
            "rank 0",
        ),
        (lambda: lax.while_loop(lambda v: (), lambda v: v, 1.0), TreeError, "one boolean"),
        (lambda: lax.while_loop(1, lambda v: v, 1.0), ArgumentError, "must be functions"),
        (lambda: lax.while_loop(lambda v: 0, lambda v: v, "a"), ArgumentError, "pytree of arrays"),
        (
            lambda: lax.fori_loop(np.int32(0), np.int8(3), lambda i, v: v, 1.0),
            DTypeError,
            r"one dtype, got i32\[\] and i8\[\]",
        ),
        (lambda: lax.fori_loop(0, 1.5, lambda i, v: v, 1.0), DTypeError, "upper must be"),
        (lambda: lax.fori_loop(0, 2, None, 1.0), ArgumentError, "body_fun must be"),
        (
            lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, v: v, 1.0, unroll=2))(3),
            ArgumentError,
            "unroll needs known bounds",
        ),
    ],
)
def test_messages(call, error, match):
    with pytest.raises(error, match=match):
        call()


# -- fori_loop ------------------------------------------------------------------------------------


def test_fori_loop_with_known_bounds_has_reverse_mode():
    f = lambda x: lax.fori_loop(1, 4, lambda i, v: v * v * i, x)
    for run in (grad(f), jit(grad(f)), grad(jit(f))):
        np.testing.assert_allclose(run(1.1), grad(lambda x: 3 * (2 * (x * x) ** 2) ** 2)(1.1), 1e-5)
    np.testing.assert_allclose(
        grad(lambda x: lax.fori_loop(mnp.array(0), 3, lambda i, v: v * v, x))(1.1), 8 * 1.1**7, 1e-5
    )
    # The bounds are known although x is differentiated.
    power = lambda x, n: lax.fori_loop(0, n, lambda i, v: v * x, 1.0)
    assert grad(power)(2.0, 3) == 12


def test_fori_loop_with_traced_bounds():
    f = lambda n, x: lax.fori_loop(2, n, lambda i, v: v * 2 + i, x)
    for n in (0, 2, 5):
        want = 1.0
        for i in range(2, n):
            want = want * 2 + i
        assert jit(f)(n, 1.0) == f(n, 1.0) == want
    np.testing.assert_array_equal(vmap(f, (0, None))(np.array([0, 3, 4]), 1.0), [1, 4, 11])
    assert mgefn.jvp(lambda x: jit(f)(5, x), (1.0,), (1.0,))[1] == 8
    with pytest.raises(ArgumentError, match="traced bounds"):
        jit(grad(lambda x, n: lax.fori_loop(0, n, lambda i, v: v * v, x)))(1.0, 3)


def test_fori_loop_index_types():
    assert lax.fori_loop(0, np.int8(3), lambda i, v: i, np.int8(0)).dtype == np.int8
    assert lax.fori_loop(0, 3, lambda i, v: i, 0).weak_type
    assert lax.fori_loop(3, 0, lambda i, v: v + 1, 1.0) == 1


def test_without_jit():
    f = lambda x, n: lax.fori_loop(0, n, lambda i, v: v + i, x)
    want = vmap(f)(np.arange(3), np.arange(3))
    with mgefn.disable_jit():
        assert f(1, 4) == jit(f)(1, 4) == 7
        np.testing.assert_array_equal(vmap(f)(np.arange(3), np.arange(3)), want)
        assert doubled(3.0, 1.0)[1] == 6
