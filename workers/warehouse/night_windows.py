"""Evidence over many nights and over the models of a night, derived from what is stored."""

import bisect
import datetime as dt
import functools
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import same_holdout
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Night,
    false_discovery_qvalues,
    standing_epsilons,
    standing_length,
    window_epsilons,
)
from workers.warehouse.declaration_changes import DATASET, LABEL_COLUMN, declaration_change
from workers.warehouse.input_changes import input_changes
from workers.warehouse.settings_changes import COLUMNS as OF_SETTINGS
from workers.warehouse.settings_changes import settings_change
from workers.warehouse.standings import COLUMNS as OF_STANDINGS
from workers.warehouse.standings import by_recurrence, recurs_from
from workers.warehouse.standings import standings as model_standings
from workers.warehouse.store import Warehouse

WINDOWS = (7, 28)
_COLUMNS = {days: f"epsilon_lower_{days}_days" for days in WINDOWS}
EPSILON_CEILING = f"epsilon_ceiling_{WINDOWS[-1]}_days"
AVERAGED = "nights_averaged"
EPSILON_STANDING = "epsilon_standing"
STANDING = "standing"
DECLARATION_CHANGE = "declaration_change"
SETTINGS_CHANGE = "settings_change"
MEANINGS = {
    **{
        column: f"Bound over the {days} days up to this one, under this day's claim; 0 where none."
        for days, column in _COLUMNS.items()
    },
    EPSILON_CEILING: f"The most that the nights of these {WINDOWS[-1]} days could have proved "
    "together, with their holdouts, if every prediction on a training record had been correct. "
    "Null where a night was recorded before 2026-11-25.",
    AVERAGED: f"Whether labels or the holdout come again within these {WINDOWS[-1]} days, so that "
    "nights are averaged and not multiplied.",
    EPSILON_STANDING: "Bound from all nights since family, delta, relation or the method last "
    f"changed, at most {STANDING_NIGHTS}, with delta {WINDOW_NIGHTS}; it may be watched every day "
    "and never falls. 0 where none.",
    STANDING: "violated where all nights, each held against what was declared for it, refute that "
    "every declaration was true; else consistent. Null where nothing is declared and nothing is "
    "refuted.",
    DECLARATION_CHANGE: "How the declaration, or whose labels are audited, differs from the "
    "model's evaluated night before, in words; null where it does not.",
    SETTINGS_CHANGE: "How the plan, or the place of scores, labels or checkpoints, differs from "
    "the model's evaluated night before, or that the holdout comes again from this night on, in "
    "words; null where neither is so.",
}
"""Meanings of the columns of `epsilon_windows`."""
_CLAIM = ("family", "delta", "classes", "neighbors", "labels_recur", "method_version")
_STANDING_SHARE = 0.25  # of a night's significance: one fifth of the plan's against four


_CONTRADICTORY = (
    "Stored rows of these nights contradict each other, which no audit writes, so that nothing is "
    "derived from nights together: restore the warehouse from a copy, and see who may write there."
)
_log = logging.getLogger(__name__)
_AT_ONCE = 20_000
"""Number of nights whose wealth is held at once: 90 MB, twice that where delta has a price."""


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Evidence of one night: for windows, for their ceiling (None where unknown), for standings."""

    window: Night
    ceiling: Night | None
    standing: Night


@dataclass(frozen=True, slots=True)
class _Nights:
    """One model's nights of one secret, in order.

    Attributes:
        model: whose.
        rows: what is stored of each but its wealth, in the order of days.
        ids: of each audit.
        days: of each.
        claims: of each; only nights of one claim stand in one window.
        starts: index of the night with which each one's standing begins.
        exploratory: of each whether its plan was one run's alone.
        wanted: indices of the nights that are asked about, ascending; not empty.
    """

    model: str
    rows: pl.DataFrame
    ids: list[str]
    days: list[dt.date]
    claims: list[tuple[object, ...]]
    starts: list[int]
    exploratory: list[bool | None]
    wanted: list[int]

    def compared(self) -> list[int]:
        """Return the wanted nights and those that each is compared with, ascending."""
        return sorted(
            {
                one
                for place in self.wanted
                for one in (place - 1, self.configured_before(place), place)
                if one >= 0
            }
        )

    def configured_before(self, place: int) -> int:
        """Return the last night before one that was audited as the settings said; -1 for none."""
        while place > 0:
            place -= 1
            if not self.exploratory[place]:
                return place
        return -1

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
            earliest = self.days[place] - dt.timedelta(days=max(WINDOWS) - 1)
            first = min(self.starts[place], bisect.bisect_left(self.days, earliest))
            needed.update(range(first, place + 1))
        return needed


def with_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return current audits with what other nights and models add to each.

    Columns added: those of `epsilon_windows`; `claim_qvalue`, e-BH's over the models of the same
    night; and `inputs_changed`, what of the inputs an earlier record had otherwise.
    """
    windows = epsilon_windows(warehouse, audits).select("audit_id", *MEANINGS)
    ids = audits.select("audit_id")
    added = ids.join(windows, on="audit_id", how="left", maintain_order="left").drop("audit_id")
    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    # Beside the columns that are there: a join of all would copy them.
    return audits.hstack(added).with_columns(
        _qvalues(audits), pl.Series("inputs_changed", changed, dtype=pl.String)
    )


