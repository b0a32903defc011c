"""Images at other sizes, under jax.image's names.

A pixel i covers [i, i + 1), so its centre is at i + 0.5. An output pixel is a weighted sum of the
input pixels around the place that it comes from, dimension by dimension.

Sources: Keys (1981), IEEE Trans. ASSP 29(6), 1153-1160 (cubic); Turkowski (1990), Filters for
common resampling tasks (lanczos).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.ops.shaping import canonical_shape, normalize_axis

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How pixels between pixels are made; every function also takes the names in small letters."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name such as "bilinear".

        Raises:
            ArgumentError: the name is unknown.
        """
        try:
            return _NAMES[s]
        except KeyError:
            raise ArgumentError(
                f"image.resize: method must be one of {', '.join(_NAMES)}, got {s!r}."
            ) from None


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


# -- kernels: the weight of a pixel at a distance of 0 or more ------------------------------------


def _triangle(x: Any) -> Any:
    return mnp.maximum(0, 1 - x)


def _cubic(a: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return mnp.where(x >= 2, 0, mnp.where(x >= 1, far, near))

    return kernel


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        y = radius * mnp.sin(math.pi * x) * mnp.sin(math.pi * x / radius)
        middle = x <= 1e-3
        inner = mnp.where(middle, 1, y / mnp.where(middle, 1, math.pi**2 * x**2))
        return mnp.where(x > radius, 0, inner)

    return kernel


_KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
_RADIUS_OF_CUBIC = 2


def _weights(
    size: int,
    new_size: int,
    scale: Any,
    translation: Any,
    method: ResizeMethod,
    antialias: bool,
    dtype: np.dtype,
) -> Any:
    """How much input pixel i counts for output pixel j, shape (size, new_size)."""
    scale, translation = mnp.asarray(scale, dtype), mnp.asarray(translation, dtype)
    inverse = 1 / scale
    outputs = mnp.arange(new_size, dtype=dtype)
    centres = (outputs + 0.5) * inverse - translation * inverse - 0.5
    inputs = np.arange(size, dtype=dtype)[:, None]
    repeats_edges = method is ResizeMethod.CUBIC_PYTORCH and not antialias
    if method is ResizeMethod.AREA:
        first = outputs * inverse - translation * inverse
        weights = mnp.maximum(
            0, mnp.minimum(first + inverse, inputs + 1) - mnp.maximum(first, inputs)
        )
    else:
        # Where the image shrinks, a wider kernel takes an average, which keeps patterns away.
        width = mnp.maximum(inverse, 1) if antialias else 1
        if method is ResizeMethod.CUBIC_PYTORCH and antialias:
            method = ResizeMethod.CUBIC
        kernel = _KERNELS[method]
        if repeats_edges:
            # Pixels outside count for the pixel of the edge.
            around = np.arange(-_RADIUS_OF_CUBIC, size + _RADIUS_OF_CUBIC)
            onto = np.clip(around, 0, size - 1) == np.arange(size)[:, None]
            weights = mnp.asarray(onto, dtype) @ kernel(
                mnp.abs(centres - around.astype(dtype)[:, None]) / width
            )
        else:
            weights = kernel(mnp.abs(centres - inputs) / width)
    total = mnp.sum(weights, axis=0, keepdims=True)
    small = mnp.abs(total) <= 1000 * float(np.finfo(np.float32).eps)
    weights = mnp.where(small, 0, weights / mnp.where(small, 1, total))
    if repeats_edges:
        return weights
    inside = (centres >= -0.5) & (centres <= size - 0.5)
    return mnp.where(inside, weights, 0)


def _resampled(
    x: Any,
    shape: Sequence[int],
    dims: Sequence[int],
    scale: Sequence[Any],
    translation: Sequence[Any],
    method: ResizeMethod,
    antialias: bool,
) -> Any:
    # Weights of float32 at least: in half precision they would not add up to 1.
    dtype = dtypes.promote_types(dtypes.real_part_dtype(x.dtype), "float32")
    for i, d in enumerate(dims):
        w = _weights(x.shape[d], shape[d], scale[i], translation[i], method, antialias, dtype)
        x = mnp.moveaxis(mnp.tensordot(x, w.astype(x.dtype), (d, 0)), -1, d)
    return x


def _arguments(name: str, image: ArrayLike, shape: Any, method: Any) -> tuple[Any, tuple, Any]:
    x, sizes = mnp.asarray(image), canonical_shape(name, shape)
    if len(sizes) != x.ndim:
        raise ShapeError(f"{name}: shape must have rank {x.ndim} for {x.aval}, got {sizes}.")
    return x, sizes, ResizeMethod.from_string(method) if isinstance(method, str) else method


@api_boundary
def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An image at another size; dimensions whose size stays are left alone.

    Args:
        image: an array of any rank; batches and channels are dimensions whose size stays.
        shape: of the result, all dimensions.
        method: "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area", or a
            `ResizeMethod`.
        antialias: average over more pixels where the image shrinks; "nearest" never does.
        precision: taken for the sake of ported programs; sums always have full precision.

    Returns:
        Array of the dtype of image; for integers the default float, but for "nearest".

    Raises:
        ShapeError: the rank of shape is not that of image. ArgumentError: the method is unknown.

    Example:
        >>> mgefn.image.resize(mnp.array([0.0, 4.0]), (4,), "linear")
        Array([0., 1., 3., 4.], dtype=float32)
    """
    x, sizes, how = _arguments("image.resize", image, shape, method)
    dims = [d for d in range(x.ndim) if x.shape[d] != sizes[d]]
    if how is ResizeMethod.NEAREST:
        for d in dims:
            # In float32, as JAX has it, on which the choice at a tie depends.
            n = np.float32(x.shape[d]) / np.float32(sizes[d] or 1)
            places = (np.arange(sizes[d], dtype=np.float32) + np.float32(0.5)) * n
            x = mnp.take(x, np.floor(places).astype(np.int32), axis=d, mode="clip")
        return x
    (x,) = promoted("image.resize", (x,), inexact=True)
    scale = [sizes[d] / x.shape[d] if sizes[d] and x.shape[d] else 1.0 for d in dims]
    return _resampled(x, sizes, dims, scale, [0.0] * len(dims), how, antialias)


@api_boundary
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An image stretched and moved: what is at y goes to y * scale + translation.

    Args:
        image: an array of any rank.
        shape: of the result, all dimensions.
        spatial_dims: the k dimensions to stretch.
        scale: shape (k,), positive; may be traced, and has a derivative.
        translation: shape (k,), in pixels; likewise.
        method: as for `resize`, but not "nearest".
        antialias: average over more pixels where the image shrinks.
        precision: taken for the sake of ported programs; sums always have full precision.

    Returns:
        Array; 0 at pixels that come from outside the image.

    Raises:
        ShapeError: the rank of shape is not that of image. ArgumentError: the method is unknown.
    """
    name = "image.scale_and_translate"
    x, sizes, how = _arguments(name, image, shape, method)
    if how is ResizeMethod.NEAREST:
        raise ArgumentError(f"{name}: method must not be 'nearest'. Use resize, or 'linear'.")
    dims = [normalize_axis(name, d, x.ndim) for d in spatial_dims]
    (x,) = promoted(name, (x,), inexact=True)
    factors, moves = promoted(name, (scale, translation), inexact=True)
    if factors.shape != (len(dims),) or moves.shape != (len(dims),):
        raise ShapeError(
            f"{name}: scale and translation must have shape ({len(dims)},), got {factors.aval} "
            f"and {moves.aval}."
        )
    parts = range(len(dims))
    return _resampled(
        x, sizes, dims, [factors[i] for i in parts], [moves[i] for i in parts], how, antialias
    )
