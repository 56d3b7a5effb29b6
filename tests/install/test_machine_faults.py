"""Full disks, wrong clocks, power failures, Ctrl-C and concurrent installs: the former or the new state."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
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

from gpuenv.install.journal import Journal, Store
from gpuenv.probe.transactions import TransactionState
from tests.cli.program import PROGRAM
from tests.install.mounts import MIB, mounted
from tests.install.sandbox import LIMIT, MACHINE, Index, Sandbox, contents, run, versions
from tests.install.test_killed_installs import BEFORE, KILLED, Trial, undo_what_the_doctor_names
from tests.install.wheels import SET, Package
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_full_disk_leaves_the_former_state(sandbox: Sandbox, tmp_path: Path) -> None:
    """From a disk with no space for the install to one with enough."""
    large = {f"cupy_backends/large{number}.py": f"{number}" * 100_000 for number in range(10)}
    (expected,) = [package for package in SET if package.stem == "cupy_cuda12x-14.2.0"]
    large_package = Package(
        expected.name, expected.release, expected.requires, expected.extras, {**expected.files, **large}
    )
    index = Index(tmp_path / "big", [*(package for package in SET if package != expected), large_package])
    other = Sandbox(index, sandbox.folder / "big", sandbox.libraries)
    other.folder.mkdir()
    results: Counter[int] = Counter()
    for size in (400, 1300, 1500, 4000):
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs") as disk:
            small = Sandbox(index, disk, sandbox.libraries)
            environment = {"UV_CACHE_DIR": str(other.folder / "uv-cache"), "HOME": str(other.folder)}
            target = disk / "venv"
            run([sys.executable, "-m", "venv", "--without-pip", str(target)], other.environment())
            for package in BEFORE:
                other.add(target, package)
            before = contents(target)
            result = small.install(target, **environment)
            assert result.returncode in (0, 4), result.stderr
            if result.returncode == 4:
                assert contents(target) == before, size
            listed = small.gpuenv("rollback", "--python", target, "--list", **environment)
            assert listed.returncode == 0, listed.stderr
            assert (contents(target) == before) == (result.returncode == 4), size
            results[result.returncode] += 1
    index.close()
    assert set(results) == {0, 4}


def test_a_read_only_environment_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    with mounted(tmp_path / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], sandbox.environment())
        before = contents(target)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        result = sandbox.install(target)
        assert result.returncode == 7, result.stderr
        assert "is not writable" in result.stderr
        assert contents(target) == before


def test_installs_are_listed_on_a_read_only_file_system(sandbox: Sandbox, tmp_path: Path) -> None:
    with mounted(tmp_path / "fixed", "-t", "tmpfs", "tmpfs") as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], sandbox.environment())
        assert sandbox.install(target).returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        result = sandbox.gpuenv("rollback", "--python", target, "--list")
        assert (result.returncode, result.stdout[:4]) == (0, "0001"), result.stderr
        refused = sandbox.gpuenv("rollback", "--yes", "--python", target)
        assert refused.returncode == 7
        assert "Read-only file system" in refused.stderr


def test_an_interrupted_install_is_restored_without_the_interpreter(sandbox: Sandbox, killer: Path) -> None:
    """The interpreter is removed after the kill."""
    target = sandbox.target("headless", *BEFORE)
    trial = Trial(sandbox, target, killer, contents(target))
    calls = trial.calls()
    trial.roll_back()
    assert trial.install(KILL_AT=str(calls * 3 // 4)).returncode == KILLED
    between = contents(target)
    interpreters = sorted(target.glob("bin/python*"))
    for interpreter in interpreters:
        interpreter.unlink()
    result = sandbox.gpuenv("rollback", "--yes", "--python", target)
    assert result.returncode == 0, result.stderr
    removed = {str(path.relative_to(target)) for path in interpreters}
    state = contents(target)
    assert state == {path: entry for path, entry in trial.before.items() if path not in removed}
    assert state != {path: entry for path, entry in between.items() if path not in removed}


def test_an_interpreter_that_fails_in_verification_causes_a_rollback(sandbox: Sandbox) -> None:
    """The installer can still run it, but verification cannot."""
    target = sandbox.target("vanishing", *BEFORE)
    (site,) = target.glob("lib/python*/site-packages")
    # The interpreter exits as soon as the new CuPy is installed.
    hook = f"import os, sys\nif os.path.isdir({str(site / 'cuda_toolkit-12.9.2.dist-info')!r}): os._exit(9)\n"
    run_at_start(site, hook)
    before = contents(target)
    result = sandbox.install(target)
    assert result.returncode == 4, result.stderr
    assert contents(target) == before


def test_ctrl_c_restores_the_former_state(sandbox: Sandbox) -> None:
    """Ctrl-C during the installer and during verification."""
    target = sandbox.target("interrupted", *BEFORE)
    before = contents(target)
    for moment in ("downloading and installing", "verifying the install"):
        command = [*PROGRAM, "install", "--python", str(target), "--yes", *MACHINE]
        with subprocess.Popen(command, env=sandbox.environment(), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines: list[str] = []
            while moment not in (line := process.stderr.readline()):
                assert line, lines
                lines.append(line)
            process.send_signal(signal.SIGINT)
            remaining = process.stderr.read()
        assert process.returncode == 130, remaining
        message = "the former state was restored" if moment == "verifying the install" else "nothing was changed"
        assert message in remaining
        assert contents(target) == before
        assert sandbox.gpuenv("rollback", "--python", target, "--list").stdout.startswith("There is no install")


def has_children(process: int) -> bool:
    """Whether a thread of a process has started another process that still runs."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            if children.read_text(encoding="ascii").strip():
                return True
    return False


