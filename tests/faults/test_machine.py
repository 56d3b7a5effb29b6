"""Programs, libraries, kernel files and devices of a sound machine, each spoilt in turn: the doctor's whole answer.

Every outcome is in the table at the end of ``make test-faults``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.cells import cells
from tests.faults.spoiling import AS_NOBODY_SPECIAL, AS_OPENED, FILE, PROGRAM, RUBBISH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.ground import Sound, Told

pytestmark = pytest.mark.slow
VERSION = "580.126.09"
NVML, CUDA = f"libnvidia-ml.so.{VERSION}", f"libcuda.so.{VERSION}"
# What lies, in the words of the real thing.
LYING_SMI = """if [ $# = 0 ]; then
echo '| NVIDIA-SMI 999.99    Driver Version: 999.99    CUDA Version: 99.9 |'
else echo '0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA X9000, 00000000:99:00.0, 1'; fi"""
# Of the libraries of the driver themselves: what a function does when it is called.
CALLED = {"slow": "delay", "hung: in a call": "delay", "dying: in a call": "crash"}
HOW = {"slow": "0.2", "hung: in a call": "forever", "dying: in a call": "segv"}
FIRST = {NVML: "nvml.{}.nvmlInitWithFlags", CUDA: "cuda.{}.cuInit"}


def note(record_property: Callable[[str, object], None], thing: str, fault: str, told: Told) -> None:
    record_property("told", [thing, fault, f"{told.status} {told.code}"])


def test_the_sound_machine_is_fit(sound: Sound) -> None:
    told = sound.doctor()
    assert (told.code, told.status) == (0, "fit")


@cells("nvidia-smi", PROGRAM)
def test_nvidia_smi(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    PROGRAM[fault](sound.programs / "nvidia-smi")
    told = sound.doctor()
    note(record_property, "nvidia-smi", fault, told)
    assert told.code == 0, "a secondary source beside sound ones decides nothing"
    assert told.fact("gpus.0.name") == "NVIDIA H200"


@cells("nvidia-smi", ["lying"])
def test_nvidia_smi_lies(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    """It tells of another driver and another GPU: that is a warning, and the machine is what the driver says."""
    program = sound.programs / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{LYING_SMI}\n", encoding="utf-8")
    told = sound.doctor()
    note(record_property, "nvidia-smi", fault, told)
    assert (told.code, told.status) == (0, "degraded")
    assert {entry["cause"] for entry in told.report["findings"]} == {"sources-disagree"}
    assert (told.fact("driver.version"), told.fact("gpus.0.name")) == (VERSION, "NVIDIA H200")


@cells("target interpreter", ["lying"])
def test_target_interpreter_lies(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    """Facts of the wrong kind, and after them the end of a whole answer."""
    facts = ['{"python": 3}', '{"distributions": {"cupy": 1}}', '{"libc": [1]}', '{"done": true}', "[", "null"]
    sound.python.unlink()
    lines = "".join(f"echo 'gpuenv:{fact}'\n" for fact in facts)
    sound.python.write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    sound.python.chmod(0o755)
    told = sound.doctor()
    note(record_property, "target interpreter", fault, told)
    assert told.code in (1, 8)
    assert told.fact("target.python") is None


@cells("target interpreter", PROGRAM)
def test_target_interpreter(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    PROGRAM[fault](sound.python)
    told = sound.doctor()
    note(record_property, "target interpreter", fault, told)
    assert told.fact("driver.version") == VERSION
    # One that has told its version before it died is broken too, but what CuPy there would do was not told.
    expected = {"slow": [], "dying": [[], ["ENV401"]]}.get(fault, ["ENV401"])
    assert told.errors == expected or told.errors in expected
    assert told.code == (0 if fault == "slow" else 1 if told.errors else 8)


@pytest.mark.parametrize(
    ("library", "fault"),
    [(library, fault) for library in (NVML, CUDA) for fault in FILE],
    ids=[f"{library.partition('.')[0]} = {fault}" for library in (NVML, CUDA) for fault in FILE],
)
def test_driver_library(sound: Sound, library: str, fault: str, record_property: Callable[[str, object], None]) -> None:
    FILE[fault](sound.libraries / library)
    prefix = AS_NOBODY_SPECIAL if fault == "unreadable" and os.geteuid() == 0 else ()
    told = sound.doctor(prefix=prefix)
    note(record_property, library.partition(".so")[0], fault, told)
    assert told.fact("driver.version") == VERSION
    if library.startswith("libcuda") or fault in ("hung", "dying: cut in the middle"):
        assert (told.code, len(told.errors)) == (1, 1), "no CUDA program works, or each one is held up"
    else:
        assert told.code == 0, "libcuda has told of the GPUs, and programs need no more"


@pytest.mark.parametrize(
    ("library", "fault"),
    [(library, fault) for library in (NVML, CUDA) for fault in CALLED],
    ids=[f"{library.partition('.')[0]} = {fault}" for library in (NVML, CUDA) for fault in CALLED],
)
def test_driver_library_when_it_is_called(
    sound: Sound, library: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    say(sound, f"{FIRST[library].format(CALLED[fault])}={HOW[fault]}")
    told = sound.doctor()
    note(record_property, library.partition(".so")[0], fault, told)
    assert told.fact("driver.version") == VERSION
    assert (told.code == 0) == (fault == "slow"), told.text


def say(sound: Sound, *lines: str) -> None:
    """Adds to what the stub driver goes by."""
    table = Path(sound.environment["GPUENV_STUB"])
    table.write_text(table.read_text(encoding="utf-8") + "".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("library", "fault"),
    [("nvml", "lying"), ("cuda", "lying")],
    ids=["libnvidia-ml = lying", "libcuda = lying"],
)
def test_driver_library_lies(
    sound: Sound, library: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """It tells of a driver and of GPUs that nobody else knows."""
    lies = {"nvml": ("driver.version=999.99", "gpu.0.name=X9000"), "cuda": ("cuda.driver=11040",)}
    say(sound, *lies[library])
    told = sound.doctor()
    note(record_property, {"nvml": "libnvidia-ml", "cuda": "libcuda"}[library], fault, told)
    assert told.status != "fit"


def kernel_files(sound: Sound) -> Iterator[Path]:
    for path in sorted(path for path in sound.root.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.relative_to(sound.root).parts[0] in ("proc", "sys", "etc", "lib"):
            yield path


@cells("kernel files", FILE)
def test_kernel_files(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    """All of them at once; one by one they are spoilt in tests/probe/test_kernel_files.py."""
    for path in kernel_files(sound):
        FILE[fault](path)
    told = sound.doctor(prefix=AS_NOBODY_SPECIAL if fault == "unreadable" and os.geteuid() == 0 else ())
    note(record_property, "kernel files", fault, told)
    assert told.fact("gpus.0.name") == "NVIDIA H200"


@cells("kernel files", [f"{fault}: as they are opened" for fault in AS_OPENED])
def test_kernel_files_as_they_are_opened(
    sound: Sound, fault: str, record_property: Callable[[str, object], None]
) -> None:
    told = sound.doctor(environment=sound.as_opened(sound.root, fault.partition(":")[0]))
    note(record_property, "kernel files", fault, told)
    assert told.fact("gpus.0.name") == "NVIDIA H200"
    state, _ = told.source("kernel")
    assert state == ("timed-out" if fault.startswith("hung") else "answered")


@cells("kernel files", ["lying"])
def test_kernel_files_lie(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    """They tell of another kernel module than the libraries are for: with such a one no program would run."""
    lied = 0
    for path in kernel_files(sound):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(VERSION, "470.57.02").replace("H200", "X9000"), encoding="utf-8")
        lied += path.read_text(encoding="utf-8") != text
    assert lied > 1
    told = sound.doctor()
    note(record_property, "kernel files", fault, told)
    assert {entry["cause"] for entry in told.report["findings"]} & {
        "driver-library-version-mismatch",
        "sources-disagree",
    }


def nodes(sound: Sound) -> list[Path]:
    found = sorted(path for path in (sound.root / "dev").iterdir() if path.name.startswith("nvidia"))
    assert found
    return found


def _many(path: Path) -> None:
    for number in range(20_000):
        os.mknod(path.with_name(f"nvidia-caps-{path.name}-{number}"))


def _other(path: Path) -> None:
    """Another device's numbers, where this process may make a device; a link to one elsewhere."""
    path.unlink()
    path.symlink_to("/dev/null")


# A node is only looked at, never opened: what is slow or ends in the middle has nothing to do here.
NODE: dict[str, Callable[[Path], object]] = {
    "absent": Path.unlink,
    "unreadable": lambda path: path.chmod(0),
    "unreadable: a folder": FILE["unreadable: a folder"],
    "unreadable: a loop": FILE["unreadable: a loop"],
    "empty": lambda path: path.write_bytes(b""),
    "rubbish": lambda path: path.write_bytes(RUBBISH),
    "huge": _many,
    "hung": FILE["hung"],
    "lying": _other,
}


@cells("/dev", NODE)
def test_device_nodes(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    for node in nodes(sound)[: 1 if fault == "huge" else None]:
        NODE[fault](node)
    told = sound.doctor(prefix=AS_NOBODY_SPECIAL if fault == "unreadable" and os.geteuid() == 0 else ())
    note(record_property, "/dev", fault, told)
    assert told.fact("gpus.0.name") == "NVIDIA H200"
