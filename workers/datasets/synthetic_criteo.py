"""Made-up clicks in the shape of Criteo's logs, for where those are not at hand.

13 heavy-tailed counts with missing values and 26 categories of 3 to 1,000,000 values with Zipf
frequencies; about 3% clicks, and a Bayes log-loss near 0.12 (0.135 would be that of the rate
alone). From one day to the next the effects drift a little. Nothing here is Criteo's: every output
that comes from it says `synthetic`.
"""

import datetime as dt
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from privcore.attacks import generator, stream_key
from workers.datasets.criteo import (
    CATEGORICAL,
    LABEL,
    NUMERIC,
    SYNTHETIC_DATASET,
    DayIngested,
    write_day,
)
from workers.lake.layout import Lake

CARDINALITIES = tuple(int(value) for value in np.geomspace(3, 1_000_000, len(CATEGORICAL)).round())
# Found by simulation: 3% clicks, at a Bayes log-loss near 0.12.
_LOG_ODDS, _DEVIATION = -3.98, 1.09
_DRIFT = 0.2  # share of each effect's deviation that is new each day
_CHUNK = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """Made-up rows and what no learner knows of them."""

    frame: pl.DataFrame
    chances: NDArray[np.float64]


def synthetic_clicks(rows: int, *, day: int, seed: int, part: int = 0) -> Clicks:
    """Return the rows of one part of one day (0, 1, ...); the same for the same arguments."""
    random = generator(seed, "synthetic criteo", day, part)
    raw, columns = _draw(rows, random, day=day, seed=seed)
    centre, deviation = _spread(day, seed)
    chances = expit(_LOG_ODDS + _DEVIATION * (raw - centre) / deviation)
    clicks = pl.Series(LABEL.column, (random.random(rows) < chances).astype(np.int8))
    return Clicks(pl.DataFrame([clicks, *columns]), chances)


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


def write_synthetic_day(
    lake: Lake, day: dt.date, *, number: int, rows: int, seed: int
) -> DayIngested:
    """Write one made-up day, `number` 0, 1, ..., into the lake."""

    def frames() -> Iterator[tuple[pl.DataFrame, int]]:
        for part, start in enumerate(range(0, rows, _CHUNK)):
            size = min(_CHUNK, rows - start)
            yield synthetic_clicks(size, day=number, seed=seed, part=part).frame, 0

    return write_day(lake, SYNTHETIC_DATASET, day, frames(), seed=seed, source="the generator")


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
