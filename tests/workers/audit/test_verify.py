import os
import subprocess
import sys

import numpy as np
import pytest

from privcore.exceptions import TerminalError
from tests.support.audits import recorded
from tests.support.lake import (
    DAY,
    EVE,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.warehouse import evaluated, failed, put_rows, tamper
from workers.audit import verify as verification
from workers.audit.verify import Finding, verify, verify_all_stored, verify_stored
from workers.executors import InProcess
from workers.plan import Plan
from workers.versions import METHOD_VERSION
from workers.warehouse.record_digest import record_digest, seal
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS, TABLES

# A plan that fills every table.
SLICED = Plan(repetitions=4, slices=("city",), minimum_slice_records=50, epsilon_public=0.1)


@pytest.fixture(scope="module")
def record(template):
    return seal(recorded(template, SLICED))


def with_audit(record, **changes):
    return record.model_copy(update={"audit": record.audit.model_copy(update=changes)})


def committed(folder, record):
    warehouse = Warehouse(str(folder / "warehouse"))
    warehouse.commit([record])
    return warehouse, record.audit.audit_id


@pytest.mark.slow
def test_an_audit_is_reproduced_to_the_bit_from_the_lake_and_what_is_stored(template, tmp_path):
    made = recorded(template)
    warehouse, audit_id = committed(tmp_path, made)
    found = verify(warehouse.record(audit_id), template, InProcess())
    assert (found.finding, found.differences) == (Finding.REPRODUCED, ())
    assert "to the bit" in found.sentence
    assert verify_stored(warehouse.record(audit_id)).finding is Finding.INTACT


def test_an_audit_without_figures_is_reproduced_too(template):
    missing = seal(recorded(template, model="nobody"))
    assert missing.audit.status == "not_evaluable"
    assert verify(missing, template, InProcess()).finding is Finding.REPRODUCED


@pytest.mark.slow
def test_values_changed_in_all_tables_are_noticed_and_named(template, tmp_path, record):
    """One change alone is noticed by the digest, which knows every column."""
    warehouse, audit_id = committed(tmp_path, record)
    changed = set()
    for table in ("audits", *PARTS):
        whole = warehouse.scan(table).collect()
        figures = [
            name
            for name, field in TABLES[table].row.model_fields.items()
            if field.annotation in {float, float | None, int, int | None}
            and name not in {"revision", *TABLES[table].keys}
            and whole[name].null_count() == 0
        ]
        column = figures[-1] if figures else "delta"
        changed.add((table, column))
        tamper(warehouse, table, lambda row, column=column: row.update({column: row[column] + 1}))
    altered = warehouse.record(audit_id)
    assert verify_stored(altered).finding is Finding.ALTERED
    assert [one.finding for one in verify_all_stored(warehouse)] == [Finding.ALTERED]
    found = verify(altered, template, InProcess())
    assert found.finding is Finding.ALTERED
    assert {(one.table, one.column) for one in found.differences} == changed


def test_a_row_that_is_gone_or_was_added_is_noticed(template, record):
    parts = {part: getattr(record, part) for part in PARTS.values()}
    for part, rows in parts.items():
        for other in (rows[1:], (*rows, rows[0])):
            changed = record.model_copy(update={part: other})
            assert verify_stored(changed).finding is Finding.ALTERED
    fewer = record.model_copy(update={part: rows[1:] for part, rows in parts.items()})
    gone = verify(fewer, template, InProcess()).differences
    assert sorted((one.table, one.column, one.stored) for one in gone) == sorted(
        (table, "*", None) for table in PARTS
    )


def test_a_digest_rewritten_to_fit_is_caught_by_computing_again(template, record):
    forged = seal(with_audit(record, epsilon_lower=0.0, epsilon_paper=0.125))
    assert verify_stored(forged).finding is Finding.INTACT
    found = verify(forged, template, InProcess())
    assert found.finding is Finding.DIFFERENT
    assert "epsilon_paper" in {one.column for one in found.differences}


@pytest.mark.slow
def test_what_another_kind_of_processor_rounds_otherwise_is_reproduced(template, record):
    (wealth,) = record.wealth
    assert record.audit.epsilon_lower == 0.0
    first, *others = wealth.window_log_wealth

    def found(epsilon_paper, epsilon_lower, logarithm):
        changed = with_audit(
            record,
            epsilon_paper=record.audit.epsilon_paper * (1 + epsilon_paper),
            epsilon_lower=epsilon_lower,
        )
        row = wealth.model_copy(update={"window_log_wealth": (first + logarithm, *others)})
        return verify(seal(changed.model_copy(update={"wealth": (row,)})), template, InProcess())

    rounded = found(5e-10, 5e-13, -5e-10)
    assert (rounded.finding, rounded.differences) == (Finding.REPRODUCED, ())
    assert "all to the bit but 3 within a billionth of what is stored" in rounded.sentence
    for column, changes in {
        "epsilon_paper": (2e-9, 0.0, 0.0),
        "epsilon_lower": (0.0, 2e-12, 0.0),
        "window_log_wealth": (0.0, 0.0, 2e-9 * max(1.0, abs(first))),
    }.items():
        other = found(*changes)
        assert other.finding is Finding.DIFFERENT
        assert [one.column for one in other.differences] == [column]


@pytest.mark.slow
def test_a_row_of_numbers_that_is_shorter_or_none_is_a_difference(template, record):
    (wealth,) = record.wealth
    for other in (wealth.window_log_wealth[:-1], wealth.window_log_wealth * 2, None):
        row = wealth.model_copy(update={"window_log_wealth": other})
        found = verify(seal(record.model_copy(update={"wealth": (row,)})), template, InProcess())
        assert [one.column for one in found.differences] == ["window_log_wealth"]


@pytest.mark.slow
def test_an_audit_is_reproduced_on_another_kind_of_processor(template, tmp_path):
    # Numpy and OpenBLAS without what this processor can do beyond the least of its kind.
    fast = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    other = os.environ | {
        "NPY_DISABLE_CPU_FEATURES": " ".join(fast),
        "OPENBLAS_CORETYPE": "Nehalem",
    }
    made = recorded(template, SLICED)
    _, audit_id = committed(tmp_path, made)
    script = (
        "import sys\n"
        "from workers.audit.verify import verify\n"
        "from workers.executors import InProcess\n"
        "from workers.lake.layout import Lake\n"
        "from workers.warehouse.store import Warehouse\n"
        "warehouse, audit_id, lake = sys.argv[1:]\n"
        "found = verify(Warehouse(warehouse).record(audit_id), Lake(lake), InProcess())\n"
        "print(found.finding, found.sentence)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "warehouse"), audit_id, template.uri],
        env=other,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("reproduced Every stored figure is reproduced")


@pytest.mark.slow
def test_changed_inputs_are_named_by_their_digests_and_those_that_are_gone_are_said(lake, record):
    put_labels(lake, DAY, label_rows(400, seed=9))
    found = verify(record, lake, InProcess())
    assert (found.finding, found.differences) == (Finding.INPUTS_CHANGED, ())
    assert f"was {record.audit.labels_digest}" in found.sentence
    assert "sha256" not in found.sentence
    edit_manifest(lake, "good", DAY, privacy=declared(2.0))
    assert "target_manifest_sha256" in verify(record, lake, InProcess()).sentence
    put_model(lake, EVE, privacy=declared(), parameters={"iterations": 3})
    assert "proxy_sha256" in verify(record, lake, InProcess()).sentence
    label_path(lake, "flights").unlink()
    found = verify(record, lake, InProcess())
    assert found.finding is Finding.INPUTS_CHANGED
    assert "no longer gives" in found.sentence


def test_a_record_of_another_method_or_plan_says_so(template, record, monkeypatch):
    later = seal(with_audit(record, plan='{"temperature": 3}'))
    assert verify(later, template, InProcess()).finding is Finding.OTHER_METHOD
    monkeypatch.setattr("workers.audit.request.METHOD_VERSION", "99")
    found = verify(record, template, InProcess())
    assert found.finding is Finding.OTHER_METHOD
    assert f"method version {METHOD_VERSION}, this is version 99" in found.sentence
    assert "privaudit 0." in found.sentence


def test_a_record_whose_digest_was_taken_out_is_altered(template, record):
    without = with_audit(record, record_digest=None)
    assert verify_stored(without).finding is Finding.ALTERED
    assert "its digest is missing" in verify(without, template, InProcess()).sentence


def test_the_digest_knows_every_bit_of_every_column_and_no_order(record):
    """But for those that a part has from its audit's row, where they are known."""
    digest = record.audit.record_digest
    assert len(digest) == 64
    turned = record.model_copy(update={"bounds": record.bounds[::-1]})
    assert record_digest(turned) == digest
    nudged = with_audit(record, epsilon_paper=record.audit.epsilon_paper * (1 + 2.0**-52))
    assert nudged.audit.epsilon_paper != record.audit.epsilon_paper
    assert record_digest(nudged) != digest
    assert record_digest(with_audit(record, epsilon_paper=None)) != digest
    for column in AuditRow.model_fields.keys() - {"record_digest"}:
        assert record_digest(with_audit(record, **{column: "other"})) != digest, column
    for table, part in PARTS.items():
        first, *others = getattr(record, part)
        of_audit = {*TableRow.model_fields, "model", "day"}
        for column in TABLES[table].row.model_fields.keys() - of_audit:
            changed = first.model_copy(update={column: "other"})
            turned = record.model_copy(update={part: (changed, *others)})
            assert record_digest(turned) != digest, column


def test_all_records_are_checked_in_parts(tmp_path, monkeypatch):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    put_rows(
        warehouse, [evaluated(f"model-{n}", DAY, hour=n) for n in range(5)] + [failed("other", DAY)]
    )
    monkeypatch.setattr(verification, "_CHUNK", 2)
    found = list(verify_all_stored(warehouse))
    assert len({one.audit_id for one in found}) == 6
    assert {one.finding for one in found} == {Finding.INTACT}


def test_an_id_that_nobody_knows_is_one_sentence(tmp_path):
    with pytest.raises(TerminalError, match="no audit 'nothing'"):
        Warehouse(str(tmp_path)).record("nothing")
