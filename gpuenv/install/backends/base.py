"""What the backends share: their options, pins from what an installer printed, and its error output."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.install.plan import Pin, is_name
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, OnText, run_child

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOISE = re.compile(
    r"Using Python|Looking in|ERROR: ResolutionImpossible: for help visit|"
    r"\[notice\]|warning: Requirements file .* does not contain any dependencies"
)
_CAUSED = re.compile(r"^(The conflict is caused by:)\n((?: +\S.*\n)+)", re.MULTILINE)
_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+", re.MULTILINE)
_LONGEST = 1500


@dataclass(frozen=True, slots=True)
class Files:
    """Where the installer's input lies.

    Attributes:
        requirements: what is asked for, one a line.
        constraints: what must hold beside.
        answer: where the installer may write its answer.
    """

    requirements: Path
    constraints: Path
    answer: Path


@dataclass(frozen=True, slots=True)
class Options:
    """What every call of the installer is given.

    Attributes:
        executable: the target's interpreter.
        offline: no network.
        find_links: a folder that is the only source of wheels; null where the user's own configuration decides.
        break_system_packages: the user wants an externally managed Python to be changed.
        python_version: another Python to resolve for than the interpreter's; with it, ``platform``.
        platform: another platform, in uv's words.
    """

    executable: str
    offline: bool = False
    find_links: str | None = None
    break_system_packages: bool = False
    python_version: str | None = None
    platform: str | None = None


def make_pin(
    name: object, release: object, sha256: object = None, size: object = None, wheel: str | None = None
) -> Pin:
    """A pin from what an installer printed; nothing that could be an option or a second line gets through.

    Raises:
        ValueError: when name, version or digest are not what they should be.
    """
    if not isinstance(name, str) or not is_name(name):
        raise ValueError(f"{name!r} is no name of a distribution")
    if not isinstance(release, str):
        raise ValueError(f"{release!r} is no version")  # noqa: TRY004 - one kind of error for all input
    try:
        Version(release)
    except ValueError as error:  # InvalidVersion, or more digits than int takes
        raise ValueError(str(error)) from error
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise ValueError(f"{sha256!r} is no SHA-256 digest")
    return Pin(
        canonicalize_name(name),
        release.strip(),
        (sha256,) if isinstance(sha256, str) else (),
        size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        None,
        wheel,
    )


def lock_text(pins: tuple[Pin, ...]) -> str:
    """Requirements with digests, as ``--require-hashes`` wants them."""
    lines = []
    for pin in pins:
        digests = "".join(f" \\\n    --hash=sha256:{entry}" for entry in pin.sha256)
        lines.append(f"{pin.name}=={pin.release}{digests}\n")
    return "".join(lines)


def file_name(url: object) -> str | None:
    """The last part of an address, which is the wheel's file name; the rest may hold a password."""
    if not isinstance(url, str):
        return None
    name = url.split("#")[0].split("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return name if re.fullmatch(r"[\w.+!%-]+\.whl", name) else None


@dataclass(slots=True)
class Patience:
    """Time budget of all calls of the installer; waiting for the user's consent does not count.

    Attributes:
        left: seconds.
    """

    left: float

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        group: ChildGroup | None = None,
        heard: OnText | None = None,
    ) -> ChildResult:
        """Runs a program for at most the time that is left, see ``run_child``."""
        result = run_child(command, environment, time.monotonic() + self.left, group, heard)
        self.left = max(0.0, self.left - result.duration)
        return result


def complaint(result: ChildResult) -> str:
    """The installer's error message: ASCII, shortened, without secrets."""
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
