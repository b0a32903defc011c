"""mgefn beside other libraries: calls, first calls, new shapes, memory, and the same results.

    python benchmarks/compare.py --peer jax
    python benchmarks/compare.py --peer jax,numpy --only softmax mlp_sgd --sizes middle large

Every workload of benchmarks/workloads runs in a fresh process per library, and the libraries take
turns (A B A B ...). A ratio is mgefn's time over the peer's in the same turn: below 1 mgefn is the
faster. What is printed is the median of the turns with the least and the largest.

- **call**: the median of many calls after warming up, each until its result exists. What mgefn
  compiles in the background after a first call is done by then.
- **first**: tracing, compiling and running, after one trivial jit has loaded what is lazy. mgefn's
  cache of compiled code on disk is empty for it.
- **warm**: mgefn's first call in a second process that finds the cache of the first, over its first
  call without; empty where nothing was cached.
- **new shape**: the first call with another shape of the same rank, in the function that ran.
- **memory**: the largest resident size while the calls ran, for training steps.
- **native**: how many calls into compiled code mgefn makes in one run, where it tells.

Results are compared leaf by leaf: the largest difference over the largest element must be within
the workload's tolerance. The exit status is 1 if one is not, or if a process failed. A process that
takes longer than --limit is stopped and shown as such.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from libraries import PEERS, installed
from measuring import (
    Spread,
    child_environment,
    duration,
    geometric_mean,
    machine,
    machine_line,
    ratios,
    run_child,
    short,
)
from workloads import GROUPS, LABELS, SIZES, WORKLOADS, Workload

# metric -> heading of its ratio
METRICS = {
    "steady_s": "call",
    "first_s": "first",
    "new_shape_s": "new shape",
    "peak_bytes": "memory",
}


WARM = "mgefn, warm"


# -- one workload ------------------------------------------------------------------------------


def difference(ours: Path, theirs: Path) -> float:
    """The largest difference over the largest element, over all leaves; inf where kinds differ."""
    with np.load(ours) as a, np.load(theirs) as b:
        if len(a.files) != len(b.files):
            return float("inf")
        return max((leaf_difference(a[name], b[name]) for name in a.files), default=0.0)


def leaf_difference(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    kind = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    a, b = a.astype(kind), b.astype(kind)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return float("inf")
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    largest = float(np.max(np.abs(b), where=finite, initial=0.0))
    apart = float(np.max(np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))))
    return apart / largest if largest else apart


def child_settings(chosen: Workload | None, device: str, cache: str) -> dict[str, str]:
    """The environment of a child: 64-bit defaults where the workload is of 64 bits, one device."""
    x64 = "1" if chosen is not None and chosen.x64 else "0"
    platforms = "cpu" if device == "cpu" else "cuda"
    return child_environment(
        MGEFN_ENABLE_X64=x64,
        JAX_ENABLE_X64=x64,
        JAX_PLATFORMS=platforms,
        MGEFN_CACHE_DIR=cache,
    )


def take_turns(
    chosen: Workload, size: str, libraries: list[str], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Run one workload in all libraries; the answers of the turns, and how far results differ."""
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in libraries}
    failures: dict[str, str] = {}
    saved = {name: folder / f"{name}.npz" for name in libraries}

    def ask(library: str, cache: str, first_only: bool, keep: bool) -> dict[str, Any]:
        request = {
            "library": library,
            "workload": chosen.name,
            "size": size,
            "device": options.device,
            "seconds": options.seconds,
            "first_only": first_only,
            "save": str(saved[library]) if keep else None,
        }
        settings = child_settings(chosen, options.device, cache)
        return run_child("compare_child.py", request, options.limit, settings)

    for turn in range(options.turns):
        for library in libraries:
            if library in failures:
                continue
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                answer = ask(library, cache, False, turn == 0)
                if "timeout" in answer:
                    failures[library] = f"over {answer['timeout']:g} s"
                elif "error" in answer:
                    failures[library] = answer["error"]
                if library in failures:
                    continue
                if library == "mgefn" and any(Path(cache).iterdir()):
                    again = ask(library, cache, True, False)
                    if "first_s" in again:
                        answer["warm_first_s"] = again["first_s"]
                answers[library].append(answer)
    return {
        "workload": chosen.name,
        "group": chosen.group,
        "size": size,
        "dimensions": chosen.sizes[size],
        "tolerance": chosen.tolerance,
        "memory": chosen.memory,
        "answers": answers,
        "failures": failures,
        "differences": {
            name: difference(saved["mgefn"], saved[name])
            for name in libraries[1:]
            if saved["mgefn"].exists() and saved[name].exists()
        },
    }


