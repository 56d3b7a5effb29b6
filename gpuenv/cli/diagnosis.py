"""Steps shared by doctor and preflight: configuration, suppressions, checks of plug-ins, and the report."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.clock import today
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, get_matrix, probing
from gpuenv.model.errors import GpuenvError
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import GpuTestRequest
    from gpuenv.doctor.diagnose import Diagnosis, DiagnosisOptions
    from gpuenv.model.finding import Suppression
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.plugins.discovery import Plugin
    from gpuenv.preflight.config import Config, FailOn
    from gpuenv.report.report import Report


def read_settings(path: Path | None, *, no_config: bool) -> Config:
    """Reads the named configuration file, or the nearest one.

    Raises:
        CommandError: when it cannot be read or is invalid, with every error.
    """
    from gpuenv.preflight.config import Config, ConfigError, find_config, load_config

    if no_config:
        if path is not None:
            raise CommandError(ExitCode.USAGE, "--config and --no-config exclude each other")
        return Config()
    try:
        if path is not None:
            return load_config(path)
        folder = Path.cwd()
        found = find_config(folder, announce)
        if found is None:
            return Config()
        name = found.path.name if found.path.parent == folder else str(found.path)
        return load_config(found.path, name, found.raw)
    except ConfigError as error:
        remedy = None if error.unread else "gpuenv preflight --list-requirements shows the grammar"
        raise CommandError(ExitCode.USAGE, str(error), remedy) from error
    except OSError as error:  # the working folder was removed
        remedy = "--no-config looks for no configuration file"
        raise CommandError(ExitCode.USAGE, f"the working folder: {error.strerror or error}", remedy) from error


def suppressions_of(settings: Config) -> tuple[Suppression, ...]:
    """The suppressions of the configuration; announces expired ones.

    Raises:
        CommandError: for an unknown code, with file, line and the nearest known code.
    """
    if not settings.suppressions:
        return ()
    codes = known_codes()
    _raise_unknown(
        f"{entry.source}: allow: there is no check {entry.code}{_nearest(entry.code, codes)}"
        for entry in settings.suppressions
        if entry.code not in codes
    )
    for entry in settings.suppressions:
        if entry.has_expired(today()):
            announce(f"{entry.source}: the suppression of {entry.code} expired on {entry.expires} and is ignored")
    return settings.suppressions


def fail_on_of(entries: Sequence[FailOn]) -> tuple[str, ...]:
    """The names as ``DiagnosisOptions`` has them.

    Raises:
        CommandError: for a name that is neither ``warning``, nor a code, nor a cause, with the nearest one.
    """
    if not entries:
        return ()
    from gpuenv.model.causes import Cause
    from gpuenv.model.finding import Severity

    spellings = (Severity.WARNING.value, *known_codes(), *(cause.value for cause in Cause))
    known = {name.lower(): name for name in spellings}
    _raise_unknown(
        f"{entry.source}: expected warning, the code of a check or a cause, found {entry.name}"
        f"{_nearest(entry.name, spellings)}"
        for entry in entries
        if entry.name.strip().lower() not in known
    )
    return tuple(known[entry.name.strip().lower()] for entry in entries)


def _nearest(name: str, known: Sequence[str]) -> str:
    import difflib

    matches = difflib.get_close_matches(name, known, 9)
    swapped = [other for other in matches if sorted(other) == sorted(name)]  # GPU260 for GPU206
    return f"; did you mean {(swapped or matches)[0]}?" if matches else ""


def _raise_unknown(errors: Iterable[str]) -> None:
    if lines := tuple(errors):
        raise CommandError(ExitCode.USAGE, Lines(lines), "gpuenv doctor --list names the checks and causes")


@cache
def plugins() -> tuple[Plugin, ...]:
    """The checks of plug-ins in this environment."""
    from gpuenv.plugins.discovery import find_plugins

    return find_plugins(_own_codes)


def _own_codes() -> tuple[str, ...]:
    from gpuenv.doctor.checks import all_checks

    return tuple(check.code for check in all_checks())


def known_codes() -> tuple[str, ...]:
    """The codes of all checks: gpuenv's own, then those of plug-ins."""
    return (*_own_codes(), *(plugin.code for plugin in plugins()))


