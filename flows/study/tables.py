"""Tables and drawings of studies, and what papers print beside them."""

import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl
import vl_convert
from numpy.typing import NDArray

from flows.report.study_page import StudyTable
from privcore.attacks import (
    CalibratedLossScore,
    PaperScore,
    RmiaScore,
    Tally,
    generator,
    label_inference,
    membership_inference,
    stream_key,
)
from privcore.guarantees import ApproxDP, Gaussian
from privcore.lower_bounds import Claim, Grid, best_epsilon, choice_epsilon_lower
from privcore.lower_bounds.claims import guess_counts
from privcore.lower_bounds.game_evidence import PAPER_FRACTIONS, paper_epsilons
from privcore.upper_bounds import Published
from workers.plan import Plan

# Colours that people with any colour vision tell apart (Okabe and Ito).
COLORS = {
    "blue": "#0072b2", "orange": "#e69f00", "green": "#009e73", "red": "#d55e00",
    "grey": "#767676", "pink": "#cc79a7", "sky": "#56b4e9",
}  # fmt: skip
_FONT = "Helvetica, Arial, sans-serif"
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3])
_PRINTED = "printed in the paper"

Point = dict[str, Any]
"""One value of a drawing.

`x`, `y` and `series`; where there are panels, `panel`; where the value is uncertain, `low` and
`high`; where a paper prints it, `printed` is true; where lines differ in their dashes, `style`.
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a drawing.

    Attributes:
        title: beside it.
        powers: makes it logarithmic, with a label at each of these powers of ten.
        order: makes it one of categories, in this order.
        values: the values that have labels, where the drawing shall not choose them.
        domain: the least and the largest value that are drawn.
        own_scales: whether each panel has its own scale along it.
    """

    title: str | None
    powers: Iterable[int] | None = None
    order: Sequence[str] | None = None
    values: Sequence[float] | None = None
    domain: tuple[float, float] | None = None
    own_scales: bool = False

    def channel(self, kind: Any, field: str) -> Any:
        """Return the channel of a field along this axis."""
        if self.order is not None:
            angle = -40 if max((len(name) for name in self.order), default=0) > 3 else 0
            axis = alt.Axis(title=self.title, labelAngle=angle)
            return kind(f"{field}:N", sort=list(self.order), axis=axis)
        if self.powers is not None:
            labels = [10.0**power for power in self.powers]
            axis = alt.Axis(title=self.title, values=labels, format="~g")
            return kind(f"{field}:Q", scale=alt.Scale(type="log"), axis=axis)
        axis = alt.Axis(title=self.title, values=self.values or alt.Undefined)
        scale = alt.Scale(domain=self.domain or alt.Undefined)
        return kind(f"{field}:Q", axis=axis, scale=scale)


Marks = Literal["points", "lines", "dashed", "styles"]
"""How values are marked: by points, by lines with dots, by lines without dots that coincide in
places (dashes tell the series apart), or by lines with dots and dashes by `style`.
"""


def points_of(
    rows: Iterable[Mapping[str, Any]],
    x: str,
    series: Mapping[str, str],
    *,
    error: Mapping[str, str | tuple[str, str]] | None = None,
    **formats: str,
) -> list[Point]:
    """Return a point for each row and column that has a value.

    Args:
        rows: what was computed.
        x: the column along.
        series: columns upwards -> their series' names, as formats of a row's values.
        error: columns upwards -> the column of half the error bar, or those of its ends.
        formats: of `panel` and of `style`.
    """
    points = []
    for row in rows:
        named = {name: text.format(**row) for name, text in formats.items()}
        for y, text in series.items():
            if row[y] is None:
                continue
            point = {"x": row[x], "y": row[y], "series": text.format(**row), **named}
            bar = (error or {}).get(y)
            if isinstance(bar, tuple):
                point |= {"low": row[bar[0]], "high": row[bar[1]]}
            elif bar:
                point |= {"low": row[y] - row[bar], "high": row[y] + row[bar]}
            points.append(point)
    return points


def printed_at(x: Any, y: float, series: str, panel: str = "") -> Point:
    """Return a value that a paper prints."""
    return {"x": x, "y": y, "series": series, "panel": panel, "printed": True}


def colored(series: Iterable[str], colors: str) -> dict[str, str]:
    """Return the colours of some series, in their order; a series without one is an error."""
    names = list(series)
    return dict(zip(names, colors.split()[: len(names)], strict=True))


