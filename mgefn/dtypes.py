"""Element types: names, defaults, and how types combine.

A dtype is a NumPy dtype of native byte order, one object per type, so dtypes may be compared by
`==` and used as dictionary keys. The names here (`float32`, `bfloat16`, ...) are scalar types: they
may be called, and stand wherever a dtype is accepted. bfloat16 and the float8 types come from
ml_dtypes, which is imported when one of them is first named. `float0` is the type of a tangent that
carries nothing: that of an integer or boolean. `key_fry` is the type of a random key, which
arrays hold like a number but which takes no arithmetic; it lies under `prng_key`.

64-bit types are honoured always; `config.enable_x64` only decides what the types of Python numbers
and the constructors' defaults are. Promotion is JAX's lattice, in which a Python number, or a value
computed from such numbers only, is *weak*: it takes the type of what it meets as far as its kind
fits. NumPy scalars of 64-bit kinds are weak unless 64 bits are the default, because NumPy hands
them out where float would do (`np.sqrt(2)`).

Sources: JAX's type promotion semantics, docs.jax.dev/en/latest/type_promotion.html; NEP 50.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from mgefn.config import config
from mgefn.errors import DTypeError, OverflowDTypeError, api_boundary, leave_api

if TYPE_CHECKING:
    from ml_dtypes import (
        bfloat16,
        float8_e3m4,
        float8_e4m3,
        float8_e4m3b11fnuz,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2,
        float8_e5m2fnuz,
        float8_e8m0fnu,
    )

__all__ = [
    "DType",
    "DTypeLike",
    "accumulator",
    "bfloat16",
    "bool_",
    "can_cast",
    "canonical",
    "check_scalar_fits",
    "complex64",
    "complex128",
    "complex_dtype",
    "default_complex",
    "default_float",
    "default_int",
    "dtype_and_weak",
    "extended",
    "finfo",
    "float0",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_bool",
    "is_complex",
    "is_float",
    "is_inexact",
    "is_integer",
    "is_key",
    "is_signed",
    "issubdtype",
    "key_fry",
    "prng_key",
    "promote_types",
    "python_dtype",
    "real_part_dtype",
    "result_type",
    "short_name",
    "tangent_dtype",
    "to_inexact",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

DType: TypeAlias = np.dtype[Any]
# Anything `canonical` accepts: a name, a NumPy or Python scalar type, a dtype, an object with one.
DTypeLike: TypeAlias = Any

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
float0: DType = np.dtype([("float0", np.void, 0)])
# A random key: the two words of threefry2x32, in memory one after the other. NumPy moves elements
# of such a type, and knows no arithmetic for it.
key_fry: DType = np.dtype([("key<fry>", np.uint64)])


class extended(np.void):
    """The types of elements that are no numbers, for `issubdtype`."""


class prng_key(extended):
    """The types of random keys, for `issubdtype(x.dtype, prng_key)`."""


_BOOL = np.dtype(np.bool_)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_FLOAT16, _FLOAT32, _FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)

# (default when config.enable_x64 is False, when it is True)
_DEFAULT_INT = (_INT32, _INT64)
_DEFAULT_FLOAT = (_FLOAT32, _FLOAT64)
_DEFAULT_COMPLEX = (_COMPLEX64, _COMPLEX128)
_DEFAULTS: dict[type, tuple[DType, DType]] = {
    bool: (_BOOL, _BOOL),
    int: _DEFAULT_INT,
    float: _DEFAULT_FLOAT,
    complex: _DEFAULT_COMPLEX,
}

_EXTENDED = {
    "bfloat16": "bf16",
    "float8_e3m4": "f8_e3m4",
    "float8_e4m3": "f8_e4m3",
    "float8_e4m3b11fnuz": "f8_e4m3b11fnuz",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0fnu",
}
_SHORT = {
    "bool": "bool",
    **{
        f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"complex{bits}": f"c{bits}" for bits in (64, 128)},
}

# What each dtype is: 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex, '0' float0, 'k' a
# random key. bfloat16 and its kin join when ml_dtypes is loaded. Not NumPy's kind, which is 'V' for
# them.
_CATEGORY: dict[DType, str] = {np.dtype(name): np.dtype(name).kind for name in _SHORT}
_CATEGORY[float0] = "0"
_CATEGORY[key_fry] = "k"
_SHORT_OF: dict[DType, str] = {np.dtype(name): short for name, short in _SHORT.items()}
_BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in _SHORT_OF}
_SHORT_OF[float0] = "float0"
_SHORT_OF[key_fry] = "key<fry>"


def _load_extended() -> None:
    """Import ml_dtypes and enter its types in the tables above."""
    import ml_dtypes  # here, because it costs 3 ms and few programs need it

    for name, short in _EXTENDED.items():
        scalar_type = getattr(ml_dtypes, name)
        dtype = np.dtype(scalar_type)
        globals()[name] = scalar_type
        _CATEGORY[dtype] = "f"
        _SHORT_OF[dtype] = short
        _BY_NAME[name] = dtype


def __getattr__(name: str) -> Any:
    if name in _EXTENDED:
        _load_extended()
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXTENDED})


def _category(dtype: DType) -> str:
    """The dtype's entry in _CATEGORY, or '?' for one that arrays do not have."""
    found = _CATEGORY.get(dtype)
    if found is None:
        # The user may have imported ml_dtypes without our tables knowing.
        if dtype.name in _EXTENDED and dtype.name not in _BY_NAME:
            _load_extended()
            return _category(dtype)
        return _CATEGORY.get(dtype.newbyteorder("="), "?")
    return found


