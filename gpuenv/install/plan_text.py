"""Plans and outcomes as lines of text: 80 columns, ASCII, readable without colour."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.fixes.adaptation import add_target_option
from gpuenv.install.plan import InstallOutcome, Plan, Reason, Result
from gpuenv.install.rollback import History
from gpuenv.model.strings import format_size
from gpuenv.report.text import command_text
from gpuenv.report.text_line import Style, TextLine

_REASONS = {
    Reason.OTHER_LINE: "another CuPy line, which owns the same files",
    Reason.REPLACED: "replaced",
    Reason.SHARED_FILES: "reinstalled: its files were missing, changed or shared with another line",
    Reason.STRAY_CUDA: "CUDA of another major version, which nothing here needs",
    Reason.NO_OWNER: "no distribution owns it",
    Reason.CAME_WITH_INSTALL: "added by the install",
    Reason.CONDA_SAYS: "removed by conda: it conflicts with the new packages",
    Reason.KEPT_TO_UNDO: "what an install keeps, so that it can be undone",
}
_LEFTOVERS_SHOWN = 3
_STATUS = {True: ("ok", Style.PLAIN), False: ("FAILED", Style.BAD), None: ("undetermined", Style.WARNING)}
_STYLES = {
    Result.INSTALLED: Style.GOOD,
    Result.UNCHANGED: Style.GOOD,
    Result.ROLLED_BACK: Style.GOOD,
    Result.FORGOTTEN: Style.GOOD,
    Result.RESTORED: Style.WARNING,
    Result.NOT_RESTORED: Style.BAD,
    Result.FAILED: Style.BAD,
}


def plan_lines(plan: Plan, *, verbose: bool = False) -> Iterator[TextLine]:
    """What would change, and how to undo it."""
    yield TextLine("Plan", Style.HEADING)
    kind = f" ({plan.target.kind})" if plan.target.kind else ""
    yield TextLine(f"  target    {plan.target.packages}{kind}", hang=12)
    if plan.requirements:
        yield TextLine(f"  requested {' '.join(plan.requirements)}", hang=12)
    if plan.empty:
        yield TextLine("  Nothing to do: everything is already installed.", Style.GOOD)
        return
    yield TextLine(f"  installer {plan.installer}", hang=12)
    yield from _removed(plan)
    yield from _installed(plan)
    if plan.needs_toolkit:
        yield TextLine(f"  It needs {plan.needs_toolkit}.", Style.WARNING, 4)
    for note in plan.notes:
        yield TextLine(f"  note: {note}", Style.WARNING, 4)
    if verbose:
        yield TextLine("Commands", Style.HEADING)
        for command in plan.commands:
            yield TextLine(f"  # {command.purpose}", Style.QUIET, 4)
            yield TextLine(f"  $ {command_text(command.argv)}", Style.COMMAND, 4)
    if plan.undo.argv:
        yield TextLine("To undo:", Style.HEADING)
        yield TextLine(f"  $ {command_text(plan.undo.argv)}", Style.COMMAND, 4)


def _removed(plan: Plan) -> Iterator[TextLine]:
    coming = {pin.name for pin in plan.install}
    leaving = (entry for entry in plan.remove if entry.name not in coming)
    gone = [f"{entry.name} {entry.release} ({_REASONS[entry.reason]})" for entry in leaving]
    gone += [f"{leftover.path} ({_REASONS[leftover.reason]})" for leftover in plan.leftovers[:_LEFTOVERS_SHOWN]]
    if gone:
        yield TextLine("Would remove", Style.HEADING)
    yield from (TextLine(f"  - {text}", Style.WARNING, 4) for text in gone)
    if len(plan.leftovers) > _LEFTOVERS_SHOWN:
        yield TextLine(f"  - and {len(plan.leftovers) - _LEFTOVERS_SHOWN} more files that no distribution owns", hang=4)


def _installed(plan: Plan) -> Iterator[TextLine]:
    if plan.install:
        yield TextLine("Would install", Style.HEADING)
    reasons = {entry.name: entry.reason for entry in plan.remove}
    for pin in plan.install:
        former = ""
        if pin.former == pin.release:
            reason = reasons.get(pin.name, Reason.SHARED_FILES)
            former = f" ({'its former files' if reason is Reason.CAME_WITH_INSTALL else _REASONS[reason]})"
        elif pin.former is not None:
            former = f" (now {pin.former}){' (needs consent)' if pin.name in plan.moves else ''}"
        size = f", {format_size(pin.size)}" if pin.size is not None else ""
        yield TextLine(f"  + {pin.name} {pin.release}{former}{size}", hang=4)
    if plan.moves:
        yield TextLine(f"  Packages other than CuPy's would change: {', '.join(plan.moves)}.", Style.WARNING, 4)
        yield TextLine("  This requires --allow-changes.", Style.WARNING, 4)
    space = plan.space
    if plan.install and plan.requirements:
        download = "the index reports no sizes"
        if space.download is not None:
            download = f"{format_size(space.download)}, minus cached files" if space.download else "nothing"
        disk = f"; unpacked at most about {format_size(space.unpacked)}" if space.unpacked else ""
        free = f"; free on the disk: {format_size(space.free)}" if space.free is not None else ""
        yield TextLine(f"  to download: {download}{disk}{free}", Style.QUIET, 4)
        if space.unpacked and space.free is not None and space.free < space.unpacked:
            yield TextLine("  note: there may be too little space; then nothing is changed", Style.WARNING, 4)


def outcome_lines(outcome: InstallOutcome, *, verbose: bool) -> Iterator[TextLine]:
    """Summary of an install: what changed, where, the verification, how to undo it."""
    for number in outcome.recovered:
        yield TextLine(f"The interrupted install {number} was rolled back first.", Style.WARNING)
    stop = "" if outcome.message.endswith(".") else "."
    yield TextLine(f"{outcome.status.value.upper()}: {outcome.message}{stop}", _STYLES[outcome.status], 2)
    if outcome.target is not None:
        yield TextLine(f"  in {outcome.target.packages}", Style.QUIET, 4)
    if outcome.proofs:
        yield TextLine("Verification", Style.HEADING)
    for verification in outcome.proofs:
        status, style = _STATUS[verification.passed]
        yield TextLine(f"  {status:<12} {verification.name}: {verification.detail}", style, 15)
    for path in outcome.not_restored:
        yield TextLine(f"  not restored: {path}", Style.BAD, 4)
    if outcome.remedy is not None:
        yield TextLine(f"  {outcome.remedy}", hang=4)
    if verbose and outcome.phases:
        yield TextLine("Where the time went", Style.HEADING)
        yield from (TextLine(f"  {phase.duration:7.2f} s  {phase.name}", Style.QUIET) for phase in outcome.phases)
    if outcome.undo is not None:
        yield TextLine("To undo:", Style.HEADING)
        yield TextLine(f"  $ {command_text(outcome.undo.argv)}", Style.COMMAND, 4)


def history_lines(history: History, python: str | None) -> Iterator[TextLine]:
    """The installs that can be rolled back, the newest first; ``python`` is the value of ``--python``."""
    interrupted = history.open_transaction
    if interrupted is not None:
        what = f"{interrupted.step} was interrupted; nothing was changed now. To undo it: gpuenv rollback"
        text = add_target_option(f"the {what}", python)
        yield TextLine(f"{interrupted.number}  {interrupted.since}  {text}", Style.BAD, 6)
    if not history.installs:
        if interrupted is None:
            yield TextLine("There is no install to roll back in this environment.")
        return
    for entry in history.installs:
        size = f" (keeps {format_size(entry.size)})" if entry.size is not None else ""
        text = f"{entry.number}  {entry.created_at or 'at an unknown time'}  {entry.summary}{size}"
        yield TextLine(text, hang=6)
    usage = "gpuenv rollback undoes the newest; with a number, that one and every later one."
    yield TextLine(add_target_option(usage, python), Style.QUIET)
    usage = "gpuenv rollback --forget frees what they keep; with a number, that of it and of every earlier one."
    yield TextLine(add_target_option(usage, python), Style.QUIET)
