"""Location of a leak: a leak planted in some rows is named, and no other rows are."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.score_tables import EMPTY_LAKE, audit, put_folder, tables
from workers.audit.locate import locate
from workers.executors import InProcess
from workers.plan import Plan

PLAN = Plan(repetitions=2, minimum_slice_records=300)
CONTEXT = ("age", "place", "kind")


def rows(leaks, *, seed=0, many=6_000, leak=1.5):
    """Return rows whose target knows the labels of training rows where `leaks` holds.

    It moved everywhere else as far, by chance. Each row of a twentieth comes twice.
    """
    random = np.random.default_rng(seed)
    features = pl.DataFrame(
        {
            "age": random.normal(size=many).round(3),
            "place": [f"place {number}" for number in random.integers(0, 4, many)],
            "kind": [f"kind {number}" for number in np.minimum(random.geometric(0.5, many), 12)],
        }
    )
    frame = pl.concat([features[: many - many // 20], features[: many // 20]])
    truth = 0.5 * np.sin(2.0 * frame["age"].to_numpy())
    label = (random.random(many) < expit(truth)).astype(np.int64)
    train = random.random(many) < 0.7
    side = np.where(frame.select(leaks).to_series().to_numpy(), 2 * label - 1,
                    random.choice([-1, 1], many))  # fmt: skip
    return frame.with_columns(
        day=pl.lit(DAY),
        clicked=label,
        p_today=expit(truth + np.where(train, leak * side, 0.0)),
        p_yesterday=expit(0.3 * truth),
        split=pl.Series(np.where(train, "train", "holdout")),
    )


def audited(folder, frame, plan=PLAN):
    return audit(tables(put_folder(folder, frame), context=CONTEXT), plan=plan)


def located(folder, frame):
    return locate(audited(folder, frame), EMPTY_LAKE, InProcess())


def named(found):
    return {one.segment: one.epsilon_lower for one in found.segments if one.named}


@pytest.mark.slow
def test_a_leak_in_one_place_is_named_and_the_other_places_are_not(tmp_path):
    found = located(tmp_path / "table", rows(pl.col("place") == "place 2"))
    assert named(found)["place is place 2"] >= 1.0
    # Regions of several features lie where the target moved.
    assert any(name.startswith("place is place 2, ") for name in named(found))
    assert not any(f"place is place {other}" in named(found) for other in (0, 1, 3))
    tested = {one.segment: one for one in found.segments}
    assert tested["place is place 1"].epsilon_lower == 0.0
    assert tested["place is place 1"].qvalue > 0.5
    place = tested["place is place 2"]
    assert place.records + place.control_records > 1_300
    assert found.significance == pytest.approx(PLAN.significance, rel=0.5)


@pytest.mark.slow
def test_where_nothing_leaks_nothing_is_named(tmp_path):
    found = located(tmp_path / "table", rows(pl.lit(value=False)))
    assert named(found) == {}
    assert len(found.segments) > 10
    assert all(one.records >= 300 for one in found.segments)
    assert found.too_small > 0
    words = [one.segment for one in found.segments]
    assert any("< age <=" in word for word in words)
    assert any(word.startswith("rows without") for word in words)
    assert {"kind is kind 1", "place is place 3"} <= set(words)


def test_it_asks_the_audit_that_was_stored(tmp_path):
    record = audited(tmp_path / "table", rows(pl.lit(value=False), many=2_000))
    frame = rows(pl.lit(value=False), seed=1, many=2_000)
    (tmp_path / "table" / f"day={DAY}" / "part-0.parquet").unlink()
    frame.drop("day").write_parquet(tmp_path / "table" / f"day={DAY}" / "part-0.parquet")
    with pytest.raises(TerminalError, match="other inputs than were audited"):
        locate(record, EMPTY_LAKE, InProcess())


def test_an_audit_without_figures_or_of_persons_is_refused(tmp_path):
    few = audited(tmp_path / "few", rows(pl.lit(value=False), many=100))
    with pytest.raises(TerminalError, match="came to no figures"):
        locate(few, EMPTY_LAKE, InProcess())
    frame = rows(pl.lit(value=False), many=3_000)
    frame = frame.with_columns(person=pl.int_range(pl.len()).cast(pl.String))
    persons = audited(
        tmp_path / "persons", frame, PLAN.model_copy(update={"privacy_unit": "person"})
    )
    with pytest.raises(TerminalError, match="whole values of 'person'"):
        locate(persons, EMPTY_LAKE, InProcess())
