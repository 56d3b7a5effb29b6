"""The page in a real browser: console, color schemes, keyboard and print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.report.docs_site import with_docs_url
from gpuenv.report.html import EarlierRun, html_text
from gpuenv.report.report import Status
from tests.cli.snapshots import FIT, UNFIT
from tests.report.browser import PROGRAM, browser
from tests.report.sample_reports import FAULTY, report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.report.browser import Browser

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
TAB, ENTER = 9, 13


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = tuple(
        EarlierRun(f"{n}.json", f"2026-11-{n + 1:02}T12:00:00+00:00", status, "GPU201 no-nvidia-gpu", 0.5)
        for n, status in enumerate([Status.FIT, Status.UNFIT, Status.UNKNOWN, Status.DEGRADED] * 3)
    )
    shown = report(UNFIT, "gpu>=1", "cc>=9.0", "nvlink", tests=FAULTY)
    linked = with_docs_url(shown.findings, "https://docs.research-computing.example.org/software/gpuenv/")
    text = html_text(shown._replace(findings=linked), history)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser_page(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        opened.open(page)
        yield opened


def test_the_page_has_every_section_and_no_console_error(browser_page: Browser) -> None:
    titles = browser_page.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)")
    assert titles == [
        "Machine", "Requirements", "Findings", "The right wheel, and why not the others", "GPU tests", "Earlier runs",
        "Checks",
    ]  # fmt: skip
    assert browser_page.evaluate("document.querySelector('h1').textContent") == "UNFIT"
    assert browser_page.evaluate("document.querySelectorAll('#smoke svg').length") == 4
    assert browser_page.evaluate("document.querySelectorAll('#history rect').length") == 12
    assert browser_page.evaluate("document.querySelectorAll('#smoke .badge.bad').length") == 2
    assert browser_page.errors == []


def test_the_page_follows_the_preferred_color_scheme(browser_page: Browser, tmp_path: Path) -> None:
    backgrounds = {}
    for scheme in ("light", "dark"):
        browser_page.emulate(prefers_color_scheme=scheme)
        backgrounds[scheme] = browser_page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert contrast(browser_page, "body") > 7
        for tone in ("header h1", ".badge.good", ".badge.bad", ".quiet", "article a"):
            assert contrast(browser_page, tone) > 4.5, (scheme, tone)
        browser_page.screenshot(tmp_path / f"{scheme}.png")
    assert backgrounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


def contrast(browser_page: Browser, selector: str) -> float:
    """The contrast ratio of a text and its background (WCAG 2.2)."""
    return float(
        browser_page.evaluate(f"""(() => {{
      const light = rgb => {{ const [r, g, b] = rgb.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; }};
      const element = document.querySelector('{selector}');
      let behind = element;
      while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
      const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
      return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05); }})()""")
    )


def test_every_interactive_element_is_reached_with_the_keyboard(browser_page: Browser) -> None:
    browser_page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    count = browser_page.evaluate(
        "[...document.querySelectorAll('a, summary, .scroll, pre')].filter(e => e.checkVisibility()).length"
    )
    reached = []
    for _ in range(count):
        browser_page.press("Tab", TAB)
        reached.append(browser_page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
        assert browser_page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached[0].startswith('<a class="skip"')
    assert sum(entry.startswith("<summary") for entry in reached) == browser_page.evaluate(
        "document.querySelectorAll('summary').length"
    )
    browser_page.evaluate("document.querySelector('summary').focus()")
    browser_page.press("Enter", ENTER)
    assert browser_page.evaluate("document.querySelector('details').open") is True
    browser_page.evaluate("document.querySelector('details').open = false")


def test_a_printed_page_shows_all_details(browser_page: Browser) -> None:
    hidden_count = (
        "[...document.querySelectorAll('details ul, details table')].filter(e => !e.checkVisibility()).length"
    )
    browser_page.emulate(media="screen")
    assert browser_page.evaluate(hidden_count) > 0
    browser_page.emulate(media="print", prefers_color_scheme="dark")
    assert browser_page.evaluate(hidden_count.replace("checkVisibility()", "getBoundingClientRect().height")) == 0
    assert browser_page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser_page.print_to_pdf().startswith(b"%PDF-")
    browser_page.emulate(media="screen")


def test_a_narrow_screen_does_not_scroll_sideways(browser_page: Browser) -> None:
    browser_page.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= 360
    browser_page.call("Emulation.clearDeviceMetricsOverride")


def test_a_fit_machine_has_a_page_without_findings(browser_page: Browser, tmp_path: Path) -> None:
    path = tmp_path / "fit.html"
    path.write_text(html_text(report(FIT)), encoding="utf-8")
    browser_page.open(path)
    assert browser_page.evaluate("document.querySelector('h1').textContent") == "FIT"
    assert browser_page.evaluate("document.querySelector('#findings p').textContent") == "None."
    assert browser_page.errors == []
