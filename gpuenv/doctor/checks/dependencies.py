"""What CuPy needs itself: the distributions beside it without which it cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.registry import Facts, Outcome, RepairKind, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Severity
from gpuenv.model.snapshot import Target

# Those that the target tells of by their names; NumPy has a check of its own.
_LISTED = ("cuda-", "fastrlock", "nvidia-")


@dataclass(frozen=True, slots=True)
class _Unmet:
    """A requirement of CuPy's that is not met.

    Attributes:
        words: its own.
        name: the distribution.
        release: the one that is there; None for none.
        lacking: whether there is none, or one that is too old; a newer one than was foreseen may do.
    """

    words: str
    name: str
    release: str | None
    lacking: bool


@check("WHL517", Cause.CORRUPT_INSTALLATION, requires=("WHL502", "WHL503"), repair=RepairKind.ADD)
def dependency_missing(facts: Facts) -> Outcome:
    """A distribution that CuPy needs is not there, or is of another release.

    What it means: CuPy was installed without what it requires (--no-deps, a copied folder), or that was removed or
    replaced later: CuPy 14 finds CUDA by cuda-pathfinder, older ones need fastrlock. Without it, or with one that is
    too old, import cupy fails; a newer one than CuPy foresees may do.
    How it is seen: the Requires-Dist lines in CuPy's metadata, those of extras aside, against what is installed.
    What to do: install what is missing into the target, in a release that CuPy's metadata allows.
    """
    target = facts.snapshot.target
    unmet = list(_unmet(target))
    if not unmet:
        return
    cupy = target.cupy[0]
    told = " and ".join(f"{entry.words} (found {entry.release or 'none'})" for entry in unmet)
    yield Symptom(
        f"{cupy.label} needs {told}",
        tuple(Evidence(f"Requires-Dist of {cupy.distribution}", entry.words, "its metadata") for entry in unmet)
        + tuple(Evidence(f"target.packages.{entry.name}", entry.release or "none", "its metadata") for entry in unmet),
        (pip_fix(facts.snapshot, "Install it.", "install", *(entry.words.replace(" ", "") for entry in unmet)),),
        Severity.ERROR if any(entry.lacking for entry in unmet) else Severity.WARNING,
    )


def _unmet(target: Target) -> Iterator[_Unmet]:
    cupy = target.cupy[0] if target.cupy else None
    wanted = [words for words in (cupy.requires if cupy else ()) if words.lower().replace("_", "-").startswith(_LISTED)]
    if not wanted:
        return
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and not all have needs
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    there = {**target.conda_packages, **target.packages}
    for words in wanted:
        try:
            requirement = Requirement(words)
            if requirement.marker is not None:
                continue
            name = canonicalize_name(requirement.name)
            release = there.get(name)
            if release is None or not requirement.specifier.contains(release, prereleases=True):
                least = SpecifierSet(",".join(str(part) for part in requirement.specifier if part.operator == ">="))
                lacking = release is None or not least.contains(release, prereleases=True)
                yield _Unmet(words, name, release, lacking)
        except (InvalidRequirement, InvalidVersion):
            continue  # nothing can be said of it
