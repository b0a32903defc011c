"""Copies between the host and a device, and the guard that says which of them may happen.

A copy is explicit where the program asks for it by name: device_put, device_get. It is implicit
where it follows from something else: numpy.asarray or print of an array on a device, bool in an
`if`, a host array beside a device's in an operation. Numbers, and host arrays of rank 0, are
arguments of an operation and no transfers.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from mgefn.errors import ArgumentError, DeviceError

LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")


class _Guards(threading.local):
    host_to_device = "allow"
    device_to_host = "allow"


guards = _Guards()


def checked_level(op: str, level: Any) -> str:
    """The level, if there is one of this name."""
    if level not in LEVELS:
        raise ArgumentError(f"{op}: needs one of {', '.join(map(repr, LEVELS))}, got {level!r}.")
    return level


def guarded(what: str, aval: Any, device: Any, to_host: bool, explicit: bool) -> None:
    """Say or forbid a copy, as the guard of its direction wants.

    Args:
        what: the operation that needs it.
        aval: the type of the array.
        device: where it comes from or goes to.
        to_host: the direction.
        explicit: did the program ask for this copy by name?

    Raises:
        DeviceError: the guard forbids it.
    """
    level = guards.device_to_host if to_host else guards.host_to_device
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    way = f"{device} to the host" if to_host else f"the host to {device}"
    if level.startswith("log"):
        print(f"{what}: copies {aval} from {way}.", file=sys.stderr)
        return
    asked = "mgefn.device_get(x)" if to_host else "mgefn.device_put(x, device)"
    repair = f"Use {asked}, or" if not explicit else "Leave the guarded block, or"
    raise DeviceError(
        f"{what}: needs to copy {aval} from {way}, and transfer_guard({level!r}) forbids it. "
        f"{repair} mgefn.transfer_guard('allow')."
    )