def make_diagnosis_report(
    source: MachineSource,
    matrix: Path | None,
    options_of: Callable[[Snapshot], DiagnosisOptions],
    started: float | None = None,
    gpu_tests: GpuTestRequest | None = None,
) -> Report:
    """Probes the machine and diagnoses it, with the options that ``options_of`` returns for its snapshot.

    ``started`` is when the command began, in seconds of the monotonic clock; now by default.

    Raises:
        CommandError: when the machine or the matrix cannot be read, or GPU tests are requested for another machine.
    """
    probing_since = time.monotonic()
    address = configured_docs()
    if gpu_tests is not None:
        from gpuenv.cli.gpu_tests import check_source

        check_source(source, gpu_tests)
    with probing(source) as finish:
        from gpuenv.doctor.diagnose import diagnose  # imports overlap with probing
        from gpuenv.matrix.resolve import resolve
        from gpuenv.report.report import make_report

        rows = get_matrix(matrix)
        found = plugins()
        snapshot = finish(rows)
    resolution = resolve(snapshot, rows)
    options = options_of(snapshot)._replace(python=source.named_target)
    smoke = None
    if gpu_tests is not None:
        from gpuenv.cli.gpu_tests import run_report_tests

        smoke = run_report_tests(gpu_tests, source, snapshot, rows, probing_since, no_gpu=options.no_gpu)
    diagnosis = diagnose(snapshot, rows, resolution, time.monotonic, options, smoke)
    if found:
        diagnosis = _with_plugins(diagnosis, found, snapshot, options, source.timeout)
    if source.paste is not None:
        from gpuenv.cli.pastes import pasted_text
        from gpuenv.explain.pasted_error import with_pasted_error

        diagnosis = with_pasted_error(diagnosis, snapshot, pasted_text(source.paste))
    begun = probing_since if started is None else started
    is_own = source.snapshot is None and source.paste is None and not source.no_probe
    report = make_report(diagnosis, snapshot, time.monotonic() - begun, options, smoke, address)
    return with_job(report, is_own=is_own)


def configured_docs() -> str | None:
    """The address of the documentation site; None where none is configured.

    Raises:
        CommandError: when it is invalid.
    """
    from gpuenv.report.docs_site import docs_address

    with usage_errors(GpuenvError):
        return docs_address(os.environ)


def with_job(report: Report, *, is_own: bool) -> Report:
    """The report with the jobs in which gpuenv runs and, if it probed this machine, the machine's name."""
    from gpuenv.report.job import find_jobs, host_names

    names = host_names(os.environ, platform.node()) if is_own else ()
    return report._replace(host_name=next(iter(names), None), jobs=find_jobs(os.environ))


def _with_plugins(
    diagnosis: Diagnosis, found: Sequence[Plugin], snapshot: Snapshot, options: DiagnosisOptions, seconds: float
) -> Diagnosis:
    """The diagnosis with the findings of plug-ins, which may take ``seconds``."""
    from gpuenv.doctor.diagnose import add_plugin_findings, excluded_run
    from gpuenv.plugins.runner import MOST_SECONDS, run_plugins

    enabled = [plugin for plugin in found if plugin.code not in options.excluded]
    results = run_plugins(enabled, snapshot, os.environ, min(seconds, MOST_SECONDS))
    runs = [entry.run for entry in results] + [excluded_run(p.code) for p in found if p.code in options.excluded]
    return add_plugin_findings(diagnosis, [finding for entry in results for finding in entry.findings], runs, options)


def show_phases(snapshot: Snapshot) -> None:
    """Prints timings to standard error."""
    from gpuenv.cli.output import write_stderr
    from gpuenv.report.snapshot_text import phase_lines

    write_stderr(phase_lines(snapshot))
