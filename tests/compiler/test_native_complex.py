"""Complex numbers in native programs: every operation, its special values, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.backends.llvm_cpu import COMPLEX_KERNELS
from mgefn.compiler import runtime
from mgefn.compiler.fusion import copy_p
from mgefn.core.primitive import Primitive
from mgefn.ops import elementwise as e
from mgefn.ops.contractions import dot_general_p
from mgefn.ops.reductions import reduce_prod_p, reduce_sum_p
from tests.checks import layouts

pytestmark = pytest.mark.skipif(
    not runtime.available(), reason=f"no native code here: {runtime.why_unavailable()}"
)

DTYPES = ("complex64", "complex128")
RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "complex64") -> np.ndarray:
    return np.asarray(RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def joined(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    """With the signs of zeros, and infinities beside nans, which re + 1j * im does not keep."""
    z = np.empty(np.broadcast_shapes(re.shape, im.shape), np.result_type(re, np.complex64))
    z.real, z.imag = re, im
    return z


def grid(dtype: str, few: bool = False) -> np.ndarray:
    """Special values of one part times those of the other, and ordinary numbers of many sizes."""
    real = np.zeros(0, dtype).real.dtype
    info = np.finfo(real)
    own = [0.0, -0.0, 1.0, -2.5, 100.0, np.inf, -np.inf, np.nan, info.max, info.tiny]
    if not few:
        own += [-1.0, 0.5, 3.0, 1e-3, -20.0, 50.0, -100.0, 1e5, 1 + info.eps]
        own += [-info.max, info.max / 4, -info.tiny, info.smallest_subnormal]
    values = np.array(own, real)
    z = joined(*np.meshgrid(values, values)).ravel()
    n = 20 if few else 500
    sizes = 10.0 ** RNG.uniform(-4, 1.3, (2, n))
    ordinary = drawn(n, dtype="complex128").real * sizes[0] + 1j * RNG.normal(size=n) * sizes[1]
    near = np.exp(1j * RNG.uniform(-4, 4, n)) * (1 + 10.0 ** RNG.uniform(-12, -1, n))
    return np.concatenate([z, ordinary.astype(dtype), near.astype(dtype)])


def assert_same(got: Any, want: Any, ulps: float, atol: float = 0.0) -> None:
    """The same nans, infinities and signs of zeros part by part, and nearly the same numbers.

    ulps: error in units of the rounding of the absolute value.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    info = np.finfo(got.dtype)
    least = float(info.smallest_subnormal)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        beyond = np.isinf(a) | np.isinf(b)
        np.testing.assert_array_equal(a[beyond], b[beyond])
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))
    with np.errstate(all="ignore"):
        finite = np.isfinite(got) & np.isfinite(want)
        # In the wider dtype, where no difference overflows.
        wide = np.clongdouble if got.dtype.kind == "c" else np.longdouble
        g, w = got[finite].astype(wide), want[finite].astype(wide)
        bound = ulps * float(info.eps) * np.abs(w) + 2 * least + atol
        worst = np.argmax(np.abs(g - w) - bound) if g.size else 0
        assert (np.abs(g - w) <= bound).all(), (got[finite][worst], want[finite][worst])


def steps_by_numpy(fun: Callable[..., Any], *args: Any) -> list[str]:
    steps = mgefn.jit(fun, backend="llvm").lower(*args).compile().report().steps
    return [s.operations for s in steps if s.kind not in ("native", "view")]


def check(
    fun: Callable[..., Any], *args: Any, reference: Callable[..., Any] | None = None,
    ulps: float = 8, atol: float = 0.0,
) -> None:  # fmt: skip
    """Natively, without a step of NumPy, as by NumPy's kernels or the reference."""
    assert steps_by_numpy(fun, *args) == []
    got = mgefn.tree.leaves(mgefn.jit(fun, backend="llvm")(*args))
    with np.errstate(all="ignore"):
        found = (reference or mgefn.jit(fun, backend="numpy"))(*args)
    for g, w in zip(got, mgefn.tree.leaves(found), strict=True):
        assert_same(g, w, ulps, atol)


