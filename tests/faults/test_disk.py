"""Faults of the disk: a file keeps its former content or gets its complete new content."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.cli.program import MINIMAL, PROGRAM
from tests.cli.snapshots import UNFIT, write_snapshot
from tests.faults.fault_matrix import parametrize_faults
from tests.faults.file_faults import WITHOUT_CAPABILITIES, faults_on_open
from tests.faults.healthy_machine import compile_library
from tests.install.conftest import sandbox
from tests.install.mounts import mounted
from tests.install.sandbox import Sandbox, contents, run, versions

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
LIMIT = 60.0  # seconds
FORMER_REPORT = "the former report\n"
# Commands that write a result to a file, and their exit codes.
WRITERS: dict[str, tuple[tuple[str, ...], int]] = {
    "doctor": (("doctor", "--format", "json"), 1),
    "doctor html": (("doctor", "--format", "html"), 1),
    "probe": (("probe", "--format", "json"), 0),
    "preflight junit": (("preflight", "--format", "junit"), 1),
}


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A disk with space for the former report only."""
    with mounted(folder / "full", "-t", "tmpfs", "-o", "size=8k", "tmpfs") as disk:
        (disk / "out").write_text(FORMER_REPORT, encoding="utf-8")
        (disk / "filling").write_bytes(b"x" * 4096)
        yield disk / "out"


@contextmanager
def read_only_disk(folder: Path) -> Iterator[Path]:
    with mounted(folder / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        (disk / "out").write_text(FORMER_REPORT, encoding="utf-8")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield disk / "out"


def result_path(folder: Path, fault: str) -> Path:
    """The path for the result."""
    path = folder / "disk" / "out"
    path.parent.mkdir()
    if fault.startswith("absent"):
        return path.parent / "nowhere/out"
    if fault == "huge: a very long name":
        return path.with_name("x" * 300)
    if fault == "rubbish: a folder in its place":
        path.mkdir()
        return path
    path.write_text(FORMER_REPORT, encoding="utf-8")
    if fault == "unreadable":
        path.parent.chmod(0)
    return path


FAULTS = (
    *("absent", "unreadable", "unreadable: read-only", "empty: full", "empty: /dev/full"),
    *(
        "rubbish: a folder in its place",
        "huge: a very long name",
        "slow",
        "dying",
        "dying: full while writing",
    ),
    "lying",
)


@parametrize_faults("disk", FAULTS)
def test_a_report_on_a_faulty_disk_is_complete_or_an_error(
    tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    snapshot = write_snapshot(UNFIT, tmp_path / "unfit.json")
    injected = {"dying: full while writing": "full"}.get(fault, fault)
    codes = []
    mount = {"empty: full": full_disk, "unreadable: read-only": read_only_disk}.get(fault)
    with mount(tmp_path) if mount else nullcontext(result_path(tmp_path, fault)) as path:
        out = Path("/dev/full") if fault == "empty: /dev/full" else path
        environment = dict(MINIMAL)
        if injected in ("slow", "dying", "full", "lying"):
            environment |= faults_on_open(compile_library("files.c", tmp_path), path.parent, injected, environment)
        for arguments, code in WRITERS.values():
            prefix = WITHOUT_CAPABILITIES if fault == "unreadable" and os.geteuid() == 0 else ()
            process = subprocess.run(
                [*prefix, *PROGRAM, *arguments, "--snapshot", str(snapshot), "-o", str(out)],
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT,
            )  # fmt: skip
            assert "Traceback" not in process.stderr, process.stderr
            succeeds = injected in ("slow", "lying")
            assert process.returncode == (code if succeeds else 2), process.stderr
            assert succeeds or str(out) in process.stderr.replace("\n", ""), process.stderr
            codes.append(str(process.returncode))
            if fault == "unreadable":
                path.parent.chmod(0o700)
            if succeeds:
                assert path.read_text(encoding="utf-8").rstrip()[-1] in "}>"
            elif os.path.isfile(path):  # noqa: PTH113 - no error for a name that is too long
                assert path.read_text(encoding="utf-8") == FORMER_REPORT, "the former report is unchanged"
            if fault == "unreadable":
                path.parent.chmod(0)
    if fault == "unreadable":
        path.parent.chmod(0o700)
    record_property("outcome", ["disk", f"{fault}, for reports", f"exit codes {' '.join(codes)}"])


INSTALLS = ("slow", "dying", "empty: full", "lying")


@parametrize_faults("disk", [f"{fault}, for an install" for fault in INSTALLS])
def test_an_install_on_a_faulty_disk_succeeds_or_changes_nothing(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """The fault applies to files opened by gpuenv and by the installer."""
    disk_fault = {"empty: full": "full"}.get(word := fault.partition(",")[0], word)
    disk = (
        mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=330k", "tmpfs")
        if disk_fault == "lying"
        else nullcontext()
    )
    with disk as small:
        target = small / "target" if small else sandbox.folder / "target"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], sandbox.environment())
        sandbox.add(target, "cupy-cuda11x==13.6.0")
        before = contents(target)
        folder = next(target.glob("lib/python*/site-packages")) if disk_fault == "dying" else target
        variables = faults_on_open(compile_library("files.c", tmp_path), folder, disk_fault, {})
        started = time.monotonic()
        process = sandbox.install(target, **variables)
        duration = time.monotonic() - started
        assert duration < LIMIT, f"{duration:.0f} s"
        assert process.returncode in ((0,) if disk_fault == "slow" else (4, 7)), process.stderr
        listing = sandbox.gpuenv("rollback", "--python", target, "--list")
        assert listing.returncode == 0, listing.stderr
        if process.returncode == 0:
            assert versions(target)["cupy-cuda12x"] == "14.2.0"
        else:
            assert contents(target) == before, process.stderr
    record_property("outcome", ["disk", fault, f"exit code {process.returncode}"])
