"""How a result reaches the user: in one or several forms, to standard output or to files, which are written whole."""

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

from gpuenv.cli.errors import CommandError, OutputClosed, announce, complain, drop_stdout
from gpuenv.files import is_folder, read_regular
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason, sanitize

if TYPE_CHECKING:
    from gpuenv.report.html import Earlier
    from gpuenv.report.lines import Line
    from gpuenv.report.redact import Identity
    from gpuenv.report.report import Report

# Each but text, JSON and HTML is a module of gpuenv.report with a function ``render``.
NAMES = ("text", "json", "junit", "github", "gitlab", "sarif", "prometheus", "markdown", "html")
OWN = ("text", "json")  # which are made fit for others while they are written
_SUMMARY = "GITHUB_STEP_SUMMARY"
_MOST_EARLIER = 200  # reports
_LARGEST_EARLIER = 16 * 1024 * 1024
_NARROW_HANG = 4
_PAD = "\0"  # in no line: it is a control
_STYLES = {
    "heading": "bold",
    "good": "bold green",
    "warning": "bold yellow",
    "bad": "bold red",
    "quiet": "dim",
    "command": "cyan",
}


class Output(NamedTuple):
    """Where the result of a command goes, and in which form."""

    file: Path | None  # None is standard output
    as_json: bool
    color: bool
    redacted: bool
    verbose: bool = False

    def emit(self, value: object, lines: Callable[[], Iterable[Line]]) -> None:
        """A record as JSON, or the lines that are made of it."""
        if self.as_json:
            emit_json(value, self.file, redacted=self.redacted)
        else:
            emit_lines(lines(), self.file, color=self.color, redacted=self.redacted)


def emit_json(value: object, output: Path | None, *, redacted: bool) -> None:
    """One record as one JSON object."""
    from gpuenv.model.codec import encode

    data = encode(value)
    if redacted:
        from gpuenv.report.redact import redact

        data = redact(data, identity())
    write_result(json.dumps(data, indent=2, ensure_ascii=True) + "\n", output)


def emit_lines(lines: Iterable[Line], output: Path | None, *, color: bool, redacted: bool = True) -> None:
    """Lines of text: coloured and wrapped on a terminal, one line each anywhere else.

    What goes to a file is meant for others and loses every identity; what is printed loses secrets alone. A recording
    from somebody else may neither command a terminal nor forge a line.
    """
    from gpuenv.model.secrets import hide_secrets
    from gpuenv.report.redact import redact_lines

    lines = list(lines)
    texts = [line.text for line in lines]
    if redacted:
        texts = [hide_secrets(text) for text in texts] if output is None else redact_lines(texts, identity())
    cleaned = [line._replace(text=sanitize(text)) for line, text in zip(lines, texts, strict=True)]
    if output is None and sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _to_terminal(cleaned, color=color and not os.environ.get("NO_COLOR"))  # empty is as good as not there
        return
    write_result("".join(line.text.rstrip() + "\n" for line in cleaned), output)


def _to_terminal(lines: Iterable[Line], *, color: bool) -> None:
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    padded = (line._replace(text=_padded(line.text)) for line in lines)
    wrapped = [(_encodable(part.replace(_PAD, "")), line.style.value) for line in padded for part in _wrap(line, width)]
    if not color:
        write_stdout("".join(part + "\n" for part, _ in wrapped))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for part, style in wrapped:
        console.print(Text(part, style=_STYLES.get(style, "")))


def _padded(text: str) -> str:
    """The text with a filler behind each character that takes two columns, so that its length is its width."""
    if text.isascii():
        return text
    from unicodedata import east_asian_width

    return "".join(letter + _PAD if east_asian_width(letter) in "WF" else letter for letter in text)


