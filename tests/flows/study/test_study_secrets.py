"""`privaudit study secrets`: resumed, the same twice, and every printed number beside ours."""

import polars as pl
import pytest

from flows.study import secrets
from flows.study.printed import RENYI, WORST_CASE, judged_rows, printed_values
from flows.study.secrets import NAME, NAME_STAND_IN, sentences, study
from tests.support.refusals import refused
from tests.support.studies import played


@pytest.fixture
def few(smaller):
    """Make the settings few."""
    smaller(secrets, NOISE=(2.0, 2.875), STEPS=(1, 2), CLIPPING=(1.0,), EPSILONS=(1.0,))


@pytest.mark.slow
def test_it_is_resumed_the_same_twice_and_an_exceeded_bound_is_said_aloud(few, tmp_path):  # noqa: ARG001
    one, _ = played(study(scale=0.1), tmp_path)
    assert one.resumed == []
    assert one.part("leakage")["models"].unique().to_list() == [1_000]
    next((tmp_path / "cells").glob("*")).unlink()
    again, _ = played(study(scale=0.1), tmp_path)
    assert again.resumed[0].startswith("9 of 10 parts were finished")
    for part in ("leakage", "guesses"):
        assert again.part(part).equals(one.part(part))
    leakage = one.part("leakage").with_columns(bound=pl.lit(-1.0))
    guesses = one.part("guesses").with_columns(exceeds_p_value=pl.lit(1e-9))
    said = " ".join(sentences(leakage, guesses))
    assert "LEAKAGE IS ABOVE THE RENYI BOUND in 4 of 4" in said
    assert "18 of 18 attacks EXCEED THEIR BOUND" in said


@pytest.mark.slow
def test_what_is_printed_stands_beside_ours(few, tmp_path):  # noqa: ARG001
    _, shown = played(study(scale=0.2), tmp_path)
    for paper, place in ((RENYI, "Section 3.2"), (RENYI, "Fig 3 left"), (WORST_CASE, "Fig 3")):
        own = {row.quantity for row in shown.ours if (row.paper, row.place) == (paper, place)}
        assert own == set(printed_values(paper, place))
    verdicts = [row["verdict"] for row in judged_rows(shown.ours, study(scale=0.2).settings)]
    leaked, guessed = "models for each leakage", "models for each success"
    assert verdicts[:2] == [f"not judged: {leaked}"] * 2
    assert verdicts[3:7] == [f"not judged: {guessed}"] * 4
    assert verdicts[7].startswith("not computed: the names' prior needs GPT-2")
    assert verdicts[8] == "agrees"
    as_whole = judged_rows(shown.ours, study(scale=1.0).settings)
    judged = {row["quantity"]: row["verdict"] for row in as_whole}
    assert judged["log p1 at sigma 2.875: standard deviation"] == "agrees"
    password = {name: verdict for name, verdict in judged.items() if "password" in name}
    assert len(password) == 4
    for name, verdict in password.items():
        expected = "agrees" if "from prior" in name else "differs: a model that starts without"
        assert verdict.startswith(expected), name
    assert any("No attack exceeds its bound" in sentence for sentence in shown.sentences)


@pytest.mark.slow
def test_a_prior_of_names_replaces_the_stand_in(few, tmp_path):  # noqa: ARG001
    likely = [0.02, 0.5, 0.12, 0.1, 0.07, 0.04, 0.04, 0.03, 0.03, 0.03, 0.02, 0.0]
    pl.DataFrame({"name": list("abcdefghijkl"), "probability": likely}).write_csv(
        tmp_path / "names.csv"
    )
    table = str(tmp_path / "names.csv")
    before, shown_before = played(study(scale=0.1), tmp_path / "out")
    made = study(scale=0.1, names=table)
    found, shown = played(made, tmp_path / "out")
    guesses = found.part("guesses")
    assert found.resumed[0].startswith("8 of 10 parts were finished")
    assert set(guesses["prior"]) ^ set(before.part("guesses")["prior"]) == {NAME, NAME_STAND_IN}
    assert guesses.filter(prior=NAME)["blind"].to_list() == pytest.approx([0.5 / 0.98] * 6)
    probabilities = (cell.parameters.get("probabilities", [0.1] * 10) for cell in made.cells)
    assert sorted((x / 0.98 for x in likely), reverse=True)[:10] in (
        pytest.approx(each) for each in probabilities
    )
    rows = [row for row in shown.ours if row.quantity == "attack success, name"]
    assert len(rows) == 4
    (row,) = [row for row in rows if row.of == "model from prior, noise for adding"]
    (without,) = [row for row in shown_before.ours if row.quantity == "attack success, name"]
    assert without.value is None
    assert "--names names.csv" in without.remark
    at = guesses.filter(prior=NAME, neighbors="add_remove", attack="model from prior")
    assert row.value == at["success"][0]
    spread = (0.525 * 0.475 / 2_000 + row.value * (1 - row.value) / 200) ** 0.5
    agrees = abs(row.value - 0.525) <= 2.0 * spread + 0.0005
    assert row.verdict([]) == ("agrees" if agrees else "differs")


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("p", [0.1] * 10, "column of numbers named 'probability'"),
        ("probability", ["a"] * 10, "column of numbers"),
        ("probability", [0.1] * 9, "at least ten names"),
        ("probability", [0.1] * 9 + [0.0] * 3, "at least ten names"),
        ("probability", [0.1] * 10 + [-0.1], "number of at least 0"),
        ("probability", [0.1] * 10 + [None], "number of at least 0"),
    ],
)
def test_a_prior_that_is_none_is_refused(tmp_path, column, values, rule):
    pl.DataFrame({column: values}).write_parquet(tmp_path / "names.parquet")
    refused(rule, study, scale=0.1, names=str(tmp_path / "names.parquet"))
