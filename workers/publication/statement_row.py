"""The public statement as it is stored, served and signed: one row of facts, two noisy figures."""

import datetime as dt
from enum import StrEnum
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privcore.publication import NoisyWealth, exactly
from workers.plain_text import plain_text
from workers.warehouse.schema import Moment


class PublicVerdict(StrEnum):
    """What a statement concludes."""

    VIOLATED = "violated"
    NOT_REFUTED = "not_refuted"
    DOUBTFUL = "doubtful"
    VACUOUS = "vacuous"


class Statement(BaseModel):
    """One public statement. Of its columns the two figures alone, and what follows, read labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _make_text_plain(cls, values: Any) -> Any:
        """Make all text safe to show; a writer of the table may write anything."""
        if not isinstance(values, dict):
            return values
        return {
            name: plain_text(value) if type(value) is str else value
            for name, value in values.items()
        }

    statement_id: str = Field(description="Name of the statement, 32 random hexadecimal digits.")
    revision: int = Field(description="How many statements there are of the same, this included.")
    published_at: Moment = Field(description="When it was published, UTC.")
    model: str = Field(description="Name of the audited model.")
    day: dt.date = Field(description="Day whose training labels were audited.")
    dataset: str = Field(description="Dataset or table whose labels were scanned.")
    label_days: tuple[dt.date, ...] = Field(description="Days whose labels played.")
    labels_recur: bool = Field(description="Whether labels may play again on later nights.")
    method_version: str = Field(description="Version of the method.")
    code_version: str = Field(description="Version of privaudit that computed it.")
    target_sha256: str | None = Field(description="Digest of the audited model's file.")
    proxy_sha256: str | None = Field(description="Digest of the proxy's file.")
    labels_commitment: str = Field(
        description="HMAC-SHA256 of the labels' digest under a nonce that the lake's side can give."
    )
    audit_commitment: str = Field(description="HMAC-SHA256 of the exact audit's id, likewise.")
    family: str = Field(description="Family of the claim: pure_dp, approx_dp or gaussian.")
    epsilon_declared: float = Field(description="Epsilon that is tested.")
    delta_declared: float = Field(description="Delta of the claim.")
    neighbors: str = Field(description="Relation of the claim: replace or add_remove.")
    unit: str = Field(description="Whose labels the claim is for: record, or the declared unit.")
    by_policy: bool = Field(description="Whether the house's policy claims it, not the owner.")
    epsilon_accounted: float | None = Field(
        description="Epsilon computed from the declared mechanism's parameters. "
        "Null where no mechanism is declared."
    )
    significance: float = Field(description="Allowed probability that a refutation is wrong.")
    records: int = Field(description="Training records in the tables.")
    control_records: int = Field(description="Holdout records in the tables.")
    epsilon_ceiling: float = Field(
        description="The largest declared epsilon that so many records could refute."
    )
    epsilon_public: float = Field(description="Privacy loss of this statement for one label.")
    evidence_gap: float = Field(description="Gap of the bet against the claim, in log-odds.")
    evidence_price: float = Field(description="Share of the significance that delta costs.")
    evidence_figure: int = Field(description="Its log-wealth in units of gap/64, with noise.")
    premises_gap: float = Field(description="Gap of the bets against what the test assumes.")
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

    def content(self) -> str:
        """Return the statement as the one text that is stored, hashed and signed."""
        return self.model_dump_json()

    @property
    def _each(self) -> Fraction:
        """Privacy loss of one of the two figures."""
        return exactly(self.epsilon_public) / 2

    @property
    def evidence(self) -> NoisyWealth:
        """The figure against the claim."""
        return NoisyWealth(
            self._each,
            self.evidence_gap,
            self.evidence_figure,
            self.evidence_price,
        )

    @property
    def premises(self) -> NoisyWealth:
        """The figure against what the test assumes."""
        return NoisyWealth(self._each, self.premises_gap, self.premises_figure)
