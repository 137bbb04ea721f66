"""The rows of the warehouse: what an audit leaves behind, column by column."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from privcore.lower_bounds.verdicts import Trust
from workers.strict_model import StrictModel
from workers.warehouse.table_row import Moment, PlainRow, TableRow


class StatementFacts(PlainRow):
    """Facts that the exact and the public statement share. No label changes any of them."""

    model: str
    """Name of the audited model."""
    day: dt.date
    """Day whose training labels were audited."""
    dataset: str
    """Dataset or table whose labels were scanned."""
    label_days: tuple[dt.date, ...]
    """Days whose labels played."""
    labels_recur: bool
    """Whether the same labels may come again on later nights (plan.labels_recur)."""
    holdout_sketch: str | None
    """Sketch of the holdout rows' features, 32 bytes in hexadecimal, without labels, as in
    audit_wealth; the public one has each byte replaced under the key. Null where holdouts cannot be
    told apart."""
    family: str
    """Family of the claim: pure_dp, approx_dp or gaussian."""
    epsilon_declared: float
    """Epsilon that is tested."""
    delta_declared: float
    """Delta of the claim."""
    neighbors: str
    """Relation of the claim: replace, add_remove or simulate."""
    unit: str
    """Unit whose labels the claim protects: record, or the declared unit."""
    by_policy: bool
    """Whether the claim is the house's policy and not the owner's declaration."""
    epsilon_accounted: float | None
    """Epsilon computed from the declared mechanism's parameters. Null where no mechanism is
    declared."""
    significance: float
    """Allowed probability that a refutation is wrong."""
    records: int
    """Training records in the tables."""
    control_records: int
    """Holdout records in the tables."""
    epsilon_ceiling: float
    """The largest declared epsilon that so many records could refute."""
    sees_from: float | None
    """About the least leak of every training label that such an audit would have refuted in five of
    six cases. Null where a leak of 12 would not."""
    epsilon_public: float = Field(gt=0.0, allow_inf_nan=False)
    """Privacy loss of one label by the publication of this statement."""
    evidence_gap: float
    """Gap of the bet against the claim, in log-odds."""
    evidence_price: float
    """Share of the significance that the claim's delta uses up."""
    premises_gap: float
    """Gap of the bets against the test's assumptions, in log-odds."""
    declaration_empty: bool
    """Whether the claim allows any loss: no labels could refute it."""


class ExactStatementRow(TableRow, StatementFacts):
    """One row per audit that a public statement can be made of: the statement before its noise.

    Whether there is a row depends on no label.
    """

    evidence_figure: int
    """Log-wealth of the bet against the claim, in units of evidence_gap/64, without noise."""
    premises_figure: int
    """Log-wealth of the bets against the test's assumptions, in units of premises_gap/64, without
    noise."""


class Status(StrEnum):
    """State of an audit: whether it produced figures."""

    EVALUATED = "evaluated"
    NOT_EVALUABLE = "not_evaluable"
    ERROR = "error"


class LabelColumnHolds(StrEnum):
    """Known content of the label's column."""

    SECRET = "secret"  # noqa: S105  # no password
    PRIVATISED = "privatised"


SecretName = Annotated[
    str, StringConstraints(pattern=r"^(label|membership|released_labels|attribute:(?s:.+))$")
]
"""A secret as records name it; `workers.plan.Plan.secret_name` makes it."""


