"""Models, and secrets of them, that were audited lately and that no settings list any more."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.lower_bounds import Secret
from workers.warehouse.store import CONFIGURED, POSSIBLE_DAY, Warehouse

LATELY = dt.timedelta(days=7)
"""A model is missed for so long after its last audited day; then it counts as retired."""
_BESIDE = dt.timedelta(days=28)
"""Time for which a new name may be listed beside the old one."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A model that is missed, or one secret of it.

    Attributes:
        model: its name.
        last_day: the last day that was audited.
        successors: listed models on the same dataset whose first audit came afterwards, or in the
            four weeks before its last: it may have been renamed to one of them.
        secret: of a listed model, the one whose audit is missed; None where the model is.
    """

    model: str
    last_day: dt.date
    successors: tuple[str, ...] = ()
    secret: str | None = None

    def sentence(self) -> str:
        """Return what happened, and what to do."""
        if self.secret is not None:
            return (
                f"The {self.secret} audit of {self.model} was last made for {self.last_day}, and "
                "the settings no longer ask for it. Ask for it again, or note why it ended."
            )
        renamed = (
            f" {' and '.join(self.successors)} began on the same dataset since, or shortly before: "
            "a new name begins a new standing, and leaves the old one behind."
            if self.successors
            else ""
        )
        return (
            f"{self.model} was last audited for {self.last_day}, and the settings no longer list "
            f"it.{renamed} List it again, or note why it was retired."
        )


def unlisted_models(
    warehouse: Warehouse, listed: Iterable[tuple[str, str]], day: dt.date
) -> tuple[Unlisted, ...]:
    """Return what was audited in the week before `day` and is not `listed`, models or secrets.

    Args:
        warehouse: of the audits.
        listed: the models, each with the secrets that the settings ask for, as records name them.
        day: the audited day.
    """
    pairs = set(listed)
    names = {model for model, _ in pairs}
    # What a person asked for once, by a plan of their own, is missed by nobody.
    spans = warehouse.collect(
        warehouse.scan("audits")
        # A day to come would hide that the model went.
        .filter(pl.col("model").is_not_null(), POSSIBLE_DAY)
        .filter((pl.col("secret") == Secret.LABEL) | CONFIGURED)
        .sort("day")
        .group_by("model", of="secret")
        .agg(
            pl.col("day").min().alias("first_day"),
            pl.col("day").max().alias("last_day"),
            pl.col("dataset").drop_nulls().last(),
        )
        .sort("model", "of")
    )
    rows = spans.to_dicts()
    lately = [row for row in rows if day - LATELY <= row["last_day"] < day]
    return tuple(
        Unlisted(row["model"], row["last_day"], secret=row["of"])
        if row["model"] in names
        else Unlisted(row["model"], row["last_day"], _successors(row, rows, names))
        for row in lately
        if (row["model"], row["of"]) not in pairs
        and (row["model"] in names or row["of"] == Secret.LABEL)
    )


def _successors(
    row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], names: set[str]
) -> tuple[str, ...]:
    """Return the listed models that began on a model's dataset after it ended, or not long before.

    For some nights both names may be listed.
    """
    since = max(row["first_day"], row["last_day"] - _BESIDE)
    return tuple(
        other["model"]
        for other in rows
        if other["model"] in names
        and other["of"] == Secret.LABEL
        and other["dataset"] is not None
        and other["dataset"] == row["dataset"]
        and other["first_day"] > since
    )
