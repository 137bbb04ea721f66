"""What `attach` and a notebook answer to honest teams by learner: docs/evidence/statistics.md.

    python -m tests.benchmarks.honest_learners [--audits 40] [--only WORDS ...]

Each day has 3,000 training rows and 750 held out at random. Training reads labels through
randomized response at the declared epsilon of 1, so no declaration is false. A cell counts
verdicts and refusals, with doubts beside them, and the largest bound. Scores have 16 or 32 bits,
and come with features as context or without. In the last rows today's model is better than
yesterday's, and it stops early on a tenth of the training rows. Seeds are [61, 0] and on.
"""

import argparse
import logging
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flows.study.exam_worlds import log_odds_of, response, rows_of, together
from tests.support.team_practices import answer
from tests.team_worlds import FEATURES, TeamDay

_TRAINED, _HELD, _EPSILON = 3_000, 750, 1.0
WAYS = ("attach", "attach with context", "notebook", "notebook with context")
Model = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Learner = Callable[[NDArray[np.float64], NDArray[np.int64]], Model]


def _of(made: Callable[[], Any]) -> Learner:
    def fit(features: NDArray[np.float64], labels: NDArray[np.int64]) -> Model:
        model = made().fit(features, labels)
        return lambda rows: model.predict_proba(rows)[:, 1]

    return fit


def _boosted(features: NDArray[np.float64], labels: NDArray[np.int64]) -> Model:
    """Boost on nine tenths of the rows, until the last tenth is predicted no better."""
    cut = labels.size * 9 // 10
    read = lightgbm.Dataset(features[:cut], labels[:cut])
    stop = lightgbm.Dataset(features[cut:], labels[cut:], reference=read)
    settings = {"objective": "binary", "num_leaves": 31, "num_threads": 1, "verbose": -1}
    early = [lightgbm.early_stopping(20, verbose=False)]
    model = lightgbm.train(settings, read, 300, valid_sets=[stop], callbacks=early)
    return lambda rows: np.asarray(model.predict(rows))


_logistic = _of(lambda: make_pipeline(StandardScaler(), LogisticRegression()))
LEARNERS: dict[str, tuple[Learner, Learner]] = {
    name: (learner, learner)
    for name, learner in {
        "random forest": _of(lambda: RandomForestClassifier(100, random_state=0)),
        "extra trees": _of(lambda: ExtraTreesClassifier(100, random_state=0)),
        "100 neighbours": _of(lambda: KNeighborsClassifier(100)),
        "network, 32 x 32": _of(
            lambda: make_pipeline(
                StandardScaler(), MLPClassifier((32, 32), max_iter=60, random_state=0)
            )
        ),
        "logistic regression": _logistic,
        "boosted, early stopping": _boosted,
    }.items()
} | {"boosted after logistic regression": (_boosted, _logistic)}


def day(learner: str, seed: int) -> TeamDay:
    """Return a day of an honest team, whose scores have 64 bits."""
    random = np.random.default_rng([61, seed])
    truth = log_odds_of(random)
    parts = (rows_of(truth, many, random) for many in (_TRAINED, _TRAINED, _HELD))
    before, rows, held = parts
    fit_target, fit_proxy = LEARNERS[learner]
    models = (
        fit_target(rows[0], response(rows[1], _EPSILON, random)),
        fit_proxy(before[0], response(before[1], _EPSILON, random)),
    )
    features, labels = together(rows, held)
    scores = [np.clip(model(features), 0.0, 1.0) for model in models]
    frame = pl.DataFrame(
        {
            "clicked": labels,
            "p_today": scores[0],
            "p_yesterday": scores[1],
            "split": np.repeat(["train", "holdout"], [_TRAINED, _HELD]),
            **dict(zip(FEATURES, features.T, strict=True)),
        }
    )
    return TeamDay(frame[random.permutation(labels.size)], "", "", _EPSILON)


def stored(whole: TeamDay, bits: int) -> TeamDay:
    """Return a day whose scores were once stored in so many bits."""
    kind = pl.Float16 if bits == 16 else pl.Float32
    scores = pl.col("p_today", "p_yesterday").cast(kind).cast(pl.Float32)
    return replace(whole, frame=whole.frame.with_columns(scores))


def cell(days: list[TeamDay], bits: int, way: str) -> str:
    """Return the counts of a cell of the table."""
    found = [answer(stored(each, bits), way) for each in days]
    counts = Counter(map(str, found)).most_common()
    bounds = [each.epsilon_lower for each in found if each.epsilon_lower is not None]
    words = "; ".join(f"{count} {said}" for said, count in counts)
    return f"{words} (up to {max(bounds, default=0.0):.2f})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=40)
    arguments.add_argument("--only", nargs="+", default=[""], help="words in a learner's name")
    given = arguments.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"| learner | bits | {' | '.join(WAYS)} |")  # noqa: T201
    print("| --- | --- |" + " --- |" * len(WAYS))  # noqa: T201
    for name in LEARNERS:
        if not any(words in name for words in given.only):
            continue
        days = [day(name, seed) for seed in range(given.audits)]
        for bits in (16, 32):
            cells = [cell(days, bits, way) for way in WAYS]
            print(f"| {name} | {bits} | {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
