"""The studies that simulate and train: small, resumable, with what they must show."""

import importlib
import inspect
import json
import math
import os
import pathlib
import re
import sys

import polars as pl
import pytest

from flows.commands.study import app as study_commands
from flows.study import attacks, criteo, randomized_response, runner
from flows.study.attacks import ATTACKS, LABELS
from flows.study.printed import GAME, printed_values
from flows.study.randomized_response import dimension_of, draw_classes, fitted_posterior, raised
from privcore.attacks import generator
from tests.support.studies import check_files
from workers.datasets.criteo import NUMERIC, synthetic_clicks
from workers.versions import METHOD_VERSION

ROOT = pathlib.Path(__file__).resolve().parents[3]
FEW = {"iterations": 10, "depth": 4, "learning_rate": 0.4}


@pytest.fixture
def study(privaudit):
    """Return `privaudit study` as a function to (code, words)."""

    def call(*arguments):
        answer = privaudit("study", *arguments)
        return answer.code, answer.words

    return call


def test_the_fitted_posterior_is_near_the_true_one_and_shifts_are_as_large_as_said():
    random = generator(1)
    data, fresh = draw_classes(2_000, 10, random), draw_classes(50_000, 10, random)
    assert (dimension_of(2), dimension_of(10)) == (5, 10)
    fitted = fitted_posterior(fresh, data)
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
def test_randomized_response_is_measured(tmp_path, smaller, study):
    """n = 20,000 and 14 repetitions: valid, some power, silent behind a shifted proxy."""
    smaller(randomized_response, CLASSES=(2, 10), EPSILONS=(0.5, 4.0))
    arguments = ("randomized-response", "--scale", "0.02", "--output", str(tmp_path))
    code, out = study(*arguments)
    assert code == 0
    for words in (
        "n = 20,000, seed 66",
        "14 repetitions of the game",
        "overestimated",
        "not as tight",
        "not judged: n and 1 more",
        "five dimensions hold no",
    ):
        assert words in out
    assert check_files(tmp_path) == {
        *("bounds_summary.csv", "shifts_summary.csv", "published.csv"),
        *("figures_2_and_3.svg", "figure_4.svg", "study.json", "index.html"),
    }
    found = pl.read_csv(tmp_path / "bounds_summary.csv").filter(
        (pl.col("epsilon") == 4.0) & (pl.col("fraction") == 0.01) & (pl.col("classes") == 10)
    )
    assert found["mean"].min() > 1.5
    assert set(found["proxy"]) == set(randomized_response.PROXIES)
    shifts = pl.read_csv(tmp_path / "shifts_summary.csv")
    assert shifts.filter(pl.col("shift") >= 0.01)["mean"].max() < 0.1
    assert shifts.filter(pl.col("shift") == 0.0)["mean"].max() > 1.0


@pytest.mark.slow
def test_what_was_finished_before_an_interrupt_is_not_computed_again(
    tmp_path, monkeypatch, smaller, study
):
    smaller(randomized_response, CLASSES=(2, 10), EPSILONS=(4.0,))
    arguments = ("randomized-response", "--scale", "0.002", "--output", str(tmp_path))
    compute, done = randomized_response._compute, []

    def interrupted(shared, cell):
        if done:
            raise KeyboardInterrupt
        done.append(cell)
        return compute(shared, cell)

    monkeypatch.setattr(randomized_response, "_compute", interrupted)
    monkeypatch.setattr(os, "_exit", sys.exit)  # by which a command ends past Ray's threads
    code, out = study(*arguments)
    assert code == 130
    assert "Traceback" not in out
    assert len(list((tmp_path / "cells").iterdir())) == 1
    monkeypatch.setattr(randomized_response, "_compute", compute)
    code, out = study(*arguments)
    assert code == 0
    assert "1 of 3 parts" in out
    before = (tmp_path / "bounds_summary.csv").read_bytes()
    code, out = study(*arguments)
    assert code == 0
    assert "3 of 3 parts were finished by an earlier run" in out
    assert (tmp_path / "bounds_summary.csv").read_bytes() == before


