"""Output on a terminal of 80 columns and in a pipe, through a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

import pytest

from gpuenv.model.reading import known
from tests.cli.program import LIMIT, MINIMAL, PROGRAM, gpuenv
from tests.cli.recorded import FIT, UNFIT, changed, record

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot

ESCAPE = "\x1b"
CODES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on the terminal, and the exit code."""

    text: str
    code: int

    @property
    def plain(self) -> list[str]:
        """The lines without colour."""
        return CODES.sub("", self.text).split("\n")


def on_terminal(*arguments: str | Path, columns: int = 80, variables: tuple[tuple[str, str], ...] = ()) -> Shown:
    """Runs the program with a pseudo-terminal of the given width for its standard output."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**MINIMAL, "TERM": "xterm-256color", **dict(variables)}
    command = [*PROGRAM, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(theirs)
        said = _read(mine)
        assert process.stderr is not None
        complained = process.stderr.read().decode()
    os.close(mine)
    assert "Traceback" not in complained, complained
    return Shown(said.decode("utf-8", "replace").replace("\r\n", "\n"), process.returncode)


@cache
def shown_once(*arguments: str | Path, columns: int = 80, variables: tuple[tuple[str, str], ...] = ()) -> Shown:
    """The same of a recording that all tests share: another's folder may be given away again."""
    return on_terminal(*arguments, columns=columns, variables=variables)


@cache
def piped(*arguments: str | Path) -> str:
    """What the program prints into a pipe, of a shared recording."""
    return gpuenv(*arguments).stdout


def _read(terminal: int) -> bytes:
    """All that is written until the other side is closed, which Linux tells with an error."""
    said = b""
    until = time.monotonic() + LIMIT
    with contextlib.suppress(OSError):
        while time.monotonic() < until and select.select([terminal], [], [], until - time.monotonic())[0]:
            chunk = os.read(terminal, 65536)
            if not chunk:
                break
            said += chunk
    return said


def too_long(lines: list[str], columns: int) -> list[str]:
    """Lines beyond the width that could have been broken: more than one word, besides their indent."""
    return [line for line in lines if len(line) > columns and len(line.split()) > 1]


@pytest.mark.parametrize(("name", "columns"), [("unfit", 80), ("unfit", 40), ("without-gpu", 80), ("empty", 80)])
def test_no_line_of_a_report_is_wider_than_the_terminal(recordings: dict[str, Path], name: str, columns: int) -> None:
    shown = shown_once("doctor", "--snapshot", recordings[name], columns=columns)
    assert shown.code == {"unfit": 1, "without-gpu": 1, "empty": 8}[name]
    assert too_long(shown.plain, columns) == []


@pytest.mark.parametrize("arguments", [["resolve", "-v"], ["probe"], ["explain", "no-driver"]], ids=" ".join)
def test_no_line_of_a_command_is_wider_than_the_terminal(recordings: dict[str, Path], arguments: list[str]) -> None:
    options = [] if arguments[0] == "explain" else ["--snapshot", str(recordings["unfit"])]
    shown = shown_once(*arguments, *options)
    assert len(shown.plain) > 10
    assert too_long(shown.plain, 80) == []


@pytest.mark.parametrize("arguments", [["simulate", "--list"], ["smoke", "--list"], ["doctor", "--list"]], ids=" ".join)
@pytest.mark.parametrize("columns", [80, 40])
def test_a_list_is_read_on_any_terminal(arguments: list[str], columns: int) -> None:
    shown = shown_once(*arguments, columns=columns)
    assert [line for line in shown.plain if len(line) > columns] == []


def test_a_command_that_is_too_long_is_continued_as_a_shell_reads_it(recordings: dict[str, Path]) -> None:
    shown = shown_once("doctor", "--snapshot", recordings["unfit"], columns=40)
    first = next(number for number, line in enumerate(shown.plain) if line.strip().startswith("$ "))
    last = next(number for number in range(first, len(shown.plain)) if not shown.plain[number].endswith(" \\"))
    assert last > first
    joined = " ".join(line.strip().removeprefix("$ ").removesuffix(" \\") for line in shown.plain[first : last + 1])
    assert f"$ {joined}" in piped("doctor", "--snapshot", recordings["unfit"])


