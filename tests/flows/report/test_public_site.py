"""Pages made of statements alone."""

import datetime as dt
import pathlib
from typing import Any

import pytest

from flows.report.public_site import write_public_report
from flows.report.site import write_report
from tests.support.lake import DAY
from workers.publication.publish import statement_of
from workers.publication.statement_row import Statement
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.store import Warehouse

GIVEN: dict[str, Any] = {
    "audit_id": "a" * 32, "method_version": "9", "code_version": "0.1.0", "seed": 0,
    "target_sha256": "b" * 64, "proxy_sha256": "c" * 64, "labels_digest": "d" * 64,
    "model": "ads", "day": DAY, "dataset": "clicks", "label_days": (DAY,), "labels_recur": False,
    "holdout_sketch": None,
    "family": "pure_dp", "epsilon_declared": 1.0, "delta_declared": 0.0, "neighbors": "replace",
    "unit": "record", "by_policy": False, "vacuous": False, "epsilon_accounted": 1.0,
    "significance": 0.04, "records": 15_000, "control_records": 5_000, "epsilon_ceiling": 4.5,
    "epsilon_detectable": 1.2,
    "epsilon_public": 0.1, "evidence_gap": 0.04, "evidence_price": 0.0, "evidence_figure": 40_000,
    "premises_gap": 0.04, "premises_figure": -5_000,
}  # fmt: skip


def made(revision: int = 1, **changes: Any) -> Statement:
    return statement_of(ExactStatementRow(**GIVEN | changes), revision, bytes(range(32)))


def pages(folder: pathlib.Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}


def test_the_latest_statement_of_each_model_is_listed_worst_first(tmp_path: pathlib.Path) -> None:
    eve = DAY - dt.timedelta(days=1)
    statements = [
        made(model="calm", evidence_figure=0),
        made(model="late", day=eve),
        made(day=eve, evidence_figure=0),
        made(),
        made(model="odd", premises_figure=90_000),
    ]
    assert write_public_report(statements, tmp_path) == tmp_path / "index.html"
    found = pages(tmp_path)
    assert sorted(found) == ["index.html", *(f"models/{m}.html" for m in
                                             ("ads", "calm", "late", "odd"))]  # fmt: skip
    index = found["index.html"]
    assert "The declarations of 1 of 3 models are refuted." in index
    places = [index.index(f"models/{model}.html") for model in ("ads", "odd", "calm", "late")]
    assert places == sorted(places)
    assert found["models/ads.html"].count("<section") == 3
    assert "<h1>ads: violated</h1>" in found["models/ads.html"]
    assert "doubtful" in found["models/odd.html"]


@pytest.mark.parametrize(
    "change", [{"revision": 2}, {"epsilon_declared": 1.0000001}, {"target_sha256": "e" * 64}]
)
def test_asking_again_does_not_replace_what_was_published(
    tmp_path: pathlib.Path, change: dict[str, Any]
) -> None:
    """A later statement replaced a violated one: of another revision, claim, or model file."""
    first, second = made(), made(**change, evidence_figure=0)
    assert (first.verdict, second.verdict) == ("violated", "not_refuted")
    write_public_report([first, second], tmp_path)
    found = pages(tmp_path)
    page = found["models/ads.html"]
    assert page.index(first.statement_id) < page.index(second.statement_id)
    assert page.count("They do not count") == 1
    assert "<h1>ads: violated</h1>" in page
    assert "The declarations of 1 of 1 model are refuted." in found["index.html"]


def test_nights_that_refute_together_are_said(tmp_path: pathlib.Path) -> None:
    nights = [
        made(day=DAY - dt.timedelta(days=number), evidence_figure=0).model_copy(
            update={"log_evalue": 3.0}
        )
        for number in range(4)
    ]
    write_public_report([*nights, made(model="zoo", premises_figure=90_000)], tmp_path)
    found = pages(tmp_path)
    said = "All nights together refute that every declaration was true"
    assert found["models/ads.html"].count(said) == 4  # the lead, and three nights from the second
    assert (
        "The nights of the last 7 days refute it together, by themselves."
        in found["models/ads.html"]
    )
    index = found["index.html"]
    assert "The declarations of 1 of 2 models are refuted." in index
    assert index.index("models/ads.html") < index.index("models/zoo.html")
    write_public_report(nights[:1], tmp_path)
    assert said not in pages(tmp_path)["models/ads.html"]


def test_a_public_report_takes_exact_pages_away(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "report"
    write_report(Warehouse(str(tmp_path / "warehouse")), folder)
    assert (folder / "statistics.html").exists()
    assert folder.stat().st_mode & 0o777 == 0o700
    write_public_report([made()], folder)
    assert sorted(pages(folder)) == ["index.html", "models/ads.html"]


def test_nothing_published_is_said(tmp_path: pathlib.Path) -> None:
    write_public_report([], tmp_path)
    assert "Nothing was published yet." in pages(tmp_path)["index.html"]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "../../etc", "a\x1b[31m"])
def test_a_hostile_name_stays_text(tmp_path: pathlib.Path, name: str) -> None:
    named = made().model_dump() | {"model": name, "unit": name, "dataset": name}
    hostile = Statement.model_validate(named)
    write_public_report([hostile], tmp_path / "report")
    for text in pages(tmp_path / "report").values():
        assert "<script" not in text
        assert "\x1b" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_an_acknowledgement_is_shown_with_its_end_alone_where_a_statement_refutes(
    tmp_path: pathlib.Path,
) -> None:
    """On another day it would tell that the exact record refutes the declaration."""
    until = dt.date(2026, 3, 20)
    statements = [made(), made(model="calm", evidence_figure=0)]
    acknowledged = {("ads", DAY): until, ("calm", DAY): until}
    write_public_report(statements, tmp_path, acknowledged=acknowledged)
    found = pages(tmp_path)
    assert "acknowledged this violation until" in found["models/ads.html"]
    assert "acknowledged" not in found["models/calm.html"]
