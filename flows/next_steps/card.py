"""The next-step card of a record: what it concludes, what that allows, and what to try next.

It is a pure decision over one row and computes no statistics: how large a leak the audit could
have seen, and how many rows it lacks, stand in the record (`privcore.lower_bounds.power`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from flows.next_steps import steps as known
from flows.next_steps.steps import Role, Step, in_order, pipeline
from privcore.lower_bounds import MISLED, Verdict, leak_to_be_seen, sensitive
from privcore.rounding import at_least, exact, guarantee, odds_at_least, odds_at_most, up
from workers.lake.manifest import MAX_EPSILON, POLICY
from workers.remark import RemarkKind
from workers.warehouse.schema import AuditRow, Status

DOUBTFUL_ARMS = 0.01
"""P-value of the arms' comparison up to which bets against the proxy could not win."""

_STANDS_IN = {POLICY: "No declaration; policy", MAX_EPSILON: "Limit"}
"""Words for the limit of the bound where an owner declares nothing, by `declared_by`."""


class Conclusion(StrEnum):
    """Conclusion that a reader may draw."""

    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    INCONCLUSIVE = "inconclusive"
    DOUBTFUL = "doubtful"
    UNDECLARED = "nothing declared"
    PRIVATISED = "labels privatised before training"
    NO_PROMISE = "the declaration promises nothing"
    NO_FIGURE = "no figure"


_ALLOWS = {
    Conclusion.REFUTED: "Do not release the model under this declaration.",
    Conclusion.NOT_REFUTED: "The audit is no reason against a release under this declaration: it "
    "would probably have seen a larger leak. It does not prove that the declaration is kept.",
    Conclusion.INCONCLUSIVE: "The audit is no argument for a release: a false declaration would "
    "probably have looked the same.",
    Conclusion.DOUBTFUL: "The audit is no argument for a release: what it was shown gives cause to "
    "doubt that a leak would have been seen.",
    Conclusion.UNDECLARED: "The audit can be held against no limit, so it allows nothing.",
    Conclusion.PRIVATISED: "The guarantee of the labels' own mechanism holds whatever training "
    "does. The audit says nothing about that mechanism.",
    Conclusion.NO_PROMISE: "Do not rely on this declaration: it protects no label.",
    Conclusion.NO_FIGURE: "The audit measured nothing, so it allows nothing. This is not a zero.",
}


@dataclass(frozen=True, slots=True)
class Card:
    """Advice to a reader of one record.

    Attributes:
        conclusion: in a few fixed words.
        figures: declared, proved, and what the audit could have seen; "" where there are none.
        allows: what the conclusion allows.
        odds: the same figures as odds; "" where there are none.
        steps: what to try next, the cheapest first; at least one.
    """

    conclusion: Conclusion
    figures: str
    allows: str
    odds: str
    steps: tuple[Step, ...]

    @property
    def by_role(self) -> tuple[Step, ...]:
        """The steps by role: owner, engineer, auditor; within a role the cheapest first."""
        roles = list(Role)
        return tuple(sorted(self.steps, key=lambda step: roles.index(step.role)))

    @property
    def line(self) -> str:
        """The card in one line: its conclusion and the first step."""
        first = self.steps[0]
        return f"{self.conclusion}. Next ({first.role}, {first.cost}): {first.text}"


