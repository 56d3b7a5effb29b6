"""Several environments in one paste: where each begins, what names it, and which one is meant."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gpuenv.model.strings import pattern
from gpuenv.paste import forms
from gpuenv.paste.read import read_paste
from gpuenv.paste.records import Pasted

_MOST = 8  # environments
_WIDEST = 600  # characters of a line that are looked at
_ABOVE = 6  # lines above an output that may belong to it: a prompt, a heading, a time
# The outputs of which an environment has one, by their first line; what a group holds tells two apart.
_HEADS = (
    (forms.PIP, pattern(r"\s*Package\s+Version(?:\s+(?!\s|Build).*)?$")),
    (
        forms.CONDA,
        pattern(r"\s*(?:# packages in environment at (\S+?):?|List of packages in environment: \"?(\S+?)\"?)$"),
    ),
    (forms.SMI, pattern(r".*NVIDIA-SMI\s+\S+.*?Version\s*: ?(\S+)(?:.*CUDA[ \w]*Version\s*: ?(\S+))?")),
    (forms.SHOW_CONFIG, pattern(r"\s*CuPy Version\s*: (\S+)")),
)
_FROZEN = pattern(r"\s*([A-Za-z][\w.-]*)==(\d[\w.!+]*)\s*$")
_PROMPT = pattern(
    r"\s*(?:\((?P<env>[\w./+-]{1,80})\)\s*)?(?:\[?(?P<user>[\w.-]{1,40})@(?P<host>[\w.-]{1,60})[:\s][^$#%>]{0,120}[$#%>]|(?:~|/\S*)?[$#%>])\s*(?=\S|$)"
    r"|\s*\((?P<alone>[\w./+-]{1,80})\)\s*(?:[A-Z]:\\[^>]*>|[$#%>])"
)
_HEADING = pattern(r"\s*(?:#{1,6} |\*\*|[-=]{2,}\s?\w|[A-Z][\w /'()-]{1,60}:\s*$|```|<summary>)")
_TIME = pattern(r"\s*[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} |\s*\+[-=]+\+?\s*$|\s*$")
_PLACE = pattern(r"((?:/[\w.+@~-]+)+)/(?:lib(?:64)?/python\d|bin/(?:python|pip))|((?:/[\w.+@~-]+)*/envs/[\w.+-]+)")
_IN_A_PLACE = ("/python", "/pip", "/envs/")  # one of them, always; of a long path, looking for more takes long
_WORDS = pattern(
    r"\b(host|container|docker|podman|wsl|windows|laptop|server|cluster|login node|compute node|pod)\b", re.IGNORECASE
)
_ERROR = pattern(r"\s*Traceback \(most recent|.*\b(?:\w*Error|Exception)\b\s*:|.*\b(?:failed|cannot|could not)\b")
_RAISED = pattern(r"\s*Traceback \(most recent|.*\b(?:\w*Error|Exception)\b\s*:")
_INSTALL = pattern(
    r"\s*[!%]?(?:sudo )?(?:\S*python[\d.]* -m )?(?:\S*/)?(?:pip[\d.]*|conda|mamba|micromamba|poetry|pixi|uv)\s"
    r"(?:.{0,40}\s)?(?:install|uninstall|remove|update|upgrade|add|sync)\b"
)
# What is an environment's own, and not its machine's.
_OF_A_TARGET = pattern(
    r"python|implementation|numpy|cupy-|package\.|missing\.|nvrtc|toolkit|cuda-path|libc|distribution|env\."
)
_SYSTEM = frozenset(("/usr", "/usr/local", "/opt"))
_COMMONPLACE = frozenset(("venv", ".venv", "env", "base", "usr", "local", "root"))


@dataclass(frozen=True, slots=True)
class Environment:
    """A part of a paste; lines count from 1."""

    first: int
    last: int
    names: frozenset[str]  # what prompts, paths and headings call it


@dataclass(frozen=True, slots=True)
class Chosen:
    """The part of a paste that counts.

    Attributes:
        text: the paste, with the lines of other environments left blank.
        rest: those lines, with its own left blank; empty where there is but one environment.
        note: which one was used, and that another was seen; None where there is but one.
    """

    text: str
    rest: str = ""
    note: str | None = None


def read_meant(meant: Chosen) -> Pasted:
    """What a paste says of the environment that is meant.

    What it does not say of its machine is taken from the others, such as a container's host.
    """
    own, other = read_paste(meant.text), read_paste(meant.rest)
    facts = {entry.fact for entry in own.said}
    has_target = bool(own.packages or own.listings or any(fact.startswith("cupy-") for fact in facts))
    new = (entry for entry in other.said if entry.fact not in facts)
    more = (entry for entry in new if not (has_target and _OF_A_TARGET.match(entry.fact)))
    return replace(
        own,
        said=(*own.said, *more),
        gpus=own.gpus or other.gpus,
        amd=own.amd or other.amd,
        devices=own.devices or other.devices,
        log=own.log or other.log,
        packages=own.packages if has_target else other.packages,
        listings=own.listings if has_target else other.listings,
        whole=own.whole if has_target else other.whole,
        forms=tuple(dict.fromkeys((*own.forms, *other.forms))),
    )


def chosen(text: str) -> Chosen:
    """The environment that the error names, else the one that it stands in or right below.

    Without an error it is the first one, or what became of that by installs.
    """
    whole = text.splitlines()
    lines = [line[:_WIDEST] for line in whole]
    found = environments(lines)
    if len(found) < 2:  # noqa: PLR2004 - two
        return Chosen(text)
    meant = _meant(found, _names_of_errors(lines))
    beside = _around_the_error(found, lines)
    used = meant or beside or _after_installs(found, lines)
    others = [entry for entry in found if entry is not used]
    blank = {number for entry in others for number in _outputs(lines, entry)}
    kept = "\n".join("" if number in blank else line for number, line in enumerate(whole, 1))
    rest = "\n".join(line if number in blank else "" for number, line in enumerate(whole, 1))
    seen = " and ".join(_told(entry) for entry in others)
    if meant:
        why = "named by the error"
    elif beside:
        why = "the error stands below it"
    else:
        why = "the first, since the error names none of them" if used is found[0] else "after the install above it"
    note = f"{len(found)} environments are in the text: used is {_told(used)} ({why}), not {seen}"
    return Chosen(kept, rest, note)


def environments(lines: Sequence[str]) -> tuple[Environment, ...]:
    """Where each environment begins: at an output that the one before has already, with another content."""
    starts = [1, *islice(_starts(lines), _MOST - 1)]
    ends = [*(start - 1 for start in starts[1:]), len(lines)]
    return tuple(
        Environment(first, last, frozenset(_names(lines[first - 1 : last])))
        for first, last in zip(starts, ends, strict=True)
    )


def _starts(lines: Sequence[str]) -> Iterator[int]:
    seen: dict[str, str] = {}
    end = 0  # the last line that is the former environment's for certain
    for number, line in enumerate(lines, 1):
        for kind, told in _heads(line):
            if kind in seen and (seen[kind] != told or not told):
                yield _begin(lines, number, end, frozen=kind.startswith("=="))
                seen = {}
            seen[kind] = told
            end = number


def _heads(line: str) -> Iterator[tuple[str, str]]:
    """The outputs that begin in a line, each with what tells it from another of its kind."""
    for kind, head in _HEADS:
        match = head.match(line)
        if match:
            yield kind, " ".join(filter(None, match.groups()))
    frozen = _FROZEN.match(line)
    if frozen:
        yield f"=={frozen[1].lower()}", frozen[2]


def _begin(lines: Sequence[str], head: int, end: int, *, frozen: bool) -> int:
    """The first line of an environment: the prompt, the heading and the time above its first output are its own."""
    number = head
    while frozen and number > 1 and _FROZEN.match(lines[number - 2]):
        number -= 1
    least = max(number - _ABOVE, 1 if frozen else end + 1)
    while number > least and _is_above(lines[number - 2]):
        number -= 1
    return number


def _is_above(line: str) -> bool:
    return bool(_PROMPT.match(line) or _HEADING.match(line) or _TIME.match(line) or _WORDS.search(line))


def _names(lines: Sequence[str]) -> Iterator[str]:
    """What an environment is called in its own lines: those of an error in it, and the one above, are the error's."""
    error = next((number for number, line in enumerate(lines) if _ERROR.match(line)), None)
    for line in lines if error is None else lines[: _above_error(lines, error)]:
        yield from _names_in(line, words=len(line) < 80 and not _FROZEN.match(line))  # noqa: PLR2004 - a heading's


