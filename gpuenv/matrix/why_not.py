"""Why a line, a release, a conda build or an image was not chosen: looked up in what was judged. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from gpuenv.matrix.candidates import by_preference
from gpuenv.matrix.conda import conda_candidates
from gpuenv.matrix.images import judge_images
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import judge
from gpuenv.model.answers import WhyNot
from gpuenv.model.resolution import Candidate, CandidateKind, Change, Rejection
from gpuenv.model.snapshot import Snapshot

_NAMED = re.compile(r"(?P<name>[A-Za-z][\w./-]*|\d\dx)(?:\[(?P<extra>\w+)\])?(?:(?:==?|:)(?P<version>[\w.-]+))?")


class UnknownCandidateError(ValueError):
    """A name that no candidate has; the message tells those that there are."""


@dataclass(frozen=True, slots=True)
class _Entry:
    candidate: Candidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None


def why_not(snapshot: Snapshot, name: str, matrix: Matrix) -> WhyNot:
    """What stands against a candidate.

    Args:
        snapshot: the machine.
        name: ``cupy-cuda13x``, ``13x``, ``cupy-cuda13x==14.1.0``, ``cupy-cuda13x[ctk]``, ``conda``, or an image.
        matrix: the rows.

    Raises:
        UnknownCandidateError: where no candidate has that name.
    """
    entries = _entries(snapshot, matrix)
    entry = _meant(name, entries)
    alike = [other for other in entries if other.candidate.kind is entry.candidate.kind]
    best = next((other.candidate for other in alike if not other.rejections), None)
    preferred = best if best is not None and best != entry.candidate else None
    changes = entry.changes if entry.rejections else None
    return WhyNot(entry.candidate, entry.rejections, changes, preferred, matrix.revision)


def _entries(snapshot: Snapshot, matrix: Matrix) -> list[_Entry]:
    needs = needs_of(snapshot, matrix)
    wheels = (*by_preference(needs, matrix), *conda_candidates(matrix))
    judged = [judge(wheel, needs, matrix) for wheel in wheels]
    found = [_Entry(entry.wheel.candidate, entry.rejections, entry.changes) for entry in judged]
    for image in judge_images(needs, matrix):
        repository, _, tag = image.image.reference.partition(":")
        found.append(_Entry(Candidate(CandidateKind.IMAGE, repository, tag), image.rejections, None))
    return found


def _meant(name: str, entries: list[_Entry]) -> _Entry:
    """The first of that name that fits, else the first: they stand in the order of preference."""
    told = _NAMED.fullmatch(name.strip())
    if told is None:
        raise UnknownCandidateError(f"--why-not {name}: expected a line such as cupy-cuda13x, a release or an image")
    wanted = told["name"].lower()
    full = f"cupy-cuda{wanted}" if re.fullmatch(r"\d\dx", wanted) else wanted
    named = [entry for entry in entries if _is_named(entry.candidate, full)]
    if not named:
        known = list(dict.fromkeys(entry.candidate.name for entry in entries))
        near = difflib.get_close_matches(full, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownCandidateError(f"--why-not {name}: not judged{hint} (one of {', '.join(known)})")
    meant = [
        entry
        for entry in named
        if told["version"] in (None, entry.candidate.version) and told["extra"] in (None, entry.candidate.extra)
    ]
    if not meant:
        versions = ", ".join(dict.fromkeys(entry.candidate.version for entry in named))
        raise UnknownCandidateError(f"--why-not {name}: no such release is in the matrix (one of {versions})")
    newest = [entry for entry in meant if entry.candidate.version == meant[0].candidate.version]
    return next((entry for entry in newest if not entry.rejections), newest[0])


def _is_named(candidate: Candidate, name: str) -> bool:
    if candidate.kind is CandidateKind.CONDA:
        return name == "conda" or candidate.name.startswith(f"{name}:")
    return candidate.name == name
