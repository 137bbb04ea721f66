import json
import pathlib

import pytest
import typer

from flows.commands import checks
from flows.commands.options import parse_moment
from flows.failures import in_one_sentence
from tests.support.lake import DAY, EVE, model_path, write_settings
from tests.support.warehouse import evaluated, failed, put_rows
from workers.lake.layout import Lake
from workers.versions import CODE_VERSION, METHOD_VERSION
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("no_pages")


NOWHERE = ("--config", "nowhere.toml")


def run(privaudit, model="good", *more):
    return privaudit("run", "--model", model, "--day", str(DAY), *more)


def test_run_exits_with_3_on_an_unexpected_error_which_is_committed(
    folder, privaudit, instead_of_audits, caplog
):
    def breaks(*_, **__):
        raise ZeroDivisionError("Nobody thought of this.")

    instead_of_audits(breaks)
    answer = run(privaudit)
    assert answer.code == 3
    assert "The audit ended with ZeroDivisionError" in answer.out
    assert "Nobody thought of this." in caplog.text
    assert Warehouse(str(folder / "warehouse")).current()["status"].to_list() == ["error"]


@pytest.mark.parametrize("day", ["yesterday", "../2026-03-02", "day=2026-03-02", "2026-02-30", ""])
def test_a_day_that_is_none_is_refused(folder, privaudit, day):
    answer = privaudit("run", "--model", "good", "--day", day)
    assert answer.code != 0
    assert "YYYY-MM-DD" in answer.err
    assert "Traceback" not in answer.err
    assert not (folder / "warehouse").exists()


@pytest.mark.usefixtures("audited")
def test_json_is_a_list_of_objects_with_the_columns_of_audits(privaudit):
    (audit,) = json.loads(privaudit("show", "--json").out)
    derived = [
        "epsilon_lower_28_days", "epsilon_ceiling_28_days", "nights_averaged", "epsilon_standing",
        "refuted_together", "nights_together", "sees_from_together", "conclusive_on",
        "drill_refuted_after", "verdict_together", "reason_code_together", "declaration_change",
        "nights_remark", "claim_qvalue", "inputs_changed", "acknowledged_until", "acknowledged_by",
        "acknowledged_why", "next_who", "next_step",
    ]  # fmt: skip
    assert list(audit) == [*AuditRow.model_fields, *derived]
    assert (audit["model"], audit["day"], audit["verdict"]) == ("good", str(DAY), "inconclusive")
    assert audit["epsilon_declared"] == 0.5
    assert isinstance(audit["epsilon_lower"], float)
    assert isinstance(audit["epsilon_paper"], float)
    assert len(audit["audit_id"]) == 32


def test_json_of_a_failed_audit_has_nulls(folder, privaudit):
    write_settings(folder, ["nobody"])
    answer = run(privaudit, "nobody", "--json")
    assert answer.code == 3
    (audit,) = json.loads(answer.out)
    assert audit["epsilon_lower"] is None
    assert (audit["reason_code"], audit["detail"]) == ("model_missing", "missing_target")
    assert audit["reason"] in answer.err
    assert folder.exists()


@pytest.mark.slow
def test_show_prints_each_models_latest_audit_and_all_every_current_record(folder, privaudit):
    write_settings(folder, ["good", "other"])
    records = [evaluated(model, day) for model in ("good", "other") for day in (EVE, DAY)]
    records.append(evaluated("late", EVE))
    put_rows(Warehouse(str(folder / "warehouse")), [*records, failed("good", DAY, hour=9)])

    latest = json.loads(privaudit("show", "--json").out)
    assert [(row["model"], row["day"], row["status"]) for row in latest] == [
        ("good", str(DAY), "evaluated"),
        ("late", str(EVE), "evaluated"),
        ("other", str(DAY), "evaluated"),
    ]
    (counted,) = json.loads(privaudit("sql", "select count(*) as n from audits", "--json").out)
    assert counted["n"] == 6  # the rerun that failed is kept, and takes no verdict back
    every = json.loads(privaudit("show", "--all", "--json").out)
    nights = [("good", DAY), ("good", EVE), ("late", EVE), ("other", DAY), ("other", EVE)]
    assert [(row["model"], row["day"]) for row in every] == [
        (name, str(day)) for name, day in nights
    ]
    table = privaudit("show", "--all").out
    assert table.count(str(EVE)) == table.count(str(DAY)) + 1 == 3
    (one,) = json.loads(privaudit("show", "--model", "good", "--json").out)
    assert one == latest[0]
    alone = json.loads(privaudit("show", "--model", "good", "--all", "--json").out)
    assert alone == [row for row in every if row["model"] == "good"]
    unknown = privaudit("show", "--model", "goof")
    assert unknown.code == 3
    assert "no audit of model 'goof'" in unknown.err


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["sql", "select 1"], ["export", "--output", "x"], ["verify", "--stored"]],
)
def test_a_warehouse_that_is_not_there_is_a_sentence(folder, privaudit, arguments):
    answer = privaudit(*arguments)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("privaudit: ")
    assert (str(folder / "warehouse") in answer.err, answer.err.count("\n")) == (True, 1)


