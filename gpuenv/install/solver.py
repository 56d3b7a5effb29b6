"""Runs the installer's resolver: what it would install, the digests, and the reasons for a failure."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpuenv.install.backends.base import FALSE, Files, InstallerOptions, complaint, succeeded
from gpuenv.install.exceptions import (
    DAMAGED,
    NO_VERSIONS,
    REFUSED,
    InstallFailed,
    NothingFits,
    is_external,
    remedy_for,
)
from gpuenv.install.installer_config import CONSTRAINTS, InstallerRun, relevant_settings, settings_text
from gpuenv.install.plan import Pin, PlannedCommand
from gpuenv.matrix.ranges import same_release
from gpuenv.model.dependencies import Dependency, allows, required_name
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildResult

_CONFLICT = re.compile(r"No solution found|ResolutionImpossible|conflict|No matching distribution", re.IGNORECASE)
# Messages of uv 0.13.9, offline, for a package that its cache lacks: the last for one with an extra, which reads the
# same as for a release that no index has.
_NOT_CACHED = re.compile(
    r"not found in the cache|to be downloaded from a registry|network was disabled|[Tt]here (?:is|are) no versions? of"
)
_OTHER_VERSIONS = re.compile(r"only the following versions of \S+ are available")
# uv 0.6.15 to 0.13.9: a dependency conflicts with an installed or requested version; other versions may be named too.
_DEPENDENCY_CONFLICT = re.compile(r"depends on ([\w.-]+)(?![\w.-])\S*\s+and\s+\1[<>=]\S*,\s+we\s+can\s+conclude")
_NO_INDEX = re.compile(
    rf"{NO_VERSIONS.pattern}|[Tt]here (?:is|are) no versions? of|not found in the (?:package registry|provided)"
    r"|only the following versions of \S+ are available"  # uv 0.13.9, of a range in which no version is
)
_INVALID = re.compile(r"invalid (?:package format|wheel)|structure of .* was invalid|metadata.* (?:was|is) invalid")
_NOT_FETCHED = re.compile(r"Could not fetch URL .+ - skipping")  # pip prints it with -vv alone
_RETRIED = "Retrying"  # pip, in a warning with the reason
_MAX_NAMES = 5
SEPARATE_ENVIRONMENT = "Install into a separate environment: python -m venv NAME, then gpuenv install --python NAME."
_CHECK_INDEX = (
    "Check the index in use (UV_DEFAULT_INDEX, uv.toml, pip config list): it lacks that release, or its wheel for "
    "this Python and platform."
)


class SolverResult(NamedTuple):
    """What the installer would install, and the commands that were run."""

    pins: tuple[Pin, ...]
    commands: tuple[PlannedCommand, ...]


class Lock(NamedTuple):
    """Exact versions with digests, and the installer's ``pylock.toml``, if it writes one."""

    pins: tuple[Pin, ...]
    pylock: str | None


class _InstallerCall(NamedTuple):
    """A call of the installer: the command, its result, and the text of the file it wrote."""

    command: tuple[str, ...]
    result: ChildResult
    answer: str


def _run(
    installer_run: InstallerRun,
    command: Callable[[InstallerOptions, Files], tuple[str, ...]],
    requirements: Sequence[str],
    constraints: Sequence[str] = (),
    options: Sequence[str] = (),
) -> _InstallerCall:
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = Files(*(Path(name, file) for file in ("requirements.txt", "constraints.txt", "answer.json")))
        files.requirements.write_text("".join(f"{text}\n" for text in requirements), encoding="utf-8")
        files.constraints.write_text("".join(f"{text}\n" for text in constraints), encoding="utf-8")
        argv = (*command(installer_run.options, files), *options)
        result = installer_run.run(argv)
        if NO_VERSIONS.search(result.stderr) and _RETRIED not in result.stderr:
            verbose = installer_run.run((*argv, "-vv"))
            reasons = dict.fromkeys(_NOT_FETCHED.findall(f"{verbose.stdout}\n{verbose.stderr}"))
            result = result._replace(stderr="\n".join([*reasons, result.stderr]))
        with _unreadable_answers(installer_run):
            answer = files.answer.read_text(encoding="utf-8") if files.answer.exists() else ""
    return _InstallerCall(argv, result, answer)


def resolve_pins(
    installer_run: InstallerRun, requirements: Sequence[str], constraints: Sequence[str]
) -> tuple[SolverResult | None, str]:
    """Resolves under constraints; None and the reason if that is impossible.

    Raises:
        InstallFailed: when the installer fails for another reason, such as no network.
    """
    run = _run(installer_run, installer_run.installer.resolve_command, requirements, constraints)
    why = _conflict(installer_run, requirements, run.result, "could not report what would change")
    if why is not None:
        return None, why
    with _unreadable_answers(installer_run):
        pins = installer_run.installer.parse_resolved(run.result.stdout + "\n" + run.result.stderr, run.answer)
    return SolverResult(pins, (PlannedCommand("query what would change", run.command),)), ""


