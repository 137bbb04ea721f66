"""Parquet files read byte range by byte range: each range once, digested, then decoded in memory.

Bytes are fetched patiently (`workers.lake.layout`); what cannot be decoded from them is damaged.
They are digested by BLAKE3, at six times the speed of SHA-256: every byte of every day is. Footers
are read in a contained process, since Arrow crashes at some.
"""

import bisect
import functools
import hashlib
import hmac
import io
import urllib.parse
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3
from numpy.typing import NDArray

from privcore.exceptions import is_failure
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import LabelFile, Lake

_LANES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class ContentDigest:
    """The digest of a set of entries, which adds as tallies do; `ContentDigest()` is that of none.

    LtHash: every entry is expanded to 1,024 numbers of 16 bits, and these are added (Bellare and
    Micciancio 1997, "A New Paradigm for Collision-Free Hashing"; Lewi et al. 2019, "Securing Update
    Propagation with Homomorphic Hashing", who put this size above 200 bits of security). A sum of
    ordinary digests would be easy to forge.
    """

    lanes: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(_LANES, np.uint16))

    @classmethod
    def of(cls, *parts: str | int | bytes) -> "ContentDigest":
        """Return the digest of one entry."""
        entry = hashlib.shake_256()
        for part in parts:
            plain = part if isinstance(part, bytes) else str(part).encode()
            word = type(part).__name__.encode() + b":" + plain
            entry.update(len(word).to_bytes(8, "little") + word)
        return cls(np.frombuffer(entry.digest(2 * _LANES), dtype="<u2").astype(np.uint16))

    def __add__(self, other: "ContentDigest") -> "ContentDigest":
        """Return the digest of both sets of entries."""
        return ContentDigest(self.lanes + other.lanes)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the digest of the same entries."""
        return isinstance(other, ContentDigest) and np.array_equal(self.lanes, other.lanes)

    __hash__ = None  # type: ignore[assignment]

    def hexdigest(self, key: bytes = b"") -> str:
        """Return 64 hexadecimal digits: under a key, HMAC-SHA256.

        Without the key, a reader who knows all entries but one can try that one's values.
        """
        content = self.lanes.astype("<u2").tobytes()
        if key:
            return hmac.new(key, content, hashlib.sha256).hexdigest()
        return hashlib.sha256(content).hexdigest()


_SIZE, _COMPRESSED, _DATA, _DATA_V2, _VALUES = 2, 3, 5, 8, 1
"""Fields of a header, and the one of its inner structs that counts values."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_WHOLE = {4, 5, 6}
_DEEPEST, _LONGEST = 12, 10  # structs and lists in each other; bytes of a number
_MANY = 15
"""Length of a list that stands behind its first byte."""


