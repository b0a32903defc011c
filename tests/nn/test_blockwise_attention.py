"""dot_product_attention a block of queries at a time is the one that takes all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn import errors, nn

rng = np.random.default_rng(3)
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "window and lengths": {
        "local_window_size": 2,
        "key_value_seq_lengths": np.array([3, 6]),
        "query_seq_lengths": np.array([9, 4]),
    },
}
BIASES = {"none": None, "full": (1, 4, 9, 6), "of keys": (2, 1, 1, 6), "of queries": (2, 4, 9, 1)}


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_blocks(setting: str, bias: str) -> None:
    q, k, v = (rng.standard_normal(s) for s in ((2, 9, 4, 3), (2, 6, 2, 3), (2, 6, 2, 3)))
    shape = BIASES[bias]
    added = None if shape is None else rng.standard_normal(shape)
    mask = rng.random((2, 1, 9, 6)) < 0.8

    def attend(q: Any, k: Any, v: Any, size: int | None) -> Any:
        return nn.dot_product_attention(
            q, k, v, added, mask, block_size=size, return_residual=True, **SETTINGS[setting]
        )

    whole = attend(q, k, v, None)
    for size in (1, 4, 9, 20):
        for got, want in zip(attend(q, k, v, size), whole, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)

    def total(q: Any, k: Any, v: Any, size: int | None) -> Any:
        return (attend(q, k, v, size)[0] ** 2).sum()

    wanted = mgefn.grad(total, argnums=(0, 1, 2))(q, k, v, None)
    in_blocks = mgefn.jit(mgefn.grad(lambda *a: total(*a, 4), argnums=(0, 1, 2)))(q, k, v)
    for got, want in zip(in_blocks, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_memory_of_a_compiled_gradient_does_not_grow_by_the_square() -> None:
    def peak(t: int, size: int | None) -> int:
        x = np.ones((t, 1, 4), np.float32)
        loss = mgefn.grad(lambda x: nn.dot_product_attention(x, x, x, block_size=size).sum())
        return mgefn.jit(loss).lower(x).compile().memory_analysis().temp_size_in_bytes

    whole, blocks = peak(512, None), peak(512, 16)
    assert whole > 512 * 512 * 4
    assert blocks < 512 * 512 * 4 / 2


def test_block_size_must_be_positive() -> None:
    x = np.ones((2, 1, 4), np.float32)
    with pytest.raises(errors.ArgumentError, match="block_size must be 1 or more"):
        nn.dot_product_attention(x, x, x, block_size=0)
