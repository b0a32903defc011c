"""mgefn beside JAX: every public function that both have, on drawn arguments.

`MGEFN_PEERS=all` compares all functions; without it each day has its sample, and
MGEFN_TEST_SEED=... repeats that of a failure, whose output names it. The specs are in
`specs_*.py`, one for each kind of function; what is left out, and where mgefn means to differ,
stands with its reason in `deviations.py`.

Nothing here imports jax while pytest collects, so that other tests do not wait for it.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import types
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp

if importlib.util.find_spec("jax") is None:
    pytest.skip("jax is not installed: pip install -e '.[peers]'", allow_module_level=True)

from tests.peers.deviations import DEVIATIONS, OMITTED
from tests.peers.frame import MODULES, Case, Finding, Spec, findings, libraries
from tests.peers.specs import SPECS

SEED = int(os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d"))
ALL = os.environ.get("MGEFN_PEERS") == "all"
SAMPLE = 50  # functions; takes about a minute on two cores


def items() -> list[str]:
    names = sorted(SPECS)
    if ALL:
        return names
    chosen = np.random.default_rng(SEED).choice(len(names), min(SAMPLE, len(names)), replace=False)
    return [names[i] for i in sorted(chosen)]


def check(item: str) -> tuple[list[Finding], int]:
    """The findings for one function, and how many comparisons were made."""
    rng = np.random.default_rng([SEED, zlib.crc32(item.encode())])
    return findings(item, SPECS[item], list(SPECS[item].draw(rng)), rng)


@pytest.mark.parametrize("item", items())
def test_as_jax(item: str) -> None:
    print(f"MGEFN_TEST_SEED={SEED}")
    found, made = check(item)
    allowed = [d for d in DEVIATIONS if d.item == item]
    bad = [f for f in found if not any(d.covers(f) for d in allowed)]
    text = "\n".join(map(str, bad[:20]))
    assert not bad, f"{item} differs from JAX in {len(bad)} of {made} comparisons:\n{text}"
    idle = [d.where for d in allowed if not any(d.covers(f) for f in found)]
    # What is drawn decides whether some deviations show, so a day's sample may miss one.
    if ALL:
        assert not idle, f"{item} no longer deviates as deviations.py says: {idle}. Delete them."
    assert made, f"{item}: JAX refused every case, so nothing was compared. Correct its spec."


# -- the comparison itself ------------------------------------------------------------------------


def refuse(x: Any) -> Any:
    raise ValueError("no")


WRONG = {
    "value": lambda x: mnp.sin(x) * (1 + 1e-13),
    "dtype": lambda x: mnp.sin(x).astype("float32"),
    "shape": lambda x: mnp.sin(x)[None],
    "structure": lambda x: (mnp.sin(x),),
    "jvp": lambda x: mgefn.lax.stop_gradient(mnp.sin(x)) + 0 * x,
    "grad": lambda x: mgefn.lax.stop_gradient(mnp.sin(x)) + 0 * x,
    "raises": refuse,
}


@pytest.mark.parametrize("facet", WRONG)
def test_differences_are_found(facet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = libraries()
    cases = [Case("here", (np.array([0.5, 1.0]),))]
    spec, rng = Spec(lambda rng: cases), np.random.default_rng(0)
    found, made = findings("numpy.sin", spec, cases, rng)
    assert (found, made) == ([], 2)
    monkeypatch.setattr(ours, "resolve", lambda item: WRONG[facet])
    found, _ = findings("numpy.sin", spec, cases, rng)
    assert facet in {f.facet for f in found}


# -- completeness ---------------------------------------------------------------------------------


def shared(ours: Any, peer: Any, prefix: str) -> Iterator[str]:
    """The public callables of two modules, and of the modules in them."""
    for name in dir(peer):
        theirs, own = getattr(peer, name), getattr(ours, name, None)
        if name.startswith("_") or own is None:
            continue
        if isinstance(theirs, types.ModuleType):
            if theirs.__name__.startswith("jax.") and "_src" not in theirs.__name__:
                yield from shared(own, theirs, f"{prefix}{name}.")
        elif callable(theirs):
            yield f"{prefix}{name}"


def test_no_function_is_left_out() -> None:
    ours, peer = libraries()
    found = set()
    for module in MODULES:
        try:
            pair = ours.resolve(module), peer.resolve(module)
        except AttributeError:
            continue  # a module of JAX that mgefn has not
        found |= set(shared(*pair, f"{module}."))
    listed = SPECS.keys() | OMITTED.keys()
    assert not found - listed, f"in both libraries, without a spec: {sorted(found - listed)}"
    assert not listed - found, f"listed, but not in both libraries: {sorted(listed - found)}"
    assert not SPECS.keys() & OMITTED.keys()
    strange = {d.item for d in DEVIATIONS} - SPECS.keys()
    assert not strange, f"deviations of functions without a spec: {sorted(strange)}"
    assert all(d.reason for d in DEVIATIONS) and all(OMITTED.values())
