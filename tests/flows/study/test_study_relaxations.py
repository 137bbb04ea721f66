"""`privaudit study relaxations`: every published figure, and what a wrong one would look like."""

import contextlib
import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows import cli
from flows.study import relaxations_results
from flows.study.relaxations import read_bank, study_relaxations
from flows.study.relaxations_results import (
    attributes_table,
    membership_table,
    reconstruction_table,
    sentences,
    variance_table,
)
from privcore.exceptions import InvalidInputError
from tests.support.queries import bank_file
from workers.executors import InProcess


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relaxations")
    table = read_bank(str(bank_file()))
    return study_relaxations(table, folder, scale=0.01, executor=InProcess()), folder


def verdicts(table):
    return set(table.columns[-1].cells)


@pytest.mark.slow  # half a minute: single queries, 540,000 one after the other
def test_everything_published_is_reproduced(found):
    findings, folder = found
    assert verdicts(variance_table(findings.variance)) == {"yes"}
    assert verdicts(membership_table(findings.membership)) == {"yes"}
    assert verdicts(attributes_table(findings.attributes)) == {"yes"}
    assert verdicts(reconstruction_table(findings.tables)) == {"yes", "-"}
    assert findings.tables["share_of_cells"].to_list() == [1.0] * 4
    assert findings.columns["right"].all()
    assert any(
        "238,462 queries for 7,168 values; reproduces: yes" in s for s in sentences(findings)
    )
    again = study_relaxations(read_bank(str(bank_file())), folder, scale=0.01, executor=InProcess())
    assert "read, not computed again" in again.resumed[0]
    assert again.columns.equals(findings.columns)


@pytest.mark.slow
def test_countermeasures_cost_what_is_said(found):
    """Queries are counted, and the share that is read says which of them is a guarantee."""
    by_name = {row["name"]: row for row in found[0].countermeasures.to_dicts()}
    free = by_name["none"]["queries"]
    for name, times in {"recommended": 1, "integers": 1, "bits": 45, "least-epsilon": 1}.items():
        assert by_name[name]["queries"] == times * free, name
        assert by_name[name]["share"] == 1.0, name
    assert by_name["always"]["queries"] > 100_000 * free
    assert by_name["always"]["share"] == 1.0
    assert by_name["least-epsilon"]["claimed_budget"] == pytest.approx(0.01 * free)
    assert (by_name["limit"]["queries"], by_name["limit"]["share"]) == (100, 0.0)
    assert by_name["noisy-count"]["share"] < 0.01


@pytest.mark.slow
def test_a_figure_that_differs_is_called_so(found):
    findings, _ = found
    one_more = findings.tables.with_columns(pl.col("queries") + 1)
    assert verdicts(reconstruction_table(one_more)) == {"NO", "-"}
    assert verdicts(membership_table(findings.membership.with_columns(right=1))) == {"NO"}
    wrong = findings.attributes.with_columns(pl.col("right") - 1)
    assert verdicts(attributes_table(wrong)) == {"NO"}
    worse = findings.variance.with_columns((pl.col("right") * 0.95).cast(pl.Int64))
    assert verdicts(variance_table(worse)) == {"NO"}


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_files(found, tmp_path, monkeypatch, capsys):
    findings, _ = found
    monkeypatch.setattr(relaxations_results, "study_relaxations", lambda *_, **__: findings)
    monkeypatch.setattr(
        relaxations_results, "on_ray", lambda *_: contextlib.nullcontext(InProcess())
    )
    monkeypatch.setenv("COLUMNS", "90")
    arguments = ["study", "relaxations", "--table", str(bank_file()), "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["privaudit", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in {0, None}
    printed = capsys.readouterr().out
    assert "5,418,936" in printed
    assert "NO" not in printed
    for name in ("variance", "membership", "attributes", "tables", "columns", "countermeasures"):
        assert pl.read_csv(tmp_path / f"{name}.csv").height > 0
    assert ET.parse(tmp_path / "columns.svg").getroot().tag.endswith("svg")  # noqa: S314


def test_another_table_is_refused(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("age;job\n3;a\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="bank-full has 45,211 rows"):
        read_bank(str(other))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_bank(str(tmp_path / "none.csv"))
