"""The tables that "Observational Auditing of Privacy" prints of its experiments.

Means ± standard deviations over 100 repetitions of the game, epsilon at delta 1e-5 and 95%;
`tests/golden/published` has them with their places, and a test holds these against those.
"""

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

TABLE_7 = {
    "label inference": "2.34±.25",
    "calibrated loss": "0.72±.15",
    "RMIA": "2.52±.32",
}
"""Twitter, without any noise: each attack's figure."""

FIGURE_1 = "label inference and calibrated loss come to similar figures"
FIGURE_5 = "RMIA slightly above both others at large epsilon"


def printed_cells(
    table: dict[str, str],
) -> dict[tuple[str, str], tuple[float, float | None] | None]:
    """Return (mechanism, epsilon) -> mean and deviation; None where a dash is printed."""
    cells = {}
    for mechanism, row in table.items():
        for epsilon, cell in zip(EPSILONS, row.split(), strict=True):
            mean, _, deviation = cell.partition("±")
            found = (float(mean), float(deviation) if deviation else None) if cell != "-" else None
            cells[mechanism, epsilon] = found
    return cells