@pytest.mark.parametrize("folder", ["o'brien", "o'brien's own", 'a "b" c', 'it\'s "so"'])
@pytest.mark.parametrize("columns", [80, 40])
def test_a_command_on_a_terminal_is_what_a_shell_needs(tmp_path: Path, folder: str, columns: int) -> None:
    executable = f"/srv/{folder}/bin/python3"
    target = UNFIT.target._replace(executable=known(executable, "the target's interpreter"))
    shown = on_terminal(
        "doctor", "--snapshot", record(changed(UNFIT, target=target), tmp_path / "a.json"), columns=columns
    )
    lines = [line.rstrip() for line in shown.plain]
    commands = re.findall(r"^ +\$ ((?:.* \\\n)*.*)$", "\n".join(lines), re.MULTILINE)
    words = [shlex.split(command) for command in commands]  # raises where a quote is left open
    assert any(executable in command for command in words)


def test_a_wrapped_line_keeps_every_word_and_its_place(recordings: dict[str, Path]) -> None:
    whole = piped("doctor", "--snapshot", recordings["unfit"])
    shown = shown_once("doctor", "--snapshot", recordings["unfit"])
    assert [word for word in " ".join(shown.plain).split() if word != "\\"] == whole.split()
    assert len(shown.plain) > len(whole.split("\n"))
    titles = [number for number, line in enumerate(shown.plain) if line.startswith("    The driver is too old")]
    assert titles
    assert shown.plain[titles[0] + 1].startswith("    ")


def test_a_command_to_copy_is_not_torn_in_a_word(recordings: dict[str, Path]) -> None:
    shown = shown_once("doctor", "--snapshot", recordings["unfit"], columns=40)
    assert any("/srv/envs/cupy/bin/python3" in line.split() for line in shown.plain)


def test_a_terminal_gets_colour(recordings: dict[str, Path]) -> None:
    shown = shown_once("doctor", "--snapshot", recordings["unfit"])
    assert ESCAPE in shown.text
    assert shown.plain[0].startswith("UNFIT: ")


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["--format", "json"], {}),
    ],
)
def test_who_wants_no_colour_gets_none(
    recordings: dict[str, Path], options: list[str], variables: dict[str, str]
) -> None:
    shown = shown_once("doctor", "--snapshot", recordings["unfit"], *options, variables=tuple(variables.items()))
    assert ESCAPE not in shown.text
    assert "driver-too-old-for-cuda" in shown.text


def test_an_empty_variable_wants_nothing(recordings: dict[str, Path]) -> None:
    """no-color.org: it counts "when present and not an empty string"."""
    shown = shown_once("doctor", "--snapshot", recordings["unfit"], variables=(("NO_COLOR", ""),))
    assert ESCAPE in shown.text


def test_without_colour_it_is_wrapped_all_the_same(recordings: dict[str, Path]) -> None:
    coloured = shown_once("doctor", "--snapshot", recordings["unfit"])
    bare = shown_once("doctor", "--snapshot", recordings["unfit"], "--no-color")
    assert bare.plain == coloured.plain


def test_a_pipe_gets_neither_colour_nor_wrapping(recordings: dict[str, Path]) -> None:
    told = {"TERM": "xterm-256color", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "COLUMNS": "40"}
    forced = gpuenv("doctor", "--snapshot", recordings["unfit"], environment=told).stdout
    assert ESCAPE not in forced
    assert forced == piped("doctor", "--snapshot", recordings["unfit"])
    assert max(map(len, forced.splitlines())) > 100


