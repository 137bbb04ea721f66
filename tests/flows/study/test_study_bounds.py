"""`privaudit study bounds`: the same files every time, that show what the papers show."""

import json
import pathlib
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
@pytest.mark.paper("worst_case", "Section 3.2", "Figure 2")
@pytest.mark.paper("renyi", "Figure 7")
@pytest.mark.paper("reidentification", "Figure 1", "Proposition 9")
def test_programs_get_every_printed_number_as_rows(few, tmp_path, privaudit):  # noqa: ARG001
    one, two = tmp_path / "one" / "deep", tmp_path / "two"
    code, told, _ = privaudit("study", "bounds", "--json", "--output", str(one))
    assert code == 0
    files = [*(f"{name}.csv" for name in (*NAMES, "published")), *(f"{name}.svg" for name in NAMES)]
    assert [pathlib.Path(file).name for file in json.loads(told)["files"][:-2]] == files
    run_study(bounds.study(), two)
    for name in (*files, "index.html"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
        if name.endswith(".svg"):
            assert ET.parse(one / name).getroot().tag.endswith("svg")  # noqa: S314  # our own file
    page = (one / "index.html").read_text(encoding="utf-8")
    assert "differs: " in page
    assert page.count("data:image/svg+xml") == len(NAMES)
    success, noise, leakage = (
        pl.read_csv(one / f"{name}.csv") for name in ("success", "noise", "leakage_by_bits")
    )
    assert success.group_by("epsilon", "delta").len().height == 6
    assert success["success"].is_between(0.0, 1.0).all()
    assert noise.filter(pl.col("eta") >= 0.01, pl.col("rip_scale") >= pl.col("dp_scale")).is_empty()
    assert leakage.filter(secret_bits=20).sort("epsilon")["leaked"].is_sorted()
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
