"""`privaudit study text`: Table 7 of the game's paper, three attacks on a network that reads texts.

"Observational Auditing of Privacy" (arXiv:2511.14084), appendix E: neutral texts are left out, the
others balanced, a random tenth is the test set, the rest is halved at random for proxy and target,
and all of the target's half plays. Nothing is private: epsilon is infinite.

A figure above 0 may also come from a proxy that is wrong. So the same attacks are played on
networks that never saw the labels in question: the target's half falls into folds, and of each fold
a network is asked that was trained on the others. And they are played with the proxy's
probabilities calibrated on test records, which play in no game.
"""

import hashlib
import pathlib
from dataclasses import asdict, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from flows.report.study_page import StudyTable
from flows.study.runner import Cell, Shown, Study
from flows.study.tables import (
    ATTACK_COLORS,
    DELTA,
    FIGURE,
    LABELS,
    REPETITIONS,
    SIGNIFICANCE,
    TABLE_7,
    TITLE,
    Answers,
    Axis,
    CellRow,
    attack_figures,
    chart,
    figure_beside,
    figure_ceiling,
    figure_points,
    pairs_of,
    paragraphs,
    play_all,
    printed_cells,
    table_of,
)
from privcore.attacks import generator
from privcore.upper_bounds import Published
from workers.datasets.rated_texts import RatedTexts, read_texts
from workers.training.networks import (
    FittedNetwork,
    Schedule,
    fit_network,
    one_hot,
    softmax,
    term_weights,
    text_network,
)

SEED, TEST_SHARE, FOLDS = 1126, 0.1, 4
TARGET, CONTROL = "target", "control"
PLAIN, CALIBRATED = "as trained", "calibrated"
SCHEDULE = Schedule(epochs=5, batch=256, rate=1e-3)
HIDDEN = 128
_SMALLEST = 1e-12
_TEMPERATURES = (0.05, 20.0)


def study(path: pathlib.Path, *, scale: float) -> Study:
    """Return the study: three networks, and all attacks on two of them."""
    texts = read_texts(path)
    content = hashlib.sha256("\0".join(texts.texts.to_list()).encode())
    content.update(texts.sentiments.tobytes())
    parameters = {
        "texts": content.hexdigest(),
        "scale": scale,
        "seed": SEED,
        "test_share": TEST_SHARE,
        "hidden": HIDDEN,
        "folds": FOLDS,
        "schedule": asdict(SCHEDULE),
        "game": [REPETITIONS, DELTA, SIGNIFICANCE],
    }
    return Study(
        "Text",
        "Three attacks on a network that reads texts",
        [Cell("text", parameters)],
        compute,
        texts,
        lambda found: shown(found.rows, texts.source, scale),
        scale,
        data="other texts",
    )


def compute(texts: RatedTexts, cell: Cell) -> list[CellRow]:
    """Return a row for each attack on target and control, with either proxy."""
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
        model: FittedNetwork = fit_network(network, terms.of(part), known, SCHEDULE, seed=seed)
        return [model.probabilities(terms.of(asked)) for asked in (own, test)]

    proxy, target = answers(before, SEED), answers(own, SEED + 1)
    folds = np.arange(len(own)) % FOLDS
    others = [answers(own[folds != fold], SEED + 2 + fold) for fold in range(FOLDS)]
    control = [
        np.stack(said)[np.arange(len(said[0])) % FOLDS, np.arange(len(said[0]))]
        for said in zip(*others, strict=True)
    ]
    rows = []
    for name, said in ((TARGET, target), (CONTROL, control)):
        arms = zip(said, proxy, (labels[own], labels[test]), strict=True)
        rows += _played(name, *(Answers(*arm) for arm in arms))
    return [{**row, "terms": terms.vocabulary} for row in rows]


def _played(name: str, train: Answers, test: Answers) -> list[CellRow]:
    """Return the rows of one model, with the proxy as it was trained and calibrated."""
    population = pairs_of(train, test)[2]
    temperature = fitted_temperature(population.proxy, population.labels)
    rows = []
    for proxy, heat in ((PLAIN, 1.0), (CALIBRATED, temperature)):
        arms = [replace(arm, proxy=tempered(arm.proxy, heat)) for arm in (train, test)]
        rows += [
            {
                "model": name,
                "proxy": proxy,
                "temperature": heat,
                "attack": attack,
                "records": tally.records,
                **attack_figures(tally),
                "epsilon_ceiling": figure_ceiling(tally.records),
                "test_accuracy": test.accuracy,
                "test_records": test.records,
            }
            for attack, tally in play_all(*arms).items()
        ]
    return rows


