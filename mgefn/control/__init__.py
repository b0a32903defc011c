"""Primitives that hold programs."""
