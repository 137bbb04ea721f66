"""The exam itself: who accuses always, never, or refuses, and what is true in its worlds."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.special import logit

from flows.study import exam
from flows.study.exam import OURS, label_game, study
from flows.study.exam_worlds import WORLDS
from privcore import Arm
from privcore.exceptions import InvalidInputError
from tests.support.refusals import refused
from tests.support.studies import played

VERSION = "a test's, 1"
QUICK = ("no label is read", "epsilon is known", "a condition is broken")


def always(*_, **__):
    """Claim 9."""
    return 9.0


def never(*_, **__):
    """Claim 0."""
    return 0.0


def refuses(*_, **__):
    """Claim nothing."""


def truth_of_one(*_, **__):
    return 1.0


def no_number(*_, **__):
    return math.nan


def below_nought(*_, **__):
    return -0.1


def named(*functions):
    return tuple(f"{__name__}:{function.__name__}" for function in functions)


@pytest.fixture
def few(smaller):
    """Let auditors sit the worlds that are drawn at once, ten times each."""
    smaller(exam, WORLDS={kind: WORLDS[kind] for kind in QUICK})


@pytest.mark.usefixtures("few")
def test_who_always_accuses_fails_size_and_who_never_does_has_no_power(tmp_path):
    auditors = named(always, never, refuses)
    found, said = played(study(scale=0.01, auditors=auditors), tmp_path)
    rows = said.data["worlds"]
    counts = {
        name: (of["accused"].sum(), of["refused"].sum(), of["fails"].sum())
        for (name,), of in rows.group_by("auditor")
    }
    worlds = sum(len(WORLDS[kind]) for kind in QUICK)
    assert counts == {
        "always": (10 * worlds, 0, worlds),
        "never": (0, 0, 0),
        "refuses": (0, 10 * worlds, 0),
    }
    power = said.data["power"].select("auditor", "power").unique().to_dicts()
    assert {row["auditor"]: row["power"] for row in power} == {
        "always": 1.0,
        "never": 0.0,
        "refuses": 0.0,
    }
    sizes, beside, _ = said.tables
    assert ("always", QUICK[0], "20 of 20", "0.832 to 1.000", "0", "2 of 2") in sizes.rows
    assert beside.rows[0][2:] == ("10 of 10 (fails)", "0 of 10", "0 of 10, 10 refused")
    assert f"refuses: {VERSION}. Claim nothing." in said.sentences
    assert found.rows.height == 3 * 10 * worlds


@pytest.mark.usefixtures("few")
def test_a_bound_that_equals_the_truth_is_no_wrong_accusation(tmp_path):
    _, said = played(study(scale=0.01, auditors=named(truth_of_one)), tmp_path)
    rows = said.data["worlds"].filter(kind="epsilon is known")
    assert dict(rows.group_by("epsilon").agg(pl.max("accused")).iter_rows()) == {
        0.5: 10,
        1.0: 0,
        2.0: 0,
        4.0: 0,
    }


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("auditor", [no_number, below_nought])
def test_what_is_neither_bound_nor_refusal_is_an_error(auditor, tmp_path):
    with pytest.raises(InvalidInputError, match="None where the auditor refuses"):
        played(study(scale=0.01, auditors=named(auditor)), tmp_path)


@pytest.mark.parametrize("name", ["no_such_module:bound", "math:no_such_name", "math", ":"])
def test_an_auditor_that_is_not_there_is_named(name):
    refused("--auditor", study, scale=0.01, auditors=(name,))


def test_two_auditors_of_one_name_are_refused():
    refused("different names", study, scale=0.01, auditors=named(never, never))


def test_another_auditor_version_or_size_is_another_cell(monkeypatch):
    def identities(scale=0.5):
        made = study(scale=scale, auditors=named(never)).cells
        return {cell.identity for cell in made}

    before = identities()
    assert before == identities()
    assert len(before) == sum(map(len, WORLDS.values()))
    monkeypatch.setitem(globals(), "VERSION", "a test's, 2")
    assert not before & identities()
    monkeypatch.undo()
    assert len(before & identities(1.0)) == len(WORLDS["days of teams"])


@pytest.mark.usefixtures("few")
def test_the_command_lets_an_own_auditor_sit(tmp_path, privaudit):
    arguments = ("--scale", "0.01", "--output", str(tmp_path / "exam"))
    answer = privaudit("study", "exam", "--auditor", *named(always), *arguments)
    assert answer.code == 0
    assert "Size: audits whose bound is above the truth" in answer.words
    assert (tmp_path / "exam" / "power.svg").exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(WORLDS["epsilon is known"])))
def test_the_epsilon_of_a_world_is_true_and_reached(place):
    """The likelihood ratio of what the target says beyond the proxy, N = 400,000, seed 9.

    In bins of eighths it is at most e^epsilon, and in one nearly that.
    """
    world, random = WORLDS["epsilon is known"][place], np.random.default_rng(9)
    beyond, labels = [], []
    for _ in range(400_000 // world.training):
        target, proxy, own = world.draw(random)[0]
        beyond.append(np.round(logit(target[:, 1]) - logit(proxy[:, 1]), 9))
        labels.append(own)
    beyond, labels = np.concatenate(beyond), np.concatenate(labels)
    edges = np.unique(np.quantile(beyond, np.linspace(0.0, 1.0, 9)))
    cells = np.searchsorted(edges, beyond)
    counts = np.stack([np.bincount(cells[labels == label], minlength=9) for label in (0, 1)])
    shares = (counts + 0.5) / counts.sum(axis=1, keepdims=True)
    ratio, error = (
        np.abs(np.log(shares[1] / shares[0])),
        np.sqrt((1.0 / (counts + 0.5)).sum(axis=0)),
    )
    assert (ratio <= world.epsilon + 5.0 * error).all()
    assert ratio.max() > 0.9 * world.epsilon


def test_the_label_game_is_fair_where_nothing_leaks_and_won_by_perfect_memory():
    """N = 20,000, seed 3: five standard errors."""
    random = np.random.default_rng(3)
    chance = random.uniform(0.2, 0.8, 20_000)
    labels = (random.random(20_000) < chance).astype(int)
    both = lambda second: np.stack([1.0 - second, second], axis=1)  # noqa: E731
    other = random.uniform(0.2, 0.8, 20_000)
    scores, own = label_game(Arm(both(other), both(chance), labels), random)
    error = math.sqrt(scores.var() * (1.0 / own.sum() + 1.0 / (~own).sum()))
    assert abs(scores[own].mean() - scores[~own].mean()) < 5.0 * error
    sure = both(labels.astype(float))
    scores, own = label_game(Arm(sure, both(chance), labels), random)
    assert scores[own].min() > 0.0
    wrong = 2.0 * chance * (1.0 - chance)
    assert (scores[~own] < 0.0).mean() == pytest.approx(wrong.mean(), abs=0.02)


@pytest.mark.slow
def test_ours_holds_its_size_but_where_a_condition_is_broken(smaller, tmp_path):
    """30 audits of each world that is drawn at once, 3 days of each team; seed 64, at 1e-4."""
    smaller(exam, OF_TEAMS=3)
    _, said = played(study(scale=0.15, auditors=(OURS,)), tmp_path)
    rows = said.data["worlds"]
    failing = rows.filter("fails")
    assert failing["kind"].to_list() == ["a condition is broken"] * 3
    refused = rows.filter(pl.col("refused") == pl.col("audits"))["world"].to_list()
    assert "half of the negatives trained on, 0" in refused
    power = {(row["records"], row["epsilon"]): row for row in said.data["power"].to_dicts()}
    assert power[4_000, 4.0]["median"] > 3.0
    assert power[4_000, 1.0]["power"] > 0.5
    assert power[1_000, 2.0]["power"] > 0.8
