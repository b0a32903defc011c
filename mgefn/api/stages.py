"""A jitted function's programs: one signature of it, and its way to a running program."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from mgefn import dtypes, tree
from mgefn.api.flat import leaves_as_arrays
from mgefn.config import config
from mgefn.core import background
from mgefn.core.array import exact_scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.backends import executable_of, program_on
from mgefn.core.device_array import to_device
from mgefn.core.devices import devices_of
from mgefn.core.interpreter import state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.errors import ArgumentError, TreeError, api_boundary
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.on_device import device_of, evaluate_on


class Entry:
    """One traced signature: the program and how to put its output together."""

    __slots__ = (
        "backend", "donated", "donated_at", "executable", "jaxpr", "kept_at", "no_tangents",
        "on_device", "out_is_leaf", "out_tree", "weak",
    )  # fmt: skip

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        out_tree: Any,
        donated: tuple[bool, ...],
        backend: str | None,
        on_device: bool,
    ):
        self.jaxpr = jaxpr
        self.backend = backend
        self.on_device = on_device  # does it run on a GPU?
        self.out_tree = out_tree
        self.out_is_leaf = out_tree == tree.structure(0)
        self.weak = tuple(a.weak_type for a in jaxpr.out_avals)
        self.no_tangents = any(a.dtype == dtypes.float0 for a in jaxpr.out_avals)
        self.donated = donated
        self.donated_at = [i for i, flag in enumerate(donated) if flag]
        self.kept_at = [i for i, flag in enumerate(donated) if not flag]
        self.executable: Any = None

    def compiled(self) -> Any:
        """The executable, made at the first use."""
        if self.executable is None:
            if self.on_device:
                self.executable = program_on(devices_of("jit", "gpu")[0], self.jaxpr)
            elif self.backend is None:
                self.executable = executable_of(self.jaxpr, donated=self.donated)
            else:
                with config.override(jit_backend=self.backend):
                    self.executable = executable_of(self.jaxpr, donated=self.donated)
        return self.executable


def run_on_device(about: str, name: str, entry: Entry, values: Sequence[Any]) -> tuple:
    """A call on the GPU where arguments or constants are, the first one where none says so."""
    device = device_of(about, [*values, *entry.jaxpr.consts]) or devices_of(about, "gpu")[0]
    moved = tuple([to_device(about, v, device, entry.backend == "cupy") for v in values])
    params = {"jaxpr": entry.jaxpr, "name": name, "inline": False}
    return evaluate_on(device, jit_p, moved, params)


class _Stage:
    """What every stage of a jitted function knows: types of what goes in and comes out."""

    def __init__(self, about: str, entry: Entry, in_tree: Any):
        self._about = about
        self._entry = entry
        self.in_tree = in_tree
        self.out_tree = entry.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as a pytree (args, kwargs)."""
        return tree.unflatten(self.in_tree, self._entry.jaxpr.in_avals)

    @property
    def out_avals(self) -> Any:
        """The types of the output, as a pytree."""
        return tree.unflatten(self.out_tree, self._entry.jaxpr.out_avals)

    @property
    def args_info(self) -> Any:
        """The arguments' shapes and dtypes, as a pytree (args, kwargs) of ShapeDtypeStructs."""
        return tree.unflatten(self.in_tree, _structs(self._entry.jaxpr.in_avals))

    @property
    def out_info(self) -> Any:
        """The output's shapes and dtypes, as a pytree of ShapeDtypeStructs."""
        return tree.unflatten(self.out_tree, _structs(self._entry.jaxpr.out_avals))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return tuple(i for i, flag in enumerate(self._entry.donated) if flag)


def _structs(avals: Iterable[ShapedArray]) -> list[ShapeDtypeStruct]:
    return [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]


