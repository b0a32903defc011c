"""mgefn.optim, and optax where it is installed, under the names of `trajectories.Side`."""

from __future__ import annotations

import mgefn
from mgefn import numpy as mnp
from mgefn import optim
from tests.optim.trajectories import Side


def ours() -> Side:
    contrib = getattr(optim, "contrib", None)
    return Side(optim, contrib, mnp, mgefn.value_and_grad, mgefn.jit, mgefn.tree.map)


def optax_side() -> Side:
    import jax
    import optax
    import optax.contrib

    jax.config.update("jax_enable_x64", True)
    return Side(optax, optax.contrib, jax.numpy, jax.value_and_grad, jax.jit, jax.tree.map)
