"""Native Fourier transforms against NumPy's in wider precision, and their errors against its."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import mgefn
from mgefn import lax
from mgefn import numpy as mnp
from mgefn.backends.llvm_kernels import fourier
from mgefn.compiler import native
from mgefn.compiler.codegen.fourier import PASS

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
DTYPES = ("float32", "float64")
EXTENDED = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
EPS = {d: float(np.finfo(d).eps) / 2 for d in DTYPES}


def drawn(kind: str, shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """An operand whose transform over last axes of these lengths is asked for."""
    rng = np.random.default_rng([seed, *shape])
    if kind == "RFFT":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "IRFFT":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return x.astype("complex64" if dtype == "float32" else "complex128")


def by_numpy(kind: str, x: np.ndarray, lengths: tuple[int, ...], norm: Any = None) -> np.ndarray:
    axes = tuple(range(-len(lengths), 0))
    f = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    return f[kind](x, s=lengths, axes=axes, norm=norm)


def exact(kind: str, x: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """In extended precision for doubles, where the machine has it; others in double precision."""
    if x.dtype.itemsize * (1 + (kind == "RFFT")) == 8:
        return by_numpy(kind, x.astype(np.float64 if kind == "RFFT" else np.complex128), lengths)
    wide = np.longdouble if kind == "RFFT" else np.clongdouble
    return by_numpy(kind, x.astype(wide), lengths)


def in_its_precision(kind: str, x: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """By NumPy, which computes forward transforms of float32 in double unless there is a factor."""
    if kind in ("FFT", "RFFT"):
        y = by_numpy(kind, x, lengths, "forward")
        return (y * math.prod(lengths)).astype(y.dtype)
    return by_numpy(kind, x, lengths)


def compiled(kind: str, x: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    """By native code: the program is one native step."""
    made = mgefn.jit(lambda a: lax.fft(a, kind, lengths)).lower(x).compile()
    found = made.report()
    assert [s.kind for s in found.steps] == ["native"] and found.native_calls == 1, str(found)
    return np.asarray(made(x))


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(x) ** 2)))


def check(kind: str, shape: tuple[int, ...], dtype: str, axes: int = 1) -> None:
    x, lengths = drawn(kind, shape, dtype), shape[len(shape) - axes :]
    before = x.copy()
    want, peer = exact(kind, x, lengths), in_its_precision(kind, x, lengths)
    got = compiled(kind, x, lengths)
    assert got.shape == want.shape and got.dtype == peer.dtype
    np.testing.assert_array_equal(x, before)
    error, size = rms(peer - want), rms(want)
    if dtype == "float64" and not EXTENDED:  # what NumPy's error is where it can be measured
        error = EPS[dtype] * size * math.sqrt(1 + math.log2(math.prod(lengths)))
    # Half a rounding more, for of a few numbers one that NumPy happens to get exact counts a lot.
    bound = 2 * error + EPS[dtype] * size / 2
    assert rms(got - want) <= bound, (kind, shape, dtype, rms(got - want) / size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_small_lengths(kind: str, dtype: str) -> None:
    for n in range(1, 71):
        check(kind, (3, n), dtype)


# Powers, products, the largest prime with passes of its own, primes beyond, twice those.
LENGTHS = (
    81, 97, 121, 125, 127, 128, 131, 169, 210, 243, 254, 256, 262, 343, 360, 499, 512, 1000, 1009,
    1018, 1024, 1155, 1331, 2048, 2187, 2197, 3001, 4096, 5005, 6006, 10007, 16129, 16384, 32768,
    59049, 65536, 65537, 78125, 100000, 100003, 117649, 131074, 262144,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_large_lengths(kind: str, dtype: str) -> None:
    for n in LENGTHS:
        check(kind, (n,), dtype)


@pytest.mark.parametrize(
    "shape",
    [(1, 5), (16, 1), (17, 8), (300, 64), (2, 3, 5, 30), (40, 131), (9, 4096), (100, 1001),
     (3, 40000), (9, 45000), (2, 70001), (5, 65539), (33, 499)],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind: str, shape: tuple[int, ...]) -> None:
    check(kind, shape, "float32")
    check(kind, shape, "float64")


@pytest.mark.parametrize(
    "shape, axes",
    [((1, 1), 2), ((5, 7), 2), ((3, 4, 6), 3), ((2, 3, 4, 5), 2), ((2, 2, 3, 2, 3), 5),
     ((64, 3), 2), ((40, 1, 2), 3), ((2, 300, 3), 2), ((131, 5), 2), ((3, 131, 40), 2),
     ((20000, 2), 2), ((9000, 20), 2), ((20, 9000), 2), ((30, 30, 30), 3), ((128, 256), 2),
     ((16381, 2), 2), ((3, 16381), 2)],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_several_axes(kind: str, shape: tuple[int, ...], axes: int) -> None:
    check(kind, shape, "float32", axes)
    check(kind, shape, "float64", axes)


@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_any_width_of_vectors(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "vector_bytes", lambda: nbytes)
    for dtype in DTYPES:
        for kind in KINDS:
            for shape in ((3, 30), (5, 15), (1024,), (3, 100, 3), (131,)):
                check(kind, shape, dtype, axes=min(2, len(shape)))


@pytest.mark.parametrize(
    "shape, axes",
    [((1 << 17,), 1), ((100003,), 1), ((40, 4096), 1), ((3000, 30), 1), ((300, 300), 2),
     ((9001, 9), 2), ((70, 3, 999), 1)],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(
    kind: str, shape: tuple[int, ...], axes: int
) -> None:
    x, lengths = drawn(kind, shape, "float32"), shape[len(shape) - axes :]
    f = mgefn.jit(lambda a: lax.fft(a, kind, lengths))
    found = set()
    for threads in (1, 2, 3, 12):
        with mgefn.config.override(num_threads=threads):
            found.add(np.asarray(f(x)).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("n", [1, 2, 6, 7, 60, 129, 131, 1024])
def test_what_is_not_finite_stays_in_its_line(n: int) -> None:
    for kind in KINDS:
        x = drawn(kind, (5, n), "float32")
        want = compiled(kind, x, (n,))
        for value in (np.nan, np.inf):
            y = x.copy()
            y[2, 0] = value
            got = compiled(kind, y, (n,))
            assert not np.isfinite(got[2]).any()
            np.testing.assert_array_equal(np.delete(got, 2, 0), np.delete(want, 2, 0))


@pytest.mark.parametrize("n", [1, 2, 5, 6, 131, 262, 1024])
def test_imaginary_parts_that_are_none_do_not_count(n: int) -> None:
    x = drawn("IRFFT", (2, n), "float64")
    y = x.copy()
    y[:, 0] += 3j
    if n % 2 == 0:
        y[:, -1] -= 2j
    np.testing.assert_array_equal(compiled("IRFFT", y, (n,)), compiled("IRFFT", x, (n,)))


def test_ones_have_an_exact_transform() -> None:
    for n in (1, 3, 8, 49, 60, 1024, 1155):
        got = compiled("FFT", np.ones((2, n), np.complex64), (n,))
        assert (got[:, 0] == n).all()


def test_lines_in_memory_that_is_not_contiguous() -> None:
    x = drawn("FFT", (6, 40), "float32")
    for f, g in ((lambda a: a.T, np.transpose), (lambda a: a[::2, 3:], lambda a: a[::2, 3:])):
        got = mgefn.jit(lambda a, f=f: mnp.fft.fft(f(a)))(x)
        np.testing.assert_allclose(got, np.fft.fft(g(x)), rtol=1e-4, atol=1e-4)


def test_no_elements() -> None:
    got = mgefn.jit(lambda a: lax.fft(a, "RFFT", (6,)))(np.zeros((0, 6), np.float32))
    assert got.shape == (0, 4) and got.dtype == np.complex64


@pytest.mark.parametrize("n", [12, 262, 4096, 1 << 16])
def test_over_a_donated_operand(n: int) -> None:
    x = drawn("FFT", (4, n), "float32")
    want = compiled("FFT", x, (n,))
    f = mgefn.jit(lambda a: lax.fft(a, "FFT", (n,)), donate_argnums=0)
    np.testing.assert_array_equal(f(mgefn.device_put(x)), want)
    twice = mgefn.jit(lambda a: lax.fft(lax.fft(a * 1, "FFT", (n,)), "IFFT", (n,)))
    np.testing.assert_allclose(twice(x), x, atol=1e-5)


@pytest.mark.parametrize(
    "shape", [(30,), (131,), (4096,), (200_000,), (3, 45_000), (600, 499), (2, 45_001)]
)
def test_inside_of_loops(shape: tuple[int, ...]) -> None:
    x, lengths = drawn("RFFT", shape, "float64"), shape[-1:]

    def smooth(a: Any) -> Any:
        return lax.fft(lax.fft(a, "RFFT", lengths), "IRFFT", lengths) / 2

    def step(a: Any, _: Any) -> Any:
        return smooth(a), a[..., 0]

    scanned = mgefn.jit(lambda a: lax.scan(step, a, None, length=3))
    report = scanned.lower(x).compile().report()
    assert report.native_calls == 1 and all(s.kind in ("native", "view") for s in report.steps)
    last, firsts = scanned(x)
    np.testing.assert_allclose(last, x / 8, atol=1e-14)
    np.testing.assert_allclose(firsts, [x[..., 0] / k for k in (1, 2, 4)], atol=1e-14)
    turned = mgefn.jit(
        lambda a: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, smooth(s[1])), (0, a))
    )
    np.testing.assert_array_equal(turned(x)[1], last)


def test_mapped_and_differentiated() -> None:
    x = drawn("RFFT", (5, 24), "float64")

    def power(a: Any) -> Any:
        return (mnp.abs(mnp.fft.rfft(a)) ** 2).sum()

    got = mgefn.jit(mgefn.vmap(mgefn.grad(power)))(x)
    np.testing.assert_allclose(got, mgefn.vmap(mgefn.grad(power))(x), atol=1e-11)
    columns = mgefn.jit(mgefn.vmap(mnp.fft.rfft, 1, 1))(x)
    np.testing.assert_allclose(columns, np.fft.rfft(x, axis=0), atol=1e-12)


def test_one_code_for_all_lengths_of_the_same_radices() -> None:
    for n in (1 << 14, 100 << 10):
        compiled("FFT", drawn("FFT", (n,), "float32"), (n,))
    before = native.compilations()
    for n in (1 << 16, 1 << 18, 50 << 10):
        compiled("FFT", drawn("FFT", (n,), "float32"), (n,))
    assert native.compilations() <= before + 1  # (8,) beside (4, 8), or these with 5


# -- plans and tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 8, 12, 1000, 4096, 999_983, 1 << 27])
def test_roots_of_unity_are_rounded_once_or_hardly_more(n: int) -> None:
    k = np.unique(np.concatenate([np.arange(0, n, max(1, n // 60)), [n - 1, 3 * n + 1]]))
    with mpmath.workprec(120):
        for z, i in zip(fourier.roots(k, n), k, strict=True):
            angle = -2 * mpmath.pi * int(i) / n
            for got, want in ((z.real, mpmath.cos(angle)), (z.imag, mpmath.sin(angle))):
                if abs(want) < mpmath.mpf(2) ** -100:  # cos and sin of quarter turns
                    assert got == 0
                else:
                    assert abs(mpmath.mpf(float(got)) - want) <= np.spacing(abs(float(want)))


def test_roots_of_quarter_turns_are_exact() -> None:
    np.testing.assert_array_equal(fourier.roots(np.arange(4) * 5, 20), [1, -1j, -1, 1j])


def test_radices_multiply_to_the_length() -> None:
    for n in range(1, 2000):
        some = fourier.radices(n)
        primes = {p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))}
        if max(primes, default=1) > fourier.MOST_PRIME:
            assert some is None
        else:
            assert some is not None and math.prod(some) == n


@pytest.mark.parametrize("n", [131, 262, 1009, 65537])
def test_convolutions_are_long_enough(n: int) -> None:
    m = fourier.convolved(n, 16)
    assert 2 * n - 1 <= m < 4 * n and fourier.radices(m) is not None


def test_long_lines_are_divided_so_that_blocks_fit_in_a_cache() -> None:
    for n in (1 << 20, 10**6, 3**12, 1 << 22):
        _, n1 = fourier.divided(n, 16)
        assert n % n1 == 0
        assert max(n1, n // n1) * 4 * fourier.vector_bytes() <= fourier.BUFFERS


def test_tables_are_shared_and_bounded() -> None:
    first, _ = fourier._whole_tables("float32", 360)
    assert fourier._whole_tables("float32", 360)[0] is first
    kept = fourier._Kept()

    def made(key: int) -> Any:
        return kept.get(key, lambda: (fourier.Fixed(np.zeros(fourier.TABLE_BYTES // 4, "i1")),))

    items = [made(k) for k in range(4)]
    assert made(0) is items[0]
    made(4)  # the one that was used least lately goes
    assert made(0) is items[0] and made(2) is items[2] and made(1) is not items[1]


def test_memory_does_not_grow_with_the_batch() -> None:
    def scratch(count: int, n: int) -> int:
        x = drawn("RFFT", (count, n), "float32")
        made = mgefn.jit(lambda a: lax.fft(a, "RFFT", (n,))).lower(x).compile()
        return made.memory_analysis().temp_size_in_bytes

    for n in (999, 1000, 131):
        assert scratch(4000, n) <= scratch(2000, n) * 1.1


def test_passes_name_what_the_kernel_reads() -> None:
    tables = fourier.Tables("float32")
    passes = fourier._passes(tables, 8 * 11)
    orders = [dict(zip(PASS, p, strict=True)) for p in passes.numbers]
    assert [(p["radix"], p["order"], p["m"], p["s"]) for p in orders] == [
        (8, 8, 11, 1),
        (0, 11, 1, 8),
    ]
    assert passes.generic == 11 and all(p["twiddles"] % 64 == 0 for p in orders)


def test_tables_that_a_program_has_are_not_made_again(monkeypatch: Any) -> None:
    """Not even those that are too large to be kept for others."""
    monkeypatch.setattr(fourier, "TABLE_BYTES", 0)
    kept = fourier._Kept()
    table = fourier.Fixed(np.arange(6.0))
    first = kept.get(("a",), lambda: (table, 3))
    assert kept.get(("a",), lambda: 1 / 0) == first
    other = kept.get(("b",), lambda: (fourier.Fixed(np.ones(2)), 4))
    del other
    assert kept.get(("b",), lambda: (table, 5)) == (table, 5)
    assert kept.get(("a",), lambda: 1 / 0)[0] is table


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [262, 524, 131 * 35, 2 * 131 * 137, 1009 * 16])
def test_large_primes_are_parted_from_the_others(
    n: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fourier, "PARTED", 2)
    monkeypatch.setattr(fourier, "PARTED_FROM", 2)
    rng = np.random.default_rng(0)
    limit = 1e-5 if dtype == "complex64" else 1e-13
    for count in (1, 3, 17):
        x = (rng.normal(size=(count, n)) + 1j * rng.normal(size=(count, n))).astype(dtype)
        for name in ("fft", "ifft"):
            ours, theirs = getattr(mnp.fft, name), getattr(np.fft, name)
            got, want = mgefn.jit(ours, backend="llvm")(x), theirs(x.astype("complex128"))
            assert np.abs(np.asarray(got) - want).max() <= limit * np.abs(want).max()
        real = x.real.copy()
        half = mgefn.jit(mnp.fft.rfft, backend="llvm")(real)
        want = np.fft.rfft(real.astype("float64"))
        assert np.abs(np.asarray(half) - want).max() <= limit * np.abs(want).max()
        back = mgefn.jit(lambda y: mnp.fft.irfft(y, n), backend="llvm")(half)
        np.testing.assert_allclose(back, real, 0, 20 * limit)
    columns = x.T.copy()
    got = mgefn.jit(lambda y: mnp.fft.fft(y, axis=0), backend="llvm")(columns)
    want = np.fft.fft(columns.astype("complex128"), axis=0)
    assert np.abs(np.asarray(got) - want).max() <= limit * np.abs(want).max()


def test_a_long_line_of_large_primes_and_others_is_native() -> None:
    n = 601 << 17  # longer than a convolution may be
    assert fourier._is_native(n) and not fourier._is_native(601 * 60_013)
    assert fourier.large_part(n) == 601