def unpacked_sizes(chunk: memoryview, values: int) -> tuple[int, int]:
    """Return to how many bytes a column's pages unpack, and how many values they hold.

    Like Arrow, it reads pages until these hold `values`, which the footer says. A page's header is
    a struct of Thrift's compact protocol, and so is a footer. They are read here without any of a
    library's code, which may crash at a hostile one.
    https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

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


_BY_DIFFERENCES = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
"""Encodings of text that Arrow cannot read without spelling out every value."""
_OF_BYTES = {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
_FIXED_BYTES = 64
"""Values of a fixed size: decimals have up to 32 bytes, a SHA-512 digest has 64."""


def describe(content: bytes, columns: list[str] | None) -> dict[str, Any]:
    """Return the names of all columns, where `columns` (or all) lie, and which are unbounded.

    Raises whatever Arrow raises, or ends the process: call `describe_footer`.
    """
    metadata = pq.read_metadata(pa.BufferReader(content))
    schema = metadata.schema
    names = schema.to_arrow_schema().names
    owners = _owners(schema, set(names if columns is None else columns))
    leaves = [
        (place, schema.column(place), owner)
        for place, owner in enumerate(owners)
        if owner is not None
    ]
    groups = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = []
        for place, _, owner in leaves:
            chunk = group.column(place)
            first = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            chunks.append([first, chunk.total_compressed_size, owner, chunk.num_values])
        compressed = sum(
            group.column(place).total_compressed_size for place in range(group.num_columns)
        )
        groups.append([group.num_rows, group.total_byte_size, compressed, chunks])
    whole = [leaf for _, leaf, owner in leaves if leaf.path == owner]
    parts = [(leaf, owner) for _, leaf, owner in leaves if leaf.path != owner]
    return {
        "names": names,
        "groups": groups,
        "text": [leaf.path for leaf in whole if leaf.physical_type == "BYTE_ARRAY"],
        "unbounded": [
            [owner, how]
            for place, leaf, owner in leaves
            if (how := _unbounded(metadata, place, leaf, nested=leaf.path != owner))
        ],
        "nested_text": sorted({owner for leaf, owner in parts if leaf.physical_type in _OF_BYTES}),
    }


def _unbounded(metadata: pq.FileMetaData, place: int, leaf: Any, *, nested: bool) -> str:
    """Return how a leaf stores bytes that may unpack to any size, in words; "" where it does not.

    Top-level text stays encoded until its size is known (`RowGroup.batches`). Arrow cannot keep
    other bytes encoded, so that some kilobytes of them take all memory.
    """
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return f"as values of {leaf.length:,} bytes" if leaf.length > _FIXED_BYTES else ""
    if leaf.physical_type != "BYTE_ARRAY" or nested:
        return ""  # no value is read of nested text: see `nested_text`
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        if used := _BY_DIFFERENCES.intersection(group.column(place).encodings):
            return f"in the encoding {min(used)}"
    return ""


def _owners(schema: pq.ParquetSchema, wanted: set[str]) -> list[str | None]:
    """Return the wanted column that each leaf belongs to; None if it is of none.

    A leaf `late.x` is a column of that name, or `x` of a column `late`: then its own name is `x`.
    """
    leaves = [(leaf.path, leaf.name) for leaf in map(schema.column, range(len(schema)))]
    nested = wanted - {path for path, name in leaves if path == name}
    owners: list[str | None] = []
    for path, name in leaves:
        if path == name:
            owners.append(path if path in wanted else None)
            continue
        above = path
        while above and above not in nested:
            above = above.rpartition(".")[0]
        owners.append(above or None)
    return owners


describe_footer = Contained(
    f"{__name__}:{describe.__name__}",
    seconds=limits.FOOTER_SECONDS,
    memory=limits.FOOTER_MEMORY_BYTES,
)


Result = TypeVar("Result")

NULL = "__HIVE_DEFAULT_PARTITION__"
_TAIL = 1 << 16
_GAP = 1 << 17  # a request costs more than this many bytes that were not asked for


def _damaged(path: str, *, is_text: bool = False) -> NotEvaluableError:
    """Return that the bytes are not Parquet, or no longer."""
    what = "it is damaged, write it again"
    if is_text:
        what = "it holds text (CSV or JSON, whatever its name says), write it as Parquet"
    return NotEvaluableError(Reason.LABELS_UNREADABLE, f"{path} cannot be read as Parquet: {what}.")


class Chunk(NamedTuple):
    """Place of a column's values in a file; a nested column has several chunks."""

    first: int
    size: int
    column: str
    values: int


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Description of one row group in a footer."""

    rows: int
    unpacked: int
    compressed: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Footer:
    """Description of a file's row groups and columns.

    Attributes:
        content: the footer's bytes, which Arrow read in a contained process without harm.
        digest: of these bytes.
        file_size: bytes of the file.
        names: of all columns.
        groups: its row groups, in order.
        text: those of the asked columns that hold bytes or text.
        listed: the file as it was listed, if that is known.
        unbounded: asked columns that may unpack to any size, each with how it is stored.
        nested_text: asked columns of lists, structs or maps with text: read as nulls of their kind,
            since no column of such a kind is used, and its text may unpack to any size.
    """

    content: bytes
    digest: bytes
    file_size: int
    names: tuple[str, ...]
    groups: tuple[GroupPlace, ...]
    text: tuple[str, ...]
    listed: LabelFile | None = None
    unbounded: tuple[tuple[str, str], ...] = ()
    nested_text: tuple[str, ...] = ()

    def schema(self) -> pa.Schema:
        """Return the columns' kinds."""
        return pq.read_schema(pa.BufferReader(self.content))


