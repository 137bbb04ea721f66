"""`privaudit study relaxations`: every published figure, and what a wrong one would look like."""

import math

import polars as pl
import pytest

from flows.study.printed import RELAXATIONS, judged_rows, printed_values
from flows.study.relaxations import BANK, BANK_BOUNDS, BANK_RECORDS, EPSILON, beside, study
from privcore.attacks import Disagreement
from tests.support.published import printed
from tests.support.queries import bank_file
from tests.support.refusals import refused
from tests.support.studies import played
from workers.exceptions import NotEvaluableError


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    return played(study(str(bank_file()), scale=0.02), tmp_path_factory.mktemp("relaxations"))


def verdicts(data, *place):
    """Return the verdicts on some tables of the paper, as if the scale were the paper's."""
    return {row.verdict([]) for row in beside(data) if row.place in place}


def number(place, quantity):
    return printed_values(RELAXATIONS, place)[quantity].middle


@pytest.mark.paper("relaxations", "Table 4")
def test_what_follows_from_the_printed_totals():
    table = {row["quantity"]: row for row in printed("003_table4_full_reconstruction")}
    del table["total queries"]
    budget = table.pop("total privacy budget spent")
    for column, name in {"idp_protection": "IDP", "no_protection": "no protection"}.items():
        total = number("Table 4", f"queries for the whole table, {name}")
        assert {quantity: row[column] for quantity, row in table.items()} == {
            "queries per person (about)": f"{total / BANK_RECORDS:.1f}",
            "queries per data element (about)": f"{total / BANK_RECORDS / len(BANK):.1f}",
        }
    total = number("Table 4", "queries for the whole table, IDP")
    assert float(budget["idp_protection"]) == pytest.approx(total * EPSILON)


@pytest.mark.paper("relaxations", "Section 6", "Figure 2")
def test_every_number_of_the_text_is_ours_or_follows_from_ours():
    stated = {row["quantity"]: row["value"] for row in printed("003_text_values")}
    for name, (low, high) in BANK_BOUNDS.items():
        assert [float(end) for end in stated.pop(f"bounds {name}").split("..")] == [low, high]
    distinct, alone = (
        number("Fig 2", name)
        for name in ("distinct values of balance", "queries for balance alone")
    )
    balance, record = (
        number("Table 3", f"queries for {name}, IDP") for name in ("balance", "full record")
    )
    assert int(stated.pop("balance: distinct values")) == distinct
    assert int(stated.pop("balance: queries alone")) == alone
    assert stated.pop("queries per distinct value (about)") == f"{alone / distinct:.0f}"
    assert stated.pop("queries per person for balance (about)") == f"{alone / BANK_RECORDS:.0f}"
    bits = math.ceil(math.log2(BANK_BOUNDS["balance"][1] - BANK_BOUNDS["balance"][0] + 1))
    assert stated.pop("queries per bit for balance (about)") == f"{balance / bits:.1f}"
    rest = record - balance
    assert float(stated.pop("non-linking attributes: additional queries")) == pytest.approx(rest)
    assert int(stated.pop("people unique on linking attributes")) == number(
        "Table 3", "persons unique on five attributes"
    )
    # Rounded to an integer, noise of scale 1/epsilon is 0 or 1 with at most 1 - e^(-2 epsilon).
    failure = float(stated.pop("noise-detection failure after rounding to integer (at most)"))
    assert -math.expm1(-2.0 * EPSILON) <= failure
    assert int(stated.pop("repeats when rounded to 0/1")) == Disagreement().repetitions
    assert not stated


@pytest.mark.slow  # half a minute: single queries, 540,000 one after the other
def test_everything_published_is_reproduced(found):
    shown = found[1]
    rows = judged_rows(shown.ours, [])
    assert {row["verdict"] for row in rows} == {"agrees"}
    assert {row["place"] for row in rows} == {"Table 1", "Table 2", "Table 3", "Table 4", "Fig 2"}
    smaller = study(str(bank_file()), scale=0.02)
    for row in judged_rows(shown.ours, smaller.settings):
        simulated = row["place"] == "Table 1"
        assert row["verdict"] == ("not judged: simulations of each m" if simulated else "agrees")
    assert shown.data["tables"]["share_of_cells"].to_list() == [1.0] * 4
    assert shown.data["columns"]["right"].all()
    assert [row.written for row in shown.ours if row.place == "Fig 2"] == ["238,462", "7,168"]


@pytest.mark.slow
def test_countermeasures_cost_what_is_said(found):
    """Queries are counted, and the share that is read says which of them is a guarantee."""
    by_name = {row["name"]: row for row in found[1].data["countermeasures"].to_dicts()}
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
    data = found[1].data
    for name, place, changed in (
        ("tables", "Table 4", pl.col("queries") + 1),
        ("membership", "Table 2", pl.lit(1).alias("right")),
        ("attributes", "Table 3", pl.col("right") - 1),
        ("variance", "Table 1", (pl.col("right") * 0.95).cast(pl.Int64)),
    ):
        assert verdicts(data, place) == {"agrees"}
        wrong = data | {name: data[name].with_columns(changed)}
        assert "differs" in verdicts(wrong, place), name


def test_another_table_is_refused(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("age;job\n3;a\n", encoding="utf-8")
    refused("bank-full has 45,211 rows", study, str(other), scale=1.0)
    with pytest.raises(NotEvaluableError, match="is no Delta table, and holds no file"):
        study(str(tmp_path / "none.csv"), scale=1.0)
