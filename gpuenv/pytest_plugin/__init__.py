"""The pytest plug-in: ``@pytest.mark.gpuenv(cc=">=8.0", memory=">=16GiB", count=2)``.

A marked test is skipped with the doctor's reason on a machine that cannot run it, or fails with ``--gpu-required``. A
simulated machine cannot run it either: its GPUs run no kernels. Tests without the mark are not affected. The doctor
runs once per test run, only if a marked test is about to run; the workers of pytest-xdist share its report. Until then
nothing else of gpuenv is imported.

``mark_requirements.py`` reads marks and runs the doctor. The plug-in works with pytest 7.4 and newer.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuenv.preflight.requirements import Requirement
    from gpuenv.report.report import Report

_NAME = "gpuenv"
_SHARED = "gpuenv_shared"  # key of a worker's input: the folder in which the workers share the report
_HEADER = "gpuenv_header"  # key of a worker's output: the verdict's line


@dataclass(slots=True)
class RunState:
    """The state of one test run.

    Attributes:
        mark: the name of the mark; empty if the plug-in is off.
        timeout: the doctor's deadline in seconds.
        shared: the folder that the workers share; None without workers.
        report: the doctor's report; None before it has run.
        trouble: why there is no report.
        line: the verdict in one line.
        ran: the number of marked tests that ran.
        skipped: the number of marked tests that were skipped, for any reason.
        requirements: a cache of each mark's requirements, by its arguments.
        lost_context: the first test that lost this process's CUDA context.
        reported_with: the first test that failed with the doctor's report in this process.
    """

    mark: str
    timeout: float
    shared: Path | None = None
    report: Report | None = None
    trouble: str | None = None
    line: str | None = None
    ran: int = 0
    skipped: int = 0
    requirements: dict[str, tuple[Requirement, ...]] = field(default_factory=dict)
    lost_context: str | None = None
    reported_with: str | None = None


_STATE = pytest.StashKey[RunState]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options and the setting."""
    group = parser.getgroup(_NAME, "tests that need a GPU")
    group.addoption(
        "--gpu-required",
        action="store_true",
        help="Fail GPU tests that this machine cannot run, rather than skip them.",
    )
    group.addoption(
        "--gpu-fail-if-all-skipped",
        action="store_true",
        help="Fail the run if it had GPU tests and all of them were skipped.",
    )
    group.addoption(
        "--gpu-timeout", type=_seconds, default=30.0, metavar="SECONDS", help="Deadline for probing this machine."
    )
    parser.addini("gpuenv_mark", "The mark of GPU tests; empty turns the plug-in off.", default=_NAME)


