"""Policy: each line refuses alone, a limit that is met accepts, and what is unknown does not."""

import datetime as dt

import pytest

from flows.next_steps import card_of
from flows.policy import acceptance, refused_by_policy
from flows.settings import PolicySettings
from privcore.lower_bounds.verdicts import Trust, Verdict
from tests.flows.test_next_steps import held
from tests.support.report import frame, record
from workers.warehouse.nights_together import AuditedNight

MADE = record().recorded_at.date()
LIMITS = {"max_epsilon": 2.0, "max_sees_from": 2.7, "max_age_days": 3, "trust": ("self",)}
"""What `held` meets exactly, three days after it was recorded."""
WORSE = {
    "max_epsilon": {"epsilon_declared": 2.01},
    "max_sees_from": {"sees_from_together": 2.71},
    "max_age_days": {"recorded_at": record(offset=-1).recorded_at},
    "trust": {"trust": Trust.CONTROLLED},
}


def ruled(limits, night):
    on = MADE + dt.timedelta(days=3)
    found = acceptance(PolicySettings(**limits), night, card_of(night).verdict, on)
    return found.accepted, found.why


def test_what_meets_every_line_of_policy_exactly_is_accepted_by_all_of_them():
    accepted, why = ruled(LIMITS, held())
    assert accepted
    assert why == (
        "Accepted: the declared epsilon is 2 (policy.max_epsilon: at most 2); its audits see a "
        "leak from 2.70 on (policy.max_sees_from: at most 2.7); the last record is 3 days old "
        "(policy.max_age_days: at most 3); the evidence is self (policy.trust: self)."
    )
    assert ruled({}, held()) == (True, "Accepted: the verdict is not_refuted.")


@pytest.mark.parametrize("line", LIMITS)
def test_each_line_of_policy_refuses_alone_and_is_named(line):
    worse = held(**WORSE[line])
    accepted, why = ruled(LIMITS, worse)
    assert (accepted, why.count("policy.")) == (False, 1)
    assert why.startswith("Not accepted: ")
    assert f"(policy.{line}: " in why
    assert ruled({name: limit for name, limit in LIMITS.items() if name != line}, worse)[0]


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("max_epsilon", {"epsilon_declared": None}),
        ("max_sees_from", {"sees_from": None, "sees_from_together": None}),
        ("max_sees_from", {"sees_from": 2.71, "sees_from_together": None}),
    ],
)
def test_a_figure_that_is_not_there_meets_no_line(line, unknown):
    accepted, why = ruled(LIMITS, held(**unknown))
    assert (accepted, f"policy.{line}" in why) == (False, True)


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.NOT_REFUTED])
def test_policy_accepts_not_refuted_alone(verdict):
    accepted, why = ruled({}, held(verdict_together=verdict, reason_code_together=None))
    assert (accepted, f"the verdict is {verdict}" in why) == (False, True)


def test_a_file_is_refused_by_the_newest_audit_of_each_model_and_of_labels_alone():
    old = held(epsilon_declared=9.0, model="ads", audit_id="1")
    new = held(model="ads", audit_id="2", recorded_at=record(offset=1).recorded_at)
    other = held(model="feed", audit_id="3", secret="membership", epsilon_declared=9.0)  # noqa: S106
    policy = PolicySettings(max_epsilon=2.0)
    audits = frame([old, new, other], AuditedNight)
    assert refused_by_policy(policy, audits, MADE) == refused_by_policy(None, audits, MADE) == ""
    worse = held(model="feed", audit_id="4", epsilon_declared=9.0)
    why = refused_by_policy(policy, frame([old, new, worse], AuditedNight), MADE)
    assert why.startswith(f"feed on {worse.day}: Not accepted: the declared epsilon is 9 (policy.")
