"""Next steps: the card of a record, which says what its verdict allows and what to do first.

A card is a pure decision over one row and computes no statistics: what the nights prove and would
have seen stands in the row. The first step of a reason is the same wherever it is read.
"""

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.rounding import down, exact, guarantee, odds_at_least, odds_at_most, up
from workers.lake.manifest import MAX_EPSILON, POLICY
from workers.warehouse.model_verdict import SOON
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import AuditRow
from workers.warehouse.table_row import typed_rows


class Role(StrEnum):
    """Role that takes a step."""

    OWNER = "model owner"
    ENGINEER = "privacy engineer"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do first."""

    role: Role
    text: str


_TEXTS = {
    Role.AUDITOR: {
        ReasonCode.THIS_NIGHT: "Do not serve it; repeat the audit from its inputs: privaudit "
        "verify {audit_id}.",
        ReasonCode.LEARNER_FORGETS: "Ask how epsilon was accounted for: this learner shows no more "
        "without any mechanism.",
        ReasonCode.LABELS_PRIVATISED: "Compare true labels with released ones: "
        "[models.released_labels], privaudit check-labels.",
    },
    Role.ENGINEER: {
        ReasonCode.MECHANISM_NOT_APPLIED: "Do not serve it; find the job that should have "
        "randomized the labels, and its log.",
        ReasonCode.NIGHTS_NEEDED: "Wait: nights like these are conclusive together{from_day}.",
        ReasonCode.TOO_SMALL: "Let the labels of several days play together (plan.days).",
        ReasonCode.PROXY_WRONG: "Let the model of the day before be the proxy, and see that it "
        "never read the holdout.",
        ReasonCode.HOLDOUT_SUSPECT: "See whether training leaves out exactly the rows that are "
        "called holdout.",
        ReasonCode.PERSONS_SPLIT: "Set plan.privacy_unit to the column of the person, and keep "
        "each row once.",
        ReasonCode.ANSWERS_DOUBTFUL: "Compare label, classes and columns with those of training; "
        "if a table of answers was audited, audit the model's file instead.",
        ReasonCode.RECORDS_REPEAT: "Name the column that tells one record from another: record, "
        "--record.",
        ReasonCode.CHOSEN_PLAN: "Run it again without a plan of your own.",
        ReasonCode.PROXY_UNUSABLE: "Name an earlier model (proxy) that was trained before the "
        "day's labels.",
        ReasonCode.LABELS_MISSING: "See whether the day's labels were written, _SUCCESS last.",
        ReasonCode.SETUP_WRONG: "Correct the column or setting that is named.",
        ReasonCode.NOT_RUN: "Audit the day afterwards: privaudit backfill.",
    },
    Role.OWNER: {
        ReasonCode.NIGHTS_TOGETHER: "Do not serve it; find the first night of the leak on its page "
        "of the report.",
        ReasonCode.EARLIER_NIGHT: "Do not serve it; read which night it was: privaudit show "
        "--model {model} --all.",
        ReasonCode.FEW_HELD_OUT: "{hold_out}",
        ReasonCode.NIGHTS_REPEAT: "Draw a new holdout every day: the same rows add nothing.",
        ReasonCode.ARMS_UNLIKE: "Draw the holdout at random, after any sampling of rows.",
        ReasonCode.ROWS_UNACCOUNTED: "Let the job that trains write the rows that are audited.",
        ReasonCode.READS_MORE: "Name what the mechanism reads beside the label: reads, --reads.",
        ReasonCode.DECLARATION_EMPTY: "Declare label_dp with a delta below one over the rows, and "
        "a smaller epsilon.",
        ReasonCode.DELTA_DECIDES: "Declare a smaller delta.",
        ReasonCode.OVER_POLICY: "Train with, and declare, at most what policy allows "
        "(plan.policy_epsilon, [policy]).",
        ReasonCode.NOTHING_DECLARED: "Declare an epsilon for the audited unit{below}.",
        ReasonCode.MODEL_MISSING: "See whether the day's training ended, and where its model lies.",
        ReasonCode.MODEL_UNREADABLE: "Open the model's file with privaudit check.",
        ReasonCode.SCORES_WRONG: "See whether the scoring job ended, and look at the record that "
        "is named.",
        ReasonCode.MANIFEST_WRONG: "Correct the field that is named (privaudit manifest writes "
        "one).",
    },
}
_STEPS = {code: Step(role, text) for role, own in _TEXTS.items() for code, text in own.items()}

SERVE = Step(Role.OWNER, "Serve the model, and keep the nightly audit: evidence adds up.")
"""What to do where nothing is wrong and nothing is missing."""


def step_of(code: ReasonCode | None, row: AuditRow, conclusive_on: dt.date | None = None) -> Step:
    """Return what to do first.

    Args:
        code: why the verdict is what it is; None for `not_refuted`.
        row: the record.
        conclusive_on: day from which on nights together are conclusive, where it is known.
    """
    if code is None:
        return SERVE
    step, proved = _STEPS[code], row.epsilon_lower
    text = step.text.format(
        audit_id=row.audit_id[:8],
        model=row.model,
        hold_out=_hold_out(row),
        below=f"; one below {down(proved)} would be refuted" if proved else "",
        from_day=f" from {conclusive_on} on" if conclusive_on else "",
    )
    return Step(step.role, text)


def _hold_out(row: AuditRow) -> str:
    """Say how many more rows the next audit needs."""
    there = row.control_records or 0
    more = "" if row.holdout_needed is None else f"about {_rounded_up(row.holdout_needed - there)} "
    return f"Hold out {more}more rows of a day like this one, at random, before training."


def _rounded_up(rows: int) -> str:
    """Return a number of rows with two digits, rounded up: 1,873 -> "1,900"."""
    unit = 10 ** max(0, len(str(max(rows, 1))) - 2)
    return f"{math.ceil(max(rows, 1) / unit) * unit:,}"


_STANDS_IN = {POLICY: "No declaration; policy", MAX_EPSILON: "Limit"}
"""Words for the limit of the bound where an owner declares nothing, by `declared_by`."""
_ALLOWS = {
    Verdict.VIOLATED: "Do not release the model under this declaration.",
    Verdict.FAILED: "Nothing was measured, which allows nothing. This is not a zero.",
    Verdict.INCONCLUSIVE: "This is no argument for a release: a false declaration would probably "
    "have looked the same.",
    Verdict.NOT_REFUTED: "This is no reason against a release. It does not prove that the "
    "declaration is kept.",
    Verdict.UNDECLARED: "There is nothing to hold the bound against, so this allows nothing.",
}


CODES = {
    Verdict.NOT_REFUTED: 0,
    Verdict.VIOLATED: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.UNDECLARED: 2,
    Verdict.FAILED: 3,
}
"""Exit codes of a command that asks whether a model may be released: 0 alone says that it may."""


@dataclass(frozen=True, slots=True)
class Card:
    """Advice to a reader of one record.

    Attributes:
        verdict: of the nights together; of the night where it stands alone.
        code: why; None for `not_refuted`.
        figures: declared, proved, and what would have been seen; "" where there are none.
        seen: what would have been seen, of these; "" where that is in doubt.
        stands_on: whose evidence `not_refuted` stands on; "" beside other verdicts.
        odds: the same figures as odds; "" where there are none.
    """

    verdict: Verdict
    code: ReasonCode | None
    figures: str
    seen: str
    allows: str
    stands_on: str
    odds: str
    step: Step

    @property
    def said(self) -> str:
        """The verdict and its reason: "inconclusive: few_held_out"."""
        return f"{self.verdict}: {self.code}" if self.code else str(self.verdict)

    @property
    def line(self) -> str:
        """The card in one line: the verdict and the first step."""
        return f"{self.said}. Next ({self.step.role}): {self.step.text}"


def card_of(row: AuditRow) -> Card:
    """Return the card of a record; of its model's nights together where the row knows them."""
    verdict, code, night = Verdict(row.verdict), row.reason_code, None
    if isinstance(row, AuditedNight) and row.verdict_together is not None:
        verdict, code, night = Verdict(row.verdict_together), row.reason_code_together, row
    known = None if code is None else ReasonCode(code)
    held, seen = _held(row, verdict, known, night), _would_see(row, verdict, known, night)
    return Card(
        verdict=verdict,
        code=known,
        figures=" ".join(filter(None, (held, seen))),
        seen=seen,
        allows=_ALLOWS[verdict],
        stands_on=row.trust.stands_on if verdict is Verdict.NOT_REFUTED else "",
        odds=_odds(row),
        step=step_of(known, row, None if night is None else night.conclusive_on),
    )


