"""`privaudit study secrets`: resumed, the same twice, and every printed number beside ours."""

import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows.commands.printing import Form, print_study
from flows.study import secrets
from flows.study.runner import write_study
from flows.study.secrets import NAME, NAME_STAND_IN, read_names, sentences, study
from flows.study.tables import published_rows
from privcore.exceptions import InvalidInputError
from tests.support.published import printed
from tests.support.studies import played


@pytest.fixture
def few(smaller):
    """Make the settings few."""
    smaller(secrets, NOISE=(2.0, 2.875), STEPS=(1, 2), CLIPPING=(1.0,), EPSILONS=(1.0,))


@pytest.mark.slow
def test_it_is_resumed_and_the_same_twice(few, tmp_path):  # noqa: ARG001
    one, _ = played(study(scale=0.1), tmp_path / "one")
    assert one.resumed == []
    assert one.part("leakage")["models"].unique().to_list() == [1_000]
    (tmp_path / "one" / "cells").glob("*").__next__().unlink()
    again, _ = played(study(scale=0.1), tmp_path / "one")
    assert again.resumed[0].startswith("9 of 10 parts were finished")
    for part in ("leakage", "guesses"):
        assert again.part(part).equals(one.part(part))


@pytest.mark.slow
def test_what_is_printed_stands_beside_ours(few, tmp_path, capsys):  # noqa: ARG001
    found, shown = played(study(scale=0.2), tmp_path)
    rows = shown.published
    ours = {row.quantity: row for row in rows}
    renyi = {row["quantity"]: row["value"] for row in printed("002_text_values")}
    mean, deviation = (ours[quantity] for quantity in ours if quantity.startswith("log p1 at"))
    for row in (mean, deviation):
        assert row.printed == renyi[row.quantity]
    assert deviation.agrees
    worst = {
        (row["quantity"]): float(row["value"])
        for row in printed("000_text_values")
        if row["place"] == "Fig 3"
    }
    unjudged = published_rows(rows, unjudged=study(scale=0.2).unjudged)["verdict"].to_list()
    assert unjudged[3:] == ["agrees"] + ["not judged: scale 0.2"] * 4 + [rows[-1].verdict]
    assert unjudged[:3] == ["not judged: scale 0.2"] * 3
    assert study(scale=1.0).unjudged == ""
    password = [row for row in rows if "password" in row.quantity]
    assert {float(row.printed) for row in password} == {
        worst["attack success, password (scaled to 10 digits)"]
    }
    from_prior = [row for row in password if "from prior" in row.quantity]
    assert [row.agrees for row in from_prior] == [True, True]
    assert [row.agrees for row in password if row not in from_prior] == [False, False]
    assert any("No attack exceeds its bound" in sentence for sentence in shown.sentences)
    print_study(write_study(study(scale=0.2), found, tmp_path), Form.TABLE)
    assert "not judged: scale 0.2" in capsys.readouterr().out
    for name in ("leakage", "guesses"):
        assert pl.read_csv(tmp_path / f"{name}.csv").height > 3
        assert ET.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")  # noqa: S314


@pytest.mark.slow
def test_a_bound_that_is_exceeded_is_said_aloud(few, tmp_path):  # noqa: ARG001
    found, _ = played(study(scale=0.1), tmp_path)
    leakage = found.part("leakage").with_columns(bound=pl.lit(-1.0))
    guesses = found.part("guesses").with_columns(exceeds_p_value=pl.lit(1e-9))
    said = " ".join(sentences(leakage, guesses, 0.1))
    assert "LEAKAGE IS ABOVE THE RENYI BOUND in 4 of 4" in said
    assert "18 of 18 attacks EXCEED THEIR BOUND" in said


@pytest.mark.slow
def test_a_prior_of_names_replaces_the_stand_in(few, tmp_path):  # noqa: ARG001
    likely = [0.02, 0.5, 0.12, 0.1, 0.07, 0.04, 0.04, 0.03, 0.03, 0.03, 0.02, 0.0]
    pl.DataFrame({"name": list("abcdefghijkl"), "probability": likely}).write_csv(
        tmp_path / "names.csv"
    )
    table = str(tmp_path / "names.csv")
    names = read_names(table)
    assert names.tolist() == pytest.approx(sorted((x / 0.98 for x in likely), reverse=True)[:10])
    before, shown_before = played(study(scale=0.1), tmp_path / "out")
    found, shown = played(study(scale=0.1, names=table), tmp_path / "out")
    guesses = found.part("guesses")
    assert found.resumed[0].startswith("8 of 10 parts were finished")
    assert set(guesses["prior"]) ^ set(before.part("guesses")["prior"]) == {NAME, NAME_STAND_IN}
    assert guesses.filter(prior=NAME)["blind"].to_list() == [float(names[0])] * 6
    rows = [row for row in shown.published if "PII" in row.quantity]
    assert len(rows) == 4
    (row,) = [row for row in rows if "from prior" in row.quantity and "for adding" in row.quantity]
    (without,) = [row for row in shown_before.published if "PII" in row.quantity]
    assert without.agrees is None
    assert "--names names.csv" in without.remark
    at = guesses.filter(prior=NAME, neighbors="add_remove", attack="model from prior")
    assert row.computed.startswith(f"{at['success'][0]:.3f} ± ")
    spread = (0.525 * 0.475 * (1 / 200 + 1 / 2_000)) ** 0.5
    assert row.agrees == (abs(at["success"][0] - 0.525) <= 2.0 * spread)


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
    with pytest.raises(InvalidInputError, match=rule):
        read_names(str(tmp_path / "names.parquet"))


@pytest.mark.slow
def test_the_command(few, tmp_path, monkeypatch, privaudit):  # noqa: ARG001
    output = str(tmp_path / "out")
    code, printed, _ = privaudit("study", "secrets", "--scale", "0.02", "--output", output)
    assert code == 0
    assert "guesses.svg" in printed