def read_footer(
    lake: Lake, path: str, columns: Iterable[str] | None = (), *, listed: LabelFile | None = None
) -> Footer:
    """Read a file's footer, of some columns or all (None), in one request where it is small.

    Raises:
        NotEvaluableError: `labels_changed`, it is another file than the one that was listed;
            `too_large`, its footer is larger than what is read; `labels_unreadable`, it is cut off,
            no footer, or one that Arrow crashes at.
    """

    def tail(length: int) -> tuple[bytes, int]:
        with lake.open(path) as file:
            size = file.size()
            length = min(length, size)
            content = file.read_at(length, size - length)
        check_unchanged(lake, path, listed)
        return content, size

    content, size = _read(lake, path, lambda: tail(_TAIL))
    if len(content) < 12 or content[-4:] != b"PAR1":
        raise _damaged(path, is_text=_is_text(content))
    length = int.from_bytes(content[-8:-4], "little") + 8
    if length > size:
        raise _damaged(path)
    if length > limits.FOOTER_BYTES:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"The footer of {path} has {length:,} bytes, more than the {limits.FOOTER_BYTES:,} "
            "that are read: write fewer columns, or fewer row groups in a file.",
        )
    if length > len(content):
        content, size = _read(lake, path, lambda: tail(length))
    footer = content[-length:]
    try:
        found = describe_footer(footer, columns=None if columns is None else sorted(set(columns)))
    except ContainedError:
        raise _damaged(path) from None
    if len(found["groups"]) > limits.ROW_GROUPS:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"{path} has {len(found['groups']):,} row groups, more than the {limits.ROW_GROUPS:,} "
            "that are read: write more rows into each.",
        )
    groups = tuple(
        GroupPlace(rows, unpacked, compressed, tuple(map(Chunk._make, chunks)))
        for rows, unpacked, compressed, chunks in found["groups"]
    )
    return Footer(
        footer,
        blake3(footer).digest(),
        size,
        tuple(found["names"]),
        groups,
        tuple(found["text"]),
        listed,
        tuple((name, how) for name, how in found["unbounded"]),
        tuple(found["nested_text"]),
    )


def _is_text(content: bytes) -> bool:
    """Return whether these last bytes of a file are those of a text; False for no bytes."""
    text = content.decode("utf-8", errors="ignore")
    return (
        bool(text)
        and len(text) > len(content) // 4
        and all(character.isprintable() or character in "\r\n\t" for character in text)
    )


def _read(lake: Lake, path: str, action: Callable[[], Result]) -> Result:
    try:
        return lake.patiently(action, path)
    except FileNotFoundError:
        raise NotEvaluableError(
            Reason.LABELS_CHANGED, f"{path} was listed, and then was gone: audit the day again."
        ) from None


