"""The pytest plug-in: ``@pytest.mark.gpu(cc=">=8.0", memory=">=16GiB", count=2)``.

A test with the mark is skipped, with the doctor's reason, where the machine is not fit for it, or fails there with
``--gpu-required``. The machine is asked once a test run and only when such a test is about to run; the workers of
pytest-xdist share the answer. Nothing of gpuenv but this file is imported before.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuenv.preflight.requirement import Requirement
    from gpuenv.report.report import Report

_NAME = "gpuenv"
_SHARED = "gpuenv_shared"  # of a worker's input: the folder in which the workers share the answer
_HEADER = "gpuenv_header"  # of a worker's output: the line of the verdict
_OVER = 15.0  # seconds beyond the deadline that a worker waits for the one that asks
_POLL = 0.05
_WORDS = ("name", "os", "arch", "line")  # a bare value means "equal to", or of a name "in it"
# What the CUDA runtime, the driver and NVML say where the machine is to blame, not the program (driver_types.h and
# cuda.h of CUDA 13.0, where each is described; nvidia-ml-py 13.615.71).
_OF_THE_MACHINE = (
    *(f"cudaError{name}" for name in (
        "NoDevice", "InsufficientDriver", "DevicesUnavailable", "SystemNotReady", "SystemDriverMismatch",
        "CompatNotSupportedOnDevice", "ECCUncorrectable", "NvlinkUncorrectable", "StartupFailure",
        "InitializationError", "MpsConnectionFailed", "MpsServerNotReady", "MpsRpcFailure", "StubLibrary",
    )),
    *(f"CUDA_ERROR_{name}" for name in (
        "NO_DEVICE", "DEVICE_UNAVAILABLE", "SYSTEM_NOT_READY", "SYSTEM_DRIVER_MISMATCH", "STUB_LIBRARY",
        "COMPAT_NOT_SUPPORTED_ON_DEVICE", "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "MPS_CONNECTION_FAILED",
    )),
    "no CUDA-capable device is detected", "GPU is lost", "NVML/RM version mismatch",
)  # fmt: skip


@dataclass(slots=True)
class State:
    """What a test run knows.

    Attributes:
        mark: the mark's name.
        timeout: seconds that the machine may take to answer.
        shared: the folder that the workers share; None without workers.
        report: what the doctor said; None as long as nobody has asked.
        trouble: why it could not be asked.
        line: the verdict in one line.
        refused: whether a mark could not be understood, so that nothing will run.
        ran: marked tests that ran.
        skipped: marked tests that were skipped, whoever did it.
    """

    mark: str
    timeout: float
    shared: Path | None = None
    report: Report | None = None
    trouble: str | None = None
    line: str | None = None
    refused: bool = False
    ran: int = 0
    skipped: int = 0
    read: dict[str, tuple[Requirement, ...]] = field(default_factory=dict)


_STATE = pytest.StashKey[State]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and settings."""
    group = parser.getgroup(_NAME, "tests that need a GPU")
    group.addoption(
        "--gpu-required", action="store_true", help="Fail a GPU test that this machine cannot run, in place of a skip."
    )
    group.addoption(
        "--gpu-fail-if-all-skipped",
        action="store_true",
        help="Fail the run when there were GPU tests and every one was skipped.",
    )
    group.addoption(
        "--gpu-timeout", type=float, default=30.0, metavar="SECONDS", help="How long the machine may take to answer."
    )
    parser.addini("gpuenv_mark", "The mark of GPU tests; an empty one turns the plug-in off.", default="gpu")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    state = State(str(config.getini("gpuenv_mark")), float(config.getoption("--gpu-timeout")))
    shared = getattr(config, "workerinput", {}).get(_SHARED)
    state.shared = Path(shared) if shared else None
    config.stash[_STATE] = state
    config.pluginmanager.register(Counter(state), "gpuenv-counter")
    if state.mark:
        words = f'{state.mark}(cc=">=8.0", memory=">=16GiB", count=2, ...): needs a GPU that gpuenv calls fit'
        config.addinivalue_line("markers", words)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Gives every worker the same folder."""
    state = node.config.stash[_STATE]
    if state.shared is None and state.mark:
        state.shared = Path(tempfile.mkdtemp(prefix="gpuenv-"))
    if state.shared is not None:
        node.workerinput[_SHARED] = str(state.shared)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Takes the verdict's line from a worker that asked."""
    del error
    line = getattr(node, "workeroutput", {}).get(_HEADER)
    if line:
        node.config.stash[_STATE].line = line


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the folder that the workers shared."""
    state = config.stash.get(_STATE, None)
    if state is not None and state.shared is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(state.shared, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reads every mark that is left after deselection: a slip in one is a usage error, not a skip."""
    state = config.stash[_STATE]
    faults = []
    for item in items:
        for mark in _marks(item, state):
            try:
                _read(mark, state)
            except ValueError as error:
                faults.append(f"{item.nodeid}: {error}")
    if faults:
        state.refused = True
        raise pytest.UsageError("\n".join(dict.fromkeys(faults)))


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | None:
    """One line of the verdict, where there are GPU tests."""
    state = config.stash[_STATE]
    if config.option.collectonly or state.refused or not any(_marks(item, state) for item in items):
        return None
    _ask(state)
    return state.line


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips or fails a GPU test that this machine cannot run."""
    state = item.config.stash[_STATE]
    marks = _marks(item, state)
    if not marks:
        return
    if any(item.iter_markers("skip")):
        return  # whatever the machine is, it will not run
    reason = _reason(state, marks)
    if reason is None:
        return
    if not item.config.getoption("--gpu-required"):
        pytest.skip(reason)
    item.add_report_section("setup", f"{_NAME} doctor", _text(state))
    pytest.fail(reason, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Notes which reports are of GPU tests, and adds the doctor's to a failure that is the machine's fault."""
    outcome: Any = yield
    state = item.config.stash[_STATE]
    if not _marks(item, state):
        return
    report: pytest.TestReport = outcome.get_result()
    report.gpuenv = True  # type: ignore[attr-defined]
    if (
        call.excinfo is not None
        and report.failed
        and report.when == "call"
        and _blames_machine(str(call.excinfo.value))
    ):
        _ask(state)
        report.sections.append((f"{_NAME} doctor: this error is the machine's, not the test's", _text(state)))


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts GPU tests, since the hook that sees every report is not told of the configuration."""

    state: State

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Under pytest-xdist the reports of all workers come here."""
        if getattr(report, "gpuenv", False):
            self.state.skipped += report.skipped
            self.state.ran += report.when == "call" and not report.skipped


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the verdict on, and fails a run in which every GPU test was skipped, where that was asked for."""
    state = session.config.stash[_STATE]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_HEADER] = state.line
    elif _all_skipped(session.config) and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What became of the GPU tests."""
    state = config.stash[_STATE]
    if not state.ran + state.skipped:
        return
    if state.skipped or state.line:
        terminalreporter.section(_NAME)
        if state.line:
            terminalreporter.line(state.line)
        terminalreporter.line(f"GPU tests: {state.ran} ran, {state.skipped} skipped")
    if _all_skipped(config):
        terminalreporter.line("Every GPU test was skipped, which --gpu-fail-if-all-skipped does not allow.", red=True)


