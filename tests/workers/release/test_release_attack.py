import dataclasses
import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from flows.cli import app
from privcore.exceptions import InvalidInputError
from tests.support.refusals import refused
from workers.release.release_attack import (
    ReleasePlan,
    TargetsFound,
    as_table,
    audit_release,
    release_verdict,
)
from workers.sources.tables.table_files import read_rows

FRAME = pl.DataFrame(
    {
        "age": [30, -1, 30],
        "pay": [10.25, 0.1, -3.999],
        "town": ["B", "A", "B"],
        "well": [True, False, True],
        "born": [dt.date(1970, 1, 2), dt.date(1969, 12, 31), dt.date(2000, 1, 1)],
    }
)


def test_columns_become_cells():
    table = as_table(FRAME, bounds={"age": (-5, 99)})
    assert table.cells.T.tolist() == [
        [30, -1, 30],
        [1025, 10, -400],
        [1, 0, 1],
        [1, 0, 1],
        [1, -1, 10957],
    ]
    assert (table.columns[0].lower, table.columns[0].upper) == (-5, 99)
    assert table.columns[1].cells is None
    assert table.columns[2].categories == ("A", "B")
    assert (table.records, table.index("town")) == (3, 2)
    refused("column is 'size'", table.index, "size")


def test_the_digest_is_that_of_schema_and_cells():
    same = as_table(FRAME.with_columns(pl.col("age").cast(pl.Int16)))
    assert same.digest == as_table(FRAME).digest
    assert as_table(FRAME.with_columns(pl.col("age") + 1)).digest != same.digest
    assert as_table(FRAME, precision=0.1).digest != same.digest
    assert as_table(FRAME.rename({"age": "years"})).digest != same.digest


@pytest.mark.parametrize(
    ("table", "given", "words"),
    [
        (pl.DataFrame({"x": [1, None, 3]}), {}, "1 of its values are missing"),
        (pl.DataFrame({"x": [1.0, float("nan"), 3.0]}), {}, "finite number"),
        (pl.DataFrame({"x": [1.0, float("inf"), 3.0]}), {}, "finite number"),
        (pl.DataFrame({"x": [[1], [2], [3]]}), {}, "List"),
        (pl.DataFrame(), {}, "at least one row"),
        (FRAME.clear(), {}, "at least one row"),
        (FRAME, {"bounds": {"size": (0, 1)}}, "bounds"),
        (FRAME, {"bounds": {"age": (-5, 10)}}, "age is 30"),
        (FRAME, {"precision": 0.0}, "precision is 0"),
    ],
)
def test_bad_tables_are_named(table, given, words):
    refused(words, as_table, table, **given)


def test_a_number_of_more_than_64_bits_is_a_sentence(tmp_path):
    """In a CSV file for `privaudit release` it was an unexpected error."""
    (tmp_path / "x.csv").write_text(f"a\n{'9' * 26}\n", "utf-8")
    with pytest.raises(InvalidInputError):
        as_table(read_rows(str(tmp_path / "x.csv")))


def frame(rows=60, seed=0):
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": random.integers(18, 60, rows),
            "pay": np.round(random.normal(0, 30, rows), 2),
            "town": random.choice(["A", "B", "C"], rows),
        }
    )


def audit(data, **plan):
    given = {"definition": "idp", "epsilon": 0.01} | plan
    return audit_release(as_table(data), ReleasePlan(**given), name="staff.csv")


@pytest.mark.parametrize(
    ("definition", "k"), [("idp", 1), ("group_idp", 1), ("group_idp", 4), ("bdp", 1)]
)
def test_a_relaxation_is_read_whole_for_less_than_it_claims(definition, k):
    row = audit(frame(), definition=definition, k=k)
    assert row.verdict == "reconstructed"
    assert (row.records_read, row.cells_read) == (1.0, 1.0)
    assert row.reason.startswith("All 60")
    assert row.claimed_budget == pytest.approx(row.queries * row.epsilon_per_query)
    assert 0 < row.claimed_budget < 0.01
    assert (row.table, row.plan.definition, row.plan.k, row.stopped) == (
        "staff.csv", definition, k, "",
    )  # fmt: skip


