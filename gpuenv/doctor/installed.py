"""The CuPy that is installed, as rows of the matrix, and how to install the one that fits. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuenv.doctor.outside import out_of_the_way, own_cupys, within_reach
from gpuenv.doctor.packages import condas_anew, condas_cupy, condas_prefix, pip_fix
from gpuenv.doctor.registry import Facts
from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.packages import Release, WheelLine
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.records import Matrix
from gpuenv.model.finding import Fix
from gpuenv.model.lines import conda_record, cuda_major_of, cuda_minor
from gpuenv.model.resolution import Candidate, CandidateKind
from gpuenv.model.snapshot import CupyInstallation, SourceState
from gpuenv.model.target import Target
from gpuenv.model.versions import CudaVersion

_FIRST_WITH_PATHFINDER = 14


@dataclass(frozen=True, slots=True)
class Installed:
    """The CuPy that an import meets first.

    Attributes:
        cupy: what its metadata says.
        wheel: the row of the matrix to judge it by, without an extra: what is there counts.
        exact: whether that row is of this very release; else it is the nearest one of the same CUDA major.
    """

    cupy: CupyInstallation
    wheel: WheelCandidate
    exact: bool

    @property
    def label(self) -> str:
        """``cupy-cuda12x 14.2.0``."""
        return self.cupy.label


def installed(facts: Facts) -> Installed | None:
    """The installed CuPy by the matrix; None where there is none, or its CUDA major is not known or not covered."""
    found = facts.snapshot.target.cupy
    if not found:
        return None
    major = installed_cuda_major(facts)
    line = _line_of(found[0].distribution, major, _told_cuda(facts.snapshot.target), facts.matrix)
    if line is None:
        return None
    exact = next((release for release in line.releases if release.cupy == found[0].release), None)
    row = exact or _nearest(line, found[0].release)
    same_line = line.name == found[0].distribution
    return Installed(found[0], WheelCandidate(line, row, None), exact is not None and same_line) if row else None


def _is_for(line: WheelLine, cuda: CudaVersion) -> bool:
    return line.first_cuda <= cuda and (line.last_cuda is None or cuda <= line.last_cuda)


def _told_cuda(target: Target) -> CudaVersion | None:
    """The CUDA minor that a line of its own, or conda's toolkit, tells of the CuPy that an import meets first."""
    of_its_line = cuda_minor(target.cupy[0].distribution)
    of_conda = target.conda_packages.get("cudatoolkit") if target.cupy[0].distribution == "cupy" else None
    try:
        return of_its_line or (CudaVersion.parse(of_conda) if of_conda else None)
    except ValueError:
        return None


def _line_of(distribution: str, major: int | None, cuda: CudaVersion | None, matrix: Matrix) -> WheelLine | None:
    """Its own line; for a build that bears no line's name, the one that takes any minor of its CUDA major.

    A major may have several lines: before cupy-cuda11x each minor had one of its own. Where the minor is told, the
    line has to be for it: those of CUDA 10.0 and 10.1, say, were not measured.
    """
    same = [line for line in matrix.wheel_lines if line.cuda_major == major and (cuda is None or _is_for(line, cuda))]
    own = (line for line in same if line.name == distribution)
    of_any_minor = (line for line in same if line.last_cuda is None)
    return next(own, None) or next(of_any_minor, None) or next(iter(same), None)


def installed_cuda_major(facts: Facts) -> int | None:
    """The CUDA major of the CuPy that an import meets first; None where there is none, or it does not tell."""
    return first_cuda_major(facts.snapshot.target)


def first_cuda_major(target: Target) -> int | None:
    """The same of a target."""
    if not target.cupy:
        return None
    first = target.cupy[0]
    return cuda_major_of(first.distribution, target.packages, first.cuda_major)


def _nearest(line: WheelLine, release: str) -> Release | None:
    """The newest release that is no newer, else the oldest."""
    ordered = sorted(line.releases, key=lambda entry: version_of(entry.cupy))
    try:
        older = [entry for entry in ordered if version_of(entry.cupy) <= version_of(release)]
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None
    return older[-1] if older else next(iter(ordered), None)


def older_than_the_matrix(facts: Facts) -> tuple[CupyInstallation, ...]:
    """Every CuPy that is there, where each is older than all releases of the matrix, which tells nothing of them."""
    there = facts.snapshot.target.cupy
    oldest = min(version_of(release.cupy) for line in facts.matrix.wheel_lines for release in line.releases)
    try:
        return there if all(version_of(entry.release) < oldest for entry in there) else ()
    except ValueError:  # InvalidVersion, or more digits than int takes
        return ()


def uses_pathfinder(release: str) -> bool:
    """Whether a CuPy finds CUDA by cuda-pathfinder: 14 and newer do, 13 and older leave it to the loader."""
    try:
        return version_of(release).major >= _FIRST_WITH_PATHFINDER
    except ValueError:  # InvalidVersion, or more digits than int takes
        return False


def why_not_known(facts: Facts) -> str:
    """Why an installed CuPy cannot be judged."""
    found = facts.snapshot.target.cupy
    if not found and facts.snapshot.source("target").state is not SourceState.ANSWERED:
        return "what is installed is not known"
    return f"{found[0].label} is not in the matrix" if found else "there is no CuPy"