def conclusion_of(row: AuditRow, *, stands_violated: bool = False) -> Conclusion:
    """Return what a reader may conclude of a record."""
    verdict = Verdict(row.verdict)
    if verdict is Verdict.VIOLATED or stands_violated:
        return Conclusion.REFUTED
    fixed = {
        Verdict.PROXY_UNFAITHFUL: Conclusion.INCONCLUSIVE,
        Verdict.DOUBTFUL: Conclusion.DOUBTFUL,
        Verdict.UNDECLARED: Conclusion.UNDECLARED,
        Verdict.PRIVATISED: Conclusion.PRIVATISED,
        Verdict.VACUOUS: Conclusion.NO_PROMISE,
        Verdict.NOT_A_GUARANTEE: Conclusion.NO_PROMISE,
        Verdict.NOT_EVALUABLE: Conclusion.NO_FIGURE,
    }
    if verdict in fixed:
        return fixed[verdict]
    seeing = row.epsilon_declared is not None and sensitive(
        epsilon=row.epsilon_declared,
        epsilon_ceiling=row.epsilon_ceiling,
        epsilon_detectable=row.epsilon_detectable,
    )
    return Conclusion.NOT_REFUTED if seeing else Conclusion.INCONCLUSIVE


def card_of(row: AuditRow, *, stands_violated: bool = False) -> Card:
    """Return the card of a record."""
    conclusion = conclusion_of(row, stands_violated=stands_violated)
    return Card(
        conclusion=conclusion,
        figures=_figures(row, conclusion, stands_violated=stands_violated),
        allows=_ALLOWS[conclusion],
        odds=_odds(row),
        steps=_steps(row, conclusion),
    )


def _steps(row: AuditRow, conclusion: Conclusion) -> tuple[Step, ...]:
    """Return what to try next, the cheapest first."""
    fixed: dict[str, tuple[Step, ...]] = {
        Verdict.UNDECLARED: known.UNDECLARED,
        Verdict.PRIVATISED: known.PRIVATISED,
        Verdict.VACUOUS: known.VACUOUS,
        Verdict.NOT_A_GUARANTEE: known.NOT_A_GUARANTEE,
        Verdict.DOUBTFUL: _doubtful_steps(row),
    }
    if conclusion is Conclusion.REFUTED:
        return in_order(list(known.REFUTED))
    if conclusion is Conclusion.NO_FIGURE:
        return known.ERROR_STEPS if row.status is Status.ERROR else known.steps_for(row.reason_code)
    if row.verdict in fixed:
        return in_order(list(fixed[row.verdict]))
    if conclusion is Conclusion.NOT_REFUTED:
        return in_order(list(known.NOT_REFUTED))
    return in_order(_inconclusive_steps(row))


def _doubtful_steps(row: AuditRow) -> tuple[Step, ...]:
    """Return what settles a record's doubts."""
    suspect = RemarkKind.HOLDOUT_SUSPECT in (row.remarks or ())
    return (*known.DOUBTFUL, *(known.HOLDOUT_SUSPECT if suspect else ()))


def _inconclusive_steps(row: AuditRow) -> list[Step]:
    """Return what makes the next audit conclusive, the cause that is known first."""
    steps: list[Step] = []
    if row.verdict == Verdict.PROXY_UNFAITHFUL:
        steps += known.PROXY_UNFAITHFUL
    if _at_most(row.arms_pvalue, DOUBTFUL_ARMS) or _at_most(row.misled_pvalue, MISLED):
        steps += known.BETS_HELD_BACK
    elif row.holdout_needed is not None:
        steps.append(pipeline(Role.OWNER, _hold_out(row)))
    else:
        steps.append(
            pipeline(
                Role.OWNER, "Collect more rows: with so few records, no holdout is large enough."
            )
        )
    return [*steps, *known.TOO_SMALL]


def _hold_out(row: AuditRow) -> str:
    """Say how many more rows, or decoys, the next audit needs."""
    decoys = row.decoy_records is not None
    there = (row.decoy_records if decoys else row.control_records) or 0
    more = _rounded_up((row.holdout_needed or 0) - there)
    if decoys:
        return f"Draw about {more} more decoys with two different labels (privaudit decoys)."
    return f"Hold out about {more} more rows of a day like this one, at random, before training."


def _rounded_up(rows: int) -> str:
    """Return a number of rows with two digits, rounded up: 1,873 -> "1,900"."""
    unit = 10 ** max(0, len(str(max(rows, 1))) - 2)
    return f"{math.ceil(max(rows, 1) / unit) * unit:,}"


