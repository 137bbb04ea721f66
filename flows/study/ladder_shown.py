"""Output of `privaudit ladder`: accuracy against promise and proof, and the price of choosing."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from flows.study.cells import CellRow
from flows.study.drawing import BLUE, GREEN, GREY, ORANGE, Axis, around, chart
from flows.study.runner import Shown
from flows.study.tables import binomial_error, paragraphs, table_of
from privcore.guarantees.composed import composed_epsilon
from privcore.rounding import ABSENT, down, guarantee, up

_COLORS = {"lp-1st": BLUE, "lp-2st": GREEN, "pate-gaussian": ORANGE, "none": GREY}


def shown(models: pl.DataFrame, *, label: str, seed: int, parameters: Mapping[str, Any]) -> Shown:
    """Return what there is to show of all models."""
    rows = models.to_dicts()
    table = table_of(
        "Accuracy, promise and proof",
        rows,
        {
            "mechanism": "{mechanism}",
            "promised": lambda row: guarantee(row["epsilon"], row["delta"]),
            "accuracy": "{accuracy:.1%}",
            "± error": lambda row: f"{binomial_error(row['accuracy'], row['held_out']):.1%}",
            "log-loss": "{log_loss:.3f}",
            "proved at least": lambda row: down(row["epsilon_lower"]),
            "ceiling": lambda row: up(row["epsilon_ceiling"]),
            "verdict": "{verdict}",
        },
        text=("mechanism", "verdict"),
        wide=("log-loss", "ceiling"),
    )
    drawing = chart(
        [
            {
                "x": "none" if row["epsilon"] is None else f"{row['epsilon']:g}",
                "series": row["mechanism"],
                **around(row["accuracy"], binomial_error(row["accuracy"], row["held_out"])),
            }
            for row in rows
        ],
        f"Accuracy of {label} on held-out rows, by promised epsilon",
        x=Axis("promised epsilon", order=[*(f"{one:g}" for one in _epsilons(rows)), "none"]),
        y=Axis("accuracy ± standard error"),
        colors=_COLORS,
    )
    setting = ", ".join(f"{name} {value}" for name, value in parameters.items())
    sentences = [*_about(rows, seed, setting), *choice(rows), *_without_figures(rows)]
    return Shown(sentences, [table], data={"ladder": models}, figures={"ladder": drawing})


def _epsilons(rows: Sequence[CellRow]) -> list[float]:
    return sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})


def _about(rows: Sequence[CellRow], seed: int, setting: str) -> list[str]:
    first = rows[0]
    return paragraphs(f"""
    Each model was trained on the same {first["trained_on"]:,} rows (CatBoost with {setting}; seed
    {seed}). A reference model was trained on as many other rows. Accuracy and log-loss are those on
    {first["held_out"]:,} held-out rows. A model that always predicts their most frequent class has
    an accuracy of {first["most_frequent"]:.1%}.

    Promised is what the mechanism keeps for each label, if its code is right. Proved is what the
    audit of this one model proves at significance 0.05. It is a lower bound: a small one does not
    show that little leaks.
    """)


def choice(rows: Sequence[CellRow]) -> list[str]:
    """Return what trying all models costs: the price of a choice by private labels."""
    kept = [(row["epsilon"], row["delta"]) for row in rows if row["epsilon"] is not None]
    delta = math.fsum(each for _, each in kept)
    composed = up(composed_epsilon(kept, delta=delta), decimals=3)
    promised = f"{composed} at delta {delta:.2g}" if delta else composed
    return paragraphs(f"""
    A choice of mechanism and epsilon by these accuracies is itself a release about the labels. The
    {len(kept)} protected models that were tried promise together {promised} (dp_accounting): this
    is what the labels they were trained on lose if all of these models become known. Count it, not
    the epsilon of the chosen model alone. The model without protection promises nothing and is not
    in this sum, so its figures must stay with people who may read the labels.

    The accuracies are exact, and no promise covers the labels of the held-out rows. A choice among
    {len(rows)} models tells at most {math.log2(len(rows)):.1f} bits about all of these labels
    together. A choice on public or expired rows tells nothing about private ones.

    Do not release the models of this trial: their noise follows from a known seed. Train the chosen
    one anew, on other rows or with the cost of the choice added to its declaration.
    """)


def _without_figures(rows: Sequence[CellRow]) -> list[str]:
    """Return why audits came to no figure, once for each reason."""
    reasons = dict.fromkeys(row["reason"] for row in rows if row["epsilon_lower"] is None)
    return [f"No bound ({ABSENT}): {reason}" for reason in reasons]
