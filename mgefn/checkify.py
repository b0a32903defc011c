"""Run-time checks inside transformed functions, under the names of jax.experimental.checkify.

A check outside any checkify raises when it is reached, in compiled programs too; JAX refuses to
compile it.
"""

from __future__ import annotations

from mgefn.control.checks import (
    Error,
    all_checks,
    automatic_checks,
    check,
    check_error,
    checkify,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)

__all__ = [
    "Error",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
