"""Rows of the report: current audits, the details of each model's last figures, shared labels."""

import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from flows.settings import PolicySettings, TogetherSettings
from workers.plain_text import plain_text
from workers.warehouse.acknowledgements import Acknowledgement, acknowledgements
from workers.warehouse.nights_together import AuditedNight, with_windows
from workers.warehouse.schema import (
    BoundRow,
    NoteKind,
    PromiseRow,
    ReliabilityRow,
    SliceRow,
    Status,
)
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import TableRow, typed_rows
from workers.warehouse.together import Together, together

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedLabels:
    """Labels on which several models were trained.

    Attributes:
        models: those that were trained on them; none where that is not known.
        sentence: what the models promise together, and whether the total is kept.
    """

    labels: str
    models: tuple[str, ...]
    sentence: str
    exceeded: bool


def shared_labels(
    warehouse: Warehouse, day: dt.date | None, total: TogetherSettings | None
) -> tuple[SharedLabels, ...]:
    """Return the labels of a day that several models share, those that exceed the total first.

    A row that is not of its table costs no page: one entry then says what is missing.
    """
    if day is None:
        return ()
    try:
        found = [
            _shared(one, total)
            for one in together(warehouse, day, delta=0.0 if total is None else total.delta)
            if one.trainings > 1
        ]
    except Exception as error:  # noqa: BLE001  # as for a model's page
        _log.exception("Models on the same labels cannot be shown.")
        why = f"Models on the same labels cannot be shown ({type(error).__name__})."
        return (SharedLabels("all", (), why, exceeded=False),)
    return tuple(sorted(found, key=lambda one: (not one.exceeded, one.labels)))


def shared_by(model: str, shared: Iterable[SharedLabels]) -> tuple[SharedLabels, ...]:
    """Return the labels on which a model was trained, or may have been."""
    return tuple(one for one in shared if not one.models or model in one.models)


def _shared(found: Together, total: TogetherSettings | None) -> SharedLabels:
    return SharedLabels(
        plain_text(found.dataset),
        found.models,
        plain_text(found.sentence(None if total is None else total.epsilon)),
        exceeded=total is not None and found.exceeds(total.epsilon),
    )


FEWEST_RECORDS = 10
"""No bin of fewer records is shown, whatever the warehouse holds."""

PARTS: dict[str, type[TableRow]] = {
    "bounds": BoundRow,
    "promises": PromiseRow,
    "slices": SliceRow,
    "reliability": ReliabilityRow,
}
"""Parts of a record that a model's page shows; each may be empty, as in older records."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows that the report draws.

    Attributes:
        audits: the current record of each model and day, with the columns of `AuditedNight`, in no
            order.
        beside: by the names of `PARTS`, their rows, at least those of each model's last figures.
        withdrawals: model, day, when and why of each record that was taken back, newest first.
        acknowledged: acknowledgements of violations, oldest first.
        secrets: the latest record of each model and other secret than the label, by name.
        shared: labels of the newest night on which several models were trained.
        policy: of the settings; None where none is set.
    """

    audits: pl.DataFrame
    beside: Mapping[str, pl.DataFrame]
    withdrawals: pl.DataFrame = field(default_factory=pl.DataFrame)
    acknowledged: tuple[Acknowledgement, ...] = ()
    secrets: tuple[AuditedNight, ...] = ()
    shared: tuple[SharedLabels, ...] = ()
    policy: PolicySettings | None = None

    def by_model(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield each model, by name, with its audits."""
        # Looked for once: of years of nights, a filter for each takes longer than the pages.
        listed = self.audits.select("model").with_row_index("place").group_by("model").agg("place")
        listed = listed.sort("model")
        for model, places in zip(listed["model"], listed["place"], strict=True):
            yield model, self.audits[places]

    def details(self, audit_id: str) -> dict[str, tuple[TableRow, ...]]:
        """Return the parts of one audit, without bins of too few records."""
        enough, mine = pl.col("records") >= FEWEST_RECORDS, pl.col("audit_id") == audit_id
        of = {name: [mine, enough] if name == "reliability" else [mine] for name in PARTS}
        return {
            name: typed_rows(kind, self.beside[name].filter(*of[name]))
            for name, kind in PARTS.items()
        }


def read_tables(warehouse: Warehouse) -> Tables:
    """Return what the report needs of a warehouse."""
    current = warehouse.current(every_secret=True, in_order=False)
    everything = with_windows(warehouse, current)
    of_labels = pl.col("secret") == "label"
    secrets = everything.filter(~of_labels).sort("day").unique(("model", "secret"), keep="last")
    audits = everything if secrets.is_empty() else everything.filter(of_labels)
    last = (
        audits.select("model", "day", "status", "audit_id")  # all columns would be held three times
        .filter(pl.col("status") == Status.EVALUATED)
        .sort("day")
        .unique("model", keep="last")["audit_id"]
        .implode()
    )
    of_last = pl.col("audit_id").is_in(last)
    beside = {
        name: warehouse.collect(warehouse.scan(f"audit_{name}").filter(of_last)) for name in PARTS
    }
    withdrawals = warehouse.collect(
        warehouse.notes(NoteKind.WITHDRAWN)
        .select("audit_id", "noted_at", "why")
        .join(warehouse.scan("audits").select("audit_id", "model", "day"), on="audit_id")
        .sort("noted_at", "audit_id", descending=True)
    )
    return Tables(
        audits,
        beside,
        withdrawals=withdrawals,
        acknowledged=acknowledgements(warehouse),
        secrets=typed_rows(AuditedNight, secrets.sort("model", "secret")),
    )
