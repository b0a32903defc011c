"""Event files that TensorBoard reads, written without it.

A file is a row of records: length, checksum of the length, data, checksum of the data. The data is
a protocol buffer message `Event`; the few fields that are used are encoded here by hand.

Source: TensorFlow's record format, tensorflow.org/tutorials/load_data/tfrecord; protocol buffers'
encoding, protobuf.dev/programming-guides/encoding; CRC-32C, RFC 3720 appendix B.4.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mgefn.errors import ArgumentError, ShapeError

# -- checksums ------------------------------------------------------------------------------------


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)  # Castagnoli's polynomial, reversed
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The CRC-32C of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """The form in which records keep a checksum, so that checksums of checksums differ."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A record of a file."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        [
            length,
            struct.pack("<I", masked(crc32c(length))),
            data,
            struct.pack("<I", masked(crc32c(data))),
        ]
    )


# -- protocol buffers -----------------------------------------------------------------------------


def varint(n: int) -> bytes:
    n &= (1 << 64) - 1  # negative numbers take their two's complement
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def integer(field: int, n: int) -> bytes:
    return varint(field << 3) + varint(n)


def double(field: int, x: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", x)


def single(field: int, x: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", x)


def message(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def doubles(field: int, values: np.ndarray) -> bytes:
    return message(field, values.astype("<f8").tobytes())


def png(image: np.ndarray) -> bytes:
    """An image (height, width, 1, 3 or 4) of uint8 as the bytes of a PNG file."""
    h, w, c = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = np.zeros((h, 1 + w * c), np.uint8)  # each begins with 0: no filter
    rows[:, 1:] = image.reshape(h, w * c)
    head = struct.pack(">IIBBBBB", w, h, 8, {1: 0, 3: 2, 4: 6}[c], 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(rows.tobytes())),
            chunk(b"IEND", b""),
        ]
    )


# -- the writer -----------------------------------------------------------------------------------


class SummaryWriter:
    """Writes numbers, texts, histograms and images for TensorBoard.

    Args:
        log_dir: a folder, made where it is absent; a new file in it.
        auto_flush: bring every event to the file at once.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mgefn.SummaryWriter(folder.name) as writer:
        ...     writer.scalar("loss", 0.5, step=1)
        >>> folder.cleanup()
    """

    def __init__(self, log_dir: Any, auto_flush: bool = True) -> None:
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
        self._lock = threading.Lock()
        self._auto_flush = auto_flush
        for number in range(10_000):  # several writers of a process within a second
            try:
                self._file = open(folder / f"{name}.{number}", "xb")
                break
            except FileExistsError:
                continue
        else:
            raise ArgumentError(f"SummaryWriter: {folder} is full of event files. Use another.")
        self.path = Path(self._file.name)
        self._write(double(1, now) + message(3, "brain.Event:2"))

    def _write(self, event: bytes) -> None:
        if self._file.closed:
            raise ArgumentError("SummaryWriter: is closed. Make another.")
        with self._lock:
            self._file.write(record(event))
            if self._auto_flush:
                self._file.flush()

    def _value(self, tag: str, step: int, value: bytes) -> None:
        if not isinstance(tag, str):
            raise ArgumentError(f"SummaryWriter: a tag must be a text, got {tag!r}.")
        summary = message(1, message(1, tag) + value)
        event = double(1, time.time()) + integer(2, int(step)) + message(5, summary)
        self._write(event)

    def scalar(self, tag: str, value: Any, step: int) -> None:
        """A number: value is one, or an array of one element."""
        self._value(tag, step, single(2, _float32(value)))

    def text(self, tag: str, textdata: str, step: int) -> None:
        """A text, which TensorBoard shows as Markdown."""
        tensor = integer(1, 7) + message(2, b"") + message(8, textdata)  # a scalar of strings
        metadata = message(1, message(1, "text"))
        self._value(tag, step, message(9, metadata) + message(8, tensor))

    def histogram(self, tag: str, values: Any, step: int, bins: int = 30) -> None:
        """How values are spread. Those that are not finite are left out.

        Args:
            values: an array of numbers.
            bins: how many intervals of equal width.
        """
        x = np.asarray(values, np.float64).reshape(-1)
        x = x[np.isfinite(x)]
        counts, edges = np.histogram(x, bins) if x.size else (np.zeros(1), np.zeros(2))
        low, high = (x.min(), x.max()) if x.size else (0.0, 0.0)
        parts = [
            double(1, low),
            double(2, high),
            double(3, x.size),
            double(4, x.sum()),
            double(5, np.square(x).sum()),
            doubles(6, edges[1:]),
            doubles(7, counts),
        ]
        self._value(tag, step, message(5, b"".join(parts)))

    def image(self, tag: str, image: Any, step: int) -> None:
        """An image.

        Args:
            image: (height, width) or (height, width, 1, 3 or 4); uint8, or floats in [0, 1].
        """
        x = np.asarray(image)
        x = x[..., None] if x.ndim == 2 else x
        if x.ndim != 3 or x.shape[-1] not in (1, 3, 4) or 0 in x.shape:
            raise ShapeError(
                f"SummaryWriter.image: needs (height, width, 1, 3 or 4), got shape "
                f"{list(np.shape(image))}."
            )
        if x.dtype != np.uint8:
            x = np.rint(np.clip(x.astype(np.float64), 0, 1) * 255).astype(np.uint8)
        h, w, c = x.shape
        parts = integer(1, h) + integer(2, w) + integer(3, c) + message(4, png(x))
        self._value(tag, step, message(4, parts))

    def flush(self) -> None:
        """Bring everything to the file."""
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _float32(value: Any) -> float:
    x = float(np.asarray(value, np.float64).reshape(()))
    with np.errstate(over="ignore"):
        return float(np.float32(x))  # too large becomes infinite, which struct would refuse
