"""Clustering under scipy.cluster's names."""

from __future__ import annotations

from mgefn.scipy.cluster import vq as vq
