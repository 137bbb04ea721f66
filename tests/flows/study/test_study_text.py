"""`study text`: three attacks on a network that reads texts, beside their controls."""

import numpy as np
import polars as pl
import pytest

from flows.study import text
from flows.study.tables import (
    FIGURE,
    LABELS,
    MEMBERSHIP,
    PAIRS,
    Answers,
    attack_figures,
    figure_ceiling,
    play_all,
)
from tests.support.rated_texts import made_up, write_distribution
from workers.training.networks import the_jax


def test_a_temperature_makes_labels_least_surprising_and_the_softer_proxy_is_found():
    """4,000 labels drawn from known chances; a proxy that doubles their log-odds is tempered."""
    random = np.random.default_rng(6)
    log_odds = random.normal(size=4_000) * 2.0
    true = np.stack([1 / (1 + np.exp(log_odds)), 1 / (1 + np.exp(-log_odds))], axis=1)
    labels = (random.random(4_000) < true[:, 1]).astype(np.int64)
    over = text.tempered(true, 0.5)
    assert abs(over - 0.5).mean() > abs(true - 0.5).mean()
    found = text.fitted_temperature(over, labels)
    assert found == pytest.approx(2.0, abs=0.15)
    assert abs(text.tempered(over, 2.0) - true).max() < 1e-9
    assert text.tempered(np.array([[0.0, 1.0]]), 2.0)[0, 0] < 1e-5


def some_answers(records, gain, random):
    """A calibrated proxy; the target adds about `gain` to the log-odds of each record's label."""
    log_odds = random.normal(size=records)
    chance = 1 / (1 + np.exp(-log_odds))
    labels = (random.random(records) < chance).astype(np.int64)
    added = gain * (2 * labels - 1) + random.normal(size=records) * 0.3
    moved = 1 / (1 + np.exp(-log_odds - added))
    pair = [np.stack([1 - each, each], axis=1) for each in (moved, chance)]
    return Answers(*pair, labels)


def test_every_attack_finds_a_target_that_knows_its_labels_and_none_where_it_does_not():
    """2,000 members and 1,000 others, half of which play: with gain 2, and without."""
    random = np.random.default_rng(7)
    others = some_answers(1_000, 0.0, random)
    for gain in (2.0, 0.0):
        tallies = play_all(some_answers(2_000, gain, random), others)
        assert list(tallies) == [LABELS, PAIRS, *MEMBERSHIP]
        assert [tally.records for tally in tallies.values()] == [2_000, 500, 500, 500]
        figures = {name: attack_figures(tally) for name, tally in tallies.items()}
        if gain:
            assert all(row["epsilon_paper"] > 0.5 for row in figures.values())
            assert all(row["accuracy"] > 0.6 for row in figures.values())
            assert figures[LABELS]["epsilon_lower"] > 0.3
        else:
            assert all(row["epsilon_lower"] == 0.0 for row in figures.values())
            assert all(row["epsilon_paper"] < 0.2 for row in figures.values())


def test_the_ceiling_is_an_attack_that_is_always_right():
    random = np.random.default_rng(8)
    sure = Answers(np.eye(2)[np.ones(500, int)], np.full((500, 2), 0.5), np.ones(500, int))
    others = some_answers(100, 0.0, random)
    tally = play_all(sure, others)[LABELS]
    assert attack_figures(tally)["epsilon_paper"] <= figure_ceiling(500)
    assert figure_ceiling(500) < figure_ceiling(2_000)


