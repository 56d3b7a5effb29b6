"""A fleet as text: at most a hundred lines of 80 columns, however many nodes there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from gpuenv.fleet.node_sets import fold_nodes
from gpuenv.model.documents import Fleet, FleetAnswer, FleetDiff, FleetFinding, FleetGroup, SnapshotDifference
from gpuenv.report.text import command_text
from gpuenv.report.text_line import Style, TextLine, counted

_WIDTH, _MOST_LINES = 80, 100
_LIMITS = (8, 5, 3, 2)  # entries of a list: the first with which the text is short enough
_MOST_DIFFERENCES, _NAME_LINES, _MOST_FILES = 2, 2, 4
_STATUSES = {"fit": "fit", "degraded": "fit with warnings", "unfit": "unfit", "unknown": "could not be checked"}


def fleet_lines(fleet: Fleet) -> list[TextLine]:
    """The state of a fleet: the nodes to drain, other findings, the groups, and the wheels that serve them."""
    lines: list[TextLine] = []
    for most in _LIMITS:
        lines = list(_fleet_lines(fleet, most))
        if len(lines) <= _MOST_LINES:
            break
    return lines


def _fleet_lines(fleet: Fleet, most: int) -> Iterator[TextLine]:
    style = {0: Style.GOOD, 1: Style.BAD}.get(fleet.exit_code, Style.WARNING)
    yield from _wrapped(status_text(fleet), 0, 2, style)
    if fleet.answered < fleet.quorum * fleet.asked:
        text = f"Only {fleet.answered} of {counted(fleet.asked, 'node')} reported whether they are fit"
        yield TextLine(f"{text}; the quorum is {fleet.quorum:.0%}.", Style.WARNING)
    yield from _findings("Drain", fleet.drain, most, "gpuenv fleet drain prints the commands")
    drained = {(entry.code, entry.cause) for entry in fleet.drain}
    errors = [entry for entry in fleet.findings if entry.severity == "error"]
    yield from _findings("Other errors", [e for e in errors if (e.code, e.cause) not in drained], most)
    yield from _findings("Warnings", [entry for entry in fleet.findings if entry not in errors], most)
    yield from _problems(fleet, most)
    yield from _groups(fleet.groups, most)
    yield TextLine()
    yield from service_lines(fleet, most)


def status_text(fleet: Fleet) -> str:
    """``10000 nodes: 9900 fit, 90 unfit, 10 silent``."""
    counts = Counter(node.status for node in fleet.nodes)
    texts = [f"{counts[status]} {text}" for status, text in _STATUSES.items() if counts[status]]
    texts += [f"{len(names)} {text}" for names, text in ((fleet.silent, "silent"), (fleet.stale, "stale")) if names]
    return f"{counted(fleet.asked, 'node')}: {', '.join(texts) or 'none that can be read'}"


def _findings(title: str, findings: Sequence[FleetFinding], most: int, hint: str = "") -> Iterator[TextLine]:
    if not findings:
        return
    count = len({node for finding in findings for node in finding.nodes})
    yield TextLine()
    yield TextLine(f"{title}: {counted(count, 'node')}{f' ({hint})' if hint else ''}", Style.HEADING)
    for finding in findings[:most]:
        text = f"{finding.code} {finding.cause}, {len(finding.nodes)}: {finding.title}"
        yield from _wrapped(text, 2, 2, Style.BAD if finding.severity == "error" else Style.WARNING)
        yield from names_lines(finding.nodes, 4)
    if len(findings) > most:
        yield TextLine(f"  and {counted(len(findings) - most, 'other finding')} (--format html, json)", Style.QUIET)


def _problems(fleet: Fleet, most: int) -> Iterator[TextLine]:
    failed = [node for node in fleet.nodes if node.error is not None]
    rows = (
        ("Silent", [entry.node for entry in fleet.silent], next((e.reason for e in fleet.silent), "") or "no answer"),
        ("Stale", fleet.stale, "answered too long ago"),
        ("Failed", [node.node for node in failed], failed[0].error if failed else ""),
        ("Repeated", fleet.repeated, "several reports; the newest counts"),
    )
    if any(names for _, names, _ in rows) or fleet.unreadable:
        yield TextLine()
    for title, names, why in rows:
        if names:
            yield from _wrapped(f"{title}: {counted(len(names), 'node')}: {why}", 0, 1, Style.HEADING)
            yield from names_lines(names, 2)
    if fleet.unreadable:
        yield TextLine(f"Unreadable: {counted(len(fleet.unreadable), 'file')}", Style.HEADING)
        for file in fleet.unreadable[:most]:
            size = "" if file.size is None else f" ({file.size} bytes)"
            yield from _wrapped(f"{file.file}{size}: {file.reason}", 2, 2)
        if len(fleet.unreadable) > most:
            yield TextLine(f"  and {len(fleet.unreadable) - most} more", Style.QUIET)


def _groups(groups: Sequence[FleetGroup], most: int) -> Iterator[TextLine]:
    yield TextLine()
    yield TextLine(f"Groups of equal nodes: {len(groups)}", Style.HEADING)
    number = {group.name: index for index, group in enumerate(groups, 1)}
    for group in groups[:most]:
        yield from _wrapped(f"{number[group.name]}. {counted(len(group.nodes), 'node')}: {group.machine}", 2, 2)
        yield from names_lines(group.nodes, 5, 1)
        if group.nearest is not None:
            texts = list(map(difference_text, group.differences[:_MOST_DIFFERENCES]))
            more = len(group.differences) - len(texts)
            suffix = f" and {more} more" if more else ""
            yield from _wrapped(f"unlike {number[group.nearest]}: {'; '.join(texts)}{suffix}", 5, 2, Style.WARNING)
    if len(groups) > most:
        rest = groups[most:]
        nodes = [node for group in rest for node in group.nodes]
        yield TextLine(f"  and {counted(len(rest), 'smaller group')} of {counted(len(nodes), 'node')}:", Style.QUIET)
        yield from names_lines(nodes, 5, 1)


def difference_text(difference: SnapshotDifference) -> str:
    """``driver.version 550.54.15 -> 535.104.05``."""
    return f"{difference.fact} {difference.there or 'none'} -> {difference.here or 'none'}"


def service_lines(fleet: Fleet, most: int | None = None) -> Iterator[TextLine]:
    """The wheels that serve all nodes, the one that serves most, and the nodes that need another.

    ``most`` limits each list.
    """
    preferred, total = fleet.preferred, sum(len(answer.machines) for answer in fleet.answers)
    if preferred is None:
        yield TextLine("No wheel fits any node." if fleet.unserved else "No node was examined.", Style.BAD)
        return
    needed = counted(len(fleet.answers), "wheel")
    yield TextLine(
        f"{needed} serve{'s' if len(fleet.answers) == 1 else ''} all {counted(total, 'node')} that any serves",
        Style.HEADING,
    )
    for answer in sorted(fleet.answers, key=lambda entry: -len(entry.machines))[:most]:
        yield from _answer(answer)
    if fleet.forcing:
        served = len(preferred.machines)
        yield TextLine(
            f"{preferred.candidate.label} serves {served} of them, and is the choice of most:", Style.HEADING, 2
        )
        yield from _command(preferred)
        forcing = sorted(fleet.forcing, key=lambda entry: len(entry.machines))
        for entry in forcing[:most]:
            reason, is_one = entry.rejections[0], len(entry.machines) == 1
            yield from _wrapped(
                f"{counted(len(entry.machines), 'node')} force{'s' if is_one else ''} {entry.alternative.label}: "
                f"needs {reason.needed}, found {'' if is_one else 'for example '}{reason.found}",
                2,
                2,
                Style.WARNING,
            )
            yield from names_lines(entry.machines, 4, 1)
        if most is not None and len(forcing) > most:
            count = sum(len(entry.machines) for entry in forcing[most:])
            yield TextLine(f"  and {counted(count, 'node')} more (gpuenv fleet resolve)", Style.QUIET)
    for image in fleet.images[:most]:
        yield from _wrapped(f"image {image.reference}: {counted(len(image.machines), 'node')}", 0, 2, Style.HEADING)
        yield from names_lines(image.machines, 4)
    if fleet.unserved:
        yield TextLine(f"No wheel fits {counted(len(fleet.unserved), 'node')}:", Style.BAD)
        yield from names_lines(fleet.unserved, 4, 1)


def _answer(answer: FleetAnswer) -> Iterator[TextLine]:
    yield from _wrapped(f"{answer.candidate.label}: {counted(len(answer.machines), 'node')}", 2, 1)
    yield from names_lines(answer.machines, 4, 1)
    yield from _command(answer)


def _command(answer: FleetAnswer) -> Iterator[TextLine]:
    yield TextLine(f"    $ {command_text(['python', '-m', 'pip', 'install', *answer.requirements])}", Style.COMMAND, 6)


def diff_lines(diff: FleetDiff) -> Iterator[TextLine]:
    """What changed between two sets of reports."""
    for title, names in (("New", diff.new), ("Gone", diff.gone), ("Flapping", diff.flapping)):
        if names:
            yield TextLine(f"{title}: {counted(len(names), 'node')}", Style.HEADING)
            yield from names_lines(names, 2)
    for drift in diff.drifted:
        status = f", {drift.status[0]} -> {drift.status[1]}" if drift.status else ""
        is_worse = drift.status is not None and drift.status[1] in ("unfit", "unknown")
        style = Style.BAD if is_worse else Style.HEADING
        yield TextLine(f"Changed: {counted(len(drift.nodes), 'node')}{status}", style)
        yield from names_lines(drift.nodes, 2)
        for difference in drift.differences:
            yield from _wrapped(difference_text(difference), 4, 2, Style.WARNING)
    for file in diff.unreadable[:_MOST_FILES]:
        yield from _wrapped(f"Unreadable: {file.file}: {file.reason}", 0, 2)
    yield TextLine(f"Unchanged: {counted(diff.unchanged, 'node')}", Style.QUIET)


def names_lines(names: Iterable[str], indent: int, lines: int = _NAME_LINES) -> Iterator[TextLine]:
    """The folded names, cut after some lines."""
    text = fold_nodes(names).replace(",", ", ")
    for line in wrap(text, _WIDTH - indent, max_lines=lines, placeholder=" ...", break_on_hyphens=False):
        yield TextLine(" " * indent + line.replace(", ", ","), Style.QUIET, indent)


def _wrapped(text: str, indent: int, lines: int, style: Style = Style.PLAIN) -> Iterator[TextLine]:
    """The text in ASCII, cut after some lines."""
    begin, rest = " " * indent, " " * (indent + 2)
    ascii_text = text.encode("ascii", "backslashreplace").decode()
    wrapped = wrap(
        ascii_text,
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=rest,
        max_lines=lines,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    for line in wrapped:
        yield TextLine(line, style, indent + 2)