def test_json_is_the_same_on_a_terminal_and_in_a_pipe(recordings: dict[str, Path]) -> None:
    shown = shown_once("probe", "--snapshot", recordings["fit"], "--format", "json")
    assert shown.text == piped("probe", "--snapshot", recordings["fit"], "--format", "json")


@pytest.mark.parametrize(("name", "word"), [("fit", "FIT: "), ("unfit", "UNFIT: "), ("empty", "UNKNOWN: ")])
def test_the_verdict_is_in_the_first_line_and_in_ascii(recordings: dict[str, Path], name: str, word: str) -> None:
    text = piped("doctor", "--snapshot", recordings[name])
    assert text.startswith(word)
    text.encode("ascii")


def named(machine: Snapshot, distribution: str) -> Snapshot:
    return changed(machine, host=machine.host._replace(distribution=known(distribution, "/etc/os-release")))


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-7", "utf-8"])
@pytest.mark.parametrize("options", [[], ["--no-color"]], ids=["colour", "no colour"])
def test_a_terminal_without_the_character_gets_a_substitute(tmp_path: Path, encoding: str, options: list[str]) -> None:
    recording = record(named(UNFIT, "été-linux 1"), tmp_path / "accented.json")
    shown = on_terminal("probe", "--snapshot", recording, *options, variables=(("PYTHONIOENCODING", encoding),))
    assert shown.code == 0
    assert "-linux 1" in shown.text


@pytest.mark.parametrize("where", ["terminal", "pipe"])
def test_a_recording_cannot_command_the_terminal(tmp_path: Path, where: str) -> None:
    """A recording comes with a bug report, from anybody: it may not clear the screen or change a title."""
    evil = "ubuntu\x1b[2J\x1b]0;title\x07 24.04\r\x9b31m"
    recording = record(named(FIT, evil), tmp_path / "evil.json")
    arguments = ("probe", "--snapshot", recording, "--no-color")
    text = on_terminal(*arguments).text if where == "terminal" else gpuenv(*map(str, arguments)).stdout
    assert [character for character in "\x1b\x07\x9b\r" if character in text] == []


def test_a_fact_cannot_forge_a_line_of_the_report(tmp_path: Path) -> None:
    recording = record(named(FIT, "ubuntu\n\nUNFIT: forged"), tmp_path / "forged.json")
    lines = gpuenv("doctor", "--snapshot", recording).stdout.splitlines()
    assert [line for line in lines if line.startswith("UNFIT")] == []


def columns_of(line: str) -> int:
    """How many columns a terminal gives to a line: two to a wide character (Unicode Standard Annex 11)."""
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in line)


@pytest.mark.parametrize(
    "words",
    [
        "超級計算 機械学習 環境構築 検証済み 計算機群 管理番号 運用部門",
        "מחשב על של המכון למדעי המחשב והמתמטיקה",
        "e\u0301te\u0301 " * 12,
    ],
    ids=["wide", "right to left", "combining"],
)
@pytest.mark.parametrize("columns", [80, 40])
def test_names_of_all_scripts_stay_within_the_terminal(tmp_path: Path, words: str, columns: int) -> None:
    recording = record(named(FIT, words), tmp_path / "named.json")
    shown = on_terminal("probe", "--snapshot", recording, columns=columns)
    assert shown.code == 0
    assert set(words.split()) <= set(" ".join(shown.plain).split()), "no word is lost"
    too_wide = [line for line in shown.plain if columns_of(line) > columns and len(line.split()) > 1]
    assert too_wide == []


@pytest.mark.parametrize(
    "evil", ["\u202e", "\u2066", "\u200b", "\u2028"], ids=["override", "isolate", "nothing", "line"]
)
def test_what_reorders_or_hides_text_is_shown_as_an_escape(tmp_path: Path, evil: str) -> None:
    recording = record(named(FIT, f"ubuntu{evil}24.04"), tmp_path / "evil.json")
    text = on_terminal("probe", "--snapshot", recording, "--no-color").text
    assert evil not in text
    assert f"\\u{ord(evil):04x}" in text
