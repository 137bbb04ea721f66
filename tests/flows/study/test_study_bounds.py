"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import json
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from flows.study import bounds
from flows.study.printed import REIDENTIFICATION, RENYI, WORST_CASE, printed_values
from flows.study.runner import run_study


@pytest.fixture
def few(smaller):
    """Make the training runs few: they take seconds each; and leave out Ray."""
    smaller(
        bounds,
        FIGURE_1_NOISE=(0.5, 0.8),
        FIGURE_7_NOISE=(0.32, 0.34, 0.47),
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
    assert resumed.sentences[0].startswith("10 of 10 parts")
    for one, two in zip(found.files[:-2], resumed.files[:-2], strict=True):
        assert one.read_bytes() == two.read_bytes()
    page = (folders[0] / "index.html").read_text(encoding="utf-8")
    assert "differs: " in page
    assert page.count("data:image/svg+xml") == len(NAMES)


@pytest.mark.slow
@pytest.mark.paper("worst_case", "Section 3.2", "Figure 2")
@pytest.mark.paper("renyi", "Figure 7")
@pytest.mark.paper("reidentification", "Figure 1", "Proposition 9")
def test_programs_get_every_printed_number_as_rows(few, tmp_path, privaudit):  # noqa: ARG001
    output = str(tmp_path / "figures")
    code, told, _ = privaudit("study", "bounds", "--json", "--output", output)
    assert code == 0
    tables = {table["title"].removesuffix(": printed, and ours"): table["rows"]
              for table in json.loads(told)["tables"]}  # fmt: skip
    places = {
        WORST_CASE: ("Section 3.2", "Fig 2b", "Fig 2a"),
        RENYI: ("Fig 7",),
        REIDENTIFICATION: ("Proposition 9", "Fig 1"),
    }
    assert set(tables) == {f"{place} of {paper}" for paper in places for place in places[paper]}
    for paper, own in places.items():
        for place in own:
            rows = {row["quantity"]: row for row in tables[f"{place} of {paper}"]}
            assert set(rows) == set(printed_values(paper, place))  # none is left out
            for row in rows.values():
                assert list(row) == ["quantity", "printed", "here", "verdict"]
                if row["printed"] in ("0.25", "0.24"):  # the most probable password
                    assert row["here"] in ("0.40", "0.16")
                    assert row["verdict"].startswith("differs: Zipf's law with 1.2")
                elif row["here"]:
                    assert row["verdict"] == "agrees", row
                else:
                    assert row["verdict"].startswith("not computed: the names' priors need GPT-2")
