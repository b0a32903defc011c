"""Programs written once, for optax and for mgefn.optim: optimizers, problems, schedules.

Each entry is a function of the library (and of its array module), so that the same text makes the
recorded values and is compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

KEPT = (1, 2, 3, 5, 10, 20, 35, 50)  # the steps after which params are recorded
STEPS = KEPT[-1]


class Side(NamedTuple):
    """A library under one set of names."""

    optim: Any  # optax, or mgefn.optim
    contrib: Any
    xp: Any  # jax.numpy, or mgefn.numpy
    value_and_grad: Callable[..., Any]
    jit: Callable[..., Any]
    map: Callable[..., Any]  # of a tree


# -- problems --------------------------------------------------------------------------------------

_RNG = np.random.default_rng(5)
_FACTOR = _RNG.normal(size=(4, 4))
_MATRIX = _FACTOR @ _FACTOR.T / 4 + 0.5 * np.eye(4)
_TARGET = _RNG.normal(size=4)
_X, _Y = _RNG.normal(size=(6, 3)), _RNG.normal(size=(6, 2))
_NET = {
    "a": {"w": _RNG.normal(size=(3, 4)) / 2, "b": np.full(4, 0.1)},
    "z": {"w": _RNG.normal(size=(4, 2)) / 2, "b": np.zeros(2)},
}


def quadratic(xp: Any) -> tuple[Callable[[Any], Any], Any]:
    matrix, target = xp.asarray(_MATRIX), xp.asarray(_TARGET)

    def loss(p: Any) -> Any:
        d = p["x"] - target
        return 0.5 * xp.dot(d, xp.dot(matrix, d))

    return loss, {"x": np.array([1.0, -2.0, 0.5, 3.0])}


def rosenbrock(xp: Any) -> tuple[Callable[[Any], Any], Any]:
    def loss(p: Any) -> Any:
        x, y = p[0], p[1]
        return (1 - x) ** 2 + 100 * (y - x**2) ** 2

    return loss, np.array([-1.2, 1.0])


def net(xp: Any) -> tuple[Callable[[Any], Any], Any]:
    data, labels = xp.asarray(_X), xp.asarray(_Y)

    def loss(p: Any) -> Any:
        h = xp.tanh(data @ p["a"]["w"] + p["a"]["b"])
        return xp.mean((h @ p["z"]["w"] + p["z"]["b"] - labels) ** 2)

    return loss, _NET


PROBLEMS = {f.__name__: f for f in (quadratic, rosenbrock, net)}

# -- optimizers ------------------------------------------------------------------------------------

MASK = {"a": {"w": True, "b": False}, "z": True}


def rate(o: Any) -> Any:
    """A schedule that moves at every step."""
    return o.cosine_decay_schedule(0.05, 40, alpha=0.1)


def without_extra_args(s: Side, tx: Any) -> Any:
    """optax's sam takes no value, though it says that it takes any argument."""
    return s.optim.GradientTransformation(*tx)


