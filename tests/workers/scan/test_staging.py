"""What a driver that starts again finds of an audit, and takes: finished units under its tag."""

import datetime as dt
import hashlib
import io
import logging
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import workers.labels.parquet
import workers.lake.tagged
import workers.scan.staging
from tests.support.audits import run_audits
from tests.support.lake import (
    DAY,
    PLAN,
    figures,
    label_path,
    label_rows,
    put_labels,
)
from tests.support.tiers import rest_slow
from tests.support.two_models import REQUESTS, audited
from workers.audit.request import Request
from workers.executors import InProcess
from workers.labels.shards import Piece
from workers.lake.layout import Lake
from workers.scan.partial_results import Game, PartialResults
from workers.scan.staging import Staging
from workers.sources.checkpoints.checkpoint_source import find_checkpoints


@pytest.fixture
def lake(two_models: Lake) -> Lake:
    return two_models


@dataclass(frozen=True)
class Dies:
    """An executor whose driver is killed after some units."""

    after: int

    def fold(self, function: Any, shared: Any, items: Any, *, on_done: Any, deadline: Any) -> Any:
        def some() -> Iterator[Any]:
            for done, item in enumerate(items):
                if done == self.after:
                    raise KeyboardInterrupt
                yield item

        return InProcess().fold(function, shared, some(), on_done=on_done, deadline=deadline)


@pytest.mark.slow
def test_a_driver_that_starts_again_repeats_no_finished_unit(
    lake: Lake,
    expected: list[dict[str, Any]],
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    staging = str(tmp_path / "warehouse" / "_staging")
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=staging, executor=Dies(after=4))
    assert len(list(pathlib.Path(staging).rglob("*.tally"))) == 4

    caplog.clear()  # another test's flow may have let the log through from the start
    with caplog.at_level(logging.INFO, "workers.scan.label_pass"):
        again = audited(lake, staging=staging)

    assert [figures(record) for record in again] == expected
    told = [record for record in caplog.records if record.name == "workers.scan.label_pass"]
    reused = [record.privaudit["reused"] for record in told]
    assert reused == [True] * 4 + [False] * (len(reused) - 4)
    assert len(reused) == 10
    assert list(pathlib.Path(staging).rglob("*.tally")) == []


@pytest.mark.slow
def test_units_are_swept_only_after_the_record_was_committed(
    lake: Lake, tmp_path: pathlib.Path
) -> None:
    staging = tmp_path / "_staging"
    records = run_audits(
        lake, DAY, REQUESTS, executor=InProcess(), staging=str(staging), work_unit_bytes=1
    )
    next(records)
    next(records)
    assert len(list(staging.rglob("*.tally"))) == 10  # the caller may be committing the last
    assert list(records) == []
    assert list(staging.rglob("*.tally")) == []


def forged(content: bytes) -> bytes:
    """Return a unit's file as a writer of the warehouse makes it, who knows this code."""
    packed = content[32:]
    size = int.from_bytes(packed[:8], "little")
    plain = pa.decompress(packed[8:], decompressed_size=size, codec="zstd", asbytes=True)
    arrays = dict(np.load(io.BytesIO(plain)))
    arrays["0/correct"] = np.zeros_like(arrays["0/correct"])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    packed = len(buffer.getvalue()).to_bytes(8, "little") + pa.compress(
        buffer.getvalue(), codec="zstd", asbytes=True
    )
    return hashlib.sha256(packed).digest() + packed


