"""jit: trace once per signature, compile, run.

A signature is what tracing can see: the structure of the arguments, each leaf's shape and dtype
(for a Python number its type), the static values with their types, and the settings that change
traces. The weak type of an Array is not part of it: inside, an Array argument is strong.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mgefn import dtypes, tree
from mgefn.api.containers import is_namedtuple, reader, writer
from mgefn.api.derivatives import abstract
from mgefn.api.flat import FlatFunction, checked_function, leaves_as_arrays
from mgefn.api.placement import with_checked_shardings
from mgefn.api.stages import Entry, Lowered, Traced, run_on_device
from mgefn.config import config
from mgefn.control.programs import widened_inputs
from mgefn.core.array import (
    ConcreteArray,
    DonatedBuffer,
    as_array,
    is_arraylike,
    number_of,
    scalar,
)
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.device_array import DeviceArray, is_on_device
from mgefn.core.devices import Device
from mgefn.core.interpreter import bound_axes, state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.source import Source, current_source, fun_name, place
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    MissingNameError,
    StaticArgumentError,
    api_boundary,
    leave_api,
)
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.staging import trace
from mgefn.tree.exact import exact, shown
from mgefn.tree.registry import REGISTERED

_ON_DEVICE = ("cupy", "gpu", "cuda")  # names of the backend that runs on GPUs
_CACHE_BOUND = 2048  # signatures kept per jitted function; the oldest goes first
_CAN_BE_DONATED = (ConcreteArray, DeviceArray)
_OFTEN = 8  # calls of a signature after which code is written for it


class _Short:
    """What a call of a known signature needs."""

    __slots__ = ("borrowed", "calls", "entry", "order", "read", "settings", "write")

    def __init__(self, entry: Entry, order: list[int] | None, borrowed: bool, settings: Any):
        self.entry = entry
        self.settings = settings  # another thread may put in those of its own meanwhile
        self.order = order  # leaf i of the program is number order[i] of `_walk`
        self.borrowed = borrowed  # is any of the arguments memory that a caller can write?
        self.calls = 0
        # Made for signatures that are met often; see `containers`.
        self.read: Any = None
        self.write: Any = None

    def shorten(self, args: tuple) -> None:
        """Have code written for this signature, where its containers have a short way."""
        self.write = writer(self.entry.out_tree, self.entry.weak)
        self.read = reader(args, self.order)


def _walk(items: Iterable[Any], key: list[Any], arrays: list[Any], buffers: list[Any]) -> bool:
    """Collect shapes and dtypes into `key`, arrays and their memory, in the order they are met.

    False where something is neither a known array nor a plain dict, tuple, list, named tuple,
    registered class or None. Takes a fraction of the time of a flattening, because it need not sort
    dicts.
    """
    for a in items:
        cls = a.__class__
        if cls is ConcreteArray:
            data = a._data
            arrays.append(a)
            buffers.append(data)
            key.append(data.shape)
            key.append(data.dtype)
            continue
        if cls is np.ndarray:
            arrays.append(a)
            buffers.append(a)
            key.append(cls)  # others can write it
            key.append(a.shape)
            key.append(a.dtype)
            continue
        if a is None:
            key.append(None)
            continue
        key.append(cls)
        if cls is dict:
            key.append(tuple(a))
            children: Any = a.values()
        elif cls is tuple or cls is list:
            key.append(len(a))
            children = a
        else:
            children = _children(a, cls, key)
            if children is None:
                return False
        if not _walk(children, key, arrays, buffers):
            return False
    return True


def _children(a: Any, cls: type, key: list[Any]) -> Any:
    """Those of a named tuple or a node of a registered class, else None."""
    node = REGISTERED.get(cls)
    if node is not None:
        children, metadata = node.flatten(a)
        children = tuple(children)
        key.append(exact(metadata))
        key.append(len(children))
        return children
    if not is_namedtuple(cls):
        return None
    key.append(len(a))
    return a


def _numbered(x: Any, count: Iterator[int]) -> Any:
    """The same containers with each leaf replaced by its number in the order of `_walk`."""
    cls = x.__class__
    if cls is dict:
        return {k: _numbered(v, count) for k, v in x.items()}
    if x is None or cls is ConcreteArray or cls is np.ndarray:
        return None if x is None else next(count)
    # What is no dict has its children in one order, and the class does not matter.
    children = x if isinstance(x, (tuple, list)) else REGISTERED[cls].flatten(x)[0]
    return [_numbered(v, count) for v in children]


# All there are, by id. Not through gc.get_objects, which shows tuples that another thread is
# making: that thread then fails with a SystemError.
jitted: weakref.WeakValueDictionary[int, JitFunction] = weakref.WeakValueDictionary()


class JitFunction:
    """A function that `jit` has wrapped; call it as the function itself.

    Attributes:
        lower(*args): the program for these arguments (arrays or ShapeDtypeStructs), to be compiled
            and looked at.
        eval_shape(*args): the output's shapes and dtypes.
        explain_miss(): why the last call had to trace.
        clear_cache(): forget all signatures.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: Sequence[int] | int | None,
        static_argnames: Iterable[str] | str | None,
        donate_argnums: Sequence[int] | int | None,
        donate_argnames: Iterable[str] | str | None,
        keep_unused: bool,
        inline: bool,
        backend: str | None = None,
    ):
        checked_function("jit", fun)
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._name = fun_name(fun)
        self._about = f"jit({self._name})"
        known = _argument_names(fun)
        self._names = known.positional
        self._static_nums, self._static_names = _both_ways(
            self._about, known, static_argnums, static_argnames, "static"
        )
        self._donate_nums, self._donate_names = _both_ways(
            self._about, known, donate_argnums, donate_argnames, "donate"
        )
        if self._static_nums & self._donate_nums or self._static_names & self._donate_names:
            raise ArgumentError(
                f"{self._about}: an argument can't be both static and donated, because a static "
                "one has no memory to give. Drop one of the two."
            )
        self._inline = inline
        if backend not in (None, "cpu", "llvm", "numpy", *_ON_DEVICE):
            raise ArgumentError(
                f"{self._about}: backend must be 'cpu', 'llvm', 'numpy' or 'cupy', got "
                f"{backend!r}. Leave it out for the default."
            )
        self._on_device = backend in _ON_DEVICE
        # "cupy" under each of its names; None: where the arguments are, else as the settings say.
        self._backend = "cupy" if self._on_device else None if backend == "cpu" else backend
        self._plain = not (self._static_nums or self._static_names)
        self._donates = bool(self._donate_nums or self._donate_names)
        self._cache: dict[Any, Any] = {}  # signature -> Entry, or `_WIDENS`
        jitted[id(self)] = self
        # Signatures of calls with arrays as positional arguments and nothing else, for the
        # settings of `_fast_settings`.
        self._fast: dict[Any, _Short] = {}
        self._fast_settings: Any = None
        self._short: _Short | None = None  # one of them that is met often, to be tried first
        # Key of the last traced call, the nearest key known then, and the arguments' paths.
        self._last_miss: tuple[Any, list[str]] | None = None  # signature, names of its leaves

    # -- calling --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            settings = config.trace_key
            if (
                state.current is None
                and self._plain
                and not kwargs
                and settings is self._fast_settings
            ):
                short = self._short
                if short is not None and short.settings is settings:
                    found = short.read(args)
                    if found is not None:
                        return self._run_short(short, *found)
                key: list[Any] = []
                arrays: list[Any] = []
                buffers: list[Any] = []
                if _walk(args, key, arrays, buffers):
                    try:
                        short = self._fast.get(tuple(key))
                    except TypeError:  # metadata that cannot be hashed; the long way complains
                        short = None
                    if short is not None and short.settings is settings:
                        if short.order is not None:
                            arrays = [arrays[i] for i in short.order]
                            buffers = [buffers[i] for i in short.order]
                        short.calls += 1
                        if short.calls == _OFTEN:
                            short.shorten(args)
                        if short.read is not None:
                            self._short = short
                        return self._run_short(short, arrays, buffers)
            return self._general(args, kwargs)
        except BaseException as e:
            leave_api(e)
            raise

    def _general(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        dyn, statics, static_key = self._split(args, kwargs)
        leaves, in_tree = tree.flatten(dyn)
        leaves = [_plain_number(x) for x in leaves]
        if state.current is not None:
            leaves = [_passed_on(x) for x in leaves]
        leaf_keys = [self._leaf_key(x) for x in leaves]
        numbers = any(k is float or k is complex for k in leaf_keys)
        widen = numbers and any(map(_is_wide, leaves))
        # optree compares metadata by ==, for which 1 is 1.0.
        structure = in_tree.spec, in_tree.exact_metadata()
        where = structure, static_key, (config.trace_key, bound_axes())
        captured: list[Tracer] = []
        while True:
            if widen:
                # Beside arrays of 64 bits a Python number keeps its own; it is weak all the same.
                leaves = [_wide_number(x) for x in leaves]
                leaf_keys = [self._leaf_key(x) for x in leaves]
                numbers = widen = False
            key = (tuple(leaf_keys), *where)
            try:
                entry = self._cache.get(key)
            except TypeError as e:  # static arguments were looked at before
                raise StaticArgumentError(
                    f"{self._about}: static fields of the arguments must be hashable, got {e}. Use "
                    "tuples in the place of lists, or make the field a child."
                ) from None
            if entry is None:
                entry, captured = self._trace_entry(key, leaves, in_tree, statics, dyn, numbers)
            if entry is not _WIDENS:
                break
            widen = True
        leaves = [x.array if x.__class__ is _WideNumber else x for x in leaves]
        if entry.on_device and state.current is None:
            values = leaves_as_arrays(leaves, self._about)
            outs = run_on_device(self._about, self._name, entry, values)
            if any(entry.donated):
                self._donate(entry, leaves, [])
            return tree.unflatten(entry.out_tree, outs)
        if state.current is not None:
            values = leaves_as_arrays(leaves, self._about)
            outs = jit_p.bind(
                *captured, *values, jaxpr=entry.jaxpr, name=self._name, inline=self._inline
            )
            return tree.unflatten(entry.out_tree, outs)
        buffers, borrowed = [], False
        for x in leaves:
            if x.__class__ is ConcreteArray:
                buffers.append(x._data)
            else:
                data, mine = _buffer(x, self._about)
                buffers.append(data)
                borrowed = borrowed or not mine
        if self._plain and not kwargs and not entry.no_tangents:
            self._remember_fast(args, entry)
        if any(entry.donated):
            self._donate(entry, leaves, buffers)
        outs = entry.compiled().run(buffers, borrowed)
        if entry.no_tangents:
            # Tangents of integers are NumPy arrays of dtype float0, here as everywhere.
            arrays = [o if o.dtype == dtypes.float0 else ConcreteArray(o) for o in outs]
        else:
            arrays = list(map(ConcreteArray, outs, entry.weak))
        return tree.unflatten(entry.out_tree, arrays)

    def _trace_entry(
        self,
        key: Any,
        leaves: list[Any],
        in_tree: Any,
        statics: Any,
        dyn: Any,
        numbers: bool,
    ) -> tuple[Any, list[Tracer]]:
        """Trace for a new signature, compile, and keep it.

        `numbers`: are some leaves Python numbers in 32 bits? Where the function takes one of them
        to 64 bits, because it closes over arrays of 64, the entry is `_WIDENS`.
        """
        avals = [_traced_aval(x, self._about) for x in leaves]
        donated = self._donated_leaves(dyn, len(leaves))
        started = time.perf_counter()
        entry: Any
        entry, captured = self._trace(avals, in_tree, statics, donated, dyn)
        if numbers and _takes_to_64_bits(entry.jaxpr, len(captured), leaves):
            entry = _WIDENS
        else:
            if state.current is None and not entry.on_device:
                entry.compiled()
            taken = time.perf_counter() - started
            self._last_miss = (key, self._paths(dyn))
            if config.log_compiles:
                print(f"{self.explain_miss()} Took {taken * 1e3:.1f} ms.", file=sys.stderr)
        if not captured:
            if len(self._cache) >= _CACHE_BOUND:
                self._cache.pop(next(iter(self._cache)))
            self._cache[key] = entry
        return entry, captured

    def _remember_fast(self, args: tuple, entry: Entry) -> None:
        """Let calls with these containers and types take the short way."""
        key: list[Any] = []
        arrays: list[Any] = []
        if not _walk(args, key, arrays, []):
            return
        if any(x.__class__ is np.ndarray and _buffer(x, self._about)[0] is not x for x in arrays):
            return  # such arrays are converted at each call
        settings = config.trace_key
        if settings is not self._fast_settings or len(self._fast) >= _CACHE_BOUND:
            self._fast = {}
            self._short = None
            self._fast_settings = settings
        # The walk meets dict entries as they were inserted, the program wants them sorted.
        count = itertools.count()
        order = tree.leaves(_numbered(args, count))
        in_order = order == list(range(len(order)))
        borrowed = any(x.__class__ is np.ndarray for x in arrays)
        self._fast[tuple(key)] = _Short(entry, None if in_order else order, borrowed, settings)
        self._short = None

    def _run_short(self, short: _Short, arrays: list[Any], buffers: list[Any]) -> Any:
        entry = short.entry
        if self._donates:
            self._donate(entry, arrays, buffers)
        outs = entry.executable.run(buffers, short.borrowed)
        if short.write is not None:
            return short.write(outs)
        if entry.out_is_leaf:
            return ConcreteArray(outs[0], entry.weak[0])
        return entry.out_tree.spec.unflatten(map(ConcreteArray, outs, entry.weak))

    def _split(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Dynamic (args, kwargs), static ones by place, and the latter's key."""
        if not (self._static_nums or self._static_names):
            return (args, kwargs), None, None
        static: dict[Any, Any] = {}
        dyn_args = []
        for i, a in enumerate(args):
            if i in self._static_nums or i - len(args) in self._static_nums:
                static[self._names[i] if i < len(self._names) else i] = a
            else:
                dyn_args.append(a)
        dyn_kwargs = {}
        for k, v in kwargs.items():
            if k in self._static_names:
                static[k] = v
            else:
                dyn_kwargs[k] = v
        items = sorted(static.items(), key=lambda kv: str(kv[0]))
        key = tuple((k, _static_key(v, self._about, k)) for k, v in items)
        try:
            hash(key)
        except TypeError:
            for k, v in items:
                try:
                    hash(v)
                except TypeError:
                    raise StaticArgumentError(
                        f"{self._about}: static argument {k!r} must be hashable, got "
                        f"{type(v).__name__}. Pass a tuple or another immutable value, or make the "
                        "argument an array that is traced."
                    ) from None
            raise
        where = (
            tuple(
                sorted(
                    set(range(len(args)))
                    - {
                        i
                        for i in range(len(args))
                        if (i in self._static_nums or i - len(args) in self._static_nums)
                    }
                )
            ),
            len(args),
            tuple(sorted(k for k in kwargs if k in self._static_names)),
        )
        return (tuple(dyn_args), dyn_kwargs), (static, where), (key, where)

    def _join(self, dyn: Any, statics: Any) -> tuple[tuple, dict[str, Any]]:
        dyn_args, dyn_kwargs = dyn
        if statics is None:
            return dyn_args, dyn_kwargs
        static, (places, n, names) = statics
        args: list[Any] = [None] * n
        for i, a in zip(places, dyn_args, strict=True):
            args[i] = a
        for i in range(n):
            if i not in places:
                args[i] = static[self._names[i] if i < len(self._names) else i]
        return tuple(args), {**dyn_kwargs, **{k: static[k] for k in names}}

    def _leaf_key(self, x: Any) -> Any:
        cls = x.__class__
        if cls is _WideNumber:
            return cls, x.array.dtype
        if cls is ConcreteArray:
            return x._data.shape, x._data.dtype
        if cls is DeviceArray:
            return x._data.shape, x.dtype, x.device
        if cls in _PYTHON:
            return cls
        if isinstance(x, Tracer):
            aval = x.aval
            return aval.shape, aval.dtype, aval.weak_type
        if isinstance(x, np.ndarray):
            return x.shape, _input_dtype(x.dtype)
        if isinstance(x, Array):
            return x.shape, x.dtype, cls
        if is_arraylike(x):
            aval = as_array(x, self._about).aval
            return aval.shape, aval.dtype, aval.weak_type
        raise ArgumentError(
            f"{self._about}: arguments must be arrays or pytrees of them, got "
            f"{type(x).__name__} ({x!r:.60}). Mark the argument with static_argnums, or close over "
            "it."
        )

    def _trace(
        self, avals: list[ShapedArray], in_tree: Any, statics: Any, donated: tuple, dyn: Any
    ) -> tuple[Entry, list[Tracer]]:
        fun = self._fun
        join = self._join

        def call(dyn_args: Any, dyn_kwargs: Any) -> Any:
            args, kwargs = join((dyn_args, dyn_kwargs), statics)
            return fun(*args, **kwargs)

        flat = FlatFunction(call, in_tree, self._about)
        closed, captured = trace(flat, avals, self._about, self._name)
        given = (False,) * len(captured) + donated
        on_device = self._on_device or any(map(is_on_device, [*tree.leaves(dyn), *closed.consts]))
        return Entry(closed, flat.out_tree, given, self._backend, on_device), captured

    # -- donation -------------------------------------------------------------------------------

    def _donated_leaves(self, dyn: Any, n_leaves: int) -> tuple[bool, ...]:
        if not (self._donate_nums or self._donate_names):
            return (False,) * n_leaves
        dyn_args, dyn_kwargs = dyn
        kept = [
            i for i in range(len(dyn_args) + len(self._static_nums)) if i not in self._static_nums
        ]
        flags: list[bool] = []
        for place_, a in zip(kept, dyn_args, strict=False):
            flags += [place_ in self._donate_nums] * tree.structure(a).num_leaves
        for k in sorted(dyn_kwargs):
            flags += [k in self._donate_names] * tree.structure(dyn_kwargs[k]).num_leaves
        return tuple(flags)

    def _donate(self, entry: Entry, leaves: list[Any], buffers: list[Any]) -> None:
        """Take the donated arrays' buffers; using one of these arrays again is an error."""
        at = [i for i in entry.donated_at if leaves[i].__class__ in _CAN_BE_DONATED]
        given = {id(leaves[i]) for i in at}
        if len(given) != len(at):
            raise ArgumentError(
                f"{self._about}: one array was passed twice and is donated. Pass a copy."
            )
        if not given.isdisjoint([id(leaves[i]) for i in entry.kept_at]):
            raise ArgumentError(
                f"{self._about}: an array is both donated and passed as another argument. "
                "Pass a copy."
            )
        source = current_source(2)
        for i in at:
            # Raises wherever it is used.
            leaves[i]._data = DonatedBuffer(_donated_message, self._about, i, source)

    # -- looking --------------------------------------------------------------------------------

    def _paths(self, dyn: Any) -> list[str]:
        """What to call each leaf: the argument's name and the way into it."""
        dyn_args, dyn_kwargs = dyn
        places = [i for i in range(len(dyn_args) + len(self._static_nums))
                  if i not in self._static_nums]  # fmt: skip
        names = []
        for i, a in zip(places, dyn_args, strict=False):
            name = self._names[i] if i < len(self._names) else f"argument {i}"
            names += [f"{name}{path}" for path in tree.key_paths(a)]
        for k in sorted(dyn_kwargs):
            names += [f"{k}{path}" for path in tree.key_paths(dyn_kwargs[k])]
        return names

    def _nearest(self, key: Any) -> Any:
        """The other known signature that differs least from this one."""
        best, least = None, 1 << 30
        for old, entry in self._cache.items():
            if old == key or entry is _WIDENS:
                continue
            d = sum(a != b for a, b in zip(old[1:], key[1:], strict=True)) * 1000
            if len(old[0]) == len(key[0]):
                d += sum(a != b for a, b in zip(old[0], key[0], strict=True))
            else:
                d += 500
            if d < least:
                best, least = old, d
        return best

    def explain_miss(self) -> str:
        """Which argument made the last trace necessary, against the nearest known signature.

        Also which native code it needed: code does not depend on sizes, so a new shape of the same
        rank mostly finds it in memory.
        """
        if self._last_miss is None:
            return f"{self._about}: has not been traced yet."
        key, paths = self._last_miss
        # Searched only now: it takes as long as the cache is large.
        old = self._nearest(key)
        made = _origins_told(self._cache.get(key))
        if old is None:
            return f"{self._about}: first call, traced for {_show_leaves(key[0])}.{made}"
        reasons = []
        if key[1][0] != old[1][0]:
            reasons.append("the structure of the arguments differs")
        elif key[1] != old[1]:
            pairs = zip(key[1][1], old[1][1], strict=True)
            new_data, old_data = next((a, b) for a, b in pairs if a != b)
            reasons.append(f"static fields are {shown(new_data)}, were {shown(old_data)}")
        elif len(key[0]) == len(old[0]):
            for i, (new_leaf, old_leaf) in enumerate(zip(key[0], old[0], strict=True)):
                if new_leaf != old_leaf:
                    reasons.append(
                        f"{paths[i]} is {_show_leaf(new_leaf)}, was {_show_leaf(old_leaf)}"
                    )
        if key[2] != old[2]:
            new_statics = dict(key[2][0]) if key[2] else {}
            old_statics = dict(old[2][0]) if old[2] else {}
            for k in sorted({*new_statics, *old_statics}, key=str):
                if new_statics.get(k, _ABSENT) != old_statics.get(k, _ABSENT):
                    reasons.append(
                        f"static argument {k!r} is {_show_static(new_statics, k)}, was "
                        f"{_show_static(old_statics, k)}"
                    )
        if key[3] != old[3]:
            reasons.append("a setting of mgefn.config or a named axis that changes traces differs")
        told = "; ".join(reasons) or "the call differs"
        return f"{self._about}: traced again because {told}.{made}"

    @api_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for these arguments: arrays, numbers, or anything with shape and dtype."""
        dyn, statics, _ = self._split(args, kwargs)
        leaves, in_tree = tree.flatten(dyn)
        leaves = [_plain_number(x) for x in leaves]
        donated = self._donated_leaves(dyn, len(leaves))
        if any(map(_is_wide, leaves)):
            leaves = [_wide_number(x) for x in leaves]
        while True:
            avals = [_lowered_aval(x, self._about) for x in leaves]
            entry, captured = self._trace(avals, in_tree, statics, donated, dyn)
            if not _takes_to_64_bits(entry.jaxpr, len(captured), leaves):
                break
            leaves = [_wide_number(x) for x in leaves]
        if captured:
            raise ArgumentError(
                f"{self._about}: lower can't be called on a function that closes over traced "
                "values. Pass them as arguments."
            )
        return Lowered(self._about, entry, in_tree)

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced program for these arguments; `.jaxpr` is its jaxpr."""
        return Traced(self._name, self.lower(*args, **kwargs))

    @api_boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The output's shapes and dtypes, without computing it."""
        lowered = self.lower(*args, **kwargs)
        return lowered.out_info

    def clear_cache(self) -> None:
        """Forget all signatures and their programs."""
        self._cache.clear()
        self._fast.clear()
        self._short = None
        self._last_miss = None

    def _cache_size(self) -> int:
        return sum(entry is not _WIDENS for entry in self._cache.values())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    if not TYPE_CHECKING:  # type checkers take a class with __getattr__ to have every name

        def __getattr__(self, name: str) -> Any:
            raise MissingNameError("JitFunction", "jitted function", name, tuple(dir(type(self))))

    def __repr__(self) -> str:
        return f"<jit of {self._name}>"


_PYTHON = frozenset((bool, int, float, complex))


_WIDE = frozenset(map(np.dtype, ("float64", "complex128")))


def _is_wide(x: Any) -> bool:
    return getattr(x, "dtype", None) in _WIDE and not getattr(x, "weak_type", False)


def _origins_told(entry: Entry | None) -> str:
    """Where an entry's native code came from, as a sentence; nothing where it has none."""
    origins = getattr(entry and entry.executable, "kernel_origins", dict)()
    if not sum(origins.values()):
        return ""
    return (
        f" Of its {sum(origins.values())} native kernels {origins['compiler']} were compiled, "
        f"{origins['disk']} came from the cache on disk and {origins['memory']} were known."
    )


_WIDENS = object()  # stands in a cache for a signature whose numbers are wanted in 64 bits


def _takes_to_64_bits(closed: ClosedJaxpr, n_captured: int, leaves: Sequence[Any]) -> bool:
    """Does the program convert one of the leaves that are Python numbers to 64 bits?"""
    numbers = (i for i in widened_inputs(closed) if i >= n_captured)
    return any(leaves[i - n_captured].__class__ in (float, complex) for i in numbers)


def _plain_number(x: Any) -> Any:
    """NumPy's scalar of 64 bits as Python's number, which is what it counts as; else x."""
    if x.__class__ is np.float64 or x.__class__ is np.complex128:
        if dtypes.dtype_and_weak(x)[1]:  # not beyond the range of 32 bits
            return x.item()
    return x


def _passed_on(x: Any) -> Any:
    """The Python number that a transformation made an array of, to pass it on; else x."""
    number = number_of(x)
    return number if number.__class__ is float or number.__class__ is complex else x


def _wide_number(x: Any) -> Any:
    """A Python number as a weak array of 64 bits; anything else as it is."""
    if x.__class__ is float:
        return _WideNumber(scalar(x, np.dtype(np.float64), True))
    if x.__class__ is complex:
        return _WideNumber(scalar(x, np.dtype(np.complex128), True))
    return x


class _WideNumber:
    """Marks a weak array that comes from a Python number, and so stays weak inside."""

    __slots__ = ("array",)

    def __init__(self, array: ConcreteArray):
        self.array = array


def _input_dtype(dtype: np.dtype) -> np.dtype:
    return dtypes.canonical(dtype)


def _traced_aval(x: Any, about: str) -> ShapedArray:
    if x.__class__ is _WideNumber:
        return x.array.aval
    if x.__class__ is ConcreteArray:
        return ShapedArray(x._data.shape, x._data.dtype)
    if isinstance(x, np.ndarray):
        return ShapedArray(x.shape, as_array(x[:0] if x.ndim else x, about).dtype)
    return as_array(x, about).aval


def _lowered_aval(x: Any, about: str) -> ShapedArray:
    """As in a call, an Array is strong inside and a Python number weak."""
    if x.__class__ is _WideNumber:
        return x.array.aval
    aval = abstract(x, about)
    return aval.strong() if isinstance(x, Array) else aval


def _buffer(x: Any, about: str) -> tuple[np.ndarray, bool]:
    """An argument's memory, and whether nobody else can write it."""
    if (
        isinstance(x, np.ndarray)
        and not config.narrow_inputs
        and dtypes.canonical(x.dtype) == x.dtype
        and x.dtype.isnative
    ):
        return np.asarray(x), False
    made = as_array(x, about)
    assert isinstance(made, ConcreteArray)
    return made._data, True


def _static_key(v: Any, about: str, name: Any) -> Any:
    """Equal values of different types, such as 1, 1.0 and True, must not share a program."""
    _refuse_arrays(v, about, name)
    return exact(v)


def _refuse_arrays(v: Any, about: str, name: Any) -> None:
    if isinstance(v, tuple):
        for x in v:
            _refuse_arrays(x, about, name)
    elif isinstance(v, Array):
        raise StaticArgumentError(
            f"{about}: static argument {name!r} must be hashable, got the array {v.aval}. Make it "
            "an argument that is traced, or close over it."
        )


_ABSENT = object()


def _show_static(statics: dict[Any, Any], name: Any) -> str:
    return shown(statics[name]) if name in statics else "not given"


def _show_leaf(key: Any) -> str:
    if isinstance(key, type):
        return f"a Python {key.__name__}"
    if key[0] is _WideNumber:
        return f"a Python {'complex' if key[1].kind == 'c' else 'float'} beside 64-bit arrays"
    on = f" on {key[2]}" if len(key) > 2 and isinstance(key[2], Device) else ""
    return f"{dtypes.short_name(key[1])}[{','.join(map(str, key[0]))}]{on}"


def _show_leaves(keys: Any) -> str:
    shown = ", ".join(_show_leaf(k) for k in keys[:12])
    return f"({shown}{', ...' if len(keys) > 12 else ''})"


class _Names(NamedTuple):
    """The arguments of a function: its positional ones, all that it takes by name (None: any name),
    and whether more may come by position."""

    positional: tuple[str, ...]
    accepted: frozenset[str] | None
    takes_more: bool


def _argument_names(fun: Callable[..., Any]) -> _Names:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return _Names((), None, True)
    kinds = {p.kind for p in parameters}
    positional = tuple(
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )
    named = frozenset(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)
    accepted = None if inspect.Parameter.VAR_KEYWORD in kinds else named
    return _Names(positional, accepted, inspect.Parameter.VAR_POSITIONAL in kinds)


def _both_ways(
    about: str, known: _Names, nums: Any, argnames: Any, what: str
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names that mean the same arguments, from either."""
    names, accepted, takes_more = known
    if nums is None:
        positions: set[int] = set()
    else:
        positions = (
            {operator.index(nums)}
            if not isinstance(nums, Iterable)
            else set(map(operator.index, nums))
        )
    if argnames is None:
        found: set[str] = set()
    else:
        found = {argnames} if isinstance(argnames, str) else set(argnames)
    if accepted is not None and found - accepted:
        raise ArgumentError(
            f"{about}: {what}_argnames holds {min(found - accepted)!r}, and the function has the "
            f"arguments {', '.join(sorted(accepted)) or 'none'}. Correct the name."
        )
    if nums is None and found:
        positions |= {i for i, n in enumerate(names) if n in found}
    if argnames is None and positions:
        found |= {names[i] for i in positions if -len(names) <= i < len(names)}
    for i in positions:
        if not -len(names) <= i < len(names) and not (takes_more and (i >= 0 or not names)):
            raise ArgumentError(
                f"{about}: {what}_argnums names argument {i} of a function with {len(names)}. "
                "Count the positional arguments from 0."
            )
    normal = {i + len(names) if i < 0 and names else i for i in positions}
    return frozenset(normal), frozenset(found)


def _donated_message(about: str, i: int, source: Source | None) -> str:
    return (
        f"{about}: argument {i} was donated at {place(source)} and its memory reused. Keep the "
        "returned state, or drop donate_argnums."
    )


@api_boundary
def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function: it is traced once per signature and then runs as one program.

    Args:
        fun: a pure function of arrays, with pytrees in and out. Left out, `jit` gives a decorator.
        in_shardings, out_shardings: how the positional arguments that are not static, and the
            results, are spread over devices: shardings, PartitionSpecs for the mesh of the context,
            None, or trees of them that are prefixes. They are checked; there is one device.
        static_argnums, static_argnames: arguments that are Python values to the function: hashable,
            and each new value is a new signature.
        donate_argnums, donate_argnames: arguments whose memory the outputs may take. A donated
            array can't be used again.
        backend: "cupy" (or "gpu"): on the GPU, where arguments are copied; "llvm" (native code) or
            "numpy" (its kernels one by one) on the CPU; None: on a GPU where an argument is there,
            else what
            `mgefn.config.jit_backend` says.
        keep_unused, device, compiler_options: accepted for JAX's programs.
        inline: dissolve the call into a program that calls it.

    Returns:
        A JitFunction.

    Raises:
        StaticArgumentError: a static argument is not hashable.
        TreeError, ShapeError: shardings do not fit the arguments or results.
        TracerBoolConversionError: the function asks for a value that is not known while tracing.

    Example:
        >>> f = mgefn.jit(lambda x: x * 2 + 1)
        >>> f(mnp.arange(3))
        Array([1, 3, 5], dtype=int32)
    """
    options = (
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        keep_unused,
        inline,
        backend,
    )

    def jitted(f: Callable[..., Any]) -> JitFunction:
        made = JitFunction(f, *options)
        if in_shardings is None and out_shardings is None:
            return made
        checked = with_checked_shardings(
            f"jit({fun_name(f)})", f, made._static_nums, in_shardings, out_shardings
        )
        return JitFunction(checked, *options)

    return api_boundary(jitted) if fun is None else jitted(fun)
