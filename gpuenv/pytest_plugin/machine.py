"""What a mark requires, and whether this machine has it: the doctor runs once a test run."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuenv.doctor.registry import Absence, Check, find_check
from gpuenv.model.codec import decode
from gpuenv.model.finding import RequirementStatus, Severity
from gpuenv.model.gpus import RUNS_NO_KERNEL, is_simulated
from gpuenv.model.strings import sanitize
from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected
from gpuenv.preflight.requirement import Origin, Requirement, parse_requirement
from gpuenv.probe.children import run_child
from gpuenv.report.report import Report, Status, verdict
from gpuenv.report.text import machine_rows, report_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from gpuenv.pytest_plugin import State

_WORDS = ("name", "os", "arch", "line")  # a bare value means "equal to", or of a name "in it"
_OVER = 15.0  # seconds beyond the deadline that a worker waits for the one that asks
_POLL = 0.05
# What the CUDA runtime, the driver and NVML say where the machine is to blame, not the program (driver_types.h and
# cuda.h of CUDA 13.0, where each is described; nvidia-ml-py 13.615.71). cudaErrorInitializationError is none of them: a
# test that forks after its first use of CUDA meets it on a sound machine (CuPy in a pool: MannLabs/alphapept#404).
_OF_THE_MACHINE = (
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

# After these every call fails in the same way until the process has ended: driver_types.h of CUDA 13.5 says so of each,
# and cuda.h, of those of the driver, that the context is of no more use.
_OF_THE_CONTEXT = (
    *(f"cudaError{name}" for name in (
        "IllegalAddress", "LaunchTimeout", "Assert", "HardwareStackError", "IllegalInstruction", "MisalignedAddress",
        "InvalidAddressSpace", "InvalidPc", "LaunchFailure", "TensorMemoryLeak", "Contained",
    )),
    *(f"CUDA_ERROR_{name}" for name in (
        "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION",
        "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED", "TENSOR_MEMORY_LEAK", "CONTAINED",
    )),
)  # fmt: skip


def reason_against(state: State, requirements: Sequence[Requirement]) -> str | None:
    """Why this machine cannot run a test with these requirements; None if it can."""
    ask(state)
    if state.report is None:
        return f"gpuenv: the machine could not be asked: {state.trouble}"

    without_gpu = no_gpu_expected(requirements)
    unfit = _unfit(state.report, without_gpu=without_gpu, without_cupy=no_cupy_expected(requirements))
    reason = unfit or _unmet(requirements, state.report)
    if reason is None and not without_gpu and is_simulated(os.environ):
        reason = RUNS_NO_KERNEL
    return None if reason is None else f"gpuenv: {reason}"


def _unmet(wanted: Sequence[Requirement], report: Report) -> str | None:
    results = evaluate(wanted, report.snapshot)
    violated = [f"{r.text} is required, found {r.found}" for r in results if r.status is RequirementStatus.VIOLATED]
    unknown = [f"{r.text} cannot be told: {r.missing}" for r in results if r.status is RequirementStatus.UNKNOWN]
    return "; ".join(violated or unknown) or None


def _unfit(report: Report, *, without_gpu: bool, without_cupy: bool) -> str | None:
    """What keeps CuPy from working here, as far as the test needs it."""

    def is_spared(check: Check | None) -> bool:
        return check is not None and (
            (without_gpu and check.concerns_gpu) or (without_cupy and check.absence is Absence.CUPY)
        )

    errors = [f for f in report.findings if f.severity is Severity.ERROR and not is_spared(find_check(f.code))]
    if errors:
        return f"{errors[0].code} {errors[0].cause}: {errors[0].title}"
    if report.status is Status.UNKNOWN and not (without_gpu or without_cupy):
        return verdict(report)[1]
    return None


def blames_machine(text: str) -> bool:
    """Whether an error text says that the machine is at fault, not the test."""
    return any(word in text for word in _OF_THE_MACHINE)


def context_lost(state: State, test: str, text: str) -> str | None:
    """What is to be told of a test that fails because one before it in this process has lost the CUDA context.

    Args:
        state: what this test run knows; which test was the first is noted there.
        test: the name of the test that fails.
        text: its error.
    """
    word = next((word for word in _OF_THE_CONTEXT if word in text), None)
    if word is None:
        return None
    if state.lost is None:
        state.lost = test
        return None
    return (
        f"{state.lost} was the first to fail so in this process. After {word} every use of CUDA in the process fails,"
        " until it ends: look at that test first, and run this one alone to see what it does by itself."
    )


def report_text(state: State) -> str:
    """The doctor's report in words."""
    if state.report is None:
        return f"The machine could not be asked: {state.trouble}"
    return "\n".join(sanitize(line.text) for line in report_lines(state.report))