OPTIMIZERS: dict[str, Callable[[Side], Any]] = {
    "sgd": lambda s: s.optim.sgd(1e-3),
    "sgd-momentum": lambda s: s.optim.sgd(1e-3, momentum=0.9),
    "sgd-nesterov": lambda s: s.optim.sgd(1e-3, momentum=0.9, nesterov=True),
    "sgd-schedule": lambda s: s.optim.chain(
        s.optim.clip_by_global_norm(1.0), s.optim.sgd(rate(s.optim))
    ),
    "adam": lambda s: s.optim.adam(0.03),
    "adam-eps-root": lambda s: s.optim.adam(0.03, eps_root=1e-6),
    "adamw": lambda s: s.optim.adamw(0.03, weight_decay=0.1),
    "adamw-scheduled-decay": lambda s: s.optim.adamw(0.03, weight_decay=rate(s.optim)),
    "nadam": lambda s: s.optim.nadam(0.03),
    "nadamw": lambda s: s.optim.nadamw(0.03, weight_decay=0.1),
    "amsgrad": lambda s: s.optim.amsgrad(0.03),
    "adamax": lambda s: s.optim.adamax(0.03),
    "adamaxw": lambda s: s.optim.adamaxw(0.03, weight_decay=0.1),
    "radam": lambda s: s.optim.radam(0.03),
    "radam-nesterov": lambda s: s.optim.radam(0.01, nesterov=True, b2=0.99),
    "adabelief": lambda s: s.optim.adabelief(0.03),
    "adabelief-nesterov": lambda s: s.optim.adabelief(0.03, nesterov=True),
    "yogi": lambda s: s.optim.yogi(0.03),
    "adan": lambda s: s.optim.adan(0.03),
    "lion": lambda s: s.optim.lion(0.01, weight_decay=0.1),
    "lion-smooth": lambda s: s.optim.chain(
        s.optim.scale_by_lion(mode="smooth", smooth_beta=2.0), s.optim.scale(-0.01)
    ),
    "lion-refined": lambda s: s.optim.chain(
        s.optim.scale_by_lion(mode="refined"), s.optim.scale(-0.01)
    ),
    "lamb": lambda s: s.optim.lamb(0.03, weight_decay=0.1),
    "lars": lambda s: s.optim.lars(0.3, weight_decay=0.1, trust_coefficient=0.1),
    "lars-nesterov": lambda s: s.optim.lars(0.3, trust_coefficient=0.1, nesterov=True),
    "novograd": lambda s: s.optim.novograd(0.03, weight_decay=0.01),
    "adagrad": lambda s: s.optim.adagrad(0.1),
    "adadelta": lambda s: s.optim.adadelta(1.0, weight_decay=0.01),
    "rmsprop": lambda s: s.optim.rmsprop(0.01),
    "rmsprop-centered": lambda s: s.optim.rmsprop(0.01, centered=True, momentum=0.5, eps=1e-4),
    "rmsprop-corrected": lambda s: s.optim.rmsprop(
        0.01, bias_correction=True, eps_in_sqrt=False, momentum=0.5, nesterov=True
    ),
    "rmsprop-centered-corrected": lambda s: s.optim.rmsprop(
        0.01, centered=True, bias_correction=True, eps=1e-2
    ),
    "adafactor": lambda s: s.optim.adafactor(0.03),
    "adafactor-factored": lambda s: s.optim.adafactor(
        0.03, min_dim_size_to_factor=1, momentum=0.9, dtype_momentum="float64",
        weight_decay_rate=1e-3,
    ),
    "sm3": lambda s: s.optim.sm3(0.03),
    "rprop": lambda s: s.optim.rprop(0.01),
    "fromage": lambda s: s.optim.fromage(0.03),
    "sign_sgd": lambda s: s.optim.sign_sgd(0.01),
    "signum": lambda s: s.optim.signum(0.01),
    "optimistic_gradient_descent": lambda s: s.optim.optimistic_gradient_descent(
        1e-3, alpha=1.0, beta=0.5
    ),
    "optimistic_adam_v2": lambda s: s.optim.optimistic_adam_v2(0.01, alpha=1.0, beta=0.5),
    "optimistic_adam": lambda s: s.optim.optimistic_adam(0.01),
    "polyak_sgd": lambda s: s.optim.polyak_sgd(1e-3, 0.5),
    "polyak_sgd-plus": lambda s: s.optim.polyak_sgd(0.5, 0.5, 0.1, 0.01, "sps+"),
    "noisy_sgd": lambda s: s.optim.noisy_sgd(1e-3, eta=0.1, key=3),
    "clip": lambda s: s.optim.chain(s.optim.clip(0.3), s.optim.sgd(0.1)),
    "clip_by_block_rms": lambda s: s.optim.chain(
        s.optim.clip_by_block_rms(0.2), s.optim.sgd(0.1)
    ),
    "adaptive_grad_clip": lambda s: s.optim.chain(
        s.optim.adaptive_grad_clip(0.05), s.optim.sgd(0.1)
    ),
    "centralize": lambda s: s.optim.chain(s.optim.centralize(), s.optim.sgd(1e-3)),
    "normalize_by_update_norm": lambda s: s.optim.chain(
        s.optim.normalize_by_update_norm(2.0), s.optim.sgd(0.02)
    ),
    "ema": lambda s: s.optim.chain(s.optim.ema(0.8), s.optim.sgd(1e-3)),
    "ema-biased": lambda s: s.optim.chain(s.optim.ema(0.8, debias=False), s.optim.sgd(1e-3)),
    "apply_every": lambda s: s.optim.chain(s.optim.apply_every(3), s.optim.sgd(1e-3)),
    "block-norm": lambda s: s.optim.chain(
        s.optim.scale_by_param_block_norm(), s.optim.sgd(1e-4)
    ),
    "block-rms": lambda s: s.optim.chain(s.optim.scale_by_param_block_rms(), s.optim.sgd(1e-4)),
    "flatten": lambda s: s.optim.flatten(s.optim.adam(0.03)),
    "keep_params_nonnegative": lambda s: s.optim.chain(
        s.optim.sgd(1e-3), s.optim.keep_params_nonnegative()
    ),
    "conditionally_transform": lambda s: s.optim.chain(
        s.optim.conditionally_transform(s.optim.trace(0.5), lambda step: step % 3 == 1),
        s.optim.scale(-1e-3),
    ),
    "conditionally_mask": lambda s: s.optim.conditionally_mask(
        s.optim.sgd(1e-3, 0.9), lambda step: step % 2 == 0
    ),
    "apply_if_finite": lambda s: s.optim.apply_if_finite(s.optim.adam(0.03), 2),
    "named_chain": lambda s: s.optim.named_chain(
        ("clip", s.optim.clip(1.0)), ("adam", s.optim.adam(0.03))
    ),
    "inject_hyperparams": lambda s: s.optim.inject_hyperparams(s.optim.adamw)(
        rate(s.optim), b1=0.8, weight_decay=0.01
    ),
    "backtracking": lambda s: s.optim.chain(
        s.optim.sgd(1.0), s.optim.scale_by_backtracking_linesearch(20, store_grad=True)
    ),
    "backtracking-loose": lambda s: s.optim.chain(
        s.optim.sgd(1.0),
        s.optim.scale_by_backtracking_linesearch(
            15, slope_rtol=0.3, decrease_factor=0.5, increase_factor=4.0, max_learning_rate=0.5,
            atol=1e-9, rtol=1e-9,
        ),
    ),
    "zoom": lambda s: s.optim.chain(s.optim.sgd(1.0), s.optim.scale_by_zoom_linesearch(20)),
    "zoom-bounded": lambda s: s.optim.chain(
        s.optim.sgd(1.0),
        s.optim.scale_by_zoom_linesearch(
            20, max_learning_rate=0.1, curv_rtol=0.5, approx_dec_rtol=None
        ),
    ),
    "lbfgs": lambda s: s.optim.lbfgs(),
    "lbfgs-short": lambda s: s.optim.lbfgs(memory_size=3, scale_init_precond=False),
    "lbfgs-plain": lambda s: s.optim.lbfgs(1e-3, memory_size=4, linesearch=None),
    "multi_steps": lambda s: s.optim.MultiSteps(
        s.optim.adam(0.03), 3, accumulator_dtype="float64"
    ).gradient_transformation(),
    "multi_steps-sum-skip": lambda s: s.optim.MultiSteps(
        s.optim.sgd(1e-3), lambda n: 2 + n % 2, use_grad_mean=False,
        should_skip_update_fn=s.optim.skip_not_finite, accumulator_dtype="float64",
    ).gradient_transformation(),
    "schedule_free_sgd": lambda s: s.contrib.schedule_free_sgd(1e-3, weight_decay=0.01),
    "schedule_free_adamw": lambda s: s.contrib.schedule_free_adamw(0.03, 5, weight_decay=0.01),
    "schedule_free": lambda s: s.contrib.schedule_free(
        s.optim.adam(0.03, b1=0.0), 0.03, b1=0.8, weight_lr_power=1.0
    ),
    "sam": lambda s: without_extra_args(
        s,
        s.contrib.sam(
            s.optim.sgd(1e-3, 0.9), s.optim.chain(s.contrib.normalize(), s.optim.sgd(0.05)), 3
        ),
    ),
    "sam-keep-state": lambda s: without_extra_args(
        s, s.contrib.sam(s.optim.adam(0.03), s.optim.sgd(1e-3, 0.5), reset_state=False)
    ),
    "prodigy": lambda s: s.contrib.prodigy(weight_decay=0.01, estim_lr0=1e-3),
    "prodigy-safeguard": lambda s: s.contrib.prodigy(
        rate(s.optim), estim_lr0=1e-2, safeguard_warmup=True, estim_lr_coef=2.0
    ),
    "dog": lambda s: s.contrib.dog(1.0, ("distance", 1e-2)),
    "dog-heuristic": lambda s: s.contrib.dog(0.5, ("heuristic", 1e-2), weight_decay=0.01),
    "dog-rate": lambda s: s.contrib.dog(1.0, ("learning_rate", 1e-3)),
    "dowg": lambda s: s.contrib.dowg(0.5),
    "momo": lambda s: s.contrib.momo(0.1, weight_decay=0.01),
    "momo-adapt": lambda s: s.contrib.momo(0.01, lower_bound=-1.0, adapt_lower_bound=True),
    "reduce_on_plateau": lambda s: s.optim.chain(
        s.optim.sgd(2e-3), s.contrib.reduce_on_plateau(0.5, 2, rtol=0.1, cooldown=2)
    ),
    "reduce_on_plateau-mean": lambda s: s.optim.chain(
        s.optim.adam(0.1),
        s.contrib.reduce_on_plateau(0.3, 1, rtol=0.2, accumulation_size=3, min_scale=0.05),
    ),
    "ademamix": lambda s: s.contrib.ademamix(
        0.03, b3=0.99, alpha=lambda n: 3.0 - 0.01 * n, weight_decay=0.1
    ),
    "adopt": lambda s: s.contrib.adopt(0.03, b2=0.99),
    "adopt-free": lambda s: s.contrib.adopt(0.03, b2=0.99, use_clipping=False, nesterov=True),
    "madgrad": lambda s: s.contrib.madgrad(0.01, weight_decay=0.01),
    "muon": lambda s: s.contrib.muon(0.03, weight_decay=0.1),
    "muon-plain": lambda s: s.contrib.muon(
        0.03, ns_steps=3, nesterov=False, adaptive=True, consistent_rms=0.2, adam_weight_decay=0.1
    ),
    "muon-dion": lambda s: s.contrib.muon(0.03, "dion", preconditioning="spectral"),
    "muon-schatten": lambda s: s.contrib.muon(0.03, preconditioning="schatten"),
    "muon-aol": lambda s: s.contrib.muon(0.03, preconditioning="aol", adam_learning_rate=0.01),
}  # fmt: skip

