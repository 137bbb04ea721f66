"""Criteo's click logs, as they are published, into the lake: streamed, checked row by row.

A file of the 1TB Click Logs holds one day: tab-separated lines of a label (0 or 1), 13 integers and
26 hexadecimal hashes, of which any but the label may be missing. Of each 100,000 lines 5% are
drawn, as the published code of Wu et al. 2023 does (`jinpz/label_differential_privacy`), so a
million rows are those of 20 million lines. Rows go to training, validation and holdout in shares
of 80, 4 and 16%.
"""

import datetime as dt
import gzip
import itertools
import math
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN
from workers.lake.layout import Lake, labels_folder
from workers.lake.manifest import Feature, LabelColumn

DATASET, SYNTHETIC_DATASET = "criteo", "criteo-synthetic"
LABEL = LabelColumn(column="click", classes=(0, 1), state="secret")
NUMERIC = tuple(f"count_{place}" for place in range(1, 14))
CATEGORICAL = tuple(f"category_{place}" for place in range(1, 27))
FEATURES = (
    *(Feature(name=name, kind="numeric") for name in NUMERIC),
    *(Feature(name=name, kind="categorical") for name in CATEGORICAL),
)
VALIDATION = "validation"
_SHARES = {TRAIN: 0.80, VALIDATION: 0.04, HOLDOUT: 0.16}
_COLUMNS = (LABEL.column, *NUMERIC, *CATEGORICAL)
SAMPLED = 0.05
_CHUNK = 100_000
_LONGEST_LINE = 4_096  # a line of the logs has at most some 400 bytes
_MALFORMED_SHARE = 0.01
_JUDGED_FROM = 1_000  # rows after which a file may be refused before its end


@dataclass(frozen=True, slots=True)
class DayIngested:
    """Rows that went into the lake for one day; `malformed` rows were left out."""

    dataset: str
    day: dt.date
    rows: int
    malformed: int
    clicks: int


def ingest_day(
    lake: Lake,
    path: pathlib.Path,
    day: dt.date,
    *,
    rows: int,
    seed: int,
    sampled: float = SAMPLED,
) -> DayIngested:
    """Stream at most `rows` rows of one published file (.gz or plain) into the lake.

    A share `sampled` of each 100,000 lines is drawn, in the file's order, until there are enough.
    Memory is bounded by one chunk of lines. Malformed rows among the drawn ones, also one that the
    file's end cuts off, are left out and counted; the day is refused where they are more than 1%.

    Raises:
        InvalidInputError: the file is missing, empty, damaged or of another format, more than 1%
            of its rows are malformed, or the lake has this day already.
    """
    try:
        with _open(path) as stream:
            random = generator(seed, "sample", DATASET, str(day))
            frames = _frames(stream, rows, sampled, random)
            return write_day(lake, DATASET, day, frames, seed=seed, source=str(path))
    except (OSError, EOFError, zlib.error) as error:
        rule = f"it cannot be read ({error}): fetch the file again, or ask for fewer rows"
        raise InvalidInputError("--input", str(path), rule) from None


