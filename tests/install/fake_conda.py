"""conda's command line over rattler, installed as conda, mamba and micromamba, which are not available to the tests.

It solves, downloads and links as conda documents: ``install`` with specifications, ``--revision`` or ``--file``,
``remove --force``, ``--dry-run --json``, ``conda-meta/history``. Only the program is a stand-in: the packages, the
channel, the prefix and its records are real.

    CONDA_CHANNEL_ALIAS    base URL of channels, as in conda
    FAIL_AFTER=N           fails after an install has removed N packages
    IGNORE_REVISION=1      accepts --revision and does nothing, as mamba did before 2025
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from rattler import PrefixRecord, RepoDataRecord, Subdir, install, solve
from rattler.exceptions import SolverError

NAME = Path(sys.argv[0]).name


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("2.3.2\n" if NAME == "micromamba" else f"{NAME} 25.9.1\n")
        return 0
    parser = argparse.ArgumentParser(NAME)
    parser.add_argument("--prefix", type=Path, required=True)
    for flag in ("yes", "json", "quiet", "dry-run", "freeze-installed", "offline", "force"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("--revision", type=int)
    parser.add_argument("--file", type=Path)
    parser.add_argument("specs", nargs="*")
    options = parser.parse_args(sys.argv[2:])
    options.command = sys.argv[1]
    assert options.command in ("install", "remove")
    assert options.yes
    assert options.json
    try:
        return asyncio.run(run(options))
    except SolverError as error:
        return refuse(str(error))


def refuse(reason: str) -> int:
    """Prints an error in the format of each program."""
    if NAME == "conda":
        answer: dict[str, Any] = {"error": reason, "exception_name": "LibMambaUnsatisfiableError", "message": reason}
    else:
        answer = {"success": False, "solver_problems": [reason]}
    sys.stdout.write(json.dumps(answer))
    return 1


async def run(options: argparse.Namespace) -> int:
    installed = [PrefixRecord.from_path(path) for path in sorted((options.prefix / "conda-meta").glob("*.json"))]
    if options.command == "remove":
        requested: list[Any] = [entry for entry in installed if entry.name.normalized not in options.specs]
    elif options.revision is not None:
        requested = (
            installed
            if os.environ.get("IGNORE_REVISION")
            else await find_exact(packages_at(options.prefix, options.revision))
        )
    elif options.file is not None:
        first, *urls = options.file.read_text(encoding="utf-8").split()
        assert first == "@EXPLICIT"
        explicit = await find_exact({stem(url) for url in urls})
        names = {entry.name.normalized for entry in explicit}
        requested = [entry for entry in installed if entry.name.normalized not in names] + explicit
    else:
        requested = await solve_specs(options, installed)
    return await apply_change(options, installed, requested)


def channel_urls(names: list[str]) -> list[str]:
    alias = os.environ["CONDA_CHANNEL_ALIAS"]
    return [f"{alias}/{name}" for name in names]


async def solve_specs(options: argparse.Namespace, installed: list[PrefixRecord]) -> list[RepoDataRecord]:
    return await solve(
        channel_urls(options.channel),
        [*options.specs, *(entry.name.normalized for entry in installed)],
        platforms=[Subdir("linux-64"), Subdir("noarch")],
        locked_packages=list(installed),
        pinned_packages=list(installed) if options.freeze_installed else None,
    )


async def find_exact(stems: set[str]) -> list[RepoDataRecord]:
    """Returns the packages with these names, versions and builds."""
    parts = (text.rsplit("-", 2) for text in sorted(stems))
    specs = [f"{name}[version='=={release}',build='{build}']" for name, release, build in parts]
    records = await solve(channel_urls(["conda-forge"]), specs, platforms=[Subdir("linux-64"), Subdir("noarch")])
    return [entry for entry in records if f"{entry.name.normalized}-{entry.version}-{entry.build}" in stems]


def stem(url: str) -> str:
    return url.split("#", maxsplit=1)[0].rsplit("/", 1)[-1].removesuffix(".tar.bz2").removesuffix(".conda")


async def apply_change(options: argparse.Namespace, installed: list[PrefixRecord], requested: list[Any]) -> int:
    old = {f"{entry.name.normalized}-{entry.version}-{entry.build}": entry for entry in installed}
    new = {f"{entry.name.normalized}-{entry.version}-{entry.build}": entry for entry in requested}
    link, unlink = (
        [dist_record(new[name]) for name in new.keys() - old],
        [dist_record(old[name]) for name in old.keys() - new],
    )
    explicit = options.file is not None
    if not link and not unlink and not explicit:
        sys.stdout.write(json.dumps({"message": "All requested packages already installed.", "success": True}))
        return 0
    fetch = [
        {**entry, "size": new[f"{entry['name']}-{entry['version']}-{entry['build_string']}"].size} for entry in link
    ]
    actions = {"FETCH": fetch, "LINK": link, "UNLINK": unlink, "PREFIX": str(options.prefix)}
    if not options.dry_run:
        sys.stdout.write('{"fetch": "cupy", "finished": true, "maxval": 1, "progress": 1}\n\0')
        failing = os.environ.get("FAIL_AFTER")
        if failing is not None and options.command == "install" and options.revision is None and not explicit:
            return await fail_midway(options, installed, int(failing))
        names = {entry.name.normalized for entry in requested} if explicit else None
        await install(
            list(requested), options.prefix, installed_packages=installed, reinstall_packages=names, show_progress=False
        )
        append_history(options.prefix, set(old), set(new))
    sys.stdout.write(
        json.dumps({"actions": actions, "dry_run": options.dry_run, "prefix": str(options.prefix), "success": True})
    )
    return 0


async def fail_midway(options: argparse.Namespace, installed: list[PrefixRecord], count: int) -> int:
    """Fails midway: some packages are removed, no new one is linked, and the history has no entry."""
    await install(list(installed[count:]), options.prefix, installed_packages=installed, show_progress=False)
    if os.environ.get("KILL_PARENT"):
        os.kill(os.getppid(), signal.SIGKILL)
        return 1
    sys.stdout.write(json.dumps({"error": "No space left on device", "exception_name": "CondaIOError"}))
    return 1


def dist_record(record: RepoDataRecord) -> dict[str, Any]:
    return {
        "base_url": "https://conda.anaconda.org/conda-forge",
        "build_number": record.build_number,
        "build_string": str(record.build),
        "channel": "conda-forge",
        "dist_name": f"{record.name.normalized}-{record.version}-{record.build}",
        "name": record.name.normalized,
        "platform": record.subdir,
        "version": str(record.version),
    }


def packages_at(prefix: Path, revision: int) -> set[str]:
    current: set[str] = set()
    entries = re.split(r"==>.+?<==", (prefix / "conda-meta/history").read_text(encoding="utf-8"))[1:]
    if NAME != "conda":
        entries = [entry for entry in entries if re.search(r"^[+-]", entry, re.MULTILINE)]
    for entry in entries[: revision + 1]:
        for line in entry.splitlines():
            name = line[1:].rsplit("::", 1)[-1]
            if line.startswith("+"):
                current.add(name)
            elif line.startswith("-"):
                current.discard(name)
    return current


def append_history(prefix: Path, old: set[str], new: set[str]) -> None:
    lines = ["==> 2026-01-01 00:00:00 <==", f"# cmd: {NAME} {' '.join(sys.argv[1:])}"]
    lines += [f"-conda-forge/noarch::{name}" for name in sorted(old - new)]
    lines += [f"+conda-forge/noarch::{name}" for name in sorted(new - old)]
    with (prefix / "conda-meta/history").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # rattler 0.28 sometimes crashes at interpreter shutdown
