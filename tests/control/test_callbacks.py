"""Callbacks and debug printing under every transformation."""

import numpy as np
import pytest

import mgefn
from mgefn import debug, grad, jit, vmap
from mgefn.control.callbacks import io_callback, pure_callback
from mgefn.control.checkpoint import checkpoint
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.interpreter import state
from mgefn.errors import ArgumentError, DTypeError, ShapeError, TreeError, UnsupportedError
from mgefn.ops.elementwise import cos, sin

X = np.float32([1, 2, 3])
F32 = np.float32(0)


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    yield
    assert state.current is None


def numpy_sin(x):
    return pure_callback(np.sin, x, x)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
class TestPureCallback:
    def test_value(self, wrap):
        np.testing.assert_allclose(wrap(numpy_sin)(X), np.sin(X))

    def test_pytrees_and_keywords(self, wrap):
        def callback(a, *, b):
            assert isinstance(a["x"], np.ndarray) and not a["x"].flags.writeable
            return {"sum": a["x"] + b, "n": np.int32(3)}

        result = {"sum": F32, "n": np.int32(0)}
        got = wrap(lambda x, b: pure_callback(callback, result, {"x": x}, b=b))(F32 + 1, F32 + 2)
        assert got == {"sum": 3, "n": 3}

    @pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
    def test_vmap(self, wrap, method):
        shapes = []

        def callback(a, b):
            shapes.append((a.shape, b.shape))
            return a + b

        def add(a, b):
            return pure_callback(callback, a, a, b, vmap_method=method)

        got = wrap(vmap(vmap(add, (0, None)), (0, None)))(np.ones((2, 3), np.float32), F32 + 2)
        np.testing.assert_array_equal(got, np.full((2, 3), 3))
        want = {
            "sequential": [((), ())] * 6,
            "expand_dims": [((2, 3), (1, 1))],
            "broadcast_all": [((2, 3), (2, 3))],
        }
        assert shapes == want[method]

    def test_vmap_without_a_method(self, wrap):
        with pytest.raises(UnsupportedError, match="Pass vmap_method, one of 'sequential'"):
            wrap(vmap(numpy_sin))(X)

    def test_derivative_is_the_users(self, wrap):
        with pytest.raises(UnsupportedError, match="Wrap the call in a custom_jvp"):
            wrap(grad(numpy_sin))(F32)
        f = custom_jvp(lambda x: pure_callback(np.sin, x, x, vmap_method="sequential"))
        f.defjvp(lambda p, t: (f(p[0]), cos(p[0]) * t[0]))
        np.testing.assert_allclose(vmap(wrap(grad(f)))(X), np.cos(X), rtol=1e-6)

    def test_arguments_without_a_tangent_are_fine(self, wrap):
        np.testing.assert_allclose(
            wrap(grad(lambda x, y: x * numpy_sin(y)))(F32, F32 + 1), np.sin(1.0), rtol=1e-6
        )

    def test_the_callback_may_call_mgefn(self, wrap):
        def callback(x):
            assert state.current is None
            return jit(lambda z: sin(z) + grad(sin)(z))(x)

        got = wrap(grad(lambda y, x: y * pure_callback(callback, x, x)))(F32, F32 + 1)
        np.testing.assert_allclose(got, np.sin(1) + np.cos(1), rtol=1e-6)

    def test_the_callback_sees_numpys_warnings(self, wrap):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            wrap(lambda x: pure_callback(lambda a: np.float32(1) / a, x, x))(X * 0)

    def test_the_callbacks_array_is_copied(self, wrap):
        kept = np.ones(3, np.float32)
        got = wrap(lambda x: pure_callback(lambda a: kept, x, x))(X)
        kept[:] = 7
        np.testing.assert_array_equal(got, [1, 1, 1])

    @pytest.mark.parametrize(
        ("callback", "error", "match"),
        [
            (lambda x: np.zeros(2, np.float32), ShapeError, r"must return f32\[\], got f32\[2\]"),
            (lambda x: np.zeros(()), DTypeError, r"must return f32\[\], got f64\[\]"),
            (lambda x: (x,), TreeError, "must return the structure"),
            (lambda x: "no", ArgumentError, "must return arrays, got str"),
            (lambda x: 1 / 0, ZeroDivisionError, "division"),
        ],
    )
    def test_mistakes(self, wrap, callback, error, match):
        with pytest.raises(error, match=match):
            wrap(lambda x: pure_callback(callback, x, x))(F32)
        assert wrap(lambda x: pure_callback(lambda x: 2.0, x, x))(F32) == 2


