"""A file is served only where an audit knows it, and each that does concludes for it."""

import datetime as dt
import hashlib
import os
import pathlib
from typing import Any

import numpy as np
import pytest

from privcore.exceptions import TerminalError
from tests.support.warehouse import evaluated, night, put_rows
from workers.warehouse.schema import AuditRecord
from workers.warehouse.serving_decision import Gate, audits_of, file_sha256, gate
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 1)
FILE = "a" * 64


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def audit_of(verdict: str, *, model: str = "ads", **changes: Any) -> AuditRecord:
    seeing = {"epsilon_ceiling": 3.0, "epsilon_detectable": 0.9}
    given = {"target_sha256": FILE, "labels_digest": "b" * 64} | seeing | changes
    return evaluated(model, given.pop("day", DAY), verdict=verdict, **given)


def put(warehouse: Warehouse, verdict: str, **changes: Any) -> None:
    warehouse.commit(audit_of(verdict, **changes))


@pytest.mark.slow
def test_no_rival_has_a_file_refuted_that_is_asked_for_by_its_models_name(
    tmp_path: pathlib.Path,
) -> None:
    """A copy of it was audited as theirs, with labels that follow its answers."""
    warehouse = Warehouse(str(tmp_path / "w"))
    put(warehouse, "consistent")
    rival = evaluated("rival", DAY, verdict="violated", target_sha256=FILE, hour=1)
    warehouse.commit(rival)
    assert gate(audits_of(warehouse, FILE))[0] is Gate.FAIL
    assert gate(audits_of(warehouse, FILE, "ads"))[0] is Gate.PASS
    assert gate(audits_of(warehouse, FILE, "rival"))[0] is Gate.FAIL
    assert gate(audits_of(warehouse, FILE, "other"))[0] is Gate.INCONCLUSIVE


CONCLUDED: list[tuple[str, dict[str, Any], Gate]] = [
    ("consistent", {}, Gate.PASS),
    ("privatised", {}, Gate.PASS),
    ("violated", {}, Gate.FAIL),
    ("vacuous", {}, Gate.FAIL),
    ("not_a_guarantee", {}, Gate.FAIL),
    ("undeclared", {}, Gate.INCONCLUSIVE),
    ("proxy_unfaithful", {}, Gate.INCONCLUSIVE),
    ("doubtful", {}, Gate.INCONCLUSIVE),
    ("consistent", {"epsilon_ceiling": 0.5, "epsilon_declared": 0.5}, Gate.INCONCLUSIVE),
    ("consistent", {"epsilon_ceiling": 0.6, "epsilon_declared": 0.5}, Gate.PASS),
    ("consistent", {"epsilon_detectable": 1.1, "epsilon_declared": 0.5}, Gate.INCONCLUSIVE),
    ("consistent", {"epsilon_detectable": None, "epsilon_declared": 0.5}, Gate.INCONCLUSIVE),
    ("consistent", {"target_sha256": "c" * 64}, Gate.INCONCLUSIVE),
    ("consistent", {"secret": "membership"}, Gate.INCONCLUSIVE),
]


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Return a warehouse with an audit of a model of its own for each conclusion."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("concluded")))
    warehouse.commit_all(
        [
            audit_of(verdict, model=f"model-{place}", **{"target_sha256": file(place)} | changes)
            for place, (verdict, changes, _) in enumerate(CONCLUDED)
        ]
    )
    return warehouse


def file(place: int) -> str:
    return hashlib.sha256(bytes([place])).hexdigest()


@pytest.mark.parametrize("place", range(len(CONCLUDED)))
def test_a_file_passes_by_what_its_audits_conclude(concluded: Warehouse, place: int) -> None:
    found, why = gate(audits_of(concluded, file(place)))
    assert found is CONCLUDED[place][2]
    assert why.endswith(".")


