"""The page in a real browser: no complaint of its console, light and dark, by keyboard alone, and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
        EarlierRun(f"{n}.json", f"2026-11-{n + 1:02}T12:00:00+00:00", status, 0, "GPU201 no-nvidia-gpu", 0.5)
        for n, status in enumerate([Status.FIT, Status.UNFIT, Status.UNKNOWN, Status.DEGRADED] * 3)
    )
    text = html_text(report(UNFIT, "gpu>=1", "cc>=9.0", "nvlink", tests=FAULTY), history)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shown(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        one.open(page)
        yield one


def test_the_page_says_everything_and_its_console_nothing(shown: Browser) -> None:
    titles = shown.tell("[...document.querySelectorAll('h2')].map(e => e.textContent)")
    assert titles == [
        "Machine", "Requirements", "Findings", "The right wheel, and why not the others", "GPU tests", "Earlier runs",
        "Checks",
    ]  # fmt: skip
    assert shown.tell("document.querySelector('h1').textContent") == "UNFIT"
    assert shown.tell("document.querySelectorAll('#smoke svg').length") == 4
    assert shown.tell("document.querySelectorAll('#history rect').length") == 12
    assert shown.tell("document.querySelectorAll('#smoke .badge.bad').length") == 2
    assert shown.complaints == []


def test_it_is_light_or_dark_as_the_reader_has_it(shown: Browser, tmp_path: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        shown.look(prefers_color_scheme=scheme)
        seen[scheme] = shown.tell("getComputedStyle(document.body).backgroundColor")
        assert contrast(shown, "body") > 7
        for tone in ("header h1", ".badge.good", ".badge.bad", ".quiet"):
            assert contrast(shown, tone) > 4.5, (scheme, tone)
        shown.screenshot(tmp_path / f"{scheme}.png")
    assert seen == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


def contrast(shown: Browser, selector: str) -> float:
    """Of a text with what is behind it (WCAG 2.2, contrast ratio)."""
    return float(
        shown.tell(f"""(() => {{
      const light = rgb => {{ const [r, g, b] = rgb.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; }};
      const element = document.querySelector('{selector}');
      let behind = element;
      while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
      const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
      return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05); }})()""")
    )


def test_everything_that_opens_or_scrolls_is_reached_with_the_keyboard(shown: Browser) -> None:
    shown.tell("document.activeElement.blur(); scrollTo(0, 0)")
    wanted = shown.tell(
        "[...document.querySelectorAll('a, summary, .scroll, pre')].filter(e => e.checkVisibility()).length"
    )
    reached = []
    for _ in range(wanted):
        shown.press("Tab", TAB)
        reached.append(shown.tell("document.activeElement.outerHTML.slice(0, 60)"))
        assert shown.tell("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached[0].startswith('<a class="skip"')
    assert sum(entry.startswith("<summary") for entry in reached) == shown.tell(
        "document.querySelectorAll('summary').length"
    )
    shown.tell("document.querySelector('summary').focus()")
    shown.press("Enter", ENTER)
    assert shown.tell("document.querySelector('details').open") is True
    shown.tell("document.querySelector('details').open = false")


def test_on_paper_everything_is_open(shown: Browser) -> None:
    hidden = "[...document.querySelectorAll('details ul, details table')].filter(e => !e.checkVisibility()).length"
    shown.look(media="screen")
    assert shown.tell(hidden) > 0
    shown.look(media="print", prefers_color_scheme="dark")
    assert shown.tell(hidden.replace("checkVisibility()", "getBoundingClientRect().height")) == 0
    assert shown.tell("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.paper().startswith(b"%PDF-")
    shown.look(media="screen")


def test_a_narrow_screen_scrolls_nothing_sideways(shown: Browser) -> None:
    shown.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    assert shown.tell("document.documentElement.scrollWidth") <= 360
    shown.call("Emulation.clearDeviceMetricsOverride")


def test_a_fit_machine_has_a_page_too(shown: Browser, tmp_path: Path) -> None:
    path = tmp_path / "fit.html"
    path.write_text(html_text(report(FIT)), encoding="utf-8")
    shown.open(path)
    assert shown.tell("document.querySelector('h1').textContent") == "FIT"
    assert shown.tell("document.querySelector('#findings p').textContent") == "None."
    assert shown.complaints == []
