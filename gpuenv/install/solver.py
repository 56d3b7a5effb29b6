"""Asks the installer what it would install and for the digests, and explains why it refuses."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpuenv.install.backends.base import Files, Options, complaint, succeeded
from gpuenv.install.dependencies import Want, allows, required_name
from gpuenv.install.errors import NOTHING_THERE, SURROUNDINGS, InstallError, InstallFailed, NothingFits, remedy_for
from gpuenv.install.installers import CONSTRAINTS, FALSE, Caller, bearing, joined
from gpuenv.install.plan import Command, Pin
from gpuenv.matrix.ranges import same_release
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildResult

_CONFLICT = re.compile(r"No solution found|ResolutionImpossible|conflict|No matching distribution", re.IGNORECASE)
# What uv 0.13.9 says without a network of a package that its cache lacks: the last of one with an extra, of which it
# says the same as of a release that no index has.
_NOT_CACHED = re.compile(
    r"not found in the cache|to be downloaded from a registry|network was disabled|[Tt]here (?:is|are) no versions? of"
)
_NO_INDEX = re.compile(
    rf"{NOTHING_THERE.pattern}|[Tt]here (?:is|are) no versions? of|not found in the (?:package registry|provided)"
)
_NAMED = 5
OF_ITS_OWN = "Install into an environment of its own: python -m venv NAME, then gpuenv install --python NAME."
_OF_THE_INDEX = (
    "Look at the index in use (UV_DEFAULT_INDEX, uv.toml, pip config list): it lacks that release, or its wheel for "
    "this Python and platform."
)


class Resolved(NamedTuple):
    """What the installer would install, and the commands that it was asked with."""

    pins: tuple[Pin, ...]
    commands: tuple[Command, ...]


class Lock(NamedTuple):
    """Exact versions with digests, and the installer's own ``pylock.toml`` where it makes one."""

    pins: tuple[Pin, ...]
    pylock: str | None


class _Run(NamedTuple):
    """A call of the installer: the command, its result, and the file that it has written, if any."""

    command: tuple[str, ...]
    result: ChildResult
    answer: str


def _run(
    caller: Caller,
    command: Callable[[Options, Files], tuple[str, ...]],
    requirements: Sequence[str],
    constraints: Sequence[str] = (),
    words: Sequence[str] = (),
) -> _Run:
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = Files(*(Path(name, file) for file in ("requirements.txt", "constraints.txt", "answer.json")))
        files.requirements.write_text("".join(f"{text}\n" for text in requirements), encoding="utf-8")
        files.constraints.write_text("".join(f"{text}\n" for text in constraints), encoding="utf-8")
        argv = (*command(caller.options, files), *words)
        result = caller.run(argv)
        with _understood(caller):
            answer = files.answer.read_text(encoding="utf-8") if files.answer.exists() else ""
    return _Run(argv, result, answer)


def resolve_pins(caller: Caller, requirements: Sequence[str], constraints: Sequence[str]) -> tuple[Resolved, str]:
    """What would be installed under these constraints; nothing and the reason where that is impossible.

    Raises:
        InstallFailed: when the installer fails for another reason, such as no network.
    """
    run = _run(caller, caller.installer.resolving, requirements, constraints)
    commands = (Command("ask what would change", run.command),)
    why = _conflict(caller, run.result, "could not tell what would change")
    if why is not None:
        return Resolved((), commands), why
    with _understood(caller):
        pins = caller.installer.resolved(run.result.stdout + "\n" + run.result.stderr, run.answer)
    return Resolved(pins, commands), ""


def make_lock(
    caller: Caller, requirements: Sequence[str], constraints: Sequence[str], words: Sequence[str] = ()
) -> tuple[Lock | None, str]:
    """What an empty environment would be given under these constraints; the reason where that is impossible.

    ``words`` are further options of the installer, such as another Python and platform.

    Raises:
        InstallFailed: when the installer fails for another reason.
    """
    run = _run(caller, caller.installer.locking, requirements, constraints, words)
    why = _conflict(caller, run.result, "could not make the lock")
    if why is not None:
        return None, why
    with _understood(caller):
        pins = caller.installer.locked(run.result.stdout, run.answer)
    refuse_other(caller, requirements, {pin.name: pin.release for pin in pins})
    return Lock(pins, run.result.stdout if caller.installer.locks_as_toml else None), ""