def tempered(chances: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the softmax of a model's logits over a temperature, from its probabilities."""
    return softmax(np.log(np.clip(chances, _SMALLEST, 1.0)) / temperature)


def fitted_temperature(chances: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature at which these labels are the least surprising (Guo et al. 2017)."""

    def loss(temperature: float) -> float:
        own = tempered(chances, temperature)[np.arange(len(labels)), labels]
        return float(-np.log(own).mean())

    return float(minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded").x)


def shown(attacks: pl.DataFrame, source: str, scale: float) -> Shown:
    """Return what there is to show of all attacks on texts from a source."""
    drawing = chart(
        figure_points(attacks.to_dicts(), "attack", "{attack}", "{model}, proxy {proxy}"),
        "Three attacks on a network that reads texts",
        x=Axis(None, order=list(ATTACK_COLORS)),
        y=Axis("paper's figure ± deviation"),
        colors=ATTACK_COLORS,
        size=(240, 220),
        marks="points",
    )
    return Shown(
        sentences(attacks, source, scale),
        [_table(attacks)],
        published(attacks),
        {"text": attacks.with_columns(source=pl.lit(source), seed=pl.lit(SEED))},
        {"text": drawing},
    )


def _table(attacks: pl.DataFrame) -> StudyTable:
    return table_of(
        "Three attacks, epsilon infinite",
        beside_control(attacks),
        {
            "attack": "{attack}",
            "proxy": "{proxy}",
            "records": "{records:,}",
            "right": "{accuracy:.1%}",
            "paper's": FIGURE,
            "its control": "{control_epsilon_paper:.2f} ± {control_epsilon_paper_deviation:.2f}",
            "lower": "{epsilon_lower:.2f}",
            "control": "{control_epsilon_lower:.2f}",
            "ceiling": "{epsilon_ceiling:.2f}",
        },
        text=("attack", "proxy"),
        wide=("right", "ceiling"),
    )


def beside_control(attacks: pl.DataFrame) -> list[CellRow]:
    """Return the target's rows, each with the control's figures of the same attack and proxy."""
    controls = {
        (row["proxy"], row["attack"]): row for row in attacks.filter(model=CONTROL).to_dicts()
    }
    return [
        row | {f"control_{name}": value for name, value in control.items()}
        for row in attacks.filter(model=TARGET).to_dicts()
        for control in [controls[row["proxy"], row["attack"]]]
    ]


def published(attacks: pl.DataFrame) -> list[Published]:
    """Return Table 7 beside ours, with the proxy as it was trained.

    A figure agrees within two printed standard deviations; on other texts it is not judged.
    """
    ours = {row["attack"]: row for row in beside_control(attacks) if row["proxy"] == PLAIN}
    ours["label inference"] = ours[LABELS]
    return [
        Published(TITLE, "Table 7", attack, *figure_beside(ours[attack], cell))
        for (attack, _), cell in printed_cells(TABLE_7, ("inf",)).items()
        if cell is not None
    ]


def sentences(attacks: pl.DataFrame, source: str, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    first = attacks.filter(model=TARGET, attack=LABELS, proxy=CALIBRATED).row(0, named=True)
    highest = max(row["control_epsilon_paper"] for row in beside_control(attacks))
    return paragraphs(f"""
    {source[:1].upper()}{source[1:]}, scale {scale:g}, seed {SEED}. Neutral texts are left out, and
    as many positive as negative ones are drawn; a random {TEST_SHARE:.0%},
    {first["test_records"]:,} texts, is the test set. Proxy and target are trained on
    {first["records"]:,} texts each, and all of the target's play. TF-IDF with {first["terms"]:,}
    terms, weighed over all texts without their labels, and a fully connected network. The target is
    right on {first["test_accuracy"]:.1%} of the test texts.

    Figures at delta {DELTA:g} over {REPETITIONS} repetitions: the paper's (Gaussian, best of
    1..100%, not corrected) and the corrected lower bound at significance {SIGNIFICANCE:g}, which
    takes the proxy's probabilities as true.

    The control never saw the labels that the attacks ask about: the target's texts fall into
    {FOLDS} folds, and of each a network is asked that was trained on the others. What it reads is
    how wrong the proxy is, and no leak.
    The highest paper's figure of a control is {highest:.2f}.

    The calibrated proxy has its logits divided by {first["temperature"]:.2f}, which makes half of
    the test labels the least surprising. The other half are the non-members of both membership
    attacks.

    Column ceiling: the paper's figure of an attack on as many records that is always right.
    """)
