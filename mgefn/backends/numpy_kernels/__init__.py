"""The kernels of the NumPy backend, one file a family; the table is `numpy_cpu.py`."""
