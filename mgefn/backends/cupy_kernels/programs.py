"""Rows for primitives that hold programs or Python functions.

What a program holds runs on the device, too. Python decides how often a loop runs and which branch
of a `cond` does: it reads one number of the device and waits for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import Program
from mgefn.compiler.device_program import device_program
from mgefn.control.implicit import solve_program
from mgefn.control.loops import step_program
from mgefn.core import cuda
from mgefn.core.array import as_array
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray, storage_dtype, to_device
from mgefn.core.devices import Device
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


def _while(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    buffers = [a._data for a in args]
    of_test, of_body, carry = buffers[:n], buffers[n : n + m], buffers[n + m :]
    test = device_program(params["cond_jaxpr"], device)
    step = device_program(step_program(params), device)
    (more,) = test.run([*of_test, *carry])
    while cuda.flag(more):
        more, *carry = step.run([*of_test, *of_body, *carry])
    return _wrapped(device, carry, params["body_jaxpr"].out_avals)


while_ = Program(_while, "the host reads the condition after each step")


def _scan(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
    closed, length = params["jaxpr"], params["length"]
    n_consts, k = params["num_consts"], params["num_carry"]
    buffers = [a._data for a in args]
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
                y[i, ...] = out
    return _wrapped(device, [*carry, *ys], out_avals)


scan = Program(_scan)


def by_host(primitive: Primitive, note: str) -> Program:
    """The primitive's own rule on the host, its operands copied there and its results back."""

    def run(device: Device, args: tuple, params: dict[str, Any]) -> tuple:
        known = tuple([a.to_host(primitive.name, True) for a in args])
        outs = primitive.evaluate(known, params)  # type: ignore[misc]  # it has one
        return tuple([to_device(primitive.name, as_array(o), device, True) for o in outs])

    return Program(run, note)
