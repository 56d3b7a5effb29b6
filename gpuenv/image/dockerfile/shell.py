"""The simple commands in the text of a shell, with the line of every word.

Enough of a shell for the RUN instructions of Dockerfiles: quotes, variables, operators, redirections, heredocs,
comments, ``cd`` and ``sh -c``. The output of a substitution is unknown, and a command in a condition or a loop may not
run.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from gpuenv.image.dockerfile.parse import SourceText, source_text
from gpuenv.image.dockerfile.variables import Expansion, Lookup, is_known

SHELLS = ("sh", "bash", "dash", "zsh", "ash")
_OPERATOR = re.compile(r"\|\||&&|;;|[;|&\n()]")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>?&?|<<<|(?P<heredoc><<-?)|<&?)\s*")
_PROCESS = re.compile(r"[<>]\(")
_KEYWORDS = ("then", "else", "elif", "do", "if", "while", "until", "!", "{", "}", "fi", "done", "esac")
_TESTING = ("if", "elif", "while", "until", "!")
# What a script asks before it runs something; others, such as cd and apt-get, are expected to succeed.
_TESTS = ("[", "[[", "test", "which", "type", "hash", "grep", "command")
_BLOCKS = ("if", "while", "until", "case", "for")
_FUNCTION = "function"
_BLOCK_ENDS = ("fi", "done", "esac")
# An operator and a command that fails, whatever the status before it; after ``||``, that status is a failure.
_FAILING = re.compile(r".* (?:false|(?:exit|return) [1-9]\d*)|\|\| (?:exit|return)(?: \$\?)?", re.DOTALL)
_LEAVING = re.compile(r"exit(?: 0)?")
_WRAPPERS = ("sudo", "exec", "time", "nice", "nohup", "command", "env", "timeout")
# Options of these that take a word: sudo(8); env, nice and timeout of GNU coreutils 9.1, --help (2026-11-22).
_VALUED = re.compile(r"-[A-Za-z]*[ugCDnksap]|--(?:user|group|chdir|unset|signal|kill-after|adjustment)")
_DECLARING = ("export", "declare", "local", "readonly")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# The folder of a virtual environment, or the name of one of conda.
_ACTIVATION = re.compile(
    r"(?:\.|source) (\S+)/bin/activate|(?:(?:\.|source|\S*conda|\S*mamba) )?(?:\S*/)?activate (\S+)"
)
_DEACTIVATION = re.compile(r"(?:\S*(?:conda|mamba) )?deactivate")
_QUOTED = re.compile(r"[\\'\"`]|\$\(")
_DEEPEST = 3
_LONGEST_PATH = 4096  # of Linux
_MOST_PARTS = 200  # of a word: each of thousands of references may have a long value


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """The options of a shell that decide whether a failure ends its script: ``-e`` and ``-o pipefail``."""

    errexit: bool = False
    pipefail: bool = False

    def after(self, words: Iterable[str]) -> ShellOptions:
        """The options after words such as ``-euo pipefail``, of a shell or of ``set``; ``+`` turns them off.

        After ``--`` there are only arguments of the script.
        """
        options, sign, is_name = self, "", False
        for word in words:
            if is_name and word in ("errexit", "pipefail"):
                options = replace(options, **{word: sign == "-"})
            is_name = False
            if word == "--":
                break
            if re.fullmatch(r"[-+][A-Za-z]+", word):
                sign, is_name = word[0], "o" in word
                options = replace(options, errexit=sign == "-") if "e" in word else options
        return options


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
        lookup: returns the value of a variable that it sees; None if unknown.
        guarded: whether the script continues if the command fails.
        conditional: whether it may not run: it is in a condition, a loop or a function, after ``||``, or after a test
            that may fail or an ``exit 0``.
        folder: its working folder, relative to that of the script; null if unknown.
        piped: whether its output goes to another command, whose exit status counts.
        reads: the command whose output it reads; empty without a pipe.
        heredoc: the heredoc that it reads, also through a pipe.
    """

    words: tuple[ShellWord, ...]
    lookup: Lookup
    guarded: bool = False
    conditional: bool = False
    folder: str | None = ""
    piped: bool = False
    reads: str = ""
    heredoc: SourceText | None = None

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


def commands(
    source: SourceText, lookup: Lookup, expansion: Expansion, options: ShellOptions = ShellOptions()
) -> tuple[Command, ...]:
    """The simple commands of a script of a shell with these options.

    Raises:
        TooLongError: if its variables expand to too many characters.
    """
    return tuple(_Shell(lookup, expansion, options).read(source))


