"""Every script in examples/ runs in its quick mode, and ends with the answer it promises.

Each runs as a reader would run it: in a process of its own, from another folder, without a display.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# script -> what its last line says, and the files it writes into --out
PROMISES: dict[str, tuple[str, set[str]]] = {
    "characters.py": (
        r"network 0\.7\d\d bits, 5-gram 0\.8\d\d bits",
        {"characters.csv", "characters_400.safetensors"},
    ),
    "digits.py": (
        r"test accuracy 0\.9\d\d \(ConvNet, seed 0\)",
        {"learning_curves.png", "digits.safetensors"},
    ),
}

# A warning is an error. Those of other libraries about their own names that will go are not ours.
WARNINGS = ("error", "ignore::DeprecationWarning", "error::DeprecationWarning:__main__")


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_every_example_makes_a_promise() -> None:
    assert {path.name for path in EXAMPLES} == set(PROMISES)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_example(script: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = files_below(script.parent)
    flags = [part for warning in WARNINGS for part in ("-W", warning)]
    result = subprocess.run(
        [sys.executable, *flags, str(script), "--quick", "--out", str(out)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=elsewhere,
        timeout=300,  # seconds: ten times what a busy machine needs
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "MPLBACKEND": "Agg",
        },
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    last_line, files = PROMISES[script.name]
    assert re.fullmatch(last_line, result.stdout.splitlines()[-1]), result.stdout
    assert {path.name for path in out.iterdir()} == files
    assert all(path.stat().st_size > 0 for path in out.iterdir())
    assert files_below(elsewhere) == set()
    assert files_below(script.parent) == before
