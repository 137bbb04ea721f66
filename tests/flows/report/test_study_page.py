"""The page of a study: whole, escaped, and linked from the report where it lies in it."""

import json
import pathlib

import polars as pl
import pytest

from flows.commands.printing import Form, print_study
from flows.report.report_rows import read_tables
from flows.report.site import MARK, write_pages
from flows.report.study_page import StudyTable, find_studies, study_page
from flows.study.runner import Shown, write_shown
from flows.study.tables import Axis, chart
from workers.warehouse.store import Warehouse

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="5"/></svg>'


@pytest.fixture
def drawing(tmp_path):
    path = tmp_path / "epsilon_by_noise.svg"
    path.write_text(SVG, encoding="utf-8")
    return path


def test_it_holds_words_numbers_and_drawings_and_needs_no_other_file(drawing):
    table = StudyTable("Figure 1", [("name", False), ("epsilon", True)], [("<b>", "1.5")])
    page = study_page("A < B", ["Seed 3 & more."], [table], [drawing], root=None)
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
def test_a_printed_study_has_its_page_and_a_report_links_it(tmp_path, capsys):
    output = tmp_path / "report" / "studies" / "one"
    output.mkdir(parents=True)
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
    assert 'href="../../index.html"' in page
    assert written.files[-1] == output / "index.html"
    print_study(written, Form.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(output / "index.html")
    assert all(line.strip() and line == line.rstrip() for line in lines)
    print_study(written, Form.JSON)
    told = json.loads(capsys.readouterr().out)
    rows = [{"who": "[nobody]", "how many": "0"}]
    assert told["tables"] == [{"title": "Table 2", "rows": rows}]
    assert (told["findings"], told["files"][-1]) == (["Said."], lines[-1])

    report = tmp_path / "report"
    write_pages(read_tables(Warehouse(str(tmp_path / "warehouse"))), report)
    index = (report / "index.html").read_text(encoding="utf-8")
    assert '<a href="studies/one/index.html">Counting</a>.' in index


def test_pages_that_are_not_ours_are_not_linked(tmp_path):
    for name, text in (
        ("ours", f"{MARK}<title>A &amp; B</title>"),
        ("theirs", "<title>Holiday</title>"),
        ("untitled", MARK),
    ):
        (tmp_path / "studies" / name).mkdir(parents=True)
        (tmp_path / "studies" / name / "index.html").write_text(text, encoding="utf-8")
    (tmp_path / "studies" / "empty").mkdir()
    found = find_studies(tmp_path, mark=MARK)
    assert [(study.href, study.title) for study in found] == [("studies/ours/index.html", "A & B")]
    assert find_studies(pathlib.Path(tmp_path / "none"), mark=MARK) == []
