"""The memory plan: values that live at once never share bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mgefn.compiler import arena

lifetimes = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 5000)).map(
        lambda t: arena.Lifetime(t[0], t[0] + t[1], t[2])
    ),
    max_size=40,
)


def overlaps(a: arena.Block, b: arena.Block) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def check_plan(lives, blocks, total):
    for i, (x, p) in enumerate(zip(lives, blocks, strict=True)):
        assert p.size >= x.size
        assert p.offset % arena.ALIGNMENT == 0
        assert p.offset + p.size <= total
        for y, q in zip(lives[:i], blocks[:i], strict=True):
            if x.first <= y.last and y.first <= x.last:
                assert not overlaps(p, q), (x, p, y, q)


@settings(max_examples=300, deadline=None)
@given(lifetimes)
def test_values_alive_together_do_not_overlap(lives):
    blocks, total = arena.plan(lives)
    check_plan(lives, blocks, total)
    assert total <= sum(arena.aligned_size(x.size) for x in lives)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 4))
def test_a_chain_reuses_its_blocks(n, width):
    lives = [arena.Lifetime(t, t + width, 1000) for t in range(n)]
    _, total = arena.plan(lives)
    assert total <= (width + 1) * arena.aligned_size(1000)


def test_the_checker_sees_an_overlap():
    lives = [arena.Lifetime(0, 5, 100), arena.Lifetime(3, 6, 100)]
    try:
        check_plan(lives, [arena.Block(0, 128), arena.Block(64, 128)], 192)
    except AssertionError:
        return
    raise AssertionError("an overlap passed")


def test_nothing_to_plan():
    assert arena.plan([]) == ([], 0)
