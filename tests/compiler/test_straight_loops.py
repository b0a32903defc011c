"""Loops over few numbers as one kernel: what they give, against NumPy's kernels, and which are one.

Bodies are drawn from the primitives that straight code has, for vectors of every width; what is
known to be delicate stands by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, tree
from mgefn.backends.llvm_kernels import straight
from mgefn.compiler.codegen.straight import Straight
from mgefn.config import config
from tests.checks import native_kernels

# float16 and bfloat16 are rounded after every operation on both sides; what may differ is the order
# of sums, by a rounding or two in values of about 1.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}
FLOATS = tuple(TOLERANCE)
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def is_straight(fun: Callable[..., Any], *args: Any) -> bool:
    return any(isinstance(k, Straight) for k in native_kernels(fun, *args))


def check(fun: Callable[..., Any], *args: Any, one: bool = True) -> Any:
    """The native program gives what NumPy's kernels give, each time the same bits.

    With `one` the loop must be a straight one.
    """
    assert is_straight(fun, *args) or not one
    natively = mgefn.jit(fun, backend="llvm")
    outs = tree.leaves(natively(*args))
    # The setting too: by it runs the body of a loop that is no native step.
    with config.override(jit_backend="numpy"):
        wants = tree.leaves(mgefn.jit(fun)(*args))
    again = tree.leaves(natively(*args))
    for got, want, second in zip(outs, wants, again, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        assert np.asarray(got).tobytes() == np.asarray(second).tobytes()
        name = want.dtype.name
        if name not in TOLERANCE:
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
            continue
        got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
        finite = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[name] * finite)
    return natively(*args)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(params=[16, 32, 64])
def register(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes of a vector register: LLVM makes code for any on every machine."""
    monkeypatch.setattr(straight, "vector_bytes", lambda: request.param)
    return request.param


# -- drawn bodies ---------------------------------------------------------------------------------


def _slid(x: Any, k: int) -> Any:
    return x[k % max(1, x.shape[0]) :: 1 + k % 2] if x.ndim else x


def _padded(x: Any, k: int) -> Any:
    return lax.pad(x, mnp.ones((), x.dtype), [(k % 3 - 1, k % 2, k % 2)] * x.ndim)


def _written(x: Any, k: int) -> Any:
    if not x.ndim:
        return x
    at = (x.ravel()[0] > 0).astype("int32") + k % 4
    return lax.dynamic_update_slice(x, x[:1] + x[:1], [at, *[0] * (x.ndim - 1)])


def _read(x: Any, k: int) -> Any:
    if not x.ndim:
        return x
    return x[(x.ravel()[-1] > 0).astype("int32") * (k % 3)]


def _few(x: Any) -> Any:
    """At most 12 elements of it."""
    return x if x.size <= 12 else x.ravel()[:12]


