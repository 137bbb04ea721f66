"""The studies that simulate and train: small, resumable, with what they must show."""

import math
import os
import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows.study import comparison, criteo, randomized_response, runner, tables
from flows.study.randomized_response import dimension_of, draw_classes, fitted_posterior, raised
from privcore.attacks import generator
from workers.datasets.criteo import NUMERIC, synthetic_clicks
from workers.plan import Plan

FEW = {"iterations": 10, "depth": 4, "learning_rate": 0.4}


@pytest.fixture
def study(privaudit):
    """Return `privaudit study` as a function to (code, words)."""

    def call(*arguments):
        answer = privaudit("study", *arguments)
        return answer.code, answer.words

    return call


def check_files(folder, *names):
    for name in names:
        assert pl.read_csv(folder / f"{name}.csv").height > 0
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")  # noqa: S314


def test_the_fitted_posterior_is_near_the_true_one_and_shifts_are_as_large_as_said():
    random = generator(1)
    data, fresh = draw_classes(2_000, 10, random), draw_classes(50_000, 10, random)
    assert (dimension_of(2), dimension_of(10)) == (5, 10)
    fitted = fitted_posterior(fresh, data.features)
    assert abs(fitted - data.posterior).mean() < 0.01
    assert abs(data.posterior - 0.1).mean() > 0.05
    binary = draw_classes(2_000, 2, random).posterior
    for shift in (1e-6, 0.1):
        moved = raised(binary, shift)
        assert moved.sum(axis=1) == pytest.approx(1.0)
        distance = abs(moved - binary).sum(axis=1) / 2.0
        roomy = binary[:, 1] < 0.9
        assert distance[roomy] == pytest.approx(shift)
        assert (distance <= shift + 1e-12).all()
        assert (moved[:, 1] <= 1.0).all()


@pytest.mark.slow
def test_randomized_response_is_measured_and_not_computed_twice(tmp_path, smaller, study):
    """n = 20,000 and 14 repetitions: valid, some power, silent behind a shifted proxy."""
    smaller(randomized_response, CLASSES=(2, 10), EPSILONS=(0.5, 4.0))
    arguments = ("randomized-response", "--scale", "0.02", "--output", str(tmp_path))
    code, out = study(*arguments)
    assert code == 0
    for words in (
        "n = 20,000, seed 66",
        "14 repetitions of the game",
        "In 5 more repetitions data and noise are drawn anew",
        "overestimated",
        "not as tight",
        "not judged: scale 0.02",
        "five dimensions hold no",
    ):
        assert words in out
    assert "within the significance of 5%" in out
    check_files(tmp_path, "bounds", "shifts")
    found = pl.read_csv(tmp_path / "bounds_summary.csv").filter(
        (pl.col("epsilon") == 4.0)
        & (pl.col("fraction") == 0.01)
        & (pl.col("proxy") == "posterior")
        & (pl.col("family") == "pure_dp")
        & (pl.col("classes") == 10)
    )
    assert found["mean"].min() > 1.5
    fresh = pl.read_csv(tmp_path / "fresh_summary.csv").filter(pl.col("family") == "pure_dp")
    assert fresh["above_truth"].max() < 0.5
    shifts = pl.read_csv(tmp_path / "shifts_summary.csv")
    assert shifts.filter(pl.col("shift") >= 0.01)["mean"].max() < 0.1
    assert shifts.filter(pl.col("shift") == 0.0)["mean"].max() > 1.0
    before = (tmp_path / "bounds.csv").read_bytes()

    code, out = study(*arguments)
    assert code == 0
    assert "5 of 5 parts were finished by an earlier run" in out
    assert (tmp_path / "bounds.csv").read_bytes() == before


@pytest.mark.slow
def test_what_was_finished_before_an_interrupt_is_not_computed_again(
    tmp_path, monkeypatch, smaller, study
):
    smaller(randomized_response, CLASSES=(2, 10), EPSILONS=(4.0,))
    arguments = ("randomized-response", "--scale", "0.002", "--output", str(tmp_path))
    compute, done = randomized_response.compute, []

    def interrupted(shared, cell):
        if done:
            raise KeyboardInterrupt
        done.append(cell)
        return compute(shared, cell)

    monkeypatch.setattr(randomized_response, "compute", interrupted)
    monkeypatch.setattr(os, "_exit", sys.exit)  # by which a command ends past Ray's threads
    code, out = study(*arguments)
    assert code == 130
    assert "Traceback" not in out
    assert len(list((tmp_path / "cells").iterdir())) == 1
    monkeypatch.setattr(randomized_response, "compute", compute)
    code, out = study(*arguments)
    assert code == 0
    assert "1 of 5 parts" in out


