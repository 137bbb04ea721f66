"""A day that cannot be meant is refused before anything is committed."""

import datetime as dt

import pytest

from flows.run.nightly import (
    audit_model,
    backfill,
    check_days,
    check_inputs,
    nightly_audit,
    plan_backfill,
)
from flows.run.runs import start
from flows.settings import UnlistedModelError, load_settings
from privcore.exceptions import InvalidInputError
from tests.support.lake import DAY, EVE, write_settings

TODAY = dt.datetime.now(dt.UTC).date()
REFUSED = [
    TODAY + dt.timedelta(days=3),  # midnight may come before its test
    dt.date.max,
    dt.date.max - dt.timedelta(days=1),
    dt.date(DAY.year - 1, 12, 31),
    dt.date(1969, 12, 31),
    dt.date.min,
]


@pytest.fixture
def folder(lake, tmp_path):  # noqa: ARG001
    write_settings(tmp_path, ["good", "never-trained"])
    return tmp_path


@pytest.mark.parametrize(
    ("model", "day"),
    [
        (model, day)
        for model in ("good", "never-trained")
        for day in REFUSED
        if model == "good" or day.year != DAY.year - 1  # no checkpoint says when it begins
    ],
)
def test_an_impossible_day_is_refused(folder, day, model):
    settings = load_settings(folder / "privaudit.toml")
    with pytest.raises(InvalidInputError, match=str(day)):
        check_days(settings, [model], day, day)


@pytest.mark.parametrize("day", [EVE, DAY, dt.date(DAY.year, 1, 1), TODAY])
def test_a_possible_day_is_taken(folder, day):
    settings = load_settings(folder / "privaudit.toml")
    check_days(settings, ["never-trained", "good"], day, day)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("day", REFUSED)
def test_nothing_is_committed_for_it(folder, day):
    with pytest.raises(InvalidInputError):
        start(audit_model, model="good", day=day, settings=str(folder / "privaudit.toml"))
    assert not (folder / "warehouse").exists()
    assert not (folder / "report").exists()


MISTYPED = DAY + dt.timedelta(days=9)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "flow",
    [
        lambda settings: start(audit_model, model="good", day=MISTYPED, settings=settings),
        lambda settings: start(
            backfill, first=EVE, last=MISTYPED, models=["good"], settings=settings
        ),
    ],
)
def test_a_day_after_the_newest_inputs_is_refused_and_stored_nowhere(folder, flow):
    with pytest.raises(InvalidInputError) as refused:
        flow(str(folder / "privaudit.toml"))
    said = f"day is '{MISTYPED}', but the newest inputs of good are of {DAY}: give a day up to then"
    assert str(refused.value) == f"{said}."
    assert not (folder / "warehouse").exists()


def test_a_day_is_taken_whose_inputs_are_there_or_may_be_late(folder):
    settings = load_settings(folder / "privaudit.toml")
    yesterday = settings.yesterday(dt.datetime.now(dt.UTC))
    for day in (DAY - dt.timedelta(days=20), EVE, DAY, yesterday):
        check_inputs(settings, ["good"], day)
    check_inputs(settings, ["never-trained"], MISTYPED)  # nothing says when it begins
    check_inputs(settings, ["good", "never-trained"], MISTYPED)


@pytest.mark.parametrize("kind", ["scores", "labels"])
def test_a_tables_newest_partition_is_its_newest_day(tmp_path, kind):
    (tmp_path / f"rows/ds={DAY}").mkdir(parents=True)
    (tmp_path / f"rows/ds={DAY}/part-0.parquet").write_bytes(b"not read")
    columns = {
        "scores": 'target = "new"\nproxy = "old"\n',
        "labels": f'[models.checkpoints]\npath = "{tmp_path}/{{day}}.json"\n',
    }
    (tmp_path / "privaudit.toml").write_text(
        f'lake = "{tmp_path}/lake"\nwarehouse = "{tmp_path}/w"\nreport = "{tmp_path}/r"\n'
        f'[[models]]\nname = "m"\n[models.{kind}]\ntable = "{tmp_path}/rows"\nday = "ds"\n'
        f'label = "y"\nsplit = "split"\n{columns[kind]}'
    )
    settings = load_settings(tmp_path / "privaudit.toml")
    check_inputs(settings, ["m"], DAY)
    with pytest.raises(InvalidInputError, match=f"the newest inputs of m are of {DAY}"):
        check_inputs(settings, ["m"], MISTYPED)


def test_a_backfill_over_all_time_is_refused_at_once(folder):
    settings = load_settings(folder / "privaudit.toml")
    with pytest.raises(InvalidInputError, match="future"):
        plan_backfill(settings, dt.date.min, dt.date.max)
    with pytest.raises(InvalidInputError, match="no day before"):
        plan_backfill(settings, dt.date.min, DAY)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "flow",
    [
        lambda settings: start(audit_model, model="godo", day=DAY, settings=settings),
        lambda settings: start(nightly_audit, day=DAY, models=["good", "godo"], settings=settings),
        lambda settings: start(backfill, first=EVE, last=DAY, models=["godo"], settings=settings),
    ],
)
def test_a_model_that_is_not_listed_is_refused_by_flows_too(folder, flow):
    said = "The model 'godo' is not in privaudit.toml, did you mean 'good'?"
    with pytest.raises(UnlistedModelError) as refused:
        flow(str(folder / "privaudit.toml"))
    assert str(refused.value) == said
    assert not (folder / "warehouse").exists()
    assert not (folder / "report").exists()
