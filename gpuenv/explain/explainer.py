"""Builds the explanation of a scanned text, with the facts of the machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpuenv.doctor.diagnose import Diagnosis
from gpuenv.doctor.registry import all_checks
from gpuenv.explain.classifier import CauseScore, classify, telling_lines
from gpuenv.explain.explanation_types import Explanation, Hit, LikelyCause, QuotedLine
from gpuenv.explain.scan import Scanner
from gpuenv.explain.scoring import NOTHING_KNOWN, DoctorFinding, DoctorVerdict, Ranked, rank_causes
from gpuenv.explain.text_evidence import text_evidence
from gpuenv.model.causes import RUN_DOCTOR, Cause
from gpuenv.model.finding import CheckStatus, Fix, Severity
from gpuenv.model.strings import format_size

_MOST = 5  # causes of one answer
_LINES = 5  # lines of one cause
_CERTAIN = 0.8  # from here on no further fact is named
_MUCH = 20  # known words and pairs: a message alone has fewer, mostly
_BLANK = re.compile(r"\{\w+\}")


def names_any_cause(scanner: Scanner) -> bool:
    """Whether anything in the text names a cause; if not, the machine is not probed."""
    return bool(_ranked(scanner, likely=_scores_in_doubt(scanner)))


def explanation(
    scanner: Scanner, evidence: frozenset[str] = frozenset(), verdict: DoctorVerdict | None = None
) -> Explanation:
    """Explains a text, with evidence from the machine and the doctor's verdict on it."""
    verdict = verdict or DoctorVerdict({})
    likely = _scores_in_doubt(scanner)
    ranked = _ranked(scanner, evidence, verdict, likely)
    words = {score.cause: score.words for score in likely}
    return Explanation(
        causes=tuple(_likely_cause(entry, verdict, scanner.latest, words) for entry in ranked[:_MOST]),
        facts=scanner.stated.facts,
        lines_read=scanner.lines_read,
        notes=_notes(scanner),
    )


def _notes(scanner: Scanner) -> tuple[str, ...]:
    if not scanner.skipped:
        return ()
    return (f"{format_size(scanner.skipped)} before the end of the text were not searched; name a part of it",)


def _scores_in_doubt(scanner: Scanner) -> tuple[CauseScore, ...]:
    """Classifies the text by its words; empty where a known message leaves no doubt."""
    ranked = _ranked(scanner)
    if ranked and ranked[0].confidence >= _CERTAIN:
        return ()
    return _classified("\n".join(line.text for line in scanner.latest), not ranked)


@lru_cache(maxsize=4)
def _classified(text: str, near: bool) -> tuple[CauseScore, ...]:  # noqa: FBT001 - called twice for each text
    return classify(text, near=near)


def _ranked(
    scanner: Scanner,
    evidence: frozenset[str] = frozenset(),
    verdict: DoctorVerdict = NOTHING_KNOWN,
    likely: Sequence[CauseScore] = (),
) -> tuple[Ranked, ...]:
    by_words = {score.cause: score.chance for score in likely}
    is_long_enough = any(score.known >= _MUCH for score in likely)
    return rank_causes(
        scanner.hits, text_evidence(scanner.hits) | evidence, verdict, by_words, words_decide=is_long_enough
    )


def verdict_of(diagnosis: Diagnosis, *, probed: bool) -> DoctorVerdict:
    """The doctor's verdict; a cause is ruled out only if every check of it ran on a real machine.

    Its fixes are used only then: without a machine they are no more specific than those of the cause.
    """
    found = {
        finding.cause: DoctorFinding(finding.code, finding.title, finding.fix if probed else ())
        for finding in reversed(diagnosis.findings)
        if finding.severity is Severity.ERROR
    }
    if not probed:
        return DoctorVerdict(found)
    status = {run.code: run.status for run in diagnosis.checks}
    clean: dict[Cause, bool] = {}
    for check in all_checks():
        for cause in check.causes if check.code in status else ():
            clean[cause] = clean.get(cause, True) and status.get(check.code) is CheckStatus.CLEAN
    return DoctorVerdict(
        found, frozenset(cause for cause, ruled_out in clean.items() if ruled_out and cause not in found)
    )


def _likely_cause(
    entry: Ranked, verdict: DoctorVerdict, latest: Sequence[QuotedLine], words: Mapping[Cause, tuple[str, ...]]
) -> LikelyCause:
    finding = verdict.found.get(entry.cause)
    telling = () if entry.hits else words.get(entry.cause, ())
    lines = tuple({hit.line.number: hit.line for hit in entry.hits}.values())
    own = _check_hit(entry)
    return LikelyCause(
        cause=entry.cause,
        code=finding.code if finding else (own and own.signature.code) or _code(entry),
        confidence=entry.confidence,
        lines=lines[:_LINES] or telling_lines(latest, telling),
        title=_title(entry),
        fix=(own and own.signature.fix) or _fixes(entry.cause, finding),
        would_decide=None if entry.confidence >= _CERTAIN else _decisive_fact(entry),
        surfaced_late=any(hit.signature.asynchronous for hit in entry.hits),
        signatures=tuple(dict.fromkeys(hit.signature.name for hit in entry.hits)),
        supported_by=(f"{finding.code}: {finding.title}",) if finding else (),
        words=telling,
    )


def _fixes(cause: Cause, finding: DoctorFinding | None) -> tuple[Fix, ...]:
    """The fixes of a cause; those of the finding replace the advice to run the doctor."""
    fixes = cause.fix
    if finding is None or not finding.fix or RUN_DOCTOR not in fixes:
        return fixes
    return (*finding.fix, *(fix for fix in fixes if fix != RUN_DOCTOR))


def _check_hit(entry: Ranked) -> Hit | None:
    """The first hit about this cause whose signature names a check of the doctor."""
    about = (hit for hit in entry.hits if hit.signature.code and hit.signature.causes[0][0] is entry.cause)
    return next(about, None)


def _code(entry: Ranked) -> str:
    """The check of the doctor whose own cause this is, or that can find it; else the signature's name."""
    cause = entry.cause
    checks = [check for check in all_checks() if not check.reads_gpu_tests]
    own = next((check.code for check in checks if check.causes[0] is cause), None)
    also = next((check.code for check in checks if cause in check.causes), None)
    return own or also or (entry.hits[0].signature.name if entry.hits else cause.value)


def _title(entry: Ranked) -> str:
    """The signature's sentence where it is about this cause first, else the cause's own."""
    cause = entry.cause
    hit = _check_hit(entry) or (entry.hits[0] if entry.hits else None)
    if hit is None or hit.signature.title is None or hit.signature.causes[0][0] is not cause:
        return _sentence(cause)
    title = hit.signature.title
    for name, value in hit.values:
        title = title.replace(f"{{{name}}}", value)
    return _sentence(cause) if _BLANK.search(title) else title


def _sentence(cause: Cause) -> str:
    return cause.sentence[0].upper() + cause.sentence[1:]


def _decisive_fact(entry: Ranked) -> str | None:
    for hit in entry.hits:
        if hit.signature.decisive_fact:
            decides = hit.signature.decisive_fact
            for name, value in hit.values:
                decides = decides.replace(f"{{{name}}}", value)
            return decides
    return "the facts of the machine: gpuenv explain --probe, or gpuenv doctor"
