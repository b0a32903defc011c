"""Ordinary NumPy programs, run unchanged under the transforms.

The files of tests/numpy_programs know nothing of mgefn. Each names its programs with sample inputs
in PROGRAMS, and in DECIDES_BY_VALUE those that can't be compiled or batched, with the reason.
Arguments with floating elements are differentiated and batched, others are held fixed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn import errors
from tests.numpy_programs import (
    dynamics,
    estimation,
    filtering,
    finance,
    geometry,
    images,
    interpolation,
    learning,
    linear_algebra,
    minimisation,
    networks,
    optimisation,
    physics,
    pricing,
    shapes,
    signals,
    statistics,
)

MODULES = (
    dynamics,
    estimation,
    filtering,
    finance,
    geometry,
    images,
    interpolation,
    learning,
    linear_algebra,
    minimisation,
    networks,
    optimisation,
    physics,
    pricing,
    shapes,
    signals,
    statistics,
)

Program = Callable[..., Any]
PROGRAMS: list[tuple[Program, tuple[Any, ...]]] = [p for m in MODULES for p in m.PROGRAMS]
DECIDES_BY_VALUE: dict[Program, str] = {
    program: reason
    for m in MODULES
    for program, reason in getattr(m, "DECIDES_BY_VALUE", {}).items()
}


def name_of(program: Program) -> str:
    return f"{program.__module__.rsplit('.')[-1]}-{program.__name__}"


every_program = pytest.mark.parametrize(
    ("program", "args"), [pytest.param(f, args, id=name_of(f)) for f, args in PROGRAMS]
)
traceable_program = pytest.mark.parametrize(
    ("program", "args"),
    [
        pytest.param(
            f,
            args,
            id=name_of(f),
            marks=[pytest.mark.skip(reason=DECIDES_BY_VALUE[f])] if f in DECIDES_BY_VALUE else [],
        )
        for f, args in PROGRAMS
    ],
)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """NumPy's defaults, so that np.ones(3) and astype(float) mean the same on both sides."""
    with mgefn.config.override(enable_x64=True):
        yield


def is_floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float64


def split(program: Program, args: tuple[Any, ...]) -> tuple[Program, list[np.ndarray]]:
    """The program as a function of its floating arrays alone, and these."""
    places = [i for i, x in enumerate(args) if is_floating(x)]

    def of_floating(*floating: Any) -> Any:
        whole = list(args)
        for i, x in zip(places, floating, strict=True):
            whole[i] = x
        return program(*whole)

    return of_floating, [args[i] for i in places]


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def scalar(result: Any) -> Any:
    """All outputs in one number, with weights that let no two errors cancel by symmetry."""
    total = 0.0
    for k, out in enumerate(outputs(result)):
        weights = np.cos(1.7 * np.arange(np.size(out)) + k).reshape(np.shape(out))
        total = total + np.sum(weights * out)
    return total


def assert_same(result: Any, expected: Any, rtol: float) -> None:
    result, expected = outputs(result), outputs(expected)
    assert len(result) == len(expected)
    for x, y in zip(result, expected, strict=True):
        assert isinstance(x, mgefn.Array)
        assert x.shape == np.shape(y)
        assert x.dtype == np.asarray(y).dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=rtol)


def central_differences(
    fun: Program, args: list[np.ndarray], step: float = 2e-4
) -> Iterator[tuple[str, float, float]]:
    """The place of each element, the slope there, and a bound of the slope's error.

    Differences D(h) and D(h/2) err by c h**2 and c h**2 / 4: (4 D(h/2) - D(h)) / 3 is without that
    part, and their distance bounds what is left. Rounding of fun adds a few ulps over h.
    """
    size = abs(float(fun(*args)))

    def difference(which: int, index: tuple[int, ...], h: float) -> float:
        above, below = args[which].copy(), args[which].copy()
        above[index] += h
        below[index] -= h
        high = fun(*args[:which], above, *args[which + 1 :])
        low = fun(*args[:which], below, *args[which + 1 :])
        return float((high - low) / (above[index] - below[index]))

    for which, x in enumerate(args):
        for index in np.ndindex(x.shape):
            if np.isnan(x[index]):
                continue
            h = step * max(1.0, abs(float(x[index])))
            wide, narrow = difference(which, index, h), difference(which, index, h / 2)
            error = abs(wide - narrow) + 100 * np.finfo(np.float64).eps * (1 + size) / h
            yield f"argument {which}{list(index)}", (4 * narrow - wide) / 3, error


def test_there_are_forty_programs_or_more_of_numpy_alone() -> None:
    assert len(PROGRAMS) >= 40
    assert len({program for program, _ in PROGRAMS}) == len(PROGRAMS)
    folder = Path(__file__).with_name("numpy_programs")
    assert {p.stem for p in folder.glob("*.py")} == {m.__name__.rsplit(".")[-1] for m in MODULES}
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        assert [ast.unparse(n) for n in imports] == ["import numpy as np"], path.name


