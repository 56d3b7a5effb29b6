"""What doctor and preflight share: the configuration file, the checks of other packages, and the steps to a report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import MachineSource, get_matrix, probing
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.doctor.diagnose import Diagnosis, DiagnosisOptions
    from gpuenv.model.finding import Suppression
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.plugins.discover import Plugin
    from gpuenv.preflight.config import Config
    from gpuenv.report.report import Report


def read_settings(path: Path | None, *, no_config: bool) -> Config:
    """The configuration file that was named, or the nearest one.

    Raises:
        CommandError: when it cannot be read or understood, with every fault.
    """
    from gpuenv.preflight.config import Config, ConfigError, find_config, load_config

    if no_config:
        if path is not None:
            raise CommandError(ExitCode.USAGE, "--config and --no-config exclude each other")
        return Config()
    try:
        here = Path.cwd()
        found = path or find_config(here)
        if found is None:
            return Config()
        shown = str(found) if path is not None or not found.is_relative_to(here) else str(found.relative_to(here))
        return load_config(found, shown)
    except ConfigError as error:
        remedy = None if error.unread else "gpuenv preflight --list-requirements shows the grammar"
        raise CommandError(ExitCode.USAGE, str(error), remedy) from error
    except OSError as error:  # the working folder is gone
        remedy = "--no-config looks for no configuration file"
        raise CommandError(ExitCode.USAGE, f"the working folder: {error.strerror or error}", remedy) from error


def allowed(settings: Config) -> tuple[Suppression, ...]:
    """The allow-list; an entry that has expired is announced.

    Raises:
        CommandError: for a code that no check has, with file, line and the nearest right one.
    """
    if not settings.suppressions:
        return ()
    import difflib

    codes = known_codes()
    faults = []
    for entry in settings.suppressions:
        if entry.code not in codes:
            near = difflib.get_close_matches(entry.code, codes, 9)
            swapped = [other for other in near if sorted(other) == sorted(entry.code)]  # GPU260 for GPU206
            hint = f"; did you mean {(swapped or near)[0]}?" if near else ""
            faults.append(f"{entry.source}: allow: there is no check {entry.code}{hint}")
    if faults:
        raise CommandError(ExitCode.USAGE, "\n".join(faults), "gpuenv doctor --list names the checks")
    for entry in settings.suppressions:
        if entry.has_expired(today()):
            announce(f"{entry.source}: allowing {entry.code} has expired on {entry.expires}, and does not count")
    return settings.suppressions


@cache
def plugins() -> tuple[Plugin, ...]:
    """The checks of other packages in this environment."""
    from gpuenv.plugins.discover import find_plugins

    return find_plugins(_own_codes)


def _own_codes() -> tuple[str, ...]:
    from gpuenv.doctor.registry import all_checks

    return tuple(check.code for check in all_checks())


def known_codes() -> tuple[str, ...]:
    """The code of every check: gpuenv's own, then those of other packages."""
    return (*_own_codes(), *(plugin.code for plugin in plugins()))


def examine(
    subject: MachineSource,
    matrix: Path | None,
    terms_of: Callable[[Snapshot], DiagnosisOptions],
    started: float | None = None,
    proof: Proof | None = None,
) -> Report:
    """Probes the machine that is meant and judges it, on the terms that ``terms_of`` has for it.

    ``started`` is when the command began, by the monotonic clock in seconds, and now by default.

    Raises:
        CommandError: when the machine or the matrix cannot be read, or GPU tests are to run elsewhere.
    """
    looked = time.monotonic()
    if proof is not None:
        from gpuenv.cli.gpu_tests import check_subject

        check_subject(subject, proof)
    with probing(subject) as finish:
        from gpuenv.doctor.diagnose import diagnose  # all is imported while the machine answers
        from gpuenv.doctor.registry import all_checks
        from gpuenv.matrix.resolve import resolve
        from gpuenv.report.report import make_report

        rows = get_matrix(matrix)
        found = plugins()
        all_checks()
        facts = finish(rows)
    resolution = resolve(facts, rows)
    terms = terms_of(facts)._replace(python=subject.named)
    smoke = None
    if proof is not None:
        from gpuenv.cli.gpu_tests import prove_report

        smoke = prove_report(proof, subject, facts, rows, terms, looked)
    diagnosis = diagnose(facts, rows, resolution, time.monotonic, terms, smoke)
    if found:
        diagnosis = _with_plugins(diagnosis, found, facts, terms, subject.timeout)
    begun = looked if started is None else started
    return make_report(diagnosis, resolution, facts, time.monotonic() - begun, terms, smoke)


def _with_plugins(
    diagnosis: Diagnosis, found: Sequence[Plugin], facts: Snapshot, options: DiagnosisOptions, seconds: float
) -> Diagnosis:
    """The diagnosis with the findings of the checks of other packages, within so many seconds."""
    from gpuenv.doctor.diagnose import extended, left_out
    from gpuenv.plugins.run import MOST_SECONDS, run_plugins

    wanted = [plugin for plugin in found if plugin.code not in options.left_out]
    results = run_plugins(wanted, facts, os.environ, min(seconds, MOST_SECONDS))
    runs = [entry.run for entry in results] + [left_out(p.code) for p in found if p.code in options.left_out]
    return extended(diagnosis, [finding for entry in results for finding in entry.findings], runs, options)


def show_phases(snapshot: Snapshot) -> None:
    """Where the time went, on standard error."""
    from gpuenv.cli.output import write_stderr
    from gpuenv.report.snapshot_text import phase_lines

    write_stderr(phase_lines(snapshot))
