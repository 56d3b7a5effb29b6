"""The simple commands in the text of a shell, with the line of every word.

Enough of a shell for the RUN instructions of Dockerfiles: quotes, variables, operators, redirections, comments, ``cd``
and ``sh -c``. The output of a substitution is unknown, and a command in a condition or a loop may not run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuenv.image.dockerfile.parse import SourceText, source_text
from gpuenv.image.dockerfile.variables import Lookup, is_known, substitute

SHELLS = ("sh", "bash", "dash", "zsh", "ash")
_OPERATOR = re.compile(r"\|\||&&|;;|[;|&\n()]")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>?&?|<&?|<<<|<<-?)\s*")
_KEYWORDS = ("then", "else", "elif", "do", "if", "while", "until", "!", "{", "}", "fi", "done", "esac")
_TESTING = ("if", "elif", "while", "until", "!")
_BLOCKS = ("if", "while", "until", "case", "for")
_WRAPPERS = ("sudo", "exec", "time", "nice", "nohup", "command", "env", "timeout")
# Options of these that take a word: sudo(8); env, nice and timeout of GNU coreutils 9.1, --help (2026-11-22).
_VALUED = re.compile(r"-[A-Za-z]*[ugCDnksap]|--(?:user|group|chdir|unset|signal|kill-after|adjustment)")
_DECLARING = ("export", "declare", "local", "readonly")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_QUOTED = re.compile(r"[\\'\"`]|\$\(")
_DEEPEST = 3
_MOST_PARTS = 200  # of a word: each of thousands of references may have a long value


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word: its text, its line, and whether all of it is known."""

    text: str
    line: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command.

    Attributes:
        words: the program and its arguments, without wrappers, assignments and redirections.
        guarded: whether the script continues if the command fails.
        conditional: whether it may not run: it is in a condition or a loop, or after ``||``.
        folder: its working folder, relative to that of the script; null if unknown.
        piped: whether its output goes to another command, whose exit status counts.
        reads: the command whose output it reads; empty without a pipe.
        variables: the variables that the script sets for it; a value is null if unknown.
    """

    words: tuple[ShellWord, ...]
    guarded: bool = False
    conditional: bool = False
    folder: str | None = ""
    piped: bool = False
    reads: str = ""
    variables: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return self.words[0].text.rsplit("/", 1)[-1]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the arguments."""
        return tuple(word.text for word in self.words[1:])

    @property
    def line(self) -> int:
        """The line of the program."""
        return self.words[0].line


def commands(source: SourceText, lookup: Lookup, folder: str | None = "", depth: int = 0) -> tuple[Command, ...]:
    """The simple commands of a shell script that runs in a folder."""
    shell = _Shell(lookup, folder, depth)
    source = SourceText(source.text.rstrip("; \t\r\n"), source.starts)  # the script ends as its last command does
    words: list[ShellWord] = []
    for part in _tokens(source, shell.lookup):
        if isinstance(part, ShellWord):
            words.append(part)
        else:
            shell.run(words, part)
            words = []
    shell.run(words, "")
    return tuple(shell.found)


class _Shell:
    """The state of a shell while its text is read."""

    def __init__(self, lookup: Lookup, folder: str | None, depth: int) -> None:
        self.found: list[Command] = []
        self._outer, self._depth = lookup, depth
        self._blocks: list[str] = []
        self._folders = [folder]  # of the shell, and of each open subshell
        self._own: dict[str, str | None] = {}
        self._before, self._written = "", ""  # the operator and the command before
        self._stops = False  # set -e

    def lookup(self, name: str) -> str | None:
        """The value of a variable; None if unknown."""
        return self._own[name] if name in self._own else self._outer(name)

    def run(self, words: list[ShellWord], operator: str) -> None:
        """Interprets the command of these words, up to an operator."""
        self._enter_or_leave_block(words)
        tested = any(word.text in _TESTING for word in words[:2])
        bare = [word for word in words if word.text not in _KEYWORDS]
        self._assign(bare)
        program = _unwrapped(bare)
        if program and program[0].text not in ("for", "case", "function", "select"):
            conditional = bool(self._blocks) or self._before == "||"
            goes_on = operator in (";", "\n", "&") and not self._stops
            given = {word.text.partition("=")[0]: word.text.partition("=")[2] for word in _assignments(bare)}
            command = Command(
                tuple(program),
                guarded=tested or conditional or operator == "||" or goes_on,
                conditional=conditional,
                folder=self._folders[-1],
                piped=operator == "|",
                reads=self._written if self._before == "|" else "",
                variables={**self._own, **given},
            )
            self._written = " ".join(word.text for word in program)
            self._follow(command)
        if operator == "(":
            self._folders.append(self._folders[-1])
        elif operator == ")" and len(self._folders) > 1:
            self._folders.pop()
        self._before = operator

    def _follow(self, command: Command) -> None:
        script = _script(command) if self._depth < _DEEPEST else None
        if script is not None:
            inner = commands(source_text(script.text, script.line), self.lookup, command.folder, self._depth + 1)
            self.found += (
                replace(
                    each,
                    guarded=each.guarded or command.guarded,
                    conditional=each.conditional or command.conditional,
                )
                for each in inner
            )
            return
        self.found.append(command)
        if command.program in ("cd", "pushd", "popd"):
            self._folders[-1] = _moved(command)
        elif command.program == "set" and any(re.match(r"-[a-z]*e|errexit", text) for text in command.texts):
            self._stops = True

    def _enter_or_leave_block(self, words: list[ShellWord]) -> None:
        first = next((word.text for word in words if word.text not in ("then", "else", "do", "{", "!")), "")
        if first in _BLOCKS:
            self._blocks.append(first)
        elif first in ("fi", "done", "esac") and self._blocks:
            self._blocks.pop()

    def _assign(self, words: list[ShellWord]) -> None:
        """Sets the variables of an assignment without a command; in a block their values are unknown."""
        if words and words[0].text == "for":
            self._own.update({word.text: None for word in words[1:2]})
        bare = words[1:] if words and words[0].text in _DECLARING else words
        if all(_ASSIGNMENT.match(word.text) for word in bare):
            for word in bare:
                name, _, value = word.text.partition("=")
                self._own[name] = value if word.known and not self._blocks else None


