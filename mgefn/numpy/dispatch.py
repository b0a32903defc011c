"""NumPy's own functions, called with arrays and tracers of this package (NEP 13 and NEP 18).

NumPy hands a call such as `np.sin(x)` or `np.linalg.solve(a, b)` over when an argument is an
`Array`; `Array.__array_ufunc__` and `Array.__array_function__` come here by way of METHODS. One
rule decides all of them:

1. where `mgefn.numpy` has a function of that name that accepts these arguments, it computes;
2. else, where every value is known, NumPy computes on `np.asarray` of the arguments, and arrays
   among the results become arrays of this package;
3. else, a traced value being there, the call is an error that says what to write instead.

So nothing of a traced function is ever computed behind its back. What would write into an array of
this package is an error; NumPy arrays may be written (`out=`, `+=`, `np.add.at`) with known values.

Sources: NEP 13, numpy.org/neps/nep-0013-ufunc-overrides.html; NEP 18,
numpy.org/neps/nep-0018-array-function-protocol.html; NEP 35 (`like=`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import METHODS, Array, Axis, method
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    TracerArrayConversionError,
    api_boundary,
)
from mgefn.numpy import stride_tricks
from mgefn.ops import cumulative, reductions
from mgefn.ops.elementwise.common import convert, truth
from mgefn.ops.reductions import logsumexp, reduce_and, reduce_or, reduce_xor
from mgefn.ops.shaping import normalize_axes, reshape

# NumPy's module -> ours, where functions are looked up by name; numpy/__init__.py adds itself.
NAMESPACES: dict[str, ModuleType] = {"numpy.lib.stride_tricks": stride_tricks}

# Namespaces that are loaded at first need; mgefn/__init__.py, which stands above them, fills it.
LOADERS: dict[str, Callable[[], ModuleType]] = {}

# Ufuncs of scipy.special that bear another name here, or stand among the functions of numpy.
_SPECIAL_NAMES = {"psi": "digamma"}
_ALSO_NUMPYS = frozenset(("cbrt", "exp2", "expm1", "log1p"))

_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}


def _namespace(module: str) -> ModuleType | None:
    """Our namespace for a module of NumPy's; linalg and fft are loaded when first asked for."""
    if module in ("numpy.linalg", "numpy.fft") and module not in NAMESPACES:
        NAMESPACES[module] = getattr(NAMESPACES["numpy"], module.removeprefix("numpy."))
    return NAMESPACES.get(module)


def serve(numpy: ModuleType) -> None:
    """Say where NumPy's functions find theirs; called once, when `mgefn.numpy` is complete."""
    NAMESPACES["numpy"] = numpy
    # The ufunc clip, which the method of NumPy arrays calls, stands only where NumPy is built.
    inside = vars(sys.modules.get("numpy._core.umath", np))
    for value in (*vars(np).values(), *inside.values()):
        if isinstance(value, np.ufunc) and value.__name__ in vars(numpy):
            _be_ufunc(vars(numpy)[value.__name__], value)


def serve_late(name: str, fn: Any) -> None:
    """The same for a function that `mgefn.numpy` loads when it is first asked for."""
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc):
        _be_ufunc(fn, ufunc)


def _be_ufunc(fn: Any, ufunc: np.ufunc) -> None:
    """Have the ufunc find our function, which gets the methods of the ufunc."""
    _UFUNCS[ufunc] = fn
    if isinstance(fn, FunctionType):
        for how in ("at",) if ufunc.nin == 1 else _METHODS_OF_UFUNCS:
            setattr(fn, how, _Method(ufunc, how))


# Parameters that come after the arrays, by position.
_METHODS_OF_UFUNCS = {
    "reduce": ("axis", "dtype", "out", "keepdims", "initial", "where"),
    "accumulate": ("axis", "dtype", "out"),
    "reduceat": ("axis", "dtype", "out"),
    "outer": (),
    "at": (),
}
_ARRAYS = {"reduce": 1, "accumulate": 1}  # of which there are two elsewhere, and any number in at


