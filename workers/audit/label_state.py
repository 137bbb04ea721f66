"""Whether a column can hold what is said of it: secret labels, or a mechanism's responses.

A column of responses cannot be told from one of labels that are hard to predict. But one whose
labels are predicted more often than any response can be holds no responses: that much is told.
"""

import json

from privcore.attacks import ProxyAccuracy, Tallies, proxy_accuracy, randomized_pvalue
from privcore.exceptions import InvalidInputError
from privcore.guarantees import RandomizedResponseAccount, mechanism_from_manifest
from privcore.lower_bounds import Secret
from workers.audit.declaration import judged_by
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import DeclaredMechanism, PrivatisedBy
from workers.plan import Plan
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds

SURE = 1e-4
"""Below this p-value a column holds no responses of the mechanism."""
OF_LABELS = {"randomized_response", "randomized_response_with_prior", "laplace_one_hot"}
"""Mechanisms that change labels one by one: what they make can be put in the labels' place."""


def check_privatised(source: Source, tallies: Tallies, plan: Plan) -> None:
    """Refuse a column that is said to hold a mechanism's responses, and cannot.

    Raises:
        NotEvaluableError: `label_state`; the proxy predicts it too well, or the mechanism is none.
    """
    state = source.label_state
    if not isinstance(state, PrivatisedBy):
        return
    said = said_in(source.facts["scores"], source.facts.get("source"))
    try:
        mechanism_from_manifest(state.privatised_by.name, state.privatised_by.parameters)
    except InvalidInputError as error:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"{source.model} for {source.day} says in {said} that the "
            f"labels were privatised by a mechanism that cannot be read: {error}",
        ) from None
    accuracy = _accuracy(tallies)
    if _cannot_be(state.privatised_by, accuracy, source, plan):
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"The labels of {source.model} for {source.day} cannot have been privatised by "
            f"{state.privatised_by.name}, as {said} says: the proxy, "
            f"which never saw them, predicts {accuracy.right:,} of {accuracy.predictions:,} "
            "rightly, more than such noise lets anyone. Say there what the column holds: secret "
            "where its labels are those from before the mechanism.",
        )


def label_column_holds(source: Source, tallies: Tallies, plan: Plan) -> LabelColumnHolds | None:
    """Return what the label's column holds, as somebody says or the data show; None if unknown."""
    if plan.secret is not Secret.LABEL:
        return None
    if isinstance(source.label_state, PrivatisedBy):
        return LabelColumnHolds.PRIVATISED
    if source.label_state is not None:
        return LabelColumnHolds.SECRET
    privacy = judged_by(source.privacy, plan)
    if privacy is None or privacy.mechanism is None:
        return None
    accuracy = _accuracy(tallies)
    found = _cannot_be(privacy.mechanism, accuracy, source, plan)
    return LabelColumnHolds.NO_RESPONSES if found else None


def look_first(
    mechanism: str | None,
    holds: str | None,
    *,
    said: str,
    column: str = "the label column",
) -> str:
    """Return what to look at before a violation is believed, or "".

    Where the declared mechanism changes labels one by one, and it is not known what the column
    holds, it could be the mechanism's responses: then training may be innocent.

    Args:
        mechanism: the declared one.
        holds: what `label_column_holds` says.
        said: where it is said, as `said_in` returns it.
        column: as the sentence names it.
    """
    if mechanism not in OF_LABELS or holds is not None:
        return ""
    return (
        f"Look first whether {column} holds the labels from before or from after {mechanism}: "
        f"from after it, this is no violation. Say which in {said}, and audit again."
    )


def said_in(scores: str | None, source: str | None) -> str:
    """Return where it is said what a label's column holds, by a record's columns of these names."""
    if scores == "supplied":
        return "the settings' scores.label_state"
    if source is not None and "checkpoints" in json.loads(source):
        return "the settings' labels.label_state"
    return "its manifest's label.state"


def _accuracy(tallies: Tallies) -> ProxyAccuracy:
    believed = tallies.believed()
    return proxy_accuracy((*believed.odds, *believed.control_odds), classes=tallies.classes)


def _cannot_be(
    mechanism: DeclaredMechanism, accuracy: ProxyAccuracy, source: Source, plan: Plan
) -> bool:
    """Whether the labels are predicted more often than responses of the mechanism could be.

    Of other mechanisms than symmetric responses nothing is known: with a prior they may always
    answer the same. Nor is it where a label comes again, and the proxy may know its response, or of
    numbers, of which the proxy predicts no side.
    """
    if mechanism.name != "randomized_response" or plan.labels_recur or not source.gives_chances:
        return False
    account = mechanism_from_manifest(mechanism.name, mechanism.parameters)
    assert isinstance(account, RandomizedResponseAccount)  # noqa: S101  # by its name
    keep = account.keep_probability
    return keep < 1.0 and randomized_pvalue(accuracy, keep_probability=keep) < SURE
