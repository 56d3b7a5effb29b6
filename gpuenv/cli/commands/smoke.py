"""``gpuenv smoke``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.clock import now
from gpuenv.cli.errors import CommandError, announce, usage_errors
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke_level import SmokeLevel

if TYPE_CHECKING:
    from gpuenv.cli.output import Wanted
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.smoke import SmokeResult
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report
    from gpuenv.smoke.session import UnusableTarget
    from gpuenv.smoke.tasks import SmokeOptions

_LARGEST_BASELINE = 16 * 1024 * 1024


def smoke(
    groups: Annotated[Optional[list[str]], typer.Argument(metavar="[GROUP]...", help="Groups; default: all.")] = None,
    level: Annotated[
        SmokeLevel, typer.Option("--level", help="How much: at most 10 s, 60 s, or minutes.")
    ] = SmokeLevel.QUICK,
    only: Annotated[
        Optional[list[str]], typer.Option("--only", metavar="TEST", help="One test, whatever its level. Repeatable.")
    ] = None,
    gpu: Annotated[
        Optional[list[str]], typer.Option("--gpu", metavar="UUID|INDEX", help="One GPU. Repeatable. Default: all.")
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=10000, help="How often each test runs.")
    ] = 1,
    seed: Annotated[Optional[int], typer.Option("--seed", metavar="N", help="What the inputs are made from.")] = None,
    list_tests: Annotated[bool, typer.Option("--list", help="List the tests and end.")] = False,
    save_baseline: Annotated[
        Optional[Path], typer.Option("--save-baseline", metavar="FILE", help="Keep what was measured.")
    ] = None,
    compare: Annotated[
        Optional[Path], typer.Option("--compare", metavar="FILE", help="Hold what is measured against a baseline.")
    ] = None,
    python: options.Python = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.5, max=options.LONGEST_TIMEOUT, help="How long each test may take."
        ),
    ] = None,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Prove CuPy on the GPU: each answer of each test is checked.

    Kernels, libraries, streams, memory and copies.

    Each test runs in a process of its own. Exit code: 0 all passed (tests that do not apply are skipped), 5 a test did
    not pass or all were skipped, 7 the target environment cannot be used. Interrupted, it tells what it found by then.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.gpu_tests import check_names, planted
    from gpuenv.cli.output import NAMES, OWN, How, Wanted, check_places, emit_report, read_formats
    from gpuenv.smoke.tasks import DEFAULT_SEED, GROUPS, SmokeOptions, all_tests

    wanted = read_formats(formats, output, OWN if list_tests else NAMES)
    check_places([save_baseline, *(entry.path for entry in wanted)])
    order = SmokeOptions(
        groups=tuple(groups or ()),
        only=tuple(only or ()),
        gpus=tuple(gpu or ()),
        level=level,
        seed=DEFAULT_SEED if seed is None else seed,
        repeat=repeat,
        timeout=timeout,
        fault=planted(),
    )
    check_names("group", order.groups, GROUPS)
    check_names("test", order.only, [test.name for test in all_tests()], "gpuenv smoke --list names them")
    if list_tests:
        _found(python)  # what cannot be read is told in any case
        _read(compare)
        _list(order, wanted, color=not no_color)
    else:
        done = _prove(order, python, driver_root, _read(compare))
        if save_baseline is not None:
            _keep(done, save_baseline, redact=redact)
        how = How(verbose=verbose, color=not no_color, redact=redact, of_the_tests=True)
        # Where nothing ran, the reason on standard error says it all; a form that was asked for tells it too.
        forms = wanted if done.unusable is None else [entry for entry in wanted if entry != Wanted("text", None)]
        emit_report(_report(done, python), forms, how)
        if done.unusable is not None:
            from gpuenv.doctor.fixes.adapt import words_about

            remedy = words_about(done.unusable.remedy or "", python) or None
            raise CommandError(done.result.exit_code, str(done.unusable), remedy)
        raise typer.Exit(done.result.exit_code)


def _list(order: SmokeOptions, wanted: Sequence[Wanted], *, color: bool) -> None:
    from gpuenv.cli.output import emit_record
    from gpuenv.model.documents import ListedTest, Tests
    from gpuenv.report.lines import Line
    from gpuenv.smoke.tasks import select_tests

    named = bool(order.only)
    tests = select_tests(order.groups, order.only, SmokeLevel.DEEP)
    width = max(len(test.name) for test in tests)
    lines = [Line("Tests, with the levels that they are in from")]
    listed = []
    for test in tests:
        first = next(entry.value for entry in SmokeLevel if test.size(entry) is not None)
        listed.append(ListedTest(test.name, test.group, first, test.title, test.tolerance, test.needs))
        lines.append(Line(f"  {test.name:<{width}}  {first:<6}  {test.title}", hang=width + 12))
        if named:
            lines.append(Line(f"    tolerance: {test.tolerance}", hang=6))
            lines += [Line(f"    needs {need}") for need in test.needs]
    emit_record(Tests(tuple(listed)), lambda: lines, wanted, color=color)


def _found(python: str | None) -> str | None:
    from gpuenv.probe.target import TargetError, find_interpreter

    with usage_errors(TargetError):
        return find_interpreter(python, os.environ)


class Proved(NamedTuple):
    """The result of the tests, with the machine and the matrix that they were run with."""

    result: SmokeResult
    snapshot: Snapshot
    matrix: Matrix
    unusable: UnusableTarget | None = None  # why the target environment can run none of them


def _prove(order: SmokeOptions, python: str | None, driver_root: str, baseline: SmokeResult | None) -> Proved:
    """Runs the tests; where the target environment can run none, each is skipped and says why.

    Interrupted ones return what was found by then.

    Raises:
        CommandError: when the matrix cannot be read, or a GPU is named that is not there.
    """
    from gpuenv.cli.gpu_tests import place_of, run_tests, with_causes
    from gpuenv.cli.inputs import MachineSource, get_both
    from gpuenv.smoke.session import SmokeInterrupted, UnusableTarget, skip_all

    interpreter = _found(python) or ""
    subject = MachineSource(python, None, (), no_probe=False, timeout=options.TIMEOUT, driver_root=driver_root)
    started = time.monotonic()
    snapshot, matrix = get_both(subject, None)
    place = place_of(interpreter, subject, snapshot, matrix, started)
    try:
        with usage_errors(ValueError):  # --gpu names none
            result = run_tests(order, place, matrix)
    except UnusableTarget as error:
        skipped = skip_all(order, place, str(error), now())
        return Proved(skipped._replace(exit_code=int(ExitCode.TARGET_UNUSABLE)), snapshot, matrix, error)
    except SmokeInterrupted as stop:
        result = with_causes(stop.result)
    return Proved(compared(result, baseline) if baseline else result, snapshot, matrix)


def compared(result: SmokeResult, baseline: SmokeResult) -> SmokeResult:
    """The result compared with an earlier one, which may have been saved with pseudonyms for its GPUs."""
    from gpuenv.report.redact import pseudonym
    from gpuenv.smoke.baseline import compare

    known = {pseudonym(gpu.uuid): gpu.uuid for gpu in result.gpus if gpu.uuid}
    tests = tuple(replace(test, gpu=known.get(test.gpu or "", test.gpu)) for test in baseline.tests)
    return result._replace(compared=compare(result, baseline._replace(tests=tests)) + result.compared)


def _keep(done: Proved, place: Path, *, redact: bool) -> None:
    """The result as a baseline for later runs; one that is there stays where there is nothing to put in its place."""
    interrupted = done.result.exit_code == ExitCode.INTERRUPTED
    if interrupted or not any(test.measured for test in done.result.tests):
        why = "the tests were interrupted" if interrupted else "nothing was measured"
        announce(f"{place} is not written: {why}")
        return
    from gpuenv.cli.output import emit_json

    emit_json(done.result, place, redacted=redact)


def _report(done: Proved, python: str | None) -> Report:
    """The result as a report, whose findings are those of the tests alone."""
    from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
    from gpuenv.doctor.registry import all_checks
    from gpuenv.matrix.resolve import resolve
    from gpuenv.report.report import make_report

    result, snapshot, matrix = done.result, done.snapshot, done.matrix
    of_the_tests = {check.code for check in all_checks() if check.of_the_tests}
    terms = DiagnosisOptions(
        left_out=frozenset(check.code for check in all_checks() if not check.of_the_tests), python=python
    )
    resolution = resolve(snapshot, matrix)
    diagnosis = diagnose(snapshot, matrix, resolution, time.monotonic, terms, result)
    diagnosis = diagnosis._replace(checks=tuple(run for run in diagnosis.checks if run.code in of_the_tests))
    report = make_report(diagnosis, resolution, snapshot, result.duration, terms, result)
    return report._replace(exit_code=result.exit_code)


def _read(path: Path | None) -> SmokeResult | None:
    """A saved result."""
    import json

    from gpuenv.cli.inputs import not_of_its_form, read_at_most
    from gpuenv.model.codec import DecodeError, decode
    from gpuenv.model.smoke import SCHEMA, SmokeResult
    from gpuenv.model.strings import error_reason

    if path is None:
        return None
    try:
        text = read_at_most(path, _LARGEST_BASELINE, "baseline")
        data = json.loads(text)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(ExitCode.USAGE, f"{path}: not a baseline in JSON: {error_reason(error)}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise CommandError(ExitCode.USAGE, f"{path}: expected an object with schema {SCHEMA}")
    try:
        return decode(SmokeResult, data)
    except DecodeError as error:
        raise not_of_its_form(path, text, error) from error
