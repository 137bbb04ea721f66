"""Nights of models as they are stored, and of these what windows and standings need."""

import bisect
import datetime as dt
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.lower_bounds import WINDOW_EPSILONS, Night, standing_length
from workers.warehouse.night_row import NAMED, OF_AUDITS, TRUST, WINDOW
from workers.warehouse.standings import COLUMNS as OF_STANDINGS
from workers.warehouse.standings import recurs_from
from workers.warehouse.store import CONFIGURED, Warehouse

_CLAIM = ("family", "delta", "classes", "neighbors", "labels_recur", "method_version")
_AT_ONCE = 20_000
"""Number of nights whose wealth is held at once: 130 MB, twice that where delta has a price."""


@dataclass(frozen=True, slots=True)
class NightEvidence:
    """Evidence of a night: for windows, for their ceiling, for standings."""

    window: Night
    ceiling: Night
    standing: Night


@dataclass(frozen=True)
class ModelNights:
    """One model's nights of one secret, in order, but those that were audited by a plan of one run.

    Attributes:
        model: whose.
        rows: what is stored of each but its wealth, in the order of days.
        wanted: indices of the nights that are asked about, ascending; not empty.
        firsts: of nights of which a later audit counts, what is stored of the first, by index.
    """

    model: str
    rows: pl.DataFrame
    wanted: list[int]
    firsts: Mapping[int, Mapping[str, Any]]

    @functools.cached_property
    def ids(self) -> list[str]:
        """Return each night's audit."""
        return self.rows["audit_id"].to_list()

    @functools.cached_property
    def days(self) -> list[dt.date]:
        """Return each night's day."""
        return self.rows["day"].to_list()

    @functools.cached_property
    def claims(self) -> list[tuple[object, ...]]:
        """Return each night's claim and mode of trust; only nights of one stand in one window."""
        return self.rows.select(*_CLAIM, TRUST).rows()

    @functools.cached_property
    def starts(self) -> list[int]:
        """Return the index of the night with which each one's standing begins."""
        starts: list[int] = []
        for place, price in enumerate(self.rows["standing_price"]):
            begun = starts[-1] if starts else 0
            changed = place > 0 and self.claims[place] != self.claims[place - 1]
            over = place - begun >= standing_length(price or 0.0)
            starts.append(place if changed or over else begun)
        return starts

    def series(self) -> list[list[str]]:
        """Return the nights' ids; where first audits had the same claim, also as these have it."""
        first = {
            place: row["audit_id"]
            for place, row in self.firsts.items()
            if tuple(row[name] for name in _CLAIM) == self.claims[place][: len(_CLAIM)]
        }
        at_first = [first.get(place, one) for place, one in enumerate(self.ids)]
        return [self.ids, at_first] if first else [self.ids]

    def recurs(self, start: int, place: int) -> NDArray[np.bool_]:
        """Return whether labels come again on the nights of a standing up to `place`."""
        return recurs_from(
            self.rows["holdout_sketch"][start : place + 1].to_list(),
            recurring=bool(self.rows["labels_recur"][start]),
        )

    def needed(self) -> set[int]:
        """Return the nights whose wealth some wanted night's window or standing needs."""
        needed: set[int] = set()
        for place in self.wanted:
            needed.update(range(min(self.starts[place], self.window_of(place)), place + 1))
        return needed

    def window_of(self, place: int) -> int:
        """Return the index of the first night within the days of the window that ends with one."""
        earliest = max(1, self.days[place].toordinal() - WINDOW + 1)  # the calendar's first at most
        return bisect.bisect_left(self.days, dt.date.fromordinal(earliest))