# Names, types and dtypes already looked up. Python's number types are absent: they mean the
# defaults. Only finitely many keys can be accepted, so it needs no bound.
_canonical_of: dict[Any, DType] = {}


def canonical(dtype: DTypeLike) -> DType:
    """The dtype that `dtype` means, in native byte order.

    Args:
        dtype: a name such as "bfloat16", a NumPy or ml_dtypes scalar type, a dtype, an object that
            has one, or Python's bool, int, float or complex, which mean the defaults.
    Raises:
        DTypeError: it is no dtype, or one that arrays cannot have (object, str, datetime, ...).
    Example:
        >>> canonical(">f8")
        dtype('float64')
    """
    try:
        found = _canonical_of.get(dtype)
        if found is not None:
            return found
        defaults = _DEFAULTS.get(dtype)
    except TypeError:  # unhashable
        defaults = None
    if defaults is not None:
        return defaults[config.enable_x64]
    return _canonical_slow(dtype)


def _canonical_slow(dtype: DTypeLike) -> DType:
    if dtype is None:
        # np.dtype(None) would be float64.
        raise DTypeError("dtype: needs a dtype, got None. Name one, such as 'float32'.")
    try:
        if isinstance(dtype, str) and dtype in _EXTENDED:
            _load_extended()
            found = _BY_NAME[dtype]
        elif isinstance(dtype, np.dtype | str | type):
            found = np.dtype(dtype)
        else:
            # An array or a tracer. Not np.dtype(dtype): a list would mean a structured type.
            found = np.dtype(dtype.dtype)
    except (TypeError, ValueError, AttributeError):
        raise DTypeError(
            f"dtype: needs the name of a dtype, a scalar type or a dtype, got {dtype!r}. "
            "Pass one such as 'float32'."
        ) from None
    if _category(found) == "?":
        raise DTypeError(
            f"dtype: arrays hold numbers and booleans, got dtype {found}. {_repair(found)}"
        )
    # np.longlong and np.int64 are two dtype objects for one type; keep one of them.
    found = _BY_NAME.get(found.name, found)
    if isinstance(dtype, np.dtype | str) or (
        isinstance(dtype, type) and dtype.__module__ in ("numpy", "ml_dtypes")
    ):
        _canonical_of[dtype] = found
    return found


