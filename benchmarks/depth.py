"""How cost grows with the length of a program: the time for 20,000 operations over that for 2,000.

    python benchmarks/depth.py

Linear cost is a ratio of 10. Every figure is the best of three runs, in milliseconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import seconds

import mgefn


def chain(n: int) -> Callable[[Any], Any]:
    """A function of n operations in a row."""

    def fun(x: Any) -> Any:
        for _ in range(n // 2):
            x = x * 0.9 + 0.1
        return x

    return fun


def measured(n: int, repeats: int) -> dict[str, float]:
    """Seconds for each kind of work on a chain of n operations."""
    x = np.asarray(0.5, dtype=np.float32)
    best: dict[str, float] = {}

    def note(name: str, run: Callable[[], Any]) -> None:
        best[name] = min(best.get(name, float("inf")), seconds(run))

    for _ in range(repeats):
        fun = chain(n)
        note("trace", lambda f=fun: mgefn.make_jaxpr(f)(x))
        note("eager value", lambda f=fun: f(mgefn.numpy.asarray(x)))
        note("eager grad", lambda f=fun: mgefn.grad(f)(x))
        note("eager jvp", lambda f=fun: mgefn.jvp(f, (x,), (x,)))
        note("eager vmap", lambda f=fun: mgefn.vmap(f)(x[None]))
        value, gradient = mgefn.jit(fun), mgefn.jit(mgefn.grad(fun))
        note("jit, first call", lambda f=value: f(x))
        note("jit, second call", lambda f=value: f(x))
        note("jit of grad, first call", lambda f=gradient: f(x))
        note("jit of grad, second call", lambda f=gradient: f(x))
        note("grad of jit, first call", lambda f=value: mgefn.grad(f)(x))
        note("grad of jit, second call", lambda f=value: mgefn.grad(f)(x))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--short", type=int, default=2_000, help="operations")
    parser.add_argument("--long", type=int, default=20_000, help="operations")
    options = parser.parse_args()
    short = measured(options.short, options.repeats)
    long = measured(options.long, options.repeats)
    print(f"{'':26}{options.short:>10} ops{options.long:>10} ops   ratio")
    for name, a in short.items():
        b = long[name]
        print(f"{name:26}{a * 1e3:11.2f} ms{b * 1e3:11.2f} ms{b / a:8.1f}")


if __name__ == "__main__":
    main()
