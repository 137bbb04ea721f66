"""Training rows that come again unsaid: their labels are charged on each day, and somebody hears.

Thirty statements at e' = 0.1 about the same labels proved 0.87 about one label, charged 0.1.
"""

import datetime as dt
import pathlib
from collections.abc import Callable

import pytest

from tests.support.lake import DAY
from tests.support.statements import digest
from tests.support.warehouse import evaluated, put_rows
from workers.publication.charges import OverspentError
from workers.publication.publish import publish
from workers.publication.statement_store import Statements
from workers.publication.training_again import days_again, recurrences
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.store import Warehouse

DAYS = [DAY + dt.timedelta(days=number) for number in range(4)]
KEY = b"k" * 32
SAME = digest("training rows")
HALF = SAME[:24] + digest("other rows")[24:]
"""Sketch of rows of which 12 of 32 bytes are those of others."""

Exact = Callable[..., ExactStatementRow]


def stored(folder: pathlib.Path, *rows: ExactStatementRow) -> Warehouse:
    """Return a warehouse with the records of these exact statements."""
    warehouse, records = Warehouse(str(folder / "warehouse")), []
    for row in rows:
        record = evaluated(row.model, row.day, dataset=row.dataset)
        known = {"audit_id": record.audit.audit_id}
        exact = row.model_copy(update=known)
        records.append(record.model_copy(update={"statements": (exact,)}))
    put_rows(warehouse, records)
    return warehouse


def test_days_with_the_same_training_rows_are_found(tmp_path: pathlib.Path, exact: Exact) -> None:
    nights = [
        exact(day=day, training_sketch=sketch)
        for day, sketch in zip(DAYS, (SAME, digest("new"), HALF, None), strict=True)
    ]
    others = {"training_sketch": SAME, "day": DAYS[1]}
    warehouse = stored(
        tmp_path, *nights, exact(model="b", **others), exact(dataset="views", model="c", **others)
    )
    assert [days_again(warehouse, night) for night in nights] == [
        {DAYS[2]}, frozenset(), {DAYS[0]}, frozenset(),
    ]  # fmt: skip


def test_windows_that_overlap_are_charged_by_their_days(
    tmp_path: pathlib.Path, exact: Exact
) -> None:
    """A model of two days has half of its rows again, and its statement names both days."""
    nights = [
        exact(day=DAYS[last], label_days=(DAYS[last - 1], DAYS[last]), training_sketch=SAME)
        for last in (1, 2, 3)
    ]
    warehouse = stored(tmp_path, *nights)
    assert [days_again(warehouse, night) for night in nights] == [
        {DAYS[2], DAYS[3]}, frozenset(), {DAYS[0], DAYS[1]},
    ]  # fmt: skip


def test_a_label_that_comes_again_is_charged_again(tmp_path: pathlib.Path, exact: Exact) -> None:
    nights = [exact(day=day, training_sketch=SAME) for day in DAYS[:3]]
    warehouse, statements = stored(tmp_path, *nights), Statements(str(tmp_path / "statements"))

    def put(night: ExactStatementRow) -> None:
        also = days_again(warehouse, night)
        publish(night, statements=statements, key=KEY, epsilon_per_label=0.25, also=also)

    put(nights[0])
    put(nights[1])
    with pytest.raises(OverspentError, match=r"2 statements that cost 0\.2.*set plan\.labels_rec"):
        put(nights[2])
    put(exact(day=DAYS[3], training_sketch=digest("new")))
    assert len(statements.all()) == 3


def test_the_first_night_of_it_is_told(tmp_path: pathlib.Path, exact: Exact) -> None:
    sketches = (digest("new"), SAME, SAME, SAME)
    nights = [
        exact(day=day, training_sketch=sketch) for day, sketch in zip(DAYS, sketches, strict=True)
    ]
    warehouse = stored(tmp_path, *nights)
    (told,) = recurrences(warehouse, warehouse.current()["audit_id"].to_list())
    assert (told.model, told.day) == ("ads", DAYS[2])
    assert f"those of {DAYS[1]}, and plan.labels_recur does not say so" in str(told.training)
    assert list(recurrences(Warehouse(str(tmp_path / "empty")), ["a" * 32])) == []
