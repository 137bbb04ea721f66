"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows import cli
from flows.study import bounds
from flows.study.bounds import STEPS, study_bounds
from flows.study.printing import published_table
from privcore.upper_bounds import Published


@pytest.fixture
def few(monkeypatch):
    """Make the training runs few: they take seconds each."""
    monkeypatch.setattr(bounds, "FIGURE_1_NOISE", (0.5, 0.8))
    monkeypatch.setattr(bounds, "FIGURE_7_NOISE", (0.32, 0.47))
    monkeypatch.setattr(bounds, "SECRET_BITS", (1.0, 20.0))
    monkeypatch.setattr(bounds, "FIGURE_7_BITS", (1.0, 20.0))
    monkeypatch.setattr(bounds, "FIGURE_2_NOISE", (0.5,))
    monkeypatch.setattr(bounds, "FIGURE_6_NOISE", (8.0,))


@pytest.mark.slow
def test_the_figures_are_written_twice_the_same(few, tmp_path):  # noqa: ARG001
    steps = []
    found = study_bounds(tmp_path / "one" / "deep", advance=lambda: steps.append(1))
    again = study_bounds(tmp_path / "two")
    assert len(steps) == 1 + 4 + 2 + 7
    names = [
        "success",
        "advantage",
        "leakage_by_bits",
        "leakage_by_steps",
        "leakage_by_bits_dense",
        "leakage_by_epsilon",
        "noise",
    ]
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
    noise = pl.read_csv(found.files[12]).filter(pl.col("eta") >= 0.01)
    assert (noise["rip_scale"] < noise["dp_scale"]).all()
    weak = leakage.filter(pl.col("secret_bits") == 20).sort("epsilon")
    assert weak["leaked"].is_sorted()


def test_progress_counts_every_step():
    assert 1 + len({*bounds.FIGURE_1_NOISE, *bounds.FIGURE_7_NOISE}) + 2 + 7 == STEPS


def test_the_command_prints_table_and_paths(few, tmp_path, monkeypatch, capsys):  # noqa: ARG001
    monkeypatch.setenv("COLUMNS", "100")
    output = tmp_path / "figures"
    monkeypatch.setattr(sys, "argv", ["privaudit", "study", "bounds", "--output", str(output)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    printed = capsys.readouterr().out
    for word in (
        "17.8",
        "2.37",
        "agrees",
        "differs, because",
        "not computed",
        str(output / "noise.svg"),
    ):
        assert word in printed


@pytest.mark.slow
def test_programs_get_every_printed_number_as_rows(few, tmp_path, monkeypatch, capsys):  # noqa: ARG001
    output = str(tmp_path / "figures")
    told = {}
    for form in ("--json", "--csv"):
        monkeypatch.setattr(sys, "argv", ["privaudit", "study", "bounds", form, "--output", output])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        told[form] = capsys.readouterr().out
    rows = json.loads(told["--json"])
    names = ["paper", "place", "quantity", "printed", "computed", "verdict"]
    assert [list(row) for row in rows] == [names] * len(rows)
    assert {re.split("[,:;]", row["verdict"])[0] for row in rows} == {
        "agrees",
        "differs",
        "not computed",
    }
    assert pl.read_csv(io.StringIO(told["--csv"]), infer_schema=False).height == len(rows)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    output = str(tmp_path / "file")
    monkeypatch.setattr(sys, "argv", ["privaudit", "study", "bounds", "--output", output])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 3
    assert output in capsys.readouterr().err


def test_every_verdict_is_printed():
    rows = [
        Published("A", "Table 1", "one", "1.0", "1.0", agrees=True),
        Published("A", "Table 1", "two", "2.0", "3.0", agrees=False, remark="of the moon"),
        Published("B", "Table 2", "three", "4.0", "", agrees=None, remark="needs the sun"),
    ]
    table = published_table(rows, title="All")
    verdicts = list(table.columns[-1].cells)
    assert verdicts[1:3] == ["agrees", "differs, because of the moon"]
    assert verdicts[-1] == "not computed: needs the sun"
    assert [cell for cell in table.columns[1].cells if "italic" in str(cell)] == [
        "[italic]A[/]",
        "[italic]B[/]",
    ]
