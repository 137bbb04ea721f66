"""Explanation of a guarantee's promise, in words: `privaudit explain`."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.markup import escape
from rich.table import Table

from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, Relation, mechanism_from_manifest
from privcore.rounding import down, exact, percent_up, significant_up, up
from privcore.upper_bounds import (
    Promised,
    epsilon_protect,
    generalised_advantage,
    tradeoff_success_bound,
)
from workers.audit.record_promises import PRIORS, SECRET_BITS, SOURCES

SECRETS = {"a fair label": 0.5, "nine random digits": 1e-9}
_UNIFORM = "Mahloujifar et al. 2024, for secrets that are all equally probable"


@dataclass(frozen=True, slots=True)
class Question:
    """Question about a guarantee; a None gets the usual answers.

    Attributes:
        promised: the guarantee.
        prior: success probability of a blind guess.
        records: how many fair bits take part in a game.
        guesses: how many of them are guessed; all by default.
        secret_bits: the length of a secret.
        advantage: the limit that `epsilon_protect` keeps.
        confidence: of the limit on correct guesses.
    """

    promised: Promised
    prior: float | None = None
    records: int | None = None
    guesses: int | None = None
    secret_bits: float | None = None
    advantage: float = 0.05
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Answer:
    """One promise.

    Attributes:
        quantity: its name, as in the table `audit_promises`.
        subject: what it is about, in words.
        parameter: the prior, the bits or the number of guesses that it holds for.
        value: the most that any attacker can achieve.
        text: the value as it is shown, rounded so that it stays true.
        source: the theorem.
        sentence: the promise in one sentence, for those that are worth one.
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

    Args:
        epsilon: the stated epsilon; with a mechanism at least what that accounts for.
        delta: in [0, 1).
        neighbors: "replace" (the default), "add_remove" or "simulate"; a mechanism has its own.
        mechanism: a name that a manifest may hold.
        parameters: of the mechanism, each "name=value".

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


def explain(question: Question) -> list[Answer]:
    """Return what the guarantee promises, the asked-for first.

    Raises:
        InvalidInputError: a value of the question out of its range.
    """
    asked = [*_games(question), *_given_prior(question), *_given_bits(question)]
    return asked or [*_usual(question.promised), *_secrets(question)]


def answers_table(answers: Sequence[Answer]) -> Table:
    """Return the answers as a table, with their theorems as footnotes."""
    sources = list(dict.fromkeys(answer.source for answer in answers))
    table = Table(
        header_style="bold",
        box=None,
        pad_edge=False,
        caption="\n".join(f"{place} {source}" for place, source in enumerate(sources, 1)),
        caption_justify="left",
    )
    table.add_column("the most that any attacker can achieve", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("by", style="dim")
    for answer in answers:
        place = str(sources.index(answer.source) + 1)
        table.add_row(escape(answer.subject), answer.text, place)
    return table


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


def as_json(promised: Promised, answers: Sequence[Answer]) -> str:
    """Return guarantee and answers as JSON; an infinite number is null."""
    content = {
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "neighbors": str(promised.neighbors),
        "promises": [asdict(answer) for answer in answers],
    }
    return json.dumps(_finite(content), indent=2, allow_nan=False)


def _usual(promised: Promised) -> Iterator[Answer]:
    """Yield the sentences that hold for every guarantee."""
    for prior in sorted(PRIORS, reverse=True):
        answer = _success(promised, prior)
        yield answer if prior == 0.5 else replace(answer, sentence=None)
    accuracy = promised.membership_accuracy()
    source = SOURCES["membership"]
    yield Answer(
        "membership_accuracy",
        "telling who took part: accuracy",
        None,
        accuracy,
        percent_up(accuracy),
        source,
        f"Whether a record took part, where both are as probable, is told with at most "
        f"{percent_up(accuracy)} accuracy.",
    )
    advantage = 2.0 * accuracy - 1.0
    subject = "telling who took part: advantage"
    yield Answer(
        "membership_advantage", subject, None, advantage, up(advantage, decimals=3), source
    )
    for bits in SECRET_BITS:
        yield _bits(promised, bits)


def _secrets(question: Question) -> Iterator[Answer]:
    """Yield which epsilon protects the usual secrets."""
    for name, prior in SECRETS.items():
        yield _protecting(question, name, prior)


def _given_prior(question: Question) -> Iterator[Answer]:
    """Yield every theorem's word on one guess with the asked-for prior."""
    prior = question.prior
    if prior is None or question.records is not None:
        return
    promised = question.promised
    yield _success(promised, prior)
    for name, bound in promised.success_bounds(prior).items():
        value, subject = float(bound), f"  by {name.replace('_', ' ')}"
        yield Answer(name, subject, prior, value, percent_up(value), SOURCES[name])
    if prior > 0.0 and (choices := round(1.0 / prior)) >= 2 and math.isclose(choices * prior, 1.0):
        epsilon, delta = promised.replacing
        value = float(tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta)))
        subject = f"  if all {choices:,} values are as probable"
        yield Answer("tradeoff", subject, prior, value, percent_up(value), _UNIFORM)
    advantage = float(generalised_advantage(prior, promised.success(prior)))
    subject = f"advantage over a blind guess, prior {exact(prior)}"
    source = SOURCES["any_attack"]
    yield Answer("secret_advantage", subject, prior, advantage, significant_up(advantage), source)
    yield _protecting(question, f"a secret of prior {exact(prior)}", prior)


