"""Rows that belong together, held out together or logged twice: found, and never by chance."""

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

from privcore.attacks import ValueSketch, row_sums
from tests.privcore.attacks.test_related_rows import sketch_of
from tests.privcore.lower_bounds.test_notebook_input import of_few_values
from tests.simulate import assert_rate_at_most
from tests.support.audits import audited
from tests.support.lake import DAY, EVE, declared, label_path, label_rows, put_labels, put_model
from tests.support.persons import FEATURES, audit_table, persons, record_of_table, with_features
from tests.support.score_tables import audited_scores
from tests.support.tiers import tiered
from workers.lake.layout import Lake
from workers.looks.rows_alike import RowsAlike
from workers.plan import Plan

PLAN = Plan(repetitions=4)


@pytest.mark.slow
def test_sixty_honest_models_whose_holdout_is_by_person_accuse_nobody(tmp_path):
    """Randomized response at 0.5 a row, 500 persons of 8 rows whose level is hidden: seed 320."""
    verdicts, reasons = [], []
    for number in range(60):
        frame = persons(np.random.default_rng([320, number]))
        row = audit_table(tmp_path / str(number), frame, epsilon=0.5)
        verdicts.append(row.verdict)
        reasons.append(row.detail)
    assert "violated" not in verdicts
    assert reasons.count("held_out_together") == 60
    assert 'Set plan.privacy_unit to "person", and declare an epsilon' in row.reason


def test_persons_whom_no_column_names_are_told_by_their_features(tmp_path):
    """The same persons, of whom features tell what no column does; seeds [338, 0] on."""
    for number in range(2):
        random = np.random.default_rng([338, number])
        frame = with_features(persons(random), random)
        row = audit_table(tmp_path / str(number), frame, epsilon=0.5, context=FEATURES)
        assert row.detail == "held_out_together", row.reason
        assert "Rows with nearly the same features were held out" in row.reason


@pytest.mark.parametrize("made_distinct", ["train", "before"])
def test_rows_made_distinct_in_one_arm_are_compared_with_none(tmp_path, made_distinct):
    """A model that read no label of theirs, seed 348; no statement says what the audit does not."""
    frames = [
        pl.DataFrame({"clicked": arm.labels, "p_today": arm.target, "p_yesterday": arm.proxy})
        .hstack(pl.DataFrame(arm.context, schema=FEATURES[:3]))
        .with_columns(pl.lit(split).alias("split"), pl.col("clicked").cast(int))
        for arm, split in zip(
            of_few_values(np.random.default_rng(348), made_distinct),
            ("train", "holdout"),
            strict=True,
        )
    ]
    plan = Plan(repetitions=4, epsilon_public=0.5)
    record = record_of_table(
        tmp_path, pl.concat(frames), epsilon=0.5, plan=plan, context=FEATURES[:3]
    )
    row, refused = record.audit, made_distinct == "train"
    assert row.detail == ("arms_differ" if refused else None), row.reason
    assert ("made distinct" in (row.reason or "")) is refused
    assert len(record.statements) == (0 if refused else 1)


def test_a_column_that_names_persons_is_said_where_their_features_tell_them_too(tmp_path):
    """Also under a rule: `bucket(person, 5) = 0` holds out whole persons, of a fifth the rows."""
    random = np.random.default_rng(341)
    named = persons(random)
    frame = with_features(named, random).with_columns(named["person"])
    row = audit_table(tmp_path / "named", frame, epsilon=0.5, context=FEATURES)
    assert 'Set plan.privacy_unit to "person"' in row.reason
    rule = {"holdout": "bucket(person, 5) = 0"}
    row = audit_table(tmp_path / "rule", named.drop("split"), epsilon=0.5, **rule)
    assert row.detail == "held_out_together", row.reason
    assert "'person'" in row.reason


def test_whoever_is_held_out_with_all_rows_is_no_control_in_public_either():
    """No label decides that: rows whose labels are not alike are held out together as well."""
    random = np.random.default_rng(339)
    near = [sketch_of(random, 4_000, 8_000), held_whole(random), ValueSketch.zero()]
    assert RowsAlike({}, ValueSketch.zero(), tuple(near)).divided_whole()
    assert RowsAlike({"a": None, "b": held_whole(random)}, ValueSketch.zero()).divided_whole()
    near[1] = near[0]
    crossing = {"a": None, "b": near[0]}
    assert not RowsAlike(crossing, ValueSketch.zero(), tuple(near)).divided_whole()


def held_whole(random):
    """Return a sketch of 200 values of three independent rows each, in one arm."""
    hashes = np.repeat(random.integers(0, 2**63, 200).astype(np.uint64), 3)
    train, labels = np.repeat(random.random(200) < 0.7, 3), random.integers(0, 2, 600)
    return ValueSketch.of(hashes, row_sums(labels, train, np.full((600, 2), 0.5)))


