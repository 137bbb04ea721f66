"""Features that copy `split`, the label or the privacy unit, more or less: found and said."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from tests.support.lake import BINARY, DAY, EVE, FEATURES, PLAN, label_rows, put_labels, put_model
from tests.support.score_tables import audited_scores, leaking_scores
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.labels.shards import Partition
from workers.lake.layout import LabelFile, Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.looks.look import Opened, Seen, is_inspected
from workers.looks.near_copies import NearCopies, near_copies, separates
from workers.plan import Plan

ROWS = 800
NOTHING = NearCopies(Counter(), Counter())


def _copies():
    trained, late = pl.col("split") == "train", pl.col("late")
    noise = pl.lit(np.random.default_rng(7).normal(scale=0.1, size=ROWS))
    hardly = pl.int_range(pl.len()) % 200 == 0  # one in 200 is another
    return {
        "tells 'split' as a number": trained.cast(pl.Float64) + noise,
        "tells 'split' turned round": noise - trained.cast(pl.Float64),
        "tells 'split' as words": pl.format("{}-{}", pl.col("split"), pl.col("city")),
        "tells 'split' but for some": trained ^ hardly,
        "tells 'late' as a number": late * 100.0 + noise,
        "tells 'late' as words": pl.when(late == 1).then(pl.lit("x")).otherwise(pl.lit("y")),
        "tells 'person' as it is": pl.col("person"),
    }


def test_copies_are_told(tmp_path):
    """The last one in the record of an audit."""
    lake, rows = Lake(str(tmp_path)), label_rows(ROWS, seed=1)
    rows = rows.with_columns(person=pl.format("person-{}", pl.int_range(pl.len())))
    for name, copy in _copies().items():
        kind = "categorical" if "words" in name or "person" in name else "numeric"
        features = (*FEATURES, Feature(name="hint", kind=kind))
        column, copied = name.split("'")[1], rows.with_columns(hint=copy)
        found = near_copies(Batch(copied.to_arrow(), "x", ("x", 0, 0)), Told(features), "person")
        assert found.sentence().count(" tells '") == 1, name
        assert f"'hint' tells '{column}'. Such a model" in found.sentence()
    for day in (EVE, DAY):
        put_labels(lake, day, copied, row_group_size=ROWS)
        put_model(lake, day, features=features)
    plan = Plan(repetitions=4, privacy_unit="person")
    audit = run_audit(lake, "good", DAY, plan=plan, executor=InProcess()).audit
    assert audit.status == "evaluated"
    assert "'hint' tells 'person'. Such a model" in audit.reason


@dataclass(frozen=True)
class Told:
    """The part of a source that is inspected."""

    features: tuple[Feature, ...] = FEATURES
    label: LabelColumn = BINARY

    def labels(self, batch):
        """Return the class indices, and what is bad."""
        return batch.labels(self.label)

    def arms(self, batch):
        """Return what `split` says."""
        return batch.arms()


def judged(rows, source=Told()):
    return near_copies(Batch(rows.to_arrow(), "x", ("x", 0, 0)), source, None)


@pytest.mark.parametrize(("files", "looked"), [(1, 1), (8, 8), (9, 5), (40, 8), (20_000, 8)])
def test_of_many_files_some_are_looked_at_from_the_first_on(files, looked):
    listed = tuple(LabelFile(f"part-{place:06d}", 1, 1) for place in range(files))
    partition = Partition("x", DAY, "", listed, ())
    chosen = [place for place, file in enumerate(listed) if is_inspected(partition, file.name)]
    assert len(chosen) == looked
    assert chosen[0] == 0
    assert set(np.diff(chosen).tolist()) <= {-(-files // 8)}


@pytest.mark.slow
def test_features_that_know_nothing_are_never_named():
    told = Told((*FEATURES, Feature(name="rare", kind="numeric")))
    found = NOTHING
    for seed in range(200):
        rows = label_rows(260, seed=seed, holdout=0.25)
        rows = rows.with_columns(rare=pl.col("hour") == 3)
        found += judged(rows, source=told)
    assert found.judged["late"] == 200
    assert found.judged["split"] > 150
    assert found.found.total() == 0


def test_only_the_begin_of_a_file_with_enough_of_each_kind_is_judged():
    rows = label_rows(260, seed=1).with_columns(delay=(pl.col("split") == "train").cast(pl.Float64))

    assert judged(rows).found == {("delay", "split"): 1}
    for *place, inspected in ((1, 0, True), (0, 260, True), (0, 0, False)):
        batch = Batch(rows.to_arrow(), "x", ("x", *place))
        nobody: Any = None
        opened = Opened(nobody, nobody, (), inspected)
        seen = Seen(cast("Any", Told()), PLAN, batch, nobody, nobody, opened)
        assert NearCopies.see(seen) is None
    assert judged(rows.filter(pl.col("split") == "train")).judged == {"late": 1}


def test_what_most_files_say_is_said():
    told = NearCopies(Counter(split=3), Counter({("a", "split"): 2, ("b", "split"): 1}))
    assert "'a' tells 'split'. Such" in told.sentence()
    assert "'b'" not in told.sentence()
    assert (told + told).sentence() == told.sentence()
    assert NOTHING.sentence() == ""


@pytest.mark.parametrize("held_out", [12, 32])
def test_few_held_out_rows_show_a_number_that_is_missing_in_training(held_out):
    """Small row groups, or a small holdout, hid what separates the splits."""
    rows = label_rows(128, seed=1).with_columns(
        split=pl.when(pl.int_range(pl.len()) < held_out).then(pl.lit("holdout")).otherwise(
            pl.lit("train")
        )
    )  # fmt: skip
    hidden = rows.with_columns(delay=pl.when(pl.col("split") == "holdout").then("delay"))
    assert judged(hidden).sentence().count("'delay' tells 'split'") == 1
    assert not judged(rows).sentence()


def test_few_rows_show_a_word_that_was_held_out_and_outvote_no_others():
    rows = label_rows(128, seed=1)
    copied, many = (
        each.with_columns(city=pl.col("split")) for each in (rows, label_rows(999, seed=2))
    )
    assert "'city' tells 'split'" in judged(copied).sentence()
    assert (judged(many) + judged(rows) + judged(rows)).sentence() == judged(many).sentence() != ""


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [10, 20])
def test_chance_makes_no_copy_of_few_rows(held_out):
    """None of 2,000 groups of 40 rows has a copy among a number, 5 words and a word a row."""
    random = np.random.default_rng(11)
    kinds = np.arange(40) < held_out
    for _ in range(2_000):
        words = pl.Series(random.integers(0, 5, 40)).cast(pl.String)
        each = pl.Series(random.permutation(40)).cast(pl.String)
        number = pl.Series(random.normal(size=40))
        assert not any(separates(found, kinds) for found in (number, words, each))


def test_a_context_that_only_the_holdout_has_is_told_and_one_of_features_is_not(tmp_path):
    """The student learned what training rows do not have: 3.8 became 3.0, unsaid."""
    frame = leaking_scores(leak=0.4)
    row = audited_scores(tmp_path / "features", frame, context=["x"])
    assert (row.verdict, "nearly copy" in row.reason) == ("violated", False)
    hidden = pl.when(pl.col("split") == "train").then(None).otherwise(pl.col("x"))
    row = audited_scores(tmp_path / "hidden", frame.with_columns(x=hidden), context=["x"])
    assert "'x' tells 'split'" in row.reason
