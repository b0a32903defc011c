"""One workload in one library, measured in this process: what compare.py starts.

    python benchmarks/compare_child.py --child '{"library": "mgefn", "workload": "gelu", ...}'

Prints one line of JSON with times in seconds. Nothing but the standard library is imported before
the clock of the import starts.
"""

from __future__ import annotations

import time
from typing import Any

from libraries import Library, counter, leaves, load
from measuring import answered, peak_bytes, reset_peak, seconds, steady


def start_up(name: str, device: str) -> tuple[Library, float]:
    """A library after one trivial jit has loaded what is lazy, and the seconds that took."""
    start = time.perf_counter()
    library = load(name, device)
    import numpy as np

    library.wait(library.jit(lambda x: x + 1)(library.put(np.ones(4, np.float32))))
    return library, time.perf_counter() - start


def native_calls(fun: Any, arguments: Any) -> Any:
    """How many calls into native code one run of a function makes, where mgefn tells."""
    before = counter("runtime.native_calls")
    if before is not None:
        fun(*arguments)
        return (counter("runtime.native_calls") or 0) - before
    compiled = fun.lower(*arguments).compile()
    return getattr(compiled.report(), "native_calls", None) if hasattr(compiled, "report") else None


def save(path: str, result: Any) -> None:
    import numpy as np

    # bfloat16 and its like are no types of the file format.
    arrays = [a.astype(np.float32) if a.dtype.kind == "V" else a for a in leaves(result)]
    np.savez(path, **{f"leaf{i:05}": array for i, array in enumerate(arrays)})


def measure(request: dict[str, Any]) -> dict[str, Any]:
    library, imported = start_up(request["library"], request["device"])
    out: dict[str, Any] = {"import_s": imported}
    if request.get("workload") is None:
        return out
    from workloads import WORKLOADS

    chosen = WORKLOADS[request["workload"]]
    size = chosen.sizes[request["size"]]
    build = chosen.builder(library.name)
    assert build is not None, "compare.py asks for what the library has"
    arguments = library.put(chosen.arguments(size))
    fun = library.jit(build(library.lib, size))
    reset_peak()
    result: Any = None

    def first() -> None:
        nonlocal result
        result = library.wait(fun(*arguments))

    out["first_s"] = seconds(first)
    if request["first_only"]:
        return out

    library.settle()
    # The method of an array costs less than a function of trees, and is what a user calls.
    wait = getattr(type(result), "block_until_ready", library.wait)
    out["steady_s"] = steady(lambda: wait(fun(*arguments)), request["seconds"])
    out["peak_bytes"] = peak_bytes()
    if request["save"]:
        save(request["save"], result)
    if library.name == "mgefn":
        out["native_calls"] = native_calls(fun, arguments)
    longer = chosen.longer(size)
    if longer is not None and library.name in ("mgefn", "jax"):
        others = library.put(chosen.arguments(longer))
        library.settle()
        out["new_shape_s"] = seconds(lambda: library.wait(fun(*others)))
    return out


if __name__ == "__main__":
    answered(measure)