@pytest.mark.paper("observational", "Figure 2", "Figure 3", "Figure 4")
def test_what_the_paper_says_is_judged_by_the_numbers():
    def summary(**means):
        rows = [
            {
                "classes": 2,
                "epsilon": epsilon,
                "proxy": "posterior",
                "score": "power",
                "fraction": fraction,
                "family": "gaussian",
                "mean": mean,
            }
            for fraction, name in ((0.001, "few"), (0.01, "many"))
            for epsilon, mean in zip((0.5, 1.0, 4.0), means[name], strict=True)
        ]
        return pl.DataFrame(rows)

    def shifts(late):
        return pl.DataFrame(
            {
                "epsilon": 4.0,
                "fraction": 0.01,
                "family": "gaussian",
                "shift": [0.0, 0.001, 0.01],
                "mean": [2.4, 0.05, late],
            }
        )

    def verdicts(few, many, late):
        rows = randomized_response.published(summary(few=few, many=many), shifts(late))
        return [row.agrees for row in rows]

    assert verdicts((0.6, 0.9, 3.5), (0.45, 0.8, 3.0), 0.0) == [True, True, True, True, True]
    assert verdicts((0.4, 0.9, 2.0), (0.30, 0.9, 4.1), 0.2) == [False, False, False, False, False]


def test_the_paper_s_part_repeats_coins_and_nothing_else(monkeypatch):
    drawn = []
    for epsilons in ("EPSILONS", "SHIFT_EPSILONS"):
        monkeypatch.setattr(randomized_response, epsilons, (1.0,))
    draw = randomized_response.draw_classes
    monkeypatch.setattr(
        randomized_response, "draw_classes", lambda *given: drawn.append(1) or draw(*given)
    )
    for part, data_sets in (("bounds", 2), ("fresh", 2 * 3), ("shifts", 1)):
        drawn.clear()
        cell = randomized_response._cell(part, 2, 2_000, (0, 3))
        rows = randomized_response.compute(None, cell)
        assert len(drawn) == data_sets  # the data and what the regression is fitted on
        assert {row["repetition"] for row in rows} == {0, 1, 2}


@pytest.mark.slow
def test_criteo_trains_audits_and_says_synthetic(tmp_path, smaller, study):
    smaller(
        criteo,
        MECHANISMS=("lp-1st", "pate-laplace", "pate-gaussian"),
        EPSILONS=(math.inf, 0.1),
        PARAMETERS=FEW,
        TEACHERS=5,
        PLAN=Plan(repetitions=4),
    )
    arguments = ("criteo", "--scale", "0.02", "--output", str(tmp_path))
    code, out = study(*arguments)
    assert code == 0
    for words in (
        "SYNTHETIC clicks",
        "Printed values and ours",
        "1.60 ± 0.15",
        "not judged: scale 0.02, synthetic data",
        "24 days of clicks in section 6.4 and 28 in 6.2",
        "seed 2511",
        "No declared guarantee was refuted",
        "Does the paper's figure fall with epsilon",
        "Mechanisms by the paper's figure, largest first",
    ):
        assert words in out
    check_files(tmp_path, "criteo_synthetic")
    drawing = (tmp_path / "criteo_synthetic.svg").read_text(encoding="utf-8")
    for name in ("lp-1st", "pate-laplace", "pate-gaussian", "printed in the paper"):
        assert f">{name}</text>" in drawing  # the legend
    models = pl.read_csv(tmp_path / "criteo_synthetic.csv")
    assert models.height == 12
    assert models["trees"].value_counts()["count"].to_list() == [6, 6]
    assert set(models["dataset"]) == {"criteo-synthetic"}
    assert models["test_log_loss"].is_between(0.05, 2.0).all()
    assert (models["epsilon_fixed"] <= models["epsilon_paper"] + 1e-9).all()
    assert set(models["canaries"]) == {models["records"][0]}
    private = models.filter(pl.col("epsilon").cast(pl.String) == "0.1")
    accounted = private["epsilon_accounted"].to_list()
    # Laplace noise of the published bound at delta 1e-5 accounts for less.
    assert accounted[:2] + accounted[4:] == pytest.approx([0.1] * 4)
    assert all(0.05 < found < 0.1 for found in accounted[2:4])
    assert (private["epsilon_lower"] <= 0.1).all()

    code, again = study(*arguments)
    assert code == 0
    assert "6 of 6 parts" in again


