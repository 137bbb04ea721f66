"""`privaudit check` finds what the audit would refuse, in the audit's words, and stores nothing."""

import datetime as dt
import shutil
from collections.abc import Callable

import polars as pl
import pytest

from flows.commands.checks import check_model, checks
from flows.settings import UnlistedModelError, load_settings
from privcore.exceptions import TerminalError
from tests.support.lake import (
    DAY,
    EVE,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    model_path,
    put_labels,
    put_model,
    write_settings,
)
from tests.support.tiers import rest_slow
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake

Fault = Callable[[Lake], None]


def labels(change):
    """Return a fault that changes the day's labels."""

    def fault(lake):
        file = label_path(lake, "flights")
        change(pl.read_parquet(file)).write_parquet(file)

    return fault


def manifest(**changes):
    """Return a fault that changes the target's manifest."""
    return lambda lake: edit_manifest(lake, "good", DAY, **changes)


def as_csv(lake):
    file = label_path(lake, "flights")
    pl.read_parquet(file).write_csv(file)


def without_success(lake):
    (label_path(lake, "flights").parent / "_SUCCESS").unlink()


def misnamed_labels(lake):
    folder = label_path(lake, "flights").parent
    folder.rename(folder.with_name("2026-03-02"))


def mechanism(name):
    return {"name": name, "parameters": {"epsilon": 2.0, "classes": 2}}


