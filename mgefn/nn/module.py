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
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mgefn import dtypes, random, tree
from mgefn import numpy as mnp
from mgefn.api.inspection import eval_shape
from mgefn.api.jit import ShapeDtypeStruct
from mgefn.control.checkpoint import checkpoint
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary

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

    def __call__(self, name: str, module: Module, *inputs: Any, **options: Any) -> Any:
        """Run another module under a name. The same name twice means the same parameters."""
        if not isinstance(module, Module):
            raise ArgumentError(f"{self._path}: {name!r} must be a module, got {module!r}.")
        child = self._child(name, module)
        y = module.forward(child, *inputs, **options)
        if child._new:
            self._new[name] = child._whole_state()
        return y

    def inside(self, module: Module, wrap: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Run another module in the place of this one, its apply wrapped by a transform."""

        def call(params: Params, state: State, key: Any, *xs: Any) -> tuple[Any, State]:
            run = Run(params, state, lambda: key, self.train, self._path)
            y = module.forward(run, *xs, **options)
            return y, run._whole_state()

        y, new = wrap(call)(self._params, self._state, self.key(), *inputs)
        self._new.update(new)
        return y

    # -- machinery -------------------------------------------------------------------------------

    def _found(self, kind: str, values: dict[str, Any], name: str, shape: tuple[int, ...]) -> Any:
        try:
            value = values[name]
        except (KeyError, TypeError):
            what = sorted(values) if isinstance(values, dict) else type(values).__name__
            raise ArgumentError(
                f"{self._path}: needs {kind} {name!r}, got {what}. "
                "Pass what init of the same module gave, params first."
            ) from None
        if np.shape(value) != shape:
            raise ShapeError(
                f"{self._path}: {kind} {name!r} must have shape {shape}, got {np.shape(value)}. "
                "Does it come from another module?"
            )
        return value

    def _child(self, name: str, module: Module) -> Run:
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
        if not isinstance(module, Module):
            raise ArgumentError(f"{self._path}: {name!r} must be a module, got {module!r}.")
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
        return module.forward(self, *inputs, **options)

    def read(self, module: Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        at = len(self.records)
        y = module.forward(self, *inputs, **options)
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
        """
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
        """
        name = type(self).__name__
        for what, value in (("params", params), ("state", state)):
            if not isinstance(value, Mapping):
                raise ArgumentError(
                    f"{name}.apply: {what} must be the dict that init gave, got "
                    f"{type(value).__name__}. Pass params, state, and then the inputs."
                )
        run = Run(params, state, lambda: key, bool(train), name)
        y = self.forward(run, *inputs, **options)
        return y, run._whole_state()


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