MOVES: dict[str, Callable[[Any, int], Any]] = {
    "transpose": lambda x, k: x.T,
    "flip": lambda x, k: mnp.flip(x),
    "slice": _slid,
    "pad": _padded,
    "reshape": lambda x, k: x.ravel() if k % 2 else x[None],
    "broadcast": lambda x, k: mnp.broadcast_to(_few(x), (1 + k % 3, *_few(x).shape)),
    "concatenate": lambda x, k: mnp.concatenate([mnp.atleast_1d(_few(x))] * 2),
    "dynamic_slice": _read,
    "dynamic_update_slice": _written,
    "roll": lambda x, k: mnp.roll(x, k),
    "copy": lambda x, k: mnp.copy(x),
}
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": mnp.sum, "max": mnp.max, "min": mnp.min,
}  # fmt: skip
FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "sin": mnp.sin,
    "tanh": mnp.tanh,
    "square": mnp.square,
    "exp": lambda x: mnp.exp(mnp.clip(x, -3, 1)),
    "abs": mnp.abs,
    "cube": lambda x: mnp.clip(x, -1, 1) ** 3,
    "relu": lambda x: mnp.where(x > 0.01171875, x, 0.5 * x),
    "narrow": lambda x: x.astype("float32").astype(x.dtype),
    "iota": lambda x: x + mnp.arange(x.size, dtype=x.dtype).reshape(x.shape) / 64,
    "cumsum": lambda x: mnp.cumsum(x, 0) / 8 if x.ndim else x,
}
FLOAT_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: mnp.clip(x, -2, 2) * mnp.clip(y, -2, 2),
    "max": mnp.maximum,
    "min": mnp.minimum,
    "div": lambda x, y: x / (1 + mnp.abs(y)),
}
WHOLE_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: ~x if x.dtype == bool else -x,
    "not": lambda x: ~x,
    "square": lambda x: x if x.dtype == bool else x * x,
    "shift": lambda x: x if x.dtype == bool else x >> mnp.ones((), x.dtype),
    "where": lambda x: mnp.where(x > mnp.ones((), x.dtype), x, ~x),
    "wide": lambda x: x.astype("int64").astype(x.dtype),
    "float": lambda x: (x.astype("float32") * 0.5).astype(x.dtype),
    "cumsum": lambda x: mnp.cumsum(x, 0).astype(x.dtype) if x.ndim else x,
}
WHOLE_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "xor": lambda x, y: x ^ y,
    "and": lambda x, y: x & y,
    "max": mnp.maximum,
    "div": lambda x, y: x if x.dtype == bool else lax.div(x, y),
    "rem": lambda x, y: x if x.dtype == bool else lax.rem(x, y),
}


def small(x: Any) -> Any:
    return x.ravel()[: straight.ELEMENTS] if x.size > straight.ELEMENTS else x


class Body:
    """A body drawn: for each step its kind, which values it takes, and a number."""

    def __init__(self, dtype: str, steps: list[tuple[str, int, int, int]]):
        self.dtype = dtype
        self.steps = steps

    def __repr__(self) -> str:
        return f"Body({self.dtype!r}, {self.steps!r})"

    def __call__(self, carry: Any, x: Any, const: Any) -> Any:
        values = [carry, x, const]
        for kind, i, j, k in self.steps:
            values.append(small(self._step(kind, values[i % len(values)], j, k, values)))
        last = values[-1]
        if self.dtype in FLOATS:
            y = mnp.tanh(last.sum() / 8) + mnp.tanh(carry) / 2
        else:
            y = (last.sum().astype(self.dtype) if self.dtype != "bool" else last.any()) ^ carry
        return y.astype(carry.dtype), (last, y)

    def _step(self, kind: str, x: Any, j: int, k: int, values: list[Any]) -> Any:
        if x.size == 0:
            return values[0]
        floats = self.dtype in FLOATS
        if kind == "unary":
            table = FLOAT_UNARY if floats else WHOLE_UNARY
            return list(table.values())[k % len(table)](x)
        if kind == "move":
            return list(MOVES.values())[k % len(MOVES)](x, j)
        if kind == "reduce":
            axes = tuple(a for a in range(x.ndim) if (k >> a) & 1)
            if self.dtype == "bool":
                return mnp.any(x, axis=axes) if j % 2 else mnp.all(x, axis=axes)
            of = list(REDUCTIONS.values())[j % len(REDUCTIONS)]
            out = of(x, axis=axes).astype(self.dtype)
            return out / 4 if floats else out
        y = values[j % len(values)]
        if kind == "dot" and x.ndim and self.dtype != "bool":
            a = x.reshape(x.shape[0], -1)
            return (mnp.clip(a, -1, 1) if floats else a) @ a.T // (8 if not floats else 1)
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            y = y.ravel()[0] if y.size else values[0].ravel()[0]
        table = FLOAT_BINARY if floats else WHOLE_BINARY
        return list(table.values())[k % len(table)](x, y)