class _Method:
    """`add.reduce` and its like: what NumPy's ufunc has under this name, for arrays of ours."""

    __slots__ = ("how", "ufunc")

    def __init__(self, ufunc: Any, how: str) -> None:
        self.ufunc, self.how = ufunc, how

    @api_boundary
    def __call__(self, *args: Any, out: Any = None, **options: Any) -> Any:
        n = len(args) if self.how == "at" else _ARRAYS.get(self.how, 2)
        more = dict(zip(_METHODS_OF_UFUNCS[self.how], args[n:], strict=False))
        out = more.pop("out", out)
        arrays = args[:n]
        # What is an array of NumPy's `at` writes into.
        if arrays and not (self.how == "at" and isinstance(arrays[0], np.ndarray)):
            arrays = (METHODS["asarray"](arrays[0]), *arrays[1:])
        return array_ufunc(self.ufunc, self.how, arrays, {**more, **options, "out": (out,)})

    def __repr__(self) -> str:
        return f"<mgefn.{_spelled(self.ufunc, self.how)}>"


# -- arguments and results ------------------------------------------------------------------------


def _first_traced(values: Iterable[Any]) -> Tracer | None:
    """A tracer among values and what lists, tuples and dicts among them hold."""
    pending = list(values)
    while pending:
        v = pending.pop()
        if isinstance(v, Tracer):
            return v
        if isinstance(v, (list, tuple)):
            pending.extend(v)
        elif isinstance(v, dict):
            pending.extend(v.values())
    return None


def _for_numpy(x: Any, numbers: bool = False) -> Any:
    """The same value with NumPy arrays in place of ours; containers are rebuilt.

    `numbers`: weak arrays of rank 0 become Python numbers, which NumPy's promotion treats alike.
    """
    if isinstance(x, Array):
        return x.item() if numbers and x.weak_type and not x.shape else np.asarray(x)
    if isinstance(x, list):
        return [_for_numpy(v, numbers) for v in x]
    if isinstance(x, tuple):
        values = [_for_numpy(v, numbers) for v in x]
        return type(x)(*values) if hasattr(x, "_fields") else tuple(values)
    if isinstance(x, dict):
        return {k: _for_numpy(v, numbers) for k, v in x.items()}
    return x


def _from_numpy(x: Any, given: Sequence[Any] = ()) -> Any:
    """A result of NumPy with arrays of this package for its arrays of numbers.

    What the caller gave, such as `out`, comes back as it is.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        if any(x is g for g in given):
            return x
        try:
            dtypes.canonical(x.dtype)
        except DTypeError:
            return x  # text, dates, objects
        # A copy, whose flags NumPy does not warn about; an array, as NumPy's scalars would be weak.
        data = np.array(x)
        data.flags.writeable = False
        return as_array(data)
    if isinstance(x, list):
        return [_from_numpy(v, given) for v in x]
    if isinstance(x, tuple):
        values = [_from_numpy(v, given) for v in x]
        return type(x)(*values) if hasattr(x, "_fields") else tuple(values)
    return x


def _seen(tracer: Tracer) -> str:
    return f"the traced {tracer.aval} in {tracer.interpreter.about}"


def _refuse_array_out(name: str, out: Any, repair: str = "Use the returned array.") -> None:
    for o in out if isinstance(out, tuple) else (out,):
        if isinstance(o, Array):
            raise ArgumentError(
                f"{name}: out must be a NumPy array, got {o.aval}, and mgefn arrays are immutable. "
                f"{repair}"
            )


# -- NEP 13: ufuncs -------------------------------------------------------------------------------

# What asks for nothing that our functions would do otherwise.
_DEFAULT_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "dtype": lambda v: v is None,
    "where": lambda v: v is True,
    "initial": lambda v: v is None or v is np._NoValue,
    "keepdims": lambda v: v is False or v is np._NoValue,
    "casting": lambda v: v in ("same_kind", "unsafe"),
    "order": lambda v: True,  # the layout in memory, of which arrays here have one
    "subok": lambda v: True,
    "signature": lambda v: v is None,
    "sig": lambda v: v is None,
}

_COMMON = frozenset((ConcreteArray, np.ndarray, bool, int, float, complex, list, tuple))


def _answers_itself(x: Any) -> bool:
    """Has the class of x a way of its own with ufuncs? Then it decides, as NEP 13 has it."""
    theirs = getattr(type(x), "__array_ufunc__", None)
    return theirs is not None and theirs is not np.ndarray.__array_ufunc__ and theirs is not _OURS


_OURS = Array.__array_ufunc__


@method("array_ufunc")
def array_ufunc(ufunc: Any, how: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of a NumPy ufunc, or of one of its methods, gives for arrays of this package."""
    for x in inputs:
        if x.__class__ not in _COMMON and _answers_itself(x):
            return NotImplemented
    if how == "__call__" and not kwargs:
        fn = _UFUNCS.get(ufunc)
        if fn is not None:
            return fn(*inputs)
    out = kwargs.get("out")
    if out is not None and any(o.__class__ not in _COMMON and _answers_itself(o) for o in out):
        return NotImplemented
    options = {
        k: v
        for k, v in kwargs.items()
        if k != "out" and not (k in _DEFAULT_OPTIONS and _DEFAULT_OPTIONS[k](v))
    }
    if out is not None and all(o is None for o in out):
        out = None
    return _HOW[how](ufunc, inputs, out, options)


