"""Test of what a column is said to hold: secret labels, or a mechanism's responses.

A column of responses and one of labels that are hard to predict look alike. Only the opposite can
be detected: a column whose labels are predicted more often than responses can be holds none.
"""

import json
from typing import NamedTuple

from scipy.special import bdtrc

from privcore import rounding
from privcore.attacks import Tallies
from privcore.exceptions import InvalidInputError
from privcore.guarantees import RandomizedResponseAccount, mechanism_from_manifest
from privcore.lower_bounds import Secret
from workers.audit.accounting import accounted_epsilon
from workers.audit.declaration import judged_by
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import DeclaredMechanism, PrivatisedBy, guarantee_of
from workers.plan import Plan
from workers.sources.source import Source
from workers.warehouse.schema import LabelColumnHolds

_PAIR = 2
SURE = 1e-4
"""P-value below which a column holds no responses of the mechanism."""
OF_LABELS = {"randomized_response", "randomized_response_with_prior", "laplace_one_hot"}
"""Mechanisms that change labels one by one: what they make can be put in the labels' place."""
_TESTED = "randomized_response"
_OF_TRAINING = {"gaussian", "pate_laplace", "pate_gaussian", "dp_sgd"}
_MANIFEST = "its manifest's label.state"


def check_privatised(source: Source, tallies: Tallies, plan: Plan) -> None:
    """Refuse a column that is said to hold a mechanism's responses, where that is no way out.

    A model's owner would gain by saying so: nothing that it gives away then refutes what it
    declares. So an operator must allow it, and the mechanism must keep what is declared.

    Raises:
        NotEvaluableError: `label_state`; the proxy predicts the labels too well, no operator allows
            it, or the mechanism changes no labels or accounts for more than is declared.
    """
    state = source.label_state
    if not isinstance(state, PrivatisedBy):
        return
    said = declaration_location(source.facts["scores"], source.facts.get("source"))
    _check_allowed(state.privatised_by, source, plan, said=said)
    try:
        account = mechanism_from_manifest(state.privatised_by.name, state.privatised_by.parameters)
    except InvalidInputError as error:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"{source.model} for {source.day} says in {said} that the "
            f"labels were privatised by a mechanism that cannot be read: {error}",
        ) from None
    listed = len(source.label.classes)
    if isinstance(account, RandomizedResponseAccount) and account.classes < listed:
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"The labels of {source.model} for {source.day} have {listed} classes, and {said} says "
            f"that they are responses among {account.classes}: write in its parameters the classes "
            "that a response could be, or secret in that place.",
        )
    accuracy = proxy_accuracy(tallies)
    if _cannot_be(state.privatised_by, accuracy, plan):
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"The labels of {source.model} for {source.day} cannot have been privatised by "
            f"{state.privatised_by.name}, although {said} says so. The proxy never saw them and "
            f"predicts {accuracy.right:,} of {accuracy.predictions:,} correctly, which is more "
            "than such noise allows. Correct that entry: write secret if the column holds the "
            "labels from before the mechanism.",
        )


def _check_allowed(mechanism: DeclaredMechanism, source: Source, plan: Plan, *, said: str) -> None:
    """Refuse what would acquit a model without its labels being as private as it declares."""
    about = (
        f"The labels of {source.model} for {source.day} are said, in {said}, to have been "
        f"privatised by {mechanism.name}"
    )
    if mechanism.name not in OF_LABELS:
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"{about}, which changes no labels before training: write secret in that place, and "
            "name it as the declaration's mechanism.",
        )
    if said == _MANIFEST and mechanism.name not in _allowed(plan):
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"{about}. The settings do not allow that. If it is true, set privatised_labels = "
            f"['{mechanism.name}'] in this model's plan; if not, write secret in that place.",
        )
    guarantee = judged_by(source.privacy, plan, by_row=True)
    if guarantee is None:
        return
    kept = guarantee.model_copy(update={"mechanism": mechanism})
    try:
        accounted_epsilon(kept, where=f"{source.model} for {source.day}, in {said},")
    except NotEvaluableError as error:
        if error.reason is not Reason.DECLARED_TOO_LITTLE:
            raise
        raise NotEvaluableError(
            Reason.LABEL_STATE,
            f"{about}, which accounts for more than the "
            f"{rounding.guarantee(guarantee.epsilon, guarantee.delta)} that is declared: declare "
            "what it accounts for, or say secret there.",
        ) from None


