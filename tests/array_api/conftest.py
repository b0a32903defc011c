"""The oracle speaks the version of the standard that mgefn keeps to."""

from collections.abc import Iterator

import array_api_strict
import pytest


@pytest.fixture(scope="session", autouse=True)
def _version_of_the_oracle() -> Iterator[None]:
    with array_api_strict.ArrayAPIStrictFlags(api_version="2024.12"):
        yield
