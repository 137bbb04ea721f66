"""`privaudit decoys`: from a day's labels to a manifest that commits to the coins."""

import json
import sys

import pytest

from flows import cli
from tests.support.lake import DAY, EVE, declared, edit_manifest, label_rows, put_labels, put_model
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
    monkeypatch.delenv("PRIVAUDIT_CONFIG", raising=False)
    lake = Lake(str(tmp_path / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(600, seed=seed))
    put_model(lake, EVE, privacy=declared())
    return lake


def decoys(monkeypatch, *line):
    monkeypatch.setattr(sys, "argv", ["privaudit", "decoys", "--model", "good", *line])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def test_what_is_printed_makes_the_manifest_that_is_audited(lake, monkeypatch, capsys):
    assert (
        decoys(monkeypatch, "--day", str(DAY), "--share", "0.3") == 0
    )  # of 450 coins; 200 must be left
    told = capsys.readouterr().out
    assert "are in the dataset flights-decoys" in told
    (dataset, decoy) = (line for line in told.splitlines() if line.startswith("  "))
    fields = json.loads("{" + dataset + decoy + "}")
    put_model(lake, DAY, dataset=fields["dataset"], privacy=declared())
    edit_manifest(lake, "good", DAY, **fields)
    row = run_audit(lake, "good", DAY, plan=Plan(repetitions=4), executor=InProcess()).audit
    assert row.method == "decoys"
    assert row.decoy_commitment == fields["decoys"]["commitment"]
    assert row.verdict == "consistent"


@pytest.mark.usefixtures("lake")
def test_a_second_commitment_and_a_missing_proxy_are_one_sentence(monkeypatch, capsys):
    assert decoys(monkeypatch, "--day", str(DAY), "--into", "mine") == 0
    capsys.readouterr()
    assert decoys(monkeypatch, "--day", str(DAY), "--into", "mine") == 3
    assert "may be committed to: name another dataset" in capsys.readouterr().err
    assert decoys(monkeypatch, "--day", str(EVE)) == 3
    assert "no checkpoint of good in the 7 days before" in " ".join(capsys.readouterr().err.split())