def _names_in(line: str, *, words: bool) -> Iterator[str]:
    prompt = _PROMPT.match(line)
    if prompt:
        yield from (name for name in (prompt["env"], prompt["alone"], prompt["host"]) if name)
        for name in (prompt["env"], prompt["alone"]):
            if name and "/" in name:
                yield posixpath.basename(name)
    for place in _PLACE.finditer(line) if any(words in line for words in _IN_A_PLACE) else ():
        path = place[1] or place[2]
        if path not in _SYSTEM:
            yield path
        if posixpath.basename(path) not in _COMMONPLACE:
            yield posixpath.basename(path)
    if words:
        yield from (word[1].lower() for word in _WORDS.finditer(line))


def _names_of_errors(lines: Sequence[str]) -> frozenset[str]:
    """What the errors name: paths in them and in their tracebacks, and the prompt and heading above them."""
    names: set[str] = set()
    for number, line in enumerate(lines):
        if not _ERROR.match(line):
            continue
        names |= set(_names_in(line, words=False))
        traceback = line.lstrip().startswith("Traceback")
        for after in lines[number + 1 : number + 60] if traceback else ():
            names |= set(_names_in(after, words=False)) if after.startswith((" ", "\t")) else set()
            if not after.startswith((" ", "\t")):
                break
        for above in lines[_above_error(lines, number) : number]:
            names |= set(_names_in(above, words=bool(_HEADING.match(above) or _PROMPT.match(above))))
    return frozenset(names)