def ask(state: State) -> None:
    """Asks the doctor, once a test run: the first worker asks, and the others wait for its answer."""
    if state.report is not None or state.trouble is not None:
        return
    text = _ask_or_wait(state)
    try:
        state.report = decode(Report, json.loads(text))
    except ValueError as error:
        state.trouble = text[-500:] or str(error)
    if state.report is not None:
        word, sentence = verdict(state.report)
        rows = machine_rows(state.report.snapshot)
        told = ", ".join(f"{label} {text}" for label, text in rows if label in ("GPU", "CuPy"))
        state.line = sanitize(f"gpuenv: {word}: {sentence} [{told}]")
    else:
        state.line = f"gpuenv: the machine could not be asked: {state.trouble}"


def _ask_or_wait(state: State) -> str:
    if state.shared is None:
        return _doctor(state)
    answer = state.shared / "report.json"
    try:
        os.close(os.open(state.shared / "asking", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return _awaited(answer, state) or _doctor(state)
    except OSError:  # a worker on another machine
        return _doctor(state)
    text = _doctor(state)
    part = answer.with_suffix(".part")
    with suppress(OSError):  # a full disk: the others ask for themselves
        part.write_text(text, encoding="utf-8")
        part.replace(answer)
    return text


def _awaited(answer: Path, state: State) -> str | None:
    until = time.monotonic() + state.timeout + _OVER
    while time.monotonic() < until:
        if answer.exists():
            return answer.read_text(encoding="utf-8")
        time.sleep(_POLL)
    return None


def _doctor(state: State) -> str:
    """The doctor's report on this interpreter, in a process of its own; what it complains where there is none."""
    command = [sys.executable, "-m", "gpuenv", "doctor", "--format", "json", "--python", sys.executable]
    command += ["--timeout", str(state.timeout)]
    done = run_child(command, dict(os.environ), time.monotonic() + state.timeout + _OVER)
    return done.stdout or done.stderr or done.error or done.ending.value


def read(mark: pytest.Mark, state: State) -> tuple[Requirement, ...]:
    """The requirements of a mark; one that asks for nothing asks for a GPU.

    Raises:
        ValueError: for what is no requirement.
    """
    key = repr((mark.args, sorted(mark.kwargs.items())))
    if key not in state.read:
        if mark.args:
            raise ValueError(f'@pytest.mark.{mark.name} takes no {mark.args[0]!r}; write it as cc=">=8.0" or count=2')
        texts = [_requirement(name, value) for name, value in mark.kwargs.items()]
        if not any(text.startswith("gpu") for text in texts):
            texts.insert(0, "gpu>=1")
        origin = Origin(f"@pytest.mark.{mark.name}")
        state.read[key] = tuple(parse_requirement(text, origin) for text in texts)
    return state.read[key]


def _requirement(name: str, value: object) -> str:
    """``cc=">=8.0"`` and ``cc="8.0"`` are ``cc>=8.0``; ``count=2`` is ``gpu>=2``; ``nvlink=True`` is ``nvlink==on``."""
    key = "gpu" if name == "count" else name.replace("_", "-")
    if isinstance(value, bool):
        return f"{key}=={'on' if value else 'off'}"
    text = str(value).strip()
    if text[:1] in "<>=!~":
        return f"{key}{text}"
    if text.lower() in ("on", "off", "yes", "no", "true", "false", "none"):
        return f"{key}=={text}"
    return f"{key}{('~=' if key == 'name' else '==') if key in _WORDS else '>='}{text}"
