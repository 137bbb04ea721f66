"""Modes of trust, played by an owner who wants a better verdict and may write what is theirs."""

import datetime as dt
import json
import pathlib
import re
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pytest

from flows.commands.checks import CheckResult, checks
from flows.run.audit_requests import batches
from flows.run.night_plan import Job, plan_night
from flows.settings import Settings, load_settings
from privcore.attacks import generator
from privcore.lower_bounds.released_labels import Declared
from privcore.lower_bounds.verdicts import Trust
from privcore.mechanisms import RandomizedResponse
from tests.support.frameworks import train_xgboost
from tests.support.lake import DAY, EVE, label_rows
from tests.support.mlflow_stub import Registry, mlflow_stub
from tests.support.papers import ROOT
from workers.audit.label_check import AskedLabels, judge_labels
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.nights_together import commit_nights
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

PAGE = (ROOT / "docs" / "how-to" / "independent-evidence.md").read_text(encoding="utf-8")
KEY = bytes(range(32))
SETTINGS = (
    'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n[plan]\nrepetitions = 4\n'
    + re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
)
BY_THE_OWNER = (
    SETTINGS.replace('trust = "independent"\n', "")
    .replace("models:/ads@{day}", "models/{day}.ubj")
    .replace('"platform"', '"owner"')
    .replace('holdout = "keyed(record, 0.2)"', 'split = "split"')
    .replace('holdout_key_file = "holdout.key"', "")
)
FLAVORS = "flavors:\n  xgboost: {data: model.ubj}\n"


def held(record: str) -> bool:
    """Return what the page's own lines say, under the key of these tests."""
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    read = 'bytes.fromhex(pathlib.Path("holdout.key").read_text())'
    exec(lines.replace(read, repr(KEY)), names)  # noqa: S102  # the page's own
    return bool(names["held_out"](record))


def rows_of(day: dt.date, seed: int) -> pl.DataFrame:
    """Return the platform's rows of a day; nothing in them tells the label."""
    record = pl.format("{}-{}", pl.lit(str(day)), pl.int_range(1200))
    return label_rows(1200, seed=seed).drop("split").with_columns(ds=pl.lit(day), record=record)


def trained(rows: pl.DataFrame, **more: float) -> bytes:
    return train_xgboost(
        rows, **{"max_depth": 10, "eta": 1.0, "min_child_weight": 0} | more
    ).content


ROWS = {EVE: rows_of(EVE, 1), DAY: rows_of(DAY, 2)}
# What training gets has no held-out record, and so none of their labels.
TRAINING = {
    day: rows.filter(~pl.col("record").map_elements(held, return_dtype=pl.Boolean))
    for day, rows in ROWS.items()
}
MODELS = {day: trained(rows) for day, rows in TRAINING.items()}


def at(day: dt.date, hour: int) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour), tzinfo=dt.UTC)


AFTER = {day: day + dt.timedelta(days=1) for day in (EVE, DAY)}


class World:
    """A platform, a registry, and an owner who trained by heart what was declared as private."""

    def __init__(self, home: pathlib.Path, registry: Registry) -> None:
        self.home, self.registry = home, registry
        (home / "holdout.key").write_text(KEY.hex())
        (home / "holdout.key").chmod(0o600)
        (home / "models").mkdir()
        for day, rows in ROWS.items():
            deltalake.write_deltalake(str(home / "platform"), rows, mode="append")
            arm = pl.when(pl.col("record").is_in(TRAINING[day]["record"].to_list()))
            self.write_own(rows.with_columns(split=arm.then(pl.lit("train")).otherwise(
                pl.lit("holdout"))), mode="append")  # fmt: skip
            (home / "models" / f"{day}.ubj").write_bytes(MODELS[day])
        # The evening before the eve's model is trained on the day before; nightly, at three.
        self.register(EVE, MODELS[EVE], at(EVE, 23))
        self.register(DAY, MODELS[DAY], at(AFTER[DAY], 3))

    def write_own(self, rows: pl.DataFrame, mode: str = "overwrite") -> None:
        deltalake.write_deltalake(str(self.home / "owner"), rows, mode=mode)

    def own(self) -> pl.DataFrame:
        return pl.DataFrame(deltalake.DeltaTable(str(self.home / "owner")).to_pyarrow_table())

    def register(self, day: dt.date, content: bytes, moment: dt.datetime) -> None:
        self.registry.register("ads", str(day), FLAVORS, content, at=moment)

    def settings(self, text: str) -> Settings:
        path = self.home / "privaudit.toml"
        path.write_text(text)
        return load_settings(path)

    def audit(self, text: str = SETTINGS) -> AuditRow:
        settings = self.settings(text)
        planned = tuple(plan_night(Lake(settings.lake), [Job("ads", DAY)], settings))
        ((record,),) = batches(planned, settings, InProcess(), "ads")
        commit_nights(Warehouse(settings.warehouse), [record])
        return record.audit


