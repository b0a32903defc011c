"""grad, value_and_grad, vjp, jvp, linearize, linear_transpose and the Jacobians."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.api.batch import vmap
from mgefn.api.flat import (
    ArgNums,
    FlatFunction,
    checked_argnums,
    checked_function,
    leaves_as_arrays,
    output_array,
    resolve_argnums,
    split_aux,
)
from mgefn.core.array import ConcreteArray, as_array, described, scalar
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray, UndefinedPrimal, Zero, tangent_aval
from mgefn.core.device_array import beside
from mgefn.core.interpreter import state
from mgefn.core.source import fun_name, fun_place
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    TreeError,
    UnsupportedError,
    api_boundary,
    leave_api,
)
from mgefn.interpreters.jvp import jvp_flat
from mgefn.interpreters.linearize import LinearizeInterpreter, LinearMap
from mgefn.interpreters.staging import trace
from mgefn.interpreters.transposition import backward_pass
from mgefn.ops.elementwise import convert
from mgefn.ops.shaping import reshape, zeros

_ONES: dict[np.dtype, ConcreteArray] = {}


def _one(dtype: np.dtype) -> ConcreteArray:
    """The cotangent that a scalar loss starts from."""
    found = _ONES.get(dtype)
    if found is None:
        found = _ONES[dtype] = scalar(1, dtype)
    return found


def float0_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """The only tangent of an integer or boolean array."""
    return np.zeros(shape, dtypes.float0)


@api_boundary
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar-valued function.

    Args:
        fun: returns a real scalar, or a complex one with holomorphic=True.
        argnums: which positional arguments to differentiate with respect to. An int gives one
            gradient, a sequence a tuple of them, each a pytree like its argument.
        has_aux: fun returns (output, auxiliary data); the result is then (gradient, data).
        holomorphic: fun is complex differentiable, from complex arguments to a complex output.
        allow_int: integer arguments are allowed; their gradient is of dtype float0.

    Returns:
        A function with the arguments of fun.

    Raises:
        ShapeError: fun does not return a scalar.
        DTypeError: an argument or the output is not floating.

    Example:
        >>> mgefn.grad(lambda x: x**3)(2.0)
        Array(12., dtype=float32)
    """
    both = _value_and_grad("grad", fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun, assigned=_ASSIGNED, updated=())
    def grad_of_fun(*args: Any, **kwargs: Any) -> Any:
        try:
            value, gradient = both(*args, **kwargs)
        except BaseException as e:
            leave_api(e)
            raise
        return (gradient, value[1]) if has_aux else gradient

    return grad_of_fun


_ASSIGNED = ("__module__", "__name__", "__qualname__", "__doc__")


