"""Collectives against explicit formulas on the whole array, in every nesting of transformations."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, lax
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import UnboundAxisError

N = 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 4, 6)).astype(np.float32)


def repeated(a: np.ndarray) -> np.ndarray:
    return np.broadcast_to(a, (N, *a.shape))


def exchanged(split: int, concat: int):
    """all_to_all(tiled=True) on the whole array, block by block."""

    def whole(x: np.ndarray) -> np.ndarray:
        blocks = [np.split(x[i], N, split) for i in range(N)]
        return np.stack([np.concatenate([b[j] for b in blocks], concat) for j in range(N)])

    return whole


# name -> (function of one example, the same on the whole array)
CASES = {
    "psum": (lambda x: lax.psum(x, "i"), lambda x: repeated(x.sum(0))),
    "psum with a dimension": (
        lambda x: lax.psum(x, ("i", 1)),
        lambda x: repeated(x.sum((0, 2))),
    ),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda x: repeated(x.mean(0))),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda x: repeated(x.max(0))),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda x: repeated(x.min(0))),
    "all_gather": (lambda x: lax.all_gather(x, "i"), repeated),
    "all_gather, last axis": (
        lambda x: lax.all_gather(x, "i", axis=-1),
        lambda x: repeated(np.moveaxis(x, 0, -1)),
    ),
    "all_gather, tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        lambda x: repeated(np.concatenate(list(x), 1)),
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x[:N], "i"),
        lambda x: x[:, :N].sum(0),
    ),
    "psum_scatter, tiled": (
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        lambda x: np.stack(np.split(x.sum(0), N, 1)),
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x[:N], "i", 0, 0),
        lambda x: np.swapaxes(x[:, :N], 0, 1),
    ),
    "all_to_all, forward": (
        lambda x: lax.all_to_all(x[:N], "i", 0, 1),
        lambda x: np.moveaxis(np.swapaxes(x[:, :N], 0, 1), 1, 2),
    ),
    "all_to_all, backward": (
        lambda x: lax.all_to_all(x[:, :N], "i", 1, 0),
        lambda x: np.moveaxis(x[:, :, :N], 2, 0),
    ),
    "all_to_all, tiled": (lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), exchanged(1, 0)),
    "all_to_all, tiled in place": (
        lambda x: lax.all_to_all(x, "i", 1, 1, tiled=True),
        exchanged(1, 1),
    ),
    "pswapaxes": (
        lambda x: lax.pswapaxes(x[:N], "i", 0),
        lambda x: np.swapaxes(x[:, :N], 0, 1),
    ),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (2, 0)]),
        lambda x: np.stack([x[2], x[0], 0 * x[0]]),
    ),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 1]), lambda x: x[[2, 0, 1]]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 1), lambda x: repeated(x[1])),
    "axis_index": (
        lambda x: x * lax.axis_index("i"),
        lambda x: x * np.arange(N, dtype=np.float32)[:, None, None],
    ),
    "axis_size": (lambda x: x * lax.axis_size("i"), lambda x: x * N),
    "pcast": (lambda x: lax.pcast(x, "i", to="varying"), lambda x: x),
}

# Nestings of jit and vmap; each must give the same.
WRAPPINGS = {
    "eager": lambda f: mgefn.vmap(f, axis_name="i"),
    "jit inside": lambda f: mgefn.vmap(mgefn.jit(f), axis_name="i"),
    "jit outside": lambda f: mgefn.jit(mgefn.vmap(f, axis_name="i")),
    "jit on both sides": lambda f: mgefn.jit(mgefn.vmap(mgefn.jit(f), axis_name="i")),
    "a vmap between": lambda f: mgefn.vmap(
        lambda x: mgefn.vmap(f, in_axes=2)(mnp.stack([x, x], 2))[1], axis_name="i"
    ),
    "a vmap outside": lambda f: (
        lambda x: mgefn.vmap(mgefn.vmap(f, axis_name="i"), in_axes=1, axis_name="j")(
            mnp.stack([x, 2 * x], 1)
        )[0]
    ),
    "scan inside": lambda f: mgefn.vmap(
        lambda x: lax.scan(lambda c, y: (c, f(y)), 0.0, x[None])[1][0], axis_name="i"
    ),
    "checkpoint": lambda f: mgefn.vmap(mgefn.checkpoint(f), axis_name="i"),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("case", CASES)
def test_values(case: str, wrapping: str) -> None:
    one, whole = CASES[case]
    got = WRAPPINGS[wrapping](one)(X)
    np.testing.assert_allclose(got, whole(X), rtol=1e-5, atol=1e-6)
    assert got.dtype == np.float32


@pytest.mark.parametrize("case", CASES)
def test_examples_that_are_all_the_same(case: str) -> None:
    """An operand without the mapped axis counts once for each example."""
    one, whole = CASES[case]
    got = mgefn.vmap(lambda i: one(X[0]), axis_name="i")(mnp.arange(N))
    np.testing.assert_allclose(got, whole(np.stack([X[0]] * N)), rtol=1e-5)


@pytest.mark.parametrize("where", ["outside", "inside", "inside a jit"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives(case: str, where: str) -> None:
    """jvp against differences, and <ct, J dx> = <J^T ct, dx> with grad on either side of vmap.

    A gradient inside the map is that of the sum of all examples' losses.
    """
    one, whole = CASES[case]
    x = X.astype(np.float64)
    dx = RNG.standard_normal(x.shape)
    mapped = mgefn.vmap(one, axis_name="i")
    y, dy = mgefn.jvp(mapped, (x,), (dx,))
    step = 1e-6
    near = (whole(x + step * dx) - whole(x - step * dx)) / (2 * step)
    np.testing.assert_allclose(dy, near, rtol=1e-6, atol=1e-7)
    ct = RNG.standard_normal(y.shape)
    if where == "outside":
        g = mgefn.grad(lambda x: (mapped(x) * ct).sum())(x)
    else:
        gradient = mgefn.grad(lambda x, ct: (one(x) * ct).sum())
        inner = mgefn.jit(gradient) if where == "inside a jit" else gradient
        g = mgefn.vmap(inner, axis_name="i")(x, ct)
    np.testing.assert_allclose(np.vdot(g, dx), np.vdot(ct, dy), rtol=1e-10)


def test_gradient_of_a_normalised_batch() -> None:
    """The formula of a mean over the batch, written with and without collectives."""

    def one(x):
        centred = x - lax.pmean(x, "i")
        return (centred / mnp.sqrt(lax.pmean(centred**2, "i") + 1e-3)) ** 3

    def explicit(x):
        centred = x - x.mean(0)
        return ((centred / mnp.sqrt((centred**2).mean(0) + 1e-3)) ** 3).sum()

    want = mgefn.grad(explicit)(X)
    for f in (one, mgefn.jit(one)):
        g = mgefn.grad(lambda x, f=f: mgefn.vmap(f, axis_name="i")(x).sum())(X)
        np.testing.assert_allclose(g, want, rtol=1e-3, atol=1e-4)
        inside = mgefn.vmap(mgefn.grad(lambda x, f=f: f(x).sum()), axis_name="i")(X)
        np.testing.assert_allclose(inside, want, rtol=1e-3, atol=1e-4)


def test_second_derivatives() -> None:
    def loss(x):
        return (lax.psum(mnp.sin(x), "i") ** 2 * x).sum()

    def explicit(x):
        return (mnp.sin(x).sum(0) ** 2 * x).sum()

    def hvp(f, x, v):
        return mgefn.jvp(mgefn.grad(f), (x,), (v,))[1]

    x, v = X[:, :2, 0].astype(np.float64), X[:, :2, 1].astype(np.float64)
    want = hvp(explicit, x, v)
    np.testing.assert_allclose(
        hvp(lambda x: mgefn.vmap(loss, axis_name="i")(x).sum(), x, v), want, rtol=1e-10
    )
    inside = mgefn.vmap(lambda x, v: hvp(loss, x, v), axis_name="i")(x, v)
    np.testing.assert_allclose(inside, want, rtol=1e-10)


def test_ties_share_the_derivative_of_pmax() -> None:
    g = mgefn.grad(lambda x: mgefn.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(x)[0])
    np.testing.assert_array_equal(g(mnp.array([2.0, 1.0, 2.0])), [0.5, 0, 0.5])
    inside = mgefn.vmap(mgefn.grad(lambda x: lax.pmax(x, "i")), axis_name="i")
    np.testing.assert_array_equal(inside(mnp.array([2.0, 1.0, 2.0])), [1.5, 0, 1.5])


# -- several names --------------------------------------------------------------------------------

M = 2
Y = RNG.standard_normal((N, M, 12, 5)).astype(np.float32)  # axes i and j


def both(f, x=Y):
    return np.asarray(mgefn.vmap(mgefn.vmap(f, axis_name="j"), axis_name="i")(x))


TWO_NAMES = {
    "psum": (lambda x: lax.psum(x, ("i", "j")), lambda y: y.sum((0, 1), keepdims=True)),
    "psum of the outer": (lambda x: lax.psum(x, "i"), lambda y: y.sum(0, keepdims=True)),
    "psum of the inner": (lambda x: lax.psum(x, "j"), lambda y: y.sum(1, keepdims=True)),
    "pmax": (lambda x: lax.pmax(x, ("j", "i")), lambda y: y.max((0, 1), keepdims=True)),
    "all_gather": (
        lambda x: lax.all_gather(x, ("j", "i")),
        lambda y: y.swapaxes(0, 1).reshape(1, 1, N * M, 12, 5),
    ),
    "all_gather, tiled": (
        lambda x: lax.all_gather(x, ("i", "j"), axis=1, tiled=True),
        lambda y: np.concatenate(list(y.reshape(-1, 12, 5)), 1)[None, None],
    ),
    "axis_index": (
        lambda x: lax.axis_index(("i", "j")) + 0 * x,
        lambda y: 0 * y + np.arange(N * M).reshape(N, M, 1, 1),
    ),
    "axis_size": (lambda x: x * lax.axis_size(("i", "j")), lambda y: y * (N * M)),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x[:6], ("i", "j")),
        lambda y: y[:, :, :6].sum((0, 1)).reshape(N, M, 5),
    ),
    "psum_scatter, tiled": (
        lambda x: lax.psum_scatter(x, ("i", "j"), tiled=True),
        lambda y: y.sum((0, 1)).reshape(N, M, 2, 5),
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x[:6], ("i", "j"), 0, 1),
        lambda y: np.moveaxis(y[:, :, :6].reshape(6, 6, 5), 0, -1).reshape(N, M, 5, 6),
    ),
    "all_to_all, tiled": (
        lambda x: lax.all_to_all(x, ("i", "j"), 0, 1, tiled=True),
        lambda y: np.moveaxis(y.reshape(6, 6, 2, 5), 0, 2).reshape(N, M, 2, 30),
    ),
    "pswapaxes": (
        lambda x: lax.pswapaxes(x[:6], ("i", "j"), 0),
        lambda y: y[:, :, :6].reshape(6, 6, 5).swapaxes(0, 1).reshape(N, M, 6, 5),
    ),
    "ppermute": (
        lambda x: lax.ppermute(x, ("i", "j"), [(0, 5), (5, 1)]),
        lambda y: np.stack(
            [0 * y[0, 0], y[2, 1], 0 * y[0, 0], 0 * y[0, 0], 0 * y[0, 0], y[0, 0]]
        ).reshape(y.shape),
    ),
    "ppermute of the outer": (
        lambda x: lax.ppermute(x, "i", [(0, 2), (1, 0), (2, 1)]),
        lambda y: y[[1, 2, 0]],
    ),
    "pbroadcast": (lambda x: lax.pbroadcast(x, ("i", "j"), 3), lambda y: y[1:2, 1:2]),
}


@pytest.mark.parametrize("case", TWO_NAMES)
def test_two_names(case: str) -> None:
    one, whole = TWO_NAMES[case]
    want = whole(Y)
    want = np.broadcast_to(want, (N, M, *want.shape[2:]))
    np.testing.assert_allclose(both(one), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(both(mgefn.jit(one)), want, rtol=1e-5, atol=1e-5)
    between = mgefn.vmap(mgefn.jit(mgefn.vmap(one, axis_name="j")), axis_name="i")(Y)
    np.testing.assert_allclose(between, want, rtol=1e-5, atol=1e-5)


def test_the_innermost_map_of_a_name_counts() -> None:
    f = mgefn.vmap(lambda x: lax.psum(x, "i"), axis_name="i")
    got = mgefn.vmap(f, axis_name="i")(Y[:, :, 0, 0])
    np.testing.assert_allclose(got, np.repeat(Y[:, :, 0, 0].sum(1, keepdims=True), M, 1))


# -- programs -------------------------------------------------------------------------------------


def test_control_flow() -> None:
    x = X[:, 0, 0]

    def run(f):
        return mgefn.vmap(f, axis_name="i")(x)

    # A collective in a branch reads all examples, whichever branch each of them takes.
    got = run(lambda x: lax.cond(x > 0, lambda x: lax.psum(x, "i"), lambda x: lax.pmax(x, "i"), x))
    np.testing.assert_allclose(got, np.where(x > 0, x.sum(), x.max()), rtol=1e-6)
    got = run(lambda x: lax.fori_loop(0, 3, lambda k, c: c + lax.psum(c, "i"), x))
    want = x
    for _ in range(3):
        want = want + want.sum()
    np.testing.assert_allclose(got, want, rtol=1e-5)
    got = run(
        lambda x: lax.while_loop(
            lambda c: lax.psum(c, "i") < 20, lambda c: c + lax.axis_index("i") + 1, x
        )
    )
    want = x
    while want.sum() < 20:
        want = want + np.arange(3) + 1
    np.testing.assert_allclose(got, want, rtol=1e-5)
    got = run(lambda x: lax.scan(lambda c, _: (c + lax.axis_index("i"), c), 0, None, length=3)[0])
    np.testing.assert_array_equal(got, [0, 3, 6])


def test_collectives_without_mapped_operands_in_a_program() -> None:
    f = mgefn.vmap(lambda x: mgefn.jit(lambda: lax.axis_index("i"))() + x, axis_name="i")
    np.testing.assert_array_equal(f(mnp.zeros(3)), [0, 1, 2])
    total = mgefn.jit(lambda: lax.psum(mnp.arange(2), "i"))
    got = mgefn.vmap(lambda x: total(), axis_name="i")(mnp.zeros(3))
    np.testing.assert_array_equal(got, [[0, 3]] * 3)


def test_one_jitted_function_under_axes_of_several_sizes() -> None:
    f = mgefn.jit(lambda x: lax.all_gather(x, "i"))
    for n in (2, 5, 2):
        assert mgefn.vmap(f, axis_name="i")(mnp.ones(n)).shape == (n, n)
    with pytest.raises(UnboundAxisError, match="no axis is bound"):
        f(mnp.ones(()))
    g = mgefn.jit(lambda x: x + lax.axis_size("i"))
    for n in (2, 3):
        np.testing.assert_array_equal(mgefn.vmap(g, axis_name="i")(mnp.zeros(n)), [n] * n)


def test_one_scan_body_under_axes_of_several_sizes() -> None:
    def body(c, x):
        return c, x * lax.axis_size("i")

    for n in (2, 3):
        got = mgefn.vmap(lambda x: lax.scan(body, 0.0, x)[1], axis_name="i")(mnp.ones((n, 2)))
        np.testing.assert_array_equal(got, np.full((n, 2), n))


def test_custom_rules_see_the_axis() -> None:
    @mgefn.custom_vjp
    def f(x):
        return lax.psum(x, "i")

    f.defvjp(lambda x: (lax.psum(x, "i"), None), lambda _, ct: (10 * lax.psum(ct, "i"),))
    got = mgefn.vmap(mgefn.grad(lambda x: f(x) * x), axis_name="i")(mnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(got, 6 + 10 * 6 * np.ones(3))


def test_make_jaxpr_with_an_axis() -> None:
    jaxpr = mgefn.make_jaxpr(
        lambda x: lax.psum(x, "i") + lax.all_gather(x, "i").sum() + lax.axis_index("i"),
        axis_env=[("i", 4)],
    )(mnp.ones(2))
    check_jaxpr(jaxpr)
    names = [e.primitive.name for e in jaxpr.eqns]
    assert {"psum", "all_gather", "axis_index"} <= set(names)
    assert jaxpr.eqns[names.index("all_gather")].out_binders[0].aval.shape == (4, 2)
    with pytest.raises(errors.ArgumentError, match="axis_env"):
        mgefn.make_jaxpr(mnp.sin, axis_env=[1])


# -- values and trees -----------------------------------------------------------------------------


def test_constants_and_trees() -> None:
    seen: list = []

    def one(x):
        seen.append((lax.psum(1, "i"), lax.psum(1.5, "i"), lax.axis_size("i")))
        return lax.psum({"a": x, "b": (x > 1, 2)}, "i"), lax.pmean(x > 1, "i")

    total, mean = mgefn.vmap(one, axis_name="i")(mnp.array([1, 2, 3]))
    assert seen == [(3, 4.5, 3)] and all(isinstance(v, (int, float)) for v in seen[0])
    np.testing.assert_array_equal(total["a"], [6, 6, 6])
    np.testing.assert_array_equal(total["b"][0], [2, 2, 2])
    np.testing.assert_array_equal(total["b"][1], [6, 6, 6])
    np.testing.assert_allclose(mean, [2 / 3] * 3, rtol=1e-6)
    assert total["b"][0].dtype == np.int32 and mean.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint32", "complex64", "float64"])
def test_dtypes(dtype: str) -> None:
    x = mnp.array([1, 2, 3], dtype)
    for f in (lax.psum, lax.all_gather, lambda x, n: lax.ppermute(x, n, [(0, 1)])):
        assert mgefn.vmap(lambda x, f=f: f(x, "i"), axis_name="i")(x).dtype == x.dtype
    total = mgefn.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(x)
    np.testing.assert_array_equal(total.astype("complex64"), [6, 6, 6])


def test_an_axis_of_size_zero() -> None:
    x = mnp.ones((0, 2))
    f = mgefn.vmap(lambda x: (lax.psum(x, "i"), lax.all_gather(x, "i")), axis_name="i")
    total, gathered = f(x)
    assert total.shape == (0, 2) and gathered.shape == (0, 0, 2)


# -- refusals -------------------------------------------------------------------------------------


def mapped(f, x=None):
    return lambda: mgefn.vmap(f, axis_name="i")(mnp.ones((3, 4)) if x is None else x)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: lax.psum(1.0, "k"), NameError, "axis name 'k', but no axis is bound"),
        (mapped(lambda x: lax.psum(x, "k")), UnboundAxisError, "bound ones are 'i'"),
        (mapped(lambda x: lax.axis_index("k")), UnboundAxisError, "axis_index"),
        (mapped(lambda x: lax.axis_size(("i", "k"))), UnboundAxisError, "axis_size"),
        (
            mapped(lambda x: lax.psum(x, "i", axis_index_groups=[[0], [1, 2]])),
            errors.UnsupportedError,
            "axis_index_groups",
        ),
        (mapped(lambda x: lax.all_to_all(x, "i", 0, 0)), errors.ShapeError, "size 3"),
        (mapped(lambda x: lax.psum_scatter(x, "i")), errors.ShapeError, "size 3"),
        (mapped(lambda x: lax.psum_scatter(x, "i", tiled=True)), errors.ShapeError, "divisible"),
        (mapped(lambda x: lax.all_gather(x, "i", axis=3)), errors.AxisError, "axis 3"),
        (mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)])), ValueError, "sender"),
        (mapped(lambda x: lax.ppermute(x, "i", [(0, 3)])), ValueError, "receiver"),
        (mapped(lambda x: lax.ppermute(x, "i", [0])), ValueError, "pairs"),
        (mapped(lambda x: lax.pshuffle(x, "i", [0, 1])), ValueError, "once"),
        (mapped(lambda x: lax.pbroadcast(x, "i", 3)), ValueError, "source"),
        (mapped(lambda x: lax.pmax(x * 1j, "i")), errors.DTypeError, "no order"),
        (mapped(lambda x: lax.psum("a", "i")), TypeError, "psum"),
    ],
)
def test_refusals(call, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_program_whose_axis_is_gone() -> None:
    jaxpr = mgefn.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(1.0)
    primitive = jaxpr.eqns[0].primitive
    with pytest.raises(UnboundAxisError, match="'i'"):
        primitive.bind(mnp.ones(()), axis_name="i", axis_size=4)


# -- derivatives of programs ----------------------------------------------------------------------


def _scanned(x, total):
    return lax.scan(lambda c, y: (mnp.sin(total(c)) * 0.3 + c * y, c), x, mnp.arange(3.0) / 3)[0]


def _looped(x, total):
    return lax.fori_loop(0, 3, lambda k, c: c + 0.1 * total(c * c), x)


def _checkpointed(x, total):
    return mgefn.checkpoint(lambda x: mnp.sin(total(x)) * x)(x)


def _branched(x, total):
    return lax.cond(True, lambda x: total(x) * x, lambda x: x, x)


@pytest.mark.parametrize("program", [_scanned, _looped, _checkpointed, _branched])
def test_derivatives_of_programs(program) -> None:
    """Gradient and Hessian products through control flow, against the same on the whole array."""
    x, v = X[:, 0, 0].astype(np.float64), X[:, 0, 1].astype(np.float64)

    def whole(x):
        return program(x, lambda c: mnp.broadcast_to(c.sum(), c.shape)).sum()

    def one(x):
        return program(x, lambda c: lax.psum(c, "i"))

    def mapped(f):
        return mgefn.vmap(f, axis_name="i")

    want = mgefn.grad(whole)(x)
    want_twice = mgefn.jvp(mgefn.grad(whole), (x,), (v,))[1]
    for f in (one, mgefn.jit(one)):
        np.testing.assert_allclose(mgefn.grad(lambda x, f=f: mapped(f)(x).sum())(x), want)
        np.testing.assert_allclose(mapped(mgefn.grad(f))(x), want)
        twice = mapped(lambda x, v, f=f: mgefn.jvp(mgefn.grad(f), (x,), (v,))[1])(x, v)
        np.testing.assert_allclose(twice, want_twice)


def test_a_branch_that_differs_between_examples_has_derivatives() -> None:
    x = X[:, 0, 0].astype(np.float64)

    def one(x):
        return lax.cond(x > 0, lambda x: lax.psum(x, "i") ** 2, lambda x: lax.psum(x, "i") * 3, x)

    want = np.full(3, np.where(x > 0, 2 * x.sum(), 3).sum())
    outside = mgefn.grad(lambda x: mgefn.vmap(one, axis_name="i")(x).sum())(x)
    np.testing.assert_allclose(outside, want)
    np.testing.assert_allclose(mgefn.vmap(mgefn.grad(one), axis_name="i")(x), want)


def test_a_loop_in_a_loop_sees_the_examples_that_are_done() -> None:
    def one(n):
        def body(state):
            k, total = state
            inner = lax.while_loop(lambda j: j < 2, lambda j: j + 1, 0)
            return k + 1, total + lax.psum(k, "i") + 0 * inner

        return lax.while_loop(lambda s: s[0] < n, body, (0, 0))[1]

    n = np.array([1, 2, 3])
    k, total = np.zeros(3, int), np.zeros(3, int)
    while (k < n).any():
        runs = k < n
        k, total = np.where(runs, k + 1, k), np.where(runs, total + k.sum(), total)
    np.testing.assert_array_equal(mgefn.vmap(one, axis_name="i")(n), total)
