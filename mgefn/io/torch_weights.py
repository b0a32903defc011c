"""Weights of PyTorch: its files, the names that differ, and the layouts of other libraries.

Layers of `mgefn.nn` keep weights in PyTorch's layout and under its names, so most arrays are taken
as they are. What differs are attention, whose projections PyTorch stacks into one array, and the
names inside of its transformer layers. Pickles are read by torch.load(weights_only=True) only,
which makes tensors and plain containers and executes nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import (
    ArgumentError,
    FileFormatError,
    ShapeError,
    TreeError,
    api_boundary,
)
from mgefn.io.files import PathLike, load_arrays
from mgefn.nn.parameters import load_state_dict, state_dict

PICKLES = (".pt", ".pth", ".bin", ".ckpt")


# -- files ----------------------------------------------------------------------------------------


@api_boundary
def load_torch(f: PathLike, key: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file of weights that PyTorch or safetensors wrote, by their names.

    Args:
        f: a .safetensors file, for which torch is not needed, or a .pt, .pth, .bin or .ckpt file,
            which torch itself reads with weights_only=True.
        key: where the state dict stands in a file that holds more, such as "model"; dots go
            deeper.

    Returns:
        {name: NumPy array}; bfloat16 and float8 stay what they are.

    Raises:
        ImportError: a pickle, and torch is not installed. FileFormatError: the file holds something
        else than tensors, or is damaged. ArgumentError: there is no such key.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
        >>> mgefn.io.save({"fc": {"weight": mnp.ones((2, 3))}}, path)
        >>> mgefn.io.load_torch(path)["fc.weight"].shape
        (2, 3)
    """
    if not isinstance(f, (str, os.PathLike)):
        raise ArgumentError(f"load_torch: needs a path, got {type(f).__name__}.")
    path = Path(f)
    what = f"load_torch({path.name})"
    if path.suffix == ".safetensors":
        # mgefn's own files join the names of a tree by "/".
        return {n.replace("/", "."): a for n, a in _below(what, load_arrays(path), key).items()}
    if path.suffix not in PICKLES:
        raise ArgumentError(
            f"{what}: needs a file ending in .safetensors, {', '.join(PICKLES)}. Rename it."
        )
    return {n: _array(what, n, t) for n, t in _below(what, _unpickled(path, what), key).items()}


