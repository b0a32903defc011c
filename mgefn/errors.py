"""Every exception class of mgefn, and the filter that leaves only the user's frames in a traceback.

Each class states the mistake that raises it and its repair. Messages have the form
`operation: what is needed, what came. What to do.` Every class derives from `MgefnError` and also
from the built-in or NumPy type that ported programs catch in its place.

Invariants: the filter never raises, never loops on a cyclic chain of causes, and changes nothing
when the full traceback is asked for. `config` decides that by setting `wants_full_traceback`; this
module imports nothing of mgefn but `suggestions`.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from mgefn import suggestions

__all__ = [
    "ArgumentError",
    "AxisError",
    "CheckError",
    "CheckpointNotFoundError",
    "ConcretizationTypeError",
    "CustomRuleError",
    "DTypeError",
    "DeviceError",
    "DonatedBufferError",
    "FileFormatError",
    "InAxesError",
    "IndexOutOfBoundsError",
    "JaxprError",
    "LeakedTracerError",
    "MgefnError",
    "MissingNameError",
    "NonConcreteBooleanIndexError",
    "NonFiniteError",
    "OverflowDTypeError",
    "ShapeError",
    "StaticArgumentError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TreeError",
    "UnboundAxisError",
    "UnexpectedTracerError",
    "UnsupportedError",
    "WorkerError",
    "api_boundary",
    "user_frames_only",
]

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)


class MgefnError(Exception):
    """Base of every error that mgefn raises on purpose. Catch it to catch them all."""


class ShapeError(MgefnError, TypeError, ValueError):
    """Operand shapes do not fit the operation. Reshape, transpose or broadcast one of them."""


class InAxesError(ShapeError):
    """in_axes or out_axes of a map do not fit the arguments: an axis is out of range, or the mapped
    sizes differ. Give each mapped argument an axis of one common size, and None to the others."""


class DTypeError(MgefnError, TypeError, ValueError):
    """A dtype is unknown, or the operation has no meaning for it. Cast with astype."""


class OverflowDTypeError(MgefnError, OverflowError):
    """A Python integer does not fit the integer dtype it must take. Choose a wider dtype, or write
    the wrapped value."""


class AxisError(MgefnError, np.exceptions.AxisError):
    """An axis is out of range for the array, or named twice. Use axes in [-ndim, ndim), once each.

    Takes a message, or NumPy's (axis, ndim, msg_prefix).
    """


class IndexOutOfBoundsError(MgefnError, IndexError):
    """A static index lies outside its dimension, or too many indices were given. Index within
    [-size, size), or pass a mode that clips or fills."""


class ArgumentError(MgefnError, TypeError, ValueError):
    """An argument has the wrong type or value; the message names what is accepted."""


class MissingNameError(MgefnError, AttributeError):
    """A module or an object of mgefn has no such name; the message gives the one that was meant,
    where it can be told. Use that one.

    Takes a message; or (module, name, names that there are); or of an object (its class, what it
    is, name, names): the message is then written when it is read, because `hasattr` throws most of
    them away.
    """

    def __str__(self) -> str:
        if len(self.args) == 3:
            return suggestions.missing_name(*self.args)
        if len(self.args) == 4:
            return suggestions.missing_attribute(*self.args)
        return super().__str__()


class StaticArgumentError(ArgumentError):
    """An argument declared static is not hashable, or is an array. Pass a hashable value such as a
    tuple, or make the argument an ordinary one."""


class TreeError(MgefnError, TypeError, ValueError):
    """Two pytrees that must have one structure differ, or a pytree cannot be taken apart or
    registered. The message gives the key path where they part."""


class ConcretizationTypeError(MgefnError, TypeError):
    """A value known only by shape and dtype was used where Python needs its data. Use a control
    flow function such as cond, mark the argument static, or compute it outside the transform."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value decided an `if`, `while`, `and`, `or` or `assert`. Use where, cond or
    while_loop, or mark the argument static."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used as a Python integer: a list index, a shape, a range bound. Mark the
    argument static, or index an array with it."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was handed to NumPy. Call the function of the same name in mgefn.numpy, or
    compute the NumPy part outside the transform."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, IndexError):
    """A traced boolean mask was used as an index, so the size of the result is unknown. Use the
    three-argument where, or nonzero with a size."""


class UnboundAxisError(MgefnError, NameError):
    """A collective names an axis that no map around it has. Call it inside vmap with this
    axis_name, or use a name that is bound."""


class UnexpectedTracerError(MgefnError, RuntimeError):
    """A traced value outlived the function that was traced: it was stored in a global, an attribute
    or a closure. Return it from the function instead."""


class LeakedTracerError(MgefnError):
    """A traced value was still alive when `checking_leaks` ended. Return it from the function that
    was traced instead of storing it."""


