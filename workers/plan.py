"""The settings that change an audit's numbers; all of them enter `audit_id`."""

import operator
from typing import Annotated

from pydantic import Field, model_validator

from privcore.lower_bounds.question import MINIMUM_CONTROL_RECORDS, MINIMUM_RECORDS, Grid, Secret
from workers.lake.manifest import LARGEST_EPSILON
from workers.strict_model import StrictModel

Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]
SECRET_FIELDS = {"secret", "attribute"}
"""Fields that make a plan that of another secret than the label."""
MOST_DAYS = 31
Name = Annotated[str, Field(min_length=1)]


_ASSUMPTIONS = {
    Secret.LABEL: "epsilon_lower is valid if the holdout was drawn at random from the rows trained "
    "on, after any sampling, no earlier model saw it, and training records whose labels had been "
    "replaced by fresh draws before training would have been predicted rightly no more often than "
    "the matched holdout records. epsilon_if_proxy_right is valid if the earlier model is right "
    "about labels that it has not seen.",
    Secret.ATTRIBUTE: "epsilon_lower is valid if the holdout was drawn at random from the rows "
    "trained on, after any sampling, no earlier model saw it, and training records whose values of "
    "the attribute had been replaced before training by fresh draws, given the rest and the label, "
    "would have been predicted rightly no more often than the matched holdout records. "
    "epsilon_if_proxy_right is valid if prior and earlier model are right about values that they "
    "have not seen.",
    Secret.MEMBERSHIP: "epsilon_lower is valid if training and holdout records were split at "
    "random; neither model need be right. It speaks of replacing a whole record.",
    Secret.RELEASED: "epsilon_lower is valid if the mechanism reads nothing but the true label, "
    "the columns that are named and a coin for each record, and each night's labels are new. No "
    "model is asked, so it holds whatever is trained on the released labels.",
}


class Attribute(StrictModel):
    """A categorical feature whose value an audit tries to tell, from all others and the label."""

    column: Name
    """A categorical feature of the model."""
    values: tuple[str, ...] = Field(min_length=2, max_length=64)
    """Every value that it can have; each is scored once for each record."""
    prior: tuple[Probability, ...] | None = None
    """Probability of each value before the label is known; all alike by default. No bound needs it
    to be right."""

    @model_validator(mode="after")
    def _fits(self) -> "Attribute":
        if len(set(self.values)) != len(self.values):
            raise ValueError("values names a value twice: write each value once")
        if self.prior is not None and (
            len(self.prior) != len(self.values) or abs(sum(self.prior) - 1.0) > 1e-6
        ):
            raise ValueError("prior has one probability for each of values, and they sum to 1")
        return self


class TrainingSampling(StrictModel):
    """Sampling of rows by training, which is done to the holdout, too."""

    label: dict[str, Probability] = Field(default={})
    """Labels, and the share of each one's rows that training kept; 1 for others."""
    weight: Name | None = None
    """A column of weights, in both arms: 1/p for a row that training keeps with probability p.
    Instead of `label`."""

    @model_validator(mode="after")
    def _one_way(self) -> "TrainingSampling":
        if bool(self.label) == (self.weight is not None):
            raise ValueError("sampling names either rates by label or a column of weights")
        return self


