"""Output of `study images`: mechanisms by epsilon, beside the paper's tables and the ceilings."""

import math
from typing import Any

import polars as pl

from flows.report.study_page import StudyTable
from flows.study.cells import CellRow
from flows.study.drawing import Axis, chart, colored, points_of
from flows.study.printed import (
    FIGURE_1,
    FIGURE_5,
    IMAGE_EPSILONS,
    TABLE_1,
    TABLE_4,
    TABLE_6,
    TITLE,
    printed_cells,
    printed_points,
)
from flows.study.runner import Shown
from flows.study.tables import Show, paragraphs, table_of
from flows.study.three_attacks import FIGURE, MEMBERSHIP, PAIRS, figure_points
from privcore.upper_bounds import Published

SEED = 633
PATE_FM = "pate-fm"
ATTACKS = {"labels": PAIRS, "loss": MEMBERSHIP[0], "rmia": MEMBERSHIP[1]}
"""The attacks of Figures 1 and 5, by the first word of their columns."""
MECHANISMS = ("lp-1st", "lp-1st-out-of-domain-prior", PATE_FM, "alibi")
EPSILONS = (math.inf, 10.0, 1.0)
CONTROL = "control"
_FIGURE, _ACCURACY = "paper's figure ± deviation", "test accuracy"


def shown(models: pl.DataFrame, source: str, network: str, scale: float) -> Shown:
    """Return what there is to show of all models of images from a source."""
    return Shown(
        sentences(models, source, network, scale),
        [_table(models, f"{source}, network {network}"), _attacks(models)],
        published(models),
        {"images": models.with_columns(source=pl.lit(source), seed=pl.lit(SEED))},
        {"images": _chart(models, f"Mechanisms on {source}")},
    )


def _table(models: pl.DataFrame, title: str) -> StudyTable:
    """A row per mechanism and epsilon, and the control's."""
    return table_of(
        title,
        models.to_dicts(),
        {
            "mechanism": "{mechanism}",
            "epsilon": "{epsilon}",
            "right": "{test_accuracy:.1%}",
            "paper's": FIGURE,
            "its control": "{control_epsilon_paper:.2f}",
            "at 1%": "{epsilon_fixed:.2f} ± {epsilon_fixed_deviation:.2f}",
            "ceiling at 1%": "{ceiling_fixed:.2f}",
            "lower": "{epsilon_lower:.2f}",
            "control": "{control_epsilon_lower:.2f}",
            "ceiling": "{ceiling:.2f}",
        },
        text=("mechanism",),
        wide=("ceiling", "control"),
    )


def _attacks(models: pl.DataFrame) -> StudyTable:
    """A row per mechanism and epsilon: three attacks on as many images."""
    rows = models.to_dicts()
    columns: dict[str, Show] = {"mechanism": "{mechanism}", "epsilon": "{epsilon}"}
    for short, name in ATTACKS.items():
        columns[name.partition(",")[0]] = f"{_figure(short)} / {{{short}_epsilon_lower:.2f}}"
    title = f"Attacks on {rows[0]['pairs']:,} images, or pairs: figure ± deviation / lower bound"
    return table_of(title, rows, columns, text=("mechanism",))


def _figure(attack: str) -> str:
    """Return the format of an attack's figure."""
    return f"{{{attack}_epsilon_paper:.2f}} ± {{{attack}_epsilon_paper_deviation:.2f}}"


def published(models: pl.DataFrame) -> list[Published]:
    """Return every cell of Tables 1, 4 and 6 beside ours.

    A figure agrees within two printed standard deviations, an accuracy within 2 points.
    """
    ours = {(row["mechanism"], row["epsilon"]): row for row in models.to_dicts()}
    tables = (
        ("Table 1", "epsilon", TABLE_1),
        ("Table 4", "accuracy", TABLE_4),
        ("Table 6", "epsilon at 1%", TABLE_6),
    )
    return [each for key, row in ours.items() if key[0] in MECHANISMS for each in _drawn(row)] + [
        Published(
            TITLE, place, f"{quantity} of {key[0]} at {key[1]}", *_beside(ours[key], place, cell)
        )
        for place, quantity, table in tables
        for key, cell in printed_cells(table, IMAGE_EPSILONS).items()
        if cell is not None
    ]


