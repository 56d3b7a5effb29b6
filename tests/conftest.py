"""Fixtures that several test files share, and the table of injected faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