def _given_bits(question: Question) -> Iterator[Answer]:
    """Yield what leaks of a secret of the asked-for length."""
    bits = question.secret_bits
    if bits is None:
        return
    answer = _bits(question.promised, bits)
    yield answer
    prior = 2.0**-bits
    success = float(question.promised.success(prior))
    yield Answer(
        "secret_success",
        f"guessing all {exact(bits)} bits",
        bits,
        success,
        significant_up(success),
        answer.source,
        f"A random secret of {exact(bits)} bits is guessed with probability at most "
        f"{significant_up(success)}, blindly with {significant_up(prior)}.",
    )


def _games(question: Question) -> Iterator[Answer]:
    """Yield the most correct guesses among the asked-for records."""
    records = question.records
    if records is None:
        if question.guesses is not None:
            raise InvalidInputError("--guesses", question.guesses, "it needs --records")
        return
    if records < 0:
        raise InvalidInputError("--records", records, "a number of records is at least 0")
    if not 0.0 <= question.confidence <= 1.0:
        raise InvalidInputError("--confidence", question.confidence, "it lies in [0, 1]")
    prior = 0.5 if question.prior is None else question.prior
    guesses = records if question.guesses is None else question.guesses
    count = question.promised.correct_guesses(guesses, records=records, prior=prior)
    limit = count.limit(significance=1.0 - question.confidence)
    share = percent_up(question.confidence)
    blind = "50/50" if prior == 0.5 else f"right with probability {exact(prior)} blindly"
    yield Answer(
        "correct_guesses",
        f"correct of {guesses:,} guesses, {share} confidence",
        float(guesses),
        float(limit),
        f"{limit:,}",
        SOURCES["correct_guesses"],
        f"Of {guesses:,} guesses that were {blind}, on {records:,} records, nobody has more than "
        f"{limit:,} right, with {share} confidence.",
    )
    yield _success(question.promised, prior)


def _success(promised: Promised, prior: float) -> Answer:
    value, source = _least(promised, prior)
    what = "a label that was 50/50"
    if prior != 0.5:
        what = f"a secret that a blind guess gets with probability {exact(prior)}"
    return Answer(
        "success_bound",
        f"success of one guess, prior {exact(prior)}",
        prior,
        value,
        percent_up(value),
        source,
        f"Nobody guesses {what} with more than {percent_up(value)} success.",
    )


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


def _protecting(question: Question, name: str, prior: float) -> Answer:
    limit = exact(question.advantage)
    value = float(epsilon_protect(prior, advantage=question.advantage))
    reached = float(generalised_advantage(prior, question.promised.success(prior)))
    return Answer(
        "epsilon_protect",
        f"epsilon that protects {name} (advantage {limit})",
        prior,
        value,
        down(value),
        SOURCES["epsilon_protect"],
        f"The advantage on {name} is at most {significant_up(reached)}; any guarantee with "
        f"epsilon {down(value)} and delta 0 keeps it at {limit}.",
    )


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


def _finite(content: Any) -> Any:
    """Content with null for infinities, which JSON has not."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
