"""Score tables: the same audit as of checkpoints, and what a table can have wrong."""

import datetime as dt
import pathlib
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pytest

import workers.audit.run
from tests.support.audits import run_audits
from tests.support.lake import DAY, EVE, declared, figures
from tests.support.score_tables import EMPTY_LAKE, PLAN, audit, put_folder, score_rows, tables
from tests.support.verdicts import nothing_wrong
from workers.audit.request import Request
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord


def scored(
    rows: int = 4_000, *, seed: int = 0, leak: float = 0.0, day: dt.date = DAY
) -> pl.DataFrame:
    """Return rows whose label only the proxy's probability tells of; the target adds `leak`."""
    random = np.random.default_rng(seed)
    frame = score_rows(random, rows, leak=leak, noise=0.3, day=day)
    frame.insert_column(1, pl.Series("event_id", [f"{day}-{number}" for number in range(rows)]))
    return frame.with_columns(country=pl.Series(random.choice(["NL", "DE"], rows)))


@pytest.fixture
def passes(monkeypatch):
    """Return how many models each pass over labels serves."""
    served, scan = list[int](), workers.audit.run.scan_labels

    def counting(shared: Any, **more: Any) -> Any:
        served.append(len(shared.games))
        return scan(shared, **more)

    monkeypatch.setattr(workers.audit.run, "scan_labels", counting)
    return served


def test_a_table_that_leaks_is_found_and_one_that_does_not_stays_silent(tmp_path):
    leaking = put_folder(tmp_path / "leaking", scored(leak=3.0))
    record = audit(tables(leaking), privacy=declared(0.5))
    assert (record.audit.status, record.audit.verdict) == ("evaluated", "violated")
    assert record.audit.declared_by == "a test"
    silent = put_folder(tmp_path / "silent", scored(leak=0.0))
    record = audit(tables(silent), privacy=declared(0.5))
    assert (nothing_wrong(record.audit), record.audit.epsilon_lower) == (True, 0.0)
    told = tables(silent, context=("country",), label_state="secret")
    features = audit(told, privacy=declared(0.5)).audit
    assert (record.audit.label_column_holds, features.label_column_holds) == (None, "secret")
    # Without features nothing tells a holdout that training saw in part.
    assert ("would not notice" in record.audit.reason) > ("would not notice" in features.reason)


@pytest.mark.parametrize("joined", [False, True])
def test_a_context_column_that_a_file_lacks_or_has_no_value_of_is_missing(tmp_path, joined):
    rows = scored(leak=3.0)
    rows = rows.with_columns(age=np.random.default_rng(4).normal(size=rows.height))
    scores = put_folder(tmp_path / "scores", rows.select("day", "event_id", "p_today"))

    def audited(name: str, rest: pl.DataFrame) -> tuple[Any, ...]:
        folder = put_folder(tmp_path / name, rows[:1_000]) / f"day={DAY}"
        (folder / "part-0.parquet").rename(folder / "part-1.parquet")
        rest.write_parquet(folder / "part-0.parquet")
        target = {"table": str(scores), "column": "p_today"}
        given = {"target": target, "record": "event_id"} if joined else {}
        row = audit(tables(folder.parent, context=("age",), **given), privacy=declared(0.5)).audit
        return row.verdict, row.epsilon_lower, row.records, row.reason

    rest = rows[1_000:].drop("day")
    typed = audited("typed", rest.with_columns(age=pl.lit(None, pl.Float64)))
    assert typed[0] == "violated"
    assert audited("null", rest.with_columns(age=None)) == typed
    assert audited("older", rest.drop("age")) == typed
    for column in ("clicked", "split", "p_yesterday"):
        assert f"has no column '{column}'" in audited(column, rest.drop(column))[-1]


def test_a_folder_a_delta_table_and_a_partitioned_one_give_the_same_figures(tmp_path):
    frame, other = scored(leak=1.0), scored(seed=9, day=EVE)
    put_folder(put_folder(tmp_path / "folder", frame), other, EVE)
    both = pl.concat([other, frame])
    deltalake.write_deltalake(str(tmp_path / "delta"), both)
    deltalake.write_deltalake(str(tmp_path / "parts"), both, partition_by=["day"])
    found = [audit(tables(tmp_path / name)).audit for name in ("folder", "delta", "parts")]
    # Streams are the files' own, so the game differs; what is counted does not.
    counted = {
        (row.records, row.control_records, row.epsilon_if_proxy_right, row.target_log_loss)
        for row in found
    }
    assert len(counted) == 1
    assert found[0].records == int((frame["split"] == "train").sum())


