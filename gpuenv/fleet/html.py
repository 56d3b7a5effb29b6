"""A fleet as one self-contained HTML page: nodes to drain, findings, groups, wheels, and every node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gpuenv.fleet.node_sets import fold_nodes
from gpuenv.fleet.text import difference_text, service_lines, status_text
from gpuenv.model.documents import Fleet, FleetFinding, FleetGroup
from gpuenv.report.html_page import badge, code, escaped, page, section, table
from gpuenv.report.text_line import Style, counted

_TONES = {"fit": "good", "degraded": "warn", "unfit": "bad", "unknown": "warn"}
_MOST_COMPARED = 8  # differences of a group
_LONG = 600  # characters of names


def render(fleet: Fleet) -> str:
    """The page."""
    tone = {0: "good", 1: "bad"}.get(fleet.exit_code, "warn")
    title = f"{counted(fleet.asked, 'node')} in {counted(len(fleet.groups), 'group')}"
    answered = f"{fleet.answered} of {fleet.asked} reported whether they are fit; the quorum is {fleet.quorum:.0%}"
    body = [
        f'<header class="{tone}"><h1>{escaped(title)}</h1><p>{escaped(status_text(fleet).partition(": ")[2])}</p>',
        f'<p class="quiet">{escaped(answered)}</p></header>',
        *_findings("drain", "To drain", fleet.drain),
        *_findings("findings", "Findings", [entry for entry in fleet.findings if entry not in fleet.drain]),
        *_missing(fleet),
        *_groups(fleet.groups),
        *_service(fleet),
        *_nodes(fleet),
    ]
    return page(title, body, fleet.matrix_revision, skip=("groups", "To the groups"))


def _findings(name: str, title: str, findings: tuple[FleetFinding, ...] | list[FleetFinding]) -> Iterator[str]:
    body = []
    for entry in findings:
        tone = "bad" if entry.severity == "error" else "warn"
        label = badge(counted(len(entry.nodes), "node"), tone)
        body.append(f'<article class="{tone}"><h3>{escaped(entry.title)}.</h3>')
        body.append(f"<p>{label} {code(entry.code)} {code(entry.cause)}</p>{_names(entry.nodes)}</article>")
    yield from section(name, title, body or ["<p>None.</p>"])


def _names(nodes: tuple[str, ...]) -> str:
    """The folded names, with places where they may break; long ones behind a summary."""
    text = fold_nodes(nodes)
    names = code(text).replace(",", ",<wbr>")
    return f"<details><summary>names</summary>{names}</details>" if len(text) > _LONG else names


def _missing(fleet: Fleet) -> Iterator[str]:
    rows = [
        *((badge("silent", "bad"), code(entry.node), escaped(entry.reason or "no answer")) for entry in fleet.silent),
        *((badge("stale", "warn"), code(name), "answered too long ago") for name in fleet.stale),
        *((badge("failed", "bad"), code(n.node), escaped(n.error)) for n in fleet.nodes if n.error is not None),
        *((badge("repeated", "note"), code(n), "several reports; the newest counts") for n in fleet.repeated),
        *(
            (badge("unreadable", "bad"), code(e.file), escaped(f"{e.reason}{f' ({e.size} bytes)' if e.size else ''}"))
            for e in fleet.unreadable
        ),
    ]
    if rows:
        yield from section("missing", "Silent, stale, failed, repeated and unreadable", _folded(rows, "entry", 20))


def _folded(rows: Sequence[tuple[str, ...]], noun: str, most: int) -> Iterator[str]:
    """A table, behind a summary if it is long."""
    head = ("", noun, "why") if len(rows[0]) == 3 else ("", "node", "group", "report", "findings")  # noqa: PLR2004
    if len(rows) <= most:
        yield from table(head, rows)
        return
    yield f"<details><summary>{len(rows)} rows</summary>"
    yield from table(head, rows)
    yield "</details>"


def _groups(groups: tuple[FleetGroup, ...]) -> Iterator[str]:
    number = {group.name: index for index, group in enumerate(groups, 1)}
    rows = []
    for group in groups:
        statuses = " ".join(badge(f"{count} {status}", _TONES[status]) for status, count in group.statuses.items())
        cell = f"<div>{escaped(group.machine)}</div>{_names(group.nodes)}"
        if group.nearest is not None:
            entries = group.differences[:_MOST_COMPARED]
            more = len(group.differences) - len(entries)
            items = "".join(f"<li>{escaped(difference_text(entry))}</li>" for entry in entries)
            rest = f"<li>and {more} more</li>" if more else ""
            cell += f"<div>Unlike group {number[group.nearest]}:</div><ul>{items}{rest}</ul>"
        rows.append((str(number[group.name]), f"{len(group.nodes)}<br>{statuses}", cell))
    yield from section("groups", "Groups of equal nodes", table(("", "nodes", "machine, and what differs"), rows))


def _service(fleet: Fleet) -> Iterator[str]:
    body = []
    for line in service_lines(fleet):
        text = escaped(line.text.strip())
        if line.style is Style.COMMAND:
            body.append(f"<pre tabindex=0>{text.removeprefix('$ ')}</pre>")
        elif line.style is Style.HEADING:
            body.append(f"<h3>{text}</h3>")
        else:
            body.append(f"<div>{code(line.text.strip()) if line.style is Style.QUIET else text}</div>")
    yield from section("serves", "What serves them", body)


def _nodes(fleet: Fleet) -> Iterator[str]:
    number = {group.name: index for index, group in enumerate(fleet.groups, 1)}
    rows = [
        (
            badge(node.status, _TONES[node.status]),
            escaped(node.node),
            str(number.get(node.group or "", "")),
            escaped(time.strftime("%Y-%m-%d %H:%M", time.gmtime(max(0.0, min(node.taken_at, 2**33))))),
            "<br>".join(map(escaped, node.findings)),
        )
        for node in sorted(fleet.nodes, key=lambda node: list(_TONES).index(node.status), reverse=True)
    ]
    if rows:
        yield from section("nodes", "Nodes (times in UTC)", _folded(rows, "node", 40))