def resolve_at_once(
    caller: Caller, requirements: Sequence[str], constraints: Sequence[str], there: Mapping[str, str]
) -> Resolved | None:
    """What would be installed, digests included, by one call that locks everything that is ``there``.

    None where that fails: pip makes no such lock, or something has to move, or is there in a version that no index has.
    ``resolve_pins`` then reports more, and takes two calls.
    """
    if not caller.installer.locks_as_toml:
        return None
    run = _run(caller, caller.installer.locking, requirements, constraints)
    if not succeeded(run.result):
        return None
    try:
        pins = caller.installer.locked(run.result.stdout, run.answer)
    except ValueError:
        return None
    coming = tuple(pin for pin in pins if not same_release(there.get(pin.name, ""), pin.release))
    return Resolved(coming, (Command("ask what would change", run.command),))


def with_digests(caller: Caller, resolved: Resolved) -> Resolved:
    """The same pins with the digests of their wheels, and their sizes where the index has them.

    Raises:
        InstallFailed: when the installer fails, or has no digest of a pin.
    """
    lacking = [f"{pin.name}=={pin.release}" for pin in resolved.pins if not pin.sha256]
    if not lacking:
        return resolved
    run = _run(caller, caller.installer.digesting, lacking)
    if not succeeded(run.result):
        why = complaint(run.result)
        raise InstallFailed(f"{caller.installer.label} could not tell the digests: {why}", remedy_of(why, caller))
    with _understood(caller):
        found = {pin.name: pin for pin in caller.installer.locked(run.result.stdout, run.answer)}
    pins = []
    for pin in resolved.pins:
        known = pin if pin.sha256 else found.get(pin.name)
        if known is None or known.release != pin.release or not known.sha256:
            raise InstallFailed(f"no digest could be had for {pin.name} {pin.release}")
        pins.append(replace(known, former=pin.former))
    return Resolved(tuple(pins), (*resolved.commands, Command("ask for the digests", run.command)))


def _conflict(caller: Caller, result: ChildResult, failure: str) -> str | None:
    """Why the resolver found no solution; None where it found one.

    Raises:
        InstallFailed: when the installer fails for another reason: no index, say.
    """
    if succeeded(result):
        return None
    why = complaint(result)
    if _CONFLICT.search(result.stderr) and not NOTHING_THERE.search(result.stderr):
        return why
    raise InstallFailed(f"{caller.installer.label} {failure}: {why}", remedy_of(why, caller))


@contextmanager
def _understood(caller: Caller) -> Iterator[None]:
    """Makes a failure of the installer of an answer that cannot be read."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InstallFailed(f"{caller.installer.label} gave an answer that is not understood: {error}") from error


def refuse_other(caller: Caller, requirements: Sequence[str], releases: Mapping[str, str]) -> None:
    """Refuses an answer other than what was required: uv's settings can exclude and override packages.

    ``releases`` are the versions that would be there, by normalised name.

    Raises:
        NothingFits: when a requirement is missing, or not in a version that it allows.
    """
    required = [(text, name) for text in requirements if (name := required_name(text)) is not None]
    left_out = [name for _, name in required if name not in releases]
    other = [f"{name} {releases[name]} for {text}" for text, name in required if not allows(text, releases.get(name))]
    if left_out or other:
        what = f"leaves out {', '.join(left_out)}" if left_out else f"takes {', '.join(other)}"
        raise NothingFits(
            f"{caller.installer.label} {what}, as one of its settings tells it to",
            "Look at exclude-dependencies, override-dependencies and no-emit-package in uv.toml or pyproject.toml, and "
            "at UV_EXCLUDE and UV_OVERRIDE.",
        )


def remedy_of(why: str, caller: Caller) -> str | None:
    """What to do about a failure of the installer; without a network, that may be the user's own choice."""
    if not _lacks_files(why, caller):
        usual = remedy_for(why)
        return usual if SURROUNDINGS.search(why) else look_at_settings(caller, why) or usual
    ways = ["leave out --offline"] if caller.options.offline else []
    way = " and ".join([*ways, f"unset {caller.installer.offline_variable}"] if _told_offline(caller) else ways)
    over = "Or carry everything over: gpuenv bundle there, gpuenv install --bundle here."
    if caller.installer.telling_cache() is None:
        return f"Let it use the network, without which its cache is of no use (that of uv would be): {way}. {over}"
    return f"Fill the cache while there is a network: {way}. {over}"