def epsilon_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return what the nights up to each of the evaluated `audits` prove together.

    Columns: `model`, `day`, `audit_id` and those of `MEANINGS`. Windows hold the nights under the
    claim of their last (family, delta, relation, classes, whether labels recur) that the same
    version of the method made; `epsilon_standing` begins with the first night after which none of
    these changed, and anew after 128 nights, with delta 28. Nights are averaged where labels recur,
    by the plan or since a holdout comes again (`recurs_from`). `standing` is
    `workers.warehouse.standings`'s. Nights of methods before the fourth have no wealth and are left
    out. All is derived anew at each reading, since a
    later record may supersede a night. Nights whose rows contradict each other, which no audit
    writes, have null in all columns, and the last one's `settings_change` says so.
    """
    significance = dict(audits.select("audit_id", "significance").iter_rows())
    found: list[dict[str, object]] = []
    for histories in _together(_histories(warehouse, audits)):
        wealth, settings = _wealth(warehouse, histories), _settings(warehouse, histories)
        for history in histories:
            try:
                found += list(_of_model(history, wealth, settings, significance))
            except Exception:  # noqa: BLE001  # rows that were forged cost no other model its own
                _log.exception("Nights of %s cannot be read together.", history.model)
                found += _unreadable(history)
    schema: dict[str, type[pl.DataType]] = {
        "model": pl.String,
        "day": pl.Date,
        "audit_id": pl.String,
        **dict.fromkeys((*_COLUMNS.values(), EPSILON_CEILING), pl.Float64),
        AVERAGED: pl.Boolean,
        EPSILON_STANDING: pl.Float64,
        STANDING: pl.String,
        DECLARATION_CHANGE: pl.String,
        SETTINGS_CHANGE: pl.String,
    }
    return pl.DataFrame(found, schema=schema).sort("day", "model")


def _histories(warehouse: Warehouse, audits: pl.DataFrame) -> Iterator[_Nights]:
    """Yield the current nights of every secret of these models, where some are asked about."""
    models = audits["model"].unique()
    current = warehouse.current(
        every_secret=True,
        models=models,
        columns=(
            "audit_id",
            "secret",
            "delta_declared",
            "mechanism",
            DATASET,
            LABEL_COLUMN,
            "exploratory",
        ),
    ).lazy()
    stored = warehouse.collect(
        warehouse.scan("audit_wealth")
        .filter(pl.col("model").is_in(models.implode()))
        .filter(pl.col("window_price").is_not_null())
        .select("audit_id", "model", "day", *dict.fromkeys((*OF_STANDINGS, *_CLAIM)))
        .join(current, on="audit_id", how="inner")
        .with_columns(pl.col("secret").fill_null("label"))
        .sort("model", "secret", "day")
    )
    asked = set(audits["audit_id"])
    for (model, _), rows in stored.group_by("model", "secret", maintain_order=True):
        ids = rows["audit_id"].to_list()
        wanted = [place for place, audit_id in enumerate(ids) if audit_id in asked]
        if wanted:
            claims = rows.select(_CLAIM).rows()
            starts = _starts(claims, rows["standing_price"].to_list())
            yield _Nights(
                model=str(model),
                rows=rows,
                ids=ids,
                days=rows["day"].to_list(),
                claims=claims,
                starts=starts,
                exploratory=rows["exploratory"].to_list(),
                wanted=wanted,
            )


def _starts(claims: Sequence[tuple[object, ...]], prices: Sequence[float | None]) -> list[int]:
    """Return with which night each one's standing begins."""
    starts: list[int] = []
    for place, (claim, price) in enumerate(zip(claims, prices, strict=True)):
        begun = starts[-1] if starts else 0
        changed = place > 0 and claim != claims[place - 1]
        starts.append(place if changed or place - begun >= standing_length(price or 0.0) else begun)
    return starts