def _held(
    row: AuditRow, verdict: Verdict, code: ReasonCode | None, night: AuditedNight | None
) -> str:
    if row.epsilon_lower is None:
        return ""
    bound, declared = row.epsilon_lower, row.epsilon_declared
    told = down(bound, beyond=declared)
    more = "more than" if bound == declared else "at least"
    proved = f"proved {more} {told}" if bound else "nothing proved"
    if declared is None:
        return f"Nothing declared, {proved}."
    word = _STANDS_IN.get(row.declared_by or "", "Declared")
    said = f"{word} {guarantee(declared, row.delta_declared)}, {proved}"
    if code is ReasonCode.NIGHTS_TOGETHER and verdict is Verdict.VIOLATED and night is not None:
        together = f"the nights together refute the declarations ({down(night.epsilon_standing)})"
        said = f"{said}; {together}"
    file = with_file(row)
    return f"{said} with the answers. With the file: {file}." if file else f"{said}."


def with_file(row: AuditRow) -> str:
    """Say what the model's file shows of the labels that training read; "" where it is not asked.

    An interval of a file that its writer altered confirms a rate of changed labels, never chance.
    """
    if row.file_unread is not None:
        return f"not read, because {row.file_unread}"
    if row.file_records is None or row.file_labels_read is None:
        return ""
    low, high = row.file_epsilon_low, row.file_epsilon_high
    if row.reason_code == ReasonCode.MECHANISM_NOT_APPLIED:
        found = "the table's labels unchanged"
    elif low is None:
        found = "no randomized response of the table's labels"
    else:
        to = "or more" if high is None else f"to {up(high)}"
        found = f"randomized response at {down(low)} {to}"
    return f"{found}, {row.file_labels_read:,} of {row.file_records:,} labels read"


