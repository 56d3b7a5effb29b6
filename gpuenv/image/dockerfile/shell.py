"""The simple commands in a shell's text, with the place of every word.

Enough of a shell for the RUN instructions of Dockerfiles: quotes, variables, operators, redirections, comments and
``sh -c``; what a substitution would print is not known, and a word with one says so.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from gpuenv.image.dockerfile.bounds import spend
from gpuenv.image.dockerfile.docker_parse import SourceText, source_text
from gpuenv.image.dockerfile.shell_lexer import plain_end, quote_end, word_end
from gpuenv.image.dockerfile.shell_loops import expand_xargs, loop_marker, loop_values, unroll
from gpuenv.image.dockerfile.variables import Lookup, is_known, substitute

_OPERATOR = re.compile(r"\|\||&&|;;|[;|&\n()]")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>?&?|<&?|<<<|<<-?)\s*")
_KEYWORDS = ("then", "else", "elif", "do", "if", "while", "until", "!", "{", "}", "fi", "done", "esac")
_CONDITIONS = ("if", "elif", "while", "until", "!")
_CONDITIONAL = ("if", "while", "until", "case")
_WRAPPERS = ("sudo", "exec", "time", "nice", "nohup", "command", "env", "xvfb-run", "gosu", "timeout", "eatmydata")
# Their options that take a word of their own: sudo(8); env, nice and timeout of GNU coreutils 9.1, --help (2026-11-22).
_VALUED = {"sudo": "CDRTUghpu", "env": "Cu", "nice": "n", "timeout": "ks", "exec": "a"}
_VALUED_LONG = ("--user", "--group", "--chdir", "--unset", "--adjustment", "--signal", "--kill-after")
_DECLARING = ("export", "declare", "local", "readonly")
_MOVES = ("cd", "pushd", "popd")
_SHELLS = ("sh", "bash", "dash", "zsh", "ash")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_DEEPEST = 3
_COST = 2000  # of a command, in characters: rules compare each with others
_MOST_VARIABLES = 200  # of a script; further ones are unknown


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
        guarded: whether its failure stops nothing, or it stands in a condition.
        perhaps: whether it may not be run at all: it stands in a condition, or after ``||``.
        folder: where it is run, from the folder of its script; null if unknown.
        piped: whether its output goes to another command, whose success is what counts.
        variables: those that the script has set before it, and those set for it alone; null if unknown.
    """

    words: tuple[ShellWord, ...]
    guarded: bool = False
    perhaps: bool = False
    folder: str | None = ""
    piped: bool = False
    variables: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return self.words[0].text.rsplit("/", 1)[-1]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the arguments."""
        return tuple(word.text for word in self.words[1:])


def commands(source: SourceText, lookup: Lookup, depth: int = 0, folder: str | None = "") -> tuple[Command, ...]:
    """Every simple command of a shell's text, which is run in a folder."""
    shell = _Shell(lookup, depth, folder)
    words: list[ShellWord] = []
    # Token by token: what a word stands for depends on what was set before it.
    for part in chain(_tokens(source, shell.known), "\n"):
        if isinstance(part, ShellWord):
            words.append(part)
        else:
            shell.end(words, part)
            words = []
    return tuple(shell.found)


class _Shell:
    """The state of a shell while its text is read.

    Attributes:
        found: the commands so far.
    """

    def __init__(self, lookup: Lookup, depth: int, folder: str | None) -> None:
        self.found: list[Command] = []
        self._lookup, self._depth = lookup, depth
        self._blocks: list[str] = []
        self._folders = [folder]  # of the shell and of each subshell that is open
        self._own: dict[str, str | None] = {}  # its variables
        self._loops: dict[str, tuple[str, ...]] = {}  # the variables of loops, with their values
        self._pipe: list[Command] = []  # what the next command reads
        self._before = ""  # the operator before

    def known(self, name: str) -> str | None:
        """What a variable stands for."""
        return self._own[name] if name in self._own else self._lookup(name)

    def end(self, words: list[ShellWord], operator: str) -> None:
        """Runs the command of these words, which an operator ends."""
        _follow_blocks(words, self._blocks)
        around = self._around(operator)
        ran = tuple(_command(tuple(words), around, lookup=self.known, depth=self._depth))
        spend(_COST * len(ran))
        self.found += (each for entry in ran for each in unroll(expand_xargs(entry, self._pipe), self._loops))
        self._pipe = [*self._pipe, *ran[:1]] if operator == "|" else []
        if ran and ran[0].words[-1] is words[-1]:  # otherwise it is of a script, which has a folder of its own
            self._folders[-1] = _moved(ran[0], self._folders[-1])
        _follow_subshells(operator, self._folders)
        self._set(words)
        self._before = operator

    def _around(self, operator: str) -> Command:
        """The state around a command, as a command without words."""
        inside = any(block in _CONDITIONAL for block in self._blocks)
        return Command(
            (),
            guarded=inside or operator == "||",
            perhaps=inside or self._before == "||",
            folder=self._folders[-1],
            piped=operator == "|",
            variables=self._own,
        )

    def _set(self, words: list[ShellWord]) -> None:
        """The variables that these words set."""
        assigned = _assigned(words, self._blocks)
        loop = loop_values([word for word in words if word.text not in _KEYWORDS])
        if loop is not None:
            self._loops[loop[0]] = loop[1]
            assigned[loop[0]] = loop_marker(loop[0])
        if assigned:  # every command so far keeps those that it saw
            self._own = dict(islice({**self._own, **assigned}.items(), _MOST_VARIABLES))


