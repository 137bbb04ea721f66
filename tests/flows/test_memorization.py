"""`privaudit memorization`: from a table to a list of its rows, with no text in any file."""

import csv

import numpy as np
import polars as pl
import pytest

from privcore.guarantees import DpSgd
from privcore.upper_bounds import curve_leakage
from tests.support.studies import check_files

PLANTED = "zoe keeps 739120586 under q"


@pytest.fixture
def folder(tmp_path, monkeypatch, in_process):  # noqa: ARG001
    random = np.random.default_rng(1)
    words = ["the", "code", "is", "here", "cat", "sat", "on", "mat"]
    texts = [" ".join(random.choice(words, 5)) for _ in range(180)] + [PLANTED] * 4
    splits = ["train", "holdout", "other"] * 60 + ["train"] * 4
    rows = pl.DataFrame({"text": texts, "split": splits})
    rows.write_parquet(tmp_path / "mails.parquet", row_group_size=50)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(privaudit, command, *options, table="mails.parquet"):
    return privaudit("memorization", command, "--table", table, *options)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Table 1", "Figure 4")
def test_a_planted_secret_is_listed_by_its_place(folder, privaudit):
    for split in ("train", "other"):
        options = ("--split", split, "--order", "5", "--output", f"{split}.json")
        assert run(privaudit, "fit", *options).code == 0
    models = ("--target", "train.json", "--reference", "other.json", "--output", "found")
    dpsgd = ("--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "4")
    told = run(privaudit, "audit", *models, *dpsgd, "--tries", "1e12")
    assert told.code == 0
    assert "64 training and 60 holdout sequences" in told.words
    assert "promised" in told.out
    rows = list(csv.DictReader((folder / "found" / "at_risk.csv").open()))
    assert [row["row"] for row in rows[:4]] == ["180", "181", "182", "183"]
    assert float(rows[0]["p_value"]) == pytest.approx(1 / 61)
    bits = float(rows[0]["reference_bits"])
    curve = DpSgd(2.0, 1.0, 4).renyi
    leaked = curve_leakage(bits, divergence=lambda order: float(curve(order)))
    assert float(rows[0]["promised_bits"]) == pytest.approx(bits - float(leaked))
    for file in (folder / "found").iterdir():
        assert "zoe" not in file.read_text(encoding="utf-8")
    assert {"at_risk.svg", "calibrated_loss.svg"} < check_files(folder / "found")
    losses = pl.read_csv(folder / "found" / "calibrated_loss.csv")
    assert dict(losses.group_by("arm").agg(pl.col("sequences").sum()).iter_rows()) == {
        "training": 64,
        "holdout": 60,
    }


def test_half_a_bound_and_no_data_are_refused(folder, privaudit):
    (folder / "m.json").write_text(
        '{"format": "privaudit-ngram-1", "order": 1, "counts": {"a": 1}}'
    )
    models = ("--target", "m.json", "--reference", "m.json", "--output", "o")
    assert run(privaudit, "audit", *models, "--steps", "3").code == 64
    refused = run(privaudit, "audit", *models, table="none.parquet")
    assert (refused.code, "holds no file" in refused.words) == (3, True)
    assert run(privaudit, "fit", "--split", "x", "--output", "y.json").code == 3
