"""Page of `privaudit what-if`: bound and accuracy of a boosted model, round by round."""

from collections.abc import Sequence
from dataclasses import asdict

import polars as pl

from flows.study.drawing import Axis, Point, chart, points_of
from flows.study.runner import Shown
from flows.study.tables import table_of
from privcore.rounding import ABSENT, down
from workers.audit.what_if import Variant

FLAT = 0.005
"""Accuracy within this of the whole model's is called as good."""
ADVICE = (
    "Advice and no guarantee: a bound of 0 does not show that nothing leaks, and choosing by "
    "private labels spends some of their privacy."
)
_BOUND, _ACCURACY = "proved epsilon", "accuracy on holdout rows"


def by_rounds(found: Sequence[Variant]) -> list[Variant]:
    """Return the variants that differ in their rounds, the whole model last."""
    rounds = [one for one in found if one.rounds is not None]
    return sorted(rounds, key=lambda one: one.rounds or 0)


def rounds_sentence(found: Sequence[Variant]) -> str:
    """Return where the leak begins and accuracy ends to grow, in words; nothing without rounds."""
    rounds = by_rounds(found)
    if len(rounds) < 2:
        return ""
    whole = rounds[-1]
    leaking = [one for one in rounds if one.epsilon_lower]
    begins = (
        f"A leak is first proved at round {leaking[0].rounds}" if leaking else "No leak is proved"
    )
    short = [place for place, one in enumerate(rounds) if one.accuracy < whole.accuracy - FLAT]
    flat = rounds[short[-1] + 1 if short else 0]
    return (
        f"{begins}; from round {flat.rounds} on, accuracy stays within {FLAT:.1%} of all "
        f"{whole.rounds} rounds', or above."
    )


def curve_points(found: Sequence[Variant]) -> list[Point]:
    """Return the points of both curves; none of a model without rounds.

    A round without a bound has no point on the curve of bounds, since it is not 0.
    """
    rounds = by_rounds(found)
    if len(rounds) < 2:
        return []
    rows = [asdict(one) for one in rounds]
    bounds = points_of(rows, "rounds", {"epsilon_lower": _BOUND}, panel=_BOUND)
    return bounds + points_of(rows, "rounds", {"accuracy": _ACCURACY}, panel=_ACCURACY)


def shown(found: Sequence[Variant]) -> Shown:
    """Return the page: its words, a table of all variants, and the two curves."""
    rows = [asdict(one) for one in found]
    table = table_of(
        "Bound and accuracy of each variant",
        rows,
        {
            "variant": "{variant}",
            "rounds": lambda row: ABSENT if row["rounds"] is None else str(row["rounds"]),
            "proved": lambda row: down(row["epsilon_lower"]),
            "accuracy": "{accuracy:.4f}",
            "log-loss": "{log_loss:.4f}",
            "why no bound": "{reason}",
        },
        text=("variant", "why no bound"),
    )
    sentences = [line for line in (rounds_sentence(found), ADVICE) if line]
    figures = {}
    if points := curve_points(found):
        figures["rounds"] = chart(
            points,
            "Bound and accuracy after each tenth of the rounds",
            x=Axis("rounds"),
            y=Axis(None, own_scales=True),
            colors={_BOUND: "red", _ACCURACY: "blue"},
            size=(300, 220),
        )
    data = {"what_if": pl.DataFrame(rows, infer_schema_length=None)}
    return Shown(sentences, [table], data=data, figures=figures)
