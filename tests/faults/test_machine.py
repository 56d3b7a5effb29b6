"""Programs, libraries and kernel files of a sound machine, each spoilt in turn: the doctor's whole answer.

Every outcome is in the table at the end of ``make test-faults``.
"""

from __future__ import annotations

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


@pytest.mark.parametrize("fault", PROGRAM)
def test_target_interpreter(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    PROGRAM[fault](sound.python)
    told = sound.doctor()
    note(record_property, "target interpreter", fault, told)
    assert told.fact("driver.version") == "580.126.09"


@pytest.mark.parametrize("fault", FILE)
@pytest.mark.parametrize("library", ["libnvidia-ml.so.580.126.09", "libcuda.so.580.126.09"])
def test_driver_library(sound: Sound, library: str, fault: str, record_property: Callable[[str, object], None]) -> None:
    FILE[fault](sound.libraries / library)
    told = sound.doctor()
    note(record_property, library.partition(".so")[0], fault, told)
    assert told.fact("driver.version") == "580.126.09"


@pytest.mark.parametrize("fault", FILE)
def test_kernel_files(sound: Sound, fault: str, record_property: Callable[[str, object], None]) -> None:
    for path in sorted(path for path in sound.root.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.relative_to(sound.root).parts[0] in ("proc", "sys", "etc", "lib"):
            FILE[fault](path)
    told = sound.doctor()
    note(record_property, "/proc, /sys, /etc, /lib: all files", fault, told)
    assert told.fact("gpus.0.name") == "NVIDIA H200"
