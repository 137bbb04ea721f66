"""What else to know of a verdict on labels: what may be behind it and is no leak."""

from privcore.attacks import Tallies
from privcore.lower_bounds import Evidence, Secret
from workers.audit.holdout_seen import holdout_seen
from workers.audit.label_state import look_first, said_in
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds


def hint_of(
    source: Source,
    tallies: Tallies,
    evidence: Evidence,
    holds: LabelColumnHolds | None,
    *,
    privacy: Privacy | None,
    plan: Plan,
) -> str:
    """Return sentences for a person who reads the verdict, or "".

    Args:
        source: the model on its day.
        tallies: of the pass.
        evidence: what they prove.
        holds: what the label column is known to hold.
        privacy: what the bound is held against.
        plan: how the game is played.
    """
    if plan.secret is not Secret.LABEL:
        return ""
    facts = source.facts
    # Of supplied probabilities the diagnostics of the pass say as much, and more.
    diagnosed = facts["scores"] == "supplied" and source.gives_chances
    hints = [] if diagnosed else [holdout_seen(tallies)]
    if privacy and privacy.mechanism and evidence.epsilon_lower > privacy.epsilon:
        said, column = said_in(facts["scores"], facts.get("source")), repr(source.label.column)
        hints.append(look_first(privacy.mechanism.name, holds, said=said, column=column))
    return " ".join(filter(None, hints))
