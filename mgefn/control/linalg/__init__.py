"""Decompositions of matrices and systems of linear equations, one file for each kind.

Every operand is a stack: leading dimensions are a batch, which kernels take whole. float32,
float64, complex64 and complex128 only. A decomposition that does not exist (Cholesky's of an
indefinite matrix), or that LAPACK gives up on, is NaN instead of an exception, so that programs can
be traced.
"""
