import datetime as dt
import gc
import json
import shutil
from typing import Any

import polars as pl
import pytest

import workers.audit.run
from tests.support.audits import recorded
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    PLAN,
    THREE,
    clone_model,
    declared,
    edit_manifest,
    figures,
    label_path,
    label_rows,
    manifest_of,
    model_path,
    put_labels,
    put_model,
    small_lake,
)
from tests.support.tiers import rest_slow
from workers.audit.record import digest_of
from workers.audit.request import Inputs, Request
from workers.audit.run import run_batches
from workers.executors import InProcess
from workers.lake.manifest import LabelColumn
from workers.plan import Plan, TrainingSampling
from workers.versions import METHOD_VERSION


def rows_of(lake):
    return pl.read_parquet(label_path(lake, "flights"))


def numbers(record):
    """Return what was measured, without what identifies the inputs."""
    named = {"audit_id", "labels_digest"}
    return {
        "audit": {k: v for k, v in figures(record)["audit"].items() if k not in named},
        "bounds": [bound.model_dump(exclude=named) for bound in record.bounds],
    }


@pytest.fixture(scope="module")
def undisturbed(template):
    """Return the record of a lake of which nothing was changed."""
    return recorded(template)


def test_every_row_says_what_made_it(lake, undisturbed):
    record = recorded(lake, seed=11)
    assert record.audit.audit_id != undisturbed.audit.audit_id
    digests = [manifest_of(lake, "good", day)["sha256"] for day in (DAY, EVE)]
    rows = (record.audit, *record.bounds, *record.promises)
    assert len(record.bounds) == 2 * 3 * len(PLAN.fractions)
    assert len(record.promises) > 0
    for row in rows:
        assert row.audit_id == record.audit.audit_id
        assert row.method_version == METHOD_VERSION
        assert row.code_version == "0.1.0"
        assert [row.target_sha256, row.proxy_sha256] == digests
        assert row.labels_digest == record.audit.labels_digest
    assert len(record.audit.labels_digest) == 64
    assert json.loads(record.audit.plan)["seed"] == 11


def test_the_record_counts_both_arms_and_what_it_left_out(lake):
    rows, place = rows_of(lake), pl.int_range(pl.len())
    other = pl.when(place < 3).then(None).when(place < 7).then(pl.lit("test")).otherwise("split")
    changed = rows.with_columns(other.alias("split"))
    put_labels(lake, DAY, changed)
    row = recorded(lake).audit
    assert row.excluded_records == 7
    assert row.records == changed.filter(pl.col("split") == "train").height
    assert row.control_records == changed.filter(pl.col("split") == "holdout").height
    assert row.records + row.control_records + row.excluded_records == rows.height


def test_columns_in_another_order_or_that_no_model_asks_for_change_no_number(lake, undisturbed):
    rows = rows_of(lake)
    more = rows.select(reversed(rows.columns)).with_columns(
        note=pl.lit("x"), list=pl.concat_list("hour")
    )
    put_labels(lake, DAY, more)
    after = recorded(lake)
    assert after.audit.labels_digest != undisturbed.audit.labels_digest
    assert numbers(after) == numbers(undisturbed)


def test_a_null_is_scored_as_an_empty_string_or_as_a_nan(lake):
    rows, found, first = rows_of(lake), [], pl.int_range(pl.len()) < 50
    for word, number in (("", float("nan")), (None, None)):
        missing = {"city": pl.lit(word), "delay": pl.lit(number)}
        changed = {name: pl.when(first).then(missing[name]).otherwise(name) for name in missing}
        put_labels(lake, DAY, rows.with_columns(**changed))
        found.append(recorded(lake))
    assert numbers(found[1]) == numbers(found[0])
    assert found[0].audit.status == "evaluated"


@pytest.mark.parametrize(
    "classes", rest_slow([list(THREE.classes), [False, True], [-1, 0, 2, 10]]), ids=str
)
def test_labels_may_be_numbers_words_or_truth_values(tmp_path, classes):
    label = LabelColumn(column="late", classes=tuple(classes))
    record = recorded(small_lake(tmp_path / "lake", label=label))
    row = record.audit
    assert (row.status, row.verdict) == ("evaluated", "undeclared"), row.reason
    assert (row.epsilon_declared, record.promises) == (None, ())


def with_eve_at(lake, day):
    """Put a copy of the eve's checkpoint on another day."""
    shutil.copytree(model_path(lake, "good", EVE), model_path(lake, "good", day))
    moved = {"first": str(day), "last": str(day), "split": "train"}
    edit_manifest(lake, "good", day, day=str(day), trained_on=moved)


def test_the_latest_earlier_checkpoint_is_the_proxy_and_the_record_says_which(lake):
    older = DAY - dt.timedelta(days=7)
    with_eve_at(lake, older)
    oldest = older - dt.timedelta(days=1)
    shutil.copytree(model_path(lake, "good", older), model_path(lake, "good", oldest))
    assert recorded(lake).audit.proxy_day == EVE
    # A checkpoint that is still being written is none.
    (model_path(lake, "good", EVE) / "_SUCCESS").unlink()
    row = recorded(lake, proxy_within_days=7).audit
    assert (row.status, row.proxy_day) == ("evaluated", older)
    assert recorded(lake, proxy_within_days=6).audit.detail == "missing_proxy"


def test_how_few_records_are_too_few_is_a_setting(lake, undisturbed):
    there = {
        f"minimum_{arm}": getattr(undisturbed.audit, arm) for arm in ("records", "control_records")
    }
    assert recorded(lake, **there).audit.status == "evaluated"
    for (name, least), detail, said in zip(
        there.items(),
        ("too_few_records", "too_few_held_out"),
        ("{} training records", "{} holdout records"),
        strict=True,
    ):
        refused = recorded(lake, **{name: least + 1}).audit
        assert refused.detail == detail
        assert said.format(least) in refused.reason


