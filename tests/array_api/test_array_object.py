"""The array object of the standard, its operators and indexing, and the namespace's info."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mgefn
from tests.array_api import calls as c
from tests.array_api import draws as d
from tests.array_api.calls import each, summed
from tests.array_api.draws import Draw
from tests.array_api.oracle import API_VERSION, STRICT, XP, Call, DType, convert, quiet
from tests.array_api.test_functions import EXAMPLES, drawn

UNARY: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "__abs__": (operator.abs, c.unary(d.NUMBERS)),
    "__invert__": (operator.invert, c.unary(("bool", *d.INTEGERS))),
    "__neg__": (operator.neg, c.unary(d.NUMBERS)),
    "__pos__": (operator.pos, c.unary(d.NUMBERS)),
}

BITS = c.binary(("bool", *d.INTEGERS))
ORDERED = c.binary(d.REALS)
ARITHMETIC = c.binary(d.NUMBERS)

# By the name without the underscores; the reflected and the in-place form follow from it.
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "add": (operator.add, ARITHMETIC, each(8)),
    "and": (operator.and_, BITS, each(0)),
    "eq": (operator.eq, c.binary(d.ALL), each(0)),
    "floordiv": (operator.floordiv, c.division(d.REALS), each(0)),
    "ge": (operator.ge, ORDERED, each(0)),
    "gt": (operator.gt, ORDERED, each(0)),
    "le": (operator.le, ORDERED, each(0)),
    "lshift": (operator.lshift, c.shifts(), each(0)),
    "lt": (operator.lt, ORDERED, each(0)),
    "matmul": (operator.matmul, c.products(), summed(64, power=2)),
    "mod": (operator.mod, c.division(d.REALS), each(8)),
    "mul": (operator.mul, ARITHMETIC, each(8)),
    "ne": (operator.ne, c.binary(d.ALL), each(0)),
    "or": (operator.or_, BITS, each(0)),
    "pow": (operator.pow, c.powers(), each(64)),
    "rshift": (operator.rshift, c.shifts(), each(0)),
    "sub": (operator.sub, ARITHMETIC, each(8)),
    "truediv": (operator.truediv, c.division(d.FLOATS), each(16)),
    "xor": (operator.xor, BITS, each(0)),
}
COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
IN_PLACE = {name: getattr(operator, f"i{name}") for name in BINARY if name not in COMPARISONS}


def both(apply: Callable[..., Any], call: Call, jit: bool = False) -> tuple[Any, Any]:
    """What an expression gives for arrays of mgefn and for those of the oracle."""
    with quiet():
        want = apply(*convert(STRICT, call.args))
    arguments = convert(XP, call.args)
    if not jit:
        return apply(*arguments), want
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, mgefn.Array)]

    def compiled(*traced: Any) -> Any:
        filled = list(arguments)
        for i, t in zip(arrays, traced, strict=True):
            filled[i] = t
        return apply(*filled)

    return mgefn.jit(compiled)(*[arguments[i] for i in arrays]), want


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_operator(name: str) -> None:
    apply, calls = UNARY[name]

    @drawn(EXAMPLES)
    @given(calls, st.booleans())
    def check(call: Call, jit: bool) -> None:
        each(8)(name, call, *both(apply, call, jit and EXAMPLES > 100))

    check()


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_operator(name: str) -> None:
    """Arrays with arrays, and Python numbers on either side: the reflected operators."""
    apply, calls, judge = BINARY[name]

    @drawn(EXAMPLES)
    @given(calls, st.booleans())
    def check(call: Call, jit: bool) -> None:
        judge(name, call, *both(apply, call, jit and EXAMPLES > 100))

    check()


@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_in_place_operator(name: str) -> None:
    """`x += y` gives x the result; the standard allows that it is another array."""
    apply, judge = IN_PLACE[name], BINARY[name][2]

    @st.composite
    def calls(draw: Draw) -> Call:
        x, y = draw(BINARY[name][1]).args
        if not isinstance(x, np.ndarray):
            x, y = y, x
        if isinstance(y, np.ndarray):
            # x keeps its shape and dtype, so y must be below in both.
            fill = x.dtype.type(2)
            y = np.asarray(fill) if name != "matmul" else np.zeros((x.shape[-1],) * 2, x.dtype)
            if name == "matmul" and x.ndim < 2:
                x = np.ones((2, 2), x.dtype)
                y = x + x
        elif name in ("floordiv", "mod", "pow") and x.dtype.kind in "iu":
            y = y or 1
            y = abs(y)
        if x.dtype.kind == "c" and name == "pow":
            x = c.nonzero_finite(x)
        return Call((x, y))

    @drawn(EXAMPLES // 2)
    @given(calls())
    def check(call: Call) -> None:
        before = convert(XP, call.args[0])
        kept = np.array(before)
        got, want = both(apply, call)
        judge(name, call, got, want)
        assert got.dtype == before.dtype
        np.testing.assert_array_equal(np.asarray(before), kept)

    check()


# -- indexing -------------------------------------------------------------------------------------


@st.composite
def basic_indices(draw: Draw) -> tuple[np.ndarray, Any]:
    x = draw(d.any_array(d.ALL))
    index = draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True, max_dims=5))
    parts = index if isinstance(index, tuple) else (index,)
    if Ellipsis not in parts and sum(p is not None for p in parts) < x.ndim:
        parts = (*parts, ...)  # fewer indices than dimensions: only with an ellipsis
    return x, tuple(in_bounds(x, parts))


def in_bounds(x: np.ndarray, parts: tuple[Any, ...]) -> list[Any]:
    """Slices whose ends lie within the array: others are left open."""
    dims = [p for p in parts if p is not None and p is not Ellipsis]
    out, dim = [], 0
    for p in parts:
        if p is Ellipsis:
            dim += x.ndim - len(dims)
        elif p is not None:
            if isinstance(p, slice):
                p = slice(*[clipped(p, x.shape[dim], i) for i in range(2)], p.step)
            dim += 1
        out.append(p)
    return out


def clipped(s: slice, n: int, which: int) -> int | None:
    value = (s.start, s.stop)[which]
    if value is None:
        return None
    backwards = (s.step or 1) < 0
    low, high = (-n - 1, max(n - 1, 0)) if backwards else (-n, n)
    if backwards and which == 0:
        low = -n
    return min(max(value, low), high)


@drawn(EXAMPLES * 3)
@given(basic_indices())
def test_basic_indices(drawn_index: tuple[np.ndarray, Any]) -> None:
    x, index = drawn_index
    each(0)("getitem", Call((x,)), *both(lambda a: a[index], Call((x,))))


@drawn(EXAMPLES)
@given(d.any_array(d.ALL), st.data())
def test_masks(x: np.ndarray, data: st.DataObject) -> None:
    mask = data.draw(d.arrays("bool", x.shape))
    each(0)("getitem", Call((x, mask)), *both(lambda a, m: a[m], Call((x, mask))))


@drawn(EXAMPLES)
@given(d.any_array(d.ALL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1)), st.data())
def test_integer_arrays(x: np.ndarray, data: st.DataObject) -> None:
    """An integer or an integer array for each dimension, which broadcast: new in 2024.12."""
    shapes = data.draw(d.shapes_that_broadcast(x.ndim))
    index = []
    for n, shape in zip(x.shape, shapes, strict=True):
        dtype = data.draw(d.dtypes(d.SIGNED))
        index.append(data.draw(d.arrays(dtype, shape, low=-n, bound=n - 1)))
    if x.ndim > 1 and data.draw(st.booleans()):
        index[0] = data.draw(st.integers(-x.shape[0], x.shape[0] - 1))
    call = Call((x, tuple(index)))
    each(0)("getitem", call, *both(lambda a, i: a[i], call))


# -- attributes and methods -----------------------------------------------------------------------


@drawn(EXAMPLES)
@given(d.any_array(d.ALL))
def test_attributes(x: np.ndarray) -> None:
    mine, theirs = convert(XP, x), convert(STRICT, x)
    assert mine.shape == tuple(theirs.shape) and isinstance(mine.shape, tuple)
    assert mine.ndim == theirs.ndim and mine.size == theirs.size
    assert mine.dtype == getattr(XP, x.dtype.name)
    assert mine.device == XP.__array_namespace_info__().default_device()
    if x.ndim >= 2:
        each(0)("mT", Call((x,)), mine.mT, theirs.mT)
    if x.ndim == 2:
        each(0)("T", Call((x,)), mine.T, theirs.T)
    assert mine.to_device(mine.device).device == mine.device
    assert mine.__array_namespace__() is mine.__array_namespace__(api_version=API_VERSION) is XP


@drawn(EXAMPLES)
@given(d.any_array(d.ALL, ()))
def test_python_numbers_of_arrays(x: np.ndarray) -> None:
    mine, theirs = convert(XP, x), convert(STRICT, x)
    kind = x.dtype.kind
    if kind != "c":
        assert bool(mine) is bool(theirs)
        got = float(mine)
        assert type(got) is float and (got == float(theirs) or got != got)
        if np.isfinite(x):
            assert int(mine) == int(theirs) and type(int(mine)) is int
        if kind == "f" and not np.isfinite(x):
            error = ValueError if np.isnan(x) else OverflowError
            with pytest.raises(error):
                int(mine)
    if kind in "iu":
        assert operator.index(mine) == operator.index(theirs)
        assert list(range(10, 200))[mine % 5] == 10 + int(x) % 5
    if kind == "c":
        for number in (float, int):
            with pytest.raises(TypeError, match="needs a real number"):
                number(mine)
    got_complex = complex(mine)
    assert type(got_complex) is complex
    np.testing.assert_array_equal(got_complex, complex(x[()]))


@drawn(EXAMPLES)
@given(d.any_array(d.ALL))
def test_dlpack(x: np.ndarray) -> None:
    mine = convert(XP, x)
    assert mine.__dlpack_device__() == (1, 0)  # kDLCPU
    for kwargs in ({}, {"max_version": (1, 0)}, {"copy": True}, {"dl_device": (1, 0)}):
        capsule = mine.__dlpack__(stream=None, **kwargs)
        assert "dltensor" in repr(capsule)
    for taken in (np.from_dlpack(mine), STRICT.from_dlpack(mine)):
        np.testing.assert_array_equal(np.asarray(getattr(taken, "_array", taken)), x)
    for copy in (None, False, True):
        back = XP.from_dlpack(mine, copy=copy)
        assert back.dtype == mine.dtype and back.shape == mine.shape
        np.testing.assert_array_equal(back, x)
    taken = XP.from_dlpack(convert(STRICT, x), device=mine.device)
    np.testing.assert_array_equal(taken, x)


NOT_OF_THE_STANDARD = {"__array__", "__buffer__", "__iter__", "__annotations__"}
TESTED = {
    *UNARY,
    *(f"__{name}__" for name in BINARY),
    *(f"__r{name}__" for name in BINARY if name not in COMPARISONS),
    *"T device dtype mT ndim shape size to_device".split(),
    *"__array_namespace__ __bool__ __complex__ __float__ __int__ __index__".split(),
    *"__dlpack__ __dlpack_device__ __getitem__".split(),
}
# Without an __iadd__ Python gives x a new array for `x += y`, which the standard allows.
BY_PYTHON = {f"__i{name}__" for name in IN_PLACE}
LISTED = {"__setitem__"}  # deviations.py


def test_every_member_of_the_array_object_is_tested() -> None:
    theirs = {n for n in dir(type(STRICT.asarray(1.0))) if n not in dir(object)}
    theirs = {n for n in theirs if not n.startswith("_") or n.startswith("__")}
    theirs -= NOT_OF_THE_STANDARD | {"__slots__", "__module__", "__weakref__", "__dict__"}
    theirs |= {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    untested = theirs - TESTED - BY_PYTHON - LISTED
    assert not untested, f"members of the standard without a test: {sorted(untested)}"
    missing = {n for n in TESTED if not hasattr(type(XP.zeros(())), n)}
    assert not missing


# -- the namespace's info -------------------------------------------------------------------------


def test_info_as_the_oracle_tells_it() -> None:
    mine, theirs = XP.__array_namespace_info__(), STRICT.__array_namespace_info__()
    assert mine.capabilities() == theirs.capabilities()
    assert mine.default_device() in mine.devices() and isinstance(mine.devices(), list)
    assert set(mine.default_dtypes()) == set(theirs.default_dtypes())
    for kind in (None, *c.KINDS, ("bool", "integral"), ("real floating", "complex floating")):
        assert set(mine.dtypes(kind=kind)) == set(theirs.dtypes(kind=kind)), kind
        for name, dtype in mine.dtypes(kind=kind, device=mine.default_device()).items():
            assert dtype == getattr(XP, name)


@pytest.mark.parametrize("wide", [False, True])
def test_default_dtypes_are_those_of_results(wide: bool) -> None:
    with mgefn.config.override(enable_x64=wide):
        defaults = XP.__array_namespace_info__().default_dtypes(device=None)
        width = 64 if wide else 32
        assert defaults["real floating"] == getattr(XP, f"float{width}")
        assert defaults["complex floating"] == getattr(XP, f"complex{2 * width}")
        assert defaults["integral"] == defaults["indexing"] == getattr(XP, f"int{width}")
        made = {
            "real floating": [XP.zeros(2), XP.asarray(1.0), XP.linspace(0.0, 1.0, 3)],
            "complex floating": [XP.asarray(1j), XP.full((2,), 1j)],
            "integral": [XP.arange(3), XP.asarray(1), XP.full(2, 3)],
            "indexing": [XP.argmax(XP.ones(3)), *XP.nonzero(XP.ones(3)), XP.argsort(XP.ones(3))],
        }
        for kind, arrays in made.items():
            assert {a.dtype for a in arrays} == {np.dtype(defaults[kind])}, kind


# -- special cases of statistics, in words --------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_of_nothing_and_of_nan(dtype: str) -> None:
    real = getattr(XP, dtype)
    none = XP.zeros((0, 2), dtype=real)
    for f, want in ((XP.sum, 0.0), (XP.prod, 1.0), (XP.mean, np.nan), (XP.var, np.nan)):
        assert np.array_equal(np.asarray(f(none, axis=0)), [want, want], equal_nan=True), f
    assert bool(XP.all(none)) and not bool(XP.any(none))
    with_nan = XP.asarray(np.asarray([1.0, np.nan, -np.inf], dtype))
    for f in (XP.sum, XP.prod, XP.mean, XP.max, XP.min, XP.std, XP.var):
        assert np.isnan(f(with_nan)), f
    assert bool(XP.all(with_nan)) and bool(XP.any(with_nan))  # nan is not zero
    three = XP.asarray(np.asarray([1.0, 2.0, 4.0], dtype))
    for correction in (3, 3.0, 4):
        assert np.isnan(XP.var(three, correction=correction))
        assert np.isnan(XP.std(three, correction=correction))
    assert XP.count_nonzero(with_nan) == 3


def test_nan_is_distinct_from_nan_in_sets() -> None:
    x = XP.asarray([np.nan, 1.0, np.nan])
    assert XP.unique_values(x).shape == (3,)
    counted = XP.unique_counts(x)
    assert np.asarray(counted.counts).tolist() == [1, 1, 1]
    assert XP.unique_all(x).inverse_indices.shape == x.shape


def test_dtypes_by_name_are_enough() -> None:
    """What the drawn calls say is what a program would write."""
    assert convert(XP, DType("int8")) is XP.int8
    assert convert(XP, (np.zeros(2, "int8"), [DType("bool")]))[1] == [XP.bool]
