"""The console of debug.breakpoint, its commands read from a stream."""

import io

import numpy as np
import pytest

import mgefn
from mgefn import debug, debugger, errors


def session(commands: str, transform=lambda f: f, x=3.0) -> str:
    out = io.StringIO()

    def doubled(x):
        y = {"twice": x * 2}
        debug.breakpoint(stdin=io.StringIO(commands), stdout=out, num_frames=2)
        return y["twice"]

    np.testing.assert_array_equal(transform(doubled)(x), 2 * np.asarray(x))
    return out.getvalue()


@pytest.mark.parametrize("transform", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_values_at_run_time(transform) -> None:
    shown = session("y['twice'] + 1\np x\npp [x]\nc\n", transform)
    assert "test_debugger.py" in shown and "(doubled)" in shown
    assert "7." in shown and "3." in shown and "Trace" not in shown


def test_commands() -> None:
    shown = session("a\nl\nu\nw\nd\nd\n\n1 / 0\nc\n")
    assert "x = 3.0" in shown and "-> " in shown and "debug.breakpoint(stdin=" in shown
    assert "(session)" in shown and "no frame further in" in shown and "ZeroDivisionError" in shown


def test_the_end_of_the_input_continues() -> None:
    assert "(doubled)" in session("")


def test_each_example_of_vmap() -> None:
    assert session("p x\nc\n", mgefn.vmap, np.arange(2.0)).count("(doubled)") == 2


def test_quit_and_errors() -> None:
    with pytest.raises(debugger.Quit, match="ended in the console"):
        session("q\n")
    with pytest.raises(errors.ArgumentError, match="backend"):
        debug.breakpoint(backend="web")