def test_copies_of_one_event_are_not_held_together():
    """Their labels are the same, and that rows were logged twice is said beside the bound."""
    random = np.random.default_rng(340)
    hashes = np.repeat(random.integers(0, 2**63, 300).astype(np.uint64), 2)
    train, labels = (np.repeat(random.random(300) < share, 2) for share in (0.7, 0.5))
    twins = ValueSketch.of(hashes, row_sums(labels.astype(np.int64), train, np.full((600, 2), 0.5)))
    crossing, _ = RowsAlike({}, ValueSketch.zero(), (twins,)).near_held_together() or (1, 0)
    assert crossing == 0
    assert RowsAlike({}, twins, (twins,)).near_held_together() is None


@pytest.mark.slow
def test_without_the_look_such_models_are_accused(tmp_path, monkeypatch):
    """The same with more rows a person, seed 321: what the test above would not see otherwise."""
    monkeypatch.setattr(RowsAlike, "held_together", lambda _: None)
    monkeypatch.setattr(RowsAlike, "near_held_together", lambda _: None)
    accused = 0
    for number in range(12):
        random = np.random.default_rng([321, number])
        frame = persons(random, people=400, rows=20, spread=3.0)
        if number % 2:
            frame, context = with_features(frame, random), FEATURES
        else:
            context = []
        row = audit_table(tmp_path / str(number), frame, epsilon=0.5, context=context)
        accused += row.verdict == "violated"
    assert accused >= 4


@pytest.mark.slow
def test_a_holdout_by_row_is_never_refused_and_its_leak_is_found(tmp_path):
    """40 audits of persons whose rows are held out one by one, seed 322; features tell half.

    Rows that were logged once more are no persons: that is said elsewhere.
    """
    refused = accused = 0
    for number in range(40):
        random = np.random.default_rng([322, number])
        frame = persons(random, people=300, by="row", epsilon=2.0)
        shown = with_features(frame, random).with_columns(frame["person"]) if number % 2 else frame
        context = FEATURES if number % 2 else []
        row = audit_table(tmp_path / str(number), shown, epsilon=2.0, context=context)
        refused += row.detail == "held_out_together"
        accused += row.verdict == "violated"
    assert refused == 0
    assert_rate_at_most(accused, 40, 0.05)
    row = audit_table(tmp_path / "false", frame, epsilon=0.5)
    assert row.verdict == "violated", row.reason


