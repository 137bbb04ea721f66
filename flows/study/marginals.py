"""`privaudit study marginals`: secret columns, reconstructed from noisy 3-way marginals.

"Beyond the Worst Case", section 6, Figures 4 to 7. A Bayesian network is fitted to a table; tables
of 100 records are sampled from it, so that the attacker's prior is exact; their marginals are
published with noise for (epsilon, 1e-5)-DP of the secret columns; and the columns are guessed.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.report.study_page import StudyTable
from flows.study.printed import WORST_CASE, Ours, Setting, printed_values
from flows.study.runner import Cell, Computed, Shown, Study, blocks
from flows.study.tables import (
    Axis,
    CellRow,
    Show,
    chart,
    paragraphs,
    points_of,
    printed_at,
    table_of,
)
from privcore.attacks import (
    BayesianNetwork,
    MarginalFit,
    fit_network,
    generator,
    marginal_fit,
    reconstruct_columns,
)
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import marginals_deviation, marginals_touching, noisy_marginals
from privcore.upper_bounds import reconstruction_prior, success_count
from workers.sources.tables.table_files import read_rows

ACS = (
    "AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR",
    "DEYE", "DREM", "SEX", "RAC1P",
)  # fmt: skip
"""The 16 attributes of the paper's American Community Survey."""
FIRE = (
    "Call Type", "Call Final Disposition", "City", "Zipcode of Incident", "Battalion",
    "Station Area", "Priority", "ALS Unit", "Call Type Group", "Number of Alarms",
)  # fmt: skip
"""The 10 attributes of San Francisco's fire calls, as the code that the paper cites names them."""
SEED, RECORDS, WAYS, DELTA, DEGREE = 62, 100, 3, 1e-5, 2
EPSILON_OF_COLUMNS = 1.0
CONFIDENCES = (0.05, 0.5, 0.95)
ATTACKS = ("blind", "error", "posterior")
_LEVEL = 1e-6
SETTINGS = [
    Setting("attributes of the survey", "16", f"{len(ACS)}"),
    Setting("records of a table", "100", f"{RECORDS}"),
    Setting("ways of the marginals", "3", f"{WAYS}"),
    Setting("delta", "1e-05", f"{DELTA:g}"),
    Setting("prior", "a Bayesian network", "a Bayesian network"),
]
_FIGURES = {
    "column": ("Figure 4: one column at epsilon 1", "names"),
    "epsilon": ("Figure 5: one column against epsilon", "epsilon"),
    "columns": ("Figure 6: several columns at epsilon 3", "columns"),
    "distance": ("Figure 7: one column at epsilon 1, right within a distance", "within"),
}
_NAMES = {
    "blind": "prior alone",
    "error": "RAP, stopped early (the paper's)",
    "posterior": "posterior (ours)",
    "limit_95": "any attack, 95%",
    "limit_5": "any attack, 5%",
}
_OTHER_PRIOR = "a bound follows from the prior, and ours is that of Massachusetts"
# Place, figure and place among its settings, what is counted, and the paper's words for it.
_SEX, _AGE = ("column", "SEX"), ("distance", 1)
_PRINTED = (
    ("Fig 4", _SEX, "error", "attack on SEX"),
    ("Fig 4", _SEX, "blind", "prior of SEX"),
    ("Fig 4", _SEX, "limit_95", "95% bound on SEX"),
    ("Fig 7", _AGE, "error", "attack on AGEP within 1"),
    ("Fig 7", _AGE, "limit_5", "5% bound on AGEP within 1"),
)
RUNS, RUNS_OF_MANY = 100, 10
EPSILON_OF_MANY = 3.0
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
COLUMN_COUNTS = (1, 2, 3, 5, 8, 13)
ALONE = {"AGEP": ("SCHL", "AGEP"), "Call Type": ("ALS Unit", "Zipcode of Incident")}
"""A table's first attribute -> the column of Figure 5, and that of Figure 7."""
KNOWN = 3
"""The fewest columns that the attacker knows."""
STOPS, REHEARSALS = (1, 2, 5, 15), 20
_STEPS, _STEPS_OF_MANY = 60, 20
_RUNS_AT_ONCE = 25


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A table's network, its attributes in order, and a digest of the table as it was read."""

    names: tuple[str, ...]
    network: BayesianNetwork
    digest: str


