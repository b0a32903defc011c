"""Registered classes, and the import of optree.

optree is imported at the first use, and the registrations made before wait for it. They live in its
namespace "mgefn". `REGISTERED` and optree's registry hold the same classes once it is loaded; both
change under one lock, and never half.
"""

from __future__ import annotations

import atexit
import collections
import os
import threading
import time
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from mgefn import forks
from mgefn.errors import TreeError, api_boundary
from mgefn.tree.keys import GetAttrKey, KeyEntry

T = TypeVar("T")
C = TypeVar("C", bound=type)

NAMESPACE = "mgefn"

# --- Loading optree ------------------------------------------------------------------------------

# The module, from its first use on.
_optree: Any = None
_load_lock = forks.lock()  # held while its thread is started
_registry_lock = forks.lock()  # held while REGISTERED or optree's registry changes
_loading: _Loading | None = None


def load_optree() -> Any:
    """optree, imported at the first call, which enters the waiting registrations.

    In a thread of its own, where no KeyboardInterrupt can cut it short: an extension module whose
    first import is cut short can't be imported again, nor a class be registered twice. A call
    that is interrupted while it waits leaves the thread to the next one.
    """
    global _loading
    while _optree is None:
        with _load_lock:
            if _loading is None:
                _loading = _Loading()
                try:
                    _loading.start()
                except RuntimeError:  # no thread starts any more when the interpreter ends
                    _loading.run()
            thread = _loading
        # An interrupt makes Thread.join and is_alive take the thread for ended in Python 3.11.
        while not thread.ended:
            time.sleep(5e-4)
        if _optree is None:
            _loading = None
            import optree  # noqa: F401  # tells what the thread met
    return _optree


class _Loading(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="mgefn-import", daemon=True)
        self.ended = False

    def run(self) -> None:
        global _optree
        try:
            there = {id(callback) for callback in _exit_callbacks()}
            import optree  # here, because it costs a sixth of `import numpy`

            _at_our_end(there)
            with _registry_lock:
                if _optree is None:  # an interrupt may have had a second thread started
                    for node in REGISTERED.values():
                        _enter(optree, node)
                    _optree = optree
        except ImportError:
            pass  # the caller's own import tells why
        finally:
            self.ended = True


# optree empties its registry when the interpreter ends, that of lists and dicts too. The functions
# that do so are registered while it is imported, and what is registered last runs first: handlers
# of a program that were there before its first pytree would find nothing to be a pytree. So they
# are taken out of Python's list and run by a handler that is registered when mgefn is imported.
_optree_ends: list[Callable[[], Any]] = []


class _Probe:
    """Meets all callbacks of atexit: `unregister` compares each with it, and drops its equals."""

    def __init__(self, taken: Callable[[Any], bool]) -> None:
        self.taken = taken

    def __call__(self) -> None:
        """Nothing: it is never registered itself."""

    def __eq__(self, other: object) -> bool:
        return self.taken(other)

    __hash__ = None  # type: ignore[assignment]  # Python's way to say unhashable


def _exit_callbacks() -> list[Any]:
    found: list[Any] = []
    atexit.unregister(_Probe(lambda callback: bool(found.append(callback))))
    return found


def _at_our_end(there: set[int]) -> None:
    """Take over the functions of extension modules that were registered after those in `there`."""

    def taken(callback: Any) -> bool:
        new = id(callback) not in there and isinstance(callback, types.BuiltinFunctionType)
        # Their `__self__` is pybind11's record: a method of some object may want its arguments.
        new = new and "pybind11" in type(callback.__self__).__module__
        if new:
            _optree_ends.append(callback)
        return new

    atexit.unregister(_Probe(taken))


@atexit.register
def _end() -> None:
    while _optree_ends:
        _optree_ends.pop()()


def _before_fork() -> None:
    """Let the import end: the child would find Python's own lock of the module taken."""
    thread, end = _loading, time.monotonic() + 10.0
    while thread is not None and not thread.ended and time.monotonic() < end:
        time.sleep(5e-4)


def _after_fork_in_child() -> None:
    global _loading
    _loading = None  # a thread that has not ended by then stayed in the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


SEQUENCES = (tuple, list, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict)

# --- Registration --------------------------------------------------------------------------------

_BUILTIN_NODES = frozenset({type(None), *SEQUENCES, *DICTS})


class _Node:
    """What is known of a registered class."""

    __slots__ = ("cls", "field_names", "flatten", "static_names", "unflatten", "with_keys")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        unflatten: Callable[[Any, Iterable[Any]], Any],
        with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None,
        field_names: tuple[str, ...] | None = None,
        static_names: tuple[str, ...] = (),
    ) -> None:
        self.cls = cls
        self.flatten = flatten
        self.unflatten = unflatten
        self.with_keys = with_keys
        # Of a class by register_dataclass: attributes that are children, and the others, which are
        # the metadata. It is made by its constructor, with both as keywords.
        self.field_names = field_names
        self.static_names = static_names


REGISTERED: dict[type, _Node] = {}


def _enter(optree: Any, node: _Node) -> None:
    optree.register_pytree_node(node.cls, node.flatten, node.unflatten, namespace=NAMESPACE)


