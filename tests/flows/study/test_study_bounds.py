"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows import cli
from flows.study import bounds
from flows.study.bounds import STEPS, published_table, study_bounds


@pytest.fixture
def few(monkeypatch):
    """Make the training runs few: they take seconds each."""
    monkeypatch.setattr(bounds, "FIGURE_1_NOISE", (0.5, 0.8))
    monkeypatch.setattr(bounds, "FIGURE_7_NOISE", (0.32, 0.47))
    monkeypatch.setattr(bounds, "SECRET_BITS", (1.0, 20.0))
    monkeypatch.setattr(bounds, "FIGURE_7_BITS", (1.0, 20.0))


def test_the_figures_are_written_twice_the_same(few, tmp_path):  # noqa: ARG001
    steps = []
    found = study_bounds(tmp_path / "one" / "deep", advance=lambda: steps.append(1))
    again = study_bounds(tmp_path / "two")
    assert len(steps) == 1 + 4 + 4
    names = ["success", "leakage_by_bits", "leakage_by_epsilon", "noise"]
    assert [file.name for file in found.files] == [
        f"{name}.{end}" for name in names for end in ("csv", "svg")
    ]
    for one, two in zip(found.files, again.files, strict=True):
        assert one.read_bytes() == two.read_bytes()
        if one.suffix == ".svg":
            assert ET.parse(one).getroot().tag.endswith("svg")  # noqa: S314  # our own file
    success = pl.read_csv(found.files[0])
    assert success.group_by("epsilon", "delta").len().height == 6
    assert success["success"].is_between(0.0, 1.0).all()
    leakage = pl.read_csv(found.files[4])
    weak = leakage.filter(pl.col("secret_bits") == 20).sort("epsilon")
    assert weak["leaked"].is_sorted()


def test_progress_counts_every_step():
    assert 1 + len({*bounds.FIGURE_1_NOISE, *bounds.FIGURE_7_NOISE}) + 4 == STEPS


def test_the_command_prints_table_and_paths(few, tmp_path, monkeypatch, capsys):  # noqa: ARG001
    monkeypatch.setenv("COLUMNS", "100")
    output = tmp_path / "figures"
    monkeypatch.setattr(sys, "argv", ["privaudit", "study", "bounds", "--output", str(output)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    printed = capsys.readouterr().out
    for word in ("17.8", "2.37", "0.443", "0.107", str(output / "noise.svg")):
        assert word in printed


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    output = str(tmp_path / "file")
    monkeypatch.setattr(sys, "argv", ["privaudit", "study", "bounds", "--output", output])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 3
    assert output in capsys.readouterr().err


def test_remarks_are_footnotes():
    rows = (*bounds.published_protection(), *bounds.published_noise())
    table = published_table(rows)
    assert str(table.caption).startswith("1 the printed prior has lost digits")