def check_unchanged(lake: Lake, path: str, listed: LabelFile | None) -> None:
    """Raise `NotEvaluableError` where a file is no longer the one that was listed.

    Of a file that was replaced between two reads, one day's labels would be a mixture that never
    existed.
    """
    if listed is not None and lake.label_file(path)[1:] != listed[1:]:  # whatever its folder
        raise NotEvaluableError(
            Reason.LABELS_CHANGED,
            f"{path} was replaced while it was read: write labels before their _SUCCESS, never "
            "after, and audit the day again.",
        )


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The bytes of some columns of one row group."""

    path: str
    index: int
    footer: Footer
    ranges: tuple[tuple[int, bytes], ...]
    digests: dict[str, bytes]
    bytes_read: int

    def content(self, file: str, columns: Collection[str]) -> ContentDigest:
        """Return the digest of some columns' bytes, at their place in the day's files."""
        parts = [part for name in sorted(columns) for part in (name, self.digests.get(name, b""))]
        return ContentDigest.of("row group", file, self.index, *parts)

    def batches(
        self, columns: Iterable[str], *, rows: int, encoded: Container[str] = ()
    ) -> Iterator[pa.Table]:
        """Yield the columns' values, at most `rows` rows at a time; text of `encoded` as codes.

        Of a column that the file lacks, all have the word of the folder that names it, or none.

        Raises:
            NotEvaluableError: `labels_unreadable`, they cannot be decoded; `too_large`, they unpack
                to more than is read, or are stored so that only decoding tells their size.
        """
        source = pa.PythonFile(_Ranges(self.ranges, self.footer.file_size), mode="r")
        columns = list(columns)
        for name, how in self.footer.unbounded:
            if name in columns:
                raise NotEvaluableError(
                    Reason.TOO_LARGE,
                    f"{self.path} stores {name!r} {how}, which may unpack to any size: write one "
                    "value a row, as plain text or with a dictionary.",
                )
        hollow = [
            self.footer.schema().field(name) for name in columns if name in self.footer.nested_text
        ]
        hollow += [pa.field(name, pa.null()) for name in columns if name not in self.footer.names]
        lacking = {field.name for field in hollow}
        columns = [name for name in columns if name not in lacking]
        # Repeated text stays encoded until its true size is known.
        text = [name for name in self.footer.text if name in columns]
        try:
            metadata = _metadata(self.footer.content)
            file = pq.ParquetFile(source, metadata=metadata, read_dictionary=text)
            for batch in file.iter_batches(
                batch_size=rows, row_groups=[self.index], columns=columns, use_threads=False
            ):
                table = pa.Table.from_batches([batch])
                for field in hollow:
                    table = table.append_column(field.name, self._constant(field, len(batch)))
                yield _decoded(table, self.path, encoded)
        except (NotEvaluableError, MemoryError, GeneratorExit):
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            raise _damaged(self.path) from None

    def _constant(self, field: pa.Field, rows: int) -> pa.Array:
        """Return a column that is not read, or that only a folder's name says."""
        word = None if field.name in self.footer.names else folder_word(self.path, field.name)
        return pa.nulls(rows, field.type) if word is None else pa.repeat(word, rows)


def folder_words(path: str) -> list[tuple[str, str]]:
    """Return what the folders of a file say, as name=word."""
    words = (urllib.parse.unquote(part).partition("=") for part in path.split("/")[:-1])
    return [(name, word) for name, equals, word in words if equals]


def folder_word(path: str, name: str) -> str | None:
    """Return the value that a folder name=value gives a column; None where none does, or null."""
    word = dict(folder_words(path)).get(name)
    return None if word == NULL else word


@functools.lru_cache(maxsize=1)  # files are read one after the other, and a footer may be large
def _metadata(footer: bytes) -> pq.FileMetaData:
    """Unpack a footer, once for all of its row groups."""
    return pq.read_metadata(pa.BufferReader(footer))


def read_row_group(
    lake: Lake,
    path: str,
    footer: Footer,
    index: int,
    columns: Iterable[str],
    *,
    most: int | None = None,
) -> RowGroup:
    """Read the bytes of those of `columns` that the file has; neighbours share a request.

    Raises:
        NotEvaluableError: `labels_unreadable`, the footer points outside the file; `too_large`, the
            row group unpacks to more than `most` bytes, by default `limits.SHARD_BYTES`.
    """
    wanted = set(columns)
    group, most = footer.groups[index], limits.SHARD_BYTES if most is None else most
    if group.rows > limits.SHARD_ROWS or group.unpacked > most:
        told = f"declares {group.rows:,} rows in {group.unpacked:,} bytes"
        raise _too_large(path, told, most)
    chunks = sorted(chunk for chunk in group.chunks if chunk.column in wanted)
    if any(
        chunk.first < 0 or chunk.size < 0 or chunk.first + chunk.size > footer.file_size
        for chunk in chunks
    ):
        raise _damaged(path)
    spans = list(_coalesced(chunks))
    if (size := sum(length for _, length in spans)) > most:
        raise _too_large(path, f"lies in {size:,} bytes", most)
    ranges = _read(lake, path, lambda: _fetch(lake, path, spans))
    check_unchanged(lake, path, footer.listed)
    if any(len(content) < length for (_, content), (_, length) in zip(ranges, spans, strict=True)):
        raise _damaged(path)
    digests: dict[str, Any] = {}
    file = _Ranges(ranges, footer.file_size)
    for chunk in chunks:
        digests.setdefault(chunk.column, blake3()).update(file.view(chunk.first, chunk.size))
    pages = [(file.view(chunk.first, chunk.size), chunk.values) for chunk in chunks]
    _check_pages(path, pages, most)
    return RowGroup(
        path,
        index,
        footer,
        ranges,
        {name: digest.digest() for name, digest in digests.items()},
        sum(length for _, length in spans),
    )


