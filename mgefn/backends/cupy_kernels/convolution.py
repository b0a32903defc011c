"""The kernel of `ops/convolution.py`: im2col and one matrix product a group.

CuPy's wheels hold no cuDNN. What each output sees is a strided view of the padded input, laid side
by side by the reshape (im2col) in parts of bounded size, and multiplied with the kernel by cuBLAS.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.cupy_kernels.shaping import padded
from mgefn.core.cuda import xp
from mgefn.ops.windows import out_sizes

# The copy of what outputs see is made for as many examples at a time as fit in this many bytes.
COPY_BYTES = 1 << 28


def conv_general_dilated(
    x: Any,
    w: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype | None,
) -> tuple:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    x, w = x.transpose(lhs_spec), w.transpose(rhs_spec)
    dtype = preferred_element_type or x.dtype
    computed = dtypes.accumulator(dtype)
    sizes, window = x.shape[2:], w.shape[2:]
    spatial = out_sizes(sizes, window, window_strides, padding, lhs_dilation, rhs_dilation)
    groups = feature_group_count * batch_group_count
    batch, inputs = x.shape[0] // batch_group_count, w.shape[1]
    outputs = w.shape[0] // groups
    inverse = [out_spec.index(d) for d in range(len(out_spec))]
    plain = (batch, outputs * groups, *spatial)
    if 0 in plain or 0 in x.shape or 0 in w.shape:
        return (xp.zeros(plain, dtype).transpose(inverse),)
    x, w = x.astype(computed, copy=False), w.astype(computed, copy=False)
    edges = [(low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation, strict=True)]
    x = padded(x, 0, [(0, 0, 0), (0, 0, 0), *edges])
    # [groups, batch, inputs, *sizes]
    if batch_group_count > 1:
        x = x.reshape((groups, batch, inputs, *x.shape[2:]))
    else:
        x = x.reshape((batch, groups, inputs, *x.shape[2:])).swapaxes(0, 1)
    at = x.strides[3:]
    strides = [s * d for s, d in zip(at, rhs_dilation, strict=True)]
    strides += [s * d for s, d in zip(at, window_strides, strict=True)]
    terms, places = inputs * math.prod(window), math.prod(spatial)
    seen = xp.lib.stride_tricks.as_strided(
        x, (groups, batch, inputs, *window, *spatial), (*x.strides[:3], *strides)
    )
    kernel = w.reshape((groups, 1, outputs, terms))
    step = max(1, COPY_BYTES // max(1, groups * terms * places * computed.itemsize))
    parts = []
    for n in range(0, batch, step):
        block = seen[:, n : n + step]
        block = block.reshape((groups, block.shape[1], terms, places))
        parts.append(xp.matmul(kernel, block))  # [groups, batch, outputs, places]
    made = parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=1)
    made = made.swapaxes(0, 1).reshape(plain)
    return (made.astype(dtype, copy=False).transpose(inverse),)
