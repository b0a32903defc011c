"""What every test shares: hypothesis profiles and NumPy's print options.

Imports neither mgefn nor anything heavy, so that `pytest --collect-only` of one file is quick.
"""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

# No deadline: the first call of a function traces and compiles it, which says nothing about the
# property. print_blob: a failure on another machine can be replayed with @reproduce_failure.
settings.register_profile("dev", deadline=None, print_blob=True, max_examples=30)
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=60)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


# Kernels are compiled once, for speed: that code is what runs longest in use and is tested most.
# tests/compiler/test_tiers.py is about the code that is made in a hurry.
os.environ.setdefault("MGEFN_TIERED_COMPILATION", "0")


@pytest.fixture(autouse=True)
def _numpy_print_options() -> Iterator[None]:
    """A test that changes how arrays print does not change what the next one prints."""
    with np.printoptions():
        yield
