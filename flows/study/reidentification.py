"""`privaudit study reidentification`: membership, from outputs that Algorithm 1 made noisy.

Izzo et al., "Provable Re-identification Privacy": a mean, a logistic regression and the leaf values
of CatBoost's trees, each trained on a random half of twelve records. All 924 halves are known, so
the best membership attack is exact; a practical one looks at each record's loss.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest

from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow, binomial_error, chart, paragraphs, points_of, table_of
from privcore import attacks, upper_bounds
from privcore.attacks import generator
from privcore.attacks.holdout_suspicion import fit_logistic

SEED, RECORDS, PLAYS = 71, 12, 10_000
ETAS = (0.05, 0.1, 0.2, 0.4)
STATISTICS = MEAN, LOGISTIC, LEAVES = "mean", "logistic regression", "CatBoost leaf values"
NOISES = PRINTED, THEOREM, LEAST = "printed Algorithm 1", "theorem", "least that suffices"
ATTACKS = "optimal", "loss"
_LEVEL = 1e-6
_TREES, _DEPTH, _PENALTY, _RATE = 2, 2, 1.0, 0.3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Twelve records, what training on every half of them gives, and every quarter.

    Attributes:
        halves: shape (924, records), whether the half holds the record.
        outputs: shape (924, dimension).
        known: places of a half or a quarter -> output.
        loss: from an output to every record's loss under it, shape (records,).
    """

    halves: NDArray[np.bool_]
    outputs: Floats
    known: dict[tuple[int, ...], Floats]
    loss: Callable[[Floats], Floats]


