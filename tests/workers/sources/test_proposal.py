"""Proposed settings for a table: every guess is explained, and training is never guessed."""

import datetime as dt
import itertools
import pathlib
import tomllib
import zoneinfo

import deltalake
import numpy as np
import polars as pl
import pytest

from flows.commands.attach import as_toml
from tests.support.lake import DAY, EVE
from workers.sources.proposal import propose
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import look

FOLDER = pathlib.Path("/srv/settings")


def rows(**more):
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(500)],
            "clicked": random.random(500) < 0.3,
            "p_today": random.random(500),
            "p_served": random.random(500),
            "split": random.choice(["train", "holdout"], 500),
            "amount": random.normal(size=500) * 100,
            "user_id": random.integers(0, 99, 500),
        }
    ).with_columns(**more)


def put(place, frame):
    for day in (EVE, DAY):
        (place / f"ds={day}").mkdir(parents=True)
        frame.write_parquet(place / f"ds={day}" / "part.parquet")
    return str(place)


@pytest.fixture
def proposed(tmp_path):
    """Return what writes a table of rows, and proposes settings for it."""
    places = (tmp_path / f"scores-{number}" for number in itertools.count())
    return lambda frame, given=None, **how: propose(
        look(put(next(places), frame)), given or {}, **how
    )


def toml(found, **privacy):
    return as_toml("ads", "scores", found, privacy, folder=FOLDER)


def written(found):
    """Return `[models.scores]` of the settings that a proposal is written as."""
    return tomllib.loads(toml(found))["models"][0]["scores"]


def test_a_plain_table_needs_no_question(proposed):
    found = proposed(rows())
    assert found.missing == {}
    assert found.newest == DAY
    assert dict(found.settings) == {
        "day": "ds", "label": "clicked", "classes": [0, 1], "target": "p_today",
        "proxy": "p_served", "split": "split",
    }  # fmt: skip
    assert dict(found.offered) == {"unit": "user_id", "context": ["amount"]}
    assert dict(found.unused) == {"event_id": "each row has its own"}
    assert set(found.why) == {*found.settings, *found.offered}
    text = toml(found, epsilon=4.0)
    assert ScoreTables.model_validate(written(found)).unit is None
    assert tomllib.loads(text)["models"][0]["privacy"] == {"epsilon": 4.0}
    assert "its values (False" in text


def test_what_the_table_does_not_say_is_asked_with_candidates(proposed):
    frame = rows().rename({"p_today": "a", "p_served": "b", "clicked": "z"}).drop("split")
    found = proposed(frame)
    assert set(found.missing) == {"target", "proxy", "holdout"}
    assert found.missing["target"].endswith(": a, b")
    assert "never saw the day" in found.missing["proxy"]
    assert (found.settings["label"], found.settings["classes"]) == ("z", [0, 1])
    assert found.why["label"] == "no other column has as few as its 2 values"
    assert "bucket(event_id, 5) = 0" in found.missing["holdout"]


