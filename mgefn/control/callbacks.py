"""Calls from programs back into Python: pure_callback, io_callback and debug callbacks.

The Python function gets read-only NumPy arrays, runs with no interpreter active and with NumPy's
own floating-point warnings, and may call mgefn. Its results are checked against the declared
types. A pure callback may run any number of times, or not at all where its result is not used. The
others have an effect: they run once for each call, in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array import ConcreteArray, as_array, described, is_arraylike
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import _quiet_context, interpreter_set_to, state
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    TreeError,
    UnsupportedError,
    api_boundary,
)
from mgefn.interpreters.batching import BatchingInterpreter, to_front
from mgefn.ops.shaping import broadcast_in_dim

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")

# NumPy's settings in a fresh interpreter. Kernels of a program run with all of them off.
_NUMPY_ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

# params of the first two: callback, (*arrays) -> list of results; avals, of the outputs; name.
# pure_callback: vmap_method. io_callback: ordered.
pure_callback_p = Primitive("pure_callback", weak_result=False, moves=True)
io_callback_p = Primitive("io_callback", weak_result=False, effect=True, moves=True)
# params: callback; ordered; name. No outputs.
debug_callback_p = Primitive(
    "debug_callback", constant=True, weak_result=False, effect=True, moves=True
)


def _read_only(x: Any) -> np.ndarray:
    """A copy that the callback may keep: a program writes over its blocks as it goes on."""
    copy = np.array(x)
    copy.flags.writeable = False
    return copy


class _UserCallback:
    """The user's function on flat NumPy arrays; gives one array for each declared result."""

    __slots__ = ("callback", "in_tree", "name", "result_tree", "results")

    def __init__(
        self,
        callback: Callable[..., Any],
        in_tree: Any,
        result_tree: Any,
        results: Sequence[ShapedArray],
        name: str,
    ):
        self.callback = callback
        self.in_tree = in_tree
        self.result_tree = result_tree
        self.results = results
        self.name = name

    def __call__(self, arrays: Sequence[Any], lead: tuple[int, ...] = ()) -> list[np.ndarray]:
        """`lead`: the batch dimensions that the call was given in front."""
        args, kwargs = tree.unflatten(self.in_tree, [_read_only(a) for a in arrays])
        out = self.callback(*args, **kwargs)
        if self.result_tree is None:
            return []
        leaves, out_tree = tree.flatten(out)
        if out_tree != self.result_tree:
            difference = tree.structure_difference(
                self.result_tree, out_tree, ("result_shape_dtypes", "the returned value")
            )
            raise TreeError(
                f"{self.name}: {fun_place(self.callback)} must return the structure of "
                f"result_shape_dtypes, but {difference}. Change one of them."
            )
        return [self._checked(x, a, lead) for x, a in zip(leaves, self.results, strict=True)]

    def _checked(self, x: Any, aval: ShapedArray, lead: tuple[int, ...]) -> np.ndarray:
        want = aval.update(shape=(*lead, *aval.shape))
        repair = "Correct result_shape_dtypes or the callback"
        if not is_arraylike(x):
            raise ArgumentError(
                f"{self.name}: {fun_place(self.callback)} must return arrays, got "
                f"{type(x).__name__} for {want}. {repair}."
            )
        dtype, weak = dtypes.dtype_and_weak(x)
        if isinstance(x, ConcreteArray):
            weak = x.weak_type
        data = np.asarray(x)
        if data.shape != want.shape:
            raise ShapeError(
                f"{self.name}: {fun_place(self.callback)} must return {want}, got "
                f"{ShapedArray(data.shape, dtype)}. {repair}."
            )
        if dtype != want.dtype:
            fits = weak and dtypes.promote_types(dtype, want.dtype) == want.dtype
            if not fits and not (weak and dtypes.is_inexact(want.dtype)):
                raise DTypeError(
                    f"{self.name}: {fun_place(self.callback)} must return {want}, got "
                    f"{ShapedArray(data.shape, dtype)}. {repair}, or cast with astype."
                )
        # A copy: the callback may keep its array and write to it.
        return np.array(data, want.dtype)


class _Sequential:
    """A flat callback run once for each example of a batch that stands in front."""

    __slots__ = ("avals", "batched", "callback", "size")

    def __init__(self, callback: Any, batched: tuple[bool, ...], size: int, avals: Any):
        self.callback = callback
        self.batched = batched
        self.size = size
        self.avals = avals

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        arrays = [np.asarray(a) for a in arrays]
        outs = [np.empty((self.size, *a.shape), a.dtype) for a in self.avals]
        for i in range(self.size):
            one = [a[i] if b else a for a, b in zip(arrays, self.batched, strict=True)]
            for out, y in zip(outs, self.callback(one), strict=True):
                out[i] = y
        return outs


