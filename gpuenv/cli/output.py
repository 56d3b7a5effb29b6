"""Writes results in one or several formats, to standard output or atomically to files."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.command_errors import CommandError, OutputClosed, announce, complain, drop_stdout
from gpuenv.clock import days_since
from gpuenv.files import LARGEST_DOCUMENT, is_file, is_folder, read_regular
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import did_you_mean, error_reason, sanitize_line

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.html import EarlierRun
    from gpuenv.report.redact import Identity
    from gpuenv.report.report import Report
    from gpuenv.report.text_line import TextLine


# Each except text, JSON and HTML is a module of gpuenv.report with a function ``render``.
FORMATS = ("text", "json", "junit", "github", "gitlab", "sarif", "prometheus", "markdown", "html")
REPORT_FORMATS = (*FORMATS, "summary")  # the last one is not the whole report
RECORD_FORMATS = ("text", "json")  # formats of any record; redacted while they are written
_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_MAX_HISTORY = 200  # reports
_STYLES = {
    "heading": "bold",
    "good": "bold green",
    "warning": "bold yellow",
    "bad": "bold red",
    "quiet": "dim",
    "command": "cyan",
}
_NARROW_HANG = 4
_PAD = "\0"  # control character that no line contains


class Output(NamedTuple):
    """The destination and format of a command's result."""

    file: Path | None  # None is standard output
    as_json: bool
    color: bool
    redacted: bool
    verbose: bool = False

    def emit(self, value: object, lines: Callable[[], Iterable[TextLine]]) -> None:
        """Writes a record as JSON, or its lines as text."""
        if self.as_json:
            emit_json(value, self.file, redacted=self.redacted)
        else:
            emit_lines(lines(), self.file, color=self.color, redacted=self.redacted)


def emit_json(value: object, output: Path | None, *, redacted: bool) -> None:
    """Writes a record as a JSON object.

    On standard output the caller may run the commands in it, which therefore keep their paths; a file is for others.
    """
    from gpuenv.model.codec import encode

    data = encode(value)
    if redacted:
        from gpuenv.report.redact import redact

        data = redact(data, identity(), runnable=output is None)
    write_result(json.dumps(data, indent=2, ensure_ascii=True) + "\n", output)


def emit_lines(lines: Iterable[TextLine], output: Path | None, *, color: bool, redacted: bool = True) -> None:
    """Writes lines of text, coloured and wrapped on a terminal, unchanged anywhere else.

    Files are redacted fully, since others may read them; printed text loses secrets only. Control characters are
    escaped: a foreign snapshot must not control the terminal or forge a line.
    """
    from gpuenv.model.redaction import hide_in_lines
    from gpuenv.report.redact import redact_lines

    lines = list(lines)
    texts = [line.text for line in lines]
    if redacted:
        texts = hide_in_lines(texts) if output is None else redact_lines(texts, identity())
    cleaned = [line._replace(text=sanitize_line(text)) for line, text in zip(lines, texts, strict=True)]
    if output is None and sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _to_terminal(cleaned, color=color and not os.environ.get("NO_COLOR"))  # empty counts as unset
        return
    write_result("".join(line.text.rstrip() + "\n" for line in cleaned), output)


def _to_terminal(lines: Iterable[TextLine], *, color: bool) -> None:
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    wrapped = [(sanitize_line(_encodable(part)), line.style.value) for line in lines for part in wrap_line(line, width)]
    if not color:
        write_stdout("".join(part + "\n" for part, _ in wrapped))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for part, style in wrapped:
        console.print(Text(part, style=_STYLES.get(style, "")))


