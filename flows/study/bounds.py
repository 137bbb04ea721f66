"""`privaudit study bounds`: the three papers' figures on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table

from flows.study.drawing import BLUE, GREEN, GREY, ORANGE, RED, log_axis, styled, write_svg
from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    LeakageCurve,
    Published,
    leakage_curves,
    noise_needed,
    published_leakage,
    published_noise,
    published_protection,
    success_curves,
)

CHOICES = (2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 3_000, 10_000)
SECRET_BITS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 64.0)
FIGURE_1_NOISE = (0.4, 0.5, 0.6, 0.8)
FIGURE_7_NOISE = (0.3, 0.32, 0.34, 0.36, 0.38, 0.42, 0.47, 1.0)
FIGURE_7_BITS = (1.0, 5.0, 10.0, 20.0, 40.0)
RECORDS = (36, 40, 44, 48)
RIP_ETA = 0.1
_BOUNDS = {
    "any_attack": ("any attack (this paper)", RED),
    "tradeoff": ("f-DP, uniform secrets", BLUE),
    "renyi": ("Renyi", GREEN),
    "reconstruction_robustness": ("reconstruction robustness", ORANGE),
    "narcissus": ("Narcissus", GREY),
}
_LEAKAGE = {
    "leaked": ("Renyi bound", RED),
    "direct": ("usual conversion", BLUE),
    "improved_conversion": ("improved conversion (no bound)", GREY),
}


@dataclass(frozen=True, slots=True)
class Study:
    """What the study wrote, and the published figures beside ours."""

    files: tuple[pathlib.Path, ...]
    published: tuple[Published, ...]


def study_bounds(output: pathlib.Path, *, advance: Callable[[], object] = lambda: None) -> Study:
    """Write each figure's data (CSV) and drawing (SVG) into `output`, making it.

    Args:
        output: the folder; files of the same names are replaced.
        advance: called `STEPS` times, once after each part of the work.

    Raises:
        InvalidInputError: the folder cannot be made.
        OSError: a file cannot be written.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"no folder can be made there: {error.strerror}"
        raise InvalidInputError("--output", str(output), rule) from None
    success = success_data()
    advance()
    curves = []
    for multiplier in sorted({*FIGURE_1_NOISE, *FIGURE_7_NOISE}):
        curves += leakage_curves(secret_bits=SECRET_BITS, noise_multipliers=(multiplier,))
        advance()
    leakage, noise = leakage_data(curves), noise_data()
    by_bits = leakage.filter(pl.col("noise_multiplier").is_in(FIGURE_1_NOISE))
    by_epsilon = leakage.filter(pl.col("secret_bits").is_in(FIGURE_7_BITS))
    figures = {
        "success": (success, success_chart(success)),
        "leakage_by_bits": (by_bits, leakage_by_bits_chart(by_bits)),
        "leakage_by_epsilon": (by_epsilon, leakage_by_epsilon_chart(by_epsilon)),
        "noise": (noise, noise_chart(noise)),
    }
    files = []
    for name, (data, chart) in figures.items():
        data.write_csv(output / f"{name}.csv")
        write_svg(chart, output / f"{name}.svg")
        files += [output / f"{name}.csv", output / f"{name}.svg"]
        advance()
    published = (*published_protection(), *published_leakage(curves), *published_noise())
    return Study(tuple(files), published)


STEPS = 1 + len({*FIGURE_1_NOISE, *FIGURE_7_NOISE}) + 4
"""How often `study_bounds` reports progress."""


def published_table(published: Sequence[Published]) -> Table:
    """Return the printed figures beside the computed ones, with remarks as footnotes."""
    remarks = list(dict.fromkeys(each.remark for each in published if each.remark))
    table = Table(
        header_style="bold",
        box=None,
        pad_edge=False,
        caption="\n".join(f"{place} {remark}" for place, remark in enumerate(remarks, 1)),
        caption_justify="left",
    )
    table.add_column("figure", no_wrap=True)
    table.add_column("printed", justify="right", no_wrap=True)
    table.add_column("computed", justify="right", no_wrap=True)
    table.add_column("")
    paper = ""
    for each in published:
        if each.paper != paper:
            paper = each.paper
            table.add_row(f"[italic]{paper}[/]")
        place = str(remarks.index(each.remark) + 1) if each.remark else ""
        table.add_row(f"  {each.quantity}", each.printed, each.computed, place)
    return table


def success_data() -> pl.DataFrame:
    """Return Figure 1 of "Beyond the Worst Case": a row per bound, epsilon, delta and prior."""
    return pl.concat(
        pl.DataFrame({"prior": curve.priors, "success": curve.success}).select(
            bound=pl.lit(curve.bound),
            epsilon=pl.lit(curve.epsilon),
            delta=pl.lit(curve.delta),
            prior="prior",
            success="success",
        )
        for curve in success_curves(choices=CHOICES)
    )


def leakage_data(curves: Sequence[LeakageCurve]) -> pl.DataFrame:
    """Return Figures 1 and 7 of Stock et al. 2022: a row per noise multiplier and secret."""
    return pl.concat(
        pl.DataFrame({"secret_bits": curve.secret_bits}).with_columns(
            noise_multiplier=pl.lit(curve.noise_multiplier),
            epsilon=pl.lit(curve.epsilon),
            leaked=pl.Series(curve.leaked),
            direct=pl.Series(curve.direct),
            improved_conversion=pl.Series(curve.improved_conversion),
        )
        for curve in curves
    )


