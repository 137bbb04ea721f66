"""Training rows that come again on other days although `plan.labels_recur` does not say so."""

import datetime as dt
from collections.abc import Collection, Iterator

import polars as pl

from privcore.attacks import nights_alike
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.public_changes import PublicChange
from workers.warehouse.store import Warehouse

_COLUMNS = ("audit_id", "model", "dataset", "day", "label_days", "training_sketch")


def days_again(warehouse: Warehouse, exact: ExactStatementRow) -> frozenset[dt.date]:
    """Return the other days of whose training rows more than about half are this night's, too.

    Their labels took part in what was published of those days. No label is read: sketches are of
    features, and of rows whether or not their label can be read.

    Args:
        warehouse: where the exact records are.
        exact: of the night.

    Raises:
        TransientError: storage kept failing.

    *Does not see* that fewer rows come again, that they come under other features, or, where less
    than nine in ten rows differ, that any but all of them do; nor records of other warehouses.
    """
    if exact.training_sketch is None:
        return frozenset()
    same = _nights(warehouse, pl.col("model") == exact.model)
    return _alike(same.filter(pl.col("dataset") == exact.dataset), exact.model_dump())


def recurrences(warehouse: Warehouse, audit_ids: Collection[str]) -> Iterator[PublicChange]:
    """Yield which of these audits are the first whose training rows were an earlier day's.

    Args:
        warehouse: where the exact records are.
        audit_ids: of the audits.

    Raises:
        TransientError: storage kept failing.
    """
    asked = _nights(warehouse, pl.col("audit_id").is_in(list(audit_ids)))
    every = _nights(warehouse, pl.col("model").is_in(asked["model"].unique().implode()))
    for night in asked.iter_rows(named=True):
        own = every.filter(
            pl.col("model") == night["model"],
            pl.col("dataset") == night["dataset"],
            pl.col("day") < night["day"],
        ).sort("day")
        again = _alike(own, night)
        if again and not _alike(own[:-1], own.row(-1, named=True)):
            yield PublicChange(
                night["model"],
                night["day"],
                training=(
                    f"More than about half of the training rows were those of {max(again)}, and "
                    "plan.labels_recur does not say so: their labels are charged on both days."
                ),
            )


def _nights(warehouse: Warehouse, which: pl.Expr) -> pl.DataFrame:
    """Return nights whose training rows can be told apart."""
    found = warehouse.scan("audit_statements").filter(
        which, pl.col("training_sketch").is_not_null()
    )
    return warehouse.collect(found.select(_COLUMNS))


def _alike(nights: pl.DataFrame, night: dict[str, object]) -> frozenset[dt.date]:
    """Return the days of nights with the training rows of one, whose days are others."""
    if nights.is_empty():
        return frozenset()
    same = nights.filter(
        nights_alike(nights["training_sketch"].to_list(), str(night["training_sketch"]))
    )
    days = set(night["label_days"])  # type: ignore[call-overload]
    found = (set(each) for each in same["label_days"].to_list())
    return frozenset().union(*(each for each in found if not each & days))
