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
from tests.cli.snapshots import FIT, UNFIT, replace_facts, write_snapshot

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot

ESCAPE = "\x1b"
ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """The text on the terminal, and the exit code."""

    text: str
    code: int

    @property
    def plain(self) -> list[str]:
        """The lines without colour."""
        return ESCAPE_SEQUENCE.sub("", self.text).split("\n")


def run_on_terminal(
    *arguments: str | Path, columns: int = 80, variables: tuple[tuple[str, str], ...] = ()
) -> TerminalOutput:
    """Runs the program with a pseudo-terminal of this width as its standard output."""
    terminal, program_side = pty.openpty()
    fcntl.ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**MINIMAL, "TERM": "xterm-256color", **dict(variables)}
    command = [*PROGRAM, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=program_side, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(program_side)
        output = _read(terminal)
        assert process.stderr is not None
        stderr = process.stderr.read().decode()
    os.close(terminal)
    assert "Traceback" not in stderr, stderr
    return TerminalOutput(output.decode("utf-8", "replace").replace("\r\n", "\n"), process.returncode)


@cache
def run_once_on_terminal(
    *arguments: str | Path, columns: int = 80, variables: tuple[tuple[str, str], ...] = ()
) -> TerminalOutput:
    """The cached output for a snapshot that all tests share; a path in a test's own folder may be reused."""
    return run_on_terminal(*arguments, columns=columns, variables=variables)


@cache
def run_once_in_pipe(*arguments: str | Path) -> str:
    """The cached output in a pipe, for a snapshot that all tests share."""
    return gpuenv(*arguments).stdout


def _read(terminal: int) -> bytes:
    """All output until the other side is closed, which Linux reports as an error."""
    output = b""
    deadline = time.monotonic() + LIMIT
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline and select.select([terminal], [], [], deadline - time.monotonic())[0]:
            chunk = os.read(terminal, 65536)
            if not chunk:
                break
            output += chunk
    return output


def overlong_lines(lines: list[str], columns: int) -> list[str]:
    """Lines beyond the width that could have been wrapped, since they have more than one word."""
    return [line for line in lines if len(line) > columns and len(line.split()) > 1]


@pytest.mark.parametrize(("name", "columns"), [("unfit", 80), ("unfit", 40), ("without-gpu", 80), ("empty", 80)])
def test_lines_of_a_report_fit_the_terminal(snapshot_files: dict[str, Path], name: str, columns: int) -> None:
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files[name], columns=columns)
    assert output.code == {"unfit": 1, "without-gpu": 1, "empty": 8}[name]
    assert overlong_lines(output.plain, columns) == []


@pytest.mark.parametrize("arguments", [["resolve", "-v"], ["probe"], ["explain", "no-driver"]], ids=" ".join)
def test_lines_of_other_commands_fit_the_terminal(snapshot_files: dict[str, Path], arguments: list[str]) -> None:
    options = [] if arguments[0] == "explain" else ["--snapshot", str(snapshot_files["unfit"])]
    output = run_once_on_terminal(*arguments, *options)
    assert len(output.plain) > 10
    assert overlong_lines(output.plain, 80) == []


@pytest.mark.parametrize("arguments", [["simulate", "--list"], ["smoke", "--list"], ["doctor", "--list"]], ids=" ".join)
@pytest.mark.parametrize("columns", [80, 40])
def test_lines_of_a_listing_fit_the_terminal(arguments: list[str], columns: int) -> None:
    output = run_once_on_terminal(*arguments, columns=columns)
    assert [line for line in output.plain if len(line) > columns] == []


def test_a_long_command_is_wrapped_with_backslashes(snapshot_files: dict[str, Path]) -> None:
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"], columns=40)
    first = next(number for number, line in enumerate(output.plain) if line.strip().startswith("$ "))
    last = next(number for number in range(first, len(output.plain)) if not output.plain[number].endswith(" \\"))
    assert last > first
    joined = " ".join(line.strip().removeprefix("$ ").removesuffix(" \\") for line in output.plain[first : last + 1])
    assert f"$ {joined}" in run_once_in_pipe("doctor", "--snapshot", snapshot_files["unfit"])


