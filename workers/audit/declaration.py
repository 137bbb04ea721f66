"""What a bound is held against: what the owner declared, or else what the house's policy says."""

from privcore.lower_bounds import Secret
from workers.lake.manifest import LabelState, Privacy, PrivatisedBy, guarantee_of
from workers.plan import Plan


def judged_by(privacy: Privacy | None, plan: Plan, *, state: LabelState = None) -> Privacy | None:
    """Return what the bound is held against: the owner's guarantee, or else the house's policy.

    A declaration of a definition that promises nothing is none, and policy does not mend it. Policy
    speaks of labels. Labels that were privatised before they came into the lake are held against
    nothing: whatever training does with them, the guarantee that they bring stays
    (post-processing), and of the labels that they were made of the bound says nothing.
    """
    if isinstance(state, PrivatisedBy):
        return None
    by_policy = privacy is None and plan.secret is Secret.LABEL
    if not by_policy or plan.policy_epsilon is None:
        return guarantee_of(privacy)
    return Privacy(
        definition="label_dp",
        neighbors="replace",
        unit=plan.privacy_unit or "record",
        epsilon=plan.policy_epsilon,
        delta=plan.delta,
        mechanism=None,
        declared_by="policy",
        declared_at=None,
    )
