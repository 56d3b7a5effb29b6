"""The CuPy installs in the steps of an image's history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuenv.image.dockerfile.install_commands import environment_of, install_request
from gpuenv.image.dockerfile.parse import source_text
from gpuenv.image.dockerfile.requirements import Install, SourceLocation
from gpuenv.image.dockerfile.shell import Command, commands
from gpuenv.image.dockerfile.variables import Expansion, TooLongError
from gpuenv.model.cupy import is_cupy

_LINE = "cupy-cuda"  # a step without it is skipped
_MOST = 200_000  # characters of such steps: more than any real history has
# Steps that run nothing when the image is built.
_WITHOUT_COMMANDS = re.compile(r"(?:ARG|CMD|COPY|ADD|ENTRYPOINT|ENV|HEALTHCHECK|LABEL|ONBUILD)\b")
# Build arguments, and the shell: ``RUN |1 CUDA=12 /bin/bash -o pipefail -c``.
_SHELL = re.compile(r"/bin/(?:ba|da|z|a)?sh (?:(?:-\S+|pipefail) ){1,8}")
_ARGUMENT = re.compile(r"(?<!\S)([A-Za-z_]\w*)=(\S*)")
_UPGRADE_OPTIONS = ("-U", "--upgrade", "--force-reinstall")


@dataclass(frozen=True, slots=True)
class CupyInstall:
    """A CuPy that a command installs: its wheel line, and the pinned release.

    ``bundled`` is whether it installs its own CUDA from wheels; ``uncertain``, whether it may be missing, since the
    command is in a condition, or only runs after a failure.
    """

    line: str
    release: str | None
    bundled: bool
    uncertain: bool


def last_cupy(history: Iterable[str]) -> CupyInstall | None:
    """The CuPy that was installed last and not removed; None if conditions name several lines."""
    there = [entry for lines in _installed_lines(history).values() for entry in lines.values()]
    sure = [entry for entry in there if not entry.uncertain]
    if sure:
        return sure[-1]
    return there[-1] if len({entry.line for entry in there}) == 1 else None


def lines_together(history: Iterable[str]) -> tuple[str, ...]:
    """The installed lines of the first environment with several of them; empty without one."""
    sure = (tuple(e.line for e in lines.values() if not e.uncertain) for lines in _installed_lines(history).values())
    return next((lines for lines in sure if len(lines) > 1), ())


def _installed_lines(history: Iterable[str]) -> dict[str, dict[str, CupyInstall]]:
    """The lines at the end of the history, by environment, in the order of their installs."""
    there: dict[str, dict[str, CupyInstall]] = {}
    expansion = Expansion()
    for step in _relevant_steps(history):
        for command in _commands(step, expansion):
            environment = environment_of(command)
            request = install_request(command, SourceLocation("history", command.line))
            for lines in there.values():
                for name in request.removes:
                    lines.pop(name, None)
            for install in request.installs:
                if is_cupy(install.name) and install.name.startswith(_LINE):
                    lines = there.pop(environment, {})
                    entry = _reinstalled(lines.pop(install.name, None), install, command)
                    there[environment] = {**lines, install.name: entry}
    return there


def _reinstalled(before: CupyInstall | None, install: Install, command: Command) -> CupyInstall:
    """The CuPy after an install: an installed release stays if it satisfies the requirement."""
    found = CupyInstall(install.name, install.exact, "ctk" in install.extras, command.conditional)
    if before is None or before.uncertain:
        return found
    stays = before.release if not {*_UPGRADE_OPTIONS} & {*command.texts} and _admits(install, before.release) else None
    return replace(found, release=found.release or stays, bundled=found.bundled or before.bundled, uncertain=False)


def _admits(install: Install, release: str | None) -> bool:
    if release is None or install.specifier is None:
        return False
    return install.specifier.contains(release, prereleases=True)  # as pip does for an installed one


def _relevant_steps(history: Iterable[str]) -> Iterator[str]:
    """The steps that run a command and name a wheel line."""
    left = _MOST
    for step in history:
        if _LINE in step and not _WITHOUT_COMMANDS.match(step) and "#(nop)" not in step:
            left -= len(step)
            if left < 0:
                return
            yield step


def _commands(step: str, expansion: Expansion) -> tuple[Command, ...]:
    """The commands of a step; none of one whose variables expand to too many characters."""
    script, arguments = _script(step)
    try:
        return commands(source_text(script, 1), arguments.get, expansion)
    except TooLongError:
        return ()


def _script(step: str) -> tuple[str, Mapping[str, str]]:
    """The script of a step, and its build arguments."""
    text = step.removeprefix("RUN ").lstrip()
    shell = _SHELL.search(text) if text.startswith(("/", "|")) else None
    if shell is None:
        return text, {}
    return text[shell.end() :], dict(_ARGUMENT.findall(text[: shell.start()]))
