"""Random numbers as functions of a key: the same key gives the same numbers, everywhere.

    key = mgefn.random.key(0)
    key, subkey = mgefn.random.split(key)
    x = mgefn.random.normal(subkey, (3,))

A key is an array of rank 0 and dtype `key<fry>`, or its two words of uint32, as `PRNGKey` gives
them; functions map over arrays of keys by `vmap`. Use a key once, and split it for more. There is
no global state.

The numbers are those of jax.random on a CPU for the same key (its implementation threefry2x32 with
jax_threefry_partitionable, the default), whether drawn at once, in a jitted function or under vmap.
Bits, integers, uniform and normal numbers in float32 and narrower, and what comes of them by log
and exp, are equal to the last bit, so that draws which are accepted or rejected (poisson, binomial)
are the same draws. Normal numbers in float64 differ by up to 3 units in the last place. Gamma
numbers, and what is made of them, are the same draws and differ in their last digits, and where
JAX's are zero because they would be subnormal.

This file only names things. Keys stand in `keys`, uniform numbers in `uniforms`, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError
from mgefn.random.choices import categorical, choice, permutation
from mgefn.random.continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    wald,
    weibull_min,
)
from mgefn.random.counts import binomial, geometric, multinomial, poisson
from mgefn.random.gammas import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from mgefn.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from mgefn.random.uniforms import bernoulli, bits, rademacher, randint, uniform
from mgefn.random.vectors import multivariate_normal, orthogonal

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