def _seconds(text: str) -> float:
    """Parses seconds that the doctor accepts for --timeout; with others it would fail, and every test be skipped."""
    import argparse  # noqa: PLC0415 - needed only for the option

    from gpuenv.probe.request import LONGEST_TIMEOUT, SHORTEST_TIMEOUT  # noqa: PLC0415 - needed only for the option

    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:
        return seconds
    raise argparse.ArgumentTypeError(f"expected seconds from {SHORTEST_TIMEOUT:g} to {LONGEST_TIMEOUT:g}, found {text}")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    state = RunState(str(config.getini("gpuenv_mark")), float(config.getoption("--gpu-timeout")))
    shared = getattr(config, "workerinput", {}).get(_SHARED)
    state.shared = Path(shared) if shared else None
    config.stash[_STATE] = state
    config.pluginmanager.register(Counter(state), "gpuenv-counter")
    if state.mark:
        description = f'{state.mark}(cc=">=8.0", memory=">=16GiB", count=2, ...): needs a GPU with these properties'
        config.addinivalue_line("markers", description)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Passes the same folder to every worker."""
    state = node.config.stash[_STATE]
    if state.shared is None and state.mark:
        state.shared = Path(tempfile.mkdtemp(prefix="gpuenv-"))
    if state.shared is not None:
        node.workerinput[_SHARED] = str(state.shared)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401 - a worker of pytest-xdist
    """Takes the verdict's line from a worker that has it."""
    del error
    line = getattr(node, "workeroutput", {}).get(_HEADER)
    if line:
        node.config.stash[_STATE].line = line


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the workers' shared folder."""
    state = config.stash.get(_STATE, None)
    if state is not None and state.shared is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(state.shared, ignore_errors=True)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | None:
    """The verdict in one line, if there are marked tests."""
    state = config.stash[_STATE]
    if config.option.collectonly or not any(_marks(item, state) for item in items):
        return None
    from gpuenv.pytest_plugin.mark_requirements import run_doctor_once  # noqa: PLC0415 - needed only for marked tests

    run_doctor_once(state)
    return state.line


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips or fails a marked test that this machine cannot run; fails it if the mark has wrong arguments."""
    state = item.config.stash[_STATE]
    marks = _marks(item, state)
    if not marks or any(item.iter_markers("skip")):
        return
    from gpuenv.pytest_plugin.mark_requirements import read_mark, report_text, skip_reason  # noqa: PLC0415 - needed only for marked tests

    try:
        requirements = tuple(dict.fromkeys(entry for mark in marks for entry in read_mark(mark, state)))
    except ValueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    reason = skip_reason(state, requirements)
    if reason is None:
        return
    if not item.config.getoption("--gpu-required"):
        pytest.skip(reason)
    item.add_report_section("setup", f"{_NAME} doctor", report_text(state, item.nodeid))
    pytest.fail(reason, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Labels the reports of marked tests, and adds the doctor's report to failures caused by the machine."""
    outcome: Any = yield
    state = item.config.stash[_STATE]
    if not _marks(item, state):
        return
    report: pytest.TestReport = outcome.get_result()
    report.gpuenv = True  # type: ignore[attr-defined]
    if call.excinfo is None or not report.failed or report.when != "call":
        return
    from gpuenv.pytest_plugin.mark_requirements import blames_machine, context_lost, report_text, run_doctor_once  # noqa: PLC0415 - needed only for marked tests

    message = str(call.excinfo.value)
    earlier = context_lost(state, item.nodeid, message)
    if earlier is not None:
        report.sections.append((f"{_NAME}: the CUDA context was lost before this test", earlier))
    if blames_machine(message):
        run_doctor_once(state)
        title = f"{_NAME} doctor: the machine caused this error, not the test"
        report.sections.append((title, report_text(state, item.nodeid)))


class Counter:
    """Counts marked tests. A plug-in object, since the hook for reports does not receive the configuration.

    Not a dataclass: before 9.1 pytest puts plug-ins into a set, and a dataclass that compares by value has no hash.
    """

    def __init__(self, state: RunState) -> None:
        self.state = state

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts one report; under pytest-xdist the controller receives those of all workers."""
        if getattr(report, "gpuenv", False):
            # pytest reports an expected failure as skipped, with the attribute wasxfail.
            has_run = report.when == "call" and (not report.skipped or hasattr(report, "wasxfail"))
            self.state.ran += has_run
            self.state.skipped += report.skipped and not has_run


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Passes the verdict to the controller, and applies --gpu-fail-if-all-skipped."""
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
    """Prints the verdict and how many marked tests ran."""
    state = config.stash[_STATE]
    if not state.ran + state.skipped:
        return
    if state.skipped or state.line:
        terminalreporter.section(_NAME)
        if state.line:
            terminalreporter.line(state.line)
        terminalreporter.line(f"GPU tests: {state.ran} ran, {state.skipped} skipped")
    if _all_skipped(config):
        terminalreporter.line("All GPU tests were skipped, which --gpu-fail-if-all-skipped forbids.", red=True)


def _all_skipped(config: pytest.Config) -> bool:
    state = config.stash[_STATE]
    return bool(config.getoption("--gpu-fail-if-all-skipped")) and state.skipped > 0 and state.ran == 0


def _marks(item: pytest.Item, state: RunState) -> tuple[pytest.Mark, ...]:
    return tuple(item.iter_markers(state.mark)) if state.mark else ()
