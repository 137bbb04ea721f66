"""What the declared guarantee promises against any attack, as rows beside the audit."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from privcore.guarantees import Neighbors, mechanism_from_manifest
from privcore.lower_bounds import GameEvidence
from privcore.upper_bounds import Promised, epsilon_protect, generalised_advantage
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.warehouse.schema import AttackOutcome, PromiseRow

PRIORS = (0.01, 0.1, 0.5)
SECRET_BITS = (1.0, 10.0, 20.0, 40.0, 64.0)
SOURCES = {
    "any_attack": "Beyond the Worst Case, Theorem 3.2, Corollary 3.4",
    "narcissus": "Cohen et al. 2024, Narcissus",
    "reconstruction_robustness": "Balle et al. 2022, Theorem 2",
    "renyi": "Stock et al. 2022, Renyi reconstruction, section 3",
    "correct_guesses": "Beyond the Worst Case, Theorem 3.5",
    "epsilon_protect": "Beyond the Worst Case, Theorem 3.2",
    "membership": "Provable Re-identification Privacy",
}


def promise_rows(
    privacy: Privacy | None,
    identity: dict[str, Any],
    *,
    epsilon_accounted: float | None,
    game: GameEvidence,
    plan: Plan,
) -> tuple[PromiseRow, ...]:
    """Return the promises of the declared and of the accounted guarantee.

    Args:
        privacy: the declaration; nothing is promised without one.
        identity: the columns that every row of the audit carries.
        epsilon_accounted: what the declared mechanism accounts for at the declared delta; None
            without a mechanism.
        game: the training records' game, for what the audit's attack achieved.
        plan: the guess fractions, the significance, the shift and the secrets.
    """
    if privacy is None:
        return ()
    neighbors = Neighbors(privacy.neighbors)
    guarantees = {"declared": Promised(privacy.epsilon, privacy.delta, neighbors)}
    if privacy.mechanism is not None and epsilon_accounted is not None:
        mechanism = mechanism_from_manifest(privacy.mechanism.name, privacy.mechanism.parameters)
        guarantees["accounted"] = Promised(
            epsilon_accounted, privacy.delta, mechanism.neighbors, mechanism
        )
    return tuple(
        PromiseRow(**identity, guarantee=name, **promise)
        for name, promised in guarantees.items()
        for promise in (
            *_single_guesses(promised, plan),
            *_games(promised, game, plan),
            *_membership(promised),
        )
    )


def _single_guesses(promised: Promised, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield what one guess can achieve: labels, bits of secrets, configured secrets."""
    names, secrets = list(plan.secrets), list(plan.secrets.values())
    # Together, since a mechanism's Renyi curve takes a moment.
    priors = np.array([*PRIORS, *np.exp2(-np.array(SECRET_BITS)), *secrets])
    bounds = promised.success_bounds(priors)
    table = np.array(list(bounds.values()))
    success, least = table.min(axis=0), table.argmin(axis=0)
    sources = [SOURCES[list(bounds)[place]] for place in least]
    found = list(zip(priors.tolist(), success.tolist(), sources, strict=True))
    for prior, value, source in found[: len(PRIORS)]:
        yield {"quantity": "success_bound", "parameter": prior, "value": value, "source": source}
    leaked = promised.leaked_bits(SECRET_BITS).tolist()
    for bits, value, source in zip(SECRET_BITS, leaked, sources[len(PRIORS) :], strict=False):
        yield {"quantity": "leaked_bits", "parameter": bits, "value": value, "source": source}
    for name, (prior, value, source) in zip(names, found[-len(names) :], strict=False):
        secret = {"subject": name, "parameter": prior}
        advantage = float(generalised_advantage(prior, value))
        protecting = float(epsilon_protect(prior, advantage=plan.advantage))
        yield secret | {"quantity": "secret_success", "value": value, "source": source}
        yield secret | {"quantity": "secret_advantage", "value": advantage, "source": source}
        yield secret | {
            "quantity": "epsilon_protect",
            "value": protecting,
            "source": SOURCES["epsilon_protect"],
        }


def _games(promised: Promised, game: GameEvidence, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the most correct guesses at every fraction of the plan, beside the attack's.

    Each limit holds for one game at the plan's significance, so the comparison with the mean over
    repetitions describes and does not test: the verdict does that.
    """
    played = {bound.fraction: bound for bound in game.bounds}
    for fraction, bound in played.items():
        count = promised.correct_guesses(bound.guesses, records=game.records, shift=plan.shift)
        limit = count.limit(significance=plan.significance)
        yield {
            "quantity": "correct_guesses",
            "parameter": fraction,
            "guesses": bound.guesses,
            "value": float(limit),
            "achieved": bound.correct,
            "outcome": AttackOutcome.KEPT if bound.correct <= limit else AttackOutcome.EXCEEDED,
            "source": SOURCES["correct_guesses"],
        }


def _membership(promised: Promised) -> Iterator[dict[str, Any]]:
    """Yield how well anyone tells a record that took part from one that did not."""
    accuracy, source = promised.membership_accuracy(), SOURCES["membership"]
    yield {"quantity": "membership_accuracy", "value": accuracy, "source": source}
    yield {"quantity": "membership_advantage", "value": 2.0 * accuracy - 1.0, "source": source}
