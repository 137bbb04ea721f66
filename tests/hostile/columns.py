"""Columns that no honest writer writes, by name: what Arrow, polars and CatBoost stumble over."""

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

_LEAST, _MOST = -(2**63) + 1, 2**63 - 1


def _constant(value: Any, kind: pa.DataType) -> Callable[[int], pa.Array]:
    return lambda rows: pa.array([value] * rows, kind)


def _numbers(values: list[int], kind: pa.DataType) -> Callable[[int], pa.Array]:
    """Return values that no calendar holds, put into the type by their bits."""

    def make(rows: int) -> pa.Array:
        width = np.int32 if kind.bit_width == 32 else np.int64
        bits = pa.array(np.resize(np.array(values, dtype=width), rows))
        return bits.view(kind)

    return make


def _bytes(content: bytes, kind: pa.DataType) -> Callable[[int], pa.Array]:
    """Return text of these bytes, whether or not they are UTF-8."""

    def make(rows: int) -> pa.Array:
        wide = kind == pa.large_string()
        offsets = np.arange(rows + 1, dtype=np.int64 if wide else np.int32) * len(content)
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content * rows)]
        return pa.Array.from_buffers(kind, rows, buffers)

    return make


def _encoded(content: bytes) -> Callable[[int], pa.Array]:
    def make(rows: int) -> pa.Array:
        codes = pa.array(np.zeros(rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(codes, _bytes(content, pa.string())(1))

    return make


def _mixed(values: list[Any], kind: pa.DataType | None = None) -> Callable[[int], pa.Array]:
    return lambda rows: pa.array([values[row % len(values)] for row in range(rows)], kind)


def _distinct(rows: int) -> pa.Array:
    return pa.array([f"person-{row}" for row in range(rows)])


MAKERS: dict[str, Callable[[int], pa.Array]] = {
    "timestamp-us-least": _numbers([_LEAST], pa.timestamp("us")),
    "timestamp-us-most": _numbers([_MOST], pa.timestamp("us")),
    "timestamp-ns-most": _numbers([_MOST], pa.timestamp("ns")),
    "timestamp-zone-unknown": _numbers([0, 1], pa.timestamp("us", "Mars/Olympus")),
    "date-most": _numbers([2**31 - 1], pa.date32()),
    "date-in-milliseconds": _numbers([86_400_000 * 10**9], pa.date64()),
    "time-beyond-a-day": _numbers([2**31 - 1], pa.time32("ms")),
    "duration-most": _numbers([_MOST], pa.duration("us")),
    "decimal-widest": _constant(decimal.Decimal("9" * 38), pa.decimal128(38, 0)),
    "decimal-fraction": _constant(decimal.Decimal("0.1"), pa.decimal128(38, 38)),
    "decimal-256": _constant(decimal.Decimal("9" * 70), pa.decimal256(76, 0)),
    "not-utf-8": _bytes(b"\xff\xfe", pa.string()),
    "not-utf-8-encoded": _encoded(b"\xf0\x28\x8c\x28"),
    "surrogate": _bytes(b"\xed\xa0\x80", pa.string()),
    "control-characters": _constant("\x1b]0;owned\x07\x00", pa.string()),
    "long-text": _constant("x" * (1 << 17), pa.string()),
    "distinct-words": _distinct,
    "binary": _constant(b"\x00\xff", pa.binary()),
    "binary-fixed": _constant(b"\x00" * 16, pa.binary(16)),
    "uuid": _constant(uuid.UUID(int=1).bytes, pa.uuid()),
    "list": _constant([1, 2], pa.list_(pa.int64())),
    "struct-of-split": _constant({"split": "train"}, pa.struct({"split": pa.string()})),
    "map": _constant([("a", 1)], pa.map_(pa.string(), pa.int64())),
    "null": _constant(None, pa.null()),
    "all-null-number": _constant(None, pa.float64()),
    "half-floats": _constant(np.float16(0.5), pa.float16()),
    "not-a-number": _constant(float("nan"), pa.float64()),
    "infinite": _mixed([float("inf"), float("-inf")]),
    "beyond-float32": _constant(1e300, pa.float64()),
    "fractions": _mixed([0.25, 0.75]),
    "integer-most": _constant(_MOST, pa.int64()),
    "unsigned-most": _constant(2**64 - 1, pa.uint64()),
    "truth-values": _mixed([True, False, None]),
    "dates": _mixed([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
}
"""Names of the columns, and how to make them of a number of rows."""
