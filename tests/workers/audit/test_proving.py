import logging

import pytest

import workers.audit.proving
from tests.support.audits import run_audits
from tests.support.lake import DAY, EVE, PLAN, clone_model, edit_manifest, figures, small_lake
from workers.audit.request import Request
from workers.audit.scanned_night import ScannedNight
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess, Total

MODELS = ("good", "second", "third")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    made = small_lake(tmp_path_factory.mktemp("lake"))
    for name in MODELS[1:]:
        clone_model(made, name)
        for day in (EVE, DAY):
            edit_manifest(made, name, day, dataset="flights")
    return made


def audited(lake, executor):
    return list(run_audits(lake, DAY, [Request(each, PLAN) for each in MODELS], executor=executor))


@pytest.mark.slow
def test_records_come_in_the_order_of_the_models_and_no_model_file_goes_to_who_proves(
    lake, monkeypatch
):
    together, seen = audited(lake, InProcess()), []

    def backwards(total, function, shared, items):
        for some in (tasks := list(reversed(list(items)))):
            seen.extend((number, inputs.source.model_bytes) for number, inputs in some)
        return (function(shared, total.get(), some) for some in tasks)

    monkeypatch.setattr(workers.audit.proving, "_TOGETHER", 1)
    monkeypatch.setattr(Total, "map", backwards)
    alone = audited(lake, InProcess())
    assert seen == [(2, 0), (1, 0), (0, 0)]
    assert [record.audit.model for record in alone] == list(MODELS)
    assert list(map(figures, alone)) == list(map(figures, together))


def test_an_error_in_proving_costs_one_record_and_stands_in_the_log_of_the_run(
    lake, monkeypatch, caplog
):
    read = ScannedNight.checked

    def breaks(night):
        if night.game.source.model == "second":
            raise ZeroDivisionError("Nobody thought of this.")
        if night.game.source.model == "third":
            raise NotEvaluableError(Reason.TOO_FEW_RECORDS, "There are too few.")
        return read(night)

    monkeypatch.setattr(ScannedNight, "checked", breaks)
    with caplog.at_level(logging.ERROR, "workers.audit.run"):
        found = {record.audit.model: record.audit for record in audited(lake, InProcess())}
    assert [found[name].status for name in MODELS] == ["evaluated", "error", "not_evaluable"]
    (told,) = caplog.messages
    assert told.startswith(f"The audit of second for {DAY} failed.\nTraceback")
    assert told.endswith("ZeroDivisionError: Nobody thought of this.")
    assert "Nobody" not in (found["second"].reason or "")
