"""What compiled programs plan of memory beside what the process grows by.

    python benchmarks/memory_growth.py

Each program runs in a fresh process at its largest size. It is called once, for what is loaded or
made at first use, and lets go of all idle memory. Then it is called five times more, each result
dropped before the next call. Printed are the plan (`peak_memory_in_bytes` of `memory_analysis`: the
slab, the results, and what kernels need), how far the largest resident size of those calls lies
above the size before them, and the ratio. The goal is a ratio of at most 1.05.

Needs Linux, where a process can begin anew to look for its largest size.
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path
from typing import Any

from libraries import load
from measuring import (
    answered,
    child_environment,
    machine_line,
    peak_bytes,
    reset_peak,
    run_child,
)
from workloads import WORKLOADS

import mgefn

CALLS = 5
LIMIT_S = 300.0
NAMES = (
    "gelu_grad", "black_scholes_grad", "huber_grad", "softmax", "softmax_grad", "layer_norm_grad",
    "logsumexp_grad", "cross_entropy_grad", "standardize_columns", "variance_grad", "matmul",
    "transpose_add", "concatenate_pad", "sort", "cumsum", "image_filter", "heat_step",
    "mlp_sgd", "mlp_adam", "transformer_grad",
)  # fmt: skip


def resident() -> int:
    """The resident size of this process in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def measure(request: dict[str, Any]) -> dict[str, Any]:
    library = load("mgefn", "cpu")

    workload = WORKLOADS[request["name"]]
    size = workload.sizes["large"]
    fun = mgefn.jit(workload.build(mgefn, size))
    arguments = library.put(workload.arguments(size))
    plan = fun.lower(*arguments).compile().memory_analysis().peak_memory_in_bytes
    fun(*arguments)
    mgefn.memory.clear()
    gc.collect()
    reset_peak()
    before = resident()
    for _ in range(CALLS):
        fun(*arguments)
    return {"plan": plan, "growth": peak_bytes() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME")
    options = parser.parse_args()
    print(machine_line())
    for name in options.only:
        found = run_child("memory_growth.py", {"name": name}, LIMIT_S, child_environment())
        if "plan" not in found:
            print(f"{name:22} {found}")
            continue
        plan, growth = found["plan"] / 2**20, found["growth"] / 2**20
        print(f"{name:22} plan {plan:8.1f} MiB  growth {growth:8.1f} MiB  {growth / plan:5.2f}")


if __name__ == "__main__":
    if not answered(measure):
        main()
