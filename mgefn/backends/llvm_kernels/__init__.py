"""Lowerings of the native CPU backend: how a primitive becomes LLVM instructions."""
