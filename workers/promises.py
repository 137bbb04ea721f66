"""What the declared guarantee promises, as rows beside the audit."""

from typing import Any

from privcore.upper_bounds import rip_eta, success_bound
from workers.manifest import Privacy
from workers.records import PromiseRow

_PRIORS = (0.01, 0.1, 0.5)


def promise_rows(privacy: Privacy | None, identity: dict[str, Any]) -> tuple[PromiseRow, ...]:
    """Return the promises of the declared guarantee; none where nothing is declared."""
    if privacy is None:
        return ()
    success = tuple(
        PromiseRow(
            **identity,
            guarantee="declared",
            quantity="success_bound",
            parameter=prior,
            value=min(1.0, float(success_bound(prior, epsilon=privacy.epsilon)) + privacy.delta),
            source="Beyond the Worst Case, Theorem 3.2 and Corollary 3.4",
        )
        for prior in _PRIORS
    )
    advantage = PromiseRow(
        **identity,
        guarantee="declared",
        quantity="membership_advantage",
        parameter=None,
        value=min(1.0, float(rip_eta(privacy.epsilon)) + privacy.delta),
        source="Provable Re-identification Privacy",
    )
    return (*success, advantage)