@dataclass(slots=True)
class _List:
    """A list of commands: a script, or what is between an opening and its end in it.

    Attributes:
        opening: a parenthesis, a brace, a keyword or ``function``; empty for a script.
        conditional: whether it, or the rest of it, may not run.
        start: the number of commands before it.
        begin: the number of commands before its current chain of ``&&`` and ``||``.
        hidden: the number of commands before its last ``||``, whose alternative may hide that they fail; or 0.
        joined: the number of commands before its last ``&&``, whose failure ``set -e`` ignores; or 0.
        test: the number of commands before the first test of the chain; null without one.
    """

    opening: str
    conditional: bool
    start: int
    begin: int
    hidden: int = 0
    joined: int = 0
    test: int | None = None


class _Variables:
    """The variables of a shell, each with its earlier values, since a command keeps those that it sees."""

    def __init__(self, outer: Lookup) -> None:
        self._outer = outer
        self._values: dict[str, list[tuple[int, str | None]]] = {}  # each after so many changes
        self._changes = 0

    def set(self, name: str, value: str | None) -> None:
        """Sets a variable; None, if its value is unknown."""
        self._changes += 1
        self._values.setdefault(name, []).append((self._changes, value))

    def lookup(self, name: str, changes: int | None = None) -> str | None:
        """The value of a variable after so many changes, by default now; None if unknown."""
        values = self._values.get(name, [])
        end = bisect_right(values, self._changes if changes is None else changes, key=itemgetter(0))
        return values[end - 1][1] if end else self._outer(name)

    def freeze(self, given: Mapping[str, str]) -> Lookup:
        """The lookup of a command that sees the values of now, and those that it is given."""
        changes = self._changes
        return lambda name: given[name] if name in given else self.lookup(name, changes)


