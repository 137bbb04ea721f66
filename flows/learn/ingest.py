"""Criteo's days, or made-up ones, into the lake: a sentence about each."""

import datetime as dt
import pathlib
from collections.abc import Iterator, Sequence

from workers.datasets.criteo import SAMPLED, DayIngested, ingest_day
from workers.datasets.synthetic_criteo import write_synthetic_day
from workers.lake.layout import Lake


def ingest_criteo(
    lake: str,
    paths: Sequence[pathlib.Path],
    *,
    start: dt.date,
    rows: int,
    synthetic: int,
    seed: int,
    sampled: float = SAMPLED,
) -> Iterator[str]:
    """Write each file as one day, from `start` on, or `synthetic` made-up days; yield what it did.

    Of a file, the share `sampled` of each 100,000 lines is drawn.
    """
    for number in range(max(len(paths), synthetic)):
        day = start + dt.timedelta(days=number)
        if synthetic:
            written = write_synthetic_day(Lake(lake), day, number=number, rows=rows, seed=seed)
        else:
            path = paths[number]
            written = ingest_day(Lake(lake), path, day, rows=rows, seed=seed, sampled=sampled)
        yield _sentence(written, synthetic=bool(synthetic))


def _sentence(written: DayIngested, *, synthetic: bool) -> str:
    kind = "synthetic rows, made up in Criteo's shape" if synthetic else "rows"
    return (
        f"{written.dataset} {written.day}: {written.rows:,} {kind}, "
        f"{written.clicks / written.rows:.2%} clicks; {written.malformed:,} malformed left out."
    )
