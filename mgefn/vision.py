"""Operations on images and boxes, under MegEngine's names: sampling, warping, regions, selection.

Images are (batch, channels, height, width) unless a function takes a format. A pixel i has its
centre at the coordinate i, except in `grid_sample`. Derivatives flow to images and to coordinates;
the position of a nearest pixel has none.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.api.batch import vmap
from mgefn.control.scan import scan
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted

__all__ = [
    "flip",
    "grid_sample",
    "interpolate",
    "iou",
    "nms",
    "remap",
    "roi_align",
    "rot90",
    "warp_affine",
    "warp_perspective",
]

_BORDERS = ("replicate", "reflect", "reflect_101", "wrap", "constant")
_INTERPOLATIONS = ("linear", "nearest", "cubic")


def _one_of(name: str, what: str, value: Any, known: Sequence[str]) -> str:
    key = value.lower() if isinstance(value, str) else value
    if key not in known:
        raise ArgumentError(f"{name}: {what} must be one of {', '.join(known)}, got {value!r}.")
    return key


def _images(name: str, inp: Any) -> Any:
    (x,) = promoted(name, (inp,), inexact=True)
    if x.ndim != 4 or 0 in x.shape[2:]:
        raise ShapeError(
            f"{name}: needs images (batch, channels, height, width) with pixels, got {x.aval}."
        )
    return x


# -- sampling -------------------------------------------------------------------------------------


def _inside(i: Any, n: int, border: str) -> Any:
    """Which pixel stands for pixel i of a row of n."""
    if border == "wrap":
        return i % n
    if border == "reflect":  # dcba|abcd|dcba
        i = i % (2 * n)
        return mnp.minimum(i, 2 * n - 1 - i)
    if border == "reflect_101":  # dcb|abcd|cba
        if n == 1:
            return i * 0
        i = i % (2 * n - 2)
        return mnp.minimum(i, 2 * n - 2 - i)
    return mnp.clip(i, 0, n - 1)


def _taps(x: Any, interpolation: str) -> list[tuple[Any, Any]]:
    """(pixel, weight) for each pixel that a coordinate reads."""
    if interpolation == "nearest":
        return [(mnp.floor(x + 0.5).astype("int32"), None)]
    low = mnp.floor(x)
    t, i = x - low, low.astype("int32")
    if interpolation == "linear":
        return [(i, 1 - t), (i + 1, t)]
    a = -0.75

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [(i - 1, far(t + 1)), (i, near(t)), (i + 1, near(1 - t)), (i + 2, far(2 - t))]


def _sample(image: Any, x: Any, y: Any, border: str, fill: Any, interpolation: str) -> Any:
    """Pixels (channels, *shape) of an image (channels, h, w) at coordinates of any shape."""
    c, h, w = image.shape
    flat = image.reshape((c, h * w))
    total: Any = None
    columns = _taps(x, interpolation)
    for row, row_weight in _taps(y, interpolation):
        for column, column_weight in columns:
            at = _inside(row, h, border) * w + _inside(column, w, border)
            values = mnp.take(flat, at, axis=1)
            if border == "constant":
                known = (row >= 0) & (row < h) & (column >= 0) & (column < w)
                values = mnp.where(known, values, mnp.asarray(fill, values.dtype))
            if row_weight is not None:
                values = values * (row_weight * column_weight).astype(values.dtype)
            total = values if total is None else total + values
    return total


def _sampled(
    name: str, images: Any, x: Any, y: Any, border: Any, fill: Any, interpolation: Any
) -> Any:
    border = _one_of(name, "border_mode", border, _BORDERS)
    interpolation = _one_of(name, "interp_mode", interpolation, _INTERPOLATIONS)
    return vmap(lambda i, a, b: _sample(i, a, b, border, fill, interpolation))(images, x, y)


@api_boundary
def remap(
    inp: ArrayLike,
    map_xy: ArrayLike,
    border_mode: str = "replicate",
    scalar: float = 0.0,
    interp_mode: str = "linear",
) -> Array:
    """Images read at given coordinates.

    Args:
        inp: shape (batch, channels, h, w).
        map_xy: shape (batch, height, width, 2): column and row to read for each pixel of the
            result.
        border_mode: what stands outside: "replicate" (the pixel at the edge), "reflect",
            "reflect_101" (without the pixel at the edge), "wrap" or "constant".
        scalar: for "constant".
        interp_mode: "linear", "nearest" or "cubic".

    Returns:
        Array of shape (batch, channels, height, width).

    Example:
        >>> x = mnp.array([[[[1.0, 2.0]]]])
        >>> mgefn.vision.remap(x, mnp.array([[[[0.25, 0.0], [9.0, 0.0]]]]))
        Array([[[[1.25, 2.  ]]]], dtype=float32)
    """
    x = _images("remap", inp)
    at = _coordinates("remap", map_xy, x)
    return _sampled("remap", x, at[..., 0], at[..., 1], border_mode, scalar, interp_mode)


def _coordinates(name: str, grid: Any, images: Any) -> Any:
    (at,) = promoted(name, (grid,), inexact=True)
    if at.ndim != 4 or at.shape[0] != images.shape[0] or at.shape[3] != 2:
        raise ShapeError(
            f"{name}: coordinates must be (batch, height, width, 2), got {at.aval} for images "
            f"{images.aval}."
        )
    return at


_GRID_BORDERS = {"zeros": "constant", "border": "replicate", "reflection": ""}


@api_boundary
def grid_sample(
    input: ArrayLike,
    grid: ArrayLike,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """`remap` under PyTorch's name, with coordinates from -1 to 1.

    Args:
        input: shape (batch, channels, h, w).
        grid: shape (batch, height, width, 2): x and y.
        mode: "bilinear", "nearest" or "bicubic".
        padding_mode: "zeros", "border" or "reflection".
        align_corners: -1 and 1 are the centres of the outermost pixels, otherwise their edges.
    """
    x = _images("grid_sample", input)
    at = _coordinates("grid_sample", grid, x)
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    mode = modes[_one_of("grid_sample", "mode", mode, tuple(modes))]
    border = _GRID_BORDERS[_one_of("grid_sample", "padding_mode", padding_mode, [*_GRID_BORDERS])]
    border = border or ("reflect_101" if align_corners else "reflect")

    def pixels(u: Any, n: int) -> Any:
        return (u + 1) * ((n - 1) / 2) if align_corners else ((u + 1) * n - 1) / 2

    h, w = x.shape[2:]
    columns, rows = pixels(at[..., 0], w), pixels(at[..., 1], h)
    return _sampled("grid_sample", x, columns, rows, border, 0, mode)


def _formatted(name: str, inp: Any, format: str) -> tuple[Any, bool]:
    last = _one_of(name, "format", format, ("nchw", "nhwc")) == "nhwc"
    x = mnp.asarray(inp)
    if last and x.ndim == 4:
        x = mnp.moveaxis(x, 3, 1)
    return _images(name, x), last


def _warped(
    name: str, inp: Any, mat: Any, shape: tuple[int, int], out_shape: Any, mat_idx: Any,
    border_mode: str, border_val: float, format: str, interp_mode: str,
) -> Any:  # fmt: skip
    x, last = _formatted(name, inp, format)
    (m,) = promoted(name, (mat,), inexact=True)
    if m.ndim != 3 or m.shape[1:] != shape:
        raise ShapeError(f"{name}: mat must be (batch, {shape[0]}, {shape[1]}), got {m.aval}.")
    if mat_idx is not None:
        x = mnp.take(x, mnp.asarray(mat_idx), axis=0)
    if x.shape[0] != m.shape[0]:
        raise ShapeError(f"{name}: needs one matrix for each image, got {m.aval} for {x.aval}.")
    height, width = _size(name, "out_shape", out_shape)
    dtype = dtypes.promote_types(m.dtype, "float32")
    columns, rows = mnp.meshgrid(mnp.arange(width, dtype=dtype), mnp.arange(height, dtype=dtype))
    at = mnp.stack([columns, rows, mnp.ones_like(rows)])
    moved = mnp.einsum("bij,jhw->bihw", m.astype(dtype), at)
    column, row = moved[:, 0], moved[:, 1]
    if shape[0] == 3:
        column, row = column / moved[:, 2], row / moved[:, 2]
    y = _sampled(name, x, column, row, border_mode, border_val, interp_mode)
    return mnp.moveaxis(y, 1, 3) if last else y


def _size(name: str, what: str, value: Any) -> tuple[int, int]:
    try:
        got = (operator.index(value),) * 2
    except TypeError:
        try:
            got = tuple(operator.index(v) for v in value)
        except TypeError:
            got = ()
    if len(got) != 2 or min(got) < 1:
        raise ArgumentError(f"{name}: {what} must be (height, width), got {value!r}.")
    return got[0], got[1]


@api_boundary
def warp_perspective(
    inp: ArrayLike,
    mat: ArrayLike,
    out_shape: int | tuple[int, int],
    mat_idx: Sequence[int] | ArrayLike | None = None,
    border_mode: str = "replicate",
    border_val: float = 0.0,
    format: str = "NCHW",
    interp_mode: str = "linear",
) -> Array:
    """Images read through projective maps.

    Pixel (x, y) of the result is read at (u / w, v / w) with (u, v, w) = mat @ (x, y, 1).

    Args:
        inp: shape (batch, channels, h, w), or as format says.
        mat: shape (n, 3, 3).
        out_shape: (height, width) of the result.
        mat_idx: n numbers of images, one for each matrix; None: the batch in order.
        border_mode, interp_mode: as for `remap`.
        border_val: for the border "constant".
        format: "NCHW" or "NHWC".

    Example:
        >>> x = mnp.arange(4.0).reshape(1, 1, 2, 2)
        >>> shift = mnp.array([[[1.0, 0, 1], [0, 1, 0], [0, 0, 1]]])
        >>> mgefn.vision.warp_perspective(x, shift, (2, 2), border_mode="constant")[0, 0]
        Array([[1., 0.],
               [3., 0.]], dtype=float32)
    """
    return _warped("warp_perspective", inp, mat, (3, 3), out_shape, mat_idx, border_mode,
                   border_val, format, interp_mode)  # fmt: skip


@api_boundary
def warp_affine(
    inp: ArrayLike,
    mat: ArrayLike,
    out_shape: int | tuple[int, int],
    border_mode: str = "replicate",
    border_val: float = 0.0,
    format: str = "NHWC",
    interp_mode: str = "linear",
) -> Array:
    """Images read through affine maps: pixel (x, y) of the result at mat @ (x, y, 1).

    Args:
        inp: shape (batch, h, w, channels), or as format says.
        mat: shape (batch, 2, 3).
        out_shape, border_mode, border_val, interp_mode: as for `warp_perspective`.
        format: "NHWC" or "NCHW".
    """
    return _warped("warp_affine", inp, mat, (2, 3), out_shape, None, border_mode, border_val,
                   format, interp_mode)  # fmt: skip


@api_boundary
def interpolate(
    inp: ArrayLike,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "bilinear",
    align_corners: bool | None = None,
) -> Array:
    """Images, or sequences, at another size. Nothing is smoothed when they shrink.

    Args:
        inp: shape (batch, channels, h, w); with mode "linear" (batch, channels, length).
        size: (height, width) of the result, or one number for both.
        scale_factor: instead of size.
        mode: "bilinear", "bicubic", "nearest" or "linear".
        align_corners: the centres of the outermost pixels stay where they are; otherwise their
            outer edges do. None: False; not for "nearest".

    Example:
        >>> x = mnp.array([[[[0.0, 4.0]]]])
        >>> mgefn.vision.interpolate(x, (1, 4))[0, 0]
        Array([[0., 1., 3., 4.]], dtype=float32)
        >>> mgefn.vision.interpolate(x, (1, 3), align_corners=True)[0, 0]
        Array([[0., 2., 4.]], dtype=float32)
    """
    name = "interpolate"
    modes = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest", "linear": "linear"}
    mode = _one_of(name, "mode", mode, tuple(modes))
    if (size is None) == (scale_factor is None):
        raise ArgumentError(f"{name}: needs size or scale_factor, and not both.")
    if mode == "nearest" and align_corners is not None:
        raise ArgumentError(f"{name}: align_corners does not go with mode 'nearest'. Leave it out.")
    x = mnp.asarray(inp)
    flat = mode == "linear"
    if flat:
        if x.ndim != 3:
            raise ShapeError(f"{name}: mode 'linear' needs (batch, channels, n), got {x.aval}.")
        x = mnp.expand_dims(x, 2)
    x = _images(name, x)
    old = x.shape[2:]
    if size is not None:
        single = size if isinstance(size, int) else tuple(size)
        if flat:
            single = (1, single if isinstance(single, int) else single[0])
        new = _size(name, "size", single)
    else:
        factors: Any = scale_factor
        if isinstance(factors, (int, float)):
            factors = (1 if flat else factors, factors)
        elif flat:
            factors = (1, *factors)
        if len(factors) != 2:
            raise ArgumentError(f"{name}: scale_factor must be one number or two, got {factors}.")
        scaled = [math.floor(n * f) for n, f in zip(old, factors, strict=True)]
        new = _size(name, "scale_factor", scaled)
    ats = []
    for n, m in zip(old, new, strict=True):
        i = np.arange(m)
        if mode == "nearest":
            at = np.floor(i * (n / m))
        elif align_corners:
            at = i * ((n - 1) / (m - 1)) if m > 1 else i * 0.0
        else:
            at = (i + 0.5) * (n / m) - 0.5
        ats.append(mnp.asarray(at, dtypes.promote_types(x.dtype, "float32")))
    row, column = mnp.meshgrid(*ats, indexing="ij")
    y = vmap(lambda i: _sample(i, column, row, "replicate", 0, modes[mode]))(x)
    return y[:, :, 0] if flat else y


@api_boundary
def flip(inp: ArrayLike, vertical: bool = True, horizontal: bool = True) -> Array:
    """Images (batch, height, width, channels) turned over, upside down and left to right."""
    x = mnp.asarray(inp)
    if x.ndim != 4:
        raise ShapeError(f"flip: needs (batch, height, width, channels), got {x.aval}.")
    axes = (*((1,) if vertical else ()), *((2,) if horizontal else ()))
    return mnp.flip(x, axes) if axes else x


@api_boundary
def rot90(inp: ArrayLike, clockwise: bool = True) -> Array:
    """Images (batch, height, width, channels) turned by a right angle."""
    x = mnp.asarray(inp)
    if x.ndim != 4:
        raise ShapeError(f"rot90: needs (batch, height, width, channels), got {x.aval}.")
    return mnp.rot90(x, -1 if clockwise else 1, axes=(1, 2))


# -- regions and boxes ----------------------------------------------------------------------------


@api_boundary
def roi_align(
    inp: ArrayLike,
    rois: ArrayLike,
    output_shape: int | tuple[int, int],
    mode: str = "average",
    spatial_scale: float = 1.0,
    sample_points: int | tuple[int, int] = 2,
    aligned: bool = True,
) -> Array:
    """Regions of images at one size, read between pixels.

    Each region is split into cells; a cell's value is the mean, or maximum, of points in it.

    Args:
        inp: shape (batch, channels, h, w).
        rois: shape (n, 5): number of the image, x and y of one corner, x and y of the other.
        output_shape: (height, width): how many cells.
        mode: "average" or "max".
        spatial_scale: factor from the coordinates of rois to pixels.
        sample_points: in each cell, down and across.
        aligned: corners are edges of pixels, half a pixel before their centres. Otherwise they are
            centres, and a region is at least 1 wide.

    Returns:
        Array of shape (n, channels, height, width). Points more than a pixel outside count 0.

    Source: He et al. (2017), arXiv:1703.06870.
    """
    name = "roi_align"
    x = _images(name, inp)
    (boxes,) = promoted(name, (rois,), inexact=True)
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise ShapeError(f"{name}: rois must be (n, 5), got {boxes.aval}.")
    mode = _one_of(name, "mode", mode, ("average", "max"))
    cells = _size(name, "output_shape", output_shape)
    points = _size(name, "sample_points", sample_points)
    h, w = x.shape[2:]

    def one(box: Any) -> Any:
        corners = box[1:] * spatial_scale - (0.5 if aligned else 0.0)
        x0, y0, x1, y1 = (corners[i] for i in range(4))
        spans = [y1 - y0, x1 - x0]
        if not aligned:
            spans = [mnp.maximum(s, 1.0) for s in spans]
        lines = []
        for start, span, c, p in zip((y0, x0), spans, cells, points, strict=True):
            lines.append(start + (mnp.arange(c * p) + 0.5).astype(span.dtype) * (span / (c * p)))
        row, column = mnp.meshgrid(*lines, indexing="ij")
        image = x[box[0].astype("int32")]
        known = (row >= -1) & (row <= h) & (column >= -1) & (column <= w)
        values = _sample(image, mnp.clip(column, 0, w - 1), mnp.clip(row, 0, h - 1),
                         "replicate", 0, "linear")  # fmt: skip
        values = mnp.where(known, values, 0)
        values = values.reshape((x.shape[1], cells[0], points[0], cells[1], points[1]))
        return mnp.mean(values, (2, 4)) if mode == "average" else mnp.max(values, (2, 4))

    return vmap(one)(boxes)


@api_boundary
def iou(boxes1: ArrayLike, boxes2: ArrayLike) -> Array:
    """Areas of intersections divided by areas of unions.

    Args:
        boxes1: shape (n, 4): x and y of one corner, x and y of the other.
        boxes2: shape (m, 4).

    Returns:
        Array of shape (n, m); 0 where both boxes are empty.

    Example:
        >>> mgefn.vision.iou(mnp.array([[0.0, 0, 2, 2]]), mnp.array([[1.0, 0, 3, 2]]))
        Array([[0.33333334]], dtype=float32)
    """
    a, b = (_boxes("iou", x) for x in (boxes1, boxes2))
    return _iou(a, b)


def _boxes(name: str, boxes: Any) -> Any:
    (a,) = promoted(name, (boxes,), inexact=True)
    if a.ndim != 2 or a.shape[1] != 4:
        raise ShapeError(f"{name}: boxes must be (n, 4), got {a.aval}.")
    return a


def _iou(a: Any, b: Any) -> Any:
    def area(box: Any) -> Any:
        return mnp.prod(mnp.maximum(box[..., 2:] - box[..., :2], 0), -1)

    low = mnp.maximum(a[:, None, :2], b[None, :, :2])
    high = mnp.minimum(a[:, None, 2:], b[None, :, 2:])
    both = mnp.prod(mnp.maximum(high - low, 0), -1)
    union = area(a)[:, None] + area(b)[None] - both
    return mnp.where(union > 0, both / mnp.where(union > 0, union, 1), 0)


@api_boundary
def nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_thresh: float,
    max_output: int | None = None,
    *,
    padded: bool = False,
) -> Array:
    """Boxes without those that overlap a better one (non-maximum suppression).

    Args:
        boxes: shape (n, 4): x and y of one corner, x and y of the other.
        scores: shape (n,).
        iou_thresh: a box goes when its `iou` with a better one that stays is larger.
        max_output: how many stay at most.
        padded: the result has max_output (or n) elements, -1 at the end. Its shape does not depend
            on values then, as `jit` and `vmap` need it.

    Returns:
        int32 numbers of the boxes that stay, best first.

    Example:
        >>> boxes = mnp.array([[0.0, 0, 4, 4], [0, 0, 4, 3], [5, 5, 6, 6]])
        >>> mgefn.vision.nms(boxes, mnp.array([0.5, 0.9, 0.1]), 0.5)
        Array([1, 2], dtype=int32)
    """
    a = _boxes("nms", boxes)
    (s,) = promoted("nms", (scores,))
    if s.shape != a.shape[:1]:
        raise ShapeError(f"nms: scores must have shape {a.shape[:1]}, got {s.aval}.")
    if dtypes.is_complex(s.dtype):
        raise DTypeError(f"nms: scores must be real, got {s.aval}.")
    n = a.shape[0]
    limit = n if max_output is None else operator.index(max_output)
    order = mnp.argsort(-s).astype("int32")
    ranked = a[order]
    overlaps = _iou(ranked, ranked) > iou_thresh

    def step(gone: Any, one: Any) -> tuple[Any, Any]:
        i, row = one
        stays = ~mnp.any(gone & (mnp.arange(n) == i))
        later = mnp.arange(n) > i
        return gone | (stays & row & later), stays

    _, stays = scan(step, mnp.zeros(n, bool), (mnp.arange(n), overlaps))
    if padded:
        # Those that stay in front, in their order.
        front = mnp.argsort(~stays)
        found = mnp.where(stays[front], order[front], -1)
        found = found[:limit]
        return mnp.pad(found, (0, limit - found.shape[0]), constant_values=-1)
    return order[mnp.nonzero(stays)[0]][:limit]
