"""`privaudit study marginals`: secret columns, reconstructed from noisy 3-way marginals.

"Beyond the Worst Case", section 6, Figures 4 to 7. A Bayesian network is fitted to a table; tables
of 100 records are sampled from it, so that the attacker's prior is exact; their marginals are
published with noise for (epsilon, 1e-5)-DP of the secret columns; and the columns are guessed.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.study import printed, tables
from flows.study.printed import WORST_CASE, Setting
from flows.study.runner import Cell, Computed, Shown, Study, blocks
from flows.study.tables import CellRow, StudyTable
from privcore import attacks, mechanisms
from privcore.exceptions import InvalidInputError
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
RUNS, RUNS_OF_MANY, EPSILON_OF_COLUMNS, EPSILON_OF_MANY = 100, 25, 1.0, 3.0
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
COLUMN_COUNTS, KNOWN = (1, 2, 3, 5, 8, 13), 3  # the fewest columns that the attacker knows
ALONE = {"AGEP": ("SCHL", "AGEP"), "Call Type": ("ALS Unit", "Zipcode of Incident")}
"""A table's first attribute -> the column of Figure 5, and that of Figure 7."""
CONFIDENCES = (0.05, 0.5, 0.95)
STOPS, REHEARSALS = (1, 2, 5, 15), 20
_STEPS, _STEPS_OF_MANY, _RUNS_AT_ONCE, _LEVEL = 60, 20, 25, 1e-6
SETTINGS = [
    Setting("attributes of the survey", "16", f"{len(ACS)}"),
    Setting("records of a table", "100", f"{RECORDS}"),
    Setting("ways of the marginals", "3", f"{WAYS}"),
    Setting("delta", "1e-05", f"{DELTA:g}"),
    Setting("prior", "a Bayesian network", "a Bayesian network"),
]
ATTACKS = ("blind", "error", "posterior")
_NAMES = {
    "blind": "prior alone",
    "error": "RAP, stopped early (the paper's)",
    "posterior": "posterior (ours)",
    "limit_95": "any attack, 95%",
    "limit_5": "any attack, 5%",
}
_FIGURES = {
    "column": ("Figure 4: one column at epsilon 1", "names"),
    "epsilon": ("Figure 5: one column against epsilon", "epsilon"),
    "columns": ("Figure 6: several columns at epsilon 3", "columns"),
    "distance": ("Figure 7: one column at epsilon 1, right within a distance", "within"),
}
_PLACES = ("Fig 4", "Fig 7", "Fig 4 to 7")
_OTHER_PRIOR = "a bound follows from the prior, and ours is that of Massachusetts"
_NEEDS = "drawn, without a number in the text: privaudit study marginals --table calls.csv"
# Place, figure and place among its settings, what is counted, and the paper's words for it.
_QUANTITIES = (
    ("Fig 4", "column", "SEX", "error", "attack on SEX"),
    ("Fig 4", "column", "SEX", "blind", "prior of SEX"),
    ("Fig 4", "column", "SEX", "limit_95", "95% bound on SEX"),
    ("Fig 7", "distance", 1, "error", "attack on AGEP within 1"),
    ("Fig 7", "distance", 1, "limit_5", "5% bound on AGEP within 1"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A table's network, its attributes in order, and a digest of the table as it was read."""

    names: tuple[str, ...]
    network: attacks.BayesianNetwork
    digest: str


def _read_survey(uri: str) -> Survey:
    """Return the survey or the fire calls with their network.

    Age is cut into tens, as the paper has ten values of it. What a call lacks is its own value.
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
    sizes = [int(column.max()) + 1 for column in cells.T]
    network = attacks.fit_network(cells, sizes, degree=DEGREE)
    return Survey(names, network, str(frame.hash_rows(seed=0).sum()))


def study(table: str, *, scale: float) -> Study:
    """Return the study of a table; `scale` shrinks the number of runs of each setting.

    Raises:
        InvalidInputError: it has not all attributes, or the survey has missing values.
        NotEvaluableError: the file cannot be read.
    """
    survey = _read_survey(table)
    runs, few = (max(2, round(count * scale)) for count in (RUNS, RUNS_OF_MANY))
    order = [survey.names[column] for column in survey.network.order]
    by_epsilon, by_distance = ALONE[survey.names[0]]
    counts = sorted({min(many, len(order) - KNOWN) for many in COLUMN_COUNTS})
    asked = [("columns", order[:many], EPSILON_OF_MANY, few) for many in counts]
    asked += [("epsilon", [by_epsilon], epsilon, runs) for epsilon in EPSILONS]
    asked += [("column", [name], EPSILON_OF_COLUMNS, runs) for name in survey.names]
    asked += [("distance", [by_distance], EPSILON_OF_COLUMNS, runs)]
    about = {"seed": SEED, "table": survey.digest, "stops": [REHEARSALS, *STOPS]}
    cells = [
        Cell(
            f"{figure}-{len(secret)}-{secret[-1].replace('/', '_')}-{epsilon:g}-{first}",
            {"figure": figure, "secret": secret, "epsilon": str(epsilon)}
            | {"first": first, "end": end, **about},
        )
        for figure, secret, epsilon, runs in asked
        for first, end in blocks(runs, _RUNS_AT_ONCE)
    ]
    return Study(
        "Marginals",
        "Secret columns, reconstructed from noisy marginals",
        cells,
        _compute,
        survey,
        _shown,
        SETTINGS,
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def _compute(survey: Survey, cell: Cell) -> list[CellRow]:
    """Return the rows of some runs of a setting, one for each run and distance.

    Tables of the attacker's own are sampled and published as the attacked one is; the attack stops
    after as many steps as read most of them. No one looks at the attacked one's secret columns.
    """
    given = cell.parameters
    figure, names, seed = given["figure"], given["secret"], given["seed"]
    epsilon = float(given["epsilon"])
    secret = [survey.names.index(name) for name in names]
    near = range(survey.network.sizes[secret[0]]) if figure == "distance" else [0]
    last = _STEPS if len(secret) == 1 else _STEPS_OF_MANY
    # The last is where a descent has come to rest; an exact answer is worth the way to it.
    steps = (*STOPS, 5 * last if math.isinf(epsilon) else last)
    random = attacks.generator(seed, "rehearsals", *map(str, secret), f"{epsilon:g}")
    rehearsed = (_published(survey, secret, epsilon, random) for _ in range(REHEARSALS))
    right = np.sum([[table.right_after(stop) for stop in steps] for table in rehearsed], axis=0)
    about = {"figure": figure, "names": " ".join(names), "columns": len(names), "epsilon": epsilon}
    rows: list[CellRow] = []
    for run in range(given["first"], given["end"]):
        random = attacks.generator(seed, f"{figure}-{'-'.join(names)}-{epsilon:g}-{run}")
        table = _published(survey, secret, epsilon, random)
        found = _play(table, epsilon, near, steps[int(np.argmax(right))], steps[-1])
        rows += [{**about, "run": run, **row} for row in found]
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Attacked:
    """A table that was sampled, and what its marginals leave to fit."""

    truth: NDArray[np.int64]  # shape (records, secret columns)
    blind: NDArray[np.int64]  # the most probable values, of the same shape
    chance: NDArray[np.float64]  # of these, shape (records,)
    priors: dict[int, NDArray[np.float64]]  # of a secret column, shape (records, its values)
    fit: attacks.MarginalFit  # how far relaxed records are from the published marginals
    deviation: float  # of the noise on each count

    def least_error(self, steps: int) -> list[NDArray[np.float64]]:
        """Return what descends from the prior towards the published marginals."""
        return attacks.reconstruct_columns(self.fit, priors=self.priors, steps=steps)

    def right_after(self, steps: int) -> int:
        """Return how many records are then read, of the attacker's own table."""
        guess = np.column_stack([part.argmax(axis=1) for part in self.least_error(steps)])
        return int(np.all(guess == self.truth, axis=1).sum())


def _published(
    survey: Survey, secret: list[int], epsilon: float, random: np.random.Generator
) -> _Attacked:
    """Sample a table, and publish its marginals."""
    network, places = survey.network, tuple(secret)
    cells = network.sample(RECORDS, random)
    known = {place: values for place, values in enumerate(cells.T) if place not in secret}
    likely, chance = network.most_probable(known)
    priors = {column: network.posterior(known, column) for column in secret}
    chosen = mechanisms.marginals_touching(len(survey.names), ways=WAYS, secret=places)
    deviation = mechanisms.marginals_deviation(epsilon, delta=DELTA, marginals=len(chosen))
    told = mechanisms.noisy_marginals(
        cells, network.sizes, chosen, deviation=deviation, generator=random
    )
    fit = attacks.marginal_fit(cells, network.sizes, secret=places, chosen=chosen, published=told)
    return _Attacked(cells[:, secret], likely[:, secret], chance, priors, fit, deviation)


def _play(
    table: _Attacked, epsilon: float, near: Iterable[int], stop: int, last: int
) -> Iterator[CellRow]:
    """Attack the marginals of a table; yield a row for each distance.

    It has the successes within the distance, and what Theorem 3.5 allows.
    """
    posterior = error = table.least_error(stop)
    if table.deviation:
        posterior = attacks.reconstruct_columns(
            table.fit, priors=table.priors, deviation=table.deviation, steps=last
        )
    first = next(iter(table.priors.values()))
    values = np.arange(first.shape[1])
    for within in near:
        best, guesses = table.chance, {"blind": table.blind}
        close = (np.abs(values[:, np.newaxis] - values) <= within).astype(np.float64)
        if within:
            # Only one column is guessed to a distance.
            best = np.asarray(reconstruction_prior(first, distances=1.0 - close, within=0))
            guesses["blind"] = np.argmax(first @ close, axis=1)[:, np.newaxis]
        for attack, parts in (("error", error), ("posterior", posterior)):
            # The attack that knows the prior to the end also knows what counts as success.
            score = [parts[0] @ close] if within and attack == "posterior" else parts
            guesses[attack] = np.column_stack([np.argmax(part, axis=1) for part in score])
        count = success_count(best, epsilon=epsilon, delta=DELTA)
        limits = {
            f"limit_{round(100 * confidence)}": count.limit(significance=1.0 - confidence)
            for confidence in CONFIDENCES
        }
        right = {
            attack: int(np.all(np.abs(guess - table.truth) <= within, axis=1).sum())
            for attack, guess in guesses.items()
        }
        yield {"within": within, "stop": stop, "prior": float(best.sum()), **right, **limits}


def _shown(survey: Survey, found: Computed) -> Shown:
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
    errors = {f"error_of_{name}": pl.col(name).std() / pl.len().sqrt() for name in ATTACKS}
    found = (
        runs.filter(figure=figure)
        .group_by(settings, maintain_order=True)
        .agg(pl.len().alias("runs"), pl.exclude("run").mean(), **errors)
    )
    return found.sort("limit_95" if key == "names" else key).to_dicts()


def _figure_table(figure: str, found: list[CellRow]) -> StudyTable:
    title, key = _FIGURES[figure]
    columns = [f"{key} {{{key}{'' if key == 'names' else ':g'}}} | expected blind {{prior:.1f}}"]
    columns += [f"{_NAMES[name]} {{{name}:.1f}} ± {{error_of_{name}:.1f}}" for name in ATTACKS]
    columns += [f"limit, {each:.0%} {{limit_{round(100 * each)}:.0f}}" for each in CONFIDENCES]
    about = f"{title}: records of {RECORDS} that are read, mean ± standard error"
    return tables.table_of(about, found, " | ".join(columns), text=("names",))


def beside(figures: dict[str, list[CellRow]]) -> list[printed.Ours]:
    """Return the printed numbers of section 6 beside ours, on the paper's columns.

    The paper's attack minimises the error; what our posterior reads is no reproduction of it.
    """
    rows = []
    for place, figure, of, name, quantity in _QUANTITIES:
        (row,) = (row for row in figures[figure] if row[_FIGURES[figure][1]] == of)
        about: CellRow = {"place": place, "quantity": quantity, "value": row[name], "form": ".1f"}
        about["error"] = row.get(f"error_of_{name}", 0.0)  # a bound has none
        about["of_control"] = row["blind"] if name == "error" else None
        rows.append(about | {"remark": "" if name in ATTACKS else _OTHER_PRIOR})
    low = {row["names"] for row in figures["column"] if row["limit_95"] < 80.0}
    others = "columns but AGEP and SCHL whose 95% bound is below 80"
    many: CellRow = {"value": len(low - {"AGEP", "SCHL"}), "form": ".0f"}
    rows.append({"place": "Fig 4", "quantity": others, **many})
    return printed.beside(WORST_CASE, _PLACES, rows, missing=_NEEDS)


def _exceeding(runs: pl.DataFrame) -> str:
    """Say which attacks exceed their limits in more runs than the confidence allows.

    Each run counts once: those of Figure 7 at a distance of 1.
    """
    runs = runs.filter((pl.col("figure") != "distance") | (pl.col("within") == 1))
    most, wrong = 0, []
    for attack, confidence in itertools.product(ATTACKS, CONFIDENCES):
        above = int((runs[attack] > runs[f"limit_{round(100 * confidence)}"]).sum())
        test = binomtest(above, runs.height, 1.0 - confidence, alternative="greater")
        if test.pvalue <= _LEVEL:
            wrong.append(f"{attack} at {confidence:.0%} in {above} of {runs.height} runs")
        most = max(most, above) if confidence == CONFIDENCES[-1] else most
    if wrong:
        return f"AN ATTACK EXCEEDS THEOREM 3.5: {'; '.join(wrong)}."
    return (
        f"No attack exceeds Theorem 3.5: above its 95% limit in at most {most} of {runs.height} "
        f"runs for each attack (exact binomial tests at {_LEVEL:g})."
    )


def sentences(runs: pl.DataFrame, columns: int) -> list[str]:
    """Return what the study says in words, with its terms."""
    at_one, last = means(runs, "column"), runs.filter(figure="epsilon", epsilon=math.inf)
    posterior, error = (
        sum(row[attack] >= row["blind"] - 1.0 for row in at_one) for attack in ATTACKS[1:]
    )
    return tables.paragraphs(f"""
    A Bayesian network of degree {DEGREE} over {columns} columns; {RECORDS} records sampled for each
    run; all {WAYS}-way marginals that touch a secret column, delta {DELTA:g} under replacement of a
    record's secret columns.

    {_exceeding(runs)}

    At epsilon {EPSILON_OF_COLUMNS:g} the posterior reads at least as much as the prior alone,
    within one record, for {posterior} of {len(at_one)} columns; the squared error, which only
    starts from the prior, for {error}.

    Without noise the attack reads {float(last["error"].to_numpy().mean()):.1f} of {RECORDS}
    records' {last["names"][0]}.
    """)


def _chart(figure: str, found: list[CellRow]) -> Any:
    (title, key), values = _FIGURES[figure], printed.printed_values
    rows = [{**row, "x": f"{row[key]:{'' if key == 'names' else 'g'}}"} for row in found]
    order = [row["x"] for row in rows]
    said = [
        tables.printed_at(f"{x}", values(WORST_CASE, place)[name].middle, _NAMES[counted])
        for place, of, x, counted, name in _QUANTITIES
        if of == figure and rows[0]["names"] in ACS
    ]
    errors = {name: f"error_of_{name}" for name in ATTACKS}
    return tables.chart(
        tables.points_of(rows, "x", _NAMES, error=errors) + said,
        title,
        x=tables.Axis(None if key == "names" else key, order=order),
        y=tables.Axis(f"records of {RECORDS}", domain=(0.0, 100.0)),
        colors="grey green blue red orange",
        size=(max(300, 46 * len(order)), 240),
        marks="points" if key == "names" else "lines",
    )