def _repair(dtype: DType) -> str:
    if dtype.kind == "O":
        return "Convert it with astype, or keep such values in a pytree."
    if dtype.kind in "SU":
        return "Encode text as integers."
    if dtype.kind in "mM":
        return "Convert dates with astype('int64') or to seconds as floats."
    if dtype.kind in "fc":
        return "Cast to float64 or complex128."
    if dtype.names is not None:
        return "Pass each field as an array of its own."
    return f"Cast to one of {', '.join(_SHORT)}."


def default_int() -> DType:
    """int32, or int64 when config.enable_x64."""
    return _DEFAULT_INT[config.enable_x64]


def default_float() -> DType:
    """float32, or float64 when config.enable_x64."""
    return _DEFAULT_FLOAT[config.enable_x64]


def default_complex() -> DType:
    """complex64, or complex128 when config.enable_x64."""
    return _DEFAULT_COMPLEX[config.enable_x64]


def python_dtype(python_type: type) -> DType:
    """The default dtype of Python's bool, int, float or complex.

    Raises:
        DTypeError: another type.
    """
    defaults = _DEFAULTS.get(python_type)
    if defaults is None:
        raise DTypeError(
            f"dtype: needs bool, int, float or complex, got {python_type!r}. "
            "Use canonical for others."
        )
    return defaults[config.enable_x64]


# Scalars that are weak: type -> (dtype, weak), one table without and one with enable_x64.
_SCALARS: tuple[dict[type, tuple[DType, bool]], dict[type, tuple[DType, bool]]] = (
    {
        bool: (_BOOL, False),
        int: (_INT32, True),
        float: (_FLOAT32, True),
        complex: (_COMPLEX64, True),
        np.int64: (_INT32, True),
        np.longlong: (_INT32, True),
        np.float64: (_FLOAT32, True),
        np.complex128: (_COMPLEX64, True),
    },
    {
        bool: (_BOOL, False),
        int: (_INT64, True),
        float: (_FLOAT64, True),
        complex: (_COMPLEX128, True),
    },
)


def _holds(dtype: DType, x: np.generic) -> builtins.bool:
    """Is a NumPy scalar of 64 bits in the range of the 32-bit dtype of its kind?"""
    if dtype.kind == "i":
        return builtins.bool(-0x80000000 <= x <= 0x7FFFFFFF)  # type: ignore[operator]  # an integer
    largest = np.finfo(dtype).max
    parts = (x.real, x.imag)
    return all(not np.isfinite(p) or abs(p) <= largest for p in parts)


def dtype_and_weak(x: Any) -> tuple[DType, bool]:
    """The dtype of a scalar or array, and whether it is weak.

    Python's int, float and complex are weak and have the default dtypes. So are NumPy scalars
    int64, float64 and complex128, unless config.enable_x64 or the value is beyond the range of the
    default dtype. bool is not weak, having no wider kin. Arrays are strong unless their attribute
    `weak_type` is true.

    Raises:
        DTypeError: x is neither a number nor an array.
    """
    found = _SCALARS[config.enable_x64].get(type(x))
    if found is not None:
        if found[1] and isinstance(x, np.generic) and not _holds(found[0], x):
            return x.dtype, False
        return found
    try:
        dtype = x.dtype
    except AttributeError:
        dtype = None
    if isinstance(dtype, np.dtype):
        if dtype not in _CATEGORY or not dtype.isnative:
            dtype = canonical(dtype)
        return dtype, bool(getattr(x, "weak_type", False))
    for python_type in (bool, int, float, complex):  # subclasses, such as those of enum.IntEnum
        if isinstance(x, python_type):
            return _SCALARS[config.enable_x64][python_type]
    raise DTypeError(
        f"dtype: needs a number or an array, got {type(x).__name__}. "
        "Convert it with mgefn.numpy.array."
    )


# --- Promotion -----------------------------------------------------------------------------------

