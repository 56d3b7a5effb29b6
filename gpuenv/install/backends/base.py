"""Shared by the backends: options, time budget, pins from printed output, and error messages."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.install.plan import Pin, is_name
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, OnText, run_child

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOISE = re.compile(
    r"Using Python|Looking in|ERROR: ResolutionImpossible: for help visit|"
    r"\[notice\]|warning: Requirements file .* does not contain any dependencies"
)
_CAUSED = re.compile(r"^(The conflict is caused by:)\n((?: +\S.*\n)+)", re.MULTILINE)
_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+", re.MULTILINE)
_LONGEST = 1500
LARGEST_CONFIGURATION = 4 * 1024 * 1024  # bytes of a configuration file
FALSE = ("", "0", "f", "false", "n", "no", "off")  # values of environment variables of uv and pip


class InstallerSetting(NamedTuple):
    """A setting of an installer, and the file or variable that contains it or the program that reports it."""

    key: str
    origin: str


class Files(NamedTuple):
    """The installer's input, requirements and constraints, and its output file."""

    requirements: Path
    constraints: Path
    answer: Path


@dataclass(frozen=True, slots=True)
class InstallerOptions:
    """Options of every call of the installer."""

    executable: str  # the target's interpreter
    offline: bool = False
    find_links: str | None = None  # a folder that is the only source of wheels
    break_system_packages: bool = False  # allow changes to an externally managed Python
    python_version: str | None = None  # resolve for another Python; requires ``platform``
    platform: str | None = None  # resolve for another platform, in uv's notation


def make_pin(
    name: object, release: object, sha256: object = None, size: object = None, wheel: str | None = None
) -> Pin:
    """Makes a pin from printed output; refuses text that could be an option or a second line.

    Raises:
        ValueError: when name, version or digest is invalid.
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
    digests = (sha256,) if isinstance(sha256, str) else ()
    size = whole_size(size)
    return Pin(
        canonicalize_name(name), release.strip(), digests, size if size is None or size >= 0 else None, None, wheel
    )


def whole_size(size: object) -> int | None:
    """A size in JSON; None for anything but an integer."""
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def file_name(url: object) -> str | None:
    """The file name of a wheel's URL; the rest may contain a password."""
    if not isinstance(url, str):
        return None
    name = url.split("#")[0].split("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return name if re.fullmatch(r"[\w.+!%-]+\.whl", name) else None


@dataclass(slots=True)
class TimeBudget:
    """Time budget in seconds, shared by all calls of the installer; waiting for consent does not count."""

    left: float

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        group: ChildGroup | None = None,
        on_text: OnText | None = None,
    ) -> ChildResult:
        """Runs a program within the remaining time, see ``run_child``."""
        result = run_child(command, environment, time.monotonic() + self.left, group, on_text)
        self.left = max(0.0, self.left - result.duration)
        return result


def succeeded(result: ChildResult) -> bool:
    """Whether a program exited with code 0."""
    return result.ending is Ending.EXITED and result.exit_code == 0


def complaint(result: ChildResult) -> str:
    """The installer's error message: ASCII, shortened, without secrets."""
    if result.ending is Ending.TIMED_OUT:
        ran = f"it was ended after {result.duration:.0f} s" if result.duration >= 1 else "no time was left for it"
        return f"{ran}: the time limit of all its runs is set by --install-timeout"
    if result.ending is Ending.NOT_STARTED:
        return f"it could not be started: {result.error}"
    if result.ending is Ending.CRASHED:
        return f"it was killed by {result.signal_name}"
    printed = (result.stderr.strip() or result.stdout.strip()).encode("ascii", "replace").decode()
    lines = [line.strip(" ?|") for line in _FRAMES.sub("", printed).splitlines()]
    kept = [line for line in lines if line.strip("^") and not _NOISE.match(line)]
    # pip prints the packages of a conflict to standard output.
    match = _CAUSED.search(result.stdout.encode("ascii", "replace").decode())
    caused = [f"{match[1]} {'; '.join(line.strip() for line in match[2].splitlines())}."] if match else []
    text = hide_secrets(" ".join([*caused, *kept])) or f"exit code {result.exit_code}"
    # Shortened to the beginning, where uv states the problem, and the end, where pip does.
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 3]} [...] {text[-_LONGEST * 2 // 3 :]}"