@api_boundary
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives both the value and the gradient of `fun`; see `grad`.

    Returns:
        A function with the arguments of fun; it returns (value, gradient), or
        ((value, data), gradient) with has_aux=True.

    Example:
        >>> mgefn.value_and_grad(lambda x: x**2)(3.0)
        (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32))
    """
    return api_boundary(
        _value_and_grad("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int)
    )


def _value_and_grad(
    name: str,
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., Any]:
    checked_function(name, fun)
    nums = checked_argnums(name, argnums)
    about = f"{name}({fun_name(fun)})"

    @functools.wraps(fun, assigned=_ASSIGNED, updated=())
    def value_and_grad_of_fun(*args: Any, **kwargs: Any) -> Any:
        where = resolve_argnums(about, nums, len(args))
        if len(where) == 1 and isinstance(args[where[0]], Array):
            leaves, treedefs = [args[where[0]]], None
        else:
            parts = [tree.flatten(args[i]) for i in where]
            leaves = [x for part, _ in parts for x in part]
            treedefs = [t for _, t in parts]
        primals = leaves_as_arrays(leaves, about)
        interpreter = LinearizeInterpreter(about)
        tracers: list[Any] = []
        in_nodes: list[Any] = []
        for p in primals:
            if _differentiable(p, about, holomorphic, allow_int):
                tracer, node = interpreter.variable(p)
                tracers.append(tracer)
                in_nodes.append(node)
            else:
                tracers.append(p)
        new_args = list(args)
        if treedefs is None:
            new_args[where[0]] = tracers[0]
        else:
            at = 0
            for i, t in zip(where, treedefs, strict=True):
                new_args[i] = tree.unflatten(t, tracers[at : at + t.num_leaves])
                at += t.num_leaves
        previous = state.current
        # As in core/collector.py; written out here, where a microsecond counts.
        collecting = gc.isenabled()
        try:
            if collecting:
                gc.disable()
            state.current = interpreter
            out = fun(*new_args, **kwargs)
        finally:
            state.current = previous
            if collecting:
                gc.enable()
        aux: Any = None
        if has_aux:
            out, aux = split_aux(out, about)
            aux = _without_tracers(interpreter, aux)
        value, node = interpreter.split(
            out if isinstance(out, Array) else _scalar_output(out, about, fun)
        )
        _check_scalar(value, about, fun, holomorphic)
        linear_map = LinearMap(interpreter.tape, in_nodes, (node,), (value,))
        cts = iter(linear_map.transpose((beside(_one(value.dtype), value),)))
        gradients = []
        for p, t in zip(primals, tracers, strict=True):
            if t is p:
                gradients.append(float0_zeros(p.shape))
            else:
                ct = next(cts)
                gradients.append(beside(zeros(ct.aval), p) if ct.__class__ is Zero else ct)
        result: Any
        if treedefs is None:
            result = gradients[0]
        else:
            at, trees = 0, []
            for t in treedefs:
                trees.append(tree.unflatten(t, gradients[at : at + t.num_leaves]))
                at += t.num_leaves
            result = tuple(trees)
        if not isinstance(nums, tuple):
            result = result if treedefs is None else result[0]
        elif treedefs is None:
            result = (result,)
        return ((value, aux), result) if has_aux else (value, result)

    return value_and_grad_of_fun


def _differentiable(p: Any, about: str, holomorphic: bool, allow_int: bool) -> bool:
    dtype = p.dtype
    if dtypes.is_inexact(dtype):
        if holomorphic and not dtypes.is_complex(dtype):
            raise DTypeError(
                f"{about}: with holomorphic=True arguments must be complex, got {p.aval}. Cast it."
            )
        return True
    if allow_int and not holomorphic:
        return False
    raise DTypeError(
        f"{about}: needs floating arguments, got {p.aval}. Cast it to a float, choose another "
        "argument with argnums, or pass allow_int=True."
    )


def _scalar_output(out: Any, about: str, fun: Any) -> Any:
    leaves = tree.leaves(out)
    if len(leaves) != 1 or leaves[0] is not out:
        raise ShapeError(
            f"{about}: {fun_place(fun)} must return a real scalar, got {described(out)}. "
            "Return one number, pass has_aux=True for (loss, data), or use vjp."
        )
    return output_array(out, about)


def _check_scalar(value: Any, about: str, fun: Any, holomorphic: bool) -> None:
    kind = value.dtype.kind
    if value.shape == () and kind == ("c" if holomorphic else "f"):
        return
    aval = value.aval
    if value.shape != ():
        raise ShapeError(
            f"{about}: {fun_place(fun)} must return a real scalar, got {aval}. Reduce it, or use "
            "vjp."
        )
    if kind == "V" and not holomorphic:
        return
    if holomorphic:
        raise DTypeError(
            f"{about}: with holomorphic=True {fun_place(fun)} must return a complex scalar, got "
            f"{aval}. Drop holomorphic for real functions."
        )
    repair = (
        "Pass holomorphic=True, or take its real part." if kind == "c" else "Cast it to a float."
    )
    raise DTypeError(f"{about}: {fun_place(fun)} must return a real scalar, got {aval}. {repair}")


def _without_tracers(interpreter: LinearizeInterpreter, aux: Any) -> Any:
    """Auxiliary data with the values in place of the interpreter's tracers."""
    return tree.map(lambda x: interpreter.split(x)[0] if isinstance(x, Array) else x, aux)