def _moved(command: Command) -> str | None:
    """The folder after a ``cd``; None if unknown."""
    words = [word for word in command.words[1:] if not word.text.startswith("-")]
    if command.program == "popd" or len(words) != 1 or not words[0].known or words[0].text.startswith("~"):
        return None
    return posixpath.join(command.folder, words[0].text) if command.folder is not None else None


def _assignments(words: list[ShellWord]) -> list[ShellWord]:
    """The assignments before a program, which only apply to it."""
    end = next((n for n, word in enumerate(words) if not _ASSIGNMENT.match(word.text) and word.text != "env"), 0)
    return [word for word in words[:end] if word.text != "env" and word.known]


def _unwrapped(words: list[ShellWord]) -> list[ShellWord]:
    """The program and its arguments, without assignments, sudo and the like."""
    while words:
        name = words[0].text.rsplit("/", 1)[-1]
        if not (_ASSIGNMENT.match(words[0].text) or name in _WRAPPERS):
            break
        words = words[1:]
        while name in _WRAPPERS and words and words[0].text.startswith("-"):
            words = words[2 if _VALUED.fullmatch(words[0].text) else 1 :]
        if name == "timeout":
            words = words[1:]
    return words


def _script(command: Command) -> ShellWord | None:
    """The text that ``sh -c`` runs."""
    if command.program not in SHELLS:
        return None
    pairs = zip(command.words[1:], command.words[2:], strict=False)
    return next((word for option, word in pairs if re.fullmatch(r"-[a-z]*c", option.text)), None)


def _tokens(source: SourceText, lookup: Lookup) -> Iterator[ShellWord | str]:
    text, position = source.text, 0
    while position < len(text):
        character = text[position]
        if character in " \t\r" or text.startswith("\\\n", position):
            position += 2 if character == "\\" else 1
        elif character == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif (match := _REDIRECTION.match(text, position)) is not None:
            position = _word_end(text, match.end())
        elif (match := _OPERATOR.match(text, position)) is not None:
            yield match[0]
            position = match.end()
        else:
            end = _word_end(text, position)
            yield from _split_word(text[position:end], source.line_at(position), lookup)
            position = max(end, position + 1)


def _split_word(raw: str, line: int, lookup: Lookup) -> list[ShellWord]:
    """A word; a shell splits the values of its variables at blanks, unless it is quoted or an assignment."""
    word = _word(raw, line, lookup)
    if "$" not in raw or _ASSIGNMENT.match(raw) or _QUOTED.search(raw) or "${" in word.text:
        return [word]
    parts = word.text.split()
    if len(parts) > _MOST_PARTS:
        return [ShellWord(raw, line, known=False)]
    return [ShellWord(part, line, is_known(part)) for part in parts]


def _word(raw: str, line: int, lookup: Lookup) -> ShellWord:
    """A word without its quotes, with its known variables replaced."""
    parts: list[str] = []
    known, position = True, 0
    while position < len(raw):
        character = raw[position]
        if character == "\\":
            parts.append(raw[position + 1 : position + 2])
            position += 2
        elif character == "'":
            end = _quote_end(raw, position)
            parts.append(raw[position + 1 : end - 1])
            position = end
        else:
            end = _quote_end(raw, position) if character == '"' else _plain_end(raw, position)
            text = raw[position + 1 : end - 1].replace('\\"', '"') if character == '"' else raw[position:end]
            value = substitute(text, lookup)
            known = known and is_known(value)
            parts.append(value)
            position = end
    return ShellWord("".join(parts), line, known)


def _word_end(text: str, position: int) -> int:
    """Where a word ends: at a blank or an operator outside of quotes and substitutions."""
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
        elif character in "'\"`":
            position = _quote_end(text, position)
        elif text.startswith("$(", position):
            position = _parenthesis_end(text, position + 1)
        elif text.startswith("${", position):
            end = text.find("}", position)
            position = len(text) if end < 0 else end + 1
        elif character in " \t\r\n;|&()<>":
            return position
        else:
            position += 1
    return min(position, len(text))


def _quote_end(text: str, position: int) -> int:
    """Where a quotation ends, behind its second mark."""
    quote = text[position]
    position += 1
    while position < len(text) and text[position] != quote:
        position += 2 if text[position] == "\\" and quote != "'" else 1
    return position + 1


def _parenthesis_end(text: str, position: int) -> int:
    """Where a parenthesis ends, with those in it."""
    depth = 0
    while position < len(text):
        if text[position] in "'\"":
            position = _quote_end(text, position)
            continue
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
        if depth == 0:
            break
    return position


def _plain_end(raw: str, position: int) -> int:
    """Where the part of a word ends that is neither quoted nor escaped."""
    end = position
    while end < len(raw) and raw[end] not in "\\'\"":
        closing = raw.find("}", end) if raw.startswith("${", end) else -1
        end = closing + 1 if closing >= 0 else end + 1
    return max(end, position + 1)