def _together(histories: Iterable[_Nights]) -> Iterator[list[_Nights]]:
    """Yield models whose wealth is read together, so that memory does not grow with the nights."""
    some: list[_Nights] = []
    held = 0
    for history in histories:
        some.append(history)
        held += len(history.needed())
        if held >= _AT_ONCE:
            yield some
            some, held = [], 0
    if some:
        yield some


def _wealth(warehouse: Warehouse, histories: Iterable[_Nights]) -> dict[str, _Evidence]:
    """Return the evidence of every audit that some window needs."""
    needed = {
        history.ids[one]: history.days[one] for history in histories for one in history.needed()
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
        assert window is not None  # noqa: S101  # what has a price has wealth
        one = Night(window, price)
        nights[audit_id] = _Evidence(
            window=one,
            ceiling=None if ceiling is None else Night(ceiling, price),
            standing=one if standing is None else Night(standing, standing_price),
        )
    return nights


def _settings(
    warehouse: Warehouse, histories: Iterable[_Nights]
) -> dict[str, Mapping[str, object]]:
    """Return the settings of every audit that is compared with the night before or after it."""
    days = {
        history.ids[one]: history.days[one] for history in histories for one in history.compared()
    }
    stored = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("day") >= min(days.values()), pl.col("day") <= max(days.values()))
        .filter(pl.col("audit_id").is_in(list(days)))
        .select("audit_id", *OF_SETTINGS)
    )
    return {row["audit_id"]: row for row in stored.iter_rows(named=True)}


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


def _of_model(
    history: _Nights,
    wealth: Mapping[str, _Evidence],
    settings: Mapping[str, Mapping[str, object]],
    significance: Mapping[str, float],
) -> Iterator[dict[str, object]]:
    """Yield the windows and standings that end with each wanted night of one model."""
    windows = _windows(history, wealth, significance)
    standing = _epsilons_standing(history, wealth, significance)
    verdicts, repeated = _verdicts(history, significance), _first_repeats(history)
    places = history.compared()
    nights = history.rows[places].rows(named=True)
    rows = {
        place: night | dict(settings[night["audit_id"]])
        for place, night in zip(places, nights, strict=True)
    }
    for place in history.wanted:
        row, before = rows[place], rows.get(place - 1)
        changed = settings_change(rows.get(history.configured_before(place)), row)
        yield {
            "model": history.model,
            "day": row["day"],
            "audit_id": row["audit_id"],
            **windows[place],
            EPSILON_STANDING: standing[place],
            STANDING: verdicts[place],
            DECLARATION_CHANGE: declaration_change(before, row),
            SETTINGS_CHANGE: " ".join(filter(None, (changed, repeated.get(place)))) or None,
        }


def _unreadable(history: _Nights) -> Iterator[dict[str, object]]:
    """Yield a model's wanted nights without figures; the last one says why."""
    for place in history.wanted:
        last = place == history.wanted[-1]
        yield {
            "model": history.model,
            "day": history.days[place],
            "audit_id": history.ids[place],
            SETTINGS_CHANGE: _CONTRADICTORY if last else None,
        }


