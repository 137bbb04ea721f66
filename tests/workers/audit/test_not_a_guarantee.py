"""A manifest that declares individual or bootstrap differential privacy declares nothing."""

import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, declared, small_lake
from workers.plan import Plan


@pytest.mark.parametrize("definition", ["idp", "group_idp", "bdp"])
def test_a_relaxation_is_no_guarantee_whatever_it_declares(tmp_path, definition):
    privacy = declared(epsilon=1e-6, definition=definition)
    lake = small_lake(tmp_path / "lake", privacy=privacy, days=(EVE, DAY))
    audit = audited(lake, Plan(repetitions=2))
    assert (audit.verdict, audit.reason_code) == ("inconclusive", "declaration_empty")
    assert audit.detail == definition
    assert f"declares {definition}" in audit.reason
    assert audit.epsilon_declared is None
    assert audit.epsilon_lower is not None