class _WithLead:
    """A flat callback that takes whole batches, with the batch's size in front of its results."""

    __slots__ = ("callback", "lead")

    def __init__(self, callback: Any, size: int):
        self.lead: tuple[int, ...] = (size,)
        self.callback = callback
        if isinstance(callback, _WithLead):
            self.lead = (size, *callback.lead)
            self.callback = callback.callback

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        return self.callback(arrays, self.lead)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> tuple:
    outs = params["callback"]([a._data for a in args])
    return tuple(ConcreteArray(o) for o in outs)


def callback_kernel(*arrays: np.ndarray, callback: Any, outs: tuple = (), **params: Any) -> tuple:
    """The NumPy backend's row for the callback primitives.

    A program runs its kernels in a context with warnings off, which can't be entered twice; so the
    callback gets another one for the time it runs.
    """
    quiet = state.quiet
    state.quiet = _quiet_context()
    try:
        with interpreter_set_to(None), np.errstate(**_NUMPY_ERRSTATE):  # type: ignore[arg-type]  # NumPy's own values
            found = callback(arrays)
    finally:
        state.quiet = quiet
    result = []
    for i, x in enumerate(found):
        out = outs[i] if i < len(outs) else None
        if out is not None:
            out[...] = x
        result.append(x if out is None else out)
    return tuple(result)


for _p in (pure_callback_p, io_callback_p, debug_callback_p):
    _p.def_evaluate(_evaluate)
for _p in (pure_callback_p, io_callback_p):
    _p.def_abstract_eval(lambda *_, avals, **__: avals)
    _p.no_rule("transpose", "nothing is known of the Python function it calls")
debug_callback_p.def_abstract_eval(lambda *_, **__: ())
debug_callback_p.no_rule("transpose", "it has no outputs")
io_callback_p.no_rule("jvp", "nothing is known of the Python function it calls")


@pure_callback_p.def_jvp(symbolic_zeros=True)
def _pure_callback_jvp(primals, tangents, **params):
    raise UnsupportedError(
        f"{params['name']}: has no derivative: nothing is known of the Python function it calls. "
        "Wrap the call in a custom_jvp or custom_vjp function, or pass its arguments through "
        "stop_gradient."
    )


# -- batching -------------------------------------------------------------------------------------


def _whole_batches(avals: Sequence[ShapedArray], size: int) -> tuple[ShapedArray, ...]:
    return tuple(a.update(shape=(size, *a.shape)) for a in avals)


def _fronted(values: Sequence[Any], bdims: Sequence[int | None], size: int) -> list[Any]:
    return [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]


@pure_callback_p.def_batch_call
def _pure_callback_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, method, callback = interpreter.axis_size, params["vmap_method"], params["callback"]
    if method is None:
        raise UnsupportedError(
            f"{params['name']}: under vmap needs to know how to call the function for a batch. "
            f"Pass vmap_method, one of {', '.join(map(repr, VMAP_METHODS))}."
        )
    avals = _whole_batches(params["avals"], size)
    if method.startswith("sequential"):
        args = _fronted(values, bdims, size)
        batched = tuple(b is not None for b in bdims)
        whole: Any = _Sequential(callback, batched, size, params["avals"])
    else:
        args = []
        for v, b in zip(values, bdims, strict=True):
            if b is not None or method == "broadcast_all":
                args.append(to_front(v, b, size))
            else:
                dims = tuple(range(1, v.ndim + 1))
                args.append(broadcast_in_dim(v, (1, *v.shape), dims))
        whole = _WithLead(callback, size)
    outs = pure_callback_p.bind(*args, **params | {"callback": whole, "avals": avals})
    return outs, [0] * len(outs)


@io_callback_p.def_batch_call
def _io_callback_batch(interpreter: BatchingInterpreter, values, bdims, params):
    if params["ordered"]:
        raise UnsupportedError(
            f"{params['name']}: with ordered=True has no meaning under vmap: a batch has no order. "
            "Pass ordered=False, or use a loop."
        )
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    outs = io_callback_p.bind(
        *_fronted(values, bdims, size),
        **params
        | {
            "callback": _Sequential(params["callback"], batched, size, params["avals"]),
            "avals": _whole_batches(params["avals"], size),
        },
    )
    return outs, [0] * len(outs)


@debug_callback_p.def_batch_call
def _debug_callback_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    debug_callback_p.bind(
        *_fronted(values, bdims, size),
        **params | {"callback": _Sequential(params["callback"], batched, size, ())},
    )
    return (), ()


# -- public functions -----------------------------------------------------------------------------


def _result_avals(name: str, result_shape_dtypes: Any) -> tuple[list[ShapedArray], Any]:
    leaves, structure = tree.flatten(result_shape_dtypes)
    avals = []
    for x in leaves:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise ArgumentError(
                f"{name}: result_shape_dtypes must hold objects with shape and dtype, got "
                f"{type(x).__name__}. Use mgefn.ShapeDtypeStruct(shape, dtype)."
            )
        avals.append(ShapedArray(tuple(x.shape), dtypes.canonical(x.dtype)))
    return avals, structure


