"""The whole pipeline where the truth is known: a leak, none, and drift that looks like one."""

import pathlib
from typing import Any

import pytest

from tests.support.audits import audited
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    MEMORISE,
    THREE,
    declared,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn
from workers.plan import Plan
from workers.warehouse.schema import AuditRow

PLAN = Plan(repetitions=20)
SHALLOW = {"iterations": 20, "depth": 1, "learning_rate": 0.3}
KINDS = ["binary", "multi-class"]
LABELS = pytest.mark.parametrize("label", [BINARY, THREE], ids=KINDS)


def _two_days(
    lake: Lake, *, label: LabelColumn, epsilon: float, proxy: dict[str, Any], target: dict[str, Any]
) -> None:
    """Train a proxy on one day and a target on the next, of the same distribution."""
    for seed, (day, parameters) in enumerate({EVE: proxy, DAY: target}.items()):
        put_labels(lake, day, label_rows(3000, seed=seed, label=label), row_group_size=1024)
        put_model(lake, day, label=label, privacy=declared(epsilon), parameters=parameters)


def _other_labels(lake: Lake, *, label: LabelColumn) -> None:
    """Put rows that training never saw in the place of the audited day's."""
    put_labels(lake, DAY, label_rows(3000, seed=99, label=label), row_group_size=1024)


@pytest.mark.slow
@LABELS
def test_a_planted_leak_is_violated(tmp_path: pathlib.Path, label: LabelColumn) -> None:
    lake = Lake(str(tmp_path))
    _two_days(lake, label=label, epsilon=0.3, proxy=SHALLOW, target=MEMORISE)

    row = audited(lake, PLAN)

    assert row.verdict == "violated", row.reason
    assert 0.3 < row.epsilon_lower <= row.epsilon_ceiling
    assert row.claim_pvalue < 0.05


@pytest.mark.slow
@LABELS
def test_no_leak_refutes_nothing(tmp_path: pathlib.Path, label: LabelColumn) -> None:
    lake = Lake(str(tmp_path))
    _two_days(lake, label=label, epsilon=0.0, proxy=SHALLOW, target=MEMORISE)
    _other_labels(lake, label=label)

    row = audited(lake, PLAN)

    assert nothing_wrong(row), row.reason
    assert row.epsilon_lower == 0.0
    assert row.epsilon_ceiling > 3.0


@pytest.mark.slow
@pytest.mark.parametrize("label", rest_slow([BINARY, THREE]), ids=KINDS)
def test_an_overfitted_proxy_without_a_leak_is_never_called_a_violation(
    tmp_path: pathlib.Path, label: LabelColumn
) -> None:
    lake = Lake(str(tmp_path))
    _two_days(lake, label=label, epsilon=0.1, proxy=MEMORISE, target=MEMORISE)
    _other_labels(lake, label=label)
    row = audited(lake, PLAN)
    assert nothing_wrong(row), row.reason
    assert row.epsilon_lower <= 0.1
    assert row.epsilon_if_proxy_right > 0.1
    assert row.control_epsilon_if_proxy_right > 0.0


def _drifted(lake: Lake, privacy: dict[str, Any] | None) -> AuditRow:
    """Audit a model too shallow to memorise, on a day whose labels are unlike the eve's."""
    chances = {EVE: (0.9, 0.1), DAY: (0.1, 0.9)}
    for seed, day in enumerate((EVE, DAY)):
        frame = label_rows(20_000, seed=seed, holdout=0.4, chances=chances[day])
        put_labels(lake, day, frame, row_group_size=8192)
        put_model(lake, day, privacy=privacy, parameters=SHALLOW)
    return audited(lake, PLAN)


def test_drift_without_a_leak_is_not_taken_for_one(tmp_path: pathlib.Path) -> None:
    row = _drifted(Lake(str(tmp_path)), declared(0.5))
    assert (nothing_wrong(row), row.remarks) == (True, ())
    assert row.epsilon_lower <= 0.5 < row.epsilon_if_proxy_right
    assert row.control_epsilon_if_proxy_right > 0.5


@pytest.mark.slow
def test_a_leak_under_drift_of_half_the_size_is_still_found(tmp_path: pathlib.Path) -> None:
    lake = Lake(str(tmp_path))
    chances = {EVE: (0.6, 0.4), DAY: (0.4, 0.6)}
    for seed, day in enumerate((EVE, DAY)):
        frame = label_rows(6000, seed=seed, holdout=0.4, chances=chances[day])
        put_labels(lake, day, frame, row_group_size=2048)
        put_model(lake, day, privacy=declared(0.1), parameters=MEMORISE | {"iterations": 100})
    row = audited(lake, PLAN)
    assert row.verdict == "violated", row.reason
