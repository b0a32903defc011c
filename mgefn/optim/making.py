"""`maker` for this package: what makes an optimizer looks at its arguments first.

A learning rate that is text, or an optimizer that was not called, would be found at the first step
only, in the middle of some product. What a parameter takes is read from its annotation.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mgefn import recipes
from mgefn.core.array import described
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError

__all__ = ["maker", "must_be_optimizer"]

P = ParamSpec("P")
R = TypeVar("R")

# Annotation -> whether a function of the step will do in place of a number.
_NUMBERS = {"float": False, "int": False, "ScalarOrSchedule": True}


def _is_number(x: Any) -> bool:
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "biufcV"  # V: bfloat16 and its kin
    return isinstance(x, (int, float, complex, Array)) or hasattr(x, "__jax_array__")


def _must_be_number(name: str, parameter: str, x: Any, schedule: bool) -> None:
    """Raise, unless x is a schedule and one is taken; it is no number."""
    if schedule and callable(x) and not isinstance(x, type) and not _is_maker(x):
        try:
            inspect.signature(x).bind(0)
        except TypeError:
            pass
        except ValueError:  # a function of C, of which nothing is known
            return
        else:
            return
    what = "a number or a schedule" if schedule else "a number"
    example = f"{parameter}=0.001" if schedule else f"{parameter}=0.9"
    if isinstance(x, str):
        try:
            repair = f"Pass the number itself: {parameter}={float(x):g}."
        except ValueError:
            repair = f"Pass one, such as {example}."
        got = repr(x)
    elif isinstance(x, (types.FunctionType, type)) or callable(x):
        function = getattr(x, "__name__", type(x).__name__)
        got = f"the function {function}"
        repair = f"Pass one, such as {example}."
        if schedule:
            repair = f"Call it, if it makes a schedule: {parameter}={function}(...)."
            if not _is_maker(x):
                repair = "A schedule is a function of the number of the step alone."
    else:
        got, repair = described(x), f"Pass one, such as {example}."
    raise ArgumentError(f"{name}: {parameter} must be {what}, got {got}. {repair}")


def _must_be_no_text(name: str, parameter: str, x: Any) -> None:
    """Of what may be an array, a list of numbers or a schedule, too."""
    if isinstance(x, str):
        _must_be_number(name, parameter, x, schedule=False)


def must_be_optimizer(name: str, parameter: str, x: Any) -> None:
    """Raise where the argument of a parameter has no init and update."""
    if callable(getattr(x, "init", None)) and callable(getattr(x, "update", None)):
        return
    got, repair = described(x), "Pass what a function such as optim.adam gives."
    if callable(x):
        function = getattr(x, "__name__", type(x).__name__)
        got, repair = f"the function {function}", f"Call it: {function}(...)."
    elif isinstance(x, (tuple, list)) and parameter == "args":
        repair = f"Pass the parts one by one: {name}(*parts)."
    what = "each argument" if parameter == "args" else parameter
    raise ArgumentError(f"{name}: {what} must be an optimizer, got {got}. {repair}")


def _may_be_no_optimizer(name: str, parameter: str, x: Any) -> None:
    if x is not None:
        must_be_optimizer(name, parameter, x)


def _is_maker(x: Any) -> bool:
    code = getattr(x, "__code__", None)
    return code is not None and code.co_filename == recipes.__file__


def _checks(fn: Callable[..., Any]) -> dict[str, Callable[[str, str, Any], None]]:
    """The check of each parameter that has one."""
    found: dict[str, Callable[[str, str, Any], None]] = {}
    for parameter in inspect.signature(fn).parameters.values():
        plain = str(parameter.annotation).removesuffix(" | None")
        optional = plain != str(parameter.annotation) or parameter.default is None
        if plain in _NUMBERS:

            def check(
                name: str, parameter: str, x: Any, schedule: bool = _NUMBERS[plain],
                optional: bool = optional,
            ) -> None:  # fmt: skip
                if not _is_number(x) and (x is not None or not optional):
                    _must_be_number(name, parameter, x, schedule)

            found[parameter.name] = check
        elif plain == "ArrayLike":
            found[parameter.name] = _must_be_no_text
        elif plain in ("GradientTransformation", "GradientTransformationExtraArgs"):
            found[parameter.name] = _may_be_no_optimizer if optional else must_be_optimizer
    return found


def maker(fn: Callable[P, R]) -> Callable[P, R]:
    """`recipes.maker`, for a function whose numbers and optimizers are looked at first."""
    checks = _checks(fn)
    spec = inspect.getfullargspec(fn)

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for parameter, x in (*zip(spec.args, args, strict=False), *kwargs.items()):
            if parameter in checks:
                checks[parameter](fn.__name__, parameter, x)
        if spec.varargs in checks:
            for x in args[len(spec.args) :]:
                checks[spec.varargs](fn.__name__, spec.varargs, x)

    return recipes.maker(fn, check if checks else None)
