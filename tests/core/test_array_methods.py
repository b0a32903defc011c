"""Every method and operator of arrays finds its function."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
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


COPIES = {
    "mnp.copy": mnp.copy,
    "mnp.array": mnp.array,
    "mnp.asarray with copy": lambda x: mnp.asarray(x, copy=True),
    "mnp.asarray with copy and dtype": lambda x: mnp.asarray(x, x.dtype, copy=True),
    "x.copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_copy_outlives_the_donation_of_the_other(how, size):
    double = mgefn.jit(lambda x: x * 2, donate_argnums=0)
    x = mnp.full(size, 3.0, "float32")
    kept = COPIES[how](x)
    assert kept is not x
    assert kept.aval == x.aval
    for _ in range(12):  # the way in changes after some calls
        y = double(x)
        with pytest.raises(mgefn.errors.DonatedBufferError):
            x + 1
        np.testing.assert_array_equal(y, np.full(size, 6.0))
        np.testing.assert_array_equal(kept, np.full(size, 3.0))
        x = COPIES[how](kept)
    with pytest.raises(mgefn.errors.DonatedBufferError, match="was donated"):
        gone = mnp.ones(3)
        double(gone)
        COPIES[how](gone)


def test_copies_keep_what_an_array_knows():
    key = mgefn.random.key(0)
    assert key.copy().dtype == key.dtype
    weak = mnp.asarray(2.0)
    assert weak.copy().aval.weak_type
    assert (weak.copy() * mnp.ones(2, "float16")).dtype == np.float16
    assert mgefn.jit(lambda x: mnp.copy(x) + x.copy())(1.0) == 2
    np.testing.assert_array_equal(mgefn.grad(lambda x: mnp.copy(x).sum())(mnp.ones(2)), [1, 1])
