"""`privaudit study marginals`: secret columns, reconstructed from noisy 3-way marginals.

"Beyond the Worst Case", section 6, Figures 4 to 7. A Bayesian network is fitted to a table; tables
of 100 records are sampled from it, so that the attacker's prior is exact; their marginals are
published with noise for (epsilon, 1e-5)-DP of the secret columns; and the columns are guessed.
"""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study.cells import Cell, CellRow, blocks
from flows.study.marginals_shown import (
    ACS,
    CONFIDENCES,
    DEGREE,
    DELTA,
    EPSILON_OF_COLUMNS,
    RECORDS,
    SEED,
    WAYS,
    shown,
)
from flows.study.runner import Study
from privcore.attacks import (
    BayesianNetwork,
    fit_network,
    generator,
    marginal_fit,
    reconstruct_columns,
)
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import marginals_deviation, marginals_touching, noisy_marginals
from privcore.upper_bounds import reconstruction_prior, success_count
from workers.release.table import read_frame

RUNS, RUNS_OF_MANY = 100, 10
EPSILON_OF_MANY = 3.0
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
COLUMN_COUNTS = (1, 2, 3, 5, 8, 13)
BINS = 10
_MOST_VALUES = 30  # a number with more is cut into bins
_STEPS, _STEPS_OF_MANY = 60, 20
_RUNS_AT_ONCE = 25


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A table as codes, its network, and what the figures ask of it.

    Attributes:
        names: of the columns.
        numeric: which of them are numbers, so that near counts as nearly right.
        network: fitted to the table.
        digest: of the table's bytes as they were read.
    """

    names: tuple[str, ...]
    numeric: frozenset[str]
    network: BayesianNetwork
    digest: str

    @property
    def by_epsilon(self) -> str:
        """The column of Figure 5: SCHL, or else the one with the most values."""
        if "SCHL" in self.names:
            return "SCHL"
        return self.names[int(np.argmax(self.network.sizes))]

    @property
    def by_distance(self) -> str | None:
        """The column of Figure 7: AGEP, or else the first number."""
        return next((name for name in self.names if name in self.numeric), None)


def read_survey(uri: str) -> Survey:
    """Return a table with its network: the ACS attributes where it has them, else all columns.

    Age is cut into tens, as the paper has ten values of it; another number with more than 30 values
    into ten bins of equal width.

    Raises:
        InvalidInputError: the file cannot be read, has missing values, or fewer than 4 columns.
    """
    frame = read_frame(uri)
    if set(ACS) <= set(frame.columns):
        frame = frame.select(ACS)
    if frame.width < WAYS + 1 or not frame.height:
        rule = f"it has rows and at least {WAYS + 1} columns"
        raise InvalidInputError("--table", uri, rule)
    codes, numeric = [], set()
    for series in frame:
        if series.null_count():
            raise InvalidInputError("--table", series.name, "a column has no missing values")
        if series.dtype.is_numeric():
            numeric.add(series.name)
        codes.append(_codes(series))
    cells = np.column_stack(codes)
    sizes = [int(column.max()) + 1 for column in cells.T]
    digest = str(frame.hash_rows(seed=0).sum())
    network = fit_network(cells, sizes, degree=DEGREE)
    return Survey(tuple(frame.columns), frozenset(numeric), network, digest)


def study(uri: str, *, scale: float) -> Study:
    """Return the study of a table; `scale` shrinks the number of runs of each setting.

    Raises:
        InvalidInputError: no such table.
    """
    survey = read_survey(uri)
    runs, few = (max(2, round(count * scale)) for count in (RUNS, RUNS_OF_MANY))
    cells = []
    for columns in COLUMN_COUNTS:
        if columns <= len(survey.names) - WAYS:
            secret = [survey.names[column] for column in survey.network.order[:columns]]
            cells += _cells(survey, "columns", secret, EPSILON_OF_MANY, few)
    for epsilon in EPSILONS:
        cells += _cells(survey, "epsilon", [survey.by_epsilon], epsilon, runs)
    for name in survey.names:
        cells += _cells(survey, "column", [name], EPSILON_OF_COLUMNS, runs)
    if survey.by_distance is not None:
        cells += _cells(survey, "distance", [survey.by_distance], EPSILON_OF_COLUMNS, runs)
    title = "Secret columns, reconstructed from noisy marginals"
    return Study(
        "Marginals",
        title,
        cells,
        compute,
        survey,
        lambda found: shown(found.rows, survey.names, survey.by_epsilon, scale),
        scale,
    )


def compute(survey: Survey, cell: Cell) -> list[CellRow]:
    """Return the rows of some runs of a setting, one for each run and distance."""
    given = cell.parameters
    secret = tuple(survey.names.index(name) for name in given["secret"])
    epsilon = float(given["epsilon"])
    near = range(survey.network.sizes[secret[0]]) if given["figure"] == "distance" else [0]
    rows: list[CellRow] = []
    for run in range(given["first"], given["end"]):
        name = f"{given['figure']}-{'-'.join(given['secret'])}-{epsilon:g}-{run}"
        setting = {
            "figure": given["figure"],
            "names": " ".join(given["secret"]),
            "columns": len(secret),
            "epsilon": epsilon,
            "run": run,
        }
        played = _play(survey, secret, epsilon, generator(given["seed"], name))
        rows += [{**setting, "within": within, **played.row(within)} for within in near]
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    """One published table: the truth, the guesses, and the prior of the best blind guess."""

    epsilon: float
    truth: NDArray[np.int64]
    priors: list[NDArray[np.float64]]
    best: NDArray[np.float64]
    blind: NDArray[np.int64]
    relaxed: dict[str, list[NDArray[np.float64]]]

    def row(self, within: int) -> CellRow:
        """Return successes within a distance, and what Theorem 3.5 allows."""
        values = np.arange(self.priors[0].shape[1])
        near = (np.abs(values[:, np.newaxis] - values) <= within).astype(np.float64)
        best, guesses = self.best, {"blind": self.blind}
        if within:
            # Only one column is guessed to a distance.
            best = np.asarray(reconstruction_prior(self.priors[0], distances=1.0 - near, within=0))
            guesses["blind"] = np.argmax(self.priors[0] @ near, axis=1)[:, np.newaxis]
        for attack, relaxed in self.relaxed.items():
            # The attack that knows the prior to the end also knows what counts as success.
            score = [relaxed[0] @ near] if within and attack == "posterior" else relaxed
            guesses[attack] = np.column_stack([np.argmax(part, axis=1) for part in score])
        count = success_count(best, epsilon=self.epsilon, delta=DELTA)
        limits = {
            f"limit_{round(100 * confidence)}": count.limit(significance=1.0 - confidence)
            for confidence in CONFIDENCES
        }
        right = {
            attack: int(np.all(np.abs(guess - self.truth) <= within, axis=1).sum())
            for attack, guess in guesses.items()
        }
        return {"prior": float(best.sum()), **right, **limits}


def _play(
    survey: Survey, secret: tuple[int, ...], epsilon: float, random: np.random.Generator
) -> _Played:
    """Sample a table, publish its marginals, and attack them."""
    network, places = survey.network, list(secret)
    cells = network.sample(RECORDS, random)
    known = {
        column: cells[:, column] for column in range(len(survey.names)) if column not in secret
    }
    best, chance = network.most_probable(known)
    priors = {column: network.posterior(known, column) for column in secret}
    chosen = marginals_touching(len(survey.names), ways=WAYS, secret=secret)
    deviation = marginals_deviation(epsilon, delta=DELTA, marginals=len(chosen))
    published = noisy_marginals(cells, network.sizes, chosen, deviation=deviation, generator=random)
    fit = marginal_fit(cells, network.sizes, secret=secret, chosen=chosen, published=published)
    steps = _STEPS if len(secret) == 1 else _STEPS_OF_MANY
    if not deviation:
        steps *= 5  # an exact answer is worth the way to it
    error = reconstruct_columns(fit, priors=priors, steps=steps)
    posterior = error
    if deviation:
        posterior = reconstruct_columns(fit, priors=priors, deviation=deviation, steps=steps)
    relaxed = {"error": error, "posterior": posterior}
    truth, blind = cells[:, places], best[:, places]
    return _Played(epsilon, truth, list(priors.values()), chance, blind, relaxed)


def _cells(survey: Survey, figure: str, secret: list[str], epsilon: float, runs: int) -> list[Cell]:
    """Return the parts of one setting: runs of one column are many, and short."""
    label = secret[0] if len(secret) == 1 else f"{len(secret)}-columns"
    return [
        Cell(
            f"{figure}-{label}-{epsilon:g}-{first}".replace("/", "_"),
            {
                "figure": figure,
                "secret": secret,
                "epsilon": str(epsilon),
                "first": first,
                "end": end,
                "seed": SEED,
                "table": survey.digest,
            },
        )
        for first, end in blocks(runs, _RUNS_AT_ONCE if len(secret) == 1 else 1)
    ]


def _codes(series: pl.Series) -> NDArray[np.int64]:
    """Return a column's values as whole numbers from 0."""
    if series.dtype.is_numeric() and series.n_unique() > _MOST_VALUES:
        values = series.cast(pl.Float64).to_numpy()
        if series.name == "AGEP":
            return np.asarray(values // 10.0, dtype=np.int64)
        edges = np.linspace(values.min(), values.max(), BINS + 1)[1:-1]
        return np.asarray(np.searchsorted(edges, values, side="right"), dtype=np.int64)
    kept = series if series.dtype.is_numeric() else series.cast(pl.String)
    _, codes = np.unique(kept.to_numpy(), return_inverse=True)
    return np.asarray(codes, dtype=np.int64)
