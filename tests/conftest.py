"""Fixtures that several test files share, and the table of injected faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.fault_table import fault_table, faults_of
from tests.support.fixtures import cuda_libraries, stub_driver, targets

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["cuda_libraries", "stub_driver", "targets"]


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints the table where faults were injected."""
    faults = faults_of(report for reports in terminalreporter.stats.values() for report in reports)
    if faults:
        terminalreporter.section("injected faults: how the asking ended, by function")
        for line in fault_table(faults):
            terminalreporter.line(line)


# What runs whole programs so often that make test would take too long: make test-long runs them.
LONG = (
    "eval/test_score.py",
    "install/test_faults.py",
    "install/test_hostile.py",
    "install/test_killed.py",
    "install/test_lock.py",
    "plugin/",
    "preflight/test_command.py",
    "probe/test_kernel_files.py",
    "recipes/",
    "refresh/",
    "report/test_formats.py",
    "simulate/",
    "test_difference.py",
    "smoke/test_cli.py",
    "smoke/test_run.py",
    "cli/test_run.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the long lane before the lanes are chosen."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(LONG):
            item.add_marker(pytest.mark.long)
