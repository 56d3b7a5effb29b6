"""Parsers of every report format, independent of gpuenv where possible."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import prometheus_client.parser
from jsonschema import Draft4Validator
from junitparser import JUnitXml
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """The content of a report in one format; None for what the format does not have.

    Attributes:
        status: fit, degraded, unfit or unknown.
        exit_code: the exit code.
        findings: code and cause of each.
        primary: code of the finding to fix first.
        requirements: text and status of each.
        text: all of its text, in which the facts of the machine are looked up.
    """

    status: str | None
    exit_code: int | None
    findings: frozenset[tuple[str, str]]
    primary: str | None
    requirements: frozenset[tuple[str, str]] | None
    text: str


def from_json(path: Path) -> ParsedReport:
    data = json.loads(path.read_text(encoding="utf-8"))
    return ParsedReport(
        status=data["status"],
        exit_code=data["exit_code"],
        findings=frozenset((f["code"], f["cause"]) for f in data["findings"]),
        primary=next((f["code"] for f in data["findings"] if f["primary"]), None),
        requirements=frozenset((r["text"], r["status"]) for r in data["requirements"]),
        text=json.dumps(data, ensure_ascii=False),
    )


_WORDS = {"FIT": "fit", "FIT, with warnings": "degraded", "UNFIT": "unfit", "UNKNOWN": "unknown"}
_REQUIRED = {"met": "met", "NOT MET": "violated", "not met": "violated", "unknown": "unknown"}


def from_text(path: Path) -> ParsedReport:
    text = path.read_text(encoding="utf-8")
    required = re.findall(r"^  (met|NOT MET|unknown) +(\S.*?): (?:found|undetermined:) ", text, re.MULTILINE)
    code = re.search(r"exit code (\d+)\.$", text)
    first = re.search(r"^Fix this first\n  (\S+)", text, re.MULTILINE)
    return ParsedReport(
        status=_WORDS[text.split(":", 1)[0]],
        exit_code=int(code[1]) if code else None,
        findings=frozenset(
            re.findall(r"^  ([A-Z]{3}\d{3}) ([a-z0-9-]+)(?: \(follows from \S+\))?$", text, re.MULTILINE)
        ),
        primary=first[1] if first else None,
        requirements=frozenset((name, _REQUIRED[word]) for word, name in required),
        text=text,
    )


def from_junit(path: Path) -> ParsedReport:
    suites = JUnitXml.fromfile(str(path))
    (suite,) = list(suites)
    properties = {entry.name: entry.value for entry in suite.properties()}  # type: ignore[no-untyped-call]
    cases = {(case.classname, case.name): case for case in suite}
    verdict = cases["gpuenv", "verdict"].result
    text = "\n".join([path.read_text(encoding="utf-8"), *(str(value) for value in properties.values())])
    failed = [result for result in verdict if result.type in ("unfit", "unknown")]
    assert [result.type for result in failed] == ([properties["status"]] if failed else [])
    assert suite.failures + suite.errors == sum(
        any(type(r).__name__ in ("Failure", "Error") for r in case.result) for case in suite
    )
    texts = "\n".join(f"{r.text or ''}" for case in suite for r in case.result)
    texts += "\n".join(case.system_out or "" for case in suite)
    kinds = {"requirement-not-met": "violated", "unknown": "unknown"}
    required = {
        (case.name, kinds[case.result[0].type] if case.result else "met")
        for case in suite
        if case.classname == "gpuenv.requirement"
    }
    findings = set(re.findall(r"^([A-Z]{3}\d{3}) ([a-z0-9-]+) \((?:error|warning|note)\): ", texts, re.MULTILINE))
    if any(status == "violated" for _, status in required):
        findings.add(("REQ801", "requirement-not-met"))
    return ParsedReport(
        properties["status"],
        int(properties["exit_code"]),
        frozenset(findings),
        None,
        frozenset(required),
        unescape(text),
    )


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner parses them; every line must be one."""
    parsed = []
    for line in text.splitlines():
        match = re.fullmatch(r"::(error|warning|notice) (.*?)::(.*)", line)
        assert match, f"no workflow command: {line[:80]!r}"
        pairs = dict(part.split("=", 1) for part in match[2].split(","))
        parsed.append((match[1], {k: unquote(v) for k, v in pairs.items()}, unquote(match[3])))
    return parsed


