"""docs/derivative-conventions.md is the data of these tests: what its tables say is so.

Each row holds a function, a point and the derivatives there. They are taken eagerly, under jit and
under vmap, forward and in reverse, and compared with the row; where JAX is installed in the version
that the page names, a sample of its column too, and with MGEFN_PEERS=all the whole.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn

PAGE = Path(__file__).parents[1] / "docs" / "derivative-conventions.md"
COLUMNS = ["Function", "At", "Forward", "Reverse", "Second", "JAX", "Why"]
NONE = "–"  # noqa: RUF001  # the dash that readers see
LITERAL = re.compile(r"`([^`]+)`(?: (forward|reverse|second))?")


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Args:
        line: its number in the page.
        function, at: Python expressions; the function's in x.
        forward, reverse: its derivatives.
        second: the second derivative; None where the page gives none.
        jax: those of JAX, by kind, where they differ; None where they are not compared.
    """

    line: int
    function: str
    at: str
    forward: np.ndarray
    reverse: np.ndarray
    second: np.ndarray | None
    jax: dict[str, np.ndarray] | None

    @property
    def complex(self) -> bool:
        return "j" in self.at


def value(text: str) -> np.ndarray:
    """The array that a literal stands for."""
    names = {"nan": math.nan, "inf": math.inf, "complex": complex, "__builtins__": {}}
    return np.array(eval(text, names))


def parsed(text: str) -> list[Row]:
    """The rows of all tables of a page."""
    rows: list[Row] = []
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells == COLUMNS:
            inside = True
        elif inside and set(line) - set("|-: "):
            assert len(cells) == len(COLUMNS), f"{PAGE.name}:{number}: {len(cells)} cells"
            function, at, forward, reverse, second, jax, why = cells
            assert why, f"{PAGE.name}:{number}: gives no reason"
            rows.append(
                Row(
                    number,
                    function.strip("`"),
                    at.strip("`"),
                    value(forward.strip("`")),
                    value(reverse.strip("`")),
                    None if second == NONE else value(second.strip("`")),
                    _of_jax(jax),
                )
            )
    return rows


def _of_jax(cell: str) -> dict[str, np.ndarray] | None:
    if cell == NONE:
        return None
    found = {}
    for text, kind in LITERAL.findall(cell):
        for k in (kind,) if kind else ("forward", "reverse"):
            found[k] = value(text)
    assert found or cell == "same", cell
    return found


ROWS = parsed(PAGE.read_text(encoding="utf-8"))
IDS = [f"{row.line}: {row.function} at {row.at}" for row in ROWS]


@functools.cache
def library(name: str) -> dict[str, Any]:
    """The names that the expressions use, of mgefn or of jax."""
    core = importlib.import_module(name)
    return {
        "jax": core,
        "mnp": importlib.import_module(f"{name}.numpy"),
        "lax": importlib.import_module(f"{name}.lax"),
        "nn": importlib.import_module(f"{name}.nn"),
        "special": importlib.import_module(f"{name}.scipy.special"),
        "nan": math.nan,
        "inf": math.inf,
    }


def function_and_point(row: Row, name: str) -> tuple[Callable[[Any], Any], Any]:
    names = library(name)
    x = value(row.at)
    dtype = np.complex64 if row.complex else np.float32
    return eval(f"lambda x: {row.function}", names), names["mnp"].asarray(x.astype(dtype))


def forward(core: Any, f: Callable[[Any], Any], x: Any) -> np.ndarray:
    """The derivatives along each element; for complex x those along 1, then those along 1j."""
    out = []
    for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
        directions = np.eye(x.size, dtype=x.dtype) * x.dtype.type(unit)
        slopes = [
            np.asarray(core.jvp(f, (x,), (core.numpy.asarray(d.reshape(x.shape)),))[1])
            for d in directions
        ]
        out.append(np.reshape(slopes, x.shape))
    return np.stack(out) if np.iscomplexobj(x) else out[0]


def gradient(core: Any, f: Callable[[Any], Any], x: Any) -> Callable[[Any], Any]:
    holomorphic = np.iscomplexobj(x) and np.iscomplexobj(core.eval_shape(f, x))
    return lambda v: core.grad(f, holomorphic=holomorphic)(v)


