"""How a result reaches the user: to standard output or, written whole or not at all, to a file."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError, OutputClosed, complain, drop_stdout
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.harmless import harmless

if TYPE_CHECKING:
    from gpuenv.report.redact import Identity
    from gpuenv.report.text import Line

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


@dataclass(frozen=True, slots=True)
class Output:
    """Where the result of a command goes, and in which form.

    Attributes:
        file: None for standard output.
        as_json: whether it is one JSON object rather than text.
        color: whether text may have colour, where it goes to a terminal.
        redacted: whether identities are hidden.
        verbose: whether the text says more.
    """

    file: Path | None
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
    text = json.dumps(data, indent=2, ensure_ascii=True) + "\n"
    if output is not None:
        write_file(output, text)
    else:
        write_stdout(text)


def emit_lines(lines: Iterable[Line], output: Path | None, *, color: bool, redacted: bool = True) -> None:
    """Lines of text: coloured and wrapped on a terminal, one line each anywhere else.

    What goes to a file is meant for others and loses every identity; what is printed loses secrets alone. A recording
    from somebody else may neither command a terminal nor forge a line.
    """
    told = list(lines)
    texts = _clean([line.text for line in told], output, redacted=redacted)
    cleaned = [replace(line, text=harmless(text)) for line, text in zip(told, texts, strict=True)]
    if output is None and sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _to_terminal(cleaned, color=color and not os.environ.get("NO_COLOR"))  # empty is as good as not there
        return
    text = "".join(line.text.rstrip() + "\n" for line in cleaned)
    if output is not None:
        write_file(output, text)
    else:
        write_stdout(text)


def _clean(texts: list[str], output: Path | None, *, redacted: bool) -> list[str]:
    from gpuenv.model.secrets import hide_secrets
    from gpuenv.report.redact import redact_lines

    if not redacted:
        return texts
    return [hide_secrets(text) for text in texts] if output is None else redact_lines(texts, identity())


def _to_terminal(lines: Iterable[Line], *, color: bool) -> None:
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    padded = (replace(line, text=_padded(line.text)) for line in lines)
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


def write_stdout(text: str) -> None:
    """Text that standard output's encoding lacks a character for is written with a substitute.

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
    """Lines beside the result; lost where nobody can read them."""
    for line in lines:
        complain(line.text.rstrip())


def write_file(path: Path, text: str, *, shared: bool = False) -> None:
    """Writes a file whole or not at all; a pipe or a device is written to, a link followed.

    A new file is its owner's alone, since a report tells much of a machine; one that is there keeps its rights.

    Args:
        path: where.
        text: its whole content.
        shared: made to be read by others, as a lock file is: a new one has the rights that the umask leaves.

    Raises:
        CommandError: when it cannot be written.
    """
    from gpuenv.atomic import replace_file

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            replace_file(Path(os.path.realpath(path)), text, shared=shared)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror or error}") from error


def identity() -> Identity:
    """Who and where this is, so that it can be hidden."""
    import getpass

    from gpuenv.report.redact import Identity

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    return Identity(home=os.path.expanduser("~").rstrip("/"), user=user, host=platform.node())  # noqa: PTH111 - no error without a home
