"""jax.nn: activations, attention, initializers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import WIDE, Spec
from tests.peers.rows import A, each, f16, f32, f64, i32, r, rows, uniform
from tests.peers.specs_elementwise import FLOATS, unary
from tests.peers.specs_numpy import MASK

QKV = lambda d: (A(d, (2, 4, 2, 3)), A(d, (2, 5, 2, 3)), A(d, (2, 5, 2, 3)))
INIT = lambda L, f, *a, **k: f(*a, **k)(L.random.key(3), (4, 3, 5), np.float32)
SQUARE = lambda L, f, *a, **k: f(*a, **k)(L.random.key(3), (3, 3, 4, 5), np.float32)


def initializer(*given: Any, call: Any = INIT, ulps: float = 16) -> Spec:
    return rows(*given, call=call, ulps=ulps, modes=("narrow", WIDE))


def over_axis() -> Spec:
    return rows(
        [r(A(d), **o) for o in ({}, dict(axis=0), dict(axis=(0, 1)), dict(axis=-1, where=MASK)) for d in (i32, f16, f32, f64)],
        r(np.array([1e4, 0.0, -1e4], np.float32)), r(A(f32, ()), axis=()), ulps=32,
    )  # fmt: skip


def activation() -> Spec:
    # Of unsigned integers and bool JAX makes what wraps around, such as log_sigmoid(1) = -254.
    edge_dtypes = (np.float32, np.float64)
    return unary((np.int32, *FLOATS), ulps=16, scalars=(2, 0.5), edge_dtypes=edge_dtypes)


NN: dict[str, Spec] = {
    **each("celu elu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid silu swish soft_sign softplus sparse_plus sparse_sigmoid squareplus tanh identity", activation(), "nn."),
    **each("gelu", rows([r(A(d), approximate=a) for a in (True, False) for d in (i32, *FLOATS)], r(A(f32, ())), ulps=16), "nn."),
    **each("log1mexp", unary(FLOATS, low=0.1, high=4.0, ulps=16), "nn."),
    **each("glu", rows([r(A(d, (2, 4)), **o) for o in ({}, dict(axis=0)) for d in (f16, f32, f64)]), "nn."),
    **each("softmax log_softmax", over_axis(), "nn."),
    **each("logsumexp logmeanexp", rows([r(A(d), **o) for o in ({}, dict(axis=0), dict(axis=-1, keepdims=True), dict(axis=1, where=MASK)) for d in (i32, f16, f32, f64)], ulps=32), "nn."),
    **each("standardize", rows([r(A(d, (3, 4)), **o) for o in ({}, dict(axis=0), dict(axis=(0, 1), epsilon=0.1)) for d in (f32, f64)], ulps=256, slope_ulps=4096), "nn."),
    **each("one_hot", rows(r(A(i32, (3,), uniform(-1, 4)), 4), r(A(i32, (2, 3), uniform(0, 3)), 4, axis=0), r(2, 4), r(A(i32, (3,)), 3, dtype=np.int8), r(A(f32, (3,)), 3)), "nn."),
    # JAX takes the softmax in float32 whatever comes, so that slopes agree to 1e-6.
    **each("dot_product_attention", rows([r(*QKV(d), **o) for o in ({}, dict(scale=0.5)) for d in (f32, f64)], [r(A(d, (2, 4, 2, 3)), A(d, (2, 4, 2, 3)), A(d, (2, 4, 2, 3)), is_causal=True) for d in (f32, f64)], [r(*QKV(d), A(d, (1, 2, 4, 5))) for d in (f32, f64)], r(*QKV(f32), mask=np.tril(np.ones((1, 1, 4, 5), bool))), r(A(f32, (1, 4, 4, 3)), A(f32, (1, 5, 2, 3)), A(f32, (1, 5, 2, 3))), r(*QKV(f32), query_seq_lengths=np.array([2, 4], np.int32), key_value_seq_lengths=np.array([5, 3], np.int32)), r(A(f32, (2, 4, 2, 3)), A(f32, (2, 4, 2, 3)), A(f32, (2, 4, 2, 3)), local_window_size=(1, 1)), ulps=64, slope_ulps=1e10), "nn."),
    **each("constant", initializer(r(2.5), r(3, dtype=np.int32)), "nn.initializers."),
    **each("zeros ones", initializer(r(), call=lambda L, f: (f(L.random.key(0), (2, 3)), f(L.random.key(0), (2,), np.int32))), "nn.initializers."),
    **each("glorot_normal glorot_uniform xavier_normal xavier_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform", initializer(r(), r(in_axis=0, out_axis=1), r(batch_axis=0)), "nn.initializers."),
    **each("normal uniform", initializer(r(), r(0.5)), "nn.initializers."),
    **each("truncated_normal", initializer(r(), r(0.5, lower=-1.0, upper=1.5)), "nn.initializers."),
    **each("variance_scaling", initializer([r(2.0, m, d) for m in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg") for d in ("normal", "truncated_normal", "uniform")], ulps=16), "nn.initializers."),
    **each("orthogonal", initializer(r(), r(2.0, column_axis=0), ulps=512), "nn.initializers."),
    **each("delta_orthogonal", initializer(r(), r(2.0), call=SQUARE, ulps=512), "nn.initializers."),
}  # fmt: skip
