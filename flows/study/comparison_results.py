"""What `study comparison` shows: which attack proves most on the same models."""

import dataclasses
import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table

from flows.study.cells import CellRow, check_scale
from flows.study.comparison import (
    DATA,
    DELTA,
    PARAMETERS,
    REPETITIONS,
    SEED,
    SIGNIFICANCE,
    Findings,
    study_comparison,
)
from flows.study.drawing import BLUE, GREEN, ORANGE, RED, styled, write_svg
from flows.study.printed import FIGURE_1, FIGURE_5, TABLE_7, TITLE
from flows.study.printing import Written, published_table, titled_table, workers_here, write_study
from privcore.upper_bounds import Published
from workers.executors import on_ray

LABELS, PAIRS = "label inference, all records", "label inference, as many as pairs"
MEMBERSHIP = ("calibrated loss", "RMIA")
_OTHER = "data and models are others; which of the two matters is not measured"
_NEEDS_TWITTER = (
    "needs 3,000,000 labelled tweets and a text model; `privaudit run` audits such a model, once "
    "its probabilities are those of a checkpoint in a lake"
)


def run_comparison(output: pathlib.Path, *, scale: float) -> Findings:
    """Run the study on this machine's processors.

    Raises:
        InvalidInputError: as `study_comparison`.
    """
    check_scale(scale)
    with workers_here(on_ray) as executor:
        return study_comparison(output, scale=scale, executor=executor)


def write_comparison(findings: Findings, output: pathlib.Path) -> Written:
    """Write the study's files; return its table and findings."""
    files = write_files(output, findings)
    tables = [
        attacks_table(findings.attacks),
        published_table(published(findings.attacks), title="What the paper finds, and ours"),
    ]
    return write_study(
        tables,
        [*findings.resumed, *sentences(findings)],
        files,
        title="Label inference beside membership inference",
    )


def attacks_table(attacks: pl.DataFrame) -> Table:
    """Return a row per data, epsilon and attack."""
    table = titled_table("Three attacks on the same models")
    table.add_column("data, epsilon, attack", no_wrap=True)
    for name in ("records", "right", "paper's", "lower"):
        table.add_column(name, justify="right", no_wrap=True)
    before = ("", "")
    for row in attacks.to_dicts():
        group = (row["data"], row["epsilon"])
        if group != before:
            before = group
            table.add_row(f"[italic]{row['data']}, epsilon {row['epsilon']}[/]")
        table.add_row(
            f"  {row['attack']}",
            f"{row['records']:,}",
            f"{row['accuracy']:.1%}",
            f"{row['epsilon_paper']:.2f} ± {row['epsilon_paper_deviation']:.2f}",
            f"{row['epsilon_lower']:.2f}",
        )
    return table


def published(attacks: pl.DataFrame) -> list[Published]:
    """Return what the paper says of Figures 1 and 5, and prints in Table 7, beside ours.

    Its data are images, clicks and texts, ours flights and made-up clicks: what can be compared is
    the order of the attacks, on as many records. Figures are similar within two deviations.
    """
    rows = []
    for data in DATA.values():
        shown = attacks.filter(data=data, epsilon="inf")
        ours = {row["attack"]: row for row in shown.to_dicts()}
        labels, loss, rmia = ours[PAIRS], ours[MEMBERSHIP[0]], ours[MEMBERSHIP[1]]
        figures = f"{labels['epsilon_paper']:.2f}, {loss['epsilon_paper']:.2f}"
        rows.append(
            Published(
                TITLE,
                "Fig 1",
                f"{FIGURE_1}: {data}, epsilon inf",
                "similar",
                figures,
                agrees=not _larger(labels, loss) and not _larger(loss, labels),
                remark=_OTHER,
            )
        )
        rows.append(
            Published(
                TITLE,
                "Fig 5",
                f"{FIGURE_5}: {data}, epsilon inf",
                "slightly above",
                f"{rmia['epsilon_paper']:.2f}; {figures}",
                agrees=rmia["epsilon_paper"] >= max(labels["epsilon_paper"], loss["epsilon_paper"]),
                remark=_OTHER,
            )
        )
    rows += [
        Published(TITLE, "Table 7", attack, printed.replace("±", " ± 0"), "", None, _NEEDS_TWITTER)
        for attack, printed in TABLE_7.items()
    ]
    return [_without_remark(row) for row in rows]


def _larger(one: CellRow, other: CellRow) -> bool:
    """Whether a figure is larger by more than two deviations of one game."""
    spread = max(one["epsilon_paper_deviation"], other["epsilon_paper_deviation"])
    return bool(one["epsilon_paper"] - other["epsilon_paper"] > 2.0 * spread)


def _without_remark(row: Published) -> Published:
    return dataclasses.replace(row, remark="") if row.agrees else row


def strongest(attacks: pl.DataFrame, data: str) -> int:
    """Return at how many epsilons label inference, with as many records, is at least even."""
    count = 0
    for _, rows in attacks.filter(pl.col("data") == data).group_by("epsilon"):
        figures = dict(rows.select("attack", "epsilon_paper").rows())
        count += figures[PAIRS] >= max(figures[name] for name in MEMBERSHIP)
    return count


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    attacks = findings.attacks
    setting = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    how = (
        f"Scale {findings.scale:g}, seed {SEED}; CatBoost with {setting}; labels by randomized "
        f"response at the epsilon shown. Figures at delta {DELTA:g} over {REPETITIONS} "
        f"repetitions: the paper's (Gaussian, best of 1..100%, not corrected) and the corrected "
        f"lower bound at significance {SIGNIFICANCE:g}. The clicks are synthetic, not Criteo's."
    )
    meaning = (
        "Label inference speaks of replacing a label, membership inference of replacing a whole "
        "record, which randomized response on labels does not promise to hide: features are open."
    )
    epsilons = attacks["epsilon"].n_unique()
    order = "; ".join(
        f"{data}: at {strongest(attacks, data)} of {epsilons} epsilons" for data in DATA.values()
    )
    found = f"Label inference proves at least as much as both others on as many records: {order}."
    return [how, meaning, found]


def write_files(output: pathlib.Path, findings: Findings) -> list[pathlib.Path]:
    """Write all figures (CSV) and the drawing (SVG)."""
    table, drawing = output / "comparison.csv", output / "comparison.svg"
    findings.attacks.with_columns(scale=pl.lit(findings.scale), seed=pl.lit(SEED)).write_csv(table)
    write_svg(chart(findings.attacks), drawing)
    return [table, drawing]


def chart(attacks: pl.DataFrame) -> Any:
    """Return the paper's figure against epsilon, a line per attack, a panel per data."""
    order = [LABELS, PAIRS, *MEMBERSHIP]
    lines = (
        alt.Chart(alt.InlineData(values=attacks.to_dicts()))
        .mark_line(point=True, strokeWidth=1.75)
        .encode(
            x=alt.X(
                "epsilon:N",
                sort=["1", "2", "4", "8", "inf"],
                title="declared epsilon",
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y("epsilon_paper:Q", title="paper's figure"),
            color=alt.Color(
                "attack:N",
                title=None,
                sort=order,
                scale=alt.Scale(domain=order, range=[RED, ORANGE, BLUE, GREEN]),
            ),
        )
        .properties(width=260, height=220)
    )
    facet = alt.Facet("data:N", title=None)
    return styled(lines.facet(facet=facet, columns=2), "Three attacks on the same models")
