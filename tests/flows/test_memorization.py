"""`privaudit memorization`: from a lake to a list of places, with no text in any file."""

import contextlib
import csv
import datetime as dt
import sys
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from flows import cli
from privcore.guarantees import DpSgd
from privcore.upper_bounds import curve_leakage
from workers import executors
from workers.executors import InProcess
from workers.lake.layout import Lake, labels_folder

DAY = "2026-03-02"
PARTITION = labels_folder("mails", dt.date.fromisoformat(DAY))
PLANTED = "zoe keeps 739120586 under q"


@pytest.fixture
def lake(tmp_path, monkeypatch):
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
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(executors, "on_ray", lambda *_: contextlib.nullcontext(InProcess()))
    return tmp_path


def run(monkeypatch, command, *options, dataset="mails"):
    place = ("--lake", "lake", "--dataset", dataset, "--day", DAY)
    monkeypatch.setattr(sys, "argv", ["privaudit", "memorization", command, *place, *options])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.mark.slow
@pytest.mark.paper("renyi", "Table 1", "Figure 4")
def test_a_planted_secret_is_listed_by_its_place(lake, monkeypatch, capsys):
    for split in ("train", "other"):
        options = ("--split", split, "--order", "5", "--output", f"{split}.json")
        assert not run(monkeypatch, "fit", *options)
    models = ("--target", "train.json", "--reference", "other.json", "--output", "found")
    dpsgd = ("--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "4")
    assert not run(monkeypatch, "audit", *models, *dpsgd, "--tries", "1e12")
    said = capsys.readouterr().out
    assert "64 training and 60 holdout sequences" in " ".join(said.split())
    assert "promised" in said
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


def test_half_a_bound_and_no_data_are_refused(lake, monkeypatch, capsys):
    (lake / "m.json").write_text('{"format": "privaudit-ngram-1", "order": 1, "counts": {"a": 1}}')
    models = ("--target", "m.json", "--reference", "m.json", "--output", "o")
    assert run(monkeypatch, "audit", *models, "--steps", "3") == 64
    assert run(monkeypatch, "audit", *models, dataset="none") == 3
    assert "no complete labels of none" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "fit", "--split", "x", "--output", "y.json") == 3