@pytest.mark.parametrize(
    ("command", "deleted"),
    [(("install", "--yes"), "0001/journal.json"), (("doctor", "--fix", "--yes"), "0001")],
    ids=["install", "doctor"],
)
def test_ctrl_c_after_the_install_names_the_command_that_undoes_it(
    shared: Sandbox, command: tuple[str, ...], deleted: str
) -> None:
    """Ctrl-C while the backups of an earlier install are deleted, and during the doctor's second diagnosis."""
    target = shared.target(f"late-{command[0]}", *BEFORE)
    before, store = contents(target), Store(target)
    store.folder.mkdir(mode=0o700)
    for _ in range(3):
        number = store.begin()
        store.write(Journal(number, None, "", "an earlier install", {}, (), (), (), (), (), {}))
        store.mark(number, TransactionState.COMMITTED)
    store.stage("0001").mkdir()
    for index in range(20_000):
        (store.stage("0001") / str(index)).touch()
    process = subprocess.Popen(
        [*PROGRAM, *command, "--quiet", "--python", str(target), *MACHINE],
        env=shared.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    while (store.folder / deleted).exists() and process.poll() is None:
        time.sleep(0.001)
    while command[0] == "doctor" and not has_children(process.pid) and process.poll() is None:
        time.sleep(0.001)  # the second diagnosis has not begun
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, stderr
    assert versions(target)["cupy-cuda12x"] == "14.2.0"
    undo = f"gpuenv rollback --python {target} 0004"
    assert f"interrupted; install 0004 is complete. To undo: {undo}" in " ".join(stderr.split())
    assert shared.gpuenv(*shlex.split(undo)[1:], "--yes").returncode == 0
    assert contents(target) == before


def test_concurrent_installs_exclude_each_other(sandbox: Sandbox) -> None:
    target = sandbox.target("twins", *BEFORE)
    command = [*PROGRAM, "install", "--python", str(target), "--yes", *MACHINE]
    processes = [
        subprocess.Popen(command, env=sandbox.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=LIMIT) for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes in ([0, 0], [0, 7]), outputs
    assert versions(target)["cupy-cuda12x"] == "14.2.0"
    if codes == [0, 7]:
        assert any("another gpuenv is using this environment" in err for _, err in outputs)
    listed = json.loads(sandbox.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)
    assert len(listed["installs"]) == 1


def test_a_locked_environment_is_not_changed(sandbox: Sandbox) -> None:
    target = sandbox.target("held", *BEFORE)
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
    result = sandbox.install(target)
    holder.communicate("\n")
    assert result.returncode == 7
    assert "another gpuenv is using this environment" in result.stderr
    assert contents(target) == before


def test_a_clock_set_back_does_not_change_the_order_of_installs(sandbox: Sandbox, killer: Path) -> None:
    """The order of installs and restores does not depend on the clock."""
    target = sandbox.target("clock", *BEFORE)
    trial = Trial(sandbox, target, killer, contents(target))
    calls = trial.calls()
    (site,) = target.glob("lib/python*/site-packages")
    after_first = contents(target)
    (site / "cupy/part3.py").unlink()
    result = trial.install(CLOCK_BACK=str(400 * 86400))
    assert result.returncode == 0, result.stderr
    listed = json.loads(sandbox.gpuenv("rollback", "--python", target, "--list", "--format", "json").stdout)["installs"]
    assert [entry["number"] for entry in listed] == ["0002", "0001"]
    assert listed[0]["created_at"] < listed[1]["created_at"], "the clock was set back"
    assert contents(target) == after_first
    result = sandbox.gpuenv("rollback", "--yes", "--python", target, "0001")
    assert result.returncode == 0, result.stderr
    assert contents(target) == trial.before
    assert trial.install(KILL_AT=str(calls * 3 // 4), CLOCK_BACK="86400").returncode == KILLED
    assert sandbox.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == trial.before


@pytest.mark.parametrize(
    ("command", "content"),
    [
        (("install", "--yes"), b""),
        (("install", "--yes"), b"cupy/__init__.py,,\ncupy/part3.py,,\ncupy"),  # a path that is cut names a folder
        (("doctor", "--fix", "--yes"), b"\0" * 512),
    ],
    ids=["empty", "cut", "nul"],
)
def test_a_cupy_with_a_damaged_record_is_replaced(shared: Sandbox, command: tuple[str, ...], content: bytes) -> None:
    """A power failure damages a RECORD."""
    target = shared.target(f"record-{len(content)}", "numpy==2.1.0", "cupy-cuda13x==14.2.0")
    (record,) = target.glob("lib/python*/site-packages/cupy_cuda13x-*.dist-info/RECORD")
    record.write_bytes(content)
    before = contents(target)
    result = shared.gpuenv(*command, "--python", target, *MACHINE)
    assert versions(target).get("cupy-cuda12x") == "14.2.0", result.stdout + result.stderr
    assert "cupy-cuda13x" not in versions(target)
    assert not record.parent.exists()
    assert not (record.parent.parent / "cupy/.data/only13.txt").exists()
    assert shared.gpuenv("rollback", "--yes", "--python", target).returncode == 0
    assert contents(target) == before


@pytest.mark.parametrize("damage", ["nul", "missing"])
def test_the_command_for_another_package_with_a_damaged_record_restores_it(shared: Sandbox, damage: str) -> None:
    target = shared.target(f"{damage} record", "numpy==1.26.4", "cupy-cuda11x==13.6.0", pip=True)
    (record,) = target.glob("lib/python*/site-packages/numpy-*.dist-info/RECORD")
    if damage == "nul":
        record.write_bytes(b"\0" * 512)
    else:
        record.unlink()
    before = contents(target)
    result = shared.install(target, "--allow-changes", "cupy-cuda12x>=14")
    message = " ".join(result.stderr.split())
    assert (result.returncode, contents(target)) == (7, before), message
    assert "numpy 1.26.4" in message
    assert "has no readable RECORD" in message
    arguments = shlex.split(message.partition("python3 -m ")[2])[:7]
    run([str(target / "bin/python"), "-m", *arguments], shared.environment())
    assert shared.install(target, "--allow-changes", "cupy-cuda12x>=14").returncode == 0
    assert versions(target)["numpy"] == "2.1.0"


@pytest.mark.slow
def test_a_power_failure_leaves_the_former_or_the_new_state(sandbox: Sandbox, killer: Path, tmp_path: Path) -> None:
    """Data that had not reached the disk at the time of the kill is lost."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(48 * MIB)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    results: Counter[str] = Counter()
    with mounted(tmp_path / "disk", "-o", "loop", str(image)) as disk:
        target = disk / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", str(target)], sandbox.environment())
        sandbox.add(target, *BEFORE[:1])
        for package in BEFORE[1:]:
            sandbox.add(target, package)
        trial = Trial(sandbox, target, killer, contents(target))
        calls = trial.calls() - 1
        new = contents(target)
        trial.roll_back()
        os.sync()
    pristine = image.read_bytes()
    for point in range(calls // 3, calls + 1, max(1, calls // 9)):
        image.write_bytes(pristine)
        with mounted(tmp_path / "disk", "-o", "loop", str(image)) as disk:
            trial.install(KILL_AT=str(point))
            cut_the_power(disk)
            _wait_for_sync(target)  # so that the disk can be unmounted
        with mounted(tmp_path / "disk", "-o", "loop", str(image)):
            undo_what_the_doctor_names(trial)
            state = contents(target)
            assert state in (trial.before, new), (point, set(state.items()) ^ set(trial.before.items()))
            results["new" if state == new else "former"] += 1
    assert results["former"] > 0


# FS_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of Linux (include/uapi/linux/fs.h and ext4.h).
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2


def cut_the_power(disk: Path) -> None:
    """Shuts the file system down without flushing, so that the disk holds the state of one moment."""
    handle = os.open(disk, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(handle)


def _wait_for_sync(target: Path) -> None:
    """Waits for the sync(1) process of a killed install."""
    until = time.monotonic() + LIMIT
    while any(str(target).encode() in line for line in _command_lines() if b"sync" in line):
        assert time.monotonic() < until
        time.sleep(0.01)


def _command_lines() -> Iterator[bytes]:
    """Yields the command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()
