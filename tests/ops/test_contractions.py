"""Contractions: values against NumPy, derivatives, batching, and what the kernel allocates."""

from __future__ import annotations

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest

import mgefn.backends.numpy_cpu
import mgefn.interpreters.jit
import mgefn.ops.reductions  # noqa: F401  # einsum sums through it
from mgefn.backends.numpy_kernels.contractions import dot_general as kernel
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray, Zero
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError
from mgefn.interpreters.batching import batch_flat
from mgefn.interpreters.jvp import jvp_flat
from mgefn.interpreters.linearize import linearize_flat
from mgefn.interpreters.staging import trace
from mgefn.ops import contractions as C
from mgefn.ops.contractions.products import _matmul
from tests.kernels import scratch_of

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128"]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def draw(shape, dtype="float64", generator=None) -> np.ndarray:
    g = generator or rng()
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return g.random(shape) > 0.5
    if dtype.kind in "iu":
        return g.integers(0, 9, shape).astype(dtype)
    x = np.asarray(g.standard_normal(shape))
    if dtype.kind == "c":
        x = x + 1j * g.standard_normal(shape)
    return x.astype(dtype)


def agree(got, want, factor=1.0) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    size = np.abs(want).max(initial=1) if want.dtype.kind in "fc" else 0
    eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
    np.testing.assert_allclose(
        np.asarray(got), want, rtol=0, atol=float(64 * factor * eps) * float(size)
    )