class _Shell:
    """The state of a shell while its text is read."""

    def __init__(
        self,
        lookup: Lookup,
        expansion: Expansion,
        options: ShellOptions,
        folder: str | None = "",
        depth: int = 0,
    ) -> None:
        self.found: list[Command] = []
        self.variables = _Variables(lookup)
        self._expansion = expansion
        self._depth = depth
        self._options = [options]  # of the shell, and of each open subshell
        self._lists = [_List("", conditional=False, start=0, begin=0)]
        self._folders = [folder]  # of the shell, and of each open subshell
        self._guards: dict[int, int] = {}  # of guarded commands, from one number up to another
        self._pipes: dict[int, int] = {}  # of commands in a group whose output goes to a command
        self._closed = 0  # the start of the last group
        self._after_tests: dict[int, int] = {}  # of commands that a test may skip
        self._defines = False  # whether what is opened next is the body of a function
        self._before, self._written = "", ""  # the operator and the command before
        self._heredoc: SourceText | None = None  # that of the command before

    def read(self, source: SourceText) -> Iterator[Command]:
        """The commands of a script."""
        words: list[ShellWord] = []
        heredoc: SourceText | None = None
        for part in _tokens(source, self.variables.lookup, self._expansion):
            if isinstance(part, ShellWord):
                words.append(part)
            elif isinstance(part, SourceText):
                heredoc = part
            else:
                self._run(words, part, heredoc)
                words, heredoc = [], None
        self._run(words, "", heredoc)
        return self._result()

    def _run(self, words: list[ShellWord], operator: str, heredoc: SourceText | None) -> None:
        """Interprets the command of these words, up to an operator."""
        if not words and operator == "\n" and self._before != ")":
            return  # an empty line
        if self._before in (";", "\n") and (words[0].text != "}" if words else operator == "("):
            self._guard(self._lists[-1].joined if self._options[-1].errexit else len(self.found))
            current = self._lists[-1]
            current.begin, current.joined, current.test = len(self.found), 0, None
        if words and words[0].text == _FUNCTION:
            words, self._defines = words[2:], True
        self._open_or_close(words)
        tested = any(word.text in _TESTING for word in words[:2])
        bare = [word for word in words if word.text not in _KEYWORDS]
        self._assign(bare)
        program = _unwrapped(bare)
        conditional = self._before == "||" or self._lists[-1].conditional
        names_function = operator == "(" and bool(program)
        if program and not names_function and program[0].text not in ("for", "case", "select"):
            given = {word.text.partition("=")[0]: word.text.partition("=")[2] for word in _assignments(bare)}
            text = " ".join(word.text for word in program)
            self._heredoc = heredoc or (self._heredoc if self._before == "|" else None)
            command = Command(
                tuple(program),
                self.variables.freeze(given),
                guarded=tested or conditional,
                conditional=conditional,
                folder=self._folders[-1],
                piped=operator == "|" and not self._options[-1].pipefail,
                reads=self._written if self._before == "|" else "",
                heredoc=self._heredoc,
            )
            if _FAILING.fullmatch(f"{self._before} {text}"):
                if not self._written.startswith(("[", "test ")):
                    self._fail()
            elif _LEAVING.fullmatch(text) and "|" not in (self._before, operator) and operator != "&":
                self._leave()
            self._written = text
            if program[0].text in _TESTS and self._lists[-1].test is None:
                self._lists[-1].test = len(self.found)
            self._follow(command)
        self._end_command(operator, is_group=not program)
        self._defines = self._defines or names_function

    def _end_command(self, operator: str, *, is_group: bool) -> None:
        if operator not in ("|", "("):
            self._guard(self._lists[-1].hidden)
        if operator == "||":
            self._lists[-1].hidden = len(self.found)
        elif operator == "&&":
            self._lists[-1].joined = len(self.found)
        elif operator == "|" and is_group and not self._options[-1].pipefail:
            self._pipes[self._closed] = len(self.found)
        elif operator == "&":
            self._guard(len(self.found))
        elif operator == "(":
            self._open(operator)
            self._folders.append(self._folders[-1])
            self._options.append(self._options[-1])
        elif operator == ")" and self._lists[-1].opening == "(":
            self._closed = self._lists.pop().start
            self._folders.pop()
            self._options.pop()
        self._before = operator

    def _result(self) -> Iterator[Command]:
        """The commands, when all are read."""
        end = tested = piped = 0
        for number, command in enumerate(self.found):
            end = max(end, self._guards.get(number, 0))
            tested = max(tested, self._after_tests.get(number, 0))
            piped = max(piped, self._pipes.get(number, 0))
            if number < max(end, tested, piped):
                yield replace(
                    command,
                    guarded=command.guarded or number < max(end, tested),
                    conditional=command.conditional or number < tested,
                    piped=command.piped or number < piped,
                )
            else:
                yield command

    def _guard(self, end: int) -> None:
        """Notes that the commands of the chain up to an end are guarded; if a test is, those after it may not run."""
        current = self._lists[-1]
        self._guards[current.begin] = max(end, self._guards.get(current.begin, 0))
        if current.test is not None and current.test < end:
            self._after_tests[current.test + 1] = len(self.found)
        current.hidden = 0

    def _fail(self) -> None:
        """Drops the innermost ``||``, since its alternative fails; in a condition it may not."""
        for each in reversed(self._lists):
            if each.hidden or each.opening in _BLOCKS:
                each.hidden = each.joined = 0
                return

    def _leave(self) -> None:
        """Notes that the rest of the shell may not run, since it ends here without a failure."""
        for each in reversed(self._lists):
            if each.opening == _FUNCTION:
                return
            each.conditional = True
            if each.opening == "(":
                return

    def _follow(self, command: Command) -> None:
        script = _script(command) if self._depth < _DEEPEST else None
        if script is not None:
            options = ShellOptions().after(command.texts[: script_position(command.texts)])
            inner = _Shell(command.lookup, self._expansion, options, command.folder, self._depth + 1)
            self.found += (
                replace(
                    each,
                    guarded=each.guarded or command.guarded,
                    conditional=each.conditional or command.conditional,
                    piped=each.piped or command.piped,
                )
                for each in inner.read(script)
            )
            return
        self.found.append(command)
        if command.program in ("cd", "pushd", "popd"):
            self._folders[-1] = _moved(command)
        elif command.program == "set":
            self._options[-1] = self._options[-1].after(command.texts)
        else:
            self._activate(" ".join(word.text for word in command.words))

    def _activate(self, text: str) -> None:
        """Sets the variables that activating an environment sets; in a block their values are unknown."""
        match = _ACTIVATION.fullmatch(text)
        if match is not None or _DEACTIVATION.fullmatch(text):
            found = match.groups("") if match is not None else ("", "")
            values = (None, None) if self._lists[-1].conditional else found
            for name, value in zip(("VIRTUAL_ENV", "CONDA_DEFAULT_ENV"), values, strict=True):
                self.variables.set(name, value)

    def _open_or_close(self, words: list[ShellWord]) -> None:
        for text in (word.text for word in words):
            if text == "{" or text in _BLOCKS:
                self._open(_FUNCTION if text == "{" and self._defines else text)
            elif (text == "}" and self._lists[-1].opening in ("{", _FUNCTION)) or (
                text in _BLOCK_ENDS and self._lists[-1].opening in _BLOCKS
            ):
                self._closed = self._lists.pop().start
            elif text not in _KEYWORDS:
                return

    def _open(self, opening: str) -> None:
        conditional = self._before == "||" or opening in _BLOCKS or self._defines or self._lists[-1].conditional
        self._lists.append(_List(opening, conditional, start=len(self.found), begin=len(self.found)))
        self._defines = False

    def _assign(self, words: list[ShellWord]) -> None:
        """Sets the variables of an assignment without a command; where it may not run, their values are unknown."""
        if words and words[0].text == "for":
            for word in words[1:2]:
                self.variables.set(word.text, None)
        bare = words[1:] if words and words[0].text in _DECLARING else words
        current = self._lists[-1]
        sure = not (current.conditional or self._before == "||" or (self._before == "&&" and current.test is not None))
        if all(_ASSIGNMENT.match(word.text) for word in bare):
            for word in bare:
                name, _, value = word.text.partition("=")
                self.variables.set(name, value if word.known and sure else None)