@pytest.mark.paper("observational", "Figure 2", "Figure 3", "Figure 4")
def test_what_the_paper_says_is_judged_by_the_numbers():
    def verdicts(few, many, late):
        repeated = {"deviation": 0.0, "repetitions": 100}
        measured = pl.DataFrame(
            [
                {"epsilon": epsilon, "fraction": fraction, "mean": mean}
                for fraction, means in ((0.001, few), (0.01, many))
                for epsilon, mean in zip((0.5, 1.0, 4.0), means, strict=True)
            ]
        ).with_columns(pl.lit("posterior").alias("proxy"), classes=2, **repeated)
        late_ones = {"shift": [0.0, 0.001, 0.01], "mean": [2.4, 0.5, late]}
        shifted = pl.DataFrame({"epsilon": 4.0, "fraction": 0.01, **late_ones, **repeated})
        rows = randomized_response.ours(measured, shifted)
        assert {row.repetitions for row in rows if row.value is not None} == {100}
        return [row.verdict([]) == "agrees" for row in rows if row.value is not None]

    good = verdicts((0.6, 0.9, 3.5), (0.45, 0.8, 3.0), 0.0)
    assert good == [True] * 7
    bad = verdicts((0.4, 0.8, 2.0), (0.30, 0.9, 4.1), 0.2)
    assert bad == [False] * 7


def test_the_paper_s_part_repeats_coins_and_nothing_else(monkeypatch):
    drawn = []
    for name, value in (("EPSILONS", (1.0,)), ("SHIFT_EPSILONS", (1.0,)), ("CLASSES", (2,))):
        monkeypatch.setattr(randomized_response, name, value)
    draw = randomized_response.draw_classes
    monkeypatch.setattr(
        randomized_response, "draw_classes", lambda *given: drawn.append(1) or draw(*given)
    )
    made = randomized_response.study(scale=0.002)
    for cell, data_sets in zip(made.cells, (2, 1), strict=True):
        drawn.clear()
        rows = made.compute(None, cell)
        assert len(drawn) == data_sets  # the data and what the regression is fitted on
        assert {row["repetition"] for row in rows} == {0, 1, 2, 3, 4}


@pytest.fixture
def few_clicks(smaller):
    smaller(
        criteo,
        MECHANISMS={"lp-1st": {}, "lp-1st-noise-correction": {"noise_correction": True}},
        EPSILONS=(math.inf, 0.1),
        PARAMETERS=FEW,
        TEACHERS=5,
    )
    smaller(attacks, REPETITIONS=4)


@pytest.mark.slow
@pytest.mark.paper("observational", "Table 2", "Table 5", "Figure 1", "Figure 5")
def test_criteo_trains_attacks_and_says_synthetic(few_clicks, tmp_path, study):  # noqa: ARG001
    code, out = study("criteo", "--scale", "0.02", "--output", str(tmp_path))
    assert code == 0
    for words in (
        "Table 2 of Observational Auditing of Privacy: printed, and ours",
        "1.60 ± 0.15",
        "not judged: clicks and 2 more",
        "not computed: this model is not trained",
        "24 days of clicks in section 6.4 and 28 in 6.2",
        "seed 2511",
        "No bound is above its model's epsilon",
        "One rule of agreement",
    ):
        assert words in out
    assert {"criteo_synthetic.csv", "figures_1_and_5.svg"} < check_files(tmp_path)
    drawing = (tmp_path / "tables_2_and_5.svg").read_text(encoding="utf-8")
    for name in ("lp-1st", "pate", "printed in the paper"):
        assert f">{name}</text>" in drawing  # the legend
    models = pl.read_csv(tmp_path / "criteo_synthetic.csv")
    assert models.height == 3 * 2 * len(ATTACKS)
    assert models["test_log_loss"].is_between(0.05, 5.0).all()
    labels = models.filter(attack=LABELS)
    assert set(labels["records"]) == set(labels["test_records"])
    corrected = labels.filter(mechanism="lp-1st-noise-correction")["test_log_loss"].to_list()
    plain = labels.filter(mechanism="lp-1st")["test_log_loss"].to_list()
    assert corrected[0] == plain[0]  # nothing is corrected without noise
    assert corrected[1] != plain[1]