@pytest.mark.parametrize(
    ("folder", "columns"), [("o'brien", 40), ("o'brien's own", 80), ('a "b" c', 80), ('it\'s "so"', 40)]
)
def test_a_wrapped_command_is_quoted_for_a_shell(tmp_path: Path, folder: str, columns: int) -> None:
    executable = f"/srv/{folder}/bin/python3"
    target = UNFIT.target._replace(executable=known(executable, "the target's interpreter"))
    output = run_on_terminal(
        "doctor",
        "--snapshot",
        write_snapshot(replace_facts(UNFIT, target=target), tmp_path / "a.json"),
        columns=columns,
    )
    lines = [line.rstrip() for line in output.plain]
    commands = re.findall(r"^ +\$ ((?:.* \\\n)*.*)$", "\n".join(lines), re.MULTILINE)
    words = [shlex.split(command) for command in commands]  # raises where a quote is left open
    assert any(executable in command for command in words)


def test_a_wrapped_line_keeps_all_words_and_the_indentation(snapshot_files: dict[str, Path]) -> None:
    unwrapped = run_once_in_pipe("doctor", "--snapshot", snapshot_files["unfit"])
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"])
    assert [word for word in " ".join(output.plain).split() if word != "\\"] == unwrapped.split()
    assert len(output.plain) > len(unwrapped.split("\n"))
    titles = [number for number, line in enumerate(output.plain) if line.startswith("    The driver is too old")]
    assert titles
    assert output.plain[titles[0] + 1].startswith("    ")


def test_a_wrapped_command_is_not_broken_within_a_word(snapshot_files: dict[str, Path]) -> None:
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"], columns=40)
    assert any("/srv/envs/cupy/bin/python3" in line.split() for line in output.plain)


def test_output_on_a_terminal_is_coloured(snapshot_files: dict[str, Path]) -> None:
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"])
    assert ESCAPE in output.text
    assert output.plain[0].startswith("UNFIT: ")
    commands = [line for line in output.text.split("\n") if "$ " in line]
    assert commands
    assert [line for line in commands if not line.startswith("\x1b[36m")] == [], "a command to copy is cyan"


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["--format", "json"], {}),
    ],
)
def test_colour_can_be_disabled(snapshot_files: dict[str, Path], options: list[str], variables: dict[str, str]) -> None:
    output = run_once_on_terminal(
        "doctor", "--snapshot", snapshot_files["unfit"], *options, variables=tuple(variables.items())
    )
    assert ESCAPE not in output.text
    assert "driver-too-old-for-cuda" in output.text


def test_an_empty_no_color_variable_keeps_colour(snapshot_files: dict[str, Path]) -> None:
    """no-color.org: it counts "when present and not an empty string"."""
    output = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"], variables=(("NO_COLOR", ""),))
    assert ESCAPE in output.text


def test_output_without_colour_is_wrapped_identically(snapshot_files: dict[str, Path]) -> None:
    coloured = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"])
    uncoloured = run_once_on_terminal("doctor", "--snapshot", snapshot_files["unfit"], "--no-color")
    assert uncoloured.plain == coloured.plain
    before = run_once_on_terminal("--no-color", "doctor", "--snapshot", snapshot_files["unfit"])
    assert before.text == uncoloured.text


def test_output_in_a_pipe_is_neither_coloured_nor_wrapped(snapshot_files: dict[str, Path]) -> None:
    environment = {"TERM": "xterm-256color", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "COLUMNS": "40"}
    forced = gpuenv("doctor", "--snapshot", snapshot_files["unfit"], environment=environment).stdout
    assert ESCAPE not in forced
    assert forced == run_once_in_pipe("doctor", "--snapshot", snapshot_files["unfit"])
    assert max(map(len, forced.splitlines())) > 100


