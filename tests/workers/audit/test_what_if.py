"""An audited model with fewer rounds, or served otherwise: one pass gives bound and accuracy."""

import pathlib

import numpy as np
import polars as pl
import pytest

from privcore.exceptions import TerminalError
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, EVE, MEMORISE, declared, label_rows, put_labels, put_model
from tests.support.score_tables import EMPTY_LAKE
from tests.workers.audit.test_locate import audited, rows
from workers.audit.run import run_audit
from workers.audit.what_if import AS_AUDITED, what_if
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan


@pytest.mark.slow
def test_a_model_leaks_more_with_every_tenth_of_its_rounds(tmp_path: pathlib.Path) -> None:
    """Labels are coins, so that what its trees learn is memory and no accuracy."""
    lake, plan = Lake(str(tmp_path)), Plan(repetitions=2)
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(3_000, seed=seed), row_group_size=1_024)
        parameters = MEMORISE if day == DAY else {"iterations": 10, "depth": 1}
        put_model(lake, day, privacy=declared(0.3), parameters=parameters)
    record = run_audit(lake, "good", DAY, plan=plan, executor=InProcess())
    found = {one.variant: one for one in what_if(record, lake, InProcess())}
    assert [one.rounds for one in found.values()][:10] == [60, *range(6, 60, 6)]
    whole = found[AS_AUDITED]
    assert whole.epsilon_lower == record.audit.epsilon_lower
    assert whole.log_loss == record.audit.target_log_loss
    early, late = found["first 6 rounds"], found["first 54 rounds"]
    assert early.epsilon_lower is not None
    assert late.epsilon_lower is not None
    assert early.epsilon_lower + 0.3 < late.epsilon_lower <= whole.epsilon_lower + 0.3
    assert all(abs(one.accuracy - 0.5) < 0.06 for one in found.values())
    assert all(not one.reason for one in found.values())


@pytest.mark.slow
def test_a_score_table_is_served_otherwise_and_has_no_rounds(tmp_path: pathlib.Path) -> None:
    frame = rows(pl.lit(value=True), many=3_000, leak=0.2)
    record = audited(tmp_path / "table", frame)
    found = {one.variant: one for one in what_if(record, EMPTY_LAKE, InProcess())}
    assert list(found) == [
        AS_AUDITED, "rounded to 2 digits", "rounded to 1 digit", "each class at least 0.05",
        "the top class alone",
    ]  # fmt: skip
    assert all(one.rounds is None for one in found.values())
    bounds = {name: one.epsilon_lower for name, one in found.items()}
    assert bounds[AS_AUDITED] == record.audit.epsilon_lower
    assert bounds["the top class alone"] < bounds[AS_AUDITED] - 0.1
    assert abs(bounds["rounded to 2 digits"] - bounds[AS_AUDITED]) < 0.2
    held = frame.filter(pl.col("split") == "holdout")
    right = np.mean((held["p_today"] > 0.5).to_numpy() == (held["clicked"] == 1).to_numpy())
    assert found[AS_AUDITED].accuracy == pytest.approx(right)
    assert found["the top class alone"].accuracy == pytest.approx(right)


@pytest.mark.slow
def test_audits_of_membership_are_refused(
    tmp_path: pathlib.Path,
) -> None:
    frame = rows(pl.lit(value=False), many=2_000)
    member = audited(
        tmp_path / "members",
        frame,
        Plan(repetitions=2).model_copy(update={"secret": Secret.MEMBERSHIP}),
    )
    with pytest.raises(TerminalError, match="This audit is of the membership"):
        what_if(member, EMPTY_LAKE, InProcess())