@pytest.mark.slow
def test_published_files_are_drawn_from_and_never_called_synthetic(
    few_clicks,  # noqa: ARG001
    tmp_path,
    study,
):
    """Two files of 20,000 lines in Criteo's format: 1,000 rows of each day, a twentieth."""
    files = [str(tmp_path / f"day_{day}") for day in range(2)]
    for day, file in enumerate(files):
        frame, _ = synthetic_clicks(20_000, day=day, seed=1)
        frame.with_columns(pl.col(NUMERIC).cast(pl.Int64)).write_csv(
            file, separator="\t", include_header=False
        )
    output = ("--output", str(tmp_path / "out"))
    code, out = study("criteo", "--scale", "0.001", *output, "--input", *files)
    assert code == 0, out
    assert "The clicks are those of the files" in out
    assert "not judged: rows a day" in out
    assert "synthetic" not in out.lower()
    models = pl.read_csv(tmp_path / "out" / "criteo.csv")
    assert models["trained_on"][0] + models["test_records"][0] < 1_000
    code, out = study("criteo", *output, "--input", files[0])
    assert code == 3
    assert "give two files, the proxy's day and the target's" in out


def test_another_method_is_another_cell(smaller):
    cell = runner.Cell("one", {"scale": 1.0})
    before = cell.identity
    assert runner.Cell("one", {"scale": 0.5}).identity != before
    smaller(runner, METHOD_VERSION="of tomorrow")
    assert cell.identity != before


def test_a_scale_or_folder_that_cannot_be_is_named(tmp_path, study):
    (tmp_path / "file").write_text("")
    for arguments, expected in (
        (("--scale", "0", "--output", str(tmp_path)), "--scale is 0.0"),
        (("--scale", "2", "--output", str(tmp_path)), "--scale is 2.0"),
        (("--scale", "0.01", "--output", str(tmp_path / "file")), "no folder can be made"),
    ):
        code, out = study("randomized-response", *arguments)
        assert code == 3
        assert expected in out


PAGE = (ROOT / "docs" / "evidence" / "studies.md").read_text(encoding="utf-8")
RUNS = {
    cells[0]: cells[2]
    for line in PAGE.partition("### Runs\n")[2].splitlines()[4:]
    if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
}
KEPT = sorted((ROOT / "tests" / "golden" / "studies").glob("*.json"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.stem)
def test_the_page_names_the_method_version_of_each_run_and_has_its_figures(kept):
    """A run of another version than the code's is stale, and the page says of which it is."""
    told = json.loads(kept.read_text(encoding="utf-8"))
    (version,) = re.findall(r"Method version (\d+)\.", " ".join(told["findings"]))
    assert RUNS[kept.stem].removesuffix(", stale") == version
    assert int(version) <= int(METHOD_VERSION)
    heading = re.search(rf"### {kept.stem.replace('-', ' ')}\b", PAGE, re.IGNORECASE)
    assert heading is not None
    section = PAGE[heading.end() :].partition("\n### ")[0]
    printed = re.compile(r"\d+\.\d+ ± \d*\.\d+")
    stated = set(printed.findall(section))
    known = set(printed.findall(json.dumps(told["tables"], ensure_ascii=False)))
    of_papers = {
        value.words
        for place in ("Table 1", "Table 2", "Table 6", "Table 7")
        for value in printed_values(GAME, place).values()
    }
    assert stated <= known | of_papers, stated - known - of_papers


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_another_method_version_is_called_stale(name):
    stale = set(re.findall(r"\d+", RUNS[name])) != {METHOD_VERSION}
    assert RUNS[name].endswith(", stale") == stale


def test_every_study_has_its_run_on_the_page_and_is_asked_what_it_takes():
    makers = [command.callback.__wrapped__ for command in study_commands.registered_commands]
    names = {maker.__name__.replace("_", "-") for maker in makers}
    assert set(RUNS) == names
    assert len(KEPT) >= 4
    for maker in makers:
        study = importlib.import_module(f"flows.study.{maker.__name__}").study
        taken, asked = (inspect.signature(each).parameters for each in (study, maker))
        assert set(taken) == set(asked), maker.__name__