def _encodable(text: str) -> str:
    """The text with substitutes for what standard output's encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _wrap(line: Line, width: int) -> list[str]:
    """Long lines are broken at spaces; a command is continued as a shell reads it, so that it can be copied.

    A column of a table that leaves less than half of a narrow terminal is given up.
    """
    if line.style.value == "command":
        return _continued(line, width)
    return textwrap.wrap(
        line.text,
        width,
        subsequent_indent=" " * (line.hang if line.hang <= width // 2 else _NARROW_HANG),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ) or [""]


def _continued(line: Line, width: int) -> list[str]:
    """A command over several lines, each but the last ending in a backslash; a quoted argument stays in one piece."""
    words = re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", line.text)  # an apostrophe is quoted as '"'"'
    indent = line.text[: len(line.text) - len(line.text.lstrip())]
    rows = [indent + words[0]]
    for word in words[1:]:
        if len(rows[-1]) + len(word) + len(" ") + len(" \\") <= width or rows[-1].strip() == "$":
            rows[-1] += f" {word}"
        else:
            rows.append(" " * line.hang + word)
    return [f"{row} \\" for row in rows[:-1]] + rows[-1:]


def write_result(text: str, output: Path | None, *, shared: bool = False) -> None:
    """Writes to a file, or to standard output where that is None."""
    if output is not None:
        write_file(output, text, shared=shared)
    else:
        write_stdout(text)


def write_stdout(text: str) -> None:
    """Writes to standard output, with substitutes for what its encoding lacks.

    Raises:
        OutputClosed: when the reader has gone.
        CommandError: when standard output cannot take it: a full disk, say.
    """
    if sys.stdout is None:
        raise CommandError(ExitCode.USAGE, "standard output is closed", "write the result to a file with -o")
    try:
        sys.stdout.write(_encodable(text))
        sys.stdout.flush()
    except BrokenPipeError as error:
        drop_stdout()
        raise OutputClosed from error
    except OSError as error:
        drop_stdout()
        raise CommandError(ExitCode.USAGE, f"standard output cannot be written: {error.strerror}") from error


def write_stderr(lines: Iterable[Line]) -> None:
    """Writes lines to standard error."""
    for line in lines:
        complain(line.text.rstrip())


def write_file(path: Path, text: str, *, shared: bool = False) -> None:
    """Writes a file whole or not at all; a pipe or a device is written to, a link followed.

    A new file is its owner's alone, since a report tells much of a machine; one that is there keeps its rights. What is
    made to be read by others, as a lock file is (``shared``), has the rights that the umask leaves.

    Raises:
        CommandError: when it cannot be written.
    """
    from gpuenv.files import replace_file

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            replace_file(Path(os.path.realpath(path)), text, shared=shared)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror or error}") from error


def identity() -> Identity:
    """The user, home and host that a report hides."""
    import getpass

    from gpuenv.report.redact import Identity

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    return Identity(home=os.path.expanduser("~").rstrip("/"), user=user, host=platform.node())  # noqa: PTH111 - no error without a home


class Wanted(NamedTuple):
    """A form, and the file that it goes to; None is standard output."""

    form: str
    path: Path | None


class How(NamedTuple):
    """How a report is shown."""

    verbose: bool
    color: bool
    redact: bool
    history: tuple[Earlier, ...] = ()  # the oldest first
    of_the_tests: bool = False  # text and JSON show the GPU tests' own result


def read_formats(texts: Sequence[str] | None, output: Path | None, names: Sequence[str] = NAMES) -> tuple[Wanted, ...]:
    """The forms that are wanted; text goes to standard output (or ``-o``, ``output``) unless another form does.

    Raises:
        CommandError: for an unknown form (``names`` are those of the command), or two forms for one place.
    """
    wanted = tuple(_wanted(text, names) for text in texts or ())
    if not any(entry.path is None for entry in wanted):
        wanted = (Wanted("text", None), *wanted)
    placed = tuple(Wanted(entry.form, output) if entry.path is None else entry for entry in wanted)
    places = [str(entry.path or "standard output") for entry in placed]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise CommandError(ExitCode.USAGE, f"--format: two forms for {twice}", "name a file: --format FORMAT=FILE")
    return placed


def check_places(paths: Iterable[Path | None]) -> None:
    """Refuses a file that cannot be there before any work is done: GPU tests may take many minutes."""
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

    @cache
    def clean() -> Report:
        """The report as others may see it, for all forms but text and JSON."""
        from gpuenv.report.redact import prepared

        return prepared(report, identity() if how.redact else None)

    failed: CommandError | None = None
    for entry in sorted(wanted, key=lambda entry: entry.path is None):
        try:
            _emit(report if entry.form in OWN else clean(), entry, how)
        except CommandError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def emit_record(
    value: object, lines: Callable[[], Iterable[Line]], wanted: Sequence[Wanted], *, color: bool, redact: bool = False
) -> None:
    """Writes a record that has no forms but text and JSON (``OWN``), files first."""
    for entry in sorted(wanted, key=lambda entry: entry.path is None):
        Output(entry.path, entry.form == "json", color, redact).emit(value, lines)


def _emit(report: Report, wanted: Wanted, how: How) -> None:
    smoke = report.smoke if how.of_the_tests else None
    if wanted.form == "json":
        emit_json(smoke if how.of_the_tests else report, wanted.path, redacted=how.redact)
    elif wanted.form == "text":
        from gpuenv.report.smoke import smoke_lines
        from gpuenv.report.text import report_lines

        lines = smoke_lines(smoke, verbose=how.verbose) if smoke else report_lines(report, verbose=how.verbose)
        emit_lines(lines, wanted.path, color=how.color, redacted=how.redact)
    elif wanted.form == "html":
        from gpuenv.report.html import html_text

        write_result(html_text(report, how.history), wanted.path)
    else:
        text: str = importlib.import_module(f"gpuenv.report.{wanted.form}").render(report)
        if wanted.form == "github":
            _append_summary(report)
        write_result(text, wanted.path, shared=wanted.form == "prometheus")


def _append_summary(report: Report) -> None:
    """Appends the job summary to the runner's file; a failure is announced and does not change the verdict."""
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    from gpuenv.report.markdown import render as markdown_text

    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown_text(report))
    except (OSError, ValueError) as error:
        announce(f"{_SUMMARY}={path}: cannot be written: {error_reason(error)}; there is no job summary")


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
    from gpuenv.report.html import earlier

    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            found.append(earlier(path.name, json.loads(read_regular(path, _LARGEST_EARLIER))))
    known = (entry for entry in found if entry is not None)
    return tuple(sorted(known, key=lambda entry: (entry.taken_at, entry.name))[-_MOST_EARLIER:])