def chart(
    points: Iterable[Point],
    title: str,
    *,
    x: Axis,
    y: Axis,
    colors: Mapping[str, str],
    size: tuple[int, int] = (440, 260),
    marks: Marks = "lines",
) -> Any:
    """Return the drawing: lines or points, error bars, and diamonds at what a paper prints.

    Args:
        points: all values. Panels stand in the order of their first ones; without any, printed
            values are left out.
        title: above the drawing.
        x: the axis along.
        y: the axis upwards.
        colors: each series' colour, one of `COLORS`, in the order of the legend.
        size: of a panel, in pixels.
        marks: how the values of the series are marked.
    """
    blank = {"panel": "", "style": "", "low": None, "high": None, "printed": False}
    points = [{**blank, **point} for point in points]
    panels = list(dict.fromkeys(point["panel"] for point in points if not point["printed"]))
    points = [point for point in points if point["panel"] in panels]
    base = alt.Chart(alt.InlineData(values=points))
    along = x.channel(alt.X, "x")
    scale = alt.Scale(domain=list(colors), range=[COLORS[name] for name in colors.values()])
    color = alt.Color("series:N", title=None, sort=list(colors), scale=scale)
    upwards = y.channel(alt.Y, "y")
    mark = base.mark_point(filled=True)
    if marks != "points":
        mark = base.mark_line(point=marks != "dashed", strokeWidth=1.75)
    series = mark.transform_filter("!datum.printed").encode(x=along, y=upwards, color=color)
    if marks in {"dashed", "styles"}:
        # For readers who cannot see the colours, and where lines coincide.
        series = series.encode(strokeDash=_dashes(marks, list(colors)))
    bars = base.mark_rule(strokeWidth=1.25).transform_filter("isValid(datum.low)")
    bars = bars.encode(x=along, y=y.channel(alt.Y, "low"), y2="high:Q", color=color)
    layers = [bars, series]
    if any(point["printed"] for point in points):
        kind = alt.Scale(domain=[_PRINTED], range=["diamond"])
        shape = alt.Shape("kind:N", title=None, scale=kind)
        diamonds = base.mark_point(filled=True, size=110, stroke="black", opacity=0.7)
        diamonds = diamonds.transform_filter("datum.printed")
        diamonds = diamonds.transform_calculate(kind=f"'{_PRINTED}'")
        layers.append(diamonds.encode(x=along, y=upwards, color=color, shape=shape))
    drawn: Any = alt.layer(*layers).properties(width=size[0], height=size[1])
    if panels != [""]:
        facet = alt.Facet("panel:N", title=None, sort=panels)
        drawn = drawn.facet(facet=facet, columns=3 if len(panels) % 3 == 0 else 2)
    if y.own_scales:
        drawn = drawn.resolve_scale(y="independent")
    return styled(drawn, title)


def _dashes(marks: Marks, series: list[str]) -> alt.StrokeDash:
    if marks == "styles":
        legend = alt.Legend(symbolType="stroke", symbolSize=300)
        return alt.StrokeDash("style:N", title=None, legend=legend)
    scale = alt.Scale(
        domain=series, range=[_DASHES[at % len(_DASHES)] for at in range(len(series))]
    )
    return alt.StrokeDash("series:N", title=None, scale=scale, sort=series)


