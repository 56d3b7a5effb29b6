"""Resolutions as text: the explanation, what if, why not, and one answer for several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.matrix.resolve import change_text
from gpuenv.model.documents import AssumedMachine, BetterChoice, Fleet, WhatIf, WhyNot
from gpuenv.model.resolution import Resolution
from gpuenv.report.lines import Line, Style, counted
from gpuenv.report.text import command_text

_GAP = "  "


def explanation_lines(resolution: Resolution, *, verbose: bool = False) -> Iterator[Line]:
    """The resolution in words, for ``gpuenv resolve``; ``verbose`` adds every rejection with its source."""
    for number, text in enumerate(resolution.explanation.splitlines()):
        yield Line(text, (Style.GOOD if resolution.wheel else Style.BAD) if number == 0 else Style.PLAIN, 2)
    wheel = resolution.wheel
    if wheel is not None:
        yield Line()
        yield Line("Install", Style.HEADING)
        if wheel.replaces:
            gone = command_text(["python", "-m", "pip", "uninstall", "-y", *wheel.replaces])
            yield Line(f"  $ {gone}", Style.COMMAND, 4)
        quoted = command_text(["python", "-m", "pip", "install", *wheel.requirements])
        yield Line(f"  $ {quoted}", Style.COMMAND, 4)
        if wheel.needs_toolkit:
            yield Line(f"  needs {wheel.needs_toolkit}", hang=4)
    if verbose:
        yield Line()
        yield Line("Rejected", Style.HEADING)
        for entry in resolution.rejected:
            text = f"{entry.candidate.label}: {entry.constraint.value}: needs {entry.needed}, found {entry.found}"
            yield Line(f"  {text} [{entry.source}]", Style.QUIET, 4)


def what_if_lines(answer: WhatIf) -> Iterator[Line]:
    """A table: one column for each supposition, the wheel, and what each better line would take."""
    if not answer.rows:
        return
    keys = list(dict.fromkeys(text.partition("=")[0] for row in answer.rows for text in row.given))
    cells = [[*(_value(row, key) for key in keys), _wheel(row)] for row in answer.rows]
    widths = [max(len(row[column]) for row in ([*keys, "wheel"], *cells)) for column in range(len(keys) + 1)]
    yield Line(_joined([*keys, "wheel"], widths), Style.HEADING)
    for row, texts in zip(answer.rows, cells, strict=True):
        yield Line(_joined(texts, widths), Style.PLAIN if row.candidate else Style.BAD)
        indent = sum(widths[:-1]) + len(_GAP) * len(keys)
        for better in row.better:
            yield Line(f"{' ' * indent}{_better(better)}", Style.QUIET, indent + 2)


def _joined(texts: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()


def _value(row: AssumedMachine, key: str) -> str:
    return "+".join(text.partition("=")[2] for text in row.given if text.partition("=")[0] == key)


def _wheel(row: AssumedMachine) -> str:
    return " ".join(row.requirements) or "none fits"


def _better(entry: BetterChoice) -> str:
    return f"{entry.candidate.label} with {' and '.join(map(change_text, entry.changes))}"


def why_not_lines(answer: WhyNot) -> Iterator[Line]:
    """Every rejection with its proof, and what would lift them."""
    label = answer.candidate.label
    if not answer.rejections:
        chosen = f"fits; {answer.preferred.label} is preferred" if answer.preferred else "fits, and is the one chosen"
        yield Line(f"{label} {chosen}.", Style.GOOD, 2)
        return
    yield Line(f"{label} does not fit:", Style.BAD, 2)
    for entry in answer.rejections:
        yield Line(f"  {entry.constraint.value}: needs {entry.needed}, found {entry.found}", hang=4)
        yield Line(f"    [{entry.source}]", Style.QUIET, 5)
    if answer.changes:
        yield Line(f"It would fit with {' and '.join(map(change_text, answer.changes))}.", hang=2)
    else:
        yield Line("No change of driver, Python or packages would make it fit.", hang=2)
    if answer.preferred is not None:
        yield Line(f"{answer.preferred.label} fits.", Style.GOOD, 2)


def fleet_lines(answer: Fleet) -> Iterator[Line]:
    """The fewest installs that serve every machine."""
    count = len(answer.answers)
    if count == 1 and not answer.unserved:
        yield Line("One answer serves every machine.", Style.GOOD)
    elif count:
        yield Line(f"{counted(count, 'answer')} serve{'' if count > 1 else 's'} what can be served.")
    for shared in answer.answers:
        yield Line()
        yield Line(f"{shared.candidate.label}: {', '.join(shared.machines)}", Style.HEADING, 2)
        yield Line(f"  $ {command_text(['python', '-m', 'pip', 'install', *shared.requirements])}", Style.COMMAND, 4)
    if answer.unserved:
        if count:
            yield Line()
        yield Line(f"Nothing fits: {', '.join(answer.unserved)}", Style.BAD, 2)
        yield Line(f"  why: {command_text(['gpuenv', 'resolve', '--snapshot', answer.unserved[0]])}", Style.QUIET, 4)