def keep_condas(facts: Facts, foreign: tuple[str, ...]) -> tuple[Fix, ...]:
    """How conda's packages stay where pip has put its own beside them; they share CuPy's files, which go with pip's."""
    alternative = Fix("Or keep pip's, in an environment without conda's CuPy and CUDA packages.")
    again = condas_cupy(facts.snapshot.target)
    remove = pip_fix(facts.snapshot, "Keep conda's: remove pip's.", "uninstall", "-y", *foreign)
    if not again:
        return (remove, alternative)
    anew = Fix(
        "Then let conda put its own in anew, for files of it went with pip's.",
        ("conda", *condas_anew(facts.snapshot.target, again)),
    )
    return (remove, anew, alternative)


def is_condas(target: Target) -> bool:
    """Whether CuPy is conda's business there: in an environment of conda's, and no CuPy is another installer's."""
    condas = (conda_record(entry.distribution, target.conda_packages) for entry in target.cupy)
    return target.kind.value == "conda" and all(condas)


def install_fix(facts: Facts, text: str) -> tuple[Fix, ...]:
    """The command that installs what the resolver chose into the target; nothing where nothing fits.

    Another CuPy that is there has to go first, since all lines share the module's files; conda sees to that itself.
    """
    conda = facts.resolution.conda
    if conda is not None and is_condas(facts.snapshot.target):
        said = f"{of_conda(text).removesuffix('.')}: {' '.join(conda.specs)}"
        return (
            Fix(
                said,
                ("conda", "install", *condas_prefix(facts.snapshot.target), f"--channel={conda.channel}", *conda.specs),
                safe=True,
            ),
        )
    if is_condas(facts.snapshot.target):
        from gpuenv.doctor.conda_way import conda_way  # noqa: PLC0415 - for few targets, and the resolver with it

        ways = conda_way(facts, of_conda(text), condas_prefix(facts.snapshot.target))
        return ways if any(fix.safe for fix in ways) else (*ways, *_wheel_fixes(facts, "Or, by pip, install"))
    return _wheel_fixes(facts, text)


def only_one(facts: Facts) -> tuple[Fix, ...]:
    """How one CuPy is left of several, the right one."""
    target = facts.snapshot.target
    outside = tuple(out_of_the_way(entry) for entry in target.cupy if not within_reach(entry, target))
    own = own_cupys(target)
    of_conda_alone = bool(own) and all(conda_record(name, target.conda_packages) for name in own)
    if outside and (of_conda_alone or _is_a_right_one(facts, own)):
        return outside
    words = "Remove all of them." if not outside else "Remove this environment's."
    removed = (_removal(facts, words, own),) if own else ()
    return (*outside, *removed, *install_fix(facts, "Then install the right one."))


def _is_a_right_one(facts: Facts, own: tuple[str, ...]) -> bool:
    """Whether the environment's own CuPy is one, and fits: the best line, or a release that nothing speaks against."""
    chosen, rejected = facts.resolution.wheel, {entry.candidate for entry in facts.resolution.rejected}
    if len(own) != 1:
        return False
    there = {entry.release for entry in facts.snapshot.target.cupy if entry.distribution == own[0]}
    wheels = (
        Candidate(CandidateKind.WHEEL, line.name, release.cupy, extra)
        for line in facts.matrix.wheel_lines
        for release in line.releases
        if line.name == own[0] and release.cupy in there
        for extra in (None, *release.extras)
    )
    best = chosen is not None and chosen.distribution == own[0]
    return best or any(wheel not in rejected for wheel in wheels)


def _removal(facts: Facts, text: str, names: tuple[str, ...]) -> Fix:
    """Safe where all of them lie in the target; the user's own packages serve other environments too."""
    fix = pip_fix(facts.snapshot, text, "uninstall", "-y", *names)
    inside = all(entry.is_own for entry in facts.snapshot.target.cupy if entry.distribution in names)
    return replace(fix, safe=fix.safe and inside)


def of_conda(text: str) -> str:
    """A cure's words where the package is conda's, and no wheel."""
    return text.replace("the wheel", "conda's build")


def _wheel_fixes(facts: Facts, text: str) -> tuple[Fix, ...]:
    """The commands that install the resolver's wheel; nothing where none fits."""
    wheel = facts.resolution.wheel
    if wheel is None:
        return ()
    there = facts.snapshot.target.cupy
    others = [entry.distribution for entry in there if entry.distribution != wheel.distribution]
    fixes = []
    if len(there) == 1 and not within_reach(there[0], facts.snapshot.target):
        fixes.append(out_of_the_way(there[0]))
    elif len(there) == 1 and others:
        instead, found, what = text.partition(" install")  # "Or install ...": the other way begins with the removal
        remove = f"{instead} remove" if found else "Remove"
        fixes.append(_removal(facts, f"{remove} the CuPy that is there.", tuple(others)))
        text = f"Then install{what}" if found else text
    said = f"{text.removesuffix('.')}: {' '.join(wheel.requirements)}"
    fixes.append(pip_fix(facts.snapshot, said, "install", *wheel.requirements))
    if wheel.needs_toolkit:
        fixes.append(Fix(f"It needs {wheel.needs_toolkit}."))
    return tuple(fixes)
