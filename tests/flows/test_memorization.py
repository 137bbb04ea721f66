"""`privaudit memorization`: from a lake to a list of places, with no text in any file."""

import csv
import datetime as dt
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from privcore.guarantees import DpSgd
from privcore.upper_bounds import curve_leakage
from workers.lake.layout import Lake, labels_folder

DAY = "2026-03-02"
PARTITION = labels_folder("mails", dt.date.fromisoformat(DAY))
PLANTED = "zoe keeps 739120586 under q"


@pytest.fixture
def lake(tmp_path, monkeypatch, in_process):  # noqa: ARG001
    random = np.random.default_rng(1)
    words = ["the", "code", "is", "here", "cat", "sat", "on", "mat"]
    texts = [" ".join(random.choice(words, 5)) for _ in range(180)] + [PLANTED] * 4
    splits = ["train", "holdout", "other"] * 60 + ["train"] * 4
    place = tmp_path / "lake" / PARTITION
    place.mkdir(parents=True)
    rows = pl.DataFrame({"text": texts, "split": splits})
    pq.write_table(rows.to_arrow(), place / "part.parquet", row_group_size=50)
    Lake(str(tmp_path / "lake")).complete(PARTITION)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(privaudit, command, *options, dataset="mails"):
    place = ("--lake", "lake", "--dataset", dataset, "--day", DAY)
    return privaudit("memorization", command, *place, *options)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Table 1", "Figure 4")
def test_a_planted_secret_is_listed_by_its_place(lake, privaudit):
    for split in ("train", "other"):
        options = ("--split", split, "--order", "5", "--output", f"{split}.json")
        assert run(privaudit, "fit", *options).code == 0
    models = ("--target", "train.json", "--reference", "other.json", "--output", "found")
    dpsgd = ("--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "4")
    told = run(privaudit, "audit", *models, *dpsgd, "--tries", "1e12")
    assert told.code == 0
    assert "64 training and 60 holdout sequences" in told.words
    assert "promised" in told.out
    rows = list(csv.DictReader((lake / "found" / "at_risk.csv").open()))
    # Rows 180 to 183 of the file are the secret: row group 3, rows 30 to 33.
    assert [(row["row_group"], row["row"]) for row in rows[:4]] == [
        ("3", str(place)) for place in range(30, 34)
    ]
    assert float(rows[0]["p_value"]) == pytest.approx(1 / 61)
    bits = float(rows[0]["reference_bits"])
    curve = DpSgd(2.0, 1.0, 4).renyi
    leaked = curve_leakage(bits, divergence=lambda order: float(curve(order)))
    assert float(rows[0]["promised_bits"]) == pytest.approx(bits - float(leaked))
    for file in (lake / "found").iterdir():
        assert "zoe" not in file.read_text(encoding="utf-8")
    for name in ("at_risk", "calibrated_loss"):
        picture = lake / "found" / f"{name}.svg"
        assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314  # our own file
    losses = pl.read_csv(lake / "found" / "calibrated_loss.csv")
    assert dict(losses.group_by("arm").agg(pl.col("sequences").sum()).iter_rows()) == {
        "training": 64,
        "holdout": 60,
    }


def test_half_a_bound_and_no_data_are_refused(lake, privaudit):
    (lake / "m.json").write_text('{"format": "privaudit-ngram-1", "order": 1, "counts": {"a": 1}}')
    models = ("--target", "m.json", "--reference", "m.json", "--output", "o")
    assert run(privaudit, "audit", *models, "--steps", "3").code == 64
    refused = run(privaudit, "audit", *models, dataset="none")
    assert (refused.code, "no complete labels of none" in refused.words) == (3, True)
    assert run(privaudit, "fit", "--split", "x", "--output", "y.json").code == 3
