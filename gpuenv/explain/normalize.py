"""Removes what a text was wrapped in: colours, prefixes of logs, quotes of mails, HTML, strings of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>()][0-9A-B]?)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\ufeff]")
# Longer runs of blanks have no meaning, and slow down patterns with several spaces.
_BLANKS = re.compile(r"\s{9,}")
# Replacements of quotes by forums, mails and chats, and the entities of a text that was HTML.
_QUOTES = str.maketrans("\u2018\u2019\u00b4\u2032\u201c\u201d\u201e\u00a0", "''''\"\"\" ")
_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&#34;": '"',
    "&#39;": "'",
    "&#x27;": "'",
    "&nbsp;": " ",
    "&amp;": "&",
}
_ENTITY = re.compile("|".join(_ENTITIES))
_ESCAPED_QUOTE = re.compile(r"\\(['\"])")
_LEVEL = r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_NAME = r"[^\W\d_]{2,5}\.?"  # of a day or month, in any language
# What logging systems, mails and frames write before a line, each at most a few times.
_PREFIXES = re.compile(
    rf"""\s*(?:
      \[?(?:{_NAME}\s)?\d{{4}}[-/]\d\d[-/]\d\d,?[T\s]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d|\sUTC)?\]?  # ISO
      (?:(?:\s-\s[\w.]+)?\s-\s{_LEVEL}\s-(?=\s)|\s?{_LEVEL}(?=\s)|\s?\[{_LEVEL}\]|\s\d\d[OE][\s+]  # and a level,
      |\s\|\s{_LEVEL}\s+\|\s[\w.<>-]+:[\w.<>-]+:\d+\s-(?=\s)|\s\{{[\w.-]+:\d+\}}\s{_LEVEL}\s-(?=\s)  # loguru, Airflow,
      |\s[\w.-]+\s(?:kernel|[\w@./-]+\[\d+\]):(?=\s))?                                # journald and rsyslog
    | (?:{_NAME}\s)?{_NAME}\s{{1,2}}\d{{1,2}}\s\d\d:\d\d:\d\d(?:[.,]\d+)?(?:\s\d{{4}})?    # syslog's time, and
      \s[\w.-]+\s[\w@./-]+(?:\[\d+\])?:                                                # its host and program
    | \[{_NAME}\s{_NAME}\s{{1,2}}\d{{1,2}}\s\d\d:\d\d:\d\d\s\d{{4}}\]                     # dmesg -T
    | (?:kern|user|daemon)\s*:\w+\s*:(?=\s)                                           # dmesg -x
    | \d\d:\d\d:\d\d(?:[.,]\d+)?(?=\s)                                                 # a clock
    | time="[^"]{{1,60}}"\slevel=\w+\smsg="?                                           # Docker, containerd, Podman
    | {_LEVEL}:[\w.]+:                                                                 # Python's logging
    | {_LEVEL}\s+[\w.]+:[\w.-]+\.py:\d+(?=\s)                                          # as pytest has caught it
    | \[{_LEVEL}\](?=\s)                                                               # a level alone
    | [\w.-]{{1,40}}\s*\|(?=\s)(?!\s(?:e?grep|head|tail|awk|sort|wc|less|tee)\b)               # compose, not a pipe
    | \[pod/[\w./-]+\](?=\s)                                                           # kubectl
    | \[(?:rank|default)\d+\]:                                                         # torchrun
    | \[gw\d+\](?=\s)                                                                  # pytest-xdist
    | \[\d+,\d+\]<std(?:err|out)>:                                                     # mpirun
    | \((?:[\w.-]+\s)?pid=\d+(?:,\s?ip=[\d.]+)?\)(?=\s)                                # ray
    | \[\s*\d+\.\d{{3,6}}\](?:\[[\w\s]+\]|\s[\w.-]+\skernel:)?                        # the kernel's seconds
    | \#\#\[\w+\] | ::(?:error|warning)[^:]*:: | [^\t]{{1,80}}\t[^\t]{{1,80}}\t(?=\s?\d{{4}}-\d\d-\d\dT)  # GitHub
    | \#\d+\s\d+\.\d+                                                                  # docker build
    | (?:stdout|stderr)\s[FP]\s                                                        # CRI
    | [IWEF]\d{{4}}\s\d\d:\d\d:\d\d(?:\.\d+)?\s+\d+\s(?:[\w.-]+:\d+\](?=\s))?           # glog
    | E(?=\s{{2,}})                                                                    # pytest
    | >(?![>=]) | \|(?=\s)(?![^|]*\|) | [\u2502\u2503]                                 # a quote, a frame
    )\s?""",
    re.VERBOSE,
)
_FRAME_END = re.compile(r"\s*[\u2502\u2503]\s*$")
_MOST = 6  # prefixes of a line

# A string of JSON or of Python: its notation has the line ends as two characters.
_NOTATION = re.compile(r"""\s*(?:[\[{]*\s*"[\w.@-]*"\s*:|b?["'])|.{0,200}[{,]\s*"[\w.@-]+"\s*:\s*["{]""", re.DOTALL)
_KEYS = r"(?:log|msg|message|error|err|exc\w*|stack\w*|traceback|stderr|stdout|output|text|line|event)"
_KEY = re.compile(_KEYS)
_RECORD = re.compile(  # of a log, with the message as one string; other objects are left unchanged
    rf"""[^{{}}]{{0,80}}\{{.*"{_KEYS}"\s*:\s*".*\}}\s*$|\s*b?(?:'[^'\s]*\s[^']*'|"[^"\s]*\s[^"]*")\s*$""", re.DOTALL
)
_QUOTED = re.compile(r"""b?(['"])((?:(?!\1)[^\\]|\\.)*)\1""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_FOREIGN = re.compile(r"(?<!\\)(?:\\\\)*\\[^nrtbfuxU0'\"\\/]")  # in paths of Windows, in no notation
_MEANT = {"n": "\n", "t": "\t", "r": " ", "b": " ", "f": " "}
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_NESTED = 3  # strings in strings


def unfolded(text: str, *, notation: bool) -> list[str]:
    r"""The lines in one line of a text, or a piece of it, separated by ``<br>`` or, in a string, by ``\n``.

    ``notation``: whether the line is JSON or a string of Python, by :func:`is_notation`.
    """
    if notation:
        text = _decoded_strings(text).encode("utf-8", "replace").decode()  # half a character is none
    if "<br" in text or "<BR" in text:
        text = _BREAK.sub("\n", text)
    return text.rstrip("\n").split("\n")


def _decoded_strings(text: str) -> str:
    """The contents of the strings in a line of JSON, or of a Python string; nested strings too."""
    for _ in range(_NESTED):
        strings = _strings(text)
        if strings is not None:
            text = "\n".join(part.rstrip("\n") for part in strings)
        elif "\\n" in text:
            text = _ESCAPE.sub(_meant, text)
        if "\n" in text or not is_notation(text):  # a string in a string has no line end before its own is undone
            break
    return text


def _strings(text: str) -> list[str] | None:
    """The strings of a line that is a JSON record or a Python string; None for any other or a truncated line."""
    quoted = _QUOTED.fullmatch(text.strip())
    if quoted is not None:
        return [_ESCAPE.sub(_meant, quoted[2])]
    try:
        return list(_sentences("", json.loads(text[text.find("{") :]))) or None
    except (ValueError, RecursionError):
        return None


def _sentences(key: str, value: object) -> Iterator[str]:
    """The strings with several words, and those whose key names a message."""
    if isinstance(value, str):
        if _KEY.fullmatch(key) or " " in value.strip():
            yield value
    elif isinstance(value, dict):
        for inner, part in value.items():
            yield from _sentences(str(inner), part)
    elif isinstance(value, list):
        for part in value:
            yield from _sentences(key, part)


def is_notation(text: str) -> bool:
    """Whether a line begins like JSON or a string of Python."""
    is_string = "\\n" in text and _NOTATION.match(text) is not None
    return (is_string or _RECORD.match(text) is not None) and _FOREIGN.search(text) is None


def _meant(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    return chr(int(digits, 16)) if digits else _MEANT.get(escape[3], escape[3])


def clean(text: str) -> str:
    """A line without colours, control characters and the prefixes of logging systems, and with plain quotes."""
    text = _BLANKS.sub(" " * 8, _CONTROL.sub(" ", _ESCAPES.sub("", text)))
    if not text.isascii():
        text = _FRAME_END.sub("", text.translate(_QUOTES))
    if "&" in text:
        text = _ENTITY.sub(lambda match: _ENTITIES[match[0]], text)
    if "\\" in text:
        text = _ESCAPED_QUOTE.sub(r"\1", text)
    for _ in range(_MOST):
        match = _PREFIXES.match(text)
        if match is None or not match[0].strip():
            break
        text = text[match.end() :]
        if match[0].rstrip().endswith('="'):
            text = text.rstrip().removesuffix('"')
    return text.strip()