def _all_skipped(config: pytest.Config) -> bool:
    state = config.stash[_STATE]
    return bool(config.getoption("--gpu-fail-if-all-skipped")) and state.skipped > 0 and state.ran == 0


# Marks.


def _marks(item: pytest.Item, state: State) -> tuple[pytest.Mark, ...]:
    return tuple(item.iter_markers(state.mark)) if state.mark else ()


def _read(mark: pytest.Mark, state: State) -> tuple[Requirement, ...]:
    """The requirements of a mark; one that asks for nothing asks for a GPU."""
    key = repr((mark.args, sorted(mark.kwargs.items())))
    if key not in state.read:
        from gpuenv.preflight.requirement import Origin, parse_requirement  # noqa: PLC0415 - of use with a mark alone

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


# The machine.


def _reason(state: State, marks: Sequence[pytest.Mark]) -> str | None:
    """Why this machine cannot run the test; None where it can."""
    _ask(state)
    if state.report is None:
        return f"gpuenv: the machine could not be asked: {state.trouble}"
    from gpuenv.model.requirement import RequirementStatus  # noqa: PLC0415 - of use with a mark alone
    from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected  # noqa: PLC0415 - likewise

    wanted = tuple(dict.fromkeys(entry for mark in marks for entry in _read(mark, state)))
    unfit = _unfit(state.report, without_gpu=no_gpu_expected(wanted), without_cupy=no_cupy_expected(wanted))
    if unfit is not None:
        return f"gpuenv: {unfit}"
    results = evaluate(wanted, state.report.snapshot)
    violated = [f"{r.text} is required, found {r.found}" for r in results if r.status is RequirementStatus.VIOLATED]
    unknown = [f"{r.text} cannot be told: {r.missing}" for r in results if r.status is RequirementStatus.UNKNOWN]
    return f"gpuenv: {'; '.join(violated or unknown)}" if violated or unknown else None


