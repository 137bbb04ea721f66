"""Explanation of a guarantee's promise, in words: `privaudit explain`."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Relation, mechanism_from_manifest
from privcore.rounding import down, exact, percent_up, significant_up, up
from privcore.upper_bounds import Promised, epsilon_protect, generalised_advantage
from workers.audit.accounting import PRIORS, SECRET_BITS, SOURCES

SECRETS = {"a fair label": 0.5, "nine random digits": 1e-9}
_ADVANTAGE = 0.05
"""Advantage over a blind guess that `epsilon_protect` keeps."""
_CONFIDENCE = 0.95
"""Confidence of the limit on correct guesses."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One promise; `quantity` is its name in the table `audit_promises`.

    It holds for a `parameter`, the prior, the bits or the number of guesses. `text` is its value as
    it is shown, rounded so that it stays true.
    """

    quantity: str
    subject: str
    parameter: float | None
    value: float
    text: str
    source: str
    sentence: str | None = None


def promised_by(
    *,
    epsilon: float | None,
    delta: float,
    neighbors: str | None,
    mechanism: str | None,
    parameters: Sequence[str],
) -> Promised:
    """Return the guarantee that was asked about: stated, or accounted from a mechanism.

    A stated epsilon is at least what the mechanism accounts for. The mechanism's parameters are
    "name=value", and it has its own neighbors; otherwise these are "replace" by default.

    Raises:
        InvalidInputError: neither epsilon nor mechanism, or a value out of its range.
    """
    if mechanism is None:
        if epsilon is None:
            raise InvalidInputError(
                "--epsilon", None, "a guarantee has one: give it, or --mechanism"
            )
        if parameters:
            rule = "it belongs to a --mechanism, which is missing"
            raise InvalidInputError("--parameter", parameters[0], rule)
        relation = neighbors or Relation.REPLACE
        if relation not in list(Relation):
            raise InvalidInputError("--neighbors", relation, f"it is {' or '.join(Relation)}")
        return Promised(epsilon, delta, Relation(relation))
    given = dict(parse_parameter(text) for text in parameters)
    if neighbors is not None:
        given.setdefault("neighbors", neighbors)
    described = mechanism_from_manifest(mechanism, given)
    accounted = described.epsilon(delta)
    if epsilon is not None and epsilon < accounted * (1.0 - 1e-9):
        rule = f"{mechanism} accounts for {accounted:.6g} at delta {delta:g}"
        raise InvalidInputError("--epsilon", epsilon, rule)
    return Promised(
        accounted if epsilon is None else epsilon, delta, Relation(described.neighbors), described
    )


def explain(
    promised: Promised, *, prior: float | None = None, records: int | None = None
) -> list[Answer]:
    """Return what a guarantee promises: in general, or of an attacker who guesses `records` bits.

    A blind guess has the success probability `prior`.

    Raises:
        InvalidInputError: a value out of its range.
    """
    if records is not None:
        prior = 0.5 if prior is None else prior
        return [_games(promised, records, prior), _success(promised, prior)]
    if prior is not None:
        protecting = _protecting(promised, f"a secret of prior {exact(prior)}", prior)
        return [_success(promised, prior), _advantage(promised, prior), protecting]
    secrets = (_protecting(promised, name, prior) for name, prior in SECRETS.items())
    return [*_usual(promised), *secrets]


def guarantee_sentence(promised: Promised) -> str:
    """Return what is asked about, in one sentence."""
    relation = {
        Relation.REPLACE: "replacing one record's secret",
        Relation.ADD_REMOVE: "adding or removing one record",
        Relation.SIMULATE: "simulating one record's label",
    }[promised.neighbors]
    delta = f", delta {exact(promised.delta)}" if promised.delta else ""
    sentence = f"Epsilon {_epsilon(promised.epsilon)}{delta}, for {relation}"
    if promised.neighbors is not Relation.REPLACE:
        epsilon, delta_replacing = promised.replacing
        also = f", delta {significant_up(delta_replacing)}" if delta_replacing else ""
        sentence += f"; for replacing one, at most epsilon {_epsilon(epsilon)}{also}"
    return f"{sentence}."


def _usual(promised: Promised) -> Iterator[Answer]:
    """Yield the sentences that hold for every guarantee."""
    for prior in sorted(PRIORS, reverse=True):
        answer = _success(promised, prior)
        yield answer if prior == 0.5 else replace(answer, sentence=None)
    name, subject, source = "membership_accuracy", "telling who took part", SOURCES["membership"]
    accuracy = promised.membership_accuracy()
    shown, advantage = percent_up(accuracy), 2.0 * accuracy - 1.0
    said = "Whether a record took part, where both are as probable, is told with at most"
    said = f"{said} {shown} accuracy."
    yield Answer(name, f"{subject}: accuracy", None, accuracy, shown, source, said)
    name, shown = "membership_advantage", up(advantage, decimals=3)
    yield Answer(name, f"{subject}: advantage", None, advantage, shown, source)
    for bits in SECRET_BITS:
        yield _bits(promised, bits)


def _advantage(promised: Promised, prior: float) -> Answer:
    value = float(generalised_advantage(prior, promised.success(prior)))
    subject = f"advantage over a blind guess, prior {exact(prior)}"
    source = SOURCES["any_attack"]
    return Answer("secret_advantage", subject, prior, value, significant_up(value), source)


def _games(promised: Promised, records: int, prior: float) -> Answer:
    if records < 0:
        raise InvalidInputError("--records", records, "a number of records is at least 0")
    count = promised.correct_guesses(records, records=records, prior=prior)
    limit = count.limit(significance=1.0 - _CONFIDENCE)
    share = percent_up(_CONFIDENCE)
    blind = "50/50" if prior == 0.5 else f"right with probability {exact(prior)} blindly"
    name, subject = "correct_guesses", f"correct of {records:,} guesses, {share} confidence"
    said = f"Of {records:,} guesses that were {blind}, nobody has more than {limit:,} right, with"
    shown, said = f"{limit:,}", f"{said} {share} confidence."
    return Answer(name, subject, float(records), float(limit), shown, SOURCES[name], said)


def _success(promised: Promised, prior: float) -> Answer:
    value, source = _least(promised, prior)
    what = "a label that was 50/50"
    if prior != 0.5:
        what = f"a secret that a blind guess gets with probability {exact(prior)}"
    subject, shown = f"success of one guess, prior {exact(prior)}", percent_up(value)
    said = f"Nobody guesses {what} with more than {shown} success."
    return Answer("success_bound", subject, prior, value, shown, source, said)


def _bits(promised: Promised, bits: float) -> Answer:
    value = float(promised.leaked_bits(bits))
    _, source = _least(promised, 2.0**-bits)
    sentence = None
    if bits == 20.0:
        sentence = f"Of a random secret of 20 bits, at most {up(value, decimals=1)} leak."
    subject = f"bits leaked of a {exact(bits)}-bit secret"
    return Answer("leaked_bits", subject, bits, value, up(value), source, sentence)


def _least(promised: Promised, prior: float) -> tuple[float, str]:
    """The least bound on the success of one guess, and its theorem."""
    bounds = promised.success_bounds(prior)
    name = min(bounds, key=lambda bound: float(bounds[bound]))
    return float(bounds[name]), SOURCES[name]


def _protecting(promised: Promised, name: str, prior: float) -> Answer:
    limit, quantity = exact(_ADVANTAGE), "epsilon_protect"
    value = float(epsilon_protect(prior, advantage=_ADVANTAGE))
    reached = float(generalised_advantage(prior, promised.success(prior)))
    subject, shown = f"epsilon that protects {name} (advantage {limit})", down(value)
    said = f"The advantage on {name} is at most {significant_up(reached)}; any guarantee with"
    said = f"{said} epsilon {shown} and delta 0 keeps it at {limit}."
    return Answer(quantity, subject, prior, value, shown, SOURCES[quantity], said)


def parse_parameter(text: str) -> tuple[str, Any]:
    """Return name and value of "name=value"; the value as JSON if it is some, else as text.

    Raises:
        InvalidInputError: there is no name, or no value.
    """
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidInputError("--parameter", text, "write it as name=value")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _epsilon(value: float) -> str:
    """A stated epsilon as it was stated, a computed one rounded up."""
    return exact(value) if value == round(value, 4) or math.isinf(value) else up(value, decimals=4)