steps = st.lists(
    st.tuples(
        st.sampled_from(["unary", "binary", "move", "reduce", "dot"]),
        st.integers(0, 9), st.integers(0, 9), st.integers(0, 40),
    ),
    min_size=1, max_size=9,
)  # fmt: skip
shapes = st.sampled_from(
    [(), (1,), (2,), (3,), (7,), (9,), (16,), (21,), (3, 3), (2, 5), (2, 1, 4)]
)


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype in FLOATS:
        return mnp.asarray(rng.uniform(-1, 1, shape)).astype(dtype)
    return mnp.asarray(rng.integers(0, 2 if dtype == "bool" else 100, shape)).astype(dtype)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40
)
@given(
    dtype=st.sampled_from([*FLOATS, *WHOLE]), body=steps, shape=shapes, length=st.integers(1, 4),
    reverse=st.booleans(), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_drawn_bodies(register, dtype, body, shape, length, reverse, seed):
    rng = np.random.default_rng(seed)
    run = Body(dtype, body)
    carry, const = drawn(rng, dtype, shape), drawn(rng, dtype, shape)
    xs = drawn(rng, dtype, (length, *shape))

    def looped(carry, xs, const):
        return lax.scan(lambda c, x: run(c, x, const), carry, xs, reverse=reverse)

    def counted(carry, xs, const):
        return lax.while_loop(
            lambda s: s[0] < length,
            lambda s: (s[0] + 1, run(s[1], xs[0], const)[0]),
            (mnp.int32(0), carry),
        )

    check(looped, carry, xs, const, one=False)
    check(counted, carry, xs, const, one=False)


def test_most_drawn_bodies_are_straight():
    """What the drawn ones consist of is known to the straight way, operation by operation."""
    for name, move in MOVES.items():
        x = mnp.asarray(np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3))
        assert is_straight(
            lambda x, f=move: lax.scan(lambda c, _: (c + f(c, 1).sum(), None), x, None, length=3), x
        ), name
    for table, dtype in ((FLOAT_UNARY, "float32"), (WHOLE_UNARY, "int32")):
        for name, of in table.items():
            x = mnp.asarray(np.arange(6).reshape(2, 3)).astype(dtype)
            assert is_straight(
                lambda x, f=of: lax.scan(lambda c, _: (f(c) + c, None), x, None, length=3), x
            ), name
    for table, dtype in ((FLOAT_BINARY, "bfloat16"), (WHOLE_BINARY, "uint8")):
        for name, of in table.items():
            x = mnp.asarray(np.arange(6).reshape(2, 3)).astype(dtype)
            assert is_straight(
                lambda x, f=of: lax.scan(lambda c, _: (f(c, c + c), None), x, None, length=3), x
            ), name


# -- by name --------------------------------------------------------------------------------------


def products(start: Any, turn: Any, added: Any) -> Any:
    return lax.scan(lambda m, a: (turn @ m + a, m[0]), start, added)


def matrices(rng: np.random.Generator, steps: int, n: int = 3) -> tuple[Any, ...]:
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return rng.standard_normal((n, n)), turn, rng.standard_normal((steps, n, n))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_matrices(register, rng, n):
    check(products, *matrices(rng, 30, n))


def test_gradients_of_matrices(register, rng):
    check(
        mgefn.grad(lambda *given: mnp.sum(products(*given)[0] ** 2), argnums=(0, 1, 2)),
        *matrices(rng, 12),
    )


def test_sixty_scalars(register, rng):
    def fun(start, shares):
        def step(state, share):
            following = (*state[1:], state[0])
            return tuple(a + share * (b - a) for a, b in zip(state, following, strict=True)), None

        return lax.scan(step, start, shares)[0]

    start = tuple(rng.standard_normal(60).astype(np.float32))
    shares = rng.uniform(0.1, 0.9, 20).astype(np.float32)
    check(fun, start, shares)
    check(mgefn.grad(lambda *given: sum(x * x for x in fun(*given)), argnums=(0, 1)), start, shares)