def from_github(path: Path) -> ParsedReport:
    parsed = commands(path.read_text(encoding="utf-8"))
    title = parsed[-1][1]["title"]
    match = re.fullmatch(r"gpuenv: (.*) \(exit code (\d+)\)", title)
    assert match
    findings = [(p["title"], body) for _, p, body in parsed if re.fullmatch(r"[A-Z]{3}\d{3} [a-z0-9-]+", p["title"])]
    first = next((name.split()[0] for name, body in findings if body.startswith("Fix this first: ")), None)
    required = re.findall(r"^(met|not met|unknown): (.*?): (?:found|undetermined:) ", parsed[-1][2], re.MULTILINE)
    return ParsedReport(
        status=_WORDS[match[1]],
        exit_code=int(match[2]),
        findings=frozenset((name.split()[0], name.split()[1]) for name, _ in findings),
        primary=first,
        requirements=frozenset((name, _REQUIRED[word]) for word, name in required),
        text="\n".join(body for _, _, body in parsed),
    )


def from_gitlab(path: Path) -> ParsedReport:
    issues = json.loads(path.read_text(encoding="utf-8"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    for issue in issues:
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["description"]
        assert not issue["location"]["path"].startswith(("/", "."))
        assert issue["location"]["lines"]["begin"] >= 1
    names = [(issue["check_name"].split(" "), issue["severity"]) for issue in issues]
    findings = frozenset((parts[0], parts[1]) for parts, _ in names if len(parts) == 2)
    first = next((parts[0] for parts, severity in names if severity == "blocker"), None)
    return ParsedReport(None, None, findings, first, None, json.dumps(issues, ensure_ascii=False))


@cache
def sarif() -> Draft4Validator:
    """The published schema."""
    path = Path(__file__).with_name("schemas") / "sarif-2.1.0-rtm.5.json"
    return Draft4Validator(json.loads(path.read_text(encoding="utf-8")), format_checker=Draft4Validator.FORMAT_CHECKER)


def from_sarif(path: Path) -> ParsedReport:
    data = json.loads(path.read_text(encoding="utf-8"))
    sarif().validate(data)
    (run,) = data["runs"]
    (invocation,) = run["invocations"]
    rules = run["tool"]["driver"]["rules"]
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in rules}
    required = [
        re.fullmatch(r"(met|not met|unknown): (.*?): (?:found|undetermined:) .*", text)
        for text in run["properties"]["requirements"]
    ]
    return ParsedReport(
        status=run["properties"]["status"],
        exit_code=invocation["exitCode"],
        findings=frozenset((r["ruleId"], r["properties"]["cause"]) for r in run["results"]),
        primary=next((r["ruleId"] for r in run["results"] if r["properties"]["primary"]), None),
        requirements=frozenset((match[2], _REQUIRED[match[1]]) for match in required if match),
        text=json.dumps(data, ensure_ascii=False),
    )


def from_prometheus(path: Path) -> ParsedReport:
    text = path.read_text(encoding="utf-8")
    families = list(prometheus_client.parser.text_string_to_metric_families(text))
    samples: dict[str, list[Any]] = {family.name: family.samples for family in families}
    assert len(samples) == len(families)
    statuses = [s.labels["status"] for s in samples["gpuenv_status"] if s.value == 1]
    findings = samples.get("gpuenv_finding_info", [])
    required = samples.get("gpuenv_requirement_status", [])
    labels = "\n".join(value for family in families for s in family.samples for value in s.labels.values())
    return ParsedReport(
        status=statuses[0],
        exit_code=int(samples["gpuenv_exit_code"][0].value),
        findings=frozenset((s.labels["code"], s.labels["cause"]) for s in findings),
        primary=next((s.labels["code"] for s in findings if s.labels["primary"] == "true"), None),
        requirements=frozenset((s.labels["requirement"], s.labels["status"]) for s in required if s.value == 1),
        text=labels,
    )


def from_markdown(path: Path) -> ParsedReport:
    text = path.read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert not [token for token in tokens if token.type == "html_block"]
    inline = [token for token in tokens if token.type == "inline"]
    children = [child for token in inline for child in token.children or ()]
    assert {child.type for child in children} & {"html_inline", "image", "link_open"} == set()
    plain = ["".join(child.content for child in token.children or ()) for token in inline]
    findings = [re.match(r"([A-Z]{3}\d{3}) ([a-z0-9-]+) \((.*?)\): ", line) for line in plain]
    code = next(int(match[1]) for line in plain if (match := re.search(r"Exit code (\d+)\.", line)))
    required = []
    section = plain.index("Requirements") if "Requirements" in plain else len(plain)
    for number, line in enumerate(plain):
        if line in ("met", "not met", "unknown") and section < number < len(plain) - 1:
            required.append((plain[number + 1], _REQUIRED[line]))
    return ParsedReport(
        status=_WORDS[plain[0].removeprefix("gpuenv: ")],
        exit_code=code,
        findings=frozenset((match[1], match[2]) for match in findings if match),
        primary=next((match[1] for match in findings if match and "fix this first" in match[3]), None),
        requirements=frozenset(required),
        text="\n".join(plain).replace("\u200b", ""),
    )


class _Page(HTMLParser):
    """The text of a page by section, and the elements that could load or run something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.section = "header"
        self.cells: list[tuple[str, str, str]] = []
        self.forbidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "iframe", "link", "img", "object", "form") or any(key.startswith("on") for key in values):
            self.forbidden.append(tag)
        if any(key in ("src", "action") or (key == "href" and not str(value).startswith("#")) for key, value in attrs):
            self.forbidden.append(f"{tag} {attrs}")
        if tag == "section":
            self.section = str(values.get("id"))
        if tag not in ("meta", "br", "link", "img", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.cells.append((self.section, self.open[-1], data))


def from_html(path: Path) -> ParsedReport:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.forbidden == []
    heading = next(text for section, tag, text in page.cells if tag == "h1")
    code = next(int(m[1]) for _, _, text in page.cells if (m := re.search(r"exit code (\d+)", text)))
    findings = [text for section, _, text in page.cells if section == "findings"]
    pairs = [(a, b) for a, b in zip(findings, findings[1:] + [""], strict=True)]
    codes = {
        (a, c)
        for (a, b), c in zip(pairs, [*findings[2:], "", ""], strict=True)
        if re.fullmatch(r"[A-Z]{3}\d{3}", a) and b == " "
    }
    first = next((findings[n + 2] for n, text in enumerate(findings) if text == "fix this first"), None)
    required = [text for section, _, text in page.cells if section == "requirements"]
    parsed = [(required[n + 1], _REQUIRED[text]) for n, text in enumerate(required[:-1]) if text in _REQUIRED]
    return ParsedReport(
        status=_WORDS[heading],
        exit_code=code,
        findings=frozenset(codes),
        primary=first,
        requirements=frozenset(parsed),
        text="\n".join(text for _, _, text in page.cells),
    )


READERS: dict[str, Callable[[Path], ParsedReport]] = {
    "text": from_text,
    "json": from_json,
    "junit": from_junit,
    "github": from_github,
    "gitlab": from_gitlab,
    "sarif": from_sarif,
    "prometheus": from_prometheus,
    "markdown": from_markdown,
    "html": from_html,
}
