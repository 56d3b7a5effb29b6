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

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import MachineSource, get_both, validate_assumptions
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.explain.records import Explanation
    from gpuenv.explain.scan import Scanner
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.documents import Meaning
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.lines import Line

    Known = tuple[Meaning, Iterator[Line]]

_PIECE = 1 << 19  # bytes that are read at once
_HEAD = 1 << 18  # bytes in which pasted outputs are looked for


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CODE|CAUSE|FILE|-",
            help="A code such as DRV106, a cause such as no-driver, or an error text: a file, or - for standard input.",
        ),
    ],
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Ask this machine too. Off by default, since a text may come from another one; --python turns it on.",
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
    """Say what a code means, or what caused an error text.

    A code or a cause is explained. Of an error text, traceback or log the likely causes are named.

    A text of any size is read, in any encoding, with colours and the prefixes of logs. Each cause comes with a
    confidence, the lines that say so, a cure, and the fact that would settle a doubt.

    Exit code: 0 a cause is known, 1 none is, 2 the text cannot be read.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output
    from gpuenv.report.explanation import explanation_text

    asks = probe or (python is not None and snapshot is None)
    out = Output(output, output_format is options.Format.JSON, not no_color, redact)
    subject = MachineSource(python, snapshot, assume or (), not asks and snapshot is None, timeout, driver_root)
    known = _known(what) or _of_a_plugin(what, timeout)
    if known is not None:
        validate_assumptions(subject, matrix)
        meaning, lines = known
        out.emit(meaning, lambda: lines)
        return
    if what != "-" and not _exists(what):
        raise _unknown(what)
    explanation = explained(scanned(_pieces(what)), subject, matrix)
    out.emit(explanation, lambda: explanation_text(explanation, verbose=verbose))
    raise typer.Exit(ExitCode.OK if explanation.causes and not explanation.is_guess else ExitCode.UNFIT)


def _known(what: str) -> Known | None:
    """The meaning of a code, a cause or a signature; None for a text."""
    from gpuenv.doctor.registry import Explained, all_checks
    from gpuenv.image.check.rules import all_rules
    from gpuenv.model.causes import Cause
    from gpuenv.report.reference import cause_lines, cause_meaning, check_lines, check_meaning

    every: tuple[Explained, ...] = (*all_checks(), *all_rules())
    checks = {check.code: check for check in every}
    if what.upper() in checks:
        check = checks[what.upper()]
        return check_meaning(check), check_lines(check)
    cause = next((cause for cause in Cause if cause.value == what.lower()), None)
    if cause is not None:
        return cause_meaning(cause, every), cause_lines(cause, every)
    if "." not in what or "/" in what:
        return None
    from gpuenv.explain.signatures import all_signatures
    from gpuenv.report.reference import signature_lines, signature_meaning

    signature = next((entry for entry in all_signatures() if entry.name == what.lower()), None)
    return (signature_meaning(signature), signature_lines(signature)) if signature is not None else None


def _of_a_plugin(what: str, seconds: float) -> Known | None:
    """The meaning of a check of another package, imported in a child with a deadline; None where there is none."""
    from gpuenv.plugins.discover import is_code

    if not is_code(what.upper()) or _exists(what):
        return None
    from gpuenv.cli.diagnosis import plugins
    from gpuenv.plugins.run import MOST_SECONDS, described
    from gpuenv.report.reference import plugin_lines, plugin_meaning

    plugin = next((entry for entry in plugins() if entry.code == what.upper()), None)
    if plugin is None:
        return None
    about = described(plugin, os.environ, min(seconds, MOST_SECONDS))
    return (
        plugin_meaning(plugin.code, plugin.package, about.text, about.complaint),
        plugin_lines(plugin.code, plugin.package, plugin.function, about.text, about.complaint),
    )


def _exists(what: str) -> bool:
    return os.path.exists(what)  # noqa: PTH110 - a name that is too long, or holds a null, is no file either


def _unknown(what: str) -> CommandError:
    import difflib

    from gpuenv.doctor.registry import all_checks
    from gpuenv.image.check.rules import all_rules
    from gpuenv.model.causes import Cause

    codes = [*(check.code for check in all_checks()), *(rule.code for rule in all_rules())]
    names = [*(cause.value for cause in Cause), *codes]
    near = difflib.get_close_matches(what.lower(), names, 3) or difflib.get_close_matches(what.upper(), names, 3)
    return CommandError(
        ExitCode.USAGE,
        f"{what} is no code, no cause and no file",
        f"did you mean {', '.join(near)}?" if near else "give a file with an error text, or - for standard input",
    )


def _pieces(what: str) -> Iterator[bytes]:
    """The text, piece by piece.

    Raises:
        CommandError: when it cannot be read.
    """
    try:
        if what == "-":
            if sys.stdin is None:
                raise CommandError(ExitCode.USAGE, "standard input is closed", "give a file")
            yield from iter(lambda: os.read(sys.stdin.fileno(), _PIECE), b"")
            return
        with Path(what).open("rb") as file:
            yield from iter(lambda: file.read(_PIECE), b"")
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{what}: cannot be read: {error.strerror or error}") from error


class Text(NamedTuple):
    """A text that was read: what was seen in it, and its beginning, where people paste what they have."""

    scanner: Scanner
    head: bytes


def scanned(pieces: Iterable[bytes]) -> Text:
    """A text, read to its end."""
    from gpuenv.explain.scan import Scanner

    scanner, head = Scanner(), bytearray()
    for piece in pieces:
        scanner.feed(piece)
        head += piece[: _HEAD - len(head)]
    scanner.close()
    return Text(scanner, bytes(head))


def explained(text: Text, subject: MachineSource, matrix: Path | None) -> Explanation:
    """The explanation of a text, with the facts of the machine that is meant; a text that says nothing needs none.

    Where no machine is meant, the outputs pasted with the error stand for it, then the facts that the text states;
    assumptions go before both.

    Raises:
        CommandError: when the machine's facts or the matrix cannot be read or understood.
    """
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.explain.answer import explanation, says_something, verdict_of
    from gpuenv.explain.situation import marks_of
    from gpuenv.explain.stated import Stated
    from gpuenv.matrix.assume import assume
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.snapshot import SourceState
    from gpuenv.paste.environments import chosen, read_meant
    from gpuenv.paste.fields import FAILURES
    from gpuenv.paste.read import decoded
    from gpuenv.paste.snapshot import known_keys, to_snapshot

    scanner, stated = text.scanner, text.scanner.stated.facts
    if not says_something(scanner):
        validate_assumptions(subject, matrix)
        return explanation(scanner)
    pasted, note = None, None
    if subject.no_probe:
        meant = chosen(decoded(text.head))
        pasted, note = read_meant(meant).without(FAILURES), meant.note  # the error itself is no output
        if note:
            lines = Stated()
            for line in meant.text.splitlines():
                lines.look(line)
            stated = lines.facts
        if pasted.is_empty:
            pasted = None
        if pasted is None and not stated and not subject.assume:
            validate_assumptions(subject, matrix)
            return explanation(scanner)
    snapshot, rows = get_both(subject, matrix)
    if pasted is not None:
        # The machine of the paste, with what the text states of it in passing, under the caller's assumptions.
        snapshot = to_snapshot(pasted, rows)
        known = known_keys(snapshot)
        more = [fact for fact in stated if fact.partition("=")[0] not in known]
        snapshot = assume(with_stated(snapshot, more, subject.assume, rows), subject.assume, rows)
    elif subject.no_probe:
        snapshot = with_stated(snapshot, stated, subject.assume, rows)
    diagnosis = diagnose(snapshot, rows, resolve(snapshot, rows), time.monotonic)
    probed = snapshot.source("kernel").state is not SourceState.NOT_ASKED  # a paste has other sources
    found = explanation(scanner, marks_of(snapshot, rows, scanner.hits), verdict_of(diagnosis, probed=probed))
    return replace(found, facts=stated, notes=(note,)) if note else found


def with_stated(snapshot: Snapshot, stated: Iterable[str], assumed: Iterable[str], matrix: Matrix) -> Snapshot:
    """The facts that the text states, except where the caller assumes another; one that makes no sense is left."""
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