def with_answers(row: AuditRow) -> str:
    """Say what the model's answers prove."""
    return f"at least {down(row.epsilon_lower)}" if row.epsilon_lower else "nothing is proved"


def _would_see(
    row: AuditRow, verdict: Verdict, code: ReasonCode | None, night: AuditedNight | None
) -> str:
    """Say what would have been seen, where it is of use and not in doubt."""
    declared = row.epsilon_declared
    if row.epsilon_lower is None or declared is None:
        return "" if row.epsilon_lower is None else _seen(row, night)
    if verdict is Verdict.VIOLATED or (code is not None and not code.by_size):
        return ""
    needed = ""
    if verdict is Verdict.INCONCLUSIVE:
        needed = f" To be conclusive they have to see {exact(leak_to_be_seen(declared))}"
        needed += f"{_when(code, night)}."
    return f"{_seen(row, night)}{needed}{_drill(row, verdict, night)}"


def _when(code: ReasonCode | None, night: AuditedNight | None) -> str:
    """Say when nights like these will be conclusive together, where that is known."""
    if night is None:
        return ""
    if night.conclusive_on is not None:
        return f", as they will from {night.conclusive_on} on"
    never = {ReasonCode.FEW_HELD_OUT, ReasonCode.TOO_SMALL}
    return f", which {SOON} more nights like these will not" if code in never else ""


def _seen(row: AuditRow, night: AuditedNight | None) -> str:
    """Say which leak would have been seen, by the night alone and by the nights together."""
    alone = leak_words(row.sees_from)
    if night is None or not night.nights_together or night.nights_together == 1:
        shown = "" if row.sees_from is None else ", if every label had shown it"
        return f"This night would probably have seen {alone}{shown}."
    shown = "" if night.sees_from_together is None else ", if every label of all had shown it"
    return (
        f"Its {night.nights_together} nights together would probably have seen "
        f"{leak_words(night.sees_from_together)}{shown} (this night alone: {alone})."
    )


