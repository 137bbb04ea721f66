"""`privaudit study text`: Table 7 of the game's paper, three attacks on a network that reads texts.

"Observational Auditing of Privacy" (arXiv:2511.14084), appendix E: neutral texts are left out, the
others balanced, a random tenth is the test set, the rest is halved at random for proxy and target,
and as many of the target's half play as there are test texts. Nothing is private: epsilon is
infinite.

A figure above 0 may also come from a proxy that is too sure. So the same attacks are played with
its probabilities calibrated on half of the test texts, which then play in no game.
"""

import hashlib
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from flows.study import attacks, tables
from flows.study.attacks import ATTACKS, LABELS, LOSS, REPETITIONS, RMIAS, Answers
from flows.study.printed import GAME, Ours, Setting, beside, printed_values
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow
from privcore.attacks import generator
from workers.datasets.rated_texts import TWEETS, RatedTexts, read_texts
from workers.training.networks import Schedule, fit_network, one_hot, term_weights, text_network

SEED, TEST_SHARE, CANARIES = 1126, 0.1, 300_000
PLAIN, CALIBRATED = "as trained", "calibrated"
SCHEDULE = Schedule(epochs=5, batch=256, rate=1e-3)
HIDDEN = 128
_SMALLEST = 1e-12
_TEMPERATURES = (0.05, 20.0)


def study(
    path: pathlib.Path,
    *,
    scale: float,
    text_column: str | None = None,
    label_column: str | None = None,
    canaries: int = CANARIES,
) -> Study:
    """Return the study: two networks, and all attacks on one of them.

    Of the target's records, and of the test texts, `canaries` play, or all where there are fewer.
    """
    texts = read_texts(path, text=text_column, label=label_column)
    content = hashlib.sha256("\0".join(texts.texts.to_list()).encode())
    content.update(texts.sentiments.tobytes())
    parameters = {
        "texts": content.hexdigest(),
        "scale": scale,
        "seed": SEED,
        "test_share": TEST_SHARE,
        "canaries": canaries,
        "hidden": HIDDEN,
        "schedule": asdict(SCHEDULE),
        "game": attacks.GAME_SETTINGS,
    }
    return Study(
        "Text",
        "Three attacks on a network that reads texts",
        [Cell("text", parameters)],
        _compute,
        texts,
        _shown,
        settings_of(texts, scale, canaries),
        drawn=f"{texts.source[:1].upper()}{texts.source[1:]}, seed {SEED}.",
    )


def _compute(texts: RatedTexts, cell: Cell) -> list[CellRow]:
    words, labels = texts.balanced(generator(SEED, "texts"), cell.parameters["scale"])
    terms = term_weights(words.to_list())
    network = text_network(terms.vocabulary, HIDDEN)
    # A random tenth is the test set; the rest is halved.
    shuffled = generator(SEED, "split").permutation(len(labels))
    tested = round(TEST_SHARE * len(labels))
    middle = tested + (len(labels) - tested) // 2
    test, before, own = np.split(shuffled, [tested, middle])

    def answers(part: NDArray[np.int64], seed: int) -> list[NDArray[np.float64]]:
        """Train on a part; return what the model says of the target's half, and of the test set."""
        known = one_hot(labels[part], 2)
        model = fit_network(network, terms.of(part), known, SCHEDULE, seed=seed)
        return [model.probabilities(terms.of(asked)) for asked in (own, test)]

    target, proxy = answers(own, SEED + 1), answers(before, SEED)
    train, held = (
        Answers(*arm) for arm in zip(target, proxy, (labels[own], labels[test]), strict=True)
    )
    chooses, plays = np.array_split(np.arange(held.records), 2)
    chosen = held.take(chooses)
    heat = fitted_temperature(chosen.proxy, chosen.labels)
    calibrated = (
        replace(arm, proxy=tempered(arm.proxy, heat)) for arm in (train, held.take(plays))
    )
    games = ((PLAIN, 1.0, (train, held)), (CALIBRATED, heat, calibrated))
    about = {
        "test_accuracy": held.accuracy,
        "test_records": held.records,
        "trained_on": train.records,
        "terms": terms.vocabulary,
    }
    return [
        {"proxy": name, "temperature": temperature, **row, **about}
        for name, temperature, arms in games
        for row in attacks.attacked(*arms, canaries=cell.parameters["canaries"], stream=name)
    ]


