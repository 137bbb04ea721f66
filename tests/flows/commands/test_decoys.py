"""`privaudit decoys`: from a day's labels to a manifest that commits to the coins."""

import json
from functools import partial

import pytest

from tests.support.lake import DAY, EVE, declared, edit_manifest, label_rows, put_labels, put_model
from tests.support.verdicts import nothing_wrong
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan


@pytest.fixture
def lake(tmp_path, monkeypatch):
    (tmp_path / "privaudit.toml").write_text(
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n[[models]]\nname = "good"\n'
    )
    monkeypatch.chdir(tmp_path)
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(600, seed=seed))
    put_model(lake, EVE, privacy=declared())
    return lake


@pytest.fixture
def decoys(privaudit):
    return partial(privaudit, "decoys", "--model", "good")


def test_what_is_printed_makes_the_manifest_that_is_audited(lake, decoys):
    code, told, _ = decoys("--day", str(DAY), "--share", "0.3")  # of 450 coins; 200 must be left
    assert code == 0
    assert "are in the dataset flights-decoys" in told
    (dataset, decoy) = (line for line in told.splitlines() if line.startswith("  "))
    fields = json.loads("{" + dataset + decoy + "}")
    put_model(lake, DAY, dataset=fields["dataset"], privacy=declared())
    edit_manifest(lake, "good", DAY, **fields)
    row = run_audit(lake, "good", DAY, plan=Plan(repetitions=4), executor=InProcess()).audit
    assert row.method == "decoys"
    assert row.decoy_commitment == fields["decoys"]["commitment"]
    assert nothing_wrong(row)


@pytest.mark.usefixtures("lake")
def test_a_second_commitment_and_a_missing_proxy_are_one_sentence(decoys):
    assert decoys("--day", str(DAY), "--into", "mine").code == 0
    again = decoys("--day", str(DAY), "--into", "mine")
    assert again.code == 3
    assert "name another dataset" in again.err
    missing = decoys("--day", str(EVE))
    assert missing.code == 3
    assert "no checkpoint of good in the 7 days before" in missing.words
