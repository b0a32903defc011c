"""A run that is killed again and again ends where the run that was left alone ends, to the bit.

MGEFN_KILLS=50 kills fifty times instead of four.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mgefn import io

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "run_to_kill.py"
KILLS = int(os.environ.get("MGEFN_KILLS", "4"))
STEPS = 100 + 100 * KILLS


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(SCRIPT), str(folder), str(STEPS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def started_at(run: subprocess.Popen[str]) -> int:
    assert run.stdout is not None
    word, _, step = run.stdout.readline().partition(" ")
    assert word == "started", run.communicate()[1]
    return int(step)


def finished(run: subprocess.Popen[str]) -> None:
    _, errors = run.communicate(timeout=240)
    assert run.returncode == 0, errors
    assert errors == ""


def has_checkpoint(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("*.safetensors"))


@pytest.mark.slow
def test_killed_runs_end_where_the_others_do(tmp_path):
    whole = start(tmp_path / "whole")
    assert started_at(whole) == 0
    finished(whole)

    rng = np.random.default_rng(KILLS)
    starts = []
    for _ in range(KILLS):
        run = start(tmp_path / "killed")
        starts.append(started_at(run))
        # The moments are spread over loading, compiling, stepping and writing; the last run lives
        # until it has written, however slow the machine is.
        time.sleep(rng.uniform(0, 0.6))
        deadline = time.monotonic() + 120
        while len(starts) == KILLS and not has_checkpoint(tmp_path / "killed"):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
        _, errors = run.communicate()
        assert errors == ""
        assert run.returncode == -signal.SIGKILL
    last = start(tmp_path / "killed")
    starts.append(started_at(last))
    finished(last)

    assert starts == sorted(starts)
    assert 0 < starts[-1], "no run lived long enough to leave a checkpoint"
    a, b = (tmp_path / name / "result.safetensors" for name in ("whole", "killed"))
    # Of parameters, optimizer, average, loss scale, metrics and key, all bytes.
    assert a.read_bytes() == b.read_bytes()
    assert np.all(np.isfinite(np.asarray(io.load(a)[0]["params"]["W"])))


def test_the_comparison_notices_a_lost_position(tmp_path):
    """Going on with another batch than the next one does change the parameters."""
    results = []
    for name in ("kept", "lost"):
        folder = tmp_path / name
        for steps in ("5", "9"):
            subprocess.run(
                [sys.executable, str(SCRIPT), str(folder), steps],
                check=True,
                capture_output=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            if name == "lost":
                kept = io.restore_checkpoint(folder / "checkpoints", None)
                step = int(kept["run"][0]["step"])
                kept["position"] = '{"epoch": 0, "batch": 0}'
                io.save_checkpoint(folder / "checkpoints", kept, step, overwrite=True)
        results.append((folder / "result.safetensors").read_bytes())
    assert results[0] != results[1]
