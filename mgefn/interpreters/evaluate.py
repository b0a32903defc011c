"""Evaluation: the outermost interpreter, which computes at once on the arrays' backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.backends import kernel_of
from mgefn.core.interpreter import base, interpreter_set_to, quietly, state
from mgefn.core.jaxpr import eval_jaxpr as eval_jaxpr
from mgefn.core.jaxpr import last_uses as last_uses
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer, leaked
from mgefn.errors import MgefnError, UnsupportedError
from mgefn.interpreters.on_device import device_of, evaluate_on

_ndarray = np.ndarray


def evaluate(primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
    """Compute a primitive's outputs from concrete arrays.

    Raises:
        UnexpectedTracerError: an argument is a tracer whose interpreter is done.
        UnsupportedError: the backend has no kernel for the primitive.
    """
    weak = primitive.weak_result and len(args) > 0
    buffers = []
    for a in args:
        if a.__class__ is not ConcreteArray:
            args = tuple([_known(primitive, x) for x in args])
            device = device_of(primitive.name, args)
            if device is not None:
                return evaluate_on(device, primitive, args, params)
            return evaluate(primitive, args, params)
        buffers.append(a._data)
        weak = weak and a._weak
    ufunc = primitive.ufunc
    if ufunc is not None and buffers[0].dtype in primitive.ufunc_dtypes:
        # The kernel is this ufunc, so call it without a frame between.
        try:
            out = state.quiet(ufunc, *buffers)
        except RuntimeError:
            out = quietly(ufunc, *buffers)
        except (TypeError, ValueError):
            _explain(primitive, args, params)
            raise
        return (ConcreteArray(out if out.__class__ is _ndarray else np.asarray(out), weak),)
    if not primitive.moves:
        primitive.check_no_keys([b.dtype for b in buffers])
    if primitive.accepts is not None and not primitive.accepts(buffers[0].dtype):
        _explain(primitive, args, params)
    if primitive.evaluate is not None:
        with interpreter_set_to(None):
            return primitive.evaluate(args, params)
    if primitive.by_value is not None:
        found = primitive.by_value(args, params)
        if found is not None:
            return (found,)
    kernel = primitive.kernels.get("numpy") or kernel_of(primitive)
    if kernel is None:
        reason = primitive.unsupported.get("numpy", "no kernel is registered")
        raise UnsupportedError(f"{primitive.name}: backend 'numpy' has no kernel: {reason}.")
    try:
        outs = state.quiet(kernel, *buffers, **params)
    except RuntimeError as e:
        if "cannot enter context" not in str(e):
            raise
        outs = quietly(kernel, *buffers, **params)
    except (TypeError, ValueError, IndexError):
        _explain(primitive, args, params)
        raise
    if primitive.weak_of is not None:
        weak = primitive.weak_of([a._weak for a in args], params)
    return tuple(
        [ConcreteArray(out if out.__class__ is _ndarray else np.asarray(out), weak) for out in outs]
    )


def _explain(primitive: Primitive, args: tuple, params: dict[str, Any]) -> None:
    """Raise the error that abstract evaluation has for these operands, where it has one.

    Known operands are not checked before their kernel runs; a kernel that refuses them speaks of
    its own affairs, and the primitive says it in the user's terms.
    """
    try:
        primitive.out_avals([a.aval for a in args], params)
    except MgefnError as e:
        raise e from None


base.process = evaluate


def _known(primitive: Primitive, a: Any) -> Any:
    """A leaf as an array with values, in the host's memory or on a device."""
    if isinstance(a, Tracer):
        raise leaked(a)
    return as_array(a, primitive.name)
