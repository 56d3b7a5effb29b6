"""``make test-pythons``: the core tests with each Python, and all tests with the lowest allowed dependencies.

Each row has its own virtual environment, made by uv with an installed interpreter (none is downloaded). For Python 3.14
dependencies are only resolved. The newest dependencies are those that ``make test`` installs in a new checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
RESOLVED_ONLY = ("3.14",)
# The pure core, and the commands on snapshots.
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
    """One run of the tests.

    Attributes:
        python: the minor version.
        resolution: the value of uv's ``--resolution``.
        tests: the arguments of pytest.
    """

    python: str
    resolution: str
    tests: tuple[str, ...]


def main() -> int:
    """Prints one line per row; the exit code is 1 if a row failed."""
    this = ".".join(map(str, sys.version_info[:2]))
    failed = False
    for row in (*(Row(python, "highest", CORE) for python in PYTHONS), Row(this, "lowest-direct", ("tests",))):
        started = time.monotonic()
        passed, summary = run_tests(row)
        failed = failed or not passed
        _report(row.python, row.resolution, "ok" if passed else "FAILED", time.monotonic() - started, summary)
    for python in RESOLVED_ONLY:
        passed, summary = resolve(python)
        failed = failed or not passed
        _report(python, "highest", "resolves, not run" if passed else "FAILED", 0.0, summary)
    return 1 if failed else 0


def run_tests(row: Row) -> tuple[bool, str]:
    """Installs the dependencies and runs the tests; returns success and the last line of output."""
    with tempfile.TemporaryDirectory(prefix="gpuenv-across-") as folder:
        venv = Path(folder) / "venv"
        python = str(venv / "bin/python")
        venv_result = _run(
            [*_UV, "venv", "-q", "--no-python-downloads", "-p", _interpreter(row.python), str(venv)], 120
        )
        if venv_result.returncode != 0:
            return False, _last_line(venv_result.stderr)
        install = ["pip", "install", "-q", "--resolution", row.resolution, "-p", python, "-e", f"{PROJECT}[dev]"]
        installed = _run([*_UV, *install], 900)
        if installed.returncode != 0:
            return False, _last_line(installed.stderr)
        pytest_options = ["-n", "2", "-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/base"]
        result = _run([python, "-m", "pytest", *pytest_options, *row.tests], 5400)
        summaries = _LAST.findall(result.stdout)
        broken = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        sys.stderr.write("".join(f"{line}\n" for line in broken))
        return result.returncode == 0, summaries[-1] if summaries else _last_line(result.stdout + result.stderr)


def _interpreter(python: str) -> str:
    """An interpreter of pyenv, which its shims may hide, or else the one that uv finds."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    interpreters = sorted(versions.glob(f"{python}.*/bin/python"))
    return str(interpreters[-1]) if interpreters else python


def resolve(python: str) -> tuple[bool, str]:
    """Whether every dependency has a wheel for a Python that is not installed."""
    options = ["--only-binary", ":all:", "--python-version", python, "-q", "--no-header", "--no-annotate"]
    result = _run([*_UV, "pip", "compile", *options, str(PROJECT / "pyproject.toml")], 300)
    return (
        result.returncode == 0,
        f"{len(result.stdout.splitlines())} wheels" if result.returncode == 0 else result.stderr[-200:],
    )


def _report(python: str, resolution: str, outcome: str, seconds: float, summary: str) -> None:
    sys.stdout.write(f"{python:<8}{resolution:<15}{outcome:<19}{seconds:>6.0f} s  {summary}\n")
    sys.stdout.flush()


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=seconds, env=dict(os.environ)
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]


if __name__ == "__main__":
    sys.exit(main())
