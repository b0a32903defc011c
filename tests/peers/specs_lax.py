"""mgefn.lax beside jax.lax."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import Spec
from tests.peers.rows import (
    A,
    b1,
    c128,
    distinct,
    each,
    f16,
    f32,
    f64,
    i8,
    i32,
    positive,
    r,
    rows,
    u8,
    uniform,
    unit,
    well,
)  # fmt: skip
from tests.peers.specs_elementwise import (
    ANY,
    BOOL,
    COMPLEXES,
    FLOATS,
    INEXACT,
    INTS,
    REAL,
    binary,
    unary,
)
from tests.peers.specs_numpy import ALL, MAIN, creation, shaping

L_ = "lax."
SHAPES = (((2, 3), (2, 3)), ((), ()), ((0, 3), (0, 3)))


def strict(
    dtypes: Any,
    low: Any = (-3.0, -3.0),
    high: Any = (3.0, 3.0),
    scalars: Any = (True, 2, 0.5),
    **kw: Any,
) -> Spec:
    return binary(tuple((d, d) for d in dtypes), low, high, scalars=scalars, shapes=SHAPES, **kw)


def special(low: float, high: float, **kw: Any) -> Spec:
    return unary(
        FLOATS, low, high, at_edges=False, **(dict(ulps=64, scale="all", slope_ulps=1024) | kw)
    )


def specials(*hows: Any, **kw: Any) -> Spec:
    return rows(
        [r(*(A(d, (2, 3), how) for how in hows)) for d in (f32, f64)],
        **(dict(ulps=512, slope_ulps=1e4) | kw),
    )


NUMBERS = tuple(d for d in ANY if d is not np.bool_)
ORDERED = tuple(d for d in REAL)
BITS = BOOL + INTS
CONV = ("VALID", "SAME", ((1, 0), (0, 2)))


def reducing(dtypes: Any, **kw: Any) -> Spec:
    return rows(
        [r(A(d, (2, 3)), axes) for axes in ((0,), (0, 1), ()) for d in dtypes],
        r(A(dtypes[0], (0, 3)), (0,)),
        **kw,
    )


def mapped(run: Any) -> Any:
    """A collective inside of a vmap over a named axis."""
    return lambda L, f, x, *a, **k: L.vmap(lambda v: run(L, f, v, *a, **k), axis_name="i")(x)


def collective(*a: Any, dtypes: Any = (i32, f32, f64), shape: Any = (4, 3), **k: Any) -> Spec:
    return rows(
        [r(A(d, shape)) for d in dtypes], call=mapped(lambda L, f, v: f(v, "i", *a, **k)), ulps=32
    )


G = lambda L, **k: L.lax.GatherDimensionNumbers(**k)
D = lambda L, **k: L.lax.ScatterDimensionNumbers(**k)
INDEX = np.array([[0], [2], [5], [-1]], np.int32)


def scatter(L: Any, f: Any, x: Any, i: Any, u: Any, **k: Any) -> Any:
    numbers = D(
        L, update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    return f(x, i, u, numbers, **k)


def gather(L: Any, f: Any, x: Any, i: Any, **k: Any) -> Any:
    numbers = G(L, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return f(x, i, numbers, (1, 3), **k)


def conv(*given: Any, call: Any = None) -> Spec:
    return rows(*given, call=call, ulps=128, slope_ulps=512)


def plus(L: Any) -> Any:
    return L.lax.add


LAX: dict[str, Spec] = {
    # of one
    **each("abs sign neg square", unary(NUMBERS), L_),
    **each("real imag conj", unary(COMPLEXES), L_),
    **each("exp exp2 expm1 sin cos tan sinh cosh tanh logistic", unary(INEXACT, ulps=16), L_),
    **each("asin acos", unary(INEXACT, -0.9, 0.9, ulps=16), L_),
    **each("atanh", unary(INEXACT, -0.9, 0.9, ulps=256), L_),  # see arctanh in specs_elementwise
    **each("acosh", unary(INEXACT, 1.1, 4.0, ulps=16), L_),
    **each("atan asinh", unary(INEXACT, ulps=16), L_),
    **each("cbrt ceil floor round is_finite", unary(FLOATS), L_),
    **each("log log1p sqrt rsqrt reciprocal", unary(INEXACT, 0.2, 4.0, ulps=16), L_),
    **each("erf erfc bessel_i0e bessel_i1e", special(-3, 3), L_),
    **each("erf_inv", special(-0.9, 0.9), L_),
    **each("lgamma digamma", special(0.2, 5.0), L_),
    **each("bitwise_not", unary(BITS), L_),
    **each("population_count clz", unary(INTS), L_),
    **each("integer_pow", rows([r(A(d, (2, 3), positive), n) for n in (0, 1, 2, 3, -2) for d in (i32, f16, f32, f64, c128) if n >= 0 or d is not i32], ulps=16), L_),
    **each("reduce_precision", rows([r(A(d), 5, 4) for d in (f16, f32, f64)]), L_),
    **each("convert_element_type", rows([r(A(d), new) for d in (b1, i32, f32, f64) for new in (np.int8, np.int32, np.float16, np.float32, np.bool_, np.complex64)]), L_),
    **each("bitcast_convert_type", rows(r(A(f32), np.int32), r(A(i32), np.float32), r(A(i32, (3, 4)), np.uint8), r(A(u8, (3, 4)), np.int32), diff=()), L_),
    **each("stop_gradient optimization_barrier", shaping({}), L_),
    **each("dtype", rows([r(A(d)) for d in ALL], diff=()), L_),
    # of two
    **each("add sub mul div max min", strict(NUMBERS, second=lambda y: y + (y == 0)), L_),
    **each("eq ne", strict(ANY), L_),
    **each("lt le gt ge", strict(ORDERED), L_),
    **each("rem", strict(tuple(d for d in NUMBERS if d not in COMPLEXES), second=lambda y: y + (y == 0)), L_),
    **each("pow", strict(INEXACT, (0.3, -3.0), scalars=(0.5,)), L_),
    **each("atan2 nextafter", strict(FLOATS), L_),
    **each("complex", strict((f32, f64)), L_),
    **each("bitwise_and bitwise_or bitwise_xor", strict(BITS), L_),
    **each("shift_left shift_right_logical shift_right_arithmetic", strict(INTS, (-3, 0)), L_),
    **each("igamma igammac", specials(positive, positive), L_),
    # Two series cut off at different terms: they agree to 1e-12.
    **each("igamma_grad_a random_gamma_grad", specials(positive, positive, ulps=8192, diff=()), L_),
    **each("betainc", specials(positive, positive, unit, diff=(2,)), L_),
    **each("zeta", specials(uniform(1.5, 4), positive, diff=(1,)), L_),
    **each("polygamma", rows([r(np.full((2, 3), n, d), A(d, (2, 3), positive), diff=(1,) if d is f64 else ()) for n in (1, 2) for d in (f32, f64)], ulps=512, slope_ulps=1e4), L_),
    **each("clamp", rows([r(np.array(-1, d), A(d), np.array(1, d)) for d in (i32, f16, f32, f64)], r(A(f64, (2, 3), uniform(-2, -1)), A(f64), A(f64, (2, 3), uniform(1, 2))), r(0, A(i32), 2)), L_),
    **each("select", rows([r(A(b1), A(d), A(d)) for d in MAIN], r(A(b1, ()), A(f32), A(f32))), L_),
    **each("select_n", rows([r(A(b1), A(d), A(d)) for d in MAIN], r(A(i32, (2, 3), uniform(0, 2)), A(f64), A(f64), A(f64))), L_),
    # shapes
    **each("broadcast", shaping(((2, 1),)), L_),
    **each("broadcast_in_dim", rows([r(A(d), (2, 4, 3), (0, 2)) for d in MAIN]), L_),
    **each("broadcast_to_rank", shaping((3,)), L_),
    **each("broadcast_shapes", creation(r((2, 3), (3,)), r((2, 1), (1, 3))), L_),
    **each("collapse", shaping((0, 2), (1,), shape=(2, 3, 2)), L_),
    **each("concatenate", rows([r([A(d), A(d)], k) for k in (0, 1) for d in MAIN]), L_),
    **each("stack", rows([r([A(d), A(d)], **o) for o in ({}, dict(axis=1)) for d in MAIN]), L_),
    **each("unstack", shaping({}, (1,)), L_),
    **each("split", shaping(((1, 2), 1), dict(sizes=(1, 1))), L_),
    **each("expand_dims", shaping(((0, 2),)), L_),
    **each("squeeze", shaping(((0,),), ((-1, 0),), shape=(1, 3, 1)), L_),
    **each("reshape", shaping(((3, 2),), dict(new_sizes=(6,), dimensions=(1, 0))), L_),
    **each("rev", shaping(((0,),), ((0, 1),)), L_),
    **each("transpose", shaping(((1, 0),)), L_),
    **each("tile", shaping(((2, 1),)), L_),
    **each("pad", rows([r(A(d), np.array(2, d), ((1, 0, 0), (0, 2, 1))) for d in MAIN], r(A(f64), 0.0, ((-1, 0, 0), (0, -1, 0)))), L_),
    **each("slice", shaping(((0, 1), (2, 3)), ((0, 0), (2, 3), (1, 2))), L_),
    **each("slice_in_dim", shaping((0, 2, 1, 1), dict(start_index=-2, limit_index=None, axis=1)), L_),
    **each("index_in_dim", shaping((1,), (-1, 1, False)), L_),
    **each("dynamic_slice", rows([r(A(d, (4, 3)), (i, 1), (2, 2)) for i in (1, 9, -1) for d in MAIN], r(A(f64, (4, 3)), (A(i32, ()), 0), (2, 3))), L_),
    **each("dynamic_slice_in_dim", shaping((1, 2), (5, 2, 0), shape=(4, 3)), L_),
    **each("dynamic_index_in_dim", shaping((1,), (-1, 1, False)), L_),
    **each("dynamic_update_slice", rows([r(A(d, (4, 3)), A(d, (2, 2)), (i, 0)) for i in (1, 9, -1) for d in MAIN]), L_),
    **each("dynamic_update_slice_in_dim", rows([r(A(d, (4, 3)), A(d, (2, 3)), i, 0) for i in (1, 9) for d in MAIN]), L_),
    **each("dynamic_update_index_in_dim", rows([r(A(d, (4, 3)), A(d, (3,)), 2, 0) for d in MAIN]), L_),
    **each("gather", rows([r(A(d, (4, 3)), INDEX, mode=m) for m in ("clip", "fill", "promise_in_bounds")[:2] for d in MAIN], call=gather), L_),
    **each("scatter", rows([r(A(d, (4, 3)), np.array([[0], [2], [7]], np.int32), A(d, (3, 3)), mode=m) for m in ("clip", "drop") for d in MAIN], call=scatter), L_),
    **each("scatter_add scatter_sub", rows([r(A(d, (4, 3)), np.array([[0], [2], [0], [9]], np.int32), A(d, (4, 3)), mode=m) for m in ("clip", "drop") for d in MAIN if d is not b1], call=scatter, ulps=16), L_),
    **each("scatter_mul", rows([r(A(d, (4, 3)), np.array([[0], [2], [1]], np.int32), A(d, (3, 3)), unique_indices=True) for d in (i32, f32, f64)], call=scatter), L_),
    **each("scatter_max scatter_min", rows([r(A(d, (4, 3)), np.array([[0], [2], [0]], np.int32), A(d, (3, 3))) for d in (i32, f32, f64)], call=scatter), L_),
    **each("scatter_apply", rows([r(A(d, (4, 3)), np.array([[0], [2]], np.int32), call=lambda L, f, x, i: f(x, i, L.numpy.sin, D(L, update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)), update_shape=(2, 3))) for d in (f32,)]), L_),
    **each("index_take", rows([r(A(d, (4, 3)), [np.array([1, 0], np.int32)], (0,)) for d in MAIN]), L_),
    **each("iota", creation(r(np.int32, 4), r(np.float32, 3), r(float, 3)), L_),
    **each("broadcasted_iota", creation(r(np.int32, (2, 3), 1), r(np.float32, (2, 3), 0)), L_),
    **each("full", creation(r((2, 3), 2.5), r((2,), 1, np.float32), r((2,), 1)), L_),
    **each("full_like", rows([r(A(d), 2) for d in MAIN], r(A(f32), 2.5, dtype=np.int32, shape=(3,))), L_),
    **each("empty", creation(r((2, 3), np.float32), call=lambda L, f, *a: f(*a).shape), L_),
    # reductions and order
    **each("reduce_sum reduce_prod", reducing(tuple(d for d in MAIN if d is not b1), ulps=32), L_),
    **each("reduce_max reduce_min", reducing((i32, f16, f32, f64)), L_),
    **each("reduce_and reduce_or reduce_xor", reducing((b1, i32, u8)), L_),
    **each("argmax argmin", rows([r(A(d), k, np.int32) for k in (0, 1) for d in (i32, f32, f64)]), L_),
    **each("reduce", rows([r(A(d), call=lambda L, f, x: f(x, L.numpy.array(0, x.dtype), L.lax.add, (1,))) for d in (i32, f32, f64)], r(A(f64), call=lambda L, f, x: f(x, L.numpy.array(-9.0, x.dtype), L.lax.max, (0, 1))), r(A(f64), A(f64), call=lambda L, f, x, y: f((x, y), (L.numpy.array(0.0, x.dtype), L.numpy.array(1.0, x.dtype)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)), diff=()), ulps=32), L_),
    **each("reduce_window", rows([r(A(d, (4, 5)), p, s, call=lambda L, f, x, p, s: f(x, L.numpy.array(0, x.dtype), L.lax.add, (2, 3), s, p)) for p in ("VALID", "SAME") for s in ((1, 1), (2, 1)) for d in (i32, f32, f64)], [r(A(d, (4, 5), distinct), p, call=lambda L, f, x, p: f(x, -np.inf, L.lax.max, (2, 2), (2, 2), p)) for p in ("VALID", "SAME") for d in (f32, f64)], r(A(f64, (4, 5), distinct), call=lambda L, f, x: f(x, np.inf, L.lax.min, (2, 2), (1, 1), ((1, 0), (0, 1)))), ulps=32), L_),
    **each("cumsum cumprod", rows([r(A(d), k, **o) for k in (0, 1) for o in ({}, dict(reverse=True)) for d in (i32, f16, f32, f64, c128)], ulps=32), L_),
    **each("cummax cummin cumlogsumexp", rows([r(A(d), k, **o) for k in (0, 1) for o in ({}, dict(reverse=True)) for d in (i32, f16, f32, f64)], ulps=32), L_),
    **each("sort", rows([r(A(d, (3, 4), distinct), k) for k in (0, -1) for d in (i32, f32, f64)], r((A(i32, (6,), uniform(0, 2)), A(f32, (6,))), num_keys=1), r((A(i32, (6,), uniform(0, 2)), A(f32, (6,), distinct)), num_keys=2)), L_),
    **each("sort_key_val", rows([r(A(d, (3, 4), distinct), A(f64, (3, 4)), **o) for o in ({}, dict(dimension=0)) for d in (i32, f64)]), L_),
    **each("top_k", rows([r(A(d, (3, 4), distinct), 2) for d in (i32, f32, f64)], r(A(i32, (5,), uniform(0, 2)), 3), r(A(f64, (3, 4), distinct), 2, axis=0)), L_),
    **each("approx_max_k approx_min_k", rows([r(A(d, (3, 8), distinct), 2) for d in (f32,)]), L_),
    # products
    **each("dot", rows([r(A(d, a), A(d, b)) for a, b in (((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,))) for d in (i32, f16, f32, f64, c128)], ulps=64), L_),
    **each("dot_general", rows([r(A(d, (2, 3, 4)), A(d, (2, 4, 5)), (((2,), (1,)), ((0,), (0,)))) for d in (i32, f32, f64, c128)], r(A(f16, (2, 3)), A(f16, (3, 2)), (((1,), (0,)), ((), ())), preferred_element_type=np.float32), r(A(i8, (2, 3)), A(i8, (3, 2)), (((1,), (0,)), ((), ())), preferred_element_type=np.int32), ulps=64), L_),
    **each("batch_matmul", rows([r(A(d, (2, 3, 4)), A(d, (2, 4, 2))) for d in (f32, f64)], ulps=64), L_),
    **each("conv", conv([r(A(d, (2, 3, 6, 5)), A(d, (4, 3, 3, 2)), s, p) for s in ((1, 1), (2, 1)) for p in CONV[:2] for d in (f32, f64)]), L_),
    **each("conv_with_general_padding", conv([r(A(d, (2, 3, 6, 5)), A(d, (4, 3, 3, 2)), (1, 2), ((1, 0), (0, 2)), (1, 2), (2, 1)) for d in (f32, f64)]), L_),
    **each("conv_general_dilated", conv([r(A(d, (2, 6, 5, 4)), A(d, (3, 2, 2, 6)), (1, 1), p, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2) for p in CONV for d in (f32, f64)], r(A(c128, (1, 2, 5)), A(c128, (3, 2, 2)), (2,), "SAME"), r(A(f64, (4, 2, 5)), A(f64, (6, 2, 2)), (1,), "VALID", batch_group_count=2)), L_),
    **each("conv_general_dilated_local", conv([r(A(d, (2, 2, 4)), A(d, (3, 4, 3)), (1,), "VALID", (2,)) for d in (f32, f64)]), L_),
    **each("conv_general_dilated_patches", conv([r(A(d, (2, 2, 5, 4)), (2, 3), (1, 1), p) for p in ("VALID", "SAME") for d in (f32, f64)]), L_),
    **each("conv_transpose", conv([r(A(d, (2, 4, 3, 2)), A(d, (3, 2, 2, 5)), (2, 1), p, dimension_numbers=("NHWC", "HWIO", "NHWC")) for p in ("VALID", "SAME") for d in (f32, f64)], r(A(f64, (2, 4, 3)), A(f64, (3, 5, 3)), (2,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"), transpose_kernel=True)), L_),
    **each("conv_dimension_numbers", creation(r((1, 2, 3, 4), (3, 3, 2, 4), ("NHWC", "HWIO", "NHWC"), call=lambda L, f, *a: tuple(tuple(x) for x in f(*a)))), L_),
    **each("fft", rows([r(A(c128, (3, 4)), t, (4,)) for t in ("FFT", "IFFT")], r(A(c128, (3, 4)), "IRFFT", (6,)), r(A(np.complex64, (3, 4)), "FFT", (3, 4)), r(A(f64, (3, 4)), "RFFT", (4,)), r(A(c128, (3, 3)), "IRFFT", (4,)), ulps=64, slope_ulps=512), L_),
    # control flow
    **each("cond", rows([r(p, A(d), call=lambda L, f, p, x: f(p, L.numpy.sin, lambda v: 2 * v, x)) for p in (True, False) for d in (f32, f64)], r(A(i32, ()), A(f64), call=lambda L, f, p, x: f(p > 0, lambda v: (v, v.sum()), lambda v: (v * v, v[0, 0]), x))), L_),
    **each("switch", rows([r(A(i32, (), uniform(-1, 4)), A(d), call=lambda L, f, i, x: f(i, [L.numpy.sin, L.numpy.cos, lambda v: v * 2], x)) for d in (f32, f64)]), L_),
    **each("fori_loop", rows([r(A(d), call=lambda L, f, x: f(0, 3, lambda i, v: L.numpy.sin(v) * (i + 1), x)) for d in (f32, f64)], r(A(i32), call=lambda L, f, x: f(1, 4, lambda i, v: v + i, x)), r(A(f64), call=lambda L, f, x: f(3, 1, lambda i, v: v + i, x)), ulps=64), L_),
    **each("while_loop", rows([r(A(d, (3,), positive), diff=(), call=lambda L, f, x: f(lambda v: v.sum() < 50, lambda v: v * 2, x)) for d in (f32, f64)], r(A(i32, ()), call=lambda L, f, x: f(lambda v: v[0] < 9, lambda v: (v[0] + 2, v[1] - 1), (x, x)))), L_),
    **each("scan", rows([r(A(d, (3,)), A(d, (4, 3)), call=lambda L, f, c, xs, **k: f(lambda c, x: (L.numpy.tanh(c + x), c * x), c, xs, **k), **o) for o in ({}, dict(reverse=True), dict(unroll=2)) for d in (f32, f64)], r(A(f64, ()), call=lambda L, f, c: f(lambda c, _: (c * 1.5, c), c, None, length=3)), r(A(f64, ()), A(f64, (0, 2)), call=lambda L, f, c, xs: f(lambda c, x: (c + x.sum(), x), c, xs)), ulps=64), L_),
    **each("map", rows([r(A(d, (4, 3)), call=lambda L, f, x, **k: f(lambda v: L.numpy.cumsum(v) * 2, x, **k), **o) for o in ({}, dict(batch_size=2)) for d in (f32, f64)]), L_),
    **each("associative_scan", rows([r(A(d, (5, 2)), call=lambda L, f, x, **k: f(L.numpy.multiply, x, **k), **o) for o in ({}, dict(reverse=True), dict(axis=1)) for d in (i32, f32, f64)], r(A(f64, (4,)), A(f64, (4,)), call=lambda L, f, a, b: f(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b))), ulps=64), L_),
    **each("custom_linear_solve", rows([r(A(d, (3, 3), well), A(d, (3,)), call=lambda L, f, a, b: f(lambda v: a @ v, b, lambda mv, y: L.numpy.linalg.solve(a, y), lambda mv, y: L.numpy.linalg.solve(a.T, y))) for d in (f32, f64)], ulps=256, slope_ulps=4096), L_),
    **each("custom_root", rows([r(A(d, (), positive), call=lambda L, f, a: f(lambda x: x * x - a, a, lambda g, x0: L.numpy.sqrt(a), lambda g, y: y / g(L.numpy.ones_like(y)))) for d in (f32, f64)], ulps=64, slope_ulps=4096), L_),
    # across a mapped axis
    **each("psum pmean", collective(), L_),
    **each("pmax pmin", rows([r(A(d, (4, 3))) for d in (i32, f32, f64)], diff=(), call=mapped(lambda L, f, v: f(v, "i"))), L_),
    **each("all_gather", rows([r(A(d, (4, 3)), **o) for o in ({}, dict(axis=1), dict(tiled=True)) for d in (i32, f32, f64)], call=mapped(lambda L, f, v, **k: f(v, "i", **k))), L_),
    **each("all_to_all", rows([r(A(d, (3, 3, 2)), **o) for o in ({}, dict(tiled=True)) for d in (i32, f32, f64)], call=mapped(lambda L, f, v, **k: f(v, "i", 0, 0, **k))), L_),
    **each("psum_scatter", rows([r(A(d, (3, 3)), **o) for o in ({}, dict(tiled=True)) for d in (i32, f32, f64)], call=mapped(lambda L, f, v, **k: f(v, "i", **k))), L_),
    **each("ppermute", collective([(0, 1), (1, 2), (2, 3), (3, 0)]), L_),
    **each("pshuffle", collective([1, 2, 3, 0]), L_),
    **each("pswapaxes", collective(0, shape=(3, 3)), L_),
    **each("axis_index axis_size", rows(r(A(f32, (4, 3))), call=mapped(lambda L, f, v: v.sum() * f("i"))), L_),
}  # fmt: skip