# The lattice: each type to those directly above it. 'i*', 'f*', 'c*' are the weak kinds.
_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("uint8", "int8"),
    "uint8": ("uint16", "int16"),
    "uint16": ("uint32", "int32"),
    "uint32": ("uint64", "int64"),
    "uint64": ("f*",),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("f*",),
    "f*": (*(name for name in _EXTENDED if name != "bfloat16"), "bfloat16", "float16", "c*"),
    **{name: () for name in _EXTENDED},  # nothing above a float8: it never widens by itself
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "c*": ("complex64",),
    "complex64": ("complex128",),
    "complex128": (),
}


def _upper_sets() -> dict[str, frozenset[str]]:
    """For each type, all types it may become, itself included."""
    sets: dict[str, frozenset[str]] = {}

    def above(name: str) -> frozenset[str]:
        if name not in sets:
            sets[name] = frozenset({name}).union(*(above(upper) for upper in _ABOVE[name]))
        return sets[name]

    for name in _ABOVE:
        above(name)
    return sets


_UPPER = _upper_sets()
_WEAK_NODE = {"b": "bool", "i": "i*", "u": "i*", "f": "f*", "c": "c*"}
_WEAK_DEFAULT = {"i*": _DEFAULT_INT, "f*": _DEFAULT_FLOAT, "c*": _DEFAULT_COMPLEX}

# (dtype, weak, dtype, weak, ...) -> (dtype, weak), without and with enable_x64. Bounded, as long
# argument lists have many combinations; pairs, the common case, are few.
_promoted: tuple[dict[tuple[Any, ...], tuple[DType, bool]], ...] = ({}, {})
_PROMOTED_BOUND = 10_000


def _join(nodes: set[str], operands: tuple[tuple[DType, bool], ...]) -> str:
    """The least type that every node may become."""
    common = frozenset.intersection(*(_UPPER[node] for node in nodes))
    for node in common:
        if common <= _UPPER[node]:
            return node
    shown = ", ".join(("weak " if weak else "") + short_name(dtype) for dtype, weak in operands)
    raise DTypeError(
        f"result_type: the dtypes must have a common type to promote to, got {shown}. "
        "Cast them to one dtype with astype."
    )


def _promote(operands: tuple[tuple[DType, bool], ...]) -> tuple[DType, bool]:
    x64 = config.enable_x64
    distinct = tuple(dict.fromkeys(operands))
    dtypes = {dtype for dtype, _ in distinct}
    if len(distinct) == 1:
        dtype, weak = distinct[0]
        return dtype, weak and dtype != _BOOL
    all_weak = all(weak for _, weak in distinct)
    if len(dtypes) == 1 and not all_weak:
        return distinct[0][0], False
    if float0 in dtypes:
        raise DTypeError(
            "result_type: float0 promotes with no other dtype. It marks the tangent of an integer; "
            "leave that tangent out."
        )
    if key_fry in dtypes:
        shown = " and ".join(sorted(map(short_name, dtypes)))
        raise DTypeError(
            f"result_type: random keys and numbers have no common type, got {shown}. "
            "Draw numbers with the keys, or take their words with random.key_data."
        )
    # Among weak operands alone the dtypes decide, so that two weak int16 stay int16.
    nodes = {
        _WEAK_NODE[_category(dtype)] if weak and not all_weak else dtype.name
        for dtype, weak in distinct
    }
    node = _join(nodes, operands)
    if node in _WEAK_DEFAULT:
        return _WEAK_DEFAULT[node][x64], True
    dtype = _BY_NAME[node]
    return dtype, all_weak and dtype != _BOOL


def _promoted_of(operands: tuple[tuple[DType, bool], ...]) -> tuple[DType, bool]:
    table = _promoted[config.enable_x64]
    found = table.get(operands)
    if found is None:
        found = _promote(operands)
        if len(table) >= _PROMOTED_BOUND:
            table.clear()
        table[operands] = found
    return found


_DTYPE_LIKE = (type, np.dtype, str)


