"""A row for each function of the array API standard: the calls to draw, and what decides.

A row draws only calls that the standard defines. Where it leaves the result open, as for integers
divided by zero, for shifts past the width, or for a cast of nan to an integer, nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.array_api import draws as d
from tests.array_api.draws import Draw
from tests.array_api.oracle import (
    Call,
    DType,
    array_dtype,
    assert_array,
    assert_elements,
)

Check = Callable[[str, Call, Any, Any], None]


@dataclass(frozen=True)
class Row:
    calls: Any  # strategy of Call
    check: Check
    jit: bool = True  # False: a value decides a shape or a dtype, or nothing is computed


# -- checks ---------------------------------------------------------------------------------------


def inexact_scale(drawn: Call) -> float:
    """The largest finite magnitude among the arguments, at least 1."""
    sizes = [1.0]
    for a in (*drawn.args, *drawn.kwargs.values()):
        for part in a if isinstance(a, (tuple, list)) else (a,):
            if isinstance(part, np.ndarray) and part.dtype.kind in "fc" and part.size:
                finite = np.abs(np.where(np.isfinite(part), part, 0))
                sizes.append(float(finite.max()))
    return max(sizes)


def each(units: float = 8.0, zeros: bool = False) -> Check:
    """Every element by itself: NumPy and mgefn may call different kernels of one function."""

    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        wanted = assert_array(name, drawn, "", got, want)
        assert_elements(np.asarray(got), wanted, units, zeros=zeros)

    return check


def summed(units: float = 64.0, power: int = 1) -> Check:
    """Sums of products of `power` elements, which rounding may reorder: relative to their size."""

    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        wanted = assert_array(name, drawn, "", got, want)
        assert_elements(np.asarray(got), wanted, units, inexact_scale(drawn) ** power)

    return check


def several(units: float = 8.0) -> Check:
    """A list or tuple of arrays, with the names of the standard where it has names."""

    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        assert isinstance(got, (list, tuple)) and len(got) == len(want)
        names = getattr(want, "_fields", ("",) * len(want))
        assert getattr(got, "_fields", names) == names
        if hasattr(want, "_fields"):
            assert hasattr(got, "_fields"), f"{name} has no named results"
        for place, mine, theirs in zip(names, got, want, strict=True):
            wanted = assert_array(name, drawn, place, mine, theirs)
            assert_elements(np.asarray(mine), wanted, units)

    return check


def shape_and_dtype(name: str, drawn: Call, got: Any, want: Any) -> None:
    assert_array(name, drawn, "", got, want)


def python_value(name: str, drawn: Call, got: Any, want: Any) -> None:
    assert type(got) is type(want) and got == want


def a_dtype(name: str, drawn: Call, got: Any, want: Any) -> None:
    assert got == array_dtype(want)


# -- elementwise ----------------------------------------------------------------------------------


@st.composite
def unary(draw: Draw, names: tuple[str, ...], **limits: Any) -> Call:
    return Call((draw(d.any_array(names, **limits)),))


@st.composite
def reciprocals(draw: Draw) -> Call:
    """Without complex zeros, for which 1/x of the oracle is not its reciprocal either."""
    x = draw(d.any_array(d.FLOATS))
    return Call((np.where(x == 0, x.dtype.type(1), x) if x.dtype.kind == "c" else x,))


@st.composite
def binary(draw: Draw, names: tuple[str, ...], scalars: bool = True, **limits: Any) -> Call:
    left, right = draw(d.promotable_dtypes(names, 2))
    kind = draw(st.integers(0, 3)) if scalars else 0
    if kind == 1:
        return Call((draw(d.any_array((left,), **limits)), draw(d.scalar_like(left))))
    if kind == 2:
        return Call((draw(d.scalar_like(left)), draw(d.any_array((left,), **limits))))
    shapes = draw(d.shapes_that_broadcast(2))
    return Call(
        (
            draw(d.arrays(left, shapes[0], **limits)),
            draw(d.arrays(right, shapes[1], **limits)),
        )
    )


def is_integer(x: Any) -> bool:
    return x.dtype.kind in "iu" if isinstance(x, np.ndarray) else isinstance(x, int)


@st.composite
def division(draw: Draw, names: tuple[str, ...]) -> Call:
    drawn = draw(binary(names))
    x, y = drawn.args
    if is_integer(x) and is_integer(y):  # an integer divided by zero is left open
        y = np.where(y == 0, np.asarray(3, y.dtype), y) if isinstance(y, np.ndarray) else (y or 3)
    return Call((x, y))


def nonzero_finite(v: Any) -> Any:
    if isinstance(v, np.ndarray):
        return np.where(np.isfinite(v) & (v != 0), v, v.dtype.type(2))
    return v or 1


@st.composite
def powers(draw: Draw) -> Call:
    """Negative exponents of integers are left open, and complex special cases are advice."""
    x, y = draw(binary(d.NUMBERS, bound=4.0)).args
    if is_integer(x) and is_integer(y):
        y = np.asarray(np.abs(y)) if isinstance(y, np.ndarray) else abs(y)
    elif any(np.asarray(v).dtype.kind == "c" for v in (x, y)):
        x, y = nonzero_finite(x), nonzero_finite(y)
    return Call((x, y))


@st.composite
def shifts(draw: Draw) -> Call:
    """Shifts in [0, 8): defined for every width."""
    left, right = draw(d.promotable_dtypes(d.INTEGERS, 2))
    shapes = draw(d.shapes_that_broadcast(2))
    amount = draw(d.arrays(right, shapes[1], low=0, bound=7))
    x = draw(d.arrays(left, shapes[0]))
    return draw(st.sampled_from([Call((x, amount)), Call((x, 3))]))


@st.composite
def clips(draw: Draw) -> Call:
    dtype = draw(d.dtypes(d.REALS))
    shapes = draw(d.shapes_that_broadcast(3))
    x = draw(d.arrays(dtype, shapes[0]))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return Call((x,))
    low, high = sorted((draw(d.scalar_like(dtype)), draw(d.scalar_like(dtype))))
    if dtype in d.REAL_FLOATS:  # array-api-strict 2.4 takes no int here
        low, high = float(low), float(high)
    if kind == 1:
        return Call((x,), draw(st.sampled_from([{"min": low}, {"max": high}])))
    if kind == 2:
        return Call((x, low, high))
    least = draw(d.arrays(dtype, shapes[1], special=False))
    most = draw(d.arrays(dtype, shapes[2], special=False))
    if kind == 3:
        return Call((x,), {"max": most})
    if kind == 4:
        return Call((x, least))
    # min above max is left open.
    least, most = np.broadcast_arrays(least, most)
    # As arrays: NumPy makes scalars of what has no axes.
    low, high = np.asarray(np.minimum(least, most)), np.asarray(np.maximum(least, most))
    return Call((x, low, high))


# Rounding units of the functions for which the kernels of the two sides differ by more than a few.
ELEMENTWISE: dict[str, tuple[Any, float]] = {
    **{n: (unary(d.NUMBERS), 8) for n in "abs conj negative positive square sign round".split()},
    **{
        n: (unary(d.FLOATS), 16)
        for n in """
            acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt
            tan tanh
        """.split()
    },
    **{n: (unary(d.NUMBERS), 0) for n in "isfinite isinf isnan real".split()},
    **{n: (unary(d.REALS), 0) for n in "ceil floor trunc".split()},
    "reciprocal": (reciprocals(), 16),
    "bitwise_invert": (unary(("bool", *d.INTEGERS)), 0),
    "imag": (unary(d.COMPLEXES), 0),
    "logical_not": (unary(("bool",)), 0),
    "signbit": (unary(d.REAL_FLOATS), 0),
    **{n: (binary(d.NUMBERS), 8) for n in "add multiply subtract".split()},
    **{n: (binary(d.REAL_FLOATS), 16) for n in "atan2 copysign hypot logaddexp nextafter".split()},
    **{n: (binary(("bool", *d.INTEGERS)), 0) for n in "bitwise_and bitwise_or bitwise_xor".split()},
    **{n: (shifts(), 0) for n in "bitwise_left_shift bitwise_right_shift".split()},
    **{n: (binary(d.ALL), 0) for n in "equal not_equal".split()},
    **{
        n: (binary(d.REALS), 0)
        for n in "greater greater_equal less less_equal maximum minimum".split()
    },
    **{n: (binary(("bool",)), 0) for n in "logical_and logical_or logical_xor".split()},
    "divide": (division(d.FLOATS), 16),
    "floor_divide": (division(d.REALS), 0),
    "remainder": (division(d.REALS), 8),
    "pow": (powers(), 64),
    "clip": (clips(), 0),
}

# -- creation -------------------------------------------------------------------------------------

SIDE = st.integers(0, 4)


@st.composite
def with_dtype(draw: Draw, names: tuple[str, ...] = d.ALL) -> dict[str, Any]:
    dtype = draw(d.maybe_dtype(names))
    return {} if dtype is None and draw(st.booleans()) else {"dtype": dtype}


@st.composite
def filled(draw: Draw) -> Call:
    return Call((draw(st.one_of(d.SHAPES, SIDE)),), draw(with_dtype()))


@st.composite
def filled_like(draw: Draw) -> Call:
    return Call((draw(d.any_array(d.ALL)),), draw(with_dtype()))


def value_for(dtype: str) -> Any:
    """A Python number that this dtype holds."""
    return d.scalar_like(dtype)


@st.composite
def fulls(draw: Draw, like: bool) -> Call:
    name = draw(d.dtypes(d.ALL))
    value = draw(value_for(name))
    if like:
        x = draw(d.any_array((name,)))
        return Call((x, value), draw(st.sampled_from([{}, {"dtype": DType(name)}])))
    shape = draw(st.one_of(d.SHAPES, SIDE))
    return Call((shape, value), draw(st.sampled_from([{}, {"dtype": DType(name)}])))


@st.composite
def aranges(draw: Draw) -> Call:
    whole = st.integers(-10, 10)
    # Quarters: every element is exact, so both sides agree on how many there are.
    number = draw(st.sampled_from([whole, st.integers(-40, 40).map(lambda n: n / 4)]))
    args = draw(
        st.one_of(
            st.tuples(number),
            st.tuples(number, number),
            st.tuples(number, number, number.filter(bool)),
        )
    )
    fractions = any(isinstance(a, float) for a in args)
    names = d.REAL_FLOATS if fractions else d.SIGNED + d.REAL_FLOATS
    kwargs = draw(with_dtype(names))
    if len(args) == 2 and draw(st.booleans()):
        return Call(args[:1], {"stop": args[1], **kwargs})
    return Call(args, kwargs)


@st.composite
def linspaces(draw: Draw) -> Call:
    complexes = draw(st.booleans())
    value = d.scalar_like("complex128" if complexes else "float64")
    args = (draw(value), draw(value), draw(st.integers(0, 7)))
    wide = any(isinstance(a, complex) for a in args)
    kwargs = draw(with_dtype(d.COMPLEXES if wide else d.REAL_FLOATS))
    if draw(st.booleans()):
        kwargs = {"endpoint": draw(st.booleans()), **kwargs}
    return Call(args, kwargs)


@st.composite
def eyes(draw: Draw) -> Call:
    args = draw(st.one_of(st.tuples(SIDE), st.tuples(SIDE, st.one_of(st.none(), SIDE))))
    return Call(args, {"k": draw(st.integers(-4, 4)), **draw(with_dtype())})


@st.composite
def meshgrids(draw: Draw) -> Call:
    dtype = draw(d.dtypes(d.ALL))
    xs = draw(st.lists(d.arrays(dtype, d.VECTORS), min_size=1, max_size=3))
    return Call(tuple(xs), draw(st.sampled_from([{}, {"indexing": "ij"}, {"indexing": "xy"}])))


@st.composite
def triangles(draw: Draw) -> Call:
    return Call((draw(d.any_array(d.ALL, d.MATRICES)),), {"k": draw(st.integers(-4, 4))})


@st.composite
def asarrays(draw: Draw) -> Call:
    """Arrays, Python numbers and nested sequences of them."""
    name = draw(d.dtypes(d.ALL))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        x = draw(d.any_array((name,)))
        kwargs = {} if draw(st.booleans()) else {"copy": draw(st.sampled_from([None, True]))}
        return Call((x,), kwargs)
    value = draw(value_for(name))
    if kind == 2:
        rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        # One number of the kind decides it; the rest may be of it or below.
        value = [[value for _ in range(columns)] for _ in range(rows)]
    return Call((value,), draw(st.sampled_from([{}, {"dtype": DType(name)}])))


@st.composite
def one_array(draw: Draw) -> Call:
    return Call((draw(d.any_array(d.ALL)),))


CREATION_ROWS = {
    "asarray": Row(asarrays(), each(1), jit=False),
    "arange": Row(aranges(), each(4)),
    "empty": Row(filled(), shape_and_dtype),
    "empty_like": Row(filled_like(), shape_and_dtype),
    "eye": Row(eyes(), each(0)),
    "from_dlpack": Row(one_array(), each(0), jit=False),
    "full": Row(fulls(like=False), each(1)),
    "full_like": Row(fulls(like=True), each(1)),
    "linspace": Row(linspaces(), summed(8)),
    "meshgrid": Row(meshgrids(), several(0)),
    "ones": Row(filled(), each(0)),
    "ones_like": Row(filled_like(), each(0)),
    "tril": Row(triangles(), each(0)),
    "triu": Row(triangles(), each(0)),
    "zeros": Row(filled(), each(0)),
    "zeros_like": Row(filled_like(), each(0)),
}

# -- dtypes ---------------------------------------------------------------------------------------


@st.composite
def casts(draw: Draw) -> Call:
    """Casts within what the target holds; complex numbers go to complex dtypes only."""
    source = draw(d.dtypes(d.ALL))
    targets = d.COMPLEXES if source in d.COMPLEXES else d.ALL
    target = draw(d.dtypes(targets))
    low = 0 if target in d.UNSIGNED else None
    special = target not in d.INTEGERS
    x = draw(d.any_array((source,), special=special, low=low))
    kwargs = draw(st.sampled_from([{}, {"copy": True}, {"copy": False}]))
    return Call((x, DType(target)), kwargs)


@st.composite
def broadcasts(draw: Draw) -> Call:
    shape = draw(d.SHAPES)
    kept = [1 if draw(st.booleans()) else n for n in shape]
    x = draw(d.any_array(d.ALL, tuple(kept[draw(st.integers(0, len(kept))) :])))
    return draw(st.sampled_from([Call((x, shape)), Call((x,), {"shape": shape})]))


@st.composite
def several_arrays(draw: Draw) -> Call:
    count = draw(st.integers(1, 3))
    shapes = draw(d.shapes_that_broadcast(count))
    return Call(tuple(draw(d.any_array(d.ALL, s)) for s in shapes))


@st.composite
def dtype_pairs(draw: Draw) -> Call:
    """Dtypes of kinds that promote together; for others see deviations.py."""
    source, target = draw(d.promotable_dtypes(d.ALL, 2))
    given = draw(st.sampled_from([DType(source), np.zeros(2, source)]))
    return Call((given, DType(target)))


def info_of(names: tuple[str, ...]) -> Any:
    given = st.sampled_from(names)
    return st.one_of(given.map(DType), given.map(lambda n: np.zeros(2, n))).map(
        lambda v: Call((v,))
    )


def the_info(fields: tuple[str, ...]) -> Check:
    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        for field in fields:
            mine, theirs = getattr(got, field), getattr(want, field)
            assert mine == theirs, f"{field}: {mine}, the standard wants {theirs}"
            if isinstance(theirs, int):
                assert isinstance(mine, int)  # that floats are Python's: see deviations.py
        assert got.dtype == array_dtype(want.dtype)

    return check


KINDS = (
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
)


@st.composite
def kinds(draw: Draw) -> Call:
    one = st.one_of(st.sampled_from(KINDS), st.builds(DType, d.dtypes(d.ALL)))
    kind = draw(st.one_of(one, st.lists(one, min_size=1, max_size=3).map(tuple)))
    return Call((DType(draw(d.dtypes(d.ALL))), kind))


@st.composite
def result_types(draw: Draw) -> Call:
    """Arrays, dtypes and Python numbers; the numbers are of a kind that the rest holds."""
    count = draw(st.integers(1, 3))
    names = draw(d.promotable_dtypes(d.ALL, count))
    given: list[Any] = [draw(st.sampled_from([DType(n), np.zeros(2, n)])) for n in names]
    if draw(st.booleans()):
        given.insert(draw(st.integers(0, count)), draw(d.scalar_like(names[0])))
    return Call(tuple(given))


DTYPE_ROWS = {
    "astype": Row(casts(), each(0)),
    "broadcast_arrays": Row(several_arrays(), several(0)),
    "broadcast_to": Row(broadcasts(), each(0)),
    "can_cast": Row(dtype_pairs(), python_value, jit=False),
    "finfo": Row(
        info_of(d.FLOATS), the_info(("bits", "eps", "max", "min", "smallest_normal")), jit=False
    ),
    "iinfo": Row(info_of(d.INTEGERS), the_info(("bits", "max", "min")), jit=False),
    "isdtype": Row(kinds(), python_value, jit=False),
    "result_type": Row(result_types(), a_dtype, jit=False),
}

# -- manipulation ---------------------------------------------------------------------------------


@st.composite
def concats(draw: Draw) -> Call:
    names = draw(d.promotable_dtypes(d.ALL, draw(st.integers(1, 3))))
    shape = draw(d.NOT_SCALARS)
    if draw(st.booleans()):
        xs = [draw(d.any_array((n,), draw(d.SHAPES))) for n in names]
        return Call((xs,), {"axis": None})
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    xs = []
    for n in names:
        sides = list(shape)
        sides[axis] = draw(SIDE)
        xs.append(draw(d.any_array((n,), tuple(sides))))
    given = draw(st.sampled_from([tuple(xs), xs]))
    return Call((given,), {"axis": axis} if axis else {})


@st.composite
def stacks(draw: Draw) -> Call:
    names = draw(d.promotable_dtypes(d.ALL, draw(st.integers(1, 3))))
    shape = draw(d.SHAPES)
    xs = tuple(draw(d.any_array((n,), shape)) for n in names)
    axis = draw(st.integers(-len(shape) - 1, len(shape)))
    return Call((xs,), {"axis": axis} if axis else {})


@st.composite
def expansions(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    axis = draw(st.integers(-x.ndim - 1, x.ndim))
    return draw(st.sampled_from([Call((x, axis)), Call((x,), {"axis": axis})]))


@st.composite
def squeezes(draw: Draw) -> Call:
    shape = draw(d.NOT_SCALARS)
    ones = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=len(shape)))
    x = draw(d.any_array(d.ALL, tuple(1 if i in ones else n for i, n in enumerate(shape))))
    axis: Any = tuple(a - x.ndim if draw(st.booleans()) else a for a in ones)
    if len(axis) == 1 and draw(st.booleans()):
        axis = axis[0]
    return draw(st.sampled_from([Call((x, axis)), Call((x,), {"axis": axis})]))


@st.composite
def flips(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    return draw(st.sampled_from([Call((x,)), Call((x,), {"axis": draw(d.axes_of(x))})]))


@st.composite
def moves(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL, d.NOT_SCALARS))
    axes = st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=x.ndim, max_size=x.ndim)
    count = draw(st.integers(1, x.ndim))
    source, target = draw(axes)[:count], draw(axes)[:count]
    if count == 1:
        return Call((x, source[0] - x.ndim, target[0]))
    return Call((x, tuple(source), tuple(target)))


@st.composite
def permutations(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    axes = tuple(draw(st.permutations(range(x.ndim))))
    return draw(st.sampled_from([Call((x, axes)), Call((x,), {"axes": axes})]))


@st.composite
def repeats(draw: Draw, by_array: bool) -> Call:
    x = draw(d.any_array(d.ALL, d.NOT_SCALARS))
    axis = draw(st.none() | d.axis_of(x))
    count: Any = draw(st.integers(0, 3))
    if by_array:
        length = x.size if axis is None else x.shape[axis]
        shape = draw(st.sampled_from([(length,), (1,)]))
        count = draw(d.arrays(draw(d.dtypes(d.INTEGERS)), shape, low=0, bound=3))
    return Call((x, count), {} if axis is None else {"axis": axis})


@st.composite
def reshapes(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    splits: list[tuple[int, ...]] = [(x.size,), (1, x.size), (x.size, 1, 1), (*x.shape, 1)]
    if x.size:
        splits += [(-1,), (x.size, -1)]
        splits += [(n, -1) for n in (2, 3) if x.size % n == 0]
    if x.size == 1:
        splits.append(())
    shape = draw(st.sampled_from(splits))
    kwargs = draw(st.sampled_from([{}, {"copy": True}, {"copy": None}]))
    return draw(st.sampled_from([Call((x, shape), kwargs), Call((x,), {"shape": shape, **kwargs})]))


@st.composite
def rolls(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    shift = st.integers(-5, 5)
    kind = draw(st.integers(0, 2)) if x.ndim else 0
    if kind == 0:
        return Call((x, draw(shift)))
    if kind == 1:
        return Call((x,), {"shift": draw(shift), "axis": draw(d.axis_of(x))})
    axes = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, max_size=x.ndim, unique=True))
    return Call((x, tuple(draw(shift) for _ in axes)), {"axis": tuple(axes)})


@st.composite
def tiles(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL))
    return Call((x, tuple(draw(st.lists(st.integers(0, 3), max_size=4)))))


@st.composite
def along(draw: Draw, names: tuple[str, ...] = d.ALL, shape: Any = d.NOT_SCALARS) -> Call:
    x = draw(d.any_array(names, shape))
    return draw(st.sampled_from([Call((x,)), Call((x,), {"axis": draw(d.axis_of(x))})]))


MANIPULATION_ROWS = {
    "concat": Row(concats(), each(0)),
    "expand_dims": Row(expansions(), each(0)),
    "flip": Row(flips(), each(0)),
    "moveaxis": Row(moves(), each(0)),
    "permute_dims": Row(permutations(), each(0)),
    "repeat": Row(st.one_of(repeats(by_array=False), repeats(by_array=True)), each(0), jit=False),
    "reshape": Row(reshapes(), each(0)),
    "roll": Row(rolls(), each(0)),
    "squeeze": Row(squeezes(), each(0)),
    "stack": Row(stacks(), each(0)),
    "tile": Row(tiles(), each(0)),
    "unstack": Row(along(), several(0)),
}

# -- searching, sorting, sets, indexing -----------------------------------------------------------


@st.composite
def extremes(draw: Draw) -> Call:
    x = draw(d.any_array(d.REALS, d.NOT_EMPTY))
    axis = draw(st.none() | d.axis_of(x)) if x.ndim else None
    return Call((x,), {"axis": axis, "keepdims": draw(st.booleans())})


@st.composite
def reductions(draw: Draw, names: tuple[str, ...], shape: Any = d.SHAPES, **limits: Any) -> Call:
    x = draw(d.any_array(names, shape, **limits))
    kwargs: dict[str, Any] = {}
    if draw(st.booleans()):
        kwargs["axis"] = draw(d.axes_of(x))
    if draw(st.booleans()):
        kwargs["keepdims"] = draw(st.booleans())
    return Call((x,), kwargs)


@st.composite
def searches(draw: Draw) -> Call:
    """The order of nan and of zeros of different signs is left open."""
    left, right = draw(d.promotable_dtypes(d.REALS, 2))
    table = draw(d.arrays(left, d.VECTORS, special=False))
    table = np.sort(table)
    x = draw(d.arrays(right, d.SHAPES, special=False))
    kwargs: dict[str, Any] = draw(st.sampled_from([{}, {"side": "right"}, {"side": "left"}]))
    if draw(st.booleans()):
        order = np.asarray(draw(st.permutations(range(len(table)))), dtype=np.int64)
        kwargs = {**kwargs, "sorter": order}
        table = table[np.argsort(order)]
    return Call((table, x), kwargs)


@st.composite
def choices(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.ALL, 2))
    shapes = draw(d.shapes_that_broadcast(3))
    condition = draw(d.arrays("bool", shapes[0]))
    x, y = draw(d.arrays(left, shapes[1])), draw(d.arrays(right, shapes[2]))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return Call((condition, x, draw(d.scalar_like(left))))
    if kind == 1:
        return Call((condition, draw(d.scalar_like(right)), y))
    return Call((condition, x, y))


@st.composite
def sorts(draw: Draw) -> Call:
    """Without nan, whose place is left open; `stable` matters to argsort only."""
    x = draw(d.any_array(d.REALS, d.NOT_SCALARS, special=False, bound=4.0))
    x = x.round() + x.dtype.type(0)
    kwargs: dict[str, Any] = {"axis": draw(d.axis_of(x))} if draw(st.booleans()) else {}
    return Call((x,), {**kwargs, "descending": draw(st.booleans())})


@st.composite
def sets(draw: Draw) -> Call:
    """Zeros of one sign, and at most one complex nan: their representatives are left open."""
    x = draw(d.any_array(d.ALL, special=True, bound=3.0))
    if x.dtype.kind in "fc":
        x = np.round(x)
        x = np.where(x == 0, x.dtype.type(0), x)
    return Call((x,))


@st.composite
def takes(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL, d.NOT_SCALARS))
    axis = draw(d.axis_of(x))
    if x.shape[axis] == 0:
        indices = np.zeros(0, draw(d.dtypes(d.INTEGERS)))
    else:
        indices = draw(
            d.arrays(draw(d.dtypes(d.INTEGERS)), d.VECTORS, low=0, bound=x.shape[axis] - 1)
        )
    if x.ndim == 1 and draw(st.booleans()):
        return Call((x, indices))
    return Call((x, indices), {"axis": axis})


@st.composite
def takes_along(draw: Draw) -> Call:
    x = draw(d.any_array(d.ALL, d.NOT_SCALARS))
    axis = draw(d.axis_of(x))
    shape = list(x.shape)
    shape[axis] = draw(st.integers(0, 4)) if x.shape[axis] else 0
    # The other dimensions broadcast.
    shape = [1 if i != axis % x.ndim and draw(st.booleans()) else n for i, n in enumerate(shape)]
    high = max(x.shape[axis] - 1, 0)
    indices = draw(d.arrays(draw(d.dtypes(d.SIGNED)), tuple(shape), low=-high, bound=high))
    return Call((x, indices), {} if axis == -1 else {"axis": axis})


SEARCH_ROWS = {
    "argmax": Row(extremes(), each(0)),
    "argmin": Row(extremes(), each(0)),
    "count_nonzero": Row(reductions(d.ALL), each(0)),
    "nonzero": Row(
        d.any_array(d.ALL, d.NOT_SCALARS).map(lambda x: Call((x,))), several(0), jit=False
    ),
    "searchsorted": Row(searches(), each(0)),
    "where": Row(choices(), each(0)),
    "argsort": Row(sorts(), each(0)),
    "sort": Row(sorts(), each(0)),
    "unique_all": Row(sets(), several(0), jit=False),
    "unique_counts": Row(sets(), several(0), jit=False),
    "unique_inverse": Row(sets(), several(0), jit=False),
    "unique_values": Row(sets(), each(0), jit=False),
    "take": Row(takes(), each(0)),
    "take_along_axis": Row(takes_along(), each(0)),
}

# -- statistics and utilities ---------------------------------------------------------------------


@st.composite
def sums(draw: Draw, bound: float) -> Call:
    drawn = draw(reductions(d.NUMBERS, bound=bound))
    return Call(drawn.args, {**drawn.kwargs, **draw(accumulators(drawn.args[0]))})


@st.composite
def accumulators(draw: Draw, x: np.ndarray) -> dict[str, Any]:
    """dtype=, of the kind of x: other casts are left open for some values."""
    kind = {"i": d.SIGNED, "u": d.UNSIGNED, "f": d.REAL_FLOATS, "c": d.COMPLEXES}[x.dtype.kind]
    wider = tuple(n for n in kind if np.dtype(n).itemsize >= x.dtype.itemsize)
    return draw(with_dtype(wider))


@st.composite
def cumulatives(draw: Draw, bound: float) -> Call:
    x = draw(d.any_array(d.NUMBERS, d.NOT_SCALARS, bound=bound))
    kwargs = draw(accumulators(x))
    if x.ndim > 1 or draw(st.booleans()):
        kwargs = {**kwargs, "axis": draw(d.axis_of(x))}
    if draw(st.booleans()):
        kwargs = {**kwargs, "include_initial": draw(st.booleans())}
    return Call((x,), kwargs)


@st.composite
def spreads(draw: Draw) -> Call:
    drawn = draw(reductions(d.REAL_FLOATS, bound=10.0))
    correction = draw(st.sampled_from([None, 0, 1, 0.5, 2.0]))
    return Call(
        drawn.args,
        drawn.kwargs if correction is None else {**drawn.kwargs, "correction": correction},
    )


def spread(power: int) -> Check:
    """Variances; nan wherever no degree of freedom is left, where NumPy may say inf."""

    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        wanted = assert_array(name, drawn, "", got, want)
        x, axis = drawn.args[0], drawn.kwargs.get("axis")
        axes = range(x.ndim) if axis is None else np.atleast_1d(np.asarray(axis, dtype=int))
        count = int(np.prod([x.shape[a] for a in axes], dtype=int))
        if count - drawn.kwargs.get("correction", 0) <= 0:
            wanted = np.full_like(wanted, np.nan)
        mine = np.asarray(got)
        if (
            power == 1
        ):  # of equal values, std is the square root of a rounding error: compare squares
            mine, wanted = np.square(mine), np.square(wanted)
        assert_elements(mine, wanted, 64.0, inexact_scale(drawn) ** 2)

    return check


@st.composite
def differences(draw: Draw) -> Call:
    x = draw(d.any_array(d.NUMBERS, d.NOT_SCALARS))
    axis = draw(d.axis_of(x))
    kwargs: dict[str, Any] = {} if axis == -1 else {"axis": axis}
    if draw(st.booleans()):
        kwargs["n"] = draw(st.integers(0, 2))
    for side in ("prepend", "append"):
        if draw(st.booleans()):
            shape = list(x.shape)
            shape[axis] = draw(SIDE)
            kwargs[side] = draw(d.arrays(x.dtype.name, tuple(shape)))
    return Call((x,), kwargs)


STATISTICS_ROWS = {
    "cumulative_prod": Row(cumulatives(3.0), each(64)),
    "cumulative_sum": Row(cumulatives(100.0), summed(64)),
    "max": Row(reductions(d.REALS, d.NOT_EMPTY), each(0)),
    "min": Row(reductions(d.REALS, d.NOT_EMPTY), each(0)),
    "mean": Row(reductions(d.FLOATS), summed(64)),
    "prod": Row(sums(3.0), each(256)),
    "sum": Row(sums(100.0), summed(64)),
    "std": Row(spreads(), spread(1)),
    "var": Row(spreads(), spread(2)),
    "all": Row(reductions(d.ALL), each(0)),
    "any": Row(reductions(d.ALL), each(0)),
    "diff": Row(differences(), summed(8)),
}

# -- linear algebra -------------------------------------------------------------------------------

PLAIN = {"special": False, "bound": 8.0}


@st.composite
def products(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.NUMBERS, 2))
    n, k, m = draw(SIDE), draw(SIDE), draw(SIDE)
    first, second = draw(d.shapes_that_broadcast(2))
    kind = draw(st.integers(0, 3))
    a, b = {
        0: ((*first, n, k), (*second, k, m)),
        1: ((k,), (*second, k, m)),
        2: ((*first, n, k), (k,)),
        3: ((k,), (k,)),
    }[kind]
    return Call((draw(d.arrays(left, a, **PLAIN)), draw(d.arrays(right, b, **PLAIN))))


@st.composite
def contractions(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.NUMBERS, 2))
    shared = tuple(draw(st.lists(SIDE, max_size=2)))
    before, after = tuple(draw(st.lists(SIDE, max_size=1))), tuple(draw(st.lists(SIDE, max_size=1)))
    x = draw(d.arrays(left, before + shared, **PLAIN))
    y = draw(d.arrays(right, shared + after, **PLAIN))
    count = len(shared)
    if draw(st.booleans()):
        return Call((x, y), {} if count == 2 else {"axes": count})
    axes = (tuple(range(len(before), x.ndim)), tuple(range(count)))
    return Call((x, y), {"axes": axes})


@st.composite
def inner_products(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.NUMBERS, 2))
    first, second = draw(d.shapes_that_broadcast(2))
    n = draw(SIDE)
    if draw(st.booleans()) and min(len(first), len(second)) >= 1:
        shapes = [(*s[:-1], n, s[-1]) for s in (first, second)]
        kwargs: dict[str, Any] = {"axis": -2}
    else:
        shapes, kwargs = [(*first, n), (*second, n)], {}
    x, y = (draw(d.arrays(t, s, **PLAIN)) for t, s in zip((left, right), shapes, strict=True))
    return Call((x, y), kwargs)


@st.composite
def square_matrices(draw: Draw, kind: str = "any", smallest: int = 0) -> np.ndarray:
    """Stacks of square matrices of a float dtype.

    Args:
        kind: "any", "regular" (far from singular), "hermitian" or "positive" (hermitian, definite).
        smallest: the least number of rows.
    """
    dtype = draw(d.dtypes(d.FLOATS))
    n = draw(st.integers(smallest, 3))
    x = draw(d.arrays(dtype, (*draw(d.STACKS), n, n), special=False, bound=1.0))
    identity = np.eye(n, dtype=dtype)
    if kind == "regular":
        return x + (2 * n) * identity
    if kind == "hermitian":
        return x + np.conj(np.swapaxes(x, -1, -2))
    if kind == "positive":
        return x @ np.conj(np.swapaxes(x, -1, -2)) + identity
    return x


def one(matrices: Any) -> Any:
    return matrices.map(lambda x: Call((x,)))


@st.composite
def matrices(draw: Draw, smallest: int = 0) -> np.ndarray:
    dtype = draw(d.dtypes(d.FLOATS))
    m, n = draw(st.integers(smallest, 4)), draw(st.integers(smallest, 3))
    return draw(d.arrays(dtype, (*draw(d.STACKS), m, n), special=False, bound=2.0))


@st.composite
def choleskys(draw: Draw) -> Call:
    x = draw(square_matrices("positive"))
    return Call((x,), draw(st.sampled_from([{}, {"upper": True}, {"upper": False}])))


@st.composite
def crosses(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.NUMBERS, 2))
    first, second = draw(d.shapes_that_broadcast(2))
    x, y = draw(d.arrays(left, (*first, 3), **PLAIN)), draw(d.arrays(right, (*second, 3), **PLAIN))
    if draw(st.booleans()):
        n = draw(SIDE)
        x = draw(d.arrays(left, (3, n), **PLAIN))
        y = draw(d.arrays(right, (3, n), **PLAIN))
        return Call((x, y), {"axis": -2})
    return Call((x, y))


@st.composite
def diagonals(draw: Draw, names: tuple[str, ...]) -> Call:
    x = draw(d.any_array(names, d.MATRICES, **PLAIN))
    return Call((x,), {"offset": draw(st.integers(-3, 3))} if draw(st.booleans()) else {})


@st.composite
def traces(draw: Draw) -> Call:
    drawn = draw(diagonals(d.NUMBERS))
    return Call(drawn.args, {**drawn.kwargs, **draw(accumulators(drawn.args[0]))})


@st.composite
def matrix_norms(draw: Draw) -> Call:
    x = draw(matrices(smallest=1))
    order = draw(st.sampled_from(["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]))
    kwargs: dict[str, Any] = {} if draw(st.booleans()) else {"ord": order}
    return Call((x,), {**kwargs, "keepdims": draw(st.booleans())})


@st.composite
def vector_norms(draw: Draw) -> Call:
    drawn = draw(reductions(d.FLOATS, d.NOT_EMPTY, **PLAIN))
    if drawn.kwargs.get("axis") == ():  # no element but itself: left to each library
        return Call(drawn.args)
    order = draw(st.sampled_from([0, 1, 2, 3, 2.5, np.inf, -np.inf]))
    return Call(drawn.args, {**drawn.kwargs, "ord": order})


@st.composite
def matrix_powers(draw: Draw) -> Call:
    return Call((draw(square_matrices("regular", smallest=1)), draw(st.integers(-2, 4))))


@st.composite
def solves(draw: Draw) -> Call:
    x1 = draw(square_matrices("regular"))
    n = x1.shape[-1]
    names = d.REAL_FLOATS if x1.dtype.kind == "f" else d.COMPLEXES
    dtype = draw(d.dtypes(names))
    if draw(st.booleans()):
        return Call((x1, draw(d.arrays(dtype, (n,), **PLAIN))))
    stack = draw(st.sampled_from([x1.shape[:-2], ()]))
    return Call((x1, draw(d.arrays(dtype, (*stack, n, draw(SIDE)), **PLAIN))))


@st.composite
def outers(draw: Draw) -> Call:
    left, right = draw(d.promotable_dtypes(d.NUMBERS, 2))
    return Call((draw(d.arrays(left, d.VECTORS)), draw(d.arrays(right, d.VECTORS))))


@st.composite
def ranks(draw: Draw) -> Call:
    """Products of whole numbers, whose rank rounding cannot change."""
    dtype = draw(d.dtypes(d.FLOATS))
    m, k, n = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    whole = st.integers(-3, 3)
    from_numbers = d.hnp.arrays("int64", (m, k), elements=whole)
    x = draw(from_numbers) @ draw(d.hnp.arrays("int64", (k, n), elements=whole))
    kwargs = draw(st.sampled_from([{}, {"rtol": 1e-3}]))
    return Call((x.astype(dtype),), kwargs)


@st.composite
def pseudo_inverses(draw: Draw) -> Call:
    drawn = draw(ranks())
    return Call((drawn.args[0],), draw(st.sampled_from([{}, {"rtol": 1e-3}])))


def factors(rebuild: Callable[[Call, tuple[np.ndarray, ...]], list[tuple[Any, Any]]]) -> Check:
    """Decompositions, which are unique up to signs only: their properties decide."""

    def check(name: str, drawn: Call, got: Any, want: Any) -> None:
        assert got._fields == want._fields
        for place, mine, theirs in zip(want._fields, got, want, strict=True):
            assert_array(name, drawn, place, mine, theirs)
        for mine, theirs in rebuild(drawn, tuple(np.asarray(part) for part in got)):
            theirs = np.broadcast_to(theirs, mine.shape).astype(mine.dtype)
            assert_elements(mine, theirs, 256.0, inexact_scale(drawn))

    return check


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def of_eigh(drawn: Call, got: tuple[np.ndarray, ...]) -> list[tuple[Any, Any]]:
    values, vectors = got
    assert (np.diff(values, axis=-1) >= 0).all()
    return [
        ((vectors * values[..., None, :]) @ adjoint(vectors), drawn.args[0]),
        (adjoint(vectors) @ vectors, np.eye(vectors.shape[-1])),
    ]


def of_qr(drawn: Call, got: tuple[np.ndarray, ...]) -> list[tuple[Any, Any]]:
    q, r = got
    np.testing.assert_array_equal(r, np.triu(r))
    return [(q @ r, drawn.args[0]), (adjoint(q) @ q, np.eye(q.shape[-1]))]


def of_svd(drawn: Call, got: tuple[np.ndarray, ...]) -> list[tuple[Any, Any]]:
    u, s, vh = got
    assert (np.diff(s, axis=-1) <= 0).all() and (s >= 0).all()
    k = s.shape[-1]
    return [
        ((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], drawn.args[0]),
        (adjoint(u) @ u, np.eye(u.shape[-1])),
        (vh @ adjoint(vh), np.eye(vh.shape[-2])),
    ]


@st.composite
def with_flag(draw: Draw, name: str, values: tuple[Any, ...]) -> Call:
    kwargs = {} if draw(st.booleans()) else {name: draw(st.sampled_from(values))}
    return Call((draw(matrices()),), kwargs)


TRANSPOSES = d.any_array(d.ALL, d.MATRICES).map(lambda x: Call((x,)))

LINEAR_ROWS = {
    **{f"{prefix}matmul": Row(products(), summed(64, power=2)) for prefix in ("", "linalg.")},
    **{f"{prefix}matrix_transpose": Row(TRANSPOSES, each(0)) for prefix in ("", "linalg.")},
    **{
        f"{prefix}tensordot": Row(contractions(), summed(64, power=2)) for prefix in ("", "linalg.")
    },
    **{f"{prefix}vecdot": Row(inner_products(), summed(64, power=2)) for prefix in ("", "linalg.")},
    "linalg.cholesky": Row(choleskys(), summed(64)),
    "linalg.cross": Row(crosses(), summed(64, power=2)),
    "linalg.det": Row(one(square_matrices()), summed(64)),
    "linalg.diagonal": Row(diagonals(d.ALL), each(0)),
    "linalg.eigh": Row(one(square_matrices("hermitian")), factors(of_eigh)),
    "linalg.eigvalsh": Row(one(square_matrices("hermitian")), summed(64)),
    "linalg.inv": Row(one(square_matrices("regular")), summed(64)),
    "linalg.matrix_norm": Row(matrix_norms(), summed(256, power=2)),
    "linalg.matrix_power": Row(matrix_powers(), summed(256, power=4)),
    "linalg.matrix_rank": Row(ranks(), each(0)),
    "linalg.outer": Row(outers(), each(8)),
    # Relative to 1/rtol, by which the least singular value that counts may amplify a rounding.
    "linalg.pinv": Row(pseudo_inverses(), summed(1e4)),
    "linalg.qr": Row(with_flag("mode", ("reduced", "complete")), factors(of_qr)),
    "linalg.slogdet": Row(one(square_matrices("regular")), several(256)),
    "linalg.solve": Row(solves(), summed(256)),
    "linalg.svd": Row(with_flag("full_matrices", (True, False)), factors(of_svd)),
    "linalg.svdvals": Row(one(matrices()), summed(64)),
    "linalg.trace": Row(traces(), summed(64)),
    "linalg.vector_norm": Row(vector_norms(), summed(256, power=1)),
}

# -- Fourier transforms ---------------------------------------------------------------------------

NORMS = ("backward", "ortho", "forward")


@st.composite
def transforms(draw: Draw, names: tuple[str, ...], least: int = 1) -> Call:
    shape = draw(d.hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=6))
    x = draw(d.any_array(names, shape, special=False))
    kwargs: dict[str, Any] = {}
    if draw(st.booleans()):
        kwargs["axis"] = draw(d.axis_of(x))
    if draw(st.booleans()):
        kwargs["n"] = draw(st.integers(least, 7))
    if draw(st.booleans()):
        kwargs["norm"] = draw(st.sampled_from(NORMS))
    return Call((x,), kwargs)


@st.composite
def transforms_of_many(draw: Draw, names: tuple[str, ...], least: int = 1) -> Call:
    shape = draw(d.hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=4))
    x = draw(d.any_array(names, shape, special=False))
    kwargs: dict[str, Any] = {}
    axes = tuple(range(x.ndim))
    if draw(st.booleans()):
        axes = tuple(
            draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, max_size=x.ndim, unique=True))
        )
        kwargs["axes"] = axes
        if draw(st.booleans()):
            kwargs["s"] = tuple(draw(st.integers(least, 5)) for _ in axes)
    if draw(st.booleans()):
        kwargs["norm"] = draw(st.sampled_from(NORMS))
    return Call((x,), kwargs)


@st.composite
def frequencies(draw: Draw) -> Call:
    kwargs = draw(with_dtype(d.REAL_FLOATS))
    if draw(st.booleans()):
        kwargs = {"d": draw(st.sampled_from([0.5, 2.0, 0.1])), **kwargs}
    return Call((draw(st.integers(1, 8)),), kwargs)


@st.composite
def rotations(draw: Draw) -> Call:
    x = draw(d.any_array(d.FLOATS, d.NOT_SCALARS))
    return draw(st.sampled_from([Call((x,)), Call((x,), {"axes": draw(d.axes_of(x))})]))


FFT_ROWS = {
    **{f"fft.{n}": Row(transforms(d.COMPLEXES), summed(64)) for n in ("fft", "ifft")},
    **{f"fft.{n}": Row(transforms_of_many(d.COMPLEXES), summed(512)) for n in ("fftn", "ifftn")},
    **{f"fft.{n}": Row(transforms(d.REAL_FLOATS), summed(64)) for n in ("rfft", "ihfft")},
    **{f"fft.{n}": Row(transforms(d.COMPLEXES, 2), summed(64)) for n in ("irfft", "hfft")},
    "fft.rfftn": Row(transforms_of_many(d.REAL_FLOATS), summed(512)),
    "fft.irfftn": Row(transforms_of_many(d.COMPLEXES, 2), summed(512)),
    **{f"fft.{n}": Row(frequencies(), each(8)) for n in ("fftfreq", "rfftfreq")},
    **{f"fft.{n}": Row(rotations(), each(0)) for n in ("fftshift", "ifftshift")},
}

ROWS: dict[str, Row] = {
    **{name: Row(calls, each(units)) for name, (calls, units) in ELEMENTWISE.items()},
    **CREATION_ROWS,
    **DTYPE_ROWS,
    **MANIPULATION_ROWS,
    **SEARCH_ROWS,
    **STATISTICS_ROWS,
    **LINEAR_ROWS,
    **FFT_ROWS,
}