# -- every primitive ------------------------------------------------------------------------------


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each operation rounded; NumPy's own fuses some of them where the processor can."""
    return joined(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def scaled(t: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(((t == 0) | (slope == 0)) & np.isnan(product(t, slope)), 0, product(t, slope))


def power(x: np.ndarray, n: int) -> np.ndarray:
    square = product(x, x)
    found = {2: square, 3: product(square, x), 5: product(product(square, square), x)}
    return found[n] if n > 0 else np.divide(np.ones((), x.dtype), found[-n])


def unary(p: Primitive, **params: Any) -> Callable[[Any], Any]:
    return lambda x: p.bind1(x, **params)


def converted(dtype: str) -> Callable[[Any], Any]:
    new = np.dtype(dtype)
    return lambda x: e.convert_element_type_p.bind1(x, new_dtype=new, weak_type=False)


# name -> (primitive, function, reference or None for NumPy's kernel)
UNARY: dict[str, tuple[Primitive, Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    p.name: (p, unary(p), None)
    for p in (
        e.neg_p, e.sqrt_p, e.rsqrt_p, e.sign_p, e.is_finite_p, e.abs_p, e.exp_p, e.exp2_p,
        e.expm1_p, e.log_p, e.log1p_p, e.logistic_p, e.sin_p, e.cos_p, e.tan_p, e.sinh_p,
        e.cosh_p, e.tanh_p, e.real_p, e.imag_p, e.conj_p, e.stop_gradient_p,
    )
} | {
    "square": (e.square_p, unary(e.square_p), lambda x: product(x, x)),
    **{
        f"power {n}": (e.integer_pow_p, unary(e.integer_pow_p, y=n), lambda x, n=n: power(x, n))
        for n in (2, 3, 5, -2, -3)
    },
    **{
        f"to {d}": (e.convert_element_type_p, converted(d), None)
        for d in ("complex64", "complex128", "bool", "float32", "float64", "int32", "int8")
    },
}  # fmt: skip
BINARY: dict[str, tuple[Primitive, Callable[[Any, Any], Any], Callable[..., Any] | None]] = {
    p.name: (p, p.bind1, None)
    for p in (
        e.add_p, e.sub_p, e.div_p, e.eq_p, e.ne_p, e.lt_p, e.le_p, e.gt_p, e.ge_p, e.max_p,
        e.min_p,
    )
} | {
    "mul": (e.mul_p, e.mul_p.bind1, product),
    "scale": (e.scale_p, e.scale_p.bind1, scaled),
    "complex": (e.complex_p, lambda x, y: e.complex_p.bind1(x.real, y.imag), None),
    "select": (e.select_n_p, lambda x, y: e.select_n_p.bind1(x.real > y.imag, x, y), None),
    "select by number": (
        e.select_n_p,
        lambda x, y: e.select_n_p.bind1((x.real > 0).astype("int32") + (y.real > 0), x, y, x - y),
        None,
    ),
}  # fmt: skip


def test_every_row_is_tested() -> None:
    tested = {e.pow_p} | {p for p, _, _ in (*UNARY.values(), *BINARY.values())}
    elsewhere = {copy_p, dot_general_p, reduce_sum_p, reduce_prod_p}  # products and sums below
    assert tested | elsewhere == set(COMPLEX_KERNELS)


@pytest.mark.parametrize(
    "got, want",
    [
        (complex(0.0, 1), complex(-0.0, 1)),
        (complex(np.nan, 1), complex(1, 1)),
        (complex(np.inf, 1), complex(-np.inf, 1)),
        (complex(1, 0), complex(1, 1e-12)),
    ],
)
def test_the_check_sees_what_is_wrong(got: complex, want: complex) -> None:
    with pytest.raises(AssertionError):
        assert_same(np.array([got]), np.array([want]), ulps=8)
    assert_same(np.array([got]), np.array([got]), ulps=0)


def test_the_check_sees_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    row = COMPLEX_KERNELS[e.sub_p]
    monkeypatch.setattr(row, "emit", COMPLEX_KERNELS[e.add_p].emit)
    x = drawn(41)
    # Of a form that no other test has: kernels stay known.
    wrong = mgefn.jit(lambda x: (x - 2 * x).conj().imag * 1.0625, backend="llvm")(x)
    assert not np.allclose(np.asarray(wrong), (x - 2 * x).conj().imag * 1.0625)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, dtype: str) -> None:
    _, fun, reference = UNARY[name]
    x = grid(dtype)
    # NumPy's log1p rounds 1 + x.
    atol = 2 * float(np.finfo(dtype).eps) if name == "log1p" else 0.0
    check(lambda x: fun(mnp.asarray(x)), x, reference=reference, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str, dtype: str) -> None:
    _, fun, reference = BINARY[name]
    x, y = (a.ravel() for a in np.meshgrid(grid(dtype, few=True), grid(dtype, few=True)))
    check(lambda x, y: fun(mnp.asarray(x), mnp.asarray(y)), x, y, reference=reference)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.75, 0.5 - 2j, 1j])
