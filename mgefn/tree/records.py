"""Dataclasses as nodes, in one decorator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from mgefn.errors import TreeError, api_boundary
from mgefn.tree.registry import register_dataclass

C = TypeVar("C", bound=type)


@api_boundary
def static(**kwargs: Any) -> Any:
    """A field of a dataclass that is part of the structure and not a child; hashable.

    Args:
        kwargs: as for dataclasses.field.
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
@api_boundary
def dataclass(cls: Any = None, **options: Any) -> Any:
    """Make a class a frozen dataclass and a node, with a method `replace`.

    Args:
        cls: the class. Left out, a decorator is returned.
        options: as for dataclasses.dataclass; frozen is True.

    Returns:
        The class. Its method replace(**changes) gives a copy with other values.

    Raises:
        TreeError: frozen=False was asked for.

    Example:
        >>> @mgefn.tree.dataclass
        ... class Layer:
        ...     weight: float
        ...     name: str = mgefn.tree.static(default="layer")
        >>> mgefn.tree.map(lambda x: x * 2, Layer(1.5)).replace(name="last")
        Layer(weight=3.0, name='last')
    """
    if not options.setdefault("frozen", True):
        raise TreeError("tree.dataclass: nodes are frozen. Leave frozen out, and use replace.")
    if cls is None:
        return _decorator(options)
    made = dataclasses.dataclass(**options)(cls)
    if "replace" not in cls.__dict__:
        made.replace = _replace
    return register_dataclass(made)


def _decorator(options: dict[str, Any]) -> Callable[[C], C]:
    return lambda cls: dataclass(cls, **options)


def _replace(self: Any, **changes: Any) -> Any:
    """A copy with other values for the fields that are named."""
    return dataclasses.replace(self, **changes)


__all__ = ["dataclass", "static"]
