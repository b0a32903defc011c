"""State, averages, stopping, loggers, event files."""

from __future__ import annotations

import csv
import io as python_io
import math
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

import mgefn
import mgefn.numpy as mnp
from mgefn import optim, random, training
from mgefn.errors import ArgumentError, ShapeError, UnsupportedError
from mgefn.training import tensorboard as tb

# -- state, averages, stopping --------------------------------------------------------------------


def test_train_state_is_a_value():
    state = training.TrainState.create(
        {"w": mnp.ones(2)}, optim.sgd(0.1, momentum=0.5), key=random.key(3), apply_fn=mnp.sin
    )
    step = mgefn.jit(lambda s, g: s.apply_gradients(g, state={"seen": s.step}))
    one = step(state, {"w": mnp.array([1.0, 2.0])})
    two = step(one, {"w": mnp.array([1.0, 2.0])})
    assert int(state.step) == 0
    assert int(two.step) == 2
    assert int(two.state["seen"]) == 1
    np.testing.assert_allclose(two.params["w"], 1 - 0.1 * np.array([2.5, 5.0]), rtol=1e-6)
    assert two.apply_fn is mnp.sin
    keys = [random.key_data(s.step_key()).tolist() for s in (state, one, two)]
    assert keys[0] != keys[1] != keys[2]
    assert keys[1] == random.key_data(random.fold_in(random.key(3), 1)).tolist()
    with pytest.raises(ArgumentError, match="tx must be an optimizer, got int"):
        training.TrainState.create({}, 3)
    with pytest.raises(ArgumentError, match="needs tx"):
        training.TrainState(params={}).apply_gradients({})


def test_ema_is_the_weighted_mean():
    xs = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    params = {"w": mnp.zeros(3), "n": mnp.array(0), "h": mnp.zeros(2, "bfloat16")}
    ema = training.EMA.create(params, decay=0.8)
    assert mgefn.tree.map(lambda v: v.tolist(), ema.value())["w"] == [0, 0, 0]
    update = mgefn.jit(lambda e, p: e.update(p))
    for n, x in enumerate(xs):
        ema = update(ema, {"w": mnp.array(x), "n": mnp.array(n), "h": mnp.full(2, n, "bfloat16")})
    weights = 0.8 ** np.arange(5, -1, -1)
    value = ema.value()
    np.testing.assert_allclose(value["w"], weights @ xs / weights.sum(), rtol=1e-5)
    assert int(value["n"]) == 5
    assert value["h"].dtype == mnp.bfloat16
    assert ema.average["h"].dtype == np.float32
    warm = training.EMA.create(params, 0.999, warmup=True)
    assert float(warm.update(params).weight) == pytest.approx(0.9)
    with pytest.raises(ArgumentError, match=r"decay must be in \[0, 1\)"):
        training.EMA.create(params, 1.0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "complex64"])
def test_an_average_stays_when_params_are_donated(dtype):
    params = {"w": mnp.ones(3, dtype), "n": mnp.arange(3), "key": random.key(1)}
    step = mgefn.jit(
        lambda p: {"w": 2 * p["w"], "n": p["n"] + 1, "key": random.fold_in(p["key"], 1)},
        donate_argnums=0,
    )
    ema = training.EMA.create(params, decay=0.5)
    params = step(params)  # the first params are gone
    start = ema.value()
    assert start["w"].dtype == dtype
    np.testing.assert_array_equal(start["w"], np.ones(3))
    np.testing.assert_array_equal(start["n"], np.arange(3))
    for _ in range(2):
        ema = ema.update(params)
        before, params = params, step(params)
        with pytest.raises(mgefn.errors.DonatedBufferError):
            before["w"] + 1
    value = ema.value()
    np.testing.assert_allclose(
        np.asarray(value["w"], complex), np.full(3, (0.25 * 2 + 0.5 * 4) / 0.75), rtol=1e-2
    )
    np.testing.assert_array_equal(value["n"], np.arange(3) + 2)
    mgefn.random.key_data(value["key"])


