"""A quiet week, a night on which the model memorises, a quiet night: through the whole pipeline."""

import datetime as dt
import pathlib
from typing import Any

import pytest

from tests.support.lake import DAY, MEMORISE, declared, label_rows, put_labels, put_model
from tests.support.tiers import tiered
from tests.support.verdicts import nothing_wrong
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.warehouse.nights_together import with_windows
from workers.warehouse.store import Warehouse

NIGHTS = [DAY + dt.timedelta(days=number) for number in range(10)]
LEAK = NIGHTS[8]
SHALLOW = {"iterations": 20, "depth": 1, "learning_rate": 0.3}
NOISE = {"noise_multiplier": 15.0, "neighbors": "replace"}
CLAIMS = {
    "(epsilon, delta)": declared(0.3, delta=1e-5),
    "pure": declared(0.3),
    "Gaussian": declared(0.3, delta=1e-5, mechanism={"name": "gaussian", "parameters": NOISE}),
}


@pytest.mark.parametrize("claim", tiered(CLAIMS, slow=3))
def test_a_leak_is_seen_on_its_first_night_and_not_on_the_next(
    tmp_path: pathlib.Path, claim: str
) -> None:
    """3,000 records, a quarter held out; the seeds of the days are their numbers."""
    lake, warehouse = Lake(str(tmp_path / "lake")), Warehouse(str(tmp_path / "warehouse"))
    rows: dict[dt.date, Any] = {}
    standings: dict[dt.date, Any] = {}
    for number, day in enumerate(NIGHTS):
        put_labels(lake, day, label_rows(3000, seed=number), row_group_size=1024)
        parameters = MEMORISE if day == LEAK else SHALLOW
        put_model(lake, day, privacy=CLAIMS[claim], parameters=parameters)
        if number:
            record = run_audit(lake, "good", day, plan=Plan(), executor=InProcess())
            warehouse.commit(record)
            rows[day] = record.audit
            current = with_windows(warehouse, warehouse.current())
            standings[day] = current.sort("day").row(-1, named=True)
    quiet = [day for day in rows if day != LEAK]
    assert rows[LEAK].verdict == "violated", standings[LEAK]
    assert all(nothing_wrong(rows[day]) for day in quiet)
    leak = standings[LEAK]
    assert 0.3 < leak["epsilon_lower"] <= leak["epsilon_ceiling"]
    assert leak["claim_pvalue"] <= 0.05
    assert all(standings[day]["epsilon_lower"] < 0.1 for day in quiet)
    assert not any(standings[day]["refuted_together"] for day in quiet[:-1])
    found = {day: standings[day]["verdict_together"] for day in rows}
    # A night that is not refuted by itself resolves what another one alone refuted.
    last = NIGHTS[9]
    alone = not standings[last]["refuted_together"]
    resolved = alone and rows[last].verdict == "not_refuted"
    assert [day for day in rows if found[day] == "violated"] == ([LEAK] if resolved else NIGHTS[8:])
    # Half of a window's stake waits for later starts, so eight quiet nights do not hide the leak:
    # 0.15 to 0.35 is proved, 0 if all of the stake were bet from the first night on.
    for day in (LEAK, NIGHTS[9]):
        found = standings[day]
        assert 0.1 <= found["epsilon_lower_28_days"] <= leak["epsilon_lower"]
        assert found["epsilon_lower_28_days"] <= found["epsilon_ceiling_28_days"]
