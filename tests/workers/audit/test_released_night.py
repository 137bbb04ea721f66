"""Nights of released labels as records: their columns, how they stand together, and what fails."""

import datetime as dt
import functools
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from privcore.attacks import HoldoutSketch
from privcore.lower_bounds.released_labels import Declared, Thinning
from privcore.lower_bounds.windows import ClaimedNight, declarations_refuted
from privcore.mechanisms import RandomizedResponse
from tests.support.lake import DAY
from workers.audit.request import Request
from workers.audit.run import run_batches
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.tables.day_tables import ReleasedLabels, ReleasedNight
from workers.warehouse.nights_together import commit_nights, with_windows
from workers.warehouse.standings import by_recurrence, recurs_from
from workers.warehouse.store import Warehouse

PLAN = Plan(secret="released_labels")  # type: ignore[arg-type]  # noqa: S106
DECLARED = Privacy(
    definition="label_dp",
    neighbors="replace",
    unit="record",
    epsilon=1.0,
    delta=0.0,
    mechanism=None,
    declared_by="platform",
    declared_at=None,
)


def table_of(day, truth, *, rows=3_335):
    """Return one day of randomized response at `truth`."""
    random = np.random.default_rng([day.toordinal(), 7])
    true = random.integers(0, 2, rows)
    return pl.DataFrame(
        {
            "id": np.arange(rows) + day.toordinal() * rows,
            "age": random.integers(18, 90, rows),
            "y": true,
            "z": RandomizedResponse(truth, 2).sample(true, random),
        }
    )


def night(folder, day, truth, **changes):
    """Write such a day below a folder of days, and return it."""
    place = folder / f"day={day}"
    place.mkdir(parents=True)
    table = table_of(day, truth, **changes)
    table.write_parquet(place / "rows.parquet")
    return table


def request(folder, *, privacy=DECLARED, **changes):
    """Return a request for the labels of a folder."""
    told = {"table": str(folder), "true": "y", "released": "z", "record": "id", **changes}
    labels = ReleasedLabels.model_validate(told)
    given = ReleasedNight(released_labels=labels, privacy=privacy, target="a" * 64)
    return Request("platform", PLAN, external_inputs=given)


def audited(asked, day=DAY):
    ((record,),) = run_batches(Lake("/nowhere"), day, [asked], executor=InProcess())
    return record


def test_an_honest_night_is_a_record_with_figures_and_is_verified(tmp_path):
    night(tmp_path / "labels", DAY, 1.0)
    asked = request(tmp_path / "labels")
    record = audited(asked)
    row = record.audit
    assert (row.verdict, row.secret) == ("not_refuted", "released_labels")
    assert (row.epsilon_declared, row.records, row.target_sha256) == (1.0, 3_335, "a" * 64)
    assert row.significance == PLAN.night_significance
    assert row.epsilon_lower <= 1.0 < (row.sees_from or 0.0) < (row.epsilon_ceiling or 0.0)
    assert row.claim_pvalue > 0.04
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    commit_nights(warehouse, [record])
    stored = warehouse.record(record.audit.audit_id)
    assert verify(stored, Lake("/nowhere"), InProcess()).finding is Finding.REPRODUCED


def together(folder, tables):
    """Return what nights of these tables say together, in their order."""
    records = []
    for number, table in enumerate(tables):
        day = DAY + dt.timedelta(days=number)
        place = folder / "labels" / f"day={day}"
        place.mkdir(parents=True)
        table.write_parquet(place / "rows.parquet")
        records.append(audited(request(folder / "labels"), day))
    warehouse = Warehouse(str(folder / "warehouse"))
    commit_nights(warehouse, records)
    return with_windows(warehouse, warehouse.current(every_secret=True)).sort("day")


def test_nights_together_refute_what_one_night_does_not(tmp_path):
    """Truth 1.1, declared 1, 3,335 labels a night: the nights together refute it."""
    days = [DAY + dt.timedelta(days=number) for number in range(6)]
    found = together(tmp_path, [table_of(day, 1.1) for day in days])
    words = found.select("verdict_together", "reason_code_together").rows()
    assert ("violated", "nights_together") in words
    assert words[-1][0] == "violated"


