"""The two namespaces and how their results are compared.

Calls are drawn with NumPy arrays and dtypes by name; each namespace gets its own arrays and dtypes
of them. The oracle is array-api-strict, which computes with NumPy: it decides shapes, dtypes and
values. Its default dtypes are 64 bits wide; those of mgefn are whatever `__array_namespace_info__`
says, and `expected_dtype` holds the sentences of the standard in which they occur.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import array_api_strict
import numpy as np

import mgefn
import mgefn.numpy as mnp

API_VERSION = "2024.12"
XP: Any = mnp.zeros(()).__array_namespace__(api_version=API_VERSION)
STRICT: Any = array_api_strict


@dataclass(frozen=True)
class DType:
    """A dtype by its name in the standard."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """Arguments, with arrays of NumPy and dtypes by name."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = [show(a) for a in self.args]
        return f"({', '.join(shown + [f'{k}={show(v)}' for k, v in self.kwargs.items()])})"


def show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array({value.tolist()}, {value.dtype}, shape={value.shape})"
    return repr(value)


def lookup(namespace: Any, name: str) -> Any:
    """`fft.fft` or `add` of a namespace."""
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def convert(namespace: Any, value: Any) -> Any:
    """A drawn value as this namespace has it."""
    if isinstance(value, np.ndarray):
        made = namespace.asarray(value.copy())
        assert as_numpy(made).dtype == value.dtype
        return made
    if isinstance(value, DType):
        return getattr(namespace, value.name)
    if isinstance(value, (tuple, list)):
        return type(value)(convert(namespace, v) for v in value)
    return value


def call(namespace: Any, name: str, drawn: Call) -> Any:
    args = convert(namespace, drawn.args)
    kwargs = {k: convert(namespace, v) for k, v in drawn.kwargs.items()}
    return lookup(namespace, name)(*args, **kwargs)


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy, the oracle's engine, warns of 0/0, of means of nothing, of overflow in a cast."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def ask_oracle(name: str, drawn: Call) -> Any:
    with quiet():
        return call(STRICT, name, drawn)


def ask_mgefn(name: str, drawn: Call, jit: bool = False) -> Any:
    if not jit:
        return call(XP, name, drawn)
    arrays: list[np.ndarray] = []

    def strip(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return Place(len(arrays) - 1)
        if isinstance(value, (tuple, list)):
            return type(value)(strip(v) for v in value)
        return value

    args = tuple(strip(a) for a in drawn.args)
    kwargs = {k: strip(v) for k, v in drawn.kwargs.items()}

    def compiled(traced: Any) -> Any:
        def fill(value: Any) -> Any:
            if isinstance(value, Place):
                return traced[value.index]
            if isinstance(value, (tuple, list)):
                return type(value)(fill(v) for v in value)
            return convert(XP, value)

        return lookup(XP, name)(*[fill(a) for a in args], **{k: fill(v) for k, v in kwargs.items()})

    return mgefn.jit(compiled)([convert(XP, a) for a in arrays])


@dataclass(frozen=True)
class Place:
    """Where an array stood among arguments that are otherwise known when a call is compiled."""

    index: int


# -- dtypes ---------------------------------------------------------------------------------------

CREATION = frozenset(
    "arange asarray empty eye full linspace ones zeros fft.fftfreq fft.rfftfreq".split()
)
INDICES = frozenset(
    "argmax argmin argsort count_nonzero nonzero searchsorted linalg.matrix_rank".split()
)
SUMS = frozenset("sum prod cumulative_sum cumulative_prod linalg.trace".split())
KIND_NAMES = {"f": "real floating", "c": "complex floating", "i": "integral"}


def expected_dtype(name: str, drawn: Call, place: str, strict_dtype: np.dtype) -> np.dtype:
    """The dtype that the standard asks for under the default dtypes of mgefn.

    Args:
        name: the function.
        drawn: the call.
        place: which of several results, such as "values"; "" for a single one.
        strict_dtype: what the oracle made, with its own defaults.
    """
    defaults = XP.__array_namespace_info__().default_dtypes()
    if name in INDICES or (name.startswith("unique_") and place not in ("", "values")):
        return np.dtype(defaults["indexing"])
    if drawn.kwargs.get("dtype") is not None:
        return strict_dtype
    if name in CREATION and not any(isinstance(a, np.ndarray) for a in drawn.args):
        kind = KIND_NAMES.get(strict_dtype.kind)
        return np.dtype(defaults[kind]) if kind else strict_dtype
    if name in SUMS:
        given, integral = drawn.args[0].dtype, np.dtype(defaults["integral"])
        if given.kind in "iu" and given.itemsize < integral.itemsize:
            return np.dtype(f"{given.kind}{integral.itemsize}")
        return given
    return strict_dtype


# -- values ---------------------------------------------------------------------------------------


def eps(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).eps)


def assert_elements(
    got: np.ndarray, want: np.ndarray, units: float, scale: float = 0.0, zeros: bool = False
) -> None:
    """Elements are equal: integers exactly, others within `units` roundings.

    Args:
        got: what mgefn computed.
        want: what it should be, of the same shape and dtype.
        units: how many roundings each element may be off, relative to the larger of it and scale.
        scale: the size of what was added up on the way.
        zeros: whether the signs of zeros must agree.
    """
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype.kind == "c":
        # A component may be the small difference of large ones, so the magnitude is the measure.
        sizes = np.abs(np.where(np.isfinite(want), want, 0))
        parts = ((got.real, want.real), (got.imag, want.imag))
    else:
        sizes = np.abs(np.where(np.isfinite(want), want, 0))
        parts = ((got, want),)
    allowed = units * eps(want.dtype) * np.maximum(sizes, scale)
    # What rounds to zero or a subnormal number has no relative precision.
    allowed = allowed + float(np.finfo(want.dtype).tiny)
    for mine, theirs in parts:
        with quiet():
            same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
            close = np.abs(mine - theirs) <= allowed
        wrong = ~(same | close)
        assert not wrong.any(), f"got {got[wrong]}, the standard wants {want[wrong]}"
        if zeros:
            at_zero = (mine == 0) & (theirs == 0)
            flipped = at_zero & (np.signbit(mine) != np.signbit(theirs))
            assert not flipped.any(), f"zeros of the other sign: got {got}, want {want}"


def as_numpy(array: Any) -> np.ndarray:
    return np.asarray(getattr(array, "_array", array))


def assert_array(name: str, drawn: Call, place: str, got: Any, want: Any) -> np.ndarray:
    """Shape and dtype are those of the standard; return the wanted values in that dtype."""
    assert isinstance(got, mgefn.Array), f"{name} returned {type(got)}"
    wanted = as_numpy(want)
    dtype = expected_dtype(name, drawn, place, wanted.dtype)
    assert got.shape == wanted.shape, f"shape {got.shape}, the standard wants {wanted.shape}"
    assert got.dtype == dtype, f"dtype {got.dtype}, the standard wants {dtype}"
    if XP.__array_namespace_info__().default_dtypes()["integral"] == np.int64:
        assert dtype == wanted.dtype, "the rule for default dtypes disagrees with the oracle"
    with quiet():
        return wanted.astype(dtype)


def array_dtype(value: Any) -> np.dtype:
    return np.dtype(str(value).rsplit(".", 1)[-1])
