"""The list of deviations is true, complete in form, and the one in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.array_api.deviations import DEVIATIONS, Deviation
from tests.array_api.oracle import XP
from tests.array_api.special_cases import complex_cases, real_cases
from tests.array_api.test_special_cases import complex_of

PAGE = Path(__file__).parents[2] / "docs" / "numpy-code.md"
HEADING = "### Deliberate deviations"
LIMIT = 30


def refuses_assignment() -> bool:
    x = XP.zeros(2)
    try:
        x[0] = 1.0
    except TypeError as error:
        return ".at[" in str(error)
    return False


def is_itself(make: Callable[..., object]) -> bool:
    x = XP.zeros((2, 3))
    return make(x) is x


def reshapes_a_transpose() -> bool:
    x = XP.permute_dims(XP.asarray(np.arange(6).reshape(2, 3)), (1, 0))
    return np.asarray(XP.reshape(x, (6,), copy=False)).tolist() == [0, 3, 1, 4, 2, 5]


def has_a_nan_part(divide: bool) -> bool:
    z, two = XP.asarray(complex_of([(np.inf, 1.0)], "complex128")), XP.asarray(np.asarray([2.0]))
    got = np.asarray(XP.divide(z, two) if divide else XP.multiply(two, z))
    return bool(np.isinf(got.real) and np.isnan(got.imag))


# What mgefn does instead, for the entries that are no row of a table of special cases.
CHECKS: dict[tuple[str, str], Callable[[], bool]] = {
    ("__setitem__", "x[index] = value sets elements of x"): refuses_assignment,
    ("astype", "copy=True, the default: never the array itself"): lambda: is_itself(
        lambda x: XP.astype(x, x.dtype)
    ),
    ("reshape", "copy=True: never the array itself"): lambda: is_itself(
        lambda x: XP.reshape(x, x.shape, copy=True)
    ),
    ("reshape", "copy=False: an error if a copy is needed"): reshapes_a_transpose,
    ("can_cast", "bool to int8: False, for there is no promotion between kinds"): lambda: (
        XP.can_cast(XP.bool, XP.int8) is True
    ),
    ("finfo", "of float32: eps, max, min and smallest_normal are of type float"): lambda: all(
        type(getattr(XP.finfo(XP.float32), name)) is np.float32
        for name in ("eps", "max", "min", "smallest_normal")
    ),
    ("multiply complex", "real 2 times inf + 1j: each part by itself, inf + 2j"): lambda: (
        has_a_nan_part(divide=False)
    ),
    ("divide complex", "inf + 1j by real 2: each part by itself, inf + 0.5j"): lambda: (
        has_a_nan_part(divide=True)
    ),
}


def in_tables() -> set[tuple[str, str]]:
    """The entries that test_special_cases.py holds to the truth."""
    real = {(name, case.text) for name, cases in real_cases().items() for case in cases}
    parts = {
        (f"{name} complex", case.text) for name, cases in complex_cases().items() for case in cases
    }
    return real | parts


def test_the_list_is_short_and_names_no_case_twice() -> None:
    assert len(DEVIATIONS) <= LIMIT
    keys = [(d.function, d.case) for d in DEVIATIONS]
    assert len(set(keys)) == len(keys)
    for entry in DEVIATIONS:
        assert entry.function and entry.case and entry.instead and entry.reason
        assert "|" not in entry.function + entry.case + entry.instead + entry.reason


def test_every_entry_is_held_to_the_truth_by_one_test() -> None:
    listed = {(d.function, d.case) for d in DEVIATIONS}
    unchecked = listed - set(CHECKS) - in_tables()
    assert not unchecked, f"entries that no test checks: {sorted(unchecked)}"
    assert set(CHECKS) <= listed, f"checks without an entry: {sorted(set(CHECKS) - listed)}"
    assert not set(CHECKS) & in_tables()


@pytest.mark.parametrize("key", CHECKS, ids=lambda key: f"{key[0]}: {key[1]}")
def test_it_deviates(key: tuple[str, str]) -> None:
    assert CHECKS[key](), f"{key[0]}: no longer deviates. Drop it from deviations.py."


def row(entry: Deviation) -> str:
    return f"| `{entry.function}` | {entry.case} | {entry.instead} | {entry.reason} |"


def test_the_documentation_has_this_list() -> None:
    """Run this file as a script to write the table anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(HEADING) == 1
    section = text.split(HEADING)[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [row(d) for d in DEVIATIONS]


def test_copy_false_is_refused_where_a_copy_would_be_made() -> None:
    x = XP.zeros(3)
    assert XP.asarray(x, copy=False) is x
    for given, kwargs in (([1, 2], {}), (np.zeros(3), {}), (x, {"dtype": XP.int8}), (1.0, {})):
        with pytest.raises(ValueError, match=r"asarray: copy=False needs an array.*got .*copy out"):
            XP.asarray(given, copy=False, **kwargs)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(HEADING)
    lines = after.split("\n")
    kept = [line for line in lines if not line.startswith("| `")]
    at = next(i for i, line in enumerate(kept) if line.startswith("|---"))
    kept[at + 1 : at + 1] = [row(d) for d in DEVIATIONS]
    PAGE.write_text(before + HEADING + "\n".join(kept), encoding="utf-8")
