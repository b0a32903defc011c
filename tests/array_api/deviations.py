"""Where mgefn deliberately differs from the array API standard. This list is all of it.

Each entry is one function and one case, named as in special_cases.py or by a check in
test_deviations.py. No test passes over a difference that is not listed; an entry that mgefn does
not differ in any longer fails; and the table in docs/numpy-code.md is this list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """One case of one function.

    Attributes:
        function: the name in the standard; `complex` after a blank for its complex cases.
        case: what is asked and what the standard says.
        instead: what mgefn does.
        reason: why it is to stay so.
    """

    function: str
    case: str
    instead: str
    reason: str


# Reasons that several entries have.
NUMPYS = "as NumPy and JAX: both operands become complex first"
IMMUTABLE = "arrays never change; mnp.copy gives one that a donation leaves alone"

DEVIATIONS = (
    Deviation(
        "__setitem__",
        "x[index] = value sets elements of x",
        "an error, which names x.at[index].set(value)",
        "arrays never change: derivatives and compiled programs rely on it",
    ),
    Deviation(
        "astype",
        "copy=True, the default: never the array itself",
        "the array itself if it has the dtype",
        IMMUTABLE,
    ),
    Deviation(
        "reshape",
        "copy=True: never the array itself",
        "the array itself if it has the shape",
        IMMUTABLE,
    ),
    Deviation(
        "reshape",
        "copy=False: an error if a copy is needed",
        "the array, copied if need be",
        IMMUTABLE,
    ),
    Deviation(
        "can_cast",
        "bool to int8: False, for there is no promotion between kinds",
        "True",
        "mgefn does promote between kinds, as NumPy and JAX do",
    ),
    Deviation(
        "finfo",
        "of float32: eps, max, min and smallest_normal are of type float",
        "they are numpy.float32",
        "it is numpy.finfo itself, which NumPy and JAX programs expect",
    ),
    Deviation(
        "multiply complex",
        "real 2 times inf + 1j: each part by itself, inf + 2j",
        "inf + nan j",
        NUMPYS,
    ),
    Deviation(
        "divide complex",
        "inf + 1j by real 2: each part by itself, inf + 0.5j",
        "inf + nan j",
        NUMPYS,
    ),
    Deviation(
        "sqrt complex",
        "-inf, pos -> nan, nan",
        "+0, inf",
        "C99 says so, and it is the limit",
    ),
    Deviation(
        "sqrt complex",
        "inf, pos -> +0, inf",
        "inf, +0",
        "C99 says so, and it is the limit",
    ),
    Deviation(
        "tanh complex",
        "inf, pos -> 1, +0",
        "1, and a zero with the sign of sin(2b)",
        "C99 says so, and it is the limit",
    ),
    Deviation(
        "tan complex",
        "tanh(inf, pos -> 1, +0)",
        "as tanh: the zero has the sign of sin(2a)",
        "C99 says so, and it is the limit",
    ),
)
