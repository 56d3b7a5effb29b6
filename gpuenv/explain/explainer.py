"""Builds the explanation of a scanned text with the facts of the machine, and adds a pasted error to the findings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import Diagnosis
from gpuenv.explain.classifier import NOTHING, Classification, classify, lines_with_words
from gpuenv.explain.explanation_types import Explanation, Guess, Hit, LikelyCause
from gpuenv.explain.match import Scanner, scan
from gpuenv.explain.programs import Program, fixes_for, program_of
from gpuenv.explain.score import CERTAIN, NO_MACHINE, DoctorVerdict, Ranked, guess, rank
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckStatus, Evidence, Finding, Fix, Severity, ranked
from gpuenv.model.snapshot import Container, Snapshot
from gpuenv.model.strings import format_size

_LINES = 5  # quoted lines of a cause
_ENOUGH_WORDS = 15
_WORD = re.compile(r"[A-Za-z_]{3,}")
_FACTS = "the facts of the machine: gpuenv explain --probe, or gpuenv doctor"
_EXAMINING = (("gpuenv", "doctor"), ("gpuenv", "resolve"))
_BLANK = re.compile(r"\{\w+\}")
_CONTAINER = (
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_DRIVER_CAPABILITIES, Cause.CONTAINER_CGROUP_LOST_GPU),
    *(Cause.CONTAINER_TOOLKIT_BROKEN, Cause.IMAGE_REQUIRES_OTHER_DRIVER),
)
_LINUX_ONLY = (
    *(Cause.FORK_AFTER_CUDA_INIT, Cause.NOUVEAU_LOADED, Cause.DEVICE_NODE_MISSING, Cause.DEVICE_NODE_PERMISSION),
    *(Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.DRIVER_MODULE_NOT_LOADED, Cause.LIBSTDCXX_MISMATCH),
)
_LIKELIER, _UNLIKELY = 6.0, 0.15
_LEAST = 0.5  # confidence in the cause of a pasted error; one in two less likely causes is wrong


def reports_fault(scanner: Scanner) -> bool:
    """Whether a text has a known message or its words clearly indicate a fault; else no machine is examined."""
    return bool(scanner.hits) or _classified(_latest_text(scanner)).is_clear


def explanation(scanner: Scanner, verdict: DoctorVerdict = NO_MACHINE, *, paste: str | None = None) -> Explanation:
    """Explains a text, with the doctor's verdict on the machine.

    ``paste`` is the file from which the machine is known, for commands that examine it again.
    """
    needs_words = not scanner.hits or (verdict.has_machine and verdict.found) or _has_prose(scanner)
    text = _latest_text(scanner)
    words = _classified(text) if needs_words else NOTHING
    program = program_of(text)
    if program is Program.OTHER and verdict.has_cupy:
        program = Program.CUPY
    likely = rank(scanner.hits, words, verdict)
    found = Explanation(
        causes=tuple(_likely_cause(entry, verdict, scanner, words, program) for entry in likely),
        guess=None if likely else _guess(scanner, words, verdict, program),
        facts=scanner.stated.facts,
        lines_read=scanner.lines_read,
        notes=_notes(scanner),
    )
    return _of_paste(found, paste) if paste else found


def _of_paste(found: Explanation, paste: str) -> Explanation:
    """The explanation with commands that examine the pasted machine instead of this one."""

    def fixes(entry: LikelyCause | Guess) -> tuple[Fix, ...]:
        return tuple(
            fix._replace(command=(*fix.command, "--paste", paste)) if fix.command in _EXAMINING else fix
            for fix in entry.fix
        )

    def decides(fact: str | None) -> str | None:
        return f"the facts of the machine: gpuenv doctor --paste {shlex.quote(paste)}" if fact == _FACTS else fact

    causes = (replace(entry, fix=fixes(entry), would_decide=decides(entry.would_decide)) for entry in found.causes)
    guess = found.guess and replace(found.guess, fix=fixes(found.guess), would_decide=decides(found.guess.would_decide))
    return replace(found, causes=tuple(causes), guess=guess)


def _guess(scanner: Scanner, words: Classification, verdict: DoctorVerdict, program: Program) -> Guess | None:
    likely = guess(words, verdict)
    if not likely:
        return None
    first, *others = likely
    finding = verdict.found.get(first.cause)
    indicating = words.words[first.cause]
    return Guess(
        cause=first.cause,
        confidence=first.confidence,
        title=finding.title if finding else _title(first),
        words=indicating,
        lines=lines_with_words(scanner.latest, indicating),
        alternatives=tuple(entry.cause for entry in others),
        fix=_fixes(first.cause, finding, program),
        would_decide=_decisive_fact((), verdict),
    )


def _has_prose(scanner: Scanner) -> bool:
    """Whether a text has enough words for the classifier in addition to its message."""
    words = (word for line in scanner.latest for word in _WORD.findall(line.text))
    return sum(1 for _ in words) >= _ENOUGH_WORDS


def _latest_text(scanner: Scanner) -> str:
    return "\n".join(line.text for line in scanner.latest)


@lru_cache(maxsize=4)
def _classified(text: str) -> Classification:
    return classify(text) if text else NOTHING


def _notes(scanner: Scanner) -> tuple[str, ...]:
    if not scanner.skipped:
        return ()
    skipped = format_size(scanner.skipped)
    return (f"{skipped} before the end of the text were not searched; give them as a file of their own",)


def verdict_of(diagnosis: Diagnosis, snapshot: Snapshot, *, pasted: bool = False) -> DoctorVerdict:
    """The doctor's verdict; a cause is ruled out only if every check of it ran on a real machine.

    Its fixes are used only for a probed or a pasted machine: without one they are no more specific than the cause's.
    """
    found: dict[Cause, Finding] = {}
    for finding in diagnosis.findings:
        if finding.severity is Severity.ERROR:
            found.setdefault(finding.cause, finding if snapshot.is_probed or pasted else replace(finding, fix=()))
    factors, has_cupy = place_factors(snapshot), bool(snapshot.target.cupy)
    if not snapshot.is_probed:
        return DoctorVerdict(found, has_machine=pasted, factors=factors, has_cupy=has_cupy)
    status = {run.code: run.status for run in diagnosis.checks}
    clean: dict[Cause, bool] = {}
    for check in all_checks():
        for cause in check.causes if check.code in status else ():
            clean[cause] = clean.get(cause, True) and status.get(check.code) is CheckStatus.CLEAN
    return DoctorVerdict(
        found,
        frozenset(cause for cause, ruled_out in clean.items() if ruled_out and cause not in found),
        has_machine=True,
        factors=factors,
        has_cupy=has_cupy,
    )


def _likely_cause(
    entry: Ranked, verdict: DoctorVerdict, scanner: Scanner, words: Classification, program: Program
) -> LikelyCause:
    finding = verdict.found.get(entry.cause)
    indicating = () if entry.hits or finding else words.words.get(entry.cause, ())
    lines = tuple({hit.line.number: hit.line for hit in entry.hits}.values())
    return LikelyCause(
        cause=entry.cause,
        code=finding.code if finding else _code(entry),
        confidence=entry.confidence,
        lines=lines[:_LINES] or lines_with_words(scanner.latest, indicating),
        title=finding.title if finding and not entry.hits else _title(entry),
        fix=_fixes(entry.cause, finding, program, _hit_about(entry)),
        would_decide=None
        if entry.confidence >= CERTAIN or (finding and verdict.has_machine)
        else _decisive_fact(entry.hits, verdict),
        surfaced_late=bool(entry.hits) and entry.hits[0].message.late,
        signatures=tuple(dict.fromkeys(hit.message.id for hit in entry.hits)),
        supported_by=(f"{finding.code}: {finding.title}",) if finding else (),
        words=indicating,
    )


def _fixes(cause: Cause, finding: Finding | None, program: Program, about: Hit | None = None) -> tuple[Fix, ...]:
    """The fixes of the finding, for this machine; else those of the message; else those of the cause for the user."""
    if finding and finding.fix:
        return finding.fix
    return (about.message.fix if about else ()) or fixes_for(cause, program)


def _hit_about(entry: Ranked) -> Hit | None:
    """The first hit whose main cause this is, which gives the title and the fixes.

    A message that another one replaces names the cause without being about it.
    """
    return next((hit for hit in entry.hits if _main_cause(hit) is entry.cause), None)


def _main_cause(hit: Hit) -> Cause:
    return max(hit.message.weights(dict(hit.values)).items(), key=lambda item: item[1])[0]


def _code(entry: Ranked) -> str:
    """The code of the check that the message names, or that has this cause first, or at all; else the message's id."""
    cause = entry.cause
    own = next((hit.message.code for hit in entry.hits if hit.message.code), None)
    checks = [check for check in all_checks() if not check.reads_gpu_tests]
    first = next((check.code for check in checks if check.causes[0] is cause), None)
    also = next((check.code for check in checks if cause in check.causes), None)
    return own or first or also or (entry.hits[0].message.id if entry.hits else cause.value)


