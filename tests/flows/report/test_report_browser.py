"""The pages as Chromium shows them; skipped where there is no Chromium."""

import pathlib
import re
import shutil
import subprocess

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from flows.report.site import write_pages
from privcore.lower_bounds.verdicts import Verdict
from tests.support.look import differences
from tests.support.report import everything_beside, record, tables, three_models
from tests.support.tiers import rest_slow, tiered

CHROMIUM = pathlib.Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed")

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
APPROVED = pathlib.Path(__file__).with_name("approved")
LONG = "a-model-whose-name-is-far_too_long_for-any-phone.and-has-few-places-to-break"
BROKEN = "models/delays-broken.html"
PAGES = [BROKEN, "index.html", f"models/{LONG}.html", "models/silent.html", "statistics.html"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of four verdicts, with nights enough for a trend, a silent model and a long name."""
    nights = three_models(45)
    silent = [record("silent", 44, Verdict.FAILED, reason="No labels for the day.")]
    drifting = [
        record(LONG, day, Verdict.INCONCLUSIVE, epsilon_declared=0.5, control_epsilon_lower=0.4)
        for day in range(30, 45)
    ]
    beside = [row for night in nights[-3:] for row in everything_beside(night)]
    folder = tmp_path_factory.mktemp("report")
    return write_pages(tables(nights + silent + drifting, beside), folder).parent


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, report):
    """Open a page of the report, and check at the end that it was silent and alone."""
    contexts, said, asked = [], [], []

    def opening(name, *, width=1280, scheme="light", script=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((report / name).as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert said == []
    assert all(url.startswith((report.as_uri(), "data:")) for url in asked)


@pytest.mark.parametrize("name", rest_slow(PAGES))
def test_a_page_opens_silently_and_fits(opened, name):
    for width in (390, 1280):
        page = opened(name, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for plot in page.locator("svg[role=img]:visible").all():
            box = plot.bounding_box()
            assert box["width"] > 150
            assert box["height"] > 50
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width


@pytest.mark.slow
@pytest.mark.parametrize(("name", "plots"), [("index.html", 4), (BROKEN, 1)])
def test_the_plots_are_seen_without_scripts(opened, name, plots):
    page = opened(name, script=False)
    assert page.locator("svg[role=img]:visible").count() == plots
    marks = page.locator("svg[role=img]:visible").first.locator("path, line, text")
    assert marks.count() > 8


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(opened, name):
    page = opened(name)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = Axe().run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
    assert len(found.response["passes"]) > 15


@pytest.mark.slow
def test_a_text_in_a_plot_follows_the_scheme(opened):
    seen = set()
    for scheme in ("light", "dark"):
        text = opened(BROKEN, scheme=scheme).locator("svg.plot.wide text").first
        seen.add(text.evaluate("element => getComputedStyle(element).fill"))
    assert len(seen) == 2
    assert "rgb(0, 0, 0)" not in seen


@pytest.mark.slow
def test_nothing_in_a_plot_leaves_the_page(opened):
    page = opened(BROKEN)
    right = page.evaluate("document.querySelector('main').getBoundingClientRect().right")
    ends = page.locator("svg.plot:visible text").evaluate_all(
        "texts => texts.map(text => text.getBoundingClientRect().right)"
    )
    assert len(ends) > 8
    assert max(ends) <= right + 24


def test_everything_is_reached_by_keyboard(opened):
    page = opened("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    page.wait_for_url("**#main")
    for _ in range(30):
        page.keyboard.press("Tab")
        if "models/" in (page.evaluate("document.activeElement.getAttribute('href')") or ""):
            break
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/models/*.html")
    numbers = page.locator("details").first
    numbers.locator("summary").focus()
    page.keyboard.press("Enter")
    assert numbers.locator("table").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "scroll"


@pytest.mark.slow
def test_a_number_leads_to_its_paragraph(opened):
    page = opened(BROKEN)
    page.locator("#attack ~ p .how").click()
    page.wait_for_url("**/statistics.html#audit_bounds")
    assert -5 < page.locator("#audit_bounds").bounding_box()["y"] < 200


@pytest.mark.parametrize("name", rest_slow([BROKEN, f"models/{LONG}.html", "models/silent.html"]))
def test_a_model_is_printed_on_one_sheet(opened, name):
    printed = opened(name).pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1


@pytest.mark.slow
def test_the_night_is_printed_within_its_sheets(opened):
    page = opened("index.html", width=718)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert page.locator(".multiples svg.plot").first.bounding_box()["width"] > 150


def _has_the_approved_font():
    found = shutil.which("fc-list") and subprocess.run(
        ["fc-list", "Liberation Sans"], capture_output=True, check=False
    )
    return bool(found and found.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not _has_the_approved_font(), reason="fonts-liberation is not installed")
@pytest.mark.parametrize(
    ("name", "width"),
    tiered(
        [("index.html", 390), (BROKEN, 1280), ("index.html", 1280), (BROKEN, 390)], always=2, slow=2
    ),
)
def test_a_page_looks_as_approved(opened, name, width):
    page = opened(name, width=width)
    approved = APPROVED / f"{pathlib.Path(name).stem}-{width}.png"
    assert differences(page.screenshot(full_page=True), approved) == ""