def _spelled(ufunc: Any, how: str = "__call__") -> str:
    """The user's name of what was called."""
    home = "scipy.special" if ufunc not in _UFUNCS and _is_special(ufunc) else "numpy"
    return f"{home}.{ufunc.__name__}" + ("" if how == "__call__" else f".{how}")


def _is_special(ufunc: Any) -> bool:
    """Is it a ufunc of scipy.special? Who holds one has loaded the module."""
    module = sys.modules.get("scipy.special")
    return module is not None and getattr(module, ufunc.__name__, None) is ufunc


def _function_of(ufunc: Any) -> Callable[..., Any] | None:
    fn = _UFUNCS.get(ufunc)
    if fn is None and getattr(np, ufunc.__name__, None) is ufunc:
        # One of those that mgefn.numpy loads when they are first asked for.
        fn = getattr(NAMESPACES["numpy"], ufunc.__name__, None)
    if fn is None and _is_special(ufunc):
        name = str(ufunc.__name__)
        if name in _ALSO_NUMPYS:
            return getattr(NAMESPACES["numpy"], name)
        load = LOADERS.get("scipy.special")
        if load is not None:
            fn = getattr(load(), _SPECIAL_NAMES.get(name, name), None)
    return fn


def _by_numpy(
    ufunc: Any,
    how: str,
    inputs: tuple[Any, ...],
    out: tuple[Any, ...] | None,
    options: dict[str, Any],
    problem: str = "mgefn has no counterpart",
    repair: str | None = None,
) -> Any:
    """The call as NumPy does it, if all is known; else the error."""
    name = _spelled(ufunc, how)
    if "where" in options and out is None and how == "__call__":
        raise ArgumentError(
            f"{name}: where= without out= leaves the other elements undefined. Write "
            f"mgefn.numpy.where(condition, {name}(...), other)."
        )
    if out is not None:
        instead = "Use the returned array."
        if "where" in options:
            instead = f"Write mgefn.numpy.where(condition, {name}(...), other)."
        _refuse_array_out(name, out, instead)
    traced = _first_traced((inputs, options))
    if traced is None:
        kwargs = dict(options) if out is None else {**options, "out": out}
        result = getattr(ufunc, how)(*_for_numpy(inputs, True), **_for_numpy(kwargs, True))
        return _from_numpy(result, out or ())
    if out is not None:
        problem = "a NumPy array as out can't hold a traced value"
        repair = "Use the returned array, as in x = x + y for x += y."
    elif repair is None:
        repair = (
            "Write it with functions of mgefn.numpy, or call it by mgefn.pure_callback, which has "
            "no derivative."
        )
    raise TracerArrayConversionError(f"{name}: {problem}, got {_seen(traced)}. {repair}")