@pytest.mark.slow
def test_published_files_are_drawn_from_and_never_called_synthetic(tmp_path, smaller, study):
    """Two files of 20,000 lines in Criteo's format: 1,000 rows of each day, a twentieth."""
    smaller(
        criteo,
        MECHANISMS=("lp-1st", "pate-laplace", "pate-gaussian"),
        EPSILONS=(math.inf,),
        PARAMETERS=FEW,
        TEACHERS=3,
        PLAN=Plan(repetitions=4),
    )
    files = [str(tmp_path / f"day_{day}") for day in range(2)]
    for day, file in enumerate(files):
        frame = synthetic_clicks(20_000, day=day, seed=1).frame
        frame.with_columns(pl.col(NUMERIC).cast(pl.Int64)).write_csv(
            file, separator="\t", include_header=False
        )
    output = ("--output", str(tmp_path / "out"))
    code, out = study("criteo", "--scale", "0.001", *output, "--input", *files)
    assert code == 0, out
    assert "The clicks are those of criteo in the lake" in out
    assert "not judged: scale 0.001" in out
    assert "synthetic" not in out.lower()
    models = pl.read_csv(tmp_path / "out" / "criteo.csv")
    assert models["records"][0] + models["control_records"][0] < 1_000
    code, out = study("criteo", *output, "--input", files[0])
    assert code == 3
    assert "give two files, the proxy's day and the target's" in out


def some_models(figures, *, mechanism="m", deviation=0.3):
    """Return one mechanism's rows; 100 repetitions, so a standard error of a tenth."""
    return pl.DataFrame(
        {
            "mechanism": mechanism,
            "epsilon": ["inf", "8", "4", "2", "1", "0.1"],
            "epsilon_paper": figures,
            "epsilon_paper_deviation": deviation,
            "repetitions": 100,
        }
    )


def test_a_figure_that_rises_by_more_than_two_standard_errors_does_not_fall():
    """The difference of two means of standard error 0.03 has one of 0.042: the limit is 0.085."""
    falls = some_models([3.0, 2.9, 2.0, 1.0, 0.5, 0.58])
    assert criteo.rises(falls, "m") == []
    assert criteo.rises(falls.with_columns(epsilon_paper_deviation=0.2), "m") == ["0.1"]
    rises = some_models([3.0, 3.2, 2.0, 1.0, 0.5, 0.59])
    assert criteo.rises(rises, "m") == ["8", "0.1"]


def test_mechanisms_are_ordered_where_they_differ_and_tied_where_they_do_not():
    models = pl.concat(
        some_models([figure] * 6, mechanism=name)
        for name, figure in {"small": 1.0, "large": 2.0, "nearly": 1.95}.items()
    )
    assert criteo.order_of(models, "4") == "large ~ nearly > small"


def test_another_method_is_another_cell(smaller):
    cell = runner.Cell("one", {"scale": 1.0})
    before = cell.identity
    assert runner.Cell("one", {"scale": 0.5}).identity != before
    smaller(runner, METHOD_VERSION="of tomorrow")
    assert cell.identity != before


@pytest.mark.slow
def test_attacks_are_compared_on_the_same_models(tmp_path, monkeypatch, smaller, study):
    smaller(comparison, EPSILONS=(math.inf, 1.0), PARAMETERS=FEW)
    smaller(tables, REPETITIONS=10)
    arguments = ("comparison", "--scale", "0.02", "--output", str(tmp_path))
    code, out = study(*arguments)
    assert code == 0
    assert "earlier run" not in out
    for words in (
        "calibrated loss",
        "RMIA",
        "not judged: synthetic data",
        "not judged: other data",
        "seed 715",
        "The clicks are synthetic",
    ):
        assert words in out
    check_files(tmp_path, "comparison")
    attacks = pl.read_csv(tmp_path / "comparison.csv")
    assert attacks.height == 2 * 2 * 4
    assert attacks["accuracy"].is_between(0.3, 0.9).all()
    before = (tmp_path / "comparison.csv").read_bytes()
    (tmp_path / "comparison.svg").unlink()
    (finished,) = (tmp_path / "cells").glob("flights-1-*.json")
    finished.unlink()
    computed = []
    compute = comparison.compute
    monkeypatch.setattr(
        comparison, "compute", lambda *given: computed.append(given[1].name) or compute(*given)
    )
    code, out = study(*arguments)
    assert code == 0
    assert computed == ["flights-1"]
    assert "3 of 4 parts" in out
    assert (tmp_path / "comparison.csv").read_bytes() == before
    check_files(tmp_path, "comparison")


@pytest.mark.parametrize("name", ["randomized-response", "criteo", "comparison"])
def test_a_scale_or_folder_that_cannot_be_is_named(name, tmp_path, study):
    (tmp_path / "file").write_text("")
    for arguments, expected in (
        (("--scale", "0", "--output", str(tmp_path)), "--scale is 0.0"),
        (("--scale", "2", "--output", str(tmp_path)), "--scale is 2.0"),
        (("--scale", "0.01", "--output", str(tmp_path / "file")), "no folder can be made"),
    ):
        code, out = study(name, *arguments)
        assert code == 3
        assert expected in out