def test_pure_callback_arguments():
    with pytest.raises(ArgumentError, match="vmap_method must be one of"):
        pure_callback(np.sin, F32, F32, vmap_method="all")
    with pytest.raises(ArgumentError, match="objects with shape and dtype, got float"):
        pure_callback(np.sin, 1.0, F32)
    with pytest.raises(ArgumentError, match="needs a function, got int"):
        pure_callback(3, F32, F32)


def test_io_callback_runs_once_in_order():
    seen = []

    def f(x):
        for k in range(3):
            io_callback(lambda v: seen.append(float(v)), None, x + k)
        return x

    jit(f)(F32)
    assert seen == [0, 1, 2]
    seen.clear()
    vmap(lambda x: io_callback(lambda v: seen.append(float(v)), None, x))(X)
    assert seen == [1, 2, 3]
    with pytest.raises(UnsupportedError, match="no meaning under vmap"):
        vmap(lambda x: io_callback(seen.append, None, x, ordered=True))(X)
    with pytest.raises(UnsupportedError, match="io_callback: has no jvp rule"):
        grad(lambda x: io_callback(np.sin, x, x))(F32)


PRINTING = {
    "eager": (lambda f: f(F32 + 2), "x = 2.0\n"),
    "jit": (lambda f: jit(f)(F32 + 2), "x = 2.0\n"),
    "grad": (lambda f: grad(f)(F32 + 2), "x = 2.0\n"),
    "jit grad": (lambda f: jit(grad(f))(F32 + 2), "x = 2.0\n"),
    "grad jit": (lambda f: grad(jit(f))(F32 + 2), "x = 2.0\n"),
    "jvp": (lambda f: mgefn.jvp(f, (F32 + 2,), (F32,)), "x = 2.0\n"),
    "vmap": (lambda f: vmap(f)(X), "x = 1.0\nx = 2.0\nx = 3.0\n"),
    "jit vmap grad": (lambda f: jit(vmap(grad(f)))(X), "x = 1.0\nx = 2.0\nx = 3.0\n"),
    "grad checkpoint": (lambda f: grad(checkpoint(f))(F32 + 2), "x = 2.0\n"),
}


@pytest.mark.parametrize("order", PRINTING)
def test_debug_print(order, capsys):
    def f(x):
        debug.print("x = {}", x)
        return sin(x)

    run, want = PRINTING[order]
    run(f)
    assert capsys.readouterr().out == want


def test_debug_print_is_never_merged_or_dropped(capsys):
    @jit
    def f(x):
        debug.print("{}", x)
        debug.print("{}", x)
        return 0

    f(F32)
    f(F32)
    assert capsys.readouterr().out == "0.0\n" * 4


def test_debug_print_formats(capsys):
    debug.print("{:.2f} {name} {b:>4} {}", F32 + 1, [1, 2], name="n", b=np.int32(3))
    assert capsys.readouterr().out == "1.00 n    3 [1, 2]\n"
    with pytest.raises(ArgumentError, match="must fit its arguments, got 0"):
        debug.print("{}")
    with pytest.raises(ArgumentError, match="does not use the argument number 0"):
        debug.print("x", F32)
    with pytest.raises(ArgumentError, match="must be a str, got int"):
        debug.print(3)


def test_debug_callback_keeps_structure_and_static_arguments():
    seen = []

    def callback(d, tag, *, k):
        seen.append((type(d["a"]), float(d["a"]), tag, float(k)))

    jit(lambda x: debug.callback(callback, {"a": x}, "tag", k=x + 1))(F32)
    assert seen == [(np.ndarray, 0.0, "tag", 1.0)]


def test_debug_callback_shows_tangents_inside_a_rule():
    seen = []
    f = custom_jvp(lambda x: x)

    @f.defjvp
    def rule(primals, tangents):
        debug.callback(lambda t: seen.append(float(t)), tangents[0])
        return primals[0], tangents[0]

    mgefn.jvp(f, (F32,), (F32 + 5,))
    assert seen == [5]
    grad(f)(F32)  # a linear map has no tangent to show


def test_what_a_callback_keeps_stays() -> None:
    kept: list = []
    f = mgefn.jit(lambda x: (mgefn.debug.callback(kept.append, x * 2), cos(x * 2) * 2)[1])
    for i in range(3):
        f(np.full(4, float(i)))
    np.testing.assert_array_equal(kept, [[0] * 4, [2] * 4, [4] * 4])
    given: list = []
    a = np.ones(2)
    mgefn.jit(lambda x: (mgefn.debug.callback(given.append, x), x + 1)[1])(a)
    a[:] = 9
    np.testing.assert_array_equal(given[0], [1, 1])
