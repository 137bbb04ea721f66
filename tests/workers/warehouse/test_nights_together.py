"""What nights say together is what follows from scratch, whatever happened; beside every record."""

import datetime as dt
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.support.lake import DAY
from tests.support.warehouse import failed, put_rows
from tests.support.warehouse import night as night_of
from workers.warehouse import night_windows
from workers.warehouse import nights_together as folding
from workers.warehouse.maintenance import delete_before
from workers.warehouse.model_verdict import REACH
from workers.warehouse.nights_together import (
    commit_nights,
    derived,
    folded_models,
    nights_together,
    with_windows,
    withdraw_night,
)
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import OF_COUNTED, Warehouse

MODELS = ("ads", "twin", "rank")


def night(model: str, ahead: int, wealth: float, *, hour: int = 0, **changes: Any) -> AuditRecord:
    """A night with so much evidence against its declaration; `ads` has `twin` as its drill."""
    given = {"drill": "twin" if model == "ads" else None, "target_sha256": f"{hour:064d}"}
    return night_of(ahead, wealth, model=model, hour=hour, **given | changes)


def asked(warehouse: Warehouse) -> pl.DataFrame:
    return warehouse.current(every_secret=True, columns=OF_COUNTED)


def check(warehouse: Warehouse) -> pl.DataFrame:
    """Hold what readers read against what follows from scratch, and return it."""
    audits = asked(warehouse)
    read = nights_together(warehouse, audits).sort("audit_id")
    assert_frame_equal(read, derived(warehouse, audits).sort("audit_id"), check_exact=True)
    return read


def is_folded(warehouse: Warehouse, *models: str) -> bool:
    return set(folded_models(warehouse, models)) >= set(models)


def test_a_commit_folds_its_nights_and_readers_derive_nothing(warehouse, monkeypatch):
    """Nor where nights failed: the next commit folds its own night alone."""
    commit_nights(warehouse, [night(model, ahead, 0.5) for model in MODELS for ahead in range(3)])
    commit_nights(warehouse, [failed("ads", DAY + dt.timedelta(days=5)), failed("new", DAY)])
    assert is_folded(warehouse, *MODELS)
    expected = check(warehouse)
    assert expected["nights_together"].to_list().count(3) == len(MODELS)
    rows = warehouse.scan("audit_nights").collect().height
    commit_nights(warehouse, [night("ads", 6, 0.5)])
    assert warehouse.scan("audit_nights").collect().height == rows + 1
    monkeypatch.setattr(night_windows, "epsilon_windows", None)
    read = nights_together(warehouse, asked(warehouse))
    assert read.height == expected.height + 1


def test_a_backfill_in_the_middle_changes_later_nights_alone(warehouse):
    for ahead in (0, 1, 3, 4):
        commit_nights(warehouse, [night("ads", ahead, 0.5)])
    before = warehouse.scan("audit_nights").collect().height
    commit_nights(warehouse, [night("ads", 2, 9.0)])
    rows = warehouse.scan("audit_nights").collect()
    assert rows.height == before + 3
    assert check(warehouse)["refuted_together"].to_list().count(True) == 3


def test_withdrawing_and_repeating_an_audit_fold_again(warehouse):
    """What was known then is read as it was."""
    accuses = night("ads", 1, 9.0)
    commit_nights(warehouse, [night("ads", 0, 0.1), accuses, night("ads", 2, 0.1)])
    then, read = dt.datetime.now(dt.UTC), check(warehouse)
    assert read["refuted_together"].any()
    withdraw_night(warehouse, accuses.audit.audit_id, "The wrong lake.")
    assert is_folded(warehouse, "ads")
    assert not check(warehouse)["refuted_together"].any()
    commit_nights(warehouse, [night("ads", 2, 0.1)])  # again: a confirmation
    assert is_folded(warehouse, "ads")
    check(warehouse)
    past = Warehouse(warehouse.uri, as_of=then)
    assert_frame_equal(nights_together(past, asked(past)).sort("audit_id"), read)


def test_a_drills_night_folds_the_models_whose_drill_it_is(warehouse):
    commit_nights(warehouse, [night("ads", 0, 0.1)])
    assert check(warehouse)["drill_refuted_after"].to_list() == [None]
    commit_nights(warehouse, [night("twin", 0, 9.0, epsilon_lower=0.6)])
    assert is_folded(warehouse, "ads", "twin")
    assert 1 in check(warehouse)["drill_refuted_after"].to_list()


def test_a_commit_that_was_cut_off_before_its_fold_is_read_right(warehouse, monkeypatch):
    commit_nights(warehouse, [night("ads", 0, 0.5)])
    with monkeypatch.context() as cut:
        cut.setattr(folding, "fold", lambda *_: None)
        commit_nights(warehouse, [night("ads", 1, 9.0)])
    assert not is_folded(warehouse, "ads")
    assert check(warehouse).height == 2
    commit_nights(warehouse, [night("ads", 5, 0.5)])
    assert is_folded(warehouse, "ads")
    assert check(warehouse).height == 3


def test_rows_of_audits_that_were_deleted_count_no_more(warehouse, monkeypatch):
    """As many rows as before the deletion were taken for the same rows."""
    commit_nights(warehouse, [night("ads", ahead, 9.0) for ahead in range(4)])
    assert check(warehouse)["refuted_together"].all()
    assert delete_before(warehouse, DAY + dt.timedelta(days=2)) == 2
    check(warehouse)
    commit_nights(warehouse, [night("ads", 4, 0.1)])
    with monkeypatch.context() as cut:
        cut.setattr(folding, "fold", lambda *_: None)
        commit_nights(warehouse, [night("ads", 5, 0.1)])
    assert check(warehouse).height == 4
    commit_nights(warehouse, [night("ads", 6, 0.1)])
    assert is_folded(warehouse, "ads")
    check(warehouse)


