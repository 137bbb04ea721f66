"""`privaudit study relaxations`: every published figure, and what a wrong one would look like."""

import contextlib
import math
import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows import cli
from flows.study import relaxations_results
from flows.study.relaxations import BOUNDS, EPSILON, ORDER, RECORDS, read_bank, study_relaxations
from flows.study.relaxations_results import (
    attributes_table,
    membership_table,
    reconstruction_table,
    sentences,
    variance_table,
)
from privcore.attacks import Disagreement
from privcore.exceptions import InvalidInputError
from tests.support.published import printed
from tests.support.queries import bank_file
from workers.executors import InProcess


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relaxations")
    table = read_bank(str(bank_file()))
    return study_relaxations(table, folder, scale=0.01, executor=InProcess()), folder


def verdicts(table):
    return set(table.columns[-1].cells)


@pytest.mark.paper("relaxations", "Table 1", "Table 2", "Table 3", "Table 4", "Figure 2")
def test_what_is_called_published_is_what_the_paper_prints():
    """Every row of the paper's four tables and of the numbers in its text."""
    study = relaxations_results
    for row in printed("003_table1_variance_rule"):
        accuracy = int(row["correct"]) / int(row["simulations"])
        assert study._ACCURACY[int(row["m"])] == pytest.approx(accuracy, abs=1e-7)
        assert 100.0 * accuracy == pytest.approx(float(row["accuracy_percent"]), abs=1e-5)
        assert int(row["simulations"]) == study._PUBLISHED_SIMULATIONS
    (membership,) = printed("003_table2_membership_queries")
    columns = {"protected_by_idp": 1, "no_protection": 0}
    for column, k in columns.items():
        assert study._MEMBERSHIP[k] == int(membership[column])
        attributes = {row["target"]: row[column] for row in printed("003_table3_attribute_queries")}
        assert attributes == {
            "balance": str(study._BALANCE),
            "full record": str(study._FULL_RECORD),
        }
    table = {row["quantity"]: row for row in printed("003_table4_full_reconstruction")}
    totals = table.pop("total queries")
    budget = table.pop("total privacy budget spent")
    for column, k in {"idp_protection": 1, "no_protection": 0}.items():
        assert study._TOTALS[k] == int(totals[column])
        assert {name: row[column] for name, row in table.items()} == {
            "queries per person (about)": f"{study._TOTALS[k] / RECORDS:.1f}",
            "queries per data element (about)": f"{study._TOTALS[k] / RECORDS / len(ORDER):.1f}",
        }
    assert float(budget["idp_protection"]) == pytest.approx(study._TOTALS[1] * EPSILON)


@pytest.mark.paper("relaxations", "Section 6")
def test_every_number_of_the_text_is_ours_or_follows_from_ours():
    study = relaxations_results
    stated = {row["quantity"]: row["value"] for row in printed("003_text_values")}
    for name, (low, high) in BOUNDS.items():
        assert [float(end) for end in stated.pop(f"bounds {name}").split("..")] == [low, high]
    distinct, alone = study._BALANCE_DISTINCT, study._BALANCE_ALONE
    assert int(stated.pop("balance: distinct values")) == distinct
    assert int(stated.pop("balance: queries alone")) == alone
    assert stated.pop("queries per distinct value (about)") == f"{alone / distinct:.0f}"
    assert stated.pop("queries per person for balance (about)") == f"{alone / RECORDS:.0f}"
    bits = math.ceil(math.log2(BOUNDS["balance"][1] - BOUNDS["balance"][0] + 1))
    assert stated.pop("queries per bit for balance (about)") == f"{study._BALANCE / bits:.1f}"
    rest = study._FULL_RECORD - study._BALANCE
    assert float(stated.pop("non-linking attributes: additional queries")) == pytest.approx(rest)
    assert int(stated.pop("people unique on linking attributes")) == study._PERSONS
    # Rounded to an integer, noise of scale 1/epsilon is 0 or 1 with at most 1 - e^(-2 epsilon).
    failure = float(stated.pop("noise-detection failure after rounding to integer (at most)"))
    assert -math.expm1(-2.0 * EPSILON) <= failure
    assert int(stated.pop("repeats when rounded to 0/1")) == Disagreement().repetitions
    assert not stated


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