def same(got: Any, want: np.ndarray, what: str) -> None:
    # The page rounds to six digits; a float32 derivative of second order has about five.
    np.testing.assert_allclose(
        np.asarray(got), want, rtol=3e-5, atol=2e-6, err_msg=what, strict=False
    )
    assert np.shape(got) == want.shape, what


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_first_derivatives(row: Row) -> None:
    f, x = function_and_point(row, "mgefn")
    g = gradient(mgefn, f, x)
    batch = np.stack([x, np.asarray(x) + 0.25, x])
    ones = [mgefn.numpy.ones_like(x) * 0 for _ in batch]
    same(forward(mgefn, f, x), row.forward, "jvp")
    same(forward(mgefn, mgefn.jit(f), x), row.forward, "jvp of jit")
    same(
        forward(mgefn, lambda v: mgefn.vmap(f)(mgefn.numpy.stack([v, *ones[1:]]))[0], x),
        row.forward,
        "jvp of vmap",
    )
    same(g(x), row.reverse, "grad")
    same(mgefn.jit(g)(x), row.reverse, "jit of grad")
    same(gradient(mgefn, mgefn.jit(f), x)(x), row.reverse, "grad of jit")
    for k in (0, 2):
        same(mgefn.vmap(g)(batch)[k], row.reverse, "vmap of grad")
        same(mgefn.jit(mgefn.vmap(g))(batch)[k], row.reverse, "jit of vmap of grad")


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.second is not None], ids=lambda r: f"{r.line}: {r.function}"
)
def test_second_derivatives(row: Row) -> None:
    f, x = function_and_point(row, "mgefn")
    assert row.second is not None
    for what, h in {
        "forward over reverse": mgefn.jacfwd(mgefn.grad(f)),
        "reverse over reverse": mgefn.jacrev(mgefn.grad(f)),
        "reverse over forward": mgefn.jacrev(mgefn.jacfwd(f)),
        "jit": mgefn.jit(mgefn.hessian(f)),
        "vmap": lambda v: mgefn.vmap(mgefn.hessian(f))(mgefn.numpy.stack([v, v]))[1],
    }.items():
        same(h(x), row.second, what)


def sample_for_jax() -> list[Row]:
    """JAX takes about a second for each row, so a day has its sample."""
    rows = [row for row in ROWS if row.jax is not None]
    if os.environ.get("MGEFN_PEERS") == "all":
        return rows
    seed = int(os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d"))
    chosen = np.random.default_rng(seed).choice(len(rows), 20, replace=False)
    return [rows[i] for i in sorted(chosen)]


@pytest.mark.parametrize("row", sample_for_jax(), ids=lambda r: f"{r.line}: {r.function}")
def test_what_the_page_says_of_jax(row: Row) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install -e '.[peers]'")
    said = re.search(r"JAX (\d+\.\d+\.\d+)", PAGE.read_text(encoding="utf-8"))
    assert said and row.jax is not None
    if jax.__version__ != said[1]:
        pytest.skip(f"the page is about JAX {said[1]}, and {jax.__version__} is installed")
    f, x = function_and_point(row, "jax")
    want = {"forward": row.forward, "reverse": row.reverse, "second": row.second} | row.jax
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX about its own functions
        same(forward(jax, f, x), want["forward"], "jvp")
        same(gradient(jax, f, x)(x), want["reverse"], "grad")
        if want["second"] is not None:
            same(jax.jacfwd(jax.grad(f))(x), want["second"], "second")
    for kind, slope in row.jax.items():
        ours = {"forward": row.forward, "reverse": row.reverse, "second": row.second}[kind]
        assert ours is None or not np.allclose(ours, slope, equal_nan=True), f"{kind} is the same"


# The test itself


def test_the_page_is_read() -> None:
    assert len(ROWS) > 250
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(lines) == len(ROWS)
    assert len({(row.function, row.at) for row in ROWS}) == len(ROWS), "a row stands twice"


PAGE_OF_ONE = """
| Function | At | Forward | Reverse | Second | JAX | Why |
|---|---|---|---|---|---|---|
| `x ** 2` | `3.0` | `6.0` | `6.0` | `2.0` | same | a polynomial |
"""


def rows_of_one(old: str, new: str) -> Iterator[Row]:
    assert PAGE_OF_ONE.count(old) == 1
    yield from parsed(PAGE_OF_ONE.replace(old, new))


def test_right_rows_pass() -> None:
    (row,) = rows_of_one("a polynomial", "smooth")
    test_first_derivatives(row)
    test_second_derivatives(row)


@pytest.mark.parametrize(
    "old, new",
    [
        ("| `6.0` | `6.0`", "| `5.0` | `6.0`"),
        ("| `6.0` | `6.0`", "| `6.0` | `5.0`"),
        ("| `6.0` | `6.0`", "| `6.0` | `[6.0]`"),
        ("`2.0`", "`nan`"),
        ("`x ** 2`", "`x ** 3`"),
    ],
)
def test_a_wrong_row_is_found(old: str, new: str) -> None:
    (row,) = rows_of_one(old, new)
    with pytest.raises(AssertionError):
        test_first_derivatives(row)
        test_second_derivatives(row)


def test_rows_that_can_not_be_read_are_refused() -> None:
    with pytest.raises(AssertionError, match="gives no reason"):
        list(rows_of_one(" a polynomial ", " "))
    with pytest.raises(AssertionError, match="6 cells"):
        list(rows_of_one(" same |", ""))
    with pytest.raises(AssertionError):
        list(rows_of_one("same", "equal"))
