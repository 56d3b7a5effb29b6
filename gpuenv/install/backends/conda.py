"""conda, mamba and micromamba: command lines, and parsers of their output.

The options are those of conda's reference ("conda install": --prefix, --yes, --json, --quiet, --channel, --offline,
--freeze-installed, --file, --revision; "conda remove": --force), which mamba and micromamba share. mamba knows
--revision since mamba-org/mamba pull request 3966 (2025); earlier versions accept it and do nothing (issues 803, 2209,
2836), so the result has to be checked. Output: conda, ``conda.cli.install`` and ``conda.exceptions`` ("actions" with
FETCH, LINK and UNLINK; "error", "exception_name"); mamba, ``MTransaction::log_json`` and ``install_specs``
("solver_problems").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpuenv.install.backends.base import whole_size
from gpuenv.install.plan import Pin

_VERSION = re.compile(r"^(?:(?:conda|mamba|micromamba) )?(\d+(?:\.\d+)+)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z0-9_][\w.!+-]*")
_CHANGE = re.compile(r"^[+-]", re.MULTILINE)
_HEADER = re.compile(r"==>\s*.+?\s*<==")
# Variables that select another environment or change the request; each tool reads its own.
_REMOVED = re.compile(r"(CONDA|MAMBA)_(DRY_RUN|ALWAYS_YES|JSON|QUIET|DOWNLOAD_ONLY|FORCE_REINSTALL|TARGET_PREFIX)")
_ABSENT = ("PackagesNotFound", "ResolvePackageNotFound")
_UNFIT = (*_ABSENT, "Unsatisfiable", "SpecsConfigurationConflict", "InvalidSpec")


@dataclass(frozen=True, slots=True)
class CondaTool:
    """A program that installs conda packages: path, family and reported version."""

    program: str
    family: str  # ``conda``, ``mamba`` or ``micromamba``
    version: str

    @property
    def label(self) -> str:
        """Its name and version."""
        return f"{self.family} {self.version}"

    def install_command(
        self, prefix: str, specs: Sequence[str], channel: str, *, dry_run: bool, offline: bool, freeze: bool
    ) -> tuple[str, ...]:
        """Installs these specifications, or reports the changes; ``freeze`` keeps installed packages."""
        options = {"--freeze-installed": freeze, "--offline": offline, "--dry-run": dry_run}
        flags = (name for name, is_set in options.items() if is_set)
        return (*self._call("install", prefix), f"--channel={channel}", *flags, *specs)

    def revert_command(self, prefix: str, revision: int, *, offline: bool) -> tuple[str, ...]:
        """Reverts to a revision of the environment's history."""
        return (*self._call("install", prefix), *(["--offline"] if offline else []), f"--revision={revision}")

    def explicit_command(self, prefix: str, file: Path, *, offline: bool) -> tuple[str, ...]:
        """Installs exactly the package URLs in a file (conda list --explicit)."""
        return (*self._call("install", prefix), *(["--offline"] if offline else []), f"--file={file}")

    def remove_command(self, prefix: str, names: Sequence[str]) -> tuple[str, ...]:
        """Removes these packages but not their dependents."""
        return (*self._call("remove", prefix), "--force", *names)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The user's variables, except those that change the request."""
        kept = {name: value for name, value in variables.items() if not _REMOVED.fullmatch(name)}
        return {**kept, "NO_COLOR": "1"}

    def revision(self, history: str) -> int | None:
        """The newest revision in ``conda-meta/history``; None without any.

        conda counts every entry (``History.object_log``), mamba those that installed or removed something
        (``History::get_user_requests``).
        """
        entries = _HEADER.split(history)[1:]
        counted = [entry for entry in entries if self.family == "conda" or _CHANGE.search(entry)]
        return len(counted) - 1 if counted else None

    def _call(self, command: str, prefix: str) -> tuple[str, ...]:
        return (self.program, command, f"--prefix={prefix}", "--yes", "--json", "--quiet")


class CondaChange(NamedTuple):
    """The changes that an install would make."""

    link: tuple[Pin, ...]  # packages to install
    unlink: Mapping[str, str]  # name and version of packages to remove or replace
    fetch: int | None  # bytes to download, if reported


class CondaRefusal(ValueError):  # noqa: N818 - the name states the problem
    """The tool reports a failure.

    Attributes:
        unfit: no set of packages satisfies the specifications.
        absent: a package is in no channel or, offline, in no cached one.
    """

    def __init__(self, message: str, *, unfit: bool, absent: bool = False) -> None:
        super().__init__(message)
        self.unfit = unfit
        self.absent = absent


def tool_version(printed: str) -> str | None:
    """The version in the output of ``--version``; mamba 1 prints conda's in a second line."""
    match = _VERSION.search(printed)
    return match[1] if match else None


def parse_change(printed: str) -> CondaChange:
    """Parses the output of a dry run.

    Raises:
        CondaRefusal: when the tool reports a failure.
        ValueError: when the output is invalid.
    """
    answers = [entry for entry in _objects(printed) if {"actions", "success", "error", "message"} & set(entry)]
    if not answers:
        raise ValueError("expected an object with the actions")
    answer = answers[-1]
    if answer.get("success") is False or "error" in answer or answer.get("solver_problems"):
        raise _refusal(answer)
    actions = answer.get("actions", {})
    if isinstance(actions, list):  # conda 4.4 and 4.5: one for each prefix
        actions = actions[0] if actions else {}
    if not isinstance(actions, dict):
        raise ValueError("actions: expected an object")  # noqa: TRY004 - one kind of error for all input
    link = tuple(_pin(entry) for entry in _entries(actions, "LINK"))
    unlink = {pin.name: pin.release for pin in map(_pin, _entries(actions, "UNLINK"))}
    sizes = [whole_size(entry.get("size")) for entry in _entries(actions, "FETCH")]
    known = [size for size in sizes if size is not None]
    return CondaChange(link, unlink, sum(known) if len(known) == len(sizes) else None)


def _refusal(answer: Mapping[str, Any]) -> CondaRefusal:
    problems = answer.get("solver_problems")
    kind = str(answer.get("exception_name", ""))
    message = answer.get("message") or answer.get("error") or "no message"
    messages = problems if isinstance(problems, list) else [message]
    text = " ".join(" ".join(str(entry).split()) for entry in messages)
    unfit = bool(problems) or any(name in kind for name in _UNFIT)
    return CondaRefusal(text, unfit=unfit, absent=any(name in kind for name in _ABSENT))


def _objects(printed: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text: conda prints progress as separate objects, and plug-ins add lines."""
    decoder, start = json.JSONDecoder(), 0
    while (start := printed.find("{", start)) >= 0:
        try:
            found, start = decoder.raw_decode(printed, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        if isinstance(found, dict):
            yield found


def _entries(actions: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = actions.get(key) or []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"{key}: expected a list of packages")
    return found


def _pin(entry: Mapping[str, Any]) -> Pin:
    """A package; names may begin with an underscore, and versions are conda's own."""
    name, release, sha256, size = (entry.get(key) for key in ("name", "version", "sha256", "size"))
    for text, kind in ((name, "name"), (release, "version")):
        if not isinstance(text, str) or not _WORD.fullmatch(text):
            raise ValueError(f"{text!r} is no {kind} of a conda package")
    digest = (sha256,) if isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256) else ()
    return Pin(str(name), str(release), digest, whole_size(size))


def clean_url(file: str) -> str:
    """A package's URL without passwords and tokens, which do not belong in a journal."""
    return re.sub(r"/t/[^/]+/", "/", re.sub(r"//[^/@]*@", "//", file))
