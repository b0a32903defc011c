"""Layers as immutable descriptions, and the functions `init` and `apply` that they have.

A module is a frozen dataclass of sizes and settings. It holds no arrays: `init` gives the
parameters and the state as nested dicts, `apply` takes them. What a module computes stands once,
in `forward(run, *inputs)`, which asks `run` for its parameters and calls other modules through it:

    @dataclasses.dataclass(frozen=True)
    class Block(nn.Module):
        features: int

        def forward(self, run, x):
            y = run("conv", nn.Conv2d(None, self.features, 3, padding=1), x)
            y = run("norm", nn.BatchNorm2d(), y)
            return x + nn.relu(y)

`init` reads forward once, with shapes in the place of arrays, and notes what it asks for; then it
draws the starting values. So sizes of inputs need not be given, and forward and init cannot differ.
The numbers of a parameter depend on the key and its path of names, not on what stands beside it.
"""

from __future__ import annotations

import dataclasses
import inspect
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mgefn import dtypes, random, tree
from mgefn import numpy as mnp
from mgefn.api.inspection import eval_shape
from mgefn.api.stages import ShapeDtypeStruct
from mgefn.control.checkpoint import checkpoint
from mgefn.core.array import as_array, described, is_arraylike
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, MissingNameError, ShapeError, api_boundary
from mgefn.nn.checks import check_fields
from mgefn.recipes import shown
from mgefn.suggestions import accepted, explained, unknown_keyword

__all__ = ["Module", "Record", "Run", "apply", "init", "read_plan"]

Params: TypeAlias = "dict[str, Any]"
State: TypeAlias = "dict[str, Any]"
Init: TypeAlias = "Callable[..., Any]"  # (key, shape, dtype) -> array


@dataclasses.dataclass(frozen=True)
class _Value:
    """What a parameter or a piece of state starts as."""

    kind: str  # "param" or "state"
    start: Callable[[Any], Any]  # key -> array


@dataclasses.dataclass(frozen=True)
class _Nested:
    """Parameters and state that a function of a key gives, both dicts."""

    start: Callable[[Any], tuple[Params, State]]


@dataclasses.dataclass(frozen=True)
class Record:
    """One call of a module inside of another, in shapes."""

    path: tuple[str, ...]
    module: Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Any
    depth_of_calls: int


