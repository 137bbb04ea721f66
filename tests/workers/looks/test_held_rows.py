"""A night's holdout is known again, whatever labels and models say and however its rows lie."""

import numpy as np
import polars as pl
import pytest

from privcore.attacks import HoldoutSketch, hashed_numbers, hashed_words, same_holdout
from privcore.lower_bounds import Secret
from tests.support.lake import DAY, PLAN, label_path, put_labels
from tests.workers.scan.test_before_the_pass import CONTEXT, learner, recorded
from workers.audit.run import run_audit
from workers.executors import InProcess


def sketched(folder, frame, **changes):
    """Return the sketch of a score table's audit."""
    (wealth,) = recorded(folder, frame, **changes).wealth
    return wealth.holdout_sketch


def arm(frame, word):
    return frame.filter(pl.col("split") == word)


def with_other_training(held, seed):
    trained = arm(learner(800, seed=seed), "train")
    return pl.concat([trained, held]).sample(fraction=1.0, shuffle=True, seed=seed)


@pytest.mark.slow
def test_a_night_knows_its_holdout_whatever_labels_and_models_say(tmp_path):
    """The next night has other training rows and answers; then comes a new holdout."""
    first, new = (arm(learner(800, seed=seed), "holdout") for seed in (1, 2))
    other = pl.when(pl.int_range(pl.len()) % 10 == 0).then(1 - pl.col("clicked"))
    again = first.with_columns(clicked=other.otherwise("clicked"), p_today=pl.col("p_today") / 2.0)
    found = [
        sketched(tmp_path / str(seed), with_other_training(held, seed), context=CONTEXT)
        for seed, held in enumerate([first, again, new, first], start=3)
    ]
    assert None not in found
    assert found[0] == found[1] == found[3]
    assert same_holdout(found).tolist() == [-1, 0, -1, 1]


@pytest.mark.parametrize("word", [None, ""])
def test_a_sketch_is_of_what_the_held_rows_say(tmp_path, word):
    """Numbers of 32 bits and words, each in its own column; words may all be empty."""
    frame = learner(800)
    frame = frame if word is None else frame.with_columns(place=pl.lit(word))
    held = frame.filter(pl.col("split") == "holdout")
    words = [text.encode() for text in held["place"]]
    ages = held["age"].cast(pl.Float32).cast(pl.Float64).to_numpy()
    letters = np.frombuffer(b"".join(words), dtype=np.uint8)
    borders = np.cumsum([0, *map(len, words)]).astype(np.int64)
    columns = [hashed_numbers(ages, "age"), hashed_words(letters, borders, "place")]
    assert sketched(tmp_path / "rows", frame, context=CONTEXT) == HoldoutSketch.of(columns).text()


def test_a_column_that_no_hash_reads_or_that_is_named_twice_ends_no_audit(tmp_path):
    """Of memberships nothing else reads it: the table would hold two columns of one name."""
    lists = learner(800).with_columns(pl.concat_list("age"))
    record = recorded(tmp_path / "lists", lists, context=CONTEXT)
    assert record.audit.status == "evaluated"
    assert [night.holdout_sketch for night in record.wealth] == [None]
    plan = PLAN.model_copy(update={"secret": Secret.MEMBERSHIP})
    twice = (*CONTEXT, CONTEXT[0])
    record = recorded(tmp_path / "rows", learner(800), plan=plan, context=twice)
    assert record.audit.status == "evaluated", record.audit.reason
    assert len(bytes.fromhex(record.wealth[0].holdout_sketch or "")) == 32


@pytest.mark.slow
def test_a_table_without_context_knows_its_rows_by_their_names(tmp_path):
    """Where it has neither, nothing is known; names that are whole numbers do as text does."""
    frame = learner(800).with_columns(name=pl.int_range(pl.len()) + 2**60)
    assert sketched(tmp_path / "table", frame) is None
    by_name = sketched(tmp_path / "named", frame, record="name")
    trained = arm(learner(800, seed=9), "train").with_columns(name=-pl.int_range(pl.len()))
    answered = pl.concat([arm(frame, "holdout"), trained]).with_columns(p_today=0.5)
    assert sketched(tmp_path / "again", answered, record="name") == by_name is not None
    others = frame.with_columns(pl.col("name") + 800)
    assert same_holdout([by_name, sketched(tmp_path / "others", others, record="name")])[1] == -1
    both = sketched(tmp_path / "named", frame, record="name", context=CONTEXT)
    assert both == sketched(tmp_path / "table", frame, context=CONTEXT) != by_name


def test_a_checkpoints_night_has_a_sketch_of_its_features(lake):
    """The label is no part of it, not even where it cannot be read."""
    plan = PLAN.model_copy(update={"seed": 3, "max_bad_records": 400})

    def told():
        (wealth,) = run_audit(lake, "good", DAY, plan=plan, executor=InProcess()).wealth
        return wealth.holdout_sketch

    before = told()
    rows = pl.read_parquet(label_path(lake, "flights", DAY))
    label_path(lake, "flights", DAY).unlink()
    some = pl.when(pl.int_range(pl.len()) % 5 > 0).then("late")
    put_labels(lake, DAY, rows.with_columns(late=some)[::-1])
    assert told() == before is not None
    assert np.unique(list(bytes.fromhex(before))).size > 16
