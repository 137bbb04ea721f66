"""A plan of several days: which play, against which proxy, and what the record says of it."""

import datetime as dt
import pathlib
import shutil

import numpy as np
import polars as pl
import pytest

from tests.support.audits import run_audits
from tests.support.lake import (
    BINARY,
    DAY,
    MEMORISE,
    PLAN,
    Shuffled,
    copied,
    declared,
    edit_manifest,
    figures,
    label_rows,
    put_labels,
    put_model,
)
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake, labels_folder
from workers.plan import Plan
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.checkpoints.in_place_settings import LabelTable
from workers.warehouse.store import Warehouse

WEEK = tuple(DAY - dt.timedelta(days=back) for back in reversed(range(7)))
BEFORE = WEEK[0] - dt.timedelta(days=1)
ROWS = 120
PLAN_OF_A_WEEK = PLAN.model_copy(update={"days": 7, "minimum_control_records": 10})


def days_of(folder, *, remembers=True):
    """Return a lake with a checkpoint each day; the last was trained on the rows of all the week.

    Where it does not remember it was trained on other rows of the same days.
    """
    lake = Lake(str(folder))
    frames = []
    for seed, day in enumerate((BEFORE, *WEEK)):
        frame = label_rows(ROWS, seed=seed, holdout=0.1 if seed % 2 else 0.5)
        put_labels(lake, day, frame, row_group_size=64)
        if day != DAY:
            put_model(lake, day, privacy=declared(0.5))
        if day != BEFORE:
            seen = frame if remembers else label_rows(ROWS, seed=seed + 100, holdout=0.1)
            frames.append(seen)
    put_labels(lake, DAY, pl.concat(frames), dataset="all")
    trained = {"first": str(WEEK[0]), "last": str(DAY), "split": "train"}
    put_model(
        lake,
        DAY,
        dataset="all",
        privacy=declared(0.5),
        parameters=MEMORISE,
        manifest={"dataset": "flights", "trained_on": trained},
    )
    return lake


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    return days_of(tmp_path_factory.mktemp("week"))


@pytest.fixture
def lake(week, tmp_path):
    """A copy that a test may change."""
    return copied(week, tmp_path)


def audited(lake, **changes):
    plan = PLAN_OF_A_WEEK.model_copy(update=changes)
    return run_audit(lake, "good", DAY, plan=plan, executor=InProcess())


@pytest.mark.slow
def test_a_week_of_small_days_shows_what_none_of_them_has_rows_to_show(week):
    alone, together = audited(week, days=1).audit, audited(week).audit
    assert alone.detail == "too_few_records"
    assert together.verdict == "violated"
    assert (together.epsilon_lower or 0.0) > 1.0
    assert (together.records or 0) + (together.control_records or 0) == 7 * ROWS
    assert together.label_days == WEEK
    assert together.trained_since == WEEK[0]
    assert together.proxy_day == BEFORE
    assert f"The labels of 7 days played, {WEEK[0]} to {DAY}." in together.reason


@pytest.mark.slow
def test_a_model_that_saw_other_rows_of_these_days_is_not_accused(tmp_path):
    innocent = audited(days_of(tmp_path, remembers=False)).audit
    assert innocent.status == "evaluated"
    assert innocent.epsilon_lower == 0.0
    assert innocent.epsilon_ceiling > 0.5


@pytest.mark.slow
def test_the_answer_is_the_same_in_every_order_and_beside_other_models(week):
    requests = [Request("good", PLAN_OF_A_WEEK.model_copy(update={"days": n})) for n in (3, 7)]
    both = list(run_audits(week, DAY, requests, executor=Shuffled(3)))
    assert figures(audited(week)) in [figures(one) for one in both]
    assert sorted(len(one.audit.label_days or ()) for one in both) == [3, 7]


@pytest.mark.slow
def test_persons_of_a_week_play_one_record_each(lake):
    """Twenty persons a day come every day of the week, the others once."""
    for number, day in enumerate(WEEK):
        path = pathlib.Path(lake.uri) / labels_folder("flights", day) / "part-00000.parquet"
        frame = pl.read_parquet(path)
        people = [
            f"regular {row}" if row < 20 else f"guest {number} {row}" for row in range(len(frame))
        ]
        held = [int(name.rpartition(" ")[2]) % 5 == 0 for name in people]
        frame.with_columns(
            pl.Series("person", people), pl.Series("split", np.where(held, "holdout", "train"))
        ).write_parquet(path)
    row = audited(lake, privacy_unit="person").audit
    assert row.status == "evaluated", row.reason
    assert (row.records or 0) + (row.control_records or 0) == 20 + 7 * (ROWS - 20)


