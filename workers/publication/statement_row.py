"""The public statement as it is stored, served and signed: one row of facts, two noisy figures."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

from pydantic import Field

from privcore.lower_bounds.seen_leaks import sensitive
from privcore.publication import NoisyWealth, PublicStatement, exactly
from workers.warehouse.exact_statement_row import StatementFacts
from workers.warehouse.table_row import Moment


class PublicVerdict(StrEnum):
    """Conclusion of a statement."""

    VIOLATED = "violated"
    NOT_REFUTED = "not_refuted"
    DOUBTFUL = "doubtful"
    VACUOUS = "vacuous"


def would_be_seen(columns: Mapping[str, Any]) -> bool:
    """Return whether a false declaration would probably have been refuted, as a gate asks it.

    The answer comes from columns that no label changes.
    """
    return sensitive(
        epsilon=columns["epsilon_declared"],
        epsilon_ceiling=columns["epsilon_ceiling"],
        epsilon_detectable=columns["epsilon_detectable"],
    )


class PublishedRow(StatementFacts):
    """Publication of one night: a statement, or an answer of a test over nights."""

    statement_id: str = Field(description="Name of the statement, 32 random hexadecimal digits.")
    revision: int = Field(description="How many statements there are of the same, this included.")
    published_at: Moment = Field(description="When it was published, UTC.")
    method_version: str = Field(description="Version of the method.")
    code_version: str = Field(description="Version of privaudit that computed it.")
    target_sha256: str | None = Field(description="Digest of the audited model's file.")
    proxy_sha256: str | None = Field(description="Digest of the proxy's file.")
    labels_commitment: str = Field(
        description="HMAC-SHA256 of the labels' digest under a nonce that the lake's side can give."
    )
    audit_commitment: str = Field(description="HMAC-SHA256 of the exact audit's id, likewise.")

    @property
    def charge(self) -> Fraction:
        """Privacy loss that publishing it adds for each label."""
        return exactly(self.epsilon_public)

    def content(self) -> str:
        """Return it as the one text that is stored, hashed and signed."""
        return self.model_dump_json()

    @property
    def seeing(self) -> bool:
        """True if a false declaration would probably have been refuted (`would_be_seen`)."""
        return would_be_seen(self.model_dump())


class Statement(PublishedRow):
    """One public statement. Of its columns the two figures alone, and what follows, read labels."""

    evidence_figure: int = Field(description="Its log-wealth in units of gap/64, with noise.")
    premises_figure: int = Field(description="Their log-wealth in units of gap/64, with noise.")
    verdict: PublicVerdict = Field(
        description="violated; not_refuted; doubtful (what the test assumes is), or vacuous."
    )
    pvalue: float = Field(description="Smallest significance at which the claim is refuted.")
    log_evalue: float | None = Field(
        description="Logarithm of an e-value against the claim. Null with few records."
    )
    premises_pvalue: float = Field(
        description="P-value of what the test assumes; at 0.1 or less nothing is concluded."
    )

    @property
    def _each(self) -> Fraction:
        """Privacy loss of one of the two figures."""
        return exactly(self.epsilon_public) / 2

    @property
    def figures(self) -> PublicStatement:
        """The statement's figures, from which verdict and p-values follow."""
        return PublicStatement(
            significance=self.significance,
            records=self.records,
            control=self.control_records,
            epsilon_ceiling=self.epsilon_ceiling,
            evidence=NoisyWealth(
                self._each, self.evidence_gap, self.evidence_figure, self.evidence_price
            ),
            premises=NoisyWealth(self._each, self.premises_gap, self.premises_figure),
        )


def verdict_of(figures: PublicStatement, *, vacuous: bool) -> PublicVerdict:
    """Return what follows from a statement's figures; of a vacuous claim nothing does."""
    if vacuous:
        return PublicVerdict.VACUOUS
    if figures.doubtful:
        return PublicVerdict.DOUBTFUL
    return PublicVerdict.VIOLATED if figures.refuted else PublicVerdict.NOT_REFUTED
