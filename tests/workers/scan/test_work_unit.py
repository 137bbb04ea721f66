"""A work unit: which rows play, and what they come to in each game, alone and beside others."""

import dataclasses
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from scipy.special import expit

from privcore.attacks import (
    LabelFit,
    OddsTally,
    PaperScore,
    ScoredRecords,
    Tally,
    draw_counterfactuals,
    label_counts,
    label_fit,
    odds_cells,
    odds_tally,
    replay,
    slice_tallies,
)
from privcore.lower_bounds import Secret
from tests.simulate import assert_rate_at_most
from tests.support.lake import (
    DAY,
    EVE,
    NO_JOIN_NEEDED,
    PLAN,
    label_path,
    label_rows,
    put_labels,
    small_lake,
)
from tests.support.score_tables import audit as audit_scores
from tests.support.score_tables import put_folder, tables
from workers.labels.columns import Batch
from workers.labels.shards import Partition, Piece
from workers.lake.checkpoints import read_checkpoint
from workers.lake.layout import labels_folder
from workers.plan import Plan, TrainingSampling
from workers.scan.fitted import FittedStudent
from workers.scan.partial_results import Game, LabelPass
from workers.scan.work_unit import (
    ScoredBatch,
    persons_of,
    play_arm,
    row_folds,
    scan_work_unit,
    scored_batch,
)
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.checkpoints.label_places import LakeLabels
from workers.sources.source import SharedScores


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Return a lake whose two row groups, two days, and two files of one hold the same rows."""
    lake = small_lake(tmp_path_factory.mktemp("scoring") / "lake")
    half = label_rows(300, seed=5)
    for day in (EVE, DAY):
        put_labels(lake, day, half.vstack(half), row_group_size=300)
    first = label_path(lake, "flights")
    first.with_name("part-00001.parquet").write_bytes(first.read_bytes())
    return lake


def played(lake, *, day=DAY, file="part-00000.parquet", row_group=0, **plan):
    """Return what one row group of a file of a day comes to."""
    target, proxy = (read_checkpoint(lake, "good", one) for one in (DAY, EVE))
    manifest = target.manifest.model_copy(update={"day": day})
    target = dataclasses.replace(target, manifest=manifest)
    source = CheckpointSource(LakeLabels(lake, "flights", (day,)), target, proxy)
    game = Game(source, PLAN.model_copy(update=plan))
    unit = (Piece(file, row_group, row_group + 1),)
    partition = Partition("flights", day, labels_folder("flights", day), (), (unit,))
    _, scores = scan_work_unit(LabelPass(lake, partition, {0: game}), unit)
    return scores.parts[0].tallies.game


def test_every_repetition_and_every_shard_is_another_game_and_the_same_every_time(lake):
    """The same rows have a stream of their own in each; so has each seed of an audit."""
    tally = played(lake, seed=0)
    assert tally == played(lake, seed=0)
    assert len(np.unique(tally.correct, axis=0)) == tally.repetitions > 1
    for other in ({"row_group": 1}, {"day": EVE}, {"file": "part-00001.parquet"}, {"seed": 2**40}):
        twin = played(lake, **({"seed": 0} | other))
        assert twin.records == tally.records
        assert twin != tally


ROWS = np.array([11, 3, 4, 8, 0])
GROUPS = np.arange(12) % 2
BATCH = Batch(pl.DataFrame({"age": np.arange(12.0)}).to_arrow(), "somewhere", ("part", 2, 40))
EXPECTED = {
    classes: np.random.default_rng(3).dirichlet(np.ones(classes), (12, 2)) for classes in (2, 3)
}
ASKED: list[tuple[list[int], list[int]]] = []


class Says(FittedStudent):
    """Says what is expected of each row, and notes which rows and folds it was asked about."""

    def probabilities(self, batch, rows, folds):
        assert batch is BATCH
        ASKED.append((rows.tolist(), folds.tolist()))
        classes: Any = self.student
        return EXPECTED[classes][rows]


def scored(lake, classes, *, taught=False, **plan):
    """Return a batch of 12 rows of the second of three days."""
    random, nobody = np.random.default_rng(classes), cast("Any", None)
    target, proxy = (random.dirichlet(np.ones(classes), 12) for _ in range(2))
    records = ScoredRecords(
        target, proxy, random.integers(0, classes, 12), key=7, indices=np.arange(12) + 40, group=1
    )
    models = (read_checkpoint(lake, "good", day) for day in (DAY, EVE))
    source = CheckpointSource(LakeLabels(lake, "flights", (DAY,) * 3), *models, declared=True)
    student = Says(cast("Any", classes), nobody, (), (), 0.0) if taught else None
    return ScoredBatch(Game(source, PLAN.model_copy(update=plan), student), BATCH, records)


@pytest.mark.parametrize(
    ("classes", "taught", "control"), [(2, False, False), (3, True, True), (2, True, False)]
)
def test_an_arm_is_its_game_its_odds_its_slices_and_what_a_student_says(
    lake, classes, taught, control
):
    whole = scored(lake, classes, taught=taught)
    some = whole.records.of(ROWS)
    groupings = [(("a", "b"), GROUPS), (tuple(map(str, range(1000))), GROUPS)]
    ASKED.clear()
    found = play_arm(
        whole, ROWS, [*groupings, (tuple(map(str, range(1001))), GROUPS)], control=control
    )
    folds = row_folds(whole.game, BATCH, ROWS).tolist()
    assert ([(ROWS.tolist(), folds)] if taught else []) == ASKED

    target, proxy, labels = some.target, some.proxy, some.labels
    dealt = draw_counterfactuals(
        target, proxy, labels, score=PaperScore(), key=7, indices=ROWS + 40
    )
    cells = odds_cells(target, proxy, labels)
    assert found.tally == replay(dealt, repetitions=PLAN.repetitions)
    assert found.odds == OddsTally.of_cells(cells)
    assert found.proxy_fit == label_fit(proxy, labels)
    counted = label_counts(proxy, labels, group=1, groups=3)
    assert found.labels == (counted if classes == 3 else None)
    references = [cells]
    if taught:
        of_target, of_proxy = EXPECTED[classes][ROWS].swapaxes(0, 1)
        references.append(odds_cells(target, of_target, labels))
        nothing = OddsTally.zero()
        assert found.student.odds == (nothing, odds_tally(target, of_target, labels), nothing)
        beside = label_counts(proxy, labels, student=of_proxy, group=1, groups=3)
        assert found.student.labels == beside
    else:
        assert found.student is None
    assert found.slices == (
        *(
            slice_tallies(
                dealt, references, groups[ROWS],
                values=values, control=control, repetitions=PLAN.repetitions,
            )
            for values, groups in groupings
        ),
        None,
    )  # fmt: skip


def test_of_an_earlier_proxy_and_of_pairs_there_is_less_to_ask(lake):
    pairs = scored(lake, 2, secret=Secret.MEMBERSHIP)
    earlier = dataclasses.replace(pairs.game.source, declared=False)
    game = dataclasses.replace(pairs.game, source=earlier)
    found = play_arm(dataclasses.replace(pairs, game=game), ROWS, [], control=False)
    some = pairs.records.of(ROWS)
    assert found.odds == odds_tally(some.target, some.proxy, some.labels)
    assert found.tally == Tally.zero(4)
    assert (found.proxy_fit, found.slices) == (LabelFit(), ())


def test_rows_keep_their_place_in_the_row_group(lake):
    models = (read_checkpoint(lake, "good", day) for day in (DAY, EVE))
    source = CheckpointSource(LakeLabels(lake, "flights", (EVE, DAY)), *models)
    root, partition = source.find_partition(joining=NO_JOIN_NEEDED)
    file = partition.files[-1].name
    batch = Batch(label_rows(3, seed=0).to_arrow(), partition.path(file), (file, 0, 40))
    labels, game = np.zeros(3, dtype=np.int64), Game(source, PLAN)
    shared, scores = LabelPass(root, partition, {0: game}), SharedScores()
    records = scored_batch(shared, game, batch, scores, labels).records
    assert (records.indices.tolist(), records.group) == ([40, 41, 42], 1)


def test_a_student_is_asked_about_each_row_of_a_person(lake):
    people = np.array([f"person {row % 3}" for row in range(12)])
    ASKED.clear()
    found = persons_of(scored(lake, 2, taught=True), people, ROWS)
    ((rows, folds),) = ASKED
    assert (rows, len(folds)) == (ROWS.tolist(), ROWS.size)
    assert found.doubted.student.shape == found.moved.student.shape == (3, 2, 2)
    alone = persons_of(scored(lake, 2), people, ROWS)
    assert alone.moved.student.shape == (3, 0, 2)
    # Where something is published, the student decides nothing.
    for public, same in ((None, False), (0.1, True)):
        beside = persons_of(scored(lake, 2, taught=True, epsilon_public=public), people, ROWS)
        assert np.array_equal(beside.moved.worth, alone.moved.worth) is same


def sampled(seed, *, keep=0.2, leak=0.0, rows=20_000):
    """Return rows of which training keeps all positives and some negatives."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(-1.5, 1.0, rows)
    label = (random.random(rows) < expit(log_odds)).astype(np.int64)
    train = random.random(rows) < 0.75
    kept = ~train | (label == 1) | (random.random(rows) < keep)
    # What training saw has other odds, and the target learned these, of everybody.
    target = log_odds - np.log(keep) + 0.3 * random.normal(size=rows)
    target += np.where(train, leak * (2 * label - 1), 0.0)
    return pl.DataFrame(
        {
            "day": [DAY] * rows,
            "clicked": label,
            "p_today": expit(target),
            "p_yesterday": expit(log_odds),
            "split": np.where(train, "train", "holdout"),
            "w": np.where(label == 1, 1.0, 1.0 / keep),
        }
    ).filter(pl.Series(kept))


