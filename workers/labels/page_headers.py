"""Sizes that the pages of a Parquet column say of themselves: a footer may say that they are small.

A page's header is a struct of Thrift's compact protocol, and so is a footer. They are read here
without any of a library's code, which may crash at a hostile one.
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

_SIZE, _COMPRESSED, _DATA, _DATA_V2, _VALUES = 2, 3, 5, 8, 1
"""Fields of a header, and the one of its inner structs that counts values."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_WHOLE = {4, 5, 6}
_DEEPEST, _LONGEST = 12, 10  # structs and lists in each other; bytes of a number
_MANY = 15
"""Length of a list that stands behind its first byte."""


def unpacked_sizes(chunk: memoryview, values: int) -> tuple[int, int]:
    """Return to how many bytes a column's pages unpack, and how many values they hold.

    Like Arrow, it reads pages until these hold `values`, which the footer says.

    Raises:
        ValueError: they have no headers that can be read.
    """
    place = size = held = 0
    while place < len(chunk) and held < values:
        try:
            header, place = read_struct(chunk, place)
            page, packed = header[_SIZE], header[_COMPRESSED]
            inner = header.get(_DATA) or header.get(_DATA_V2) or {_VALUES: 0}
            count = inner[_VALUES]
        except (LookupError, TypeError):
            raise ValueError("a page has no header") from None
        if min(page, packed, count) < 0:
            raise ValueError("a page has less than no bytes or values")
        place, size, held = place + packed, size + page, held + count
    return size, held


def read_struct(content: memoryview, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return a struct's fields by number, and where it ends. Text and numbers of floats are None.

    Raises:
        ValueError, LookupError: it is none.
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := content[place]:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = _whole(content, place)
        fields[number], place = _value(content, place, head & 15, depth)
    return fields, place + 1


def _value(content: memoryview, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _WHOLE:
        return _whole(content, place)
    if kind == _BINARY:
        length, place = _number(content, place)
        return None, place + length
    if kind == _STRUCT and depth < _DEEPEST:
        return read_struct(content, place, depth + 1)
    if kind in {_LIST, _SET} and depth < _DEEPEST:
        return _listed(content, place, depth + 1)
    lengths = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
    return None, place + lengths[kind]


def _listed(content: memoryview, place: int, depth: int) -> tuple[list[Any], int]:
    head, place = content[place], place + 1
    length, kind = head >> 4, head & 15
    if length == _MANY:
        length, place = _number(content, place)
    if kind in {_TRUE, _FALSE}:  # a byte each, here
        kind = _BYTE
    values = []
    for _ in range(length):
        value, place = _value(content, place, kind, depth)
        if place > len(content):
            raise ValueError("a list is longer than its content")
        values.append(value)
    return values, place


def _whole(content: memoryview, place: int) -> tuple[int, int]:
    number, place = _number(content, place)
    return (number >> 1) ^ -(number & 1), place


def _number(content: memoryview, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(_LONGEST):
        byte = content[place + shift]
        number |= (byte & 127) << (7 * shift)
        if byte < 128:
            return number, place + shift + 1
    raise ValueError("a number is too long")
