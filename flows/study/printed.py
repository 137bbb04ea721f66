"""The tables that "Observational Auditing of Privacy" prints of its experiments.

Means ± standard deviations over 100 repetitions of the game, epsilon at delta 1e-5 and 95%;
`tests/golden/published` has them with their places, and a test holds these against those.
"""

from collections.abc import Mapping
from typing import Any

from flows.study.drawing import Point, printed_at

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
