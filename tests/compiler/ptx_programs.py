"""Programs whose kernels for a GPU are looked at, and how they run without one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import mgefn
from mgefn import lax, nn, random
from mgefn import numpy as mnp
from mgefn.compiler import gpu_emulator
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.gpu_lowering import device_p, with_device_steps
from mgefn.compiler.passes import optimized
from mgefn.core.backends import kernel_of
from mgefn.core.jaxpr import ClosedJaxpr, Literal
from mgefn.scipy import special


def drawn(*shape: int, dtype: Any = "float32", seed: int = 0) -> mgefn.Array:
    """Numbers of both signs, none of them zero; integers and bools in their range."""
    rng = np.random.default_rng([seed, *shape])
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    if kind == "b":
        return mnp.array(rng.random(shape) < 0.6)
    if kind in "iu":
        return mnp.array(rng.integers(1 if kind == "u" else -7, 9, shape)).astype(dtype)
    x = rng.standard_normal(shape)
    return mnp.array(x + np.copysign(0.1, x)).astype(dtype)


def labels(rows: int, classes: int, seed: int = 1) -> mgefn.Array:
    return mnp.array(np.random.default_rng(seed).integers(0, classes, rows))


# -- the programs ---------------------------------------------------------------------------------


def black_scholes(spot, strike, time, rate, vol):
    root = vol * mnp.sqrt(time)
    d1 = (mnp.log(spot / strike) + (rate + vol * vol / 2) * time) / root
    call = spot * special.ndtr(d1) - strike * mnp.exp(-rate * time) * special.ndtr(d1 - root)
    return call, call - spot + strike * mnp.exp(-rate * time)


def layer_norm(x, gain, bias):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred / mnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def cross_entropy(logits, targets):
    picked = mnp.take_along_axis(nn.log_softmax(logits), targets[:, None], 1)
    return -picked.mean()


def adam(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (mnp.sqrt(v) + 1e-8), m, v


def newton(x):
    """Roots of each row's polynomial of degree 3 by Newton's method, as long as they move."""

    def step(state):
        i, t, _ = state
        value = ((x[0] * t + x[1]) * t + x[2]) * t + x[3]
        slope = (3 * x[0] * t + 2 * x[1]) * t + x[2]
        new = t - value / (mnp.abs(slope) + 1)
        return i + 1, new, mnp.abs(new - t)

    return lax.while_loop(lambda s: (s[2] > 1e-6) & (s[0] < 40), step, (0, x[0] * 0, x[0] * 0 + 1))


def root(a):
    """The cube root of a number by Newton's method, as long as it moves."""

    def step(state):
        i, t, _ = state
        new = t - (t * t * t - a) / (3 * t * t)
        return i + 1, new, mnp.abs(new - t)

    return lax.while_loop(lambda s: (s[2] > 1e-5 * s[1]) & (s[0] < 60), step, (0, a, a * 0 + 1))


def mandelbrot(x, y):
    """How many rounds each point of a grid stays near 0."""

    def one(x, y):
        def step(state):
            a, b, i = state
            return a * a - b * b + x, 2 * a * b + y, i + 1

        near = lambda s: (s[0] * s[0] + s[1] * s[1] < 4) & (s[2] < 30)
        return lax.while_loop(near, step, (x * 0, y * 0, 0))[2]

    return mgefn.vmap(mgefn.vmap(one, (None, 0)), (0, None))(x, y)


def oscillator(position, speed):
    """Steps of a driven pendulum for each element."""

    def step(state, time):
        p, s = state
        s = s - 0.05 * (mnp.sin(p) + 0.2 * s - mnp.cos(time))
        p = p + 0.05 * s
        return (p, s), (p.astype("float32"), time * 2)

    return lax.scan(step, (position, speed), mnp.linspace(0.0, 2.0, 12, dtype=position.dtype))


def recurrent(w, h, xs):
    def step(h, x):
        h = mnp.tanh(w @ h + x)
        return h, h.sum()

    return lax.scan(step, h, xs, reverse=True)


def sieve(flags):
    """A large carry, of which a window is written each round."""
    return lax.fori_loop(1, flags.shape[0], lambda i, c: c.at[i].set(c[i - 1] * 0.5 + c[i]), flags)


def convolved(x, w, **options):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=options.pop("order", None), **options
    )