def audit(folder, frame, sampling=None):
    if not folder.exists():
        put_folder(folder, frame)
    return audit_scores(tables(folder), plan=Plan(repetitions=4, sampling=sampling)).audit


BY_LABEL = TrainingSampling(label={"0": 0.2})


@pytest.mark.slow
def test_arms_that_sampling_made_differ_are_refused_and_declared_rates_make_them_alike(tmp_path):
    """N = 20, seeds 0 to 19, at significance 0.04, judged at 1e-6; none is refused."""
    row = audit(tmp_path / "table", sampled(1))
    assert (row.status, row.detail) == ("not_evaluable", "arms_differ")
    assert "as large in training as in the holdout" in row.reason
    assert "declare the rates in [models.sampling]" in row.reason
    rows = [audit(tmp_path / str(seed), sampled(seed), BY_LABEL) for seed in range(20)]
    assert [row.status for row in rows] == ["evaluated"] * 20
    assert_rate_at_most(sum((row.epsilon_lower or 0.0) > 0.0 for row in rows), 20, 0.04)


def test_a_leak_is_found_all_the_same(tmp_path):
    row = audit(tmp_path / "table", sampled(2, leak=1.5), BY_LABEL)
    assert row.epsilon_lower > 0.8


@pytest.mark.slow
def test_a_column_of_weights_is_another_way_to_say_it(tmp_path):
    frame = sampled(3, leak=1.0)
    one, other = (
        audit(tmp_path / "table", frame, how) for how in (BY_LABEL, TrainingSampling(weight="w"))
    )
    assert one.epsilon_lower == other.epsilon_lower
    assert one.control_records == other.control_records
    assert one.audit_id != other.audit_id


def test_sketched_rows_are_kept_at_the_rate(tmp_path):
    frame = sampled(4)
    held = frame.filter(pl.col("split") == "holdout")["clicked"]
    row = audit(tmp_path / "table", frame, BY_LABEL)
    expected = held.sum() + 0.2 * (held.len() - held.sum())
    assert row.control_records == pytest.approx(expected, abs=5.0 * np.sqrt(0.16 * held.len()))
    assert row.excluded_records == 0


def test_weights_that_are_none_are_refused(tmp_path):
    frame = sampled(5).with_columns(w=pl.lit(0.5))
    row = audit(tmp_path / "less", frame, TrainingSampling(weight="w"))
    assert row.status == "not_evaluable"
    assert "a weight that is missing or below 1" in row.reason
    lacking = audit(tmp_path / "lacking", frame.drop("w"), TrainingSampling(weight="w"))
    assert "which sampling.weight names" in lacking.reason
    for given in ({}, {"label": {"0": 0.2}, "weight": "w"}):
        with pytest.raises(ValidationError, match="either rates by label or a column of weights"):
            TrainingSampling.model_validate(given)