class AuditRow(TableRow):
    """One row per audit: the verdict and the figures behind it."""

    model: str
    """Name of the audited model."""
    day: dt.date
    """Day whose training labels were audited."""
    recorded_at: Moment
    """Time at which the record was committed, UTC."""
    status: Status
    """Result of the audit: evaluated (it has figures), not_evaluable or error."""
    verdict: str
    """What this night says: violated, failed, inconclusive, not_refuted or undeclared."""
    reason_code: str | None = None
    """Why, as a fixed word; each has one first step. Null for not_refuted."""
    detail: str | None = None
    """A finer word for the same cause: the first remark that is a doubt, why an audit came to no
    figures, or the kind of an unexpected error. Null where there is none."""
    reason: str
    """The verdict in one sentence, or why the audit reached none."""
    remarks: tuple[str, ...] | None = None
    """What the sentence remarks on beside the verdict, as fixed words; some of them are doubts.
    Null where there are no figures."""
    trust: Trust = Trust.SELF
    """Who supplied the evidence: self, independent or controlled, as the settings say."""
    dataset: str | None = None
    """Dataset whose labels were scanned."""
    source: str | None = None
    """Inputs outside of the lake, as JSON: the tables with the versions that were read and the
    meaning of their columns, the model files, and the declaration. Null where all is in the
    lake."""
    proxy_day: dt.date | None = None
    """Day of the earlier model."""
    label_days: tuple[dt.date, ...] | None = None
    """Days whose labels played, where the plan asks for several. Null where the audited day's alone
    did."""
    trained_since: dt.date | None = None
    """First day whose labels training read, where the manifest names an earlier one than the
    audited day. Null elsewhere."""
    secret: SecretName
    """The secret that the attack tried to infer: label, membership, or attribute:<column>; or
    released_labels, where released labels were compared with true ones."""
    privacy_unit: str | None = None
    """Column that says whose record each is; each person enters the game with one record. Null
    where every record enters."""
    label_column: str | None = None
    """Column whose values were audited as labels. Null for other secrets."""
    label_column_holds: LabelColumnHolds | None = None
    """What the label column holds: secret (the labels from before any mechanism) or privatised, as
    the manifest or the settings say. Null where neither does, and for other secrets."""
    records: int | None = None
    """Training records in the game; one per person where a privacy unit is set."""
    control_records: int | None = None
    """Holdout records that play; one per person without training records where a privacy
    unit is set."""
    excluded_records: int | None = None
    """Rows left out: those of neither split or of no day, and bad rows within max_bad_records."""
    significance: float | None = None
    """Allowed probability that epsilon_lower is wrong."""
    epsilon_lower: float | None = None
    """The headline: the audited lower bound on epsilon, at the declared delta, or at the plan's. It
    holds at its significance under the plan's assumption."""
    epsilon_if_proxy_right: float | None = None
    """Lower bound if the earlier model is right about labels that it has not seen; no verdict rests
    on it."""
    epsilon_ceiling: float | None = None
    """The value that the headline would have reached if every prediction on a training record had
    been correct, with this holdout."""
    sees_from: float | None = None
    """The smallest leak, shown by every label, with which four of five such nights alone would have
    refuted the declaration or, where nothing is declared, proved any loss. A learner that forgets
    shows less than its mechanism's epsilon. Null where even a leak of 4 beyond the declaration
    would not have been seen."""
    holdout_needed: int | None = None
    """About how many holdout records, if the number of all records stays the same, make a night
    conclusive by itself. Null where it is, where nothing is declared, and where no number
    suffices."""
    epsilon_game: float | None = None
    """Bound from the label-inference game, corrected for its many guess fractions and
    repetitions."""
    claim_pvalue: float | None = None
    """Smallest significance at which the declared guarantee is rejected. Null where nothing is
    declared."""
    claim_evalue: float | None = None
    """E-value against the declared guarantee, for q-values over models. Null where nothing is
    declared."""
    epsilon_paper: float | None = None
    """The paper's own figure ("Observational Auditing of Privacy"); it is not corrected."""
    control_epsilon_if_proxy_right: float | None = None
    """epsilon_if_proxy_right of the holdout records, which training never saw: above 0, the earlier
    model is not right."""
    control_epsilon_lower: float | None = None
    """The game's bound from the holdout records, which training never saw."""
    target_log_loss: float | None = None
    """The target's mean log-loss on holdout records, in nats."""
    proxy_log_loss: float | None = None
    """The earlier model's mean log-loss on holdout records, in nats."""
    file_records: int | None = None
    """Training records whose labels the model's file was asked for: a checkpoint's, whose declared
    mechanism is randomized response of two labels. Null where it was not, and where it could not be
    read."""
    file_labels_read: int | None = None
    """Those of file_records whose single label the file gives away. Null as file_records is."""
    file_epsilon_low: float | None = None
    """Least epsilon at which randomized response of the table's labels explains the file's label
    sums, at 0.05. Null where none does, and as file_records is."""
    file_epsilon_high: float | None = None
    """Largest epsilon of the same. Null where none is too large, and as file_epsilon_low is."""
    file_unread: str | None = None
    """Why no label sums were read from the file, completing "because". Null where they were, and
    where the file was not asked."""
    epsilon_declared: float | None = None
    """Epsilon that the owner declared. Null where nothing is declared."""
    delta_declared: float | None = None
    """The declaration's delta. Null where nothing is declared."""
    neighbors: str | None = None
    """Relation of the declaration: replace, add_remove or simulate. Null where nothing is
    declared."""
    epsilon_accounted: float | None = None
    """Epsilon computed from the declared mechanism's parameters. Null where no mechanism is
    declared."""
    mechanism: str | None = None
    """Name of the declared mechanism. Null where no mechanism is declared."""
    declared_by: str | None = None
    """Person or team that made the declaration. Null where nothing is declared."""
    declared_at: Moment | None = None
    """Time of the declaration, UTC. Null where nothing is declared."""
    plan: str
    """The plan of the game, as JSON."""
    exploratory: bool | None = None
    """Whether the run changed the plan of the settings, such as its seed. Then the record is no
    night's verdict where one under the settings' plan exists, and counts with no other night or
    model."""
    drill: str | None = None
    """The model that is the same learner without a mechanism, as the settings say: whether it is
    refuted shows whether a dropped mechanism would be seen. Null where they name none."""
    target_manifest_sha256: str | None = None
    """Digest of the audited checkpoint's manifest."""
    proxy_manifest_sha256: str | None = None
    """Digest of the earlier model's manifest."""
    record_digest: str | None = None
    """SHA-256 of the whole record in all tables; `privaudit verify` notices by it a figure that was
    changed after the commit."""
    revision: int | None = None
    """Number of this commit for the model and day; records and confirmations are counted together.
    The largest number counts, whatever the clocks said."""


