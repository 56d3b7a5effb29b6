"""The HTML page of the matrix: every cell against the resolver, the markup, and the page in a real browser."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.matrix.candidates import TEGRA
from gpuenv.matrix.grid import MACHINE, build_grid
from gpuenv.matrix.resolve import choose, resolve
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.matrix_page import page
from tests.cli.program import gpuenv
from tests.report.browser import PROGRAM, browser
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuenv.model.resolution import Resolution
    from tests.report.browser import Browser

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
NO_WHEEL = "No wheel of CuPy fits."


@dataclass
class PageCell:
    """A cell as the page shows it."""

    name: str
    driver: str
    capability: str
    tone: str
    label: str = ""
    shown: str = ""
    answer: str = ""
    reasons: list[str] = field(default_factory=list)
    command: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        return tuple(re.findall(r"--assume (\S+)", self.command))


class PageParser(HTMLParser):
    """Reads the cells, anchors, links, and the header cells of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[PageCell] = []
        self.columns: list[str] = []
        self.column_titles: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.unscoped: list[str] = []
        self.fetched: list[str] = []
        self.open: list[tuple[str, dict[str, str]]] = []
        self.driver = ""
        self.place = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        self.fetched += [found[key] for key in ("src", "data", "action") if key in found]
        if tag == "th" and "scope" not in found:
            self.unscoped.append(str(found))
        if tag == "th" and "data-cc" in found:
            self.columns.append(found["data-cc"])
            self.column_titles.append(found["title"])
        if tag == "tr" and "data-driver" in found:
            self.driver, self.place = found["data-driver"], 0
        if tag == "td" and self.driver and found.get("id", "").startswith("driver-"):
            column = self.columns[self.place]
            self.cells.append(PageCell(found["id"], self.driver, column, found.get("class", "")))
            self.place += 1
        if tag == "a" and "aria-label" in found:
            self.cells[-1].label = found["aria-label"]
        if tag == "li":
            self.cells[-1].reasons.append("")
        if tag not in ("meta", "br", "link", "input"):
            self.open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag
        if tag == "table":
            self.driver = ""

    def handle_data(self, data: str) -> None:
        if not self.driver or not self.cells:
            return
        tags = [tag for tag, _ in self.open]
        classes = [attributes.get("class") for _, attributes in self.open]
        cell = self.cells[-1]
        if "why" not in classes and tags[-2:] == ["td", "a"]:
            cell.shown += data
        elif "answer" in classes:
            cell.answer += data
        elif "command" in classes:
            cell.command += data
        elif "li" in tags:
            cell.reasons[-1] += data


@pytest.fixture(scope="module")
def text() -> str:
    return page(MATRIX, build_grid(MATRIX))


@pytest.fixture(scope="module")
def parsed(text: str) -> PageParser:
    parser = PageParser()
    parser.feed(text)
    assert parser.open == []
    return parser


def resolution_of(facts: tuple[str, ...]) -> Resolution:
    return resolve(assume(Snapshot(), facts, MATRIX), MATRIX, wheels_only=True)


def assert_equals(cell: PageCell, resolution: Resolution) -> None:
    """The cell has the resolver's requirement, or its reasons against the newest release of every line."""
    wheel = resolution.wheel
    expected = " ".join(wheel.requirements) if wheel else NO_WHEEL
    assert cell.answer == expected
    assert cell.label.endswith(f": {expected if wheel else 'no wheel fits'}")
    short = wheel.distribution.removeprefix("cupy-cuda") if wheel else ""
    assert cell.shown.strip() == (short or "\N{EN DASH}")
    assert cell.tone == (f"line-{short}" if wheel else "")
    for reason in cell.reasons:
        assert_reason_is_the_resolvers(reason, resolution)
    named = {reason.partition(": ")[0] for reason in cell.reasons}
    if wheel is None:
        assert "No line" in named or len(named) == len(MATRIX.wheel_lines)
    else:
        newer = {line.name for line in MATRIX.wheel_lines if line.cuda_major > wheel.cuda_major}
        assert newer <= {re.split(r"[ \[]", name)[1] for name in named if name.startswith("Not ")}


