"""What is declared: guarantees, families of guarantees, and their trade-off functions."""

from privcore.guarantees.families import (
    ApproxDP,
    Family,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    TradeOffTable,
    check_delta,
)

__all__ = [
    "ApproxDP",
    "Family",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "PureDP",
    "TradeOffTable",
    "check_delta",
]