def start_up(libraries: list[str], options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds from an empty process to the end of one trivial jit, the libraries taking turns.

    "mgefn, warm" is the next process, which finds what mgefn's cache on disk kept of that jit.
    """
    found: dict[str, list[float]] = {name: [] for name in (libraries[0], WARM, *libraries[1:])}
    for _ in range(options.turns):
        for name in libraries:
            with tempfile.TemporaryDirectory() as cache:
                settings = child_settings(None, options.device, cache)
                request = {"library": name, "device": options.device}
                for label in (name, WARM) if name == "mgefn" else (name,):
                    answer = run_child("compare_child.py", request, options.limit, settings)
                    if "import_s" in answer:
                        found[label].append(answer["import_s"])
    return found


def start_up_lines(found: dict[str, list[float]], peer: str) -> list[str]:
    """The start of mgefn, without and with its cache on disk, over that of a peer."""
    lines = []
    for label in ("mgefn", WARM):
        spread = ratios(found[label], found[peer])
        if spread is not None:
            median = duration(float(np.median(found[label])))
            lines.append(f"import and first trivial jit: {label} {median}, over {peer} {spread}")
    return lines


# -- what comes out ----------------------------------------------------------------------------


def values(record: dict[str, Any], library: str, metric: str) -> list[float]:
    """One figure a turn; of the calls of a turn the median."""
    found = [answer.get(metric) for answer in record["answers"][library]]
    return [
        float(np.median(value)) if isinstance(value, list) else value
        for value in found
        if value is not None
    ]


def ratio(record: dict[str, Any], peer: str, metric: str) -> Spread | None:
    if metric == "peak_bytes" and not record["memory"]:
        return None
    return ratios(values(record, "mgefn", metric), values(record, peer, metric))


def median_time(record: dict[str, Any], library: str, metric: str) -> str:
    found = values(record, library, metric)
    return duration(float(np.median(found))) if found else ""


def wrong(record: dict[str, Any], peer: str) -> bool:
    apart = record["differences"].get(peer)
    return apart is not None and not apart <= record["tolerance"]


def remarks(record: dict[str, Any], peer: str) -> str:
    """What went wrong in a comparison, or how far the results are apart."""
    bad = [
        f"{name}: {text.splitlines()[-1]}"
        for name, text in record["failures"].items()
        if name in ("mgefn", peer)
    ]
    apart = record["differences"].get(peer)
    if apart is not None:
        equal = "DIFFER: " if wrong(record, peer) else ""
        bad.append(f"{equal}{apart:.1e} of {record['tolerance']:g}")
    return "; ".join(bad)


HEADINGS = (
    "workload",
    "size",
    "mgefn",
    "peer",
    "call",
    "first",
    "mgefn first",
    "warm",
    "new shape",
    "memory",
    "native",
    "difference",
)


def row(record: dict[str, Any], peer: str) -> tuple[str, ...]:
    """The cells of a comparison, under `HEADINGS`."""
    cells = {name: ratio(record, peer, metric) for metric, name in METRICS.items()}
    texts = {name: "" if spread is None else str(spread) for name, spread in cells.items()}
    warm = ratios(values(record, "mgefn", "warm_first_s"), values(record, "mgefn", "first_s"))
    native = record["answers"]["mgefn"][-1:]
    calls = native[0].get("native_calls") if native else None
    return (
        record["workload"],
        record["size"],
        median_time(record, "mgefn", "steady_s"),
        median_time(record, peer, "steady_s"),
        texts["call"],
        texts["first"],
        median_time(record, "mgefn", "first_s"),
        "" if warm is None else str(warm),
        texts["new shape"],
        texts["memory"],
        "" if calls is None else str(calls),
        remarks(record, peer),
    )


def summary(records: list[dict[str, Any]], peer: str) -> list[str]:
    """Geometric means of the ratios of each group and of all, and how often mgefn is the faster."""
    lines = []
    for group in (*GROUPS, None):
        here = [r for r in records if group in (None, r["group"])]
        parts = []
        for metric, name in METRICS.items():
            found = [spread.median for r in here if (spread := ratio(r, peer, metric))]
            if found:
                better = sum(value <= 1 for value in found)
                parts.append(f"{name} {short(geometric_mean(found))} ({better}/{len(found)})")
        if parts:
            lines.append(f"{group or 'all':14} " + ", ".join(parts))
    return lines


def print_row(cells: Sequence[str]) -> None:
    widths = (24, 7, 9, 9, 18, 18, 11, 18, 18, 18, 7)
    print("".join(f"{c:{w}} " for c, w in zip(cells, widths, strict=False)) + cells[-1], flush=True)


def markdown(result: dict[str, Any]) -> str:
    """The whole comparison as tables, one a peer and group."""
    lines = [f"{machine_line()}; median of {result['turns']} turns.", ""]
    for peer in result["peers"]:
        lines += [f"## {peer}", ""]
        lines += [f"- {line}" for line in start_up_lines(result["start_up"], peer)] + [""]
        for group in GROUPS:
            here = [r for r in result["records"] if r["group"] == group and peer in r["answers"]]
            if not here:
                continue
            lines += [f"### {group}", "", "| " + " | ".join(HEADINGS) + " |"]
            lines.append("|" + "---|" * len(HEADINGS))
            lines += ["| " + " | ".join(row(record, peer)) + " |" for record in here] + [""]
        lines += [f"- {line}" for line in summary(of_peer(result["records"], peer), peer)] + [""]
    return "\n".join(lines)


def of_peer(records: list[dict[str, Any]], peer: str) -> list[dict[str, Any]]:
    return [record for record in records if peer in record["answers"]]


# -- the command -------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer", default="jax", help=f"comma separated, of {', '.join(PEERS)}")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these workloads")
    parser.add_argument("--group", nargs="+", choices=GROUPS, help="the workloads of these files")
    parser.add_argument("--sizes", nargs="+", choices=LABELS, default=list(LABELS))
    parser.add_argument("--turns", type=int, help="turns of each library (5, quick: 1)")
    parser.add_argument("--seconds", type=float, help="length of a measurement (0.3, quick: 0.02)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a process may take")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="compare results, times are no use")
    parser.add_argument("--list", action="store_true", help="name the workloads and stop")
    parser.add_argument("--json", metavar="FILE", help="write all figures of all turns")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables")
    options = parser.parse_args()
    options.turns = options.turns or (1 if options.quick else 5)
    options.seconds = options.seconds or (0.02 if options.quick else 0.3)
    options.peers = [name for name in options.peer.split(",") if name]
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"--peer: needs one of {', '.join(PEERS)}, got {name}")
        if not installed(name):
            parser.error(f"--peer: {name} is not installed here. Run pip install {name}.")
    for name in options.only or ():
        if name not in WORKLOADS:
            parser.error(f"--only: there is no workload {name}. --list names them.")
    return options


def selected(options: argparse.Namespace) -> list[Workload]:
    chosen = [WORKLOADS[name] for name in options.only or SIZES]
    return [w for w in chosen if not options.group or w.group in options.group]


def main() -> int:
    options = parse()
    if options.list:
        for chosen in selected(options):
            print(f"{chosen.group:14} {chosen.name:24} {' '.join(chosen.sizes)}")
        return 0
    print(machine_line())
    result: dict[str, Any] = {
        "machine": machine(),
        "environment": {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")},
        "peers": options.peers,
        "device": options.device,
        "turns": options.turns,
        "seconds": options.seconds,
        "start_up": start_up(["mgefn", *options.peers], options),
        "records": [],
    }
    for peer in options.peers:
        print("\n".join(start_up_lines(result["start_up"], peer)))
    print_row(HEADINGS)
    for chosen in selected(options):
        peers = [name for name in options.peers if chosen.builder(name) is not None]
        for size in [s for s in options.sizes if peers and s in chosen.sizes]:
            with tempfile.TemporaryDirectory() as folder:
                libraries = ["mgefn", *peers]
                record = take_turns(chosen, size, libraries, options, Path(folder))
            result["records"].append(record)
            for peer in peers:
                cells = row(record, peer)
                label = cells[0] if len(options.peers) == 1 else f"{cells[0]} / {peer}"
                print_row((label, *cells[1:]))
            if options.json:  # after each, so that a run that is stopped leaves what it has
                Path(options.json).write_text(json.dumps(result, indent=1))
    for peer in options.peers:
        print(f"\nmgefn over {peer}, geometric means (and how many are at most 1)")
        print("\n".join(summary(of_peer(result["records"], peer), peer)))
    if options.markdown:
        Path(options.markdown).write_text(markdown(result))
    return report_failures(result["records"])


def report_failures(records: list[dict[str, Any]]) -> int:
    """Print what failed in full; the exit status. A process over its limit is no failure."""
    failed = False
    for record in records:
        name = f"{record['workload']}/{record['size']}"
        for library, text in record["failures"].items():
            if not text.startswith("over "):
                failed = True
                print(f"\n{name} in {library} failed:\n{text}", file=sys.stderr)
        for peer in record["differences"]:
            if wrong(record, peer):
                failed = True
                print(f"{name}: the result differs from that of {peer}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
