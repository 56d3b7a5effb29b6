"""Offline, conda gets --offline for installs and for rollbacks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.install.conda_sandbox import FORMER, RUN_BY_PYTHON, conda

if TYPE_CHECKING:
    from tests.install.conda_sandbox import Conda

__all__ = ["conda"]
NOTES = """#!/bin/sh
echo "$@" >>{calls}
exec {sound} "$@"
"""


def noted(conda: Conda) -> None:
    """Lets conda note what it is asked from here on."""
    program, sound = conda.folder / "conda/conda", conda.folder / "sound/conda"
    sound.parent.mkdir()
    program.rename(sound)
    program.write_text(NOTES.format(sound=sound, calls=conda.folder / "calls"), encoding="utf-8")
    program.chmod(0o755)


def asked(conda: Conda) -> list[str]:
    """The installs that were asked for since the last time, be it to see what they would do."""
    path = conda.folder / "calls"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    return [line for line in lines if line.startswith("install")]


def test_what_went_in_without_a_network_comes_out_without_one(conda: Conda) -> None:
    noted(conda)
    assert conda.install("--offline")[0] == 0
    done = conda.gpuenv("rollback", "--python", conda.prefix)
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    ways = asked(conda)
    assert any("--revision=0" in line for line in ways)
    assert [line for line in ways if "--offline" not in line] == []


def test_what_went_in_over_a_network_comes_out_without_one_where_that_is_asked(conda: Conda) -> None:
    assert conda.install()[0] == 0
    noted(conda)
    done = conda.gpuenv("rollback", "--python", conda.prefix, "--offline")
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    ways = asked(conda)
    assert ways
    assert [line for line in ways if "--offline" not in line] == []


@pytest.mark.parametrize("command", ["rollback", "install"])
def test_nor_does_what_an_interrupted_install_has_left(conda: Conda, command: str) -> None:
    assert conda.install()[0] == 0
    (conda.prefix / ".gpuenv/0001/state.json").write_text('{"state": "undoing"}', encoding="utf-8")
    noted(conda)
    if command == "install":
        conda.install("--offline")
    else:
        assert conda.gpuenv("rollback", "--python", conda.prefix, "--offline").returncode == 0
    ways = asked(conda)
    assert any("--revision=0" in line for line in ways)
    assert [line for line in ways if "--offline" not in line] == []


def test_nor_do_the_exact_packages_take_one(conda: Conda) -> None:
    noted(conda)
    code, told = conda.install("--offline", FAIL_AFTER="2")
    assert (code, told["status"]) == (4, "restored"), told
    assert conda.packages() == FORMER
    ways = asked(conda)
    assert any("--file=" in line for line in ways)
    assert [line for line in ways if "--offline" not in line] == []


EMPTY = """{start}
import json, os, sys
if "install" in sys.argv and "--offline" in sys.argv and "--dry-run" not in sys.argv:
    print(json.dumps({{"success": False, "error": "numpy-2.1.0-0 is not in the cache"}}))
    sys.exit(1)
os.execv("{sound}", ["{sound}", *sys.argv[1:]])
"""


def test_a_cache_that_lacks_the_former_packages_is_told_with_the_way_that_is_left(conda: Conda) -> None:
    """Whoever cleans the cache after the install: no network is used unasked, and how to allow it is said."""
    assert conda.install("--offline")[0] == 0
    noted(conda)
    program, sound = conda.folder / "conda/conda", conda.folder / "sound/conda"
    program.write_text(EMPTY.format(start=RUN_BY_PYTHON, sound=sound), encoding="utf-8")
    done = conda.gpuenv("rollback", "--python", conda.prefix, "--format", "json", "--no-redact")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (4, "not-restored")
    assert "packages could not be restored, cuda-version-12.9-0" in told["message"]
    assert "conda 25.9.1 reports: numpy-2.1.0-0 is not in the cache." in told["remedy"]
    (command,) = re.findall(r"With a network: (.*); then again: gpuenv rollback --python", told["remedy"])
    subprocess.run([*shlex.split(command), "--yes", "--json"], env=conda.environment(), check=True, capture_output=True)
    done = conda.gpuenv("rollback", "--python", conda.prefix)
    assert done.returncode == 0, done.stderr
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
    ("kind", "options", "code", "said"),
    [
        ("PackagesNotFoundError", ["--offline"], 4, True),
        ("PackagesNotFoundError", [], 3, False),
        ("LibMambaUnsatisfiableError", ["--offline"], 3, True),
        ("LibMambaUnsatisfiableError", [], 3, False),
    ],
)
def test_what_is_in_no_channel_may_be_so_for_want_of_a_network(
    conda: Conda, kind: str, options: list[str], code: int, *, said: bool
) -> None:
    program = REFUSES.format(start=RUN_BY_PYTHON, kind=kind)
    (conda.folder / "conda/conda").write_text(program, encoding="utf-8")
    found, told = conda.install(*options)
    assert found == code
    assert "nothing of it" in told["message"]
    assert ("leave out --offline" in told["remedy"]) == said


def test_a_journal_of_before_that_was_noted_is_read(conda: Conda) -> None:
    assert conda.install()[0] == 0
    path = conda.prefix / ".gpuenv/0001/conda.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    assert state.pop("offline") is False
    path.write_text(json.dumps(state), encoding="utf-8")
    noted(conda)
    done = conda.gpuenv("rollback", "--python", conda.prefix)
    assert done.returncode == 0, done.stderr
    assert conda.packages() == FORMER
    assert [line for line in asked(conda) if "--offline" in line] == []