def convolution_gradients(x, w):
    def loss(x, w):
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME")
        return (mnp.maximum(y, 0) ** 2).sum()

    return mgefn.grad(loss, (0, 1))(x, w)


def around(x, *edges):
    """Threes before and after each axis."""
    return lax.pad(x, x.dtype.type(3), [(low, high, 0) for low, high in edges])


def positive(*shape: int) -> mgefn.Array:
    return mnp.abs(drawn(*shape)) + 0.5


# name -> (function, arguments). Small sizes: the launches of larger ones have the same text, but
# for what is said in a name.
PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "gelu": (nn.gelu, [drawn(1001)]),
    "gelu exact": (partial(nn.gelu, approximate=False), [drawn(40, 36)]),
    "gelu float16": (nn.gelu, [drawn(40, 36, dtype="float16")]),
    "gelu bfloat16": (nn.gelu, [drawn(40, 36, dtype="bfloat16")]),
    "gelu float64": (nn.gelu, [drawn(40, 36, dtype="float64")]),
    "black scholes": (black_scholes, [positive(500) * k for k in (100, 90, 1, 0.05, 0.3)]),
    "adam": (adam, [drawn(64, 32), drawn(64, 32, seed=1), drawn(64, 32, seed=2), positive(64, 32)]),
    "sin": (lambda x: mnp.sin(x) + mnp.cos(x), [drawn(300) * 1e6]),
    "tan float64": (mnp.tan, [drawn(300, dtype="float64") * 1e9]),
    "pow": (lambda x, y: mnp.power(x, y), [positive(300), drawn(300)]),
    "remainder": (lambda x, y: mnp.fmod(x, y), [drawn(300) * 1e8, drawn(300, seed=1)]),
    "inverse error function": (special.erfinv, [mnp.linspace(-0.99, 0.99, 200)]),
    "gammaln": (special.gammaln, [drawn(200) * 9]),
    "digamma float64": (special.digamma, [drawn(200, dtype="float64") * 9]),
    "integers": (lambda x, y: (x // y) * 3 + (x % y) ^ (x << 2), 
                 [labels(300, 99), labels(300, 9) + 1]),
    "softmax": (nn.softmax, [drawn(24, 96)]),
    "softmax of long rows": (nn.softmax, [drawn(3, 2000)]),
    "softmax float16": (nn.softmax, [drawn(24, 96, dtype="float16")]),
    "log softmax": (nn.log_softmax, [drawn(24, 97)]),
    "logsumexp": (partial(special.logsumexp, axis=-1), [drawn(24, 96)]),
    "logsumexp of all": (special.logsumexp, [drawn(24, 96)]),
    "layer norm": (layer_norm, [drawn(24, 96), drawn(96), drawn(96)]),
    "layer norm of long rows": (layer_norm, [drawn(3, 1030), drawn(1030), drawn(1030)]),
    "layer norm gradient": (
        mgefn.grad(lambda *a: (layer_norm(*a) ** 2).sum(), argnums=(0, 1, 2)),
        [drawn(150, 64), drawn(64), drawn(64)],
    ),
    "cross entropy": (cross_entropy, [drawn(40, 10), labels(40, 10)]),
    "cross entropy gradient": (mgefn.grad(cross_entropy), [drawn(40, 10), labels(40, 10)]),
    "column sum": (lambda x: x.sum(0), [drawn(300, 70)]),
    "column sum of narrow rows": (lambda x: x.sum(0), [drawn(5000, 3)]),
    "column sum of wide rows": (lambda x: x.sum(0), [drawn(130, 260)]),
    "column sum float64": (lambda x: x.sum(0), [drawn(300, 70, dtype="float64")]),
    "middle sum": (lambda x: x.sum(1), [drawn(5, 70, 33)]),
    "sum of all": (mnp.sum, [drawn(70_001)]),
    "sum of a matrix": (mnp.sum, [drawn(300, 400)]),
    "variance of rows": (lambda x: x.var(1), [drawn(30, 200)]),
    "variance of columns": (lambda x: x.var(0), [drawn(300, 50)]),
    "variance of all": (mnp.var, [drawn(300, 300)]),
    "largest": (lambda x: (x.max(1), x.min(1)), [drawn(30, 200)]),
    "any": (lambda x: (x > 2.5).any(1), [drawn(30, 200)]),
    "transpose and add": (lambda x, y: x.T + y, [drawn(64, 70), drawn(70, 64)]),
    "transpose of three": (lambda x, y: x.transpose(0, 2, 1) * y,
                           [drawn(3, 40, 50), drawn(3, 50, 40)]),
    "outer product": (lambda x, y: x[:, None] * y, [drawn(100), drawn(70)]),
    "padded, by vectors": (lambda x: around(x[:, :38], (1, 2), (4, 2)) * 2, [drawn(9, 40)]),
    "padded, by rows": (
        lambda x: nn.softmax(around(x[:, :38], (1, 2), (4, 6))), [drawn(9, 40)],
    ),
    "padded, by columns": (lambda x: around(x, (1, 2), (0, 0)).sum(0), [drawn(130, 260)]),
    "padded, by tiles": (
        lambda x, y: around(x, (1, 2), (3, -4)).T + y, [drawn(40, 50), drawn(49, 43)],
    ),
    "gradient of slices": (
        mgefn.grad(lambda x: sum((i + 1) * x[i : 96 + i] ** 2 for i in range(5)).sum()),
        [drawn(100)],
    ),
    "gather": (lambda x, i: x[i], [drawn(30, 7), labels(200, 30)]),
    "scatter add": (lambda x, i, u: x.at[i].add(u), [drawn(30, 7), labels(200, 30), drawn(200, 7)]),
    "scatter add float64": (
        lambda x, i, u: x.at[i].add(u),
        [drawn(30, dtype="float64"), labels(200, 30), drawn(200, dtype="float64")],
    ),
    "scatter add float16": (
        lambda x, i, u: x.at[i].add(u),
        [drawn(30, dtype="float16"), labels(200, 30), drawn(200, dtype="float16")],
    ),
    "loop until it converges": (newton, [drawn(4)]),
    "loop until each converges": (mgefn.vmap(root), [positive(300) * 1e3]),
    "loop until each converges, float64": (
        mgefn.vmap(root), [mnp.abs(drawn(300, dtype="float64")) * 1e6],
    ),
    "loop on a grid": (mandelbrot, [mnp.linspace(-2.0, 0.5, 20), mnp.linspace(-1.0, 1.0, 17)]),
    "loop of elements": (oscillator, [drawn(20, 30), drawn(20, 30, seed=1)]),
    "loop of elements float64": (
        oscillator, [drawn(300, dtype="float64"), drawn(300, dtype="float64", seed=1)],
    ),
    "recurrent network": (recurrent, [drawn(6, 6), drawn(6), drawn(9, 6)]),
    "loop over a large carry": (sieve, [drawn(300)]),
    "loop of as many numbers as may be": (
        lambda x: lax.fori_loop(0, 5, lambda i, c: (c * 0.5 + c[::-1])[::-1] / 3 + i, x),
        [drawn(63)],
    ),
    "convolution": (convolved, [drawn(2, 3, 9, 9), drawn(20, 3, 3, 3)]),
    "convolution of features last": (
        partial(convolved, order=("NHWC", "HWIO", "NHWC")), [drawn(2, 6, 7, 4), drawn(3, 3, 4, 9)],
    ),
    "convolution float64": (
        convolved, [drawn(2, 3, 9, 9, dtype="float64"), drawn(20, 3, 3, 3, dtype="float64")],
    ),
    "convolution bfloat16": (
        convolved, [drawn(2, 3, 9, 9, dtype="bfloat16"), drawn(20, 3, 3, 3, dtype="bfloat16")],
    ),
    "convolution of groups": (
        partial(convolved, feature_group_count=6), [drawn(2, 6, 9, 9), drawn(6, 1, 3, 3)],
    ),
    "convolution of many terms": (convolved, [drawn(1, 70, 3, 3), drawn(5, 70, 3, 3)]),
    "convolution gradients": (convolution_gradients, [drawn(2, 3, 9, 9), drawn(20, 3, 3, 3)]),
    "bits": (lambda key: random.bits(key, (500,)), [random.key(3)]),
    "uniform": (lambda key: random.uniform(key, (500,)), [random.key(3)]),
    "normal": (lambda key: random.normal(key, (30, 40)), [random.key(3)]),
    "dropout": (
        lambda x, key: mnp.where(random.bernoulli(key, 0.8, x.shape), x / 0.8, 0.0),
        [drawn(30, 40), random.key(3)],
    ),
}  # fmt: skip


