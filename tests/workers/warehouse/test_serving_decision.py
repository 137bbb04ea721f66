"""A file is served only where an audit knows it, and each that does concludes for it."""

import datetime as dt
import hashlib
import os
import pathlib
from typing import Any

import pytest

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.support.warehouse import evaluated, night, put_rows, with_wealth
from workers.warehouse.schema import AuditRecord
from workers.warehouse.serving_decision import audits_of, file_sha256, serving_verdict
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 1)
FILE = "a" * 64


def audit_of(verdict: str, *, model: str = "ads", **changes: Any) -> AuditRecord:
    seeing = {"epsilon_ceiling": 3.0, "sees_from": 0.9}
    given = {"target_sha256": FILE, "labels_digest": "b" * 64} | seeing | changes
    return evaluated(model, given.pop("day", DAY), verdict=verdict, **given)


def put(warehouse: Warehouse, verdict: str, **changes: Any) -> None:
    warehouse.commit([audit_of(verdict, **changes)])


@pytest.mark.parametrize("word", ["not_refuted", "violated"])
def test_a_model_of_privatised_labels_is_judged_by_the_same_days_released_ones(warehouse, word):
    privatised = {"reason_code": "labels_privatised", "epsilon_declared": None}
    put(warehouse, "undeclared", **privatised)
    later = DAY + dt.timedelta(days=1)
    put(warehouse, word, secret="released_labels", day=later, hour=1)  # noqa: S106
    other_day = "violated" if word == "violated" else "undeclared"
    assert serving_verdict(audits_of(warehouse, FILE))[0] == other_day
    put(warehouse, word, secret="released_labels", hour=2)  # noqa: S106
    assert serving_verdict(audits_of(warehouse, FILE))[0] == word


@pytest.mark.slow
def test_no_rival_has_a_file_refuted_that_is_asked_for_by_its_models_name(warehouse):
    """A copy of it was audited as theirs, with labels that follow its answers."""
    put(warehouse, "not_refuted")
    rival = evaluated("rival", DAY, verdict="violated", target_sha256=FILE, hour=1)
    warehouse.commit([rival])
    assert serving_verdict(audits_of(warehouse, FILE))[0] is Verdict.VIOLATED
    assert serving_verdict(audits_of(warehouse, FILE, "ads"))[0] is Verdict.NOT_REFUTED
    assert serving_verdict(audits_of(warehouse, FILE, "rival"))[0] is Verdict.VIOLATED
    assert serving_verdict(audits_of(warehouse, FILE, "other"))[0] is Verdict.INCONCLUSIVE


MISSING = {"status": "not_evaluable", "reason_code": "model_missing"}
CONCLUDED: list[tuple[str, dict[str, Any], str]] = [
    ("not_refuted", {}, "not_refuted"),
    ("undeclared", {"reason_code": "labels_privatised", "epsilon_declared": None}, "undeclared"),
    ("undeclared", {"epsilon_declared": None}, "undeclared"),
    ("violated", {}, "violated"),
    ("inconclusive", {"reason_code": "declaration_empty"}, "inconclusive"),
    ("inconclusive", {"reason_code": "over_policy"}, "inconclusive"),
    ("inconclusive", {"reason_code": "persons_split"}, "inconclusive"),
    ("inconclusive", {"sees_from": 1.1}, "inconclusive"),
    ("inconclusive", {"sees_from": None}, "inconclusive"),
    ("not_refuted", {"target_sha256": "c" * 64}, "inconclusive"),
    ("not_refuted", {"secret": "membership"}, "inconclusive"),
    ("violated", {"secret": "membership"}, "violated"),
    ("failed", MISSING, "failed"),
    # An audit by a plan of its own could choose its seed and significance.
    ("not_refuted", {"exploratory": True}, "inconclusive"),
    ("violated", {"exploratory": True}, "violated"),
]


