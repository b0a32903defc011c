"""What compiling costs: long programs, and many shapes of one program.

    python benchmarks/compile_cost.py --peer jax

- **unrolled N**: the first call of the value and of the gradient of N steps in a row, each a sin, a
  tanh, a product and a sum, on 8 floats. Linear cost is a ratio of 4 between 400 and 100 steps.
- **60 lengths**: the same function called once with each of 60 lengths. A compiler whose code does
  not depend on lengths compiles once. How often mgefn compiled machine code is said where it did.

Each figure comes from a fresh process after one trivial jit, the libraries taking turns; times are
medians, ratios mgefn's time over the peer's, with the least and the largest of the turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from compare_child import start_up
from libraries import counter, installed, leaves
from measuring import (
    answered,
    child_environment,
    duration,
    machine,
    machine_line,
    ratios,
    run_child,
    seconds,
)

LENGTHS = range(20, 80)
UNROLLED = (100, 400)
NAMES = ("softmax", "mean and variance", "layer norm", "x[1:] - x[:-1]", "MLP gradient step")


# -- the programs ------------------------------------------------------------------------------


def unrolled(lib: Any, steps: int) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(x: Any) -> Any:
        y = x
        for _ in range(steps):
            y = xp.sin(xp.tanh(y)) * x + 0.5
        return xp.sum(y)

    return fun


def functions(lib: Any) -> dict[str, Callable[..., Any]]:
    """What is called with 60 lengths, each of one array of rows."""
    xp = lib.numpy

    def softmax(x: Any) -> Any:
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    def layer_norm(x: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    def mlp_gradient(x: Any) -> Any:
        def loss(weights: Any) -> Any:
            return xp.mean(xp.tanh(xp.tanh(x @ weights[0]) @ weights[1]) ** 2)

        return lib.grad(loss)((0.1 * xp.ones((16, 32), "float32"), xp.ones((32, 4), "float32")))

    mean_and_variance = lambda x: (xp.mean(x), xp.var(x))  # noqa: E731
    differences = lambda x: x[1:] - x[:-1]  # noqa: E731
    bodies = (softmax, mean_and_variance, layer_norm, differences, mlp_gradient)
    return dict(zip(NAMES, bodies, strict=True))


def argument(name: str, length: int) -> Any:
    """What a function gets: a row, four rows, or the MLP's batch; its length is what varies."""
    import numpy as np

    shapes = {"x[1:] - x[:-1]": (length,), "MLP gradient step": (length, 16)}
    shape = shapes.get(name, (4, length))
    return np.random.default_rng(length).standard_normal(shape, dtype=np.float32)


# -- in the child ------------------------------------------------------------------------------


def measure(request: dict[str, Any]) -> dict[str, Any]:
    library, _ = start_up(request["library"], "cpu")
    before = counter("native.compilations") or 0
    kind, name = request["kind"], request["name"]
    if kind == "lengths":
        fun = library.jit(functions(library.lib)[name])
        arguments = [library.put(argument(name, length)) for length in LENGTHS]
    else:
        body = unrolled(library.lib, request["steps"])
        fun = library.jit(body if kind == "value" else library.lib.grad(body))
        arguments = [library.put(argument("unrolled", 8)[0])]
    results: list[Any] = []

    def run() -> None:
        results.extend(library.wait(fun(x)) for x in arguments)

    took = seconds(run)
    compilations = (counter("native.compilations") or 0) - before
    return {"seconds": took, "compilations": compilations, "check": checksum(results)}


def checksum(results: list[Any]) -> float:
    """The sum of all elements' squares, to see that libraries computed the same."""
    import numpy as np

    return float(sum(np.sum(np.square(leaf, dtype=np.float64)) for leaf in leaves(results)))


# -- in the parent -----------------------------------------------------------------------------


def requests() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for steps in UNROLLED:
        for kind in ("value", "gradient"):
            label = f"unrolled {steps}, {kind}"
            found.append((label, {"kind": kind, "name": "unrolled", "steps": steps}))
    found += [
        (f"{len(LENGTHS)} lengths, {name}", {"kind": "lengths", "name": name}) for name in NAMES
    ]
    return found


def take_turns(
    request: dict[str, Any], libraries: list[str], turns: int, limit: float
) -> dict[str, list[dict[str, Any]]]:
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in libraries}
    for _ in range(turns):
        for name in libraries:
            with tempfile.TemporaryDirectory() as cache:
                settings = child_environment(MGEFN_CACHE_DIR=cache, JAX_PLATFORMS="cpu")
                asked = {**request, "library": name}
                answers[name].append(run_child("compile_cost.py", asked, limit, settings))
    return answers


def times(answers: list[dict[str, Any]]) -> list[float]:
    return [answer["seconds"] for answer in answers if "seconds" in answer]


def line(label: str, answers: dict[str, list[dict[str, Any]]], peers: list[str]) -> str:
    ours = times(answers["mgefn"])
    text = f"{label:34} mgefn {duration(statistics.median(ours)) if ours else 'failed':>9}"
    compilations = [answer.get("compilations", 0) for answer in answers["mgefn"]]
    if any(compilations):
        text += f", {max(compilations)} compilations"
    for peer in peers:
        theirs = times(answers[peer])
        spread = ratios(ours, theirs)
        if spread is not None:
            text += f"; {peer} {duration(statistics.median(theirs))}, ratio {spread}"
    return text


def problems(label: str, answers: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Processes that failed or ran out of time, and results that differ."""
    found = []
    checks = {}
    for name, turns in answers.items():
        for answer in turns:
            if "timeout" in answer:
                found.append(f"{label}: {name} took more than {answer['timeout']:g} s")
            elif "error" in answer:
                found.append(f"{label}: {name} failed\n{answer['error']}")
            else:
                checks[name] = answer["check"]
    for name, check in checks.items():
        # Sums of squares of float32 results that are rounded in another order.
        if abs(check - checks.get("mgefn", check)) > 1e-4 * abs(check):
            found.append(f"{label}: the results of mgefn and {name} differ")
    return found


def main() -> int:
    if answered(measure):
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer", default="jax", choices=("jax", "none"))
    parser.add_argument("--turns", type=int, help="turns of each library (5, quick: 1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a process may take")
    parser.add_argument("--quick", action="store_true", help="one turn, times are no use")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    peers = [] if options.peer == "none" else [options.peer]
    for peer in peers:
        if not installed(peer):
            parser.error(f"--peer: {peer} is not installed here. Run pip install {peer}.")
    turns = options.turns or (1 if options.quick else 5)
    print(machine_line())
    found: dict[str, Any] = {}
    failed: list[str] = []
    for label, request in requests():
        answers = take_turns(request, ["mgefn", *peers], turns, options.limit)
        found[label] = answers
        failed += problems(label, answers)
        print(line(label, answers, peers), flush=True)
    for kind in ("value", "gradient"):
        a, b = (times(found[f"unrolled {steps}, {kind}"]["mgefn"]) for steps in UNROLLED)
        spread = ratios(b, a)
        if spread is not None:
            print(f"{UNROLLED[1]} steps over {UNROLLED[0]}, {kind}: {spread}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(), "turns": turns, "answers": found}, file, indent=1)
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
