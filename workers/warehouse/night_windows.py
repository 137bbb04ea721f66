"""Evidence over many nights, derived from what is stored, and what drills say beside it.

A model that forgets its labels looks the same with and without a mechanism. Its drill, another
audited model that is trained on the same rows without one, shows whether a dropped mechanism would
be seen: its e-values are held against what the first model declares.
"""

import bisect
import datetime as dt
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import same_holdout
from privcore.guarantees import Relation
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    Night,
    ReasonCode,
    refutes,
    standing_epsilons,
    standing_length,
    window_epsilon_lower,
)
from workers.warehouse.changes import declaration_change
from workers.warehouse.model_verdict import (
    REACH,
    Standing,
    least,
    open_violations,
    verdict_together,
)
from workers.warehouse.schema import NightRow, NightsTogether
from workers.warehouse.standings import by_recurrence, recurs_from, standings
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, Warehouse
from workers.warehouse.tables import without_rows

WINDOW = 28
"""Length of a window in days."""
_STANDING_SHARE = 0.25  # of a night's significance: one fifth of the plan's against four
_AT_ONCE = 20_000
"""Number of nights whose wealth is held at once: 130 MB, twice that where delta has a price."""
_NAMED = ("audit_id", "model", "day")
_OF_AUDITS = (
    *(*_NAMED, "secret", "dataset", "label_column", "privacy_unit", "trust", "exploratory"),
    *("verdict", "reason_code", "significance", "epsilon_ceiling", "sees_from"),
    *("holdout_needed", "drill", "delta_declared", "mechanism"),
)
_CLAIM = ("family", "delta", "classes", "neighbors", "labels_recur", "method_version")
_OF_STANDINGS = ("standing_price", "labels_recur", "holdout_sketch", "method_version")
_OF_WEALTH = (
    *(*_NAMED, *_CLAIM, "epsilon_declared", "standing_price", "holdout_sketch"),
    *("claimed_log_wealth", "imagined_mean", "imagined_variance"),
)
_LOG_WEALTH = ("window_log_wealth", "ceiling_log_wealth", "standing_log_wealth")
_GAUSSIAN = "gaussian"


def epsilon_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return what the nights up to each of the evaluated `audits` prove together.

    Columns: `model`, `day`, `audit_id` and those of `NightsTogether`. Windows hold the nights under
    the claim of their last (family, delta, relation, classes, whether labels recur) that the same
    version of the method made; `epsilon_standing` begins with the first night after which none of
    these changed, and anew after 128 nights, with delta 28. Nights are averaged where labels recur,
    by the plan or since a holdout comes again (`recurs_from`). What they refute, and would have
    seen, is `workers.warehouse.standings`'s, the verdict `model_verdict`'s. All is derived anew,
    since a later record may supersede a night (`nights_together` stores it). An exploratory audit
    has no row here, and adds to none: whoever chooses its plan would choose what the nights prove
    together.
    """
    schema = without_rows(NightRow).select(*_NAMED, *NightsTogether.model_fields).schema
    found = [pl.DataFrame(schema=schema)]
    histories = list(model_nights(warehouse, audits))
    held = itertools.accumulate(len(history.needed()) for history in histories)
    groups = itertools.groupby(zip(histories, held, strict=True), lambda one: one[1] // _AT_ONCE)
    for some in ([history for history, _ in group] for _, group in groups):
        wealth = evidence_of(warehouse, some)
        named = {name for history in some for name in history.rows["drill"].drop_nulls()}
        drills = drill_nights(warehouse, named)
        rows = [row for history in some for row in _of_model(history, wealth, drills)]
        found.append(pl.DataFrame(rows, schema=schema))
    return pl.concat(found).sort("day", "model")


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
        rows: what is stored of each but its wealth, in the order of days.
        wanted: indices of the nights that are asked about, ascending; not empty.
        firsts: of nights of which a later audit counts, what is stored of the first, by index.
    """

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
        return self.rows.select(*_CLAIM, "trust").rows()

    @functools.cached_property
    def starts(self) -> list[int]:
        """Return the index of the night with which each one's standing begins."""
        starts: list[int] = []
        for place, price in enumerate(self.rows["standing_price"]):
            begun = starts[-1] if starts else 0
            changed = place > 0 and self.claims[place] != self.claims[place - 1]
            over = place - begun >= standing_length(price)
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
    current = warehouse.current(every_secret=True, models=models, columns=_OF_AUDITS)
    of_models = pl.col("model").is_in(models.implode())
    wealth = warehouse.scan("audit_wealth").filter(of_models).select(_OF_WEALTH)
    stored = warehouse.collect(
        wealth.join(current.lazy(), on=_NAMED, how="inner")
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
            yield ModelNights(rows, wanted, first)


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


def evidence_of(warehouse: Warehouse, histories: Iterable[ModelNights]) -> dict[str, NightEvidence]:
    """Return the evidence of every audit that some window needs."""
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
        .select("audit_id", "window_price", "standing_price", *_LOG_WEALTH)
    )
    nights = {}
    for audit_id, price, own_price, window, ceiling, own in zip(*stored.get_columns(), strict=True):
        alone = Night(_by_strategy(window), price)
        nights[audit_id] = NightEvidence(
            window=alone,
            ceiling=Night(_by_strategy(ceiling), price),
            standing=alone if own is None else Night(_by_strategy(own), own_price),
        )
    return nights