def _drawn(row: CellRow) -> list[Published]:
    """Return what the paper says of Figures 1 and 5 beside ours, at one mechanism and epsilon.

    "Similar" is read as within the larger deviation, "slightly above" as above, by less than that.
    """
    figure = {name: row[f"{name}_epsilon_paper"] for name in ATTACKS}
    spread = max(row[f"{name}_epsilon_paper_deviation"] for name in ATTACKS)
    labels, loss, rmia = (_figure(name).format(**row) for name in ATTACKS)
    at = f"{row['mechanism']} at {row['epsilon']}"
    above = figure["rmia"] - max(figure["labels"], figure["loss"])
    similar = abs(figure["labels"] - figure["loss"]) <= spread
    first, fifth = f"{labels}; {loss}", f"{rmia}; {labels}, {loss}"
    found = [Published(TITLE, "Fig 1", f"{FIGURE_1}: {at}", "similar", first, similar)]
    if row["epsilon"] == "inf":
        quantity, agrees = f"{FIGURE_5}: {at}", 0.0 < above <= spread
        found.append(Published(TITLE, "Fig 5", quantity, "slightly above", fifth, agrees))
    return found


def _beside(row: CellRow, place: str, cell: tuple[float, float | None]) -> tuple[str, str, bool]:
    """Return what is printed, ours, and whether they agree."""
    value, deviation = cell
    if deviation is None:
        accuracy = 100.0 * row["test_accuracy"]
        return f"{value:.2f}", f"{accuracy:.2f}", abs(accuracy - value) <= 2.0
    kind = "epsilon_paper" if place == "Table 1" else "epsilon_fixed"
    beside = f"control {row[f'control_{kind}']:.2f}"
    if place == "Table 6":
        beside += f", ceiling {row['ceiling_fixed']:.2f}"
    found = f"{row[kind]:.2f} ± {row[f'{kind}_deviation']:.2f} ({beside})"
    return f"{value:.2f} ± {deviation:.2f}", found, abs(row[kind] - value) <= 2.0 * deviation


def sentences(models: pl.DataFrame, source: str, network: str, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    first = models.row(0, named=True)
    own = models.filter(pl.col("mechanism") != CONTROL)
    (whole,) = models.filter(mechanism=CONTROL).to_dicts()
    pate = models.filter(mechanism=PATE_FM).row(0, named=True)
    highest = max(own["control_epsilon_paper"].to_list())
    return paragraphs(f"""
    {source}, scale {scale:g}, seed {SEED}, network {network}. Proxy and target are trained on
    {first["records"]:,} images each; {first["canaries"]:,} of the target's play, and in the
    controls {first["control_canaries"]:,} test images, which no network saw. The network, the
    schedules' epochs and the features that are clustered for the prior (principal components in
    place of DINO's) are ours; all else is the paper's or that of the code that it cites.

    Column paper's: score exponent 2, best of 1..100% guesses, Gaussian family, 95%, delta 1e-5,
    mean ± standard deviation over {first["repetitions"]} repetitions; not corrected. Column at 1%:
    the same at a fixed 1% of guesses (Table 6). Column lower: the corrected bound, which takes the
    proxy's probabilities as true. Ceilings are the figures of an attack that is always right.

    The highest paper's figure of a control on test images is {highest:.2f}. Row {CONTROL}: networks
    that never saw the labels in question, on all {whole["canaries"]:,} records; the paper's figure
    is {FIGURE.format(**whole)}. A figure near a control's says nothing of a leak.

    The second table's attacks play on {first["pairs"]:,} of these images each: members against test
    images, or label inference on as many members. Other test images are the population of RMIA and
    of the calibrated loss's threshold. An attack that is always right has
    {first["ceiling_pairs"]:.2f} there. Membership inference speaks of a whole record, which no
    mechanism for labels promises to hide: images are open.

    PATE-FM: {pate["teachers"]} teachers vote on {pate["answers"]} images, and without noise the
    answer is right for {pate["voted"]:.0%} of them. Its epsilon is that of Gaussian noise on the
    votes, at delta 1e-5, whatever the votes are.
    """)


def _chart(models: pl.DataFrame, title: str) -> Any:
    """The paper's figure and the accuracy against epsilon, a line per mechanism."""
    rows = models.filter(pl.col("mechanism") != CONTROL).to_dicts()
    return chart(
        [
            *figure_points(rows, "epsilon", "{mechanism}", _FIGURE),
            *points_of(rows, "epsilon", {"test_accuracy": "{mechanism}"}, panel=_ACCURACY),
            *printed_points(TABLE_1, _FIGURE, IMAGE_EPSILONS),
            *printed_points(TABLE_4, _ACCURACY, IMAGE_EPSILONS, unit=0.01),
        ],
        title,
        x=Axis("declared epsilon", order=["1", "10", "inf"]),
        y=Axis(None, own_scales=True),
        colors=colored(MECHANISMS, "blue green red orange"),
        size=(260, 220),
    )