# They name parts of the net's params, so that they run on it alone.
NET_OPTIMIZERS: dict[str, Callable[[Side], Any]] = {
    "masked": lambda s: s.optim.chain(
        s.optim.masked(s.optim.trace(0.9), MASK), s.optim.scale(-0.02)
    ),
    "adamw-masked-decay": lambda s: s.optim.adamw(0.03, weight_decay=0.1, mask=MASK),
    "partition": lambda s: s.optim.partition(
        {"adam": s.optim.adam(0.03), "sgd": s.optim.sgd(0.1)}, {"a": "adam", "z": "sgd"}
    ),
    "multi_transform": lambda s: s.optim.multi_transform(
        {True: s.optim.adam(0.03), False: s.optim.set_to_zero()},
        lambda p: s.map(lambda x: x.ndim == 2, p),
    ),
    "freeze": lambda s: s.optim.chain(s.optim.sgd(0.1), s.optim.freeze(MASK)),
    "selective_transform": lambda s: s.optim.selective_transform(
        s.optim.adam(0.03), freeze_mask=MASK
    ),
}


def programs() -> Iterator[tuple[str, str, Callable[[Side], Any]]]:
    """(name of the optimizer, of the problem, how to make it)."""
    for name, make in OPTIMIZERS.items():
        for problem in PROBLEMS:
            yield name, problem, make
    for name, make in NET_OPTIMIZERS.items():
        yield name, "net", make