def test_a_proxy_with_other_features_than_the_target_is_scored_on_its_own(lake):
    for features in (FEATURES[::-1], FEATURES[2:]):
        put_model(lake, EVE, features=features)
        row = recorded(lake).audit
        assert row.status == "evaluated", row.reason


CHANGES: dict[str, Any] = {
    "seed": 1,
    "fractions": (0.1, 1.0),
    "repetitions": 5,
    "significance": 0.01,
    "delta": 1e-6,
    "shift": 0.1,
    "labels_recur": True,
    "minimum_records": 100,
    "minimum_control_records": 10,
    "epsilon_public": 0.1,
    "proxy_within_days": 3,
    "slices": ("city",),
    "minimum_slice_records": 10,
    "max_bad_records": 1,
    "policy_epsilon": 8.0,
    "delta_limit": 0.5,
    "days": 2,
    "sampling": TrainingSampling(label={"0": 0.9}),
    "other_labels": ("city",),
}


def test_the_audit_id_changes_with_every_part_of_the_plan():
    """But for the three that decide what is asked at all, every part is in the list above."""
    assert set(Plan.model_fields) == {*CHANGES, "privacy_unit", "secret", "attribute"}
    ids = {
        digest_of("good", DAY, PLAN.model_copy(update={name: value}), {})
        for name, value in (*CHANGES.items(), ("seed", PLAN.seed))
    }
    assert len(ids) == len(CHANGES) + 1


@pytest.mark.parametrize(
    ("what", "day"),
    [("labels", DAY), ("manifest", DAY), ("manifest", EVE), ("model", DAY), ("model", EVE)],
)
def test_the_audit_id_changes_with_labels_manifests_and_models(lake, undisturbed, what, day):
    if what == "labels":
        put_labels(lake, DAY, label_rows(400, seed=77))
    elif what == "manifest":
        edit_manifest(lake, "good", day, privacy=declared(0.75))
    else:
        put_model(lake, day, privacy=declared(), parameters={"iterations": 6, "depth": 2})
    assert recorded(lake).audit.audit_id != undisturbed.audit.audit_id


def test_the_declaration_is_copied_into_the_record(lake):
    """A failure has an audit id that depends on its reason."""
    edit_manifest(lake, "good", DAY, privacy=declared(1.5, delta=1e-6))
    record = recorded(lake)
    row = record.audit
    assert (row.epsilon_declared, row.delta_declared) == (1.5, 1e-6)
    assert (record.wealth[0].family, record.wealth[0].delta) == ("approx_dp", 1e-6)
    assert row.declared_by == "a test"
    assert {promise.guarantee for promise in record.promises} == {"declared"}
    few = [recorded(lake, minimum_records=10_000).audit.audit_id for _ in range(2)]
    (model_path(lake, "good", EVE) / "_SUCCESS").unlink()
    without_proxy = recorded(lake, minimum_records=10_000).audit.audit_id
    assert few[0] == few[1] != without_proxy


def clones(lake, many):
    """Return the names of `good` and of so many copies, which share its labels."""
    names = [f"copy-{number}" for number in range(many)]
    for name in names:
        clone_model(lake, name)
        for day in (EVE, DAY):
            edit_manifest(lake, name, day, dataset="flights")
    return ["good", *names]


@pytest.mark.slow
def test_many_models_are_audited_group_by_group_with_the_same_records(lake, monkeypatch):
    """Models with small files share a read up to 16."""
    names = clones(lake, 16)
    requests = [Request(name, PLAN) for name in (*names, "gone")]
    groups = sorted(run_batches(lake, DAY, requests, executor=InProcess()), key=len, reverse=True)
    assert [len(group) for group in groups] == [16, 1, 1]
    found, read = workers.audit.run.find_inputs, []

    def watched(*given):
        read.append(given[2].model)
        return found(*given)

    monkeypatch.setattr(workers.audit.run, "find_inputs", watched)
    monkeypatch.setattr(workers.audit.run, "_FEWEST_MODELS", 2)
    monkeypatch.setattr(workers.audit.run, "_MANY_BYTES", 1)
    batches, read_then, names = [], [], names[:5]
    requests = [*requests[:5], requests[-1]]
    for batch in run_batches(lake, DAY, requests, executor=InProcess()):
        batches.append(batch)
        read_then.append(len(read))
    assert [[record.audit.model for record in batch] for batch in batches] == [
        names[:2], names[2:4], ["gone"], names[4:]
    ]  # fmt: skip
    assert read_then == [2, 4, 6, 6]  # the next group is read when this one is committed
    together = {record.audit.model: figures(record) for group in groups for record in group}
    alone = {record.audit.model: figures(record) for batch in batches for record in batch}
    assert {name: together[name] for name in alone} == alone


@pytest.mark.slow
def test_a_group_is_forgotten_before_the_next_one_is_read(lake, monkeypatch):
    """A night of a thousand models held the files of two groups for each pass under way."""
    names = clones(lake, 5)
    find, alive = workers.audit.run.find_inputs, []

    def known():
        gc.collect()
        return sum(type(one) is Inputs for one in gc.get_objects())

    def watched(*given):
        alive.append(known() - before)
        return find(*given)

    before = known()
    monkeypatch.setattr(workers.audit.run, "find_inputs", watched)
    monkeypatch.setattr(workers.audit.run, "_MOST_MODELS", 2)
    requests = [Request(name, PLAN) for name in names]
    assert len(list(run_batches(lake, DAY, requests, executor=InProcess()))) == 3
    assert alive == [0, 1, 0, 1, 0, 1]
