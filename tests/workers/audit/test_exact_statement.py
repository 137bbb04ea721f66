"""Public statements: no label decides that one exists or what is in it, except through figures."""

import polars as pl
import pytest

from privcore.lower_bounds.verdicts import Verdict
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    PLAN,
    THREE,
    declared,
    edit_manifest,
    label_path,
    put_labels,
    put_model,
    small_lake,
)
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import TrainingSampling
from workers.publication.statements import statement_of

PUBLIC = PLAN.model_copy(update={"epsilon_public": 0.5})
FIGURES = {"evidence_figure", "premises_figure"}
OF_LABELS = {"audit_id", "labels_digest"}


def audited(lake, plan=PUBLIC, **changes):
    return run_audit(lake, "good", DAY, plan=plan.model_copy(update=changes), executor=InProcess())


def statement(lake, **changes):
    (row,) = audited(lake, **changes).statements
    return row


def relabel(lake, change):
    rows = pl.read_parquet(label_path(lake, "flights"))
    put_labels(lake, DAY, rows.with_columns(change.alias("late")))


def moved(before, after):
    """Return by how much the figures differ of statements that are alike but for their labels."""
    kept = FIGURES | OF_LABELS
    assert before.model_dump(exclude=kept) == after.model_dump(exclude=kept)
    return [abs(getattr(before, name) - getattr(after, name)) for name in sorted(FIGURES)]


CHANGES = {"another": 1 - pl.col("late"), "none": None, "no class of the model": 7}


@pytest.mark.slow
@pytest.mark.parametrize("record", [0, 399])
def test_one_label_moves_two_figures_by_65_units_at_most_and_nothing_else(lake, record):
    """The models stay, one label is replaced or cannot be read: what an adversary compares.

    The exact audit has no figure then, since it may leave out no record; the statement has.
    """
    before = statement(lake)
    rows = pl.read_parquet(label_path(lake, "flights"))
    for kind, changed in CHANGES.items():
        one = pl.when(pl.int_range(pl.len()) == record).then(changed)
        put_labels(lake, DAY, rows.with_columns(late=one.otherwise(pl.col("late"))))
        made = audited(lake)
        (after,) = made.statements
        assert (made.audit.detail == "label_invalid") == (kind != "another")
        assert before.labels_digest != after.labels_digest
        assert 0 < max(moved(before, after)) <= 65


def test_hidden_labels_are_no_acquittal(lake):
    """An owner hides every label: the statement appears, and calls its assumptions doubtful."""
    relabel(lake, pl.lit(None, pl.Int64))
    row = statement(lake, epsilon_public=8.0)
    made = statement_of(row, bytes(32))
    assert (made.verdict, made.figures.doubtful) == (Verdict.INCONCLUSIVE, True)
    most = pl.read_parquet(label_path(lake, "flights")).height
    allowed = statement(lake, epsilon_public=8.0, max_bad_records=most)
    made = statement_of(allowed, bytes(32))
    assert made.verdict is not Verdict.VIOLATED
    assert not made.figures.doubtful


@pytest.mark.slow
@pytest.mark.parametrize(("label", "unit"), [(BINARY, "user"), (THREE, "user"), (THREE, None)])
def test_so_it_is_with_persons_and_with_more_classes(tmp_path, label, unit):
    """Ten labels, one after the other, half of which become none; persons have two rows."""
    settings = {"label": label, "privacy": declared(unit="user"), "row_group_size": 128}
    lake = small_lake(tmp_path / "lake", rows=900, **settings)
    rows = pl.read_parquet(label_path(lake, "flights")).sort("split")
    person = pl.int_range(pl.len()) // 2 + (pl.col("split") == "train") * 10_000
    rows = rows.with_columns(user=person if unit else pl.int_range(pl.len()))
    classes, seen = list(label.classes), []
    for record in (None, *range(0, 900, 97)):
        changed = rows["late"].to_list()
        if record is not None:
            other = classes[(classes.index(changed[record]) + 1) % len(classes)]
            changed[record] = None if record % 2 else other
        put_labels(lake, DAY, rows.with_columns(late=pl.Series(changed)), row_group_size=128)
        seen.append(statement(lake, privacy_unit=unit, minimum_control_records=10))
    first, *others = seen
    assert max(max(moved(first, other)) for other in others) <= 65
    assert len({other.evidence_figure for other in others}) > 2