def trajectory(side: Side, make: Callable[[Side], Any], problem: str) -> np.ndarray:
    """Params after each step, as rows of float64."""
    loss, start = PROBLEMS[problem](side.xp)
    tx = side.optim.with_extra_args_support(make(side))
    params = side.map(side.xp.asarray, start)
    state = tx.init(params)

    def step(params: Any, state: Any) -> Any:
        value, grad = side.value_and_grad(loss)(params)
        updates, state = tx.update(grad, state, params, value=value, grad=grad, value_fn=loss)
        return side.optim.apply_updates(params, updates), state

    step = side.jit(step)
    rows = []
    for _ in range(STEPS):
        params, state = step(params, state)
        rows.append(flat(side, params))
    return np.stack(rows)


def described(x: Any) -> str:
    """Classes, fields, keys, shapes and dtypes of a state."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        inside = ", ".join(f"{f}={described(getattr(x, f))}" for f in x._fields)
        return f"{type(x).__name__}({inside})"
    if isinstance(x, tuple | list):
        return f"{type(x).__name__}({', '.join(map(described, x))})"
    if isinstance(x, dict):
        inside = ", ".join(f"{key}: {described(x[key])}" for key in sorted(x))
        return f"{type(x).__name__}({inside})"
    if x is None:
        return "None"
    # A dtype of keys prints as key<fry> in JAX, and as its fields here.
    return f"{'key' if 'key<fry>' in str(x.dtype) else x.dtype}{list(x.shape)}"


def first_state(side: Side, make: Callable[[Side], Any]) -> str:
    """The state that the optimizer makes for the params of the net."""
    return described(make(side).init(side.map(side.xp.asarray, _NET)))


def flat(side: Side, params: Any) -> np.ndarray:
    leaves: list[np.ndarray] = []
    side.map(lambda x: leaves.append(np.ravel(np.asarray(x, np.float64))), params)
    return np.concatenate(leaves)


# -- schedules -------------------------------------------------------------------------------------

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda o: o.constant_schedule(0.3),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2, 20, 5),
    "polynomial-root": lambda o: o.polynomial_schedule(0.0, 1.0, 0.5, 30),
    "linear": lambda o: o.linear_schedule(0.0, 1.0, 25, 3),
    "piecewise": lambda o: o.piecewise_constant_schedule(1.0, {5: 0.5, 20: 0.1}),
    "exponential": lambda o: o.exponential_decay(1.0, 10, 0.5),
    "exponential-staircase": lambda o: o.exponential_decay(1.0, 10, 0.5, 4, True, 0.2),
    "exponential-growth": lambda o: o.exponential_decay(1.0, 10, 2.0, end_value=3.0),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 30),
    "cosine-alpha": lambda o: o.cosine_decay_schedule(1.0, 30, 0.1, 2.0),
    "join": lambda o: o.join_schedules(
        [
            o.linear_schedule(0.0, 1.0, 9),
            o.constant_schedule(0.7),
            o.exponential_decay(1.0, 5, 0.9),
        ],
        [10, 20],
    ),
    "warmup-constant": lambda o: o.warmup_constant_schedule(0.1, 1.0, 10),
    "warmup-cosine": lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 10, 40, 0.05),
    "warmup-exponential": lambda o: o.warmup_exponential_decay_schedule(
        0.0, 1.0, 10, 5, 0.8, 3, True, 0.1
    ),
    "sgdr": lambda o: o.sgdr_schedule(
        [
            {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 5, "decay_steps": 20},
            {"init_value": 0.1, "peak_value": 0.5, "warmup_steps": 3, "decay_steps": 15},
        ]
    ),
    "interpolate-linear": lambda o: o.piecewise_interpolate_schedule(
        "linear", 1.0, {5: 0.5, 20: 2.0}
    ),
    "interpolate-cosine": lambda o: o.piecewise_interpolate_schedule(
        "cosine", 1.0, {5: 0.5, 20: 2.0}
    ),
    "linear-onecycle": lambda o: o.linear_onecycle_schedule(40, 1.0),
    "cosine-onecycle": lambda o: o.cosine_onecycle_schedule(40, 1.0, 0.4, 10.0, 100.0),
}
COUNTS = range(0, 51)


def schedule_values(side: Side, make: Callable[[Any], Any]) -> np.ndarray:
    """The schedule at counts as Python numbers and as arrays of int32: two rows."""
    schedule = make(side.optim)
    plain = [float(schedule(n)) for n in COUNTS]
    arrays = [float(schedule(side.xp.asarray(n, "int32"))) for n in COUNTS]
    return np.array([plain, arrays])
