"""Bounds proved of real learners, beside perfect memory: docs/evidence/statistics.md.

    python -m tests.benchmarks.real_learners [--audits 3] [--rows 5000 20000] [--epsilons 0.5 1 2 4]
        [--only WORDS ...]

Labels go through randomized response at epsilon before training. Target and proxy come from the
same pipeline, trained on different days; a quarter as many rows are held out as are trained on. A
cell holds the mean bound against yesterday's model alone / with the student beside it (`context`),
and after "+-" the standard error of the latter, and of their difference. In the last row the
adversary knows every noisy label. Seeds 100, 101, ...; the feature world is drawn anew for each.
Declarations are true in all cells; the last line counts bounds above them.
"""

import argparse
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
from rich.progress import track
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from privcore.lower_bounds import Arm, audit_probabilities
from tests.simulate import randomized_response, two_columns

_FEATURES = 8
Predict = Callable[[np.ndarray], np.ndarray]


def _trees(trees: int, leaves: int, rows_of_a_leaf: int) -> Callable[..., Predict]:
    def fit(features: np.ndarray, labels: np.ndarray) -> Predict:
        settings = {
            "objective": "binary",
            "num_leaves": leaves,
            "min_data_in_leaf": rows_of_a_leaf,
            "num_threads": 1,
            "verbose": -1,
        }
        model = lightgbm.train(settings, lightgbm.Dataset(features, labels), trees)
        return lambda rows: np.asarray(model.predict(rows))

    return fit


def _of(made: Callable[[], Any]) -> Callable[..., Predict]:
    def fit(features: np.ndarray, labels: np.ndarray) -> Predict:
        model = made().fit(features, labels)
        return lambda rows: model.predict_proba(rows)[:, 1]

    return fit


LEARNERS: dict[str, Callable[..., Predict]] = {
    "80 trees, 31 leaves, 20 rows a leaf": _trees(80, 31, 20),
    "200 trees, 63 leaves, 1 row a leaf": _trees(200, 63, 1),
    "network, 2 x 64": _of(
        lambda: make_pipeline(
            StandardScaler(), MLPClassifier((64, 64), max_iter=60, random_state=0)
        )
    ),
    "logistic regression, cubic": _of(
        lambda: make_pipeline(PolynomialFeatures(3), StandardScaler(), LogisticRegression(C=10.0))
    ),
}


def world(random: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return true log-odds that no learner of these has by heart."""
    weights = random.normal(size=(_FEATURES, 16)) / 1.5
    outer = 0.8 * random.normal(size=16)
    return lambda rows: np.tanh(rows @ weights) @ outer + 0.5 * rows[:, 0] * rows[:, 1] - 0.8


def rows_of(
    truth: Callable[[np.ndarray], np.ndarray], rows: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    features = random.normal(size=(rows, _FEATURES))
    return features, (random.random(rows) < expit(truth(features))).astype(int)


def noisy(labels: np.ndarray, epsilon: float, random: np.random.Generator) -> np.ndarray:
    return np.where(random.random(labels.size) < expit(epsilon), labels, 1 - labels)


def bounds(
    fit: Callable[..., Predict], training: int, epsilon: float, seed: int
) -> tuple[float, float]:
    """Return the bound against yesterday's model alone, and with the student beside it."""
    random = np.random.default_rng(seed)
    truth = world(random)
    before, rows, held = (
        rows_of(truth, records, random) for records in (training, training, training // 4)
    )
    proxy = fit(before[0], noisy(before[1], epsilon, random))
    target = fit(rows[0], noisy(rows[1], epsilon, random))
    said = [two_columns(model(arm[0])) for arm in (rows, held) for model in (target, proxy)]
    found = []
    for contexts in ((None, None), (rows[0], held[0])):
        answer = audit_probabilities(
            Arm(*said[:2], rows[1], contexts[0]),
            Arm(*said[2:], held[1], contexts[1]),
            epsilon_declared=epsilon,
            seed=seed,
        )
        found.append(answer.epsilon_lower)
    return found[0], found[1]


def perfect(training: int, epsilon: float, seed: int) -> float:
    """Return the bound of an adversary who knows every noisy label."""
    random = np.random.default_rng(seed)
    target, proxy, labels = randomized_response(training, epsilon, random, priors=(0.3,))
    unseen = randomized_response(training // 4, epsilon, random, priors=(0.3,))
    fresh = (random.random(training // 4) < 0.3).astype(int)
    return audit_probabilities(
        Arm(target, proxy, labels),
        Arm(unseen[0], unseen[1], fresh),
        epsilon_declared=epsilon,
    ).epsilon_lower


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(values.size)) if values.size > 1 else np.nan


def cell(found: np.ndarray) -> str:
    """Return the means of bounds of shape (audits, 2), and standard errors."""
    alone, student = found.T
    errors = standard_error(student), standard_error(student - alone)
    return f"{alone.mean():.2f} / {student.mean():.2f} +- {errors[0]:.2f}, {errors[1]:.2f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=3)
    arguments.add_argument("--rows", type=int, nargs="+", default=[5_000, 20_000])
    arguments.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    arguments.add_argument("--only", nargs="+", default=[""], help="words in a learner's name")
    given = arguments.parse_args()
    seeds = range(100, 100 + given.audits)
    columns = " | ".join(f"epsilon {epsilon:g}" for epsilon in given.epsilons)
    print(f"| learner | training rows | {columns} |")  # noqa: T201
    print("| --- | --- |" + " --- |" * len(given.epsilons))  # noqa: T201
    above = audits = 0
    for rows in given.rows:
        for name, fit in LEARNERS.items():
            if not any(words in name for words in given.only):
                continue
            cells = []
            for epsilon in track(given.epsilons, description=name, transient=True):
                found = np.array([bounds(fit, rows, epsilon, seed) for seed in seeds])
                above += int((found > epsilon).sum())
                audits += found.size
                cells.append(cell(found))
            print(f"| {name} | {rows:,} | {' | '.join(cells)} |", flush=True)  # noqa: T201
        memory = [np.array([perfect(rows, e, seed) for seed in seeds]) for e in given.epsilons]
        cells = [f"{found.mean():.2f} +- {standard_error(found):.2f}" for found in memory]
        print(f"| perfect memory | {rows:,} | {' | '.join(cells)} |", flush=True)  # noqa: T201
    print(f"\n{above} of {audits} bounds are above the truth.", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