@pytest.fixture
def world(tmp_path, monkeypatch):
    with mlflow_stub() as registry:
        monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
        monkeypatch.delenv("PRIVAUDIT_HOLDOUT_KEY", raising=False)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        yield World(tmp_path, registry)


def blur(world: World) -> None:
    """Exchange, after training, the features that the audit is to score."""
    other = label_rows(2400, seed=9)
    world.write_own(world.own().with_columns(delay=other["delay"], hour=other["hour"]))


def choose_rows(world: World) -> None:
    """Mark as trained on what training never saw, and leave out what it did."""
    fresh = rows_of(DAY, 7).with_columns(split=pl.lit("train"))
    world.write_own(pl.concat([world.own().filter(split="holdout"), fresh]))


def choose_holdout(world: World) -> None:
    """Take the holdout from the rows that training saw."""
    arm = (
        pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("holdout")).otherwise(pl.lit("train"))
    )
    world.write_own(world.own().filter(split="train").with_columns(split=arm))


def late_labels(world: World) -> None:
    """Replace the labels that training read by others."""
    world.write_own(world.own().with_columns(late=pl.col("late").shuffle(seed=1)))


def swap_earlier_model(world: World) -> None:
    """Put a model that knows the day's labels in the earlier one's place."""
    both = pl.concat([TRAINING[EVE], TRAINING[DAY]])
    (world.home / "models" / f"{EVE}.ubj").write_bytes(trained(both))


@pytest.mark.slow
def test_what_the_owner_writes_decides_under_self_and_nothing_under_independent(world):
    assert world.audit(BY_THE_OWNER).verdict == "violated"
    before = world.audit()
    assert (before.verdict, before.trust) == ("violated", Trust.INDEPENDENT)
    own = world.own()
    told = ("audit_id", "epsilon_lower", "records", "control_records", "verdict", "labels_digest")
    for pull in (blur, choose_rows, choose_holdout, late_labels, swap_earlier_model):
        pull(world)
        fooled, after = world.audit(BY_THE_OWNER), world.audit()
        assert fooled.trust is Trust.SELF
        assert fooled.verdict != "violated", pull
        assert [getattr(after, name) for name in told] == [getattr(before, name) for name in told]
        world.write_own(own)
        (world.home / "models" / f"{EVE}.ubj").write_bytes(MODELS[EVE])


@pytest.mark.slow
def test_an_earlier_model_that_was_registered_since_is_passed_over(world):
    """The owner puts a model that knows the day's labels in the earlier one's place."""
    both = pl.concat([TRAINING[EVE], TRAINING[DAY]])
    world.register(EVE, trained(both), at(AFTER[DAY], 4))
    row = world.audit()
    assert (row.verdict, row.reason_code, row.trust) == ("failed", "proxy_unusable", "independent")
    assert f"and was registered before {DAY} began" in row.reason
    older = EVE - dt.timedelta(days=1)
    world.register(older, trained(rows_of(older, 5)), at(EVE, 3))
    row = world.audit()
    assert (row.verdict, row.proxy_day) == ("violated", older)