def study(*, scale: float) -> Study:
    """Return the study; `scale` is the share of the games to play."""
    plays = max(50, round(PLAYS * scale))
    cells = [
        Cell(
            f"{statistic.split()[0]}-{noise.split()[0]}-{eta:g}",
            {"statistic": statistic, "noise": noise, "eta": eta, "plays": plays},
        )
        for statistic, noise, eta in itertools.product(STATISTICS, NOISES, ETAS)
    ]
    return Study(
        "Re-identification",
        "Who took part, told from outputs that were made re-identification private",
        cells,
        _compute,
        SEED,
        _shown,
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def _compute(seed: int, cell: Cell) -> list[CellRow]:
    """Return how often both attacks are right about each record, for one statistic and noise."""
    given = cell.parameters
    people = population(given["statistic"], seed)
    random = generator(seed, cell.name)
    ordinary = np.mean([people.loss(output) for output in people.outputs], axis=0)
    right = np.zeros((2, RECORDS), dtype=np.int64)
    for _ in range(given["plays"]):
        half, published, likelihood = _publish(people, given["noise"], given["eta"], random)
        truth = np.isin(np.arange(RECORDS), half)
        best = attacks.member_probabilities(likelihood, people.halves) >= 0.5
        # A record that took part has a smaller loss than it has on average.
        practical = people.loss(published) <= ordinary
        right += np.array([best == truth, practical == truth])
    return [
        {**given, "record": record, "attack": attack, "right": int(right[place, record])}
        for place, attack in enumerate(ATTACKS)
        for record in range(RECORDS)
    ]


def _publish(
    people: Population, noise: str, eta: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Run the wrapper once: the half it drew, what it published, each half's log-likelihood."""
    trained: list[NDArray[np.int64]] = []

    def train(places: NDArray[np.int64]) -> Floats:
        trained.append(places)
        return people.known[tuple(sorted(int(place) for place in places))]

    run: dict[str, Any] = {"eta": eta, "generator": random}
    if noise == PRINTED:
        made = upper_bounds.printed_reidentification_private(train, np.arange(RECORDS), **run)
        scale = float(upper_bounds.rip_noise_scale(eta)) * float(made.deviations)
        likelihood = attacks.radial_log_likelihood(made.output, people.outputs, scale=scale)
    else:
        least = noise == LEAST
        rule = upper_bounds.least_noise_scale if least else upper_bounds.rip_noise_scale
        run["noise"] = functools.partial(upper_bounds.anisotropic_noise, scale=rule)
        made = upper_bounds.reidentification_private(train, np.arange(RECORDS), **run)
        likelihood = attacks.anisotropic_log_likelihood(
            made.output, people.outputs, deviations=made.deviations, scale=float(rule(eta))
        )
    # The wrapper trains on the half that it publishes last.
    return trained[-1], made.output, likelihood


@functools.cache
def population(statistic: str, seed: int) -> Population:
    """Return the records, and all outputs of a statistic on their halves and quarters."""
    random = generator(seed, "population")
    labels = np.arange(RECORDS) % 2
    features = random.standard_normal((RECORDS, 2)) + 1.5 * labels[:, np.newaxis]
    features[0] = [6.0, -6.0]  # one record is unlike the others
    train, loss = {MEAN: _mean, LOGISTIC: _logistic_regression, LEAVES: _leaf_values}[statistic](
        features, labels, random
    )
    halves, quarters = (
        upper_bounds.training_sets(RECORDS, size=RECORDS // part) for part in (2, 4)
    )
    known = {
        tuple(int(place) for place in np.flatnonzero(row)): train(np.flatnonzero(row))
        for row in itertools.chain(halves, quarters)
    }
    return Population(halves, np.array(list(known.values())[: len(halves)]), known, loss)


Statistic = tuple[Callable[[NDArray[np.int64]], Floats], Callable[[Floats], Floats]]


def _mean(features: Floats, *_: Any) -> Statistic:
    """The mean of the records' features; a record's loss is its squared distance."""
    return (
        lambda places: features[places].mean(axis=0),
        lambda output: np.sum((features - output) ** 2, axis=1),
    )


def _logistic_regression(features: Floats, labels: NDArray[np.int64], _: Any) -> Statistic:
    """Coefficients of a penalised logistic regression; a record's loss is its log-loss."""
    design = np.column_stack([np.ones(RECORDS), features])

    def train(places: NDArray[np.int64]) -> Floats:
        signs = np.where(labels[places] == 1, 1.0, -1.0)
        return fit_logistic(design[places], signs, np.ones(len(places)), ridge=_PENALTY)

    return train, lambda output: _log_loss(design @ output, labels)


def _leaf_values(
    features: Floats, labels: NDArray[np.int64], random: np.random.Generator
) -> Statistic:
    """Leaf values of CatBoost's trees, whose splits come from 200 public records.

    Splits that were found on the half itself would tell who took part without any noise.
    """
    public = np.arange(200) % 2
    seen = random.standard_normal((200, 2)) + 1.5 * public[:, np.newaxis]
    model = catboost.CatBoostClassifier(
        iterations=_TREES, depth=_DEPTH, random_seed=0, thread_count=1, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip
    leaves = model.fit(seen, public).calc_leaf_indexes(features).astype(np.int64)
    size = 2**_DEPTH

    def train(places: NDArray[np.int64]) -> Floats:
        scores, values = np.zeros(len(places)), np.zeros((_TREES, size))
        for tree in range(_TREES):
            own, chances = leaves[places, tree], expit(scores)
            pull = np.bincount(own, labels[places] - chances, minlength=size)
            weight = np.bincount(own, chances * (1.0 - chances), minlength=size)
            values[tree] = _RATE * pull / (weight + _PENALTY)
            scores += values[tree][own]
        return values.ravel()

    def loss(output: Floats) -> Floats:
        values = output.reshape(_TREES, size)
        return _log_loss(values[np.arange(_TREES), leaves].sum(axis=1), labels)

    return train, loss


def _log_loss(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    return np.asarray(np.logaddexp(0.0, -(2.0 * labels - 1.0) * scores))


def _shown(_: int, found: Computed) -> Shown:
    best = accuracies(found.rows)
    table = table_of(
        "How often the best-told record is told right",
        best.to_dicts(),
        "statistic {statistic} | noise {noise} | eta {eta} | at most {at_most:.2f}"
        " | attack {attack} | told right {accuracy:.3f} ± {error:.3f}"
        " | p-value of at most {p_value:.2g}",
        text=("statistic", "noise", "attack"),
    )
    return Shown(
        _sentences(best, int(found.rows["plays"][0])),
        [table],
        data={"reidentification": found.rows, "best_told": best},
        figures={"reidentification": _chart(best)},
    )


def accuracies(plays: pl.DataFrame) -> pl.DataFrame:
    """Return each setting's accuracy on the record that is guessed best, and its p-value.

    The p-value is of the hypothesis that no record is guessed with more than 1/2 + eta: the
    smallest of all records', times their number.
    """
    keys, rows = ["statistic", "noise", "eta", "attack"], []
    best = plays.group_by(keys, maintain_order=True).agg(pl.max("right"), pl.first("plays"))
    for row in best.to_dicts():
        most, played = row.pop("right"), row.pop("plays")
        limit = min(0.5 + row["eta"], 1.0)
        above = binomtest(most, played, limit, alternative="greater")
        found = {"accuracy": most / played, "error": binomial_error(most / played, played)}
        found["p_value"] = min(1.0, RECORDS * float(above.pvalue))
        rows.append({**row, "at_most": limit, **found})
    return pl.DataFrame(rows)


def _sentences(best: pl.DataFrame, plays: int) -> list[str]:
    above = best.filter(pl.col("p_value") <= _LEVEL).to_dicts()
    names = [f"{row['statistic']}, {row['noise']}, eta {row['eta']:g}" for row in above]
    most = dict(best.filter(attack="optimal").group_by("noise").agg(pl.max("accuracy")).rows())
    waste = "; ".join(f"{noise} {most[noise]:.2f}" for noise in NOISES)
    bound = f"MORE THAN 1/2 + ETA: {'; '.join(names)}."
    if not names:
        bound = (
            f"No record is told with more than 1/2 + eta, in {best.height} settings and attacks "
            f"(exact binomial test at {_LEVEL:g}, times {RECORDS} records). The table has the best "
            f"of {RECORDS} records: after few runs its share can lie above 1/2 + eta by chance."
        )
    return paragraphs(f"""
    {plays:,} runs of the wrapper for each setting, each on a random half of {RECORDS} records, one
    of them unlike the others; the optimal attack knows all halves' outputs and the noise's scale.
    Shares ± their standard errors.

    {bound}

    The deviations are estimated from 32 halves; the guarantee holds if they are not below the true
    ones. The printed algorithm's Laplace radius is the theorem's noise in one dimension alone.

    The most that the optimal attack tells: {waste}.
    """)


def _chart(best: pl.DataFrame) -> Any:
    once = best.filter(noise=LEAST, attack="optimal").to_dicts()
    told, error = {"accuracy": "{noise}, {attack}"}, {"accuracy": "error"}
    return chart(
        [
            *points_of(once, "eta", {"at_most": "1/2 + eta"}, panel="{statistic}"),
            *points_of(best.to_dicts(), "eta", told, error=error, panel="{statistic}"),
        ],
        "Algorithm 1: who took part, told from noisy outputs",
        x=Axis("eta", values=(0.1, 0.2, 0.4)),
        y=Axis("told right", domain=(0.4, 1.0)),
        colors="red green sky grey pink blue orange",
        size=(210, 200),
    )