def test_json_is_the_same_on_a_terminal_and_in_a_pipe(snapshot_files: dict[str, Path]) -> None:
    output = run_once_on_terminal("probe", "--snapshot", snapshot_files["fit"], "--format", "json")
    assert output.text == run_once_in_pipe("probe", "--snapshot", snapshot_files["fit"], "--format", "json")


@pytest.mark.parametrize(("name", "word"), [("fit", "FIT: "), ("unfit", "UNFIT: "), ("empty", "UNKNOWN: ")])
def test_the_first_line_is_the_verdict_in_ascii(snapshot_files: dict[str, Path], name: str, word: str) -> None:
    text = run_once_in_pipe("doctor", "--snapshot", snapshot_files[name])
    assert text.startswith(word)
    text.encode("ascii")


def with_distribution(machine: Snapshot, distribution: str) -> Snapshot:
    return replace_facts(machine, host=machine.host._replace(distribution=known(distribution, "/etc/os-release")))


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-7", "utf-8"])
@pytest.mark.parametrize("options", [[], ["--no-color"]], ids=["colour", "no colour"])
def test_unencodable_characters_are_replaced(tmp_path: Path, encoding: str, options: list[str]) -> None:
    snapshot_file = write_snapshot(with_distribution(UNFIT, "été-linux 1"), tmp_path / "accented.json")
    output = run_on_terminal(
        "probe", "--snapshot", snapshot_file, *options, variables=(("PYTHONIOENCODING", encoding),)
    )
    assert output.code == 0
    assert "-linux 1" in output.text


@pytest.mark.parametrize("output", ["terminal", "pipe"])
def test_control_characters_of_a_snapshot_are_not_printed(tmp_path: Path, output: str) -> None:
    """A snapshot from a bug report must not clear the screen or change the window title."""
    hostile = "ubuntu\x1b[2J\x1b]0;title\x07 24.04\r\x9b31m"
    snapshot_file = write_snapshot(with_distribution(FIT, hostile), tmp_path / "hostile.json")
    arguments = ("probe", "--snapshot", snapshot_file, "--no-color")
    text = run_on_terminal(*arguments).text if output == "terminal" else gpuenv(*map(str, arguments)).stdout
    assert [character for character in "\x1b\x07\x9b\r" if character in text] == []


def test_a_fact_cannot_forge_a_line_of_the_report(tmp_path: Path) -> None:
    snapshot_file = write_snapshot(with_distribution(FIT, "ubuntu\n\nUNFIT: forged"), tmp_path / "forged.json")
    lines = gpuenv("doctor", "--snapshot", snapshot_file).stdout.splitlines()
    assert [line for line in lines if line.startswith("UNFIT")] == []


def display_width(line: str) -> int:
    """The columns of a line on a terminal: two for each wide character (Unicode Standard Annex 11)."""
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
def test_text_in_every_script_fits_the_terminal(tmp_path: Path, words: str, columns: int) -> None:
    snapshot_file = write_snapshot(with_distribution(FIT, words), tmp_path / "named.json")
    output = run_on_terminal("probe", "--snapshot", snapshot_file, columns=columns)
    assert output.code == 0
    assert set(words.split()) <= set(" ".join(output.plain).split()), "no word is lost"
    wide_lines = [line for line in output.plain if display_width(line) > columns and len(line.split()) > 1]
    assert wide_lines == []


def test_characters_that_reorder_or_hide_text_are_escaped(tmp_path: Path) -> None:
    """A right-to-left override and isolate, a space of no width, and a line separator."""
    hostile = "\u202e\u2066\u200b\u2028"
    snapshot_file = write_snapshot(with_distribution(FIT, f"ubuntu{hostile}24.04"), tmp_path / "hostile.json")
    text = run_on_terminal("probe", "--snapshot", snapshot_file, "--no-color").text
    assert not set(hostile) & set(text)
    assert "\\u202e\\u2066\\u200b\\u2028" in text
