"""CuPy itself: is it there, and once?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.evidence import readings
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.installed import empty_metadata, install_fix, keep_condas, left_in, only_one, own_cupys
from gpuenv.doctor.predicates import seen_to_be_absent
from gpuenv.doctor.registry import Absence, Facts, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.resolve import changes_text
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import SourceState

ONE_CUPY = ("WHL502", "WHL503")  # what a check of the installed CuPy requires: there is one, and no second
_ANOTHER = Fix("If another environment is meant, name it: gpuenv doctor --python PATH")


@check("WHL502", Cause.MULTIPLE_CUPY_PACKAGES, Cause.MIXED_PIP_CONDA, requires=("ENV401",), repair=RepairKind.REPLACE)
def two_cupys(facts: Facts) -> Outcome:
    """Two CuPy distributions share one environment.

    What it means: every wheel line installs the same module, cupy. The files of the one installed last win, and
    removing one removes files of the other. One line twice, in two folders of the path, hides the second.
    How it is seen: the metadata of the distributions in the target.
    What to do: remove all of them, then install the right one. What lies outside of the environment, its installers do
    not reach: take that folder off PYTHONPATH, or remove it there. Where one of them is conda's and another pip's,
    remove pip's, and let conda put in its own anew.
    """
    found = facts.snapshot.target.cupy
    if len(found) < 2:  # noqa: PLR2004 - two
        return
    names = tuple(dict.fromkeys(entry.distribution for entry in found))
    title = f"{len(names)} CuPy distributions share the target: {' and '.join(names)}"
    if len(names) == 1:
        title = f"{names[0]} is on the target's path {len(found)} times; the first one is used"
    records = {name: conda_record(name, facts.snapshot.target.conda_packages) for name in names}
    by_conda = tuple(record for record in records.values() if record)
    own = own_cupys(facts.snapshot.target)  # what lies elsewhere has overwritten nothing
    foreign = tuple(name for name, record in records.items() if not record and name in own)
    mixed = bool(by_conda and foreign)
    if mixed:
        title = f"conda's {', '.join(by_conda)} and pip's {', '.join(foreign)} share the target"
    yield Symptom(
        title,
        tuple(Evidence(entry.distribution, entry.release, entry.location or "its metadata") for entry in found),
        keep_condas(facts, foreign) if mixed else only_one(facts),
        cause=Cause.MIXED_PIP_CONDA if mixed else None,
        # One line twice, in a venv over the system's packages, say: Python imports the first one whole.
        severity=Severity.WARNING if len(names) == 1 else Severity.ERROR,
    )


@check(
    "WHL503",
    Cause.CUPY_NOT_INSTALLED,
    Cause.CORRUPT_INSTALLATION,
    requires=("ENV401", "WHL501"),
    repair=RepairKind.REPLACE,
    absence=Absence.CUPY,
)
def cupy_missing(facts: Facts) -> Outcome:
    """CuPy is not in the target environment.

    What it means: the environment that was examined has no CuPy, under whatever name. It may be in another one. Or its
    files are there without the metadata of a distribution: an installation or a removal was cut short. Or conda has it
    on record, and something else, pip say, has removed its files.
    How it is seen: the metadata of the distributions in the target, conda's records, and the file that an import would
    take; nothing is imported.
    What to do: install the wheel that fits, or name the environment that you mean with --python; remove what is left of
    another one first.
    """
    snapshot = facts.snapshot
    told = "target.cupy" in snapshot.assumed
    if snapshot.target.cupy:
        return
    if snapshot.source("target").state is not SourceState.ANSWERED and not told:
        yield NotKnown("the target was not asked")
        return
    if not told and (site := left_in(snapshot.target)) is not None:
        yield Symptom(
            "Files of CuPy are there, but no distribution owns them: an installation or a removal was cut short",
            readings(snapshot, "target.cupy_module")
            + tuple(Evidence("target.left_metadata", e.path, "tells no name") for e in empty_metadata(snapshot.target))
            + readings(snapshot, "target.kind"),
            (
                Fix(f"Remove the folders cupy, cupyx and cupy_backends, and its metadata, from {site}."),
                *(install_fix(facts, "Then install the wheel that fits.") or _later(facts)),
            ),
            cause=Cause.CORRUPT_INSTALLATION,
        )
        return
    if not told and (recorded := _recorded_alone(facts)) is not None:
        yield recorded
        return
    yield Symptom(
        "CuPy is not in the target environment",
        readings(snapshot, "target.executable", "target.kind"),
        (
            *_near(snapshot.target.environments_near),
            *(install_fix(facts, "Install the wheel that fits.") or _later(facts)),
            *(() if snapshot.target.environments_near else (_ANOTHER,)),
        ),
    )


def _near(environments: Sequence[str]) -> tuple[Fix, ...]:
    """Other environments that may be meant: what is proposed further on is for the one that was examined."""
    return tuple(Fix(f"If {path} is meant, name it.", ("gpuenv", "doctor", "--python", path)) for path in environments)


def _later(facts: Facts) -> tuple[Fix, ...]:
    """What to install once something else has changed; nothing on a machine that has no NVIDIA GPU."""
    snapshot, better = facts.snapshot, facts.resolution.next_better
    instead = bool(snapshot.amd_gpus) or snapshot.host.os.value == "darwin"
    if better is None or seen_to_be_absent(snapshot) or (instead and not facts.needs.gpus):
        return ()
    return (Fix(f"Once there is {changes_text(better)}, install {better.candidate.label}: gpuenv install"),)


def _recorded_alone(facts: Facts) -> Symptom | None:
    """CuPy's files are gone and conda still lists it: conda reinstalls nothing unless it is forced to."""
    target = facts.snapshot.target
    recorded = {name: release for name, release in target.conda_packages.items() if is_cupy(name)}
    if not recorded or target.cupy or target.cupy_module.known:
        return None
    named = [f"{name}=={release}" for name, release in recorded.items()]
    return Symptom(
        f"Conda has {' and '.join(recorded)} on record, and CuPy's files are not there",
        tuple(Evidence(f"target.conda_packages.{name}", release, "conda-meta") for name, release in recorded.items())
        + readings(facts.snapshot, "target.prefix"),
        (pip_fix(facts.snapshot, "Have its files put in anew.", "install", "--force-reinstall", *named),),
        cause=Cause.CORRUPT_INSTALLATION,
    )