def test_a_delta_table_without_folders_has_its_newest_day_in_its_rows(tmp_path):
    frame = rows(day=pl.lit(DAY), held_holdout=pl.col("user_id") > 50).drop("split")
    deltalake.write_deltalake(str(tmp_path / "t"), frame)
    found = propose(look(str(tmp_path / "t")), {})
    assert (found.settings["day"], found.newest) == ("day", DAY)
    assert found.settings["holdout"] == "held_holdout = true"


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32, pl.Decimal(22, 2), pl.Boolean, pl.Int8])
@pytest.mark.parametrize("label", [None, "clicked"])
def test_a_label_of_whole_numbers_has_classes_however_it_is_stored(proposed, kind, label):
    """pandas stores 0 and 1 as floats where one is missing."""
    frame = rows(clicked=(pl.Series(range(500)) % 3 // 2).cast(kind))
    if kind != pl.Boolean:
        frame = frame.with_columns(
            clicked=pl.when(pl.col("event_id") != "e7").then(pl.col("clicked"))
        )
    found = proposed(frame, {"label": label, "split": "split"})
    assert ScoreTables.model_validate(written(found)).classes == (0, 1)
    assert (found.settings["label"], "scale" in found.settings) == ("clicked", False)


FEW = rows(clicked=pl.Series([1, 2] * 250)).rename({"clicked": "kind"})
MANY = {f"c{number}": pl.Series([0, 1] * 250) for number in range(12)}


@pytest.mark.parametrize(
    ("frame", "label", "said"),
    [
        (rows(clicked=pl.Series(["c", "a", "b", "a"] * 125)), "clicked", ["a", "b", "c"]),
        (FEW, "kind", [1, 2]),
        (rows().rename({"clicked": "z"}), "z", [0, 1]),  # a split is no label
        (FEW.with_columns(z=rows()["clicked"]), None, ": kind, z"),
        (rows(**MANY).rename({"clicked": "z"}), None, f": z, {', '.join(MANY)}"),  # none is cut
        (rows(**MANY), "clicked", [0, 1]),  # its name chooses
    ],
)
def test_the_one_column_of_few_values_is_the_label_and_of_several_all_are_asked(
    proposed, frame, label, said
):
    found = proposed(frame)
    assert found.settings.get("label") == label
    if label is None:
        assert found.missing["label"].endswith(said)
        assert propose(found.seen, {"label": "z"}).settings["classes"] == [0, 1]
    else:
        assert found.settings["classes"] == said
        assert found.why["label"].endswith(f"are {', '.join(MANY)}") is ("c0" in frame.columns)


@pytest.mark.parametrize(
    ("column", "rule"),
    [
        ({"split": ["train", "test"]}, "split = 'test'"),
        ({"fold": ["Train", "Valid", "Test"]}, "fold = 'Test'"),
        ({"part": ["training", "val"]}, "part = 'val'"),
        ({"is_train": [True, False]}, "is_train = false"),
        ({"test": [True, False]}, "test = true"),
    ],
)
def test_a_split_in_other_words_is_offered_by_name(proposed, column, rule):
    ((name, words),) = column.items()
    values = pl.Series(name, [words[number % len(words)] for number in range(500)])
    found = proposed(rows().drop("split").with_columns(values))
    assert f'give --holdout "{rule}"' in found.missing["holdout"]
    assert (set(found.missing), found.settings["label"]) == ({"holdout"}, "clicked")


@pytest.mark.parametrize("words", [("train", "holdout"), ("train", "test"), ("NL", "DE")])
def test_a_split_in_folders_is_read_there(tmp_path, words):
    for word in words:
        folder = tmp_path / "scores" / f"ds={DAY}" / f"split={word}"
        folder.mkdir(parents=True)
        rows().drop("split").write_parquet(folder / "part.parquet")
    found = propose(look(str(tmp_path / "scores")), {})
    if words[1] == "holdout":
        assert (found.settings["split"], found.missing) == ("split", {})
    else:
        offered = "--holdout \"split = 'test'\"" in found.missing["holdout"]
        assert offered is (words[1] == "test")


@pytest.mark.parametrize(
    ("stored", "zone", "day"),
    [
        ("UTC", "UTC", DAY),
        ("UTC", "Europe/Amsterdam", DAY + dt.timedelta(days=1)),
        ("Asia/Tokyo", "America/New_York", EVE),
    ],
)
def test_times_with_an_offset_ask_for_the_zone_and_say_what_depends_on_it(
    tmp_path, stored, zone, day
):
    start = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(hours=27.999 * number / 500) for number in range(500)]
    if zone != "America/New_York":
        times = [time + dt.timedelta(hours=20) for time in times]
    column = pl.Series("ds", times, pl.Datetime("us", "UTC")).dt.convert_time_zone(stored)
    rows(happened=column).write_parquet(tmp_path / "scores.parquet")
    seen = look(str(tmp_path / "scores.parquet"))
    asked = propose(seen, {})
    assert set(asked.missing) == {"time_zone"}
    assert "of 500 rows looked at are of another day than in UTC" in asked.missing["time_zone"]
    found = propose(seen, {"time_zone": zone})
    assert (found.missing, found.newest) == ({}, day)
    clock = [time.astimezone(zoneinfo.ZoneInfo(zone)).date() for time in times]
    differing = sum(one != time.date() for one, time in zip(clock, times, strict=True))
    assert f"as you said: {differing:,} of 500 rows looked at" in found.why["time_zone"]
    assert max(clock) == day
    assert ScoreTables.model_validate(written(found)).time_zone == zone


def test_a_number_is_no_label_but_its_side_of_a_threshold_is(proposed):
    wide = rows(p_today=pl.col("p_today") * 100.0, amount=pl.int_range(500))
    for frame, values in ((rows(), "500"), (wide, "500")):
        found = proposed(frame, {"label": "amount"})
        assert not {"label", "classes", "scale"} & found.settings.keys()
        assert found.missing["label"] == (
            f"amount has {values} values and is a number: write whether it is above a threshold "
            "fixed before training, and audit that column"
        )


def test_codes_beside_probabilities_are_no_numbers(proposed):
    codes = np.random.default_rng(2).integers(0, 50, 500)
    found = proposed(rows(category=pl.Series(codes)).drop("amount"), {"label": "category"})
    assert "label" not in found.missing


def beside(place, frame, day="ds"):
    (place / f"{day}={DAY}").mkdir(parents=True)
    frame.write_parquet(place / f"{day}={DAY}" / "part.parquet")
    return look(str(place))


def test_tables_of_their_own_are_joined_by_the_column_that_names_each_row(proposed, tmp_path):
    frame = rows()
    labels = frame.select("event_id", "clicked", "split", "user_id")
    target = frame.select("user_id", "event_id", p="p_today", noise=pl.col("amount"))
    proxy = frame.select("event_id", "user_id", "p_today", "p_served")
    others = {
        "target": beside(tmp_path / "target", target),
        "proxy": beside(tmp_path / "proxy", proxy, "day"),
    }
    found = proposed(labels, others=others)
    assert found.missing == {}
    assert found.settings["record"] == "event_id"
    assert found.why["record"] == "all tables have it, and each row has its own"
    assert found.settings["target"] == {"table": f"{tmp_path}/target", "column": "p"}
    assert found.why["target"].endswith("no other column of it holds scores")
    of_proxy = {"table": f"{tmp_path}/proxy", "column": "p_served", "day": "day"}
    assert found.settings["proxy"] == of_proxy
    assert found.why["proxy"].endswith("its column's name says so")
    assert ScoreTables.model_validate(written(found)).others.keys() == {"target", "proxy"}


def test_what_tables_of_their_own_do_not_say_is_asked(proposed, tmp_path):
    """The join takes text and whole numbers, so that no column of fractions names a record."""
    frame = rows().with_columns(order_id=pl.col("event_id"), sale_id=pl.col("amount"), a=0.1, b=0.2)
    labels = frame.select("event_id", "order_id", "sale_id", "clicked", "split")
    target = frame.select("event_id", "order_id", "sale_id", "a", "b")
    others = {"target": beside(tmp_path / "target", target)}
    found = proposed(labels, {"proxy": "q"}, others=others)
    assert found.missing["record"].endswith("in all tables: event_id, order_id")
    assert found.missing["target"].endswith("the audited model's probability: a, b")
    told = {"proxy": "q", "record": "order_id", "target": "b", "catalog": "here"}
    found = propose(found.seen, told, others=others)
    assert found.missing == {}
    place = {"table": f"{tmp_path}/target", "column": "b", "catalog": "here"}
    assert found.settings["target"] == place
    assert found.why["target"] == "as you said"
    strangers = {"target": beside(tmp_path / "other", frame.select("a"))}
    found = propose(found.seen, {"proxy": "q"}, others=strangers)
    assert found.missing["record"].endswith("no column looks like it")


def test_columns_that_are_nothing_else_are_offered_as_context_or_say_why_not(proposed):
    told = rows(
        country=pl.Series(["nl", "de"] * 250),
        serial=pl.Series(range(500)),
        session_id=pl.Series(["a", "b"] * 250),
        same=pl.lit(1.0),
        account=pl.Series(["x", "y"] * 250),
        fold=pl.Series([0, 1, 2, 3, 4] * 100),
        seen_at=pl.lit(DAY),
    ).drop("split")
    given = {"holdout": "fold = 4", "label": "clicked"}
    found = proposed(told, given)
    assert found.offered["context"] == ["amount", "country"]
    assert dict(found.unused) == {
        "event_id": "each row has its own",
        "serial": "each row has its own",
        "session_id": "its name is a record's",
        "same": "one value",
        "account": "its name is a person's",
        "user_id": "its name is a person's",
        "seen_at": "neither numbers nor words",
    }
    text = toml(found)
    assert '# context = ["amount", "country"]  # keep those that' in text
    assert "# not used: event_id (each row has its own), user_id (its name is a person's)" in text
    assert not {"context", "unit"} & set(written(found))
    named = propose(found.seen, given | {"context": ["amount"], "unit": "country"})
    assert (written(named)["context"], written(named)["unit"]) == (["amount"], "country")
    assert dict(named.offered) == {}
    asked = propose(found.seen, {"holdout": "fold = 4"}, checkpoints="m-{day}.json")
    assert "context" not in asked.offered


def test_scores_outside_of_0_to_1_are_log_odds(proposed):
    odds = rows(p_today=pl.col("p_today") * 8 - 4, p_served=pl.col("p_served") * 8 - 4)
    found = proposed(odds)
    assert (found.settings["scale"], found.why["scale"]) == (
        "log_odds",
        "both columns hold numbers outside of 0 to 1",
    )
    assert (found.settings["target"], found.settings["proxy"]) == ("p_today", "p_served")
    assert found.why["target"] == "it holds log-odds, and its name says so"
    assert ScoreTables.model_validate(written(found)).scale
    mixed = proposed(rows(p_today=pl.col("p_today") * 8 - 4))
    assert "scale" not in mixed.settings
    assert mixed.missing["target"].endswith(": p_served")


def test_a_column_named_like_a_day_is_one_only_if_its_values_are_days(tmp_path):
    month = pl.Series([1, 31] * 250)
    table = tmp_path / "one.parquet"
    rows(day=month).write_parquet(table)
    found = propose(look(str(table)), {})
    assert found.missing["day"] == (
        "which column or folder says the day: no column looks like it (day: its values are no "
        "days); add a column of dates like 2026-03-02, or move the files to a folder ds=2026-03-02"
    )
    noon = dt.datetime.combine(DAY, dt.time(12))
    for date in (DAY, str(DAY), int(f"{DAY:%Y%m%d}"), noon):
        rows(day=month, date=pl.lit(date)).write_parquet(table)
        found = propose(look(str(table)), {})
        assert (found.settings["day"], found.newest, found.missing) == ("date", DAY, {})