def test_verify_reads_the_version_that_was_audited(tmp_path):
    place = str(tmp_path / "delta")
    deltalake.write_deltalake(place, scored(leak=1.0), partition_by=["day"])
    record = audit(tables(place), privacy=declared(0.5))
    assert '"version":0' in str(record.audit.source)
    deltalake.write_deltalake(place, scored(seed=5), partition_by=["day"], mode="append")
    assert verify(seal(record), EMPTY_LAKE, InProcess()).finding is Finding.REPRODUCED
    assert audit(tables(place)).audit.records > record.audit.records
    files = sorted(pathlib.Path(place).glob("day=*/*.parquet"))
    assert len(files) == 2
    for file in files:
        file.unlink()
    gone = verify(seal(record), EMPTY_LAKE, InProcess())
    assert gone.finding is Finding.INPUTS_CHANGED
    assert "which is gone: keep the files of a version" in gone.sentence


def together(given: dict[str, ScoreTables], privacy: Privacy | None = None) -> list[AuditRecord]:
    """Return the records of models in one night, which differ in nothing from audits alone."""
    requests = [
        Request(name, PLAN, external_inputs=SuppliedScores(one, privacy))
        for name, one in given.items()
    ]
    found = list(run_audits(EMPTY_LAKE, DAY, requests, executor=InProcess()))
    alone = [next(run_audits(EMPTY_LAKE, DAY, [one], executor=InProcess())) for one in requests]
    assert [figures(record) for record in found] == [figures(record) for record in alone]
    return found


@pytest.mark.slow
def test_several_labels_and_a_grade_of_one_record_share_one_read(tmp_path, passes):
    """A model of two labels, of which it remembers neither, and of a grade, which it does."""
    random = np.random.default_rng(8)
    frame = scored()
    grade, rows = random.integers(0, 5, len(frame)), np.arange(len(frame))
    even = np.full((len(frame), 5), 0.2)
    told = np.where(np.arange(5) == grade[:, None], 0.8, 0.05)
    train = (frame["split"] == "train").to_numpy()
    frame = frame.with_columns(
        bought=pl.Series(random.integers(0, 2, len(frame))),
        p_bought=pl.Series(np.where(rows % 2 == 0, 0.4, 0.6)),
        even=pl.lit(0.5),
        grade=pl.Series(grade),
        p_grade=pl.Series(np.where(train[:, None], told, even).tolist()),
        p_grade_before=pl.Series(random.dirichlet(np.full(5, 200.0), len(frame)).tolist()),
    )
    place = put_folder(tmp_path / "scores", frame)
    given = {
        "clicked": tables(place),
        "bought": tables(place, label="bought", target="p_bought", proxy="even"),
        "grade": tables(
            place, label="grade", classes=(0, 1, 2, 3, 4), target="p_grade", proxy="p_grade_before"
        ),
    }
    records = together(given, Privacy.model_validate(declared(1.0)))
    assert passes == [3, 1, 1, 1]
    found = {record.audit.model: nothing_wrong(record.audit) for record in records}
    assert found == {"clicked": True, "bought": True, "grade": False}


def test_two_models_whose_days_begin_at_other_hours_share_one_read_and_no_rows(tmp_path):
    noon = dt.datetime.combine(DAY, dt.time(12), dt.UTC)
    late = dt.datetime.combine(EVE, dt.time(23, 30), dt.UTC)
    frame = scored(leak=1.0).with_columns(
        day=pl.when(pl.col("country") == "NL").then(pl.lit(noon)).otherwise(pl.lit(late))
    )
    deltalake.write_deltalake(str(tmp_path / "t"), frame)
    zones = {"a": "UTC", "b": "Europe/Amsterdam"}
    found = together({name: tables(tmp_path / "t", time_zone=zones[name]) for name in zones})
    assert found[0].audit.records < found[1].audit.records