def _unfit(report: Report, *, without_gpu: bool, without_cupy: bool) -> str | None:
    """What keeps CuPy from working here, as far as the test needs it."""
    from gpuenv.model.finding import Severity  # noqa: PLC0415 - of use with a mark alone
    from gpuenv.report.report import Status  # noqa: PLC0415 - likewise
    from gpuenv.report.verdict import verdict  # noqa: PLC0415 - likewise

    spared = (("DRV", "GPU", "CTR") if without_gpu else ()) + (("WHL503",) if without_cupy else ())
    errors = [f for f in report.findings if f.severity is Severity.ERROR and not f.code.startswith(spared)]
    if errors:
        return f"{errors[0].code} {errors[0].cause}: {errors[0].title}"
    if report.status is Status.UNKNOWN and not spared:
        return verdict(report)[1]
    return None


def _blames_machine(text: str) -> bool:
    return any(word in text for word in _OF_THE_MACHINE)


def _text(state: State) -> str:
    """The doctor's report in words."""
    if state.report is None:
        return f"The machine could not be asked: {state.trouble}"
    from gpuenv.report.prepared import harmless  # noqa: PLC0415 - of use with a mark alone
    from gpuenv.report.text import report_lines  # noqa: PLC0415 - likewise

    return "\n".join(harmless(line.text) for line in report_lines(state.report))


def _ask(state: State) -> None:
    """Asks the doctor, once a test run: the first worker asks, and the others wait for its answer."""
    if state.report is not None or state.trouble is not None:
        return
    text = _ask_or_wait(state)
    try:
        state.report = _decoded(text)
    except ValueError as error:
        state.trouble = text[-500:] or str(error)
    if state.report is not None:
        from gpuenv.report.prepared import harmless  # noqa: PLC0415 - of use with a mark alone
        from gpuenv.report.text import machine_rows  # noqa: PLC0415 - likewise
        from gpuenv.report.verdict import verdict  # noqa: PLC0415 - likewise

        word, sentence = verdict(state.report)
        gpus = ", ".join(text for label, text in machine_rows(state.report.snapshot) if label in ("GPU", "CuPy"))
        state.line = harmless(f"gpuenv: {word}: {sentence} [{gpus}]")
    else:
        state.line = f"gpuenv: the machine could not be asked: {state.trouble}"


def _decoded(text: str) -> Report:
    from gpuenv.model.codec import decode  # noqa: PLC0415 - of use with a mark alone
    from gpuenv.report.report import Report  # noqa: PLC0415 - likewise

    return decode(Report, json.loads(text))


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
    from gpuenv.probe.children import run_child  # noqa: PLC0415 - of use with a mark alone

    command = [sys.executable, "-m", "gpuenv", "doctor", "--format", "json", "--python", sys.executable]
    command += ["--timeout", str(state.timeout)]
    done = run_child(command, dict(os.environ), time.monotonic() + state.timeout + _OVER)
    return done.stdout or done.stderr or done.error or done.ending.value
