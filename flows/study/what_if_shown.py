"""Page of `privaudit what-if`: bound and accuracy of a boosted model, round by round."""

from collections.abc import Sequence

import polars as pl

from flows.study.drawing import BLUE, RED, Axis, Panels, Point, chart
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
    curves: dict[str, list[float | None]] = {
        _BOUND: [one.epsilon_lower for one in rounds],
        _ACCURACY: [one.accuracy for one in rounds],
    }
    return [
        {"x": one.rounds, "y": value, "series": name, "panel": name}
        for name, values in curves.items()
        for one, value in zip(rounds, values, strict=True)
        if value is not None
    ]


def shown(found: Sequence[Variant]) -> Shown:
    """Return the page: its words, a table of all variants, and the two curves."""
    rows = [
        {
            "variant": one.variant,
            "rounds": one.rounds,
            "epsilon_lower": one.epsilon_lower,
            "accuracy": one.accuracy,
            "log_loss": one.log_loss,
            "reason": one.reason,
        }
        for one in found
    ]
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
    points = curve_points(found)
    data = {"what_if": pl.DataFrame(rows, infer_schema_length=None)}
    if not points:
        return Shown(sentences, [table], data=data)
    drawing = chart(
        points,
        "Bound and accuracy after each tenth of the rounds",
        x=Axis("rounds"),
        y=Axis(None),
        colors={_BOUND: RED, _ACCURACY: BLUE},
        panels=Panels([_BOUND, _ACCURACY], (300, 220), own_scales=True),
    )
    return Shown(sentences, [table], data=data, figures={"rounds": drawing})
