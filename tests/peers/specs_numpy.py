"""mgefn.numpy beyond the elementwise functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import NARROW, WIDE, Spec, bfloat16
from tests.peers.rows import (
    A,
    b1,
    c64,
    c128,
    distinct,
    each,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    increasing,
    over,
    positive,
    r,
    rows,
    u8,
    u32,
    uniform,
)  # fmt: skip

MAIN = (b1, i32, f32, f64, c128)
REALS = (i32, f32, f64)
ALL = (b1, i8, u8, i32, u32, i64, f16, bfloat16, f32, f64, c64, c128)
MASK = np.array([[True, False, True], [True, True, False]])
NAN = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, -1.0]])


def reduction(dtypes: tuple = ALL, *, initial: Any = None, where: bool = True, **kw: Any) -> Spec:
    options = [dict(axis=0), dict(axis=-1, keepdims=True), dict(axis=(0, 1)), dict(axis=())]
    if where:
        options.append(dict(where=MASK) | ({} if initial is None else dict(initial=initial)))
        options.append(
            dict(axis=1, where=MASK) | ({} if initial is None else dict(initial=initial))
        )
    if initial is not None:
        options.append(dict(initial=initial))
    empty = [] if initial is None else [r(A(f32, (0, 3)), axis=0, initial=initial)]
    return rows(
        over(dtypes, lambda d: r(A(d))),
        [r(A(d), **o) for o in options for d in (i32, f32, f64) if d in dtypes],
        [r(A(c128), axis=0)] if c128 in dtypes else [],
        r(A(f32, ())), r(A(f32, (2, 0, 3)), axis=0), r(A(f32, (2, 0)), axis=0), empty,
        **kw,
    )  # fmt: skip


def totals(d: tuple = ALL, **kw: Any) -> Spec:
    """Reductions with an identity, also over nothing."""
    return reduction(d, **kw)


def arg_reduction() -> Spec:
    return rows(
        over((b1, i32, u8, f16, f32, f64), lambda d: [r(A(d)), r(A(d), axis=0), r(A(d), axis=-1)]),
        r(A(f32), axis=1, keepdims=True), r(A(f32), keepdims=True), r(A(f32, (1,))),
        r(np.array([1.0, np.nan, 3.0], np.float32)),
    )  # fmt: skip


def cumulative(**kw: Any) -> Spec:
    return rows(
        over(ALL, lambda d: r(A(d))),
        over(MAIN, lambda d: [r(A(d), axis=0), r(A(d), axis=-1)]),
        r(A(i32), axis=1, dtype=np.float32), r(A(f32, (0, 3)), axis=0), r(A(f32, (3,))),
        **kw,
    )  # fmt: skip


def shaping(*calls: Any, dtypes: tuple = MAIN, shape: tuple = (2, 3), **kw: Any) -> Spec:
    """Functions that move elements: each call is a tuple of arguments after the array, or a dict."""
    found = []
    for given in calls:
        args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
        found += [r(A(d, shape), *args, **kwargs) for d in dtypes]
    return rows(found, **kw)


def nan_values(d: Any) -> np.ndarray:
    return NAN.astype(d)


def nan_reduction(**kw: Any) -> Spec:
    return rows(
        [r(nan_values(d), **o) for d in (f16, f32, f64)
         for o in (dict(), dict(axis=0), dict(axis=-1, keepdims=True))],
        [r(A(d), axis=0) for d in (i32, f32, c128)],
        **kw,
    )  # fmt: skip


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantiles(low: float) -> Spec:
    return rows(
        [r(A(d, (3, 4), distinct), 0.3 * low) for d in (i32, f16, f32, f64)],
        [r(A(d, (3, 4), distinct), np.array([0.1, 0.55], d) * low, axis=a, method=m)
         for m in METHODS for a in (0, -1) for d in (f32, f64)],
        r(A(f32, (3, 4), distinct), 0.5 * low, axis=(0, 1), keepdims=True),
        diff=(0,),
    )  # fmt: skip


def seq(*arrays: Any, **kw: Any) -> Any:
    return r(list(arrays), **kw)


def joining(*options: dict, dtypes: tuple = MAIN) -> Spec:
    return rows(
        [seq(A(d, (2, 2)), A(d, (2, 2)), **o) for o in (options or ({},)) for d in dtypes],
        [seq(A(i32, (2, 2)), A(f32, (2, 2))), seq(A(f32, (2, 2)), A(f64, (2, 2))), seq(A(f16, (2, 2)), A(i32, (2, 2)))],
        seq(A(f32, (2, 2))),
    )  # fmt: skip


def splitting(axis0: int) -> Spec:
    shape = (4, 4, 4)
    return rows(
        [r(A(d, shape), n) for n in (2, [1, 3], (1, 1, 6)) for d in (i32, f32, f64)],
    )


def window() -> Spec:
    return rows(r(0), r(1), r(2), r(7), modes=("narrow", WIDE))


def contraction(*shapes: tuple, dtypes: tuple = ALL, **kwargs: Any) -> Spec:
    return rows(
        over(dtypes, lambda d: r(A(d, shapes[0][0]), A(d, shapes[0][1]), **kwargs)),
        [r(A(d, a), A(d, b), **kwargs) for a, b in shapes[1:] for d in (i32, f32, f64)],
        [r(A(d, shapes[0][0]), A(e, shapes[0][1]), **kwargs)
         for d, e in ((i32, f32), (f16, f32), (f32, c64), (f32, f64), (bfloat16, f16))],
        ulps=32,
    )  # fmt: skip


def creation(*given: Any, **kw: Any) -> Spec:
    """Functions of numbers: in both widths, as no array says which."""
    return rows(*given, modes=(NARROW, WIDE), **kw)


DTYPES = (np.int32, np.float32, np.complex64, np.bool_, np.int8, np.float16)
POLY = (A(f64, (3,)), A(f64, (4,)))


def polys(*extra: Any, diff: Any = None) -> Spec:
    return rows(
        [r(A(d, (3,)), A(d, (4,))) for d in (i32, f32, f64, c128)],
        r(A(i32, (3,)), A(f32, (2,))), *extra, ulps=64, diff=diff,
    )  # fmt: skip


def sized(*args: Any, **kw: Any) -> Any:
    return r(*args, **kw)


def counts_as_floats(L: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
    counts, *edges = f(*args, **kwargs)
    return counts.astype(L.numpy.float32), *edges


INTS = lambda *s: A(i32, s, uniform(0, 4))
X5 = A(f64, (5,), distinct)
SETS = rows(
    [r(A(d, (6,)), A(d, (5,))) for d in (i32, f32, f64)], r(A(i32, (2, 3)), A(f32, (4,))), diff=()
)

NUMPY: dict[str, Spec] = {
    # reductions
    **each("sum", reduction(initial=2, ulps=32)),
    **each("prod", reduction(initial=2, ulps=64)),
    **each("max min amax amin", reduction((b1, i8, u8, i32, u32, i64, f16, bfloat16, f32, f64), initial=-1)),
    **each("any all", reduction()),
    **each("mean", reduction(ulps=32)),
    **each("var std", reduction(ulps=64, slope_ulps=2048)),
    **each("ptp", reduction((i32, f16, f32, f64), where=False)),
    **each("median", rows([r(A(d, s, distinct), **o) for d in (i32, f16, f32, f64) for s in ((3, 4), (3, 3)) for o in ({}, dict(axis=0), dict(axis=-1, keepdims=True))])),
    **each("average", rows(over(MAIN, lambda d: r(A(d))), [r(A(d), axis=1, weights=A(f64, (3,), positive)) for d in (f32, f64)], r(A(f32), weights=A(f32, (2, 3), positive), returned=True), ulps=32, diff=(0,))),
    **each("count_nonzero", rows(over(ALL, lambda d: [r(A(d)), r(A(d), axis=0), r(A(d), axis=-1, keepdims=True)]))),
    **each("argmax argmin", arg_reduction()),
    **each("nanargmax nanargmin", rows([r(nan_values(d), **o) for d in (f32, f64) for o in ({}, dict(axis=0), dict(axis=1, keepdims=True))], r(A(i32)), diff=())),
    **each("nansum nanprod nanmax nanmin nanmean", nan_reduction(ulps=32)),
    **each("nanvar nanstd", nan_reduction(ulps=128, slope_ulps=2048)),
    **each("nanmedian", rows([r(nan_values(d), **o) for d in (f32, f64) for o in ({}, dict(axis=0), dict(axis=1))], diff=())),
    **each("nanquantile", rows([r(nan_values(d), 0.4, **o) for d in (f32, f64) for o in ({}, dict(axis=0), dict(axis=1))], diff=())),
    **each("nanpercentile", rows([r(nan_values(d), 40.0, **o) for d in (f32, f64) for o in ({}, dict(axis=0), dict(axis=1))], diff=())),
    **each("quantile", quantiles(1.0)),
    **each("percentile", quantiles(100.0)),
    **each("cumsum cumprod", cumulative(ulps=32)),
    **each("nancumsum nancumprod", rows([r(nan_values(d), axis=a) for d in (f32, f64) for a in (None, 0, -1)], r(A(i32), axis=0), ulps=32)),
    **each("cumulative_sum cumulative_prod", rows(over(ALL, lambda d: r(A(d, (4,)))), [r(A(d), axis=1, include_initial=True) for d in (i32, f32, f64)], ulps=32)),
    **each("diff", shaping({}, dict(axis=0), dict(n=2), dict(prepend=1, append=2))),
    **each("ediff1d", shaping({}, dict(to_begin=1, to_end=2), dtypes=(i32, f32, f64))),
    **each("gradient", rows([r(A(d, (3, 4))) for d in (f32, f64)], [r(A(f64, (3, 4)), 0.5, axis=1), r(A(f64, (3, 4)), axis=(0, 1)), r(A(f64, (5,)), A(f64, (5,), increasing))], ulps=32)),
    **each("trapezoid", rows([r(A(d)) for d in (i32, f32, f64)], [r(A(f64), A(f64, (3,), increasing)), r(A(f64), dx=0.5, axis=0)], ulps=32)),
    **each("trace", shaping({}, dict(offset=1), dict(axis1=1, axis2=0), dict(offset=-1), shape=(3, 3))),
    **each("corrcoef cov", rows([r(A(d, (3, 5))) for d in (f32, f64, c128)], r(A(f64, (4,)), A(f64, (4,))), r(A(f64, (3, 5)), rowvar=False), ulps=512, slope_ulps=4096)),
    **each("unwrap", rows([r(A(d, (3, 4), uniform(-9, 9))) for d in (f32, f64)], r(A(f64, (5,), uniform(-9, 9)), discont=4.0), r(A(f64, (3, 4), uniform(-9, 9)), axis=0), ulps=32)),
    # shapes
    **each("reshape", shaping((6,), ((3, 2),), (-1,), dict(shape=(3, 2), order="F"))),
    **each("ravel", shaping({}, dict(order="F"))),
    **each("transpose permute_dims", shaping(((1, 0),))),
    **each("matrix_transpose fliplr", shaping({}, shape=(2, 2, 3))),
    **each("flipud", shaping({})),
    **each("swapaxes", shaping((0, 1), (-1, 0), shape=(2, 1, 3))),
    **each("moveaxis", shaping((0, -1), ((0, 1), (-1, 0)), shape=(2, 1, 3))),
    **each("rollaxis", shaping((2,), (1, 3), shape=(2, 1, 3))),
    **each("expand_dims", shaping((0,), (-1,), ((0, -1),))),
    **each("squeeze", shaping({}, dict(axis=1), dict(axis=(-1, 1)), shape=(2, 1, 3, 1))),
    **each("flip", shaping({}, dict(axis=0), dict(axis=(-1, 0)))),
    **each("rot90", shaping({}, dict(k=2), dict(k=-1, axes=(1, 0)))),
    **each("roll", shaping((1,), (-2, 1), ((1, 2), (0, 1)))),
    **each("broadcast_to", shaping(((2, 2, 3),), ((0, 2, 3),))),
    **each("tile", shaping((2,), ((2, 1, 2),))),
    **each("repeat", shaping((2,), dict(repeats=3, axis=0), dict(repeats=np.array([1, 0, 2]), axis=1), dict(repeats=np.array([1, 2]), axis=0, total_repeat_length=4))),
    **each("resize", shaping(((3, 4),), ((2,),))),
    **each("atleast_1d atleast_2d atleast_3d", rows([r(A(d, s)) for s in ((), (3,), (2, 3)) for d in (i32, f64)], r(A(f32), A(f32, ())), r(2))),
    **each("diag diagflat", rows([r(A(d, (3,)), k) for k in (0, 1, -2) for d in MAIN], [r(A(d, (3, 3))) for d in (i32, f64)])),
    **each("diagonal", shaping({}, dict(offset=1), dict(offset=-1, axis1=1, axis2=2), shape=(2, 3, 4))),
    **each("tril triu", shaping({}, (1,), (-1,), shape=(2, 3, 3))),
    **each("pad", rows([r(A(d), 1) for d in MAIN], [r(A(f64), ((1, 2), (0, 1)), mode=m) for m in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean", "minimum", "median", "empty") if m != "empty"], r(A(f64), 1, constant_values=2.5), r(A(f64), ((1, 0), (0, 2)), mode="reflect", reflect_type="odd"))),
    **each("copy asarray array", shaping({}, dtypes=ALL)),
    **each("astype", shaping((np.float32,), (np.int32,), (np.complex64,), (np.bool_,), dtypes=(b1, i32, f32, f64))),
    # joining
    **each("concatenate concat", joining({}, dict(axis=1), dict(axis=-1))),
    **each("stack", joining({}, dict(axis=1), dict(axis=-1))),
    **each("hstack vstack dstack column_stack", joining()),
    **each("block", rows([r([[A(d, (2, 2)), A(d, (2, 1))], [A(d, (1, 2)), A(d, (1, 1))]]) for d in (i32, f64)])),
    **each("append", rows([r(A(d), A(d), **o) for o in ({}, dict(axis=0)) for d in MAIN])),
    **each("split array_split", splitting(0)),
    **each("hsplit vsplit dsplit", splitting(0)),
    **each("unstack", shaping({}, dict(axis=1))),
    **each("insert", rows([r(A(d), 1, 5) for d in (i32, f32, f64)], r(A(f64), 1, A(f64, (2,)), axis=1), r(A(f64), np.array([0, 2]), A(f64, (2, 2)), axis=1))),
    **each("delete", shaping((1,), dict(obj=1, axis=1), dict(obj=np.array([0, 2]), axis=1))),
    **each("trim_zeros", rows([r(np.array([0, 0, 1, 2, 0], d), **o) for d in (i32, f32, f64) for o in ({}, dict(trim="f"), dict(trim="b"))], diff=())),
    **each("broadcast_arrays", rows(r(A(f32), A(i32, (1, 3))), r(A(f64, ()), A(f64)))),
    **each("meshgrid", rows(r(A(f32, (2,)), A(f64, (3,))), r(A(f64, (2,)), A(f64, (3,)), indexing="ij"), r(A(f64, (2,)), A(f64, (3,)), sparse=True))),
    **each("ix_", rows(r(INTS(2), INTS(3)), r(A(b1, (3,))), diff=())),
    # products
    **each("dot", contraction(((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,)), ((), (2, 3)), ((2, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)))),
    **each("matmul", contraction(((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)))),
    **each("inner", contraction(((2, 3), (4, 3)), ((3,), (3,)), ((), (3,)))),
    **each("outer", contraction(((2, 3), (4,)), ((), (3,)), ((0,), (3,)))),
    **each("vdot", contraction(((2, 3), (2, 3)), ((3,), (3,)))),
    **each("vecdot", contraction(((2, 3), (2, 3)), ((3,), (2, 3)))),
    **each("matvec", contraction(((2, 4, 3), (2, 3)), ((4, 3), (3,)))),
    **each("vecmat", contraction(((2, 4), (2, 4, 3)), ((4,), (4, 3)))),
    **each("kron", contraction(((2, 3), (2, 2)), ((3,), (2,)), ((2,), (2, 2)))),
    **each("cross", contraction(((2, 3), (2, 3)), ((3,), (2, 3)), ((2, 2), (2, 2)))),
    **each("tensordot", contraction(((2, 3), (2, 3)), ((2, 3, 2), (3, 2, 4)))),
    **each("convolve correlate", rows([r(A(d, (5,)), A(d, (3,)), mode=m) for m in ("full", "same", "valid") for d in (i32, f32, f64, c128)], r(A(i32, (2,)), A(f32, (4,))), ulps=64)),
    **each("einsum", rows([r(s, *(A(d, x) for x in xs)) for s, xs in (("ij,jk->ik", ((2, 3), (3, 2))), ("ii", ((3, 3),)), ("ij->j", ((2, 3),)), ("bij,bjk,k->bi", ((2, 2, 3), (2, 3, 2), (2,))), ("...i,...i", ((2, 3), (3,))), ("i,j", ((2,), (3,)))) for d in (i32, f32, f64, c128)], ulps=64)),
    # order
    **each("sort", rows([r(A(d, (3, 4))) for d in ALL], [r(A(d, (3, 4), distinct), axis=a) for a in (0, -1, None) for d in (i32, f64)], r(A(f64, (5,), distinct), descending=True), r(np.array([1, np.nan, -np.inf, 0]), diff=()))),
    **each("argsort", rows([r(A(d, (3, 4))) for d in ALL], [r(A(i32, (3, 4)), axis=a) for a in (0, None)], r(A(i32, (5,)), descending=True), r(np.array([1, np.nan, -np.inf, 0]), diff=()))),
    **each("sort_complex", rows([r(A(d, (5,))) for d in (i32, f32, f64, c128)], diff=())),
    **each("partition", rows([r(A(d, (3, 4), distinct), 2, call=lambda L, f, x, k, axis=-1: (lambda p: (L.numpy.take(p, 2, axis=axis), L.numpy.sort(p, axis=axis)))(f(x, k, axis=axis)), **o) for d in (i32, f32, f64) for o in ({}, dict(axis=0))])),
    **each("argpartition", rows([r(A(d, (3, 4), distinct), 2, call=lambda L, f, x, k: L.numpy.take_along_axis(x, f(x, k), axis=-1)[..., 2]) for d in (i32, f32)])),
    **each("lexsort", rows(r((INTS(6), INTS(6))), r(A(i32, (2, 5))), r((A(f32, (3, 4)), A(i32, (3, 4))), axis=0))),
    **each("searchsorted", rows([r(A(d, (6,), increasing), A(d, (2, 3), uniform(0, 5)), side=s) for s in ("left", "right") for d in (i32, f32, f64)], r(A(f32, (6,), increasing), 2), diff=())),
    **each("digitize", rows([r(A(d, (2, 3), uniform(0, 5)), A(d, (6,), increasing), right=s) for s in (False, True) for d in (i32, f32, f64)], diff=())),
    **each("unique", rows([r(INTS(8)), r(A(f32, (2, 3))), r(INTS(6), return_index=True, return_inverse=True, return_counts=True), r(INTS(3, 2), axis=0), r(INTS(6), size=5, fill_value=9)])),
    **each("unique_all unique_counts unique_inverse unique_values", rows(r(INTS(8)), r(A(b1)), r(INTS(6), size=6))),
    **each("union1d intersect1d setdiff1d setxor1d", SETS),
    **each("isin", SETS),
    **each("bincount", rows(r(INTS(8)), r(INTS(8), length=3), r(INTS(8), weights=A(f64, (8,))), r(INTS(8), minlength=9))),
    # Integers lie between the edges: one on an edge that is rounded goes either way.
    **each("histogram", rows([r(A(d, (9,))) for d in (f32, f64)], r(A(i32, (9,)), bins=7, range=(-3.5, 3.5)), r(A(f64, (9,)), bins=4, range=(-2.0, 2.0)), r(A(f64, (9,)), bins=A(f64, (5,), increasing), density=True), r(A(f64, (9,)), bins=3, weights=A(f64, (9,))), diff=(), ulps=32)),
    **each("histogram_bin_edges", rows([r(A(d, (9,)), bins=4) for d in (i32, f32, f64)], ulps=32)),
    **each("histogram2d", rows([r(A(d, (9,)), A(d, (9,)), bins=3, call=c) for c in (None, counts_as_floats) for d in (f32, f64)], diff=(), ulps=32)),
    **each("histogramdd", rows([r(A(d, (9, 2)), bins=3, call=c) for c in (None, counts_as_floats) for d in (f32, f64)], diff=(), ulps=32)),
    # indexing
    **each("take", rows([r(A(d, (4, 3)), INTS(2, 2), axis=0) for d in MAIN], r(A(f64, (4, 3)), 2), r(A(f64, (4, 3)), np.array([-1, 0]), axis=-1), [r(A(f64, (4, 3)), np.array([7, -9]), axis=0, mode=m) for m in ("clip", "wrap", "fill")])),
    **each("take_along_axis", rows([r(A(d, (4, 3)), INTS(2, 3), axis=0) for d in MAIN], r(A(f64, (4, 3)), A(i32, (4, 1), uniform(0, 2)), axis=-1))),
    **each("put_along_axis", rows([r(A(d, (4, 3)), np.array([[0, 1, 2]]), A(d, (1, 3)), axis=0, inplace=False) for d in (i32, f64)])),
    **each("put", rows([r(A(d, (4, 3)), np.array([0, -1, 5]), A(d, (3,)), inplace=False) for d in (i32, f64)], [r(A(f64, (4,)), np.array([9, -7]), 1.0, mode=m, inplace=False) for m in ("clip", "wrap")])),
    **each("place", rows([r(A(d, (2, 3)), MASK, A(d, (2,)), inplace=False) for d in (i32, f64)])),
    **each("fill_diagonal", rows([r(A(d, (3, 3)), 5, inplace=False) for d in (i32, f64)], r(A(f64, (4, 3)), 5.0, wrap=True, inplace=False))),
    **each("choose", rows([r(A(i32, (3,), uniform(0, 1)), [A(d, (3,)), A(d, (3,))]) for d in (i32, f32, f64)], r(np.array([5, -3]), [A(f64, (2,)), A(f64, (2,))], mode="clip"), r(np.array([5, -3]), [A(f64, (2,)), A(f64, (2,))], mode="wrap"))),
    **each("select", rows([r([A(b1, (3,)), A(b1, (3,))], [A(d, (3,)), A(d, (3,))], 7) for d in (i32, f32, f64)])),
    **each("where", rows([r(A(b1, (2, 1)), A(d), A(e)) for d in MAIN for e in (i32, f32, f64)], r(A(b1), A(f16), 2.5), r(A(b1), 1, 2.5), r(MASK), r(A(f32, ()), A(f64), A(f64)))),
    **each("compress", rows([r(np.array([True, False]), A(d), axis=0) for d in (i32, f64)], r(np.array([True, False, True]), A(f64)))),
    **each("extract", rows([r(MASK, A(d)) for d in (i32, f64)])),
    **each("nonzero argwhere flatnonzero", rows([r(A(d)) for d in (b1, i32, f32)], r(A(i32), size=4), r(A(i32), size=9, fill_value=-1))),
    **each("piecewise", rows(r(A(f64, (5,)), call=lambda L, f, x: f(x, [x < 0, x >= 0], [lambda t: -t, lambda t: 2 * t])), r(A(f32, (5,)), call=lambda L, f, x: f(x, [x < -1, x > 1], [0, 1, 5])))),
    **each("ravel_multi_index", rows(r((INTS(3), INTS(3)), (5, 6)), r((INTS(3), INTS(3)), (2, 6), mode="wrap"), r((INTS(3), INTS(3)), (2, 6), mode="clip"))),
    **each("unravel_index", rows(r(A(i32, (4,), uniform(0, 11)), (3, 4)), r(7, (3, 4)))),
    **each("clip", rows([r(A(d), lo, hi) for d in (i8, i32, f16, f32, f64) for lo, hi in ((-1, 1), (0, None), (None, 1.5))], r(A(f64), A(f64, (3,), uniform(-2, -1)), A(f64, (2, 1), uniform(1, 2))), r(A(u8), 1, 2))),
    **each("interp", rows([r(A(d, (2, 3), uniform(0, 5)), A(d, (6,), increasing), A(d, (6,))) for d in (f32, f64)], r(A(f64, (4,), uniform(-3, 9)), A(f64, (6,), increasing), A(f64, (6,)), left=-1, right=9), r(A(f64, (4,), uniform(-3, 9)), A(f64, (6,), increasing), A(f64, (6,)), period=4.0), ulps=64)),
    # creation
    **each("zeros ones", creation(r(3), r((2, 3)), [r((2,), dtype=d) for d in DTYPES], r((2,), float), r((0,), int), r((), complex))),
    **each("empty", creation(r(3, call=lambda L, f, *a, **k: (lambda x: (x.shape, x.dtype))(f(*a, **k))), r((2, 3), dtype=np.int8, call=lambda L, f, *a, **k: (lambda x: (x.shape, x.dtype))(f(*a, **k))))),
    **each("zeros_like ones_like", rows(over(ALL, lambda d: r(A(d))), r(A(f32), dtype=np.int32), r(A(f32), shape=(2,)))),
    **each("empty_like", rows(over(ALL, lambda d: r(A(d))), r(A(f32), shape=(2,)), call=lambda L, f, *a, **k: (lambda x: (x.shape, x.dtype))(f(*a, **k)))),
    **each("full", creation([r((2, 3), v) for v in (1, 2.5, True, 1j)], r((2,), 3, dtype=np.float32), r((2, 3), A(f32, (3,))))),
    **each("full_like", rows([r(A(d), v) for d in (i32, f32, f64) for v in (1, 2.5)], r(A(f32), 2, dtype=np.int32, shape=(4,)))),
    **each("eye", creation(r(3), r(2, 3, 1), r(3, k=-1, dtype=np.int32))),
    **each("identity tri", creation(r(3), r(3, dtype=np.int32))),
    **each("arange", creation(r(5), r(1, 7, 2), r(0.0, 1.0, 0.3), r(3.0), r(5, 0, -2), r(3, dtype=np.float32), r(2, 2), r(True), r(1, 4.0))),
    **each("linspace", creation(r(0, 1, 5), r(0.0, 2.0, 4, endpoint=False), r(1, 5, 3, dtype=np.int32), r(0, 1, 5, retstep=True), r(0, 1, 1), r(0, 1, 0), r(A(f64, (2,)), A(f64, (2,)), 4, axis=-1, modes=(WIDE,)), r(A(f32, (2,)), 3, 4), r(0, 1j, 3))),
    **each("logspace", creation(r(0, 1, 5), r(0.0, 2.0, 4, endpoint=False, base=2.0), r(A(f64, (2,)), A(f64, (2,)), 3, modes=(WIDE,)))),
    **each("geomspace", creation(r(1, 8, 4), r(1.0, 2.0, 4, endpoint=False), r(A(f64, (2,), positive), A(f64, (2,), positive), 3, modes=(WIDE,)), r(-1.0, -8.0, 4))),
    **each("bartlett blackman hamming hanning", window()),
    **each("kaiser", rows(r(0, 2.0), r(1, 2.0), r(6, 3.0), r(6, 0), modes=("narrow", WIDE), ulps=32)),
    **each("vander", shaping({}, dict(N=2), dict(increasing=True), shape=(3,), ulps=32)),
    **each("indices", creation(r((2, 3)), r((2, 3), sparse=True), r((2,), dtype=np.float32))),
    **each("diag_indices", creation(r(3), r(2, ndim=3))),
    **each("diag_indices_from tril_indices_from triu_indices_from", rows(r(A(f32, (3, 3))))),
    **each("tril_indices triu_indices", creation(r(3), r(3, 1), r(3, -1, 4))),
    **each("mask_indices", creation(r(3, call=lambda L, f, n: f(n, L.numpy.triu)), r(3, call=lambda L, f, n: f(n, L.numpy.tril, -1)))),
    **each("fromfunction", creation(r((2, 3), call=lambda L, f, s: f(lambda i, j: i + 2 * j, s)), r((2, 3), call=lambda L, f, s: f(lambda i, j: i * j, s, dtype=np.float32)))),
    **each("fromstring", creation(r("1 2 3", np.float32, sep=" "))),
    **each("frombuffer", creation(r(bytes(range(8)), np.int8), r(bytes(range(8)), np.int16, count=2, offset=2))),
    **each("from_dlpack", rows([r(A(d), call=lambda L, f, x: f(np.asarray(x).copy())) for d in (f32, i32)], diff=())),
    # polynomials
    **each("poly", rows([r(A(d, (3,))) for d in (f32, f64)], r(A(f64, (3, 3))), ulps=256, slope_ulps=2048)),
    **each("polyadd polysub polymul", polys()),
    **each("polyval", rows([r(A(d, (3,)), A(d, (2, 3))) for d in (i32, f32, f64, c128)], ulps=64)),
    **each("polyder", shaping({}, (2,), shape=(4,))),
    **each("polyint", shaping({}, (2,), dict(m=1, k=2.0), shape=(4,))),
    **each("polyfit", rows(r(A(f64, (6,), increasing), A(f64, (6,)), 2), r(A(f32, (6,), increasing), A(f32, (6,)), 2), ulps=4096, slope_ulps=1e5)),
    **each("roots", rows(r(np.array([1.0, -6.0, 11.0, -6.0])), r(np.array([1, 0, -4], np.float32)), call=lambda L, f, p: L.numpy.sort_complex(f(p)), ulps=4096, diff=())),
    # tests and facts
    **each("allclose array_equal array_equiv", rows([r(A(d), A(d)) for d in (i32, f32, f64)], r(NAN, NAN), r(A(f32), A(f32, (3, 2))), diff=())),
    **each("ndim shape size", rows(r(A(f32)), r(A(f32, ())), r(A(f64, (2, 0))))),
    **each("isscalar", rows(r(2), r(2.5), r(A(f32, ())), r(A(f32)), r("a"))),
    **each("iterable", rows(r(2), r(A(f32)), r([1]))),
    **each("broadcast_shapes", creation(r((2, 3), (3,)), r((2, 1), (1, 3), ()))),
    **each("result_type", rows(r(A(f32), A(i32)), r(A(f16), 2.5), r(np.int8, np.uint8), r(A(f32), A(f64)), r(A(i32), 1), r(A(i32), 1.0), r(True), diff=())),
    **each("promote_types", creation([r(a, b) for a in (np.int8, np.uint8, np.float16, np.bool_) for b in (np.int8, np.int32, np.float16, np.float32, np.complex64)])),
    **each("can_cast", creation(r(np.int8, np.int32), r(np.float32, np.int32), r(np.float32, np.int32, "unsafe"))),
    **each("issubdtype", creation(r(np.float32, np.floating), r(np.int32, np.floating), r(np.float32, np.inexact))),
    **each("isdtype", creation(r(np.dtype("float32"), "real floating"), r(np.dtype("int32"), ("integral", "bool")), r(np.dtype("int32"), np.dtype("int32")))),
    **each("einsum_path", rows([r("ij,jk,kl->il", A(f64, (2, 3)), A(f64, (3, 4)), A(f64, (4, 2)), call=c) for c in (lambda L, f, *a: f(*a)[0], lambda L, f, *a: [p for p in f(*a)[0] if p != "einsum_path"])], diff=())),
    # bits
    **each("packbits", rows([r(A(b1, (3, 9)), **o) for o in ({}, dict(axis=0), dict(axis=-1, bitorder="little"))], r(A(u8, (9,))))),
    **each("unpackbits", rows([r(A(u8, (3, 2), uniform(0, 255)), **o) for o in ({}, dict(axis=0), dict(axis=-1, bitorder="little", count=5))])),
    **each("ldexp", rows([r(A(d), A(i32)) for d in (f16, f32, f64)], r(A(i32), A(i32)), r(A(f64, ()), A(i32, (3,))))),
    # functions of functions
    **each("vectorize", rows(r(A(f64), A(f64, (3,)), call=lambda L, f, x, y: f(lambda a, b: a * b + 1)(x, y)), r(A(f64, (2, 3)), A(f64, (3,)), call=lambda L, f, x, y: f(lambda a, b: L.numpy.dot(a, b), signature="(n),(n)->()")(x, y)))),
    **each("apply_along_axis", rows([r(A(d, (3, 4)), call=lambda L, f, x: f(lambda v: L.numpy.cumsum(v) * 2, 0, x)) for d in (f32, f64)], r(A(f64, (3, 4)), call=lambda L, f, x: f(lambda v: v.sum(), 1, x)))),
    **each("apply_over_axes", rows([r(A(d, (2, 3, 2)), call=lambda L, f, x: f(L.numpy.sum, x, [0, 2])) for d in (f32, f64)])),
}  # fmt: skip

FACTORS = (A(f64, (6,)), A(f64, (3, 4)))


def transform(real: bool = False, ints: bool = True) -> Spec:
    kinds = (i32, f32, f64) if real else (i32, f32, f64, c64, c128)
    return rows(
        [r(A(d, (3, 4)), **o) for d in kinds
         for o in ({}, dict(n=3), dict(n=6, axis=0), dict(norm="ortho"), dict(norm="forward"))],
        r(A(f64, (2, 1))), ulps=64, slope_ulps=512,
    )  # fmt: skip


def transform_n(real: bool = False) -> Spec:
    kinds = (f32, f64) if real else (f32, f64, c64, c128)
    return rows(
        [r(A(d, (3, 4, 2)), **o) for d in kinds
         for o in ({}, dict(s=(3, 2), axes=(0, 1)), dict(axes=(-1, 0), norm="ortho"))],
        ulps=64, slope_ulps=512,
    )  # fmt: skip


FFT: dict[str, Spec] = {
    **each("fft ifft irfft hfft", transform(), "numpy.fft."),
    **each("rfft ihfft", transform(True), "numpy.fft."),
    **each("fft2 ifft2 irfft2 fftn ifftn irfftn", transform_n(), "numpy.fft."),
    **each("rfft2 rfftn", transform_n(True), "numpy.fft."),
    **each("fftshift ifftshift", shaping({}, dict(axes=0), shape=(3, 4)), "numpy.fft."),
    **each("fftfreq rfftfreq", creation(r(5), r(4, 0.5), r(6, d=2)), "numpy.fft."),
}
