"""Keys: the steps of a key path, and the path as text.

A key is a value: equal to another of its class with the same value, hashable, immutable.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from mgefn.errors import api_boundary


class _Key:
    """A step from a node to a child. Equal when of the same class with the same value."""

    __slots__ = ("_value",)
    _field = "key"

    def __init__(self, value: Any) -> None:
        object.__setattr__(self, "_value", value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._value == other._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)


class DictKey(_Key):
    """A key of a dict, shown `['w']`."""

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        super().__init__(key)

    @property
    def key(self) -> Any:
        """The key."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class SequenceKey(_Key):
    """An index into a tuple, list or deque, shown `[0]`."""

    __slots__ = ()
    __match_args__ = ("idx",)
    _field = "idx"

    def __init__(self, idx: int) -> None:
        super().__init__(idx)

    @property
    def idx(self) -> int:
        """The index."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class GetAttrKey(_Key):
    """An attribute of a named tuple, dataclass or registered class, shown `.w`."""

    __slots__ = ()
    __match_args__ = ("name",)
    _field = "name"

    def __init__(self, name: str) -> None:
        super().__init__(name)

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self._value

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(_Key):
    """Place among the children of a class registered without keys, shown `[<flat index 0>]`."""

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: int) -> None:
        super().__init__(key)

    @property
    def key(self) -> int:
        """The place, from 0."""
        return self._value

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


# A registered class may use hashable keys of its own as well.
KeyEntry: TypeAlias = Any
KeyPath: TypeAlias = tuple[KeyEntry, ...]


@api_boundary
def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    Args:
        keys: a path, as `flatten_with_path` gives it.
        simple: show the bare keys, without brackets and dots.
        separator: text between the keys.
    Example:
        >>> keystr((DictKey("layers"), SequenceKey(0)))
        "['layers'][0]"
        >>> keystr((DictKey("layers"), SequenceKey(0)), simple=True, separator="/")
        'layers/0'
    """
    if simple:
        return separator.join(str(k._value) if isinstance(k, _Key) else str(k) for k in keys)
    return separator.join(str(key) for key in keys)
