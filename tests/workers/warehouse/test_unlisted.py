"""A model, or a secret of it, that leaves the settings is missed."""

import datetime as dt
import pathlib

import pytest

from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse
from workers.warehouse.unlisted import LATELY, Unlisted, unlisted_models

START = dt.date(2026, 4, 1)


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    days = {"old": range(3), "new": range(3, 5), "other": range(3, 5), "always": range(5)}
    put_rows(
        warehouse,
        [
            evaluated(
                model,
                START + dt.timedelta(days=number),
                hour=24 * number,
                dataset="visits" if model == "other" else "clicks",
            )
            for model, numbers in days.items()
            for number in numbers
        ],
    )
    return warehouse


def of_labels(*models: str) -> list[tuple[str, str]]:
    return [(model, "label") for model in models]


def test_a_secret_that_is_no_longer_asked_for_is_missed(tmp_path: pathlib.Path) -> None:
    """An owner took `membership` out of the settings, and the audit that accused ended unheard."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    later = START + dt.timedelta(days=1)
    asked = {"secret": "membership", "verdict": "violated"}
    once = {"secret": "attribute:city", "exploratory": True}
    put_rows(
        warehouse,
        [
            evaluated("ads", START),
            evaluated("ads", START, hour=1, **asked),
            evaluated("ads", START, hour=2, **once),
            evaluated("ads", later, hour=3),
        ],
    )
    assert unlisted_models(warehouse, [("ads", "label"), ("ads", "membership")], later) == ()
    (found,) = unlisted_models(warehouse, of_labels("ads"), later)
    assert found == Unlisted("ads", START, "membership")
    assert found.sentence() == (
        "The membership audit of ads was last made for 2026-04-01, and the settings no longer ask "
        "for it. Ask for it again, or note why it ended."
    )
    (found,) = unlisted_models(warehouse, [("ads", "membership")], later + LATELY)
    assert found == Unlisted("ads", later, "label")


def test_a_model_that_disappears_is_missed_for_a_week(warehouse: Warehouse) -> None:
    last = START + dt.timedelta(days=4)
    listed = of_labels("old", "new", "other")
    assert unlisted_models(warehouse, [*listed, *of_labels("always")], last + LATELY) == ()
    for days, missed in ((0, 0), (1, 1), (7, 1), (8, 0)):
        found = unlisted_models(warehouse, listed, last + dt.timedelta(days=days))
        assert len(found) == missed
    (found_one,) = unlisted_models(warehouse, listed, last + dt.timedelta(days=1))
    assert found_one.sentence() == (
        "always was last audited for 2026-04-05, and the settings no longer list it. List it "
        "again, or note why it was retired."
    )
