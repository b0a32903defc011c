"""mgefn.random beside jax.random: the same key, the same numbers.

Three degrees: bits, integers and permutations are equal; floats made by a formula agree to a few
units in the last place; samplers with rejection agree in 99.9 % of the samples, because one
rounding may accept what the other refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import WIDE, Spec
from tests.peers.rows import A, each, f32, i32, positive, r, rows, spd, uniform, unit

BOTH = ("narrow", WIDE)


def keyed(L: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
    return f(L.random.key(17), *args, **kwargs)


def data(L: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
    return L.random.key_data(f(L.random.key(17), *args, **kwargs))


def exact(*given: Any, call: Any = keyed) -> Spec:
    return rows(*given, call=call, ulps=0, modes=BOTH)


def formula(*given: Any, call: Any = keyed, **kw: Any) -> Spec:
    return rows(*given, call=call, **(dict(ulps=4, scale="each", modes=BOTH) | kw))


def rejection(*given: Any, call: Any = keyed, ulps: float = 64) -> Spec:
    return rows(*given, call=call, ulps=ulps, share=0.999, modes=BOTH)


SHAPED = [r(), r((5,)), r((0,)), r((2, 3), np.float16), r((2, 3), np.float32)]
WIDER = [r((7,), np.float64, modes=(WIDE,))]
ONE = A(f32, (3,), positive)
P = A(f32, (3,), unit)
MANY = (2000, 3)

RANDOM: dict[str, Spec] = {
    **each("key PRNGKey", rows([r(s) for s in (0, 1, -1, 2**31 - 1)], call=lambda L, f, s: L.random.key_data(f(s)), modes=BOTH), "random."),
    **each("split", exact(r(), r(3), r((2, 2)), call=data), "random."),
    **each("fold_in", exact(r(0), r(5), r(2**31 - 1), call=data), "random."),
    **each("clone", exact(r(), call=data), "random."),
    **each("key_data", exact(r()), "random."),
    **each("wrap_key_data", rows(r(np.array([3, 4], np.uint32)), call=lambda L, f, x: L.random.bits(f(x), (4,)), modes=BOTH), "random."),
    **each("key_impl", exact(r(), call=lambda L, f: str(f(L.random.key(0)))), "random."),
    **each("bits", exact(r(), r((5,)), [r((2, 3), d) for d in (np.uint8, np.uint16, np.uint32)], r((3,), np.uint64, modes=(WIDE,))), "random."),
    # Bits are compared by themselves. XLA rounds x * (maxval - minval) + minval once or twice,
    # as it likes to fuse them: one unit, of the largest where they cancel.
    **each("uniform", formula(SHAPED, WIDER, r((5,), minval=-2.0, maxval=3.0), r((2, 3), minval=A(f32, (3,)), maxval=5.0), ulps=1, scale="all"), "random."),
    **each("randint", exact(r((5,), 0, 10), r((2, 3), -5, A(i32, (3,), uniform(1, 9))), r((4,), 0, 200, np.uint8), r((4,), -100, 100, np.int8), r((4,), 0, 10**9), r((3,), 0, 2**40, np.int64, modes=(WIDE,))), "random."),
    **each("bernoulli", exact(r(), r(0.3, (50,)), r(P), r(P, (4, 3)), r(0.3, (5,), mode="high")), "random."),
    **each("rademacher", exact(r(), r((20,)), r((3,), np.float32)), "random."),
    **each("permutation", exact(r(10), r(A(f32, (4, 3))), r(A(f32, (4, 3)), axis=1), r(A(f32, (4, 3)), axis=1, independent=True)), "random."),
    **each("choice", exact(r(10), r(10, (4,)), r(10, (4,), replace=False), r(A(f32, (5, 2)), (3,)), r(5, (6,), p=np.full(5, 0.2, np.float32)), r(5, (3,), replace=False, p=np.full(5, 0.2, np.float32))), "random."),
    **each("categorical", exact(r(A(f32, (4, 5))), r(A(f32, (4, 5)), axis=0), r(A(f32, (5,)), shape=(7,)), r(A(f32, (5,)), shape=(3,), replace=False)), "random."),
    **each("normal", formula(SHAPED, WIDER, r((4,), np.complex64)), "random."),
    **each("exponential cauchy gumbel laplace logistic maxwell", formula(SHAPED, WIDER, ulps=16), "random."),
    **each("truncated_normal", formula(r(-1.0, 2.0, (5,)), r(A(f32, (3,), uniform(-2, -1)), 1.0), r(-1.0, 2.0, (4,), np.float64, modes=(WIDE,)), ulps=16), "random."),
    **each("pareto rayleigh", formula(r(ONE), r(2.0, (5,)), r(ONE, (4, 3)), ulps=16), "random."),
    **each("weibull_min", formula(r(1.5, 2.0, (5,)), r(ONE, ONE, (3,)), ulps=16), "random."),
    **each("lognormal", formula(r(), r(0.5, (5,)), r(ONE), ulps=16), "random."),
    **each("double_sided_maxwell", formula(r(0.5, 2.0, (5,)), ulps=16, scale="all"), "random."),
    **each("triangular", formula(r(-1.0, 0.5, 2.0, (5,)), ulps=16, scale="all"), "random."),
    **each("wald", formula(r(1.5, (50,)), r(ONE), ulps=64, scale="all"), "random."),
    **each("geometric", exact(r(0.3, (50,)), r(P), r(P, (4, 3))), "random."),
    **each("gamma loggamma", rejection(r(ONE, MANY), r(2.0, (5,)), r(0.3, (1000,)), r(2.0, (1000,), np.float64, modes=(WIDE,))), "random."),
    **each("beta", rejection(r(ONE, ONE, MANY), r(0.5, 2.0, (5,))), "random."),
    **each("f", rejection(r(3.0, 4.0, (1000,))), "random."),
    **each("chisquare t", rejection(r(ONE, MANY), r(3.0, (5,))), "random."),
    **each("dirichlet", rejection(r(A(f32, (3,), positive), (500,)), r(A(f32, (2, 3), positive))), "random."),
    **each("generalized_normal", rejection(r(1.5, (1000,))), "random."),
    **each("ball", rejection(r(3, 2.0, (500,))), "random."),
    **each("poisson", rejection(r(2.5, (1000,)), r(50.0, (1000,)), r(ONE, MANY)), "random."),
    **each("binomial", rejection(r(10, 0.3, (1000,)), r(200.0, 0.4, (1000,)), r(5.0, P, MANY)), "random."),
    **each("multinomial", rejection(r(20.0, np.array([0.2, 0.3, 0.5], np.float32)), r(np.full(300, 20.0, np.float32), np.array([0.2, 0.3, 0.5], np.float32))), "random."),
    **each("multivariate_normal", formula(r(A(f32, (3,)), A(f32, (3, 3), spd), (4,)), r(A(f32, (3,)), A(f32, (3, 3), spd), method="svd", call=lambda L, f, m, c, method: f(L.random.key(1), m, c, method=method).shape), ulps=256, scale="all"), "random."),
    **each("orthogonal", formula(r(3), r(3, (2,)), ulps=256, scale="all"), "random."),
}  # fmt: skip