def read_survey(uri: str) -> Survey:
    """Return the survey or the fire calls with a network.

    Age is cut into tens, as the paper has ten values of it. What a call lacks is its own value.

    Raises:
        InvalidInputError: it has not all attributes, or the survey has missing values.
        NotEvaluableError: the file cannot be read.
    """
    frame = read_rows(uri)
    names = FIRE if set(FIRE) <= set(frame.columns) else ACS
    if not frame.height or not set(names) <= set(frame.columns):
        rule = f"it has rows and the survey's columns {', '.join(ACS)}, or {', '.join(FIRE)}"
        raise InvalidInputError("--table", uri, rule)
    frame, codes = frame.select(names), []
    if names == FIRE:
        frame = frame.cast(pl.String).fill_null("")
    for series in frame:
        if series.null_count():
            raise InvalidInputError("--table", series.name, "a column has no missing values")
        kept = series if series.dtype.is_numeric() else series.cast(pl.String)
        tens = series.name == "AGEP"
        codes.append(kept.to_numpy() // 10 if tens else np.unique(kept, return_inverse=True)[1])
    cells = np.column_stack(codes).astype(np.int64)
    network = fit_network(cells, [int(column.max()) + 1 for column in cells.T], degree=DEGREE)
    return Survey(tuple(frame.columns), network, str(frame.hash_rows(seed=0).sum()))


def study(table: str, *, scale: float) -> Study:
    """Return the study of a table; `scale` shrinks the number of runs of each setting.

    Raises:
        InvalidInputError: no such table.
    """
    survey = read_survey(table)
    runs, few = (max(2, round(count * scale)) for count in (RUNS, RUNS_OF_MANY))
    order = [survey.names[column] for column in survey.network.order]
    by_epsilon, by_distance = ALONE[survey.names[0]]
    counts = sorted({min(many, len(order) - KNOWN) for many in COLUMN_COUNTS})
    asked = [("columns", order[:many], EPSILON_OF_MANY, few) for many in counts]
    asked += [("epsilon", [by_epsilon], epsilon, runs) for epsilon in EPSILONS]
    asked += [("column", [name], EPSILON_OF_COLUMNS, runs) for name in survey.names]
    asked += [("distance", [by_distance], EPSILON_OF_COLUMNS, runs)]
    return Study(
        "Marginals",
        "Secret columns, reconstructed from noisy marginals",
        [cell for setting in asked for cell in _cells(survey, *setting)],
        compute,
        survey,
        shown,
        SETTINGS,
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def compute(survey: Survey, cell: Cell) -> list[CellRow]:
    """Return the rows of some runs of a setting, one for each run and distance."""
    given = cell.parameters
    secret = tuple(survey.names.index(name) for name in given["secret"])
    epsilon = float(given["epsilon"])
    near = range(survey.network.sizes[secret[0]]) if given["figure"] == "distance" else [0]
    stop = _stop_at(survey, secret, epsilon, _stops(secret, epsilon), given["seed"])
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
        random = generator(given["seed"], name)
        rows += [{**setting, **row} for row in _play(survey, secret, epsilon, near, stop, random)]
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Attacked:
    """A table that was sampled, and what its marginals leave to fit.

    Attributes:
        cells: shape (records, columns).
        blind: shape (records, secret columns), the most probable values.
        chance: shape (records,), of these.
        priors: secret column -> shape (records, its values).
        fit: how far relaxed records are from the published marginals.
        deviation: of the noise on each count.
    """

    cells: NDArray[np.int64]
    blind: NDArray[np.int64]
    chance: NDArray[np.float64]
    priors: dict[int, NDArray[np.float64]]
    fit: MarginalFit
    deviation: float

    def least_error(self, steps: int) -> list[NDArray[np.float64]]:
        """Return what descends from the prior towards the published marginals."""
        return reconstruct_columns(self.fit, priors=self.priors, steps=steps)


def _published(
    survey: Survey, secret: tuple[int, ...], epsilon: float, random: np.random.Generator
) -> _Attacked:
    """Sample a table, and publish its marginals."""
    network = survey.network
    cells = network.sample(RECORDS, random)
    known = {
        column: cells[:, column] for column in range(len(survey.names)) if column not in secret
    }
    likely, chance = network.most_probable(known)
    priors = {column: network.posterior(known, column) for column in secret}
    chosen = marginals_touching(len(survey.names), ways=WAYS, secret=secret)
    deviation = marginals_deviation(epsilon, delta=DELTA, marginals=len(chosen))
    published = noisy_marginals(cells, network.sizes, chosen, deviation=deviation, generator=random)
    fit = marginal_fit(cells, network.sizes, secret=secret, chosen=chosen, published=published)
    return _Attacked(cells, likely[:, list(secret)], chance, priors, fit, deviation)


def _stop_at(
    survey: Survey, secret: tuple[int, ...], epsilon: float, stops: Sequence[int], seed: int
) -> int:
    """Return after how many steps to stop: after those that read most of the attacker's own tables.

    These are sampled from the prior and published as the attacked one is, whose secret columns
    nothing here looks at.
    """
    random = generator(seed, "rehearsals", *(str(column) for column in secret), f"{epsilon:g}")
    right = np.zeros(len(stops))
    for _ in range(REHEARSALS):
        table = _published(survey, secret, epsilon, random)
        truth = table.cells[:, list(secret)]
        for place, stop in enumerate(stops):
            guess = np.column_stack([part.argmax(axis=1) for part in table.least_error(stop)])
            right[place] += np.all(guess == truth, axis=1).sum()
    return stops[int(np.argmax(right))]


def _play(
    survey: Survey,
    secret: tuple[int, ...],
    epsilon: float,
    near: Iterable[int],
    stop: int,
    random: np.random.Generator,
) -> Iterator[CellRow]:
    """Attack the marginals of a table; yield a row for each distance.

    It has the successes within the distance, and what Theorem 3.5 allows.
    """
    network, places = survey.network, list(secret)
    table = _published(survey, secret, epsilon, random)
    cells, chance, priors, deviation = table.cells, table.chance, table.priors, table.deviation
    posterior = error = table.least_error(stop)
    if deviation:
        posterior = reconstruct_columns(
            table.fit, priors=priors, deviation=deviation, steps=_stops(secret, epsilon)[-1]
        )
    relaxed = {"error": error, "posterior": posterior}
    for within in near:
        best, guesses = chance, {"blind": table.blind}
        (first, *_), values = priors.values(), np.arange(network.sizes[secret[0]])
        close = (np.abs(values[:, np.newaxis] - values) <= within).astype(np.float64)
        if within:
            # Only one column is guessed to a distance.
            best = np.asarray(reconstruction_prior(first, distances=1.0 - close, within=0))
            guesses["blind"] = np.argmax(first @ close, axis=1)[:, np.newaxis]
        for attack, parts in relaxed.items():
            # The attack that knows the prior to the end also knows what counts as success.
            score = [parts[0] @ close] if within and attack == "posterior" else parts
            guesses[attack] = np.column_stack([np.argmax(part, axis=1) for part in score])
        count = success_count(best, epsilon=epsilon, delta=DELTA)
        limits = {
            f"limit_{round(100 * confidence)}": count.limit(significance=1.0 - confidence)
            for confidence in CONFIDENCES
        }
        right = {
            attack: int(np.all(np.abs(guess - cells[:, places]) <= within, axis=1).sum())
            for attack, guess in guesses.items()
        }
        yield {"within": within, "stop": stop, "prior": float(best.sum()), **right, **limits}


def _stops(secret: tuple[int, ...], epsilon: float) -> tuple[int, ...]:
    """Return the numbers of steps to choose from; the last is where a descent has come to rest."""
    last = _STEPS if len(secret) == 1 else _STEPS_OF_MANY
    # An exact answer is worth the way to it.
    return (*STOPS, 5 * last if math.isinf(epsilon) else last)


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
                "stops": [REHEARSALS, *STOPS],
            },
        )
        for first, end in blocks(runs, _RUNS_AT_ONCE)
    ]


