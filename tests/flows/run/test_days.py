"""A day that cannot be meant is refused before anything is committed."""

import datetime as dt

import pytest

from flows.run.nightly import audit_model, backfill, check_days, check_inputs, nightly_audit
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


@pytest.mark.parametrize("model", ["good", "never-trained"])
def test_an_impossible_day_is_refused(folder, model):
    settings = load_settings(folder / "privaudit.toml")
    for day in REFUSED:
        if model == "good" or day.year != DAY.year - 1:  # no checkpoint says when it begins
            with pytest.raises(InvalidInputError, match=str(day)):
                check_days(settings, [model], day, day)


def test_a_possible_day_is_taken(folder):
    settings = load_settings(folder / "privaudit.toml")
    for day in (EVE, DAY, dt.date(DAY.year, 1, 1), TODAY):
        check_days(settings, ["never-trained", "good"], day, day)


MISTYPED = DAY + dt.timedelta(days=9)


LATER = f"day is '{MISTYPED}', but the newest inputs of good are of {DAY}: give a day up to then."
UNLISTED = "The model 'godo' is not in privaudit.toml, did you mean 'good'?"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("flow", "given", "said"),
    [
        (audit_model, {"model": "good", "day": REFUSED[0]}, str(REFUSED[0])),
        (audit_model, {"model": "good", "day": MISTYPED}, LATER),
        (backfill, {"first": EVE, "last": MISTYPED, "models": ["good"]}, LATER),
        (backfill, {"first": dt.date.min, "last": dt.date.max}, "it is in the future"),
        (backfill, {"first": dt.date.min, "last": DAY}, "no day before 1970-01-01"),
        (audit_model, {"model": "godo", "day": DAY}, UNLISTED),
        (nightly_audit, {"day": DAY, "models": ["good", "godo"]}, UNLISTED),
        (backfill, {"first": EVE, "last": DAY, "models": ["godo"]}, UNLISTED),
    ],
)
def test_what_a_flow_refuses_is_stored_nowhere(folder, flow, given, said):
    kind = UnlistedModelError if said == UNLISTED else InvalidInputError
    with pytest.raises(kind) as refused:
        start(flow, **given, settings=str(folder / "privaudit.toml"))
    assert said in str(refused.value)
    assert not (folder / "warehouse").exists()
    assert not (folder / "report").exists()


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
