"""The drawings of `privaudit study bounds`, with what the papers print of their figures."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from flows.study.drawing import BLUE, DASHED, GREEN, GREY, ORANGE, RED, Axis, Panels, Point, chart

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
_SMALL = (210, 170)
# "Beyond the Worst Case", Figure 2: panel, epsilon and advantage of the most probable secret.
_ADVANTAGES = (("uniform", 17.8, 0.05), ("Zipf 1.1", 0.25, 0.05), ("Zipf 1.1", 1.0, 0.24))
# Stock et al. 2022, Figure 7: bits, and the epsilon at which such secrets leak completely.
_WHOLE = (("1", 10.0), ("20", 50.0))


def charts(data: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Return a drawing for each figure's rows, under the same name."""
    dense = "Leaked bits under DP-SGD, sampling rate 20%, 500 steps, delta 3e-7"
    usual = "Leaked bits of a secret under DP-SGD, delta 3e-7"
    return {
        "success": _success(data["success"]),
        "advantage": _advantage(data["advantage"]),
        "leakage_by_bits": _by_bits(data["leakage_by_bits"], usual),
        "leakage_by_steps": _by_steps(data["leakage_by_steps"]),
        "leakage_by_bits_dense": _by_bits(data["leakage_by_bits_dense"], dense),
        "leakage_by_epsilon": _by_epsilon(data["leakage_by_epsilon"]),
        "noise": _noise(data["noise"]),
    }


def _success(data: pl.DataFrame) -> Any:
    """Success against prior, a panel per epsilon and delta."""
    points = [
        {"x": row["prior"], "y": row["success"], "series": _BOUNDS[row["bound"]][0],
         "panel": f"epsilon {row['epsilon']:g}, delta {row['delta']:g}"}
        for row in data.to_dicts()
    ]  # fmt: skip
    return chart(
        points,
        "Success of any attack against the prior",
        x=Axis("prior", powers=range(-4, 1)),
        y=Axis("success of one guess, at most"),
        colors=dict(_BOUNDS.values()),
        panels=Panels(_panels(points), _SMALL),
        lines=DASHED,
    )


def _by_bits(data: pl.DataFrame, title: str) -> Any:
    """Leaked bits against the secret's bits, a panel per noise multiplier."""
    points = [
        {"x": row["secret_bits"], "y": row[kind], "series": series,
         "panel": f"noise {row['noise_multiplier']:g}, epsilon {row['epsilon']:.2f}"}
        for row in data.to_dicts()
        for kind, (series, _) in _LEAKAGE.items()
    ]  # fmt: skip
    return chart(
        points,
        title,
        x=Axis("bits of the secret"),
        y=Axis("bits leaked, at most"),
        colors=dict(_LEAKAGE.values()),
        panels=Panels(_panels(points), _SMALL),
        lines=DASHED,
    )


def _by_epsilon(data: pl.DataFrame) -> Any:
    """The leaked share of secrets against epsilon, a line per length."""
    points: list[Point] = [
        {"x": row["epsilon"], "y": row["leaked"] / row["secret_bits"],
         "series": f"{row['secret_bits']:g} bits"}
        for row in data.to_dicts()
    ]  # fmt: skip
    lengths = [f"{bits:g} bits" for bits in data["secret_bits"].unique().sort()]
    points += [
        {"x": epsilon, "y": 1.0, "series": f"{bits} bits", "printed": True}
        for bits, epsilon in _WHOLE
    ]
    return chart(
        points,
        "Short secrets leak whole at a smaller epsilon than long ones",
        x=Axis("epsilon", powers=range(-1, 3)),
        y=Axis("share of the secret leaked, at most"),
        colors=dict(zip(lengths, (RED, ORANGE, GREEN, BLUE, GREY), strict=False)),
    )


def _advantage(data: pl.DataFrame) -> Any:
    """Advantage against epsilon, a panel per distribution of secrets."""
    points: list[Point] = [
        {"x": row["epsilon"], "y": row["advantage"], "series": row["rank"],
         "panel": row["secrets"]}
        for row in data.to_dicts()
    ]  # fmt: skip
    panels = _panels(points)
    points += [
        {"x": epsilon, "y": advantage, "series": "most", "panel": panel, "printed": True}
        for panel, epsilon, advantage in _ADVANTAGES
        if panel in panels
    ]
    return chart(
        points,
        "Advantage of any attack on the least, median and most probable secret",
        x=Axis("epsilon, delta 1e-5"),
        y=Axis("advantage, at most"),
        colors=_RANKS,
        panels=Panels(panels, (150, 170)),
        lines=DASHED,
    )


def _by_steps(data: pl.DataFrame) -> Any:
    """Leaked bits of one long secret against training steps, a line per noise."""
    noises = [f"noise {noise:g}" for noise in data["noise_multiplier"].unique().sort()]
    points = [
        {"x": row["steps"], "y": row["leaked"], "series": f"noise {row['noise_multiplier']:g}"}
        for row in data.to_dicts()
    ]
    return chart(
        points,
        "A secret of 60 bits leaks with the steps of DP-SGD",
        x=Axis("training steps"),
        y=Axis("bits leaked, at most, of 60"),
        colors=dict(zip(noises, (RED, ORANGE, BLUE, GREY), strict=False)),
    )


def _noise(data: pl.DataFrame) -> Any:
    """The noise needed against eta: a line per number of records for DP, one for RIP."""
    records = data["records"].unique().sort().to_list()
    rip = "RIP, any n"
    colors = {rip: RED}
    colors |= {
        f"DP, n = {count}": color
        for count, color in zip(records, (BLUE, GREEN, ORANGE, GREY), strict=False)
    }
    points = [
        {"x": row["eta"], "y": row["dp_scale"], "series": f"DP, n = {row['records']}"}
        for row in data.to_dicts()
    ]
    # Sigma is 1 to ten digits for each of these n, so one line stands for all.
    points += [
        {"x": row["eta"], "y": row["rip_scale"], "series": rip}
        for row in data.filter(records=records[0]).to_dicts()
    ]
    return chart(
        points,
        "Noise for re-identification privacy and for differential privacy",
        x=Axis("eta, what a guess gains at most", powers=range(-3, 1)),
        y=Axis("scale of the noise that is needed", powers=range(2, 10)),
        colors=colors,
        lines=DASHED,
    )


def _panels(points: list[Point]) -> list[str]:
    return list(dict.fromkeys(point["panel"] for point in points))
