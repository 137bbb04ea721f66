"""A remark on decoys that show nothing beside training records that do; decoys alone decide."""

import dataclasses

from privcore.attacks import Tallies, generator
from privcore.lower_bounds import Evidence, Grid, read_evidence
from privcore.rounding import at_least
from workers.plan import Plan
from workers.sources.source import Source

_FEWEST = 100
"""Holdout records, without which hardly anything can be proved of the other training records."""


def beside_decoys(
    source: Source, tallies: Tallies, evidence: Evidence, *, epsilon: float, plan: Plan
) -> str:
    """Return that matched records refute what decoys do not, that none are judged, or "".

    It accuses nobody.

    The trainer writes the decoys' column and the commitment, and can name records that training
    never saw. The other training records then still show what is remembered, under assumption E.
    Decoys are there for data of which E is false, so that a model may be innocent all the same.
    """
    if tallies.decoys is None or evidence.epsilon_lower > epsilon:
        return ""
    names = plan.seed, source.model, str(source.day)
    arms = tallies.compare_arms(generator(*names, "arms"))
    if sum(one.records for one in tallies.control_odds) < _FEWEST:
        return _alone(tallies, f"since fewer than {_FEWEST} records were held out")
    if arms.differ:
        return _alone(tallies, "which do not divide as chance would beside the holdout's")
    matched = read_evidence(
        dataclasses.replace(tallies, decoys=None),
        claim=evidence.claim,
        choice=Grid(plan.fractions),
        paper_delta=plan.delta,
        random=generator(*names, "border"),
        proxy_doubtful=arms.doubtful,
    )
    if matched.epsilon_lower <= epsilon:
        return ""
    proved = at_least(matched.epsilon_lower, beyond=epsilon)
    return (
        f"The decoys do not show it, but the {matched.records:,} other training records, matched "
        f"with the holdout, prove that at least {proved} is lost, if the holdout was drawn at "
        "random from the rows trained on. See that the decoys are those that privaudit decoys drew "
        "before training, and that training took them."
    )


def _alone(tallies: Tallies, why: str) -> str:
    """Return that nothing was compared beside the decoys: training may know them from others."""
    records = sum(one.records for one in tallies.odds)
    return (
        f"The decoys alone were judged, and not the {records:,} other training records, {why}. If "
        "training could tell decoys from others, or did not take them, nothing is known of what it "
        "remembers. See that the decoys are those that privaudit decoys drew before training, and "
        "hold out at random."
    )
