"""Transformations that wrap others, tree arithmetic, projections: results written out by hand."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, lax, optim, random
from mgefn.optim import contrib, projections, tree

PARAMS = {"w": mnp.array([[1.0, -2.0], [3.0, 0.5]]), "b": mnp.array([1.0, 2.0])}
GRADS = {"w": mnp.array([[0.5, 1.0], [-1.0, 2.0]]), "b": mnp.array([3.0, -4.0])}
OPTIMIZERS = {
    "adam": optim.adam(0.1), "adafactor": optim.adafactor(0.1, min_dim_size_to_factor=1),
    "sm3": optim.sm3(0.1), "lion": optim.lion(0.1), "radam": optim.radam(0.1),
    "lamb": optim.lamb(0.1), "lars": optim.lars(0.1), "novograd": optim.novograd(0.1),
    "adan": optim.adan(0.1), "yogi": optim.yogi(0.1), "rprop": optim.rprop(0.1),
    "amsgrad": optim.amsgrad(0.1), "adabelief": optim.adabelief(0.1),
    "adadelta": optim.adadelta(0.1), "rmsprop": optim.rmsprop(0.1, centered=True, momentum=0.9),
    "noisy_sgd": optim.noisy_sgd(0.1, key=0), "prodigy": contrib.prodigy(),
    "muon": contrib.muon(0.1), "dog": contrib.dog(),
    "schedule_free": contrib.schedule_free_adamw(0.1, 3),
    "inject": optim.inject_hyperparams(optim.adamw)(optim.linear_schedule(0.1, 0.0, 5)),
    "multi_steps": optim.MultiSteps(optim.adam(0.1), 2).gradient_transformation(),
    "apply_if_finite": optim.apply_if_finite(optim.adam(0.1), 3),
    "sam": contrib.sam(optim.sgd(0.1), optim.sgd(0.1)),
    "flatten": optim.flatten(optim.adam(0.1)),
}  # fmt: skip


def close(got: Any, want: Any, rtol: float = 1e-6) -> None:
    """Lists in `want` are arrays."""
    want = mgefn.tree.leaves(want, is_leaf=lambda x: isinstance(x, list))
    for x, y in zip(mgefn.tree.leaves(got), want, strict=True):
        np.testing.assert_allclose(np.asarray(x, np.float64), np.asarray(y, np.float64), rtol=rtol)


# -- under the other transformations ---------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_in_scan_and_jit_are_the_eager_ones(name: str) -> None:
    opt = OPTIMIZERS[name]

    def step(carry: Any, scale: Any) -> Any:
        params, state = carry
        grads = mgefn.tree.map(lambda g: scale * g, GRADS)
        updates, state = opt.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), None

    scales = mnp.array([1.0, -0.5, 2.0])
    start = (PARAMS, opt.init(PARAMS))
    looped, _ = mgefn.jit(lambda c: lax.scan(step, c, scales))(start)
    eager = start
    for scale in scales:
        eager, _ = step(eager, scale)
    keys = [x for x in mgefn.tree.leaves(eager) if "key" in str(x.dtype)]
    assert len(keys) == (name == "noisy_sgd")
    plain = mgefn.tree.map(
        lambda x: random.key_data(x) if "key" in str(x.dtype) else x, (looped, eager)
    )
    for x, y in zip(mgefn.tree.leaves(plain[0]), mgefn.tree.leaves(plain[1]), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adafactor", "sm3", "multi_steps", "muon", "prodigy"])
def test_vmap_runs_several_at_once(name: str) -> None:
    opt = OPTIMIZERS[name]

    def two_steps(params: Any) -> Any:
        state = opt.init(params)
        for _ in range(2):
            updates, state = opt.update(mgefn.tree.map(lambda p: p * 0.5, params), state, params)
            params = optim.apply_updates(params, updates)
        return params

    many = mgefn.tree.map(lambda x: mnp.stack([x, 2 * x, -x]), PARAMS)
    got = mgefn.vmap(two_steps)(many)
    for i in range(3):
        alone = two_steps(mgefn.tree.map(lambda x, i=i: x[i], many))
        close(mgefn.tree.map(lambda x, i=i: x[i], got), alone, rtol=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in ("noisy_sgd",)])
def test_dtypes_of_params_stay(name: str, dtype: str) -> None:
    opt = OPTIMIZERS[name]
    params = {"w": PARAMS["w"].astype(dtype), "b": PARAMS["b"]}
    grads = {"w": GRADS["w"].astype(dtype), "b": GRADS["b"]}
    if name == "flatten":
        params["b"] = grads["b"] = PARAMS["b"].astype(dtype)
    state = opt.init(params)
    before = [x.dtype for x in mgefn.tree.leaves(state)]
    for _ in range(2):
        updates, state = opt.update(grads, state, params)
        params = optim.apply_updates(params, updates)
    assert str(params["w"].dtype) == dtype
    assert [x.dtype for x in mgefn.tree.leaves(state)] == before


def test_float64_params_have_float64_corrections_without_x64() -> None:
    params = mnp.array(np.ones(1), "float64")
    opt = optim.adam(1e-3)
    updates, _ = opt.update(params * 3, opt.init(params), params)
    assert updates.dtype == np.float64
    np.testing.assert_allclose(updates, -1e-3 * 3 / (3 + 1e-8), rtol=1e-14)


def test_no_params_and_no_elements() -> None:
    for opt in (optim.adam(0.1), optim.sgd(0.1, 0.9), optim.adagrad(0.1)):
        assert opt.update({}, opt.init({}), {})[0] == {}
        empty = {"w": mnp.zeros((0, 3))}
        assert opt.update(empty, opt.init(empty), empty)[0]["w"].shape == (0, 3)


def test_complex_params_descend() -> None:
    x = mnp.array([1.0 + 2.0j, -1.0j], "complex64")
    opt = optim.adam(0.1)
    state = opt.init(x)
    for _ in range(100):
        updates, state = opt.update(x, state, x)  # the descent direction of |x|**2 / 2
        x = optim.apply_updates(x, updates)
    assert x.dtype == np.complex64
    assert float(mnp.max(mnp.abs(x))) < 0.1


# -- wrappers --------------------------------------------------------------------------------------


def test_lookahead_moves_both_copies() -> None:
    opt = optim.lookahead(optim.sgd(1.0, momentum=0.5), 2, 0.5, reset_state=True)
    params = optim.LookaheadParams.init_synced(mnp.array(10.0))
    state = opt.init(params)
    for _ in range(2):
        updates, state = opt.update(mnp.array(1.0), state, params)
        params = optim.apply_updates(params, updates)
    # Steps of 1 and 1.5; then both go half of the way.
    assert (float(params.fast), float(params.slow)) == (8.75, 8.75)
    assert float(tree.get(state, "trace")) == 0.0
    with pytest.raises(errors.ArgumentError, match="init_synced"):
        opt.init(mnp.array(1.0))


def test_apply_if_finite_gives_way_after_its_limit() -> None:
    opt = optim.apply_if_finite(optim.sgd(1.0), 2)
    bad, state = mnp.array([np.nan]), opt.init(mnp.zeros(1))
    seen = []
    for _ in range(3):
        updates, state = opt.update(bad, state)
        seen.append(float(updates[0]))
    assert seen[:2] == [0.0, 0.0]
    assert np.isnan(seen[2])
    assert (int(state.notfinite_count), bool(state.last_finite)) == (3, False)
    _, state = opt.update(mnp.ones(1), state)
    assert (int(state.notfinite_count), int(state.total_notfinite)) == (0, 3)


def test_multi_steps_skip_what_is_not_finite() -> None:
    opt = optim.MultiSteps(optim.sgd(1.0), 2, should_skip_update_fn=optim.skip_not_finite)
    state = opt.init(mnp.zeros(1))
    out = []
    for g in (1.0, np.inf, 3.0):
        updates, state = opt.update(mnp.array([g]), state)
        out.append(float(updates[0]))
    assert out == [0.0, 0.0, -2.0]
    assert int(state.gradient_step) == 1
    skip, found = optim.skip_large_updates({"a": mnp.array([3.0, 4.0])}, 0, None, 25.0)
    assert bool(skip)
    assert float(found["norm_squared"]) == 25.0


def test_zero_nans_and_keep_nonnegative() -> None:
    opt = optim.zero_nans()
    updates, state = opt.update(mnp.array([np.nan, 1.0]), opt.init(mnp.zeros(2)))
    assert updates.tolist() == [0.0, 1.0]
    assert bool(state.found_nan)
    opt = optim.keep_params_nonnegative()
    updates, _ = opt.update(mnp.array([-3.0, -0.5]), opt.init(None), mnp.array([1.0, 1.0]))
    assert updates.tolist() == [-1.0, -0.5]


def test_masks_hide_params_and_arguments() -> None:
    seen = []

    def update(g: Any, state: Any, params: Any = None, *, value: Any) -> Any:
        seen.append(value)
        return mgefn.tree.map(lambda x: -x, g), state

    inner = optim.GradientTransformationExtraArgs(optim.init_empty_state, update)
    opt = optim.masked(inner, {"w": True, "b": False}, mask_compatible_extra_args=True)
    updates, _ = opt.update(GRADS, opt.init(GRADS), value=GRADS)
    close(updates, {"w": -GRADS["w"], "b": GRADS["b"]})
    assert seen[0]["b"] == optim.MaskedNode()


def test_partition_refuses_an_unknown_label() -> None:
    opt = optim.partition({"a": optim.sgd(0.1)}, {"w": "a", "b": "c"})
    with pytest.raises(errors.ArgumentError, match="each label must have a transformation"):
        opt.init(PARAMS)


def test_hyperparams_can_be_changed_and_follow_a_stateful_schedule() -> None:
    class Falling:
        def init(self) -> Any:
            return mnp.array(1.0)

        def update(self, state: Any, *, loss: Any, **_: Any) -> Any:
            return state * loss

        def __call__(self, state: Any, **_: Any) -> Any:
            return state

    opt = optim.inject_stateful_hyperparams(optim.sgd)(Falling())
    state = opt.init(mnp.zeros(1))
    first, state = opt.update(mnp.ones(1), state, loss=0.5)
    second, state = opt.update(mnp.ones(1), state, loss=0.5)
    assert (first.item(), second.item()) == (-1.0, -0.5)
    with pytest.raises(errors.ArgumentError, match="static_args must be among"):
        optim.inject_hyperparams(optim.sgd, static_args="rate")


def test_opaque_sam_makes_a_whole_period() -> None:
    opt = contrib.sam(optim.sgd(0.1), optim.sgd(0.5), opaque_mode=True)
    x, grad = mnp.array(1.0), mgefn.grad(lambda x: x**2)
    updates, _ = opt.update(grad(x), opt.init(x), x, grad_fn=lambda p, i: grad(p))
    np.testing.assert_allclose(updates, -0.1 * 2 * 2.0, rtol=1e-6)
    with pytest.raises(errors.ArgumentError, match="needs grad_fn"):
        opt.update(grad(x), opt.init(x), x)


def test_examples_are_limited_one_by_one() -> None:
    grads = {"w": mnp.array([[3.0], [0.3], [0.0]]), "b": mnp.array([4.0, 0.4, 0.0])}
    total, limited = optim.per_example_global_norm_clip(grads, 1.0)
    close(total, {"w": [0.9], "b": 1.2})
    assert int(limited) == 1
    total, limited = optim.per_example_layer_norm_clip(grads, 2**0.5)
    close(total, {"w": [1.3], "b": 1.4})
    opt = contrib.differentially_private_aggregate(1.0, 0.0, key=0)
    updates, _ = opt.update(grads, opt.init(None))
    close(updates, {"w": [0.3], "b": 0.4})
    with pytest.raises(errors.ArgumentError, match="one batch size"):
        optim.per_example_global_norm_clip({"a": mnp.zeros(2), "b": mnp.zeros(3)}, 1.0)


def test_microbatches() -> None:
    kinds = optim.AccumulationType
    x = mnp.arange(12.0).reshape(6, 2)
    both = optim.microbatch(
        lambda x, scale: (scale * x, mnp.sum(x, 0), mnp.mean(x, 0)), 0, 2,
        (kinds.CONCAT, kinds.SUM, kinds.RUNNING_MEAN),
    )  # fmt: skip
    got = mgefn.jit(both)(x, 3.0)
    close(got, (3 * x, mnp.sum(x, 0), mnp.mean(x, 0)))
    grads = optim.microbatch(mgefn.grad(lambda w, x: mnp.mean((x @ w) ** 2)), 1, 3, kinds.MEAN)
    w = mnp.array([1.0, -1.0])
    close(grads(w, x), mgefn.grad(lambda w: mnp.mean((x @ w) ** 2))(w))
    with pytest.raises(errors.ArgumentError, match="must divide"):
        optim.microbatch(mnp.sum, 0, 4)(x)


def test_measurements_pass_updates_on() -> None:
    opt = optim.monitor(
        {"norm": tree.norm, "mean": optim.measure_with_ema(mnp.mean, 0.5, debias=False)}
    )
    state = opt.init(mnp.zeros(2))
    for scale in (1.0, 2.0):
        grads = scale * mnp.array([3.0, 4.0])
        updates, state = opt.update(grads, state)
        np.testing.assert_array_equal(updates, grads)
    assert float(state.measurements["norm"]) == 10.0
    assert float(tree.get(state, "mean")) == 0.5 * 7 + 0.25 * 3.5
    kept = optim.snapshot("g", lambda g: g)
    np.testing.assert_array_equal(kept.update(grads, kept.init(grads))[1].measurement["g"], grads)


def test_complex_leaves_split_into_two() -> None:
    opt = contrib.split_real_and_imaginary(optim.sign_sgd(0.5))
    params = {"z": mnp.array([3 - 4j], "complex64"), "x": mnp.array([-2.0])}
    updates, _ = opt.update(params, opt.init(params), params)
    assert updates["z"].dtype == np.complex64
    assert (updates["z"].item(), updates["x"].item()) == (-0.5 + 0.5j, 0.5)


def test_line_search_reuses_value_and_grad() -> None:
    calls = []

    def loss(x: Any) -> Any:
        calls.append(1)
        return mnp.sum((x - 1) ** 2)

    opt = optim.chain(optim.sgd(1.0), optim.scale_by_backtracking_linesearch(10, store_grad=True))
    x = mnp.array([3.0, -1.0])
    state = opt.init(x)
    value, grad = optim.value_and_grad_from_state(loss)(x, state=state)
    updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=loss)
    x = optim.apply_updates(x, updates)
    value, grad = optim.value_and_grad_from_state(loss)(x, state=state)
    np.testing.assert_allclose(value, loss(x), rtol=1e-6)
    np.testing.assert_allclose(grad, 2 * (x - 1), rtol=1e-6)
    with pytest.raises(errors.ArgumentError, match="store_grad"):
        optim.value_and_grad_from_state(loss)(
            x, state=optim.scale_by_backtracking_linesearch(3).init(x)
        )


# -- params and copies -----------------------------------------------------------------------------


def test_slow_copies() -> None:
    new, old = {"a": mnp.array(1.0)}, {"a": mnp.array(0.0)}
    close(optim.incremental_update(new, old, 0.25), {"a": 0.25})
    close(optim.periodic_update(new, old, mnp.array(3), 2), old)
    close(optim.periodic_update(new, old, mnp.array(4), 2), new)


def test_norms_have_slopes_at_zero() -> None:
    zero = mnp.zeros(2)
    for f in (lambda x: optim.safe_norm(x, 1e-3), lambda x: optim.safe_root_mean_squares(x, 1e-3)):
        assert float(f(zero)) == np.float32(1e-3)
        np.testing.assert_array_equal(mgefn.grad(f)(zero), [0, 0])
    x = mnp.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(optim.safe_norm(x, 1.0, axis=1), [5, 1])
    assert optim.safe_norm(x, 1.0, axis=1, keepdims=True).shape == (2, 1)


def test_counts_stop_at_the_end() -> None:
    last = mnp.array(2**31 - 1, "int32")
    assert int(optim.safe_increment(last)) == 2**31 - 1
    assert optim.safe_increment(mnp.array(3, "uint8")).dtype == np.uint8


# -- trees -----------------------------------------------------------------------------------------


def test_tree_arithmetic() -> None:
    x, y = {"a": mnp.array([1.0, 2.0]), "b": 3.0}, {"a": mnp.array([4.0, 5.0]), "b": 6.0}
    close(tree.add(x, y, x), {"a": [6, 9], "b": 12})
    close(tree.sub(x, y), {"a": [-3, -3], "b": -3})
    close(tree.mul(x, y), {"a": [4, 10], "b": 18})
    close(tree.div(y, x), {"a": [4, 2.5], "b": 2})
    close(tree.scale(2, x), {"a": [2, 4], "b": 6})
    close(tree.add_scale(x, 2.0, y), {"a": [9, 12], "b": 15})
    assert (float(tree.vdot(x, y)), float(tree.sum(x)), tree.size(x)) == (32.0, 6.0, 3)
    assert (float(tree.max(x)), float(tree.min(x))) == (3.0, 1.0)
    assert float(tree.norm(x, ord=1)) == 6.0
    assert float(tree.norm(x, ord=np.inf, squared=True)) == 9.0
    np.testing.assert_allclose(tree.norm(x), 14**0.5, rtol=1e-6)
    close(tree.clip(x, 1.5, 2.5), {"a": [1.5, 2], "b": 2.5})
    close(tree.where(True, x, y), x)
    close(tree.full_like(x, 7), {"a": [7, 7], "b": 7})
    assert bool(tree.allclose(x, x))
    assert not bool(tree.allclose(x, y))
    close(tree.add({"a": None, "b": 1}, {"a": None, "b": 2}), {"a": None, "b": 3})
    assert float(tree.sum({}, associative_reduction=True)) == 0.0


def test_tree_dtypes() -> None:
    mixed = {"a": mnp.ones(1, "float16"), "b": mnp.ones(1)}
    assert tree.cast(mixed, "float64")["a"].dtype == np.float64
    assert tree.cast_like(mixed, tree.cast(mixed, "int32"))["b"].dtype == np.int32
    assert tree.dtype(mixed, "promote") == tree.dtype(mixed, "highest") == np.float32
    assert tree.dtype(mixed, "lowest") == np.float16
    with pytest.raises(errors.DTypeError, match="one dtype"):
        tree.dtype(mixed)
    assert tree.batch_shape(mixed, (2,))["a"].shape == (2, 1)
    drawn = tree.random_like(random.key(0), mixed)
    assert [drawn[k].dtype for k in "ab"] == [np.float16, np.float32]


def test_parts_of_states_by_name() -> None:
    opt = optim.chain(optim.adam(optim.constant_schedule(0.1)), optim.trace(0.9))
    state = opt.init(PARAMS)
    assert len(tree.get_all_with_path(state, "count")) == 2
    with pytest.raises(KeyError, match="2 places"):
        tree.get(state, "count")
    in_adam = lambda path, value: any(
        isinstance(k, tree.NamedTupleKey) and k.tuple_name == "ScaleByAdamState" for k in path
    )
    changed = tree.set(state, in_adam, count=mnp.array(7))
    assert int(tree.get(changed, "count", filtering=in_adam)) == 7
    assert int(tree.get(changed, "ScaleByScheduleState").count) == 0
    assert mgefn.tree.structure(changed) == mgefn.tree.structure(state)
    assert tree.get(state, "nothing", default=3) == 3
    assert tree.get_all_with_path([1, (2,)], 0) == []
    with pytest.raises(KeyError, match="no part of the tree"):
        tree.set(state, nothing=1)


def test_map_over_what_is_shaped_like_params() -> None:
    opt = optim.adafactor(0.1, min_dim_size_to_factor=1, momentum=0.9)
    adam = optim.adam(0.1)
    state = optim.tree_map_params(
        adam, lambda s, p: s + p, adam.init(PARAMS), PARAMS, transform_non_params=lambda x: x + 1
    )
    close(state[0].mu, PARAMS)
    assert int(state[0].count) == 1
    assert opt.init(PARAMS)[0].v_row["w"].shape == (2,)


# -- sets ------------------------------------------------------------------------------------------


def test_projections_are_the_nearest_points() -> None:
    rng = np.random.default_rng(0)
    x = mnp.array(rng.normal(size=5) * 2)
    a = mnp.array(rng.normal(size=5))
    sets = {
        "simplex": (projections.projection_simplex(x, 2.0), lambda p: (p >= 0).all()
                    and abs(p.sum() - 2) < 1e-5),
        "l1 ball": (projections.projection_l1_ball(x, 1.0), lambda p: abs(p).sum() < 1 + 1e-5),
        "l1 sphere": (projections.projection_l1_sphere(x, 9.0),
                      lambda p: abs(abs(p).sum() - 9) < 1e-4),
        "l2 ball": (projections.projection_l2_ball(x, 1.0), lambda p: (p**2).sum() < 1 + 1e-5),
        "box": (projections.projection_box(x, -1.0, 0.5), lambda p: (p <= 0.5).all()
                and (p >= -1).all()),
        "halfspace": (projections.projection_halfspace(x, a, -3.0),
                      lambda p: p @ np.asarray(a) < -3 + 1e-4),
    }  # fmt: skip
    for name, (nearest, inside) in sets.items():
        p = np.asarray(nearest, np.float64)
        assert inside(p), name
        best = ((p - np.asarray(x)) ** 2).sum()
        for _ in range(300):  # no point of the set near it is nearer to x
            q = p + rng.normal(size=5) * 0.1
            if inside(q):
                assert ((q - np.asarray(x)) ** 2).sum() > best - 1e-3, name
    np.testing.assert_allclose(mnp.vdot(projections.projection_hyperplane(x, a, 1.0), a), 1, 1e-5)
    np.testing.assert_allclose(mnp.linalg.norm(projections.projection_l2_sphere(x, 3.0)), 3, 1e-5)
    close(projections.projection_vector(a * 2, a), a * 2, 1e-5)
    inner = projections.projection_l1_ball(x / 100)
    np.testing.assert_array_equal(inner, x / 100)
    close(projections.projection_linf_ball({"a": x}, 0.5), {"a": mnp.clip(x, -0.5, 0.5)})
    close(projections.projection_hypercube(x), mnp.clip(x, 0, 1))
    close(projections.projection_non_negative(x), mnp.maximum(x, 0))


# -- schedules -------------------------------------------------------------------------------------


def test_megengine_s_schedules() -> None:
    steps = optim.multi_step_schedule(1.0, [2, 4], 0.1)
    np.testing.assert_allclose([steps(n) for n in range(6)], [1, 1, 0.1, 0.1, 0.01, 0.01], 1e-6)
    falling = optim.exponential_decay(1.0, 1, 0.5)
    assert [float(falling(n)) for n in range(3)] == [1.0, 0.5, 0.25]
    with pytest.raises(errors.ArgumentError, match="must increase"):
        optim.multi_step_schedule(1.0, [4, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.cosine_decay_schedule(1.0, 0),
        lambda: optim.linear_onecycle_schedule(0, 1.0),
        lambda: optim.cosine_onecycle_schedule(0, 1.0),
        lambda: optim.piecewise_constant_schedule(1.0, {3: -1.0}),
        lambda: optim.piecewise_interpolate_schedule("cubic", 1.0),
        lambda: optim.join_schedules([optim.constant_schedule(1.0)], [3]),
        lambda: optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 5),
        lambda: optim.scale_by_lion(mode="soft"),
        lambda: optim.scale_by_polyak(variant="x"),
        lambda: optim.scale_by_zoom_linesearch(3, initial_guess_strategy="x"),
        lambda: optim.add_noise(0.1, 0.1),
        lambda: optim.named_chain(("a", optim.sgd(1.0)), ("a", optim.sgd(1.0))),
        lambda: optim.apply_every(0),
        lambda: contrib.reduce_on_plateau(2.0),
        lambda: contrib.dog(init_step=("x", 1.0)),
        lambda: contrib.scale_by_muon("x"),
        lambda: optim.fromage(lambda n: n),
    ],
)
def test_arguments_that_cannot_be(make: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"(must|missing)"):
        make()


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.skipif(
    importlib.util.find_spec("optax") is None, reason="optax is not installed (extra: peers)"
)
def test_names_and_parameters_are_optax_s() -> None:
    """Whatever stands here under a name of optax takes its parameters in their order."""
    import inspect

    import optax

    pairs = [(optim, optax), (contrib, optax.contrib), (tree, optax.tree),
             (projections, optax.projections)]  # fmt: skip
    compared = 0
    for here, there in pairs:
        for name in here.__all__:
            theirs = getattr(there, name, None)
            if theirs is None or inspect.ismodule(theirs) or not callable(theirs):
                continue
            ours = getattr(here, name)
            if hasattr(theirs, "_fields"):
                assert ours._fields == theirs._fields, name
                continue
            if not inspect.isfunction(ours):
                continue
            mine, want = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
            assert list(mine) == list(want), name
            for key, parameter in want.items():
                assert mine[key].kind == parameter.kind, (name, key)
                if type(parameter.default) in (bool, int, float, str, tuple):
                    assert mine[key].default == parameter.default, (name, key)
            compared += 1
    assert compared > 150


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    "search",
    [
        optim.scale_by_backtracking_linesearch(2, verbose=True),
        optim.scale_by_zoom_linesearch(2, verbose=True),
    ],
)
def test_failed_searches_are_told_where_asked(
    search: Any, jitted: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def update(up: Any, x: Any) -> Any:
        value, grad = mgefn.value_and_grad(lambda x: x**2)(x)
        return search.update(
            up * grad, search.init(x), x, value=value, grad=grad, value_fn=lambda x: x**2
        )[0]

    run = mgefn.jit(update) if jitted else update
    run(-0.5, mnp.array(3.0)).block_until_ready()
    assert capfd.readouterr().out == ""
    run(1.0, mnp.array(3.0)).block_until_ready()  # uphill, where nothing decreases
    assert "linesearch" in capfd.readouterr().out


def test_searches_pass_on_what_the_loss_takes() -> None:
    def loss(x: Any, scale: Any) -> Any:
        return scale * mnp.sum(x**2)

    x = mnp.array([1.0, -2.0])
    for search in (optim.scale_by_backtracking_linesearch(30), optim.scale_by_zoom_linesearch(30)):
        value, grad = mgefn.value_and_grad(loss)(x, 10.0)
        updates, _ = search.update(
            -grad, search.init(x), x, value=value, grad=grad, value_fn=loss, scale=10.0, other=1
        )
        assert float(loss(x + updates, 10.0)) < float(value)


def test_lbfgs_under_vmap_finds_every_minimum() -> None:
    def rosenbrock(x: Any) -> Any:
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    opt = optim.lbfgs()

    def run(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, state = carry
            value, grad = optim.value_and_grad_from_state(rosenbrock)(x, state=state)
            updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=rosenbrock)
            return (optim.apply_updates(x, updates), state), value

        return lax.scan(step, (x, opt.init(x)), None, length=60)[0][0]

    starts = mnp.array([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0]])
    np.testing.assert_allclose(mgefn.jit(mgefn.vmap(run))(starts), np.ones((3, 2)), atol=2e-3)


def test_training_has_a_derivative_in_the_learning_rate() -> None:
    def after(rate: Any) -> Any:
        opt = optim.inject_hyperparams(optim.adam)(rate)
        x = mnp.array(np.array([1.0, -2.0]), "float64")
        state = opt.init(x)
        for _ in range(3):
            updates, state = opt.update(2 * x, state, x)
            x = optim.apply_updates(x, updates)
        return mnp.sum(x**2)

    rate = mnp.array(0.1, "float64")
    slope = (after(rate + 1e-5) - after(rate - 1e-5)) / 2e-5
    np.testing.assert_allclose(mgefn.grad(after)(rate), slope, rtol=1e-6)


# -- what a wrong step is told ---------------------------------------------------------------------

STEP = optim.adam(0.1)
IN_CHAIN = optim.chain(optim.clip(1.0), optim.adamw(0.1))
OTHER = {"w": mnp.ones((2, 4)), "b": mnp.ones(2)}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: STEP.update(GRADS, PARAMS, STEP.init(PARAMS)),
            r"^adam\.update: state must come before params, got them in the other order\. Call upd",
        ),
        (
            lambda: mgefn.jit(STEP.update)(GRADS, PARAMS, STEP.init(PARAMS)),
            r"^adam\.update: state must come before params",
        ),
        (
            lambda: STEP.update(GRADS, optim.sgd(0.1).init(PARAMS), PARAMS),
            r"^adam\.update: state must be what adam\.init gave for these params, but at \[0\] "
            r"that has ScaleByAdamState",
        ),
        (
            lambda: STEP.update(GRADS["w"], STEP.init(PARAMS), PARAMS),
            r"^adam\.update: grads must have the structure of params, but at the root params has d",
        ),
        (
            lambda: STEP.update(OTHER, STEP.init(PARAMS), PARAMS),
            r"^adam\.update: grads must have the shapes of params, got f32\[2,4\] for f32\[2,2\]",
        ),
        (
            lambda: STEP.update(OTHER, STEP.init(PARAMS)),
            r"^adam\.update: state must be what adam\.init gave .* got f32\[2,2\] in the place of",
        ),
        (lambda: STEP.update(GRADS, None, PARAMS), r"^adam\.update: state must be what adam\.init"),
        (
            lambda: optim.nadam(0.1).update(GRADS, PARAMS, STEP.init(PARAMS)),
            r"^nadam\.update: state must come",
        ),
        (
            lambda: optim.adamw(0.1).update(GRADS, optim.adamw(0.1).init(PARAMS)),
            r"^adamw: update needs the params, got None\. Call update",
        ),
        (
            lambda: optim.lamb(0.1).update(GRADS, optim.lamb(0.1).init(PARAMS)),
            r"^lamb: update needs the params",
        ),
        (
            lambda: IN_CHAIN.update(GRADS, IN_CHAIN.init(PARAMS)),
            r"^adamw: update needs the params",
        ),
        (
            lambda: IN_CHAIN.update(GRADS, PARAMS, IN_CHAIN.init(PARAMS)),
            r"^chain\.update: state must come before params",
        ),
        (
            lambda: optim.polyak_sgd(1.0).update(GRADS, optim.polyak_sgd(1.0).init(PARAMS), PARAMS),
            r"^polyak_sgd\.update: needs 'value' too, got none\.",
        ),
    ],
)
def test_errors_name_what_the_user_made(call: Any, text: str) -> None:
    with pytest.raises(errors.MgefnError, match=text):
        call()


def test_errors_of_the_user_pass_through() -> None:
    def broken(count: Any) -> Any:
        raise KeyError("mine")

    opt = optim.adam(broken)
    with pytest.raises(KeyError, match="mine"):
        opt.update(GRADS, opt.init(PARAMS), PARAMS)


def test_states_share_no_array_with_params_or_within() -> None:
    """A step that donates params and state would otherwise be refused, or lose what it needs."""
    makers = {
        f"{space.__name__}.{name}": getattr(space, name)
        for space in (optim, contrib)
        for name in space.__all__
    }
    sgd = optim.sgd(0.1)
    checked = set()
    for name, make in makers.items():
        for args in ((), (0.1,), (sgd,), (sgd, 2), (sgd, sgd)):
            try:
                state = make(*args).init(PARAMS)
            except Exception:  # another kind of function, or other arguments
                continue
            arrays = [id(x) for x in mgefn.tree.leaves((PARAMS, state))]
            assert len(set(arrays)) == len(arrays), name
            checked.add(name.rpartition(".")[2])
            break
    assert {"adam", "adan", "amsgrad", "adafactor", "prodigy", "dog", "dowg", "momo", "madgrad",
            "ademamix", "schedule_free", "schedule_free_sgd", "sam"} <= checked  # fmt: skip
    both = optim.LookaheadParams.init_synced(PARAMS)
    assert len({id(x) for x in mgefn.tree.leaves(both)}) == 4


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_that_donate_params_and_state(name: str) -> None:
    opt = OPTIMIZERS[name]

    def step(params: Any, state: Any) -> Any:
        updates, state = opt.update(GRADS, state, params)
        return optim.apply_updates(params, updates), state

    donating = mgefn.jit(step, donate_argnums=(0, 1))
    want = got = (mgefn.tree.map(mnp.copy, PARAMS), opt.init(PARAMS))
    got = mgefn.tree.map(mnp.copy, want)
    for _ in range(3):
        want, got = mgefn.jit(step)(*want), donating(*got)
    for x, y in zip(mgefn.tree.leaves(want), mgefn.tree.leaves(got), strict=True):
        plain = random.key_data if "key" in str(x.dtype) else mnp.asarray
        np.testing.assert_array_equal(plain(x), plain(y))
