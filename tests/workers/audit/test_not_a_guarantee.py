"""A manifest that declares individual or bootstrap differential privacy declares nothing."""

import pytest

from flows.report.history import AuditedNight
from flows.report.sentences import model_sentence, night_sentence
from flows.run.conclusion import exit_code
from tests.support.lake import DAY, EVE, declared, small_lake
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import Plan


@pytest.mark.parametrize("definition", ["idp", "group_idp", "bdp"])
def test_a_relaxation_is_no_guarantee_whatever_it_declares(tmp_path, definition):
    privacy = declared(epsilon=1e-6, definition=definition)
    lake = small_lake(tmp_path / "lake", privacy=privacy, days=(EVE, DAY))
    audit = run_audit(lake, "good", DAY, plan=Plan(repetitions=2), executor=InProcess()).audit
    assert audit.verdict == "not_a_guarantee"
    assert f"declares {definition}" in audit.reason
    assert audit.epsilon_declared is None
    assert audit.epsilon_lower is not None
    assert exit_code([audit]) == 2
    assert "not a guarantee" in model_sentence(audit)
    night = AuditedNight.model_validate(audit.model_dump())
    assert night_sentence({"good": night}).endswith("the declaration of good is not a guarantee")
