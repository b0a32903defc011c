"""Functions that are made by a call, such as schedules and optimizers, and remember the call.

A closure can't be pickled, nor compared with its like. A function whose maker is decorated with
`maker` can: what is pickled is the call that made it, and two calls of equal arguments make equal
functions. So modules, optimizers and training states go to other processes as they are, and a new
`nn.initializers.normal(0.02)` does not have a model that is a static argument traced again.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from mgefn.core.array import ConcreteArray
from mgefn.errors import ArgumentError, api_boundary, leave_api, refused_call, refused_function
from mgefn.tree.exact import exact

__all__ = ["Made", "Recipe", "maker", "recipe_of", "shown"]

P = ParamSpec("P")
R = TypeVar("R")


class Recipe:
    """A call, by which its result can be made again.

    Args:
        function: what was called; a name of its module, so that it can be pickled.
        args, kwargs: its arguments.
    """

    __slots__ = ("_key", "_result", "args", "function", "kwargs")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self._key: Any = None
        self._result: Any = None

    @property
    def key(self) -> Any:
        """What equal calls have in common; the recipe's own identity, where it can't be told."""
        if self._key is None:
            try:
                key = (self.function, *map(_kept, self._arguments()))
                hash(key)
            except (TypeError, ValueError):  # an array of NumPy's, an object that changes
                key = id(self)
            self._key = key
        return self._key

    def _arguments(self) -> tuple[Any, Any]:
        """(args, kwargs) with defaults, so that it does not matter how a call is written."""
        bound = inspect.signature(self.function).bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.args, tuple(sorted(bound.kwargs.items()))

    def part(self, name: str) -> Any:
        """The function of a name in what the call gives; "" for all of it."""
        if self._result is None:
            self._result = self.function(*self.args, **self.kwargs)
        return getattr(self._result, name) if name else self._result

    def __reduce__(self) -> Any:
        return Recipe, (self.function, self.args, self.kwargs)

    def __repr__(self) -> str:
        given = [shown(x) for x in self.args]
        name = self.function.__name__
        if _owner(self.function):  # of a method the first one is its object
            name = f"{given.pop(0)}.{name}"
        given += [f"{key}={shown(x)}" for key, x in self.kwargs.items()]
        return f"{name}({', '.join(given)})"


def _owner(fun: Callable[..., Any]) -> str:
    """The class of a method; "" for a function."""
    return fun.__qualname__.split("<locals>.")[-1].rpartition(".")[0]


def _kept(x: Any) -> Any:
    """What tells the value apart: `exact`, also of containers, which are the recipe's own."""
    cls = type(x)
    if isinstance(x, (tuple, list)):
        return cls, tuple([_kept(i) for i in x])
    if cls is dict:
        return cls, tuple([(_kept(key), _kept(value)) for key, value in x.items()])
    if cls is set:
        return cls, frozenset([_kept(i) for i in x])
    if cls is functools.partial:
        return cls, _kept(x.func), _kept(x.args), _kept(x.keywords)
    if cls is ConcreteArray:  # one of NumPy's may change, and equals none but itself
        return cls, x.aval, x._data.tobytes()
    return exact(x)


def _owned(x: Any) -> Any:
    """The value, with copies of the containers that its owner may change afterwards."""
    cls = type(x)
    if cls is list or cls is tuple:
        return cls([_owned(i) for i in x])
    if cls is dict:
        return {key: _owned(value) for key, value in x.items()}
    return set(x) if cls is set else x


def shown(x: Any) -> str:
    """The repr of an argument; of a function its name, also inside of containers."""
    if type(x) is dict:
        return f"{{{', '.join(f'{key!r}: {shown(value)}' for key, value in x.items())}}}"
    if type(x) in (tuple, list):
        body = ", ".join(map(shown, x))
        return f"[{body}]" if type(x) is list else f"({body},)" if len(x) == 1 else f"({body})"
    if isinstance(x, types.MethodType):
        return f"{x.__self__!r}.{x.__name__}"
    if isinstance(x, (types.FunctionType, types.BuiltinFunctionType, type)):
        return x.__qualname__.split("<locals>.")[-1]
    return repr(x)


