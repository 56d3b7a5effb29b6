"""One report in several forms at once: ``--format FORMAT`` and ``--format FORMAT=FILE``."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError
from gpuenv.files import is_folder, read_regular
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.unread import reason_of

if TYPE_CHECKING:
    from gpuenv.report.history import Earlier
    from gpuenv.report.lines import Line
    from gpuenv.report.report import Report

NAMES = ("text", "json", "junit", "github", "gitlab", "sarif", "prometheus", "markdown", "html")
OWN = ("text", "json")  # which are made fit for others while they are written
# One module a form, imported where that form is wanted.
_RENDERERS = {
    "junit": ("junit", "junit_text"),
    "github": ("github", "annotations_text"),
    "gitlab": ("gitlab", "code_quality_text"),
    "sarif": ("sarif", "sarif_text"),
    "prometheus": ("prometheus", "metrics_text"),
    "markdown": ("markdown", "markdown_text"),
}
_SUMMARY = "GITHUB_STEP_SUMMARY"
_MOST_EARLIER = 200  # reports
_LARGEST_EARLIER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """A form, and the file that it goes to; None is standard output."""

    form: str
    path: Path | None


@dataclass(frozen=True, slots=True)
class How:
    """The options that say how a report is shown.

    Attributes:
        verbose: whether more is said in text.
        color: whether text may have colour.
        redact: whether identities are hidden.
        history: reports of earlier runs, the oldest first.
        of_the_tests: whether it is the GPU tests' own result that text and JSON show.
    """

    verbose: bool
    color: bool
    redact: bool
    history: tuple[Earlier, ...] = ()
    of_the_tests: bool = False


def read_formats(given: Sequence[str] | None, output: Path | None, names: Sequence[str] = NAMES) -> tuple[Wanted, ...]:
    """The forms that are wanted; text goes to standard output (or ``-o``) unless another form does.

    Args:
        given: what the user wrote.
        output: the file of ``-o``.
        names: the forms that the command has.

    Raises:
        CommandError: for an unknown form, a file that is named twice, or two forms for one place.
    """
    wanted = tuple(_wanted(text, names) for text in given or ())
    if not any(entry.path is None for entry in wanted):
        wanted = (Wanted("text", None), *wanted)
    placed = tuple(Wanted(entry.form, output) if entry.path is None else entry for entry in wanted)
    places = [str(entry.path or "standard output") for entry in placed]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise CommandError(ExitCode.USAGE, f"--format: two forms for {twice}", "name a file: --format FORMAT=FILE")
    return placed


def check_places(paths: Iterable[Path | None]) -> None:
    """Refuses a file in a folder that is not there before any work is done.

    GPU tests may take many minutes, and an install changes the environment.

    Raises:
        CommandError: for the first such file.
    """
    for path in paths:
        if path is not None and not is_folder(path.parent):
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: there is no folder {path.parent}")
        if path is not None and is_folder(path):
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: it is a folder")


def _wanted(text: str, names: Sequence[str]) -> Wanted:
    name, equals, path = text.partition("=")
    known = f"one of {', '.join(names)}"
    if name not in names:
        import difflib

        near = difflib.get_close_matches(name.lower(), names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise CommandError(ExitCode.USAGE, f"--format {text}: there is no form {name!r}{hint}", known)
    if equals and not path:
        raise CommandError(ExitCode.USAGE, f"--format {text}: expected FORMAT=FILE", known)
    return Wanted(name, Path(path) if equals and path != "-" else None)  # as of programs everywhere: standard output


def emit_report(report: Report, wanted: Sequence[Wanted], how: How) -> None:
    """Writes every form, files first.

    Raises:
        CommandError: when a place cannot be written to, after the others have been.
    """
    from functools import cache

    @cache
    def clean() -> Report:
        """As others may see it; made once, for all forms."""
        from gpuenv.cli.output import identity
        from gpuenv.report.prepared import prepared

        return prepared(report, identity() if how.redact else None)

    failed: CommandError | None = None
    for entry in sorted(wanted, key=lambda entry: entry.path is None):
        try:
            if entry.form in OWN:
                _emit(report, entry, how)
            else:
                _emit_rendered(clean(), entry, how)
        except CommandError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def emit_record(
    value: object, lines: Callable[[], Iterable[Line]], wanted: Sequence[Wanted], *, color: bool, redact: bool = False
) -> None:
    """Writes a record that has no forms but text and JSON, files first.

    Args:
        value: the record.
        lines: makes the text of it.
        wanted: the forms, read with ``OWN`` for their names.
        color: whether text may have colour.
        redact: whether identities are hidden.
    """
    from gpuenv.cli.output import Output

    for entry in sorted(wanted, key=lambda entry: entry.path is None):
        Output(entry.path, entry.form == "json", color, redact).emit(value, lines)


def _emit(report: Report, wanted: Wanted, how: How) -> None:
    if wanted.form == "json":
        from gpuenv.cli.output import emit_json

        emit_json(report.smoke if how.of_the_tests else report, wanted.path, redacted=how.redact)
    else:
        from gpuenv.cli.output import emit_lines

        emit_lines(_lines(report, how), wanted.path, color=how.color, redacted=how.redact)


def _lines(report: Report, how: How) -> Iterator[Line]:
    if how.of_the_tests and report.smoke is not None:
        from gpuenv.report.smoke import smoke_lines

        return smoke_lines(report.smoke, verbose=how.verbose)
    from gpuenv.report.text import report_lines

    return report_lines(report, verbose=how.verbose)


def _emit_rendered(report: Report, wanted: Wanted, how: How) -> None:
    """Writes a form for which the report is prepared as a whole."""
    from gpuenv.cli.output import write_file, write_stdout

    text = _render(report, wanted.form, how)
    if wanted.form == "github":
        _append_summary(report)
    if wanted.path is None:
        write_stdout(text)
    else:
        write_file(wanted.path, text, shared=wanted.form == "prometheus")


def _render(report: Report, form: str, how: How) -> str:
    if form == "html":
        from gpuenv.report.html import html_text

        return html_text(report, how.history)
    module, function = _RENDERERS[form]
    render: Callable[[Report], str] = getattr(importlib.import_module(f"gpuenv.report.{module}"), function)
    return render(report)


def _append_summary(report: Report) -> None:
    """The job summary goes where the runner says; other steps may have written there.

    Nobody has asked for it, and within a container the runner's place may not be: the verdict does not hang on it.
    """
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    from gpuenv.report.markdown import markdown_text

    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown_text(report))
    except (OSError, ValueError) as error:
        from gpuenv.cli.errors import announce

        announce(f"{_SUMMARY}={path}: cannot be written: {reason_of(error)}; there is no job summary")


def read_history(folder: Path | None) -> tuple[Earlier, ...]:
    """The last reports in JSON of a folder, the oldest first; other files are passed over.

    Raises:
        CommandError: when the folder cannot be read.
    """
    if folder is None:
        return ()
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".json" and path.is_file()]
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"--history {folder}: {error.strerror or error}") from error
    found = [entry for path in paths if (entry := _read_earlier(path)) is not None]
    return tuple(sorted(found, key=lambda entry: (entry.taken_at, entry.name))[-_MOST_EARLIER:])


def _read_earlier(path: Path) -> Earlier | None:
    from gpuenv.report.history import earlier

    try:
        return earlier(path.name, json.loads(read_regular(path, _LARGEST_EARLIER)))
    except (OSError, ValueError, RecursionError):
        return None
