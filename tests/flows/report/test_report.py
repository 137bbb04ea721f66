"""The pages as text: every verdict, nothing unescaped, nothing invented, nothing loaded."""

import dataclasses
import errno
import html.parser
import math
import pathlib
import re

import numpy as np
import polars as pl
import pytest

from flows.report.canvas import SIGNS, path_of, unbroken
from flows.report.history import History, history_of
from flows.report.plots import TREND_LONGEST, top_of_trend
from flows.report.report_rows import FEWEST_RECORDS, SharedLabels
from flows.report.sentences import nearness_sentence
from flows.report.site import page_name, source, statistics, write_pages
from flows.settings import PolicySettings
from privcore.lower_bounds.verdicts import Verdict
from tests.support.papers import ROOT
from tests.support.report import (
    everything_beside,
    full_tables,
    identity,
    record,
    tables,
    three_models,
)
from workers.warehouse.schema import PromiseRow

NOTHING = "The record of this audit holds no rows of it"


@pytest.fixture
def pages(tmp_path):
    """Write a report and return its pages by their paths."""

    def written(audits, beside=()):
        write_pages(tables(audits, beside), tmp_path)
        return {
            path.relative_to(tmp_path).as_posix(): path.read_text(encoding="utf-8")
            for path in tmp_path.rglob("*.html")
        }

    return written


class Page(html.parser.HTMLParser):
    """The page as a browser reads it: elements in order, and whether they are balanced."""

    VOID = frozenset({"meta", "link", "br", "input"})

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


def model_page(pages, model="delays-plain"):
    return pages[f"models/{model}.html"]


def test_every_verdict_is_a_word_a_sign_and_a_colour(pages):
    for verdict, sign in SIGNS.items():
        written = pages([record(verdict=verdict, epsilon_declared=0.5)])
        for text in (written["index.html"], model_page(written)):
            assert f'<span class="verdict {sign.color}"><svg class="mark' in text
            assert f'd="{sign.path}"/></svg> {sign.word}</span>' in text
    assert set(SIGNS) == set(Verdict)
    assert len({sign.path for sign in SIGNS.values()}) == len(SIGNS)


def test_the_worst_comes_first_and_leads_to_its_page(pages):
    written = pages(three_models(3))
    index = written["index.html"]
    links = [a["href"] for a in Page(index).all("a") if a["href"].startswith("models/")]
    names = ["delays-broken", "delays-private", "delays-plain"]
    assert links == [f"models/{name}.html" for name in names] * 2
    assert set(links) < set(written)
    assert "VIOLATED: delays-broken leaks at least 0.79, declared 0.5" in index


def test_a_page_is_a_file_in_its_folder_whatever_the_model_is_called():
    assert page_name("ads-ctr_2.1") == "ads-ctr_2.1.html"
    for hostile in ("../../etc/passwd", "a/b", "", ".hidden", "x" * 300, "a\0b", "<b>"):
        assert re.fullmatch(r"model-[0-9a-f]{16}\.html", page_name(hostile))
    assert page_name("a/b") != page_name("a/c")


def test_ids_are_unique_and_name_every_plot(pages):
    nights = three_models(60)
    written = pages(nights, [row for night in nights[-3:] for row in everything_beside(night)])
    for path, text in written.items():
        page = Page(text)
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), path
        for attributes in page.all("svg"):
            if attributes.get("role") == "img":
                assert attributes["aria-labelledby"] in ids
                assert attributes["aria-describedby"] in ids
    plots = [svg for svg in Page(model_page(written)).all("svg") if svg.get("role") == "img"]
    assert len(plots) == 2


@pytest.mark.slow
def test_every_link_of_every_page_leads_somewhere(tmp_path):
    root = write_pages(full_tables(3), tmp_path).parent
    found = 0
    for path in root.rglob("*.html"):
        for link in Page(path.read_text(encoding="utf-8")).all("a"):
            place, _, anchor = link["href"].partition("#")
            target = (path.parent / place).resolve() if place else path
            ids = [e["id"] for _, e in Page(target.read_text("utf-8")).elements if "id" in e]
            assert not anchor or anchor in ids, f"{path.name}: {link['href']}"
            found += 1
    assert found > 60


