"""The whole pipeline where the truth is known: a leak, none, drift, a proxy, a week, slices."""

import datetime as dt
import hashlib
import shutil
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from tests.support.audits import audited, recorded, run_audits
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    MEMORISE,
    THREE,
    copied,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    model_path,
    put_labels,
    put_model,
    replace_model,
    small_lake,
)
from tests.support.verdicts import nothing_wrong
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake, checkpoint_folder
from workers.plan import Plan
from workers.warehouse.nights_together import with_windows
from workers.warehouse.store import Warehouse

PLAN = Plan(repetitions=20)
SHALLOW = {"iterations": 20, "depth": 1, "learning_rate": 0.3}
LABELS = pytest.mark.parametrize("label", [BINARY, THREE], ids=["binary", "multi-class"])


def two_days(
    folder,
    *,
    rows=3000,
    label=BINARY,
    epsilon,
    proxy=SHALLOW,
    target=MEMORISE,
    chances=(None, None),
    row_group_size=1024,
    **shown,
):
    """Return a lake of a proxy of one day and a target of the next, with these `chances`."""
    lake = Lake(str(folder))
    for seed, (day, parameters) in enumerate({EVE: proxy, DAY: target}.items()):
        more = shown | ({} if chances[seed] is None else {"chances": chances[seed]})
        frame = label_rows(rows, seed=seed, label=label, **more)
        put_labels(lake, day, frame, row_group_size=row_group_size)
        put_model(lake, day, label=label, privacy=declared(epsilon), parameters=parameters)
    return lake


def other_labels(lake, label):
    """Put rows that training never saw in the place of the audited day's."""
    put_labels(lake, DAY, label_rows(3000, seed=99, label=label), row_group_size=1024)


@pytest.mark.slow
@LABELS
def test_a_planted_leak_is_violated_and_of_other_labels_nothing_is_refuted(tmp_path, label):
    lake = two_days(tmp_path, label=label, epsilon=0.3)
    row = audited(lake, PLAN)
    assert row.verdict == "violated", row.reason
    assert 0.3 < row.epsilon_lower <= row.epsilon_ceiling
    assert row.claim_pvalue < 0.05
    other_labels(lake, label)
    edit_manifest(lake, "good", DAY, privacy=declared(0.0))
    row = audited(lake, PLAN)
    assert nothing_wrong(row), row.reason
    assert row.epsilon_lower == 0.0
    assert row.epsilon_ceiling > 3.0


@pytest.mark.slow
def test_an_overfitted_proxy_without_a_leak_is_never_called_a_violation(tmp_path):
    lake = two_days(tmp_path, label=THREE, epsilon=0.1, proxy=MEMORISE)
    other_labels(lake, THREE)
    row = audited(lake, PLAN)
    assert nothing_wrong(row), row.reason
    assert row.epsilon_lower <= 0.1
    assert row.epsilon_if_proxy_right > 0.1
    assert row.control_epsilon_if_proxy_right > 0.0


def test_drift_without_a_leak_is_not_taken_for_one(tmp_path):
    """A model too shallow to memorise, on a day whose labels are unlike the eve's."""
    chances = (0.9, 0.1), (0.1, 0.9)
    settings = {"rows": 20_000, "holdout": 0.4, "chances": chances, "row_group_size": 8192}
    row = audited(two_days(tmp_path, epsilon=0.5, target=SHALLOW, **settings), PLAN)
    assert (nothing_wrong(row), row.remarks) == (True, ())
    assert row.epsilon_lower <= 0.5 < row.epsilon_if_proxy_right
    assert row.control_epsilon_if_proxy_right > 0.5


@pytest.mark.slow
def test_a_leak_under_drift_of_half_the_size_is_still_found(tmp_path):
    heart = MEMORISE | {"iterations": 100}
    chances = (0.6, 0.4), (0.4, 0.6)
    settings = {"rows": 6_000, "holdout": 0.4, "chances": chances, "row_group_size": 2048}
    row = audited(two_days(tmp_path, epsilon=0.1, proxy=heart, target=heart, **settings), PLAN)
    assert row.verdict == "violated", row.reason


@pytest.fixture
def violated(remembered, tmp_path):
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    lake = copied(remembered, tmp_path)
    assert audited(lake).verdict == "violated"
    return lake


@pytest.mark.slow
def test_no_model_that_saw_the_day_is_a_proxy(violated):
    """Neither the target's own file, nor one whose manifest says that it never saw the day."""
    own = violated.read(f"{checkpoint_folder('good', DAY)}/model.cbm")
    put_model(violated, DAY, model="copy", parameters=MEMORISE | {"iterations": 50})
    saw = violated.read(f"{checkpoint_folder('copy', DAY)}/model.cbm")
    for content, detail, words in (
        (own, "proxy_is_target", "is the target's own file"),
        (saw, "arms_differ", "the earlier model knows one side better"),
    ):
        replace_model(violated, "good", EVE, content)
        row = audited(violated)
        assert (row.status, row.detail) == ("not_evaluable", detail)
        assert words in row.reason


