"""Asks the real installer what it would do, and for the digests of what it would take."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.install.backends.base import Files, Installer, Options
from gpuenv.install.errors import InstallFailed, NothingFits
from gpuenv.install.records import Command, Pin
from gpuenv.install.refusing import CONSTRAINTS, NOTHING_THERE, cure
from gpuenv.install.timing import Patience
from gpuenv.install.wants import allows, required_name
from gpuenv.matrix.ranges import same_release
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, OnText

_CONFLICT = re.compile(r"No solution found|ResolutionImpossible|conflict|No matching distribution", re.IGNORECASE)
_NOISE = re.compile(
    r"Using Python|Looking in|ERROR: ResolutionImpossible: for help visit|"
    r"\[notice\]|warning: Requirements file .* does not contain any dependencies"
)
_CAUSED = re.compile(r"^(The conflict is caused by:)\n((?: +\S.*\n)+)", re.MULTILINE)
_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+", re.MULTILINE)
_LONGEST = 1500


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever runs the installer.

    Attributes:
        installer: which one.
        options: what every call is given.
        environment: the caller's variables.
        patience: how long it may take.
        group: the children that are ended when nobody waits for them any longer.
    """

    installer: Installer
    options: Options
    environment: Mapping[str, str]
    patience: Patience
    group: ChildGroup

    def run(self, command: Sequence[str], heard: OnText | None = None) -> ChildResult:
        """Runs the installer with the user's own settings."""
        return self.patience.run(command, self.installer.environment(self.environment), self.group, heard)

    def settled(self) -> Caller:
        """The same for versions that are chosen: the variables that limit the choice have had their say."""
        kept = {name: value for name, value in self.environment.items() if name not in CONSTRAINTS}
        return replace(self, environment=kept)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the installer would put in, with digests, and the commands that told it."""

    pins: tuple[Pin, ...]
    commands: tuple[Command, ...]


def resolve_pins(caller: Caller, requirements: Sequence[str], constraints: Sequence[str]) -> tuple[Resolved, str]:
    """What would be installed under these constraints; where that is impossible, nothing and the reason.

    Raises:
        InstallFailed: when the installer fails for another reason: no network, say.
    """
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = _files(Path(name), requirements, constraints)
        command = caller.installer.resolving(caller.options, files)
        result = caller.run(command)
        told = Command("ask what would change", command)
        if result.ending is not Ending.EXITED or result.exit_code != 0:
            why = complaint(result)
            if _is_conflict(result):
                return Resolved((), (told,)), why
            raise InstallFailed(f"{caller.installer.label} could not tell what would change: {why}", cure(why, caller))
        try:
            answer = files.answer.read_text(encoding="utf-8") if files.answer.exists() else ""
            pins = caller.installer.resolved(result.stdout + "\n" + result.stderr, answer)
        except (ValueError, OSError) as error:
            raise InstallFailed(f"{caller.installer.label} gave an answer that is not understood: {error}") from error
    return Resolved(pins, (told,)), ""


@dataclass(frozen=True, slots=True)
class Lock:
    """Exact versions with digests, and the installer's own ``pylock.toml`` where it makes one."""

    pins: tuple[Pin, ...]
    pylock: str | None


def make_lock(
    caller: Caller, requirements: Sequence[str], constraints: Sequence[str], words: Sequence[str] = ()
) -> tuple[Lock | None, str]:
    """What an empty environment would be given under these constraints; where that is impossible, the reason.

    Args:
        caller: who runs the installer.
        requirements: what is asked for.
        constraints: what is held.
        words: options of the installer's own beside: another Python and platform, say.

    Raises:
        InstallFailed: when the installer fails for another reason.
    """
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = _files(Path(name), requirements, constraints)
        result = caller.run((*caller.installer.locking(caller.options, files), *words))
        if result.ending is not Ending.EXITED or result.exit_code != 0:
            why = complaint(result)
            if _is_conflict(result):
                return None, why
            raise InstallFailed(f"{caller.installer.label} could not make the lock: {why}", cure(why, caller))
        try:
            lock = (
                Lock(caller.installer.digested(result.stdout), result.stdout)
                if caller.installer.locks_as_toml
                else Lock(caller.installer.resolved("", files.answer.read_text(encoding="utf-8")), None)
            )
        except (ValueError, OSError) as error:
            raise InstallFailed(f"{caller.installer.label} gave an answer that is not understood: {error}") from error
    refuse_other(caller, requirements, {pin.name: pin.release for pin in lock.pins})
    return lock, ""


def resolve_at_once(
    caller: Caller, requirements: Sequence[str], constraints: Sequence[str], there: Mapping[str, str]
) -> Resolved | None:
    """What would be installed, digests included, by one call that makes a lock in which all that is there is held.

    None where that cannot be done: the installer makes no such lock, or something has to move, or is there in a version
    that no index knows. ``resolve_pins`` then tells more, and takes two calls.

    Args:
        caller: who runs the installer.
        requirements: what is asked for.
        constraints: what is held.
        there: name and version of what is there and stays.
    """
    if not caller.installer.locks_as_toml:
        return None
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        command = caller.installer.locking(caller.options, _files(Path(name), requirements, constraints))
        result = caller.run(command)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        return None
    try:
        pins = caller.installer.digested(result.stdout)
    except ValueError:
        return None
    coming = tuple(pin for pin in pins if not same_release(there.get(pin.name, ""), pin.release))
    return Resolved(coming, (Command("ask what would change", command),))


