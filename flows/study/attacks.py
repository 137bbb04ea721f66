"""Attacks of "Observational Auditing of Privacy" on one target, each beside its control.

Label inference, calibrated loss and RMIA read the same target and the same reference, the proxy.
As many records play as the test set has at most ("the number of canaries is set to the size of the
test sets", section 6.2). The control is the same attack on as many records that the target never
saw: what it reads is how wrong the proxy is, or chance, and no leak.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study import tables
from flows.study.printed import GAME, Ours, beside, printed_values
from flows.study.runner import Shown
from flows.study.tables import CellRow, Point, StudyTable, points_of, printed_at
from privcore import attacks
from privcore.attacks import Tally, generator, stream_key
from privcore.guarantees import ApproxDP, Gaussian
from privcore.lower_bounds import Claim, Grid, best_epsilon, choice_epsilon_lower
from privcore.lower_bounds.claims import guess_counts
from privcore.lower_bounds.game_evidence import PAPER_FRACTIONS

SEED, POWER, REPETITIONS, DELTA, SIGNIFICANCE = 715, 2.0, 100, 1e-5, 0.05
FIXED = 0.01
"""The guess fraction of the paper's Table 6, which is not chosen by its outcome."""
RMIA_SLOPE = 0.3
"""RMIA's slope a: with a = 1 and gamma 1 it has the order of calibrated loss."""
RMIA_GAMMAS = (1.0, 2.0)
LABELS, PAIRS, LOSS = "label inference", "label inference, on as many as pairs", "calibrated loss"
RMIAS = tuple(f"RMIA, gamma {gamma:g}" for gamma in RMIA_GAMMAS)
ATTACKS = (LABELS, PAIRS, LOSS, *RMIAS)
GAME_SETTINGS = [SEED, POWER, REPETITIONS, DELTA, SIGNIFICANCE, RMIA_SLOPE, RMIA_GAMMAS]
"""What a cell's identity has of the attacks."""
_PAIRED = 0.4  # of the records; two of these shares and a population are the test set
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Both models' answers on some records.

    Attributes:
        target: shape (records, classes).
        proxy: shape (records, classes).
        labels: shape (records,), class indices.
    """

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.labels)

    @property
    def accuracy(self) -> float:
        """Share of records whose label the target finds most probable."""
        return float((self.target.argmax(axis=1) == self.labels).mean())

    @property
    def log_loss(self) -> tuple[float, float]:
        """Mean log-loss of the target, in nats, and its standard error."""
        losses = -np.log(self.own()[0])
        return float(losses.mean()), float(losses.std() / math.sqrt(self.records))

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return the answers on some of the records."""
        return Answers(self.target[rows], self.proxy[rows], self.labels[rows])

    def own(self) -> list[NDArray[np.float64]]:
        """Return both models' probability of each record's own label, shape (records,)."""
        places = np.arange(self.records), self.labels
        return [np.clip(said[places], _SMALLEST, 1.0) for said in (self.target, self.proxy)]


def attacked(train: Answers, test: Answers, *, canaries: int, stream: str) -> list[CellRow]:
    """Return a row for each attack, with its figures and those of its control.

    At most `canaries` of the target's training records play, and as many of the `test` records,
    which neither model saw; `stream` names the random draws of who plays.

    Columns, and the same with `control_` before them: `epsilon_paper`, mean of the best of 1..100%
    guesses (Gaussian family, not corrected), `epsilon_fixed`, mean at 1%, both with `_deviation`
    over the repetitions; `epsilon_lower`, the corrected bound. `ceiling` and `ceiling_fixed` are
    the figures of an attack that is always right.
    """
    return [
        {
            "attack": name,
            "records": tally.records,
            **_figures(tally),
            **{f"control_{key}": value for key, value in _figures(control).items()},
            "ceiling": figure_ceiling(tally.records),
            "ceiling_fixed": figure_ceiling(tally.records, (FIXED,)),
        }
        for name, tally, control in _played(train, test, canaries, stream)
    ]


def model_rows(
    mechanism: str, epsilon: float, arms: Iterable[Answers], *, canaries: int, **scores: float
) -> list[CellRow]:
    """Return a row for each attack on one model; `scores` are of its predictions."""
    train, test = arms
    about = {"mechanism": mechanism, "epsilon": f"{epsilon:g}", "trained_on": train.records}
    about |= {**scores, "test_records": test.records}
    stream = f"{mechanism}-{epsilon:g}"
    return [{**about, **row} for row in attacked(train, test, canaries=canaries, stream=stream)]