class BoundRow(TableRow):
    """One row per audit, arm, family and guess fraction."""

    arm: str
    """audit (training records) or control (holdout records)."""
    family: str
    """Family of trade-off functions."""
    fraction: float
    """Share of the records on which the adversary guessed."""
    guesses: int
    """Number of guesses."""
    correct: float
    """Number of correct guesses, mean over repetitions."""
    epsilon_lower: float
    """Bound at this fraction, corrected for all fractions of the grid."""


class WealthRow(TableRow):
    """One row per evaluated audit: e-values against a grid of epsilons, for windows of nights."""

    model: str
    """Name of the audited model."""
    day: dt.date
    """Day whose training labels were audited."""
    classes: int
    """Classes of the label."""
    family: str
    """Family of the claim: pure_dp, approx_dp or gaussian."""
    delta: float
    """Delta of the claim."""
    neighbors: str
    """Relation of the claim: replace, add_remove or simulate."""
    epsilon_declared: float | None = None
    """Epsilon that the owner declared. Null where nothing is declared."""
    labels_recur: bool
    """Whether the same labels may come again on later nights, so that nights are averaged and not
    multiplied."""
    holdout_sketch: str | None = None
    """Sketch of all holdout rows' features, 32 bytes in hexadecimal, without labels; in score
    tables without context, of records' names. If 12 of the bytes equal those of an earlier night,
    the holdout has come again, and the nights are averaged. Someone who knows a whole row of a
    small holdout may recognise it. Null where a table has neither, and where fewer than ten rows
    differ."""
    window_log_wealth: tuple[float, ...]
    """Logarithms of each strategy's e-values against the claim at each epsilon of the grid, for
    windows of up to 28 nights. Strategies of a reference are bets on all records at two stakes, and
    the night's own e-value."""
    window_price: float
    """Share of a window's significance that this night's delta uses up."""
    ceiling_log_wealth: tuple[float, ...]
    """Logarithm, at each epsilon of the grid, of the largest e-value that any strategy could have
    reached if every prediction on a training record had been correct."""
    standing_log_wealth: tuple[float, ...] | None = None
    """Logarithms of the standing's e-values, in the order of window_log_wealth. Null where both are
    equal, as they are without delta."""
    standing_price: float
    """Share of the standing's significance that this night's delta uses up."""
    claimed_log_wealth: tuple[float, ...] | None = None
    """Logarithms of each strategy's e-values against the declared epsilon itself, at the standing's
    stakes. Null where nothing is declared."""
    imagined_mean: tuple[float, ...] | None = None
    """Means of what claimed_log_wealth would be if every label showed a leak of the declared
    epsilon, or of so much more, by strategy and leak. Null where nothing can be imagined."""
    imagined_variance: tuple[float, ...] | None = None
    """Variances of the same."""


class SliceRow(TableRow):
    """One row per audit and value of a slice column that enough records share."""

    column: str
    """The slice's column."""
    value: str
    """The value that its records share; empty where it is null."""
    records: int
    """Training records in the game."""
    control_records: int
    """Holdout records that play."""
    epsilon_lower: float
    """The headline for this slice's records alone. All slices of an audit together hold at its
    significance."""
    epsilon_ceiling: float
    """Largest bound that a perfect attack could prove with this many records."""
    control_epsilon_lower: float
    """The game's bound from the slice's holdout records."""


class ReliabilityRow(TableRow):
    """One row per audit, model and tenth of predicted probability, on holdout records."""

    role: str
    """Model whose predictions these are: target or proxy."""
    bin: int
    """Tenth of the predicted probability, 0 to 9."""
    records: int
    """Number of holdout predictions in this tenth of predicted probability. With two classes only
    predictions of the last class count."""
    predicted: float
    """Mean predicted probability."""
    observed: float
    """Share of these predictions that came true."""


class PromiseRow(TableRow):
    """One row per audit and theoretical promise of the declared or accounted guarantee."""

    guarantee: str
    """Epsilon from which the promise follows: declared or accounted."""
    quantity: str
    """Quantity that is bounded: success_bound, correct_guesses, leaked_bits or
    membership_accuracy."""
    parameter: float | None = None
    """The prior, the secret's bits or the guess fraction that the value holds for. Null where it
    holds for all."""
    value: float
    """The most that any attacker can achieve."""
    guesses: int | None = None
    """Number of guesses. Null for quantities other than correct_guesses."""
    achieved: float | None = None
    """Success of the audit's own attack, mean over repetitions. Null where there was no such
    attack."""
    source: str
    """Theorem that proves the value, with its source."""