@pytest.mark.slow
def test_another_drivers_units_are_played_again(
    lake: Lake,
    expected: list[dict[str, Any]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver elsewhere does not know the secret, and the secret lies nowhere in the warehouse."""
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=str(staging), executor=Dies(after=4))
    secret = workers.lake.tagged.driver_secret()
    assert all(secret not in path.read_bytes() for path in staging.rglob("*.tally"))
    assert secret.hex() not in repr(Staging(str(staging), "key"))
    assert len(secret) == 32
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    workers.lake.tagged.driver_secret.cache_clear()
    again = audited(lake, staging=str(staging))
    workers.lake.tagged.driver_secret.cache_clear()
    assert [figures(record) for record in again] == expected


@pytest.mark.slow
@pytest.mark.parametrize("damage", rest_slow(["forged", "moved", "cut off", "changed"], always=2))
def test_a_staged_unit_that_is_damaged_is_played_again(
    lake: Lake, expected: list[dict[str, Any]], tmp_path: pathlib.Path, damage: str
) -> None:
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=str(staging), executor=Dies(after=4))
    one = next(staging.rglob("*.tally")).read_bytes()
    for path in staging.rglob("*.tally"):
        content = path.read_bytes()
        damaged = {
            "forged": lambda content=content: forged(content),
            "moved": lambda: one,
            "cut off": lambda content=content: content[: len(content) // 2],
            "changed": lambda content=content: content[:-1] + bytes([content[-1] ^ 1]),
        }
        path.write_bytes(damaged[damage]())
    again = audited(lake, staging=str(staging))
    assert [figures(record) for record in again] == expected


@pytest.mark.slow
def test_labels_that_change_find_no_unit_of_before(lake: Lake, tmp_path: pathlib.Path) -> None:
    staging = str(tmp_path / "_staging")
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=staging, executor=Dies(after=4))
    label_path(lake, "flights").unlink()
    put_labels(lake, DAY, label_rows(500, seed=44))
    assert figures(audited(lake, REQUESTS[:1], staging=staging)[0]) == figures(
        audited(lake, REQUESTS[:1])[0]
    )


def test_what_is_abandoned_for_a_week_is_swept(tmp_path: pathlib.Path) -> None:
    kept = (("old", 8), ("fresh", 6), ("mine", 0), ("3.rows", 3), ("1.rows", 1))
    for key, days in kept:
        file = tmp_path / key / "unit.tally"
        file.parent.mkdir()
        file.touch()
        when = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).timestamp()
        os.utime(file, (when, when))
        os.utime(file.parent, (when, when))
    Staging(str(tmp_path), "mine").sweep()
    assert {path.name for path in tmp_path.iterdir()} == {"fresh", "1.rows"}


def test_a_folder_that_another_audit_has_just_made_is_not_swept(tmp_path: pathlib.Path) -> None:
    """It is empty until the first work unit is written: a sweep in between ended that audit."""
    (tmp_path / "another").mkdir()
    (tmp_path / "long ago").mkdir()
    os.utime(tmp_path / "long ago", (0, 0))
    Staging(str(tmp_path), "mine").sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_a_unit_is_kept_although_its_folder_was_swept_meanwhile(
    lake: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another driver of the same audit ends between the folder's making and the file's."""
    source = find_checkpoints(lake, "first", DAY, plan=PLAN)
    results = PartialResults.zero((Game(source, PLAN),))
    staging, unit = Staging(str(tmp_path), "mine"), (Piece("part"),)
    whole, times = workers.scan.staging.open_filesystem, iter([True, False])

    class Swept:
        def create_dir(self, path: str, *, recursive: bool) -> None:
            whole(staging.uri).create_dir(path, recursive=recursive)
            if next(times):
                Staging(staging.uri, staging.key).sweep()

        def __getattr__(self, name: str) -> Any:
            return getattr(whole(staging.uri), name)

    monkeypatch.setattr(workers.scan.staging, "open_filesystem", lambda _: Swept())
    staging.save(unit, results)
    assert staging.load(unit) == results


@pytest.mark.slow
def test_what_is_known_of_privacy_units_is_kept_nowhere(lake: Lake, tmp_path: pathlib.Path) -> None:
    path = label_path(lake, "flights")
    rows = pl.read_parquet(path).with_columns(person=pl.int_range(pl.len()) % 90)
    rows.write_parquet(path, row_group_size=100)
    plan = PLAN.model_copy(update={"privacy_unit": "person", "minimum_records": 1,
                                   "minimum_control_records": 1})  # fmt: skip
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, [Request("first", plan)], staging=str(staging), executor=Dies(after=4))
    assert list(tmp_path.rglob("*.tally")) == []
    (again,) = audited(lake, [Request("first", plan)], staging=str(staging))
    (expected,) = audited(lake, [Request("first", plan)])
    assert figures(again) == figures(expected)