def test_every_figure_of_a_model_leads_to_its_paragraph(pages):
    nights = three_models(1)
    written = pages(nights, [r for n in nights for r in everything_beside(n)])
    text = model_page(written, "delays-private")
    linked = set(re.findall(r"statistics\.html#([a-z0-9_-]+)", text))
    figures = {name for name in record().model_dump() if "epsilon" in name or "claim" in name}
    beside = {"epsilon_game", "delta_declared", "claim_evalue"}
    beside |= {"epsilon_ceiling_28_days", "file_epsilon_high"}
    beside |= {"epsilon_if_proxy_right", "control_epsilon_if_proxy_right"}
    tables_linked = {"audit_bounds", "audit_reliability", "audit_slices"}
    assert figures - beside <= linked
    assert tables_linked <= linked
    _, anchors = statistics()
    assert linked <= anchors


@pytest.mark.parametrize("averaged", [True, False, None])
def test_a_models_page_says_where_nights_are_averaged_and_that_somebody_chose_a_plan(
    pages, averaged
):
    """A seed that accuses was shown as the night's verdict."""
    night = record(nights_averaged=averaged, exploratory=bool(averaged))
    text = words(model_page(pages([night])))
    assert ("By a plan that somebody chose for this run" in text) is bool(averaged)
    told = "come again on these nights, so they are averaged and not multiplied" in text
    assert told == bool(averaged)


def test_a_missing_figure_is_never_a_zero(pages):
    silent = record(offset=1, verdict=Verdict.FAILED, reason="No labels for the day.")
    written = pages([record(), silent])
    night = words(written["index.html"].split("<tbody", 1)[1].split("</tbody>")[0])
    assert "0" not in night.replace("2013-02-02", "")
    assert night.count("\N{EN DASH}") == 4
    text = words(model_page(written))
    assert "2 Feb No labels for the day." in text
    assert "The last figures are of 1 February 2013" in text


def test_a_model_that_never_came_to_a_figure_has_reasons_and_no_plot(pages):
    rows = [record(offset=day, verdict=Verdict.FAILED, reason="No proxy.") for day in (0, 1)]
    written = pages(rows)
    for text in written.values():
        assert not [svg for svg in Page(text).all("svg") if svg.get("role") == "img"]
    assert "1 and 2 Feb No proxy." in words(model_page(written))
    rows = [record(offset=day, verdict=Verdict.FAILED, reason="No proxy.") for day in range(30)]
    assert "2 Mar, and 23 earlier No proxy." in words(model_page(pages(rows)))


def test_an_older_record_says_plainly_what_it_does_not_hold(pages):
    text = model_page(pages([record(epsilon_declared=1.0)]))
    assert text.count(NOTHING) + text.count(NOTHING.lower()) == 3
    assert "The plan names no slices" in text
    assert "Nothing was declared, and so nothing is promised." in model_page(pages([record()]))


def test_no_bin_of_few_records_is_shown(pages):
    night = record()
    rows = [
        row.model_copy(update={"records": FEWEST_RECORDS - 1} if hasattr(row, "bin") else {})
        for row in everything_beside(night)
    ]
    shown, left_out = pages([night], everything_beside(night)), pages([night], rows)
    assert "Predicted and observed" in model_page(shown)
    assert "Predicted and observed" not in model_page(left_out)


def test_a_figure_by_day_is_nan_where_there_is_no_number():
    ceilings = {0: 1.0, 1: None, 2: math.inf, 4: 2.5}
    nights = [record("ads", day, epsilon_ceiling=value) for day, value in ceilings.items()]
    history = history_of("ads", tables(nights).audits)
    of_days = history.by_day(lambda night: night.epsilon_ceiling)
    assert np.isfinite(of_days).tolist() == [True, False, False, False, True]
    assert of_days[[0, -1]].tolist() == [1.0, 2.5]


def test_nan_counts_as_no_figure(pages):
    night = record(epsilon_paper=float("nan"), epsilon_standing=float("nan"))
    text = model_page(pages([night]))
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_infinite_figures_are_shown_and_not_drawn(pages):
    text = model_page(pages([record(epsilon_ceiling=float("inf"), epsilon_declared=float("inf"))]))
    assert "∞" in text
    assert "NaN" not in text


def test_a_model_without_a_record_of_the_night_is_not_passed_over(pages):
    text = words(pages([record("old"), record("new", 2)])["index.html"])
    assert "Without a record of this night: old (last on 1 February 2013)." in text