def test_params_and_average_are_donated_together():
    params = {"w": mnp.ones(3)}
    ema = training.EMA.create(params, decay=0.5)
    step = mgefn.jit(lambda p, e: (p, e.update(p)), donate_argnums=(0, 1))
    for _ in range(3):
        params, ema = step(mgefn.tree.map(lambda x: x * 2, params), ema)
    np.testing.assert_allclose(
        ema.value()["w"], np.full(3, (2 / 8 + 4 / 4 + 8 / 2) / 0.875), rtol=1e-6
    )
    shapes = mgefn.tree.structure(training.EMA.create(params, decay=0.5))
    assert mgefn.tree.structure(ema) == shapes


def test_early_stopping():
    stop = training.EarlyStopping(min_delta=0.1, patience=2)
    history = []
    for metric in [math.nan, 3.0, 2.95, 2.5, 2.5, mnp.array(9.0), math.nan, 1.0]:
        stop = stop.update(metric)
        history.append((stop.best_metric, stop.patience_count, stop.should_stop, stop.has_improved))
    assert history == [
        (math.inf, 1, False, False), (3.0, 0, False, True), (3.0, 1, False, False),
        (2.5, 0, False, True), (2.5, 1, False, False), (2.5, 2, False, False),
        (2.5, 3, True, False), (1.0, 0, True, True),
    ]  # fmt: skip
    assert stop.reset() == training.EarlyStopping(0.1, 2)


# -- loggers --------------------------------------------------------------------------------------


def rows(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def test_csv(tmp_path):
    path = tmp_path / "log" / "a.csv"
    with training.CSVLogger(path) as logger:
        logger.log(1, {"loss": mnp.float32(0.5)})
        logger.log(2, {"loss": 0.25, "test": {"acc": 1}})
        logger.log(3, {"test": {"acc": 0.5}})
    assert rows(path) == [
        {"step": "1", "loss": "0.5", "test/acc": ""},
        {"step": "2", "loss": "0.25", "test/acc": "1.0"},
        {"step": "3", "loss": "", "test/acc": "0.5"},
    ]
    with training.CSVLogger(path, resume_at=3) as logger:
        logger.log(3, {"loss": 7.0})
    assert [r["step"] for r in rows(path)] == ["1", "2", "3"]
    assert rows(path)[2]["loss"] == "7.0"
    # A row that was cut off by the end of the process.
    path.write_bytes(path.read_bytes() + b"4,1.")
    with training.CSVLogger(path) as logger:
        logger.log(5, {"loss": 1.0})
    assert [r["step"] for r in rows(path)] == ["1", "2", "3", "5"]
    assert [p.name for p in path.parent.iterdir()] == ["a.csv"]
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ArgumentError, match="must have a column 'step'"):
        training.CSVLogger(tmp_path / "b.csv")


def test_console():
    out = python_io.StringIO()
    logger = training.ConsoleLogger(every=2, file=out)
    for step in range(3):
        logger.log(step, {"loss [nats]": step / 3})
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("step 0")
    assert lines[1].endswith("loss [nats] 0.6667")
    with pytest.raises(ArgumentError, match=r"'loss' must be one number, got shape \[2\]"):
        logger.log(1, {"loss": mnp.ones(2)})
    with pytest.raises(ArgumentError, match="needs numbers by name, got list"):
        logger.log(1, [])


def test_progress():
    out = python_io.StringIO()
    assert list(training.progress(iter("abc"), "letters", 3, file=out)) == ["a", "b", "c"]
    assert out.getvalue() in ("", "\n")  # no terminal, no bar
    with pytest.raises(TypeError, match="not iterable"):
        training.progress(3)


# -- event files ----------------------------------------------------------------------------------


def test_crc32c_vectors():
    """RFC 3720, appendix B.4, and the check value of the catalogue of CRCs."""
    assert tb.crc32c(bytes(32)) == 0x8A9136AA
    assert tb.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert tb.crc32c(bytes(range(32))) == 0x46DD794E
    assert tb.crc32c(b"123456789") == 0xE3069283
    assert tb.crc32c(b"") == 0


def read_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        n |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return n, at


