"""Output of `study text`: each attack's figure beside its control and a calibrated proxy."""

import polars as pl

from flows.report.study_page import StudyTable
from flows.study.cells import CellRow
from flows.study.drawing import BLUE, GREEN, ORANGE, RED, Axis, Lines, Panels, around, chart
from flows.study.printed import TABLE_7, TITLE
from flows.study.runner import Shown
from flows.study.tables import paragraphs, table_of
from flows.study.three_attacks import (
    DELTA,
    LABELS,
    MEMBERSHIP,
    PAIRS,
    REPETITIONS,
    SIGNIFICANCE,
    figure_of,
)
from privcore.upper_bounds import Published

SEED, TEST_SHARE, FOLDS = 1126, 0.1, 4
TARGET, CONTROL = "target", "control"
PLAIN, CALIBRATED = "as trained", "calibrated"
_COLORS = dict(zip((LABELS, PAIRS, *MEMBERSHIP), (RED, ORANGE, BLUE, GREEN), strict=True))
_OURS = {"label inference": LABELS} | dict(zip(MEMBERSHIP, MEMBERSHIP, strict=True))


def shown(attacks: pl.DataFrame, source: str, scale: float) -> Shown:
    """Return what there is to show of all attacks on texts from a source."""
    points = [
        {"x": row["attack"], "panel": f"{row['model']}, proxy {row['proxy']}",
         "series": row["attack"], **around(row["epsilon_paper"], row["epsilon_paper_deviation"])}
        for row in attacks.to_dicts()
    ]  # fmt: skip
    panels = list(dict.fromkeys(str(point["panel"]) for point in points))
    drawing = chart(
        points,
        "Three attacks on a network that reads texts",
        x=Axis(None, order=list(_COLORS)),
        y=Axis("paper's figure ± deviation"),
        colors=_COLORS,
        panels=Panels(panels, (240, 220)),
        lines=Lines(joined=False),
    )
    return Shown(
        sentences(attacks, source, scale),
        [_table(attacks)],
        published(attacks),
        {"text": attacks.with_columns(source=pl.lit(source), seed=pl.lit(SEED))},
        {"text": drawing},
    )


def _table(attacks: pl.DataFrame) -> StudyTable:
    """A row for each attack and proxy: the target's figures beside the control's."""
    return table_of(
        "Three attacks, epsilon infinite",
        beside_control(attacks),
        {
            "attack": "{attack}",
            "proxy": "{proxy}",
            "records": "{records:,}",
            "right": "{accuracy:.1%}",
            "paper's": figure_of,
            "its control": lambda row: figure_of(row["control"]),
            "lower": "{epsilon_lower:.2f}",
            "control": lambda row: f"{row['control']['epsilon_lower']:.2f}",
            "ceiling": "{epsilon_ceiling:.2f}",
        },
        text=("attack", "proxy"),
        wide=("right", "ceiling"),
    )


def beside_control(attacks: pl.DataFrame) -> list[CellRow]:
    """Return the target's rows, each with the control's row of the same attack and proxy."""
    controls = {
        (row["proxy"], row["attack"]): row for row in attacks.filter(model=CONTROL).to_dicts()
    }
    return [
        {**row, "control": controls[row["proxy"], row["attack"]]}
        for row in attacks.filter(model=TARGET).to_dicts()
    ]


def published(attacks: pl.DataFrame) -> list[Published]:
    """Return Table 7 beside ours, with the proxy as it was trained.

    A figure agrees within two printed standard deviations; on other texts it is not judged.
    """
    ours = {row["attack"]: row for row in beside_control(attacks) if row["proxy"] == PLAIN}
    rows = []
    for attack, cell in TABLE_7.items():
        mean, _, deviation = cell.partition("±")
        row = ours[_OURS[attack]]
        agrees = abs(row["epsilon_paper"] - float(mean)) <= 2.0 * float(deviation)
        found = f"{figure_of(row)} (control {row['control']['epsilon_paper']:.2f})"
        printed = f"{float(mean):.2f} ± {float(deviation):.2f}"
        rows.append(Published(TITLE, "Table 7", attack, printed, found, agrees))
    return rows


def sentences(attacks: pl.DataFrame, source: str, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    first = attacks.filter(model=TARGET, attack=LABELS, proxy=CALIBRATED).row(0, named=True)
    highest = max(row["control"]["epsilon_paper"] for row in beside_control(attacks))
    return paragraphs(f"""
    {source[:1].upper()}{source[1:]}, scale {scale:g}, seed {SEED}. Neutral texts are left out, and
    as many positive as negative ones are drawn; a random {TEST_SHARE:.0%},
    {first["test_records"]:,} texts, is the test set. Proxy and target are trained on
    {first["records"]:,} texts each, and all of the target's play. TF-IDF with {first["terms"]:,}
    terms, weighed over all texts without their labels, and a fully connected network. The target is
    right on {first["test_accuracy"]:.1%} of the test texts.

    Figures at delta {DELTA:g} over {REPETITIONS} repetitions: the paper's (Gaussian, best of
    1..100%, not corrected) and the corrected lower bound at significance {SIGNIFICANCE:g}, which
    takes the proxy's probabilities as true.

    The control never saw the labels that the attacks ask about: the target's texts fall into
    {FOLDS} folds, and of each a network is asked that was trained on the others. What it reads is
    how wrong the proxy is, and no leak.
    The highest paper's figure of a control is {highest:.2f}.

    The calibrated proxy has its logits divided by {first["temperature"]:.2f}, which makes half of
    the test labels the least surprising. The other half are the non-members of both membership
    attacks.

    Column ceiling: the paper's figure of an attack on as many records that is always right.
    """)
