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
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from flows.study.cells import Cell, CellRow, check_scale
from flows.study.runner import Study
from flows.study.text_shown import (
    CALIBRATED,
    CONTROL,
    FOLDS,
    PLAIN,
    SEED,
    TARGET,
    TEST_SHARE,
    shown,
)
from flows.study.three_attacks import (
    DELTA,
    REPETITIONS,
    SIGNIFICANCE,
    Answers,
    attack_figures,
    figure_ceiling,
    pairs_of,
    play_all,
)
from privcore.attacks import generator
from workers.datasets.rated_texts import RatedTexts, read_texts
from workers.training.networks import (
    FittedNetwork,
    Schedule,
    fit_network,
    one_hot,
    softmax,
    text_network,
)
from workers.training.term_weights import term_weights

SCHEDULE = Schedule(epochs=5, batch=256, rate=1e-3)
HIDDEN = 128
_SMALLEST = 1e-12
_TEMPERATURES = (0.05, 20.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Halves:
    """Records of the test set, of the proxy's half and of the target's."""

    test: NDArray[np.int64]
    proxy: NDArray[np.int64]
    target: NDArray[np.int64]


def study(path: pathlib.Path, *, scale: float) -> Study:
    """Return the study: three networks, and all attacks on two of them."""
    check_scale(scale)
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
    terms, parts = term_weights(words.to_list()), _parts(len(labels))
    network = text_network(terms.vocabulary, HIDDEN)

    def trained(part: NDArray[np.int64], seed: int) -> FittedNetwork:
        known = one_hot(labels[part], 2)
        return fit_network(network, terms.of(part), known, SCHEDULE, seed=seed)

    def asked(model: FittedNetwork) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what a model says of the target's half, and of the test set."""
        return model.probabilities(terms.of(parts.target)), model.probabilities(
            terms.of(parts.test)
        )

    proxy, target = trained(parts.proxy, SEED), trained(parts.target, SEED + 1)
    folds = np.arange(len(parts.target)) % FOLDS
    others = [trained(parts.target[folds != fold], SEED + 2 + fold) for fold in range(FOLDS)]
    control = tuple(
        np.stack(said)[np.arange(len(said[0])) % FOLDS, np.arange(len(said[0]))]
        for said in zip(*map(asked, others), strict=True)
    )
    expected = asked(proxy)
    rows = []
    for name, said in ((TARGET, asked(target)), (CONTROL, control)):
        arms = [
            Answers(answers, expected[arm], labels[part])
            for arm, (answers, part) in enumerate(
                zip(said, (parts.target, parts.test), strict=True)
            )
        ]
        rows += _played(name, *arms)
    return [{**row, "terms": terms.vocabulary} for row in rows]


def _played(name: str, train: Answers, test: Answers) -> list[CellRow]:
    """Return the rows of one model, with the proxy as it was trained and calibrated."""
    population = pairs_of(train, test)[2]
    temperature = fitted_temperature(population.proxy, population.labels)
    accuracy = float((test.target.argmax(axis=1) == test.labels).mean())
    rows = []
    for proxy, heat in ((PLAIN, 1.0), (CALIBRATED, temperature)):
        arms = [arm.beside(tempered(arm.proxy, heat)) for arm in (train, test)]
        rows += [
            {
                "model": name,
                "proxy": proxy,
                "temperature": heat,
                "attack": attack,
                "records": tally.records,
                **attack_figures(tally),
                "epsilon_ceiling": figure_ceiling(tally.records),
                "test_accuracy": accuracy,
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


def _parts(records: int) -> _Halves:
    """Return a random tenth for the test, and two random halves of the rest."""
    shuffled = generator(SEED, "split").permutation(records)
    tested = round(TEST_SHARE * records)
    middle = tested + (records - tested) // 2
    return _Halves(shuffled[:tested], shuffled[tested:middle], shuffled[middle:])
