"""Parameters as trees: split into parts and joined, named, counted, stored flat; a training state.

`partition` and `combine`, and the predicates beside them, have the names of Equinox; None marks
what is in the other part.
"""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn import numpy as mnp
from mgefn.api.derivatives import value_and_grad
from mgefn.core.array import described
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError, ShapeError, TreeError, api_boundary
from mgefn.nn.module import Module
from mgefn.recipes import maker
from mgefn.tree.comparing import check_like

__all__ = [
    "TrainState",
    "combine",
    "count_params",
    "filter",
    "filter_grad",
    "filter_value_and_grad",
    "is_array",
    "is_array_like",
    "is_inexact_array",
    "load_state_dict",
    "matching",
    "named_parameters",
    "partition",
    "state_dict",
]


@api_boundary
def is_array(element: Any) -> bool:
    """Whether it is an array of this package, a tracer included."""
    return isinstance(element, Array)


@api_boundary
def is_array_like(element: Any) -> bool:
    """Whether it is an array, one of NumPy, or a number."""
    return isinstance(element, (Array, np.ndarray, np.generic, bool, int, float, complex))


@api_boundary
def is_inexact_array(element: Any) -> bool:
    """Whether it is an array of this package with a floating or complex dtype."""
    return isinstance(element, Array) and dtypes.is_inexact(element.dtype)


def _is_none(x: Any) -> bool:
    return x is None