def assert_reason_is_the_resolvers(reason: str, resolution: Resolution) -> None:
    """It is about the newest release of a line, and its rejections are those of this release."""
    subject, _, found = reason.partition(": ")
    fits = subject in ("Fits", "Also fits")
    if subject == "No line":
        candidates = [(line.name, line.releases[0].cupy) for line in MATRIX.wheel_lines]
    else:
        name, version = (found.partition(" (")[0] if fits else subject).removeprefix("Not ").split()
        candidates = [(name.partition("[")[0], version)]
    for candidate in candidates:
        newest = next(line.releases[0].cupy for line in MATRIX.wheel_lines if line.name == candidate[0])
        assert candidate[1] == newest
        rejected = {
            f"needs {entry.needed}, found {entry.found}"
            for entry in resolution.rejected
            if (entry.candidate.name, entry.candidate.version) == candidate
        }
        if fits:
            bare = {entry.candidate for entry in resolution.rejected if entry.candidate.extra is None}
            assert candidate not in {(entry.name, entry.version) for entry in bare}
        else:
            assert found.startswith("needs ")
            for part in re.split(r"; (?=needs )", found.removesuffix(".")):
                assert re.sub(r" \([^()]*(?:\([^()]*\)[^()]*)*\)$", "", part) in rejected


def test_every_cell_equals_the_answer_of_resolve_for_the_same_facts(parsed: PageParser) -> None:
    drivers = {cell.driver for cell in parsed.cells}
    assert len(parsed.cells) == len(drivers) * len(parsed.columns) > 500
    for cell in parsed.cells:
        assert set(cell.facts) >= {f"driver={cell.driver}", f"compute-capability={cell.capability}", *MACHINE[2:]}
        assert_equals(cell, resolution_of(cell.facts))
    sys.stdout.write(f"{len(parsed.cells)} cells equal the resolver's answers\n")


def test_the_cells_cover_every_branch_and_every_capability_of_a_product(parsed: PageParser) -> None:
    sold = {product.compute_capability for product in MATRIX.products} - TEGRA
    assert set(parsed.columns) == set(map(str, sold))
    branches = {cell.name.partition("-cc-")[0] for cell in parsed.cells}
    assert {f"driver-{row.branch}" for row in MATRIX.driver_branches} <= branches


def test_the_python_of_the_page_is_the_newest_with_wheels_in_every_line() -> None:
    newest = [set(line.releases[0].pythons) for line in MATRIX.wheel_lines]
    common = max(int(tag[3:]) for tag in set.intersection(*newest) if tag[3:].isdigit())
    assert f"python=3.{common}" in MACHINE


def test_the_rows_of_a_branch_hold_for_all_its_releases(parsed: PageParser) -> None:
    """As the page says: the answers for any later release are those of the last row that is no newer."""
    for row in MATRIX.driver_branches:
        cells = [cell for cell in parsed.cells if cell.driver.partition(".")[0] == str(row.branch)]
        newest = cells[: len(parsed.columns)]  # the newest row comes first
        for cell in newest[::4]:
            facts = tuple(f"driver={row.branch}.999.99" if "driver=" in fact else fact for fact in cell.facts)
            wheel = choose(assume(Snapshot(), facts, MATRIX), MATRIX)
            assert cell.answer == (" ".join(wheel.requirements) if wheel else NO_WHEEL), facts


def test_branch_450_has_a_row_for_each_release_that_admits_another_line(parsed: PageParser) -> None:
    cells = {cell.name: cell.shown for cell in parsed.cells if cell.capability == "7.0"}
    rows = ("driver-450.80.02-cc-7.0", "driver-450.51.05-cc-7.0", "driver-450-cc-7.0", "driver-440-cc-7.0")
    assert [cells[name] for name in rows] == ["11x", "110", "102", "102"]


