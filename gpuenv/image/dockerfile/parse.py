"""A Dockerfile as instructions, with continuation lines, parser directives, comments and heredocs.

moby/buildkit, frontend/dockerfile/docs/reference.md, Format, Parser directives and Here-documents (read 2026-11-21).

Own code, because no kept parser fits: dockerfile-parse (2.0.1, tried 2026-11-21) takes the lines of a heredoc for
instructions, and dockerfile (3.4.0) is BuildKit's own parser behind an extension module that some platforms have no
wheel of. The tests compare this parser with that one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from gpuenv.model.redaction import cut_text

LARGEST = 1 << 20  # characters
_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(\S.*)")
_KEYWORD = re.compile(r"\s*([A-Za-z]+)(?:\s+|$)")
_FLAG = re.compile(r"--[a-z][\w-]*(?:=(?:\"[^\"]*\"|'[^']*'|\S)*)?(?:\s+|$)")
WORD = re.compile(r"(?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')+")
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
_KEYWORDS = (
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
    *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
)
_WITH_HEREDOC = ("ADD", "COPY", "RUN")
_DIRECTIVES = ("syntax", "escape", "check")


class DockerfileError(ValueError):
    """A file that is no valid Dockerfile; the message has the line."""


class DockerfileLimitError(DockerfileError):
    """A Dockerfile with more than gpuenv checks."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A part of a file, in which continued lines are joined, with the offset and the number of each line."""

    text: str
    starts: tuple[tuple[int, int], ...]

    def line_at(self, offset: int) -> int:
        """The line of an offset."""
        return self.starts[max(0, bisect_right(self.starts, (offset, 1 << 60)) - 1)][1]

    def cut(self, begin: int) -> SourceText:
        """The rest of the text, from an offset on."""
        first = (0, self.line_at(begin))
        rest = tuple((offset - begin, line) for offset, line in self.starts if offset > begin)
        return SourceText(self.text[begin:], (first, *rest))


def source_text(text: str, first_line: int) -> SourceText:
    """The source text of unchanged lines."""
    offsets, position = [], 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        offsets.append((position, first_line + number))
        position += len(line)
    return SourceText(text, tuple(offsets) or ((0, first_line),))


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A heredoc: its delimiter and its text."""

    name: str
    body: SourceText


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its keyword in upper case, its flags such as ``--from=builder``, the rest, and its heredocs."""

    keyword: str
    flags: tuple[str, ...]
    body: SourceText
    heredocs: tuple[Heredoc, ...]
    line: int
    end_line: int

    def flag(self, name: str) -> str | None:
        """The value of a flag."""
        return next(iter(self.flags_of(name)), None)

    def flags_of(self, name: str) -> tuple[str, ...]:
        """The values of a flag that may be repeated."""
        found = (flag.partition("=")[::2] for flag in self.flags)
        return tuple(value.strip("\"'") for key, value in found if key == f"--{name}")

    @property
    def exec_form(self) -> list[str] | None:
        """The arguments of the exec form (JSON); none for the shell form."""
        if not self.body.text.lstrip().startswith("["):
            return None
        try:
            words = json.loads(self.body.text)
        except (ValueError, RecursionError):
            return None
        return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def parse(text: str) -> tuple[Instruction, ...]:
    """The instructions of a Dockerfile.

    Raises:
        DockerfileError: with the line.
    """
    if len(text) > LARGEST:
        raise DockerfileLimitError(f"{len(text)} characters are more than the {LARGEST} that a Dockerfile may have")
    if "\0" in text:
        raise DockerfileError("line 1: a NUL character; this is not a text file")
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    return tuple(_instructions([line.removesuffix("\r") for line in lines], _escape(lines)))


def _escape(lines: list[str]) -> str:
    """The character of the directive ``escape``, which is valid only at the top.

    moby/buildkit, frontend/dockerfile/parser/directives.go, ParseLine (read 2026-11-21): a line that is no known
    directive ends them; a repeated directive is refused.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None or match[1].lower() not in _DIRECTIVES:
            break
        name, value = match[1].lower(), match[2]
        if name in found:
            raise DockerfileError(f"line {number}: the directive {name} appears twice")
        if name == "escape" and value not in ("\\", "`"):
            raise DockerfileError(f"line {number}: escape={cut_text(value, 20)}: expected \\ or `")
        found[name] = value
    return found.get("escape", "\\")


def _instructions(lines: list[str], escape: str) -> Iterator[Instruction]:
    continues = re.compile(rf"(?:^|[^{re.escape(escape)}]){re.escape(escape)}[ \t]*$")
    position = 0
    while position < len(lines):
        if _is_empty(lines[position]):
            position += 1
            continue
        first = position
        parts: list[str] = []
        starts: list[tuple[int, int]] = []
        length = 0
        more = True
        while more and position < len(lines):
            line = lines[position]
            position += 1
            if _is_empty(line) and parts:
                continue  # comments and empty lines inside an instruction are passed over
            more = continues.search(line) is not None
            starts.append((length, position))
            parts.append(line.rstrip(" \t")[:-1] if more else line)
            length += len(parts[-1])
        last = position  # comments after a continued line belong to it
        keyword, flags, body = _head(SourceText("".join(parts), tuple(starts)), first + 1)
        heredocs: list[Heredoc] = []
        inner = _KEYWORD.match(body.text) if keyword == "ONBUILD" else None
        if (inner[1].upper() if inner else keyword) in _WITH_HEREDOC:
            for match in map(_HEREDOC.fullmatch, WORD.findall(body.text)):
                if match is None:
                    continue
                heredoc, position = _heredoc(lines, position, match, first + 1)
                heredocs.append(heredoc)
                last = position
        yield Instruction(keyword, flags, body, tuple(heredocs), first + 1, last)


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _head(source: SourceText, line: int) -> tuple[str, tuple[str, ...], SourceText]:
    match = _KEYWORD.match(source.text)
    if match is None or match[1].upper() not in _KEYWORDS:
        word = (source.text.split() or ["nothing"])[0]
        raise DockerfileError(f"line {line}: {cut_text(word, 40)!r} is not an instruction of a Dockerfile")
    flags: list[str] = []
    position = match.end()
    while (flag := _FLAG.match(source.text, position)) is not None:
        flags.append(flag[0].strip())
        position = flag.end()
    return match[1].upper(), tuple(flags), source.cut(position)


def _heredoc(lines: list[str], position: int, match: re.Match[str], line: int) -> tuple[Heredoc, int]:
    """The heredoc up to the line that consists of its delimiter."""
    strips, name = bool(match[1]), re.sub(r"[\"'\\]", "", match[2])
    begin = position
    found: list[str] = []
    while position < len(lines):
        text = lines[position].lstrip("\t") if strips else lines[position]
        position += 1
        if text == name:
            return Heredoc(name, source_text("".join(f"{entry}\n" for entry in found), begin + 1)), position
        found.append(text)
    raise DockerfileError(f"line {line}: the heredoc <<{name} has no end")