def test_the_honest_control_resists():
    """60 records, 10 tables: at epsilon 0.01 in all nothing is read beyond chance."""
    rows = [audit(frame(seed=seed), definition="dp") for seed in range(10)]
    assert {row.verdict for row in rows} == {"resisted"}
    assert max(row.records_read for row in rows) < 0.1
    assert "no more" in rows[0].reason


def test_bdp_reads_the_distinct_records():
    data = pl.concat([frame(20), frame(20), frame(20)])
    row = audit(data, definition="bdp")
    assert (row.verdict, row.records) == ("reconstructed", 20)
    assert "distinct records" in row.reason


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from("ab")), min_size=2, max_size=12))
def test_small_tables_of_any_shape(rows):
    data = pl.DataFrame(rows, schema=["x", "y"], orient="row")
    row = audit(data)
    assert row.verdict == "reconstructed"
    assert row.claimed_budget < row.plan.epsilon


@pytest.mark.parametrize("definition", ["idp", "bdp"])
def test_targets_are_told_and_read(definition):
    data = pl.concat(
        [
            frame(30),
            pl.DataFrame({"age": [77, 78, 78], "pay": [1.5, 2.5, 3.5], "town": list("ABB")}),
        ]
    )
    targets = ({"age": "77"}, {"age": "78"}, {"age": "79"}, {"age": "78", "pay": "3.5"})
    row = audit(data, definition=definition, targets=targets)
    assert (row.targets.targets, row.targets.told, row.targets.reconstructed) == (4, 4, 2)
    assert row.targets.queries > 8
    assert row.table_queries < row.queries


def test_no_value_is_kept(tmp_path):
    data = pl.DataFrame({"name": ["xyzzy-1", "xyzzy-2", "xyzzy-3"], "n": [41817, 41818, 41819]})
    data.write_csv(tmp_path / "staff.csv")
    asked = ["release", "--table", str(tmp_path / "staff.csv"), "--definition", "idp"]
    given = ["--target", "name=xyzzy-2", "--output", str(tmp_path / "out")]
    ended = CliRunner().invoke(app, [*asked, *given])
    assert ended.exit_code == 1, ended.output
    held = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"staff.csv: reconstructed" in held
    for text in (held, ended.output.encode()):
        assert b"xyzzy" not in text
        assert b"4181" not in text


def test_bad_input_is_named():
    refused("at least 2k = 122 records", audit, frame(), definition="group_idp", k=61)
    for target, words in (
        ({}, "column=value"),
        ({"size": "3"}, "column is 'size'"),
        ({"age": "old"}, "numeric"),
        ({"town": "Z"}, "one of"),
    ):
        refused(words, audit, frame(), targets=(target,))
    for plan in (
        {"k": 0},
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
        {"precision": 0.0},
        {"k": 2},
    ):
        with pytest.raises(ValidationError):
            ReleasePlan(**({"definition": "idp", "epsilon": 0.01} | plan))


def test_verdicts_and_sentences():
    nobody = TargetsFound()
    assert release_verdict(found=50, by_chance=0, records=50, targets=nobody) == "reconstructed"
    assert release_verdict(found=8, by_chance=0, records=50, targets=nobody) == "partly"
    assert release_verdict(found=7, by_chance=0, records=50, targets=nobody) == "resisted"
    assert release_verdict(found=60, by_chance=50, records=900, targets=nobody) == "resisted"
    most = TargetsFound(targets=3, told=3, reconstructed=2, queries=9)
    assert release_verdict(found=0, by_chance=0, records=50, targets=most) == "partly"
    row = dataclasses.replace(audit(frame()), verdict="partly", records_read=0.25)
    assert row.reason.startswith(f"25.0% of the 60 records were read whole, with {row.queries:,} ")
