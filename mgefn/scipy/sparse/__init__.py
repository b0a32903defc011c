"""Sparse solvers under scipy.sparse's names."""

from __future__ import annotations

from mgefn.scipy.sparse import linalg as linalg