FAULTS: dict[str, tuple[Fault, str]] = {
    "wrong-label-column": (
        labels(lambda frame: frame.rename({"late": "delayed"})),
        "has no column 'late': correct the manifest; it has",
    ),
    "declared-too-little": (
        manifest(privacy=declared(0.5, mechanism=mechanism("randomized_response"))),
        "but its randomized_response accounts for 2: declare that, or more noise",
    ),
    "unknown-mechanism": (
        manifest(privacy=declared(0.5, mechanism=mechanism("magic"))),
        "magic",
    ),
    "no-holdout": (
        labels(lambda frame: frame.with_columns(split=pl.lit("train"))),
        "No row was held out: hold some rows out of training.",
    ),
    "no-training": (
        labels(lambda frame: frame.with_columns(split=pl.lit("holdout"))),
        "0 training records are fewer than minimum_records, 200.",
    ),
    "other-words": (
        labels(lambda frame: frame.with_columns(split=pl.col("split").replace("holdout", "test"))),
        "rows say neither train nor holdout in 'split': write which. They say 'test'.",
    ),
    "null-labels": (
        labels(lambda frame: frame.with_columns(late=pl.when(pl.col("hour") > 2).then("late"))),
        "no label in 'late': drop such rows before they reach the table",
    ),
    "csv-named-parquet": (as_csv, "it holds text (CSV or JSON, whatever its name says), write it"),
    "damaged": (
        lambda lake: label_path(lake, "flights").write_bytes(b"PAR1\x00\x01\xff" * 100),
        "it is damaged, write it again",
    ),
    "no-success": (without_success, "labels/flights/day=2026-03-02/_SUCCESS is missing"),
    "misnamed-labels": (
        misnamed_labels,
        "The folder 2026-03-02 in labels/flights names no day and is passed over: call it day=",
    ),
    "no-proxy": (
        lambda lake: (model_path(lake, "good", EVE) / "_SUCCESS").unlink(),
        "There is no checkpoint of good in the 7 days before 2026-03-02 that could be its earlier",
    ),
    "too-few": (
        labels(lambda frame: frame.head(100)),
        "training records are fewer than minimum_records, 200",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", rest_slow(FAULTS, always=5))
def test_what_the_audit_would_refuse_is_found_in_its_own_words(folder, fault):
    lake = Lake(str(folder / "lake"))
    broken, words = FAULTS[fault]
    broken(lake)
    with pytest.raises(TerminalError) as refused:
        check_model(load_settings(), "good", DAY)
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")
    record = run_audit(lake, "good", DAY, plan=load_settings().plan, executor=InProcess())
    assert str(refused.value).startswith(record.audit.reason)
    assert record.audit.status == "not_evaluable"
    assert not (folder / "warehouse").exists()


def test_a_missing_unit_column_is_found(folder):
    write_settings(folder, ["good"], more='privacy_unit = "customer"\n')
    with pytest.raises(TerminalError, match="has no column 'customer': correct plan"):
        check_model(load_settings(), "good", DAY)


@pytest.mark.parametrize(("unit", "said"), [("flight", True), ("customer", False)])
def test_a_declaration_for_another_unit_is_found(folder, unit, *, said):
    of_people(folder, pl.col("row") // 3 < 40)
    edit_manifest(Lake(str(folder / "lake")), "good", DAY, privacy=declared(0.5, unit=unit))
    words = (
        "; its verdict would be undeclared, since the declared 0.5 is for one 'flight', and this "
        "bound is for all rows of one value of 'customer' (plan.privacy_unit). A guarantee for one "
        "row gives k rows k times its epsilon (here k is at most 3, which gives 1.5). Declare an "
        "epsilon with unit 'customer', or leave out plan.privacy_unit to test rows"
    )
    assert (words in check_model(load_settings(), "good", DAY)) is said


def of_people(folder, split):
    """Give each person three of the day's rows, held out as `split` says."""
    write_settings(folder, ["good"], more='privacy_unit = "customer"\nminimum_records = 20\n')
    labels(
        lambda frame: (
            frame.with_row_index("row")
            .with_columns(customer=pl.format("c{}", pl.col("row") // 3))
            .with_columns(split=pl.when(split).then(pl.lit("holdout")).otherwise(pl.lit("train")))
            .drop("row")
        )
    )(Lake(str(folder / "lake")))


def test_a_holdout_by_row_is_advised_to_be_by_person(folder):
    advice = (
        "; 64 more persons have rows in both, and are not compared: hold out all rows of a person "
        "in 'customer', or none"
    )
    number = pl.col("row") // 3
    of_people(folder, (number < 40) | ((number < 104) & (pl.col("row") % 3 == 0)))
    said = check_model(load_settings(), "good", DAY)
    assert f"; 30 training and 40 holdout records (all rows read){advice};" in said
    assert f"{advice};" in check_model(load_settings(), "good", DAY, whole=True)
    of_people(folder, number < 40)
    assert "more persons" not in check_model(load_settings(), "good", DAY)


def test_a_holdout_by_row_that_leaves_nobody_says_so(folder):
    advice = "hold out all rows of a person in 'customer', or none."
    third = pl.col("row") % 3 == 0
    of_people(folder, third & (pl.col("row") < 399))
    with pytest.raises(TerminalError) as refused:
        check_model(load_settings(), "good", DAY)
    assert str(refused.value) == (
        "All of the holdout's 133 persons have rows in training too, so no person is left to "
        f"compare with: {advice}"
    )
    of_people(folder, third)  # the last person has one row
    with pytest.raises(TerminalError) as refused:
        check_model(load_settings(), "good", DAY)
    assert str(refused.value) == (
        "133 of the holdout's 134 persons have rows in training too, which leaves 1, fewer than "
        f"minimum_control_records, 30: {advice}"
    )


def test_the_newest_complete_day_is_tried_and_what_is_odd_is_said(folder):
    lake = Lake(str(folder / "lake"))
    whole = check_model(load_settings(), "good", None)
    assert whole.startswith("2026-03-02, earlier model 2026-03-01, declares epsilon 0.5; ")
    assert whole.endswith(" holdout records (all rows read)")
    shutil.copytree(model_path(lake, "good"), model_path(lake, "good").with_name("day=2026-03-03"))
    (model_path(lake, "good").with_name("day=2026-03-03") / "_SUCCESS").unlink()
    (folder / "lake" / "models" / "good" / "day=20260304").mkdir()
    odd = check_model(load_settings(), "good", None)
    assert odd == (
        f"{whole}; the folder day=20260304 in models/good names no day and is passed over: call it "
        "day=YYYY-MM-DD, like day=2026-03-02; models/good/day=2026-03-03 has no _SUCCESS yet, and "
        "so is none"
    )


def test_it_asks_which_labels_the_column_holds(folder):
    lake = Lake(str(folder / "lake"))
    edit_manifest(
        lake, "good", DAY, privacy=declared(2.0, mechanism=mechanism("randomized_response"))
    )
    asked = (
        "; its label column must hold the labels from before randomized_response: say so with "
        'label.state "secret", or by what they were privatised'
    )
    assert check_model(load_settings(), "good", DAY).endswith(asked)
    label = manifest_of(lake, "good", DAY)["label"] | {"state": "secret"}
    edit_manifest(lake, "good", DAY, label=label)
    assert "label.state" not in check_model(load_settings(), "good", DAY)


def test_a_model_without_any_day_says_what_is_there(folder):
    lake = Lake(str(folder / "lake"))
    for day in (EVE, DAY):
        (model_path(lake, "good", day) / "_SUCCESS").unlink()
    with pytest.raises(TerminalError, match=r"None of the 2 days .* has a file _SUCCESS"):
        check_model(load_settings(), "good", None)
    for day in (EVE, DAY):
        model_path(lake, "good", day).rename(model_path(lake, "good", day).with_name(f"{day}"))
    with pytest.raises(TerminalError, match=r"It has no day\. The folder 2026-03-01 in models/go"):
        check_model(load_settings(), "good", None)
    shutil.rmtree(folder / "lake" / "models" / "good")
    with pytest.raises(TerminalError, match="models/good holds no folder day=YYYY-MM-DD"):
        check_model(load_settings(), "good", None)


@pytest.mark.slow
def test_of_a_large_day_a_sample_is_read(folder, monkeypatch):
    monkeypatch.setattr("workers.audit.rehearsal._SMALL", 0)
    lake = Lake(str(folder / "lake"))
    frame = label_rows(2000, seed=5)
    put_labels(lake, DAY, frame, row_group_size=100)
    sampled = check_model(load_settings(), "good", DAY)
    taken = pl.concat([frame.head(100), frame.tail(100)])["split"].value_counts()
    counts = dict(taken.iter_rows())
    assert sampled.endswith(
        f"{counts['train']} training and {counts['holdout']} holdout records (a sample read, "
        "--full reads all)"
    )
    assert check_model(load_settings(), "good", DAY, whole=True).endswith("(all rows read)")


def test_labels_of_several_days_are_checked_together(folder):
    trained = {"first": str(EVE), "last": str(DAY), "split": "train"}
    lake = Lake(str(folder / "lake"))
    before = EVE - dt.timedelta(days=1)
    edit_manifest(lake, "good", DAY, trained_on=trained)
    put_labels(lake, before, label_rows(50, seed=1))
    put_model(lake, before)
    settings = load_settings()
    plan = settings.plan.model_copy(update={"days": 2})
    said = check_model(settings.model_copy(update={"plan": plan}), "good", DAY)
    assert f"{DAY}, labels of 2 days from {EVE}, earlier model {before}, " in said


def test_files_in_subfolders_are_read_and_a_column_of_a_folder_is_told(folder):
    lake = Lake(str(folder / "lake"))
    file = label_path(lake, "flights")
    before = run_audit(lake, "good", DAY, plan=load_settings().plan, executor=InProcess()).audit
    (file.parent / "part=1").mkdir()
    (file.parent / "_temporary").mkdir()
    shutil.copy(file, file.parent / "_temporary" / file.name)
    file.rename(file.parent / "part=1" / file.name)
    after = run_audit(lake, "good", DAY, plan=load_settings().plan, executor=InProcess()).audit
    assert (after.records, after.control_records) == (before.records, before.control_records)
    moved = file.parent / "part=1"
    moved.rename(file.parent / "city=AMS")
    inner = file.parent / "city=AMS" / file.name
    pl.read_parquet(inner).drop("city").write_parquet(inner)
    with pytest.raises(
        TerminalError,
        match=r"the value in the folder name city=AMS is not read\. Write it into the files",
    ):
        check_model(load_settings(), "good", DAY)
    assert manifest_of(lake, "good", DAY)["features"]


def test_a_mistyped_model_is_wrong_usage(folder):
    with pytest.raises(UnlistedModelError, match="did you mean 'good'"):
        list(checks(str(folder / "privaudit.toml"), models=["goood"]))
