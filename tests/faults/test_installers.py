"""Faulty installers: an install succeeds with another one, or changes nothing and reports why."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import case_id, parametrize_faults
from tests.faults.file_faults import FILE_FAULTS, PROGRAM_FAULTS
from tests.install.conftest import sandbox
from tests.install.sandbox import Sandbox, contents, versions

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
TIMEOUT, GRACE = 20.0, 70.0  # seconds: for the machine or the installer to answer, and for a busy host
LIMITS = ("--timeout", str(TIMEOUT), "--install-timeout", str(TIMEOUT))


def install_and_check(
    sandbox: Sandbox,
    target: Path,
    record: Callable[[str, object], None],
    thing: str,
    fault: str,
    *options: str,
    **variables: str,
) -> int:
    """Install, check the invariants of the result, and return the exit code."""
    before = contents(target)
    started = time.monotonic()
    process = sandbox.install(target, *LIMITS, *options, **variables)
    duration = time.monotonic() - started
    assert duration < TIMEOUT + GRACE, f"took {duration:.0f} s: {process.stderr}"
    assert process.returncode in (0, 3, 4, 7), process.stderr
    if process.returncode == 0:
        assert versions(target)["cupy-cuda12x"] == "14.2.0"
    else:
        assert contents(target) == before
        assert process.stderr.strip(), "the reason is reported"
    listing = sandbox.gpuenv("rollback", "--python", target, "--list")
    assert listing.returncode == 0, listing.stderr
    record("outcome", [thing, fault, f"exit code {process.returncode}"])
    return process.returncode


@parametrize_faults("uv", PROGRAM_FAULTS)
def test_an_install_with_a_faulty_uv_succeeds_unless_it_hangs(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """uv is the first on PATH; the target has pip."""
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=True)
    program = link_uv(tmp_path)
    PROGRAM_FAULTS[fault](program)
    code = install_and_check(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (7 if fault.startswith(("hung", "huge")) else 0), (
        "an installer that does not end leaves no time for another one"
    )


ONCE_SELECTED = {f"{fault}{' and' if ':' in fault else ':'} once selected": fault for fault in PROGRAM_FAULTS}
# Without a version it is not selected.
for _unselectable in ("absent", "unreadable", "empty", "rubbish", "unreadable: a folder"):
    ONCE_SELECTED = {name: fault for name, fault in ONCE_SELECTED.items() if fault != _unselectable}


@parametrize_faults("uv", ONCE_SELECTED)
def test_an_install_fails_if_uv_fails_once_selected(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """uv prints its version; every other command is faulty."""
    target = sandbox.target("target", "cupy-cuda11x==13.6.0")
    program = link_uv(tmp_path)
    PROGRAM_FAULTS[ONCE_SELECTED[fault]](program)
    lines = program.read_text(encoding="utf-8").split("\n", 2)
    answer = 'case "$1 $2" in --version*|"python find") exec "$intact" "$@";; esac'
    program.write_text("\n".join([*lines[:2], answer, lines[2]]), encoding="utf-8")
    code = install_and_check(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (0 if fault.startswith("slow") else 4)


_OTHER_LOCK = """lock-version = "1.0"
created-by = "uv"
[[packages]]
name = "cupy-cuda12x"
version = "99.0"
wheels = [{ url = "http://127.0.0.1:9/cupy_cuda12x-99.0-py3-none-any.whl", hashes = { sha256 = "00" } }]"""
# False claims by name, as shell commands before the real uv.
FALSE_CLAIMS = {
    "lying: claims success": 'case "$1 $2" in "pip install"|"pip sync") exit 0;; esac',
    "lying: locks another CuPy": f'case "$1 $2" in "pip compile") cat <<\'END\'\n{_OTHER_LOCK}\nEND\nexit 0;; esac',
    "lying: reports another version": 'case "$1" in --version) echo "uv 99999.0.0"; exit 0;; esac',
}


@parametrize_faults("uv", FALSE_CLAIMS)
def test_a_false_claim_of_uv_is_detected(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    target = sandbox.target("target", "cupy-cuda11x==13.6.0")
    program = link_uv(tmp_path)
    intact = program.rename(program.with_name("intact"))
    program.write_text(f'#!/bin/sh\n{FALSE_CLAIMS[fault]}\nexec {intact} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    code = install_and_check(sandbox, target, record_property, "uv", fault, PATH=f"{program.parent}:{os.defpath}")
    assert code == (0 if "another version" in fault else 4)


def link_uv(folder: Path) -> Path:
    """A link to uv in a folder for PATH."""
    program = folder / "bin/uv"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).parent / "uv")
    return program


_WORKING = "import sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
PIP_MAINS = {
    "absent": "raise ImportError('no pip here')\n",
    "empty: no output": "",
    "rubbish": "\x00)(",
    "slow": f"import time\ntime.sleep(0.5)\n{_WORKING}",
    "hung": "import time\ntime.sleep(600)\n",
    "dying": "import os\nprint('pip 24.0 from', flush=True)\nos.kill(os.getpid(), 9)\n",
    "lying": "print('pip 24.0 from nowhere')\n",
    "huge": "while True: print('x' * 65536)\n",
    "dying: fails": "raise SystemExit(3)\n",
}


# Exit codes of those that print their version and are selected.
_SELECTED = {"slow": 0, "lying": 4, "dying": 4}
# Faults that use up the whole time.
_ENDLESS = ("hung", "huge")


_PIP_FAULTS = (*PIP_MAINS, "unreadable: a folder", "unreadable: a loop", "dying: cut in the middle")
_GPUENV_HAS_PIP = {"gpuenv has pip": True, "gpuenv has no pip": False}


@pytest.mark.parametrize(
    ("fault", "gpuenv_has_pip"),
    [(fault, gpuenv_has_pip) for fault in _PIP_FAULTS for gpuenv_has_pip in _GPUENV_HAS_PIP.values()],
    ids=[case_id("pip", f"{fault}, {pip_of_gpuenv}") for fault in _PIP_FAULTS for pip_of_gpuenv in _GPUENV_HAS_PIP],
)
def test_a_faulty_pip_of_the_target_is_replaced_by_that_of_gpuenv(
    sandbox: Sandbox, fault: str, *, gpuenv_has_pip: bool, record_property: Callable[[str, object], None]
) -> None:
    """pip of the target; if it does not answer, gpuenv uses its own, if any."""
    sandbox = replace(sandbox, python=sandbox.gpuenv_interpreter(pip=gpuenv_has_pip))
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=True)
    (main,) = target.glob("lib/python*/site-packages/pip/__main__.py")
    if fault in PIP_MAINS:
        main.unlink()  # uv links files into its cache: a write to one would change every copy
        main.write_text(PIP_MAINS[fault], encoding="utf-8")
    else:
        FILE_FAULTS[fault](main)
    variant = f"{fault}, {'gpuenv has pip' if gpuenv_has_pip else 'gpuenv has no pip'}"
    code = install_and_check(sandbox, target, record_property, "pip", variant, "--installer", "pip")
    assert code == _SELECTED.get(fault, 0 if gpuenv_has_pip and fault not in _ENDLESS else 7)
