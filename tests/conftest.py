"""Fixtures that several test files share, and the table of injected faults."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import grid
from tests.support.fault_table import answer_table, answers_of, fault_table, faults_of
from tests.support.fixtures import cuda_libraries, stub_driver, targets

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["cuda_libraries", "stub_driver", "targets"]


def pytest_configure() -> None:
    """Restores SIGINT and SIGHUP, which a background shell or nohup ignores, for the processes that tests start."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints the tables of injected faults."""
    faults = faults_of(report for reports in terminalreporter.stats.values() for report in reports)
    if faults:
        terminalreporter.section("injected faults: outcomes by function")
        for line in fault_table(faults):
            terminalreporter.line(line)
    answers = answers_of(report for reports in terminalreporter.stats.values() for report in reports)
    if answers:
        terminalreporter.section("faulty external things: outcomes by thing and fault")
        for line in (*answer_table(answers), "", *grid(answers)):
            terminalreporter.line(line)


# Tests that run many whole programs: make test-long runs them, make test does not.
LONG = (
    "audit/",
    "cli/test_completion.py",
    "cli/test_forged_lines.py",
    "cli/test_invalid_files.py",
    "cli/test_invalid_matrices.py",
    "cli/test_left_behind.py",
    "cli/test_matrix_update.py",
    "cli/test_network.py",
    "cli/test_run.py",
    "cli/test_terminal.py",
    "eval/test_learn.py",
    "eval/test_score.py",
    "explain/test_classifier.py",
    "explain/test_healthy_texts.py",
    "explain/test_scan.py",
    "explain/test_slow_lines.py",
    "explain/test_text_forms.py",
    "fix/",
    "fleet/test_collect.py",
    "fleet/test_report_dask.py",
    "fuzz/test_fuzz.py",
    "image/test_check_image.py",
    "image/test_command.py",
    "image/test_contexts.py",
    "install/test_bundle.py",
    "install/test_conda.py",
    "install/test_conda_full_disk.py",
    "install/test_conda_offline.py",
    "install/test_failed_installs.py",
    "install/test_faults.py",
    "install/test_hostile_input.py",
    "install/test_killed_installs.py",
    "install/test_lock.py",
    "install/test_machine_faults.py",
    "install/test_settings.py",
    "install/test_targets.py",
    "install/test_time_limit.py",
    "matrix/test_canonical.py",
    "matrix/test_cost.py",
    "paste/test_repeated_outputs.py",
    "plugin/",
    "plugins/",
    "preflight/test_command.py",
    "preflight/test_smoke.py",
    "probe/test_kernel_files.py",
    "recipes/",
    "refresh/",
    "report/test_formats.py",
    "report/test_matrix_page.py",
    "report/test_table.py",
    "simulate/",
    "smoke/test_cli",
    "smoke/test_oracles.py",
    "smoke/test_run",
    "test_diff_of_machines.py",
    "test_notebook.py",
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