def look_at_settings(caller: Caller, why: str) -> str | None:
    """Names the user's own settings that may cause a failure; no-index only where nothing was found."""
    settings = [entry for entry in bearing(caller) if "no-index" not in entry.key or _NO_INDEX.search(why)]
    return f"Look first at your own settings that bear on it: {joined(settings[:_NAMED])}." if settings else None


def lacking(why: str, requirements: Sequence[str], caller: Caller) -> InstallFailed | None:
    """The failure of an installer that may use no network and lacks files; None where that is not the reason."""
    if not _lacks_files(why, caller):
        return None
    command = caller.installer.telling_cache()
    cache = caller.run(command).stdout.strip() if command else ""
    held = f"its cache holds ({cache})" if cache else "is at hand on this machine"
    message = f"{caller.installer.label} lacks files of {' '.join(requirements)}: without a network it takes what "
    return InstallFailed(f"{message}{held}, and says: {why}", remedy_of(why, caller))


def _lacks_files(why: str, caller: Caller) -> bool:
    """Whether files are missing because no network may be used; a bundle has its own."""
    offline = caller.options.offline or _told_offline(caller)
    wanting = _NOT_CACHED.search(why) or NOTHING_THERE.search(why)
    return offline and caller.options.find_links is None and wanting is not None


def _told_offline(caller: Caller) -> bool:
    """Whether a variable of the installer's own keeps it from every index."""
    return caller.environment.get(caller.installer.offline_variable, "").lower() not in FALSE


def nothing_fits(
    why: str,
    requirements: Sequence[str],
    stay: Sequence[str],
    caller: Caller,
    kept: Sequence[Want] = (),
    *,
    beside: bool = True,
) -> InstallError:
    """The error for requirements that conflict with the environment or with the user's own settings.

    Where the installer lacks files and may use no network, that is the error instead.

    Args:
        why: the installer's message.
        requirements: what is required.
        stay: the CUDA wheels that the environment keeps.
        caller: the run of the installer.
        kept: the needs of what is there.
        beside: whether an empty environment would take it: if not, what is there is not the reason.
    """
    failed = lacking(why, requirements, caller)
    if failed is not None:
        return failed
    pinned = f" It holds {', '.join(stay)}, which other packages there need." if stay and beside else ""
    named = set(re.findall(r"[\w.-]*\w", why.lower())) - {required_name(text) for text in requirements}
    needing = list(dict.fromkeys(f"{want.by} needs {want.text}" for want in kept if want.name in named))
    if needing and beside:
        pinned += f" Of what is there, {', '.join(needing[:_NAMED])}."
    forbidding = [name for name in CONSTRAINTS if caller.environment.get(name)]
    under = "".join(f" and under {name}={hide_secrets(caller.environment[name])}" for name in forbidding)
    remedy = look_at_settings(caller, why) or (OF_ITS_OWN if beside else _OF_THE_INDEX)
    if forbidding:
        remedy = f"Look at these constraints first; to do without them: unset {' '.join(forbidding)}"
    elif "exclude-newer" in why:
        remedy = "Look at exclude-newer in uv.toml or pyproject.toml: it leaves out what was uploaded later."
    here = "be installed beside what the environment holds"
    where = here if beside or forbidding else "be had, whatever the environment holds"
    return NothingFits(f"{' '.join(requirements)} cannot {where}{under}.{pinned} {why}", remedy)