def _operand(x: Any) -> tuple[DType, bool]:
    """As dtype_and_weak, but x may also be a dtype, a scalar type or the name of a dtype."""
    found = _SCALARS[config.enable_x64].get(type(x))
    if found is not None:
        return dtype_and_weak(x) if isinstance(x, np.generic) else found
    if isinstance(x, _DTYPE_LIKE):
        defaults = _DEFAULTS.get(x) if isinstance(x, type) else None
        if defaults is not None:
            return defaults[config.enable_x64], x is not bool
        return canonical(x), False
    return dtype_and_weak(x)


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype of a result computed from dtypes a and b. Python's number types are weak.

    Raises:
        DTypeError: they have no common type, such as two different float8.
    Example:
        >>> promote_types("int32", "float16")
        dtype('float16')
    """
    try:
        return _promoted_of((_operand(a), _operand(b)))[0]
    except BaseException as e:
        leave_api(e)
        raise


@overload
def result_type(*args: Any, return_weak: Literal[False] = False) -> DType: ...
@overload
def result_type(*args: Any, return_weak: Literal[True]) -> tuple[DType, bool]: ...
@overload
def result_type(*args: Any, return_weak: bool) -> DType | tuple[DType, bool]: ...
def result_type(*args: Any, return_weak: bool = False) -> DType | tuple[DType, bool]:
    """The dtype of a result computed from all the arguments.

    Args:
        args: numbers, arrays, dtypes or names of dtypes; one at least.
        return_weak: return (dtype, weak) instead of the dtype.
    Raises:
        DTypeError: an argument has no dtype, or the dtypes have no common type.
    Example:
        >>> result_type("bfloat16", 2.0)
        dtype(bfloat16)
    """
    try:
        if not args:
            raise DTypeError(
                "result_type: needs an argument at least, got none. Pass an array or dtype."
            )
        found = _promoted_of(tuple([_operand(x) for x in args]))
        return found if return_weak else found[0]
    except BaseException as e:
        leave_api(e)
        raise


def check_scalar_fits(value: Any, dtype: DTypeLike, operation: str = "array") -> None:
    """Check that an integer, Python's or NumPy's, lies in the range of an integer dtype.

    Other values and dtypes pass: floats round, and a cast between arrays wraps.

    Args:
        value: any scalar.
        dtype: the dtype it is to take.
        operation: name that opens the message.
    Raises:
        OverflowDTypeError: the integer is out of range.
    """
    dtype = canonical(dtype)
    if dtype.kind not in "iu" or not isinstance(value, int | np.integer):
        return
    info = np.iinfo(dtype)
    if not info.min <= value <= info.max:
        raise OverflowDTypeError(
            f"{operation}: a Python integer must fit {dtype.name}, which holds {info.min} to "
            f"{info.max}, got {value}. Use a wider dtype, or the wrapped value."
        )


# --- Questions about a dtype ---------------------------------------------------------------------


def is_bool(dtype: DType) -> bool:
    """Whether the dtype is bool."""
    return _category(dtype) == "b"


def is_integer(dtype: DType) -> bool:
    """Whether the dtype is a signed or unsigned integer; bool is not."""
    return _category(dtype) in "iu"


def is_signed(dtype: DType) -> bool:
    """Whether the dtype has negative numbers: signed integers, floats and complex."""
    return _category(dtype) in "ifc" and dtype.name != "float8_e8m0fnu"


def is_float(dtype: DType) -> bool:
    """Whether the dtype is a real floating type, bfloat16 and float8 included."""
    return _category(dtype) == "f"


def is_key(dtype: DType) -> bool:
    """Whether the dtype is that of random keys."""
    return dtype == key_fry


def is_complex(dtype: DType) -> bool:
    """Whether the dtype is complex."""
    return _category(dtype) == "c"


def is_inexact(dtype: DType) -> bool:
    """Whether the dtype is floating or complex: derivatives exist."""
    return _category(dtype) in "fc"


@api_boundary
def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether dtype `arg1` equals dtype `arg2` or lies under it in NumPy's hierarchy.

    As numpy.issubdtype, but bfloat16 and float8 lie under np.floating, the dtype of random keys
    lies under `prng_key`, which lies under `extended`, and Python's number types mean the defaults.
    """
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1 in _ABSTRACT:
        return np.issubdtype(arg1, arg2)
    dtype = canonical(arg1)
    if isinstance(arg2, type) and arg2 in _ABSTRACT:
        kind = prng_key if dtype == key_fry else _NUMPY_KIND.get(dtype.name, dtype.type)
        return issubclass(kind, arg2)
    return dtype == canonical(arg2)