def lotka_volterra(y: Any, rates: Any, steps: int = 50) -> Any:
    def slope(y):
        prey, predators = y
        met = prey * predators
        return mnp.stack([rates[0] * prey - rates[1] * met, rates[3] * met - rates[2] * predators])

    def step(y, _):
        h = 0.02
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return lax.scan(step, y, None, length=steps)


@pytest.mark.parametrize("n", [(), (1,), (10,), (13,)])
def test_runge_kutta(register, rng, n):
    start = rng.uniform(0.5, 1.5, (2, *n)).astype(np.float32)
    rates = np.array([1.1, 0.4, 0.4, 0.1], np.float32)
    check(lotka_volterra, start, rates)
    loss = lambda *given: mnp.mean(lotka_volterra(*given)[0] ** 2)
    check(mgefn.grad(loss, argnums=(0, 1)), start, rates)
    if n:
        over = mgefn.vmap(lotka_volterra, in_axes=(1, None))
        check(over, start[:, :6], rates)


def newton(a: Any) -> Any:
    """The root of exp(x) = a, and how many rounds it took."""

    def step(state):
        x, _, i = state
        return x - (mnp.exp(x) - a) / mnp.exp(x), x, i + 1

    far = lambda s: (mnp.abs(s[0] - s[1]) > 1e-7) & (s[2] < 100)
    return lax.while_loop(far, step, (a, a + 1, mnp.int32(0)))[::2]


def test_newton(rng):
    x, _ = check(newton, np.array(3.0))
    np.testing.assert_allclose(np.asarray(x), np.log(3.0), rtol=1e-12)


def test_a_batch_of_loops_ends_one_by_one(register, rng):
    check(mgefn.vmap(newton), rng.uniform(0.5, 9.0, 7))


def test_forward_derivative_of_while():
    _, tangent = check(lambda a: mgefn.jvp(newton, (a,), (mnp.ones_like(a),)), np.array(2.0))
    np.testing.assert_allclose(np.asarray(tangent[0]), 0.5, rtol=1e-9)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_around_the_pieces(monkeypatch, length, reverse):
    from mgefn.backends.llvm_kernels import control

    monkeypatch.setattr(control, "PIECE", 1)  # 16 rounds a call
    xs = np.arange(2.0 * length).reshape(length, 2)

    def fun(c, xs):
        return lax.scan(lambda c, x: (c * 0.5 + x, (c, x[0] > c[1])), c, xs, reverse=reverse)

    check(fun, np.array([1.0, 2.0]), xs, one=length > 0)
    rounds = lambda c: lax.fori_loop(0, length, lambda i, c: c * 0.5 + i, c)
    check(rounds, np.array(3.0), one=length > 0)
    many = lambda c, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + 1), c)
    (i, _) = check(many, (np.int32(0), np.array(3.0)), np.int32(length))
    assert int(i) == length


def test_more_rounds_than_one_call_has(rng):
    xs = rng.standard_normal(30_011)
    _, sums = check(lambda xs: lax.scan(lambda c, x: (c + x, c + x), 0.0, xs), xs)
    np.testing.assert_allclose(np.asarray(sums), np.cumsum(xs), atol=1e-9)
    back = lambda xs: lax.scan(lambda c, x: (c + x, c + x), 0.0, xs, reverse=True)
    check(back, xs)
    count = lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, mnp.int64(0))
    assert int(check(count, np.int64(1_000_003))) == 1_000_003