# -- ways in which equations become one kernel ---------------------------------------------------

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")


def swapped(x: mgefn.Array) -> mgefn.Array:
    return mnp.swapaxes(x, -1, -2)


def scattered(x: mgefn.Array) -> mgefn.Array:
    rows = np.random.default_rng(5).integers(-1, x.shape[0] + 2, 2 * x.shape[0] + 3)
    rows = mnp.array(rows)
    return x.at[rows].add(x.at[rows].get(mode="clip"), mode="drop")


def padded(x: mgefn.Array) -> tuple[mgefn.Array, ...]:
    zero, rest = x.dtype.type(0), ((0, 0, 0),) * (x.ndim - 1)
    configs = [(2, 3, 0), (1, 0, 2), (-1, 2, 0)]
    if x.shape[0] > 1:
        configs += [(1, -2, 1), (-1, -1, 0)]
    return tuple([lax.pad(x[::-1], zero, (c, *rest)) for c in configs])


# name -> (least rank, dtypes, function): each way in which equations become one kernel. Where a
# sum of terms of both signs is the result, it is compared with their size.
PATTERNS: dict[str, tuple[int, Sequence[str], Callable[[Any], Any]]] = {
    "elementwise": (0, FLOATS, lambda x: x * mnp.tanh(x) + mnp.exp(-x * x)),
    "integers": (0, INTEGERS, lambda x: (x * 3 + (x >> 1)) ^ x),
    "several outputs": (0, NUMBERS, lambda x: (x + 1, (x + 1) * x, x > 1)),
    "bools": (0, ("bool",), lambda x: (x & ~x, x | True, mnp.where(x, 3, 4))),
    "conversion": (0, ALL, lambda x: (x.astype("float32") * 0.5, x.astype("int16"), x != 0)),
    "positions": (1, NUMBERS, lambda x: x + mnp.arange(x.shape[-1]).astype(x.dtype)),
    "broadcast": (2, NUMBERS, lambda x: x[..., :1] * x[:1] + x),
    "views": (1, ALL, lambda x: x[::-1][::2] != x[::2]),
    "turned": (2, ALL, lambda x: swapped(x) == x.reshape(swapped(x).shape)),
    "turned and negated": (2, FLOATS, lambda x: (swapped(x) * 2, x.T + 1)),
    "row sum": (1, NUMBERS, lambda x: x.sum(-1)),
    "row product": (1, INTEGERS, lambda x: mnp.prod(x, -1)),
    "row any": (1, ALL, lambda x: (mnp.any(x, -1), mnp.all(x, -1))),
    "rows of two axes": (2, NUMBERS, lambda x: x.sum((-2, -1))),
    "column sum": (1, NUMBERS, lambda x: x.sum(0)),
    "middle sum": (3, NUMBERS, lambda x: x.sum(1)),
    "outer and inner sum": (3, NUMBERS, lambda x: x.sum((0, 2))),
    "sum of all": (0, NUMBERS, lambda x: x.sum()),
    "sum of what is turned": (2, ("float32", "float64"), lambda x: (swapped(x) * 2).sum(-1)),
    "softmax": (1, FLOATS, nn.softmax),
    "softmax of columns": (2, FLOATS, lambda x: nn.softmax(x, axis=0)),
    "logsumexp": (1, ("float32", "float64"), lambda x: special.logsumexp(x, axis=-1)),
    "variance": (1, ("float32", "float64"), lambda x: x.var(-1)),
    "normalised": (
        1, ("float32", "float64"),
        lambda x: (x - x.mean(-1, keepdims=True)) / mnp.sqrt(x.var(-1, keepdims=True) + 0.01),
    ),
    "row and column sum": (
        2, ("float32", "float64"), lambda x: (mnp.exp(x - x.max(-1, keepdims=True))).sum(0),
    ),
    "gradient": (
        1, ("float32", "float64"), mgefn.grad(lambda x: (nn.softmax(x) * mnp.tanh(x)).sum()),
    ),
    "joined": (1, ALL, lambda x: mnp.concatenate([x[1:], x[::-1], x, x[:1]])),
    "joined rows": (2, NUMBERS, lambda x: mnp.concatenate([x, x[:, ::-1], x * 2], 1)),
    "padded": (1, NUMBERS, padded),
    "reshaped": (2, ALL, lambda x: (x.T.reshape(-1), x[:, ::-1].reshape(-1), x[::-1, 1:].ravel())),
    "gather": (1, ALL, lambda x: x[mnp.array(np.arange(2 * x.shape[0]) % x.shape[0])]),
    "scatter add": (1, NUMBERS, scattered),
}  # fmt: skip

