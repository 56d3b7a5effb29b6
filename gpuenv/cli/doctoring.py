"""What ``gpuenv doctor`` does, once its command line is understood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject
from gpuenv.cli.settings import allowed, read_settings
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.limits import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from gpuenv.cli.changing.fixing import Wish
    from gpuenv.cli.formats import Wanted as Form
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.doctor.diagnose import Terms
    from gpuenv.model.smoke import Level
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.history import Earlier


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of ``gpuenv doctor``, as its help tells them; what is not given is as it is here."""

    python: str | None = None
    snapshot: Path | None = None
    assume: Sequence[str] = ()
    no_probe: bool = False
    paste: Path | None = None
    list_checks: bool = False
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    expect_no_gpu: bool = False
    fix: bool = False
    yes: bool = False
    dry_run: bool = False
    config: Path | None = None
    no_config: bool = False
    matrix: Path | None = None
    formats: Sequence[str] | None = None
    output: Path | None = None
    history: Path | None = None
    offline: bool = False
    no_color: bool = False
    verbose: bool = False
    timeout: float = DEFAULT_TIMEOUT
    smoke: Level | None = None
    deep: bool = False
    redact: bool = True
    driver_root: str = "/"


def run_doctor(asked: Wanted) -> int:
    """Names the cause and the cure, mends what is to be mended, and answers the exit code.

    Raises:
        CommandError: for options that exclude each other, and what cannot be read or written.
    """
    if asked.fix and (asked.snapshot is not None or asked.no_probe or asked.paste is not None):
        raise CommandError(ExitCode.USAGE, "--fix mends what is here: not with --snapshot, --paste or --no-probe")
    if (asked.yes or asked.dry_run) and not asked.fix:
        raise CommandError(ExitCode.USAGE, "--yes and --dry-run are for --fix")
    if asked.list_checks:
        _list(asked)
        return ExitCode.OK
    return _judged(asked)


def _judged(asked: Wanted) -> int:
    from gpuenv.cli.examine import examine, show_phases
    from gpuenv.cli.formats import How, check_places, emit_report, read_formats

    wanted = read_formats(asked.formats, asked.output)
    if asked.smoke is not None:
        check_places(entry.path for entry in wanted)
    left_out = _left_out(asked.only, asked.skip)
    allowances = allowed(read_settings(asked.config, no_config=asked.no_config))

    def terms_of(_: Snapshot) -> Terms:
        from gpuenv.doctor.diagnose import Terms

        return Terms(no_gpu=asked.expect_no_gpu, left_out=left_out, allowances=allowances, day=today())

    subject = _subject(asked)
    earlier = _earlier(asked.history)
    proof = _proof(asked.smoke) if asked.smoke else None
    examined = partial(examine, subject, asked.matrix, terms_of, proof=proof)
    report = examined()
    if asked.fix:
        from gpuenv.cli.changing.fixing import mend

        report = mend(report, examined, _wish(asked, subject, wanted))
    how = How(
        verbose=asked.verbose,
        color=not asked.no_color,
        redact=asked.redact,
        history=lambda: earlier,
    )
    emit_report(report, wanted, how)
    if asked.verbose:
        show_phases(report.snapshot)
    return report.exit_code


def _wish(asked: Wanted, subject: Subject, forms: Sequence[Form]) -> Wish:
    """How to mend, and where the plan is shown: in the report, unless that is text alone."""
    from gpuenv.cli.changing.fixing import Wish
    from gpuenv.cli.output import Output

    as_json = any(entry.form == "json" and entry.path is None for entry in forms)
    out = Output(None, as_json, not asked.no_color, asked.redact, asked.verbose)
    in_report = any(entry.form != "text" or entry.path is not None for entry in forms)
    return Wish(subject, asked.matrix, asked.yes, asked.dry_run, asked.offline, out, in_report)


def _subject(asked: Wanted) -> Subject:
    return Subject(
        asked.python,
        asked.snapshot,
        asked.assume,
        asked.no_probe,
        asked.timeout,
        asked.driver_root,
        deep=asked.deep,
        paste=asked.paste,
    )


def _proof(level: Level) -> Proof:
    from gpuenv.cli.gpu_tests import Proof

    return Proof(level)


def _earlier(folder: Path | None) -> tuple[Earlier, ...]:
    if folder is None:
        return ()
    from gpuenv.cli.history import read_history

    return read_history(folder)


def _list(asked: Wanted) -> None:
    """Every check: its code, its title and the causes that it can name."""
    from gpuenv.cli.formats import OWN, emit_record, read_formats
    from gpuenv.cli.inputs import refuse_unread
    from gpuenv.cli.plugins import plugins
    from gpuenv.doctor.registry import all_checks
    from gpuenv.model.listing import Checks, ListedCheck
    from gpuenv.report.explained import list_lines
    from gpuenv.report.listed import listed_checks
    from gpuenv.report.text import Line

    wanted = read_formats(asked.formats, asked.output, OWN)
    _left_out(asked.only, asked.skip)
    allowed(read_settings(asked.config, no_config=asked.no_config))
    refuse_unread(_subject(asked), asked.matrix)
    brought = (ListedCheck(plugin.code, plugin.function, (), plugin.package) for plugin in plugins())
    listed = Checks((*listed_checks(all_checks()), *brought))
    others = [Line(f"{plugin.code}  brought by {plugin.package} ({plugin.function})", hang=8) for plugin in plugins()]
    emit_record(listed, lambda: [*list_lines(all_checks()), *others], wanted, color=not asked.no_color)


def _left_out(only: Sequence[str], skip: Sequence[str]) -> frozenset[str]:
    """The codes of the checks that are not wanted.

    Raises:
        CommandError: for a code that no check has.
    """
    if not only and not skip:
        return frozenset()
    from gpuenv.cli.plugins import known_codes
    from gpuenv.doctor.registry import all_checks

    checks = {check.code: check for check in all_checks()}
    codes = known_codes()
    wanted = {_known(code, codes) for code in only}
    unwanted = {_known(code, codes) for code in skip}
    if wanted:
        for code in reversed(checks):  # what a check requires is registered before it
            if code in wanted:
                wanted |= {*checks[code].requires, *checks[code].unless}
    return frozenset(code for code in codes if (wanted and code not in wanted) or code in unwanted)


def _known(code: str, checks: Sequence[str]) -> str:
    if code.upper() in checks:
        return code.upper()
    import difflib

    near = difflib.get_close_matches(code.upper(), checks, 1)
    remedy = f"did you mean {near[0]}? " if near else ""
    raise CommandError(ExitCode.USAGE, f"there is no check {code}", f"{remedy}gpuenv doctor --list names them")