def test_the_legend_and_the_colours_have_every_wheel_line(text: str) -> None:
    legend = text.partition('<h2 id="lines">')[2].partition("</table>")[0]
    for line in MATRIX.wheel_lines:
        short = line.name.removeprefix("cupy-cuda")
        assert f'<span class="chip line-{short}">{short}</span>' in legend
        assert f".line-{short} {{ background: var(--{short})" in text


def test_every_link_of_the_page_leads_to_an_anchor_in_it(parsed: PageParser) -> None:
    assert len(parsed.ids) == len(set(parsed.ids))
    assert [link for link in parsed.links if not link.startswith("#") or unquote(link[1:]) not in parsed.ids] == []
    assert sum(link.startswith("#source-") for link in parsed.links) > len(parsed.cells)
    assert "#driver-580-cc-9.0" in parsed.links


def test_the_columns_name_gpus_of_their_capability(parsed: PageParser) -> None:
    titles = dict(zip(parsed.columns, parsed.column_titles, strict=True))
    for product in MATRIX.products:
        if product.compute_capability not in TEGRA:
            assert product.name in titles[str(product.compute_capability)].split(", ")


def test_the_page_fetches_nothing_and_names_its_header_cells(text: str, parsed: PageParser) -> None:
    assert parsed.fetched == []
    assert not re.search(r"url\(|@import|https?://", text.partition('id="models"')[0])
    assert parsed.unscoped == []
    assert "prefers-color-scheme: dark" in text


def test_names_from_the_matrix_are_escaped() -> None:
    mark = '<script>x</script>"&'
    matrix = replace(
        MATRIX,
        revision=mark,
        products=tuple(row._replace(name=f"{row.name} {mark}") for row in MATRIX.products),
        sources={name: row._replace(note=mark, title=mark, file=mark) for name, row in MATRIX.sources.items()},
    )
    text = page(matrix, build_grid(matrix))
    assert "<script>x" not in text
    assert text.count("<script>") == 1


def _contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""

    def luminance(color: str) -> float:
        digits = color if len(color) == 6 else "".join(2 * digit for digit in color)
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    values = sorted((luminance(one), luminance(other)))
    return (values[1] + 0.05) / (values[0] + 0.05)


def test_the_colours_have_enough_contrast_and_differ_in_light_and_dark_mode(text: str) -> None:
    schemes = [
        dict(re.findall(r"--(\w+): #([0-9a-f]{3,6})", part)) for part in re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    ]
    assert len(schemes) == 2
    lines = [line.name.removeprefix("cupy-cuda") for line in MATRIX.wheel_lines]
    for colors in schemes:
        assert len({colors[name] for name in ("paper", "none", *lines)}) == len(lines) + 2
        for name in ("paper", "none", *lines):
            assert _contrast(colors["ink"], colors[name]) >= 4.5
        for name in ("soft", "mark"):
            assert _contrast(colors[name], colors["paper"]) >= 4.5


