"""The row that a public statement is made of: exact, and as secret as the labels."""

import datetime as dt

from pydantic import Field

from workers.warehouse.table_row import PlainRow, TableRow


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
