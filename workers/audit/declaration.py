"""The guarantee that a bound is held against: the owner's declaration, or the house's policy.

A declaration and a bound are both about a unit: the rows whose labels are replaced together. They
are compared only where the two units are one, or where the declared unit holds the audited one.
"""

import json
import re
import unicodedata

from privcore.guarantees import ApproxDP, Family, Gaussian, PureDP, Relation
from privcore.lower_bounds import Claim, Secret, says_nothing
from privcore.lower_bounds.verdicts import ReasonCode
from workers.lake.manifest import OF_LABELS, POLICY, Privacy, PrivatisedBy, guarantee_of
from workers.plan import Plan
from workers.scan.partial_results import PartialResult
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds

_PERSONS = frozenset({
    "client", "consumer", "customer", "employee", "individual", "member", "participant",
    "passenger", "patient", "people", "person", "student", "subject", "subscriber", "user",
    "visitor",
})  # fmt: skip
"""Words for one person. Two of them mean the same unit."""
_GROUPS = frozenset({
    "account", "company", "device", "family", "group", "household", "merchant", "organisation",
    "organization",
})  # fmt: skip
"""Words for other holders of several rows. Each means itself alone."""
_ENDINGS = frozenset({"code", "hash", "id", "ids", "key", "no", "nr", "number", "uuid"})
"""Words that a column's name adds to the unit's word."""
_OF_TRAINING = {"gaussian", "pate_laplace", "pate_gaussian", "dp_sgd"}


def held_against(source: Source, plan: Plan, result: PartialResult) -> Privacy | None:
    """Return the guarantee that the bound of a model's night is held against; None without one.

    This is the owner's guarantee, or else the house's policy. Policy speaks of labels, and of the
    unit that is audited. It replaces no declaration: not one of a definition that promises nothing,
    and not one for another unit. Labels that were privatised before they came into the lake are
    held against nothing: whatever training does with them, the guarantee that they bring stays
    (post-processing), and the bound says nothing of the labels that they were made of.

    The bound is for single rows where no unit of the training rows has two of them: a unit is then
    a row.
    """
    if isinstance(source.label_state, PrivatisedBy):
        return None
    by_policy = source.privacy is None and plan.secret is Secret.LABEL
    if not by_policy or plan.policy_epsilon is None:
        guarantee = guarantee_of(source.privacy)
        unit = None if _most_rows(result) == 1 else plan.privacy_unit
        return guarantee if guarantee and covers(guarantee.unit, unit) else None
    return Privacy(
        definition="label_dp",
        neighbors="replace",
        unit=plan.privacy_unit or "record",
        epsilon=plan.policy_epsilon,
        delta=plan.delta,
        mechanism=None,
        declared_by=POLICY,
        declared_at=None,
    )


def family_of(delta: float | None, mechanism: str | None) -> Family:
    """Return the family of the claim of a declaration with this delta; None where there is none.

    Delta 0 is a pure claim, a Gaussian mechanism by name a Gaussian-DP claim, and all else an
    (epsilon, delta) claim.
    """
    if delta == 0.0:
        return PureDP()
    return Gaussian() if mechanism == "gaussian" else ApproxDP()


def claim_of(privacy: Privacy | None, plan: Plan) -> Claim:
    """Return what to test: the family that fits the declaration, at its delta.

    Undeclared: (epsilon, delta) at the plan's delta.
    """
    family, delta, neighbors = family_of(None, None), plan.delta, Relation.REPLACE
    if privacy is not None:
        delta, neighbors = privacy.delta, Relation(privacy.neighbors)
        family = family_of(delta, privacy.mechanism.name if privacy.mechanism else None)
    return Claim(
        family=family,
        delta=delta,
        significance=plan.night_significance,
        standing_significance=plan.standing_significance,
        shift=plan.shift,
        neighbors=neighbors,
        epsilon=privacy.epsilon if privacy else None,
        secret=plan.secret,
    )


def says_nothing_of(
    source: Source, privacy: Privacy | None, plan: Plan, records: int
) -> tuple[ReasonCode, str] | None:
    """Return why the owner's declaration says nothing, or None; policy sets its own delta."""
    if privacy is None or source.privacy is None:
        return None
    return says_nothing(
        privacy.epsilon,
        privacy.delta,
        records=records,
        limit=plan.delta_limit,
        policy=plan.policy_epsilon if plan.secret is Secret.LABEL else None,
    )


