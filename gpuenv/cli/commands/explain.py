"""``gpuenv explain``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import MachineSource, get_both, validate_options
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.explain.explanation_types import Explanation
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.documents import Meaning
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.paste.error_text import ScannedText
    from gpuenv.report.text_line import TextLine

    Entry = tuple[Meaning, Iterator[TextLine]]

_CHUNK = 1 << 19  # bytes


def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CODE|CAUSE|FILE|TEXT|-",
            help="A code such as DRV106, a cause such as no-driver, or an error: a file, - for standard input, its "
            "text, or its name, such as CUDA_ERROR_NO_DEVICE or 'Xid 79'. [default: standard input, if piped]",
            autocompletion=completion.codes_and_causes,
        ),
    ] = None,
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Also probe this machine. Off by default: the text may be from another one. On with --python.",
        ),
    ] = False,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Explain a code or a cause, or find the cause of an error.

    Explains a code or a cause. For an error text, traceback or log, lists the likely causes.

    The text may have any size and encoding, colours and log prefixes. Each cause comes with a confidence, the lines
    that show it, a fix, and the fact that would settle a doubt.

    Exit code: 0 a cause is known, 1 none is, 2 the text cannot be read.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output
    from gpuenv.report.explanation import explanation_text

    probed = probe or (python is not None and snapshot is None)
    out = Output(output, output_format is options.Format.JSON, not no_color, redact)
    source = MachineSource(python, snapshot, assume or (), not probed and snapshot is None, timeout, driver_root)
    what = " ".join(words or _standard_input())
    entry = _find_entry(what) or _plugin_entry(what, timeout)
    if entry is not None:
        validate_options(source, matrix)
        meaning, lines = entry
        out.emit(meaning, lambda: lines)
        return
    text = _scanned(what)
    if not words and not text.head.strip():
        raise _no_text()
    explanation = explain_text(text, source, matrix, name=what if _exists(what) else None)
    out.emit(explanation, lambda: explanation_text(explanation, verbose=verbose))
    raise typer.Exit(ExitCode.OK if explanation.causes else ExitCode.UNFIT)


def _standard_input() -> tuple[str, ...]:
    """``-``, where no text is named.

    Raises:
        CommandError: when standard input is a terminal, whose user does not know that a text is awaited.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise _no_text()
    return ("-",)


def _find_entry(what: str) -> Entry | None:
    """The meaning of a code, a cause or a message; None for a text."""
    from gpuenv.doctor.checks import all_checks
    from gpuenv.doctor.registry import DocumentedCheck
    from gpuenv.image.rule_registry import all_rules
    from gpuenv.model.causes import Cause
    from gpuenv.report.catalogue import cause_lines, cause_meaning, check_lines, check_meaning

    all_codes: tuple[DocumentedCheck, ...] = (*all_checks(), *all_rules())
    checks = {check.code: check for check in all_codes}
    if what.upper() in checks:
        check = checks[what.upper()]
        return check_meaning(check), check_lines(check)
    cause = next((cause for cause in Cause if cause.value == what.lower()), None)
    if cause is not None:
        return cause_meaning(cause, all_codes), cause_lines(cause, all_codes)
    if "." not in what or "/" in what:
        return None
    from gpuenv.explain.messages import all_messages
    from gpuenv.report.catalogue import message_lines, message_meaning

    message = next((entry for entry in all_messages() if entry.id == what.lower()), None)
    return (message_meaning(message), message_lines(message)) if message is not None else None


def _plugin_entry(what: str, seconds: float) -> Entry | None:
    """The meaning of a plug-in's check, which is imported in a child with a deadline; None for any other code."""
    from gpuenv.plugins.discovery import is_code

    if not is_code(what.upper()) or _exists(what):
        return None
    from gpuenv.cli.diagnosis import plugins
    from gpuenv.plugins.runner import MOST_SECONDS, describe
    from gpuenv.report.catalogue import plugin_lines, plugin_meaning

    plugin = next((entry for entry in plugins() if entry.code == what.upper()), None)
    if plugin is None:
        return None
    description = describe(plugin, os.environ, min(seconds, MOST_SECONDS))
    return (
        plugin_meaning(plugin.code, plugin.package, description.text, description.complaint),
        plugin_lines(plugin.code, plugin.package, plugin.function, description.text, description.complaint),
    )


def _exists(what: str) -> bool:
    return os.path.exists(what)  # noqa: PTH110 - False for a name that is too long or holds a null


def _scanned(what: str) -> ScannedText:
    """The text of a file or of standard input, or the argument itself.

    Raises:
        CommandError: when it cannot be read, or is one word that no known message has.
    """
    from gpuenv.paste.error_text import scan_text

    if what == "-" or _exists(what):
        return scan_text(_chunks(what))
    if not what.strip():
        raise _no_text()
    text = scan_text((what.encode("utf-8", "surrogateescape"),))
    if text.scanner.hits or len(what.split()) > 1:
        return text
    raise _unknown(what)


def _no_text() -> CommandError:
    return CommandError(ExitCode.USAGE, "the text is empty", "give a code, a file with the error, or its text")


def _unknown(what: str) -> CommandError:
    import difflib

    from gpuenv.doctor.checks import all_checks
    from gpuenv.image.rule_registry import all_rules
    from gpuenv.model.causes import Cause

    codes = [*(check.code for check in all_checks()), *(rule.code for rule in all_rules())]
    names = [*(cause.value for cause in Cause), *codes]
    matches = difflib.get_close_matches(what.lower(), names, 3) or difflib.get_close_matches(what.upper(), names, 3)
    return CommandError(
        ExitCode.USAGE,
        f"{what} is not a code, a cause, a file or a known error",
        f"did you mean {', '.join(matches)}?"
        if matches
        else "give a file with the error, its text, or - for standard input",
    )


def _chunks(what: str) -> Iterator[bytes]:
    """The text in chunks.

    Raises:
        CommandError: when it cannot be read.
    """
    try:
        if what == "-":
            if sys.stdin is None:
                raise CommandError(ExitCode.USAGE, "standard input is closed", "name a file")
            yield from iter(lambda: os.read(sys.stdin.fileno(), _CHUNK), b"")
            return
        with Path(what).open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK), b"")
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{what}: cannot be read: {error.strerror or error}") from error


def explain_text(
    text: ScannedText, source: MachineSource, matrix: Path | None, *, name: str | None = None
) -> Explanation:
    """Explains a text with the facts of the machine that the options select.

    Raises:
        CommandError: when the machine's facts or the matrix cannot be read or understood.
    """
    from gpuenv.paste import error_text

    is_needed = False

    def get_machine() -> tuple[Snapshot, Matrix]:
        nonlocal is_needed
        is_needed = True
        return get_both(source, matrix)

    explanation = error_text.explain_text(
        text, get_machine, time.monotonic, is_of_text=source.no_probe, assumed=source.assume, name=name
    )
    if not is_needed:
        validate_options(source, matrix)
    return explanation
