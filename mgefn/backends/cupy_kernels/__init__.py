"""Kernels of the CuPy backend, one file a family, as in `numpy_kernels/`."""
