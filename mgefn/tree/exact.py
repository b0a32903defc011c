"""Keys of caches from static values, which tell apart what == does not.

1, 1.0 and True are equal in Python, and so are 0.0 and -0.0, and a program traced with one of them
is wrong for another. nan is unequal to itself, and would be traced again at each call. A key from
here knows the type of each value, inside of tuples, frozensets and frozen dataclasses too.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any

import numpy as np

# Equal to no value of another type; such a value is its own key.
_ALONE = frozenset({str, bytes, type(None), types.FunctionType, types.BuiltinFunctionType, type})
_FLOATS = (float, np.floating)
_COMPLEX = (complex, np.complexfloating)


def exact(value: Any) -> Any:
    """A key for a static value: equal only for values of the same type that mean the same.

    Args:
        value: anything; what is not hashable gives a key that is not.

    Returns:
        The value itself, or a pair (type, what tells values of this type apart).

    Example:
        >>> exact(1) == exact(1.0), exact((2, "a")) == exact((2, "a"))
        (False, True)
    """
    cls = value.__class__
    if cls in _ALONE:
        return value
    if cls is int or cls is bool:
        return cls, value
    if isinstance(value, tuple):
        return cls, tuple([exact(v) for v in value])
    if isinstance(value, _FLOATS) or _is_narrow(value):
        # By its text: 0.0 and -0.0 are equal, and nan is not equal to itself.
        return cls, repr(value) if value == 0 or value != value else value
    if isinstance(value, _COMPLEX):
        parts = value.real, value.imag
        return cls, repr(value) if value != value or 0 in parts else value
    if isinstance(value, frozenset):
        return cls, frozenset([exact(v) for v in value])
    names = _fields(cls)
    if names is None:
        return cls, value
    return cls, tuple([exact(getattr(value, name)) for name in names])


def _is_narrow(value: Any) -> bool:
    """Is it bfloat16 or one of its kin, which are no `np.floating`?"""
    return isinstance(value, np.generic) and value.dtype.kind == "V" and value.dtype.names is None


@functools.lru_cache(maxsize=1024)
def _fields(cls: type) -> tuple[str, ...] | None:
    """The fields by which a frozen dataclass compares; None for other classes.

    Also for a dataclass with an __eq__ of its own, which may know better, and for one that compares
    by what it does not hash.
    """
    params = getattr(cls, "__dataclass_params__", None)
    if params is None or not params.frozen or not params.eq:
        return None
    # What dataclasses writes is compiled from text, not from the file of the class.
    code = getattr(cls.__eq__, "__code__", None)
    if code is None or code.co_filename != "<string>":
        return None
    fields = dataclasses.fields(cls)
    if any(f.compare and f.hash is False for f in fields):
        return None
    return tuple(f.name for f in fields if f.compare)


def shown(key: Any) -> str:
    """The value of a key, for messages."""
    if not isinstance(key, tuple):
        return repr(key)
    cls, value = key
    if issubclass(cls, (tuple, frozenset)):
        inside = ", ".join(map(shown, value))
        return f"({inside})" if issubclass(cls, tuple) else f"{{{inside}}}"
    names = _fields(cls)
    if names is not None:
        parts = (f"{n}={shown(v)}" for n, v in zip(names, value, strict=True))
        return f"{cls.__name__}({', '.join(parts)})"
    return value if value.__class__ is str else repr(value)


__all__ = ["exact", "shown"]