def write_day(
    lake: Lake,
    dataset: str,
    day: dt.date,
    frames: Iterable[tuple[pl.DataFrame, int]],
    *,
    seed: int,
    source: str,
) -> DayIngested:
    """Write frames of label and features as one day, one row group each, `_SUCCESS` last.

    Each frame comes with the number of malformed rows that were left out of it.

    Raises:
        InvalidInputError: as `ingest_day`.
    """
    folder = labels_folder(dataset, day)
    if lake.files_below(folder):  # which would be rows of the day, whoever wrote them
        rule = f"the lake has it already, or files of it: remove {folder}"
        raise InvalidInputError("day", str(day), rule)
    files, file = lake.files, f"{folder}/part-00000.parquet"
    files.create_dir(folder, recursive=True)
    random = generator(seed, "split", dataset, str(day))
    done = DayIngested(dataset, day, 0, 0, 0)
    writer: pq.ParquetWriter | None = None
    try:
        for frame, malformed in frames:
            split = random.choice(list(_SHARES), frame.height, p=list(_SHARES.values()))
            table = frame.with_columns(pl.Series(SPLIT, split, dtype=pl.String)).to_arrow()
            writer = writer or pq.ParquetWriter(file, table.schema, filesystem=files)
            if table.num_rows:
                writer.write_table(table)
            clicks = int(frame[LABEL.column].sum())
            done = DayIngested(
                dataset, day, done.rows + frame.height, done.malformed + malformed,
                done.clicks + clicks,
            )  # fmt: skip
            _check_malformed(done, source, at_end=False)
        _check_malformed(done, source, at_end=True)
    except BaseException:
        if writer:
            writer.close()
            files.delete_file(file)
        raise
    if writer:
        writer.close()
    lake.complete(folder)
    return done


def parse(lines: list[bytes]) -> tuple[pl.DataFrame, int]:
    """Return the well-formed rows of some lines, and how many lines are malformed."""
    whole = [line for line in lines if line.count(b"\t") == len(_COLUMNS) - 1 and b"\r" not in line]
    if not whole:
        return pl.DataFrame(schema=_SCHEMA), len(lines)
    words = pl.read_csv(
        b"\n".join(whole),
        separator="\t",
        has_header=False,
        new_columns=list(_COLUMNS),
        schema_overrides=dict.fromkeys(_COLUMNS, pl.String),
        quote_char=None,
        encoding="utf8-lossy",
    ).with_columns(pl.all().fill_null(""))
    fits = [
        pl.col(LABEL.column).str.contains(r"^[01]$"),
        *(pl.col(name).str.contains(r"^(-?[0-9]{1,18})?$") for name in NUMERIC),
        *(pl.col(name).str.contains(r"^([0-9a-fA-F]{1,16})?$") for name in CATEGORICAL),
    ]
    good = words.filter(pl.all_horizontal(fits))
    frame = good.select(
        pl.col(LABEL.column).cast(pl.Int8),
        *(pl.col(name).replace("", None).cast(pl.Int64).cast(pl.Float32) for name in NUMERIC),
        *(pl.col(name).str.to_lowercase() for name in CATEGORICAL),
    )
    return frame, len(lines) - frame.height


_SCHEMA = (
    {LABEL.column: pl.Int8}
    | dict.fromkeys(NUMERIC, pl.Float32)
    | dict.fromkeys(CATEGORICAL, pl.String)
)


def _frames(
    stream: BinaryIO, rows: int, sampled: float, random: np.random.Generator
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield `rows` drawn lines in chunks; what the end of the file cuts off is malformed."""
    left = rows
    while left > 0:
        read = itertools.islice(iter(lambda: stream.readline(_LONGEST_LINE), b""), _CHUNK)
        # Without its end a line was cut off, perhaps in its last hash, where none could tell.
        lines = [line[:-1] if line.endswith(b"\n") else b"" for line in read]
        if not lines:
            return
        many = math.ceil(sampled * len(lines))
        drawn = np.sort(random.permutation(len(lines))[:many])[:left]
        left -= len(drawn)
        yield parse([lines[place] for place in drawn])


def _check_malformed(done: DayIngested, source: str, *, at_end: bool) -> None:
    lines = done.rows + done.malformed
    enough = at_end or lines >= _JUDGED_FROM
    if enough and done.malformed > _MALFORMED_SHARE * lines:
        rule = (
            f"{done.malformed} of its first {lines} rows are malformed, and more than 1% is "
            "refused: a row has a label of 0 or 1, 13 integers and 26 hexadecimal hashes, "
            "separated by tabs"
        )
        raise InvalidInputError("--input", source, rule)
    if at_end and not done.rows:
        raise InvalidInputError("--input", source, "it holds no rows")


def _open(path: pathlib.Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))