def _at_most(pvalue: float | None, limit: float) -> bool:
    return pvalue is not None and pvalue <= limit


def _figures(row: AuditRow, conclusion: Conclusion, *, stands_violated: bool) -> str:
    """Say what was declared and proved, and what the audit could have seen."""
    if row.epsilon_lower is None:
        return ""
    bound, declared = row.epsilon_lower, row.epsilon_declared
    beyond = declared if declared is not None and bound > declared else 0.0
    proved = f"proved at least {at_least(bound, beyond=beyond)}" if bound else "nothing proved"
    if declared is None:
        return f"Nothing declared, {proved}. {_seen(row)}".strip()
    word = _STANDS_IN.get(row.declared_by or "", "Declared")
    said = f"{word} {guarantee(declared, row.delta_declared)}, {proved}"
    if conclusion is Conclusion.REFUTED:
        together = "; the nights together refute the declarations"
        return f"{said}{together if stands_violated and bound <= declared else ''}."
    if conclusion is Conclusion.DOUBTFUL:  # what would have been seen is what is in doubt
        return f"{said}, ceiling {up(row.epsilon_ceiling)}."
    needed = ""
    if conclusion is Conclusion.INCONCLUSIVE:
        needed = (
            f" A conclusive audit has a ceiling above {exact(declared)}, and probably sees a leak "
            f"of {exact(leak_to_be_seen(declared))}."
        )
    return f"{said}, ceiling {up(row.epsilon_ceiling)}. {_seen(row)}{needed}"


def _seen(row: AuditRow) -> str:
    """Say which leak the audit would have seen."""
    if row.epsilon_detectable is None:
        return "No leak of all labels, however large, would have been detected."
    what = "have shown" if row.epsilon_declared is None else "have refuted the declaration"
    return f"A leak of {up(row.epsilon_detectable)} of every label would probably {what}."


def _odds(row: AuditRow) -> str:
    """Say the figures as odds."""
    if row.epsilon_lower is None:
        return ""
    parts = []
    if row.epsilon_declared is not None:
        times = f"e^{exact(row.epsilon_declared)} times"
        parts.append(f"at most {odds_at_most(row.epsilon_declared)} as declared ({times})")
    if row.epsilon_lower > 0.0:
        parts.append(f"at least {odds_at_least(row.epsilon_lower)} as proved")
    said = f"Seeing the model turns even odds for a label into {', '.join(parts)}." if parts else ""
    if row.epsilon_detectable is None or row.verdict == Verdict.DOUBTFUL:
        return said
    leak = odds_at_most(row.epsilon_detectable)
    return f"{said} A leak of {leak} would probably have been detected.".strip()


def cards_of(audits: pl.DataFrame) -> Iterator[tuple[dict[str, Any], Card]]:
    """Yield each row with its card.

    Args:
        audits: current records with the column `standing`, as `with_windows` returns them. Columns
            that no record has are passed over; a NaN counts as no figure.
    """
    for row in audits.iter_rows(named=True):
        yield row, _card_of(row)


def _card_of(row: dict[str, Any]) -> Card:
    given = {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
        if name in AuditRow.model_fields
    }
    audit = AuditRow.model_validate(given)
    return card_of(audit, stands_violated=row["standing"] == Verdict.VIOLATED)


def next_steps_table(audits: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each record: day, model, secret, conclusion, who and next step."""
    names = ("day", "model", "secret", "conclusion", "who", "costs", "next_step")
    rows = [
        (*(row[name] for name in names[:3]), card.conclusion, first.role, first.cost, first.text)
        for row, card in cards_of(audits)
        for first in card.steps[:1]
    ]
    schema = pl.Schema({name: pl.Date() if name == "day" else pl.String() for name in names})
    return pl.DataFrame(rows, schema=schema, orient="row")