ODDS = pl.col("p_today") * 8 - 4
NO_CHANCE = {
    "log odds": (ODDS, 'set scores.scale = "log_odds"'),
    "percent": (pl.col("p_today") * 100, "divide by 100"),
    "text": (pl.col("p_today").cast(pl.String), "which are numbers"),
    "infinite": (pl.lit(float("inf")), "infinite"),
}
NO_DAY = {
    "text": ("02/03/2026", "values like '02/03/2026', which are no days"),
    "seconds": (1_772_409_600, "values like '1772409600', which are no days"),
    "a fraction": (20260302.0, "as Float64"),
}
OF_NO_MODEL = "none of the model's 2 classes 0, 1: "
WRONG_LABELS = {
    "fractions": (pl.col("clicked") * 0.5, f"{OF_NO_MODEL}correct the labels, or scores.classes"),
    "many": (pl.int_range(pl.len()) / 3.0, f"{OF_NO_MODEL}write whether it is above a threshold"),
}
LATE = dt.datetime(2026, 3, 3, 0, 30, tzinfo=dt.UTC)
UNSCORED = pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col("p_today"))
WRONG = [
    *(("probabilities_invalid", words, {}, {"p_today": one}) for one, words in NO_CHANCE.values()),
    *(("label_invalid", words, {"day": "ds"}, {"ds": one}) for one, words in NO_DAY.values()),
    *(("label_invalid", words, {}, {"clicked": one}) for one, words in WRONG_LABELS.values()),
    ("label_invalid", "no column 'p_tomorrow'", {"target": "p_tomorrow"}, {}),
    ("label_invalid", "none of", {"classes": ("yes", "no")}, {}),
    ("label_invalid", "no column 'ds'", {"day": "ds"}, {}),
    ("too_few_records", "see that 'ds', scores.day, names its day, in the zone UTC (scores.time_zo",
     {"day": "ds"}, {"ds": "2026-03-01"}),
    ("too_few_records", "labels are known by 2026-03-03 00:00 UTC as 'at', scores.known_at, has it",
     {"known_at": "at"}, {"at": LATE}),
    ("too_few_records", "4,000 rows are of neither split, or of no day: see that 'country', scores",
     {"split": "country"}, {}),
    ("no_holdout", "see that scores.holdout, country = 'FR', holds for the rows held out",
     {"holdout": "country = 'FR'"}, {}),
    ("proxy_is_target", "record for record", {}, {"p_today": pl.col("p_yesterday")}),
    ("probabilities_invalid", "one column of numbers for 3 cl", {"classes": (0, 1, 2)}, {}),
    ("probabilities_invalid", "add up to", {"target": ("p_today", "p_yesterday")}, {}),
    ("scores_missing", "no probability of one of both models", {}, {"p_today": UNSCORED}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "words", "changes", "values"), WRONG)
def test_every_mistake_ends_in_a_sentence_that_says_what_to_do(
    tmp_path, code, words, changes, values
):
    frame = scored().with_columns(
        **{name: one if isinstance(one, pl.Expr) else pl.lit(one) for name, one in values.items()}
    )
    place = tmp_path / "scores"
    if "ds" in frame.columns:
        place.mkdir()  # with no folders that say the day
        frame.write_parquet(place / "part.parquet")
    else:
        put_folder(place, frame)
    record = audit(tables(place, **changes))
    assert (record.audit.status, record.audit.detail) == ("not_evaluable", code)
    assert words in record.audit.reason


def test_a_day_or_a_version_that_a_table_lacks_is_said(tmp_path):
    eve = put_folder(tmp_path / "eve", scored(day=EVE), EVE)
    assert f"has no day = {DAY}" in audit(tables(eve)).audit.reason
    deltalake.write_deltalake(str(tmp_path / "delta"), scored(day=EVE))
    missing = audit(tables(tmp_path / "delta", version=7)).audit
    assert (missing.detail, "at version 7" in missing.reason) == ("path_unreadable", True)


def test_row_groups_of_other_days_alone_are_no_copies(tmp_path):
    both = pl.concat([scored(seed=9, day=EVE), scored(leak=1.0)])
    place = tmp_path / "scores"
    place.mkdir()
    both.write_parquet(place / "part.parquet", row_group_size=1_000)
    row = audit(tables(place)).audit
    assert row.status == "evaluated", row.reason
    assert row.records == int((scored(leak=1.0)["split"] == "train").sum())


def test_a_proxy_that_saw_the_day_accuses_nobody(tmp_path):
    frame = scored(20_000)
    train = pl.col("split") == "train"
    # The proxy was trained on the day, the target was not: all that is known is the proxy's.
    knows = pl.when(train & (pl.col("clicked") == 1)).then(0.9).when(train).then(0.1)
    frame = frame.with_columns(p_yesterday=knows.otherwise(pl.col("p_yesterday")))
    record = audit(tables(put_folder(tmp_path / "scores", frame)), privacy=declared(0.1))
    assert record.audit.detail == "proxy_saw_the_day"
    assert "standard errors apart" in record.audit.reason
    assert record.audit.epsilon_lower is None


@pytest.mark.slow
def test_a_target_that_leaks_does_not_make_its_proxy_suspect(tmp_path):
    for seed in range(5):
        place = put_folder(tmp_path / f"{seed}", scored(seed=seed, leak=4.0))
        assert audit(tables(place)).audit.status == "evaluated"


