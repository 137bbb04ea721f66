"""Pages are drawn anew where something changed, and wherever a stranger had a hand in them."""

import json
import pathlib

import pytest

from flows.report import site
from flows.report.drawn import LIST, Drawn, read_drawn, write_drawn
from flows.report.site import write_pages
from tests.support.report import everything_beside, record, tables
from workers.secret_files import state_key
from workers.warehouse.schema import BoundRow

KEY = b"k" * 32


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose pages are drawn, instead of drawing them."""
    names: list[str] = []

    def page(history: site.History, *_: object) -> str:
        names.append(history.model)
        return f"{site.MARK}{history.model} {history.latest.reason}"

    monkeypatch.setattr(site, "_page", page)
    monkeypatch.setattr(site, "_small", lambda *_: site.Markup())
    return names


def write(
    folder: pathlib.Path, *, key: bytes | None = KEY, beside: bool = False, **ads: str
) -> None:
    nights = [record("ads", **ads), record("loans")]
    rows = [row for night in nights for row in everything_beside(night)]
    if beside:
        rows = [
            row.model_copy(update={"correct": 0.0}) if isinstance(row, BoundRow) else row
            for row in rows
        ]
    write_pages(tables(nights, rows), folder, key=key)


def test_a_page_is_drawn_again_where_its_rows_changed(
    tmp_path: pathlib.Path, drawn: list[str]
) -> None:
    write(tmp_path)
    write(tmp_path)
    assert drawn == ["ads", "loans"]
    write(tmp_path, reason="another reason")
    assert drawn[2:] == ["ads"]
    assert "another reason" in (tmp_path / "models" / "ads.html").read_text("utf-8")
    write(tmp_path, reason="another reason", beside=True)
    assert drawn[3:] == ["ads", "loans"]


def test_another_night_or_other_code_draws_all(
    tmp_path: pathlib.Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr("flows.report.drawn.code_digest", lambda: "other code")
    write(tmp_path)
    assert drawn[2:] == ["ads", "loans"]
    write_pages(tables([record("ads"), record("loans"), record("new", 1)]), tmp_path, key=KEY)
    assert drawn[4:] == ["ads", "loans", "new"]


def test_a_page_that_somebody_changed_or_took_away_is_drawn_again(
    tmp_path: pathlib.Path, drawn: list[str]
) -> None:
    write(tmp_path)
    (tmp_path / "models" / "ads.html").write_text("consistent, believe me", "utf-8")
    (tmp_path / "models" / "loans.html").unlink()
    write(tmp_path)
    assert drawn[2:] == ["ads", "loans"]


def test_a_forged_list_keeps_no_page_alive(tmp_path: pathlib.Path, drawn: list[str]) -> None:
    """A stranger writes a page and a list that vouches for it, without the key."""
    write(tmp_path)
    known = read_drawn(tmp_path, KEY)
    assert set(known) == {"ads.html", "loans.html"}
    page = tmp_path / "models" / "ads.html"
    page.write_text("consistent, believe me", "utf-8")
    forged = {"ads.html": Drawn(known["ads.html"].inputs, site.content_digest(page.read_bytes()))}
    write_drawn(tmp_path, forged, b"x" * 32)
    write(tmp_path)
    assert drawn[2:] == ["ads", "loans"]
    told = json.loads((tmp_path / LIST).read_text("utf-8"))
    told["pages"]["ads.html"][1] = site.content_digest(b"other")
    (tmp_path / LIST).write_text(json.dumps(told), "utf-8")
    assert read_drawn(tmp_path, KEY) == {}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pages": 1, "seal": ""}', "\udcff"])
def test_a_damaged_list_costs_time_alone(
    tmp_path: pathlib.Path, drawn: list[str], content: str
) -> None:
    write(tmp_path)
    (tmp_path / LIST).write_text(content, "utf-8", "surrogateescape")
    write(tmp_path)
    assert drawn[2:] == ["ads", "loans"]


def test_a_page_with_a_plot_that_failed_is_tried_again(
    tmp_path: pathlib.Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = f"<p>Scores: {site.UNDRAWN} (ValueError).</p>"
    with monkeypatch.context() as context:
        context.setattr(site, "_page", lambda *_: failed)
        write(tmp_path)
    write(tmp_path)
    assert drawn == ["ads", "loans"]


def test_without_a_key_no_list_is_kept(tmp_path: pathlib.Path, drawn: list[str]) -> None:
    write(tmp_path, key=None)
    write(tmp_path, key=None)
    assert drawn == ["ads", "loans"] * 2
    assert not (tmp_path / LIST).exists()


def test_the_key_is_made_once_and_is_its_owners_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = state_key("pages")
    path = tmp_path / "state" / "privaudit" / "pages.key"
    assert key == path.read_bytes() == state_key("pages")
    assert len(path.read_bytes()) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)  # others may have read it
    assert state_key("pages") is None
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("no folder", "utf-8")
    assert state_key("pages") is None
