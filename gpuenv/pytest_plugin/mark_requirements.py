"""Checks whether this machine meets a mark's requirements; the doctor runs once per test run."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuenv.doctor.checks import find_check
from gpuenv.doctor.registry import Check, Component
from gpuenv.model.codec import decode
from gpuenv.model.finding import RequirementStatus, Severity
from gpuenv.model.gpus import RUNS_NO_KERNEL, is_simulated
from gpuenv.model.strings import sanitize_line
from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected
from gpuenv.preflight.requirements import KEYS, NONE, Origin, Requirement, parse_requirement
from gpuenv.probe.children import run_child
from gpuenv.probe.interpreters import module_command
from gpuenv.report.report import Report, Status, verdict
from gpuenv.report.text import machine_rows, report_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from gpuenv.pytest_plugin import RunState

_EXTRA_SECONDS = 15.0  # that a worker waits beyond the deadline for the one that runs the doctor
_POLL = 0.05
# Errors of the CUDA runtime, the driver and NVML that the machine causes, not the program (driver_types.h and
# cuda.h of CUDA 13.0, where each is described; nvidia-ml-py 13.615.71). cudaErrorInitializationError is not one: a test
# that forks after its first use of CUDA gets it on a healthy machine (CuPy in a pool: MannLabs/alphapept#404).
_MACHINE_ERRORS = (
    *(f"cudaError{name}" for name in (
        "NoDevice", "InsufficientDriver", "DevicesUnavailable", "SystemNotReady", "SystemDriverMismatch",
        "CompatNotSupportedOnDevice", "ECCUncorrectable", "NvlinkUncorrectable", "StartupFailure",
        "MpsConnectionFailed", "MpsServerNotReady", "MpsRpcFailure", "StubLibrary",
    )),
    *(f"CUDA_ERROR_{name}" for name in (
        "NO_DEVICE", "DEVICE_UNAVAILABLE", "SYSTEM_NOT_READY", "SYSTEM_DRIVER_MISMATCH", "STUB_LIBRARY",
        "COMPAT_NOT_SUPPORTED_ON_DEVICE", "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "MPS_CONNECTION_FAILED",
    )),
    "no CUDA-capable device is detected", "GPU is lost", "NVML/RM version mismatch",
)  # fmt: skip

# After these every call in the process fails: driver_types.h of CUDA 13.5 states it for each, and cuda.h for the
# driver's, that the context can no longer be used.
_CONTEXT_ERRORS = (
    *(f"cudaError{name}" for name in (
        "IllegalAddress", "LaunchTimeout", "Assert", "HardwareStackError", "IllegalInstruction", "MisalignedAddress",
        "InvalidAddressSpace", "InvalidPc", "LaunchFailure", "TensorMemoryLeak", "Contained",
    )),
    *(f"CUDA_ERROR_{name}" for name in (
        "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION",
        "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED", "TENSOR_MEMORY_LEAK", "CONTAINED",
    )),
)  # fmt: skip


def skip_reason(state: RunState, requirements: Sequence[Requirement]) -> str | None:
    """Why this machine cannot run a test with these requirements; None if it can."""
    run_doctor_once(state)
    if state.report is None:
        return _doctor_failed(state)

    without_gpu = no_gpu_expected(requirements)
    unfit = _unfit(state.report, without_gpu=without_gpu, without_cupy=no_cupy_expected(requirements))
    reason = unfit or _unmet(requirements, state.report)
    if reason is None and not without_gpu and is_simulated(os.environ):
        reason = RUNS_NO_KERNEL
    return None if reason is None else sanitize_line(f"gpuenv: {reason}")


def _unmet(requirements: Sequence[Requirement], report: Report) -> str | None:
    results = evaluate(requirements, report.snapshot)
    violated = [f"{r.text} is required, found {r.found}" for r in results if r.status is RequirementStatus.VIOLATED]
    unknown = [f"{r.text} is undetermined: {r.missing}" for r in results if r.status is RequirementStatus.UNKNOWN]
    return "; ".join(violated or unknown) or None


def _unfit(report: Report, *, without_gpu: bool, without_cupy: bool) -> str | None:
    """The error that keeps CuPy from working, unless the test needs neither the GPU nor CuPy that it concerns."""

    def is_irrelevant(check: Check | None) -> bool:
        return check is not None and (
            (without_gpu and check.concerns_gpu) or (without_cupy and check.missing is Component.CUPY)
        )

    errors = [f for f in report.findings if f.severity is Severity.ERROR and not is_irrelevant(find_check(f.code))]
    if errors:
        return f"{errors[0].code} {errors[0].cause}: {errors[0].title}"
    if report.status is Status.UNKNOWN and not (without_gpu or without_cupy):
        return verdict(report)[1]
    return None


def blames_machine(text: str) -> bool:
    """Whether an error text names an error that the machine causes."""
    return any(error in text for error in _MACHINE_ERRORS)


def context_lost(state: RunState, test: str, text: str) -> str | None:
    """A note that an earlier test in this process lost the CUDA context; None if this test is the first, or did not."""
    error = next((error for error in _CONTEXT_ERRORS if error in text), None)
    if error is None:
        return None
    if state.lost_context is None:
        state.lost_context = test
        return None
    return (
        f"{state.lost_context} was the first test with such an error in this process. After {error} every later use of"
        " CUDA in the process fails: fix that test first, and run this one alone to see its own result."
    )


def report_text(state: RunState, test: str) -> str:
    """The doctor's report as text for the first test that fails, and the name of that test for the others."""
    if state.reported_with not in (None, test):
        return f"The report is that of {state.reported_with}."
    state.reported_with = test
    if state.report is None:
        return _doctor_failed(state)
    return "\n".join(sanitize_line(line.text) for line in report_lines(state.report))


