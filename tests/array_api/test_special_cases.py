"""The tables of special cases, on vectors, on single numbers and compiled."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mgefn
from tests.array_api.deviations import DEVIATIONS
from tests.array_api.oracle import XP, quiet
from tests.array_api.special_cases import (
    ANY,
    SCALED,
    Case,
    allows,
    complex_cases,
    flip,
    in_direction,
    real_cases,
)

REAL_CASES, COMPLEX_CASES = real_cases(), complex_cases()


def complex_of(pairs: Any, dtype: str) -> np.ndarray:
    """Complex numbers of their parts; arithmetic on parts would lose signs and make NaNs."""
    parts = np.asarray(pairs, np.float64).reshape(-1, 2)
    return parts.astype("float32" if dtype == "complex64" else "float64").view(dtype)[:, 0]


def results(function: str, operands: list[np.ndarray]) -> list[np.ndarray]:
    """By a vector, by numbers one at a time, and compiled."""
    f = getattr(XP, function)
    vectors = [XP.asarray(x) for x in operands]
    numbers = [f(*[v[i] for v in vectors]) for i in range(len(operands[0]))]
    return [
        np.asarray(f(*vectors)),
        np.asarray([np.asarray(n) for n in numbers]),
        np.asarray(mgefn.jit(f)(*vectors)),
    ]


def failing(function: str, cases: list[Case], dtype: str) -> dict[str, str]:
    """The cases that do not hold, each with an example."""
    samples = [(case, given, want) for case in cases for given, want in case.samples]
    given = [g for _, g, _ in samples]
    is_complex = dtype.startswith("complex")
    if is_complex:
        operands = [complex_of(given, dtype)]
        rounded = np.stack([operands[0].real, operands[0].imag], axis=-1)
    else:
        operands = [np.asarray(column, dtype) for column in zip(*given, strict=True)]
        rounded = np.stack(operands, axis=-1)
    real = np.dtype("float32" if dtype in ("float32", "complex64") else "float64")
    found: dict[str, str] = {}
    for got in results(function, operands):
        for (case, _, words), x, y in zip(samples, rounded.tolist(), got, strict=True):
            parts: list[Any] = [y.item()] if len(words) == 1 else [y.real.item(), y.imag.item()]
            if function in SCALED and is_complex:
                parts = [p * SCALED[function][1] for p in parts]
            if not all(allows(w, p, tuple(x), real) for w, p in zip(words, parts, strict=True)):
                found.setdefault(case.text, f"{function}{tuple(x)} = {y}")
    return found


def check(function: str, listed_as: str, cases: list[Case], dtypes: tuple[str, str]) -> None:
    found: dict[str, str] = {}
    for dtype in dtypes:
        found.update(failing(function, cases, dtype))
    listed = {d.case for d in DEVIATIONS if d.function == listed_as}
    texts = {case.text for case in cases}
    assert set(found) - listed == set(), [found[t] for t in set(found) - listed]
    stale = (listed & texts) - set(found)
    assert not stale, f"{listed_as}: no longer deviates in {stale}. Drop it from deviations.py."


@pytest.mark.parametrize("function", sorted(REAL_CASES))
def test_real(function: str) -> None:
    check(function, function, REAL_CASES[function], ("float32", "float64"))


@pytest.mark.parametrize("function", sorted(COMPLEX_CASES))
def test_complex(function: str) -> None:
    cases = COMPLEX_CASES[function]
    check(function, f"{function} complex", cases, ("complex64", "complex128"))


# -- part by part ---------------------------------------------------------------------------------

NUMBERS = [complex_of([pair], "complex128")[0] for pair in itertools.product(ANY, ANY)]
SOME = complex_of(list(itertools.product((*ANY[::3], np.nan), repeat=2)), "complex128")
PAIRS = list(itertools.product(SOME, SOME))


def assert_parts(got: Any, real: Any, imag: Any) -> None:
    got = np.asarray(got)
    for mine, theirs in ((got.real, np.asarray(real)), (got.imag, np.asarray(imag))):
        np.testing.assert_array_equal(mine, theirs)
        known = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(mine)[known], np.signbit(theirs)[known])


@pytest.mark.parametrize("name", ["round", "negative", "positive"])
def test_both_parts_of_a_number(name: str) -> None:
    f = getattr(XP, name)
    z = np.asarray(NUMBERS)
    with quiet():
        parts = [XP.asarray(p.copy()) for p in (z.real, z.imag)]
        assert_parts(f(XP.asarray(z)), *[f(p) for p in parts])


def test_conj_changes_the_sign_of_one_part() -> None:
    z = np.asarray(NUMBERS)
    assert_parts(XP.conj(XP.asarray(z)), z.real, -z.imag)


@pytest.mark.parametrize("name", ["add", "subtract"])
def test_both_parts_of_a_sum(name: str) -> None:
    f = getattr(XP, name)
    x, y = (np.asarray(v) for v in zip(*PAIRS, strict=True))
    real, imag = (
        f(XP.asarray(a.copy()), XP.asarray(b.copy()))
        for a, b in ((x.real, y.real), (x.imag, y.imag))
    )
    assert_parts(f(XP.asarray(x), XP.asarray(y)), real, imag)


def test_complex_numbers_are_equal_if_both_parts_are() -> None:
    x, y = (np.asarray(v) for v in zip(*PAIRS, strict=True))
    same = (x.real == y.real) & (x.imag == y.imag)
    np.testing.assert_array_equal(XP.equal(XP.asarray(x), XP.asarray(y)), same)
    np.testing.assert_array_equal(XP.not_equal(XP.asarray(x), XP.asarray(y)), ~same)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_square_and_reciprocal_are_products_and_quotients(dtype: str) -> None:
    z = np.asarray(NUMBERS if dtype.startswith("complex") else ANY)
    with quiet():
        x = XP.asarray(z.astype(dtype))
    np.testing.assert_allclose(XP.square(x), x * x, rtol=1e-6)
    np.testing.assert_allclose(XP.reciprocal(x), XP.divide(XP.ones_like(x), x), rtol=1e-6)


def test_products_and_quotients_of_nan() -> None:
    x = XP.asarray(complex_of([(np.nan, np.nan)], "complex128"))
    for f in (XP.multiply, XP.divide):
        assert_parts(f(x, x), [np.nan], [np.nan])


# -- the judge is awake ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word, right, wrong",
    [
        ("+0", 0.0, [-0.0, 1.0, np.nan]),
        ("-0", -0.0, [0.0]),
        ("0", -0.0, [1e-300, np.nan]),
        ("nan", np.nan, [0.0, np.inf]),
        ("-nan", -np.nan, [np.nan, 0.0]),
        ("inf", np.inf, [-np.inf, 1e308, np.nan]),
        ("±inf", -np.inf, [np.nan, 1.0]),
        ("pi/2", np.pi / 2, [-np.pi / 2, 1.5707]),
        ("±pi/2", -np.pi / 2, [np.pi]),
        ("-3pi/4", -0.75 * np.pi, [0.75 * np.pi]),
        ("inf or nan", np.nan, [-np.inf, 0.0]),
        ("positive", 0.0, [-0.0, np.nan]),
        ("x2", 2.0, [-3.0, 3.0]),
        ("-abs(x1)", -3.0, [3.0, -2.0]),
        ("abs(x1)", 3.0, [-3.0]),
        ("-1", -1.0, [1.0, 0.0]),
        ("True", True, [False]),
    ],
)
def test_words(word: str, right: Any, wrong: list[Any]) -> None:
    given = (-3.0, 2.0)
    assert allows(word, right, given, np.dtype("float64"))
    assert not any(allows(word, w, given, np.dtype("float64")) for w in wrong)


def test_words_of_direction() -> None:
    assert in_direction("inf*cos", (np.inf, 2.0)) == "-inf"
    assert in_direction("0*sin", (np.inf, 2.0)) == "+0"
    assert in_direction("0*sin", (np.inf, -0.0)) == "-0"
    assert flip(in_direction("inf*sin", (np.inf, 2.0))) == "-inf"
    flipped = [flip(w) for w in ("+0", "-0", "pi", "+0 or nan", "0")]
    assert flipped == ["-0", "+0", "-pi", "-0 or nan", "0"]