def test_the_first_page_has_no_ceiling_no_control_and_no_figure_of_the_paper(pages):
    written = pages([record()])
    index, model = written["index.html"], model_page(written)
    for figure in ("epsilon_ceiling", "control_epsilon_lower", "epsilon_paper"):
        assert f"statistics.html#{figure}" not in index
        assert f"statistics.html#{figure}" in model


def test_proved_and_sees_from_are_a_models_first_figures_beside_one_step(pages):
    night = record("ads", 6, Verdict.NOT_REFUTED, epsilon_declared=2.0, drill="twin",
                   drill_refuted_after=2)  # fmt: skip
    text = words(model_page(pages([night]), "ads").split("</style>")[1])
    card = text[: text.index("Night by night")]
    places = [card.index(part) for part in (
        "not refuted", "Next (model owner):", "proved 0.98", "sees from 1.30",
        "refuted on its night 2: a dropped mechanism would have been seen", "epsilon 2",
    )]  # fmt: skip
    assert places == sorted(places)
    assert card.count("Next (") == 1


def blocks(text):
    """Return the words of measured, declared and policy, each alone."""
    return [
        words(part)
        for name in ("measured", "declared", "policy")
        for part in re.findall(f'<h2 id="{name}">.*?</section>', text, re.DOTALL)
    ]


def test_what_is_measured_declared_and_policy_stand_in_three_blocks(tmp_path):
    nights = three_models(3)
    of_all = ("delays-private", "delays-broken")
    shared = (
        SharedLabels("flights", of_all, "Both compose to 2.5.", exceeded=False),
        SharedLabels("flights", ("delays-plain",), "Thrice.", exceeded=False),
    )
    policy = PolicySettings(max_epsilon=2.0, max_sees_from=1.3, max_age_days=0)
    given = dataclasses.replace(tables(nights), shared=shared, policy=policy)
    folder = write_pages(given, tmp_path).parent / "models"
    measured, declared, ruled = blocks((folder / "delays-private.html").read_text("utf-8"))
    assert "proved 0.79" in measured
    assert "all nights Its 3 nights together prove at least 1.10" in measured
    assert "not above guessing Refuted: the loss is at least 0.79; this night could" in measured
    assert "trust self. It stands on evidence that the model&#39;s owner supplied" in measured
    text = (folder / "delays-private.html").read_text("utf-8")
    assert text.count("It stands on") == 1
    assert "drawn at random" in measured
    assert not any(word in measured for word in ("eclared", "olicy", "7.4"))
    for part in ("epsilon 2", "at most 7.4 to 1", "randomized_response: its parameters come to 2",
                 "same labels Both compose to 2.5."):  # fmt: skip
        assert part in declared
    assert "Thrice" not in declared
    assert "Accepted: the declared epsilon is 2 (policy.max_epsilon: at most 2)" in ruled
    assert "on 4 February 2013" in ruled
    _, _, ruled = blocks((folder / "delays-broken.html").read_text("utf-8"))
    assert "Not accepted: the verdict is violated" in ruled


def test_blocks_say_what_is_not_known_and_claim_nothing_of_it(pages):
    silent = record(offset=1, verdict=Verdict.FAILED, dataset=None)
    old = record(epsilon_lower=0.0, epsilon_declared=2.0, verdict=Verdict.NOT_REFUTED)
    measured, declared, ruled = blocks(model_page(pages([old, silent])))
    assert "Not refuted, and never proven" in measured
    assert "could have proved at most 4.68" in measured
    assert "power" not in measured
    assert "It is not known who else was trained on them." in declared
    assert ruled.strip().endswith("No policy is set.")
    assert "No other audited model was trained on them." in model_page(pages([old]))
    _, declared, _ = blocks(model_page(pages([record()])))
    assert "Nothing is declared, and so nothing is promised." in declared


def test_a_night_of_one_model_hides_no_violation_of_another(pages):
    broken = record("old", verdict=Verdict.VIOLATED, epsilon_lower=3.0, epsilon_declared=1.0)
    mistyped = record("new", 9, verdict=Verdict.FAILED)
    text = words(pages([broken, record("new"), mistyped])["index.html"])
    assert "VIOLATED: old leaks at least 3.00, declared 1" in text
    assert text.index("violated") < text.index("failed")


