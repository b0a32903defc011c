"""All specs, by the function's name."""

from __future__ import annotations

from tests.peers import (
    specs_elementwise,
    specs_lax,
    specs_linalg,
    specs_nn,
    specs_numpy,
    specs_random,
    specs_scipy,
    specs_types,
)
from tests.peers.frame import Spec

SPECS: dict[str, Spec] = {
    **specs_elementwise.NUMPY,
    **specs_numpy.NUMPY,
    **specs_numpy.FFT,
    **specs_types.NUMPY,
    **specs_lax.LAX,
    **specs_linalg.NUMPY,
    **specs_linalg.LAX,
    **specs_linalg.SCIPY,
    **specs_random.RANDOM,
    **specs_nn.NN,
    **specs_scipy.SPECIAL,
    **specs_scipy.STATS,
    **specs_scipy.OTHER,
}