def test_powers_by_a_constant(exponent: complex, dtype: str) -> None:
    y = np.asarray(exponent, dtype)
    x = grid(dtype, few=True)
    x = x[np.isfinite(x) & ((x == 0) | (np.abs(x) > 1e-20) & (np.abs(x) < 1e20))]
    # The error of log(x) times the exponent is that of the argument of exp.
    check(lambda x: mnp.asarray(x) ** mnp.asarray(y), x, ulps=8 + 100 * abs(exponent))
    assert steps_by_numpy(lambda x: mnp.asarray(x) ** mnp.asarray(3 + 0j, dtype), x) == ["pow"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
def test_conversions_from_real_numbers(dtype: str) -> None:
    x = np.array([0, 1, 2, 7, 100, 3], dtype)
    for to in DTYPES:
        check(lambda x, to=to: converted(to)(mnp.asarray(x)), x, ulps=0)


def test_large_and_small_numbers_neither_overflow_nor_vanish() -> None:
    big = np.array([1e300 + 1e300j, 3e-320 + 4e-320j, -1e308 - 1e300j])
    f = mgefn.jit(lambda x: (mnp.abs(x), x / x, mnp.sqrt(x) ** 2, mnp.log(x).real), backend="llvm")
    size, one, same, log = (np.asarray(y) for y in f(big))
    np.testing.assert_allclose(size, np.abs(big), rtol=1e-15)
    np.testing.assert_allclose(one[::2], 1, rtol=1e-15)
    np.testing.assert_allclose(same, big, rtol=1e-15)
    np.testing.assert_allclose(log, np.log(np.abs(big)), rtol=1e-3)  # |3e-320| has few digits
    # exp overflows alone, but not times a small sine.
    x = np.array([720 + 1e-300j])
    with np.errstate(over="ignore"):
        want = np.exp(x).imag
    assert np.isfinite(want).all()
    np.testing.assert_allclose(np.asarray(mgefn.jit(mnp.exp)(x)).imag, want, rtol=1e-14)


def test_the_logarithm_near_the_unit_circle_keeps_its_digits() -> None:
    z = np.exp(1j * RNG.uniform(-4, 4, 2000)).astype("complex64")
    got = np.asarray(mgefn.jit(mnp.log, backend="llvm")(z)).real.astype("float64")
    x, y = z.real.astype("float64"), z.imag.astype("float64")
    want = 0.5 * np.log1p((x - 1) * (x + 1) + y * y)
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo("float32").eps)


def test_a_number_times_its_conjugate_is_real() -> None:
    x = drawn(500)
    assert not np.asarray(mgefn.jit(lambda x: x * x.conj(), backend="llvm")(x)).imag.any()


# -- shapes, memory, several dtypes ---------------------------------------------------------------

FORMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "of one number": (lambda x, y: x * y + 1j, ((), ())),
    "of one element": (lambda x, y: x * y - x, ((1,), (1,))),
    "of short rows": (lambda x, y: x * y - x, ((40, 3), (40, 3))),
    "of a row and a column": (lambda x, y: x * y + 2, ((5, 1), (1, 7))),
    "by a number": (lambda x, y: (x + y) * (2 - 3j), ((4, 9), ())),
    "backwards and by steps": (lambda x, y: x[::-1, 1::2] * y[:, ::-3], ((6, 9), (6, 12))),
    "transposed": (lambda x, y: x.T * y + 1, ((9, 70), (70, 9))),
    "in tiles": (lambda x, y: x.T * y + 1, ((160, 130), (130, 160))),
    "of middle axes": (lambda x, y: mnp.swapaxes(x, 0, 2) - y * y, ((3, 4, 5), (5, 4, 3))),
    "of parts": (lambda x, y: x.real * y.imag + mnp.abs(x), ((6, 9), (6, 9))),
    "of numbers of positions": (lambda x, y: x * mnp.arange(9) + 1j * y, ((6, 9), (6, 9))),
    "iota": (lambda x, y: x + y * lax.iota("complex64", 9), ((6, 9), (6, 9))),
    "of real numbers too": (lambda x, y: mnp.where(x.real > 0, x, y.imag), ((6, 9), (6, 9))),
    "with several results": (lambda x, y: (x * y, (x * y).real, x + y), ((6, 9), (6, 9))),
    "sum of all": (lambda x, y: (x * y).sum(), ((6, 90), (6, 90))),
    "sum of much": (lambda x, y: (x * y).sum(), ((300, 400), (300, 400))),
    "sum of a long row": (lambda x, y: (x * y).sum(), ((120_000,), (120_000,))),
    "sum of rows": (lambda x, y: (x * y).sum(1), ((6, 90), (6, 90))),
    "sum of short rows": (lambda x, y: (x * y).sum(1), ((90, 5), (90, 5))),
    "sum of columns": (lambda x, y: (x * y).sum(0), ((70, 9), (70, 9))),
    "sum of short columns": (lambda x, y: (x * y).sum(0), ((90, 3), (90, 3))),
    "sum in the middle": (lambda x, y: (x + y).sum(1), ((4, 9, 11), (4, 9, 11))),
    "mean": (lambda x, y: x - x.mean(1, keepdims=True) * y, ((6, 90), (6, 90))),
    "normalized short rows": (lambda x, y: x / x.sum(1, keepdims=True) * y, ((90, 3), (90, 3))),
    "variance": (lambda x, y: x.var(1) + y.std(), ((6, 90), (6, 90))),
    "product": (lambda x, y: (x / mnp.abs(x)).prod(1) * y[:, 0], ((6, 9), (6, 9))),
    "concatenated": (lambda x, y: mnp.concatenate([x * 2, y[::-1]]), ((6, 9), (3, 9))),
    "padded": (lambda x, y: mnp.pad(x, 1) * y, ((6, 9), (8, 11))),
    "gathered": (lambda x, y: x[mnp.array([3, 1, 1])] * y, ((6, 9), (3, 9))),
    "scattered": (lambda x, y: x.at[mnp.array([3, 1, 1])].add(y), ((6, 9), (3, 9))),
    "reshaped": (lambda x, y: x.T.reshape(6, 9) * y, ((6, 9), (6, 9))),
    "filled": (lambda x, y: mnp.full((6, 9), 1 + 2j) * x + y, ((6, 9), (6, 9))),
    "gradient": (
        lambda x, y: mgefn.grad(lambda z: mnp.abs(mnp.exp(z * y) * z).sum())(x),
        ((6, 9), (6, 9)),
    ),
    "convolution by Fourier": (
        lambda x, y: mnp.fft.irfft(mnp.fft.rfft(x.real) * mnp.fft.rfft(y.real)),
        ((6, 64), (6, 64)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, dtype: str) -> None:
    fun, (a, b) = FORMS[name]
    x, y = mnp.asarray(drawn(*a, dtype=dtype)), mnp.asarray(drawn(*b, dtype=dtype))
    assert steps_by_numpy(fun, x, y) == []
    natively, by_numpy = mgefn.jit(fun, backend="llvm"), mgefn.jit(fun, backend="numpy")
    for _ in range(2):
        pairs = zip(
            mgefn.tree.leaves(natively(x, y)), mgefn.tree.leaves(by_numpy(x, y)), strict=True
        )
        for got, want in pairs:
            assert got.shape == want.shape and got.dtype == want.dtype
            size = np.sqrt(max(a[0] if a else 1, 8)) * np.abs(np.asarray(want)).max()
            bound = 8 * np.finfo(dtype).eps * max(size, 10)
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=0, atol=bound)


