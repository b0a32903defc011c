"""Mixed precision: policies, loss scales as values, and autocast as a transform of functions.

A policy says in which dtypes parameters are kept, a function computes and what it returns. A loss
scale keeps small gradients of float16 from becoming zero; it is a pytree that a step returns, like
any other state. The names are jmp's.

Source: P. Micikevicius et al., Mixed precision training, ICLR 2018, arXiv:1710.03740.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.api.derivatives import value_and_grad as plain_value_and_grad
from mgefn.core.array import as_array
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Literal
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, DTypeError, api_boundary
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace, trace_closed
from mgefn.numpy.creation import asarray
from mgefn.ops.contractions.dot_general import dot_general_p
from mgefn.ops.convolution import conv_general_dilated_p
from mgefn.ops.elementwise import convert, isfinite, logical_and, maximum, where
from mgefn.ops.reductions import all as all_of
from mgefn.recipes import maker

PRODUCTS = (dot_general_p, conv_general_dilated_p)


@api_boundary
def half_dtype() -> np.dtype:
    """The 16-bit dtype that this machine's backend is best at: float16.

    Example:
        >>> mgefn.amp.half_dtype()
        dtype('float16')
    """
    return np.dtype(np.float16)


def _cast(operation: str, x: Any, dtype: Any) -> Any:
    """Floating leaves in another dtype; others as they are."""

    def leaf(v: Any) -> Any:
        a = v if hasattr(v, "dtype") else None
        if a is None or not dtypes.is_float(a.dtype):
            return v
        return convert(asarray(a), dtype)

    return tree.map(leaf, x)


def _float_dtype(operation: str, dtype: Any) -> np.dtype:
    found = {"half": half_dtype(), "full": np.dtype(np.float32)}.get(dtype)
    found = np.dtype(dtypes.canonical(dtype)) if found is None else found
    if not dtypes.is_float(found):
        raise DTypeError(f"{operation}: needs a floating dtype, got {dtype!r}. Name one.")
    return found


@api_boundary
def cast_to_half(tree: Any) -> Any:
    """Floating leaves in `half_dtype()`; integers, keys and Python numbers as they are."""
    return _cast("cast_to_half", _arrays("cast_to_half", tree), half_dtype())


@api_boundary
def cast_to_full(tree: Any) -> Any:
    """Floating leaves in float32.

    Example:
        >>> mgefn.amp.cast_to_full({"w": mnp.ones(1, "float16"), "n": mnp.arange(1)})
        {'w': Array([1.], dtype=float32), 'n': Array([0], dtype=int32)}
    """
    return _cast("cast_to_full", _arrays("cast_to_full", tree), np.dtype(np.float32))


def _arrays(operation: str, x: Any) -> Any:
    for leaf in tree.leaves(x):
        as_array(leaf, operation)
    return x


@dataclasses.dataclass(frozen=True)
class Policy:
    """The dtypes of a function's parameters, computation and output.

    Args:
        param_dtype, compute_dtype, output_dtype: floating dtypes, or "half" and "full".

    Example:
        >>> policy = mgefn.amp.get_policy("params=float32,compute=float16,output=float32")
        >>> policy.cast_to_compute({"w": mnp.ones(2)})["w"].dtype
        dtype('float16')
    """

    param_dtype: Any
    compute_dtype: Any
    output_dtype: Any

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _float_dtype("Policy", getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    def cast_to_param(self, x: Any) -> Any:
        """Floating leaves in the dtype of parameters."""
        return _cast("cast_to_param", x, self.param_dtype)

    def cast_to_compute(self, x: Any) -> Any:
        """Floating leaves in the dtype of the computation."""
        return _cast("cast_to_compute", x, self.compute_dtype)

    def cast_to_output(self, x: Any) -> Any:
        """Floating leaves in the dtype of outputs."""
        return _cast("cast_to_output", x, self.output_dtype)

    def with_output_dtype(self, output_dtype: DTypeLike) -> Policy:
        """The policy with another dtype of outputs."""
        return dataclasses.replace(self, output_dtype=output_dtype)

    def wrap(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """`fun` with its arguments cast to the computation's dtype, and its result to outputs'."""

        @functools.wraps(fun)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = self.cast_to_compute((args, kwargs))
            return self.cast_to_output(fun(*args, **kwargs))

        return wrapped

    def __str__(self) -> str:
        return f"params={self.param_dtype},compute={self.compute_dtype},output={self.output_dtype}"


@api_boundary
def get_policy(policy_name: str) -> Policy:
    """A policy from a text: a dtype for all, or "params=...,compute=...,output=...".

    Args:
        policy_name: dtypes by name; "p", "c" and "o" stand for the three, "half" and "full" for
            `half_dtype()` and float32. What is left out is float32.

    Raises:
        ArgumentError: it reads otherwise.

    Example:
        >>> str(mgefn.amp.get_policy("c=bfloat16"))
        'params=float32,compute=bfloat16,output=float32'
    """
    if not isinstance(policy_name, str):
        raise ArgumentError(f"get_policy: needs a text, got {policy_name!r}. See its docstring.")
    if "=" not in policy_name:
        return Policy(policy_name, policy_name, policy_name)
    fields = {"params": "full", "compute": "full", "output": "full"}
    for part in policy_name.split(","):
        name, _, dtype = part.strip().partition("=")
        whole = {"p": "params", "c": "compute", "o": "output"}.get(name, name)
        if whole not in fields or not dtype:
            raise ArgumentError(
                f"get_policy: needs params=, compute= and output=, got {part!r}. Correct it."
            )
        fields[whole] = dtype
    return Policy(fields["params"], fields["compute"], fields["output"])


# -- loss scales ----------------------------------------------------------------------------------


@tree.dataclass
class NoOpLossScale:
    """A loss scale that does nothing, for programs that may or may not need one."""

    @property
    def loss_scale(self) -> int:
        """1."""
        return 1

    def scale(self, tree: Any) -> Any:
        """The tree."""
        return tree

    def unscale(self, tree: Any) -> Any:
        """The tree."""
        return tree

    def adjust(self, grads_finite: ArrayLike) -> NoOpLossScale:
        """Itself."""
        return self


def _times(tree_: Any, factor: Any) -> Any:
    return tree.map(lambda x: asarray(x) * convert(asarray(factor), asarray(x).dtype), tree_)


@tree.dataclass
class StaticLossScale:
    """A loss scale that stays as it is.

    Args:
        loss_scale: a number.
    """

    loss_scale: Any

    def scale(self, tree: Any) -> Any:
        """Leaves times the scale, in their dtype."""
        return _times(tree, self.loss_scale)

    def unscale(self, tree: Any) -> Any:
        """Leaves divided by the scale, in their dtype."""
        return _times(tree, 1 / asarray(self.loss_scale))

    def adjust(self, grads_finite: ArrayLike) -> Any:
        """Itself."""
        return self


def _zero() -> Array:
    return asarray(np.int32(0))


@tree.dataclass
class DynamicLossScale:
    """A loss scale that shrinks when gradients overflow, and grows when they long have not.

    Args:
        loss_scale: where to start.
        counter: steps since the last change.
        period: after so many steps without overflow it grows.
        factor: by how much it grows and shrinks.
        min_loss_scale: it does not shrink below this.

    Example:
        >>> scale = mgefn.amp.DynamicLossScale(mnp.float32(2**15), period=2)
        >>> scale = scale.adjust(True).adjust(True)
        >>> float(scale.loss_scale), float(scale.adjust(False).loss_scale)
        (65536.0, 32768.0)
    """

    loss_scale: Any
    counter: Any = dataclasses.field(default_factory=_zero)
    period: int = tree.static(default=2000)
    factor: int = tree.static(default=2)
    min_loss_scale: float = tree.static(default=1.0)

    def scale(self, tree: Any) -> Any:
        """Leaves times the scale, in their dtype."""
        return _times(tree, self.loss_scale)

    def unscale(self, tree: Any) -> Any:
        """Leaves divided by the scale, in their dtype."""
        return _times(tree, 1 / asarray(self.loss_scale))

    def adjust(self, grads_finite: ArrayLike) -> DynamicLossScale:
        """The scale for the next step.

        Args:
            grads_finite: whether this step's gradients were, a boolean scalar.
        """
        now = asarray(self.loss_scale)
        counter = asarray(self.counter)
        finite = asarray(grads_finite)
        grown = now * self.factor
        grown = where(isfinite(grown), grown, now)
        due = counter >= self.period - 1
        smaller = maximum(now / self.factor, self.min_loss_scale)
        made: Any = self
        return made.replace(
            loss_scale=convert(where(finite, where(due, grown, now), smaller), now.dtype),
            counter=where(logical_and(finite, ~due), counter + 1, 0),
        )


@api_boundary
def all_finite(tree: Any) -> Array:
    """Are all elements of all floating and complex leaves finite? A boolean scalar.

    Example:
        >>> mgefn.amp.all_finite({"a": mnp.ones(2), "b": mnp.array([1.0, mnp.inf])})
        Array(False, dtype=bool)
    """
    result: Any = asarray(True)
    for leaf in _leaves(tree):
        a = asarray(leaf)
        if dtypes.is_inexact(a.dtype):
            result = logical_and(result, all_of(isfinite(a)))
    return result


def _leaves(x: Any) -> list[Any]:
    return tree.leaves(x)


@api_boundary
def select_tree(pred: ArrayLike, a: Any, b: Any) -> Any:
    """The tree `a` where pred is true, `b` where not; both must have one structure.

    Args:
        pred: a boolean scalar.
        a, b: trees of arrays of equal dtypes.

    Example:
        >>> mgefn.amp.select_tree(mnp.array(True), {"w": mnp.ones(1)}, {"w": mnp.zeros(1)})
        {'w': Array([1.], dtype=float32)}
    """
    p = asarray(pred)
    if p.ndim or not dtypes.is_bool(p.dtype):
        raise ArgumentError(f"select_tree: pred must be a boolean scalar, got {p.aval}.")  # type: ignore[attr-defined]
    return tree.map(lambda x, y: where(p, x, y), a, b)


@maker
def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The value and gradient of a function, computed with a scaled loss.

    Args:
        fun: as for mgefn.value_and_grad.
        argnums: by which arguments to differentiate, not counting the loss scale.
        has_aux: fun returns (loss, anything).

    Returns:
        A function (loss_scale, *args) -> (loss scale for the next step, whether all gradients are
        finite, value, gradients). The value is the loss, or (loss, anything). Gradients that are
        not finite are given as they are; leave the step out with select_tree.

    Example:
        >>> scale = mgefn.amp.DynamicLossScale(mnp.float32(1024))
        >>> step = mgefn.amp.value_and_grad(lambda w: w * w)
        >>> _, finite, value, slope = step(scale, mnp.float32(3))
        >>> finite, value, slope
        (Array(True, dtype=bool), Array(9., dtype=float32), Array(6., dtype=float32))
    """
    if not callable(fun):
        raise ArgumentError(f"amp.value_and_grad: needs a function, got {fun!r}.")

    def scaled(scale: Any, *args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        loss, aux = out if has_aux else (out, None)
        return scale.scale(loss), (loss, aux)

    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    moved = tuple([n + 1 if n >= 0 else n for n in nums])
    slopes = plain_value_and_grad(scaled, moved, has_aux=True)

    def wrapped(loss_scale: Any, *args: Any, **kwargs: Any) -> Any:
        (_, (loss, aux)), grads = slopes(loss_scale, *args, **kwargs)
        grads = loss_scale.unscale(grads)
        finite = all_finite(grads)
        value = (loss, aux) if has_aux else loss
        found = grads[0] if isinstance(argnums, int) else grads
        return loss_scale.adjust(finite), finite, value, found

    return wrapped


# -- autocast -------------------------------------------------------------------------------------


@maker
def autocast(
    fun: Any = None,
    enabled: bool = True,
    low_prec_dtype: DTypeLike = "float16",
    high_prec_dtype: DTypeLike = "float32",
) -> Any:
    """A function whose matrix products and convolutions take operands of low precision.

    The function is staged, and each product of operands of `high_prec_dtype` gets them rounded to
    `low_prec_dtype`; its result is cast back. All else, such as sums and exponentials, stays in
    high precision. Programs inside (jit, scan, cond) are treated alike, and the whole may be
    differentiated, mapped and compiled. The rules of custom_vjp functions stay as they are.

    Args:
        fun: the function; left out, a decorator is returned.
        enabled: False gives fun itself.
        low_prec_dtype: the dtype of operands of products.
        high_prec_dtype: which operands are rounded.

    Example:
        >>> f = mgefn.amp.autocast(lambda a, b: a @ b, low_prec_dtype="bfloat16")
        >>> f(mnp.array([1.0009765625]), mnp.array([1.0]))  # bfloat16 has 8 bits
        Array(1., dtype=float32)
    """
    if fun is None or isinstance(fun, bool):
        on = enabled if fun is None else fun  # autocast(False), as in MegEngine
        return lambda f: autocast(f, on, low_prec_dtype, high_prec_dtype)
    if not callable(fun):
        raise ArgumentError(f"autocast: needs a function, got {fun!r}.")
    low = _float_dtype("autocast", low_prec_dtype)
    high = _float_dtype("autocast", high_prec_dtype)
    if not enabled:
        return fun
    about = f"autocast({fun_name(fun)})"

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        arrays = [as_array(x, about) for x in leaves]
        out_tree: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            a, k = tree.unflatten(treedef, xs)
            outs, structure = tree.flatten(fun(*a, **k))
            out_tree[:] = [structure]
            return [as_array(x, about) for x in outs]

        closed, captured = trace(flat, [a.aval for a in arrays], about)  # type: ignore[attr-defined]
        cast = _lowered(closed, low, high)
        outs = eval_jaxpr(cast.jaxpr, cast.consts, [*captured, *arrays])
        return tree.unflatten(out_tree[0], outs)

    return wrapped


def _lowered(closed: ClosedJaxpr, low: np.dtype, high: np.dtype) -> ClosedJaxpr:
    """The program with low products; its inputs and outputs keep their types."""

    def make() -> ClosedJaxpr:
        def run(*xs: Any) -> list[Any]:
            env = dict(zip(closed.jaxpr.const_binders, closed.consts, strict=True))
            env.update(zip(closed.jaxpr.in_binders, xs, strict=True))

            def read(atom: Any) -> Any:
                return atom.value if isinstance(atom, Literal) else env[atom]

            for eqn in closed.eqns:
                outs = _bind(eqn, [read(a) for a in eqn.inputs], low, high)
                env.update(zip(eqn.out_binders, outs, strict=True))
            return [read(a) for a in closed.jaxpr.outs]

        return trace_closed(run, closed.in_avals, "autocast", closed.jaxpr.name)

    return closed.derive(("autocast", low, high), make)


def _bind(eqn: Eqn, ins: list[Any], low: np.dtype, high: np.dtype) -> Any:
    if eqn.primitive in PRODUCTS:
        (out,) = eqn.out_binders
        if all(a.aval.dtype == high for a in eqn.inputs) and not out.aval.weak_type:
            ins = [convert(asarray(x), low) for x in ins]
            (made,) = eqn.primitive.bind(*ins, **eqn.params)
            return (convert(made, out.aval.dtype),)
        return eqn.primitive.bind(*ins, **eqn.params)

    def changed(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return _lowered(value, low, high)
        if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
            return tuple([changed(v) for v in value])
        return value

    return eqn.primitive.bind(*ins, **{k: changed(v) for k, v in eqn.params.items()})


__all__ = [
    "DynamicLossScale",
    "NoOpLossScale",
    "Policy",
    "StaticLossScale",
    "all_finite",
    "autocast",
    "cast_to_full",
    "cast_to_half",
    "get_policy",
    "half_dtype",
    "select_tree",
    "value_and_grad",
]