# -- the mathematics ------------------------------------------------------------------------------

MATHEMATICS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(mnp, name)
        for name in (
            "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "arcsin", "arccos",
            "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sqrt", "cbrt",
            "floor", "ceil", "rint", "sign",
        )
    },
    **{name: getattr(special, name) for name in ("erf", "erfc", "erfinv", "gammaln", "digamma")},
    "sigmoid": nn.sigmoid,
    "rsqrt": lax.rsqrt,
    "arctan2": lambda x: mnp.arctan2(x, x[::-1]),
    "hypot": lambda x: mnp.hypot(x, x[::-1]),
    "logaddexp": lambda x: mnp.logaddexp(x, x[::-1]),
    "power": lambda x: mnp.power(mnp.abs(x), x[::-1]),
    "fmod": lambda x: mnp.fmod(x, x[::-1]),
    "nextafter": lambda x: mnp.nextafter(x, x[::-1]),
}  # fmt: skip


def everywhere(dtype: str) -> mgefn.Array:
    """Arguments of every size, and those where functions have ends and poles; an odd number."""
    rng = np.random.default_rng(11)
    wide = rng.choice([-1, 1], 250) * 10.0 ** rng.uniform(-42, 38, 250)
    near = rng.uniform(-9, 9, 250)
    tiny = np.finfo(dtype).tiny
    ends = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, np.inf, -np.inf, np.nan, tiny, -tiny / 8, 90, 710]
    return mnp.array(np.concatenate([near, wide, ends, near / 9, [3.0]]).astype(dtype))