def run_doctor_once(state: RunState) -> None:
    """Runs the doctor once per test run: the first worker runs it, and the others wait for its report."""
    if state.report is not None or state.trouble is not None:
        return
    text = _run_or_wait(state)
    try:
        state.report = decode(Report, json.loads(text))
    except ValueError as error:
        state.trouble = text[-500:] or str(error)
    if state.report is not None:
        status, sentence = verdict(state.report)
        rows = machine_rows(state.report.snapshot)
        facts = ", ".join(f"{row.label} {row.text}" for row in rows if row.label in ("GPU", "CuPy"))
        state.line = sanitize_line(f"gpuenv: {status}: {sentence} [{facts}]")
    else:
        state.line = _doctor_failed(state)


def _doctor_failed(state: RunState) -> str:
    """Several lines, as the doctor printed them."""
    return "\n".join(map(sanitize_line, f"gpuenv: the doctor failed: {state.trouble}".split("\n")))


def _run_or_wait(state: RunState) -> str:
    if state.shared is None:
        return _doctor(state)
    path = state.shared / "report.json"
    try:
        os.close(os.open(state.shared / "started", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return _await_report(path, state) or _doctor(state)
    except OSError:  # a worker on another machine
        return _doctor(state)
    text = _doctor(state)
    part = path.with_suffix(".part")
    with suppress(OSError):  # a full disk: the others run the doctor themselves
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    return text


def _await_report(path: Path, state: RunState) -> str | None:
    until = time.monotonic() + state.timeout + _EXTRA_SECONDS
    while time.monotonic() < until:
        if path.exists():
            return path.read_text(encoding="utf-8")
        time.sleep(_POLL)
    return None


def _doctor(state: RunState) -> str:
    """Runs the doctor on this interpreter in a child; returns its report or, failing that, its error output."""
    command = [*module_command(sys.executable, "gpuenv"), "doctor", "--format", "json", "--python", sys.executable]
    command += ["--timeout", str(state.timeout)]
    done = run_child(command, dict(os.environ), time.monotonic() + state.timeout + _EXTRA_SECONDS)
    return done.stdout or done.stderr or done.error or done.ending.value


def read_mark(mark: pytest.Mark, state: RunState) -> tuple[Requirement, ...]:
    """The requirements of a mark; a mark without arguments requires a GPU.

    Raises:
        ValueError: for an invalid argument.
    """
    key = repr((mark.args, sorted(mark.kwargs.items())))
    if key not in state.requirements:
        if mark.args:
            raise ValueError(f'@pytest.mark.{mark.name} takes no {mark.args[0]!r}; write cc=">=8.0" or count=2')
        texts = [_requirement(name, value) for name, value in mark.kwargs.items()]
        if not any(text.startswith("gpu") for text in texts):
            texts.insert(0, "gpu>=1")
        origin = Origin(f"@pytest.mark.{mark.name}")
        state.requirements[key] = tuple(parse_requirement(text, origin) for text in texts)
    return state.requirements[key]


def _requirement(name: str, value: object) -> str:
    """``cc=">=8.0"`` is ``cc>=8.0``; ``nvlink=True`` is ``nvlink==on``; a bare value gets its key's usual operator."""
    key = "gpu" if name == "count" else name.replace("_", "-")
    if isinstance(value, bool):
        return f"{key}=={'on' if value else 'off'}"
    text = str(value).strip()
    if text[:1] in "<>=!~":
        return f"{key}{text}"
    if text.lower() == NONE:
        return f"{key}=={text}"
    return f"{key}{KEYS[key].value_type.operators[0] if key in KEYS else '>='}{text}"