def test_a_wrong_slope_is_far_from_the_differences() -> None:
    x = np.array([0.4, -1.1])
    for (_, slope, error), true in zip(
        central_differences(lambda x: np.sum(np.sin(x)), [x]), np.cos(x), strict=True
    ):
        assert abs(slope - true) <= error < 1e-7
        assert abs(slope - true * (1 + 1e-6)) > error


def test_at_a_kink_the_differences_say_that_they_know_nothing() -> None:
    ((_, _, error),) = central_differences(lambda x: np.sum(np.abs(x)), [np.array([5e-5])])
    assert error > 0.1


@every_program
def test_value_is_numpys(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    expected = fun(*floating)
    assert not any(isinstance(y, mgefn.Array) for y in outputs(expected))
    assert_same(fun(*[mgefn.numpy.asarray(x) for x in floating]), expected, rtol=1e-9)


@every_program
def test_derivative_is_that_of_differences(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    in_one_number = lambda *xs: scalar(fun(*xs))
    slopes = mgefn.grad(in_one_number, argnums=tuple(range(len(floating))))(*floating)
    found = [float(s) for slope in slopes for s in np.ravel(slope)]
    known = ~np.isnan(np.concatenate([np.ravel(x) for x in floating]))
    found = [s for s, k in zip(found, known, strict=True) if k]
    differences = list(central_differences(in_one_number, floating))
    largest = max(abs(slope) for _, slope, _ in differences)
    assert largest > 0
    for (place, slope, error), s in zip(differences, found, strict=True):
        # Else the sample stands at a kink, where the comparison would say nothing.
        assert error <= 1e-4 * (1 + largest), place
        assert abs(s - slope) <= error + 1e-9 * largest, place


@every_program
def test_forward_is_reverse(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    in_one_number = lambda *xs: scalar(fun(*xs))
    directions = tuple(np.cos(1.0 + np.arange(x.size)).reshape(x.shape) for x in floating)
    slopes = mgefn.grad(in_one_number, argnums=tuple(range(len(floating))))(*floating)
    _, along = mgefn.jvp(in_one_number, tuple(floating), directions)
    expected = sum(np.vdot(slope, d) for slope, d in zip(slopes, directions, strict=True))
    np.testing.assert_allclose(along, expected, rtol=1e-9, atol=1e-9)


@traceable_program
def test_compiled_is_eager(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    arrays = [mgefn.numpy.asarray(x) for x in floating]
    assert_same(mgefn.jit(fun)(*arrays), fun(*arrays), rtol=1e-11)


@traceable_program
def test_compiled_derivative_is_eager(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    slope = mgefn.grad(lambda *xs: scalar(fun(*xs)), argnums=tuple(range(len(floating))))
    assert_same(mgefn.jit(slope)(*floating), slope(*floating), rtol=1e-9)


@traceable_program
def test_batch_is_loop(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    # Scaling keeps what must be sorted, positive or inside a range so.
    batches = [np.stack([x, 0.97 * x, 1.02 * x]) for x in floating]
    rows = [outputs(fun(*[x[i] for x in batches])) for i in range(3)]
    expected = tuple(np.stack(column) for column in zip(*rows, strict=True))
    assert_same(mgefn.vmap(fun)(*batches), expected, rtol=1e-9)


@traceable_program
def test_compiled_batch_of_derivatives_is_loop(program: Program, args: tuple[Any, ...]) -> None:
    fun, floating = split(program, args)
    batches = [np.stack([x, 0.98 * x]) for x in floating]
    slope = mgefn.grad(lambda *xs: scalar(fun(*xs)), argnums=tuple(range(len(floating))))
    rows = [slope(*[x[i] for x in batches]) for i in range(2)]
    expected = tuple(np.stack(column) for column in zip(*rows, strict=True))
    assert_same(mgefn.jit(mgefn.vmap(slope))(*batches), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("program", "args"),
    [pytest.param(f, args, id=name_of(f)) for f, args in PROGRAMS if f in DECIDES_BY_VALUE],
)
def test_a_program_that_decides_by_value_is_refused(
    program: Program, args: tuple[Any, ...]
) -> None:
    fun, floating = split(program, args)
    with pytest.raises(errors.TracerBoolConversionError, match="traced"):
        mgefn.jit(fun)(*floating)


# -- how long they are ----------------------------------------------------------------------------


def body_lines(source: str, name: str) -> int:
    """Lines of a function's body that hold code: no docstring, comment or empty line."""
    tree = ast.parse(source)
    (function,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    lines = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def test_many_programs_are_of_a_length_that_people_write() -> None:
    sizes = []
    for module in MODULES:
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        sizes += [body_lines(source, program.__name__) for program, _ in module.PROGRAMS]
    assert sum(10 <= n <= 60 for n in sizes) >= 40
    assert len(sizes) == len(PROGRAMS)


def test_body_lines_counts_code_only() -> None:
    source = 'def f(x):\n    """Says."""\n    y = (\n        x\n    )\n\n    # why\n    return y\n'
    assert body_lines(source, "f") == 4
