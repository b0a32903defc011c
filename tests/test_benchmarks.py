"""The benchmarks run: every workload computes, and compare.py compares.

Times are of no interest here. Each workload is built at its smallest size, and its function gives
the same numbers operation by operation and compiled.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mgefn
from benchmarks.workloads import GROUPS, LABELS, SIZES, WORKLOADS

ROOT = Path(__file__).parents[1]
COMPARE = ROOT / "benchmarks" / "compare.py"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """compare.py as a module, with its folder on the path as when it runs."""
    monkeypatch.syspath_prepend(str(COMPARE.parent))
    return importlib.import_module("compare")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(COMPARE), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=250,  # seconds: ten times what a busy machine needs
    )


# -- the table ---------------------------------------------------------------------------------


def test_every_workload_has_sizes_and_every_size_a_workload() -> None:
    assert set(SIZES) == set(WORKLOADS)
    assert len(WORKLOADS) >= 40
    assert {chosen.group for chosen in WORKLOADS.values()} == set(GROUPS)
    for sizes in SIZES.values():
        assert tuple(sizes) == LABELS[: len(sizes)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_eager_and_compiled(name: str) -> None:
    chosen = WORKLOADS[name]
    size = chosen.sizes["small"]
    with mgefn.config.override(enable_x64=chosen.x64):
        arguments = chosen.arguments(size)
        fun = chosen.build(mgefn, size)
        eager = mgefn.tree.leaves(fun(*arguments))
        compiled_fun = mgefn.jit(fun)
        compiled = mgefn.tree.leaves(compiled_fun(*arguments))
        assert len(compiled) == len(eager) > 0
        for a, b in zip(eager, compiled, strict=True):
            assert a.dtype == b.dtype
            assert np.isfinite(b).all()
            largest = float(np.max(np.abs(np.asarray(a))))
            np.testing.assert_allclose(b, a, rtol=0, atol=chosen.tolerance * largest)
        longer = chosen.longer(size)
        if longer is not None:
            others = chosen.arguments(longer)
            shapes = [[np.shape(x) for x in mgefn.tree.leaves(t)] for t in (arguments, others)]
            assert shapes[0] != shapes[1]
            mgefn.block_until_ready(compiled_fun(*others))


@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if "numpy" in w.peers])
def test_workload_in_numpy(name: str, compare: ModuleType) -> None:
    chosen = WORKLOADS[name]
    size = chosen.sizes["small"]
    numpy = importlib.import_module("libraries").load("numpy").lib
    with mgefn.config.override(enable_x64=chosen.x64):
        arguments = chosen.arguments(size)
        ours = mgefn.tree.leaves(chosen.build(mgefn, size)(*arguments))
    theirs = mgefn.tree.leaves(chosen.peers["numpy"](numpy, size)(*arguments))
    for a, b in zip(ours, theirs, strict=True):
        assert compare.leaf_difference(np.asarray(a), np.asarray(b)) <= chosen.tolerance


# -- compare.py --------------------------------------------------------------------------------


def test_compare_with_numpy(tmp_path: Path) -> None:
    names = ["gelu", "softmax", "scatter_add"]
    out, table = tmp_path / "out.json", tmp_path / "out.md"
    options = ["--peer", "numpy", "--quick", "--sizes", "small", "--json", str(out)]
    done = run(*options, "--markdown", str(table), "--only", *names)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(out.read_text())
    assert [record["workload"] for record in result["records"]] == names
    assert all(result["start_up"][name][0] > 0 for name in ("mgefn", "numpy"))
    for record in result["records"]:
        assert record["failures"] == {}
        assert record["differences"]["numpy"] <= record["tolerance"]
        for answer in (record["answers"]["mgefn"][0], record["answers"]["numpy"][0]):
            assert answer["first_s"] > 0
            assert min(answer["steady_s"]) > 0
            assert answer["peak_bytes"] > 2**20
        assert record["answers"]["mgefn"][0]["new_shape_s"] > 0
    for name in names:
        assert f"| {name} | small |" in table.read_text()


def test_compare_stops_what_takes_too_long() -> None:
    options = ["--peer", "numpy", "--quick", "--sizes", "small", "--limit", "0.01"]
    done = run(*options, "--only", "gelu")
    assert done.returncode == 0, done.stderr
    assert "mgefn: over 0.01 s" in done.stdout


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_memory_grows_as_planned() -> None:
    command = [sys.executable, str(COMPARE.with_name("memory_growth.py")), "--only", "softmax_grad"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    ratio = float(done.stdout.split()[-1])
    assert 0.5 < ratio < 1.2  # the page has 1.00; what the system itself does is in it too


def test_training_loop(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(COMPARE.with_name("training_loop.py"))]
    options = ["--turns", "1", "--steps", "12", "--warm", "12", "--json", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = json.loads(out.read_text())
    assert {"step and metrics", "EMA, loader, log"} <= set(result)
    for took in result.values():
        assert [len(values) for values in took.values()] == [12, 12, 12]
        # A millisecond more or less of other programs' does not matter here; a trace would.
        assert sorted(took["wall"])[6] < 1e4 and min(took["compiled"]) > 0


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0.0),
        (np.array([1.0, 2.5]), np.array([1.0, 2.0]), 0.25),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), 0.0),
        (np.array([np.inf, 1.0]), np.array([-np.inf, 1.0]), np.inf),
        (np.array([np.nan, 1.0]), np.array([0.0, 1.0]), np.inf),
        (np.array([1.0]), np.array([1.0, 1.0]), np.inf),
        (np.array([1, 2]), np.array([1.0, 2.0]), 0.0),
        (np.zeros(2), np.zeros(2), 0.0),
        (np.array([1j]), np.array([2j]), 0.5),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0.0),
    ],
)
def test_difference(compare: ModuleType, a: np.ndarray, b: np.ndarray, apart: float) -> None:
    assert compare.leaf_difference(a, b) == apart


def test_a_wrong_result_is_a_failure(
    compare: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"workload": "gelu", "size": "small", "tolerance": 1e-4, "failures": {}}
    assert compare.report_failures([{**record, "differences": {"jax": 1e-5}}]) == 0
    assert compare.report_failures([{**record, "differences": {"jax": 1e-3}}]) == 1
    assert compare.report_failures([{**record, "differences": {"jax": float("nan")}}]) == 1
    assert "gelu/small: the result differs from that of jax" in capsys.readouterr().err
