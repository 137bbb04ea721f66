"""Score tables whose label is a number: the same audit, of the side of the proxy it lies on."""

import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.number_worlds import uneven
from tests.support.lake import DAY, declared
from tests.support.score_tables import EMPTY_LAKE, PLAN, audit, put_folder, tables
from tests.support.tiers import rest_slow
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.warehouse.store import Warehouse


def watched(rows: int = 4_000, *, seed: int = 0, remembered: float = 0.0) -> pl.DataFrame:
    """Return watch times; the target knows what the proxy knows, and some of what is left."""
    random = np.random.default_rng(seed)
    known = np.exp(random.normal(3.0, 1.0, rows))
    minutes = known * np.exp(random.normal(0.0, 0.5, rows))
    train = random.random(rows) < 0.6
    target = known * np.exp(random.normal(0.0, 0.1, rows))
    target += np.where(train, remembered * (minutes - target), 0.0)
    return pl.DataFrame(
        {
            "day": [DAY] * rows,
            "event_id": [f"event {number}" for number in range(rows)],
            "minutes": minutes,
            "said_today": target,
            "said_before": known,
            "split": np.where(train, "train", "holdout"),
            "user": [f"user {number // 2}" for number in range(rows)],
            "country": random.choice(["NL", "DE"], rows),
        }
    )


NUMBER = {
    "scale": "number",
    "label": "minutes",
    "target": "said_today",
    "proxy": "said_before",
}


def numbers(place: pathlib.Path, **changes: Any) -> ScoreTables:
    return tables(place, **NUMBER | changes)


def test_a_table_of_numbers_that_leaks_is_found_and_one_that_does_not_stays_silent(
    tmp_path: pathlib.Path,
) -> None:
    leaking = put_folder(tmp_path / "leaking", watched(remembered=0.8))
    record = audit(numbers(leaking), privacy=declared(0.5))
    row = record.audit
    assert (row.status, row.verdict) == ("evaluated", "violated"), row.reason
    assert "whether it lies above the proxy's prediction" in str(row.assumption)
    assert "half of the labels" in str(row.assumption)
    # Predictions of numbers are no chances: there is nothing to be faithful about.
    assert record.reliability == ()
    assert (row.target_log_loss, row.proxy_log_loss) == (None, None)
    silent = put_folder(tmp_path / "silent", watched())
    record = audit(numbers(silent), privacy=declared(0.5))
    assert (record.audit.verdict, record.audit.epsilon_lower) == ("consistent", 0.0)
    # No diagnostics of chances are beside it, and no features would test the holdout.
    assert record.audit.reason.partition("could have been proved. ")[2] == (
        "This audit would not notice if training saw a part of the holdout."
    )


@pytest.mark.slow
def test_a_record_of_numbers_is_verified(tmp_path: pathlib.Path) -> None:
    place = put_folder(tmp_path / "table", watched(remembered=0.5))
    record = audit(numbers(place), privacy=declared(0.5))
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(record)
    stored = warehouse.record(record.audit.audit_id)
    assert verify(stored, EMPTY_LAKE, InProcess()).finding is Finding.REPRODUCED


def test_the_unit_of_the_numbers_changes_no_more_than_a_bin(tmp_path: pathlib.Path) -> None:
    """Minutes or nanoseconds: the order of the distances is the same, cut at other places."""
    frame = watched(remembered=0.8)
    columns = [pl.col(name) * 6e10 for name in ("minutes", "said_today", "said_before")]
    found = [
        audit(numbers(put_folder(tmp_path / str(place), table))).audit.epsilon_lower
        for place, table in enumerate((frame, frame.with_columns(columns)))
    ]
    assert found[0] == pytest.approx(found[1], rel=0.1)


def test_persons_and_slices_play_as_of_classes(tmp_path: pathlib.Path) -> None:
    place = put_folder(tmp_path / "table", watched(remembered=0.8))
    persons = audit(numbers(place), plan=PLAN.model_copy(update={"privacy_unit": "user"})).audit
    assert persons.status == "evaluated", persons.reason
    assert (persons.records or 0) < 2_000
    by_country = PLAN.model_copy(update={"slices": ("country",)})
    assert len(audit(numbers(place), plan=by_country).slices) == 2


