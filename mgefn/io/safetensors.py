"""The safetensors format: a table in JSON, then the bytes of the arrays.

A file is 8 bytes with the length of the table (little endian), the table, and one block of bytes.
The table gives for each name its dtype, shape and place in the block, and under `__metadata__` a
map of texts. Nothing in it can be executed. Every place is checked against the block before an
array is made of it.

Source: the format's description, huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from mgefn.errors import DTypeError, FileFormatError

DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "C64": np.dtype(np.complex64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
METADATA = "__metadata__"
MAX_TABLE = 100_000_000  # bytes; the format's own limit


def layout(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """The table without metadata. Wide elements come first, so that all are aligned."""
    table: dict[str, dict[str, Any]] = {}
    place = 0
    for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
        a = arrays[name]
        if a.dtype not in NAMES:
            raise DTypeError(
                f"save: the format has no dtype {a.dtype}, of {name!r}. Cast it, or use io.save."
            )
        end = place + a.nbytes
        table[name] = {
            "dtype": NAMES[a.dtype],
            "shape": list(a.shape),
            "data_offsets": [place, end],
        }
        place = end
    return table


def blocks(arrays: Mapping[str, np.ndarray], table: Iterable[str]) -> list[memoryview]:
    """The bytes of the arrays in the order of the table."""
    flat = (np.ascontiguousarray(arrays[name]).reshape(-1) for name in table)
    # bfloat16 and float8 arrays give no buffer of their own; as bytes they do.
    return [a.view(np.uint8).data for a in flat]


def header(table: Mapping[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    """The length and the table, padded so that the arrays begin at a multiple of 8."""
    whole = {METADATA: dict(metadata), **table} if metadata else dict(table)
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse(data: Any, what: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays, read-only views of `data`, and the metadata of a file's bytes.

    Raises:
        FileFormatError: the bytes are not a whole file of the format.
    """
    view = memoryview(data)

    def damaged(why: str) -> FileFormatError:
        return FileFormatError(f"{what}: needs a whole safetensors file, {why}. Use another copy.")

    size = int.from_bytes(view[:8], "little")
    if len(view) < 8 or size > min(MAX_TABLE, len(view) - 8):
        raise damaged(f"got {len(view)} bytes, too few for its table")
    try:
        whole = json.loads(bytes(view[8 : 8 + size]).decode())
        metadata = whole.pop(METADATA, {})
        rows = [
            (
                name,
                DTYPES[row["dtype"]],
                tuple(map(_size, row["shape"])),
                *_offsets(row["data_offsets"]),
            )
            for name, row in whole.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise damaged(f"got a table that cannot be read ({type(exc).__name__}: {exc})") from None
    block = view[8 + size :]
    place = 0
    arrays: dict[str, np.ndarray] = {}
    for name, dtype, shape, start, end in sorted(rows, key=lambda row: (row[3], row[4])):
        if start != place or end - start != math.prod(shape) * dtype.itemsize:
            raise damaged(f"got the place {start}:{end} for {name!r}, {dtype}{list(shape)}")
        if end > len(block):
            raise damaged(f"got {len(block)} bytes of arrays, and {name!r} ends at {end}")
        piece = np.frombuffer(block[start:end], np.uint8)
        if (start + 8 + size) % dtype.itemsize:
            piece = piece.copy()  # another writer's file, not aligned
        a = piece.view(dtype).reshape(shape)
        a.flags.writeable = False
        arrays[name] = a
        place = end
    if place != len(block):
        raise damaged(f"got {len(block)} bytes of arrays, {place} by the table")
    if not isinstance(metadata, dict):
        raise damaged("got metadata that is no map")
    return arrays, metadata


def _size(n: Any) -> int:
    if type(n) is not int or n < 0:
        raise ValueError(f"{n!r} is no size")
    return n


def _offsets(pair: Any) -> tuple[int, int]:
    start, end = map(_size, pair)
    return start, end
