"""No lie of an owner, or of who writes the table, makes `privaudit gate` pass a leaking file."""

import contextlib
import pathlib

import numpy as np
import polars as pl
import pytest
import xgboost

import flows.commands.gate_files
from flows.commands.gate_files import Decision, Limit, audit_files, decision_of
from privcore.lower_bounds import Verdict
from tests.support.release import RECORDS, by_heart, leaky, put_files, rows
from workers.executors import InProcess
from workers.sources.checkpoints.label_tables import LabelTable
from workers.warehouse.schema import AuditRow

TWO = Limit(2.0, None)
SUSPECT, SPLIT = "inconclusive: holdout_suspect", "inconclusive: persons_split"
TRAIN, HELD = (rows(2).filter(split=arm) for arm in ("train", "holdout"))


def asked(
    folder: pathlib.Path,
    limit: Limit = TWO,
    *,
    target: bytes | None = None,
    proxy: bytes | None = None,
    table: pl.DataFrame | None = None,
) -> tuple[AuditRow, Decision]:
    files = put_files(folder, target=target or leaky(), proxy=proxy, table=table)
    labels = LabelTable(table=files[2], day=None, label="late")
    record = audit_files(*files[:2], labels, limit)
    return record.audit, decision_of(record)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit in this process."""
    here = contextlib.nullcontext(InProcess())
    monkeypatch.setattr(flows.commands.gate_files, "choose_executor", lambda *_: here)


def resaved() -> bytes:
    booster = xgboost.Booster()
    booster.load_model(bytearray(leaky()))
    booster.set_attr(note="another file of the same model")
    return bytes(booster.save_raw("ubj"))


def test_the_target_as_its_own_proxy_fails(tmp_path: pathlib.Path) -> None:
    row, decision = asked(tmp_path, proxy=leaky())
    assert (decision.verdict, row.reason_code) == (Verdict.FAILED, "proxy_unusable")
    assert "1970" not in decision.why


@pytest.mark.slow
def test_a_proxy_that_saw_the_labels_is_inconclusive(tmp_path: pathlib.Path) -> None:
    for proxy in (resaved(), by_heart(TRAIN.head(1000))):
        row, decision = asked(tmp_path, proxy=proxy)
        assert (decision.verdict, row.reason_code) == (Verdict.FAILED, "proxy_unusable")
        assert "knows labels of this table" in decision.why


def test_ten_holdout_rows_are_inconclusive(tmp_path: pathlib.Path) -> None:
    row, decision = asked(tmp_path, table=pl.concat([TRAIN, HELD.head(10)]))
    assert (decision.verdict, row.reason_code) == (Verdict.INCONCLUSIVE, "few_held_out")


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "limit"), [(0.5, (2.0, None)), (0.99 / len(TRAIN), (None, 2.0))])
def test_no_delta_lets_a_leak_pass(
    tmp_path: pathlib.Path, delta: float, limit: tuple[float | None, float | None]
) -> None:
    row, decision = asked(tmp_path, Limit(*limit, delta=delta))
    # What refutes a declaration comes before what says that it says nothing.
    said = (Verdict.INCONCLUSIVE, "declaration_empty"), (Verdict.VIOLATED, "this_night")
    assert (decision.verdict, row.reason_code) == said[delta < 0.5]


@pytest.mark.slow
def test_a_holdout_that_was_trained_on_is_inconclusive(tmp_path: pathlib.Path) -> None:
    row, decision = asked(tmp_path, target=by_heart(rows(2)))
    assert ("holdout_suspect" in row.remarks, decision.said) == (True, SUSPECT)
    copies = pl.concat([TRAIN, TRAIN.with_columns(split=pl.lit("holdout"))])
    row, decision = asked(tmp_path, table=copies)
    assert ("holdout_suspect" in row.remarks, decision.said) == (True, SPLIT)


def test_a_column_of_noise_as_the_label_is_inconclusive(tmp_path: pathlib.Path) -> None:
    noise = np.random.default_rng(5).integers(0, 2, RECORDS)
    row, decision = asked(tmp_path, table=rows(2).with_columns(late=pl.Series(noise)))
    assert row.epsilon_lower == 0.0
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "do not follow this label" in decision.why


def test_bad_labels_fail(tmp_path: pathlib.Path) -> None:
    bad = rows(2).with_columns(late=pl.when(pl.int_range(pl.len()) < 5).then(7).otherwise("late"))
    row, decision = asked(tmp_path, table=bad)
    assert (decision.verdict, row.reason_code) == (Verdict.FAILED, "setup_wrong")


def test_rows_that_training_never_saw_are_inconclusive(tmp_path: pathlib.Path) -> None:
    """Of such a table a model that knows its own rows by heart was passed."""
    table = rows(9)[: len(TRAIN) // 2]
    row, decision = asked(tmp_path, table=table)
    assert decision.said == "inconclusive: rows_unaccounted"
    assert "rows_miscounted" in row.remarks
