"""`privaudit ingest criteo` and `privaudit train`, and the audit of what they left."""

import contextlib
import json
import sys

import pytest

import flows.try_mechanism
from flows import cli
from workers.executors import InProcess

FEW = ("--iterations", "10", "--depth", "3")


@pytest.fixture
def privaudit(tmp_path, monkeypatch, capsys):
    """Return the command line in a folder with settings, as a function to (code, printed)."""
    settings = (
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n[[models]]\nname = "trial"\n'
    )
    (tmp_path / "privaudit.toml").write_text(settings + "[plan]\nrepetitions = 4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVAUDIT_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    nobody = lambda *_: contextlib.nullcontext(InProcess())  # noqa: E731
    monkeypatch.setattr(flows.try_mechanism, "on_ray", nobody)

    def call(line, *more):
        monkeypatch.setattr(sys, "argv", ["privaudit", *line.split(), *more])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), " ".join((captured.out + captured.err).split())

    return call


def train(model, day, *more):
    return (
        f"train --model {model} --day {day} --dataset criteo-synthetic --label click",
        *more,
        *FEW,
    )


@pytest.mark.usefixtures("in_process")
def test_from_clicks_to_a_verdict(privaudit, tmp_path):
    code, out = privaudit("ingest criteo --synthetic 2 --rows 1500")
    assert code == 0
    assert out.count("synthetic rows, made up in Criteo's shape") == 2
    for day in ("2026-01-01", "2026-01-02"):
        code, out = privaudit(*train("trial", day, "--mechanism", "lp-2st", "--epsilon", "2"))
        assert code == 0
        assert "declares epsilon 2 by randomized_response_with_prior" in out
    manifest = json.loads((tmp_path / "lake/models/trial/day=2026-01-02/manifest.json").read_text())
    assert manifest["privacy"]["mechanism"] == {
        "name": "randomized_response_with_prior",
        "parameters": {"epsilon": 2.0},
    }
    assert len(manifest["features"]) == 39
    code, out = privaudit("run --model trial --day 2026-01-02")
    assert code == 0
    assert "consistent" in out
    code, out = privaudit(
        *train("other", "2026-01-02", "--mechanism", "pate-gaussian", "--epsilon", "2"),
        "--teachers", "5", "--queries", "20",
    )  # fmt: skip
    assert code == 0
    assert "declares epsilon 2 at delta 1e-05 by pate_gaussian" in out
    assert "data-dependent: itself private, holds for these votes only, not to be declared" in out
    code, out = privaudit(*train("plain", "2026-01-02"))
    assert (code, "declares nothing" in out) == (0, True)


def test_what_cannot_be_is_one_sentence(privaudit):
    assert privaudit("ingest criteo --synthetic 1 --rows 300")[0] == 0
    day = "2026-01-01"
    for line, expected in (
        (train("x", day, "--epsilon", "2"), "no mechanism that could keep it"),
        (train("x", day, "--mechanism", "lp-2st", "--epsilon", "0"), "epsilon is 0"),
        (train("x", day, "--mechanism", "lp-2st", "--epsilon", "-1"), "epsilon is -1"),
        (train("x", day, "--mechanism", "lp", "--epsilon", "1"), "mechanism is 'lp'"),
        (train("x", day, "--mechanism", "pate-laplace", "--epsilon", "1"), "parts is 100, but"),
        (train("../x", day), "model name '../x' is refused"),
        (train("x", "2026-02-01"), "no complete labels of criteo-synthetic"),
        (train("x", day, "--label", "no"), "--label is 'no'"),
        (train("x", day, "--label", "count_1"), "--label is 'count_1'"),
        (("ingest criteo --input nowhere.gz",), "nowhere.gz"),
        (("ingest criteo --synthetic 1 --rows 300",), "the lake has it already"),
    ):  # fmt: skip
        code, out = privaudit(*line)
        assert code == 3
        assert expected in out
        assert "Traceback" not in out
    assert privaudit("ingest criteo")[0] == 64
    assert privaudit("ingest criteo --synthetic 1 --input x.gz")[0] == 64