# -- how they run ---------------------------------------------------------------------------------


def device_program(fun: Callable[..., Any], *args: Any) -> ClosedJaxpr:
    """The program as `jit` would have it, with its launches."""
    return with_device_steps(optimized(mgefn.make_jaxpr(fun)(*args)))


def launches_of(program: ClosedJaxpr) -> list[Launch]:
    return [
        launch
        for eqn in program.jaxpr.eqns
        if eqn.primitive is device_p
        for launch in eqn.params["step"].code
    ]


def emulated(program: ClosedJaxpr, *args: Any) -> tuple[list[np.ndarray], list[str]]:
    """What comes out of a program whose launches are emulated, and their faults."""
    jaxpr, faults = program.jaxpr, []
    env: dict[Any, np.ndarray] = {}
    for v, a in [
        *zip(jaxpr.in_binders, mgefn.tree.leaves(args), strict=True),
        *zip(jaxpr.const_binders, program.consts, strict=True),
    ]:
        env[v] = gpu_emulator.aligned(a._data)

    def value(a: Any) -> np.ndarray:
        return np.asarray(a.value._data) if isinstance(a, Literal) else env[a]

    for eqn in jaxpr.eqns:
        ins = [value(a) for a in eqn.inputs]
        if eqn.primitive is device_p:
            step = eqn.params["step"]
            outs, found = gpu_emulator.run_step(step, [gpu_emulator.aligned(x) for x in ins])
            faults += found
        elif (kernel := kernel_of(eqn.primitive)) is not None:
            outs = kernel(*ins, **eqn.params)
        else:  # a loop, which has a program and no kernel
            outs = [a._data for a in eqn.primitive.bind(*map(mnp.array, ins), **eqn.params)]
        env.update(zip(eqn.out_binders, outs, strict=True))
    return [value(a) for a in jaxpr.outs], faults


TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-11}


def assert_close(got: Sequence[np.ndarray], want: Any, scale: float = 1.0) -> None:
    """Equal but for rounding: relative to the largest, as sums are added up in another order."""
    want = [w._data for w in mgefn.tree.leaves(want)]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        tolerance = TOLERANCE.get(w.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(g, w)
            continue
        g, w = (np.asarray(a, np.float64) for a in (g, w))
        finite = w[np.isfinite(w)]
        most = np.abs(finite).max() if finite.size else 0.0
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale * most)
