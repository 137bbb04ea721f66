"""`privaudit ingest criteo` and `privaudit train`, and the audit of what they left."""

import contextlib
import gzip
import json

import pytest

import flows.learn.try_mechanism
from workers.executors import InProcess

_PRIOR = ("--mechanism", "lp-1st-domain-prior", "--epsilon", "2", "--prior")
FEW = ("--iterations", "10", "--depth", "3")


@pytest.fixture
def privaudit(tmp_path, monkeypatch, privaudit):
    """Return the command line in a folder with settings, as a function to (code, printed)."""
    settings = (
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n[[models]]\nname = "trial"\n'
    )
    (tmp_path / "privaudit.toml").write_text(settings + "[plan]\nrepetitions = 4\n")
    monkeypatch.chdir(tmp_path)
    nobody = lambda *_: contextlib.nullcontext(InProcess())  # noqa: E731
    monkeypatch.setattr(flows.learn.try_mechanism, "on_ray", nobody)

    def call(line, *more):
        answer = privaudit(*line.split(), *more)
        return answer.code, answer.words

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
    assert "inconclusive" in out or "not_refuted" in out
    code, out = privaudit(
        *train("other", "2026-01-02", "--mechanism", "pate-gaussian", "--epsilon", "2"),
        "--teachers", "5", "--queries", "20",
    )  # fmt: skip
    assert code == 0
    assert "declares epsilon 2 at delta 1e-05 by pate_gaussian" in out
    code, out = privaudit(*train("plain", "2026-01-02"))
    assert (code, "declares nothing" in out) == (0, True)


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_a_prior_from_outside_is_declared_and_audited(privaudit, tmp_path):
    """The declaration is what the audit accounts for; a prior that leaves one label is reported."""
    assert privaudit("ingest criteo --synthetic 2 --rows 1500")[0] == 0
    asked = ("--mechanism", "lp-1st-domain-prior", "--epsilon", "5", "--prior", "0.97,0.03")
    for day in ("2026-01-01", "2026-01-02"):
        code, out = privaudit(*train("trial", day, *asked))
        assert code == 0
        assert "declares epsilon 5 by randomized_response_with_prior" in out
        assert "The prior came from outside (0 0.97, 1 0.03) and cost nothing" in out
        assert "the same private label" not in out
    manifest = json.loads((tmp_path / "lake/models/trial/day=2026-01-02/manifest.json").read_text())
    assert manifest["privacy"]["mechanism"] == {
        "name": "randomized_response_with_prior",
        "parameters": {"epsilon": 5.0, "prior_from_outside": [0.97, 0.03]},
    }
    assert privaudit("run --model trial --day 2026-01-02")[0] == 0
    (audit,) = json.loads(privaudit("show --json")[1])
    assert audit["verdict"] in {"inconclusive", "not_refuted"}
    assert audit["epsilon_accounted"] == pytest.approx(5.0)
    code, out = privaudit(*train("blunt", "2026-01-02", *asked, "--epsilon", "2"))
    assert code == 0
    assert "At epsilon 2 this prior gives every record the same private label" in out


def test_malformed_rows_of_the_logs_are_counted_told_and_refused_above_1_percent(
    privaudit, tmp_path
):
    whole = ["0", *map(str, range(13)), *(f"{place:08x}" for place in range(26))]
    cut = whole[:20]

    def published(name, malformed):
        rows = [whole] * (200 - malformed) + [cut] * malformed
        text = "".join("\t".join(row) + "\n" for row in rows)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))

    published("day_0.gz", 2)
    published("day_1.gz", 3)
    code, out = privaudit("ingest criteo --input day_0.gz --sampled 1")
    assert code == 0
    assert "criteo 2026-01-01: 198 rows" in out
    assert "2 malformed left out" in out
    code, out = privaudit("ingest criteo --input day_1.gz --start 2026-02-01 --sampled 1")
    assert code == 3
    assert "3 of its first 200 rows are malformed" in out
    assert not list((tmp_path / "lake/labels/criteo").glob("day=2026-02-01/_SUCCESS"))


def test_what_cannot_be_is_one_sentence(privaudit):
    assert privaudit("ingest criteo --synthetic 1 --rows 300")[0] == 0
    day = "2026-01-01"
    for line, expected in (
        (train("x", day, "--epsilon", "2"), "no mechanism that could keep it"),
        (train("x", day, "--mechanism", "lp-2st", "--epsilon", "0"), "epsilon is 0"),
        (train("x", day, "--mechanism", "lp-2st", "--epsilon", "-1"), "epsilon is -1"),
        (train("x", day, "--mechanism", "lp", "--epsilon", "1"), "mechanism is 'lp'"),
        (train("x", day, "--mechanism", "pate-laplace", "--epsilon", "1"), "parts is 100, but"),
        (train("x", day, *_PRIOR, "0.9,0.2"), "prior is 1.1"),
        (train("x", day, *_PRIOR, "1.5,-0.5"), "prior is -0.5, but a probability is at least 0"),
        (train("x", day, *_PRIOR, "0.5,0.3,0.2"), "click has 2 classes, in this order: 0, 1"),
        (
            train("x", day, "--mechanism", "alibi", "--epsilon", "1", "--prior", "0.9,0.1"),
            "alibi takes none: only lp-1st-domain-prior does",
        ),
        (train("x", day, "--prior", "0.9,0.1"), "name lp-1st-domain-prior with --mechanism"),
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
    code, out = privaudit(*train("x", day, *_PRIOR, "0.9;0.1"))
    assert code == 64
    assert "'0.9;0.1' is not a list of numbers" in out
    assert privaudit("ingest criteo")[0] == 64
    assert privaudit("ingest criteo --synthetic 1 --input x.gz")[0] == 64
