"""Drills: whether the same learner without a mechanism is refuted, night by night.

A model that forgets its labels looks the same with and without a mechanism. Its drill, another
audited model that is trained on the same rows without one, shows whether a dropped mechanism would
be seen: its e-values are held against what the first model declares.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from privcore.guarantees import Relation
from privcore.lower_bounds import WINDOW_EPSILONS, refutes
from workers.warehouse.standings import standings
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse

_OF_STANDINGS = ("standing_price", "labels_recur", "holdout_sketch", "method_version")
_GAUSSIAN = "gaussian"


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
