"""Criteo's click logs: as they are published, or made up in their shape.

A file of the 1TB Click Logs holds one day: tab-separated lines of a label (0 or 1), 13 integers and
26 hexadecimal hashes, of which any but the label may be missing. Of each 100,000 lines 5% are
drawn, as the published code of Wu et al. 2023 does (`jinpz/label_differential_privacy`), so a
million rows are those of 20 million lines. Rows go to training, validation and holdout in shares
of 80, 4 and 16%.

Made-up clicks are 13 heavy-tailed counts with missing values and 26 categories of 3 to 1,000,000
values with Zipf frequencies; about 3% clicks, and a Bayes log-loss near 0.12 (0.135 would be that
of the rate alone). From one day to the next the effects drift a little. Nothing of them is
Criteo's: every output that comes from them says `synthetic`.
"""

import contextlib
import datetime as dt
import functools
import gzip
import itertools
import math
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from privcore.attacks import generator, stream_key
from privcore.exceptions import InvalidInputError
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN
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
SHARES = {TRAIN: 0.80, VALIDATION: 0.04, HOLDOUT: 0.16}
_COLUMNS = (LABEL.column, *NUMERIC, *CATEGORICAL)
SAMPLED = 0.05
_CHUNK = 100_000
_LONGEST_LINE = 4_096  # a line of the logs has at most some 400 bytes
_MALFORMED_SHARE = 0.01
_JUDGED_FROM = 1_000  # rows after which a file may be refused before its end


def read_day(
    path: pathlib.Path, day: dt.date, *, rows: int, seed: int, sampled: float = SAMPLED
) -> pl.DataFrame:
    """Return at most `rows` rows of one published file (text, .gz or .parquet), with a `split`.

    A Parquet file has the same 40 columns in the same order, whatever their names.

    A share `sampled` of each 100,000 lines is drawn, in the file's order, until there are enough.
    Malformed rows among the drawn ones, also one that the file's end cuts off, are left out; the
    day is refused where they are more than 1%.

    Raises:
        InvalidInputError: the file is missing, empty, damaged or of another format, or more than
            1% of its rows are malformed.
    """
    frames, malformed = [pl.DataFrame(schema=_SCHEMA)], 0
    try:
        with _open(path) as lines:
            random = generator(seed, "sample", DATASET, str(day))
            for frame, bad in _frames(lines, rows, sampled, random):
                frames.append(frame)
                malformed += bad
                _check_malformed(sum(map(len, frames)), malformed, path, at_end=False)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        rule = f"it cannot be read ({error}): fetch the file again, or ask for fewer rows"
        raise InvalidInputError("--input", str(path), rule) from None
    _check_malformed(sum(map(len, frames)), malformed, path, at_end=True)
    return _split(pl.concat(frames), DATASET, day, seed)


def _split(frame: pl.DataFrame, dataset: str, day: dt.date, seed: int) -> pl.DataFrame:
    random = generator(seed, "split", dataset, str(day))
    split = random.choice(list(SHARES), frame.height, p=list(SHARES.values()))
    return frame.with_columns(pl.Series(SPLIT, split, dtype=pl.String))


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
    stream: Iterator[bytes], rows: int, sampled: float, random: np.random.Generator
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield `rows` drawn lines in chunks; what the end of the file cuts off is malformed."""
    left = rows
    while left > 0:
        read = itertools.islice(stream, _CHUNK)
        # Without its end a line was cut off, perhaps in its last hash, where none could tell.
        lines = [line[:-1] if line.endswith(b"\n") else b"" for line in read]
        if not lines:
            return
        many = math.ceil(sampled * len(lines))
        drawn = np.sort(random.permutation(len(lines))[:many])[:left]
        left -= len(drawn)
        yield parse([lines[place] for place in drawn])


def _check_malformed(rows: int, malformed: int, path: pathlib.Path, *, at_end: bool) -> None:
    lines = rows + malformed
    enough = at_end or lines >= _JUDGED_FROM
    if enough and malformed > _MALFORMED_SHARE * lines:
        rule = (
            f"{malformed} of its first {lines} rows are malformed, and more than 1% is refused: a "
            "row has a label of 0 or 1, 13 integers and 26 hexadecimal hashes, separated by tabs"
        )
        raise InvalidInputError("--input", str(path), rule)
    if at_end and not rows:
        raise InvalidInputError("--input", str(path), "it holds no rows")


@contextlib.contextmanager
def _open(path: pathlib.Path) -> Iterator[Iterator[bytes]]:
    """Give the lines of a file, those of a Parquet file as they would be published."""
    if path.suffix == ".parquet":
        yield _lines(path)
        return
    with cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream:
        yield iter(lambda: stream.readline(_LONGEST_LINE), b"")


def _lines(path: pathlib.Path) -> Iterator[bytes]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_CHUNK):
            frame = pl.DataFrame(batch)
            # Numbers with missing ones are often kept as 3.0; 3.5 stays, and is malformed.
            kept = [pl.col(name) for name, kind in frame.schema.items() if kind.is_float()]
            whole = [pl.when(one == one.round()).then(one.cast(pl.Int64, strict=False).cast(
                pl.String)).otherwise(one.cast(pl.String)) for one in kept]  # fmt: skip
            words = frame.with_columns(whole).select(pl.all().cast(pl.String).fill_null(""))
            for line in words.select(pl.concat_str(pl.all(), separator="\t")).to_series():
                yield f"{line}\n".encode()


CARDINALITIES = tuple(int(value) for value in np.geomspace(3, 1_000_000, len(CATEGORICAL)).round())
# Found by simulation: 3% clicks, at a Bayes log-loss near 0.12.
_LOG_ODDS, _DEVIATION = -3.98, 1.09
_DRIFT = 0.2  # share of each effect's deviation that is new each day
_SYNTHETIC_CHUNK = 50_000


def synthetic_clicks(
    rows: int, *, day: int, seed: int, part: int = 0
) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return the rows of one part of one day (0, 1, ...), and each one's chance of a click.

    They are the same for the same arguments.
    """
    random = generator(seed, "synthetic criteo", day, part)
    raw, columns = _draw(rows, random, day=day, seed=seed)
    centre, deviation = _spread(day, seed)
    chances = expit(_LOG_ODDS + _DEVIATION * (raw - centre) / deviation)
    clicks = pl.Series(LABEL.column, (random.random(rows) < chances).astype(np.int8))
    return pl.DataFrame([clicks, *columns]), chances


