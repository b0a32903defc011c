"""Optimizers against formulas written out, and on pytrees under jit."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, optim


def run(opt: optim.GradientTransformation, gradients: list, params: object) -> object:
    state = opt.init(params)
    for g in gradients:
        updates, state = opt.update(g, state, params)
        params = optim.apply_updates(params, updates)
    return params


GRADIENTS = [np.array([1.0, -2.0], np.float32), np.array([0.5, 3.0], np.float32)]


def test_sgd_with_momentum() -> None:
    got = run(optim.sgd(0.1, momentum=0.9), GRADIENTS, mnp.zeros(2))
    first, second = GRADIENTS
    np.testing.assert_allclose(got, -0.1 * (first + second + 0.9 * first), rtol=1e-6)
    nesterov = run(optim.sgd(0.1, momentum=0.9, nesterov=True), GRADIENTS[:1], mnp.zeros(2))
    np.testing.assert_allclose(nesterov, -0.1 * 1.9 * first, rtol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam(decay: float) -> None:
    opt = optim.adamw(0.01, weight_decay=decay) if decay else optim.adam(0.01)
    got = run(opt, GRADIENTS, mnp.ones(2))
    p, m, v = np.ones(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(GRADIENTS, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        p = p - 0.01 * (step + decay * p)
    np.testing.assert_allclose(got, p, rtol=1e-5)


def test_schedule_clip_and_structure_under_jit() -> None:
    opt = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(optim.linear_schedule(1.0, 0.0, 2)))
    params = {"w": mnp.array([1.0, 1.0], "float16"), "b": (mnp.array(0.0),)}
    grads = {"w": mnp.array([3.0, 0.0], "float16"), "b": (mnp.array(4.0),)}

    @mgefn.jit
    def step(params, state):
        updates, state = opt.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    state = opt.init(params)
    for _ in range(3):
        params, state = step(params, state)
    assert params["w"].dtype == np.float16
    np.testing.assert_allclose(params["w"], [1 - 0.6 * 1.5, 1], rtol=1e-2)
    np.testing.assert_allclose(params["b"][0], -0.8 * 1.5, rtol=1e-6)


def test_small_gradients_are_not_clipped_and_zero_has_a_norm() -> None:
    clip = optim.clip_by_global_norm(1.0)
    for g in (mnp.array([0.3, 0.4]), mnp.zeros(2)):
        np.testing.assert_array_equal(clip.update(g, clip.init(g))[0], g)
    np.testing.assert_array_equal(mgefn.grad(optim.global_norm)(mnp.zeros(2)), [0, 0])


def test_masked_decay_and_its_params() -> None:
    params = {"w": mnp.ones(1), "b": mnp.ones(1)}
    opt = optim.add_decayed_weights(0.5, mask={"w": True, "b": False})
    updates, _ = opt.update(params, opt.init(params), params)
    assert (updates["w"].item(), updates["b"].item()) == (1.5, 1.0)
    with pytest.raises(errors.ArgumentError, match="needs the params"):
        opt.update(params, opt.init(params))


def test_none_leaves_a_parameter_alone() -> None:
    new = optim.apply_updates({"a": mnp.ones(1), "b": mnp.ones(1)}, {"a": None, "b": mnp.ones(1)})
    assert (new["a"].item(), new["b"].item()) == (1.0, 2.0)