def shown(survey: Survey, found: Computed) -> Shown:
    """Return what there is to show of all runs."""
    runs = found.rows
    figures = {name: means(runs, name) for name in _FIGURES}
    return Shown(
        sentences(runs, len(survey.names)),
        [_figure_table(name, rows) for name, rows in figures.items()],
        ours=beside(figures) if survey.names == ACS else [],
        data={"marginals": runs},
        figures={f"marginals_{name}": _chart(name, rows) for name, rows in figures.items()},
    )


def means(runs: pl.DataFrame, figure: str) -> list[CellRow]:
    """Return a figure's settings in order: the mean of every count over their runs.

    `error_of` each attack is the standard error of its mean.
    """
    key = _FIGURES[figure][1]
    settings = ["figure", "names", "columns", "epsilon", "within"]
    found = (
        runs.filter(figure=figure)
        .group_by(settings, maintain_order=True)
        .agg(
            pl.len().alias("runs"),
            pl.exclude("run").mean(),
            *(
                (pl.col(attack).std() / pl.len().sqrt()).alias(f"error_of_{attack}")
                for attack in ATTACKS
            ),
        )
    )
    return found.sort("limit_95" if key == "names" else key).to_dicts()


def _figure_table(figure: str, found: list[CellRow]) -> StudyTable:
    title, key = _FIGURES[figure]
    columns: dict[str, Show] = {
        key: f"{{{key}}}" if key == "names" else f"{{{key}:g}}",
        "expected blind": "{prior:.1f}",
    }
    for attack in ATTACKS:
        columns[_NAMES[attack]] = f"{{{attack}:.1f}} ± {{error_of_{attack}:.1f}}"
    for share in CONFIDENCES:
        columns[f"limit, {share:.0%}"] = f"{{limit_{round(100 * share)}:.0f}}"
    about = f"{title}: records of {RECORDS} that are read, mean ± standard error"
    return table_of(about, found, columns, text=("names",))


