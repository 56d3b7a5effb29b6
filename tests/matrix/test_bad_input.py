"""Invalid matrices end the process with exit code 6 and a message that names the line, without writing a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gpuenv.data import data_path
from tests.cli.program import gpuenv

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")


def _bomb(text: str) -> str:
    """Each alias repeats the former one ten times: expanded, ten thousand million values."""
    names = [f"a{number}" for number in range(10)]
    lines = [f"{names[0]}: &{names[0]} [x, x, x, x, x, x, x, x, x, x]"]
    for one, other in pairwise(names):
        lines.append(f"{other}: &{other} [{', '.join([f'*{one}'] * 10)}]")
    return "\n".join(lines) + "\n" + text


def _with(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


# A change of the text, part of the faulty line (empty: any), and part of the message.
BROKEN: dict[str, tuple[Callable[[str], str], str, str]] = {
    "a contradiction": (_with("{branch: 545, cuda: '12.3'", "{branch: 545, cuda: '9.2'"), "", "older CUDA"),
    "an alias bomb": (_bomb, "a0: &a0", "an alias"),
    "a file of 50 MB": (lambda text: text + "# " + "x" * 50_000_000 + "\n", "", "larger than 8388608 bytes"),
}


@pytest.mark.parametrize(
    ("name", "command"),
    [  # all commands read it with the same function, whose other errors are in test_load.py
        ("an alias bomb", "matrix check"),
        ("a file of 50 MB", "matrix check"),
        ("a contradiction", "resolve --no-probe"),
        ("a contradiction", "matrix refresh"),
    ],
)
def test_an_invalid_matrix_is_rejected_with_the_line(name: str, command: str, tmp_path: Path) -> None:
    change, place, message = BROKEN[name]
    text = change(TEXT)
    assert text != TEXT
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    done = gpuenv(
        *command.split(), "--matrix", file, environment={"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    )
    assert done.returncode == 6, done.stderr
    assert done.stdout == ""
    assert message in done.stderr
    lines = [int(number) for number in re.findall(re.escape(f"{file}: line ") + r"(\d+):", done.stderr)]
    assert lines
    if place:
        expected = next(number for number, line in enumerate(text.splitlines(), 1) if place in line)
        assert expected in lines
    assert max(map(len, done.stderr.splitlines())) < 400
    assert file.read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["m.yaml"]