def test_a_models_page_shows_its_own_other_secrets_alone(tmp_path):
    about = {"secret": "membership"}
    told = [record(name, reason=f"of {name}", **about) for name in ("a", "b")]
    both = dataclasses.replace(tables([record("a"), record("b")]), secrets=tuple(told))
    write_pages(both, tmp_path)
    text = (tmp_path / "models/a.html").read_text(encoding="utf-8")
    assert "of a<" in text
    assert "of b<" not in text


def test_a_record_of_a_wrong_year_neither_scales_nor_stretches_a_plot():
    last = record("a", epsilon_lower=1.5)
    history = History("a", (record("a", -TREND_LONGEST, epsilon_lower=50.0), last))
    assert history.since(TREND_LONGEST).nights == (last,)
    assert top_of_trend(history) < 50.0


def test_zero_is_a_result_with_a_mark_and_silence_has_none(pages):
    zero = record(epsilon_lower=0.0, epsilon_standing=0.0)
    silent = record(offset=1, verdict=Verdict.FAILED)
    text = model_page(pages([zero, silent]))
    plots = re.findall(r'<svg [^>]*class="plot [a-z]+".*?</svg>', text, re.DOTALL)
    assert len(plots) == 2
    for plot in plots:
        assert len(re.findall(r'<circle[^>]*fill="var\(--bound\)"', plot)) == 1


def test_a_report_without_records_says_so(pages):
    written = pages([])
    assert set(written) == {"index.html", "statistics.html"}
    assert "No audit has been recorded yet." in written["index.html"]


def test_the_pages_load_nothing_and_run_nothing(tmp_path):
    pages = list(write_pages(full_tables(50), tmp_path).parent.rglob("*.html"))
    assert len(pages) == 5  # the index, three models, and the statistics
    for path in pages:
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        assert "<script" not in text
        assert not re.search(r"\bsrc=", text)
        assert not [link for link in page.all("link") if link["href"] != "data:,"]
        assert not re.search(r"https?://(?!www\.w3\.org/)", text)
        assert "@import" not in text
        assert "url(" not in text
        policies = [m["content"] for m in page.all("meta") if "http-equiv" in m]
        assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_the_pages_stay_small(tmp_path):
    index = write_pages(full_tables(365), tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.rglob("*.html")}
    assert len(sizes) == 5
    assert max(sizes.values()) < 500_000
    # Of two hundred such models the page of the night has to stay under two million bytes.
    empty = write_pages(tables([]), tmp_path / "empty")
    one = (index.stat().st_size - empty.stat().st_size) / 3
    assert 200 * one < 1_800_000


def test_writing_reads_no_clock_no_order_and_no_later_columns(tmp_path):
    nights = three_models(3)
    one = write_pages(tables(nights), tmp_path / "one").parent
    shuffled = tables(list(reversed(nights)))
    later = shuffled.audits.with_columns(later=pl.lit(1))
    two = write_pages(dataclasses.replace(shuffled, audits=later), tmp_path / "two").parent
    names = sorted(path.relative_to(one) for path in one.rglob("*.html"))
    assert names == sorted(path.relative_to(two) for path in two.rglob("*.html"))
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names)


def test_two_records_of_one_day_are_refused():
    with pytest.raises(ValueError, match="two records"):
        history_of("twice", tables([record("twice"), record("twice")]).audits)


def test_pages_of_models_that_are_gone_are_removed_and_a_persons_own_are_not(tmp_path):
    root = write_pages(tables([record("old"), record("new")]), tmp_path / "deep" / "report").parent
    own = root / "models" / "notes.html"
    own.write_text("<p>mine</p>", encoding="utf-8")
    write_pages(tables([record("new")]), root)
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*.*")) == [
        "index.html",
        "models/new.html",
        "models/notes.html",
        "statistics.html",
    ]