@pytest.mark.slow
def test_labels_that_came_after_training_are_left_out(tmp_path):
    frame = scored(leak=3.0)
    late = pl.int_range(pl.len()) % 2 == 0
    at = pl.datetime(DAY.year, DAY.month, DAY.day, 12, time_zone="UTC")
    frame = frame.with_columns(
        clicked=pl.when(late).then(1 - pl.col("clicked")).otherwise(pl.col("clicked")),
        known=pl.when(late).then(at + pl.duration(hours=30)).otherwise(at),
    )
    place = put_folder(tmp_path / "scores", frame)
    blind, seeing = audit(tables(place)).audit, audit(tables(place, known_at="known")).audit
    assert seeing.excluded_records == frame.height // 2
    assert seeing.epsilon_lower > blind.epsilon_lower
    # 18 hours after the end of the day all of them were known.
    later = audit(tables(place, known_at="known", cutoff_hours=18.0)).audit
    assert later.records == blind.records
    text = put_folder(tmp_path / "text", frame.with_columns(pl.col("known").cast(pl.String)))
    assert "store it as a time" in audit(tables(text, known_at="known")).audit.reason


@pytest.mark.parametrize(
    ("zone", "hour", "there"),
    [("UTC", 23, True), ("Europe/Amsterdam", 23, False), ("America/New_York", 23, True)],
)
def test_a_time_falls_on_a_day_in_the_tables_zone(tmp_path, zone, hour, there):
    at = dt.datetime(DAY.year, DAY.month, DAY.day, hour, 30, tzinfo=dt.UTC)
    frame = scored().with_columns(day=pl.lit(at))
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), frame)
    row = audit(tables(place, time_zone=zone)).audit
    assert (row.status == "evaluated") == there


def test_other_labels_that_training_read_are_conditioned_on(tmp_path):
    """A target that learned two other labels by heart is not accused of the label's declaration."""
    random = np.random.default_rng(5)
    rows = score_rows(random, 4_000)
    label, train = rows["clicked"].to_numpy(), (rows["split"] == "train").to_numpy()
    others = [np.where(random.random(4_000) < 0.85, label, 1 - label) for _ in range(2)]
    told = np.log(0.85 / 0.15) * sum(2 * other - 1 for other in others) * train
    odds = np.log(rows["p_yesterday"] / (1 - rows["p_yesterday"])) + random.normal(0, 0.2, 4_000)
    frame = rows.with_columns(
        p_today=1.0 / (1.0 + np.exp(-(odds + told))),
        bought=pl.Series(others[0]),
        returned=pl.Series(["yes" if each else None for each in others[1]]),
    )
    place = put_folder(tmp_path, frame)
    named = ("bought", "returned")
    plain, one, both = (
        audit(tables(place), privacy=declared(0.5), plan=Plan(repetitions=4, other_labels=some))
        for some in ((), named[:1], named)
    )
    assert (plain.audit.verdict, one.audit.verdict) == ("violated", "violated")
    assert plain.audit.epsilon_lower > one.audit.epsilon_lower > both.audit.epsilon_lower == 0.0
    assert nothing_wrong(both.audit)
    assert both.audit.epsilon_ceiling > 1.0
    assert "other_labels" in Plan(other_labels=named).assumption
    assert both.slices == ()
    lacking = audit(tables(place), plan=Plan(repetitions=4, other_labels=("sold",)))
    assert lacking.audit.detail == "feature_invalid"
    assert "no column 'sold', which other_labels names" in lacking.audit.reason
    many = put_folder(tmp_path / "many", frame.with_columns(bought=pl.int_range(pl.len()) % 40))
    refused = audit(tables(many), plan=Plan(repetitions=4, other_labels=named)).audit
    assert (refused.detail, "more than 32 values" in refused.reason) == ("label_invalid", True)


@pytest.mark.parametrize(
    ("change", "epsilon", "cause", "code"),
    [
        ({"clicked": 1 - pl.col("clicked")}, 0.5,
         "The target's and the earlier model's probabilities fit the", "answers_doubtful"),
        ({"p_today": "p_yesterday", "p_yesterday": "p_today"}, 0.5,
         f"The earlier model knows labels of {DAY}: it gives", "proxy_unusable"),
        (None, 0.5, "Rows are logged twice: 100% of the rows that were looked at have the",
         "persons_split"),
        ({}, 100.0, "The declaration says nothing: at its epsilon of 100, random",
         "declaration_empty"),
    ],
)  # fmt: skip
def test_the_first_sentence_names_the_cause(tmp_path, change, epsilon, cause, code):
    frame = scored(leak=2.0)
    frame = pl.concat([frame, frame]) if change is None else frame.with_columns(**change)
    place = put_folder(tmp_path, frame)
    row = audit(tables(place), privacy=declared(epsilon)).audit
    assert row.reason.startswith(cause), row.reason
    assert row.reason_code == code
    assert "hold out more" not in row.reason
