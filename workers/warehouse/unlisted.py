"""Models that were audited lately and that no settings list any more."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from workers.warehouse.store import Warehouse

LATELY = dt.timedelta(days=7)
"""A model is missed for so long after its last audited day; then it counts as retired."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A model that is missed.

    Attributes:
        model: its name.
        last_day: the last day that was audited.
        successors: listed models on the same dataset whose first audit came afterwards: it may
            have been renamed to one of them.
    """

    model: str
    last_day: dt.date
    successors: tuple[str, ...]

    def sentence(self) -> str:
        """Return what happened, and what to do."""
        renamed = (
            f" {' and '.join(self.successors)} began on the same dataset since: a new name begins "
            "a new standing, and leaves the old one behind."
            if self.successors
            else ""
        )
        return (
            f"{self.model} was last audited for {self.last_day}, and the settings no longer list "
            f"it.{renamed} List it again, or note why it was retired."
        )


def unlisted_models(
    warehouse: Warehouse, listed: Iterable[str], day: dt.date
) -> tuple[Unlisted, ...]:
    """Return the models with an audit in the week before `day` that are not `listed`."""
    names = set(listed)
    spans = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.all_horizontal(pl.col("model", "day").is_not_null()))
        .sort("day")
        .group_by("model")
        .agg(
            pl.col("day").min().alias("first_day"),
            pl.col("day").max().alias("last_day"),
            pl.col("dataset").drop_nulls().last(),
        )
        .sort("model")
    )
    rows = spans.to_dicts()
    return tuple(
        Unlisted(
            row["model"],
            row["last_day"],
            tuple(
                other["model"]
                for other in rows
                if other["model"] in names
                and other["dataset"] is not None
                and other["dataset"] == row["dataset"]
                and other["first_day"] > row["last_day"]
            ),
        )
        for row in rows
        if row["model"] not in names and day - LATELY <= row["last_day"] < day
    )