def _unpickled(path: Path, what: str) -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]  # no dependency of mgefn
    except ImportError:
        raise ImportError(
            f"{what}: needs torch, which reads its pickles. Install it, or write the weights with "
            "safetensors.torch.save_file."
        ) from None
    if not path.exists():
        raise FileNotFoundError(f"{what}: no such file.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as exc:  # torch raises what the pickle module, zipfile and its own code do
        first = str(exc).strip().splitlines() or [type(exc).__name__]
        raise FileFormatError(
            f"{what}: needs tensors in plain dicts, which torch reads with weights_only=True, got "
            f"{type(exc).__name__} ({first[0]}). Save model.state_dict() instead of the model."
        ) from None


def _below(what: str, found: Any, key: str | None) -> Mapping[str, Any]:
    """The dict of arrays at a key, by flat names."""
    if key is not None and isinstance(found, Mapping):
        prefix = f"{key}/"
        flat = {n[len(prefix) :]: a for n, a in found.items() if str(n).startswith(prefix)}
        if flat:
            return flat
    for part in () if key is None else key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            here = sorted(map(str, found)) if isinstance(found, Mapping) else type(found).__name__
            raise ArgumentError(f"{what}: key must be one of the file, got {key!r}, {here} there.")
        found = found[part]
    if not isinstance(found, Mapping):
        raise FileFormatError(
            f"{what}: needs a dict of tensors, got {type(found).__name__}. Save "
            "model.state_dict(), or say with key= where it stands."
        )
    return found


def _array(what: str, name: Any, t: Any) -> np.ndarray:
    if not hasattr(t, "detach"):
        raise FileFormatError(
            f"{what}: needs tensors only, got {type(t).__name__} at {name!r}. Say with key= where "
            "the state dict stands."
        )
    return _from_tensor(t)


def _from_tensor(t: Any) -> np.ndarray:
    """A tensor as an array of its own memory's contents; NumPy itself lacks the narrow floats."""
    t = t.detach().cpu().contiguous()
    narrow = {
        "torch.bfloat16": ("int16", ml_dtypes.bfloat16),
        "torch.float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
        "torch.float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    }
    if str(t.dtype) not in narrow:
        return t.numpy().copy()
    import torch  # pyright: ignore[reportMissingImports]  # the tensor is its

    bits, dtype = narrow[str(t.dtype)]
    return t.view(getattr(torch, bits)).numpy().copy().view(dtype)


# -- names ----------------------------------------------------------------------------------------


@api_boundary
def convert_torch_names(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of PyTorch under the names that layers of `mgefn.nn` have.

    MultiheadAttention's stacked in_proj becomes query, key and value, its out_proj out.
    TransformerEncoderLayer and TransformerDecoderLayer have attention, self_attention,
    cross_attention and ln1, ln2, ln3; the last normalisation of a stack is ln. The weight of
    weight norm (weight_g and weight_v) and of spectral norm stands below layer. All other names and
    all arrays stay.

    Args:
        flat: {name: array or tensor}.

    Raises:
        ShapeError: a stacked projection has other than 3 * n rows.

    Example:
        >>> flat = mgefn.io.convert_torch_names({"attn.in_proj_bias": np.arange(6.0)})
        >>> flat["attn.key.bias"]
        array([2., 3.])
    """
    renamed: dict[str, Any] = {}
    for new in _conversions("convert_torch_names", _arrays("convert_torch_names", flat)).values():
        renamed |= new
    return renamed


def _conversions(operation: str, flat: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For each name, the arrays that come of it under their new names."""
    # What stands beside tells what a name means: norm1 is one of ours only in a transformer.
    attending = {_before(n, "out_proj.weight") for n in flat if n.endswith("out_proj.weight")}
    attending = {a for a in attending if {f"{a}in_proj_weight", f"{a}q_proj_weight"} & set(flat)}
    layers = {_before(a, "self_attn.") for a in attending if a.endswith("self_attn.")}
    decoders = {_before(a, "multihead_attn.") for a in attending if a.endswith("multihead_attn.")}
    stacks = {m[1] for m in (re.fullmatch(r"(.*?)layers\.\d+\.", n) for n in layers) if m}
    norms = {_before(n, "weight_g") for n in flat if n.endswith("weight_g")}
    norms |= {_before(n, f"{_G}0") for n in flat if n.endswith(f"{_G}0")}
    norms |= {_before(n, _G) for n in flat if n.endswith(_G)}

    def new_name(name: str) -> str:
        for place in norms:
            name = _moved(name, place, f"{re.escape(_G)}0$", "layer.weight_g")
            name = _moved(name, place, f"{re.escape(_G)}1$", "layer.weight_v")
            name = _moved(name, place, f"{re.escape(_G)}$", "layer.weight")
            name = _moved(name, place, r"parametrizations\.weight\.0\._([uv])$", r"\1")
            name = _moved(name, place, r"(weight_g|weight_v|bias)$", r"layer.\1")
        for place in attending:
            name = _moved(name, place, r"out_proj\.", "out.")
            for part, ours in _PROJECTIONS.items():
                name = _moved(name, place, f"{part}_proj_weight$", f"{ours}.weight")
        for place in layers:
            own = "self_attention." if place in decoders else "attention."
            name = _moved(name, place, r"self_attn\.", own)
            name = _moved(name, place, r"multihead_attn\.", "cross_attention.")
            name = _moved(name, place, r"norm([123])\.", r"ln\1.")
        for place in stacks:
            name = _moved(name, place, r"norm\.", "ln.")
        return name

    found: dict[str, dict[str, Any]] = {}
    for name, a in flat.items():
        stacked = re.fullmatch(r"((?:.*\.)?)in_proj_(weight|bias)", name)
        if not stacked:
            found[name] = {new_name(name): a}
            continue
        if not np.ndim(a) or np.shape(a)[0] % 3:
            raise ShapeError(
                f"{operation}: {name} must have 3 * n rows, those of query, key and value, got "
                f"shape {np.shape(a)}. Rename it, if it is something else."
            )
        place, last = stacked.groups()
        rows = zip(_PROJECTIONS.values(), np.split(a, 3), strict=True)
        found[name] = {new_name(f"{place}{part}.{last}"): r for part, r in rows}
    return found


_G = "parametrizations.weight.original"
_PROJECTIONS = {"q": "query", "k": "key", "v": "value"}


def _before(name: str, ending: str) -> str:
    return name[: -len(ending)]


def _moved(name: str, place: str, old: str, new: str) -> str:
    """The name with `old` right behind `place` replaced."""
    if not name.startswith(place):
        return name
    return place + re.sub(f"^{old}", new, name[len(place) :])


def _arrays(operation: str, flat: Any) -> dict[str, Any]:
    if not isinstance(flat, Mapping):
        raise ArgumentError(
            f"{operation}: needs a dict of arrays by name, got {type(flat).__name__}. Pass "
            "load_torch(path), or model.state_dict()."
        )
    return {
        str(n): _from_tensor(a) if hasattr(a, "detach") else np.asarray(a) for n, a in flat.items()
    }


@api_boundary
def load_torch_state_dict(
    params: Any,
    state: Any,
    flat: Mapping[str, Any] | PathLike,
    *,
    rename: Mapping[str, str] | Callable[[str], str | None] | None = None,
    strict: bool = True,
) -> tuple[Any, Any]:
    """Parameters and state with the weights of a PyTorch model, in the dtypes they have.

    Args:
        params, state: as `Module.init` gives them; they tell structure, shapes and dtypes.
        flat: a state dict of tensors or arrays, or the path of a file for `load_torch`.
        rename: {"old": "new"} for beginnings of names, the longest that fits is used; or a
            function of a name, which gives the new one, or None to leave the array out. Applied
            first. What then is no name of params or state is tried as `convert_torch_names` has
            it.
        strict: every name must be in both. Otherwise names missing in flat keep what they have.

    Returns:
        (params, state). Running means and variances go to the state, counters of batches
        (num_batches_tracked) are passed over.

    Raises:
        TreeError: names differ, or two become one. ShapeError: a shape differs.

    Example:
        >>> layer = mgefn.nn.Linear(2, 1)
        >>> params, state = layer.init(mgefn.random.key(0), mnp.ones((1, 2)))
        >>> flat = {"fc.weight": np.array([[1.0, 2.0]]), "fc.bias": np.array([3.0])}
        >>> params, state = mgefn.io.load_torch_state_dict(params, state, flat, rename={"fc": ""})
        >>> layer.apply(params, state, mnp.ones((1, 2)))[0]
        Array([[6.]], dtype=float32)
    """
    operation = "load_torch_state_dict"
    given = _arrays(operation, load_torch(flat) if isinstance(flat, (str, os.PathLike)) else flat)
    given = _renamed(operation, given, rename)
    own = state_dict(params, state)
    found: dict[str, Any] = {}
    for name, new in _conversions(operation, given).items():
        # A module of one's own may have PyTorch's names: what it has is taken as it is.
        for n, a in ({name: given[name]} if name in own else new).items():
            if n in found:
                raise TreeError(f"{operation}: two arrays get the name {n!r}. Rename one.")
            found[n] = a
    return load_state_dict(params, state, found, strict)


def _by_beginning(rename: Mapping[str, str], name: str) -> str:
    """The name with the longest beginning replaced that ends where a part of it does."""
    for old in sorted(rename, key=len, reverse=True):
        begins = old.rstrip(".")
        if not begins or name == begins or name.startswith(f"{begins}."):
            rest = name[len(begins) :].lstrip(".")
            return ".".join(part for part in (rename[old].rstrip("."), rest) if part)
    return name


def _renamed(operation: str, flat: dict[str, Any], rename: Any) -> dict[str, Any]:
    if rename is None:
        return flat
    if not isinstance(rename, Mapping) and not callable(rename):
        raise ArgumentError(
            f"{operation}: rename must be a dict of beginnings or a function, got {rename!r}."
        )
    renamed: dict[str, Any] = {}
    for old, a in flat.items():
        name: Any = _by_beginning(rename, old) if isinstance(rename, Mapping) else rename(old)
        if name is None:
            continue
        if name in renamed:
            raise TreeError(f"{operation}: two arrays get the name {name!r}. Rename one.")
        renamed[name] = a
    return renamed


# -- layouts --------------------------------------------------------------------------------------


@api_boundary
def relayout(weight: ArrayLike, source: str, target: str) -> Array:
    """A weight with its dimensions in another order, each named by a letter.

    Layers of `mgefn.nn` have "OI" for Linear, "OIW", "OIHW" and "OIDHW" for convolutions, and
    "IOHW" for transposed ones, as PyTorch has. Flax has "IO" and "HWIO".

    Args:
        weight: any array with as many dimensions as source has letters.
        source: the order that it has, such as "HWIO".
        target: the same letters in the order wanted, such as "OIHW".

    Raises:
        ArgumentError: the letters differ, or one stands twice. ShapeError: there are more or
        fewer than dimensions.

    Example:
        >>> mgefn.io.relayout(mnp.ones((3, 3, 1, 8)), "HWIO", "OIHW").shape
        (8, 1, 3, 3)
    """
    _same_letters("relayout", source, target)
    w = mnp.asarray(weight)
    if w.ndim != len(source):
        raise ShapeError(f"relayout: needs {len(source)} dimensions for {source!r}, got {w.aval}.")
    return mnp.transpose(w, tuple(source.index(letter) for letter in target))


@api_boundary
def reorder_gates(weight: ArrayLike, source: str, target: str) -> Array:
    """A weight or bias of a recurrent layer with the blocks of its gates in another order.

    `nn.LSTM` has "ifgo" (input, forget, cell, output) and `nn.GRU` "rzn" (reset, update, new), as
    PyTorch has.

    Args:
        weight: shape (gates * hidden, ...): the blocks stand along the first dimension.
        source: the order that it has, a letter a gate.
        target: the same letters in the order wanted.

    Raises:
        ArgumentError: the letters differ, or one stands twice. ShapeError: the first dimension is
        no multiple of the number of gates.

    Example:
        >>> mgefn.io.reorder_gates(np.array([0, 1, 2, 3]), "iofg", "ifgo")
        Array([0, 2, 3, 1], dtype=int64)
    """
    _same_letters("reorder_gates", source, target)
    w = mnp.asarray(weight)
    if not w.ndim or w.shape[0] % len(source):
        raise ShapeError(
            f"reorder_gates: needs {len(source)} * hidden rows for {source!r}, got {w.aval}. "
            "Transpose a weight that has them along its last dimension."
        )
    blocks = w.reshape((len(source), -1, *w.shape[1:]))
    return blocks[np.array([source.index(gate) for gate in target])].reshape(w.shape)


def _same_letters(operation: str, source: Any, target: Any) -> None:
    texts = isinstance(source, str) and isinstance(target, str) and len(source) > 0
    if not texts or sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise ArgumentError(
            f"{operation}: source and target must have the same letters, each once, got "
            f"{source!r} and {target!r}."
        )
