"""A guarantee for simulating labels: declared, stored, and tested by what it implies."""

import pathlib
from typing import Any

import pytest

from tests.support.audits import recorded
from tests.support.lake import DAY, MEMORISE, declared, edit_manifest, small_lake
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord


def audited(lake: Lake, **privacy: Any) -> AuditRecord:
    edit_manifest(lake, "good", DAY, privacy=declared(0.2, delta=0.0, **privacy))
    return recorded(lake)


@pytest.mark.slow
@pytest.mark.paper("observational", "Definition 1", "Definition 2")
def test_a_guarantee_for_simulating_is_stored_and_tested_by_its_own_theorem(
    tmp_path: pathlib.Path,
) -> None:
    """1,600 rows that the target memorised, seed 0; only the declared relation differs."""
    lake = small_lake(tmp_path, rows=1_600, parameters=MEMORISE)
    simulated, replaced, added = (
        audited(lake, neighbors=relation) for relation in ("simulate", "replace", "add_remove")
    )
    assert simulated.audit.neighbors == "simulate"
    assert simulated.audit.audit_id != replaced.audit.audit_id
    # The game plays against the simulator itself: the claim is tested as it is.
    assert simulated.audit.epsilon_game == replaced.audit.epsilon_game
    # Matched odds may grow by two steps, as for adding or removing.
    assert replaced.audit.epsilon_lower > 0.4
    assert simulated.audit.epsilon_lower == added.audit.epsilon_lower
    assert simulated.audit.epsilon_lower == pytest.approx(replaced.audit.epsilon_lower / 2.0)
    definition = "Observational Auditing of Privacy, Definition 1"
    assert definition in {promise.source for promise in simulated.promises}
    assert definition not in {promise.source for promise in (*replaced.promises, *added.promises)}
    guesses = [
        [promise.value for promise in record.promises if promise.quantity == "correct_guesses"]
        for record in (simulated, replaced, added)
    ]
    assert guesses[0] == guesses[1] < guesses[2]