def test_a_loop_within_a_loop(rng):
    def inner(c, x):
        return lax.scan(lambda c, y: (mnp.tanh(c + y), c), c, x)

    xs = rng.standard_normal((7, 40))
    check(lambda xs: lax.scan(inner, 0.5, xs), xs)  # the outer one has a kernel for the inner
    few = rng.standard_normal((7, 5))
    check(lambda xs: lax.scan(inner, 0.5, xs), few)  # written out
    kernels = native_kernels(lambda xs: lax.scan(inner, 0.5, xs), few)
    assert [type(k) for k in kernels] == [Straight]

    def halved(c, x):
        n, c = lax.while_loop(lambda s: s[1] > x, lambda s: (s[0] + 1, s[1] / 2), (0, c + 1))
        return c, n

    check(lambda xs: lax.scan(halved, 4.0, xs), rng.uniform(0.1, 1.0, 9))


def test_branches(rng):
    def step(c, x):
        y = lax.cond(x > 0, lambda c: mnp.sin(c) + x, lambda c: c * x, c)
        z = lax.switch((x * 3).astype("int32"), [lambda: mnp.ones_like(x), lambda: y[0], lambda: x])
        return y + z, z

    check(lambda c, xs: lax.scan(step, c, xs), rng.standard_normal(3), rng.uniform(-3, 3, 40))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_integers_wrap(dtype):
    start = np.array([3, 5, 250 if dtype[0] == "u" else -128], dtype)
    body = lambda c, _: (lax.div(c * c + c, c[::-1] - c[0]) - lax.rem(c, c[1] - c), c)
    check(lambda c: lax.scan(body, c, None, length=60), start)


def test_bools_in_the_carry():
    def step(state):
        i, odd, seen = state
        return i + 1, ~odd, seen | (mnp.arange(4) == i) & odd

    start = (mnp.int32(0), mnp.array(False), mnp.zeros(4, bool))
    check(lambda s: lax.while_loop(lambda s: s[0] < 3, step, s), start)
    check(lambda s: lax.while_loop(lambda s: ~s[1], step, s), start)


def test_what_is_not_finite(register):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -3.0, 5.0, 2.0])
    body = lambda c, _: (mnp.maximum(c * c, -c) - c.max(), (c > 0, mnp.sort(c) if False else -c))
    check(lambda x: lax.scan(body, x, None, length=5), x)
    never = lambda x: lax.while_loop(lambda s: s < 1.0, lambda s: s + 1, x)
    assert np.isnan(np.asarray(check(never, np.array(np.nan))))
    zero = np.asarray(check(lambda x: lax.scan(lambda c, _: (-c, c), x, None, length=3)[0], 0.0))
    assert np.signbit(zero)


def test_keys_are_counted_as_elsewhere():
    def step(c, i):
        bits = mgefn.random.uniform(mgefn.random.fold_in(mgefn.random.key(3), i), (3,))
        return c + bits, bits

    check(lambda c: lax.scan(step, c, mnp.arange(20)), mnp.zeros(3), one=False)


def test_a_carry_that_is_also_read_otherwise():
    """The first carry stands in the memory of a constant and of xs, and is donated."""

    def fun(x):
        return lax.scan(lambda c, y: (c * 0.5 + y + x, c), x, mnp.stack([x, x + 1]))

    check(fun, np.arange(3.0))
    natively = mgefn.jit(fun, backend="llvm", donate_argnums=0)
    want = [np.asarray(y) for y in tree.leaves(fun(mnp.arange(3.0)))]
    for got, y in zip(tree.leaves(natively(mnp.arange(3.0) + 0)), want, strict=True):
        np.testing.assert_allclose(np.asarray(got), y, rtol=1e-6)


def test_outputs_that_are_one_value_inputs_or_constants(rng):
    def step(state, x):
        a, b, c = state
        return (b, a, c), (x, x, a, mnp.float32(2.5), mnp.ones(2))

    start = (mnp.float32(1.0), mnp.float32(2.0), mnp.arange(3))
    check(lambda s, xs: lax.scan(step, s, xs), start, rng.standard_normal((5, 2)))


