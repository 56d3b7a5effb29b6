"""Forms in which a text arrives: wrapped, quoted, with log prefixes, as HTML or JSON."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable

Form = Callable[[str], str]


def _cut(width: int) -> Form:
    """A terminal breaks lines within words."""

    def form(text: str) -> str:
        return "\n".join(
            line[start : start + width] for line in text.splitlines() for start in range(0, max(len(line), 1), width)
        )

    return form


def _filled(width: int) -> Form:
    """A mail or a web form breaks lines between words."""

    def form(text: str) -> str:
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
        return "\n".join(part for line in text.splitlines() for part in wrapper.wrap(line) or [""])

    return form


def _each(before: str, after: str = "") -> Form:
    """A prefix before each line; ``{n}`` in it is the line's number."""

    def form(text: str) -> str:
        return "\n".join(
            before.replace("{n}", str(number % 60)) + line + after for number, line in enumerate(text.splitlines(), 10)
        )

    return form


def _chained(*forms: Form) -> Form:
    def form(text: str) -> str:
        for one in forms:
            text = one(text)
        return text

    return form


FORMS: dict[str, Form] = {
    "cut at 80": _cut(80),
    "cut at 100": _cut(100),
    "cut at 120": _cut(120),
    "filled to 60": _filled(60),
    "filled to 72, quoted": _chained(_filled(72), _each("> ")),
    "filled to 80": _filled(80),
    "filled to 100": _filled(100),
    "quoted": _each("> "),
    "quoted twice": _each("> > "),
    "quoted without a blank": _each(">"),
    "barred": _each("| "),
    "boxed": _each("│ ", " │"),
    "time of logging": _each("2026-11-21 13:05:{n},123 "),
    "logging with a level": _each("2026-11-21 13:05:{n},123 - trainer - ERROR - "),
    "level in brackets": _each("[2026-11-21 13:05:{n},123][ERROR] "),
    "level and name": _each("ERROR:root:"),
    "time in brackets": _each("[2026-11-21 13:05:{n}] "),
    "clock": _each("13:05:{n} "),
    "rank": _each("[rank0]: "),
    "rank of mpi": _each("[1,0]<stderr>:"),
    "worker of ray": _each("(train_fn pid=4711, ip=10.0.0.7) "),
    "pytest": _each("E   "),
    "pytest deeper": _each("E       "),
    "coloured": _each("\x1b[31;1m", "\x1b[0m"),
    "compose": _each("service-1  | "),
    "compose with time": _each("service-1  | 2026-11-21T13:05:{n}.123456Z "),
    "journal": _each("Nov 21 13:05:{n} node7 python3[4711]: "),
    "journal, short-iso": _each("2026-11-21T13:05:{n}+0100 node7 kernel: "),
    "journal, short-precise": _each("Nov 21 13:05:{n}.123456 node7 python3[4711]: "),
    "journal, short-full": _each("Sat 2026-11-21 13:05:{n} UTC node7 python3[4711]: "),
    "journal in French": _each("nov. 21 13:05:{n} node7 python3[4711]: "),
    "rsyslog": _each("2026-11-21T13:05:{n}.123456+00:00 node7 kernel: [   12.123456] "),
    "dmesg -T": _each("[Sat Nov 21 13:05:{n} 2026] "),
    "dmesg -x": _each("kern  :err   : [ 5123.1234{n}] "),
    "loguru": _each("2026-11-21 13:05:{n}.123 | ERROR    | train:main:12 - "),
    "Airflow": _each("[2026-11-21, 13:05:{n} UTC] {subprocess.py:93} INFO - "),
    "caught by pytest": _each("ERROR    root:test_a.py:12 "),
    "pytest-xdist": _each("[gw0] "),
    "klog": _each("E1121 13:05:{n}.123456       1 main.go:123] "),
    "Docker's own log": _each('time="2026-11-21T13:05:{n}.123Z" level=error msg="', '"'),
    "gh run view": _each("build (3.12)\tRun tests\t2026-11-21T13:05:{n}.1234567Z "),
    "kubectl": _each("[pod/train-7c9d-abcde/main] 2026-11-21T13:05:{n}.123456789Z "),
    "actions": _each("2026-11-21T13:05:{n}.1234567Z "),
    "gitlab": _each("2026-11-21T13:05:{n}.123456Z 01O "),
    "indented": _each("        "),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "html": html.escape,
    "html of a page": lambda text: html.escape(text).replace("\n", "<br>\n"),
    "html in one line": lambda text: html.escape(text).replace("\n", "<br/>"),
    "json": lambda text: json.dumps({"level": "error", "msg": text, "ts": 1.5}),
    "json of docker": lambda text: "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-21T13:05:45.1Z"})
        for line in text.splitlines()
    ),
    "json of json": lambda text: json.dumps({"log": json.dumps({"message": text})}),
    "repr": repr,
    "bytes": lambda text: repr(text.encode()),
    "quoted and cut": _chained(_cut(78), _each("> ")),
    "time and filled": _chained(_each("2026-11-21 13:05:{n},123 ERROR "), _filled(80)),
    "compose, then cut": _chained(_each("service-1  | "), _cut(100)),
    "rank in compose, coloured": _chained(_each("\x1b[36m[rank0]: \x1b[0m"), _each("worker-1  | ")),
}