@api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function and its pullback, which maps cotangents of the output to the inputs'.

    Args:
        fun: a function of the primals, with pytrees of arrays in and out.
        primals: where to evaluate and linearize.
        has_aux: fun returns (output, auxiliary data).

    Returns:
        (output, pullback), or (output, pullback, data) with has_aux=True. pullback(ct) takes a
        pytree like the output and returns a tuple with one cotangent per primal. Integer inputs
        have cotangents of dtype float0.

    Example:
        >>> y, pullback = mgefn.vjp(lambda x: x * x, mnp.array([1.0, 2.0]))
        >>> pullback(mnp.array([1.0, 1.0]))
        (Array([2., 4.], dtype=float32),)
    """
    about = f"vjp({fun_name(fun)})"
    leaves, in_tree = tree.flatten(primals)
    values = leaves_as_arrays(leaves, about)
    flat = FlatFunction(fun, in_tree, about, has_aux)
    active = [dtypes.is_inexact(v.dtype) for v in values]
    interpreter = LinearizeInterpreter(about)
    pairs = [
        interpreter.variable(v) if a else (v, None) for v, a in zip(values, active, strict=True)
    ]
    with interpreter.entered():
        outs = flat(*(t for t, _ in pairs))
    split = [interpreter.split(o) for o in outs]
    out_avals = [p.aval for p, _ in split]
    linear_map = LinearMap(
        interpreter.tape,
        [n for _, n in pairs if n is not None],
        [n for _, n in split],
        out_avals,
    )
    out_tree = flat.out_tree

    def pullback(ct: Any) -> tuple[Any, ...]:
        cts = _cotangents(about, ct, out_tree, out_avals)
        cts = [beside(c, p) for c, (p, _) in zip(cts, split, strict=True)]
        found = iter(linear_map.transpose(cts))
        result = []
        for v, a in zip(values, active, strict=True):
            if not a:
                result.append(float0_zeros(v.shape))
            else:
                c = next(found)
                result.append(beside(zeros(c.aval), v) if c.__class__ is Zero else c)
        return tree.unflatten(in_tree, result)

    pullback = api_boundary(pullback)
    out = tree.unflatten(out_tree, [p for p, _ in split])
    if has_aux:
        return out, pullback, _without_tracers(interpreter, flat.aux)
    return out, pullback


def _cotangents(about: str, ct: Any, out_tree: Any, out_avals: Sequence[ShapedArray]) -> list[Any]:
    """The leaves of a cotangent, checked against the output they belong to."""
    flat, ct_tree = tree.flatten(ct)
    if ct_tree != out_tree:
        difference = tree.structure_difference(out_tree, ct_tree, ("the output", "the cotangent"))
        raise TreeError(
            f"{about}: the cotangent must have the structure of the output, but {difference}. Pass "
            "one cotangent for each output."
        )
    cts = []
    for c, aval in zip(flat, out_avals, strict=True):
        if not dtypes.is_inexact(aval.dtype):
            cts.append(Zero(aval))
            continue
        if getattr(c, "dtype", None) == dtypes.float0:
            cts.append(Zero(aval))
            continue
        c = as_array(c, about)
        if c.shape != aval.shape:
            raise ShapeError(
                f"{about}: a cotangent must have the shape of its output {aval}, got {c.aval}. "
                "Broadcast or reshape it."
            )
        if c.dtype != aval.dtype:
            if not c.weak_type and dtypes.promote_types(c.dtype, aval.dtype) != aval.dtype:
                raise DTypeError(
                    f"{about}: a cotangent must have the dtype of its output {aval}, got {c.aval}. "
                    "Cast it."
                )
            c = convert(c, aval.dtype)
        cts.append(c)
    return cts


@api_boundary
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """The value of a function and its derivative in a direction (forward mode).

    Args:
        fun: a function of the primals, with pytrees of arrays in and out.
        primals: a tuple or list of arguments.
        tangents: the direction: a pytree of the structure, shapes and dtypes of primals; float0
            for integers.
        has_aux: fun returns (output, auxiliary data).

    Returns:
        (output, output tangent), or (output, output tangent, data).

    Example:
        >>> mgefn.jvp(lambda x: x * x, (3.0,), (1.0,))
        (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    about = f"jvp({fun_name(fun)})"
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentError(
            f"{about}: primals and tangents must be tuples or lists of arguments, got "
            f"{described(primals)} and {described(tangents)}. Write (x,)."
        )
    leaves, in_tree = tree.flatten(tuple(primals))
    t_leaves, t_tree = tree.flatten(tuple(tangents))
    if in_tree != t_tree:
        difference = tree.structure_difference(
            in_tree, t_tree, ("the tuple of primals", "that of tangents")
        )
        raise TreeError(
            f"{about}: primals and tangents must have one structure, but {difference}. Pass one "
            "tangent for each primal."
        )
    values = leaves_as_arrays(leaves, about)
    directions = [beside(_tangent(about, p, t), p) for p, t in zip(values, t_leaves, strict=True)]
    flat = FlatFunction(fun, in_tree, about, has_aux)
    outs, out_tangents = jvp_flat(flat, values, directions, about)
    shown = [_shown_tangent(t) for t in out_tangents]
    out = tree.unflatten(flat.out_tree, outs)
    dot = tree.unflatten(flat.out_tree, shown)
    if has_aux:
        return out, dot, tree.map(_jvp_primal, flat.aux)
    return out, dot


def _jvp_primal(x: Any) -> Any:
    return x.primal if hasattr(x, "primal") and hasattr(x, "tangent") else x


def _shown_tangent(t: Any) -> Any:
    if t.__class__ is not Zero:
        return t
    if not dtypes.is_inexact(t.aval.dtype):
        return float0_zeros(t.aval.shape)
    return zeros(t.aval.strong())


def _tangent(about: str, p: Any, t: Any) -> Any:
    aval = p.aval
    wanted = tangent_aval(aval)
    if wanted.dtype == dtypes.float0:
        if getattr(t, "dtype", None) != dtypes.float0:
            raise DTypeError(
                f"{about}: the tangent of {aval} must have dtype float0, got "
                f"{getattr(t, 'dtype', type(t).__name__)}. Pass numpy.zeros(shape, mgefn.float0), "
                "or cast the primal to a float."
            )
        return Zero(aval)
    if getattr(t, "dtype", None) == dtypes.float0:
        return Zero(aval)
    weak = isinstance(t, (bool, int, float, complex)) or getattr(t, "weak_type", False)
    t = as_array(t, about)
    if t.shape != aval.shape:
        raise ShapeError(
            f"{about}: a tangent must have the shape of its primal, got {t.aval} for {aval}. "
            "Broadcast or reshape it."
        )
    if t.dtype != aval.dtype:
        if not weak:
            raise DTypeError(
                f"{about}: a tangent must have the dtype of its primal, got {t.aval} for {aval}. "
                "Cast it."
            )
        t = convert(t, aval.dtype)
    return t


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function and its derivative there, as a linear function of tangents.

    The function is evaluated once; each call of the derivative costs only the linear part.

    Returns:
        (output, f_jvp), or (output, f_jvp, data) with has_aux=True. f_jvp takes one tangent per
        primal.

    Example:
        >>> y, f_jvp = mgefn.linearize(mnp.sin, 0.0)
        >>> f_jvp(2.0)
        Array(2., dtype=float32, weak_type=True)
    """
    about = f"linearize({fun_name(fun)})"
    leaves, in_tree = tree.flatten(primals)
    values = leaves_as_arrays(leaves, about)
    flat = FlatFunction(fun, in_tree, about, has_aux)
    active = [dtypes.is_inexact(v.dtype) for v in values]
    interpreter = LinearizeInterpreter(about)
    pairs = [
        interpreter.variable(v) if a else (v, None) for v, a in zip(values, active, strict=True)
    ]
    with interpreter.entered():
        outs = flat(*(t for t, _ in pairs))
    split = [interpreter.split(o) for o in outs]
    linear_map = LinearMap(
        interpreter.tape,
        [n for _, n in pairs if n is not None],
        [n for _, n in split],
        [p.aval for p, _ in split],
    ).pruned()
    out_tree = flat.out_tree

    def f_jvp(*tangents: Any) -> Any:
        t_leaves, t_tree = tree.flatten(tangents)
        if t_tree != in_tree:
            difference = tree.structure_difference(
                in_tree, t_tree, ("the tuple of primals", "that of tangents")
            )
            raise TreeError(
                f"{about}: tangents must have the structure of the primals, but {difference}. Pass "
                "one tangent for each primal."
            )
        directions = [
            beside(_tangent(about, p, t), p) for p, t in zip(values, t_leaves, strict=True)
        ]
        dots = linear_map.jvp([d for d, a in zip(directions, active, strict=True) if a])
        return tree.unflatten(out_tree, [_shown_tangent(t) for t in dots])

    f_jvp = api_boundary(f_jvp)
    out = tree.unflatten(out_tree, [p for p, _ in split])
    if has_aux:
        return out, f_jvp, _without_tracers(interpreter, flat.aux)
    return out, f_jvp


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()
) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a function that is linear in its arguments.

    Args:
        fun: a linear function.
        primals: its arguments, of which only shape and dtype are looked at: arrays or
            ShapeDtypeStructs.

    Returns:
        A function from a cotangent of the output to a tuple of cotangents, one per primal.

    Raises:
        UnsupportedError: fun is not linear: an operation in it has no transpose.
    """
    about = f"linear_transpose({fun_name(fun)})"
    leaves, in_tree = tree.flatten(primals)
    avals = [abstract(x, about).strong() for x in leaves]
    for a in avals:
        if not dtypes.is_inexact(a.dtype):
            raise DTypeError(f"{about}: needs floating or complex arguments, got {a}. Cast it.")
    flat = FlatFunction(fun, in_tree, about)
    closed, captured = trace(flat, avals, about, fun_name(fun))
    out_tree = flat.out_tree

    def transposed(ct: Any) -> tuple[Any, ...]:
        cts = _cotangents(about, ct, out_tree, closed.out_avals)
        args = [*captured, *(UndefinedPrimal(a) for a in avals)]
        try:
            found = backward_pass(closed.jaxpr, closed.consts, args, cts)[len(captured) :]
        except UnsupportedError as e:
            raise UnsupportedError(
                f"{about}: needs a linear function, got one with an operation that is not. {e} Use "
                "vjp for functions that are not linear."
            ) from None
        return tree.unflatten(in_tree, [zeros(c.aval) if c.__class__ is Zero else c for c in found])

    return api_boundary(transposed)


def abstract(x: Any, about: str) -> ShapedArray:
    """The type of an array, number, or anything with shape and dtype."""
    if isinstance(x, Array):
        return x.aval
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)):
        return ShapedArray(
            tuple(x.shape), dtypes.canonical(x.dtype), bool(getattr(x, "weak_type", False))
        )
    if isinstance(x, np.ndarray):
        return ShapedArray(x.shape, dtypes.canonical(x.dtype))
    return as_array(x, about).aval


