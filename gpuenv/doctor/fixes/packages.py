"""Installs and removals of packages in a target by the program that manages them: pip, uv or conda."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpuenv.doctor.fixes.variables import change_fix, without_folders_fixes
from gpuenv.doctor.installed_cupy import is_managed_by_conda, is_removable, removable_cupys
from gpuenv.doctor.registry import CheckContext
from gpuenv.matrix.alternatives import conda_candidates, conda_choice
from gpuenv.matrix.resolve import changes_text, judge
from gpuenv.model.cupy import conda_record, is_cupy
from gpuenv.model.finding import Fix
from gpuenv.model.resolution import Candidate, CandidateKind, Change, Reachable
from gpuenv.model.snapshot import CupyInstallation, PackageLocation, Snapshot, SourceState, Target


def pip_fix(snapshot: Snapshot, text: str, *arguments: str) -> Fix:
    """An install or uninstall in the target: by conda for conda's packages, else by pip, or by uv without pip.

    An externally managed target gets no command. ``text`` is a sentence, ``arguments`` are those of pip.
    """
    target = snapshot.target
    interpreter = target.executable.value or "python"
    names = [canonical_name(text) for text in requirement_arguments(arguments[1:])] if target.conda_packages else []
    if names and all(conda_record(name, target.conda_packages) for name in names):
        return Fix(f"{text} Conda installed it.", ("conda", *_conda_arguments(target, arguments, names)), safe=True)
    if target.externally_managed.value:
        stop = "" if text.endswith(".") else "."
        return Fix(f"{text}{stop} The system manages this Python: use a virtual environment instead.")
    is_probed = snapshot.source("target").state is SourceState.ANSWERED  # else pip may be installed
    if "pip" in target.packages or not target.python.known or not is_probed:
        return Fix(text, (interpreter, "-m", "pip", *arguments), safe=True)
    plain = tuple(argument for argument in arguments if argument != "-y")
    return Fix(text, ("uv", "pip", plain[0], "--python", interpreter, *plain[1:]), safe=True)


def canonical_name(requirement: str) -> str:
    """The canonical name of the distribution in a requirement, even if packaging refuses its release."""
    try:
        name = Requirement(requirement).name
    except InvalidRequirement:  # metadata may have any release: numpy==1.26-patched
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return canonicalize_name(name)


def requirement_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """The requirements among the arguments of an install or removal; ``--python`` has an argument."""
    return tuple(
        argument
        for n, argument in enumerate(arguments)
        if not argument.startswith("-") and (n == 0 or arguments[n - 1] != "--python")
    )


def _conda_cupy_packages(target: Target) -> tuple[str, ...]:
    """Every package of conda's CuPy: changing one does not change the files of the others."""
    return tuple(name for name in target.conda_packages if is_cupy(name))