def model_nights(warehouse: Warehouse, audits: pl.DataFrame) -> Iterator[ModelNights]:
    """Yield the current nights of every secret of these models, where some are asked about.

    Without exploratory ones: whoever chooses a seed chooses what a night adds to the others.
    """
    models = audits["model"].unique()
    current = warehouse.current(every_secret=True, models=models, columns=OF_AUDITS)
    wealth = (
        warehouse.scan("audit_wealth")
        .filter(pl.col("model").is_in(models.implode()))
        .filter(pl.col("window_price").is_not_null())
        .select(*NAMED, *dict.fromkeys((*OF_STANDINGS, *_CLAIM)))
    )
    stored = warehouse.collect(
        wealth.join(current.lazy().select(OF_AUDITS), on=NAMED, how="inner")
        .filter(CONFIGURED)
        .sort("model", "secret", "day")
    )
    firsts = _firsts(warehouse, stored, wealth)
    asked = set(audits["audit_id"])
    for (model, secret), rows in stored.group_by("model", "secret", maintain_order=True):
        wanted = [place for place, one in enumerate(rows["audit_id"]) if one in asked]
        if wanted:
            named = ((model, secret, day) for day in rows["day"])
            first = {place: firsts[key] for place, key in enumerate(named) if key in firsts}
            yield ModelNights(str(model), rows, wanted, first)


def _firsts(
    warehouse: Warehouse, nights: pl.DataFrame, wealth: pl.LazyFrame
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return the first audit of each night of which a later one counts, by the same method."""
    first = warehouse.first_audits(nights["model"].unique())
    if first.is_empty():
        return {}
    others = first.join(nights, on="audit_id", how="anti").join(
        nights, on=("model", "day", "secret", "method_version"), how="semi"
    )
    stored = wealth.join(others.lazy().select("audit_id", "secret"), on="audit_id", how="inner")
    rows = warehouse.collect(stored).iter_rows(named=True)
    return {(row["model"], row["secret"], row["day"]): row for row in rows}


def in_groups(histories: Iterable[ModelNights]) -> Iterator[list[ModelNights]]:
    """Yield models whose wealth is read together, so that memory does not grow with the nights."""
    some: list[ModelNights] = []
    held = 0
    for history in histories:
        some.append(history)
        held += len(history.needed())
        if held >= _AT_ONCE:
            yield some
            some, held = [], 0
    if some:
        yield some


def evidence_of(warehouse: Warehouse, histories: Iterable[ModelNights]) -> dict[str, NightEvidence]:
    """Return the evidence of every audit that some window needs; none of a row that has none."""
    needed = {
        ids[one]: history.days[one]
        for history in histories
        for ids in history.series()
        for one in history.needed()
    }
    first, last = min(needed.values()), max(needed.values())
    stored = warehouse.collect(
        warehouse.scan("audit_wealth")
        .filter(pl.col("day") >= first, pl.col("day") <= last)  # whole files are passed over
        .filter(pl.col("audit_id").is_in(list(needed)))
        .select(
            "audit_id",
            "window_log_wealth",
            "window_price",
            "ceiling_log_wealth",
            "standing_log_wealth",
            "standing_price",
        )
    )
    nights = {}
    for audit_id, window, price, ceiling, standing, standing_price in zip(
        stored["audit_id"],
        _strategies(stored["window_log_wealth"]),
        stored["window_price"],
        _strategies(stored["ceiling_log_wealth"]),
        _strategies(stored["standing_log_wealth"]),
        stored["standing_price"],
        strict=True,
    ):
        if window is None or ceiling is None:  # no audit writes a price without wealth
            continue
        one = Night(window, price)
        nights[audit_id] = NightEvidence(
            window=one,
            ceiling=Night(ceiling, price),
            standing=one if standing is None else Night(standing, standing_price),
        )
    return nights


def _strategies(lists: pl.Series) -> list[NDArray[np.float64] | None]:
    """Return each night's wealth by strategy and point; None where it is null."""
    lengths: list[int | None] = lists.list.len().to_list()
    flat = lists.explode(empty_as_null=False, keep_nulls=False).to_numpy()
    nights: list[NDArray[np.float64] | None] = []
    begin = 0
    for length in lengths:
        if length is None:
            nights.append(None)
            continue
        whole = length - length % WINDOW_EPSILONS.size
        nights.append(flat[begin : begin + whole].reshape(-1, WINDOW_EPSILONS.size))
        begin += length
    return nights
