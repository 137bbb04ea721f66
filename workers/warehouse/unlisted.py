"""Models, and secrets of them, that were audited lately and that no settings list any more."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from privcore.lower_bounds import Secret
from workers.warehouse.store import CONFIGURED, POSSIBLE_DAY, Warehouse

LATELY = dt.timedelta(days=7)
"""A model is missed for so long after its last audited day; then it counts as retired."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A model that is missed, or one secret of it.

    Attributes:
        model: its name.
        last_day: the last day that was audited.
        secret: of a listed model, the one whose audit is missed; None where the model is.
    """

    model: str
    last_day: dt.date
    secret: str | None = None

    def sentence(self) -> str:
        """Return what happened, and what to do."""
        if self.secret is not None:
            return (
                f"The {self.secret} audit of {self.model} was last made for {self.last_day}, and "
                "the settings no longer ask for it. Ask for it again, or note why it ended."
            )
        return (
            f"{self.model} was last audited for {self.last_day}, and the settings no longer list "
            "it. List it again, or note why it was retired."
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
    last = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model").is_not_null(), POSSIBLE_DAY)  # a day to come hides that one went
        .filter((pl.col("secret") == Secret.LABEL) | CONFIGURED)
        .group_by("model", of="secret")
        .agg(pl.col("day").max())
        .filter(pl.col("day") >= day - LATELY, pl.col("day") < day)
        .sort("model", "of")
    )
    return tuple(
        Unlisted(model, last_day, of if model in names else None)
        for model, of, last_day in last.iter_rows()
        if (model, of) not in pairs and (model in names or of == Secret.LABEL)
    )