def _title(entry: Ranked) -> str:
    """The message's title if this is its main cause, else the cause's sentence."""
    sentence = entry.cause.sentence[0].upper() + entry.cause.sentence[1:]
    hit = _hit_about(entry)
    if hit is None or hit.message.title is None:
        return sentence
    title = _filled(hit.message.title, hit)
    return sentence if _BLANK.search(title) else title


def _filled(text: str, hit: Hit) -> str:
    for name, value in hit.values:
        text = text.replace(f"{{{name}}}", value)
    return text


def _decisive_fact(hits: Sequence[Hit], verdict: DoctorVerdict) -> str | None:
    deciding = (_filled(hit.message.decided_by, hit) for hit in hits if hit.message.decided_by)
    return next(deciding, None if verdict.has_machine else _FACTS)


def place_factors(snapshot: Snapshot) -> Mapping[Cause, float]:
    """Factors of the causes that the system makes likelier or less likely; empty if it is unknown."""
    host = snapshot.host
    factors: dict[Cause, float] = {}
    if host.os.value == "windows":
        factors |= dict.fromkeys(_LINUX_ONLY, _UNLIKELY) | {Cause.WINDOWS_DLL_LOAD_FAILURE: _LIKELIER}
    if host.wsl.known:
        factors[Cause.WSL_LIBCUDA] = _LIKELIER if host.wsl.value else _UNLIKELY
    if host.wsl.value:  # the driver is that of Windows
        factors |= dict.fromkeys((Cause.DRIVER_MODULE_NOT_LOADED, Cause.NOUVEAU_LOADED), _UNLIKELY)
    if host.container.known:
        factors |= dict.fromkeys(_CONTAINER, _UNLIKELY if host.container.value is Container.NONE else _LIKELIER)
    if host.tegra.known:
        factors[Cause.JETSON_TEGRA] = _LIKELIER if host.tegra.value else _UNLIKELY
    if snapshot.amd_gpus:
        factors[Cause.ROCM_MISMATCH] = _LIKELIER
    return factors