@pytest.mark.slow
def test_a_day_without_labels_is_left_out_by_name_unless_it_is_the_audited_one(lake):
    closed, empty = WEEK[2], WEEK[4]
    root = pathlib.Path(lake.uri)
    (root / labels_folder("flights", closed) / "_SUCCESS").unlink()
    (root / labels_folder("flights", empty) / "part-00000.parquet").unlink()
    row = audited(lake).audit
    assert row.label_days == tuple(day for day in WEEK if day not in {closed, empty})
    told = f"The labels of 5 days played, {WEEK[0]} to {DAY}; of {closed}, {empty} there are none."
    assert told in row.reason
    (root / labels_folder("flights", DAY) / "_SUCCESS").unlink()
    row = audited(lake).audit
    assert (row.status, row.detail) == ("not_evaluable", "missing_labels")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained_first", "proxy_last", "first"),
    [(WEEK[3], BEFORE, WEEK[3]), (BEFORE, WEEK[1], WEEK[2]), (WEEK[1], WEEK[4], WEEK[5])],
    ids=["the target was trained on", "the proxy was not", "both"],
)
def test_days_play_that_the_target_saw_and_the_proxy_did_not(
    lake, trained_first, proxy_last, first
):
    trained = {"first": str(trained_first), "last": str(DAY), "split": "train"}
    edit_manifest(lake, "good", DAY, trained_on=trained)
    proxy_day = max(trained_first, WEEK[0]) - dt.timedelta(days=1)
    known = {"first": str(BEFORE), "last": str(proxy_last), "split": "train"}
    edit_manifest(lake, "good", proxy_day, trained_on=known)
    row = audited(lake, minimum_records=1, minimum_control_records=1).audit
    assert row.proxy_day == proxy_day
    assert row.label_days == tuple(day for day in WEEK if day >= first), row.reason


def test_a_young_model_plays_the_days_since_its_first_checkpoint_if_it_has_one(lake):
    models = pathlib.Path(lake.uri) / "models" / "good"
    for day in (BEFORE, *WEEK[:3]):
        shutil.rmtree(models / f"day={day}")
    row = audited(lake).audit
    assert (row.proxy_day, row.label_days) == (WEEK[3], WEEK[4:])
    for day in WEEK[3:-1]:
        shutil.rmtree(models / f"day={day}")
    row = audited(lake).audit
    assert row.detail == "missing_proxy"
    assert f"in the 7 days before {WEEK[0]}" in row.reason


def test_one_day_alone_is_said_to_be_alone(lake):
    trained = {"first": str(DAY), "last": str(DAY), "split": "train"}
    edit_manifest(lake, "good", DAY, trained_on=trained)
    row = audited(lake, minimum_records=1, minimum_control_records=1).audit
    assert row.label_days == (DAY,)
    assert f"The labels of {DAY} alone played, of up to 7 days." in row.reason


@pytest.mark.slow
def test_verify_plays_the_days_of_the_record_also_when_a_late_one_arrives(lake, tmp_path):
    mark = pathlib.Path(lake.uri) / labels_folder("flights", WEEK[2]) / "_SUCCESS"
    mark.unlink()
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    record = audited(lake)
    warehouse.commit([record])
    stored = warehouse.record(record.audit.audit_id)
    assert stored.audit.label_days == tuple(day for day in WEEK if day != WEEK[2])
    mark.touch()
    assert verify(stored, lake, InProcess()).finding is Finding.REPRODUCED
    assert audited(lake).audit.audit_id != stored.audit.audit_id
    (pathlib.Path(lake.uri) / labels_folder("flights", WEEK[1]) / "_SUCCESS").unlink()
    gone = verify(stored, lake, InProcess())
    assert gone.finding is Finding.INPUTS_CHANGED
    assert str(WEEK[1]) in gone.sentence


@pytest.mark.slow
def test_nights_that_share_labels_are_averaged(week):
    few = {"minimum_records": 1, "minimum_control_records": 1}
    (several,), (one,) = (audited(week, days=days, **few).wealth for days in (7, 1))
    assert (several.labels_recur, one.labels_recur) == (True, False)


def test_a_plan_says_what_several_days_assume_and_refuses_what_is_not_matched_by_day():
    assert "each label lies in one of them alone" in Plan(days=7).assumption
    assert "Several days" not in Plan().assumption
    for more in ({"slices": ("city",)}, {"secret": "membership"}):
        with pytest.raises(ValueError, match="days = 7 cannot be combined with slices or member"):
            Plan(days=7, **more)
    with pytest.raises(ValueError, match="days = 7 would count it once a day"):
        Plan(days=7, labels_recur=True)
    assert Plan(days=7, labels_recur=True, privacy_unit="person").nights_share_labels


def test_a_table_plays_its_day_alone(lake):
    table = LabelTable(table="rows", day="day", label=BINARY.column)
    row = run_audit(
        lake, "good", DAY, plan=PLAN_OF_A_WEEK, executor=InProcess(), external_inputs=InPlace(table)
    ).audit
    assert row.detail == "manifest_invalid"
    assert "which works only with labels in the lake" in row.reason