@pytest.mark.slow
def test_one_failing_audit_is_enough_and_replacing_the_checkpoint_hides_none(
    warehouse: Warehouse,
) -> None:
    put(warehouse, "violated")
    put(warehouse, "consistent", target_sha256="c" * 64, hour=1)
    put(warehouse, "consistent", day=DAY + dt.timedelta(days=1), hour=2)
    assert gate(audits_of(warehouse, FILE))[0] is Gate.FAIL
    assert gate(audits_of(warehouse, "c" * 64))[0] is Gate.PASS


def test_asking_again_does_not_open_the_gate(warehouse: Warehouse) -> None:
    put(warehouse, "violated")
    put(warehouse, "consistent", seed=9, hour=1)
    assert gate(audits_of(warehouse, FILE))[0] is Gate.FAIL


@pytest.mark.slow
def test_labels_that_are_rewritten_after_a_violated_audit_open_no_gate(
    warehouse: Warehouse,
) -> None:
    """The day's current record was consistent, and the refuted file passed. Now it stays."""
    put(warehouse, "violated")
    put(warehouse, "consistent", labels_digest="c" * 64, hour=1)
    (current,) = warehouse.current()["verdict"]
    assert current == "violated"
    found, why = gate(audits_of(warehouse, FILE))
    assert found is Gate.FAIL
    assert why == "This file must not be served: ads on 2026-04-01 is violated."
    (wrong,) = warehouse.current()["audit_id"]
    warehouse.withdraw(wrong, why="The labels were of another day.")
    assert gate(audits_of(warehouse, FILE))[0] is Gate.PASS


def test_a_model_that_stands_violated_fails(warehouse: Warehouse) -> None:
    record = evaluated("ads", DAY, target_sha256=FILE)
    loud = {"claimed_log_wealth": tuple(np.full(4, 50.0).tolist())}
    wealth = tuple(row.model_copy(update=loud) for row in record.wealth)
    warehouse.commit(record.model_copy(update={"wealth": wealth}))
    found, why = gate(audits_of(warehouse, FILE))
    assert found is Gate.FAIL
    assert why == "This file must not be served: ads stands violated on 2026-04-01."


def test_the_digest_is_that_of_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "model.cbm"
    file.write_bytes(b"a model")
    assert file_sha256(file) == hashlib.sha256(b"a model").hexdigest()
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(TerminalError, match="give the model file that is to be served"):
            file_sha256(missing)


FIRST = dt.date(2026, 4, 1)


@pytest.mark.parametrize(
    ("verdict", "answer"), [("consistent", Gate.INCONCLUSIVE), ("violated", Gate.FAIL)]
)
def test_an_audit_by_a_plan_of_its_own_lets_no_file_pass(
    tmp_path: pathlib.Path, verdict: str, answer: Gate
) -> None:
    """Its seed and significance could be chosen, and of a file that no night knows it decided."""
    warehouse, digest = Warehouse(str(tmp_path)), "a" * 64
    known = {"target_sha256": digest, "epsilon_ceiling": 6.0, "epsilon_detectable": 0.55}
    put_rows(warehouse, [evaluated("ads", FIRST, verdict=verdict, exploratory=True, **known)])
    assert gate(audits_of(warehouse, digest))[0] is answer


def test_a_file_of_a_model_that_stands_violated_passes_by_no_other_checkpoint(
    warehouse: Warehouse,
) -> None:
    """The day was audited again with another file, and the first one had no standing any more."""
    seen = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2}
    put_rows(warehouse, [night(one, 1.6, target_sha256=str(one) * 64, **seen) for one in range(4)])
    put_rows(warehouse, [night(3, -0.5, hour=5, target_sha256="f" * 64, **seen)])
    decided, why = gate(audits_of(warehouse, "3" * 64))
    assert (decided, why) == (
        Gate.FAIL,
        "This file must not be served: ads stands violated on 2026-03-05.",
    )


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_what_is_no_plain_file_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(TerminalError, match=r"no plain file|cannot be read"):
        file_sha256(pathlib.Path(place))
