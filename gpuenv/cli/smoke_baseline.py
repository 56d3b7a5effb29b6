"""The baseline of ``gpuenv smoke``, and the comparison of a run with it and with minimum rates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import malformed_file, read_at_most
from gpuenv.doctor.checks.smoke import shortfall_text
from gpuenv.files import LARGEST_DOCUMENT
from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke import SCHEMA, Compared, SmokeResult
from gpuenv.model.strings import error_reason
from gpuenv.report.redact import pseudonym
from gpuenv.smoke.baseline import Peaks, compare, compare_with_minimums
from gpuenv.smoke.tasks import MinimumRate


def read_baseline(path: Path | None) -> SmokeResult | None:
    """Reads a saved result; None without a path.

    Raises:
        CommandError: when it cannot be read, or is no result of GPU tests.
    """
    if path is None:
        return None
    try:
        text = read_at_most(path, LARGEST_DOCUMENT, "baseline")
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
        raise malformed_file(path, text, error) from error


def compared(
    result: SmokeResult,
    baseline: SmokeResult | None,
    minimums: Sequence[MinimumRate] = (),
    peaks: Peaks = MappingProxyType({}),
) -> SmokeResult:
    """The result compared with an earlier one, whose GPUs may be pseudonyms, and with minimum rates."""
    found: tuple[Compared, ...] = ()
    reasons: tuple[str, ...] = ()
    if baseline is not None:
        known = {pseudonym(gpu.uuid): gpu.uuid for gpu in result.gpus if gpu.uuid}
        baseline = baseline._replace(
            tests=tuple(replace(test, gpu=known.get(test.gpu or "", test.gpu)) for test in baseline.tests),
            gpus=tuple(replace(gpu, uuid=known.get(gpu.uuid or "", gpu.uuid)) for gpu in baseline.gpus),
        )
        found = compare(result, baseline)
        if not found:
            ours, theirs = (sorted({gpu.name or "unknown" for gpu in entry.gpus}) for entry in (result, baseline))
            reasons = (f"nothing to compare: the baseline is of {', '.join(theirs)}, this run of {', '.join(ours)}",)
            if set(ours) & set(theirs):
                reasons = ("nothing to compare: this run and the baseline have no measurement in common; see --level",)
    if minimums:
        below, unknown = compare_with_minimums(minimums, result, baseline, peaks)
        reasons += unknown + tuple(shortfall_text(entry) for entry in below if entry.worse)
        found = below + found
    return rejected(result._replace(compared=found + result.compared), reasons)


def rejected(result: SmokeResult, reasons: tuple[str, ...]) -> SmokeResult:
    """The result with reasons for which it is not accepted; an exit code other than 0 stays."""
    if not reasons:
        return result
    return result._replace(rejected=result.rejected + reasons, exit_code=result.exit_code or int(ExitCode.SMOKE_FAILED))
