"""The disk that is written to, spoilt in each way: what was there stays whole, or is replaced by what is whole."""

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
from tests.faults.cells import cells
from tests.faults.ground import compiled
from tests.faults.spoiling import AS_NOBODY_SPECIAL, as_opened
from tests.install.conftest import sandbox
from tests.install.mounts import mounted
from tests.install.sandbox import Sandbox, contents, run, versions

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
LIMIT = 60.0  # seconds
FORMER = "the former report\n"
# Each writes its result, which a machine or a person reads later.
WRITERS: dict[str, tuple[tuple[str, ...], int]] = {
    "doctor": (("doctor", "--format", "json"), 1),
    "doctor html": (("doctor", "--format", "html"), 1),
    "probe": (("probe", "--format", "json"), 0),
    "preflight junit": (("preflight", "--format", "junit"), 1),
}


@contextmanager
def full(folder: Path) -> Iterator[Path]:
    """Room for the former report alone."""
    with mounted(folder / "full", "-t", "tmpfs", "-o", "size=8k", "tmpfs") as disk:
        (disk / "out").write_text(FORMER, encoding="utf-8")
        (disk / "filling").write_bytes(b"x" * 4096)
        yield disk / "out"


@contextmanager
def fixed(folder: Path) -> Iterator[Path]:
    with mounted(folder / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        (disk / "out").write_text(FORMER, encoding="utf-8")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield disk / "out"


def laid(folder: Path, fault: str) -> Path:
    """Where the result goes."""
    place = folder / "disk" / "out"
    place.parent.mkdir()
    if fault.startswith("absent"):
        return place.parent / "nowhere/out"
    if fault == "huge: a name beyond all measure":
        return place.with_name("x" * 300)
    if fault == "rubbish: a folder in its place":
        place.mkdir()
        return place
    place.write_text(FORMER, encoding="utf-8")
    if fault == "unreadable":
        place.parent.chmod(0)
    return place


FAULTS = (
    *("absent", "unreadable", "unreadable: read-only", "empty: full", "empty: /dev/full"),
    *(
        "rubbish: a folder in its place",
        "huge: a name beyond all measure",
        "slow",
        "dying",
        "dying: full in the middle",
    ),
    "lying",
)


@cells("disk", FAULTS)
def test_a_disk(tmp_path: Path, fault: str, record_property: Callable[[str, object], None]) -> None:
    recording = write_snapshot(UNFIT, tmp_path / "unfit.json")
    opened = {"dying: full in the middle": "full"}.get(fault, fault)
    codes = []
    made = {"empty: full": full, "unreadable: read-only": fixed}.get(fault)
    with made(tmp_path) if made else nullcontext(laid(tmp_path, fault)) as place:
        out = Path("/dev/full") if fault == "empty: /dev/full" else place
        environment = dict(MINIMAL)
        if opened in ("slow", "dying", "full", "lying"):
            environment |= as_opened(compiled("files.c", tmp_path), place.parent, opened, environment)
        for arguments, code in WRITERS.values():
            prefix = AS_NOBODY_SPECIAL if fault == "unreadable" and os.geteuid() == 0 else ()
            done = subprocess.run(
                [*prefix, *PROGRAM, *arguments, "--snapshot", str(recording), "-o", str(out)],
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT,
            )  # fmt: skip
            assert "Traceback" not in done.stderr, done.stderr
            well = opened in ("slow", "lying")
            assert done.returncode == (code if well else 2), done.stderr
            assert well or str(out) in done.stderr.replace("\n", ""), done.stderr
            codes.append(str(done.returncode))
            if fault == "unreadable":
                place.parent.chmod(0o700)
            if well:
                assert place.read_text(encoding="utf-8").rstrip()[-1] in "}>"
            elif os.path.isfile(place):  # noqa: PTH113 - no error where the name is too long
                assert place.read_text(encoding="utf-8") == FORMER, "what was there is whole"
            if fault == "unreadable":
                place.parent.chmod(0)
    if fault == "unreadable":
        place.parent.chmod(0o700)
    record_property("told", ["disk", f"{fault}, for reports", f"exit codes {' '.join(codes)}"])


INSTALLS = ("slow", "dying", "empty: full", "lying")


@cells("disk", [f"{fault}, for an install" for fault in INSTALLS])
def test_a_disk_below_a_target(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """What is opened there is spoilt, in gpuenv and in the installer."""
    how = {"empty: full": "full"}.get(word := fault.partition(",")[0], word)
    disk = mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=330k", "tmpfs") if how == "lying" else nullcontext()
    with disk as small:
        target = small / "target" if small else sandbox.folder / "target"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], sandbox.environment())
        sandbox.add(target, "cupy-cuda11x==13.6.0")
        before = contents(target)
        spoilt = next(target.glob("lib/python*/site-packages")) if how == "dying" else target
        variables = as_opened(compiled("files.c", tmp_path), spoilt, how, {})
        started = time.monotonic()
        done = sandbox.install(target, **variables)
        took = time.monotonic() - started
        assert took < LIMIT, f"{took:.0f} s"
        assert done.returncode in ((0,) if how == "slow" else (4, 7)), done.stderr
        following = sandbox.gpuenv("rollback", "--python", target, "--list")
        assert following.returncode == 0, following.stderr
        if done.returncode == 0:
            assert versions(target)["cupy-cuda12x"] == "14.2.0"
        else:
            assert contents(target) == before, done.stderr
    record_property("told", ["disk", fault, f"exit code {done.returncode}"])
