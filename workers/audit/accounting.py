"""Accounting of a declaration's mechanism, in a process with limits of time and memory.

The parameters come from a manifest, and 63 bytes of it can ask for gigabytes or hours. So
dp_accounting runs in a contained process, and the record says which limit was met.
"""

import math
from typing import Any

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Neighbors, mechanism_from_manifest
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.manifest import Privacy


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
    answer = within_limits(where, named, _contained, privacy=privacy.model_dump_json())
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


def within_limits(where: str, mechanism: str, contained: Contained, **question: Any) -> Any:
    """Return what a contained process answers about a declared mechanism.

    Raises:
        NotEvaluableError: `accounting_limit`, naming the limit that was met, or that the arithmetic
            has no answer.
    """
    try:
        return contained(**question)
    except ContainedError as error:
        raise NotEvaluableError(
            Reason.ACCOUNTING_LIMIT,
            f"{where} declares a {mechanism} whose accounting {error.why}: declare parameters that "
            "were really used, or no mechanism.",
        ) from None


def account(_content: bytes, privacy: str) -> dict[str, Any]:
    """Return a declared mechanism's epsilon and relation, or why it is none.

    Runs in the contained process.
    """
    declared = Privacy.model_validate_json(privacy)
    if declared.mechanism is None:
        raise InvalidInputError("mechanism", None, "there is one to account for")
    try:
        mechanism = mechanism_from_manifest(declared.mechanism.name, declared.mechanism.parameters)
    except InvalidInputError as error:
        return {"refused": str(error)}
    return {"neighbors": mechanism.neighbors, "epsilon": mechanism.epsilon(declared.delta)}


_contained = Contained(
    f"{__name__}:{account.__name__}",
    seconds=limits.ACCOUNTING_SECONDS,
    memory=limits.ACCOUNTING_MEMORY_BYTES,
)
