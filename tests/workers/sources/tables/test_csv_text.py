"""CSV of strangers: one sentence for each fault, and no value that is guessed."""

import gzip
import pathlib

import polars as pl
import pyarrow as pa
import pytest

from tests.support.call_imports import imported_by_a_call
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import Lake
from workers.sources.tables.csv_text import parquet_of

KINDS = {"id": "text", "p": "number", "y": "flag", "f": "feature"}
HEAD = b"id,p,y,f\n"


def read(folder: pathlib.Path, content: bytes, kinds: dict[str, str] | None = None,
         name: str = "scores.csv") -> pl.DataFrame:  # fmt: skip
    (folder / name).write_bytes(content)
    file = Lake(str(folder)).label_file(name)
    made, _ = parquet_of(Lake(str(folder)), file, KINDS if kinds is None else kinds)
    return pl.read_parquet(made)


@pytest.mark.parametrize("name", ["scores.csv", "scores.csv.gz", "scores.CSV.zst"])
def test_names_keep_their_zeros_and_what_is_missing_is_null(tmp_path, name):
    content = b'\xef\xbb\xbfid;p;y;f\r\n007;0.5;True;1\r\n"1""0\n";NA;;\r\nNA; .25 ;false;2e3\r\n'
    packed = {"gz": gzip.compress(content), "zst": pa.compress(content, "zstd", asbytes=True)}
    found = read(tmp_path, packed.get(name.rpartition(".")[2], content), name=name)
    assert found["id"].to_list() == ["007", '1"0\n', "NA"]
    assert found["p"].to_list() == [0.5, None, 0.25]
    assert found["y"].to_list() == [True, None, False]
    assert found["f"].to_list() == [1.0, None, 2_000.0]


@pytest.mark.parametrize(
    ("kind", "values", "stored"),
    [
        ("feature", "1 02", pl.String),  # a code
        ("feature", "1 -2.5e-3", pl.Float64),
        ("flag", "0 1", pl.String),
        ("flag", "TRUE false", pl.Boolean),
        ("day", "2026-03-02 20260303", pl.String),
        ("day", "2026-03-02T10:00:00 2026-03-02T11:00:00", pl.Datetime("us")),
        ("time", "2026-03-02T10:00:00+01:00 2026-03-02T11:00:00Z", pl.Datetime("us", "UTC")),
    ],
)
def test_settings_give_a_columns_kind(tmp_path, kind, values, stored):
    content = "\n".join(["c", *values.split()]).encode()
    assert read(tmp_path, content, {"c": kind})["c"].dtype == stored


WRONG = {
    "decimal comma": (b"id;p;y;f\n1;0,5;1;2\n", "no number in 'p': write numbers with a full stop"),
    "words": (HEAD + b"1,0.5,1,2\n2,high,1,2\n", "has in row 2 below the names no number in 'p'"),
    "infinite": (HEAD + b"1,inf,1,2\n", "no number in 'p'"),
    "fields": (HEAD + b"1,0,5,1,2\n", "a row 2 with another number of fields (5)"),
    "open quotation": (HEAD + b'"1,0.5,1,2\n' + b"2,0.5,1,2\n" * 9, "another number of fields"),
    "column missing": (b"id,p,y\n1,2,3\n", "has no column 'f': correct scores in the settings"),
    "column twice": (b"id,p,p,y,f\n1,2,3,4,5\n", "has several columns 'p'"),
    "latin": (HEAD + "ä,1,1,1\n".encode("latin1"), "not UTF-8"),
    "16 bits": ((HEAD.decode() + "1,1,1,1\n").encode("utf-16"), "bytes of zero"),
    "zero": (HEAD + b"1\0,1,1,1\n", "bytes of zero"),
    "empty": (b"", "no first line"),
    "huge field": (HEAD + b"1" * 3 * limits.CSV_ROW_BYTES + b",1,1,1\n", "16,777,216 bytes"),
}


@pytest.mark.parametrize("what", WRONG)
def test_every_fault_is_one_sentence(tmp_path, what):
    content, words = WRONG[what]
    with pytest.raises(NotEvaluableError) as raised:
        read(tmp_path, content)
    assert words in raised.value.sentence
    assert raised.value.sentence.startswith("scores.csv ")
    assert "\n" not in raised.value.sentence
    assert raised.value.reason is Reason.LABELS_UNREADABLE


def test_reading_a_file_imports_nothing():
    call = f"convert(content, packed='', kinds={KINDS}, rows=0)"
    content = HEAD + b"1,0.5,1,NA\n"
    assert imported_by_a_call("workers.sources.tables.csv_text", call, content) == []


@pytest.mark.slow
def test_what_unpacks_to_too_much_is_refused(tmp_path):
    bomb = gzip.compress(bytes(limits.CSV_BYTES + 2), compresslevel=1)
    with pytest.raises(NotEvaluableError, match="unpacks to more than"):
        read(tmp_path, bomb, name="scores.csv.gz")
    with pytest.raises(NotEvaluableError, match="cannot be unpacked"):
        read(tmp_path, bomb[: len(bomb) // 2], name="scores.csv.gz")


def test_a_file_beyond_the_bound_and_one_that_was_replaced_are_refused(tmp_path, limit):
    (tmp_path / "scores.csv").write_bytes(HEAD + b"1,1,1,1\n")
    lake, file = Lake(str(tmp_path)), Lake(str(tmp_path)).label_file("scores.csv")
    with pytest.raises(NotEvaluableError, match="was replaced while it was read"):
        parquet_of(lake, file._replace(size=1), KINDS)
    limit("CSV_BYTES", 3)
    with pytest.raises(NotEvaluableError, match="larger than the 3 bytes"):
        parquet_of(lake, file, KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1, limits.CSV_ROW_BYTES // 2])
def test_a_row_as_long_as_is_promised_is_read_wherever_it_begins(tmp_path, before):
    head, tail = b"id,p,y,f\n" + b"1" * before + b",1,1,1\n", b",1,1,1\n"
    kinds = {"id": "text", "p": "number"}
    for size, passes in ((limits.CSV_ROW_BYTES, True), (2 * limits.CSV_ROW_BYTES, False)):
        content = head + b"2" * (size - len(tail)) + tail
        if passes:
            assert read(tmp_path, content, kinds).height == 2
            continue
        with pytest.raises(NotEvaluableError, match="a row of more than 16,777,216 bytes"):
            read(tmp_path, content, kinds)
