"""Pure functions over immutable arrays, differentiated, batched and compiled by composable
transformations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mgefn import dtypes as dtypes
from mgefn import errors as errors
from mgefn import numpy as numpy
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
from mgefn.api.inspection import Device as Device
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
from mgefn.api.jit import jit as jit
from mgefn.api.stages import ShapeDtypeStruct as ShapeDtypeStruct
from mgefn.backends import numpy_cpu as _numpy_cpu  # noqa: F401  # registers its kernels
from mgefn.config import config as config
from mgefn.config import hooks as _hooks
from mgefn.core import backends as _backends
from mgefn.core.array_methods import Array as Array
from mgefn.dtypes import float0 as float0
from mgefn.numpy import dispatch as _dispatch

__version__ = "0.1.0"
__version_info__ = (0, 1, 0)

if TYPE_CHECKING:
    from mgefn import ad_checkpoint as ad_checkpoint
    from mgefn import amp as amp
    from mgefn import checkify as checkify
    from mgefn import custom_batching as custom_batching
    from mgefn import custom_derivatives as custom_derivatives
    from mgefn import data as data
    from mgefn import debug as debug
    from mgefn import dlpack as dlpack
    from mgefn import experimental as experimental
    from mgefn import flatten_util as flatten_util
    from mgefn import image as image
    from mgefn import io as io
    from mgefn import lax as lax
    from mgefn import logger as logger
    from mgefn import memory as memory
    from mgefn import metrics as metrics
    from mgefn import nn as nn
    from mgefn import optim as optim
    from mgefn import profiler as profiler
    from mgefn import random as random
    from mgefn import scipy as scipy
    from mgefn import sharding as sharding
    from mgefn import stages as stages
    from mgefn import test_util as test_util
    from mgefn import training as training
    from mgefn import typing as typing
    from mgefn import vision as vision
    from mgefn import viz as viz
    from mgefn.api.products import hvp as hvp
    from mgefn.api.settings import checking_leaks as checking_leaks
    from mgefn.api.settings import clear_caches as clear_caches
    from mgefn.api.settings import compilation_barrier as compilation_barrier
    from mgefn.api.settings import debug_infs as debug_infs
    from mgefn.api.settings import debug_nans as debug_nans
    from mgefn.api.settings import default_device as default_device
    from mgefn.api.settings import effects_barrier as effects_barrier
    from mgefn.api.settings import enable_x64 as enable_x64
    from mgefn.api.settings import live_arrays as live_arrays
    from mgefn.api.settings import local_device_count as local_device_count
    from mgefn.api.settings import log_compiles as log_compiles
    from mgefn.api.settings import named_scope as named_scope
    from mgefn.api.settings import print_environment_info as print_environment_info
    from mgefn.api.settings import process_count as process_count
    from mgefn.api.settings import process_index as process_index
    from mgefn.api.settings import transfer_guard as transfer_guard
    from mgefn.api.settings import transfer_guard_device_to_host as transfer_guard_device_to_host
    from mgefn.api.settings import transfer_guard_host_to_device as transfer_guard_host_to_device
    from mgefn.api.settings import typeof as typeof
    from mgefn.control.callbacks import io_callback as io_callback
    from mgefn.control.callbacks import pure_callback as pure_callback
    from mgefn.control.checkpoint import checkpoint as checkpoint
    from mgefn.control.checkpoint import checkpoint_name as checkpoint_name
    from mgefn.control.checkpoint import checkpoint_policies as checkpoint_policies
    from mgefn.control.checkpoint import remat as remat
    from mgefn.control.custom_rules import closure_convert as closure_convert
    from mgefn.control.custom_rules import custom_jvp as custom_jvp
    from mgefn.control.custom_rules import custom_vjp as custom_vjp
    from mgefn.custom_derivatives import custom_gradient as custom_gradient
    from mgefn.rngs import Rngs as Rngs
    from mgefn.sharding import NamedSharding as NamedSharding
    from mgefn.sharding import P as P
    from mgefn.sharding import make_mesh as make_mesh
    from mgefn.sharding import reshard as reshard
    from mgefn.sharding import set_mesh as set_mesh
    from mgefn.sharding import shard_map as shard_map
    from mgefn.training.tensorboard import SummaryWriter as SummaryWriter

# Loaded when first named, so that programs that do without them do not wait for them.
_ON_FIRST_USE = frozenset(
    {
        "ad_checkpoint",
        "amp",
        "checkify",
        "custom_batching",
        "custom_derivatives",
        "data",
        "debug",
        "dlpack",
        "experimental",
        "flatten_util",
        "image",
        "io",
        "lax",
        "logger",
        "memory",
        "metrics",
        "nn",
        "optim",
        "profiler",
        "random",
        "scipy",
        "sharding",
        "stages",
        "test_util",
        "training",
        "typing",
        "vision",
        "viz",
    }
)
# module -> names that it lends to this one
_LENT = {
    "mgefn.api.products": ("hvp",),
    "mgefn.api.settings": (
        "checking_leaks",
        "clear_caches",
        "debug_infs",
        "debug_nans",
        "default_device",
        "compilation_barrier",
        "effects_barrier",
        "enable_x64",
        "live_arrays",
        "local_device_count",
        "log_compiles",
        "named_scope",
        "print_environment_info",
        "process_count",
        "process_index",
        "transfer_guard",
        "transfer_guard_device_to_host",
        "transfer_guard_host_to_device",
        "typeof",
    ),
    "mgefn.control.callbacks": (
        "io_callback",
        "pure_callback",
    ),
    "mgefn.control.checkpoint": (
        "checkpoint",
        "checkpoint_name",
        "checkpoint_policies",
        "remat",
    ),
    "mgefn.control.custom_rules": (
        "closure_convert",
        "custom_jvp",
        "custom_vjp",
    ),
    "mgefn.custom_derivatives": ("custom_gradient",),
    "mgefn.rngs": ("Rngs",),
    "mgefn.sharding": (
        "NamedSharding",
        "P",
        "make_mesh",
        "reshard",
        "set_mesh",
        "shard_map",
    ),
    "mgefn.training": ("SummaryWriter",),
}
_LENDERS = {name: module for module, names in _LENT.items() for name in names}

# The compiler, which puts its own hook in this one's place.
_backends.set_compile_hook(
    lambda *args, **options: importlib.import_module("mgefn.compiler.program").compile_jaxpr(
        *args, **options
    )
)
# Kernels of families that few programs need.
_backends.set_late_table(
    "numpy", lambda: importlib.import_module("mgefn.backends.numpy_cpu_families")
)
_backends.set_late_table("llvm", lambda: importlib.import_module("mgefn.backends.llvm_cpu"))
_backends.set_late_table("ptx", lambda: importlib.import_module("mgefn.backends.ptx_gpu"))
_backends.set_late_table("cupy", lambda: importlib.import_module("mgefn.backends.cupy_gpu"))
# scipy.special.erf(x) finds mgefn.scipy.special.erf, which is above the module that dispatches.
_dispatch.LOADERS["scipy.special"] = lambda: importlib.import_module("mgefn.scipy.special")


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"mgefn.{name}")
    if name in _LENDERS:
        value = globals()[name] = getattr(importlib.import_module(_LENDERS[name]), name)
        return value
    raise errors.MissingNameError("mgefn", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE, *_LENDERS})


def _watch_for_nonfinite(everywhere: bool) -> None:
    importlib.import_module("mgefn.control.nonfinite").apply(everywhere)


_hooks["debug_nans"] = _hooks["debug_infs"] = _watch_for_nonfinite
if config.debug_nans or config.debug_infs:  # by the environment
    _watch_for_nonfinite(True)
