"""Every method and operator of arrays finds its function."""

import re
from pathlib import Path

import numpy as np
import pytest

import mgefn
from mgefn.core import array_methods
from mgefn.core.array_methods import METHODS


def test_every_key_is_filled() -> None:
    source = Path(array_methods.__file__).read_text(encoding="utf-8")
    keys = set(re.findall(r'METHODS\["(\w+)"\]', source))
    assert len(keys) > 50
    assert sorted(keys - METHODS.keys()) == []


@pytest.mark.parametrize("ufunc", ["add", "divide", "absolute", "conjugate", "logaddexp"])
def test_numpy_ufuncs_find_their_function(ufunc: str) -> None:
    fn = getattr(np, ufunc)
    x = mgefn.numpy.array([1.0, -2.0])
    got = fn(*[x] * fn.nin)
    assert isinstance(got, mgefn.Array)
    np.testing.assert_allclose(got, fn(*[np.asarray(x)] * fn.nin), rtol=1e-6)