def _by_strategy(wealth: pl.Series) -> NDArray[np.float64]:
    """Return a night's log-wealth, shape (strategies, points)."""
    return wealth.to_numpy().reshape(-1, WINDOW_EPSILONS.size)


def _of_model(
    history: ModelNights,
    wealth: Mapping[str, NightEvidence],
    drills: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Iterator[dict[str, object]]:
    """Yield the windows and standings that end with each wanted night of one model."""
    lasting = _lasting(history, wealth)
    standing = _standings(history)
    near = sorted(standing)
    nights = history.rows[near].rows(named=True)
    still = open_violations(nights, [standing[place].refuted for place in near])
    violated = dict(zip(near, still, strict=True))
    for place in history.wanted:
        row, stands = history.rows.row(place, named=True), standing[place]
        before = history.rows.row(place - 1, named=True) if place else None
        window = _window(history, place, wealth)
        drilled = drill_refuted_after(
            row,
            drills.get(row["drill"], ()),
            since=history.days[history.starts[place]],
            significance=row["significance"] * _STANDING_SHARE,
        )
        verdict, code = verdict_together(
            row,
            stands,
            open_violation=violated[place],
            ceiling=max(row["epsilon_ceiling"] or 0.0, window["epsilon_ceiling_28_days"]),
            drill_refuted=None if drilled is None else drilled > 0,
        )
        missing = stands.missing if code is ReasonCode.NIGHTS_NEEDED else None
        yield {
            **{name: row[name] for name in _NAMED},
            **window,
            **lasting[place],
            "refuted_together": stands.refuted,
            "nights_together": stands.nights,
            "sees_from_together": least(stands.sees_from, row["sees_from"]),
            "conclusive_on": missing and row["day"] + dt.timedelta(days=missing),
            "drill_refuted_after": drilled,
            "verdict_together": verdict,
            "reason_code_together": code,
            "declaration_change": declaration_change(before, row),
        }


def _window(
    history: ModelNights, place: int, wealth: Mapping[str, NightEvidence]
) -> dict[str, float]:
    """Return bound and ceiling of the window that ends with a night, and whether it is averaged."""
    claim, some = history.claims[place], range(history.window_of(place), place + 1)
    alike = [one for one in some if history.claims[one] == claim]
    rows, nights = history.rows[alike], [wealth[history.ids[one]] for one in alike]
    repeat = bool(same_holdout(rows["holdout_sketch"].to_list()).max() >= 0)
    recurs = repeat or bool(rows["labels_recur"][-1])
    proved = functools.partial(
        window_epsilon_lower,
        days=[day.toordinal() for day in rows["day"]],
        significance=rows["significance"][-1],
        recurring=recurs,
    )
    return {
        "nights_averaged": recurs,
        "epsilon_lower_28_days": proved([one.window for one in nights]),
        "epsilon_ceiling_28_days": proved([one.ceiling for one in nights]),
    }


def _lasting(
    history: ModelNights, wealth: Mapping[str, NightEvidence]
) -> dict[int, dict[str, object]]:
    """Return each wanted night's bound from all nights that stand, and that its holdout returned.

    What was proved before a holdout came again stays proved, as the standing's verdict does: two
    tests at the significance each.
    """
    found: dict[int, dict[str, object]] = {}
    for start, group in itertools.groupby(history.wanted, key=history.starts.__getitem__):
        places = list(group)
        span = slice(start, places[-1] + 1)
        sketches = history.rows["holdout_sketch"][span].to_list()
        recurring = bool(history.rows["labels_recur"][start])
        proved = [
            by_recurrence(
                functools.partial(
                    standing_epsilons,
                    [wealth[one].standing for one in ids[span]],
                    significance=history.rows["significance"][places[0]] * _STANDING_SHARE,
                ),
                recurs_from(sketches, recurring=recurring),
            )
            for ids in history.series()
        ]
        risen = np.maximum.accumulate(np.max(proved, axis=0))
        for place in places:
            found[place] = {"epsilon_standing": float(risen[place - start]), "nights_remark": None}
        same = same_holdout(sketches)
        again = int(np.argmax(same >= 0))
        if same[again] >= 0 and not recurring and (first := start + again) in found:
            was = history.days[start + int(same[again])]
            found[first]["nights_remark"] = (
                f"The holdout of {history.days[first]} is that of {was}: from now on nights are "
                "averaged, since they are not independent, and together they prove less. Hold out "
                "new rows every day."
            )
    return found


def _standings(history: ModelNights) -> dict[int, Standing]:
    """Return how the model stands after each wanted night, and after those near it.

    It stands refuted also where the nights refute together as each was first audited: no later
    audit takes that back, as none does of a night that refutes alone. Two tests, each at the
    significance.
    """
    rows = history.rows.rows(named=True)
    first = [
        {**history.firsts.get(place, row), "trust": row["trust"]} for place, row in enumerate(rows)
    ]
    near = range(max(0, history.wanted[0] - REACH), history.wanted[-1] + 1)
    found: dict[int, Standing] = {}
    for allowed in {rows[place]["significance"] for place in near}:
        places = [one for one in near if rows[one]["significance"] == allowed]
        test = functools.partial(
            standings,
            significance=allowed * _STANDING_SHARE,
            wanted=[one for one in history.wanted if one in places],
            near=places,
        )
        found |= test(rows)
        if history.firsts:
            found |= {place: one for place, one in test(first).items() if one.refuted}
    return found


def drill_nights(warehouse: Warehouse, models: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the current nights of these models by name, in order; of labels alone.

    Each with what is stored of its own claim and for standings, and its `log_wealth`, shape
    (strategies, points of `WINDOW_EPSILONS`), at the standing's stakes.
    """
    named = sorted(set(models))
    if not named:
        return {}
    current = warehouse.current(
        models=pl.Series("model", named),
        columns=("audit_id", "status", "exploratory", "epsilon_lower"),
    )
    counted = current.filter(COUNTED_WITH_OTHERS).select("audit_id", "epsilon_lower")
    wealth = warehouse.scan("audit_wealth").select(
        "audit_id",
        "model",
        "day",
        "family",
        "delta",
        "neighbors",
        *_OF_STANDINGS,
        lasting=pl.coalesce("standing_log_wealth", "window_log_wealth"),
    )
    rows = warehouse.collect(wealth.join(counted.lazy(), on="audit_id").sort("model", "day"))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in named}
    for row in rows.iter_rows(named=True):
        row["log_wealth"] = np.array(row.pop("lasting")).reshape(-1, WINDOW_EPSILONS.size)
        found[row["model"]].append(row)
    return found


def drill_refuted_after(
    night: Mapping[str, Any],
    nights: Sequence[Mapping[str, Any]],
    *,
    since: dt.date,
    significance: float,
) -> int | None:
    """Return on which of its nights a drill was refuted; 0 where on none, None without nights.

    Those count (`drill_nights`) from the first night on that stands together with the `night` of
    the model whose claim it is, `since`, at the significance of that standing. A night alone is
    held against its own bound.
    """
    held = [
        found
        for one in nights
        if since <= one["day"] <= night["day"] and (found := against_claim(one, night)) is not None
    ]
    if not held:
        return None
    together = standings(held, significance=significance, wanted=(), near=range(len(held)))
    refuted = (one["alone"] or together[place].refuted for place, one in enumerate(held))
    return next((count for count, one in enumerate(refuted, 1) if one), 0)


def against_claim(drill: Mapping[str, Any], night: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a drill's night as one of a standing under another model's claim.

    None where its e-values say nothing of that claim: its delta is smaller, or one of the two is a
    Gaussian claim and the other none. The claim's epsilon is rounded up to the grid.
    """
    families = {drill["family"], night["family"]}
    alike = len(families) == 1 or _GAUSSIAN not in families
    if night["epsilon_declared"] is None or night["delta"] > drill["delta"] or not alike:
        return None
    own, asked = (Relation(one["neighbors"]).replacements for one in (drill, night))
    epsilon = night["epsilon_declared"] * (asked / own)
    place = int(np.searchsorted(WINDOW_EPSILONS, epsilon - 1e-9))
    if place == WINDOW_EPSILONS.size:
        return None
    return {
        **drill,
        "epsilon_declared": epsilon,
        "claimed_log_wealth": drill["log_wealth"][:, place],
        "alone": refutes(drill["epsilon_lower"], epsilon),
    }
