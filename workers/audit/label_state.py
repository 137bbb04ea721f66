"""Whether a column can hold what its manifest says: secret labels, or a mechanism's responses.

A column of responses cannot be told from one of labels that are hard to predict. But one whose
labels are predicted more often than any response can be holds no responses: that much is told.
"""

from privcore.attacks import ProxyAccuracy, Tallies, proxy_accuracy, randomized_pvalue
from privcore.exceptions import InvalidInputError
from privcore.guarantees import RandomizedResponseAccount, mechanism_from_manifest
from privcore.lower_bounds import Evidence
from workers.audit.declaration import judged_by
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import DeclaredMechanism, PrivatisedBy
from workers.plan import Plan
from workers.sources.source import Source

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
    try:
        mechanism_from_manifest(state.privatised_by.name, state.privatised_by.parameters)
    except InvalidInputError as error:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The manifest of {source.model} for {source.day} says in label.state that the labels "
            f"were privatised by a mechanism that cannot be read: {error}",
        ) from None
    accuracy = proxy_accuracy((*tallies.odds, *tallies.control_odds), classes=tallies.classes)
    if _cannot_be(state.privatised_by, accuracy, plan):
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"The labels of {source.model} for {source.day} cannot have been privatised by "
            f"{state.privatised_by.name}, as label.state says: the proxy, which never saw them, "
            f"predicts {accuracy.right:,} of {accuracy.predictions:,} rightly, more than such "
            "noise lets anyone. Say what the column holds: label.state is secret where its labels "
            "are those from before the mechanism.",
        )


def perhaps_privatised(source: Source, tallies: Tallies, evidence: Evidence, plan: Plan) -> str:
    """Return what to look at before a violation is believed, or "".

    Where the declared mechanism changes labels one by one, nobody says what the column holds, and
    it could be the mechanism's responses: then training may be innocent.
    """
    privacy = judged_by(source.privacy, plan, state=source.label_state)
    mechanism = None if privacy is None else privacy.mechanism
    if (
        privacy is None
        or mechanism is None
        or mechanism.name not in OF_LABELS
        or source.label_state is not None
        or evidence.epsilon_lower <= privacy.epsilon
    ):
        return ""
    accuracy = proxy_accuracy((*tallies.odds, *tallies.control_odds), classes=tallies.classes)
    if _cannot_be(mechanism, accuracy, plan):
        return ""
    return (
        f"Look first whether {source.label.column!r} holds the labels from before or from after "
        f"{mechanism.name}: from after it, this is no violation. Say which in the manifest's "
        "label.state, and audit again."
    )


def _cannot_be(mechanism: DeclaredMechanism, accuracy: ProxyAccuracy, plan: Plan) -> bool:
    """Whether the labels are predicted more often than responses of the mechanism could be.

    Of other mechanisms than symmetric responses nothing is known: with a prior they may always
    answer the same. Nor is it where a label comes again, and the proxy may know its response.
    """
    if mechanism.name != "randomized_response" or plan.labels_recur:
        return False
    account = mechanism_from_manifest(mechanism.name, mechanism.parameters)
    assert isinstance(account, RandomizedResponseAccount)  # noqa: S101  # by its name
    keep = account.keep_probability
    return keep < 1.0 and randomized_pvalue(accuracy, keep_probability=keep) < SURE