def _conda_reinstall_arguments(target: Target, names: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of conda that reinstall packages; CuPy in the installed release, from the matrix's channel."""
    records = target.conda_packages
    channel = ("--channel=conda-forge",) if any(map(is_cupy, names)) else ()
    specs = (f"{name}={records[name]}" if is_cupy(name) else name for name in names)
    return ("install", "--force-reinstall", *conda_prefix_option(target), *channel, *specs)


def _conda_arguments(target: Target, arguments: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    """The arguments of conda for these arguments of pip."""
    expanded = (_conda_cupy_packages(target) if is_cupy(name) else (name,) for name in names)
    packages = tuple(dict.fromkeys(chain.from_iterable(expanded)))
    if arguments[0] == "uninstall":
        return ("remove", *conda_prefix_option(target), *packages)
    if "--force-reinstall" in arguments:
        return _conda_reinstall_arguments(target, packages)
    return ("install", *conda_prefix_option(target), *requirement_arguments(arguments[1:]))


def conda_prefix_option(target: Target) -> tuple[str, ...]:
    """The option of conda that names the environment."""
    prefix = target.prefix.value
    return (f"--prefix={prefix}",) if prefix else ()


def keep_conda_fixes(ctx: CheckContext, foreign: tuple[str, ...]) -> tuple[Fix, ...]:
    """How to keep conda's packages and remove pip's; both share CuPy's files, so conda reinstalls its own."""
    alternative = Fix("Or keep pip's, in an environment without conda's CuPy and CUDA packages.")
    packages = _conda_cupy_packages(ctx.snapshot.target)
    remove = pip_fix(ctx.snapshot, "Keep conda's: remove pip's.", "uninstall", "-y", *foreign)
    if not packages:
        return (remove, alternative)
    reinstall = Fix(
        "Then reinstall conda's, because files that they share are gone.",
        ("conda", *_conda_reinstall_arguments(ctx.snapshot.target, packages)),
    )
    return (remove, reinstall, alternative)


def delete_fix(snapshot: Snapshot, text: str, *paths: str) -> Fix:
    """Deletes files and folders; ``text`` is the sentence."""
    is_posix = snapshot.host.os.value != "windows" and all(path.startswith("/") for path in paths)
    return Fix(text, ("rm", "-rf", "--", *paths) if is_posix else None)


def leftovers_fix(snapshot: Snapshot, site: str, *metadata: str) -> Fix:
    """Deletes CuPy's modules, which no distribution owns, and its metadata."""
    and_metadata = ", and the metadata," if metadata else ""
    text = f"Delete the folders cupy, cupyx and cupy_backends{and_metadata} from {site}."
    folders = (f"{site}/{name}" for name in ("cupy", "cupyx", "cupy_backends"))
    return delete_fix(snapshot, text, *folders, *metadata)


def without_cache(fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """The fixes without uv's cache: uv links files from it, so that a file damaged here is damaged there too."""
    return tuple(
        fix._replace(command=(*fix.command, "--no-cache"))
        if fix.command and fix.command[:3] == ("uv", "pip", "install")
        else fix
        for fix in fixes
    )


def new_environment_fixes(text: str, python: str | None = None) -> tuple[Fix, ...]:
    """Creates an environment, with another Python if one is named, and installs CuPy there."""
    create = ("uv", "venv", "--python", python) if python else ("python3", "-m", "venv")
    return (
        Fix(text, (*create, _NEW_ENVIRONMENT)),
        Fix("Then install CuPy there.", ("gpuenv", "install", "--python", _NEW_ENVIRONMENT)),
    )


def install_fixes(ctx: CheckContext, text: str) -> tuple[Fix, ...]:
    """Commands that install the resolver's choice into the target; empty if nothing fits.

    Another CuPy is removed first, since all lines share the module's files; conda does that itself.
    """
    conda, target = ctx.resolution.conda, ctx.snapshot.target
    if not is_managed_by_conda(target):
        return _wheel_fixes(ctx, text)
    by_conda = text.replace("the wheel", "conda's build").removesuffix(".")
    if conda is not None:
        command = ("conda", "install", *conda_prefix_option(target), f"--channel={conda.channel}", *conda.specs)
        return (Fix(f"{by_conda}: {' '.join(conda.specs)}", command, safe=True),)
    fixes = _conda_change_fixes(ctx, by_conda)
    return fixes if any(fix.safe for fix in fixes) else (*fixes, *_wheel_fixes(ctx, "Or, by pip, install"))


def single_cupy_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """How to keep one of several CuPys, the compatible one."""
    target = ctx.snapshot.target
    foreign = (entry for entry in target.cupy if not is_removable(entry, target))
    outside = tuple(fix for entry in foreign for fix in exclude_fixes(ctx.snapshot, entry))
    inside = removable_cupys(target)
    only_conda = bool(inside) and all(conda_record(name, target.conda_packages) for name in inside)
    if outside and (only_conda or _is_compatible(ctx, inside)):
        first = target.cupy[0]
        is_first_used = is_removable(first, target) and {entry.distribution for entry in target.cupy} == set(inside)
        return (*(_leave_or_remove(target) if is_first_used else ()), *outside)
    text = "Remove all of them." if not outside else "Remove those of this environment."
    going = tuple(dict.fromkeys((*inside, *_unneeded_libraries(ctx))))
    removal = (_removal(ctx, text, going),) if inside else ()
    return (*outside, *removal, *install_fixes(ctx, "Then install the wheel that fits this machine."))


def _leave_or_remove(target: Target) -> tuple[Fix, ...]:
    """Fixes if the right copy of one distribution is found first: leave the others, or uninstall them."""
    others = [entry for entry in target.cupy if not is_removable(entry, target)]
    return (
        Fix(f"Leave it as it is, if you like: {target.cupy[0].label} is found first and used."),
        *(Fix(f"Or uninstall {entry.label} with the Python of {entry.location}.") for entry in others),
    )


def _is_compatible(ctx: CheckContext, names: tuple[str, ...]) -> bool:
    """Whether there is exactly one CuPy and it fits: the best line, or a release that no constraint rejects."""
    chosen, rejected = ctx.resolution.wheel, {entry.candidate for entry in ctx.resolution.rejected}
    if len(names) != 1:
        return False
    installed = {entry.release for entry in ctx.snapshot.target.cupy if entry.distribution == names[0]}
    wheels = (
        Candidate(CandidateKind.WHEEL, line.name, release.cupy, extra)
        for line in ctx.matrix.wheel_lines
        for release in line.releases
        if line.name == names[0] and release.cupy in installed
        for extra in (None, *release.extras)
    )
    best = chosen is not None and chosen.distribution == names[0]
    return best or any(wheel not in rejected for wheel in wheels)


def _unneeded_libraries(ctx: CheckContext) -> tuple[str, ...]:
    """CUDA wheels of another major version than that of the wheel that fits, which nothing else needs."""
    wheel = ctx.resolution.wheel
    return tuple(name for name in wheel.replaces if not is_cupy(name)) if wheel else ()


def _removal(ctx: CheckContext, text: str, names: tuple[str, ...]) -> Fix:
    """Uninstalls packages; safe if they lie in the target, since other environments use the user site-packages too."""
    fix = pip_fix(ctx.snapshot, text, "uninstall", "-y", *names)
    inside = all(entry.is_own for entry in ctx.snapshot.target.cupy if entry.distribution in names)
    return fix._replace(safe=fix.safe and inside)


def _wheel_fixes(ctx: CheckContext, text: str) -> tuple[Fix, ...]:
    """The commands that install the resolver's wheel; empty if none fits."""
    wheel = ctx.resolution.wheel
    if wheel is None:
        return ()
    if ctx.snapshot.target.externally_managed.value:
        prefix = "Or create" if text.startswith("Or ") else "Create"
        return new_environment_fixes(f"{prefix} an environment, since the system manages this Python.")
    installed, going = ctx.snapshot.target.cupy, wheel.replaces if len(ctx.snapshot.target.cupy) <= 1 else ()
    fixes: list[Fix] = []
    if len(installed) == 1 and not is_removable(installed[0], ctx.snapshot.target):
        fixes += exclude_fixes(ctx.snapshot, installed[0])
        going = _unneeded_libraries(ctx)
    if going:
        prefix, found, rest = text.partition(" install")  # "Or install ...": the alternative begins with the removal
        remove = f"{prefix} remove" if found else "Remove"
        what = ["the installed CuPy"] if any(map(is_cupy, going)) else []
        what += [] if all(map(is_cupy, going)) else ["the CUDA wheels of another version, which nothing else needs"]
        fixes.append(_removal(ctx, f"{remove} {' and '.join(what)}.", going))
        text = f"Then install{rest}" if found else text
    text = f"{text.removesuffix('.')}: {' '.join(wheel.requirements)}"
    fixes.append(pip_fix(ctx.snapshot, text, "install", *wheel.requirements))
    if wheel.needs_toolkit:
        fixes.append(Fix(f"It needs {wheel.needs_toolkit}."))
    return tuple(fixes)


def exclude_fixes(snapshot: Snapshot, entry: CupyInstallation) -> tuple[Fix, ...]:
    """How to keep imports from finding a CuPy outside of the environment."""
    what, target = f"{entry.label} in {entry.location}", snapshot.target
    if entry.place is PackageLocation.PYTHONPATH:
        found = without_folders_fixes(snapshot, lambda folder: folder == entry.location, "PYTHONPATH")
        return found or (Fix(f"Remove the folder of {what} from PYTHONPATH."),)
    if entry.place is PackageLocation.USER:
        return (_exclude_user_site(snapshot, what),)
    if entry.place is PackageLocation.SYSTEM and target.prefix.value:
        text = (
            f"{what} is found because this environment includes the system's packages. Exclude them, only if the "
            "environment needs none of them: this hides all of them, not CuPy alone."
        )
        line = "s/^(include-system-site-packages *=).*/\\1 false/"
        return (Fix(text, ("sed", "-E", "-i", line, f"{target.prefix.value}/pyvenv.cfg")),)
    return (Fix(f"{what} is outside of this environment: remove it there, or the .pth file that names that folder."),)


def _exclude_user_site(snapshot: Snapshot, what: str) -> Fix:
    text = f"Keep Python from importing {what}: every Python imports from the user site-packages."
    return change_fix(snapshot, "PYTHONNOUSERSITE", "1", text)


def exclude_numpy_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to keep a NumPy of PYTHONPATH or of the user site-packages from hiding the environment's."""
    target = snapshot.target
    module = target.numpy_module.value or ""
    prefix, user = target.prefix.value, target.user_site.value
    folders = [entry.rstrip("/") for entry in snapshot.environment.get("PYTHONPATH", "").split(":") if entry]
    folder = next((entry for entry in folders if module.startswith(f"{entry}/numpy/")), None)
    if folder is not None and not (prefix and module.startswith(f"{prefix}/")):
        return without_folders_fixes(snapshot, lambda entry: entry == folder, "PYTHONPATH")
    # A virtual environment's own packages come before the user site-packages.
    if user and target.kind.value != "venv" and module.startswith(f"{user.rstrip('/')}/numpy/"):
        return (_exclude_user_site(snapshot, f"the NumPy in {user}"),)
    return ()


_MOVED_BY_CONDA = frozenset({"target.numpy"})  # conda changes it in the same command
DEFAULT_PYTHON = "3.12"
_NEW_ENVIRONMENT = "cupy-env"


def _is_new(fact: str) -> bool:
    """Whether a new environment differs in it: its Python and NumPy, and no conflicting packages."""
    return fact in ("target.python", "target.numpy") or fact.startswith("target.packages.")


def _effort(changes: Iterable[Change]) -> tuple[bool, int]:
    """Changes by one command first, then those of a new environment, then those of the machine."""
    facts = {change.fact for change in changes}
    return not facts <= _MOVED_BY_CONDA, sum(not _is_new(fact) for fact in facts)


def _conda_change_fixes(ctx: CheckContext, text: str) -> tuple[Fix, ...]:
    """What conda can do if no build fits the environment as it is."""
    judged = ((wheel, judge(wheel, ctx.needs, ctx.matrix).changes) for wheel in conda_candidates(ctx.matrix))
    reachable = [(wheel, changes) for wheel, changes in judged if changes]
    if not reachable:
        why = next((entry for entry in ctx.resolution.rejected if entry.candidate.kind is CandidateKind.CONDA), None)
        because = f": it needs {why.needed}, found {why.found}" if why else ""
        return (
            Fix(
                f"No conda-forge build of CuPy in the matrix fits here{because}. List older ones.",
                ("conda", "search", "--channel=conda-forge", "cupy"),
            ),
        )
    wheel, changes = min(reachable, key=lambda entry: _effort(entry[1]))
    build = conda_choice(wheel, (), replace(ctx.needs, numpy=None), ctx.matrix)
    specs, channel = build.specs, f"--channel={build.channel}"
    needs_another, of_machine = _effort(changes)
    if not needs_another:
        moved = tuple(f"{change.fact.removeprefix('target.')}{change.needed}" for change in changes)
        text = f"{text}, with what it needs (mamba takes the same arguments): {' '.join((*specs, *moved))}"
        prefix = conda_prefix_option(ctx.snapshot.target)
        return (Fix(text, ("conda", "install", *prefix, channel, *specs, *moved), safe=True),)
    if not of_machine:
        pythons = next((change.needed for change in changes if change.fact == "target.python"), DEFAULT_PYTHON)
        minors = [minor for minor in pythons.split(", ") if not minor.endswith("t")]  # not the free-threaded builds
        packages = (f"python={DEFAULT_PYTHON if DEFAULT_PYTHON in minors else minors[-1]}", *specs)
        text = f"{text}, in a new environment (mamba takes the same arguments): {' '.join(packages)}"
        return (Fix(text, ("conda", "create", f"--name={_NEW_ENVIRONMENT}", channel, *packages)),)
    with_changes = changes_text(Reachable(wheel.candidate, changes))
    return (Fix(f"With {with_changes}, conda's build fits: {' '.join(specs)} from {build.channel}."),)
