"""The page as Chromium shows it; skipped where there is no Chromium."""

import datetime as dt
import pathlib

import polars as pl
import pytest
from playwright.sync_api import sync_playwright

from flows.report import write_report
from workers.records import AuditRow

CHROMIUM = pathlib.Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed")

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
VERDICTS = {
    "delays-plain": ("undeclared", None),
    "delays-private": ("consistent", 2.0),
    "a-model-whose-name-is-far_too_long_for_any_phone_and_has_few_places_to_break": (
        "violated",
        0.5,
    ),
}


def audits():
    rows = [
        AuditRow(
            audit_id=f"{model}{offset}",
            method_version="1",
            code_version="0",
            seed=1,
            target_sha256=None,
            proxy_sha256=None,
            labels_digest=None,
            model=model,
            day=dt.date(2013, 2, 1) + dt.timedelta(days=offset),
            recorded_at=dt.datetime(2013, 3, 1, tzinfo=dt.UTC),
            status="evaluated",
            verdict=verdict,
            reason="a reason",
            records=740,
            epsilon_lower=0.7 + 0.05 * offset,
            epsilon_ceiling=4.7,
            epsilon_calibrated=0.6,
            epsilon_paper=2.5,
            control_epsilon_lower=0.2 if offset == 5 else 0.0,
            epsilon_declared=declared,
            plan="{}",
        )
        for model, (verdict, declared) in VERDICTS.items()
        for offset in range(14)
    ]
    return pl.DataFrame([row.model_dump(mode="python") for row in rows], infer_schema_length=None)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(audits(), tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_silently_and_fits(chromium, report, width, scheme):
    page = chromium.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri(), wait_until="networkidle")

    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plots = page.locator("section.model").locator("svg[role=img]:visible")
    assert plots.count() == len(VERDICTS)
    for plot in plots.all():
        box = plot.bounding_box()
        assert box["width"] > 0.8 * min(width, 700)
        assert box["height"] > 200
    page.close()


def test_the_plot_takes_its_colours_from_the_page(chromium, report):
    seen = set()
    for scheme in ("light", "dark"):
        page = chromium.new_page(color_scheme=scheme)
        page.goto(report.as_uri())
        bar = page.locator('svg.plot.wide [fill="var(--bound-fill)"]').first
        seen.add(bar.evaluate("element => getComputedStyle(element).fill"))
        page.close()
    assert len(seen) == 2
    assert "rgb(0, 0, 0)" not in seen


def test_nothing_in_the_plot_leaves_the_page(chromium, report):
    page = chromium.new_page(viewport={"width": 1280, "height": 844})
    page.goto(report.as_uri())
    right = page.evaluate("document.querySelector('.night').getBoundingClientRect().right")
    ends = page.locator("svg.plot.wide text").evaluate_all(
        "texts => texts.map(text => text.getBoundingClientRect().right)"
    )
    assert len(ends) > 20
    assert max(ends) <= right + 24
    page.close()


def test_the_numbers_can_be_opened_by_keyboard(chromium, report):
    page = chromium.new_page()
    page.goto(report.as_uri())
    numbers = page.locator("details").first
    numbers.locator("summary").focus()
    page.keyboard.press("Enter")
    assert numbers.locator("tbody tr").count() == 14
    assert numbers.locator("table").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "scroll"
    page.close()


def test_the_numbers_are_printed_though_folded(chromium, report):
    page = chromium.new_page(viewport={"width": 700, "height": 1000})
    page.emulate_media(media="print")
    page.goto(report.as_uri())
    assert page.locator("details table").first.bounding_box()["height"] > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.close()