def noise_data() -> pl.DataFrame:
    """Return the data in the manner of Figure 1 of Izzo et al.: a row per number of records."""
    needed = [noise_needed(records, eta=RIP_ETA) for records in RECORDS]
    names = ("records", "deviation", "sensitivity", "rip_scale", "dp_scale")
    return pl.DataFrame({name: [getattr(each, name) for each in needed] for name in names})


def success_chart(data: pl.DataFrame) -> Any:
    """Return success against prior, a panel per epsilon and delta."""
    rows = [
        row | {"panel": f"epsilon {row['epsilon']:g}, delta {row['delta']:g}"}
        for row in _named(data.rename({"bound": "key"}).to_dicts(), _BOUNDS)
    ]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.75)
        .encode(
            x=alt.X(
                "prior:Q", scale=alt.Scale(type="log"), axis=log_axis("prior", powers=range(-4, 1))
            ),
            y=alt.Y("success:Q", title="success of one guess, at most"),
            color=_colors(_BOUNDS),
            strokeDash=_dashes(_BOUNDS),
        )
        .properties(width=210, height=170)
    )
    title = "Success of any attack against the prior"
    return styled(lines.facet(facet=alt.Facet("panel:N", title=None), columns=2), title)


def leakage_by_bits_chart(data: pl.DataFrame) -> Any:
    """Return leaked bits against the secret's bits, a panel per noise multiplier."""
    rows = [
        row | {"panel": f"noise {row['noise_multiplier']:g}, epsilon {row['epsilon']:.2f}"}
        for row in _long(data)
    ]
    order = list(dict.fromkeys(row["panel"] for row in rows))
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.75)
        .encode(
            x=alt.X("secret_bits:Q", title="bits of the secret"),
            y=alt.Y("bits:Q", title="bits leaked, at most"),
            color=_colors(_LEAKAGE),
            strokeDash=_dashes(_LEAKAGE),
        )
        .properties(width=210, height=170)
    )
    title = "Leaked bits of a secret under DP-SGD, delta 3e-7"
    facet = alt.Facet("panel:N", title=None, sort=order)
    return styled(lines.facet(facet=facet, columns=2), title)


def leakage_by_epsilon_chart(data: pl.DataFrame) -> Any:
    """Return the leaked share of secrets against epsilon, a line per length."""
    rows = [
        {**row, "share": row["leaked"] / row["secret_bits"], "length": f"{row['secret_bits']:g}"}
        for row in data.to_dicts()
    ]
    lengths = [f"{bits:g}" for bits in FIGURE_7_BITS]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.75, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X(
                "epsilon:Q",
                scale=alt.Scale(type="log"),
                axis=log_axis("epsilon", powers=range(-1, 3)),
            ),
            y=alt.Y("share:Q", title="share of the secret leaked, at most"),
            color=alt.Color(
                "length:N",
                title="bits of the secret",
                sort=lengths,
                scale=alt.Scale(domain=lengths, range=[RED, ORANGE, GREEN, BLUE, GREY]),
            ),
        )
        .properties(width=440, height=260)
    )
    return styled(lines, "Short secrets leak whole at a smaller epsilon than long ones")


def noise_chart(data: pl.DataFrame) -> Any:
    """Return the noise needed against the number of records."""
    names = {"rip_scale": (f"RIP, eta {RIP_ETA:g}", RED), "dp_scale": ("DP, same eta", BLUE)}
    rows = [
        {"records": row["records"], "key": key, "scale": row[key]}
        for row in data.to_dicts()
        for key in names
    ]
    lines = (
        alt.Chart(alt.InlineData(values=_named(rows, names)))
        .mark_line(strokeWidth=1.75, point=True)
        .encode(
            x=alt.X(
                "records:Q",
                title="records",
                axis=alt.Axis(values=list(RECORDS)),
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y(
                "scale:Q",
                scale=alt.Scale(type="log"),
                axis=log_axis("scale of the noise that is needed", powers=range(3, 7)),
            ),
            color=_colors(names),
            strokeDash=_dashes(names),
        )
        .properties(width=440, height=260)
    )
    return styled(lines, "Noise for re-identification privacy and for differential privacy")


Names = dict[str, tuple[str, str]]


def _long(data: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per kind of leakage."""
    kept = ["noise_multiplier", "epsilon", "secret_bits"]
    rows = data.unpivot(on=list(_LEAKAGE), index=kept, variable_name="key", value_name="bits")
    return _named(rows.to_dicts(), _LEAKAGE)


def _named(rows: Sequence[dict[str, Any]], names: Names) -> list[dict[str, Any]]:
    return [row | {"series": names[row["key"]][0]} for row in rows]


def _colors(names: Names) -> alt.Color:
    domain, colors = zip(*names.values(), strict=True)
    scale = alt.Scale(domain=list(domain), range=list(colors))
    return alt.Color("series:N", title=None, scale=scale, sort=list(domain))


def _dashes(names: Names) -> alt.StrokeDash:
    """Dashes, for who cannot tell the colours apart and where lines coincide."""
    domain = [name for name, _ in names.values()]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3]][: len(domain)]
    scale = alt.Scale(domain=domain, range=dashes)
    return alt.StrokeDash("series:N", title=None, scale=scale, sort=domain)
