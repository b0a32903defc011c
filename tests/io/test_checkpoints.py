"""Checkpoints: which remain, which are read, and what a death in the middle leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import io
from mgefn.errors import ArgumentError, CheckpointNotFoundError, FileFormatError, TreeError

ROOT = Path(__file__).parents[2]


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_save_keeps_the_last(tmp_path):
    for step in range(1, 8):
        io.save_checkpoint(tmp_path, {"n": step}, step, keep=2, keep_every_n_steps=3)
    assert io.available_steps(tmp_path) == [3, 6, 7]
    assert io.latest_checkpoint(tmp_path) == str(tmp_path / "checkpoint_7.safetensors")
    assert io.restore_checkpoint(tmp_path, None) == {"n": 7}
    assert io.restore_checkpoint(tmp_path, {"n": 0}, step=3) == {"n": 3}
    assert io.restore_checkpoint(tmp_path / "checkpoint_6.safetensors", None) == {"n": 6}


def test_going_back_must_be_said(tmp_path):
    io.save_checkpoint(tmp_path, {"n": 5}, 5)
    with pytest.raises(ArgumentError, match="must be larger than 5"):
        io.save_checkpoint(tmp_path, {"n": 4}, 4)
    io.save_checkpoint(tmp_path, {"n": 4}, 4, overwrite=True)
    assert io.available_steps(tmp_path) == [4]


def test_nothing_there_gives_the_target(tmp_path):
    target = {"n": 0}
    assert io.restore_checkpoint(tmp_path / "absent", target) is target
    assert io.available_steps(tmp_path / "absent") == []
    (tmp_path / "empty").mkdir()
    assert io.restore_checkpoint(tmp_path / "empty", target) is target
    for folder, got in (("absent", "no such folder"), ("empty", "none there")):
        # With nothing to go on with, nothing is an error; of the kind that files raise.
        with pytest.raises(
            CheckpointNotFoundError, match=rf"hold a checkpoint .*, got {got}\. Cor"
        ):
            io.restore_checkpoint(tmp_path / folder, None)
        with pytest.raises(FileNotFoundError, match=rf"must hold step 3, got {got}\. Is the path"):
            io.restore_checkpoint(tmp_path / folder, target, step=3)
    with io.CheckpointManager(tmp_path / "empty") as manager:
        assert manager.restore(target=target) is target
        assert manager.latest_step() is None
        with pytest.raises(CheckpointNotFoundError, match="none there"):
            manager.restore()
    with pytest.raises(
        ArgumentError, match=r"must hold step 3, got none there\. Is the path right"
    ):
        io.restore_checkpoint(tmp_path, target, step=3)


def test_every_cut_of_the_last_file_leads_to_the_one_before(tmp_path):
    io.save_checkpoint(tmp_path, {"n": 1}, 1, keep=2)
    last = Path(io.save_checkpoint(tmp_path, {"n": 2}, 2, keep=2))
    whole = last.read_bytes()
    for end in range(len(whole)):
        last.write_bytes(whole[:end])
        with pytest.warns(RuntimeWarning, match="An older checkpoint is tried"):
            assert io.restore_checkpoint(tmp_path, {"n": 0}) == {"n": 1}
        with pytest.raises(FileFormatError, match="checkpoint_2"):
            io.restore_checkpoint(tmp_path, {"n": 0}, step=2)
    last.write_bytes(whole)
    assert io.restore_checkpoint(tmp_path, {"n": 0}) == {"n": 2}


def test_no_whole_file_is_an_error_and_not_a_fresh_start(tmp_path):
    Path(io.save_checkpoint(tmp_path, {"n": 1}, 1)).write_bytes(b"")
    with (
        pytest.warns(RuntimeWarning, match="older"),
        pytest.raises(FileFormatError, match="checkpoint_1"),
    ):
        io.restore_checkpoint(tmp_path, {"n": 0})


@pytest.mark.parametrize("asynchronous", [False, True])
def test_manager_keeps_last_and_best(tmp_path, asynchronous):
    scores = [0.1, 0.9, 0.3, float("nan"), 0.8, 0.2]
    with io.CheckpointManager(
        tmp_path,
        max_to_keep=2,
        keep_best=2,
        best_fn=lambda m: m["accuracy"],
        asynchronous=asynchronous,
    ) as manager:
        for step, score in enumerate(scores):
            assert manager.save(step, {"n": step}, {"accuracy": score})
        assert manager.all_steps() == [1, 4, 5]
        assert manager.best_step() == 1
        assert manager.latest_step() == 5
        assert manager.metrics(4) == {"accuracy": 0.8}
        assert manager.restore(1) == {"n": 1}
        with pytest.raises(ArgumentError, match="there is no step 2"):
            manager.metrics(2)
    # What is best is known to the next manager as well, which may compare another way.
    again = io.CheckpointManager(
        tmp_path, 1, keep_best=1, best_fn=lambda m: m["accuracy"], best_mode="min"
    )
    assert again.best_step() == 5
    again.save(6, {"n": 6}, {"accuracy": 1.0})
    assert again.all_steps() == [5, 6]
    again.close()


def test_manager_interval_and_leftovers(tmp_path):
    (tmp_path / ".checkpoint_9.safetensors.1-ab.part").write_bytes(b"half")
    with io.CheckpointManager(tmp_path, save_interval_steps=3) as manager:
        assert [step for step in range(8) if manager.save(step, {"n": step})] == [0, 3, 6]
        assert not manager.save(6, {"n": -1})  # it is there
        assert manager.save(7, {"n": 7}, force=True)
        assert manager.restore(target={"n": 0}) == {"n": 7}
    assert [n for n in names(tmp_path) if n.endswith(".part")] == []


def test_the_caller_may_change_what_it_saved_at_once(tmp_path, monkeypatch):
    """The thread waits until the array's memory was written over."""
    gate = threading.Event()
    real = io.checkpoints.write
    monkeypatch.setattr(io.checkpoints, "write", lambda *a: (gate.wait(10), real(*a)))
    host = np.arange(4.0)
    step = mgefn.jit(lambda x: x * 0 - 1, donate_argnums=0)
    device = mnp.arange(4.0)
    with io.CheckpointManager(tmp_path) as manager:
        manager.save(0, {"host": host, "device": device})
        host[:] = -1
        step(device)
        gate.set()
        back = manager.restore()
    assert back["host"].tolist() == [0, 1, 2, 3]
    assert back["device"].tolist() == [0, 1, 2, 3]