def _above_error(lines: Sequence[str], error: int) -> int:
    """Where the line stands that an error is right below: a prompt or a heading, say; the error's own where none is."""
    near = range(error - 1, max(-1, error - 4), -1)
    return next((number for number in near if lines[number].strip()), error)


def _meant(found: Sequence[Environment], named: frozenset[str]) -> Environment | None:
    """The one environment that a name of the error is of alone."""
    for name in sorted(named, key=len, reverse=True):
        owners = [entry for entry in found if name in entry.names]
        if len(owners) == 1:
            return owners[0]
    return None


def _around_the_error(found: Sequence[Environment], lines: Sequence[str]) -> Environment | None:
    """The environment in whose lines the last error stands; None where it stands above them all, or there is none.

    Of an environment before and after an install the state counts that the error was met in.
    """
    errors = [number for number, line in enumerate(lines, 1) if _ERROR.match(line)]
    raised = [number for number in errors if _RAISED.match(lines[number - 1])]
    last = max(raised or errors, default=0)
    if not any(True for line in lines[: max(0, last - 1)] for _ in _heads(line)):
        return None
    return next((entry for entry in found if entry.first <= last <= entry.last), None)


def _after_installs(found: Sequence[Environment], lines: Sequence[str]) -> Environment:
    """The first environment, in the state that the installs between its outputs and the next ones have left it in.

    An error above them all was met before.
    """

    def is_install(line: str) -> bool:
        prompt = _PROMPT.match(line)
        return _INSTALL.match(line[prompt.end() if prompt else 0 :]) is not None

    used = found[0]
    for entry in () if any(map(_ERROR.match, lines)) else found[1:]:
        between = lines[_head(used, lines) : _head(entry, lines)]
        is_other = bool(used.names) and bool(entry.names) and not used.names & entry.names
        if is_other or not any(map(is_install, between)):
            break
        used = entry
    return used


def _head(entry: Environment, lines: Sequence[str]) -> int:
    """Where its first output stands."""
    return next((number for number in range(entry.first - 1, entry.last) if any(_heads(lines[number]))), entry.last)


def _outputs(lines: Sequence[str], entry: Environment) -> Iterator[int]:
    """The lines of an environment up to an error, which is no output."""
    for number in range(entry.first, entry.last + 1):
        if _ERROR.match(lines[number - 1]):
            return
        yield number


def _told(entry: Environment) -> str:
    name = min((name for name in entry.names if name not in _COMMONPLACE), key=len, default=None)
    return f"that of line {entry.first}" + (f" ({name})" if name else "")