def _draw(
    rows: int, random: np.random.Generator, *, day: int, seed: int
) -> tuple[NDArray[np.float64], list[pl.Series]]:
    """Features, and the sum of their effects."""
    raw, columns = np.zeros(rows), []
    for place, name in enumerate(NUMERIC):
        latent = random.standard_normal(rows)
        counts = np.floor(np.exp(1.0 + 0.15 * place + 1.3 * latent)).astype(np.float32)
        missing = random.random(rows) < 0.05 * place
        counts[missing] = np.nan
        columns.append(pl.Series(name, counts).fill_nan(None))
        slope = _effects(np.zeros(1, dtype=np.uint64), name, day=day, seed=seed)[0]
        raw += slope * np.where(missing, 0.0, latent)
    for name, values in zip(CATEGORICAL, CARDINALITIES, strict=True):
        # Log-uniform ranks have frequencies that fall like 1/rank: Zipf's law.
        ranks = np.minimum(np.exp(random.random(rows) * np.log(values)), values - 1)
        known, inverse = np.unique(ranks.astype(np.uint64), return_inverse=True)
        raw += _effects(known, name, day=day, seed=seed)[inverse]
        words = (_hash(known, stream_key(seed, name)) >> np.uint64(32)).tolist()
        columns.append(pl.Series(name, [f"{word:08x}" for word in words])[inverse])
    return raw, columns


@functools.lru_cache(maxsize=8)
def _spread(day: int, seed: int) -> tuple[float, float]:
    """Mean and deviation of the effects' sum over a day, from a sample of their own."""
    raw, _ = _draw(20_000, generator(seed, "spread", day), day=day, seed=seed)
    return float(raw.mean()), float(raw.std())


def synthetic_day(day: dt.date, *, number: int, rows: int, seed: int) -> pl.DataFrame:
    """Return one made-up day, `number` 0, 1, ..., with a `split`."""
    sizes = (min(_SYNTHETIC_CHUNK, rows - start) for start in range(0, rows, _SYNTHETIC_CHUNK))
    frames = (
        synthetic_clicks(size, day=number, seed=seed, part=part)[0]
        for part, size in enumerate(sizes)
    )
    return _split(pl.concat(frames), SYNTHETIC_DATASET, day, seed)


def _effects(values: NDArray[np.uint64], name: str, *, day: int, seed: int) -> NDArray[np.float64]:
    """A standard normal effect of each value; each day keeps most of the day before's."""
    effects = _normals(values, stream_key(seed, name, "effect", 0))
    for later in range(1, day + 1):
        fresh = _normals(values, stream_key(seed, name, "effect", later))
        effects = np.sqrt(1.0 - _DRIFT**2) * effects + _DRIFT * fresh
    return effects


def _normals(values: NDArray[np.uint64], key: int) -> NDArray[np.float64]:
    uniform = ((_hash(values, key) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return np.asarray(ndtri(uniform), dtype=np.float64)


def _hash(values: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """Splitmix64 of a value in the stream of a key."""
    word = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
