"""``gpuenv explain``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import MachineSource, get_both, validate_options
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.explain.explanation_types import Explanation
    from gpuenv.explain.match import Scanner
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.documents import Meaning
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.text_line import TextLine

    Entry = tuple[Meaning, Iterator[TextLine]]

_CHUNK = 1 << 19  # bytes
_HEAD = 1 << 18  # bytes that are searched for pasted outputs


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="CODE|CAUSE|FILE|TEXT|-",
            help="A code such as DRV106, a cause such as no-driver, or an error: a file, - for standard input, its "
            "text, or its name, such as CUDA_ERROR_NO_DEVICE or 'Xid 79'.",
            autocompletion=completion.codes_and_causes,
        ),
    ],
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
    what = " ".join(words)
    entry = _find_entry(what) or _plugin_entry(what, timeout)
    if entry is not None:
        validate_options(source, matrix)
        meaning, lines = entry
        out.emit(meaning, lambda: lines)
        return
    explanation = explain_text(_scanned(what), source, matrix, name=what if _exists(what) else None)
    out.emit(explanation, lambda: explanation_text(explanation, verbose=verbose))
    raise typer.Exit(ExitCode.OK if explanation.causes else ExitCode.UNFIT)


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
    if what == "-" or _exists(what):
        return scan_text(_chunks(what))
    if not what.strip():
        raise CommandError(ExitCode.USAGE, "the text is empty", "give a file with the error, its text, or its name")
    text = scan_text((what.encode("utf-8", "surrogateescape"),))
    if text.scanner.hits or len(what.split()) > 1:
        return text
    raise _unknown(what)


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


class ScannedText(NamedTuple):
    """A scanned text, and its beginning, where people paste tool outputs."""

    scanner: Scanner
    head: bytes


def scan_text(chunks: Iterable[bytes]) -> ScannedText:
    """Scans a text to its end."""
    from gpuenv.explain.match import Scanner

    scanner, head = Scanner(), bytearray()
    for chunk in chunks:
        scanner.feed(chunk)
        head += chunk[: _HEAD - len(head)]
    scanner.close()
    return ScannedText(scanner, bytes(head))


def explain_text(
    text: ScannedText, source: MachineSource, matrix: Path | None, *, name: str | None = None
) -> Explanation:
    """Explains a text with the facts of a machine; a text without any known message needs no machine.

    Without a machine, the outputs pasted with the error take its place, then the facts that the text states;
    assumptions override both. Commands for a pasted machine name the file, which its owner can examine elsewhere.

    Raises:
        CommandError: when the machine's facts or the matrix cannot be read or understood.
    """
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.explain.explainer import explanation, tells_of_a_fault, verdict_of
    from gpuenv.explain.text_facts import TextFacts
    from gpuenv.matrix.assume import assume
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.snapshot import SourceState
    from gpuenv.paste.fields import FAILURES
    from gpuenv.paste.partial_snapshot import known_keys, to_snapshot
    from gpuenv.paste.reader import decoded
    from gpuenv.paste.selection import read_selection, select_environment

    scanner, stated = text.scanner, text.scanner.stated.facts
    if not tells_of_a_fault(scanner):
        validate_options(source, matrix)
        return explanation(scanner)
    pasted, note = None, None
    if source.no_probe:
        selection = select_environment(decoded(text.head))
        pasted, note = (
            read_selection(selection).without(FAILURES),
            selection.note,
        )  # the error itself is not a tool output
        if note:
            lines = TextFacts()
            for line in selection.text.splitlines():
                lines.look(line)
            stated = lines.facts
        if pasted.is_empty:
            pasted = None
        if pasted is None and not stated and not source.assume:
            validate_options(source, matrix)
            return explanation(scanner)
    snapshot, rows = get_both(source, matrix)
    if pasted is not None:
        # The pasted machine, completed by facts that the text states, overridden by the caller's assumptions.
        snapshot = to_snapshot(pasted, rows)
        keys = known_keys(snapshot)
        more = [fact for fact in stated if fact.partition("=")[0] not in keys]
        snapshot = assume(with_stated(snapshot, more, source.assume, rows), source.assume, rows)
    elif source.no_probe:
        snapshot = with_stated(snapshot, stated, source.assume, rows)
    diagnosis = diagnose(snapshot, rows, resolve(snapshot, rows), time.monotonic)
    probed = snapshot.source("kernel").state is not SourceState.NOT_ASKED  # a paste has other sources
    verdict = verdict_of(diagnosis, snapshot, probed=probed, pasted=pasted is not None)
    found = explanation(scanner, verdict, paste=name if pasted is not None else None)
    return replace(found, facts=stated, notes=(*found.notes, note)) if note else found


def with_stated(snapshot: Snapshot, stated: Iterable[str], assumed: Iterable[str], matrix: Matrix) -> Snapshot:
    """The snapshot with the facts that a text states; assumed ones and invalid ones are skipped."""
    from gpuenv.matrix.assume import AssumeError, assume, assumed_keys

    keys = assumed_keys(assumed)
    for text in stated:
        if text.partition("=")[0] in keys:
            continue
        try:
            snapshot = assume(snapshot, (text,), matrix)
        except AssumeError:
            continue
    return snapshot