_ABSTRACT = frozenset(
    {
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
        np.flexible,
        np.character,
        extended,
        prng_key,
    }
)
_NUMPY_KIND: dict[str, type] = dict.fromkeys(_EXTENDED, np.floating)


@api_boundary
def finfo(dtype: DTypeLike) -> Any:
    """Limits of a floating type, or of the parts of a complex one, as numpy.finfo.

    Raises:
        DTypeError: the dtype is not inexact.
    """
    dtype = canonical(dtype)
    if not is_inexact(dtype):
        raise DTypeError(f"finfo: needs a floating or complex dtype, got {dtype}. Use iinfo.")
    if dtype.name in _EXTENDED:
        import ml_dtypes  # loaded already, since the dtype exists

        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)


@api_boundary
def iinfo(int_type: DTypeLike) -> np.iinfo:
    """Limits of an integer type, as numpy.iinfo.

    Raises:
        DTypeError: the dtype is not an integer type.
    """
    dtype = canonical(int_type)
    if not is_integer(dtype):
        raise DTypeError(f"iinfo: needs an integer dtype, got {dtype}. Use finfo.")
    return np.iinfo(dtype)


@api_boundary
def can_cast(
    from_: DTypeLike,
    to: DTypeLike,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
) -> bool:
    """Whether a cast between two dtypes obeys the casting rule, as numpy.can_cast.

    Args:
        from_: a dtype or an array; its values are not looked at.
        to: a dtype.
        casting: "no", "equiv", "safe", "same_kind" or "unsafe".
    """
    return np.can_cast(canonical(from_), canonical(to), casting)


_NARROWED = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        ("float64", "float32"),
        ("int64", "int32"),
        ("uint64", "uint32"),
        ("complex128", "complex64"),
    )
}


def narrowed(dtype: DType) -> DType:
    """The 32-bit dtype of the same kind for a 64-bit one (config.narrow_inputs)."""
    return _NARROWED.get(dtype, dtype)


def to_inexact(dtype: DType) -> DType:
    """The dtype of sin and its like: inexact ones stay; bool and integers give float32.

    With config.enable_x64 integers of 64 bits give float64.
    """
    if is_inexact(dtype):
        return dtype
    return _FLOAT64 if config.enable_x64 and dtype.itemsize == 8 else _FLOAT32


def real_part_dtype(dtype: DType) -> DType:
    """The dtype of the real part: float32 for complex64; other dtypes stay."""
    if dtype == _COMPLEX64:
        return _FLOAT32
    return _FLOAT64 if dtype == _COMPLEX128 else dtype


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose parts can hold `dtype`, or to_inexact of it for integers and bool."""
    if is_complex(dtype):
        return dtype
    return _COMPLEX128 if to_inexact(dtype) == _FLOAT64 else _COMPLEX64


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of a tangent: the same for inexact dtypes, float0 for the others."""
    return dtype if is_inexact(dtype) else float0


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums are formed: float32 for floats below 32 bits, otherwise the same."""
    return _FLOAT32 if dtype.itemsize < 4 and is_float(dtype) else dtype


def short_name(dtype: DType) -> str:
    """The name used in printed types: f32, bf16, i32, u8, bool, c64, f8_e4m3fn, float0."""
    _category(dtype)  # enters the extended types
    return _SHORT_OF.get(dtype) or _SHORT_OF.get(dtype.newbyteorder("=")) or dtype.name
