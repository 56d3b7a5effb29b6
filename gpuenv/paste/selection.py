"""Splits a paste with several environments, and selects the one that the error is from."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gpuenv.model.strings import pattern
from gpuenv.paste import outputs
from gpuenv.paste.content import PasteContent
from gpuenv.paste.reader import read_paste

_MAX_ENVIRONMENTS = 8
_MAX_LINE = 600  # characters of a line that are matched
_LINES_ABOVE = 6  # lines above an output that may belong to it: a prompt, a heading, a time
# The outputs that occur once per environment, by their first line; different groups mean different environments.
_HEADS = (
    (outputs.PIP, pattern(r"\s*Package\s+Version(?:\s+(?!\s|Build).*)?$")),
    (
        outputs.CONDA,
        pattern(r"\s*(?:# packages in environment at (\S+?):?|List of packages in environment: \"?(\S+?)\"?)$"),
    ),
    (outputs.SMI, pattern(r".*NVIDIA-SMI\s+\S+.*?Version\s*: ?(\S+)(?:.*CUDA[ \w]*Version\s*: ?(\S+))?")),
    (outputs.SHOW_CONFIG, pattern(r"\s*CuPy Version\s*: (\S+)")),
)
_FROZEN = pattern(r"\s*([A-Za-z][\w.-]*)==(\d[\w.!+]*)\s*$")
_PROMPT = pattern(
    r"\s*(?:\((?P<env>[\w./+-]{1,80})\)\s*)?(?:\[?(?P<user>[\w.-]{1,40})@(?P<host>[\w.-]{1,60})[:\s][^$#%>]{0,120}[$#%>]|(?:~|/\S*)?[$#%>])\s*(?=\S|$)"
    r"|\s*\((?P<alone>[\w./+-]{1,80})\)\s*(?:[A-Z]:\\[^>]*>|[$#%>])"
)
_HEADING = pattern(r"\s*(?:#{1,6} |\*\*|[-=]{2,}\s?\w|[A-Z][\w /'()-]{1,60}:\s*$|```|<summary>)")
_TIME = pattern(r"\s*[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} |\s*\+[-=]+\+?\s*$|\s*$")
_PATH = pattern(r"((?:/[\w.+@~-]+)+)/(?:lib(?:64)?/python\d|bin/(?:python|pip))|((?:/[\w.+@~-]+)*/envs/[\w.+-]+)")
_IN_A_PATH = ("/python", "/pip", "/envs/")  # every match has one of them; _PATH is slow on long lines
_HOST_KIND = pattern(
    r"\b(host|container|docker|podman|wsl|windows|laptop|server|cluster|login node|compute node|pod)\b", re.IGNORECASE
)
_ERROR = pattern(r"\s*Traceback \(most recent|.*\b(?:\w*Error|Exception)\b\s*:|.*\b(?:failed|cannot|could not)\b")
_RAISED = pattern(r"\s*Traceback \(most recent|.*\b(?:\w*Error|Exception)\b\s*:")
_INSTALL = pattern(
    r"\s*[!%]?(?:sudo )?(?:\S*python[\d.]* -m )?(?:\S*/)?(?:pip[\d.]*|conda|mamba|micromamba|poetry|pixi|uv)\s"
    r"(?:.{0,40}\s)?(?:install|uninstall|remove|update|upgrade|add|sync)\b"
)
# Facts of an environment, not of its machine.
_TARGET_FACT = pattern(
    r"python|implementation|numpy|cupy-|package\.|missing\.|nvrtc|toolkit|cuda-path|libc|distribution|env\."
)
_SYSTEM = frozenset(("/usr", "/usr/local", "/opt"))
_COMMON_NAMES = frozenset(("venv", ".venv", "env", "base", "usr", "local", "root"))


@dataclass(frozen=True, slots=True)
class Environment:
    """A part of a paste about one environment; lines are counted from 1."""

    first: int
    last: int
    names: frozenset[str]  # its names in prompts, paths and headings


@dataclass(frozen=True, slots=True)
class PasteSelection:
    """The selected environment of a paste.

    Attributes:
        text: the paste, with the lines of other environments blank.
        rest: the lines of the others, with the lines of this one blank; empty if there is only one environment.
        note: which environment is used and why; None if there is only one.
    """

    text: str
    rest: str = ""
    note: str | None = None


def read_selection(selection: PasteSelection) -> PasteContent:
    """The content of the selected environment.

    Missing facts of its machine are taken from the others, such as the host of a container.
    """
    selected, other = read_paste(selection.text), read_paste(selection.rest)
    facts = {entry.fact for entry in selected.values}
    has_target = bool(selected.packages or selected.listings or any(fact.startswith("cupy-") for fact in facts))
    new = (entry for entry in other.values if entry.fact not in facts)
    more = (entry for entry in new if not (has_target and _TARGET_FACT.match(entry.fact)))
    return replace(
        selected,
        values=(*selected.values, *more),
        gpus=selected.gpus or other.gpus,
        amd=selected.amd or other.amd,
        devices=selected.devices or other.devices,
        log=selected.log or other.log,
        packages=selected.packages if has_target else other.packages,
        listings=selected.listings if has_target else other.listings,
        complete=selected.complete if has_target else other.complete,
        outputs=tuple(dict.fromkeys((*selected.outputs, *other.outputs))),
    )


def select_environment(text: str) -> PasteSelection:
    """Selects the environment that the error names, else the one with the error in or right below its lines.

    Without an error it is the first one, in its state after the installs in the text.
    """
    full_lines = text.splitlines()
    lines = [line[:_MAX_LINE] for line in full_lines]
    candidates = environments(lines)
    if len(candidates) < 2:  # noqa: PLR2004 - two
        return PasteSelection(text)
    by_name = _named_environment(candidates, _names_in_errors(lines))
    by_position = _environment_of_last_error(candidates, lines)
    used = by_name or by_position or _after_installs(candidates, lines)
    others = [entry for entry in candidates if entry is not used]
    blank = {number for entry in others for number in _output_lines(lines, entry)}
    kept = "\n".join("" if number in blank else line for number, line in enumerate(full_lines, 1))
    rest = "\n".join(line if number in blank else "" for number, line in enumerate(full_lines, 1))
    unused = " and ".join(_label(entry) for entry in others)
    if by_name:
        why = "named by the error"
    elif by_position:
        why = "the error is below it"
    else:
        why = "the first, since the error names none of them" if used is candidates[0] else "after the install above it"
    note = f"the text has {len(candidates)} environments: using {_label(used)} ({why}), not {unused}"
    return PasteSelection(kept, rest, note)


def environments(lines: Sequence[str]) -> tuple[Environment, ...]:
    """The environments; one begins at an output that the previous one already has, with different content."""
    starts = [1, *islice(_starts(lines), _MAX_ENVIRONMENTS - 1)]
    ends = [*(start - 1 for start in starts[1:]), len(lines)]
    return tuple(
        Environment(first, last, frozenset(_names(lines[first - 1 : last])))
        for first, last in zip(starts, ends, strict=True)
    )


def _starts(lines: Sequence[str]) -> Iterator[int]:
    seen: dict[str, str] = {}
    end = 0  # the last line that certainly belongs to the previous environment
    for number, line in enumerate(lines, 1):
        for output, identity in _heads(line):
            if output in seen and (seen[output] != identity or not identity):
                yield _begin(lines, number, end, frozen=output.startswith("=="))
                seen = {}
            seen[output] = identity
            end = number


def _heads(line: str) -> Iterator[tuple[str, str]]:
    """The outputs that begin in a line, each with a text that differs between environments."""
    for output, head in _HEADS:
        match = head.match(line)
        if match:
            yield output, " ".join(filter(None, match.groups()))
    frozen = _FROZEN.match(line)
    if frozen:
        yield f"=={frozen[1].lower()}", frozen[2]


def _begin(lines: Sequence[str], head: int, end: int, *, frozen: bool) -> int:
    """The first line of an environment, with the prompt, the heading and the time above its first output."""
    number = head
    while frozen and number > 1 and _FROZEN.match(lines[number - 2]):
        number -= 1
    minimum = max(number - _LINES_ABOVE, 1 if frozen else end + 1)
    while number > minimum and _is_introduction(lines[number - 2]):
        number -= 1
    return number


def _is_introduction(line: str) -> bool:
    return bool(_PROMPT.match(line) or _HEADING.match(line) or _TIME.match(line) or _HOST_KIND.search(line))


def _names(lines: Sequence[str]) -> Iterator[str]:
    """The names of an environment in its lines, up to the line above an error."""
    error = next((number for number, line in enumerate(lines) if _ERROR.match(line)), None)
    for line in lines if error is None else lines[: _line_above(lines, error)]:
        yield from _names_in(line, with_kinds=len(line) < 80 and not _FROZEN.match(line))  # noqa: PLR2004 - a heading's


def _names_in(line: str, *, with_kinds: bool) -> Iterator[str]:
    prompt = _PROMPT.match(line)
    if prompt:
        yield from (name for name in (prompt["env"], prompt["alone"], prompt["host"]) if name)
        for name in (prompt["env"], prompt["alone"]):
            if name and "/" in name:
                yield posixpath.basename(name)
    for match in _PATH.finditer(line) if any(part in line for part in _IN_A_PATH) else ():
        path = match[1] or match[2]
        if path not in _SYSTEM:
            yield path
        if posixpath.basename(path) not in _COMMON_NAMES:
            yield posixpath.basename(path)
    if with_kinds:
        yield from (match[1].lower() for match in _HOST_KIND.finditer(line))


def _names_in_errors(lines: Sequence[str]) -> frozenset[str]:
    """The names in errors and their tracebacks, and in the prompt and heading above them."""
    names: set[str] = set()
    for number, line in enumerate(lines):
        if not _ERROR.match(line):
            continue
        names |= set(_names_in(line, with_kinds=False))
        traceback = line.lstrip().startswith("Traceback")
        for following in lines[number + 1 : number + 60] if traceback else ():
            if not following.startswith((" ", "\t")):
                break
            names |= set(_names_in(following, with_kinds=False))
        for above in lines[_line_above(lines, number) : number]:
            names |= set(_names_in(above, with_kinds=bool(_HEADING.match(above) or _PROMPT.match(above))))
    return frozenset(names)


def _line_above(lines: Sequence[str], error: int) -> int:
    """The index of the last non-empty line above an error, such as a prompt; without one, of the error itself."""
    candidates = range(error - 1, max(-1, error - 4), -1)
    return next((number for number in candidates if lines[number].strip()), error)


def _named_environment(candidates: Sequence[Environment], names: frozenset[str]) -> Environment | None:
    """The only environment with one of the names; longer names go first."""
    for name in sorted(names, key=len, reverse=True):
        owners = [entry for entry in candidates if name in entry.names]
        if len(owners) == 1:
            return owners[0]
    return None


def _environment_of_last_error(candidates: Sequence[Environment], lines: Sequence[str]) -> Environment | None:
    """The environment with the last error in its lines; None without one, or if the error is above all of them.

    For an environment before and after an install, this is the state in which the error occurred.
    """
    errors = [number for number, line in enumerate(lines, 1) if _ERROR.match(line)]
    raised = [number for number in errors if _RAISED.match(lines[number - 1])]
    last = max(raised or errors, default=0)
    if not any(True for line in lines[: max(0, last - 1)] for _ in _heads(line)):
        return None
    return next((entry for entry in candidates if entry.first <= last <= entry.last), None)


def _after_installs(candidates: Sequence[Environment], lines: Sequence[str]) -> Environment:
    """The first environment, in its state after the installs between its outputs and the next ones.

    With an error above all of them it is the state before the installs.
    """

    def is_install(line: str) -> bool:
        prompt = _PROMPT.match(line)
        return _INSTALL.match(line[prompt.end() if prompt else 0 :]) is not None

    used = candidates[0]
    for entry in () if any(map(_ERROR.match, lines)) else candidates[1:]:
        between = lines[_head(used, lines) : _head(entry, lines)]
        is_other = bool(used.names) and bool(entry.names) and not used.names & entry.names
        if is_other or not any(map(is_install, between)):
            break
        used = entry
    return used


def _head(entry: Environment, lines: Sequence[str]) -> int:
    """The index of the line with its first output."""
    return next((number for number in range(entry.first - 1, entry.last) if any(_heads(lines[number]))), entry.last)


def _output_lines(lines: Sequence[str], entry: Environment) -> Iterator[int]:
    """The numbers of the lines of an environment, up to an error."""
    for number in range(entry.first, entry.last + 1):
        if _ERROR.match(lines[number - 1]):
            return
        yield number


def _label(entry: Environment) -> str:
    name = min((name for name in entry.names if name not in _COMMON_NAMES), key=len, default=None)
    return f"the one at line {entry.first}" + (f" ({name})" if name else "")
