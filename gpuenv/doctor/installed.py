"""The installed CuPy as a row of the matrix, what is left of others, and how to install the one that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuenv.doctor.fixes.packages import condas_anew, condas_cupy, condas_prefix, pip_fix
from gpuenv.doctor.registry import Facts
from gpuenv.matrix.alternatives import conda_candidates, conda_choice
from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.ranges import same_release, version_of
from gpuenv.matrix.records import Matrix, Release, WheelLine
from gpuenv.matrix.resolve import changes_text, judge
from gpuenv.model.cupy import conda_record, cuda_major_of, cuda_minor
from gpuenv.model.finding import Fix
from gpuenv.model.resolution import Candidate, CandidateKind, Change, CondaChoice, Reachable
from gpuenv.model.snapshot import CupyInstallation, LeftMetadata, PackagePlace, Snapshot, SourceState, Target
from gpuenv.model.text import pattern
from gpuenv.model.versions import CudaVersion

_FIRST_WITH_PATHFINDER = 14


@dataclass(frozen=True, slots=True)
class Installed:
    """The CuPy that an import finds first.

    Attributes:
        cupy: its metadata.
        wheel: the row of the matrix to judge it by, without an extra.
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
    """The installed CuPy as a row of the matrix; None if there is none, or its CUDA major is unknown or not covered."""
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
    """The CUDA minor of the first CuPy, from the name of its line or from conda's cudatoolkit."""
    of_its_line = cuda_minor(target.cupy[0].distribution)
    of_conda = target.conda_packages.get("cudatoolkit") if target.cupy[0].distribution == "cupy" else None
    try:
        return of_its_line or (CudaVersion.parse(of_conda) if of_conda else None)
    except ValueError:
        return None


def _line_of(distribution: str, major: int | None, cuda: CudaVersion | None, matrix: Matrix) -> WheelLine | None:
    """The line of this name; for a build without a line's name, the line for any minor of its CUDA major.

    A major may have several lines: before cupy-cuda11x each minor had one of its own. Where the minor is known, the
    line has to be for it: those of CUDA 10.0 and 10.1, say, were not measured.
    """
    same = [line for line in matrix.wheel_lines if line.cuda_major == major and (cuda is None or _is_for(line, cuda))]
    own = (line for line in same if line.name == distribution)
    of_any_minor = (line for line in same if line.last_cuda is None)
    return next(own, None) or next(of_any_minor, None) or next(iter(same), None)


def installed_cuda_major(facts: Facts) -> int | None:
    """The CUDA major of the CuPy that an import finds first; None if there is none or it is unknown."""
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
    """The installed CuPys, if each is older than every release of the matrix; else empty."""
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
    """How conda's packages are kept and pip's removed; both share CuPy's files, so that conda reinstalls its own."""
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
    """The commands that install what the resolver chose into the target; empty where nothing fits.

    Another CuPy is removed first, since all lines share the module's files; conda does that itself.
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
        ways = _conda_way(facts, of_conda(text), condas_prefix(facts.snapshot.target))
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
    """The text of a fix for a conda package instead of a wheel."""
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


def within_reach(entry: CupyInstallation, target: Target) -> bool:
    """Whether the environment's own installers can remove it.

    Outside of virtual environments pip removes from the user's own packages too: they are where it installs for a user
    who may not write elsewhere (pip, User Installs). In a virtual environment it leaves them, and uv does everywhere.
    """
    if entry.place is not PackagePlace.USER:
        return entry.is_own
    managed = target.externally_managed.value
    return target.kind.value == "system" and "pip" in target.packages and not managed


def own_cupys(target: Target) -> tuple[str, ...]:
    """The names of those that the environment's own installers can remove."""
    return tuple(dict.fromkeys(entry.distribution for entry in target.cupy if within_reach(entry, target)))


def out_of_the_way(entry: CupyInstallation) -> Fix:
    """How a CuPy that lies outside of the environment no longer meets its imports."""
    what = f"{entry.label} in {entry.location}"
    if entry.place is PackagePlace.PYTHONPATH:
        return Fix(f"Take the folder of {what} off PYTHONPATH.")
    if entry.place is PackagePlace.USER:
        return Fix(f"Remove {what}, or set PYTHONNOUSERSITE=1: these packages of the user's own meet every Python.")
    return Fix(f"{what} is outside of this environment: remove it there, or use an environment without that folder.")


