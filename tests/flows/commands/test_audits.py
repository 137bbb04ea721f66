"""Refusals of `run`, `night` and `backfill` before anything starts, and what they print."""

import pytest

from flows.commands.audits import _print_committed
from flows.settings import load_settings
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import night, put_rows
from workers.warehouse.store import Warehouse

USAGE = 64
ASKED = {
    "run": ["run", "--day", str(DAY)],
    "night": ["night", "--day", str(DAY)],
    "backfill": ["backfill", "--first", str(DAY), "--last", str(DAY)],
    "dry": ["backfill", "--first", str(DAY), "--last", str(DAY), "--dry-run"],
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("delays-privte", ", did you mean 'delays-private'?"),
        ("zzz", ": it lists delays-private, delays-plain."),
    ],
)
def test_a_mistyped_model_is_wrong_usage_and_leaves_nothing(here, privaudit, asked, model, words):
    write_settings(here, ["delays-private", "delays-plain"])
    answer = privaudit(*ASKED[asked], "--model", model)
    assert (answer.code, answer.out) == (USAGE, "")
    assert answer.err == f"privaudit: The model '{model}' is not in privaudit.toml{words}\n"
    assert [path.name for path in here.iterdir()] == ["privaudit.toml"]


@pytest.mark.parametrize("place", ["warehouse", "/proc/warehouse"])
def test_a_warehouse_that_cannot_be_written_is_found_before_the_audit(here, privaudit, place):
    settings = here / "privaudit.toml"
    settings.write_text(settings.read_text().replace('"warehouse"', f'"{place}"'))
    (here / "warehouse").write_text("Not a folder.")
    whys = {
        "warehouse": f"The warehouse {here / 'warehouse'} is a file: name a folder for it in the "
        "settings.\n",
        "/proc/warehouse": "The warehouse /proc/warehouse cannot be written, read",
    }
    for asked in ("night", "run"):
        more = ["--model", "good"] if asked == "run" else []
        answer = privaudit(*ASKED[asked], *more)
        assert (answer.code, answer.out, answer.err.count("\n")) == (3, "", 1)
        assert answer.err.startswith(f"privaudit: {whys[place]}")


def test_a_run_under_another_plan_is_not_taken_for_the_nights(tmp_path, capsys):
    """`run --seed` of a violated day printed another verdict, with exit code 0."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    counts, asked = night(0, verdict="violated"), night(0, hour=1, exploratory=True)
    put_rows(warehouse, [counts, asked])
    assert _print_committed([asked.audit], settings, as_json=False, strict=False, one=True) == 1
    said = capsys.readouterr().out
    assert f"another audit counts, and not this one: {counts.audit.audit_id[:8]}." in said


def test_several_audits_say_once_why_there_is_no_figure(tmp_path, capsys):
    """`backfill` named the fault of a first day, which has no earlier model, by its code alone."""
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    fault = {"verdict": "failed", "epsilon_lower": None, "reason_code": "proxy_unusable"}
    made = [
        night(at, detail=detail, reason=f"Nothing of day {at}.", **fault)
        for at, detail in enumerate(("missing_proxy", "missing_proxy", "proxy_is_target"))
    ]
    made.append(night(3, reason="All is well."))
    put_rows(Warehouse(str(tmp_path / "warehouse")), made)
    rows = [one.audit for one in made]
    assert _print_committed(rows, settings, as_json=False, strict=False, one=False) == 3
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Nothing")]
    assert said == ["Nothing of day 0.", "Nothing of day 2."]
