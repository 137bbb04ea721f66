"""The page as text: every verdict, nothing unescaped, nothing invented, nothing loaded."""

import datetime as dt
import html.parser
import pathlib
import re

import polars as pl
import pytest

import flows.report
from flows.report import render, write_report
from flows.report.canvas import spread
from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from workers.records import AuditRow

FIRST = dt.date(2013, 2, 1)
FIGURES = {
    "records": 740,
    "control_records": 185,
    "epsilon_lower": 0.98,
    "epsilon_paper": 2.61,
    "epsilon_calibrated": 0.81,
    "epsilon_ceiling": 4.671,
    "control_epsilon_lower": 0.0,
    "control_epsilon_paper": 0.93,
    "control_epsilon_ceiling": 3.2,
}


def record(model="delays-plain", offset=0, verdict=Verdict.UNDECLARED, **changes):
    values = {
        "audit_id": f"{model}-{offset}".encode().hex(),
        "method_version": "1",
        "code_version": "0.1.0",
        "seed": 1,
        "target_sha256": None,
        "proxy_sha256": None,
        "labels_digest": None,
        "model": model,
        "day": FIRST + dt.timedelta(days=offset),
        "recorded_at": dt.datetime(2013, 3, 1, 2, 0, tzinfo=dt.UTC),
        "status": "evaluated",
        "verdict": verdict,
        "reason": "a reason",
        "repetitions": 100,
        "delta": 1e-5,
        "significance": 0.05,
        "plan": "{}",
        **FIGURES,
    }
    if verdict is Verdict.NOT_EVALUABLE:
        values |= dict.fromkeys(FIGURES) | {"status": "not_evaluable", "reason_code": "no_labels"}
    return AuditRow(**values | changes)


def frame(*records):
    return pl.DataFrame(
        [row.model_dump(mode="python") for row in records], infer_schema_length=None
    )


def three_models(days):
    rows = []
    for offset in range(days):
        storm = {"control_epsilon_lower": 0.3} if offset % 7 == 6 else {}
        rows += [
            record("delays-plain", offset, **storm),
            record("delays-private", offset, Verdict.CONSISTENT, epsilon_declared=2.0, **storm),
            record("delays-broken", offset, Verdict.VIOLATED, epsilon_declared=0.5, **storm),
        ]
    return frame(*rows)


