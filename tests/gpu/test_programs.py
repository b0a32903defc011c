"""Random programs and whole models on a device: what they give on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import mgefn
import mgefn.numpy as mnp
from mgefn import optim
from mgefn.compiler.device_program import CALLS_BEFORE
from mgefn.core.device_array import DeviceArray
from tests.gpu.standin import StandIn
from tests.programs import WRAPS, Program, loss, programs, run

ROOT = Path(__file__).parents[2]
REVERSE = programs(wraps=[w for w in WRAPS if w != "custom_jvp"])


def close(got: Any, want: Any, what: str) -> None:
    """Equal up to rounding, with the largest element as the scale."""
    got, want = mgefn.tree.leaves(got), mgefn.tree.leaves(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, what
        w = np.asarray(w)
        scale = max(1.0, float(np.abs(w).max(initial=0.0)))
        g = mgefn.device_get(g) if isinstance(g, DeviceArray) else np.asarray(g)
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-9 * scale, err_msg=what)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(program=REVERSE)
def test_random_programs(device: str, program: Program) -> None:
    xs = program.arrays()
    there = [mgefn.device_put(x, "gpu") for x in xs]
    every = tuple(range(len(xs)))
    fun, of_loss = partial(run, program), partial(loss, program)
    close(fun(*there), fun(*xs), "value")
    close(mgefn.jit(fun)(*there), fun(*xs), "jit")
    close(mgefn.grad(of_loss, every)(*there), mgefn.grad(of_loss, every)(*xs), "gradient")
    close(
        mgefn.jit(mgefn.grad(of_loss, every))(*there), mgefn.grad(of_loss, every)(*xs),
        "jitted gradient",
    )  # fmt: skip
    rows = program.arrays(batch=2)
    batched = mgefn.vmap(fun)
    close(batched(*[mgefn.device_put(r, "gpu") for r in rows]), batched(*rows), "vmap")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=10,
)
@given(program=REVERSE)
def test_random_programs_with_kernels(emulator: StandIn, program: Program) -> None:
    """Called so often that launches become graphs, with other arguments each time."""
    xs = program.arrays()
    every = tuple(range(len(xs)))
    fun = mgefn.jit(partial(run, program))
    gradient = mgefn.jit(mgefn.grad(partial(loss, program), every))
    gots, wants = [], []
    for k in range(CALLS_BEFORE + 2):
        scaled = [np.asarray(x * (1 - 0.1 * k)) for x in xs]
        there = [mgefn.device_put(x, "gpu") for x in scaled]
        gots.append((fun(*there), gradient(*there)))
        wants.append((fun(*scaled), gradient(*scaled)))
    close(gots, wants, "values and gradients of all calls")


def test_a_model_learns_the_same(jit_device: str) -> None:
    """Some steps of training a network, everything on the device, in one jitted step."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(32, 5)).astype(np.float32)
    y = rng.integers(0, 3, 32)
    params = {
        "w1": rng.normal(size=(5, 16)).astype(np.float32) * 0.3, "b1": np.zeros(16, np.float32),
        "w2": rng.normal(size=(16, 3)).astype(np.float32) * 0.3, "b2": np.zeros(3, np.float32),
    }  # fmt: skip
    optimizer = optim.adam(0.05)

    def cost(p: Any, x: Any, y: Any) -> Any:
        h = mgefn.nn.gelu(x @ p["w1"] + p["b1"])
        logits = mgefn.nn.log_softmax(h @ p["w2"] + p["b2"])
        return -mnp.take_along_axis(logits, y[:, None], 1).mean()

    @mgefn.jit
    def step(p: Any, s: Any, x: Any, y: Any) -> Any:
        value, g = mgefn.value_and_grad(cost)(p, x, y)
        updates, s = optimizer.update(g, s, p)
        return optim.apply_updates(p, updates), s, value

    def trained(place: str) -> list[float]:
        p, data = mgefn.device_put(params, place), mgefn.device_put((x, y), place)
        s = mgefn.device_put(optimizer.init(p), place)
        losses = []
        for _ in range(5):
            p, s, value = step(p, s, *data)
            losses.append(float(value))
        return losses

    np.testing.assert_allclose(trained("gpu"), trained("cpu"), rtol=1e-4)
    assert trained("gpu")[-1] < trained("gpu")[0]


RUN = """
import runpy, sys
script, *arguments = sys.argv[1:]
sys.argv = [script, *arguments]
import mgefn
if {standin}:
    from mgefn.core import cuda
    from tests.gpu.standin import StandIn
    cuda.use(StandIn().load)
with mgefn.default_device("gpu"):
    runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples(script: Path, tmp_path: Path) -> None:
    """Every example on the GPU; what it promises of its numbers is checked on the CPU."""
    done = subprocess.run(
        [
            sys.executable, "-c", RUN.format(standin=False), str(script), "--quick", "--out",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