class CheckError(MgefnError, ValueError, RuntimeError):
    """A condition that `checkify.check` or an automatic check guards did not hold at run time. The
    message is the check's own; correct what it names."""


class NonFiniteError(MgefnError, FloatingPointError):
    """With debug_nans or debug_infs on, an operation made a NaN or an infinity. Guard the operation
    that is named, or turn the setting off."""


class DonatedBufferError(MgefnError, RuntimeError):
    """An array was used after it was donated and its memory reused. Keep the returned array, or
    drop donate_argnums."""


class UnsupportedError(MgefnError, RuntimeError):
    """A primitive has no rule or no kernel for this use; the message gives the declared reason.
    Use the operation, dtype or backend that it names instead."""


class DeviceError(ArgumentError, RuntimeError):
    """A device was asked for that is not there or can't do the work: CuPy or the driver is missing,
    memory is short, arrays of two devices meet, or a transfer guard forbids a copy. The message
    names the device and the repair."""


class CheckpointNotFoundError(ArgumentError, FileNotFoundError):
    """There is no checkpoint to restore: the folder is not there or empty, or holds other steps.
    Correct the path or the step, or pass a target, which a first start begins with."""


class FileFormatError(MgefnError, ValueError):
    """A file of arrays or a checkpoint is damaged, cut short or of another format, or does not hold
    what its reader wants. Restore an older checkpoint, or correct what the message names."""


class WorkerError(MgefnError, RuntimeError):
    """A worker that prepares data died or did not answer in time. The message gives what it was
    working on; num_workers=0 runs the same code in this process."""


class JaxprError(MgefnError):
    """A jaxpr is malformed: a variable is unbound or bound twice, or a type does not match. A fault
    in a rule or a pass, or in a jaxpr built by hand; correct the equation that is named."""


class CustomRuleError(MgefnError, TypeError, ValueError):
    """The rule of a custom_jvp or custom_vjp function is missing or returned the wrong structure,
    shape or dtype. Return what the message asks for."""


def _never() -> bool:
    return False


# Set by config: True leaves tracebacks as they are. A hook, because config imports this module.
wants_full_traceback: Callable[[], bool] = _never

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _user_traceback(
    traceback: types.TracebackType | None, keep_one: bool
) -> types.TracebackType | None:
    """The traceback without frames of this package; the innermost frame if no other is left."""
    entries: list[types.TracebackType] = []
    dropped = False
    innermost = traceback
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            dropped = True
        else:
            entries.append(traceback)
        innermost, traceback = traceback, traceback.tb_next
    if not entries:
        if innermost is None or not keep_one:
            return None
        entries.append(innermost)
    elif not dropped:
        return entries[0]
    chain: types.TracebackType | None = None
    for entry in reversed(entries):
        # New entries: the old ones may be held by whoever caught the exception before.
        # Python gives no line (None, against its types) to what an interrupt met between lines.
        line: int | None = entry.tb_lineno
        if line is None:
            line = entry.tb_frame.f_code.co_firstlineno
        chain = types.TracebackType(chain, entry.tb_frame, entry.tb_lasti, line)
    return chain


def _filter_chain(exc: BaseException, keep_one: bool) -> None:
    exc.__traceback__ = _user_traceback(exc.__traceback__, keep_one)
    seen = {id(exc)}
    pending = [exc.__cause__, exc.__context__]
    if isinstance(exc, BaseExceptionGroup):
        pending.extend(exc.exceptions)
    while pending:
        other = pending.pop()
        if other is None or id(other) in seen:
            continue
        seen.add(id(other))
        other.__traceback__ = _user_traceback(other.__traceback__, True)
        pending += (other.__cause__, other.__context__)
        if isinstance(other, BaseExceptionGroup):
            pending.extend(other.exceptions)


def user_frames_only(exc: E) -> E:
    """Drop the frames of mgefn's own files from the traceback of `exc`, in place.

    Causes, contexts and members of exception groups are treated alike. Each traceback keeps at
    least its innermost frame. Does nothing when `config.traceback` is "full".

    Args:
        exc: any exception, raised or not.
    Returns:
        The same exception.
    """
    if not wants_full_traceback():
        _filter_chain(exc, keep_one=True)
    return exc


def leave_api(exc: BaseException) -> None:
    """What `api_boundary` does to an exception; for functions that write it out for speed.

    Those called most often (add, matmul, sum, indexing, ...) hold a try statement of their own,
    which costs nothing until something is raised; the decorator costs a call. To be followed by a
    bare `raise`, which adds no frame.
    """
    if not wants_full_traceback():
        _filter_chain(exc, keep_one=False)


