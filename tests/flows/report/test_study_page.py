"""The page of a study: whole, and escaped."""

import json

import polars as pl
import pytest

from flows.commands.printing import print_study
from flows.report.study_page import StudyTable, study_page
from flows.study.runner import Shown, write_shown
from flows.study.tables import Axis, chart

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="5"/></svg>'


@pytest.fixture
def drawing(tmp_path):
    path = tmp_path / "epsilon_by_noise.svg"
    path.write_text(SVG, encoding="utf-8")
    return path


def test_it_holds_words_numbers_and_drawings_and_needs_no_other_file(drawing):
    table = StudyTable("Figure 1", [("name", False), ("epsilon", True)], [("<b>", "1.5")])
    page = study_page("A < B", ["Seed 3 & more."], [table], [drawing])
    for words in (
        "<title>A &lt; B</title>",
        "Seed 3 &amp; more.",
        '<td class="text">&lt;b&gt;</td>',
        "<td>1.5</td>",
        "data:image/svg+xml;base64,",
        'alt="epsilon by noise;',
    ):
        assert words in page
    assert "<nav" not in page
    assert "src=" in page
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
def test_a_printed_study_has_its_page(tmp_path, capsys):
    output = tmp_path / "one"
    table = StudyTable("Table 2", [("who", False), ("how many", True)], [("[nobody]", "0")])
    drawn = chart([{"x": 1, "y": 2, "series": "s"}], "D", x=Axis("x"), y=Axis("y"), colors="blue")
    shown = Shown(["Said."], [table], data={"a": pl.DataFrame({"b": [1]})}, figures={"d": drawn})
    written = write_shown(shown, output, title="Counting")
    assert [file.name for file in written.files] == ["a.csv", "d.svg", "study.json", "index.html"]
    assert (output / "a.csv").read_text(encoding="utf-8") == "b\n1\n"
    assert (output / "study.json").read_text(encoding="utf-8") == f"{written.as_json()}\n"
    page = (output / "index.html").read_text(encoding="utf-8")
    assert "Table 2" in page
    assert '<th scope="col">how many</th>' in page
    assert '<td class="text">[nobody]</td>' in page
    assert written.files[-1] == output / "index.html"
    print_study(written, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(output / "index.html")
    assert all(line.strip() and line == line.rstrip() for line in lines)
    print_study(written, as_json=True)
    told = json.loads(capsys.readouterr().out)
    rows = [{"who": "[nobody]", "how many": "0"}]
    assert told["tables"] == [{"title": "Table 2", "rows": rows}]
    assert (told["findings"], told["files"][-1]) == (["Said."], lines[-1])