def test_arrays_that_the_body_closes_over(rng):
    table, scale = mnp.asarray([1.5, 2.5, 4.0]), mnp.float32(0.25)
    places = mnp.array([2, 0, 1])
    body = lambda c, i: (table[::-1] * c[0] + scale, c * places)
    check(lambda c: lax.scan(body, c, mnp.arange(6)), mnp.ones(3))


@pytest.mark.parametrize("index", ["int32", "int8", "uint8", "int64"])
def test_slices_of_large_arrays(register, rng, index):
    """They stay in memory; starts are clamped in dtypes that cannot count all of their places."""
    table, cube = rng.standard_normal((300, 9)), rng.standard_normal((5, 6, 70))
    flags = mnp.asarray(rng.uniform(size=(200,)) > 0.5)

    def fun(c, starts, table):
        def step(c, i):
            row = table[i]
            part = lax.dynamic_slice(cube, [i, mnp.int32(2), i], (2, 3, 4)).sum()
            few = lax.dynamic_slice(mnp.flip(table.T[3, ::2]), [i], (3,))
            return c * 0.5 + row[:3] + part + few, (c, row, flags[i], table[i, 4])

        return lax.scan(step, c, starts)

    starts = np.array([0, 1, -1, 127, 100, 5, -128 if index[0] == "i" else 255], "int64")
    check(fun, np.zeros(3), starts.astype(index), table)


def test_all_of_an_array_that_is_also_read_by_places(register, rng):
    """A constant in memory, because of the places, that is read as a whole before the loop."""
    table = mnp.asarray(rng.standard_normal((3, 7)))
    body = lambda c, i: (c * 0.5 + table[:, 1] + table.ravel()[i], c)
    check(lambda c: lax.scan(body, c, mnp.arange(12)), np.zeros(3))
    turned = lambda c, i, t: (c * 0.5 + t.T[::2] + t[0, i], t.sum())
    check(lambda t: lax.scan(lambda c, i: turned(c, i, t), t.T[::2], mnp.arange(7)), table)


def test_sums_over_a_large_array(rng):
    x = rng.standard_normal(3000)
    total = check(lambda x: lax.fori_loop(0, 3000, lambda i, s: s + x[i] * x[-1 - i], 0.0), x)
    np.testing.assert_allclose(np.asarray(total), x @ x[::-1], rtol=1e-4)
    fun = lambda x: lax.while_loop(lambda i: x[i] < 1.5, lambda i: i + 1, mnp.int32(0))
    assert int(check(fun, x)) == int(np.argmax(x >= 1.5))
    whole = lambda x: lax.fori_loop(0, 3, lambda i, s: s + x.sum(), 0.0)  # reads all of it
    assert not is_straight(whole, x)
    check(whole, x, one=False)


def sieve(flags: Any) -> Any:
    n = flags.shape[0]

    def strike(i, flags):
        inner = lambda s: (s[0] + i, s[1].at[s[0]].set(False))
        return lax.while_loop(lambda s: s[0] < n, inner, (i * i, flags))[1]

    return lax.fori_loop(2, n, strike, flags)


@pytest.mark.parametrize("n", [10, 33, 300])
def test_arrays_that_a_loop_fills(register, rng, n):
    """Where they are large, or the place is one of many, they stay in memory."""
    x = rng.standard_normal(n)
    # Fibonacci's recurrence, damped.
    fill = lambda b: lax.fori_loop(
        2, n, lambda i, b: b.at[i].set(0.6 * b[i - 1] - 0.3 * b[i - 2]), b
    )
    check(fill, x)
    updated = lambda b: lax.fori_loop(
        0,
        n,
        lambda i, b: lax.dynamic_update_slice(b, 0.5 * lax.dynamic_slice(b, [i], [3]), [n - i]),
        b,
    )
    check(updated, x)
    places = rng.integers(-3, n + 3, 50).astype(np.int32)
    for mode in ("drop", "clip", "promise_in_bounds"):
        at = places.clip(0, n - 1) if mode[0] == "p" else places
        for name in ("set", "add", "multiply", "min", "max"):

            def counted(b, at, name=name, mode=mode):
                step = lambda b, i: (getattr(b.at[i], name)(mnp.float64(1.5), mode=mode), b[i])
                return lax.scan(step, b, at)

            check(counted, x, at)
    for dtype in ("int8", "bool", "bfloat16", "uint64"):
        some = lambda b, at: lax.scan(lambda b, i: (b.at[i].add(b[0]), None), b, at)[0]
        check(some, (x > 0).astype(dtype) if dtype != "bfloat16" else mnp.asarray(x > 0), places)
    primes = check(sieve, np.arange(n) > 1)
    assert np.flatnonzero(np.asarray(primes)).tolist() == [
        k for k in range(2, n) if all(k % d for d in range(2, k))
    ]


