"""mgefn.scipy.special against SciPy: values, edges, derivatives."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.special

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.scipy import special

EDGES = np.array(
    [
        -np.inf, -100.3, -10, -3.5, -1, -0.5, -1e-20, -0.0, 0, 1e-20, 0.1, 0.25, 0.5, 0.75, 0.999,
        1, 1.5, 2, 3, 10, 30.5, 100, 1e5, np.inf, np.nan,
    ]
)  # fmt: skip

UNARY = """erf erfc erfcx erfinv ndtr ndtri log_ndtr dawsn gamma gammaln loggamma gammasgn digamma
logit expit entr i0 i0e i1 i1e expi exp1 spence factorial""".split()
RENAMED = {"digamma": "psi"}
BINARY = "xlogy xlog1py rel_entr kl_div owens_t gammainc gammaincc".split()


def close(got, want, dtype):
    got = np.asarray(got)
    assert got.dtype == dtype
    # In float32 SciPy's own kernels are used, and what lies outside its range is infinite.
    with np.errstate(over="ignore"):
        want = np.asarray(want).astype(dtype)
    np.testing.assert_allclose(
        got, want, rtol=1e-5 if dtype == "f" else 5e-13, atol=1e-6 if dtype == "f" else 1e-15
    )


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    x = EDGES.astype(dtype)
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, RENAMED.get(name, name))(x.astype("d"))
    close(getattr(special, name)(x), want, dtype)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    x = EDGES.astype(dtype)
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(x[:, None].astype("d"), x.astype("d"))
    got = getattr(special, name)(x[:, None], x)
    if name == "kl_div" and dtype == "f":
        got, want = got[np.isfinite(want)], want[np.isfinite(want)]
    close(got, want, dtype)


def test_betaln_of_large_arguments():
    a = np.array([1e4, 1e6, 2.0, 20, 1e8, 0.5, 11])
    b = np.array([2.0, 1e6, 3e7, 15, 0.5, 0.5, 11])
    np.testing.assert_allclose(special.betaln(a, b), scipy.special.betaln(a, b), rtol=1e-12)
    np.testing.assert_allclose(
        special.betaln(a.astype("f"), b.astype("f")), scipy.special.betaln(a, b), rtol=1e-6
    )
    np.testing.assert_allclose(special.beta(0.5, -0.7), scipy.special.beta(0.5, -0.7), rtol=1e-5)


def test_comb_of_integers_is_an_integer():
    n, k = np.arange(25.0)[:, None], np.arange(-1.0, 26)
    want = scipy.special.comb(n, k)
    np.testing.assert_array_equal(special.comb(n, k), np.rint(want))
    k = k[1:]
    np.testing.assert_allclose(
        special.comb(n, k, repetition=True), scipy.special.comb(n, k, repetition=True), rtol=1e-12
    )


def test_poch_and_boxcox():
    z, m = np.array([-1.0, -3, -3, 100, 1e4, 5]), np.array([2.0, 2, 3, 3, 2.5, 0])
    np.testing.assert_allclose(special.poch(z, m), scipy.special.poch(z, m), rtol=1e-10)
    x, lmbda = np.array([0.0, 0.5, 1, 7])[:, None], np.array([-1.5, 0.5, 0, 1e-9, 0.01, 2])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            special.boxcox(x, lmbda), scipy.special.boxcox(x, lmbda), rtol=1e-10
        )
    np.testing.assert_allclose(
        special.boxcox1p(x, lmbda), scipy.special.boxcox1p(x, lmbda), rtol=1e-10
    )
    # log(x)**2 / 2 at lmbda = 0
    slope = mgefn.grad(special.boxcox, 1)(mnp.array(3.0), mnp.array(0.0))
    np.testing.assert_allclose(slope, np.log(3) ** 2 / 2, rtol=1e-6)


def test_pairs_and_orders():
    x = np.linspace(0.1, 5, 9)
    for got, want in zip(special.sici(x), scipy.special.sici(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    for got, want in zip(special.fresnel(x), scipy.special.fresnel(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    orders = np.arange(4)[:, None]
    np.testing.assert_allclose(special.bessel_jn(x, v=3), scipy.special.jv(orders, x))
    np.testing.assert_allclose(special.expn(orders, x), scipy.special.expn(orders, x))
    np.testing.assert_allclose(special.polygamma(2, x), scipy.special.polygamma(2, x))
    np.testing.assert_allclose(special.zeta(x + 1), scipy.special.zeta(x + 1))
    np.testing.assert_allclose(special.multigammaln(x + 3, 3), [
        scipy.special.multigammaln(v + 3, 3) for v in x
    ])  # fmt: skip
    np.testing.assert_allclose(special.bernoulli(8), scipy.special.bernoulli(8), rtol=1e-6)


def test_complex():
    z = np.array([0.3 + 1j, -2.5 + 0.1j, 4 - 3j])
    np.testing.assert_allclose(special.loggamma(z), scipy.special.loggamma(z))
    np.testing.assert_allclose(special.wofz(z), scipy.special.wofz(z))


@pytest.mark.parametrize("m", [-4, -3, -1, 0, 2, 3])
def test_spherical_harmonics(m):
    n, theta, phi = np.arange(4)[:, None], np.array([0.1, 0.7, 2.9]), np.array([0.3, 1.0, -2])
    want = np.where(abs(m) <= n, scipy.special.sph_harm_y(n, m, theta, phi), 0)
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), want, atol=1e-14)
    jitted = mgefn.jit(special.sph_harm_y, static_argnames="n_max")
    np.testing.assert_allclose(jitted(n, m, theta, phi, n_max=3), want, atol=1e-14)


SMOOTH = {
    "erfcx": (-3, 80), "ndtr": (-5, 5), "ndtri": (0.01, 0.99), "log_ndtr": (-30, 8),
    "dawsn": (-80, 80), "gamma": (0.1, 6), "logit": (0.05, 0.95), "entr": (0.01, 3), "i0": (-3, 3),
    "i1": (-3, 3), "expi": (0.1, 4), "exp1": (0.1, 4), "spence": (0.1, 4), "factorial": (0.1, 5),
}  # fmt: skip
SMOOTH_PAIRS = {
    "xlogy": (0.1, 3), "xlog1py": (0.1, 3), "rel_entr": (0.1, 3), "kl_div": (0.1, 3),
    "betaln": (0.1, 60), "beta": (0.1, 5), "boxcox": (0.01, 2), "poch": (0.5, 15),
    "owens_t": (0.1, 2),
}  # fmt: skip


def differences(f, x, h=1e-6):
    return (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    f = getattr(special, name)
    x = np.random.default_rng(0).uniform(*SMOOTH[name], 20)
    first = mgefn.vmap(mgefn.grad(f))
    second = mgefn.jit(mgefn.vmap(mgefn.grad(mgefn.grad(f))))
    np.testing.assert_allclose(first(x), differences(f, x), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(second(x), differences(first, x), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", SMOOTH_PAIRS)
def test_derivatives_of_pairs(name):
    f = getattr(special, name)
    rng = np.random.default_rng(1)
    a, b = rng.uniform(*SMOOTH_PAIRS[name], (2, 20))
    b[:5] = a[:5]  # where a comparison might choose
    for k in (0, 1):
        g = mgefn.vmap(mgefn.grad(f, k))
        want = differences(lambda t, k=k: f(t, b) if k == 0 else f(a, t), (a, b)[k])
        np.testing.assert_allclose(g(a, b), want, rtol=2e-5, atol=1e-7)
        gg = mgefn.vmap(mgefn.grad(mgefn.grad(f, k), k))
        want = differences(lambda t, k=k, g=g: g(t, b) if k == 0 else g(a, t), (a, b)[k])
        np.testing.assert_allclose(gg(a, b), want, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div"])
def test_no_nan_gradients_at_zero(name):
    x, y = np.zeros(4), np.array([0.0, -1, np.inf, 2])
    for k in (0, 1):
        g = mgefn.vmap(mgefn.grad(getattr(special, name), k))(x, y)
        assert np.isfinite(np.asarray(g)).all()


def test_derivatives_far_out():
    """Where a formula would cancel or overflow."""
    np.testing.assert_allclose(mgefn.grad(special.log_ndtr)(mnp.float32(-1e4)), 1e4, rtol=1e-5)
    np.testing.assert_allclose(
        mgefn.grad(special.erfcx)(mnp.float32(1e3)), -1 / np.sqrt(np.pi) * 1e-6, rtol=1e-5
    )
    assert mgefn.grad(special.entr)(0.0) == np.inf


def test_refusals():
    with pytest.raises(errors.ArgumentError, match="exact must be False"):
        special.factorial(3, exact=True)
    with pytest.raises(errors.DTypeError, match="logit: needs real"):
        special.logit(1j)
    with pytest.raises(errors.ArgumentError, match="multigammaln: d must be an integer"):
        special.multigammaln(2.0, 0)
    with pytest.raises(errors.ArgumentError, match="n_max must be given"):
        mgefn.jit(special.sph_harm_y)(1, 0, 0.5, 0.5)


def test_nothing_is_loaded_before_it_is_named():
    code = (
        "import sys, mgefn; assert 'mgefn.scipy' not in sys.modules; mgefn.scipy; "
        "assert 'mgefn.scipy.special' not in sys.modules; mgefn.scipy.special.erf; "
        "mgefn.scipy.stats, mgefn.scipy.signal, mgefn.scipy.linalg, mgefn.scipy.optimize, "
        "mgefn.scipy.sparse, mgefn.scipy.interpolate, mgefn.scipy.ndimage; "
        "assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "stats" in dir(mgefn.scipy)
