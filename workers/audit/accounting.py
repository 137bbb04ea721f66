"""What a declaration comes to: its mechanism's epsilon, and what it promises against any attack.

The parameters come from a manifest, and 63 bytes of it can ask for gigabytes or hours. So the
arithmetic runs in a contained process, and the record says which limit was met.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Neighbors, Relation, mechanism_from_manifest
from privcore.lower_bounds import GameEvidence
from privcore.upper_bounds import Promised
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.warehouse.schema import PromiseRow

PRIORS = (0.01, 0.1, 0.5)
SECRET_BITS = (1.0, 10.0, 20.0, 40.0, 64.0)
SOURCES = {
    "any_attack": "Beyond the Worst Case, Theorem 3.2, Corollary 3.4",
    "simulation": "Observational Auditing of Privacy, Definition 1",
    "narcissus": "Cohen et al. 2024, Narcissus",
    "reconstruction_robustness": "Balle et al. 2022, Theorem 2",
    "renyi": "Stock et al. 2022, Renyi reconstruction, section 3",
    "correct_guesses": "Beyond the Worst Case, Theorem 3.5",
    "epsilon_protect": "Beyond the Worst Case, Theorem 3.2",
    "membership": "Provable Re-identification Privacy",
}


def accounted_epsilon(privacy: Privacy | None, *, where: str) -> float | None:
    """Return the epsilon that the declared mechanism's parameters account for; None without one.

    `where` is where the declaration stands, as a sentence begins.

    Raises:
        NotEvaluableError: the mechanism is unknown, lacks a parameter, has one out of range, is
            accounted under a weaker relation, or takes too long or too much memory to account; or
            it accounts for more than was declared: then both numbers are named.
    """
    if privacy is None or privacy.mechanism is None:
        return None
    named = privacy.mechanism.name
    answer = _within_limits(where, named, "account", privacy=privacy.model_dump_json())
    if "refused" in answer:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"{where} declares a mechanism that cannot be read: {answer['refused']}",
        )
    if answer["neighbors"] == Neighbors.ADD_REMOVE and privacy.neighbors != "add_remove":
        compared = "replacing" if privacy.neighbors == "replace" else "simulating"
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"{where} declares a guarantee for {compared}, but its {named} is "
            "accounted for adding or removing: set the mechanism's parameter neighbors to replace.",
        )
    accounted = float(answer["epsilon"])
    if math.isnan(accounted) or accounted > privacy.epsilon * (1.0 + 1e-9):
        raise NotEvaluableError(
            Reason.DECLARED_TOO_LITTLE,
            f"{where} declares epsilon {privacy.epsilon:g} at delta {privacy.delta:g}, but its "
            f"{named} accounts for {accounted:.6g}: declare that, or more noise.",
        )
    return accounted


def promise_rows(
    privacy: Privacy | None,
    identity: dict[str, Any],
    *,
    epsilon_accounted: float | None,
    game: GameEvidence,
    plan: Plan,
) -> tuple[PromiseRow, ...]:
    """Return the promises of the declared and of the accounted guarantee."""
    if privacy is None:
        return ()
    played = {bound.fraction: bound for bound in game.bounds}
    promises = _within_limits(
        "The manifest",
        "guarantee" if privacy.mechanism is None else privacy.mechanism.name,
        "promises",
        privacy=privacy.model_dump_json(),
        accounted=epsilon_accounted,
        records=int(game.records),
        played=[
            [fraction, int(bound.guesses), float(bound.correct)]
            for fraction, bound in played.items()
        ],
        plan=plan.model_dump_json(),
    )
    return tuple(PromiseRow(**identity, **promise) for promise in promises)


def _within_limits(where: str, mechanism: str, question: str, **asked: Any) -> Any:
    """Return what the contained process answers about a declared mechanism.

    Raises:
        NotEvaluableError: `accounting_limit`, naming the limit that was met, or that the arithmetic
            has no answer.
    """
    try:
        return _contained(question=question, **asked)
    except ContainedError as error:
        raise NotEvaluableError(
            Reason.ACCOUNTING_LIMIT,
            f"{where} declares a {mechanism} whose accounting {error.why}: declare parameters that "
            "were really used, or no mechanism.",
        ) from None


def answer(_content: bytes, question: str, **asked: Any) -> Any:
    """Return what a declaration comes to, or what it promises; runs in the contained process."""
    return _account(**asked) if question == "account" else _promises_of(**asked)


_contained = Contained(
    f"{__name__}:{answer.__name__}",
    seconds=limits.ACCOUNTING_SECONDS,
    memory=limits.ACCOUNTING_MEMORY_BYTES,
)


def _account(privacy: str) -> dict[str, Any]:
    """Return a declared mechanism's epsilon and relation, or why it is none."""
    declared = Privacy.model_validate_json(privacy)
    if declared.mechanism is None:
        raise InvalidInputError("mechanism", None, "there is one to account for")
    try:
        mechanism = mechanism_from_manifest(declared.mechanism.name, declared.mechanism.parameters)
    except InvalidInputError as error:
        return {"refused": str(error)}
    return {"neighbors": mechanism.neighbors, "epsilon": mechanism.epsilon(declared.delta)}