def test_rows_columns_and_blocks_that_a_loop_writes(register, rng):
    grid, row = rng.standard_normal((20, 7)), rng.standard_normal(7)

    def step(i, g):
        g = g.at[i].set(g[i - 1] * 0.5 + row)
        g = g.at[i, 3].add(g[0, i % 7])
        g = lax.dynamic_update_slice(g, g[:2, :2] * 0.25, (i, mnp.int32(9)))
        return g.at[:, 2].set(g[:, 4] - 0.5).at[mnp.array([4]), mnp.array([5])].multiply(0.5)

    check(lambda g: lax.fori_loop(1, 20, step, g), grid)
    # Both in one loop, and the condition reads one of them.
    both = lambda g: lax.while_loop(
        lambda s: (s[0] < 19) & (s[2][s[0]] < 50),
        lambda s: (s[0] + 1, s[1].at[s[0]].add(s[2][s[0]]), s[2].at[s[0] + 1].set(s[0] * 1.0)),
        (mnp.int32(0), g, mnp.zeros(90)),
    )
    check(both, grid)


def test_what_an_array_was_before_it_was_written(rng):
    """Code that changes it in place cannot give it; the old way does."""
    x = rng.standard_normal(100)

    def late(b, i):
        new = b.at[i].set(2.0)
        return new, b[i] + new[0]

    check(lambda x: lax.scan(late, x, mnp.arange(9) % 3), x, one=False)
    kept = lambda b, i: ((b[1].at[i].set(2.0), b[0].at[i].add(1.0)), b[0][i])
    check(lambda x: lax.scan(kept, (x, x + 1), mnp.arange(9) % 3), x, one=False)
    unchanged = lambda c, i: ((c[0] + c[1][i], c[1]), c[1][-i])
    check(lambda x: lax.scan(unchanged, (0.0, x), mnp.arange(9)), x)
    part = lambda b, i: (b.at[:50].set(b[:50].at[i].set(1.0)), b[:50].at[i].set(1.0)[3])
    check(lambda x: lax.scan(part, x, mnp.arange(9)), x, one=False)
    given = mnp.asarray(x)
    closed = lambda b, i: (b.at[i].set(given[i] + b[i + 1]), given[-1])
    check(lambda: lax.scan(closed, given, mnp.arange(9)))
    for donate in ((), (0,)):
        f = mgefn.jit(lambda x: lax.scan(closed, x, mnp.arange(9))[0], donate_argnums=donate)
        want = mgefn.jit(lambda x: lax.scan(closed, x, mnp.arange(9))[0], backend="numpy")(given)
        np.testing.assert_array_equal(np.asarray(f(given + 0)), np.asarray(want))


def test_gradients_of_loops_over_arrays(rng):
    x = rng.standard_normal(40)

    def smooth(x):
        step = lambda i, b: b.at[i].set(0.5 * b[i] + 0.25 * (b[i - 1] + x[(i + 1) % 40]))
        return (lax.fori_loop(1, 40, step, x) ** 2).sum()

    check(mgefn.grad(smooth), x, one=False)
    check(lambda x: mgefn.jvp(smooth, (x,), (x[::-1],)), x, one=False)
    check(mgefn.vmap(smooth), np.stack([x, x * 2]), one=False)


