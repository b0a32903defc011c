"""The special cases of the elementwise functions, as the standard lists them.

A line is a function and its cases, separated by `|`. A case says what the operands are and, after
the arrow, what the result is. For complex functions the two operands are the real and the imaginary
part of one number, and so is the result. `|` never stands inside a case; `,` separates operands.

Operands: a number; +0 -0 inf -inf; 0 and ±inf for both signs; nan of any sign, +nan, -nan; pos,
neg, nzfin (not zero), fin: finite; >0 and the like: infinities too; whole, nonint; odd>0, nonodd<0
and the like; abs>1; notnan, not0, not1 (nan too), any; -x1: the negated first operand.

Results: a number, x1, x2, abs(x1), -abs(x1), abs(x2); 0, ±inf and ±pi/2: the sign is left open;
positive, negative: only the sign is told; `A or B`; inf*cos and 0*sin: inf*cos(b), 0*sin(b).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

REAL = """
abs: nan -> nan | -0 -> +0 | -inf -> inf
acos: nan -> nan | >1 -> nan | <-1 -> nan | 1 -> +0
acosh: nan -> nan | <1 -> nan | 1 -> +0 | inf -> inf
asin: nan -> nan | >1 -> nan | <-1 -> nan | +0 -> +0 | -0 -> -0
asinh: nan -> nan | +0 -> +0 | -0 -> -0 | inf -> inf | -inf -> -inf
atan: nan -> nan | +0 -> +0 | -0 -> -0 | inf -> pi/2 | -inf -> -pi/2
atanh: nan -> nan | <-1 -> nan | >1 -> nan | -1 -> -inf | 1 -> inf | +0 -> +0 | -0 -> -0
ceil: whole -> x1 | inf -> inf | -inf -> -inf | +0 -> +0 | -0 -> -0 | nan -> nan
cos: nan -> nan | +0 -> 1 | -0 -> 1 | inf -> nan | -inf -> nan
cosh: nan -> nan | +0 -> 1 | -0 -> 1 | inf -> inf | -inf -> inf
exp: nan -> nan | +0 -> 1 | -0 -> 1 | inf -> inf | -inf -> +0
expm1: nan -> nan | +0 -> +0 | -0 -> -0 | inf -> inf | -inf -> -1
floor: whole -> x1 | inf -> inf | -inf -> -inf | +0 -> +0 | -0 -> -0 | nan -> nan
isfinite: ±inf -> False | nan -> False | fin -> True
isinf: ±inf -> True | nan -> False | fin -> False
isnan: nan -> True | ±inf -> False | fin -> False
log: nan -> nan | <0 -> nan | 0 -> -inf | 1 -> +0 | inf -> inf
log1p: nan -> nan | <-1 -> nan | -1 -> -inf | -0 -> -0 | +0 -> +0 | inf -> inf
log2: nan -> nan | <0 -> nan | 0 -> -inf | 1 -> +0 | inf -> inf
log10: nan -> nan | <0 -> nan | 0 -> -inf | 1 -> +0 | inf -> inf
reciprocal: nan -> nan | +0 -> inf | -0 -> -inf | inf -> +0 | -inf -> -0
round: whole -> x1 | inf -> inf | -inf -> -inf | +0 -> +0 | -0 -> -0 | nan -> nan | 0.5 -> 0
round: 1.5 -> 2 | 2.5 -> 2 | -0.5 -> 0 | -1.5 -> -2 | -2.5 -> -2
sign: <0 -> -1 | 0 -> 0 | >0 -> 1 | nan -> nan
signbit: +0 -> False | -0 -> True | inf -> False | -inf -> True | pos -> False | neg -> True
signbit: +nan -> False | -nan -> True
sin: nan -> nan | +0 -> +0 | -0 -> -0 | ±inf -> nan
sinh: nan -> nan | +0 -> +0 | -0 -> -0 | inf -> inf | -inf -> -inf
sqrt: nan -> nan | <0 -> nan | +0 -> +0 | -0 -> -0 | inf -> inf
square: nan -> nan | ±inf -> inf | 0 -> +0 | nzfin -> positive
tan: nan -> nan | +0 -> +0 | -0 -> -0 | ±inf -> nan
tanh: nan -> nan | +0 -> +0 | -0 -> -0 | inf -> 1 | -inf -> -1
trunc: whole -> x1 | inf -> inf | -inf -> -inf | +0 -> +0 | -0 -> -0 | nan -> nan
add: nan, any -> nan | any, nan -> nan | inf, -inf -> nan | -inf, inf -> nan | inf, inf -> inf
add: -inf, -inf -> -inf | inf, fin -> inf | -inf, fin -> -inf | fin, inf -> inf
add: fin, -inf -> -inf | -0, -0 -> -0 | -0, +0 -> +0 | +0, -0 -> +0 | +0, +0 -> +0
add: 0, nzfin -> x2 | nzfin, 0 -> x1 | nzfin, -x1 -> +0
subtract: nan, any -> nan | any, nan -> nan | inf, inf -> nan | -inf, -inf -> nan
subtract: inf, -inf -> inf | -inf, inf -> -inf | inf, fin -> inf | -inf, fin -> -inf
subtract: fin, -inf -> inf | fin, inf -> -inf | -0, +0 -> -0 | -0, -0 -> +0 | +0, +0 -> +0
subtract: +0, -0 -> +0 | nzfin, 0 -> x1
atan2: nan, any -> nan | any, nan -> nan | >0, 0 -> pi/2 | +0, >0 -> +0 | +0, +0 -> +0
atan2: +0, -0 -> pi | +0, <0 -> pi | -0, >0 -> -0 | -0, +0 -> -0 | -0, -0 -> -pi | -0, <0 -> -pi
atan2: <0, 0 -> -pi/2 | pos, inf -> +0 | pos, -inf -> pi | neg, inf -> -0 | neg, -inf -> -pi
atan2: inf, fin -> pi/2 | -inf, fin -> -pi/2 | inf, inf -> pi/4 | inf, -inf -> 3pi/4
atan2: -inf, inf -> -pi/4 | -inf, -inf -> -3pi/4
copysign: notnan, <0 -> -abs(x1) | notnan, -0 -> -abs(x1) | notnan, +0 -> abs(x1)
copysign: notnan, >0 -> abs(x1) | notnan, -nan -> -abs(x1) | notnan, +nan -> abs(x1)
copysign: nan, <0 -> -nan | nan, -0 -> -nan | nan, +0 -> +nan | nan, >0 -> +nan
copysign: nan, -nan -> -nan | nan, +nan -> +nan
divide: nan, any -> nan | any, nan -> nan | ±inf, ±inf -> nan | 0, 0 -> nan | +0, >0 -> +0
divide: -0, >0 -> -0 | +0, <0 -> -0 | -0, <0 -> +0 | >0, +0 -> inf | >0, -0 -> -inf
divide: <0, +0 -> -inf | <0, -0 -> inf | inf, pos -> inf | inf, neg -> -inf | -inf, pos -> -inf
divide: -inf, neg -> inf | pos, inf -> +0 | pos, -inf -> -0 | neg, inf -> -0 | neg, -inf -> +0
divide: pos, pos -> positive | neg, neg -> positive | pos, neg -> negative | neg, pos -> negative
equal: nan, any -> False | any, nan -> False | inf, inf -> True | -inf, -inf -> True
equal: 0, 0 -> True | inf, -inf -> False | fin, ±inf -> False | nzfin, 0 -> False
equal: nzfin, -x1 -> False
floor_divide: nan, any -> nan | any, nan -> nan | ±inf, ±inf -> nan | 0, 0 -> nan | +0, >0 -> +0
floor_divide: -0, >0 -> -0 | +0, <0 -> -0 | -0, <0 -> +0 | >0, +0 -> inf | >0, -0 -> -inf
floor_divide: <0, +0 -> -inf | <0, -0 -> inf | inf, pos -> inf or nan | inf, neg -> -inf or nan
floor_divide: -inf, pos -> -inf or nan | -inf, neg -> inf or nan | pos, inf -> +0
floor_divide: pos, -inf -> -0 or -1 | neg, inf -> -0 or -1 | neg, -inf -> +0
floor_divide: pos, pos -> positive | neg, neg -> positive | pos, neg -> negative
floor_divide: neg, pos -> negative
hypot: ±inf, any -> inf | any, ±inf -> inf | 0, any -> abs(x2) | any, 0 -> abs(x1)
hypot: fin, nan -> nan | nan, nan -> nan | nan, fin -> nan
logaddexp: nan, any -> nan | any, nan -> nan | inf, notnan -> inf | notnan, inf -> inf
maximum: nan, any -> nan | any, nan -> nan
minimum: nan, any -> nan | any, nan -> nan
multiply: nan, any -> nan | any, nan -> nan | ±inf, 0 -> nan | 0, ±inf -> nan | inf, >0 -> inf
multiply: inf, <0 -> -inf | -inf, >0 -> -inf | -inf, <0 -> inf | >0, inf -> inf | <0, inf -> -inf
multiply: >0, -inf -> -inf | <0, -inf -> inf | pos, pos -> positive | neg, neg -> positive
multiply: pos, neg -> negative | neg, pos -> negative | +0, pos -> +0 | +0, neg -> -0
multiply: -0, pos -> -0 | -0, neg -> +0
nextafter: nan, any -> nan | any, nan -> nan | -0, +0 -> +0 | +0, -0 -> -0
not_equal: nan, any -> True | any, nan -> True | inf, -inf -> True | -inf, inf -> True
not_equal: 0, 0 -> False | inf, inf -> False | -inf, -inf -> False | nzfin, -x1 -> True
not_equal: nzfin, 0 -> True
pow: not1, nan -> nan | any, +0 -> 1 | any, -0 -> 1 | nan, not0 -> nan | abs>1, inf -> inf
pow: abs>1, -inf -> +0 | abs=1, inf -> 1 | abs=1, -inf -> 1 | 1, notnan -> 1 | abs<1, inf -> +0
pow: abs<1, -inf -> inf | inf, >0 -> inf | inf, <0 -> +0 | -inf, odd>0 -> -inf
pow: -inf, nonodd>0 -> inf | -inf, odd<0 -> -0 | -inf, nonodd<0 -> +0 | +0, >0 -> +0
pow: +0, <0 -> inf | -0, odd>0 -> -0 | -0, nonodd>0 -> +0 | -0, odd<0 -> -inf
pow: -0, nonodd<0 -> inf | neg, nonint -> nan
remainder: nan, any -> nan | any, nan -> nan | ±inf, ±inf -> nan | 0, 0 -> nan | +0, >0 -> +0
remainder: -0, >0 -> +0 | +0, <0 -> -0 | -0, <0 -> -0 | >0, 0 -> nan | <0, 0 -> nan
remainder: ±inf, nzfin -> nan | pos, inf -> x1 | pos, -inf -> x2 | neg, inf -> x2
remainder: neg, -inf -> x1
clip: nan, neg, pos -> nan | fin, nan, pos -> nan | fin, neg, nan -> nan | ±inf, nan, nan -> nan
"""

COMPLEX = """
abs: inf, any -> inf | -inf, any -> inf | any, inf -> inf | any, -inf -> inf | 0, any -> abs(x2)
abs: any, 0 -> abs(x1) | nan, fin -> nan | fin, nan -> nan | nan, nan -> nan
acos: 0, +0 -> pi/2, -0 | 0, nan -> pi/2, nan | fin, inf -> pi/2, -inf | nzfin, nan -> nan, nan
acos: -inf, pos -> pi, -inf | inf, pos -> +0, -inf | -inf, inf -> 3pi/4, -inf
acos: inf, inf -> pi/4, -inf | ±inf, nan -> nan, ±inf | nan, fin -> nan, nan
acos: nan, inf -> nan, -inf | nan, nan -> nan, nan
acosh: 0, +0 -> +0, pi/2 | fin, inf -> inf, pi/2 | nzfin, nan -> nan, nan | +0, nan -> nan, ±pi/2
acosh: -inf, pos -> inf, pi | inf, pos -> inf, +0 | -inf, inf -> inf, 3pi/4
acosh: inf, inf -> inf, pi/4 | ±inf, nan -> inf, nan | nan, fin -> nan, nan | nan, inf -> inf, nan
acosh: nan, nan -> nan, nan
asinh: +0, +0 -> +0, +0 | pos, inf -> inf, pi/2 | fin, nan -> nan, nan | inf, pos -> inf, +0
asinh: inf, inf -> inf, pi/4 | nan, +0 -> nan, +0 | nan, nzfin -> nan, nan | nan, inf -> ±inf, nan
asinh: nan, nan -> nan, nan
atanh: +0, +0 -> +0, +0 | +0, nan -> +0, nan | 1, +0 -> inf, +0 | pos, inf -> +0, pi/2
atanh: nzfin, nan -> nan, nan | inf, pos -> +0, pi/2 | inf, inf -> +0, pi/2 | inf, nan -> +0, nan
atanh: nan, fin -> nan, nan | nan, inf -> 0, pi/2 | nan, nan -> nan, nan
cosh: +0, +0 -> 1, +0 | +0, inf -> nan, 0 | +0, nan -> nan, 0 | nzfin, inf -> nan, nan
cosh: nzfin, nan -> nan, nan | inf, +0 -> inf, +0 | inf, nzfin -> inf*cos, inf*sin
cosh: inf, inf -> ±inf, nan | inf, nan -> inf, nan | nan, 0 -> nan, 0 | nan, nzfin -> nan, nan
cosh: nan, nan -> nan, nan
exp: 0, +0 -> 1, +0 | fin, inf -> nan, nan | fin, nan -> nan, nan | inf, +0 -> inf, +0
exp: -inf, fin -> 0*cos, 0*sin | inf, nzfin -> inf*cos, inf*sin | -inf, inf -> 0, 0
exp: inf, inf -> ±inf, nan | -inf, nan -> 0, 0 | inf, nan -> ±inf, nan | nan, +0 -> nan, +0
exp: nan, not0 -> nan, nan | nan, nan -> nan, nan
expm1: 0, +0 -> 0, +0 | fin, inf -> nan, nan | fin, nan -> nan, nan | inf, +0 -> inf, +0
expm1: -inf, fin -> -1, 0*sin | inf, nzfin -> inf*cos, inf*sin | -inf, inf -> -1, 0
expm1: inf, inf -> ±inf, nan | -inf, nan -> -1, 0 | inf, nan -> ±inf, nan | nan, +0 -> nan, +0
expm1: nan, not0 -> nan, nan | nan, nan -> nan, nan
isfinite: nan, any -> False | any, nan -> False | ±inf, any -> False | any, ±inf -> False
isfinite: fin, fin -> True
isinf: ±inf, any -> True | any, ±inf -> True | nan, fin -> False | fin, nan -> False
isinf: fin, fin -> False | nan, nan -> False
isnan: nan, any -> True | any, nan -> True | notnan, notnan -> False
log: -0, +0 -> -inf, pi | +0, +0 -> -inf, +0 | fin, inf -> inf, pi/2 | fin, nan -> nan, nan
log: -inf, pos -> inf, pi | inf, pos -> inf, +0 | -inf, inf -> inf, 3pi/4 | inf, inf -> inf, pi/4
log: ±inf, nan -> inf, nan | nan, fin -> nan, nan | nan, inf -> inf, nan | nan, nan -> nan, nan
log1p: -1, +0 -> -inf, +0 | fin, inf -> inf, pi/2 | fin, nan -> nan, nan | -inf, pos -> inf, pi
log1p: inf, pos -> inf, +0 | -inf, inf -> inf, 3pi/4 | inf, inf -> inf, pi/4
log1p: ±inf, nan -> inf, nan | nan, fin -> nan, nan | nan, inf -> inf, nan | nan, nan -> nan, nan
sign: 0, 0 -> 0, 0 | nan, any -> nan, nan | any, nan -> nan, nan
sinh: +0, +0 -> +0, +0 | +0, inf -> 0, nan | +0, nan -> 0, nan | pos, inf -> nan, nan
sinh: pos, nan -> nan, nan | inf, +0 -> inf, +0 | inf, pos -> inf*cos, inf*sin
sinh: inf, inf -> ±inf, nan | inf, nan -> ±inf, nan | nan, +0 -> nan, +0 | nan, nzfin -> nan, nan
sinh: nan, nan -> nan, nan
sqrt: 0, +0 -> +0, +0 | any, inf -> inf, inf | fin, nan -> nan, nan | -inf, pos -> nan, nan
sqrt: inf, pos -> +0, inf | -inf, nan -> nan, ±inf | inf, nan -> inf, nan | nan, fin -> nan, nan
sqrt: nan, nan -> nan, nan
tanh: +0, +0 -> +0, +0 | nzfin, inf -> nan, nan | +0, inf -> +0 or nan, nan
tanh: nzfin, nan -> nan, nan | +0, nan -> +0 or nan, nan | inf, pos -> 1, +0 | inf, inf -> 1, 0
tanh: inf, nan -> 1, 0 | nan, +0 -> nan, +0 | nan, not0 -> nan, nan | nan, nan -> nan, nan
"""

# f(conj(z)) must equal conj(f(z)): every complex case is tried in both half planes.
CONJUGATED = frozenset("acos acosh asinh atanh cosh exp expm1 log log1p sinh sqrt tanh".split())
ODD = frozenset("asinh atanh sinh tanh".split())  # f(-z) must equal -f(z)
EVEN = frozenset(("cosh",))  # f(-z) must equal f(z)

# "As if implemented as -1j * asinh(x * 1j)", and so on.
ROTATED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh", "cos": "cosh"}
SCALED = {"log2": ("log", math.log(2)), "log10": ("log", math.log(10))}  # the change of base

INF, NAN = math.inf, math.nan
POSITIVE = (0.25, 1.0, 1.5, 2.0, 3.0, 100.0, 2.0**99)
NEGATIVE = tuple(-x for x in POSITIVE)
NONZERO = POSITIVE + NEGATIVE
ZEROS = (0.0, -0.0)
FINITE = NONZERO + ZEROS
INFINITE = (INF, -INF)
NANS = (NAN, math.copysign(NAN, -1.0))
ANY = FINITE + INFINITE + NANS


def is_odd(x: float) -> bool:
    return math.isfinite(x) and x % 2 == 1


OPERANDS: dict[str, tuple[float, ...]] = {
    "+0": (0.0,),
    "-0": (-0.0,),
    "0": ZEROS,
    "±inf": INFINITE,
    "nan": NANS,
    "+nan": NANS[:1],
    "-nan": NANS[1:],
    "pos": POSITIVE,
    "neg": NEGATIVE,
    "nzfin": NONZERO,
    "fin": FINITE,
    "any": ANY,
    ">0": (*POSITIVE, INF),
    "<0": (*NEGATIVE, -INF),
    ">1": tuple(x for x in ANY if x > 1),
    "<1": tuple(x for x in ANY if x < 1),
    "<-1": tuple(x for x in ANY if x < -1),
    "whole": tuple(x for x in NONZERO if x == math.floor(x)),
    "nonint": tuple(x for x in FINITE if x != math.floor(x)),
    "abs>1": tuple(x for x in ANY if abs(x) > 1),
    "abs=1": (1.0, -1.0),
    "abs<1": tuple(x for x in ANY if abs(x) < 1),
    "odd>0": tuple(x for x in ANY if x > 0 and is_odd(x)),
    "odd<0": tuple(x for x in ANY if x < 0 and is_odd(x)),
    "nonodd>0": tuple(x for x in ANY if x > 0 and not is_odd(x)),
    "nonodd<0": tuple(x for x in ANY if x < 0 and not is_odd(x)),
    "notnan": tuple(x for x in ANY if x == x),
    "not0": tuple(x for x in ANY if x != 0),
    "not1": tuple(x for x in ANY if x != 1),
}

PI = math.pi
RESULTS: dict[str, float | bool] = {
    "+0": 0.0,
    "-0": -0.0,
    "nan": NAN,
    "pi": PI,
    "-pi": -PI,
    "pi/2": PI / 2,
    "-pi/2": -PI / 2,
    "pi/4": PI / 4,
    "-pi/4": -PI / 4,
    "3pi/4": 3 * PI / 4,
    "-3pi/4": -3 * PI / 4,
    "True": True,
    "False": False,
}


@dataclass(frozen=True)
class Case:
    """One row of a table.

    Attributes:
        function: the function whose case it is.
        text: the row, as the list of deviations names it.
        samples: operands that it speaks of, each with the results that it allows.
    """

    function: str
    text: str
    samples: tuple[tuple[tuple[float, ...], tuple[str, ...]], ...]


def operands(words: list[str]) -> Iterator[tuple[float, ...]]:
    choices = [OPERANDS.get(w, () if w == "-x1" else None) for w in words]
    values = [(float(w),) if c is None else c for w, c in zip(words, choices, strict=True)]
    if words[-1] == "-x1":
        yield from ((x, -x) for x in values[0])
    else:
        yield from itertools.product(*values)


def in_direction(word: str, given: tuple[float, ...]) -> str:
    """inf*cos(b) and its kind as the signed infinity or zero that it is."""
    size, _, part = word.partition("*")
    if not part:
        return word
    along = math.cos(given[1]) if part == "cos" else math.sin(given[1])
    negative = math.copysign(1, along) < 0
    return {"inf": "-inf" if negative else "inf", "0": "-0" if negative else "+0"}[size]


def parse(table: str) -> Iterator[Case]:
    for line in table.strip().splitlines():
        function, _, rows = line.partition(": ")
        for text in rows.split(" | "):
            given, _, wanted = text.partition(" -> ")
            results = tuple(wanted.split(", "))
            samples = tuple(
                (x, tuple(in_direction(word, x) for word in results))
                for x in operands(given.split(", "))
            )
            yield Case(function, text, samples)


def flip(word: str) -> str:
    """The result with its sign changed."""
    if " or " in word:
        return " or ".join(flip(w) for w in word.split(" or "))
    if word in ("0", "nan") or word[0] == "±":
        return word
    if word in ("+0", "-0"):
        return "-0" if word == "+0" else "+0"
    return word[1:] if word[0] == "-" else "-" + word


def mirrored(case: Case) -> Case:
    """The case with those that the symmetries of the function make of it."""
    samples: list[tuple[tuple[float, ...], tuple[str, ...]]] = list(case.samples)
    if case.function in CONJUGATED:
        samples += [((a, -b), (r[0], flip(r[1]))) for (a, b), r in samples]
    if case.function in ODD | EVEN:
        odd = case.function in ODD
        samples += [
            ((-a, -b), (flip(r[0]), flip(r[1])) if odd else r) for (a, b), r in list(samples)
        ]
    return Case(case.function, case.text, tuple(samples))


def rotated(case: Case, function: str) -> Case:
    """The case of f(z) = -1j * g(z * 1j), or g(z * 1j) for the cosine, from one of g."""
    even = case.function in EVEN
    samples = tuple(
        # z * 1j = a + bj for z = b - aj, and -1j * (p + qj) = q - pj.
        ((b, -a), r if even else (r[1], flip(r[0])))
        for (a, b), r in case.samples
    )
    return Case(function, f"{case.function}({case.text})", samples)


def real_cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in parse(REAL):
        found.setdefault(case.function, []).append(case)
    return found


def complex_cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in parse(COMPLEX):
        found.setdefault(case.function, []).append(mirrored(case))
    for function, source in ROTATED.items():
        found[function] = [rotated(c, function) for c in found[source]]
    for function, (source, _) in SCALED.items():
        found[function] = [Case(function, f"{source}({c.text})", c.samples) for c in found[source]]
    return found


def signed_equal(got: float, want: float, tolerance: float) -> bool:
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if math.isinf(want) or math.isinf(got) or want == 0:
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return abs(got - want) <= tolerance * abs(want)


def allows(word: str, got: float | bool, given: tuple[float, ...], dtype: np.dtype) -> bool:
    """Whether a result is what a word of a table says.

    Args:
        word: a result.
        got: an element, or its real or imaginary part.
        given: the operands, in the precision of dtype.
        dtype: of the computation; an "implementation-dependent approximation" may be 4 roundings
            off.
    """
    if " or " in word:
        return any(allows(w, got, given, dtype) for w in word.split(" or "))
    if word in ("True", "False"):
        return got is (word == "True")
    tolerance = 4 * float(np.finfo(dtype).eps)
    value = float(got)
    match word:
        case "0":
            return value == 0
        case "±inf":
            return math.isinf(value)
        case "±pi/2":
            return signed_equal(abs(value), PI / 2, tolerance)
        case "positive":
            return not math.isnan(value) and math.copysign(1, value) == 1
        case "negative":
            return not math.isnan(value) and math.copysign(1, value) == -1
        case "+nan" | "-nan":
            return math.isnan(value) and math.copysign(1, value) == (-1 if word[0] == "-" else 1)
    match word.lstrip("-+"):
        case "abs(x1)":
            want = math.copysign(given[0], -1.0 if word[0] == "-" else 1.0)
        case "abs(x2)":
            want = abs(given[1])
        case "x1":
            want = given[0]
        case "x2":
            want = given[1]
        case _:
            want = float(RESULTS[word] if word in RESULTS else float(word))
    return signed_equal(value, want, tolerance)