def _encodable(text: str) -> str:
    """The text with escapes for characters that standard output cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_result(text: str, output: Path | None, *, shared: bool = False, own: str = "") -> None:
    """Writes to a file, or to standard output if ``output`` is None; see ``write_stdout``."""
    if output is not None:
        write_file(output, _sanitized(text, own), shared=shared)
    else:
        write_stdout(text, own=own)


def _sanitized(text: str, own: str) -> str:
    lines = (line.partition(own) if own and line.startswith(own) else ("", "", line) for line in text.split("\n"))
    return "\n".join(f"{begin}{sanitize_line(rest.expandtabs())}" for _, begin, rest in lines)


def write_stdout(text: str, *, own: str = "") -> None:
    """Writes to standard output, with escapes for control characters, commands and what it cannot encode.

    ``own`` is the beginning of the commands that gpuenv itself writes.

    Raises:
        OutputClosed: when the reader has gone.
        CommandError: when writing fails, on a full disk for example.
    """
    if sys.stdout is None:
        raise CommandError(ExitCode.USAGE, "standard output is closed", "write the result to a file with -o")
    try:
        sys.stdout.write(_encodable(_sanitized(text, own)))
        sys.stdout.flush()
    except BrokenPipeError as error:
        drop_stdout()
        raise OutputClosed from error
    except OSError as error:
        drop_stdout()
        raise CommandError(ExitCode.USAGE, f"standard output cannot be written: {error.strerror}") from error


def write_stderr(lines: Iterable[TextLine]) -> None:
    """Writes lines to standard error."""
    for line in lines:
        complain(line.text.rstrip())


def show_phases(snapshot: Snapshot) -> None:
    """Prints timings of the probes to standard error."""
    from gpuenv.report.snapshot_text import phase_lines

    write_stderr(phase_lines(snapshot))


def write_file(path: Path, text: str, *, shared: bool = False) -> None:
    """Writes a file atomically, following links; writes directly to a pipe or a device.

    A new file gets 0600, since a report reveals much about a machine, or the permissions of the umask if ``shared``, as
    for a lock file. An existing file keeps its permissions.

    Raises:
        CommandError: when it cannot be written.
    """
    from gpuenv.files import replace_file

    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            replace_file(Path(os.path.realpath(path)), text, shared=shared)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror or error}") from error


def identity() -> Identity:
    """The user, home folder and host name to redact."""
    import getpass

    from gpuenv.report.job import host_names
    from gpuenv.report.redact import Identity

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - no error without a home
    return Identity(home, user, host_names(os.environ, platform.node()))


class OutputSpec(NamedTuple):
    """A format and its destination; None is standard output."""

    form: str
    path: Path | None


class RenderOptions(NamedTuple):
    """Verbosity, colour, redaction and history of a report."""

    verbose: bool
    color: bool
    redacted: bool
    history: tuple[EarlierRun, ...] = ()  # the oldest first
    tests_only: bool = False  # text and JSON contain only the result of the GPU tests


def read_formats(
    texts: Sequence[str] | None, output: Path | None, names: Sequence[str] = REPORT_FORMATS
) -> tuple[OutputSpec, ...]:
    """Parses ``--format``; text goes to standard output (or to ``-o``, ``output``) unless another format does.

    Returns:
        The formats in the order in which to write them: files first.

    Raises:
        CommandError: for a format that is not in ``names``, or two formats for one destination.
    """
    specs = tuple(_parse_format(text, names) for text in texts or ())
    if not any(entry.path is None for entry in specs):
        specs = (OutputSpec("text", None), *specs)
    placed = tuple(OutputSpec(entry.form, output) if entry.path is None else entry for entry in specs)
    destinations = [str(entry.path or "standard output") for entry in placed]
    duplicate = next((name for name in destinations if destinations.count(name) > 1), None)
    if duplicate is not None:
        raise CommandError(
            ExitCode.USAGE, f"--format: two formats for {duplicate}", "name a file: --format FORMAT=FILE"
        )
    return tuple(sorted(placed, key=lambda entry: entry.path is None))


def check_paths(paths: Iterable[Path | None]) -> None:
    """Refuses unwritable paths before a long run, such as GPU tests."""
    for path in paths:
        why = _why_unwritable(path) if path is not None else None
        if why is not None:
            raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: {why}")


def _why_unwritable(path: Path) -> str | None:
    """Why ``write_file`` cannot write a path; None if nothing is known against it."""
    if is_folder(path):
        return "it is a folder"
    if _is_special(path):
        return None if os.access(path, os.W_OK) else "it is not writable"
    folder = Path(os.path.realpath(path)).parent
    if not is_folder(folder):
        return f"there is no folder {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable"


def _is_special(path: Path) -> bool:
    """Whether a path is a pipe or a device."""
    return os.path.exists(path) and not is_file(path)  # noqa: PTH110 - no error without permission


def _parse_format(text: str, names: Sequence[str]) -> OutputSpec:
    name, equals, path = text.partition("=")
    known = f"one of {', '.join(names)}"
    if name not in names:
        hint = did_you_mean(name, names, before="; ")
        raise CommandError(ExitCode.USAGE, f"--format {text}: unknown format {name!r}{hint}", known)
    if equals and not path:
        raise CommandError(ExitCode.USAGE, f"--format {text}: expected FORMAT=FILE", known)
    return OutputSpec(name, Path(path) if equals and path != "-" else None)  # by convention standard output


def emit_report(report: Report, specs: Sequence[OutputSpec], render_options: RenderOptions) -> None:
    """Writes every format; if verbose, also the timings of the probes to standard error.

    Raises:
        CommandError: when one cannot be written, after writing the others.
    """

    @cache
    def redacted(*, for_the_site: bool = False) -> Report:
        """The redacted report; one for the machine's own site names the host and the GPUs."""
        from gpuenv.report.redact import sanitize_report

        hidden = identity()._replace(hosts=(), uuids=False) if for_the_site else identity()
        return sanitize_report(report, hidden if render_options.redacted else None)

    first_error: CommandError | None = None
    for entry in specs:
        try:
            shown = report if entry.form in RECORD_FORMATS else redacted(for_the_site=entry.form == "prometheus")
            _emit(shown, entry, render_options)
        except CommandError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    if render_options.verbose and not render_options.tests_only:
        show_phases(report.snapshot)