@api_boundary
def partition(
    pytree: Any,
    filter_spec: Any,
    replace: Any = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> tuple[Any, Any]:
    """Two trees of the same structure: what is chosen, and the rest.

    Args:
        pytree: any.
        filter_spec: booleans, a prefix of the tree; or functions leaf -> boolean in their place.
        replace: stands where the other tree has the leaf.
        is_leaf: which nodes count as leaves.

    Returns:
        (chosen, rest). `combine` joins them.

    Example:
        >>> learned, frozen = mgefn.nn.partition({"a": 1.0, "b": 2.0}, {"a": True, "b": False})
        >>> learned, frozen
        ({'a': 1.0, 'b': None}, {'a': None, 'b': 2.0})
        >>> mgefn.nn.combine(learned, frozen)
        {'a': 1.0, 'b': 2.0}
    """
    mask = _mask("partition", pytree, filter_spec, is_leaf)
    return _kept(pytree, mask, replace, is_leaf, True), _kept(pytree, mask, replace, is_leaf, False)


def _mask(name: str, pytree: Any, spec: Any, is_leaf: Any) -> list[bool]:
    def below(s: Any, part: Any) -> Any:
        if not callable(s) and not isinstance(s, (bool, np.bool_)):
            raise ArgumentError(
                f"{name}: filter_spec must be booleans or functions, got {s!r}. "
                "It may be a prefix of the tree."
            )
        return tree.map(s if callable(s) else lambda _: bool(s), part, is_leaf=is_leaf)

    chosen = tree.map(below, spec, pytree)
    return [bool(c) for c in tree.leaves(chosen)]


def _kept(pytree: Any, mask: list[bool], replace: Any, is_leaf: Any, which: bool) -> Any:
    leaves, treedef = tree.flatten(pytree, is_leaf=is_leaf)
    kept = [x if m is which else replace for x, m in zip(leaves, mask, strict=True)]
    return tree.unflatten(treedef, kept)


@api_boundary
def filter(
    pytree: Any,
    filter_spec: Any,
    inverse: bool = False,
    replace: Any = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The first part of `partition`, or the second if inverse."""
    mask = _mask("filter", pytree, filter_spec, is_leaf)
    return _kept(pytree, mask, replace, is_leaf, not inverse)


@maker
def filter_value_and_grad(fun: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
    """Value and gradient in the floating and complex arrays of the first argument.

    What else the first argument holds, such as integers and functions, stays as it is.

    Args:
        fun: its first argument is any tree; it returns a real number, or with has_aux=True a pair
            of that and data.

    Returns:
        A function with the arguments of fun that returns (value, gradient); the gradient has None
        where the argument holds something else.

    Example:
        >>> tree = {"w": mnp.array([1.0, 2.0]), "steps": 3}
        >>> value, slope = mgefn.nn.filter_value_and_grad(lambda t: (t["w"] ** 2).sum())(tree)
        >>> slope
        {'w': Array([2., 4.], dtype=float32), 'steps': None}
    """

    @functools.wraps(fun)
    def wrapped(x: Any, *args: Any, **kwargs: Any) -> Any:
        moving, rest = partition(x, is_inexact_array)

        def of_moving(m: Any, *given: Any, **named: Any) -> Any:
            return fun(combine(m, rest), *given, **named)

        return value_and_grad(of_moving, has_aux=has_aux)(moving, *args, **kwargs)

    return api_boundary(wrapped)


@maker
def filter_grad(fun: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of `filter_value_and_grad`, or (gradient, data) with has_aux=True."""
    both = filter_value_and_grad(fun, has_aux=has_aux)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, slope = both(*args, **kwargs)
        return (slope, value[1]) if has_aux else slope

    return api_boundary(wrapped)


@api_boundary
def combine(*pytrees: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """One tree of several of the same structure: at each place the first that is not None."""
    if not pytrees:
        raise ArgumentError("combine: needs a tree, got none.")

    def first(*xs: Any) -> Any:
        return next((x for x in xs if x is not None), None)

    def stop(x: Any) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    return tree.map(first, *pytrees, is_leaf=stop)


# -- names ----------------------------------------------------------------------------------------


def _name(path: Any) -> str:
    parts = []
    for entry in path:
        for attribute in ("key", "idx", "name"):
            if hasattr(entry, attribute):
                parts.append(str(getattr(entry, attribute)))
                break
    return ".".join(parts)


@api_boundary
def named_parameters(params: Any) -> list[tuple[str, Any]]:
    """(dotted name, array) for all leaves of a tree.

    Example:
        >>> [name for name, _ in mgefn.nn.named_parameters({"head": {"bias": 0.0}, "scale": 1.0})]
        ['head.bias', 'scale']
    """
    _trees("named_parameters", params)
    return [(_name(path), x) for path, x in tree.leaves_with_path(params)]


def _trees(name: str, params: Any) -> None:
    if not isinstance(params, (Mapping, tuple, list)):
        raise ArgumentError(f"{name}: needs nested dicts of arrays, got {params!r}.")


@api_boundary
def matching(params: Any, pattern: str) -> Any:
    """Booleans for a tree: where the dotted name matches a pattern such as "encoder.*.bias".

    They serve as filter_spec of `partition`. `*` stands for any characters, dots too.

    Args:
        params: nested dicts, lists and tuples of arrays.
        pattern: of whole names: "head" matches no "head.bias", but "head.*" does.

    Returns:
        A tree of booleans of the structure of params.

    Raises:
        ArgumentError: no name matches, though there are some; it shows names that there are.

    Example:
        >>> params = {"head": {"bias": 0.0, "weight": 1.0}}
        >>> mgefn.nn.matching(params, "*bias")
        {'head': {'bias': True, 'weight': False}}
    """
    _trees("matching", params)
    if not isinstance(pattern, str):
        raise ArgumentError(
            f"matching: pattern must be a string, got {described(pattern)}. Pass 'head.*'."
        )
    found = tree.map_with_path(lambda path, _: fnmatch.fnmatchcase(_name(path), pattern), params)
    names = [name for name, _ in named_parameters(params)]
    if names and not any(tree.leaves(found)):
        raise ArgumentError(
            f"matching: pattern must match a name, got {pattern!r} for {_shown(names)}. "
            f"{_better(pattern, names)}"
        )
    return found


def _shown(names: list[str]) -> str:
    rest = len(names) - 6
    return ", ".join(names[:6]) + (f" and {rest} more" if rest > 0 else "")


def _better(pattern: str, names: list[str]) -> str:
    """A pattern near to one that matches nothing and that matches something."""
    dotted = pattern.replace("/", ".").removeprefix("params.")
    for tried in (dotted, f"{dotted}.*", f"*{dotted}", f"*.{dotted}.*", f"*{dotted}*"):
        if any(fnmatch.fnmatchcase(name, tried) for name in names):
            return f"Did you mean {tried!r}?"
    return "`*` stands for any characters; nn.named_parameters lists all names."


@api_boundary
def state_dict(params: Any, state: Any = None) -> dict[str, Any]:
    """Parameters and state as one flat dict {dotted name: array}, as PyTorch stores them.

    Raises:
        TreeError: two arrays have one name.
    """
    _trees("state_dict", params)
    flat: dict[str, Any] = {}
    for t in (params,) if state is None else (params, state):
        for path, x in tree.leaves_with_path(t):
            name = _name(path)
            if name in flat:
                raise TreeError(f"state_dict: two arrays have the name {name!r}. Rename one.")
            flat[name] = x
    return flat


@api_boundary
def load_state_dict(
    params: Any, state: Any, flat: Mapping[str, Any], strict: bool = True
) -> tuple[Any, Any]:
    """Parameters and state with the arrays of a flat dict, in the dtypes they have.

    Args:
        params, state: as `Module.init` gives them; they tell structure, shapes and dtypes.
        flat: {dotted name: array}, also of NumPy.
        strict: every name must be in both. Otherwise names missing in flat keep what they have.

    Returns:
        (params, state). PyTorch's counters of batches (num_batches_tracked) are passed over.

    Raises:
        TreeError: names differ. ShapeError: a shape differs.
    """
    _trees("load_state_dict", params)
    if not isinstance(flat, Mapping):
        raise ArgumentError(f"load_state_dict: needs a dict of arrays, got {flat!r}.")
    own = state_dict(params, state)
    given = {n: x for n, x in flat.items() if not n.endswith("num_batches_tracked")}
    missing, unknown = sorted(set(own) - set(given)), sorted(set(given) - set(own))
    if strict and (missing or unknown):
        raise TreeError(
            f"load_state_dict: names must be those of the module, missing {missing}, unknown "
            f"{unknown}. Rename them, or pass strict=False."
        )

    def found(path: Any, old: Any) -> Any:
        name = _name(path)
        if name not in given:
            return old
        new = given[name]
        if np.shape(new) != np.shape(old):
            raise ShapeError(
                f"load_state_dict: {name} must have shape {np.shape(old)}, got {np.shape(new)}."
            )
        return mnp.asarray(new, mnp.asarray(old).dtype)

    return tree.map_with_path(found, params), tree.map_with_path(found, state)


@api_boundary
def count_params(params: Any) -> int:
    """The number of elements of all arrays of a tree.

    Example:
        >>> mgefn.nn.count_params({"weight": mnp.ones((2, 3)), "bias": mnp.ones(3)})
        9
    """
    if isinstance(params, Module):
        raise ArgumentError(
            "count_params: needs parameters, got a module. Call init, or eval_shape of it, first."
        )
    _trees("count_params", params)
    return sum(math.prod(np.shape(x)) for x in tree.leaves(params))


# -- what a training loop carries -----------------------------------------------------------------


@tree.dataclass
class TrainState:
    """All that a step of training changes, as one tree.

    Attributes:
        step: how many steps were made.
        params, state: of the module.
        opt_state: of the optimizer.
        apply_fn, tx: the module's apply and the optimizer; static.
    """

    step: Any
    params: Any
    state: Any
    opt_state: Any
    apply_fn: Callable[..., Any] = tree.static()
    tx: Any = tree.static()

    @staticmethod
    def create(
        *, apply_fn: Callable[..., Any], params: Any, tx: Any, state: Any = None
    ) -> TrainState:
        """The state before the first step."""
        start = {} if state is None else state
        return TrainState(mnp.asarray(0), params, start, tx.init(params), apply_fn, tx)

    def apply_gradients(self, *, grads: Any, state: Any = None) -> TrainState:
        """The state after one step of the optimizer; state: of the module, None: as it was."""
        like = "TrainState.apply_gradients", "grads", grads, "params", self.params
        check_like(*like, "Pass the gradients by the params of this state.")
        updates, opt_state = self.tx.update(grads, self.opt_state, self.params)
        params = tree.map(lambda p, u: mnp.asarray(p + u, p.dtype), self.params, updates)
        kept = self.state if state is None else state
        return TrainState(self.step + 1, params, kept, opt_state, self.apply_fn, self.tx)