# -- Jacobians ------------------------------------------------------------------------------------


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """For each leaf the unit directions of all leaves together: (total, *leaf.shape)."""
    sizes = [x.size for x in leaves]
    total = sum(sizes)
    out, start = [], 0
    for x, n in zip(leaves, sizes, strict=True):
        block = np.zeros((total, n), x.dtype)
        block[np.arange(start, start + n), np.arange(n)] = 1
        start += n
        block.flags.writeable = False
        out.append(ConcreteArray(block.reshape((total, *x.shape))))
    return out


def _split_rows(y: Any, leaves: Sequence[Any], in_front: bool) -> list[Any]:
    """Cut the direction axis of y into one array per leaf and give it the leaf's shape."""
    out, start = [], 0
    for x in leaves:
        n = x.size
        part = y[start : start + n] if in_front else y[..., start : start + n]
        rest = y.shape[1:] if in_front else y.shape[:-1]
        out.append(reshape(part, (*x.shape, *rest) if in_front else (*rest, *x.shape)))
        start += n
    return out


def _jacobian_arguments(
    name: str, fun: Callable[..., Any], argnums: ArgNums, args: tuple, kwargs: dict
) -> tuple[Callable[..., Any], Any]:
    where = resolve_argnums(name, argnums, len(args))
    chosen = tuple(args[i] for i in where)

    def partial(*dyn: Any) -> Any:
        new = list(args)
        for i, d in zip(where, dyn, strict=True):
            new[i] = d
        return fun(*new, **kwargs)

    return partial, chosen