def emit_record(
    value: object, lines: Callable[[], Iterable[TextLine]], specs: Sequence[OutputSpec], *, color: bool
) -> None:
    """Writes a record that has no identities, in ``RECORD_FORMATS``."""
    for entry in specs:
        Output(entry.path, entry.form == "json", color, redacted=False).emit(value, lines)


def _emit(report: Report, spec: OutputSpec, render_options: RenderOptions) -> None:
    smoke = report.smoke if render_options.tests_only else None
    if spec.form == "json":
        emit_json(smoke if render_options.tests_only else report, spec.path, redacted=render_options.redacted)
    elif spec.form == "text":
        from gpuenv.report.smoke_text import smoke_lines
        from gpuenv.report.text import report_lines

        lines = (
            smoke_lines(smoke, verbose=render_options.verbose)
            if smoke
            else report_lines(report, verbose=render_options.verbose, matrix_age=days_since(report.matrix_revision))
        )
        emit_lines(lines, spec.path, color=render_options.color, redacted=render_options.redacted)
    elif spec.form == "html":
        from gpuenv.report.html import html_text

        write_result(html_text(report, render_options.history), spec.path)
    else:
        text: str = importlib.import_module(f"gpuenv.report.{spec.form}").render(report)
        if spec.form == "github":
            _append_summary(report)
        own = "::" if spec.form == "github" else ""
        write_result(text, spec.path, shared=spec.form == "prometheus", own=own)


def _append_summary(report: Report) -> None:
    """Appends the job summary to the runner's file; announces a failure without changing the exit code."""
    path = os.environ.get(_SUMMARY_VARIABLE)
    if not path:
        return
    from gpuenv.report.markdown import render as markdown_text

    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(_sanitized(markdown_text(report), own=""))
    except (OSError, ValueError) as error:
        announce(f"{_SUMMARY_VARIABLE}={path}: cannot be written: {error_reason(error)}; no job summary was written")


def read_history(folder: Path | None) -> tuple[EarlierRun, ...]:
    """The newest JSON reports in a folder, the oldest first; skips other files.

    Raises:
        CommandError: when the folder cannot be read.
    """
    if folder is None:
        return ()
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".json" and path.is_file()]
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"--history {folder}: {error.strerror or error}") from error
    from gpuenv.report.html import parse_earlier_run

    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            found.append(parse_earlier_run(path.name, json.loads(read_regular(path, LARGEST_DOCUMENT))))
    known = (entry for entry in found if entry is not None)
    return tuple(sorted(known, key=lambda entry: (entry.taken_at, entry.name))[-_MAX_HISTORY:])


def wrap_line(line: TextLine, width: int) -> list[str]:
    """Wraps a line at spaces; a command is continued with backslashes, so that it can be copied.

    A hanging indent of more than half of the width is reduced.
    """
    line = line._replace(text=_padded(line.text))
    rows = _continued(line, width) if line.style.value == "command" else _wrapped(line, width)
    return [row.replace(_PAD, "") for row in rows]


def _wrapped(line: TextLine, width: int) -> list[str]:
    return textwrap.wrap(
        line.text,
        width,
        subsequent_indent=" " * (line.hang if line.hang <= width // 2 else _NARROW_HANG),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ) or [""]


def _continued(line: TextLine, width: int) -> list[str]:
    """A command over several lines with backslashes; never breaks a quoted argument."""
    arguments = re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", line.text)  # an apostrophe is quoted as '"'"'
    indent = line.text[: len(line.text) - len(line.text.lstrip())]
    rows = [indent + arguments[0]]
    for argument in arguments[1:]:
        if len(rows[-1]) + len(argument) + len(" ") + len(" \\") <= width or rows[-1].strip() == "$":
            rows[-1] += f" {argument}"
        else:
            rows.append(" " * line.hang + argument)
    return [f"{row} \\" for row in rows[:-1]] + rows[-1:]


def _padded(text: str) -> str:
    """The text with a filler after each wide character, so that its length is its width."""
    if text.isascii():
        return text
    from unicodedata import east_asian_width

    return "".join(letter + _PAD if east_asian_width(letter) in "WF" else letter for letter in text)
