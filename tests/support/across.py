"""The tests under other Pythons, and with the lowest and the newest dependencies that pyproject.toml allows: a table.

``make test-pythons``, ``make test-lowest``, ``make test-newest``. Each row has a virtual environment of its own, made
by uv with an interpreter that is there (none is downloaded). Python 3.14 is resolved for and not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
RESOLVED_ONLY = ("3.14",)
# The pure core, and the commands on recorded machines.
CORE = (
    *("tests/model", "tests/matrix/test_load.py", "tests/matrix/test_resolve.py", "tests/matrix/test_traps.py"),
    "tests/matrix/test_traps_of_images.py",
    *("tests/doctor", "tests/explain", "tests/image", "tests/report", "tests/preflight", "tests/cli/test_usage.py"),
    *("tests/cli/test_contract.py", "tests/cli/test_streams.py", "tests/cli/test_files.py"),
    *("tests/cli/test_explain.py", "tests/fuzz/test_regressions.py"),
)
_UV = (sys.executable, "-m", "uv")
_LAST = re.compile(r"\d+ (?:passed|failed|error).*")


@dataclass(frozen=True, slots=True)
class Row:
    """What is tried.

    Attributes:
        python: the minor version.
        resolution: uv's word for which versions are taken.
        tests: what pytest is given.
    """

    python: str
    resolution: str
    tests: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Prints a line a row; the exit code is 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("pythons", "lowest", "newest"))
    parser.add_argument("--python", default=".".join(map(str, sys.version_info[:2])), help="for lowest and newest")
    parser.add_argument("tests", nargs="*", help="instead of the usual ones")
    given = parser.parse_args(arguments)
    if given.what == "pythons":
        rows = [Row(python, "highest", tuple(given.tests) or CORE) for python in PYTHONS]
    else:
        resolution = "lowest-direct" if given.what == "lowest" else "highest"
        rows = [Row(given.python, resolution, tuple(given.tests) or ("tests",))]
    failed = False
    for row in rows:
        begun = time.monotonic()
        passed, told = tried(row)
        failed = failed or not passed
        _say(row.python, row.resolution, "ok" if passed else "FAILED", time.monotonic() - begun, told)
    for python in RESOLVED_ONLY if given.what == "pythons" else ():
        passed, told = resolved(python)
        failed = failed or not passed
        _say(python, "highest", "resolves, not run" if passed else "FAILED", 0.0, told)
    return 1 if failed else 0


def tried(row: Row) -> tuple[bool, str]:
    """Installs and tests; the last words of either."""
    with tempfile.TemporaryDirectory(prefix="gpuenv-across-") as folder:
        venv = Path(folder) / "venv"
        python = str(venv / "bin/python")
        made = _run([*_UV, "venv", "-q", "--no-python-downloads", "-p", _interpreter(row.python), str(venv)], 120)
        if made.returncode != 0:
            return False, _last_line(made.stderr)
        install = ["pip", "install", "-q", "--resolution", row.resolution, "-p", python, "-e", f"{HERE}[dev]"]
        installed = _run([*_UV, *install], 900)
        if installed.returncode != 0:
            return False, _last_line(installed.stderr)
        options = ["-n", "1", "-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/base"]
        done = _run([python, "-m", "pytest", *options, *row.tests], 5400)
        summary = _LAST.findall(done.stdout)
        broken = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        sys.stderr.write("".join(f"{line}\n" for line in broken))
        return done.returncode == 0, summary[-1] if summary else _last_line(done.stdout + done.stderr)


def _interpreter(python: str) -> str:
    """One of pyenv's, which its shims may hide; else whatever uv finds."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(versions.glob(f"{python}.*/bin/python"))
    return str(found[-1]) if found else python


def resolved(python: str) -> tuple[bool, str]:
    """Whether every dependency has a wheel for a Python that is not here."""
    options = ["--only-binary", ":all:", "--python-version", python, "-q", "--no-header", "--no-annotate"]
    done = _run([*_UV, "pip", "compile", *options, str(HERE / "pyproject.toml")], 300)
    return done.returncode == 0, f"{len(done.stdout.splitlines())} wheels" if done.returncode == 0 else done.stderr[
        -200:
    ]


def _say(python: str, resolution: str, outcome: str, seconds: float, told: str) -> None:
    sys.stdout.write(f"{python:<8}{resolution:<15}{outcome:<19}{seconds:>6.0f} s  {told}\n")
    sys.stdout.flush()


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, check=False, timeout=seconds, env=dict(os.environ)
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
