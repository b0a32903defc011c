"""`python -m mgefn table`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mgefn.__main__ import main
from mgefn.backends import table
from mgefn.core.primitive import Primitive
from tests.test_primitives import primitives


def test_the_table_names_every_primitive_and_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["primitive", "numpy", "llvm", "cupy", "ptx", "notes"]
    named = [line.split()[0] for line in lines[: len(primitives())]]
    assert named == [p.name for p in primitives()]
    assert not any("?" in line for line in lines)
    for backend in table.BACKENDS:
        assert any(line.startswith(f"{backend}: ") for line in lines)


def test_reasons_stand_in_the_table() -> None:
    text = table.text()
    for p in primitives():
        for backend in table.BACKENDS:
            if backend in p.unsupported:
                assert f"{backend}: {p.unsupported[backend]}" in text


def test_a_silent_hole_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow = Primitive("hollow")
    monkeypatch.setattr(table, "primitives", lambda: [hollow])
    assert main(["table"]) == 1
    assert "Neither a row nor a reason: hollow" in capsys.readouterr().out
    for backend in table.BACKENDS:
        hollow.unsupported[backend] = "to test the table"
    assert main(["table"]) == 0


def test_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mgefn", "table"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        timeout=300,
    )
    assert done.returncode == 0 and done.stderr == "" and "dot_general" in done.stdout
