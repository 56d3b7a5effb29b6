"""A Dockerfile: what is not pinned, and what could not be examined."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from gpuenv.doctor.registry import Symptom
from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.cupy_lines import is_no_line, release_of
from gpuenv.image.dockerfile.install_requests import Install, Manager
from gpuenv.image.dockerfile.rules_docker import OF_CONDA, from_place, symptom_at
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.inspect.rules import FileOutcome, LocatedSymptom, rule
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity

_FAULT = Cause.DOCKERFILE_FAULT


@rule("DKF907", _FAULT)
def not_pinned(target: BuildTarget) -> FileOutcome:
    """A version is not pinned: another day, another image.

    What it means: without a version the newest CuPy that fits Python and NumPy is installed, which need not be the
    newest there is; and a base image without a tag is whatever it is that day. nvidia/cuda has no tag latest at all.
    How it is seen: a requirement without an upper end, a base image without a tag or with latest.
    What to do: pin CuPy with ==, or by a lock or a file of constraints, and name the base image's tag.
    """
    for install in target.cupy:
        named = install.name != "cupy" and not is_no_line(install.name, target.matrix)
        if not install.pinned and not install.from_source and named:
            newest = release_of(target, install)
            pin = f"{install.name}{_extras(install)}=={newest.cupy}" if newest else f"{install.name}==VERSION"
            yield symptom_at(
                install.location,
                f"{install.text.split(' #', maxsplit=1)[0].strip()} is not pinned",
                f"Pin it: {pin}",
                severity=Severity.WARNING,
            )
    for install in target.installs:
        if _of_conda(install) and not install.pinned:
            yield symptom_at(
                install.location,
                f"conda's {install.text} is not pinned",
                f"Pin it: {install.name}={_newest(target)}",
                severity=Severity.WARNING,
            )
    yield from _base_not_pinned(target)


def _of_conda(install: Install) -> bool:
    return install.manager is Manager.CONDA and install.name in OF_CONDA


def _newest(target: BuildTarget) -> str:
    """The newest release of CuPy that the matrix has."""
    releases = (row.cupy for line in target.matrix.wheel_lines for row in line.releases if row.yanked is None)
    return max(releases, key=Version)


def _extras(install: Install) -> str:
    return f"[{','.join(sorted(install.extras))}]" if install.extras else ""


def _base_not_pinned(target: BuildTarget) -> Iterator[LocatedSymptom]:
    name = target.base.name
    if name is None or name.digest is not None or name.tag not in (None, "latest") or name.familiar == "scratch":
        return
    if target.base.nvidia:
        yield symptom_at(
            from_place(target),
            f"{target.base.text}: nvidia/cuda has no tag latest, so the build fails",
            "Name a tag, such as nvidia/cuda:13.0.2-base-ubuntu24.04.",
        )
    elif target.cupy or target.base.has_cuda or any(_of_conda(install) for install in target.installs):
        yield symptom_at(
            from_place(target),
            f"The base image {target.base.text} is not pinned",
            "Name a tag, better with its digest.",
            severity=Severity.WARNING,
        )


@rule("DKF918", _FAULT)
def base_without_name(target: BuildTarget) -> FileOutcome:
    """FROM names no image.

    What it means: the text is not of the form that Docker asks of a name, so that no build begins: "invalid reference
    format", or "repository name must be lowercase".
    How it is seen: the name against the grammar of names (distribution/reference). Unknown variables, and
    digests by another method than sha256, are left alone.
    What to do: write it as name:tag, the name in lower case.
    """
    base = target.base
    if base.text and base.name is None and is_known(base.text) and "@" not in base.text:
        yield symptom_at(
            from_place(target),
            f"{base.text[:80]} is no name of an image, so the build fails",
            "Write it as name:tag, the name in lower case.",
            Evidence("base image", base.text[:200], f"line {target.first.line}"),
        )


@rule("DKF920", _FAULT)
def no_such_line(target: BuildTarget) -> FileOutcome:
    """A distribution is named as CuPy's lines are, and is none of them.

    What it means: from CUDA 11.2 on there is one line for each major (cupy-cuda11x, cupy-cuda12x, cupy-cuda13x); a name
    such as cupy-cuda121 is not CuPy's: either nothing of that name is found, or what another party has registered.
    How it is seen: the name against CuPy's lines, those of old releases too.
    What to do: install the line of the CUDA major.
    """
    newest = max(line.cuda_major for line in target.matrix.wheel_lines)
    for install in target.cupy:
        if is_no_line(install.name, target.matrix):
            digits = re.match(r"cupy-cuda-?(1\d)", install.name)
            major = int(digits[1]) if digits is not None and int(digits[1]) <= newest else newest
            yield symptom_at(
                install.location,
                f"{install.name} is no distribution of CuPy's",
                f"Install cupy-cuda{major}x, or the line of the CUDA that is meant.",
                Evidence("CuPy", install.text, install.location.file),
                severity=Severity.WARNING if install.perhaps else Severity.ERROR,
            )


_PATTERN = re.compile(r"[*?\[]")
_LOCK = re.compile(r"\.lock$|(?:^|/)pylock\.")  # what an install may do without


@rule("DKF917", _FAULT)
def passed_over(target: BuildTarget) -> FileOutcome:
    """A file that the Dockerfile installs from was not looked at.

    What it means: what it installs is not known here, so it is neither approved nor rejected.
    How it is seen: the file lies outside of the build context, where no build can read it either; or it is not there,
    or a step of the build makes it; or it cannot be read; or it is larger than such files are, or one of too many. One
    that .dockerignore keeps out is a warning: the step that copies it or installs from it fails.
    What to do: check it by itself; let a file that is needed into the build context.
    """
    for name, ignore_file in target.kept_out.items():
        symptom = Symptom(
            f"{name} is installed from, and .dockerignore keeps it out of the build context",
            (Evidence("file", name, ignore_file),),
            (Fix(f"Let it in, with a line !{name} at the end of {ignore_file}."),),
            Severity.NOTE if _LOCK.search(name) else Severity.WARNING,
        )
        yield LocatedSymptom(symptom, target.file, 1)
    alone = "Check it by itself."
    entries = [(name, why, 1, alone) for name, why in target.passed_over.items()]
    where = f"Name that folder with --context; or c{alone[1:]}"
    for _, line, name in target.missing:
        if _PATTERN.search(name):
            entries.append((name, "which files a pattern of the shell's names is not followed", line, "Check them."))
        else:
            entries.append((name, "no COPY brings it from the build context", line, where))
    for name, why, line, fix in entries:
        symptom = Symptom(
            f"{name} was not looked at: {why}",
            (Evidence("file", name, target.file),),
            (Fix(fix),),
            Severity.NOTE,
        )
        yield LocatedSymptom(symptom, target.file, line)