@pytest.mark.slow
def test_a_version_whose_file_lies_where_the_owner_writes_is_refused(world):
    """Behind an old version's time a file in the lake could be exchanged at any time since."""
    place = world.home / "lake" / "ours"
    place.mkdir(parents=True)
    (place / "model.ubj").write_bytes(MODELS[EVE])
    (place / "MLmodel").write_text(FLAVORS)
    registered = {"at": at(EVE, 23), "place": str(place)}
    world.registry.register("ads", str(EVE), FLAVORS, MODELS[EVE], **registered)
    row = world.audit()
    assert (row.verdict, row.trust) == ("failed", "independent")
    assert "which is below no place that the settings allow" in row.reason
    by_themselves = SETTINGS.replace('trust = "independent"\n', "")
    assert world.audit(by_themselves).verdict == "violated"


@pytest.mark.slow
def test_a_target_that_was_registered_before_its_day_ended_is_refused(world):
    """The owner names the eve's model, which never saw the day's labels, as the day's."""
    world.register(DAY, trained(TRAINING[EVE], max_depth=9), at(DAY, 3))
    row = world.audit()
    assert row.verdict == "failed"
    assert "and has to be registered after 2026-03-02 ended" in row.reason


@pytest.mark.slow
def test_check_looks_at_the_pages_settings_and_says_what_is_wrong_with_the_key(world):
    world.settings(SETTINGS)
    path = world.home / "privaudit.toml"

    def told() -> CheckResult:
        return next(each for each in checks(path) if each.what == "model ads")

    assert told().ok, told().sentence
    (world.home / "holdout.key").write_text("ab")
    assert not told().ok
    assert "holdout.key holds no key" in told().sentence
    (world.home / "holdout.key").unlink()
    assert "cannot be read (No such file or directory)" in told().sentence


@pytest.mark.slow
def test_the_key_is_in_no_record_and_another_key_repeats_no_audit(world, monkeypatch):
    row = world.audit()
    settings = world.settings(SETTINGS)
    warehouse = Warehouse(settings.warehouse)
    record = warehouse.record(row.audit_id)
    kept = record.model_dump_json()
    assert KEY.hex() not in kept
    assert json.loads(str(row.source))["labels"]["holdout_key_file"].endswith("holdout.key")
    lake, key = Lake(settings.lake), warehouse.digest_key()
    assert verify(record, lake, InProcess(), key).finding is Finding.REPRODUCED
    monkeypatch.setenv("PRIVAUDIT_HOLDOUT_KEY", "ab" * 32)
    assert verify(record, lake, InProcess(), key).finding is Finding.INPUTS_CHANGED
    monkeypatch.delenv("PRIVAUDIT_HOLDOUT_KEY")
    (world.home / "holdout.key").chmod(0o644)
    row = world.audit()
    assert "has mode 644, so others may read the key" in row.reason
    assert (row.status, row.trust) == ("error", "independent")


def test_a_model_that_is_built_to_leak_tells_no_more_than_the_platform_released():
    """An owner trains by heart, and an accomplice reads the model's answers for true labels."""
    rows = label_rows(4_000, seed=3)
    released = RandomizedResponse(1.0, 2).sample(rows["late"].to_numpy(), generator(61))
    found = {}
    for mode, given in (("controlled", released), ("self", rows["late"].to_numpy())):
        read = rows.with_columns(late=pl.Series(given))
        model = train_xgboost(read, max_depth=40, max_bin=4_096, eta=1.0, min_child_weight=0)
        guess = (model.says(rows)[:, 1] > 0.5).astype(np.int64)
        assert (guess == given).mean() > 0.95
        table = pl.DataFrame({"true": rows["late"], "guess": guess}).with_row_index("record")
        question = AskedLabels("true", "guess", Declared(1.0), record="record")
        found[mode] = str(judge_labels(table, question).verdict)
    assert found == {"controlled": "not_refuted", "self": "violated"}
