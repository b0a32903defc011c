"""Complex numbers between real ones, and what a derivative of a complex function is asked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.errors import MgefnError
from tests.kinds.helpers import check, differences

RNG = np.random.default_rng(0)
W = np.exp(1j * RNG.uniform(0, 3, 4))

# Real functions of real numbers whose way leads through complex ones.
THROUGH_COMPLEX = {
    "filter": lambda xp, t: xp.mean(
        xp.abs((W + 1) / ((W - xp.exp(1j * t - 0.2)) * (W - xp.conj(xp.exp(1j * t - 0.2)))))
    ),
    "power of a phase": lambda xp, t: xp.sum(xp.abs(1 - xp.exp(1j * t)) ** 2),
    "parts": lambda xp, t: xp.sum(xp.real(xp.exp((1 + 2j) * t)) * xp.imag(t * (1j + t))),
    "angle": lambda xp, t: xp.sum(xp.angle(t + 2j)),
    "conj of a real": lambda xp, t: xp.sum(xp.conj(t) * t),
    "square root": lambda xp, t: xp.sum(xp.abs(xp.sqrt(t + 1j)) ** 3),
    "spectrum": lambda xp, t: xp.sum(xp.abs(xp.fft.fft(t) * W) ** 2),
    "products": lambda xp, t: xp.real((t * W) @ xp.conj(t * W)) + xp.imag(xp.sum(t * W) ** 2),
    "prod": lambda xp, t: xp.real(xp.prod(t + W)),
    "matrix": lambda xp, t: xp.real(xp.linalg.det(xp.outer(t, t) + xp.diag(W))),
    "made of parts": lambda xp, t: xp.sum(xp.abs((t + 1j * t * t) / (2 + 1j * t))),
    "widened": lambda xp, t: xp.sum(xp.real(t.astype(complex) * 1j * W)),
}


@pytest.mark.parametrize("name", THROUGH_COMPLEX)
def test_real_in_and_out_has_a_real_gradient(name):
    f = THROUGH_COMPLEX[name]
    x = RNG.uniform(0.4, 1.4, 4)
    check(lambda t: f(mnp, t), x, differences(lambda t: f(np, t), x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", THROUGH_COMPLEX)
def test_no_warning_of_a_part_that_is_lost(name):
    f = lambda t: THROUGH_COMPLEX[name](mnp, t)
    x = mnp.asarray(RNG.uniform(0.4, 1.4, 4), mnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.grad(mgefn.jit(f))):
            assert g(x).dtype == np.float32


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z * z,
        lambda z: mnp.exp(z),
        lambda z: mnp.sum(mnp.fft.fft(mnp.stack([z, z]))),
        lambda z: mnp.conj(z),
    ],
)
@pytest.mark.parametrize("transform", [mgefn.grad, mgefn.value_and_grad, mgefn.hessian])
def test_a_complex_result_is_refused_unless_asked_for(f, transform):
    with pytest.raises(MgefnError, match="holomorphic"):
        transform(f)(1j)
    with pytest.raises(MgefnError, match=r"holomorphic|real"):
        transform(lambda x: x * 1j)(1.0)


@pytest.mark.parametrize("unused", [True, False])
def test_outputs_of_an_inner_program_that_are_not_used(unused):
    """conj of a real number is the number, whatever else a program gives beside it."""
    inner = mgefn.jit(lambda a, b: (a * 2, mnp.conj(b), mnp.real(a + 0j)))
    f = (lambda x: inner(x, x)[1]) if unused else (lambda x: sum(inner(x, x)))
    check(f, np.float64(3.0), 1.0 if unused else 4.0)


def test_the_gradient_is_that_of_the_parts():
    """df/da - j df/db for z = a + jb, so that the real part of grad * v is the tangent along v."""
    functions = [
        lambda z: mnp.sum(mnp.abs(z) ** 2),
        lambda z: mnp.sum(mnp.real(z) * mnp.imag(z) ** 2),
        lambda z: mnp.real(mnp.sum(mnp.exp(1j * z) * mnp.conj(z))),
        lambda z: mnp.sum(mnp.angle(z) * mnp.abs(z)),
        lambda z: mnp.linalg.norm(z) + mnp.max(mnp.abs(z)),
    ]
    z = RNG.standard_normal(3) + 1j * RNG.standard_normal(3)
    v = RNG.standard_normal(3) + 1j * RNG.standard_normal(3)
    for f in functions:
        of_parts = lambda ab, f=f: f(ab[0] + 1j * ab[1])
        a, b = differences(of_parts, np.stack([z.real, z.imag]))
        g = np.asarray(mgefn.grad(f)(z))
        np.testing.assert_allclose(g, a - 1j * b, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(mgefn.jvp(f, (z,), (v,))[1], np.real(np.sum(g * v)), rtol=1e-9)
        np.testing.assert_allclose(mgefn.jit(mgefn.grad(f))(z), g, rtol=1e-12)


@pytest.mark.parametrize("op", [lambda x: x * 1.0, lambda x: x / 1.0, lambda x: 1.0 * x])
def test_compiled_programs_do_not_drop_a_factor_of_one(op):
    """inf * (1 + 0j) has inf * 0 in it: compiled and eager must tell the same."""
    x = mnp.asarray([complex(np.inf, 1), complex(1, np.nan), complex(-0.0, -0.0), 2 + 3j])
    np.testing.assert_array_equal(mgefn.jit(op)(x), op(x))
    for f in (mnp.sqrt, mnp.log):
        g = mgefn.grad(f, holomorphic=True)
        np.testing.assert_array_equal(mgefn.jit(g)(mnp.asarray(0j)), g(mnp.asarray(0j)))


@pytest.mark.parametrize(
    ("dtype", "size"), [("complex64", 1e-40), ("complex64", 3e38), ("complex128", 1e-310)]
)
def test_the_slope_of_a_modulus_is_a_direction_for_all_sizes(dtype, size):
    """Subnormal and huge numbers included, where a quotient of complex numbers overflows."""
    z = np.asarray([0.6 * size + 0.8j * size, -size, 1j * size, 0], dtype)
    slope = lambda z: mgefn.grad(lambda z: mnp.abs(z).sum())(z)
    want = np.array([0.6 - 0.8j, -1, -1j, 0])
    for f in (slope, mgefn.jit(slope)):
        np.testing.assert_allclose(f(z), want, rtol=2e-5, atol=1e-6)
    wave = lambda x0: (mnp.abs(mnp.exp(-((mnp.linspace(-9, 9, 50) - x0) ** 2) + 1j)) ** 2).sum()
    assert np.isfinite(mgefn.grad(wave)(np.float32(0.3)))