def make_lock(
    installer_run: InstallerRun, requirements: Sequence[str], constraints: Sequence[str], options: Sequence[str] = ()
) -> tuple[Lock | None, str]:
    """Locks requirements for an empty environment under constraints; None and the reason if that is impossible.

    ``options`` are further options of the installer, such as another Python and platform.

    Raises:
        InstallFailed: when the installer fails for another reason.
    """
    run = _run(installer_run, installer_run.installer.lock_command, requirements, constraints, options)
    why = _conflict(installer_run, requirements, run.result, "could not make the lock")
    if why is not None:
        return None, why
    with _unreadable_answers(installer_run):
        pins = installer_run.installer.parse_locked(run.result.stdout, run.answer)
    refuse_other(installer_run, requirements, {pin.name: pin.release for pin in pins})
    return Lock(pins, run.result.stdout if installer_run.installer.locks_as_toml else None), ""


def resolve_at_once(
    installer_run: InstallerRun, requirements: Sequence[str], constraints: Sequence[str], installed: Mapping[str, str]
) -> SolverResult | None:
    """Resolves with digests in one call, by locking all ``installed`` packages.

    None if that fails: with pip, or if a package has to change, or is installed in a version that no index has.
    ``resolve_pins`` then takes two calls and reports the reason.
    """
    if not installer_run.installer.locks_as_toml:
        return None
    run = _run(installer_run, installer_run.installer.lock_command, requirements, constraints)
    if not succeeded(run.result):
        return None
    try:
        pins = installer_run.installer.parse_locked(run.result.stdout, run.answer)
    except ValueError:
        return None
    coming = tuple(pin for pin in pins if not same_release(installed.get(pin.name, ""), pin.release))
    return SolverResult(coming, (PlannedCommand("query what would change", run.command),))


def with_digests(installer_run: InstallerRun, resolved: SolverResult) -> SolverResult:
    """Adds the digests of the wheels, and their sizes if the index reports them.

    Raises:
        InstallFailed: when the installer fails, or has no digest of a pin.
    """
    undigested = [f"{pin.name}=={pin.release}" for pin in resolved.pins if not pin.sha256]
    if not undigested:
        return resolved
    run = _run(installer_run, installer_run.installer.digest_command, undigested)
    if not succeeded(run.result):
        why = complaint(run.result)
        raise InstallFailed(
            f"{installer_run.installer.label} could not report the digests: {why}", remedy_of(why, installer_run)
        )
    with _unreadable_answers(installer_run):
        found = {pin.name: pin for pin in installer_run.installer.parse_locked(run.result.stdout, run.answer)}
    pins = []
    for pin in resolved.pins:
        known = pin if pin.sha256 else found.get(pin.name)
        if known is None or known.release != pin.release or not known.sha256:
            raise InstallFailed(f"no digest was found for {pin.name} {pin.release}")
        pins.append(replace(known, former=pin.former))
    return SolverResult(tuple(pins), (*resolved.commands, PlannedCommand("query the digests", run.command)))


def _conflict(
    installer_run: InstallerRun, requirements: Sequence[str], result: ChildResult, failure: str
) -> str | None:
    """The reason if the resolver found no solution; None on success.

    Raises:
        InstallFailed: when the installer fails for another reason, such as no index, or files that it lacks offline.
    """
    if succeeded(result):
        return None
    why = complaint(result)
    missing = offline_failure(why, requirements, installer_run)
    if missing is not None:
        raise missing
    if _CONFLICT.search(result.stderr) and not NO_VERSIONS.search(result.stderr) and not _is_unread(why):
        return why
    raise InstallFailed(f"{installer_run.installer.label} {failure}: {why}", remedy_of(why, installer_run))


def _is_unread(why: str) -> bool:
    """Whether a package is missing because the index refused it or sent a damaged file, which uv takes for a conflict.

    A refusal counts only if no version is known: an index may answer 403 for every package that it lacks.
    """
    return bool(_INVALID.search(why) and DAMAGED.search(why)) or bool(_NO_INDEX.search(why) and REFUSED.search(why))