class Made:
    """A function that remembers the call which made it.

    Args:
        fun: the function.
        recipe: the call.
        name: which part of the call's result the function is, "" where it is all of it.
    """

    __qualname__: str  # of an instance: its function's

    def __init__(self, fun: Callable[..., Any], recipe: Recipe, name: str = "") -> None:
        functools.update_wrapper(self, fun)
        self._fun, self._recipe, self._part = fun, recipe, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._fun(*args, **kwargs)
        except BaseException as exc:
            given = self._recipe
            told = refused_call(self._fun, exc, args, kwargs, self._about())
            told = told or refused_function(given.function, exc, given.args, given.kwargs)
            if told is None:
                leave_api(exc)
                raise
        try:
            raise told
        except ArgumentError as exc:
            leave_api(exc)
            raise

    def _about(self) -> str:
        maker = self._recipe.function
        name = _owner(maker) or maker.__name__
        return f"{name}{'.' if self._part else '(...)'}{self._part}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        # What stands in a module under its name, as a decorated function does, is looked up there.
        if _by_name(self) is self:
            return self.__qualname__
        return _made_again, (self._recipe, self._part)

    def __copy__(self) -> Made:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Made:
        return self  # as functions are

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Made):
            return NotImplemented
        return self._part == other._part and self._recipe.key == other._recipe.key

    def __hash__(self) -> int:
        return hash((self._part, self._recipe.key))

    def __repr__(self) -> str:
        return f"{self._recipe!r}{'.' if self._part else ''}{self._part}"


def _made_again(recipe: Recipe, name: str) -> Any:
    return recipe.part(name)


def recipe_of(fun: Any) -> Recipe | None:
    """The call that made a function; None where it is not known."""
    return fun._recipe if isinstance(fun, Made) else None


def _remembered(result: Any, recipe: Recipe) -> Any:
    """The result, with its functions as `Made`."""
    if any(result is x for x in recipe.args) or any(result is x for x in recipe.kwargs.values()):
        return result
    if isinstance(result, tuple) and hasattr(result, "_replace"):
        parts = {n: getattr(result, n) for n in cast(Any, result)._fields}
        new = {n: Made(_plain(x), recipe, n) for n, x in parts.items() if _is_closure(x)}
        return cast(Any, result)._replace(**new)
    return Made(_plain(result), recipe) if _is_closure(result) else result


def _by_name(x: Any) -> Any:
    """What the module of a function holds under the function's name."""
    found: Any = sys.modules.get(x.__module__)
    for name in x.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


def _is_closure(x: Any) -> bool:
    return isinstance(x, Made) or (isinstance(x, types.FunctionType) and _by_name(x) is not x)


def _plain(x: Any) -> Any:
    return x._fun if isinstance(x, Made) else x


def maker(
    fn: Callable[P, R], check: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None
) -> Callable[P, R]:
    """`api_boundary` for a public function that returns functions, or a named tuple of some.

    Args:
        fn: the function.
        check: called with the positional arguments and those by keyword, before fn.
    """
    bounded: Callable[..., R] = api_boundary(fn)
    # In the closure, as the globals below are those of fn.
    leave, remembered, recipe, owned = leave_api, _remembered, Recipe, _owned

    def make(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if check is not None:
                check(args, kwargs)
            # What its function and the recipe hold stays as it is, whoever changes a list later.
            mine, named = owned(args), owned(kwargs)
            return remembered(bounded(*mine, **named), recipe(made, mine, named))
        except BaseException as exc:
            leave(exc)
            raise

    # By its globals doctest tells which module a function belongs to.
    code, cells = make.__code__, make.__closure__
    made: Callable[P, R] = cast(
        "Callable[P, R]", types.FunctionType(code, fn.__globals__, code.co_name, None, cells)
    )
    return functools.wraps(fn)(made)