def test_the_forms_take_all_ways_of_kernels() -> None:
    def found(name: str) -> set[str]:
        fun, shapes = FORMS[name]
        return layouts(fun, *(drawn(*s) for s in shapes))

    assert found("in tiles") == {"tiled"}
    assert found("sum of short rows") == found("normalized short rows") == {"across"}
    assert "ragged" in found("sum of a long row") and found("of one element") <= {"flat", "rows"}


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100])
def test_the_last_vector_of_a_row_is_not_written_beyond(n: int) -> None:
    x, y = drawn(n), drawn(n)
    out = mgefn.jit(lambda x, y: mnp.concatenate([x * y, y - x]), backend="llvm")(x, y)
    np.testing.assert_allclose(
        np.asarray(out), np.concatenate([x * y, y - x]), rtol=1e-5, atol=1e-6
    )


def test_a_chain_is_one_kernel_and_any_number_of_threads_gives_its_bits() -> None:
    x, y = (mnp.asarray(drawn(400, 500)) for _ in range(2))
    fun = mgefn.jit(lambda x, y: mnp.exp((x * y + x) / (y * y + 3)) * 0.5j - x.conj())
    (step,) = fun.lower(x, y).compile().report().steps
    assert (step.kind, step.kernels) == ("native", 1)
    first = np.asarray(fun(x, y))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(fun(x, y)), first)


def test_memory_that_is_aligned_to_parts_only() -> None:
    for dtype in DTYPES:
        part = np.zeros(0, dtype).real.itemsize
        block = np.zeros(101 * 2 * part, np.uint8)
        x = block[part : part + 100 * 2 * part].view(dtype)
        x[:] = drawn(100, dtype=dtype)
        got = mgefn.jit(lambda x: (x * x, x.sum()), backend="llvm")(x)
        np.testing.assert_allclose(np.asarray(got[0]), x * x, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(got[1]), x.sum(), rtol=1e-5)


def test_donated_memory() -> None:
    x = drawn(4000)
    fun = mgefn.jit(lambda x, y: (x * y + 1j).conj(), donate_argnums=0, backend="llvm")
    plain = mgefn.jit(lambda x, y: (x * y + 1j).conj(), backend="numpy")
    given = mnp.asarray(x)
    got = fun(given, 2 - 1j)
    np.testing.assert_allclose(np.asarray(got), np.asarray(plain(x, 2 - 1j)), rtol=1e-6)
    with pytest.raises(mgefn.errors.MgefnError, match="donated"):
        given.sum()


def test_constants_keep_signs_of_zeros_and_are_no_part_of_the_code() -> None:
    x = np.array([0j, 1 + 1j], "complex128")
    for c in (complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0), complex(0, np.inf)):
        got = mgefn.jit(lambda x, c=c: mnp.where(x == 0, mnp.asarray(c, x.dtype), x))(x)
        assert_same(got, np.where(x == 0, np.complex128(c), x), 0)


