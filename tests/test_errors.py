"""The exception classes and the traceback filter."""

from __future__ import annotations

import pickle
import traceback

import numpy as np
import pytest

from mgefn import errors
from mgefn.config import config
from mgefn.dtypes import canonical
from mgefn.errors import api_boundary, user_frames_only
from mgefn.tree import map as tree_map

CLASSES = [
    getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)
]


@pytest.mark.parametrize("cls", CLASSES)
def test_classes_carry_their_message_and_survive_pickling(cls):
    assert issubclass(cls, errors.MgefnError)
    assert cls.__doc__
    copy = pickle.loads(pickle.dumps(cls("add: shapes differ")))
    assert type(copy) is cls
    assert str(copy) == "add: shapes differ"


@pytest.mark.parametrize(
    ("cls", "bases"),
    [
        (errors.ShapeError, (TypeError, ValueError)),
        (errors.InAxesError, (errors.ShapeError,)),
        (errors.DTypeError, (TypeError, ValueError)),
        (errors.OverflowDTypeError, (OverflowError,)),
        (errors.AxisError, (np.exceptions.AxisError, ValueError, IndexError)),
        (errors.IndexOutOfBoundsError, (IndexError,)),
        (errors.StaticArgumentError, (errors.ArgumentError, ValueError)),
        (errors.TreeError, (TypeError, ValueError)),
        (errors.TracerBoolConversionError, (errors.ConcretizationTypeError, TypeError)),
        (errors.NonConcreteBooleanIndexError, (errors.ConcretizationTypeError, IndexError)),
        (errors.UnsupportedError, (RuntimeError,)),
        (errors.DonatedBufferError, (RuntimeError,)),
        (errors.UnboundAxisError, (NameError,)),
    ],
)
def test_ported_programs_catch_the_types_they_know(cls, bases):
    assert all(issubclass(cls, base) for base in bases)


def test_axis_error_takes_numpys_arguments():
    error = errors.AxisError(3, 2)
    assert (error.axis, error.ndim) == (3, 2)
    assert "axis 3 is out of bounds" in str(error)


def files_of(exc):
    return [frame.filename for frame in traceback.extract_tb(exc.__traceback__)]


def inside_mgefn(name):
    return name.startswith(errors._PACKAGE)


def test_boundary_leaves_no_frame_of_mgefn():
    def user_function(x, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        api_boundary(tree_map)(user_function, (1,), (2,))
    assert files_of(caught.value) == [__file__, __file__]


def test_boundary_with_no_user_frame_below_shows_the_caller():
    with pytest.raises(errors.DTypeError, match="got 'nope'") as caught:
        api_boundary(canonical)("nope")
    assert files_of(caught.value) == [__file__]


def test_boundary_keeps_the_exception_its_cause_and_the_name():
    @api_boundary
    def load(x):
        """Doc."""
        raise ValueError("outer") from cause

    cause = OSError("inner")
    assert (load.__name__, load.__doc__) == ("load", "Doc.")
    with pytest.raises(ValueError, match="outer") as caught:
        load(1)
    assert caught.value.__cause__ is cause
    assert api_boundary(lambda x, *, y: (x, y))(1, y=2) == (1, 2)


def test_full_traceback_on_demand():
    with (
        config.override(traceback="full"),
        pytest.raises(errors.DTypeError, match="nope") as caught,
    ):
        api_boundary(canonical)("nope")
    assert any(inside_mgefn(name) for name in files_of(caught.value))
    before = caught.value.__traceback__
    with config.override(traceback="full"):
        assert user_frames_only(caught.value).__traceback__ is before


def raised(function, *args):
    try:
        function(*args)
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


def test_filter_treats_causes_and_groups_and_keeps_a_frame():
    inner = raised(canonical, "nope")
    inner.__traceback__ = inner.__traceback__.tb_next  # now of mgefn's frames only
    count = len(files_of(inner))
    assert count > 1
    assert all(inside_mgefn(name) for name in files_of(inner))
    member = raised(canonical, "nope")
    outer = ExceptionGroup("group", [member])
    outer.__cause__ = inner
    assert user_frames_only(outer) is outer
    assert len(files_of(inner)) == 1
    assert files_of(member) == [__file__]


def test_filter_ends_on_a_cycle():
    first, second = raised(canonical, "nope"), raised(canonical, "none")
    first.__cause__, second.__context__ = second, first
    user_frames_only(first)
    assert files_of(second) == [__file__]


def test_filter_accepts_an_exception_never_raised():
    assert user_frames_only(ValueError("x")).__traceback__ is None


def test_filter_keeps_the_line_numbers():
    exc = raised(canonical, "nope")
    line = exc.__traceback__.tb_lineno
    user_frames_only(exc)
    assert exc.__traceback__.tb_lineno == line
    assert exc.__traceback__.tb_next is None
