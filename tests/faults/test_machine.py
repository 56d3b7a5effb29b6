"""Programs, libraries and kernel files of a sound machine, each spoilt in turn: the doctor's whole answer.

Every outcome is in the table at the end of ``make test-faults``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.spoiling import FILE, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.ground import Sound, Told

pytestmark = pytest.mark.slow
# What lies, in the words of the real thing.
LYING_SMI = """if [ $# = 0 ]; then
echo '| NVIDIA-SMI 999.99    Driver Version: 999.99    CUDA Version: 99.9 |'
else echo '0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA X9000, 00000000:99:00.0, 1'; fi"""


def note(record_property: Callable[[str, object], None], thing: str, fault: str, told: Told) -> None:
    record_property("told", [thing, fault, f"{told.status} {told.code}"])


def test_the_sound_machine_is_fit(sound: Sound) -> None:
    told = sound.doctor()
    assert (told.code, told.status) == (0, "fit")


@pytest.mark.parametrize("fault", PROGRAM)
def test_nvidia_smi(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    PROGRAM[fault](sound.programs / "nvidia-smi")
    told = sound.doctor()
    note(record_property, "nvidia-smi", fault, told)
    assert told.code == 0, "a secondary source beside sound ones decides nothing"
    assert told.fact("gpus.0.name") == "NVIDIA H200"


def test_nvidia_smi_lies(sound: Sound, record_property: Callable[[str, object], None]) -> None:
    """It tells of another driver and another GPU: that is a warning, and the machine is what the driver says."""
    program = sound.programs / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{LYING_SMI}\n", encoding="utf-8")
    told = sound.doctor()
    note(record_property, "nvidia-smi", "lying", told)
    assert (told.code, told.status) == (0, "degraded")
    assert {entry["cause"] for entry in told.report["findings"]} == {"sources-disagree"}
    assert (told.fact("driver.version"), told.fact("gpus.0.name")) == ("580.126.09", "NVIDIA H200")


def test_target_interpreter_lies(sound: Sound, record_property: Callable[[str, object], None]) -> None:
    """Facts of the wrong kind, and after them the end of a whole answer."""
    facts = ['{"python": 3}', '{"distributions": {"cupy": 1}}', '{"libc": [1]}', '{"done": true}', "[", "null"]
    sound.python.unlink()
    lines = "".join(f"echo 'gpuenv:{fact}'\n" for fact in facts)
    sound.python.write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    sound.python.chmod(0o755)
    told = sound.doctor()
    note(record_property, "target interpreter", "lying", told)
    assert told.code in (1, 8)
    assert told.fact("target.python") is None


@pytest.mark.parametrize("fault", PROGRAM)
def test_target_interpreter(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    PROGRAM[fault](sound.python)
    told = sound.doctor()
    note(record_property, "target interpreter", fault, told)
    assert told.fact("driver.version") == "580.126.09"
    # One that has told its version before it died is broken too, but what CuPy there would do was not told.
    expected = {"slow": [], "dies in the middle": [[], ["ENV401"]]}.get(fault, ["ENV401"])
    assert told.errors == expected or told.errors in expected
    assert told.code == (0 if fault == "slow" else 1 if told.errors else 8)


@pytest.mark.parametrize("fault", FILE)
@pytest.mark.parametrize("library", ["libnvidia-ml.so.580.126.09", "libcuda.so.580.126.09"])
def test_driver_library(sound: Sound, library: str, fault: str, record_property: Callable[[str, object], None]) -> None:
    FILE[fault](sound.libraries / library)
    told = sound.doctor()
    note(record_property, library.partition(".so")[0], fault, told)
    assert told.fact("driver.version") == "580.126.09"
    if fault == "unreadable" and os.geteuid() == 0:
        assert told.status == "fit", "root reads it all the same"
    elif library.startswith("libcuda") or fault in ("hung", "cut in the middle"):
        assert (told.code, len(told.errors)) == (1, 1), "no CUDA program works, or each one is held up"
    else:
        assert told.code == 0, "libcuda has told of the GPUs, and programs need no more"


@pytest.mark.parametrize("library", ["nvml", "cuda"])
def test_driver_library_lies(sound: Sound, library: str, record_property: Callable[[str, object], None]) -> None:
    """It tells of a driver and of GPUs that nobody else knows."""
    table = Path(sound.environment["GPUENV_STUB"])
    lies = {"nvml": "driver.version=999.99\ngpu.0.name=X9000\n", "cuda": "cuda.driver=11040\n"}
    table.write_text(table.read_text(encoding="utf-8") + lies[library], encoding="utf-8")
    told = sound.doctor()
    note(record_property, {"nvml": "libnvidia-ml", "cuda": "libcuda"}[library], "lying", told)
    assert told.status != "fit"


@pytest.mark.parametrize("fault", FILE)
def test_kernel_files(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    for path in sorted(path for path in sound.root.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.relative_to(sound.root).parts[0] in ("proc", "sys", "etc", "lib"):
            FILE[fault](path)
    told = sound.doctor()
    note(record_property, "/proc, /sys, /etc, /lib: all files", fault, told)
    assert told.fact("gpus.0.name") == "NVIDIA H200"
