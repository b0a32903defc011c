"""Every function of the array API standard 2024.12, on drawn calls, against array-api-strict.

    MGEFN_ARRAY_API_EXAMPLES=300 python -m pytest tests/array_api

draws that many calls of each function instead of the few that fit a normal run. The calls are new
every day; MGEFN_TEST_SEED=... repeats those of a failure, whose output names it.
"""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

import mgefn
from tests.array_api.calls import ROWS, shape_and_dtype
from tests.array_api.oracle import STRICT, XP, ask_mgefn, ask_oracle, lookup, quiet

EXAMPLES = int(os.environ.get("MGEFN_ARRAY_API_EXAMPLES", "30"))
SEED = int(os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d"))
print(f"MGEFN_TEST_SEED={SEED}")


def drawn(examples: int) -> Any:
    """The settings of a property that judges drawn calls."""

    def decorate(test: Any) -> Any:
        limits = settings(
            max_examples=max(examples, 1),
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        return hypothesis_seed(SEED)(limits(test))

    return decorate


def judge(name: str, data: st.DataObject, jit: bool) -> None:
    row = ROWS[name]
    call = data.draw(row.calls)
    wide = data.draw(st.booleans(), label="enable_x64")
    with mgefn.config.override(enable_x64=wide):
        got = ask_mgefn(name, call, jit)
        row.check(name, call, got, ask_oracle(name, call))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_function(name: str) -> None:
    @drawn(EXAMPLES)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        judge(name, data, jit=False)

    check()


@pytest.mark.parametrize("name", sorted(n for n, row in ROWS.items() if row.jit))
def test_compiled(name: str) -> None:
    @drawn(EXAMPLES // 8)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        judge(name, data, jit=True)

    check()


# -- the table has no hole ------------------------------------------------------------------------

# Switches of array-api-strict itself, and `Device`, which is no name of the standard.
OF_THE_ORACLE = {"Device", "ArrayAPIStrictFlags"}
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")


def functions(module: Any, prefix: str = "") -> Iterator[str]:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from functions(value, f"{name}.")
        elif callable(value) and not isinstance(value, type(STRICT.float32)):
            yield prefix + name


def is_later(name: str) -> bool:
    """Whether the oracle, told to keep to 2024.12, says that a function came after."""
    try:
        lookup(STRICT, name)()
    except RuntimeError as error:
        return "requires API version" in str(error)
    except Exception:
        return False
    return False


def test_every_function_of_the_standard_has_a_row() -> None:
    named = {n for n in functions(STRICT) if not n.endswith("array_api_strict_flags")}
    named -= OF_THE_ORACLE | {"__array_namespace_info__"}  # the latter: test_array_object.py
    missing = {n for n in named - set(ROWS) if not is_later(n)}
    assert not missing, f"functions of the standard without a row in calls.py: {sorted(missing)}"
    assert len(named & set(ROWS)) >= 165  # the walk sees what it should
    unknown = set(ROWS) - named
    assert not unknown, f"rows for what the standard does not have: {sorted(unknown)}"


def test_constants_and_dtypes() -> None:
    for name in CONSTANTS:
        mine, theirs = getattr(XP, name), getattr(STRICT, name)
        assert mine is theirs or mine == theirs or (mine != mine and theirs != theirs), name
    for name in (n for n in STRICT.__all__ if isinstance(getattr(STRICT, n), type(STRICT.bool))):
        dtype = getattr(XP, name)
        assert XP.zeros(1, dtype=dtype).dtype == dtype == np.dtype(name)
        others = [d for d in ("int8", "uint64", "float64") if d != name]
        assert all(getattr(XP, other) != dtype for other in others)


# -- the judges are awake -------------------------------------------------------------------------


JUDGED = sorted(n for n, row in ROWS.items() if row.check is not shape_and_dtype)


@pytest.mark.parametrize("name", JUDGED)
def test_a_wrong_result_is_seen(name: str) -> None:
    """A result of the wrong dtype, shape or value does not pass."""
    row = ROWS[name]
    seen: list[bool] = []

    @drawn(4)
    @given(row.calls)
    def check(call: Any) -> None:
        want = ask_oracle(name, call)
        for wrong in spoiled(ask_mgefn(name, call)):
            try:
                row.check(name, call, wrong, want)
            except AssertionError:
                seen.append(True)
            else:
                seen.append(False)

    with mgefn.config.override(enable_x64=True):
        check()
    assert seen and all(seen)


def spoiled(value: Any) -> Iterator[Any]:
    if isinstance(value, mgefn.Array):
        yield value[None]
        other = "float64" if value.dtype != np.float64 else "float32"
        with quiet():
            yield XP.asarray(np.asarray(value).real, dtype=getattr(XP, other))
        if value.size and np.isfinite(np.asarray(value)).all():
            changed = np.array(value, order="C")
            flat = changed.reshape(-1)
            with quiet():  # the largest number becomes infinite, which is wrong too
                flat[0] = flat[0] ^ 1 if changed.dtype.kind in "biu" else flat[0] + 1 + abs(flat[0])
            yield XP.asarray(changed)
    elif hasattr(value, "_fields"):
        for i, part in enumerate(value):
            for wrong in spoiled(part):
                yield value._replace(**{value._fields[i]: wrong})
                break
    elif isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            for wrong in spoiled(part):
                yield type(value)((*value[:i], wrong, *value[i + 1 :]))
        yield type(value)((*value, value))
    elif isinstance(value, bool):
        yield not value
        yield int(value)
    elif isinstance(value, np.dtype):
        yield np.dtype("float16")
    else:
        yield SimpleNamespace(**{f: getattr(value, f) for f in INFO if hasattr(value, f)}, dtype=0)


INFO = ("bits", "eps", "max", "min", "smallest_normal")
