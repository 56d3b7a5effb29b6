"""What the steps of an image's history install of CuPy, as builders write them down. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuenv.model.record import dataclass

_CUPY = re.compile(r"\b(cupy-cuda\d+x?)(?![\w-])(\[[\w,-]*\])?(?:==(\d+\.\d+\.\d+)\b)?")
# Steps that run nothing when the image is built.
_WORDS_ALONE = re.compile(r"(?:ARG|CMD|ENTRYPOINT|ENV|HEALTHCHECK|LABEL|ONBUILD)\b")
_COMMAND = re.compile(r"[;&|\n]+")
_INSTALLS = re.compile(r"(?<![\w-])(?:install|add|sync)\b")  # uninstall is another word
_REMOVES = re.compile(r"(?<![\w-])(?:uninstall|remove)\b")
# What says into which environment: a program of one, or an option that names one.
_WHERE = re.compile(
    r"(?<!\S)(\S{1,200}/)(?:pip|python|uv|conda|mamba|micromamba)[\d.]*(?=\s)"
    r"|(?<!\S)(?:--user(?!\S)|(?:--target|-t|--prefix|--root|--python|-p|--name|-n)[= ]\s*(\S+))"
)


@dataclass(frozen=True, slots=True)
class Named:
    """A CuPy that a command names.

    Attributes:
        line: its wheel line.
        release: null where none is pinned.
        bundled: whether its CUDA comes with it, from wheels.
        removed: whether the command takes it away.
        where: what the command says of the environment.
    """

    line: str
    release: str | None
    bundled: bool
    removed: bool
    where: tuple[str, ...]


def last_cupy(history: Iterable[str]) -> Named | None:
    """The CuPy that the last such command installs, or that it names with its very release."""
    found = [entry for entry in _named(history) if not entry.removed]
    return found[-1] if found else None


def lines_together(history: Iterable[str]) -> tuple[str, ...]:
    """The lines that are left in one environment, where there are several in one."""
    there: dict[tuple[str, ...], dict[str, None]] = {}
    for entry in _named(history):
        if entry.removed:
            for lines in there.values():
                lines.pop(entry.line, None)
        else:
            there.setdefault(entry.where, {})[entry.line] = None
    return next((tuple(lines) for lines in there.values() if len(lines) > 1), ())


def _named(history: Iterable[str]) -> Iterator[Named]:
    ran = (step for step in history if not _WORDS_ALONE.match(step) and "#(nop)" not in step)
    for command in (command for step in ran for command in _COMMAND.split(step)):
        where = tuple("".join(found) for found in _WHERE.findall(command))
        installs, removes = (pattern.search(command) for pattern in (_INSTALLS, _REMOVES))
        for match in _CUPY.finditer(command):
            removed = removes is not None and removes.start() < match.start()
            if removed or match[3] or (installs is not None and installs.start() < match.start()):
                yield Named(match[1], match[3], "ctk" in (match[2] or ""), removed, where)