def _played(
    train: Answers, test: Answers, canaries: int, stream: str
) -> Iterator[tuple[str, Tally, Tally]]:
    """Yield each attack's tally and its control's, of equally many records or pairs."""
    random = generator(SEED, stream, "who plays")
    many = min(canaries, train.records, test.records)
    members, fresh = (part.take(random.permutation(part.records)[:many]) for part in (train, test))
    pairs = round(_PAIRED * many)
    few = members.take(np.arange(pairs))
    stand_ins, outsiders, population = (
        fresh.take(rows) for rows in np.split(np.arange(many), [pairs, 2 * pairs])
    )
    yield LABELS, _labels(members), _labels(fresh)
    yield PAIRS, _labels(few), _labels(stand_ins)
    for name, score in _membership_scores(population):
        key, others = stream_key(SEED, "members", name), score(outsiders)
        own, control = (
            attacks.membership_inference(score(part), others, repetitions=REPETITIONS, key=key)
            for part in (few, stand_ins)
        )
        yield name, own, control


def _labels(answers: Answers) -> Tally:
    return attacks.label_inference(
        answers.target,
        answers.proxy,
        answers.labels,
        score=attacks.PaperScore(power=POWER),
        repetitions=REPETITIONS,
        key=stream_key(SEED, "labels", answers.records),
    )


_Scored = Callable[[Answers], NDArray[np.float64]]


def _membership_scores(population: Answers) -> Iterator[tuple[str, _Scored]]:
    """Yield each membership attack's score, less its median on the population.

    What the target does better or worse on all records, members or not, is no membership.
    """
    target, reference = population.own()

    def centred(score: _Scored) -> _Scored:
        middle = float(np.median(score(population)))
        return lambda part: score(part) - middle

    def rmia(gamma: float) -> _Scored:
        score = attacks.RmiaScore(dominance=gamma, slope=RMIA_SLOPE)
        return lambda part: score(
            *part.own(), population_target=target, population_reference=reference
        )

    loss = attacks.CalibratedLossScore()
    yield LOSS, centred(lambda part: loss(*(-np.log(chances) for chances in part.own())))
    for name, gamma in zip(RMIAS, RMIA_GAMMAS, strict=True):
        yield name, centred(rmia(gamma))


def _figures(tally: Tally) -> CellRow:
    """Return the paper's figures (Gaussian, not corrected) and the corrected bound."""
    random = generator(SEED, "border")
    guesses = guess_counts(tally.records, PAPER_FRACTIONS)
    correct = tally.most_confident(guesses, random)
    guesses = np.broadcast_to(guesses, correct.shape)
    fixed = PAPER_FRACTIONS.index(FIXED)
    best, at_one = (
        _best(tally.records, guesses[:, part], correct[:, part])
        for part in (slice(None), slice(fixed, fixed + 1))
    )
    claim = Claim(family=ApproxDP(), delta=DELTA, significance=SIGNIFICANCE)
    return {
        "epsilon_paper": float(best.mean()),
        "epsilon_paper_deviation": float(best.std()),
        "epsilon_fixed": float(at_one.mean()),
        "epsilon_fixed_deviation": float(at_one.std()),
        "epsilon_lower": choice_epsilon_lower(tally, claim=claim, choice=Grid(), random=random),
    }


def _best(
    records: int, guesses: NDArray[np.int64], correct: NDArray[np.int64]
) -> NDArray[np.float64]:
    return best_epsilon(
        records, guesses, correct, family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
    )


def figure_ceiling(records: int, fractions: tuple[float, ...] = PAPER_FRACTIONS) -> float:
    """Return the paper's figure of an attack on so many records that is always right."""
    guesses = guess_counts(records, fractions)[np.newaxis]
    return float(_best(records, guesses, guesses)[0])


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A printed table of models' values, our column, and that of its deviation or error.

    `unit` is what ours are multiplied by.
    """

    place: str
    column: str = "epsilon_paper"
    error: str = "epsilon_paper_deviation"
    repetitions: int = REPETITIONS
    form: str = ".2f"
    unit: float = 1.0

    def ours(self, rows: Iterable[CellRow]) -> list[Ours]:
        """Return our values of every model that the paper prints."""
        found = [
            {
                "place": self.place,
                "quantity": MODEL.format(**row),
                "value": self.unit * row[self.column],
                "error": self.unit * row[self.error],
                "of_control": row.get(f"control_{self.column}"),
            }
            for row in labels_of(rows)
        ]
        return beside(GAME, [self.place], found, form=self.form, repetitions=self.repetitions)


MODEL = "{mechanism} at {epsilon}"
"""What the paper's tables call a model."""


def labels_of(rows: Iterable[CellRow]) -> list[CellRow]:
    """Return the rows of label inference, one for each model."""
    return [row for row in rows if row["attack"] == LABELS]


