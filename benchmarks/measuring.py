"""What the benchmark scripts share: clocks, ratios with their spread, and child processes.

Imports the standard library only, so that a child can time an import.
"""

from __future__ import annotations

import compileall
import functools
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
# Variables that pin what OpenBLAS takes the processor for. A user has neither, so no child has.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
DISTRIBUTIONS = ("mgefn", "numpy", "scipy", "llvmlite", "jax", "jaxlib", "torch", "autograd")


# -- clocks ------------------------------------------------------------------------------------


def seconds(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def per_call(fn: Callable[[], Any], seconds: float) -> float:
    """Mean time of a call in microseconds over about `seconds`."""
    n, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(n):
            fn()
        spent = time.perf_counter() - start
        if spent > seconds / 4:
            return spent / n * 1e6
        n *= 4


def steady(fn: Callable[[], Any], duration: float) -> list[float]:
    """Seconds of a call, once for each of many batches of calls.

    Warms up for a third of `duration`, then measures for `duration` and for five batches at least.
    Of a call that takes longer than `duration` three are enough, and one where it takes longer than
    ten times `duration`. A batch takes a twentieth of `duration`, so that reading the clock costs
    nothing beside it.
    """
    warm_until = time.perf_counter() + duration / 3
    estimate = seconds(fn)
    if estimate >= 10 * duration:
        return [estimate]
    while time.perf_counter() < warm_until:
        estimate = min(estimate, seconds(fn))
    inner = max(1, int(duration / 20 / max(estimate, 1e-9)))
    batches: list[float] = []
    spent = 0.0
    while True:
        start = time.perf_counter()
        for _ in range(inner):
            fn()
        took = time.perf_counter() - start
        batches.append(took / inner)
        spent += took
        enough = 5 if estimate < duration else 3
        if spent >= duration and len(batches) >= enough:
            return batches


# -- ratios ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """A median with the least and the largest of what it is the median of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = list(values)
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{short(self.median)} ({short(self.low)}-{short(self.high)})"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread | None:
    """Ours over theirs, turn by turn; None where no turn has both."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=False) if b > 0]
    return Spread.of(a / b for a, b in pairs) if pairs else None


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs))


def short(value: float) -> str:
    """Three digits of a number, without an exponent where that is readable."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def duration(value: float) -> str:
    """Seconds as text, in the unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"


# -- processes ---------------------------------------------------------------------------------


def child_environment(**more: str) -> dict[str, str]:
    """This process's environment for a child: mgefn importable, nothing pinned, with `more`."""
    environment = {k: v for k, v in os.environ.items() if k not in UNSET}
    paths = [str(ROOT), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment | more


@functools.cache
def _write_bytecode() -> None:
    """Compile the modules of a clone, as pip does with what it installs.

    Where Python is told to write no bytecode, each child would compile the sources anew.
    """
    for folder in (ROOT / "mgefn", FOLDER):
        compileall.compile_dir(folder, quiet=1)


def run_child(
    script: str, request: dict[str, Any], limit: float, environment: dict[str, str]
) -> dict[str, Any]:
    """What a script of this folder answers to `--child REQUEST`: the JSON of its last line.

    Returns:
        The answer, with `wall_s`, the life of the process; `{"timeout": limit}` for one that was
        stopped after `limit` seconds; `{"error": text}` for one that failed.
    """
    _write_bytecode()
    command = [sys.executable, str(FOLDER / script), "--child", json.dumps(request)]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return {"timeout": limit}
    wall = time.perf_counter() - start
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": "\n".join(lines[-12:])}
    return {**json.loads(done.stdout.splitlines()[-1]), "wall_s": wall}


def answered(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Was this process started by `run_child`? Then its answer has been printed."""
    if sys.argv[1:2] != ["--child"]:
        return False
    print(json.dumps(measure(json.loads(sys.argv[2]))))
    return True


def reset_peak() -> None:
    """Forget the largest resident size so far, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # then the peak includes what came before


def peak_bytes() -> int:
    """The largest resident size of this process.

    `ru_maxrss` starts at what the parent had when it forked, so the kernel's own mark is preferred.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource  # not on Windows, where nothing here asks for it

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# -- what ran where ----------------------------------------------------------------------------


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """The processor, the number of threads and the versions."""
    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    versions = {"python": platform.python_version()}
    for distribution in DISTRIBUTIONS:
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": name or platform.machine(),
        "processors": processors(),
        "system": platform.system(),
        "versions": versions,
    }


def machine_line() -> str:
    here = machine()
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    return f"{here['processor']}, {here['processors']} processors, {here['system']}; {versions}"
