"""The exponential moving average of parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, zeros_like
from mgefn.ops.elementwise import convert, minimum, where


@tree.dataclass
class EMA:
    """An average of parameters in which older values fade: average = decay * average + (1 - decay)
    * params. A pytree; made by `create`.

    Args:
        average: the running sum, which begins at zero, in float32 or wider.
        weight: the sum of the weights of what is in it; `value` divides by it, so that it is
            unbiased from the first update on.
        like: the last parameters.
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
    def create(cls, params: Any, decay: float = 0.999, warmup: bool = False) -> Any:
        """The average of nothing yet, whose value is `params`."""
        if not 0 <= decay < 1:
            raise ArgumentError(f"EMA: decay must be in [0, 1), got {decay}.")

        def wide(p: Any) -> Any:
            a = asarray(p)
            if not dtypes.is_inexact(a.dtype):
                return a  # counters and keys are taken as they are
            return zeros_like(a, dtype=np.promote_types(a.dtype, np.float32))

        made: Any = cls
        return made(
            average=tree.map(wide, params),
            weight=asarray(np.float32(0)),
            like=params,
            count=asarray(np.int32(0)),
            decay=float(decay),
            warmup=bool(warmup),
        )

    def update(self, params: Any) -> Any:
        """The average with these parameters too; integers and keys are taken as they are."""
        decay: Any = asarray(np.float32(self.decay))
        if self.warmup:
            n = convert(asarray(self.count), np.dtype(np.float32))
            decay = minimum(decay, (1 + n) / (10 + n))

        def mixed(a: Any, p: Any) -> Any:
            p = asarray(p)
            if not dtypes.is_inexact(p.dtype):
                return p
            share = convert(1 - decay, dtypes.real_part_dtype(a.dtype))
            return a + share * (convert(p, a.dtype) - a)

        old: Any = self
        return dataclasses.replace(
            old,
            average=tree.map(mixed, self.average, params),
            weight=self.weight + (1 - decay) * (1 - self.weight),
            like=params,
            count=self.count + 1,
        )

    def value(self) -> Any:
        """The averaged parameters, in the dtypes of the parameters."""

        def mean(a: Any, p: Any) -> Any:
            p = asarray(p)
            if not dtypes.is_inexact(p.dtype):
                return a
            seen = self.count > 0
            return convert(where(seen, a / where(seen, self.weight, 1.0), p), p.dtype)

        return tree.map(mean, self.average, self.like)
