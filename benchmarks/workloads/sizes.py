"""The sizes of every workload, in one place: about 10^3, 10^5 and 10^7 elements.

Where a workload's cost is not its number of elements (products, loops, solvers), the nearest sizes
that a user would run. They are fixed: a figure from one day can be held against another's. The
order is the one in which workloads run.
"""

from __future__ import annotations

from typing import TypeAlias

Size: TypeAlias = dict[str, int]

LABELS = ("small", "middle", "large")


def _three(small: Size, middle: Size, large: Size) -> dict[str, Size]:
    return dict(zip(LABELS, (small, middle, large), strict=True))


_VECTOR = _three({"n": 1_000}, {"n": 100_000}, {"n": 10_000_000})
_ROWS = _three(
    {"rows": 10, "columns": 100},
    {"rows": 400, "columns": 256},
    {"rows": 10_000, "columns": 1_000},
)
_SQUARE = _three({"n": 32}, {"n": 316}, {"n": 3_162})
_CLASSES = _three(
    {"rows": 100, "columns": 10},
    {"rows": 1_000, "columns": 100},
    {"rows": 10_000, "columns": 1_000},
)
_BODIES = _three({"n": 32}, {"n": 316}, {"n": 3_162})  # n * n pairs
_MLP = _three(
    {"batch": 16, "inputs": 16, "hidden": 32, "classes": 10},
    {"batch": 128, "inputs": 128, "hidden": 256, "classes": 10},
    {"batch": 512, "inputs": 784, "hidden": 2_048, "classes": 10},
)
_CONV = _three(
    {"batch": 4, "side": 8, "channels": 1, "features": 4},
    {"batch": 32, "side": 28, "channels": 1, "features": 16},
    {"batch": 128, "side": 32, "channels": 3, "features": 32},
)
_BLOCK = _three(
    {"batch": 1, "length": 8, "width": 32, "heads": 2},
    {"batch": 4, "length": 64, "width": 128, "heads": 4},
    {"batch": 8, "length": 256, "width": 512, "heads": 8},
)
_ATTENTION = _three(  # batch * heads * length * length scores
    {"batch": 1, "length": 16, "heads": 4, "width": 8},
    {"batch": 2, "length": 112, "heads": 4, "width": 32},
    {"batch": 4, "length": 560, "heads": 8, "width": 64},
)
_RECURRENT = _three(
    {"steps": 8, "batch": 4, "inputs": 8, "hidden": 16},
    {"steps": 64, "batch": 16, "inputs": 32, "hidden": 64},
    {"steps": 256, "batch": 64, "inputs": 128, "hidden": 256},
)
_ODE = _three({"n": 10, "steps": 100}, {"n": 1_000, "steps": 100}, {"n": 100_000, "steps": 100})
_KALMAN = _three(
    {"steps": 100, "state": 2, "seen": 1},
    {"steps": 1_000, "state": 4, "seen": 2},
    {"steps": 10_000, "state": 8, "seen": 4},
)
_STEPS = _three({"steps": 100}, {"steps": 10_000}, {"steps": 1_000_000})
_SCALARS = _three({"steps": 100}, {"steps": 1_000}, {"steps": 100_000})
_DENSE = _three({"n": 32}, {"n": 316}, {"n": 2_048})
_SOLVES = _three({"batch": 64, "n": 4}, {"batch": 6_250, "n": 4}, {"batch": 625_000, "n": 4})
_TABLE = _three(
    {"rows": 50, "width": 16, "n": 64},
    {"rows": 1_000, "width": 64, "n": 1_600},
    {"rows": 50_000, "width": 128, "n": 80_000},
)
_LAYERS = _three({"batch": 4, "width": 8}, {"batch": 32, "width": 32}, {"batch": 256, "width": 128})