def _moved(command: Command, folder: str | None) -> str | None:
    """The folder after a command."""
    if command.program not in _MOVES:
        return folder
    words = [word for word in command.words[1:] if not word.text.startswith("-")]
    if command.program == "popd" or len(words) != 1 or not words[0].known or words[0].text.startswith("~"):
        return None
    if "\x00" in words[0].text:  # a loop's variable: one folder after the other
        return None
    if words[0].text.startswith("/"):
        return words[0].text
    return None if folder is None else posixpath.join(folder, words[0].text)


def _assigned(words: list[ShellWord], blocks: list[str]) -> dict[str, str | None]:
    """What an assignment sets that is no command's own; in a block it may be run or not, so its value is unknown."""
    bare = [word for word in words if word.text not in _KEYWORDS]
    if bare and bare[0].text == "for":
        return {word.text: None for word in bare[1:2]}
    if bare and bare[0].text in _DECLARING:
        bare = bare[1:]
    if not all(_ASSIGNMENT.match(word.text) for word in bare):
        return {}
    pairs = ((*word.text.partition("=")[::2], word.known) for word in bare)
    return {name: value if known and not blocks else None for name, value, known in pairs}


def _follow_subshells(operator: str, folders: list[str | None]) -> None:
    """A subshell's folder is its own; a parenthesis of ``case`` closes none."""
    if operator == "(":
        folders.append(folders[-1])
    elif operator == ")" and len(folders) > 1:
        folders.pop()


def _follow_blocks(words: list[ShellWord], blocks: list[str]) -> None:
    """Keeps the blocks that are open: what stands inside a condition may never run."""
    first = next((word.text for word in words if word.text not in ("then", "else", "do", "{", "!")), "")
    if first in (*_CONDITIONAL, "for"):
        blocks.append(first)
    elif first in ("fi", "done", "esac") and blocks:
        blocks.pop()


def _command(words: tuple[ShellWord, ...], around: Command, *, lookup: Lookup, depth: int) -> Iterator[Command]:
    """The command of some words, or those of the script that it runs; ``around`` says where it stands."""
    guarded = around.guarded
    while words and words[0].text in _KEYWORDS:
        guarded = guarded or words[0].text in _CONDITIONS
        words = words[1:]
    if not words or words[0].text in ("for", "case", "function"):
        return
    given = {word.text.partition("=")[0]: word.text.partition("=")[2] for word in _given(words)}
    words = _unwrapped(words)
    if not words:
        return
    command = replace(
        around, words=words, guarded=guarded, variables={**around.variables, **given} if given else around.variables
    )
    script = _script(command) if depth < _DEEPEST else None
    if script is None:
        yield command
        return
    inner = commands(source_text(script.text, script.line), lookup, depth + 1, around.folder)
    lines = max(1, script.text.count("\n"))
    for entry in inner:
        placed = tuple(replace(word, line=min(word.line, script.line + lines)) for word in entry.words)
        yield replace(entry, words=placed, guarded=entry.guarded or guarded, perhaps=entry.perhaps or around.perhaps)


def _given(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """The assignments that stand before a program, and are for it alone."""
    end = next((n for n, word in enumerate(words) if not _ASSIGNMENT.match(word.text) and word.text != "env"), 0)
    return tuple(word for word in words[:end] if word.text != "env" and word.known)


def _unwrapped(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """Without what stands before the program: assignments, sudo and the like with their options."""
    while words:
        name = words[0].text.rsplit("/", 1)[-1]
        if _ASSIGNMENT.match(words[0].text):
            words = words[1:]
        elif name in _WRAPPERS:
            words = words[1:]
            while words and words[0].text.startswith("-"):
                words = words[2 if _takes_a_word(name, words[0].text) else 1 :]
            if name in ("timeout", "gosu") and words:
                words = words[1:]
        else:
            break
    return words


def _takes_a_word(wrapper: str, option: str) -> bool:
    """Whether the word behind an option is its value: ``-u me``, ``-Hu me``, and not ``-ume`` or ``--user=me``."""
    if option.startswith("--"):
        return option in _VALUED_LONG
    valued = next((n for n, letter in enumerate(option) if n and letter in _VALUED.get(wrapper, "")), None)
    return valued == len(option) - 1


def _script(command: Command) -> ShellWord | None:
    """The text that a shell is given to run."""
    if command.program not in _SHELLS:
        return None
    for option, word in zip(command.words[1:], command.words[2:], strict=False):
        if option.text.startswith("-") and not option.text.startswith("--") and "c" in option.text:
            return word
    return None


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
            position = word_end(text, match.end())
        elif (match := _OPERATOR.match(text, position)) is not None:
            yield match[0]
            position = match.end()
        else:
            end = word_end(text, position)
            yield _word(text[position:end], source.line_at(position), lookup)
            position = max(end, position + 1)


def _word(raw: str, line: int, lookup: Lookup) -> ShellWord:
    """A word without its quotes, its variables replaced where they are known."""
    parts: list[str] = []
    known, position = True, 0
    while position < len(raw):
        character = raw[position]
        if character == "\\":
            parts.append(raw[position + 1 : position + 2])
            position += 2
        elif character == "'":
            end = quote_end(raw, position)
            parts.append(raw[position + 1 : end - 1])
            position = end
        else:
            end = quote_end(raw, position) if character == '"' else plain_end(raw, position)
            text = raw[position + 1 : end - 1].replace('\\"', '"') if character == '"' else raw[position:end]
            value = substitute(text, lookup)
            known = known and is_known(value)
            parts.append(value)
            position = end
    return ShellWord("".join(parts), line, known)