def with_digests(caller: Caller, resolved: Resolved) -> Resolved:
    """The same pins with the digests of their wheels, and their sizes where the index tells.

    Raises:
        InstallFailed: when the installer fails, or there is a pin that it tells no digest of.
    """
    lacking = tuple(pin for pin in resolved.pins if not pin.sha256)
    if not lacking:
        return resolved
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = _files(Path(name), [f"{pin.name}=={pin.release}" for pin in lacking], [])
        command = caller.installer.digesting(caller.options, files)
        if command is None:
            return _resolved_alone(caller, resolved, lacking)
        result = caller.run(command)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = complaint(result)
        raise InstallFailed(f"{caller.installer.label} could not tell the digests: {why}", cure(why, caller))
    try:
        found = {pin.name: pin for pin in caller.installer.digested(result.stdout)}
    except ValueError as error:
        raise InstallFailed(f"{caller.installer.label} gave an answer that is not understood: {error}") from error
    return _joined(resolved, found, Command("ask for the digests", command))


def _resolved_alone(caller: Caller, resolved: Resolved, lacking: tuple[Pin, ...]) -> Resolved:
    """Pip tells digests of what it would install alone, and what is there already is not that."""
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as name:
        files = _files(Path(name), [f"{pin.name}=={pin.release}" for pin in lacking], [])
        command = (*caller.installer.resolving(caller.options, files), "--ignore-installed", "--no-deps")
        result = caller.run(command)
        try:
            found = {pin.name: pin for pin in caller.installer.resolved("", files.answer.read_text(encoding="utf-8"))}
        except (ValueError, OSError) as error:
            why = complaint(result)
            raise InstallFailed(f"{caller.installer.label} told no digests: {why}", cure(why, caller)) from error
    return _joined(resolved, found, Command("ask for the digests", command))


def _joined(resolved: Resolved, found: Mapping[str, Pin], command: Command) -> Resolved:
    pins = []
    for pin in resolved.pins:
        told = found.get(pin.name)
        if pin.sha256:
            pins.append(pin)
        elif told is None or told.release != pin.release or not told.sha256:
            raise InstallFailed(f"no digest could be had for {pin.name} {pin.release}")
        else:
            pins.append(replace(told, former=pin.former))
    return Resolved(tuple(pins), (*resolved.commands, command))


def complaint(result: ChildResult) -> str:
    """What the installer said went wrong, in ASCII, on few lines and without secrets."""
    if result.ending is Ending.TIMED_OUT:
        return f"no end within {result.duration:.0f} s"
    if result.ending is Ending.NOT_STARTED:
        return f"it could not be started: {result.error}"
    if result.ending is Ending.CRASHED:
        return f"it was ended by {result.signal_name}"
    said = (result.stderr.strip() or result.stdout.strip()).encode("ascii", "replace").decode()
    lines = [line.strip(" ?|") for line in _FRAMES.sub("", said).splitlines()]
    kept = [line for line in lines if line.strip("^") and not _NOISE.match(line)]
    return _shortened(hide_secrets(" ".join([*_caused_by(result.stdout), *kept]))) or f"exit code {result.exit_code}"


def _caused_by(printed: str) -> list[str]:
    """What pip says of a conflict beside its errors: who needs what."""
    match = _CAUSED.search(printed.encode("ascii", "replace").decode())
    return [f"{match[1]} {'; '.join(line.strip() for line in match[2].splitlines())}."] if match else []


def _shortened(text: str) -> str:
    """The beginning of a long one, where uv says what is wrong, and the end, where pip does."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 3]} [...] {text[-_LONGEST * 2 // 3 :]}"


def _is_conflict(result: ChildResult) -> bool:
    """Whether the resolver found that it cannot be, rather than that nothing can be asked."""
    return bool(_CONFLICT.search(result.stderr)) and not NOTHING_THERE.search(result.stderr)


def refuse_other(caller: Caller, requirements: Sequence[str], releases: Mapping[str, str]) -> None:
    """Ends where an installer is content with other than it was asked for: uv's settings can exclude and override.

    Args:
        caller: who ran the installer.
        requirements: what was asked for.
        releases: what would be there, by normalised names.

    Raises:
        NothingFits: when one is not among them, or not in a version that was asked for.
    """
    asked = [(text, name) for text in requirements if (name := required_name(text)) is not None]
    left_out = [name for _, name in asked if name not in releases]
    other = [f"{name} {releases[name]} for {text}" for text, name in asked if not allows(text, releases.get(name))]
    if left_out or other:
        told = f"leaves out {', '.join(left_out)}" if left_out else f"takes {', '.join(other)}"
        raise NothingFits(
            f"{caller.installer.label} {told}, as one of its settings tells it to",
            "Look at exclude-dependencies, override-dependencies and no-emit-package in uv.toml or pyproject.toml, and "
            "at UV_EXCLUDE and UV_OVERRIDE.",
        )


def _files(folder: Path, requirements: Sequence[str], constraints: Sequence[str]) -> Files:
    files = Files(folder / "requirements.txt", folder / "constraints.txt", folder / "answer.json")
    files.requirements.write_text("".join(f"{text}\n" for text in requirements), encoding="utf-8")
    files.constraints.write_text("".join(f"{text}\n" for text in constraints), encoding="utf-8")
    return files