def _flat_call(
    name: str, callback: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
) -> tuple[list[Any], Any]:
    if not callable(callback):
        raise ArgumentError(f"{name}: needs a function, got {described(callback)}. Pass it first.")
    leaves, in_tree = tree.flatten((args, kwargs))
    return [as_array(x, name) for x in leaves], in_tree


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects, also from within jit.

    Args:
        callback: takes NumPy arrays in the place of the arrays of args and kwargs, and returns
            arrays. It may be called any number of times, or not at all.
        result_shape_dtypes: a pytree of objects with shape and dtype, for the results.
        args, kwargs: pytrees of arrays.
        sharding: accepted for JAX's programs; there is one device.
        vmap_method: what vmap does. "sequential": one call for each example; "broadcast_all": one
            call with a batch dimension in front of every argument; "expand_dims": the same, of size
            1 for arguments that all examples share; None: vmap is an error.

    Returns:
        A pytree of arrays like result_shape_dtypes.

    Raises:
        ShapeError, DTypeError, TreeError: the callback returns something else.
        UnsupportedError: a derivative was asked for; wrap the call in a custom_jvp function.

    Example:
        >>> x = mnp.array([1.0, 2.0])
        >>> mgefn.jit(lambda x: mgefn.pure_callback(np.exp2, x, x))(x)
        Array([2., 4.], dtype=float32)
    """
    name = f"pure_callback({fun_name(callback)})"
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ArgumentError(
            f"{name}: vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))} or None, got "
            f"{vmap_method!r}."
        )
    arrays, in_tree = _flat_call(name, callback, args, kwargs)
    avals, structure = _result_avals(name, result_shape_dtypes)
    outs = pure_callback_p.bind(
        *arrays,
        callback=_UserCallback(callback, in_tree, structure, avals, name),
        avals=tuple(avals),
        vmap_method=vmap_method,
        name=name,
    )
    return tree.unflatten(structure, outs)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has side effects, also from within jit.

    It is called once for each time the program comes by, in the order of the program, whether its
    results are used or not; under vmap once for each example.

    Args:
        callback, result_shape_dtypes, args, kwargs, sharding: as for pure_callback; None stands for
            no result.
        ordered: refuse vmap, under which there is no order.

    Returns:
        A pytree of arrays like result_shape_dtypes.

    Example:
        >>> seen = []
        >>> mgefn.jit(lambda x: mgefn.io_callback(lambda v: seen.append(float(v)), None, x))(2.0)
        >>> seen
        [2.0]
    """
    name = f"io_callback({fun_name(callback)})"
    arrays, in_tree = _flat_call(name, callback, args, kwargs)
    avals, structure = _result_avals(name, result_shape_dtypes)
    outs = io_callback_p.bind(
        *arrays,
        callback=_UserCallback(callback, in_tree, structure, avals, name),
        avals=tuple(avals),
        ordered=bool(ordered),
        name=name,
    )
    return tree.unflatten(structure, outs)


class _WithStatic:
    """A debug callback with those arguments in place that are no arrays."""

    __slots__ = ("__name__", "__wrapped__", "callback", "in_tree", "static")

    def __init__(self, callback: Callable[..., Any], in_tree: Any, static: list[tuple[bool, Any]]):
        self.callback = self.__wrapped__ = callback
        self.__name__ = fun_name(callback)
        self.in_tree = in_tree
        self.static = static

    def __call__(self, *arrays: Any) -> None:
        given = iter(arrays)
        leaves = [next(given) if is_array else x for is_array, x in self.static]
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        self.callback(*args, **kwargs)


def debug_callback(
    callback: Callable[..., Any], args: tuple, kwargs: dict[str, Any], ordered: bool, name: str
) -> None:
    """Bind debug_callback_p; arguments that are no arrays are passed on as they are."""
    if not callable(callback):
        raise ArgumentError(f"{name}: needs a function, got {described(callback)}. Pass it first.")
    leaves, in_tree = tree.flatten((args, kwargs))
    # Python's numbers stay what they are: nothing traced is in them.
    is_array = [isinstance(x, (Array, np.ndarray, np.generic)) for x in leaves]
    arrays = [as_array(x, name) for x, a in zip(leaves, is_array, strict=True) if a]
    static = [(a, None if a else x) for x, a in zip(leaves, is_array, strict=True)]
    flat_tree = tree.structure((tuple(range(len(arrays))), {}))
    call = _UserCallback(_WithStatic(callback, in_tree, static), flat_tree, None, (), name)
    debug_callback_p.bind(*arrays, callback=call, ordered=bool(ordered), name=name)


__all__ = ["io_callback", "pure_callback"]