def numpy_out_of_the_way(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to keep a NumPy of PYTHONPATH or of the user's own packages from hiding the environment's."""
    target = snapshot.target
    module = target.numpy_module.value or ""
    prefix, user = target.prefix.value, target.user_site.value
    told = [entry.rstrip("/") for entry in snapshot.environment.get("PYTHONPATH", "").split(":") if entry]
    leads = next((entry for entry in told if module.startswith(f"{entry}/numpy/")), None)
    if leads is not None and not (prefix and module.startswith(f"{prefix}/")):
        return (Fix(f"The NumPy that is imported lies in {leads}: take that folder off PYTHONPATH."),)
    # A virtual environment's own packages come before those of the user.
    if user and target.kind.value != "venv" and module.startswith(f"{user.rstrip('/')}/numpy/"):
        return (
            Fix(f"The NumPy that is imported is the user's own: remove it from {user}, or set PYTHONNOUSERSITE=1."),
        )
    return ()


# Below the prefix, where installers put packages: venv and conda, Debian's folders, and Windows.
_INSTALLED_INTO = pattern(r"(?:local/)?[Ll]ib(?:64)?/(?:(?:python|pypy)[\d.]+t?/)?(?:site|dist)-packages")


def left_in(target: Target) -> str | None:
    """The environment's site-packages folder with a package cupy that no distribution owns; None elsewhere.

    Elsewhere below the prefix it belongs to the user: a source tree in PREFIX/src, say, that a variable leads to.
    """
    empty = empty_metadata(target)
    if empty:
        path = empty[0].path
        return path[: max(path.rfind("/"), path.rfind("\\"))]  # as Windows writes it, too
    package, _, file = (target.cupy_module.value or "").rpartition("/cupy/")
    prefix = target.prefix.value
    if file != "__init__.py" or not prefix or not package.startswith(f"{prefix}/"):
        return None
    return package if _is_installers(package, prefix) else None


def _is_installers(folder: str, prefix: str) -> bool:
    return folder.startswith(f"{prefix}/") and bool(_INSTALLED_INTO.fullmatch(folder[len(prefix) + 1 :]))


def empty_metadata(target: Target) -> list[LeftMetadata]:
    """Unreadable metadata of CuPy next to its files: a power cut, or dangling links."""
    return [entry for entry in target.left_metadata if entry.has_files and entry.release is None]


def other_releases(target: Target) -> list[LeftMetadata]:
    """Metadata of another release than the installed one."""
    there = target.packages
    known = (entry for entry in target.left_metadata if entry.release and entry.name in there)
    return [entry for entry in known if not same_release(entry.release or "", there[entry.name])]


def is_clearable(entry: LeftMetadata, target: Target) -> bool:
    """Whether a transaction in the target removes it: a wheel's metadata, in the folder that its installers use."""
    folder, _, name = entry.path.replace("\\", "/").rpartition("/")
    prefix = (target.prefix.value or "").replace("\\", "/")
    return name.endswith(".dist-info") and bool(prefix) and _is_installers(folder, prefix)


_BY_CONDA = frozenset({"target.numpy"})  # what conda moves in the same command
_IN_A_NEW_ONE = frozenset({*_BY_CONDA, "target.python"})  # what another environment has otherwise
_USUAL_PYTHON = "3.12"


@dataclass(frozen=True, slots=True)
class _Way:
    """A build that would fit, and what has to change for it."""

    choice: CondaChoice
    reachable: Reachable

    @property
    def facts(self) -> frozenset[str]:
        """What has to change."""
        return frozenset(change.fact for change in self.reachable.changes)

    @property
    def order(self) -> tuple[int, int]:
        """What one command does before what a new environment takes, and both before a change of the machine."""
        return 0 if self.facts <= _BY_CONDA else 1, sum(1 for fact in self.facts if not _is_new(fact))

    @property
    def in_a_new_one(self) -> bool:
        """Whether an environment of its own is enough."""
        return all(map(_is_new, self.facts))


def _is_new(fact: str) -> bool:
    """Whether a new environment has it otherwise: its Python and NumPy, and no packages that stand against CuPy."""
    return fact in _IN_A_NEW_ONE or fact.startswith("target.packages.")


def _conda_way(facts: Facts, text: str, prefix: tuple[str, ...]) -> tuple[Fix, ...]:
    """What conda can do where no build fits the environment as it is; ``prefix`` are its arguments."""
    ways = sorted(_ways(facts), key=lambda way: way.order)
    told = text.removesuffix(".")
    if not ways:
        why = next((entry for entry in facts.resolution.rejected if entry.candidate.kind is CandidateKind.CONDA), None)
        because = f": it needs {why.needed}, found {why.found}" if why else ""
        return (
            Fix(
                f"No build of CuPy on conda-forge that the matrix has fits here{because}. conda lists older ones.",
                ("conda", "search", "--channel=conda-forge", "cupy"),
            ),
        )
    way = ways[0]
    specs, channel = way.choice.specs, f"--channel={way.choice.channel}"
    if way.facts <= _BY_CONDA:
        moved = tuple(f"{change.fact.removeprefix('target.')}{change.needed}" for change in way.reachable.changes)
        said = f"{told}, with what it needs (mamba takes the same words): {' '.join((*specs, *moved))}"
        return (Fix(said, ("conda", "install", *prefix, channel, *specs, *moved), safe=True),)
    if way.in_a_new_one:
        python = next((_python(change) for change in way.reachable.changes if change.fact == "target.python"), None)
        words = (f"python={python or _USUAL_PYTHON}", *specs)
        said = f"{told}, in an environment of its own (mamba takes the same words): {' '.join(words)}"
        return (Fix(said, ("conda", "create", "--name=ENVIRONMENT", channel, *words)),)
    return (
        Fix(f"With {changes_text(way.reachable)}, conda's build fits: {' '.join(specs)} from {way.choice.channel}."),
    )


def _ways(facts: Facts) -> Iterator[_Way]:
    for wheel in conda_candidates(facts.matrix):
        judged = judge(wheel, facts.needs, facts.matrix)
        if judged.changes:
            choice = conda_choice(wheel, (), replace(facts.needs, numpy=None), facts.matrix)
            yield _Way(choice, Reachable(wheel.candidate, judged.changes))


def _python(change: Change) -> str:
    """One of those that would do: the usual one, else the last that is no special build."""
    offered = [word for word in change.needed.split(", ") if not word.endswith("t")]
    return _USUAL_PYTHON if _USUAL_PYTHON in offered else offered[-1]
