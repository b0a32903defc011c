"""Rows for primitives that hold programs or Python functions.

What a program holds runs on the device, too. A loop that is one kernel is launched as such. Of
others Python starts the body, once a step: all steps of a scan in a row, without waiting, and those
of a `while` each after the host has read the condition, as it reads which branch of a `cond` runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import Program
from mgefn.compiler.device_program import DeviceProgram, device_program, write
from mgefn.control import loops
from mgefn.control import scan as scan_
from mgefn.control.implicit import solve_program
from mgefn.control.loops import step_program
from mgefn.core import cuda
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray, storage_dtype, to_device
from mgefn.core.devices import Device
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from mgefn.core.primitive import Primitive


def _call(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    return device_program(params["jaxpr"], device)(args)


call = Program(_call)


def _solve(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    return device_program(solve_program(params), device)(args)


linear_solve = Program(_solve)


def own_way(primitive: Primitive) -> Program:
    """The primitive's own rule, whose operations go where their operands are."""

    def run(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
        return primitive.evaluate(args, params)  # type: ignore[misc]  # it has one

    return Program(run, keeps=True)


def _cond(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    branches = params["branches"]
    return device_program(branches[int(xp.asnumpy(args[0]._data))], device)(args[1:])


cond = Program(_cond, "the host reads which branch runs")


def _wrapped(device: Device, outs: Any, avals: Any) -> tuple:
    return tuple(
        [DeviceArray(o, device, a.dtype, a.weak_type) for o, a in zip(outs, avals, strict=True)]
    )


def _as_kernels(
    device: Device, primitive: Primitive, params: dict[str, Any], args: Sequence[Any]
) -> DeviceProgram | None:
    """A program of this loop alone, where it is kernels of ours throughout."""
    closed = params.get("jaxpr") or params["body_jaxpr"]
    others = tuple([v for v in params.values() if v is not closed])

    def make() -> ClosedJaxpr:
        ins = [Var(ShapedArray(a.shape, a.dtype, a.weak_type)) for a in args]
        outs = [Var(a) for a in primitive.out_avals([v.aval for v in ins], params)]
        eqn = Eqn(primitive, [*ins], params, outs)
        return ClosedJaxpr(Jaxpr(ins, [eqn], [*outs], [], closed.jaxpr.name), [])

    alone = closed.derive(("alone", primitive.name, *others), make)
    program = device_program(alone, device, quiet=True)
    return program if program.is_kernels else None


def _while(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    buffers = [a._data for a in args]
    kernels = _as_kernels(device, loops.while_p, params, args)
    if kernels is not None:
        return _wrapped(device, kernels.run(buffers), params["body_jaxpr"].out_avals)
    of_test, of_body, carry = buffers[:n], buffers[n : n + m], buffers[n + m :]
    test = device_program(params["cond_jaxpr"], device)
    step = device_program(step_program(params), device)
    (more,) = test.run([*of_test, *carry])
    while cuda.flag(more):
        more, *carry = step.run([*of_test, *of_body, *carry])
    return _wrapped(device, carry, params["body_jaxpr"].out_avals)


while_ = Program(
    _while, "the host reads the condition after each step, unless the loop is a kernel"
)


def _scan(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    closed, length = params["jaxpr"], params["length"]
    n_consts, k = params["num_consts"], params["num_carry"]
    buffers = [a._data for a in args]
    kernels = _as_kernels(device, scan_.scan_p, params, args)
    if kernels is not None:
        return _wrapped(device, kernels.run(buffers), closed.out_avals)
    consts, carry, xs = (
        buffers[:n_consts],
        buffers[n_consts : n_consts + k],
        buffers[n_consts + k :],
    )
    out_avals = closed.out_avals
    ys = [
        xp.empty((length, *a.shape), storage_dtype("scan", np.dtype(a.dtype), device))
        for a in out_avals[k:]
    ]
    if length:
        program = device_program(closed, device)
        steps = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for i in steps:
            outs = program.run([*consts, *carry, *[x[i, ...] for x in xs]])
            carry = outs[:k]
            for y, out in zip(ys, outs[k:], strict=True):
                write(y[i, ...], out)
    return _wrapped(device, [*carry, *ys], out_avals)


scan = Program(_scan)


def by_host(primitive: Primitive, note: str) -> Program:
    """The primitive's own rule on the host, its operands copied there and its results back."""

    def run(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
        known = tuple([a.to_host(primitive.name, True) for a in args])
        outs = primitive.evaluate(known, params)  # type: ignore[misc]  # it has one
        return tuple([to_device(primitive.name, as_array(o), device, True) for o in outs])

    return Program(run, note)
