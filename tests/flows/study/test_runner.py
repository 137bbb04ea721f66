"""The files of a study: its page is whole, escaped, and needs no other file."""

import json

import polars as pl
import pytest

from flows.commands.printing import print_study
from flows.study.runner import Shown, write_shown
from flows.study.tables import Axis, StudyTable, chart


@pytest.mark.slow
def test_a_printed_study_has_its_page(tmp_path, capsys):
    output = tmp_path / "one"
    table = StudyTable("Table 2", [("who", False), ("how many", True)], [("[<b>]", "0")])
    drawn = chart([{"x": 1, "y": 2, "series": "s"}], "D", x=Axis("x"), y=Axis("y"), colors="blue")
    data, figures = {"a": pl.DataFrame({"b": [1]})}, {"epsilon_by_noise": drawn}
    shown = Shown(["Seed 3 & more."], [table], data=data, figures=figures)
    written = write_shown(shown, output, title="A < B")
    names = ["a.csv", "epsilon_by_noise.svg", "study.json", "index.html"]
    assert [file.name for file in written.files] == names
    assert (output / "a.csv").read_text(encoding="utf-8") == "b\n1\n"
    assert (output / "study.json").read_text(encoding="utf-8") == f"{written.as_json()}\n"
    page = (output / "index.html").read_text(encoding="utf-8")
    for words in (
        "<title>A &lt; B</title>",
        "Seed 3 &amp; more.",
        "Table 2",
        '<th scope="col">how many</th>',
        '<td class="text">[&lt;b&gt;]</td>',
        "<td>0</td>",
        'src="data:image/svg+xml;base64,',
        'alt="epsilon by noise;',
    ):
        assert words in page
    assert "<nav" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert written.files[-1] == output / "index.html"
    print_study(written, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(output / "index.html")
    assert all(line.strip() and line == line.rstrip() for line in lines)
    print_study(written, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["tables"] == [{"title": "Table 2", "rows": [{"who": "[<b>]", "how many": "0"}]}]
    assert (told["findings"], told["files"][-1]) == (["Seed 3 & more."], lines[-1])
