"""Minimax polynomials for mgefn/compiler/codegen/vector_math/, by Remez's exchange in mpmath.

Its coefficients are `fit(...)` of the calls in FITS, rounded to the type they are used in. Run
`python -m tests.compiler.fit_polynomial NAME` to see those of one call and their error.
"""

import math
import sys
from collections.abc import Callable

import mpmath as mp


def fit(
    f: Callable, low: float, high: float, terms: int, weight: Callable = lambda x: 1
) -> tuple[list, mp.mpf]:
    """The polynomial of `terms` coefficients that is nearest to f.

    Args:
        f: of an mpf between low and high; need not be defined at the ends or 0.
        weight: makes max |weight(x) (f(x) - p(x))| what is least.
    Returns:
        Coefficients from the constant one up, and that maximum.
    """
    low, high = mp.mpf(low), mp.mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    count = 16 * terms
    grid = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [f(x) for x in grid]
    weights = [mp.mpf(weight(x)) for x in grid]
    # In t = (x - middle) / half the system is well posed; expanded to powers of x at the end.
    scaled = [(x - middle) / half for x in grid]
    picked = [
        min(count - 1, int(count * (2 * i + 1) / (2 * (terms + 1)))) for i in range(terms + 1)
    ]
    c, worst = [], mp.mpf(0)
    for _ in range(30):
        rows = [
            [scaled[i] ** k for k in range(terms)] + [(-1) ** j / weights[i]]
            for j, i in enumerate(picked)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i] for i in picked]))
        c, level = list(solution)[:terms], abs(solution[terms])
        errors = [w * (v - _value(c, t)) for w, v, t in zip(weights, values, scaled, strict=True)]
        worst = max(map(abs, errors))
        if worst <= level * mp.mpf("1.01"):
            break
        # The new points: the greatest error of each run of one sign.
        runs: list[int] = []
        for i, e in enumerate(errors):
            if runs and (errors[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > terms + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        if len(runs) < terms + 1:
            break
        picked = runs
    # p((x - middle) / half) in powers of x.
    out = [mp.mpf(0)] * terms
    for k in range(terms - 1, -1, -1):
        shifted = [mp.mpf(0)] * terms
        for j in range(terms):
            shifted[j] -= out[j] * middle / half
            if j + 1 < terms:
                shifted[j + 1] += out[j] / half
        shifted[0] += c[k]
        out = shifted
    return out, worst


def _value(coefficients: list, x: mp.mpf) -> mp.mpf:
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


mp.mp.dps = 50
LN2 = mp.log(2)
ROOT = mp.sqrt(2)
LOG_INTERVAL = (ROOT / 2 - 1, ROOT - 1)


def _exp(r: mp.mpf) -> mp.mpf:
    return (mp.exp(r) - 1 - r) / r**2


def _log(f: mp.mpf) -> mp.mpf:
    return (mp.log1p(f) - f + f * f / 2) / f**3


def _cos(z: mp.mpf) -> mp.mpf:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _cosh(z: mp.mpf) -> mp.mpf:
    return (mp.cosh(mp.sqrt(z)) - 1) / z


def _odd(f: Callable) -> Callable:
    """(f(x) - x) / x^3 as a function of z = x^2."""
    return lambda z: (f(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3


def _relative(f: Callable) -> Callable:
    """The weight that makes an error of _odd(f) one relative to f."""
    return lambda z: mp.sqrt(z) ** 3 / f(mp.sqrt(z))


def _atanh_rest(z: mp.mpf) -> mp.mpf:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5


def _log_erfc(u: mp.mpf) -> mp.mpf:
    return mp.log(mp.erfc(1 + u))


def _erfc_scaled(v: mp.mpf) -> mp.mpf:
    x = 2 * (1 + v) / (1 - v)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def _erf_inv(w: mp.mpf) -> mp.mpf:
    """erf_inv(x) / x where w = -log(1 - x^2), by Newton's method on w."""
    x = mp.sqrt(-mp.expm1(-w))
    y = mp.mpf(math.sqrt(w) if w > 2 else 0.886 * x * (1 + w / 5))
    for _ in range(12):
        c = mp.erfc(y)
        off = -mp.log(c) - mp.log(2 - c) - w
        slope = 2 * (1 - c) / (c * (2 - c)) * 2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        y -= off / slope
        if abs(off) < mp.mpf(10) ** -40 * w:
            break
    return y / x


def _root(v: mp.mpf, centre: int) -> mp.mpf:
    """s where v = (s - centre) / (s + 1)."""
    return (centre + v) / (1 - v)


ROOT_OF_DIGAMMA = mp.findroot(mp.digamma, 1.46)


def _lgamma_rest(y: mp.mpf) -> mp.mpf:
    """(lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) x where y = 1 / x^2."""
    x = 1 / mp.sqrt(y)
    with mp.workdps(100):
        return (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def _digamma_rest(y: mp.mpf) -> mp.mpf:
    """(digamma(x) - log(x) + 1 / (2 x)) x^2 where y = 1 / x^2."""
    x = 1 / mp.sqrt(y)
    with mp.workdps(100):
        return (mp.digamma(x) - mp.log(x) + 1 / (2 * x)) * x**2


FITS: dict[str, Callable[[], tuple]] = {
    # (exp(r) - 1 - r) / r^2, relative to exp
    "exp float": lambda: fit(
        lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, 5, lambda r: r**2
    ),
    "exp double": lambda: fit(
        lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, 10, lambda r: r**2
    ),
    # (2^r - 1) / r, relative to 2^r
    "exp2 float": lambda: fit(lambda r: (2**r - 1) / r, -0.5, 0.5, 6, lambda r: r / 2**r),
    "exp2 double": lambda: fit(lambda r: (2**r - 1) / r, -0.5, 0.5, 11, lambda r: r / 2**r),
    "cosh float": lambda: fit(_cosh, 0, LN2**2 / 4, 3, lambda z: z),
    "cosh double": lambda: fit(_cosh, 0, LN2**2 / 4, 5, lambda z: z),
    "sinh float": lambda: fit(_odd(mp.sinh), 0, LN2**2 / 4, 3, lambda z: z),
    "sinh double": lambda: fit(_odd(mp.sinh), 0, LN2**2 / 4, 5, lambda z: z),
    "tanh float": lambda: fit(_odd(mp.tanh), 0, 0.3025, 5, lambda z: z),
    "tanh double": lambda: fit(_odd(mp.tanh), 0, 0.3025, 10, lambda z: z),
    "sin float": lambda: fit(_odd(mp.sin), 0, 0.6241, 3, lambda z: z),
    "sin double": lambda: fit(_odd(mp.sin), 0, 0.6241, 6, lambda z: z),
    # After the constant -1/2 the rest, so that cos keeps its last bits where r is small.
    "cos float": lambda: fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, 0.6241, 3, lambda z: z * z
    ),
    "cos double": lambda: fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, 0.6241, 6, lambda z: z * z
    ),
    "tan float": lambda: fit(_odd(mp.tan), 0, 0.6241, 7, lambda z: z),
    "tan double": lambda: fit(_odd(mp.tan), 0, 0.6241, 15, lambda z: z),
    "asin float": lambda: fit(_odd(mp.asin), 0, 0.25, 5, lambda z: z),
    "asin double": lambda: fit(_odd(mp.asin), 0, 0.25, 13, lambda z: z),
    "atan float": lambda: fit(_odd(mp.atan), 0, 1, 9, _relative(mp.atan)),
    "atan double": lambda: fit(_odd(mp.atan), 0, 1, 20, _relative(mp.atan)),
    "pow log": lambda: fit(
        lambda f: (mp.log1p(f) - f) / f**2, ROOT / 2 - 1, ROOT - 1, 12, lambda f: f**2 / mp.log1p(f)
    ),
    "pow exp2": lambda: fit(lambda r: (2**r - 1) / r, -0.5, 0.5, 7, lambda r: r / 2**r),
    "pow log double": lambda: fit(_atanh_rest, 0, (3 - 2 * ROOT) ** 2, 7, lambda z: z * z),
    "erf float": lambda: fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, 7),
    "erf double": lambda: fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, 12),
    "erf tail float": lambda: fit(_log_erfc, 0, 3, 7, lambda u: mp.erfc(1 + u)),
    "erf tail double": lambda: fit(_log_erfc, 0, 5, 18, lambda u: mp.erfc(1 + u)),
    "erfc float": lambda: fit(_erfc_scaled, -0.6, 0.68, 10),
    "erfc double": lambda: fit(_erfc_scaled, -0.6, 0.865, 24),
    "erf_inv float": lambda: fit(lambda v: _erf_inv(v + 1) - 1, -1, 4, 10),
    "erf_inv double": lambda: fit(lambda v: _erf_inv(v + 2) - 1, -2, 4.25, 25),
    "erf_inv tail float": lambda: fit(lambda v: _erf_inv(_root(v, 3) ** 2) - 2, -0.24, 0.2, 10),
    "erf_inv tail double": lambda: fit(lambda v: _erf_inv(_root(v, 4) ** 2) - 2, -0.43, 0.29, 28),
    "lgamma": lambda: fit(
        lambda v: mp.loggamma(v + 1.5) / ((v + 0.5) * (v - 0.5)), -0.7, 0.7, 26, lambda v: 3
    ),
    "lgamma tail": lambda: fit(_lgamma_rest, 0, mp.mpf(1) / 64, 7),
    "digamma": lambda: fit(
        lambda v: mp.digamma(v + 1.625) / (v + 1.625 - ROOT_OF_DIGAMMA), -0.625, 0.625, 25
    ),
    "digamma tail": lambda: fit(_digamma_rest, 0, mp.mpf(1) / 64, 7),
    "log float": lambda: fit(
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        ROOT / 2 - 1,
        ROOT - 1,
        8,
        lambda f: f**3 / mp.log1p(f),
    ),
    "log double": lambda: fit(
        lambda z: (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3,
        0,
        (3 - 2 * ROOT) ** 2,
        7,
        lambda z: z,
    ),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        coefficients, error = FITS[name]()
        print(f"{name}: {mp.nstr(error, 3)}")
        print("  (" + ", ".join(repr(float(v)) for v in coefficients) + ")")