def _allowed(plan: Plan) -> tuple[str, ...]:
    """Return the mechanisms that a manifest may name; responses of one alone can be tested."""
    named = plan.privatised_labels
    return named if isinstance(named, tuple) else (_TESTED,) * named


def label_column_holds(source: Source, tallies: Tallies, plan: Plan) -> LabelColumnHolds | None:
    """Return what the label's column holds, as its owner says or the data show; None if unknown."""
    if plan.secret is not Secret.LABEL:
        return None
    if isinstance(source.label_state, PrivatisedBy):
        return LabelColumnHolds.PRIVATISED
    if source.label_state is not None:
        return LabelColumnHolds.SECRET
    privacy = guarantee_of(source.privacy)
    if privacy is None or privacy.mechanism is None:
        return None
    accuracy = proxy_accuracy(tallies)
    found = _cannot_be(privacy.mechanism, accuracy, plan)
    return LabelColumnHolds.NOT_RANDOMIZED if found else None


def label_column_warning(
    mechanism: str | None,
    holds: str | None,
    *,
    said: str,
    column: str = "the label column",
) -> str:
    """Return what to look at before a violation is believed, or "".

    If the column holds labels that a mechanism has already randomized, training may be innocent.
    So the question is asked of every violation, unless it is known what the column holds or the
    declared mechanism is one of training. A declaration that names none, `pure` or a `composition`
    may be of labels that are changed one by one.
    """
    if holds is not None or mechanism in _OF_TRAINING:
        return ""
    named = mechanism if mechanism in OF_LABELS else "a mechanism that randomizes labels"
    return (
        f"Look first whether {column} holds the labels from before or from after {named}: from "
        f"after it, this is no violation. Say which in {said}, and audit again."
    )


def declaration_location(scores: str | None, source: str | None) -> str:
    """Return where it is said what a label's column holds, by a record's columns of these names."""
    if scores == "supplied":
        return "the settings' scores.label_state"
    if source is not None and "checkpoints" in json.loads(source):
        return "the settings' labels.label_state"
    return _MANIFEST


class ProxyAccuracy(NamedTuple):
    """The number of the proxy's predictions of labels that it never saw, and how many are right."""

    predictions: int
    right: int


def proxy_accuracy(tallies: Tallies) -> ProxyAccuracy:
    """Count the proxy's predictions of the class that is looked at of each record (`OddsTally`).

    With two classes each record has a prediction: the likelier one. With more, that the label is
    the class, where the proxy holds it likelier than not. Both are chosen without the label.
    """
    predictions = right = 0
    for tally in (*tallies.odds, *tallies.control_odds):
        cells = tally.cells()
        likely = cells.proxy > 0.0
        both = (cells.ones, likely), (cells.zeros, ~likely)
        for label, asked in both if tallies.classes == _PAIR else both[:1]:
            predictions += int((cells.ones + cells.zeros)[asked].sum())
            right += int(label[asked].sum())
    return ProxyAccuracy(predictions, right)


def randomized_pvalue(accuracy: ProxyAccuracy, keep_probability: float) -> float:
    """Return the p-value of "these labels went through randomized response", by the proxy's luck.

    A response is any one class with probability at most `keep_probability`, whatever the label was,
    independently of other records; so of n predictions made without it at most
    Binomial(n, keep_probability) come true. Exact, at any number of records; it says nothing
    against labels that are merely hard to predict, nor where the proxy knows the response from
    another day.
    """
    if accuracy.right == 0:
        return 1.0
    return float(bdtrc(accuracy.right - 1, accuracy.predictions, keep_probability))


def _cannot_be(mechanism: DeclaredMechanism, accuracy: ProxyAccuracy, plan: Plan) -> bool:
    """Return whether labels are predicted more often than the mechanism's responses could be.

    Of other mechanisms than symmetric responses nothing is known: with a prior they may always
    answer the same. Nor is it where a label comes again, and the proxy may know its response.
    """
    if mechanism.name != _TESTED or plan.labels_recur:
        return False
    account = mechanism_from_manifest(mechanism.name, mechanism.parameters)
    assert isinstance(account, RandomizedResponseAccount)  # noqa: S101  # by its name
    keep = account.keep_probability
    return keep < 1.0 and randomized_pvalue(accuracy, keep) < SURE
