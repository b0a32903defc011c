"""Programs as graphs."""

from __future__ import annotations

import re

import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, viz
from mgefn.errors import ArgumentError


def test_every_equation_and_value_is_drawn(tmp_path):
    def f(x, y):
        z = mgefn.jit(mnp.sin)(x) + y
        return lax.scan(lambda c, v: (c * v, c), 1.0, z)

    text = viz.draw_graph(f, mnp.ones(3), 2.0, path=tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == text
    assert text.count("{") == text.count("}")
    assert text.count("subgraph") == 2
    for name in ("jit sin", '"sin"', '"add"', '"mul"', '"scan"', "input f32[3]", "output f32[3]"):
        assert name in text, name
    # Each arrow joins nodes that are declared.
    declared = set(re.findall(r"^ *(\w+) \[label", text, re.M))
    arrows = re.findall(r"(\w+) -> (\w+)", text)
    assert arrows
    assert {node for arrow in arrows for node in arrow} <= declared


def test_constants_texts_and_jaxprs():
    kept = mnp.arange(3.0)
    jaxpr = mgefn.make_jaxpr(lambda x: x + kept)(kept)
    assert "constant f32[3]" in viz.draw_graph(jaxpr)
    assert viz._text('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'
    assert "output f32[]" in viz.draw_graph(lambda: mnp.float32(2))
    with pytest.raises(ArgumentError, match="needs a function or a jaxpr, got 3"):
        viz.draw_graph(3)
