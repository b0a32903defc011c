"""Linear algebra under scipy.linalg's names.

Beyond `mgefn.numpy.linalg`: factors that are kept and solved with, functions of matrices, special
matrices. Arguments that only save memory or look at values in SciPy (overwrite_a, check_finite) are
accepted and do nothing. What does not exist is NaN.

Sources: Higham, Functions of Matrices, SIAM 2008 (exponential, square root, Parlett's recurrence);
Bartels, Stewart (1972), Commun. ACM 15(9), 820-826, doi:10.1145/361573.361582 (Sylvester).
"""

from __future__ import annotations

from mgefn.scipy.linalg.decompositions import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    eigh,
    eigh_tridiagonal,
    hessenberg,
    inv,
    lu,
    lu_factor,
    lu_solve,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    svd,
)
from mgefn.scipy.linalg.functions import expm, expm_frechet, funm, sqrtm
from mgefn.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from mgefn.scipy.linalg.systems import solve, solve_sylvester
from mgefn.scipy.linalg.triangular import solve_triangular

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "convolution_matrix",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "leslie",
    "lu",
    "lu_factor",
    "lu_solve",
    "pascal",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]