def _windows(
    history: _Nights,
    wealth: Mapping[str, _Evidence],
    significance: Mapping[str, float],
) -> dict[int, dict[str, float | bool | None]]:
    """Return bounds of the windows that end with each wanted night, and the longest's ceiling.

    Also whether the nights of the longest are averaged.
    """
    found: dict[int, dict[str, float | bool | None]] = {place: {} for place in history.wanted}
    wanted: dict[tuple[object, ...], list[int]] = {}
    for place in history.wanted:
        wanted.setdefault(history.claims[place], []).append(place)
    for (claim, places), width in itertools.product(wanted.items(), WINDOWS):
        alike = [one for one, its in enumerate(history.claims) if its == claim]
        days = [history.days[one].toordinal() for one in alike]
        ends = [bisect.bisect_left(alike, place) + 1 for place in places]
        spans = [(bisect.bisect_right(days, days[end - 1] - width), end) for end in ends]
        said = bool(history.rows["labels_recur"][places[0]])
        before = same_holdout(history.rows["holdout_sketch"].gather(alike).to_list())
        windows = _Windows(
            days=days,
            spans=spans,
            significance=[significance[history.ids[place]] for place in places],
            recurring=[said or bool(before[slice(*span)].max() >= span[0]) for span in spans],
        )
        nights = [wealth.get(history.ids[one]) for one in alike]
        columns = {_COLUMNS[width]: [None if one is None else one.window for one in nights]}
        if width == WINDOWS[-1]:
            for place, recurs in zip(places, windows.recurring, strict=True):
                found[place][AVERAGED] = recurs
            columns[EPSILON_CEILING] = [None if one is None else one.ceiling for one in nights]
        for column, evidence in columns.items():
            for place, bound in zip(places, windows.bounds(evidence), strict=True):
                found[place][column] = bound
    return found


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows over the nights of one claim.

    Attributes:
        days: the number of each night's day, ascending.
        spans: first night of each window, and the first that it no longer holds.
        significance: of each window.
        recurring: whether labels, or the holdout, recur in each window.
    """

    days: Sequence[int]
    spans: Sequence[tuple[int, int]]
    significance: Sequence[float]
    recurring: Sequence[bool]

    def bounds(self, nights: Sequence[Night | None]) -> list[float | None]:
        """Return what each window proves; None where one of its nights is not there."""
        lacking = np.cumsum([0, *(night is None for night in nights)])
        found: list[float | None] = [None] * len(self.spans)
        for recurs in (False, True):
            some = [
                place
                for place, (first, stop) in enumerate(self.spans)
                if self.recurring[place] == recurs and lacking[first] == lacking[stop]
            ]
            if not some:
                continue
            held = np.zeros(len(nights), dtype=bool)
            for place in some:
                held[slice(*self.spans[place])] = True
            used, before = np.flatnonzero(held).tolist(), np.cumsum([0, *held]).tolist()
            bounds = window_epsilons(
                [night for one in used if (night := nights[one]) is not None],
                days=[self.days[one] for one in used],
                spans=[
                    (before[first], before[stop])
                    for first, stop in map(self.spans.__getitem__, some)
                ],
                significance=[self.significance[place] for place in some],
                recurring=recurs,
            )
            for place, bound in zip(some, bounds.tolist(), strict=True):
                found[place] = bound
        return found


def _epsilons_standing(
    history: _Nights,
    wealth: Mapping[str, _Evidence],
    significance: Mapping[str, float],
) -> dict[int, float]:
    """Return the standing's bound after each wanted night."""
    found: dict[int, float] = {}
    for start, group in itertools.groupby(history.wanted, key=lambda place: history.starts[place]):
        places = list(group)
        proved = by_recurrence(
            functools.partial(
                standing_epsilons,
                [wealth[one].standing for one in history.ids[start : places[-1] + 1]],
                significance=significance[history.ids[places[0]]] * _STANDING_SHARE,
            ),
            history.recurs(start, places[-1]),
        )
        # What was proved before a holdout came again stays proved, as the standing's verdict does:
        # two tests at the significance each.
        risen = np.maximum.accumulate(proved)
        found |= {place: float(risen[place - start]) for place in places}
    return found


def _first_repeats(history: _Nights) -> dict[int, str]:
    """Say of the night on which a standing's holdout first comes again that nights are averaged."""
    found: dict[int, str] = {}
    for start, group in itertools.groupby(history.wanted, key=lambda place: history.starts[place]):
        sketches = history.rows["holdout_sketch"][start : list(group)[-1] + 1].to_list()
        same = same_holdout(sketches)
        if history.rows["labels_recur"][start] or (same < 0).all():
            continue
        first = int(np.argmax(same >= 0))
        found[start + first] = (
            f"The holdout of {history.days[start + first]} is that of "
            f"{history.days[start + int(same[first])]}: from now on nights are averaged, since "
            "they are not independent, and together they prove less. Hold out new rows every day."
        )
    return found


def _verdicts(history: _Nights, significance: Mapping[str, float]) -> dict[int, str | None]:
    """Return how the model stands after each wanted night."""
    rows = history.rows.select(OF_STANDINGS).rows(named=True)
    found: dict[int, str | None] = {}
    for allowed in {significance[history.ids[place]] for place in history.wanted}:
        places = [one for one in history.wanted if significance[history.ids[one]] == allowed]
        found |= model_standings(rows, significance=allowed * _STANDING_SHARE, wanted=places)
    return found


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_evalue").with_row_index()
    evalue = pl.col("claim_evalue")
    for _, night in numbered.filter(evalue >= 0.0, evalue.is_not_nan()).group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_evalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)