def file_of(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()


def test_a_file_passes_by_the_worst_of_what_its_audits_conclude(warehouse):
    worst_first: list[tuple[str, dict[str, Any]]] = [
        ("violated", {}),
        ("failed", MISSING),
        ("inconclusive", {"reason_code": "persons_split"}),
        ("undeclared", {"epsilon_declared": None}),
        ("not_refuted", {}),
    ]
    alone = [
        audit_of(verdict, model=f"alone-{place}", **{"target_sha256": file_of(place)} | changes)
        for place, (verdict, changes, _) in enumerate(CONCLUDED)
    ]
    several = [
        audit_of(verdict, model=f"{first}-{place}", target_sha256=file_of(first, "on"), **changes)
        for first in range(len(worst_first))
        for place, (verdict, changes) in reversed([*enumerate(worst_first)][first:])
    ]
    warehouse.commit([*alone, *several])
    for place, (*_, expected) in enumerate(CONCLUDED):
        found, why = serving_verdict(audits_of(warehouse, file_of(place)))
        assert (found, why[-1]) == (expected, "."), CONCLUDED[place]
    for first, (verdict, _) in enumerate(worst_first):
        found, why = serving_verdict(audits_of(warehouse, file_of(first, "on")))
        assert found == verdict
        told = f"{first}-{first} on 2026-04-01 is {found}" in why
        assert told is (found != "not_refuted")


def test_an_inconclusive_audit_is_taken_by_its_own_reason_alone(warehouse):
    put(warehouse, "inconclusive", model="few", sees_from=1.1)
    put(warehouse, "inconclusive", model="persons", reason_code="persons_split")
    audits = audits_of(warehouse, FILE)
    few, persons = ReasonCode.FEW_HELD_OUT, ReasonCode.PERSONS_SPLIT
    assert serving_verdict(audits, {few, persons})[0] is Verdict.NOT_REFUTED
    for accepted, other in ((few, "persons"), (persons, "few")):
        found, why = serving_verdict(audits, {accepted})
        assert found is Verdict.INCONCLUSIVE
        assert why.startswith(f"This file is not cleared: {other} on 2026-04-01 is inconclusive (")
        assert why.count("2026") == 1
    put(warehouse, "violated", model="leaks")
    assert serving_verdict(audits_of(warehouse, FILE), [*ReasonCode])[0] is Verdict.VIOLATED


@pytest.mark.slow
def test_one_failing_audit_is_enough_and_replacing_the_checkpoint_hides_none(warehouse):
    put(warehouse, "violated")
    put(warehouse, "not_refuted", target_sha256="c" * 64, hour=1)
    put(warehouse, "not_refuted", day=DAY + dt.timedelta(days=1), hour=2)
    assert serving_verdict(audits_of(warehouse, FILE))[0] is Verdict.VIOLATED
    assert serving_verdict(audits_of(warehouse, "c" * 64))[0] is Verdict.NOT_REFUTED


def test_labels_that_are_rewritten_after_a_violated_audit_open_no_gate(warehouse):
    """The day's current record refuted nothing, and the refuted file passed. Now it stays."""
    put(warehouse, "violated")
    put(warehouse, "not_refuted", labels_digest="c" * 64, hour=1)
    (current,) = warehouse.current()["verdict"]
    assert current == "violated"
    found, why = serving_verdict(audits_of(warehouse, FILE))
    assert found is Verdict.VIOLATED
    assert why == "This file must not be served: ads on 2026-04-01 is violated (this_night)."
    (wrong,) = warehouse.current()["audit_id"]
    warehouse.withdraw(wrong, why="The labels were of another day.")
    assert serving_verdict(audits_of(warehouse, FILE))[0] is Verdict.NOT_REFUTED


def test_nights_that_refute_together_are_a_violation(warehouse):
    record = evaluated("ads", DAY, target_sha256=FILE)
    warehouse.commit([with_wealth(record, claimed_log_wealth=(50.0,) * 4)])
    found, why = serving_verdict(audits_of(warehouse, FILE))
    assert found is Verdict.VIOLATED
    assert why == "This file must not be served: ads on 2026-04-01 is violated (nights_together)."


def test_the_digest_is_that_of_the_file_and_what_is_no_plain_file_is_refused(tmp_path):
    file = tmp_path / "model.cbm"
    file.write_bytes(b"a model")
    assert file_sha256(file) == hashlib.sha256(b"a model").hexdigest()
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(TerminalError, match="give the model file that is to be served"):
            file_sha256(missing)
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", pathlib.Path("/dev/zero")):
        with pytest.raises(TerminalError, match=r"no plain file|cannot be read"):
            file_sha256(place)


def test_a_file_of_a_violated_model_passes_by_no_other_checkpoint(warehouse):
    """The day was audited again with another file, and the first one was in no night any more."""
    seen = {"epsilon_ceiling": 8.0, "sees_from": 0.2}
    put_rows(warehouse, [night(one, 1.6, target_sha256=str(one) * 64, **seen) for one in range(4)])
    put_rows(warehouse, [night(3, -0.5, hour=5, target_sha256="f" * 64, **seen)])
    decided, why = serving_verdict(audits_of(warehouse, "3" * 64))
    assert (decided, why) == (
        Verdict.VIOLATED,
        "This file must not be served: ads on 2026-03-05 is violated (nights_together).",
    )


def test_another_checkpoint_ends_no_violation_that_its_day_leaves_open(warehouse):
    """The day counts by an audit of a third file, which resolves nothing."""
    put(warehouse, "violated")
    day = {"day": DAY + dt.timedelta(days=1)}
    put(warehouse, "not_refuted", target_sha256="c" * 64, hour=1, **day)
    put(warehouse, "inconclusive", target_sha256="d" * 64, hour=2, reason_code="arms_unlike", **day)
    found, why = serving_verdict(audits_of(warehouse, "c" * 64))
    assert found is Verdict.VIOLATED
    assert why.endswith("ads on 2026-04-02 is violated (earlier_night).")