SIZES: dict[str, dict[str, Size]] = {
    # elementwise
    "gelu": _VECTOR,
    "gelu_f64": _VECTOR,
    "gelu_grad": _VECTOR,
    "gelu_grad_f64": _VECTOR,
    "black_scholes": _VECTOR,
    "black_scholes_f64": _VECTOR,
    "black_scholes_grad": _VECTOR,
    "black_scholes_grad_f64": _VECTOR,
    "axpy": _VECTOR,
    "huber_grad": _VECTOR,
    # rows
    "softmax": _ROWS,
    "softmax_grad": _ROWS,
    "layer_norm": _ROWS,
    "layer_norm_grad": _ROWS,
    "logsumexp": _ROWS,
    "logsumexp_grad": _ROWS,
    "cross_entropy": _CLASSES,
    "cross_entropy_grad": _CLASSES,
    # reductions
    "column_sum": _ROWS,
    "column_max_grad": _ROWS,
    "standardize_columns": _ROWS,
    "variance": _VECTOR,
    "variance_f64": _VECTOR,
    "variance_grad": _VECTOR,
    "norm": _VECTOR,
    # contractions
    "matmul": _DENSE,
    "matmul_f64": _DENSE,
    "matmul_bias_relu": _DENSE,
    "batched_matmul": _three(
        {"batch": 16, "n": 8}, {"batch": 100, "n": 32}, {"batch": 2_500, "n": 64}
    ),
    "einsum_chain": _DENSE,
    "einsum_bilinear": _three(
        {"batch": 16, "n": 8}, {"batch": 256, "n": 32}, {"batch": 4_096, "n": 128}
    ),
    "einsum_grad": _three(
        {"batch": 16, "n": 8}, {"batch": 256, "n": 32}, {"batch": 4_096, "n": 128}
    ),
    # movement
    "sort": _VECTOR,
    "argsort": _VECTOR,
    "cumsum": _VECTOR,
    "cumsum_grad": _VECTOR,
    "scatter_add": _VECTOR,
    "gather": _VECTOR,
    "gather_rows": _TABLE,
    "embedding_grad": _TABLE,
    "transpose_add": _SQUARE,
    "concatenate_pad": _VECTOR,
    "random_normal": _VECTOR,
    "random_uniform": _VECTOR,
    # signals
    "fft_convolution": _three(
        {"n": 1_000, "taps": 65}, {"n": 100_000, "taps": 129}, {"n": 4_000_000, "taps": 257}
    ),
    "fft_convolution_grad": _three(
        {"n": 1_000, "taps": 65}, {"n": 100_000, "taps": 129}, {"n": 4_000_000, "taps": 257}
    ),
    "image_filter": _SQUARE,
    "image_filter_grad": _SQUARE,
    # simulation
    "n_body": _BODIES,
    "n_body_grad": _BODIES,
    "ode_scan": _ODE,
    "ode_scan_grad": _ODE,
    "heat_step": _SQUARE,
    # science
    "newton_while": _VECTOR,
    "hmc": _three(
        {"rows": 100, "width": 4, "samples": 10},
        {"rows": 1_000, "width": 16, "samples": 20},
        {"rows": 20_000, "width": 64, "samples": 20},
    ),
    "kalman": _KALMAN,
    "kalman_grad": _KALMAN,
    "gp_likelihood_grad": _three({"n": 32}, {"n": 316}, {"n": 2_000}),
    "batched_solve": _SOLVES,
    "batched_solve_grad": _SOLVES,
    "logistic_hessian": _three(
        {"rows": 100, "width": 8}, {"rows": 3_000, "width": 32}, {"rows": 100_000, "width": 64}
    ),
    "mlp_jacrev": _three(
        {"inputs": 16, "hidden": 32, "outputs": 8},
        {"inputs": 128, "hidden": 256, "outputs": 64},
        {"inputs": 1_024, "hidden": 2_048, "outputs": 256},
    ),
    "kmeans": _three(
        {"rows": 100, "width": 8, "centres": 4},
        {"rows": 3_000, "width": 32, "centres": 16},
        {"rows": 100_000, "width": 64, "centres": 64},
    ),
    # training
    "mlp_sgd": _MLP,
    "mlp_adam": _MLP,
    "conv_step": _CONV,
    "attention": _ATTENTION,
    "attention_grad": _ATTENTION,
    "transformer": _BLOCK,
    "transformer_grad": _BLOCK,
    # sequences
    "rnn": _RECURRENT,
    "rnn_grad": _RECURRENT,
    "lstm": _RECURRENT,
    "lstm_grad": _RECURRENT,
    "gru": _RECURRENT,
    "gru_grad": _RECURRENT,
    # loops
    "while_scalar": _three({"steps": 2**10}, {"steps": 2**16}, {"steps": 2**22}),
    "scan_matrix3": _STEPS,
    "scan_matrix3_grad": _STEPS,
    "scan_60_scalars": _SCALARS,
    "scan_60_scalars_grad": _SCALARS,
    # programs
    "layers_300": _LAYERS,
    "layers_300_grad": _LAYERS,
    "dispatch_4": {"small": {"n": 4}},
    "dispatch_4_grad": {"small": {"n": 4}},
    "dispatch_20_leaves": {"small": {"n": 4}},
}

# benchmarks/roofline.py: arrays of 128 MiB, beyond most caches; products that arithmetic bounds.
_LONG = {"n": 2**25}
_WIDE = {"rows": 2**15, "columns": 1_024}
ROOFLINE: dict[str, Size] = {
    "axpy": _LONG,
    "gelu": _LONG,
    "gelu_grad": _LONG,
    "black_scholes": _LONG,
    "norm": _LONG,
    "variance": _LONG,
    "column_sum": _WIDE,
    "softmax": _WIDE,
    "layer_norm": _WIDE,
    "transpose_add": {"n": 5_792},
    "matmul": {"n": 2_048},
    "matmul_f64": {"n": 2_048},
    "matmul_bias_relu": {"n": 2_048},
}
