"""pytest's settings for tests/ and for the examples in mgefn's docstrings alike.

Stands at the root because a conftest.py inside tests/ is not seen by the doctests of mgefn/.
Imports nothing heavy beside pytest: collecting must stay quick.
"""

import getpass
import os
import tempfile

import pytest

# Compiled code of tests stays out of the user's cache, and serves the next run and all workers.
os.environ.setdefault(
    "MGEFN_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"mgefn-tests-{getpass.getuser()}")
)

OPT_IN = {
    "gpu": "run the tests that need an NVIDIA GPU and CuPy; they fail where these are absent",
    "network": "run the tests that need the internet",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, purpose in OPT_IN.items():
        parser.addoption(f"--{name}", action="store_true", default=False, help=purpose)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in OPT_IN:
        if config.getoption(f"--{name}"):
            continue
        skip = pytest.mark.skip(reason=f"runs with --{name} only")
        for item in items:
            if item.get_closest_marker(name):
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest) -> None:
    """Docstring examples use `mgefn`, `mnp` and `np` without importing them."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    import numpy as np

    import mgefn

    names = request.getfixturevalue("doctest_namespace")
    names.update(mgefn=mgefn, mnp=mgefn.numpy, np=np)
