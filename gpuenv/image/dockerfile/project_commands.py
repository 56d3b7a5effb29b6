"""What uv, poetry, pdm and pipenv install of a project, and the requirements that they and others write.

uv 0.13.9, uv sync, uv export and uv pip compile --help (run 2026-11-22); poetry-plugin-export, README, options of
poetry export; jazzband/pip-tools, piptools/scripts/compile.py: the default names of files (both read
2026-11-22); poetry 2.5.1 and pdm 2.29.3, install --help (run 2026-11-22). Those of pipenv were not looked up.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from gpuenv.image.dockerfile.install_requests import (
    DependencyFile,
    FileKind,
    InstallRequest,
    SourceLocation,
    requirement,
)
from gpuenv.image.dockerfile.installer_options import Options, read_options
from gpuenv.image.dockerfile.projects import EVERY, Selection
from gpuenv.image.dockerfile.shell import Command

_PROGRAMS = ("uv", "poetry", "pdm", "pipenv")
_INSTALLING = ("sync", "install")
_FOLDERS = {
    "uv": ("--directory", "--project"),
    "poetry": ("--directory", "-C", "--project", "-P"),
    "pdm": ("--project", "-p"),
}
# uv's --no-cache and poetry's --no-interaction.
_FLAGS = {"uv": frozenset(("-n",)), "poetry": frozenset(("-n",))}
_OUTPUTS = ("-o", "--output", "--output-file")


def install_request(command: Command, file: str, end_line: int | None = None) -> InstallRequest:
    """What a command installs of a project: ``uv sync``, ``uv add`` and what others call them."""
    options = read_options(command.words[1:], _FLAGS.get(command.program, frozenset()))
    if command.program not in _PROGRAMS or not options.positional:
        return InstallRequest()
    verb, named = options.positional[0].text, options.positional[1:]
    if verb == "add" or (command.program == "pipenv" and verb == "install" and named):
        found = [requirement(w.text, SourceLocation(file, w.line, end_line), known=w.known) for w in named]
        return InstallRequest(tuple(entry for entry in found if entry is not None))
    if verb not in _INSTALLING:
        return InstallRequest()
    return InstallRequest(files=(_project(command, options, file, end_line),))


def _project(command: Command, options: Options, file: str, end_line: int | None) -> DependencyFile:
    kind = FileKind.PIPFILE if command.program == "pipenv" else FileKind.PROJECT
    folder = next((word.text for word in options.of(*_FOLDERS.get(command.program, ()))), ".")
    selection = selection_of(command.program, options, defaults=True)
    return DependencyFile(kind, folder, SourceLocation(file, command.words[0].line, end_line), selection)


def selection_of(program: str, options: Options, *, defaults: bool) -> Selection:
    """Which parts of a project the options name.

    Args:
        program: the installer's name.
        options: of its call.
        defaults: whether the program takes its default groups unasked.
    """
    given = options.values.keys()
    extras = _words(options, "--extra", "--extras", "-E")
    groups = _words(options, "--group", "--with", "-G")
    only = _words(options, "--only-group", "--only")
    if program == "pipenv":
        return Selection(groups=frozenset({EVERY}) if {"--dev", "-d"} & given else frozenset())
    if "--all-extras" in given:
        extras |= {EVERY}
    if "--all-groups" in given:
        groups |= {EVERY}
    without = _words(options, "--no-group", "--without")
    if {"--no-dev", "--no-default-groups", "--prod", "--production"} & given:
        without |= {"dev"} if "--no-dev" in given else {EVERY}
    if only or "--only-dev" in given:
        chosen = only | ({"dev"} if "--only-dev" in given else frozenset())
        return Selection(extras, chosen, without, defaults=False, project="main" in chosen)
    return Selection(extras, groups, without, defaults=defaults)


def _words(options: Options, *names: str) -> frozenset[str]:
    """The values of options that may name several: with commas, or with blanks."""
    return frozenset(part for word in options.of(*names) for part in word.text.replace(",", " ").split())


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file of requirements that a command writes.

    Attributes:
        path: of the file, from the command's folder; null where it is printed, and sent to a file of any name.
        listed: what it is made from.
    """

    path: str | None
    listed: tuple[DependencyFile, ...]


def generated_file(command: Command, file: str, end_line: int | None) -> GeneratedFile | None:
    """What a command writes; none for one that writes no requirements."""
    location = SourceLocation(file, command.words[0].line, end_line)
    if command.program == "pip-compile" or (command.program == "uv" and command.texts[:2] == ("pip", "compile")):
        options = read_options(command.words[1 if command.program == "pip-compile" else 3 :])
        names = [word.text for word in options.positional] or ["requirements.in"]
        unasked = f"{posixpath.splitext(names[0])[0]}.txt" if command.program == "pip-compile" else None
        kinds = ((name, FileKind.PROJECT if name.endswith(".toml") else FileKind.REQUIREMENTS) for name in names)
        return GeneratedFile(
            _output(options) or unasked, tuple(DependencyFile(kind, name, location) for name, kind in kinds)
        )
    if command.program in ("uv", "poetry", "pdm") and command.texts[:1] == ("export",):
        options = read_options(command.words[2:], _FLAGS.get(command.program, frozenset()))
        return GeneratedFile(_output(options), (_project(command, options, file, end_line),))
    return None


def _output(options: Options) -> str | None:
    return next((word.text for word in options.of(*_OUTPUTS)), None)