def seen_from(night: AuditRow) -> float | None:
    """Return the least leak that the nights together would have seen; None of no leak."""
    together = night.sees_from_together if isinstance(night, AuditedNight) else None
    return night.sees_from if together is None else together


def leak_words(leak: float | None) -> str:
    """Return from which leak on one would have been seen, in words."""
    return "no leak, however large" if leak is None else f"a leak from {up(leak)} on"


def _drill(row: AuditRow, verdict: Verdict, night: AuditedNight | None) -> str:
    """Say whether a dropped mechanism would have been seen."""
    if verdict is not Verdict.NOT_REFUTED and night is None:
        return ""
    if night is None or night.drill_refuted_after is None:
        untested = " It is untested whether this learner would show a dropped mechanism."
        return untested if verdict is Verdict.NOT_REFUTED else ""
    twin = f"the same learner without a mechanism (drill: {row.drill})"
    if night.drill_refuted_after == 0:
        return f" Nor is {twin} refuted: this learner shows no dropped mechanism."
    return (
        f" {twin[0].upper()}{twin[1:]} was refuted on its night "
        f"{night.drill_refuted_after}: a dropped mechanism would have been seen."
    )


def _odds(row: AuditRow) -> str:
    if row.epsilon_lower is None:
        return ""
    parts = []
    if row.epsilon_declared is not None:
        times = f"e^{exact(row.epsilon_declared)} times"
        parts.append(f"at most {odds_at_most(row.epsilon_declared)} as declared ({times})")
    if row.epsilon_lower > 0.0:
        parts.append(f"at least {odds_at_least(row.epsilon_lower)} as proved")
    if not parts:
        return ""
    return f"Seeing the model turns even odds for a label into {', '.join(parts)}."


def rank_of(verdict: Verdict, code: ReasonCode | None) -> int:
    """Return how early a reader should see a model, 0 first."""
    if verdict is Verdict.INCONCLUSIVE:
        return 3 if code is None or code.by_size else 2
    return {Verdict.VIOLATED: 0, Verdict.FAILED: 1, Verdict.NOT_REFUTED: 4}.get(verdict, 5)


def counted(verdicts: Sequence[str]) -> str:
    """Return how many models have which verdict, the worst first."""
    if not verdicts:
        return "No audit."
    return ", ".join(f"{verdicts.count(word)} {word}" for word in Verdict if word in verdicts) + "."


def with_next_steps(audits: pl.DataFrame) -> pl.DataFrame:
    """Return audits with `next_who` and `next_step`, the worst model first.

    Of one model the newest comes first.
    """
    cards = cards_of(audits)
    ranks = [rank_of(card.verdict, card.code) for card in cards]
    return (
        audits.with_columns(
            pl.Series("next_who", [card.step.role for card in cards], dtype=pl.String),
            pl.Series("next_step", [card.step.text for card in cards], dtype=pl.String),
            pl.Series("rank", ranks, dtype=pl.Int64),
        )
        .sort("rank", "model", "secret", "day", descending=[False, False, False, True])
        .drop("rank")
    )


def cards_of(audits: pl.DataFrame) -> list[Card]:
    """Return the card of each current record, as `with_windows` returns them."""
    return [card_of(night) for night in typed_rows(AuditedNight, audits)]


def exit_code(words: Iterable[tuple[Verdict, ReasonCode | None]], *, strict: bool = False) -> int:
    """Return 1 violated, 3 failed, 2 a doubt or an empty declaration, 0 else: the first of them.

    Args:
        words: verdict and reason of each audited model, of its nights together.
        strict: whether an audit that is inconclusive by size ends with 2, too.
    """

    def one(verdict: Verdict, code: ReasonCode | None) -> int:
        if verdict is Verdict.INCONCLUSIVE:
            return 0 if code is not None and code.by_size and not strict else 2
        return {Verdict.VIOLATED: 1, Verdict.FAILED: 3}.get(verdict, 0)

    codes = {one(*word) for word in words}
    # A violation must not hide behind a model that could not be evaluated.
    return next((code for code in (1, 3, 2) if code in codes), 0)
