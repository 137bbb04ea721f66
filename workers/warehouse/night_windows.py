"""Evidence over many nights, derived from what is stored, and what drills say beside it.

A model that forgets its labels looks the same with and without a mechanism. Its drill, another
audited model that is trained on the same rows without one, shows whether a dropped mechanism would
be seen: its e-values are held against what the first model declares.
"""

import datetime as dt
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from privcore.attacks import same_holdout
from privcore.guarantees import Relation
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    ReasonCode,
    refutes,
    standing_epsilons,
    window_epsilon_lower,
)
from workers.warehouse.changes import declaration_change
from workers.warehouse.model_nights import (
    ModelNights,
    NightEvidence,
    evidence_of,
    in_groups,
    model_nights,
)
from workers.warehouse.model_verdict import (
    REACH,
    least,
    nights_missing,
    open_violations,
    verdict_together,
)
from workers.warehouse.night_row import (
    AVERAGED,
    CONCLUSIVE_ON,
    DECLARATION_CHANGE,
    DRILL_REFUTED,
    EPSILON_CEILING,
    EPSILON_LOWER,
    EPSILON_STANDING,
    NIGHTS,
    NIGHTS_REMARK,
    REASON_CODE,
    REFUTED,
    SEES_FROM,
    TRUST,
    VERDICT,
    NightRow,
    NightsTogether,
)
from workers.warehouse.standings import COLUMNS as OF_STANDINGS
from workers.warehouse.standings import Standing, by_recurrence
from workers.warehouse.standings import standings as model_standings
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse
from workers.warehouse.tables import without_rows

_STANDING_SHARE = 0.25  # of a night's significance: one fifth of the plan's against four
_OF_STANDINGS = ("standing_price", "labels_recur", "holdout_sketch", "method_version")
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
    derived = ("model", "day", "audit_id", *NightsTogether.model_fields)
    schema = without_rows(NightRow).select(derived).schema
    found = [pl.DataFrame(schema=schema)]
    for histories in in_groups(model_nights(warehouse, audits)):
        rows: list[dict[str, object]] = []
        wealth = evidence_of(warehouse, histories)
        named = {name for history in histories for name in history.rows["drill"].drop_nulls()}
        drills = drill_nights(warehouse, named)
        for history in histories:
            rows += _of_model(history, wealth, drills)
        found.append(pl.DataFrame(rows, schema=schema))
    return pl.concat(found).sort("day", "model")


def _of_model(
    history: ModelNights,
    wealth: Mapping[str, NightEvidence],
    drills: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Iterator[dict[str, object]]:
    """Yield the windows and standings that end with each wanted night of one model."""
    proved = [_epsilons_standing(history, ids, wealth) for ids in history.series()]
    standing = _standings(history)
    near = sorted(standing)
    nights = history.rows[near].rows(named=True)
    still = open_violations(nights, [standing[place].refuted for place in near])
    violated = dict(zip(near, still, strict=True))
    told = _first_repeats(history)
    for place in history.wanted:
        row = history.rows.row(place, named=True)
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
            standing[place],
            open_violation=violated[place],
            ceiling=max(row["epsilon_ceiling"] or 0.0, window[EPSILON_CEILING]),
            drill_refuted=None if drilled is None else drilled > 0,
        )
        missing = nights_missing(standing[place]) if code is ReasonCode.NIGHTS_NEEDED else None
        conclusive_on = missing and row["day"] + dt.timedelta(days=missing)
        yield {
            "model": history.model,
            "day": row["day"],
            "audit_id": row["audit_id"],
            **window,
            EPSILON_STANDING: max(one[place] for one in proved),
            REFUTED: standing[place].refuted,
            NIGHTS: standing[place].nights,
            SEES_FROM: least(standing[place].sees_from, row["sees_from"]),
            CONCLUSIVE_ON: conclusive_on,
            DRILL_REFUTED: drilled,
            VERDICT: verdict,
            REASON_CODE: code,
            DECLARATION_CHANGE: declaration_change(before, row),
            NIGHTS_REMARK: told.get(place),
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
        AVERAGED: recurs,
        EPSILON_LOWER: proved([one.window for one in nights]),
        EPSILON_CEILING: proved([one.ceiling for one in nights]),
    }


def _epsilons_standing(
    history: ModelNights, ids: Sequence[str], wealth: Mapping[str, NightEvidence]
) -> dict[int, float]:
    """Return the standing's bound after each wanted night."""
    found: dict[int, float] = {}
    for start, group in itertools.groupby(history.wanted, key=lambda place: history.starts[place]):
        places = list(group)
        proved = by_recurrence(
            functools.partial(
                standing_epsilons,
                [wealth[one].standing for one in ids[start : places[-1] + 1]],
                significance=history.rows["significance"][places[0]] * _STANDING_SHARE,
            ),
            history.recurs(start, places[-1]),
        )
        # What was proved before a holdout came again stays proved, as the standing's verdict does:
        # two tests at the significance each.
        risen = np.maximum.accumulate(proved)
        found |= {place: float(risen[place - start]) for place in places}
    return found


def _first_repeats(history: ModelNights) -> dict[int, str]:
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


def _standings(history: ModelNights) -> dict[int, Standing]:
    """Return how the model stands after each wanted night, and after those near it.

    It stands refuted also where the nights refute together as each was first audited: no later
    audit takes that back, as none does of a night that refutes alone. Two tests, each at the
    significance.
    """
    rows = history.rows.select(*OF_STANDINGS, TRUST, "significance").rows(named=True)
    near = range(max(0, history.wanted[0] - REACH), history.wanted[-1] + 1)
    found: dict[int, Standing] = {}
    for allowed in {rows[place]["significance"] for place in near}:
        places = [one for one in near if rows[one]["significance"] == allowed]
        test = functools.partial(
            model_standings,
            significance=allowed * _STANDING_SHARE,
            wanted=[one for one in history.wanted if one in places],
            near=places,
        )
        found |= test(rows)
        if history.firsts:
            first = history.firsts
            at_first = test(
                [{**first.get(place, row), TRUST: row[TRUST]} for place, row in enumerate(rows)]
            )
            found |= {place: one for place, one in at_first.items() if one.refuted}
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
    for row in rows.filter(pl.col("lasting").is_not_null()).iter_rows(named=True):
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

    Args:
        night: of the model whose claim it is, with the columns of `ModelNights`.
        nights: of the drill, as `drill_nights` returns them.
        since: first day of the model's nights that stand together.
        significance: of the model's standing; a night alone is held against its own bound.
    """
    held = [
        found
        for one in nights
        if since <= one["day"] <= night["day"] and (found := against_claim(one, night)) is not None
    ]
    if not held:
        return None
    together = model_standings(held, significance=significance, wanted=(), near=range(len(held)))
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
