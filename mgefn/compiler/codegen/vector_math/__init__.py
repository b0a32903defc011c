"""Functions of mathematics as vector instructions.

`emit(b, name, scalar, width, *args)` writes straight-line code for FUNCTIONS[name] arguments of
`width` elements of type float or double; half and bfloat are computed in float and rounded once.

The error is at most 2 units in the last place, but 2.5 for logaddexp and 3 for lgamma and digamma
of doubles (BOUNDS in tests/compiler/test_vector_math.py has what was measured). Where logaddexp, or
lgamma or digamma of a negative argument, is a difference of greater terms, the error is relative to
those. Subnormal numbers are numbers like others; zeros, infinities and nans give what C's functions
give.

Polynomials are minimax fits found by tests/compiler/fit_polynomial.py, a pair (for float, for
double) unless a comment says otherwise; comments give the intervals and the errors of the fits.
`fma` stands where one rounding fewer is meant; all else is rounded after each operation, which the
compensated sums rely on: no pass may contract or reassociate it.

Branches are for what is rare: arguments of sin, cos and tan beyond the exact range of a reduction
by three constants, quotients of `rem` beyond the precision of the type, the tails of `erf_inv`,
negative arguments of lgamma and digamma.
"""

from __future__ import annotations

from collections.abc import Callable

from mgefn.compiler.codegen.builder import Builder, like, vector
from mgefn.compiler.codegen.vector_math.circular import cos, sin, tan
from mgefn.compiler.codegen.vector_math.errors import erf, erf_inv, erfc
from mgefn.compiler.codegen.vector_math.exponentials import (
    cosh,
    exp,
    exp2,
    expm1,
    logistic,
    sinh,
    tanh,
)
from mgefn.compiler.codegen.vector_math.gammas import digamma, in_double, lgamma
from mgefn.compiler.codegen.vector_math.inverses import acos, acosh, asin, asinh, atan, atan2, atanh
from mgefn.compiler.codegen.vector_math.logarithms import log1p, log_any
from mgefn.compiler.codegen.vector_math.powers import cbrt, hypot, logaddexp, nextafter, power, rem
from mgefn.compiler.codegen.vector_math.values import FORMATS, Value, sqrt

_EMITTERS: dict[str, tuple[int, Callable[..., Value]]] = {
    "exp": (1, exp),
    "exp2": (1, exp2),
    "expm1": (1, expm1),
    "log": (1, log_any("log")),
    "log2": (1, log_any("log2")),
    "log10": (1, log_any("log10")),
    "log1p": (1, log1p),
    "tanh": (1, tanh),
    "logistic": (1, logistic),
    "sinh": (1, sinh),
    "cosh": (1, cosh),
    "sin": (1, sin),
    "cos": (1, cos),
    "tan": (1, tan),
    "asin": (1, asin),
    "acos": (1, acos),
    "atan": (1, atan),
    "atan2": (2, atan2),
    "asinh": (1, asinh),
    "acosh": (1, acosh),
    "atanh": (1, atanh),
    "erf": (1, erf),
    "erfc": (1, erfc),
    "erf_inv": (1, erf_inv),
    "lgamma": (1, in_double(lgamma)),
    "digamma": (1, in_double(digamma)),
    "pow": (2, power),
    "cbrt": (1, cbrt),
    "hypot": (2, hypot),
    "logaddexp": (2, logaddexp),
    "rem": (2, rem),
    "rsqrt": (1, lambda x: 1.0 / sqrt(x)),
}

FUNCTIONS: dict[str, int] = {name: count for name, (count, _) in _EMITTERS.items()}
FUNCTIONS["nextafter"] = 2


def emit(b: Builder, name: str, scalar: str, width: int, *args: str) -> str:
    """The value of a function of mathematics, element by element.

    Args:
        b: where the instructions go. A function with a rare path begins a new block: after the
            call b.block need not be what it was.
        name: a key of FUNCTIONS.
        scalar: half, bfloat, float or double.
        width: elements; 1 is a scalar.
        args: FUNCTIONS[name] values of type vector(scalar, width).
    Returns:
        The name of a value of the same type.
    Raises:
        KeyError: no such function.
    """
    if len(args) != FUNCTIONS[name]:
        raise TypeError(f"{name}: need {FUNCTIONS[name]} arguments, got {len(args)}")
    ty = vector(scalar, width)
    if name == "nextafter":
        return nextafter(b, ty, *args)
    _, function = _EMITTERS[name]
    if scalar in FORMATS:
        return function(*(Value(b, ty, a) for a in args)).name
    wide = like(ty, "float")
    return b.narrow(ty, function(*(Value(b, wide, b.widen(ty, a)) for a in args)).name)