MATMUL_SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((7, 1, 5, 2, 3), (4, 5, 3, 2)),
    ((5, 2, 1), (5, 1, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul(dtype):
    g = rng()
    for a_shape, b_shape in MATMUL_SHAPES:
        a, b = draw(a_shape, dtype, g), draw(b_shape, dtype, g)
        want = np.matmul(a, b)
        agree(C.matmul(as_array(a), as_array(b)), want)
        # The way that traced operands take.
        agree(_matmul("matmul", as_array(a), as_array(b)), want)


def test_matmul_of_mixed_dtypes_and_numbers():
    assert C.matmul(draw((2, 3), "int32"), draw((3,), "float32")).dtype == np.float32
    assert C.dot(as_array(2.0), as_array(draw((3,), "float16"))).dtype == np.float16
    assert (as_array(draw((2, 3))) @ draw((3, 4))).shape == (2, 4)
    assert (draw((2, 3)) @ as_array(draw((3, 4)))).shape == (2, 4)
    assert C.matmul([[1.0, 2.0]], [[1.0], [1.0]]).shape == (1, 1)


def test_bfloat16_sums_in_float32():
    import ml_dtypes

    a, b = (draw((4, 300), "float32", rng()).astype(ml_dtypes.bfloat16) for _ in range(2))
    got = C.matmul(as_array(a), as_array(b.T))
    want = (a.astype(np.float32) @ b.T.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(got).view("u2"), want.view("u2"))


def test_float16_sums_do_not_overflow():
    x = as_array(np.full(70000, 1.0, np.float16))
    assert np.isinf(np.asarray(C.dot(x, x)))  # the result does not fit
    wide = C.dot(x, x, preferred_element_type="float32")
    assert wide.dtype == np.float32 and float(wide) == 70000


def test_not_finite_values_stay():
    a = as_array(np.array([[np.inf, 0.0], [np.nan, 1.0]]))
    got = np.asarray(C.matmul(a, as_array(np.array([[1.0, 0.0], [0.0, 1.0]]))))
    np.testing.assert_array_equal(got, [[np.inf, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("large", [False, True])
def test_integer_products_wrap(dtype, large):
    """Large products go through floats, and must give what the integers give."""
    info = np.iinfo(dtype)
    g = rng()
    low, high = (info.min, info.max) if large else (0, 100)
    a = g.integers(low, high, (40, 50), dtype=dtype, endpoint=True)
    b = g.integers(low, high, (50, 30), dtype=dtype, endpoint=True)
    agree(_matmul("matmul", as_array(a), as_array(b)), a @ b)
    wide = "uint64" if info.min == 0 else "int64"
    agree(
        C.matmul(as_array(a), as_array(b), preferred_element_type=wide),
        a.astype(wide) @ b.astype(wide),
    )


def test_preferred_element_type():
    a, b = draw((3, 4), "int8"), draw((4, 2), "int8")
    agree(C.matmul(a, b, preferred_element_type="int32"), a.astype("i4") @ b.astype("i4"))
    agree(C.dot(a, b, preferred_element_type=np.float32), a.astype("f4") @ b.astype("f4"))
    x = draw((3, 4), "float32")
    assert C.einsum("ij,kj->ik", x, x, preferred_element_type="float64").dtype == np.float64
    assert C.einsum("ij->i", x, preferred_element_type="float64").dtype == np.float64
    assert C.einsum("ij,ij->ij", x, x, preferred_element_type="float64").dtype == np.float64
    y = C.einsum("ij,kj,il->kl", x, x, x, preferred_element_type="float64")
    agree(y, np.einsum("ij,kj,il->kl", *[x.astype("f8")] * 3))
    with pytest.raises(DTypeError, match="no narrower, got f16 for f32"):
        C.matmul(x, x.T, preferred_element_type="float16")
    with pytest.raises(DTypeError, match="kind"):
        C.matmul(x, x.T, preferred_element_type="int32")


DOT_GENERAL = [
    ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    ((3, 4, 2), (4, 5, 2), (((1,), (0,)), ((2,), (2,)))),
    ((2, 3, 4), (4, 3), (((2, 1), (0, 1)), ((), ()))),
    ((2, 3, 4), (3, 5, 4), (((1, 2), (0, 2)), ((), ()))),
    ((2, 3, 4), (6, 3, 5), (((1,), (1,)), ((), ()))),
    ((20, 30, 40), (20, 30, 3), (((1,), (1,)), ((), ()))),
    ((2, 3), (4,), (((), ()), ((), ()))),
    ((2, 3), (2, 3), (((), ()), ((0, 1), (0, 1)))),
    ((2, 3), (3, 2), (((0, 1), (1, 0)), ((), ()))),
    ((2, 1, 3), (1, 4), (((1,), (0,)), ((), ()))),
    ((), (), (((), ()), ((), ()))),
    ((2, 0, 3), (0, 4), (((1,), (0,)), ((), ()))),
    ((2, 3, 4, 5), (5, 3, 2, 6), (((3, 1), (0, 1)), ((0,), (2,)))),
]


def dot_general_by_einsum(x, y, numbers):
    (lc, rc), (lb, rb) = numbers
    left = [chr(97 + i) for i in range(x.ndim)]
    right = [chr(65 + i) for i in range(y.ndim)]
    for i, j in zip((*lc, *lb), (*rc, *rb), strict=True):
        right[j] = left[i]
    out = [left[i] for i in lb]
    out += [c for i, c in enumerate(left) if i not in lc and i not in lb]
    out += [c for i, c in enumerate(right) if i not in rc and i not in rb]
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


@pytest.mark.parametrize(("a_shape", "b_shape", "numbers"), DOT_GENERAL)
def test_dot_general(a_shape, b_shape, numbers):
    for dtype in ("float64", "complex64", "int32", "bool"):
        g = rng()
        a, b = draw(a_shape, dtype, g), draw(b_shape, dtype, g)
        want = dot_general_by_einsum(a, b, numbers)
        agree(C.dot_general(as_array(a), as_array(b), numbers), want, factor=8)
        # Into a block of the arena, and from operands of other layouts.
        out = np.empty(want.shape, want.dtype)
        params = {"dimension_numbers": numbers, "preferred_element_type": None}
        (got,) = kernel(a, b, outs=(out,), **params)
        assert got is out
        agree(got, want, factor=8)
        for x, y in ((a.copy("F"), b), (a, b.copy("F"))):
            agree(np.asarray(kernel(x, y, **params)[0]), want, factor=8)


def test_kernel_takes_any_strides():
    g = rng()
    params = {"dimension_numbers": (((1,), (0,)), ((), ())), "preferred_element_type": None}
    a, b = draw((6, 8), generator=g), draw((8, 10), generator=g)
    views_a = [a, a[::-1], a[:, ::-1], np.broadcast_to(a[:1], a.shape), np.repeat(a, 2, 1)[:, ::2]]
    views_b = [
        b,
        b[::-1],
        b[:, ::-1],
        np.broadcast_to(b[:, :1], b.shape),
        np.repeat(b, 2, 1)[:, ::2],
    ]
    for x, y in itertools.product(views_a, views_b):
        agree(kernel(x, y, **params)[0], np.array(x) @ np.array(y))
    wide = np.empty((6, 20))
    agree(kernel(a, b, outs=(wide[:, ::2],), **params)[0], a @ b)


EINSUMS = [
    "ij,jk->ik",
    "ij,jk",
    "ij,kj->ki",
    "ji",
    "ii",
    "ii->i",
    "iij->ji",
    "iii->i",
    "ij->",
    "ij->ji",
    "i,j->ij",
    "i,j->ji",
    "i,i->i",
    "bij,bjk->bik",
    "bij,bjk->kbi",
    "bhqd,bkhd->bhqk",
    "ij,ij->j",
    "abc,cd,de->abe",
    "ij,jk,kl,lm->im",
    "iji,jk->ik",
    "aab,bcc->ac",
    "ij,ij,ij->ij",
    "a,b,c->cab",
    "ijkl,ljm->kmi",
    "->",
    ",->",
    "i,->i",
    "ab,b,bc->c",
    " i , j k -> ",
]
SIZES = dict(zip("abcdefghijklmnopqrstuvwxyz", itertools.cycle([2, 3, 4, 5]), strict=False))


def einsum_operands(subscripts, dtype="float64"):
    g = rng()
    terms = subscripts.replace(" ", "").split("->")[0].split(",")
    return [np.asarray(draw(tuple(SIZES[c] for c in t), dtype, g)) for t in terms]


@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum(subscripts):
    for dtype in ("float64", "int32", "int8", "complex128", "bool"):
        operands = einsum_operands(subscripts, dtype)
        want = np.einsum(subscripts, *operands)
        agree(C.einsum(subscripts, *operands), want)
        if len(operands) > 2:
            for optimize in (False, True, "greedy", "optimal", [(1, 2), (0, 1)]):
                agree(C.einsum(subscripts, *operands, optimize=optimize), want)


def test_einsum_ellipsis_and_broadcasting():
    g = rng()
    x, y = draw((1, 3, 4), generator=g), draw((2, 1, 4, 5), generator=g)
    agree(C.einsum("...ij,...jk->...ik", x[0], y), np.einsum("...ij,...jk->...ik", x[0], y))
    agree(C.einsum("...ij,...jk", x, y[:, :, 0:4]), np.einsum("...ij,...jk", x, y[:, :, 0:4]))
    a, b = draw((1, 3), generator=g), draw((2, 3), generator=g)
    for s in ("ij,ij->ij", "ij,ij->i", "ij,ij->j", "ij,ij", "...j,...j->...", "i...,i..."):
        agree(C.einsum(s, a, b), np.einsum(s, a, b))
    agree(C.einsum("...->...", a), a)
    agree(C.einsum("i...->...i", b), b.T)
    agree(C.einsum("ij,jk,kl->il", a, b.T, b), np.einsum("ij,jk,kl->il", a, b.T, b))


def test_einsum_interleaved():
    g = rng()
    x, y = draw((2, 3), generator=g), draw((4, 3), generator=g)
    agree(C.einsum(x, [0, 1], y, [2, 1], [2, 0]), np.einsum(x, [0, 1], y, [2, 1], [2, 0]))
    agree(C.einsum(x, [0, 1], y, [2, 1]), np.einsum(x, [0, 1], y, [2, 1]))
    agree(C.einsum(x, [..., 0], [0, ...]), x.T)
    agree(C.einsum(x, [3, 7]), x)


def test_einsum_rejects():
    x = draw((2, 3))
    with pytest.raises(ShapeError, match=r"one letter must have one size, got \(1, 3\)"):
        C.einsum("aa->a", np.ones((1, 3)))
    with pytest.raises(ShapeError, match="must have one size, got 2 and 3"):
        C.einsum("ij,ik", x, x.T)
    with pytest.raises(ShapeError, match="must name the dimensions"):
        C.einsum("i", x)
    with pytest.raises(ArgumentError, match="1 terms for 2 operands"):
        C.einsum("ij", x, x)
    with pytest.raises(ArgumentError, match="must occur there once"):
        C.einsum("ij->k", x)
    with pytest.raises(ArgumentError, match="must occur there once"):
        C.einsum("ij->ii", x)
    with pytest.raises(ArgumentError, match="subscripts are letters"):
        C.einsum("i.j", x)
    with pytest.raises(ArgumentError, match="the output of"):
        C.einsum("...j->j", x)
    with pytest.raises(ArgumentError, match="does not fit 2 operands"):
        C.einsum("ij,ij", x, x, optimize=[(0, 5)])


def test_zero_size_einsum():
    x = np.zeros((0, 3))
    agree(C.einsum("ij,ik->jk", x, x), np.zeros((3, 3)))
    agree(C.einsum("ii->i", np.zeros((0, 0))), np.zeros(0))
    agree(C.einsum("ij,kl->", x, x), np.float64(0))


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int32"])
def test_products_of_vectors(dtype):
    g = rng()
    u, v = draw((4,), dtype, g), draw((4,), dtype, g)
    for ours, theirs in (
        (C.vdot, np.vdot),
        (C.inner, np.inner),
        (C.outer, np.outer),
        (C.kron, np.kron),
        (C.vecdot, np.vecdot),
        (C.dot, np.dot),
    ):
        agree(ours(u, v), theirs(u, v))
    a, b = draw((2, 3, 4), dtype, g), draw((5, 4, 3), dtype, g)
    agree(C.vdot(a, a.transpose(2, 1, 0)), np.vdot(a, a.transpose(2, 1, 0)))
    agree(C.inner(a, b.transpose(0, 2, 1)), np.inner(a, b.transpose(0, 2, 1)))
    agree(C.outer(a, u), np.outer(a, u))
    agree(C.dot(a, b), np.dot(a, b))
    agree(C.dot(a, u), np.dot(a, u))
    agree(C.vecdot(a, a[0]), np.vecdot(a, a[0]))
    agree(C.vecdot(a, a[:, :1], axis=-1), np.vecdot(a, a[:, :1]))
    agree(C.vecdot(a[0].T, a[1].T, axis=0), np.vecdot(a[0].T, a[1].T, axis=0))
    agree(C.matvec(a, u), np.matvec(a, u))
    agree(C.vecmat(a[0, :, 0], a), np.vecmat(a[0, :, 0], a))
    agree(C.kron(a[0], u), np.kron(a[0], u))
    agree(C.kron(u, a), np.kron(u, a))
    for axes in (0, ([1], [2]), ([1, 2], [2, 1]), ((-1,), (1,)), (2, 1)):
        agree(C.tensordot(a, b, axes), np.tensordot(a, b, axes))
    x, y = draw((5, 3), dtype, g), draw((3,), dtype, g)
    agree(C.cross(x, y), np.cross(x, y))
    agree(C.cross(x.T, x[::-1].T, axis=0), np.cross(x.T, x[::-1].T, axis=0))
    agree(C.cross(x.T, x[::-1], axisa=0, axisc=0), np.cross(x.T, x[::-1], axisa=0, axisc=0))


def test_cross_in_the_plane():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    assert float(C.cross(x, y)) == -1
    agree(C.cross(x, np.array([0.0, 0.0, 1.0])), np.array([2.0, -1.0, 0.0]))


def test_rejects_shapes():
    x = as_array(draw((4, 3), "float32"))
    y = as_array(draw((5, 2), "float32"))
    need = r"x.shape\[-1\] must equal y.shape\[-2\], got x f32\[4,3\] and y f32\[5,2\]"
    with pytest.raises(ShapeError, match=f"matmul: {need}"):
        C.matmul(x, y)
    with pytest.raises(ShapeError, match="rank 1 or more"):
        C.matmul(x, 2.0)
    with pytest.raises(ShapeError, match="broadcast"):
        C.matmul(draw((2, 3, 4)), draw((5, 4, 3)))
    with pytest.raises(ShapeError, match="dot: "):
        C.dot(x, y)
    with pytest.raises(ShapeError, match="vdot: "):
        C.vdot(x, y)
    with pytest.raises(ShapeError, match="tensordot: "):
        C.tensordot(x, y, 1)
    with pytest.raises(ShapeError, match="contracted dimensions must agree"):
        C.dot_general(x, y, (((0,), (0,)), ((), ())))
    with pytest.raises(AxisError, match="named twice"):
        C.dot_general(x, x, (((0,), (0,)), ((0,), (0,))))
    with pytest.raises(ArgumentError, match="pair up"):
        C.dot_general(x, x, (((0,), ()), ((), ())))
    with pytest.raises(ShapeError, match="equal leading"):
        C.batch_matmul(draw((2, 3, 4)), draw((4, 5)))
    with pytest.raises(ShapeError, match="rank 1 or 2"):
        C.lax_dot(draw((2, 3, 4)), draw((4, 5)))


def test_lax_forms():
    a, b = draw((2, 3, 4)), draw((2, 4, 5))
    agree(C.batch_matmul(a, b), a @ b)
    agree(C.lax_dot(a[0], b[0]), a[0] @ b[0])
    numbers = (((2,), (1,)), ((0,), (0,)))
    agree(C.lax_dot(a, b, dimension_numbers=numbers), a @ b)


def test_weak_operands():
    weak = as_array(2.0)
    assert weak.weak_type
    assert C.dot(weak, weak).weak_type
    x = C.einsum(",->", weak, weak)
    assert x.weak_type


# -- rules ----------------------------------------------------------------------------------------

FUNCTIONS = [
    *(
        pytest.param(partial(_matmul, "matmul"), shapes, id=f"matmul{shapes}")
        for shapes in MATMUL_SHAPES
    ),
    *(
        pytest.param(partial(C.dot_general, dimension_numbers=n), (a, b), id=f"dot_general{i}")
        for i, (a, b, n) in enumerate(DOT_GENERAL)
    ),
    *(
        pytest.param(partial(C.einsum, s), tuple(x.shape for x in einsum_operands(s)), id=s)
        for s in EINSUMS
    ),
    pytest.param(C.cross, ((5, 3), (3,)), id="cross"),
    pytest.param(C.kron, ((2, 3), (4,)), id="kron"),
    pytest.param(C.vdot, ((2, 3), (3, 2)), id="vdot"),
    pytest.param(C.vecdot, ((2, 3), (3,)), id="vecdot"),
    pytest.param(C.vecmat, ((5, 3), (5, 3, 2)), id="vecmat"),
    pytest.param(C.matvec, ((5, 2, 3), (5, 3)), id="matvec"),
]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("fun", "shapes"), FUNCTIONS)
def test_derivatives(fun, shapes, dtype):
    g = rng()
    xs = [as_array(np.asarray(draw(s, dtype, g))) for s in shapes]
    ts = [as_array(np.asarray(draw(s, dtype, g))) for s in shapes]

    def flat(*args):
        return [fun(*args)]

    (y,), (t,) = jvp_flat(flat, xs, ts)
    # Products are polynomials of degree 4 at most, so central differences are nearly exact.
    h = 1e-4
    up = fun(*[x + h * dx for x, dx in zip(xs, ts, strict=True)])
    down = fun(*[x - h * dx for x, dx in zip(xs, ts, strict=True)])
    size = float(np.abs(np.asarray(t)).max(initial=1))
    np.testing.assert_allclose(
        np.asarray(t), np.asarray((up - down) / (2 * h)), rtol=1e-6, atol=1e-6 * size
    )

    (out,), linear = linearize_flat(flat, xs, "test")
    np.testing.assert_allclose(np.asarray(out), np.asarray(y))
    for unit in (1, 1j) if dtype == "complex128" else (1,):
        # The real part, since conj is linear over the reals only.
        ct = unit * draw(y.shape, dtype, g)
        pulled = linear.transpose([as_array(np.asarray(ct))])
        assert [p.aval.shape for p in pulled] == [x.shape for x in xs]
        left = sum(
            np.sum(np.asarray(p) * np.asarray(dx)).real
            for p, dx in zip(pulled, ts, strict=True)
            if not isinstance(p, Zero)
        )
        right = np.sum(ct * np.asarray(t)).real
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12 * size * max(1, ct.size))


@pytest.mark.parametrize(("fun", "shapes"), FUNCTIONS)
def test_batching_is_a_loop(fun, shapes):
    n = 3
    g = rng()
    for which in itertools.product([False, True], repeat=len(shapes)):
        if not any(which):
            continue
        args, bdims = [], []
        for k, (s, batched) in enumerate(zip(shapes, which, strict=True)):
            bdim = k % (len(s) + 1) if batched else None
            bdims.append(bdim)
            args.append(
                as_array(
                    np.asarray(draw(s if bdim is None else (*s[:bdim], n, *s[bdim:]), generator=g))
                )
            )
        (out,), (out_bdim,) = batch_flat(lambda *a: [fun(*a)], args, bdims, n)
        for i in range(n):
            one = [
                x if b is None else as_array(np.array(np.take(np.asarray(x), i, b)))
                for x, b in zip(args, bdims, strict=True)
            ]
            agree(
                as_array(np.array(np.take(np.asarray(out), i, out_bdim))), np.asarray(fun(*one)), 8
            )


@pytest.mark.parametrize(("fun", "shapes"), FUNCTIONS)
def test_staged(fun, shapes):
    """Staging checks the types of all equations against what abstract evaluation gives."""
    avals = [ShapedArray(s, np.dtype(np.float32)) for s in shapes]
    closed, captured = trace(lambda *a: [fun(*a)], avals, "test")
    assert not captured
    want = fun(*[as_array(np.zeros(s, np.float32)) for s in shapes])
    assert closed.out_avals[0].shape == want.shape


def test_gradient_of_a_matmul_needs_no_transposition():
    """Cotangents of both operands come out in the operands' own order of dimensions."""

    def pulled(x, w, ct):
        _, linear = linearize_flat(lambda *a: [_matmul("matmul", *a)], (x, w), "test")
        return linear.transpose([ct])

    shapes = [(4, 3), (3, 5), (4, 5)]
    closed, _ = trace(pulled, [ShapedArray(s, np.dtype(np.float32)) for s in shapes], "test")
    assert {e.primitive.name for e in closed.eqns} == {"dot_general"}


def test_mixed_precision_gradient():
    x = as_array(draw((2, 3), "float16"))
    w = as_array(draw((3, 4), "float16"))
    fun = partial(C.matmul, preferred_element_type="float32")
    (y,), linear = linearize_flat(lambda *a: [fun(*a)], (x, w), "test")
    x_ct, w_ct = linear.transpose([as_array(np.ones((2, 4), np.float32))])
    assert (y.dtype, x_ct.dtype, w_ct.dtype) == (np.float32, np.float16, np.float16)
    agree(w_ct, (np.asarray(x, "f4").T @ np.ones((2, 4), "f4")).astype("f2"))


# -- memory ---------------------------------------------------------------------------------------


def peak_bytes(x, y, out, **params) -> int:
    kernel(x, y, outs=(out,), **params)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        kernel(x, y, outs=(out,), **params)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


MEMORY = [
    ((256, 256), (256, 256), (((1,), (0,)), ((), ()))),
    ((256, 256), (256, 256), (((0,), (1,)), ((), ()))),
    ((8, 128, 64), (8, 64, 128), (((2,), (1,)), ((0,), (0,)))),
    ((8, 128, 64), (64, 128), (((2,), (0,)), ((), ()))),
    ((128, 64), (8, 64, 128), (((1,), (1,)), ((), ()))),
    ((128, 8, 64), (128, 8, 64), (((2,), (2,)), ((1,), (1,)))),
    ((64, 64, 8), (64, 64, 8), (((1,), (1,)), ((2,), (2,)))),
    ((64, 50, 60), (60, 64, 10), (((0, 2), (1, 0)), ((), ()))),
    ((2, 4, 6, 8, 10), (4, 8, 70), (((1, 3), (0, 1)), ((), ()))),
    ((200,), (300,), (((), ()), ((), ()))),
    ((300, 200), (300, 200), (((), ()), ((0, 1), (0, 1)))),
]


@pytest.mark.parametrize("dtype", ["float32", "complex128", "float16", "int8", "int32", "bool"])
@pytest.mark.parametrize(("a_shape", "b_shape", "numbers"), MEMORY)
def test_scratch_memory_is_what_the_kernel_says(a_shape, b_shape, numbers, dtype):
    g = rng()
    x, y = draw(a_shape, dtype, g), draw(b_shape, dtype, g)
    params = {"dimension_numbers": numbers, "preferred_element_type": None}
    in_avals = [ShapedArray(a.shape, a.dtype) for a in (x, y)]
    out_avals = C.dot_general_p.out_avals(in_avals, params)
    planned = scratch_of(kernel, in_avals, out_avals, params)
    out = np.empty(out_avals[0].shape, out_avals[0].dtype)
    peak = peak_bytes(x, y, out, **params)
    assert peak <= 1.05 * planned + 4096
    assert planned <= peak / 0.7 + 4096


def test_common_products_need_no_scratch_memory():
    for a_shape, b_shape, numbers in MEMORY[:6]:
        avals = [ShapedArray(s, np.dtype(np.float32)) for s in (a_shape, b_shape)]
        params = {"dimension_numbers": numbers, "preferred_element_type": None}
        assert scratch_of(kernel, avals, C.dot_general_p.out_avals(avals, params), params) == 0
