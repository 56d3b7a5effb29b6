"""Plans and outcomes as lines of text: readable in 80 columns, in ASCII, without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.doctor.fixes.adapt import words_about
from gpuenv.install.journal import Journal
from gpuenv.install.plan import Outcome, Plan, Reason, Result
from gpuenv.model.strings import format_size
from gpuenv.report.lines import Line, Style
from gpuenv.report.text import command_text

_REASONS = {
    Reason.OTHER_LINE: "another CuPy line, which owns the same files",
    Reason.REPLACED: "replaced",
    Reason.SHARED_FILES: "put in anew: files of it were missing, changed or another line's",
    Reason.STRAY_CUDA: "CUDA of another major version, which nothing here needs",
    Reason.NO_OWNER: "no distribution owns it",
    Reason.CAME_WITH_INSTALL: "came with the install",
    Reason.CONDA_SAYS: "conda takes it out: it cannot stay beside what comes",
}
_LEFTOVERS_SHOWN = 3
_PROVEN = {True: ("ok", Style.PLAIN), False: ("FAILED", Style.BAD), None: ("not shown", Style.WARNING)}
_STYLES = {
    Result.INSTALLED: Style.GOOD,
    Result.UNCHANGED: Style.GOOD,
    Result.ROLLED_BACK: Style.GOOD,
    Result.RESTORED: Style.WARNING,
    Result.NOT_RESTORED: Style.BAD,
    Result.FAILED: Style.BAD,
}


def plan_lines(plan: Plan, *, verbose: bool = False) -> Iterator[Line]:
    """What would be done, and how it is undone."""
    yield Line("Plan", Style.HEADING)
    kind = f" ({plan.target.kind})" if plan.target.kind else ""
    yield Line(f"  target    {plan.target.packages}{kind}", hang=12)
    if plan.requirements:
        yield Line(f"  asked     {' '.join(plan.requirements)}", hang=12)
    if plan.empty:
        yield Line("  Nothing to do: everything is as it should be.", Style.GOOD)
        return
    yield Line(f"  installer {plan.installer}", hang=12)
    yield from _removed(plan)
    yield from _installed(plan)
    for note in plan.notes:
        yield Line(f"  note: {note}", Style.WARNING, 4)
    if verbose:
        yield Line("Commands", Style.HEADING)
        for command in plan.commands:
            yield Line(f"  # {command.purpose}", Style.QUIET, 4)
            yield Line(f"  $ {command_text(command.argv)}", Style.COMMAND, 4)
    if plan.undo.argv:
        yield Line("Undone afterwards by", Style.HEADING)
        yield Line(f"  $ {command_text(plan.undo.argv)}", Style.COMMAND, 4)


def _removed(plan: Plan) -> Iterator[Line]:
    coming = {pin.name for pin in plan.install}
    leaving = (entry for entry in plan.remove if entry.name not in coming)
    gone = [f"{entry.name} {entry.release} ({_REASONS[entry.reason]})" for entry in leaving]
    gone += [f"{leftover.path} ({_REASONS[leftover.reason]})" for leftover in plan.leftovers[:_LEFTOVERS_SHOWN]]
    if gone:
        yield Line("Removed", Style.HEADING)
    yield from (Line(f"  - {text}", Style.WARNING, 4) for text in gone)
    if len(plan.leftovers) > _LEFTOVERS_SHOWN:
        yield Line(f"  - and {len(plan.leftovers) - _LEFTOVERS_SHOWN} more files that no distribution owns", hang=4)


def _installed(plan: Plan) -> Iterator[Line]:
    if plan.install:
        yield Line("Installed", Style.HEADING)
    reasons = {entry.name: entry.reason for entry in plan.remove}
    for pin in plan.install:
        former = ""
        if pin.former == pin.release:
            former = f" ({_REASONS[reasons.get(pin.name, Reason.SHARED_FILES)]})"
        elif pin.former is not None:
            former = f" (now {pin.former}){' (needs consent)' if pin.name in plan.moves else ''}"
        size = f", {format_size(pin.size)}" if pin.size is not None else ""
        yield Line(f"  + {pin.name} {pin.release}{former}{size}", hang=4)
    if plan.moves:
        yield Line(f"  Packages that are not CuPy's would change: {', '.join(plan.moves)}.", Style.WARNING, 4)
        yield Line("  That is done with --allow-changes alone.", Style.WARNING, 4)
    space = plan.space
    if plan.install and plan.requirements:
        size = format_size(space.download) if space.download is not None else ""
        download = f"{size}, less what is cached" if size else "sizes not told by the index"
        disk = f"; unpacked at most about {format_size(space.unpacked)}" if space.unpacked else ""
        free = f"; free on the disk: {format_size(space.free)}" if space.free is not None else ""
        yield Line(f"  to download: {download}{disk}{free}", Style.QUIET, 4)
        if space.unpacked and space.free is not None and space.free < space.unpacked:
            yield Line("  note: the room may not do; then nothing is changed", Style.WARNING, 4)


def outcome_lines(outcome: Outcome, *, verbose: bool = False) -> Iterator[Line]:
    """One clear summary: what changed, where, proven how, how to undo."""
    for number in outcome.recovered:
        yield Line(f"First, the interrupted install {number} was put back.", Style.WARNING)
    stop = "" if outcome.message.endswith(".") else "."
    yield Line(f"{outcome.status.value.upper()}: {outcome.message}{stop}", _STYLES[outcome.status], 2)
    if outcome.target is not None:
        yield Line(f"  in {outcome.target.packages}", Style.QUIET, 4)
    if outcome.proofs:
        yield Line("Proof", Style.HEADING)
    for proof in outcome.proofs:
        word, style = _PROVEN[proof.passed]
        yield Line(f"  {word:<9} {proof.name}: {proof.detail}", style, 12)
    for place in outcome.not_restored:
        yield Line(f"  not put back: {place}", Style.BAD, 4)
    if outcome.remedy is not None:
        yield Line(f"  {outcome.remedy}", hang=4)
    if verbose and outcome.phases:
        yield Line("Where the time went", Style.HEADING)
        yield from (Line(f"  {phase.duration:7.2f} s  {phase.name}", Style.QUIET) for phase in outcome.phases)
    if outcome.undo is not None:
        yield Line("To undo it", Style.HEADING)
        yield Line(f"  $ {command_text(outcome.undo.argv)}", Style.COMMAND, 4)


def history_lines(journals: Sequence[Journal], python: str | None = None) -> Iterator[Line]:
    """The installs that can be rolled back, the newest first, of the target as the caller named it."""
    if not journals:
        yield Line("There is no install to roll back in this environment.")
        return
    for journal in journals:
        yield Line(f"{journal.number}  {journal.created_at or 'at an unknown time'}  {journal.summary}", hang=6)
    how = "gpuenv rollback undoes the newest; with a number, that one and every later one."
    yield Line(words_about(how, python), Style.QUIET)
