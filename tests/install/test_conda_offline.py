"""Offline, conda gets --offline for installs and for rollbacks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.install.conda_sandbox import FORMER, PYTHON_SCRIPT, conda

if TYPE_CHECKING:
    from tests.install.conda_sandbox import Conda

__all__ = ["conda"]
LOGS_CALLS = """#!/bin/sh
echo "$@" >>{calls}
exec {conda} "$@"
"""


def log_calls(conda: Conda) -> None:
    """Makes conda log its command lines from now on."""
    program, original = conda.folder / "conda/conda", conda.folder / "sound/conda"
    original.parent.mkdir()
    program.rename(original)
    program.write_text(LOGS_CALLS.format(conda=original, calls=conda.folder / "calls"), encoding="utf-8")
    program.chmod(0o755)


def install_calls(conda: Conda) -> list[str]:
    """Returns the logged install commands, dry runs included, and clears the log."""
    path = conda.folder / "calls"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    return [line for line in lines if line.startswith("install")]


def test_an_offline_install_is_rolled_back_offline(conda: Conda) -> None:
    log_calls(conda)
    assert conda.install("--offline")[0] == 0
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    calls = install_calls(conda)
    assert any("--revision=0" in line for line in calls)
    assert [line for line in calls if "--offline" not in line] == []


def test_an_online_install_is_rolled_back_offline_on_request(conda: Conda) -> None:
    assert conda.install()[0] == 0
    log_calls(conda)
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, "--offline")
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    calls = install_calls(conda)
    assert calls
    assert [line for line in calls if "--offline" not in line] == []


@pytest.mark.parametrize("command", ["rollback", "install"])
def test_an_interrupted_install_is_restored_offline(conda: Conda, command: str) -> None:
    assert conda.install()[0] == 0
    (conda.prefix / ".gpuenv/0001/state.json").write_text('{"state": "undoing"}', encoding="utf-8")
    log_calls(conda)
    if command == "install":
        conda.install("--offline")
    else:
        assert conda.gpuenv("rollback", "--python", conda.prefix, "--offline").returncode == 0
    calls = install_calls(conda)
    assert any("--revision=0" in line for line in calls)
    assert [line for line in calls if "--offline" not in line] == []


def test_the_exact_packages_are_reinstalled_offline(conda: Conda) -> None:
    log_calls(conda)
    code, outcome = conda.install("--offline", FAIL_AFTER="2")
    assert (code, outcome["status"]) == (4, "restored"), outcome
    assert conda.packages() == FORMER
    calls = install_calls(conda)
    assert any("--file=" in line for line in calls)
    assert [line for line in calls if "--offline" not in line] == []


EMPTY_CACHE = """{start}
import json, os, sys
if "install" in sys.argv and "--offline" in sys.argv and "--dry-run" not in sys.argv:
    print(json.dumps({{"success": False, "error": "numpy-2.1.0-0 is not in the cache"}}))
    sys.exit(1)
os.execv("{conda}", ["{conda}", *sys.argv[1:]])
"""


def test_an_offline_rollback_with_an_empty_cache_suggests_the_network(conda: Conda) -> None:
    """The network is not used without consent; the fix is a command that uses it."""
    assert conda.install("--offline")[0] == 0
    log_calls(conda)
    program, original = conda.folder / "conda/conda", conda.folder / "sound/conda"
    program.write_text(EMPTY_CACHE.format(start=PYTHON_SCRIPT, conda=original), encoding="utf-8")
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix, "--format", "json", "--no-redact")
    outcome = json.loads(result.stdout)
    assert (result.returncode, outcome["status"]) == (4, "not-restored")
    assert "packages could not be restored, cuda-version-12.9-0" in outcome["message"]
    assert "conda 25.9.1 reports: numpy-2.1.0-0 is not in the cache." in outcome["remedy"]
    (command,) = re.findall(r"With a network: (.*); then again: gpuenv rollback --python", outcome["remedy"])
    subprocess.run([*shlex.split(command), "--yes", "--json"], env=conda.environment(), check=True, capture_output=True)
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER


REFUSES = """{start}
import json, sys
if "--version" in sys.argv:
    print("conda 25.9.1")
else:
    print(json.dumps({{"error": "nothing of it", "exception_name": "{kind}", "message": "nothing of it"}}))
    sys.exit(1)
"""


@pytest.mark.parametrize(
    ("kind", "options", "code", "suggests_network"),
    [
        ("PackagesNotFoundError", ["--offline"], 4, True),
        ("PackagesNotFoundError", [], 3, False),
        ("LibMambaUnsatisfiableError", ["--offline"], 3, True),
        ("LibMambaUnsatisfiableError", [], 3, False),
    ],
)
def test_an_unavailable_package_fails_differently_when_offline(
    conda: Conda, kind: str, options: list[str], code: int, *, suggests_network: bool
) -> None:
    program = REFUSES.format(start=PYTHON_SCRIPT, kind=kind)
    (conda.folder / "conda/conda").write_text(program, encoding="utf-8")
    exit_code, outcome = conda.install(*options)
    assert exit_code == code
    assert "nothing of it" in outcome["message"]
    assert ("leave out --offline" in outcome["remedy"]) == suggests_network


def test_a_journal_without_the_offline_field_is_rolled_back(conda: Conda) -> None:
    assert conda.install()[0] == 0
    path = conda.prefix / ".gpuenv/0001/conda.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    assert state.pop("offline") is False
    path.write_text(json.dumps(state), encoding="utf-8")
    log_calls(conda)
    result = conda.gpuenv("rollback", "--yes", "--python", conda.prefix)
    assert result.returncode == 0, result.stderr
    assert conda.packages() == FORMER
    assert [line for line in install_calls(conda) if "--offline" in line] == []
