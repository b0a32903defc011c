"""How near compiled kernels come to what this machine can do: memory bandwidth, and products.

    python benchmarks/roofline.py --threads 1 2

The bound of memory is a copy of 256 MiB by NumPy in that many threads, counted as bytes read plus
bytes written; a kernel whose results are small beside its arguments is shown beside NumPy's inner
product of 256 MiB with themselves too, as one thread may read less in a second than it can read and
write. The bound of arithmetic is NumPy's product of matrices of 2048 rows, counted as
2 * n^3 operations. A kernel is counted by the bytes of its arguments and results, each once, so one
that reads an argument twice cannot reach 100 %. Arrays are larger than the caches, and results are
new arrays each time, as a user gets them.

A process may use as many processors as it has threads. Each turn is a fresh process that measures
both bounds and then every kernel; printed is the median of the turns with the least and the
largest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
from collections.abc import Callable
from typing import Any

from measuring import (
    Spread,
    answered,
    child_environment,
    machine,
    machine_line,
    processors,
    run_child,
    steady,
)

COPIED = 2**28  # bytes
PRODUCT = 2_048  # rows


# -- in the child ------------------------------------------------------------------------------


def bandwidths(threads: int, quick: bool, length: float) -> tuple[float, float]:
    """Bytes in a second: read and written by a copy in some threads, and read by inner products."""
    import numpy as np

    n = (COPIED // 16 if quick else COPIED) // 4
    source, target = np.ones(n, np.float32), np.zeros(n, np.float32)
    bounds = [n * i // threads for i in range(threads + 1)]
    parts = [slice(a, b) for a, b in itertools.pairwise(bounds)]

    # Both release the interpreter's lock.
    def copy(part: slice) -> None:
        np.copyto(target[part], source[part])

    def read(part: slice) -> None:
        np.dot(source[part], source[part])

    def seconds(work: Callable[[slice], None]) -> float:
        def all_parts() -> None:
            others = [threading.Thread(target=work, args=(part,)) for part in parts[1:]]
            for thread in others:
                thread.start()
            work(parts[0])
            for thread in others:
                thread.join()

        return middle(steady(all_parts, length))

    return 2 * source.nbytes / seconds(copy), source.nbytes / seconds(read)


def product_peak(dtype: str, quick: bool, length: float) -> float:
    """Operations in a second of NumPy's product of square matrices."""
    import numpy as np

    n = PRODUCT // 8 if quick else PRODUCT
    a = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    out = np.empty_like(a)
    return 2 * n**3 / middle(steady(lambda: np.matmul(a, a, out=out), length))


def kernel(name: str, quick: bool, length: float) -> dict[str, Any]:
    """Seconds of a call of a workload in mgefn, with the bytes and the operations to count."""
    from libraries import leaves
    from workloads import WORKLOADS
    from workloads.sizes import ROOFLINE

    import mgefn

    chosen = WORKLOADS[name]
    size = chosen.sizes["small"] if quick else ROOFLINE[name]
    given = mgefn.device_put(chosen.arguments(size))
    fun = mgefn.jit(chosen.build(mgefn, size))
    result = fun(*given)
    read, written = (sum(a.nbytes for a in leaves(x)) for x in (given, result))
    out: dict[str, Any] = {"bytes": read + written, "reads": written < read / 8}
    if name.startswith("matmul"):
        out = {"flops": 2 * size["n"] ** 3, "dtype": str(leaves(result)[0].dtype)}
    del result
    call: Callable[[], Any] = lambda: mgefn.block_until_ready(fun(*given))  # noqa: E731
    return {**out, "seconds": middle(steady(call, length))}


def middle(values: list[float]) -> float:
    return Spread.of(values).median


def measure(request: dict[str, Any]) -> dict[str, Any]:
    threads, quick, length = request["threads"], request["quick"], request["seconds"]
    # Before NumPy is loaded, whose threads stay where they may be when they start.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    copy, read = bandwidths(threads, quick, length)
    return {
        "copy": copy,
        "read": read,
        "float32": product_peak("float32", quick, length),
        "float64": product_peak("float64", quick, length),
        "kernels": {name: kernel(name, quick, length) for name in request["kernels"]},
    }


# -- in the parent -----------------------------------------------------------------------------


def share(answer: dict[str, Any], name: str, bound: str = "copy") -> tuple[float, float]:
    """What a kernel achieved a second, and that as a percentage of the machine's."""
    found = answer["kernels"][name]
    if "flops" in found:
        rate = found["flops"] / found["seconds"]
        return rate, 100 * rate / answer[found["dtype"]]
    rate = found["bytes"] / found["seconds"]
    return rate, 100 * rate / answer[bound]


def giga(values: list[float], unit: str) -> str:
    spread = Spread.of(value / 1e9 for value in values)
    return f"{spread.median:7.1f} {unit} ({spread.low:.1f}-{spread.high:.1f})"


def print_table(answers: list[dict[str, Any]], names: list[str]) -> None:
    for bound in ("copy", "read"):
        print(f"{bound:16} {giga([a[bound] for a in answers], 'GB/s')}")
    for dtype in ("float32", "float64"):
        print(f"product {dtype:8} {giga([a[dtype] for a in answers], 'GFLOP/s')}")
    for name in names:
        rates, percents = zip(*(share(answer, name) for answer in answers), strict=True)
        unit = "GFLOP/s" if "flops" in answers[0]["kernels"][name] else "GB/s"
        part = Spread.of(percents)
        rate = giga(list(rates), unit)
        line = f"  {name:20} {rate:32} {part.median:5.0f} % ({part.low:.0f}-{part.high:.0f})"
        if answers[0]["kernels"][name].get("reads"):
            part = Spread.of(share(answer, name, "read")[1] for answer in answers)
            line += f", of a read {part.median:.0f} % ({part.low:.0f}-{part.high:.0f})"
        print(line)


def main() -> int:
    if answered(measure):
        return 0
    from workloads.sizes import ROOFLINE  # loads NumPy, which a child does after it is pinned

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=list(ROOFLINE), default=list(ROOFLINE))
    parser.add_argument("--turns", type=int, help="processes (5, quick: 1)")
    parser.add_argument("--seconds", type=float, help="length of a measurement (0.3, quick: 0.02)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a process may take")
    parser.add_argument("--quick", action="store_true", help="small arrays, figures are no use")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if max(options.threads) > processors():
        parser.error(f"--threads: this process may use {processors()} processors")
    turns = options.turns or (1 if options.quick else 5)
    length = options.seconds or (0.02 if options.quick else 0.3)
    print(machine_line())
    found: dict[str, list[dict[str, Any]]] = {}
    failed = False
    for threads in options.threads:
        request = {"threads": threads, "quick": options.quick, "seconds": length}
        request["kernels"] = options.only
        settings = child_environment(OPENBLAS_NUM_THREADS=str(threads))
        answers = [run_child("roofline.py", request, options.limit, settings) for _ in range(turns)]
        for answer in answers:
            if "copy" not in answer:
                failed = True
                print(answer.get("error", f"a process took over {options.limit:g} s"))
        answers = [answer for answer in answers if "copy" in answer]
        found[str(threads)] = answers
        if answers:
            print(f"\n{threads} thread{'s' if threads > 1 else ''}")
            print_table(answers, options.only)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(), "threads": found}, file, indent=1)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