def _call(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    fn = _function_of(ufunc)
    if fn is None:
        return _by_numpy(ufunc, "__call__", inputs, out, options)
    if out is None and _takes(fn, options):
        return fn(*inputs, **options)
    if out is None and options.keys() == {"dtype"} and _first_traced(inputs) is not None:
        return _in_dtype(ufunc, fn, inputs, options["dtype"])
    names = " and ".join(f"{k}=" for k in options)
    return _by_numpy(
        ufunc,
        "__call__",
        inputs,
        out,
        options,
        f"mgefn's function does not take {names}",
        f"Leave {names} out{', and use mgefn.numpy.where' if 'where' in options else ''}.",
    )


def _in_dtype(ufunc: Any, fn: Callable[..., Any], inputs: tuple[Any, ...], dtype: Any) -> Any:
    """NumPy's dtype=: operands are cast, and the computation is done in that dtype."""
    name = _spelled(ufunc)
    new = dtypes.canonical(dtype)
    operands = [METHODS["asarray"](x) for x in inputs]
    for x in operands:
        if not x.weak_type and not np.can_cast(x.dtype, new, "same_kind"):
            raise DTypeError(
                f"{name}: dtype={new.name} must hold the kind of {x.aval}. Cast it with astype."
            )
    result = fn(*[convert(x, new) for x in operands])
    if isinstance(result, tuple) or result.dtype != new:
        raise DTypeError(
            f"{name}: dtype={new.name} must be the dtype of the result. Leave dtype out, and cast "
            "the result with astype."
        )
    return result


def _reduce(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    fn = _REDUCTIONS.get(ufunc)
    if out is None and fn is not None:
        options = {"axis": 0, **options}
        if _takes(fn, options):
            return fn(*inputs, **options)
    return _by_numpy(ufunc, "reduce", inputs, out, options, repair=_LOOP)


def _accumulate(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    fn = _ACCUMULATIONS.get(ufunc)
    if out is None and fn is not None:
        options = {"axis": 0, **options}
        if _takes(fn, options):
            return fn(*inputs, **options)
    return _by_numpy(ufunc, "accumulate", inputs, out, options, repair=_LOOP)


_LOOP = "Write it with mgefn.numpy, or with mgefn.lax.reduce or mgefn.lax.scan."


def _outer(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    if _function_of(ufunc) is None or out is not None:
        return _by_numpy(ufunc, "outer", inputs, out, options)
    a, b = (METHODS["asarray"](x) for x in inputs)
    return _call(ufunc, (reshape(a, a.shape + (1,) * len(b.shape)), b), None, options)


# The method of x.at[...] that does what ufunc.at does.
_UPDATES = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.power: "power",
    np.minimum: "min",
    np.maximum: "max",
}


def _at(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    target = inputs[0]
    name = _spelled(ufunc, "at")
    update = _UPDATES.get(ufunc)
    instead = "x = x.at[indices].set(...)"
    if update is not None:
        instead = f"x = x.at[indices].{update}(values)"
    elif ufunc.nin == 1:
        instead = f"x = x.at[indices].apply({_spelled(ufunc)})"
    if isinstance(target, Array):
        raise ArgumentError(
            f"{name}: would write into {target.aval}, and mgefn arrays are immutable. Write "
            f"{instead}."
        )
    traced = _first_traced(inputs)
    if traced is not None:
        raise TracerArrayConversionError(
            f"{name}: a NumPy array can't take {_seen(traced)}. Make it an array with "
            f"mgefn.numpy.asarray and write {instead}."
        )
    return ufunc.at(target, *_for_numpy(inputs[1:], True))


def _reduceat(
    ufunc: Any, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, options: dict[str, Any]
) -> Any:
    repair = "Sum slices, or add with x.at[segments].add(values) where it sums."
    return _by_numpy(ufunc, "reduceat", inputs, out, options, repair=repair)


_HOW: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _at,
    "reduceat": _reduceat,
}


def _bitwise(name: str, reduction: Callable[..., Any], of: Callable[..., Any]) -> Any:
    """`reduction`, which takes axes as jax.lax does, with NumPy's axis and keepdims."""

    def reduce(a: Any, axis: Axis = 0, keepdims: bool = False) -> Any:
        x = of(a)
        axes = normalize_axes(name, axis, len(x.shape))
        y = reduction(x, axes)
        return reductions.restore_axes(y, x, axes, keepdims)

    return reduce


def _asarray(x: Any) -> Any:
    return METHODS["asarray"](x)


# ufunc -> what its method `reduce` is; each takes NumPy's options by name, as far as it has them.
_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.fmax: reductions.nanmax,
    np.fmin: reductions.nanmin,
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
    np.logical_xor: _bitwise("logical_xor.reduce", reduce_xor, truth),
    np.bitwise_and: _bitwise("bitwise_and.reduce", reduce_and, _asarray),
    np.bitwise_or: _bitwise("bitwise_or.reduce", reduce_or, _asarray),
    np.bitwise_xor: _bitwise("bitwise_xor.reduce", reduce_xor, _asarray),
    np.logaddexp: logsumexp,
}


def _along(fn: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Any, axis: int = 0) -> Any:
        return fn(_asarray(a), axis)

    return accumulate


_ACCUMULATIONS: dict[Any, Callable[..., Any]] = {
    np.add: cumulative.cumsum,
    np.multiply: cumulative.cumprod,
    np.maximum: _along(cumulative.cummax_along),
    np.minimum: _along(cumulative.cummin_along),
    np.logaddexp: _along(cumulative.cumlogsumexp_along),
}


# -- NEP 18: functions ----------------------------------------------------------------------------

# Parameters that have another name here: function -> NumPy's name -> ours.
_RENAMED: dict[str, dict[str, str]] = {
    "clip": {"a": "arr", "a_min": "min", "a_max": "max"},
    "imag": {"val": "x"},
    "real": {"val": "x"},
    "matrix_rank": {"A": "M"},
    "tensordot": {"x1": "a", "x2": "b"},
}

# Parameters that our function need not have, and the values of them that change nothing here.
_HARMLESS: dict[str, Callable[[Any], bool]] = {
    "subok": lambda v: True,
    "casting": lambda v: v in ("same_kind", "unsafe"),
    "order": lambda v: v in ("K", "C", "A", "F"),
    "kind": lambda v: True,  # how to sort or to search
}

# Functions that write into their first argument, and what gives the changed copy.
_IN_PLACE: dict[str, str] = {
    "copyto": "x = mgefn.numpy.where(condition, values, x)",
    "fill_diagonal": "x = x.at[mgefn.numpy.diag_indices_from(x)].set(values)",
    "place": "x = mgefn.numpy.where(condition, values, x)",
    "put": "x = mgefn.numpy.put(x, indices, values, inplace=False)",
    "put_along_axis": "x = mgefn.numpy.put_along_axis(x, indices, values, axis, inplace=False)",
    "putmask": "x = mgefn.numpy.where(condition, values, x)",
}


# Functions that call the user's function, which must not run a second time.
_CALLS_BACK = frozenset(("apply_along_axis", "apply_over_axes", "piecewise"))

_REFUSED = object()

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters
    except (ValueError, TypeError):  # C code without a signature
        return {}


_TAKEN: dict[Callable[..., Any], frozenset[str]] = {}


def _takes(fn: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Has the function parameters of all these names?"""
    if not options:
        return True
    known = _TAKEN.get(fn)
    if known is None:
        if len(_TAKEN) >= 1024:
            _TAKEN.clear()
        known = _TAKEN[fn] = frozenset(_parameters(fn))
    return options.keys() <= known


class _Counterpart:
    """Our function for one of NumPy's, and how arguments of the one become those of the other."""

    __slots__ = ("fn", "names", "numpy_names", "open", "plain", "renamed", "variadic")

    def __init__(self, func: Callable[..., Any], fn: Callable[..., Any]):
        self.fn = fn
        self.renamed = _RENAMED.get(func.__name__, {})
        ours, theirs = _parameters(fn), _parameters(func)
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in ours.values())
        self.open = any(p.kind is p.VAR_KEYWORD for p in ours.values())  # pad's **kwargs
        self.names = frozenset(n for n, p in ours.items() if p.kind not in _VARIADIC)
        by_place = [n for n, p in ours.items() if p.kind in positional]
        self.numpy_names = [n for n, p in theirs.items() if p.kind in positional]
        # So many leading arguments mean the same in both and stay without a name.
        self.plain = len(by_place)
        for i, (name, mine) in enumerate(zip(self.numpy_names, by_place, strict=False)):
            needed = theirs[name].default is inspect.Parameter.empty
            if not needed and self.renamed.get(name, name) != mine:
                self.plain = i
                break

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | str:
        """Our arguments, or the name of one that our function does not take."""
        given = kwargs
        if len(args) > self.plain and not self.variadic:
            names = self.numpy_names[self.plain : len(args)]
            if len(names) < len(args) - self.plain:
                return f"{len(args)} positional arguments"
            given = {**dict(zip(names, args[self.plain :], strict=True)), **kwargs}
            args = args[: self.plain]
        taken: dict[str, Any] = {}
        for numpy_name, value in given.items():
            name = self.renamed.get(numpy_name, numpy_name)
            if value is np._NoValue:
                continue
            if (name in self.names or self.open) and not (name == "out" and value is not None):
                taken[name] = value
            elif value is not None:
                harmless = _HARMLESS.get(name)
                if harmless is None or not harmless(value):
                    return f"{numpy_name}="
        return args, taken


_COUNTERPARTS: dict[Callable[..., Any], _Counterpart | None] = {}


def _counterpart(func: Callable[..., Any]) -> _Counterpart | None:
    if func in _COUNTERPARTS:
        return _COUNTERPARTS[func]
    namespace = _namespace(func.__module__)
    fn = getattr(namespace, func.__name__, None) if namespace is not None else None
    found = None
    if callable(fn) and func.__name__ not in _IN_PLACE:
        found = _Counterpart(func, fn)
    if len(_COUNTERPARTS) >= 1024:
        _COUNTERPARTS.clear()
    _COUNTERPARTS[func] = found
    return found


@method("array_function")
def array_function(
    func: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What a NumPy function gives where an argument is an array of this package."""
    for t in types:
        if not issubclass(t, (Array, np.ndarray)):
            return NotImplemented  # a library that wraps arrays: its turn
    ours = _counterpart(func)
    refused = None
    if ours is not None:
        taken = ours.arguments(args, kwargs)
        if isinstance(taken, str):
            refused = taken
        else:
            try:
                return ours.fn(*taken[0], **taken[1])
            except (ArgumentError, DTypeError):
                # Text, None and other objects are for NumPy; what NumPy refuses too is our error.
                if func.__name__ in _CALLS_BACK or _first_traced((args, kwargs)) is not None:
                    raise
                try:
                    result = func(*_for_numpy(args), **_for_numpy(kwargs))
                except Exception:
                    result = _REFUSED
                if result is _REFUSED:
                    raise
                return _from_numpy(result, (*args, *kwargs.values()))
    name = f"{func.__module__}.{func.__name__}"
    target = args[0] if args else next(iter(kwargs.values()), None)
    instead = _IN_PLACE.get(func.__name__)
    if instead is not None and isinstance(target, Array):
        raise ArgumentError(
            f"{name}: would write into {target.aval}, and mgefn arrays are immutable. Write "
            f"{instead}."
        )
    _refuse_array_out(name, kwargs.get("out"))
    traced = _first_traced((args, kwargs))
    if traced is None:
        result = func(*_for_numpy(args), **_for_numpy(kwargs))
        return _from_numpy(result, (*args, *kwargs.values()))
    if instead is not None:
        raise TracerArrayConversionError(
            f"{name}: a NumPy array can't take {_seen(traced)}. Make it an array with "
            f"mgefn.numpy.asarray and write {instead}."
        )
    if refused == "out=":
        raise TracerArrayConversionError(
            f"{name}: a NumPy array as out can't hold {_seen(traced)}. Use the returned array."
        )
    if refused is not None:
        raise TracerArrayConversionError(
            f"{name}: mgefn's function does not take {refused}, and NumPy can't compute with "
            f"{_seen(traced)}. Leave it out."
        )
    raise TracerArrayConversionError(
        f"{name}: mgefn has no counterpart, and NumPy can't compute with {_seen(traced)}. Write it "
        "with functions of mgefn.numpy, or call it by mgefn.pure_callback, which has no derivative."
    )