class Run:
    """One reading of a module's forward: what it may ask for.

    Attributes:
        train: whether this is a step of training.
    """

    def __init__(
        self, params: Params, state: State, key: Callable[[], Any], train: bool, path: str
    ) -> None:
        self.train = train
        self._params = params
        self._state = state
        self._new: State = {}
        self._key = key
        self._draws = 0
        self._path = path
        self._inputs: tuple[Any, ...] = ()

    # -- what forward calls ----------------------------------------------------------------------

    def param(self, name: str, init: Init, shape: Any, dtype: DTypeLike | None = None) -> Any:
        """The parameter of a name; it starts as init(key, shape, dtype), in the default float."""
        return self._found("param", self._params, name, tuple(shape))

    def state(self, name: str, init: Init, shape: Any, dtype: DTypeLike | None = None) -> Any:
        """The piece of state of a name, as the last `set_state`, or init at the start, left it."""
        if name in self._new:
            return self._new[name]
        return self._found("state", self._state, name, tuple(shape))

    def set_state(self, name: str, value: Any) -> None:
        """Give a piece of state its next value."""
        self._new[name] = value

    def nested(
        self, name: str, start: Callable[[Any], tuple[Params, State]]
    ) -> tuple[Params, State]:
        """Parameters and state that start as start(key): for modules with rules of their own."""
        return self._params.get(name, {}), self._new.get(name, self._state.get(name, {}))

    def key(self) -> Any:
        """A random key that no other call gets; None where apply got none."""
        key = self._key()
        if key is None:
            return None
        self._draws += 1
        return random.fold_in(key, self._draws - 1)

    def needed_key(self, what: str) -> Any:
        """`key`, for a module of the class `what` that can't do without."""
        key = self.key()
        if key is None:
            raise ArgumentError(
                f"{self.label(what)}: needs a random key when training, got none. Pass "
                "key=random.key(seed) to apply, another one at each step, or train=False."
            )
        return key

    def label(self, what: str) -> str:
        """The path of names to this module and its class, for messages."""
        return what if self._path == what else f"{self._path} ({what})"

    def held_size(self, *path: str, axis: int) -> int | None:
        """The size of a parameter or a piece of state that was given; None at the start.

        Args:
            path: its name, after those of modules inside of this one.
            axis: which dimension.
        """
        for value in (self._params, self._state):
            for name in path:
                value = value.get(name) if isinstance(value, Mapping) else None
            if value is not None and not isinstance(value, Mapping):
                shape = np.shape(value)
                return shape[axis] if -len(shape) <= axis < len(shape) else None
        return None

    def __call__(self, name: str, module: Module, *inputs: Any, **options: Any) -> Any:
        """Run another module under a name. The same name twice means the same parameters."""
        _must_be_module(self._path, name, module)
        child = self._child(name, module)
        y = _forward(module, child, inputs, options)
        if child._new:
            self._new[name] = child._whole_state()
        return y

    def inside(self, module: Module, wrap: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Run another module in the place of this one, its apply wrapped by a transform."""

        def call(params: Params, state: State, key: Any, *xs: Any) -> tuple[Any, State]:
            run = Run(params, state, lambda: key, self.train, self._path)
            y = _forward(module, run, xs, options)
            return y, run._whole_state()

        y, new = wrap(call)(self._params, self._state, self.key(), *inputs)
        self._new.update(new)
        return y

    # -- machinery -------------------------------------------------------------------------------

    def _found(self, kind: str, values: dict[str, Any], name: str, shape: tuple[int, ...]) -> Any:
        try:
            value = values[name]
        except (KeyError, TypeError):
            what = sorted(values) if isinstance(values, Mapping) else type(values).__name__
            repair = "Pass what init of the same module gave, params first."
            if isinstance(values, Mapping) and "params" in values:
                repair = "Pass the parameters themselves, without a dict around them."
            elif kind == "param" and isinstance(self._state, Mapping) and name in self._state:
                repair = "Params and state have changed places: pass params first."
            raise ArgumentError(
                f"{self._path}: needs {kind} {name!r}, got {what}. {repair}"
            ) from None
        if np.shape(value) != shape:
            inputs = ", ".join(str(as_array(x, "").aval) for x in self._inputs if is_arraylike(x))
            raise ShapeError(
                f"{self._path}: {kind} {name!r} must have shape {shape} for inputs ({inputs}), got "
                f"{np.shape(value)}. Pass inputs like those that init saw, or the {kind}s that "
                "init of this very module gives."
            )
        return value

    def _child(self, name: str, module: Module) -> Run:
        if not isinstance(self._params, Mapping):
            raise ArgumentError(
                f"{self._path}: needs a dict of parameters, got {described(self._params)}. Pass "
                "what init of the same module gave, params first."
            )
        i, self._draws = self._draws, self._draws + 1

        def key() -> Any:
            own = self._key()
            return None if own is None else random.fold_in(own, i)

        state = self._new.get(name, self._state.get(name, {}))
        path = f"{self._path}.{name}"
        return Run(self._params.get(name, {}), state, key, self.train, path)

    def _whole_state(self) -> State:
        return {**self._state, **self._new}


class _Plan(Run):
    """A reading with shapes, which notes what forward asks for."""

    def __init__(self, path: tuple[str, ...], label: str, records: list[Record]) -> None:
        super().__init__({}, {}, lambda: None, False, label)
        self.nodes: dict[str, _Value | _Nested | _Plan] = {}
        self.modules: dict[str, Module] = {}
        self.names = path
        self.records = records

    def _noted(self, name: str, node: Any) -> None:
        old = self.nodes.get(name)
        if old is not None and (
            type(old) is not type(node) or getattr(old, "kind", "") != getattr(node, "kind", "")
        ):
            raise ArgumentError(f"{self._path}: {name!r} names two things. Rename one.")
        self.nodes.setdefault(name, node)

    def _value(self, kind: str, name: str, init: Init, shape: Any, dtype: Any) -> Any:
        sizes = tuple(shape)
        dt = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
        self._noted(name, _Value(kind, lambda key: init(key, sizes, dt)))
        return mnp.zeros(sizes, dt)

    def param(self, name: str, init: Init, shape: Any, dtype: DTypeLike | None = None) -> Any:
        return self._value("param", name, init, shape, dtype)

    def state(self, name: str, init: Init, shape: Any, dtype: DTypeLike | None = None) -> Any:
        return self._value("state", name, init, shape, dtype)

    def set_state(self, name: str, value: Any) -> None:
        """Nothing: what counts is the start."""

    def nested(
        self, name: str, start: Callable[[Any], tuple[Params, State]]
    ) -> tuple[Params, State]:
        self._noted(name, _Nested(start))
        shapes = eval_shape(start, random.key(0))
        return tree.map(lambda s: mnp.zeros(s.shape, s.dtype), shapes)

    def __call__(self, name: str, module: Module, *inputs: Any, **options: Any) -> Any:
        _must_be_module(self._path, name, module)
        if self.modules.setdefault(name, module) != module:
            raise ArgumentError(
                f"{self._path}: {name!r} names two different modules, {self.modules[name]} and "
                f"{module}. Rename one; the same module twice shares its parameters."
            )
        plan = self.nodes.get(name)
        if not isinstance(plan, _Plan):
            plan = _Plan((*self.names, name), f"{self._path}.{name}", self.records)
        self._noted(name, plan)
        return plan.read(module, inputs, options)

    def inside(self, module: Module, wrap: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        return _forward(module, self, inputs, options)

    def read(self, module: Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        at = len(self.records)
        y = _forward(module, self, inputs, options)
        calls = len(self.records) - at
        record = Record(self.names, module, _structs(inputs), _structs(options), _structs(y), calls)
        self.records.insert(at, record)
        return y

    def values(self, key: Any) -> tuple[Params, State]:
        params: Params = {}
        state: State = {}
        for name, node in self.nodes.items():
            own = random.fold_in(key, zlib.crc32(name.encode()))
            if isinstance(node, _Value):
                (params if node.kind == "param" else state)[name] = node.start(own)
                continue
            p, s = node.values(own) if isinstance(node, _Plan) else node.start(own)
            # Modules without parameters, such as Dropout, leave no empty dicts.
            if p:
                params[name] = p
            if s:
                state[name] = s
        return params, state


def _must_be_module(path: str, name: Any, module: Any) -> None:
    if not isinstance(name, str):
        shown_name = str(name) if isinstance(name, Module) else described(name)
        raise ArgumentError(
            f"{path}: run needs a name before the module, got {shown_name}. Write run('name', "
            "module, x); parameters are found by that name."
        )
    if isinstance(module, Module):
        return
    if isinstance(module, type) and issubclass(module, Module):
        raise ArgumentError(
            f"{path}: {name!r} must be a module, got the class {module.__name__}. Make one: "
            f"{module.__name__}(...)."
        )
    raise ArgumentError(f"{path}: {name!r} must be a module, got {module!r}.")


def _forward(module: Module, run: Run, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """module.forward, which tells what it takes where it is called with something else."""
    run._inputs = inputs
    try:
        return module.forward(run, *inputs, **options)
    except TypeError as exc:
        refused = exc
    # Without a frame below this one, forward was not entered.
    traceback = refused.__traceback__
    if type(refused) is TypeError and traceback is not None and traceback.tb_next is None:
        about = run.label(type(module).__name__)
        signature = inspect.signature(type(module).forward).parameters.values()
        first, *rest = [str(p).split(":")[0] for p in list(signature)[1:]] or [""]
        if first != "run" and len(rest) < len(inputs):
            own = ", ".join(n for n in (first, *rest) if n)
            raise ArgumentError(
                f"{about}: forward must take run before its inputs, got forward(self, {own}). "
                f"Write forward(self, run, {own})."
            ) from None
        names = [n for n in accepted(type(module).forward) or () if n != "run"]
        unknown = [n for n in options if n not in names]
        if unknown and explained(type(module).forward, refused):
            kept = [*names, "key", "train"]
            raise ArgumentError(unknown_keyword(about, unknown[0], kept)) from None
        if names and not unknown:
            raise ArgumentError(
                f"{about}: forward takes ({', '.join(rest)}), got {len(inputs)} inputs"
                f"{' and ' + ', '.join(options) if options else ''}. Pass the inputs after the "
                "key of init, or after params and state of apply."
            ) from None
    raise refused


def _check_key(about: str, key: Any) -> None:
    """Raise where something else stands in the place of a random key."""
    dtype = getattr(key, "dtype", None)
    if isinstance(dtype, np.dtype) and not isinstance(key, Mapping):
        shape = np.shape(key)
        if dtypes.is_key(dtype) and shape == ():
            return
        if dtype == np.uint32 and shape == (2,):  # the words of one, as JAX's older keys
            return
    got = described(key)
    if isinstance(key, (Mapping, tuple)):
        got += ", as if it were parameters"
    raise ArgumentError(
        f"{about}: key must be a random key, got {got}. Pass mgefn.random.key(0), and inputs after "
        "it."
    )


def _structs(x: Any) -> Any:
    """Arrays as shapes and dtypes; what is no array stays."""

    def struct(leaf: Any) -> Any:
        if isinstance(leaf, (Array, np.ndarray, np.generic)) or hasattr(leaf, "aval"):
            return ShapeDtypeStruct(np.shape(leaf), leaf.dtype)
        return leaf

    return tree.map(struct, x)


def read_plan(module: Module, inputs: Any, options: dict[str, Any]) -> _Plan:
    """What a module asks for, given the shapes of its inputs."""
    label = type(module).__name__
    plans: list[_Plan] = []
    # Numbers become arrays here, so that only shapes count.
    shapes = tree.map(
        lambda x: x if isinstance(x, ShapeDtypeStruct) else _structs(mnp.asarray(x)), inputs
    )

    def read(*xs: Any) -> Any:
        plan = _Plan((), label, [])
        plans.append(plan)
        return plan.read(module, xs, options)

    eval_shape(read, *shapes)
    return plans[-1]


def _described(module: Any) -> str:
    """The call that makes a module like this one: fields that are not at their defaults."""
    if not dataclasses.is_dataclass(module):
        return object.__repr__(module)
    given = []
    for field in dataclasses.fields(module):
        value = getattr(module, field.name, field.default)
        # Of one type, as 1, 1.0 and True are equal; == of others may give an array.
        kept = isinstance(value, (bool, int, float, str, tuple)) and type(value) is type(
            field.default
        )
        if not (value is field.default or (kept and value == field.default)) and field.repr:
            given.append(f"{field.name}={shown(value)}")
    return f"{type(module).__qualname__}({', '.join(given)})"


def _undecorated(cls: type) -> tuple[str, ...]:
    """Fields that a class declares and its constructor does not take, for want of a decorator."""
    for base in cls.__mro__:
        if base is Module or "__init__" in base.__dict__:
            return ()  # it takes what it says, and what classes below it declare
        own = inspect.get_annotations(base)
        names = [n for n, kind in own.items() if "ClassVar" not in str(kind)]
        if names and "__dataclass_fields__" not in base.__dict__:
            return tuple(names)
    return ()


class Module:
    """A layer or a model: a description that knows how to start and how to compute.

    Subclasses are frozen dataclasses that define `forward(run, *inputs, **options)`; see `Run` for
    what `run` offers. Modules compare equal by their fields and can be static arguments of `jit`.

    Example:
        >>> layer = mgefn.nn.Linear(None, 3)
        >>> params, state = layer.init(mgefn.random.key(0), mnp.ones((2, 4)))
        >>> mgefn.tree.map(lambda p: p.shape, params)
        {'weight': (3, 4), 'bias': (3,)}
        >>> y, state = layer.apply(params, state, mnp.ones((2, 4)))
        >>> y.shape
        (2, 3)
    """

    @api_boundary
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Tell what the constructor takes, also that of a subclass outside of this library."""
        fields = cls.__dict__.get("_undecorated")
        if fields is None:
            fields = cls._undecorated = _undecorated(cls)
        given = args or kwargs
        if fields and (given or any(not hasattr(cls, name) for name in fields)):
            raise ArgumentError(
                f"{cls.__qualname__}: must be a dataclass to take {', '.join(fields)}, got a class "
                "without the decorator. Decorate it with @dataclasses.dataclass(frozen=True)."
            )
        if given and cls.__init__ is object.__init__:
            raise ArgumentError(
                f"{cls.__qualname__}: takes no arguments, got {len(args) + len(kwargs)}. Declare "
                "fields, and decorate the class with @dataclasses.dataclass(frozen=True)."
            )
        if kwargs:
            names = accepted(cls.__init__)
            unknown = [name for name in kwargs if name not in (names or kwargs)]
            if unknown:
                raise ArgumentError(unknown_keyword(cls.__qualname__, unknown[0], names or ()))
        return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # In the class itself, where it keeps dataclass from writing one.
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _described  # type: ignore[method-assign]  # dataclass would write one

    if not TYPE_CHECKING:  # type checkers take a class with __getattr__ to have every name

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed, whose own error tells why
                return object.__getattribute__(self, name)
            raise MissingNameError(type(self).__name__, "module", name, tuple(dir(self)))

    def __post_init__(self) -> None:
        """Look at the sizes and probabilities that a layer of this library is made with."""
        check_fields(self, "mgefn.nn")

    def forward(self, run: Run, *inputs: Any, **options: Any) -> Any:
        """The output; to be defined by a subclass."""
        raise ArgumentError(
            f"{type(self).__name__}: defines no forward(run, *inputs). Define it: it says what "
            "the module computes."
        )

    @api_boundary
    def init(self, key: ArrayLike, *inputs: Any, **options: Any) -> tuple[Params, State]:
        """Parameters and state to start with.

        Args:
            key: random key.
            *inputs: examples; only their shapes and dtypes count, and `ShapeDtypeStruct` will do.
            **options: passed on to forward.

        Returns:
            (params, state): nested dicts of arrays by name. What is learned stands in params; what
            a step of training leaves behind, such as running means, in state.

        Raises:
            ArgumentError: key is no random key, or forward does not take such inputs.
        """
        _check_key(f"{type(self).__name__}.init", key)
        return read_plan(self, inputs, options).values(key)

    @api_boundary
    def apply(
        self,
        params: Params,
        state: State,
        *inputs: Any,
        key: ArrayLike | None = None,
        train: bool = False,
        **options: Any,
    ) -> tuple[Any, State]:
        """The output for inputs, and the state afterwards.

        Args:
            params, state: as `init` gave them, or as training has changed them.
            *inputs: those of forward.
            key: random key, for modules that draw numbers when training.
            train: whether this is a step of training. It is static under jit.
            **options: passed on to forward.

        Returns:
            (output, state), the state of the structure it had.

        Raises:
            ArgumentError: params or state are not what init gave, a key is needed, or forward does
                not take such inputs. ShapeError: inputs have not the sizes that params are for.
        """
        name = type(self).__name__
        for what, value in (("params", params), ("state", state)):
            if not isinstance(value, Mapping):
                pair = isinstance(value, tuple) and len(value) == 2 and what == "params"
                raise ArgumentError(
                    f"{name}.apply: {what} must be the dict that init gave, got "
                    f"{'the pair (params, state)' if pair else described(value)}. "
                    + (
                        "Take it apart: params, state = module.init(key, x)."
                        if pair
                        else "Pass params, state, and then the inputs: apply(params, state, x)."
                    )
                )
        if key is not None:
            _check_key(f"{name}.apply", key)
        run = Run(params, state, lambda: key, bool(train), name)
        y = _forward(self, run, inputs, options)
        return y, run._whole_state()

    @api_boundary
    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Not to be called: an error that tells what is."""
        name = type(self).__name__
        raise ArgumentError(
            f"{name}: a module holds no parameters and is not called. Call its apply(params, "
            "state, x), or in forward of another module run('name', module, x)."
        )


@api_boundary
def init(module: Module, key: ArrayLike, *inputs: Any, **options: Any) -> tuple[Params, State]:
    """module.init(key, *inputs), as a function."""
    return _checked("init", module).init(key, *inputs, **options)


@api_boundary
def apply(
    module: Module,
    params: Params,
    state: State,
    *inputs: Any,
    key: ArrayLike | None = None,
    train: bool = False,
    **options: Any,
) -> tuple[Any, State]:
    """module.apply(params, state, *inputs), as a function."""
    module = _checked("apply", module)
    return module.apply(params, state, *inputs, key=key, train=train, **options)


def _checked(name: str, module: Any) -> Module:
    if not isinstance(module, Module):
        raise ArgumentError(f"{name}: needs a module, got {module!r}.")
    return module


@dataclasses.dataclass(frozen=True)
class Remat(Module):
    """A module that is computed again in the backward pass instead of keeping its values."""

    layer: Module

    def forward(self, run: Run, *inputs: Any, **options: Any) -> Any:
        """The output of layer."""
        return run.inside(self.layer, checkpoint, *inputs, **options)
