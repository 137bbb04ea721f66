"""Changes of a model's declaration, settings and checkpoints as the public may know them.

No label decides them. Which nights came to figures depends on labels. So nights are compared
whatever they came to.
"""

import datetime as dt
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import cast

import polars as pl

from workers.warehouse.declaration_changes import COLUMNS, DATASET, LABEL_COLUMN, declaration_change
from workers.warehouse.input_changes import as_proxy, other_proxies
from workers.warehouse.night_columns import CONTRADICTORY
from workers.warehouse.settings_changes import COLUMNS as OF_SETTINGS
from workers.warehouse.settings_changes import settings_change
from workers.warehouse.store import Warehouse

_DIGITS = 12
_log = logging.getLogger(__name__)
_COMPARED = ("audit_id", "model", "day", *COLUMNS, DATASET, LABEL_COLUMN, *OF_SETTINGS)


@dataclass(frozen=True, slots=True)
class PublicChange:
    """Change from one night to the next, in words; None where there is none.

    Attributes:
        model: whose nights.
        day: of the later night.
        declaration: how the declaration, or whose labels are audited, changed.
        settings: how plan and places changed.
        checkpoint: how target or proxy differ from what was audited first on its day.
        training: that training rows come again unsaid (`workers.publication.training_again`).
    """

    model: str
    day: dt.date
    declaration: str | None = None
    settings: str | None = None
    checkpoint: str | None = None
    training: str | None = None


def public_changes(warehouse: Warehouse, audits: pl.DataFrame) -> Iterator[PublicChange]:
    """Yield the changes of these audits against the night before, of labels alone.

    The night before is the model's last one whose labels were read, with figures or without.
    Checkpoints are held against the first record of their own day.
    """
    models = audits["model"].unique()
    current = warehouse.current(models=models, columns=_COMPARED, public=True)
    asked = set(audits["audit_id"])
    for (model,), nights in current.filter(pl.col(DATASET).is_not_null()).group_by("model"):
        try:
            yield from list(_of_model(nights.sort("day"), asked))
        except Exception:  # noqa: BLE001  # rows that were forged cost no other model its alerts
            _log.exception("Nights of %s cannot be compared.", model)
            last = audits.filter(pl.col("model") == model)["day"].max()
            yield PublicChange(str(model), cast("dt.date", last), settings=CONTRADICTORY)
    yield from _replaced(warehouse, audits)


def _of_model(nights: pl.DataFrame, asked: Collection[str]) -> Iterator[PublicChange]:
    """Yield the changes of declaration and settings of one model's nights, in order."""
    before = configured = None
    for night in nights.iter_rows(named=True):
        if night["audit_id"] in asked:
            declared = declaration_change(before, night)
            changed = settings_change(configured, night)
            if declared is not None or changed is not None:
                yield PublicChange(night["model"], night["day"], declared, changed)
        before = night
        configured = configured if night["exploratory"] else night


def _replaced(warehouse: Warehouse, audits: pl.DataFrame) -> Iterator[PublicChange]:
    """Yield which audits had another target or proxy than the first record of its day.

    The first, since what labels made of an audit decides which record of a day is current.
    """
    days = pl.concat([audits["day"], audits["proxy_day"]]).drop_nulls().unique()
    first = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model").is_in(audits["model"].unique().implode()))
        .filter(pl.col("day").is_in(days.implode()), pl.col("target_sha256").is_not_null())
        .sort("revision", "recorded_at", "audit_id")
        .unique(("model", "day"), keep="first", maintain_order=True)
        .select("model", "day", was="target_sha256")
    )
    for of_day, digest, name in (
        ("day", "target_sha256", "checkpoint"),
        ("proxy_day", "proxy_sha256", "proxy's checkpoint"),
    ):
        found = audits.join(first.rename({"day": of_day}), on=("model", of_day))
        for night in found.filter(pl.col("was") != pl.col(digest)).iter_rows(named=True):
            yield PublicChange(
                night["model"],
                night["day"],
                checkpoint=(
                    f"The {name}, of {night[of_day]}, was replaced after that day's audit: its "
                    f"SHA-256 digest began with {night['was'][:_DIGITS]} as the target then, and "
                    f"begins with {night[digest][:_DIGITS]} here."
                ),
            )
    for night in other_proxies(warehouse, audits).iter_rows(named=True):
        yield PublicChange(night["model"], night["day"], checkpoint=as_proxy(night))
