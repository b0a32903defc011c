"""mgefn.scipy besides linalg."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import WIDE, Spec
from tests.peers.rows import (
    A,
    c128,
    each,
    f16,
    f32,
    f64,
    i32,
    increasing,
    positive,
    r,
    rows,
    spd,
    uniform,
    unit,
    well,
)  # fmt: skip
from tests.peers.specs_elementwise import FLOATS, binary, unary
from tests.peers.specs_numpy import MASK

S = "scipy.special."
FLOAT_PAIRS = (
    (np.int32, np.int32), (np.int32, np.float32), (np.float16, np.float16),
    (np.float32, np.float32), (np.float64, np.float64), (np.float32, np.float64),
)  # fmt: skip


def two(low: Any = (0.2, 0.2), high: Any = (2.5, 2.5), ints: bool = True, **kw: Any) -> Spec:
    """Expensive to compile in JAX, so with fewer shapes and scalars than `binary` has."""
    pairs = FLOAT_PAIRS if ints else FLOAT_PAIRS[1:]
    shapes = (((2, 3), (3,)), ((), ()))
    near = dict(ulps=64, scale="all", slope_ulps=8192) | kw
    return binary(pairs, low, high, at_edges=False, scalars=(0.5,), shapes=shapes, **near)


def special(low: float = -3.0, high: float = 3.0, dtypes: Any = (i32, *FLOATS), **kw: Any) -> Spec:
    return unary(
        dtypes, low, high, at_edges=False, **(dict(ulps=64, scale="all", slope_ulps=1024) | kw)
    )


def three(*hows: Any, **kw: Any) -> Spec:
    return rows(
        [
            r(*(A(d, s, how) for how, s in zip(hows, ((2, 3), (3,), (), (3,)), strict=False)))
            for d in (f32, f64)
        ],
        r(*(A(f32, (), how) for how in hows)),
        **(dict(ulps=128, slope_ulps=2048) | kw),
    )


K = lambda lo, hi: uniform(lo, hi)
SPECIAL: dict[str, Spec] = {
    **each("erf erfc expit i0 i0e i1 i1e dawsn erfcx ndtr log_ndtr", special(), S),
    **each("gamma digamma gammasgn", special(0.2, 5.0), S),
    # Not at 1 and 2, where the result is 0 and JAX's has rounding in it.
    **each("gammaln loggamma", special(0.2, 5.0, scalars=(0.5,)), S),
    **each("entr expi exp1", special(0.2, 4.0), S),
    **each("spence", special(0.2, 1.8), S),
    **each("erfinv", special(-0.9, 0.9), S),
    **each("logit ndtri", special(0.05, 0.95), S),
    **each("fresnel sici", special(0.2, 3.0, (f32, f64)), S),
    **each("wofz", rows([r(A(d)) for d in (c128, np.complex64)], ulps=128, slope_ulps=2048), S),
    # Not of two integers: betaln(1, 1) is 0, and JAX's has rounding in it.
    **each("beta betaln poch", two(ints=False), S),
    **each("xlogy xlog1py kl_div rel_entr", two(), S),
    **each("boxcox boxcox1p", two(high=(2.5, 1.5)), S),
    **each("gammainc gammaincc", two(ulps=256), S),
    **each("zeta", two((1.5, 0.5), (5.0, 3.0)), S),
    **each("polygamma", rows([r(n, A(d, (2, 3), positive)) for n in (0, 1, 2) for d in (f32, f64)], ulps=256, slope_ulps=4096), S),
    **each("betainc", three(positive, positive, unit, ulps=512, diff=(2,)), S),
    **each("hyp1f1", three(positive, positive, unit, ulps=512, diff=(2,)), S),
    **each("hyp2f1", three(positive, positive, uniform(1, 2), uniform(0.05, 0.5), ulps=512, diff=()), S),
    **each("owens_t", two(), S),
    **each("expn", rows([r(n, A(d, (2, 3), positive)) for n in (1, 2, 3) for d in (f32, f64)], ulps=256, slope_ulps=4096), S),
    **each("comb", rows(r(A(i32, (3,), uniform(3, 8)), 2), r(A(f32, (3,), uniform(3, 8)), A(f32, (3,), uniform(0, 3))), r(5, 2, repetition=True), diff=(), ulps=128), S),
    **each("factorial", rows(r(A(i32, (3,), uniform(0, 6))), r(A(f32, (3,), uniform(0, 6))), r(5), diff=(), ulps=64), S),
    **each("bernoulli", rows(r(0), r(6), ulps=32, modes=("narrow", WIDE)), S),
    **each("bessel_jn", rows([r(A(d, (3,), positive), v=3) for d in (f32, f64)], ulps=4096, diff=()), S),
    **each("multigammaln", rows([r(A(d, (3,), uniform(3, 6)), 2) for d in (f32, f64)], ulps=128), S),
    **each("sph_harm_y", rows([r(np.array([1, 2, 3], np.int32), np.array([0, 1, -2], np.int32), A(d, (3,), unit), A(d, (3,), unit), n_max=3) for d in (f32, f64)], ulps=512, diff=()), S),
    **each("softmax log_softmax", rows([r(A(d), **o) for o in ({}, dict(axis=0), dict(axis=-1)) for d in (i32, f16, f32, f64)], ulps=32), S),
    **each("logsumexp", rows([r(A(d), **o) for o in ({}, dict(axis=0), dict(axis=-1, keepdims=True), dict(axis=1, where=MASK)) for d in (i32, f16, f32, f64, c128)], r(A(f64), b=A(f64, (3,), positive)), r(A(f64), b=A(f64), return_sign=True), r(np.array([-np.inf, -np.inf])), ulps=32, diff=(0,)), S),
}  # fmt: skip

T = "scipy.stats."


def law(
    name: str, functions: str, x: Any, *params: Any, loc: bool = True, q: bool = True, **kw: Any
) -> dict[str, Spec]:
    """A distribution: densities of x; quantile functions of numbers in (0, 1)."""
    found = {}
    for f in functions.split():
        first = unit if f in ("ppf", "isf") else x
        hows = (first, *params)
        given = [
            r(*(A(d, s, how) for how, s in zip(hows, ((2, 3), (3,), (), ()), strict=False)))
            for d in (f32, f64)
        ]
        # Of integers only 0 and 1 are probabilities, the ends of the quantile functions.
        given += (
            []
            if first is unit
            else [r(*(A(i32, (2, 3), how) if how is first else A(f32, (), how) for how in hows))]
        )
        if loc is True:
            given += [r(*(A(f64, (3,), how) for how in hows), loc=0.25, scale=1.5)]
        elif loc == "only":
            given += [r(*(A(f64, (3,), how) for how in hows), loc=1)]
        found[f"{T}{name}.{f}"] = rows(given, **(dict(ulps=256, slope_ulps=4096) | kw))
    return found


def counts(low: float, high: float) -> Any:
    return lambda rng, shape, dtype: np.asarray(
        rng.integers(int(low), int(high) + 1, shape)
    ).astype(dtype)


SIMPLEX = np.array([0.2, 0.3, 0.5])
CDFS = "cdf logcdf logpdf logsf pdf sf"
STATS: dict[str, Spec] = {
    **law("norm", CDFS + " isf ppf", uniform()),
    **law("cauchy", CDFS + " isf ppf", uniform()),
    **law("expon", CDFS + " ppf", positive),
    **law("gumbel_l", CDFS + " ppf", uniform()),
    **law("gumbel_r", CDFS + " ppf", uniform()),
    **law("laplace", "cdf logpdf pdf", uniform()),
    **law("logistic", "cdf isf logpdf pdf ppf sf", uniform()),
    **law("uniform", "cdf logpdf pdf ppf", unit),
    **law("beta", CDFS, unit, positive, positive, diff=(0,)),
    **law("gamma", CDFS, positive, positive, diff=(0,)),
    **law("chi2", CDFS, positive, positive, diff=(0,)),
    **law("pareto", CDFS + " ppf", uniform(1.3, 3.0), positive),
    **law("t", "logpdf pdf", uniform(), positive),
    **law("truncnorm", CDFS, unit, uniform(-2, -1), uniform(1, 2), loc=False, diff=(0,)),
    **law("gennorm", "cdf logpdf pdf", uniform(), positive, loc=False, diff=(0,)),
    **law("vonmises", "logpdf pdf", uniform(), positive, loc=False),
    **law("wrapcauchy", "logpdf pdf", uniform(0.1, 3.0), unit, loc=False),
    **law("bernoulli", "logpmf pmf", counts(0, 2), unit, loc="only", diff=(1,)),
    **law("bernoulli", "cdf", uniform(-1, 2), unit, loc=False, diff=()),
    **law("bernoulli", "ppf", unit, unit, loc=False, diff=()),
    **law("geom", "logpmf pmf", counts(0, 4), unit, loc="only", diff=(1,)),
    **law("poisson", "logpmf pmf", counts(-1, 4), positive, loc="only", diff=(1,)),
    **law("poisson", "cdf", counts(-1, 4), positive, loc="only", diff=()),
    f"{T}poisson.entropy": rows([r(A(d, (3,), positive)) for d in (f32, f64)], r(A(f64, (2,), uniform(20, 150))), diff=(), ulps=1024),
    **law("binom", "logpmf pmf", counts(-1, 4), counts(4, 6), unit, loc="only", diff=(2,)),
    **law("nbinom", "logpmf pmf", counts(0, 4), positive, unit, loc="only", diff=(1, 2)),
    # Inside of the support: outside JAX's -inf has slopes.
    **law("betabinom", "logpmf pmf", counts(1, 4), counts(4, 6), positive, positive, loc="only", diff=(2, 3)),
    **{f"{T}multinomial.{f}": rows([r(np.array(x, np.int32), 5, SIMPLEX.astype(d), diff=(2,)) for x in ([1, 2, 2], [0, 5, 0], [1, 1, 1]) for d in (f32, f64)], ulps=256) for f in ("logpmf", "pmf")},
    **{f"{T}dirichlet.{f}": rows([r(SIMPLEX.astype(d), A(d, (3,), positive), diff=(1,)) for d in (f32, f64)], ulps=256) for f in ("logpdf", "pdf")},
    **{f"{T}multivariate_normal.{f}": rows([r(A(d, (2, 3)), A(d, (3,)), A(d, (3, 3), spd), diff=(0, 1)) for d in (f32, f64)], r(A(f64, (3,)), 0.5, 2.0), ulps=256, slope_ulps=4096) for f in ("logpdf", "pdf")},
    **each("mode", rows([r(A(i32, (4, 3)), **o) for o in ({}, dict(axis=1), dict(axis=None), dict(keepdims=True))], r(A(f32, (5,)))), T),
    **each("rankdata", rows([r(A(d, (3, 4)), m, **o) for m in ("average", "min", "max", "dense", "ordinal") for o in ({}, dict(axis=0)) for d in (i32, f32)]), T),
    **each("sem", rows([r(A(d, (3, 4)), **o) for o in ({}, dict(axis=1), dict(ddof=0), dict(axis=None), dict(keepdims=True)) for d in (i32, f32, f64)], ulps=256, slope_ulps=4096), T),
    **each("gaussian_kde", rows([r(A(d, (2, 9)), A(d, (2, 4)), call=lambda L, f, x, at: (lambda k: (k.evaluate(at), k.logpdf(at), k.covariance, k.integrate_gaussian(L.numpy.zeros(2, at.dtype), L.numpy.eye(2, dtype=at.dtype))))(f(x))) for d in (f32, f64)], [r(A(f64, (9,)), m, call=lambda L, f, x, m: (lambda k: (k.integrate_box_1d(-1.0, 1.0), k.evaluate(L.numpy.zeros(2, x.dtype)), k.factor if hasattr(k, "factor") else k.neff))(f(x, bw_method=m))) for m in ("scott", "silverman", 0.5)], ulps=2048, slope_ulps=1e5), T),
}  # fmt: skip

MODES = ("full", "same", "valid")
QUADRATIC = np.array([[3.0, 1.0], [1.0, 2.0]])


def bowl(L: Any, x: Any) -> Any:
    a = L.numpy.array(QUADRATIC, x.dtype)
    return 0.5 * x @ a @ x - x.sum()


def solved(L: Any, f: Any, a: Any, b: Any, **k: Any) -> Any:
    return f(lambda v: a @ v, b, **k)[0]


def linear_solver(how: Any) -> Spec:
    return rows(
        [
            r(A(d, (4, 4), how), A(d, (4,)), tol=t, call=solved)
            for d, t in ((f32, 1e-6), (f64, 1e-13))
        ],
        r(
            A(f64, (4, 4), how),
            A(f64, (4,)),
            tol=1e-13,
            call=lambda L, f, a, b, **k: f(a, b, **k)[0],
        ),
        ulps=4096,
        slope_ulps=1e5,
    )


SIGNAL = dict(nperseg=8)
OTHER: dict[str, Spec] = {
    **each("dct idct", rows([r(A(d, (3, 4)), **o) for o in ({}, dict(axis=0), dict(norm="ortho"), dict(n=3), dict(n=6)) for d in (i32, f32, f64)], ulps=128, slope_ulps=1024), "scipy.fft."),
    **each("dctn idctn", rows([r(A(d, (3, 4)), **o) for o in ({}, dict(axes=(0,)), dict(norm="ortho"), dict(s=(2, 5))) for d in (f32, f64)], ulps=128, slope_ulps=1024), "scipy.fft."),
    **each("convolve correlate fftconvolve", rows([r(A(d, (5, 4)), A(d, (3, 2)), mode=m) for m in MODES for d in (f32, f64, c128)], r(A(i32, (5,)), A(i32, (3,))), r(A(f64, (5,)), A(f64, (7,)), mode="same"), ulps=256, slope_ulps=1024), "scipy.signal."),
    **each("convolve2d correlate2d", rows([r(A(d, (5, 4)), A(d, (3, 2)), mode=m) for m in MODES for d in (f32, f64, c128)], r(A(i32, (5, 4)), A(i32, (2, 2))), ulps=64), "scipy.signal."),
    **each("detrend", rows([r(A(d, (3, 6)), **o) for o in ({}, dict(axis=0), dict(type="constant"), dict(bp=3)) for d in (f32, f64)], ulps=1024, slope_ulps=4096), "scipy.signal."),
    **each("csd", rows([r(A(d, (24,)), A(d, (24,)), **SIGNAL) for d in (f32, f64)], r(A(f64, (2, 24)), A(f64, (2, 24)), average="median", **SIGNAL), ulps=1024, slope_ulps=4096), "scipy.signal."),
    **each("welch", rows([r(A(d, (24,)), **SIGNAL, **o) for o in ({}, dict(fs=2.0), dict(scaling="spectrum"), dict(detrend=False, window="boxcar")) for d in (f32, f64)], ulps=1024, slope_ulps=4096), "scipy.signal."),
    **each("stft", rows([r(A(d, (24,)), **SIGNAL, **o) for o in ({}, dict(boundary=None), dict(padded=False, fs=3.0)) for d in (f32, f64)], ulps=512, slope_ulps=4096), "scipy.signal."),
    **each("istft", rows([r(A(d, (5, 7)), **SIGNAL) for d in (np.complex64, c128)], ulps=1024, slope_ulps=1e4), "scipy.signal."),
    **each("trapezoid", rows([r(A(d)) for d in (i32, f32, f64)], r(A(f64), A(f64, (3,), increasing)), r(A(f64), dx=0.5, axis=0), ulps=32), "scipy.integrate."),
    **each("RegularGridInterpolator", rows([r(A(d, (4, 5)), A(d, (3, 2), uniform(0, 3)), m, call=lambda L, f, v, x, m: f((L.numpy.arange(4.0, dtype=v.dtype), L.numpy.arange(5.0, dtype=v.dtype)), v, method=m)(x)) for m in ("linear", "nearest") for d in (f32, f64)], r(A(f64, (4,)), np.array([[-1.0], [5.0], [1.5]]), call=lambda L, f, v, x: f((L.numpy.arange(4.0, dtype=v.dtype),), v, bounds_error=False, fill_value=7.0)(x)), ulps=128), "scipy.interpolate."),
    **each("map_coordinates", rows([r(A(d, (4, 5)), [A(f64, (6,), uniform(-2, 6)), A(f64, (6,), uniform(-2, 6))], order=o, mode=m, diff=(0,) if d is f64 else ()) for o in (0, 1) for m in ("constant", "nearest", "wrap", "mirror", "reflect") for d in (f32, f64)], r(A(i32, (4,)), [A(f32, (3,), uniform(0, 3))], 1), ulps=128), "scipy.ndimage."),
    **each("minimize", rows([r(A(d, (2,)), call=lambda L, f, x: (lambda o: (L.numpy.round(o.x, 3), o.success))(f(lambda v: bowl(L, v), x, method="BFGS"))) for d in (f32, f64)], diff=(), ulps=1e4), "scipy.optimize."),
    **each("cg", linear_solver(spd), "scipy.sparse.linalg."),
    **each("bicgstab gmres", linear_solver(well), "scipy.sparse.linalg."),
    **each("vq", rows([r(A(d, (6, 2)), A(d, (3, 2))) for d in (f32, f64)], r(A(f64, (6,)), A(f64, (3,))), diff=(), ulps=64), "scipy.cluster.vq."),
}  # fmt: skip