def test_an_uneven_holdout_of_many_zeros_accuses_nobody(tmp_path: pathlib.Path) -> None:
    """A cheap segment, mostly zeros, is held out eight times as often as the other."""
    labels, proxy, target, held = uneven(np.random.default_rng(4), 6_000, drift=4.0)
    frame = pl.DataFrame(
        {
            "day": [DAY] * labels.size,
            "minutes": labels,
            "said_today": target,
            "said_before": proxy,
            "split": np.where(held, "holdout", "train"),
            "country": np.random.default_rng(5).choice(["NL", "DE"], labels.size),
        }
    )
    plan = PLAN.model_copy(update={"slices": ("country",)})
    record = audit(numbers(put_folder(tmp_path, frame)), privacy=declared(0.1), plan=plan)
    assert (record.audit.verdict, record.audit.epsilon_lower) == ("consistent", 0.0)
    assert [row.epsilon_lower for row in record.slices] == [0.0, 0.0]
    assert record.audit.epsilon_ceiling is not None
    assert record.audit.epsilon_ceiling > 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (pl.lit(None, dtype=pl.Float64).alias("minutes"), "no finite number in 'minutes'"),
        (pl.lit(np.inf).alias("minutes"), "no finite number in 'minutes'"),
        (pl.lit(np.nan).alias("said_today"), "no finite prediction of target or proxy"),
        (pl.lit(-np.inf).alias("said_before"), "no finite prediction of target or proxy"),
        (pl.lit(None, dtype=pl.Float64).alias("said_before"), "no finite prediction of target"),
    ],
    ids=["no label", "infinite label", "no target", "infinite proxy", "no proxy"],
)
def test_a_row_without_a_number_is_bad_and_counted(
    tmp_path: pathlib.Path, change: pl.Expr, told: str
) -> None:
    name = change.meta.output_name()
    every_tenth = pl.int_range(pl.len()) % 10 == 3
    frame = watched().with_columns(pl.when(every_tenth).then(change).otherwise(name).alias(name))
    place = put_folder(tmp_path / "table", frame)
    row = audit(numbers(place)).audit
    assert row.status == "not_evaluable"
    assert told in row.reason
    assert "row 3 of row group 0" in row.reason
    allowed = audit(numbers(place), plan=PLAN.model_copy(update={"max_bad_records": 400})).audit
    assert (allowed.status, allowed.excluded_records) == ("evaluated", 400)


@pytest.mark.parametrize("role", ["label", "target", "proxy"])
def test_a_column_of_words_holds_no_numbers(tmp_path: pathlib.Path, role: str) -> None:
    place = put_folder(tmp_path / "table", watched())
    row = audit(numbers(place, **{role: "country"})).audit
    assert row.reason_code == "probabilities_invalid"
    assert f"scores.{role} names a column of numbers" in row.reason


def test_the_proxys_column_may_not_be_the_targets_copy(tmp_path: pathlib.Path) -> None:
    frame = watched().with_columns(said_before=pl.col("said_today"))
    row = audit(numbers(put_folder(tmp_path / "table", frame))).audit
    assert row.reason_code == "proxy_is_target"


@pytest.mark.parametrize("places", [-1, 0, 2])
def test_nor_the_targets_rounded(tmp_path: pathlib.Path, places: int) -> None:
    """Persons play, whom a guilty target would be acquitted for."""
    frame = watched(remembered=0.8)
    rounded = np.round(frame["said_today"].to_numpy(), places)
    place = put_folder(tmp_path / "table", frame.with_columns(said_before=pl.Series(rounded)))
    by_person = PLAN.model_copy(update={"privacy_unit": "user"})
    for plan in (PLAN, by_person):
        assert audit(numbers(place), plan=plan).audit.reason_code == "proxy_is_target"


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", rest_slow([{}, {"secret": "membership"}, {"privacy_unit": "user"}], always=2)
)
def test_a_proxy_that_knows_the_days_numbers_is_seen(
    tmp_path: pathlib.Path, more: dict[str, Any]
) -> None:
    knows = pl.col("said_before") + 0.5 * (pl.col("minutes") - pl.col("said_before"))
    frame = watched().with_columns(
        said_before=pl.when(pl.col("split") == "train").then(knows).otherwise("said_before")
    )
    if "privacy_unit" in more:  # else nobody has rows in one arm alone
        frame = frame.with_columns(user="event_id")
    plan = Plan.model_validate(PLAN.model_dump() | more)
    row = audit(numbers(put_folder(tmp_path / "table", frame)), plan=plan).audit
    assert row.reason_code == "proxy_saw_the_day", row.reason


@pytest.mark.parametrize("stated", [False, True])
def test_responses_are_not_taken_for_secret_numbers(tmp_path: pathlib.Path, stated: bool) -> None:
    """The proxy predicts half of the sides, which says nothing of the column."""
    random = np.random.default_rng(3)
    frame = watched().with_columns(minutes=pl.Series(random.integers(0, 20, 4_000) * 1.0))
    remembered = pl.when(split="train").then("minutes").otherwise(9.5)
    frame = frame.with_columns(
        said_today=remembered, said_before=pl.lit(9.5) + random.normal(size=4_000) / 9
    )
    mechanism = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 20}}
    state = {"label_state": {"privatised_by": mechanism}} if stated else {}
    row = audit(
        numbers(put_folder(tmp_path / "table", frame), **state),
        privacy=declared(1.0, mechanism=mechanism),
    ).audit
    if stated:
        assert (row.verdict, row.label_column_holds) == ("privatised", "privatised")
    else:
        assert row.label_column_holds is None
        assert "Look first" in row.reason


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"classes": (0, 1, 2)}, "a number has no classes"),
        ({"target": ("said_today", "minutes")}, "target names 2 columns"),
    ],
)
def test_what_numbers_have_not_is_refused(
    tmp_path: pathlib.Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        numbers(tmp_path, **changes)


def test_rows_of_other_days_are_no_bad_ones(tmp_path: pathlib.Path) -> None:
    """One file of two days, named in a column; the other day's rows have no numbers at all."""
    frame = watched()
    other = frame.with_columns(
        day=pl.lit(DAY.replace(day=1)), minutes=pl.lit(None, dtype=pl.Float64)
    )
    folder = tmp_path / "table"
    folder.mkdir()
    pl.concat([frame, other]).write_parquet(folder / "part.parquet")
    row = audit(numbers(folder, day="day")).audit
    assert row.status == "evaluated", row.reason
    assert (row.records or 0) + (row.control_records or 0) == len(frame)
