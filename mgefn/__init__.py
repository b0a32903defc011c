"""Pure functions over immutable arrays, differentiated, batched and compiled by composable
transformations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mgefn import debug as debug
from mgefn import dtypes as dtypes
from mgefn import errors as errors
from mgefn import lax as lax
from mgefn import numpy as numpy
from mgefn import random as random
from mgefn import tree as tree
from mgefn import tree_util as tree_util
from mgefn.api.batch import vmap as vmap
from mgefn.api.derivatives import grad as grad
from mgefn.api.derivatives import hessian as hessian
from mgefn.api.derivatives import jacfwd as jacfwd
from mgefn.api.derivatives import jacobian as jacobian
from mgefn.api.derivatives import jacrev as jacrev
from mgefn.api.derivatives import jvp as jvp
from mgefn.api.derivatives import linear_transpose as linear_transpose
from mgefn.api.derivatives import linearize as linearize
from mgefn.api.derivatives import value_and_grad as value_and_grad
from mgefn.api.derivatives import vjp as vjp
from mgefn.api.inspection import block_until_ready as block_until_ready
from mgefn.api.inspection import default_backend as default_backend
from mgefn.api.inspection import device_count as device_count
from mgefn.api.inspection import device_get as device_get
from mgefn.api.inspection import device_put as device_put
from mgefn.api.inspection import devices as devices
from mgefn.api.inspection import disable_jit as disable_jit
from mgefn.api.inspection import ensure_compile_time_eval as ensure_compile_time_eval
from mgefn.api.inspection import eval_shape as eval_shape
from mgefn.api.inspection import local_devices as local_devices
from mgefn.api.inspection import make_jaxpr as make_jaxpr
from mgefn.api.inspection import named_call as named_call
from mgefn.api.jit import ShapeDtypeStruct as ShapeDtypeStruct
from mgefn.api.jit import jit as jit
from mgefn.backends import numpy_cpu as _numpy_cpu  # noqa: F401  # registers its kernels
from mgefn.compiler import program as _program  # noqa: F401  # installs the compile hook
from mgefn.config import config as config
from mgefn.control.callbacks import io_callback as io_callback
from mgefn.control.callbacks import pure_callback as pure_callback
from mgefn.control.checkpoint import checkpoint as checkpoint
from mgefn.control.checkpoint import checkpoint_name as checkpoint_name
from mgefn.control.checkpoint import checkpoint_policies as checkpoint_policies
from mgefn.control.checkpoint import remat as remat
from mgefn.control.custom_rules import closure_convert as closure_convert
from mgefn.control.custom_rules import custom_jvp as custom_jvp
from mgefn.control.custom_rules import custom_vjp as custom_vjp
from mgefn.core.array_methods import Array as Array
from mgefn.dtypes import float0 as float0

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mgefn import nn as nn
    from mgefn import optim as optim

# Loaded when first named, so that programs that do without them do not wait for them.
_ON_FIRST_USE = frozenset({"nn", "optim"})


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"mgefn.{name}")
    raise AttributeError(f"module 'mgefn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
