"""Full disks, wrong clocks, power failures, Ctrl-C and other installs: the former or the new state."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import PROGRAM
from tests.install.mounts import MIB, mounted
from tests.install.sandbox import LIMIT, MACHINE, Ground, Index, contents, run, versions
from tests.install.test_killed_installs import BEFORE, KILLED, Trial
from tests.install.wheels import SET, Package
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_full_disk(ground: Ground, tmp_path: Path) -> None:
    """From one on which nothing fits to one on which all does."""
    large = {f"cupy_backends/large{number}.py": f"{number}" * 100_000 for number in range(10)}
    (right,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]
    big = Package(right.name, right.release, right.requires, right.extras, {**right.files, **large})
    index = Index(tmp_path / "big", [*(package for package in SET if package != right), big])
    other = Ground(index, ground.folder / "big", ground.libraries)
    other.folder.mkdir()
    results: Counter[int] = Counter()
    for size in (400, 1300, 1500, 4000):
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs") as disk:
            small = Ground(index, disk, ground.libraries)
            environment = {"UV_CACHE_DIR": str(other.folder / "uv-cache"), "HOME": str(other.folder)}
            target = disk / "venv"
            run([sys.executable, "-m", "venv", "--without-pip", str(target)], other.environment())
            for package in BEFORE:
                other.add(target, package)
            before = contents(target)
            done = small.install(target, **environment)
            assert done.returncode in (0, 4), done.stderr
            if done.returncode == 4:
                assert contents(target) == before, size
            following = small.gpuenv("rollback", "--python", target, "--list", **environment)
            assert following.returncode == 0, following.stderr
            assert (contents(target) == before) == (done.returncode == 4), size
            results[done.returncode] += 1
    index.close()
    assert set(results) == {0, 4}


def test_a_read_only_target(ground: Ground, tmp_path: Path) -> None:
    with mounted(tmp_path / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], ground.environment())
        before = contents(target)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = ground.install(target)
        assert done.returncode == 7, done.stderr
        assert "cannot be written" in done.stderr
        assert contents(target) == before


def test_what_can_be_rolled_back_can_be_read_where_nothing_can_be_written(ground: Ground, tmp_path: Path) -> None:
    with mounted(tmp_path / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], ground.environment())
        assert ground.install(target).returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = ground.gpuenv("rollback", "--python", target, "--list")
        assert (done.returncode, done.stdout[:4]) == (0, "0001"), done.stderr
        refused = ground.gpuenv("rollback", "--python", target)
        assert refused.returncode == 7
        assert "Read-only file system" in refused.stderr


def test_the_target_s_python_is_removed_in_the_middle(ground: Ground, killer: Path) -> None:
    """What was left unfinished is put back without it."""
    target = ground.target("headless", *BEFORE)
    trial = Trial(ground, target, killer, contents(target))
    calls = trial.calls()
    trial.back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    between = contents(target)
    interpreters = sorted(target.glob("bin/python*"))
    for interpreter in interpreters:
        interpreter.unlink()
    done = ground.gpuenv("rollback", "--python", target, "--list")
    assert done.returncode == 0, done.stderr
    gone = {str(path.relative_to(target)) for path in interpreters}
    found = contents(target)
    assert found == {path: told for path, told in trial.before.items() if path not in gone}
    assert found != {path: told for path, told in between.items() if path not in gone}


def test_a_python_that_vanishes_before_the_proof(ground: Ground) -> None:
    """The installer still ran with it; the proof cannot, so the former state comes back."""
    target = ground.target("vanishing", *BEFORE)
    (site,) = target.glob("lib/python*/site-packages")
    # A child that finds the new CuPy there cannot start: as if the interpreter had gone in that moment.
    hook = f"import os, sys\nif os.path.isdir({str(site / 'cuda_toolkit-12.9.2.dist-info')!r}): os._exit(9)\n"
    run_at_start(site, hook)
    before = contents(target)
    done = ground.install(target)
    assert done.returncode == 4, done.stderr
    assert contents(target) == before


def test_an_interrupt(ground: Ground) -> None:
    """Ctrl-C while the installer works, and while the proof is made."""
    target = ground.target("interrupted", *BEFORE)
    before = contents(target)
    for moment in ("wheels together", "verifying the install"):
        command = [*PROGRAM, "install", "--python", str(target), "--yes", *MACHINE]
        with subprocess.Popen(command, env=ground.environment(), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            said: list[str] = []
            while moment not in (line := process.stderr.readline()):
                assert line, said
                said.append(line)
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert process.returncode == 130, rest
        told = "the former state was restored" if moment == "verifying the install" else "nothing was changed"
        assert told in rest
        assert contents(target) == before
        assert ground.gpuenv("rollback", "--python", target, "--list").stdout.startswith("There is no install")


def test_two_installs_at_once(ground: Ground) -> None:
    target = ground.target("twins", *BEFORE)
    command = [*PROGRAM, "install", "--python", str(target), "--yes", *MACHINE]
    twins = [
        subprocess.Popen(command, env=ground.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [twin.communicate(timeout=LIMIT) for twin in twins]
    codes = sorted(twin.returncode for twin in twins)
    assert codes in ([0, 0], [0, 7]), said
    assert versions(target)["cupy-cuda12x"] == "14.2.0"
    if codes == [0, 7]:
        assert any("another gpuenv is using this environment" in err for _, err in said)
    listed = json.loads(ground.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)
    assert len(listed["installs"]) == 1


def test_a_held_environment_is_left_alone(ground: Ground) -> None:
    target = ground.target("held", *BEFORE)
    before = contents(target)
    (target / ".gpuenv").mkdir(mode=0o700)
    holder = subprocess.Popen(
        ["flock", str(target / ".gpuenv/lock"), "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    done = ground.install(target)
    holder.communicate("\n")
    assert done.returncode == 7
    assert "another gpuenv is using this environment" in done.stderr
    assert contents(target) == before


def test_a_clock_that_was_set_back(ground: Ground, killer: Path) -> None:
    """Between the kill and the next command, and between two installs: no clock decides what is older."""
    target = ground.target("clock", *BEFORE)
    trial = Trial(ground, target, killer, contents(target))
    calls = trial.calls()
    (site,) = target.glob("lib/python*/site-packages")
    middle = contents(target)
    (site / "cupy/part3.py").unlink()
    done = trial.install(CLOCK_BACK=str(400 * 86400))
    assert done.returncode == 0, done.stderr
    listed = json.loads(ground.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)["installs"]
    assert [entry["number"] for entry in listed] == ["0002", "0001"]
    assert listed[0]["created_at"] < listed[1]["created_at"], "the clock was indeed set back"
    assert contents(target) == middle
    done = ground.gpuenv("rollback", "--python", target, "0001")
    assert done.returncode == 0, done.stderr
    assert contents(target) == trial.before
    assert trial.install(KILL_AT=str(calls * 3 // 4), CLOCK_BACK="86400").returncode == KILLED
    assert ground.gpuenv("rollback", "--python", target, "--list").returncode == 0
    assert contents(target) == trial.before


@pytest.mark.slow
def test_the_power_fails(ground: Ground, killer: Path, tmp_path: Path) -> None:
    """What had not reached the disk by the time of the kill is lost: the disk is looked at as it was then."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(48 * MIB)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    results: Counter[str] = Counter()
    with mounted(tmp_path / "disk", "-o", "loop", str(image)) as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], ground.environment())
        ground.add(target, *BEFORE[:1])
        for package in BEFORE[1:]:
            ground.add(target, package)
        trial = Trial(ground, target, killer, contents(target))
        calls = trial.calls() - 1
        new = contents(target)
        trial.back()
        os.sync()
    pristine = image.read_bytes()
    for point in range(calls // 3, calls + 1, max(1, calls // 9)):
        image.write_bytes(pristine)
        with mounted(tmp_path / "disk", "-o", "loop", str(image)) as disk:
            trial.install(KILL_AT=str(point))
            cut_the_power(disk)
            _let_sync_end(target)  # or the disk could not be unmounted
        with mounted(tmp_path / "disk", "-o", "loop", str(image)):
            following = ground.gpuenv("rollback", "--python", target, "--list")
            assert following.returncode == 0, following.stderr
            found = contents(target)
            assert found in (trial.before, new), (point, set(found.items()) ^ set(trial.before.items()))
            results["new" if found == new else "as it was"] += 1
    assert results["as it was"] > 0


# FS_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of Linux (include/uapi/linux/fs.h and ext4.h).
_SHUTDOWN, _WITHOUT_THE_LOG = 0x8004587D, 2


def cut_the_power(disk: Path) -> None:
    """Nothing that is in memory alone reaches the disk any more: what is on it is one moment's, however busy it is."""
    handle = os.open(disk, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _WITHOUT_THE_LOG))
    finally:
        os.close(handle)


def _let_sync_end(target: Path) -> None:
    """Waits for the sync(1) that a killed install has left behind."""
    until = time.monotonic() + LIMIT
    while any(str(target).encode() in line for line in _commands() if b"sync" in line):
        assert time.monotonic() < until
        time.sleep(0.01)


def _commands() -> Iterator[bytes]:
    """The command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()
