"""Installs and removals of packages in a target: by pip, uv or conda, whichever manages them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from gpuenv.doctor.installed import is_condas, own_cupys, within_reach
from gpuenv.doctor.registry import CheckContext
from gpuenv.matrix.alternatives import conda_candidates, conda_choice
from gpuenv.matrix.resolve import changes_text, judge
from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Fix
from gpuenv.model.resolution import Candidate, CandidateKind, CondaChoice, Reachable
from gpuenv.model.snapshot import CupyInstallation, PackageLocation, Snapshot, SourceState, Target


def pip_fix(snapshot: Snapshot, text: str, *arguments: str) -> Fix:
    """An install or uninstall in the target: by conda for conda's packages, else by pip, or by uv without pip.

    An externally managed target gets no command. ``text`` is a sentence, ``arguments`` are those of pip.
    """
    target = snapshot.target
    interpreter = target.executable.value or "python"
    named = [name_in(word) for word in names_in(arguments[1:])] if target.conda_packages else []
    if named and all(conda_record(name, target.conda_packages) for name in named):
        return Fix(f"{text} Conda put it there.", ("conda", *_condas_words(target, arguments, named)), safe=True)
    if target.externally_managed.value:
        stop = "" if text.endswith(".") else "."
        return Fix(f"{text}{stop} The system manages this Python: do it in a virtual environment of your own.")
    asked = snapshot.source("target").state is SourceState.ANSWERED  # else nobody knows that pip is not there
    if "pip" in target.packages or not target.python.known or not asked:
        return Fix(text, (interpreter, "-m", "pip", *arguments), safe=True)
    plain = tuple(argument for argument in arguments if argument != "-y")
    return Fix(text, ("uv", "pip", plain[0], "--python", interpreter, *plain[1:]), safe=True)


def name_in(requirement: str) -> str:
    """The canonical name of a distribution in a requirement, be its release one that packaging refuses."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and few targets need it
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    try:
        name = Requirement(requirement).name
    except InvalidRequirement:  # metadata may say any release: numpy==1.26-patched
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return canonicalize_name(name)


def names_in(words: Sequence[str]) -> tuple[str, ...]:
    """What the arguments of an install or a removal name, apart from options; ``--python`` has an argument."""
    return tuple(
        word for n, word in enumerate(words) if not word.startswith("-") and (n == 0 or words[n - 1] != "--python")
    )


def condas_cupy(target: Target) -> tuple[str, ...]:
    """Every package of conda's CuPy: what is done to one leaves the files of the others as they are."""
    return tuple(name for name in target.conda_packages if is_cupy(name))


def condas_anew(target: Target, names: tuple[str, ...]) -> tuple[str, ...]:
    """Conda's words to put packages in anew; CuPy in the release that is there, from the matrix's channel."""
    there = target.conda_packages
    channel = ("--channel=conda-forge",) if any(map(is_cupy, names)) else ()
    specs = (f"{name}={there[name]}" if is_cupy(name) else name for name in names)
    return ("install", "--force-reinstall", *condas_prefix(target), *channel, *specs)


def _condas_words(target: Target, arguments: tuple[str, ...], named: list[str]) -> tuple[str, ...]:
    """The arguments for conda that do what these arguments do for pip."""
    of_each = (condas_cupy(target) if is_cupy(name) else (name,) for name in named)
    packages = tuple(dict.fromkeys(chain.from_iterable(of_each)))
    if arguments[0] == "uninstall":
        return ("remove", *condas_prefix(target), *packages)
    if "--force-reinstall" in arguments:
        return condas_anew(target, packages)
    return ("install", *condas_prefix(target), *names_in(arguments[1:]))


def condas_prefix(target: Target) -> tuple[str, ...]:
    """Conda's words for the environment."""
    prefix = target.prefix.value
    return (f"--prefix={prefix}",) if prefix else ()


def keep_condas(ctx: CheckContext, foreign: tuple[str, ...]) -> tuple[Fix, ...]:
    """How conda's packages are kept and pip's removed; both share CuPy's files, so that conda reinstalls its own."""
    alternative = Fix("Or keep pip's, in an environment without conda's CuPy and CUDA packages.")
    again = condas_cupy(ctx.snapshot.target)
    remove = pip_fix(ctx.snapshot, "Keep conda's: remove pip's.", "uninstall", "-y", *foreign)
    if not again:
        return (remove, alternative)
    anew = Fix(
        "Then let conda put its own in anew, for files of it went with pip's.",
        ("conda", *condas_anew(ctx.snapshot.target, again)),
    )
    return (remove, anew, alternative)


def install_fix(ctx: CheckContext, text: str) -> tuple[Fix, ...]:
    """The commands that install what the resolver chose into the target; empty where nothing fits.

    Another CuPy is removed first, since all lines share the module's files; conda does that itself.
    """
    conda = ctx.resolution.conda
    if conda is not None and is_condas(ctx.snapshot.target):
        said = f"{of_conda(text).removesuffix('.')}: {' '.join(conda.specs)}"
        return (
            Fix(
                said,
                ("conda", "install", *condas_prefix(ctx.snapshot.target), f"--channel={conda.channel}", *conda.specs),
                safe=True,
            ),
        )
    if is_condas(ctx.snapshot.target):
        ways = _conda_way(ctx, of_conda(text), condas_prefix(ctx.snapshot.target))
        return ways if any(fix.safe for fix in ways) else (*ways, *_wheel_fixes(ctx, "Or, by pip, install"))
    return _wheel_fixes(ctx, text)