def beside_print(rows: Iterable[CellRow], *printed: ModelTable) -> list[Ours]:
    """Return printed tables of models beside ours, and what the paper says of its attacks."""
    by_model: dict[str, dict[str, CellRow]] = {}
    for row in rows:
        by_model.setdefault(MODEL.format(**row), {})[row["attack"]] = row
    similar, above = "label inference less calibrated loss", "RMIA less the larger of both others"
    compared = [("Fig 1", similar, name, own[PAIRS], own[LOSS]) for name, own in by_model.items()]
    for name, own in by_model.items():
        larger = max(own[PAIRS], own[LOSS], key=lambda row: float(row["epsilon_paper"]))
        gammas = ((f"{name}, {rmia.split(', ')[1]}", own[rmia]) for rmia in RMIAS)
        if name.endswith(" at inf"):
            compared += [("Fig 5", above, of, one, larger) for of, one in gammas]
    said = [
        {
            "place": place,
            "quantity": quantity,
            "of": of,
            "value": float(one["epsilon_paper"] - other["epsilon_paper"]),
            "error": math.hypot(one["epsilon_paper_deviation"], other["epsilon_paper_deviation"]),
            "of_control": float(one["control_epsilon_paper"] - other["control_epsilon_paper"]),
        }
        for place, quantity, of, one, other in compared
    ]
    found = [ours for table in printed for ours in table.ours(rows)]
    return found + beside(GAME, ["Fig 1", "Fig 5"], said, repetitions=REPETITIONS)


def attacks_table(rows: Sequence[CellRow], *, model: str = MODEL) -> StudyTable:
    """Return every attack on every model: figure, its control's, and the corrected bounds."""
    cell = (
        "{epsilon_paper:.2f} ± {epsilon_paper_deviation:.2f} ({control_epsilon_paper:.2f}) / "
        "{epsilon_lower:.2f} ({control_epsilon_lower:.2f})"
    )
    found: dict[str, CellRow] = {}
    for row in rows:
        own = found.setdefault(model.format(**row), {"model": model.format(**row)})
        own[row["attack"]] = cell.format(**row)
        if row["attack"] in (LABELS, PAIRS):
            own["records" if row["attack"] == LABELS else "pairs"] = f"{row['records']:,}"
    return tables.table_of(
        "Attacks: figure ± deviation (control) / corrected bound (control)",
        found.values(),
        tables.values_of(("model", "records", "pairs", *ATTACKS)),
        text=("model",),
    )


def game_shown(
    rows: Sequence[CellRow],
    said: Sequence[str],
    printed: Mapping[str, ModelTable],
    *,
    source: str,
    data: Mapping[str, pl.DataFrame],
    colors: str,
) -> Shown:
    """Return what there is to show of all attacks on models of one source.

    Each panel, by its title, draws a printed table beside label inference's values.
    """
    points: list[Point] = []
    for panel, table in printed.items():
        series, error = {table.column: "{mechanism}"}, {table.column: table.error}
        points += points_of(labels_of(rows), "epsilon", series, error=error, panel=panel)
    for panel, table in printed.items():
        for quantity, each in printed_values(GAME, table.place).items():
            mechanism, _, epsilon = quantity.partition(" at ")
            points.append(printed_at(epsilon, each.middle * (1.0 / table.unit), mechanism, panel))
    along = tables.Axis("declared epsilon", order=sorted({each["x"] for each in points}, key=float))
    compared = [row for row in rows if row["attack"] != LABELS]
    value, error = {"epsilon_paper": "{attack}"}, {"epsilon_paper": "epsilon_paper_deviation"}
    read = points_of(compared, "epsilon", value, error=error, panel="{mechanism}")
    places = [table.place.removeprefix("Table ") for table in printed.values()]
    figures = {
        f"tables_{'_and_'.join(places)}": tables.chart(
            points,
            f"Tables {', '.join(places)}, on {source}",
            x=along,
            y=tables.Axis(None, own_scales=True),
            colors=colors,
            size=(240, 220),
        ),
        "figures_1_and_5": tables.chart(
            read,
            f"Figures 1 and 5, on {source}",
            x=along,
            y=tables.Axis("figure ± deviation"),
            colors="orange blue green pink",
            size=(220, 180),
        ),
    }
    ours = beside_print(rows, *printed.values())
    return Shown([*said, *PROTOCOL], [attacks_table(rows)], ours=ours, data=data, figures=figures)


PROTOCOL = tables.paragraphs(f"""
    Figures are the paper's (section 6.2): score exponent {POWER:g}, Gaussian family, delta
    {DELTA:g}, 95%, the mean of the best of 1..100% guesses over {REPETITIONS} repetitions ±
    standard deviation, not corrected for the choice among 100. Bounds are corrected, and take the
    proxy's probabilities as true. The control is the same attack on as
    many records that the target never saw. A figure near its control says nothing of a leak.

    RMIA has slope a = {RMIA_SLOPE:g} and gamma 1 or 2, offline, with the proxy as its one reference
    model; the paper states neither. (With a = 1 and gamma 1 it orders records as calibrated loss
    does.) Membership speaks of a whole record, which no mechanism for labels promises to hide. It
    plays pairs of a training and a test record; other test records are its population.
""")
"""What the figures of all three studies are."""