def test_a_full_disk_is_told_with_the_page_and_nothing_unfinished_stays(tmp_path, monkeypatch):
    opened = pathlib.Path.open

    def full(path, mode="r", **more):
        if mode != "xb":
            return opened(path, mode, **more)
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")  # as writing says it, without a name

    monkeypatch.setattr(pathlib.Path, "open", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_pages(tables([record()]), tmp_path)
    assert pathlib.Path(caught.value.filename).parent.parent == tmp_path
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_an_audit_cannot_tell_is_one_click_away_from_every_page(pages):
    written = pages([record("ads")])
    link, anchor = "statistics.html#what-an-audit-cannot-tell", "what-an-audit-cannot-tell"
    assert f'href="{link}"' in written["index.html"]
    assert f'href="../{link}"' in written["models/ads.html"]
    (limits,) = (
        tag for tag, given in Page(written["statistics.html"]).elements if given.get("id") == anchor
    )
    assert limits == "h2"
    assert anchor in statistics()[1]


def test_a_path_is_shortened_to_its_corners_in_tenths():
    run = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, -0.5), (3.04, 1.0)]
    assert path_of([run]) == "M0,0h2v-.5l1,1.5"
    assert path_of([[(5.0, 5.0)], [], [(7.0, 7.0), (8.0, 9.0)]]) == "M5,5ZM7,7l1,2"
    assert path_of([[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)]]) == "M0,0h1h-1"
    assert path_of([[(0.0, 0.0), (1.2, 0.2), (2.2, 0.3)]], step=5) == "M0,0h1l1,.5"


def test_a_line_breaks_where_a_figure_is_missing():
    runs = list(unbroken([0.0, 1.0, 2.0, 4.0, 6.0], [1.0, math.nan, 3.0, 5.0, math.nan]))
    assert runs == [[(0.0, 1.0)], [(2.0, 3.0), (4.0, 5.0)]]


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_what_is_behind_them(scheme):
    folder = pathlib.Path(write_pages.__code__.co_filename).parent
    style = (folder / "templates" / "style.css").read_text(encoding="utf-8")
    palette = dict(
        re.findall(
            r"--([a-z0-9-]+): (#[0-9a-f]{6});", style.split(":root {")[1 + scheme].split("}")[0]
        )
    )
    texts = {"ink", "muted", "paper-text", "bound", "window", *(s.color for s in SIGNS.values())}
    for text in texts:
        assert contrast(palette[text], palette["page"]) >= 4.5, text
    assert contrast(palette["control"], palette["page"]) >= 3.0


def test_the_page_of_numbers_is_short_and_names_the_pages_behind_it(pages):
    page = source("reference/numbers.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        shown = re.sub(r"\]\([^)]*\)", "]", text).split()
        assert len(shown) <= 60, title
    shown = words(pages([record("ads")])["statistics.html"])
    named = set(re.findall(r"docs/[a-z/-]+\.md", shown))
    assert "docs/evidence/statistics.md" in named
    assert [path for path in named if not (ROOT / path).is_file()] == []


NIGHT = record("m", verdict=Verdict.NOT_REFUTED, epsilon_lower=0.1, epsilon_declared=1.0)


def promise(quantity, value, **changes):
    return PromiseRow(
        **identity(NIGHT.audit_id),
        guarantee="declared",
        quantity=quantity,
        value=value,
        source="s",
        **changes,
    )


def fair(value):
    return promise("success_bound", value, parameter=0.5)


def surest(achieved, fraction=0.1):
    return promise("correct_guesses", 80.0, parameter=fraction, guesses=100, achieved=achieved)


def test_the_surest_guesses_are_held_against_the_promise():
    rows = [fair(0.7310586), surest(61.25), surest(1.0, fraction=1.0)]
    assert nearness_sentence(NIGHT, rows) == (
        "Of its 100 surest guesses, an attacker has at most 80 right, with high confidence (95%); "
        "the audit\u2019s attack had 61.2 on average, within that."
    )
    assert "more than that" in nearness_sentence(NIGHT, [surest(88.0)])
    assert nearness_sentence(NIGHT, [fair(0.7310586)]) == ""


def test_the_page_shows_the_promises_of_the_latest_night_only(tmp_path):
    other = fair(0.9).model_copy(update={"audit_id": "other"})
    page = tmp_path / "models" / "m.html"
    write_pages(tables([NIGHT], [fair(0.6), other]), tmp_path)
    assert "<td>60%</td>" in page.read_text("utf-8")
    assert "90%" not in page.read_text("utf-8")
    write_pages(tables([NIGHT]), tmp_path)
    assert "60%" not in page.read_text("utf-8")