def only_one(ctx: CheckContext) -> tuple[Fix, ...]:
    """How one CuPy is left of several, the right one."""
    target = ctx.snapshot.target
    outside = tuple(out_of_the_way(entry) for entry in target.cupy if not within_reach(entry, target))
    own = own_cupys(target)
    of_conda_alone = bool(own) and all(conda_record(name, target.conda_packages) for name in own)
    if outside and (of_conda_alone or _is_a_right_one(ctx, own)):
        return outside
    words = "Remove all of them." if not outside else "Remove this environment's."
    removed = (_removal(ctx, words, own),) if own else ()
    return (*outside, *removed, *install_fix(ctx, "Then install the right one."))


def _is_a_right_one(ctx: CheckContext, own: tuple[str, ...]) -> bool:
    """Whether the environment's own CuPy is one, and fits: the best line, or a release that nothing speaks against."""
    chosen, rejected = ctx.resolution.wheel, {entry.candidate for entry in ctx.resolution.rejected}
    if len(own) != 1:
        return False
    there = {entry.release for entry in ctx.snapshot.target.cupy if entry.distribution == own[0]}
    wheels = (
        Candidate(CandidateKind.WHEEL, line.name, release.cupy, extra)
        for line in ctx.matrix.wheel_lines
        for release in line.releases
        if line.name == own[0] and release.cupy in there
        for extra in (None, *release.extras)
    )
    best = chosen is not None and chosen.distribution == own[0]
    return best or any(wheel not in rejected for wheel in wheels)


def _removal(ctx: CheckContext, text: str, names: tuple[str, ...]) -> Fix:
    """Safe where all of them lie in the target; the user's own packages serve other environments too."""
    fix = pip_fix(ctx.snapshot, text, "uninstall", "-y", *names)
    inside = all(entry.is_own for entry in ctx.snapshot.target.cupy if entry.distribution in names)
    return fix._replace(safe=fix.safe and inside)


def of_conda(text: str) -> str:
    """The text of a fix for a conda package instead of a wheel."""
    return text.replace("the wheel", "conda's build")


def _wheel_fixes(ctx: CheckContext, text: str) -> tuple[Fix, ...]:
    """The commands that install the resolver's wheel; nothing where none fits."""
    wheel = ctx.resolution.wheel
    if wheel is None:
        return ()
    there = ctx.snapshot.target.cupy
    others = [entry.distribution for entry in there if entry.distribution != wheel.distribution]
    fixes = []
    if len(there) == 1 and not within_reach(there[0], ctx.snapshot.target):
        fixes.append(out_of_the_way(there[0]))
    elif len(there) == 1 and others:
        instead, found, what = text.partition(" install")  # "Or install ...": the other way begins with the removal
        remove = f"{instead} remove" if found else "Remove"
        fixes.append(_removal(ctx, f"{remove} the CuPy that is there.", tuple(others)))
        text = f"Then install{what}" if found else text
    said = f"{text.removesuffix('.')}: {' '.join(wheel.requirements)}"
    fixes.append(pip_fix(ctx.snapshot, said, "install", *wheel.requirements))
    if wheel.needs_toolkit:
        fixes.append(Fix(f"It needs {wheel.needs_toolkit}."))
    return tuple(fixes)


def out_of_the_way(entry: CupyInstallation) -> Fix:
    """How a CuPy that lies outside of the environment no longer meets its imports."""
    what = f"{entry.label} in {entry.location}"
    if entry.place is PackageLocation.PYTHONPATH:
        return Fix(f"Take the folder of {what} off PYTHONPATH.")
    if entry.place is PackageLocation.USER:
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


_BY_CONDA = frozenset({"target.numpy"})  # what conda moves in the same command

_IN_A_NEW_ONE = frozenset({*_BY_CONDA, "target.python"})  # what another environment has otherwise

_USUAL_PYTHON = "3.12"


class _Way(NamedTuple):
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


def _conda_way(ctx: CheckContext, text: str, prefix: tuple[str, ...]) -> tuple[Fix, ...]:
    """What conda can do where no build fits the environment as it is; ``prefix`` are its arguments."""
    judged = [(wheel, judge(wheel, ctx.needs, ctx.matrix).changes) for wheel in conda_candidates(ctx.matrix)]
    any_numpy = ctx.needs._replace(numpy=None)
    found = (
        _Way(conda_choice(wheel, (), any_numpy, ctx.matrix), Reachable(wheel.candidate, changes))
        for wheel, changes in judged
        if changes
    )
    ways = sorted(found, key=lambda way: way.order)
    told = text.removesuffix(".")
    if not ways:
        why = next((entry for entry in ctx.resolution.rejected if entry.candidate.kind is CandidateKind.CONDA), None)
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
        wanted = next((c.needed for c in way.reachable.changes if c.fact == "target.python"), _USUAL_PYTHON)
        offered = [word for word in wanted.split(", ") if not word.endswith("t")]  # no special build
        words = (f"python={_USUAL_PYTHON if _USUAL_PYTHON in offered else offered[-1]}", *specs)
        said = f"{told}, in an environment of its own (mamba takes the same words): {' '.join(words)}"
        return (Fix(said, ("conda", "create", "--name=ENVIRONMENT", channel, *words)),)
    return (
        Fix(f"With {changes_text(way.reachable)}, conda's build fits: {' '.join(specs)} from {way.choice.channel}."),
    )