def _register(operation: str, node: _Node) -> None:
    cls = node.cls
    if not isinstance(cls, type):
        raise TreeError(f"{operation}: needs a class, got {cls!r}. Pass the class itself.")
    with _registry_lock:
        if cls in REGISTERED or cls in _BUILTIN_NODES:
            raise TreeError(
                f"{operation}: a class is registered once, and {cls.__qualname__} is one already. "
                "Remove the second registration."
            )
        if _optree is not None:
            _enter(_optree, node)
        REGISTERED[cls] = node


@api_boundary
def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Make a class a node of pytrees.

    Args:
        nodetype: the class; instances of subclasses stay leaves.
        flatten_func: node -> (children, metadata); the metadata is hashable and comparable.
        unflatten_func: (metadata, children) -> node. It must accept any objects as children.
        flatten_with_keys_func: node -> ((key, child) pairs, metadata), for key paths.
    Raises:
        TreeError: the class is a node already.
    """
    node = _Node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    _register("register_pytree_node", node)


@api_boundary
def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a node with keys of its own; see register_pytree_node.

    Without `flatten_func` the keys are made, and dropped, on each flatten.
    """

    def without_keys(tree: T) -> tuple[Iterable[Any], Any]:
        pairs, metadata = flatten_with_keys(tree)
        return [child for _, child in pairs], metadata

    node = _Node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)
    _register("register_pytree_with_keys", node)


@api_boundary
def register_pytree_node_class(cls: C) -> C:
    """Class decorator: a node by its methods tree_flatten(self), giving (children, metadata), and
    tree_unflatten(metadata, children), a class method.
    """
    node = _Node(cls, _method("tree_flatten"), cls.tree_unflatten, None)
    _register("register_pytree_node_class", node)
    return cls


@api_boundary
def register_pytree_with_keys_class(cls: C) -> C:
    """Class decorator: as register_pytree_node_class, with tree_flatten_with_keys(self) too.

    tree_flatten may be left out.
    """
    plain = _method("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls,
        _method("tree_flatten_with_keys"),
        cls.tree_unflatten,
        plain,
    )
    return cls


def _method(name: str) -> Callable[[Any], Any]:
    return lambda node: getattr(node, name)()


@api_boundary
def register_static(cls: C) -> C:
    """Class decorator: instances are nodes without children, part of the structure.

    The class must be hashable and comparable: a treedef compares the instances.
    """
    _register("register_static", _Node(cls, lambda x: ((), x), lambda x, _: x, None))
    return cls


@api_boundary
def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a dataclass a node; also a class decorator.

    Args:
        nodetype: a dataclass, or a class whose constructor takes the fields as keywords.
        data_fields: names of the attributes that are children.
        meta_fields: names of those that are part of the structure: static, hashable. When both are
            None, a field made by dataclasses.field(metadata={"static": True}) is one of these, and
            the others are data.
        drop_fields: names of those that are not kept.
    Returns:
        The class.
    Raises:
        TreeError: a field is missing from the lists, named twice or unknown.
    """
    fields = getattr(nodetype, "__dataclass_fields__", None)
    # The names of pseudo-fields (ClassVar, InitVar) have another _field_type.
    real = {
        name: field
        for name, field in (fields or {}).items()
        if field.init and field._field_type.name == "_FIELD"
    }
    if data_fields is None and meta_fields is None:
        if fields is None:
            raise TreeError(
                f"register_dataclass: {nodetype.__qualname__} is no dataclass, so data_fields and "
                "meta_fields are needed. Name them, or decorate it with dataclass first."
            )
        meta_fields = [name for name, field in real.items() if field.metadata.get("static", False)]
        data_fields = [name for name in real if name not in meta_fields and name not in drop_fields]
    if data_fields is None or meta_fields is None:
        raise TreeError(
            "register_dataclass: data_fields and meta_fields go together, got one. Pass both."
        )
    data, meta = tuple(data_fields), tuple(meta_fields)
    named = [*data, *meta, *drop_fields]
    if len(set(named)) != len(named):
        raise TreeError(
            f"register_dataclass: each field must be named once, got {named}. Remove one."
        )
    if fields is not None and set(named) - set(drop_fields) != set(real) - set(drop_fields):
        wrong = sorted(set(named).symmetric_difference(real) - set(drop_fields))
        raise TreeError(
            f"register_dataclass: data_fields, meta_fields and drop_fields must name the fields of "
            f"{nodetype.__qualname__}, {list(real)}; they differ in {wrong}. Correct the lists."
        )
    keys = tuple(GetAttrKey(name) for name in data)

    def flatten_node(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children = tuple([getattr(node, name) for name in data])
        return children, tuple([getattr(node, name) for name in meta])

    def flatten_with_keys(node: Any) -> tuple[list[tuple[KeyEntry, Any]], tuple[Any, ...]]:
        children, metadata = flatten_node(node)
        return list(zip(keys, children, strict=True)), metadata

    def unflatten_node(metadata: tuple[Any, ...], children: Iterable[Any]) -> Any:
        values = dict(zip(meta, metadata, strict=True))
        values.update(zip(data, children, strict=True))
        return nodetype(**values)

    _register(
        "register_dataclass",
        _Node(nodetype, flatten_node, unflatten_node, flatten_with_keys, data, meta),
    )
    return nodetype