def fields(data):
    """The fields of a message, by number: a decoder that shares nothing with the encoder."""
    found, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value = struct.unpack({1: "<d", 5: "<f"}[kind], data[at : at + size])[0]
            at += size
        found.setdefault(tag >> 3, []).append(value)
    assert at == len(data)
    return found


def events(path):
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + size]
        checks = struct.unpack("<I", data[8:12]) + struct.unpack("<I", data[12 + size : 16 + size])
        assert checks == (tb.masked(tb.crc32c(data[:8])), tb.masked(tb.crc32c(body)))
        found.append(fields(body))
        data = data[16 + size :]
    return found


def test_event_files(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    with mgefn.SummaryWriter(tmp_path) as writer, mgefn.SummaryWriter(tmp_path) as other:
        assert writer.path != other.path
        writer.scalar("loss", mnp.float32(0.5), 300)
        writer.scalar("low", -math.inf, 0)
        writer.scalar("high", 1e300, 2**40)
        writer.text("note", "grüße", 3)
        writer.histogram("h", mnp.array([1.0, 2.0, 4.0, mnp.nan]), 4, bins=3)
        writer.histogram("none", mnp.zeros(0), 4)
        writer.image("im", image, 5)
        writer.image("gray", np.array([[0.0, 1.0, 7.0]]), 5)
        with pytest.raises(ShapeError, match=r"got shape \[2, 2, 2\]"):
            writer.image("bad", np.zeros((2, 2, 2)), 5)
        with pytest.raises(ArgumentError, match="a tag must be a text, got 3"):
            writer.scalar(3, 1.0, 0)
    with pytest.raises(ArgumentError, match="is closed"):
        writer.scalar("late", 1.0, 0)
    first, *rest = events(writer.path)
    assert first[3] == [b"brain.Event:2"]
    values = {}
    for event in rest:
        (value,) = map(fields, fields(event[5][0])[1])
        values[value[1][0].decode()] = event.get(2, [0])[0], value
    assert {k: (s, v[2]) for k, (s, v) in values.items() if 2 in v} == {
        "loss": (300, [0.5]), "low": (0, [-math.inf]), "high": (2**40, [math.inf]),
    }  # fmt: skip
    tensor = fields(values["note"][1][8][0])
    assert (tensor[1], tensor[8]) == ([7], ["grüße".encode()])
    histogram = fields(values["h"][1][5][0])
    assert [histogram[i][0] for i in range(1, 6)] == [1, 4, 3, 7, 21]
    assert np.frombuffer(histogram[6][0]).tolist() == [2, 3, 4]
    assert np.frombuffer(histogram[7][0]).tolist() == [1, 1, 1]
    assert fields(values["none"][1][5][0])[3] == [0]
    kept = fields(values["im"][1][4][0])
    assert [kept[i][0] for i in (1, 2, 3)] == [4, 6, 3]
    assert np.array_equal(np.asarray(Image.open(python_io.BytesIO(kept[4][0]))), image)
    gray = Image.open(python_io.BytesIO(fields(values["gray"][1][4][0])[4][0]))
    assert np.asarray(gray).tolist() == [[0, 255, 255]]


def test_the_decoder_notices_a_damaged_file(tmp_path):
    with mgefn.SummaryWriter(tmp_path) as writer:
        writer.scalar("x", 1.0, 1)
    data = bytearray(writer.path.read_bytes())
    data[-6] ^= 1
    writer.path.write_bytes(data)
    with pytest.raises(AssertionError):
        events(writer.path)
    assert zlib.crc32(b"123456789") != tb.crc32c(b"123456789")


def test_several_loggers(tmp_path):
    both = training.MultiLogger(
        training.TensorBoardLogger(tmp_path / "tb"), training.CSVLogger(tmp_path / "a.csv")
    )
    with both:
        both.log(3, {"a": {"b": 2.0}})
    assert rows(tmp_path / "a.csv") == [{"step": "3", "a/b": "2.0"}]
    (path,) = (tmp_path / "tb").iterdir()
    assert len(events(path)) == 2


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    for make in (training.ConsoleLogger, lambda: list(training.progress([1]))):
        with pytest.raises(UnsupportedError, match="needs the package rich"):
            make()