class NoteKind(StrEnum):
    """What was added to a committed audit."""

    CONFIRMED = "confirmed"
    WITHDRAWN = "withdrawn"
    ACKNOWLEDGED = "acknowledged"


class NoteRow(TableRow):
    """One row for each thing that was added to a committed audit. Its record is not written again.

    confirmed: it was computed again from the same inputs, and becomes the current one, also where
    another came between. withdrawn: somebody took it back (`privaudit withdraw`); it stays, and is
    never the current one of its model and day. acknowledged: somebody knows of its violation
    (`privaudit acknowledge`); no verdict changes, and until it ends, the same violation notifies
    nobody again.
    """

    kind: NoteKind
    """What was added: confirmed, withdrawn or acknowledged."""
    noted_at: Moment
    """Time at which it was added, UTC."""
    noted_by: str | None = None
    """Who acknowledged the violation: the operating system's user. It is no proof. Null elsewhere,
    and where it is unknown."""
    why: str | None = None
    """Reason, in the words of the person who withdrew or acknowledged. Null for confirmations."""
    revision: int | None = None
    """Number of a confirmation's commit for the model and day, as in audits. Null elsewhere."""
    until: dt.date | None = None
    """Last day (UTC) on which an acknowledged violation notifies nobody again. Null elsewhere."""
    epsilon_acknowledged: float | None = None
    """Largest bound of the violation that was known: of the night, or of all nights together. A
    larger one is a new alert. Null elsewhere."""


class NightsTogether(StrictModel):
    """Columns that the nights up to one of them add to it."""

    epsilon_lower_28_days: float | None = None
    """Bound over the 28 days up to this one, under this day's claim; 0 where none."""
    epsilon_ceiling_28_days: float | None = None
    """The most that the nights of these 28 days could have proved together, with their holdouts, if
    every prediction on a training record had been correct."""
    nights_averaged: bool | None = None
    """Whether labels or the holdout come again within these 28 days, so that nights are averaged
    and not multiplied."""
    epsilon_standing: float | None = None
    """Bound from all nights since family, delta, relation or the method last changed, at most 128,
    with delta 28; it may be watched every day and never falls. The larger one where a night's first
    audit is another than the one that counts. 0 where none."""
    refuted_together: bool | None = None
    """Whether all nights, each held against what was declared for it, refute that every declaration
    was true, as they count or as each was first audited."""
    nights_together: int | None = None
    """How many declared nights stand together, this one included."""
    sees_from_together: float | None = None
    """The smallest leak, shown by every label of all these nights, with which they would have
    refuted the declarations in four of five cases, or this night alone would have. Null where even
    a leak of 4 beyond the declaration would not have been seen."""
    conclusive_on: dt.date | None = None
    """Day from which on nights like these will be conclusive together, where that is within 28
    nights and they are not. Null elsewhere."""
    drill_refuted_after: int | None = None
    """On which of its nights the drill, the same learner without a mechanism, was refuted; 0 where
    on none. Null without a drill."""
    verdict_together: str | None = None
    """The model's verdict: that of its nights together up to this one. A violation stands for 28
    days, until a night resolves it, also beside a night that failed."""
    reason_code_together: str | None = None
    """Why, as a fixed word. Null for not_refuted."""
    declaration_change: str | None = None
    """How the declaration, or whose labels are audited, differs from the model's evaluated night
    before, in words. Null where it does not."""
    nights_remark: str | None = None
    """That the holdout comes again from this night on, in words. Null elsewhere."""


class NightRow(TableRow, NightsTogether):
    """One row per counted night and commit that changed what the nights up to it say together."""

    model: str
    """Name of the audited model."""
    day: dt.date
    """Day whose training labels were audited."""
    folded_at: Moment
    """Time at which this was derived, UTC; the latest row of an audit counts."""
    rows_known: int = Field(ge=0)
    """Audits, confirmations and withdrawals of the model, and of its drills, by then: a reader who
    finds more derives anew."""


class AuditRecord(BaseModel):
    """Everything that one audit commits."""

    model_config = ConfigDict(frozen=True)

    audit: AuditRow
    bounds: tuple[BoundRow, ...] = ()
    wealth: tuple[WealthRow, ...] = ()
    promises: tuple[PromiseRow, ...] = ()
    slices: tuple[SliceRow, ...] = ()
    reliability: tuple[ReliabilityRow, ...] = ()
    statements: tuple[ExactStatementRow, ...] = ()
