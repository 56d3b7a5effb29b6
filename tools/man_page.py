"""The manual page, from the command line itself: ``python -m tools.man_page`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import typer

from gpuenv import __version__
from gpuenv.cli.app import make_app

EXIT_CODES = (
    (0, "The command did its job; for doctor, preflight and check-image also: fit."),
    (1, "Unfit: an error was found, or a requirement is not met. explain: no cause is known."),
    (2, "Usage error, or input that cannot be read."),
    (3, "No wheel fits the target."),
    (4, "Failed; the former state was restored, or the message says what was not."),
    (5, "A GPU test did not pass, or every test of a GPU was skipped."),
    (6, "The matrix is invalid."),
    (7, "The target environment cannot be used."),
    (8, "Undetermined: neither fit nor unfit."),
    (70, "Internal error."),
    (75, "preflight --retry-elsewhere: this host is bad or busy."),
    (130, "Interrupted."),
)
_VARIABLES = (
    ("NO_COLOR", "The same as --no-color."),
    ("GPUENV_QUIET", "The same as --quiet."),
    ("GPUENV_AS_ROOT", "The same as --as-root."),
    ("GPUENV_DOCS_URL", "Address of the documentation site, for the links of findings (docs_url in JSON)."),
    ("GPUENV_MATRIX_URL", "Default SOURCE of matrix update."),
    ("VIRTUAL_ENV, CONDA_PREFIX", "The active environment: the target, unless --python names one."),
)


def page() -> str:
    """The page as input of man(7)."""
    root: Any = typer.main.get_command(make_app([]))
    lines = [
        f'.TH GPUENV 1 "" "gpuenv {__version__}" "User Commands"',
        ".SH NAME",
        "gpuenv \\- a doctor for CuPy environments on NVIDIA GPUs",
        ".SH SYNOPSIS",
        ".B gpuenv",
        ".RI [ OPTIONS ] \\~ COMMAND \\~[ ARGUMENTS ]",
        ".SH DESCRIPTION",
        _text(root.help),
        *_options(root),
        ".SH COMMANDS",
        *(line for name, command in root.commands.items() for line in _command(command, f"gpuenv {name}")),
        ".SH EXIT STATUS",
        *(line for code, meaning in EXIT_CODES for line in _item(f"\\fB{code}\\fR", meaning)),
        ".SH ENVIRONMENT",
        *(line for name, meaning in _VARIABLES for line in _item(f"\\fB{_text(name)}\\fR", meaning)),
    ]
    return "\n".join(lines) + "\n"


def _command(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - a class of click, which Typer may vendor
    if subcommands := getattr(command, "commands", None):
        for name, subcommand in subcommands.items():
            yield from _command(subcommand, f"{path} {name}")
        return
    arguments = " ".join(entry.metavar or entry.name for entry in command.params if entry.param_type_name == "argument")
    yield f".SS {_text(f'{path} [OPTIONS] {arguments}'.rstrip())}"
    paragraphs = (command.help or "").split("\n\n")
    yield "\n.PP\n".join(_text(" ".join(paragraph.split())) for paragraph in paragraphs)
    yield from _options(command)


def _options(command: Any) -> Iterator[str]:  # noqa: ANN401 - a class of click
    for entry in command.params:
        if getattr(entry, "hidden", False) or not getattr(entry, "help", None):
            continue
        if entry.param_type_name == "argument":
            names, value = [], entry.metavar or entry.name
        else:
            names, value = [*entry.opts, *entry.secondary_opts], "" if entry.is_flag else _value(entry)
        label = ", ".join(f"\\fB{_text(name)}\\fR" for name in names)
        shown = f"{label} \\fI{_text(value)}\\fR" if value else label
        yield from _item(shown.strip(), f"{entry.help}{_default(entry)}")


def _value(option: Any) -> str:  # noqa: ANN401 - a class of click
    choices = getattr(option.type, "choices", None)
    return str(option.metavar or ("|".join(map(_plain, choices)) if choices else option.type.name.upper()))


def _default(entry: Any) -> str:  # noqa: ANN401 - a class of click
    is_shown = isinstance(entry.default, (Enum, int, float)) and not isinstance(entry.default, bool)
    return f" Default: {_plain(entry.default)}." if is_shown else ""


def _plain(value: object) -> str:
    return str(value.value if isinstance(value, Enum) else f"{value:g}" if isinstance(value, float) else value)


def _item(label: str, text: str) -> Iterable[str]:
    return ".TP", label, _text(text)


def _text(text: str) -> str:
    """A text with its backslashes, hyphens, leading dots and leading apostrophes escaped."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(page())
