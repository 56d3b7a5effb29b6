"""Faults of programs, libraries, kernel files and devices of a healthy machine, and the doctor's whole answer.

The table at the end of ``make test-faults`` lists every outcome.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import parametrize_faults
from tests.faults.file_faults import FILE_FAULTS, ON_OPEN, PROGRAM_FAULTS, RUBBISH, WITHOUT_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.healthy_machine import DoctorRun, HealthyMachine

pytestmark = pytest.mark.slow
VERSION = "580.126.09"
NVML, CUDA = f"libnvidia-ml.so.{VERSION}", f"libcuda.so.{VERSION}"
# False answers in the format of nvidia-smi.
FALSE_SMI = """if [ $# = 0 ]; then
echo '| NVIDIA-SMI 999.99    Driver Version: 999.99    CUDA Version: 99.9 |'
else echo '0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA X9000, 00000000:99:00.0, 1'; fi"""
# Faults of a driver library when a function is called: the keys and values of the stub driver's table.
CALL_FAULTS = {"slow": "delay", "hung: in a call": "delay", "dying: in a call": "crash"}
CALL_VALUES = {"slow": "0.2", "hung: in a call": "forever", "dying: in a call": "segv"}
FIRST_CALL = {NVML: "nvml.{}.nvmlInitWithFlags", CUDA: "cuda.{}.cuInit"}


def record_outcome(record_property: Callable[[str, object], None], thing: str, fault: str, run: DoctorRun) -> None:
    record_property("outcome", [thing, fault, f"{run.status} {run.code}"])


def test_a_machine_without_faults_is_fit(machine: HealthyMachine) -> None:
    run = machine.doctor()
    assert (run.code, run.status) == (0, "fit")


@parametrize_faults("nvidia-smi", PROGRAM_FAULTS)
def test_a_faulty_nvidia_smi_changes_no_verdict(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    PROGRAM_FAULTS[fault](machine.programs / "nvidia-smi")
    run = machine.doctor()
    record_outcome(record_property, "nvidia-smi", fault, run)
    assert run.code == 0, "a secondary source does not decide the verdict"
    assert run.fact("gpus.0.name") == "NVIDIA H200"


@parametrize_faults("nvidia-smi", ["lying"])
def test_false_output_of_nvidia_smi_is_only_a_warning(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """Another driver and another GPU are a warning; the facts of the driver's libraries are used."""
    program = machine.programs / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{FALSE_SMI}\n", encoding="utf-8")
    run = machine.doctor()
    record_outcome(record_property, "nvidia-smi", fault, run)
    assert (run.code, run.status) == (0, "degraded")
    assert {entry["cause"] for entry in run.report["findings"]} == {"sources-disagree"}
    assert (run.fact("driver.version"), run.fact("gpus.0.name")) == (VERSION, "NVIDIA H200")


@parametrize_faults("target interpreter", ["lying"])
def test_malformed_facts_of_the_target_are_rejected(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """Facts of the wrong types, then the end marker of an answer."""
    facts = ['{"python": 3}', '{"distributions": {"cupy": 1}}', '{"libc": [1]}', '{"done": true}', "[", "null"]
    machine.python.unlink()
    lines = "".join(f"echo 'gpuenv:{fact}'\n" for fact in facts)
    machine.python.write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    machine.python.chmod(0o755)
    run = machine.doctor()
    record_outcome(record_property, "target interpreter", fault, run)
    assert run.code in (1, 8)
    assert run.fact("target.python") is None


@parametrize_faults("target interpreter", PROGRAM_FAULTS)
def test_a_faulty_target_interpreter_is_reported(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    PROGRAM_FAULTS[fault](machine.python)
    run = machine.doctor()
    record_outcome(record_property, "target interpreter", fault, run)
    assert run.fact("driver.version") == VERSION
    # An interpreter that crashes after its version is broken too, but nothing is known of its CuPy.
    expected = {"slow": [], "dying": [[], ["ENV401"]]}.get(fault, ["ENV401"])
    assert run.errors == expected or run.errors in expected
    assert run.code == (0 if fault == "slow" else 1 if run.errors else 8)


@pytest.mark.parametrize(
    ("library", "fault"),
    [(library, fault) for library in (NVML, CUDA) for fault in FILE_FAULTS],
    ids=[f"{library.partition('.')[0]} = {fault}" for library in (NVML, CUDA) for fault in FILE_FAULTS],
)
def test_a_faulty_driver_library_is_reported_if_needed(
    machine: HealthyMachine, library: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    FILE_FAULTS[fault](machine.libraries / library)
    prefix = WITHOUT_CAPABILITIES if fault == "unreadable" and os.geteuid() == 0 else ()
    run = machine.doctor(prefix=prefix)
    record_outcome(record_property, library.partition(".so")[0], fault, run)
    assert run.fact("driver.version") == VERSION
    if library.startswith("libcuda") or fault in ("hung", "dying: cut in the middle"):
        assert (run.code, len(run.errors)) == (1, 1), "every CUDA program fails or hangs"
    else:
        assert run.code == 0, "libcuda lists the GPUs, which is enough for programs"


@pytest.mark.parametrize(
    ("library", "fault"),
    [(library, fault) for library in (NVML, CUDA) for fault in CALL_FAULTS],
    ids=[f"{library.partition('.')[0]} = {fault}" for library in (NVML, CUDA) for fault in CALL_FAULTS],
)
def test_a_driver_library_that_hangs_or_crashes_in_a_call_is_reported(
    machine: HealthyMachine, library: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    append_to_stub(machine, f"{FIRST_CALL[library].format(CALL_FAULTS[fault])}={CALL_VALUES[fault]}")
    run = machine.doctor()
    record_outcome(record_property, library.partition(".so")[0], fault, run)
    assert run.fact("driver.version") == VERSION
    assert (run.code == 0) == (fault == "slow"), run.text


def append_to_stub(machine: HealthyMachine, *lines: str) -> None:
    """Append lines to the table of the stub driver."""
    table = Path(machine.environment["GPUENV_STUB"])
    table.write_text(table.read_text(encoding="utf-8") + "".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("library", "fault"),
    [("nvml", "lying"), ("cuda", "lying")],
    ids=["libnvidia-ml = lying", "libcuda = lying"],
)
def test_contradicting_driver_libraries_are_reported(
    machine: HealthyMachine, library: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """The library reports a driver or a GPU that no other source reports."""
    lines_by_library = {"nvml": ("driver.version=999.99", "gpu.0.name=X9000"), "cuda": ("cuda.driver=11040",)}
    append_to_stub(machine, *lines_by_library[library])
    run = machine.doctor()
    record_outcome(record_property, {"nvml": "libnvidia-ml", "cuda": "libcuda"}[library], fault, run)
    assert run.status != "fit"


def kernel_files(machine: HealthyMachine) -> Iterator[Path]:
    for path in sorted(path for path in machine.root.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.relative_to(machine.root).parts[0] in ("proc", "sys", "etc", "lib"):
            yield path


@parametrize_faults("kernel files", FILE_FAULTS)
def test_gpus_are_found_despite_faulty_kernel_files(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """All of them at once; tests/probe/test_kernel_files.py covers each one."""
    for path in kernel_files(machine):
        FILE_FAULTS[fault](path)
    run = machine.doctor(prefix=WITHOUT_CAPABILITIES if fault == "unreadable" and os.geteuid() == 0 else ())
    record_outcome(record_property, "kernel files", fault, run)
    assert run.fact("gpus.0.name") == "NVIDIA H200"


@parametrize_faults("kernel files", [f"{fault}: as they are opened" for fault in ON_OPEN])
def test_gpus_are_found_despite_errors_on_opening_kernel_files(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    run = machine.doctor(environment=machine.faults_on_open(machine.root, fault.partition(":")[0]))
    record_outcome(record_property, "kernel files", fault, run)
    assert run.fact("gpus.0.name") == "NVIDIA H200"
    state, _ = run.source("kernel")
    assert state == ("timed-out" if fault.startswith("hung") else "answered")


@parametrize_faults("kernel files", ["lying"])
def test_kernel_files_of_another_driver_are_a_mismatch(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    """They report another kernel module than that of the libraries, with which no program runs."""
    changed = 0
    for path in kernel_files(machine):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(VERSION, "470.57.02").replace("H200", "X9000"), encoding="utf-8")
        changed += path.read_text(encoding="utf-8") != text
    assert changed > 1
    run = machine.doctor()
    record_outcome(record_property, "kernel files", fault, run)
    assert {entry["cause"] for entry in run.report["findings"]} & {
        "driver-library-version-mismatch",
        "sources-disagree",
    }


def device_nodes(machine: HealthyMachine) -> list[Path]:
    paths = sorted(path for path in (machine.root / "dev").iterdir() if path.name.startswith("nvidia"))
    assert paths
    return paths


def _create_many(path: Path) -> None:
    for number in range(20_000):
        os.mknod(path.with_name(f"nvidia-caps-{path.name}-{number}"))


def _link_to_another_device(path: Path) -> None:
    """A link to another device."""
    path.unlink()
    path.symlink_to("/dev/null")


# A node is never opened, so it cannot be slow or end early.
NODE_FAULTS: dict[str, Callable[[Path], object]] = {
    "absent": Path.unlink,
    "unreadable": lambda path: path.chmod(0),
    "unreadable: a folder": FILE_FAULTS["unreadable: a folder"],
    "unreadable: a loop": FILE_FAULTS["unreadable: a loop"],
    "empty": lambda path: path.write_bytes(b""),
    "rubbish": lambda path: path.write_bytes(RUBBISH),
    "huge": _create_many,
    "hung": FILE_FAULTS["hung"],
    "lying": _link_to_another_device,
}


@parametrize_faults("/dev", NODE_FAULTS)
def test_gpus_are_found_despite_faulty_device_nodes(
    machine: HealthyMachine, fault: str, record_property: Callable[[str, object], None]
) -> None:
    for node in device_nodes(machine)[: 1 if fault == "huge" else None]:
        NODE_FAULTS[fault](node)
    run = machine.doctor(prefix=WITHOUT_CAPABILITIES if fault == "unreadable" and os.geteuid() == 0 else ())
    record_outcome(record_property, "/dev", fault, run)
    assert run.fact("gpus.0.name") == "NVIDIA H200"
