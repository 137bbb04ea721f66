"""`study text`: three attacks on a network that reads texts, beside their controls."""

import numpy as np
import polars as pl
import pytest

from flows.study import text
from flows.study.attacks import ATTACKS, LABELS, RMIAS
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


@pytest.fixture
def trained(monkeypatch):
    """Return the sizes of the classes that would be trained on; models guess."""
    sizes, jax = [], the_jax()

    class Guesses:
        def probabilities(self, inputs):
            chance = np.random.default_rng(1).uniform(0.2, 0.8, len(jax.tree.leaves(inputs)[0]))
            return np.stack([1.0 - chance, chance], axis=1)

    def fit_network(_, __, known, ___, *, seed):  # noqa: ARG001
        sizes.append(known.sum(axis=0))
        return Guesses()

    monkeypatch.setattr(text, "fit_network", fit_network)
    monkeypatch.setenv("COLUMNS", "200")
    return sizes


@pytest.mark.slow
def test_texts_of_one_s_own_go_in_with_their_columns_and_as_many_canaries_as_asked(
    tmp_path, trained, privaudit
):
    rows = [{"review": f"word{i % 7} a{i % 3}", "helpful": i % 2} for i in range(320)]
    path, output = tmp_path / "reviews.csv", tmp_path / "out"
    pl.DataFrame(rows).write_csv(path)

    def call(*more):
        names = ("--text-column", "review", "--label-column", "helpful", *more)
        answer = privaudit("study", "text", "--input", str(path), "--output", str(output), *names)
        assert answer.code == 0, answer
        return " ".join(answer.out.split())

    assert "not judged: texts and 2 more" in call("--canaries", "20")
    assert pl.read_csv(output / "text.csv")["records"].max() == 20
    assert sum(trained).sum() == 288
    out = call()  # other canaries are another cell
    assert "not judged: texts and 1 more" in out
    assert "of 1 parts" not in out
    assert pl.read_csv(output / "text.csv")["records"].max() == 32


@pytest.mark.slow
@pytest.mark.paper("observational", "Table 7")
def test_the_study_leaks_beside_a_control_that_leaks_less(
    tmp_path, monkeypatch, smaller, privaudit
):
    """A fiftieth of 57,000 made-up texts as packaged: half as they are memorised, half unseen."""
    smaller(text, SCHEDULE=text.Schedule(epochs=30, batch=64, rate=1e-2), HIDDEN=16)
    monkeypatch.setenv("COLUMNS", "200")
    path = write_distribution(tmp_path / "v.tar.gz", made_up(57_000, 9))
    output = tmp_path / "out"
    places = ("--input", str(path), "--output", str(output))
    answer = privaudit("study", "text", *places, "--scale", "0.02")
    assert answer.code == 0, answer
    out = " ".join((answer.out + answer.err).split())
    for words in (
        "Texts rated by people (vaderSentiment 3.3.2), seed 1126",
        "2.34 ± 0.25",
        "not judged: texts and 1 more",
        "The control is the same attack on as many records that the target never saw",
        "RMIA has slope a = 0.3 and gamma 1 or 2",
    ):
        assert words in out
    rows = pl.read_csv(output / "text.csv")
    assert rows.height == 2 * len(ATTACKS)
    ours = {(row["proxy"], row["attack"]): row for row in rows.to_dicts()}
    plain, calibrated = (ours[proxy, LABELS] for proxy in (text.PLAIN, text.CALIBRATED))
    assert plain["records"] == plain["test_records"] == 2 * calibrated["records"]
    for attack in (LABELS, RMIAS[0]):
        row = ours[text.CALIBRATED, attack]
        assert row["epsilon_paper"] > row["control_epsilon_paper"]
    # Sure of what it says, a proxy that is wrong reads as a leak.
    assert plain["control_epsilon_paper"] > 0.3
    assert calibrated["temperature"] > 1.2
    assert (output / "table_7.svg").read_text(encoding="utf-8").count("RMIA") > 1
