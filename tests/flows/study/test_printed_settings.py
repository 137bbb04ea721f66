"""The studies' settings are those that the papers print; what the papers only say is asked for."""

import inspect

import numpy as np
import polars as pl
import pytest

from flows.study import criteo, marginals, randomized_response, secrets, three_attacks
from flows.study.randomized_response import dimension_of, published
from privcore.attacks import PaperScore
from privcore.upper_bounds import success_curves
from tests.support.published import printed
from workers.datasets import criteo as clicks

NOT_HERE = ("cifar10", "twitter")


def settings(name):
    return {row["setting"]: row["value"] for row in printed(name)}


def numbers(text):
    return tuple(float(word) for word in text.split())


@pytest.mark.paper("observational", "Section 6.2", "Table 2", "Figure 2", "Figure 3", "Figure 4")
def test_the_game_is_played_as_the_paper_sets_it():
    stated = {
        name: value
        for name, value in settings("004_settings").items()
        if not name.startswith(NOT_HERE)
    }
    assert stated.pop("score") == "s1*s2^t, s1=M(x)[y]-M'(x)[y], s2=1-M'(x)[y]"
    score = PaperScore(power=float(stated.pop("t")))
    of_each_class = score(np.array([[0.1, 0.9]]), np.array([[0.4, 0.6]]))
    assert of_each_class == pytest.approx(
        np.array([[(0.1 - 0.4) * (1.0 - 0.4) ** 2, (0.9 - 0.6) * (1.0 - 0.6) ** 2]])
    )
    assert stated.pop("guess_fractions_percent") == "1..100 step 1 (tables 1, 2); 1 (table 6)"
    assert three_attacks.FIXED == 0.01
    assert "np.arange(1, 101) / 100.0" in inspect.getsource(three_attacks)
    repetitions = int(stated.pop("repetitions"))
    assert criteo.PLAN.repetitions == randomized_response.REPETITIONS == repetitions
    significance = 1.0 - float(stated.pop("confidence"))
    assert criteo.PLAN.significance == pytest.approx(significance)
    assert pytest.approx(significance) == randomized_response.SIGNIFICANCE
    delta = float(stated.pop("delta"))
    assert criteo.PLAN.delta == randomized_response.DELTA == delta

    assert int(stated.pop("criteo_rows_per_day")) == criteo.ROWS
    shares = [float(share) for share in stated.pop("criteo_split_train_validation_test").split("/")]
    assert shares == list(clicks._SHARES.values())
    assert int(stated.pop("criteo_canaries")) == criteo.CANARIES
    assert (
        stated.pop("criteo_days") == "0 (proxy), 1 (target); text says both 24 and 28 days in all"
    )
    assert stated.pop("criteo_positive_share") == "0.03"  # of the made-up clicks: test_criteo.py
    assert stated.pop("criteo_features") == (
        f"{len(clicks.NUMERIC)} numeric, {len(clicks.CATEGORICAL)} categorical"
    )
    assert stated.pop("criteo_learner") == "CatBoost"
    assert set(numbers(stated.pop("criteo_epsilons"))) == set(criteo.EPSILONS)

    assert int(stated.pop("rr_n")) == randomized_response.RECORDS
    assert int(stated.pop("rr_d")) == dimension_of(2) == dimension_of(5)
    assert numbers(stated.pop("rr_k")) == randomized_response.CLASSES
    fractions = [percent / 100.0 for percent in numbers(stated.pop("rr_guess_percent"))]
    assert fractions == pytest.approx(randomized_response.FRACTIONS)
    assert not stated


@pytest.mark.paper("worst_case", "Figure 3", "Figure 4", "Figure 5", "Figure 6", "Figure 7")
def test_secrets_and_tables_are_attacked_as_the_paper_sets_it():
    stated = settings("000_settings")
    drawn = {curve.epsilon for curve in success_curves(choices=(2, 10))}
    assert set(numbers(stated.pop("fig1_epsilons"))) == drawn
    assert stated.pop("fig1_n_k") == "1 1"
    assert int(stated.pop("ngram_models_per_setting")) == secrets.ATTACKED
    assert stated.pop("ngram_canary").endswith("prior scaled to 10 digits")
    assert {len(prior) for prior in secrets.priors().values()} == {10}
    exponent = float(stated.pop("zipf_s"))
    password = secrets.priors()[secrets.PASSWORD]
    assert password[0] / password[9] == pytest.approx(10.0**exponent)
    assert "GPT-2" in stated.pop("pii_sequences")  # not here: a stand-in, and the study says so
    assert float(stated.pop("delta")) == marginals.DELTA == secrets.DELTA

    assert int(stated.pop("marginals_k")) == marginals.WAYS
    assert stated.pop("marginals_sensitivity").startswith("sqrt(2), Gaussian DP")  # test_marginals
    assert stated.pop("target_records") == f"{marginals.RECORDS} sampled from a Bayesian network"
    assert int(stated.pop("ACS_attributes")) == len(marginals.ACS)
    assert stated.pop("FIRE_attributes") == "10"  # not here
    known = 16 - max(marginals.COLUMN_COUNTS)
    assert stated.pop("known_columns_multi") == (
        f"{known} ({max(marginals.COLUMN_COUNTS)} resp. 7 reconstructed at most), "
        f"epsilon {marginals.EPSILON_OF_MANY:g}"
    )
    assert stated.pop("approx_domains").startswith(f"AGEP {marginals.BINS},")
    assert stated.pop("fig5_columns").startswith("SCHL (ACS)")
    confidences = [float(word.rstrip("%")) / 100.0 for word in stated["confidence_levels"].split()]
    assert stated.pop("confidence_levels")
    assert confidences == pytest.approx(marginals.CONFIDENCES)
    assert not stated


@pytest.mark.paper("observational", "Figure 2", "Figure 3", "Figure 4")
def test_what_is_said_of_drawings_is_what_ours_is_held_against():
    said = {row["figure"]: row["statement"] for row in printed("004_figure_statements")}
    means = pl.DataFrame(
        [
            {
                "classes": 2,
                "epsilon": epsilon,
                "proxy": "posterior",
                "score": score,
                "fraction": fraction,
                "family": "gaussian",
                "mean": epsilon,
            }
            for epsilon in (0.5, 1.0, 4.0)
            for fraction in randomized_response.FRACTIONS
            for score in ("power", "log_ratio")
        ]
    )
    shifts = pl.DataFrame(
        {"epsilon": 4.0, "fraction": 0.01, "family": "gaussian", "shift": [0.0, 0.01], "mean": 0.0}
    )
    rows = {(row.place, row.quantity.partition(",")[0]): row for row in published(means, shifts)}
    assert "tight lower bounds for epsilon in [1,4]" in said["2"]
    assert "at lower epsilons privacy loss is overestimated" in said["2"]
    assert rows["Fig 2", "epsilon 1 to 4"].printed == "tight"
    assert rows["Fig 2", "epsilon below 1"].printed == "overestimated"
    assert said["3"] == "tight in the low-epsilon regime; not as tight in [1,4]"
    assert rows["Fig 3", "epsilon below 1"].printed == "tight"
    assert rows["Fig 3", "epsilon 1 to 4"].printed == "not as tight"
    assert "near 0 at tau >= 1e-2" in said["4"]
    assert rows["Fig 4", "shifts from 0.01 on"].printed == "near 0"
    # Figures 1 and 5: `study comparison`, whose rows `test_printed.py` holds.
    assert set(said) == {"1", "2", "3", "4", "5"}
