"""einsum: sums of products named by labels of dimensions.

The labels are read once for each text and shapes. Three or more operands are contracted in pairs,
in the order that NumPy or opt_einsum finds or the caller gives. First each operand takes the
diagonal of labels it has twice; before a product each is summed over the labels that only it has.
"""

from __future__ import annotations

import functools
import itertools
import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array
from mgefn.core.array_methods import METHODS, Array, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.contractions.dot_general import bind_dot_general, check_preferred
from mgefn.ops.contractions.products import product
from mgefn.ops.elementwise import convert, promoted
from mgefn.ops.shaping import (
    broadcast_to_shape,
    moveaxis,
    reshape,
    squeeze,
    strided_slice,
    transpose,
)

# A label of a dimension: a letter, or a negative int for a dimension under an ellipsis, counted
# from the right.
Label = str | int


@api_boundary
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sums of products named by index letters, as numpy.einsum gives them.

    Letters that are missing in the output are summed over; a letter twice in one operand takes its
    diagonal. Three operands or more are contracted in pairs, in an order that NumPy
    finds for up to four, and opt_einsum for more.

    Args:
        subscripts: such as "ij,jk->ik"; without "->" the output has the letters that occur once, in
            alphabetical order. "..." stands for dimensions that broadcast. Or the interleaved form:
            einsum(x, [0, 1], y, [1, 2], [0, 2]).
        operands: one array for each term; all are promoted to one dtype.
        out: must be None.
        optimize: how to find the order: "auto", "optimal", "greedy" and the like, True for "auto",
            False for left to right, or a path such as [(0, 1), (0, 1)].
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result; see `lax.dot_general`.
    Raises:
        ShapeError: a letter has two sizes, or a term has not as many letters as its operand
            dimensions. ArgumentError: subscripts are malformed.
    Example:
        >>> mnp.einsum("ii->", mnp.array([[1.0, 2.0], [3.0, 4.0]]))
        Array(5., dtype=float32)
    """
    if out is not None:
        raise ArgumentError("einsum: arrays are immutable, so out must be None. Use the result.")
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    if not operands:
        raise ArgumentError("einsum: needs at least one operand, got none.")
    arrays = promoted("einsum", operands)
    dtype = None
    if preferred_element_type is not None:
        dtype = dtypes.canonical(preferred_element_type)
        check_preferred("einsum", arrays[0].dtype, dtype)
        if len(arrays) != 2:
            arrays = [convert(x, dtype) for x in arrays]
    terms, output, path = _einsum_plan(
        subscripts, tuple([tuple(x.shape) for x in arrays]), _hashable(optimize)
    )
    sizes = _label_sizes(subscripts, terms, [x.shape for x in arrays])
    pending = [_simplified(x, term, sizes) for x, term in zip(arrays, terms, strict=True)]
    for step in path:
        chosen = [pending[i] for i in step]
        pending = [p for i, p in enumerate(pending) if i not in step]
        x, labels = chosen[0]
        for i, (y, y_labels) in enumerate(chosen[1:]):
            kept = set(output).union(*(p[1] for p in (*pending, *chosen[i + 2 :])))
            last = not pending and i == len(chosen) - 2
            x, labels = _contracted(
                x, labels, y, y_labels, kept, output if last else None, preferred_element_type
            )
        if len(chosen) == 1:
            kept = set(output).union(*(p[1] for p in pending))
            x, labels = _summed(x, labels, kept)
        pending.append((x, labels))
    ((x, labels),) = pending
    x, labels = _summed(x, labels, set(output))
    x = transpose(x, [labels.index(i) for i in output if i in labels])
    # What is left are output labels that only dimensions of size 1 had.
    shape = tuple(sizes[i] for i in output)
    x = x if x.shape == shape else reshape(x, shape)
    return x if dtype is None else convert(x, dtype)


def _hashable(optimize: Any) -> Any:
    if not isinstance(optimize, (list, tuple)):
        return optimize
    return tuple([tuple(p) if isinstance(p, (list, tuple)) else p for p in optimize])


def _interleaved(args: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts and operands of einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    n = len(args) // 2
    operands = tuple(args[0 : 2 * n : 2])
    lists = [*args[1 : 2 * n : 2], *([args[-1]] if len(args) % 2 else [])]
    try:
        names = sorted({operator.index(i) for term in lists for i in term if i is not Ellipsis})
    except TypeError:
        raise ArgumentError(
            "einsum: the interleaved form needs a list of ints after each operand. Write "
            "einsum(x, [0, 1], y, [1, 2], [0, 2])."
        ) from None
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if len(names) > len(letters):
        raise ArgumentError(f"einsum: takes up to {len(letters)} indices, got {len(names)}.")
    letter = {i: letters[k] for k, i in enumerate(names)}
    texts = [
        "".join("..." if i is Ellipsis else letter[operator.index(i)] for i in term)
        for term in lists
    ]
    subscripts = ",".join(texts[:n])
    return subscripts + (f"->{texts[n]}" if len(args) % 2 else ""), operands


@functools.lru_cache(maxsize=1024)
def _einsum_plan(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[tuple[Label, ...], ...], tuple[Label, ...], tuple[tuple[int, ...], ...]]:
    """Labels of the operands, those of the output, and the order of contraction."""
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    texts = inputs.split(",")
    if len(texts) != len(shapes):
        raise ArgumentError(
            f"einsum: {subscripts!r} has {len(texts)} terms for {len(shapes)} operands."
        )
    terms: list[tuple[Label, ...]] = []
    dots = 0
    for term, shape in zip(texts, shapes, strict=True):
        n = _named(subscripts, term)
        hidden = len(shape) - n
        if hidden < 0 or (hidden > 0 and "..." not in term):
            raise ShapeError(
                f"einsum: the term {term!r} of {subscripts!r} must name the dimensions of its "
                f"operand, got shape {shape}. Add or drop letters, or write '...'."
            )
        dots = max(dots, hidden)
        terms.append(_labels(term, hidden))
    if arrow:
        _named(subscripts, result)
        if dots and "..." not in result:
            raise ArgumentError(
                f"einsum: the output of {subscripts!r} must have '...', as the operands do. To sum "
                "over these dimensions, name them."
            )
        output = _labels(result, dots)
        used = {i for t in terms for i in t}
        if len(set(output)) != len(output) or not used.issuperset(
            i for i in output if isinstance(i, str)
        ):
            raise ArgumentError(
                f"einsum: each letter of the output of {subscripts!r} must occur there once and in "
                "an operand. Sums over other letters are taken by leaving them out."
            )
    else:
        every = [i for t in terms for i in t]
        once = sorted(i for i in set(every) if isinstance(i, str) and every.count(i) == 1)
        output = (*range(-dots, 0), *once)
    return tuple(terms), output, _einsum_path(subscripts, terms, output, shapes, optimize)


def _named(subscripts: str, term: str) -> int:
    """The number of letters in a term, which is checked."""
    letters = term.replace("...", "", 1)
    if not all(c.isalpha() for c in letters):
        raise ArgumentError(
            f"einsum: subscripts are letters, ',', '->' and one '...' a term, got {subscripts!r}."
        )
    return len(letters)


def _labels(term: str, hidden: int) -> tuple[Label, ...]:
    before, dots, after = term.partition("...")
    return (*before, *(range(-hidden, 0) if dots else ()), *after)


def _label_sizes(
    subscripts: str, terms: Sequence[Sequence[Label]], shapes: Sequence[Sequence[int]]
) -> dict[Label, int]:
    """The size of each label; 1 gives way to others."""
    sizes: dict[Label, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[Label, int] = {}
        for label, n in zip(term, shape, strict=True):
            if own.setdefault(label, n) != n:
                raise ShapeError(
                    f"einsum: dimensions that the term {''.join(map(str, term))!r} of "
                    f"{subscripts!r} gives one letter must have one size, got {tuple(shape)}. "
                    "Broadcast the operand first, or use two letters."
                )
            before = sizes.setdefault(label, n)
            if before == 1:
                sizes[label] = n
            elif n not in (1, before):
                name = f"the letter {label!r}" if isinstance(label, str) else "a dimension of '...'"
                raise ShapeError(
                    f"einsum: {name} of {subscripts!r} must have one size, got {before} and {n}, "
                    f"operands of shapes {', '.join(str(tuple(s)) for s in shapes)}. Transpose one "
                    "of them, or correct the letters."
                )
    return sizes


def _einsum_path(
    subscripts: str,
    terms: Sequence[tuple[Label, ...]],
    output: Sequence[Label],
    shapes: Sequence[tuple[int, ...]],
    optimize: Any,
) -> tuple[tuple[int, ...], ...]:
    n = len(terms)
    if isinstance(optimize, tuple):
        path = tuple(tuple(p) for p in optimize if not isinstance(p, str))
        left = n
        for step in path:
            if not step or len(set(step)) != len(step) or not all(0 <= i < left for i in step):
                raise ArgumentError(f"einsum: the path {optimize} does not fit {n} operands.")
            left += 1 - len(step)
        # What a path leaves over is contracted in one go.
        return path if left == 1 else (*path, tuple(range(left)))
    if n <= 2:
        return (tuple(range(n)),)
    if optimize is False:
        return ((0, 1), *((0, n - 2 - i) for i in range(n - 2)))
    sizes = _label_sizes(subscripts, terms, shapes)
    best = optimize is True or optimize in ("auto", "optimal")
    # NumPy finds the best order of few operands too, and is there: opt_einsum takes long to load.
    lettered = len(sizes) <= len(string.ascii_letters)
    by_numpy = best and n <= 4 and lettered
    letters = string.ascii_letters if lettered else map(chr, itertools.count(0x100))
    symbol = dict(zip(sizes, letters, strict=False))
    # Each label once a term and none that broadcasts, as the operands will be when contracted.
    texts, views = [], []
    for term, shape in zip(terms, shapes, strict=True):
        kept = {a: k for a, k in zip(term, shape, strict=True) if k == sizes[a]}
        texts.append("".join(symbol[a] for a in kept))
        views.append(tuple(kept.values()))
    present = {a for t in texts for a in t}
    result = "".join(symbol[a] for a in output if symbol[a] in present)
    text = f"{','.join(texts)}->{result}"
    path: Any = ()
    if by_numpy:
        unlimited = ("optimal", 1 << 62)  # elements of a product on the way
        operands = [np.broadcast_to(np.int8(0), v) for v in views]
        (_, *path), _ = np.einsum_path(text, *operands, optimize=unlimited)
    # It leaves all in one step where nothing is summed over.
    if not by_numpy or any(len(step) > 2 for step in path):
        import opt_einsum

        optimize = "auto" if optimize is True else optimize
        path, _ = opt_einsum.contract_path(text, *views, shapes=True, optimize=optimize)
    return tuple(tuple(sorted(step)) for step in path)


def _simplified(x: Any, term: Sequence[Label], sizes: dict[Label, int]) -> tuple[Any, list[Label]]:
    """An operand without dimensions that broadcast, and with each label once."""
    single = tuple(i for i, a in enumerate(term) if x.shape[i] == 1 and sizes[a] != 1)
    if single:
        x = squeeze(x, single)
    labels = [a for i, a in enumerate(term) if i not in single]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = _diagonal(x, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return x, labels


def _diagonal(x: Any, i: int, j: int) -> Any:
    """The elements at equal indices of two dimensions, along a new last one."""
    n = x.shape[i]
    x = moveaxis(x, (i, j), (-2, -1))
    lead = x.shape[:-2]
    # In the flattened square they lie n + 1 apart.
    x = reshape(x, (*lead, n * n))
    zeros = (0,) * len(lead)
    return strided_slice(x, (*zeros, 0), x.shape, (*(1,) * len(lead), n + 1))


def _summed(x: Any, labels: list[Label], kept: set[Label]) -> tuple[Any, list[Label]]:
    """An operand summed over the labels that nobody asks for."""
    axes = tuple(i for i, a in enumerate(labels) if a not in kept)
    if not axes:
        return x, labels
    if dtypes.is_bool(x.dtype):
        x = METHODS["any"](x, axes)
    else:
        x = METHODS["sum"](x, axes, dtype=x.dtype)
    return x, [a for a in labels if a in kept]


def _contracted(
    x: Any,
    x_labels: list[Label],
    y: Any,
    y_labels: list[Label],
    kept: set[Label],
    output: Sequence[Label] | None,
    preferred: DTypeLike,
) -> tuple[Any, list[Label]]:
    """The product of two operands, summed over their labels that are not kept.

    `output` is the wanted order of labels where this is the last product.
    """
    x, x_labels = _summed(x, x_labels, kept.union(y_labels))
    y, y_labels = _summed(y, y_labels, kept.union(x_labels))
    if x.dtype != y.dtype:
        # An earlier product has the preferred dtype already.
        wide = dtypes.promote_types(x.dtype, y.dtype)
        x, y = convert(x, wide), convert(y, wide)
    shared = [a for a in x_labels if a in y_labels]
    batch = [a for a in shared if a in kept]
    if output is not None:
        batch.sort(key=list(output).index)
    contract = [a for a in shared if a not in kept]
    x_free = [a for a in x_labels if a not in shared]
    y_free = [a for a in y_labels if a not in shared]
    if not contract:
        labels = [*batch, *x_free, *y_free]
        if output is not None:
            labels.sort(key=list(output).index)
        return _outer(x, x_labels, y, y_labels, labels, preferred), labels
    if output is not None and [*batch, *y_free, *x_free] == [a for a in output if a in kept]:
        x, x_labels, x_free, y, y_labels, y_free = y, y_labels, y_free, x, x_labels, x_free
    numbers = (
        (
            tuple([x_labels.index(a) for a in contract]),
            tuple([y_labels.index(a) for a in contract]),
        ),
        (tuple([x_labels.index(a) for a in batch]), tuple([y_labels.index(a) for a in batch])),
    )
    if preferred is not None and dtypes.canonical(preferred).itemsize < x.dtype.itemsize:
        preferred = None
    return bind_dot_general(x, y, numbers, preferred), [*batch, *x_free, *y_free]


def _outer(
    x: Any,
    x_labels: list[Label],
    y: Any,
    y_labels: list[Label],
    labels: list[Label],
    preferred: DTypeLike,
) -> Any:
    """A product without a sum."""

    def placed(a: Any, a_labels: list[Label]) -> Any:
        order = [i for i in labels if i in a_labels]
        a = transpose(a, [a_labels.index(i) for i in order])
        sizes = dict(zip(order, a.shape, strict=True))
        return reshape(a, tuple(sizes.get(i, 1) for i in labels))

    a, b = placed(x, x_labels), placed(y, y_labels)
    shape = tuple(max(p, q) if p and q else 0 for p, q in zip(a.shape, b.shape, strict=True))
    if a.shape and a.shape != shape:
        a = broadcast_to_shape(a, shape)
    if b.shape and b.shape != shape:
        b = broadcast_to_shape(b, shape)
    return product("einsum", a, b, preferred)


@api_boundary
def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list, Any]:
    """The order in which einsum would contract, and a description, as numpy.einsum_path."""
    import opt_einsum  # here, because few programs need it

    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    shapes = tuple([as_array(x, "einsum_path").shape for x in operands])
    path = _einsum_plan(subscripts, shapes, _hashable(optimize))[2]
    info = opt_einsum.contract_path(subscripts, *shapes, shapes=True, optimize=path)[1]
    return ["einsum_path", *path], info