def test_an_audit_that_fails_by_its_labels_has_its_statement_nevertheless(lake):
    """Holdout labels all 1: the arms differ, so there is no exact verdict; the figures stay.

    A record without figures says what no label decides.
    """
    good = audited(lake)
    held = pl.col("split") == "holdout"
    relabel(lake, pl.when(held).then(1).otherwise(pl.col("late")))
    record = audited(lake)
    assert (good.audit.status, record.audit.detail) == ("evaluated", "arms_differ")
    (row,), (other,) = record.statements, good.statements
    assert len(moved(row, other)) == 2
    assert row.audit_id == record.audit.audit_id
    for name in ("dataset", "label_column", "epsilon_declared", "neighbors", "proxy_day",
                 "target_sha256", "proxy_sha256"):  # fmt: skip
        assert getattr(record.audit, name) == getattr(good.audit, name) is not None
    put_model(lake, EVE, privacy=declared(unit="user"), parameters={"iterations": 3, "depth": 2})
    again = audited(lake).audit
    assert (again.audit_id, again.proxy_sha256) != (record.audit.audit_id, good.audit.proxy_sha256)


def test_a_statement_says_what_is_declared_and_what_was_read(lake):
    record = audited(lake)
    (row,) = record.statements
    assert (row.model, row.day, row.dataset) == ("good", DAY, "flights")
    assert (row.label_days, row.labels_recur) == ((DAY,), False)
    assert (row.family, row.neighbors, row.unit) == ("pure_dp", "replace", "flight")
    assert (row.epsilon_declared, row.delta_declared) == (0.5, 0.0)
    assert (row.by_policy, row.declaration_empty, row.epsilon_accounted) == (False, False, None)
    assert row.significance == PUBLIC.night_significance
    assert row.epsilon_public == 0.5
    assert row.target_sha256 == record.audit.target_sha256
    assert row.labels_digest == record.audit.labels_digest
    assert 0 < row.control_records < row.records <= record.audit.records
    unasked = audited(lake, PLAN)
    assert unasked.statements == ()
    assert unasked.audit.audit_id != record.audit.audit_id


def test_some_plans_and_declarations_allow_no_statement_or_an_empty_one(lake):
    for changes in (
        {"sampling": TrainingSampling(label={"0": 0.5})},
        {"minimum_control_records": 300},
        {"minimum_records": 1_000},
    ):
        assert audited(lake, **changes).statements == ()
    for privacy, plan, empty in (
        (declared(delta=0.1), {}, True),
        (declared(epsilon=3.0), {"policy_epsilon": 2.0}, True),
        (declared(epsilon=3.0), {}, False),
    ):
        edit_manifest(lake, "good", DAY, privacy=privacy)
        assert statement(lake, **plan).declaration_empty is empty
    edit_manifest(lake, "good", DAY, privacy=None)
    assert audited(lake).statements == ()
    row = statement(lake, policy_epsilon=1.5)
    assert (row.by_policy, row.declaration_empty) == (True, False)
    assert (row.epsilon_declared, row.delta_declared) == (1.5, PUBLIC.delta)


def test_rows_held_out_by_a_column_have_none_unless_it_is_the_unit(tmp_path):
    """Persons held out whole: an honest model would look leaky, so nothing is published."""
    lake = small_lake(tmp_path / "lake", privacy=declared(unit="user"), rows=1600)
    rows = pl.read_parquet(label_path(lake, "flights")).with_row_index("row")
    person = (pl.col("row") // 4).cast(pl.Int64)
    held = person % 4 == 0
    split = pl.when(held).then(pl.lit("holdout")).otherwise(pl.lit("train"))
    put_labels(lake, DAY, rows.with_columns(user=person, split=split).drop("row"))
    assert audited(lake).statements == ()
    (row,) = audited(lake, privacy_unit="user").statements
    assert 200 <= row.records <= 300
