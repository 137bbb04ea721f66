"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import json
import re
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows.study import bounds
from flows.study.runner import Study, run_study
from flows.study.tables import published_rows, published_table
from privcore.upper_bounds import Published


@pytest.fixture
def few(smaller):
    """Make the training runs few: they take seconds each; and leave out Ray."""
    smaller(
        bounds,
        FIGURE_1_NOISE=(0.5, 0.8),
        FIGURE_7_NOISE=(0.32, 0.47),
        SECRET_BITS=(1.0, 20.0),
        FIGURE_7_BITS=(1.0, 20.0),
        FIGURE_2_NOISE=(0.5,),
        FIGURE_6_NOISE=(8.0,),
    )


NAMES = (
    "success",
    "advantage",
    "leakage_by_bits",
    "leakage_by_steps",
    "leakage_by_bits_dense",
    "leakage_by_epsilon",
    "noise",
)


@pytest.mark.slow
def test_the_figures_are_written_twice_the_same_and_resumed(few, tmp_path):  # noqa: ARG001
    folders = (tmp_path / "one" / "deep", tmp_path / "two")
    found, again = (run_study(bounds.study(), folder) for folder in folders)
    names = [file.name for file in found.files]
    assert names == [
        *(f"{name}.csv" for name in (*NAMES, "published")),
        *(f"{name}.svg" for name in NAMES),
        "study.json",
        "index.html",
    ]
    for one, two in zip(found.files, again.files, strict=True):
        if one.name != "study.json":  # which names the files, so the folders too
            assert one.read_bytes() == two.read_bytes()
        if one.suffix == ".svg":
            assert ET.parse(one).getroot().tag.endswith("svg")  # noqa: S314  # our own file
    success = pl.read_csv(folders[0] / "success.csv")
    assert success.group_by("epsilon", "delta").len().height == 6
    assert success["success"].is_between(0.0, 1.0).all()
    leakage = pl.read_csv(folders[0] / "leakage_by_bits.csv")
    noise = pl.read_csv(folders[0] / "noise.csv").filter(pl.col("eta") >= 0.01)
    assert (noise["rip_scale"] < noise["dp_scale"]).all()
    weak = leakage.filter(pl.col("secret_bits") == 20).sort("epsilon")
    assert weak["leaked"].is_sorted()
    resumed = run_study(bounds.study(), folders[1])
    assert resumed.sentences[0].startswith("9 of 9 parts")
    for one, two in zip(found.files[:-2], resumed.files[:-2], strict=True):
        assert one.read_bytes() == two.read_bytes()
    page = (folders[0] / "index.html").read_text(encoding="utf-8")
    assert "differs, because" in page
    assert page.count("data:image/svg+xml") == len(NAMES)


@pytest.mark.slow
def test_the_command_prints_table_and_paths(few, tmp_path, privaudit):  # noqa: ARG001
    output = tmp_path / "figures"
    code, printed, _ = privaudit("study", "bounds", "--output", str(output))
    assert code == 0
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
def test_programs_get_every_printed_number_as_rows(few, tmp_path, privaudit):  # noqa: ARG001
    output = str(tmp_path / "figures")
    code, told, _ = privaudit("study", "bounds", "--json", "--output", output)
    assert code == 0
    (table,) = json.loads(told)["tables"]
    rows = table["rows"]
    names = ["paper", "place", "quantity", "printed", "here", "verdict"]
    assert [list(row) for row in rows] == [names] * len(rows)
    assert {re.split("[,:;]", row["verdict"])[0] for row in rows} == {
        "agrees",
        "differs",
        "not computed",
    }


def test_a_folder_that_cannot_be_made_is_named(tmp_path, privaudit):
    (tmp_path / "file").write_text("")
    output = str(tmp_path / "file")
    code, _, told = privaudit("study", "bounds", "--output", output)
    assert code == 3
    assert output in told


def test_a_verdict_is_given_only_at_the_scale_and_on_the_data_of_the_paper():
    published = [
        Published("A", "Table 1", "one", "1.0", "1.0", agrees=True),
        Published("A", "Table 1", "two", "2.0", "3.0", agrees=False, remark="of the moon"),
        Published("B", "Table 2", "three", "4.0", "", agrees=None, remark="needs the sun"),
        Published("B", "Table 2", "four", "5", "5", agrees=True, exact=True),
        Published("B", "Table 2", "five", "6", "5", agrees=None, remark="other data"),
    ]

    def verdicts(**terms):
        study = Study("S", "S", [], bounds.compute, None, bounds.shown, **terms)
        table = published_table(published_rows(published, unjudged=study.unjudged))
        assert table.columns[0] == ("paper", False)
        return [row[-1] for row in table.rows]

    others = ["not computed: needs the sun", "agrees", "not judged: other data"]
    assert verdicts() == ["agrees", "differs, because of the moon", *others]
    assert verdicts(scale=0.005) == ["not judged: scale 0.005"] * 2 + others
    assert verdicts(data="synthetic data") == ["not judged: synthetic data"] * 2 + others
    both = "not judged: scale 0.1, synthetic data"
    assert verdicts(scale=0.1, data="synthetic data") == [both] * 2 + others
