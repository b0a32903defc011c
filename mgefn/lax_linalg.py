"""jax.lax.linalg's names, bound as `lax.linalg`.

Where `mgefn.numpy.linalg` has the same name, that function is another one with NumPy's signature:
there `eigh` gives eigenvalues first and `triangular_solve` has no counterpart.
"""

from mgefn.control.linalg.eigen import (
    EighImplementation,
    EigImplementation,
    eig,
    eig_p,
    eigh,
    eigh_p,
    schur,
    schur_p,
)
from mgefn.control.linalg.lu import (
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
)
from mgefn.control.linalg.qr import (
    householder_product,
    householder_product_p,
    qr,
    qr_p,
)
from mgefn.control.linalg.svd import SvdAlgorithm, svd, svd_p
from mgefn.control.linalg.triangular import (
    cholesky,
    cholesky_p,
    cholesky_update,
    symmetric_product,
    triangular_solve,
    triangular_solve_p,
)
from mgefn.control.linalg.tridiagonal import tridiagonal_solve, tridiagonal_solve_p

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
