"""The drawings of `privaudit study bounds`."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from flows.study.drawing import BLUE, GREEN, GREY, ORANGE, RED, log_axis, styled

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
_RANKS = {"most": RED, "median": BLUE, "least": GREY}


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


def leakage_by_bits_chart(
    data: pl.DataFrame, *, title: str = "Leaked bits of a secret under DP-SGD, delta 3e-7"
) -> Any:
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
    facet = alt.Facet("panel:N", title=None, sort=order)
    return styled(lines.facet(facet=facet, columns=2), title)


def leakage_by_epsilon_chart(data: pl.DataFrame) -> Any:
    """Return the leaked share of secrets against epsilon, a line per length."""
    rows = [
        {**row, "share": row["leaked"] / row["secret_bits"], "length": f"{row['secret_bits']:g}"}
        for row in data.to_dicts()
    ]
    lengths = [f"{bits:g}" for bits in data["secret_bits"].unique().sort()]
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


def advantage_chart(data: pl.DataFrame) -> Any:
    """Return advantage against epsilon, a panel per distribution of secrets."""
    names = {rank: (rank, color) for rank, color in _RANKS.items()}
    rows = [row | {"series": row["rank"]} for row in data.to_dicts()]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.75)
        .encode(
            x=alt.X("epsilon:Q", title="epsilon, delta 1e-5"),
            y=alt.Y("advantage:Q", title="advantage, at most"),
            color=_colors(names),
            strokeDash=_dashes(names),
        )
        .properties(width=150, height=170)
    )
    title = "Advantage of any attack on the least, median and most probable secret"
    return styled(lines.facet(facet=alt.Facet("secrets:N", title=None), columns=3), title)


def leakage_by_steps_chart(data: pl.DataFrame) -> Any:
    """Return leaked bits of one long secret against training steps, a line per noise."""
    noises = [f"{noise:g}" for noise in data["noise_multiplier"].unique().sort()]
    rows = [row | {"noise": f"{row['noise_multiplier']:g}"} for row in data.to_dicts()]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.75, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("steps:Q", title="training steps", axis=alt.Axis(format=",", tickCount=5)),
            y=alt.Y("leaked:Q", title="bits leaked, at most, of 60"),
            color=alt.Color(
                "noise:N",
                title="noise multiplier",
                sort=noises,
                scale=alt.Scale(domain=noises, range=[RED, ORANGE, BLUE, GREY]),
            ),
        )
        .properties(width=440, height=260)
    )
    return styled(lines, "A secret of 60 bits leaks with the steps of DP-SGD")


def noise_chart(data: pl.DataFrame) -> Any:
    """Return the noise needed against eta: a line per number of records for DP, one for RIP."""
    records = data["records"].unique().sort().to_list()
    names = {"rip": ("RIP, any n", RED)}
    for count, color in zip(records, (BLUE, GREEN, ORANGE, GREY), strict=False):
        names[f"dp_{count}"] = (f"DP, n = {count}", color)
    rows = [
        {"eta": row["eta"], "key": f"dp_{row['records']}", "scale": row["dp_scale"]}
        for row in data.to_dicts()
    ]
    # Sigma is 1 to ten digits for each of these n, so one line stands for all.
    rows += [
        {"eta": row["eta"], "key": "rip", "scale": row["rip_scale"]}
        for row in data.filter(pl.col("records") == records[0]).to_dicts()
    ]
    lines = (
        alt.Chart(alt.InlineData(values=_named(rows, names)))
        .mark_line(strokeWidth=1.75)
        .encode(
            x=alt.X(
                "eta:Q",
                scale=alt.Scale(type="log"),
                axis=log_axis("eta, what a guess gains at most", powers=range(-3, 1)),
            ),
            y=alt.Y(
                "scale:Q",
                scale=alt.Scale(type="log"),
                axis=log_axis("scale of the noise that is needed", powers=range(2, 10)),
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
