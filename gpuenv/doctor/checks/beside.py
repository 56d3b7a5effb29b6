"""What is installed beside CuPy: lookalikes, frameworks without a GPU, and libraries that need another CuPy."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion

from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.lines import is_cupy, is_published
from gpuenv.model.pattern import pattern
from gpuenv.model.snapshot import NeedOfCupy

_LOOKALIKE = pattern(r"(cupy|cupy-?(cuda|cu|gpu|rocm|hip|amd|nvidia)[\w.-]*|cu-py|cupy-?python)")


@check("WHL514", Cause.UNTRUSTED_PACKAGE_NAME, requires=("ENV401",))
def lookalike(facts: Facts) -> Outcome:
    """A distribution that is not CuPy's own bears such a name.

    What it means: anybody can publish a package whose name looks like a wheel line of CuPy's. What it installs is not
    CuPy, or not CuPy alone, and ran code when it was installed or imported.
    How it is seen: the names of the distributions in the target against those that CuPy has published.
    What to do: see who has published it before you go on; remove it, and install the line that CuPy names.
    """
    known = {line.name for line in facts.matrix.wheel_lines}
    packages = facts.snapshot.target.packages
    odd = {
        name: release
        for name, release in packages.items()
        if _LOOKALIKE.fullmatch(name) and name not in known and not _is_of_cupy(name)
    }
    if not odd:
        return
    yield Symptom(
        f"{', '.join(odd)} is no distribution of CuPy's own",
        tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in odd.items()),
        (
            Fix(f"See who has published it, and remove it where you do not know: pip show {' '.join(odd)}"),
            Fix("The wheels of CuPy are named in its installation guide: cupy-cuda12x, cupy-cuda13x."),
        ),
        Severity.WARNING,
    )


def _is_of_cupy(name: str) -> bool:
    """Source, conda's packages, and the lines that were published."""
    return is_published(name) or (is_cupy(name) and not name.startswith("cupy-cuda"))


@check("WHL515", Cause.CUPY_API_VERSION_INCOMPATIBLE, requires=("WHL502", "WHL503"))
def needs_another_cupy(facts: Facts) -> Outcome:
    """A library above CuPy needs another CuPy than the one that is there.

    What it means: cuDF, cuML, SpaCy and others name the line and the releases of CuPy that they work with. Beside
    another one they fail when they are imported, or later, with an attribute that is missing.
    How it is seen: the Requires-Dist lines in the metadata of the distributions in the target, those of extras aside.
    What to do: install the CuPy that the library needs, or a release of the library for this CuPy, or give each an
    environment of its own.
    """
    there = {entry.distribution: entry.release for entry in facts.snapshot.target.cupy}
    if not there:
        return
    for need in facts.snapshot.target.needs_of_cupy:
        wanted = _unmet(need, there)
        if wanted is None:
            continue
        found = ", ".join(f"{name} {release}" for name, release in there.items())
        yield Symptom(
            f"{need.name} {need.release} needs {wanted}, found {found}",
            (Evidence(f"Requires-Dist of {need.name}", need.requirement, "its metadata"),)
            + tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in there.items()),
            (Fix(f"Install {wanted}, or a release of {need.name} that fits this CuPy, or part the two."),),
            Severity.WARNING,
        )


def _unmet(need: NeedOfCupy, there: dict[str, str]) -> str | None:
    """What is needed and not there; None where it is, where it cannot be understood, or is no CuPy."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and few need CuPy
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    try:
        requirement = Requirement(need.requirement)
        name = canonicalize_name(requirement.name)
        if not is_cupy(name) or (requirement.marker and not requirement.marker.evaluate()):
            return None
        release = there.get(name) or ("" if name != "cupy" else next(iter(there.values())))
        met = bool(release) and requirement.specifier.contains(release, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return None
    return None if met else f"{name}{requirement.specifier}"


_OF_CPU = {
    "tensorflow-cpu": "tensorflow",
    "tensorflow-intel": "tensorflow",
    "torch-cpu": "torch",
    "jaxlib-cpu": "jax",
}


@check("WHL516", Cause.CPU_ONLY_FRAMEWORK, requires=("ENV401", "DRV106", "GPU201", "CTR301"))
def framework_without_gpu(facts: Facts) -> Outcome:
    """A framework beside CuPy is a build for the CPU alone.

    What it means: the machine has a GPU and CuPy uses it, but this framework cannot: arrays cannot be shared without a
    copy, and its computations run on the processor, silently.
    How it is seen: the local version (+cpu) or the name of the distribution; for JAX, that none of its CUDA plug-ins is
    there.
    What to do: install its build for the CUDA major that CuPy uses, where a GPU is meant.
    """
    packages = facts.snapshot.target.packages
    found = {name: release for name, release in packages.items() if release.endswith("+cpu") or name in _OF_CPU}
    plugged = any(re.fullmatch(r"jax-(cuda|rocm)\d*-(plugin|pjrt)", name) for name in packages)
    if "jax" in packages and "jaxlib" in packages and not plugged and "+cuda" not in packages["jaxlib"]:
        found["jaxlib"] = packages["jaxlib"]
    if not found or not facts.snapshot.target.cupy or not facts.snapshot.visible_count.value:
        return
    yield Symptom(
        f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} built for the CPU alone",
        tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in found.items()),
        (Fix("Where it shall use the GPU, install its build for the CUDA major that CuPy uses."),),
        Severity.NOTE,
    )
