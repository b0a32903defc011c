"""What programs say about the places of their arrays: checked, and done where it is a device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mgefn import tree
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import Array
from mgefn.core.device_array import DeviceArray, to_device
from mgefn.core.devices import CPU, Sharding, checked_place
from mgefn.core.interpreter import state
from mgefn.errors import DeviceError
from mgefn.interpreters.on_device import DefaultDevice


def placed(op: str, x: Any, places: Any, place: Callable[[str, Any, Sharding | None], Any]) -> Any:
    """place(op, leaf, sharding) of each leaf of x; `places` is a prefix of x."""
    leaves, treedef = tree.flatten(x)
    wanted = tree.prefix_leaves(places, x, op)
    return tree.unflatten(
        treedef,
        [
            place(op, leaf, checked_place(op, p, getattr(leaf, "shape", ())))
            for leaf, p in zip(leaves, wanted, strict=True)
        ],
    )


def array_with_sharding(op: str, leaf: Any, sharding: Sharding | None) -> Array:
    """The leaf as an array on the sharding's device, which remembers it, where it is known."""
    x = as_array(leaf, op)
    if sharding is None:
        return on_default_device(op, x)
    if not isinstance(x, (ConcreteArray, DeviceArray)):
        return x
    if len(sharding.device_set) > 1:
        raise DeviceError(
            f"{op}: an array is on one device, got {sharding}. Use a mesh of one device."
        )
    (device,) = sharding.device_set
    if device is CPU:
        host = x.to_host(op, True) if isinstance(x, DeviceArray) else x
        new: Any = ConcreteArray(host._data, host._weak)
    else:
        moved = to_device(op, x, device, True)
        new = DeviceArray(moved._data, device, moved.dtype, moved.weak_type)
    new._sharding = sharding
    return new


def on_default_device(op: str, x: Array) -> Array:
    """A known array where `default_device` says; as it is where nothing is said."""
    current = state.current
    if isinstance(current, DefaultDevice) and x.__class__ is ConcreteArray:
        return to_device(op, x, current.device, True)
    return x


def with_checked_shardings(
    about: str, fun: Callable[..., Any], static: Any, in_shardings: Any, out_shardings: Any
) -> Callable[..., Any]:
    """fun, which when it is traced checks the places of its arguments and results.

    Args:
        about: the operation, for messages.
        fun: the function.
        static: positions of arguments that are no arrays; in_shardings does not count them.
        in_shardings, out_shardings: prefixes of the positional arguments and of the result.
    """
    for which, shardings in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        for leaf in tree.leaves(shardings):
            checked_place(f"{about}: {which}", leaf)

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if in_shardings is not None:
            skipped = {i if i >= 0 else i + len(args) for i in static}
            arrays = tuple(a for i, a in enumerate(args) if i not in skipped)
            prefix = tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings
            placed(f"{about}: in_shardings", arrays, prefix, lambda op, leaf, place: leaf)
        out = fun(*args, **kwargs)
        placed(f"{about}: out_shardings", out, out_shardings, lambda op, leaf, place: leaf)
        return out

    return checked
