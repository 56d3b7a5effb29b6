"""Answers of the resolver as text: explanation, what-if, why-not, and the wheels for a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.matrix.resolve import change_text
from gpuenv.model.cupy import rocm_of
from gpuenv.model.documents import AssumedMachine, BetterChoice, Fleet, WhatIf, WhyNot
from gpuenv.model.resolution import Experimental, Resolution, WheelChoice
from gpuenv.report.text import command_text
from gpuenv.report.text_line import Style, TextLine, counted

_GAP = "  "


def explanation_lines(resolution: Resolution, *, verbose: bool = False) -> Iterator[TextLine]:
    """The explanation for ``gpuenv resolve``; ``verbose`` adds every rejection with its source."""
    for number, text in enumerate(resolution.explanation.splitlines()):
        yield TextLine(text, (Style.GOOD if resolution.wheel else Style.BAD) if number == 0 else Style.PLAIN, 2)
    wheel = resolution.wheel
    if wheel is not None:
        yield from _install_lines("Install", wheel)
        if wheel.needs_toolkit:
            yield TextLine(f"  needs {wheel.needs_toolkit}", hang=4)
    for candidate in resolution.experimental if wheel is None else ():
        yield from _install_lines(f"Install with ROCm {rocm_of(candidate.candidate.name)} (experimental)", candidate)
    if verbose:
        yield TextLine()
        yield TextLine("Rejected", Style.HEADING)
        for entry in resolution.rejected:
            text = f"{entry.candidate.label}: {entry.constraint.value}: needs {entry.needed}, found {entry.found}"
            yield TextLine(f"  {text} [{entry.source}]", Style.QUIET, 4)


def _install_lines(heading: str, choice: WheelChoice | Experimental) -> Iterator[TextLine]:
    yield TextLine()
    yield TextLine(heading, Style.HEADING)
    if choice.replaces:
        uninstall = command_text(["python", "-m", "pip", "uninstall", "-y", *choice.replaces])
        yield TextLine(f"  $ {uninstall}", Style.COMMAND, 4)
    install = command_text(["python", "-m", "pip", "install", *choice.requirements])
    yield TextLine(f"  $ {install}", Style.COMMAND, 4)


def what_if_lines(answer: WhatIf) -> Iterator[TextLine]:
    """A table: one column per assumption, the wheel, and what each better line would need."""
    if not answer.rows:
        return
    keys = list(dict.fromkeys(text.partition("=")[0] for row in answer.rows for text in row.given))
    cells = [[*(_value(row, key) for key in keys), _wheel(row)] for row in answer.rows]
    widths = [max(len(row[column]) for row in ([*keys, "wheel"], *cells)) for column in range(len(keys) + 1)]
    yield TextLine(_joined([*keys, "wheel"], widths), Style.HEADING)
    for row, texts in zip(answer.rows, cells, strict=True):
        yield TextLine(_joined(texts, widths), Style.PLAIN if row.candidate else Style.BAD)
        indent = sum(widths[:-1]) + len(_GAP) * len(keys)
        for better in row.better:
            yield TextLine(f"{' ' * indent}{_better(better)}", Style.QUIET, indent + 2)


def _joined(texts: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()


def _value(row: AssumedMachine, key: str) -> str:
    return "+".join(text.partition("=")[2] for text in row.given if text.partition("=")[0] == key)


def _wheel(row: AssumedMachine) -> str:
    return " ".join(row.requirements) or "none fits"


def _better(entry: BetterChoice) -> str:
    return f"{entry.candidate.label} with {' and '.join(map(change_text, entry.changes))}"


def why_not_lines(answer: WhyNot) -> Iterator[TextLine]:
    """Every rejection with its source, and the changes that would lift them."""
    label = answer.candidate.label
    if not answer.rejections:
        result = f"fits; {answer.preferred.label} is preferred" if answer.preferred else "fits and is recommended"
        yield TextLine(f"{label} {result}.", Style.GOOD, 2)
        return
    yield TextLine(f"{label} does not fit:", Style.BAD, 2)
    for entry in answer.rejections:
        yield TextLine(f"  {entry.constraint.value}: needs {entry.needed}, found {entry.found}", hang=4)
        yield TextLine(f"    [{entry.source}]", Style.QUIET, 5)
    if answer.changes:
        yield TextLine(f"It would fit with {' and '.join(map(change_text, answer.changes))}.", hang=2)
    else:
        yield TextLine("No change of driver, Python or packages would make it fit.", hang=2)
    if answer.preferred is not None:
        yield TextLine(f"{answer.preferred.label} fits.", Style.GOOD, 2)


def fleet_lines(answer: Fleet) -> Iterator[TextLine]:
    """The smallest set of wheels that covers every machine."""
    count = len(answer.answers)
    if count == 1 and not answer.unserved:
        yield TextLine("One wheel fits every machine.", Style.GOOD)
    elif count:
        covered = "every machine" if not answer.unserved else "the machines for which one fits"
        yield TextLine(f"{counted(count, 'wheel')} cover{'' if count > 1 else 's'} {covered}.")
    for shared in answer.answers:
        yield TextLine()
        yield TextLine(f"{shared.candidate.label}: {', '.join(shared.machines)}", Style.HEADING, 2)
        yield TextLine(
            f"  $ {command_text(['python', '-m', 'pip', 'install', *shared.requirements])}", Style.COMMAND, 4
        )
    if answer.forcing and answer.preferred:
        yield TextLine()
        label, others = answer.preferred.candidate.label, len(answer.preferred.machines)
        yield TextLine(f"{label} fits {counted(others, 'machine')}. These need another wheel:", Style.HEADING, 2)
        for entry in answer.forcing:
            reason = entry.rejections[0]
            example = "for example " if len(entry.machines) > 1 else ""
            text = f"{', '.join(entry.machines)}: needs {reason.needed}, found {example}{reason.found}"
            yield TextLine(f"  {text}", Style.WARNING, 4)
    if answer.unserved:
        if count:
            yield TextLine()
        yield TextLine(f"Nothing fits: {', '.join(answer.unserved)}", Style.BAD, 2)
        yield TextLine(
            f"  why: {command_text(['gpuenv', 'resolve', '--snapshot', answer.unserved[0]])}", Style.QUIET, 4
        )