@api_boundary
def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by forward mode: one pass per input element; for tall Jacobians.

    Args:
        fun: pytrees of arrays in and out.
        argnums, has_aux, holomorphic: as for grad.

    Returns:
        A function whose result has the output's structure and in each leaf the structure of the
        argument: arrays of shape (*output shape, *argument shape).

    Example:
        >>> mgefn.jacfwd(lambda x: x * x)(mnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    return _jacfwd("jacfwd", fun, argnums, has_aux, holomorphic)


def _jacfwd(
    name: str, fun: Callable[..., Any], argnums: Any, has_aux: bool, holomorphic: bool
) -> Callable[..., Any]:
    checked_function(name, fun)
    nums = checked_argnums(name, argnums)
    about = f"{name}({fun_name(fun)})"

    @functools.wraps(fun, assigned=_ASSIGNED, updated=())
    def jacfwd_of_fun(*args: Any, **kwargs: Any) -> Any:
        partial, chosen = _jacobian_arguments(about, fun, nums, args, kwargs)
        leaves, in_tree = tree.flatten(chosen)
        values = leaves_as_arrays(leaves, about)
        for v in values:
            _check_jacobian_input(about, v, holomorphic)
        flat = FlatFunction(partial, in_tree, about, has_aux)
        aux: list[Any] = []

        def push(*directions: Any) -> tuple[list[Any], Any]:
            out, dots = jvp_flat(flat, values, directions, about)
            filled = [zeros(t.aval) if t.__class__ is Zero else t for t in dots]
            if has_aux:
                aux[:] = [tree.map(_jvp_primal, flat.aux)]
            for o in out:
                if holomorphic and not dtypes.is_complex(o.dtype):
                    raise DTypeError(
                        f"{about}: with holomorphic=True the output must be complex, got {o.aval}. "
                        "Drop holomorphic for real functions."
                    )
            return filled, aux[0] if has_aux else ()

        dots, data = vmap(push, out_axes=(-1, None))(*_basis(values))
        rows = [tree.unflatten(in_tree, _split_rows(y, values, in_front=False)) for y in dots]
        rows = [r if isinstance(nums, tuple) else r[0] for r in rows]
        jac = tree.unflatten(flat.out_tree, rows)
        return (jac, data) if has_aux else jac

    return api_boundary(jacfwd_of_fun)


def _check_jacobian_input(about: str, v: Any, holomorphic: bool) -> None:
    if holomorphic and not dtypes.is_complex(v.dtype):
        raise DTypeError(
            f"{about}: with holomorphic=True arguments must be complex, got {v.aval}. Cast it."
        )
    if not holomorphic and not dtypes.is_float(v.dtype):
        raise DTypeError(
            f"{about}: needs real floating arguments, got {v.aval}. Cast it"
            + (", or pass holomorphic=True." if dtypes.is_complex(v.dtype) else ".")
        )


@api_boundary
def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode: one pass per output element; for wide Jacobians.

    Args and result as `jacfwd`.

    Example:
        >>> mgefn.jacrev(lambda x: x * x)(mnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    return _jacrev("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


def _jacrev(
    name: str,
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool = False,
) -> Callable[..., Any]:
    checked_function(name, fun)
    nums = checked_argnums(name, argnums)
    about = f"{name}({fun_name(fun)})"

    @functools.wraps(fun, assigned=_ASSIGNED, updated=())
    def jacrev_of_fun(*args: Any, **kwargs: Any) -> Any:
        partial, chosen = _jacobian_arguments(about, fun, nums, args, kwargs)
        for v in leaves_as_arrays(tree.leaves(chosen), about):
            _differentiable(v, about, holomorphic, allow_int)
        got = vjp(partial, *chosen, has_aux=has_aux)
        out_leaves, out_tree = tree.flatten(got[0])
        for o in out_leaves:
            wanted = dtypes.is_complex(o.dtype) if holomorphic else dtypes.is_float(o.dtype)
            if not wanted:
                kind = "complex" if holomorphic else "real floating"
                raise DTypeError(f"{about}: the output must be {kind}, got {o.aval}. Cast it.")
        pullback = got[1]
        rows = vmap(lambda *cts: pullback(tree.unflatten(out_tree, cts)))(*_basis(out_leaves))
        # rows: a tuple like `chosen` with leaves (total outputs, *argument shape)
        row_leaves, row_tree = tree.flatten(rows)
        pieces = [_split_rows(r, out_leaves, in_front=True) for r in row_leaves]
        jac_leaves = []
        for k in range(len(out_leaves)):
            one = tree.unflatten(row_tree, [p[k] for p in pieces])
            jac_leaves.append(one if isinstance(nums, tuple) else one[0])
        jac = tree.unflatten(out_tree, jac_leaves)
        return (jac, got[2]) if has_aux else jac

    return api_boundary(jacrev_of_fun)


jacobian = jacrev


@api_boundary
def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives, forward over reverse mode.

    Example:
        >>> mgefn.hessian(lambda x: (x**3).sum())(mnp.array([1.0, 2.0]))
        Array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    inner = _jacrev("hessian", fun, argnums, has_aux, holomorphic)
    return _jacfwd("hessian", inner, argnums, has_aux, holomorphic)


__all__ = [
    "abstract",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "value_and_grad",
    "vjp",
]