class Page(html.parser.HTMLParser):
    """What a browser would make of the text: elements in order, and whether they are balanced."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_every_verdict_is_a_word_a_sign_and_a_colour():
    for verdict, sign in SIGNS.items():
        text = render(frame(record(verdict=verdict, epsilon_declared=0.5)))
        assert f'<span class="verdict {sign.color}"><svg class="mark' in text
        assert f'd="{sign.path}"/></svg> {sign.word}</span>' in text
    assert set(SIGNS) == set(Verdict)
    assert len({sign.path for sign in SIGNS.values()}) == len(SIGNS)


def test_the_worst_comes_first():
    page = Page(render(three_models(3)))
    anchors = [section["id"] for section in page.all("section") if "id" in section]
    assert anchors == ["model-delays-broken", "model-delays-plain", "model-delays-private"]


def test_names_and_reasons_are_escaped_everywhere():
    name = "<script>alert('x')</script>\"&"
    silent = record(name, 1, Verdict.NOT_EVALUABLE, reason="<img src=x onerror=y>")
    text = render(frame(record(name, mechanism="<b>", dataset="<i>"), silent))
    page = Page(text)
    assert "<script" not in text.lower()
    assert not page.all("script")
    assert not page.all("img")
    assert not page.all("b")
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34;&amp;" in text


def test_models_of_similar_names_have_ids_of_their_own():
    page = Page(render(frame(record("a b"), record("a-b"), record("a_b"), record("\N{SNOWMAN}"))))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in page.all("svg"):
        if attributes.get("role") == "img":
            assert attributes["aria-labelledby"] in ids
            assert attributes["aria-describedby"] in ids


def test_a_missing_figure_is_never_a_zero():
    silent = record(offset=1, verdict=Verdict.NOT_EVALUABLE, reason="No labels for the day.")
    text = render(frame(record(), silent))
    night = words(text.split("<tbody", 2)[1].split("</tbody>")[0])
    assert "0" not in night
    assert night.count("\N{EN DASH}") == 6
    assert "2 Feb No labels for the day." in words(text)


def test_a_model_that_never_came_to_a_figure_has_reasons_and_no_plot():
    rows = [record(offset=day, verdict=Verdict.NOT_EVALUABLE, reason="No proxy.") for day in (0, 1)]
    text = render(frame(*rows))
    assert not [svg for svg in Page(text).all("svg") if svg.get("role") == "img"]
    assert "1 and 2 Feb No proxy." in words(text)


def test_nan_counts_as_no_figure():
    text = render(frame(record(epsilon_paper=float("nan"), epsilon_calibrated=float("nan"))))
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert "The paper\u2019s figure, not" not in text


def test_infinite_figures_are_shown_and_not_drawn():
    text = render(frame(record(epsilon_ceiling=float("inf"), epsilon_declared=float("inf"))))
    assert "∞" in text


def test_a_model_without_a_record_of_the_night_is_not_passed_over():
    text = words(render(frame(record("old"), record("new", 2))))
    assert "not audited this night; last on 1 February 2013" in text
    assert "no figure for old" in text


def test_zero_is_a_result_with_a_mark_and_silence_has_none():
    zero = record(epsilon_lower=0.0, epsilon_calibrated=0.0)
    silent = record(offset=1, verdict=Verdict.NOT_EVALUABLE)
    text = render(frame(zero, silent))
    plots = re.findall(r'<svg [^>]*class="plot [a-z]+".*?</svg>', text, re.DOTALL)
    assert len(plots) == 2
    for plot in plots:
        assert len(re.findall(r'<path[^>]*fill="var\(--bound\)"', plot)) == 1
        assert len(re.findall(r'<path[^>]*fill="var\(--silent\)"', plot)) == 1


def test_days_on_which_the_control_leaks_are_shaded():
    quiet = render(frame(record()))
    loud = render(frame(record(control_epsilon_lower=0.2)))
    assert 'fill="var(--leak)"' not in quiet
    assert loud.count('fill="var(--leak)"') == 2
    assert "the control leaks too" in loud


def test_a_ceiling_far_above_is_named_at_the_edge():
    text = render(frame(record(epsilon_ceiling=25.01)))
    assert "ceiling 25.1 ↑" in text


def test_a_page_without_records_says_so():
    text = render(frame(record()).clear())
    assert Page(text).all("h1")
    assert "No audit has been recorded yet." in text


def test_the_page_loads_nothing_and_runs_nothing():
    text = render(three_models(7))
    page = Page(text)
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "@import" not in text
    assert "url(" not in text
    policies = [m["content"] for m in page.all("meta") if "http-equiv" in m]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_the_page_stays_small():
    assert len(render(three_models(28)).encode()) < 500_000


def test_rendering_reads_no_clock_and_no_order():
    audits = three_models(3)
    assert render(audits) == render(audits.reverse())


def test_columns_of_a_later_version_are_passed_over():
    audits = three_models(1)
    assert render(audits.with_columns(later=pl.lit(1))) == render(audits)


def test_two_records_of_one_day_are_refused():
    with pytest.raises(ValueError, match="two records"):
        render(frame(record(), record()))


def test_writing_makes_the_folder_and_leaves_one_file(tmp_path):
    written = write_report(three_models(1), str(tmp_path / "deep" / "report"))
    assert written == tmp_path / "deep" / "report" / "index.html"
    assert written.read_text(encoding="utf-8") == render(three_models(1))
    assert write_report(three_models(2), written.parent) == written
    assert [path.name for path in written.parent.iterdir()] == ["index.html"]


def test_labels_are_pushed_apart_and_stay_inside():
    assert spread([10.0, 50.0], gap=15.0, lowest=100.0) == [10.0, 50.0]
    assert spread([10.0, 12.0, 14.0], gap=15.0, lowest=100.0) == [10.0, 25.0, 40.0]
    assert spread([90.0, 99.0, 100.0], gap=15.0, lowest=100.0) == [70.0, 85.0, 100.0]


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_what_is_behind_them(scheme):
    style = pathlib.Path(flows.report.__file__).with_name("style.css").read_text(encoding="utf-8")
    palette = dict(
        re.findall(
            r"--([a-z-]+): (#[0-9a-f]{6});", style.split(":root {")[1 + scheme].split("}")[0]
        )
    )
    for text in ("ink", "muted", "paper-text", "bound", *{s.color for s in SIGNS.values()}):
        assert contrast(palette[text], palette["page"]) >= 4.5, text
    for drawn in ("paper", "control", "bound", "ink"):
        for behind in ("page", "leak"):
            assert contrast(palette[drawn], palette[behind]) >= 3.0, (drawn, behind)