# -- loops and branches ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops(dtype: str) -> None:
    def scan(x: Any, y: Any) -> Any:
        def body(c: Any, row: Any) -> tuple[Any, Any]:
            c = c * (0.9 + 0.1j) + row
            return c, mnp.abs(c)

        return lax.scan(body, x, y)

    def powers(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: c * c * 0.25 + y[i], x)

    def branch(x: Any, y: Any) -> Any:
        return lax.cond(x[0].real > 0, lambda: x * 2j, lambda: y[0].conj())

    x, y = mnp.asarray(drawn(5, dtype=dtype)), mnp.asarray(drawn(7, 5, dtype=dtype))
    for fun in (scan, powers, branch):
        assert steps_by_numpy(fun, x, y) == []
        got = mgefn.tree.leaves(mgefn.jit(fun, backend="llvm")(x, y))
        want = mgefn.tree.leaves(mgefn.jit(fun, backend="numpy")(x, y))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=100 * np.finfo(dtype).eps)


# -- products of matrices -------------------------------------------------------------------------

PRODUCTS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "matrices": (lambda x, y: x @ y, (5, 7), (7, 9)),
    "larger matrices": (lambda x, y: x @ y, (40, 70), (70, 33)),
    "a matrix and a vector": (lambda x, y: x @ y, (5, 70), (70,)),
    "a vector and a matrix": (lambda x, y: x @ y, (70,), (70, 4)),
    "a transposed matrix and a vector": (lambda x, y: x.T @ y, (70, 50), (70,)),
    "vectors": (lambda x, y: x @ y, (70,), (70,)),
    "a matrix by itself": (lambda x, y: x @ x + y, (6, 6), (6, 6)),
    "vdot": (mnp.vdot, (6, 9), (6, 9)),
    "outer": (mnp.outer, (5,), (6,)),
    "a batch": (lambda x, y: x @ y, (3, 5, 7), (3, 7, 4)),
    "a batch of columns": (lambda x, y: x @ y, (3, 5, 7), (3, 7, 1)),
    "a batch of rows": (lambda x, y: x @ y, (3, 1, 7), (3, 7, 5)),
    "a batch within": (lambda x, y: mnp.einsum("ibj,bj->ib", x, y), (3, 4, 5), (4, 5)),
    "an adjoint": (lambda x, y: x.conj().T @ y, (7, 5), (7, 9)),
    "two axes": (lambda x, y: mnp.tensordot(x, y, ((0, 2), (1, 0))), (3, 4, 5), (5, 3, 6)),
    "two axes, a vector": (lambda x, y: mnp.tensordot(x, y, ((0, 2), (1, 0))), (3, 4, 5), (5, 3)),
    "no axis": (lambda x, y: mnp.tensordot(x, y, 0), (3, 4), (2,)),
    "a gradient": (
        lambda x, y: mgefn.grad(lambda z: mnp.abs(z @ y).sum())(x), (9, 4), (4, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: str) -> None:
    fun, a, b = PRODUCTS[name]
    x, y = mnp.asarray(drawn(*a, dtype=dtype)), mnp.asarray(drawn(*b, dtype=dtype))
    assert steps_by_numpy(fun, x, y) == []
    got = np.asarray(mgefn.jit(fun, backend="llvm")(x, y))
    want = np.asarray(mgefn.jit(fun, backend="numpy")(x, y))
    assert got.shape == want.shape and got.dtype == want.dtype
    bound = 32 * np.finfo(dtype).eps * max(1.0, np.abs(want).max())
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def test_what_has_no_row_runs_by_numpy() -> None:
    x = drawn(9)
    fun = mgefn.jit(lambda x: mnp.arcsin(x * 2) + 1, backend="llvm")
    assert steps_by_numpy(lambda x: mnp.arcsin(x * 2) + 1, x) == ["asin"]
    np.testing.assert_allclose(np.asarray(fun(x)), np.arcsin(x * 2) + 1, rtol=1e-5)
    empty = np.zeros((0, 3), "complex64")
    assert np.asarray(mgefn.jit(lambda x: x @ x.T + 1)(empty)).shape == (0, 0)
    assert not np.asarray(mgefn.jit(lambda x: x.T @ x)(empty)).any()
