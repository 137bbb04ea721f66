"""The three attacks, each beside its control: what they read of models that are known."""

import catboost
import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from flows.study import attacks, criteo
from flows.study.attacks import ATTACKS, LABELS, LOSS, PAIRS, RMIAS, Answers, attacked
from flows.study.printed import GAME
from privcore.attacks import (
    CalibratedLossScore,
    RmiaScore,
    fit_network,
    generator,
    membership_inference,
)
from tests.support.queries import bank_file


def answers(records, seed, *, memory=0.0):
    """Return a target that answers `memory` of its records with their label, else as the proxy."""
    random = np.random.default_rng(seed)
    ones = random.beta(1.0, 3.0, records)
    proxy = np.column_stack([1.0 - ones, ones])
    labels = (random.random(records) < ones).astype(np.int64)
    known = random.random(records) < memory
    target = np.where(known[:, None], 0.02 + 0.96 * np.eye(2)[labels], proxy)
    return Answers(target, proxy, labels)


def by_name(rows):
    return {row["attack"]: row for row in rows}


@pytest.fixture
def fewer(smaller):
    smaller(attacks, REPETITIONS=10)


@pytest.mark.paper("observational", "Section 6.2", "Table 6")
def test_what_a_model_remembers_is_read_and_the_control_is_silent(fewer):  # noqa: ARG001
    train, test = answers(8_000, 1, memory=0.5), answers(4_000, 2)
    rows = by_name(attacked(train, test, canaries=50_000, stream="a"))
    assert tuple(rows) == ATTACKS
    assert rows[LABELS]["records"] == 4_000  # as many as there are test records
    assert {rows[name]["records"] for name in ATTACKS[1:]} == {1_600}
    for row in rows.values():
        assert row["control_epsilon_lower"] == 0.0
        assert row["control_epsilon_paper"] < 0.2
        assert row["epsilon_fixed"] <= row["epsilon_paper"] + 1e-9 <= row["ceiling"]
        assert row["epsilon_fixed"] <= row["ceiling_fixed"] + 1e-9
        assert row["epsilon_paper_deviation"] > 0.0
        assert row["epsilon_lower"] > 0.3, row["attack"]
    fewest = by_name(attacked(train, test, canaries=1_000, stream="a"))
    assert (fewest[LABELS]["records"], fewest[LOSS]["records"]) == (1_000, 400)


def test_a_proxy_that_is_too_sure_shows_in_the_control(fewer):  # noqa: ARG001
    """Nothing is remembered, and the target is the truth: figure and control are alike."""
    train, test = answers(4_000, 3), answers(4_000, 4)
    sure = [
        Answers(part.target, np.eye(2)[part.proxy.argmax(axis=1)] * 0.98 + 0.01, part.labels)
        for part in (train, test)
    ]
    row = by_name(attacked(*sure, canaries=4_000, stream="a"))[LABELS]
    assert row["epsilon_paper"] > 0.5
    assert row["control_epsilon_paper"] == pytest.approx(row["epsilon_paper"], abs=0.3)
    assert row["control_epsilon_lower"] > 0.0


def test_rmia_with_slope_and_gamma_1_is_calibrated_loss_and_with_ours_is_not():
    part, population = (answers(3_000, seed, memory=0.9) for seed in (5, 6))
    own = part.own()
    loss = CalibratedLossScore()(*(-np.log(chances) for chances in own))
    about = dict(zip(("population_target", "population_reference"), population.own(), strict=True))
    alike = RmiaScore(dominance=1.0, slope=1.0)(*own, **about)
    ours = RmiaScore(dominance=1.0, slope=attacks.RMIA_SLOPE)(*own, **about)
    assert spearmanr(loss, alike).statistic > 0.999
    assert 0.9 < spearmanr(loss, ours).statistic < 0.995


def model(name, epsilon, **figures):
    """Return the rows of one model, whose attacks have these figures."""
    return [
        {
            "mechanism": name, "epsilon": epsilon, "attack": attack, "records": 100,
            "epsilon_paper": figures.get(attack, 1.0), "epsilon_paper_deviation": 0.1,
            "control_epsilon_paper": 0.25, "control_epsilon_paper_deviation": 0.1,
            "epsilon_lower": 0.5, "control_epsilon_lower": 0.0, "test_log_loss": 0.132,
            "test_log_loss_error": 0.002,
        }
        for attack in ATTACKS
    ]  # fmt: skip