@pytest.mark.slow
def test_sentiment140_as_it_is_published_goes_in_by_input(tmp_path, monkeypatch, privaudit):
    """Six quoted columns without names, in Latin-1, 0 before 4; nothing is trained."""
    monkeypatch.setenv("COLUMNS", "200")
    trained = []

    class Guesses:
        def probabilities(self, inputs, temperature=1.0):  # noqa: ARG002
            chance = np.random.default_rng(1).uniform(0.2, 0.8, len(jax.tree.leaves(inputs)[0]))
            return np.stack([1.0 - chance, chance], axis=1)

    def fit_network(_, __, known, ___, *, seed):  # noqa: ARG001
        trained.append(known.sum(axis=0))
        return Guesses()

    jax = the_jax()
    monkeypatch.setattr(text, "fit_network", fit_network)
    rows = [
        f'"{4 * (number >= 200)}","14678{number:05}","Mon Apr 06 22:19:45 PDT 2009","NO_QUERY",'
        f'"caf\xe9_{number}","@switch http://a.b/{number} - ""word{number % 7}"", it\'s; \xfcber "'
        for number in range(360)
    ]
    path, output = tmp_path / "training.1600000.processed.noemoticon.csv", tmp_path / "out"
    path.write_bytes("".join(f"{row}\n" for row in rows).encode("latin-1"))
    answer = privaudit("study", "text", "--input", str(path), "--output", str(output))
    assert answer.code == 0, answer
    assert "exts of training.1600000.processed.noemoticon.csv" in " ".join(answer.out.split())
    assert "not judged: other texts" in " ".join(answer.out.split())
    assert pl.read_csv(output / "text.csv")["records"].max() == 144
    assert sum(trained[:2]).sum() == 288  # 320 balanced texts without a tenth for the test


@pytest.mark.slow
@pytest.mark.paper("observational", "Table 7")
def test_the_study_leaks_beside_a_control_that_does_not_and_is_not_computed_twice(
    tmp_path, monkeypatch, smaller, privaudit
):
    """A fiftieth of 57,000 made-up texts as packaged: half as they are memorised, half unseen."""
    smaller(text, SCHEDULE=text.Schedule(epochs=30, batch=64, rate=1e-2), HIDDEN=16)
    monkeypatch.setenv("COLUMNS", "200")
    path = write_distribution(tmp_path / "v.tar.gz", made_up(57_000, 9))
    output = tmp_path / "out"

    def call():
        places = ("--input", str(path), "--output", str(output))
        answer = privaudit("study", "text", *places, "--scale", "0.02")
        assert answer.code == 0, answer
        return " ".join((answer.out + answer.err).split())

    out = call()
    for words in (
        "Texts rated by people (vaderSentiment 3.3.2), scale 0.02, seed 1126",
        "2.34 ± 0.25",
        "not judged: scale 0.02, other texts",
        "The control never saw the labels",
    ):
        assert words in out
    rows = pl.read_csv(output / "text.csv")
    assert rows.height == 2 * 2 * 4
    ours = {
        (row["proxy"], row["attack"]): row for row in text.beside_control(rows)
    }  # fmt: skip
    plain = ours[text.PLAIN, LABELS]
    assert plain["records"] == rows["records"].max() > 400
    for attack in (LABELS, "RMIA"):
        row = ours[text.CALIBRATED, attack]
        assert row["epsilon_paper"] > row["control_epsilon_paper"] + 0.3
    # Sure of what it says, a proxy that is wrong reads as a leak; calibrated, it does so less.
    assert plain["control_epsilon_paper"] > 0.5
    calibrated = ours[text.CALIBRATED, LABELS]
    assert calibrated["control_epsilon_paper"] < plain["control_epsilon_paper"] - 0.2
    assert calibrated["temperature"] > 1.2
    assert (output / "text.svg").read_text(encoding="utf-8").count("RMIA") > 1
    assert "1 of 1 parts" in call()


def test_printed_figures_are_agreed_with_within_two_deviations_and_beside_the_control():
    def attacks(figure):
        return pl.DataFrame(
            [
                {"model": model, "proxy": "as trained", "attack": attack,
                 "epsilon_paper": figure if model == "target" else 0.25,
                 "epsilon_paper_deviation": 0.1}
                for model in ("target", "control")
                for attack in (LABELS, PAIRS, *MEMBERSHIP)
            ]
        )  # fmt: skip

    rows = text.published(attacks(2.0))
    assert [row.printed for row in rows] == ["2.34 ± 0.25", "0.72 ± 0.15", "2.52 ± 0.32"]
    assert [row.agrees for row in rows] == [True, False, True]
    assert rows[0].computed == "2.00 ± 0.10 (control 0.25)"
    assert FIGURE.format(**attacks(1.0).row(0, named=True)) == "1.00 ± 0.10"
