"""Fixtures that several test files share, and the table of injected faults."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import grid
from tests.support.fault_table import fault_table, faults_of, told_of, told_table
from tests.support.fixtures import cuda_libraries, stub_driver, targets

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["cuda_libraries", "stub_driver", "targets"]


def pytest_configure() -> None:
    """What a shell runs in the background ignores SIGINT, and what nohup runs SIGHUP: so would all that tests begin."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints the tables where faults were injected."""
    faults = faults_of(report for reports in terminalreporter.stats.values() for report in reports)
    if faults:
        terminalreporter.section("injected faults: how the asking ended, by function")
        for line in fault_table(faults):
            terminalreporter.line(line)
    told = told_of(report for reports in terminalreporter.stats.values() for report in reports)
    if told:
        terminalreporter.section("spoilt things: what the program answered, by thing and fault")
        for line in (*told_table(told), "", *grid(told)):
            terminalreporter.line(line)


# What runs whole programs so often that make test would take too long: make test-long runs them.
LONG = (
    "audit/",
    "eval/test_learn.py",
    "eval/test_score.py",
    "explain/test_forms.py",
    "explain/test_hard_lines.py",
    "explain/test_resemblance.py",
    "fix/",
    "fuzz/test_fuzz.py",
    "image/test_command.py",
    "image/test_check_image.py",
    "install/test_bundle.py",
    "install/test_conda.py",
    "install/test_faults.py",
    "install/test_hostile.py",
    "install/test_killed.py",
    "install/test_lock.py",
    "install/test_machine_faults.py",
    "install/test_patience.py",
    "install/test_settings.py",
    "install/test_targets.py",
    "plugin/",
    "plugins/",
    "preflight/test_command.py",
    "preflight/test_smoke.py",
    "probe/test_kernel_files.py",
    "recipes/",
    "refresh/",
    "report/test_formats.py",
    "report/test_table.py",
    "simulate/",
    "test_difference.py",
    "smoke/test_cli",
    "smoke/test_run",
    "cli/test_network.py",
    "cli/test_run.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the long lane and those of an engine before the lanes are chosen."""
    here = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(here).as_posix()
        if path.startswith(LONG):
            item.add_marker(pytest.mark.long)
        if path.startswith("image/docker/"):
            item.add_marker(pytest.mark.docker)
