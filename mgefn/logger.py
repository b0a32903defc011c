"""Messages of programs, by Python's own logging under the name "mgefn"."""

from __future__ import annotations

import logging
from typing import Any

from mgefn.errors import ArgumentError, api_boundary

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_file_handler: logging.Handler | None = None


@api_boundary
def get_logger(name: str | None = None, formatter: Any = None) -> logging.Logger:
    """The logger "mgefn", or "mgefn.<name>" below it.

    Args:
        name: what to put behind "mgefn."; None for "mgefn" itself.
        formatter: a logging.Formatter for lines of the console; a plain one without it.

    Returns:
        The logger. Its lines go to the console (standard error) once this was called.

    Raises:
        ArgumentError: name is no text.

    Example:
        >>> mgefn.logger.get_logger("train").name
        'mgefn.train'
    """
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"get_logger: name must be a text, got {name!r}.")
    root = logging.getLogger("mgefn")
    console = next((h for h in root.handlers if type(h) is logging.StreamHandler), None)
    if console is None:
        console = logging.StreamHandler()
        console.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(console)
        root.propagate = False
        if root.level == logging.NOTSET:
            root.setLevel(logging.INFO)
    if formatter is not None:
        console.setFormatter(formatter)
    return root if name is None else root.getChild(name)


@api_boundary
def set_log_level(level: int | str) -> int:
    """Show messages of this level and above.

    Args:
        level: a number or a name of logging, such as "DEBUG".

    Returns:
        The level of before, a number.

    Raises:
        ArgumentError: there is no such level.

    Example:
        >>> before = mgefn.logger.set_log_level("WARNING")
        >>> mgefn.logger.set_log_level(before)
        30
    """
    root = logging.getLogger("mgefn")
    before = root.level
    try:
        root.setLevel(level)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"set_log_level: needs a level of logging, such as 'DEBUG', got {level!r}."
        ) from None
    return before


@api_boundary
def set_log_file(fout: Any, mode: str = "a") -> None:
    """Write all messages to a file as well, in the place of the file of before.

    Args:
        fout: a path, an open text file, or None for none.
        mode: "a" to go on in a file that is there, "w" to begin it anew.
    """
    global _file_handler
    if mode not in ("a", "w"):
        raise ArgumentError(f"set_log_file: mode must be 'a' or 'w', got {mode!r}.")
    handler: logging.Handler | None = None
    if hasattr(fout, "write"):
        handler = logging.StreamHandler(fout)
    elif fout is not None:
        handler = logging.FileHandler(fout, mode, encoding="utf-8")
    root = get_logger()
    if _file_handler is not None:
        root.removeHandler(_file_handler)
        _file_handler.close()
    _file_handler = handler
    if handler is not None:
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)


__all__ = ["get_logger", "set_log_file", "set_log_level"]
