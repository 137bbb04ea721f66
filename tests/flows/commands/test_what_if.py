"""`privaudit what-if`, as it is typed, and its sentence about rounds."""

import json
import pathlib

import pytest

from flows.study.runner import write_shown
from flows.study.what_if_shown import curve_points, rounds_sentence, shown
from tests.flows.conftest import Command
from tests.support.lake import DAY, EVE, label_rows, put_labels, put_model, write_settings
from workers.audit.what_if import Variant
from workers.lake.layout import Lake


def variant(rounds: int | None, bound: float | None, accuracy: float) -> Variant:
    return Variant("some", rounds, bound, accuracy, 0.5)


def test_the_sentence_names_where_the_leak_begins_and_accuracy_is_flat() -> None:
    found = [
        variant(100, 1.2, 0.800), variant(25, 0.0, 0.700), variant(50, 0.0, 0.796),
        variant(75, 0.4, 0.806), variant(None, 0.9, 0.1),
    ]  # fmt: skip
    assert rounds_sentence(found) == (
        "A leak is first proved at round 75; from round 50 on, accuracy stays within 0.5% of all "
        "100 rounds', or above."
    )
    quiet = [variant(100, 0.0, 0.8), variant(50, None, 0.8)]
    assert rounds_sentence(quiet).startswith("No leak is proved; from round 50 on")
    assert rounds_sentence([variant(None, 0.1, 0.8)]) == ""


def test_the_curves_are_drawn_with_their_advice_and_no_bound_is_no_zero(
    tmp_path: pathlib.Path,
) -> None:
    found = [variant(100, 1.2, 0.8), variant(50, None, 0.7), variant(None, 0.9, 0.1)]
    made = shown(found)
    drawn = [(one["x"], one["y"], one["series"]) for one in curve_points(found)]
    assert drawn == [
        (100, 1.2, "proved epsilon"),
        (50, 0.7, "accuracy on holdout rows"),
        (100, 0.8, "accuracy on holdout rows"),
    ]
    written = write_shown(made, tmp_path, title="Variants of ads on 2026-03-02")
    page = written.files[-1].read_text()
    assert "Advice and no guarantee" in page
    assert "A leak is first proved at round 100" in page
    assert "data:image/svg+xml" in page
    assert shown(found[2:]).figures == {}


@pytest.mark.slow
def test_variants_are_listed_and_named_no_guarantee(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, privaudit: Command
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(600, seed=seed))
        put_model(lake, day)
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    audit = privaudit("run", "--model", "good", "--day", str(DAY), "--json")
    audit_id = json.loads(audit.out)[0]["audit_id"]
    folder = str(tmp_path / "report" / "studies" / "one")
    told = privaudit("what-if", audit_id[:10], "--output", folder)
    assert told.code == 0, told.err
    head, first, *more = told.out.splitlines()
    assert head.split() == ["variant", "proved", "accuracy", "log_loss", "guarantee"]
    assert first.startswith("as audited")
    assert first.endswith("none")
    assert any(line.startswith("first 3 rounds") for line in more)
    assert any(line.startswith("the top class alone") for line in more)
    assert "Advice and no guarantee" in told.out
    assert (tmp_path / "report" / "studies" / "one" / "rounds.svg").exists()
