"""Checks of values and sizes that functions, losses and layers share."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray, described
from mgefn.errors import ArgumentError, IndexOutOfBoundsError, ShapeError

# Fields of layers that count something of which there must be one.
_AT_LEAST_ONE = frozenset(
    ("groups", "num_groups", "num_heads", "num_key_heads", "upscale_factor", "block_size",
     "kernel_size", "stride", "dilation")
)  # fmt: skip
_ANY_INTEGER = frozenset(("axis", "start_axis", "end_axis", "padding_idx"))
_PROBABILITIES = frozenset(("drop_prob", "p", "dropout"))
_PLANS: dict[type, list[tuple[str, str, bool]]] = {}  # layer -> (field, kind, may it be None?)


def _plan(cls: type, package: str) -> list[tuple[str, str, bool]]:
    """The fields of a layer that can be looked at: those that a class of the package declares."""
    kinds = {"int": "int", "Sizes": "sizes", "float": "float"}
    plan = []
    for base in cls.__mro__:
        if not base.__module__.startswith(package):
            continue
        for name, annotation in inspect.get_annotations(base).items():
            plain = str(annotation).removesuffix(" | None")
            kind = kinds.get(plain, "")
            if name in _ANY_INTEGER or (kind == "float" and name not in _PROBABILITIES):
                continue
            if kind:
                plan.append((name, kind, plain != annotation))
    return plan


def check_fields(module: Any, package: str) -> None:
    """Raise where a layer is made with a size or a probability that none can be.

    Args:
        module: the layer, a dataclass.
        package: whose layers are looked at; what fields of others mean is not known.
    """
    cls = type(module)
    plan = _PLANS.get(cls)
    if plan is None:
        plan = _plan(cls, package)
        if cls.__module__.startswith(package):  # not one that somebody makes anew in each call
            _PLANS[cls] = plan
    for name, kind, may_be_none in plan:
        value = getattr(module, name, None)
        if value is None and may_be_none:
            continue
        if kind == "float":
            _check_probability(cls.__name__, name, value)
        else:
            _check_size(cls.__name__, name, value, kind == "sizes")


def _check_probability(layer: str, name: str, value: Any) -> None:
    if isinstance(value, (int, float)) and not 0 <= value <= 1:
        raise ArgumentError(
            f"{layer}: {name} must be in [0, 1], got {value}. It is the share that is dropped."
        )
    if value is None or isinstance(value, (str, Sequence)):
        raise ArgumentError(f"{layer}: {name} must be a number in [0, 1], got {value!r}.")


def _check_size(layer: str, name: str, value: Any, several: bool) -> None:
    least = 1 if name in _AT_LEAST_ONE else 0
    many = several and isinstance(value, Sequence) and not isinstance(value, str)
    x: Any
    for x in value if many else (value,):
        try:
            if operator.index(x) >= least:
                continue
        except TypeError:
            pass
        repair = "Pass one."
        if isinstance(x, float) and x.is_integer() and x >= least:
            repair = f"Write {int(x)}."
        elif several and not many:
            repair = "Pass one, or one for each spatial dimension."
        got = x if isinstance(x, (int, float, str)) else described(x)
        raise ArgumentError(
            f"{layer}: {name} must be an integer of {least} or more, got {got}. {repair}"
        )


def check_window_fits(
    name: str, x: Any, y: Any, kernel: Sequence[int], axes: Sequence[int]
) -> None:
    """Raise where no window fits into an image that has elements: the result would be empty.

    Args:
        name: of the operation.
        x, y: its operand and its result.
        kernel: sizes of the window.
        axes: the spatial dimensions, of x and of y.
    """
    if any(y.shape[a] == 0 and x.shape[a] > 0 for a in axes):
        raise ShapeError(
            f"{name}: the window must fit into the padded image, got kernel {tuple(kernel)} for "
            f"{x.aval}. Make it smaller, or pass padding."
        )


def check_range(
    name: str, what: str, numbers: Any, n: int, kind: str, counts: Any = None, repair: str = ""
) -> None:
    """Raise where numbers whose values are known lie outside [-n, n).

    Those of a traced array are not known; they give NaN, as in JAX and optax.

    Args:
        name, what: of the operation and the argument.
        numbers: integers.
        n: how many there are of what they number.
        kind: what that is, as "classes".
        counts: booleans, of the shape of numbers: those that matter; None: all.
        repair: what else can be done.
    """
    if numbers.__class__ is not ConcreteArray or not numbers.size:
        return
    values = np.asarray(numbers)
    if counts is not None:
        if counts.__class__ is not ConcreteArray:
            return
        values = values[np.asarray(counts)]
        if not values.size:
            return
    low, high = int(values.min()), int(values.max())
    if -n <= low and high < n:
        return
    raise IndexOutOfBoundsError(
        f"{name}: {what} must number {n} {kind} from 0 to {n - 1} (or from the end, from -1 to "
        f"{-n}), got {high if high >= n else low}. Correct {what}{repair}."
    )