def test_an_error_of_the_thread_reaches_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(
        io.checkpoints, "write", lambda *a: (_ for _ in ()).throw(OSError("disk full"))
    )
    manager = io.CheckpointManager(tmp_path)
    manager.save(0, {"n": 0})
    with pytest.raises(OSError, match="disk full"):
        manager.close()


def test_bad_arguments(tmp_path):
    with pytest.raises(ArgumentError, match="max_to_keep must be 1 or more"):
        io.CheckpointManager(tmp_path, 0)
    with pytest.raises(ArgumentError, match="keep_best needs best_fn"):
        io.CheckpointManager(tmp_path, keep_best=1)
    with pytest.raises(ArgumentError, match="step must be an integer >= 0, got -1"):
        io.save_checkpoint(tmp_path, {}, -1)
    with pytest.raises(ArgumentError, match=r"got 1\.5"):
        io.save_checkpoint(tmp_path, {}, 1.5)
    io.save_checkpoint(tmp_path, {"a": 1}, 1)
    with pytest.raises(TreeError, match="lacks 'b'"):
        io.restore_checkpoint(tmp_path, {"b": 1})


WRITER = """
import sys, numpy as np
from mgefn import io
n = 0
while True:
    n += 1
    io.save_checkpoint(sys.argv[1], {"n": n, "x": np.full(300_000, n)}, n, keep=2)
    if n == 1:
        print("ready", flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_files(tmp_path):
    """Killed at five moments in the middle of writing as fast as it can."""
    rng = np.random.default_rng(0)
    for round_ in range(5):
        folder = tmp_path / str(round_)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        try:
            writer.wait(rng.uniform(0.01, 0.1))
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        back = io.restore_checkpoint(folder, None)  # a warning would be an error here
        assert np.all(back["x"] == back["n"])
        with io.CheckpointManager(folder) as manager:
            assert manager.latest_step() == back["n"]
        assert all(n.endswith(".safetensors") for n in names(folder))
