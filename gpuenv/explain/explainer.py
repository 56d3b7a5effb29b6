"""From a scanned text to its explanation, with what is known of the machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpuenv.doctor.diagnose import Diagnosis
from gpuenv.doctor.registry import all_checks
from gpuenv.explain.classifier import Likeness, likenesses, telling_lines
from gpuenv.explain.explanation_types import Explanation, Hit, LikelyCause, SaidLine
from gpuenv.explain.scan import Scanner
from gpuenv.explain.scoring import NOTHING_KNOWN, Ranked, Verdict, Word, weigh
from gpuenv.explain.text_evidence import text_marks
from gpuenv.model.causes import RUN_DOCTOR, Cause
from gpuenv.model.finding import CheckStatus, Fix, Severity

_MOST = 5  # causes of one answer
_LINES = 5  # lines of one cause
_CERTAIN = 0.8  # from here on no further fact is asked for
_MUCH = 20  # known words and pairs: a message alone has fewer, mostly
_BLANK = re.compile(r"\{\w+\}")


def says_something(scanner: Scanner) -> bool:
    """Whether anything in the text names a cause; if not, nobody has to look at the machine."""
    return bool(_ranked(scanner, likely=_likenesses_in_doubt(scanner)))


def explanation(scanner: Scanner, marks: frozenset[str] = frozenset(), verdict: Verdict | None = None) -> Explanation:
    """What a text says, with the marks of the machine and the doctor's word on it."""
    verdict = verdict or Verdict({})
    likely = _likenesses_in_doubt(scanner)
    ranked = _ranked(scanner, marks, verdict, likely)
    words = {likeness.cause: likeness.words for likeness in likely}
    return Explanation(
        causes=tuple(_likely_cause(entry, verdict, scanner.latest, words) for entry in ranked[:_MOST]),
        facts=scanner.stated.facts,
        lines_read=scanner.lines_read,
    )


def _likenesses_in_doubt(scanner: Scanner) -> tuple[Likeness, ...]:
    """What the text is like by its words; nothing where a message that is known leaves no doubt."""
    told = _ranked(scanner)
    if told and told[0].confidence >= _CERTAIN:
        return ()
    return _read_likenesses("\n".join(line.text for line in scanner.latest), not told)


@lru_cache(maxsize=4)
def _read_likenesses(text: str, near: bool) -> tuple[Likeness, ...]:  # noqa: FBT001 - it is asked twice for each text
    return likenesses(text, near=near)


def _ranked(
    scanner: Scanner,
    marks: frozenset[str] = frozenset(),
    verdict: Verdict = NOTHING_KNOWN,
    likely: Sequence[Likeness] = (),
) -> tuple[Ranked, ...]:
    by_words = {likeness.cause: likeness.chance for likeness in likely}
    says_much = any(likeness.known >= _MUCH for likeness in likely)
    return weigh(scanner.hits, text_marks(scanner.hits) | marks, verdict, by_words, words_decide=says_much)


def verdict_of(diagnosis: Diagnosis, *, probed: bool) -> Verdict:
    """What the doctor says; a cause is ruled out only where every check of it looked at a real machine.

    Its cures are those of that machine too: of what a text tells alone, they would be as general as any.
    """
    found = {
        finding.cause: Word(finding.code, finding.title, finding.fix if probed else ())
        for finding in reversed(diagnosis.findings)
        if finding.severity is Severity.ERROR
    }
    if not probed:
        return Verdict(found)
    status = {run.code: run.status for run in diagnosis.checks}
    clean: dict[Cause, bool] = {}
    for check in all_checks():
        for cause in check.causes if check.code in status else ():
            clean[cause] = clean.get(cause, True) and status.get(check.code) is CheckStatus.CLEAN
    return Verdict(found, frozenset(cause for cause, ruled_out in clean.items() if ruled_out and cause not in found))


def _likely_cause(
    entry: Ranked, verdict: Verdict, said: Sequence[SaidLine], words: Mapping[Cause, tuple[str, ...]]
) -> LikelyCause:
    word = verdict.found.get(entry.cause)
    telling = () if entry.hits else words.get(entry.cause, ())
    lines = tuple({hit.line.number: hit.line for hit in entry.hits}.values())
    own = _of_a_check(entry)
    return LikelyCause(
        cause=entry.cause,
        code=word.code if word else (own and own.signature.code) or _code(entry),
        confidence=entry.confidence,
        lines=lines[:_LINES] or telling_lines(said, telling),
        title=_title(entry),
        fix=(own and own.signature.fix) or _cures(entry.cause, word),
        would_decide=None if entry.confidence >= _CERTAIN else _decides(entry),
        surfaced_late=any(hit.signature.late for hit in entry.hits),
        signatures=tuple(dict.fromkeys(hit.signature.name for hit in entry.hits)),
        supported_by=(f"{word.code}: {word.title}",) if word else (),
        words=telling,
    )


def _cures(cause: Cause, word: Word | None) -> tuple[Fix, ...]:
    """The cures of a cause; in the place of looking at the machine, what was found when it was looked at."""
    cures = cause.fix
    if word is None or not word.fix or RUN_DOCTOR not in cures:
        return cures
    return (*word.fix, *(cure for cure in cures if cure != RUN_DOCTOR))


def _of_a_check(entry: Ranked) -> Hit | None:
    """The message that says of this cause what one check of the doctor finds, if there is one."""
    about = (hit for hit in entry.hits if hit.signature.code and hit.signature.causes[0][0] is entry.cause)
    return next(about, None)


def _code(entry: Ranked) -> str:
    """The check of the doctor that finds a cause on a machine, the one whose own it is; else the message's own name."""
    cause = entry.cause
    checks = [check for check in all_checks() if not check.reads_gpu_tests]
    own = next((check.code for check in checks if check.causes[0] is cause), None)
    also = next((check.code for check in checks if cause in check.causes), None)
    return own or also or (entry.hits[0].signature.name if entry.hits else cause.value)


def _title(entry: Ranked) -> str:
    """The signature's sentence where it is about this cause first, else the cause's own."""
    cause = entry.cause
    hit = _of_a_check(entry) or (entry.hits[0] if entry.hits else None)
    if hit is None or hit.signature.title is None or hit.signature.causes[0][0] is not cause:
        return _sentence(cause)
    title = hit.signature.title
    for name, value in hit.values:
        title = title.replace(f"{{{name}}}", value)
    return _sentence(cause) if _BLANK.search(title) else title


def _sentence(cause: Cause) -> str:
    return cause.sentence[0].upper() + cause.sentence[1:]


def _decides(entry: Ranked) -> str | None:
    for hit in entry.hits:
        if hit.signature.decides:
            decides = hit.signature.decides
            for name, value in hit.values:
                decides = decides.replace(f"{{{name}}}", value)
            return decides
    return "the facts of the machine: gpuenv explain --probe, or gpuenv doctor"
