"""A night of eight models, the eighth with a hostile input, and what must be true afterwards."""

import pathlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from flows.next_steps import exit_code
from flows.run.conclusion import AuditsFailedError
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    clone_model,
    declared,
    edit_manifest,
    label_rows,
    put_model,
)
from workers.labels.shards import write_labels
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

EIGHTH = "eighth"
OWN_LABEL = LabelColumn(column="late_too", classes=(0, 1))
OWN_FEATURES = (
    *FEATURES,
    Feature(name="extra_number", kind="numeric"),
    Feature(name="extra_word", kind="categorical"),
)
OTHERS = "others"
GOOD = tuple(f"good-{number}" for number in range(1, 8))
ROWS = 300
_NOT_COMPARED = ("record_digest", "audit_id", "labels_digest")
"""A column of the eighth model's changes the bytes of the footer that all share."""


def make_template(folder: pathlib.Path) -> Lake:
    """Write a lake in which nothing is wrong.

    The eighth model shares the labels `flights` with four others and has columns of its own among
    them; three more models share `OTHERS`.
    """
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(ROWS, seed=seed)
        own = label_rows(ROWS, seed=10 + seed)
        rows = rows.with_columns(
            late_too=own["late"], extra_number=own["delay"], extra_word=own["city"],
            group=own["city"], person=pl.int_range(pl.len()).cast(pl.String),
        )  # fmt: skip
        write_labels(lake, "flights", day, rows.to_arrow(), row_group_size=128)
        put_model(lake, day, privacy=declared())
        put_model(
            lake, day, model=EIGHTH, label=OWN_LABEL, features=OWN_FEATURES, privacy=declared()
        )
    labels = pathlib.Path(lake.uri) / "labels"
    shutil.copytree(labels / "flights", labels / OTHERS)
    for model in GOOD:
        clone_model(lake, model)
        shutil.rmtree(labels / f"{model}-labels")
        for day in (EVE, DAY):
            edit_manifest(lake, model, day, dataset="flights" if model in GOOD[:4] else OTHERS)
    return lake


@dataclass(frozen=True)
class Hostile:
    """One hostile input of the eighth model.

    Attributes:
        apply: damages the lake, and returns what the eighth model's settings say besides.
        harmless: whether the audit may come to figures all the same.
    """

    name: str
    apply: Callable[[Lake], str | None]
    harmless: bool = False


@dataclass(frozen=True)
class Night:
    """How a night ended."""

    rows: list[AuditRow]
    audits: pl.DataFrame
    alerts: list[dict[str, Any]]
    report: pathlib.Path

    @property
    def eighth(self) -> dict[str, Any]:
        """The eighth model's record."""
        (found,) = self.audits.filter(pl.col("model") == EIGHTH).to_dicts()
        return found

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the seven others' records, less when they were made."""
        rows = self.audits.filter(pl.col("model") != EIGHTH).drop("recorded_at", *_NOT_COMPARED)
        return {row["model"]: row for row in rows.to_dicts()}


def play(template: Lake, folder: pathlib.Path, hostile: Hostile | None, heard: list[Any]) -> Night:
    """Run a night on a copy of the template, with one hostile input or without any.

    `heard` is where the test has put the alerts of this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(template.uri, folder / "lake", symlinks=True)
    lake = Lake(str(folder / "lake"))
    more = (hostile.apply(lake) if hostile else None) or ""
    named = "".join(f'[[models]]\nname = "{model}"\n' for model in GOOD)
    (folder / "privaudit.toml").write_text(
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n'
        f'{named}[[models]]\nname = "{EIGHTH}"\n{more}\n[plan]\nrepetitions = 4\n'
        "minimum_slice_records = 10\n",
        encoding="utf-8",
    )
    heard.clear()
    try:
        rows = start(nightly_audit, day=DAY, settings=str(folder / "privaudit.toml"))
    except AuditsFailedError as error:
        rows = error.rows
    audits = Warehouse(str(folder / "warehouse")).scan("audits").collect()
    return Night(rows, audits, list(heard), folder / "report")


def check(night: Night, hostile: Hostile, expected: dict[str, dict[str, Any]]) -> None:
    """Check that seven records are right, and that the eighth says what was wrong."""
    assert night.figures() == expected
    check_eighth(night.eighth, hostile)
    if night.eighth["status"] != "evaluated":
        code = ReasonCode(night.eighth["reason_code"])
        told = [] if code.by_size else [EIGHTH]
        assert [alert["model"] for alert in night.alerts] == told
        worst = 3 if code.verdict is Verdict.FAILED else 2 * len(told)
        words = [(Verdict(row.verdict), row.reason_code) for row in night.rows]
        assert exit_code((word, one and ReasonCode(one)) for word, one in words) == worst
    assert [row.model for row in night.rows] == [*GOOD, EIGHTH]
    assert (night.report / "index.html").is_file()
    pages = {page.stem for page in (night.report / "models").glob("*.html")}
    assert pages >= {*GOOD, EIGHTH}


def check_eighth(row: dict[str, Any], hostile: Hostile) -> None:
    """Check that the eighth's record says why it has no figure, or that it may have one."""
    assert row["reason"]
    if row["status"] == "evaluated":
        assert hostile.harmless, "a hostile input came to a verdict"
    else:
        assert row["status"] == "not_evaluable", row["reason"]
        assert row["verdict"] in {"failed", "inconclusive"}
        assert row["detail"]
        assert row["epsilon_lower"] is None


def with_column(
    lake: Lake, column: str, values: Callable[[int], pa.Array], *, dataset: str = "flights"
) -> None:
    """Put other values in the place of a column of the audited day's labels, or add it."""
    path = pathlib.Path(lake.uri) / "labels" / dataset / f"day={DAY}" / "part-00000.parquet"
    table = pq.read_table(path)
    made = values(table.num_rows)
    if column in table.column_names:
        table = table.set_column(table.column_names.index(column), column, made)
    else:
        table = table.append_column(column, made)
    pq.write_table(table, path, row_group_size=128)


def own_labels(lake: Lake) -> None:
    """Give the eighth model labels of its own, so that what is wrong with them is its alone."""
    root = pathlib.Path(lake.uri) / "labels"
    for day in (EVE, DAY):
        edit_manifest(lake, EIGHTH, day, dataset="eighth-labels")
    shutil.copytree(root / "flights", root / "eighth-labels")
