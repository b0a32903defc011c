"""The logger: the console, a file, levels."""

from __future__ import annotations

import io
import logging

import pytest

import mgefn
from mgefn import logger
from mgefn.errors import ArgumentError


@pytest.fixture(autouse=True)
def as_before():
    root = logging.getLogger("mgefn")
    kept = root.level, list(root.handlers), root.propagate
    yield
    logger.set_log_file(None)
    root.setLevel(kept[0])
    root.handlers[:], root.propagate = kept[1], kept[2]


def test_lines_go_to_the_file_and_the_one_after(tmp_path):
    log = logger.get_logger("train")
    assert log.name == "mgefn.train"
    assert logger.get_logger() is logging.getLogger("mgefn")
    for name in ("a.log", "b.log"):
        logger.set_log_file(tmp_path / name)
        log.info("in %s", name)
    text = io.StringIO()
    logger.set_log_file(text)
    log.warning("in a text")
    logger.set_log_file(None)
    log.info("nowhere")
    assert [
        (tmp_path / n).read_text().count("INFO mgefn.train: in") for n in ("a.log", "b.log")
    ] == [
        1,
        1,
    ]
    assert "WARNING mgefn.train: in a text\n" in text.getvalue()
    assert "nowhere" not in text.getvalue() + (tmp_path / "b.log").read_text()


def test_levels_and_one_console():
    logger.get_logger()
    logger.get_logger(formatter=logging.Formatter("short %(message)s"))
    consoles = [h for h in logger.get_logger().handlers if type(h) is logging.StreamHandler]
    assert len(consoles) == 1
    text = io.StringIO()
    consoles[0].setStream(text)
    before = logger.set_log_level("ERROR")
    mgefn.logger.get_logger("x").warning("hidden")
    mgefn.logger.get_logger("x").error("seen")
    assert text.getvalue() == "short seen\n"
    assert logger.set_log_level(before) == logging.ERROR


def test_bad_arguments(tmp_path):
    with pytest.raises(ArgumentError, match="a level of logging"):
        logger.set_log_level("LOUD")
    with pytest.raises(ArgumentError, match="mode must be 'a' or 'w', got 'r'"):
        logger.set_log_file(tmp_path / "a", "r")
    with pytest.raises(ArgumentError, match="name must be a text, got 3"):
        logger.get_logger(3)