def test_a_table_that_comes_again_adds_nothing_to_its_first_night(tmp_path):
    """The same lucky coins, seen on ten nights, are one night's."""
    found = together(tmp_path, [table_of(DAY, 1.04)] * 10)
    assert found["nights_averaged"][-1]
    assert found["verdict_together"][-1] != "violated"


@pytest.mark.slow
@pytest.mark.parametrize("again", [0.1, 0.2, 0.4])
def test_people_who_come_again_with_their_answers_accuse_nobody(again):
    """100 series of 28 nights at the truth; some of 3,335 labels keep their answers, at 0.01."""
    rows, claim = 3_335, Declared(1.0)
    thinning, keep = Thinning.of(np.array([[1_668, 1_667]]), claim), math.e / (1.0 + math.e)
    old, refuted = int(again * rows), 0
    for series in range(100):
        random = np.random.default_rng([series, 7])
        known, right = random.integers(0, 2**63, old, dtype=np.uint64), random.binomial(old, keep)
        nights, sketches = [], []
        for _ in range(28):
            new = random.integers(0, 2**63, rows - old, dtype=np.uint64)
            sketches.append(HoldoutSketch.of([np.append(known, new)]).text(few=True))
            wins = np.full(len(thinning.rows), right + random.binomial(rows - old, keep))
            nights.append(ClaimedNight(1.0, thinning.log_wealth(wins)[:, claim.place], 0.0))
        test = functools.partial(declarations_refuted, nights, significance=0.01)
        refuted += bool(by_recurrence(test, recurs_from(sketches)).any())
    assert refuted <= binom.isf(1e-3, 100, 0.01)


def test_a_night_in_doubt_adds_nothing(tmp_path):
    """Labels of people above 80 stay as they are, and nobody said that the mechanism reads ages."""
    table = night(tmp_path / "labels", DAY, 1.0, rows=20_000)
    shown = table.with_columns(z=pl.when(pl.col("age") > 80).then("y").otherwise("z"))
    shown.write_parquet(tmp_path / "labels" / f"day={DAY}" / "rows.parquet")
    record = audited(request(tmp_path / "labels"))
    assert record.audit.reason_code == "reads_more"
    assert (record.audit.epsilon_lower, record.audit.claim_evalue) == (0.0, 1.0)
    assert set(record.wealth[0].claimed_log_wealth or ()) == {0.0}
    named = audited(request(tmp_path / "labels", reads=("age",)))
    assert (named.audit.verdict, named.audit.reason_code) == ("violated", "this_night")
    assert named.audit.epsilon_lower > 1.0
    assert named.audit.audit_id != record.audit.audit_id


@pytest.mark.parametrize(
    ("change", "verdict", "word"),
    [
        ({"privacy": None}, "failed", "declare one"),
        ({"privacy": DECLARED.model_copy(update={"neighbors": "add_remove"})}, "failed", "replace"),
        ({"released": "nowhere"}, "failed", "no column 'nowhere'"),
        ({"table": "/nowhere/at/all"}, "failed", "nowhere"),
    ],
)
def test_what_cannot_be_compared_is_a_record_that_says_so(tmp_path, change, verdict, word):
    night(tmp_path / "labels", DAY, 1.0, rows=300)
    record = audited(request(tmp_path / "labels", **change))  # type: ignore[arg-type]
    assert record.audit.verdict == verdict
    assert word in record.audit.reason


def test_one_class_is_too_small_and_a_day_is_read_by_its_column(tmp_path):
    table = night(tmp_path / "labels", DAY, 1.0, rows=2_000).with_columns(on=pl.lit(DAY))
    later = table.with_columns(
        on=pl.lit(DAY + dt.timedelta(days=1)), y=0 * pl.col("y"), z=0 * pl.col("z")
    )
    path = tmp_path / "all.parquet"
    both = pl.concat([table, later])
    both.with_columns(pl.col("on").dt.to_string("%Y%m%d")).write_parquet(path)
    assert audited(request(path, day="on")).audit.records == 2_000
    both.write_parquet(path)
    asked = request(path, day="on")
    assert audited(asked).audit.records == 2_000
    assert "which are no days" in audited(request(path, day="y")).audit.reason
    alone = audited(asked, DAY + dt.timedelta(days=1))
    assert alone.audit.reason_code == "too_small"
    assert math.isfinite(audited(asked).audit.sees_from or math.inf)