def test_ten_writers_at_once_leave_what_follows_from_all(warehouse):
    nights = [night("ads", 10 - place, 0.1 * place) for place in range(10)]
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda one: commit_nights(warehouse, [one]), nights))
    commit_nights(warehouse, [night("ads", 11, 0.2)])
    assert is_folded(warehouse, "ads")
    assert check(warehouse).height == 11


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_history_reads_as_from_scratch(warehouse, monkeypatch, seed):
    """Commits in any order, repeated, superseded, failed, withdrawn, cut off before a fold."""
    choose = random.Random(seed)  # noqa: S311
    fold, committed = folding.fold, list[AuditRecord]()
    for step in range(25):
        cut = choose.random() < 0.2
        monkeypatch.setattr(folding, "fold", (lambda *_: None) if cut else fold)
        kind = choose.random()
        if kind < 0.15 and committed:
            gone = choose.choice(committed).audit.audit_id
            if not warehouse.withdrawn([gone]):
                withdraw_night(warehouse, gone, "A test.")
        elif kind < 0.3 and committed:
            commit_nights(warehouse, [choose.choice(committed)])
        elif kind < 0.4:
            day = DAY + dt.timedelta(days=choose.randrange(9))
            commit_nights(warehouse, [failed("ads", day, hour=step)])
        else:
            records = [
                night(
                    choose.choice(MODELS),
                    choose.randrange(9),
                    choose.choice([-0.5, 0.2, 3.0]),
                    hour=step,
                    verdict=choose.choice(["not_refuted", "violated"]),
                    exploratory=choose.random() < 0.1,
                )
                for _ in range(choose.randrange(1, 4))
            ]
            commit_nights(warehouse, records)
            committed += records
        if step % 2 == 0:
            check(warehouse)


FAILED = ("failed", "labels_missing")
EARLIER = ("violated", "earlier_night")
CHOSEN = {"exploratory": True}


def gone(ahead: int, model: str = "ads") -> AuditRecord:
    return failed(model, DAY + dt.timedelta(days=ahead))


def told(warehouse: Warehouse) -> dict[str, list[tuple[str, str | None]]]:
    """Return verdicts and reasons of each model's nights, in their order."""
    rows = with_windows(warehouse, warehouse.current()).sort("model", "day")
    found: dict[str, list[tuple[str, str | None]]] = {}
    for model, *said in rows.select(
        "model", "verdict_together", "reason_code_together"
    ).iter_rows():
        found.setdefault(model, []).append(tuple(said))
    return found


def test_a_violation_goes_on_over_nights_that_failed_until_one_resolves_it(warehouse):
    nights = (gone(0), night_of(1, verdict="violated"), gone(2), gone(3), night_of(4), gone(5))
    put_rows(warehouse, nights)
    this = ("violated", "this_night")
    assert told(warehouse)["ads"] == [
        FAILED, this, EARLIER, EARLIER, ("not_refuted", None), FAILED
    ]  # fmt: skip


def test_how_long_it_goes_on_depends_on_the_models_own_nights_alone(warehouse):
    """What a file refuted is as any other violation; what a chosen plan refutes does not go on."""
    put_rows(
        warehouse,
        [
            night_of(0, verdict="violated", reason_code="mechanism_not_applied", model="file"),
            night_of(1, verdict="inconclusive", model="file"),
            night_of(2, model="file"),
            night_of(0, verdict="violated", model="four weeks"),
            gone(REACH, model="four weeks"),
            gone(REACH + 1, model="four weeks"),
            night_of(0, verdict="violated", model="chosen", **CHOSEN),
            gone(1, model="chosen"),
        ],
    )
    this = ("violated", "this_night")
    assert told(warehouse) == {
        "file": [("violated", "mechanism_not_applied"), EARLIER, ("not_refuted", None)],
        "four weeks": [this, EARLIER, FAILED],
        "chosen": [this, FAILED],
    }


def test_a_plan_that_somebody_chose_acquits_of_nothing(warehouse):
    """Alone, and after a night that was violated."""
    missing = {"status": "not_evaluable", "reason_code": "model_missing"}
    cases: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
        ("not_refuted", {}, ("inconclusive", "chosen_plan")),
        ("inconclusive", {}, ("inconclusive", "chosen_plan")),
        # Nobody's plan makes these.
        ("inconclusive", {"reason_code": "persons_split"}, ("inconclusive", "persons_split")),
        ("inconclusive", {"reason_code": "over_policy"}, ("inconclusive", "over_policy")),
        ("undeclared", {"epsilon_declared": None}, ("undeclared", "nothing_declared")),
        ("failed", missing, ("failed", "model_missing")),
        ("violated", {}, ("violated", "this_night")),
    ]
    for place, (verdict, changes, _) in enumerate(cases):
        alone, after = (
            night_of(0, verdict=verdict, model=f"{when} {place}", **CHOSEN, **changes)
            for when in ("alone", "after")
        )
        put_rows(
            warehouse, [alone, night_of(-1, verdict="violated", model=f"after {place}"), after]
        )
    found = told(warehouse)
    for place, (verdict, _, expected) in enumerate(cases):
        assert found[f"alone {place}"] == [expected]
        later = expected if verdict == "violated" else EARLIER
        assert found[f"after {place}"] == [("violated", "this_night"), later]