def styled(drawing: Any, title: str) -> Any:
    """Return the drawing with its title and the studies' style."""
    return (
        drawing.properties(title=alt.TitleParams(title, anchor="start", fontSize=14, offset=12))
        .configure(font=_FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e6e6e6", domainColor="#767676", tickColor="#767676")
        .configure_legend(orient="bottom", columns=3, labelLimit=320)
    )


def write_svg(drawing: Any, path: pathlib.Path) -> None:
    """Write a drawing as an SVG file that needs nothing else."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    path.write_text(
        vl_convert.vegalite_to_svg(drawing.to_dict(), vl_version=version), encoding="utf-8"
    )


CellRow = dict[str, Any]
Show = str | Callable[[CellRow], str]
"""Form of a cell: a format of its row's values, or a function of the row."""


def table_of(
    title: str,
    rows: Iterable[CellRow],
    columns: Mapping[str, Show],
    *,
    text: Sequence[str] = (),
    wide: Sequence[str] = (),
) -> StudyTable:
    """Return a table with one line for each row.

    Args:
        title: above it.
        rows: what is shown.
        columns: each column's name and how its cells are written.
        text: the columns that hold words; the others hold numbers.
        wide: the columns that a narrow terminal leaves out.
    """
    cells = [
        tuple(
            show.format(**row) if isinstance(show, str) else show(row) for show in columns.values()
        )
        for row in rows
    ]
    names = [(name, name not in text) for name in columns]
    return StudyTable(title, names, cells, wide=tuple(wide))


def value_of(name: str, form: str = "{}") -> Show:
    """Return how a value is written whose name is no Python name."""
    return lambda row: form.format(row[name])


def published_rows(published: Sequence[Published], *, unjudged: str = "") -> pl.DataFrame:
    """Return every printed value beside ours, with a verdict on it.

    The one rule for verdicts: a value is judged only at the scale and on the data of the paper.
    """
    names = ("paper", "place", "quantity", "printed", "computed", "verdict")
    judged = [
        replace(each, agrees=None, remark=unjudged)
        if unjudged and each.agrees is not None and not each.exact
        else each
        for each in published
    ]
    rows = [{name: getattr(each, name) for name in names} for each in judged]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def published_table(rows: pl.DataFrame) -> StudyTable:
    """Return the same as a table."""
    columns = {"place": "{place}", "quantity": "{quantity}", "printed": "{printed}"}
    columns |= {"here": "{computed}", "verdict": "{verdict}"}
    if rows["paper"].n_unique() > 1:
        columns = {"paper": "{paper}", **columns}
    text = ("paper", "place", "quantity", "verdict")
    return table_of("Printed values and ours", rows.to_dicts(), columns, text=text)


def binomial_error(share: float, trials: int) -> float:
    """Return the standard error of a share of a number of trials."""
    return math.sqrt(share * (1.0 - share) / trials)


def same_share(ours: float, trials: int, printed: float, printed_trials: int) -> bool:
    """Return whether two shares differ by at most two standard errors of their difference."""
    error = math.sqrt(printed * (1.0 - printed) * (1.0 / trials + 1.0 / printed_trials))
    return abs(ours - printed) <= 2.0 * error


def paragraphs(text: str) -> list[str]:
    """Return a text's paragraphs, which empty lines part, each on one line."""
    return [" ".join(part.split()) for part in text.strip().split("\n\n")]


TITLE = "Observational Auditing of Privacy"

EPSILONS = ("inf", "8", "4", "2", "1", "0.1")

TABLE_2 = {
    "lp-1st": "1.37±.14 1.29±.12 1.22±.17 0.59±.05 0.34±.02 0.06±.01",
    "lp-1st-domain-prior": "1.47±.22 1.37±.10 1.28±.21 - - -",
    "lp-1st-noise-correction": "1.31±.12 1.26±.11 1.04±.16 0.52±.07 0.40±.08 0.06±.01",
    "lp-2st": "1.52±.14 1.46±.11 1.24±.15 0.75±.05 0.61±.07 0.06±.01",
    "pate": "1.60±.15 1.48±.14 1.28±.12 0.71±.07 0.59±.05 0.06±.01",
}
"""Criteo: the figure of the paper's protocol, the best of 1..100% guesses, by `EPSILONS`."""

TABLE_5 = {
    "lp-1st": "0.130 0.130 0.136 0.206 0.362 0.653",
    "lp-1st-domain-prior": "0.130 0.130 0.136 - - -",
    "lp-1st-noise-correction": "0.130 0.130 0.131 0.156 0.171 0.645",
    "lp-2st": "0.130 0.130 0.123 0.207 0.342 0.527",
    "pate": "0.130 0.151 0.156 0.188 0.255 0.680",
}
"""Criteo: log-loss on the test records, in nats, by `EPSILONS`."""

IMAGE_EPSILONS = ("inf", "10", "1")

TABLE_1 = {
    "lp-1st": "2.13±.22 2.02±.33 0.43±.05",
    "lp-1st-out-of-domain-prior": "2.26±.22 1.86±.25 0.90±.07",
    "pate-fm": "2.42±.32 2.22±.24 0.79±.09",
    "alibi": "2.53±.33 2.18±.27 0.67±.07",
}
"""CIFAR-10: the figure of the paper's protocol, the best of 1..100% guesses, by epsilon."""

TABLE_4 = {
    "lp-1st": "91.3 91.07 60.4",
    "lp-1st-out-of-domain-prior": "92.1 91.5 87.9",
    "pate-fm": "92.5 92.3 91.3",
    "alibi": "90.1 87.1 66.9",
}
"""CIFAR-10: test accuracy in percent, by epsilon."""

TABLE_6 = {
    "lp-1st": "1.98±.21 1.99±.32 0.41±.03",
    "lp-1st-out-of-domain-prior": "2.08±.21 1.78±.23 0.81±.05",
    "pate-fm": "2.26±.31 2.16±.22 0.74±.08",
    "alibi": "2.43±.31 2.1±.26 0.65±.05",
}
"""CIFAR-10: as Table 1, at a fixed 1% of guesses."""

TABLE_7 = {
    "label inference": "2.34±.25",
    "calibrated loss": "0.72±.15",
    "RMIA": "2.52±.32",
}
"""Twitter, without any noise: each attack's figure."""

FIGURE_1 = "label inference and calibrated loss come to similar figures"
FIGURE_5 = "RMIA slightly above both others at large epsilon"


def printed_cells(
    table: Mapping[str, str], epsilons: tuple[str, ...] = EPSILONS
) -> dict[tuple[str, str], tuple[float, float | None] | None]:
    """Return (mechanism, epsilon) -> mean and deviation; None where a dash is printed."""
    cells = {}
    for mechanism, row in table.items():
        for epsilon, cell in zip(epsilons, row.split(), strict=True):
            mean, _, deviation = cell.partition("±")
            found = (float(mean), float(deviation) if deviation else None) if cell != "-" else None
            cells[mechanism, epsilon] = found
    return cells


def figure_beside(
    row: Mapping[str, Any],
    printed: tuple[float, float | None],
    kind: str = "epsilon_paper",
    more: str = "",
) -> tuple[str, str, bool]:
    """Return a printed figure, ours beside its control's, and whether they agree.

    The one rule for figures: they agree within two printed standard deviations.
    """
    mean, deviation = printed[0], printed[1] or 0.0
    ours = f"{row[kind]:.2f} ± {row[f'{kind}_deviation']:.2f}"
    control = f"control {row[f'control_{kind}']:.2f}{more}"
    agrees = abs(row[kind] - mean) <= 2.0 * deviation
    return f"{mean:.2f} ± {deviation:.2f}", f"{ours} ({control})", agrees


def printed_points(
    table: Mapping[str, str],
    panel: str,
    epsilons: tuple[str, ...] = EPSILONS,
    *,
    unit: float = 1.0,
) -> list[Point]:
    """Return the means of a table as points of a drawing, in a unit of ours."""
    return [
        printed_at(epsilon, cell[0] * unit, name, panel)
        for (name, epsilon), cell in printed_cells(table, epsilons).items()
        if cell is not None
    ]


REPETITIONS, DELTA, SIGNIFICANCE, SEED = 100, 1e-5, 0.05, 715
LABELS, PAIRS = "label inference, all records", "label inference, as many as pairs"
MEMBERSHIP = ("calibrated loss", "RMIA")
ATTACK_COLORS = colored((LABELS, PAIRS, *MEMBERSHIP), "red orange blue green")
FIGURE = "{epsilon_paper:.2f} ± {epsilon_paper_deviation:.2f}"
"""A row's figure as the paper writes it."""
FIXED = 0.01
"""The guess fraction of the paper's Table 6, which is not chosen by its outcome."""
_SMALLEST = 1e-12


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

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return the answers on some of the records."""
        return Answers(self.target[rows], self.proxy[rows], self.labels[rows])

    def own(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' probability of each record's own label, shape (records,)."""
        rows = np.arange(self.records)
        target, proxy = self.target[rows, self.labels], self.proxy[rows, self.labels]
        return np.clip(target, _SMALLEST, 1.0), np.clip(proxy, _SMALLEST, 1.0)


def play_all(train: Answers, holdout: Answers) -> dict[str, Tally]:
    """Return each attack's tally: of all training records, and of as many as there are pairs."""
    members, outsiders, population = pairs_of(train, holdout)
    target, reference = population.own()
    # What the target does better on all records, members or not, is no membership.
    threshold = float(np.median(np.log(target) - np.log(reference)))

    def calibrated(part: Answers) -> NDArray[np.float64]:
        return CalibratedLossScore(threshold)(*(-np.log(chances) for chances in part.own()))

    def outdone(part: Answers) -> NDArray[np.float64]:
        return RmiaScore()(*part.own(), population_target=target, population_reference=reference)

    def pairs(name: str, score: Callable[[Answers], NDArray[np.float64]]) -> Tally:
        key = stream_key(SEED, "members", name)
        scores = (score(members), score(outsiders))
        return membership_inference(*scores, repetitions=REPETITIONS, key=key)

    loss_name, rmia_name = MEMBERSHIP
    return {
        LABELS: play_label_inference(train),
        PAIRS: play_label_inference(members),
        loss_name: pairs("loss", calibrated),
        rmia_name: pairs("rmia", outdone),
    }


def play_label_inference(answers: Answers) -> Tally:
    """Return label inference's tally of some records."""
    return label_inference(
        answers.target,
        answers.proxy,
        answers.labels,
        score=PaperScore(),
        repetitions=REPETITIONS,
        key=stream_key(SEED, "labels", answers.records),
    )


def pairs_of(train: Answers, holdout: Answers) -> tuple[Answers, Answers, Answers]:
    """Return members, as many non-members, and the population: the rest of the holdout."""
    random = generator(SEED, "pairs", train.records)
    many = min(holdout.records // 2, train.records)
    shuffled = random.permutation(holdout.records)
    members = train.take(random.permutation(train.records)[:many])
    return members, holdout.take(shuffled[:many]), holdout.take(shuffled[many:])


def attack_figures(tally: Tally) -> CellRow:
    """Return the paper's figure (uncorrected) and the corrected bound, both at delta 1e-5."""
    random = generator(SEED, "border")
    claim = Claim(family=ApproxDP(), delta=DELTA, significance=SIGNIFICANCE)
    paper = paper_epsilons(tally, claim=claim, delta=DELTA, random=random)
    return {
        "epsilon_paper": float(paper.mean()),
        "epsilon_paper_deviation": float(paper.std()),
        "epsilon_lower": choice_epsilon_lower(tally, claim=claim, choice=Grid(), random=random),
        "accuracy": float(tally.correct.sum() / tally.guesses.sum()),
    }


def paper_figures(answers: Answers, *, plan: Plan, canaries: int, name: str) -> CellRow:
    """Return mean and deviation of the best of 1..100% guesses, and of a fixed 1%.

    Sections 6.2 and E: Gaussian family, not corrected for the choice among 100 fractions. Which
    records play is drawn once; coins and counterfactuals are drawn again in each repetition.

    Args:
        answers: of both models on the audited model's training records.
        plan: its power, repetitions, significance, delta and seed.
        canaries: how many records play; all where there are fewer.
        name: of the random stream.
    """
    random = generator(plan.seed, name, "canaries")
    chosen = np.sort(random.permutation(answers.records)[:canaries])
    played = answers.take(chosen)
    tally = label_inference(
        played.target,
        played.proxy,
        played.labels,
        score=PaperScore(power=plan.power),
        repetitions=plan.repetitions,
        key=stream_key(plan.seed, name, "paper's protocol"),
        indices=chosen,
    )
    shares = np.arange(1, 101) / 100.0
    guesses = np.maximum(1, np.round(shares * tally.records)).astype(np.int64)
    correct = tally.most_confident(guesses, random)
    guesses = np.broadcast_to(guesses, correct.shape)
    best, fixed = (
        best_epsilon(
            tally.records,
            guesses[:, part],
            correct[:, part],
            family=Gaussian(),
            delta=plan.delta,
            significance=plan.significance,
        )
        for part in (slice(None), shares == FIXED)
    )
    return {
        "canaries": len(chosen),
        "epsilon_paper": float(best.mean()),
        "epsilon_paper_deviation": float(best.std()),
        "epsilon_fixed": float(fixed.mean()),
        "epsilon_fixed_deviation": float(fixed.std()),
    }


def figure_points(rows: Sequence[CellRow], x: str, series: str, panel: str) -> list[Point]:
    """Return the paper's figure of each row, with its deviation; see `points_of`."""
    error = {"epsilon_paper": "epsilon_paper_deviation"}
    return points_of(rows, x, {"epsilon_paper": series}, error=error, panel=panel)


def figure_ceiling(records: int, fractions: tuple[float, ...] = PAPER_FRACTIONS) -> float:
    """Return the paper's figure of an attack on so many records that is always right."""
    guesses = guess_counts(records, fractions)[np.newaxis]
    best = best_epsilon(
        *(records, guesses, guesses), family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
    )
    return float(best[0])
