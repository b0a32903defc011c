"""Every optimizer's first 50 steps and every schedule's first 51 values are optax's.

Compared with the recorded values, and live where optax is installed. Params are float64, and so
are the losses, so that rounding stays far below the bound.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest

import mgefn
from tests.optim.record import FILE
from tests.optim.sides import optax_side, ours
from tests.optim.trajectories import (
    KEPT,
    SCHEDULES,
    first_state,
    programs,
    schedule_values,
    trajectory,
)

PROGRAMS = {f"{name}/{problem}": (make, problem) for name, problem, make in programs()}

RTOL = 1e-8
LOOSER = {
    # Near the minimum differences of gradients lose half of their digits before they are divided.
    "lbfgs/rosenbrock": 1e-6,
    "lbfgs-short/rosenbrock": 1e-6,
    # The warmup counts in int32, and int32 / int is float32 in both libraries.
    "schedule_free_adamw/quadratic": 1e-5,
    "schedule_free_adamw/net": 1e-5,
}


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    before = mgefn.config.enable_x64
    mgefn.config.update("enable_x64", True)
    yield
    mgefn.config.update("enable_x64", before)


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    with np.load(FILE) as data:
        return dict(data)


def check(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Relative to each param; one that is passing through 0, to a thousandth."""
    assert np.isfinite(want).all(), name
    np.testing.assert_array_less(
        np.abs(got - want) / np.maximum(np.abs(want), 1e-3), LOOSER.get(name, RTOL)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_are_those_recorded_of_optax(name: str, recorded: dict[str, np.ndarray]) -> None:
    got = trajectory(ours(), *PROGRAMS[name])
    check(name, got[[n - 1 for n in KEPT]], recorded[name])


def check_schedule(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12, atol=1e-15)
    # Counts of int32: their quotients are float32, which the two round after different operations.
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_recorded_of_optax(name: str, recorded: dict[str, np.ndarray]) -> None:
    check_schedule(schedule_values(ours(), SCHEDULES[name]), recorded[f"schedule/{name}"])


NET = {name: make for name, problem, make in programs() if problem == "net"}


@pytest.mark.parametrize("name", NET)
def test_states_have_optax_s_fields(name: str, recorded: dict[str, np.ndarray]) -> None:
    """Classes, fields, shapes and dtypes, so that `tree.get` and saved states carry over."""
    assert first_state(ours(), NET[name]) == str(recorded[f"state/{name}"])


def test_nothing_is_recorded_that_is_not_compared(recorded: dict[str, np.ndarray]) -> None:
    assert set(recorded) == {
        *PROGRAMS,
        *(f"schedule/{name}" for name in SCHEDULES),
        *(f"state/{name}" for name in NET),
    }


def test_the_check_rejects_another_optimizer(recorded: dict[str, np.ndarray]) -> None:
    with pytest.raises(AssertionError):
        check("x", recorded["adam/net"], recorded["nadam/net"])


needs_optax = pytest.mark.skipif(
    importlib.util.find_spec("optax") is None, reason="optax is not installed (extra: peers)"
)


@needs_optax
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*optimistic_adam.*deprecated:DeprecationWarning")  # by optax
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n.endswith("/net")])
def test_steps_are_optax_s_now(name: str) -> None:
    """Every one of the 50 steps, on the problem with leaves of several shapes."""
    make, problem = PROGRAMS[name]
    check(name, trajectory(ours(), make, problem), trajectory(optax_side(), make, problem))


@needs_optax
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_optax_s_now(name: str) -> None:
    make = SCHEDULES[name]
    check_schedule(schedule_values(ours(), make), schedule_values(optax_side(), make))
