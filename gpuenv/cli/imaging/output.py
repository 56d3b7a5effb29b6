"""The report of check-image in the forms that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuenv.cli.formats import Wanted
from gpuenv.cli.output import emit_json, emit_lines, identity, write_file, write_stdout

if TYPE_CHECKING:
    from gpuenv.image.check.records import ImageReport


def emit_image(report: ImageReport, wanted: Sequence[Wanted], *, verbose: bool, color: bool, redacted: bool) -> None:
    """Writes every form, files first."""
    for entry in sorted(wanted, key=lambda entry: entry.path is None):
        if entry.form == "json":
            emit_json(report, entry.path, redacted=redacted)
        elif entry.form == "text":
            from gpuenv.image.check.text import report_lines

            emit_lines(report_lines(report, verbose=verbose), entry.path, color=color, redacted=redacted)
        else:
            _emit_sarif(report, entry, redacted=redacted)


def _emit_sarif(report: ImageReport, wanted: Wanted, *, redacted: bool) -> None:
    from gpuenv.image.check.sarif import sarif_text
    from gpuenv.report.redact import redact_lines

    text = sarif_text(report)
    if redacted:
        who = identity()
        text = "".join(f"{line}\n" for line in redact_lines(text.splitlines(), who))
    if wanted.path is None:
        write_stdout(text)
    else:
        write_file(wanted.path, text)