class Traced(_Stage):
    """A function as a jaxpr for one signature."""

    def __init__(self, fun_name: str, lowered: Lowered):
        super().__init__(lowered._about, lowered._entry, lowered.in_tree)
        self.fun_name = fun_name
        self._lowered = lowered

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The traced program."""
        return self._entry.jaxpr

    def lower(self) -> Lowered:
        """The program, ready to be compiled."""
        return self._lowered


class Lowered(_Stage):
    """A traced program that has not been compiled for running."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The traced program."""
        return self._entry.jaxpr

    def compiler_ir(self, dialect: str | None = None) -> ClosedJaxpr:
        """The program as the compiler takes it: the jaxpr."""
        return self._entry.jaxpr

    def as_text(self, dialect: str | None = None) -> str:
        """The jaxpr as text."""
        return str(self.jaxpr)

    def cost_analysis(self) -> dict[str, float]:
        """Operations and bytes moved: {"flops": ..., "bytes accessed": ...}."""
        return self._entry.compiled().cost_analysis()

    def compile(self) -> Compiled:
        """The program, ready to run: its kernels are compiled for speed."""
        with config.override(tiered_compilation=False):
            self._entry.compiled()
        background.wait()
        return Compiled(self._about, self._entry, self.in_tree)


class Compiled(_Stage):
    """A compiled program; call it with arguments like those it was lowered for."""

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != self.in_tree:
            difference = tree.structure_difference(
                self.in_tree, in_tree, ("the program", "the call")
            )
            raise TreeError(
                f"{self._about}: the compiled program takes arguments of one structure, but "
                f"{difference}. Call the jitted function for other structures."
            )
        values = leaves_as_arrays(leaves, self._about)
        for i, (v, a) in enumerate(zip(values, self._entry.jaxpr.in_avals, strict=True)):
            if a.weak_type and v.dtype != a.dtype:
                exact = exact_scalar(v, a.dtype, True)
                values[i] = v = v if exact is None else exact
            if v.shape != a.shape or v.dtype != a.dtype:
                raise ArgumentError(
                    f"{self._about}: leaf {i} of the arguments must be {a}, got {v.aval}. Call the "
                    "jitted function for other types."
                )
        if self._entry.on_device and state.current is None:
            outs = run_on_device(self._about, self._about, self._entry, values)
        else:
            outs = jit_p.bind(*values, jaxpr=self._entry.jaxpr, name=self._about, inline=False)
        return tree.unflatten(self.out_tree, outs)

    def cost_analysis(self) -> dict[str, float]:
        """Operations and bytes moved: {"flops": ..., "bytes accessed": ...}."""
        return self._entry.compiled().cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes that a call needs; see compiler/program.py's MemoryAnalysis."""
        return self._entry.compiled().memory_analysis()

    @api_boundary
    def as_text(self, dialect: str | None = None) -> str:
        """The compiled program, one step a line.

        Args:
            dialect: None; or "llvm" or "asm" for the code of its native kernels, "ptx" on a GPU.
        """
        known = (None, "llvm", "asm", "ptx") if self._entry.on_device else (None, "llvm", "asm")
        if dialect not in known:
            raise ArgumentError(
                f"as_text: dialect must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, "
                f"got {dialect!r}. Pass one of them."
            )
        return self._entry.compiled().as_text(dialect)

    def report(self) -> Any:
        """How each step runs: a native kernel, or what else and why; operations and bytes moved.

        Returns:
            A ProgramReport (compiler/report.py), which prints as a table; `native_calls` counts
            the calls from Python into native code.

        Example:
            >>> f = mgefn.jit(lambda x: mnp.tanh(x) * 2)
            >>> f.lower(mnp.ones(3)).compile().report().native_calls
            1
        """
        return self._entry.compiled().report()


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist.

    Example:
        >>> mgefn.eval_shape(mnp.sin, mgefn.ShapeDtypeStruct((3,), "float32"))
        ShapeDtypeStruct(shape=(3,), dtype=float32)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    @api_boundary
    def __init__(
        self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None
    ):
        self.shape = tuple(operator.index(d) for d in shape)
        self.dtype = dtypes.canonical(dtype)
        self.weak_type = weak_type
        self.sharding = sharding

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return ShapedArray(self.shape, self.dtype).size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ShapeDtypeStruct)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        plain = self.dtype.names is None
        name = self.dtype.name if plain else dtypes.short_name(self.dtype)
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name})"
