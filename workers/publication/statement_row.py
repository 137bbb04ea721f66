"""The public statement as it is stored, shown and signed: public facts, two noisy figures."""

import hashlib
import json
from fractions import Fraction
from typing import Literal

from pydantic import Field, ValidationError

from privcore.exceptions import TerminalError
from privcore.lower_bounds.question import conclusive
from privcore.lower_bounds.verdicts import Verdict
from privcore.publication import NoisyWealth, PublicStatement, exactly
from privcore.rounding import guarantee, up
from workers.warehouse.exact_statement_row import StatementFacts
from workers.warehouse.table_row import Moment

_SAME = (
    "model",
    "day",
    "dataset",
    "label_days",
    "method_version",
    "target_sha256",
    "proxy_sha256",
    "family",
    "epsilon_declared",
    "delta_declared",
    "neighbors",
    "unit",
    "by_policy",
    "epsilon_public",
)
"""Fields that make two audits the same to the public: none that a label changes."""
_SHOWN = 60
"""Letters of a strange entry that an error shows."""


PublicVerdict = Literal[Verdict.VIOLATED, Verdict.NOT_REFUTED, Verdict.INCONCLUSIVE]


class NoStatementError(TerminalError):
    """An entry of the statements' table is no statement of this version."""


class Statement(StatementFacts):
    """One public statement. Of its columns the two figures alone, and what follows, read labels."""

    statement_id: str = Field(description="Name of the statement, 32 random hexadecimal digits.")
    published_at: Moment = Field(description="When it was published, UTC.")
    method_version: str = Field(description="Version of the method.")
    code_version: str = Field(description="Version of privaudit that computed it.")
    target_sha256: str | None = Field(description="Digest of the audited model's file.")
    proxy_sha256: str | None = Field(description="Digest of the proxy's file.")
    evidence_figure: int = Field(description="Its log-wealth in units of gap/64, with noise.")
    premises_figure: int = Field(description="Their log-wealth in units of gap/64, with noise.")
    verdict: PublicVerdict = Field(
        description="violated; not_refuted; or inconclusive: the declaration says nothing, what "
        "the test assumes is in doubt, or a false declaration would probably have looked the same."
    )
    pvalue: float = Field(description="Smallest significance at which the claim is refuted.")
    log_evalue: float | None = Field(
        description="Logarithm of an e-value against the claim. Null with few records."
    )
    premises_pvalue: float = Field(
        description="P-value of what the test assumes; at 0.1 or less nothing is concluded."
    )

    @property
    def charge(self) -> Fraction:
        """Privacy loss that publishing it adds for each label."""
        return exactly(self.epsilon_public)

    def content(self) -> str:
        """Return it as the one text that is stored."""
        return self.model_dump_json()

    @property
    def figures(self) -> PublicStatement:
        """The statement's figures, from which verdict and p-values follow."""
        each = self.charge / 2
        return PublicStatement(
            significance=self.significance,
            records=self.records,
            control=self.control_records,
            epsilon_ceiling=self.epsilon_ceiling,
            evidence=NoisyWealth(
                each, self.evidence_gap, self.evidence_figure, self.evidence_price
            ),
            premises=NoisyWealth(each, self.premises_gap, self.premises_figure),
        )


def sentence_of(made: Statement) -> str:
    """Return what a statement says of a model's day."""
    declared = guarantee(made.epsilon_declared, made.delta_declared)
    if made.verdict is Verdict.VIOLATED:
        return (
            f"The declared {declared} is refuted (p = {up(made.pvalue, decimals=4)}). The "
            "statement is private for labels, so it holds no figure of the audit itself: people "
            "who may read the labels find these in the exact record."
        )
    if made.declaration_empty:
        return f"The declared {declared} says nothing of so many records, whatever was audited."
    if made.figures.doubtful:
        return (
            f"What the test assumes is in doubt (p = {up(made.premises_pvalue, decimals=4)}), so "
            "nothing is concluded: labels of training and holdout records may differ, or an "
            "earlier model may have seen the holdout."
        )
    if made.sees_from is None:
        seen = "no leak, however large"
    else:
        seen = f"a leak from {up(made.sees_from)} on, if every label had shown it"
    if made.verdict is Verdict.INCONCLUSIVE:
        return (
            f"The declared {declared} is not refuted, and a false declaration would probably have "
            f"looked the same: such an audit would probably have seen {seen}. Nothing is concluded."
        )
    return (
        f"The declared {declared} is not refuted. Such an audit would probably have seen {seen}. "
        "That is no proof that the guarantee is kept."
    )


def verdict_of(facts: StatementFacts, figures: PublicStatement) -> PublicVerdict:
    """Return what follows from a statement's facts and figures.

    Nothing follows from an empty declaration or under doubtful assumptions. What is not refuted is
    `not_refuted` where a false declaration would probably have been refuted: no label decides that.
    """
    if facts.declaration_empty or figures.doubtful:
        return Verdict.INCONCLUSIVE
    if figures.refuted:
        return Verdict.VIOLATED
    seeing = conclusive(
        facts.epsilon_declared, epsilon_ceiling=facts.epsilon_ceiling, sees_from=facts.sees_from
    )
    return Verdict.NOT_REFUTED if seeing else Verdict.INCONCLUSIVE


def statement_from(content: str) -> Statement:
    """Return the statement that a stored text holds.

    Raises:
        NoStatementError: it holds none that this version knows.
    """
    try:
        return Statement.model_validate_json(content)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "all of it"
        raise NoStatementError(
            f"The statements' table holds {content[:_SHOWN]!a}, which is no statement ({where} is "
            "wrong): restore the table from a copy, since the audit alone writes there, or use the "
            "newer version of privaudit that wrote it."
        ) from None


def named_by(row: StatementFacts) -> list[str]:
    """Return what makes two audits the same to the public, each as text."""
    return [str(getattr(row, name)) for name in _SAME]


def subject_of(row: StatementFacts) -> str:
    """Return the digest of what makes two audits the same to the public, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(named_by(row)).encode()).hexdigest()