@pytest.mark.paper("observational", "Table 2", "Table 5", "Figure 1", "Figure 5")
def test_every_printed_cell_of_a_table_stands_beside_ours():
    rows = model("lp-1st", "inf", **{LABELS: 1.35, PAIRS: 1.0, LOSS: 0.4, RMIAS[1]: 1.3})
    rows += model("lp-1st", "8", **{LABELS: 0.2})
    found = attacks.beside_print(rows, *criteo.TABLES.values())
    by_place = {(each.paper, each.place, each.named): each for each in found}
    assert len(by_place) == len(found)
    for place, cells in (("Table 2", 27), ("Table 5", 27)):
        own = [each for each in found if each.place == place]
        assert len(own) == cells
        assert sum(each.value is not None for each in own) == 2
    first = by_place[GAME, "Table 2", "lp-1st at inf"]
    assert (first.written, first.control, first.verdict([])) == ("1.35 ± 0.10", "0.25", "agrees")
    assert by_place[GAME, "Table 2", "lp-1st at 8"].verdict([]) == "differs"
    assert by_place[GAME, "Table 5", "lp-1st at 8"].verdict([]) == "agrees"
    assert first.repetitions == 100
    assert by_place[GAME, "Table 5", "lp-1st at 8"].repetitions == 1
    similar = "label inference less calibrated loss: lp-1st at "
    above = "RMIA less the larger of both others: lp-1st at inf, gamma "
    assert by_place[GAME, "Fig 1", f"{similar}inf"].verdict([]) == "differs"
    assert by_place[GAME, "Fig 1", f"{similar}8"].verdict([]) == "agrees"
    assert by_place[GAME, "Fig 5", f"{above}1"].written == "0.00 ± 0.14"
    assert by_place[GAME, "Fig 5", f"{above}2"].written == "0.30 ± 0.14"
    table = attacks.attacks_table(rows)
    assert len(table.rows) == 2
    assert table.rows[0][3] == "1.35 ± 0.10 (0.25) / 0.50 (0.00)"


@pytest.mark.slow
@pytest.mark.paper("observational", "Algorithm 1")
def test_records_of_a_generator_are_no_fresh_draws_and_holdout_records_are():
    """Bank data, CatBoost, and a Bayesian network of degree 2 fitted to the proxy's records.

    The same attack on records that the target never saw reads nothing beside other holdout records,
    and proves a leak that is none beside generated ones.
    """
    frame, random = pl.read_parquet(bank_file()), np.random.default_rng(63)
    frame = frame.with_columns(pl.exclude(pl.String).rank().floordiv(frame.height / 10))
    columns = [np.unique(part, return_inverse=True)[1] for part in frame]
    cells = np.column_stack(columns)[random.permutation(frame.height)].astype(np.int64)
    own, before, held = np.split(cells[:24_000], 3)
    settings = {"iterations": 200, "depth": 8, "learning_rate": 0.3, "verbose": False}
    models = [
        catboost.CatBoostClassifier(
            **settings, random_seed=seed, thread_count=1, allow_writing_files=False
        ).fit(rows[:, :-1], rows[:, -1])
        for seed, rows in enumerate((own, before))
    ]

    def asked(rows):
        return Answers(*(model.predict_proba(rows[:, :-1]) for model in models), rows[:, -1])

    sizes = [int(column.max()) + 1 for column in cells.T]
    made = fit_network(before, sizes, degree=2).sample(3_200, generator(1, "made"))
    members, absent, fresh, population, drawn = (
        asked(rows) for rows in (own[:3_200], *np.split(held, [3_200, 6_400]), made)
    )
    for name, score in attacks._membership_scores(population):
        found = {}
        for arm, other in {"holdout": fresh, "generated": drawn}.items():
            for shown, part in {"members": members, "control": absent}.items():
                tally = membership_inference(
                    score(part), score(other), repetitions=attacks.REPETITIONS, key=7
                )
                found[arm, shown] = attacks._figures(tally)
        assert found["holdout", "members"]["epsilon_lower"] > 0.5
        assert found["holdout", "control"]["epsilon_paper"] < 0.1
        assert found["holdout", "control"]["epsilon_lower"] == 0.0
        if name in RMIAS:
            assert found["generated", "control"]["epsilon_paper"] > 0.3
            assert found["generated", "control"]["epsilon_lower"] > 0.05