def _promises_of(
    privacy: str,
    accounted: float | None,
    records: int,
    played: list[tuple[float, int, float]],
    plan: str,
) -> list[dict[str, Any]]:
    """Return the promises as columns, for `played` fractions, guesses and correct ones."""
    declared, plans = Privacy.model_validate_json(privacy), Plan.model_validate_json(plan)
    relation = Relation(declared.neighbors)
    guarantees = {"declared": Promised(declared.epsilon, declared.delta, relation)}
    if declared.mechanism is not None and accounted is not None:
        mechanism = mechanism_from_manifest(declared.mechanism.name, declared.mechanism.parameters)
        guarantees["accounted"] = Promised(
            accounted, declared.delta, Relation(mechanism.neighbors), mechanism
        )
    return [
        {"guarantee": name, **promise}
        for name, promised in guarantees.items()
        for promise in (
            *_single_guesses(promised),
            *_games(promised, records, played, plans),
            {
                "quantity": "membership_accuracy",
                "value": promised.membership_accuracy(),
                "source": SOURCES["membership"],
            },
        )
    ]


def _single_guesses(promised: Promised) -> Iterator[dict[str, Any]]:
    """Yield what one guess can achieve: labels, and bits of secrets."""
    # Together, since a mechanism's Renyi curve takes a moment.
    priors = np.array([*PRIORS, *np.exp2(-np.array(SECRET_BITS))])
    bounds = promised.success_bounds(priors)
    table = np.array(list(bounds.values()))
    success, least = table.min(axis=0), table.argmin(axis=0)
    sources = [SOURCES[list(bounds)[place]] for place in least]
    found = list(zip(priors.tolist(), success.tolist(), sources, strict=True))
    for prior, value, source in found[: len(PRIORS)]:
        yield {"quantity": "success_bound", "parameter": prior, "value": value, "source": source}
    leaked = promised.leaked_bits(SECRET_BITS).tolist()
    for bits, value, source in zip(SECRET_BITS, leaked, sources[len(PRIORS) :], strict=True):
        yield {"quantity": "leaked_bits", "parameter": bits, "value": value, "source": source}


def _games(
    promised: Promised, records: int, played: list[tuple[float, int, float]], plan: Plan
) -> Iterator[dict[str, Any]]:
    """Yield the most correct guesses at every fraction of the plan, beside the attack's.

    Each limit holds for one game at the plan's significance, so the comparison with the mean over
    repetitions describes and does not test: the verdict does that.
    """
    for fraction, guesses, correct in played:
        count = promised.correct_bits(guesses, records=records, shift=plan.shift)
        limit = count.limit(significance=plan.significance)
        yield {
            "quantity": "correct_guesses",
            "parameter": fraction,
            "guesses": guesses,
            "value": float(limit),
            "achieved": correct,
            "source": SOURCES["correct_guesses"],
        }