@pytest.fixture(scope="module")
def opened(text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    path = tmp_path_factory.mktemp("page") / "matrix.html"
    path.write_text(text, encoding="utf-8")
    with browser(tmp_path_factory.mktemp("browser")) as found:
        found.open(path)
        yield found, path


@needs_browser
def test_arrow_keys_move_between_cells_and_show_their_reasons(opened: tuple[Browser, Path], parsed: PageParser) -> None:
    tab, _ = opened
    columns, drivers = parsed.columns, list(dict.fromkeys(cell.driver for cell in parsed.cells))
    tab.evaluate("document.querySelector('.grid td > a').focus()")
    seen = []
    for key, code in (("ArrowRight", 39), ("ArrowDown", 40), ("End", 35), ("ArrowRight", 39)):
        tab.press(key, code)
        seen.append(tab.evaluate("document.querySelector('#reason strong').textContent"))
    places = ((0, 1), (1, 1), (1, -1), (1, -1))
    for title, (row, column) in zip(seen, places, strict=True):
        assert title.startswith(f"Driver {drivers[row]}, ")
        assert title.endswith(f" {columns[column]}")
    assert tab.evaluate("location.hash").endswith(f"-cc-{columns[-1]}")
    assert tab.evaluate("document.querySelectorAll('.grid td > a[tabindex=\"0\"]').length") == 1
    tab.press("Escape", 27)
    assert tab.evaluate("document.getElementById('reason').hidden")
    assert tab.errors == []


@needs_browser
@pytest.mark.parametrize(
    ("words", "driver", "capability"),
    [
        ("RTX 3090 535", "535.54.03", "8.6"),
        ("nvidia h100 80gb 550.163.01", "550.54.14", "9.0"),
        ("V100 450.100.02", "450.80.02", "7.0"),
        ("hopper R580", "580.65.06", "9.0"),
        ("V100 450.51", "450.51.05", "7.0"),
    ],
)
def test_the_search_shows_the_cell_of_a_gpu_and_a_driver(
    words: str, driver: str, capability: str, opened: tuple[Browser, Path]
) -> None:
    tab, _ = opened
    assert search(tab, words) == f"{driver} {capability}"


@needs_browser
def test_a_number_alone_is_a_driver_branch(opened: tuple[Browser, Path], parsed: PageParser) -> None:
    tab, _ = opened
    for words in ("580", "driver 580", "550"):
        shown = search(tab, words).split()
        assert [text for text in shown if text.count(".") == 2] == [shown[0]]
        assert shown[0].startswith(words[-3:])
        assert len(shown) == 1 + len(parsed.columns)
    search(tab, "525.60.11")
    note = tab.evaluate("document.getElementById('matches').textContent")
    assert note == "525.60.11 is older than the first known release of its branch."


@needs_browser
def test_the_search_says_that_an_old_gpu_is_not_in_the_table(opened: tuple[Browser, Path], parsed: PageParser) -> None:
    tab, _ = opened
    shown = search(tab, "GTX 580")  # 580 is a driver branch too
    assert len(shown.split()) > len(parsed.columns)
    assert "GeForce GTX 580 (2.0)" in tab.evaluate("document.getElementById('matches').textContent")
    search(tab, "")
    assert tab.evaluate("document.getElementById('matches').textContent") == ""


def search(tab: Browser, words: str) -> str:
    """Drivers and capabilities that a search leaves visible."""
    return str(
        tab.evaluate(
            f"""(() => {{
            const box = document.getElementById('search');
            box.value = {words!r};
            box.dispatchEvent(new Event('input'));
            const seen = found => [...document.querySelectorAll(found)].filter(entry => entry.offsetParent);
            return [...seen('.grid tbody tr').map(row => row.dataset.driver),
                    ...seen('.grid th[data-cc]').map(cell => cell.dataset.cc)].join(' ');
            }})()"""
        )
    )


@needs_browser
def test_a_permalink_shows_its_reason_also_without_scripts(opened: tuple[Browser, Path], tmp_path: Path) -> None:
    _, path = opened
    with browser(tmp_path) as tab:
        for off in (False, True):
            tab.call("Emulation.setScriptExecutionDisabled", value=off)
            tab.call("Page.navigate", url=f"{path.as_uri()}#driver-580-cc-7.0")
            panel = ".grid td:target .why" if off else "#reason"
            while "cupy-cuda12x[ctk]==" not in (tab.evaluate(f"document.querySelector('{panel}')?.innerText") or ""):
                pass
            tab.call("Page.navigate", url="about:blank")


@needs_browser
def test_a_phone_scrolls_the_table_and_not_the_page(opened: tuple[Browser, Path]) -> None:
    tab, path = opened
    tab.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    tab.open(path)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert tab.evaluate("document.getElementById('grid').scrollWidth") > 390
    tab.call("Emulation.clearDeviceMetricsOverride")


def test_the_command_line_writes_the_page_to_a_file(tmp_path: Path) -> None:
    assert gpuenv("matrix", "show", "--format", "html", "-o", tmp_path / "m.html").returncode == 0
    assert (tmp_path / "m.html").read_text(encoding="utf-8").startswith("<!doctype html>")