def _bucketed(random, buckets):
    """A column by which rows were held out, that says nothing else of them."""
    held = pl.col("split") == "holdout"
    numbers = pl.lit(random.integers(0, buckets // 5, 4_000) * 5)
    others = pl.lit(random.integers(0, buckets // 5 * 4, 4_000))
    return pl.when(held).then(numbers).otherwise(others // 4 * 5 + others % 4 + 1)


@pytest.mark.slow
def test_a_column_that_only_deals_rows_is_no_person(tmp_path):
    """20 audits: the rows of a bucket were held out together, and are not alike; seed 324.

    Each has three such columns, of 5, 100 and 1,000 buckets.
    """
    for number in range(20):
        random = np.random.default_rng([324, number])
        frame = persons(random, by="row").drop("person")
        dealt = {f"of {many}": _bucketed(random, many) for many in (5, 100, 1_000)}
        row = audit_table(tmp_path / str(number), frame.with_columns(**dealt), epsilon=0.5)
        assert row.status == "evaluated", row.reason


def test_a_lakes_column_that_no_model_takes_is_read_and_its_damage_is_nobodys(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        random = np.random.default_rng(seed)
        frame = label_rows(4_000, seed=seed)
        owner = np.repeat(np.arange(500), 8)
        held = (random.random(500) < 0.3)[owner]
        frame = frame.with_columns(
            late=pl.Series((random.random(500) < 0.5).astype(np.int64)[owner]),
            split=pl.Series(np.where(held, "holdout", "train")),
            customer=pl.Series([f"c{number}" for number in owner]),
        ).sample(fraction=1.0, shuffle=True, seed=seed)
        put_labels(lake, day, frame, row_group_size=4_096)
        put_model(lake, day, privacy=declared(0.5))
    row = audited(lake, PLAN)
    assert row.detail == "held_out_together", row.reason
    assert 'Set plan.privacy_unit to "customer"' in row.reason
    path = label_path(lake, "flights")
    group = pq.read_metadata(path).row_group(0)
    (chunk,) = (
        group.column(place)
        for place in range(group.num_columns)
        if group.column(place).path_in_schema == "customer"
    )
    content, first = bytearray(path.read_bytes()), chunk.dictionary_page_offset
    content[first : first + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    row = audited(lake, PLAN)
    # Nothing is said of the column; that rows of a person agree may still show in the arms.
    assert row.detail in {None, "arms_differ"}, row.reason


def logged(random, *, twice, events=3_000, epsilon=2.0, prior=None):
    """Return rows of events, some of them logged twice, each row with a response of its own."""
    chance = random.uniform(0.1, 0.9, events) if prior is None else prior(events)
    label = random.random(events) < chance
    copies = 1 + (random.random(events) < twice)
    event = np.repeat(np.arange(events), copies)
    train = (random.random(events) < 0.7)[event]
    keep = expit(epsilon)
    said = np.where(random.random(event.size) < keep, label[event], ~label[event])
    odds = np.log(chance / (1.0 - chance))
    np.add.at(odds, event[train], np.where(said, epsilon, -epsilon)[train])
    order = random.permutation(event.size)
    return pl.DataFrame(
        {
            "clicked": label[event].astype(np.int64),
            "p_today": expit(odds)[event],
            "p_yesterday": chance[event],
            "split": np.where(train, "train", "holdout"),
        }
    )[order]


@pytest.mark.slow
def test_rows_that_were_logged_twice_are_said_beside_the_verdict(tmp_path):
    """Randomized response at 2 for each copy: 20 audits with and without copies, seed 330.

    Predictions of memorised rows tell the arms: without features no rows are near.
    """
    accused, said, without = 0, 0, 0
    for number in range(20):
        random = np.random.default_rng([330, number])
        row = audit_table(tmp_path / f"a{number}", logged(random, twice=1.0), epsilon=2.0)
        accused += row.verdict == "violated"
        said += "rows_repeated" in (row.remarks or ())
        assert "resemble" not in row.reason
        row = audit_table(tmp_path / f"b{number}", logged(random, twice=0.0), epsilon=2.0)
        without += "rows_repeated" in (row.remarks or ())
    assert accused >= 10  # what the remark is for
    assert said == 20
    assert without == 0


def test_a_tenth_of_the_rows_twice_is_enough(tmp_path):
    row = audit_table(tmp_path, logged(np.random.default_rng(331), twice=0.1), epsilon=2.0)
    assert "rows_repeated" in (row.remarks or ())


@pytest.mark.slow
@pytest.mark.parametrize("levels", tiered([9, 60, 2_000], always=1, slow=2))
def test_features_of_few_values_are_no_twins(tmp_path, levels):
    """20 audits each of rows with so many values of all features together, seed 332."""
    for number in range(20):
        random = np.random.default_rng([332, levels, number])
        frame = logged(
            random,
            twice=0.0,
            prior=lambda events, random=random: np.linspace(0.1, 0.9, levels)[  # type: ignore[misc]
                random.integers(0, levels, events)
            ],
        )
        # Of one value one answer: the target, too, knows the value alone.
        frame = frame.with_columns(p_today=pl.col("p_yesterday") * 0.9 + 0.05)
        row = audit_table(tmp_path / str(number), frame, epsilon=2.0)
        assert "logged twice" not in row.reason


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 0.001])
def test_near_copies_of_training_rows_in_the_holdout_are_told(tmp_path, jitter):
    """Labels are not read. A fifth of the holdout are such; of that, a jitter of 0.05 is not seen.

    An honest holdout is not told of, although as many rows have such copies.
    """
    random = np.random.default_rng(336)
    frame = label_rows(2_000, seed=336).with_columns(old=pl.lit(0.5), new=pl.col("hour") / 24)
    some = frame.filter(pl.col("split") == "train").sample(125, seed=1)
    moved = pl.col("delay") + pl.Series(random.normal(0.0, jitter, 125))
    copies = some.with_columns(delay=moved, late=1 - pl.col("late"))
    for split, told in (("holdout", True), ("train", False), ("either", False)):
        arms = random.choice(["train", "holdout"], 125, p=[0.75, 0.25])
        beside = copies.with_columns(split=pl.Series(arms) if split == "either" else pl.lit(split))
        rows = pl.concat([frame, beside])
        row = audited_scores(tmp_path / split, rows, context=["delay", "hour", "city"])
        assert ("Holdout rows resemble training rows too often" in row.reason) == told, row.reason


def test_what_was_found_adds():
    random = np.random.default_rng(335)
    one, two, three = (sketch_of(random, 300, 500) for _ in range(3))
    left = RowsAlike({"a": one, "b": None}, two, (one, two, three))
    right = RowsAlike({"a": two, "b": three, "c": one}, three, (two, two, one))
    both = left + right
    assert both.columns == {"a": one + two, "b": None, "c": one}
    assert both.near == (one + two, two + two, three + one)
    assert both == right + left
    nothing = RowsAlike({}, ValueSketch.zero())
    assert left + nothing == left == nothing + left