def tempered(chances: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the softmax of a model's logits over a temperature, from its probabilities."""
    raised = softmax(np.log(np.clip(chances, _SMALLEST, 1.0)) / temperature, axis=1)
    return np.asarray(raised)


def fitted_temperature(chances: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature at which these labels are the least surprising (Guo et al. 2017)."""

    def loss(temperature: float) -> float:
        own = tempered(chances, temperature)[np.arange(len(labels)), labels]
        return float(-np.log(own).mean())

    return float(minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded").x)


def settings_of(texts: RatedTexts, scale: float, canaries: int = CANARIES) -> list[Setting]:
    """Return what the paper fixes, beside what it is here."""
    many, usual = float(f"{scale * len(texts.texts):.1g}"), "as many as test texts"
    return [
        Setting("texts", TWEETS, texts.source),
        Setting("number of texts, to a digit", "3,000,000", f"{many:,.0f}"),
        Setting("test share", "0.1", f"{TEST_SHARE:g}"),
        Setting("canaries", usual, usual if canaries >= CANARIES else f"at most {canaries:,}"),
        Setting("features, network", "TF-IDF, fully connected", "TF-IDF, fully connected"),
    ]


def _shown(texts: RatedTexts, found: Computed) -> Shown:
    rows, printed = found.rows.to_dicts(), printed_values(GAME, "Table 7")
    figure, error = {"epsilon_paper": "{attack}"}, {"epsilon_paper": "epsilon_paper_deviation"}
    points = tables.points_of(rows, "attack", figure, error=error, panel="proxy {proxy}")
    points += [
        tables.printed_at(name, printed[quantity].middle, name, f"proxy {PLAIN}")
        for name, quantity, _ in _QUANTITIES[:3]  # RMIA's as of gamma 1
    ]
    drawing = tables.chart(
        points,
        "Table 7: three attacks on a network that reads texts",
        x=Axis(None, order=list(ATTACKS)),
        y=Axis("figure ± deviation"),
        colors="red orange blue green pink",
        size=(240, 220),
        marks="points",
    )
    return Shown(
        _sentences(rows),
        [attacks.attacks_table(rows, model="proxy {proxy}")],
        ours=_ours(rows),
        data={"text": found.rows.with_columns(source=pl.lit(texts.source))},
        figures={"table_7": drawing},
    )


# Our attack, the printed quantity, and which of ours it is: RMIA's gamma is not printed.
_QUANTITIES = [
    (LABELS, LABELS, ""),
    (LOSS, LOSS, ""),
    *((name, "RMIA", name.split(", ")[1]) for name in RMIAS),
]


def _ours(rows: Sequence[CellRow]) -> list[Ours]:
    """Return Table 7 beside ours, with the proxy as it was trained."""
    plain = {row["attack"]: row for row in rows if row["proxy"] == PLAIN}
    found: list[CellRow] = [
        {
            "place": "Table 7",
            "quantity": quantity,
            "value": plain[name]["epsilon_paper"],
            "error": plain[name]["epsilon_paper_deviation"],
            "of_control": plain[name]["control_epsilon_paper"],
            "of": of,
            "repetitions": REPETITIONS,
        }
        for name, quantity, of in _QUANTITIES
    ]
    right = rows[0]["test_accuracy"]
    error = tables.binomial_error(right, rows[0]["test_records"])
    accuracy = {"place": "Table 7", "quantity": "test accuracy", "value": right, "error": error}
    return beside(GAME, ["Table 7"], [*found, accuracy | {"form": ".1%"}])


def _sentences(rows: Sequence[CellRow]) -> list[str]:
    first, calibrated = rows[0], next(row for row in rows if row["proxy"] == CALIBRATED)
    said = tables.paragraphs(f"""
        Neutral texts are left out, and as many positive as negative ones are drawn; a random
        {TEST_SHARE:.0%}, {first["test_records"]:,} texts, is the test set. Proxy and target are
        trained on {first["trained_on"]:,} texts each. TF-IDF with {first["terms"]:,} terms, weighed
        over all texts without their labels, and a fully connected network. The target is right on
        {first["test_accuracy"]:.1%} of the test texts.

        The calibrated proxy has its logits divided by {calibrated["temperature"]:.2f}, which makes
        half of the test labels the least surprising. The other half play in its games.
    """)
    return [*said, *attacks.PROTOCOL]