def _moved(command: Command) -> str | None:
    """The folder after a ``cd``; None if unknown."""
    words = [word for word in command.words[1:] if not word.text.startswith("-")]
    if command.program == "popd" or len(words) != 1 or not words[0].known or words[0].text.startswith("~"):
        return None
    path = posixpath.join(command.folder, words[0].text) if command.folder is not None else None
    return path if path is not None and len(path) <= _LONGEST_PATH else None


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
        if name == "command" and words[1:] and words[1].text in ("-v", "-V"):
            break  # it only looks for a program
        words = words[1:]
        while name in _WRAPPERS and words and words[0].text.startswith("-"):
            words = words[2 if _VALUED.fullmatch(words[0].text) else 1 :]
        if name == "timeout":
            words = words[1:]
    return words


def _script(command: Command) -> SourceText | None:
    """The text that a shell runs: the argument of ``-c``, or a heredoc."""
    if command.program not in SHELLS:
        return None
    word = next(iter(command.words[script_position(command.texts) + 1 :]), None)
    return source_text(word.text, word.line) if word is not None else command.heredoc


def script_position(arguments: Sequence[str]) -> int:
    """The number of a shell's arguments before the text of its ``-c``; all of them without one."""
    return next((n for n, text in enumerate(arguments, 1) if re.fullmatch(r"-[A-Za-z]*c", text)), len(arguments))


def _tokens(source: SourceText, lookup: Lookup, expansion: Expansion) -> Iterator[ShellWord | SourceText | str]:
    """The words, the heredocs (where the redirection is) and the operators."""
    text, position = source.text, 0
    behind: int | None = 0  # the heredocs of this line; None after one without an end
    while position < len(text):
        character = text[position]
        if character in " \t\r" or text.startswith("\\\n", position):
            position += 2 if character == "\\" else 1
        elif character == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif _PROCESS.match(text, position):
            end = _parenthesis_end(text, position + 1)
            yield ShellWord(text[position:end], source.line_at(position), known=False)
            position = end
        elif (match := _REDIRECTION.match(text, position)) is not None:
            position = _word_end(text, match.end())
            if match["heredoc"] and behind is not None:
                begin = behind or text.find("\n", position) + 1 or len(text)
                last = _heredoc_end(text[match.end() : position], match["heredoc"]).search(text, begin)
                if last is not None:
                    yield source_text(text[begin : last.start()], source.line_at(begin))
                behind = last.end() if last is not None else None
        elif (match := _OPERATOR.match(text, position)) is not None:
            yield match[0]
            position = match.end()
            if match[0] == "\n" and behind:
                position, behind = behind, 0
        else:
            end = _word_end(text, position)
            yield from _split_word(text[position:end], source.line_at(position), lookup, expansion)
            position = max(end, position + 1)


def _heredoc_end(delimiter: str, operator: str) -> re.Pattern[str]:
    """The last line of a heredoc."""
    indent = r"\t*" if operator == "<<-" else ""
    name = re.sub(r"[\"'\\]", "", delimiter)
    return re.compile(rf"^{indent}{re.escape(name)}$\n?", re.MULTILINE)


def _split_word(raw: str, line: int, lookup: Lookup, expansion: Expansion) -> list[ShellWord]:
    """A word; a shell splits the values of its variables at blanks, unless it is quoted or an assignment."""
    word = _word(raw, line, lookup, expansion)
    if "$" not in raw or _ASSIGNMENT.match(raw) or _QUOTED.search(raw) or "${" in word.text:
        return [word]
    parts = word.text.split()
    if len(parts) > _MOST_PARTS:
        return [ShellWord(raw, line, known=False)]
    return [ShellWord(part, line, is_known(part)) for part in parts]


def _word(raw: str, line: int, lookup: Lookup, expansion: Expansion) -> ShellWord:
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
            value = expansion.substitute(text, lookup)
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
        elif text.startswith("$(", position) or _PROCESS.match(text, position):
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
