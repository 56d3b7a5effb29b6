"""The pytest plug-in: ``@pytest.mark.gpu(cc=">=8.0", memory=">=16GiB", count=2)``.

A test with the mark is skipped, with the doctor's reason, where the machine is not fit for it, or fails there with
``--gpu-required``; so it is on a simulated machine, whose GPUs run no kernel. The machine is asked once a test run and
only when such a test is about to run; the workers of pytest-xdist share the answer. Nothing of gpuenv but this file is
imported before.
Marks are read in ``marks.py``, the machine is asked in ``machine.py``.
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

    from gpuenv.preflight.requirement import Requirement
    from gpuenv.report.report import Report

_NAME = "gpuenv"
_SHARED = "gpuenv_shared"  # of a worker's input: the folder in which the workers share the answer
_HEADER = "gpuenv_header"  # of a worker's output: the line of the verdict


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
        read: the requirements of the marks that were read, by their arguments.
        lost: the test that was the first to lose the CUDA context of this process.
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
    lost: str | None = None


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
        "--gpu-timeout", type=_seconds, default=30.0, metavar="SECONDS", help="How long the machine may take to answer."
    )
    parser.addini("gpuenv_mark", "The mark of GPU tests; an empty one turns the plug-in off.", default="gpu")


def _seconds(text: str) -> float:
    """What the doctor takes for --timeout: with anything else it would refuse, and every test be skipped."""
    import argparse  # noqa: PLC0415 - of use with the option alone

    from gpuenv.probe.limits import LONGEST_TIMEOUT, SHORTEST_TIMEOUT  # noqa: PLC0415 - likewise

    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:
        return seconds
    raise argparse.ArgumentTypeError(f"expected seconds from {SHORTEST_TIMEOUT:g} to {LONGEST_TIMEOUT:g}, found {text}")


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
            from gpuenv.pytest_plugin.marks import read  # noqa: PLC0415 - of use with a mark alone

            try:
                read(mark, state)
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
    from gpuenv.pytest_plugin.machine import ask  # noqa: PLC0415 - of use with a mark alone

    ask(state)
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
    from gpuenv.pytest_plugin.machine import reason_against, report_text  # noqa: PLC0415 - of use with a mark alone

    reason = reason_against(state, marks)
    if reason is None:
        return
    if not item.config.getoption("--gpu-required"):
        pytest.skip(reason)
    item.add_report_section("setup", f"{_NAME} doctor", report_text(state))
    pytest.fail(reason, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Notes which reports are of GPU tests, and adds what is known to a failure that is not the test's own fault."""
    outcome: Any = yield
    state = item.config.stash[_STATE]
    if not _marks(item, state):
        return
    report: pytest.TestReport = outcome.get_result()
    report.gpuenv = True  # type: ignore[attr-defined]
    if call.excinfo is None or not report.failed or report.when != "call":
        return
    from gpuenv.pytest_plugin.machine import ask, blames_machine, context_lost, report_text  # noqa: PLC0415 - likewise

    words = str(call.excinfo.value)
    earlier = context_lost(state, item.nodeid, words)
    if earlier is not None:
        report.sections.append((f"{_NAME}: the CUDA context was lost before this test", earlier))
    if blames_machine(words):
        ask(state)
        report.sections.append((f"{_NAME} doctor: this error is the machine's, not the test's", report_text(state)))


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


def _marks(item: pytest.Item, state: State) -> tuple[pytest.Mark, ...]:
    return tuple(item.iter_markers(state.mark)) if state.mark else ()
