"""Slopes of spectra, convolutions against loops, pooling that does not count its padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from tests.kinds.helpers import check, differences

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_slopes_of_spectra_with_masks_of_no_symmetry(name, n):
    """A conjugate that is missing shows only where the mask is not symmetric."""
    x = RNG.standard_normal(n)
    given = {"n": max(n, 2) if name in ("irfft", "hfft") else n}
    size = len(getattr(np.fft, name)(x, **given))
    w, m = RNG.standard_normal(size), (np.arange(size) < (size + 1) // 2) * 1.0

    def f(xp, v):
        s = getattr(xp.fft, name)(v, **given)
        return xp.sum(m * xp.abs(s) ** 2) + xp.sum(w * xp.real(s)) + xp.sum(w * m * xp.imag(s))

    check(lambda v: f(mnp, v), x, differences(lambda v: f(np, v), x), 1e-6, 1e-7)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_real_spectra_there_and_back(n):
    """The first bin counts once, for even lengths the last one too, the others twice."""
    x, w = RNG.standard_normal(n), RNG.standard_normal(n)
    c = RNG.standard_normal(n // 2 + 1)

    def f(xp, v):
        s = xp.fft.rfft(v)
        return xp.sum(xp.fft.irfft(s * c, n=n) * w) + xp.sum(xp.abs(s) ** 2 * c)

    check(lambda v: f(mnp, v), x, differences(lambda v: f(np, v), x), 1e-6, 1e-7)


@pytest.mark.parametrize("axes", [None, (0, 1), (1, 0), (-1, 0), (0, 1, 2), (2,)])
@pytest.mark.parametrize("name", ["irfftn", "rfftn", "fftn", "ifftn"])
def test_spectra_of_several_axes_of_any_array(name, axes):
    z = RNG.standard_normal((4, 6, 5)) + 1j * RNG.standard_normal((4, 6, 5))
    z = z.real if name == "rfftn" else z
    f = lambda xp, v: getattr(xp.fft, name)(v, axes=axes)
    for g in (lambda v: f(mnp, v), mgefn.jit(lambda v: f(mnp, v))):
        np.testing.assert_allclose(g(z), f(np, z), atol=1e-12)


def convolved(x, w, stride, pad, dilation, groups):
    """x (N, C, H, W), w (O, C / groups, kh, kw), by loops."""
    x = np.pad(x, ((0, 0), (0, 0), pad, pad))
    n, _, height, width = x.shape
    o, per_group, kh, kw = w.shape
    oh = (height - dilation * (kh - 1) - 1) // stride + 1
    ow = (width - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, oh, ow))
    for i, j, q in itertools.product(range(oh), range(ow), range(o)):
        rows = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
        columns = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
        g = q // (o // groups)
        part = x[:, g * per_group : (g + 1) * per_group, rows, columns]
        y[:, q, i, j] = (part * w[q]).sum((1, 2, 3))
    return y


SETTINGS = [
    (1, (0, 0), 1, 1), (2, (1, 0), 1, 1), (1, (2, 1), 2, 1), (1, (1, 1), 1, 2), (2, (0, 3), 2, 4),
    (3, (0, 0), 1, 1), (2, (-1, 1), 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("stride, pad, dilation, groups", SETTINGS)
def test_convolutions_are_loops_and_so_are_their_slopes(stride, pad, dilation, groups):
    """Seven is no whole number of strides: some of the edge is never read."""
    x, w = RNG.standard_normal((2, 4, 7, 7)), RNG.standard_normal((4, 4 // groups, 3, 3))
    given = dict(stride=stride, pad=pad, dilation=dilation, groups=groups)

    def f(x, w):
        return lax.conv_general_dilated(
            x, w, (stride, stride), [pad, pad], rhs_dilation=(dilation, dilation),
            dimension_numbers=("NCHW", "OIHW", "NCHW"), feature_group_count=groups,
        )  # fmt: skip

    def loops(x, w):
        if min(pad) < 0:
            x = x[:, :, -pad[0] if pad[0] < 0 else 0 :, -pad[0] if pad[0] < 0 else 0 :]
        return convolved(x, w, **given | {"pad": tuple(max(p, 0) for p in pad)})

    want = loops(x, w)
    ct = RNG.standard_normal(want.shape)
    for g in (f, mgefn.jit(f)):
        np.testing.assert_allclose(g(x, w), want, atol=1e-10)
        gx, gw = mgefn.grad(lambda p, q, g=g: (g(p, q) * ct).sum(), (0, 1))(x, w)
        for _ in range(3):  # linear in each operand, so along a direction it is a loop again
            vx, vw = RNG.standard_normal(x.shape), RNG.standard_normal(w.shape)
            np.testing.assert_allclose((gx * vx).sum(), (loops(vx, w) * ct).sum(), rtol=1e-9)
            np.testing.assert_allclose((gw * vw).sum(), (loops(x, vw) * ct).sum(), rtol=1e-9)


def pooled(x, size, stride, pads):
    return lax.reduce_window(x, 0.0, lax.add, (size,) * x.ndim, (stride,) * x.ndim, pads)


def average(x, size, stride, pads):
    return pooled(x, size, stride, pads) / pooled(mnp.ones_like(x), size, stride, pads)


@pytest.mark.parametrize("pads", ["VALID", "SAME", [(1, 0), (1, 0)], [(0, 1), (1, 1)]], ids=str)
@pytest.mark.parametrize("size, stride", [(2, 1), (2, 2), (3, 2), (3, 3)])
def test_averages_without_their_padding(pads, size, stride):
    x = RNG.standard_normal((5, 4))
    constant = average(mnp.full((5, 4), 2.0, "float64"), size, stride, pads)
    np.testing.assert_allclose(constant, np.full(constant.shape, 2.0))
    w = RNG.standard_normal(constant.shape)
    f = lambda v: mnp.sum(average(v, size, stride, pads) * w)
    check(f, x, differences(f, x), 1e-6, 1e-8)
    both = mgefn.vmap(lambda v: average(v, size, stride, pads))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[1], 2 * np.asarray(average(x, size, stride, pads)))


@pytest.mark.parametrize("n, size, stride", [(4, 3, 2), (5, 3, 2), (2, 2, 1), (7, 4, 3), (3, 5, 1)])
def test_same_padding_puts_the_odd_one_at_the_end(n, size, stride):
    out = -(-n // stride)
    total = max((out - 1) * stride + size - n, 0)
    x = np.concatenate([np.zeros(total // 2), np.arange(1.0, n + 1), np.zeros(total - total // 2)])
    want = [x[i * stride : i * stride + size].sum() for i in range(out)]
    got = lax.reduce_window(np.arange(1.0, n + 1), 0.0, lax.add, (size,), (stride,), "SAME")
    np.testing.assert_array_equal(got, want)