def with_pasted_error(diagnosis: Diagnosis, snapshot: Snapshot, text: str) -> Diagnosis:
    """The diagnosis of a pasted machine with the cause of the error in the paste.

    A finding with that cause comes first. If no check finds it, the error itself becomes a finding.
    """
    causes = explanation(scan(text.encode("utf-8", "replace")), verdict_of(diagnosis, snapshot, pasted=True)).causes
    first = next((entry for entry in causes if entry.signatures and entry.confidence >= _LEAST), None)
    if first is None:
        return diagnosis
    findings = [replace(entry, primary=False, follows_from=None) for entry in diagnosis.findings]
    same = [entry for entry in findings if entry.cause is first.cause and entry.severity is Severity.ERROR]
    new = [] if same else [_finding(first)]
    others = (entry for entry in findings if entry not in same)
    return diagnosis._replace(findings=ranked([*same, *new, *others], lambda *_: False))


def _finding(cause: LikelyCause) -> Finding:
    return Finding(
        code=cause.signatures[0],
        cause=cause.cause,
        severity=Severity.ERROR,
        primary=False,
        follows_from=None,
        title=cause.title,
        evidence=tuple(Evidence(f"line {line.number}", line.text, "the error in the paste") for line in cause.lines),
        fix=cause.fix,
        docs=f"gpuenv explain {cause.signatures[0]}",
    )
