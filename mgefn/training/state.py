"""The state of a run as one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from mgefn import tree
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.optim import apply_updates
from mgefn.random import fold_in
from mgefn.random import key as make_key
from mgefn.recipes import shown
from mgefn.tree.comparing import check_like


def _first() -> Any:
    return asarray(np.int32(0))


class _Shape:
    """In the place of a leaf, for its text: dtype and shape of an array."""

    def __init__(self, leaf: Any) -> None:
        aval = getattr(leaf, "aval", None)
        if aval is None and isinstance(leaf, np.ndarray):
            aval = cast(Any, asarray(leaf)).aval
        self.text = repr(leaf) if aval is None else str(aval)

    def __repr__(self) -> str:
        return self.text


@tree.dataclass
class TrainState:
    """All that a step of training needs and changes; immutable, a pytree, and so what a checkpoint
    holds.

    Args:
        step: how many steps were taken, an integer scalar.
        params: a pytree of arrays.
        state: what the model changes besides, such as running means; a pytree.
        opt_state: the optimizer's.
        key: the random key of the run; `step_key()` gives that of a step.
        apply_fn: the model as a function, for those who like it here. Not a leaf.
        tx: the optimizer. Not a leaf.

    Example:
        >>> from mgefn import optim, training
        >>> state = training.TrainState.create({"w": mnp.ones(2)}, optim.sgd(0.5))
        >>> state = state.apply_gradients({"w": mnp.array([1.0, 2.0])})
        >>> int(state.step), state.params["w"]
        (1, Array([0.5, 0. ], dtype=float32))
    """

    params: Any
    opt_state: Any = None
    state: Any = None
    step: Any = dataclasses.field(default_factory=_first)
    key: Any = dataclasses.field(default_factory=lambda: make_key(0))
    apply_fn: Callable[..., Any] | None = tree.static(default=None)
    tx: Any = tree.static(default=None)

    @classmethod
    @api_boundary
    def create(
        cls,
        params: Any,
        tx: Any,
        *,
        state: Any = None,
        key: Any = None,
        apply_fn: Callable[..., Any] | None = None,
    ) -> Any:
        """The state before the first step.

        Args:
            params: a pytree of arrays.
            tx: an optimizer of mgefn.optim, or anything with init and update like them.
            state: what the model changes besides.
            key: a random key; key(0) without it.
            apply_fn: the model as a function.
        """
        if not (hasattr(tx, "init") and hasattr(tx, "update")):
            raise ArgumentError(
                f"TrainState.create: tx must be an optimizer, got {type(tx).__name__}. Pass "
                "optim.adam(1e-3)."
            )
        made: Any = cls
        return made(
            params=params,
            opt_state=tx.init(params),
            state=state,
            key=make_key(0) if key is None else key,
            apply_fn=apply_fn,
            tx=tx,
        )

    def apply_gradients(self, grads: Any, **changes: Any) -> Any:
        """The state after one step downhill.

        Args:
            grads: a pytree like params.
            changes: other fields, such as state=.

        Raises:
            TreeError, ShapeError: grads are not like params.
        """
        if self.tx is None:
            raise ArgumentError("TrainState.apply_gradients: needs tx. Make it with create.")
        check_like(
            "TrainState.apply_gradients", "grads", grads, "params", self.params,
            "Pass the gradients by the params of this state.",
        )  # fmt: skip
        updates, opt_state = self.tx.update(grads, self.opt_state, self.params)
        old: Any = self
        return old.replace(
            step=self.step + 1,
            params=apply_updates(self.params, updates),
            opt_state=opt_state,
            **changes,
        )

    def __repr__(self) -> str:
        """Arrays by their dtypes and shapes, the number of steps by its value."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # what tree.dataclass makes is one
        values = {f.name: getattr(self, f.name) for f in fields}
        texts = {
            name: shown(value) if name in ("apply_fn", "tx") else repr(tree.map(_Shape, value))
            for name, value in values.items()
            if value is not None
        }
        if np.shape(self.step) == () and not isinstance(self.step, Tracer):
            texts["step"] = str(self.step)
        return f"{type(self).__name__}({', '.join(f'{n}={text}' for n, text in texts.items())})"

    def step_key(self) -> Any:
        """The random key of this step: a function of the run's key and the step's number."""
        return fold_in(self.key, self.step)