# -- which loops are straight, and what they show --------------------------------------------------


def test_limits(monkeypatch):
    n = straight.ELEMENTS
    looped = lambda x: lax.scan(lambda c, _: (c * 0.5 + 1, None), x, None, length=4)[0]
    assert is_straight(looped, np.ones(n))
    assert not is_straight(looped, np.ones(n + 1))
    check(looped, np.ones(n + 1), one=False)
    carried = lambda *xs: lax.scan(
        lambda c, _: (tuple(x * 0.5 for x in c), None), xs, None, length=4
    )
    many = [np.ones(n)] * (straight.CARRIED // n)
    assert is_straight(carried, *many)
    assert not is_straight(carried, *many, np.array(1.0))
    ordered = lambda x: lax.scan(lambda c, _: (mnp.sort(c), None), x, None, length=4)[0]
    assert not is_straight(ordered, np.ones(3))
    monkeypatch.setattr(straight, "INSTRUCTIONS", 5)
    assert not is_straight(lambda x: looped(x) + 1, np.ones(n))


def test_complex_numbers_and_objects_of_keys_go_the_old_way():
    turned = lambda z: lax.scan(lambda z, _: (z * 1j, z), z, None, length=3)
    check(turned, np.complex64(1 + 2j), one=False)
    assert not is_straight(turned, np.complex64(1 + 2j))


def test_the_check_sees_wrong_code(monkeypatch):
    from mgefn.backends.llvm_kernels import elementwise

    monkeypatch.setattr(elementwise.subtract, "emit", elementwise.add.emit)
    fun = lambda x: lax.scan(lambda c, _: (c * 1.0625 - x, None), x, None, length=3)[0]
    with pytest.raises(AssertionError):
        check(fun, np.array(1.0))


def test_a_report_counts_one_kernel_and_shows_it():
    def fun(xs):
        return lax.scan(lambda c, x: (mnp.cos(c) + x, c), 0.0, xs)

    compiled = mgefn.jit(fun, backend="llvm").lower(np.ones(100_000)).compile()
    (step,) = [s for s in compiled.report().steps if s.kind == "native"]
    assert step.kernels == 1 and "scan" in step.operations and __file__[-20:] in step.source
    text = compiled.as_text("llvm")
    assert text.count("define") == 1 + text.count("define internal") and "phi" in text


def test_constants_come_with_the_call():
    """Another number in the body is no other code; the length is none either."""

    def fun(factor, length):
        return lambda x: lax.scan(lambda c, _: (c * factor, c), x, None, length=length)

    kernels = {
        native_kernels(fun(f, n), np.float32(1.0))[0] for f, n in ((0.3, 5), (0.7, 5), (0.7, 9))
    }
    assert len(kernels) == 1


def test_any_number_of_threads_gives_the_same_bits(rng):
    args = matrices(rng, 40)
    outs = []
    for n in (1, 2):
        with config.override(num_threads=n):
            outs.append(np.asarray(mgefn.jit(products, backend="llvm")(*args)[0]).tobytes())
    assert outs[0] == outs[1]


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to itself")
@pytest.mark.parametrize("loop", ["scan", "while"])
def test_an_interrupt_ends_a_straight_loop(loop):
    program = f"""
import os, signal, threading, time
import mgefn, mgefn.numpy as mnp
from mgefn import lax
step = lambda x: mnp.cos(x) + 1e-9
run = dict(
    scan=lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=1 << 40)[0],
    **{{"while": lambda x: lax.while_loop(lambda x: x > -1, step, x)}},
)[{loop!r}]
x = mnp.ones(())
run = mgefn.jit(run, backend="llvm").lower(x).compile()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    run(x)
except KeyboardInterrupt:
    assert time.monotonic() - begin < 30
else:
    raise AssertionError("the loop has no end")
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
