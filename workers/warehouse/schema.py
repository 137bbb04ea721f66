"""The rows of the warehouse: what an audit leaves behind, column by column."""

import datetime as dt
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Status(StrEnum):
    """Whether an audit came to figures."""

    EVALUATED = "evaluated"
    NOT_EVALUABLE = "not_evaluable"
    ERROR = "error"


class Row(BaseModel):
    """What every table carries, so that each row can be traced to what made it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    audit_id: str = Field(description="Digest of everything that changes the audit's numbers.")
    method_version: str = Field(
        description="Version of the method; raised when a figure's meaning changes."
    )
    code_version: str = Field(description="Version of privaudit that wrote the row.")
    seed: int = Field(description="Seed of the game's random streams.")
    target_sha256: str | None = Field(description="Digest of the audited checkpoint's model file.")
    proxy_sha256: str | None = Field(description="Digest of the proxy checkpoint's model file.")
    labels_digest: str | None = Field(
        description="Digest of what was played: the label files' footers and the columns that were "
        "read."
    )


class AuditRow(Row):
    """One row per audit: the verdict and the figures behind it."""

    model: str = Field(description="Name of the audited model.")
    day: dt.date = Field(description="Day whose training labels were played for.")
    recorded_at: dt.datetime = Field(description="When the record was committed, UTC.")
    status: Status = Field(description="Whether the audit came to figures.")
    verdict: str = Field(
        description="consistent, violated, proxy_unfaithful, undeclared or not_evaluable."
    )
    reason_code: str | None = Field(
        default=None, description="Why there are no figures, as a fixed word. Null where there are."
    )
    reason: str = Field(description="The verdict in one sentence, or why there is none.")
    dataset: str | None = Field(default=None, description="Label dataset that was played on.")
    proxy_day: dt.date | None = Field(
        default=None, description="Day of the checkpoint that served as proxy."
    )
    privacy_unit: str | None = Field(
        default=None,
        description="Column whose values play with one record each; null where every record does.",
    )
    records: int | None = Field(
        default=None, description="Training records that played, one for each privacy unit."
    )
    control_records: int | None = Field(
        default=None,
        description="Holdout records that played, one for each privacy unit that has none in "
        "training.",
    )
    excluded_records: int | None = Field(
        default=None, description="Rows of neither split, or bad rows that the policy lets pass."
    )
    repetitions: int | None = Field(default=None, description="How often the game was replayed.")
    method: str | None = Field(
        default=None,
        description="How the headline was had: bets (on labels), or the game at the previous day's "
        "fraction (previous) or over a grid of fractions (grid).",
    )
    family: str | None = Field(default=None, description="Family of guarantees that was tested.")
    delta: float | None = Field(default=None, description="Delta at which epsilon is stated.")
    significance: float | None = Field(
        default=None, description="Allowed probability that epsilon_lower is wrong."
    )
    shift: float | None = Field(
        default=None, description="Assumed distance between labels and proxy."
    )
    epsilon_lower: float | None = Field(
        default=None,
        description="The headline: audited lower bound, valid at its significance if the proxy is "
        "right, and net of what the control explains where the method is bets.",
    )
    epsilon_ceiling: float | None = Field(
        default=None,
        description="What a perfect attack on so many records could have proved by that method.",
    )
    epsilon_calibrated: float | None = Field(
        default=None,
        description="Bets with the control's success granted as prior knowledge; an estimate.",
    )
    epsilon_unadjusted: float | None = Field(
        default=None,
        description="Bets with the proxy taken at its word; compare with the control's.",
    )
    epsilon_game: float | None = Field(
        default=None,
        description="Bound from the label-inference game, corrected over fractions and replays.",
    )
    epsilon_previous: float | None = Field(
        default=None,
        description="The game's bound at the fraction that was best on the previous audited day. "
        "Null where no earlier day was audited.",
    )
    previous_fraction: float | None = Field(
        default=None, description="That fraction. Null where no earlier day was audited."
    )
    best_fraction: float | None = Field(
        default=None, description="The fraction whose bound is the largest today."
    )
    claim_pvalue: float | None = Field(
        default=None,
        description="Smallest significance at which the declared guarantee is rejected. "
        "Null where nothing is declared.",
    )
    epsilon_paper: float | None = Field(
        default=None, description="The paper's figure, not corrected; for comparison only."
    )
    epsilon_paper_deviation: float | None = Field(
        default=None, description="Standard deviation of the paper's figure over repetitions."
    )
    control_epsilon_unadjusted: float | None = Field(
        default=None,
        description="Bets on records that training never saw, with the proxy taken at its word.",
    )
    control_epsilon_lower: float | None = Field(
        default=None, description="The game's bound from records that training never saw."
    )
    control_epsilon_paper: float | None = Field(
        default=None, description="The paper's figure from records that training never saw."
    )
    control_epsilon_ceiling: float | None = Field(
        default=None,
        description="What a perfect attack in the control game could have proved.",
    )
    target_log_loss: float | None = Field(
        default=None, description="The target's mean log-loss on holdout records, in nats."
    )
    proxy_log_loss: float | None = Field(
        default=None, description="The proxy's mean log-loss on holdout records, in nats."
    )
    suppressed_slices: int | None = Field(
        default=None, description="Slices with too few records for a row in audit_slices."
    )
    epsilon_declared: float | None = Field(
        default=None, description="What the owner declared. Null where nothing is declared."
    )
    delta_declared: float | None = Field(
        default=None, description="The declaration's delta. Null where nothing is declared."
    )
    epsilon_accounted: float | None = Field(
        default=None,
        description="Recomputed from the declared mechanism's parameters. "
        "Null where no mechanism is declared.",
    )
    mechanism: str | None = Field(
        default=None,
        description="Name of the declared mechanism. Null where no mechanism is declared.",
    )
    declared_by: str | None = Field(
        default=None, description="Who declared it. Null where nothing is declared."
    )
    declared_at: dt.datetime | None = Field(
        default=None, description="When it was declared. Null where nothing is declared."
    )
    plan: str = Field(description="The plan of the game, as JSON.")
    target_manifest_sha256: str | None = Field(
        default=None,
        description="Digest of the audited checkpoint's manifest. "
        "Null in records older than the column, too.",
    )
    proxy_manifest_sha256: str | None = Field(
        default=None,
        description="Digest of the proxy checkpoint's manifest. "
        "Null in records older than the column, too.",
    )
    record_digest: str | None = Field(
        default=None,
        description="SHA-256 of the whole record in all tables, so that a figure changed after the "
        "commit is noticed (`privaudit verify`). Null in records older than the column.",
    )


class BoundRow(Row):
    """One row per audit, arm, family and guess fraction."""

    arm: str = Field(description="audit (training records) or control (holdout records).")
    family: str = Field(description="Family of trade-off functions.")
    fraction: float = Field(description="Share of the records guessed on.")
    guesses: int = Field(description="Guesses made.")
    correct: float = Field(description="Guesses that were right, mean over repetitions.")
    epsilon_lower: float = Field(description="Bound at this fraction, corrected over the grid.")


class WealthRow(Row):
    """One row per evaluated audit: e-values against a grid of epsilons, for windows of nights."""

    model: str = Field(description="Name of the audited model.")
    day: dt.date = Field(description="Day whose training labels were played for.")
    records: int = Field(
        description="Training records that were bet on, each of which pays for delta; 0 where the "
        "e-values are the game's calibrated p-values."
    )
    classes: int = Field(description="Classes of the label.")
    family: str | None = Field(
        default=None,
        description="Family of the claim: pure_dp, approx_dp or gaussian. Null in records older "
        "than the column.",
    )
    delta: float = Field(description="Delta of the claim.")
    neighbors: str = Field(description="Relation of the claim: replace or add_remove.")
    log_wealth: tuple[float, ...] = Field(
        description="Logarithm of the e-value against replacement at epsilon 0, 0.05, ..., 14."
    )


class SliceRow(Row):
    """One row per audit and value of a slice column that enough records have."""

    column: str = Field(description="The slice's column.")
    value: str = Field(description="The value that its records share; empty where it is null.")
    records: int = Field(description="Training records that played.")
    control_records: int = Field(description="Holdout records that played.")
    epsilon_lower: float = Field(
        description="The headline for these records alone; all slices of the audit together are "
        "valid at its significance."
    )
    epsilon_ceiling: float = Field(
        description="What a perfect attack on so many records could have proved."
    )
    epsilon_game: float = Field(description="Bound from the label-inference game.")
    control_epsilon_lower: float = Field(
        description="The game's bound from the slice's holdout records."
    )


class ReliabilityRow(Row):
    """One row per audit, model and tenth of predicted probability, on holdout records."""

    role: str = Field(description="target or proxy.")
    bin: int = Field(description="Tenth of the predicted probability, 0 to 9.")
    records: int = Field(
        description="Predictions in it: of the last class where there are two, else of every class."
    )
    predicted: float = Field(description="Their mean.")
    observed: float = Field(description="Share of them that came true.")


class ScoreRow(Row):
    """One row per audit, arm, bit and bar of the adversary's score, in the first repetition.

    Bars of fewer than 10 records are left out.
    """

    arm: str = Field(description="audit (training records) or control (holdout records).")
    bit: int = Field(description="1 where the label was shown, 0 where the counterfactual was.")
    lower: float = Field(description="Lower edge; the outermost bars hold all beyond them too.")
    upper: float = Field(description="Upper edge.")
    records: int = Field(description="Records whose score lies between.")


class Outcome(StrEnum):
    """Whether the audit's own attack did better than was promised."""

    KEPT = "kept"
    EXCEEDED = "exceeded"