class Plan(StrictModel):
    """Rules of the game and of the reading of its tallies, fixed before the game."""

    fractions: tuple[Fraction, ...] = Field(default=Grid().fractions, min_length=1, max_length=1000)
    """Guess fractions of the corrected grid."""
    repetitions: int = Field(default=100, ge=1, le=10_000)
    """Repetitions of the game."""
    significance: float = Field(default=0.05, gt=0.0, lt=0.5)
    """Allowed probability that a bound is wrong: four fifths of it for the night's, one fifth for
    what all nights prove together."""
    delta: float = Field(default=1e-5, gt=0.0, lt=1.0)
    """Delta where nothing is declared, and of `epsilon_paper`."""
    shift: float = Field(default=0.0, ge=0.0, le=1.0)
    """Assumed total-variation distance of labels and what the earlier model predicts."""
    seed: int = 0
    """Seed of the game's random streams."""
    labels_recur: bool = False
    """Whether a label may come again on later nights (a diagnosis, a customer's status). Then
    nights are averaged instead of multiplied."""
    minimum_records: int = Field(default=MINIMUM_RECORDS, ge=1)
    """Fewer training records than this are not evaluable."""
    minimum_control_records: int = Field(default=MINIMUM_CONTROL_RECORDS, ge=1)
    """Fewer holdout records than this are not evaluable."""
    proxy_within_days: int = Field(default=7, ge=1, le=366)
    """How old the earlier model may be."""
    days: int = Field(default=1, ge=1, le=MOST_DAYS)
    """Days whose labels play: the audited one, and those before it that the target was trained on
    and the earlier model was not, which is then an older one. A label lies in one of them alone,
    and what was held out of one was never trained on since. Nights that share labels are averaged
    instead of multiplied."""
    slices: tuple[Name, ...] = Field(default=(), max_length=100)
    """Columns of few values (a country, say): the records of each value are audited on their own as
    well."""
    minimum_slice_records: int = Field(default=1000, ge=1)
    """Slices with fewer training records are not shown."""
    max_bad_records: int = Field(default=0, ge=0)
    """Bad records that may be left out; with more, the audit is not evaluable."""
    privacy_unit: Name | None = None
    """Column that says whose record each is: each person enters the game with one record, and the
    bound is for all labels of one person. None: every record enters."""
    other_labels: tuple[Name, ...] = Field(default=(), max_length=16, exclude_if=operator.not_)
    """Columns of other labels of the same rows that training read (a second task's), of few values.
    Records are matched within their values, so that what these tell of the label is no leak."""

    sampling: TrainingSampling | None = None
    """How training sampled its rows. The holdout is then sampled likewise, by a lot of each row.
    None: training took every row that is not held out."""
    policy_epsilon: float | None = Field(
        default=None, gt=0.0, le=LARGEST_EPSILON, allow_inf_nan=False
    )
    """Limit of the house. The bound of a model that declares nothing is held against it, at the
    plan's delta, and the record says declared_by policy; a model that declares more ends as
    over_policy. None: the former are undeclared, and the latter may declare anything."""
    delta_limit: float | None = Field(default=None, gt=0.0, le=1.0)
    """A declared delta of at least this says nothing. None: 1 over the number of
    training records."""

    epsilon_public: float | None = Field(default=None, gt=0.0, le=10.0)
    """Privacy loss for one label of the public statement that is made of the audit. None: none is
    made."""

    secret: Secret = Secret.LABEL
    """What of a record is told: its label, an attribute, its membership, or what a mechanism
    released of its label."""
    attribute: Attribute | None = None
    """Which attribute, where that is the secret."""

    @property
    def secret_name(self) -> str:
        """The secret as records name it (`schema.SecretName`)."""
        return str(self.secret) if self.attribute is None else f"attribute:{self.attribute.column}"

    @property
    def assumption(self) -> str:
        """The assumption under which a record's bound is valid, in words."""
        said = _ASSUMPTIONS[self.secret]
        if self.days > 1:
            said += (
                " Several days play: each label lies in one of them alone, and what was held out "
                "of a day was not trained on later."
            )
        if self.other_labels:
            said += (
                " Records are compared within the values of other_labels, which training may have "
                "read: what these values tell of a label counts as no leak."
            )
        return said

    @property
    def night_significance(self) -> float:
        """Significance of one night's bound: four fifths of the plan's."""
        return self.significance - self.standing_significance

    @property
    def standing_significance(self) -> float:
        """Significance of all nights' joint proof: a fifth, which many nights make good."""
        return self.significance / 5.0

    @property
    def nights_share_labels(self) -> bool:
        """True if a label may play on several nights, so that nights are averaged."""
        return self.labels_recur or self.days > 1

    @model_validator(mode="after")
    def _fits_together(self) -> "Plan":
        membership, persons = self.secret is Secret.MEMBERSHIP, self.privacy_unit is not None
        otherwise = {
            "slices": bool(self.slices),
            "privacy_unit": persons,
            "days": self.days > 1,
            "epsilon_public": self.epsilon_public is not None,
            "secret": self.secret is not Secret.LABEL,
        }
        named = ", ".join(name for name, holds in otherwise.items() if holds)
        refused = {
            "attribute and secret = 'attribute' belong together: set both or none":
                (self.secret is Secret.ATTRIBUTE) != (self.attribute is not None),
            "a membership audit works on single records: leave out slices and privacy_unit":
                membership and (bool(self.slices) or persons),
            f"labels_recur says that a label comes back on later days, and days = {self.days} "
            "would count it once a day: leave days out, or set privacy_unit, so that each person "
            "takes part once":
                self.days > 1 and self.labels_recur and not persons,
            f"days = {self.days} cannot be combined with slices or membership, whose records are "
            "not matched day by day: remove days, or remove these":
                self.days > 1 and (bool(self.slices) or membership),
            f"other_labels are for the labels of one day's rows, and {named} matches records "
            "otherwise: leave one of them out":
                bool(self.other_labels and named),
            f"slices {list(self.slices)} and privacy_unit {self.privacy_unit!r} exclude each "
            "other, as a person may lie in several slices: leave one of them out":
                persons and bool(self.slices),
        }  # fmt: skip
        for reason, holds in refused.items():
            if holds:
                raise ValueError(reason)
        return self