@pytest.mark.parametrize("query", ["select nothing from audits", "selec 1", ""])
def test_a_bad_query_is_one_sentence_and_exit_code_3(folder, privaudit, query):
    answer = privaudit("sql", query)
    assert answer.code == 3
    assert answer.err.startswith("privaudit: ")
    assert answer.err.count("\n") == 1
    assert folder.exists()


def test_report_writes_the_page(audited, privaudit):
    answer = privaudit("report")
    assert answer.code == 0
    page = pathlib.Path(answer.out.removeprefix("Report: ").strip())
    assert page.is_relative_to(audited / "report")
    assert "good" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", *NOWHERE], "nowhere.toml"),
        (["run", "--model", "m", "--day", "2026-03-02", *NOWHERE], "nowhere.toml"),
        (["demo", "--days", "0", "--folder", "demo"], "--days"),
        (["demo", "--start", "2013-01-01", "--folder", "demo"], "--start"),
        (["demo", "--start", "2014-01-01", "--folder", "demo"], "--start"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_error_made_on_purpose_is_one_sentence_and_exit_code_3(
    privaudit, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    answer = privaudit(*arguments)
    assert answer.code == 3
    assert answer.err.startswith("privaudit: ")
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["run"], ["show", "--bogus"], ["nonsense"], ["run", "--model", "m", "--day", "x"]]
)
def test_wrong_usage_has_an_exit_code_of_its_own(privaudit, arguments):
    answer = privaudit(*arguments)
    assert answer.code == 64
    assert answer.err.startswith("Usage: privaudit")
    assert answer.err.count("\n") == 2  # how it is used, and what is wrong


PANIC = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})


@pytest.mark.parametrize("kind", [ZeroDivisionError, PANIC])  # Rust's panics are errors, too
def test_an_unexpected_error_is_one_sentence_unless_debugged(privaudit, monkeypatch, folder, kind):
    def breaks(*_, **__):
        raise kind("Nobody thought of this.")

    monkeypatch.setattr(Warehouse, "check_exists", breaks)
    answer = privaudit("show")
    assert answer.code == 3
    assert answer.err == (
        f"privaudit: {kind.__name__}: Nobody thought of this. (privaudit --debug shows where).\n"
    )
    debugged = privaudit("--debug", "show")
    assert debugged.code == 3  # and never 1, which a traceback of Python's ends with
    assert debugged.err.startswith("Traceback (most recent call last):")
    assert folder.exists()


@pytest.mark.slow
def test_overdue_names_the_missing_until_run_commits_the_audit_that_it_prints(folder, privaudit):
    answer = privaudit("overdue", "--day", str(DAY))
    assert (answer.code, answer.out) == (1, f"good: no audit for {DAY}\n")
    answer = run(privaudit)
    assert answer.code == 0, answer.out + answer.err
    for word in ("proved", "declared", "verdict", str(DAY), "good", "inconclusive"):
        assert word in answer.out
    assert Warehouse(str(folder / "warehouse")).current()["model"].to_list() == ["good"]
    assert privaudit("overdue", "--day", str(DAY), "--json").out.strip() == "[]"


def test_check_says_line_by_line_what_is_wrong_and_how_to_mend_it(folder, privaudit):
    found = checks.checks(None)
    assert {result.what: result.ok for result in found} == {
        "settings": True, "sandbox": True, "lake": True, "warehouse": True, "report": True,
        "model good": True, "Ray": True, "Prefect": True, "webhook": True,
    }  # fmt: skip
    assert not list((folder / "warehouse").iterdir())

    (model_path(Lake(str(folder / "lake")), "good", EVE) / "_SUCCESS").unlink()
    (model,) = (one for one in checks.checks(None) if one.what == "model good")
    assert not model.ok
    assert "could be its earlier model (proxy)" in model.sentence

    file = folder / "privaudit.toml"
    file.write_text(
        file.read_text().replace('"lake"', '"nowhere"').replace('"report"', '"/proc/x"')
    )
    answer = privaudit("check", "--json")
    checked = {one["check"]: (one["ok"], one["sentence"]) for one in json.loads(answer.out)}
    assert answer.code == 1
    told = {name: checked[name][0] for name in ("lake", "report", "warehouse")}
    assert told == {"lake": False, "report": False, "warehouse": True}
    assert "Check the key lake" in checked["lake"][1]
    file.write_text(file.read_text() + "bogus = 1\nrepetitions = 0\n")
    assert privaudit("check").code == 1


def test_the_versions_of_code_and_method_are_told(privaudit):
    said = privaudit("--version")
    assert said.code == 0
    assert said.out == f"privaudit {CODE_VERSION}, method version {METHOD_VERSION}\n"


def test_help_lists_every_command_under_a_heading(privaudit):
    text = privaudit("--help").out
    for heading in ("Audit", "Look at results", "Set up and operate", "Understand"):
        assert f"─ {heading} ─" in text
    assert "─ Commands ─" not in text


def test_a_folder_that_is_missing_on_a_system_without_space_is_no_full_disk():
    error = FileNotFoundError(2, "No such file or directory", "/proc/none")
    assert in_one_sentence(error).startswith("FileNotFoundError: [Errno 2] No such file")


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_moment_that_is_none_in_utc_is_refused(text):
    with pytest.raises(typer.BadParameter, match="is not a time"):
        parse_moment(text)