def refused_call(
    fn: Callable[..., Any],
    exc: BaseException,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    about: str = "",
) -> ArgumentError | None:
    """The error in the place of another one, where a call has a keyword that fn does not know, or
    lacks the random key that stands before its other arguments, or where a function of the user's
    among the arguments does not take what fn calls it with.

    Args:
        fn: what was called, by the caller of this function.
        exc: what came of it.
        args, kwargs: what it was called with.
        about: the name to give it, where it has none that says enough; its own without one.
    """
    if not isinstance(exc, (TypeError, ValueError)):
        return None
    traceback = exc.__traceback__
    # Without a frame below the caller's, fn was not entered.
    refused = type(exc) is TypeError and traceback is not None and traceback.tb_next is None
    text = suggestions.explained(fn, exc, about) if refused else ""
    text = text or suggestions.without_key(fn, args, about)
    if refused and about:
        text = text or suggestions.incomplete(fn, exc, args, about)
    return ArgumentError(text) if text else refused_function(fn, exc, args, kwargs, about)


def refused_function(
    fn: Callable[..., Any],
    exc: BaseException,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    about: str = "",
) -> ArgumentError | None:
    """The error in the place of another one, where a function of the user's among the arguments
    does not take what fn calls it with. Arguments are those of `refused_call`."""
    innermost = exc.__traceback__
    if type(exc) is not TypeError or innermost is None:
        return None
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    if not innermost.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        return None
    text = suggestions.miscalled(fn, exc, args, kwargs, about)
    text = text or suggestions.no_function(fn, exc, args, kwargs, about)
    return ArgumentError(text) if text else None


F = TypeVar("F", bound=Callable[..., Any])


def tells_keywords(fn: F) -> F:
    """Decorate a public function that stands behind no `api_boundary`, for speed.

    It ends its parameters with `**unknown: Never` and raises `no_such_keyword` where there are any.
    That costs a call an empty dict, and `inspect.signature` does not show it.
    """
    whole = inspect.signature(fn)
    kept = [p for p in whole.parameters.values() if p.kind is not p.VAR_KEYWORD]
    cast(Any, fn).__signature__ = whole.replace(parameters=kept)
    return fn


def no_such_keyword(fn: Callable[..., Any], unknown: Iterable[str]) -> ArgumentError:
    """The error for keywords that a function does not have."""
    names = suggestions.accepted(fn) or ()
    return ArgumentError(suggestions.unknown_keyword(fn.__qualname__, next(iter(unknown)), names))


def api_boundary(fn: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that errors leaving it show the user's frames only.

    The exception object, its cause and its context stay as they are. A traceback with no user frame
    becomes empty here; the caller's frame joins as the exception passes it.
    """
    # In the closure, as the globals below are those of fn.
    leave, refused = leave_api, refused_call

    def boundary(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except BaseException as exc:
            told = refused(fn, exc, args, kwargs)
            if told is None:
                leave(exc)
                raise
        try:
            raise told
        except BaseException as exc:
            leave(exc)
            raise

    made: Callable[P, R] = boundary
    # By its globals doctest tells which module a function belongs to.
    names = getattr(fn, "__globals__", None)
    if names is not None:
        code, cells = boundary.__code__, boundary.__closure__
        made = cast("Callable[P, R]", types.FunctionType(code, names, code.co_name, None, cells))
    return functools.wraps(fn)(made)


def api_context(fn: Callable[P, Iterator[R]]) -> Callable[P, AbstractContextManager[R]]:
    """`contextlib.contextmanager` for public functions, behind an `api_boundary`."""
    make = contextmanager(fn)

    @api_boundary
    @functools.wraps(fn)
    def made(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[R]:
        try:
            return make(*args, **kwargs)
        except TypeError as exc:  # of the call: nothing of fn has run yet
            text = suggestions.explained(fn, exc)
            if not text:
                raise
        raise ArgumentError(text)

    return made


def explain_constructors(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Have the constructors among these names of a module tell which keyword was meant.

    Each class gets an `__init__` of its own behind `api_boundary`, under its own name: a dataclass
    has one that no decorator can stand on, and its subclasses have that of their base.
    """
    for cls in [namespace[name] for name in names]:
        plain = getattr(cls, "__init__", None) if isinstance(cls, type) else None
        plain = getattr(plain, "__wrapped__", plain)
        if not isinstance(plain, types.FunctionType):
            continue
        named = types.FunctionType(
            plain.__code__, plain.__globals__, "__init__", plain.__defaults__, plain.__closure__
        )
        functools.update_wrapper(named, plain)
        del named.__wrapped__  # type: ignore[attr-defined]  # it is no wrapper but a copy
        named.__kwdefaults__ = plain.__kwdefaults__
        named.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = api_boundary(named)
