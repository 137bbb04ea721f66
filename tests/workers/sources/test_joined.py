"""Labels, target and proxy in three tables, joined by record."""

import pathlib
import tempfile
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pytest

from tests.support.lake import DAY, EVE, declared
from workers.audit.run import Request, run_audit, run_audits
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.score_tables import ScoreTables
from workers.sources.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow

NOWHERE = Lake("/nowhere")
ROWS = 4_000


def world(leak: float = 3.0) -> pl.DataFrame:
    random = np.random.default_rng(1)
    proxy = random.uniform(0.2, 0.8, ROWS)
    label = (random.random(ROWS) < proxy).astype(np.int64)
    train = random.random(ROWS) < 0.5
    logit = np.log(proxy / (1.0 - proxy)) + np.where(train, leak * (2 * label - 1), 0.0)
    return pl.DataFrame(
        {
            "day": [DAY] * ROWS,
            "event_id": [f"e{number}" for number in range(ROWS)],
            "clicked": label,
            "p_today": 1.0 / (1.0 + np.exp(-logit)),
            "p_yesterday": proxy,
            "split": np.where(train, "train", "holdout"),
        }
    )


class Tables:
    """Three tables of one world, of three kinds, which a test may damage before they are joined."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        frame = world().sample(fraction=1.0, shuffle=True, seed=1)
        self.labels = frame.select("day", "event_id", "clicked", "split")
        self.target = frame.select("day", record="event_id", p="p_today").reverse()
        self.proxy = frame.select(ds=pl.col("day").dt.strftime("%Y%m%d"), event_id="event_id",
                                  p="p_yesterday")  # fmt: skip

    def put(self) -> ScoreTables:
        labels = self.folder / "labels" / f"day={DAY}"
        labels.mkdir(parents=True)
        self.labels.drop("day").write_parquet(labels / "part.parquet")
        for name in ("target", "proxy"):
            deltalake.write_deltalake(str(self.folder / name), getattr(self, name))
        return ScoreTables.model_validate(
            {
                "table": str(self.folder / "labels"),
                "record": "event_id",
                "label": "clicked",
                "target": {"table": str(self.folder / "target"), "column": "p", "record": "record"},
                "proxy": {"table": str(self.folder / "proxy"), "column": "p", "day": "ds"},
            }
        )


@pytest.fixture
def tables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    (tmp_path / "spill").mkdir()
    return Tables(tmp_path)


def audited(tables: ScoreTables, **plan: Any) -> AuditRow:
    supplied = SuppliedScores(tables, Privacy.model_validate(declared(0.5)))
    plans = Plan(repetitions=4, **plan)
    row = run_audit(NOWHERE, "ads", DAY, plan=plans, executor=InProcess(), elsewhere=supplied).audit
    assert list(pathlib.Path(tempfile.gettempdir()).iterdir()) == []
    return row


def test_records_named_by_text_here_and_numbers_there_are_joined(tables: Tables) -> None:
    number = pl.col("event_id").str.slice(1)
    tables.labels = tables.labels.with_columns(event_id=number.cast(pl.Int64))
    tables.target = tables.target.with_columns(record=pl.col("record").str.slice(1))
    tables.proxy = tables.proxy.with_columns(event_id=number)
    assert audited(tables.put()).verdict == "violated"


def test_records_of_other_names_and_without_one_are_said(tables: Tables) -> None:
    tables.target = tables.target.with_columns(record=pl.col("record") + "x")
    row = audited(tables.put())
    assert row.reason_code == "record_unjoined"
    assert f"{ROWS:,} records have no row in" in str(row.reason)


def test_rows_that_name_no_record_are_counted(tables: Tables) -> None:
    nameless = pl.when(pl.int_range(pl.len()) >= 7).then(pl.col("event_id"))
    tables.labels = tables.labels.with_columns(event_id=nameless)
    given = tables.put()
    row = audited(given)
    assert row.reason_code == "record_unjoined"
    assert "7 rows of" in str(row.reason)
    assert "have no value in 'event_id', scores.record" in str(row.reason)
    assert audited(given, max_bad_records=7).status == "evaluated"


def test_records_named_by_fractions_are_refused(tables: Tables) -> None:
    tables.proxy = tables.proxy.with_columns(event_id=pl.int_range(pl.len()).cast(pl.Float64))
    row = audited(tables.put())
    assert row.reason_code == "label_invalid"
    assert "stores 'event_id', scores.record, as double" in str(row.reason)


def test_three_tables_are_the_audit_of_one(tables: Tables, tmp_path: pathlib.Path) -> None:
    joined = audited(tables.put())
    folder = tmp_path / "one" / f"day={DAY}"
    folder.mkdir(parents=True)
    world().drop("day").write_parquet(folder / "part.parquet")
    given = {"table": str(folder.parent), "label": "clicked", "target": "p_today"}
    alone = audited(ScoreTables.model_validate(given | {"proxy": "p_yesterday"}))
    assert (joined.status, joined.verdict) == ("evaluated", "violated")
    # Streams are the files' own, so what is drawn differs; what is counted does not.
    for name in ("records", "control_records", "epsilon_if_proxy_right", "target_log_loss"):
        assert getattr(joined, name) == getattr(alone, name)
    assert joined.epsilon_lower == pytest.approx(alone.epsilon_lower, abs=0.3)


def test_the_order_of_rows_and_files_changes_nothing_and_verify_joins_again(
    tables: Tables, tmp_path: pathlib.Path
) -> None:
    given = tables.put()
    supplied = SuppliedScores(given)
    request = Request("ads", Plan(repetitions=4), elsewhere=supplied)
    (record,) = run_audits(NOWHERE, DAY, [request], executor=InProcess())
    assert verify(record, NOWHERE, InProcess()).finding is Finding.REPRODUCED
    shuffled = Tables(tmp_path / "again")
    shuffled.labels = shuffled.labels.sample(fraction=1.0, shuffle=True, seed=9)
    supplied = SuppliedScores(shuffled.put())
    request = Request("ads", Plan(repetitions=4), elsewhere=supplied)
    (again,) = run_audits(NOWHERE, DAY, [request], executor=InProcess())
    assert again.audit.labels_digest == record.audit.labels_digest
    assert again.audit.audit_id == record.audit.audit_id
    assert again.audit.epsilon_game == record.audit.epsilon_game


def test_records_that_a_table_lacks_are_counted_and_bounded(tables: Tables) -> None:
    tables.target = tables.target.filter(pl.col("record") != "e7")
    tables.proxy = tables.proxy[:-5]
    given = tables.put()
    row = audited(given)
    assert (row.status, row.reason_code) == ("not_evaluable", "record_unjoined")
    assert "max_bad_records is 0" in row.reason
    row = audited(given, max_bad_records=6)
    assert row.status == "evaluated"
    assert row.records + row.control_records + 6 == ROWS
    assert "record_unjoined 6" in row.reason


def test_tables_that_name_no_common_record_are_said(tables: Tables) -> None:
    tables.target = tables.target.with_columns(record="x" + pl.col("record"))
    assert "names the same records in all tables" in audited(tables.put()).reason


def test_the_same_row_twice_is_one_and_two_values_for_one_record_are_bad(tables: Tables) -> None:
    once = audited(tables.put())
    again = Tables(tables.folder / "twice")
    again.labels = pl.concat([again.labels, again.labels[:50]])
    again.target = pl.concat([again.target, again.target])
    twice = audited(again.put())
    assert (twice.records, twice.epsilon_lower) == (once.records, once.epsilon_lower)
    differ = Tables(tables.folder / "differ")
    corrected = differ.labels[:3].with_columns(clicked=1 - pl.col("clicked"))
    differ.labels = pl.concat([differ.labels, corrected])
    row = audited(differ.put())
    assert row.reason_code == "record_repeated"
    assert "3 records of" in row.reason
    assert "name scores.known_at if labels were corrected" in row.reason


def test_of_corrected_labels_the_last_that_training_could_know_counts(tables: Tables) -> None:
    at = pl.datetime(DAY.year, DAY.month, DAY.day, 12)
    first = tables.labels.with_columns(clicked=1 - pl.col("clicked"), known=at)
    mended = tables.labels.with_columns(known=at + pl.duration(hours=1))
    late = first.with_columns(known=at + pl.duration(hours=24))
    tables.labels = pl.concat([first, mended, late])
    row = audited(tables.put().model_copy(update={"known_at": "known"}))
    assert (row.status, row.verdict) == ("evaluated", "violated")
    assert row.records + row.control_records == ROWS


def test_a_label_that_was_withdrawn_before_training_is_none(tables: Tables) -> None:
    at = pl.datetime(DAY.year, DAY.month, DAY.day, 12)
    first = tables.labels.with_columns(known=at)
    gone = first.head(3).with_columns(
        clicked=pl.lit(None, dtype=first.schema["clicked"]), known=at + pl.duration(hours=1)
    )
    tables.labels = pl.concat([first, gone])
    given = tables.put().model_copy(update={"known_at": "known"})
    row = audited(given)
    assert (row.status, row.reason_code) == ("not_evaluable", "label_invalid"), row.reason
    assert "3" in row.reason


def test_another_days_rows_and_rows_without_a_name_are_not_joined(tables: Tables) -> None:
    tables.target = pl.concat(
        [tables.target, tables.target.with_columns(day=pl.lit(EVE), p=pl.lit(0.5))]
    )
    nameless = pl.DataFrame({"ds": [f"{DAY:%Y%m%d}"], "event_id": [None], "p": [0.5]},
                            schema=tables.proxy.schema)  # fmt: skip
    tables.proxy = pl.concat([tables.proxy, nameless])
    row = audited(tables.put())
    assert row.status == "evaluated"
    assert row.records + row.control_records == ROWS


def test_a_column_that_a_table_lacks_is_said(tables: Tables) -> None:
    tables.proxy = tables.proxy.rename({"p": "score"})
    row = audited(tables.put())
    assert "has no column 'p'" in row.reason
    assert "it has ds, event_id, score" in row.reason
