"""Several transformations as one: in a row, by parts of the params, under masks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from mgefn import tree
from mgefn.errors import ArgumentError, TreeError
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    MaskOrFn,
    Params,
    Updates,
    identity,
    named,
    set_to_zero,
    with_extra_args_support,
)
from mgefn.optim.making import maker, must_be_optimizer


@maker
def chain(*args: GradientTransformation) -> GradientTransformationExtraArgs:
    """Transformations one after the other; the state is the tuple of their states.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1))
        >>> updates, state = opt.update({"w": mnp.array([3.0, 4.0])}, opt.init({"w": 0.0}))
        >>> updates
        {'w': Array([-0.06      , -0.08000001], dtype=float32)}
    """
    parts = tuple(map(with_extra_args_support, args))

    def init(params: Params) -> tuple[Any, ...]:
        return tuple([part.init(params) for part in parts])

    def update(
        updates: Updates, state: tuple[Any, ...], params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, tuple[Any, ...]]:
        if len(state) != len(parts):
            raise ArgumentError(
                f"chain: the state must have {len(parts)} parts, got {len(state)}. Make it with "
                "the same chain's init."
            )
        new_states = []
        for part, own in zip(parts, state, strict=True):
            updates, new = part.update(updates, own, params, **extra_args)
            new_states.append(new)
        return updates, tuple(new_states)

    return named("chain", GradientTransformationExtraArgs(init, update))


@maker
def named_chain(*args: tuple[str, GradientTransformation]) -> GradientTransformationExtraArgs:
    """Named transformations one after the other; the state is the OrderedDict of their states.

    Args:
        args: pairs (name, transformation), all names different.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.named_chain(("limit", optim.clip(1.0)), ("descend", optim.sgd(0.1)))
        >>> list(opt.init({"w": 0.0}))
        ['limit', 'descend']
    """
    names = [name for name, _ in args]
    if len(set(names)) != len(names):
        raise ArgumentError(f"named_chain: names must differ, got {names}. Rename one.")
    for name, tx in args:
        must_be_optimizer("named_chain", f"the transformation {name!r}", tx)
    parts = [(name, with_extra_args_support(tx)) for name, tx in args]

    def init(params: Params) -> OrderedDict[str, Any]:
        return OrderedDict([(name, tx.init(params)) for name, tx in parts])

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, OrderedDict[str, Any]]:
        new: OrderedDict[str, Any] = OrderedDict()
        for name, tx in parts:
            updates, new[name] = tx.update(updates, state[name], params, **extra_args)
        return updates, new

    return GradientTransformationExtraArgs(init, update)


# -- masks -----------------------------------------------------------------------------------------


class MaskedState(NamedTuple):
    """The state of the transformation under the mask."""

    inner_state: Any


class MaskedNode(NamedTuple):
    """Stands without leaves in the place of what a mask hides."""


@maker
def masked(
    inner: GradientTransformation, mask: MaskOrFn, *, mask_compatible_extra_args: bool = False
) -> GradientTransformationExtraArgs:
    """A transformation of some of the params; the updates of the others pass through.

    Args:
        inner: what to do where the mask is true.
        mask: pytree of bools, a prefix of the params; or a function from params to one.
        mask_compatible_extra_args: whether to hide parts of those further keyword arguments of
            update that have the structure of the updates.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.masked(optim.scale(2.0), {"w": True, "b": False})
        >>> grads = {"w": mnp.ones(1), "b": mnp.ones(1)}
        >>> opt.update(grads, opt.init(grads))[0]
        {'w': Array([2.], dtype=float32), 'b': Array([1.], dtype=float32)}
    """
    inner = with_extra_args_support(inner)

    def mask_for(values: Any) -> Any:
        return mask(values) if callable(mask) else mask

    def hide(chosen: Any, values: Any) -> Any:
        try:
            return tree.map(lambda on, x: x if on else MaskedNode(), chosen, values)
        except TreeError:
            tree.prefix_leaves(chosen, values, "masked: mask")  # raises, and says where they part
            raise

    def init(params: Params) -> MaskedState:
        return MaskedState(inner.init(hide(mask_for(params), params)))

    def update(
        updates: Updates, state: MaskedState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, MaskedState]:
        chosen = mask_for(updates)
        if mask_compatible_extra_args:
            shape = tree.structure(updates)
            extra_args = {
                name: hide(chosen, value) if tree.structure(value) == shape else value
                for name, value in extra_args.items()
            }
        seen = None if params is None else hide(chosen, params)
        new, inner_state = inner.update(
            hide(chosen, updates), state.inner_state, seen, **extra_args
        )
        merged = tree.map(lambda on, new, old: new if on else old, chosen, new, updates)
        return merged, MaskedState(inner_state)

    return GradientTransformationExtraArgs(init, update)


# -- parts -----------------------------------------------------------------------------------------


class PartitionState(NamedTuple):
    """{label: state of its transformation}."""

    inner_states: Mapping[Hashable, Any]


MultiTransformState = PartitionState


@maker
def partition(
    transforms: Mapping[Hashable, GradientTransformation],
    param_labels: Any,
    *,
    mask_compatible_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """A transformation for each label, of the params that bear it.

    Args:
        transforms: {label: transformation}.
        param_labels: pytree of labels, a prefix of the params; or a function from params to one.
        mask_compatible_extra_args: as for `masked`.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.partition(
        ...     {"fast": optim.sgd(1.0), "slow": optim.sgd(0.1)}, {"w": "fast", "b": "slow"}
        ... )
        >>> grads = {"w": mnp.ones(1), "b": mnp.ones(1)}
        >>> opt.update(grads, opt.init(grads))[0]
        {'w': Array([-1.], dtype=float32), 'b': Array([-0.1], dtype=float32)}
    """
    for label, tx in transforms.items():
        must_be_optimizer("partition", f"transforms[{label!r}]", tx)
    parts = {label: with_extra_args_support(tx) for label, tx in transforms.items()}

    def labels_for(params: Any) -> Any:
        return param_labels(params) if callable(param_labels) else param_labels

    def part(labels: Any, label: Hashable) -> GradientTransformationExtraArgs:
        return masked(
            parts[label],
            tree.map(lambda own: own == label, labels),
            mask_compatible_extra_args=mask_compatible_extra_args,
        )

    def init(params: Params) -> PartitionState:
        labels = labels_for(params)
        unknown = set(tree.leaves(labels)) - set(parts)
        if unknown:
            raise ArgumentError(
                f"partition: each label must have a transformation, got {sorted(map(str, unknown))}"
                f" beside {sorted(map(str, parts))}. Add them to transforms."
            )
        return PartitionState({label: part(labels, label).init(params) for label in parts})

    def update(
        updates: Updates, state: PartitionState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, PartitionState]:
        labels = labels_for(updates)
        new: dict[Hashable, Any] = {}
        for label in parts:
            updates, new[label] = part(labels, label).update(
                updates, state.inner_states[label], params, **extra_args
            )
        return updates, PartitionState(new)

    return GradientTransformationExtraArgs(init, update)


@maker
def multi_transform(
    transforms: Mapping[Hashable, GradientTransformation],
    param_labels: Any,
    *,
    mask_compatible_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """`partition` under its older name."""
    return partition(
        transforms, param_labels, mask_compatible_extra_args=mask_compatible_extra_args
    )


@maker
def freeze(mask: MaskOrFn) -> GradientTransformationExtraArgs:
    """Zero updates where the mask is true; the others pass through."""
    return masked(set_to_zero(), mask)


@maker
def selective_transform(
    optimizer: GradientTransformation, *, freeze_mask: MaskOrFn
) -> GradientTransformationExtraArgs:
    """An optimizer of the params where freeze_mask is false; zero updates of the others.

    Args:
        optimizer: keeps state only for those it moves.
        freeze_mask: pytree of bools, a prefix of the params; or a function from params to one.
    """

    def labels(params: Params) -> Any:
        mask = freeze_mask(params) if callable(freeze_mask) else freeze_mask
        return tree.map(lambda frozen: "freeze" if frozen else "train", mask)

    return partition({"train": optimizer, "freeze": set_to_zero()}, labels)


def maybe_masked(inner: GradientTransformation, mask: MaskOrFn | None) -> GradientTransformation:
    """The transformation under a mask, or itself where there is none."""
    return inner if mask is None else masked(inner, mask)


def when(on: bool, make: Callable[[], GradientTransformation]) -> GradientTransformation:
    """A part of a chain that may be left out; the state keeps its place."""
    return make() if on else identity()
