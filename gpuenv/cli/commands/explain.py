"""``gpuenv explain``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.explanation import explain_text
from gpuenv.cli.meanings import find_entry, find_plugin_entry, suggest_names
from gpuenv.cli.pastes import read_chunks
from gpuenv.cli.sources import MachineSource, validate_options
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.paste.error_text import ScannedText


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

    For an error text, traceback or log, lists the likely causes. Each has a confidence, the lines that show it, a fix,
    and the fact that would confirm or rule it out. The text may have any size and encoding, colours and log prefixes.

    Exit code: 0 a cause is known, 1 none is, 2 the text cannot be read.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output
    from gpuenv.report.explanation import explanation_text

    probed = probe or (python is not None and snapshot is None)
    out = Output(output, output_format is options.Format.JSON, not no_color, redact)
    source = MachineSource(python, snapshot, assume or (), not probed and snapshot is None, timeout, driver_root)
    subject = " ".join(words or _standard_input())
    is_file = os.path.exists(subject)  # noqa: PTH110 - False for a name that is too long or holds a null
    entry = find_entry(subject) or (None if is_file else find_plugin_entry(subject, timeout))
    if entry is not None:
        validate_options(source, matrix)
        meaning, lines = entry
        out.emit(meaning, lambda: lines)
        return
    text = _scanned(subject, is_file=is_file)
    if not words and not text.head.strip():
        raise _no_text()
    explanation = explain_text(text, source, matrix, name=subject if is_file else None)
    out.emit(explanation, lambda: explanation_text(explanation, verbose=verbose))
    raise typer.Exit(ExitCode.OK if explanation.causes else ExitCode.UNFIT)


def _standard_input() -> tuple[str, ...]:
    """``-``, since no text is named.

    Raises:
        CommandError: when standard input is a terminal: gpuenv would wait for a text without a prompt.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise _no_text()
    return ("-",)


def _scanned(subject: str, *, is_file: bool) -> ScannedText:
    """The text of a file or of standard input, or the argument itself.

    Raises:
        CommandError: when it cannot be read, or is one word that no known message has.
    """
    from gpuenv.paste.error_text import scan_text

    if subject == "-" or is_file:
        return scan_text(read_chunks(subject))
    if not subject.strip():
        raise _no_text()
    text = scan_text((subject.encode("utf-8", "surrogateescape"),))
    if text.scanner.hits or len(subject.split()) > 1:
        return text
    raise CommandError(
        ExitCode.USAGE,
        f"{subject} is not a code, a cause, a file or a known error",
        suggest_names(subject) or "give a file with the error, its text, or - for standard input",
    )


def _no_text() -> CommandError:
    return CommandError(ExitCode.USAGE, "the text is empty", "give a code, a file with the error, or its text")
