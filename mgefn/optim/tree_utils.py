"""The functions of `optim.tree` under their longer names."""

from __future__ import annotations

from mgefn.optim.tree import NamedTupleKey as NamedTupleKey
from mgefn.optim.tree import add as tree_add
from mgefn.optim.tree import add_scale as tree_add_scale
from mgefn.optim.tree import allclose as tree_allclose
from mgefn.optim.tree import batch_shape as tree_batch_shape
from mgefn.optim.tree import bias_correction as tree_bias_correction
from mgefn.optim.tree import cast as tree_cast
from mgefn.optim.tree import cast_like as tree_cast_like
from mgefn.optim.tree import clip as tree_clip
from mgefn.optim.tree import conj as tree_conj
from mgefn.optim.tree import div as tree_div
from mgefn.optim.tree import dtype as tree_dtype
from mgefn.optim.tree import full_like as tree_full_like
from mgefn.optim.tree import get as tree_get
from mgefn.optim.tree import get_all_with_path as tree_get_all_with_path
from mgefn.optim.tree import map_params as tree_map_params
from mgefn.optim.tree import max as tree_max
from mgefn.optim.tree import min as tree_min
from mgefn.optim.tree import mul as tree_mul
from mgefn.optim.tree import norm as tree_norm
from mgefn.optim.tree import ones_like as tree_ones_like
from mgefn.optim.tree import random_like as tree_random_like
from mgefn.optim.tree import real as tree_real
from mgefn.optim.tree import scale as tree_scale
from mgefn.optim.tree import set as tree_set
from mgefn.optim.tree import size as tree_size
from mgefn.optim.tree import split_key_like as tree_split_key_like
from mgefn.optim.tree import sub as tree_sub
from mgefn.optim.tree import sum as tree_sum
from mgefn.optim.tree import unwrap_random_key_data as tree_unwrap_random_key_data
from mgefn.optim.tree import update_infinity_moment as tree_update_infinity_moment
from mgefn.optim.tree import update_moment as tree_update_moment
from mgefn.optim.tree import update_moment_per_elem_norm as tree_update_moment_per_elem_norm
from mgefn.optim.tree import vdot as tree_vdot
from mgefn.optim.tree import where as tree_where
from mgefn.optim.tree import zeros_like as tree_zeros_like

__all__ = [
    "NamedTupleKey",
    "tree_add",
    "tree_add_scale",
    "tree_allclose",
    "tree_batch_shape",
    "tree_bias_correction",
    "tree_cast",
    "tree_cast_like",
    "tree_clip",
    "tree_conj",
    "tree_div",
    "tree_dtype",
    "tree_full_like",
    "tree_get",
    "tree_get_all_with_path",
    "tree_map_params",
    "tree_max",
    "tree_min",
    "tree_mul",
    "tree_norm",
    "tree_ones_like",
    "tree_random_like",
    "tree_real",
    "tree_scale",
    "tree_set",
    "tree_size",
    "tree_split_key_like",
    "tree_sub",
    "tree_sum",
    "tree_unwrap_random_key_data",
    "tree_update_infinity_moment",
    "tree_update_moment",
    "tree_update_moment_per_elem_norm",
    "tree_vdot",
    "tree_where",
    "tree_zeros_like",
]