def _check_pages(path: str, chunks: Iterable[tuple[memoryview, int]], most: int) -> None:
    """Refuse columns whose pages say that they unpack to more than is read, whatever the footer."""
    total = 0
    for chunk, values in chunks:
        try:
            size, held = unpacked_sizes(chunk, values)
        except ValueError:
            raise _damaged(path) from None
        if held != values:
            raise _damaged(path)
        total += size
        if total > most:
            raise _too_large(path, f"has pages of {total:,} bytes", most)
        if held > min(limits.PROBABILITIES, most // 8):
            raise _too_large(path, f"has {held:,} values in a column", most)


def _decoded(table: pa.Table, path: str, keep: Container[str]) -> pa.Table:
    """Return `table` with repeated text spelled out, but for `keep`, unless that is too much."""
    encoded = [
        name
        for name in table.column_names
        if name not in keep and _is_encoded_text(table[name].type)
    ]
    size = table.nbytes
    for chunk in (chunk for name in encoded for chunk in table[name].chunks):
        lengths = pc.binary_length(chunk.dictionary)
        most = (pc.max(lengths).as_py() or 0) * len(chunk)
        # The true size takes a look at every row: only where it could matter.
        exact = most > limits.SHARD_BYTES // max(1, 4 * len(encoded))
        size += pc.sum(pc.take(lengths, chunk.indices)).as_py() or 0 if exact else most
    if size > limits.SHARD_BYTES:
        raise _too_large(path, f"unpacks to {size:,} bytes", limits.SHARD_BYTES)
    for name in encoded:
        column = table[name]
        plain = column.cast(column.type.value_type)
        table = table.set_column(table.column_names.index(name), name, plain)
    return table


def _is_encoded_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and kind.value_type in {pa.string(), pa.large_string()}


def _too_large(path: str, what: str, most: int) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.TOO_LARGE,
        f"A row group of {path} {what}, more than the {limits.SHARD_ROWS:,} rows and "
        f"{most:,} bytes that are read: write smaller row groups.",
    )


def _fetch(lake: Lake, path: str, spans: list[tuple[int, int]]) -> tuple[tuple[int, bytes], ...]:
    with lake.open(path) as file:
        return tuple((first, file.read_at(length, first)) for first, length in spans)


def _coalesced(chunks: list[Chunk]) -> Iterator[tuple[int, int]]:
    """Merge neighbouring chunks into spans, as (first byte, length)."""
    spans: list[list[int]] = []
    for first, size, *_ in chunks:
        if spans and first - spans[-1][1] <= _GAP:
            spans[-1][1] = max(spans[-1][1], first + size)
        else:
            spans.append([first, first + size])
    return ((first, end - first) for first, end in spans)


class _Ranges(io.RawIOBase):
    """A file of which only some ranges are in memory."""

    def __init__(self, ranges: tuple[tuple[int, bytes], ...], size: int) -> None:
        self._size, self._position = size, 0
        self._starts = [first for first, _ in ranges]
        self._contents = [memoryview(content) for _, content in ranges]

    def view(self, first: int, size: int) -> memoryview:
        """Return bytes that were fetched; fewer where fewer are there."""
        place = bisect.bisect_right(self._starts, first) - 1
        if place < 0:
            return memoryview(b"")
        offset = first - self._starts[place]
        return self._contents[place][offset : offset + size]

    def read(self, size: int = -1) -> memoryview:
        """Return up to `size` bytes without copying them."""
        content = self.view(self._position, size if size >= 0 else self._size)
        self._position += len(content)
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte of the file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._position

    def readable(self) -> bool:
        """Return whether it can be read: yes."""
        return True