@contextmanager
def _unreadable_answers(installer_run: InstallerRun) -> Iterator[None]:
    """Turns parse errors of the installer's output into install errors."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InstallFailed(
            f"{installer_run.installer.label} printed output that gpuenv cannot read: {error}"
        ) from error


def refuse_other(installer_run: InstallerRun, requirements: Sequence[str], releases: Mapping[str, str]) -> None:
    """Refuses a resolution that ignores a requirement: uv's settings can exclude and override packages.

    ``releases`` are the resulting versions by normalised name.

    Raises:
        NothingFits: when a required package is missing, or has another version.
    """
    required = [(text, name) for text in requirements if (name := required_name(text)) is not None]
    left_out = [name for _, name in required if name not in releases]
    other = [f"{name} {releases[name]} for {text}" for text, name in required if not allows(text, releases.get(name))]
    if left_out or other:
        problem = f"leaves out {', '.join(left_out)}" if left_out else f"takes {', '.join(other)}"
        raise NothingFits(
            f"{installer_run.installer.label} {problem}, because of one of its settings",
            "Check exclude-dependencies, override-dependencies and no-emit-package in uv.toml or pyproject.toml, and "
            "at UV_EXCLUDE and UV_OVERRIDE.",
        )


def remedy_of(why: str, installer_run: InstallerRun) -> str | None:
    """The remedy for a failure of the installer, which may be offline by the user's choice."""
    if not _lacks_files(why, installer_run):
        remedy = remedy_for(why)
        return remedy if is_external(why) else settings_hint(installer_run, why) or remedy
    ways = ["leave out --offline"] if installer_run.options.offline else []
    way = " and ".join(
        [*ways, f"unset {installer_run.installer.offline_variable}"] if _is_offline_by_variable(installer_run) else ways
    )
    transfer = "Or transfer a bundle: gpuenv bundle on a machine with a network, then gpuenv install --bundle here."
    if installer_run.installer.cache_command() is None:
        return f"Allow the network, without which pip's cache cannot be used (uv's can): {way}. {transfer}"
    return f"Fill the cache while online: {way}. {transfer}"


def settings_hint(installer_run: InstallerRun, why: str) -> str | None:
    """Names the user's settings that may cause a failure; no-index only if no version was found."""
    settings = [
        entry for entry in relevant_settings(installer_run) if "no-index" not in entry.key or _NO_INDEX.search(why)
    ]
    return f"Check your own settings first: {settings_text(settings[:_MAX_NAMES])}." if settings else None


def offline_failure(why: str, requirements: Sequence[str], installer_run: InstallerRun) -> InstallFailed | None:
    """The failure of an offline installer that lacks files; None if that is not the reason."""
    if not _lacks_files(why, installer_run):
        return None
    command = installer_run.installer.cache_command()
    cache = installer_run.run(command).stdout.strip() if command else ""
    held = f"its cache holds ({cache})" if cache else "is at hand on this machine"
    message = f"{installer_run.installer.label} lacks files of {' '.join(requirements)}: offline it can only use what "
    return InstallFailed(f"{message}{held}, and it reports: {why}", remedy_of(why, installer_run))


def _lacks_files(why: str, installer_run: InstallerRun) -> bool:
    """Whether files are missing because the installer is offline, other than from a bundle."""
    offline = installer_run.options.offline or _is_offline_by_variable(installer_run)
    is_missing = _NOT_CACHED.search(why) or NO_VERSIONS.search(why)
    if not is_missing and not _DEPENDENCY_CONFLICT.search(why):
        is_missing = _OTHER_VERSIONS.search(why)
    return offline and installer_run.options.find_links is None and is_missing is not None


def _is_offline_by_variable(installer_run: InstallerRun) -> bool:
    """Whether an environment variable makes the installer offline."""
    return installer_run.environment.get(installer_run.installer.offline_variable, "").lower() not in FALSE


def nothing_fits(
    why: str,
    requirements: Sequence[str],
    stay: Sequence[str],
    installer_run: InstallerRun,
    kept: Sequence[Dependency] = (),
    *,
    without_them: str | None,
) -> NothingFits:
    """The error for requirements that conflict with the environment or with the user's settings.

    ``stay`` are the CUDA wheels, and ``kept`` the dependencies of the packages, that the environment keeps;
    ``without_them`` is how to do it without those packages, None if they are not the reason.
    """
    fits_empty = without_them is not None
    details = f" It contains {', '.join(stay)}, which other packages need." if stay and fits_empty else ""
    named = set(re.findall(r"[\w.-]*\w", why.lower())) - {required_name(text) for text in requirements}
    dependents = list(dict.fromkeys(f"{want.by} needs {want.text}" for want in kept if want.name in named))
    if dependents and fits_empty:
        details += f" Installed packages: {', '.join(dependents[:_MAX_NAMES])}."
    constraints = [name for name in CONSTRAINTS if installer_run.environment.get(name)]
    under = "".join(f" and under {name}={hide_secrets(installer_run.environment[name])}" for name in constraints)
    remedy = settings_hint(installer_run, why) or without_them or _CHECK_INDEX
    if constraints:
        remedy = f"Check these constraints first; to remove them: unset {' '.join(constraints)}"
    elif "exclude-newer" in why:
        remedy = "Check exclude-newer in uv.toml or pyproject.toml: it leaves out what was uploaded later."
    here = "be installed with the packages in the environment"
    where = here if fits_empty or constraints else "be installed in any environment"
    return NothingFits(f"{' '.join(requirements)} cannot {where}{under}.{details} {why}", remedy)
