"""What a shell runs more than once or with words of its input: loops over words, and xargs.

POSIX, Shell Command Language, 2.9.4.2 (The for Loop), and Utilities, xargs (IEEE Std 1003.1-2017); the options that GNU
adds: findutils manual, "xargs options" (read 2026-11-22).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.bounds import spend

if TYPE_CHECKING:
    from gpuenv.image.dockerfile.shell import Command, ShellWord

_MARK = re.compile("\x00[A-Za-z_]\\w*\x00")
_WORD = 200  # bytes of a word without its text
_MOST = 64  # values of a loop, or commands that loops in loops come to
# --replace and --max-lines have a value only behind "=", as -i and -l have one only in the same word.
_VALUED = ("-n", "-P", "-L", "-I", "-d", "-E", "-s", "-a", "--max-args", "--max-procs", "--max-chars", "--delimiter")
_OF_FILE = ("-a", "--arg-file")
_WHOLE = ("cat", "sort", "uniq")  # what they print has every line of what they read
_GREPS = ("grep", "egrep")
# What leaves out comments and empty lines alone: the option of grep with its pattern, the script of sed.
_COMMENT = r"\^(?:\\s\*|\[\[:space:\]\]\*| \*)?(?:#(?:\.\*)?|\$)"
_NO_COMMENTS = re.compile(rf"{_COMMENT}(?:\\?\|{_COMMENT})*|\^(?:\\s\*|\[\[:space:\]\]\*)?\(#\|\$\)")
_SED = re.compile(rf"/{_COMMENT}/d|s/(?:\\s\*| \*)?#\.\*(?:\$)?//g?")
_PIP = re.compile(r"(?:.*/)?(?:pip[\d.]*|python[\d.]*|uv)")


def loop_marker(name: str) -> str:
    """The placeholder of a loop's variable until the commands of its body are known."""
    return f"\x00{name}\x00"


def loop_values(words: Sequence[ShellWord]) -> tuple[str, tuple[str, ...]] | None:
    """The variable of a loop and its values; none for another command, or where they are not known."""
    texts = [word.text for word in words]
    if len(words) < 4 or texts[0] != "for" or texts[2] != "in" or not all(word.known for word in words[3:]):  # noqa: PLR2004 - for NAME in VALUE
        return None
    values = tuple(value for text in texts[3:] for value in text.split())
    return (texts[1], values) if 0 < len(values) <= _MOST else None


def unroll(command: Command, loops: Mapping[str, Sequence[str]]) -> Iterator[Command]:
    """The command once for each value of the loops whose variables are in its words."""
    named = {name for word in command.words for name in loops if loop_marker(name) in word.text}
    if not named:
        yield command
        return
    length = sum(len(word.text) + _WORD for word in command.words)
    every = itertools.product(*(loops[name] for name in sorted(named)))
    for values in itertools.islice(every, _MOST):
        spend(length)
        given = dict(zip((loop_marker(name) for name in sorted(named)), values, strict=True))
        words = tuple(replace(word, text=_filled(word.text, given)) for word in command.words)
        yield replace(command, words=words)


def _filled(text: str, given: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = given.get(match[0], match[0])
        spend(len(found))
        return found

    return _MARK.sub(value, text)


def expand_xargs(command: Command, sources: Sequence[Command]) -> Command:
    """What xargs runs, with the words that it reads; any other command, or one with unknown input, as it is.

    Args:
        command: the command, with xargs itself.
        sources: what is piped into it, from the beginning of the pipe.
    """
    if command.program != "xargs":
        return command
    words, file, placeholder = _inner(command.words[1:])
    if not words:
        return command
    inner = replace(command, words=words)
    read = _of_file(words, file) if file is not None else _read(words, sources)
    return replace(inner, words=_placed(words, placeholder, read))


def _placed(
    words: tuple[ShellWord, ...], placeholder: str | None, read: tuple[ShellWord, ...]
) -> tuple[ShellWord, ...]:
    """The words with what is read: at the end, or in the place that -I names; a list has none inside of a word."""
    if placeholder is None:
        return (*words, *read)
    if not read:
        return words
    of_file = read[0].text == "-r"
    if of_file and any(placeholder in word.text and placeholder != word.text for word in words):
        return words
    found: list[ShellWord] = []
    for word in words:
        if placeholder not in word.text:
            found.append(word)
        else:
            spend(sum(_WORD + len(word.text) + word.text.count(placeholder) * len(each.text) for each in read))
            found += (
                read if of_file else (replace(word, text=word.text.replace(placeholder, each.text)) for each in read)
            )
    return tuple(found)


def _place(option: str, words: tuple[ShellWord, ...]) -> str | None:
    """What stands for what is read, where this option says so: ``-I R``, ``-IR``, ``-i[R]``, ``--replace[=R]``."""
    text = words[0].text
    if option == "-I":
        return words[1].text if len(words) > 1 else None
    if option == "--replace":
        return text.partition("=")[2] or "{}"
    return (text[2:] or "{}") if text[:2] in ("-I", "-i") else None


def _inner(words: tuple[ShellWord, ...]) -> tuple[tuple[ShellWord, ...], ShellWord | None, str | None]:
    """The command of xargs without its options, the file that -a names, and what stands for what is read."""
    file, placeholder = None, None
    while words and words[0].text.startswith("-"):
        option, equals, _ = words[0].text.partition("=")
        placeholder = _place(option, words) or placeholder
        taken = 2 if option in (*_VALUED, *_OF_FILE) and not equals and len(words) > 1 else 1
        if option in _OF_FILE:
            file = replace(words[0], text=words[0].text.partition("=")[2]) if equals else words[taken - 1]
        words = words[taken:]
    return words, file, placeholder


def _read(words: tuple[ShellWord, ...], sources: Sequence[Command]) -> tuple[ShellWord, ...]:
    """The words that come through the pipe: those that are echoed, or the lines of a file."""
    if not sources or not all(map(_keeps_all, sources[1:])):
        return ()
    first = sources[0]
    plain = [word for word in first.words[1:] if not word.text.startswith("-")]
    if first.program in ("echo", "printf"):
        printed = plain[1:] if first.program == "printf" and plain and "%" in plain[0].text else plain
        parts = ((word, text) for word in printed for text in re.split(r"\s+|\\n", word.text) if text)
        return tuple(replace(word, text=text) for word, text in parts)
    files = plain if first.program in _WHOLE else plain[1:]  # behind the pattern of grep, the script of sed
    return tuple(word for file in files for word in _of_file(words, file)) if _keeps_all(first) else ()


def _keeps_all(command: Command) -> bool:
    """Whether it prints every line that it reads, but for comments and empty ones."""
    texts = command.texts
    plain = [text for text in texts if not text.startswith("-")]
    if command.program in _GREPS:
        inverts = any(re.fullmatch(r"-[hEe]*v[hEe]*|--invert-match", text) for text in texts)
        return inverts and bool(plain) and _NO_COMMENTS.fullmatch(plain[0]) is not None
    if command.program == "sed":
        parts = plain[0].split(";") if plain and "-n" not in texts else []
        return bool(parts) and all(_SED.fullmatch(part.strip()) for part in parts)
    return command.program in _WHOLE and not {"-u", "-d", "-D"} & ({*texts} if command.program == "uniq" else set())


def _of_file(words: tuple[ShellWord, ...], file: ShellWord) -> tuple[ShellWord, ...]:
    """A list of requirements, as an option of pip; what another program makes of it is not known."""
    if not _PIP.fullmatch(words[0].text) or "install" not in [word.text for word in words]:
        return ()
    return replace(file, text="-r", known=True), file