class PromiseRow(Row):
    """One row per audit and theoretical promise of the declared or accounted guarantee."""

    guarantee: str = Field(description="declared or accounted.")
    quantity: str = Field(
        description="What is bounded: success_bound, correct_guesses, leaked_bits, secret_success, "
        "secret_advantage, epsilon_protect, membership_accuracy or membership_advantage."
    )
    parameter: float | None = Field(
        default=None,
        description="The prior, the secret's bits or the guess fraction it holds for. "
        "Null where it holds for all.",
    )
    subject: str | None = Field(
        default=None, description="Name of the configured secret. Null where it is none."
    )
    value: float = Field(
        description="The most that any attacker can achieve; for epsilon_protect, the largest "
        "epsilon that keeps the plan's advantage."
    )
    guesses: int | None = Field(
        default=None, description="How many guesses correct_guesses is of. Null for the others."
    )
    achieved: float | None = Field(
        default=None,
        description="What the audit's attack achieved, mean over repetitions. "
        "Null where nothing was tried.",
    )
    outcome: Outcome | None = Field(
        default=None,
        description="kept if the attack achieved at most the value, else exceeded. "
        "Null where nothing was tried.",
    )
    source: str = Field(description="The theorem.")


class ConfirmationRow(Row):
    """One row for each time that a committed audit was computed again from the same inputs.

    The record is not written twice, but where another record came between, it is current again.
    """

    confirmed_at: dt.datetime = Field(description="When the same audit was committed again, UTC.")


class AuditRecord(BaseModel):
    """Everything that one audit commits."""

    model_config = ConfigDict(frozen=True)

    audit: AuditRow
    bounds: tuple[BoundRow, ...] = ()
    wealth: tuple[WealthRow, ...] = ()
    promises: tuple[PromiseRow, ...] = ()
    slices: tuple[SliceRow, ...] = ()
    reliability: tuple[ReliabilityRow, ...] = ()
    scores: tuple[ScoreRow, ...] = ()