NIGHTS = [DAY + dt.timedelta(days=number) for number in range(10)]
LEAK = NIGHTS[8]
NOISE = {"noise_multiplier": 15.0, "neighbors": "replace"}
CLAIMS = {
    "approximate": declared(0.3, delta=1e-5),
    "pure": declared(0.3),
    "gaussian": declared(0.3, delta=1e-5, mechanism={"name": "gaussian", "parameters": NOISE}),
}


@pytest.mark.slow
def test_a_leak_is_seen_on_its_first_night_and_not_on_the_next(tmp_path):
    """3,000 records, a quarter held out; the seeds of the days are their numbers.

    The same checkpoints under each claim, as models of their own.
    """
    lake, warehouse = Lake(str(tmp_path / "lake")), Warehouse(str(tmp_path / "warehouse"))
    for number, day in enumerate(NIGHTS):
        put_labels(lake, day, label_rows(3000, seed=number), row_group_size=1024)
        put_model(lake, day, parameters=MEMORISE if day == LEAK else SHALLOW)
        for name, privacy in CLAIMS.items():
            shutil.copytree(model_path(lake, "good", day), model_path(lake, name, day))
            edit_manifest(lake, name, day, model=name, privacy=privacy)
        if number:
            requests = [Request(name, Plan()) for name in CLAIMS]
            warehouse.commit(list(run_audits(lake, day, requests, executor=InProcess())))
    standings = with_windows(warehouse, warehouse.current()).sort("day")
    for name in CLAIMS:
        check_nights({row["day"]: row for row in standings.filter(model=name).to_dicts()})


def check_nights(rows):
    quiet = [day for day in rows if day != LEAK]
    leak = rows[LEAK]
    assert len(rows) == 9
    assert leak["verdict"] == "violated", leak
    assert all(nothing_wrong(SimpleNamespace(**rows[day])) for day in quiet)
    assert 0.3 < leak["epsilon_lower"] <= leak["epsilon_ceiling"]
    assert leak["claim_pvalue"] <= 0.05
    assert all(rows[day]["epsilon_lower"] < 0.1 for day in quiet)
    assert not any(rows[day]["refuted_together"] for day in quiet[:-1])
    # A night that is not refuted by itself resolves what another one alone refuted.
    last = rows[NIGHTS[9]]
    resolved = not last["refuted_together"] and last["verdict"] == "not_refuted"
    violated = [day for day in rows if rows[day]["verdict_together"] == "violated"]
    assert violated == ([LEAK] if resolved else NIGHTS[8:])
    # Half of a window's stake waits for later starts, so eight quiet nights do not hide the leak:
    # 0.15 to 0.35 is proved, 0 if all of the stake were bet from the first night on.
    for row in (leak, last):
        assert 0.1 <= row["epsilon_lower_28_days"] <= leak["epsilon_lower"]
        assert row["epsilon_lower_28_days"] <= row["epsilon_ceiling_28_days"]


@pytest.mark.slow
@pytest.mark.paper("observational", "Definition 1", "Definition 2")
def test_a_guarantee_for_simulating_is_stored_and_tested_by_its_own_theorem(tmp_path):
    """1,600 rows that the target memorised, seed 0; only the declared relation differs."""
    lake = small_lake(tmp_path, rows=1_600, parameters=MEMORISE)
    records = []
    for relation in ("simulate", "replace", "add_remove"):
        edit_manifest(lake, "good", DAY, privacy=declared(0.2, delta=0.0, neighbors=relation))
        records.append(recorded(lake))
    simulated, replaced, added = records
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


def files(folder):
    """Return each file's digest and its time of change."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.paper("observational", "Definition 4")
def test_an_audit_leaves_data_and_models_as_they_are(tmp_path):
    lake = small_lake(tmp_path)
    before = files(tmp_path)
    record = recorded(lake)
    assert record.audit.status == "evaluated"
    assert len(before) > 6
    assert files(tmp_path) == before


SLICED = Plan(repetitions=4, slices=("city",), minimum_slice_records=50)


@pytest.mark.slow
def test_three_slices_have_a_third_of_the_significance_each(tmp_path):
    sliced = two_days(tmp_path, epsilon=0.3, proxy={"iterations": 20, "depth": 1})
    rows = recorded(sliced, SLICED).slices
    found = {row.value: row.epsilon_lower for row in rows}
    assert sorted(found) == ["AMS", "BER", "CDG"]
    largest = max(row.records for row in rows)
    whole, third = (
        recorded(sliced, SLICED, minimum_slice_records=largest, significance=allowed).slices
        for allowed in (SLICED.significance, SLICED.significance / 3.0)
    )
    (alone,) = third
    assert found[alone.value] == alone.epsilon_lower < whole[0].epsilon_lower - 0.02
    assert np.mean(list(found.values())) > 0.3


@pytest.mark.slow
def test_a_slice_is_called_by_a_name(tmp_path):
    """A word of 1 MB came into the record, and with it onto each page that shows it."""
    lake = small_lake(tmp_path, days=(EVE, DAY))
    path = label_path(lake, "flights", DAY)
    pl.read_parquet(path).with_columns(g=pl.lit("w" * 1_000_000)).write_parquet(path)
    plan = Plan(repetitions=4, slices=("g",))
    found = audited(lake, plan)
    assert (found.status, found.detail) == ("not_evaluable", "feature_invalid")
    assert "a value of over 256 characters" in found.reason