def label_column_holds(source: Source) -> LabelColumnHolds | None:
    """Return what the label's column holds, as its owner says; None if that is not known."""
    if source.label_state is None:
        return None
    privatised = isinstance(source.label_state, PrivatisedBy)
    return LabelColumnHolds.PRIVATISED if privatised else LabelColumnHolds.SECRET


def label_column_warning(
    mechanism: str | None, holds: str | None, *, said: str, column: str = "the label column"
) -> str:
    """Return what to look at before a violation is believed, or "".

    If the column holds labels that a mechanism has already randomized, training may be innocent:
    a column of responses and one of labels that are hard to predict look alike. So the question is
    asked of every violation, unless it is known what the column holds or the declared mechanism is
    one of training. A declaration that names none, `pure` or a `composition` may be of labels that
    are changed one by one.
    """
    if holds is not None or mechanism in _OF_TRAINING:
        return ""
    named = mechanism if mechanism in OF_LABELS else "a mechanism that randomizes labels"
    return (
        f"Look first whether {column} holds the labels from before or from after {named}: from "
        f"after it, this is no violation. Say which in {said}, and audit again."
    )


def said_of_labels_in(source: str | None) -> str:
    """Return where it is said what a label's column holds, by a record's column `source`."""
    if source is None:
        return "its manifest's label.state"
    part = "labels" if "checkpoints" in json.loads(source) else "scores"
    return f"the settings' {part}.label_state"


def covers(declared: str, audited: str | None) -> bool:
    """Return whether a guarantee for one `declared` unit is one for each audited unit.

    - Rows are audited (`audited` is None): always. The word names the row itself ("record",
      "flight"), or a holder of rows. Replacing one row's label is one way to replace all labels of
      its holder, so a guarantee for the holder implies one for the row at the same epsilon.
    - A column's values are audited: only where the word names that column ("customer" and
      `customer_id`), or where both are words for a person ("user" and `customer_id`). A guarantee
      for a row is none for its holder: k rows have k times the epsilon. An unknown word is taken
      for another unit, since a wrong comparison could accuse a model falsely.

    Upper case, `_`, `-`, spaces, a plural s, and endings like `_id`, `_key` or `_hash` of either
    word do not count.
    """
    if audited is None:
        return True
    said, column = _stem(declared), _stem(audited)
    return said == column or (said in _PERSONS and column in _PERSONS)


def names_holder(declared: str) -> bool:
    """Return whether a declared unit is a known word for a holder of several rows."""
    return _stem(declared) in _PERSONS | _GROUPS


def other_unit(source: Source, plan: Plan, result: PartialResult) -> str:
    """Return why a declaration for another unit is not held against the bound; "" where it is."""
    privacy, unit = guarantee_of(source.privacy), plan.privacy_unit
    if privacy is None or unit is None or held_against(source, plan, result):
        return ""
    about = (
        f"the declared {privacy.epsilon:g} is for one {privacy.unit!r}, and this bound is for all "
        f"rows of one value of {unit!r} (plan.privacy_unit)"
    )
    advice = f"Declare an epsilon with unit {unit!r}, or leave out plan.privacy_unit to test rows"
    if names_holder(privacy.unit):
        return f"{about}. These units may differ. {advice}"
    grows = ", and a larger delta" if privacy.delta else ""
    rows = _most_rows(result)
    most = (
        ""
        if rows is None
        else f" (here k is at most {rows:,}, which gives {rows * privacy.epsilon:g})"
    )
    return (
        f"{about}. A guarantee for one row gives k rows k times its epsilon{grows}{most}. {advice}"
    )


def _most_rows(result: PartialResult) -> int | None:
    """Return the most training rows of one privacy unit; None where rows are audited."""
    if result.units is None or not result.units[0].doubted.rows.size:
        return None
    return int(result.units[0].doubted.rows.max())


def _stem(word: str) -> str:
    """Return a unit's word without what does not count."""
    word = unicodedata.normalize("NFKC", word)  # letters of another width or weight are the same
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word)
    parts = [part for part in re.split(r"[\W_]+", spaced.casefold()) if part]
    while len(parts) > 1 and parts[-1] in _ENDINGS:
        parts.pop()
    stem = "_".join(parts) or word
    return stem[:-1] if len(stem) > 3 and stem.endswith("s") else stem
