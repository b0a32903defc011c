"""The exponential moving average of parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy.creation import array, asarray, zeros
from mgefn.ops.elementwise import convert, minimum, where
from mgefn.tree.comparing import check_like


@tree.dataclass
class EMA:
    """An average of parameters in which older values fade: average = decay * average + (1 - decay)
    * params. A pytree; made by `create`.

    Args:
        average: params before the first update, and then the running sum, which begins at zero; in
            float32 or wider. Its arrays are its own: a step may donate the params.
        weight: the sum of the weights of what is in it; `value` divides by it, so that it is
            unbiased from the first update on.
        like: empty arrays of the dtypes of the parameters.
        decay: between 0 and 1.
        warmup: the decay of update n is at most (1 + n) / (10 + n), which lets early values go
            sooner.
        count: how many updates there were.

    Example:
        >>> from mgefn import training
        >>> ema = training.EMA.create({"w": mnp.zeros(1)}, decay=0.9)
        >>> ema.update({"w": mnp.ones(1)}).value()
        {'w': Array([1.], dtype=float32)}
    """

    average: Any
    weight: Any
    like: Any
    count: Any
    decay: float = tree.static(default=0.999)
    warmup: bool = tree.static(default=False)

    @classmethod
    @api_boundary
    def create(cls, params: Any, decay: float = 0.999, warmup: bool = False) -> Any:
        """The average of nothing yet, whose value is `params`."""
        if not 0 <= decay < 1:
            raise ArgumentError(f"EMA: decay must be in [0, 1), got {decay}.")

        def wide(p: Any) -> Any:
            a = array(p, copy=True)
            if not dtypes.is_inexact(a.dtype):
                return a  # counters and keys are taken as they are
            return convert(a, np.promote_types(a.dtype, np.float32))

        def empty(p: Any) -> Any:
            dtype = asarray(p).dtype
            return zeros((0,), dtype if dtypes.is_inexact(dtype) else np.int8)

        made: Any = cls
        return made(
            average=tree.map(wide, params),
            weight=asarray(np.float32(0)),
            like=tree.map(empty, params),
            count=asarray(np.int32(0)),
            decay=float(decay),
            warmup=bool(warmup),
        )

    def update(self, params: Any) -> Any:
        """The average with these parameters too; integers and keys are taken as they are.

        Raises:
            TreeError, ShapeError: params are not like those that the average was made of.
        """
        check_like(
            "EMA.update", "params", params, "those of create", self.average,
            "Pass the params whose average it is.",
        )  # fmt: skip
        decay: Any = asarray(np.float32(self.decay))
        if self.warmup:
            n = convert(asarray(self.count), np.dtype(np.float32))
            decay = minimum(decay, (1 + n) / (10 + n))

        def mixed(a: Any, p: Any) -> Any:
            p = asarray(p)
            if not dtypes.is_inexact(p.dtype):
                return array(p, copy=True)
            share = convert(1 - decay, dtypes.real_part_dtype(a.dtype))
            a = where(seen, a, 0)
            return a + share * (convert(p, a.dtype) - a)

        seen = self.count > 0
        old: Any = self
        return dataclasses.replace(
            old,
            average=tree.map(mixed, self.average, params),
            weight=self.weight + (1 - decay) * (1 - self.weight),
            count=self.count + 1,
        )

    def value(self) -> Any:
        """The averaged parameters, in the dtypes of the parameters."""

        seen = self.count > 0

        def mean(a: Any, like: Any) -> Any:
            if not dtypes.is_inexact(like.dtype):
                return array(a, copy=True)
            return convert(a / where(seen, self.weight, 1), like.dtype)

        return tree.map(mean, self.average, self.like)