def beside(figures: dict[str, list[CellRow]]) -> list[Ours]:
    """Return the printed numbers of section 6 beside ours, on the paper's columns.

    The paper's attack minimises the error; what our posterior reads is no reproduction of it.
    """
    low = [row["names"] for row in figures["column"] if row["limit_95"] < 80.0]
    found = []
    for place, (figure, value), name, quantity in _PRINTED:
        (row,) = (row for row in figures[figure] if row[_FIGURES[figure][1]] == value)
        attack = name in ATTACKS
        found.append(
            Ours(
                *(WORST_CASE, place, quantity, row[name]),
                error=row[f"error_of_{name}"] if attack else 0.0,
                control=f"{row['blind']:.1f}" if name == "error" else "",
                form=".1f",
                remark="" if attack else _OTHER_PRIOR,
            )
        )
    others = "columns but AGEP and SCHL whose 95% bound is below 80"
    many = float(len(set(low) - {"AGEP", "SCHL"}))
    needs = "drawn, without a number in the text: privaudit study marginals --table calls.csv"
    return [
        *found,
        Ours(WORST_CASE, "Fig 4", others, many, form=".0f"),
        Ours(WORST_CASE, "Fig 4 to 7", "FIRE", None, remark=needs),
    ]


def exceeding(runs: pl.DataFrame) -> list[CellRow]:
    """Return for each attack and confidence how many runs exceeded the limit, and of how many.

    Each run counts once: those of Figure 7 at a distance of 1. `p_value` is of the hypothesis that
    no more exceed it than the confidence allows.
    """
    runs = runs.filter((pl.col("figure") != "distance") | (pl.col("within") == 1))
    rows = []
    for attack, confidence in itertools.product(ATTACKS, CONFIDENCES):
        above = int((runs[attack] > runs[f"limit_{round(100 * confidence)}"]).sum())
        test = binomtest(above, runs.height, 1.0 - confidence, alternative="greater")
        row = {"attack": attack, "confidence": confidence, "runs": runs.height}
        rows.append({**row, "exceeded": above, "p_value": float(test.pvalue)})
    return rows


def sentences(runs: pl.DataFrame, columns: int) -> list[str]:
    """Return what the study says in words, with its terms."""
    above = exceeding(runs)
    wrong = [
        f"{row['attack']} at {row['confidence']:.0%} in {row['exceeded']} of {row['runs']} runs"
        for row in above
        if row["p_value"] <= _LEVEL
    ]
    most = max(row["exceeded"] for row in above if row["confidence"] == 0.95)
    played = above[0]["runs"]
    at_one = means(runs, "column")
    better = {
        attack: sum(row[attack] >= row["blind"] - 1.0 for row in at_one) for attack in ATTACKS
    }
    last = runs.filter(figure="epsilon", epsilon=math.inf)
    read, column = float(last["error"].to_numpy().mean()), last["names"][0]
    bound = (
        f"No attack exceeds Theorem 3.5: above its 95% limit in at most {most} of {played} runs "
        f"for each attack (exact binomial test at {_LEVEL:g}, and at 5% and 50% too)."
        if not wrong
        else f"AN ATTACK EXCEEDS THEOREM 3.5: {'; '.join(wrong)}."
    )
    return paragraphs(f"""
    A Bayesian network of degree {DEGREE} over {columns} columns; {RECORDS} records sampled for each
    run; all {WAYS}-way marginals that touch a secret column, delta {DELTA:g} under replacement of a
    record's secret columns.

    {bound}

    At epsilon {EPSILON_OF_COLUMNS:g} the posterior reads at least as much as the prior alone,
    within one record, for {better["posterior"]} of {len(at_one)} columns; the squared error, which
    only starts from the prior, for {better["error"]}.

    Without noise the attack reads {read:.1f} of {RECORDS} records' {column}; records that share
    all known columns cannot be told apart.
    """)


def _chart(figure: str, found: list[CellRow]) -> Any:
    title, key = _FIGURES[figure]
    rows = [{**row, "x": _label(row[key])} for row in found]
    order = [row["x"] for row in rows]
    errors = {name: f"error_of_{name}" for name in ATTACKS}
    printed = [
        printed_at(_label(value), printed_values(WORST_CASE, place)[quantity].middle, _NAMES[name])
        for place, (of, value), name, quantity in _PRINTED
        if of == figure and rows[0]["names"] in ACS
    ]
    return chart(
        points_of(rows, "x", _NAMES, error=errors) + printed,
        title,
        x=Axis(None if key == "names" else key, order=order),
        y=Axis(f"records of {RECORDS}", domain=(0.0, 100.0)),
        colors="grey green blue red orange",
        size=(max(300, 46 * len(order)), 240),
        marks="points" if key == "names" else "lines",
    )


def _label(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}"
