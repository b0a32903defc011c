"""What a call costs when there is next to nothing to compute.

    python benchmarks/dispatch.py --peer jax,autograd

Every workload runs in this one process, the libraries taking turns, and each figure is the median
of the turns in microseconds, with the ratio to mgefn's. The peers are the extra `peers`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from measuring import per_call

# workload -> {peer: the most that mgefn's time may be as a share of the peer's}
GOALS = {
    "eager x + 1": {"jax": 0.25},
    "eager x[0]": {"jax": 0.25},
    "eager x[1:]": {"jax": 0.25},
    "eager MLP": {"jax": 0.25},
    "eager grad": {"jax": 0.05, "autograd": 1.0},
    "jit x + 1": {"jax": 1.0},
    "jit of 20 leaves": {"jax": 1.0},
}


def jax_like(core: Any, np_: Any) -> dict[str, Callable[[], Any]]:
    """The workloads in the API that mgefn and JAX share."""
    x = np_.ones(4, "float32")
    weights = [(np_.ones((8, 8)) * 0.1, np_.ones(8)) for _ in range(3)]
    batch = np_.ones((4, 8))

    def mlp() -> Any:
        h = batch
        for w, b in weights:
            h = np_.tanh(h @ w + b)
        return h

    grad = core.grad(lambda v: (np_.tanh(v) * v).sum())
    plus = core.jit(lambda v: v + 1)
    leaves = {f"k{i}": np_.ones(4) for i in range(20)}
    many = core.jit(lambda t: {k: v + 1 for k, v in t.items()})
    return {
        "eager x + 1": lambda: x + 1,
        "eager x[0]": lambda: x[0],
        "eager x[1:]": lambda: x[1:],
        "eager MLP": mlp,
        "eager grad": lambda: grad(x),
        "jit x + 1": lambda: plus(x),
        "jit of 20 leaves": lambda: many(leaves),
    }


def autograd_workloads() -> dict[str, Callable[[], Any]]:
    autograd = importlib.import_module("autograd")
    anp = importlib.import_module("autograd.numpy")
    numpy = importlib.import_module("numpy")
    x = numpy.ones(4, "float32")
    grad = autograd.grad(lambda v: anp.sum(anp.tanh(v) * v))
    return {"eager grad": lambda: grad(x)}


def numpy_workloads() -> dict[str, Callable[[], Any]]:
    np = importlib.import_module("numpy")
    x = np.ones(4, "float32")
    one = np.float32(1)
    weights = [(np.ones((8, 8), "float32") * 0.1, np.ones(8, "float32")) for _ in range(3)]
    batch = np.ones((4, 8), "float32")

    def mlp() -> Any:
        h = batch
        for w, b in weights:
            h = np.tanh(h @ w + b)
        return h

    return {
        "eager x + 1": lambda: x + one,
        "eager x[0]": lambda: x[0],
        "eager x[1:]": lambda: x[1:],
        "eager MLP": mlp,
    }


def workloads(name: str) -> dict[str, Callable[[], Any]]:
    if name == "autograd":
        return autograd_workloads()
    if name == "numpy":
        return numpy_workloads()
    return jax_like(importlib.import_module(name), importlib.import_module(f"{name}.numpy"))


def compare(peers: list[str], turns: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    tables = {name: workloads(name) for name in ["mgefn", *peers]}
    for workload in tables["mgefn"]:
        runners = {n: t[workload] for n, t in tables.items() if workload in t}
        for fn in runners.values():
            fn()
        times: dict[str, list[float]] = {n: [] for n in runners}
        for _ in range(turns):
            for name, fn in runners.items():
                times[name].append(per_call(fn, seconds))
        found[workload] = times
    return found


def import_times(turns: int) -> tuple[list[float], list[float]]:
    """Seconds of `import numpy` and of `import mgefn`, each in fresh processes that take turns."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    out: dict[str, list[float]] = {"numpy": [], "mgefn": []}
    for _ in range(turns):
        for name, times in out.items():
            command = [sys.executable, "-c", code.format(name)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            times.append(float(done.stdout))
    return out["numpy"], out["mgefn"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer", default="jax,autograd", help="names, comma separated")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.05, help="length of one turn")
    parser.add_argument("--imports", type=int, default=20, help="turns for the import times, or 0")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    peers = [p for p in options.peer.split(",") if p]
    found = compare(peers, options.turns, options.seconds)
    print(f"{'workload':20} {'mgefn':>9}  " + "  ".join(f"{p:>9} {'ratio':>17}" for p in peers))
    for workload, times in found.items():
        ours = times["mgefn"]
        line = f"{workload:20} {statistics.median(ours):7.2f}us"
        for p in peers:
            if p not in times:
                line += f"  {'':9} {'':17}"
                continue
            ratios = [a / b for a, b in zip(ours, times[p], strict=True)]
            goal = GOALS.get(workload, {}).get(p)
            met = goal is not None and statistics.median(ratios) <= goal
            verdict = "" if goal is None else " ok" if met else " !!"
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
            line += (
                f"  {statistics.median(times[p]):7.2f}us {statistics.median(ratios):5.2f} "
                f"({spread}){verdict}"
            )
        print(line)
    if options.imports:
        numpy_times, own = import_times(options.imports)
        ratio = statistics.median(own) / statistics.median(numpy_times)
        print(
            f"import: numpy {statistics.median(numpy_times) * 1e3:.1f} ms, mgefn "
            f"{statistics.median(own) * 1e3:.1f} ms, ratio {ratio:.2f} (goal 1.5)"
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
