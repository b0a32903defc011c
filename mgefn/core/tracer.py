"""Tracers: boxed values that user code holds while an interpreter reads its operations.

A tracer is an `Array` to user code. It belongs to the interpreter that made it; used after that
interpreter is done it has leaked, and the operation that meets it says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import Interpreter
from mgefn.core.source import Source, describe
from mgefn.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    api_boundary,
)


class Tracer(Array):
    """A boxed value; subclasses say what is in the box and set `aval`."""

    __slots__ = ("interpreter",)

    interpreter: Interpreter

    @property
    def aval(self) -> ShapedArray:
        raise NotImplementedError  # each kind of tracer has its own

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def origin(self) -> Source | None:
        """The line that made this value, where the interpreter keeps it."""
        return None

    def concrete(self) -> Any:
        """The value in the box where there is one: an Array or an outer tracer; else None."""
        return None

    # -- where Python wants a number ------------------------------------------------------------

    def to_know(self) -> str:
        """What makes a value like this known: a sentence for messages, without its full stop."""
        how = self.interpreter.about.split("(", 1)[0]
        if how in ("jit", "make_jaxpr", "eval_shape"):
            return "Mark the argument it comes from with static_argnums"
        if how == "vmap":
            return "Share the argument it comes from with in_axes=None"
        return "Compute it outside"

    def _made_at(self) -> str:
        origin = self.origin()
        return "" if origin is None else f", made at {describe(origin)}"

    @api_boundary
    def __bool__(self) -> bool:
        inner = self.concrete()
        if inner is not None:
            return bool(inner)
        raise TracerBoolConversionError(
            f"bool: if, while, and, or, not and assert need a known value, got the traced "
            f"{self.aval}{self._made_at()} in {self.interpreter.about}. Use mgefn.numpy.where, "
            f"lax.cond or lax.while_loop. {self.to_know()} if it decides what the program is."
        )

    def _number(self, kind: type) -> Any:
        inner = self.concrete()
        if inner is not None:
            if kind is not int and self.aval.dtype.kind in "fcV":
                # NumPy asks too, in array[i] = x, where nobody would notice the lost derivative.
                raise ConcretizationTypeError(
                    f"{kind.__name__}: Python would lose the derivative of the traced {self.aval} "
                    f"in {self.interpreter.about}. Keep it an array and use mgefn.numpy (for "
                    "array[i] = x write array = array.at[i].set(x)), or take x.item() if the "
                    "number needs no derivative."
                )
            return kind(inner)
        error = TracerIntegerConversionError if kind is int else ConcretizationTypeError
        raise error(
            f"{kind.__name__}: needs a known value, got the traced {self.aval}{self._made_at()} in "
            f"{self.interpreter.about}. Keep it an array and use mgefn.numpy. {self.to_know()} if "
            "it must be a Python number."
        )

    @api_boundary
    def __int__(self) -> int:
        return self._number(int)

    @api_boundary
    def __float__(self) -> float:
        return self._number(float)

    @api_boundary
    def __complex__(self) -> complex:
        return self._number(complex)

    @api_boundary
    def __index__(self) -> int:
        inner = self.concrete()
        if inner is not None:
            return inner.__index__()
        raise TracerIntegerConversionError(
            f"index: a list index, a shape and a range need a known integer, got the traced "
            f"{self.aval}{self._made_at()} in {self.interpreter.about}. Index an mgefn array, use "
            f"lax.dynamic_slice or lax.fori_loop. {self.to_know()} if it decides what the program "
            "is."
        )

    @api_boundary
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.concrete() is not None:
            raise TracerArrayConversionError(
                f"numpy.asarray: NumPy would lose the derivative of the traced {self.aval} in "
                f"{self.interpreter.about}. Call the function of the same name in mgefn.numpy (for "
                "np.array([x, y]) write mgefn.numpy.stack([x, y]), for array[i] = x array = "
                "array.at[i].set(x)), or pass it through lax.stop_gradient first if it needs none."
            )
        if self.aval.dtype.kind in "iub":
            # NumPy asks for integers and masks when a NumPy array is indexed with them.
            raise TracerArrayConversionError(
                f"numpy.asarray: needs a known value, got the traced {self.aval}{self._made_at()} "
                f"in {self.interpreter.about}. To index a NumPy array with it write "
                "mgefn.numpy.asarray(array)[index], for np.array([x, y]) mgefn.numpy.stack([x, y])."
            )
        raise TracerArrayConversionError(
            f"numpy.asarray: needs a known value, got the traced {self.aval}{self._made_at()} in "
            f"{self.interpreter.about}. Call the function of the same name in mgefn.numpy; for "
            "np.array([x, y]) write mgefn.numpy.stack([x, y]), and for array[i] = x on an array of "
            "mgefn.numpy array = array.at[i].set(x)."
        )

    @api_boundary
    def item(self, *args: int) -> Any:
        inner = self.concrete()
        if inner is not None:
            return inner.item(*args)
        raise ConcretizationTypeError(
            f"item: needs a known value, got the traced {self.aval}{self._made_at()} in "
            f"{self.interpreter.about}. Return the array and call item on the result."
        )

    @api_boundary
    def tolist(self) -> Any:
        inner = self.concrete()
        if inner is not None:
            return inner.tolist()
        raise ConcretizationTypeError(
            f"tolist: needs a known value, got the traced {self.aval}{self._made_at()} in "
            f"{self.interpreter.about}. Return the array and call tolist on the result."
        )

    def __repr__(self) -> str:
        return f"Traced<{self.aval}> in {self.interpreter.about}"

    __str__ = __repr__

    @api_boundary
    def __format__(self, spec: str) -> str:
        inner = self.concrete()
        if inner is not None and spec:
            return format(inner, spec)
        return repr(self) if not spec else self._number(float)

    def block_until_ready(self) -> Array:
        return self


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer met outside the call that made it."""
    origin = tracer.origin()
    made = f" made at {describe(origin)}" if origin is not None else ""
    about = tracer.interpreter.about
    return UnexpectedTracerError(
        f"{about}: a value {tracer.aval}{made} was used after {about} returned. Return it instead "
        "of storing it."
    )
